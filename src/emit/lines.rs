//! Prints progress to standard error for people and logs.
//!
//! The first word of a line names its kind (`run`, `ctx`, `turn`, `deny`, `check`, `ok` …); scripts grep for it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use anstyle::{AnsiColor, Style};

use super::report::Report;
use super::safe::{one_line, one_line_of};
use super::screen::Terminal;
use super::words;
use crate::event::{AssistantTurn, Event, PermissionDenial, RunFinished, RunStarted, ToolResult, VerifyOutcome};
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

/// Writes lines for people.
pub(super) struct Lines {
    terminal: Terminal,
    verbosity: Verbosity,
    /// `GITHUB_ACTIONS=true`: turns are groups.
    groups: bool,
    group_open: bool,
    /// Calls that were denied and whose results are still to come.
    denied: BTreeSet<String>,
    /// Heartbeats of the silence that lasts.
    beats: u64,
}

impl Lines {
    pub(super) fn new(terminal: Terminal, verbosity: Verbosity, groups: bool) -> Lines {
        Lines { terminal, verbosity, groups, group_open: false, denied: BTreeSet::new(), beats: 0 }
    }

    pub(super) fn screen(&mut self) -> &mut Terminal {
        &mut self.terminal
    }

    fn raw(&mut self, line: &str) {
        self.terminal.line(line);
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
            Some((word, rest)) => format!("{} {rest}", self.terminal.styled(style, word)),
            None => self.terminal.styled(style, &line),
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

    fn close_group(&mut self) {
        if std::mem::take(&mut self.group_open) {
            self.raw("::endgroup::");
        }
    }

    pub(super) fn event(&mut self, event: &Event) {
        let yellow = AnsiColor::Yellow.on_default();
        match event {
            Event::RunStarted(started) => self.started(started),
            Event::TurnStarted { turn, .. } => self.turn_started(*turn),
            Event::Assistant(turn) => self.answered(turn),
            Event::ToolResult(result) => self.result(result),
            Event::Denied(denial) => {
                self.denied.insert(denial.tool_use_id.clone());
                self.say(AnsiColor::Red.on_default(), &denied(denial));
            }
            Event::Retry(retry) => self.say(
                yellow,
                &format!(
                    "retry {} in {}: {}: {}",
                    retry.attempt,
                    words::tenths(retry.wait_ms),
                    retry.class,
                    retry.message
                ),
            ),
            Event::ModelFallback { from, to } => self.say(yellow, &format!("model {from} -> {to}")),
            Event::FileChange { path, kind, added, removed } => {
                self.say_more(&format!("file {kind} {path} +{added} -{removed}"));
            }
            Event::Command { argv, exit_code, duration_ms, sandboxed } => {
                let code = exit_code.map_or("signal".to_owned(), |code| code.to_string());
                let isolation = if *sandboxed { "sandboxed" } else { "not isolated" };
                self.say_more(&format!(
                    "command {code} {} {isolation}: {}",
                    words::tenths(*duration_ms),
                    argv.join(" ")
                ));
            }
            Event::Verify(outcome) => self.checked(outcome),
            Event::Budget(exceeded) => self.say(
                AnsiColor::Red.on_default(),
                &format!("budget {} {} of {}", exceeded.kind, exceeded.spent, exceeded.limit),
            ),
            // What it was for says so itself.
            Event::SideRequest(_) => {}
            Event::Compaction { before, after } => {
                self.say(Style::new(), &format!("ctx compacted from {before} to {after} tokens"));
            }
            Event::Redaction { count } => self.say_more(&format!("redacted {count}")),
            Event::Warning { message } => self.say(yellow, &format!("warning: {message}")),
            Event::Status { message, waited } => self.waited(message, *waited),
            Event::Delta { .. }
            | Event::Decided(_)
            | Event::Todos { .. }
            | Event::DeliveryStarted { .. }
            | Event::RunFinished(_) => {}
        }
    }

    /// Says what only a person who asked for more wants to see.
    fn say_more(&mut self, line: &str) {
        if self.verbosity >= Verbosity::Verbose {
            self.say(Style::new(), line);
        }
    }

    fn turn_started(&mut self, turn: u32) {
        if self.groups && self.verbosity > Verbosity::Quiet {
            self.close_group();
            self.raw(&format!("::group::turn {turn}"));
            self.group_open = true;
        }
    }

    fn answered(&mut self, turn: &AssistantTurn) {
        if self.verbosity >= Verbosity::Verbose && !turn.text.is_empty() {
            self.quote(&turn.text);
        }
    }

    fn checked(&mut self, outcome: &VerifyOutcome) {
        let (word, style) = match outcome.passed {
            true => ("pass", AnsiColor::Green.on_default()),
            false => ("fail", AnsiColor::Red.on_default()),
        };
        let mut line =
            format!("check {} {word} {}", one_line_of(&outcome.command, 120), words::tenths(outcome.duration_ms));
        if let (false, Some(code)) = (outcome.passed, outcome.exit_code) {
            let _ = write!(line, " exit {code}");
        }
        if !outcome.passed && outcome.attempts > 0 {
            let _ = write!(line, " attempt {} of {}", outcome.attempt, outcome.attempts);
        }
        self.say(style, &line);
        if !outcome.passed && self.verbosity >= Verbosity::Normal {
            self.quote(&outcome.output_tail);
        }
    }

    fn waited(&mut self, message: &str, waited: Duration) {
        // A log that says nothing for long is killed by some CI systems.
        let beats = waited.as_secs() / HEARTBEAT.as_secs();
        if beats > self.beats {
            self.say(Style::new(), &format!("wait {} s: {message}", waited.as_secs()));
            self.beats = beats;
        } else if beats < self.beats {
            self.beats = beats;
        }
    }

    fn started(&mut self, started: &RunStarted) {
        let bold = Style::new().bold();
        self.say(
            bold,
            &format!(
                "run {} model {} policy {} changes {} sandbox {}",
                started.run_id,
                started.model,
                started.policy.name,
                started.changes_mode,
                tier(&started.sandbox)
            ),
        );
        let git = match &started.git_head {
            Some(head) => {
                let short: String = head.chars().take(12).collect();
                format!("{short}{}", if started.git_dirty == Some(true) { " dirty" } else { "" })
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
        // The line of the denial says it all.
        if self.denied.remove(&result.call_id) {
            return;
        }
        let what = if result.description.is_empty() { String::new() } else { format!(" {}", result.description) };
        let (end, style) = if result.is_error {
            (format!(" failed: {}", first_line(&result.content)), AnsiColor::Yellow.on_default())
        } else {
            (String::new(), Style::new().dimmed())
        };
        self.say(
            style,
            &format!("turn {} {}{what} {}{end}", result.turn, result.tool, words::tenths(result.duration_ms)),
        );
        if self.verbosity >= Verbosity::Debug {
            self.quote(&result.content);
        } else if self.verbosity >= Verbosity::Verbose && result.diff {
            self.quote(&result.display);
        }
    }

    /// Prints how it ended; the last line is the one that matters.
    pub(super) fn finished(&mut self, end: &RunFinished, report: &Report) {
        self.close_group();
        let failed = end.exit != Exit::Ok;
        let style = if failed { AnsiColor::Red.on_default() } else { AnsiColor::Green.on_default() }.bold();
        if report.ran.run_id.is_some() {
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
            let word = self.terminal.styled(style, "error");
            for (index, line) in lines.iter().enumerate() {
                // Further lines are indented: no text in an error can look like a line of this program.
                let before = if index == 0 { format!("{word}: ") } else { "  ".to_owned() };
                self.raw(&format!("{before}{}", one_line(line)));
            }
        }
    }
}

fn denied(denial: &PermissionDenial) -> String {
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
    line
}

/// Returns the tier alone where commands are isolated: `T3` of `T3: namespaces, …`. Elsewhere the whole text, which
/// says what runs all the same.
fn tier(sandbox: &str) -> &str {
    ["T2", "T3"].into_iter().find(|tier| sandbox.starts_with(tier)).unwrap_or(sandbox)
}

/// Returns the last line: `ok 2 files, +3 -1  4 turns  1200 in (800 cached) / 90 out  ~$0.0012  3.4 s`. The counts are
/// exact, and what is unknown is left out.
fn summary(end: &RunFinished, report: &Report) -> String {
    let files = &end.changes.files;
    let lines = &report.stats.files;
    let denials = report.permission_denials.len() as u64;
    let denied = match end.exit {
        Exit::Denied if denials > 0 => format!("{}, ", words::count(denials, "call")),
        _ => String::new(),
    };
    let mut parts = vec![
        format!(
            "{} {denied}{}, +{} -{}",
            end.exit.name(),
            words::count(files.len() as u64, "file"),
            lines.total_lines_added,
            lines.total_lines_removed
        ),
        words::count(report.totals.num_turns.into(), "turn"),
    ];
    if let (Some(input), Some(output)) = (report.usage.input_tokens, report.usage.output_tokens) {
        let cached = report.usage.cache_read_input_tokens.map(|cached| format!(" ({cached} cached)"));
        parts.push(format!("{input} in{} / {output} out", cached.unwrap_or_default()));
    }
    // A cost that four digits would show as nothing is not nothing.
    let cost = report.total_cost_usd.filter(|cost| *cost > 0.0);
    parts.extend(cost.map(|cost| if cost < 0.000_05 { words::cost(cost) } else { format!("~${cost:.4}") }));
    parts.push(words::tenths(end.duration_ms));
    parts.join("  ")
}

pub(super) fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or("")
}
