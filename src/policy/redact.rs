//! Secrets: found in the environment and by their shape, masked in what the model reads, kept out of changes.
//!
//! Best effort, and said to be: what a command hashes or reverses is not recognised.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

use base64::Engine as _;
use regex::Regex;

use crate::change::{Change, diff};
use crate::path::RelPath;

/// The shortest value of a variable that counts.
const SHORTEST: usize = 8;

/// Shapes of tokens that are known by their beginning.
const SHAPES: &[(&str, &str)] = &[
    ("key", r"\bsk-(?:proj-|or-v1-|ant-|sp-)?[A-Za-z0-9_-]{20,}"),
    ("github-token", r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,})"),
    ("gitlab-token", r"\bglpat-[A-Za-z0-9_-]{20,}"),
    ("aws-key", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    ("google-key", r"\bAIza[A-Za-z0-9_-]{35}\b"),
    ("slack-token", r"\bxox[abprs]-[A-Za-z0-9-]{10,}"),
    ("npm-token", r"\bnpm_[A-Za-z0-9]{36}\b"),
    ("jwt", r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
    ("private-key", r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----"),
];

/// Words in the name of a variable that make its value a secret.
const SECRET_WORDS: &[&str] = &["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "PASSPHRASE"];

/// What counts as a secret in a run, and the placeholder of each that was met.
#[derive(Debug)]
pub struct Secrets {
    /// Every spelling of a variable's value, the longest first, with its placeholder.
    values: Vec<(String, String)>,
    shapes: Vec<(String, Regex)>,
    met: Mutex<HashMap<String, String>>,
}

impl Secrets {
    /// Finds the secrets of an environment. `patterns` are further shapes; the error names the one that is no pattern.
    pub fn new(variables: &BTreeMap<String, String>, patterns: &[String]) -> Result<Secrets, String> {
        let mut values = Vec::new();
        for (name, value) in variables.iter().filter(|(name, value)| is_secret(name, value)) {
            let placeholder = format!("[redacted:{name}]");
            values.extend(spellings(value.trim()).into_iter().map(|spelling| (spelling, placeholder.clone())));
        }
        values.sort_by_key(|(spelling, _)| std::cmp::Reverse(spelling.len()));
        let mut shapes = Vec::new();
        for (name, pattern) in SHAPES {
            let pattern = Regex::new(pattern).expect("the pattern is a constant and a test compiles it");
            shapes.push(((*name).to_owned(), pattern));
        }
        for pattern in patterns {
            let compiled = Regex::new(pattern).map_err(|error| format!("`{pattern}` is no pattern: {error}"))?;
            shapes.push(("pattern".to_owned(), compiled));
        }
        Ok(Secrets { values, shapes, met: Mutex::default() })
    }

    /// Names a secret that a change adds to a file; none where the file held it before, or where adding is allowed.
    pub fn added(&self, _path: &RelPath, change: &Change, refuses: bool) -> Option<String> {
        if !refuses {
            return None;
        }
        let before = String::from_utf8_lossy(diff::text_of(&change.before));
        let after = String::from_utf8_lossy(diff::text_of(&change.after));
        let value =
            self.values.iter().find(|(value, _)| after.contains(value.as_str()) && !before.contains(value.as_str()));
        if let Some((_, placeholder)) = value {
            return Some(placeholder.clone());
        }
        self.shapes.iter().find_map(|(name, shape)| {
            let new = shape.find_iter(&after).find(|found| !before.contains(found.as_str()));
            new.map(|_| format!("something with the shape of a {name}"))
        })
    }

    fn placeholder(&self, kind: &str, secret: &str) -> String {
        let mut met = self.met.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let number = met.len() + 1;
        met.entry(secret.to_owned()).or_insert_with(|| format!("[redacted:{kind}-{number}]")).clone()
    }
}

/// Masks secrets in a text and counts the places.
pub fn mask(secrets: &Secrets, text: String) -> (String, u64) {
    let mut count = 0;
    let mut masked = text;
    for (value, placeholder) in &secrets.values {
        let places = masked.matches(value.as_str()).count();
        if places > 0 {
            count += places as u64;
            masked = masked.replace(value.as_str(), placeholder);
        }
    }
    for (kind, shape) in &secrets.shapes {
        let replaced = shape.replace_all(&masked, |found: &regex::Captures<'_>| {
            count += 1;
            secrets.placeholder(kind, &found[0])
        });
        if let Cow::Owned(text) = replaced {
            masked = text;
        }
    }
    (masked, count)
}

fn is_secret(name: &str, value: &str) -> bool {
    let name = name.to_uppercase();
    let value = value.trim();
    SECRET_WORDS.iter().any(|word| name.contains(word))
        && value.len() >= SHORTEST
        // A path or a number is where a secret is, or how large; not one itself.
        && !value.starts_with('/')
        && !value.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns a secret as it is, in base64, percent-encoded and in hexadecimal.
fn spellings(value: &str) -> Vec<String> {
    let url: String = url::form_urlencoded::byte_serialize(value.as_bytes()).collect();
    let hex: String = value.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut all = vec![
        value.to_owned(),
        base64::engine::general_purpose::STANDARD_NO_PAD.encode(value),
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(value),
        hex.to_uppercase(),
        hex,
        url,
    ];
    all.sort();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Entry;

    fn secrets() -> Secrets {
        let variables =
            [("API_TOKEN", "hunter2-hunter2"), ("SSH_KEY_PATH", "/home/x/key"), ("MAX_TOKENS", "100000000")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        Secrets::new(&variables, &["ACME-[A-Z0-9]{20}".to_owned()]).unwrap()
    }

    #[test]
    fn a_secret_is_masked_in_every_spelling() {
        let secrets = secrets();
        let texts = ["a hunter2-hunter2 b", "aHVudGVyMi1odW50ZXIy", "68756e746572322d68756e74657232"];
        for text in texts {
            let (masked, count) = mask(&secrets, text.to_owned());
            assert!(masked.contains("[redacted:API_TOKEN]"), "{masked}");
            assert_eq!(count, 1);
        }
        assert_eq!(mask(&secrets, "/home/x/key 100000000".to_owned()).1, 0);
    }

    #[test]
    fn a_placeholder_stands_for_one_secret_and_is_the_same_each_time() {
        let secrets = secrets();
        let key = |letter: char| format!("sk-{}", letter.to_string().repeat(24));
        let text = format!("{} {} {} ACME-{}", key('a'), key('b'), key('a'), "A1".repeat(10));
        let (masked, count) = mask(&secrets, text);
        assert_eq!(count, 4);
        assert_eq!(masked, "[redacted:key-1] [redacted:key-2] [redacted:key-1] [redacted:pattern-3]");
    }

    #[test]
    fn a_change_that_adds_a_secret_is_named_and_one_that_keeps_it_is_not() {
        let secrets = secrets();
        let path = RelPath::new("a").unwrap();
        let change = |before: &str, after: &str| Change { before: Entry::file(before), after: Entry::file(after) };
        let adds = change("x", "x hunter2-hunter2");
        assert_eq!(secrets.added(&path, &adds, true), Some("[redacted:API_TOKEN]".into()));
        assert_eq!(secrets.added(&path, &adds, false), None);
        assert_eq!(secrets.added(&path, &change("hunter2-hunter2", "hunter2-hunter2 y"), true), None);
    }

    #[test]
    fn a_pattern_that_is_none_is_named() {
        assert!(Secrets::new(&BTreeMap::new(), &["(".to_owned()]).unwrap_err().contains("`(`"));
    }
}
