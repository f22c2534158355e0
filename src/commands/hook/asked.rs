//! Asks a recipe on behalf of a hook, and prints what it found.

use super::super::console::{appearance, print};
use super::error::HookError;
use crate::cli::hook::{HookArgs, HookMode};
use crate::cli::run::FromHook;
use crate::cli::usage::{self, UsageError};
use crate::cli::{Command, RunArgs};
use crate::emit::safe::one_line;
use crate::emit::{Screen, findings_for_people};
use crate::exit::Exit;
use crate::git::repository::Repository;
use crate::recipe::file::{Confidence, Severity};
use crate::run::Failure;
use crate::run::output::outputs::Streams;
use crate::run::place::Place;
use crate::settings::Environment;
use crate::verify::findings::Finding;
use serde_json::Value;
use std::io::{IsTerminal as _, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a hook may take where no flag says so.
pub(super) const BUDGET: Duration = Duration::from_secs(10);

/// Maximum findings that are printed.
const MOST: usize = 8;

/// Returns an argument of git's, if there is one: lefthook leaves `{2}` as it is where git gave none.
pub(super) fn given(argument: Option<&str>) -> Option<String> {
    let is_placeholder = |word: &str| {
        let number = word.strip_prefix('{').and_then(|word| word.strip_suffix('}'));
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    argument.filter(|word| !word.is_empty() && !is_placeholder(word)).map(str::to_owned)
}

/// Says in one line why nothing was asked; the commit continues, unless `--require` wants an answer.
///
/// `what` is git's command that waits for it.
pub(super) fn skipped(common: &HookArgs, what: &str, err: &mut dyn Write, reason: &str) -> Result<Exit, Failure> {
    let reason = one_line(reason);
    if common.require {
        return Err(HookError::Skipped(reason).into());
    }
    let _closed = writeln!(err, "qwen: skipped, {reason}; the {what} continues");
    Ok(Exit::Ok)
}

/// A hook that is running.
pub(super) struct HookRequest<'a> {
    pub(super) place: &'a Place,
    pub(super) environment: &'a Environment,
    pub(super) common: &'a HookArgs,
    /// Git's command that waits for it.
    pub(super) what: &'static str,
}

/// What came of asking.
pub(super) enum Reply {
    /// The result object.
    Result(Box<Value>),
    /// What would be sent, where the hook is only to show it.
    Shown(String),
    /// No answer, and why: nobody's fault who commits.
    None(String),
}

impl HookRequest<'_> {
    pub(super) fn repository(&self) -> &Repository {
        self.place.repository().expect("a hook without a repository has ended")
    }

    /// Returns what `QWEN_HOOK` says the hook is to do.
    pub(super) fn mode(&self) -> Result<HookMode, HookError> {
        match self.environment.value("QWEN_HOOK").as_deref() {
            None | Some("" | "1" | "block") => Ok(HookMode::Block),
            Some("advise") => Ok(HookMode::Advise),
            Some("local") => Ok(HookMode::Local),
            Some(other) => Err(HookError::Mode(other.to_owned())),
        }
    }

    /// Returns the index of the commit that is being made: git names it to its hooks, relative to the current
    /// directory.
    pub(super) fn index(&self) -> Option<PathBuf> {
        let named = self.environment.value("GIT_INDEX_FILE")?;
        let inside = self.environment.cwd.canonicalize().ok()?.starts_with(&self.repository().top);
        let index = self.environment.cwd.join(named);
        (inside && index.is_file()).then_some(index)
    }

    /// Returns what a run is told of this hook, which looks at the index.
    pub(super) fn facts(&self) -> FromHook {
        let shows_request = self.environment.is_on("QWEN_HOOK_DRY_RUN");
        FromHook { index: self.index(), shows_request, ..FromHook::default() }
    }

    /// Tells whether git is in the middle of something whose changes are not the committer's own.
    pub(super) fn is_in_between(&self) -> bool {
        ["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply"]
            .iter()
            .any(|name| self.repository().git_dir.join(name).symlink_metadata().is_ok())
    }

    /// Returns the arguments of the run of a recipe.
    fn arguments(&self, recipe: &str, params: &[String]) -> Result<Box<RunArgs>, Failure> {
        let recipe = self.common.recipe.as_deref().unwrap_or(recipe);
        let mut words: Vec<String> = [
            "qwen",
            "run",
            "--recipe",
            recipe,
            "--no-stdin",
            "--no-session",
            "--dry-run",
            "--on-deny",
            "continue",
            "-o",
            "result",
            "--fail-on",
            "never",
            "--color",
            "never",
            "-q",
            "--retries",
            "1",
        ]
        .map(str::to_owned)
        .into();
        words.extend(params.iter().map(|param| format!("--param={param}")));
        let trusted = self.place.trusted(self.environment)?;
        if trusted.checkout && self.repository().head.is_some() {
            // A commit cannot bring the rules by which it is judged.
            words.push("--trusted-ref=HEAD".to_owned());
        }
        if let Some(folder) = &self.common.workspace.cd {
            words.push(format!("--cd={}", folder.display()));
        }
        match usage::parse(words) {
            Ok(cli) => match cli.command {
                Some(Command::Run(arguments)) => Ok(arguments),
                _ => unreachable!("the words begin with `run`"),
            },
            Err(UsageError::Help(text) | UsageError::Wrong { message: text, .. }) => Err(HookError::Flags(text).into()),
        }
    }

    /// Runs a recipe and returns its result. An error is the fault of whoever set the hook up.
    pub(super) async fn ask(
        &self,
        recipe: &str,
        params: &[String],
        from_hook: FromHook,
        budget: Duration,
    ) -> Result<Reply, Failure> {
        let mut arguments = self.arguments(recipe, params)?;
        let shows_request = from_hook.shows_request;
        arguments.from_hook = Some(from_hook);
        let printed = Shared::default();
        let streams = Streams {
            backlogs: Vec::new(),
            stdout: Box::new(printed.clone()),
            stdout_is_terminal: false,
            stderr: Screen::Plain(Box::new(std::io::sink())),
            stderr_is_terminal: false,
        };
        let run = crate::run::run(&arguments, self.environment, streams);
        let Ok(exit) = tokio::time::timeout(budget, run).await else {
            return Ok(Reply::None(format!("no answer within {} s", budget.as_secs_f64())));
        };
        let bytes = printed.0.lock().map(|bytes| bytes.clone()).unwrap_or_default();
        reply(exit, serde_json::from_slice(&bytes).unwrap_or_default(), shows_request)
    }

    /// Prints what a recipe found and returns the way the hook ends: only what is an error and certain stops git.
    pub(super) fn judge(
        &self,
        reply: Reply,
        mode: HookMode,
        out: &mut dyn Write,
        err: &mut dyn Write,
    ) -> Result<Exit, Failure> {
        let what = self.what;
        let result = match reply {
            Reply::Result(result) => result,
            Reply::Shown(text) => return print(out, &(crate::emit::safe::escape(&text).into_owned() + "\n")),
            Reply::None(reason) => return skipped(self.common, what, err, &reason),
        };
        let values = result["findings"].as_array().map(Vec::as_slice).unwrap_or_default();
        let findings = values.iter().filter_map(|value| serde_json::from_value(value.clone()).ok());
        let lines: Vec<Line> = findings.map(|finding: Finding| Line::of(&finding)).collect();
        let errors = lines.iter().filter(|line| line.blocks).count() as u64;
        let exit = report(lines, self.environment, out)?;
        if let Some(text) = left_out(&result) {
            let _closed = writeln!(err, "qwen: {}", one_line(text));
        }
        if mode == HookMode::Advise {
            return Ok(Exit::Ok);
        }
        if errors > 0 {
            let errors = crate::emit::words::count(errors, "error");
            let _closed =
                writeln!(err, "qwen: the {what} is stopped by {errors}\n  {what} anyway:  git {what} --no-verify");
        }
        Ok(exit)
    }
}

/// Says what of the change the model was not shown, though a person would look at it.
fn left_out(result: &Value) -> Option<&str> {
    let is_incomplete = result.pointer("/structured_output/coverage/complete") == Some(&Value::Bool(false));
    result["result"].as_str().and_then(|text| text.lines().last()).filter(|_| is_incomplete)
}

/// Returns what came of a run that ended in this way, with this result.
fn reply(exit: Exit, result: Value, shows_request: bool) -> Result<Reply, Failure> {
    let text = |pointer: &str| result.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let message = text("/error/message");
    match exit {
        Exit::Ok | Exit::Gate | Exit::Denied if result["is_error"] == false => {
            Ok(if shows_request { Reply::Shown(text("/result")) } else { Reply::Result(Box::new(result)) })
        }
        // The provider's fault, the model's, or a limit's.
        Exit::Auth | Exit::Unavailable | Exit::Turns | Exit::Budget | Exit::Schema | Exit::Failed => {
            Ok(Reply::None(message))
        }
        Exit::Input if text("/error/code") == "too_large" => Ok(Reply::None(message)),
        Exit::Ok
        | Exit::Gate
        | Exit::Denied
        | Exit::Usage
        | Exit::Input
        | Exit::Sandbox
        | Exit::Config
        | Exit::Conflict
        | Exit::Verify
        | Exit::NoChanges
        | Exit::Replay
        | Exit::Interrupted
        | Exit::Terminated => Err(HookError::Run { exit, message, hint: text("/error/hint") }.into()),
    }
}

/// One finding as it is printed.
pub(super) struct Line {
    /// In one line.
    pub(super) text: String,
    /// As it is in a result.
    pub(super) value: Option<Value>,
    pub(super) blocks: bool,
}

impl Line {
    pub(super) fn of(finding: &Finding) -> Line {
        let Finding { path, start_line, rule_id, message, .. } = finding;
        Line {
            text: one_line(&format!("{path}:{start_line}: [{rule_id}] {message}")),
            value: serde_json::to_value(finding).ok(),
            blocks: finding.severity == Severity::Error && finding.confidence == Confidence::High,
        }
    }
}

/// Prints findings, those that stop git first; for a person at a terminal with the lines that they are about.
pub(super) fn report(mut lines: Vec<Line>, environment: &Environment, out: &mut dyn Write) -> Result<Exit, Failure> {
    lines.sort_by_key(|line| !line.blocks);
    let blocks = lines.first().is_some_and(|line| line.blocks);
    let is_terminal = std::io::stdout().is_terminal();
    let mut text = String::new();
    for line in lines.iter().take(MOST) {
        match line.value.as_ref().filter(|_| is_terminal) {
            Some(value) => {
                text.push_str(&findings_for_people(std::slice::from_ref(value), &appearance(environment)));
                text.push('\n');
            }
            None => text.push_str(&format!("{}\n", line.text)),
        }
    }
    if lines.len() > MOST {
        text.push_str(&format!("{} more\n", lines.len() - MOST));
    }
    if !text.is_empty() {
        print(out, text.trim_end())?;
        print(out, "\n")?;
    }
    Ok(if blocks { Exit::Gate } else { Exit::Ok })
}

pub(super) fn of_git(error: &dyn std::fmt::Display) -> HookError {
    HookError::Git(error.to_string())
}

/// A stream that is read afterwards.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().map_err(|_| std::io::Error::other("a writer panicked"))?.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
