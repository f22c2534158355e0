//! Defines why a run or another command cannot begin, and how it then ends: one enum for each thing that it needs.

mod model;
mod place;
mod policy;
mod prompt;
mod recipe;
mod server;
mod session;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use crate::base::CliError;
use crate::exit::Exit;
use crate::model::local::LocalError;
use crate::sandbox::SandboxError;
use crate::settings::SettingsError;

pub use model::ConnectError;
pub use place::PlaceError;
pub use policy::PolicyError;
pub use prompt::PromptError;
pub use recipe::RecipeError;
pub use server::ServerError;
pub use session::{ModeError, SessionError};

/// Why a command has not what it works with.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// No directory for what is temporary.
    #[error("cannot make a temporary directory: {0}")]
    TemporaryFolder(std::io::Error),
    /// A settings file is wrong.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A pattern of the policy that finds secrets is wrong.
    #[error("{0}")]
    SecretPatterns(String),
    /// The server that the run starts itself.
    #[error(transparent)]
    Local(#[from] LocalError),
    /// There is no isolation as it is required.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// `--strict` met warnings.
    #[error("{}", .0.join("; "))]
    Strict(Vec<String>),
    /// Nothing can be printed.
    #[error("cannot write standard output: {0}")]
    Output(std::io::Error),
}

impl CliError for SetupError {
    fn exit(&self) -> Exit {
        match self {
            SetupError::TemporaryFolder(_) => Exit::Conflict,
            SetupError::Settings(_) | SetupError::SecretPatterns(_) | SetupError::Strict(_) => Exit::Config,
            SetupError::Local(_) | SetupError::Sandbox(SandboxError::Refused(_)) => Exit::Config,
            SetupError::Sandbox(SandboxError::Unmet { .. } | SandboxError::NotStarted(_) | SandboxError::Io { .. }) => {
                Exit::Sandbox
            }
            SetupError::Output(_) => Exit::Failed,
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        let hint = match self {
            SetupError::TemporaryFolder(_) => "set TMPDIR to a writable directory",
            SetupError::Settings(_) => "correct the file; `qwen doctor` shows the settings in effect",
            SetupError::SecretPatterns(_) => "correct `secrets.patterns` in the policy",
            SetupError::Local(error) => error.hint(),
            SetupError::Sandbox(_) => "run `qwen sandbox doctor` to see which isolation is available",
            SetupError::Strict(_) => "correct it, or leave out --strict to get a warning instead",
            SetupError::Output(_) => return None,
        };
        Some(Cow::Borrowed(hint))
    }
}
