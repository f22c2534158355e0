//! Defines the keys of a recipe file about its test cases and what their runs must come to.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::scalar::{Given, Text};

/// An example, run by `qwen recipe test` with its transcript and by `qwen recipe eval` with a model.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestCase {
    /// Its name.
    pub name: Text,
    /// Parameters.
    pub params: Option<BTreeMap<String, Given>>,
    /// The project: a folder, relative to the file that holds the recipe.
    pub fixture: Text,
    /// The recorded conversation; a case without one is for `qwen recipe eval` alone.
    pub transcript: Option<Text>,
    /// Whether `qwen recipe eval` runs it [default: true].
    pub eval: Option<bool>,
    /// What the run must come to.
    pub expect: Option<TestExpect>,
}

/// What a test's run must come to.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestExpect {
    /// The exit code.
    pub exit: Option<u8>,
    /// The files that change, all of them.
    pub changed: Option<Vec<Text>>,
    /// Globs: no other file changes.
    pub changed_only: Option<Vec<Text>>,
    /// Texts that the result or the patch holds.
    pub contains: Option<Vec<Text>>,
    /// Texts that neither the result nor the patch holds.
    pub not_contains: Option<Vec<Text>>,
    /// Values of the structured answer, each by its JSON pointer.
    pub equals: Option<BTreeMap<String, Value>>,
    /// A JSON Schema of the structured answer.
    pub schema: Option<Value>,
    /// Commands that are run on the changed tree, with the files of the fixture's `hidden/` in it.
    pub checks: Option<Vec<TestCheck>>,
    /// The most tokens.
    pub max_tokens: Option<u64>,
    /// The most US dollars.
    pub max_cost_usd: Option<f64>,
    /// The most answers of the model.
    pub max_turns: Option<u64>,
}

/// A command on the changed tree.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestCheck {
    /// The command, one word each.
    pub run: Vec<Text>,
    /// Its exit code [default: 0].
    pub exit: Option<u8>,
}

impl TestCase {
    /// Tells whether `qwen recipe eval` runs it.
    pub fn is_evaluated(&self) -> bool {
        self.eval != Some(false)
    }
}
