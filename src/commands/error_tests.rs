use super::batch_directory::error::{BatchError, DeliverBatchError, MergeError, ReportError as BatchReportError};
use super::ci::error::{CiError, ProposalError, StepError, TrustedPolicyError};
use super::error::*;
use super::hook::error::HookError;
use crate::base::error::samples::{io, listed, text};
use crate::deliver::message::MessageError;
use crate::emit::MaterialError;
use crate::exit::Exit;
use crate::git::repository::RepositoryError;
use crate::git::trusted::TrustedError;
use crate::github::GitHubError;
use crate::workspace::WorkspaceError;

fn json() -> serde_json::Error {
    serde_json::from_str::<bool>("x").unwrap_err()
}

#[test]
fn commands_fail_with_these_words() {
    let (path, none, hint) = (|| text("p"), None, Some(text("do this")));
    insta::assert_snapshot!(
        "commands",
        listed(&[
            &CommandError::Input { path: path(), cause: io() },
            &CommandError::Manual { path: path(), cause: io() },
            &CommandError::Temporary(io()),
            &CommandError::Isolation(io()),
            &CommandError::Arguments(json()),
            &CommandError::NotObject,
            &CommandError::MessageAlone,
            &CommandError::Message(MessageError::Subject),
            &ReportError::Material { path: path(), cause: MaterialError::OtherPage },
            &ReportError::Material { path: path(), cause: MaterialError::TwoRuns(text("1"), text("2")) },
            &ReportError::Other(path()),
            &ReportError::Unwritten { path: path(), cause: io() },
            &ReportError::Prompt(text("what changed")),
            &CheckError::NotRevision(text("-x")),
            &CheckError::Commits(text("why")),
            &CheckError::Denied { reason: text("why"), hint: none.clone() },
            &CheckError::NoProgram(io()),
            &CallError::Parameters(text("why")),
            &CallError::Denied { reason: text("why"), hint: none.clone() },
            &CallError::Denied { reason: text("why"), hint },
            &CallError::Failed(text("why")),
            &UndoError::Records { path: path(), cause: io() },
            &UndoError::NoRecord { run: none.clone(), root: text("/w") },
            &UndoError::NoRecord { run: Some(text("1")), root: text("/w") },
            &UndoError::Interrupted(io()),
            &UndoError::Earlier { hint: text("copy the files back") },
            &RulesError::Builtin(text("x")),
            &RulesError::Calls(path()),
            &RulesError::OneCall,
            &RulesError::State { path: path(), cause: io() },
            &RulesError::NotApproved(io()),
            &RulesError::NotEvents(path()),
            &RulesError::Event { path: path(), line: 2, cause: json() },
            &RulesError::NoCalls(path()),
            &RecipesError::Wrong { errors: 1, recipes: 2 },
            &RecipesError::New { path: path(), cause: io() },
            &RecipesError::Words { name: text("c"), problem: text("why"), help: none },
            &McpError::Flags(text("why")),
            &McpError::NoHome,
            &McpError::Unreadable { path: path(), cause: io() },
            &McpError::Unwritable { path: path(), cause: io() },
        ])
    );
}

#[test]
fn hooks_fail_with_these_words() {
    insta::assert_snapshot!(
        "hooks",
        listed(&[
            &HookError::Skipped(text("why")),
            &HookError::Flags(text("why")),
            &HookError::Run { exit: Exit::Verify, message: text("why"), hint: text("do this") },
            &HookError::Git(text("why")),
            &HookError::NoProgram(io()),
            &HookError::Unwritable { path: text("p"), cause: io() },
            &HookError::NoRepository,
            &HookError::LinkOut(text("p")),
            &HookError::Outside { value: text("/hooks"), hint: text("do this") },
            &HookError::Managed { path: text("p"), who: "a hook already exists", hint: text("do this") },
            &HookError::Message { path: text("p"), problem: text("why") },
            &HookError::StandardInput(io()),
        ])
    );
}

#[test]
fn jobs_fail_with_these_words() {
    let (path, named) = (|| text("p"), || text("policy.yaml"));
    let step = |status, message: &str| {
        let error = GitHubError::Refused { what: text("the review"), status, message: text(message) };
        StepError::new("review", "pull-requests: write", text("; done before: branch"), error)
    };
    insta::assert_snapshot!(
        "jobs",
        listed(&[
            &CiError::Input(text("why")),
            &CiError::TwoTasks,
            &CiError::NoTask,
            &CiError::ParamsAlone,
            &CiError::StandardInput,
            &CiError::Renamed("patch-sha256", "proposal-sha256"),
            &CiError::Changes(text("push")),
            &CiError::NotARun,
            &CiError::Flags { message: text("why"), hint: text("do this") },
            &CiError::NoEvent,
            &CiError::Directory(WorkspaceError::NotFound("/w".into())),
            &CiError::Repository(RepositoryError::Io { path: "/w".into(), cause: io() }),
            &CiError::Refused(text("why")),
            &CiError::Pull(12, text("why")),
            &CiError::Result { path: path(), cause: text("why") },
            &CiError::Append { what: text("GITHUB_OUTPUT"), path: path(), cause: io() },
            &CiError::Results { path: path(), cause: io() },
            &CiError::NoRandom,
            &TrustedPolicyError::Outside(named()),
            &TrustedPolicyError::NoCommit { named: named(), why: text("why") },
            &TrustedPolicyError::Unreadable { named: named(), cause: TrustedError::Missing { revision: text("main") } },
            &TrustedPolicyError::Missing { named: named(), why: text("why") },
            &ProposalError::NoDigest,
            &ProposalError::NotADigest,
            &ProposalError::NoRepository,
            &ProposalError::Temporary(io()),
            &ProposalError::Origin(text("why")),
            &ProposalError::Empty,
            &ProposalError::NoCommit,
            &ProposalError::NoDirectory,
            &ProposalError::Directory { path: path(), cause: io() },
            &ProposalError::OneMore { path: path(), name: text("x.patch") },
            &ProposalError::OtherDigest,
            &ProposalError::OtherPatch,
            &ProposalError::Json(json()),
            &ProposalError::Other("repository"),
            &ProposalError::OtherRecipe(text("fix-lint")),
            &ProposalError::NoBase,
            &ProposalError::Failed(64),
            &ProposalError::Artefact { path: path(), cause: text("why") },
            &ProposalError::Message(text("why")),
            &step(403, "Resource not accessible by integration"),
            &step(502, "Bad Gateway"),
            &step(410, "Issues are disabled"),
        ])
    );
}

#[test]
fn the_directory_of_a_batch_is_refused_with_these_words() {
    let (path, other) = (|| text("p"), || text("q"));
    insta::assert_snapshot!(
        "batch",
        listed(&[
            &BatchError::Unreadable { path: path(), cause: io() },
            &BatchError::NoBatch { directory: path() },
            &BatchError::NoDirectory,
            &BatchError::Invalid { path: path(), cause: text("why") },
            &BatchError::Version { path: path(), version: 2 },
            &BatchError::Differ { what: "lists of items", first: path(), other: other() },
            &BatchError::Twice { shard: text("1/2"), first: path(), other: other() },
            &BatchError::Patch { path: path(), key: text("k") },
            &BatchError::Whole { first: path(), other: other() },
            &MergeError::Incomplete { shards: vec![text("2/3")], keys: vec![text("k")], count: 3 },
            &MergeError::Incomplete { shards: Vec::new(), keys: vec![text("k")], count: 1 },
            &MergeError::Unwritten { path: path(), cause: io() },
            &MergeError::NoOutputs,
            &BatchReportError::Unwritten { path: path(), cause: io() },
            &DeliverBatchError::MessageAlone,
            &DeliverBatchError::Shards,
            &DeliverBatchError::Unknown(text("k")),
            &DeliverBatchError::NotWell { number: 2, keys: vec![text("k")] },
            &DeliverBatchError::OtherDigest(path()),
            &DeliverBatchError::Changed(path()),
            &DeliverBatchError::Message(MessageError::Subject),
            &DeliverBatchError::Check(text("make")),
            &DeliverBatchError::NoRepository,
            &DeliverBatchError::Branch { name: text("n"), key: text("k") },
            &DeliverBatchError::OneBranch { name: text("n"), first: text("k"), other: text("l") },
        ])
    );
}
