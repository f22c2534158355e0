//! Names the items of a list: each has a key, and no two have the same.

use std::collections::HashMap;

use serde_json::Value;

use super::item::{Fields, Item, KEY, Short, digest, field};

/// The fields that name an item if the first record has one of them, in this order.
const USUAL: [&str; 3] = ["id", "key", "custom_id"];

/// Maximum items of a list.
pub const ITEMS: u32 = 1_000_000;

/// Maximum bytes of a record.
pub const RECORD: usize = 1 << 20;

/// Why a record cannot become an item. Each names the line of the list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The field that names items is not in this record.
    #[error("line {line}: the record has no field `{field}`, which names the items")]
    Missing { line: u64, field: String },
    /// The field does not hold text or a number.
    #[error("line {line}: the key in `{field}` is neither text nor a number")]
    Kind { line: u64, field: String },
    /// The key is empty.
    #[error("line {line}: the key is empty")]
    Empty { line: u64 },
    /// The key is too long.
    #[error("line {line}: the key has {bytes} bytes; at most {KEY}")]
    Long { line: u64, bytes: usize },
    /// Two records have one key.
    #[error("line {line}: the key `{key}` is already that of line {first}")]
    Twice { line: u64, first: u64, key: String },
    /// The record is too large.
    #[error("line {line}: the record has {bytes} bytes; at most {RECORD}")]
    Large { line: u64, bytes: usize },
    /// The list is too long.
    #[error("line {line}: the list has more than {ITEMS} items")]
    Many { line: u64 },
}

/// Makes items of the records of one list.
#[derive(Debug, Default)]
pub struct Keys {
    field: Option<String>,
    lines: HashMap<Short, u64>,
}

impl Keys {
    /// Begins a list whose items are named by this field; `None`: by `id`, `key` or `custom_id` if the first record has
    /// one of them, else by the digest of the record.
    pub fn new(field: Option<String>) -> Keys {
        Keys { field, lines: HashMap::new() }
    }

    /// Makes the next item, of the record on this line. `content` is the digest of the file that it stands for, or empty.
    pub fn item(&mut self, line: u64, fields: Fields, content: &str) -> Result<Item, KeyError> {
        let bytes = serde_json::to_string(&fields).map_or(0, |text| text.len());
        if bytes > RECORD {
            return Err(KeyError::Large { line, bytes });
        }
        let n = u32::try_from(self.lines.len() + 1).ok().filter(|n| *n <= ITEMS).ok_or(KeyError::Many { line })?;
        if n == 1 && self.field.is_none() {
            let usual = USUAL.into_iter().find(|name| fields.contains_key(*name));
            self.field = usual.map(str::to_owned);
        }
        let key = match &self.field {
            Some(name) => named(line, name, &fields)?,
            None => digest("", &fields, content)[..16].to_owned(),
        };
        match key.len() {
            0 => return Err(KeyError::Empty { line }),
            bytes if bytes > KEY => return Err(KeyError::Long { line, bytes }),
            _ => {}
        }
        if let Some(first) = self.lines.get(&Short::of(&key)).copied() {
            return Err(KeyError::Twice { line, first, key });
        }
        self.lines.insert(Short::of(&key), line);
        Ok(Item::new(n, key, fields, content))
    }
}

fn named(line: u64, name: &str, fields: &Fields) -> Result<String, KeyError> {
    match field(fields, name) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Number(number)) => Ok(number.to_string()),
        Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) => {
            Err(KeyError::Kind { line, field: name.to_owned() })
        }
        None => Err(KeyError::Missing { line, field: name.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(keys: &mut Keys, line: u64, value: Value) -> Result<Item, KeyError> {
        keys.item(line, value.as_object().unwrap().clone(), "")
    }

    #[test]
    fn the_first_record_decides_which_field_names_the_items() {
        let mut keys = Keys::default();
        assert_eq!(of(&mut keys, 1, json!({"key": "k", "id": 7})).unwrap().key, "7");
        assert_eq!(of(&mut keys, 2, json!({"id": "b", "key": "k"})).unwrap().key, "b");
        let missing = of(&mut keys, 3, json!({"key": "c"}));
        assert_eq!(missing, Err(KeyError::Missing { line: 3, field: "id".into() }));
    }

    #[test]
    fn records_without_a_name_are_named_by_their_digest() {
        let mut keys = Keys::default();
        let first = of(&mut keys, 1, json!({"text": "a"})).unwrap();
        assert_eq!(first.key.len(), 16);
        let again = of(&mut keys, 9, json!({"text": "a"}));
        assert_eq!(again, Err(KeyError::Twice { line: 9, first: 1, key: first.key }));
        assert_eq!(of(&mut keys, 10, json!({"text": "b"})).unwrap().n, 2);
    }

    #[test]
    fn a_key_that_names_nothing_is_refused() {
        let key = |value: Value| of(&mut Keys::new(Some("/who/name".into())), 4, json!({"who": {"name": value}}));
        assert_eq!(key(json!("n")).unwrap().key, "n");
        assert_eq!(key(json!("")), Err(KeyError::Empty { line: 4 }));
        assert_eq!(key(json!([1])), Err(KeyError::Kind { line: 4, field: "/who/name".into() }));
        assert_eq!(key(json!("x".repeat(KEY + 1))), Err(KeyError::Long { line: 4, bytes: KEY + 1 }));
    }

    #[test]
    fn a_record_that_is_too_large_is_refused_with_its_line() {
        let large = of(&mut Keys::default(), 2, json!({"id": 1, "text": "x".repeat(RECORD)}));
        assert!(matches!(large, Err(KeyError::Large { line: 2, .. })));
    }
}
