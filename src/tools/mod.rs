//! Contains the tools that the model can call: one file per tool, one line per tool in the toolbox.

pub mod call;
pub mod command;
pub mod common;
pub mod discovered;
pub mod edit;
pub mod error;
pub mod glob;
pub mod list_directory;
pub mod mcp;
pub mod read_file;
pub mod read_many_files;
pub mod run_shell_command;
pub mod save_memory;
pub mod search_file_content;
pub mod skill;
pub mod structured_output;
pub mod task;
pub mod todo_write;
pub mod toolbox;
pub mod web;
pub mod web_fetch;
pub mod web_search;
pub mod write_file;

pub use call::{
    Assignment, Call, CallFuture, Choice, CommandOutcome, Display, Effects, RunMemory, Todo, Tool, ToolContext,
    ToolLimits, ToolOutput, TypedTool,
};
use call::{check_names_file, named, whole};
pub use command::{Background, CommandReport, CommandRequest, CommandRunner, MissingOutput, Variables};
pub use error::{ToolError, ToolErrorKind};
pub use toolbox::{Entry, ParsedCall, Toolbox};

#[cfg(test)]
pub(crate) mod tests;
