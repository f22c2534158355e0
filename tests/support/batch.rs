//! Writes directories of batches as `qwen batch` leaves them, without running one.

use std::path::Path;

use qwen_run::base::digest::sha256;
use qwen_run::batch::item::Item;
use qwen_run::batch::journal::{Ended, Line, Started, is_final, line};
use qwen_run::batch::plan::{Batch, Plan, SCHEMA_VERSION, ShardFacts, Source};
use qwen_run::batch::shard::Shard;
use serde_json::{Map, Value, json};

/// An item, and how it ended.
#[derive(Clone)]
pub(crate) struct Ending {
    key: String,
    exit_code: Option<u8>,
    patch: Option<String>,
    more: Map<String, Value>,
}

/// Returns an item that ended so.
pub(crate) fn ended(key: &str, exit_code: u8) -> Ending {
    Ending { key: key.into(), exit_code: Some(exit_code), patch: None, more: Map::new() }
}

/// Returns an item that never started.
pub(crate) fn left(key: &str) -> Ending {
    Ending { key: key.into(), exit_code: None, patch: None, more: Map::new() }
}

impl Ending {
    /// Gives it a patch.
    pub(crate) fn patch(mut self, patch: &str) -> Ending {
        self.patch = Some(patch.to_owned());
        self
    }

    /// Returns its patch.
    pub(crate) fn patch_text(&self) -> Option<&str> {
        self.patch.as_deref()
    }

    /// Sets a field of its result.
    pub(crate) fn with(mut self, name: &str, value: Value) -> Ending {
        self.more.insert(name.to_owned(), value);
        self
    }

    fn item(&self, at: usize) -> Item {
        let fields = json!({"id": self.key, "text": "a text"});
        Item::new(u32::try_from(at).unwrap() + 1, self.key.clone(), fields.as_object().unwrap().clone(), "")
    }

    fn lines(&self, item: &Item) -> String {
        let Some(exit_code) = self.exit_code else { return String::new() };
        let (n, key) = (item.n, item.key.clone());
        let time = "2026-11-22T10:00:00Z".to_owned();
        let start = Line::Start(Started { n, key: key.clone(), r#try: 1, time, alone: false });
        let mut end = json!({
            "n": n, "key": key, "sha256": item.sha256, "try": 1, "final": is_final(exit_code, exit_code == 75, false),
            "exit_code": exit_code, "exit_reason": if exit_code == 0 { "ok" } else { "failed" },
            "conclusion": if exit_code == 0 { "success" } else { "error" },
            "output": {"label": "bug"}, "output_cut": false, "findings": 0, "files": [],
            "patch": self.patch.as_ref().map(|_| format!("items/{}.patch", item.stem())),
            "patch_sha256": self.patch.as_ref().map(|patch| sha256(patch.as_bytes())),
            "commit": null, "branch": null,
            "usage": {"input_tokens": 100, "cache_read_input_tokens": 50, "output_tokens": 10, "total_tokens": 110, "requests": 1},
            "cost_usd": 0.25, "duration_ms": 80, "waited_ms": 1, "run_id": format!("run-{n}"), "model": "scripted",
            "warnings": [], "error": null,
        });
        end.as_object_mut().unwrap().extend(self.more.clone());
        let ended: Ended = serde_json::from_value(end).unwrap();
        let end = Line::End(Box::new(ended));
        line(&start) + &line(&end)
    }
}

/// Writes the directory of a batch, or of one shard of it.
pub(crate) fn write_batch(directory: &Path, endings: &[Ending], shard: Option<Shard>) {
    std::fs::create_dir_all(directory.join("items")).unwrap();
    let plan = Plan {
        prompt_sha256: Some(sha256(b"prompt")),
        policy_sha256: sha256(b"policy"),
        model: "scripted".into(),
        ..Plan::default()
    };
    let description = Batch {
        schema_version: SCHEMA_VERSION,
        batch_id: "batch-1".into(),
        created: "2026-11-22T10:00:00Z".into(),
        base: None,
        source: Source { kind: "items".into(), of: vec!["items.jsonl".into()], key: None },
        shard: shard.map(|shard| ShardFacts { number: shard.number(), of: shard.of() }),
        plan_sha256: plan.sha256(),
        plan,
    };
    let (mut list, mut journal) = (String::new(), String::new());
    for (at, ending) in endings.iter().enumerate() {
        let item = ending.item(at);
        list.push_str(&(serde_json::to_string(&item).unwrap() + "\n"));
        if !shard.is_none_or(|shard| shard.has(item.n)) {
            continue;
        }
        journal.push_str(&ending.lines(&item));
        if let Some(patch) = &ending.patch {
            std::fs::write(directory.join(format!("items/{}.patch", item.stem())), patch).unwrap();
        }
    }
    std::fs::write(directory.join("batch.json"), serde_json::to_string(&description).unwrap()).unwrap();
    std::fs::write(directory.join("items.jsonl"), list).unwrap();
    std::fs::write(directory.join("journal.jsonl"), journal).unwrap();
}

/// Writes the directories of all shards of a batch.
pub(crate) fn write_shards(directory: &Path, endings: &[Ending], of: u64) {
    for number in 1..=of {
        let shard = Shard::new(number, of).unwrap();
        write_batch(&directory.join(format!("shard-{number}-of-{of}")), endings, Some(shard));
    }
}
