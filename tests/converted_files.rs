//! Tests that `qwen apply` writes the bytes that `git apply` writes, where attributes, settings and plain diffs decide
//! about them; and the bytes of the run where its result names them.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use serde_json::json;

use crate::support::{Outcome, Project};

const POLICY: &str = "version: 1\nchanges: {default: dry-run, allow: [dry-run, apply, commit]}\n\
    paths: {read: {allow: [\"**\"]}, write: {allow: [\"**\"], exec_bit: true, symlinks: true}}\n";

fn qwen(project: Project, patch: &[u8], flags: &[&str]) -> (Project, Outcome) {
    let project = project.policy(POLICY).stdin(patch);
    let outcome = project.qwen(&[&["apply", "-"], flags].concat());
    (project, outcome)
}

/// Applies a patch to a project with git and to an equal one with `qwen apply`, and compares these files.
fn assert_as_git(make: &dyn Fn() -> Project, patch: &[u8], paths: &[&str]) {
    let by_git = make();
    let file = by_git.beside("x.patch");
    fs::write(&file, patch).unwrap();
    by_git.run_git(&["apply", "--whitespace=nowarn", &file.display().to_string()]);
    let (by_qwen, outcome) = qwen(make(), patch, &[]);
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    for path in paths {
        let read = |project: &Project| fs::read(project.root().join(path)).ok();
        assert_eq!(read(&by_qwen), read(&by_git), "{path} by {}", String::from_utf8_lossy(patch));
    }
}

/// The patch that git makes of these files in such a project; no content is a deletion.
fn patch_of(make: &dyn Fn() -> Project, files: &[(&str, Option<&[u8]>)], options: &[&str]) -> Vec<u8> {
    let project = make();
    for (path, content) in files {
        let path = project.root().join(path);
        let _was_there = fs::remove_file(&path);
        content.map(|content| fs::write(&path, content).unwrap());
    }
    project.run_git(&["add", "-A"]);
    let file = project.beside("x.patch");
    let output = format!("--output={}", file.display());
    project.run_git(&[&["diff", "--cached", "--binary", &output], options].concat());
    fs::read(file).unwrap()
}

fn with(attributes: &'static str, file: &'static str, content: &'static [u8]) -> impl Fn() -> Project {
    move || Project::new().file(".gitattributes", attributes).file(file, content).git()
}

#[test]
fn what_a_patch_brings_is_encoded_whatever_was_there_before() {
    let make = with("*.t working-tree-encoding=ISO-8859-1\n*.u working-tree-encoding=UTF-16LE\n", "a.t", b"a\n");
    let files: [(&str, Option<&[u8]>); 3] =
        [("a.t", Some(b"a\n\xfc\n")), ("new.t", Some(b"\xfc\n")), ("new.u", Some(b"h\0i\0\n\0"))];
    assert_as_git(&make, &patch_of(&make, &files, &[]), &["a.t", "new.t", "new.u"]);
    // What was there may be in another encoding.
    let make = || {
        let project = Project::new().file("a.u", "1\n2\n3\n44\n").git();
        fs::write(project.root().join(".gitattributes"), "*.u working-tree-encoding=UTF-16LE\n").unwrap();
        project
    };
    let patch = b"diff --git a/a.u b/a.u\n--- a/a.u\n+++ b/a.u\n@@ -1,4 +1,4 @@\n 1\n-2\n+two\n 3\n 44\n";
    assert_as_git(&make, patch, &["a.u"]);
    let make = with("*.t ident\n", "a.t", b"a\n");
    assert_as_git(&make, &patch_of(&make, &[("a.t", Some(b"a\n$Id$\n"))], &[]), &["a.t"]);
}

#[test]
fn new_text_where_no_line_ended_gets_the_line_ends_of_git() {
    for content in [b"".as_slice(), b"one line"] {
        let make = with("*.t text eol=crlf\n", "a.t", content);
        assert_as_git(&make, &patch_of(&make, &[("a.t", Some(b"1\r\n2\r\n"))], &[]), &["a.t"]);
    }
    let make = || {
        let project = Project::new().file(".gitattributes", "*.t text eol=crlf\n");
        symlink("b", project.root().join("a.t")).unwrap();
        project.git()
    };
    assert_as_git(&make, &patch_of(&make, &[("a.t", Some(b"1\r\n2\r\n"))], &[]), &["a.t"]);
}

#[test]
fn line_ends_of_binary_changes_and_renames_are_converted() {
    let make = with("*.t text eol=crlf -diff\n", "a.t", b"1\r\n2\r\n");
    let files: [(&str, Option<&[u8]>); 2] = [("a.t", Some(b"1\r\ntwo\r\n")), ("new.t", Some(b"n\r\n"))];
    let patch = patch_of(&make, &files, &[]);
    assert!(String::from_utf8_lossy(&patch).contains("GIT binary patch"));
    assert_as_git(&make, &patch, &["a.t", "new.t"]);
    let make = with("*.t text eol=crlf\n", "a.t", b"1\r\n2\r\n");
    assert_as_git(&make, b"diff --git a/a.t b/b\nsimilarity index 100%\nrename from a.t\nrename to b\n", &["a.t", "b"]);
}

#[test]
fn attributes_and_settings_are_read_as_git_reads_them() {
    let patch = b"diff --git a/a.t b/a.t\n--- a/a.t\n+++ b/a.t\n@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n\
          diff --git a/n.t b/n.t\nnew file mode 100644\n--- /dev/null\n+++ b/n.t\n@@ -0,0 +1 @@\n+n\n";
    for (attributes, setting) in [
        ("*.t text=input eol=crlf\n", ""),
        ("*.t crlf=input eol=crlf\n", ""),
        ("", "[core]\n\tautocrlf\n"),
        ("", "[core]\n\tautocrlf = 2\n"),
        ("*.t text\n", "[core]\n\tautocrlf = Yes\n"),
    ] {
        let make = || {
            let project = with(attributes, "a.t", b"1\n2\n3\n")();
            let config = project.root().join(".git/config");
            let text = fs::read_to_string(&config).unwrap();
            fs::write(config, text + setting).unwrap();
            fs::remove_file(project.root().join("a.t")).unwrap();
            project.run_git(&["checkout", "--", "a.t"]);
            assert_eq!(project.read("a.t"), "1\r\n2\r\n3\r\n", "{attributes}{setting}");
            project
        };
        assert_as_git(&make, patch, &["a.t", "n.t"]);
    }
}

#[test]
fn a_plain_diff_makes_and_removes_files_as_git_does() {
    let make = with("", "gone", b"1\n");
    let (now, epoch) = ("2026-11-29 14:19:59.881623974 +0000", "1970-01-01 01:00:00.000000000 +0100");
    for patch in [
        format!("--- a/gone\t{now}\n+++ b/gone\t{epoch}\n@@ -1 +0,0 @@\n-1\n"),
        format!("--- a/new\t{epoch}\n+++ b/new\t{now}\n@@ -0,0 +1 @@\n+1\n"),
        "--- a/new\n+++ b/new\n@@ -0,0 +1 @@\n+1\n".to_owned(),
    ] {
        assert_as_git(&make, patch.as_bytes(), &["gone", "new"]);
    }
    // Git's own header says so of a new file.
    let patch = b"diff --git a/new b/new\n--- a/new\n+++ b/new\n@@ -0,0 +1 @@\n+1\n";
    let (project, outcome) = qwen(make(), patch, &[]);
    assert!(outcome.code == 63 && outcome.stderr.contains("new: the patch does not apply: no such file"));
    assert!(!project.root().join("new").exists());
}

#[test]
fn a_result_gives_the_bytes_that_its_run_made_or_is_refused() {
    let (lf, crlf) = (
        "a4fb621495a0122493b2203591c448903c472e306a1ede54fabad829e01075c0",
        "d7fa28c3026137549d1a22ea54d81a96a3c684ad9d3c8c1bcec2287e25ac4961",
    );
    let id = "5f7d4bab05c5213f0ea213ed52960e0d4fc684b96bca8f65c29bea2cf7616f7a";
    let other = lf.replace('a', "b");
    for (attributes, line, digest, written) in [
        ("*.t text eol=crlf\n", "n", lf, Some("n\n")),
        ("*.t text eol=crlf\n", "n", crlf, Some("n\r\n")),
        ("*.t text eol=crlf\n", "n", &other, None),
        ("*.t text eol=crlf ident\n", "n", lf, Some("n\n")),
        ("*.t text eol=crlf ident\n", "n", &other, None),
        ("*.t text eol=crlf ident\n", "$Id$", id, Some("$Id$\n")),
    ] {
        let patch =
            format!("diff --git a/n.t b/n.t\nnew file mode 100644\n--- /dev/null\n+++ b/n.t\n@@ -0,0 +1 @@\n+{line}\n");
        let files = json!([{"path": "n.t", "sha256_before": null, "sha256_after": digest}]);
        let result = json!({"type": "result", "changes": {"patch": patch, "files": files}});
        let project = with(attributes, "a.t", b"1\r\n")();
        let (project, outcome) = qwen(project, result.to_string().as_bytes(), &[]);
        assert_eq!(fs::read_to_string(project.root().join("n.t")).ok().as_deref(), written);
        let is_told = outcome.code == 63 && outcome.stderr.contains("n.t: the patch does not apply: its new content");
        assert_eq!(is_told, written.is_none(), "{}", outcome.stderr);
    }
}

#[test]
fn a_check_says_what_is_in_the_way_of_a_new_file_as_apply_does() {
    let patch = b"diff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+1\n\
        diff --git a/n/old b/n/old\ndeleted file mode 100644\n--- a/n/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n";
    for flags in [[].as_slice(), &["--check"]] {
        for (way, told) in [("untracked", "n is there with n/mine"), ("empty", "n/empty is there, and it is empty")] {
            let project = Project::new().file("a", "1\n").file("n/old", "1\n").git();
            match way {
                "untracked" => fs::write(project.root().join("n/mine"), "").unwrap(),
                _ => fs::create_dir(project.root().join("n/empty")).unwrap(),
            }
            let (project, outcome) = qwen(project, patch, flags);
            assert_eq!((outcome.code, project.read("n/old").as_str()), (63, "1\n"), "{}", outcome.stderr);
            assert!(outcome.stderr.contains(told), "{}", outcome.stderr);
        }
        let project = Project::new().file("a", "1\n").git();
        fifo(&project.root().join("n"));
        let new = &patch[..patch.windows(11).rposition(|part| part == b"diff --git ").unwrap()];
        let (_, outcome) = qwen(project, new, flags);
        assert_eq!(outcome.code, 63, "{}", outcome.stderr);
        assert!(outcome.stderr.contains("neither a file nor a link"), "{}", outcome.stderr);
    }
}

#[test]
fn a_check_says_what_is_no_directory_on_the_way_to_a_new_file_as_apply_does() {
    let patch = b"diff --git a/d/e/n b/d/e/n\nnew file mode 100644\n--- /dev/null\n+++ b/d/e/n\n@@ -0,0 +1 @@\n+1\n";
    type Make = fn(&std::path::Path);
    let ways: [Make; 4] = [
        |path| symlink("r", path).unwrap(),
        |path| symlink("nowhere", path).unwrap(),
        |path| fs::write(path, "").unwrap(),
        fifo,
    ];
    for flags in [[].as_slice(), &["--check"], &["--commit"], &["--commit", "--check"]] {
        for make in ways {
            let project = Project::new().file("r/x", "1\n").git();
            make(&project.root().join("d"));
            let (_, outcome) = qwen(project, patch, flags);
            assert_eq!(outcome.code, 63, "{flags:?}: {}", outcome.stderr);
            assert!(outcome.stderr.contains("cannot write d/e/n: d is not a directory"), "{}", outcome.stderr);
        }
    }
}

fn fifo(path: &std::path::Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

#[test]
fn the_number_of_processes_does_not_grow_with_the_files() {
    let started = |files: usize, flag: &str| {
        let names: Vec<String> = (0..files).map(|number| format!("{number}.t")).collect();
        let project = Project::new().file(".gitattributes", "*.t text eol=crlf\n");
        let project = names.iter().fold(project, |project, name| project.file(name, "1\r\n2\r\n")).git();
        let part = |name: &String| {
            format!("diff --git a/{name} b/{name}\n--- a/{name}\n+++ b/{name}\n@@ -1,2 +1,2 @@\n-1\n+one\n 2\n")
        };
        let patch: String = names.iter().map(part).collect();
        let log = project.beside("started");
        let counting = project.beside("bin/git");
        fs::create_dir(counting.parent().unwrap()).unwrap();
        let path = std::env::var("PATH").unwrap();
        let script = format!("#!/bin/sh\necho >> '{}'\nPATH='{path}'\nexec git \"$@\"\n", log.display());
        fs::write(&counting, script).unwrap();
        fs::set_permissions(&counting, fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{path}", counting.parent().unwrap().display());
        let (project, outcome) = qwen(project.env("PATH", &path), patch.as_bytes(), &[flag]);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        let started = fs::read_to_string(log).unwrap().lines().count();
        assert_eq!(project.read("0.t"), if flag == "--check" { "1\r\n2\r\n" } else { "one\r\n2\r\n" });
        started
    };
    for flag in ["--check", "--no-undo", "--commit"] {
        assert_eq!(started(2, flag), started(12, flag), "{flag}");
    }
}
