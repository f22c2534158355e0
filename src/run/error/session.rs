//! Defines why there is no session to resume, and which options exclude each other.

use std::borrow::Cow;

use crate::base::CliError;
use crate::exit::Exit;
use crate::settings::Origin;

/// Why a run has no session.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Its flags exclude each other.
    #[error("{0}")]
    Flags(String),
    /// There are none in CI.
    #[error("in CI sessions are off: there is none to go on with")]
    Ci,
    /// Their directory cannot be made.
    #[error("there are no sessions: {0}")]
    NoDirectory(String),
    /// Another run writes it.
    #[error("the session {0} is written by another run")]
    Busy(String),
    /// This directory has none yet.
    #[error("there is no session of this folder to go on with")]
    NoneHere,
    /// None has the id.
    #[error("there is no session {id}")]
    Unknown {
        /// The id.
        id: String,
        /// The last one of this directory.
        last: Option<String>,
    },
    /// Its file cannot be read.
    #[error("the session {path}: {why}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
}

impl CliError for SessionError {
    fn exit(&self) -> Exit {
        match self {
            SessionError::Flags(_) => Exit::Usage,
            SessionError::Ci
            | SessionError::NoDirectory(_)
            | SessionError::Busy(_)
            | SessionError::NoneHere
            | SessionError::Unknown { .. }
            | SessionError::Unreadable { .. } => Exit::Input,
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(match self {
            SessionError::Flags(_) => "see the group Session of `qwen run --help`",
            SessionError::Ci => "leave out --continue and --resume",
            SessionError::NoDirectory(_) => "set HOME or XDG_STATE_HOME to a folder that can be written",
            SessionError::Busy(_) => "wait for it, or go on with a copy: --fork-session",
            SessionError::NoneHere => "leave out --continue",
            SessionError::Unknown { last: None, .. } => "--session-id gives a new one its id",
            SessionError::Unknown { last: Some(last), .. } => {
                return Some(Cow::Owned(format!("the last one of this folder is {last}")));
            }
            SessionError::Unreadable { .. } => "begin a new one, or repair the file: one line of JSON a message",
        }))
    }
}

/// Why mode, flags and policy do not go together.
#[derive(Debug, thiserror::Error)]
pub enum ModeError {
    /// The settings name a mode that does not exist.
    #[error("{origin}: there is no approval mode `{name}`")]
    Unknown {
        /// Where.
        origin: Origin,
        /// The name.
        name: String,
    },
    /// Isolation is switched off and required.
    #[error("--sandbox off was given and the policy {0} requires isolation")]
    Isolation(String),
    /// The policy does not give a delivery.
    #[error("--{mode} was asked for and {refusal}")]
    Delivery {
        /// The delivery.
        mode: &'static str,
        /// Which policy refuses it.
        refusal: String,
    },
    /// The policy delivers to a branch.
    #[error("the policy delivers to a branch and none is named")]
    NoBranch,
    /// The mode `plan` delivers nothing.
    #[error("the mode `plan` is read-only and a delivery was asked for")]
    Plan,
    /// Outputs go to the work tree, and a branch leaves it alone.
    #[error("`sandbox.workspace: in-place` delivers to the work tree, and --branch leaves the work tree as it is")]
    InPlace,
}

impl CliError for ModeError {
    fn exit(&self) -> Exit {
        Exit::Config
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(match self {
            ModeError::Unknown { .. } => "write plan, default, auto-edit or yolo",
            ModeError::Isolation(_) => "leave the flag out; `qwen sandbox doctor` says what this machine gives",
            ModeError::Delivery { mode, .. } => {
                return Some(Cow::Owned(format!("write `changes: {mode}` there, or leave the flag out")));
            }
            ModeError::NoBranch => "name one with --branch",
            ModeError::Plan => "leave out --approval-mode plan, or the delivery flag",
            ModeError::InPlace => "use --apply or --commit, or `workspace: staged`",
        }))
    }
}
