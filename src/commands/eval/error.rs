//! Defines why `qwen recipe eval` cannot evaluate.

use std::borrow::Cow;
use std::io;

use crate::base::{CliError, Diagnostic};
use crate::batch::shard::ShardError;
use crate::commands::recipe_fixture::CaseError;
use crate::exit::Exit;

/// Why there is no evaluation.
#[derive(Debug, thiserror::Error)]
pub(in crate::commands) enum EvalError {
    /// `--cases` says nothing about which recipe its cases are for.
    #[error("--cases needs one recipe")]
    CasesOfSeveral,
    /// A recipe is named twice.
    #[error("the recipe `{0}` is given twice")]
    Twice(String),
    /// `--case` names none.
    #[error("--case {0}: no recipe has a case of this name")]
    UnknownCase(String),
    /// A recipe has nothing to evaluate it with.
    #[error("the recipe `{0}` has no cases to evaluate")]
    NoCases(String),
    /// A file cannot be read.
    #[error("{path}: {cause}")]
    Unreadable { path: String, cause: io::Error },
    /// A line of `--cases` is not a case.
    #[error("{0}")]
    Cases(Diagnostic),
    /// The fixture of a case does not exist.
    #[error("the fixture {fixture} of the case `{case}` does not exist")]
    NoFixture { case: String, fixture: String },
    /// The baseline is no evaluation.
    #[error("{path} is not an evaluation: {cause}")]
    Baseline { path: String, cause: serde_json::Error },
    /// A recorded run is damaged.
    #[error("{path} is not the record of a run: {cause}")]
    Record { path: String, cause: serde_json::Error },
    /// The directory has something else.
    #[error("{0} belongs to a batch of another kind")]
    OtherBatch(String),
    /// A link in a checkout leads to the directory.
    #[error("--out {path}: {cause}")]
    Link { path: String, cause: io::Error },
    /// A case cannot be run or judged.
    #[error(transparent)]
    Case(#[from] CaseError),
    /// There is no such shard.
    #[error("--shard: {0}")]
    Shard(ShardError),
    /// There is nothing to judge again.
    #[error("--replay: {0} has no recorded run of these cases")]
    NothingRecorded(String),
}

impl CliError for EvalError {
    fn exit(&self) -> Exit {
        match self {
            EvalError::CasesOfSeveral
            | EvalError::Twice(_)
            | EvalError::Shard(ShardError::Form(_) | ShardError::Nowhere) => Exit::Usage,
            EvalError::UnknownCase(_)
            | EvalError::NoCases(_)
            | EvalError::Unreadable { .. }
            | EvalError::Cases(_)
            | EvalError::NoFixture { .. }
            | EvalError::Baseline { .. }
            | EvalError::Record { .. }
            | EvalError::OtherBatch(_)
            | EvalError::Shard(_)
            | EvalError::NothingRecorded(_) => Exit::Input,
            EvalError::Link { .. } => Exit::Conflict,
            EvalError::Case(_) => Exit::Failed,
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(match self {
            EvalError::CasesOfSeveral => "evaluate the recipes one by one",
            EvalError::Twice(_) => "name each recipe once; to compare two versions, use --baseline",
            EvalError::UnknownCase(_) => "name a case of `tests` without `eval: false`",
            EvalError::NoCases(_) => "add `tests` to the recipe, or give --cases FILE",
            EvalError::Unreadable { .. } => "name a file that can be read",
            EvalError::Cases(_) => "write one JSON object a line: name, fixture, params, expect",
            EvalError::NoFixture { .. } => "make that directory, with the project's files under base/",
            EvalError::Baseline { .. } => "name the --out directory of an earlier evaluation, or its eval.json",
            EvalError::Record { .. } | EvalError::OtherBatch(_) => "name another directory with --out",
            EvalError::Link { .. } => "name a directory without links of a checkout on the way",
            EvalError::Case(_) => "correct the fixture of the case",
            EvalError::Shard(_) => "write K/N, for example 1/8, or set QWEN_SHARD_INDEX (from 0) and QWEN_SHARD_TOTAL",
            EvalError::NothingRecorded(_) => "run the same command without --replay first",
        }))
    }
}
