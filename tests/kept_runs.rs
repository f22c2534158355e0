//! Tests that runs are kept for `qwen apply` without an argument: which, where, and for how long.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::{Project, Reply, call, say};

/// Two lines, so far apart that each is a hunk of its own.
const TEXT: &str = "one\n.\n.\n.\n.\n.\n.\n.\ntwo\n";

fn edit(from: &str, to: &str) -> Reply {
    call("edit", json!({"file_path": "a.txt", "old_string": from, "new_string": to}))
}

fn project(replies: impl IntoIterator<Item = Reply>) -> Project {
    Project::new().file("a.txt", TEXT).git().model(replies)
}

/// Returns the kept files with this ending, the newest last.
fn kept(project: &Project, extension: &str) -> Vec<PathBuf> {
    let folder = project.home().join(".local/state/qwen/runs");
    let workspaces = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let files = workspaces.flat_map(|folder| std::fs::read_dir(folder.path()).unwrap().flatten());
    let mut files: Vec<PathBuf> = files.map(|file| file.path()).collect();
    files.retain(|file| file.extension().is_some_and(|found| found == extension));
    files.sort();
    files
}

#[test]
fn a_policy_begins_with_a_run_by_its_id() {
    let project = project([edit("one", "1"), say("done")]);
    assert_eq!(project.run(&["x"]).code, 0);
    let id = kept(&project, "json")[0].file_stem().unwrap().to_string_lossy().into_owned();
    let policy = project.qwen(&["policy", "init", "--from", &id]);
    assert!(policy.code == 0 && policy.stdout.contains("tools: {allow: [\"edit\"]}"), "{policy:?}");
}

#[test]
fn report_without_an_argument_shows_the_newest_run_with_what_happened_in_it() {
    let project = project([edit("one", "1"), say("older"), say("an answer")]);
    let none = project.qwen(&["report"]);
    assert!(none.code == 42 && none.stderr.contains("no run is kept for"), "{}", none.stderr);
    for prompt in ["first", "second"] {
        assert_eq!(project.qwen(&["run", prompt]).code, 0);
    }
    let newest = project.qwen(&["report", "-o", "-"]).stdout;
    assert!(newest.contains("<h1>second</h1>") && newest.contains("id=\"run\""));
    let older = kept(&project, "json")[0].file_stem().unwrap().to_string_lossy().into_owned();
    let outcome = project.qwen(&["report", &older[..older.len() - 4]]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let page = project.read(outcome.stdout.trim());
    assert!(page.contains("<h1>first</h1>") && page.contains("Hunk 1"));
}

#[test]
fn runs_that_anybody_could_have_written_are_nobodys() {
    let project = project([edit("one", "1"), say("done")]);
    assert_eq!(project.qwen(&["run", "edit it"]).code, 0);
    let state = project.home().join(".local/state/qwen");
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o777)).unwrap();
    let outcome = project.qwen(&["apply"]);
    assert!(outcome.code == 42 && outcome.stderr.contains("kept"), "{}: {}", outcome.code, outcome.stderr);
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(project.qwen(&["apply"]).code, 0);
}

#[test]
fn apply_without_an_argument_takes_the_newest_run_that_proposes_something() {
    let replies = [edit("one", "1"), say("older"), edit("two", "2"), say("newer"), say("an answer")];
    let project = project(replies);
    for prompt in ["first", "second", "third"] {
        let outcome = project.qwen(&["run", prompt]);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    }
    assert_eq!((kept(&project, "json").len(), kept(&project, "jsonl").len()), (3, 3));
    let list = project.qwen(&["apply", "--list"]);
    assert_eq!((list.code, list.stdout.as_str()), (0, "1  a.txt  lines 6-9  +1 -1\n"), "{}", list.stderr);
    let applied = project.qwen(&["apply"]);
    assert_eq!(
        (applied.code, project.read("a.txt").as_str()),
        (0, TEXT.replace("two", "2").as_str()),
        "{}",
        applied.stderr
    );

    project.run_git(&["commit", "-qam", "second"]);
    let older = kept(&project, "json")[0].file_stem().unwrap().to_string_lossy().into_owned();
    let outcome = project.qwen(&["apply", &older[..older.len() - 4]]);
    assert_eq!(
        (outcome.code, project.read("a.txt").as_str()),
        (0, TEXT.replace("two", "2").replace("one", "1").as_str()),
        "{}",
        outcome.stderr
    );
    // All ids of a day begin alike.
    let outcome = project.qwen(&["apply", &older[..6]]);
    assert!(outcome.code == 42 && outcome.stderr.contains("` is the beginning of 3 runs: "), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("\n  write more of it\n"), "{}", outcome.stderr);
    // A file of that name wins.
    std::fs::write(project.root().join(&older), "").unwrap();
    let outcome = project.qwen(&["apply", &older]);
    assert_eq!(
        (outcome.code, outcome.stdout.as_str()),
        (0, "ok: Nothing to do: the patch is empty\n"),
        "{}",
        outcome.stderr
    );
    let outcome = project.qwen(&["apply", "0123456789"]);
    assert!(outcome.code == 42 && outcome.stderr.contains("0123456789: it does not exist"), "{}", outcome.stderr);
}

#[test]
fn what_is_kept_is_masked_for_its_owner_alone_and_has_no_pieces_of_answers() {
    let text = "the key is hunter2-hunter2";
    let project = project([call("read_file", json!({"file_path": "b.txt"})), edit("one", "1"), say(text)])
        .file("b.txt", "key=hunter2-hunter2\n")
        .env("DB_PASSWORD", "hunter2-hunter2");
    assert_eq!(project.qwen(&["run", "read it"]).code, 0);
    let (results, logs) = (kept(&project, "json"), kept(&project, "jsonl"));
    for file in results.iter().chain(&logs) {
        let text = std::fs::read_to_string(file).unwrap();
        assert!(!text.contains("hunter2-hunter2") && text.contains("[redacted:DB_PASSWORD]"), "{text}");
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    let result: Value = serde_json::from_slice(&std::fs::read(&results[0]).unwrap()).unwrap();
    assert_eq!(results[0].file_stem().unwrap().to_str(), result["run_id"].as_str());
    let log = std::fs::read_to_string(&logs[0]).unwrap();
    let events: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!((kinds.first(), kinds.last()), (Some(&"run_started"), Some(&"run_finished")));
    assert!(kinds.contains(&"tool_result") && !kinds.contains(&"delta"), "{kinds:?}");
}

#[test]
fn only_what_a_person_runs_is_kept() {
    let cassette = |project: &Project| project.beside("talk.jsonl").display().to_string();
    let project = project([edit("one", "1"), say("done"), edit("one", "1"), say("done")]);
    let record = project.qwen(&["run", "--no-session", "--record", &cassette(&project), "edit"]);
    assert_eq!(record.code, 0, "{}", record.stderr);
    assert_eq!(project.qwen(&["run", "--replay", &cassette(&project), "edit"]).code, 0);
    let project = project.env("CI", "true");
    assert_eq!(project.qwen(&["run", "edit"]).code, 0);
    // A run that did not get as far as a session.
    assert_eq!(project.qwen(&["run", "--policy", "none.yaml", "edit"]).code, 52);
    assert_eq!(kept(&project, "json"), [""; 0].map(PathBuf::from));

    let outcome = project.qwen(&["apply"]);
    let folder = project.root().canonicalize().unwrap();
    let error = format!(
        "error: no proposal is kept for {}\n  give a result file, or run without --no-session\n",
        folder.display()
    );
    assert_eq!((outcome.code, outcome.stderr), (42, error));
}

#[test]
fn a_run_that_cannot_be_kept_ends_as_it_would_with_a_warning() {
    let project = project([edit("one", "1"), say("done")]);
    std::fs::create_dir_all(project.home().join(".local/state/qwen")).unwrap();
    std::fs::write(project.home().join(".local/state/qwen/runs"), "").unwrap();
    let outcome = project.qwen(&["run", "edit"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    let [.., warning, last] = &lines[..] else { panic!("{}", outcome.stderr) };
    assert!(warning.contains("this run is not kept for `qwen apply`: "), "{}", outcome.stderr);
    assert!(last.starts_with("ok 1 file, +1 -1"), "{}", outcome.stderr);
}

#[test]
fn a_change_of_a_run_that_failed_is_applied_only_by_its_name() {
    let replies = [edit("one", "1"), say("older"), edit("two", "2"), say("newer")];
    let project = project(replies);
    assert_eq!(project.qwen(&["run", "first"]).code, 0);
    let arguments = ["run", "--verify", "grep -q three a.txt", "--verify-attempts", "1", "second"];
    let outcome = project.qwen(&arguments);
    assert_eq!(outcome.code, 64, "{}", outcome.stderr);
    let id = kept(&project, "json")[1].file_stem().unwrap().to_string_lossy().into_owned();
    let outcome = project.qwen(&["apply"]);
    assert!(
        outcome.code == 42 && outcome.stderr.contains(&format!("is of a run that ended with 64: {id}\n")),
        "{}",
        outcome.stderr
    );
    assert!(outcome.stderr.contains(&format!("qwen apply {id}")), "{}", outcome.stderr);
    assert_eq!(project.read("a.txt"), TEXT);
    assert_eq!(project.qwen(&["apply", &id]).code, 0);
    assert_eq!(project.read("a.txt"), TEXT.replace("two", "2"));
}
