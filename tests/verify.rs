//! Tests `--verify`: the check's failure goes back into the same conversation, a limited number of times.

use serde_json::json;

use crate::support::{Project, Reply, call, say};

const CHECK: &str = "grep -q three a.txt";

fn edit(from: &str, to: &str) -> Reply {
    call("edit", json!({"file_path": "a.txt", "old_string": from, "new_string": to}))
}

#[test]
fn a_check_that_passes_at_the_second_attempt_delivers() {
    let project = Project::new().file("a.txt", "one\n").git().model([
        edit("one", "two"),
        say("done"),
        edit("two", "three"),
        say("now it is"),
    ]);
    let outcome = project.run(&["--apply", "--verify", CHECK, "count to three"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(project.read("a.txt"), "three\n");
    let attempts: Vec<_> = outcome.result["verify"].as_array().unwrap().iter().map(|v| v["attempt"].clone()).collect();
    assert_eq!(attempts, [json!(1), json!(2)]);
    let requests = project.server().requests();
    let feedback = requests[2]["messages"].as_array().unwrap().last().unwrap()["content"].to_string();
    assert!(feedback.contains(CHECK) && feedback.contains("exit code 1"), "{feedback}");
}

#[test]
fn a_check_that_never_passes_is_64_and_nothing_is_delivered() {
    let project = Project::new().file("a.txt", "one\n").git().model([
        edit("one", "two"),
        say("done"),
        edit("two", "four"),
        say("done"),
        edit("four", "five"),
        say("done"),
    ]);
    let outcome = project.run(&["--apply", "--verify", CHECK, "count to three"]);
    assert_eq!(outcome.code, 64, "{}", outcome.stderr);
    assert_eq!(project.read("a.txt"), "one\n");
    assert_eq!(outcome.result["conclusion"], "verify_failed");
    assert!(outcome.result["changes"]["patch"].as_str().unwrap().contains("+five"));
}

#[test]
fn the_same_failure_on_the_same_tree_stops_at_once() {
    let project = Project::new().file("a.txt", "one\n").git().model([
        edit("one", "two"),
        say("done"),
        say("it is done"),
        say("x"),
    ]);
    let outcome = project.run(&["--apply", "--verify", CHECK, "count to three"]);
    assert_eq!(outcome.code, 64, "{}", outcome.stderr);
    assert_eq!(project.server().requests().len(), 3);
}

#[test]
fn what_commands_and_earlier_checks_leave_in_the_home_helps_no_check() {
    let check = "import os, sys\nplaces = [os.environ['HOME'] + '/settings', os.environ['TMPDIR'] + '/settings']\n\
                 found = all(map(os.path.exists, places))\n[open(place, 'w') for place in places]\nsys.exit(not found)\n";
    let command = call("run_shell_command", json!({"command": "python3 check.py; python3 check.py"}));
    let project = Project::new().file("a.txt", "one\n").file("check.py", check).git().model([
        command,
        edit("one", "two"),
        say("done"),
        edit("two", "three"),
        say("done"),
    ]);
    let outcome = project.run(&["--yolo", "--verify-attempts=2", "--verify", "python3 check.py", "go"]);
    let requests = project.server().requests();
    let answer = requests[1]["messages"].as_array().unwrap().last().unwrap()["content"].to_string();
    assert!(answer.contains("Exit Code: 0"), "{answer}");
    assert_eq!(outcome.code, 64, "{}", outcome.stderr);
    assert_eq!(requests.len(), 5);
}

#[test]
fn a_check_judges_the_change_and_nothing_beside_it() {
    let check = "test ! -e test && test ! -e pipe && ! git diff --quiet && test ! -e running\n";
    let run = |command: &str| call("run_shell_command", json!({"command": command}));
    let background = call(
        "run_shell_command",
        json!({"command": "while sleep 0.01; do touch running; done", "is_background": true}),
    );
    let project =
        Project::new().file("a.txt", "one\n").file("check.sh", check).file(".gitignore", "running\n").git().model([
            edit("one", "two"),
            run("mkdir test; mkfifo pipe; git add a.txt; git commit -qm two; git branch -f other"),
            background,
            run("rm -f running"),
            say("done"),
        ]);
    let outcome = project.run(&["--yolo", "--apply", "--verify", "rm -f running", "--verify", "sh check.sh", "go"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(project.read("a.txt"), "two\n");
}

#[test]
fn what_the_background_writes_last_is_a_part_of_the_change() {
    let command = "until test -e begin; do sleep 0.01; done; echo three >a.txt; sleep 60";
    let background = call("run_shell_command", json!({"command": command, "is_background": true}));
    let begin = call("run_shell_command", json!({"command": "touch begin"}));
    let project = Project::new().file("a.txt", "one\n").file(".gitignore", "begin\n").git().model([
        background,
        begin,
        say("done"),
    ]);
    let outcome = project.run(&["--yolo", "--apply", "--verify-attempts=1", "--verify", CHECK, "go"]);
    // It may be too late: then the check fails.
    assert_eq!(outcome.code == 0, project.read("a.txt") == "three\n", "{}", outcome.stderr);
}

#[test]
fn what_one_check_leaves_helps_no_other() {
    let check = "test ! -e made || exit 0\nmkdir made; echo 1 >made/x; exit 1\n";
    let project = Project::new().file("a.txt", "one\n").file("check.sh", check).git().model([
        edit("one", "two"),
        say("done"),
        edit("two", "three"),
        say("done"),
    ]);
    let outcome = project.run(&["--apply", "--verify-attempts=2", "--verify", "sh check.sh", "go"]);
    assert_eq!(outcome.code, 64, "{}", outcome.stderr);
}

#[test]
fn what_a_check_changes_is_said_and_not_kept() {
    let check = "echo four >a.txt; echo x >new.txt\n";
    let replies = || [edit("one", "three"), say("done")];
    let project = Project::new().file("a.txt", "one\n").file("check.sh", check).git();
    let project = project.model(replies().into_iter().chain(replies()));
    let checks = ["--apply", "--verify", "sh check.sh", "--verify", CHECK, "go"];
    // A warning of the run is an error as well.
    let outcome = project.run(&[&["--strict"], &checks[..]].concat());
    assert_eq!((outcome.code, outcome.result["error"]["code"].as_str()), (1, Some("strict")), "{}", outcome.stderr);
    assert_eq!(project.read("a.txt"), "one\n");
    let outcome = project.run(&checks);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(project.read("a.txt"), "three\n");
    assert!(!project.root().join("new.txt").exists());
    let warnings = outcome.result["warnings"].to_string();
    assert!(warnings.contains("the check `sh check.sh` changed a.txt: this is not kept"), "{warnings}");
}

#[test]
fn a_check_that_cannot_be_understood_is_a_usage_error_before_any_request() {
    let project = Project::new().file("a.txt", "one\n").git().model([say("x")]);
    let outcome = project.run(&["--verify", "eval $(cat a.txt)", "x"]);
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
    assert_eq!(project.server().requests().len(), 0);
}

#[test]
fn a_check_runs_on_what_is_staged_and_its_litter_stays_away() {
    let project = Project::new()
        .file("a.txt", "one\n")
        .executable("check.sh", "#!/bin/sh\ngrep -q two a.txt && echo litter > made-by-check.txt && rm a.txt\n")
        .git()
        .model([edit("one", "two"), say("done")]);
    let outcome = project.run(&["--verify", "sh check.sh", "change it"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(project.read("a.txt"), "one\n");
    assert!(!project.root().join("made-by-check.txt").exists());
}

#[test]
fn a_failing_command_that_the_task_names_is_run_before_the_model_and_before_its_answer_counts() {
    let write = |text: &str| call("write_file", json!({"file_path": "a.sh", "content": text}));
    let project = || {
        let replies = [write("exit 2\n"), say("done"), write("exit 0\n"), say("now")];
        let test = "echo x > junk\nsh a.sh\n";
        Project::new().file("a.sh", "echo at fault; exit 1\n").file("test.sh", test).model(replies)
    };
    let task = "`sh test.sh` fails. Fix a.sh.";
    let allowed = project();
    let outcome = allowed.run(&["--approval-mode", "yolo", "--apply", task]);
    assert_eq!((outcome.code, outcome.stdout.trim()), (0, "now"), "{}", outcome.stderr);
    let requests = allowed.server().requests();
    let last = |number: usize| requests[number]["messages"].as_array().unwrap().last().unwrap()["content"].to_string();
    assert!(last(0).contains("`sh test.sh` fails now (exit code 1):\\nat fault"), "{}", last(0));
    assert!(last(2).contains("`sh test.sh` still fails (exit code 2)"), "{}", last(2));
    assert_eq!(allowed.read("a.sh"), "exit 0\n");
    assert!(!allowed.root().join("junk").exists(), "the check leaves nothing");
    // What the model may not run is not run for it either.
    let denied = project();
    let outcome = denied.run(&["--apply", task]);
    assert_eq!((outcome.code, outcome.stdout.trim()), (0, "done"), "{}", outcome.stderr);
    assert!(!denied.server().requests()[0].to_string().contains("fails now"));
    // A question for the reason changes nothing.
    let asked = project();
    asked.run(&["--approval-mode", "yolo", "Why does `sh test.sh` fail?"]);
    assert!(!asked.server().requests()[0].to_string().contains("fails now"));
}
