//! Reads ignore files where the caller sees them: on the disk, staged, or in the command workspace.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::kinds::{BESIDE, Ignored, TrustedIgnores};
use crate::bounded;
use crate::change::{ChangeSet, Entry};
use crate::path::RelPath;
use crate::workspace::folder::is_missing;
use crate::workspace::tree::layer::Layer;
use crate::workspace::view::Workspace;

/// Where ignore files are read from: the staged view, as values that other threads can hold.
#[derive(Debug, Clone)]
pub struct Source {
    pub(super) root: PathBuf,
    /// Where the files of the tree are: the root itself, or the command workspace in its place.
    files: PathBuf,
    /// What commands have written over those files, if they have a layer of their own.
    layer: Option<Arc<Layer>>,
    pub(super) changes: Arc<ChangeSet>,
    /// `.qwenignore` of the trusted commit, by directory: these apply in addition to the tree's, which cannot lift
    /// them.
    pub(super) trusted: TrustedIgnores,
    pub(super) without: Ignored,
    /// The names of the files that apply like `.qwenignore`.
    pub(super) beside: Arc<[String]>,
    /// The first ignore file that could not be read: without its rules nothing may be concluded.
    fault: Arc<OnceLock<(PathBuf, std::io::ErrorKind)>>,
}

impl Source {
    /// Takes the staged view as it is now.
    pub fn new(workspace: &Workspace) -> Source {
        let root = workspace.root().to_path_buf();
        Source {
            files: root.clone(),
            layer: None,
            root,
            changes: Arc::new(workspace.changes()),
            trusted: workspace.trusted_ignores(),
            without: workspace.without_ignore_rules(),
            beside: workspace.ignore_files(),
            fault: Arc::default(),
        }
    }

    /// Takes the files of another tree for those at `root`, nothing staged; directories above and repositories stay.
    pub fn of_tree(root: &Path, files: &Path) -> Source {
        Source {
            root: root.to_path_buf(),
            files: files.to_path_buf(),
            layer: None,
            changes: Arc::default(),
            trusted: Arc::default(),
            without: Ignored::default(),
            beside: BESIDE.map(str::to_owned).into(),
            fault: Arc::default(),
        }
    }

    /// Takes the workspace at `root` as it is seen through a layer, with nothing staged.
    pub fn of_layer(root: &Path, layer: Arc<Layer>) -> Source {
        Source { layer: Some(layer), ..Source::of_tree(root, root) }
    }

    /// Takes the workspace at `root` as it is with these changes staged.
    pub fn of_changes(root: &Path, changes: ChangeSet) -> Source {
        Source { changes: Arc::new(changes), ..Source::of_tree(root, root) }
    }

    /// Takes a directory outside the workspace, with nothing staged.
    pub fn beside(workspace: &Workspace, folder: &Path) -> Source {
        let (without, beside) = (workspace.without_ignore_rules(), workspace.ignore_files());
        Source { without, beside, ..Source::of_tree(folder, folder) }
    }

    /// Returns the root of the workspace.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the changes that the view shows.
    pub fn changes(&self) -> &ChangeSet {
        &self.changes
    }

    /// Tells whether every ignore file that was asked for so far could be read, or does not exist.
    pub fn check(&self) -> std::io::Result<()> {
        match self.fault.get() {
            None => Ok(()),
            Some((path, kind)) => Err(std::io::Error::new(*kind, format!("{}: {kind}", path.display()))),
        }
    }

    /// Reads the ignore file of a directory of the workspace.
    pub(super) fn read(&self, folder: &RelPath, name: &str) -> Option<Vec<u8>> {
        let path = folder.child(name)?;
        match self.changes.staged(&path) {
            Some(Entry::File { content, .. }) => Some(content.to_vec()),
            Some(Entry::Absent | Entry::Link { .. }) => None,
            None => {
                let read = match &self.layer {
                    Some(layer) => of_layer(layer, &path),
                    None => regular(&path.under(&self.files)),
                };
                read.unwrap_or_else(|error| {
                    let _first = self.fault.set((path.as_path().into(), error.kind()));
                    None
                })
            }
        }
    }
}

/// Reads a small regular file as commands see it.
fn of_layer(layer: &Layer, path: &RelPath) -> std::io::Result<Option<Vec<u8>>> {
    let Some(place) = layer.place(path)? else { return Ok(None) };
    let Some(stat) = place.folder.stat(place.name)? else { return Ok(None) };
    if u64::try_from(stat.st_size).is_ok_and(|size| size > LARGEST) {
        return Ok(None);
    }
    Ok(match place.folder.entry(place.name)? {
        Entry::File { content, .. } => Some(content.to_vec()),
        Entry::Absent | Entry::Link { .. } => None,
    })
}

/// Maximum bytes of an ignore file that is read.
const LARGEST: u64 = 4 * 1024 * 1024;

/// Reads a small regular file; links are not followed, as git does not follow them here.
///
/// A missing or unreadable file has no rules, as in git; every other error is reported.
pub(super) fn regular(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    let read = || {
        let metadata = std::fs::symlink_metadata(path)?;
        match metadata.is_file() && metadata.len() <= LARGEST {
            true => bounded::regular(path, LARGEST).map(Some),
            false => Ok(None),
        }
    };
    match read() {
        Err(error) if is_missing(&error) || error.kind() == std::io::ErrorKind::PermissionDenied => Ok(None),
        read => read,
    }
}
