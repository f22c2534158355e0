//! Defines `summary.json`: how a whole batch ended.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::plan::ShardFacts;
use super::tally::Counts;
use crate::base::usage::Usage;
use crate::event::RunError;

/// How a batch ended: the content of `summary.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct BatchResult {
    /// Always `batch_result`.
    pub r#type: BatchResultTag,
    /// Of this object.
    pub schema_version: u32,
    /// The batch's id.
    pub batch_id: String,
    /// The process's exit code.
    pub exit_code: u8,
    /// The exit code's name.
    pub exit_reason: String,
    /// The digest of what decides about the items.
    pub plan_sha256: String,
    /// The digest of `items.jsonl`.
    pub items_sha256: String,
    /// The digest of `batch.json` and of the lines with which the items ended, `null` without a directory: with the list
    /// all that a delivery relies on.
    #[serde(default)]
    pub ends_sha256: Option<String>,
    /// Items by how they ended.
    pub items: Counts,
    /// Exit code → items that ended with it for good.
    pub by_exit_code: BTreeMap<String, u64>,
    /// Tokens of all tries so far.
    pub usage: Usage,
    /// What all tries so far have cost in US dollars; `null` where a price is unknown.
    pub cost_usd: Option<f64>,
    /// Wall time of this call in milliseconds.
    pub duration_ms: u64,
    /// Milliseconds that requests of this call waited for their turn, added up.
    pub waited_ms: u64,
    /// Requests in flight.
    pub concurrency: Concurrency,
    /// The shard, if this is one.
    pub shard: Option<ShardFacts>,
    /// The combined change and its findings.
    #[serde(flatten)]
    pub combined: Combined,
    /// Keys of items that failed for good, in the order of their numbers.
    pub failed_keys: Vec<String>,
    /// Why the batch itself ended early, if it did.
    pub error: Option<RunError>,
}

/// The word `batch_result`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub enum BatchResultTag {
    /// The only value.
    #[default]
    #[serde(rename = "batch_result")]
    BatchResult,
}

/// How many requests were in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Concurrency {
    /// At most, at the end.
    pub limit: u32,
    /// The least that this was.
    pub least: u32,
}

/// The change of all items together: a part of the result.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Combined {
    /// What was delivered.
    pub changes: CombinedChanges,
    /// Where changes of two items touch.
    pub conflicts: Vec<Conflict>,
    /// The change of each item that has one, in the order of their numbers.
    pub patches: Vec<PatchFacts>,
}

/// What was delivered of a batch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CombinedChanges {
    /// `dry-run`, `apply`, `commit`, `branch` or `branch-each`.
    pub mode: String,
    /// Whether it was delivered.
    pub applied: bool,
    /// Paths of the files that the combined change touches.
    pub files: Vec<String>,
    /// The digest of `combined.patch`, if there is one.
    pub patch_sha256: Option<String>,
    /// The branch of the commit.
    pub branch: Option<String>,
    /// The commit.
    pub commit: Option<String>,
}

/// A place that the changes of two items touch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Conflict {
    /// The file.
    pub path: String,
    /// The keys of both items, the first of the list first.
    pub keys: Vec<String>,
    /// The lines of the file that the second one could not change, for example `12-14`.
    pub lines: Vec<String>,
}

/// The change of an item.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PatchFacts {
    /// The item's key.
    pub key: String,
    /// The digest of its patch.
    pub sha256: String,
    /// The branch that it is on, if it has one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}
