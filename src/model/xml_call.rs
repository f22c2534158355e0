//! Parses a call in Qwen3-Coder's own format, whose values are raw text.
//!
//! The format looks like XML but is not: nothing is escaped, so a value may contain the very tags that would end it. A
//! tag counts only where a model puts it, and where the rest of the text still makes sense: `</parameter>` on a line of
//! its own before the next tag of the call ends a value, whatever the next parameter is called; `<parameter=NAME>` on a
//! line of its own does so only for a parameter of the tool that did not occur yet; inside a line both are text, and so
//! is everything that belongs to a call inside the value itself.

use serde_json::{Map, Value};

use super::coerce::parameter_meant;
use super::repair::{self, ObjectError};
use super::tool_set::ToolSet;

/// The longest tag.
pub(super) const MAX_TAG: usize = 256;

/// What is at a place.
#[derive(Debug, PartialEq)]
pub(super) enum XmlCall {
    /// A call.
    Call { name: String, arguments: Map<String, Value>, end: usize },
    /// The text ends inside it.
    Cut { name: String },
    /// Something else is where a parameter should be.
    Bad { name: String, problem: String },
    /// No call.
    None,
}

/// Where calls begin and may end.
#[derive(Debug)]
pub(super) struct Ends {
    /// The ends after which a message may continue or be over.
    certain: Nesting,
    /// These and the ends on lines of their own, which belong to calls in values.
    any: Nesting,
}

/// Beginnings and ends in their order, with their effect.
#[derive(Debug)]
struct Nesting {
    places: Vec<usize>,
    /// From the token on, the lowest nesting that is reached; below zero, an end without its beginning follows.
    lowest: Vec<i64>,
    /// Before the token, how many calls are open.
    depths: Vec<i64>,
}

impl Nesting {
    fn of(begins: &[usize], ends: impl Iterator<Item = usize>) -> Nesting {
        let mut tokens: Vec<(usize, i64)> = begins.iter().map(|at| (*at, 1)).chain(ends.map(|at| (at, -1))).collect();
        tokens.sort_unstable();
        let mut lowest = vec![0; tokens.len() + 1];
        for at in (0..tokens.len()).rev() {
            lowest[at] = tokens[at].1 + lowest[at + 1].min(0);
        }
        let mut depths = vec![0; tokens.len() + 1];
        for at in 0..tokens.len() {
            depths[at + 1] = depths[at] + tokens[at].1;
        }
        Nesting { places: tokens.into_iter().map(|(at, _)| at).collect(), lowest, depths }
    }

    /// Counts the tokens before `at`.
    fn before(&self, at: usize) -> usize {
        self.places.partition_point(|&place| place < at)
    }
}

impl Ends {
    pub(super) fn new(text: &str) -> Ends {
        let mut begins = Vec::new();
        for (at, _) in text.match_indices("<function") {
            let before = text[..at].trim_end_matches([' ', '\t']);
            if before.is_empty() || before.ends_with('\n') || before.ends_with("<tool_call>") {
                begins.push(at);
            }
        }
        let ends: Vec<(usize, bool)> =
            text.match_indices("</function>").map(|(at, tag)| (at, may_end(text, at + tag.len()))).collect();
        let begins_line = |at: usize| text[..at].trim_end_matches([' ', '\t']).ends_with('\n');
        let any = ends.iter().filter(|(at, is_certain)| *is_certain || begins_line(*at)).map(|(at, _)| *at);
        let any = Nesting::of(&begins, any);
        let certain = ends.iter().filter(|(_, is_certain)| *is_certain).map(|(at, _)| *at);
        Ends { certain: Nesting::of(&begins, certain), any }
    }

    /// Tells whether `at` is in a call that began after `start`, inside of a value: it and the call around it both
    /// have their ends further on.
    fn is_nested(&self, start: usize, at: usize) -> bool {
        let next = self.any.before(at);
        let depth = self.any.depths[next] - self.any.depths[self.any.before(start)];
        depth > 0 && self.any.lowest[next] < -depth
    }

    /// Tells whether no later end is left without its call if the one at `at` ends here.
    fn is_last(&self, at: usize) -> bool {
        self.certain.lowest[self.certain.before(at + 1)] >= 0
    }

    /// Tells whether `</function>` at `at` ends a call: what follows fits, and no later end is left without a call.
    fn is_end(&self, text: &str, at: usize) -> bool {
        may_end(text, at + "</function>".len()) && self.is_last(at)
    }
}

/// Tells whether a call may end before `at`.
fn may_end(text: &str, at: usize) -> bool {
    let rest = text[at..].trim_start();
    rest.is_empty()
        || ["</tool_call>", "<tool_call>", "<function="].iter().any(|tag| rest.starts_with(tag))
        || "</tool_call>".starts_with(rest.trim_end())
}

/// Reads the call that begins with `<function` at `at`.
pub(super) fn read(text: &str, at: usize, ends: &Ends, tools: &ToolSet) -> XmlCall {
    let Some((name, mut at)) = tag(text, at, "<function") else {
        let rest = &text[at..];
        let may_go_on = rest.len() <= MAX_TAG && !rest.contains(['>', '\n']);
        return if may_go_on { XmlCall::Cut { name: String::new() } } else { XmlCall::None };
    };
    let name = name.to_owned();
    let schema = |key: &str| tools.exact(&name).and_then(|spec| spec.parameters.get(key));
    let properties = schema("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let required = schema("required").and_then(Value::as_array).into_iter().flatten();
    let required: Vec<&str> = required.filter_map(Value::as_str).collect();
    let mut arguments = Map::new();
    let mut missing: Vec<&String> = properties.keys().collect();
    loop {
        at = skip_spaces(text, at);
        let rest = &text[at..];
        if let Some(length) = end_of_call(rest, !arguments.is_empty()) {
            return XmlCall::Call { name, arguments, end: at + length };
        }
        if rest.is_empty() || "</function>".starts_with(rest) || "<parameter=".starts_with(rest) {
            return XmlCall::Cut { name };
        }
        if rest.starts_with('{') && arguments.is_empty() {
            return object(text, at, name);
        }
        let named = name_then_value(text, at, &properties);
        if let Some((key, value, end)) = named.filter(|(key, _, _)| !arguments.contains_key(*key)) {
            arguments.insert(key.to_owned(), typed(value, properties.get(key)));
            at = end;
            continue;
        }
        if let Some((value, end)) = value_for_name(text, at)
            && let Some(key) = unnamed(&required, &properties, &arguments, "")
        {
            arguments.insert(key.to_owned(), typed(value, properties.get(key)));
            at = end;
            continue;
        }
        let Some((key, start, is_nested)) = parameter(text, at, &required, &properties, &arguments) else {
            let near: String = rest.chars().take(30).collect();
            return XmlCall::Bad { name, problem: format!("expected `<parameter=` or `</function>`, found `{near}`") };
        };
        let close = if is_nested { format!("</{key}>") } else { "</parameter>".to_owned() };
        let meant = parameter_meant(&key, &missing).cloned();
        missing.retain(|name| Some(*name) != meant.as_ref());
        let is_new = |other: &str| parameter_meant(other, &missing).is_some();
        let Some((end, next)) = value_end(text, start, ends, &close, is_new) else {
            return XmlCall::Cut { name };
        };
        // A value without an end of its own may have one that its name wrote: `<parameter=content>…</content>`.
        let whole = &text[start..end];
        let without_own = || whole.trim_end().strip_suffix(format!("</{key}>").as_str());
        let value = bare_value(if next == end { without_own().unwrap_or(whole) } else { whole });
        let value = typed(value, properties.get(meant.as_ref().unwrap_or(&key)));
        if arguments.get(&key).is_some_and(|old| *old != value) {
            return XmlCall::Bad { name, problem: format!("the parameter `{key}` stands twice") };
        }
        arguments.insert(key, value);
        at = next;
    }
}

/// Reads the tag at the beginning of a parameter; returns its name, where its value begins, and whether the tag is named like
/// it: `<content>…</content>` instead of `<parameter=content>…</parameter>`.
fn parameter(
    text: &str,
    at: usize,
    required: &[&str],
    properties: &Map<String, Value>,
    arguments: &Map<String, Value>,
) -> Option<(String, usize, bool)> {
    if let Some((key, start)) = tag(text, at, "<parameter") {
        return Some((key.to_owned(), start, false));
    }
    if let Some((key, start)) = own_tag(text, at).filter(|(key, _)| properties.contains_key(*key)) {
        return Some((key.to_owned(), start, true));
    }
    if let Some((key, start)) = name_before_value(text, at, properties) {
        return Some((key.to_owned(), start, false));
    }
    let rest = &text[at..];
    let start = at + rest.strip_prefix("<parameter>").map(|_| "<parameter>".len())?;
    // `<parameter>KEY>` is a slip of the pen.
    if let Some((key, _)) = rest[start - at..].split_once('>').filter(|(key, _)| properties.contains_key(*key)) {
        return Some((key.to_owned(), start + key.len() + 1, false));
    }
    Some((unnamed(required, properties, arguments, rest)?.to_owned(), start, false))
}

/// Reads `<parameter>KEY</parameter>` with the tag of the value behind it; returns the key and where the value begins.
fn name_before_value<'a>(text: &'a str, at: usize, properties: &Map<String, Value>) -> Option<(&'a str, usize)> {
    let (key, behind) = name_alone(text, at, properties)?;
    let value = behind.strip_prefix("<parameter>")?;
    Some((key, text.len() - value.len()))
}

/// Reads `<parameter>KEY</parameter>`; returns the key and what is behind it.
fn name_alone<'a>(text: &'a str, at: usize, properties: &Map<String, Value>) -> Option<(&'a str, &'a str)> {
    let (key, behind) = text[at..].strip_prefix("<parameter>")?.split_once("</parameter>")?;
    properties.contains_key(key.trim()).then(|| (key.trim(), behind.trim_start()))
}

/// Reads `<parameter>KEY</parameter>` with `<value>VALUE</value>` behind it, or lines without a tag; returns both and the end.
fn name_then_value<'a>(text: &'a str, at: usize, properties: &Map<String, Value>) -> Option<(&'a str, &'a str, usize)> {
    let (key, behind) = name_alone(text, at, properties)?;
    let (value, rest) = match behind.strip_prefix("<value>") {
        Some(value) => value.split_once("</value>")?,
        None => {
            let is_end =
                |line: &str| ["<parameter", "</function>", "</tool_call>"].iter().any(|tag| line.starts_with(tag));
            let length: usize = behind.split_inclusive('\n').take_while(|line| !is_end(line)).map(str::len).sum();
            Some(behind.split_at(length)).filter(|(value, rest)| !value.is_empty() && !rest.is_empty())?
        }
    };
    Some((key, bare_value(value), text.len() - rest.len()))
}

/// Reads `<parameter=VALUE</parameter>` or `<parameter="VALUE"/>`; returns the value and the end of it.
fn value_for_name(text: &str, at: usize) -> Option<(&str, usize)> {
    let rest = text[at..].strip_prefix("<parameter=")?;
    let line = rest.lines().next()?;
    let of_tag = || Some((line.strip_suffix("/>").filter(|value| value.ends_with('"'))?, "/>"));
    let (value, closing) = line.split_once("</parameter>").map(|(value, _)| (value, "</parameter>")).or_else(of_tag)?;
    let end = text.len() - rest.len() + value.len() + closing.len();
    (!value.is_empty() && !value.contains(['<', '>', '='])).then_some((value.trim_matches('"'), end))
}

/// Returns the parameter that a value without a name can only be: the one that is missing, or behind it where to look; behind
/// one with a name the first that is missing, if the rest of the call has as many such values as parameters are missing.
fn unnamed<'r>(
    required: &[&'r str],
    properties: &Map<String, Value>,
    arguments: &Map<String, Value>,
    rest: &str,
) -> Option<&'r str> {
    let is_missing = |key: &&str| !arguments.contains_key(*key);
    let mut missing = required.iter().copied().filter(is_missing);
    match (missing.next(), missing.next()) {
        (Some(key), None) => Some(key),
        (None, _) => Some("path").filter(|key| properties.contains_key(*key)).filter(is_missing),
        (Some(key), Some(_)) => {
            let follow = rest.split("</function>").next().unwrap_or_default().matches("<parameter>").count();
            (!arguments.is_empty() && follow == 2 + missing.count()).then_some(key)
        }
    }
}

pub(super) fn skip_spaces(text: &str, at: usize) -> usize {
    text.len() - text[at..].trim_start().len()
}

/// Returns the length of a call's end where there is one.
fn end_of_call(rest: &str, has_arguments: bool) -> Option<usize> {
    if rest.starts_with("</function>") {
        return Some("</function>".len());
    }
    // The end of the function may be missing, and nothing else.
    (rest.starts_with("</tool_call>") || (rest.is_empty() && has_arguments)).then_some(0)
}

/// Reads the arguments of a call that are one JSON object.
fn object(text: &str, at: usize, name: String) -> XmlCall {
    match repair::object_at(text, at) {
        Ok((arguments, end)) => {
            let after = skip_spaces(text, end);
            let closed = text[after..].starts_with("</function>");
            XmlCall::Call { name, arguments, end: if closed { after + "</function>".len() } else { end } }
        }
        Err(ObjectError::Cut) => XmlCall::Cut { name },
        Err(ObjectError::Bad { at: place, problem }) => {
            XmlCall::Bad { name, problem: repair::place(&text[at..], place - at, &problem) }
        }
    }
}

/// Returns a value without the line breaks next to its tags, and without the spaces that indent the closing one.
fn bare_value(value: &str) -> &str {
    let value = value.strip_prefix("\r\n").or_else(|| value.strip_prefix('\n')).unwrap_or(value);
    let unindented = value.trim_end_matches([' ', '\t']);
    let value = if unindented.ends_with('\n') { unindented } else { value };
    value.strip_suffix("\r\n").or_else(|| value.strip_suffix('\n')).unwrap_or(value)
}

/// Reads `<function=NAME>` or `<function name="NAME">`; returns the name and the end of the tag.
fn tag<'a>(text: &'a str, at: usize, begin: &str) -> Option<(&'a str, usize)> {
    let rest = text[at..].strip_prefix(begin)?;
    let length = rest.bytes().take(MAX_TAG).position(|byte| matches!(byte, b'>' | b'\n'))?;
    if !rest[length..].starts_with('>') {
        return None;
    }
    let inner = rest[..length].trim();
    let inner = inner.strip_prefix("name").map_or(inner, str::trim_start);
    let name = inner.strip_prefix('=')?.trim().trim_matches(['"', '\'']);
    (!name.is_empty() && name.len() <= 128).then_some((name, at + begin.len() + length + 1))
}

/// Reads `<NAME>`, with which some models wrap a value in the parameter's own name.
fn own_tag(text: &str, at: usize) -> Option<(&str, usize)> {
    let rest = text[at..].strip_prefix('<')?;
    let length = rest.bytes().take(MAX_TAG).position(|byte| !byte.is_ascii_alphanumeric() && byte != b'_')?;
    (length > 0 && rest[length..].starts_with('>')).then(|| (&rest[..length], at + length + 2))
}

/// Finds where a value ends and where to read on.
fn value_end(
    text: &str,
    start: usize,
    ends: &Ends,
    close: &str,
    is_new: impl Fn(&str) -> bool,
) -> Option<(usize, usize)> {
    let next_parameter =
        |at: usize| tag(text, at, "<parameter").or_else(|| own_tag(text, at)).is_some_and(|(key, _)| is_new(key));
    // A value that begins next to its tag may end so, too.
    let is_inline = |place: usize| !text[start..place].contains('\n');
    let begins_line = |place: usize| place == start || text[..place].trim_end_matches([' ', '\t']).ends_with('\n');
    let mut at = start;
    while let Some(offset) = text[at..].find('<') {
        let place = at + offset;
        let rest = &text[place..];
        if rest.starts_with(close) {
            let after = skip_spaces(text, place + close.len());
            let follows = &text[after..];
            let ends_line = || text[place + close.len()..after].contains('\n');
            let is_closed = || (begins_line(place) || is_inline(place)) && ends_line() && !ends.is_nested(start, place);
            let is_end = follows.is_empty()
                || (follows.starts_with("</function>")
                    && (ends.is_end(text, after) || (is_closed() && ends.is_last(after))))
                || (next_parameter(after) && !ends.is_nested(start, place))
                || (tag(text, after, "<parameter").is_some() && is_closed())
                || (follows.starts_with("<parameter>") && close == "</parameter>")
                || (follows.starts_with("</tool_call>") && may_close(text, after));
            if is_end {
                return Some((place, after));
            }
        } else if rest.starts_with("<parameter") {
            let is_alone = || {
                let line = rest.split('\n').next().unwrap_or(rest);
                begins_line(place) && line.trim_end().ends_with('>') && line.matches('>').count() == 1
            };
            let is_beside = || is_inline(text[..place].trim_end().len().max(start)) && begins_line(place);
            if (is_alone() || is_beside()) && next_parameter(place) && !ends.is_nested(start, place) {
                return Some((place, place));
            }
        } else if rest.starts_with("</function>") && ends.is_end(text, place) {
            return Some((place, place));
        }
        at = place + 1;
    }
    None
}

/// Tells whether `</tool_call>` at `at` ends a call whose own end is missing.
fn may_close(text: &str, at: usize) -> bool {
    let rest = text[at + "</tool_call>".len()..].trim_start();
    rest.is_empty() || rest.starts_with("<tool_call>")
}

/// Reads a value as the schema types it; text that cannot be read so stays text, for the validation to judge.
fn typed(value: &str, schema: Option<&Value>) -> Value {
    let text = || Value::String(value.to_owned());
    let Some(schema) = schema else { return text() };
    let is = |name: &str| match schema.get("type") {
        Some(Value::String(one)) => one == name,
        Some(Value::Array(many)) => many.iter().any(|one| one == name),
        Some(_) | None => false,
    };
    if is("string") || schema.get("type").is_none() {
        return text();
    }
    match value.trim() {
        "True" | "true" if is("boolean") => Value::Bool(true),
        "False" | "false" if is("boolean") => Value::Bool(false),
        trimmed => serde_json::from_str(trimmed).unwrap_or_else(|_| text()),
    }
}
