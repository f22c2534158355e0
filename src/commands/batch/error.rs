//! Defines why a batch does not begin.

use std::borrow::Cow;

use crate::base::{CliError, Diagnostic};
use crate::batch::shard::ShardError;
use crate::exit::Exit;
use crate::git::GitError;
use crate::workspace::item_source::ListError;

/// Why a batch does not begin.
#[derive(Debug, thiserror::Error)]
pub(super) enum BatchError {
    /// The list cannot be read.
    #[error("{name}: {cause}")]
    List { name: String, cause: ListError },
    /// The file of records is of no known form.
    #[error("--items {0} is neither .jsonl, .csv nor .tsv")]
    Form(String),
    /// A pattern is not one.
    #[error("--each {pattern}: {why}")]
    Pattern { pattern: String, why: String },
    /// No file matches.
    #[error("no file of the workspace matches --each {0}")]
    NoFile(String),
    /// The prompt uses what it may not.
    #[error("--prompt: {0}")]
    Prompt(String),
    /// `--map` names a parameter that does not exist.
    #[error("--map {param}: the recipe has no parameter `{param}`")]
    MapParam { param: String },
    /// `--map` names a field that does not exist.
    #[error("--map {param}={field}: the item `{key}` has no field `{field}`")]
    MapField { param: String, field: String, key: String },
    /// A parameter gets no value.
    #[error("the item `{key}` has no field `{field}` with a value; its fields are {fields}")]
    NoField { key: String, field: String, fields: String, param: Option<String> },
    /// A stranger's text would go where it is not fenced.
    #[error("parameter {0} takes values of items: declare it `untrusted: true`, or say --trust-items")]
    Trusts(String),
    /// Nothing of an item is used.
    #[error("no parameter takes a value of the items: the first one, `{key}`, has the fields {fields}")]
    NothingTaken { key: String, fields: String },
    /// The directory belongs to another batch.
    #[error("{path} belongs to another batch; different: {differences}")]
    Other { path: String, differences: String },
    /// The directory belongs to another division into shards.
    #[error("{path} has shards of another division: {found}")]
    OtherShards { path: String, found: String },
    /// There is no such shard.
    #[error("--shard: {0}")]
    Shard(#[from] ShardError),
    /// `--rerun` names an item that does not exist.
    #[error("--rerun {0}: the list has no item of this key")]
    Rerun(String),
    /// A flag has no effect.
    #[error("{0} without --apply, --commit, --branch or --branch-each")]
    Idle(&'static str),
    /// The changes cannot be delivered so.
    #[error("--{mode} {why}")]
    Delivery { mode: &'static str, why: &'static str },
    /// All branches would have one name.
    #[error("--branch-each {0}: it has neither {{key}} nor {{n}}, and all items would have one branch")]
    Template(String),
    /// The policy does not let it be cloned.
    #[error("the policy does not let the repository {0} be cloned")]
    NotAllowed(String),
    /// The policy does not allow so many.
    #[error("the list has {items} items, and the policy allows {most}")]
    TooMany { items: u64, most: u64 },
    /// There is no place for clones.
    #[error("there is no cache directory in which repositories could be cloned")]
    NoCache,
    /// The place for clones cannot be used.
    #[error("{path}: {cause}")]
    Clones { path: String, cause: std::io::Error },
    /// The token is none.
    #[error("QWEN_GIT_TOKEN: {0}")]
    Token(String),
    /// A repository cannot be cloned.
    #[error("{key} cannot be cloned: {cause}")]
    NotCloned { key: String, cause: GitError },
    /// The branch of a clone cannot be kept.
    #[error("the branch cannot be written to a bundle: {0}")]
    NoBundle(String),
    /// A file is shown to nobody.
    #[error("--file: what runs does not read files, so that none would be shown")]
    Unread,
    /// Its directory is that of the items.
    #[error("--out {0} is the workspace itself")]
    OutIsWorkspace(String),
    /// Its directory cannot be hidden from the items.
    #[error("--out {path}: {cause}")]
    Hide { path: String, cause: Box<Diagnostic> },
    /// The provider's Batch API does not take it.
    #[error("--api batch cannot be combined with {0}")]
    Api(&'static str),
    /// The Batch API answers later.
    #[error("--api batch needs --out: the answers are collected there")]
    ApiOut,
    /// A flag of the Batch API without it.
    #[error("--window without --api batch")]
    Window,
    /// No such window can be asked for.
    #[error("--window is a number of whole hours")]
    Hours,
    /// The recipe may need more than one request for an item.
    #[error("--api batch: the recipe {0}")]
    NotOneRequest(&'static str),
    /// Something is at the provider, which would be forgotten.
    #[error("--restart: the provider works on requests of {0}")]
    AtProvider(String),
    /// A link in a checkout leads to the directory.
    #[error("--out {path}: {cause}")]
    Link { path: String, cause: std::io::Error },
}

impl CliError for BatchError {
    fn exit(&self) -> Exit {
        match self {
            BatchError::Form(_)
            | BatchError::Pattern { .. }
            | BatchError::Idle(_)
            | BatchError::Delivery { .. }
            | BatchError::Template(_)
            | BatchError::Unread
            | BatchError::OutIsWorkspace(_)
            | BatchError::Api(_)
            | BatchError::ApiOut
            | BatchError::Window
            | BatchError::Hours
            | BatchError::Shard(ShardError::Form(_) | ShardError::Nowhere) => Exit::Usage,
            BatchError::Link { .. } | BatchError::AtProvider(_) => Exit::Conflict,
            BatchError::NotAllowed(_) | BatchError::TooMany { .. } => Exit::Denied,
            BatchError::Clones { .. } | BatchError::NoBundle(_) => Exit::Failed,
            BatchError::Hide { .. } | BatchError::NoCache | BatchError::Token(_) => Exit::Config,
            BatchError::NotCloned { .. } => Exit::Input,
            BatchError::List { .. }
            | BatchError::NoFile(_)
            | BatchError::Prompt(_)
            | BatchError::MapParam { .. }
            | BatchError::MapField { .. }
            | BatchError::NoField { .. }
            | BatchError::Trusts(_)
            | BatchError::NothingTaken { .. }
            | BatchError::Other { .. }
            | BatchError::OtherShards { .. }
            | BatchError::Shard(_)
            | BatchError::NotOneRequest(_)
            | BatchError::Rerun(_) => Exit::Input,
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(match self {
            BatchError::List { cause: ListError::Io(_), .. } => "name a file that can be read",
            BatchError::List { .. } => "correct the list",
            BatchError::Form(_) => "convert it to one JSON object a line, or use --lines for plain lines",
            BatchError::Pattern { .. } => "write a glob such as 'src/**/*.rs'",
            BatchError::NoFile(_) => "ignored files and those that the policy does not let read are left out",
            BatchError::Prompt(_) => "write {{ item.FIELD }} for a field of the item",
            BatchError::MapParam { .. } => "see `qwen recipe show` for its parameters",
            BatchError::MapField { .. } => "name a field of the items, or a JSON pointer such as /user/name",
            BatchError::NoField { param: Some(param), .. } => {
                return Some(Cow::Owned(format!(
                    "say with --map {param}=FIELD which field the parameter `{param}` takes"
                )));
            }
            BatchError::NoField { param: None, .. } => "use one of them in the prompt",
            BatchError::Trusts(_) => {
                "texts of items may be a stranger's; `qwen help batch` says what follows from that"
            }
            BatchError::NothingTaken { .. } => "say which field goes where with --map PARAM=FIELD",
            BatchError::Other { .. } => "add --restart to begin again there, or name another directory with --out",
            BatchError::OtherShards { .. } => "use the same number of shards, or name another directory with --out",
            BatchError::Shard(ShardError::Nowhere) => {
                "set QWEN_SHARD_INDEX (from 0) and QWEN_SHARD_TOTAL, or write --shard K/N"
            }
            BatchError::Shard(ShardError::Array { .. } | ShardError::Alone { .. }) => "set QWEN_SHARD_TOTAL",
            BatchError::Shard(_) => "write K/N, for example 1/8",
            BatchError::Rerun(_) => "write the key as the journal has it",
            BatchError::OutIsWorkspace(_) => "name another directory, for example `--out out`",
            BatchError::Hide { .. } => "name a directory outside of the workspace",
            BatchError::Idle(_) => "add one of them, or leave the flag out",
            BatchError::Delivery { .. } => "or leave it out, and use `qwen batch deliver DIR` afterwards",
            BatchError::Template(_) => "write for example 'qwen/docs/{key}'",
            BatchError::NotAllowed(_) => {
                "name it in the policy, for example `batch: {repos: {allow: [\"github.com/acme/*\"]}}`"
            }
            BatchError::TooMany { .. } => "shorten the list, or raise `batch.items` in the policy",
            BatchError::NoCache => "set XDG_CACHE_HOME to a directory outside of the workspace",
            BatchError::Clones { .. } => "make room there, or set XDG_CACHE_HOME",
            BatchError::Token(_) => "set the token alone, or unset the variable",
            BatchError::NotCloned { .. } => "check the address, the branch and QWEN_GIT_TOKEN",
            BatchError::NoBundle(_) => "run the item again with --rerun KEY",
            BatchError::Unread => "leave it out, or use a recipe with `needs: {read: [..], tools: [read_file]}`",
            BatchError::Api(_) => "leave one of them out; --limit runs some of the items first",
            BatchError::ApiOut => "add --out DIR",
            BatchError::Window => "add --api batch, or leave it out",
            BatchError::Hours => "write for example 24h",
            BatchError::NotOneRequest(_) => "leave out --api batch: it takes recipes that answer in one request",
            BatchError::AtProvider(_) => "call it without --restart to collect them, or `qwen batch cancel DIR` first",
            BatchError::Link { .. } => {
                "name a directory that is not part of a checkout's commits, without links of a checkout on the way"
            }
        }))
    }
}
