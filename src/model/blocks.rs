//! Finds the parts of a message that look like calls: tags, fences, bare JSON.
//!
//! Decides nothing: [`super::leaked_calls`] tells calls from examples.

use serde_json::{Map, Value};

use super::Arguments;
use super::repair::{self, Fragment, ObjectError, Reading};
use super::slots::MOST_CALLS;
use super::tool_set::ToolSet;
use super::xml_call::{self, XmlCall, skip_spaces};
use crate::tool_name;

/// What a call in tags begins with.
const OPENERS: [&str; 4] = ["<tool_call>", "<function=", "<function name", "<tools>"];

/// What is before a call that somebody only talks of.
const QUOTES: [char; 5] = ['"', '\'', '\u{201c}', '\u{2018}', '\u{ab}'];

/// A call as written.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) name: String,
    pub(super) arguments: Arguments,
    pub(super) shape: &'static str,
    /// Name and arguments each have their own key: almost certainly a call.
    pub(super) is_plain: bool,
}

/// The name of a broken call whose own name cannot be read.
const NAMELESS: &str = "invalid_tool_call";

impl Candidate {
    /// Makes a call of a block that cannot be read, to be answered with what is wrong with it.
    pub(super) fn broken(outcome: Outcome, raw: &str) -> Candidate {
        let (name, problem) = match outcome {
            Outcome::Bad { name, problem } => (name, problem),
            Outcome::Cut { name } => (name, NOT_CLOSED.to_owned()),
            Outcome::Calls(_) => (None, String::new()),
        };
        Candidate {
            name: name.unwrap_or_else(|| NAMELESS.to_owned()),
            arguments: Arguments::Invalid { raw: raw.to_owned(), problem },
            shape: shape_of(raw),
            is_plain: true,
        }
    }
}

/// What is wrong with a call that the text ends in.
const NOT_CLOSED: &str = "the call is not closed: a string, a brace or a tag has no end";

pub(super) fn shape_of(raw: &str) -> &'static str {
    if raw.contains("<function") {
        "qwen_xml"
    } else if raw.contains("<tool") {
        "hermes"
    } else {
        "json"
    }
}

/// A part of the text that looks like one call or several.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) is_tagged: bool,
    pub(super) outcome: Outcome,
}

#[derive(Debug)]
pub(super) enum Outcome {
    Calls(Vec<Candidate>),
    /// The text ends inside.
    Cut {
        name: Option<String>,
    },
    /// It cannot be read.
    Bad {
        name: Option<String>,
        problem: String,
    },
}

/// Finds the blocks of a message. With `prompted`, fenced and bare JSON at its end counts too.
pub(super) fn blocks(text: &str, tools: &ToolSet, prompted: bool) -> Vec<Block> {
    let tagged = tagged_blocks(text, 0, tools);
    if !tagged.is_empty() {
        return tagged;
    }
    let start = text.len() - text.trim_start().len();
    let end = text.trim_end().len().max(start);
    if start == end {
        return Vec::new();
    }
    let fences = fences(text);
    // The whole message is one fence.
    if let [fence] = fences.as_slice()
        && fence.start == start
        && fence.end == end
    {
        let block = fenced(text, fence, tools, prompted);
        return block.into_iter().collect();
    }
    if fences.is_empty()
        && let Some(block) = whole(text, start, end, tools)
    {
        return vec![block];
    }
    if prompted { trailing(text, end, &fences, tools) } else { Vec::new() }
}

/// A code fence and what is in it.
#[derive(Debug)]
pub(super) struct Fence {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) inside: std::ops::Range<usize>,
}

pub(super) fn fences(text: &str) -> Vec<Fence> {
    let mut fences = Vec::new();
    let mut open: Option<(usize, usize)> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let next = at + line.len();
        let trimmed = line.trim();
        if trimmed.starts_with("```") {
            match open {
                None => open = Some((at + line.len() - line.trim_start().len(), next)),
                Some((start, inside)) if trimmed.bytes().all(|byte| byte == b'`') => {
                    fences.push(Fence { start, end: at + line.trim_end().len(), inside: inside..at });
                    open = None;
                }
                // A fence that opens where one is open: the model forgot to close the first.
                Some((start, inside)) => {
                    fences.push(Fence { start, end: at, inside: inside..at });
                    open = Some((at + line.len() - line.trim_start().len(), next));
                }
            }
        }
        at = next;
    }
    if let Some((start, inside)) = open {
        let end = text.trim_end().len().max(inside.min(text.len()));
        fences.push(Fence { start, end, inside: inside.min(end)..end });
    }
    fences
}

/// Reads the inside of a fence.
pub(super) fn fenced(text: &str, fence: &Fence, tools: &ToolSet, prompted: bool) -> Option<Block> {
    let inside = &text[fence.inside.clone()];
    let block = |is_tagged, outcome| Some(Block { start: fence.start, end: fence.end, is_tagged, outcome });
    let mut tagged = tagged_blocks(inside, 0, tools);
    match tagged.len() {
        0 => return block(false, json(inside, tools, prompted)?),
        1 => return block(true, tagged.remove(0).outcome),
        _ => {}
    }
    let calls = tagged.into_iter().flat_map(|one| match one.outcome {
        Outcome::Calls(calls) => calls,
        broken @ (Outcome::Cut { .. } | Outcome::Bad { .. }) => {
            vec![Candidate::broken(broken, &inside[one.start..one.end])]
        }
    });
    block(true, Outcome::Calls(calls.collect()))
}

/// Reads a message that is nothing but JSON, or `functions.NAME:` and JSON.
fn whole(text: &str, start: usize, end: usize, tools: &ToolSet) -> Option<Block> {
    let body = &text[start..end];
    let block = |outcome| Some(Block { start, end, is_tagged: false, outcome });
    if let Some(rest) = body.strip_prefix("functions.") {
        let (name, arguments) = rest.split_once(':')?;
        let name = tools.exact(name.trim())?.name.clone();
        let arguments = arguments.trim();
        if !arguments.starts_with('{') {
            return None;
        }
        let (object, length) = repair::object_at(arguments, 0).ok()?;
        if length != arguments.len() {
            return None;
        }
        let call = Candidate { name, arguments: Arguments::Object(object), shape: "json", is_plain: true };
        return block(Outcome::Calls(vec![call]));
    }
    body.starts_with(['{', '[']).then(|| json(body, tools, false)).flatten().and_then(block)
}

/// Finds the blocks that end a message of a model whose tools are in the prompt.
fn trailing(text: &str, end: usize, fences: &[Fence], tools: &ToolSet) -> Vec<Block> {
    if fences.last().is_none_or(|fence| fence.end < end) {
        // A bare object that begins a line and ends the message.
        let after = fences.last().map_or(0, |fence| fence.end);
        let mut at = after;
        let mut line = None;
        for piece in text[after..end].split_inclusive('\n') {
            let indent = piece.len() - piece.trim_start().len();
            if piece[indent..].starts_with(['{', '[']) {
                line = Some(at + indent);
                break;
            }
            at += piece.len();
        }
        return line
            .and_then(|at| json(&text[at..end], tools, true).map(|outcome| (at, outcome)))
            .map(|(start, outcome)| Block { start, end, is_tagged: false, outcome })
            .into_iter()
            .collect();
    }
    if let Some(blocks) = tagged_in_fences(text, end, fences, tools) {
        return blocks;
    }
    let read: Vec<Option<Block>> = fences.iter().map(|fence| fenced(text, fence, tools, true)).collect();
    if read.last().is_some_and(Option::is_none) {
        return Vec::new();
    }
    let is_adjacent = |a: &Fence, b: &Fence| text[a.end..b.start].trim().is_empty();
    let count = fences.len();
    if read.iter().all(Option::is_some) {
        // Every block is a call. Words between them tell a plan, whose later steps were written without seeing the
        // answers to the first ones: only the first steps are taken.
        let first = (1..count).find(|&at| !is_adjacent(&fences[at - 1], &fences[at])).unwrap_or(count);
        let mut blocks: Vec<Block> = read.into_iter().flatten().take(first).collect();
        if first < count
            && let Some(last) = blocks.last_mut()
        {
            last.end = end;
        }
        return blocks;
    }
    // Other fences are in the message: the ones in a row at its end are the calls.
    let mut from = count - 1;
    while from > 0 && read[from - 1].is_some() && is_adjacent(&fences[from - 1], &fences[from]) {
        from -= 1;
    }
    read.into_iter().skip(from).flatten().collect()
}

/// Reads calls in tags that are in fences and end the message. Their values may hold fences of their own, so the
/// tags say where they end.
fn tagged_in_fences(text: &str, end: usize, fences: &[Fence], tools: &ToolSet) -> Option<Vec<Block>> {
    let begins = |fence: &&Fence| OPENERS.iter().any(|tag| text[fence.inside.clone()].trim_start().starts_with(tag));
    let first = fences.iter().find(begins)?;
    let mut blocks = tagged_blocks(text, first.inside.start, tools);
    let is_frame = |between: &str| between.lines().all(|line| line.trim().is_empty() || line.trim().starts_with("```"));
    let last = blocks.last()?;
    // What is cut extends from the last word to the end of the spaces.
    if !is_frame(&text[last.end.min(end)..end]) || !matches!(last.outcome, Outcome::Calls(_)) {
        return None;
    }
    for at in 1..blocks.len() {
        let before = blocks[at - 1].end;
        if is_frame(&text[before..blocks[at].start]) {
            blocks[at].start = before;
        }
    }
    blocks.first_mut()?.start = first.start;
    blocks.last_mut()?.end = end;
    Some(blocks)
}

/// Parses `text` as one or more JSON calls; `None` if it is anything else.
fn json(text: &str, tools: &ToolSet, prompted: bool) -> Option<Outcome> {
    let mut calls = Vec::new();
    let mut at = 0;
    loop {
        at += text[at..].len() - text[at..].trim_start_matches(|c: char| c.is_whitespace() || c == ',').len();
        if at >= text.len() {
            break;
        }
        let values = match text.as_bytes()[at] {
            b'{' => repair::object_at(text, at).map(|(object, end)| (vec![Value::Object(object)], end)),
            b'[' => repair::array_at(text, at),
            // A brace too many is common and harmless.
            b'}' if !calls.is_empty() && text[at + 1..].trim().is_empty() => break,
            _ => return None,
        };
        match values {
            Ok((values, end)) => {
                for value in values {
                    calls.push(call_of(&value, "json", tools, prompted)?);
                }
                at = end;
            }
            Err(problem) => {
                let name = name_in(&text[at..], tools)?;
                if !calls.is_empty() {
                    calls.push(bad_candidate(name, text, at, problem));
                    return Some(Outcome::Calls(calls));
                }
                return Some(match problem {
                    ObjectError::Cut => Outcome::Cut { name: Some(name) },
                    ObjectError::Bad { at: place, problem } => {
                        Outcome::Bad { name: Some(name), problem: repair::place(text, place, &problem) }
                    }
                });
            }
        }
    }
    (!calls.is_empty()).then_some(Outcome::Calls(calls))
}

fn bad_candidate(name: String, text: &str, at: usize, problem: ObjectError) -> Candidate {
    let raw = text[at..].to_owned();
    let arguments = match problem {
        ObjectError::Cut => Arguments::Incomplete { raw },
        ObjectError::Bad { at: place, problem } => {
            Arguments::Invalid { problem: repair::place(text, place, &problem), raw }
        }
    };
    Candidate { name, arguments, shape: "json", is_plain: true }
}

/// Finds the name of an offered tool in JSON that cannot be read.
fn name_in(text: &str, tools: &ToolSet) -> Option<String> {
    let head = &text[..text.char_indices().nth(200).map_or(text.len(), |(at, _)| at)];
    for key in ["name", "tool", "function", "tool_name"] {
        let Some((_, after)) = head.split_once(&format!("\"{key}\"")) else { continue };
        let Some(after) = after.trim_start().strip_prefix(':') else { continue };
        let Some((name, _)) = after.trim_start().strip_prefix('"').and_then(|rest| rest.split_once('"')) else {
            continue;
        };
        if let Some(spec) = tools.exact(name) {
            return Some(spec.name.clone());
        }
    }
    None
}

/// Parses a JSON value as a call; `None` if it is anything else.
fn call_of(value: &Value, shape: &'static str, tools: &ToolSet, lenient: bool) -> Option<Candidate> {
    let object = value.as_object()?;
    if let Some(inner) = object.get("function").filter(|inner| inner.is_object()) {
        return call_of(inner, shape, tools, lenient);
    }
    if object.len() == 1
        && let Some(inner) = object.get("tool_call").filter(|inner| inner.is_object())
    {
        return call_of(inner, shape, tools, lenient);
    }
    let name_key = ["name", "tool", "tool_name", "function"]
        .into_iter()
        .find(|key| object.get(*key).is_some_and(Value::is_string));
    let Some(name_key) = name_key else {
        // {"read_file": {"file_path": "a.rs"}}
        let (name, arguments) = object.iter().next().filter(|_| lenient && object.len() == 1)?;
        tools.exact(name)?;
        let arguments = Arguments::Object(arguments.as_object()?.clone());
        return Some(Candidate { name: name.clone(), arguments, shape, is_plain: false });
    };
    let name = tool_name::bare(object[name_key].as_str()?).to_owned();
    let is_known = tools.exact(&name).is_some();
    let arguments_key = ["arguments", "parameters", "args", "input"].into_iter().find(|key| object.contains_key(*key));
    let others = || object.keys().filter(|key| *key != name_key);
    if let Some(arguments_key) = arguments_key {
        let is_plain = others().all(|key| key == arguments_key || matches!(key.as_str(), "id" | "type" | "thought"));
        if !is_plain && !lenient {
            return None;
        }
        let arguments = arguments_of(&object[arguments_key], &name, tools)?;
        return Some(Candidate { name, arguments, shape, is_plain });
    }
    // {"name": "edit", "file_path": …}: the arguments are next to the name.
    let spec = tools.exact(&name)?;
    let arguments: Map<String, Value> =
        object.iter().filter(|(key, _)| *key != name_key).map(|(key, value)| (key.clone(), value.clone())).collect();
    let has_own = spec
        .parameters
        .get("properties")
        .and_then(Value::as_object)
        .is_some_and(|properties| arguments.keys().any(|key| properties.contains_key(key)));
    let is_empty = lenient && arguments.is_empty();
    (is_known && (has_own || is_empty)).then_some(Candidate {
        name,
        arguments: Arguments::Object(arguments),
        shape,
        is_plain: false,
    })
}

/// Reads the arguments of a call as its JSON has them; `None` if that is not a call.
fn arguments_of(value: &Value, name: &str, tools: &ToolSet) -> Option<Arguments> {
    let raw = match value {
        Value::Object(arguments) => return Some(Arguments::Object(arguments.clone())),
        Value::Null => return Some(Arguments::Object(Map::new())),
        Value::String(raw) => raw,
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => return None,
    };
    match repair::read(raw) {
        Reading::Fragments { mut pieces, .. } if pieces.len() == 1 => Some(match pieces.remove(0) {
            Fragment::Object(object) => Arguments::Object(object),
            Fragment::Incomplete(raw) => Arguments::Incomplete { raw },
        }),
        Reading::Fragments { .. } => None,
        Reading::Invalid { problem } => Some(match tools.with_brace(name, raw) {
            Some(object) => Arguments::Object(object),
            None => Arguments::Invalid { raw: raw.clone(), problem },
        }),
    }
}

/// Finds the blocks in tags, outside of fences, code spans and quotations.
fn tagged_blocks(text: &str, from: usize, tools: &ToolSet) -> Vec<Block> {
    let mut blocks = Vec::new();
    if !OPENERS.iter().any(|opener| text.contains(opener)) {
        return blocks;
    }
    let ends = xml_call::Ends::new(text);
    let mut at = from;
    let mut in_fence = false;
    let mut ticks = 0usize;
    let mut line_begins = true;
    let bytes = text.as_bytes();
    while at < bytes.len() {
        if std::mem::take(&mut line_begins) {
            ticks = 0;
            let length = bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len() - at, |end| end + 1);
            let line = text[at..at + length].trim_start();
            let is_fence = line.starts_with("```") || line.starts_with("~~~");
            in_fence ^= is_fence;
            if is_fence || in_fence || line.starts_with('>') {
                at += length;
                line_begins = true;
                continue;
            }
        }
        match bytes[at] {
            b'\n' => line_begins = true,
            b'`' => ticks += 1,
            b'<' if ticks.is_multiple_of(2) && !text[..at].ends_with(QUOTES) => {
                if let Some(block) = tagged_block(text, at, &ends, tools) {
                    at = block.end.max(at + 1);
                    blocks.push(block);
                    if blocks.len() > MOST_CALLS {
                        return blocks;
                    }
                    continue;
                }
            }
            _ => {}
        }
        at += 1;
    }
    blocks
}

/// Reads the block that begins at `at`, if one does.
fn tagged_block(text: &str, at: usize, ends: &xml_call::Ends, tools: &ToolSet) -> Option<Block> {
    let rest = &text[at..];
    let opener = OPENERS.iter().find(|opener| rest.starts_with(**opener))?;
    let (mut body, closer) = match *opener {
        "<tool_call>" => (at + opener.len(), "</tool_call>"),
        "<tools>" => (at + opener.len(), "</tools>"),
        _ => (at, "</tool_call>"),
    };
    body = skip_spaces(text, body);
    let block = |end: usize, outcome: Outcome| Some(Block { start: at, end, is_tagged: true, outcome });
    if text[body..].starts_with("<function") {
        return match xml_call::read(text, body, ends, tools) {
            XmlCall::Call { name, arguments, mut end } => {
                let after = skip_spaces(text, end);
                if let Some(closed) = strip_closer(text, after, closer) {
                    end = closed;
                }
                let call =
                    Candidate { name, arguments: Arguments::Object(arguments), shape: "qwen_xml", is_plain: true };
                block(end, Outcome::Calls(vec![call]))
            }
            XmlCall::Cut { name } => block(text.len(), Outcome::Cut { name: known(name, tools) }),
            XmlCall::Bad { name, problem } => {
                let end = text[body..].find("</function>").map_or(text.len(), |found| body + found + 11);
                let end = strip_closer(text, skip_spaces(text, end), closer).unwrap_or(end);
                block(end, Outcome::Bad { name: known(name, tools), problem })
            }
            XmlCall::None => None,
        };
    }
    hermes(text, body, closer, tools).and_then(|(end, outcome)| block(end, outcome))
}

fn known(name: String, tools: &ToolSet) -> Option<String> {
    tools.exact(&name).map(|spec| spec.name.clone())
}

/// Returns the end of a closing tag at `at`, which the end of the text may cut.
fn strip_closer(text: &str, at: usize, closer: &str) -> Option<usize> {
    let rest = &text[at..];
    if rest.starts_with(closer) {
        return Some(at + closer.len());
    }
    (!rest.is_empty() && closer.starts_with(rest.trim_end())).then_some(text.len())
}

/// Adds a broken call to those that were read before it.
fn beside(mut calls: Vec<Candidate>, broken: Outcome, raw: &str) -> Outcome {
    if calls.is_empty() {
        return broken;
    }
    calls.push(Candidate::broken(broken, raw));
    Outcome::Calls(calls)
}

/// Reads the object at `at`; where it cannot be read, once more with the brace that a server dropped before its
/// arguments.
fn object_or_braced(text: &str, at: usize, tools: &ToolSet) -> Result<(Map<String, Value>, usize), ObjectError> {
    let read = repair::object_at(text, at);
    let Err(ObjectError::Bad { .. }) = &read else { return read };
    let braced = || {
        let key =
            ["\"arguments\"", "\"parameters\""].iter().find_map(|key| Some(at + text[at..].find(key)? + key.len()))?;
        let colon = key + text[key..].find(':')? + 1;
        let (object, end) = repair::object_at(&format!("{}{{{}", &text[at..colon], &text[colon..]), 0).ok()?;
        let call = call_of(&Value::Object(object.clone()), "hermes", tools, true)?;
        let Arguments::Object(arguments) = call.arguments else { return None };
        tools.check(&call.name, arguments).is_ok().then(|| (object, at + end - 1))
    };
    // A copy of the rest for each broken object would take quadratic time.
    let is_short = text.len() - at <= MAX_BRACED;
    is_short.then(braced).flatten().map_or(read, Ok)
}

/// The longest rest of a message in which a dropped brace is looked for.
const MAX_BRACED: usize = 64 << 10;

/// Reads the JSON calls after an opening tag.
fn hermes(text: &str, body: usize, closer: &str, tools: &ToolSet) -> Option<(usize, Outcome)> {
    let mut calls = Vec::new();
    let mut at = body;
    let is_fenced = text[at..].starts_with("```");
    if is_fenced {
        at = skip_spaces(text, at + text[at..].find('\n').unwrap_or(3));
    }
    let bad = |name: Option<String>, problem: String, at: usize| {
        let end = text[at..].find(closer).map_or(text.len(), |found| at + found + closer.len());
        Some((end, Outcome::Bad { name, problem }))
    };
    loop {
        let start = at;
        let values = match text.as_bytes().get(at) {
            Some(b'{') => object_or_braced(text, at, tools).map(|(object, end)| (vec![Value::Object(object)], end)),
            Some(b'[') => repair::array_at(text, at),
            Some(_) | None if calls.is_empty() => return None,
            Some(_) | None => return bad(None, "the call is not closed".to_owned(), at),
        };
        let (values, end) = match values {
            Ok(read) => read,
            Err(ObjectError::Cut) => {
                let broken = Outcome::Cut { name: name_in(&text[at..], tools) };
                return Some((text.len(), beside(calls, broken, &text[start..])));
            }
            Err(ObjectError::Bad { at: place, problem }) => {
                let whole = text[start..].find(closer).map_or(&text[start..], |end| &text[start..start + end]);
                let problem = repair::place(whole, place - start, &problem);
                let (end, broken) = bad(name_in(&text[at..], tools), problem, at)?;
                return Some((end, beside(calls, broken, whole)));
            }
        };
        for value in &values {
            match call_of(value, "hermes", tools, true) {
                Some(call) => calls.push(call),
                None => {
                    let (end, broken) = bad(None, "a call needs `name` and `arguments`".to_owned(), at)?;
                    return Some((end, beside(calls, broken, &text[start..end])));
                }
            }
        }
        at = skip_spaces(text, end);
        // A brace too many is common and harmless.
        if text[at..].starts_with('}') {
            at = skip_spaces(text, at + 1);
        }
        if is_fenced && text[at..].starts_with("```") {
            at = skip_spaces(text, at + 3);
        }
        if let Some(end) = strip_closer(text, at, closer) {
            return Some((end, Outcome::Calls(calls)));
        }
        if text[at..].is_empty() || OPENERS.iter().any(|opener| text[at..].starts_with(opener)) {
            return Some((at, Outcome::Calls(calls)));
        }
    }
}
