//! Holds the conversation: append-only except for compaction, with every call answered exactly once.

use std::sync::Arc;

use super::estimate::estimate_tokens;
use crate::model::{AssistantMessage, Lineage, Message, Part, ToolMessage};

/// The messages of a run, system message first.
#[derive(Debug)]
pub struct Transcript {
    messages: Arc<Vec<Message>>,
    /// A new one whenever existing messages are changed.
    lineage: Lineage,
    /// The sum of the messages' estimates.
    estimate: u64,
    /// How many messages at the front are the task itself and survive a compaction verbatim.
    task: usize,
    /// How many messages of an earlier session are between the system prompt and the task: they are compacted first.
    history: usize,
}

impl Transcript {
    /// Begins a conversation: the system prompt and the user's task.
    pub fn begin(system: String, task: Vec<Part>) -> Transcript {
        Transcript::of(vec![Message::System(system), Message::User(task)], 0)
    }

    /// Continues an earlier conversation: its messages, in which every call is answered, come before the task.
    pub fn resume(system: String, earlier: Vec<Message>, task: Vec<Part>) -> Transcript {
        let history = earlier.len();
        let mut messages = vec![Message::System(system)];
        messages.extend(earlier);
        messages.push(Message::User(task));
        Transcript::of(messages, history)
    }

    fn of(messages: Vec<Message>, history: usize) -> Transcript {
        Transcript {
            task: messages.len(),
            estimate: estimate_tokens(&messages),
            lineage: Lineage::default(),
            messages: Arc::new(messages),
            history,
        }
    }

    /// Returns the messages.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Returns the messages for a request, not copied.
    pub fn shared(&self) -> Arc<Vec<Message>> {
        Arc::clone(&self.messages)
    }

    /// Tells which conversation this is: while it is the same, messages are only added.
    pub fn lineage(&self) -> Lineage {
        self.lineage.clone()
    }

    /// Estimates the tokens of all messages.
    pub fn estimate(&self) -> u64 {
        self.estimate
    }

    /// Adds messages; existing ones are copied only while a request still holds them.
    fn add(&mut self, messages: Vec<Message>) {
        self.estimate += estimate_tokens(&messages);
        Arc::make_mut(&mut self.messages).extend(messages);
    }

    /// Changes existing messages, and invalidates what was remembered about them.
    fn rewrite<T>(&mut self, change: impl FnOnce(&mut Vec<Message>) -> T) -> T {
        let done = change(Arc::make_mut(&mut self.messages));
        self.lineage = Lineage::default();
        self.estimate = estimate_tokens(&self.messages);
        done
    }

    /// Adds a user message.
    pub fn say(&mut self, text: impl Into<String>) {
        self.add(vec![Message::User(vec![Part::Text(text.into())])]);
    }

    /// Adds the model's turn and the answers to its calls, in the order of the calls.
    ///
    /// A call without an answer gets one that says so, and an answer without a call is dropped: a server refuses a
    /// history in which they do not match.
    pub fn turn(&mut self, message: AssistantMessage, mut answers: Vec<ToolMessage>) {
        let ordered = message.calls.iter().map(|call| {
            let found = answers.iter().position(|answer| answer.call_id == call.id);
            Message::Tool(match found {
                Some(at) => answers.swap_remove(at),
                None => ToolMessage {
                    call_id: call.id.clone(),
                    name: call.name.clone(),
                    content: vec![Part::Text("This call was not executed.".into())],
                    is_error: true,
                },
            })
        });
        let mut added: Vec<Message> = ordered.collect();
        added.insert(0, Message::Assistant(message));
        self.add(added);
    }

    /// Returns the messages that a compaction may replace: all after the task, up to the last boundary at which every
    /// call is answered and that keeps at least the last turn.
    pub fn compactable(&self) -> &[Message] {
        &self.messages[self.compactable_from()..self.boundary()]
    }

    /// Returns the conversation up to the end of what is compactable, for a request for a summary.
    pub fn up_to_compactable(&self) -> &[Message] {
        &self.messages[..self.boundary()]
    }

    /// Returns the conversation up to the end of what is compactable, with tools' answers cut to `chars` characters,
    /// and without as many of the oldest turns as needed to stay within `most` tokens.
    pub fn shortened(&self, chars: usize, most: u64) -> Vec<Message> {
        let from = self.compactable_from();
        let mut kept = self.messages[..from].to_vec();
        let mut old = self.compactable().to_vec();
        for message in &mut old {
            if let Message::Tool(answer) = message {
                let text = Part::text_of(&answer.content);
                if text.chars().count() > chars {
                    let head: String = text.chars().take(chars).collect();
                    answer.content = vec![Part::Text(format!("{head}\n... [cut]"))];
                }
            }
        }
        let room = most.saturating_sub(estimate_tokens(&kept));
        let begins_turn = |message: &Message| !matches!(message, Message::Tool(_));
        while estimate_tokens(&old) > room {
            // A turn is removed with all of its answers.
            let Some(next) = old.iter().skip(1).position(begins_turn) else { break };
            old.drain(..=next);
        }
        kept.append(&mut old);
        kept
    }

    /// Replaces what is compactable by a note, if a summary is unavailable; `false` if there is nothing.
    pub fn drop_compactable(&mut self) -> bool {
        const DROPPED: &str = "[Earlier turns were removed: the conversation no longer fits the context window. \
             Look again at whatever you need to know.]";
        let is_worth_it = estimate_tokens(self.compactable()) > estimate_tokens(&[Message::System(DROPPED.into())]);
        if is_worth_it {
            self.compact(DROPPED.to_owned());
        }
        is_worth_it
    }

    /// Replaces what [`Transcript::compactable`] returned by a summary in a user message.
    pub fn compact(&mut self, summary: String) {
        let (from, boundary) = (self.compactable_from(), self.boundary());
        self.rewrite(|messages| {
            messages.splice(from..boundary, [Message::User(vec![Part::Text(summary)])]);
        });
        if self.history > 0 {
            self.task = self.task - self.history + 1;
            self.history = 0;
        }
    }

    /// Replaces the contents of old successful tool results, except the last `keep`, by a short note; returns how many
    /// characters that saves.
    pub fn clear_old_results(&mut self, keep: usize) -> usize {
        const CLEARED: &str = "[Old tool result content cleared]";
        self.rewrite(|messages| {
            let results = messages[1..].iter_mut().rev().filter_map(|message| match message {
                Message::Tool(answer) if !answer.is_error => Some(answer),
                Message::Tool(_) | Message::System(_) | Message::User(_) | Message::Assistant(_) => None,
            });
            let mut saved = 0;
            for answer in results.skip(keep) {
                let size = Part::text_of(&answer.content).len();
                if size > CLEARED.len() {
                    saved += size - CLEARED.len();
                    answer.content = vec![Part::Text(CLEARED.into())];
                }
            }
            saved
        })
    }

    /// Cuts the largest tool result to `chars` characters, head and tail; `false` if none is larger.
    pub fn cut_largest_result(&mut self, chars: usize) -> bool {
        self.rewrite(|messages| {
            let largest = messages[1..]
                .iter_mut()
                .filter_map(|message| match message {
                    Message::Tool(answer) => Some(answer),
                    Message::System(_) | Message::User(_) | Message::Assistant(_) => None,
                })
                .max_by_key(|answer| Part::text_of(&answer.content).len());
            let Some(answer) = largest else { return false };
            let text = Part::text_of(&answer.content);
            if text.chars().count() <= chars {
                return false;
            }
            let head: String = text.chars().take(chars / 5).collect();
            let tail: Vec<char> = text.chars().rev().take(chars - chars / 5).collect();
            let tail: String = tail.into_iter().rev().collect();
            answer.content = vec![Part::Text(format!("{head}\n... [cut to fit the context window] ...\n{tail}"))];
            true
        })
    }

    fn compactable_from(&self) -> usize {
        if self.history > 0 { 1 } else { self.task }
    }

    fn boundary(&self) -> usize {
        if self.history > 0 {
            return self.history + 1;
        }
        let last_turn = self.messages.iter().rposition(|message| matches!(message, Message::Assistant(_)));
        last_turn.unwrap_or(self.task).max(self.task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Arguments, ToolCall};

    fn call(id: &str) -> ToolCall {
        ToolCall {
            id: id.into(),
            name: "glob".into(),
            arguments: Arguments::Object(Default::default()),
            recovered: None,
            notes: Vec::new(),
        }
    }

    fn answer(id: &str, text: &str) -> ToolMessage {
        ToolMessage { call_id: id.into(), name: "glob".into(), content: vec![Part::Text(text.into())], is_error: false }
    }

    fn assistant(ids: &[&str]) -> AssistantMessage {
        AssistantMessage { calls: ids.iter().map(|id| call(id)).collect(), ..AssistantMessage::default() }
    }

    #[test]
    fn r23_every_call_has_one_answer_in_the_order_of_the_calls() {
        let mut transcript = Transcript::begin("s".into(), vec![Part::Text("task".into())]);
        transcript.turn(assistant(&["a", "b", "c"]), vec![answer("c", "3"), answer("zzz", "orphan"), answer("a", "1")]);
        let ids: Vec<(&str, bool)> = transcript.messages()[3..]
            .iter()
            .map(|message| match message {
                Message::Tool(answer) => (answer.call_id.as_str(), answer.is_error),
                _ => panic!("only answers follow the calls"),
            })
            .collect();
        assert_eq!(ids, [("a", false), ("b", true), ("c", false)]);
    }

    #[test]
    fn r46_compaction_keeps_the_system_prompt_the_task_and_the_last_turn() {
        let mut transcript = Transcript::begin("s".into(), vec![Part::Text("task".into())]);
        for id in ["a", "b", "c"] {
            transcript.turn(assistant(&[id]), vec![answer(id, "x")]);
        }
        assert_eq!(transcript.compactable().len(), 4);
        transcript.compact("what happened".into());
        assert_eq!(transcript.messages().len(), 5);
        assert!(matches!(&transcript.messages()[1], Message::User(parts) if Part::text_of(parts) == "task"));
        assert!(matches!(&transcript.messages()[3], Message::Assistant(message) if message.calls[0].id == "c"));
    }

    #[test]
    fn what_stands_is_rewritten_under_another_lineage_and_counted_anew() {
        let mut transcript = Transcript::begin("s".into(), vec![Part::Text("task".into())]);
        let first = transcript.lineage();
        for id in ["a", "b", "c"] {
            transcript.turn(assistant(&[id]), vec![answer(id, &"x".repeat(200))]);
            transcript.say("go on");
            assert_eq!(transcript.estimate(), estimate_tokens(transcript.messages()));
        }
        assert!(transcript.lineage() == first);
        type Change = fn(&mut Transcript);
        let changes: [Change; 3] = [
            |transcript| assert!(transcript.clear_old_results(2) > 0),
            |transcript| assert!(transcript.cut_largest_result(100)),
            |transcript| transcript.compact("what was".into()),
        ];
        for change in changes {
            let before = transcript.lineage();
            change(&mut transcript);
            assert!(transcript.lineage() != before);
            assert_eq!(transcript.estimate(), estimate_tokens(transcript.messages()));
        }
    }

    #[test]
    fn an_earlier_session_is_compacted_first_and_the_task_stays() {
        let mut earlier = Transcript::begin("old".into(), vec![Part::Text("before".into())]);
        earlier.turn(assistant(&["a"]), vec![answer("a", "x")]);
        let history = earlier.messages()[1..].to_vec();
        let mut transcript = Transcript::resume("s".into(), history, vec![Part::Text("task".into())]);
        transcript.turn(assistant(&["b"]), vec![answer("b", "y")]);
        transcript.turn(assistant(&["c"]), vec![answer("c", "z")]);
        assert_eq!(transcript.compactable().len(), 3);
        transcript.compact("what was".into());
        let user = |at: usize| match &transcript.messages()[at] {
            Message::User(parts) => Part::text_of(parts),
            _ => panic!("no message of the user at {at}"),
        };
        assert_eq!((user(1).as_str(), user(2).as_str()), ("what was", "task"));
        assert_eq!(transcript.compactable().len(), 2);
        assert_eq!(transcript.messages().len(), 7);
    }

    #[test]
    fn old_results_are_cleared_but_not_errors_and_not_the_last_ones() {
        let mut transcript = Transcript::begin("s".into(), vec![Part::Text("task".into())]);
        let long = "x".repeat(100);
        for id in ["a", "b", "c"] {
            let failed = id == "b";
            transcript.turn(assistant(&[id]), vec![ToolMessage { is_error: failed, ..answer(id, &long) }]);
        }
        assert!(transcript.clear_old_results(1) > 0);
        let texts: Vec<usize> = transcript
            .messages()
            .iter()
            .filter_map(|message| match message {
                Message::Tool(answer) => Some(Part::text_of(&answer.content).len()),
                _ => None,
            })
            .collect();
        assert_eq!(texts, [33, 100, 100]);
    }
}
