//! Replays conversations with a real model: the same output, byte for byte, without a network or a key.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::support::{Outcome, Project};

/// A file of `benches/tasks`.
#[derive(serde::Deserialize)]
struct Kind {
    task: Vec<Task>,
}

/// What is asked, and of which project.
#[derive(serde::Deserialize)]
struct Task {
    name: String,
    prompt: String,
    files: BTreeMap<String, String>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/cassettes")
}

fn cassette(name: &str) -> PathBuf {
    folder().join(format!("{name}.jsonl"))
}

fn tasks() -> Vec<Task> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/tasks");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let read = |file: &PathBuf| toml::from_str::<Kind>(&std::fs::read_to_string(file).unwrap()).unwrap().task;
    files.iter().flat_map(read).collect()
}

fn replay(task: &Task, file: &Path) -> (Outcome, String) {
    let files = task.files.iter();
    let project = files.fold(Project::new(), |project, (path, text)| project.file(path, text));
    let file = file.display().to_string();
    let flags = ["--bare", "--apply", "--no-undo", "--approval-mode", "yolo", "--temperature", "0"];
    let outcome =
        project.run(&[&flags[..], &["--max-session-turns", "12", "--replay", &file, "-p", &task.prompt]].concat());
    let patch = outcome.result["changes"]["patch"].as_str().unwrap_or_default().to_owned();
    (outcome, patch)
}

#[test]
fn every_recorded_task_ends_as_it_was_recorded() {
    let mut played = 0;
    for task in tasks().iter().filter(|task| cassette(&task.name).exists()) {
        let (outcome, patch) = replay(task, &cassette(&task.name));
        assert_eq!(outcome.code, 0, "{}: {}", task.name, outcome.stderr);
        let expected = std::fs::read_to_string(folder().join(format!("{}.expected", task.name))).unwrap();
        assert_eq!(format!("{}\n---\n{patch}", outcome.stdout.trim_end()), expected, "{}", task.name);
        let (again, _) = replay(task, &cassette(&task.name));
        assert_eq!(again.stdout_bytes, outcome.stdout_bytes, "{}", task.name);
        played += 1;
    }
    assert!(played > 0, "no cassette was played");
}

#[test]
fn another_prompt_is_66_with_the_first_difference() {
    let mut tasks = tasks();
    let task = tasks.iter_mut().find(|task| cassette(&task.name).exists()).unwrap();
    task.prompt.push_str(", please");
    let (outcome, _) = replay(task, &cassette(&task.name));
    assert_eq!(outcome.code, 66, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("messages[1].content"), "{}", outcome.stderr);
}

/// Returns README's first command, without `cargo run --quiet --`.
fn first_command() -> Vec<String> {
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let line = readme.lines().find_map(|line| line.strip_prefix("cargo run --quiet -- ")).unwrap().to_owned();
    let (words, prompt) = line.split_once(" \"").unwrap();
    words.split(' ').chain([prompt.trim_end_matches('"')]).map(str::to_owned).collect()
}

/// Runs README's first command in a copy of what it needs, so that the test says nothing of this checkout's state.
fn run_first_command() -> (Project, Outcome) {
    let here = |path: &str| std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let project = Project::new()
        .file("fixtures/projects/greeting/greeting.py", here("fixtures/projects/greeting/greeting.py"))
        .file("fixtures/cassettes/greeting.jsonl", here("fixtures/cassettes/greeting.jsonl"));
    let words = first_command();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = project.qwen(&words);
    (project, outcome)
}

#[test]
fn the_first_command_of_the_readme_prints_its_patch_and_changes_nothing() {
    let (project, outcome) = run_first_command();
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stdout.contains("-    return f\"Helo, {name}!\""), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("+    return f\"Hello, {name}!\""), "{}", outcome.stdout);
    assert!(project.read("fixtures/projects/greeting/greeting.py").contains("Helo"));
}

#[test]
fn a_recording_whose_request_was_edited_is_66_with_file_and_line() {
    let tasks = tasks();
    let task = tasks.iter().find(|task| cassette(&task.name).exists()).unwrap();
    let recorded = std::fs::read_to_string(cassette(&task.name)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("edited.jsonl");
    let edited = recorded.replacen("You are qwen", "You are Qwen", 1);
    assert_ne!(edited, recorded);
    std::fs::write(&file, edited).unwrap();
    let (outcome, _) = replay(task, &file);
    assert_eq!(outcome.code, 66, "{}", outcome.stderr);
    let line = recorded.lines().position(|line| line.contains("You are qwen")).unwrap() + 1;
    let place = format!("edited.jsonl:{line}: the request was edited after it was recorded");
    assert!(outcome.stderr.contains(&place), "{}", outcome.stderr);
}
