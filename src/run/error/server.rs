//! Defines why MCP servers do not start.

use std::borrow::Cow;

use crate::base::CliError;
use crate::exit::Exit;
use crate::settings::Origin;

/// Why MCP servers do not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// `mcp.serverCommand` of the settings is no command.
    #[error("{origin}: mcp.serverCommand: {why}")]
    Command {
        /// Where it is.
        origin: Origin,
        /// Why not.
        why: String,
    },
    /// `--mcp-config` is wrong.
    #[error("--mcp-config: {0}")]
    Flag(String),
    /// A required server is unavailable.
    #[error("the MCP server {name} is required and not to be had: {why}")]
    Required {
        /// Its name.
        name: String,
        /// Why.
        why: String,
    },
    /// What its tools are compared with cannot be read.
    #[error("the pins {path} of the MCP server {name}: {why}")]
    Pins {
        /// The file.
        path: String,
        /// The server.
        name: String,
        /// Why.
        why: String,
    },
    /// There is no tree for their programs.
    #[error("{0}")]
    NoTree(String),
    /// A server does not give a prompt.
    #[error("{0}")]
    Prompt(String),
    /// The settings do not have it.
    #[error("there is no MCP server `{0}` in the settings")]
    Unknown(String),
    /// It is a program, which needs no signing in.
    #[error("{0} is a program and needs no token")]
    NoToken(String),
    /// Signing in failed.
    #[error("{0}")]
    SignIn(String),
}

impl CliError for ServerError {
    fn exit(&self) -> Exit {
        match self {
            ServerError::Command { .. }
            | ServerError::Flag(_)
            | ServerError::Required { .. }
            | ServerError::Pins { .. }
            | ServerError::Unknown(_)
            | ServerError::NoToken(_) => Exit::Config,
            ServerError::NoTree(_) => Exit::Conflict,
            ServerError::Prompt(_) => Exit::Input,
            ServerError::SignIn(_) => Exit::Auth,
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(match self {
            ServerError::Command { .. } => "correct it",
            ServerError::Flag(_) => "give '{\"mcpServers\": {…}}' or a file with it",
            ServerError::Required { .. } => {
                "`qwen mcp list -v` shows what it says; `\"required\": false` goes on without it"
            }
            ServerError::Pins { .. } => "`qwen mcp list --pins` prints the pins of now",
            ServerError::NoTree(_) => "set TMPDIR to a folder with room",
            ServerError::Prompt(_) => "`qwen mcp list -v` shows the prompts",
            ServerError::Unknown(_) => "`qwen mcp list` shows them",
            ServerError::NoToken(_) => "give it one in its `env`",
            ServerError::SignIn(_) => "try again, or put a token into `headers`",
        }))
    }
}
