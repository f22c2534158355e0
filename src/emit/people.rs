//! Prints progress to standard error for people and logs.
//!
//! The first word of a line names its kind (`run`, `ctx`, `turn`, `deny`, `check`, `ok` …); scripts grep for it. A
//! terminal gets one live status line below finished lines, anything else finished lines only.

use std::fmt::Write as _;
use std::io::Write;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressStyle};

use super::report::Report;
use super::safe::{one_line, one_line_of};
use super::sink::Sink;
use crate::event::{Event, RunFinished, RunStarted, ToolResult};
use crate::exit::Exit;

/// How long a log may stay silent.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// The most characters of one line.
const WIDTH: usize = 240;

/// How much a person wants to see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Errors only.
    Quiet,
    /// One line for each finished thing.
    #[default]
    Normal,
    /// Changed files, commands and what the model says, too.
    Verbose,
    /// What the model saw, too.
    Debug,
}

/// What `--color` says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Colour {
    /// As the environment says, else on a terminal
    #[default]
    Auto,
    /// Also into files and pipes
    Always,
    /// Not at all
    Never,
}

/// What the environment says about colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Colours {
    /// The flag.
    pub flag: Colour,
    /// `NO_COLOR` is set and not empty.
    pub no_color: bool,
    /// `CLICOLOR_FORCE` or `FORCE_COLOR` is set, not empty and not `0`.
    pub force: bool,
    /// `CLICOLOR=0`.
    pub clicolor_off: bool,
}

impl Colours {
    /// Reads the environment through `get`.
    pub fn from_environment(flag: Colour, get: impl Fn(&str) -> Option<String>) -> Colours {
        let on = |name| get(name).is_some_and(|value| !value.is_empty() && value != "0");
        Colours {
            flag,
            no_color: get("NO_COLOR").is_some_and(|value| !value.is_empty()),
            force: on("CLICOLOR_FORCE") || on("FORCE_COLOR"),
            clicolor_off: get("CLICOLOR").is_some_and(|value| value == "0"),
        }
    }

    /// Tells whether a stream gets colours.
    pub fn on(self, is_terminal: bool) -> bool {
        match self.flag {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto if self.no_color => false,
            Colour::Auto if self.force => true,
            Colour::Auto if self.clicolor_off => false,
            Colour::Auto => is_terminal,
        }
    }
}

/// Where lines for people go.
pub enum Screen {
    /// The terminal on standard error, with one live line at the bottom.
    Live,
    /// Any other stream.
    Plain(Box<dyn Write + Send>),
}

enum Place {
    Live(ProgressBar),
    Plain(Sink),
}

/// Writes lines for people.
pub(super) struct People {
    place: Place,
    verbosity: Verbosity,
    colour: bool,
    /// `GITHUB_ACTIONS=true`: turns are groups.
    groups: bool,
    group_open: bool,
    /// The end of what the model is saying.
    tail: String,
    /// Heartbeats of the silence that lasts.
    beats: u64,
    /// A program reads standard error as JSON: nothing but that goes there.
    silent: bool,
}

impl People {
    pub(super) fn new(screen: Screen, verbosity: Verbosity, colour: bool, groups: bool) -> People {
        let place = match screen {
            Screen::Live => {
                let bar =
                    if verbosity == Verbosity::Quiet { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
                bar.set_style(
                    ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}")
                        .unwrap_or_else(|_| ProgressStyle::default_spinner()),
                );
                if verbosity > Verbosity::Quiet {
                    bar.enable_steady_tick(Duration::from_millis(120));
                }
                Place::Live(bar)
            }
            Screen::Plain(writer) => Place::Plain(Sink::new(writer)),
        };
        People { place, verbosity, colour, groups, group_open: false, tail: String::new(), beats: 0, silent: false }
    }

    /// Keeps every line for people to itself; [`People::machine`] still speaks.
    pub(super) fn silence(&mut self) {
        self.silent = true;
    }

    /// Tells whether a person looks at a terminal.
    pub(super) fn is_live(&self) -> bool {
        matches!(self.place, Place::Live(_))
    }

    /// Prints a line for a program.
    pub(super) fn machine(&mut self, line: &str) {
        let silent = std::mem::take(&mut self.silent);
        self.raw(line);
        self.silent = silent;
    }

    /// Prints one line for an error object or a last word, whatever the verbosity.
    pub(super) fn raw(&mut self, line: &str) {
        if self.silent {
            return;
        }
        match &mut self.place {
            Place::Live(bar) => bar.suspend(|| {
                let mut stream = std::io::stderr().lock();
                let _ = writeln!(stream, "{line}");
            }),
            Place::Plain(sink) => sink.line(line),
        }
    }

    fn say(&mut self, style: Style, line: &str) {
        if self.verbosity == Verbosity::Quiet {
            return;
        }
        self.beats = 0;
        self.insist(style, line);
    }

    /// As `say`, also when quiet.
    fn insist(&mut self, style: Style, line: &str) {
        let line = one_line_of(line, WIDTH);
        let line = match line.split_once(' ') {
            Some((word, rest)) if self.colour => format!("{style}{word}{style:#} {rest}"),
            _ if self.colour => format!("{style}{line}{style:#}"),
            _ => line,
        };
        self.raw(&line);
    }

    /// Prints text of several lines, each behind a mark, so that none can pass for one of ours.
    fn quote(&mut self, text: &str) {
        for line in text.lines() {
            let line = format!("| {}", one_line_of(line, WIDTH));
            self.raw(&line);
        }
    }

    fn status(&mut self, text: &str) {
        if let Place::Live(bar) = &self.place {
            bar.set_message(one_line_of(text, WIDTH));
        }
    }

    /// Shows the line that the model is writing.
    fn heard(&mut self, turn: u32, text: &str) {
        if !matches!(self.place, Place::Live(_)) {
            return;
        }
        self.tail.push_str(text);
        let from = self.tail.trim_end().rfind('\n').map_or(0, |newline| newline + 1);
        let from = from.max(self.tail.len().saturating_sub(WIDTH));
        self.tail.drain(..self.tail.ceil_char_boundary(from));
        let line = format!("turn {turn}: {}", self.tail.trim());
        self.status(&line);
    }

    /// Clears the live line for good, so that the answer starts at the left.
    pub(super) fn stop(&mut self) {
        self.close_group();
        if let Place::Live(bar) = &self.place {
            bar.finish_and_clear();
        }
    }

    fn close_group(&mut self) {
        if std::mem::take(&mut self.group_open) {
            self.raw("::endgroup::");
        }
    }

    pub(super) fn event(&mut self, event: &Event) {
        match event {
            Event::RunStarted(started) => self.started(started),
            Event::TurnStarted { turn } => {
                self.tail.clear();
                if self.groups && self.verbosity > Verbosity::Quiet {
                    self.close_group();
                    self.raw(&format!("::group::turn {turn}"));
                    self.group_open = true;
                }
                self.status(&format!("turn {turn}: waiting for the model"));
            }
            Event::Delta { turn, text, .. } => self.heard(*turn, text),
            Event::Assistant(turn) => {
                if self.verbosity >= Verbosity::Verbose && !turn.text.is_empty() {
                    self.quote(&turn.text);
                }
                for call in &turn.calls {
                    self.status(&format!("turn {}: {}", turn.turn, call.name));
                }
            }
            Event::ToolResult(result) => self.result(result),
            Event::Denied(denial) => {
                let mut line = format!("deny {}", denial.tool_name);
                if let Some(command) = denial.tool_input.get("command").and_then(|command| command.as_str()) {
                    let _ = write!(line, " `{}`", one_line_of(command, 80));
                }
                let _ = write!(line, " rule {}", denial.rule.as_deref().unwrap_or("(none)"));
                if let Some(source) = &denial.source {
                    let _ = write!(line, " ({source})");
                }
                let _ = write!(line, ": {}", denial.reason);
                if let Some(hint) = &denial.hint {
                    let _ = write!(line, "; {hint}");
                }
                self.say(AnsiColor::Red.on_default(), &line);
            }
            Event::Retry(retry) => self.say(
                AnsiColor::Yellow.on_default(),
                &format!("retry {} in {}: {}: {}", retry.attempt, seconds(retry.wait_ms), retry.class, retry.message),
            ),
            Event::ModelFallback { from, to } => {
                self.say(AnsiColor::Yellow.on_default(), &format!("model {from} -> {to}"));
            }
            Event::FileChange { path, kind, added, removed } => {
                if self.verbosity >= Verbosity::Verbose {
                    self.say(Style::new(), &format!("file {kind} {path} +{added} -{removed}"));
                }
            }
            Event::Command { argv, exit_code, duration_ms, sandboxed } => {
                if self.verbosity >= Verbosity::Verbose {
                    let code = exit_code.map_or("signal".to_owned(), |code| code.to_string());
                    let wall = if *sandboxed { "sandboxed" } else { "not isolated" };
                    self.say(
                        Style::new(),
                        &format!("command {code} {} {wall}: {}", seconds(*duration_ms), argv.join(" ")),
                    );
                }
            }
            Event::Verify(outcome) => {
                let (word, style) = if outcome.passed {
                    ("pass", AnsiColor::Green.on_default())
                } else {
                    ("fail", AnsiColor::Red.on_default())
                };
                let mut line =
                    format!("check {} {word} {}", one_line_of(&outcome.command, 120), seconds(outcome.duration_ms));
                if let (false, Some(code)) = (outcome.passed, outcome.exit_code) {
                    let _ = write!(line, " exit {code}");
                }
                self.say(style, &line);
                if !outcome.passed && self.verbosity >= Verbosity::Normal {
                    self.quote(&outcome.output_tail);
                }
            }
            Event::Budget(exceeded) => self.say(
                AnsiColor::Red.on_default(),
                &format!("budget {} {} of {}", exceeded.kind, exceeded.spent, exceeded.limit),
            ),
            // What it was for says so itself.
            Event::SideRequest(_) => {}
            Event::Compaction { before, after } => {
                self.say(Style::new(), &format!("ctx compacted from {before} to {after} tokens"));
            }
            Event::Redaction { count } => {
                if self.verbosity >= Verbosity::Verbose {
                    self.say(Style::new(), &format!("redacted {count}"));
                }
            }
            Event::Warning { message } => {
                self.say(AnsiColor::Yellow.on_default(), &format!("warning: {message}"));
            }
            Event::Status { message, waited } => {
                self.status(message);
                // A live line needs no heartbeat; a log that says nothing for long is killed by some CI systems.
                let beats = waited.as_secs() / HEARTBEAT.as_secs();
                if matches!(self.place, Place::Plain(_)) && beats > self.beats {
                    self.say(Style::new(), &format!("wait {} s: {message}", waited.as_secs()));
                    self.beats = beats;
                } else if beats < self.beats {
                    self.beats = beats;
                }
            }
            Event::Decided(_) | Event::Todos { .. } | Event::RunFinished(_) => {}
        }
    }

    fn started(&mut self, started: &RunStarted) {
        let bold = Style::new().bold();
        self.say(
            bold,
            &format!(
                "run {} model {} policy {} changes {} sandbox {}",
                started.run_id, started.model, started.policy.name, started.changes_mode, started.sandbox
            ),
        );
        let git = match &started.git_head {
            Some(head) => {
                let short: String = head.chars().take(12).collect();
                format!("{short}{}", if started.git_dirty { " dirty" } else { "" })
            }
            None => "none".to_owned(),
        };
        let mut line = format!("ctx {} git {git} tools {}", started.cwd, started.tools.len());
        if let Some(recipe) = &started.recipe {
            let _ = write!(line, " recipe {}", recipe.name);
        }
        self.say(bold, &line);
        if self.verbosity >= Verbosity::Verbose {
            for server in &started.mcp_servers {
                let text = |key: &str| server[key].as_str().unwrap_or_default();
                let tools = &server["tools"];
                let line =
                    format!("MCP server {} {} ({}) tools {tools}", text("name"), text("status"), text("transport"));
                self.say(Style::new().dimmed(), &line);
            }
        }
    }

    fn result(&mut self, result: &ToolResult) {
        let what = if result.description.is_empty() { String::new() } else { format!(" {}", result.description) };
        let (end, style) = if result.is_error {
            (format!(" failed: {}", first_line(&result.content)), AnsiColor::Yellow.on_default())
        } else {
            (String::new(), Style::new().dimmed())
        };
        self.say(style, &format!("turn {} {}{what} {}{end}", result.turn, result.tool, seconds(result.duration_ms)));
        if self.verbosity >= Verbosity::Debug {
            self.quote(&result.content);
        } else if self.verbosity >= Verbosity::Verbose && result.diff {
            self.quote(&result.display);
        }
    }

    /// Prints how it ended; the last line is the one that matters.
    pub(super) fn finished(&mut self, end: &RunFinished, report: &Report) {
        self.stop();
        let failed = end.exit != Exit::Ok;
        let style = if failed { AnsiColor::Red.on_default() } else { AnsiColor::Green.on_default() }.bold();
        if report.run_id.is_some() {
            self.say(style, &summary(end, report));
        }
        if let Some(error) = &end.error {
            // Errors are not cut: a person must see which file, which line of it, and what to do.
            let mut lines: Vec<String> = error.message.lines().map(str::to_owned).collect();
            match (&error.hint, lines.as_mut_slice()) {
                (Some(hint), [line]) => line.push_str(&format!("; {hint}")),
                (Some(hint), _) => lines.push(format!("hint: {hint}")),
                (None, _) => {}
            }
            let word = if self.colour { format!("{style}error{style:#}") } else { "error".to_owned() };
            for (index, line) in lines.iter().enumerate() {
                // Further lines are indented: no text in an error can look like a line of this program.
                let before = if index == 0 { format!("{word}: ") } else { "  ".to_owned() };
                self.raw(&format!("{before}{}", one_line(line)));
            }
        }
    }
}

/// Returns the last line: `ok 2 files, +3 -1  4 turns  1200 in (800 cached) / 90 out  ~$0.0012  3.4 s`.
fn summary(end: &RunFinished, report: &Report) -> String {
    let files = &end.changes.files;
    let added: u64 = files.iter().map(|file| file.added).sum();
    let removed: u64 = files.iter().map(|file| file.removed).sum();
    let count = |tokens: Option<u64>| tokens.map_or("?".to_owned(), |tokens| tokens.to_string());
    let cost = report.total_cost_usd.map_or("$?".to_owned(), |cost| format!("~${cost:.4}"));
    format!(
        "{} {} files, +{added} -{removed}  {} turns  {} in ({} cached) / {} out  {cost}  {}",
        end.exit.name(),
        files.len(),
        report.num_turns,
        count(report.usage.input_tokens),
        count(report.usage.cache_read_input_tokens),
        count(report.usage.output_tokens),
        seconds(end.duration_ms),
    )
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or("")
}

fn seconds(milliseconds: u64) -> String {
    format!("{}.{} s", milliseconds / 1000, milliseconds % 1000 / 100)
}
