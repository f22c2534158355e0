//! Reads and writes the journal of a batch, one line of JSON each, and folds it into what is done.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::budget::Amount;
use super::item::Short;
use super::result::PatchFacts;
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
    /// Those of items that failed or were denied a call
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

/// What a line says of where its item stands. The rest of it is not read, which takes a quarter of the time.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Brief<'a> {
    t: Kind,
    /// The item's key.
    #[serde(borrow)]
    pub key: Cow<'a, str>,
    #[serde(default)]
    alone: bool,
    #[serde(borrow, default)]
    sha256: Cow<'a, str>,
    r#final: Option<bool>,
    exit_code: Option<u8>,
    #[serde(default)]
    usage: Usage,
    cost_usd: Option<f64>,
    patch: Option<String>,
    /// The digest of its change.
    pub patch_sha256: Option<String>,
    branch: Option<String>,
    commit: Option<String>,
}

/// What a line is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    #[default]
    Start,
    End,
}

impl<'a> Brief<'a> {
    /// Reads a line. The error says why it is not one.
    pub fn read(text: &'a [u8]) -> Result<Brief<'a>, String> {
        let brief: Brief<'_> = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        match brief.t {
            Kind::End if brief.sha256.is_empty() || brief.r#final.is_none() || brief.exit_code.is_none() => {
                Err("it lacks `sha256`, `final` or `exit_code`".to_owned())
            }
            Kind::End | Kind::Start => Ok(brief),
        }
    }

    /// Returns what matters of a line.
    pub fn of(line: &'a Line) -> Brief<'a> {
        match line {
            Line::Start(started) => Brief { key: Cow::from(&started.key), alone: started.alone, ..Brief::default() },
            Line::End(ended) => Brief {
                t: Kind::End,
                key: Cow::from(&ended.key),
                alone: false,
                sha256: Cow::from(&ended.sha256),
                r#final: Some(ended.r#final),
                exit_code: Some(ended.exit_code),
                usage: ended.usage,
                cost_usd: ended.cost_usd,
                patch: ended.product.patch.clone(),
                patch_sha256: ended.product.patch_sha256.clone(),
                branch: ended.product.branch.clone(),
                commit: ended.product.commit.clone(),
            },
        }
    }

    /// Tells whether it is an end.
    pub fn is_end(&self) -> bool {
        self.t == Kind::End
    }

    /// Returns the exit code; that of a start is 0.
    pub fn exit_code(&self) -> u8 {
        self.exit_code.unwrap_or_default()
    }

    /// Returns the change that it names.
    pub fn patch(&self) -> Option<PatchFacts> {
        let sha256 = self.patch_sha256.clone().filter(|_| self.patch.is_some())?;
        let (branch, commit) = (self.branch.clone(), self.commit.clone());
        Some(PatchFacts { key: self.key.clone().into_owned(), sha256, branch, commit })
    }
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
    /// Whether the list has it.
    is_listed: bool,
}

impl State {
    const NONE: State = State {
        sha256: None,
        exit_code: None,
        is_final: false,
        tries: 0,
        crashes: 0,
        died_alone: false,
        is_listed: false,
    };

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
    /// Its change, if it has one.
    pub patch: Option<PatchFacts>,
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
        }
    }
}

impl Journal {
    /// Adds a line.
    pub fn add(&mut self, line: &Brief<'_>) {
        let key = Short::of(&line.key);
        let state = self.states.entry(key).or_insert(State::NONE);
        if !line.is_end() {
            state.crashes += 1;
            state.died_alone = line.alone;
            return;
        }
        let sha256 = Short::of_hex(&line.sha256);
        let before = if state.sha256 == Some(sha256) { state.tries } else { 0 };
        let tries = before + u32::from(is_own(line.exit_code()));
        let is_final = line.r#final.unwrap_or_default();
        *state = State { sha256: Some(sha256), exit_code: line.exit_code, is_final, tries, ..State::NONE };
        let amount = Amount { cost_usd: line.cost_usd.unwrap_or_default(), tokens: line.usage.tokens() };
        self.spent.cost_usd += amount.cost_usd;
        self.spent.tokens = self.spent.tokens.saturating_add(amount.tokens);
        self.dearest = self.dearest.most(amount);
        self.usage = self.usage.plus(&line.usage);
        let sent_nothing = line.usage.requests == 0;
        let cost = line.cost_usd.or(sent_nothing.then_some(0.0));
        self.cost_usd = self.cost_usd.zip(cost).map(|(sum, cost)| sum + cost);
        let failed = line.exit_code.filter(|exit_code| is_final && is_failure(*exit_code));
        let patch = line.patch();
        if failed.is_none() && patch.is_none() {
            self.notable.remove(&key);
        } else {
            self.notable.insert(key, Notable { key: line.key.clone().into_owned(), sha256, failed, patch });
        }
    }

    /// Forgets where each item stands: when a batch is over, the sums and what is to be said are left.
    pub fn forget_states(&mut self) {
        self.states = HashMap::new();
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

    /// Notes that the list has an item of this key, and returns what became of it; `None` if it never started.
    pub fn list(&mut self, key: &str) -> Option<State> {
        let state = self.states.get_mut(&Short::of(key))?;
        state.is_listed = true;
        Some(*state)
    }

    /// Returns the keys that [`Journal::list`] was not called with, in no order.
    pub fn unlisted(&self) -> impl Iterator<Item = Short> {
        self.states.iter().filter(|(_, state)| !state.is_listed).map(|(key, _)| *key)
    }

    /// Returns how many keys there are.
    pub fn keys(&self) -> usize {
        self.states.len()
    }
}

/// Reads a journal line by line, however long it is.
#[derive(Debug, Default)]
pub struct Reader {
    /// Bytes of the whole lines so far; what follows was cut off by a kill.
    pub whole: u64,
    lines: usize,
    is_torn: bool,
}

impl Reader {
    /// Reads the next line, with its end; `None` if it has none, as only the last one may.
    pub fn line<'a>(&mut self, text: &'a [u8]) -> Result<Option<Brief<'a>>, JournalError> {
        self.lines += usize::from(!self.is_torn);
        let invalid = |why| JournalError::Line { line: self.lines, why };
        if self.is_torn {
            return Err(invalid("it is too long".to_owned()));
        }
        if !text.ends_with(b"\n") {
            self.is_torn = true;
            return Ok(None);
        }
        let line = Brief::read(text).map_err(invalid)?;
        self.whole += text.len() as u64;
        Ok(Some(line))
    }

    /// Tells whether the last line has no end: a kill has cut it off.
    pub fn is_torn(&self) -> bool {
        self.is_torn
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

    fn read(bytes: &[u8]) -> Result<(Journal, Reader), JournalError> {
        let (mut journal, mut reader) = (Journal::default(), Reader::default());
        for text in bytes.split_inclusive(|byte| *byte == b'\n') {
            reader.line(text)?.iter().for_each(|line| journal.add(line));
        }
        Ok((journal, reader))
    }

    fn journal(lines: &[Line]) -> Journal {
        read(text(lines).as_bytes()).unwrap().0
    }

    fn text(lines: &[Line]) -> String {
        lines.iter().map(line).collect()
    }

    #[test]
    fn the_last_end_of_a_key_counts() {
        let journal = journal(&[start("a"), end("a", "00", 75), start("a"), end("a", "00", 0)]);
        let state = journal.state("a").unwrap();
        assert_eq!((state.is_final, state.tries, state.crashes, state.exit_code), (true, 2, 0, Some(0)));
        assert!(state.is_done("00") && !state.is_done("01"));
        assert_eq!(journal.spent, Amount { cost_usd: 0.5, tokens: 14 });
        assert_eq!(journal.state("b"), None);
    }

    #[test]
    fn a_changed_item_is_tried_anew_and_a_start_without_an_end_is_a_crash() {
        let lines = [end("a", "00", 1), end("a", "01", 75), start("a"), start("a")];
        let journal = journal(&lines);
        let state = journal.state("a").unwrap();
        assert_eq!((state.is_final, state.tries, state.crashes, state.died_alone), (false, 1, 2, false));
    }

    #[test]
    fn only_a_last_start_that_was_alone_died_alone() {
        let state = |lines: &[Line]| *journal(lines).state("a").unwrap();
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
        let error = read(torn.as_bytes()).unwrap_err();
        assert!(error.to_string().starts_with("line 2 of the journal is not valid: "), "{error}");
        let error = read(
            br#"{"t":"end","key":"a","sha256":"00"}
"#
            .as_slice(),
        )
        .unwrap_err();
        assert!(error.to_string().contains("it lacks"), "{error}");
        let mut reader = Reader::default();
        assert!(reader.line(b"{").unwrap().is_none() && reader.line(b"}\n").is_err());
    }

    #[test]
    fn what_is_read_of_a_line_is_what_it_says() {
        let product = Product {
            output: json!({"patch": "not this", "usage": [1]}),
            patch: Some("items/1.patch".into()),
            patch_sha256: Some("ab".into()),
            commit: Some("c0".into()),
            ..Product::default()
        };
        let Line::End(ended) = end("a \"b\"", "0c", 1) else { unreachable!() };
        let line_of = Line::End(Box::new(Ended { product, ..*ended }));
        let text = line(&line_of);
        let (read, made) = (Brief::read(text.as_bytes()).unwrap(), Brief::of(&line_of));
        assert_eq!(format!("{read:?}"), format!("{made:?}"));
        assert_eq!(read.patch().unwrap().commit.as_deref(), Some("c0"));
        assert_eq!(
            format!("{:?}", Brief::read(line(&started("b", true)).as_bytes()).unwrap()),
            format!("{:?}", Brief::of(&started("b", true)))
        );
    }

    proptest! {
        #[test]
        fn a_journal_cut_anywhere_is_the_journal_of_its_whole_lines(count in 1_usize..6, cut in any::<prop::sample::Index>()) {
            let lines: Vec<Line> = (0..count).map(|at| end(&format!("kéy {at}"), "00", 0)).collect();
            let text = text(&lines);
            let cut = cut.index(text.len() + 1);
            let (journal, reader) = read(&text.as_bytes()[..cut]).unwrap();
            prop_assert_eq!(reader.whole, text.as_bytes()[..cut].iter().rposition(|b| *b == b'\n').map_or(0, |at| at as u64 + 1));
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
                shuffled.add(&Brief::of(&next));
            }
            let mut ordered = Journal::default();
            for at in 0..6 {
                ordered.add(&Brief::of(&start(&format!("k{at}"))));
                ordered.add(&Brief::of(&end(&format!("k{at}"), "00", 0)));
            }
            prop_assert_eq!(shuffled, ordered);
        }
    }
}
