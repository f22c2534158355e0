//! Kills runs at random moments and makes every kind of system call fail once: thousands of runs, so only on demand.
//!
//! `cargo test --test it fault_harness -- --ignored --nocapture`. `QWEN_KILLS` sets the number of kills (1,000 by
//! default), `QWEN_CALL` a single system call.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::apply::leftovers;
use crate::support::{Outcome, Project, Reply, call, say};

/// A run that edits, writes, runs a command that changes three files, and answers.
fn replies() -> [Reply; 4] {
    [
        call("edit", json!({"file_path": "a.txt", "old_string": "one", "new_string": "ONE"})),
        call("write_file", json!({"file_path": "new/deep/c.txt", "content": "c\n"})),
        call(
            "run_shell_command",
            json!({"command": "cp a.txt copy.txt && mv old/b.txt moved.txt && cp a.txt new/d.txt"}),
        ),
        say("done"),
    ]
}

const POLICY: &str = "version: 1\nextends: builtin:edit\nshell: {allow: [{cmd: [cp]}, {cmd: [mv]}]}\n";

/// The one file of `old` is moved away, so that the directory goes with it.
fn project() -> Project {
    let project =
        Project::new().file("a.txt", "one\n").file("old/b.txt", "two\n").file("big.txt", "x\n".repeat(50_000));
    let project = project.file(".qwen/policy.yaml", POLICY).git().model(replies());
    project.env("QWEN_TRUST_CHECKOUT", "1")
}

/// What the project holds: files with their modes, directories, index, HEAD and branches by what they hold, and what
/// git says of it all.
#[derive(Debug, Clone, PartialEq)]
struct State {
    files: BTreeMap<PathBuf, (u32, Vec<u8>)>,
    directories: BTreeSet<PathBuf>,
    git: String,
}

impl State {
    fn of(project: &Project) -> State {
        let mut directories = BTreeSet::new();
        collect_directories(&project.root(), &mut directories);
        let asked: [&[&str]; 4] = [
            &["symbolic-ref", "HEAD"],
            &["for-each-ref", "--format=%(refname) %(tree) %(parent)"],
            &["ls-files", "--stage"],
            &["status", "--porcelain"],
        ];
        let git = asked.iter().map(|arguments| project.run_git(arguments)).collect();
        State { files: project.tree(), directories, git }
    }

    /// Says in short what differs.
    fn against(&self, other: &State) -> String {
        let names = self.files.keys().chain(other.files.keys()).collect::<BTreeSet<_>>().into_iter();
        let differ: Vec<_> = names.filter(|name| self.files.get(*name) != other.files.get(*name)).collect();
        let directories: Vec<_> = self.directories.symmetric_difference(&other.directories).collect();
        let git = if self.git == other.git { String::new() } else { format!("\n{}\nfor\n{}", self.git, other.git) };
        format!("files {differ:?}, directories {directories:?}{git}")
    }
}

fn collect_directories(directory: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() && entry.file_name() != ".git" {
            collect_directories(&entry.path(), found);
            found.insert(entry.path());
        }
    }
}

/// What is run, and what before it.
struct Case {
    name: &'static str,
    first: Option<&'static [&'static str]>,
    arguments: &'static [&'static str],
}

const CASES: [Case; 6] = [
    Case { name: "a dry run", first: None, arguments: &["run", "--dry-run", "do it"] },
    Case { name: "--apply", first: None, arguments: &["run", "--apply", "do it"] },
    Case { name: "--commit", first: None, arguments: &["run", "--commit", "--message", "m", "do it"] },
    Case { name: "--branch", first: None, arguments: &["run", "--branch", "b", "--message", "m", "do it"] },
    Case { name: "undo of --apply", first: Some(&["run", "--apply", "do it"]), arguments: &["undo"] },
    Case {
        name: "undo of --commit",
        first: Some(&["run", "--commit", "--message", "m", "do it"]),
        arguments: &["undo"],
    },
];

/// A project on which a case is tried again and again.
struct Harness {
    case: &'static Case,
    project: Project,
    head: String,
    /// Before everything.
    original: State,
    /// When the case's own program starts.
    before: State,
    /// When it has ended as it should.
    after: State,
    /// What the model is told of its calls when nothing fails.
    told: Vec<Value>,
    needed: Duration,
}

impl Harness {
    fn new(case: &'static Case) -> Harness {
        let project = project();
        let head = project.run_git(&["rev-parse", "HEAD"]).trim().to_owned();
        let original = State::of(&project);
        let mut harness = Harness {
            case,
            head,
            before: original.clone(),
            after: original.clone(),
            original,
            told: Vec::new(),
            needed: Duration::ZERO,
            project,
        };
        harness.prepare();
        harness.before = State::of(&harness.project);
        let begun = Instant::now();
        let whole = harness.project.qwen(case.arguments);
        harness.needed = begun.elapsed();
        assert_eq!(whole.code, 0, "{}: {}", case.name, whole.stderr);
        harness.after = State::of(&harness.project);
        harness.told = harness.told_of_calls();
        harness
    }

    /// Takes the project back to its first commit, with nothing of a run left, and does what comes before the case.
    fn prepare(&self) {
        let project = &self.project;
        // A git that could not remove its own lock.
        for lock in [".git/HEAD.lock", ".git/index.lock", ".git/refs/heads/main.lock", ".git/refs/heads/b.lock"] {
            let _none = std::fs::remove_file(project.root().join(lock));
        }
        project.run_git(&["checkout", "-q", "-f", "main"]);
        project.run_git(&["reset", "-q", "--hard", &self.head]);
        project.run_git(&["clean", "-qfdx"]);
        let _none =
            Command::new("git").args(["branch", "-qD", "b"]).current_dir(project.root()).stderr(Stdio::null()).status();
        let _none = std::fs::remove_dir_all(project.home().join(".local/state/qwen/undo"));
        let _none = std::fs::remove_file(project.beside("result.json"));
        project.server().restart(replies());
        if let Some(first) = self.case.first {
            let outcome = project.qwen(first);
            assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        }
    }

    /// Returns what the model was told of its calls, in the last request.
    fn told_of_calls(&self) -> Vec<Value> {
        let requests = self.project.server().requests();
        let messages = requests.last().and_then(|request| request["messages"].as_array().cloned()).unwrap_or_default();
        messages.into_iter().filter(|message| message["role"] == "tool").collect()
    }

    /// Says what is wrong where neither nothing nor all of it was done, even after one `undo`.
    fn put_right(&self) -> Result<(), String> {
        let now = State::of(&self.project);
        if now == self.original || (now == self.before && self.case.first.is_none()) || now == self.after {
            return Ok(());
        }
        let undone = self.project.qwen(&["undo"]);
        let now = State::of(&self.project);
        match now == self.original {
            true => Ok(()),
            false => Err(format!(
                "undo ended with {}: {}{}; {}",
                undone.code,
                undone.stdout,
                undone.stderr,
                now.against(&self.original)
            )),
        }
    }

    /// Says what is left over that nobody will remove and that the run did not name.
    fn left_over(&self, said: &str) -> Result<(), String> {
        let mut left = leftovers(&self.project);
        left.retain(|path| !said.contains(&path.display().to_string()));
        // Those of a branch have no record; they go when they are old.
        let is_unfinished = |path: &PathBuf| path.to_string_lossy().contains("/tmp_obj_");
        left.extend(
            self.project.snapshot().into_keys().filter(|path| self.case.name != "--branch" && is_unfinished(path)),
        );
        if !left.is_empty() {
            return Err(format!("left over: {left:?}"));
        }
        let fsck =
            Command::new("git").args(["fsck", "--no-dangling"]).current_dir(self.project.root()).output().unwrap();
        match fsck.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&fsck.stderr).into_owned()),
        }
    }

    /// Says what is wrong with a success: all is done, or the model was told what was not, and the result tells the
    /// truth.
    fn check_success(&self, outcome: &Outcome) -> Result<(), String> {
        let now = State::of(&self.project);
        if now == self.after {
            return Ok(());
        }
        if self.case.arguments[0] != "run" {
            return Err(format!("success, and {}", now.against(&self.after)));
        }
        if self.told_of_calls() == self.told {
            return Err(format!("nobody was told of {}", now.against(&self.after)));
        }
        if !["--apply", "--commit"].contains(&self.case.name) {
            return Ok(());
        }
        let reported: BTreeMap<PathBuf, Option<String>> = outcome.result["changes"]["files"]
            .as_array()
            .ok_or("no result")?
            .iter()
            .map(|file| {
                let digest = file["sha256_after"].as_str().map(str::to_owned);
                (PathBuf::from(file["path"].as_str().unwrap()), digest)
            })
            .collect();
        let names = now.files.keys().chain(self.before.files.keys()).collect::<BTreeSet<_>>();
        for name in names {
            let (found, was) = (now.files.get(name), self.before.files.get(name));
            let is_told = match reported.get(name) {
                Some(digest) => *digest == found.map(|(_, content)| qwen_run::base::digest::sha256(content)),
                None => found == was,
            };
            if !is_told {
                return Err(format!("the result does not tell of {}", name.display()));
            }
        }
        let dirty = self.project.run_git(&["status", "--porcelain"]);
        if self.case.name == "--commit" && !dirty.is_empty() {
            return Err(format!("a commit left {dirty}"));
        }
        Ok(())
    }
}

fn assert_none(failures: &[String]) {
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n\n"));
}

#[test]
#[ignore = "takes ten minutes"]
fn whatever_the_moment_of_a_kill_one_undo_restores_or_all_is_there() {
    let kills: usize = std::env::var("QWEN_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(1000);
    let mut failures = Vec::new();
    for (number, case) in CASES.iter().enumerate() {
        let harness = Harness::new(case);
        let own = kills / CASES.len() + usize::from(number < kills % CASES.len());
        let failed = failures.len();
        for kill in 0..own {
            harness.prepare();
            let mut child = harness.project.spawn(case.arguments);
            let share = kill as f64 / own as f64;
            // Every second one falls into the time after the last request: the delivery is a small part of a run.
            let delay = match kill % 2 == 1 && case.first.is_none() {
                true => {
                    harness.project.server().wait_for(4);
                    harness.needed.mul_f64(0.6 * share)
                }
                false => harness.needed.mul_f64(1.1 * share),
            };
            // Not a wait for something to happen: the moment is what is tried.
            std::thread::sleep(delay);
            let _ended = child.kill();
            let _status = child.wait();
            settled(&harness.project);
            let problem = harness.put_right().and_then(|()| harness.left_over(""));
            failures.extend(problem.err().map(|problem| format!("{}, kill {kill}: {problem}", case.name)));
        }
        eprintln!("{}: {own} kills, {} failures", case.name, failures.len() - failed);
    }
    assert_none(&failures);
}

/// Waits for the git processes that a killed run has left: they end by themselves.
fn settled(project: &Project) {
    let root = project.root();
    let works_there = || {
        let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        all.filter_map(|entry| std::fs::read_link(entry.path().join("cwd")).ok()).any(|cwd| cwd.starts_with(&root))
    };
    let until = Instant::now() + Duration::from_secs(20);
    while works_there() && Instant::now() < until {
        std::thread::yield_now();
    }
}

/// System calls that read or write, as strace names them; what they fail with is what a bad disk or a full table gives.
const CALLS: [(&str, &str); 30] = [
    ("openat", "EMFILE"),
    ("openat2", "EIO"),
    ("read", "EIO"),
    ("pread64", "EIO"),
    ("getdents64", "EIO"),
    ("statx", "EIO"),
    ("newfstatat", "EIO"),
    ("fstat", "EIO"),
    ("readlink", "EIO"),
    ("readlinkat", "EIO"),
    ("lseek", "EIO"),
    ("mmap", "ENOMEM"),
    ("write", "ENOSPC"),
    ("pwrite64", "EIO"),
    ("copy_file_range", "EIO"),
    ("ftruncate", "EIO"),
    ("fchmod", "EPERM"),
    ("fsync", "EIO"),
    ("fdatasync", "EIO"),
    ("mkdirat", "ENOSPC"),
    ("mkdir", "ENOSPC"),
    ("rename", "EIO"),
    ("renameat", "EIO"),
    ("renameat2", "EIO"),
    ("linkat", "EIO"),
    ("unlink", "EIO"),
    ("unlinkat", "EIO"),
    ("flock", "ENOLCK"),
    ("pipe2", "EMFILE"),
    ("clone3", "EAGAIN"),
];

/// Runs a program of which, and of each process that it starts, the call of this number fails; tells whether one did.
fn with_fault(project: &Project, call: (&str, &str), when: usize, arguments: &[&str]) -> Option<(Outcome, bool)> {
    let plain = project.command(arguments);
    let log = project.beside("strace.log");
    // A run that does not end is a failure of its own: 124.
    let mut traced = Command::new("timeout");
    traced.args(["-k", "5", "120", "strace", "--seccomp-bpf", "-f", "-qq", "-o"]).arg(&log);
    traced.arg("-e").arg(format!("trace={}", call.0)).arg("-e");
    traced.arg(format!("inject={}:error={}:when={when}", call.0, call.1)).arg(plain.get_program()).args(arguments);
    traced.current_dir(project.root()).env_clear();
    for (name, value) in plain.get_envs() {
        traced.env(name, value.unwrap_or_default());
    }
    let child = traced.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().ok()?;
    let outcome = project.finish(child);
    let is_hit = std::fs::read(&log).is_ok_and(|text| text.windows(10).any(|part| part == b"(INJECTED)"));
    Some((outcome, is_hit))
}

/// How a program may end of which a call fails: the documented codes; and, where the loader, the standard library or
/// the runtime has no way to continue, theirs.
const CODES: [i32; 13] = [1, 2, 41, 42, 44, 52, 55, 60, 63, 75, 127, 134, 139];

#[test]
#[ignore = "takes an hour, and needs strace"]
fn whatever_call_fails_once_the_delivery_is_whole_or_not_at_all() {
    let only = std::env::var("QWEN_CALL").ok();
    if Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_err() {
        eprintln!("SKIPPED: no strace here");
        return;
    }
    let mut failures = Vec::new();
    let benches: Vec<Harness> = CASES.iter().map(Harness::new).collect();
    for call in CALLS.into_iter().filter(|call| only.as_deref().is_none_or(|only| only == call.0)) {
        let (mut reached, failed) = (0, failures.len());
        for harness in &benches {
            let mut arguments = harness.case.arguments.to_vec();
            let result = harness.project.beside("result.json").display().to_string();
            if arguments[0] == "run" {
                arguments.extend(["--result-file", &result]);
            }
            for when in (1..40).chain((40..400).step_by(7)).chain((400..4000).step_by(97)) {
                harness.prepare();
                let Some((outcome, is_hit)) = with_fault(&harness.project, call, when, &arguments) else { return };
                if !is_hit {
                    break;
                }
                reached += 1;
                settled(&harness.project);
                let ending = match outcome.code {
                    _ if outcome.stderr.contains("panicked at src/") => Err("a panic".to_owned()),
                    0 => harness.check_success(&outcome),
                    // With denied calls alone the rest is delivered.
                    60 if outcome.result["changes"]["applied"] == true => harness.check_success(&outcome),
                    code if CODES.contains(&code) => harness.put_right(),
                    _ => Err("no documented code".to_owned()),
                };
                failures.extend(
                    ending
                        .and_then(|()| harness.left_over(&format!("{}{}", outcome.stdout, outcome.stderr)))
                        .err()
                        .map(|problem| {
                            let said: String = outcome.stderr.chars().take(1500).collect();
                            format!(
                                "{} at {when}, {}: {problem}\nexit {}: {said}",
                                call.0, harness.case.name, outcome.code
                            )
                        }),
                );
            }
        }
        eprintln!("{}: {reached} faults, {} failures", call.0, failures.len() - failed);
    }
    assert_none(&failures);
}
