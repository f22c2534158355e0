//! Defines why a job of the GitHub Action does nothing.

use std::borrow::Cow;

use crate::base::CliError;
use crate::exit::Exit;
use crate::git::repository::RepositoryError;
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
    /// A job has no standard input.
    #[error("a parameter is to come from standard input, and a job has none")]
    StandardInput,
    /// The delivery does not exist.
    #[error("the input changes is `{0}`")]
    Changes(String),
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
            | CiError::TwoTasks
            | CiError::NoTask
            | CiError::ParamsAlone
            | CiError::StandardInput
            | CiError::Changes(_)
            | CiError::NotARun
            | CiError::Flags { .. }
            | CiError::NoEvent
            | CiError::Directory(_) => Exit::Usage,
            CiError::Repository(_) => Exit::Conflict,
            CiError::Refused(_) => Exit::Denied,
            CiError::Result { .. } | CiError::Append { .. } | CiError::Results { .. } | CiError::NoRandom => {
                Exit::Failed
            }
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(match self {
            CiError::Input(_) => "`qwen help action` lists the inputs",
            CiError::TwoTasks | CiError::NoTask => "give one of the two inputs",
            CiError::ParamsAlone => "a prompt has no parameters",
            CiError::StandardInput => "give key=value",
            CiError::Changes(_) => "give dry-run, apply or commit; a push is for a second job (job: apply)",
            CiError::NotARun => "give recipe or prompt",
            CiError::Flags { hint, .. } => hint,
            CiError::NoEvent => "use it in a job of GitHub Actions; elsewhere use `qwen run`",
            CiError::Directory(_) => "check out first",
            CiError::Repository(_) => "check out with actions/checkout",
            CiError::Refused(_) => "somebody with write access can start it; allow-actors lists others by name",
            CiError::Result { .. } => "make the temporary directory writable",
            CiError::Append { .. } => "the runner makes this file",
            CiError::Results { .. } => "make RUNNER_TEMP writable",
            CiError::NoRandom => return None,
        }))
    }

    fn code(&self) -> &'static str {
        if matches!(self, CiError::Refused(_)) { "refused_trigger" } else { self.exit().name() }
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

/// Why a proposal is not pushed.
#[derive(Debug, thiserror::Error)]
pub(in crate::commands) enum ProposalError {
    /// The digest is not given.
    #[error("patch-sha256 is not given, so the proposed patch is unknown")]
    NoDigest,
    /// The digest is another text.
    #[error("patch-sha256 is not a SHA-256")]
    NotADigest,
    /// There is no repository.
    #[error("not in a git repository")]
    NoRepository,
    /// No space for what is temporary.
    #[error("cannot make a temporary directory: {0}")]
    Space(std::io::Error),
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
    /// The input is missing.
    #[error("directory is not given")]
    NoDirectory,
    /// The directory cannot be read.
    #[error("{path}: {cause}")]
    Directory { path: String, cause: std::io::Error },
    /// The directory is not an artefact of ours.
    #[error("{path} holds {count} patches, and must hold one")]
    Patches { path: String, count: usize },
    /// The patch is another one.
    #[error("the digest of the patch is not the given one")]
    OtherDigest,
    /// The result is something else.
    #[error("result.json is not a result: {0}")]
    Result(serde_json::Error),
    /// The result names no base.
    #[error("the result does not name a base commit")]
    NoBase,
    /// The run failed.
    #[error("the run that proposed it ended with {0} and delivers nothing")]
    Failed(u8),
    /// A file cannot be read.
    #[error("{path}: {cause}")]
    Artefact { path: String, cause: String },
    /// The commit has no proper message.
    #[error("the commit's message: {0}")]
    Message(String),
}

impl CliError for ProposalError {
    fn exit(&self) -> Exit {
        match self {
            ProposalError::NoDigest
            | ProposalError::NotADigest
            | ProposalError::NoRepository
            | ProposalError::Space(_)
            | ProposalError::Temporary(_)
            | ProposalError::Origin(_)
            | ProposalError::Empty
            | ProposalError::NoCommit
            | ProposalError::Directory { .. }
            | ProposalError::Patches { .. }
            | ProposalError::OtherDigest
            | ProposalError::Result(_)
            | ProposalError::NoBase
            | ProposalError::Failed(_)
            | ProposalError::Artefact { .. }
            | ProposalError::Message(_) => Exit::Conflict,
            ProposalError::NoDirectory => Exit::Usage,
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(match self {
            ProposalError::NoDigest => "pass the output patch-sha256 of the earlier job to this job",
            ProposalError::NotADigest => "pass the output patch-sha256 unchanged",
            ProposalError::NoRepository | ProposalError::Origin(_) => "check out with actions/checkout",
            ProposalError::Space(_) => "free some space",
            ProposalError::Temporary(_) => "set TMPDIR to a writable one",
            ProposalError::Empty => "run this job only if the output `changed` is true",
            ProposalError::NoCommit => "run again",
            ProposalError::NoDirectory => "name the directory that the artefact was downloaded to",
            ProposalError::Directory { .. } => "download the artefact of the earlier job to it",
            ProposalError::Patches { .. } => "upload the outputs patch-file and result-file, and nothing else",
            ProposalError::OtherDigest => {
                "the artefact changed after the first job: run that job again, and find out who changed the artefact"
            }
            ProposalError::Result(_) => "upload the output result-file",
            ProposalError::NoBase => "run the first job in a clone with commits",
            ProposalError::Failed(_) => "look at the first job; a change that failed its checks is not delivered",
            ProposalError::Artefact { .. } => "download the artefact again",
            ProposalError::Message(_) => "correct git.subject of the recipe",
        }))
    }
}
