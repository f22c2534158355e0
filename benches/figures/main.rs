//! Measures what the program costs and prints one table: time, memory and bytes, next to the goals and, if named, other
//! agents.
//!
//! ```text
//! cargo bench --bench figures                                   everything that needs nothing else
//! cargo bench --bench figures -- edit one-answer                these rows alone
//! cargo bench --bench figures -- search --tree DIR              against `rg`, in a tree of yours
//! cargo bench --bench figures -- one-answer --peer codex=PATH   codex, claude, opencode, qwen-code, same conversation
//! ```
//!
//! Wall time, CPU time and resident size come from the operating system; each figure is the median of `--runs` runs
//! (5). Programs that are compared take turns. The model is a server on loopback that answers at once, so the figures
//! show the program's own cost. On a busy machine only ratios are meaningful.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that makes projects, starts programs and prints a table"
)]

mod batch;
mod conversation;
mod inside;
mod mcp;
mod peers;
mod sample;
mod server;
mod whole;

use std::path::PathBuf;
use std::process::ExitCode;

/// What was asked for.
pub(crate) struct Options {
    rows: Vec<String>,
    pub(crate) program: PathBuf,
    pub(crate) runs: usize,
    pub(crate) tree: Option<PathBuf>,
    pub(crate) peers: Vec<(String, PathBuf)>,
}

/// A figure and what it should be.
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) figure: String,
    pub(crate) goal: &'static str,
}

impl Row {
    pub(crate) fn new(what: impl Into<String>, figure: impl Into<String>, goal: &'static str) -> Row {
        Row { what: what.into(), figure: figure.into(), goal }
    }
}

type Measure = fn(&Options) -> Result<Vec<Row>, String>;

/// The kinds of figures, by the word that chooses them.
const KINDS: &[(&str, Measure)] = &[
    ("program", whole::program),
    ("one-answer", whole::one_answer),
    ("edit", whole::edit),
    ("long", whole::long),
    ("search", whole::search),
    ("stream", inside::stream),
    ("policy", inside::policy),
    ("tree", inside::tree),
    ("recipe", inside::recipe),
    ("mcp", mcp::mcp),
    ("batch", batch::batch),
];

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let first = std::env::args_os().nth(1);
    if first.as_ref().is_some_and(|first| first == mcp::WORD) {
        return mcp::serve();
    }
    if first.is_some_and(|first| first == sample::WORD) {
        arguments.next();
        return sample::print(arguments);
    }
    let options = match options(arguments.map(|word| word.to_string_lossy().into_owned())) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::from(2);
        }
    };
    println!("| what | here | goal |\n|---|---|---|");
    let mut failed = false;
    for (kind, rows) in KINDS {
        if !options.rows.is_empty() && !options.rows.iter().any(|row| row == kind) {
            continue;
        }
        match rows(&options) {
            Ok(rows) => rows.iter().for_each(|row| println!("| {} | {} | {} |", row.what, row.figure, row.goal)),
            Err(problem) => {
                failed = true;
                eprintln!("{kind}: {problem}");
            }
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn options(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options {
        rows: Vec::new(),
        program: PathBuf::from(env!("CARGO_BIN_EXE_qwen")),
        runs: 5,
        tree: None,
        peers: Vec::new(),
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--program" => {
                let path = value()?;
                // The figures are taken in other directories.
                options.program = PathBuf::from(&path).canonicalize().map_err(|error| format!("{path}: {error}"))?;
            }
            "--runs" => options.runs = value()?.parse().map_err(|_| "--runs needs a number".to_owned())?,
            "--tree" => options.tree = Some(PathBuf::from(value()?)),
            "--peer" => {
                let text = value()?;
                let (name, path) = text.split_once('=').ok_or("write --peer NAME=PATH")?;
                options.peers.push((name.to_owned(), PathBuf::from(path)));
            }
            "--bench" => {}
            kind if KINDS.iter().any(|(name, _)| *name == kind) => options.rows.push(kind.to_owned()),
            other => {
                let known: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
                return Err(format!("there are no figures `{other}`; there are {}", known.join(", ")));
            }
        }
    }
    if options.runs == 0 {
        return Err("--runs needs at least 1".to_owned());
    }
    Ok(options)
}

/// Returns the middle one; values must not be empty.
pub(crate) fn median<T: Ord + Clone>(mut values: Vec<T>) -> T {
    values.sort();
    values[values.len() / 2].clone()
}
