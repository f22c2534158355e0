//! Shows a run at a terminal while it works: one line for each call, and one live line below them.
//!
//! The lines at the end are those of [`terminal_summary`].

use std::collections::BTreeMap;
use std::time::Duration;

use anstyle::Style;
use unicode_width::UnicodeWidthStr as _;

use super::appearance::{Appearance, BOLD, DIM, GREEN, RED, YELLOW};
use super::kept::Next;
use super::lines::{Verbosity, first_line};
use super::report::Report;
use super::safe::one_line;
use super::screen::Terminal;
use super::terminal_summary;
use super::words;
use crate::event::{
    AssistantTurn, Event, PermissionDenial, Retry, RunFinished, RunStarted, TokenUsage, ToolResult, VerifyOutcome,
};
use crate::tool_name::{ToolId, WRITING};

/// Columns before the subject of a call: the turn, two blanks, the verb, two blanks.
const INDENT: usize = 14;

/// Lines of a failed check's output that are shown.
const CHECK_LINES: usize = 12;

/// Which part of a subject that does not fit is kept.
#[derive(Clone, Copy)]
enum Keep {
    /// Of a command or a text, the beginning.
    Beginning,
    /// Of a path, the end.
    End,
}

/// Shows events as they happen.
pub(super) struct TerminalLayout {
    screen: Terminal,
    look: Appearance,
    verbosity: Verbosity,
    /// The turn that runs, and the last one whose number was shown.
    turn: u32,
    numbered: u32,
    /// Denials whose results are still to come, by call.
    denials: BTreeMap<String, PermissionDenial>,
    /// Lines that the running call added and removed so far.
    changed: (u64, u64),
    /// The attempt that a check refused, with how many there are.
    repair: Option<(u32, u32)>,
    spent: Spent,
    /// Whether the live line says already that the model answers.
    answering: bool,
    /// Where the policy is from.
    policy: Option<String>,
    /// How the last command of the running call ended, unless with 0.
    command_end: Option<String>,
}

/// What the run used so far, for the live line.
#[derive(Default)]
struct Spent {
    tokens: u64,
    dollars: Option<f64>,
}

impl Spent {
    fn add(&mut self, usage: &TokenUsage, dollars: Option<f64>) {
        self.tokens = self.tokens.saturating_add(usage.total());
        if let Some(dollars) = dollars.filter(|dollars| *dollars > 0.0) {
            self.dollars = Some(self.dollars.unwrap_or(0.0) + dollars);
        }
    }
}

impl TerminalLayout {
    pub(super) fn new(screen: Terminal, verbosity: Verbosity, look: Appearance) -> TerminalLayout {
        TerminalLayout {
            screen,
            look,
            verbosity,
            turn: 0,
            numbered: 0,
            denials: BTreeMap::new(),
            changed: (0, 0),
            repair: None,
            answering: false,
            policy: None,
            command_end: None,
            spent: Spent::default(),
        }
    }

    pub(super) fn screen(&mut self) -> &mut Terminal {
        &mut self.screen
    }

    pub(super) fn event(&mut self, event: &Event) {
        if self.verbosity == Verbosity::Quiet {
            return;
        }
        match event {
            Event::RunStarted(started) => self.started(started),
            Event::TurnStarted { turn, .. } => self.turn_started(*turn),
            Event::Delta { .. } if self.answering => {}
            Event::Delta { .. } => {
                self.answering = true;
                self.waiting("answering");
            }
            Event::Assistant(turn) => self.answered(turn),
            Event::ToolResult(result) => self.result(result),
            Event::Denied(denial) => {
                self.denials.insert(denial.tool_use_id.clone(), (**denial).clone());
            }
            Event::Retry(retry) => self.retried(retry),
            Event::ModelFallback { from, to } => self.note("model", &format!("{from} -> {to}")),
            Event::FileChange { path, kind, added, removed } => {
                self.changed = (self.changed.0.saturating_add(*added), self.changed.1.saturating_add(*removed));
                if self.verbosity >= Verbosity::Verbose {
                    self.row(Style::new(), kind, path, Keep::End, &words::lines(*added, *removed));
                }
            }
            Event::Command { argv, exit_code, duration_ms, .. } => {
                let code = exit_code.map_or("ended by a signal".to_owned(), |code| format!("exit {code}"));
                if self.verbosity >= Verbosity::Verbose {
                    let end = format!("{code}, {}", words::time(*duration_ms));
                    self.row(Style::new(), "command", &argv.join(" "), Keep::Beginning, &end);
                }
                self.command_end = Some(code).filter(|_| *exit_code != Some(0));
            }
            Event::Verify(outcome) => self.checked(outcome),
            Event::SideRequest(request) => self.spent.add(&request.usage, request.cost_usd),
            Event::Compaction { before, after } => {
                let text =
                    format!("the conversation from {} to {} tokens", words::tokens(*before), words::tokens(*after));
                self.note("shorten", &text);
            }
            Event::Redaction { count } if self.verbosity >= Verbosity::Verbose => {
                self.note("hide", &words::count(*count, "secret"));
            }
            Event::Warning { message } => self.wrapped(YELLOW, "warning", message),
            Event::Status { message, waited } => self.waited(message, *waited),
            Event::Redaction { .. }
            | Event::Decided(_)
            | Event::Budget(_)
            | Event::Todos { .. }
            | Event::DeliveryStarted { .. }
            | Event::RunFinished(_) => {}
        }
    }

    /// Separates what is printed next, the answer or the summary, from what is above it.
    pub(super) fn gap(&mut self) {
        if self.verbosity > Verbosity::Quiet {
            self.screen.line("");
        }
    }

    /// Prints how the run ended, below its answer; the last line says what to do next.
    pub(super) fn finished(&mut self, end: &RunFinished, report: &Report, next: Next<'_>) {
        if self.verbosity == Verbosity::Quiet && end.error.is_none() {
            return;
        }
        if report.ran.run_id.is_some() {
            self.gap();
        }
        for line in terminal_summary::lines(end, report, next.judged_by(self.policy.as_deref()), &self.look) {
            self.screen.line(&line);
        }
    }

    fn started(&mut self, started: &RunStarted) {
        self.policy = started.policy.layers.first().cloned();
        let plain = Style::new();
        let mut parts = vec![(BOLD, "qwen".to_owned())];
        if let Some(recipe) = &started.recipe {
            let version = recipe.version.as_deref().unwrap_or_default();
            parts.push((plain, format!("{} {version}", recipe.name).trim_end().to_owned()));
        }
        parts.push((plain, started.model.clone()));
        parts.push((plain, format!("policy {}", started.policy.name)));
        parts.push((plain, started.changes_mode.replace("dry-run", "dry run")));
        if let Some(head) = &started.git_head {
            let branch = started.git_branch.as_deref().unwrap_or("detached at");
            let dirty = if started.git_dirty == Some(true) { " +changes" } else { "" };
            parts.push((plain, format!("{branch} {}{dirty}", words::commit(head))));
        }
        if !["T2", "T3"].iter().any(|tier| started.sandbox.starts_with(tier)) {
            parts.push((YELLOW, "commands not isolated".to_owned()));
        }
        let line = self.head(parts);
        self.screen.line(&line);
        if self.verbosity >= Verbosity::Verbose {
            let more = [
                started.run_id.clone(),
                started.sandbox.clone(),
                started.cwd.clone(),
                words::count(started.tools.len() as u64, "tool"),
            ];
            let more = one_line(&more.join(self.look.separator()));
            self.screen.line(&self.look.paint(DIM, &more));
        }
    }

    /// Joins the parts of the head; what does not fit is left out from the right.
    fn head(&self, mut parts: Vec<(Style, String)>) -> String {
        let between = self.look.separator();
        let width = |parts: &[(Style, String)]| -> usize {
            parts.iter().map(|(_, part)| part.width() + between.width()).sum::<usize>() - between.width()
        };
        parts.iter_mut().for_each(|(_, part)| *part = one_line(part));
        while parts.len() > 2 && width(&parts) > self.look.width {
            parts.pop();
        }
        parts.iter().map(|(style, part)| self.look.paint(*style, part)).collect::<Vec<_>>().join(between)
    }

    fn turn_started(&mut self, turn: u32) {
        if let Some((attempt, attempts)) = self.repair.take() {
            let next = attempt.saturating_add(1);
            let text = if attempts > 0 { format!("attempt {next} of {attempts}") } else { format!("attempt {next}") };
            self.note("repair", &text);
        }
        self.turn = turn;
        self.changed = (0, 0);
        self.command_end = None;
        self.answering = false;
        self.waiting("waiting for the model");
    }

    fn answered(&mut self, turn: &AssistantTurn) {
        self.spent.add(&turn.usage, turn.cost_usd);
        // The last answer is the product: standard output has it.
        if !turn.calls.is_empty() {
            self.said(&turn.text);
        }
        if let Some(call) = turn.calls.first() {
            let (verb, _) = verb(&call.name);
            self.waiting(&doing(verb));
        }
    }

    fn said(&mut self, text: &str) {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let Some(first) = lines.next() else { return };
        let number = self.number();
        let columns = self.look.width.saturating_sub(7);
        if self.verbosity >= Verbosity::Verbose {
            for (at, line) in std::iter::once(first).chain(lines).enumerate() {
                let before = if at == 0 { number.as_str() } else { "   " };
                self.screen.line(&format!("{before}  {} {}", self.look.bar(), one_line(line)));
            }
            return;
        }
        let line = one_line(first);
        self.screen.line(&format!("{number}  \"{}\"", self.look.cut(&line, columns)));
    }

    fn result(&mut self, result: &ToolResult) {
        let (added, removed) = std::mem::take(&mut self.changed);
        let command_end = self.command_end.take();
        if let Some(denial) = self.denials.remove(&result.call_id) {
            return self.denied(&denial, result);
        }
        let (verb, keep) = verb(&result.tool);
        if matches!(ToolId::named(&result.tool), Some(ToolId::TodoWrite | ToolId::StructuredOutput)) && !result.is_error
        {
            return;
        }
        let end = if result.is_error {
            format!("failed: {}", one_line(first_line(&result.content)))
        } else {
            let lines = Some(words::lines(added, removed)).filter(|lines| !lines.is_empty());
            let time = (result.duration_ms >= 1000).then(|| words::time(result.duration_ms));
            [command_end, lines, time].into_iter().flatten().collect::<Vec<_>>().join(", ")
        };
        let style = if result.is_error { RED } else { Style::new() };
        self.row(style, verb, &result.description, keep, &end);
        if self.verbosity >= Verbosity::Debug {
            self.quoted(&result.content, usize::MAX);
        } else if self.verbosity >= Verbosity::Verbose && result.diff {
            self.quoted(&result.display, usize::MAX);
        }
    }

    fn denied(&mut self, denial: &PermissionDenial, result: &ToolResult) {
        let (_, keep) = verb(&result.tool);
        let subject = if result.description.is_empty() { &result.tool } else { &result.description };
        self.row(YELLOW, "denied", subject, keep, "");
        let mut reason = denial.reason.clone();
        if let Some(hint) = &denial.hint {
            reason = format!("{reason}; {hint}");
        }
        if self.verbosity >= Verbosity::Verbose {
            let rule = denial.rule.as_deref().unwrap_or("no rule");
            let source = denial.source.as_ref().map(|source| format!(" in {source}")).unwrap_or_default();
            reason = format!("{reason} ({rule}{source})");
        }
        for line in self.look.wrap(&one_line(&reason), self.look.width.saturating_sub(INDENT)) {
            self.screen.line(&format!("{:INDENT$}{line}", ""));
        }
    }

    fn retried(&mut self, retry: &Retry) {
        let text = format!("in {}: {}: {}", words::time(retry.wait_ms), retry.class, retry.message);
        self.row(YELLOW, "retry", &text, Keep::Beginning, "");
    }

    fn checked(&mut self, outcome: &VerifyOutcome) {
        let mut end = match (outcome.passed, outcome.exit_code) {
            (true, _) => "passed".to_owned(),
            (false, Some(code)) => format!("failed, exit {code}"),
            (false, None) => "failed, ended by a signal or its time".to_owned(),
        };
        if outcome.duration_ms >= 1000 {
            end = format!("{end}, {}", words::time(outcome.duration_ms));
        }
        self.row(if outcome.passed { GREEN } else { RED }, "check", &outcome.command, Keep::Beginning, &end);
        if !outcome.passed {
            self.quoted(&outcome.output_tail, CHECK_LINES);
            self.repair = Some((outcome.attempt, outcome.attempts));
        }
    }

    fn waited(&mut self, message: &str, waited: Duration) {
        let text = format!("{message}, {}", words::time(u64::try_from(waited.as_millis()).unwrap_or(u64::MAX)));
        self.waiting(&text);
    }

    /// Shows at most `most` last lines of a text, each behind a bar.
    fn quoted(&mut self, text: &str, most: usize) {
        let lines: Vec<&str> = text.lines().collect();
        for line in &lines[lines.len().saturating_sub(most)..] {
            let line = one_line(line);
            let shown = self.look.cut(&line, self.look.width.saturating_sub(INDENT + 2));
            self.screen.line(format!("{:INDENT$}{} {shown}", "", self.look.bar()).trim_end());
        }
    }

    fn note(&mut self, verb: &str, text: &str) {
        self.row(YELLOW, verb, text, Keep::Beginning, "");
    }

    fn wrapped(&mut self, style: Style, verb: &str, text: &str) {
        let number = self.number();
        let lines = self.look.wrap(&one_line(text), self.look.width.saturating_sub(INDENT));
        for (at, line) in lines.iter().enumerate() {
            let head = match at {
                0 => format!("{number}  {}", self.look.paint(style, &format!("{verb:7}"))),
                _ => " ".repeat(INDENT - 2),
            };
            self.screen.line(&format!("{head}  {line}"));
        }
    }

    /// Writes one line: the turn where it is new, what was done, to what, and how it ended.
    fn row(&mut self, style: Style, verb: &str, subject: &str, keep: Keep, end: &str) {
        let number = self.number();
        let columns = self.look.width.saturating_sub(INDENT);
        let end = self.look.cut(end, columns.saturating_sub(12)).into_owned();
        let room = if end.is_empty() { columns } else { columns.saturating_sub(2 + end.width()) };
        let subject = one_line(subject);
        let subject = match keep {
            Keep::Beginning => self.look.cut(&subject, room),
            Keep::End => self.look.cut_beginning(&subject, room),
        };
        // A failed or denied thing is coloured where it says so.
        let verb = if end.is_empty() { self.look.paint(style, &format!("{verb:8}")) } else { format!("{verb:8}") };
        let end = if style == Style::new() { self.look.counted(&end) } else { self.look.paint(style, &end) };
        let between = if subject.is_empty() { "" } else { "  " };
        self.screen.line(format!("{number}  {verb} {subject}{between}{end}").trim_end());
    }

    /// Returns the number of the turn, if its first line comes now.
    fn number(&mut self) -> String {
        if self.turn == self.numbered {
            return "   ".to_owned();
        }
        self.numbered = self.turn;
        self.look.paint(DIM, &format!("{:>3}", self.turn))
    }

    fn waiting(&self, what: &str) {
        self.screen.status(|| {
            let between = self.look.separator();
            let tokens = (self.spent.tokens > 0).then(|| format!("{} tokens", words::tokens(self.spent.tokens)));
            let more = tokens.into_iter().chain(self.spent.dollars.map(words::cost));
            let more: String = more.map(|part| format!("{between}{part}")).collect();
            (format!("turn {}{between}{}", self.turn, one_line(what)), more)
        });
    }
}

/// Returns the verb of a tool, and which part of its subject says more.
fn verb(tool: &str) -> (&'static str, Keep) {
    let Some(tool) = ToolId::named(tool) else { return ("call", Keep::Beginning) };
    let is_path = WRITING.contains(&tool) || matches!(tool, ToolId::ReadFile | ToolId::ListDirectory);
    (tool.verb(), if is_path { Keep::End } else { Keep::Beginning })
}

/// Returns what the live line says while a call runs.
fn doing(verb: &str) -> String {
    match verb {
        "run" => "running a command".into(),
        "write" => "writing".into(),
        "call" => "calling a tool".into(),
        "web" => "searching the web".into(),
        verb => format!("{verb}ing"),
    }
}
