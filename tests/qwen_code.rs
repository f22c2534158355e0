//! Tests everything that Qwen Code accepts, tool by tool, flag by flag, key by key, field by field: it works here, or
//! from-qwen-code.md names it. The facts were recorded once, from the release that the file is named after.

use std::collections::BTreeSet;

use qwen_run::checkouts::Around;
use qwen_run::cli::usage::{self, UsageError};
use qwen_run::settings::{self, Environment, load::Request};
use qwen_run::tool_name::tool_listed;
use serde_json::{Value, json};

use crate::support::{Outcome, Project, Reply, calls, say};

const FACTS: &str = include_str!("../fixtures/qwen-code/0.24.4.json");
const PAGE: &str = include_str!("../docs/how-to/from-qwen-code.md");

fn facts() -> Value {
    serde_json::from_str(FACTS).unwrap()
}

/// Tells whether the page names something, as a whole or as one of `begin_*`, `begin-*` or `begin.*`.
fn is_on_the_page(name: &str) -> bool {
    let quoted = |name: &str| {
        let ends = |rest: &str| rest.starts_with(|c: char| !c.is_alphanumeric() && c != '-' && c != '_');
        PAGE.match_indices(name).any(|(at, _)| {
            let before = PAGE[..at].chars().next_back();
            before.is_some_and(|c| "`|/ ".contains(c)) && ends(&PAGE[at + name.len()..])
        })
    };
    let family = |at: usize| quoted(&format!("{}*", &name[..=at]));
    quoted(name) || name.match_indices(['_', '-', '.']).any(|(at, _)| family(at))
}

/// A value that the flag takes.
fn value_of(flag: &str) -> &'static str {
    match flag {
        "--approval-mode" => "yolo",
        "--auth-type" => "openai",
        "--input-format" | "--output-format" => "text",
        "--json-schema" => "{\"type\":\"object\"}",
        "--mcp-config" => "{}",
        "--telemetry-target" => "local",
        _ => "1",
    }
}

#[test]
fn every_flag_is_taken_or_refused_by_name() {
    let mut taken = 0;
    for fact in facts()["flags"].as_array().unwrap() {
        let flag = fact["flag"].as_str().unwrap();
        let spellings = [Some(flag), fact["short"].as_str()];
        for spelling in spellings.into_iter().flatten().filter(|flag| !matches!(*flag, "--help" | "--version" | "-h")) {
            let value = (fact["kind"] != "boolean").then(|| value_of(flag));
            let prompt: &[&str] =
                if matches!(flag, "--prompt" | "--prompt-interactive") { &[] } else { &["-p", "look"] };
            let words = ["qwen", spelling].into_iter().chain(value).chain(prompt.iter().copied());
            match usage::parse(words) {
                Ok(_) => taken += 1,
                Err(UsageError::Help(_)) => panic!("{spelling} is help"),
                Err(UsageError::Wrong { message, hint, .. }) => {
                    assert!(is_on_the_page(flag), "{flag} is refused ({message}), and the page does not name it");
                    let hint = hint.unwrap_or_default();
                    assert!(spelling.len() == 2 || hint.split(';').count() > 1, "{spelling}: {hint} is no pointer");
                }
            }
        }
    }
    assert!(taken >= 45, "{taken} spellings are taken");
}

#[test]
fn every_command_is_there_or_refused_by_name() {
    for command in facts()["commands"].as_array().unwrap() {
        let name = command.as_str().unwrap();
        match usage::parse(["qwen", name]) {
            Ok(_) => panic!("`qwen {name}` is a prompt"),
            Err(UsageError::Help(_)) => {}
            Err(UsageError::Wrong { message, .. }) => {
                let is_ours = message == "a command is missing";
                assert!(is_ours || (message.contains("a command of Qwen Code") && is_on_the_page(name)), "{name}");
            }
        }
    }
}

#[test]
fn every_name_of_a_tool_is_known_or_on_the_page() {
    for (name, canonical) in facts()["tool_names"].as_object().unwrap() {
        let canonical = canonical.as_str().unwrap();
        let known = tool_listed(name);
        assert!(known.is_some() || is_on_the_page(canonical), "{name} ({canonical}) is neither known nor on the page");
        // A class name means the tool that the name on the wire means.
        assert!(known == tool_listed(canonical) || canonical == "exec", "{name} is {known:?}");
    }
}

/// The settings file that holds one key alone.
fn file_with(key: &str, kind: &str) -> Value {
    let value = match kind {
        "boolean" => json!(false),
        "number" | "integer" => json!(1),
        "array" => json!([]),
        "object" => json!({}),
        _ => json!("x"),
    };
    key.rsplit('.').fold(value, |inner, name| json!({ name: inner }))
}

#[test]
fn every_key_of_the_settings_is_known_and_others_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    std::fs::create_dir_all(home.join(".qwen")).unwrap();
    let work = folder.path().join("work");
    std::fs::create_dir_all(&work).unwrap();
    let environment = Environment { home: Some(home.clone()), cwd: work.clone(), ..Environment::default() };
    let around = Around::new(&work, &work, Some(&home));
    let request = Request { project_root: work, around, ..Request::default() };
    let warnings = |file: &Value| {
        std::fs::write(home.join(".qwen/settings.json"), file.to_string()).unwrap();
        // A value of another type than we sampled is an error that knows the key.
        settings::load(&request, &environment).map_or_else(|error| vec![error.to_string()], |loaded| loaded.warnings)
    };
    let unknown = |file: &Value| warnings(file).iter().any(|warning| warning.contains("unknown key"));
    for fact in facts()["settings"].as_array().unwrap() {
        let (key, kind) = (fact[0].as_str().unwrap(), fact[1].as_str().unwrap());
        assert!(!unknown(&file_with(key, kind)), "{key}: {:?}", warnings(&file_with(key, kind)));
    }
    for key in ["modle", "tools.disabeld", "context.fileFiltering.ignore", "nobodys.key"] {
        assert!(unknown(&file_with(key, "string")), "{key}");
    }
}

/// An answer with text and a call.
fn both(text: &str, tool: &str, arguments: Value) -> Reply {
    Reply::Turn { text: text.into(), calls: vec![(tool.into(), arguments)] }
}

/// The three turns that the recorded run had.
fn turns() -> [Reply; 3] {
    [
        both("Let me look.", "read_file", json!({"file_path": "a.txt"})),
        calls([("glob", json!({"pattern": "*.txt"})), ("nope", json!({}))]),
        say("It says hello."),
    ]
}

fn messages(outcome: &Outcome) -> Vec<Value> {
    outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// Compares shapes; `*` stands for each key that there is. What the page says is not there is left out.
fn lacks(wanted: &Value, found: &Value, place: &str, lacking: &mut Vec<String>) {
    const NOT_THERE: [&str; 3] = ["bySource", "skills", "generation"];
    let Some(wanted) = wanted.as_object() else { return };
    for (key, inner) in wanted.iter().filter(|(key, _)| !NOT_THERE.contains(&key.as_str())) {
        let place = format!("{place}.{key}");
        match (key.as_str(), found.as_object(), found.get(key)) {
            ("*", Some(entries), _) if !entries.is_empty() => {
                entries.values().for_each(|entry| lacks(inner, entry, &place, lacking));
            }
            (_, _, Some(found)) => lacks(inner, found, &place, lacking),
            (_, _, None) => lacking.push(place),
        }
    }
}

#[test]
fn every_field_of_the_messages_is_there() {
    let project = Project::new().file("a.txt", "hello\n").git().model(turns());
    let outcome = project.qwen(&["-p", "look", "-o", "stream-json"]);
    let (facts, messages) = (facts(), messages(&outcome));
    let lacking = |wanted: &Value, found: &Value| {
        let found = keys(found);
        let wanted = wanted.as_array().unwrap().iter().map(|key| key.as_str().unwrap().to_owned());
        wanted.filter(|key| !found.contains(key.as_str())).collect::<Vec<_>>()
    };
    let none: [String; 0] = [];
    assert_eq!(lacking(&facts["init"], &messages[0]), none);
    let assistant = messages.iter().find(|message| message["type"] == "assistant").unwrap();
    assert_eq!(lacking(&facts["assistant"], &assistant["message"]), none);
    let result = messages.last().unwrap();
    assert_eq!(lacking(&facts["result"], result), none);
    assert_eq!(lacking(&facts["usage"], &result["usage"]), none);
    let mut missing = Vec::new();
    lacks(&facts["stats"], &result["stats"], "stats", &mut missing);
    assert_eq!(missing, none);
}

/// What a message is, as the facts name it.
fn kind(message: &Value) -> String {
    let event = &message["event"];
    let part = |part: &Value| format!("{}:{}", event["type"].as_str().unwrap(), part["type"].as_str().unwrap());
    match event["type"].as_str() {
        Some("content_block_delta") => part(&event["delta"]),
        Some("content_block_start") => part(&event["content_block"]),
        Some(other) => other.to_owned(),
        None => message["type"].as_str().unwrap().to_owned(),
    }
}

/// Where Qwen Code says one message a block, we say one with all of them: only the last of each message is kept. Pieces
/// of one block are one.
fn in_one(sequence: impl Iterator<Item = String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for kind in sequence {
        if kept.last() == Some(&kind) && kind.starts_with("content_block_delta") {
            continue;
        }
        if kept.last().is_some_and(|last| last == "assistant") && kind.starts_with("content_block_start") {
            kept.pop();
        }
        kept.push(kind);
    }
    kept
}

#[test]
fn pieces_of_answers_come_in_the_recorded_order() {
    let project = Project::new().file("a.txt", "hello\n").git().model(turns());
    let outcome = project.qwen(&["-p", "look", "-o", "stream-json", "--include-partial-messages"]);
    let messages = messages(&outcome);
    let ours = messages.iter().filter(|message| !matches!(message["type"].as_str(), Some("system" | "result")));
    let facts = facts();
    let recorded = facts["stream"].as_array().unwrap().iter().map(|kind| kind.as_str().unwrap().to_owned());
    assert_eq!(in_one(ours.map(kind)), in_one(recorded), "{}", outcome.stdout);
    let start = messages.iter().find(|message| message["event"]["type"] == "message_start").unwrap();
    assert_eq!(keys(&start["event"]["message"]), ["content", "id", "model", "role"].into_iter().collect());
    let assistant = messages.iter().find(|message| message["type"] == "assistant").unwrap();
    assert_eq!(start["event"]["message"]["id"], assistant["message"]["id"]);
    let input = messages.iter().find(|message| message["event"]["delta"]["type"] == "input_json_delta").unwrap();
    assert_eq!(input["event"]["delta"]["partial_json"], "{\"file_path\":\"a.txt\"}");
}
