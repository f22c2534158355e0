//! Tests the check before delivery: each refusal names the path and the call that changed it, and nothing is delivered.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::json;

use crate::support::{Project, Reply, call, say};

/// One way to be refused.
struct Case {
    /// Keys of the policy next to those of `builtin:open`.
    policy: &'static str,
    /// The call, and what the refusal names it by.
    calls: Vec<Reply>,
    by: &'static str,
    /// What else the refusal says: the path and the rule.
    says: &'static [&'static str],
    code: i32,
}

fn write(path: &str, content: &str) -> Reply {
    call("write_file", json!({"file_path": path, "content": content}))
}

fn script(text: &str) -> Vec<Reply> {
    vec![write("tool.sh", &format!("{text}\n")), call("run_shell_command", json!({"command": "sh tool.sh"}))]
}

fn project(policy: &str) -> Project {
    Project::new()
        .file("a.txt", "one\n")
        .file("tool.sh", "\n")
        .file("nested/.git/HEAD", "ref: refs/heads/main\n")
        .file("nested/b.txt", "b\n")
        .git()
        .policy(&format!("version: 1\nname: x\nextends: builtin:open\nchanges: apply\n{policy}"))
}

#[test]
fn what_the_gate_finds_is_60_with_path_and_call_and_nothing_is_delivered() {
    let big = "0123456789abcdef\n".repeat(40);
    let cases = [
        Case {
            policy: "paths: {write: {allow: ['**'], max_files: 1}}\n",
            calls: vec![write("a.txt", "two\n"), write("b.txt", "x\n")],
            by: "write_file: b.txt",
            says: &["2 files changed; at most 1 may be", "b.txt (changed by"],
            code: 60,
        },
        Case {
            policy: "paths: {write: {allow: ['**'], max_bytes: 300B}}\n",
            calls: vec![write("a.txt", "two\n"), write("big.txt", &big)],
            by: "write_file: big.txt",
            says: &["at most 300 are allowed", "big.txt"],
            code: 60,
        },
        Case {
            policy: "",
            calls: vec![write("a.txt", "two\n"), write("key.txt", "AKIA0123456789ABCDEF\n")],
            by: "write_file: key.txt",
            says: &["key.txt: the change adds a secret"],
            code: 60,
        },
        Case {
            policy: "",
            calls: vec![write("a.txt", "two\n"), write("nested/b.txt", "x\n")],
            by: "write_file: nested/b.txt",
            says: &["nested/b.txt: it is in a submodule or another repository"],
            code: 60,
        },
    ];
    for case in cases {
        let mut replies = case.calls;
        replies.push(say("done"));
        let project = project(case.policy).model(replies);
        let before = project.tree();
        let outcome = project.run(&["--apply", "do it"]);
        assert_eq!(outcome.code, case.code, "{}: {} {}", case.by, outcome.stderr, outcome.result);
        let message = outcome.result["error"]["message"].as_str().unwrap();
        assert!(message.contains(&format!("(changed by {})", case.by)), "{message}");
        for part in case.says {
            assert!(message.contains(part), "{part}: {message}");
        }
        assert_eq!(outcome.result["changes"]["applied"], false);
        assert_eq!(project.tree(), before, "{}", case.by);
    }
}

#[test]
fn what_a_command_may_not_change_is_a_denial_with_path_and_call() {
    let cases = [
        ("paths: {write: {allow: [tool.sh, 'src/**']}}\n", "echo two > a.txt", "the change to a.txt was undone"),
        ("", "mkdir -p .github/workflows; echo x > .github/workflows/x.yml", ".github/workflows/x.yml"),
        ("", "echo x > .env", "the change to .env was undone"),
        ("paths: {write: {allow: ['**'], exec_bit: false}}\n", "chmod +x a.txt", "`a.txt`: it becomes executable"),
        ("paths: {write: {allow: ['**'], symlinks: false}}\n", "ln -s a.txt link", "`link`: it is a symbolic link"),
        ("paths: {write: {allow: ['**'], delete: false}}\n", "rm a.txt", "`a.txt`: deleting is not allowed"),
        (
            "paths: {write: {allow: ['**'], create: false}}\n",
            "echo x > new.txt",
            "`new.txt`: new files are not allowed",
        ),
    ];
    for (policy, text, says) in cases {
        let mut replies = script(text);
        replies.push(say("done"));
        let project = project(policy).model(replies);
        let before = project.tree();
        let outcome = project.run(&["--apply", "do it"]);
        assert_eq!(outcome.code, 60, "{text}: {} {}", outcome.stderr, outcome.result["permission_denials"]);
        let denials = outcome.result["permission_denials"].as_array().unwrap();
        assert_eq!(denials.len(), 1, "{denials:#?}");
        assert_eq!(denials[0]["tool_name"], "run_shell_command");
        assert_eq!(denials[0]["tool_input"]["command"], "sh tool.sh");
        let reason = denials[0]["reason"].as_str().unwrap();
        assert!(reason.contains(says), "{reason}");
        let answer = project.server().requests().last().unwrap().to_string();
        assert!(answer.contains("was undone"), "the model is told: {answer}");
        // Only what the policy allows, the script itself, is delivered.
        let others = |tree: BTreeMap<PathBuf, (u32, Vec<u8>)>| {
            tree.into_iter().filter(|(path, _)| !path.ends_with("tool.sh")).collect::<Vec<_>>()
        };
        assert_eq!(others(project.tree()), others(before), "{text}");
    }
}

#[test]
fn a_base_that_moved_is_63_and_nothing_is_delivered() {
    let project = project("").model([write("a.txt", "two\n"), say("done")]);
    let result = project.beside("dry.json").display().to_string();
    let outcome = project.run(&["--dry-run", "do it"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    std::fs::copy(project.beside("result.json"), &result).unwrap();
    let project = project.file("a.txt", "meanwhile\n");
    project.run_git(&["commit", "-qam", "meanwhile"]);
    let before = project.tree();
    let outcome = project.qwen(&["apply", &result]);
    assert_eq!(outcome.code, 63, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("a.txt"), "{}", outcome.stderr);
    assert_eq!(project.tree(), before);
}

#[test]
fn a_decision_record_names_rule_line_effects_tier_and_policy() {
    let project = project("shell: {default: deny, allow: [{cmd: [cat]}]}\n").model([
        call("run_shell_command", json!({"command": "cat a.txt"})),
        call("run_shell_command", json!({"command": "id"})),
        say("done"),
    ]);
    let events = project.beside("events.jsonl").display().to_string();
    let outcome = project.run(&["--events-file", &events, "look"]);
    assert_eq!(outcome.code, 60, "{}", outcome.stderr);
    let text = std::fs::read_to_string(events).unwrap();
    let records: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let decided: Vec<_> = records.iter().filter(|record| record["event"] == "decided").collect();
    assert_eq!(decided.len(), 2, "{text}");
    assert_eq!(decided[0]["rule"], "shell.allow[0]");
    assert!(decided[0]["source"].as_str().unwrap().ends_with("policy.yaml:5"), "{}", decided[0]);
    assert!(decided[0]["effects"].to_string().contains("a.txt"), "{}", decided[0]);
    assert_eq!(decided[1]["allowed"], false);
    for record in decided {
        assert!(record["tier"].as_str().unwrap().starts_with('T'), "{record}");
        assert_eq!(record["policy_sha256"].as_str().unwrap().len(), 64, "{record}");
    }
}

#[test]
fn a_program_that_only_gets_another_name_does_not_become_one() {
    let project = Project::new().file("run.sh", "#!/bin/sh\n").git();
    std::fs::set_permissions(project.root().join("run.sh"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    project.run_git(&["commit", "-qam", "mode"]);
    let renamed = "diff --git a/run.sh b/go.sh\nsimilarity index 100%\nrename from run.sh\nrename to go.sh\n";
    std::fs::write(project.beside("c.patch"), renamed).unwrap();
    let apply =
        || project.qwen(&["apply", "--policy", "builtin:edit", &project.beside("c.patch").display().to_string()]);
    let moved = apply();
    assert_eq!(moved.code, 0, "{}", moved.stderr);
    let new =
        "diff --git a/new.sh b/new.sh\nnew file mode 100755\n--- /dev/null\n+++ b/new.sh\n@@ -0,0 +1 @@\n+#!/bin/sh\n";
    std::fs::write(project.beside("c.patch"), new).unwrap();
    let made = apply();
    assert!(made.code == 60 && made.stderr.contains("it becomes executable"), "{}", made.stderr);
}
