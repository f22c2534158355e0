//! Defines why the directory of a batch cannot be used.

use std::borrow::Cow;
use std::io;
use std::path::Path;

use crate::base::CliError;
use crate::deliver::message::MessageError;
use crate::emit::words::count;
use crate::exit::Exit;

/// Why the directory of a batch cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BatchError {
    /// A file or directory cannot be read.
    #[error("{path}: {cause}")]
    Unreadable { path: String, cause: io::Error },
    /// There is no batch.
    #[error("{directory} is not the directory of a batch: it has neither batch.json nor shards")]
    NoBatch { directory: String },
    /// No directory was named.
    #[error("no directory of a batch is named")]
    NoDirectory,
    /// A file does not hold what it should.
    #[error("{path}: {cause}")]
    Invalid { path: String, cause: String },
    /// Another version has written it.
    #[error("{path}: version {version} of the format is not known here")]
    Version { path: String, version: u32 },
    /// Two directories are not of one batch.
    #[error("{first} and {other} are not of one batch: they have different {what}")]
    Differ { what: &'static str, first: String, other: String },
    /// One shard is there twice.
    #[error("shard {shard} is there twice: {first} and {other}")]
    Twice { shard: String, first: String, other: String },
    /// A patch is missing or another one.
    #[error("{path} is not the patch that `{key}` ended with")]
    Patch { path: String, key: String },
    /// Two directories hold all items.
    #[error("{first} and {other} are no shards: each holds the whole list")]
    Whole { first: String, other: String },
}

impl BatchError {
    /// Returns what makes an error of a directory's input or output.
    pub(super) fn of(directory: &Path) -> impl Fn(io::Error) -> BatchError + Clone + use<> {
        let path = directory.display().to_string();
        move |cause| BatchError::Unreadable { path: path.clone(), cause }
    }
}

impl CliError for BatchError {
    fn exit(&self) -> Exit {
        match self {
            BatchError::Unreadable { .. }
            | BatchError::NoBatch { .. }
            | BatchError::NoDirectory
            | BatchError::Invalid { .. }
            | BatchError::Version { .. }
            | BatchError::Differ { .. }
            | BatchError::Twice { .. }
            | BatchError::Patch { .. }
            | BatchError::Whole { .. } => Exit::Input,
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(match self {
            BatchError::Unreadable { .. } | BatchError::NoBatch { .. } | BatchError::NoDirectory => {
                "name the directory that `qwen batch --out DIR` wrote"
            }
            BatchError::Invalid { .. } => "the file is damaged, or `qwen batch` did not write it",
            BatchError::Version { .. } => "use the version of qwen that wrote it",
            BatchError::Patch { .. } => "copy the directory again, or run the item again with --rerun KEY",
            BatchError::Differ { .. } => "run every shard with the same command and the same list",
            BatchError::Twice { .. } | BatchError::Whole { .. } => "name each shard once",
        }))
    }
}

/// Why shards are not merged.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MergeError {
    /// Something is missing.
    #[error("the batch is not complete: {}", incomplete(shards, keys, *count))]
    Incomplete { shards: Vec<String>, keys: Vec<String>, count: u64 },
    /// The directory cannot be made.
    #[error("{path}: {cause}")]
    Unwritten { path: String, cause: io::Error },
    /// There is no file for outputs.
    #[error("--github: GITHUB_OUTPUT is not set")]
    NoOutputs,
}

/// Names what is missing: shards, and the first keys.
fn incomplete(shards: &[String], keys: &[String], count: u64) -> String {
    let shards = (!shards.is_empty()).then(|| format!("shards missing: {}", shards.join(", ")));
    let named = keys.join(", ");
    let more = count.saturating_sub(keys.len() as u64);
    let keys = match (count, more) {
        (0, _) => None,
        (_, 0) => Some(format!("not done: {named}")),
        _ => Some(format!("not done: {named} and {more} more")),
    };
    shards.into_iter().chain(keys).collect::<Vec<_>>().join("; ")
}

impl CliError for MergeError {
    fn exit(&self) -> Exit {
        match self {
            MergeError::Incomplete { .. } => Exit::Input,
            MergeError::Unwritten { .. } => Exit::Conflict,
            MergeError::NoOutputs => Exit::Usage,
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(match self {
            MergeError::Incomplete { .. } => "run what is missing, or merge what is done with --partial",
            MergeError::Unwritten { .. } => "name a directory that does not exist yet with --out",
            MergeError::NoOutputs => "leave --github out where no GitHub job runs",
        }))
    }
}

/// Why a report of a batch is not there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReportError {
    /// It cannot be written.
    #[error("cannot write {path}: {cause}")]
    Unwritten { path: String, cause: io::Error },
}

impl CliError for ReportError {
    fn exit(&self) -> Exit {
        match self {
            ReportError::Unwritten { .. } => Exit::Conflict,
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        match self {
            ReportError::Unwritten { .. } => Some("name a file in a directory that exists and can be written".into()),
        }
    }
}

/// Why the changes of a batch are not delivered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DeliverBatchError {
    /// `--message` has no commit.
    #[error("--message without --commit or --branch")]
    MessageAlone,
    /// The directory holds shards.
    #[error("the directory holds shards of a batch, which are delivered together")]
    Shards,
    /// `--only` names nothing.
    #[error("--only: the list has no item `{0}`")]
    Unknown(String),
    /// Some items did not end well.
    #[error("{} failed or not done: {}{}", count(*number, "item"), keys.join(", "), if *number > keys.len() as u64 { " …" } else { "" })]
    NotWell { number: u64, keys: Vec<String> },
    /// The result is not the one that is meant.
    #[error("{0} does not have the digest that --sha256 names")]
    OtherDigest(String),
    /// Something else than the result has changed.
    #[error(
        "{0} is not as its summary.json says: batch.json, items.jsonl or journal.jsonl was changed afterwards, or an older version wrote it"
    )]
    Changed(String),
    /// The message is wrong.
    #[error("the commit's message: {0}")]
    Message(#[from] MessageError),
    /// A command fails.
    #[error("`{0}` fails on the combined change")]
    Check(String),
    /// There is nothing to make branches in.
    #[error("--branch-each: the workspace is not in a git repository")]
    NoRepository,
    /// A branch cannot have the name.
    #[error("--branch-each: `{name}`, for the item `{key}`, is not a valid branch name")]
    Branch { name: String, key: String },
    /// Nothing says which branch is pushed.
    #[error("--push: nothing says which branch")]
    PushWhat,
    /// Anybody could have written the directory.
    #[error("--push without --sha256")]
    NoDigest,
    /// Nobody would be allowed.
    #[error("--pull-request needs a token")]
    NoToken,
    /// The token is none.
    #[error("the token: {0}")]
    Token(String),
    /// The policy does not let it be cloned.
    #[error("the policy does not let the repository {0} be cloned")]
    NotAllowed(String),
    /// The pull request has nothing to be for.
    #[error("the repository has no branch that the pull request could be for")]
    NoBase,
    /// There is no server.
    #[error("the repository has no server that could be asked")]
    NoOrigin,
    /// The address is refused.
    #[error("{0}")]
    Address(String),
    /// There is no room.
    #[error("cannot make a temporary directory: {0}")]
    Temporary(io::Error),
    /// GitHub refuses, or is not there.
    #[error("{message}")]
    GitHub { message: String, later: bool },
    /// The items are repositories.
    #[error("the items are repositories, which have their changes each")]
    Repositories,
    /// Two items would have one branch.
    #[error("--branch-each: `{name}` is the branch of both `{first}` and `{other}`")]
    OneBranch { name: String, first: String, other: String },
}

impl CliError for DeliverBatchError {
    fn exit(&self) -> Exit {
        match self {
            DeliverBatchError::MessageAlone | DeliverBatchError::PushWhat => Exit::Usage,
            DeliverBatchError::NoToken => Exit::Auth,
            DeliverBatchError::Token(_) => Exit::Config,
            DeliverBatchError::NotAllowed(_) => Exit::Denied,
            DeliverBatchError::Temporary(_) => Exit::Failed,
            DeliverBatchError::GitHub { later: true, .. } => Exit::Unavailable,
            DeliverBatchError::Address(_)
            | DeliverBatchError::Repositories
            | DeliverBatchError::Shards
            | DeliverBatchError::Unknown(_)
            | DeliverBatchError::Message(_) => Exit::Input,
            DeliverBatchError::NotWell { .. }
            | DeliverBatchError::OtherDigest(_)
            | DeliverBatchError::Changed(_)
            | DeliverBatchError::NoRepository
            | DeliverBatchError::NoDigest
            | DeliverBatchError::NoBase
            | DeliverBatchError::NoOrigin
            | DeliverBatchError::GitHub { later: false, .. }
            | DeliverBatchError::Branch { .. }
            | DeliverBatchError::OneBranch { .. } => Exit::Conflict,
            DeliverBatchError::Check(_) => Exit::Verify,
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(match self {
            DeliverBatchError::MessageAlone => "add one of them",
            DeliverBatchError::Shards => "merge them first: qwen batch merge DIR --out MERGED",
            DeliverBatchError::Unknown(_) => "write the key as `qwen batch report DIR --csv -` shows it",
            DeliverBatchError::NotWell { .. } => "run them again, or deliver the others with --partial",
            DeliverBatchError::OtherDigest(_) => "give the digest that `qwen batch merge` printed for this directory",
            DeliverBatchError::Changed(_) => {
                "get the directory again, as this version of `qwen batch` or `qwen batch merge` writes it"
            }
            DeliverBatchError::Message(_) => "give one with --message",
            DeliverBatchError::Check(_) => "nothing was delivered; the command's output is above",
            DeliverBatchError::PushWhat => "add --branch-each TEMPLATE, for example 'qwen/docs/{key}'",
            DeliverBatchError::NoDigest => {
                "give the digest of summary.json that you got by another way than the directory"
            }
            DeliverBatchError::NoToken | DeliverBatchError::Token(_) => "set QWEN_GIT_TOKEN or GITHUB_TOKEN",
            DeliverBatchError::NotAllowed(_) => "name it in the policy below `batch: {repos: {allow: […]}}`",
            DeliverBatchError::NoBase => "check out a branch, or list the repository with its branch",
            DeliverBatchError::NoOrigin => "set the remote `origin`, or GITHUB_API_URL",
            DeliverBatchError::Address(_) => "correct the remote `origin`",
            DeliverBatchError::Temporary(_) => "make room in TMPDIR",
            DeliverBatchError::GitHub { later: true, .. } => {
                "run the same command later: what is done is not done twice"
            }
            DeliverBatchError::GitHub { later: false, .. } => {
                "the token needs `contents: write` and `pull-requests: write`"
            }
            DeliverBatchError::Repositories => "push each: --push --sha256 HEX",
            DeliverBatchError::NoRepository => "name the repository with -C",
            DeliverBatchError::Branch { .. } | DeliverBatchError::OneBranch { .. } => {
                "write a template with {n}: it is different for each item and always valid"
            }
        }))
    }
}
