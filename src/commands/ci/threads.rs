//! Finds comments of ours whose code is no longer in the pull request's last commit. The bytes of the file decide, never
//! that a model was silent.

use super::job::Job;
use super::proposal::About;
use crate::emit::proposal::{Gone, Subject};
use crate::emit::{Report, found};
use crate::git::repository::Repository;
use crate::github::GitHubError;
use crate::github::threads::{ThreadState, Threads};
use crate::policy::redact::Secrets;
use crate::verify::findings::still_has;

/// Returns the threads of ours in the pull request of the event.
pub(super) async fn ours(job: &Job, about: &About) -> Result<Threads, GitHubError> {
    match (about.on, about.number) {
        (Subject::PullRequest, Some(number)) => {
            job.github()?.threads(number, job.inputs.delivery.bot_login.as_deref()).await
        }
        (Subject::PullRequest | Subject::Issue | Subject::None, _) => Ok(Threads::default()),
    }
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
    let is_gone = |thread: &&crate::github::threads::Thread| {
        let mark = &thread.mark;
        if thread.state == ThreadState::Dismissed || findings.iter().any(|one| one.fingerprint == mark.fingerprint) {
            return false;
        }
        if mark.rule_id.starts_with("qwen/") {
            return is_whole;
        }
        let object = format!("{head}:{}", thread.path);
        // No file: nothing of it is left. A file that cannot be read tells nothing.
        let Ok(bytes) = repository.git().run(&["cat-file", "blob", &object], b"") else {
            return is_whole && repository.git().run(&["cat-file", "-e", &format!("{head}^{{commit}}")], b"").is_ok();
        };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let has = |text: &str| still_has(text, &thread.path, &mark.rule_id, mark.lines, &mark.fingerprint);
        // The fingerprint of a line with a secret is that of the masked line.
        !has(&text) && !has(&secrets.mask(&text).0)
    };
    let gone = threads.ours.iter().filter(is_gone);
    gone.map(|thread| Gone { comment: thread.comment, fingerprint: thread.mark.fingerprint.clone() }).collect()
}
