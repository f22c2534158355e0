//! Caches answers by their request: the same recipe, policy, model and prompt give the same answer without a new
//! request.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::digest::sha256;
use crate::base::private_file;
use crate::bounded;
use crate::cli::RunArgs;
use crate::recipe::file::{CacheKey, Offline, OutputKind, RecipeFile};

/// How long an answer is valid if the recipe does not say.
const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 3600);

/// Maximum number of cached answers, and bytes of a file that is read.
const MOST: usize = 500;
const LARGEST: u64 = 4 << 20;

/// The directory of the cache.
#[derive(Debug, Clone)]
pub struct Folder(PathBuf);

/// The cache entry of one answer.
#[derive(Debug, Clone)]
pub struct Kept {
    file: PathBuf,
    /// Whether a recent answer replaces a request; otherwise it is kept for times without a provider.
    saves_requests: bool,
    max_age: Duration,
    any_age_offline: bool,
}

/// An answer as stored on disk.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    time: i64,
    text: String,
    structured: Option<Value>,
}

impl Folder {
    /// Finds the directory in that of our cache; `None` without one, or if every request must be made: while recording, replaying and in
    /// tests of recipes.
    pub fn of(arguments: &RunArgs, cache: Option<PathBuf>) -> Option<Folder> {
        let test = &arguments.test;
        if test.record.is_some() || test.replay.is_some() || test.script.is_some() {
            return None;
        }
        cache.map(|cache| Folder(cache.join("answers")))
    }

    /// Returns the entry for the answer to this request; `None` if the recipe keeps none. A hook keeps every answer,
    /// unless the recipe says `cache: {key: none}`: trying the same commit again must give the same verdict.
    pub fn kept(&self, recipe: &RecipeFile, from_hook: bool, request: &[&str]) -> Option<Kept> {
        if recipe.output.as_ref().is_some_and(|output| output.kind == OutputKind::Changes) {
            return None;
        }
        let cache = recipe.cache.as_ref();
        match cache.and_then(|cache| cache.key) {
            Some(CacheKey::Context) => {}
            Some(CacheKey::None) => return None,
            None if from_hook || recipe.offline == Some(Offline::Cached) => {}
            None => return None,
        }
        // Each part by its digest, so that different requests never give the same text.
        let key = sha256(request.iter().map(|part| sha256(part.as_bytes())).collect::<String>().as_bytes());
        Some(Kept {
            file: self.0.join(format!("{key}.json")),
            saves_requests: from_hook || cache.is_some_and(|cache| cache.key.is_some()),
            max_age: cache.and_then(|cache| cache.max_age.as_ref()).map_or(MAX_AGE, |age| age.0),
            any_age_offline: recipe.offline == Some(Offline::Cached),
        })
    }
}

impl Kept {
    /// Returns the answer if it is recent enough: the text and the structured value.
    pub fn fresh(&self) -> Option<(String, Option<Value>)> {
        let stored = self.stored().filter(|_| self.saves_requests)?;
        let age = jiff::Timestamp::now().as_second().checked_sub(stored.time)?;
        // An answer from the future was stored while the clock was wrong.
        let is_fresh = u64::try_from(age).is_ok_and(|age| age <= self.max_age.as_secs());
        is_fresh.then_some((stored.text, stored.structured))
    }

    /// Returns the answer whatever its age, for a recipe that accepts an old one while no provider is available.
    pub fn of_any_age(&self) -> Option<(String, Option<Value>)> {
        let stored = self.stored().filter(|_| self.any_age_offline)?;
        Some((stored.text, stored.structured))
    }

    fn stored(&self) -> Option<Stored> {
        let metadata = self.file.symlink_metadata().ok()?;
        if !metadata.is_file() || metadata.len() > LARGEST {
            return None;
        }
        let stored: Stored = serde_json::from_slice(&bounded::regular(&self.file, LARGEST).ok()?).ok()?;
        (stored.version == 1).then_some(stored)
    }

    /// Stores an answer. If it cannot be written the next run asks again.
    pub fn keep(&self, text: &str, structured: Option<&Value>) {
        let stored = Stored {
            version: 1,
            time: jiff::Timestamp::now().as_second(),
            text: text.to_owned(),
            structured: structured.cloned(),
        };
        let Ok(bytes) = serde_json::to_vec(&stored) else { return };
        let _kept = private_file::replace(&self.file, &bytes, Some(private_file::SECRET));
        let Some(folder) = self.file.parent() else { return };
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut files: Vec<_> =
            entries.filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()))).collect();
        if files.len() > MOST {
            files.sort();
            for (_, file) in files.iter().take(files.len() - MOST) {
                let _gone = private_file::remove(file);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::file::{Cache, Output};

    fn recipe(key: Option<CacheKey>, offline: Option<Offline>) -> RecipeFile {
        RecipeFile { cache: Some(Cache { key, max_age: None }), offline, ..RecipeFile::default() }
    }

    #[test]
    fn an_answer_is_found_by_all_of_its_request_and_by_nothing_less() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder(home.path().join("qwen/answers"));
        let cached = recipe(Some(CacheKey::Context), None);
        let kept = folder.kept(&cached, false, &["a", "b"]).unwrap();
        assert_eq!(kept.fresh(), None);
        kept.keep("text", Some(&serde_json::json!({"n": 1})));
        assert_eq!(kept.fresh(), Some(("text".to_owned(), Some(serde_json::json!({"n": 1})))));
        for other in [["ab", ""], ["a", "c"], ["b", "a"]] {
            assert_eq!(folder.kept(&cached, false, &other).unwrap().fresh(), None, "{other:?}");
        }
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(&kept.file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(&folder.0).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn an_old_or_damaged_answer_does_not_count_unless_the_recipe_takes_it_offline() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder(home.path().to_path_buf());
        let kept = folder.kept(&recipe(Some(CacheKey::Context), Some(Offline::Cached)), false, &["a"]).unwrap();
        std::fs::write(&kept.file, r#"{"version":1,"time":5,"text":"old","structured":null}"#).unwrap();
        assert_eq!(kept.fresh(), None);
        assert_eq!(kept.of_any_age(), Some(("old".to_owned(), None)));
        std::fs::write(&kept.file, r#"{"version":1,"time":99999999999,"text":"old","structured":null}"#).unwrap();
        assert_eq!(kept.fresh(), None);
        for damaged in ["", "{", r#"{"version":2,"time":5,"text":"x","structured":null}"#] {
            std::fs::write(&kept.file, damaged).unwrap();
            assert_eq!(kept.of_any_age(), None);
        }
    }

    #[test]
    fn the_recipe_decides_whether_answers_are_kept_and_a_change_never_is() {
        let folder = Folder(PathBuf::from("/nonexistent"));
        let is_kept = |recipe: &RecipeFile, from_hook| folder.kept(recipe, from_hook, &["a"]).is_some();
        let (yes, no, open) =
            (recipe(Some(CacheKey::Context), None), recipe(Some(CacheKey::None), None), recipe(None, None));
        assert!(is_kept(&yes, false) && !is_kept(&no, true) && !is_kept(&open, false) && is_kept(&open, true));
        let output = Some(Output { kind: OutputKind::Changes, ..Output::default() });
        assert!(!is_kept(&RecipeFile { output, ..yes }, true));
    }
}
