//! Defines the keys of a recipe file about what the run gives back and what happens to the change.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::scalar::Text;
use crate::policy::file::Delivery;

/// What the run gives back.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// What it is.
    pub kind: OutputKind,
    /// The schema of `json`.
    pub schema: Option<Value>,
    /// A file with the schema; beside the recipe.
    pub schema_file: Option<Text>,
    /// How often the model may correct its answer.
    pub repairs: Option<u32>,
    /// The least severe finding that fails the run.
    pub fail_on: Option<Severity>,
    /// How sure the model must be of a finding that fails the run [default: medium].
    pub fail_confidence: Option<Confidence>,
    /// How sure the model must be of a finding; others are dropped [default: low].
    pub min_confidence: Option<Confidence>,
    /// Which findings count.
    pub filter: Option<Filter>,
    /// The most findings.
    pub max_findings: Option<usize>,
    /// The rules that findings may name.
    pub rules: Option<Vec<Rule>>,
    /// The most characters of a message.
    pub max_chars: Option<usize>,
    /// What it means for the exit code that the model was not shown all of a change [default: ok].
    pub incomplete: Option<Incomplete>,
    /// What is looked for in a `diff` without a model [default: all].
    pub local: Option<Vec<LocalRule>>,
}

/// What it means that a part of a change was not looked at: files that the policy denies, that have no room, or that
/// were cut.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Incomplete {
    /// The result says it.
    #[default]
    Ok,
    /// The run ends with 3 as well.
    Fail,
}

/// A rule that needs no model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LocalRule {
    /// `qwen/secret`: an added line has a secret.
    Secrets,
    /// `qwen/denied-file`: a file for secrets is added or altered.
    Denied,
    /// `qwen/link-outside`: a link leads out of the repository.
    Links,
    /// `qwen/submodule`: a submodule is added, or has another address.
    Submodules,
    /// `qwen/hidden-character`: an added line has an invisible character.
    Hidden,
}

impl LocalRule {
    /// All of them.
    pub const ALL: [LocalRule; 5] =
        [LocalRule::Secrets, LocalRule::Denied, LocalRule::Links, LocalRule::Submodules, LocalRule::Hidden];
}

/// What a run gives back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OutputKind {
    /// The last message.
    #[default]
    Text,
    /// A value that fits a schema.
    Json,
    /// Findings.
    Findings,
    /// A change.
    Changes,
    /// A short text.
    Message,
}

/// How bad a finding is; ordered by weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Said in passing; in `fail_on`, any finding.
    Note,
    /// Should be looked at.
    Warning,
    /// Is wrong.
    Error,
    /// In `fail_on` only: no finding.
    Never,
}

/// How sure the model is of a finding; ordered.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// A guess.
    #[default]
    Low,
    /// Likely.
    Medium,
    /// Certain.
    High,
}

/// Which findings count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Filter {
    /// Those on added lines.
    #[default]
    Added,
    /// Those on lines that the diff shows.
    DiffContext,
    /// Those in changed files.
    File,
    /// All.
    Nofilter,
}

/// A rule that findings name.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Its id.
    pub id: Text,
    /// What it is about.
    pub description: Text,
    /// How bad a finding of it is at most.
    pub severity: Option<Severity>,
}

/// What happens to the change, where no flag says otherwise.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GitWishes {
    /// How it is delivered.
    pub changes: Option<Delivery>,
    /// The branch of `changes: branch`.
    pub branch: Option<Text>,
    /// The commit to compare with.
    pub base: Option<Text>,
    /// The first line of the commit's message.
    pub subject: Option<Text>,
    /// What stands below it.
    pub body: Option<Body>,
    /// The integer parameter with the number of the issue that the change closes.
    pub closes: Option<Text>,
    /// Further trailers.
    pub trailers: Option<BTreeMap<String, Text>>,
    /// What no change means.
    pub if_no_changes: Option<IfNoChanges>,
}

/// What stands below the first line of a commit's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Body {
    /// Nothing.
    None,
    /// The model's answer.
    Model,
    /// What changed and why.
    Summary,
}

/// What no change means.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IfNoChanges {
    /// Nothing.
    #[default]
    Ok,
    /// A warning.
    Warn,
    /// The run ends with 65.
    Fail,
}
