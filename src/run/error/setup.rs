//! Defines why a run has not what it works with.

use crate::base::CliError;
use crate::exit::Exit;
use crate::model::local::LocalError;
use crate::policy::redact::SecretPatternError;
use crate::sandbox::SandboxError;
use crate::settings::SettingsError;
use crate::telemetry::TelemetryError;
use std::borrow::Cow;

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
    #[error(transparent)]
    SecretPatterns(#[from] SecretPatternError),
    /// The server that the run starts itself.
    #[error(transparent)]
    Local(#[from] LocalError),
    /// There is no isolation as it is required.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// `--strict` met warnings.
    #[error("{}", .0.join("; "))]
    Strict(Vec<String>),
    /// The user's hooks are wrong.
    #[error("hooks.{event}: {problem}")]
    Hooks {
        /// The event.
        event: String,
        /// What is wrong.
        problem: String,
    },
    /// A hook does not let the run begin.
    #[error("a SessionStart hook blocked the run: {0}")]
    Blocked(String),
    /// A cost limit needs a price.
    #[error("--max-cost-usd needs a price, and the price of {0} is unknown")]
    NoPrice(String),
    /// The run cannot be reported as it was asked for.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// The file that the run is to be reported to.
    #[error("telemetry.outfile {path}: {cause}")]
    Outfile {
        /// The file.
        path: String,
        /// Why it cannot be written.
        cause: std::io::Error,
    },
    /// A bug of ours.
    #[error("a bug in qwen: {0}")]
    Bug(String),
    /// Nothing can be printed.
    #[error("cannot write standard output: {0}")]
    Output(std::io::Error),
}

impl CliError for SetupError {
    fn exit(&self) -> Exit {
        match self {
            SetupError::TemporaryFolder(_) => Exit::Conflict,
            SetupError::Settings(_)
            | SetupError::SecretPatterns(_)
            | SetupError::Strict(_)
            | SetupError::Hooks { .. }
            | SetupError::Telemetry(_)
            | SetupError::Outfile { .. }
            | SetupError::NoPrice(_) => Exit::Config,
            SetupError::Blocked(_) => Exit::Denied,
            SetupError::Local(_) | SetupError::Sandbox(SandboxError::Refused(_)) => Exit::Config,
            SetupError::Sandbox(SandboxError::Unmet { .. } | SandboxError::NotStarted(_) | SandboxError::Io { .. }) => {
                Exit::Sandbox
            }
            SetupError::Bug(_) | SetupError::Output(_) => Exit::Failed,
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
            SetupError::Hooks { .. } => {
                "write [{\"matcher\": \"edit|write_file\", \"hooks\": [{\"type\": \"command\", \"command\": \"…\"}]}]"
            }
            SetupError::Blocked(_) => "check `hooks` in the settings; `qwen doctor` shows which file",
            SetupError::NoPrice(_) => "use --max-total-tokens instead",
            SetupError::Telemetry(_) => {
                "correct it, or leave the run unreported with --telemetry=false; `qwen help observe` has examples"
            }
            SetupError::Outfile { .. } => "name a file in a directory that exists and can be written",
            SetupError::Bug(_) => "report this bug with the command line",
            SetupError::Output(_) => return None,
        };
        Some(Cow::Borrowed(hint))
    }

    fn code(&self) -> &'static str {
        match self {
            SetupError::Blocked(_) => "hook",
            SetupError::Bug(_) => "internal",
            SetupError::TemporaryFolder(_)
            | SetupError::Settings(_)
            | SetupError::SecretPatterns(_)
            | SetupError::Local(_)
            | SetupError::Sandbox(_)
            | SetupError::Strict(_)
            | SetupError::Hooks { .. }
            | SetupError::NoPrice(_)
            | SetupError::Telemetry(_)
            | SetupError::Outfile { .. }
            | SetupError::Output(_) => self.exit().name(),
        }
    }
}
