//! Finds secrets in the environment and by their form, masks them in what is read and printed, and keeps them out of
//! changes.
//!
//! Each secret has its own placeholder in the run, and text that already looks like a placeholder is masked as well, so
//! restoring what was masked always gives the same text. This is best effort: a secret that a command hashes or
//! reverses is not recognised.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use regex::Regex;

use super::pieces::Pieces;
use super::shapes::SHAPES;
use super::spellings::{secrets_in, spellings};
use crate::change::{Change, Entry, diff};
use crate::path::RelPath;

/// What a placeholder looks like.
const PLACEHOLDER: &str = r"\[redacted:(?-u:[A-Za-z0-9_.-]{1,200})\]";

/// The longest private key that is waited for while a text is streamed.
const LONGEST_KEY: usize = 16 << 10;

/// How much of a text is looked at together for pieces of keys, in bytes: less than what is remembered of such.
const WINDOW: usize = 128 << 10;

/// How many different sets of secrets keep their expressions.
const MOST_FINDERS: usize = 4;

/// What counts as a secret in a run, and the placeholder of each that was met.
#[derive(Debug)]
pub struct Secrets {
    /// Every spelling of a variable's value, with the name of its placeholder.
    values: HashMap<String, String>,
    patterns: Vec<(String, String)>,
    /// Made when the first text comes.
    finder: OnceLock<Arc<Finder>>,
    met: Mutex<Met>,
    /// Whether the conversation has placeholders of an earlier run, which mean nothing in this one.
    is_resumed: AtomicBool,
    /// The private keys whose pieces are secrets as well.
    pieces: RwLock<Pieces>,
}

/// Placeholders that were given out.
#[derive(Debug, Default)]
struct Met {
    of_text: HashMap<String, String>,
    of_placeholder: HashMap<String, Origin>,
    /// Those of an earlier run that the conversation continues: what they stand for is not known.
    earlier: HashSet<String>,
}

/// What a placeholder stands for.
#[derive(Debug, Clone)]
struct Origin {
    text: String,
    /// It is not a secret: the text looked like a placeholder by itself.
    is_plain: bool,
}

#[derive(Debug)]
struct Finder {
    any: Regex,
    kinds: Vec<(String, Regex)>,
    placeholder: Regex,
}

/// Why a text with placeholders cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the placeholder redacted:{name} stands for a secret that this file did not hold when the run began, or for one of an \
     earlier run; read the file again and leave that part as it is, or write a reference to the secret's variable instead"
)]
pub struct NotHeld {
    /// The placeholder's name.
    pub name: String,
}

/// Why a pattern of the policy cannot find secrets.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SecretPatternError {
    /// It is not a regular expression.
    #[error("`{pattern}` is not a pattern: {cause}")]
    Invalid {
        /// The pattern.
        pattern: String,
        /// Why not.
        cause: regex::Error,
    },
    /// It matches the empty text.
    #[error("`{0}` matches the empty text, so it would match everywhere")]
    MatchesEverywhere(String),
}

impl Finder {
    /// Tells whether these are its shapes, by their names.
    fn has(&self, patterns: &[(String, String)]) -> bool {
        self.kinds.iter().map(|(kind, _)| kind).eq(patterns.iter().map(|(kind, _)| kind))
    }
}

impl Secrets {
    /// Finds the secrets of an environment. `patterns` are further shapes.
    pub fn new(variables: &BTreeMap<String, String>, patterns: &[String]) -> Result<Secrets, SecretPatternError> {
        let (mut values, mut pieces) = (HashMap::new(), Pieces::default());
        for (name, secret) in variables.iter().flat_map(|(name, value)| secrets_in(name, value)) {
            if Pieces::concerns(&secret, false) {
                pieces.notice(&secret, false);
            }
            for (kind, spelling) in spellings(&secret) {
                // A value under two names keeps the first one.
                values.entry(spelling).or_insert_with(|| match kind {
                    "" => name.clone(),
                    kind => format!("{name}.{kind}"),
                });
            }
        }
        let mut shapes: Vec<(String, String)> =
            SHAPES.iter().map(|(name, pattern)| ((*name).to_owned(), (*pattern).to_owned())).collect();
        for pattern in patterns {
            let invalid = |cause| SecretPatternError::Invalid { pattern: pattern.clone(), cause };
            if Regex::new(pattern).map_err(invalid)?.is_match("") {
                return Err(SecretPatternError::MatchesEverywhere(pattern.clone()));
            }
            shapes.push(("pattern".to_owned(), format!("(?:{pattern})")));
        }
        let pieces = RwLock::new(pieces);
        let (finder, met, is_resumed) = (OnceLock::new(), Mutex::default(), AtomicBool::new(false));
        Ok(Secrets { values, patterns: shapes, finder, met, is_resumed, pieces })
    }

    /// One expression finds everything in one pass: its literal beginnings are searched at the same time.
    fn finder(&self) -> &Finder {
        self.finder.get_or_init(|| {
            let compile = |pattern: &str| {
                regex::RegexBuilder::new(pattern).size_limit(64 << 20).build().expect("each part was compiled alone")
            };
            let mut values: Vec<&String> = self.values.keys().collect();
            values.sort_by_key(|value| (std::cmp::Reverse(value.len()), *value));
            let parts: Vec<String> = values
                .into_iter()
                .map(|value| regex::escape(value))
                .chain(self.patterns.iter().map(|(_, pattern)| pattern.clone()))
                .chain([PLACEHOLDER.to_owned()])
                .collect();
            // The items of a batch have the same secrets: to compile the expressions takes longer than all else of an item.
            static KNOWN: Mutex<VecDeque<(String, Arc<Finder>)>> = Mutex::new(VecDeque::new());
            let expression = parts.join("|");
            let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((_, finder)) = known.iter().find(|(of, finder)| *of == expression && finder.has(&self.patterns))
            {
                return Arc::clone(finder);
            }
            let finder = Arc::new(Finder {
                any: compile(&expression),
                kinds: self.patterns.iter().map(|(kind, pattern)| (kind.clone(), compile(pattern))).collect(),
                placeholder: compile(PLACEHOLDER),
            });
            known.push_front((expression, Arc::clone(&finder)));
            known.truncate(MOST_FINDERS);
            finder
        })
    }

    /// Masks secrets in a text that the model is to read, and counts the places.
    pub fn mask<'t>(&self, text: &'t str) -> (Cow<'t, str>, u64) {
        self.replaced(text, false, false)
    }

    /// As [`Secrets::mask`], in a part of something: what looks like lines of a private key counts as well.
    pub fn mask_part<'t>(&self, text: &'t str) -> (Cow<'t, str>, u64) {
        self.replaced(text, false, true)
    }

    /// As [`Secrets::mask_part`], in a text whose parts may have been masked already: their placeholders stay as they are.
    pub fn mask_rest<'t>(&self, text: &'t str) -> (Cow<'t, str>, u64) {
        self.replaced(text, true, true)
    }

    /// Masks secrets in a text that people and logs see: placeholders that are there already stay as they are.
    pub fn hide<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.replaced(text, true, false).0
    }

    /// Looks at a text of which only a part may be shown: pieces of its private keys are masked from now on. `is_part`: the
    /// text is a part itself, so that what looks like lines of a key counts as well.
    pub fn notice(&self, text: &str, is_part: bool) {
        // Nearly no text has any: readers in parallel do not wait for each other.
        if Pieces::concerns(text, is_part) {
            self.pieces.write().unwrap_or_else(PoisonError::into_inner).notice(text, is_part);
        }
    }

    /// Finds the pieces of private keys in a text. A long part is looked at in windows: what comes later in it may make the
    /// earlier keys forgotten.
    fn pieces_in(&self, text: &str, is_part: bool) -> Vec<Range<usize>> {
        self.notice(text, false);
        let window = if is_part { WINDOW } else { usize::MAX };
        let (mut found, mut start) = (Vec::new(), 0);
        while start < text.len() {
            let most = text.floor_char_boundary(start.saturating_add(window));
            let line = text[start..most].rfind('\n').map_or(most, |end| start + end + 1);
            let end = if most == text.len() { most } else { line };
            let part = &text[start..end];
            if is_part {
                self.notice(part, true);
            }
            let pieces = self.pieces.read().unwrap_or_else(PoisonError::into_inner).find(part);
            found.extend(pieces.into_iter().map(|piece| start + piece.start..start + piece.end));
            start = end;
        }
        found
    }

    fn replaced<'t>(&self, text: &'t str, placeholders_stay: bool, is_part: bool) -> (Cow<'t, str>, u64) {
        let finder = self.finder();
        let named = |found: regex::Match<'t>| (found.range(), self.kind(finder, text, found.start(), found.as_str()));
        let mut found: Vec<(Range<usize>, Option<Kind<'_>>)> = finder.any.find_iter(text).map(named).collect();
        let whole = found.len();
        for piece in self.pieces_in(text, is_part) {
            let after = found[..whole].partition_point(|(at, _)| at.end <= piece.start);
            if found[..whole].get(after).is_none_or(|(at, _)| piece.end <= at.start) {
                found.push((piece, Some(Kind::Shape("piece"))));
            }
        }
        found.sort_by_key(|(at, _)| at.start);
        let mut masked = String::new();
        let (mut done, mut count) = (0, 0);
        for (at, kind) in found {
            if kind.is_none() && placeholders_stay {
                continue;
            }
            count += u64::from(kind.is_some());
            masked.push_str(&text[done..at.start]);
            masked.push_str(&self.placeholder(kind, &text[at.clone()]));
            done = at.end;
        }
        if done == 0 {
            return (Cow::Borrowed(text), 0);
        }
        masked.push_str(&text[done..]);
        (Cow::Owned(masked), count)
    }

    /// Names what was found; `None` for what only looks like a placeholder.
    fn kind<'s>(&'s self, finder: &'s Finder, text: &str, start: usize, found: &str) -> Option<Kind<'s>> {
        if let Some(name) = self.values.get(found) {
            return Some(Kind::Value(name));
        }
        // One character more, for what must be the end of a word.
        let end = start + found.len();
        let seen = &text[start..text[end..].chars().next().map_or(end, |next| end + next.len_utf8())];
        let starts_here = |shape: &Regex| shape.find(seen).is_some_and(|at| at.start() == 0);
        finder.kinds.iter().find(|(_, shape)| starts_here(shape)).map(|(kind, _)| Kind::Shape(kind))
    }

    fn placeholder(&self, kind: Option<Kind<'_>>, text: &str) -> String {
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = met.of_text.get(text) {
            return known.clone();
        }
        let mut number = met.of_text.len();
        let placeholder = loop {
            number += 1;
            let name = match kind {
                Some(Kind::Value(name)) => name.replace(|c: char| !c.is_ascii_alphanumeric() && c != '.', "_"),
                Some(Kind::Shape(kind)) => format!("{kind}-{number}"),
                None => format!("text-{number}"),
            };
            // Neither one that stands for something, nor a text that itself looks like one.
            let is_value = matches!(kind, Some(Kind::Value(_)));
            let taken = |name: &str| {
                let placeholder = format!("[redacted:{name}]");
                met.of_placeholder.contains_key(&placeholder)
                    || met.of_text.contains_key(&placeholder)
                    || placeholder == text
                    || !is_value && met.earlier.contains(&placeholder)
            };
            if !taken(&name) {
                break format!("[redacted:{name}]");
            }
            let name = format!("{name}-{number}");
            if !taken(&name) {
                break format!("[redacted:{name}]");
            }
        };
        met.of_text.insert(text.to_owned(), placeholder.clone());
        met.of_placeholder.insert(placeholder.clone(), Origin { text: text.to_owned(), is_plain: kind.is_none() });
        placeholder
    }

    /// Returns how much of a text that continues can be shown: what is after may be the beginning of a secret.
    ///
    /// Only private keys and some values contain spaces, so what is shown ends before its last word.
    /// `most` bounds what is kept back: without a space in so many bytes only values and what has begun to look like a
    /// shape are.
    pub fn settled(&self, text: &str, most: usize) -> usize {
        let last_word = text.trim_end_matches(|c: char| !c.is_whitespace()).len();
        let mut end =
            if text.len() - last_word > most { text.floor_char_boundary(text.len() - most) } else { last_word };
        // A value that is cut by the end of the text: its beginning is the end of what there is.
        let with_blanks = self.values.keys().filter(|value| value.contains(char::is_whitespace));
        for value in with_blanks {
            let longest = value.len().min(text.len());
            let begun =
                (1..=longest).rev().find(|length| value.is_char_boundary(*length) && text.ends_with(&value[..*length]));
            end = end.min(text.len() - begun.unwrap_or(0));
        }
        // A key that has begun and not ended yet.
        let has_ended = |key: &str| key.split_once("-----END ").is_some_and(|(_, rest)| rest.contains("-----"));
        if let Some(begun) = text.rfind("-----BEGIN ")
            && !has_ended(&text[begun..])
            && text.len() - begun <= LONGEST_KEY
        {
            end = end.min(begun);
        }
        // A match that spans the end is held back as a whole.
        for found in self.finder().any.find_iter(text) {
            if found.start() < end && end < found.end() {
                end = found.start();
            }
        }
        end
    }

    /// Notes that the conversation continues an earlier one, with this text: what stands for a secret there cannot be put
    /// back, and its names are not given to other secrets.
    pub fn resume(&self, text: &str) {
        self.is_resumed.store(true, Ordering::Relaxed);
        let found = self.finder().placeholder.find_iter(text).map(|found| found.as_str().to_owned());
        self.met.lock().unwrap_or_else(PoisonError::into_inner).earlier.extend(found);
    }

    /// Replaces placeholders of this run by their secrets. `held` is the file as it was when the run began: a secret
    /// that it did not contain is not written into it. Text that only looks like a placeholder is not changed.
    pub fn restore<'t>(&self, text: &'t str, held: &str) -> Result<Cow<'t, str>, NotHeld> {
        if !text.contains("[redacted:") {
            return Ok(Cow::Borrowed(text));
        }
        let met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        let mut refused = None;
        let restored = self.finder().placeholder.replace_all(text, |found: &regex::Captures<'_>| {
            let mut origin = met.of_placeholder.get(&found[0]);
            // What was masked twice, as the answer of an agent is, stands for a placeholder that stands for the secret.
            let mut last = origin;
            for _ in 0..met.of_placeholder.len() {
                let plain = last.filter(|origin| origin.is_plain && !held.contains(&origin.text));
                let Some(inner) = plain.and_then(|plain| met.of_placeholder.get(&plain.text)) else { break };
                last = Some(inner);
            }
            if last.is_some_and(|last| !last.is_plain) {
                origin = last;
            }
            match origin {
                None if held.contains(&found[0]) || !self.is_resumed.load(Ordering::Relaxed) => found[0].to_owned(),
                None => {
                    refused.get_or_insert_with(|| NotHeld { name: name_of(&found[0]) });
                    String::new()
                }
                Some(origin) if origin.is_plain || held.contains(&origin.text) => origin.text.clone(),
                Some(_) => {
                    refused.get_or_insert_with(|| NotHeld { name: name_of(&found[0]) });
                    String::new()
                }
            }
        });
        match refused {
            Some(refused) => Err(refused),
            None => Ok(restored),
        }
    }

    /// Names a secret that a change adds to a file, or with the name of a new one; none where the file held it before, or
    /// where adding is allowed.
    pub fn added(&self, path: &RelPath, change: &Change, refuses: bool) -> Option<String> {
        if !refuses {
            return None;
        }
        let name = path.to_string_lossy();
        if let Some(found) = self.all_in(&name).first().filter(|_| change.before == Entry::Absent) {
            return Some(format!("{} in its name", found.what()));
        }
        let before = String::from_utf8_lossy(diff::text_of(&change.before));
        let after = String::from_utf8_lossy(diff::text_of(&change.after));
        let found =
            self.all_in(&after).into_iter().find(|found| !before.contains(found.text)).map(|found| found.what());
        let pieces = || self.pieces.read().unwrap_or_else(PoisonError::into_inner).find_marked(&after);
        let lines = || pieces().into_iter().find(|piece| !before.contains(&after[piece.clone()]));
        found.or_else(|| lines().map(|_| "lines of a private key".to_owned()))
    }

    /// Names the secrets that a text shows, each once.
    pub fn shown_in(&self, text: &str) -> Vec<String> {
        let mut names: Vec<String> = self.all_in(text).iter().map(FoundSecret::what).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Finds the secrets that a text shows, in its order.
    pub fn all_in<'s, 't>(&'s self, text: &'t str) -> Vec<FoundSecret<'s, 't>> {
        let finder = self.finder();
        let named = |found: regex::Match<'t>| {
            let kind = self.kind(finder, text, found.start(), found.as_str())?;
            Some(FoundSecret { at: found.start(), text: found.as_str(), kind })
        };
        finder.any.find_iter(text).filter_map(named).collect()
    }
}

/// A secret in a text.
#[derive(Debug, Clone, Copy)]
pub struct FoundSecret<'s, 't> {
    /// Where it begins, in bytes.
    pub at: usize,
    /// The secret itself.
    pub text: &'t str,
    /// What it was known by.
    pub kind: Kind<'s>,
}

impl FoundSecret<'_, '_> {
    /// Says what it is, without its text.
    fn what(&self) -> String {
        match self.kind {
            Kind::Value(name) => format!("the value of {name}"),
            Kind::Shape(kind) => format!("something with the shape of {kind}"),
        }
    }
}

/// What a secret was known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind<'s> {
    /// It is the value of this variable, or another spelling of it.
    Value(&'s str),
    /// It has a known shape; `pattern` is one of the policy's own.
    Shape(&'s str),
}

/// Returns every spelling of every secret of an environment.
pub fn texts(variables: &BTreeMap<String, String>) -> Vec<String> {
    let secrets = variables.iter().flat_map(|(name, value)| secrets_in(name, value));
    secrets.flat_map(|(_, secret)| spellings(&secret)).map(|(_, text)| text).collect()
}

fn name_of(placeholder: &str) -> String {
    placeholder.trim_start_matches("[redacted:").trim_end_matches(']').to_owned()
}

/// Masks secrets in a text and counts the places.
pub fn mask(secrets: &Secrets, text: String) -> (String, u64) {
    match secrets.mask(&text) {
        (Cow::Borrowed(_), _) => (text, 0),
        (Cow::Owned(masked), count) => (masked, count),
    }
}
