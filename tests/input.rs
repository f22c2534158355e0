//! Tests where the prompt comes from, and which parts of the project are sent with it.

use serde_json::{Value, json};

use crate::support::{Outcome, Project, call, say};

fn project() -> Project {
    Project::new()
        .file("src/a.py", "def first():\n    return 1\n")
        .file("docs/b.md", "# B\n")
        .file("private.pem", "SECRET=1\n")
        .git()
        .model([say("ok"), say("ok")])
}

#[track_caller]
fn asked(project: &Project, outcome: &Outcome) -> String {
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let requests = project.server().requests();
    let last = requests.last().expect("a request was sent");
    content(&last["messages"][1]["content"])
}

fn content(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}

#[test]
fn words_are_joined_and_come_last() {
    let project = project();
    let text = asked(&project, &project.run(&["say", "hello", "twice"]));
    assert!(text.ends_with("say hello twice"), "{text}");
}

#[test]
fn standard_input_comes_before_the_prompt() {
    let project = project().stdin("a line of input\n");
    let text = asked(&project, &project.run(&["-p", "what is this?"]));
    assert!(text.ends_with("a line of input\n\nwhat is this?"), "{text}");
}

#[test]
fn standard_input_alone_is_a_prompt() {
    let project = project().stdin("do it");
    let text = asked(&project, &project.run(&[]));
    assert!(text.ends_with("do it"), "{text}");
}

#[test]
fn a_prompt_file_is_taken_as_it_stands() {
    let project = project();
    std::fs::write(project.beside("p.txt"), "mail me @src/a.py").unwrap();
    let file = project.beside("p.txt").display().to_string();
    let text = asked(&project, &project.run(&["--prompt-file", &file]));
    assert!(text.ends_with("mail me @src/a.py") && !text.contains("def first"), "{text}");
}

#[test]
fn a_path_behind_an_at_sign_is_included() {
    let project = project();
    let text = asked(&project, &project.run(&["explain @src/a.py"]));
    assert!(text.contains("def first()") && text.ends_with("explain src/a.py"), "{text}");
}

#[test]
fn an_at_sign_before_no_path_stays_text_with_a_warning() {
    let project = project();
    let outcome = project.run(&["ask @nobody"]);
    assert!(asked(&project, &outcome).ends_with("ask @nobody"));
    assert!(outcome.stderr.contains("@nobody"), "{}", outcome.stderr);
    let strict = project.run(&["--strict", "ask @nobody"]);
    assert_eq!(strict.code, 42, "{}", strict.stderr);
}

#[test]
fn what_may_not_be_read_is_not_included() {
    let project = project();
    let outcome = project.run(&["explain @private.pem"]);
    assert!(!project.server().bodies().iter().any(|body| String::from_utf8_lossy(body).contains("SECRET=1")));
    assert!(matches!(outcome.code, 0 | 60), "{}", outcome.code);
}

#[test]
fn a_small_file_that_the_prompt_names_is_shown() {
    let project = project();
    let text = asked(&project, &project.run(&["Fix src/a.py please"]));
    assert!(text.contains("--- src/a.py ---\ndef first()"), "{text}");
    assert!(text.contains("docs/b.md"), "the listing names the files: {text}");
    assert!(!text.contains("SECRET"), "{text}");
}

#[test]
fn two_readers_of_standard_input_are_a_usage_error() {
    let project = project().stdin("x");
    let outcome = project.run(&["--prompt-file", "-", "--file", "-"]);
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
}

#[test]
fn one_word_that_names_a_recipe_file_is_a_usage_error_with_a_hint() {
    let project = project();
    let outcome = project.run(&["fix-lint.yaml"]);
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("--recipe"), "{}", outcome.stderr);
}

#[test]
fn the_key_goes_to_the_server_and_nowhere_else() {
    let project = project().env("QWEN_API_KEY", "sk-very-secret-0123456789");
    let events = project.beside("events.jsonl").display().to_string();
    let outcome = project.run(&["-vv", "--events-file", &events, "hi"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(project.server().heads()[0].contains("sk-very-secret-0123456789"));
    let written = std::fs::read_to_string(&events).unwrap();
    for text in [&outcome.stdout, &outcome.stderr, &outcome.result.to_string(), &written] {
        assert!(!text.contains("sk-very-secret"), "{text}");
    }
}

#[test]
fn a_file_of_an_included_folder_can_be_read_and_not_written() {
    let project = Project::new().file("a.txt", "one\n").git();
    std::fs::create_dir(project.beside("lib")).unwrap();
    std::fs::write(project.beside("lib/x.txt"), "outside\n").unwrap();
    let path = project.beside("lib/x.txt").canonicalize().unwrap().display().to_string();
    let project = project.model([
        call("read_file", json!({"file_path": path})),
        call("write_file", json!({"file_path": path, "content": "mine"})),
        say("ok"),
    ]);
    let folder = project.beside("lib").display().to_string();
    let outcome = project.run(&["--include-directories", &folder, "look"]);
    assert_eq!(outcome.code, 60, "{}", outcome.stderr);
    let requests = project.server().requests();
    assert!(requests[1]["messages"].to_string().contains("outside\\n"), "{}", requests[1]["messages"]);
    assert_eq!(std::fs::read_to_string(project.beside("lib/x.txt")).unwrap(), "outside\n");
}

#[test]
fn a_missing_directory_of_the_settings_is_named_with_its_place_by_a_run_and_by_the_doctor() {
    let project = Project::new().git().model([say("done")]);
    std::fs::create_dir_all(project.home().join(".qwen")).unwrap();
    let settings = "{\n  \"context\": {\"includeDirectories\": [\"/nope\"]}\n}\n";
    std::fs::write(project.home().join(".qwen/settings.json"), settings).unwrap();
    let (run, doctor) = (project.run(&["look"]), project.qwen(&["doctor"]));
    assert_eq!((run.code, doctor.code), (52, 52), "{}{}", run.stderr, doctor.stdout);
    for said in [run.stderr, doctor.stdout] {
        assert!(said.contains("settings.json:2:") && said.contains("context.includeDirectories: /nope: "), "{said}");
    }
}

#[test]
fn a_range_of_lines_that_is_none_is_said_of_a_file_that_is_there() {
    for range in ["5-2", "a-b"] {
        let outcome = project().run(&["--file", &format!("src/a.py:{range}"), "look"]);
        let why = format!("`{range}` is not a range of lines");
        assert!(outcome.code == 42 && outcome.stderr.contains(&why), "{}", outcome.stderr);
    }
}
