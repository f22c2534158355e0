//! Defines what a tool is, what a call is, and what they are given and give back.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::command::CommandRunner;
use super::error::ToolError;
use crate::base::trace::Context;
use crate::model::{BoxFuture, Part, ToolSpec};
use crate::policy::{Access, Grant};
use crate::tool_name::ToolId;
use crate::workspace::Workspace;

/// What a tool's calls do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effects {
    /// They only look, and so may run at the same time.
    Reads,
    /// They change files.
    Edits,
    /// They run commands.
    Runs,
    /// They hold conversations of their own.
    Delegates,
    /// They give the answer of the run.
    Answers,
    /// Anything else.
    Other,
}

/// A tool: how the model sees it, and how its arguments become a call.
pub trait Tool: Send + Sync {
    /// Returns the name, description and schema that the model sees.
    fn spec(&self) -> ToolSpec;

    /// Returns what its calls do.
    fn effects(&self) -> Effects;

    /// Validates arguments that already fit the schema and makes the call. Touches nothing.
    fn parse(&self, arguments: Map<String, Value>) -> Result<Box<dyn Call>, ToolError>;
}

/// A tool of ours: its arguments are a type.
pub trait TypedTool: Send + Sync {
    /// What the schema describes. What the schema allows is read without an error.
    type Args: DeserializeOwned;
    /// Which tool it is.
    const ID: ToolId;
    /// What its calls do.
    const EFFECTS: Effects;

    /// What the model reads about it: every character is paid on every request.
    const DESCRIPTION: &'static str;

    /// Returns what the model reads about it, with what differs from run to run.
    fn description(&self) -> String {
        Self::DESCRIPTION.to_owned()
    }

    /// Returns the schema of the arguments.
    fn parameters(&self) -> Value;

    /// Checks what a schema cannot say and makes the call. Touches nothing.
    fn call(&self, args: Self::Args) -> Result<Box<dyn Call>, ToolError>;
}

impl<T: TypedTool> Tool for T {
    fn spec(&self) -> ToolSpec {
        ToolSpec { name: T::ID.to_string(), description: self.description(), parameters: self.parameters() }
    }

    fn effects(&self) -> Effects {
        T::EFFECTS
    }

    fn parse(&self, arguments: Map<String, Value>) -> Result<Box<dyn Call>, ToolError> {
        let args = serde_json::from_value(Value::Object(arguments));
        self.call(args.map_err(|error| ToolError::arguments(format!("params: {error}")))?)
    }
}

/// What a call gives back when it is done.
pub type CallFuture<'a> = BoxFuture<'a, Result<ToolOutput, ToolError>>;

/// One call, validated and not yet allowed.
pub trait Call: Send {
    /// Returns everything it would touch: what the policy judges.
    fn accesses(&self) -> Vec<Access>;

    /// Names what the call is about in one line: a command, a pattern, or a path relative to the workspace at `root`.
    fn subject(&self, root: &Path) -> String;

    /// Does it, within the grant. Dropping the future cancels it.
    fn run<'a>(self: Box<Self>, grant: &'a Grant, cx: &'a ToolContext<'a>) -> CallFuture<'a>;
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
    /// Whether the model writes its calls as text, as small models do.
    pub text_tools: bool,
    /// The trace context for programs and servers that the call starts.
    pub traced: &'a Context,
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
    /// Files with a text that were written as a whole.
    pub rewritten: std::sync::Mutex<std::collections::BTreeSet<crate::path::RelPath>>,
    /// Files whose whole replacement was questioned.
    pub questioned: std::sync::Mutex<std::collections::BTreeSet<crate::path::RelPath>>,
    /// Files that a call broke, as far as no later one has mended them, with what was said of that.
    pub broken: std::sync::Mutex<std::collections::BTreeMap<crate::path::RelPath, String>>,
    /// The task, where it is known.
    pub task: std::sync::OnceLock<Assignment>,
    /// The places that the last edit may have meant, until the model says which.
    pub choice: std::sync::Mutex<Option<Choice>>,
}

/// What a run is asked to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Assignment {
    /// The user's words; empty for none.
    pub text: String,
    /// The first path that they name.
    pub path: Option<String>,
}

impl Assignment {
    /// Returns the user's words if they are few enough to be said again; else nothing.
    pub fn short(&self) -> &str {
        const MOST: usize = 400;
        if self.text.len() <= MOST { &self.text } else { "" }
    }
}

/// An edit that may mean several places of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The file, as the model named it.
    pub path: std::path::PathBuf,
    /// For each place the number of its line, from 1, the text that only it has, and what that becomes.
    pub places: Vec<(usize, String, String)>,
    /// What the model gave: the text to replace, and by what.
    pub given: (String, String),
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
    /// Text for the model, and a diff for the person.
    pub fn diff(llm: impl Into<String>, diff: String) -> ToolOutput {
        ToolOutput { llm_content: vec![Part::Text(llm.into())], display: Display::Diff(diff), command: None }
    }

    /// Text for the model, and a short line for the person.
    pub fn text(llm: impl Into<String>, display: impl Into<String>) -> ToolOutput {
        ToolOutput {
            llm_content: vec![Part::Text(llm.into())],
            display: Display::Markdown(display.into()),
            command: None,
        }
    }
}

/// Reads a count; a number that cannot be one, such as 1e300, counts as absent.
pub(super) fn whole<'de, D: Deserializer<'de>, N: TryFrom<u64>>(number: D) -> Result<Option<N>, D::Error> {
    Ok(Value::deserialize(number)?.as_u64().and_then(|number| N::try_from(number).ok()))
}

/// Refuses a path that cannot be a file's.
pub(super) fn check_names_file(path: &Path) -> Result<(), ToolError> {
    match path.as_os_str().as_encoded_bytes() {
        [] | [.., b'/'] => Err(ToolError::arguments("params/file_path must name a file")),
        _ => Ok(()),
    }
}

/// Returns a path that was given; an empty one was not.
pub(super) fn named(path: Option<PathBuf>) -> Option<PathBuf> {
    path.filter(|path| !path.as_os_str().is_empty())
}
