//! Defines why a command cannot do its work.

use std::borrow::Cow;
use std::path::Path;

use crate::base::{CliError, Diagnostic};
use crate::deliver::message::MessageError;
use crate::emit::MaterialError;
use crate::exit::Exit;
use crate::settings::SettingsError;

/// Why any command cannot read what it is given, or write what it makes.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommandError {
    /// A file cannot be read.
    #[error("{path}: {cause}")]
    Input { path: String, cause: std::io::Error },
    /// Manual pages cannot be written.
    #[error("cannot write manual pages to {path}: {cause}")]
    Manual { path: String, cause: std::io::Error },
    /// No directory for what is temporary.
    #[error("cannot make a temporary directory: {0}")]
    Temporary(std::io::Error),
    /// The isolation of the machine cannot be tested.
    #[error("cannot test the isolation of this machine: {0}")]
    Isolation(std::io::Error),
    /// `--input` is not JSON.
    #[error("--input: {0}")]
    Arguments(serde_json::Error),
    /// `--input` is not an object.
    #[error("--input is not a JSON object")]
    NotObject,
    /// Nothing of this kind is kept for the workspace.
    #[error("no {what} is kept for {folder}")]
    NothingKept { what: &'static str, folder: String },
    /// An id is cut too short.
    #[error("`{beginning}` is the beginning of {}: {}", crate::emit::words::count(ids.len() as u64, "run"), ids.join(", "))]
    SeveralKept { beginning: String, ids: Vec<String> },
    /// The run that made the newest proposal did not end well.
    #[error("the newest proposal for {folder} is of a run that ended with {code}: {id}")]
    RunFailed { folder: String, code: u8, id: String },
    /// `--message` has no commit.
    #[error("--message without a commit")]
    MessageAlone,
    /// The list of hunks is no patch.
    #[error("--list cannot print a patch")]
    ListAsPatch,
    /// `--files` is not a glob.
    #[error("--files: {0}")]
    Glob(String),
    /// `--message` is not a message.
    #[error("--message: {0}")]
    Message(#[from] MessageError),
}

impl CliError for CommandError {
    fn exit(&self) -> Exit {
        match self {
            CommandError::Input { .. }
            | CommandError::Arguments(_)
            | CommandError::NotObject
            | CommandError::NothingKept { .. }
            | CommandError::SeveralKept { .. }
            | CommandError::RunFailed { .. } => Exit::Input,
            CommandError::Manual { .. } | CommandError::Isolation(_) => Exit::Failed,
            CommandError::Temporary(_) => Exit::Conflict,
            CommandError::MessageAlone
            | CommandError::ListAsPatch
            | CommandError::Glob(_)
            | CommandError::Message(_) => Exit::Usage,
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(match self {
            CommandError::Input { .. } => "name a file that can be read",
            CommandError::NothingKept { .. } => "give a result file, or run without --no-session",
            CommandError::SeveralKept { .. } => "write more of it",
            CommandError::RunFailed { id, .. } => {
                return Some(format!("apply it all the same:  qwen apply {id}").into());
            }
            CommandError::Manual { .. } => "name a directory that you can write to with --to",
            CommandError::Temporary(_) | CommandError::Isolation(_) => "set TMPDIR",
            CommandError::Arguments(_) => "write a JSON object",
            CommandError::NotObject => "write '{\"file_path\": \"README.md\"}'",
            CommandError::MessageAlone => "add --commit or --branch NAME",
            CommandError::ListAsPatch => "use -o text or -o result",
            CommandError::Glob(_) => "write a glob such as 'src/**'",
            CommandError::Message(_) => "give a short first line",
        }))
    }
}

/// Why `qwen help` shows nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum HelpError {
    /// There is no such page, and no such command.
    #[error("there is no page `{topic}`")]
    Unknown { topic: String, nearest: Option<String> },
    /// Several words: more likely a prompt than a topic.
    #[error("`qwen help` shows one page, and these are several words: {0}")]
    Prompt(String),
}

impl CliError for HelpError {
    fn exit(&self) -> Exit {
        Exit::Usage
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            HelpError::Unknown { nearest: Some(nearest), .. } => {
                format!("try `qwen help {nearest}`, or `qwen help --list`").into()
            }
            HelpError::Unknown { nearest: None, .. } => "`qwen help --list` names the pages".into(),
            HelpError::Prompt(words) => format!("to send this as a prompt: qwen run 'help {words}'").into(),
        })
    }
}

/// Why `qwen report` makes no page.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReportError {
    /// What is named cannot be shown.
    #[error("{path}: {cause}")]
    Material { path: String, cause: MaterialError },
    /// Something else has the page's name.
    #[error("{0} already exists and is not a review page")]
    Other(String),
    /// The page cannot be written.
    #[error("cannot write {path}: {cause}")]
    Unwritten { path: String, cause: std::io::Error },
    /// Several words: more likely a prompt than files.
    #[error("`qwen report` shows files, and there are no files of these names: {0}")]
    Prompt(String),
}

impl CliError for ReportError {
    fn exit(&self) -> Exit {
        match self {
            ReportError::Prompt(_) => Exit::Usage,
            ReportError::Material { .. } => Exit::Input,
            ReportError::Other(_) | ReportError::Unwritten { .. } => Exit::Conflict,
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            ReportError::Material { cause: MaterialError::TwoRuns(..) | MaterialError::Digest, .. } => {
                "give files of one run, as it wrote them".into()
            }
            ReportError::Material { .. } => {
                "give a result, json or stream-json output, an events file, a patch or a review page".into()
            }
            ReportError::Other(_) => "name another file with -o, or remove this one".into(),
            ReportError::Unwritten { .. } => {
                "name a file in a directory that exists and can be written, with -o".into()
            }
            ReportError::Prompt(words) => format!("to send this as a prompt: qwen run 'report {words}'").into(),
        })
    }
}

/// Why `qwen check` cannot check.
#[derive(Debug, thiserror::Error)]
pub(super) enum CheckError {
    /// An option stands where a revision should.
    #[error("`{0}` is not a revision")]
    NotRevision(String),
    /// The commits cannot be listed.
    #[error("{0}")]
    Commits(String),
    /// The change cannot be read.
    #[error("{0}")]
    Change(String),
    /// The command cannot be run.
    #[error("{reason}")]
    Denied { reason: String, hint: Option<String> },
    /// Our own path is unknown.
    #[error("cannot find the path of `qwen`: {0}")]
    NoProgram(std::io::Error),
}

impl CliError for CheckError {
    fn exit(&self) -> Exit {
        match self {
            CheckError::NotRevision(_) | CheckError::Denied { .. } => Exit::Usage,
            CheckError::Commits(_) | CheckError::Change(_) => Exit::Input,
            CheckError::NoProgram(_) => Exit::Failed,
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(match self {
            CheckError::NotRevision(_) => "name a tag or commit",
            CheckError::Commits(_) | CheckError::Change(_) => {
                "run it in the repository, with a revision that exists there"
            }
            CheckError::Denied { hint, .. } => hint.as_deref().unwrap_or("put it into a script"),
            CheckError::NoProgram(_) => return None,
        }))
    }
}

/// Why `qwen tools call` does not call.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    /// The arguments do not fit.
    #[error("{0}")]
    Parameters(String),
    /// The policy denies the call.
    #[error("denied by the policy: {reason}")]
    Denied { reason: String, hint: Option<String> },
    /// The tool failed.
    #[error("{0}")]
    Failed(String),
}

impl CliError for CallError {
    fn exit(&self) -> Exit {
        match self {
            CallError::Parameters(_) => Exit::Input,
            CallError::Denied { .. } => Exit::Denied,
            CallError::Failed(_) => Exit::Failed,
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(match self {
            CallError::Parameters(_) => "run `qwen tools list --json` to see the parameters",
            CallError::Denied { hint, .. } => hint.as_deref().unwrap_or("run `qwen policy explain` to see why"),
            CallError::Failed(_) => return None,
        }))
    }
}

/// Why `qwen undo` reverts nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum UndoError {
    /// The records cannot be used.
    #[error("the records in {path}: {cause}")]
    Records { path: String, cause: std::io::Error },
    /// Git, the branch that is checked out, or the disk is in the way.
    #[error("cannot undo: {0}")]
    Prevented(std::io::Error),
    /// No run here has a record.
    #[error(
        "no record of {} {root}",
        run.as_ref().map_or_else(|| "a run that changed".to_owned(), |id| format!("run {id} in"))
    )]
    NoRecord { run: Option<String>, root: String },
    /// It was interrupted.
    #[error("undo was interrupted: {0}")]
    Interrupted(std::io::Error),
    /// A run of an earlier version was killed.
    #[error(
        "a run of an earlier version was killed while its commands worked in the project itself, which this version does not undo"
    )]
    Earlier { hint: String },
}

impl CliError for UndoError {
    fn exit(&self) -> Exit {
        Exit::Conflict
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(match self {
            UndoError::Records { .. } | UndoError::Prevented(_) => {
                "nothing was changed; remove the cause, then run `qwen undo` again"
            }
            UndoError::NoRecord { run: Some(_), .. } => "`qwen undo --list` names the runs with a record",
            UndoError::NoRecord { run: None, .. } => {
                "undo runs with --apply or --commit and without --no-undo; other runs keep no record"
            }
            UndoError::Interrupted(_) => "remove the cause, then run `qwen undo` again: it continues where it stopped",
            UndoError::Earlier { hint } => hint,
        }))
    }
}

/// Why `qwen policy` has no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum RulesError {
    /// No built-in policy has the name.
    #[error("unknown built-in policy `{0}`")]
    Builtin(String),
    /// A file of calls is not text.
    #[error("{0} is not UTF-8")]
    Calls(String),
    /// Several calls were given.
    #[error("`policy explain` takes one call")]
    OneCall,
    /// The approval cannot be stored.
    #[error("{path}: {cause}")]
    State { path: String, cause: std::io::Error },
    /// A file cannot be approved.
    #[error("{0}")]
    NotApproved(std::io::Error),
    /// A file of events is not text.
    #[error("{0} is not UTF-8")]
    NotEvents(String),
    /// A line is not an event.
    #[error("{path}:{line}: {cause}")]
    Event { path: String, line: usize, cause: serde_json::Error },
    /// The events have no calls.
    #[error("{0}: no tool calls found")]
    NoCalls(String),
}

impl CliError for RulesError {
    fn exit(&self) -> Exit {
        match self {
            RulesError::Builtin(_) | RulesError::NotApproved(_) => Exit::Config,
            RulesError::Calls(_) | RulesError::NotEvents(_) | RulesError::Event { .. } | RulesError::NoCalls(_) => {
                Exit::Input
            }
            RulesError::OneCall => Exit::Usage,
            RulesError::State { .. } => Exit::Conflict,
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(match self {
            RulesError::Builtin(_) => "run `qwen policy builtin` for the list",
            RulesError::Calls(_) => "write one JSON object a line",
            RulesError::OneCall => "use `policy check --calls` for several",
            RulesError::State { .. } => "make qwen's state directory writable",
            RulesError::NotApproved(cause) if cause.kind() == std::io::ErrorKind::PermissionDenied => {
                "make it readable, or remove it"
            }
            RulesError::NotApproved(_) => "replace it with a regular file, or remove it",
            RulesError::NotEvents(_) => "name an events file",
            RulesError::Event { .. } => "name a file that `qwen run --events-file FILE` wrote",
            RulesError::NoCalls(_) => "record a run that does the task: qwen run --yolo --dry-run --events-file FILE …",
        }))
    }
}

/// Why `qwen recipe` does not do what it is told.
#[derive(Debug, thiserror::Error)]
pub(super) enum RecipesError {
    /// Some recipes are wrong.
    #[error("{} in {}", crate::emit::words::count(*errors as u64, "error"), crate::emit::words::count(*recipes as u64, "recipe"))]
    Wrong { errors: usize, recipes: usize },
    /// The new file cannot be made.
    #[error("{path}: {cause}")]
    New { path: String, cause: std::io::Error },
    /// It is to build on a recipe that is not built in.
    #[error("--from={0}: only a built-in recipe can be built on")]
    From(String),
    /// A command cannot be rendered.
    #[error("{name}: {problem}")]
    Words { name: String, problem: String, help: Option<String> },
}

impl CliError for RecipesError {
    fn exit(&self) -> Exit {
        match self {
            RecipesError::Wrong { .. } | RecipesError::Words { .. } => Exit::Input,
            RecipesError::From(_) => Exit::Usage,
            RecipesError::New { .. } => Exit::Conflict,
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(match self {
            RecipesError::Wrong { .. } => "see `qwen help recipes` for each code",
            RecipesError::New { cause, .. } if cause.kind() == std::io::ErrorKind::AlreadyExists => {
                "choose another name, or edit the existing file"
            }
            RecipesError::New { .. } => "make room in its directory, or make it writable",
            RecipesError::From(_) => "give builtin:NAME; `qwen recipe list` has the names",
            RecipesError::Words { help, .. } => help.as_deref().unwrap_or("correct the parameter"),
        }))
    }
}

/// Why `qwen mcp` cannot read or change the settings.
#[derive(Debug, thiserror::Error)]
pub(super) enum McpError {
    /// The flags are wrong.
    #[error("{0}")]
    Flags(String),
    /// The file is wrong, so that it cannot be changed.
    #[error("{0}")]
    Broken(Diagnostic),
    /// There is no home.
    #[error("no home directory is set")]
    NoHome,
    /// The file cannot be read.
    #[error("{path}: {cause}")]
    Unreadable { path: String, cause: std::io::Error },
    /// The file cannot be written.
    #[error("{path}: {cause}")]
    Unwritable { path: String, cause: std::io::Error },
    /// The settings are wrong.
    #[error("{0}")]
    Settings(SettingsError),
}

impl CliError for McpError {
    fn exit(&self) -> Exit {
        match self {
            McpError::Flags(_) => Exit::Usage,
            McpError::Broken(_) | McpError::NoHome | McpError::Unreadable { .. } | McpError::Settings(_) => {
                Exit::Config
            }
            McpError::Unwritable { .. } => Exit::Conflict,
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(match self {
            McpError::Flags(_) => "qwen mcp add --help",
            McpError::Broken(_) => "correct the file first",
            McpError::NoHome => "set HOME, or use --scope project",
            McpError::Unreadable { .. } => "make it readable",
            McpError::Unwritable { .. } => "make it writable",
            McpError::Settings(_) => "correct the file",
        }))
    }
}

impl CommandError {
    /// Returns what a failed read of a named file is.
    pub(super) fn input(path: &Path) -> impl Fn(std::io::Error) -> CommandError + '_ {
        |cause| CommandError::Input { path: path.display().to_string(), cause }
    }
}
