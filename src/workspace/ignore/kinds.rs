//! Names what ignore rules distinguish, and what they decide.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// The kind of a path, as far as patterns distinguish it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Folder,
    /// Anything else, including a link to a directory.
    File,
}

/// Files that apply like `.qwenignore`, unless the settings name others.
pub const BESIDE: [&str; 2] = [".agentignore", ".aiignore"];

impl Kind {
    /// Returns the kind of what a directory lists.
    pub fn of(listed: std::fs::FileType) -> Kind {
        if listed.is_dir() { Kind::Folder } else { Kind::File }
    }
}

/// Which rules ignore a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ignored {
    /// `.gitignore` and `.git/info/exclude`.
    pub git: bool,
    /// `.qwenignore` and the files that apply like it.
    pub qwen: bool,
}

/// The texts of `.qwenignore` files of the trusted commit, by their absolute directories.
pub type TrustedIgnores = Arc<BTreeMap<PathBuf, Vec<u8>>>;
