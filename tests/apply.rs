//! Tests the two steps: a dry run proposes, `qwen apply` judges again and delivers, `qwen undo` reverts.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Outcome, Project, call, say};

/// A repository, and the patch that makes these changes to it.
fn patch(project: &Project, change: impl FnOnce(&Project)) -> String {
    change(project);
    project.run_git(&["add", "-A"]);
    let file = project.beside("x.patch").display().to_string();
    project.run_git(&["diff", "--cached", "--binary", "--full-index", "-M", &format!("--output={file}")]);
    project.run_git(&["reset", "-q", "--hard"]);
    project.run_git(&["clean", "-qfd"]);
    file
}

fn write(project: &Project, path: &str, content: impl AsRef<[u8]>) {
    let path = project.root().join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

fn lines(range: std::ops::Range<usize>) -> String {
    range.map(|line| format!("line {line}\n")).collect()
}

/// The result of a dry run that edits `a.txt`.
fn result(project: &Project) -> String {
    let outcome = project.run(&["edit it"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    project.beside("result.json").display().to_string()
}

fn editing() -> Project {
    let edit = json!({"file_path": "a.txt", "old_string": "line 30\n", "new_string": "line thirty\n"});
    Project::new().file("a.txt", lines(0..60)).git().model([call("edit", edit), say("done")])
}

fn assert_refused(outcome: &Outcome, code: i32, why: &str) {
    assert_eq!(outcome.code, code, "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stderr.contains(why), "{}", outcome.stderr);
}

#[test]
fn a_result_is_applied_undone_and_undone_no_second_time() {
    let project = editing();
    let result = result(&project);
    let before = project.tree();
    let check = project.qwen(&["apply", "--check", &result]);
    assert_eq!((check.code, project.tree()), (0, before.clone()), "{}", check.stderr);
    assert!(check.stdout.contains("1 file would change, +1 -1\n  a.txt  +1 -1\n"), "{}", check.stdout);
    assert_refused(&project.qwen(&["undo"]), 63, "no record of a run that changed");

    let applied = project.qwen(&["apply", &result]);
    assert_eq!(applied.code, 0, "{}", applied.stderr);
    assert!(project.read("a.txt").contains("line thirty\n"));
    let again = project.qwen(&["apply", &result]);
    assert_eq!((again.code, again.stdout.as_str()), (0, "ok: Nothing to do: already applied\n"));

    let undone = project.qwen(&["undo"]);
    assert_eq!((undone.code, project.tree()), (0, before.clone()), "{}", undone.stderr);
    let twice = project.qwen(&["undo"]);
    assert!(twice.code == 0 && twice.stdout.contains("is already undone"), "{}", twice.stdout);
    assert_eq!(project.tree(), before);
}

#[test]
fn undo_names_its_run_and_lists_those_that_it_can_undo() {
    let project = editing();
    let result = result(&project);
    let list = || project.qwen(&["undo", "--list"]).stdout;
    assert_eq!(list(), "no run here has an undo record\n");
    for _ in 0..2 {
        assert_eq!(project.qwen(&["apply", "--commit", &result]).code, 0);
        project.run_git(&["revert", "--no-edit", "HEAD"]);
    }
    let runs = list();
    let ids: Vec<&str> = runs.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(ids.len() == 2 && runs.lines().all(|line| line.ends_with(" UTC  1 file")), "{runs}");
    let undone = project.qwen(&["undo"]).stdout;
    assert!(undone.ends_with(&format!("  run {}\n  earlier runs:  qwen undo --list\n", ids[0])), "{undone}");
    let all: Value = serde_json::from_str(&project.qwen(&["undo", "--list", "-o", "result"]).stdout).unwrap();
    let shown = |at: usize| (all["runs"][at]["run_id"].as_str().unwrap(), &all["runs"][at]["undone"]);
    assert_eq!((shown(0), shown(1)), ((ids[0], &json!(true)), (ids[1], &json!(false))), "{all}");
}

#[test]
fn undo_shows_no_secret_in_the_name_of_a_file() {
    let secret = "hunter2-hunter2";
    let name = format!("{secret}.txt");
    let project = Project::new().file(&name, "one\n").env("MY_TOKEN", secret).git();
    let patch = format!("--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-one\n+two\n");
    std::fs::write(project.beside("c.patch"), patch).unwrap();
    let apply = || assert_eq!(project.qwen(&["apply", &project.beside("c.patch").display().to_string()]).code, 0);
    apply();
    let listed = project.qwen(&["undo", "--list", "-o", "result"]);
    let undone = project.qwen(&["undo"]);
    assert_eq!((undone.code, project.read(&name).as_str()), (0, "one\n"), "{}", undone.stderr);
    apply();
    write(&project, &name, "three\n");
    let left = project.qwen(&["undo", "-o", "result"]);
    assert_eq!(left.code, 63, "{}", left.stderr);
    for said in [&listed.stdout, &undone.stdout, &left.stdout] {
        assert!(said.contains(".txt") && !said.contains("hunter2"), "{said}");
    }
}

#[test]
fn undo_after_a_commit_takes_it_back_and_leaves_what_a_person_changed() {
    let project = editing();
    let result = result(&project);
    let head = project.run_git(&["rev-parse", "HEAD"]);
    let committed = project.qwen(&["apply", "--commit", "--message", "fix: it", &result]);
    assert_eq!(committed.code, 0, "{}", committed.stderr);
    assert!(committed.stdout.contains(" committed to main as "), "{}", committed.stdout);
    assert_eq!(project.run_git(&["log", "-1", "--format=%B"]).trim(), "fix: it\n\nAssisted-by: qwen-run");
    assert_eq!(project.run_git(&["status", "--porcelain"]), "");
    assert_eq!(project.qwen(&["undo"]).code, 0);
    assert_eq!(project.run_git(&["rev-parse", "HEAD"]), head);
    assert_eq!(project.run_git(&["status", "--porcelain"]), "");

    assert_eq!(project.qwen(&["apply", &result]).code, 0);
    let delivered = project.read("a.txt");
    write(&project, "a.txt", "by a person\n");
    let left = project.qwen(&["undo"]);
    assert_eq!(left.code, 63);
    assert!(left.stdout.contains("  a.txt  kept, changed since the run\n"), "{}", left.stdout);
    assert_eq!(project.read("a.txt"), "by a person\n");

    // What was kept is taken back once it is as the delivery left it.
    write(&project, "a.txt", &delivered);
    let rest = project.qwen(&["undo"]);
    assert!(rest.code == 0 && rest.stdout.contains("1 file restored"), "{}", rest.stdout);
    assert_eq!(project.run_git(&["status", "--porcelain"]), "");
    let last = project.qwen(&["undo"]);
    assert!(
        last.stdout.contains("is already undone") && last.stdout.contains("--no-undo leave none"),
        "{}",
        last.stdout
    );
}

#[test]
fn a_file_that_has_changed_elsewhere_since_is_merged() {
    let project = editing();
    let result = result(&project);
    write(&project, "a.txt", format!("first\n{}", lines(0..60)));
    project.run_git(&["commit", "-q", "-a", "-m", "moved on"]);
    let merged = project.qwen(&["apply", &result]);
    assert_eq!(merged.code, 0, "{}", merged.stderr);
    assert!(merged.stdout.contains("  merged with later changes: a.txt\n"), "{}", merged.stdout);
    let text = project.read("a.txt");
    assert!(text.starts_with("first\nline 0\n") && text.contains("line thirty\nline 31\n"));
}

#[test]
fn what_does_not_fit_is_named_by_file_and_hunk_and_nothing_is_written() {
    let project = Project::new().file("a.txt", lines(0..60)).file("b.txt", lines(0..60)).file("c.txt", "c\n").git();
    let patch = patch(&project, |project| {
        for name in ["a.txt", "b.txt"] {
            let text = lines(0..60).replace("line 5\n", "five\n").replace("line 50\n", "fifty\n");
            write(project, name, text);
        }
        write(project, "c.txt", "see\n");
    });
    write(&project, "a.txt", lines(0..60).replace("line 50\n", "another fifty\n"));
    write(&project, "b.txt", lines(0..60).replace("line 5\n", "another five\n"));
    project.run_git(&["commit", "-q", "-a", "-m", "moved on"]);
    let before = project.snapshot();
    let refused = project.qwen(&["apply", &patch]);
    assert_refused(&refused, 63, "a.txt: the patch does not apply: hunk 2: the file has other changes there");
    assert_refused(&refused, 63, "b.txt: the patch does not apply: hunk 1: the file has other changes there");
    assert!(!refused.stderr.contains("c.txt"), "{}", refused.stderr);
    assert_eq!(project.snapshot(), before, "tree, index and .git are untouched");
}

#[test]
fn a_patch_of_every_kind_of_change_comes_by_standard_input() {
    let project = Project::new()
        .file("crlf.txt", "one\r\ntwo\r\nthree\r\n")
        .file("old-name.txt", lines(0..30))
        .file("script.sh", "#!/bin/sh\n")
        .file("binary", [0, 1, 2, 255])
        .file("gone.txt", "x")
        .file("latin", b"\xe9\n")
        .git();
    let patch = patch(&project, |project| {
        write(project, "crlf.txt", "one\r\n2\r\nthree\r\n");
        std::fs::rename(project.root().join("old-name.txt"), project.root().join("new name.txt")).unwrap();
        std::fs::set_permissions(project.root().join("script.sh"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        write(project, "binary", [0, 9, 2, 254, 0]);
        std::fs::remove_file(project.root().join("gone.txt")).unwrap();
        write(project, "latin", b"\xe9\xe8\n");
        write(project, "new/deep/file", "no end");
    });
    let wanted = {
        project.run_git(&["apply", "--index", &patch]);
        let tree = project.run_git(&["write-tree"]);
        project.run_git(&["reset", "-q", "--hard"]);
        project.run_git(&["clean", "-qfd"]);
        tree
    };
    let policy = "version: 1\nname: x\nextends: builtin:edit\npaths: {write: {exec_bit: true}}\n";
    let project = project.policy(policy).stdin(std::fs::read(&patch).unwrap());
    let applied = project.qwen(&["apply", "-", "--commit"]);
    assert_eq!(applied.code, 0, "{}", applied.stderr);
    assert_eq!(project.run_git(&["rev-parse", "HEAD^{tree}"]), wanted);
    assert_eq!(project.run_git(&["status", "--porcelain"]), "");
}

#[test]
fn line_ends_that_differ_are_told_as_such() {
    let project = Project::new().file("a.txt", "one\r\ntwo\r\n").git();
    let project = project.stdin("--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n");
    let refused = project.qwen(&["apply", "-"]);
    assert_refused(&refused, 63, "a.txt");
    assert_eq!(project.read("a.txt"), "one\r\ntwo\r\n");
}

#[test]
fn the_policy_judges_again_and_what_was_tampered_with_is_refused() {
    let project = editing();
    let file = result(&project);
    let mut value: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let patch = value["changes"]["patch"].as_str().unwrap().replace("line thirty", "line evil");
    value["changes"]["patch"] = Value::from(patch);
    std::fs::write(&file, value.to_string()).unwrap();
    let before = project.snapshot();
    assert_refused(&project.qwen(&["apply", &file]), 63, "digest");

    let new = |name: &str, mode: &str, text: &str| {
        format!(
            "diff --git a/{name} b/{name}\nnew file mode {mode}\n--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+{text}\n"
        )
    };
    let key = format!("k = 'AKIA{}'", "ABCDEFGHIJKLMNOP");
    for (text, why) in [
        (new(".github/workflows/x.yml", "100644", "x"), "protected"),
        (new(".git/hooks/pre-commit", "100644", "x"), ".git"),
        (new("x.sh", "100755", "x"), "exec"),
        (new("l", "120000", "/etc/passwd"), "link"),
        (new("k.py", "100644", &key), "secret"),
    ] {
        std::fs::write(project.beside("x.patch"), text).unwrap();
        let refused = project.qwen(&["apply", &project.beside("x.patch").display().to_string()]);
        assert_refused(&refused, 60, why);
        assert!(!refused.stderr.contains("AKIA"), "{}", refused.stderr);
    }
    std::fs::write(project.beside("x.patch"), new("a.txt", "100644", "x")).unwrap();
    let there = project.qwen(&["apply", &project.beside("x.patch").display().to_string()]);
    assert_refused(
        &there,
        63,
        "a.txt: the patch does not apply: the new file cannot be made: another one already exists",
    );
    for bad in ["", "no patch at all\n", "--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-a\n+b\n"] {
        std::fs::write(project.beside("x.patch"), bad).unwrap();
        let ended = project.qwen(&["apply", &project.beside("x.patch").display().to_string()]);
        assert_eq!(ended.code, if bad.is_empty() { 0 } else { 42 }, "{bad:?}: {}", ended.stderr);
    }
    assert_eq!(project.qwen(&["apply", "missing.json"]).code, 42);
    assert_eq!(project.snapshot(), before, "tree, index and .git are untouched");
}

#[test]
fn a_dirty_file_is_a_conflict_and_a_home_that_cannot_be_written_is_told_before_anything_is() {
    let project = editing();
    let result = result(&project);
    write(&project, "a.txt", format!("{}dirty\n", lines(0..60)));
    assert_refused(&project.qwen(&["apply", &result]), 63, "a.txt has uncommitted changes");
    assert_refused(&project.qwen(&["apply", "--check", &result]), 63, "a.txt has uncommitted changes");
    project.run_git(&["checkout", "-q", "a.txt"]);

    let homeless = |arguments: &[&str]| {
        let mut command = project.command(arguments);
        // A home that is not a whole path is none: without the variable the system would name the real one.
        command.env("HOME", "nowhere").stdin(Stdio::null());
        command.output().unwrap()
    };
    let refused = homeless(&["apply", &result]);
    assert_eq!(refused.status.code(), Some(63), "{}", String::from_utf8_lossy(&refused.stderr));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--no-undo"));
    assert_eq!(homeless(&["apply", "--check", &result]).status.code(), Some(0));
    // A file is where the directory of records would be: no right to write helps.
    let _gone = std::fs::remove_dir_all(project.home().join(".local"));
    std::fs::write(project.home().join(".local"), "").unwrap();
    assert_refused(&project.qwen(&["apply", &result]), 63, "cannot write an undo record");
    assert!(!project.read("a.txt").contains("thirty"));
    assert_eq!(homeless(&["apply", "--no-undo", &result]).status.code(), Some(0));
    assert!(project.read("a.txt").contains("line thirty\n"));
}

#[test]
fn a_standard_output_that_nobody_reads_changes_nothing_about_the_delivery() {
    for (number, shell) in ["exec \"$@\" >&-", "exec \"$@\" > /dev/full", "\"$@\" | true"].iter().enumerate() {
        let project = editing();
        let result = result(&project);
        let plain = project.command(&["apply", "-o", "patch", &result]);
        let mut command = std::process::Command::new("sh");
        command.args(["-c", shell, "sh"]).arg(plain.get_program()).args(plain.get_args());
        command.current_dir(project.root()).env_clear().stdin(Stdio::null()).stderr(Stdio::piped());
        command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = command.output().unwrap();
        assert!(project.read("a.txt").contains("line thirty\n"), "{number}: {output:?}");
        assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{output:?}");
        assert_eq!(project.qwen(&["undo"]).code, 0);
    }
}

/// Many files, so that a delivery takes a while.
pub(crate) fn large() -> (Project, String) {
    let mut project = Project::new();
    for number in 0..40 {
        project = project.file(&format!("src/f{number}"), lines(0..20));
    }
    let project = project.git();
    let patch = patch(&project, |project| {
        for number in 0..40 {
            match number % 4 {
                0 => std::fs::remove_file(project.root().join(format!("src/f{number}"))).unwrap(),
                1 => write(project, &format!("new/d{number}/f"), lines(0..5)),
                _ => write(project, &format!("src/f{number}"), lines(5..30)),
            }
        }
    });
    (project, patch)
}

/// Returns what a delivery wrote next to its places, and locks, if any are left.
pub(crate) fn leftovers(project: &Project) -> Vec<std::path::PathBuf> {
    let ours = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with(".qwen-") || name.ends_with(".lock")
    };
    project.snapshot().into_keys().filter(ours).collect()
}

/// Kills deliveries at moments spread over their whole length; each is put right by what follows.
fn kill(times: u32) {
    let (project, patch) = large();
    let head = project.run_git(&["rev-parse", "HEAD"]);
    let before = project.tree();
    let started = Instant::now();
    assert_eq!(project.qwen(&["apply", &patch]).code, 0);
    let whole = started.elapsed();
    let after = project.tree();
    assert_eq!(project.qwen(&["undo"]).code, 0);
    for number in 0..times {
        let commits = number % 3 == 0;
        let arguments: &[&str] = if commits { &["apply", "--commit", &patch] } else { &["apply", &patch] };
        let mut child = project.spawn(arguments);
        // Not a wait for something to happen: the moment is what is tried.
        std::thread::sleep(whole.mul_f64(f64::from(number) / f64::from(times) * if commits { 2.0 } else { 1.0 }));
        let _ended = child.kill();
        child.wait().unwrap();
        if number % 2 == 0 {
            let again = project.qwen(&["apply", &patch]);
            assert_eq!(again.code, 0, "{number}: {}{}", again.stdout, again.stderr);
            assert_eq!(project.tree(), after, "{number}");
        } else if number % 5 == 0 {
            let mut undoing = project.spawn(&["undo"]);
            std::thread::sleep(Duration::from_millis(u64::from(number % 40)));
            let _ended = undoing.kill();
            undoing.wait().unwrap();
        }
        for _ in 0..3 {
            // The last one, and whatever was begun before it.
            let undone = project.qwen(&["undo"]);
            assert!(matches!(undone.code, 0 | 63), "{number}: {}", undone.stderr);
            if project.tree() == before {
                break;
            }
            project.run_git(&["status"]);
        }
        if project.run_git(&["rev-parse", "HEAD"]) != head {
            // The commit was whole when the kill came, and is below the delivery that was undone.
            assert!(commits, "{number}");
            project.run_git(&["reset", "-q", "--hard", head.trim()]);
        }
        assert_eq!(project.tree(), before, "{number}");
        assert_eq!(project.run_git(&["status", "--porcelain"]), "", "{number}");
        assert_eq!(leftovers(&project), Vec::<std::path::PathBuf>::new(), "{number}");
        let _records = std::fs::remove_dir_all(project.home().join(".local/state/qwen/undo"));
    }
}

#[test]
fn a_killed_delivery_is_put_right_by_the_next_command() {
    kill(8);
}

#[test]
#[ignore = "takes minutes: cargo test --test it apply:: -- --ignored"]
fn hundreds_of_killed_deliveries_are_put_right_by_the_next_command() {
    kill(300);
}

#[test]
fn deliveries_side_by_side_give_the_tree_of_one() {
    let (project, patch) = large();
    let children: Vec<_> = (0..4).map(|_| project.spawn(&["apply", &patch])).collect();
    let ended: Vec<Outcome> = children.into_iter().map(|child| project.finish(child)).collect();
    let applied = ended.iter().filter(|one| one.stdout.contains("  undo it:  qwen undo\n")).count();
    assert_eq!(applied, 1, "{ended:#?}");
    assert!(ended.iter().all(|one| matches!(one.code, 0 | 63)), "{ended:#?}");
    assert_eq!(leftovers(&project), Vec::<std::path::PathBuf>::new());
    assert_eq!(project.qwen(&["undo"]).code, 0);
    assert_eq!(project.run_git(&["status", "--porcelain"]), "");
}

/// A patch without a body that takes one file's contents to another name.
fn carry(verb: &str, from: &str, to: &str) -> String {
    format!("diff --git a/{from} b/{to}\nsimilarity index 100%\n{verb} from {from}\n{verb} to {to}\n")
}

#[test]
fn a_patch_carries_nothing_away_that_may_not_be_read() {
    let project = Project::new()
        .file(".env", "TOKEN=x\n")
        .file("secrets/token.txt", "x\n")
        .file("private/notes.txt", "x\n")
        .file("a.txt", "one\n")
        .git()
        .policy(
            "version: 1\nname: x\nextends: builtin:edit\n\
             paths: {read: {allow: ['**'], deny: ['private/**']}, protected: {remove: ['.env']}, write: {allow: ['**'], deny: ['.env']}}\n",
        );
    std::os::unix::fs::symlink("secrets", project.root().join("by-link")).unwrap();
    let before = project.snapshot();
    let apply = |text: &str, more: &[&str]| {
        std::fs::write(project.beside("x.patch"), text).unwrap();
        let file = project.beside("x.patch").display().to_string();
        project.qwen(&[&["apply"], more, &[file.as_str()]].concat())
    };
    let mut texts: Vec<(String, &str)> = Vec::new();
    for source in ["secrets/token.txt", "private/notes.txt", ".git/config", "by-link/token.txt"] {
        texts.push((carry("copy", source, "pub.txt"), source));
        texts.push((carry("rename", source, "pub.txt"), source));
        texts.push((format!("--- a/{source}\n+++ b/pub.txt\n@@ -1 +1,2 @@\n x\n+y\n"), source));
    }
    // Nor by way of another file, nor where nothing of it is left in the end.
    let there_and_back = carry("copy", "private/notes.txt", "b.txt") + &carry("rename", "b.txt", "private/notes.txt");
    texts.push((there_and_back, "private/notes.txt"));
    for (text, source) in &texts {
        for more in [&[][..], &["--check"], &["--commit"]] {
            let refused = apply(text, more);
            assert_refused(&refused, 60, source);
            assert!(refused.stdout.is_empty(), "{}", refused.stdout);
        }
    }
    assert_eq!(project.snapshot(), before, "tree, index and .git are untouched");
    // What the policy lets be read may be copied, and what may not be written stays where it is.
    assert_eq!(apply(&carry("copy", "a.txt", "b.txt"), &[]).code, 0);
    assert_eq!(project.read("b.txt"), "one\n");
    assert_eq!(apply(&carry("copy", ".env", "pub.txt"), &["--check"]).code, 0);
    assert_refused(&apply(&carry("rename", ".env", "pub.txt"), &[]), 60, ".env");
}

#[test]
fn a_link_is_delivered_only_to_where_everything_may_be_read_and_written() {
    let project = Project::new()
        .file("docs/a.txt", "one\n")
        .file("docs/deep/b.txt", "one\n")
        .file("secrets/token.txt", "x\n")
        .file("private/notes.txt", "x\n")
        .file(".github/workflows/x.yml", "x\n")
        .file(".env", "TOKEN=x\n")
        .git()
        .policy(
            "version: 1\nname: x\nextends: builtin:edit\n\
             paths: {read: {allow: ['**'], deny: ['private/**']}, write: {allow: ['**'], deny: ['docs/deep'], symlinks: true}}\n",
        );
    for (name, target) in [("out", "/etc"), ("git", ".git"), ("here", ".")] {
        std::os::unix::fs::symlink(target, project.root().join(name)).unwrap();
    }
    let link = |name: &str, target: &str| {
        format!(
            "diff --git a/{name} b/{name}\nnew file mode 120000\n--- /dev/null\n+++ b/{name}\n\
             @@ -0,0 +1 @@\n+{target}\n\\ No newline at end of file\n"
        )
    };
    let apply = |text: &str| {
        std::fs::write(project.beside("x.patch"), text).unwrap();
        project.qwen(&["apply", "--no-undo", &project.beside("x.patch").display().to_string()])
    };
    let before = project.snapshot();
    for target in [
        ".git",
        "./.GIT/hooks",
        "docs/../.git/config",
        "GIT~1",
        ".git.",
        "git",
        "git/hooks",
        "here/.git",
        "missing/../.git",
        ".env",
        "here/.env",
        "secrets",
        "secrets/token.txt",
        "here/secrets/token.txt",
        "private",
        "private/notes.txt",
        ".github",
        ".github/workflows",
        ".qwen",
        "AGENTS.md",
        "docs/deep",
        "docs/deep/b.txt",
        "out",
        "out/passwd",
        "../x",
        "/etc/passwd",
    ] {
        let refused = apply(&link("src", target));
        assert_refused(&refused, 60, "src: ");
    }
    // A link in the same change may not hide where another one leads.
    assert_refused(&apply(&(link("z", ".") + &link("src", "z/secrets/token.txt"))), 60, "src: ");
    assert_refused(&apply(&(link("docs/up", "..") + &link("src", "docs/up/private/notes.txt"))), 60, "src: ");
    assert_eq!(project.snapshot(), before, "tree, index and .git are untouched");
    for (name, target) in [("l1", "docs/a.txt"), ("docs/l2", "../docs"), ("l3", "not/there/yet"), ("l4", "here/docs")] {
        assert_eq!(apply(&link(name, target)).code, 0, "{target}");
    }
}

/// Two hunks of `a.txt`, the second with two runs of changed lines, and a new file.
fn three_hunks() -> (Project, String) {
    let project = Project::new().file("a.txt", lines(0..60)).git();
    let patch = patch(&project, |project| {
        let text = lines(0..60).replace("line 5\n", "five\n").replace("line 50\n", "fifty\n");
        write(project, "a.txt", text.replace("line 53\n", "fifty-three\n"));
        write(project, "sub/new.txt", "new\n");
    });
    (project, patch)
}

#[test]
fn hunks_are_listed_with_the_numbers_that_choose_them_and_nothing_is_written() {
    let (project, patch) = three_hunks();
    let before = project.tree();
    let listed = project.qwen(&["apply", "--list", &patch]);
    let text = "1  a.txt        lines 3-9  +1 -1\n\
                2  a.txt        lines 48-57  +2 -2  parts 2.1-2.2\n\
                3  sub/new.txt  line 1  +1\n";
    assert_eq!((listed.code, listed.stdout.as_str()), (0, text), "{}", listed.stderr);
    let listed: Value =
        serde_json::from_str(&project.qwen(&["apply", "--list", "-o", "result", &patch]).stdout).unwrap();
    let second = json!({"number": 2, "path": "a.txt", "lines": [48, 57], "added": 2, "removed": 2, "runs": 2});
    assert_eq!((&listed["of"], &listed["hunks"][1]), (&json!(3), &second));
    assert_eq!(project.tree(), before);
}

#[test]
fn what_is_chosen_is_applied_and_nothing_else() {
    let (project, patch) = three_hunks();
    let chosen = project.qwen(&["apply", "--hunks", "2.2", "--files", "sub/**", &patch]);
    assert!(chosen.stdout.contains("2 files changed, +2 -1 (2 of 3 hunks)\n"), "{}{}", chosen.stdout, chosen.stderr);
    assert_eq!(project.read("a.txt"), lines(0..60).replace("line 53\n", "fifty-three\n"));
    assert_eq!(project.read("sub/new.txt"), "new\n");
    project.run_git(&["add", "-A"]);
    project.run_git(&["commit", "-q", "-m", "a part"]);
    // The rest fits what the first choice has left.
    let rest = project.qwen(&["apply", "--hunks", "1,2.1", "-o", "result", &patch]);
    let rest: Value = serde_json::from_str(&rest.stdout).unwrap_or_else(|_| panic!("{}", rest.stderr));
    assert_eq!(rest["selected"], json!({"hunks": ["1", "2.1"], "of": 3}));
    let whole = lines(0..60).replace("line 5\n", "five\n").replace("line 50\n", "fifty\n");
    assert_eq!(project.read("a.txt"), whole.replace("line 53\n", "fifty-three\n"));
}

#[test]
fn a_choice_that_fits_nothing_is_a_usage_error_and_only_chosen_paths_are_judged() {
    let (project, patch) = three_hunks();
    let before = project.tree();
    assert_refused(&project.qwen(&["apply", "--hunks", "4", &patch]), 2, "no hunk 4; the patch has hunks 1 to 3");
    assert_refused(&project.qwen(&["apply", "--hunks", ",", &patch]), 2, "the list of hunks is empty");
    assert_refused(&project.qwen(&["apply", "--files", "*.rs", &patch]), 2, "no file of hunks 1 to 3 matches `*.rs`");
    assert_eq!(project.tree(), before);

    write(&project, "x.yaml", "version: 1\nextends: builtin:edit\npaths: { write: { deny: [\"sub/**\"] } }\n");
    let policy = project.root().join("x.yaml").display().to_string();
    assert_refused(&project.qwen(&["apply", "--policy", &policy, "--hunks", "3", &patch]), 60, "sub/new.txt");
    let allowed = project.qwen(&["apply", "--policy", &policy, "--hunks", "1", &patch]);
    assert_eq!(allowed.code, 0, "{}", allowed.stderr);
}
