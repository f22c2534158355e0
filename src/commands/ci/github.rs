//! Runs `qwen ci github`: one run in a job that may read the repository but not push.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::commands::Asked;
use super::deliver::policy;
use super::error::CiError;
use super::guard::{Permission, guard};
use super::inputs::Shown;
use super::job::{GuardedLog, Job, open, recipe, say, say_failure, trusted};
use super::proposal::{self, About, More};
use super::wanted::Wanted;
use super::{threads, trusted_policy};
use crate::base::digest::sha256;
use crate::bounded;
use crate::cli::usage::{self, UsageError};
use crate::cli::{Command, RunArgs};
use crate::emit::github::notice;
use crate::emit::proposal::Subject;
use crate::emit::{Renderer, Report, Screen, summary, to_line};
use crate::event::{Event, RunFinished};
use crate::exit::Exit;
use crate::git::repository::Repository;
use crate::github::GitHubError;
use crate::github::threads::Threads;
use crate::policy::redact::Secrets;
use crate::policy::trigger::is_comment;
use crate::recipe::Recipe;
use crate::recipe::file::{CommentMode, OutputKind};
use crate::run::Failure;
use crate::run::finish::outcome;
use crate::run::output::masking::secrets_of;
use crate::run::output::outputs::{Streams, new_id, outputs};
use crate::run::place::{self, Place};
use crate::run::rules::trust::Trusted;
use crate::run::run as run_agent;
use crate::tool_name::ToolId;

/// The largest structured answer that becomes an output; the result file has any.
const LARGEST_ANSWER: usize = 256 * 1024;

/// Tells whether a tool only looks at the checkout or takes the answer.
fn only_looks(tool: &str) -> bool {
    ToolId::named(tool).is_some_and(ToolId::only_reads)
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
    Run(Box<Prepared>),
    Skip(String),
    /// Whoever started it may, and it cannot run.
    Broken(Failure, About),
}

/// A run that may start.
struct Prepared {
    arguments: RunArgs,
    about: About,
    place: Place,
    wanted: Wanted,
    secrets: Secrets,
    /// Threads of earlier runs; `None` where they do not matter or cannot be read.
    threads: Option<Threads>,
    /// The commit that recipe and policy are read from.
    trusted: Option<String>,
    /// A digest of what is looked at, and for what.
    scope: Option<String>,
}

pub(super) async fn run(job: &mut Job, out: &mut dyn Write) -> Result<Exit, Failure> {
    let files = Files { folder: job.folder()? };
    let log = GuardedLog::new()?;
    let (exit, prepared) = match ready(job, &files, out).await {
        Ok(Ready::Run(prepared)) => {
            let exit = run_agent(&prepared.arguments, &job.environment, streams(&log)).await;
            (exit, Some(Ok(prepared)))
        }
        Ok(Ready::Broken(failure, about)) => {
            (end(job, &files, &log, RunFinished::failed(failure.exit, *failure.error)), Some(Err(about)))
        }
        Ok(Ready::Skip(why)) => {
            say(out, &notice("notice", "qwen", &format!("not started: {why}")));
            (end(job, &files, &log, outcome::nothing_to_do(format!("not started: {why}"))), None)
        }
        Err(failure) => (end(job, &files, &log, RunFinished::failed(failure.exit, *failure.error)), None),
    };
    say(out, &log.end());
    let report = read_report(&files.path("result.json"))?;
    match prepared {
        Some(Ok(prepared)) => hand_over(job, &files, &report, *prepared)?,
        Some(Err(about)) => propose(job, &files, &report, &about, More::default())?,
        None => {}
    }
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
async fn ready(job: &Job, files: &Files, out: &mut dyn Write) -> Result<Ready, Failure> {
    job.inputs.check()?;
    let event_name = job.variable("GITHUB_EVENT_NAME").ok_or(CiError::NoEvent)?;
    let asked = match job.inputs.asked(job.event().as_ref()) {
        Ok(asked) => asked,
        Err(Ok(why)) => return Ok(Ready::Skip(why)),
        Err(Err(error)) => return Err(error.into()),
    };
    let place = open(&job.inputs, &job.environment)?;
    let trusted = trusted(job, &place)?;
    // One that cannot be read is reported by the run itself, which says more of it.
    let recipe = job.inputs.recipe(&asked).and_then(|word| recipe(job, &place, &trusted, word).ok());
    let mut arguments = arguments(job, &asked, recipe.as_ref())?;
    files.set(&mut arguments, job.inputs.shown);
    match guard(job, &event_name, recipe.as_ref().is_some_and(is_harmless)).await? {
        Permission::Skip(why) => return Ok(Ready::Skip(why)),
        Permission::Start { by_writer } => arguments.from_job.by_writer = by_writer,
    }
    arguments.from_job.command = asked.text.filter(|_| is_comment(&event_name));
    let known = About::read(&event_name, job.event().as_ref());
    let start = Start { job, files, event_name, place, trusted, recipe };
    Ok(match start.prepare(arguments, out).await {
        Ok(prepared) => Ready::Run(Box::new(prepared)),
        // A comment of an earlier run must not stand as if this one had not been.
        Err(failure) => Ready::Broken(failure, known),
    })
}

/// A run that whoever started it may start.
struct Start<'a> {
    job: &'a Job,
    files: &'a Files,
    event_name: String,
    place: Place,
    trusted: Trusted,
    recipe: Option<Recipe>,
}

impl Start<'_> {
    /// Finds what the run needs, and what earlier runs left in the pull request.
    async fn prepare(self, mut arguments: Box<RunArgs>, out: &mut dyn Write) -> Result<Prepared, Failure> {
        let Start { job, files, event_name, place, trusted, recipe } = self;
        let recipe = recipe.as_ref();
        let about = about(job, &event_name, &place, recipe).await?;
        if let Some(recipe) = recipe {
            arguments.input.params.extend(revisions(job, recipe, &about));
        }
        if let Some(named) = &job.inputs.policy {
            let folder = files.path("policy");
            let policy = trusted_policy::find(named, place.top(), &job.environment.cwd, &trusted, &folder)?;
            arguments.policy.policy = Some(policy);
        }
        let chosen = policy(job, &place, &trusted)?;
        let wanted = Wanted::judge(recipe, &chosen.policy)?;
        let secrets = secrets_of(&chosen.policy, &job.environment)?;
        arguments.from_job.token.clone_from(&job.inputs.token);
        let digests = [recipe.map_or("", |recipe| &recipe.sha256), &chosen.policy.facts().sha256].join("\n");
        let scope = place.repository().map(|repository| scope(job, repository, &digests));
        let mut threads = None;
        if let (Some(_), Some(head), Some(repository)) = (&wanted.review, &about.head, place.repository()) {
            match earlier(job, &about, &event_name, (&wanted, scope.as_deref()), repository).await {
                Ok((found, since)) => {
                    arguments.from_job.earlier = threads::earlier(&found, head, repository, &secrets);
                    arguments.from_job.since = since;
                    threads = Some(found);
                }
                Err(error) => {
                    let text =
                        format!("what earlier runs posted is unknown: {error}; give the job `pull-requests: read`");
                    say(out, &notice("notice", "qwen", &text));
                }
            }
        }
        let trusted = trusted.tree.map(|tree| tree.commit);
        Ok(Prepared { arguments: *arguments, about, place, wanted, secrets, threads, trusted, scope })
    }
}

/// Reads what earlier runs left in the pull request: their threads, and the commit up to which they looked.
async fn earlier(
    job: &Job,
    about: &About,
    event_name: &str,
    (wanted, scope): (&Wanted, Option<&str>),
    repository: &Repository,
) -> Result<(Threads, Option<String>), GitHubError> {
    let threads = threads::ours(job, about).await?;
    let action = job.event().and_then(|event| event.get("action")?.as_str().map(str::to_owned));
    let is_new = event_name == "pull_request" && action.as_deref() == Some("synchronize");
    let is_sticky = wanted.comment_mode().is_some_and(|(mode, _)| mode == CommentMode::Sticky);
    let since = match wanted.recipe.as_deref().zip(scope) {
        Some(of) if is_new && is_sticky && !job.inputs.looks_at_all => {
            threads::reviewed(job, about, &threads.login, of, repository).await?
        }
        Some(_) | None => None,
    };
    Ok((threads, since))
}

/// Returns a digest of what decides which part of a pull request a run looks at, and for what: recipe and policy by their own
/// `digests`, directory and parameters. Its commits do not count.
fn scope(job: &Job, repository: &Repository, digests: &str) -> String {
    let is_commit = |param: &&String| ["base=", "head="].iter().any(|name| param.starts_with(name));
    let params: Vec<&String> = job.inputs.params.iter().filter(|param| !is_commit(param)).collect();
    sha256(format!("{}\n{params:?}\n{digests}", repository.prefix).as_bytes())[..16].to_owned()
}

/// Reads the inputs as the command line of a run.
fn arguments(job: &Job, asked: &Asked, recipe: Option<&Recipe>) -> Result<Box<RunArgs>, CiError> {
    match usage::parse(job.inputs.arguments(asked, recipe)?) {
        Ok(cli) => match cli.command {
            Some(Command::Run(arguments)) => Ok(arguments),
            _ => Err(CiError::NotARun),
        },
        Err(UsageError::Wrong { message, hint, .. }) => Err(CiError::Flags { message, hint: hint.unwrap_or_default() }),
        Err(UsageError::Help(_)) => Err(CiError::NotARun),
    }
}

/// Returns what the event is about. The event of a comment does not name the pull request's commits, and its checkout is
/// another one unless the workflow names the pull request's.
async fn about(job: &Job, event_name: &str, place: &Place, recipe: Option<&Recipe>) -> Result<About, CiError> {
    let mut about = About::read(event_name, job.event().as_ref());
    let (Subject::PullRequest, Some(number), true) = (about.on, about.number, is_comment(event_name)) else {
        return Ok(about);
    };
    let failed = |error: GitHubError| CiError::Pull(number, error.to_string());
    let pull = job.github().map_err(failed)?.pull(number).await.map_err(failed)?;
    let repository = job.variable("GITHUB_REPOSITORY").unwrap_or_default();
    let is_own = pull.head_repository.as_ref().is_some_and(|head| head.eq_ignore_ascii_case(&repository));
    if !is_own && recipe.is_none_or(changes_files) {
        return Err(CiError::ForeignHead);
    }
    let found = place.repository().and_then(|repository| repository.head.clone());
    if found.as_ref() != Some(&pull.head) {
        let found = found.unwrap_or_else(|| "no commit".to_owned());
        return Err(CiError::OtherCheckout { found, head: pull.head });
    }
    (about.head, about.base) = (Some(pull.head), Some(pull.base));
    Ok(about)
}

/// Tells whether a recipe changes files.
fn changes_files(recipe: &Recipe) -> bool {
    let needs = recipe.needs();
    let lists = needs.map(|needs| [&needs.write, &needs.create, &needs.delete]);
    recipe.output().kind == OutputKind::Changes || lists.into_iter().flatten().flatten().any(|list| !list.is_empty())
}

/// Returns the commits of the pull request, for parameters of these names that the caller does not give.
fn revisions(job: &Job, recipe: &Recipe, about: &About) -> Vec<String> {
    let params = recipe.params();
    let is_given = |name: &str| job.inputs.params.iter().any(|param| param.split('=').next() == Some(name));
    let commits = [("base", &about.base), ("head", &about.head)];
    let commits = commits.into_iter().filter(|(name, _)| params.contains_key(*name) && !is_given(name));
    commits.filter_map(|(name, commit)| Some(format!("{name}={}", commit.as_ref()?))).collect()
}

/// Hands over what a run found and changed.
fn hand_over(job: &mut Job, files: &Files, report: &Report, prepared: Prepared) -> Result<(), CiError> {
    let Prepared { about, place, wanted, secrets, threads, trusted, scope, .. } = prepared;
    let mut more = More { trusted, ..More::default() };
    if let (Some(labels), Some(answer)) = (&wanted.labels, &report.answer.structured_output) {
        let named = answer.pointer(&labels.from).and_then(serde_json::Value::as_array).into_iter().flatten();
        more.labels = named.filter_map(|label| label.as_str().map(str::to_owned)).take(100).collect();
    }
    more.scope = scope;
    if let (Some(threads), Some(head), Some(repository)) = (&threads, &about.head, place.repository()) {
        more.gone = threads::gone(threads, report, head, repository, &secrets);
    }
    propose(job, files, report, &about, more)
}

/// Writes the proposal for the job that delivers.
fn propose(job: &mut Job, files: &Files, report: &Report, about: &About, more: More) -> Result<(), CiError> {
    let (folder, digest) = proposal::write(job, &files.folder, report, about, more)?;
    job.set("proposal-dir", folder.display().to_string());
    job.set("proposal-sha256", digest);
    Ok(())
}

/// Tells whether the recipe can neither change files, run commands nor use the network, whatever the policy allows: its
/// tools only read, and it runs no checks. Anyone may start such a recipe.
fn is_harmless(recipe: &Recipe) -> bool {
    let tools = recipe.needs().and_then(|needs| needs.tools.as_ref());
    recipe.file.commands().iter().all(|(path, _)| path.starts_with("context."))
        && recipe.file.deliver.as_ref().is_none_or(|deliver| deliver.pull_request.is_none())
        && tools.is_some_and(|tools| tools.iter().all(|tool| only_looks(tool.as_str())))
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
    let counts = |level: &str| report.findings.iter().filter(|finding| finding["severity"] == *level).count();
    let is_complete = has_findings && !summary::is_incomplete(report) && matches!(report.ending.exit_code, 0 | 3);
    job.set("findings-count", report.findings.len().to_string());
    job.set("errors", counts("error").to_string());
    job.set("complete", is_complete.to_string());
    let findings = to_line(&report.findings);
    job.set("findings", if findings.len() <= LARGEST_ANSWER { findings } else { String::new() });
    job.set("pull-request", "");
}
