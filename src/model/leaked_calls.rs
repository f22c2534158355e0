//! Calls that a model wrote into its text.
//!
//! Text is only taken for a call where nothing else can be meant: the tool is on offer, its arguments fit, the block
//! is closed, and it is not an example in a fence or a quotation. What looks like a call and cannot be read is told
//! to the model by [`broken_call`], and is never taken for the answer.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::coerce::ToolSet;
use super::repair::{self, ObjectError, Piece, Reading};
use super::slots::{MAX_CALLS, Unnumbered, number};
use super::xml_call::{self, XmlCall};
use super::{Arguments, AssistantMessage};
use crate::tool_name;

/// Whether calls are looked for in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TextTools {
    /// Never.
    Off,
    /// Where nothing else could be meant (wire.md 2.2).
    #[default]
    Auto,
    /// The tools stand in the prompt: fenced blocks that end the message count too.
    Prompted,
}

/// What the text came to.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    /// What remains of it.
    pub(super) text: String,
    /// The calls, in order.
    pub(super) calls: Vec<Unnumbered>,
}

/// Tells whether a message without calls ends in fenced calls of offered tools with valid arguments: then it is to be
/// read again as [`TextTools::Prompted`] (wire.md R26).
pub fn ends_in_call(text: &str, tools: &ToolSet) -> bool {
    text.contains("```")
        && read(text, tools, TextTools::Prompted, false).is_some_and(|found| {
            found.calls.iter().all(|call| match &call.arguments {
                Arguments::Object(arguments) => tools.check(&call.name, arguments.clone()).is_ok(),
                Arguments::Incomplete { .. } | Arguments::Invalid { .. } => false,
            })
        })
}

/// Reads a message without calls again as one whose calls stand in its text; `false` leaves it as it was.
pub fn read_again(message: &mut AssistantMessage, tools: &ToolSet, turn: u32, used_ids: &HashSet<String>) -> bool {
    let Some(found) = read(&message.text, tools, TextTools::Prompted, false) else { return false };
    message.text = found.text;
    message.calls = number(found.calls, turn, used_ids);
    true
}

/// Says what is wrong with a call in a message that came to no calls, for the model; `None` if there is nothing like
/// a call in it.
pub fn broken_call(text: &str, tools: &ToolSet) -> Option<String> {
    let blocks = blocks(text, tools, true);
    let problem = blocks.into_iter().find_map(|block| match block.outcome {
        Outcome::Calls(calls) => calls.into_iter().find_map(|call| {
            let problem = match &call.arguments {
                Arguments::Object(arguments) => tools.check(&call.name, arguments.clone()).err()?,
                Arguments::Incomplete { .. } => "its arguments are cut off".to_owned(),
                Arguments::Invalid { problem, .. } => problem.clone(),
            };
            Some(format!("the call of `{}` was not run: {problem}", call.name))
        }),
        Outcome::Cut { name } => Some(format!("{} is not closed, so nothing was run", named(name.as_deref()))),
        Outcome::Bad { name, problem } => Some(format!("{} was not run: {problem}", named(name.as_deref()))),
    });
    let misplaced = || {
        fences(text).iter().find_map(|fence| match fenced(text, fence, tools, true)?.outcome {
            Outcome::Calls(calls) => {
                let call = calls.into_iter().find(|call| call.is_plain && tools.exact(&call.name).is_some())?;
                (!text[fence.end..].trim().is_empty())
                    .then(|| format!("the call of `{}` was not run: it has to end the message", call.name))
            }
            Outcome::Cut { .. } | Outcome::Bad { .. } => None,
        })
    };
    let as_code = || {
        let text = text.trim();
        let (name, rest) = text.split_once('(')?;
        (rest.ends_with(')') && tools.exact(name).is_some())
            .then(|| format!("the call of `{name}` was not run: this is not how a call is written"))
    };
    problem
        .or_else(misplaced)
        .or_else(as_code)
        .map(|problem| format!("{problem}\nWrite the whole call again, and nothing after it."))
}

fn named(name: Option<&str>) -> String {
    match name {
        Some(name) => format!("the call of `{name}`"),
        None => "the tool call in your message".to_owned(),
    }
}

/// Tells whether a text is nothing but stray tags of the models' own protocols.
pub(super) fn is_only_tags(text: &str) -> bool {
    let mut rest = text.trim();
    const TAGS: [&str; 9] = [
        "</tool_call>",
        "<tool_call>",
        "</function>",
        "</parameter>",
        "</think>",
        "<think>",
        "</tools>",
        "<|im_end|>",
        "<|im_start|>",
    ];
    while let Some(after) = TAGS.iter().find_map(|tag| rest.strip_prefix(tag)) {
        rest = after.trim_start();
    }
    rest.is_empty()
}

const OPENERS: [&str; 4] = ["<tool_call>", "<function=", "<function name", "<tools>"];

/// What stands before a call that somebody only talks of.
const QUOTES: [char; 5] = ['"', '\'', '\u{201c}', '\u{2018}', '\u{ab}'];

/// Blanks that may stand before a message that is nothing but a call.
const MAX_BLANKS: usize = 4096;

/// Looks on for the beginning of a call; returns how far the text is certain, and where a call may begin.
pub(super) fn look(text: &str, from: usize, mode: TextTools) -> (usize, Option<usize>) {
    // Blanks before the text are few, or they are no beginning of anything.
    let start = text.bytes().take(MAX_BLANKS).take_while(u8::is_ascii_whitespace).count();
    if from <= start && start < MAX_BLANKS {
        let head = &text[start..];
        if head.is_empty() {
            return (0, None);
        }
        let may_begin = ["```", "functions."].iter().any(|opener| opener.starts_with(head) || head.starts_with(opener));
        if head.starts_with(['{', '[']) || head.starts_with("```") || head.starts_with("functions.") {
            return (start, Some(start));
        }
        if may_begin {
            return (0, None);
        }
    }
    let mut at = from;
    let openers: &[&str] = match mode {
        TextTools::Prompted => {
            &["<tool_call>", "</tool_call>", "<function=", "<function name", "<tools>", "```", "\n{", "\n["]
        }
        TextTools::Off | TextTools::Auto => &["<tool_call>", "</tool_call>", "<function=", "<function name", "<tools>"],
    };
    while let Some(offset) = text[at..].find(['<', '`', '\n']) {
        let place = at + offset;
        let rest = &text[place..];
        if openers.iter().any(|opener| rest.starts_with(opener)) {
            return (place, Some(place));
        }
        if openers.iter().any(|opener| opener.starts_with(rest)) {
            return (place, None);
        }
        at = place + 1;
    }
    (text.len(), None)
}

/// Reads the calls of a message that has no native ones.
pub(super) fn read(text: &str, tools: &ToolSet, mode: TextTools, was_cut: bool) -> Option<Found> {
    if mode == TextTools::Off || tools.specs().is_empty() {
        return None;
    }
    let prompted = mode == TextTools::Prompted;
    let blocks = blocks(text, tools, prompted);
    let mut found = Found { text: String::new(), calls: Vec::new() };
    let mut kept = 0;
    let mut is_over = false;
    for block in blocks {
        let is_last = text[block.end..].trim().is_empty();
        let calls = match block.outcome {
            // After a call that failed the next ones would stand on sand.
            _ if is_over => None,
            Outcome::Calls(calls) => {
                let mut taken: Vec<Unnumbered> =
                    calls.into_iter().filter_map(|call| accept(call, tools, prompted)).collect();
                let is_closed = !block.is_tagged || ends_closed(&text[block.start..block.end]);
                if was_cut
                    && is_last
                    && !is_closed
                    && let Some(last) = taken.last_mut()
                {
                    // More arguments may have been on their way.
                    last.arguments = Arguments::Incomplete { raw: text[block.start..].to_owned() };
                }
                (!taken.is_empty()).then_some(taken)
            }
            Outcome::Cut { name } => name.filter(|_| is_last && (was_cut || prompted)).map(|name| {
                let raw = text[block.start..].to_owned();
                let shape = shape_of(&raw);
                let arguments = if was_cut {
                    Arguments::Incomplete { raw }
                } else {
                    let problem = "the call is not closed: a string, a brace or a tag has no end".to_owned();
                    Arguments::Invalid { raw, problem }
                };
                vec![unnumbered(name, arguments, shape)]
            }),
            Outcome::Bad { name, problem } => name.filter(|_| prompted).map(|name| {
                let raw = text[block.start..block.end].to_owned();
                let shape = shape_of(&raw);
                vec![unnumbered(name, Arguments::Invalid { raw, problem }, shape)]
            }),
        };
        let Some(calls) = calls else {
            if prompted && is_over {
                kept = block.end;
            }
            continue;
        };
        is_over = prompted && calls.iter().any(|call| !matches!(call.arguments, Arguments::Object(_)));
        push_between(&mut found, &text[kept..block.start]);
        kept = block.end;
        found.calls.extend(calls);
        if found.calls.len() >= MAX_CALLS {
            found.calls.truncate(MAX_CALLS);
            break;
        }
    }
    if found.calls.is_empty() {
        return None;
    }
    push_between(&mut found, &text[kept..]);
    Some(found)
}

/// Tells whether a block in tags has its end.
fn ends_closed(block: &str) -> bool {
    let block = block.trim_end().trim_end_matches('`').trim_end();
    ["</tool_call>", "</function>", "</tools>"].iter().any(|tag| block.ends_with(tag))
}

fn shape_of(raw: &str) -> &'static str {
    if raw.contains("<function") {
        "qwen_xml"
    } else if raw.contains("<tool") {
        "hermes"
    } else {
        "json"
    }
}

/// Keeps text around calls; blanks only before the first.
fn push_between(found: &mut Found, text: &str) {
    if found.calls.is_empty() || !text.trim().is_empty() {
        found.text.push_str(text);
    }
}

/// Reads the calls of a turn that is nothing but reasoning: only in tags, and only at its end.
pub(super) fn read_reasoning(text: &str, tools: &ToolSet) -> Option<Found> {
    let trimmed = text.trim_end();
    let first = blocks(trimmed, tools, false).first().filter(|block| block.is_tagged).map(|block| block.start)?;
    let found = read(&trimmed[first..], tools, TextTools::Auto, false)?;
    found.text.trim().is_empty().then(|| Found { text: trimmed[..first].to_owned(), calls: found.calls })
}

fn unnumbered(name: String, arguments: Arguments, shape: &'static str) -> Unnumbered {
    Unnumbered { id: None, name, arguments, recovered: Some(shape), has_arguments: true }
}

/// Takes a call that is certain, its arguments as the tool wants them.
fn accept(call: Candidate, tools: &ToolSet, prompted: bool) -> Option<Unnumbered> {
    let known = tools.exact(&call.name).map(|spec| spec.name.clone());
    let Arguments::Object(arguments) = call.arguments else {
        let name = known?;
        return prompted.then(|| unnumbered(name, call.arguments, call.shape));
    };
    let Some(name) = known else {
        // A name that is not on offer is answered where calls can only stand in the text, and is text elsewhere.
        return (prompted && call.is_plain).then(|| unnumbered(call.name, Arguments::Object(arguments), call.shape));
    };
    match tools.check(&name, arguments.clone()) {
        Ok(checked) => Some(unnumbered(name, Arguments::Object(checked.arguments), call.shape)),
        Err(_) => prompted.then(|| unnumbered(name, Arguments::Object(arguments), call.shape)),
    }
}

/// A call as written.
#[derive(Debug)]
struct Candidate {
    name: String,
    arguments: Arguments,
    shape: &'static str,
    /// Name and arguments each have their own key: it can hardly be anything but a call.
    is_plain: bool,
}

/// A part of the text that looks like one call or several.
#[derive(Debug)]
struct Block {
    start: usize,
    end: usize,
    is_tagged: bool,
    outcome: Outcome,
}

#[derive(Debug)]
enum Outcome {
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
fn blocks(text: &str, tools: &ToolSet, prompted: bool) -> Vec<Block> {
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
struct Fence {
    start: usize,
    end: usize,
    inside: std::ops::Range<usize>,
}

fn fences(text: &str) -> Vec<Fence> {
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
fn fenced(text: &str, fence: &Fence, tools: &ToolSet, prompted: bool) -> Option<Block> {
    let inside = &text[fence.inside.clone()];
    let mut calls = Vec::new();
    for block in tagged_blocks(inside, 0, tools) {
        match block.outcome {
            Outcome::Calls(more) => calls.extend(more),
            outcome @ (Outcome::Cut { .. } | Outcome::Bad { .. }) if calls.is_empty() => {
                return Some(Block { start: fence.start, end: fence.end, is_tagged: true, outcome });
            }
            Outcome::Cut { .. } | Outcome::Bad { .. } => break,
        }
    }
    if calls.is_empty() {
        let outcome = json(inside, tools, prompted)?;
        return Some(Block { start: fence.start, end: fence.end, is_tagged: false, outcome });
    }
    Some(Block { start: fence.start, end: fence.end, is_tagged: true, outcome: Outcome::Calls(calls) })
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

/// Finds the blocks that end a message of a model whose tools stand in the prompt.
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
    // Other fences stand in the message: the ones in a row at its end are the calls.
    let mut from = count - 1;
    while from > 0 && read[from - 1].is_some() && is_adjacent(&fences[from - 1], &fences[from]) {
        from -= 1;
    }
    read.into_iter().skip(from).flatten().collect()
}

/// Reads calls in tags that stand in fences and end the message. Their values may hold fences of their own, so the
/// tags say where they end.
fn tagged_in_fences(text: &str, end: usize, fences: &[Fence], tools: &ToolSet) -> Option<Vec<Block>> {
    let begins = |fence: &&Fence| OPENERS.iter().any(|tag| text[fence.inside.clone()].trim_start().starts_with(tag));
    let first = fences.iter().find(begins)?;
    let mut blocks = tagged_blocks(text, first.inside.start, tools);
    let is_frame = |between: &str| between.lines().all(|line| line.trim().is_empty() || line.trim().starts_with("```"));
    let last = blocks.last()?;
    if !is_frame(&text[last.end..end]) || !matches!(last.outcome, Outcome::Calls(_)) {
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

/// Reads one or more JSON calls that are the whole of `text`; `None` if it is something else.
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

/// Reads a JSON value as a call; `None` if it is something else.
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
        let arguments = match &object[arguments_key] {
            Value::Object(arguments) => Arguments::Object(arguments.clone()),
            Value::String(raw) => match repair::read(raw) {
                Reading::Pieces { mut pieces, .. } if pieces.len() == 1 => match pieces.remove(0) {
                    Piece::Object(object) => Arguments::Object(object),
                    Piece::Incomplete(raw) => Arguments::Incomplete { raw },
                },
                Reading::Pieces { .. } => return None,
                Reading::Invalid { problem } => Arguments::Invalid { raw: raw.clone(), problem },
            },
            Value::Null => Arguments::Object(Map::new()),
            Value::Bool(_) | Value::Number(_) | Value::Array(_) => return None,
        };
        return Some(Candidate { name, arguments, shape, is_plain });
    }
    // {"name": "edit", "file_path": …}: the arguments stand beside the name.
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
                    if blocks.len() > MAX_CALLS {
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
    body = skip_blanks(text, body);
    let block = |end: usize, outcome: Outcome| Some(Block { start: at, end, is_tagged: true, outcome });
    if text[body..].starts_with("<function") {
        return match xml_call::read(text, body, ends, tools) {
            XmlCall::Call { name, arguments, mut end } => {
                let after = skip_blanks(text, end);
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

pub(super) fn skip_blanks(text: &str, at: usize) -> usize {
    text.len() - text[at..].trim_start().len()
}

/// Returns the end of a closing tag at `at`, which the end of the text may cut.
fn strip_closer(text: &str, at: usize, closer: &str) -> Option<usize> {
    let rest = &text[at..];
    if rest.starts_with(closer) {
        return Some(at + closer.len());
    }
    (!rest.is_empty() && closer.starts_with(rest.trim_end())).then_some(text.len())
}

/// Reads the JSON calls after an opening tag.
fn hermes(text: &str, body: usize, closer: &str, tools: &ToolSet) -> Option<(usize, Outcome)> {
    let mut calls = Vec::new();
    let mut at = body;
    let is_fenced = text[at..].starts_with("```");
    if is_fenced {
        at = skip_blanks(text, at + text[at..].find('\n').unwrap_or(3));
    }
    let bad = |name: Option<String>, problem: String, at: usize| {
        let end = text[at..].find(closer).map_or(text.len(), |found| at + found + closer.len());
        Some((end, Outcome::Bad { name, problem }))
    };
    loop {
        let start = at;
        let values = match text.as_bytes().get(at) {
            Some(b'{') => repair::object_at(text, at).map(|(object, end)| (vec![Value::Object(object)], end)),
            Some(b'[') => repair::array_at(text, at),
            Some(_) | None if calls.is_empty() => return None,
            Some(_) | None => return bad(None, "the call is not closed".to_owned(), at),
        };
        let (values, end) = match values {
            Ok(read) => read,
            Err(ObjectError::Cut) => return Some((text.len(), Outcome::Cut { name: name_in(&text[at..], tools) })),
            Err(ObjectError::Bad { at: place, problem }) => {
                let whole = text[start..].find(closer).map_or(&text[start..], |end| &text[start..start + end]);
                let problem = repair::place(whole, place - start, &problem);
                return bad(name_in(&text[at..], tools), problem, at);
            }
        };
        for value in &values {
            match call_of(value, "hermes", tools, true) {
                Some(call) => calls.push(call),
                None => return bad(None, "a call needs `name` and `arguments`".to_owned(), at),
            }
        }
        at = skip_blanks(text, end);
        // A brace too many is common and harmless.
        if text[at..].starts_with('}') {
            at = skip_blanks(text, at + 1);
        }
        if is_fenced && text[at..].starts_with("```") {
            at = skip_blanks(text, at + 3);
        }
        if let Some(end) = strip_closer(text, at, closer) {
            return Some((end, Outcome::Calls(calls)));
        }
        if text[at..].is_empty() || OPENERS.iter().any(|opener| text[at..].starts_with(opener)) {
            return Some((at, Outcome::Calls(calls)));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::stream_cases::tools;
    use super::*;

    const CALL: &str = "```json\n{\"name\":\"read_file\",\"arguments\":{\"file_path\":\"a.rs\"}}\n```";

    #[test]
    fn r26_a_fence_that_ends_a_native_message_is_read_again() {
        let tools = tools();
        assert!(read(&format!("I look.\n{CALL}"), &tools, TextTools::Auto, false).is_none());
        assert!(ends_in_call(&format!("I look.\n{CALL}"), &tools));
        for text in [
            format!("I look.\n{CALL}\nand then more"),
            "I look.".to_owned(),
            "So:\n```json\n{\"name\":\"fly\",\"arguments\":{}}\n```".to_owned(),
            "So:\n```json\n{\"name\":\"read_file\",\"arguments\":{}}\n```".to_owned(),
            "So:\n```python\nprint(1)\n```".to_owned(),
        ] {
            assert!(!ends_in_call(&text, &tools), "{text}");
        }
        let mut message = AssistantMessage { text: format!("I look.\n{CALL}"), ..AssistantMessage::default() };
        assert!(read_again(&mut message, &tools, 4, &HashSet::new()));
        assert_eq!(message.text, "I look.\n");
        assert_eq!((message.calls[0].id.as_str(), message.calls[0].recovered), ("call_4_0", Some("json")));
    }

    #[test]
    fn r27_values_survive_byte_for_byte() {
        let values = [
            "a && b < c > d &amp; e",
            "x </parameter> y",
            "<parameter=x>\n<parameter=file_path>",
            "</function>",
            "// </function> and </tool_call>",
            "</parameter>\n<parameter=nope>\nz\n</parameter>",
            "\n\n  two blank lines before and after\n\n",
            "```\nfence\n```",
            "",
        ];
        for value in values {
            let text = format!(
                "<tool_call>\n<function=write_file>\n<parameter=file_path>\na.rs\n</parameter>\n<parameter=content>\n{value}\n</parameter>\n</function>\n</tool_call>"
            );
            let found = read(&text, &tools(), TextTools::Auto, false).unwrap();
            let Arguments::Object(arguments) = &found.calls[0].arguments else { panic!("{value}") };
            assert_eq!(arguments["content"], value);
            assert_eq!(found.calls.len(), 1);
        }
    }

    #[test]
    fn r28_no_part_of_a_tag_goes_out() {
        for (text, out) in [
            ("hello <tool_", 6),
            ("hello <tool_call>", 6),
            ("hello <func", 6),
            ("hello <b>", 9),
            ("{\"name\"", 0),
            ("``", 0),
            ("a ` b", 5),
        ] {
            let (looked, found) = look(text, 0, TextTools::Auto);
            assert_eq!(found.unwrap_or(looked), out, "{text}");
        }
    }

    #[test]
    fn a_broken_call_is_told_with_its_place() {
        let tools = tools();
        let broken = "I write.\n```json\n{\"name\":\"write_file\",\"arguments\":{\"file_path\":\"a\",\"content\":\"print(\"hi\")\"}}\n```";
        let message = broken_call(broken, &tools).unwrap();
        assert!(
            message.starts_with("the call of `write_file` was not run: not valid JSON: expected `,` or `}`"),
            "{message}"
        );
        assert!(
            broken_call("<tool_call>\n<function=write_file>\n<parameter=content>\nfn", &tools)
                .unwrap()
                .contains("not closed")
        );
        let missing = broken_call("<tool_call>{\"name\":\"read_file\",\"arguments\":{}}</tool_call>", &tools).unwrap();
        assert!(missing.contains("params must have required property 'file_path'"), "{missing}");
        for fine in ["The answer is 42.", "```json\n{\"a\":1}\n```", "`<tool_call>` is a tag", ""] {
            assert_eq!(broken_call(fine, &tools), None);
        }
    }

    #[test]
    fn r20_a_leaked_call_without_its_end_is_incomplete_at_the_output_limit() {
        let text = "<tool_call>\n<function=read_file>\n<parameter=file_path>\na.rs\n</parameter>\n";
        let found = read(text, &tools(), TextTools::Auto, true).unwrap();
        assert!(matches!(found.calls[0].arguments, Arguments::Incomplete { .. }));
        let found = read(text, &tools(), TextTools::Auto, false).unwrap();
        assert!(matches!(found.calls[0].arguments, Arguments::Object(_)));
    }

    #[test]
    fn fences_inside_a_fenced_value_do_not_end_it() {
        let write = |path: &str| {
            format!(
                "<tool_call>\n<function=write_file>\n<parameter=file_path>\n{path}\n</parameter>\n<parameter=content>\n# A\n```\ncode\n```\nend\n</parameter>\n</function>\n</tool_call>"
            )
        };
        let text = format!("I write.\n```xml\n{}\n```\n```xml\n{}\n```", write("a.md"), write("b.md"));
        let found = read(&text, &tools(), TextTools::Prompted, false).unwrap();
        assert_eq!((found.text.as_str(), found.calls.len()), ("I write.\n", 2));
        let Arguments::Object(arguments) = &found.calls[1].arguments else { panic!() };
        assert_eq!(arguments["content"], "# A\n```\ncode\n```\nend");
    }

    #[test]
    fn a_call_with_words_after_it_is_asked_for_again() {
        let message = broken_call(&format!("{CALL}\nThis reads it."), &tools()).unwrap();
        assert!(message.contains("has to end the message"), "{message}");
    }

    #[test]
    fn an_unclosed_block_of_a_prompted_model_is_an_error() {
        let text =
            "I write.\n```json\n{\"name\":\"write_file\",\"arguments\":{\"file_path\":\"a\",\"content\":\"x}}\n```";
        let found = read(text, &tools(), TextTools::Prompted, false).unwrap();
        assert!(matches!(&found.calls[0].arguments, Arguments::Invalid { .. }));
    }

    #[test]
    fn calls_after_a_broken_one_are_not_taken() {
        let text = format!(
            "```json\n{{\"name\":\"write_file\",\"arguments\":{{\"file_path\":\"a\",\"content\":\"say \"x\"\"}}}}\n```\n{CALL}"
        );
        let found = read(&text, &tools(), TextTools::Prompted, false).unwrap();
        assert_eq!(found.calls.len(), 1);
        assert!(matches!(found.calls[0].arguments, Arguments::Invalid { .. }));
    }

    proptest! {
        #[test]
        fn no_text_panics(parts in prop::collection::vec(prop::sample::select(vec![
            "<tool_call>", "</tool_call>", "<function=list>", "<function=write_file>", "</function>", "<tools>",
            "<parameter=content>", "<parameter=file_path>", "</parameter>", "```", "```json", "\n", "{", "}", "\"", "[", "]",
            "{\"name\":\"list\",\"arguments\":{}}", "é", " ", "`", ">", "functions.list:", "<", "<think>", "</think>",
        ]), 0..24), cut in any::<bool>()) {
            let text: String = parts.concat();
            let tools = tools();
            for mode in [TextTools::Auto, TextTools::Prompted] {
                if let Some(found) = read(&text, &tools, mode, cut) {
                    prop_assert!(!found.calls.is_empty());
                }
            }
            let _ = (broken_call(&text, &tools), ends_in_call(&text, &tools), read_reasoning(&text, &tools));
            let (looked, found) = look(&text, 0, TextTools::Prompted);
            prop_assert!(text.is_char_boundary(found.unwrap_or(looked)));
        }
    }
}
