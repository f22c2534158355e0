//! Makes git's directory of a command workspace.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use crate::change::Entry;
use crate::git::repository::Repository;
use crate::git::scratch_git::{self, Parts};
use crate::path::RelPath;
use crate::workspace::folder::Folder;

/// The name of git's directory where it was taken out of the tree.
const APART: &str = "git";

/// What names programs that git starts, or the directory that does.
const SETTINGS: [&str; 4] = ["config", "config.worktree", "commondir", "info/attributes"];

/// Git's directory of the command workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scratch {
    /// Where it is.
    pub folder: PathBuf,
    /// The top directory of the tree whose files it speaks of.
    pub work_tree: PathBuf,
    /// The real one that it stands for: a directory, or in a linked work tree a file.
    pub stands_for: PathBuf,
    /// The real repository's objects.
    pub objects: PathBuf,
    /// [`SETTINGS`] as they were made.
    settings: Vec<(RelPath, Entry)>,
}

impl Scratch {
    /// Tells whether it was taken out of the copy whose files it speaks of (`CommandTree::keep_git_apart`).
    pub fn is_apart(&self) -> bool {
        self.folder.file_name().is_some_and(|name| name == APART)
    }

    /// Puts back what commands have changed of git's settings: the next git command is judged by those of the project, and
    /// may start nothing that another command has named since.
    pub fn put_settings_back(&self) -> io::Result<()> {
        let (Some(above), Some(name)) = (self.folder.parent(), self.folder.file_name()) else { return Ok(()) };
        let above = Folder::root_of_ours(above)?;
        let git = match above.enter_name(name) {
            Ok(git) => git,
            // A command has removed it, or put something else there.
            Err(_) => return above.clear(name),
        };
        for (path, wanted) in &self.settings {
            let (folder, name) = git.make_way_to(path)?;
            if !holds(&folder, name, wanted)? {
                folder.clear(name)?;
                folder.write(name, wanted)?;
            }
        }
        Ok(())
    }

    /// Moves it out of the tree to `directory`, unless it is elsewhere already.
    pub(super) fn keep_apart(&mut self, directory: &Path) -> io::Result<()> {
        if self.folder != self.work_tree.join(".git") {
            return Ok(());
        }
        let apart = directory.canonicalize()?.join(APART);
        std::fs::rename(&self.folder, &apart)?;
        self.folder = apart;
        Ok(())
    }
}

/// Tells whether what is at a name is this entry. What has another size is not read.
fn holds(folder: &Folder, name: &OsStr, wanted: &Entry) -> io::Result<bool> {
    let Some(stat) = folder.stat(name)? else { return Ok(*wanted == Entry::Absent) };
    match wanted {
        Entry::File { content, .. } if usize::try_from(stat.st_size).ok() == Some(content.len()) => {
            Ok(matches!(folder.entry(name)?, Entry::File { content: found, .. } if found == *content))
        }
        _ => Ok(false),
    }
}

/// Makes git's directory for a tree, and returns it with what is read through it; none where the repository's own parts
/// are elsewhere. `work_tree` is the top of the tree, if it is not the repository's own.
pub(super) fn scratch_git_of(
    repository: Option<&Repository>,
    objects_at: Option<&Path>,
    folder: PathBuf,
    work_tree: Option<&Path>,
) -> io::Result<(Option<Scratch>, Vec<PathBuf>)> {
    let Some(repository) = repository else { return Ok((None, Vec::new())) };
    let Some(mut parts) = Parts::of(repository) else { return Ok((None, Vec::new())) };
    std::fs::create_dir(&folder)?;
    let lacks = parts.forget_borrowed(repository, &folder)?;
    scratch_git::make(repository, &parts, &folder, objects_at)?;
    if lacks {
        scratch_git::copy_reachable(repository, &folder)?;
    }
    let reads = parts.reads();
    let work_tree = work_tree.unwrap_or(&repository.top).to_path_buf();
    let stands_for = repository.top.join(".git");
    let made = Folder::root(&folder)?;
    let entry = |path: RelPath| made.entry_at(&path).map(|entry| (path, entry));
    let settings = SETTINGS.into_iter().filter_map(RelPath::new).map(entry).collect::<io::Result<_>>()?;
    Ok((Some(Scratch { folder, work_tree, stands_for, objects: parts.objects, settings }), reads))
}
