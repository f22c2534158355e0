//! Tests that no reader shows a forbidden file under another name that a hard link gives it.

use serde_json::json;

use crate::support::{Project, call, say};

const SECRET: &str = "hunter2-of-the-file";

/// Runs one command in a repository in which `notes.txt` is another name of `.env`, and returns what the model was
/// told.
fn told(command: &str, is_tracked: bool) -> String {
    let project = Project::new().file("a.txt", "KEY=plain-text\n").file("dir/b.txt", "KEY=plain-text\n");
    let project = if is_tracked { project.file("notes.txt", "KEY=older\n").git() } else { project.git() };
    let project = project.file(".env", format!("KEY={SECRET}\n"));
    let _none = std::fs::remove_file(project.root().join("notes.txt"));
    std::fs::hard_link(project.root().join(".env"), project.root().join("notes.txt")).unwrap();
    let policy = "version: 1\nname: x\nextends: builtin:edit\n\
        shell: {allow: [{cmd: [git, [grep, diff]]}, {cmd: [rg]}, {cmd: [grep]}, {cmd: [cat]}]}\n";
    let project = project.policy(policy).model([call("run_shell_command", json!({"command": command})), say("done")]);
    let outcome = project.run(&["--on-deny", "continue", "go"]);
    assert_eq!(outcome.code, 0, "{command}: {}", outcome.stderr);
    let requests = project.server().requests();
    assert_eq!(requests.len(), 2, "{command}");
    requests[1]["messages"].to_string()
}

#[test]
fn what_stands_in_a_secret_is_shown_by_none_of_its_names() {
    for is_tracked in [true, false] {
        for command in [
            "git grep KEY",
            "git grep --untracked KEY",
            "git grep --no-index KEY",
            "git diff",
            "git diff HEAD",
            "git diff --no-index a.txt notes.txt",
            "rg KEY",
            "rg KEY .",
            "rg -uu KEY",
            "grep -r KEY .",
            "grep KEY a.txt notes.txt",
            "cat notes.txt",
        ] {
            let told = told(command, is_tracked);
            assert!(!told.contains(SECRET), "{command}, tracked: {is_tracked}: {told}");
        }
    }
}

#[test]
fn what_is_no_secret_is_shown_beside_one() {
    let rg_is_here =
        std::env::split_paths(&std::env::var_os("PATH").unwrap()).any(|folder| folder.join("rg").is_file());
    for command in ["git grep KEY"].into_iter().chain(rg_is_here.then_some("rg KEY")) {
        let told = told(command, true);
        assert!(told.contains("KEY=plain-text") && told.contains("b.txt"), "{command}: {told}");
    }
}
