//! Writes the body of a request, as bytes.
//!
//! Servers cache what they computed for a prefix, so the order never changes: the model, the tools, the messages, then
//! what varies by turn. The same messages always give the same bytes, and new messages only append: a [`Stem`] keeps
//! the bytes that are written, so a turn costs what it adds and not what came before it.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use super::prompted::{self, CallsOutcome};
use super::providers::{ReasoningOut, ThinkingSwitch};
use super::units::{Answer, NO_ANSWER, Unit, marked, units};
use super::{Arguments, AssistantMessage, Lineage, Message, Part, ToolSpec};

/// How messages are written: what a provider's table and the run's downgrades decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// The tools are in the prompt.
    pub prompted: bool,
    /// Content is always a list of parts, so that a mark can be set without changing the rest.
    pub parts: bool,
    /// The model takes images.
    pub images: bool,
    /// How reasoning goes back.
    pub reasoning: ReasoningOut,
    /// A message of calls alone has `content: null`.
    pub null_content: bool,
    /// Media may be in a tool's message.
    pub tool_media: bool,
    /// With the tools in the prompt: a short task that asks for an answer, said again behind the results of calls.
    pub question: Option<Arc<str>>,
}

/// What is after the messages.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Ask for a stream.
    pub stream: bool,
    /// Ask for usage at its end.
    pub stream_options: bool,
    /// The output limit, with the name of its field.
    pub max_tokens: Option<(&'static str, u64)>,
    /// Sampling and other numbers, in this order.
    pub sampling: Vec<(&'static str, Value)>,
    /// The tool to force.
    pub force_tool: Option<String>,
    /// Ask for several calls in a turn.
    pub parallel_tool_calls: bool,
    /// The form that the server holds the answer to.
    pub response_format: Option<Value>,
    /// Switch thinking.
    pub thinking: Option<(ThinkingSwitch, bool)>,
    /// Ask to keep older reasoning.
    pub preserve_thinking: bool,
    /// Set cache marks.
    pub marks: bool,
    /// Additional fields.
    pub extra: Map<String, Value>,
}

/// A body and what is known of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Body {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Where the messages' closing bracket is: the bytes before it begin the next body.
    pub prefix: usize,
    /// Our guess of the prompt's tokens.
    pub estimate: u64,
}

/// What an image counts in the guess.
const MEDIA_TOKENS: u64 = 1_000;

/// What decides how the same messages are written.
#[derive(Debug, Clone)]
struct Manner {
    lineage: Lineage,
    model: String,
    tools: Arc<[ToolSpec]>,
    shape: Shape,
    marks: bool,
}

impl Manner {
    /// Tells whether it writes what the other one writes. Lists of tools are compared by identity: there is one a run.
    fn is(&self, other: &Manner) -> bool {
        self.lineage == other.lineage
            && self.model == other.model
            && Arc::ptr_eq(&self.tools, &other.tools)
            && self.shape == other.shape
            && self.marks == other.marks
    }
}

/// The beginning of the last body of a conversation: what the next one need not write again.
#[derive(Debug, Default)]
pub struct Stem {
    manner: Option<Manner>,
    bytes: Vec<u8>,
    tally: Tally,
    /// How many units of messages the bytes hold.
    units: usize,
}

/// A body of which only what follows the messages is missing.
pub struct Begun {
    out: Writer,
    prefix: usize,
    has_tools: bool,
}

/// Writes a body up to the end of its messages. What the stem holds of the same lineage is not written again, and what
/// later bodies will share is added to it.
pub fn begin(
    stem: &mut Stem,
    lineage: &Lineage,
    model: &str,
    tools: &Arc<[ToolSpec]>,
    messages: &[&Message],
    shape: Shape,
    options: &Options,
) -> Begun {
    let mut units = units(messages);
    if shape.prompted && !tools.is_empty() && !matches!(units.first(), Some(Unit::System(_))) {
        // The description of the tools needs a place.
        units.insert(0, Unit::System(String::new()));
    }
    let marks = if options.marks && shape.parts { marked(&units, options.stream) } else { Vec::new() };
    let manner = Manner {
        lineage: lineage.clone(),
        model: model.to_owned(),
        tools: Arc::clone(tools),
        shape: shape.clone(),
        marks: options.marks,
    };
    let has_tools = !tools.is_empty() && !shape.prompted;
    if !stem.manner.as_ref().is_some_and(|known| known.is(&manner)) || stem.units >= units.len() {
        *stem = Stem { manner: Some(manner), ..Stem::default() };
    }
    let described: &[ToolSpec] = if shape.prompted { tools } else { &[] };
    let mut out = Writer { bytes: Vec::with_capacity(stem.bytes.len() + 16_384), shape, tally: stem.tally };
    if stem.units == 0 {
        out.head(model, if has_tools { tools } else { &[] });
    } else {
        out.bytes.extend_from_slice(&stem.bytes);
    }
    let shared = shared(&units, &marks);
    for (index, unit) in units.iter().enumerate().skip(stem.units) {
        if index == shared {
            out.count();
            stem.bytes.extend_from_slice(&out.bytes[stem.bytes.len()..]);
            (stem.units, stem.tally) = (index, out.tally);
        }
        out.comma(index);
        out.unit(unit, described, marks.contains(&index));
    }
    let prefix = out.bytes.len();
    out.raw("]");
    Begun { out, prefix, has_tools }
}

/// Returns how many units later bodies share: all before the last mark but the system's, never the last one, to which
/// answers may be added, and none before a user message (its substitute is not permanent).
fn shared(units: &[Unit<'_>], marks: &[usize]) -> usize {
    let unmarked = marks.iter().copied().filter(|mark| *mark > 0).min().unwrap_or(usize::MAX);
    let most = unmarked.min(units.len().saturating_sub(1));
    if units[..most].iter().any(|unit| matches!(unit, Unit::User(_))) { most } else { 0 }
}

impl Begun {
    /// Returns our guess of the tokens that the body will have with these options.
    pub fn estimate(&mut self, options: &Options) -> u64 {
        let (length, tally) = (self.out.bytes.len(), self.out.tally);
        self.out.tail(options, self.has_tools);
        let estimate = self.out.estimate();
        self.out.bytes.truncate(length);
        self.out.tally = tally;
        estimate
    }

    /// Writes what follows the messages.
    pub fn finish(mut self, options: &Options) -> Body {
        self.out.tail(options, self.has_tools);
        let estimate = self.out.estimate();
        Body { bytes: self.out.bytes, prefix: self.prefix, estimate }
    }
}

struct Writer {
    bytes: Vec<u8>,
    shape: Shape,
    tally: Tally,
}

/// What was counted of the bytes so far, for the guess of their tokens.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    bytes: usize,
    ascii: usize,
    /// Characters beyond ASCII.
    others: usize,
    media: u64,
    media_bytes: usize,
}

impl Writer {
    fn head(&mut self, model: &str, tools: &[ToolSpec]) {
        self.raw("{\"model\":");
        self.json(model);
        if !tools.is_empty() {
            self.raw(",\"tools\":[");
            for (index, tool) in tools.iter().enumerate() {
                self.comma(index);
                self.tool(tool);
            }
            self.raw("]");
        }
        self.raw(",\"messages\":[");
    }

    fn tail(&mut self, options: &Options, has_tools: bool) {
        self.options(options, has_tools);
        self.raw("}");
    }

    fn raw(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn json<T: Serialize + ?Sized>(&mut self, value: &T) {
        serde_json::to_writer(&mut self.bytes, value).expect("strings, numbers and JSON values always serialise");
    }

    fn comma(&mut self, index: usize) {
        if index > 0 {
            self.raw(",");
        }
    }

    fn field<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) {
        self.raw(",\"");
        self.raw(name);
        self.raw("\":");
        self.json(value);
    }

    fn tool(&mut self, tool: &ToolSpec) {
        self.raw("{\"type\":\"function\",\"function\":{\"name\":");
        self.json(&tool.name);
        self.field("description", &tool.description);
        self.raw(",\"parameters\":");
        // Some gateways refuse a tool without an object schema.
        match tool.parameters.get("properties") {
            Some(_) => self.json(&tool.parameters),
            None => self.raw(r#"{"type":"object","properties":{},"required":[]}"#),
        }
        self.raw("}}");
    }

    fn unit(&mut self, unit: &Unit<'_>, prompted_tools: &[ToolSpec], mark: bool) {
        match unit {
            Unit::System(text) => {
                let described = prompted::describe(prompted_tools);
                let text = match text.is_empty() || described.is_empty() {
                    true => format!("{text}{described}"),
                    false => format!("{}\n\n{described}", text.trim_end()),
                };
                self.plain("system", &text, mark);
            }
            Unit::User(parts) => self.parts("user", parts, mark),
            Unit::Said(text) => self.plain("user", text, mark),
            Unit::Turn(turn, answers) if self.shape.prompted => self.prompted_turn(turn, answers, prompted_tools, mark),
            Unit::Turn(turn, answers) => self.turn(turn, answers, mark),
        }
    }

    fn open(&mut self, role: &str) {
        self.raw("{\"role\":\"");
        self.raw(role);
        self.raw("\"");
    }

    /// A whole message of text.
    fn plain(&mut self, role: &str, text: &str, mark: bool) {
        self.open(role);
        self.raw(",\"content\":");
        self.text_content(text, mark);
        self.raw("}");
    }

    fn text_content(&mut self, text: &str, mark: bool) {
        if self.shape.parts {
            self.raw("[");
            self.text_part(text, mark);
            self.raw("]");
        } else {
            self.json(text);
        }
    }

    fn text_part(&mut self, text: &str, mark: bool) {
        self.raw("{\"type\":\"text\",\"text\":");
        self.json(text);
        self.close_part(mark);
    }

    fn close_part(&mut self, mark: bool) {
        self.raw(if mark { CACHE_MARK } else { "" });
        self.raw("}");
    }

    /// Writes a message of parts; media that the model does not accept become text.
    fn parts(&mut self, role: &str, parts: &[Part], mark: bool) {
        if !parts.iter().any(|part| self.sends(part)) {
            return self.plain(role, &self.words(parts), mark);
        }
        self.open(role);
        self.raw(",\"content\":");
        self.part_list(parts, mark);
        self.raw("}");
    }

    fn part_list(&mut self, parts: &[Part], mark: bool) {
        self.raw("[");
        for (index, part) in parts.iter().enumerate() {
            self.comma(index);
            let mark = mark && index + 1 == parts.len();
            match part {
                Part::Media { mime_type, data, .. } if self.sends(part) => self.image(mime_type, data, mark),
                Part::Text(_) | Part::Media { .. } => {
                    let words = self.words(std::slice::from_ref(part));
                    self.text_part(&words, mark);
                }
            }
        }
        self.raw("]");
    }

    fn image(&mut self, mime_type: &str, data: &str, mark: bool) {
        self.raw("{\"type\":\"image_url\",\"image_url\":{\"url\":");
        let start = self.bytes.len();
        self.json(&format!("data:{mime_type};base64,{data}"));
        self.tally.media += 1;
        self.tally.media_bytes += self.bytes.len() - start;
        self.raw("}");
        self.close_part(mark);
    }

    fn sends(&self, part: &Part) -> bool {
        match part {
            Part::Media { mime_type, .. } => self.shape.images && mime_type.starts_with("image/"),
            Part::Text(_) => false,
        }
    }

    /// Writes the text of parts, with text in place of media that are not sent.
    fn words(&self, parts: &[Part]) -> String {
        let mut words = String::new();
        for part in parts {
            match part {
                Part::Text(text) => words.push_str(text),
                Part::Media { mime_type, name, .. } => {
                    if !words.is_empty() && !words.ends_with('\n') {
                        words.push('\n');
                    }
                    let kind = mime_type.split('/').next().unwrap_or("media");
                    words.push_str(&format!(
                        "[Unsupported {kind} file: \"{name}\" ({mime_type}) is not shown to this model]"
                    ));
                }
            }
        }
        words
    }

    fn turn(&mut self, turn: &AssistantMessage, answers: &[Answer<'_>], mark: bool) {
        self.open("assistant");
        let reasoning = turn
            .reasoning
            .as_ref()
            .filter(|reasoning| !reasoning.text.trim().is_empty() || reasoning.details.is_some());
        let sends_reasoning = reasoning.is_some() && self.shape.reasoning != ReasoningOut::Never;
        self.raw(",\"content\":");
        // Ollama refuses `null` next to reasoning, and templates stumble over it: only calls alone may have it.
        if turn.text.is_empty() && self.shape.null_content && !sends_reasoning && !turn.calls.is_empty() {
            self.raw("null");
        } else {
            self.json(&turn.text);
        }
        if let Some(reasoning) = reasoning {
            match self.shape.reasoning {
                ReasoningOut::Field(name) if !reasoning.text.trim().is_empty() => self.field(name, &reasoning.text),
                ReasoningOut::Never | ReasoningOut::Field(_) => {}
                ReasoningOut::Details => match &reasoning.details {
                    Some(details) => self.field("reasoning_details", details),
                    None => self.field("reasoning", &reasoning.text),
                },
            }
        }
        if !turn.calls.is_empty() {
            self.raw(",\"tool_calls\":[");
            for (index, call) in turn.calls.iter().enumerate() {
                self.comma(index);
                self.raw("{\"id\":");
                self.json(&call.id);
                self.raw(",\"type\":\"function\",\"function\":{\"name\":");
                self.json(&call.name);
                self.field("arguments", &arguments_text(&call.arguments));
                self.raw("}}");
            }
            self.raw("]");
        }
        self.raw("}");
        self.answers(answers, mark);
    }

    /// Writes the answers of a turn, and after the last one the media that a tool message cannot hold.
    fn answers(&mut self, answers: &[Answer<'_>], mark: bool) {
        let mut attached: Vec<Part> = Vec::new();
        for (index, answer) in answers.iter().enumerate() {
            let last = index + 1 == answers.len();
            let parts = answer.message.map_or(&[][..], |message| &message.content);
            let media: Vec<&Part> = parts.iter().filter(|part| self.sends(part)).collect();
            self.raw(",{\"role\":\"tool\",\"tool_call_id\":");
            self.json(answer.call_id);
            self.raw(",\"content\":");
            let mark = mark && last && attached.is_empty();
            if media.is_empty() {
                let words = if answer.message.is_some() { self.words(parts) } else { NO_ANSWER.to_owned() };
                self.text_content(&words, mark);
            } else if self.shape.tool_media {
                self.part_list(parts, mark);
            } else {
                let text: Vec<Part> = parts.iter().filter(|part| !self.sends(part)).cloned().collect();
                let mut words = self.words(&text);
                if !words.is_empty() {
                    words.push('\n');
                }
                words.push_str("[media attached in following user message]");
                attached.extend(media.into_iter().cloned());
                self.text_content(&words, false);
            }
            self.raw("}");
        }
        if !attached.is_empty() {
            attached.insert(0, Part::Text("(attached media from previous tool call)".to_owned()));
            self.raw(",");
            self.parts("user", &attached, mark);
        }
    }

    fn prompted_turn(&mut self, turn: &AssistantMessage, answers: &[Answer<'_>], tools: &[ToolSpec], mark: bool) {
        if let ([call], [Answer { message: Some(message), .. }]) = (&*turn.calls, answers)
            && let Some(said) = prompted::in_vain(call, &self.words(&message.content), message.is_error)
        {
            self.parts("user", &[Part::Text(said)], mark);
            return;
        }
        let words = |it: &Answer<'_>| it.message.filter(|it| it.is_error).map(|it| self.words(&it.content));
        let idle = prompted::idle(answers.iter().map(|it| (it.call_id, words(it).unwrap_or_default())));
        let answers: Vec<&Answer<'_>> = answers.iter().filter(|answer| !idle.contains(&answer.call_id)).collect();
        let mut text = turn.text.clone();
        for call in turn.calls.iter().filter(|call| !idle.contains(&call.id.as_str())) {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&prompted::call(call));
        }
        self.open("assistant");
        self.field("content", &text);
        self.raw("}");
        if answers.is_empty() {
            return;
        }
        let (mut parts, mut finds_nothing): (Vec<Part>, bool) = (Vec::new(), false);
        for answer in &answers {
            let content = answer.message.map_or(&[][..], |message| &message.content);
            let (media, words): (Vec<Part>, Vec<Part>) = content.iter().cloned().partition(|part| self.sends(part));
            let words = if answer.message.is_some() { self.words(&words) } else { NO_ANSWER.to_owned() };
            finds_nothing |= prompted::finds_nothing(&words);
            let text = prompted::response(&words);
            match parts.last_mut() {
                Some(Part::Text(before)) => {
                    before.push('\n');
                    before.push_str(&text);
                }
                Some(Part::Media { .. }) | None => parts.push(Part::Text(text)),
            }
            parts.extend(media);
        }
        let failed = answers.iter().any(|answer| answer.message.is_none_or(|message| message.is_error));
        let outcome = match (failed, finds_nothing) {
            (true, _) => CallsOutcome::Failed,
            (false, true) => CallsOutcome::FoundNothing,
            (false, false) => CallsOutcome::Succeeded,
        };
        let after = prompted::after_responses(outcome, self.shape.question.as_deref(), tools);
        match parts.last_mut() {
            Some(Part::Text(last)) => last.push_str(&after),
            Some(Part::Media { .. }) | None => parts.push(Part::Text(after.trim_start().to_owned())),
        }
        self.raw(",");
        self.parts("user", &parts, mark);
    }

    fn thinking(&mut self, thinking: Option<(ThinkingSwitch, bool)>) {
        match thinking {
            Some((ThinkingSwitch::EnableThinking, on)) => self.field("enable_thinking", &on),
            Some((ThinkingSwitch::TemplateKwargs, on)) => {
                self.field("chat_template_kwargs", &serde_json::json!({"enable_thinking": on}));
            }
            Some((ThinkingSwitch::ReasoningEffort, false)) => self.field("reasoning_effort", "none"),
            Some((ThinkingSwitch::ReasoningEffort, true) | (ThinkingSwitch::None, _)) | None => {}
        }
    }

    fn options(&mut self, options: &Options, has_tools: bool) {
        // Said in either case: some gateways stream when nothing is said.
        self.field("stream", &options.stream);
        // Parsers read a duplicate field in different ways: the user's own comes last and replaces others.
        let ours = |name: &str| !options.extra.contains_key(name);
        if options.stream && options.stream_options && ours("stream_options") {
            self.raw(",\"stream_options\":{\"include_usage\":true}");
        }
        if let Some((name, limit)) = options.max_tokens
            && ours("max_tokens")
            && ours("max_completion_tokens")
        {
            self.field(name, &limit);
        }
        for (name, value) in &options.sampling {
            if ours(name) {
                self.field(name, value);
            }
        }
        if has_tools {
            if let Some(name) = &options.force_tool
                && ours("tool_choice")
            {
                self.raw(",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":");
                self.json(name);
                self.raw("}}");
            }
            if options.parallel_tool_calls && ours("parallel_tool_calls") {
                self.field("parallel_tool_calls", &true);
            }
        }
        if let Some(format) = options.response_format.as_ref().filter(|_| ours("response_format")) {
            self.field("response_format", format);
        }
        if ours("enable_thinking") && ours("chat_template_kwargs") && ours("reasoning_effort") {
            self.thinking(options.thinking);
        }
        if options.preserve_thinking && ours("preserve_thinking") {
            self.field("preserve_thinking", &true);
        }
        for (name, value) in &options.extra {
            if !value.is_null() && !matches!(name.as_str(), "model" | "messages" | "tools" | "stream") {
                self.raw(",");
                self.json(name);
                self.raw(":");
                self.json(value);
            }
        }
    }

    /// Counts what was written since the last time.
    fn count(&mut self) {
        let new = &self.bytes[self.tally.bytes..];
        self.tally.ascii += new.iter().filter(|byte| byte.is_ascii()).count();
        self.tally.others += new.iter().filter(|byte| **byte >= 0xC0).count();
        self.tally.bytes = self.bytes.len();
    }

    /// A quarter of a token for each ASCII byte and 1.1 for each other character; media by their number.
    fn estimate(&mut self) -> u64 {
        self.count();
        let Tally { ascii, others, media, media_bytes, .. } = self.tally;
        ascii.saturating_sub(media_bytes) as u64 / 4 + others as u64 * 11 / 10 + media * MEDIA_TOKENS
    }
}

/// The mark of an explicit prompt cache. All other bytes are the same without it, so a server's cache still matches.
pub const CACHE_MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;

/// Returns the arguments as the history holds them: always the text of a JSON object, as some servers parse it again.
fn arguments_text(arguments: &Arguments) -> String {
    match arguments {
        Arguments::Object(map) => serde_json::to_string(map).expect("a JSON object always serialises"),
        // The call's answer names what was wrong; broken text here would make servers refuse every later request.
        Arguments::Incomplete { .. } | Arguments::Invalid { .. } => "{}".to_owned(),
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
