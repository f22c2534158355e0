//! Tests `qwen batch deliver --push`: a branch and a pull request for each repository, once, from a job without a model.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::batch_recipes::UPGRADE;
use crate::support::github::{GitHub, TOKEN, Trouble};
use crate::support::{Outcome, Project, Server, call, say};

/// A batch over one repository, `o/r`, that has run.
struct Done {
    project: Project,
    github: GitHub,
    digest: String,
}

fn sh(project: &Project, script: &str) -> String {
    let output = Command::new("sh")
        .args(["-ec", script])
        .current_dir(project.beside("."))
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn done() -> Done {
    let answer = |request: &Value| match request["messages"].as_array().unwrap().len() {
        2 => call("write_file", json!({"file_path": "version.txt", "content": "version 2\n"})),
        _ => say("It is version 2 now, @everyone."),
    };
    let project = Project::new()
        .file("repos.txt", "../o/r.git\n")
        .file("upgrade.yaml", UPGRADE)
        .served_by(Server::answering(answer));
    sh(
        &project,
        "mkdir o; git init -q --bare -b main o/r.git; git init -q -b main first; cd first
        git config user.email a@b; git config user.name a; echo 'version 1' > version.txt; git add -A; git commit -qm one
        git push -q ../o/r.git main",
    );
    let run = project.qwen(&["batch", "--repos", "repos.txt", "--recipe", "./upgrade.yaml", "--out", "out"]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    let digest = qwen_run::base::digest::sha256(project.read("out/summary.json").as_bytes());
    let github = GitHub::start(&project.beside("o/r.git"));
    let project = project.env("GITHUB_API_URL", &github.url).env("QWEN_GIT_TOKEN", TOKEN);
    Done { project, github, digest }
}

impl Done {
    fn push(&self, more: &[&str]) -> Outcome {
        let arguments = ["batch", "deliver", "out", "--push", "--sha256", &self.digest, "--branch-each", "qwen/{name}"];
        self.project.qwen(&[&arguments[..], more].concat())
    }

    fn tip(&self) -> String {
        self.github.state().tip("qwen/upgrade")
    }
}

#[test]
fn each_repository_gets_a_branch_and_one_pull_request() {
    let done = done();
    let requests = done.project.server().requests().len();
    let run = done.push(&["--pull-request", "--draft"]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.starts_with("ok ../o/r.git qwen/upgrade "), "{}", run.stdout);
    assert_eq!(sh(&done.project, "git -C o/r.git show qwen/upgrade:version.txt"), "version 2\n");
    {
        let state = done.github.state();
        let pulls: Vec<_> = state.pulls.values().collect();
        assert_eq!(pulls.len(), 1);
        assert_eq!(
            (pulls[0].head_ref.as_str(), pulls[0].base_ref.as_str(), pulls[0].draft),
            ("qwen/upgrade", "main", true)
        );
        assert!(
            pulls[0].body.contains("It is version 2 now") && !pulls[0].body.contains("@everyone"),
            "{}",
            pulls[0].body
        );
    }
    let (tip, asked) = (done.tip(), done.github.asked().len());
    let again = done.push(&["--pull-request", "--draft"]);
    assert_eq!((again.code, done.tip()), (0, tip), "{}", again.stdout);
    assert_eq!(done.github.writes_since(asked), [] as [&str; 0]);
    assert_eq!(done.project.server().requests().len(), requests, "no model is asked");
    assert!(sh(&done.project, "git -C o/r.git for-each-ref --format='%(refname)'").lines().count() == 2);
}

#[test]
fn a_branch_without_a_pull_request_gets_one_and_the_branch_stays() {
    let done = done();
    assert_eq!(done.push(&[]).code, 0);
    let tip = done.tip();
    assert_eq!(done.github.state().pulls.len(), 0);
    let run = done.push(&["--pull-request"]);
    assert_eq!((run.code, done.tip()), (0, tip), "{}{}", run.stdout, run.stderr);
    assert_eq!(done.github.state().pulls.len(), 1);
    // What was lost of the log changes nothing.
    std::fs::remove_file(done.project.root().join("out/deliver.jsonl")).unwrap();
    assert_eq!(done.push(&["--pull-request"]).code, 0);
    assert_eq!(done.github.state().pulls.len(), 1);
}

#[test]
fn of_two_deliveries_at_once_one_pushes() {
    let done = done();
    let held = std::fs::File::open(done.project.root().join("out/batch.json")).unwrap();
    held.try_lock().unwrap();
    let second = done.push(&[]);
    assert_eq!(second.code, 63, "{}{}", second.stdout, second.stderr);
    assert!(second.stderr.contains("out is in use by another process"), "{}", second.stderr);
    assert_eq!(sh(&done.project, "git -C o/r.git for-each-ref --format='%(refname)'"), "refs/heads/main\n");
    drop(held);
    assert_eq!(done.push(&[]).code, 0);
}

#[test]
fn a_limit_is_waited_for_and_one_that_lasts_ends_with_75() {
    let limit = |seconds: &str| {
        let headers = vec![("retry-after", seconds.to_owned())];
        Trouble::Status(403, headers, "You have exceeded a secondary rate limit.")
    };
    let done = done();
    done.github.trouble("POST /repos/o/r/pulls", limit("181"));
    let run = done.push(&["--pull-request"]);
    assert_eq!(run.code, 75, "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.starts_with("fail ../o/r.git qwen/upgrade: "), "{}", run.stdout);
    let log: Value = serde_json::from_str(done.project.read("out/deliver.jsonl").lines().next().unwrap()).unwrap();
    assert!(log["commit"].is_string() && log["pull_request"].is_null(), "{log}");
    done.github.trouble("POST /repos/o/r/pulls", limit("0"));
    let run = done.push(&["--pull-request"]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    assert_eq!(done.github.state().pulls.len(), 1);
}

#[test]
fn an_open_pull_request_is_brought_up_to_date() {
    let done = done();
    assert_eq!(done.push(&[]).code, 0);
    done.github.state().open_pull(7, "qwen/upgrade", "main");
    let run = done.push(&["--pull-request"]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    assert_eq!(done.github.state().pulls.len(), 1);
    assert!(done.github.state().pulls[&7].body.contains("version 2"));
}

#[test]
fn nothing_is_pushed_that_the_digest_does_not_vouch_for_or_that_is_somebody_s_work() {
    let done = done();
    let arguments = ["batch", "deliver", "out", "--push", "--branch-each", "qwen/{name}"];
    let run = done.project.qwen(&arguments);
    assert!(run.code == 63 && run.stderr.contains("--push without --sha256"), "{}", run.stderr);
    let run = done.project.qwen(&[&arguments[..], &["--sha256", &"0".repeat(64)]].concat());
    assert_eq!(run.code, 63, "{}", run.stderr);
    let run = done.project.qwen(&["batch", "deliver", "out", "--apply"]);
    assert!(run.code == 42 && run.stderr.contains("the items are repositories"), "{}", run.stderr);
    let to_main = ["batch", "deliver", "out", "--push", "--sha256", &done.digest, "--branch-each", "main"];
    assert_eq!(done.project.qwen(&to_main).code, 60);
    sh(&done.project, "git -C first push -q ../o/r.git main:qwen/upgrade");
    let before = done.tip();
    let run = done.push(&[]);
    assert_eq!((run.code, done.tip()), (63, before), "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.contains("qwen/upgrade has work by a ("), "{}", run.stdout);
    let changed = done.project.root().join("out/items.jsonl");
    let text = std::fs::read_to_string(&changed).unwrap();
    std::fs::write(&changed, text.replace("../o/r.git", "../o/x.git")).unwrap();
    assert_eq!(done.push(&[]).code, 63, "another address is not vouched for");
}

#[test]
fn a_pull_request_that_somebody_closed_stays_closed_and_its_branch_as_it_is() {
    let done = done();
    let first = done.push(&["--pull-request"]);
    assert_eq!(first.code, 0, "{}{}", first.stdout, first.stderr);
    done.github.state().pulls.values_mut().for_each(|pull| pull.is_open = false);
    sh(&done.project, "cd first; echo more > more.txt; git add -A; git commit -qm two; git push -q ../o/r.git main");
    let (tip, asked) = (done.tip(), done.github.asked().len());
    let again = done.push(&["--pull-request"]);
    assert_eq!((again.code, &again.stdout, done.tip()), (0, &first.stdout, tip), "{}", again.stderr);
    assert_eq!(done.github.writes_since(asked), [] as [&str; 0]);
}

/// Changes each scalar of a JSON value in turn.
fn each_changed(value: &Value, pointer: &str) -> Vec<(String, Value)> {
    let below: Vec<(String, &Value)> = match value {
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Array(values) => values.iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect(),
        Value::Null => return vec![(pointer.to_owned(), json!("x"))],
        Value::Bool(known) => return vec![(pointer.to_owned(), json!(!known))],
        Value::Number(known) => {
            return vec![(pointer.to_owned(), json!(known.as_f64().unwrap_or_default() as i64 + 1))];
        }
        Value::String(known) => return vec![(pointer.to_owned(), json!(format!("{known}x")))],
    };
    below.into_iter().flat_map(|(name, value)| each_changed(value, &format!("{pointer}/{name}"))).collect()
}

/// Returns a text of lines of JSON, or of one JSON value, with each scalar changed in turn, and where that is.
fn each_change(text: &str, is_lines: bool) -> Vec<(String, String)> {
    let pieces: Vec<&str> = if is_lines { text.lines().collect() } else { vec![text] };
    let mut all = Vec::new();
    for (number, piece) in pieces.iter().enumerate() {
        let value: Value = serde_json::from_str(piece).unwrap();
        for (at, changed) in each_changed(&value, "") {
            let mut whole = value.clone();
            *whole.pointer_mut(&at).unwrap() = changed;
            let mut pieces: Vec<String> = pieces.iter().map(|piece| (*piece).to_owned()).collect();
            pieces[number] = whole.to_string();
            all.push((format!("line {number} {at}"), pieces.join("\n") + "\n"));
        }
    }
    all
}

impl Done {
    /// Delivers to a server that nothing was delivered to, and returns all that is there then and what was said, without
    /// what depends on the time; `None` if it was refused and nothing is there.
    fn delivered(&self) -> Option<String> {
        self.github.state().pulls.clear();
        sh(&self.project, "git -C o/r.git update-ref -d refs/heads/qwen/upgrade");
        let run = self.push(&["--pull-request"]);
        let refs = sh(&self.project, "git -C o/r.git for-each-ref --format='%(refname) %(tree) %(parent) %(contents)'");
        let state = self.github.state();
        if run.code != 0 {
            assert!(refs.lines().next().unwrap().starts_with("refs/heads/main ") && !refs.contains("refs/heads/qwen"));
            assert_eq!(state.pulls.len(), 0, "{}", run.stdout);
            return None;
        }
        let pulls = state.pulls.values();
        let pulls: Vec<_> = pulls.map(|pull| (&pull.head_ref, &pull.base_ref, &pull.title, &pull.body)).collect();
        let is_commit = |word: &&str| word.len() > 6 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        let said = run.stdout.split(' ').filter(|word| !is_commit(word));
        Some(format!("{refs}{pulls:?}{}", said.collect::<Vec<_>>().join(" ")))
    }
}

#[test]
fn whatever_is_changed_in_the_directory_the_delivery_is_the_same_or_refused() {
    let done = done();
    let wanted = done.delivered().expect("nothing was changed");
    let patch = done.project.root().join("out/items");
    let patch = std::fs::read_dir(patch).unwrap().map(|entry| entry.unwrap().path());
    let patch = patch.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "patch")).unwrap();
    let text = std::fs::read_to_string(&patch).unwrap();
    std::fs::write(&patch, text.replace("version 2", "version 3")).unwrap();
    assert_eq!(done.delivered(), None, "another patch");
    std::fs::write(&patch, text).unwrap();
    let (mut refused, mut all) = (0, 0);
    for (name, is_lines) in [
        ("journal.jsonl", true),
        ("batch.json", false),
        ("items.jsonl", true),
        ("deliver.jsonl", true),
        ("summary.json", false),
    ] {
        let path = done.project.root().join("out").join(name);
        let text = std::fs::read_to_string(&path).unwrap();
        for (at, changed) in each_change(&text, is_lines) {
            std::fs::write(&path, &changed).unwrap();
            match done.delivered() {
                Some(delivered) => assert_eq!(delivered, wanted, "{name} {at}: {changed}"),
                None => refused += 1,
            }
            all += 1;
        }
        std::fs::write(&path, text).unwrap();
    }
    assert!(refused > 50 && all > refused, "{refused} of {all}");
}
