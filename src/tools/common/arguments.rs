//! Fitting the arguments of a call to a tool's schema: aliases, then validation, then a bounded coercion.

use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::{Map, Value};

use crate::tools::ToolError;

/// Arguments that fit the schema, and what had to be done for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// The arguments.
    pub arguments: Map<String, Value>,
    /// What was corrected, one short sentence each; empty for a model that calls well.
    pub notes: Vec<String>,
}

/// Other names that models use for a parameter. A name counts only where the tool has no parameter of that name,
/// and only where the real one is missing.
const ALIASES: &[(&str, &[&str])] = &[
    ("file_path", &["path", "file", "filename", "file_name", "absolute_path", "target_file"]),
    ("path", &["dir_path", "dir", "directory", "folder", "absolute_path", "file_path", "filename", "file"]),
    ("paths", &["path", "files", "file_paths", "file_path"]),
    ("directory", &["dir_path", "dir", "cwd", "workdir", "path"]),
    ("command", &["cmd", "script", "bash"]),
    ("old_string", &["old_str", "search", "old_text", "old"]),
    ("new_string", &["new_str", "replace", "new_text", "new"]),
    ("content", &["contents", "text", "file_text", "code"]),
    ("pattern", &["regex", "query"]),
    ("include", &["glob"]),
    ("maxResults", &["limit"]),
    ("timeout", &["timeout_ms"]),
];

/// Fits the arguments of a built-in tool: aliases, validation, coercion; parameters that it does not have are
/// dropped with a note.
pub fn fit_builtin(name: &str, schema: &Value, arguments: Map<String, Value>) -> Result<Fitted, ToolError> {
    let mut notes = Vec::new();
    let arguments = unwrapped(schema, arguments, &mut notes);
    let arguments = with_aliases(schema, arguments);
    let mut fitted = fit_after(name, schema, arguments, notes)?;
    let unknown: Vec<String> = fitted.arguments.keys().filter(|key| property(schema, key).is_none()).cloned().collect();
    for key in unknown {
        fitted.arguments.shift_remove(&key);
        fitted.notes.push(format!("{name} has no parameter '{key}': it was left out"));
    }
    Ok(fitted)
}

/// Fits the arguments of a tool whose schema is not ours: validation, coercion.
pub fn fit(name: &str, schema: &Value, arguments: Map<String, Value>) -> Result<Fitted, ToolError> {
    let mut notes = Vec::new();
    let arguments = unwrapped(schema, arguments, &mut notes);
    fit_after(name, schema, arguments, notes)
}

fn fit_after(
    name: &str,
    schema: &Value,
    arguments: Map<String, Value>,
    mut notes: Vec<String>,
) -> Result<Fitted, ToolError> {
    let failed = |problem: String, arguments: &Value| ToolError::arguments(explain(name, schema, &problem, arguments));
    let validator = jsonschema::validator_for(schema)
        .map_err(|error| ToolError::failed(format!("the schema of {name} is not valid: {error}")))?;
    let mut value = Value::Object(arguments);
    // `5.0` is an integer to the schema, and would be none to the tool.
    for (key, value) in value.as_object_mut().into_iter().flatten() {
        if let (Some("integer"), Value::Number(number)) = (property(schema, key).and_then(type_of), &*value)
            && number.is_f64()
            && let Some(whole) = number.as_f64().and_then(integer)
        {
            *value = whole;
        }
    }
    if first_problem(&validator, &value).is_some() {
        let given = value.clone();
        coerce(schema, &mut value, "params", &mut notes);
        if let Some(problem) = first_problem(&validator, &value) {
            return Err(failed(problem, &given));
        }
    }
    match value {
        Value::Object(arguments) => Ok(Fitted { arguments, notes }),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            Err(failed("params must be object".to_owned(), &other))
        }
    }
}

/// Returns the first violation in the words of the documents, a missing parameter before a wrong one.
fn first_problem(validator: &jsonschema::Validator, value: &Value) -> Option<String> {
    let mut errors: Vec<_> = validator.iter_errors(value).collect();
    errors.sort_by_key(|error| !matches!(error.kind(), ValidationErrorKind::Required { .. }));
    let error = errors.first()?;
    let place = format!("params{}", error.instance_path());
    #[expect(clippy::wildcard_enum_match_arm, reason = "the library's own words are good enough for rare keywords")]
    let problem = match error.kind() {
        ValidationErrorKind::Required { property } => {
            format!("{place} must have required property '{}'", property.as_str().unwrap_or_default())
        }
        ValidationErrorKind::Type { kind } => format!("{place} must be {}", type_names(kind)),
        ValidationErrorKind::Enum { options } => {
            format!("{place} must be equal to one of the allowed values: {options}")
        }
        ValidationErrorKind::Minimum { limit } => format!("{place} must be >= {limit}"),
        ValidationErrorKind::Maximum { limit } => format!("{place} must be <= {limit}"),
        ValidationErrorKind::MinLength { limit } => {
            format!("{place} must NOT have fewer than {limit} characters")
        }
        ValidationErrorKind::MinItems { limit } => format!("{place} must NOT have fewer than {limit} items"),
        ValidationErrorKind::MaxItems { limit } => format!("{place} must NOT have more than {limit} items"),
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            format!("{place} must NOT have additional properties: {}", unexpected.join(", "))
        }
        _ => format!("{place}: {error}"),
    };
    Some(problem)
}

fn type_names(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => one.to_string(),
        TypeKind::Multiple(set) => set.iter().map(|one| one.to_string()).collect::<Vec<_>>().join(","),
    }
}

/// The problem, what was received, and one call that would be right.
fn explain(name: &str, schema: &Value, problem: &str, received: &Value) -> String {
    let raw = received.to_string();
    let end = raw.char_indices().nth(500).map_or(raw.len(), |(at, _)| at);
    let cut = if end < raw.len() { "…" } else { "" };
    let example: Map<String, Value> =
        required(schema).filter_map(|key| Some((key.to_owned(), placeholder(key, property(schema, key)?)))).collect();
    format!("{problem}\nReceived: {}{cut}\nExample: {name} {}", &raw[..end], Value::Object(example))
}

fn placeholder(key: &str, schema: &Value) -> Value {
    match type_of(schema) {
        Some("integer" | "number") => Value::from(1),
        Some("boolean") => Value::from(true),
        Some("array") => Value::from(vec![placeholder(key, schema.get("items").unwrap_or(&Value::Null))]),
        Some("object") => {
            let inner =
                required(schema).filter_map(|key| Some((key.to_owned(), placeholder(key, property(schema, key)?))));
            Value::Object(inner.collect())
        }
        _ => match schema.get("enum").and_then(|options| options.get(0)) {
            Some(first) => first.clone(),
            None => Value::from(match key {
                "file_path" | "paths" => "src/main.rs",
                "path" | "directory" => "src",
                "command" => "ls",
                "pattern" => "main",
                _ => "...",
            }),
        },
    }
}

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties")?.as_object()
}

fn property<'a>(schema: &'a Value, key: &str) -> Option<&'a Value> {
    properties(schema)?.get(key)
}

fn required(schema: &Value) -> impl Iterator<Item = &str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn type_of(schema: &Value) -> Option<&str> {
    schema.get("type")?.as_str()
}

/// Tells whether a schema takes a string; one that does not say takes anything.
fn takes_string(schema: &Value) -> bool {
    match schema.get("type") {
        None => true,
        Some(Value::String(one)) => one == "string",
        Some(Value::Array(many)) => many.iter().any(|one| one == "string"),
        Some(_) => false,
    }
}

/// `{"arguments": {…}}` and its kin, where the tool has no such parameter.
fn unwrapped(schema: &Value, arguments: Map<String, Value>, notes: &mut Vec<String>) -> Map<String, Value> {
    let wrapper = ["arguments", "input", "parameters", "params"];
    let Some((key, Value::Object(inner))) = arguments.iter().next() else { return arguments };
    if arguments.len() != 1 || !wrapper.contains(&key.as_str()) || property(schema, key).is_some() {
        return arguments;
    }
    notes.push(format!("the arguments were taken out of '{key}'"));
    inner.clone()
}

/// Gives parameters their real names. A parameter with two different candidates stays missing.
fn with_aliases(schema: &Value, mut arguments: Map<String, Value>) -> Map<String, Value> {
    let Some(properties) = properties(schema) else { return arguments };
    for target in properties.keys() {
        if arguments.contains_key(target) {
            continue;
        }
        let listed = ALIASES.iter().find(|(name, _)| name == target).map_or(&[] as &[&str], |(_, names)| names);
        let is_alias = |key: &str| {
            !properties.contains_key(key)
                && (folded(key) == folded(target) || listed.iter().any(|name| folded(name) == folded(key)))
        };
        let candidates: Vec<(&String, &Value)> = arguments.iter().filter(|(key, _)| is_alias(key)).collect();
        let Some((key, value)) = candidates.first() else { continue };
        if candidates.iter().all(|(_, other)| other == value) {
            let (key, value) = ((*key).clone(), (*value).clone());
            arguments.shift_remove(&key);
            arguments.insert(target.clone(), value);
        }
    }
    arguments
}

/// `filePath`, `file-path` and `FILE_PATH` are one name.
fn folded(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase).collect()
}

/// Changes what models are known to get wrong and whose meaning is beyond doubt; anything else stays wrong.
fn coerce(schema: &Value, value: &mut Value, place: &str, notes: &mut Vec<String>) {
    if let Some(replacement) = coerced_scalar(schema, value) {
        notes.push(format!("{place} was read as {}", type_of(schema).unwrap_or("its type")));
        *value = replacement;
    }
    match value {
        Value::Object(object) => {
            let optional = |key: &str| !required(schema).any(|name| name == key);
            let absent = |key: &str, value: &Value| match value {
                Value::Null => optional(key),
                Value::String(text) => {
                    matches!(text.as_str(), "null" | "None")
                        && optional(key)
                        && property(schema, key).is_some_and(|schema| !takes_string(schema))
                }
                Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => false,
            };
            let dropped: Vec<String> =
                object.iter().filter(|(key, value)| absent(key, value)).map(|(key, _)| key.clone()).collect();
            for key in dropped {
                object.shift_remove(&key);
                notes.push(format!("{place}/{key} was null and left out"));
            }
            for (key, value) in object.iter_mut() {
                if let Some(schema) = property(schema, key) {
                    coerce(schema, value, &format!("{place}/{key}"), notes);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for (index, item) in items.iter_mut().enumerate() {
                    coerce(schema, item, &format!("{place}/{index}"), notes);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn coerced_scalar(schema: &Value, value: &Value) -> Option<Value> {
    if let (Some(options), Value::String(text)) = (schema.get("enum").and_then(Value::as_array), value) {
        if options.contains(value) {
            return None;
        }
        let same = |option: &&Value| option.as_str().is_some_and(|option| folded(option) == folded(text));
        let mut matching = options.iter().filter(same);
        return matching.next().filter(|_| matching.next().is_none()).cloned();
    }
    match (type_of(schema)?, value) {
        ("boolean", Value::String(text)) => match text.to_ascii_lowercase().as_str() {
            "true" => Some(Value::Bool(true)),
            "false" => Some(Value::Bool(false)),
            _ => None,
        },
        ("integer", Value::String(text)) => integer(text.trim().parse().ok()?),
        ("number", Value::String(text)) => {
            let number: serde_json::Number = text.trim().parse().ok()?;
            Some(Value::Number(number))
        }
        ("string", Value::Number(number)) => Some(Value::String(number.to_string())),
        ("array" | "object", Value::String(text)) => {
            let parsed: Option<Value> = serde_json::from_str(text).ok();
            let is_array = type_of(schema)? == "array";
            parsed.filter(|parsed| if is_array { parsed.is_array() } else { parsed.is_object() })
        }
        _ => None,
    }
    .or_else(|| wrapped_scalar(schema, value))
}

/// A scalar where a list of scalars is expected.
fn wrapped_scalar(schema: &Value, value: &Value) -> Option<Value> {
    let scalar = matches!(value, Value::String(_) | Value::Number(_) | Value::Bool(_));
    let of_scalars = matches!(type_of(schema.get("items")?)?, "string" | "number" | "integer" | "boolean");
    (type_of(schema)? == "array" && scalar && of_scalars).then(|| Value::Array(vec![value.clone()]))
}

fn integer(number: f64) -> Option<Value> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (number.fract() == 0.0 && number.abs() <= EXACT).then(|| Value::from(number as i64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Value {
        json!({"type": "object", "required": ["file_path", "content"], "properties": {
            "file_path": {"type": "string"}, "content": {"type": "string"}, "offset": {"type": "integer", "minimum": 0},
            "all": {"type": "boolean"}, "globs": {"type": "array", "items": {"type": "string"}},
            "status": {"type": "string", "enum": ["pending", "in_progress"]}}})
    }

    fn fitted(arguments: Value) -> Result<Value, String> {
        let Value::Object(arguments) = arguments else { unreachable!("tests pass objects") };
        fit_builtin("t", &schema(), arguments)
            .map(|fitted| Value::Object(fitted.arguments))
            .map_err(|error| error.message)
    }

    #[test]
    fn wrong_arguments_are_answered_with_the_path_and_an_example() {
        insta::assert_snapshot!(fitted(json!({"file_path": "a"})).unwrap_err(), @r#"
        params must have required property 'content'
        Received: {"file_path":"a"}
        Example: t {"file_path":"src/main.rs","content":"..."}
        "#);
        let first = |value| fitted(value).unwrap_err().lines().next().unwrap_or_default().to_owned();
        let with = |key: &str, value: Value| json!({"file_path": "a", "content": "b", key: value});
        assert_eq!(first(with("offset", json!("12abc"))), "params/offset must be integer");
        assert_eq!(first(with("offset", json!(-1))), "params/offset must be >= 0");
        assert_eq!(first(with("all", json!("yes"))), "params/all must be boolean");
        assert_eq!(first(with("globs", json!([{}]))), "params/globs/0 must be string");
        assert_eq!(
            first(with("status", json!("done"))),
            r#"params/status must be equal to one of the allowed values: ["pending","in_progress"]"#
        );
        assert_eq!(first(json!({"file_path": ["a"], "content": "b"})), "params/file_path must be string");
    }

    #[test]
    fn what_is_beyond_doubt_is_coerced_and_content_never_is() {
        let with = |key: &str, value: Value| {
            fitted(json!({"file_path": "a", "content": "null", key: value})).unwrap()[key].clone()
        };
        assert_eq!(with("all", json!("True")), json!(true));
        assert_eq!(with("offset", json!("5")), json!(5));
        assert_eq!(with("offset", json!(5.0)), json!(5));
        assert_eq!(with("offset", json!(null)), json!(null));
        assert_eq!(with("offset", json!("None")), json!(null));
        assert_eq!(with("globs", json!("a")), json!(["a"]));
        assert_eq!(with("globs", json!("[\"a\",\"b\"]")), json!(["a", "b"]));
        assert_eq!(with("status", json!("In-Progress")), json!("in_progress"));
        assert_eq!(with("content", json!("null")), json!("null"));
        assert_eq!(with("content", json!("true")), json!("true"));
        assert_eq!(with("content", json!(12)), json!("12"));
        assert!(fitted(json!({"file_path": "a", "content": null})).is_err(), "a required null is not dropped");
    }

    #[test]
    fn an_alias_counts_only_where_the_real_name_is_missing_and_one_value_stands() {
        assert_eq!(fitted(json!({"path": "a", "text": "b"})).unwrap(), json!({"file_path": "a", "content": "b"}));
        assert_eq!(
            fitted(json!({"filePath": "a", "content": "b"})).unwrap(),
            json!({"content": "b", "file_path": "a"})
        );
        assert_eq!(
            fitted(json!({"file_path": "a", "path": "x", "content": "b"})).unwrap(),
            json!({"file_path": "a", "content": "b"})
        );
        assert!(fitted(json!({"path": "a", "file": "b", "content": "c"})).is_err());
        assert_eq!(
            fitted(json!({"arguments": {"file_path": "a", "content": "b"}})).unwrap(),
            json!({"file_path": "a", "content": "b"})
        );
    }

    #[test]
    fn a_search_in_the_words_of_other_tools_is_understood() {
        let spec = crate::tools::Registry::of_built_ins().get("search_file_content").unwrap().spec();
        let Value::Object(arguments) = json!({"query": "x", "directory": "src", "glob": "*.rs", "limit": "5"}) else {
            unreachable!()
        };
        let fitted = fit_builtin(&spec.name, &spec.parameters, arguments).unwrap();
        assert_eq!(
            Value::Object(fitted.arguments),
            json!({"pattern": "x", "path": "src", "include": "*.rs", "maxResults": 5})
        );
    }

    #[test]
    fn an_unknown_parameter_is_dropped_with_a_note() {
        let Value::Object(arguments) = json!({"file_path": "a", "content": "b", "mood": 1}) else { unreachable!() };
        let fitted = fit_builtin("t", &schema(), arguments).unwrap();
        assert_eq!(fitted.notes, ["t has no parameter 'mood': it was left out"]);
    }
}
