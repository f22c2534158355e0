//! Simplifies a tool's schema so that every provider accepts it: no references, no keywords that some refuse.

use serde_json::{Map, Value, json};

/// Maximum nesting depth of schemas.
const DEPTH: usize = 24;

/// How many parts a schema may have once its references are put in.
const PARTS: usize = 4_000;

/// Keys under which every value is a schema by name.
const BY_NAME: &[&str] = &["properties", "patternProperties", "dependentSchemas"];

/// Keys whose value is data.
const DATA: &[&str] = &["enum", "const", "examples", "default", "required"];

/// Returns the schema for the model: references resolved, `$schema`, `additionalProperties` and definitions dropped, a
/// `default` next to `anyOf` dropped. A reference that is circular, or leads nowhere, becomes one that takes anything.
///
/// The error says why a schema cannot be used.
pub fn clean(schema: &Map<String, Value>) -> Result<Value, String> {
    match schema.get("type") {
        None => {}
        Some(Value::String(kind)) if kind == "object" => {}
        Some(kind) => return Err(format!("its parameters are {kind} and not an object")),
    }
    let root = Value::Object(schema.clone());
    let mut cleaner = Cleaner { root: &root, parts: 0 };
    let mut cleaned = cleaner.schema(&root, &mut Vec::new(), 0)?;
    if let Value::Object(map) = &mut cleaned {
        if map.get("type").is_none() {
            map.insert("type".to_owned(), json!("object"));
        }
        if !map.get("properties").is_some_and(Value::is_object) {
            map.insert("properties".to_owned(), json!({}));
        }
    }
    jsonschema::validator_for(&cleaned).map_err(|error| format!("its schema is not valid: {error}"))?;
    Ok(cleaned)
}

struct Cleaner<'a> {
    root: &'a Value,
    parts: usize,
}

impl Cleaner<'_> {
    fn schema(&mut self, schema: &Value, within: &mut Vec<String>, depth: usize) -> Result<Value, String> {
        self.parts += 1;
        if depth > DEPTH || self.parts > PARTS {
            return Err("its schema is too large".to_owned());
        }
        let map = match schema {
            Value::Object(map) => map,
            Value::Array(items) => {
                let items = items.iter().map(|item| self.schema(item, within, depth + 1));
                return items.collect::<Result<Vec<_>, _>>().map(Value::Array);
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return Ok(schema.clone()),
        };
        if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
            return self.reference(reference, map, within, depth);
        }
        let mut cleaned = Map::new();
        for (key, value) in map {
            let key = key.as_str();
            let value = match key {
                "$schema"
                | "$id"
                | "$comment"
                | "$anchor"
                | "additionalProperties"
                | "unevaluatedProperties"
                | "$defs"
                | "definitions" => continue,
                "default" if map.contains_key("anyOf") => continue,
                key if BY_NAME.contains(&key) => match value {
                    Value::Object(parts) => {
                        let mut named = Map::new();
                        for (name, part) in parts {
                            named.insert(name.clone(), self.schema(part, within, depth + 1)?);
                        }
                        Value::Object(named)
                    }
                    Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => continue,
                },
                key if DATA.contains(&key) => value.clone(),
                _ => self.schema(value, within, depth + 1)?,
            };
            cleaned.insert(key.to_owned(), value);
        }
        Ok(Value::Object(cleaned))
    }

    fn reference(
        &mut self,
        reference: &str,
        beside: &Map<String, Value>,
        within: &mut Vec<String>,
        depth: usize,
    ) -> Result<Value, String> {
        let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        let mut cleaned = match target {
            Some(target) if !within.iter().any(|open| open == reference) => {
                within.push(reference.to_owned());
                let target = target.clone();
                let cleaned = self.schema(&target, within, depth + 1);
                within.pop();
                cleaned?
            }
            Some(_) | None => json!({}),
        };
        // What is next to a reference says more about this place than its target does.
        if let (Value::Object(map), Some(Value::String(text))) = (&mut cleaned, beside.get("description")) {
            map.insert("description".to_owned(), text.as_str().into());
        }
        Ok(cleaned)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cleaned(schema: Value) -> Result<Value, String> {
        clean(schema.as_object().unwrap())
    }

    #[test]
    fn words_that_providers_refuse_are_dropped_at_every_depth() {
        let schema = json!({
            "$schema": "x", "type": "object", "additionalProperties": false, "required": ["a"],
            "properties": {
                "a": {"anyOf": [{"type": "string", "default": "x"}, {"type": "null"}], "default": null},
                "b": {"type": "object", "properties": {"c": {"anyOf": [{}], "default": 1}, "d": {"default": 2}}},
                "default": {"type": "object", "additionalProperties": {"type": "string"}},
                "$schema": {"type": "string"}
            }
        });
        assert_eq!(
            cleaned(schema).unwrap(),
            json!({"type": "object", "required": ["a"], "properties": {
                "a": {"anyOf": [{"type": "string", "default": "x"}, {"type": "null"}]},
                "b": {"type": "object", "properties": {"c": {"anyOf": [{}]}, "d": {"default": 2}}},
                "default": {"type": "object"},
                "$schema": {"type": "string"}
            }})
        );
    }

    #[test]
    fn references_are_put_in_and_circles_are_cut() {
        let schema = json!({
            "type": "object",
            "properties": {
                "n": {"$ref": "#/$defs/node", "description": "The tree"},
                "out": {"$ref": "https://evil.example/schema"},
                "gone": {"$ref": "#/$defs/gone"}
            },
            "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "v": {"type": "integer"}}}}
        });
        assert_eq!(
            cleaned(schema).unwrap()["properties"],
            json!({
                "n": {"type": "object", "properties": {"next": {}, "v": {"type": "integer"}}, "description": "The tree"},
                "out": {}, "gone": {}
            })
        );
    }

    #[test]
    fn a_schema_that_grows_without_end_is_refused() {
        let mut defs = Map::new();
        for level in 0..20 {
            let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
            defs.insert(
                format!("d{level}"),
                json!({"type": "object", "properties": {"a": next, "b": next, "c": next}}),
            );
        }
        let schema = json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": defs});
        assert_eq!(cleaned(schema).unwrap_err(), "its schema is too large");
    }

    #[test]
    fn what_is_no_object_is_refused_and_nothing_is_an_empty_one() {
        assert!(cleaned(json!({"type": "array"})).unwrap_err().contains("not an object"));
        assert!(cleaned(json!({"type": "object", "properties": {"a": {"type": "nonsense"}}})).is_err());
        assert_eq!(cleaned(json!({})).unwrap(), json!({"type": "object", "properties": {}}));
    }

    proptest! {
        #[test]
        fn no_schema_makes_it_panic(text in r#"[\[\]{}":,a$efnd/#01 ]{0,60}"#) {
            if let Ok(Value::Object(map)) = serde_json::from_str(&text) {
                let _ = clean(&map);
            }
        }
    }
}
