//! Defines the keys of a recipe file about what becomes of the model's change: commands that finish it, guards, checks.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalar::{Argument, Text, Time};

/// Rules that judge the change itself.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Guards {
    /// Nothing else may change.
    pub only_paths: Option<Vec<Text>>,
    /// These may not change.
    pub never_paths: Option<Vec<Text>>,
    /// The most files.
    pub max_files: Option<usize>,
    /// The most lines, added and removed together.
    pub max_lines: Option<usize>,
    /// Nothing may be deleted.
    pub no_delete: Option<bool>,
    /// Only comments may change.
    pub comments_only: Option<bool>,
    /// No added line may match.
    pub forbid_added: Option<Vec<Forbidden>>,
    /// No removed line may match.
    pub forbid_removed: Option<Vec<Forbidden>>,
    /// Tables of what a change must not do, for the usual languages.
    pub presets: Option<Vec<Preset>>,
}

/// A table of what a change must not do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// It silences no linter or compiler.
    NoSuppressions,
    /// It switches no test off.
    NoSkippedTests,
    /// It leaves as many tests as there were.
    NoTestRemoval,
    /// It changes no settings of linters.
    NoLintConfig,
}

/// A command after each attempt of the model, before guards and checks, whose changes are kept.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Finish {
    /// Its name.
    pub name: Text,
    /// The command, one word each. Without words it is left out.
    pub run: Vec<Argument>,
    /// The files that it may change, as globs. They are free of `only_paths` and of the counts of `guards`.
    pub writes: Vec<Text>,
    /// The most time.
    pub timeout: Option<Time>,
}

/// A line that must not be.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Forbidden {
    /// A regular expression, looked for in each line.
    pub pattern: Text,
    /// Why, for the model and the report.
    pub why: Text,
}

/// Checks of the change.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Verify {
    /// What the checks must say before the model begins.
    pub before: Option<Before>,
    /// Attempts of the model in all.
    pub attempts: Option<u32>,
    /// What becomes of a change that fails at last.
    pub on_exhausted: Option<OnExhausted>,
    /// Whether the same failure on the same tree ends the run.
    pub stop_if_same: Option<bool>,
    /// The checks, in order.
    pub checks: Option<Vec<CheckFile>>,
}

/// What the checks must say before the model begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Before {
    /// They are not run.
    #[default]
    Ignore,
    /// They pass.
    MustPass,
    /// They fail.
    MustFail,
    /// If they pass there is nothing to do.
    SkipIfPass,
}

/// What becomes of a change that fails at last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnExhausted {
    /// It stands in the result.
    #[default]
    SavePatch,
    /// It is dropped.
    Discard,
}

/// A check.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckFile {
    /// Its name.
    pub name: Text,
    /// The command, one word each.
    pub run: Vec<Argument>,
    /// The folder that it runs in.
    pub cwd: Option<Text>,
    /// The most time.
    pub timeout: Option<Time>,
    /// How often it runs; each time must be as expected.
    pub repeat: Option<u32>,
    /// Whether it is to pass or to fail.
    pub expect: Option<Expect>,
    /// Bytes of its output that the model reads.
    pub feedback_bytes: Option<usize>,
    /// Which tree it runs on.
    pub tree: Option<CheckTree>,
    /// Variables of the command; the policy's `shell.env.pass` must name them. The one place for a secret.
    pub env: Option<BTreeMap<String, Text>>,
}

/// What a check is expected to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Expect {
    /// End with 0.
    #[default]
    Pass,
    /// End with another code.
    Fail,
}

/// Which tree a check runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CheckTree {
    /// As it was before the run.
    Base,
}
