//! What killed runs leave in the directory for temporary files, or in the project, goes with a later run, which says so.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{Project, call, say};

const POLICY: &str = "version: 1\ntools: {allow: [run_shell_command]}\npaths: {read: {allow: [\"**\"]}}\n\
    shell: {default: allow}\n";

/// The directories of runs in the directory for temporary files, links aside.
fn directories(project: &Project) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(project.beside("")).unwrap().flatten();
    let ours = entries.filter(|entry| entry.file_type().unwrap().is_dir());
    let mut found: Vec<PathBuf> =
        ours.map(|entry| entry.path()).filter(|path| path.join(".qwen-temporary").exists()).collect();
    found.sort();
    found
}

/// Makes a directory as if a killed run had left it.
fn plant(project: &Project, name: &str, marker: &Path) -> PathBuf {
    let planted = project.beside(name);
    std::fs::create_dir_all(planted.join("inner")).unwrap();
    std::fs::copy(marker, planted.join(".qwen-temporary")).unwrap();
    planted
}

#[test]
fn a_later_run_removes_what_a_killed_run_left_and_nothing_else() {
    let script = [call("run_shell_command", json!({"command": "sleep 600"})), say("One."), say("Two."), say("Three.")];
    let project = Project::new().policy(POLICY).model(script);
    let mut child = project.spawn(&["run", "go"]);
    while project.server().requests().is_empty() || directories(&project).is_empty() {
        assert_eq!(child.try_wait().unwrap(), None, "it ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let living = directories(&project);
    let marker = living[0].join(".qwen-temporary");
    let elsewhere = plant(&project, "elsewhere", &marker);
    std::os::unix::fs::symlink(&elsewhere, project.beside("qwen-link")).unwrap();
    let unmarked = project.beside("qwen-unmarked");
    std::fs::create_dir(&unmarked).unwrap();
    let dead = plant(&project, "qwen-dead", &marker);
    let of_another = plant(&project, "qwen-other", &marker);
    // Only root can give a directory away.
    let is_given = [&of_another, &of_another.join(".qwen-temporary")]
        .iter()
        .all(|path| std::os::unix::fs::chown(path, Some(12_345), None).is_ok());

    assert_eq!(project.run(&["go"]).code, 0);
    assert!(living.iter().all(|path| path.exists()), "a living run's directory goes");
    assert!(!dead.exists());
    child.kill().unwrap();
    project.finish(child);
    assert!(living.iter().all(|path| path.exists()));

    assert_eq!(project.run(&["go"]).code, 0);
    assert!(!living.iter().any(|path| path.exists()), "{living:?}");
    assert!(elsewhere.join("inner").exists() && unmarked.exists());
    assert_eq!(of_another.join("inner").exists(), is_given);
}

/// Delivers a change of this file, and returns the id of the run.
fn delivered(project: &Project, path: &str) -> String {
    let patch = project.beside("x.patch");
    std::fs::write(&patch, format!("--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-one\n+two\n")).unwrap();
    let applied = project.qwen(&["apply", "-o", "json", &patch.display().to_string()]);
    assert_eq!(applied.code, 0, "{}", applied.stderr);
    serde_json::from_str::<Value>(&applied.stdout).unwrap()["run_id"].as_str().unwrap().to_owned()
}

/// Leaves everything as if the process that delivered it had been killed after its swap.
fn kill_before_the_end(project: &Project, run_id: &str) {
    let file = project.home().join(".local/state/qwen/undo").join(run_id).join("record.json");
    let mut record: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let temporary = format!(".qwen-{run_id}-0");
    std::fs::write(project.root().join(&temporary), "one\n").unwrap();
    (record["state"], record["temporary"], record["swapping"]) = (json!("begun"), json!([temporary]), json!(true));
    std::fs::write(file, record.to_string()).unwrap();
}

#[test]
fn what_became_of_each_killed_delivery_is_told_also_where_the_command_then_fails() {
    let no_patch = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-nothing like it\n+two\n";
    for arguments in [&["apply", "none.patch"][..], &["apply", "-o", "json", "none.patch"], &["run", "--apply", "go"]] {
        let project = Project::new().file("a", "one\n").file("b", "one\n").file("none.patch", no_patch).git().model([]);
        let ids = ["a", "b"].map(|path| delivered(&project, path));
        ids.iter().for_each(|run_id| kill_before_the_end(&project, run_id));
        let failed = project.qwen(arguments);
        assert_eq!(failed.code, 63, "{arguments:?}: {}{}", failed.stdout, failed.stderr);
        for (id, path) in ids.iter().zip(["a", "b"]) {
            let told = format!("the delivery of run {id} was interrupted, and is rolled back: {path}");
            assert!(failed.stderr.contains(&told), "{arguments:?}: {}", failed.stderr);
            assert_eq!(project.read(path), "one\n");
        }
    }
}
