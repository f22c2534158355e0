//! Defines how tools run commands: what starts them, and how they went.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::error::ToolError;
use crate::base::trace::Context;
use crate::model::BoxFuture;
use crate::policy::CommandPlan;

/// Runs what the policy allowed: the sandbox in a run, a script in tests.
pub trait CommandRunner: Send + Sync {
    /// Runs a command to its end, its time-out, or (in the background) its start. Dropping the future kills it.
    ///
    /// A command that ran and failed is a report; an error means that it could not be started or got no command workspace.
    fn run<'a>(
        &'a self,
        plan: &'a CommandPlan,
        request: CommandRequest,
    ) -> BoxFuture<'a, Result<CommandReport, ToolError>>;

    /// Brings the tree of programs that run on, as servers do, up to what is staged.
    fn show_staged<'a>(&'a self) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Takes what such programs changed in their tree into the staged changes, and says what was refused.
    fn take_changes<'a>(&'a self) -> BoxFuture<'a, Result<Vec<String>, ToolError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}

/// How a command is to be run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandRequest {
    /// The whole process group is killed after this.
    pub timeout: Duration,
    /// Whether it continues while the call returns; it ends with the run.
    pub background: bool,
    /// Variables that the command gets next to its usual ones.
    pub variables: Variables,
}

/// Variables of a command. Their values may be secrets: `Debug` shows only the names.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables(pub BTreeMap<String, String>);

impl Variables {
    /// Returns the trace context that a program gets.
    pub fn traced(context: &Context) -> Variables {
        Variables(context.variables().collect())
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// How a command went.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CommandReport {
    /// What was started.
    pub argv: Vec<String>,
    /// Standard output, bounded by the runner.
    pub stdout: Vec<u8>,
    /// Standard error, bounded by the runner.
    pub stderr: Vec<u8>,
    /// Bytes of both that the runner did not keep.
    pub missing: MissingOutput,
    /// The exit code; `None` when a signal ended it, or it still runs.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Whether its time ran out.
    pub timed_out: bool,
    /// What continues in the background.
    pub background: Background,
    /// How long it ran.
    pub duration: Duration,
    /// Whether the kernel contained it.
    pub sandboxed: bool,
    /// What the model should know next to the output, one sentence each: files left out of the command workspace, …
    pub notes: Vec<String>,
    /// Files that the command changed, relative to the workspace.
    pub changed: Vec<String>,
}

/// Bytes of a command's output that the runner did not keep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MissingOutput {
    /// Of standard output.
    pub stdout: u64,
    /// Of standard error.
    pub stderr: u64,
}

/// What of a command continues in the background: nothing, if there is no process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Background {
    /// Its process group, where processes remain in it.
    pub pgid: Option<u32>,
    /// The processes.
    pub pids: Vec<u32>,
}

impl Background {
    /// Takes numbers as the system gives them.
    pub fn of(pgid: i32, pids: &[i32]) -> Background {
        let pgid = if pids.is_empty() { None } else { u32::try_from(pgid).ok() };
        Background { pgid, pids: pids.iter().filter_map(|pid| u32::try_from(*pid).ok()).collect() }
    }
}
