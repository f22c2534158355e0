//! Tests that the output formats are renderings of one stream, so they cannot disagree.

use serde_json::{Value, json};

use crate::support::{Outcome, Project, Reply, call, say};

fn script() -> Vec<Reply> {
    vec![
        call("edit", json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"})),
        say("\u{1b}[31mchanged\u{1b}[0m it\n--- a fake header\n::error::not a command"),
    ]
}

fn run(arguments: &[&str], github: bool) -> Outcome {
    let mut project = Project::new().file("a.txt", "one\n").git().model(script());
    if github {
        project = project.env("GITHUB_ACTIONS", "true").env("CI", "true");
    }
    let outcome = project.run(arguments);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    outcome
}

/// Leaves out what differs between two runs of the same conversation.
fn settled(mut result: Value) -> Value {
    let object = result.as_object_mut().expect("a result is an object");
    for key in ["run_id", "session_id", "uuid", "seq", "parent_tool_use_id", "duration_ms", "duration_api_ms", "stats"]
    {
        object.remove(key);
    }
    object["changes"]["base"] = Value::Null;
    object["budget"]["spent"]["wall_time_ms"] = Value::Null;
    result
}

#[test]
fn every_json_format_ends_in_the_same_result() {
    let result: Value = serde_json::from_str(&run(&["-o", "result", "x"], false).stdout).unwrap();
    let array: Vec<Value> = serde_json::from_str(&run(&["-o", "json", "x"], false).stdout).unwrap();
    let lines = run(&["-o", "stream-json", "x"], false);
    let stream: Vec<Value> = lines.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(settled(result.clone()), settled(array.last().unwrap().clone()));
    assert_eq!(settled(result.clone()), settled(stream.last().unwrap().clone()));
    assert_eq!(settled(result), settled(lines.result));
    assert_eq!(array.len(), stream.len());
    assert_eq!(stream[0]["subtype"], "init");
    let calls: Vec<&Value> = stream.iter().filter(|message| message["type"] == "user").collect();
    assert_eq!(calls.len(), 1, "each call has exactly one result");
}

#[test]
fn text_is_the_answer_and_the_patch_without_control_characters() {
    let outcome = run(&["x"], false);
    assert!(!outcome.stdout.contains('\u{1b}') && !outcome.stderr.contains('\u{1b}'));
    assert!(outcome.stdout.contains("\n --- a fake header\n"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("\ndiff --git a/a.txt b/a.txt\n"), "{}", outcome.stdout);
}

#[test]
fn nothing_that_a_ci_runner_would_obey_is_printed() {
    let outcome = run(&["x"], true);
    for stream in [&outcome.stdout, &outcome.stderr] {
        let obeyed = stream.lines().filter(|line| line.trim_start().starts_with("::error"));
        assert_eq!(obeyed.count(), 0, "{stream}");
    }
}

#[test]
fn the_events_file_holds_one_decision_a_call() {
    let project = Project::new().file("a.txt", "one\n").git().model(script());
    let events = project.beside("events.jsonl").display().to_string();
    assert_eq!(project.run(&["--events-file", &events, "x"]).code, 0);
    let text = std::fs::read_to_string(events).unwrap();
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let decided: Vec<&Value> = events.iter().filter(|event| event["event"] == "decided").collect();
    assert_eq!(decided.len(), 1);
    assert_eq!(decided[0]["allowed"], true);
    assert_eq!(events.iter().filter(|event| event["event"] == "run_finished").count(), 1);
}

#[test]
fn what_goes_to_a_stream_that_is_a_file_follows_what_is_there() {
    let project = Project::new().file("a.txt", "one\n").git().model(script());
    let path = project.beside("all.txt");
    let mut file = std::fs::File::create(&path).unwrap();
    std::io::Write::write_all(&mut file, b"before\n").unwrap();
    let mut command = project.command(&["run", "-q", "--patch-file", "/dev/stdout", "x"]);
    let status = command.stdout(file.try_clone().unwrap()).stderr(std::process::Stdio::null()).status().unwrap();
    assert!(status.success());
    std::io::Write::write_all(&mut file, b"after\n").unwrap();
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.starts_with("before\n") && text.ends_with("after\n"), "{text}");
    assert!(text.contains("diff --git") && text.contains("changed"), "{text}");
}

#[test]
fn files_that_flags_name_are_written_and_not_part_of_the_changes() {
    let project = Project::new().file("a.txt", "one\n").git().model(script());
    let outcome = project.run(&["--patch-file", "out.patch", "--summary-file", "out.md", "x"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(project.read("out.patch"), outcome.result["changes"]["patch"].as_str().unwrap());
    assert_eq!(outcome.result["changes"]["files"].as_array().unwrap().len(), 1);
    assert!(project.root().join("out.md").exists());
}
