//! Reads what a server says of its tools and prompts.

use serde_json::{Map, Value};

use super::{pins, schema, shown};
use crate::base::cut;
use crate::tool_name;

/// Maximum bytes that one tool takes in a request.
const TOOL_BYTES: usize = 64 << 10;

/// Maximum bytes of a tool's description: each is paid on every request.
const DESCRIPTION: usize = 4_000;

/// A tool as its server defines it.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// The server's own name.
    pub name: String,
    /// For the model.
    pub description: String,
    /// The cleaned schema of its parameters.
    pub schema: Value,
    /// The hash of name, description and schema as they came.
    pub hash: String,
}

impl Definition {
    /// Returns the server's name in the policy: its own, with `_` in place of spaces, `*` and letters that are not
    /// ASCII.
    pub fn judged(&self) -> String {
        let is_plain = self.name.chars().all(|c| c.is_ascii_graphic() && c != '*');
        if is_plain { self.name.clone() } else { tool_name::plain(&self.name) }
    }

    /// Returns the bytes that it takes in a request.
    pub(super) fn bytes(&self) -> usize {
        self.description.len() + self.schema.to_string().len()
    }
}

/// A prompt as its server defines it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptDefinition {
    /// Its name.
    pub name: String,
    /// For people.
    pub description: String,
    /// Its arguments in order, and whether each must be given.
    pub arguments: Vec<(String, bool)>,
}

/// Reads one entry of the list of tools; the error says which tool cannot be used and why.
pub(super) fn definition(entry: &Value) -> Result<Definition, String> {
    let name = entry.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| format!("one has no name ({})", shown(&entry.to_string(), 80)))?;
    let about = |why: String| format!("{} ({why})", shown(name, 60));
    if name.len() > 500 || name.contains(char::is_control) {
        return Err(about("the name is not one line of text".to_owned()));
    }
    let schema = match entry.get("inputSchema") {
        Some(Value::Object(schema)) => schema.clone(),
        None | Some(Value::Null) => Map::new(),
        Some(_) => return Err(about("its schema is not an object".to_owned())),
    };
    let description = entry.get("description").and_then(Value::as_str).unwrap_or_default();
    let hash = pins::hash(name, description, &Value::Object(schema.clone()));
    let description = description.trim();
    let mut short = description[..cut::end(description, DESCRIPTION)].to_owned();
    if short.len() < description.len() {
        short.push('…');
    }
    if short.is_empty() {
        short = entry.get("title").and_then(Value::as_str).unwrap_or_default().chars().take(200).collect();
    }
    let tool =
        Definition { name: name.to_owned(), description: short, schema: schema::clean(&schema).map_err(about)?, hash };
    if tool.bytes() > TOOL_BYTES { Err(about("its schema is too large".to_owned())) } else { Ok(tool) }
}

/// Reads one entry of the list of prompts.
pub(super) fn prompt_of(entry: &Value) -> Option<PromptDefinition> {
    let text = |entry: &Value, key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
    let argument = |argument: &Value| {
        Some((text(argument, "name")?, argument.get("required").and_then(Value::as_bool).unwrap_or(false)))
    };
    let arguments = entry.get("arguments").and_then(Value::as_array);
    Some(PromptDefinition {
        name: text(entry, "name")?,
        description: text(entry, "description").unwrap_or_default(),
        arguments: arguments.into_iter().flatten().filter_map(argument).collect(),
    })
}
