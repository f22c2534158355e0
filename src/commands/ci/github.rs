//! Runs `qwen ci github`: one run in a job that may read the repository but not push.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::error::CiError;
use super::inputs::Shown;
use super::job::{GuardedLog, Job, open, say, say_failure, trusted};
use super::trusted_policy;
use crate::bounded;
use crate::cli::usage::{self, UsageError};
use crate::cli::{Command, RunArgs};
use crate::emit::{Renderer, Report, Screen, summary, to_line};
use crate::event::{Event, RunFinished};
use crate::exit::Exit;
use crate::policy::trigger::{Trigger, Verdict};
use crate::recipe::builtin;
use crate::run::Failure;
use crate::run::finish::outcome;
use crate::run::output::outputs::{Streams, new_id, outputs};
use crate::run::place;
use crate::run::rules::trust::Trusted;
use crate::run::run as run_agent;
use crate::tool_name::{READING, ToolId};

/// The largest structured answer that becomes an output; the result file has any.
const LARGEST_ANSWER: usize = 256 * 1024;

/// Tells whether a tool only looks at the checkout or takes the answer.
fn only_looks(tool: &str) -> bool {
    ToolId::named(tool)
        .is_some_and(|tool| READING.contains(&tool) || matches!(tool, ToolId::TodoWrite | ToolId::StructuredOutput))
}

/// The name of the review page.
const REPORT: &str = "report.html";

/// Files of the step.
struct Files {
    folder: PathBuf,
}

impl Files {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn set(&self, arguments: &mut RunArgs, shown: Shown) {
        let output = &mut arguments.output;
        output.result_file = Some(self.path("result.json"));
        output.patch_file = Some(self.path("change.patch"));
        output.summary_file = Some(self.path("summary.md"));
        output.report_file = shown.report.then(|| self.path(REPORT));
        output.sarif_file = Some(self.path("findings.sarif"));
        output.rdjson_file = Some(self.path("findings.rdjson"));
        output.annotations_file = Some(self.path("annotations.txt"));
    }
}

/// The job's decisions before a model is asked.
enum Ready {
    Run(Box<RunArgs>),
    Skip(String),
}

pub(super) async fn run(job: &mut Job, out: &mut dyn Write) -> Result<Exit, Failure> {
    let files = Files { folder: job.folder()? };
    let log = GuardedLog::new()?;
    let exit = match ready(job, &files).await {
        Ok(Ready::Run(arguments)) => run_agent(&arguments, &job.environment, streams(&log)).await,
        Ok(Ready::Skip(why)) => end(job, &files, &log, outcome::nothing_to_do(format!("not started: {why}"))),
        Err(failure) => end(job, &files, &log, RunFinished::failed(failure.exit, *failure.error)),
    };
    say(out, &log.end());
    let report = read_report(&files.path("result.json"))?;
    if job.inputs.shown.annotations {
        // Written here with each value escaped: these are the commands that the runner must obey.
        say(out, &bounded::regular_text(&files.path("annotations.txt"), bounded::PRODUCT).unwrap_or_default());
    }
    if let Some(error) = report.error.as_ref().filter(|_| exit != Exit::Ok) {
        say_failure(out, exit, &error.message, error.hint.as_deref());
    }
    let mut text = bounded::regular_text(&files.path("summary.md"), bounded::PRODUCT)
        .unwrap_or_else(|_| summary::summary(&report));
    if let Some(url) = job.run_url().filter(|_| files.path(REPORT).exists()) {
        text.push_str(&summary::review_page(&report, &url, REPORT));
    }
    job.write_summary(&text)?;
    set_outputs(job, &files, &report, exit);
    job.write_outputs()?;
    Ok(exit)
}

/// Everything that is decided without a model: inputs, the people behind the event, the policy's own text.
async fn ready(job: &Job, files: &Files) -> Result<Ready, Failure> {
    let words = job.inputs.arguments()?;
    let mut arguments = match usage::parse(words) {
        Ok(cli) => match cli.command {
            Some(Command::Run(arguments)) => arguments,
            _ => return Err(CiError::NotARun.into()),
        },
        Err(UsageError::Wrong { message, hint, .. }) => {
            return Err(CiError::Flags { message, hint: hint.unwrap_or_default() }.into());
        }
        Err(UsageError::Help(_)) => return Err(CiError::NotARun.into()),
    };
    files.set(&mut arguments, job.inputs.shown);
    let event_name = job.variable("GITHUB_EVENT_NAME").ok_or(CiError::NoEvent)?;
    let place = open(&job.inputs, &job.environment)?;
    let trusted = trusted(job, &place)?;
    let top = place.top();
    if let Some(why) = guard(job, &event_name, is_harmless(job, top, &trusted)).await? {
        return Ok(Ready::Skip(why));
    }
    if let Some(named) = &job.inputs.policy {
        let folder = files.path("policy");
        let policy = trusted_policy::find(named, top, &job.environment.cwd, &trusted, &folder)?;
        arguments.policy.policy = Some(policy);
    }
    Ok(Ready::Run(arguments))
}

/// Asks who may start the run. `Some` says why nothing starts although nobody did wrong.
async fn guard(job: &Job, event_name: &str, is_harmless: bool) -> Result<Option<String>, CiError> {
    let event = job.event();
    let actor = job.variable("GITHUB_ACTOR").unwrap_or_default();
    let triggering_actor = job.variable("GITHUB_TRIGGERING_ACTOR").unwrap_or_default();
    let trigger = Trigger {
        event_name,
        event: event.as_ref(),
        actor: &actor,
        triggering_actor: &triggering_actor,
        allowed: &job.inputs.allow_actors,
        mention: job.inputs.mention.as_deref(),
        is_harmless,
    };
    let people = match trigger.judge() {
        Verdict::Start => return Ok(None),
        Verdict::Skip(why) => return Ok(Some(why)),
        Verdict::Refuse(why) => return Err(CiError::Refused(why)),
        Verdict::Ask(people) => people,
    };
    let forge =
        job.forge().map_err(|error| CiError::Refused(format!("cannot check who may start this run: {error}")))?;
    for login in people {
        match forge.may_write(&login).await {
            Ok(true) => {}
            Ok(false) => return Err(CiError::Refused(format!("{login} may not write to this repository"))),
            Err(error) => {
                return Err(CiError::Refused(format!(
                    "GitHub does not say whether {login} may write to this repository: {error}"
                )));
            }
        }
    }
    Ok(None)
}

/// Tells whether the recipe can neither change files, run commands nor use the network, whatever the policy allows: its
/// tools only read, and it runs no checks. Anyone may start such a recipe.
fn is_harmless(job: &Job, top: &Path, trusted: &Trusted) -> bool {
    let recipe = job.inputs.recipe.as_deref().and_then(|word| trusted_recipe(word, top, trusted));
    recipe.is_some_and(|recipe| {
        let tools = recipe.needs().and_then(|needs| needs.tools.as_ref());
        recipe.checks().is_empty() && tools.is_some_and(|tools| tools.iter().all(|tool| only_looks(tool.as_str())))
    })
}

/// Returns a recipe of the trusted commit, else the built-in one; `None` where it has a parent or cannot be read.
pub(super) fn trusted_recipe(word: &str, top: &Path, trusted: &Trusted) -> Option<crate::recipe::Recipe> {
    let bare = word.strip_prefix("builtin:");
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    let name = bare.unwrap_or(word);
    let own = |path: String| trusted.read_text(top, &path).ok().flatten();
    let (shown, text) = match (bare, is_name(name)) {
        (Some(_), true) => (name.to_owned(), builtin::text(name)?.to_owned()),
        (None, true) => ["yaml", "yml"]
            .into_iter()
            .find_map(|end| own(format!(".qwen/recipes/{name}.{end}")))
            .or_else(|| builtin::text(name).map(|text| (name.to_owned(), text.to_owned())))?,
        (_, false) => own(name.trim_start_matches("./").to_owned())?,
    };
    // Messages name the commit after an `@`; the recipe's name is that of its file.
    let shown = shown.split('@').next().unwrap_or_default();
    let recipe = crate::recipe::load::from_text(shown, &text).ok()?;
    recipe.file.extends.is_none().then_some(recipe)
}

/// Ends a job that asked no model, as a run ends: with a result, a summary and an exit code.
fn end(job: &Job, files: &Files, log: &GuardedLog, ending: RunFinished) -> Exit {
    let mut arguments = RunArgs::default();
    files.set(&mut arguments, job.inputs.shown);
    let around = place::around(None, &job.environment);
    let mut renderer = Renderer::new(outputs(&arguments, &job.environment, &around, streams(log), &new_id()));
    renderer.event(&Event::RunFinished(Box::new(ending)));
    renderer.close()
}

/// The product goes to files; the log is for people.
fn streams(log: &GuardedLog) -> Streams {
    Streams {
        backlogs: Vec::new(),
        stdout: Box::new(std::io::sink()),
        stdout_is_terminal: false,
        stderr: Screen::Plain(Box::new(log.clone())),
        stderr_is_terminal: false,
    }
}

fn read_report(path: &Path) -> Result<Report, CiError> {
    let wrong = |cause: String| CiError::Result { path: path.display().to_string(), cause };
    let bytes = bounded::regular(path, bounded::PRODUCT).map_err(|error| wrong(error.to_string()))?;
    serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))
}

fn set_outputs(job: &mut Job, files: &Files, report: &Report, exit: Exit) {
    let shown = |name: &str| files.path(name).display().to_string();
    let has_patch = report.changes.patch_sha256.is_some();
    let has_findings = report
        .answer
        .structured_output
        .as_ref()
        .is_some_and(|answer| answer.get("findings").is_some_and(|f| f.is_array()));
    let answer = report.answer.structured_output.as_ref().map(to_line).filter(|text| text.len() <= LARGEST_ANSWER);
    let when = |condition: bool, name: &str| if condition { shown(name) } else { String::new() };
    job.set("conclusion", report.ending.conclusion.clone());
    job.set("exit-code", exit.code().to_string());
    job.set("changed", has_patch.to_string());
    job.set("result-file", shown("result.json"));
    job.set("summary-file", shown("summary.md"));
    job.set("report-file", when(files.path(REPORT).exists(), REPORT));
    job.set("structured-output", answer.unwrap_or_default());
    job.set("patch-file", when(has_patch, "change.patch"));
    job.set("patch-sha256", report.changes.patch_sha256.clone().unwrap_or_default());
    job.set("base", report.changes.base.clone().unwrap_or_default());
    job.set("sarif-file", when(has_findings, "findings.sarif"));
    job.set("rdjson-file", when(has_findings, "findings.rdjson"));
    job.set("cost-usd", report.total_cost_usd.map(|cost| format!("{cost:.6}")).unwrap_or_default());
    job.set("pull-request", "");
}
