//! Writes and reads the proposal: the directory in which the job with the model hands its work to the job that delivers.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::error::{CiError, ProposalError};
use super::job::Job;
use crate::base::digest::sha256;
use crate::base::private_file::replace;
use crate::bounded;
use crate::emit::proposal::{Gone, PROPOSAL, ProposalFile, ReplyKind, ReplyTo, Subject, for_proposal};
use crate::emit::{Report, found, to_pretty};
use crate::policy::trigger::is_comment;

/// The largest file of a proposal.
pub(super) const LARGEST: u64 = 4 << 20;

/// The names of the files.
const FILE: &str = "proposal.json";
const PATCH: &str = "change.patch";

/// What the event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct About {
    pub(super) on: Subject,
    pub(super) number: Option<u64>,
    pub(super) head: Option<String>,
    pub(super) base: Option<String>,
    pub(super) reply_to: Option<ReplyTo>,
}

impl About {
    /// Reads an event.
    pub(super) fn read(event_name: &str, event: Option<&Value>) -> About {
        let at = |pointer: &str| event.and_then(|event| event.pointer(pointer));
        let number = |pointer: &str| at(pointer).and_then(Value::as_u64);
        let commit =
            |pointer: &str| at(pointer).and_then(Value::as_str).filter(|text| is_commit(text)).map(str::to_owned);
        let is_pull = at("/issue/pull_request").is_some();
        let (on, number) = match (number("/pull_request/number"), number("/issue/number")) {
            (Some(number), _) => (Subject::PullRequest, Some(number)),
            (None, Some(number)) if is_pull => (Subject::PullRequest, Some(number)),
            (None, Some(number)) => (Subject::Issue, Some(number)),
            (None, None) => (Subject::None, None),
        };
        let kind = match event_name {
            "issue_comment" => Some(ReplyKind::Comment),
            "pull_request_review_comment" => Some(ReplyKind::Review),
            _ => None,
        };
        let comment = at("/comment/id").and_then(Value::as_u64);
        let reply_to = kind.zip(comment).map(|(kind, id)| ReplyTo { id, kind });
        About { on, number, head: commit("/pull_request/head/sha"), base: commit("/pull_request/base/sha"), reply_to }
    }
}

/// Tells whether a text is the name of a commit.
pub(super) fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// What the first job found out besides its result.
#[derive(Debug, Default)]
pub(super) struct More {
    pub(super) gone: Vec<Gone>,
    pub(super) labels: Vec<String>,
    pub(super) trusted: Option<String>,
    pub(super) scope: Option<String>,
}

/// Writes the proposal of a run below a directory of the step; returns its directory and the digest that names it.
pub(super) fn write(
    job: &Job,
    folder: &Path,
    report: &Report,
    about: &About,
    more: More,
) -> Result<(PathBuf, String), CiError> {
    let own = folder.join("proposal");
    let text = |name: &str| job.variable(name).unwrap_or_default();
    let proposal = ProposalFile {
        proposal: PROPOSAL,
        repository: text("GITHUB_REPOSITORY"),
        on: about.on,
        number: about.number,
        event: text("GITHUB_EVENT_NAME"),
        actor: text("GITHUB_ACTOR"),
        head: about.head.clone(),
        base: about.base.clone(),
        scope: more.scope,
        trusted: more.trusted,
        gone: more.gone,
        labels: more.labels,
        reply_to: about.reply_to.clone(),
        result: for_proposal(report.clone()),
    };
    let written = to_pretty(&proposal) + "\n";
    let failed = |cause: String| CiError::Result { path: own.display().to_string(), cause };
    let put = |name: &str, bytes: &[u8]| {
        if bytes.len() as u64 > LARGEST {
            return Err(failed(format!("{name} has more than {} MiB", LARGEST >> 20)));
        }
        replace(&own.join(name), bytes, None).map_err(|error| failed(error.to_string()))
    };
    put(FILE, written.as_bytes())?;
    if report.changes.patch_sha256.is_some() {
        let patch =
            bounded::regular(&folder.join(PATCH), bounded::PRODUCT).map_err(|error| failed(error.to_string()))?;
        put(PATCH, &patch)?;
    }
    Ok((own, sha256(written.as_bytes())))
}

/// A proposal that is what the first job wrote, for what this job is about.
pub(super) struct Read {
    pub(super) file: ProposalFile,
    pub(super) patch: Option<Vec<u8>>,
}

/// Reads the proposal. Nothing in its directory is believed but what the digest names.
pub(super) fn read(job: &Job) -> Result<Read, ProposalError> {
    let digest = job.inputs.delivery.proposal_sha256.as_deref().ok_or(ProposalError::NoDigest)?;
    if digest.len() != 64 || !digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(ProposalError::NotADigest);
    }
    let folder = job.inputs.delivery.proposal.as_ref().ok_or(ProposalError::NoDirectory)?;
    let folder = job.environment.cwd.join(folder);
    let unreadable = |cause| ProposalError::Directory { path: folder.display().to_string(), cause };
    for entry in std::fs::read_dir(&folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name();
        if name != FILE && name != PATCH {
            let (path, name) = (folder.display().to_string(), name.to_string_lossy().into_owned());
            return Err(ProposalError::OneMore { path, name });
        }
    }
    let bytes = plain(&folder.join(FILE))?;
    if !sha256(&bytes).eq_ignore_ascii_case(digest) {
        return Err(ProposalError::OtherDigest);
    }
    let file: ProposalFile = serde_json::from_slice(&bytes).map_err(ProposalError::Json)?;
    let event = job.variable("GITHUB_EVENT_NAME").unwrap_or_default();
    let own = About::read(&event, job.event().as_ref());
    // The commits of the pull request of a comment are asked of GitHub, and may be newer than the event.
    let head = own.head.filter(|_| !is_comment(&event));
    let repository = job.variable("GITHUB_REPOSITORY").unwrap_or_default();
    for (is_same, what) in [
        (file.proposal == PROPOSAL, "version"),
        (file.repository == repository, "repository"),
        (file.on == own.on && file.number == own.number, "pull request or issue"),
        (head.is_none() || file.head == head, "commit"),
        (file.reply_to == own.reply_to, "comment"),
    ] {
        if !is_same {
            return Err(ProposalError::Other(what));
        }
    }
    check_fields(&file)?;
    let patch = match &file.result.changes.patch_sha256 {
        None if folder.join(PATCH).symlink_metadata().is_ok() => {
            let path = folder.display().to_string();
            return Err(ProposalError::OneMore { path, name: PATCH.to_owned() });
        }
        None => None,
        Some(named) => {
            let patch = plain(&folder.join(PATCH))?;
            if !sha256(&patch).eq_ignore_ascii_case(named) {
                return Err(ProposalError::OtherPatch);
            }
            Some(patch)
        }
    };
    Ok(Read { file, patch })
}

/// Refuses what the first job never writes in a field that becomes part of a commit, a check or the mark of a comment.
fn check_fields(file: &ProposalFile) -> Result<(), ProposalError> {
    let is_fit = |text: &Option<String>, fits: fn(&str) -> bool| text.as_deref().is_none_or(fits);
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let findings = found(&file.result.findings);
    let is_known = findings.iter().all(|found| is_hex(&found.fingerprint));
    for (is_fit, field, wanted) in [
        (is_fit(&file.result.ran.run_id, is_word), "run_id", "a word"),
        (is_fit(&file.head, is_commit), "head", "the name of a commit"),
        (is_fit(&file.trusted, is_commit), "trusted", "the name of a commit"),
        (is_fit(&file.result.changes.base, is_commit), "base", "the name of a commit"),
        (is_known, "findings[].fingerprint", "a number in hexadecimal digits"),
        (
            file.gone.iter().all(|gone| is_hex(&gone.fingerprint)),
            "gone[].fingerprint",
            "a number in hexadecimal digits",
        ),
    ] {
        if !is_fit {
            return Err(ProposalError::Field(field, wanted));
        }
    }
    Ok(())
}

/// Letters, digits and `-`, `_`, `.`: what is in a result that somebody may have written is nothing else here.
pub(super) fn is_word(text: &str) -> bool {
    (1..=100).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

/// Reads a plain file; a link could lead anywhere.
fn plain(path: &Path) -> Result<Vec<u8>, ProposalError> {
    let wrong = |cause: String| ProposalError::Artefact { path: path.display().to_string(), cause };
    let metadata = path.symlink_metadata().map_err(|error| wrong(error.to_string()))?;
    if !metadata.is_file() {
        return Err(wrong("it is not a regular file".to_owned()));
    }
    bounded::regular(path, LARGEST).map_err(|error| wrong(error.to_string()))
}
