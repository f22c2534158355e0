//! Collects what is kept of a run, and names the commands that continue from it.

use std::borrow::Cow;
use std::io;

use super::json::to_line;
use super::report::Report;
use super::words;
use crate::event::{Event, PermissionDenial};

/// Bytes of what a call showed the model, or a person, that are kept.
const MOST_SHOWN: usize = 64 << 10;

/// Bytes of events that are kept; of a longer run the first ones and the end.
const MOST_EVENTS: usize = 24 << 20;

/// Policies that explain a call without being named.
const USUAL_POLICIES: [&str; 3] = ["builtin:default", "builtin:edit", ".qwen/policy.yaml"];

/// Writes a kept run: its id, its result object and its events.
pub type Keep = Box<dyn FnMut(&str, &[u8], &[u8]) -> io::Result<()> + Send>;

/// How a person goes on with what a run made.
#[derive(Default)]
pub struct GoesOn {
    /// `-C`, as it was given: the commands that go on need it, too.
    pub directory: Option<String>,
    /// The file that a flag named and that gets the result or the patch.
    pub file: Option<String>,
    /// Keeps the run where commands without an argument find it.
    pub keep: Option<Keep>,
}

/// What is known of it at the end.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Next<'a> {
    /// Whether the run is kept.
    pub(super) kept: bool,
    /// Where the policy is from.
    policy: Option<&'a str>,
    directory: Option<&'a str>,
    file: Option<&'a str>,
}

impl<'a> Next<'a> {
    /// Adds where the policy is from.
    pub(super) fn judged_by(self, policy: Option<&'a str>) -> Next<'a> {
        Next { policy, ..self }
    }

    /// Returns the command that applies the change; `None` where nothing holds it, or a name is unfit for a shell.
    pub(super) fn apply(&self) -> Option<String> {
        match self.file {
            Some(file) => Some(format!("{} {}", self.command("apply")?, words::for_shell(file)?)),
            None => self.command("apply").filter(|_| self.kept),
        }
    }

    /// Returns the command that shows the run as a page; `None` where it is not kept.
    pub(super) fn report(&self) -> Option<String> {
        self.command("report").filter(|_| self.kept)
    }

    /// Returns the command that explains why a call of a command was denied; `None` where a shell would read it in
    /// another way.
    pub(super) fn explain(&self, denial: &PermissionDenial) -> Option<String> {
        let command = denial.tool_input["command"].as_str().filter(|command| !command.contains(['\n', '\'']))?;
        let policy = match self.policy.filter(|policy| !USUAL_POLICIES.contains(policy)) {
            Some(policy) => format!(" --policy {}", words::for_shell(policy)?),
            None => String::new(),
        };
        Some(format!("{}{policy} -- '{command}'", self.command("policy explain")?))
    }

    /// Returns a command for the workspace of the run.
    pub(super) fn command(&self, verb: &str) -> Option<String> {
        match self.directory {
            Some(directory) => Some(format!("qwen {verb} -C {}", words::for_shell(directory)?)),
            None => Some(format!("qwen {verb}")),
        }
    }
}

/// A run as it is going to be kept.
#[derive(Default)]
pub(super) struct Record {
    goes_on: GoesOn,
    events: String,
    kept: bool,
}

impl Record {
    pub(super) fn new(goes_on: GoesOn) -> Record {
        Record { goes_on, ..Record::default() }
    }

    /// Takes an event along: not the pieces of an answer, which follows whole, and not what is only for a moment.
    pub(super) fn event(&mut self, event: &Event) {
        let has_room = self.events.len() < MOST_EVENTS || matches!(event, Event::RunFinished(_));
        if self.goes_on.keep.is_none() || !has_room {
            return;
        }
        let line = match event {
            Event::Delta { .. } | Event::Status { .. } => return,
            Event::ToolResult(result) if result.content.len().max(result.display.len()) > MOST_SHOWN => {
                let mut result = result.clone();
                result.content = beginning(&result.content).into_owned();
                result.display = beginning(&result.display).into_owned();
                to_line(&Event::ToolResult(result))
            }
            other => to_line(other),
        };
        self.events.push_str(&line);
        self.events.push('\n');
    }

    /// Writes the record of a run that got as far as a session.
    pub(super) fn keep(&mut self, report: &Report) -> io::Result<()> {
        self.kept = false;
        if let (Some(keep), Some(id)) = (&mut self.goes_on.keep, &report.ran.run_id) {
            keep(id, (to_line(report) + "\n").as_bytes(), self.events.as_bytes())?;
            self.kept = true;
        }
        Ok(())
    }

    /// Returns how to go on.
    pub(super) fn next(&self) -> Next<'_> {
        let GoesOn { directory, file, .. } = &self.goes_on;
        Next { kept: self.kept, policy: None, directory: directory.as_deref(), file: file.as_deref() }
    }
}

fn beginning(text: &str) -> Cow<'_, str> {
    let end = text.floor_char_boundary(MOST_SHOWN);
    match text.len() - end {
        0 => Cow::Borrowed(text),
        left => Cow::Owned(format!("{}\n… {}", &text[..end], words::count(left as u64, "more byte"))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use super::*;
    use crate::emit::report::report;
    use crate::event::{DeltaKind, RunStarted, ToolResult};

    #[test]
    fn what_is_kept_is_a_log_without_pieces_and_with_the_beginning_of_long_texts() {
        let long = ToolResult { content: "ä".repeat(MOST_SHOWN), display: "short".into(), ..ToolResult::default() };
        let started = Event::RunStarted(Box::new(RunStarted { run_id: "r1".into(), ..RunStarted::default() }));
        let events = [
            started,
            Event::Delta { turn: 1, kind: DeltaKind::Text, text: "piece".into() },
            Event::Status { message: "waiting".into(), waited: Duration::ZERO },
            Event::ToolResult(Box::new(long)),
        ];
        let written = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&written);
        let keep: Keep = Box::new(move |id, result, events| {
            into.lock().unwrap().push((id.to_owned(), result.to_vec(), String::from_utf8(events.to_vec()).unwrap()));
            Ok(())
        });
        let mut record = Record::new(GoesOn { keep: Some(keep), ..GoesOn::default() });
        events.iter().for_each(|event| record.event(event));
        record.keep(&report([])).unwrap();
        assert!(written.lock().unwrap().is_empty(), "a run without a session is not kept");
        record.keep(&report(&events)).unwrap();
        let written = written.lock().unwrap();
        let (id, result, log) = &written[0];
        let lines: Vec<Event> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let [Event::RunStarted(_), Event::ToolResult(shown)] = &lines[..] else { panic!("{log:.200}") };
        assert!(shown.content.ends_with(&format!("ä\n… {MOST_SHOWN} more bytes")), "{}", shown.content.len());
        assert_eq!(shown.display, "short");
        assert!(id == "r1" && result.starts_with(br#"{"type":"result","#));
    }
}
