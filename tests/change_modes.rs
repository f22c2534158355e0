//! Tests one conversation with four deliveries: the same final tree, and a dry run that changes nothing.

use serde_json::json;

use crate::support::{Outcome, Project, Reply, call, calls, say};

/// List, search, eight reads in parallel, eight edits, a command, an answer.
fn conversation() -> Vec<Reply> {
    let mut script = vec![
        call("list_directory", json!({"path": "."})),
        call("search_file_content", json!({"pattern": "old_name", "include": "*.py"})),
        calls([0, 1, 2, 3, 4, 5, 6, 7].map(|n| ("read_file", json!({"file_path": format!("src/m{n}.py")})))),
    ];
    for n in 0..8 {
        script.push(call(
            "edit",
            json!({"file_path": format!("src/m{n}.py"), "old_string": "old_name", "new_string": "new_name", "replace_all": true}),
        ));
    }
    script.push(call("run_shell_command", json!({"command": "grep -rn old_name src || echo clean"})));
    script.push(say("Renamed old_name to new_name in eight files."));
    script
}

fn project() -> Project {
    let mut project = Project::new().file("README.md", "# x\n").model(conversation());
    for n in 0..8 {
        project = project.file(&format!("src/m{n}.py"), format!("def old_name():\n    return {n}\n\nold_name()\n"));
    }
    project.git()
}

fn assert_success(outcome: &Outcome) {
    assert_eq!(outcome.code, 0, "{}\n{}", outcome.stdout, outcome.stderr);
    assert_eq!(outcome.result["exit_reason"], "ok");
    assert_eq!(outcome.result["num_turns"], 13);
    assert_eq!(outcome.result["num_tool_calls"], 19);
    assert_eq!(outcome.result["changes"]["files"].as_array().unwrap().len(), 8);
    assert_eq!(outcome.result["permission_denials"], json!([]));
}

fn assert_renamed(project: &Project) {
    for n in 0..8 {
        let text = format!("def new_name():\n    return {n}\n\nnew_name()\n");
        assert_eq!(project.read(&format!("src/m{n}.py")), text);
    }
}

#[test]
fn a_dry_run_changes_not_one_byte_and_its_patch_gives_the_tree() {
    let project = project();
    let before = project.snapshot();
    let outcome = project.run(&["-o", "patch", "rename it"]);
    assert_success(&outcome);
    assert_eq!(project.snapshot(), before, "tree, index and .git are untouched");
    assert_eq!(outcome.result["changes"]["applied"], false);
    assert_eq!(outcome.result["changes"]["patch"], outcome.stdout);
    std::fs::write(project.beside("x.patch"), &outcome.stdout_bytes).unwrap();
    project.run_git(&["apply", &project.beside("x.patch").display().to_string()]);
    assert_renamed(&project);
}

#[test]
fn apply_writes_the_tree_and_nothing_else() {
    let project = project();
    let outcome = project.run(&["--apply", "rename it"]);
    assert_success(&outcome);
    assert_renamed(&project);
    assert_eq!(outcome.result["changes"]["applied"], true);
    assert_eq!(project.tree().len(), 9);
    assert_eq!(project.run_git(&["rev-list", "--count", "HEAD"]).trim(), "1");
}

#[test]
fn commit_makes_one_commit_and_leaves_a_clean_tree() {
    let project = project();
    let outcome = project.run(&["--commit", "--message", "rename it", "rename it"]);
    assert_success(&outcome);
    assert_renamed(&project);
    assert_eq!(project.run_git(&["rev-list", "--count", "HEAD"]).trim(), "2");
    assert_eq!(project.run_git(&["status", "--porcelain"]), "");
    assert_eq!(outcome.result["git"]["commit"], project.run_git(&["rev-parse", "HEAD"]).trim());
    assert!(project.run_git(&["log", "-1", "--format=%B"]).contains("Assisted-by: qwen-run:scripted"));
}

#[test]
fn branch_makes_a_ref_and_touches_neither_tree_nor_index() {
    let project = project();
    let before = project.tree();
    let index = std::fs::read(project.root().join(".git/index")).unwrap();
    let outcome = project.run(&["--branch", "qwen/rename", "rename it"]);
    assert_success(&outcome);
    assert_eq!(project.tree(), before);
    assert_eq!(std::fs::read(project.root().join(".git/index")).unwrap(), index);
    assert_eq!(project.run_git(&["branch", "--show-current"]).trim(), "main");
    assert_eq!(outcome.result["git"]["branch"], "qwen/rename");
    project.run_git(&["checkout", "-q", "qwen/rename"]);
    assert_renamed(&project);
}

#[test]
fn undo_takes_an_applied_run_back() {
    let project = project();
    let before = project.tree();
    assert_success(&project.run(&["--apply", "rename it"]));
    let outcome = project.qwen(&["undo"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(project.tree(), before);
}

#[test]
fn apply_takes_the_result_and_the_patch_of_a_dry_run() {
    for from in ["result", "patch"] {
        let project = project();
        let patch = project.beside("x.patch").display().to_string();
        assert_success(&project.run(&["--patch-file", &patch, "rename it"]));
        let result = project.beside("kept.json").display().to_string();
        std::fs::copy(project.beside("result.json"), &result).unwrap();
        let outcome = project.qwen(&["apply", if from == "result" { &result } else { &patch }]);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        assert_renamed(&project);
    }
}

#[test]
fn every_request_begins_with_the_bytes_of_the_one_before() {
    let project = project();
    assert_success(&project.run(&["rename it"]));
    let bodies = project.server().bodies();
    assert_eq!(bodies.len(), 13);
    for pair in bodies.windows(2) {
        let end = end_of_messages(&pair[0]);
        assert_eq!(&pair[0][..end], &pair[1][..end]);
    }
    assert!(
        project.server().connections() <= 2,
        "one connection is kept, beside the one that asked for the model's name"
    );
}

/// Returns where the `]` of `messages` is in a body.
fn end_of_messages(body: &[u8]) -> usize {
    let text = std::str::from_utf8(body).unwrap();
    let start = text.find("\"messages\":[").unwrap() + "\"messages\":".len();
    let mut stream = serde_json::Deserializer::from_str(&text[start..]).into_iter::<serde_json::Value>();
    stream.next().unwrap().unwrap();
    start + stream.byte_offset() - 1
}
