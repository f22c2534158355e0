//! Defines the changes of a run, as events and the result show them.

use serde::{Deserialize, Serialize};

/// The changes of a run, as the result shows them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ChangesReport {
    /// `dry-run`, `apply`, `commit` or `branch`.
    pub mode: String,
    /// The commit that the patch is against; `None` when unborn or without a repository.
    pub base: Option<String>,
    /// Each changed file.
    pub files: Vec<FileReport>,
    /// What `git apply` takes; absent where it is not UTF-8.
    pub patch: Option<String>,
    /// The same in base64 where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub patch_base64: Option<String>,
    /// Digest of the patch's bytes; `None` without changes.
    pub patch_sha256: Option<String>,
    /// The file of `--patch-file`.
    pub patch_file: Option<String>,
    /// Whether the changes are in the tree or in a commit now.
    pub applied: bool,
    /// Whether a delivery began and was rolled back.
    pub rolled_back: bool,
    /// Whether the change touches the policy.
    pub policy_changed: bool,
    /// The issue that the change closes, as the recipe says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closes: Option<u64>,
}

/// A changed file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FileReport {
    /// Relative to the repository root (without a repository: to the workspace).
    pub path: String,
    /// `added`, `modified` or `deleted`.
    pub kind: String,
    /// Lines added.
    pub added: u64,
    /// Lines removed.
    pub removed: u64,
    /// Digest of the contents before.
    pub sha256_before: Option<String>,
    /// Digest of the contents after.
    pub sha256_after: Option<String>,
    /// Whether it is binary.
    pub binary: bool,
    /// Whether something runs it later without being asked (package scripts, Makefile, build.rs …).
    pub executes_later: bool,
}

impl FileReport {
    /// Returns the lines that are added and removed in all of these files.
    pub fn lines(files: &[FileReport]) -> (u64, u64) {
        files.iter().fold((0, 0), |(added, removed), file| (added + file.added, removed + file.removed))
    }
}
