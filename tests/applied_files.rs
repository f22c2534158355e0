//! Tests the rights and line ends of the files that `qwen apply` and a run write: no more than their sources have, and
//! those that git gives them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::support::{Project, call, say};

fn mode(project: &Project, path: &str) -> u32 {
    project.root().join(path).metadata().unwrap().permissions().mode() & 0o777
}

/// A repository with two private files, and the same text in one that everybody may read.
fn private() -> Project {
    let project = Project::new().file("moved", "secret\n".repeat(20)).file("copied", "other\n".repeat(20)).git();
    for path in ["moved", "copied"] {
        fs::set_permissions(project.root().join(path), Permissions::from_mode(0o600)).unwrap();
    }
    project
}

const POLICY: &str = "version: 1\nchanges: {default: dry-run, allow: [dry-run, apply, commit]}\n\
    tools: {allow: [run_shell_command]}\nshell: {default: allow}\n\
    paths: {read: {allow: [\"**\"]}, write: {allow: [\"**\"], exec_bit: true}}\n";

/// Gives a patch in words of git to `qwen apply`, which takes it.
fn apply(project: Project, patch: &str, flags: &[&str]) -> Project {
    let project = project.policy(POLICY).stdin(patch);
    let applied = project.qwen(&[&["apply", "-"], flags].concat());
    assert_eq!(applied.code, 0, "{}{}", applied.stdout, applied.stderr);
    project
}

#[test]
fn what_a_command_copies_from_a_private_file_is_private() {
    let command = "mv moved to && cp copied copy && echo more >> copy && echo new > new";
    for how in ["--apply", "--commit"] {
        let script = [call("run_shell_command", json!({"command": command})), say("done")];
        let project = private().policy(POLICY).model(script);
        let outcome = project.run(&[how, "do it"]);
        assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
        assert_eq!(["to", "copy"].map(|path| mode(&project, path)), [0o600; 2]);
        assert_ne!(mode(&project, "new") & 0o044, 0);
    }
}

#[test]
fn what_a_patch_copies_from_a_private_file_is_private() {
    let rename = "diff --git a/moved b/to\nsimilarity index 100%\nrename from moved\nrename to to\n";
    let copy = "diff --git a/copied b/copy\nsimilarity index 90%\ncopy from copied\ncopy to copy\n\
        --- a/copied\n+++ b/copy\n@@ -20 +20,2 @@\n other\n+more\n";
    let project = apply(private(), &format!("{rename}{copy}"), &[]);
    assert_eq!(["to", "copy"].map(|path| mode(&project, path)), [0o600; 2]);
    // A patch without renames says the same with a file that goes and one that comes.
    let lines = |sign: &str| format!("{sign}secret\n").repeat(20);
    let gone = format!(
        "diff --git a/moved b/moved\ndeleted file mode 100644\n--- a/moved\n+++ /dev/null\n@@ -1,20 +0,0 @@\n{}",
        lines("-")
    );
    let new = format!(
        "diff --git a/to b/to\nnew file mode 100755\n--- /dev/null\n+++ b/to\n@@ -0,0 +1,20 @@\n{}",
        lines("+")
    );
    let project = apply(private(), &(gone + &new), &["--commit"]);
    assert_eq!(mode(&project, "to"), 0o700);
}

#[test]
fn a_patch_from_before_a_file_became_executable_leaves_it_so() {
    let project = Project::new().file("run.sh", "1\n").git();
    fs::set_permissions(project.root().join("run.sh"), Permissions::from_mode(0o755)).unwrap();
    project.run_git(&["commit", "-qam", "executable"]);
    let patch = "diff --git a/run.sh b/run.sh\nindex d00491f..0cfbf08 100644\n--- a/run.sh\n+++ b/run.sh\n@@ -1 +1 @@\n-1\n+2\n";
    let project = apply(project, patch, &["--commit"]);
    assert_eq!((project.read("run.sh"), mode(&project, "run.sh") & 0o700), ("2\n".into(), 0o700));
    assert_eq!(project.run_git(&["status", "--porcelain"]), "");
}

#[test]
fn line_ends_that_git_converts_are_converted() {
    for by_attribute in [true, false] {
        let attributes = if by_attribute { "*.bat text eol=crlf\n" } else { "" };
        let project = Project::new().file(".gitattributes", attributes).file("a.bat", "1\n2\n3\n").git();
        if !by_attribute {
            project.run_git(&["config", "core.autocrlf", "true"]);
        }
        let checkout = || {
            fs::remove_file(project.root().join("a.bat")).unwrap();
            project.run_git(&["checkout", "--", "a.bat"]);
            assert_eq!(project.read("a.bat"), "1\r\n2\r\n3\r\n");
        };
        checkout();
        fs::write(project.root().join("a.bat"), "1\r\ntwo\r\n3\r\n").unwrap();
        fs::write(project.root().join("b.bat"), "new\r\n").unwrap();
        project.run_git(&["add", "-A"]);
        let patch = project.run_git(&["diff", "--cached"]);
        project.run_git(&["reset", "-q"]);
        fs::remove_file(project.root().join("b.bat")).unwrap();
        checkout();
        let project = apply(project, &patch, &[]);
        assert_eq!((project.read("a.bat"), project.read("b.bat")), ("1\r\ntwo\r\n3\r\n".into(), "new\r\n".into()));
        let undone = project.qwen(&["undo"]);
        assert_eq!((undone.code, project.read("a.bat")), (0, "1\r\n2\r\n3\r\n".into()), "{}", undone.stderr);
    }
}
