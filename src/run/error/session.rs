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
    #[error("no session to resume: sessions are off in CI")]
    Ci,
    /// Their directory cannot be made.
    #[error("sessions are unavailable: {0}")]
    NoDirectory(String),
    /// Another run writes it.
    #[error("the session {0} is in use by another run")]
    Busy(String),
    /// This directory has none yet.
    #[error("no session to resume in this directory")]
    NoneHere,
    /// None has the id.
    #[error("session {id} not found")]
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
            SessionError::Flags(_) => "see the options under Session in `qwen run --help`",
            SessionError::Ci => "leave out --continue and --resume",
            SessionError::NoDirectory(_) => "set HOME or XDG_STATE_HOME to a writable directory",
            SessionError::Busy(_) => "wait for it, or resume a copy with --fork-session",
            SessionError::NoneHere => "leave out --continue",
            SessionError::Unknown { last: None, .. } => "start a new one with this id with --session-id",
            SessionError::Unknown { last: Some(last), .. } => {
                return Some(Cow::Owned(format!("resume the last session of this directory: {last}")));
            }
            SessionError::Unreadable { .. } => {
                "start a new session, or repair the file (one line of JSON for each message)"
            }
        }))
    }
}

/// Why mode, flags and policy do not go together.
#[derive(Debug, thiserror::Error)]
pub enum ModeError {
    /// The settings name a mode that does not exist.
    #[error("{origin}: unknown approval mode `{name}`")]
    Unknown {
        /// Where.
        origin: Origin,
        /// The name.
        name: String,
    },
    /// Isolation is switched off and required.
    #[error("`--sandbox off` conflicts with policy `{0}`, which requires isolation")]
    Isolation(String),
    /// The policy does not give a delivery.
    #[error("--{mode} is not allowed: {refusal}")]
    Delivery {
        /// The delivery.
        mode: &'static str,
        /// Which policy refuses it.
        refusal: String,
    },
    /// The policy delivers to a branch.
    #[error("the policy requires a branch")]
    NoBranch,
    /// The mode `plan` delivers nothing.
    #[error("`--approval-mode plan` is read-only and cannot be combined with a delivery")]
    Plan,
    /// Outputs go to the work tree, and a branch leaves it alone.
    #[error("`sandbox.workspace: in-place` changes the work tree, so --branch cannot be used with it")]
    InPlace,
}

impl CliError for ModeError {
    fn exit(&self) -> Exit {
        Exit::Config
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(match self {
            ModeError::Unknown { .. } => "write plan, default, auto-edit or yolo",
            ModeError::Isolation(_) => {
                "leave the flag out; run `qwen sandbox doctor` to see which isolation is available"
            }
            ModeError::Delivery { mode, .. } => {
                return Some(Cow::Owned(format!("write `changes: {mode}` there, or leave the flag out")));
            }
            ModeError::NoBranch => "add `--branch NAME`",
            ModeError::Plan => "leave out --approval-mode plan, or the delivery flag",
            ModeError::InPlace => "use --apply or --commit, or `workspace: staged`",
        }))
    }
}
