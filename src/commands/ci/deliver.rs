//! Runs `qwen ci deliver`: judges again what an earlier job handed over, without model or key, then writes to GitHub what
//! recipe and policy want and grant.

use std::io::Write;

use super::branch::{self, Pushed};
use super::error::ProposalError;
use super::job::{Job, open, recipe, say, say_failure, trusted};
use super::posting::{Done, Posting, is_pull_request_event};
use super::proposal::{self, Read};
use super::trusted_policy;
use super::wanted::Wanted;
use crate::emit::github::notice;
use crate::emit::summary;
use crate::exit::Exit;
use crate::github::Pull;
use crate::policy::lists::ToolLists;
use crate::recipe::Recipe;
use crate::run::Failure;
use crate::run::place::Place;
use crate::run::rules::policy_layers::{self, PolicySelection, PolicySources};
use crate::run::rules::trust::Trusted;
use crate::workspace::temporary::Temporary;

pub(super) async fn run(job: &mut Job, out: &mut dyn Write) -> Result<Exit, Failure> {
    let mut done = Done::default();
    let outcome = deliver(job, &mut done, out).await;
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

/// Everything is read and judged before the first request that writes.
async fn deliver(job: &Job, done: &mut Done, out: &mut dyn Write) -> Result<&'static str, Failure> {
    for name in ["pull-request", "branch", "commit", "review-url", "comment-url"] {
        done.set(name, "");
    }
    for (name, value) in [("changed", "false"), ("posted", "0"), ("gone", "0")] {
        done.set(name, value);
    }
    job.inputs.check()?;
    let read = proposal::read(job)?;
    done.report = Some(read.file.result.clone());
    let place = open(&job.inputs, &job.environment)?;
    let trusted = trusted(job, &place)?;
    let recipe = same_recipe(job, &place, &trusted, &read)?;
    let chosen = policy(job, &place, &trusted)?;
    let wanted = Wanted::judge(recipe.as_ref(), &chosen.policy)?;
    let mut change = match (&read.patch, &wanted.pull_request) {
        (Some(patch), Some(_)) => Some(branch::judge(job, &place, &trusted, &chosen, &read.file, patch)?),
        (Some(_), None) => {
            say(out, &notice("notice", "qwen", "the change is not delivered: recipe or policy leave it out"));
            None
        }
        (None, _) => None,
    };
    let posting = Posting::new(job, &read.file, &wanted)?;
    let pull = posting.pull(done).await?;
    if let (Some(change), Some(pull)) = (&mut change, &pull) {
        change.based_on(pull);
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
        open_pull_request(job, &read, &wanted, &pushed, done, out).await?;
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

/// Returns the recipe of the run as the trusted commit has it here; another one is refused.
fn same_recipe(job: &Job, place: &Place, trusted: &Trusted, read: &Read) -> Result<Option<Recipe>, Failure> {
    let Some(facts) = &read.file.result.ran.recipe else { return Ok(None) };
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

/// Opens the pull request of what was pushed. If that is impossible the branch remains, and the log says what to do.
async fn open_pull_request(
    job: &Job,
    read: &Read,
    wanted: &Wanted,
    pushed: &Pushed,
    done: &mut Done,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    done.set("changed", "true");
    done.set("branch", pushed.branch.clone());
    done.set("commit", pushed.commit.clone());
    done.set("base", read.file.result.changes.base.clone().unwrap_or_default());
    say(out, &format!("pushed {} to the branch {}\n", pushed.commit, pushed.branch));
    match branch::open_pull_request(job, &read.file.result, wanted, pushed).await {
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
