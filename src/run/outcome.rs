//! Ends a run: delivery, its failures, and what the result reports about the changes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;

use crate::agent::OnDeny;
use crate::change::patch;
use crate::change::{Change, ChangeSet};
use crate::deliver::{self, DeliverError, Delivered, Delivery, Gate, Order, Site};
use crate::event::{ChangesReport, RunError, RunFinished};
use crate::exit::Exit;
use crate::git::drivers::drivers;
use crate::git::history;
use crate::git::repository::Repository;
use crate::path::RelPath;
use crate::policy::{Facts, GitFacts, History};
use crate::recipe::file::{Body, IfNoChanges};
use crate::tools::mcp::Servers;
use crate::verify::Failed;
use crate::workspace::Workspace;
use crate::workspace::tree::CommandTree;
use crate::workspace::untouched::Untouched;

use super::emitter::Emitter;
use super::ignored;
use super::judge::judge_change;
use super::runner::Runner;
use super::setup::Setup;
use super::{Answer, Failure};

/// How long to search a repository for files that must not be read; after that it counts as containing some.
const HISTORY_TIME: Duration = Duration::from_secs(2);

/// What remains of a cancelled conversation: the staged changes and how to deliver them.
pub struct Stage {
    /// The workspace.
    pub workspace: Arc<Workspace>,
    /// The commands.
    pub runner: Runner,
    /// Runs commands on the unchanged tree, if a check asks for it.
    pub base: Option<Runner>,
    /// The repository.
    pub repository: Option<Repository>,
    /// How the changes are delivered.
    pub mode: Mode,
    /// The MCP servers.
    pub servers: Servers,
    /// The file of `--patch-file`.
    pub patch_file: Option<PathBuf>,
    /// The tree's fingerprint, if nothing else keeps commands from writing to it in a dry run.
    pub untouched: Option<Untouched>,
}

/// The delivery, before there is a message for a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// Shown.
    DryRun,
    /// Written to the project.
    Apply,
    /// A commit on the current branch.
    Commit,
    /// A commit on a new branch of this name.
    Branch(String),
}

impl Mode {
    /// Returns the name that is in results.
    pub fn name(&self) -> &'static str {
        match self {
            Mode::DryRun => "dry-run",
            Mode::Apply => "apply",
            Mode::Commit => "commit",
            Mode::Branch(_) => "branch",
        }
    }
}

impl Stage {
    /// Completes an ending that delivered nothing: the staged patch, not applied.
    pub fn complete(&self, finished: &mut RunFinished) {
        if !finished.changes.mode.is_empty() {
            return;
        }
        let changes = self.workspace.changes();
        let (patch, files) = deliver::proposal(&changes, self.repository.as_ref());
        let delivered = Delivered { patch, files, ..Delivered::default() };
        let rolled_back = finished.changes.rolled_back;
        finished.changes = self.report(&delivered, &changes);
        finished.changes.rolled_back = rolled_back;
    }

    /// Turns a run whose commands changed the project outside the delivery into a failure: without isolation only a
    /// comparison afterwards finds this.
    pub fn compare(&self, finished: &mut RunFinished) {
        let (message, hint) = if let Some(path) = self.untouched.as_ref().and_then(Untouched::first_difference) {
            (
                format!("a command of this dry run changed {}", path.display()),
                "it ran without isolation (--sandbox off): check `git status`, and leave the flag out",
            )
        } else if let Some(path) = self.runner.changed_attribute() {
            (
                format!("mode or time of {} changed while commands ran, outside the delivery", path.display()),
                "isolation tier T2 does not protect modes and times; run `qwen sandbox doctor` to see how to get T3",
            )
        } else {
            return;
        };
        let exit = finished.exit.or_worse(Exit::Failed);
        if exit == Exit::Failed {
            let (code, hint) = ("tree_changed".into(), Some(hint.into()));
            finished.error = Some(RunError { code, message, hint, ..RunError::default() });
        }
        finished.exit = exit;
    }

    /// Ends servers and commands in the background: nothing outlives the run.
    pub async fn end_commands(&self) {
        self.servers.close().await;
        self.runner.end().await;
        if let Some(base) = &self.base {
            base.end().await;
        }
    }

    /// Returns the tree in which commands worked, where their ignored files are delivered: from here on none of them runs.
    pub async fn tree_of_commands(&self) -> Option<CommandTree> {
        if !self.runner.delivers_ignored() {
            return None;
        }
        self.end_commands().await;
        self.runner.take_tree().await
    }

    /// Returns the workspace's place in the repository.
    fn prefix(&self) -> &RelPath {
        static ROOT: std::sync::LazyLock<RelPath> = std::sync::LazyLock::new(RelPath::root);
        self.repository.as_ref().map_or(&ROOT, |repository| &repository.prefix)
    }

    fn report(&self, delivered: &Delivered, changes: &ChangeSet) -> ChangesReport {
        let (text, base64) = match String::from_utf8(delivered.patch.clone()) {
            Ok(text) => (Some(text), None),
            Err(error) => (None, Some(base64::engine::general_purpose::STANDARD.encode(error.as_bytes()))),
        };
        let mut files = delivered.files.clone();
        for file in &mut files {
            file.executes_later = crate::policy::later::executes_later(&file.path);
        }
        ChangesReport {
            mode: self.mode.name().into(),
            base: self.repository.as_ref().and_then(|repository| repository.head.clone()),
            files,
            patch: text,
            patch_base64: base64,
            patch_sha256: (!changes.is_empty()).then(|| patch::sha256(&delivered.patch)),
            patch_file: self.patch_file.as_ref().map(|path| path.display().to_string()),
            applied: delivered.applied,
            rolled_back: false,
            policy_changed: changes.iter().any(|(path, _)| is_policy(&patch::name_in_repository(self.prefix(), path))),
        }
    }
}

/// Tells whether a path (relative to the repository) is the policy, or a file next to it that it may extend.
fn is_policy(name: &[u8]) -> bool {
    name.strip_prefix(b".qwen/").is_some_and(|rest| rest.ends_with(b".yaml") || rest.ends_with(b".yml"))
}

/// Delivers what is staged, or returns why not.
///
/// `tree`: where commands worked, if their ignored files are delivered as well.
pub(super) fn deliver(
    setup: &Setup,
    stage: &Stage,
    emitter: &Emitter,
    answer: Answer,
    tree: Option<&CommandTree>,
) -> RunFinished {
    if answer.nothing_to_do {
        return nothing_to_do(answer.text);
    }
    let changes = stage.workspace.changes();
    let exit = match (answer.denials, setup.on_deny) {
        (0, _) | (_, OnDeny::Continue) => Exit::Ok,
        (_, OnDeny::Fail | OnDeny::Stop) => Exit::Denied,
    };
    let mut finished = RunFinished {
        exit,
        error: (exit == Exit::Denied).then(|| RunError {
            code: "denied".into(),
            message: format!("the policy denied {} call(s); the rest was done", answer.denials),
            hint: Some("see permission_denials; use --on-deny continue for exit code 0".into()),
            ..RunError::default()
        }),
        result: answer.text.clone(),
        changes_expected: setup.changes_expected,
        ..RunFinished::failed(exit, RunError::default())
    };
    answer.taken.complete(&mut finished);
    let if_no_changes = setup.git_wishes().and_then(|git| git.if_no_changes).unwrap_or_default();
    if changes.is_empty() && if_no_changes == IfNoChanges::Warn {
        emitter.emit(crate::event::Event::Warning { message: "the recipe requires changes; none were made".into() });
    }
    if changes.is_empty() && (setup.require_changes || if_no_changes == IfNoChanges::Fail) {
        finished.exit = Exit::NoChanges.or_worse(exit);
        finished.error = Some(RunError {
            code: "no_changes".into(),
            message: "--require-changes was given, and the model made no changes".into(),
            ..RunError::default()
        });
        return finished;
    }
    let how = match delivery(setup, stage, &answer.text) {
        Ok(how) => how,
        Err(failure) => return failed(finished, failure, false),
    };
    let judge = |path: &RelPath, change: &Change| judge_change(&setup.policy, &setup.facts(stage), path, change);
    let secret = |path: &RelPath, change: &Change| setup.secrets.added(path, change, setup.policy.refuses_secrets());
    let (max_files, max_bytes) = setup.policy.change_limits();
    let cap = |own: Option<u64>, policy: u64| {
        Some(usize::try_from(own.map_or(policy, |own| own.min(policy))).unwrap_or(usize::MAX))
    };
    let gate = Gate {
        judge: &judge,
        secret: &secret,
        made_by: &|path| stage.workspace.made_by(path),
        max_files: cap(setup.max_changed_files, max_files),
        max_patch_bytes: cap(setup.max_patch_bytes, max_bytes),
    };
    let facts = setup.facts(stage);
    let rules = ignored::Rules { policy: &setup.policy, facts: &facts };
    let outputs =
        match tree.filter(|_| !changes.is_empty()).map(|tree| ignored::outputs(tree, &changes, &rules)).transpose() {
            Ok(outputs) => outputs,
            Err(failure) => return failed(finished, failure, false),
        };
    let site = Site {
        outputs: outputs.as_ref().map(|(outputs, _)| outputs),
        root: stage.workspace.root(),
        repository: stage.repository.as_ref(),
        undo: setup.undo_folder.as_deref(),
        run_id: &setup.run_id,
        time: &setup.time,
    };
    match deliver::deliver(&changes, &how, &site, &gate) {
        Ok(delivered) => {
            let left = outputs.as_ref().and_then(|(_, left)| left.as_ref());
            for message in delivered.warnings.iter().chain(left) {
                emitter.emit(crate::event::Event::Warning { message: message.clone() });
            }
            // Secrets that passed the gate were there before, or the policy allows them.
            let shown = setup.secrets.shown_in(&String::from_utf8_lossy(&delivered.patch));
            if !shown.is_empty() {
                let message = format!("the patch contains {}; it is masked in logs only", shown.join(" and "));
                emitter.emit(crate::event::Event::Warning { message });
            }
            finished.branch = delivered.branch.clone();
            finished.commit = delivered.commit.clone();
            finished.changes = stage.report(&delivered, &changes);
            finished
        }
        Err(error) => {
            let rolled_back = error.rolled_back();
            failed(finished, from_delivery(&error), rolled_back)
        }
    }
}

fn failed(mut finished: RunFinished, failure: Failure, rolled_back: bool) -> RunFinished {
    finished.exit = failure.exit;
    finished.error = Some(*failure.error);
    finished.changes.rolled_back = rolled_back;
    finished
}

/// Converts a failed delivery to the ending of the run.
pub fn from_delivery(error: &DeliverError) -> Failure {
    Failure::new(error.exit(), error.to_string(), error.hint())
}

fn delivery(setup: &Setup, stage: &Stage, answer: &str) -> Result<Delivery, Failure> {
    let order = || {
        let (subject, body) = match (setup.message.as_deref(), setup.subject()?) {
            (None, Some(subject)) => {
                let body = match setup.git_wishes().and_then(|git| git.body) {
                    Some(Body::None) => String::new(),
                    Some(Body::Model | Body::Summary) | None => answer.trim().to_owned(),
                };
                (message_parts(Some(&subject), "").0, body)
            }
            (given, _) => message_parts(given, answer),
        };
        let assisted = format!("qwen-run:{}", setup.client.name);
        let recipe = setup.recipe.as_ref().map(|active| {
            let facts = active.recipe.facts();
            let version = facts.version.map(|version| format!("@{version}")).unwrap_or_default();
            format!("{}{version} sha256:{}", facts.name, facts.sha256)
        });
        let own = setup.trailers()?;
        let mut trailers = vec![("Assisted-by", assisted.as_str())];
        trailers.extend(recipe.as_deref().map(|recipe| ("Qwen-Recipe", recipe)));
        trailers.push(("Qwen-Run-Id", setup.run_id.as_str()));
        trailers.extend(own.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let message = deliver::message::message(&subject, &body, &trailers).map_err(|problem| {
            Failure::new(Exit::Input, format!("the commit's message: {problem}"), "give one with --message")
        })?;
        Ok::<Order, Failure>(Order { message, author: None, committer: None, sign: setup.sign })
    };
    Ok(match &stage.mode {
        Mode::DryRun => Delivery::DryRun,
        Mode::Apply => Delivery::Apply,
        Mode::Commit => Delivery::Commit(order()?),
        Mode::Branch(name) => Delivery::Branch { name: name.clone(), order: order()? },
    })
}

/// Splits `--message` into subject and body; without it the answer gives both.
fn message_parts(given: Option<&str>, answer: &str) -> (String, String) {
    let plain =
        |text: &str| -> String { text.chars().filter(|c| !c.is_control()).collect::<String>().trim().to_owned() };
    match given {
        Some(text) => {
            let (subject, body) = text.split_once('\n').unwrap_or((text, ""));
            (plain(subject), body.trim().to_owned())
        }
        None => {
            let first =
                answer.lines().map(plain).find(|line| !line.is_empty()).unwrap_or_else(|| "Change files".into());
            let first = first.trim_start_matches(['#', '*', ' ']).to_owned();
            let subject = if first.chars().count() <= deliver::message::SUBJECT {
                first
            } else {
                let cut: String = first.chars().take(deliver::message::SUBJECT - 1).collect();
                let end = cut.rfind(' ').unwrap_or(cut.len());
                format!("{}…", &cut[..end])
            };
            (subject, answer.trim().to_owned())
        }
    }
}

/// The ending of a run whose checks still fail.
pub fn verify_failed(failed: &Failed, attempt: u32, same: bool) -> Failure {
    let why = if same { "failed in the same way again" } else { "still fails" };
    Failure::new(
        Exit::Verify,
        match failed {
            Failed::Check(_) => format!("{} {why} after attempt {attempt}", failed.name()),
            Failed::Guards(violations) => {
                let first = violations.first().map(|violation| violation.message.as_str()).unwrap_or_default();
                format!("{} {why} after attempt {attempt}: {first}", failed.name())
            }
        },
        "see verify in the result for the checks; nothing was delivered, and the result has the patch unless it was \
         discarded",
    )
}

/// The ending of a run for which there was nothing to do.
pub fn nothing_to_do(text: String) -> RunFinished {
    RunFinished {
        error: None,
        result: text,
        changes_expected: true,
        ..RunFinished::failed(Exit::Ok, RunError::default())
    }
}

/// The ending of a run that a signal stopped.
pub fn interrupted(exit: Exit) -> RunFinished {
    let signal = super::signals::name().unwrap_or("a signal");
    RunFinished::failed(
        exit,
        RunError {
            code: "interrupted".into(),
            message: format!("interrupted by {signal}; the tree is unchanged"),
            retryable: true,
            ..RunError::default()
        },
    )
}

/// Returns the git facts for decisions; the history is searched when the first decision needs it.
pub fn git_facts(repository: &Repository) -> GitFacts {
    let found = repository.clone();
    let find = move || history::files(&found, Instant::now() + HISTORY_TIME);
    GitFacts { drivers: drivers(repository), history: History::new(repository.prefix.clone(), find) }
}

/// Returns the facts for decisions.
pub fn facts(
    stage_workspace: &Arc<Workspace>,
    setup_home: String,
    outputs: PathBuf,
    included: Vec<PathBuf>,
    git: GitFacts,
) -> Facts {
    Facts {
        root: stage_workspace.root().to_path_buf(),
        included,
        outputs: Some(outputs),
        home: setup_home,
        tree: Arc::clone(stage_workspace) as Arc<dyn crate::path::Tree>,
        git,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_from_the_flag_or_from_the_answer() {
        assert_eq!(message_parts(Some("fix: x\n\nwhy"), "a"), ("fix: x".into(), "why".into()));
        assert_eq!(message_parts(None, "# Done it\nmore").0, "Done it");
        let long = message_parts(None, &"word ".repeat(40)).0;
        assert!(long.chars().count() <= deliver::message::SUBJECT && long.ends_with('…'));
        assert_eq!(message_parts(None, "").0, "Change files");
    }
}
