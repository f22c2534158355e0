//! Runs `qwen ci apply`: judges again what an earlier job proposed, without model or key, then commits it, pushes it
//! and opens a pull request.

use std::io::Write;
use std::path::Path;

use super::error::ProposalError;
use super::github::trusted_recipe;
use super::job::{Job, open, say, say_failure, trusted};
use super::push::{COMMITTER, Push, TREE};
use super::trusted_policy;
use crate::base::digest::sha256;
use crate::bounded;
use crate::deliver::message::{SUBJECT, message};
use crate::deliver::propose::Proposal;
use crate::deliver::{Delivery, DeliveryRequest, Person, Site};
use crate::emit::Report;
use crate::emit::github::notice;
use crate::emit::summary::{self, PullRequest};
use crate::event::FileReport;
use crate::exit::Exit;
use crate::forge::{ForgeError, Opened, Proposed};
use crate::git::repository::Repository;
use crate::git::server;
use crate::path::RelPath;
use crate::policy::later::executes_later;
use crate::policy::lists::ToolLists;
use crate::policy::trigger::is_login;
use crate::run::Failure;
use crate::run::finish::apply::{Fit, Request, Rules, apply};
use crate::run::output::masking::secrets_of;
use crate::run::output::outputs::new_id;
use crate::run::rules::policy_layers::{self, PolicySelection, PolicySources};
use crate::run::rules::trust::Trusted;
use crate::workspace::temporary::Temporary;

/// The largest result or patch that is read.
const LARGEST: u64 = 128 << 20;

/// The label of our pull requests.
const LABEL: &str = "qwen";

/// What was pushed.
struct Pushed {
    branch: String,
    base_branch: Option<String>,
    commit: String,
    title: String,
    files: Vec<FileReport>,
    report: Report,
}

pub(super) async fn run(job: &mut Job, out: &mut dyn Write) -> Result<Exit, Failure> {
    let outcome = push_proposal(job);
    let (exit, conclusion, text) = match &outcome {
        Ok(pushed) => {
            let opened = open_pull_request(job, pushed, out).await;
            let number = opened.as_ref().map(|opened| opened.number.to_string()).unwrap_or_default();
            job.set("pull-request", number);
            job.set("branch", pushed.branch.clone());
            job.set("commit", pushed.commit.clone());
            job.set("base", pushed.report.changes.base.clone().unwrap_or_default());
            job.set("patch-sha256", job.inputs.patch_sha256.clone().unwrap_or_default());
            let place = match (&opened, compare_url(job, pushed)) {
                (Some(opened), _) => format!("[Pull request {}]({})", opened.number, opened.url),
                (None, Some(url)) => format!("No pull request was opened. [Look at the branch and open one]({url})"),
                (None, None) => "No pull request was opened.".to_owned(),
            };
            say(out, &format!("pushed {} to the branch {}\n", pushed.commit, pushed.branch));
            (Exit::Ok, "success", summary::pushed(&pushed.branch, &place, &pushed.files))
        }
        Err(failure) => {
            say_failure(out, failure.exit, &failure.error.message, failure.error.hint.as_deref());
            let conclusion = if failure.exit == Exit::Denied { "denied" } else { "error" };
            let hint = failure.error.hint.as_deref().unwrap_or_default();
            (failure.exit, conclusion, summary::not_pushed(&failure.error.message, hint))
        }
    };
    job.set("conclusion", conclusion);
    job.set("exit-code", exit.code().to_string());
    job.set("changed", outcome.is_ok().to_string());
    job.write_summary(&text)?;
    job.write_outputs()?;
    Ok(exit)
}

/// Everything up to the push: the first thing that is not right ends it, and nothing has left this machine.
fn push_proposal(job: &Job) -> Result<Pushed, Failure> {
    job.inputs.check()?;
    let digest = digest(job)?;
    let (report, result) = read_proposal(job, digest)?;
    let place = open(&job.inputs, &job.environment)?;
    let repository = place.repository().ok_or(ProposalError::NoRepository)?;
    let trusted = trusted(job, &place)?;
    let chosen = policy(job, repository, &trusted)?;
    let judged = place.facts(&job.environment);
    chosen.require_tests(&judged)?;

    let run_id = new_id();
    let time = jiff::Timestamp::now().to_string();
    let site = Site {
        root: place.root(),
        repository: Some(repository),
        undo: None,
        run_id: &run_id,
        time: &time,
        outputs: None,
    };
    let policy = &chosen.policy;
    let secrets = secrets_of(policy, &job.environment)?;
    let also = |path: &RelPath| may_run_later(&chosen, &repository.prefix, path);
    let rules = Rules { policy, facts: &judged, secrets: &secrets, also: &also };
    let deliver = |how: Delivery| {
        let request = Request {
            input: &result,
            wanted: None,
            digest: Some(digest),
            fit: Fit::Exact,
            how,
            max_files: None,
            max_patch_bytes: None,
        };
        apply(&request, &rules, &site).map(|applied| applied.delivered)
    };
    let (base_branch, kept) = base_and_kept(job);
    let branch = branch_name(job, &report);
    let title = subject(&report, &repository.top, &trusted);
    let order = order(job, &report, &title)?;
    let server = job.variable("GITHUB_SERVER_URL");
    let own = Temporary::outside("ci-", place.root()).map_err(ProposalError::Space)?;
    let git = server::git(repository, own.path()).map_err(|error| ProposalError::Origin(error.to_string()))?;
    let push = Push { git, branch: &branch, kept: &kept, token: job.inputs.token.as_ref(), server: server.as_deref() };
    // The gate first, separately: what the policy refuses is refused whatever the branch is.
    if deliver(Delivery::DryRun)?.files.is_empty() {
        return Err(ProposalError::Empty.into());
    }
    let expected = push.look()?;
    // A name of our own: the one that is pushed may be checked out here, or be there from an earlier try.
    let local = format!("qwen-ci-{run_id}");
    let delivered = deliver(Delivery::Branch { name: local.clone(), order })?;
    let commit = delivered.commit.ok_or(ProposalError::NoCommit)?;
    let pushed = push.push(&commit, expected.as_deref());
    // The commit is on origin or nowhere.
    let _gone = repository.git().run(&["update-ref", "-d", &format!("refs/heads/{local}"), &commit], b"");
    pushed?;
    Ok(Pushed { branch, base_branch, commit, title, files: delivered.files, report })
}

fn digest(job: &Job) -> Result<&str, ProposalError> {
    let digest = job.inputs.patch_sha256.as_deref().ok_or(ProposalError::NoDigest)?;
    let is_digest = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_digest { Ok(digest) } else { Err(ProposalError::NotADigest) }
}

/// Refuses a file that tools run by themselves, unless a policy file decides about it.
fn may_run_later(chosen: &PolicySelection, prefix: &RelPath, path: &RelPath) -> Result<(), String> {
    let name = crate::change::patch::name_in_repository(prefix, path);
    match !chosen.from_file && executes_later(&String::from_utf8_lossy(&name)) {
        true => Err("tools run it automatically, and no policy file allows it".to_owned()),
        false => Ok(()),
    }
}

/// Returns the branch that the change is for, and the branches that are never pushed to.
fn base_and_kept(job: &Job) -> (Option<String>, Vec<String>) {
    let event = job.event();
    let default_branch =
        event.as_ref().and_then(|event| event.pointer("/repository/default_branch")?.as_str().map(str::to_owned));
    let base_branch = job
        .variable("GITHUB_HEAD_REF")
        .or_else(|| job.variable("GITHUB_REF_NAME").filter(|_| is_branch(job)))
        .or_else(|| default_branch.clone());
    let kept = [default_branch, base_branch.clone()].into_iter().flatten().collect();
    (base_branch, kept)
}

fn is_branch(job: &Job) -> bool {
    job.variable("GITHUB_REF").is_some_and(|reference| reference.starts_with("refs/heads/"))
}

/// Reads result and patch from the directory. Neither is believed: both must be what the digest names.
fn read_proposal(job: &Job, digest: &str) -> Result<(Report, Vec<u8>), Failure> {
    let folder = job.inputs.proposal.as_ref().ok_or(ProposalError::NoDirectory)?;
    let folder = job.environment.cwd.join(folder);
    let path = || folder.display().to_string();
    let unreadable = |cause| ProposalError::Directory { path: path(), cause };
    let mut patches = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|end| end == "patch") {
            patches.push(path);
        }
    }
    let [patch] = &patches[..] else {
        return Err(ProposalError::Patches { path: path(), count: patches.len() }.into());
    };
    let patch = read_plain(patch)?;
    if !sha256(&patch).eq_ignore_ascii_case(digest) {
        return Err(ProposalError::OtherDigest.into());
    }
    let result = read_plain(&folder.join("result.json"))?;
    let proposal = Proposal::read(&result, Some(digest))?;
    let report: Report = serde_json::from_slice(&result).map_err(ProposalError::Result)?;
    if proposal.base.is_none() {
        return Err(ProposalError::NoBase.into());
    }
    let only_denied_calls =
        report.ending.conclusion == "denied" && report.error.as_ref().is_some_and(|e| e.code == "denied");
    if !(matches!(report.ending.exit_code, 0 | 3) || report.ending.exit_code == 60 && only_denied_calls) {
        return Err(ProposalError::Failed(report.ending.exit_code).into());
    }
    Ok((report, result))
}

/// Reads a plain file; a link could lead anywhere.
fn read_plain(path: &Path) -> Result<Vec<u8>, ProposalError> {
    let wrong = |cause: String| ProposalError::Artefact { path: path.display().to_string(), cause };
    let metadata = path.symlink_metadata().map_err(|error| wrong(error.to_string()))?;
    if !metadata.is_file() {
        return Err(wrong("it is not a regular file".to_owned()));
    }
    bounded::regular(path, LARGEST).map_err(|error| wrong(error.to_string()))
}

/// Returns the policy of the trusted commit. Delivering is what this job is for, as with `qwen apply`.
fn policy(job: &Job, repository: &Repository, trusted: &Trusted) -> Result<PolicySelection, Failure> {
    let folder = Temporary::new("policy-").map_err(ProposalError::Temporary)?;
    let cwd = &job.environment.cwd;
    let named = match &job.inputs.policy {
        Some(named) => Some(trusted_policy::find(named, &repository.top, cwd, trusted, &folder.path().join("policy"))?),
        None => job.environment.value("QWEN_POLICY"),
    };
    policy_layers::choose(&PolicySources {
        named: named.as_deref(),
        mode: None,
        delivers: true,
        lists: &ToolLists::default(),
        cwd,
        top: &repository.top,
        trusted,
        machine: policy_layers::machine(),
    })
}

fn branch_name(job: &Job, report: &Report) -> String {
    job.inputs.branch.clone().unwrap_or_else(|| {
        let recipe = report.ran.recipe.as_ref().map(|recipe| recipe.name.as_str()).filter(|name| is_word(name));
        format!("qwen/{}", recipe.unwrap_or("change"))
    })
}

/// Letters, digits and `-`, `_`, `.`: what is in a result that somebody may have written is nothing else here.
fn is_word(text: &str) -> bool {
    (1..=100).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

/// Returns the first line of the commit and the title of the pull request: the recipe's, else the model's first line.
fn subject(report: &Report, top: &Path, trusted: &Trusted) -> String {
    let recipe = report.ran.recipe.as_ref().and_then(|facts| trusted_recipe(&facts.name, top, trusted));
    let own = recipe.and_then(|recipe| Some(recipe.file.git.as_ref()?.subject.as_ref()?.value.clone()));
    if let Some(own) = own.filter(|own| !own.contains("{{") && !own.contains("{%")) {
        return own;
    }
    let lines =
        report.answer.result.lines().map(|line| inert(line).trim_start_matches(['#', '*', '>', ' ']).trim().to_owned());
    let first = lines.into_iter().find(|line| !line.is_empty()).unwrap_or_else(|| "Change files".to_owned());
    if first.chars().count() <= SUBJECT {
        return first;
    }
    let cut: String = first.chars().take(SUBJECT - 1).collect();
    format!("{}…", &cut[..cut.rfind(' ').unwrap_or(cut.len())])
}

/// What keeps the checks of a commit from running where it is said in brackets.
const SKIPS: [&str; 5] = ["skip ci]", "ci skip]", "no ci]", "skip actions]", "actions skip]"];

/// Returns a text in which GitHub finds nobody to notify, no issue to close and no word about checks.
fn inert(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
    let mut plain = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        plain.push(c);
        let (before, rest) = (&text[..at], &text[at + c.len_utf8()..]);
        let begins = |word: &str| rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
        let means_something = match c {
            '@' | '#' => rest.starts_with(char::is_alphanumeric),
            // `GH-7` is an issue, and so is its address.
            '-' => rest.starts_with(|c: char| c.is_ascii_digit()) && last_word(before).eq_ignore_ascii_case("gh"),
            ':' => rest.starts_with("//"),
            '[' => SKIPS.iter().any(|words| begins(words)),
            _ => false,
        };
        if means_something {
            plain.push(' ');
        }
    }
    plain
}

fn last_word(text: &str) -> &str {
    text.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default()
}

fn order(job: &Job, report: &Report, title: &str) -> Result<DeliveryRequest, ProposalError> {
    let line = |text: &str| -> String { text.chars().filter(|c| !c.is_control()).take(200).collect() };
    let model = report.ran.model.as_deref().map(line).filter(|model| !model.trim().is_empty());
    let assisted = format!("qwen-run:{}", model.as_deref().unwrap_or("unknown"));
    let recipe =
        report.ran.recipe.as_ref().filter(|recipe| is_word(&recipe.name) && is_word(&recipe.sha256)).map(|recipe| {
            let version = recipe.version.as_deref().filter(|version| is_word(version));
            let version = version.map(|version| format!("@{version}")).unwrap_or_default();
            format!("{}{version} sha256:{}", recipe.name, recipe.sha256)
        });
    let run = report.ran.run_id.as_deref().filter(|id| is_word(id)).unwrap_or("unknown");
    let mut trailers = vec![("Assisted-by", assisted.as_str())];
    trailers.extend(recipe.as_deref().map(|recipe| ("Qwen-Recipe", recipe)));
    trailers.push(("Qwen-Run-Id", run));
    let body: String = inert(&report.answer.result).chars().take(4_000).collect();
    let message = message(title, &body, &trailers).map_err(|problem| ProposalError::Message(problem.to_string()))?;
    let committer = Person { name: COMMITTER.0.to_owned(), email: COMMITTER.1.to_owned() };
    Ok(DeliveryRequest {
        message,
        author: Some(author(job).unwrap_or_else(|| committer.clone())),
        committer: Some(committer),
        sign: false,
        tree_trailer: Some(TREE),
    })
}

/// Returns whoever started the run, by the address that GitHub knows: it needs the numeric id.
fn author(job: &Job) -> Option<Person> {
    let actor = job.variable("GITHUB_ACTOR").filter(|actor| is_login(actor))?;
    let id = job.variable("GITHUB_ACTOR_ID").filter(|id| id.bytes().all(|byte| byte.is_ascii_digit()))?;
    Some(Person { email: format!("{id}+{actor}@users.noreply.github.com"), name: actor })
}

fn compare_url(job: &Job, pushed: &Pushed) -> Option<String> {
    let (server, repository) = (job.variable("GITHUB_SERVER_URL")?, job.variable("GITHUB_REPOSITORY")?);
    let base = pushed.base_branch.as_deref()?;
    Some(format!("{server}/{repository}/compare/{base}...{}?expand=1", pushed.branch))
}

/// Opens the pull request. If that is impossible the branch remains, and the log says what to do.
async fn open_pull_request(job: &Job, pushed: &Pushed, out: &mut dyn Write) -> Option<Opened> {
    let why = match (&pushed.base_branch, &job.inputs.token) {
        (None, _) => "the base branch is unknown".to_owned(),
        (_, None) => "github-token is not given".to_owned(),
        (Some(base), Some(_)) => {
            let mut report = pushed.report.clone();
            report.changes.files.clone_from(&pushed.files);
            let (url, actor) = (job.run_url(), job.variable("GITHUB_ACTOR").filter(|actor| is_login(actor)));
            let about = PullRequest { run_url: url.as_deref(), actor: actor.as_deref(), commit: &pushed.commit };
            let body = summary::pull_request(&report, &about);
            let proposed = Proposed {
                head: &pushed.branch,
                base,
                title: &pushed.title,
                body: &body,
                draft: job.inputs.draft,
                label: LABEL,
            };
            match propose(job, &proposed).await {
                Ok(opened) => {
                    let verb = if opened.was_there { "brought up to date" } else { "opened" };
                    say(
                        out,
                        &notice("notice", "qwen", &format!("{verb} pull request {}: {}", opened.number, opened.url)),
                    );
                    if let Some(why) = &opened.without_label {
                        say(out, &notice("notice", "qwen", &format!("without the label {LABEL}: {why}")));
                    }
                    return Some(opened);
                }
                Err(error) => error.to_string(),
            }
        }
    };
    let compare = compare_url(job, pushed).map(|url| format!("; open one at {url}")).unwrap_or_default();
    let text = format!("the branch {} is pushed, and no pull request was opened: {why}{compare}", pushed.branch);
    say(out, &notice("warning", "qwen", &text));
    None
}

async fn propose(job: &Job, proposed: &Proposed<'_>) -> Result<Opened, ForgeError> {
    job.forge()?.propose(proposed).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_message_notifies_nobody_closes_nothing_and_skips_no_checks() {
        for (text, expected) in [
            ("thanks @octocat, fixes #7", "thanks @ octocat, fixes # 7"),
            ("fixes GH-7, closes gh-8", "fixes GH- 7, closes gh- 8"),
            ("fixes https://github.com/o/r/issues/7", "fixes https: //github.com/o/r/issues/7"),
            ("docs [skip ci] [CI Skip] [no ci]", "docs [ skip ci] [ CI Skip] [ no ci]"),
            ("a[0], utf-8, high-5, x: y, # title, [skip it]", "a[0], utf-8, high-5, x: y, # title, [skip it]"),
            ("[\u{7}skip ci]", "[ skip ci]"),
        ] {
            assert_eq!(inert(text), expected);
        }
    }
}
