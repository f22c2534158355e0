//! Holds the programs of the workspace that a command starts to what the policy or the beginning of the run says.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::Runner;
use crate::base::digest::sha256;
use crate::change::Entry;
use crate::path::RelPath;
use crate::policy::CommandPlan;
use crate::policy::grant::Start;
use crate::policy::packages::{is_cache, packages_of};
use crate::policy::programs::only_reads;
use crate::tools::{ToolError, ToolErrorKind};
use crate::workspace::disk::Disk;
use crate::workspace::tree::CommandTree;

/// The most links from a program's name to the program.
const MOST_LINKS: usize = 40;

impl Runner {
    /// Returns the pinned programs that a command starts; one that differs from the policy's digest is an error.
    pub(super) fn pinned(&self, plan: &CommandPlan, lent: &CommandTree) -> Result<Vec<PathBuf>, ToolError> {
        let mut found = Vec::new();
        for (path, wanted) in self.options.policy.pinned_programs() {
            let is_it = |name: &String| name.contains('/') && RelPath::new(name).as_ref() == Some(&path);
            if !plan.programs.iter().any(is_it) {
                continue;
            }
            // Any other program that can write could replace it.
            let mut others = plan.programs.iter().filter(|name| !is_it(name));
            let writes = match &plan.start {
                Start::Pipeline(_) => false,
                Start::Script(text) | Start::AsWritten(text) => text.contains('>'),
            };
            if writes || others.any(|name| !only_reads(name)) {
                return Err(ToolError {
                    message: format!(
                        "Denied by policy: {path} is pinned, and other parts of the same command could change it. Start \
                         it in a command of its own, or with programs that only read."
                    ),
                    kind: ToolErrorKind::Denied,
                });
            }
            // The name is relative to the root; in another directory it would be another program.
            let moves = matches!(&plan.start, Start::Script(text) if text.contains("cd -P"));
            if moves || !plan.directory.is_root() {
                return Err(ToolError::failed(format!(
                    "{path} is pinned by the policy and is started at the root alone"
                )));
            }
            let sum = match lent.entry(&path) {
                Ok(Entry::File { content, .. }) => Some(sha256(&content)),
                Ok(Entry::Absent | Entry::Link { .. }) | Err(_) => None,
            };
            if sum.as_deref() != Some(wanted.to_lowercase().as_str()) {
                return Err(ToolError::failed(format!(
                    "{path} was not started: it is not the file that the policy pins (sha256 {wanted})"
                )));
            }
            found.push(path.as_path().to_path_buf());
        }
        Ok(found)
    }

    /// Returns the programs of the workspace that a command runs by a rule without a digest, and what they load; one
    /// that changed since the run began is refused.
    pub(super) fn unchanged(&self, plan: &CommandPlan, lent: &CommandTree) -> Result<Vec<PathBuf>, ToolError> {
        let refuse = |path: &RelPath, why: &str| ToolError {
            message: format!("Denied by policy: {path} {why}. Installed programs and wrappers run as they were."),
            kind: ToolErrorKind::Denied,
        };
        let mut held: Vec<PathBuf> = Vec::new();
        let mut packages = BTreeSet::new();
        let mut seen = 0;
        let mut pending = plan.unchanged.clone();
        while let Some(path) = pending.pop() {
            seen += 1;
            let before = Disk.entry(&path.under(self.options.workspace.root())).ok();
            let now = lent.entry(&path).ok();
            if before.is_none() || before != now || seen > MOST_LINKS + plan.unchanged.len() {
                return Err(refuse(&path, "is not as it was when the run began"));
            }
            packages.extend(packages_of(&path));
            match now {
                Some(Entry::Link { target }) => {
                    let folder = path.parent().unwrap_or_default();
                    pending.extend(folder.join(OsStr::from_bytes(&target)));
                    // Its directory holds the link; the root is where commands work.
                    held.extend((!folder.is_root()).then(|| folder.as_path().to_path_buf()));
                }
                Some(Entry::File { .. }) => held.push(path.as_path().to_path_buf()),
                Some(Entry::Absent) | None => {}
            }
        }
        let staged = self.options.workspace.changes();
        for directory in packages {
            let counts = |path: &&RelPath| path.is_under(&directory) && !is_cache(&directory, path);
            let changed = match staged.iter().map(|(path, _)| path).find(counts) {
                Some(path) => Some(path.clone()),
                None => lent
                    .changed_below(&directory, &|path| is_cache(&directory, path))
                    .map_err(|error| ToolError::failed(format!("{directory} cannot be looked through: {error}")))?,
            };
            if let Some(path) = changed {
                return Err(refuse(&path, "is not as it was when the run began"));
            }
        }
        Ok(held)
    }
}
