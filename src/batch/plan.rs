//! Defines `batch.json`: which batch a directory belongs to, and what must be the same for it to go on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::item::sorted;
use crate::base::digest::sha256;
use crate::event::RecipeFacts;

/// The version of the files of a batch's directory.
pub const SCHEMA_VERSION: u32 = 1;

/// The names of the files of a batch's directory.
pub mod files {
    /// What the batch is: a [`super::Batch`].
    pub const BATCH: &str = "batch.json";
    /// The list as last read: a line each for an [`crate::batch::item::Item`].
    pub const ITEMS: &str = "items.jsonl";
    /// What happened: a line each for a [`crate::batch::journal::Line`].
    pub const JOURNAL: &str = "journal.jsonl";
    /// How it ended: a [`crate::batch::result::BatchResult`].
    pub const SUMMARY: &str = "summary.json";
    /// The combined change.
    pub const COMBINED: &str = "combined.patch";
    /// What was handed to the provider's Batch API: a line each for a [`crate::batch::provider::Line`].
    pub const PROVIDER: &str = "provider.jsonl";
    /// The directory of the items' own files.
    pub const OF_ITEMS: &str = "items";
}

/// A batch: the content of `batch.json`, written once.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Batch {
    /// Of this file.
    pub schema_version: u32,
    /// The batch's id.
    pub batch_id: String,
    /// When it began, as RFC 3339.
    pub created: String,
    /// What decides about its items.
    #[serde(flatten)]
    pub plan: Plan,
    /// The commit that the items start from; `null` outside of a repository.
    pub base: Option<String>,
    /// Where the list comes from.
    pub source: Source,
    /// The shard that this directory belongs to.
    pub shard: Option<ShardFacts>,
    /// The digest of the plan.
    pub plan_sha256: String,
}

/// What decides about a batch's items besides themselves: another plan is another batch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Plan {
    /// The recipe, if there is one.
    pub recipe: Option<RecipeFacts>,
    /// The digest of the prompt, where there is no recipe.
    pub prompt_sha256: Option<String>,
    /// The digest of the policy.
    pub policy_sha256: String,
    /// The model.
    pub model: String,
    /// Parameter → the field of the items that it takes its value from, where `--map` says so.
    pub map: BTreeMap<String, String>,
    /// Other flags that decide about the answers: name → value, or the digest of a value that may be secret.
    pub flags: BTreeMap<String, Value>,
}

/// Where a list comes from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Source {
    /// `each`, `items`, `lines`, `from-junit`, `repos` or `cases`.
    pub kind: String,
    /// The patterns or the file, as they were given.
    pub of: Vec<String>,
    /// The field that names the items, if `--key` says so.
    pub key: Option<String>,
}

/// One of the parts of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ShardFacts {
    /// Its number, from 1.
    pub number: u32,
    /// How many there are.
    pub of: u32,
}

impl Batch {
    /// Returns what is the same in all shards of a batch and in what they are merged to, as a line.
    pub fn lasting(&self) -> String {
        let lasting = Batch { created: String::new(), shard: None, ..self.clone() };
        serde_json::to_string(&lasting).expect("a batch holds texts and JSON values") + "\n"
    }
}

impl Plan {
    /// Returns the digest of the plan.
    pub fn sha256(&self) -> String {
        sha256(sorted(&self.value()).to_string().as_bytes())
    }

    /// Names what differs between this plan and another.
    pub fn differences(&self, other: &Plan) -> Vec<String> {
        let (ours, theirs) = (self.value(), other.value());
        let names = |value: &Value| -> Vec<String> {
            let of = |name: &str| value.get(name).and_then(Value::as_object).cloned().unwrap_or_default();
            of("flags").keys().cloned().collect()
        };
        let plain = [
            ("recipe", "recipe"),
            ("prompt_sha256", "prompt"),
            ("policy_sha256", "policy"),
            ("model", "model"),
            ("map", "--map"),
        ];
        let mut found: Vec<String> = plain
            .into_iter()
            .filter(|(name, _)| ours.get(name) != theirs.get(name))
            .map(|(_, shown)| shown.to_owned())
            .collect();
        let mut flags: Vec<String> = names(&ours).into_iter().chain(names(&theirs)).collect();
        flags.sort();
        flags.dedup();
        found.extend(flags.into_iter().filter(|name| self.flags.get(name) != other.flags.get(name)));
        found
    }

    fn value(&self) -> Value {
        serde_json::to_value(self).expect("a plan holds texts and JSON values")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn another_plan_has_another_digest_and_says_what_differs() {
        let one = Plan { model: "a".into(), ..Plan::default() };
        let other = Plan {
            model: "b".into(),
            map: [("text".to_owned(), "body".to_owned())].into(),
            flags: [("--temperature".to_owned(), json!(1))].into(),
            ..Plan::default()
        };
        assert_eq!(one.sha256(), one.clone().sha256());
        assert_ne!(one.sha256(), other.sha256());
        assert_eq!(one.differences(&other), ["model", "--map", "--temperature"]);
        assert_eq!(one.differences(&one), [] as [&str; 0]);
    }
}
