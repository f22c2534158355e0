//! Finds comments of ours whose code is no longer in the pull request's last commit. The bytes of the file decide, never
//! that a model was silent.

use super::job::Job;
use super::proposal::About;
use crate::emit::proposal::{Gone, Subject};
use crate::emit::{Report, found};
use crate::git::repository::Repository;
use crate::github::marker::{self, FindingMark, Reviewed};
use crate::github::threads::{Thread, ThreadState, Threads};
use crate::github::{GitHubError, is_same_login};
use crate::policy::redact::Secrets;
use crate::recipe::file::{Confidence, Severity};
use crate::verify::findings::{Earlier, ends_of};

/// Returns the threads of ours in the pull request of the event.
pub(super) async fn ours(job: &Job, about: &About) -> Result<Threads, GitHubError> {
    match (about.on, about.number) {
        (Subject::PullRequest, Some(number)) => {
            job.github()?.threads(number, job.inputs.delivery.bot_login.as_deref()).await
        }
        (Subject::PullRequest | Subject::Issue | Subject::None, _) => Ok(Threads::default()),
    }
}

/// Returns what these threads say for the verdict: those that a person dismissed, and open ones whose lines are still
/// there. What was found without a model is found again, and cannot be dismissed.
pub(super) fn earlier(threads: &Threads, head: &str, repository: &Repository, secrets: &Secrets) -> Vec<Earlier> {
    let of = |thread: &Thread| {
        let mark = &thread.mark;
        let is_dismissed = thread.state == ThreadState::Dismissed;
        let counts = is_dismissed || thread.state == ThreadState::Open;
        let is_gone = || match still_has_it((thread, threads), head, repository, secrets) {
            Some(has) => !has,
            None => has_commit(head, repository),
        };
        if is_local(mark) || !counts || !is_dismissed && is_gone() {
            return None;
        }
        let severity = match mark.severity.as_str() {
            "error" => Severity::Error,
            "warning" => Severity::Warning,
            _ => Severity::Note,
        };
        let confidence = match mark.confidence.as_str() {
            "low" => Confidence::Low,
            "medium" => Confidence::Medium,
            _ => Confidence::High,
        };
        let (fingerprint, rule_id) = (mark.fingerprint.clone(), mark.rule_id.clone());
        Some(Earlier { fingerprint, rule_id, severity, confidence, is_dismissed, end_line: thread.line })
    };
    threads.ours.iter().filter_map(of).collect()
}

/// Returns the commit that the comment of earlier runs of a recipe names, if what is new since then can be told: it is
/// below the last commit.
pub(super) async fn reviewed(
    job: &Job,
    about: &About,
    login: &str,
    (recipe, scope): (&str, &str),
    repository: &Repository,
) -> Result<Option<String>, GitHubError> {
    let (Some(number), Some(head), Some(base)) = (about.number, &about.head, &about.base) else { return Ok(None) };
    let Some(mark) = marker::sticky(recipe) else { return Ok(None) };
    let comments = job.github()?.comments(number).await?;
    let ours = comments.iter().find(|one| is_same_login(&one.author, login) && marker::begins_with(&one.body, &mark));
    let reviewed = ours.and_then(|comment| marker::reviewed(&comment.body));
    let git = repository.git();
    let is_below = |commit: &str, tip: &str| git.run(&["merge-base", "--is-ancestor", commit, tip], b"").is_ok();
    let begins = |base: &str, head: &str| git.line(&["merge-base", base, head], b"").ok();
    // Where the change begins elsewhere, after a merge or at another branch, it is another one.
    let counts = |reviewed: &Reviewed| {
        reviewed.head != *head
            && reviewed.scope == scope
            && is_below(&reviewed.head, head)
            && begins(&reviewed.base, &reviewed.head).is_some_and(|begin| begins(base, head) == Some(begin))
    };
    Ok(reviewed.filter(counts).map(|reviewed| reviewed.head))
}

fn has_commit(commit: &str, repository: &Repository) -> bool {
    repository.git().run(&["cat-file", "-e", &format!("{commit}^{{commit}}")], b"").is_ok()
}

fn is_local(mark: &FindingMark) -> bool {
    mark.rule_id.starts_with("qwen/")
}

/// Tells whether the lines of a thread are still in its file, at a place where no other thread of ours is about equal
/// lines; `None` where the file is not there or cannot be read.
fn still_has_it(
    (thread, threads): (&Thread, &Threads),
    head: &str,
    repository: &Repository,
    secrets: &Secrets,
) -> Option<bool> {
    let mark = &thread.mark;
    let object = format!("{head}:{}", thread.path);
    let bytes = repository.git().run(&["cat-file", "blob", &object], b"").ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let ends =
        |text: &str, mark: &FindingMark| ends_of(text, &thread.path, &mark.rule_id, mark.lines, &mark.fingerprint);
    // Threads of other rules, and settled ones, say nothing of who found these lines.
    let is_twin = |other: &&Thread| {
        let counts = matches!(other.state, ThreadState::Open | ThreadState::Dismissed);
        let has_words = other.path == thread.path && other.mark.rule_id == mark.rule_id;
        other.id != thread.id && counts && has_words && other.mark.lines == mark.lines
    };
    let has = |text: &str| {
        let twins: Vec<u64> = threads
            .ours
            .iter()
            .filter(is_twin)
            .filter_map(|other| other.line.filter(|line| ends(text, &other.mark).contains(line)))
            .collect();
        ends(text, mark).iter().any(|end| thread.line == Some(*end) || !twins.contains(end))
    };
    // The fingerprint of a line with a secret is that of the masked line.
    Some(has(&text) || has(&secrets.mask(&text).0))
}

/// Chooses among them those whose lines are gone. What was found without a model is gone when a whole run finds it no more.
pub(super) fn gone(
    threads: &Threads,
    report: &Report,
    head: &str,
    repository: &Repository,
    secrets: &Secrets,
) -> Vec<Gone> {
    let findings = found(&report.findings);
    let is_whole = matches!(report.ending.exit_code, 0 | 3);
    let is_gone = |thread: &&Thread| {
        let mark = &thread.mark;
        if thread.state == ThreadState::Dismissed || findings.iter().any(|one| one.fingerprint == mark.fingerprint) {
            return false;
        }
        if is_local(mark) {
            return is_whole;
        }
        // No file: nothing of it is left. A file that cannot be read tells nothing.
        let has_head = || has_commit(head, repository);
        still_has_it((thread, threads), head, repository, secrets).map_or_else(|| is_whole && has_head(), |has| !has)
    };
    let gone = threads.ours.iter().filter(is_gone);
    gone.map(|thread| Gone { comment: thread.comment, fingerprint: thread.mark.fingerprint.clone() }).collect()
}
