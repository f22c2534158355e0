//! Renders one run's events as the requested outputs.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::files::{OutputFile, open_growing};
use super::github::annotations;
use super::json::to_line;
use super::lines::{Lines, Verbosity};
use super::message::{Ids, Messages};
use super::rdjson::rdjson;
use super::report::{Fold, Report, is_error};
use super::safe::brief;
use super::sarif::sarif;
use super::sink::Sink;
use super::summary::summary;
use super::terminal::Screen;
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
    /// The directories whose links are not followed on the way to these files.
    pub checkouts: Vec<PathBuf>,
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

/// The files of [`OutputFiles`], ready to be written.
struct Opened {
    result: Option<SideFile>,
    patch: Option<SideFile>,
    summary: Option<SideFile>,
    sarif: Option<SideFile>,
    rdjson: Option<SideFile>,
    annotations: Option<SideFile>,
    events: Option<(String, Sink)>,
}

/// One of them, with the flag and the path as messages name it.
struct SideFile {
    name: String,
    file: OutputFile,
}

impl Opened {
    fn new(files: OutputFiles, problems: &mut Vec<String>) -> Opened {
        let named = |flag: &str, path: &Path| format!("{flag} {}", path.display());
        let mut open = |flag: &str, path: Option<PathBuf>| {
            let path = path?;
            let name = named(flag, &path);
            let opened =
                OutputFile::open(&path, &files.checkouts).map_err(|error| problems.push(unwritable(&name, &error)));
            opened.ok().map(|file| SideFile { name, file })
        };
        Opened {
            result: open("--result-file", files.result),
            patch: open("--patch-file", files.patch),
            summary: open("--summary-file", files.summary),
            sarif: open("--sarif-file", files.sarif),
            rdjson: open("--rdjson-file", files.rdjson),
            annotations: open("the annotations' file", files.annotations),
            events: files.events.and_then(|path| {
                let name = named("--events-file", &path);
                let opened =
                    open_growing(&path, &files.checkouts).map_err(|error| problems.push(unwritable(&name, &error)));
                opened.ok().map(|sink| (name, sink))
            }),
        }
    }
}

impl SideFile {
    fn write(&mut self, contents: &[u8], problems: &mut Vec<String>) -> bool {
        let written = self.file.write(contents);
        written.map_err(|error| problems.push(unwritable(&self.name, &error))).is_ok()
    }
}

fn unwritable(name: &str, error: &std::io::Error) -> String {
    format!("cannot write {name}: {error}")
}

/// Renders events one by one.
///
/// No reader that goes away and no full disk makes it panic. What cannot be written to a file that a flag names is a
/// failure of the run, since somebody waits for that file: see [`Renderer::close`].
pub struct Renderer {
    format: Format,
    stdout: Sink,
    reader: Reader,
    lines: Lines,
    messages: Messages,
    array: Vec<Value>,
    fold: Fold,
    files: Opened,
    patch_path: Option<PathBuf>,
    problems: Vec<String>,
    ended: Option<Exit>,
}

impl Renderer {
    /// Returns a renderer. A file that cannot be written is [`Renderer::problem`], and ends the run with 1 at its end.
    pub fn new(outputs: Outputs) -> Renderer {
        let mut problems = Vec::new();
        let patch_path = outputs.files.patch.clone();
        let files = Opened::new(outputs.files, &mut problems);
        let mut lines = Lines::new(outputs.screen, outputs.verbosity, outputs.screen_colour, outputs.groups);
        // Today's action reads all of standard error as JSON; whoever wants to see more says -v.
        if outputs.format == Format::Json && outputs.verbosity <= Verbosity::Normal && !lines.is_live() {
            lines.silence();
        }
        Renderer {
            format: outputs.format,
            stdout: Sink::new(outputs.stdout),
            reader: Reader { terminal: outputs.stdout_is_terminal, ci: outputs.ci, colour: outputs.stdout_colour },
            lines,
            messages: Messages::new(outputs.ids, outputs.include_partial),
            array: Vec::new(),
            fold: Fold::default(),
            files,
            patch_path,
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
            Event::Warning { message } => self.tell(&Event::Warning { message: brief(message).into_owned() }),
            other => self.tell(other),
        }
    }

    fn tell(&mut self, event: &Event) {
        self.fold.add(event);
        self.record(event);
        self.lines.event(event);
        self.send(event);
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
                    message: "the run ended without a result".into(),
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
        let Some((name, sink)) = &mut self.files.events else { return };
        sink.line(&to_line(event));
        if let Some(error) = sink.take_failure() {
            self.problems.push(unwritable(name, &error));
        }
    }

    fn finish(&mut self, finished: &RunFinished) {
        let mut end = finished.clone();
        // The patch goes first, so that the result can say whether it is there.
        if let Some(file) = &mut self.files.patch
            && file.write(&text::patch_bytes(&end.changes), &mut self.problems)
        {
            end.changes.patch_file = self.patch_path.as_ref().map(|path| path.display().to_string());
        }
        self.blame_problems(&mut end);
        shorten(&mut end);
        let event = Event::RunFinished(Box::new(end.clone()));
        self.record(&event);
        self.fold.add(&event);
        let report = self.fold.report();
        let findings = self.fold.findings();
        for (file, contents) in [
            (&mut self.files.summary, &(|| summary(&report)) as &dyn Fn() -> String),
            (&mut self.files.sarif, &|| to_line(&sarif(&findings)) + "\n"),
            (&mut self.files.rdjson, &|| to_line(&rdjson(&findings)) + "\n"),
            (&mut self.files.annotations, &|| annotations(&findings)),
        ] {
            if let Some(file) = file {
                file.write(contents().as_bytes(), &mut self.problems);
            }
        }
        self.write_result(&report);
        let report = if self.problems.is_empty() || end.error.as_ref().is_some_and(|e| e.code == "output") {
            report
        } else {
            // Files that are already written say what was true when they were written; what is printed says all.
            self.blame_problems(&mut end);
            shorten(&mut end);
            self.fold.replace_end(end.clone());
            self.fold.report()
        };
        self.lines.finished(&end, &report);
        self.print(&end, &report);
        if let Some(error) = self.stdout.failure() {
            let problem = format!("cannot write standard output: {error}");
            self.lines.raw(&format!("error: {problem}"));
            end.blame_output(RunError::output(problem));
            self.fold.replace_end(end.clone());
            // The file said how the run would have ended.
            let report = self.fold.report();
            self.write_result(&report);
        }
        self.ended = Some(end.exit);
    }

    fn write_result(&mut self, report: &Report) {
        if let Some(file) = &mut self.files.result {
            file.write(format!("{}\n", to_line(report)).as_bytes(), &mut self.problems);
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
            self.lines.machine(&line);
        }
    }
}

impl Drop for Renderer {
    fn drop(&mut self) {
        self.end();
    }
}

/// Cuts what no reader of the error needs whole.
fn shorten(end: &mut RunFinished) {
    if let Some(error) = &mut end.error {
        error.message = brief(&error.message).into_owned();
        error.hint = error.hint.as_deref().map(|hint| brief(hint).into_owned());
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
