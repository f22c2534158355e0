//! Puts a proposed change on a branch of its own: judged again, committed, pushed by explicit name, with a pull request.

use serde_json::json;

use super::error::ProposalError;
use super::job::{Job, recipe};
use super::proposal::is_word;
use super::push::{COMMITTER, Push, TREE};
use super::wanted::Wanted;
use crate::deliver::inert::{inert, inert_subject, inert_value};
use crate::deliver::message::message;
use crate::deliver::{Delivery, DeliveryRequest, Person, Site};
use crate::emit::Report;
use crate::emit::proposal::ProposalFile;
use crate::emit::summary::{self, PullRequest};
use crate::event::FileReport;
use crate::git::repository::Repository;
use crate::git::{Whole, server};
use crate::github::{Opened, Proposed, Pull};
use crate::path::RelPath;
use crate::policy::Facts;
use crate::policy::later::executes_later;
use crate::policy::redact::Secrets;
use crate::policy::trigger::is_login;
use crate::run::Failure;
use crate::run::finish::apply::{Fit, Request, Rules, apply};
use crate::run::output::outputs::new_id;
use crate::run::place::Place;
use crate::run::rules::policy_layers::PolicySelection;
use crate::run::rules::trust::Trusted;
use crate::workspace::temporary::Temporary;

/// A change that the policy accepts, and the branch that it goes to.
pub(super) struct Change<'a> {
    job: &'a Job,
    place: &'a Place,
    repository: &'a Repository,
    chosen: &'a PolicySelection,
    facts: Facts,
    secrets: &'a Secrets,
    digest: &'a str,
    /// The commit that the change is for.
    made_for: String,
    /// The result with its patch, as `qwen apply` reads it.
    input: Vec<u8>,
    order: DeliveryRequest,
    target: Target,
}

/// Where a change goes.
struct Target {
    branch: String,
    base_branch: Option<String>,
    /// The branch is that of the pull request with this number.
    head: Option<u64>,
    /// Branches that are never pushed to.
    kept: Vec<String>,
    title: String,
}

/// What was pushed.
pub(super) struct Pushed {
    pub(super) branch: String,
    base_branch: Option<String>,
    /// It is the branch of this pull request.
    pub(super) of_pull: Option<u64>,
    pub(super) commit: String,
    title: String,
    files: Vec<FileReport>,
}

/// Judges a change: the run that made it succeeded, and the policy accepts each file. Nothing is written.
pub(super) fn judge<'a>(
    job: &'a Job,
    place: &'a Place,
    trusted: &Trusted,
    (chosen, secrets): (&'a PolicySelection, &'a Secrets),
    proposal: &'a ProposalFile,
    patch: &[u8],
) -> Result<Change<'a>, Failure> {
    let report = &proposal.result;
    let only_denied_calls =
        report.ending.conclusion == "denied" && report.error.as_ref().is_some_and(|error| error.code == "denied");
    if !(matches!(report.ending.exit_code, 0 | 3) || report.ending.exit_code == 60 && only_denied_calls) {
        return Err(ProposalError::Failed(report.ending.exit_code).into());
    }
    let made_for = report.changes.base.clone().ok_or(ProposalError::NoBase)?;
    let repository = place.repository().ok_or(ProposalError::NoRepository)?;
    let (base_branch, kept) = base_and_kept(job);
    let title = subject(job, report, place, trusted);
    let change = Change {
        job,
        place,
        repository,
        chosen,
        facts: place.facts(&job.environment),
        secrets,
        made_for,
        digest: report.changes.patch_sha256.as_deref().unwrap_or_default(),
        input: with_patch(report, patch),
        order: order(job, report, &title)?,
        target: Target { branch: branch_name(job, report), base_branch, head: None, kept, title },
    };
    match change.deliver(Delivery::DryRun, &new_id())?.files.is_empty() {
        true => Err(ProposalError::Empty.into()),
        false => Ok(change),
    }
}

/// Returns the result as `qwen apply` reads it, with the patch in it.
fn with_patch(report: &Report, patch: &[u8]) -> Vec<u8> {
    use base64::Engine as _;
    let mut changes = serde_json::to_value(&report.changes).unwrap_or_default();
    match std::str::from_utf8(patch) {
        Ok(text) => changes["patch"] = text.into(),
        Err(_) => changes["patch_base64"] = base64::engine::general_purpose::STANDARD.encode(patch).into(),
    }
    json!({"type": "result", "changes": changes}).to_string().into_bytes()
}

impl Change<'_> {
    /// Names the pull request that the change is for: it goes to a branch on top of its branch, or to that branch.
    pub(super) fn based_on(&mut self, pull: &Pull) -> Result<(), ProposalError> {
        let target = &mut self.target;
        if !self.job.inputs.delivery.to_head {
            target.kept.push(pull.head_ref.clone());
            target.base_branch = Some(pull.head_ref.clone());
            return Ok(());
        }
        let repository = self.job.variable("GITHUB_REPOSITORY").unwrap_or_default();
        if pull.head_repository.as_deref() != Some(repository.as_str()) {
            return Err(ProposalError::ForeignHead);
        }
        target.kept = default_branch(self.job).into_iter().collect();
        (target.branch, target.head) = (pull.head_ref.clone(), Some(pull.number));
        Ok(())
    }

    fn deliver(&self, how: Delivery, run_id: &str) -> Result<crate::deliver::Delivered, Failure> {
        let time = jiff::Timestamp::now().to_string();
        let site = Site {
            root: self.place.root(),
            repository: Some(self.repository),
            undo: None,
            run_id,
            time: &time,
            outputs: None,
        };
        let also = |path: &RelPath| may_run_later(self.chosen, &self.repository.prefix, path);
        let rules = Rules { policy: &self.chosen.policy, facts: &self.facts, secrets: self.secrets, also: &also };
        let request = Request {
            input: &self.input,
            wanted: None,
            digest: Some(self.digest),
            fit: Fit::Exact,
            how,
            max_files: None,
            max_patch_bytes: None,
        };
        apply(&request, &rules, &site).map(|applied| applied.delivered)
    }

    /// Commits the change and pushes it to its branch.
    pub(super) fn push(self) -> Result<Pushed, Failure> {
        // The branch of our own goes again, whatever ends the push.
        let _whole = Whole::begin();
        let Target { branch, base_branch, head, kept, title } = &self.target;
        let server = self.job.variable("GITHUB_SERVER_URL");
        let own = Temporary::outside("ci-", self.place.root()).map_err(ProposalError::Temporary)?;
        let git = server::git(self.repository, own.path()).map_err(|error| ProposalError::Origin(error.to_string()))?;
        let token = self.job.inputs.token.as_ref();
        let below = self.below();
        let push = Push { git, branch, kept, below: &below, token, server: server.as_deref() };
        let expected = match head {
            Some(_) => push.look_at_head()?,
            None => push.look()?,
        };
        // A name of our own: the one that is pushed may be checked out here, or be there from an earlier try.
        let run_id = new_id();
        let local = format!("qwen-ci-{run_id}");
        let delivered = self.deliver(Delivery::Branch { name: local.clone(), order: self.order.clone() }, &run_id)?;
        let commit = delivered.commit.ok_or(ProposalError::NoCommit)?;
        let there = expected.clone().filter(|tip| push.is_there(tip, &commit));
        // What is pushed is a commit on the one that the change was made for, and nothing else.
        let has_moved = head.is_some() && expected.as_ref() != Some(&self.made_for);
        let pushed = match &there {
            Some(_) => Ok(()),
            None if has_moved => Err(push.moved()),
            None => push.push(&commit, expected.as_deref()),
        };
        // The commit is on origin or nowhere.
        let _gone = self.repository.git().run(&["update-ref", "-d", &format!("refs/heads/{local}"), &commit], b"");
        pushed?;
        Ok(Pushed {
            branch: branch.clone(),
            base_branch: base_branch.clone(),
            of_pull: *head,
            commit: there.unwrap_or(commit),
            title: title.clone(),
            files: delivered.files,
        })
    }

    /// Returns the commits that a branch of ours began from: the checkout's, and the base branch's.
    fn below(&self) -> Vec<String> {
        let base = self.target.base_branch.as_ref().map(|base| format!("refs/remotes/origin/{base}^{{commit}}"));
        let commit = |name: String| {
            self.repository.git().line(&["rev-parse", "--verify", "--quiet", "--end-of-options", &name], b"").ok()
        };
        ["HEAD".to_owned()].into_iter().chain(base).filter_map(commit).filter(|id| !id.is_empty()).collect()
    }
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
    let default_branch = default_branch(job);
    let base_branch = job
        .variable("GITHUB_HEAD_REF")
        .or_else(|| job.variable("GITHUB_REF_NAME").filter(|_| is_branch(job)))
        .or_else(|| default_branch.clone());
    let kept = [default_branch, base_branch.clone()].into_iter().flatten().collect();
    (base_branch, kept)
}

fn default_branch(job: &Job) -> Option<String> {
    job.event()?.pointer("/repository/default_branch")?.as_str().map(str::to_owned)
}

fn is_branch(job: &Job) -> bool {
    job.variable("GITHUB_REF").is_some_and(|reference| reference.starts_with("refs/heads/"))
}

fn branch_name(job: &Job, report: &Report) -> String {
    job.inputs.delivery.branch.clone().unwrap_or_else(|| {
        let recipe = report.ran.recipe.as_ref().map(|recipe| recipe.name.as_str()).filter(|name| is_word(name));
        let key = job.inputs.delivery.key.as_ref().map(|key| format!("/{key}")).unwrap_or_default();
        format!("qwen/{}{key}", recipe.unwrap_or("change"))
    })
}

/// Returns the first line of the commit and the title of the pull request: the recipe's, else the model's first line.
fn subject(job: &Job, report: &Report, place: &Place, trusted: &Trusted) -> String {
    let named = report.ran.recipe.as_ref().map(|facts| job.named_recipe().unwrap_or_else(|| facts.name.clone()));
    let recipe = named.and_then(|word| recipe(job, place, trusted, &word).ok());
    let own = recipe.and_then(|recipe| Some(recipe.file.git.as_ref()?.subject.as_ref()?.value.clone()));
    if let Some(own) = own.filter(|own| !own.contains("{{") && !own.contains("{%")) {
        return inert(&own);
    }
    let plain = |line: &str| inert(&line.replace('\t', " "));
    let lines =
        report.answer.result.lines().map(|line| plain(line).trim_start_matches(['#', '*', '>', ' ']).trim().to_owned());
    let first = lines.into_iter().find(|line| !line.is_empty());
    inert_subject(first.as_deref().unwrap_or("Change files"))
}

fn order(job: &Job, report: &Report, title: &str) -> Result<DeliveryRequest, ProposalError> {
    let model =
        report.ran.model.as_deref().map(|model| inert_value(model, 200)).filter(|model| !model.trim().is_empty());
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
    let closes = report.changes.closes.map(|number| format!("#{number}"));
    trailers.extend(closes.as_deref().map(|number| ("Closes", number)));
    let body = inert(&report.answer.result.chars().take(4_000).collect::<String>());
    let message = message(title, &body, &trailers).map_err(|problem| ProposalError::Message(problem.to_string()))?;
    let committer = Person { name: COMMITTER.0.to_owned(), email: COMMITTER.1.to_owned() };
    Ok(DeliveryRequest {
        message,
        author: Some(author(job).unwrap_or_else(|| committer.clone())),
        committer: Some(committer),
        tree_trailer: Some(TREE),
        ..DeliveryRequest::default()
    })
}

/// Returns whoever started the run, by the address that GitHub knows: it needs the numeric id.
fn author(job: &Job) -> Option<Person> {
    let actor = job.variable("GITHUB_ACTOR").filter(|actor| is_login(actor))?;
    let id = job.variable("GITHUB_ACTOR_ID").filter(|id| id.bytes().all(|byte| byte.is_ascii_digit()))?;
    Some(Person { email: format!("{id}+{actor}@users.noreply.github.com"), name: actor })
}

impl Pushed {
    /// Returns the page on which a person can open the pull request.
    pub(super) fn compare_url(&self, job: &Job) -> Option<String> {
        let (server, repository) = (job.variable("GITHUB_SERVER_URL")?, job.variable("GITHUB_REPOSITORY")?);
        let base = self.base_branch.as_deref()?;
        Some(format!("{server}/{repository}/compare/{base}...{}?expand=1", self.branch))
    }
}

/// Whether checks start for what was pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Checks {
    /// They do, or are started.
    Start,
    /// GitHub starts none for a push of the job's own token.
    Wait,
}

/// What a pull request says of checks that do not start.
const WAITING: &str = "\nNo checks have started: GitHub starts none for a push with the token of a workflow. Approve them, or close and \
    reopen the pull request; an App's token as `github-token`, or `start-checks`, starts them.\n";

/// Opens the pull request of what was pushed; the error says why there is none.
pub(super) async fn open_pull_request(
    job: &Job,
    report: &Report,
    wanted: &Wanted,
    pushed: &Pushed,
    checks: Checks,
) -> Result<Opened, String> {
    let base = pushed.base_branch.as_deref().ok_or("the base branch is unknown")?;
    let wanted = wanted.pull_request.as_ref().ok_or("recipe or policy leave it out")?;
    if job.inputs.token.is_none() {
        return Err("github-token is not given".to_owned());
    }
    let mut report = report.clone();
    report.changes.files.clone_from(&pushed.files);
    let (url, actor) = (job.run_url(), job.variable("GITHUB_ACTOR").filter(|actor| is_login(actor)));
    let about = PullRequest { run_url: url.as_deref(), actor: actor.as_deref(), commit: &pushed.commit };
    let mut body = summary::pull_request(&report, &about);
    if let Some(number) = report.changes.closes {
        body.push_str(&format!("\nCloses #{number}.\n"));
    }
    if checks == Checks::Wait {
        body.push_str(WAITING);
    }
    let proposed = Proposed {
        head: &pushed.branch,
        base,
        title: &pushed.title,
        body: &body,
        draft: wanted.stays_draft || job.inputs.delivery.draft.unwrap_or(wanted.draft),
        labels: &wanted.labels,
    };
    let github = job.github().map_err(|error| error.to_string())?;
    github.propose(&proposed).await.map_err(|error| error.to_string())
}
