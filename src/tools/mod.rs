//! Contains the tools that the model can call: one file per tool, one line per tool in the registry.

pub mod common;
pub mod discovered;
pub mod edit;
pub mod glob;
pub mod list_directory;
pub mod mcp;
pub mod read_file;
pub mod read_many_files;
pub mod registry;
pub mod run_shell_command;
pub mod save_memory;
pub mod search_file_content;
pub mod skill;
pub mod structured_output;
pub mod task;
pub mod todo_write;
pub mod web;
pub mod web_fetch;
pub mod web_search;
pub mod write_file;

pub use registry::{Prepared, Registry};
pub use run_shell_command::{CommandReport, CommandRequest, CommandRunner, Variables};

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};

use crate::model::{BoxFuture, Part, ToolSpec};
use crate::policy::{Access, Grant};
use crate::workspace::Workspace;

/// A tool: how the model sees it, and how its arguments become a call.
pub trait Tool: Send + Sync {
    /// Returns the name, description and schema that the model sees.
    fn spec(&self) -> ToolSpec;

    /// Returns the name for people, for example `ReadFile`.
    fn display_name(&self) -> &'static str;

    /// Tells whether its calls only look (and so may run side by side).
    fn only_reads(&self) -> bool;

    /// Validates arguments that already fit the schema and makes the call. Touches nothing.
    fn parse(&self, arguments: Map<String, Value>) -> Result<Box<dyn Call>, ToolError>;
}

/// One call, validated and not yet allowed.
pub trait Call: Send {
    /// Returns everything it would touch: what the policy judges.
    fn accesses(&self) -> Vec<Access>;

    /// Describes this very call to a person in one line.
    fn describe(&self) -> String;

    /// Does it, within the grant. Dropping the future cancels it.
    fn run<'a>(
        self: Box<Self>,
        grant: &'a Grant,
        cx: &'a ToolContext<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>>;
}

/// What a call gets to work with.
#[derive(Clone, Copy)]
pub struct ToolContext<'a> {
    /// Files (staged view) and commands.
    pub workspace: &'a Workspace,
    /// What the run remembers between calls.
    pub memory: &'a RunMemory,
    /// The run's limits on tools.
    pub limits: &'a ToolLimits,
    /// What starts commands.
    pub runner: &'a dyn CommandRunner,
    /// Whether the model takes images and documents.
    pub media: bool,
}

/// What the run remembers between calls: the to-do list, and what each file looked like when it was read.
#[derive(Debug, Default)]
pub struct RunMemory {
    /// The to-do list of `todo_write`.
    pub todos: std::sync::Mutex<Vec<Todo>>,
    /// Hashes of the files that were read, to notice a change on disk since.
    pub seen: std::sync::Mutex<std::collections::HashMap<crate::path::RelPath, [u8; 32]>>,
    /// The answer given through `structured_output`.
    pub answer: std::sync::Mutex<Option<Value>>,
}

/// An item of the to-do list.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Todo {
    /// The model's id of it.
    pub id: String,
    /// What is to be done.
    pub content: String,
    /// `pending`, `in_progress` or `completed`.
    pub status: String,
}

/// The run's limits on tools.
#[derive(Debug, Clone)]
pub struct ToolLimits {
    /// A command's time, if the call does not say.
    pub shell_timeout: Duration,
    /// The most time a command may ask for.
    pub shell_timeout_max: Duration,
    /// Characters of a command's output before it is cut.
    pub output_chars: usize,
    /// Lines of a command's output before it is cut.
    pub output_lines: usize,
    /// Where full copies of cut outputs go.
    pub outputs: PathBuf,
}

/// What a call gives back.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutput {
    /// What the model sees.
    pub llm_content: Vec<Part>,
    /// What a person sees.
    pub display: Display,
    /// For commands: what ran and how it ended.
    pub command: Option<CommandOutcome>,
}

/// What a person sees of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Display {
    /// A line or more of Markdown.
    Markdown(String),
    /// A unified diff.
    Diff(String),
}

/// How a command ended, for the `command` event.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandOutcome {
    /// What was started.
    pub argv: Vec<String>,
    /// Its exit code; `None` when a signal ended it.
    pub exit_code: Option<i32>,
    /// How long it ran.
    pub duration: Duration,
    /// Whether it was isolated by the kernel.
    pub sandboxed: bool,
}

impl ToolOutput {
    /// Text for the model, and a short line for the person.
    pub fn text(llm: impl Into<String>, display: impl Into<String>) -> ToolOutput {
        ToolOutput {
            llm_content: vec![Part::Text(llm.into())],
            display: Display::Markdown(display.into()),
            command: None,
        }
    }
}

/// Why a call failed: an answer for the model, not a crash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolError {
    /// What the model should know to do it differently.
    pub message: String,
    /// Which kind of failure, for the guard against loops and for statistics.
    pub kind: ToolErrorKind,
}

/// Kinds of failure of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolErrorKind {
    /// The arguments are wrong.
    Arguments,
    /// The policy denied it.
    Denied,
    /// It was tried and did not work.
    Failed,
}

impl ToolError {
    /// The arguments are wrong.
    pub fn arguments(message: impl Into<String>) -> ToolError {
        ToolError { message: message.into(), kind: ToolErrorKind::Arguments }
    }

    /// It was tried and did not work.
    pub fn failed(message: impl Into<String>) -> ToolError {
        ToolError { message: message.into(), kind: ToolErrorKind::Failed }
    }
}

/// Reads a required string argument.
pub(crate) fn required_str<'a>(arguments: &'a Map<String, Value>, name: &str) -> Result<&'a str, ToolError> {
    match arguments.get(name) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(ToolError::arguments(format!("params/{name} must be string"))),
        None => Err(ToolError::arguments(format!("params must have required property '{name}'"))),
    }
}

/// Reads an optional path argument.
pub(crate) fn optional_path<'a>(arguments: &'a Map<String, Value>, name: &str) -> Option<&'a Path> {
    arguments.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(Path::new)
}

#[cfg(test)]
pub(crate) mod tests;
