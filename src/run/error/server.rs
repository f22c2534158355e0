//! Defines why MCP servers do not start.

use std::borrow::Cow;

use crate::base::CliError;
use crate::exit::Exit;
use crate::settings::Origin;
use crate::tools::mcp::command_line::CommandLineError;
use crate::tools::mcp::oauth::SignInError;

/// Why MCP servers do not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// `mcp.serverCommand` of the settings is no command.
    #[error("{origin}: mcp.serverCommand: {why}")]
    Command {
        /// Where it is.
        origin: Origin,
        /// Why not.
        why: CommandLineError,
    },
    /// `--mcp-config` is wrong.
    #[error("--mcp-config: {0}")]
    Flag(String),
    /// A required server is unavailable.
    #[error("required MCP server `{name}` is unavailable: {why}")]
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
    #[error("MCP server `{0}` not found in the settings")]
    Unknown(String),
    /// It is a program, which needs no signing in.
    #[error("{0} is a local program and needs no token")]
    NoToken(String),
    /// Signing in failed.
    #[error(transparent)]
    SignIn(#[from] SignInError),
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
            ServerError::Flag(_) => "give '{\"mcpServers\": {…}}' or a file that contains it",
            ServerError::Required { .. } => {
                "run `qwen mcp list -v` to see its output, or set `\"required\": false` to continue without it"
            }
            ServerError::Pins { .. } => "run `qwen mcp list --pins` to print the current pins",
            ServerError::NoTree(_) => "set TMPDIR to a directory with free space",
            ServerError::Prompt(_) => "run `qwen mcp list -v` to see the prompts",
            ServerError::Unknown(_) => "run `qwen mcp list` to see them",
            ServerError::NoToken(_) => "give it one in its `env`",
            ServerError::SignIn(_) => "try again, or put a token into `headers`",
        }))
    }
}
