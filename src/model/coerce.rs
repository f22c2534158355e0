//! Checks a call's arguments against the schema of its tool.
//!
//! Arguments are validated, corrected by the schema where only one value can be meant, and validated again. Nothing is
//! guessed: an unreadable boolean stays an error.

use std::sync::OnceLock;

use jsonschema::Validator;
use serde_json::{Map, Value};

use super::ToolSpec;
use super::repair::{self, Fragment, Reading};
use super::violation::{accepted, explain, problems, shorten};
use crate::tool_name::{ToolId, folded};

/// What models call our parameters, folded.
const PARAMETER_ALIASES: &[(&str, &[&str])] = &[
    ("file_path", PATHS),
    ("path", PATHS),
    ("paths", &["path", "file", "files", "filepath", "filepaths", "absolutepath"]),
    ("directory", &["dir", "cwd", "workdir", "workingdirectory", "folder", "path", "dirpath"]),
    ("command", &["cmd", "script", "bash", "shellcommand"]),
    ("old_string", &["oldstr", "search", "oldtext", "old"]),
    ("new_string", &["newstr", "replace", "replacement", "newtext", "new"]),
    ("content", &["contents", "text", "filetext", "code", "filecontent", "newcontent"]),
    ("pattern", &["regex", "query", "glob"]),
    ("include", &["glob", "filepattern", "includepattern"]),
    ("maxResults", &["limit", "headlimit"]),
    ("is_background", &["background", "runinbackground"]),
    ("timeout", &["timeoutms"]),
    ("query", &["q", "searchquery"]),
    ("url", &["uri", "link", "urls"]),
];

const PATHS: &[&str] =
    &["path", "file", "filename", "filepath", "absolutepath", "targetfile", "dir", "directory", "folder", "dirpath"];

/// Parameters that a tool takes although its schema does not list them: a schema is paid for with every request, and
/// these are needed so rarely that the answer which makes them useful says how they are written.
const UNLISTED: &[(ToolId, &str)] = &[(ToolId::ReadFile, "pages"), (ToolId::Glob, "file_filtering_options")];

/// A tool's parameters: what its arguments must be. Compiled when they are first needed.
#[derive(Debug)]
pub struct Parameters {
    name: String,
    schema: Value,
    validator: OnceLock<Option<Validator>>,
}

/// Arguments that fit the schema.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// The arguments.
    pub arguments: Map<String, Value>,
    /// What was changed to make them fit, one clause each; empty for a model that calls well.
    pub notes: Vec<String>,
}

impl Parameters {
    /// Takes a tool as the model sees it.
    pub fn of(spec: &ToolSpec) -> Parameters {
        Parameters { name: spec.name.clone(), schema: spec.parameters.clone(), validator: OnceLock::new() }
    }

    /// Validates arguments, coerces them if they do not fit, and validates again.
    ///
    /// For built-in tools, aliases of parameters are accepted, and unknown parameters are dropped with a note; other
    /// schemas are applied as they are until something does not fit. The error is what the model reads: the schema's
    /// message first, then what arrived and what would fit.
    pub fn fit(&self, arguments: Map<String, Value>) -> Result<Fitted, String> {
        let mut fitted = self.fit_schema(arguments)?;
        if !self.is_ours() {
            return Ok(fitted);
        }
        let Some(properties) = properties(&self.schema) else { return Ok(fitted) };
        let unknown: Vec<String> =
            fitted.arguments.keys().filter(|key| !properties.contains_key(*key) && !self.knows(key)).cloned().collect();
        for key in unknown {
            fitted.arguments.shift_remove(&key);
            fitted.notes.push(format!("{} has no parameter '{key}': it was left out", self.name));
        }
        Ok(fitted)
    }

    fn knows(&self, key: &str) -> bool {
        UNLISTED.iter().any(|(tool, parameter)| tool.name() == self.name && *parameter == key)
    }

    fn is_ours(&self) -> bool {
        ToolId::built_in(&self.name).is_some()
    }

    fn fit_schema(&self, mut arguments: Map<String, Value>) -> Result<Fitted, String> {
        let schema = &self.schema;
        let received = arguments.clone();
        let mut notes = Vec::new();
        if self.is_ours() {
            unwrap_single(schema, &mut arguments, &mut notes);
            split_named_by_path(schema, &mut arguments, &mut notes);
            rename_aliases(schema, &mut arguments, &mut notes);
        }
        let Some(validator) = self.validator.get_or_init(|| jsonschema::validator_for(schema).ok()) else {
            // A schema that no validator understands comes from a server, which validates the call itself.
            return Ok(Fitted { arguments, notes });
        };
        let mut value = Value::Object(arguments);
        if !validator.is_valid(&value) {
            let mut object = into_object(value);
            unwrap_single(schema, &mut object, &mut notes);
            rename_aliases(schema, &mut object, &mut notes);
            coerce_object(schema, &mut object, "", &mut notes);
            value = Value::Object(object);
            let wrong = problems(validator, &value);
            if !wrong.is_empty() {
                return Err(explain(&self.name, schema, &wrong, received));
            }
        }
        whole_numbers(schema, &mut value);
        Ok(Fitted { arguments: into_object(value), notes })
    }
}

fn into_object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            unreachable!("it was made from an object")
        }
    }
}

pub(super) fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties").and_then(Value::as_object)
}

/// Renames keys that are not parameters to the parameter that they are a known alias of.
///
/// A key that may stand for several waits until the others are placed; two keys for one parameter leave open which is
/// meant, unless they say the same.
fn rename_aliases(schema: &Value, object: &mut Map<String, Value>, notes: &mut Vec<String>) {
    let Some(properties) = properties(schema) else { return };
    loop {
        let unknown: Vec<&String> = object.keys().filter(|key| !properties.contains_key(*key)).collect();
        let missing: Vec<&String> = properties.keys().filter(|name| !object.contains_key(*name)).collect();
        let meanings = unknown.iter().filter_map(|key| Some((*key, parameter_meant(key, &missing)?)));
        let meanings: Vec<(&String, &String)> = meanings.collect();
        let clear = meanings.iter().find(|(key, target)| {
            let mut rivals = meanings.iter().filter(|(_, other)| other == target);
            rivals.all(|(other, _)| object.get(*other) == object.get(*key))
        });
        let Some((key, target)) = clear.map(|(key, target)| ((*key).clone(), (*target).clone())) else { return };
        let same: Vec<String> =
            meanings.iter().filter(|(_, other)| **other == target).map(|(other, _)| (*other).clone()).collect();
        let value = object[&key].clone();
        for key in same {
            object.shift_remove(&key);
        }
        notes.push(format!("`{key}` was taken as `{target}`"));
        object.insert(target, value);
    }
}

/// Returns the one missing parameter that a key stands for: itself, its other spelling, else its alias.
pub(super) fn parameter_meant<'a>(key: &str, missing: &[&'a String]) -> Option<&'a String> {
    if let Some(same) = missing.iter().find(|name| **name == key) {
        return Some(same);
    }
    let squashed = folded(key);
    let spelled: Vec<&&String> = missing.iter().filter(|name| folded(name) == squashed).collect();
    let is_alias = |name: &&&String| {
        PARAMETER_ALIASES.iter().any(|(target, aliases)| target == *name && aliases.contains(&squashed.as_str()))
    };
    let candidates = if spelled.is_empty() { missing.iter().filter(is_alias).collect() } else { spelled };
    match candidates[..] {
        [one] => Some(one),
        _ => None,
    }
}

/// Takes the arguments out of `{"arguments": {…}}` and its kin.
fn unwrap_single(schema: &Value, object: &mut Map<String, Value>, notes: &mut Vec<String>) {
    if object.len() != 1 {
        return;
    }
    let Some((key, value)) = object.iter().next() else { return };
    if !["arguments", "input", "parameters", "args", "params"].contains(&key.as_str())
        || properties(schema).is_some_and(|properties| properties.contains_key(key))
    {
        return;
    }
    let inner = match value {
        Value::Object(inner) => inner.clone(),
        Value::String(text) => match one_object(text) {
            Some(inner) => inner,
            None => return,
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => return,
    };
    notes.push(format!("the arguments were taken out of `{key}`"));
    *object = inner;
}

/// Reads `{"a/b.md": "text"}` as the path of a file and its content, for a tool that takes these two.
fn split_named_by_path(schema: &Value, object: &mut Map<String, Value>, notes: &mut Vec<String>) {
    let required = schema.get("required").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if object.len() != 1 || required.iter().filter_map(Value::as_str).ne(["file_path", "content"]) {
        return;
    }
    let Some((path, Value::String(content))) = object.iter().next() else { return };
    if !path.contains(['.', '/']) || path.contains(char::is_whitespace) {
        return;
    }
    let (path, content) = (path.clone(), content.clone());
    notes.push(format!("`{path}` was taken as `file_path`, and its value as `content`"));
    *object = Map::from_iter([("file_path".to_owned(), path.into()), ("content".to_owned(), content.into())]);
}

pub(super) fn one_object(text: &str) -> Option<Map<String, Value>> {
    if text.trim().is_empty() {
        return None;
    }
    match repair::read(text) {
        Reading::Fragments { mut pieces, .. } if pieces.len() == 1 => match pieces.remove(0) {
            Fragment::Object(object) => Some(object),
            Fragment::Incomplete(_) => None,
        },
        Reading::Fragments { .. } | Reading::Invalid { .. } => None,
    }
}

fn coerce_object(schema: &Value, object: &mut Map<String, Value>, place: &str, notes: &mut Vec<String>) {
    let Some(properties) = properties(schema) else { return };
    let required: Vec<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    for key in object.keys().cloned().collect::<Vec<_>>() {
        let place = format!("{place}/{key}");
        let Some(property) = properties.get(&key) else {
            if schema.get("additionalProperties") == Some(&Value::Bool(false)) {
                object.shift_remove(&key);
                notes.push(format!("the unknown `{place}` was dropped"));
            }
            continue;
        };
        let types = accepted(property);
        let value = &object[&key];
        let says_nothing = match value {
            Value::Null => !types.contains(&"null"),
            // Where a text is allowed, "null" may be that text; anywhere else it can only mean no value.
            Value::String(text) => {
                matches!(text.as_str(), "null" | "None") && !types.is_empty() && !types.contains(&"string")
            }
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => false,
        };
        if says_nothing && !required.contains(&key.as_str()) {
            object.shift_remove(&key);
            notes.push(format!("the empty `{place}` was dropped"));
            continue;
        }
        let mut value = object[&key].clone();
        coerce(property, &mut value, &place, notes);
        object[&key] = value;
    }
}

fn coerce(schema: &Value, value: &mut Value, place: &str, notes: &mut Vec<String>) {
    if let (Some(options), Value::String(text)) = (schema.get("enum").and_then(Value::as_array), &*value) {
        let spelled = |text: &str| text.trim().to_lowercase().replace(['-', ' '], "_");
        let same_word = |option: &&Value| option.as_str().is_some_and(|option| spelled(option) == spelled(text));
        let mut same = options.iter().filter(same_word);
        if !options.contains(value)
            && let (Some(option), None) = (same.next(), same.next())
        {
            *value = option.clone();
            notes.push(format!("`{place}` was written as {option}"));
        }
        return;
    }
    let types = accepted(schema);
    let takes = |name: &str| types.contains(&name);
    if types.is_empty() {
        return;
    }
    let better = match &*value {
        Value::String(text) if !takes("string") => from_text(text, &types, schema),
        Value::Number(number) if takes("integer") => whole(number),
        Value::Number(number) if takes("string") && !takes("number") => Some(Value::String(number.to_string())),
        Value::Number(_) | Value::Bool(_) => wrapped(value, &types, schema),
        Value::String(_) | Value::Null | Value::Array(_) | Value::Object(_) => None,
    };
    if let Some(better) = better {
        notes.push(format!("`{place}` was read as {}", shorten(&better.to_string(), 60)));
        *value = better;
    }
    match value {
        Value::Object(object) => coerce_object(schema, object, place, notes),
        Value::Array(items) => {
            if let Some(item) = schema.get("items") {
                for (at, value) in items.iter_mut().enumerate() {
                    coerce(item, value, &format!("{place}/{at}"), notes);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Reads a string as what the schema takes instead of strings.
fn from_text(text: &str, types: &[&str], schema: &Value) -> Option<Value> {
    let takes = |name: &str| types.contains(&name);
    let trimmed = text.trim();
    if takes("boolean") {
        match trimmed.to_ascii_lowercase().as_str() {
            "true" => return Some(Value::Bool(true)),
            "false" => return Some(Value::Bool(false)),
            _ => {}
        }
    }
    if (takes("integer") || takes("number"))
        && let Ok(Value::Number(number)) = serde_json::from_str(trimmed)
    {
        if takes("integer")
            && let Some(whole) = if number.is_f64() { whole(&number) } else { Some(Value::Number(number.clone())) }
        {
            return Some(whole);
        }
        if takes("number") {
            return Some(Value::Number(number));
        }
    }
    if takes("object") && trimmed.starts_with('{') {
        return one_object(trimmed).map(Value::Object);
    }
    if takes("array") && trimmed.starts_with('[') {
        let (array, end) = repair::array_at(trimmed, 0).ok()?;
        return (end == trimmed.len()).then_some(Value::Array(array));
    }
    wrapped(&Value::String(text.to_owned()), types, schema)
}

/// Makes `5` of `5.0`; nothing of `5.5`.
fn whole(number: &serde_json::Number) -> Option<Value> {
    let float = number.as_f64().filter(|_| number.is_f64())?;
    // Beyond 2^53 a float no longer says which integer it means.
    (float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_992.0).then(|| Value::from(float as i64))
}

/// Makes `[x]` of a scalar `x` where the schema wants an array of such scalars.
fn wrapped(value: &Value, types: &[&str], schema: &Value) -> Option<Value> {
    let own = match value {
        Value::String(_) => "string",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    let items = accepted(schema.get("items")?);
    let fits = items.contains(&own) || (own == "integer" && items.contains(&"number"));
    (fits && types.contains(&"array") && !types.contains(&own)).then(|| Value::Array(vec![value.clone()]))
}

/// Writes whole floats as integers where the schema wants integers: `5.0` is valid there, but unusual.
fn whole_numbers(schema: &Value, value: &mut Value) {
    let (Some(properties), Some(object)) = (properties(schema), value.as_object_mut()) else { return };
    for (key, value) in object.iter_mut() {
        let Some(property) = properties.get(key) else { continue };
        if accepted(property).contains(&"integer")
            && let Value::Number(number) = &*value
            && let Some(better) = whole(number)
        {
            *value = better;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::tool_set::ToolSet;

    fn spec(name: &str, parameters: Value) -> ToolSpec {
        ToolSpec { name: name.into(), description: String::new(), parameters }
    }

    fn set() -> ToolSet {
        let text = json!({"type": "string"});
        let specs = vec![
            spec(
                "edit",
                json!({"type": "object", "properties": {"file_path": text, "old_string": text, "new_string": text,
                    "replace_all": {"type": "boolean"}, "expected_replacements": {"type": "integer"}},
                    "required": ["file_path", "old_string", "new_string"], "additionalProperties": false}),
            ),
            spec(
                "grep_many",
                json!({"type": "object", "properties": {"pattern": text, "paths": {"type": "array", "items": text},
                    "mode": {"enum": ["files", "lines"]}, "limit": {"type": "integer"}, "ratio": {"type": "number"},
                    "filter": {"type": "object", "properties": {"deep": {"type": "boolean"}}}},
                    "required": ["pattern"]}),
            ),
            spec("read_file", json!({"type": "object", "properties": {"file_path": text}, "required": ["file_path"]})),
            spec(
                "run_shell_command",
                json!({"type": "object", "properties": {"command": text}, "required": ["command"]}),
            ),
            spec(
                "write_file",
                json!({"type": "object", "properties": {"file_path": text, "content": text}, "required": ["file_path", "content"]}),
            ),
        ];
        ToolSet::new(specs.into())
    }

    fn check(tool: &str, arguments: Value) -> Result<Value, String> {
        let checked = set().check(tool, into_object(arguments));
        checked
            .map(|checked| Value::Object(checked.arguments))
            .map_err(|error| error.lines().next().unwrap().to_owned())
    }

    #[test]
    fn r32_arguments_are_coerced_only_where_they_do_not_fit() {
        let cases = [
            (json!({"pattern": "x", "limit": "5"}), json!({"pattern": "x", "limit": 5})),
            (json!({"pattern": "x", "limit": 5.0}), json!({"pattern": "x", "limit": 5})),
            (json!({"pattern": "x", "limit": "5.0"}), json!({"pattern": "x", "limit": 5})),
            (json!({"pattern": "x", "ratio": "0.5"}), json!({"pattern": "x", "ratio": 0.5})),
            (json!({"pattern": 7}), json!({"pattern": "7"})),
            (json!({"pattern": "x", "paths": "a"}), json!({"pattern": "x", "paths": ["a"]})),
            (json!({"pattern": "x", "paths": "[\"a\",\"b\"]"}), json!({"pattern": "x", "paths": ["a", "b"]})),
            (json!({"pattern": "x", "mode": "FILES"}), json!({"pattern": "x", "mode": "files"})),
            (json!({"pattern": "x", "limit": null}), json!({"pattern": "x"})),
            (json!({"pattern": "x", "limit": "None"}), json!({"pattern": "x"})),
            (json!({"pattern": "x", "filter": "{'deep': True}"}), json!({"pattern": "x", "filter": {"deep": true}})),
            (json!({"arguments": {"pattern": "x"}}), json!({"pattern": "x"})),
            (json!({"input": "{\"pattern\":\"x\"}"}), json!({"pattern": "x"})),
            // What fits is not touched.
            (json!({"pattern": "null"}), json!({"pattern": "null"})),
            (json!({"pattern": "true"}), json!({"pattern": "true"})),
            (json!({"pattern": "[1]"}), json!({"pattern": "[1]"})),
        ];
        for (given, wanted) in cases {
            assert_eq!(check("grep_many", given.clone()), Ok(wanted), "{given}");
        }
        let edit = json!({"file_path": "a", "old_string": "x", "new_string": "y", "replace_all": "True", "zzz": 1});
        assert_eq!(
            check("edit", edit),
            Ok(json!({"file_path": "a", "old_string": "x", "new_string": "y", "replace_all": true}))
        );
    }

    #[test]
    fn r32_nothing_is_degraded() {
        for bad in
            [json!({"pattern": "x", "limit": "12abc"}), json!({"pattern": "x", "limit": 1.5}), json!({"pattern": null})]
        {
            assert!(check("grep_many", bad.clone()).is_err(), "{bad}");
        }
        let edit = json!({"file_path": "a", "old_string": "x", "new_string": "y", "replace_all": "maybe"});
        assert_eq!(check("edit", edit), Err("params/replace_all must be boolean".into()));
    }

    #[test]
    fn the_messages_are_the_schemas() {
        assert_eq!(
            check("write_file", json!({"file_path": "a"})),
            Err("params must have required property 'content'".into())
        );
        let whole = set().check("write_file", Map::new()).unwrap_err();
        insta::assert_snapshot!(whole, @r#"
        params must have required property 'file_path'; params must have required property 'content'
        Received: {}
        A valid call of write_file has arguments like: {"file_path":"src/main.rs","content":"..."}
        "#);
    }

    #[test]
    fn r33_aliases_count_only_where_one_thing_is_meant() {
        let wanted = Ok(json!({"file_path": "a", "content": "c"}));
        for given in [
            json!({"path": "a", "content": "c"}),
            json!({"filePath": "a", "contents": "c"}),
            json!({"absolute_path": "a", "code": "c"}),
            json!({"path": "a", "file": "a", "text": "c"}),
        ] {
            let given = check("write_file", given);
            assert_eq!(given, wanted);
        }
        assert!(check("write_file", json!({"path": "a", "file": "b", "content": "c"})).is_err());
        let by_path = check("write_file", json!({"docs/a.md": "text"}));
        assert_eq!(by_path, Ok(json!({"file_path": "docs/a.md", "content": "text"})));
        assert!(check("write_file", json!({"word": "text"})).is_err());
        // The real name wins.
        assert_eq!(
            check("write_file", json!({"file_path": "a", "path": "b", "content": "c"})),
            Ok(json!({"file_path": "a", "content": "c"}))
        );
    }

    #[test]
    fn r34_an_unknown_tool_is_named_with_its_neighbours_and_never_guessed() {
        assert_eq!(
            set().check("read_fil", Map::new()).unwrap_err(),
            "Tool \"read_fil\" not found in registry. Tools must use the exact names that are registered. Did you mean one of: \"read_file\", \"edit\", \"write_file\"?"
        );
        assert!(set().exact("bash").is_none());
        assert!(set().exact("functions.edit:0").is_some());
    }

    /// A built-in tool with every kind of parameter.
    fn todo_write(arguments: Value) -> Result<Value, String> {
        let schema = json!({"type": "object", "required": ["file_path", "content"], "properties": {
            "file_path": {"type": "string"}, "content": {"type": "string"}, "offset": {"type": "integer", "minimum": 0},
            "all": {"type": "boolean"}, "globs": {"type": "array", "items": {"type": "string"}},
            "status": {"type": "string", "enum": ["pending", "in_progress"]}}});
        Parameters::of(&spec("todo_write", schema))
            .fit(into_object(arguments))
            .map(|fitted| Value::Object(fitted.arguments))
    }

    #[test]
    fn wrong_arguments_are_answered_with_the_path_and_an_example() {
        insta::assert_snapshot!(todo_write(json!({"file_path": "a"})).unwrap_err(), @r#"
        params must have required property 'content'
        Received: {"file_path":"a"}
        A valid call of todo_write has arguments like: {"file_path":"src/main.rs","content":"..."}
        "#);
        let first = |value| todo_write(value).unwrap_err().lines().next().unwrap_or_default().to_owned();
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
        assert_eq!(
            first(json!({"offset": [1], "file_path": "a"})),
            "params must have required property 'content'; params/offset must be integer"
        );
    }

    #[test]
    fn what_is_beyond_doubt_is_coerced_and_content_never_is() {
        let with = |key: &str, value: Value| {
            todo_write(json!({"file_path": "a", "content": "null", key: value})).unwrap()[key].clone()
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
        assert!(todo_write(json!({"file_path": "a", "content": null})).is_err(), "a required null is not dropped");
    }

    #[test]
    fn aliases_of_several_parameters_are_placed_where_one_order_is_possible() {
        let schema = json!({"type": "object", "required": ["pattern"], "properties": {
            "pattern": {"type": "string"}, "path": {"type": "string"}, "include": {"type": "string"},
            "maxResults": {"type": "integer"}}});
        let search =
            |arguments| Parameters::of(&spec("search_file_content", schema.clone())).fit(into_object(arguments));
        assert_eq!(
            Value::Object(
                search(json!({"query": "x", "directory": "src", "glob": "*.rs", "limit": "5"})).unwrap().arguments
            ),
            json!({"pattern": "x", "path": "src", "include": "*.rs", "maxResults": 5})
        );
        assert!(search(json!({"glob": "*.rs"})).is_err(), "a pattern or a filter may be meant");
    }

    #[test]
    fn an_unknown_parameter_of_a_tool_of_ours_is_dropped_with_a_note() {
        let schema = json!({"type": "object", "properties": {"query": {"type": "string"}}});
        let fitted = |name: &str| {
            let arguments = into_object(json!({"query": "b", "mood": 1, "q": "c"}));
            Parameters::of(&spec(name, schema.clone())).fit(arguments).unwrap()
        };
        let ours = fitted("web_search");
        assert_eq!(Value::Object(ours.arguments), json!({"query": "b"}));
        assert_eq!(
            ours.notes,
            ["web_search has no parameter 'mood': it was left out", "web_search has no parameter 'q': it was left out"]
        );
        // A schema of others may mean more than it says.
        assert_eq!(Value::Object(fitted("theirs").arguments), json!({"query": "b", "mood": 1, "q": "c"}));
    }
}
