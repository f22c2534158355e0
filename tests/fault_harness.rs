//! Kills at random moments, and every kind of system call made to fail once: thousands of runs, so only on demand.
//!
//! `cargo test --test it fault_harness -- --ignored --nocapture`; how many kills: `QWEN_KILLS` (1,000 without it).

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::apply::leftovers;
use crate::support::{Outcome, Project, Reply, call, say};

/// A run that edits, writes, runs a command that changes three files, and answers.
fn replies() -> [Reply; 4] {
    [
        call("edit", json!({"file_path": "a.txt", "old_string": "one", "new_string": "ONE"})),
        call("write_file", json!({"file_path": "new/deep/c.txt", "content": "c\n"})),
        call("run_shell_command", json!({"command": "cp a.txt copy.txt && mv b.txt moved.txt && cp a.txt new/d.txt"})),
        say("done"),
    ]
}

const POLICY: &str = "version: 1\nextends: builtin:edit\nshell: {allow: [{cmd: [cp]}, {cmd: [mv]}]}\n";

fn project() -> Project {
    let project = Project::new().file("a.txt", "one\n").file("b.txt", "two\n").file("big.txt", "x\n".repeat(50_000));
    let project = project.file(".qwen/policy.yaml", POLICY).git().model(replies());
    project.env("QWEN_TRUST_CHECKOUT", "1")
}

/// What the project holds: the files, HEAD, and what git says of both.
fn state(project: &Project) -> (Vec<String>, String, String) {
    let files = ["a.txt", "b.txt", "moved.txt", "copy.txt", "new/deep/c.txt", "new/d.txt"];
    let read = |name: &&str| std::fs::read_to_string(project.root().join(name)).unwrap_or_default();
    let tree = project.run_git(&["write-tree"]);
    (files.iter().map(read).collect(), tree, project.run_git(&["status", "--porcelain"]))
}

const MODES: [&[&str]; 3] =
    [&["run", "--apply", "do it"], &["run", "--commit", "do it"], &["run", "--branch", "b", "do it"]];

/// Takes a project back to its first commit, with nothing of a run left.
fn reset(project: &Project, head: &str) {
    project.run_git(&["checkout", "-q", "-f", "main"]);
    project.run_git(&["reset", "-q", "--hard", head]);
    project.run_git(&["clean", "-qfdx"]);
    let _none =
        Command::new("git").args(["branch", "-qD", "b"]).current_dir(project.root()).stderr(Stdio::null()).status();
    let _none = std::fs::remove_dir_all(project.home().join(".local/state/qwen/undo"));
}

#[test]
#[ignore = "takes half an hour"]
fn whatever_the_moment_of_a_kill_one_undo_restores_or_all_is_there() {
    let kills: usize = std::env::var("QWEN_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(1000);
    for (number, mode) in MODES.iter().enumerate() {
        let project = project();
        let head = project.run_git(&["rev-parse", "HEAD"]).trim().to_owned();
        let before = state(&project);
        let begun = Instant::now();
        let whole = project.qwen(mode);
        let needed = begun.elapsed();
        assert_eq!(whole.code, 0, "{mode:?}: {}", whole.stderr);
        let after = state(&project);
        for kill in 0..kills / MODES.len() {
            reset(&project, &head);
            project.server().restart(replies());
            let mut child = project.spawn(mode);
            // Not a wait for something to happen: the moment is what is tried.
            std::thread::sleep(needed.mul_f64(1.1 * kill as f64 / (kills / MODES.len()) as f64));
            let _ended = child.kill();
            let _status = child.wait();
            settled(&project);
            let what = format!("{mode:?}, kill {kill} of series {number}");
            if state(&project) != after && state(&project) != before {
                let undone = project.qwen(&["undo"]);
                assert!(matches!(undone.code, 0 | 63), "{what}: {}", undone.stderr);
                assert_eq!(state(&project), before, "{what}: {}{}", undone.stdout, undone.stderr);
            }
            assert_eq!(leftovers(&project), Vec::<std::path::PathBuf>::new(), "{what}");
        }
        eprintln!("{mode:?}: {} kills", kills / MODES.len());
    }
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
const CALLS: [(&str, &str); 22] = [
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
    ("fsync", "EIO"),
    ("fdatasync", "EIO"),
    ("mkdirat", "ENOSPC"),
    ("mkdir", "ENOSPC"),
    ("rename", "EIO"),
    ("renameat2", "EIO"),
    ("unlinkat", "EIO"),
    ("clone3", "EAGAIN"),
];

fn with_fault(project: &Project, call: (&str, &str), when: usize, arguments: &[&str]) -> Option<(Outcome, bool)> {
    let plain = project.command(arguments);
    let log = project.beside("strace.log");
    let mut traced = Command::new("strace");
    traced.args(["-f", "-qq", "-o"]).arg(&log).arg("-e").arg(format!("trace={}", call.0)).arg("-e");
    traced.arg(format!("inject={}:error={}:when={when}", call.0, call.1)).arg(plain.get_program()).args(arguments);
    traced.current_dir(project.root()).env_clear();
    for (name, value) in plain.get_envs() {
        traced.env(name, value.unwrap_or_default());
    }
    let child = traced.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().ok()?;
    let outcome = project.finish(child);
    Some((outcome, injected(&log)))
}

fn injected(log: &Path) -> bool {
    std::fs::read(log).is_ok_and(|text| text.windows(10).any(|part| part == b"(INJECTED)"))
}

#[test]
#[ignore = "takes an hour, and needs strace"]
fn whatever_call_fails_once_the_delivery_is_whole_or_not_at_all() {
    let only = std::env::var("QWEN_CALL").ok();
    for call in CALLS.into_iter().filter(|call| only.as_deref().is_none_or(|only| only == call.0)) {
        let mut reached = 0;
        for mode in &MODES[..2] {
            let project = project();
            let head = project.run_git(&["rev-parse", "HEAD"]).trim().to_owned();
            let before = state(&project);
            assert_eq!(project.qwen(mode).code, 0);
            let after = state(&project);
            for when in (1..40).chain((40..400).step_by(7)).chain((400..4000).step_by(97)) {
                reset(&project, &head);
                project.server().restart(replies());
                let Some((outcome, hit)) = with_fault(&project, call, when, mode) else {
                    eprintln!("SKIPPED: no strace here");
                    return;
                };
                if !hit {
                    break;
                }
                reached += 1;
                let what = format!("{} fails at {when}, {mode:?}: exit {}: {}", call.0, outcome.code, outcome.stderr);
                assert!(!outcome.stderr.contains("panicked"), "{what}");
                match outcome.code {
                    0 => assert_eq!(state(&project), after, "{what}"),
                    1 | 2 | 42 | 44 | 52 | 60 | 63 | 75 | 127 | 134 | 139 => {
                        if state(&project) != before {
                            let undone = project.qwen(&["undo"]);
                            assert_eq!(state(&project), before, "{what}; undo: {}{}", undone.stdout, undone.stderr);
                        }
                    }
                    _ => panic!("{what}"),
                }
            }
        }
        eprintln!("{}: {reached} faults", call.0);
    }
}
