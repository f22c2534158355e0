//! Defines why there is no prompt.

use std::borrow::Cow;

use crate::base::CliError;
use crate::exit::Exit;
use crate::prompt::command::CommandFileError;

/// Why there is no prompt.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    /// Several want standard input.
    #[error("only one of {readers} can read standard input")]
    StandardInputTwice {
        /// Who.
        readers: String,
    },
    /// Standard input cannot be read.
    #[error("standard input: {0}")]
    StandardInput(std::io::Error),
    /// The prompt's file cannot be read.
    #[error("--prompt-file {path}: {why}")]
    File {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
    /// Nothing was given.
    #[error("no prompt: none was given and standard input is empty")]
    Missing,
    /// `@path` names nothing, under `--strict`.
    #[error("{0} in the prompt is not a file, directory or pattern in the workspace")]
    NoPath(String),
    /// `--file` cannot be read.
    #[error("--file {named}: {why}")]
    Attached {
        /// What was named.
        named: String,
        /// Why.
        why: String,
    },
    /// A server does not give what `@server:uri` names.
    #[error("@{path}: {why}")]
    Resource {
        /// What was named.
        path: String,
        /// Why.
        why: String,
    },
    /// The policy does not let the prompt include something.
    #[error("@{path} in the prompt: {why}")]
    Denied {
        /// What was named.
        path: String,
        /// Why.
        why: String,
    },
    /// An image cannot be used.
    #[error("--image {path}: {problem}")]
    Image {
        /// The file.
        path: String,
        /// Why.
        problem: String,
    },
    /// No command has the name.
    #[error("unknown command /{name}")]
    UnknownCommand {
        /// The name.
        name: String,
        /// What to do.
        hint: String,
    },
    /// A command of Qwen Code that does not exist here.
    #[error("/{name} is a command of Qwen Code that does not exist here")]
    OtherCommand {
        /// The name.
        name: String,
        /// What does the same here.
        instead: &'static str,
    },
    /// A command's file is wrong.
    #[error(transparent)]
    CommandFile(#[from] CommandFileError),
    /// A command includes what is not there.
    #[error("{file} includes @{{{path}}}, which is not a file, directory or pattern in the workspace")]
    CommandInclude {
        /// The command's file.
        file: String,
        /// What it includes.
        path: String,
    },
    /// The policy does not let a command run something.
    #[error("{file} wants to run `{command}`: {reason}")]
    CommandDenied {
        /// The command's file.
        file: String,
        /// What it wants to run.
        command: String,
        /// Why not.
        reason: String,
        /// What to do.
        hint: Option<String>,
    },
    /// A hook does not let a command run something.
    #[error("{file} wants to run `{command}`: a hook blocks it: {reason}")]
    CommandBlocked {
        /// The command's file.
        file: String,
        /// What it wants to run.
        command: String,
        /// What the hook says.
        reason: String,
    },
    /// What a command runs cannot be started.
    #[error("{file}: `{command}`: {why}")]
    CommandFailed {
        /// The command's file.
        file: String,
        /// What it runs.
        command: String,
        /// Why.
        why: String,
    },
}

impl CliError for PromptError {
    fn exit(&self) -> Exit {
        match self {
            PromptError::StandardInputTwice { .. } => Exit::Usage,
            PromptError::StandardInput(_)
            | PromptError::File { .. }
            | PromptError::Missing
            | PromptError::NoPath(_)
            | PromptError::Attached { .. }
            | PromptError::Resource { .. }
            | PromptError::Image { .. }
            | PromptError::UnknownCommand { .. }
            | PromptError::OtherCommand { .. }
            | PromptError::CommandFile(_)
            | PromptError::CommandInclude { .. }
            | PromptError::CommandFailed { .. } => Exit::Input,
            PromptError::Denied { .. } | PromptError::CommandDenied { .. } | PromptError::CommandBlocked { .. } => {
                Exit::Denied
            }
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(match self {
            PromptError::StandardInputTwice { .. } => "give a file to the others",
            PromptError::StandardInput(_) => "leave it out with --no-stdin",
            PromptError::File { .. } => "name a text file",
            PromptError::Missing => "give one: qwen run \"what to do\", or use -p, --prompt-file or a pipe",
            PromptError::NoPath(_) => "correct it, or write \\@ for a literal @",
            PromptError::Attached { .. } => "name a file of the workspace that the policy allows to read",
            PromptError::Resource { .. } => "run `qwen mcp list -v` to see what the server offers",
            PromptError::Image { .. } => "name a PNG, JPEG, GIF, WebP or BMP file",
            PromptError::Denied { .. } => "allow it under `tools`, `paths.read` or `mcp` in the policy",
            PromptError::UnknownCommand { hint, .. } => hint,
            PromptError::OtherCommand { instead, .. } => instead,
            PromptError::CommandFile(_) => "correct the file; `qwen help from-qwen-code` describes command files",
            PromptError::CommandInclude { .. } | PromptError::CommandFailed { .. } => "correct the command",
            PromptError::CommandDenied { hint, .. } => match hint {
                Some(hint) => hint,
                None => "allow it in the policy, or with --allowed-tools 'run_shell_command(…)'",
            },
            PromptError::CommandBlocked { .. } => "check `hooks` in the settings",
        }))
    }

    fn code(&self) -> &'static str {
        if matches!(self, PromptError::CommandBlocked { .. }) { "hook" } else { self.exit().name() }
    }
}
