//! One run's events as the outputs that were asked for.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::files::{can_be_written, write_atomically};
use super::github::annotations;
use super::json::to_line;
use super::message::{Ids, Messages};
use super::people::{People, Screen, Verbosity};
use super::rdjson::rdjson;
use super::report::{Fold, Report, is_error};
use super::sarif::sarif;
use super::sink::Sink;
use super::summary::summary;
use super::text::{self, Reader};
use crate::event::{Event, RunError, RunFinished};
use crate::exit::Exit;

/// What standard output carries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Format {
    /// The final answer, and in a dry run the patch
    #[default]
    Text,
    /// One array of messages at the end, the last one the result
    Json,
    /// The same messages, one JSON object a line, as they happen
    StreamJson,
    /// Only the result object
    Result,
    /// Only the patch, byte for byte what git apply takes
    Patch,
}

impl Format {
    /// Returns the format of a name as the flag has it.
    pub fn from_name(name: &str) -> Option<Format> {
        <Format as clap::ValueEnum>::from_str(name, false).ok()
    }

    /// Tells whether a program reads JSON from standard output, and today's also `{"error":…}` from standard error.
    pub fn is_messages(self) -> bool {
        match self {
            Format::Json | Format::StreamJson => true,
            Format::Text | Format::Result | Format::Patch => false,
        }
    }
}

/// Files that flags name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutputFiles {
    /// The result object.
    pub result: Option<PathBuf>,
    /// One line of JSON an event, as they happen.
    pub events: Option<PathBuf>,
    /// The patch.
    pub patch: Option<PathBuf>,
    /// A summary in markdown.
    pub summary: Option<PathBuf>,
    /// Findings as SARIF.
    pub sarif: Option<PathBuf>,
    /// Findings as rdjson.
    pub rdjson: Option<PathBuf>,
    /// Findings as GitHub's annotations.
    pub annotations: Option<PathBuf>,
}

/// Where a run's outputs go, and how they look.
pub struct Outputs {
    /// What standard output carries.
    pub format: Format,
    /// Whether pieces of answers become messages.
    pub include_partial: bool,
    /// Standard output.
    pub stdout: Box<dyn Write + Send>,
    /// Whether standard output is a terminal.
    pub stdout_is_terminal: bool,
    /// Whether standard output gets colours.
    pub stdout_colour: bool,
    /// Standard error.
    pub screen: Screen,
    /// Whether standard error gets colours.
    pub screen_colour: bool,
    /// How much goes there.
    pub verbosity: Verbosity,
    /// Whether a CI system reads along (`CI`, `GITHUB_ACTIONS` or `TF_BUILD`).
    pub ci: bool,
    /// `GITHUB_ACTIONS=true`: turns are groups.
    pub groups: bool,
    /// Files that flags name.
    pub files: OutputFiles,
    /// The ids of messages.
    pub ids: Ids,
}

impl Outputs {
    /// Returns outputs without files, colours and CI: what a wrong argument list gets.
    pub fn plain(format: Format, stdout: Box<dyn Write + Send>, stderr: Box<dyn Write + Send>, ids: Ids) -> Outputs {
        Outputs {
            format,
            include_partial: false,
            stdout,
            stdout_is_terminal: false,
            stdout_colour: false,
            screen: Screen::Plain(stderr),
            screen_colour: false,
            verbosity: Verbosity::Normal,
            ci: false,
            groups: false,
            files: OutputFiles::default(),
            ids,
        }
    }
}

/// Renders events one by one.
///
/// No reader that goes away and no full disk makes it panic. What cannot be written to a file that a flag names is a
/// failure of the run, since somebody waits for that file: see [`Renderer::close`].
pub struct Renderer {
    format: Format,
    stdout: Sink,
    reader: Reader,
    people: People,
    messages: Messages,
    array: Vec<Value>,
    fold: Fold,
    files: OutputFiles,
    events_file: Option<File>,
    problems: Vec<String>,
    ended: Option<Exit>,
}

impl Renderer {
    /// Returns a renderer. A file that cannot be written is [`Renderer::problem`], and ends the run with 1 at its end.
    pub fn new(outputs: Outputs) -> Renderer {
        let mut problems = Vec::new();
        for (flag, path) in [
            ("--result-file", &outputs.files.result),
            ("--patch-file", &outputs.files.patch),
            ("--summary-file", &outputs.files.summary),
            ("--sarif-file", &outputs.files.sarif),
            ("--rdjson-file", &outputs.files.rdjson),
            ("the annotations' file", &outputs.files.annotations),
        ] {
            if let Some(path) = path
                && let Err(error) = can_be_written(path)
            {
                problems.push(format!("cannot write {flag} {}: {error}", path.display()));
            }
        }
        let events_file = outputs.files.events.as_ref().and_then(|path| match create(path) {
            Ok(file) => Some(file),
            Err(error) => {
                problems.push(format!("cannot write --events-file {}: {error}", path.display()));
                None
            }
        });
        let mut people = People::new(outputs.screen, outputs.verbosity, outputs.screen_colour, outputs.groups);
        // Today's action reads all of standard error as JSON; whoever wants to see more says -v.
        if outputs.format == Format::Json && outputs.verbosity <= Verbosity::Normal && !people.is_live() {
            people.silence();
        }
        Renderer {
            format: outputs.format,
            stdout: Sink::new(outputs.stdout),
            reader: Reader { terminal: outputs.stdout_is_terminal, ci: outputs.ci, colour: outputs.stdout_colour },
            people,
            messages: Messages::new(outputs.ids, outputs.include_partial),
            array: Vec::new(),
            fold: Fold::default(),
            files: outputs.files,
            events_file,
            problems,
            ended: None,
        }
    }

    /// Renders one event. Everything after [`Event::RunFinished`] is ignored.
    pub fn event(&mut self, event: &Event) {
        if self.ended.is_some() {
            return;
        }
        match event {
            Event::RunFinished(finished) => self.finish(finished),
            other => {
                self.fold.add(other);
                self.record(other);
                self.people.event(other);
                self.send(other);
            }
        }
    }

    /// Returns the first file that a flag names and that cannot be written, so that the run can end before any work.
    pub fn problem(&self) -> Option<&str> {
        self.problems.first().map(String::as_str)
    }

    /// Ends the rendering and returns the exit code that counts.
    ///
    /// A run that ended without saying how ends here, as an internal error; the same holds where the renderer is
    /// dropped by a panic, so that a result is printed whatever happens.
    pub fn close(mut self) -> Exit {
        self.end()
    }

    fn end(&mut self) -> Exit {
        if self.ended.is_none() {
            self.event(&Event::RunFinished(Box::new(RunFinished::failed(
                Exit::Failed,
                RunError {
                    code: "internal".into(),
                    message: "the run ended without saying how".into(),
                    ..RunError::default()
                },
            ))));
        }
        self.ended.unwrap_or(Exit::Failed)
    }

    fn send(&mut self, event: &Event) {
        match self.format {
            Format::StreamJson => {
                for message in self.messages.of(event) {
                    self.stdout.line(&to_line(&message));
                }
            }
            Format::Json => {
                let messages = self.messages.of(event);
                self.array.extend(messages);
            }
            Format::Text | Format::Result | Format::Patch => {}
        }
    }

    fn record(&mut self, event: &Event) {
        let Some(file) = &mut self.events_file else { return };
        let mut line = to_line(event);
        line.push('\n');
        if let Err(error) = file.write_all(line.as_bytes()) {
            self.problems.push(format!("cannot write --events-file: {error}"));
            self.events_file = None;
        }
    }

    fn finish(&mut self, finished: &RunFinished) {
        let mut end = finished.clone();
        // The patch goes first, so that the result can say whether it is there.
        if let Some(path) = self.files.patch.take() {
            match write_atomically(&path, &text::patch_bytes(&end.changes)) {
                Ok(()) => end.changes.patch_file = Some(path.display().to_string()),
                Err(error) => self.problems.push(format!("cannot write --patch-file {}: {error}", path.display())),
            }
        }
        self.blame_problems(&mut end);
        let event = Event::RunFinished(Box::new(end.clone()));
        self.record(&event);
        self.fold.add(&event);
        let report = self.fold.report();
        let findings = self.fold.findings();
        for (flag, path, contents) in [
            ("--summary-file", self.files.summary.take(), &(|| summary(&report)) as &dyn Fn() -> String),
            ("--sarif-file", self.files.sarif.take(), &|| to_line(&sarif(&findings)) + "\n"),
            ("--rdjson-file", self.files.rdjson.take(), &|| to_line(&rdjson(&findings)) + "\n"),
            ("the annotations' file", self.files.annotations.take(), &|| annotations(&findings)),
        ] {
            if let Some(path) = path
                && let Err(error) = write_atomically(&path, contents().as_bytes())
            {
                self.problems.push(format!("cannot write {flag} {}: {error}", path.display()));
            }
        }
        let result_file = self.files.result.take();
        self.write_result(result_file.as_deref(), &report);
        let report = if self.problems.is_empty() || end.error.as_ref().is_some_and(|e| e.code == "output") {
            report
        } else {
            // The files that stand already say what was true when they were written; what is printed says all.
            self.blame_problems(&mut end);
            self.fold.replace_end(end.clone());
            self.fold.report()
        };
        self.people.finished(&end, &report);
        self.print(&end, &report);
        if let Some(error) = self.stdout.failure() {
            let problem = format!("cannot write standard output: {error}");
            self.people.raw(&format!("error: {problem}"));
            end.blame_output(RunError::output(problem));
            self.fold.replace_end(end.clone());
            // The file said how the run would have ended.
            self.write_result(result_file.as_deref(), &self.fold.report());
        }
        self.ended = Some(end.exit);
    }

    fn write_result(&mut self, path: Option<&std::path::Path>, report: &Report) {
        let Some(path) = path else { return };
        let contents = format!("{}\n", to_line(report));
        if let Err(error) = write_atomically(path, contents.as_bytes()) {
            self.problems.push(format!("cannot write --result-file {}: {error}", path.display()));
        }
    }

    fn blame_problems(&mut self, end: &mut RunFinished) {
        if let Some(problem) = self.problems.first() {
            end.blame_output(RunError::output(problem.clone()));
        }
    }

    fn print(&mut self, end: &RunFinished, report: &Report) {
        match self.format {
            Format::Text => {
                let text = text::answer(end, &report.changes.mode, self.reader);
                self.stdout.write(&text);
            }
            Format::Patch => {
                let patch = text::patch(&end.changes, self.reader);
                self.stdout.write(&patch);
            }
            Format::Result => self.stdout.line(&to_line(report)),
            Format::StreamJson => {
                for message in self.messages.result(report) {
                    self.stdout.line(&to_line(&message));
                }
            }
            Format::Json => {
                self.array.extend(self.messages.result(report));
                self.stdout.line(&to_line(&self.array));
            }
        }
        if self.format.is_messages() && is_error(end.exit) {
            let line = to_line(&fatal(end));
            self.people.machine(&line);
        }
    }
}

/// Makes the events file; what a device or a redirected `/dev/stdout` holds already stays.
fn create(path: &std::path::Path) -> std::io::Result<File> {
    if path.starts_with("/dev") { File::options().append(true).open(path) } else { File::create(path) }
}

impl Drop for Renderer {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns `{"error":{…}}` as today's action reads it from standard error.
fn fatal(end: &RunFinished) -> Value {
    let kind = match end.exit {
        Exit::Auth => "FatalAuthenticationError",
        Exit::Input | Exit::Usage => "FatalInputError",
        Exit::Sandbox => "FatalSandboxError",
        Exit::Config => "FatalConfigError",
        Exit::Turns => "FatalTurnLimitedError",
        Exit::Budget => "FatalBudgetExceededError",
        Exit::Interrupted | Exit::Terminated => "FatalCancellationError",
        Exit::Ok
        | Exit::Failed
        | Exit::Gate
        | Exit::Denied
        | Exit::Schema
        | Exit::Conflict
        | Exit::Verify
        | Exit::NoChanges
        | Exit::Replay
        | Exit::Unavailable => "Error",
    };
    let message = match &end.error {
        Some(error) => error.message.clone(),
        None => format!("the run ended with {}", end.exit.name()),
    };
    json!({"error": {"type": kind, "message": message, "code": end.exit.code()}})
}
