//! Defines an item of a batch: its key, its digest, and the name of its files.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::base::digest::sha256;

/// The fields of an item, as the list gives them.
pub type Fields = Map<String, Value>;

/// Maximum bytes of a key.
pub const KEY: usize = 512;

/// Maximum bytes of the part of a file's name that comes from the key.
const SLUG: usize = 80;

/// An item: a line of `items.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Item {
    /// Its number in the list, from 1.
    pub n: u32,
    /// Its key, unique in the list.
    pub key: String,
    /// The digest of key, fields and, for a file, its content.
    pub sha256: String,
    /// Its fields.
    pub fields: Fields,
}

impl Item {
    /// Makes an item. `content` is the digest of the file that it stands for, or empty.
    pub fn new(n: u32, key: String, fields: Fields, content: &str) -> Item {
        let sha256 = digest(&key, &fields, content);
        Item { n, key, sha256, fields }
    }

    /// Returns the beginning of the names of its files: a key never becomes a path by itself.
    pub fn stem(&self) -> String {
        stem(self.n, &self.key)
    }

    /// Finds a field by its name, or by a JSON pointer.
    pub fn field(&self, name: &str) -> Option<&Value> {
        field(&self.fields, name)
    }
}

/// Finds a field by its name, or by a JSON pointer such as `/user/name`.
pub fn field<'a>(fields: &'a Fields, name: &str) -> Option<&'a Value> {
    match name.strip_prefix('/') {
        None => fields.get(name),
        Some(rest) => {
            let unescaped = |part: &str| part.replace("~1", "/").replace("~0", "~");
            let (first, below) = rest.split_once('/').map_or((rest, None), |(first, below)| (first, Some(below)));
            let value = fields.get(&unescaped(first))?;
            below.map_or(Some(value), |below| value.pointer(&format!("/{below}")))
        }
    }
}

/// Returns the beginning of the names of an item's files.
pub fn stem(n: u32, key: &str) -> String {
    format!("{n:06}-{}", slug(key))
}

/// Returns the beginning of the names of files that do not depend on the number of the item.
pub fn stem_of_key(key: &str) -> String {
    format!("{}-{}", &sha256(key.as_bytes())[..12], slug(key))
}

fn slug(key: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    key.chars().map(plain).take(SLUG).collect()
}

/// Returns the digest of an item.
pub fn digest(key: &str, fields: &Fields, content: &str) -> String {
    let text = |value: &Value| serde_json::to_string(value).expect("a JSON value is text");
    sha256(
        format!("{}\n{}\n{content}", text(&Value::from(key)), text(&sorted(&Value::Object(fields.clone())))).as_bytes(),
    )
}

/// Returns a value whose objects have their members in the order of their names.
pub fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<(String, Value)> =
                members.iter().map(|(name, value)| (name.clone(), sorted(value))).collect();
            members.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(members.into_iter().collect())
        }
        Value::Array(values) => Value::Array(values.iter().map(sorted).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// A digest that is short enough to keep one for each of a million items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Short([u8; 16]);

impl Short {
    /// Shortens the digest of a text.
    pub fn of(text: &str) -> Short {
        let digest: [u8; 32] = Sha256::digest(text).into();
        Short(std::array::from_fn(|at| digest[at]))
    }

    /// Shortens a digest in hexadecimal digits; what is not one is digested first.
    pub fn of_hex(hex: &str) -> Short {
        let digit = |at: usize| char::from(*hex.as_bytes().get(at)?).to_digit(16);
        let mut bytes = [0; 16];
        for (at, byte) in bytes.iter_mut().enumerate() {
            match digit(2 * at).zip(digit(2 * at + 1)) {
                Some((high, low)) => *byte = (high << 4 | low) as u8,
                None => return Short::of(hex),
            }
        }
        Short(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn fields(value: Value) -> Fields {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn a_digest_depends_on_key_fields_and_content_and_not_on_the_order_of_members() {
        let digest_of = |key: &str, value: Value, content: &str| digest(key, &fields(value), content);
        let one = digest_of("k", json!({"a": 1, "b": {"c": [1], "d": 2}}), "");
        assert_eq!(one, digest_of("k", json!({"b": {"d": 2, "c": [1]}, "a": 1}), ""));
        for other in [
            digest_of("l", json!({"a": 1, "b": {"c": [1], "d": 2}}), ""),
            digest_of("k", json!({"a": 2, "b": {"c": [1], "d": 2}}), ""),
            digest_of("k", json!({"a": 1, "b": {"c": [1], "d": 2}}), "x"),
        ] {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn a_field_is_found_by_its_name_or_by_a_pointer() {
        let of = fields(json!({"a": {"b/c": [7]}, "/a": 1}));
        assert_eq!(field(&of, "/a/b~1c/0"), Some(&json!(7)));
        assert_eq!(field(&of, "a"), Some(&json!({"b/c": [7]})));
        assert_eq!(field(&of, "/nothing"), None);
    }

    proptest! {
        #[test]
        fn a_key_never_becomes_a_path(n in 1_u32.., key in any::<String>()) {
            let stem = stem(n, &key);
            prop_assert!(!stem.contains('/') && !stem.contains('\0') && !stem.starts_with('.'));
            prop_assert!(stem.len() <= 11 + SLUG && stem.bytes().next().unwrap().is_ascii_digit());
        }
    }
}
