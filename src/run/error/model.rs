//! Defines why there is no model to ask.

use std::borrow::Cow;

use crate::base::CliError;
use crate::exit::Exit;
use crate::model::{ErrorClass, ModelError};
use crate::settings::keys::KeyError;

/// Why there is no model to ask.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nothing says which one, or its key is missing.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The file with the key cannot be read.
    #[error("--api-key-file {path}: {cause}")]
    KeyFile {
        /// The file.
        path: String,
        /// The cause.
        cause: std::io::Error,
    },
    /// The certificates are not there.
    #[error("--ca-file {path}: {why}")]
    CaFile {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
    /// A script of answers is wrong.
    #[error("{path}: {why}")]
    Script {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
    /// A recording cannot be read.
    #[error("--replay {path}: {cause}")]
    Replay {
        /// The file.
        path: String,
        /// The cause.
        cause: std::io::Error,
    },
    /// A recording was edited.
    #[error("--replay {path}:{line}: {why}")]
    Edited {
        /// The file.
        path: String,
        /// The line, from 1.
        line: usize,
        /// Why.
        why: String,
    },
    /// A recording is wrong.
    #[error("--replay {path}: {why}")]
    Recording {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
    /// The server does not say which model it has.
    #[error("{}", .0.message)]
    Unnamed(ModelError),
    /// The client does not accept its options.
    #[error("{}", .0.message)]
    Options(ModelError),
}

impl CliError for ConnectError {
    fn exit(&self) -> Exit {
        match self {
            ConnectError::Key(error) => error.exit,
            ConnectError::KeyFile { .. } => Exit::Auth,
            ConnectError::CaFile { .. } => Exit::Config,
            ConnectError::Edited { .. } => Exit::Replay,
            ConnectError::Script { .. } | ConnectError::Replay { .. } | ConnectError::Recording { .. } => Exit::Input,
            ConnectError::Unnamed(error) => match &error.class {
                ErrorClass::Network | ErrorClass::Timeout(_) | ErrorClass::Overloaded { .. } => Exit::Unavailable,
                _ => Exit::Config,
            },
            ConnectError::Options(error) => match &error.class {
                ErrorClass::Auth | ErrorClass::Permission | ErrorClass::Billing => Exit::Auth,
                _ => Exit::Config,
            },
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        match self {
            ConnectError::Key(error) => Some(&*error.hint),
            ConnectError::KeyFile { .. } => Some("write the key into it"),
            ConnectError::CaFile { .. } => Some("name a file of certificates in PEM form"),
            ConnectError::Script { .. } => Some("correct the script"),
            ConnectError::Replay { .. } => Some("name a file that --record wrote"),
            ConnectError::Recording { .. } | ConnectError::Edited { .. } => Some("record it again with --record"),
            ConnectError::Unnamed(error) => {
                Some(error.hint.as_deref().unwrap_or("name a model with --model or QWEN_MODEL"))
            }
            ConnectError::Options(error) => error.hint.as_deref(),
        }
        .map(Cow::Borrowed)
    }
}
