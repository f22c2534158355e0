//! Sessions: an earlier conversation goes on, also after a kill.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::{Project, Reply, call, say};

fn files(project: &Project) -> Vec<PathBuf> {
    let folder = project.home().join(".local/state/qwen/sessions");
    let Ok(projects) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = projects
        .flatten()
        .flat_map(|project| std::fs::read_dir(project.path()).unwrap().flatten().map(|file| file.path()))
        .collect();
    files.sort();
    files
}

/// Returns role and beginning of each message of a request.
fn shape(request: &Value) -> Vec<String> {
    let messages = request["messages"].as_array().unwrap();
    messages.iter().map(|message| message["role"].as_str().unwrap().to_owned()).collect()
}

fn project(replies: impl IntoIterator<Item = Reply>) -> Project {
    Project::new().file("a.txt", "a\n").git().model(replies)
}

#[test]
fn continue_and_resume_bring_the_earlier_conversation() {
    let read = call("read_file", json!({"file_path": "a.txt"}));
    let project = project([read, say("it says a"), say("again"), say("third")]);
    let first = project.run(&["what does a.txt say"]);
    assert_eq!(first.code, 0, "{}", first.stderr);
    let id = first.result["session_id"].as_str().unwrap().to_owned();
    let second = project.run(&["--continue", "sure?"]);
    assert_eq!(second.code, 0, "{}", second.stderr);
    assert_eq!(second.result["session_id"], id.as_str());
    let third = project.run(&["--resume", &id, "and now?"]);
    assert_eq!(third.result["session_id"], id.as_str());
    let requests = project.server().requests();
    assert_eq!(shape(&requests[2]), ["system", "user", "assistant", "tool", "assistant", "user"]);
    assert_eq!(shape(&requests[3])[5..], ["user", "assistant", "user"]);
    assert!(requests[3].to_string().contains("sure?") && requests[3].to_string().contains("and now?"));
    assert_eq!(files(&project).len(), 1);
}

#[test]
fn a_fork_leaves_the_first_session_as_it_is() {
    let project = project([say("one"), say("two"), say("three")]);
    assert_eq!(project.run(&["--session-id", "first", "hi"]).code, 0);
    let before = std::fs::read(&files(&project)[0]).unwrap();
    let fork = project.run(&["--continue", "--fork-session", "--session-id", "second", "more"]);
    assert_eq!(fork.code, 0, "{}", fork.stderr);
    assert_eq!(fork.result["session_id"], "second");
    let files = files(&project);
    assert_eq!(files.len(), 2);
    assert_eq!(std::fs::read(&files[0]).unwrap(), before);
    assert_eq!(project.run(&["--resume", "second", "more"]).code, 0);
    let last = &project.server().requests()[2];
    assert_eq!(shape(last), ["system", "user", "assistant", "user", "assistant", "user"]);
}

#[test]
fn a_killed_run_can_go_on_with_every_call_answered() {
    let write = call("write_file", json!({"file_path": "b.txt", "content": "b\n"}));
    let project = project([write, Reply::Stall, say("went on")]);
    let mut child = project.spawn(&["run", "--session-id", "killed", "write b.txt"]);
    project.server().wait_for(2);
    child.kill().unwrap();
    child.wait().unwrap();
    let file = &files(&project)[0];
    // As if the kill had come in the middle of the answer's line.
    let text = std::fs::read_to_string(file).unwrap();
    std::fs::write(file, &text[..text.len() - 20]).unwrap();
    let outcome = project.run(&["--resume", "killed", "go on"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let request = &project.server().requests()[2];
    assert_eq!(shape(request), ["system", "user", "assistant", "tool", "user"]);
    assert!(request["messages"][3].to_string().contains("not executed"), "{}", request["messages"][3]);
    let whole = std::fs::read_to_string(file).unwrap();
    assert!(whole.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{whole}");
}

#[test]
fn secrets_are_not_kept() {
    let project = Project::new().git().env("MY_TOKEN", "s3cr3t-v4lue-0123456789").model([say("ok")]);
    assert_eq!(project.run(&["is s3cr3t-v4lue-0123456789 good?"]).code, 0);
    let kept = std::fs::read_to_string(&files(&project)[0]).unwrap();
    assert!(!kept.contains("s3cr3t") && kept.contains("[redacted:MY_TOKEN]"), "{kept}");
}

#[test]
fn there_is_no_session_in_ci_without_a_place_or_where_none_is_wanted() {
    let quiet = project([say("ok")]).env("CI", "true");
    assert_eq!(quiet.run(&["hi"]).code, 0);
    assert!(files(&quiet).is_empty());
    assert_eq!(quiet.run(&["--continue", "hi"]).code, 42);

    let unwanted = project([say("ok")]);
    assert_eq!(unwanted.run(&["--no-session", "hi"]).code, 0);
    assert!(files(&unwanted).is_empty());

    let placeless = project([say("ok")]);
    std::fs::write(placeless.beside("file"), "").unwrap();
    let placeless = {
        let file = placeless.beside("file/x").display().to_string();
        placeless.env("XDG_STATE_HOME", &file)
    };
    let outcome = placeless.run(&["hi"]);
    assert_eq!(outcome.code, 0);
    assert!(outcome.stderr.contains("keeps no session"), "{}", outcome.stderr);
}

#[test]
fn flags_that_name_no_session_say_so() {
    let project = project([say("ok"), say("ok")]);
    assert_eq!(project.run(&["--continue", "hi"]).code, 42);
    assert_eq!(project.run(&["--resume", "gone", "hi"]).code, 42);
    assert_eq!(project.run(&["--fork-session", "hi"]).code, 2);
    assert_eq!(project.run(&["--session-id", "a/b", "hi"]).code, 2);
    assert_eq!(project.run(&["--session-id", "a", "hi"]).code, 0);
    assert_eq!(project.run(&["--session-id", "a", "hi"]).code, 2);
    let broken = &files(&project)[0];
    std::fs::write(broken, "nonsense\n").unwrap();
    let outcome = project.run(&["--resume", "a", "hi"]);
    assert_eq!(outcome.code, 42);
    assert!(outcome.stderr.contains("line 1"), "{}", outcome.stderr);
}
