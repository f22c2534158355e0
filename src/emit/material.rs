//! Reads back what a run wrote: its result, its messages or its events; or a patch, or a review page.
//!
//! What is read may be anybody's: it is parsed into the types, and what the types do not have is passed over.

use std::collections::HashMap;

use base64::Engine as _;
use serde::Deserialize;
use serde_json::Value;

use super::findings::Findings;
use super::report::Report;
use crate::base::digest::sha256;
use crate::base::embedded;
use crate::change::patch_reader::{Patch, PatchError};
use crate::event::{
    AssistantTurn, CallFacts, ChangesReport, Event, PolicyFacts, RunError, RunFinished, RunStarted, TokenUsage,
    ToolResult,
};
use crate::exit::Exit;

/// Why nothing can be shown of what was given.
#[derive(Debug, thiserror::Error)]
pub enum MaterialError {
    /// It is neither JSON nor a patch.
    #[error("{0}")]
    NotKnown(PatchError),
    /// A page of others.
    #[error("the page is not a review page of qwen")]
    OtherPage,
    /// JSON of another kind.
    #[error("it is neither a result nor a message nor an event of qwen")]
    OtherJson,
    /// A value is wrong.
    #[error("line {line}: {cause}")]
    Wrong {
        /// Counted from 1.
        line: usize,
        /// Why.
        cause: serde_json::Error,
    },
    /// Parts of two runs.
    #[error("the files are from two runs, {0} and {1}")]
    TwoRuns(String, String),
    /// The patch is not the one of the result.
    #[error("the digest of the patch differs from that in the result")]
    Digest,
}

/// Everything that is known of a run.
#[derive(Debug, Clone)]
pub struct Material {
    /// The result object.
    pub report: Report,
    /// What happened, as far as it is known.
    pub events: Vec<Event>,
}

/// What one file has.
enum Part {
    Result(Box<Report>),
    Events(Vec<Event>),
    Patch(String),
    PatchBytes(Vec<u8>),
}

impl Material {
    /// Reads files of one run.
    pub fn read<'a>(inputs: impl IntoIterator<Item = &'a [u8]>) -> Result<Material, MaterialError> {
        let (mut report, mut events, mut patch) = (None::<Box<Report>>, Vec::new(), None);
        for input in inputs {
            for part in parts(input)? {
                match part {
                    Part::Result(read) => report = Some(read),
                    // Events say more than the messages that were made from them.
                    Part::Events(read) if read.len() > events.len() => events = read,
                    Part::Events(_) => {}
                    Part::Patch(text) => patch = Some(ChangesReport { patch: Some(text), ..ChangesReport::default() }),
                    Part::PatchBytes(bytes) => {
                        let text = base64::engine::general_purpose::STANDARD.encode(bytes);
                        patch = Some(ChangesReport { patch_base64: Some(text), ..ChangesReport::default() });
                    }
                }
            }
        }
        let of_events = super::report::report(&events);
        let has_result = report.is_some() || !events.is_empty();
        let mut report = match report {
            Some(report) => {
                same_run(&report, &of_events)?;
                *report
            }
            None if has_result => of_events,
            None => of_a_patch(),
        };
        if let Some(patch) = patch {
            add_patch(&mut report.changes, patch, has_result)?;
        }
        match patch_of(&report.changes) {
            Some(bytes) if report.changes.patch_sha256.as_ref().is_some_and(|digest| *digest != sha256(&bytes)) => {
                Err(MaterialError::Digest)
            }
            _ => Ok(Material { report, events }),
        }
    }

    /// Returns how the run started, if that is known.
    pub(super) fn started(&self) -> Option<&RunStarted> {
        self.events.iter().find_map(|event| match event {
            Event::RunStarted(started) => Some(&**started),
            _ => None,
        })
    }

    /// Returns the findings of the run.
    pub(super) fn findings(&self) -> Findings {
        let mut end = RunFinished::failed(Exit::Ok, RunError::default());
        end.findings.clone_from(&self.report.findings);
        Findings::read(self.started(), &end)
    }

    /// Returns what names this run in a file's name.
    pub fn short_id(&self) -> String {
        let id = self.report.ran.run_id.as_deref().or(self.report.changes.patch_sha256.as_deref()).unwrap_or("run");
        let letters: String = id.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(13).collect();
        letters.trim_matches('-').to_owned()
    }
}

fn same_run(report: &Report, of_events: &Report) -> Result<(), MaterialError> {
    match (&report.ran.run_id, &of_events.ran.run_id) {
        (Some(one), Some(other)) if one != other => {
            Err(MaterialError::TwoRuns(super::safe::one_line_of(one, 60), super::safe::one_line_of(other, 60)))
        }
        _ => Ok(()),
    }
}

/// Returns the bytes of the patch; `None` where the result does not have them.
pub(super) fn patch_of(changes: &ChangesReport) -> Option<Vec<u8>> {
    match (&changes.patch, &changes.patch_base64) {
        (Some(patch), _) => Some(patch.as_bytes().to_vec()),
        (None, Some(patch)) => base64::engine::general_purpose::STANDARD.decode(patch).ok(),
        (None, None) => None,
    }
}

/// Returns the result of no run.
fn of_a_patch() -> Report {
    let mut end = RunFinished::failed(Exit::Ok, RunError::default());
    end.error = None;
    super::report::report([&Event::RunFinished(Box::new(end))])
}

/// Adds a patch that was given beside a result, or alone.
fn add_patch(changes: &mut ChangesReport, patch: ChangesReport, has_result: bool) -> Result<(), MaterialError> {
    let digest = patch_of(&patch).map(|bytes| sha256(&bytes));
    if has_result && changes.patch_sha256 != digest {
        return Err(MaterialError::Digest);
    }
    (changes.patch, changes.patch_base64, changes.patch_sha256) = (patch.patch, patch.patch_base64, digest);
    Ok(())
}

/// Tells apart what a file is, and reads it.
fn parts(input: &[u8]) -> Result<Vec<Part>, MaterialError> {
    if embedded::is_page(input) {
        return parts(embedded::json_of(input).ok_or(MaterialError::OtherPage)?);
    }
    match input.trim_ascii_start().first() {
        Some(b'{' | b'[') => json(input),
        Some(_) | None => match Patch::parse(input) {
            Ok(_) => Ok(vec![match std::str::from_utf8(input) {
                Ok(text) => Part::Patch(text.to_owned()),
                Err(_) => Part::PatchBytes(input.to_vec()),
            }]),
            Err(error) => Err(MaterialError::NotKnown(error)),
        },
    }
}

fn json(input: &[u8]) -> Result<Vec<Part>, MaterialError> {
    if let Ok(value) = serde_json::from_slice::<Value>(input) {
        return match value {
            Value::Array(messages) => messages_of(messages.into_iter().map(|message| (1, message)).collect()),
            value => messages_of(vec![(1, value)]),
        };
    }
    let lines: Vec<(usize, &[u8])> = input.split(|byte| *byte == b'\n').enumerate().collect();
    let last = lines.iter().rposition(|(_, line)| !line.trim_ascii().is_empty()).unwrap_or(0);
    let mut values = Vec::new();
    for (at, line) in lines {
        match serde_json::from_slice(line) {
            _ if line.trim_ascii().is_empty() => {}
            Ok(value) => values.push((at + 1, value)),
            // A run that was killed leaves half a line.
            Err(_) if at == last && at > 0 => {}
            Err(cause) => return Err(MaterialError::Wrong { line: at + 1, cause }),
        }
    }
    messages_of(values)
}

/// Reads events, or messages with the result among them.
fn messages_of(values: Vec<(usize, Value)>) -> Result<Vec<Part>, MaterialError> {
    let (mut events, mut messages, mut result) = (Vec::new(), Messages::default(), None);
    let mut is_known = false;
    for (line, value) in values {
        let wrong = |cause| MaterialError::Wrong { line, cause };
        if value.get("event").is_some_and(|_| value.get("type").is_none()) {
            events.push(Event::deserialize(value).map_err(wrong)?);
        } else if value.get("type").is_some_and(|kind| kind == "result") {
            result = Some(Box::new(Report::deserialize(value).map_err(wrong)?));
        } else if let Some(kind) = value.get("type").and_then(Value::as_str) {
            messages.add(kind, &value).map_err(wrong)?;
        } else {
            continue;
        }
        is_known = true;
    }
    if !is_known {
        return Err(MaterialError::OtherJson);
    }
    let mut parts: Vec<Part> = result.map(Part::Result).into_iter().collect();
    events.extend(messages.events);
    if !events.is_empty() {
        parts.push(Part::Events(events));
    }
    Ok(parts)
}

/// Messages, as the events that they were made from.
#[derive(Default)]
struct Messages {
    events: Vec<Event>,
    turn: u32,
    /// The tool of each call.
    tools: HashMap<String, String>,
}

#[derive(Deserialize)]
struct Init {
    session_id: String,
    #[serde(default)]
    cwd: String,
    #[serde(default)]
    model: String,
    #[serde(default)]
    policy: PolicyFacts,
    #[serde(default)]
    changes_mode: String,
    #[serde(default)]
    git: Git,
}

#[derive(Default, Deserialize)]
struct Git {
    head: Option<String>,
    dirty: Option<bool>,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    parent_tool_use_id: Option<String>,
    message: Body,
}

#[derive(Deserialize)]
struct Body {
    #[serde(default)]
    model: String,
    #[serde(default)]
    content: Vec<Block>,
    #[serde(default)]
    usage: Option<TokenUsage>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        text: String,
    },
    ToolUse {
        id: String,
        name: String,
        #[serde(default)]
        input: Value,
    },
    ToolResult {
        tool_use_id: String,
        #[serde(default)]
        is_error: bool,
        #[serde(default)]
        content: Value,
    },
    #[serde(other)]
    Other,
}

impl Messages {
    fn add(&mut self, kind: &str, value: &Value) -> Result<(), serde_json::Error> {
        match (kind, value.get("subtype").and_then(Value::as_str)) {
            ("system", Some("init")) => {
                let init = Init::deserialize(value)?;
                self.events.push(Event::RunStarted(Box::new(RunStarted {
                    session_id: init.session_id,
                    cwd: init.cwd,
                    model: init.model,
                    policy: init.policy,
                    changes_mode: init.changes_mode,
                    git_head: init.git.head,
                    git_dirty: init.git.dirty,
                    ..RunStarted::default()
                })));
            }
            ("system", Some("permission_denied")) => {
                self.events.push(Event::Denied(Box::new(Deserialize::deserialize(value)?)));
            }
            ("system", Some("verify")) => self.events.push(Event::Verify(Deserialize::deserialize(value)?)),
            ("system", Some("api_retry")) => self.events.push(Event::Retry(Deserialize::deserialize(value)?)),
            ("assistant", _) => self.assistant(Message::deserialize(value)?),
            ("user", _) => self.results(Message::deserialize(value)?),
            _ => {}
        }
        Ok(())
    }

    fn assistant(&mut self, message: Message) {
        self.turn += 1;
        let mut turn = AssistantTurn {
            parent: message.parent_tool_use_id,
            turn: self.turn,
            model: message.message.model,
            usage: message.message.usage.unwrap_or_default(),
            ..AssistantTurn::default()
        };
        for block in message.message.content {
            match block {
                Block::Text { text } => turn.text.push_str(&text),
                Block::ToolUse { id, name, input } => {
                    self.tools.insert(id.clone(), name.clone());
                    turn.calls.push(CallFacts { id, name, input, recovered: None });
                }
                Block::ToolResult { .. } | Block::Other => {}
            }
        }
        self.events.push(Event::Assistant(Box::new(turn)));
    }

    fn results(&mut self, message: Message) {
        for block in message.message.content {
            let Block::ToolResult { tool_use_id, is_error, content } = block else { continue };
            let content = match content {
                Value::String(text) => text,
                other => other.to_string(),
            };
            let tool = self.tools.get(&tool_use_id).cloned().unwrap_or_default();
            self.events.push(Event::ToolResult(Box::new(ToolResult {
                turn: self.turn,
                call_id: tool_use_id,
                tool,
                is_error,
                content,
                ..ToolResult::default()
            })));
        }
    }
}

/// Events as they are kept for a page: without what only shows progress.
#[derive(Debug, Default)]
pub(super) struct Collected(Vec<Event>);

impl Collected {
    /// Takes one more.
    pub(super) fn add(&mut self, event: &Event) {
        match event {
            Event::Delta { .. } | Event::Status { .. } => {}
            other => self.0.push(other.clone()),
        }
    }

    /// Returns what is known of the run.
    pub(super) fn material(&mut self, report: &Report) -> Material {
        Material { report: report.clone(), events: std::mem::take(&mut self.0) }
    }
}
