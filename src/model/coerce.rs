//! Arguments against the schema of their tool.
//!
//! A model's arguments are validated, put right by the schema where only one value can be meant, and validated again.
//! Nothing is degraded: an unreadable boolean stays an error.

use std::sync::{Arc, OnceLock};

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{ValidationError, Validator};
use serde_json::{Map, Value};

use super::ToolSpec;
use super::repair::{self, Piece, Reading};

/// Characters of the received arguments that a message shows.
const SHOWN: usize = 500;

/// Errors that one message names.
const ERRORS_SHOWN: usize = 3;

/// Prefixes that models put before a tool's name.
const PREFIXES: [&str; 4] = ["functions.", "default_api.", "tools.", "functions:"];

/// What models call our tools, squashed as [`squash`] does it; the first registered name counts.
const TOOL_ALIASES: &[(&str, &[&str])] = &[
    (
        "run_shell_command",
        &[
            "bash",
            "shell",
            "execute",
            "exec",
            "terminal",
            "runcommand",
            "executecommand",
            "shellcommand",
            "runshell",
            "runterminalcmd",
            "cmd",
        ],
    ),
    ("edit", &["replace", "strreplaceeditor", "strreplace", "strreplacebasededittool", "editfile", "searchreplace"]),
    ("read_file", &["cat", "view", "read", "openfile", "viewfile"]),
    ("write_file", &["write", "createfile", "savefile"]),
    ("list_directory", &["ls", "list", "listdir", "listfiles", "readfolder"]),
    ("search_file_content", &["grep", "grepsearch", "searchtext", "search", "ripgrep", "rg", "searchfiles"]),
    ("glob", &["find", "findfiles", "filesearch"]),
    ("web_fetch", &["fetch", "fetchurl"]),
    ("web_search", &["googlewebsearch", "searchweb"]),
    ("todo_write", &["todo", "todos", "writetodos"]),
    ("save_memory", &["memory", "remember"]),
    ("task", &["agent", "subagent"]),
];

/// What models call our parameters, squashed.
const PARAMETER_ALIASES: &[(&str, &[&str])] = &[
    ("file_path", PATHS),
    ("path", PATHS),
    ("directory", &["dir", "cwd", "workdir", "workingdirectory", "folder", "path"]),
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
    ("url", &["uri", "link"]),
];

const PATHS: &[&str] =
    &["path", "file", "filename", "filepath", "absolutepath", "targetfile", "dir", "directory", "folder", "dirpath"];

/// The tools on offer, with their schemas compiled when they are first needed.
#[derive(Debug)]
pub struct ToolSet {
    specs: Arc<[ToolSpec]>,
    validators: Vec<OnceLock<Option<Validator>>>,
}

/// Arguments that fit the schema.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// The arguments.
    pub arguments: Map<String, Value>,
    /// What was changed to make them fit, one clause each.
    pub notes: Vec<String>,
}

impl ToolSet {
    /// Takes the tools of a run; compiles nothing yet.
    pub fn new(specs: Arc<[ToolSpec]>) -> ToolSet {
        let validators = specs.iter().map(|_| OnceLock::new()).collect();
        ToolSet { specs, validators }
    }

    /// Returns the tools.
    pub fn specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    /// Finds the tool of this very name, known prefixes aside.
    pub fn exact(&self, name: &str) -> Option<&ToolSpec> {
        self.position(name).map(|at| &self.specs[at])
    }

    /// Finds the tool that a model means by a name: exact, in another spelling, or by a known alias.
    ///
    /// Never the nearest: what is only similar is not found.
    pub fn resolve(&self, name: &str) -> Option<&ToolSpec> {
        if let Some(spec) = self.exact(name) {
            return Some(spec);
        }
        let squashed = squash(bare_name(name));
        let mut same = self.specs.iter().filter(|spec| squash(&spec.name) == squashed);
        if let Some(spec) = same.next() {
            return if same.next().is_none() { Some(spec) } else { None };
        }
        TOOL_ALIASES
            .iter()
            .filter(|(_, aliases)| aliases.contains(&squashed.as_str()))
            .find_map(|(tool, _)| self.exact(tool))
    }

    /// Says that there is no such tool, and which three are nearest.
    pub fn not_found(&self, name: &str) -> String {
        let squashed: Vec<char> = squash(bare_name(name)).chars().take(64).collect();
        let mut nearest: Vec<(usize, &str)> = self
            .specs
            .iter()
            .map(|spec| (distance(&squashed, &squash(&spec.name).chars().collect::<Vec<_>>()), spec.name.as_str()))
            .collect();
        nearest.sort();
        let shown: String = name.chars().take(100).collect();
        let names: Vec<String> = nearest.iter().take(3).map(|(_, name)| format!("\"{name}\"")).collect();
        let mut message =
            format!("Tool \"{shown}\" not found in registry. Tools must use the exact names that are registered.");
        if !names.is_empty() {
            message.push_str(&format!(" Did you mean one of: {}?", names.join(", ")));
        }
        message
    }

    /// Validates arguments, coerces them where they do not fit, and validates again.
    ///
    /// The error is what the model reads: the schema's message first, then what came and what would fit.
    pub fn check(&self, name: &str, arguments: Map<String, Value>) -> Result<Checked, String> {
        let Some(spec) = self.resolve(name) else {
            return Err(self.not_found(name));
        };
        let at = self.position(&spec.name).expect("a resolved tool is registered");
        let validator = self.validators[at].get_or_init(|| jsonschema::validator_for(&spec.parameters).ok());
        let received = arguments.clone();
        let mut notes = Vec::new();
        let mut arguments = arguments;
        rename_aliases(&spec.parameters, &mut arguments, &mut notes);
        let Some(validator) = validator else {
            // A schema that no validator understands comes from outside; who wrote it will judge the call.
            return Ok(Checked { arguments, notes });
        };
        let mut value = Value::Object(arguments);
        let first = problems(validator, &value);
        if first.is_empty() {
            whole_numbers(&spec.parameters, &mut value);
            return Ok(Checked { arguments: into_object(value), notes });
        }
        let mut object = into_object(value);
        unwrap_single(&spec.parameters, &mut object, &mut notes);
        rename_aliases(&spec.parameters, &mut object, &mut notes);
        coerce_object(&spec.parameters, &mut object, "", &mut notes);
        value = Value::Object(object);
        let second = problems(validator, &value);
        if second.is_empty() {
            return Ok(Checked { arguments: into_object(value), notes });
        }
        Err(format!(
            "{}\nReceived: {}\nA valid call of {} has arguments like: {}",
            second.join("; "),
            shorten(&Value::Object(received).to_string(), SHOWN),
            spec.name,
            example(&spec.parameters)
        ))
    }

    /// Tells whether a tool has parameters that must be there.
    pub(super) fn has_required(&self, name: &str) -> bool {
        self.resolve(name)
            .and_then(|spec| spec.parameters.get("required"))
            .and_then(Value::as_array)
            .is_some_and(|required| !required.is_empty())
    }

    fn position(&self, name: &str) -> Option<usize> {
        let find = |name: &str| self.specs.iter().position(|spec| spec.name == name);
        find(name).or_else(|| find(bare_name(name)))
    }
}

/// Takes known prefixes (`functions.`) and the counter of Kimi (`:0`) off a tool's name.
pub fn bare_name(name: &str) -> &str {
    let mut name = name.trim();
    while let Some(rest) = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)) {
        name = rest;
    }
    match name.rsplit_once(':') {
        Some((bare, counter)) if !bare.is_empty() && counter.bytes().all(|byte| byte.is_ascii_digit()) => bare,
        Some(_) | None => name,
    }
}

/// Lowercase letters and digits only: `ReadFile`, `read-file` and `read_file` are one.
fn squash(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Counts insertions, deletions, replacements and swaps of neighbours.
fn distance(a: &[char], b: &[char]) -> usize {
    let width = b.len() + 1;
    let mut table = vec![0; (a.len() + 1) * width];
    for (at, cell) in table.iter_mut().take(width).enumerate() {
        *cell = at;
    }
    for row in 1..=a.len() {
        table[row * width] = row;
        for column in 1..=b.len() {
            let cost = usize::from(a[row - 1] != b[column - 1]);
            let mut best = (table[(row - 1) * width + column] + 1)
                .min(table[row * width + column - 1] + 1)
                .min(table[(row - 1) * width + column - 1] + cost);
            if row > 1 && column > 1 && a[row - 1] == b[column - 2] && a[row - 2] == b[column - 1] {
                best = best.min(table[(row - 2) * width + column - 2] + 1);
            }
            table[row * width + column] = best;
        }
    }
    table[a.len() * width + b.len()]
}

fn into_object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            unreachable!("it was made from an object")
        }
    }
}

fn shorten(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

// Messages.

fn problems(validator: &Validator, value: &Value) -> Vec<String> {
    let mut messages = Vec::new();
    for error in validator.iter_errors(value).take(ERRORS_SHOWN) {
        let message = message_of(&error);
        if !messages.contains(&message) {
            messages.push(message);
        }
    }
    messages
}

fn message_of(error: &ValidationError<'_>) -> String {
    let place = format!("params{}", error.instance_path());
    let received = || shorten(&error.instance().to_string(), 60);
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
            format!("{place} must be {} (received {})", types.join(","), received())
        }
        ValidationErrorKind::Enum { options } => {
            format!("{place} must be equal to one of the allowed values: {options} (received {})", received())
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            format!("{place} must NOT have additional properties: '{}'", unexpected.join("', '"))
        }
        // The rest is rare in tools' schemas, and the crate's own words say it well.
        _ => format!("{place}: {}", shorten(&error.to_string(), 300)),
    }
}

/// Makes arguments that would be accepted, from the schema alone.
fn example(schema: &Value) -> Value {
    let mut object = Map::new();
    let required = schema.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        let property = schema.pointer(&format!("/properties/{}", name.replace('~', "~0").replace('/', "~1")));
        let value = match property {
            Some(property) => {
                match property.get("enum").and_then(Value::as_array).and_then(|options| options.first()) {
                    Some(first) => first.clone(),
                    None => match accepted(property).first() {
                        Some(&"integer" | &"number") => Value::from(1),
                        Some(&"boolean") => Value::Bool(false),
                        Some(&"array") => Value::Array(Vec::new()),
                        Some(&"object") => Value::Object(Map::new()),
                        Some(_) | None => Value::from("…"),
                    },
                }
            }
            None => Value::from("…"),
        };
        object.insert(name.to_owned(), value);
    }
    Value::Object(object)
}

// Coercion.

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties").and_then(Value::as_object)
}

/// Returns the types that a schema takes; none if it does not say.
fn accepted(schema: &Value) -> Vec<&str> {
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

/// Renames keys that are no parameters to the parameter that they are known to stand for.
fn rename_aliases(schema: &Value, object: &mut Map<String, Value>, notes: &mut Vec<String>) {
    let Some(properties) = properties(schema) else { return };
    let unknown: Vec<String> = object.keys().filter(|key| !properties.contains_key(*key)).cloned().collect();
    if unknown.is_empty() {
        return;
    }
    let missing: Vec<&String> = properties.keys().filter(|name| !object.contains_key(*name)).collect();
    let means = |key: &str| -> Option<&String> {
        let squashed = squash(key);
        let one = |mut candidates: Box<dyn Iterator<Item = &String> + '_>| match (candidates.next(), candidates.next())
        {
            (Some(name), None) => Some(Some(name.clone())),
            (Some(_), Some(_)) => Some(None),
            (None, _) => None,
        };
        let spelled = one(Box::new(missing.iter().copied().filter(|name| squash(name) == squashed)));
        let meant = match spelled {
            Some(found) => found,
            None => one(Box::new(missing.iter().copied().filter(|name| {
                PARAMETER_ALIASES.iter().any(|(target, aliases)| target == name && aliases.contains(&squashed.as_str()))
            })))?,
        }?;
        missing.iter().copied().find(|name| **name == meant)
    };
    let renames: Vec<(String, String)> =
        unknown.iter().filter_map(|key| means(key).map(|target| (key.clone(), target.clone()))).collect();
    for (key, target) in &renames {
        // Two keys for one parameter leave open which is meant, unless they say the same.
        let same =
            renames.iter().filter(|(_, other)| other == target).all(|(other, _)| object.get(other) == object.get(key));
        if !same {
            continue;
        }
        if object.contains_key(target) {
            continue;
        }
        let Some(value) = object.get(key).cloned() else { continue };
        object.insert(target.clone(), value);
        notes.push(format!("`{key}` was taken as `{target}`"));
    }
    for (key, target) in &renames {
        if object.contains_key(target) {
            object.shift_remove(key);
        }
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

fn one_object(text: &str) -> Option<Map<String, Value>> {
    if text.trim().is_empty() {
        return None;
    }
    match repair::read(text) {
        Reading::Pieces { mut pieces, .. } if pieces.len() == 1 => match pieces.remove(0) {
            Piece::Object(object) => Some(object),
            Piece::Incomplete(_) => None,
        },
        Reading::Pieces { .. } | Reading::Invalid { .. } => None,
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
            // A text may well be the word "null"; anything else can only mean that there is no value.
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
        let folded = text.to_lowercase();
        let mut same = options.iter().filter(|option| option.as_str().is_some_and(|o| o.to_lowercase() == folded));
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

/// Writes whole floats as integers where the schema says so: `5.0` is valid there, but nobody wants to read it.
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
        assert_eq!(check("edit", edit), Err("params/replace_all must be boolean (received \"maybe\")".into()));
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
        A valid call of write_file has arguments like: {"file_path":"…","content":"…"}
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
        // The real name wins, and the other stays what it is.
        assert_eq!(
            check("write_file", json!({"file_path": "a", "path": "b", "content": "c"})),
            Ok(json!({"file_path": "a", "path": "b", "content": "c"}))
        );
    }

    #[test]
    fn r34_an_unknown_tool_is_named_with_its_neighbours_and_never_guessed() {
        let set = set();
        assert_eq!(
            set.not_found("read_fil"),
            "Tool \"read_fil\" not found in registry. Tools must use the exact names that are registered. Did you mean one of: \"read_file\", \"edit\", \"write_file\"?"
        );
        for (name, tool) in [
            ("functions.read_file", Some("read_file")),
            ("functions.read_file:0", Some("read_file")),
            ("ReadFile", Some("read_file")),
            ("read-file", Some("read_file")),
            ("bash", Some("run_shell_command")),
            ("str_replace_editor", Some("edit")),
            ("cat", Some("read_file")),
            ("read_fil", None),
            ("", None),
        ] {
            assert_eq!(set.resolve(name).map(|spec| spec.name.as_str()), tool, "{name}");
        }
        assert!(set.exact("bash").is_none());
    }
}
