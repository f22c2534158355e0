//! Defines why a job of the GitHub Action does nothing.

use std::borrow::Cow;

use crate::base::CliError;
use crate::exit::Exit;
use crate::git::repository::RepositoryError;
use crate::github::GitHubError;
use crate::workspace::WorkspaceError;

/// Why a job cannot begin.
#[derive(Debug, thiserror::Error)]
pub(in crate::commands) enum CiError {
    /// An input is not what it should be.
    #[error("{0}")]
    Input(String),
    /// Two inputs exclude each other.
    #[error("both recipe and prompt are given")]
    TwoTasks,
    /// There is nothing to do.
    #[error("neither recipe nor prompt is given")]
    NoTask,
    /// A prompt has no parameters.
    #[error("params are given without a recipe")]
    ParamsAlone,
    /// Recipe and commands exclude each other.
    #[error("commands are given together with recipe or prompt")]
    CommandsAndTask,
    /// A command is what follows the mention.
    #[error("commands are given without mention")]
    CommandsWithoutMention,
    /// The comment asks for nothing.
    #[error("the comment says nothing after `{0}`")]
    EmptyCommand(String),
    /// The checkout is another commit.
    #[error("the checkout is {found}, and the pull request's last commit is {head}")]
    OtherCheckout { found: String, head: String },
    /// Strangers' files are not changed.
    #[error("the run was not started: the pull request comes from a fork, and the recipe changes files")]
    ForeignHead,
    /// A job has no standard input.
    #[error("a parameter is to come from standard input, and a job has none")]
    StandardInput,
    /// The delivery does not exist.
    #[error("the input changes is `{0}`")]
    Changes(String),
    /// An input has another name now.
    #[error("the input {0} is given")]
    Renamed(&'static str, &'static str),
    /// The inputs make another command.
    #[error("the inputs do not make a run")]
    NotARun,
    /// The inputs make no run.
    #[error("{message}")]
    Flags { message: String, hint: String },
    /// Nobody says who started it.
    #[error("GITHUB_EVENT_NAME is not set, so it is unknown who started this run")]
    NoEvent,
    /// Nothing is checked out.
    #[error("the working directory {0}")]
    Directory(WorkspaceError),
    /// The repository cannot be used.
    #[error("the repository cannot be read: {0}")]
    Repository(RepositoryError),
    /// Whoever started it may not.
    #[error("the run was not started: {0}")]
    Refused(String),
    /// The pull request of a comment cannot be read.
    #[error("pull request {0} cannot be read: {1}")]
    Pull(u64, String),
    /// The result cannot be written or read.
    #[error("{path}: {cause}")]
    Result { path: String, cause: String },
    /// A file of the runner's cannot be written.
    #[error("{what} {path}: {cause}")]
    Append { what: String, path: String, cause: std::io::Error },
    /// No directory for results.
    #[error("cannot make a directory for results in {path}: {cause}")]
    Results { path: String, cause: std::io::Error },
    /// The system gives no random numbers.
    #[error("random numbers are unavailable")]
    NoRandom,
}

impl CliError for CiError {
    fn exit(&self) -> Exit {
        match self {
            CiError::Input(_)
            | CiError::Renamed(..)
            | CiError::TwoTasks
            | CiError::NoTask
            | CiError::ParamsAlone
            | CiError::CommandsAndTask
            | CiError::CommandsWithoutMention
            | CiError::StandardInput
            | CiError::Changes(_)
            | CiError::NotARun
            | CiError::Flags { .. }
            | CiError::NoEvent
            | CiError::Directory(_) => Exit::Usage,
            CiError::EmptyCommand(_) => Exit::Input,
            CiError::Repository(_) | CiError::OtherCheckout { .. } => Exit::Conflict,
            CiError::Refused(_) | CiError::ForeignHead => Exit::Denied,
            CiError::Pull(..) => Exit::Unavailable,
            CiError::Result { .. } | CiError::Append { .. } | CiError::Results { .. } | CiError::NoRandom => {
                Exit::Failed
            }
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(match self {
            CiError::Input(_) => "`qwen help action` lists the inputs",
            CiError::Renamed(_, new) => return Some(Cow::Owned(format!("give {new} instead"))),
            CiError::TwoTasks | CiError::NoTask => "give one of the two inputs",
            CiError::ParamsAlone => "a prompt has no parameters",
            CiError::CommandsAndTask => "commands chooses the recipe: leave out the other input",
            CiError::CommandsWithoutMention => "give mention, for example /qwen",
            CiError::EmptyCommand(_) => "write a new comment that says what to do",
            CiError::OtherCheckout { .. } => {
                "give actions/checkout `ref: refs/pull/${{ github.event.issue.number || \
                 github.event.pull_request.number }}/head`; if there is a newer commit, write the comment again"
            }
            CiError::ForeignHead => "use a recipe that only answers, or push the branch to this repository first",
            CiError::StandardInput => "give key=value",
            CiError::Changes(_) => "give dry-run, apply or commit; a push is for a second job (job: deliver)",
            CiError::NotARun => "give recipe or prompt",
            CiError::Flags { hint, .. } => hint,
            CiError::NoEvent => "use it in a job of GitHub Actions; elsewhere use `qwen run`",
            CiError::Directory(_) => "check out first",
            CiError::Repository(_) => "check out with actions/checkout",
            CiError::Refused(_) => "somebody with write access can start it; allow-actors lists others by name",
            CiError::Pull(..) => "give the job `pull-requests: read`, or run it again",
            CiError::Result { .. } => "make the temporary directory writable",
            CiError::Append { .. } => "the runner makes this file",
            CiError::Results { .. } => "make RUNNER_TEMP writable",
            CiError::NoRandom => return None,
        }))
    }

    fn code(&self) -> &'static str {
        if matches!(self, CiError::Refused(_) | CiError::ForeignHead) { "refused_trigger" } else { self.exit().name() }
    }
}

/// Why the policy that an input names cannot be used.
#[derive(Debug, thiserror::Error)]
pub(in crate::commands) enum TrustedPolicyError {
    /// It is outside.
    #[error("the policy {0} is not a path inside the repository")]
    Outside(String),
    /// No commit is trusted.
    #[error("the policy {named} cannot be read: no commit is trusted here: {why}")]
    NoCommit { named: String, why: String },
    /// It cannot be read.
    #[error("the policy {named}: {cause}")]
    Unreadable { named: String, cause: crate::git::trusted::TrustedError },
    /// The commit has no such file.
    #[error("the policy {named} is not in the trusted commit ({why})")]
    Missing { named: String, why: String },
}

impl CliError for TrustedPolicyError {
    fn exit(&self) -> Exit {
        Exit::Config
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(match self {
            TrustedPolicyError::Outside(_) => "give a path relative to the repository's top directory, or builtin:NAME",
            TrustedPolicyError::NoCommit { .. } => "name a commit with trusted-ref, or a builtin policy",
            TrustedPolicyError::Unreadable { .. } => "put a regular file there, in the trusted commit",
            TrustedPolicyError::Missing { .. } => "commit it there first, or name another one",
        }))
    }
}

/// Why a proposal is not delivered.
#[derive(Debug, thiserror::Error)]
pub(in crate::commands) enum ProposalError {
    /// The digest is not given.
    #[error("proposal-sha256 is not given, so the proposal is unknown")]
    NoDigest,
    /// The digest is another text.
    #[error("proposal-sha256 is not a SHA-256")]
    NotADigest,
    /// The input is missing.
    #[error("proposal-dir is not given")]
    NoDirectory,
    /// The directory cannot be read.
    #[error("{path}: {cause}")]
    Directory { path: String, cause: std::io::Error },
    /// The directory has a file that no proposal has.
    #[error("{path} holds `{name}`, which does not belong to the proposal")]
    OneMore { path: String, name: String },
    /// A file cannot be read.
    #[error("{path}: {cause}")]
    Artefact { path: String, cause: String },
    /// The proposal is another one.
    #[error("the digest of proposal.json is not the given one")]
    OtherDigest,
    /// The patch is another one.
    #[error("the digest of change.patch is not the one that proposal.json names")]
    OtherPatch,
    /// The proposal is something else.
    #[error("proposal.json is not a proposal: {0}")]
    Json(serde_json::Error),
    /// The proposal is about something else.
    #[error("the proposal is for another {0} than this job")]
    Other(&'static str),
    /// A field has something that the first job never writes there.
    #[error("proposal.json: `{0}` is not {1}")]
    Field(&'static str, &'static str),
    /// The recipe is another one.
    #[error("the recipe `{0}` of the trusted commit is not the one that ran")]
    OtherRecipe(String),
    /// There is no repository.
    #[error("not in a git repository")]
    NoRepository,
    /// No directory for what is temporary.
    #[error("cannot make a temporary directory: {0}")]
    Temporary(std::io::Error),
    /// Origin cannot be used.
    #[error("cannot read origin: {0}")]
    Origin(String),
    /// It is empty.
    #[error("the proposal changes nothing")]
    Empty,
    /// There is no commit.
    #[error("the commit was not made")]
    NoCommit,
    /// The result names no base.
    #[error("the result does not name a base commit")]
    NoBase,
    /// The branch of the pull request is somewhere else.
    #[error("push-to is head, and the branch of the pull request is in another repository")]
    ForeignHead,
    /// There is no pull request.
    #[error("push-to is head, and the event is not about a pull request")]
    NoHead,
    /// The policy does not grant it.
    #[error("push-to is head, and the policy {0} does not grant `push_head`")]
    HeadNotGranted(String),
    /// The run failed.
    #[error("the run that proposed it ended with {0} and delivers no change")]
    Failed(u8),
    /// The commit has no proper message.
    #[error("the commit's message: {0}")]
    Message(String),
}

impl CliError for ProposalError {
    fn exit(&self) -> Exit {
        match self {
            ProposalError::NoDirectory | ProposalError::NoHead => Exit::Usage,
            ProposalError::ForeignHead | ProposalError::HeadNotGranted(_) => Exit::Denied,
            ProposalError::NoDigest
            | ProposalError::NotADigest
            | ProposalError::Directory { .. }
            | ProposalError::OneMore { .. }
            | ProposalError::Artefact { .. }
            | ProposalError::OtherDigest
            | ProposalError::OtherPatch
            | ProposalError::Json(_)
            | ProposalError::Other(_)
            | ProposalError::Field(..)
            | ProposalError::OtherRecipe(_)
            | ProposalError::NoRepository
            | ProposalError::Temporary(_)
            | ProposalError::Origin(_)
            | ProposalError::Empty
            | ProposalError::NoCommit
            | ProposalError::NoBase
            | ProposalError::Failed(_)
            | ProposalError::Message(_) => Exit::Conflict,
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(match self {
            ProposalError::NoDigest => "pass the output proposal-sha256 of the earlier job to this job",
            ProposalError::NotADigest => "pass the output proposal-sha256 unchanged",
            ProposalError::NoDirectory => "name the directory that the artefact was downloaded to",
            ProposalError::Directory { .. } => "download the artefact of the earlier job to it",
            ProposalError::OneMore { .. } => "upload the output proposal-dir, and nothing else",
            ProposalError::Artefact { .. } => "download the artefact again",
            ProposalError::OtherDigest | ProposalError::OtherPatch => {
                "the artefact changed after the first job: run that job again, and find out who changed the artefact"
            }
            ProposalError::Json(_) => "use the same version of the action in both jobs",
            ProposalError::Other(_) | ProposalError::Field(..) => {
                "use the artefact of this workflow run, and the same version of the action in both jobs"
            }
            ProposalError::OtherRecipe(_) => {
                "give both jobs the same inputs recipe and trusted-ref; if the branch moved meanwhile, run both again"
            }
            ProposalError::NoRepository | ProposalError::Origin(_) => "check out with actions/checkout",
            ProposalError::Temporary(_) => "set TMPDIR to a writable one",
            ProposalError::Empty => "run this job only if the output `changed` is true",
            ProposalError::NoCommit => "run again",
            ProposalError::NoBase => "run the first job in a clone with commits",
            ProposalError::ForeignHead | ProposalError::NoHead => {
                "leave out push-to: the change gets a branch of its own"
            }
            ProposalError::HeadNotGranted(_) => "add `push_head` to the list `github.allow` of the policy",
            ProposalError::Failed(_) => "look at the first job; a change that failed its checks is not delivered",
            ProposalError::Message(_) => "correct git.subject of the recipe",
        }))
    }
}

/// Why a step of the delivery failed.
#[derive(Debug, thiserror::Error)]
pub(in crate::commands) enum StepError {
    /// The token may not.
    #[error("{step}: {error}{done}")]
    Permission { step: &'static str, permission: &'static str, error: GitHubError, done: String },
    /// It may work later.
    #[error("{step}: {error}{done}")]
    Later { step: &'static str, error: GitHubError, done: String },
    /// GitHub refuses.
    #[error("{step}: {error}{done}")]
    Refused { step: &'static str, error: GitHubError, done: String },
}

impl StepError {
    /// Says why a step failed. `done` names the steps before it.
    pub(in crate::commands) fn new(
        step: &'static str,
        permission: &'static str,
        done: String,
        error: GitHubError,
    ) -> StepError {
        match () {
            () if error.lacks_permission() => StepError::Permission { step, permission, error, done },
            () if error.may_pass() => StepError::Later { step, error, done },
            () => StepError::Refused { step, error, done },
        }
    }
}

impl CliError for StepError {
    fn exit(&self) -> Exit {
        match self {
            StepError::Permission { .. } => Exit::Auth,
            StepError::Later { .. } => Exit::Unavailable,
            StepError::Refused { .. } => Exit::Failed,
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            StepError::Permission { permission, .. } => Cow::Owned(format!("give the job `{permission}`")),
            StepError::Later { .. } => Cow::Borrowed("run the job again: it does the rest, and nothing twice"),
            StepError::Refused { .. } => Cow::Borrowed("correct what GitHub names, then run the job again"),
        })
    }
}
