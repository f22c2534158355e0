//! Tests what `qwen batch` delivers at its end: all changes as one, a branch each, or nothing.

use serde_json::{Value, json};

use crate::support::{Project, Reply, Server, call, say};

const RECIPE: &str = "\
recipe: 1
name: document
description: Document a file.
params:
  path: {type: path, description: The file.}
prompt: 'Document the file {{ params.path }}'
needs: {read: ['**'], write: ['src/**'], create: ['src/**'], tools: [read_file, write_file]}
output: {kind: changes}
";

/// Returns the letter of the file that a request is about.
fn letter(request: &Value) -> char {
    let prompt = request["messages"][1].to_string();
    let from = prompt.find("Document the file src/").expect("a file") + "Document the file src/".len();
    prompt[from..].chars().next().expect("a name")
}

/// A project with the files `src/a.rs`, `b` and `c`. `written` says which file is written for which.
fn project(written: impl Fn(char) -> Option<String> + Send + Sync + 'static) -> Project {
    let answer = move |request: &Value| match (request["messages"].as_array().unwrap().len(), written(letter(request)))
    {
        (_, None) => Reply::Status(400, vec![], r#"{"error":{"message":"no"}}"#.into()),
        (2, Some(path)) => {
            let content = format!("//! Of {}.\n", letter(request));
            call("write_file", json!({"file_path": path, "content": content}))
        }
        (_, Some(_)) => say("documented"),
    };
    let files = Project::new().file("src/a.rs", "fn a() {}\n").file("src/b.rs", "fn b() {}\n");
    let project = files.file("src/c.rs", "fn c() {}\n");
    project.file("document.yaml", RECIPE).git().served_by(Server::answering(answer))
}

fn own_file(letter: char) -> Option<String> {
    Some(format!("src/{letter}.rs"))
}

fn batch(project: &Project, more: &[&str]) -> crate::support::Outcome {
    let out = project.beside("out").display().to_string();
    let arguments = ["batch", "--each", "src/*.rs", "--recipe", "./document.yaml", "-j", "1", "--out", &out];
    project.qwen(&[&arguments, more].concat())
}

fn summary(project: &Project) -> Value {
    serde_json::from_slice(&std::fs::read(project.beside("out/summary.json")).unwrap()).unwrap()
}

#[test]
fn the_combined_change_is_delivered_at_the_end_and_only_once() {
    let project = project(own_file);
    let run = batch(&project, &["--commit", "--message", "docs: modules", "--verify-combined", "grep -q Of src/c.rs"]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.contains("3 files committed to main as "), "{}", run.stdout);
    let message = project.run_git(&["log", "-1", "--format=%B"]);
    assert!(message.starts_with("docs: modules\n\n- src/a.rs\n- src/b.rs\n- src/c.rs\n"), "{message}");
    let first = summary(&project);
    let changes = &first["changes"];
    assert_eq!((&changes["mode"], &changes["applied"]), (&json!("commit"), &json!(true)));
    assert_eq!(changes["files"], json!(["src/a.rs", "src/b.rs", "src/c.rs"]));
    assert!(std::fs::read_to_string(project.beside("out/combined.patch")).unwrap().contains("+//! Of b."));
    let requests = project.server().requests().len();
    let head = project.run_git(&["rev-parse", "HEAD"]);
    // The list holds other contents now, and so other items: the second call is about the first ones.
    project.run_git(&["reset", "-q", "--hard", "HEAD~"]);
    let again = batch(&project, &["--branch", "qwen/docs"]);
    assert_eq!((again.code, project.server().requests().len()), (0, requests), "{}", again.stderr);
    let tip = project.run_git(&["rev-parse", "qwen/docs"]);
    assert_ne!(tip, head);
    let again = batch(&project, &["--branch", "qwen/docs"]);
    assert_eq!((again.code, project.run_git(&["rev-parse", "qwen/docs"])), (0, tip), "{}", again.stderr);
}

#[test]
fn changes_that_touch_are_a_conflict_and_the_later_item_can_be_left_out() {
    let project = project(|letter| Some(format!("src/{}.rs", if letter == 'c' { 'c' } else { 'a' })));
    let before = project.tree();
    let run = batch(&project, &["--apply"]);
    assert_eq!((run.code, project.tree() == before), (63, true), "{}{}", run.stdout, run.stderr);
    assert!(run.stderr.contains("conflict src/a.rs:1 src/a.rs src/b.rs"), "{}", run.stderr);
    let result = summary(&project);
    assert_eq!(result["conflicts"][0]["keys"], json!(["src/a.rs", "src/b.rs"]));
    assert_eq!((&result["changes"]["applied"], &result["exit_code"]), (&json!(false), &json!(63)));
    let requests = project.server().requests().len();
    let run = batch(&project, &["--branch", "docs", "--on-conflict", "skip"]);
    assert_eq!((run.code, project.server().requests().len()), (1, requests), "{}{}", run.stdout, run.stderr);
    let result = summary(&project);
    assert_eq!((&result["failed_keys"], &result["items"]["ok"]), (&json!(["src/b.rs"]), &json!(2)));
    assert_eq!(project.run_git(&["show", "docs:src/a.rs"]), "//! Of a.\n");
    assert_eq!(project.run_git(&["show", "docs:src/c.rs"]), "//! Of c.\n");
    let journal = std::fs::read_to_string(project.beside("out/journal.jsonl")).unwrap();
    let last: Value = serde_json::from_str(journal.lines().last().unwrap()).unwrap();
    assert_eq!((&last["conclusion"], &last["cost_usd"]), (&json!("conflict"), &json!(0.0)));
    assert!(last["patch"].is_string(), "its patch is kept");
    let again = batch(&project, &["--branch", "docs", "--on-conflict", "skip", "--allow-failures", "1"]);
    assert_eq!((again.code, project.server().requests().len()), (0, requests), "{}{}", again.stdout, again.stderr);
}

#[test]
fn a_failed_item_keeps_the_others_from_delivery_unless_a_part_is_wanted() {
    let project = project(|letter| own_file(letter).filter(|_| letter != 'b'));
    let before = project.tree();
    let run = batch(&project, &["--apply"]);
    assert_eq!((run.code, project.tree() == before), (1, true), "{}", run.stderr);
    assert!(run.stderr.contains("nothing is delivered: 1 item failed or not done: src/b.rs"), "{}", run.stderr);
    // What was asked for and not delivered is no success, whatever failures are allowed.
    let run = batch(&project, &["--apply", "--allow-failures", "1"]);
    assert_eq!((run.code, project.tree() == before), (63, true), "{}", run.stderr);
    let run = batch(&project, &["--branch", "docs", "--allow-failures", "1", "--partial"]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    let names = project.run_git(&["diff", "--name-only", "HEAD", "docs"]);
    assert_eq!(names, "src/a.rs\nsrc/c.rs\n");
}

#[test]
fn each_item_gets_a_branch_of_its_own_and_a_second_call_keeps_it() {
    let project = project(own_file);
    let run = batch(&project, &["--branch-each", "qwen/{n}"]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.contains("3 items with a branch of their own"), "{}", run.stdout);
    let branches = || project.run_git(&["for-each-ref", "--format=%(refname:short) %(objectname)", "refs/heads/qwen"]);
    let first = branches();
    assert_eq!(first.lines().count(), 3);
    let patches = summary(&project)["patches"].clone();
    assert_eq!(patches[1]["branch"], "qwen/2");
    assert!(first.contains(patches[1]["commit"].as_str().unwrap()));
    let requests = project.server().requests().len();
    project.run_git(&["branch", "-q", "-D", "qwen/3"]);
    let again = batch(&project, &["--branch-each", "qwen/{n}"]);
    assert_eq!((again.code, project.server().requests().len()), (0, requests), "{}{}", again.stdout, again.stderr);
    assert_eq!(branches().lines().take(2).collect::<Vec<_>>(), first.lines().take(2).collect::<Vec<_>>());
    // A branch on which somebody has worked is not ours any more.
    project.run_git(&["branch", "-q", "-f", "qwen/1", "HEAD"]);
    let out = project.beside("out").display().to_string();
    for run in [
        batch(&project, &["--branch-each", "qwen/{n}"]),
        project.qwen(&["batch", "deliver", &out, "--branch-each", "qwen/{n}"]),
    ] {
        assert_eq!(run.code, 63, "{}{}", run.stdout, run.stderr);
        let said = format!("{}{}", run.stdout, run.stderr);
        assert!(said.contains("fail src/a.rs qwen/1: the branch qwen/1 already exists"), "{said}");
        assert!(said.contains("ok src/b.rs qwen/2 "), "{said}");
    }
    assert_eq!(project.run_git(&["rev-parse", "qwen/1"]), project.run_git(&["rev-parse", "HEAD"]));
}

#[test]
fn a_check_of_the_combined_change_that_fails_keeps_it_from_delivery() {
    let project = project(own_file);
    let before = project.tree();
    let run = batch(&project, &["--apply", "--verify-combined", "grep missing src/a.rs"]);
    assert_eq!((run.code, project.tree() == before), (64, true), "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.contains("stopped: `grep missing src/a.rs` fails on the combined change"), "{}", run.stdout);
}

#[test]
fn what_cannot_be_delivered_is_refused_before_the_first_request() {
    let project = project(own_file);
    project.run_git(&["branch", "taken"]);
    let out = project.beside("out").display().to_string();
    let base = ["batch", "--each", "src/*.rs", "--recipe", "./document.yaml"];
    for (flags, code, message) in [
        (vec!["--out", &out, "--branch", "taken"], 63, "the branch taken already exists"),
        (vec!["--apply"], 2, "--apply needs --out"),
        (vec!["--out", &out, "--apply", "--shard", "1/2"], 2, "--apply cannot be combined with --shard"),
        (vec!["--out", &out, "--partial"], 2, "--partial without --apply, --commit, --branch or --branch-each"),
        (vec!["--out", &out, "--branch-each", "docs"], 2, "it has neither {key} nor {n}"),
        (vec!["--out", &out, "--apply", "--message", "x"], 2, "--apply makes no commit"),
        (vec!["--out", &out, "--apply", "--commit"], 2, "cannot be used with"),
    ] {
        let run = project.qwen(&[&base[..], &flags].concat());
        assert_eq!(run.code, code, "{flags:?}: {}", run.stderr);
        assert!(run.stderr.contains(message), "{flags:?}: {}", run.stderr);
    }
    assert_eq!(project.server().requests().len(), 0);
}

#[test]
fn what_an_item_was_denied_is_said_and_its_result_is_kept() {
    let answer = |request: &Value| match request["messages"].as_array().unwrap().len() {
        2 => call("write_file", json!({"file_path": "NOTES.md", "content": "x\n"})),
        4 => call("write_file", json!({"file_path": "src/a.txt", "content": "x\n"})),
        _ => say("done"),
    };
    let project = Project::new().file("document.yaml", RECIPE).file("src/b.rs", "// b\n").git();
    let project = project.served_by(Server::answering(answer));
    let out = project.beside("out").display().to_string();
    let run = project.qwen(&["batch", "--each", "src/*.rs", "--recipe", "./document.yaml", "--out", &out]);
    let line = run.stderr.lines().find(|line| line.starts_with("done src/b.rs 60 denied: ")).unwrap_or_default();
    assert!(line.contains("denied a call of write_file: ") && line.contains("NOTES.md"), "{}", run.stderr);
    let result = std::fs::read_to_string(format!("{out}/items/000001-src_b.rs.result.json")).unwrap();
    let result: Value = serde_json::from_str(&result).unwrap();
    assert_eq!(result["permission_denials"][0]["tool_input"]["file_path"], "NOTES.md");
}
