//! A folder as a library of texts for the prompt: context files, what they import, and commands.
//!
//! What the policy keeps from the model, what `.qwenignore` names and what a link leads out to is not in it.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use crate::path::RelPath;
use crate::policy::Policy;
use crate::policy::decide::Facts;
use crate::prompt::context_files::{FILE_BYTES, Library};
use crate::workspace::Workspace;
use crate::workspace::ignore::{Kind, Rules};

use super::outcome;

/// The readable texts below one folder.
pub struct Folder {
    workspace: Arc<Workspace>,
    rules: Rules,
    facts: Facts,
    policy: Policy,
}

impl Folder {
    /// Opens a folder; `None` if there is none.
    pub fn open(root: &Path, home: &str, policy: &Policy) -> Option<Folder> {
        let workspace = Arc::new(Workspace::open(root).ok()?);
        let facts = outcome::facts(&workspace, home.to_owned(), std::path::PathBuf::new(), Vec::new(), Vec::new());
        Some(Folder { rules: Rules::new(&workspace), facts, workspace, policy: policy.clone() })
    }

    /// Tells whether something of this name is there, readable or not.
    pub fn has(&self, path: &RelPath) -> bool {
        std::fs::symlink_metadata(path.under(self.workspace.root())).is_ok_and(|data| !data.is_dir())
    }

    /// Returns the files below a folder whose names end in one of these, in order, at most `most`.
    pub fn files(&self, folder: &RelPath, endings: &[&str], most: usize) -> Vec<RelPath> {
        let mut found = Vec::new();
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
        let root = self.workspace.root();
        let real = path.under(root).canonicalize().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => "there is no such file".to_owned(),
            _ => format!("it cannot be read: {error}"),
        })?;
        let target = RelPath::below(root, &real).ok_or("it leads outside of the root")?;
        for path in [path, &target] {
            if self.rules.of(path, Kind::File).qwen {
                return Err("it is ignored by .qwenignore".into());
            }
            self.policy.may_read(path, &self.facts).map_err(|denial| format!("the policy: {}", denial.reason))?;
        }
        let unreadable = |error: std::io::Error| format!("it cannot be read: {error}");
        // Looked at before it is opened: opening a pipe would wait for its writer.
        if !std::fs::metadata(&real).map_err(unreadable)?.is_file() {
            return Err("it is no regular file".into());
        }
        let mut bytes = Vec::new();
        let file = std::fs::File::open(&real).map_err(unreadable)?;
        // A little more than is used: whoever cuts it then sees that there is more.
        file.take(FILE_BYTES as u64 * 2).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.contains(&0) {
            return Err("it is no text".into());
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
