//! Defines what a recipe wants delivered to GitHub.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalar::Text;

/// What the delivering job writes to GitHub. Without the key: review, comment and check for `kind: findings`, a pull
/// request for a change; with it, what it names and nothing else.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Deliver {
    /// Findings at the lines that they are about.
    pub review: Option<ReviewWish>,
    /// A comment.
    pub comment: Option<CommentWish>,
    /// Labels that the answer names.
    pub labels: Option<LabelWish>,
    /// A check at the commit [default: never].
    pub check: Option<CheckWish>,
    /// A branch with the change, and its pull request.
    pub pull_request: Option<PullRequestWish>,
}

/// Findings at the lines that they are about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReviewWish {
    /// The most comments of one review [default: 25].
    pub max_inline: Option<usize>,
    /// Whether changes are suggested that can be accepted with a click [default: true].
    pub suggestions: Option<bool>,
}

/// A comment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommentWish {
    /// Where [default: sticky].
    pub mode: Option<CommentMode>,
    /// When [default: problems].
    pub when: Option<CommentWhen>,
}

/// Which comment is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CommentMode {
    /// One for all runs of the recipe, brought up to date.
    #[default]
    Sticky,
    /// One for each run.
    New,
    /// An answer to the comment that started the run.
    Reply,
}

/// When a comment is written. One that exists is brought up to date in any case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CommentWhen {
    /// There are findings, or a part of the change was not looked at.
    #[default]
    Problems,
    /// After each run.
    Always,
}

/// Labels that the answer names.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LabelWish {
    /// Where the answer has them, as a JSON pointer.
    pub from: Text,
    /// The labels that may be set.
    pub allowed: AllowedLabels,
    /// The most labels [default: 3].
    pub max: Option<usize>,
    /// Whether other labels of `allowed` are removed [default: add].
    pub mode: Option<LabelMode>,
}

/// Which labels may be set.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum AllowedLabels {
    /// These.
    Names(Vec<String>),
    /// Those of a list.
    Param {
        /// The parameter, a list; its default counts.
        param: String,
    },
}

/// What becomes of other labels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LabelMode {
    /// They stay.
    #[default]
    Add,
    /// Those of `allowed` go.
    Set,
}

/// When a check is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CheckWish {
    /// Where the job's own status is not at the pull request's head.
    Auto,
    /// At every pull request.
    Always,
    /// Never.
    #[default]
    Never,
}

/// A branch with the change, and its pull request.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PullRequestWish {
    /// Whether it is a draft [default: true].
    pub draft: Option<bool>,
    /// Its labels [default: qwen].
    pub labels: Option<Vec<Text>>,
}
