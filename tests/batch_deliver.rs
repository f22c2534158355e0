//! Tests `qwen batch deliver`: the changes of the items become one change, or a branch each, or nothing.

use serde_json::{Value, json};

use crate::support::Project;
use crate::support::batch::{Ending, ended, left, write_batch, write_shards};

fn lines(change: &[(usize, &str)]) -> String {
    let text = |n: usize| {
        change.iter().find(|(at, _)| *at == n).map_or_else(|| format!("line {n}"), |(_, new)| (*new).to_owned())
    };
    (1..=30).map(|n| text(n) + "\n").collect()
}

pub(crate) fn project() -> Project {
    Project::new().file("a.txt", lines(&[])).file("b.txt", "b\n").git()
}

/// Returns the patch that writes these files.
fn patch(project: &Project, files: &[(&str, &str)]) -> String {
    for (path, content) in files {
        std::fs::write(project.root().join(path), content).unwrap();
    }
    project.run_git(&["add", "-A", "--", "a.txt", "b.txt", "."]);
    let patch = project.run_git(&["diff", "--binary", "--cached", "HEAD"]);
    project.run_git(&["reset", "-q", "--hard"]);
    patch
}

/// Returns items of which `both` touch, and the others do not.
pub(crate) fn items(project: &Project) -> Vec<Ending> {
    let one = |files: &[(&str, &str)]| patch(project, files);
    vec![
        ended("first", 0).patch(&one(&[("a.txt", &lines(&[(2, "TWO")]))])),
        ended("nothing", 65),
        ended("second", 3).patch(&one(&[("a.txt", &lines(&[(15, "FIFTEEN")])), ("new.txt", "new\n")])),
        ended("touches", 0).patch(&one(&[("a.txt", &lines(&[(2, "ZWEI")])), ("b.txt", "B\n")])),
        ended("last", 0).patch(&one(&[("a.txt", &lines(&[(28, "END")]))])),
    ]
}

pub(crate) fn without(items: Vec<Ending>, at: usize) -> Vec<Ending> {
    items.into_iter().enumerate().filter(|(number, _)| *number != at).map(|(_, item)| item).collect()
}

#[test]
fn changes_that_do_not_touch_become_one_change_that_can_be_undone() {
    let project = project();
    let items = without(items(&project), 3);
    let out = project.beside("out");
    write_batch(&out, &items, None);
    let out = out.display().to_string();
    let before = project.tree();
    let check = project.qwen(&["batch", "deliver", &out]);
    assert_eq!(check.code, 0, "{}", check.stderr);
    insta::assert_snapshot!(check.stdout);
    assert_eq!(project.tree(), before);
    let outcome = project.qwen(&["batch", "deliver", &out, "--apply", "-o", "result"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let result: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(result["keys"], json!(["first", "second", "last"]));
    assert_eq!(project.read("a.txt"), lines(&[(2, "TWO"), (15, "FIFTEEN"), (28, "END")]));
    assert_eq!(project.read("new.txt"), "new\n");
    assert_eq!(project.qwen(&["undo"]).code, 0);
    assert_eq!(project.tree(), before);
}

#[test]
fn the_combined_change_is_what_apply_of_each_patch_in_order_leaves() {
    let project = project();
    let all = items(&project);
    let patches: Vec<String> = all.iter().filter_map(|item| item.patch_text().map(str::to_owned)).collect();
    let out = project.beside("out");
    write_batch(&out, &all, None);
    let outcome = project.qwen(&[
        "batch",
        "deliver",
        &out.display().to_string(),
        "--apply",
        "--on-conflict",
        "skip",
        "-o",
        "result",
    ]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let result: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let other = self::project();
    let mut refused = 0;
    for patch in &patches {
        std::fs::write(other.beside("p"), patch).unwrap();
        // What an earlier one changed is not committed.
        other.run_git(&["commit", "-qam", "x", "--allow-empty"]);
        let applied = other.qwen(&["apply", &other.beside("p").display().to_string()]);
        refused += usize::from(applied.code == 63);
    }
    assert_eq!(project.tree(), other.tree());
    assert_eq!(result["left_out"].as_array().unwrap().len(), refused);
}

#[test]
fn changes_that_touch_are_a_conflict_that_names_both_keys_and_nothing_is_written() {
    let project = project();
    let out = project.beside("out");
    write_batch(&out, &items(&project), None);
    let out = out.display().to_string();
    let before = project.tree();
    let outcome = project.qwen(&["batch", "deliver", &out, "--apply"]);
    assert_eq!(outcome.code, 63, "{}", outcome.stdout);
    insta::assert_snapshot!(outcome.stderr);
    assert_eq!(project.tree(), before);
    let outcome = project.qwen(&["batch", "deliver", &out, "--commit", "--on-conflict", "skip"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stdout.contains("left out, because it touches an earlier change: touches"), "{}", outcome.stdout);
    // Not even the part of it that touches nothing.
    assert_eq!(project.read("b.txt"), "b\n");
    insta::assert_snapshot!("message", project.run_git(&["log", "-1", "--format=%B"]));
    let outcome = self::project();
    write_batch(&outcome.beside("out"), &items(&outcome), None);
    let only = outcome.qwen(&[
        "batch",
        "deliver",
        &outcome.beside("out").display().to_string(),
        "--only",
        "touches",
        "--apply",
    ]);
    assert_eq!((only.code, outcome.read("b.txt").as_str()), (0, "B\n"), "{}", only.stderr);
}

#[test]
fn a_file_that_has_changed_since_is_a_conflict_of_one_key() {
    let project = project();
    let items = without(items(&project), 3);
    std::fs::write(project.root().join("a.txt"), lines(&[(15, "mine")])).unwrap();
    project.run_git(&["commit", "-qam", "mine"]);
    write_batch(&project.beside("out"), &items, None);
    let outcome = project.qwen(&["batch", "deliver", &project.beside("out").display().to_string(), "--apply"]);
    assert_eq!(outcome.code, 63);
    assert!(outcome.stderr.contains("a.txt: it has changed since `second` was done"), "{}", outcome.stderr);
}

#[test]
fn nothing_is_delivered_while_an_item_failed_or_is_not_done_unless_partial() {
    let project = project();
    let items = [without(items(&project), 3), vec![ended("bad", 64).patch("x"), left("later")]].concat();
    write_batch(&project.beside("out"), &items, None);
    let out = project.beside("out").display().to_string();
    let outcome = project.qwen(&["batch", "deliver", &out, "--apply"]);
    assert_eq!(outcome.code, 63);
    assert!(outcome.stderr.contains("2 items failed or not done: bad, later"), "{}", outcome.stderr);
    let outcome = project.qwen(&["batch", "deliver", &out, "--apply", "--partial"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let unknown = project.qwen(&["batch", "deliver", &out, "--apply", "--only", "nobody"]);
    assert_eq!(unknown.code, 42, "{}", unknown.stderr);
    write_shards(&project.beside("shards"), &items, 2);
    let shards = project.qwen(&["batch", "deliver", &project.beside("shards").display().to_string()]);
    assert_eq!(shards.code, 42, "{}", shards.stderr);
}

#[test]
fn a_command_must_pass_on_the_combined_change() {
    let project = project();
    write_batch(&project.beside("out"), &without(items(&project), 3), None);
    let out = project.beside("out").display().to_string();
    let before = project.tree();
    let outcome = project.qwen(&["batch", "deliver", &out, "--apply", "--verify-combined", "grep -q FIFTEEN b.txt"]);
    assert_eq!(outcome.code, 64, "{}{}", outcome.stdout, outcome.stderr);
    assert_eq!(project.tree(), before);
    let both = "grep -q FIFTEEN a.txt && grep -q END a.txt";
    let outcome = project.qwen(&["batch", "deliver", &out, "--apply", "--verify-combined", both]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
}

#[test]
fn each_item_gets_a_branch_of_its_own_and_the_work_tree_stays() {
    let project = project();
    write_batch(&project.beside("out"), &items(&project), None);
    let out = project.beside("out").display().to_string();
    let before = project.tree();
    let twice = project.qwen(&["batch", "deliver", &out, "--branch-each", "qwen/same"]);
    assert_eq!(twice.code, 63);
    assert!(twice.stderr.contains("`qwen/same` is the branch of both `first` and `second`"), "{}", twice.stderr);
    let invalid = project.qwen(&["batch", "deliver", &out, "--branch-each", "qwen/{key}..lock"]);
    assert_eq!(invalid.code, 63, "{}", invalid.stderr);
    let outcome = project.qwen(&["batch", "deliver", &out, "--branch-each", "qwen/{n}-{key}"]);
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    assert_eq!(project.tree(), before);
    let branches = project.run_git(&["branch", "--format=%(refname:short)", "--list", "qwen/*"]);
    assert_eq!(branches, "qwen/1-first\nqwen/3-second\nqwen/4-touches\nqwen/5-last\n");
    assert_eq!(project.run_git(&["show", "qwen/4-touches:b.txt"]), "B\n");
    let tips = || project.run_git(&["for-each-ref", "--format=%(objectname)", "refs/heads/qwen"]);
    let made = tips();
    let again = project.qwen(&["batch", "deliver", &out, "--branch-each", "qwen/{n}-{key}"]);
    assert_eq!((again.code, tips()), (0, made), "{}", again.stdout);
    project.run_git(&["branch", "-q", "-f", "qwen/1-first", "qwen/3-second"]);
    let other = project.qwen(&["batch", "deliver", &out, "--branch-each", "qwen/{n}-{key}"]);
    assert_eq!(other.code, 63, "{}", other.stdout);
    assert!(
        other.stdout.contains("fail first qwen/1-first: the branch qwen/1-first already exists"),
        "{}",
        other.stdout
    );
}

#[test]
fn with_a_digest_nothing_counts_that_the_result_does_not_vouch_for() {
    let project = project();
    write_shards(&project.beside("shards"), &without(items(&project), 3), 2);
    let (shards, out) = (project.beside("shards").display().to_string(), project.beside("out").display().to_string());
    let merged = project.qwen(&["batch", "merge", &shards, "--out", &out]);
    assert_eq!(merged.code, 0, "{}", merged.stderr);
    let summary = std::fs::read(project.beside("out/summary.json")).unwrap();
    let digest = qwen_run::base::digest::sha256(&summary);
    let deliver = |digest: &str| project.qwen(&["batch", "deliver", &out, "--sha256", digest]);
    assert_eq!(deliver(&digest).code, 0);
    assert_eq!(deliver(&"0".repeat(64)).code, 63);
    // Patch, journal and list are changed so that they fit each other.
    let evil = patch(&project, &[("a.txt", &lines(&[(9, "evil")]))]);
    let path = project.beside("out/items/000001-first.patch");
    let known = qwen_run::base::digest::sha256(&std::fs::read(&path).unwrap());
    std::fs::write(&path, &evil).unwrap();
    assert_eq!(deliver(&digest).code, 42);
    let journal = project.beside("out/journal.jsonl");
    let text = std::fs::read_to_string(&journal).unwrap();
    std::fs::write(&journal, text.replace(&known, &qwen_run::base::digest::sha256(evil.as_bytes()))).unwrap();
    let outcome = deliver(&digest);
    assert_eq!(outcome.code, 63, "{}", outcome.stdout);
    assert!(outcome.stderr.contains("is not as its summary.json says"), "{}", outcome.stderr);
}

#[test]
fn with_a_digest_neither_what_the_batch_is_nor_a_change_can_be_taken_away() {
    let project = project();
    write_shards(&project.beside("shards"), &without(items(&project), 3), 2);
    let (shards, out) = (project.beside("shards").display().to_string(), project.beside("out").display().to_string());
    let merged = project.qwen(&["batch", "merge", &shards, "--out", &out]);
    assert_eq!(merged.code, 0, "{}", merged.stderr);
    let digest = qwen_run::base::digest::sha256(&std::fs::read(project.beside("out/summary.json")).unwrap());
    let altered = |file: &str, alter: &dyn Fn(&str) -> String| {
        let path = project.beside("out").join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        let other = alter(&text);
        assert_ne!(other, text, "{file}");
        std::fs::write(&path, other).unwrap();
        let outcome = project.qwen(&["batch", "deliver", &out, "--sha256", &digest]);
        std::fs::write(&path, text).unwrap();
        outcome.code
    };
    let field = |name: &str, value: Value| {
        let name = name.to_owned();
        move |text: &str| {
            let mut object: Value = serde_json::from_str(text).unwrap();
            object[&name] = value.clone();
            object.to_string()
        }
    };
    assert_eq!(altered("batch.json", &field("model", json!("other"))), 63);
    assert_eq!(altered("batch.json", &field("batch_id", json!("other"))), 63);
    let forgotten = |text: &str| {
        let line = |line: &str| {
            let mut end: Value = serde_json::from_str(line).unwrap();
            if end["t"] == "end" && end["key"] == "first" {
                (end["patch"], end["patch_sha256"]) = (Value::Null, Value::Null);
            }
            end.to_string() + "\n"
        };
        text.lines().map(line).collect()
    };
    assert_eq!(altered("journal.jsonl", &forgotten), 63);
}

#[test]
fn the_policy_decides_about_the_combined_change() {
    let project = project();
    let bad = patch(&project, &[(".github-x", "x\n")]);
    write_batch(&project.beside("out"), &[ended("a", 0).patch(&bad)], None);
    let out = project.beside("out").display().to_string();
    std::fs::write(project.beside("p.yaml"), "version: 1\nname: p\npaths: {write: {allow: ['a.txt']}}\n").unwrap();
    let outcome = project.qwen(&[
        "batch",
        "deliver",
        &out,
        "--apply",
        "--policy",
        &project.beside("p.yaml").display().to_string(),
    ]);
    assert_eq!(outcome.code, 60, "{}{}", outcome.stdout, outcome.stderr);
    assert!(!project.root().join(".github-x").exists());
}

#[test]
fn no_secret_is_in_the_message_of_a_batch() {
    let project = project().env("DB_PASSWORD", "hunter2-hunter2-hunter2");
    let out = project.beside("out");
    let change = patch(&project, &[("b.txt", "B\n")]);
    write_batch(&out, &[ended("of-hunter2-hunter2-hunter2", 0).patch(&change)], None);
    let (out, message) =
        (out.display().to_string(), "Use hunter2-hunter2-hunter2 and hunter2-hunter2-hunter2 for all of it");
    for given in [&[][..], &["--message", message]] {
        let done = project.qwen(&[&["batch", "deliver", &out, "--commit"], given].concat());
        assert_eq!(done.code, 0, "{}", done.stderr);
        let log = project.run_git(&["log", "-1", "--format=%B"]);
        assert!(log.contains("[redacted:DB_PASSWORD]") && !log.contains("hunter2"), "{log}");
        assert_eq!(project.qwen(&["undo"]).code, 0);
    }
}
