//! Tests that a language's own check of a file that was just written tells the model of an error, where the policy allows it.

use serde_json::json;

use crate::support::{Project, Reply, call, say};

const OPEN_IF: &str = "if true; then echo x\n";

fn write(content: &str) -> Reply {
    call("write_file", json!({"file_path": "a.sh", "content": content}))
}

/// The answers to the calls, as the model reads them, and the outcome.
fn answers(project: Project, calls: Vec<Reply>, policy: &str) -> (Vec<String>, crate::support::Outcome) {
    let project = project.model(calls.into_iter().chain([say("done"), say("done")]));
    let outcome = project.run(&["--policy", policy, "go"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let request = project.server().requests().last().cloned().unwrap();
    let told = |message: &serde_json::Value| message["role"] == "tool";
    let messages = request["messages"].as_array().unwrap().iter().filter(|message| told(message));
    (messages.map(|message| message["content"].to_string()).collect(), outcome)
}

/// Below T2 no interpreter runs, a check neither.
fn is_isolated(outcome: &crate::support::Outcome) -> bool {
    !["sandbox T1", "sandbox T0"].iter().any(|tier| outcome.stderr.contains(tier))
}

#[test]
fn a_script_that_does_not_parse_is_told_with_its_place() {
    let project = Project::new().file("b.txt", "x\n").git();
    let (told, outcome) = answers(project, vec![write(OPEN_IF), write("echo x\n")], "builtin:ci-dev");
    if !is_isolated(&outcome) {
        return assert!(!told[0].contains("bash -n"), "{told:?}");
    }
    assert!(told[0].contains("`bash -n a.sh` says:") && told[0].contains("line 2"), "{told:?}");
    assert!(told[0].contains("Correct it."));
    assert!(!told[1].contains("bash -n"), "{told:?}");
    assert_eq!(outcome.result["changes"]["files"].as_array().unwrap().len(), 1);
}

#[test]
fn a_file_that_did_not_parse_before_is_not_spoken_of() {
    let project = Project::new().file("a.sh", OPEN_IF).git();
    let calls = vec![
        call("edit", json!({"file_path": "a.sh", "old_string": "echo x", "new_string": "echo y"})),
        call("edit", json!({"file_path": "a.sh", "old_string": "echo y", "new_string": "echo y; fi"})),
        call("edit", json!({"file_path": "a.sh", "old_string": "; fi", "new_string": ""})),
    ];
    let (told, outcome) = answers(project, calls, "builtin:ci-dev");
    assert!(!told[0].contains("bash -n") && !told[1].contains("bash -n"), "{told:?}");
    if !is_isolated(&outcome) {
        return;
    }
    assert!(told[2].contains("`bash -n a.sh`, which passed before this change, says:"), "{told:?}");
    let patch = outcome.result["changes"]["patch"].as_str().unwrap();
    assert!(patch.contains("+if true; then echo y\n"), "the changes are the model's: {patch}");
}

#[test]
fn nothing_runs_that_the_policy_does_not_allow() {
    let project = Project::new().file("b.txt", "x\n").git();
    let (told, outcome) = answers(project, vec![write(OPEN_IF)], "builtin:edit");
    assert!(!told[0].contains("bash -n"), "{told:?}");
    assert_eq!(outcome.result["permission_denials"], json!([]));
}

#[test]
fn an_answer_that_leaves_a_file_broken_is_questioned_once_and_then_told() {
    let project = Project::new().file("a.json", "{\"a\": 1}\n").git();
    let breaks = || call("edit", json!({"file_path": "a.json", "old_string": "1}", "new_string": "2"}));
    let project = project.model([breaks(), say("Done."), say("It is done.")]);
    let outcome = project.run(&["-p", "Set a to 2 in a.json", "--policy", "builtin:edit", "--output-format", "json"]);
    assert_eq!((outcome.code, outcome.result["result"].as_str()), (0, Some("Done.")), "{}", outcome.stderr);
    let asked = project.server().messages(2);
    assert!(asked.contains("a.json is still broken") && asked.contains("Set a to 2"), "{asked}");
    assert!(
        outcome.result["warnings"].to_string().contains("a.json is left so: This change broke the file"),
        "{}",
        outcome.result
    );

    let project = Project::new().file("a.json", "{\"a\": 1}\n").git();
    let mends = call("edit", json!({"file_path": "a.json", "old_string": "2", "new_string": "2}"}));
    let project = project.model([breaks(), say("Done."), mends, say("It is mended.")]);
    let outcome = project.run(&["-p", "Set a to 2 in a.json", "--policy", "builtin:edit", "--output-format", "json"]);
    assert_eq!((outcome.code, outcome.result["result"].as_str()), (0, Some("It is mended.")), "{}", outcome.stderr);
    assert!(!outcome.result.to_string().contains("is left so"), "{}", outcome.result);
}

#[test]
fn a_secret_in_what_a_check_says_does_not_reach_the_model() {
    let token = format!("ghp_{}", "0123456789abcdefghijABCDEFGHIJ012345");
    // At the end of what is shown of the check's message, too.
    for padding in [10, 560] {
        let line = format!("echo '{}' {token}", "x".repeat(padding));
        let project = Project::new().file("a.sh", format!("set -e\n{line}\n")).git();
        let breaks = call("edit", json!({"file_path": "a.sh", "old_string": "echo", "new_string": "done; echo"}));
        let project = project.model([breaks, say("Done."), say("It is done.")]);
        let outcome = project.run(&["-p", "Say done in a.sh", "--policy", "builtin:ci-dev"]);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        for request in project.server().requests() {
            assert!(!request.to_string().contains("ghp_0123"), "{request}");
        }
        assert!(!outcome.stderr.contains("ghp_0123"), "{}", outcome.stderr);
        if is_isolated(&outcome) {
            assert!(outcome.stderr.contains("is left so"), "{}", outcome.stderr);
            assert!(project.server().messages(2).contains("a.sh is still broken"), "padding {padding}");
        }
    }
}
