//! Defines `qwen hook`: the commands that git calls during a commit or a push.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::values::{duration, not_blank};
use super::workspace::WorkspaceArgs;

/// What stands below the flags.
pub const EXAMPLE: &str = "\
Example:
  qwen hook install --pre-commit --prepare-commit-msg
  git commit                       reviews the staged changes, for at most 10 s
  QWEN_HOOK=0 git commit           commits without a review
  QWEN_HOOK=advise git commit      reviews, and commits whatever is found
  QWEN_HOOK_DRY_RUN=1 git commit   prints the prompt, sends nothing, and commits
Without a server or key, or out of time, the commit continues; --require stops it (exit code 75).";

/// Which hook.
#[derive(Debug, Clone, Subcommand)]
pub enum HookVerb {
    /// Review the staged changes; exit code 3 if a finding is certain
    PreCommit {
        /// What every hook takes.
        #[command(flatten)]
        common: HookArgs,
        /// What the hook does [default: block] [env: QWEN_HOOK]
        #[arg(long, value_name = "MODE", value_enum)]
        mode: Option<HookMode>,
        /// Commits to review instead of the staged changes, as A..B or A...B [env: PRE_COMMIT_FROM_REF,
        /// PRE_COMMIT_TO_REF]
        #[arg(long, value_name = "RANGE", value_parser = super::values::range)]
        range: Option<String>,
    },
    /// Draft the commit message before the editor opens; never stops a commit
    PrepareCommitMsg {
        /// What every hook takes.
        #[command(flatten)]
        common: HookArgs,
        /// The commit message file
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Source of the message, as passed by git [env: PRE_COMMIT_COMMIT_MSG_SOURCE]
        #[arg(value_name = "SOURCE")]
        source: Option<String>,
        /// Commit of the message, as passed by git
        #[arg(value_name = "OBJECT")]
        object: Option<String>,
    },
    /// Review the commits being pushed; exit code 3 if a finding is certain
    PrePush {
        /// What every hook takes.
        #[command(flatten)]
        common: HookArgs,
        /// Name of the remote, as passed by git [env: PRE_COMMIT_REMOTE_NAME]
        #[arg(value_name = "REMOTE")]
        remote: Option<String>,
        /// URL of the remote, as passed by git
        #[arg(value_name = "URL")]
        url: Option<String>,
    },
    /// Install the hooks in this repository; an existing hook is kept and reported
    Install {
        /// Which hooks.
        #[command(flatten)]
        which: Which,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
    /// Remove the hooks that `qwen hook install` wrote
    Uninstall {
        /// Which hooks.
        #[command(flatten)]
        which: Which,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
}

/// What the pre-commit hook does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum HookMode {
    /// Review; an error that is certain stops the commit
    #[default]
    Block,
    /// Review; nothing stops the commit
    Advise,
    /// Ask no model: look for secrets, links and invisible characters; an error stops the commit
    Local,
}

/// What every hook takes.
#[derive(Debug, Clone, Args)]
pub struct HookArgs {
    /// Recipe to run [default: staged-check, commit-message or review-diff]
    #[arg(long, value_name = "NAME|FILE", value_parser = not_blank)]
    pub recipe: Option<String>,
    /// End with exit code 75 if the model is unavailable
    #[arg(long)]
    pub require: bool,
    /// Maximum duration [default: 10s; pre-push 2m]
    #[arg(long, value_name = "D", value_parser = duration)]
    pub max_wall_time: Option<Duration>,
    /// Where to work.
    #[command(flatten)]
    pub workspace: WorkspaceArgs,
}

/// Which hooks are meant.
#[derive(Debug, Clone, Copy, Args)]
pub struct Which {
    /// The pre-commit hook [default for install, if none is named]
    #[arg(long)]
    pub pre_commit: bool,
    /// The prepare-commit-msg hook
    #[arg(long)]
    pub prepare_commit_msg: bool,
    /// The pre-push hook
    #[arg(long)]
    pub pre_push: bool,
}

impl Which {
    /// Returns git's names of the hooks that were named.
    pub fn names(self) -> Vec<&'static str> {
        [(self.pre_commit, "pre-commit"), (self.prepare_commit_msg, "prepare-commit-msg"), (self.pre_push, "pre-push")]
            .into_iter()
            .filter_map(|(named, name)| named.then_some(name))
            .collect()
    }
}
