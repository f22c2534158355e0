//! Tests faults of machine and network: the documented code, a message, and an unchanged tree.

use std::process::Command;

use serde_json::json;

use crate::support::{Outcome, Project, Reply, call, say};

fn write(content: &str) -> Reply {
    call("write_file", json!({"file_path": "big.txt", "content": content}))
}

/// Runs the program in a mount namespace in which `prepare` has been done to the workspace; `None`, said aloud, where
/// the kernel gives no such namespace.
fn run_in_namespace(project: &Project, prepare: &str, arguments: &[&str]) -> Option<Outcome> {
    let works = Command::new("unshare").args(["-Urm", "true"]).status().is_ok_and(|status| status.success());
    if !works {
        eprintln!("SKIPPED: no unprivileged namespaces here");
        return None;
    }
    let plain = project.command(&[]);
    let mut command = Command::new("unshare");
    command
        .args(["-Urm", "sh", "-c"])
        .arg(format!("{prepare} && cd . && exec \"$@\""))
        .arg("sh")
        .arg(plain.get_program());
    let file = project.beside("result.json").display().to_string();
    command.args(["run", "--result-file", &file]).args(arguments).current_dir(project.root()).env_clear();
    for (name, value) in plain.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    command
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    Some(project.finish(command.spawn().expect("unshare starts")))
}

#[test]
fn a_disk_that_fills_up_while_delivering_is_63_and_taken_back() {
    let big = "x".repeat(300_000);
    let project = Project::new().file("a.txt", "one\n").model([write(&big), say("done")]);
    let root = project.root().display().to_string();
    // The workspace is a small disk of its own, with the project's file on it.
    let prepare = format!("mount -t tmpfs -o size=128k tmpfs {root} && cd {root} && echo one > a.txt");
    let Some(outcome) = run_in_namespace(&project, &prepare, &["--apply", "write it"]) else { return };
    assert_eq!(outcome.code, 63, "{}", outcome.stderr);
    assert_eq!(outcome.result["exit_reason"], "conflict");
    assert_eq!(outcome.result["changes"]["applied"], false);
    assert!(outcome.stderr.contains("disk") || outcome.stderr.contains("space"), "{}", outcome.stderr);
}

#[test]
fn a_read_only_tree_is_63_before_any_request() {
    let project = Project::new().file("a.txt", "one\n").model([write("x"), say("done")]);
    let root = project.root().display().to_string();
    let prepare = format!("mount --bind {root} {root} && mount -o remount,ro,bind {root} && cd {root}");
    let Some(outcome) = run_in_namespace(&project, &prepare, &["--apply", "write it"]) else { return };
    assert_eq!(outcome.code, 63, "{}", outcome.stderr);
    assert_eq!(project.server().requests().len(), 0);
}

#[test]
fn a_read_only_tree_is_no_hindrance_to_a_dry_run() {
    let project = Project::new().file("a.txt", "one\n").model([write("x"), say("done")]);
    let root = project.root().display().to_string();
    let prepare = format!("mount --bind {root} {root} && mount -o remount,ro,bind {root} && cd {root}");
    let Some(outcome) = run_in_namespace(&project, &prepare, &["-o", "patch", "write it"]) else { return };
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stdout.contains("+x"), "{}", outcome.stdout);
}

#[test]
fn a_connection_that_breaks_is_tried_again() {
    let project = Project::new().file("a.txt", "one\n").model([Reply::Hangup, say("fine")]);
    let outcome = project.run(&["hi"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(outcome.result["result"], "fine");
}

#[test]
fn a_stream_that_ends_in_the_middle_of_a_call_executes_nothing_of_it() {
    let half = "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":\
        {\"name\":\"write_file\",\"arguments\":\"{\\\"file_path\\\":\\\"half.txt\\\",\\\"content\\\":\\\"ha\"}}]}}]}\n\n";
    let project = Project::new().file("a.txt", "one\n").model([Reply::Bytes(half.into()), say("fine")]);
    let outcome = project.run(&["write it"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(outcome.result["num_tool_calls"], 0);
    assert_eq!(outcome.result["changes"]["files"], json!([]));
}

#[test]
fn a_rate_limit_is_waited_for_and_counted() {
    let slow = r#"{"error":{"message":"slow down","type":"rate_limit_error"}}"#;
    let project = Project::new()
        .file("a.txt", "one\n")
        .model([Reply::Status(429, vec![("retry-after-ms", "20".into())], slow.into()), say("fine")]);
    let outcome = project.run(&["hi"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(outcome.result["retries"][0]["class"], "rate_limit");
    assert_eq!(outcome.result["usage"]["requests"], 2);
}

#[test]
fn no_home_and_no_path_are_no_crash() {
    let project = Project::new().file("a.txt", "one\n").model([say("fine")]);
    let mut command = project.command(&["run", "hi"]);
    command.env_remove("HOME").env_remove("PATH").stdin(std::process::Stdio::null());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_command_that_writes_changes_nothing_in_a_dry_run() {
    let policy = "version: 1\nname: x\nextends: builtin:edit\ntools: {allow: [run_shell_command]}\n\
        shell: {allow: [{cmd: [cp]}, {cmd: [rm]}, {cmd: [git, [add, commit]]}]}\n";
    let project = Project::new().file("a.txt", "one\n").file("b.txt", "two\n").git().policy(policy).model([
        call("run_shell_command", json!({"command": "cp a.txt c.txt && rm b.txt"})),
        call("run_shell_command", json!({"command": "git add -A . && git commit -q -m wip"})),
        say("done"),
    ]);
    let before = project.snapshot();
    let outcome = project.run(&["copy it"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(project.snapshot(), before, "tree, index and .git are untouched");
    let kinds: Vec<String> = outcome.result["changes"]["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| format!("{} {}", file["kind"].as_str().unwrap(), file["path"].as_str().unwrap()))
        .collect();
    assert_eq!(kinds, ["deleted b.txt", "added c.txt"]);
}
