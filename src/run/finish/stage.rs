//! Holds what a run changes, whatever its ending.

use std::iter;
use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;

use crate::base::digest::sha256;
use crate::change::{ChangeSet, patch};
use crate::deliver::{self, Delivered};
use crate::event::{ChangesReport, RunError, RunFinished};
use crate::exit::Exit;
use crate::git::repository::Repository;
use crate::path::RelPath;
use crate::run::finish::mode::Mode;
use crate::run::runner::Runner;
use crate::tools::mcp::Servers;
use crate::workspace::Workspace;
use crate::workspace::tree::CommandTree;
use crate::workspace::untouched::Untouched;

/// What remains of a cancelled conversation: the staged changes and how to deliver them.
pub struct Stage {
    /// The workspace.
    pub workspace: Arc<Workspace>,
    /// The commands.
    pub runner: Runner,
    /// Runs commands on the unchanged tree, if a check asks for it.
    pub base: Option<Runner>,
    /// The repository.
    pub repository: Option<Repository>,
    /// How the changes are delivered.
    pub mode: Mode,
    /// The MCP servers.
    pub servers: Servers,
    /// The file of `--patch-file`.
    pub patch_file: Option<PathBuf>,
    /// The tree's fingerprint, if nothing else keeps commands from writing to it in a dry run.
    pub untouched: Option<Untouched>,
}

/// The error of a run of which a command may still be at work.
pub fn out_of_hand() -> RunError {
    let hint =
        "look for its processes and end them; in tier T2 before Linux 6.12 a command can do this, in T3 it cannot";
    RunError {
        code: "command_out_of_hand".into(),
        message: "the process that ends a command was killed: what the command started may still run".into(),
        hint: Some(hint.into()),
        ..RunError::default()
    }
}

impl Stage {
    /// Completes an ending that delivered nothing: the staged patch, not applied.
    pub fn complete(&self, finished: &mut RunFinished) {
        if !finished.changes.mode.is_empty() {
            return;
        }
        let changes = self.workspace.changes();
        let (patch, files) = deliver::proposal(&changes, self.repository.as_ref());
        let delivered = Delivered { patch, files, ..Delivered::default() };
        let rolled_back = finished.changes.rolled_back;
        finished.changes = self.report(&delivered, &changes);
        finished.changes.rolled_back = rolled_back;
    }

    /// Turns a run whose commands changed the project outside the delivery into a failure, which without isolation only a
    /// comparison afterwards finds, and a run whose commands may still be at work.
    pub fn compare(&self, finished: &mut RunFinished) {
        let outside = |message, hint: &str| {
            let (code, hint) = ("tree_changed".into(), Some(hint.into()));
            RunError { code, message, hint, ..RunError::default() }
        };
        let error = if let Some(path) = self.untouched.as_ref().and_then(Untouched::first_difference) {
            outside(
                format!("a command of this dry run changed {}", path.display()),
                "it ran without isolation (--sandbox off): check `git status`, and leave the flag out",
            )
        } else if let Some(path) = self.runner.changed_attribute() {
            outside(
                format!("mode or time of {} changed while commands ran, outside the delivery", path.display()),
                "isolation tier T2 does not protect modes and times; run `qwen sandbox doctor` to see how to get T3",
            )
        } else if self.is_out_of_hand() {
            out_of_hand()
        } else {
            return;
        };
        finished.exit = finished.exit.or_worse(Exit::Failed);
        if finished.exit == Exit::Failed {
            finished.error = Some(error);
        }
    }

    /// Ends servers and commands in the background: nothing outlives the run.
    pub async fn end_commands(&self) {
        self.servers.close().await;
        self.end_background().await;
    }

    /// Ends commands in the background.
    pub async fn end_background(&self) {
        for runner in iter::once(&self.runner).chain(&self.base) {
            runner.end().await;
        }
    }

    /// Tells whether a command may still run, because the helper that ends it was killed.
    pub fn is_out_of_hand(&self) -> bool {
        iter::once(&self.runner).chain(&self.base).any(Runner::is_out_of_hand)
    }

    /// Returns the tree in which commands worked, where their ignored files are delivered: from here on none of them runs.
    pub async fn tree_of_commands(&self) -> Option<CommandTree> {
        if !self.runner.delivers_ignored() {
            return None;
        }
        self.end_commands().await;
        self.runner.take_tree().await
    }

    /// Returns the workspace's place in the repository.
    fn prefix(&self) -> &RelPath {
        static ROOT: std::sync::LazyLock<RelPath> = std::sync::LazyLock::new(RelPath::root);
        self.repository.as_ref().map_or(&ROOT, |repository| &repository.prefix)
    }

    pub(super) fn report(&self, delivered: &Delivered, changes: &ChangeSet) -> ChangesReport {
        let (text, base64) = match String::from_utf8(delivered.patch.clone()) {
            Ok(text) => (Some(text), None),
            Err(error) => (None, Some(base64::engine::general_purpose::STANDARD.encode(error.as_bytes()))),
        };
        let mut files = delivered.files.clone();
        for file in &mut files {
            file.executes_later = crate::policy::later::executes_later(&file.path);
        }
        ChangesReport {
            mode: self.mode.name().into(),
            base: self.repository.as_ref().and_then(|repository| repository.head.clone()),
            files,
            patch: text,
            patch_base64: base64,
            patch_sha256: (!changes.is_empty()).then(|| sha256(&delivered.patch)),
            patch_file: self.patch_file.as_ref().map(|path| path.display().to_string()),
            applied: delivered.applied,
            rolled_back: false,
            closes: None,
            policy_changed: changes.iter().any(|(path, _)| is_policy(&patch::name_in_repository(self.prefix(), path))),
        }
    }
}

/// Tells whether a path (relative to the repository) is the policy, or a file next to it that it may extend.
fn is_policy(name: &[u8]) -> bool {
    name.strip_prefix(b".qwen/").is_some_and(|rest| rest.ends_with(b".yaml") || rest.ends_with(b".yml"))
}
