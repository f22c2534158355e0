//! Words what the model reads when its arguments do not fit: the schema's message, what arrived, and a call that would
//! fit.

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{ValidationError, Validator};
use serde_json::{Map, Value};

/// Characters of the received arguments that a message shows.
const SHOWN: usize = 500;

/// Violations that one message names.
const NAMED: usize = 3;

/// Returns the first violations in the documented words, a missing parameter before a wrong one.
pub(super) fn problems(validator: &Validator, value: &Value) -> Vec<String> {
    let mut errors: Vec<_> = validator.iter_errors(value).collect();
    errors.sort_by_key(|error| !matches!(error.kind(), ValidationErrorKind::Required { .. }));
    let mut messages: Vec<String> = Vec::new();
    let mut places = Vec::new();
    for error in &errors {
        // A value of the wrong type breaks every other rule as well: the first says it.
        let place = error.instance_path().as_str();
        let is_required = matches!(error.kind(), ValidationErrorKind::Required { .. });
        if !is_required && places.contains(&place) {
            continue;
        }
        places.push(place);
        let message = message_of(error);
        if messages.len() < NAMED && !messages.contains(&message) {
            messages.push(message);
        }
    }
    messages
}

/// Combines the problems, the received arguments and an example.
pub(super) fn explain(name: &str, schema: &Value, problems: &[String], received: Map<String, Value>) -> String {
    format!(
        "{}\nReceived: {}\nA valid call of {name} has arguments like: {}",
        problems.join("; "),
        shorten(&Value::Object(received).to_string(), SHOWN),
        example(schema)
    )
}

/// Returns at most `most` characters.
pub(super) fn shorten(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn message_of(error: &ValidationError<'_>) -> String {
    let place = format!("params{}", error.instance_path());
    #[expect(clippy::wildcard_enum_match_arm, reason = "the library's own words are good enough for rare keywords")]
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().map_or_else(|| property.to_string(), str::to_owned);
            format!("{place} must have required property '{name}'")
        }
        ValidationErrorKind::Type { kind } => {
            let types: Vec<String> = match kind {
                TypeKind::Single(one) => vec![one.to_string()],
                TypeKind::Multiple(many) => many.iter().map(|one| one.to_string()).collect(),
            };
            format!("{place} must be {}", types.join(","))
        }
        ValidationErrorKind::Enum { options } => {
            format!("{place} must be equal to one of the allowed values: {options}")
        }
        ValidationErrorKind::Minimum { limit } => format!("{place} must be >= {limit}"),
        ValidationErrorKind::Maximum { limit } => format!("{place} must be <= {limit}"),
        ValidationErrorKind::MinLength { limit } => format!("{place} must NOT have fewer than {limit} characters"),
        ValidationErrorKind::MinItems { limit } => format!("{place} must NOT have fewer than {limit} items"),
        ValidationErrorKind::MaxItems { limit } => format!("{place} must NOT have more than {limit} items"),
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            format!("{place} must NOT have additional properties: '{}'", unexpected.join("', '"))
        }
        _ => format!("{place}: {}", shorten(&error.to_string(), 300)),
    }
}

/// Returns the types that a schema takes; none if it does not say.
pub(super) fn accepted(schema: &Value) -> Vec<&str> {
    let mut types = Vec::new();
    match schema.get("type") {
        Some(Value::String(one)) => types.push(one.as_str()),
        Some(Value::Array(many)) => types.extend(many.iter().filter_map(Value::as_str)),
        Some(_) | None => {
            for key in ["anyOf", "oneOf"] {
                for inner in schema.get(key).and_then(Value::as_array).into_iter().flatten() {
                    match inner.get("type") {
                        Some(Value::String(one)) => types.push(one.as_str()),
                        // A branch that takes anything takes strings too.
                        Some(_) | None => types.push("string"),
                    }
                }
            }
        }
    }
    types
}

/// Makes arguments that would be accepted, from the schema alone.
fn example(schema: &Value) -> Value {
    let property = |name: &str| schema.get("properties").and_then(|properties| properties.get(name));
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    Value::Object(
        required.map(|name| (name.to_owned(), placeholder(name, property(name).unwrap_or(&Value::Null)))).collect(),
    )
}

fn placeholder(name: &str, schema: &Value) -> Value {
    if let Some(first) = schema.get("enum").and_then(|options| options.get(0)) {
        return first.clone();
    }
    match accepted(schema).first() {
        Some(&"integer" | &"number") => Value::from(1),
        Some(&"boolean") => Value::Bool(true),
        Some(&"array") => Value::from(vec![placeholder(name, schema.get("items").unwrap_or(&Value::Null))]),
        Some(&"object") => example(schema),
        Some(_) | None => Value::from(match name {
            "file_path" | "paths" => "src/main.rs",
            "path" | "directory" => "src",
            "command" => "ls",
            "pattern" => "main",
            "url" => "https://example.com/",
            _ => "...",
        }),
    }
}
