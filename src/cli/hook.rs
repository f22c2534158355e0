//! Defines `qwen hook`: the commands that git calls during a commit or a push.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::WorkspaceArgs;
use super::values::{duration, not_blank};

/// What stands below the flags.
pub const EXAMPLE: &str = "\
Example:
  qwen hook install --pre-commit --prepare-commit-msg
  git commit            asks the model about the staged change; 10 s at most
  QWEN_HOOK=0 git commit                 goes on without asking
  QWEN_HOOK_DRY_RUN=1 git commit         prints what would be sent, and sends nothing
Without a server, a key or time a commit goes on; --require makes that 75.";

/// Which hook.
#[derive(Debug, Clone, Subcommand)]
pub enum HookVerb {
    /// Look at the staged change; 3 if something in it is surely wrong
    PreCommit {
        /// What every hook takes.
        #[command(flatten)]
        common: HookArgs,
    },
    /// Draft the message before the editor opens; never hinders a commit
    PrepareCommitMsg {
        /// What every hook takes.
        #[command(flatten)]
        common: HookArgs,
        /// The file of the message
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Where the message comes from, as git says it [env: PRE_COMMIT_COMMIT_MSG_SOURCE]
        #[arg(value_name = "SOURCE")]
        source: Option<String>,
        /// The commit that the message is of, as git says it
        #[arg(value_name = "OBJECT")]
        object: Option<String>,
    },
    /// Look at the commits that are pushed; 3 if something in them is surely wrong
    PrePush {
        /// What every hook takes.
        #[command(flatten)]
        common: HookArgs,
        /// The remote's name, as git says it [env: PRE_COMMIT_REMOTE_NAME]
        #[arg(value_name = "REMOTE")]
        remote: Option<String>,
        /// The remote's address, as git says it
        #[arg(value_name = "URL")]
        url: Option<String>,
    },
    /// Write hooks into this repository; one that is there already is left alone and named
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

/// What every hook takes.
#[derive(Debug, Clone, Args)]
pub struct HookArgs {
    /// Ask by this recipe [default: staged-check, commit-message or review-diff]
    #[arg(long, value_name = "NAME|FILE", value_parser = not_blank)]
    pub recipe: Option<String>,
    /// End with 75 where the model could not be asked
    #[arg(long)]
    pub require: bool,
    /// Give up after this time [default: 10s; pre-push 2m]
    #[arg(long, value_name = "D", value_parser = duration)]
    pub max_wall_time: Option<Duration>,
    /// Where to work.
    #[command(flatten)]
    pub workspace: WorkspaceArgs,
}

/// Which hooks are meant.
#[derive(Debug, Clone, Copy, Args)]
pub struct Which {
    /// The one before a commit [default for install, if none is named]
    #[arg(long)]
    pub pre_commit: bool,
    /// The one that drafts messages
    #[arg(long)]
    pub prepare_commit_msg: bool,
    /// The one before a push
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
