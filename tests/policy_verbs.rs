//! Tests `qwen policy …`: decisions before a run, and rules from a run.

use serde_json::{Value, json};

use crate::support::{Project, call, say};

#[test]
fn init_writes_a_policy_that_allows_the_recorded_run_and_not_its_like() {
    let shell = |command: &str| call("run_shell_command", json!({"command": command}));
    let script = || {
        [
            call("read_file", json!({"file_path": "src/a.txt"})),
            shell("git status && git log --oneline | head -3"),
            shell("cp src/a.txt src/b.txt"),
            call("edit", json!({"file_path": "src/a.txt", "old_string": "one", "new_string": "two"})),
            call("search_file_content", json!({"pattern": "two", "path": "src"})),
            say("done"),
        ]
    };
    let project = Project::new().file("src/a.txt", "one\n").git().model(script());
    let events = project.beside("events.jsonl").display().to_string();
    let recorded = project.run(&["--yolo", "--dry-run", "--events-file", &events, "do it"]);
    assert_eq!(recorded.code, 0, "{}", recorded.stderr);
    let written = project.qwen(&["policy", "init", "--from", &events]);
    assert_eq!(written.code, 0, "{}", written.stderr);
    assert!(!written.stdout.contains("stays denied"), "{}", written.stdout);

    let project = project.policy(&written.stdout).model(script());
    let again = project.run(&["do it"]);
    assert_eq!(again.code, 0, "{}\n{}", again.stderr, written.stdout);
    assert_eq!(again.result["changes"]["patch"], recorded.result["changes"]["patch"]);
    for command in ["git push", "git diff", "rm src/a.txt", "cp src/a.txt elsewhere"] {
        assert_eq!(project.qwen(&["policy", "check", "--", command]).code, 60, "{command}\n{}", written.stdout);
    }
}

#[test]
fn init_does_not_allow_what_the_recorded_run_was_denied() {
    let shell = |command: &str| call("run_shell_command", json!({"command": command}));
    let replies = [shell("git push origin main"), shell("git status"), say("done")];
    let project = Project::new().file("a.txt", "one\n").git().model(replies);
    let events = project.beside("events.jsonl").display().to_string();
    project.run(&["--yolo", "--dry-run", "--events-file", &events, "do it"]);
    let written = project.qwen(&["policy", "init", "--from", &events]).stdout;
    assert!(written.contains("# was denied: run_shell_command git push origin main: "), "{written}");
    assert!(written.contains(r#"{cmd: ["git", ["status"]]}"#), "{written}");
}

#[test]
fn explain_says_that_a_policy_of_the_repository_needs_approval() {
    let rules = "version: 1\nextends: builtin:default\nshell: {allow: [{cmd: [npm, run, deploy]}]}\n";
    let project = Project::new().file(".qwen/policy.yaml", rules).git();
    let explained = || project.qwen(&["policy", "explain", "--", "npm run deploy"]);
    let before = explained();
    let advice = ".qwen/policy.yaml only restricts until you approve it: qwen policy trust\n";
    assert!(before.code == 60 && before.stdout.contains(advice), "{}", before.stdout);
    assert_eq!(project.qwen(&["policy", "trust"]).code, 0);
    let after = explained();
    assert!(after.code == 0 && after.stdout.contains("\n  network: none; "), "{}", after.stdout);
}

#[test]
fn the_policy_of_the_how_to_works_in_a_clone_that_nobody_has_approved() {
    let page = include_str!("../docs/how-to/policy-for-my-project.md");
    let rules = page.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let replies = [call("edit", json!({"file_path": "src/a.rs", "old_string": "1", "new_string": "2"})), say("Done.")];
    let project = Project::new().file(".qwen/policy.yaml", rules).file("src/a.rs", "1\n").model(replies).git();
    let run = project.run(&["--apply", "go"]);
    assert_eq!((run.code, project.read("src/a.rs").as_str()), (0, "2\n"), "{}", run.stderr);
    let check = |words: &[&str]| project.qwen(&[&["policy", "check"], words, &["--", "cargo test"]].concat()).code;
    assert_eq!((check(&[]), check(&["--policy", ".qwen/policy.yaml"])), (60, 0), "named, the file is the operator's");
    assert_eq!(project.qwen(&["check", "change", "--staged"]).code, 0);
}

#[test]
fn the_tests_of_a_policy_that_extends_a_file_hold_in_a_clone_that_nobody_has_approved() {
    let base = "version: 1\nname: base\nextends: builtin:ci-dev\n";
    let rules = "version: 1\nname: x\nextends: {file: base.yaml, sha256: SUM}\ntests: [{allow: cargo test}, {deny: npm publish}]\n";
    let sum = qwen_run::base::digest::sha256(base.as_bytes());
    let project =
        Project::new().file(".qwen/base.yaml", base).file(".qwen/policy.yaml", rules.replace("SUM", &sum)).git();
    let check = project.qwen(&["check", "change", "--staged"]);
    assert_eq!(check.code, 0, "{}", check.stderr);
}

#[test]
fn init_says_what_is_wrong_with_its_input() {
    let project = Project::new().file("events.jsonl", "{\"event\":\"turn_started\",\"turn\":1}\nnonsense\n");
    let outcome = project.qwen(&["policy", "init", "--from", "events.jsonl"]);
    assert_eq!(outcome.code, 42);
    assert!(
        outcome.stderr.contains("events.jsonl:2:") && outcome.stderr.contains("--events-file"),
        "{}",
        outcome.stderr
    );
    let project = Project::new().file("events.jsonl", "{\"event\":\"turn_started\",\"turn\":1}\n");
    let outcome = project.qwen(&["policy", "init", "--from", "events.jsonl"]);
    assert!(outcome.code == 42 && outcome.stderr.contains("no tool call"), "{}", outcome.stderr);
}

#[test]
fn a_wrong_line_of_calls_is_denied_and_named_and_the_others_are_judged() {
    let good = r#"{"id":"1","tool":"run_shell_command","input":{"command":"git status"}}"#;
    let project = Project::new().file("calls.jsonl", format!("{good}\n\n{{\"id\": oops}}\n{{\"id\":\"4\"}}\n{good}\n"));
    let outcome = project.qwen(&["policy", "check", "--calls", "calls.jsonl"]);
    assert_eq!(outcome.code, 60);
    let answers: Vec<Value> = outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let decisions: Vec<&str> = answers.iter().map(|answer| answer["decision"].as_str().unwrap()).collect();
    assert_eq!(decisions, ["allow", "deny", "deny", "allow"]);
    assert!(answers[1]["reason"].as_str().unwrap().starts_with("line 3 is not JSON: "), "{}", answers[1]);
    assert_eq!(answers[2]["reason"], "line 4 does not name a tool");
    assert_eq!(answers[2]["id"], "4");
}

#[test]
fn test_warns_of_rules_that_do_not_mean_what_they_say() {
    let text = "version: 1\nname: x\nextends: builtin:ci-dev\npaths: {write: {allow: [\".github/**\", \"src/**\"]}}\n\
                shell:\n  allow:\n    - {cmd: [python]}\n    - {cmd: [rm]}\n    - {cmd: [deno, test]}\n  deny:\n    - {cmd: [rm]}\n\
                tests:\n  - {deny: \"rm a\"}\n";
    let project = Project::new().file("p.yaml", text);
    let outcome = project.qwen(&["policy", "test", "p.yaml"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let warnings: Vec<&str> = outcome.stdout.lines().filter(|line| line.starts_with("warning")).collect();
    assert_eq!(warnings.len(), 4, "{warnings:#?}");
    assert!(warnings[0].contains("python runs any code"), "{warnings:#?}");
    assert!(warnings[2].contains("can never match"), "{warnings:#?}");
    assert!(warnings[3].contains(".github/**` is protected"), "{warnings:#?}");
    assert!(outcome.stdout.contains("1 passed, 0 failed"), "{}", outcome.stdout);
}

#[test]
fn test_warns_of_each_rule_that_can_never_match() {
    let text = "version: 1\nname: x\n\
        tools:\n  allow: [read_file, reading, web_fetch]\n  deny: [WebFetch]\n\
        paths:\n  read: {allow: ['**'], deny: ['private/**']}\n  write:\n    allow: [src/**, docs/**]\n    deny: ['docs/**']\n\
        network:\n  allow:\n    - {host: docs.rs}\n    - {host: \"https://a.example\"}\n    - {host: 10.0.0.1}\n    - {host: api.b.example}\n  deny: [{host: '*.b.example'}]\n\
        shell:\n  allow:\n    - {cmd: [git, [push, status]]}\n    - {cmd: [git, push]}\n    - {cmd: [sudo]}\n    - {cmd: [eval]}\n    - {cmd: [cargo, test]}\n  deny:\n    - {cmd: [git, push]}\n    - {cmd: [cargo], options: {deny: [--release]}}\n";
    let project = Project::new().file("p.yaml", text);
    let outcome = project.qwen(&["policy", "test", "p.yaml"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let warnings: Vec<&str> = outcome.stdout.lines().filter(|line| line.starts_with("warning")).collect();
    insta::assert_snapshot!(warnings.join("\n"), @r"
    warning p.yaml:21: this can never match: shell.deny[0] denies it
    warning p.yaml:22: this can never match: sudo is decided by built-in rules
    warning p.yaml:23: this can never match: eval is decided by built-in rules
    warning p.yaml:4: this can never match: unknown tool `reading`
    warning p.yaml:4: this can never match: tools.deny[0] denies web_fetch
    warning p.yaml:14: this can never match: `https://a.example` is not a host name
    warning p.yaml:15: this can never match: `10.0.0.1` is not a host name
    warning p.yaml:16: this can never match: network.deny[0] denies it
    warning p.yaml:9: this can never match: paths.write.deny[0] denies it
    ");
}

#[test]
fn a_policy_of_a_recorded_run_with_the_web_allows_its_hosts_and_no_others() {
    let project = Project::new().file("a.txt", "one\n").git().model([
        call("read_file", json!({"file_path": "a.txt"})),
        call("web_fetch", json!({"url": "https://docs.nowhere.invalid/page", "prompt": "what does it say"})),
        say("done"),
    ]);
    let events = project.beside("events.jsonl").display().to_string();
    let recorded = project.run(&["--yolo", "--dry-run", "--on-deny", "continue", "--events-file", &events, "do it"]);
    assert_eq!(recorded.code, 0, "{}", recorded.stderr);
    let written = project.qwen(&["policy", "init", "--from", &events]);
    assert_eq!(written.code, 0, "{}", written.stderr);
    let project = project.policy(&written.stdout);
    for (url, code) in [
        ("https://docs.nowhere.invalid/page", 0),
        ("https://docs.nowhere.invalid/other", 0),
        ("https://nowhere.invalid/page", 60),
        ("http://docs.nowhere.invalid/page", 60),
    ] {
        let input = json!({"url": url}).to_string();
        let outcome = project.qwen(&["policy", "check", "--tool", "web_fetch", "--input", &input]);
        assert_eq!(outcome.code, code, "{url}: {}\n{}", outcome.stdout, written.stdout);
    }
}

#[test]
fn a_star_as_a_word_of_a_command_is_no_pattern_and_an_error_with_its_line() {
    for list in ["allow: [{cmd: [git, grep, '**']}]", "deny: [{cmd: [git, [push, '*']]}]"] {
        let project = Project::new().file("p.yaml", format!("version: 1\nname: p\nshell:\n  {list}\n"));
        let outcome = project.qwen(&["policy", "test", "p.yaml"]);
        let is_named = outcome.stderr.contains("p.yaml:4:") && outcome.stderr.contains("write the first words;");
        assert!(outcome.code == 52 && is_named, "{}", outcome.stderr);
    }
}
