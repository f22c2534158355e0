//! Bytes of a recipe file into its types: strict, bounded, and every refusal with its place.

use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::error::{Code, RecipeError, is_hidden};
use super::file::{KEYS, RESERVED, RecipeFile};
use super::scalar::{NUMBER, Place};
use crate::yaml::{self, MAX_BYTES, Spanned, YamlError, nearest};

/// The number of the format that is read.
pub const FORMAT: u64 = 1;

/// Reads one file. `name` is how messages call it.
pub fn parse(name: &str, bytes: &[u8]) -> Result<RecipeFile, RecipeError> {
    let file: Arc<str> = name.into();
    let at = |line: u64, column: u64| Place { file: Arc::clone(&file), line, column };
    if bytes.len() > MAX_BYTES {
        let message = format!("the file has {} bytes; at most {MAX_BYTES} are read", bytes.len());
        return Err(RecipeError::new(Code::R001, at(0, 0), message).help("move long texts into `prompt_file`"));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        let line = before.matches('\n').count() as u64 + 1;
        let column = before.lines().last().map_or(0, |line| line.chars().count()) as u64 + 1;
        RecipeError::new(Code::R001, at(line, column), "not UTF-8").help("save the file as UTF-8")
    })?;
    for (index, line) in text.lines().enumerate() {
        if let Some((column, c)) = line.chars().enumerate().find(|(_, c)| is_hidden(*c)) {
            let (line, column) = (index as u64 + 1, column as u64 + 1);
            let message = format!("hidden character U+{:04X} at {line}:{column}", u32::from(c));
            return Err(RecipeError::new(Code::R001, at(line, column), message).help("remove it").with_snippet(text));
        }
    }
    let fault = |code: Code, error: YamlError| {
        RecipeError::new(code, at(error.line, error.column), error.message).with_snippet(text)
    };
    let top: TopLevel = yaml::parse(name, text).map_err(|error| fault(Code::R002, error))?;
    if let Some(problem) = top.check(&at) {
        return Err(problem.with_snippet(text));
    }
    let mut recipe: RecipeFile = yaml::parse(name, text).map_err(|error| {
        let code = if error.message.starts_with("unknown key") { Code::R003 } else { Code::R005 };
        fault(code, error)
    })?;
    recipe.each_text(&mut |_, _, found| {
        found.place.file = Arc::clone(&file);
        if let Some(value) = found.value.strip_prefix(NUMBER) {
            found.value = spelling(text, &found.place, value).unwrap_or(value).to_owned();
        }
    });
    Ok(recipe)
}

/// Returns how the file spells a number, if the word at its place is that number.
fn spelling<'a>(text: &'a str, place: &Place, value: &str) -> Option<&'a str> {
    let line = text.lines().nth(usize::try_from(place.line).ok()?.checked_sub(1)?)?;
    let skipped = usize::try_from(place.column).ok()?.checked_sub(1)?;
    let (start, _) = line.char_indices().nth(skipped)?;
    let word = line[start..].split([' ', ',', ']', '}', '#']).next()?;
    (word.parse::<f64>() == value.parse::<f64>()).then_some(word)
}

/// The keys of the top level and the format number, read before everything else: a file of a later format is not to be
/// judged by this one's keys.
struct TopLevel {
    keys: Vec<(String, u64, u64)>,
    format: Option<serde_json::Value>,
    is_map: bool,
}

impl TopLevel {
    fn check(&self, at: &dyn Fn(u64, u64) -> Place) -> Option<RecipeError> {
        if !self.is_map {
            return Some(
                RecipeError::new(Code::R005, at(1, 1), "a recipe is a map of keys")
                    .help("begin with `recipe: 1`; `qwen recipe new NAME` writes one"),
            );
        }
        let place = |key: &str| {
            let found = self.keys.iter().find(|(known, _, _)| known == key);
            found.map_or_else(|| at(0, 0), |(_, line, column)| at(*line, *column))
        };
        let number = match &self.format {
            None => {
                return Some(
                    RecipeError::new(Code::R004, at(1, 1), "there is no `recipe:` key").help("begin with `recipe: 1`"),
                );
            }
            Some(serde_json::Value::String(text)) => text.parse().ok(),
            Some(value) => value.as_u64(),
        };
        match number {
            Some(FORMAT) => {}
            Some(number) => {
                let message = format!("this file is format {number}, this qwen reads {FORMAT}");
                return Some(RecipeError::new(Code::R004, place("recipe"), message).help("use a newer qwen"));
            }
            None => {
                let message = "`recipe` is the number of the format";
                return Some(RecipeError::new(Code::R004, place("recipe"), message).help("write `recipe: 1`"));
            }
        }
        let unknown = |key: &str| !KEYS.contains(&key) && !key.starts_with("x-");
        let (key, line, column) = self.keys.iter().find(|(key, _, _)| unknown(key))?;
        let error = |message: String| RecipeError::new(Code::R003, at(*line, *column), message);
        if RESERVED.contains(&key.as_str()) {
            return Some(
                error(format!("`{key}` is reserved for a later format"))
                    .help("compose recipes with `extends`, and runs with the shell"),
            );
        }
        Some(match nearest(key, KEYS.iter().copied()) {
            Some(near) => error(format!("unknown key `{key}`; did you mean `{near}`?")),
            None => error(format!("unknown key `{key}`"))
                .help("keys of your own begin with `x-`; `qwen schema recipe` lists the known ones"),
        })
    }
}

impl<'de> Deserialize<'de> for TopLevel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TopLevel, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = TopLevel;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of keys")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TopLevel, A::Error> {
                let mut top = TopLevel { keys: Vec::new(), format: None, is_map: true };
                while let Some(key) = map.next_key::<Spanned<String>>()? {
                    if key.value == "recipe" {
                        top.format = Some(map.next_value()?);
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                    top.keys.push((key.value, key.referenced.line(), key.referenced.column()));
                }
                Ok(top)
            }
            fn visit_unit<E>(self) -> Result<TopLevel, E> {
                Ok(TopLevel { keys: Vec::new(), format: None, is_map: false })
            }
        }
        deserializer.deserialize_map(Keys)
    }
}
