//! Answers that are kept: the same recipe, policy, model and message give the same answer again, without a request.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::cli::RunArgs;
use crate::model::Part;
use crate::recipe::Recipe;
use crate::recipe::file::{CacheKey, Offline};
use crate::settings::Environment;
use crate::workspace::private_file;

/// How long an answer is good for where the recipe does not say.
const MAX_AGE_SECONDS: i64 = 30 * 24 * 60 * 60;

/// Answers that are kept at most; the oldest go first.
const MOST: usize = 500;

/// The kept answers of a recipe that asks for it.
#[derive(Debug, Clone)]
pub struct AnswerCache {
    folder: PathBuf,
    /// Whether a fresh answer saves the request; else answers are kept for a time without a provider.
    saves_requests: bool,
    /// Whether an old answer will do where there is no provider.
    serves_offline: bool,
    max_age_seconds: i64,
}

/// An answer as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// When the run began that it comes from.
    pub time: String,
    /// The final text.
    pub text: String,
    /// The structured answer.
    pub structured: Option<Value>,
}

impl AnswerCache {
    /// Returns the cache of a recipe; `None` where it wants none, there is no folder for it, or the run is a test, whose
    /// conversation is to be had as it was recorded.
    pub fn of(recipe: &Recipe, arguments: &RunArgs, environment: &Environment) -> Option<AnswerCache> {
        let test = &arguments.test;
        if test.script.is_some() || test.replay.is_some() || test.record.is_some() {
            return None;
        }
        let cache = recipe.file.cache.clone().unwrap_or_default();
        let saves_requests = cache.key == Some(CacheKey::Context);
        let serves_offline = recipe.file.offline == Some(Offline::Cached);
        // What a check says is asked each time.
        if !(saves_requests || serves_offline) || !recipe.checks().is_empty() {
            return None;
        }
        let base = environment
            .value("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
            .or_else(|| environment.home.as_ref().map(|home| home.join(".cache")))?;
        let max_age = cache.max_age.and_then(|time| i64::try_from(time.0.as_secs()).ok());
        Some(AnswerCache {
            folder: base.join("qwen/answers"),
            saves_requests,
            serves_offline,
            max_age_seconds: max_age.unwrap_or(MAX_AGE_SECONDS),
        })
    }

    /// Returns an answer that is young enough to save the request.
    pub fn fresh(&self, key: &str, now: &str) -> Option<Kept> {
        let kept = self.saves_requests.then(|| self.read(key)).flatten()?;
        (0..=self.max_age_seconds).contains(&age(&kept.time, now)?).then_some(kept)
    }

    /// Returns an answer of any age, for a run that has no provider.
    pub fn offline(&self, key: &str) -> Option<Kept> {
        self.serves_offline.then(|| self.read(key)).flatten()
    }

    /// Keeps an answer. That it cannot be kept is no fault of the run.
    pub fn keep(&self, key: &str, kept: &Kept) -> std::io::Result<()> {
        let text = serde_json::to_vec(kept).map_err(std::io::Error::other)?;
        private_file::folder(&self.folder)?;
        private_file::replace(&self.path(key), &text, Some(private_file::SECRET))?;
        private_file::keep_newest(&self.folder, MOST)
    }

    fn read(&self, key: &str) -> Option<Kept> {
        serde_json::from_slice(&std::fs::read(self.path(key)).ok()?).ok()
    }

    fn path(&self, key: &str) -> PathBuf {
        Path::new(&self.folder).join(format!("{key}.json"))
    }
}

/// Returns the name of an answer: the digest of everything that it depends on.
pub fn key(recipe: &str, policy: &str, model: &str, system: &str, schema: Option<&Value>, message: &[Part]) -> String {
    let mut digest = Sha256::new();
    // Each part with its length, so that no two lists of parts look the same.
    let mut add = |text: &str| {
        digest.update((text.len() as u64).to_le_bytes());
        digest.update(text.as_bytes());
    };
    for text in ["answer 1", recipe, policy, model, system, &schema.map(Value::to_string).unwrap_or_default()] {
        add(text);
    }
    for part in message {
        match part {
            Part::Text(text) => add(text),
            Part::Media { mime_type, data, name } => [mime_type, data, name].into_iter().for_each(|text| add(text)),
        }
    }
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the seconds between two times; `None` where one is none.
fn age(then: &str, now: &str) -> Option<i64> {
    let second = |text: &str| text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_second);
    Some(second(now)? - second(then)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(folder: &Path) -> AnswerCache {
        AnswerCache { folder: folder.join("a"), saves_requests: true, serves_offline: true, max_age_seconds: 60 }
    }

    #[test]
    fn an_answer_is_fresh_for_its_time_and_there_for_longer() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path());
        let kept = Kept { time: "2026-01-01T00:00:00Z".into(), text: "a".into(), structured: None };
        cache.keep("k", &kept).unwrap();
        assert_eq!(cache.fresh("k", "2026-01-01T00:01:00Z"), Some(kept.clone()));
        assert_eq!(cache.fresh("k", "2026-01-01T00:01:01Z"), None);
        // A clock that was set back is no reason to trust it.
        assert_eq!(cache.fresh("k", "2025-12-31T23:59:59Z"), None);
        assert_eq!((cache.offline("k"), cache.offline("other")), (Some(kept), None));
        std::fs::write(folder.path().join("a/k.json"), b"{").unwrap();
        assert_eq!(cache.offline("k"), None, "what cannot be read is not there");
    }

    #[test]
    fn another_input_is_another_answer() {
        let of = |recipe, text: &[&str]| {
            let parts: Vec<Part> = text.iter().map(|text| Part::Text((*text).to_owned())).collect();
            key(recipe, "p", "m", "s", None, &parts)
        };
        assert_eq!(of("r", &["a", "b"]), of("r", &["a", "b"]));
        let all =
            [of("r", &["a", "b"]), of("r", &["ab"]), of("q", &["a", "b"]), of("r", &["a"]), of("r", &["a", "b", ""])];
        assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), all.len());
    }
}
