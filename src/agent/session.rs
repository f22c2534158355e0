//! Reads and writes the contents of a session file: a conversation as lines of JSON.
//!
//! Performs no I/O. A file that a killed run left behind can be read: an incomplete last line is dropped, and calls
//! without an answer get one, as servers refuse a history in which calls and answers do not match.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::transcript::Transcript;
use crate::model::masked_spec::masked_value;
use crate::model::{Arguments, AssistantMessage, Message, Part, Reasoning, ToolCall, ToolMessage};

/// The version of the format.
const VERSION: u32 = 1;

/// What is in the first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The session's id.
    pub id: String,
    /// The workspace.
    pub cwd: String,
    /// When it began.
    pub time: String,
    /// The session that it was forked from.
    pub forked_from: Option<String>,
    /// The version of the format.
    #[serde(default)]
    pub version: u32,
}

impl Header {
    /// Makes the header of a new session.
    pub fn new(id: &str, cwd: &str, time: &str, forked_from: Option<&str>) -> Header {
        Header {
            id: id.into(),
            cwd: cwd.into(),
            time: time.into(),
            forked_from: forked_from.map(str::to_owned),
            version: VERSION,
        }
    }
}

/// A session as its file has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// The first line.
    pub header: Header,
    /// The conversation, without a system prompt, every call answered.
    pub messages: Vec<Message>,
    /// Whether text of strangers is in it.
    pub is_untrusted: bool,
    /// Bytes of complete lines; what follows them is an incomplete line.
    pub whole: usize,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line {
    Session(Header),
    /// From here on text of strangers is in it.
    Untrusted {},
    User {
        parts: Vec<StoredPart>,
    },
    Assistant {
        text: String,
        reasoning: Option<Thoughts>,
        calls: Vec<Called>,
    },
    Tool {
        call_id: String,
        name: String,
        is_error: bool,
        parts: Vec<StoredPart>,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredPart {
    Text(String),
    Media { mime_type: String, data: String, name: String },
}

#[derive(Serialize, Deserialize)]
struct Thoughts {
    text: String,
    details: Option<Value>,
}

#[derive(Serialize, Deserialize)]
struct Called {
    id: String,
    name: String,
    arguments: Given,
    recovered: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Given {
    Object(Map<String, Value>),
    Incomplete(String),
    Invalid { raw: String, problem: String },
}

/// Returns the first line of a session's file.
pub fn first_line(header: &Header) -> String {
    line(&Line::Session(header.clone()), &|text| text)
}

/// Returns the line that says that text of strangers follows.
pub fn untrusted_line() -> String {
    line(&Line::Untrusted {}, &|text| text)
}

/// Returns a message as a line, every text of it passed through `mask`; a system prompt has none.
pub fn line_of(message: &Message, mask: &dyn Fn(String) -> String) -> Option<String> {
    let pieces = |parts: &[Part]| parts.iter().map(StoredPart::of).collect();
    let line_of = match message {
        Message::System(_) => return None,
        Message::User(parts) => Line::User { parts: pieces(parts) },
        Message::Assistant(said) => Line::Assistant {
            text: said.text.clone(),
            reasoning: said
                .reasoning
                .as_ref()
                .map(|reasoning| Thoughts { text: reasoning.text.clone(), details: reasoning.details.clone() }),
            calls: said.calls.iter().map(Called::of).collect(),
        },
        Message::Tool(answer) => Line::Tool {
            call_id: answer.call_id.clone(),
            name: answer.name.clone(),
            is_error: answer.is_error,
            parts: pieces(&answer.content),
        },
    };
    Some(line(&line_of, mask))
}

/// Returns messages of a session with every text passed through `mask`, also the names in a call's arguments.
pub fn masked_messages(messages: &[Message], mask: &dyn Fn(String) -> String) -> Vec<Message> {
    let header = first_line(&Header::new("masked", "", "", None));
    let text = messages.iter().filter_map(|message| line_of(message, mask)).fold(header, |text, line| text + &line);
    read(&text).expect("the lines were just made").messages
}

/// Tells whether a text is a session's id: 1 to 64 letters, digits, `-` and `_`.
pub fn is_id(id: &str) -> bool {
    (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

fn line(line: &Line, mask: &dyn Fn(String) -> String) -> String {
    let mut value = serde_json::to_value(line).expect("texts, numbers and maps with text keys");
    masked(&mut value, mask);
    format!("{value}\n")
}

/// Masks texts, the bytes of media aside.
fn masked(value: &mut Value, mask: &dyn Fn(String) -> String) {
    match value {
        Value::String(text) => *text = mask(std::mem::take(text)),
        Value::Array(values) => values.iter_mut().for_each(|value| masked(value, mask)),
        Value::Object(entries) => {
            let is_media = entries.contains_key("mime_type");
            for (name, value) in entries.iter_mut() {
                match name.as_str() {
                    // What is below these is the model's words, the names as well.
                    "object" | "details" => *value = masked_value(value, &|text| mask(text.to_owned())),
                    "type" => {}
                    "data" if is_media => {}
                    _ => masked(value, mask),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Why a session's file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SessionFileError {
    /// It is empty.
    #[error("it is empty")]
    Empty,
    /// The first line is not a header.
    #[error("line 1: no header")]
    NoHeader,
    /// The header's id is not one.
    #[error("line 1: the id is not 1 to 64 letters, digits, `-` and `_`")]
    BadId,
    /// The header is of another version.
    #[error("line 1: unknown format version {0}")]
    UnknownVersion(u32),
    /// There are two headers.
    #[error("line {0}: a second header")]
    SecondHeader(usize),
    /// A line is not an entry.
    #[error("line {number}: {cause}")]
    Line {
        /// From 1.
        number: usize,
        /// What is wrong with it.
        cause: serde_json::Error,
    },
}

/// Reads a session's file.
pub fn read(text: &str) -> Result<Session, SessionFileError> {
    let mut header = None;
    let mut messages = Messages::default();
    let (mut is_untrusted, mut whole) = (false, 0);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let number = number + 1;
        // A line without its end was being written when the run was killed.
        if !line.ends_with('\n') {
            break;
        }
        whole += line.len();
        let line: Line = serde_json::from_str(line).map_err(|cause| SessionFileError::Line { number, cause })?;
        match (line, &header) {
            (Line::Session(found), None) if found.version == VERSION => {
                header = Some(found).filter(|found| is_id(&found.id));
                if header.is_none() {
                    return Err(SessionFileError::BadId);
                }
            }
            (Line::Session(found), None) => return Err(SessionFileError::UnknownVersion(found.version)),
            (Line::Session(_), Some(_)) => return Err(SessionFileError::SecondHeader(number)),
            (_, None) => return Err(SessionFileError::NoHeader),
            (Line::Untrusted {}, Some(_)) => is_untrusted = true,
            (Line::User { parts }, Some(_)) => messages.user(parts.into_iter().map(StoredPart::part).collect()),
            (Line::Assistant { text, reasoning, calls }, Some(_)) => messages.assistant(AssistantMessage {
                text,
                reasoning: reasoning.map(|thoughts| Reasoning { text: thoughts.text, details: thoughts.details }),
                calls: calls.into_iter().map(Called::call).collect(),
            }),
            (Line::Tool { call_id, name, is_error, parts }, Some(_)) => messages.answers.push(ToolMessage {
                call_id,
                name,
                content: parts.into_iter().map(StoredPart::part).collect(),
                is_error,
            }),
        }
    }
    let header = header.ok_or(SessionFileError::Empty)?;
    Ok(Session { header, messages: messages.end(), is_untrusted, whole })
}

/// Assembles messages so that every call is answered exactly once.
#[derive(Default)]
struct Messages {
    transcript: Vec<Message>,
    turn: Option<AssistantMessage>,
    answers: Vec<ToolMessage>,
}

impl Messages {
    fn user(&mut self, parts: Vec<Part>) {
        self.close();
        self.interrupted();
        self.transcript.push(Message::User(parts));
    }

    /// Answers a message that was never answered: templates of some models refuse two consecutive user messages.
    fn interrupted(&mut self) {
        if matches!(self.transcript.last(), Some(Message::User(_))) {
            let text = "(The run was interrupted before I could answer.)".to_owned();
            self.transcript.push(Message::Assistant(AssistantMessage { text, ..AssistantMessage::default() }));
        }
    }

    fn assistant(&mut self, message: AssistantMessage) {
        self.close();
        self.turn = Some(message);
    }

    /// Closes the open turn: the transcript answers missing calls and drops answers without a call.
    fn close(&mut self) {
        let answers = std::mem::take(&mut self.answers);
        if let Some(turn) = self.turn.take() {
            let mut one = Transcript::begin(String::new(), Vec::new());
            one.turn(turn, answers);
            self.transcript.extend(one.messages().iter().skip(2).cloned());
        }
    }

    fn end(mut self) -> Vec<Message> {
        self.close();
        self.interrupted();
        self.transcript
    }
}

impl StoredPart {
    fn of(part: &Part) -> StoredPart {
        match part {
            Part::Text(text) => StoredPart::Text(text.clone()),
            Part::Media { mime_type, data, name } => {
                StoredPart::Media { mime_type: mime_type.clone(), data: data.clone(), name: name.clone() }
            }
        }
    }

    fn part(self) -> Part {
        match self {
            StoredPart::Text(text) => Part::Text(text),
            StoredPart::Media { mime_type, data, name } => Part::Media { mime_type, data, name },
        }
    }
}

impl Called {
    fn of(call: &ToolCall) -> Called {
        Called {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: match &call.arguments {
                Arguments::Object(map) => Given::Object(map.clone()),
                Arguments::Incomplete { raw } => Given::Incomplete(raw.clone()),
                Arguments::Invalid { raw, problem } => Given::Invalid { raw: raw.clone(), problem: problem.clone() },
            },
            recovered: call.recovered.map(str::to_owned),
        }
    }

    fn call(self) -> ToolCall {
        ToolCall {
            id: self.id,
            name: self.name,
            arguments: match self.arguments {
                Given::Object(map) => Arguments::Object(map),
                Given::Incomplete(raw) => Arguments::Incomplete { raw },
                Given::Invalid { raw, problem } => Arguments::Invalid { raw, problem },
            },
            recovered: ["hermes", "qwen_xml", "json", "choice"]
                .into_iter()
                .find(|known| self.recovered.as_deref() == Some(known)),
            notes: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Vec<Part> {
        vec![Part::Text(text.into())]
    }

    fn messages() -> Vec<Message> {
        let call = |id: &str, arguments| ToolCall {
            id: id.into(),
            name: "glob".into(),
            arguments,
            recovered: Some("json"),
            notes: Vec::new(),
        };
        let said = AssistantMessage {
            text: "look\u{2028}".into(),
            reasoning: Some(Reasoning { text: "hm".into(), details: Some(serde_json::json!([1])) }),
            calls: vec![
                call("a", Arguments::Object(Map::from_iter([("p".into(), "*".into())]))),
                call("b", Arguments::Invalid { raw: "{".into(), problem: "no".into() }),
            ],
        };
        let answer = |id: &str| {
            Message::Tool(ToolMessage { call_id: id.into(), name: "glob".into(), content: text("x"), is_error: false })
        };
        let image = Part::Media { mime_type: "image/png".into(), data: "AAAA".into(), name: "a.png".into() };
        vec![
            Message::User(vec![Part::Text("do\nit".into()), image]),
            Message::Assistant(said),
            answer("a"),
            answer("b"),
        ]
    }

    fn file() -> String {
        let header = first_line(&Header::new("id", "/w", "now", None));
        messages().iter().filter_map(|message| line_of(message, &|text| text)).fold(header, |file, line| file + &line)
    }

    #[test]
    fn what_is_written_is_read_again() {
        let read = read(&file()).unwrap();
        assert_eq!(read.messages, messages());
        assert_eq!(read.whole, file().len());
    }

    #[test]
    fn a_file_cut_anywhere_gives_a_conversation_in_which_every_call_is_answered() {
        let file = file();
        let first = file.find('\n').unwrap() + 1;
        for end in (first..=file.len()).filter(|end| file.is_char_boundary(*end)) {
            let session = read(&file[..end]).unwrap();
            let calls: usize = session
                .messages
                .iter()
                .map(|message| match message {
                    Message::Assistant(said) => said.calls.len(),
                    _ => 0,
                })
                .sum();
            let answers = session.messages.iter().filter(|message| matches!(message, Message::Tool(_))).count();
            assert_eq!(calls, answers, "cut at {end}");
            assert!(session.whole <= end && file[..session.whole].ends_with('\n'));
        }
    }

    #[test]
    fn two_messages_of_the_user_never_follow_each_other() {
        let header = first_line(&Header::new("id", "/w", "now", None));
        let user = line_of(&Message::User(text("x")), &|text| text).unwrap();
        let roles: Vec<bool> = read(&format!("{header}{user}{user}"))
            .unwrap()
            .messages
            .iter()
            .map(|message| matches!(message, Message::User(_)))
            .collect();
        assert_eq!(roles, [true, false, true, false]);
    }

    #[test]
    fn a_broken_line_in_the_middle_is_named() {
        let broken = file().replace("{\"type\":\"assistant\"", "{\"type\":\"assist");
        assert!(read(&broken).unwrap_err().to_string().starts_with("line 3: "));
        assert_eq!(read("").unwrap_err().to_string(), "it is empty");
        assert!(read("{\"type\":\"user\",\"parts\":[]}\n").unwrap_err().to_string().contains("no header"));
    }

    #[test]
    fn a_header_with_another_id_than_ours_is_refused() {
        let header = first_line(&Header::new("../x\u{1b}[2J", "/w", "now", None));
        assert!(matches!(read(&header), Err(SessionFileError::BadId)));
    }

    #[test]
    fn masked_messages_are_the_same_without_the_secret() {
        let mask = |text: String| text.replace("look", "####").replace('p', "#");
        let masked = masked_messages(&messages(), &mask);
        assert_eq!(masked.len(), messages().len());
        let text = format!("{masked:?}");
        assert!(text.contains("####") && !text.contains("look") && text.contains("{\"#\": String"), "{text}");
        assert_eq!(masked_messages(&messages(), &|text| text), messages());
    }

    #[test]
    fn arguments_are_masked_whatever_their_names_are() {
        let fields =
            serde_json::json!({"type": "s3cret", "mime_type": "s3cret", "data": "s3cret", "a": [{"type": ["s3cret"]}]});
        let arguments = Arguments::Object(fields.as_object().unwrap().clone());
        let call = ToolCall { id: "c".into(), name: "n".into(), arguments, recovered: None, notes: Vec::new() };
        let said = AssistantMessage { calls: vec![call], ..AssistantMessage::default() };
        let line = line_of(&Message::Assistant(said), &|text| text.replace("s3cret", "#")).unwrap();
        assert!(!line.contains("s3cret") && line.matches("\"#\"").count() == 4, "{line}");
    }

    #[test]
    fn every_text_is_masked_but_not_media() {
        let mask = |text: String| text.replace('A', "#").replace("do", "##");
        let line = line_of(&messages()[0], &mask).unwrap();
        assert!(line.contains("##\\nit") && line.contains("AAAA"), "{line}");
        assert_eq!(line_of(&Message::System("s".into()), &mask), None);
    }
}
