//! Runs `qwen hook`: the commands that git calls. A hook shows a recipe what git is about to record, within a time
//! limit, and lets git continue if no answer is available.

mod install;
mod message;
mod pre_commit;
mod pre_push;

use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

use super::print;
use crate::cli::Command;
use crate::cli::hook::{HookArgs, HookVerb};
use crate::cli::run::FromHook;
use crate::cli::usage::{self, UsageError};
use crate::emit::Screen;
use crate::emit::safe::one_line;
use crate::exit::Exit;
use crate::git::Git;
use crate::git::repository::Repository;
use crate::recipe::file::Severity;
use crate::run::Failure;
use crate::run::outputs::Streams;
use crate::run::place::Place;
use crate::settings::Environment;
use crate::verify::findings::{Confidence, Finding};

/// What a hook may take where no flag says so.
const BUDGET: Duration = Duration::from_secs(10);

/// Maximum findings that are printed.
const MOST: usize = 8;

pub(super) async fn run(
    verb: &HookVerb,
    environment: &Environment,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    let common = match verb {
        HookVerb::Install { which, workspace } => return install::install(*which, workspace, environment, out),
        HookVerb::Uninstall { which, workspace } => return install::uninstall(*which, workspace, environment, out),
        HookVerb::PreCommit { common }
        | HookVerb::PrepareCommitMsg { common, .. }
        | HookVerb::PrePush { common, .. } => common,
    };
    if environment.value("QWEN_HOOK").as_deref() == Some("0") {
        return Ok(Exit::Ok);
    }
    let place = Place::open(common.workspace.cd.as_deref(), environment)?;
    if place.repository().is_none() {
        return skipped(common, err, "this directory is not in a git repository with a work tree");
    }
    let asked = Asked { place: &place, environment, common };
    match verb {
        HookVerb::PrepareCommitMsg { file, source, .. } => {
            let drafted = message::draft(&asked, file, source.as_deref(), out, err).await;
            // A message that is not drafted is written by hand: no reason to stop a commit.
            drafted.or_else(|failure| skipped(common, err, &failure.error.message))
        }
        HookVerb::PrePush { remote, .. } => pre_push::run(&asked, remote.as_deref(), out, err).await,
        HookVerb::PreCommit { .. } => pre_commit::run(&asked, out, err).await,
        HookVerb::Install { .. } | HookVerb::Uninstall { .. } => unreachable!("they have returned above"),
    }
}

/// Returns an argument of git's, if there is one: lefthook leaves `{2}` as it is where git gave none.
fn given(argument: Option<&str>) -> Option<String> {
    let is_placeholder = |word: &str| {
        let number = word.strip_prefix('{').and_then(|word| word.strip_suffix('}'));
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    argument.filter(|word| !word.is_empty() && !is_placeholder(word)).map(str::to_owned)
}

/// Says in one line why nothing was asked; the commit continues, unless `--require` wants an answer.
fn skipped(common: &HookArgs, err: &mut dyn Write, reason: &str) -> Result<Exit, Failure> {
    let reason = one_line(reason);
    if common.require {
        return Err(Failure::new(
            Exit::Unavailable,
            reason,
            "set QWEN_HOOK=0 to continue without a message from the model",
        ));
    }
    let _closed = writeln!(err, "qwen: skipped: {reason}");
    Ok(Exit::Ok)
}

/// A hook that is running.
struct Asked<'a> {
    place: &'a Place,
    environment: &'a Environment,
    common: &'a HookArgs,
}

/// What came of asking.
enum Reply {
    /// The result object.
    Result(Box<Value>),
    /// What would be sent, where the hook is only to show it.
    Shown(String),
    /// No answer, and why: nobody's fault who commits.
    None(String),
}

impl Asked<'_> {
    fn repository(&self) -> &Repository {
        self.place.repository().expect("a hook without a repository has ended")
    }

    /// Returns the index of the commit that is being made: git names it to its hooks, relative to the current
    /// directory.
    fn index(&self) -> Option<PathBuf> {
        let named = self.environment.value("GIT_INDEX_FILE")?;
        let inside = self.environment.cwd.canonicalize().ok()?.starts_with(&self.repository().top);
        let index = self.environment.cwd.join(named);
        (inside && index.is_file()).then_some(index)
    }

    /// Returns git, on that index.
    fn git(&self) -> Result<Git, Failure> {
        let git = self.repository().without_filters().map_err(|error| of_git(&error))?;
        Ok(match self.index() {
            Some(index) => git.env("GIT_INDEX_FILE", index),
            None => git,
        })
    }

    /// Tells whether git is in the middle of something whose changes are not the committer's own.
    fn is_in_between(&self) -> bool {
        ["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply"]
            .iter()
            .any(|name| self.repository().git_dir.join(name).symlink_metadata().is_ok())
    }

    /// Runs a recipe and returns its result. An error is the fault of whoever set the hook up.
    async fn ask(
        &self,
        recipe: &str,
        params: &[String],
        revision: Option<String>,
        budget: Duration,
    ) -> Result<Reply, Failure> {
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
        let mut arguments = match usage::parse(words) {
            Ok(cli) => match cli.command {
                Some(Command::Run(arguments)) => arguments,
                _ => unreachable!("the words begin with `run`"),
            },
            Err(UsageError::Help(text) | UsageError::Wrong { message: text, .. }) => {
                return Err(Failure::new(Exit::Usage, text, "correct the flags of `qwen hook`"));
            }
        };
        let shows_request = self.environment.is_on("QWEN_HOOK_DRY_RUN");
        arguments.from_hook = Some(FromHook { index: self.index(), revision, shows_request });
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
        let result: Value = serde_json::from_slice(&bytes).unwrap_or_default();
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
            | Exit::Terminated => Err(Failure::new(exit, message, text("/error/hint"))),
        }
    }

    /// Prints what a recipe found and returns the way the hook ends: only what is an error and certain stops git.
    fn judge(&self, reply: Reply, out: &mut dyn Write, err: &mut dyn Write) -> Result<Exit, Failure> {
        let result = match reply {
            Reply::Result(result) => result,
            Reply::Shown(text) => return print(out, &(crate::emit::safe::escape(&text).into_owned() + "\n")),
            Reply::None(reason) => return skipped(self.common, err, &reason),
        };
        let findings = result["findings"].as_array().cloned().unwrap_or_default();
        let findings: Vec<Finding> =
            findings.into_iter().filter_map(|finding| serde_json::from_value(finding).ok()).collect();
        let lines: Vec<Line> = findings.iter().map(Line::of).collect();
        report(lines, out)
    }
}

/// One finding as it is printed.
struct Line {
    text: String,
    blocks: bool,
}

impl Line {
    fn of(finding: &Finding) -> Line {
        let Finding { path, start_line, rule_id, message, .. } = finding;
        Line {
            text: one_line(&format!("{path}:{start_line}: [{rule_id}] {message}")),
            blocks: finding.severity == Severity::Error && finding.confidence == Confidence::High,
        }
    }
}

/// Prints findings, those that stop git first.
fn report(mut lines: Vec<Line>, out: &mut dyn Write) -> Result<Exit, Failure> {
    lines.sort_by_key(|line| !line.blocks);
    let blocks = lines.first().is_some_and(|line| line.blocks);
    let mut text: String = lines.iter().take(MOST).map(|line| format!("{}\n", line.text)).collect();
    if lines.len() > MOST {
        text.push_str(&format!("{} more\n", lines.len() - MOST));
    }
    if !text.is_empty() {
        print(out, &text)?;
    }
    Ok(if blocks { Exit::Gate } else { Exit::Ok })
}

fn of_git(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Exit::Conflict, error.to_string(), "run `git status` there and correct what it reports")
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
