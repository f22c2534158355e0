//! Tests `unanalysable: sandboxed`: such a command runs as written, isolated, in a staged copy, without a network.

use serde_json::json;

use crate::support::{Project, call, say};

const POLICY: &str = "version: 1\nchanges: apply\ntools: {allow: [run_shell_command]}\n\
    paths: {read: {allow: [\"**\"]}, write: {allow: [\"src/**\"]}}\n\
    shell: {default: allow, unanalysable: sandboxed}\nnetwork: {shell: any}\n";

fn project(command: &str) -> Project {
    Project::new()
        .file("src/a", "1\n")
        .file("b", "1\n")
        .file(".env", "KEY=hunter2hunter2\n")
        .policy(POLICY)
        .model([call("run_shell_command", json!({"command": command})), say("Done.")])
        .git()
}

#[test]
fn it_runs_isolated_in_a_copy_whatever_the_network_rules_say() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let project = project(&format!(
        "eval 'echo 2 > src/a; echo 2 > b; cat .env; x=un; echo ${{x}}read'; (exec 3<>/dev/tcp/127.0.0.1/{port}) && echo reached"
    ));
    let outcome = project.run(&["--apply", "go"]);
    let asked = project.server().requests()[1].to_string();
    if asked.contains("there is no isolation here") {
        aloud("NOT TESTED: this machine isolates nothing");
        assert_eq!((project.read("src/a"), project.read("b")), ("1\n".into(), "1\n".into()));
        return;
    }
    assert!(asked.contains("unread") && !asked.contains("hunter2"), "{asked}");
    assert!(!asked.contains("Stdout: unread\\nreached") && listener.accept().is_err(), "{asked}");
    // What it wrote is judged like any write.
    assert!(asked.contains("the change to b was undone"), "{asked}");
    assert_eq!((project.read("src/a"), project.read("b")), ("2\n".into(), "1\n".into()), "{}", outcome.stderr);
}

#[test]
fn without_isolation_it_does_not_run() {
    let project = project("eval 'echo 2 > src/a'");
    let outcome = project.run(&["--apply", "--sandbox=off", "go"]);
    let asked = project.server().requests()[1].to_string();
    assert!(asked.contains("cannot isolate it"), "{asked} {}", outcome.stderr);
    assert_eq!(project.read("src/a"), "1\n");
}

#[expect(clippy::print_stdout, reason = "the output of a test is how it speaks")]
fn aloud(text: &str) {
    println!("{text}");
}
