//! Writes to a pull request or an issue: labels, a review, threads, a comment, a check. Each is looked for before it is
//! made, so that a second delivery, or the rest of a broken one, writes nothing twice.

use super::error::StepError;
use super::job::Job;
use super::review::{Plan, listed};
use super::wanted::Wanted;
use crate::emit::comment::{self, Status, answer, review_body, status};
use crate::emit::proposal::{ProposalFile, ReplyKind, Subject};
use crate::emit::summary::{headline, is_incomplete};
use crate::emit::words;
use crate::emit::{Found, Report, found};
use crate::exit::Exit;
use crate::github::marker::{self, Reviewed};
use crate::github::threads::{Thread, ThreadState, Threads};
use crate::github::{CheckRun, Comment, GitHub, GitHubError, Pull, is_same_login};
use crate::recipe::file::{CheckWish, CommentMode, CommentWhen, LabelMode};
use crate::run::Failure;
use crate::verify::anchor::OVER_MAX;

/// What was delivered so far.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// The names of the steps, and a line of Markdown for each.
    steps: Vec<(&'static str, String)>,
    pub(super) outputs: Vec<(&'static str, String)>,
    /// The run that is delivered.
    pub(super) report: Option<Report>,
}

impl Done {
    pub(super) fn set(&mut self, name: &'static str, value: impl Into<String>) {
        self.outputs.push((name, value.into()));
    }

    /// Sets what stands where nothing is delivered.
    pub(super) fn nothing(&mut self) {
        for name in ["pull-request", "branch", "commit", "review-url", "comment-url"] {
            self.set(name, "");
        }
        for (name, value) in [("changed", "false"), ("posted", "0"), ("gone", "0")] {
            self.set(name, value);
        }
    }

    /// Notes a step. `line` is trusted Markdown.
    pub(super) fn step(&mut self, name: &'static str, line: String) {
        self.steps.push((name, line));
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.steps.iter().map(|(_, line)| line.clone()).collect()
    }

    /// Says which step failed, and which were done before.
    fn failed(&self, step: &'static str, permission: &'static str, error: GitHubError) -> Failure {
        let names: Vec<&str> = self.steps.iter().map(|(name, _)| *name).collect();
        let done = if names.is_empty() { String::new() } else { format!("; done before: {}", names.join(", ")) };
        StepError::new(step, permission, done, error).into()
    }
}

/// What was posted at lines.
#[derive(Debug, Default)]
pub(super) struct Posted {
    plan: Plan,
    threads: Threads,
    /// Comments of ours whose code is gone.
    gone: Vec<u64>,
    notes: Vec<String>,
}

/// Tells whether a newer run follows when the pull request gets a commit.
pub(super) fn is_pull_request_event(job: &Job) -> bool {
    job.variable("GITHUB_EVENT_NAME")
        .is_some_and(|name| matches!(name.as_str(), "pull_request" | "pull_request_target"))
}

/// Where the results of a run go.
pub(super) struct Posting<'a> {
    job: &'a Job,
    github: GitHub,
    file: &'a ProposalFile,
    wanted: &'a Wanted,
    findings: Vec<Found>,
}

const PULL_REQUESTS: &str = "pull-requests: write";

impl<'a> Posting<'a> {
    pub(super) fn new(job: &'a Job, file: &'a ProposalFile, wanted: &'a Wanted) -> Result<Posting<'a>, Failure> {
        let github = job.github().map_err(|error| StepError::new("anything", PULL_REQUESTS, String::new(), error))?;
        Ok(Posting { job, github, file, wanted, findings: found(&file.result.findings) })
    }

    /// Returns the number of the pull request or issue.
    pub(super) fn number(&self) -> Option<u64> {
        self.file.number
    }

    /// Returns the name that comment and check go by.
    fn name(&self) -> &str {
        self.wanted.recipe.as_deref().unwrap_or("prompt")
    }

    fn permission(&self) -> &'static str {
        if self.file.on == Subject::Issue { "issues: write" } else { PULL_REQUESTS }
    }

    /// Returns the pull request as it is now; `None` where the run is about something else.
    pub(super) async fn pull(&self, done: &Done) -> Result<Option<Pull>, Failure> {
        match (self.file.on, self.file.number) {
            (Subject::PullRequest, Some(number)) => {
                let pull = self.github.pull(number).await;
                pull.map(Some).map_err(|error| done.failed("the pull request", PULL_REQUESTS, error))
            }
            (Subject::PullRequest | Subject::Issue | Subject::None, _) => Ok(None),
        }
    }

    /// Tells whether the token is the one that GitHub gives each job: its pushes start no workflow.
    pub(super) async fn is_jobs_own_token(&self) -> bool {
        match self.github.login(None).await {
            Ok(login) => is_same_login(&login, "github-actions[bot]"),
            Err(_) => true,
        }
    }

    /// Starts a workflow for a branch, unless it was started for its commit.
    pub(super) async fn start(&self, workflow: &str, branch: &str, commit: &str, done: &Done) -> Result<(), Failure> {
        let failed = |error| done.failed("checks", "actions: write", error);
        if self.github.has_run(workflow, commit).await.map_err(failed)? {
            return Ok(());
        }
        match self.github.dispatch(workflow, branch).await {
            // It may have started.
            Err(error) if error.is_uncertain() && self.github.has_run(workflow, commit).await.map_err(failed)? => {
                Ok(())
            }
            Err(error) if error.is_uncertain() => self.github.dispatch(workflow, branch).await.map_err(failed),
            started => started.map_err(failed),
        }
    }

    /// Sets the labels that the answer names and recipe, policy and repository know.
    pub(super) async fn labels(&self, done: &mut Done) -> Result<(), Failure> {
        let (Some(wanted), Some(number)) = (&self.wanted.labels, self.number()) else { return Ok(()) };
        let failed = |error| done.failed("labels", self.permission(), error);
        let known = self.github.labels().await.map_err(failed)?;
        let current = self.github.labels_of(number).await.map_err(failed)?;
        let mut named = self.file.labels.clone();
        named.retain(|label| wanted.allowed.contains(label) && known.contains(label));
        named.truncate(wanted.max);
        let mut changed = Vec::new();
        let new: Vec<String> = named.iter().filter(|label| !current.contains(label)).cloned().collect();
        if !new.is_empty() {
            self.github.add_labels(number, &new).await.map_err(failed)?;
            changed.extend(new);
        }
        if wanted.mode == LabelMode::Set {
            for label in current.iter().filter(|label| wanted.allowed.contains(label) && !named.contains(label)) {
                self.github.remove_label(number, label).await.map_err(failed)?;
                changed.push(format!("not {label}"));
            }
        }
        if !changed.is_empty() {
            let count = changed.len();
            done.step("labels", format!("{count} of the labels of {number} changed"));
        }
        Ok(())
    }

    /// Posts new findings at their lines, and marks those whose code is gone.
    pub(super) async fn review(
        &self,
        pull: Option<&Pull>,
        is_current: bool,
        done: &mut Done,
    ) -> Result<Posted, Failure> {
        let mut posted = Posted::default();
        let Some(pull) = pull else {
            posted.plan = Plan::new(&self.findings, &posted.threads, &[], None);
            return Ok(posted);
        };
        posted.threads = self.threads(pull, done).await?;
        let wanted = self.wanted.review.as_ref().filter(|_| is_current);
        let head = self.file.head.as_deref().unwrap_or(&pull.head);
        if wanted.is_some() && !self.findings.is_empty() {
            let patches = self.github.patches(pull.number).await;
            let patches = patches.map_err(|error| done.failed("review", PULL_REQUESTS, error))?;
            for attempt in 1..=2 {
                posted.plan = Plan::new(&self.findings, &posted.threads, &patches, wanted);
                let comments = &posted.plan.comments;
                if comments.is_empty() {
                    break;
                }
                let count = comments.len();
                match self.github.review(pull.number, head, &review_body(&self.file.result), comments).await {
                    Ok(url) => {
                        done.set("posted", count.to_string());
                        done.set("review-url", url.clone());
                        done.step("review", format!("[{count} at lines of the change]({url})"));
                        // For the links to them.
                        posted.threads = self.threads(pull, done).await?;
                        break;
                    }
                    Err(error) if error.has_status(422) => {
                        posted.notes.push(format!("GitHub did not take the comments at lines. {error}"));
                        posted.plan.refuse();
                        break;
                    }
                    // It may have arrived: what is there is not posted again.
                    Err(error) if error.is_uncertain() && attempt == 1 => {
                        posted.threads = self.threads(pull, done).await?
                    }
                    Err(error) => return Err(done.failed("review", PULL_REQUESTS, error)),
                }
            }
        } else {
            posted.plan = Plan::new(&self.findings, &posted.threads, &[], None);
        }
        if wanted.is_some() {
            self.mark_gone(head, &mut posted, done).await?;
        }
        Ok(posted)
    }

    async fn threads(&self, pull: &Pull, done: &Done) -> Result<Threads, Failure> {
        let threads = self.github.threads(pull.number, self.job.inputs.delivery.bot_login.as_deref()).await;
        threads.map_err(|error| done.failed("threads", PULL_REQUESTS, error))
    }

    /// Says in comments of ours that their code is gone, and resolves their threads where that is allowed.
    async fn mark_gone(&self, head: &str, posted: &mut Posted, done: &mut Done) -> Result<(), Failure> {
        for gone in &self.file.gone {
            let is_it = |thread: &&Thread| {
                thread.comment == gone.comment
                    && thread.mark.fingerprint == gone.fingerprint
                    && thread.state != ThreadState::Dismissed
            };
            let thread = posted.threads.ours.iter().find(is_it);
            let Some((thread, mark)) = thread.zip(marker::gone(&gone.fingerprint)) else { continue };
            let failed = |error| done.failed("threads", PULL_REQUESTS, error);
            if thread.state == ThreadState::Open && thread.can_resolve {
                match self.github.resolve(thread).await {
                    // The token may not: the words stand alone.
                    Err(error) if !error.may_pass() => {}
                    resolved => resolved.map_err(failed)?,
                }
            }
            let old = thread.body.trim_end();
            let old = old.rsplit_once('\n').map_or("", |(old, _)| old.trim_end());
            let text = comment::gone(old, head, &mark);
            self.github.edit_review_comment(thread.comment, &text).await.map_err(failed)?;
            posted.gone.push(thread.comment);
        }
        if !posted.gone.is_empty() {
            done.set("gone", posted.gone.len().to_string());
            done.step("threads", format!("{} marked as no longer in the code", posted.gone.len()));
        }
        Ok(())
    }

    /// Writes the comment that the recipe wants.
    pub(super) async fn comment(&self, posted: &Posted, done: &mut Done) -> Result<(), Failure> {
        let (Some((mode, when)), Some(number)) = (self.wanted.comment_mode(), self.number()) else { return Ok(()) };
        let failed = |error| done.failed("comment", self.permission(), error);
        let login = match posted.threads.login.as_str() {
            "" => self.github.login(self.job.inputs.delivery.bot_login.as_deref()).await.map_err(failed)?,
            known => known.to_owned(),
        };
        let written = match mode {
            CommentMode::Sticky => self.sticky(number, when, &login, posted).await,
            CommentMode::New | CommentMode::Reply => self.own(number, mode, &login).await,
        };
        if let Some(url) = written.map_err(failed)? {
            done.set("comment-url", url.clone());
            done.step("comment", format!("[the comment]({url})"));
        }
        Ok(())
    }

    /// Brings the comment of all runs of this recipe up to date; makes it if there is something to say.
    async fn sticky(
        &self,
        number: u64,
        when: CommentWhen,
        login: &str,
        posted: &Posted,
    ) -> Result<Option<String>, GitHubError> {
        let report = &self.file.result;
        let Some(mark) = marker::sticky(self.name()) else { return Ok(None) };
        // The next run leaves out what this one looked at: all of it must have been looked at, and stand in threads.
        let is_whole = matches!(report.ending.exit_code, 0 | 3) && !is_incomplete(report);
        let left_out = report.dropped.get(OVER_MAX).copied().unwrap_or_default();
        let more = format!("{} left out: `max_findings` of the recipe", words::count(left_out, "more finding"));
        let notes: Vec<String> = posted.notes.iter().cloned().chain((left_out > 0).then_some(more)).collect();
        let is_posted = posted.plan.unplaced.is_empty() && notes.is_empty();
        let file = Some(self.file).filter(|_| is_whole && is_posted);
        let reviewed = file.and_then(|file| {
            Some(Reviewed { head: file.head.clone()?, base: file.base.clone()?, scope: file.scope.clone()? })
        });
        let state = reviewed.as_ref().and_then(marker::state).unwrap_or_default();
        let list = listed(&self.findings, &posted.plan, &posted.threads, &posted.gone);
        let says = when == CommentWhen::Always || !list.is_empty() || !notes.is_empty() || is_incomplete(report);
        let run_url = self.job.run_url();
        let text = status(&Status {
            report,
            mark: &mark,
            state: &state,
            head: self.file.head.as_deref(),
            findings: &list,
            notes: &notes,
            run_url: run_url.as_deref(),
        });
        let ours = self.ours(number, &mark, login).await?;
        let Some((first, others)) = ours.split_first() else {
            return if says { self.create(number, &text, &mark, login).await.map(Some) } else { Ok(None) };
        };
        for other in others {
            self.github.delete_comment(other.id).await?;
        }
        match first.body == text {
            true => Ok(Some(first.url.clone())),
            false => self.github.edit_comment(first.id, &text).await.map(|comment| Some(comment.url)),
        }
    }

    /// Writes a comment of this run alone.
    async fn own(&self, number: u64, mode: CommentMode, login: &str) -> Result<Option<String>, GitHubError> {
        let report = &self.file.result;
        let mark = marker::reply(report.ran.run_id.as_deref().unwrap_or("unknown"));
        let Some(mark) = mark else { return Ok(None) };
        let text = answer(report, &mark);
        let thread =
            self.file.reply_to.as_ref().filter(|to| mode == CommentMode::Reply && to.kind == ReplyKind::Review);
        if let Some(to) = thread {
            let known = self.github.review_comments(number).await?;
            return match known.into_iter().find(|comment| is_ours(comment, &mark, login)) {
                Some(known) => Ok(Some(known.url)),
                None => self.github.reply(number, to.id, &text).await.map(Some),
            };
        }
        match self.ours(number, &mark, login).await?.into_iter().next() {
            Some(known) => Ok(Some(known.url)),
            None => self.create(number, &text, &mark, login).await.map(Some),
        }
    }

    async fn ours(&self, number: u64, mark: &str, login: &str) -> Result<Vec<Comment>, GitHubError> {
        let mut all = self.github.comments(number).await?;
        all.retain(|comment| is_ours(comment, mark, login));
        Ok(all)
    }

    /// Writes a comment; where the answer is lost it is looked for, then written once more.
    async fn create(&self, number: u64, text: &str, mark: &str, login: &str) -> Result<String, GitHubError> {
        match self.github.comment(number, text).await {
            Err(error) if error.is_uncertain() => match self.ours(number, mark, login).await?.into_iter().next() {
                Some(comment) => Ok(comment.url),
                None => self.github.comment(number, text).await.map(|comment| comment.url),
            },
            comment => comment.map(|comment| comment.url),
        }
    }

    /// Writes a check at the commit that was looked at.
    pub(super) async fn check(&self, done: &mut Done) -> Result<(), Failure> {
        let is_wanted = match self.wanted.check {
            CheckWish::Never => false,
            CheckWish::Always => true,
            // The job's own status is at the head of a pull request's event.
            CheckWish::Auto => !is_pull_request_event(self.job),
        };
        let head = self.file.head.as_deref().filter(|_| is_wanted && self.file.on == Subject::PullRequest);
        let Some(head) = head else { return Ok(()) };
        let report = &self.file.result;
        let conclusion = match report.ending.exit_code {
            0 => "success",
            code if code == Exit::Gate.code() => "failure",
            _ => "neutral",
        };
        let name = format!("qwen {}", self.name());
        let (title, url) = (headline(report), self.job.run_url());
        let check = CheckRun {
            name: &name,
            head,
            run_id: report.ran.run_id.as_deref().unwrap_or("unknown"),
            conclusion,
            title: &title,
            summary: &title,
            url: url.as_deref(),
        };
        let failed = |error| done.failed("check", "checks: write", error);
        if !self.github.has_check(&check).await.map_err(failed)? {
            match self.github.check(&check).await {
                Err(error) if error.is_uncertain() && self.github.has_check(&check).await.map_err(failed)? => {}
                Err(error) if error.is_uncertain() => self.github.check(&check).await.map_err(failed)?,
                written => written.map_err(failed)?,
            }
        }
        done.step("check", format!("the check `{name}`"));
        Ok(())
    }
}

fn is_ours(comment: &Comment, mark: &str, login: &str) -> bool {
    is_same_login(&comment.author, login) && marker::begins_with(&comment.body, mark)
}
