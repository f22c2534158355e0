//! Gives ten small tasks to a real model and reports which it solved, with the reason.
//!
//! `cargo bench --bench tasks` runs them against the server of `QWEN_BASE_URL` (model of `QWEN_MODEL`, if set) at
//! temperature 0 and prints one line per task. Names as arguments select tasks; `--record DIR` keeps the conversations
//! of solved ones.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a program that makes projects and prints a table"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use serde_json::Value;

/// How to see that a task was done; project and prompt are in `fixtures/cassettes/tasks.json`, where the replays of
/// the conversations read them as well.
struct Task {
    name: &'static str,
    check: fn(&Outcome) -> Result<(), String>,
}

/// What is asked, and of which project.
#[derive(serde::Deserialize)]
struct Asked {
    name: String,
    prompt: String,
    files: BTreeMap<String, String>,
}

struct Outcome {
    root: PathBuf,
    answer: String,
    result: Value,
}

impl Outcome {
    fn read(&self, path: &str) -> Result<String, String> {
        std::fs::read_to_string(self.root.join(path)).map_err(|error| format!("{path}: {error}"))
    }

    fn python(&self, code: &str) -> Result<(), String> {
        let output = Command::new("python3")
            .args(["-B", "-c", code])
            .current_dir(&self.root)
            .output()
            .map_err(|error| format!("python3: {error}"))?;
        let text = String::from_utf8_lossy(&output.stderr);
        output.status.success().then_some(()).ok_or_else(|| text.lines().last().unwrap_or("failed").to_owned())
    }

    fn says(&self, words: &[&str]) -> Result<(), String> {
        match words.iter().find(|word| !self.answer.contains(**word)) {
            None => Ok(()),
            Some(word) => Err(format!("the answer does not name {word:?}: {:?}", self.answer)),
        }
    }
}

fn holds(condition: bool, otherwise: &str) -> Result<(), String> {
    condition.then_some(()).ok_or_else(|| otherwise.to_owned())
}

const TASKS: &[Task] = &[
    Task { name: "create-file", check: |o| holds(o.read("hello.txt")?.trim() == "hi", "hello.txt does not hold hi") },
    Task {
        name: "fix-assertion",
        check: |o| {
            holds(o.read("test_calc.py")?.contains("assert add(2, 3) == 5"), "the test was changed")?;
            o.python("import test_calc")
        },
    },
    Task {
        name: "rename-function",
        check: |o| {
            o.python(
                "from shop import prices, cart\nassert not hasattr(prices, 'total')\nassert prices.sum_prices([1, 2]) == 3\n\
                 assert prices.average([1, 3]) == 2\nc = cart.Cart()\nc.add('a', 2)\nassert c.sum() == 2",
            )
        },
    },
    Task {
        name: "add-docstring",
        check: |o| o.python("import greet\nassert greet.greet.__doc__\nassert greet.greet('Bo') == 'Hello, Bo!'"),
    },
    Task { name: "find-symbol", check: |o| o.says(&["shop/prices.py"]) },
    Task { name: "run-tests", check: |o| o.says(&["test_login"]) },
    Task {
        name: "change-constant",
        check: |o| {
            holds(
                o.read("config.py")? == "HOST = \"localhost\"\nPORT = 9090\nDEBUG = False\n",
                "config.py is not as it should be",
            )
        },
    },
    Task {
        name: "handle-empty",
        check: |o| o.python("from shop.prices import average\nassert average([]) == 0\nassert average([1, 3]) == 2"),
    },
    Task {
        name: "append-section",
        check: |o| {
            let text = o.read("README.md")?;
            holds(text.starts_with("# Shop\n\nA tiny shop.\n"), "the old text is gone")?;
            holds(text.contains("## License") && text.contains("MIT"), "the section is missing")
        },
    },
    Task {
        name: "new-module",
        check: |o| o.python("from shop.tax import add_tax\nassert abs(add_tax(100, 0.5) - 150) < 1e-9"),
    },
];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench").peekable();
    let mut chosen = Vec::new();
    let mut record: Option<PathBuf> = None;
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--record" => record = arguments.next().map(PathBuf::from),
            _ => chosen.push(argument),
        }
    }
    if std::env::var_os("QWEN_BASE_URL").is_none() {
        println!("tasks: set QWEN_BASE_URL to a server with a model, for example http://127.0.0.1:8090/v1");
        return ExitCode::SUCCESS;
    }
    let asked: Vec<Asked> =
        serde_json::from_str(include_str!("../fixtures/cassettes/tasks.json")).expect("the tasks are JSON");
    let (mut solved, mut tried) = (0, 0);
    for task in TASKS.iter().filter(|task| chosen.is_empty() || chosen.iter().any(|name| name == task.name)) {
        tried += 1;
        let started = Instant::now();
        let words = asked.iter().find(|asked| asked.name == task.name).expect("every task has its words");
        let (verdict, result) = attempt(task, words, record.as_deref());
        let facts = format!(
            "{:>2} turns {:>2} calls {:>6} tokens in {:>3.0} s",
            result["num_turns"],
            result["num_tool_calls"],
            result["usage"]["input_tokens"],
            started.elapsed().as_secs_f64()
        );
        match verdict {
            Ok(()) => {
                solved += 1;
                println!("solved      {:<16} {facts}", task.name);
            }
            Err(reason) => println!("not solved  {:<16} {facts}  {reason}", task.name),
        }
    }
    println!("{solved} of {tried} solved");
    ExitCode::SUCCESS
}

fn attempt(task: &Task, asked: &Asked, record: Option<&Path>) -> (Result<(), String>, Value) {
    let folder = tempfile::tempdir().expect("the temporary folder is writable");
    let root = folder.path().join("work");
    for (path, text) in &asked.files {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().expect("below the root")).expect("the folder is writable");
        std::fs::write(path, text).expect("the folder is writable");
    }
    let file = folder.path().join("result.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_qwen"));
    command
        .args([
            "run",
            "--bare",
            "--apply",
            "--no-undo",
            "--approval-mode",
            "yolo",
            "--temperature",
            "0",
            "--max-session-turns",
            "12",
        ])
        .arg("--result-file")
        .arg(&file)
        .args(["-p", &asked.prompt])
        .current_dir(&root)
        .env("HOME", folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    if let Some(record) = record {
        std::fs::create_dir_all(record).expect("the folder for recordings is writable");
        command.arg("--record").arg(record.join(format!("{}.jsonl", task.name)));
    }
    let output = command.output().expect("the program starts");
    let result: Value =
        std::fs::read(&file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    let outcome =
        Outcome { root, answer: String::from_utf8_lossy(&output.stdout).into_owned(), result: result.clone() };
    let verdict = (task.check)(&outcome).map_err(|reason| match outcome.result["error"]["message"].as_str() {
        Some(message) => format!("{reason} [{message}]"),
        None => reason,
    });
    if let Some(record) = record {
        let (cassette, expected) =
            (record.join(format!("{}.jsonl", task.name)), record.join(format!("{}.expected", task.name)));
        // Only what was solved is worth playing again.
        if verdict.is_ok() {
            let patch = result["changes"]["patch"].as_str().unwrap_or_default();
            std::fs::write(expected, format!("{}\n---\n{patch}", outcome.answer.trim_end()))
                .expect("the folder is writable");
        } else {
            for file in [cassette, expected] {
                let _not_there = std::fs::remove_file(file);
            }
        }
    }
    (verdict, result)
}
