//! Defines why a hook does not ask, or is not installed.

use std::borrow::Cow;

use crate::base::CliError;
use crate::exit::Exit;

/// Why a hook ends other than with an answer.
#[derive(Debug, thiserror::Error)]
pub(in crate::commands) enum HookError {
    /// No answer was given, and one is required.
    #[error("{0}")]
    Skipped(String),
    /// The flags are wrong.
    #[error("{0}")]
    Flags(String),
    /// The run failed by the fault of whoever set the hook up.
    #[error("{message}")]
    Run { exit: Exit, message: String, hint: String },
    /// Git failed.
    #[error("{0}")]
    Git(String),
    /// Our own path is unknown.
    #[error("cannot find the path of this program: {0}")]
    NoProgram(std::io::Error),
    /// A hook cannot be written or removed.
    #[error("{path}: {cause}")]
    Unwritable { path: String, cause: std::io::Error },
    /// `QWEN_HOOK` has another word.
    #[error("QWEN_HOOK: `{0}` is not a mode")]
    Mode(String),
    /// There is no repository.
    #[error("this directory is not in a git repository with a work tree")]
    NoRepository,
    /// The directory of hooks is not the repository's.
    #[error("{0} is a link that leads out of this repository")]
    LinkOut(String),
    /// Other repositories use the hooks, too.
    #[error("core.hooksPath is {value}, outside this repository: other repositories use its hooks, too")]
    Outside { value: String, hint: String },
    /// Something else manages the hooks.
    #[error("{path}: {who}")]
    Managed { path: String, who: &'static str, hint: String },
    /// The message's file cannot be used.
    #[error("{path}: {problem}")]
    Message { path: String, problem: String },
    /// Standard input cannot be read.
    #[error("standard input: {0}")]
    StandardInput(std::io::Error),
}

impl CliError for HookError {
    fn exit(&self) -> Exit {
        match self {
            HookError::Skipped(_) => Exit::Unavailable,
            HookError::Flags(_) | HookError::Mode(_) => Exit::Usage,
            HookError::Run { exit, .. } => *exit,
            HookError::Git(_)
            | HookError::Unwritable { .. }
            | HookError::NoRepository
            | HookError::LinkOut(_)
            | HookError::Outside { .. }
            | HookError::Managed { .. } => Exit::Conflict,
            HookError::NoProgram(_) => Exit::Failed,
            HookError::Message { .. } | HookError::StandardInput(_) => Exit::Input,
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(match self {
            HookError::Mode(_) => "use 0, block, advise or local, or unset it",
            HookError::Skipped(_) => "set QWEN_HOOK=0 to continue without a message from the model",
            HookError::Flags(_) => "correct the flags of `qwen hook`",
            HookError::Run { hint, .. } => hint,
            HookError::Git(_) => "run `git status` there and correct what it reports",
            HookError::NoProgram(_) => "start it by its path",
            HookError::Unwritable { .. } => "make the directory writable",
            HookError::NoRepository => "run it inside one",
            HookError::LinkOut(_) => "replace the link with a directory",
            HookError::Outside { hint, .. } => hint,
            HookError::Managed { hint, .. } => hint,
            HookError::Message { .. } | HookError::StandardInput(_) => return None,
        }))
    }
}
