//! Offers a directory as a library of texts for the prompt: context files, their imports, commands, agents and skills.
//!
//! The directory is on the disk or in a trusted commit. It does not contain files that the policy keeps from the model,
//! that `.qwenignore` names or that a link outside leads to.

use std::path::Path;
use std::sync::Arc;

use crate::bounded;
use crate::git::trusted::TrustedTree;
use crate::path::{Node, RelPath, Tree};
use crate::policy::Facts;
use crate::policy::Policy;
use crate::prompt::context_files::{FILE_BYTES, Library};
use crate::workspace::Workspace;
use crate::workspace::ignore::{Kind, Rules};

use crate::run::rules::trust::Source;

/// The readable texts below one directory.
pub struct Folder {
    workspace: Arc<Workspace>,
    commit: Option<TrustedTree>,
    rules: Rules,
    facts: Facts,
    policy: Policy,
}

/// A tree without links: in a commit links are refused, not followed.
struct Plain;

impl Tree for Plain {
    fn look(&self, _path: &Path) -> std::io::Result<Option<Node>> {
        Ok(None)
    }

    fn names(&self, _path: &Path) -> std::io::Result<Vec<std::ffi::OsString>> {
        Ok(Vec::new())
    }
}

impl Folder {
    /// Opens a directory; `None` if there is none.
    pub fn open(root: &Path, home: &str, policy: &Policy) -> Option<Folder> {
        let workspace = Arc::new(Workspace::open(root).ok()?);
        let facts = crate::run::rules::facts::facts(
            &workspace,
            home.to_owned(),
            std::path::PathBuf::new(),
            Vec::new(),
            Default::default(),
        );
        Some(Folder { rules: Rules::new(&workspace), facts, workspace, commit: None, policy: policy.clone() })
    }

    /// Opens the project's directory from where its texts are trusted; `None` if they are not.
    pub fn of_project(source: Source<'_>, top: &Path, home: &str, policy: &Policy) -> Option<Folder> {
        let on_disk = match source {
            Source::Nowhere => None,
            Source::Disk | Source::Commit(_) => Folder::open(top, home, policy),
        }?;
        Some(match source {
            Source::Commit(tree) => {
                let facts = Facts { tree: Arc::new(Plain), ..on_disk.facts };
                Folder { commit: Some(tree.clone()), facts, ..on_disk }
            }
            Source::Disk | Source::Nowhere => on_disk,
        })
    }

    /// Tells whether something of this name is there, readable or not.
    pub fn has(&self, path: &RelPath) -> bool {
        match &self.commit {
            Some(commit) => path.as_path().to_str().is_some_and(|path| commit.has(path).unwrap_or(true)),
            None => std::fs::symlink_metadata(path.under(self.workspace.root())).is_ok_and(|data| !data.is_dir()),
        }
    }

    /// Returns the files below a directory with one of these suffixes, in order, at most `most`.
    pub fn files(&self, folder: &RelPath, endings: &[&str], most: usize) -> Vec<RelPath> {
        let mut found = Vec::new();
        if let Some(commit) = &self.commit {
            let below = commit.files_below(&folder.to_string_lossy()).unwrap_or_default();
            let named = below.iter().filter(|path| endings.iter().any(|ending| path.ends_with(ending)));
            return named.filter_map(RelPath::new).take(most).collect();
        }
        let mut folders = vec![(folder.clone(), 0)];
        while let Some((folder, depth)) = folders.pop() {
            let Ok(entries) = std::fs::read_dir(folder.under(self.workspace.root())) else { continue };
            let mut entries: Vec<_> = entries.flatten().collect();
            entries.sort_by_key(std::fs::DirEntry::file_name);
            for entry in entries {
                let Some(path) = folder.child(entry.file_name()) else { continue };
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if is_folder && depth < 8 {
                    folders.push((path, depth + 1));
                } else if !is_folder && endings.iter().any(|ending| path.to_string_lossy().ends_with(ending)) {
                    found.push(path);
                }
            }
            if found.len() >= most {
                break;
            }
        }
        found.truncate(most);
        found.sort();
        found
    }
}

impl Library for Folder {
    fn read(&self, path: &RelPath) -> Result<String, String> {
        if let Some(commit) = &self.commit {
            self.permits(path)?;
            let path = path.as_path().to_str().ok_or("its name is not UTF-8")?;
            let bytes = commit.read(path).map_err(|error| error.to_string())?.ok_or("it does not exist")?;
            return text_of(bytes);
        }
        let root = self.workspace.root();
        let real = path.under(root).canonicalize().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => "it does not exist".to_owned(),
            _ => format!("it cannot be read: {error}"),
        })?;
        let target = RelPath::below(root, &real).ok_or("it points outside the workspace")?;
        for path in [path, &target] {
            self.permits(path)?;
        }
        let unreadable = |error: std::io::Error| format!("it cannot be read: {error}");
        // A little more than is used, so that whoever cuts it sees that there is more.
        text_of(bounded::beginning(&real, FILE_BYTES as u64 * 2).map_err(unreadable)?)
    }
}

impl Folder {
    /// Files that the policy or an ignore file of the tree excludes are missing, wherever the text comes from.
    fn permits(&self, path: &RelPath) -> Result<(), String> {
        if self.rules.of(path, Kind::File).qwen {
            return Err("it is ignored by .qwenignore".into());
        }
        self.policy.may_read(path, &self.facts).map_err(|denial| format!("the policy: {}", denial.reason))
    }
}

fn text_of(bytes: Vec<u8>) -> Result<String, String> {
    if bytes.contains(&0) {
        return Err("it is not text".into());
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
