//! Puts the messages of a conversation into the units that a body is made of.

use super::{AssistantMessage, Message, Part, ToolMessage};

/// The most answers of one turn that a server's cache looks back over.
const LOOK_BACK: usize = 16;

/// What goes out together: a message, or a turn with the answers to its calls.
#[derive(Debug, PartialEq)]
pub(super) enum Unit<'a> {
    System(String),
    User(&'a [Part]),
    /// Words that the wire needs and nobody said.
    Said(&'a str),
    Turn(&'a AssistantMessage, Vec<Answer<'a>>),
}

/// The answer to a call; `None` where the history has none.
#[derive(Debug, PartialEq)]
pub(super) struct Answer<'a> {
    pub(super) call_id: &'a str,
    pub(super) message: Option<&'a ToolMessage>,
}

/// The placeholder for a missing tool result: servers refuse a conversation with a call that has none.
pub(super) const NO_ANSWER: &str = "[no result: this call was not run]";

/// The placeholder for a missing user message: templates of Qwen refuse a conversation without one.
const BEGIN: &str = "Begin.";

/// Orders a history as servers require it: one system message, first; at least one user message; each call followed by
/// exactly one answer, in order; answers without a call dropped.
pub(super) fn units<'a>(messages: &[&'a Message]) -> Vec<Unit<'a>> {
    let leading = messages.iter().take_while(|message| matches!(message, Message::System(_))).count();
    let system: Vec<&str> = messages[..leading]
        .iter()
        .filter_map(|message| match message {
            Message::System(text) => Some(text.as_str()),
            Message::User(_) | Message::Assistant(_) | Message::Tool(_) => None,
        })
        .collect();
    let mut units = Vec::with_capacity(messages.len());
    if !system.is_empty() {
        units.push(Unit::System(system.join("\n\n")));
    }
    let mut rest = messages[leading..].iter().peekable();
    if !messages[leading..].iter().any(|message| matches!(message, Message::User(_))) {
        units.push(Unit::Said(BEGIN));
    }
    while let Some(message) = rest.next() {
        match message {
            // A second system message would be refused; its text is kept all the same.
            Message::System(text) => units.push(Unit::Said(text)),
            Message::User(parts) => units.push(Unit::User(parts)),
            Message::Tool(_) => {}
            Message::Assistant(turn) => {
                let mut given: Vec<&ToolMessage> = Vec::new();
                while let Some(Message::Tool(answer)) = rest.peek() {
                    given.push(answer);
                    rest.next();
                }
                if turn.text.is_empty() && turn.calls.is_empty() {
                    continue;
                }
                let answers = turn
                    .calls
                    .iter()
                    .map(|call| Answer {
                        call_id: &call.id,
                        message: given.iter().find(|answer| answer.call_id == call.id).copied(),
                    })
                    .collect();
                units.push(Unit::Turn(turn, answers));
            }
        }
    }
    units
}

/// Chooses the units whose last message carries a cache mark: at most four, the system's and the last among them.
pub(super) fn marked(units: &[Unit<'_>], stream: bool) -> Vec<usize> {
    let mut marks = Vec::new();
    if matches!(units.first(), Some(Unit::System(_))) {
        marks.push(0);
    }
    if !stream {
        return marks;
    }
    let markable = |index: &usize| match &units[*index] {
        Unit::System(_) | Unit::User(_) | Unit::Said(_) => true,
        Unit::Turn(_, answers) => !answers.is_empty(),
    };
    let from_the_end: Vec<usize> = (0..units.len()).rev().filter(markable).collect();
    let Some(&last) = from_the_end.first() else { return marks };
    marks.push(last);
    // With that many answers the cache's look back does not reach the mark of the request before.
    if let Unit::Turn(_, answers) = &units[last]
        && answers.len() > LOOK_BACK
        && let Some(&before) = from_the_end.get(1)
    {
        marks.push(before);
    }
    marks.dedup();
    marks
}
