//! Runs `qwen ci deliver`: judges again what an earlier job handed over, without model or key, then writes to GitHub what
//! recipe and policy want and grant.

use std::io::Write;

use super::branch::{self, Checks, Pushed};
use super::error::ProposalError;
use super::job::{Job, open, recipe, say, say_failure, trusted};
use super::posting::{Done, Posting, is_pull_request_event};
use super::proposal::{self, Read};
use super::trusted_policy;
use super::wanted::Wanted;
use crate::emit::Report;
use crate::emit::github::notice;
use crate::emit::proposal::Subject;
use crate::emit::summary;
use crate::event::RunError;
use crate::exit::Exit;
use crate::github::Pull;
use crate::policy::Policy;
use crate::policy::file::GitHubWrite;
use crate::policy::lists::ToolLists;
use crate::policy::redact::Secrets;
use crate::recipe::Recipe;
use crate::run::Failure;
use crate::run::error::SetupError;
use crate::run::output::masking::secret_variables;
use crate::run::output::redaction::hidden;
use crate::run::output::signals::{self, Signals};
use crate::run::place::Place;
use crate::run::rules::policy_layers::{self, PolicySelection, PolicySources};
use crate::run::rules::trust::Trusted;
use crate::workspace::temporary::Temporary;

pub(super) async fn run(job: &mut Job, out: &mut dyn Write) -> Result<Exit, Failure> {
    let mut done = Done::default();
    let mut signals = Signals::listen().ok();
    signals::end_in_order(|_| {});
    let outcome = tokio::select! {
        // What is done is told, whatever comes at the same moment.
        biased;
        outcome = deliver(job, &mut done, out) => outcome.map_err(signals::or_interrupted),
        exit = signals::next_of(signals.as_mut()) => Err(interrupted(exit)),
    };
    let lines = done.lines();
    let (exit, conclusion, text) = match &outcome {
        Ok(conclusion) => {
            let text = done.report.as_ref().map(|report| summary::delivered(report, &lines)).unwrap_or_default();
            (Exit::Ok, *conclusion, text)
        }
        Err(failure) => {
            say_failure(out, failure.exit, &failure.error.message, failure.error.hint.as_deref());
            let conclusion = if failure.exit == Exit::Denied { "denied" } else { "error" };
            let hint = failure.error.hint.as_deref().unwrap_or_default();
            (failure.exit, conclusion, summary::not_delivered(&failure.error.message, hint, &lines))
        }
    };
    for (name, value) in done.outputs {
        job.set(name, value);
    }
    job.set("conclusion", conclusion);
    job.set("exit-code", exit.code().to_string());
    job.write_summary(&text)?;
    job.write_outputs()?;
    Ok(exit)
}

/// The ending of a job that a signal stopped between two steps.
fn interrupted(exit: Exit) -> Failure {
    let message = format!("interrupted by {}", signals::name().unwrap_or("a signal"));
    let hint = Some("run the job again: what it has delivered is kept".to_owned());
    let error = RunError { code: "interrupted".into(), message, hint, retryable: true, ..RunError::default() };
    Failure { exit, error: Box::new(error) }
}

/// Everything is read and judged before the first request that writes.
async fn deliver(job: &Job, done: &mut Done, out: &mut dyn Write) -> Result<&'static str, Failure> {
    done.nothing();
    job.inputs.check()?;
    let mut read = proposal::read(job)?;
    done.report = Some(read.file.result.clone());
    let place = open(&job.inputs, &job.environment)?;
    let trusted = trusted(job, &place)?;
    let recipe = same_recipe(job, &place, &trusted, &read)?;
    if !recipe.as_ref().is_some_and(closes) {
        read.file.result.changes.closes = None;
    }
    let chosen = policy(job, &place, &trusted)?;
    let secrets = secrets_of(job, &chosen.policy)?;
    done.report = Some(published_report(&mut read.file.result, &chosen.policy, &secrets)?);
    let wanted = Wanted::judge(recipe.as_ref(), &chosen.policy)?;
    let mut change = match (&read.patch, &wanted.pull_request) {
        (Some(patch), Some(_)) => {
            may_push(job, &read, &chosen)?;
            Some(branch::judge(job, &place, &trusted, (&chosen, &secrets), &read.file, patch)?)
        }
        (Some(_), None) => {
            say(out, &notice("notice", "qwen", "the change is not delivered: recipe or policy leave it out"));
            None
        }
        (None, _) => None,
    };
    let posting = Posting::new(job, &read.file, &wanted)?;
    let pull = posting.pull(done).await?;
    if let (Some(change), Some(pull)) = (&mut change, &pull) {
        change.based_on(pull)?;
    }
    match pull.as_ref().map(|pull| state(job, &read, pull)) {
        Some(State::Over) => {
            say(out, &notice("notice", "qwen", "the pull request is merged or closed: nothing is left to deliver"));
            return Ok("nothing_to_do");
        }
        Some(State::Superseded) => {
            let text = "the pull request has newer commits: nothing is posted, and the run for them follows";
            say(out, &notice("notice", "qwen", text));
            return Ok("superseded");
        }
        Some(State::Moved | State::Current) | None => {}
    }
    let is_current = pull.as_ref().is_none_or(|pull| matches!(state(job, &read, pull), State::Current));
    if let Some(change) = change {
        let pushed = change.push()?;
        done.step("branch", format!("the branch `{}`", pushed.branch));
        let checks = start_checks(job, &posting, &pushed, done).await?;
        open_pull_request(job, &read, &wanted, &pushed, checks, done, out).await?;
    }
    if posting.number().is_some() {
        posting.labels(done).await?;
        let posted = posting.review(pull.as_ref(), is_current, done).await?;
        posting.comment(&posted, done).await?;
        if is_current {
            posting.check(done).await?;
        }
    }
    Ok(if done.lines().is_empty() { "nothing_to_do" } else { "success" })
}

/// Collects what counts as a secret here: the token of the job is no variable that a run sees.
fn secrets_of(job: &Job, policy: &Policy) -> Result<Secrets, SetupError> {
    let variables = secret_variables(&job.environment, job.inputs.token.as_ref(), None);
    Secrets::new(&variables, &policy.secret_patterns()).map_err(SetupError::SecretPatterns)
}

/// Masks secrets in everything that is said of a run, as all of it may be posted, and returns it.
fn published_report(report: &mut Report, policy: &Policy, secrets: &Secrets) -> Result<Report, ProposalError> {
    if policy.redacts() || policy.refuses_secrets() {
        let value = serde_json::to_value(&*report).map_err(ProposalError::Json)?;
        *report = serde_json::from_value(hidden(&value, secrets)).map_err(ProposalError::Json)?;
    }
    Ok(report.clone())
}

/// Tells whether a recipe may close an issue.
fn closes(recipe: &Recipe) -> bool {
    recipe.file.git.as_ref().is_some_and(|git| git.closes.is_some())
}

/// Refuses a push to the branch of a pull request that the policy does not name.
fn may_push(job: &Job, read: &Read, chosen: &PolicySelection) -> Result<(), ProposalError> {
    match () {
        () if !job.inputs.delivery.to_head => Ok(()),
        () if read.file.on != Subject::PullRequest => Err(ProposalError::NoHead),
        () if !chosen.policy.may_write_to_github(GitHubWrite::PushHead) => {
            Err(ProposalError::HeadNotGranted(chosen.policy.facts().name))
        }
        () => Ok(()),
    }
}

/// How a pull request is, seen from the proposal.
enum State {
    /// It is merged or closed.
    Over,
    /// It has newer commits, and their own run follows.
    Superseded,
    /// It has newer commits.
    Moved,
    /// Its last commit is the one that was looked at.
    Current,
}

fn state(job: &Job, read: &Read, pull: &Pull) -> State {
    let is_same = read.file.head.as_ref().is_none_or(|head| *head == pull.head);
    match (pull.is_open, is_same) {
        (false, _) => State::Over,
        (true, true) => State::Current,
        (true, false) if is_pull_request_event(job) => State::Superseded,
        (true, false) => State::Moved,
    }
}

/// Returns the recipe of the run as the trusted commit has it here; another one is refused. A run that failed before it
/// read its recipe is told of below the name that the inputs say.
fn same_recipe(job: &Job, place: &Place, trusted: &Trusted, read: &Read) -> Result<Option<Recipe>, Failure> {
    let Some(facts) = &read.file.result.ran.recipe else {
        let has_failed = !matches!(read.file.result.ending.exit_code, 0 | 3) && read.patch.is_none();
        return match job.named_recipe() {
            Some(named) if !has_failed => Err(ProposalError::OtherRecipe(named).into()),
            named => Ok(named.and_then(|word| recipe(job, place, trusted, &word).ok())),
        };
    };
    if job.inputs.prompt.is_some() {
        return Err(ProposalError::OtherRecipe(facts.name.clone()).into());
    }
    let found = recipe(job, place, trusted, &job.named_recipe().unwrap_or_else(|| facts.name.clone()))?;
    match found.facts() == *facts {
        true => Ok(Some(found)),
        false => Err(ProposalError::OtherRecipe(facts.name.clone()).into()),
    }
}

/// Returns the policy of the trusted commit. Delivering is what this job is for, as with `qwen apply`.
pub(super) fn policy(job: &Job, place: &Place, trusted: &Trusted) -> Result<PolicySelection, Failure> {
    let folder = Temporary::new("policy-").map_err(ProposalError::Temporary)?;
    let cwd = &job.environment.cwd;
    let named = match &job.inputs.policy {
        Some(named) => Some(trusted_policy::find(named, place.top(), cwd, trusted, &folder.path().join("policy"))?),
        None => job.environment.value("QWEN_POLICY"),
    };
    let chosen = policy_layers::choose(&PolicySources {
        named: named.as_deref(),
        mode: None,
        delivers: true,
        lists: &ToolLists::default(),
        cwd,
        top: place.top(),
        trusted,
        machine: policy_layers::machine(),
    })?;
    chosen.require_tests(&place.facts(&job.environment))?;
    Ok(chosen)
}

/// Starts the workflows that the input names for what was pushed, unless they were started for it before.
async fn start_checks(job: &Job, posting: &Posting<'_>, pushed: &Pushed, done: &mut Done) -> Result<Checks, Failure> {
    let delivery = &job.inputs.delivery;
    if delivery.start_checks.is_empty() {
        return Ok(if posting.is_jobs_own_token().await { Checks::Wait } else { Checks::Start });
    }
    for workflow in &delivery.start_checks {
        posting.start(workflow, &pushed.branch, &pushed.commit, done).await?;
    }
    done.step(
        "checks",
        format!("{} started", crate::emit::words::count(delivery.start_checks.len() as u64, "workflow")),
    );
    Ok(Checks::Start)
}

/// Opens the pull request of what was pushed. If that is impossible the branch remains, and the log says what to do.
async fn open_pull_request(
    job: &Job,
    read: &Read,
    wanted: &Wanted,
    pushed: &Pushed,
    checks: Checks,
    done: &mut Done,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    done.set("changed", "true");
    done.set("branch", pushed.branch.clone());
    done.set("commit", pushed.commit.clone());
    done.set("base", read.file.result.changes.base.clone().unwrap_or_default());
    say(out, &format!("pushed {} to the branch {}\n", pushed.commit, pushed.branch));
    if let Some(number) = pushed.of_pull {
        done.set("pull-request", number.to_string());
        return Ok(());
    }
    match branch::open_pull_request(job, &read.file.result, wanted, pushed, checks).await {
        Ok(opened) => {
            let verb = if opened.was_there { "brought up to date" } else { "opened" };
            say(out, &notice("notice", "qwen", &format!("{verb} pull request {}: {}", opened.number, opened.url)));
            if let Some(why) = &opened.without_labels {
                say(out, &notice("notice", "qwen", &format!("without its labels: {why}")));
            }
            done.set("pull-request", opened.number.to_string());
            done.step("pull request", format!("[pull request {}]({})", opened.number, opened.url));
        }
        Err(why) => {
            let url = pushed.compare_url(job);
            let hint = url.as_ref().map(|url| format!("; open one at {url}")).unwrap_or_default();
            let text = format!("the branch {} is pushed, and no pull request was opened: {why}{hint}", pushed.branch);
            say(out, &notice("warning", "qwen", &text));
            if let Some(url) = url {
                done.step(
                    "pull request",
                    format!("no pull request was opened: [look at the branch and open one]({url})"),
                );
            }
        }
    }
    Ok(())
}
