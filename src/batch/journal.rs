//! Reads and writes the journal of a batch, one line of JSON each, and folds it into what is done.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::budget::Amount;
use super::item::Short;
use crate::base::usage::Usage;
use crate::event::RunError;
use crate::exit::Exit;

/// Starts without an end after which an item is run alone: it may be what ended the process.
pub const SUSPECT: u32 = 2;

/// The conclusion of an item whose change touches an earlier one and was left out of the combined change.
pub const CONFLICT: &str = "conflict";

/// Which whole results are kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Keep {
    /// Those of items that failed
    #[default]
    Failed,
    /// All
    All,
    /// None
    None,
}

/// A line of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "t", rename_all = "snake_case")]
pub enum Line {
    /// An item started.
    Start(Started),
    /// An item ended.
    End(Box<Ended>),
}

/// An item started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Started {
    /// The item's number.
    pub n: u32,
    /// Its key.
    pub key: String,
    /// Which try it is, from 1.
    pub r#try: u32,
    /// When, as RFC 3339.
    pub time: String,
    /// Whether it runs alone, because the process ended twice while it ran.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub alone: bool,
}

/// An item ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Ended {
    /// The item's number.
    pub n: u32,
    /// Its key.
    pub key: String,
    /// The item's digest: another one is another item of this key.
    pub sha256: String,
    /// Which try it was, from 1.
    pub r#try: u32,
    /// Whether it is done; `false` for what is worth another try.
    pub r#final: bool,
    /// The run's exit code.
    pub exit_code: u8,
    /// The exit code's name.
    pub exit_reason: String,
    /// The run's `conclusion`; also [`CONFLICT`] for a change that was left out of the combined one.
    pub conclusion: String,
    /// What the run made.
    #[serde(flatten)]
    pub product: Product,
    /// Tokens of the run.
    pub usage: Usage,
    /// What the run cost in US dollars; `null` where a price is unknown.
    pub cost_usd: Option<f64>,
    /// Wall time of the run in milliseconds, without what it waited.
    pub duration_ms: u64,
    /// Milliseconds that its requests waited for their turn.
    pub waited_ms: u64,
    /// The run; `null` where there was none.
    pub run_id: Option<String>,
    /// The model that answered last.
    pub model: Option<String>,
    /// What the owner should know.
    pub warnings: Vec<String>,
    /// What went wrong, unless nothing did.
    pub error: Option<RunError>,
}

/// What a run made: a part of an ending.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Product {
    /// The structured answer, else the text.
    pub output: Value,
    /// Whether `output` is cut; then the whole result is kept in `items/`.
    pub output_cut: bool,
    /// How many findings there are.
    pub findings: u64,
    /// Paths of the files that changed.
    pub files: Vec<String>,
    /// The file of the change below the batch's directory.
    pub patch: Option<String>,
    /// Its digest.
    pub patch_sha256: Option<String>,
    /// The commit.
    pub commit: Option<String>,
    /// The branch that the commit is on.
    pub branch: Option<String>,
}

/// Tells whether an ending counts as done. `may_retry`: the code is one of `--retry-on`, and tries are left. `of_batch`: a
/// total of the batch ended it.
pub fn is_final(exit_code: u8, may_retry: bool, of_batch: bool) -> bool {
    !may_retry && !of_batch && is_own(exit_code)
}

/// Tells whether a run ended for a reason of its own, and not with its batch.
fn is_own(exit_code: u8) -> bool {
    let not_its_own = [Exit::Interrupted, Exit::Terminated, Exit::Auth, Exit::Sandbox, Exit::Config];
    !not_its_own.iter().any(|exit| exit.code() == exit_code)
}

/// Tells whether an ending is a failure: neither done, nor with findings, nor denied.
pub fn is_failure(exit_code: u8) -> bool {
    let done = [Exit::Ok, Exit::NoChanges, Exit::Gate, Exit::Denied];
    !done.iter().any(|exit| exit.code() == exit_code)
}

/// Returns a line as it is appended, with its end.
pub fn line(line: &Line) -> String {
    serde_json::to_string(line).expect("a line holds texts, numbers and JSON values") + "\n"
}

/// Why a journal cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// A line that is not the last one is not a line of a journal.
    #[error("line {line} of the journal is not valid: {why}")]
    Line { line: usize, why: String },
}

/// What became of the item of one key so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct State {
    /// The digest of the item that ended last; of one that never ended, nothing.
    pub sha256: Option<Short>,
    /// The exit code of the last end.
    pub exit_code: Option<u8>,
    /// Whether that end counts as done.
    pub is_final: bool,
    /// Tries that have ended, of the item with that digest.
    pub tries: u32,
    /// Starts since that were not followed by an end.
    pub crashes: u32,
    /// Whether the last of these ran alone: then it is what ended the process.
    pub died_alone: bool,
}

impl State {
    const NONE: State =
        State { sha256: None, exit_code: None, is_final: false, tries: 0, crashes: 0, died_alone: false };

    /// Tells whether the item of this digest is done.
    pub fn is_done(&self, sha256: &str) -> bool {
        self.is_final && self.sha256 == Some(Short::of_hex(sha256))
    }
}

/// What is said of an item at the end of its batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notable {
    /// Its key.
    pub key: String,
    /// The digest of its item, as in [`State::sha256`].
    pub sha256: Short,
    /// The exit code, if it failed for good.
    pub failed: Option<u8>,
    /// The digest of its change, if it has one.
    pub patch_sha256: Option<String>,
    /// The branch that its run made, if it made one.
    pub branch: Option<String>,
    /// The commit there.
    pub commit: Option<String>,
}

/// A journal as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Journal {
    states: HashMap<Short, State>,
    notable: HashMap<Short, Notable>,
    /// What all ended runs have cost, as far as their prices are known.
    pub spent: Amount,
    /// Their cost in US dollars; `None` if the price of one is unknown.
    pub cost_usd: Option<f64>,
    /// Their tokens.
    pub usage: Usage,
    /// What the dearest of them has cost.
    pub dearest: Amount,
    /// Bytes of the whole lines; what follows was cut off by a kill.
    pub whole: usize,
}

impl Default for Journal {
    fn default() -> Journal {
        Journal {
            states: HashMap::new(),
            notable: HashMap::new(),
            spent: Amount::default(),
            cost_usd: Some(0.0),
            usage: Usage::NONE,
            dearest: Amount::default(),
            whole: 0,
        }
    }
}

impl Journal {
    /// Reads a journal. Only the last line may be incomplete: what follows [`Journal::whole`] is to be cut off.
    pub fn read(bytes: &[u8]) -> Result<Journal, JournalError> {
        let mut reader = Reader::default();
        for text in bytes.split_inclusive(|byte| *byte == b'\n') {
            reader.add(text)?;
        }
        Ok(reader.journal)
    }

    /// Adds a line.
    pub fn add(&mut self, line: &Line) {
        match line {
            Line::Start(started) => {
                let state = self.states.entry(Short::of(&started.key)).or_insert(State::NONE);
                state.crashes += 1;
                state.died_alone = started.alone;
            }
            Line::End(ended) => {
                let state = self.states.entry(Short::of(&ended.key)).or_insert(State::NONE);
                let sha256 = Some(Short::of_hex(&ended.sha256));
                let before = if state.sha256 == sha256 { state.tries } else { 0 };
                let tries = before + u32::from(is_own(ended.exit_code));
                let (exit_code, is_final) = (Some(ended.exit_code), ended.r#final);
                *state = State { sha256, exit_code, is_final, tries, ..State::NONE };
                self.spent.cost_usd += ended.cost_usd.unwrap_or_default();
                self.spent.tokens = self.spent.tokens.saturating_add(ended.usage.tokens());
                let amount = Amount { cost_usd: ended.cost_usd.unwrap_or_default(), tokens: ended.usage.tokens() };
                self.dearest = self.dearest.most(amount);
                self.usage = self.usage.plus(&ended.usage);
                let sent_nothing = ended.usage.requests == 0;
                let cost = ended.cost_usd.or(sent_nothing.then_some(0.0));
                self.cost_usd = self.cost_usd.zip(cost).map(|(sum, cost)| sum + cost);
                self.note(ended);
            }
        }
    }

    fn note(&mut self, ended: &Ended) {
        let key = Short::of(&ended.key);
        let failed = (ended.r#final && is_failure(ended.exit_code)).then_some(ended.exit_code);
        let patch_sha256 = ended.product.patch_sha256.clone().filter(|_| ended.product.patch.is_some());
        if failed.is_none() && patch_sha256.is_none() {
            self.notable.remove(&key);
            return;
        }
        let sha256 = Short::of_hex(&ended.sha256);
        let (branch, commit) = (ended.product.branch.clone(), ended.product.commit.clone());
        self.notable.insert(key, Notable { key: ended.key.clone(), sha256, failed, patch_sha256, branch, commit });
    }

    /// Tells whether anything is to be said of any item at the end.
    pub fn has_notable(&self) -> bool {
        !self.notable.is_empty()
    }

    /// Returns what is to be said of the item of a key at the end.
    pub fn notable(&self, key: Short) -> Option<&Notable> {
        self.notable.get(&key)
    }

    /// Returns what became of a key; `None` if it never started.
    pub fn state(&self, key: &str) -> Option<&State> {
        self.states.get(&Short::of(key))
    }

    /// Returns how many keys there are.
    pub fn keys(&self) -> usize {
        self.states.len()
    }
}

/// Reads a journal line by line, however long it is.
#[derive(Debug, Default)]
pub struct Reader {
    /// What was read so far.
    pub journal: Journal,
    lines: usize,
    invalid: Option<JournalError>,
}

impl Reader {
    /// Adds the next line, with its end, and returns it; `None` if it is not valid, which only the last one may be.
    pub fn add(&mut self, text: &[u8]) -> Result<Option<Line>, JournalError> {
        if let Some(invalid) = self.invalid.take() {
            return Err(invalid);
        }
        self.lines += 1;
        let why = match serde_json::from_slice::<Line>(text) {
            Ok(line) if text.ends_with(b"\n") => {
                self.journal.add(&line);
                self.journal.whole += text.len();
                return Ok(Some(line));
            }
            Ok(_) => "it has no end".to_owned(),
            Err(error) => error.to_string(),
        };
        self.invalid = Some(JournalError::Line { line: self.lines, why });
        Ok(None)
    }

    /// Tells whether the last line is not valid: a kill has cut it off.
    pub fn is_torn(&self) -> bool {
        self.invalid.is_some()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn start(key: &str) -> Line {
        started(key, false)
    }

    fn started(key: &str, alone: bool) -> Line {
        Line::Start(Started { n: 1, key: key.into(), r#try: 1, time: "2026-11-22T10:00:00Z".into(), alone })
    }

    fn end(key: &str, sha256: &str, exit_code: u8) -> Line {
        Line::End(Box::new(Ended {
            n: 1,
            key: key.into(),
            sha256: sha256.into(),
            r#try: 1,
            r#final: is_final(exit_code, exit_code == 75, false),
            exit_code,
            cost_usd: Some(0.25),
            usage: Usage { total_tokens: Some(7), ..Usage::default() },
            product: Product { output: json!("x\ny"), ..Product::default() },
            ..Ended::default()
        }))
    }

    fn text(lines: &[Line]) -> String {
        lines.iter().map(line).collect()
    }

    #[test]
    fn the_last_end_of_a_key_counts() {
        let journal = Journal::read(text(&[start("a"), end("a", "00", 75), start("a"), end("a", "00", 0)]).as_bytes());
        let journal = journal.unwrap();
        let state = journal.state("a").unwrap();
        assert_eq!((state.is_final, state.tries, state.crashes, state.exit_code), (true, 2, 0, Some(0)));
        assert!(state.is_done("00") && !state.is_done("01"));
        assert_eq!(journal.spent, Amount { cost_usd: 0.5, tokens: 14 });
        assert_eq!(journal.state("b"), None);
    }

    #[test]
    fn a_changed_item_is_tried_anew_and_a_start_without_an_end_is_a_crash() {
        let lines = [end("a", "00", 1), end("a", "01", 75), start("a"), start("a")];
        let journal = Journal::read(text(&lines).as_bytes()).unwrap();
        let state = journal.state("a").unwrap();
        assert_eq!((state.is_final, state.tries, state.crashes, state.died_alone), (false, 1, 2, false));
    }

    #[test]
    fn only_a_last_start_that_was_alone_died_alone() {
        let state = |lines: &[Line]| *Journal::read(text(lines).as_bytes()).unwrap().state("a").unwrap();
        assert!(state(&[start("a"), start("a"), started("a", true)]).died_alone);
        assert!(!state(&[started("a", true), start("a")]).died_alone);
        assert!(!state(&[started("a", true), end("a", "00", 75)]).died_alone);
    }

    #[test]
    fn what_ended_for_another_reason_than_its_own_is_not_done() {
        for code in [41, 44, 52, 130, 143] {
            assert!(!is_final(code, false, false), "{code}");
        }
        assert!(is_final(75, false, false) && !is_final(75, true, false));
        assert!(is_final(55, false, false) && !is_final(55, false, true));
    }

    #[test]
    fn a_line_is_what_the_documentation_shows() {
        insta::assert_snapshot!(text(&[start("T-17"), end("T-17", "00", 0)]), @r#"
        {"t":"start","n":1,"key":"T-17","try":1,"time":"2026-11-22T10:00:00Z"}
        {"t":"end","n":1,"key":"T-17","sha256":"00","try":1,"final":true,"exit_code":0,"exit_reason":"","conclusion":"","output":"x\ny","output_cut":false,"findings":0,"files":[],"patch":null,"patch_sha256":null,"commit":null,"branch":null,"usage":{"input_tokens":null,"cache_read_input_tokens":null,"output_tokens":null,"reasoning_tokens":null,"total_tokens":7,"requests":0},"cost_usd":0.25,"duration_ms":0,"waited_ms":0,"run_id":null,"model":null,"warnings":[],"error":null}
        "#);
    }

    #[test]
    fn a_torn_line_in_the_middle_is_an_error_with_its_number() {
        let torn = format!("{}{{\"t\":\"st\n{}", text(&[start("a")]), text(&[end("a", "00", 0)]));
        let error = Journal::read(torn.as_bytes()).unwrap_err();
        assert!(error.to_string().starts_with("line 2 of the journal is not valid: "), "{error}");
    }

    proptest! {
        #[test]
        fn a_journal_cut_anywhere_is_the_journal_of_its_whole_lines(count in 1_usize..6, cut in any::<prop::sample::Index>()) {
            let lines: Vec<Line> = (0..count).map(|at| end(&format!("kéy {at}"), "00", 0)).collect();
            let text = text(&lines);
            let cut = cut.index(text.len() + 1);
            let journal = Journal::read(&text.as_bytes()[..cut]).unwrap();
            prop_assert_eq!(journal.whole, text.as_bytes()[..cut].iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1));
            prop_assert_eq!(journal.keys(), text.as_bytes()[..cut].iter().filter(|b| **b == b'\n').count());
        }

        #[test]
        fn the_fold_does_not_depend_on_how_items_interleave(order in Just((0..12_usize).collect::<Vec<_>>()).prop_shuffle()) {
            // Each key has a start and an end, in this order, wherever they are.
            let mut seen = std::collections::HashSet::new();
            let mut shuffled = Journal::default();
            for at in order {
                let key = format!("k{}", at % 6);
                let next = if seen.insert(key.clone()) { start(&key) } else { end(&key, "00", 0) };
                shuffled.add(&next);
            }
            let mut ordered = Journal::default();
            for at in 0..6 {
                ordered.add(&start(&format!("k{at}")));
                ordered.add(&end(&format!("k{at}"), "00", 0));
            }
            prop_assert_eq!(shuffled, ordered);
        }
    }
}
