//! Renders one run's events as the requested outputs.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::appearance::Appearance;
use super::files::{OutputFile, open_growing};
use super::github::annotations;
use super::json::to_line;
use super::kept::{GoesOn, Record};
use super::lines::{Lines, Verbosity};
use super::material::Collected;
use super::message::{Ids, Messages};
use super::page::page;
use super::rdjson::rdjson;
use super::report::{Fold, Report, is_error};
use super::safe::brief;
use super::sarif::sarif;
use super::screen::{Screen, Terminal};
use super::sink::Sink;
use super::summary::summary;
use super::terminal::TerminalLayout;
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
    /// The review page.
    pub report: Option<PathBuf>,
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
    /// How a person's terminal on standard output shows text; `None` for a pipe or a file.
    pub stdout_terminal: Option<Appearance>,
    /// Standard error.
    pub screen: Screen,
    /// Whether standard error gets colours.
    pub screen_colour: bool,
    /// How a person's terminal on standard error shows text; `None` for lines as logs have them.
    pub terminal: Option<Appearance>,
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
            stdout_terminal: None,
            screen: Screen::Plain(stderr),
            screen_colour: false,
            terminal: None,
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
    report: Option<PageFile>,
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

/// The review page, with what goes into it, and its name without directories.
struct PageFile {
    file: SideFile,
    name: String,
    collected: Collected,
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
            report: files.report.and_then(|path| {
                let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                open("--report-file", Some(path)).map(|file| PageFile { file, name, collected: Collected::default() })
            }),
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

/// How progress is shown.
enum People {
    /// To logs, and to scripts that grep them.
    Lines(Lines),
    /// To a person at a terminal.
    Terminal(TerminalLayout),
}

impl People {
    fn event(&mut self, event: &Event) {
        match self {
            People::Lines(lines) => lines.event(event),
            People::Terminal(terminal) => terminal.event(event),
        }
    }

    fn screen(&mut self) -> &mut Terminal {
        match self {
            People::Lines(lines) => lines.screen(),
            People::Terminal(terminal) => terminal.screen(),
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
    people: People,
    messages: Messages,
    array: Vec<Value>,
    fold: Fold,
    files: Opened,
    patch_path: Option<PathBuf>,
    record: Record,
    problems: Vec<String>,
    ended: Option<Exit>,
}

/// An event as the events file has it.
#[derive(serde::Serialize)]
struct InSpan<'e> {
    #[serde(flatten)]
    event: &'e Event,
    #[serde(skip_serializing_if = "Option::is_none")]
    span_id: Option<&'e str>,
}

impl Renderer {
    /// Returns a renderer. A file that cannot be written is [`Renderer::problem`], and ends the run with 1 at its end.
    pub fn new(outputs: Outputs) -> Renderer {
        let mut problems = Vec::new();
        let patch_path = outputs.files.patch.clone();
        let files = Opened::new(outputs.files, &mut problems);
        let mut screen = Terminal::new(
            outputs.screen,
            outputs.verbosity == Verbosity::Quiet,
            outputs.screen_colour,
            outputs.terminal,
        );
        // Today's action reads all of standard error as JSON; whoever wants to see more says -v.
        if outputs.format == Format::Json && outputs.verbosity <= Verbosity::Normal && outputs.terminal.is_none() {
            screen.silence(true);
        }
        let people = match outputs.terminal {
            Some(look) => People::Terminal(TerminalLayout::new(screen, outputs.verbosity, look)),
            None => People::Lines(Lines::new(screen, outputs.verbosity, outputs.groups)),
        };
        Renderer {
            format: outputs.format,
            stdout: Sink::new(outputs.stdout),
            reader: Reader { terminal: outputs.stdout_terminal, ci: outputs.ci },
            people,
            messages: Messages::new(outputs.ids, outputs.include_partial),
            array: Vec::new(),
            fold: Fold::default(),
            files,
            patch_path,
            record: Record::default(),
            problems,
            ended: None,
        }
    }

    /// Sets how a person goes on with what the run makes.
    pub fn goes_on(mut self, goes_on: GoesOn) -> Renderer {
        self.record = Record::new(goes_on);
        self
    }

    /// Renders one event. Everything after [`Event::RunFinished`] is ignored.
    pub fn event(&mut self, event: &Event) {
        self.event_in(event, None);
    }

    /// As [`Renderer::event`]; the events file names the span that the event is a part of.
    pub fn event_in(&mut self, event: &Event, span: Option<&str>) {
        if self.ended.is_some() {
            return;
        }
        match event {
            Event::RunFinished(finished) => self.finish(finished, span),
            Event::Warning { message } => self.tell(&Event::Warning { message: brief(message).into_owned() }, span),
            other => self.tell(other, span),
        }
    }

    fn tell(&mut self, event: &Event, span: Option<&str>) {
        self.fold.add(event);
        self.record(event, span);
        self.people.event(event);
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

    fn record(&mut self, event: &Event, span_id: Option<&str>) {
        self.record.event(event);
        if let Some(page) = &mut self.files.report {
            page.collected.add(event);
        }
        let Some((name, sink)) = &mut self.files.events else { return };
        sink.line(&to_line(&InSpan { event, span_id }));
        if let Some(error) = sink.take_failure() {
            self.problems.push(unwritable(name, &error));
        }
    }

    fn finish(&mut self, finished: &RunFinished, span: Option<&str>) {
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
        self.record(&event, span);
        self.fold.add(&event);
        let report = self.fold.report();
        self.write_side_files(&report);
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
        if let Err(error) = self.record.keep(&report) {
            let message = format!("this run is not kept for `qwen apply`: {error}");
            self.people.event(&Event::Warning { message });
        }
        if let People::Lines(lines) = &mut self.people {
            lines.finished(&end, &report);
        }
        self.people.screen().clear();
        let product = self.product(&end, &report);
        // On one screen, the answer stands apart from the calls; elsewhere nothing is between them.
        if let (People::Terminal(terminal), false, Some(_)) =
            (&mut self.people, product.is_empty(), self.reader.terminal)
        {
            terminal.gap();
        }
        self.stdout.write(&product);
        if self.format.is_messages() && is_error(end.exit) {
            let line = to_line(&fatal(&end));
            self.people.screen().machine(&line);
        }
        if let People::Terminal(terminal) = &mut self.people {
            terminal.finished(&end, &report, self.record.next());
        }
        self.blame_stdout(&mut end);
        self.ended = Some(end.exit);
    }

    fn blame_stdout(&mut self, end: &mut RunFinished) {
        let Some(error) = self.stdout.failure() else { return };
        let problem = format!("cannot write standard output: {error}");
        self.people.screen().line(&format!("error: {problem}"));
        end.blame_output(RunError::output(problem));
        self.fold.replace_end(end.clone());
        // The files said how the run would have ended.
        let report = self.fold.report();
        self.write_result(&report);
        let _kept_as_it_was = self.record.keep(&report);
    }

    fn write_side_files(&mut self, report: &Report) {
        let findings = self.fold.findings();
        if let Some(PageFile { file, name, collected }) = &mut self.files.report {
            file.write(page(&collected.material(report), name).as_bytes(), &mut self.problems);
        }
        for (file, contents) in [
            (&mut self.files.summary, &(|| summary(report)) as &dyn Fn() -> String),
            (&mut self.files.sarif, &|| to_line(&sarif(&findings)) + "\n"),
            (&mut self.files.rdjson, &|| to_line(&rdjson(&findings)) + "\n"),
            (&mut self.files.annotations, &|| annotations(&findings)),
        ] {
            if let Some(file) = file {
                file.write(contents().as_bytes(), &mut self.problems);
            }
        }
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

    /// Returns what standard output gets at the end.
    fn product(&mut self, end: &RunFinished, report: &Report) -> Vec<u8> {
        match self.format {
            Format::Text => {
                let whole = self.record.next().report();
                text::answer(end, &report.changes.mode, &self.fold.findings(), self.reader, whole.as_deref())
            }
            Format::Patch => text::patch(end, self.reader, self.record.next().report().as_deref()),
            Format::Result => format!("{}\n", to_line(report)).into_bytes(),
            Format::StreamJson => {
                let messages = self.messages.result(report);
                messages.iter().map(|message| to_line(message) + "\n").collect::<String>().into_bytes()
            }
            Format::Json => {
                self.array.extend(self.messages.result(report));
                format!("{}\n", to_line(&self.array)).into_bytes()
            }
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
