//! Sets or removes one entry of a settings file; every other byte of the file, including comments, is kept.

use serde_json::Value;

use super::json::{Entry, Kind, Node, Position, parse};

/// Sets `section.name` to a value. A missing file is an empty text.
///
/// The error says why the text cannot be edited; it is then to be left alone.
pub fn set(text: &str, section: &str, name: &str, value: &Value) -> Result<String, String> {
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    let file = File::read(text)?;
    let edited = match file.section(section)? {
        None => {
            let value = serde_json::json!({ name: value });
            file.insert(&file.root, section, &value)
        }
        Some(found) => match last(&entries(found), name) {
            Some(entry) => {
                let start = file.offset(entry.node.at);
                let indent = file.indent_of(entry.at);
                format!("{}{}{}", &text[..start], printed(value, &indent), &text[file.end(start)..])
            }
            None => file.insert(found, name, value),
        },
    };
    let now = parse(&edited).map_err(|error| error.to_string())?.value();
    match now.get(section).and_then(|section| section.get(name)) == Some(value) {
        true => Ok(edited),
        false => Err("its form cannot be edited; add the server by hand".to_owned()),
    }
}

/// Removes `section.name`; `None` if there is no such entry.
pub fn remove(text: &str, section: &str, name: &str) -> Result<Option<String>, String> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let file = File::read(text)?;
    let Some(found) = file.section(section)? else { return Ok(None) };
    let entries = entries(found);
    let Some(place) = entries.iter().rposition(|entry| entry.name == name) else { return Ok(None) };
    let mut start = file.offset(entries[place].at);
    let mut end = file.end(file.offset(entries[place].node.at));
    let comma = file.skip_blank(end);
    let mut edited = text.to_owned();
    if text[comma..].starts_with(',') {
        // A comment between the value and the comma goes with them.
        end = comma + 1;
    }
    // A line that holds nothing else goes as a whole.
    let line = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let rest = text[end..].find('\n').map_or(text.len(), |at| end + at + 1);
    if text[line..start].trim().is_empty() && text[end..rest].trim().is_empty() {
        (start, end) = (line, rest);
    }
    edited.replace_range(start..end, "");
    if !text[comma..].starts_with(',') && place > 0 {
        // It was the last one: the comma before it has nothing to divide any more.
        let before = file.skip_blank(file.end(file.offset(entries[place - 1].node.at)));
        if text[before..].starts_with(',') {
            edited.replace_range(before..=before, "");
        }
    }
    let now = parse(&edited).map_err(|error| error.to_string())?.value();
    match now.get(section).is_some_and(|section| section.get(name).is_none()) {
        true => Ok(Some(edited)),
        // It was there twice.
        false if edited.len() < text.len() => remove(&edited, section, name).map(|again| Some(again.unwrap_or(edited))),
        false => Err("its form cannot be edited; remove the server by hand".to_owned()),
    }
}

struct File<'a> {
    text: &'a str,
    root: Node,
}

fn entries(node: &Node) -> Vec<&Entry> {
    match &node.kind {
        Kind::Object(entries) => entries.iter().collect(),
        Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::Text(_) | Kind::List(_) => Vec::new(),
    }
}

fn last<'a>(entries: &[&'a Entry], name: &str) -> Option<&'a Entry> {
    entries.iter().rev().find(|entry| entry.name == name).copied()
}

impl File<'_> {
    fn read(text: &str) -> Result<File<'_>, String> {
        let root = parse(text).map_err(|error| error.to_string())?;
        match root.kind {
            Kind::Object(_) => Ok(File { text, root }),
            Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::Text(_) | Kind::List(_) => {
                Err(format!("settings are an object, not {}", root.what()))
            }
        }
    }

    fn section(&self, name: &str) -> Result<Option<&Node>, String> {
        let Some(entry) = last(&entries(&self.root), name) else { return Ok(None) };
        match entry.node.kind {
            Kind::Object(_) => Ok(Some(&entry.node)),
            Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::Text(_) | Kind::List(_) => {
                Err(format!("{name} is {}, not an object", entry.node.what()))
            }
        }
    }

    /// Returns where a place is, in bytes.
    fn offset(&self, at: Position) -> usize {
        let bom = if self.text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        let body = &self.text[bom..];
        let line = usize::try_from(at.line).unwrap_or(1);
        let start: usize = body.split_inclusive('\n').take(line - 1).map(str::len).sum();
        let column = usize::try_from(at.column).unwrap_or(1);
        bom + body[start..].char_indices().nth(column - 1).map_or(body.len(), |(at, _)| start + at)
    }

    /// Returns the end of the value that begins here. The text has been parsed, so that it has one.
    fn end(&self, start: usize) -> usize {
        let mut depth = 0_usize;
        let mut at = start;
        loop {
            at = self.skip_blank_within(at, depth > 0);
            let Some(c) = self.text[at..].chars().next() else { return at };
            at += match c {
                '"' => self.text_length(at),
                '{' | '[' => {
                    depth += 1;
                    1
                }
                '}' | ']' => {
                    depth = depth.saturating_sub(1);
                    1
                }
                c if c.is_ascii_alphanumeric() || "+-.".contains(c) => {
                    let rest = &self.text[at..];
                    rest.find(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c)).unwrap_or(rest.len())
                }
                c => c.len_utf8(),
            };
            if depth == 0 {
                return at;
            }
        }
    }

    fn text_length(&self, at: usize) -> usize {
        let mut escaped = false;
        for (place, c) in self.text[at..].char_indices().skip(1) {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => return place + 1,
                _ => {}
            }
        }
        self.text.len() - at
    }

    fn skip_blank_within(&self, at: usize, skip: bool) -> usize {
        if skip { self.skip_blank(at) } else { at }
    }

    /// Skips spaces and comments.
    fn skip_blank(&self, mut at: usize) -> usize {
        loop {
            let rest = &self.text[at..];
            let blanks = rest.len() - rest.trim_start().len();
            let rest = &rest[blanks..];
            at += blanks;
            if rest.starts_with("//") {
                at += rest.find('\n').unwrap_or(rest.len());
            } else if let Some(inside) = rest.strip_prefix("/*") {
                // `/*/` opens and does not close.
                at += inside.find("*/").map_or(rest.len(), |end| end + 4);
            } else {
                return at;
            }
        }
    }

    /// Returns the spaces at the beginning of the line in which a place is.
    fn indent_of(&self, at: Position) -> String {
        let offset = self.offset(at);
        let line = self.text[..offset].rfind('\n').map_or(0, |at| at + 1);
        self.text[line..offset].chars().take_while(|c| *c == ' ' || *c == '\t').collect()
    }

    /// Puts an entry at the end of an object.
    fn insert(&self, object: &Node, name: &str, value: &Value) -> String {
        let start = self.offset(object.at);
        let close = self.end(start) - 1;
        let known = entries(object);
        let outer = self.indent_of(object.at);
        let indent = match known.first() {
            Some(entry) if entry.at.line > object.at.line => self.indent_of(entry.at),
            Some(_) | None => format!("{outer}  "),
        };
        let entry = format!("{}: {}", Value::from(name), printed(value, &indent));
        let before = self.text[..close].trim_end().len();
        let closing = if self.text[before..close].contains('\n') { String::new() } else { format!("\n{outer}") };
        let tail = if closing.is_empty() { &self.text[before..] } else { &self.text[close..] };
        let mut head = self.text[..before].to_owned();
        if let Some(entry) = known.last() {
            let end = self.end(self.offset(entry.node.at));
            if !self.text[self.skip_blank(end)..].starts_with(',') {
                head.insert(end, ',');
            }
        }
        format!("{head}\n{indent}{entry}{closing}{tail}")
    }
}

/// Writes a value over several lines, the second and later ones indented.
fn printed(value: &Value, indent: &str) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default().replace('\n', &format!("\n{indent}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const FILE: &str = r#"{
  // who answers
  "model": "m", /* small */
  "mcpServers": {
    // ours
    "a": {"command": "a"}, // the first
    "b": {
      "httpUrl": "https://b" // no comma
    }
    // the end
  },
}
"#;

    #[test]
    fn a_comment_that_begins_like_one_that_ends_is_no_end() {
        let text = "{\"mcpServers\": {\"a\": 1 /*/ é \" { */}}";
        let edited = set(text, "mcpServers", "b", &json!(2)).unwrap();
        assert_eq!(parse(&edited).unwrap().value(), json!({"mcpServers": {"a": 1, "b": 2}}), "{edited}");
    }

    #[test]
    fn a_new_entry_goes_to_the_end_and_nothing_else_moves() {
        insta::assert_snapshot!(set(FILE, "mcpServers", "c", &json!({"command": "c"})).unwrap(), @r#"
        {
          // who answers
          "model": "m", /* small */
          "mcpServers": {
            // ours
            "a": {"command": "a"}, // the first
            "b": {
              "httpUrl": "https://b" // no comma
            },
            // the end
            "c": {
              "command": "c"
            }
          },
        }
        "#);
    }

    #[test]
    fn a_known_entry_is_replaced_at_its_place() {
        let edited = set(FILE, "mcpServers", "a", &json!({"url": "x"})).unwrap();
        assert!(edited.contains("    \"a\": {\n      \"url\": \"x\"\n    }, // the first\n    \"b\""), "{edited}");
    }

    #[test]
    fn what_is_removed_takes_its_comma_along() {
        insta::assert_snapshot!(remove(FILE, "mcpServers", "b").unwrap().unwrap(), @r#"
        {
          // who answers
          "model": "m", /* small */
          "mcpServers": {
            // ours
            "a": {"command": "a"} // the first
            // the end
          },
        }
        "#);
        let edited = remove(FILE, "mcpServers", "a").unwrap().unwrap();
        assert!(edited.contains("    // ours\n     // the first\n    \"b\": {"), "{edited}");
        assert_eq!(remove(FILE, "mcpServers", "c").unwrap(), None);
        assert_eq!(
            remove(r#"{"mcpServers": {"a": 1, "b": 2}}"#, "mcpServers", "b").unwrap().unwrap(),
            r#"{"mcpServers": {"a": 1 }}"#
        );
    }

    #[test]
    fn an_empty_file_and_one_without_the_section_get_it() {
        let server = json!({"command": "c"});
        let made = "{\n  \"mcpServers\": {\n    \"c\": {\n      \"command\": \"c\"\n    }\n  }\n}\n";
        assert_eq!(set("", "mcpServers", "c", &server).unwrap(), made);
        let edited = set("{\"a\": 1} // x", "mcpServers", "c", &server).unwrap();
        assert!(edited.starts_with("{\"a\": 1,\n  \"mcpServers\": {") && edited.ends_with("\n} // x"), "{edited}");
        assert!(set("[]", "mcpServers", "c", &server).is_err() && set("{", "mcpServers", "c", &server).is_err());
        assert!(set(r#"{"mcpServers": 1}"#, "mcpServers", "c", &server).unwrap_err().contains("not an object"));
    }

    proptest! {
        #[test]
        fn what_was_set_is_there_and_what_is_removed_is_gone(
            names in prop::collection::vec("[a-c\u{e4}\"]{1,2}", 0..4), name in "[a-c\u{e4}\"]{1,2}", pretty: bool, comments: bool
        ) {
            let servers: serde_json::Map<String, Value> =
                names.iter().map(|name| (name.clone(), json!({"x": [1, "}, //"]}))).collect();
            let whole = json!({"z": "\u{e4}", "mcpServers": servers, "y": 1});
            let mut text = if pretty { serde_json::to_string_pretty(&whole).unwrap() } else { whole.to_string() };
            if comments && pretty {
                text = text.replace("\n", " // a } \"\n");
            }
            let set_text = set(&text, "mcpServers", &name, &json!({"new": true})).unwrap();
            let mut expected = whole.clone();
            expected["mcpServers"][&name] = json!({"new": true});
            prop_assert_eq!(parse(&set_text).unwrap().value(), expected.clone());
            let removed = remove(&set_text, "mcpServers", &name).unwrap().unwrap();
            expected["mcpServers"].as_object_mut().unwrap().shift_remove(&name);
            prop_assert_eq!(parse(&removed).unwrap().value(), expected);
        }
    }
}
