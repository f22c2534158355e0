//! Prints how a batch goes, and how it ended.

use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::time::{Duration, Instant};

use super::appearance::Appearance;
use super::json::to_line;
use super::lines::Verbosity;
use super::safe::{escape, one_line};
use super::screen::{Screen, Terminal};
use super::words;
use crate::batch::journal::{self, Ended, Line};
use crate::batch::result::BatchResult;
use crate::exit::Exit;

/// Lines about items that are not done, in a log.
const MOST_LINES: u64 = 200;

/// Failed items that the end names.
const MOST_FAILED: usize = 20;

/// How often a log says how far it is.
const INTERVAL: Duration = Duration::from_secs(30);

/// What standard output gets of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum BatchFormat {
    /// A summary for people
    Text,
    /// The journal's line of each item when it ends
    Jsonl,
    /// One result object
    Result,
}

/// What a batch knows at its start.
#[derive(Debug, Clone, Copy, Default)]
pub struct Known {
    /// Items in all.
    pub total: u64,
    /// Items that are done.
    pub done: u64,
    /// What was spent, in US dollars.
    pub spent_usd: f64,
    /// The total of it.
    pub total_usd: Option<f64>,
}

/// An item that failed for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedItem {
    /// Its key.
    pub key: String,
    /// How it ended.
    pub exit_code: u8,
}

/// Prints how a batch goes.
pub struct Progress<'o> {
    out: &'o mut dyn Write,
    screen: Terminal,
    is_live: bool,
    format: BatchFormat,
    verbosity: Verbosity,
    known: Known,
    counts: Counts,
    began: Instant,
    said: Instant,
    /// Why items failed, as far as it was seen.
    reasons: BTreeMap<String, String>,
    /// What was said of items that are not done: another try that ends in the same way is not worth another line.
    lines_said: HashSet<String>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    running: u64,
    ended: u64,
    ok: u64,
    findings: u64,
    failed: u64,
    lines: u64,
    unknown_cost: bool,
}

impl<'o> Progress<'o> {
    /// Begins.
    pub fn begin(
        out: &'o mut dyn Write,
        (screen, look, colour): (Screen, Option<Appearance>, bool),
        format: BatchFormat,
        verbosity: Verbosity,
        known: Known,
    ) -> Progress<'o> {
        let is_live = look.is_some();
        let screen = Terminal::new(screen, verbosity == Verbosity::Quiet, colour, look);
        let (counts, began) = (Counts::default(), Instant::now());
        Progress {
            out,
            screen,
            is_live,
            format,
            verbosity,
            known,
            counts,
            began,
            said: began,
            reasons: BTreeMap::new(),
            lines_said: HashSet::new(),
        }
    }

    /// An item started.
    pub fn start(&mut self) {
        self.counts.running += 1;
    }

    /// An item ended.
    pub fn end(&mut self, ended: &Ended) {
        let counts = &mut self.counts;
        counts.running = counts.running.saturating_sub(1);
        counts.ended += u64::from(ended.r#final);
        let is = |exit: Exit| ended.exit_code == exit.code();
        let is_ok = is(Exit::Ok) || is(Exit::NoChanges);
        counts.ok += u64::from(is_ok);
        counts.findings += u64::from(is(Exit::Gate));
        counts.failed += u64::from(ended.r#final && journal::is_failure(ended.exit_code));
        counts.unknown_cost |= ended.cost_usd.is_none();
        self.known.spent_usd += ended.cost_usd.unwrap_or_default();
        if ended.r#final && journal::is_failure(ended.exit_code) && self.reasons.len() < MOST_FAILED {
            let why = ended.error.as_ref().map(|error| one_line(&error.message)).unwrap_or_default();
            self.reasons.insert(ended.key.clone(), why);
        }
        if self.format == BatchFormat::Jsonl {
            let _closed = self.out.write_all(journal::line(&Line::End(Box::new(ended.clone()))).as_bytes());
            let _closed = self.out.flush();
        }
        let wanted = if is_ok { self.verbosity >= Verbosity::Verbose } else { self.verbosity > Verbosity::Quiet };
        if wanted {
            self.say(ended);
        }
    }

    /// Says how an item ended, unless that is said already.
    fn say(&mut self, ended: &Ended) {
        if self.verbosity >= Verbosity::Verbose {
            return self.screen.line(&line_of(ended));
        }
        if self.lines_said.contains(&what_is_said(ended)) {
            return;
        }
        self.counts.lines += 1;
        if self.counts.lines <= MOST_LINES {
            self.lines_said.insert(what_is_said(ended));
            self.screen.line(&line_of(ended));
        }
    }

    /// Time has passed.
    pub fn tick(&mut self) {
        if self.is_live {
            let line = self.line();
            self.screen.status(|| (line, String::new()));
        } else if self.verbosity > Verbosity::Quiet && self.said.elapsed() >= INTERVAL {
            self.said = Instant::now();
            self.screen.line(&self.line());
        }
    }

    /// Says what is no warning.
    pub fn note(&mut self, message: &str) {
        if self.verbosity > Verbosity::Quiet {
            self.screen.line(&escape(message));
        }
    }

    /// Says something else.
    pub fn warn(&mut self, message: &str) {
        if self.verbosity > Verbosity::Quiet {
            self.screen.line(&format!("warning: {}", escape(message)));
        }
    }

    /// Returns the line that says how far it is.
    fn line(&self) -> String {
        let Counts { running, ended, ok, findings, failed, unknown_cost, .. } = self.counts;
        let done = self.known.done + ended;
        let mut parts = vec![format!("batch {done}/{}", self.known.total), format!("ok {ok}")];
        if findings > 0 {
            parts.push(format!("findings {findings}"));
        }
        parts.push(format!("failed {failed}"));
        parts.push(format!("running {running}"));
        let minutes = self.began.elapsed().as_secs_f64() / 60.0;
        let rate = if minutes > 0.0 { ended as f64 / minutes } else { 0.0 };
        if ended > 0 {
            parts.push(format!("{rate:.1}/min"));
        }
        match (unknown_cost, self.known.total_usd) {
            (true, _) => parts.push("cost unknown".to_owned()),
            (false, Some(total)) => {
                parts.push(format!("{} of {}", words::about(&dollars(self.known.spent_usd)), dollars(total)))
            }
            (false, None) if self.known.spent_usd > 0.0 => parts.push(words::about(&dollars(self.known.spent_usd))),
            (false, None) => {}
        }
        if rate > 0.0 && done < self.known.total {
            let left = (self.known.total - done) as f64 / rate * 60_000.0;
            parts.push(format!("eta {}", words::time(left as u64)));
        }
        parts.join(" · ")
    }

    /// Prints the end. `next` is what to call next.
    pub fn finish(mut self, result: &BatchResult, failed: &[FailedItem], next: &[String]) -> std::io::Result<()> {
        self.screen.clear();
        if self.counts.lines > MOST_LINES && self.verbosity == Verbosity::Normal {
            self.screen.line(&format!("{} more items", self.counts.lines - MOST_LINES));
        }
        let text = match self.format {
            BatchFormat::Text => summary(result, (failed, &self.reasons), next),
            BatchFormat::Result => to_line(result) + "\n",
            BatchFormat::Jsonl => {
                if self.verbosity > Verbosity::Quiet {
                    let text = summary(result, (failed, &self.reasons), next);
                    text.lines().for_each(|line| self.screen.line(line));
                }
                String::new()
            }
        };
        self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush())
    }
}

/// Says what was delivered.
fn delivery(result: &BatchResult) -> Option<String> {
    let changes = &result.combined.changes;
    let branches = result.combined.patches.iter().filter(|patch| patch.commit.is_some()).count() as u64;
    match (changes.applied, branches) {
        (false, _) => None,
        (true, 0) => {
            Some(words::delivered(changes.files.len(), changes.branch.as_deref(), changes.commit.as_deref(), true))
        }
        (true, branches) => Some(format!("{} with a branch of their own", words::count(branches, "item"))),
    }
}

/// Returns an amount of US dollars as the line shows it.
fn dollars(amount: f64) -> String {
    if amount > 0.0 && amount < 0.01 { words::cost(amount) } else { format!("${amount:.2}") }
}

/// Returns what the line of an item says of it, which try it was left out.
fn what_is_said(ended: &Ended) -> String {
    line_of(&Ended { r#final: true, ..ended.clone() })
}

/// Returns the line of an item.
fn line_of(ended: &Ended) -> String {
    let key = one_line(&ended.key);
    let is_done = [Exit::Ok, Exit::NoChanges].iter().any(|exit| exit.code() == ended.exit_code);
    if is_done {
        return format!("ok {key}");
    }
    let why = ended.error.as_ref().map(|error| format!(": {}", one_line(&error.message))).unwrap_or_default();
    let again = if ended.r#final { "" } else { " (not final)" };
    let word = if journal::is_failure(ended.exit_code) { "fail" } else { "done" };
    format!("{word} {key} {} {}{again}{why}", ended.exit_code, ended.exit_reason)
}

/// Returns the summary for people.
fn summary(
    result: &BatchResult,
    (failed, reasons): (&[FailedItem], &BTreeMap<String, String>),
    next: &[String],
) -> String {
    let line_of = |item: &FailedItem| {
        let name = Exit::of_code(item.exit_code).map_or("", Exit::name);
        let why = reasons.get(&item.key).filter(|why| !why.is_empty()).map(|why| format!(": {why}"));
        // Where both streams go to one file, a line that begins with `fail` is one failed item.
        format!("  fail {} {} {name}{}", one_line(&item.key), item.exit_code, why.unwrap_or_default())
    };
    let mut lines: Vec<String> = failed.iter().take(MOST_FAILED).map(line_of).collect();
    if failed.len() > MOST_FAILED {
        lines.push(format!("{} more failed items", failed.len() - MOST_FAILED));
    }
    let items = &result.items;
    let mut head = vec![format!("{} of {} done", items.total - items.not_final, words::count(items.total, "item"))];
    let counts = [
        ("ok", items.ok),
        ("findings", items.findings),
        ("denied", items.denied),
        ("failed", items.failed),
        ("not done", items.not_final),
        ("skipped: done before", items.skipped),
    ];
    head.extend(counts.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!("{name} {count}")));
    lines.push(head.join(" · "));
    lines.extend(result.by_exit_code.iter().map(|(code, count)| {
        let name = code.parse().ok().and_then(Exit::of_code).map_or("", Exit::name);
        format!("  {code:>3} {name:<12} {count}")
    }));
    let usage = &result.usage;
    let mut spent = vec![format!("{} tokens", words::tokens(usage.tokens()))];
    if let (Some(cached), Some(input)) = (usage.cache_read_input_tokens, usage.input_tokens.filter(|input| *input > 0))
    {
        spent.push(format!("{:.0}% of the input cached", cached as f64 * 100.0 / input as f64));
    }
    spent.push(result.cost_usd.map_or("cost unknown".to_owned(), dollars));
    spent.push(words::time(result.duration_ms));
    lines.push(spent.join(" · "));
    lines.extend(delivery(result));
    if let Some(error) = &result.error {
        lines.push(format!("stopped: {}", one_line(&error.message)));
        lines.extend(error.hint.iter().map(|hint| format!("  {}", one_line(hint))));
    }
    lines.extend(next.iter().cloned());
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::tally::Counts;
    use crate::event::RunError;

    fn ended(n: u32, key: &str, exit: Exit) -> Ended {
        let error = RunError { message: "it\u{1b}[31m broke".into(), ..RunError::default() };
        Ended {
            n,
            key: key.into(),
            r#final: true,
            exit_code: exit.code(),
            exit_reason: exit.name().into(),
            cost_usd: Some(0.004),
            error: (exit != Exit::Ok).then_some(error),
            ..Ended::default()
        }
    }

    #[test]
    fn the_summary_names_what_failed_and_shows_no_control_character() {
        let failed = [FailedItem { key: "b\n\u{202e}x".into(), exit_code: 64 }];
        let reasons = [("b\n\u{202e}x".to_owned(), "it broke".to_owned())].into();
        let result = BatchResult {
            items: Counts { total: 3, ok: 1, failed: 1, not_final: 1, ..Counts::default() },
            by_exit_code: [("0".to_owned(), 1), ("64".to_owned(), 1)].into(),
            usage: crate::base::usage::Usage {
                input_tokens: Some(1000),
                cache_read_input_tokens: Some(250),
                total_tokens: Some(1200),
                ..Default::default()
            },
            cost_usd: Some(0.5),
            duration_ms: 61_000,
            ..BatchResult::default()
        };
        let text = summary(&result, (&failed, &reasons), &["next: the same command".into()]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("  fail b") && lines[0].ends_with("x 64 verify: it broke"), "{text}");
        assert!(!text.contains('\u{202e}'), "{text}");
        assert_eq!(lines[1], "2 of 3 items done · ok 1 · failed 1 · not done 1");
        assert_eq!(lines[2..4], ["    0 ok           1", "   64 verify       1"]);
        assert!(lines[4].starts_with("1.2k tokens · 25% of the input cached · $0.50 · "), "{text}");
        assert_eq!(lines[5..], ["next: the same command"]);
    }

    #[test]
    fn tries_that_end_in_the_same_way_are_one_line() {
        let mut out = Vec::new();
        let screen = (Screen::Plain(Box::new(std::io::sink())), None, false);
        let mut progress = Progress::begin(
            &mut out,
            screen,
            BatchFormat::Text,
            Verbosity::Normal,
            Known { total: 2, ..Known::default() },
        );
        let tried = |key: &str, exit, is_final| Ended { r#final: is_final, ..ended(1, key, exit) };
        progress.end(&tried("a", Exit::Unavailable, false));
        progress.end(&tried("a", Exit::Unavailable, false));
        progress.end(&tried("a", Exit::Unavailable, true));
        assert_eq!(progress.counts.lines, 1);
        progress.end(&tried("b", Exit::Unavailable, false));
        progress.end(&tried("b", Exit::Schema, true));
        assert_eq!(progress.counts.lines, 3);
    }

    #[test]
    fn a_log_gets_a_line_for_every_item_that_is_not_done() {
        let mut out = Vec::new();
        let known = Known { total: 3, total_usd: Some(2.0), ..Known::default() };
        let screen = (Screen::Plain(Box::new(std::io::sink())), None, false);
        let mut progress = Progress::begin(&mut out, screen, BatchFormat::Jsonl, Verbosity::Normal, known);
        progress.start();
        progress.start();
        progress.end(&ended(1, "a", Exit::Ok));
        progress.end(&ended(2, "b", Exit::Verify));
        assert!(progress.line().starts_with("batch 2/3 · ok 1 · failed 1 · running 0 · "), "{}", progress.line());
        assert!(progress.line().contains(" · ~$0.0080 of $2.00 · eta "), "{}", progress.line());
        assert_eq!(progress.counts.lines, 1);
        drop(progress);
        assert_eq!(String::from_utf8(out).unwrap().lines().count(), 2);
    }
}
