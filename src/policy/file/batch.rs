//! Defines the key `batch` of a policy file.

use serde::Deserialize;

use super::TimeLimit;

/// Limits of a batch, and the repositories that it may clone.
#[derive(Debug, Clone, Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchFile {
    /// Maximum items of a list.
    pub items: Option<u64>,
    /// Maximum items at a time.
    pub jobs: Option<u32>,
    /// Maximum estimated cost of all items in US dollars.
    pub total_cost_usd: Option<f64>,
    /// Maximum duration of one call.
    pub total_wall_time: Option<TimeLimit>,
    /// Repositories that may be cloned.
    pub repos: Option<ReposFile>,
}

/// Repositories that a batch may clone.
#[derive(Debug, Clone, Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReposFile {
    /// Those that may, as globs over `host/owner/name` [default: none].
    pub allow: Option<Vec<String>>,
}
