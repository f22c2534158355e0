//! Uses prompts of servers as the prompt of a run: `/name --arg="v"`, or the values in order.

use serde_json::{Map, Value};

use super::content;
use super::definition::PromptDefinition;
use crate::model::Part;

/// Splits a typed `/name …` into the name and what is after it; `None` if it is not of this form.
pub fn command(text: &str) -> Option<(&str, &str)> {
    let rest = text.trim().strip_prefix('/')?;
    let (name, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    (!name.is_empty() && !name.contains('/')).then_some((name, arguments.trim()))
}

/// Reads the arguments of a prompt: `--name="value"`, `--name value`, or values in the declared order.
///
/// The last declared one takes the rest, so that a sentence needs no quotes.
pub fn arguments(text: &str, prompt: &PromptDefinition) -> Result<Map<String, Value>, String> {
    let words = if text.is_empty() {
        Vec::new()
    } else {
        super::command_line::split_command(text).map_err(|error| error.to_string())?
    };
    let known: Vec<&str> = prompt.arguments.iter().map(|(name, _)| name.as_str()).collect();
    let mut given = Map::new();
    let mut values: Vec<String> = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let Some(named) = word.strip_prefix("--").filter(|named| !named.is_empty()) else {
            values.push(word);
            continue;
        };
        let (name, value) = match named.split_once('=') {
            Some((name, value)) => (name.to_owned(), value.to_owned()),
            None => (named.to_owned(), words.next().ok_or_else(|| format!("--{named} has no value"))?),
        };
        if !known.contains(&name.as_str()) {
            return Err(match known.is_empty() {
                true => format!("/{} takes no arguments, and --{name} was given", prompt.name),
                false => format!("/{} has no argument {name}; it has {}", prompt.name, known.join(", ")),
            });
        }
        given.insert(name, value.into());
    }
    let open: Vec<&str> = known.iter().copied().filter(|name| !given.contains_key(*name)).collect();
    if open.is_empty() && !values.is_empty() {
        return Err(format!("/{} takes nothing more, and {:?} was given", prompt.name, values.join(" ")));
    }
    for (place, name) in open.iter().enumerate() {
        let last = place + 1 == open.len();
        let value = if last { std::mem::take(&mut values).join(" ") } else { take_first(&mut values) };
        if !value.is_empty() {
            given.insert((*name).to_owned(), value.into());
        }
    }
    match prompt.arguments.iter().find(|(name, required)| *required && !given.contains_key(name)) {
        Some((name, _)) => Err(format!("/{} needs --{name}=\"…\"", prompt.name)),
        None => Ok(given),
    }
}

fn take_first(values: &mut Vec<String>) -> String {
    if values.is_empty() { String::new() } else { values.remove(0) }
}

/// Returns the messages of a prompt as one text; what the server puts into the assistant's mouth is marked as such.
pub fn text(result: &Value) -> String {
    let mut texts = Vec::new();
    for message in result.get("messages").and_then(Value::as_array).into_iter().flatten() {
        let mut own = Vec::new();
        let mut media: Vec<Part> = Vec::new();
        let blocks = match message.get("content") {
            Some(Value::Array(blocks)) => blocks.iter().collect(),
            Some(block) => vec![block],
            None => Vec::new(),
        };
        blocks.into_iter().for_each(|block| content::block_of(block, false, &mut own, &mut media));
        let own = own.join("\n");
        texts.push(match message.get("role").and_then(Value::as_str) {
            Some("assistant") => format!("Assistant: {own}"),
            Some(_) | None => own,
        });
    }
    texts.join("\n\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn prompt(arguments: &[(&str, bool)]) -> PromptDefinition {
        PromptDefinition {
            name: "p".into(),
            description: String::new(),
            arguments: arguments.iter().map(|(name, required)| ((*name).to_owned(), *required)).collect(),
        }
    }

    fn read(text: &str) -> Result<Value, String> {
        arguments(text, &prompt(&[("city", true), ("state", false)])).map(Value::Object)
    }

    #[test]
    fn arguments_are_named_or_in_order() {
        assert_eq!(read(r#"--city="New York" --state NY"#).unwrap(), json!({"city": "New York", "state": "NY"}));
        assert_eq!(read(r#""New York" NY"#).unwrap(), json!({"city": "New York", "state": "NY"}));
        assert_eq!(read("Paris").unwrap(), json!({"city": "Paris"}));
        assert_eq!(read("Paris far away").unwrap(), json!({"city": "Paris", "state": "far away"}));
        assert_eq!(read("--state=x Paris").unwrap(), json!({"state": "x", "city": "Paris"}));
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert_eq!(read("").unwrap_err(), "/p needs --city=\"…\"");
        assert_eq!(read("--town=x").unwrap_err(), "/p has no argument town; it has city, state");
        assert_eq!(read("--city").unwrap_err(), "--city has no value");
        assert_eq!(read("--city=a --state=b c").unwrap_err(), "/p takes nothing more, and \"c\" was given");
        assert!(read("'x").is_err());
    }

    #[test]
    fn a_path_is_no_prompt() {
        assert_eq!(command("/p a b"), Some(("p", "a b")));
        assert_eq!(command(" /p\n x"), Some(("p", "x")));
        assert_eq!(command("/usr/bin/x is broken"), None);
        assert_eq!(command("fix /p"), None);
        assert_eq!(command("/"), None);
    }

    #[test]
    fn messages_become_one_text() {
        let result = json!({"messages": [
            {"role": "user", "content": {"type": "text", "text": "Hi"}},
            {"role": "assistant", "content": [{"type": "text", "text": "Yes"}]},
            {"role": "user", "content": {"type": "image", "data": "AAAA", "mimeType": "image/png"}}
        ]});
        assert_eq!(
            text(&result),
            "Hi\n\nAssistant: Yes\n\n[image: image/png, about 3 bytes; this model takes no media]"
        );
    }
}
