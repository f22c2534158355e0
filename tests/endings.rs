//! Tests every way to end: its documented code, one result object, a message that says what to do, an unchanged tree.

use std::io::Read;
use std::process::Stdio;

use serde_json::json;

use crate::support::server::event;
use crate::support::{OUTPUT_FLAGS, Outcome, Project, Reply, call, say};

fn project() -> Project {
    Project::new().file("a.txt", "one\n").git()
}

fn edit() -> Reply {
    call("edit", json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"}))
}

#[track_caller]
fn assert_ended(outcome: &Outcome, code: i32, reason: &str, message: &str) {
    assert_eq!(outcome.code, code, "stdout: {}\nstderr: {}", outcome.stdout, outcome.stderr);
    assert_eq!(outcome.result["exit_code"], code);
    assert_eq!(outcome.result["exit_reason"], reason);
    assert_eq!(outcome.result["type"], "result");
    let said = outcome.result["error"]["message"].as_str().unwrap_or_default();
    assert!(said.contains(message), "{said}");
    assert!(outcome.stderr.contains(message), "{}", outcome.stderr);
    assert_eq!(outcome.result["changes"]["applied"], false);
}

#[test]
fn a_wrong_flag_is_2_with_a_result_in_the_format_that_was_asked_for() {
    let project = project();
    let outcome = project.qwen(&["run", "-o", "result", "--aply", "x"]);
    assert_eq!(outcome.code, 2);
    let result: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("one result object");
    assert_eq!(result["exit_code"], 2);
    assert!(outcome.stderr.contains("--aply") && outcome.stderr.contains("--apply"), "{}", outcome.stderr);
}

#[test]
fn no_key_is_41_and_says_which_variable_to_set() {
    let project = project();
    let outcome = project.run(&["hi"]);
    assert_ended(&outcome, 41, "auth", "key");
    assert!(outcome.stderr.contains("DASHSCOPE_API_KEY") || outcome.stderr.contains("QWEN_API_KEY"));
}

#[test]
fn a_dead_server_is_75() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let project = project().env("QWEN_BASE_URL", &format!("http://127.0.0.1:{port}/v1")).env("QWEN_MODEL", "m");
    let outcome = project.run(&["--retries", "0", "hi"]);
    assert_ended(&outcome, 75, "unavailable", &port.to_string());
}

#[test]
fn a_refused_key_is_41() {
    let body = r#"{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}"#;
    let project =
        project().model([Reply::Status(401, vec![], body.into())]).env("QWEN_API_KEY", "sk-secret-0123456789");
    let outcome = project.run(&["hi"]);
    assert_ended(&outcome, 41, "auth", "401");
    assert_eq!(project.server().requests().len(), 1, "a refused key is not tried again");
    assert!(
        !outcome.stderr.contains("sk-secret-0123456789")
            && !outcome.result.to_string().contains("sk-secret-0123456789")
    );
}

#[test]
fn a_server_that_stalls_is_75_by_the_idle_timer() {
    let project = project().model([Reply::Stall]);
    let outcome =
        project.run(&["--retries", "0", "--stream-idle-timeout", "300ms", "--request-timeout", "300ms", "hi"]);
    assert_ended(&outcome, 75, "unavailable", "");
}

#[test]
fn a_stalling_server_and_a_short_wall_time_is_55() {
    let project = project().model([Reply::Stall]);
    let outcome = project.run(&["--max-wall-time", "1s", "hi"]);
    assert_ended(&outcome, 55, "budget", "the time of 1 s is used up");
    assert_eq!(outcome.result["error"]["budget"]["kind"], "wall_time");
}

#[test]
fn a_command_a_hook_and_a_check_end_with_the_time_of_the_run() {
    let late = "sleep 30; touch late.txt";
    let command = call("run_shell_command", json!({"command": late, "timeout": 90_000}));
    let hook = json!({"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": late, "timeout": 90}]}]}});
    for (what, flags) in [("command", &[][..]), ("hook", &[]), ("check", &["--verify", late])] {
        let first = if what == "check" { edit() } else { command.clone() };
        let project = project().model([first, say("done")]);
        if what == "hook" {
            std::fs::create_dir_all(project.home().join(".qwen")).unwrap();
            std::fs::write(project.home().join(".qwen/settings.json"), hook.to_string()).unwrap();
        }
        let outcome = project.run(&[&["--yolo", "--max-wall-time", "2s"], flags, &["go"]].concat());
        assert_ended(&outcome, 55, "budget", "the time of 2 s is used up");
        // It was not waited for: a hook works in the project itself, the others change what is proposed.
        let is_there = project.root().join("late.txt").exists();
        assert!(!is_there && !outcome.result["changes"].to_string().contains("late.txt"), "{what}: {}", outcome.stderr);
    }
}

#[test]
fn a_file_that_changed_meanwhile_is_63_and_is_kept() {
    let project = project().file("a.txt", "dirty\none\n").model([edit(), say("done")]);
    let outcome = project.run(&["--apply", "edit it"]);
    assert_ended(&outcome, 63, "conflict", "a.txt");
    assert_eq!(project.read("a.txt"), "dirty\none\n");
    assert!(outcome.result["changes"]["patch"].as_str().unwrap().contains("+two"));
}

#[test]
fn a_commit_without_a_repository_is_63_before_any_request() {
    let project = Project::new().file("a.txt", "one\n").model([edit(), say("done")]);
    let outcome = project.run(&["--commit", "edit it"]);
    assert_ended(&outcome, 63, "conflict", "repository");
    assert_eq!(project.server().requests().len(), 0);
}

#[test]
fn an_unborn_branch_is_no_error() {
    let project = Project::new().file("a.txt", "one\n");
    project.run_git(&["init", "-q", "-b", "main", "."]);
    let project = project.model([edit(), say("done")]);
    let outcome = project.run(&["edit it"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(outcome.result["changes"]["base"], json!(null));
    assert!(outcome.result["changes"]["patch"].as_str().unwrap().contains("+two"));
}

#[test]
fn a_policy_with_a_typo_is_52_with_the_place_and_the_nearest_key() {
    let project = project().policy("version: 1\nname: x\ntools: {alow: [edit]}\n").model([edit(), say("done")]);
    let outcome = project.run(&["edit it"]);
    assert_ended(&outcome, 52, "config", "alow");
    assert!(outcome.stderr.contains("policy.yaml:3:") && outcome.stderr.contains("allow"), "{}", outcome.stderr);
    assert_eq!(project.server().requests().len(), 0);
}

#[test]
fn settings_with_a_wrong_type_are_52_with_line_and_column() {
    let project =
        project().file(".qwen/settings.json", "{\n  \"model\": {\"maxSessionTurns\": \"many\"}\n}\n").model([say("x")]);
    let outcome = project.run(&["hi"]);
    assert_ended(&outcome, 52, "config", "settings.json:2:");
}

#[test]
fn a_denied_call_is_60_and_stages_nothing() {
    let project = project().model([
        call("write_file", json!({"file_path": ".github/workflows/x.yml", "content": "x"})),
        say("I could not."),
    ]);
    let outcome = project.run(&["--apply", "add a workflow"]);
    assert_eq!(outcome.code, 60, "{}", outcome.stderr);
    assert_eq!(outcome.result["permission_denials"][0]["tool_name"], "write_file");
    assert_eq!(outcome.result["changes"]["files"], json!([]));
    assert!(!project.root().join(".github").exists());
    let answer = &project.server().requests()[1]["messages"];
    assert!(answer.to_string().contains("Denied by policy"), "{answer}");
}

#[test]
fn the_turn_limit_is_53() {
    let project =
        project().model([call("glob", json!({"pattern": "*"})), call("glob", json!({"pattern": "a*"})), say("x")]);
    let outcome = project.run(&["--max-session-turns", "2", "look around"]);
    assert_ended(&outcome, 53, "turns", "2");
    assert_eq!(outcome.result["subtype"], "error_max_turns");
}

#[test]
fn the_call_limit_is_55() {
    let project =
        project().model([call("glob", json!({"pattern": "*"})), call("glob", json!({"pattern": "a*"})), say("x")]);
    let outcome = project.run(&["--max-tool-calls", "1", "look around"]);
    assert_ended(&outcome, 55, "budget", "the only tool call allowed is used up");
}

#[test]
fn the_same_call_again_and_again_is_a_loop() {
    let project = project().model((0..6).map(|_| call("glob", json!({"pattern": "*"}))));
    let outcome = project.run(&["look around"]);
    assert_ended(&outcome, 1, "failed", "same call");
    assert_eq!(outcome.result["error"]["code"], "loop");
}

#[test]
fn a_call_that_is_cut_off_again_and_again_is_a_loop_too() {
    let cut = json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "glob", "arguments": "{\"patt"}}]});
    let end = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n";
    let project = project().model((0..6).map(|_| Reply::Bytes((event(&cut) + end).into_bytes())));
    let outcome = project.run(&["look around"]);
    assert_ended(&outcome, 1, "failed", "same call");
    assert_eq!(project.server().requests().len(), 5);
}

#[test]
fn required_changes_that_do_not_come_are_65() {
    let project = project().model([say("nothing to do"), say("really nothing")]);
    let outcome = project.run(&["--require-changes", "improve it"]);
    assert_eq!(outcome.code, 65, "{}", outcome.stderr);
    assert_eq!(outcome.result["conclusion"], "nothing_to_do");
}

#[test]
fn an_empty_prompt_is_42_or_2() {
    let project = project().model([say("x")]);
    let outcome = project.run(&[]);
    assert!(matches!(outcome.code, 2 | 42), "{}", outcome.code);
    assert_eq!(project.server().requests().len(), 0);
}

#[test]
fn an_interrupt_during_a_command_is_130_and_leaves_the_tree_as_it_was() {
    let project = project()
        .policy(
            "version: 1\nname: x\nextends: builtin:edit\ntools: {allow: [edit, run_shell_command]}\n\
             shell: {allow: [{cmd: [sleep], operands: data}]}\n",
        )
        .model([edit(), call("run_shell_command", json!({"command": "sleep 60"})), say("done")]);
    let before = project.tree();
    let file = project.beside("result.json").display().to_string();
    let child = project.spawn(&["run", "--apply", "--result-file", &file, "edit, then wait"]);
    project.server().wait_for(2);
    // The second answer is on its way: the command may or may not have started, both must end well.
    let pid = child.id().to_string();
    std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap();
    let outcome = project.finish(child);
    assert_ended(&outcome, 130, "interrupted", "");
    assert_eq!(project.tree(), before);
}

fn kill(signal: &str, child: &std::process::Child) {
    std::process::Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status().unwrap();
}

#[test]
fn every_signal_that_would_end_the_process_ends_the_run_in_order() {
    for (signal, code) in
        [("INT", 130), ("TERM", 143), ("HUP", 143), ("QUIT", 143), ("USR1", 143), ("ALRM", 143), ("XCPU", 143)]
    {
        let project = project().model([edit(), Reply::Stall]);
        let before = project.tree();
        let file = project.beside("result.json").display().to_string();
        let child = project.spawn(&["run", "--apply", "--result-file", &file, "edit it"]);
        project.server().wait_for(2);
        kill(signal, &child);
        let outcome = project.finish(child);
        assert_ended(&outcome, code, "interrupted", &format!("SIG{signal}"));
        assert_eq!(project.tree(), before, "{signal}");
        let mut left: Vec<_> =
            std::fs::read_dir(project.beside(".")).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["home", "result.json", "work"], "{signal}");
    }
}

#[test]
fn a_second_signal_ends_the_process_whatever_it_waits_for() {
    let big = call("write_file", json!({"file_path": "big.txt", "content": "x".repeat(300_000)}));
    let project = project().model([big, Reply::Stall]);
    let pipe = project.beside("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    // Somebody has it open and reads nothing: the result, with the patch in it, does not fit.
    let mut held = std::fs::File::options().read(true).write(true).open(&pipe).unwrap();
    let mut child = project.spawn(&["run", "--result-file", &pipe.display().to_string(), "write it"]);
    project.server().wait_for(2);
    kill("TERM", &child);
    // Once it writes the result, the first signal was noticed.
    let mut begin = [0; 16];
    held.read_exact(&mut begin).unwrap();
    assert_eq!(&begin, b"{\"type\":\"result\"");
    assert!(child.try_wait().unwrap().is_none(), "it ended although nobody reads");
    kill("TERM", &child);
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

#[test]
fn a_signal_ends_a_run_in_a_result_even_if_it_waits_for_a_file() {
    for flags in [&["--prompt-file"][..], &["hi", "--image"]] {
        let project = project().model([say("done")]);
        let pipe = project.beside("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let (pipe, file) = (pipe.display().to_string(), project.beside("result.json").display().to_string());
        let child = project.spawn(&[&["run", "--no-stdin", "--result-file", &file], flags, &[&pipe]].concat());
        // Opened once the run reads; nothing is ever written.
        let _held = std::fs::File::options().write(true).open(&pipe).unwrap();
        kill("TERM", &child);
        assert_ended(&project.finish(child), 143, "interrupted", "SIGTERM");
    }
}

#[test]
fn a_signal_that_was_ignored_at_the_start_stays_ignored() {
    let project = project().model([edit(), Reply::Stall]);
    let file = project.beside("result.json").display().to_string();
    let plain = project.command(&[]);
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]).arg(plain.get_program());
    command.args(["run", "--result-file", &file, "edit it"]).current_dir(project.root()).env_clear();
    for (name, value) in plain.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    project.server().wait_for(2);
    kill("HUP", &child);
    kill("TERM", &child);
    assert_ended(&project.finish(child), 143, "interrupted", "SIGTERM");
}

#[test]
fn a_file_that_may_not_grow_so_large_is_an_error_of_the_write() {
    let big = call("write_file", json!({"file_path": "big.txt", "content": "x".repeat(300_000)}));
    let project = project().model([big, say("done")]);
    let before = project.tree();
    let plain = project.command(&[]);
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "ulimit -f 64; exec \"$@\"", "sh"]).arg(plain.get_program());
    command.args(["run", "--apply", "-o", "result", "write it"]).current_dir(project.root()).env_clear();
    for (name, value) in plain.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let outcome = project.finish(child);
    let result: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!((outcome.code, &result["exit_reason"]), (63, &json!("conflict")), "{}", outcome.stderr);
    assert_eq!(project.tree(), before);
}

#[test]
fn a_closed_standard_output_is_no_panic() {
    let project = project().model([say("a long answer")]);
    let mut child = project
        .command(&["run", "hi"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    child.wait().unwrap();
    assert!(!stderr.contains("panicked"), "{stderr}");
}

#[test]
fn a_standard_output_that_nobody_reads_holds_up_neither_the_run_nor_its_ending() {
    // More than any pipe holds.
    let long: String = (0..400_000).map(|number| format!("{number} ")).collect();
    let project = Project::new().git().model([say(&long)]);
    let file = project.beside("result.json");
    let mut child = project.spawn(&["run", "--result-file", &file.display().to_string(), "hi"]);
    while !file.exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended without a result");
        std::thread::yield_now();
    }
    // The run is done; what is left is to be read.
    std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));

    let project = Project::new().git().model([say(&long)]);
    let read = project.run(&["hi"]);
    assert_eq!((read.code, read.stdout.trim()), (0, long.trim()));
}

#[test]
fn a_file_that_cannot_be_written_ends_the_run_before_the_first_request() {
    for flag in OUTPUT_FLAGS {
        for wrong in ["no/such/directory.json", ".", "/dev/none"] {
            let project = project().model([say("a long answer")]);
            let before = project.tree();
            let outcome = project.qwen(&["run", "-o", "result", flag, wrong, "--apply", "hi"]);
            let result: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
            assert_eq!((outcome.code, result["error"]["code"].as_str()), (1, Some("output")), "{}", outcome.stderr);
            assert!(outcome.stderr.contains(flag) && outcome.stderr.contains(wrong), "{flag}: {}", outcome.stderr);
            assert_eq!((project.server().requests().len(), project.tree()), (0, before), "{flag} {wrong}");
        }
    }
}

#[test]
fn a_recording_replaces_the_old_one_when_the_run_is_over_however_it_ends() {
    let project = project().model([say("first"), Reply::Stall]);
    let record = project.beside("talk.jsonl");
    std::fs::write(&record, "old").unwrap();
    let arguments = ["run", "--record", record.to_str().unwrap(), "hi"];
    assert_eq!(project.qwen(&arguments).code, 0);
    let first = std::fs::read_to_string(&record).unwrap();
    let asked = |text: &str| text.lines().filter(|line| line.contains("chat/completions")).count();
    assert_eq!(asked(&first), 1, "{first}");

    let child = project.spawn(&arguments);
    project.server().wait_for(2);
    assert_eq!(std::fs::read_to_string(&record).unwrap(), first);
    std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert_eq!(project.finish(child).code, 143);
    let second = std::fs::read_to_string(&record).unwrap();
    assert!(second != first && asked(&second) == 1, "{second}");
}

#[test]
fn a_product_that_cannot_be_written_is_1_and_the_result_says_what_was_delivered() {
    let edit = json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"});
    let run = |stdout: std::process::Stdio, arguments: &[&str]| {
        let project = Project::new().file("a.txt", "one\n").git().model([call("edit", edit.clone()), say("done")]);
        let result = project.beside("result.json");
        let file = result.display().to_string();
        let mut command =
            project.command(&[&["run", "--result-file", file.as_str()], arguments, &["edit it"]].concat());
        let output = command.stdin(std::process::Stdio::null()).stdout(stdout).output().unwrap();
        let result: serde_json::Value = serde_json::from_slice(&std::fs::read(result).unwrap()).unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap(), stderr, result, project)
    };
    let full = || std::process::Stdio::from(std::fs::File::options().write(true).open("/dev/full").unwrap());
    for format in ["text", "patch", "json", "stream-json", "result"] {
        let (code, stderr, result, project) = run(full(), &["--apply", "-o", format]);
        assert_eq!((code, result["error"]["code"].as_str()), (1, Some("output")), "{format}: {stderr}");
        assert_eq!((&result["exit_code"], &result["changes"]["applied"]), (&json!(1), &json!(true)), "{result}");
        assert!(stderr.contains("cannot write standard output") || format == "json", "{format}: {stderr}");
        assert_eq!(project.read("a.txt"), "two\n");
    }
    let (code, stderr, result, project) = run(std::process::Stdio::null(), &["--apply", "--record", "/dev/full"]);
    assert_eq!((code, result["error"]["code"].as_str()), (1, Some("output")), "{stderr}");
    assert!(stderr.contains("cannot write --record"), "{stderr}");
    assert_eq!((project.server().requests().len(), project.read("a.txt")), (0, "one\n".to_owned()));
    let help = |stdout| Project::new().command(&["run", "--help"]).stdout(stdout).output().unwrap();
    let output = help(full());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8(output.stderr).unwrap().starts_with("error: cannot write standard output: "));
    // A reader that has gone away is nobody's fault: no message, and the run's own code.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let (code, stderr, result, _) = run(writer.into(), &["--apply", "-o", "patch"]);
    assert_eq!((code, &result["error"]), (0, &json!(null)), "{stderr}");
    assert!(!stderr.contains("standard output"), "{stderr}");
}
