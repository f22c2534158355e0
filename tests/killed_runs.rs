//! What killed runs leave in the directory for temporary files goes with a later run.

use std::path::{Path, PathBuf};

use serde_json::json;

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
