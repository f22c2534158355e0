//! Defines why there is no policy.

use std::borrow::Cow;

use crate::base::CliError;
use crate::exit::Exit;
use crate::policy::builtin::BUILTINS;
use crate::policy::layers::LayerError;
use crate::policy::lists::ToolEntryError;

/// Why there is no policy.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// A named file that does not count in this checkout.
    #[error("policy {named}: {why}")]
    Untrusted {
        /// What was named.
        named: String,
        /// Why not.
        why: String,
    },
    /// A named file that the trusted commit does not have.
    #[error("policy {0}: it is not a file in the trusted commit")]
    NotCommitted(String),
    /// A named file that cannot be read.
    #[error("policy {named}: {cause}")]
    Unreadable {
        /// What was named.
        named: String,
        /// The cause.
        cause: std::io::Error,
    },
    /// No built-in policy has the name.
    #[error("unknown built-in policy `{0}`")]
    NotBuiltin(String),
    /// The checkout's file cannot be read; it must not count as missing.
    #[error("{path}: {cause}")]
    Checkout {
        /// The file.
        path: String,
        /// The cause.
        cause: std::io::Error,
    },
    /// The machine's file cannot be read.
    #[error("{path}: {cause}")]
    Machine {
        /// The file.
        path: String,
        /// The cause.
        cause: std::io::Error,
    },
    /// Others than root could write the machine's file.
    #[error("{0} can be written by others than root, and it restricts every run on this machine")]
    MachineOwner(String),
    /// An entry of a list of tools is wrong.
    #[error("{origin}: `{text}` in a list of tools: {problem}")]
    ToolList {
        /// Where.
        origin: String,
        /// The entry.
        text: String,
        /// What is wrong.
        problem: ToolEntryError,
    },
    /// The files make no policy.
    #[error(transparent)]
    Layers(Box<LayerError>),
    /// A file makes no policy by itself.
    #[error(transparent)]
    Alone(Box<LayerError>),
    /// Inline tests decide otherwise.
    #[error(transparent)]
    Tests(Box<LayerError>),
}

impl CliError for PolicyError {
    fn exit(&self) -> Exit {
        Exit::Config
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(match self {
            PolicyError::Untrusted { .. } => {
                "name a trusted policy or a file outside the checkout, or trust the checkout's own with \
                 --trust-checkout"
            }
            PolicyError::NotCommitted(_) => "name another one",
            PolicyError::Unreadable { cause, .. } if cause.kind() == std::io::ErrorKind::PermissionDenied => {
                "make it readable, or name another one"
            }
            PolicyError::Unreadable { .. } => "name a file that exists, or builtin:NAME (see `qwen policy builtin`)",
            PolicyError::NotBuiltin(_) => {
                let names = BUILTINS.map(|(name, _)| name).join(", ");
                return Some(Cow::Owned(format!("the built-in policies are {names}")));
            }
            PolicyError::Checkout { .. } => "make it a readable file, or remove it",
            PolicyError::Machine { .. } => "make it readable, or remove it",
            PolicyError::MachineOwner(_) => "chown root and chmod go-w, or remove it",
            PolicyError::ToolList { .. } => {
                "write a tool's name, or run_shell_command(COMMAND), WebFetch(domain:HOST), Read(GLOB), Edit(GLOB), \
                 mcp__SERVER(TOOL)"
            }
            PolicyError::Layers(_) => "correct the file; test it with `qwen policy check --policy FILE -- 'COMMAND'`",
            PolicyError::Alone(_) => "correct the file",
            PolicyError::Tests(_) => "correct the rules or the test; run `qwen policy explain` to see why",
        }))
    }
}
