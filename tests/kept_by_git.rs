//! Tests files of which git stores other modes or other bytes than the work tree has, and signatures: patches and
//! commits are as git would make them.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use serde_json::json;

use crate::support::{Project, Reply, call, say};

fn set_mode(project: &Project, path: &str, mode: u32) {
    std::fs::set_permissions(project.root().join(path), std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Writes the product of a run next to the project, applies it with the real git, and returns what git says about it.
fn git_apply(project: &Project, patch: &[u8]) -> String {
    let file = project.beside("x.patch");
    std::fs::write(&file, patch).unwrap();
    let output = Command::new("git").arg("apply").arg(&file).current_dir(project.root()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(patch));
    said
}

const POLICY: &str = "version: 1\nname: x\nextends: builtin:edit\npaths: {write: {exec_bit: true}}\n\
    shell: {allow: [{cmd: [chmod]}, {cmd: [cp]}]}\n";

/// A file system that keeps no executable bit says of every file the same; here it says the opposite of the index.
fn without_file_mode() -> Project {
    let project = Project::new().file("a.txt", "hello\n").file("b.txt", "b\n").executable("run.sh", "hello\n").git();
    project.run_git(&["config", "core.fileMode", "false"]);
    set_mode(&project, "a.txt", 0o755);
    set_mode(&project, "run.sh", 0o644);
    let edit = |path: &str| call("edit", json!({"file_path": path, "old_string": "hello", "new_string": "goodbye"}));
    project.policy(POLICY).model([
        edit("a.txt"),
        edit("run.sh"),
        call("write_file", json!({"file_path": "n.txt", "content": "n\n"})),
        call("run_shell_command", json!({"command": "chmod 755 b.txt n.txt"})),
        say("done"),
    ])
}

#[test]
fn where_the_executable_bit_does_not_count_no_patch_changes_it() {
    let project = without_file_mode();
    let outcome = project.run(&["--dry-run", "-o", "patch", "go"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(!outcome.stdout.contains("old mode") && !outcome.stdout.contains("b.txt"), "{}", outcome.stdout);
    let files = outcome.result["changes"]["files"].as_array().unwrap();
    assert_eq!(
        files.iter().map(|file| file["path"].as_str().unwrap()).collect::<Vec<_>>(),
        ["a.txt", "n.txt", "run.sh"]
    );
    assert_eq!(git_apply(&project, &outcome.stdout_bytes), "");
    project.run_git(&["add", "-A"]);
    let staged = project.run_git(&["ls-files", "--stage"]);
    let modes: Vec<&str> = staged.lines().map(|line| &line[..6]).collect();
    assert_eq!(modes, ["100644", "100644", "100644", "100755"]);
}

#[test]
fn where_the_executable_bit_does_not_count_a_delivery_keeps_the_index_s() {
    for flags in [&["--commit"][..], &["--branch", "b"], &["--apply"]] {
        let project = without_file_mode();
        let outcome = project.run(&[flags, &["--message", "m", "go"]].concat());
        assert_eq!(outcome.code, 0, "{flags:?}: {}", outcome.stderr);
        let mode =
            |path: &str| project.root().join(path).metadata().map_or(0, |data| data.permissions().mode() & 0o777);
        assert_eq!((mode("a.txt"), mode("run.sh"), mode("b.txt") & 0o111), (0o755, 0o644, 0), "{flags:?}");
        if flags[0] == "--apply" {
            assert_eq!(mode("n.txt") & 0o111, 0);
            continue;
        }
        let commit = outcome.result["git"]["commit"].as_str().unwrap();
        let kept = project.run_git(&["ls-tree", commit]);
        let kept: Vec<(&str, &str)> = kept.lines().map(|line| (&line[..6], line.split_once('\t').unwrap().1)).collect();
        let expected = [("100644", "a.txt"), ("100644", "b.txt"), ("100644", "n.txt"), ("100755", "run.sh")];
        assert_eq!(kept, expected, "{flags:?}");
    }
}

fn utf16(text: &str) -> Vec<u8> {
    [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
}

/// Changes a line next to an expanded `$Id$`, and a file that git keeps in another encoding.
fn converted() -> Project {
    let attributes = "*.c ident\nu.txt working-tree-encoding=UTF-16LE-BOM\n";
    let project = Project::new().file(".gitattributes", attributes).file("i.c", "/* $Id$ */\nint x = 1;\n");
    let project = project.file("u.txt", utf16("one\ntwo\n")).file("new-u", utf16("one\nthree\n")).git();
    std::fs::remove_file(project.root().join("i.c")).unwrap();
    project.run_git(&["checkout", "--", "i.c"]);
    assert!(project.read("i.c").starts_with("/* $Id: "), "{}", project.read("i.c"));
    assert_eq!(project.run_git(&["status", "--porcelain"]), "");
    project.policy(POLICY).model(conversion())
}

fn conversion() -> [Reply; 3] {
    [
        call("edit", json!({"file_path": "i.c", "old_string": "x = 1", "new_string": "x = 2"})),
        call("run_shell_command", json!({"command": "cp new-u u.txt"})),
        say("done"),
    ]
}

fn assert_converted(project: &Project, what: &str) {
    assert_eq!(project.run_git(&["show", "HEAD:i.c"]), "/* $Id$ */\nint x = 1;\n");
    let diff = project.run_git(&["diff", "--no-ext-diff", "-U0"]);
    assert!(diff.contains("\n-int x = 1;\n+int x = 2;\n"), "{what}: {diff}");
    assert!(diff.contains("\n-two\n+three\n"), "{what}: {diff}");
    assert!(project.read("i.c").starts_with("/* $Id: "), "{what}: {}", project.read("i.c"));
    assert_eq!(std::fs::read(project.root().join("u.txt")).unwrap(), utf16("one\nthree\n"), "{what}");
}

#[test]
fn a_patch_for_files_that_git_keeps_otherwise_is_taken_by_git_and_by_apply() {
    let project = converted();
    let outcome = project.run(&["--dry-run", "-o", "patch", "go"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    git_apply(&project, &outcome.stdout_bytes);
    assert_converted(&project, "git apply");
    for from in ["result.json", "x.patch"] {
        for more in [&[][..], &["--check"]] {
            let other = converted();
            let input = project.beside(from).display().to_string();
            let applied = other.qwen(&[&["apply", &input], more].concat());
            assert_eq!(applied.code, 0, "{from}: {}", applied.stderr);
            if more.is_empty() {
                assert_converted(&other, from);
            }
        }
    }
}

#[test]
fn a_commit_of_files_that_git_keeps_otherwise_leaves_a_clean_tree() {
    let project = converted();
    let outcome = project.run(&["--commit", "--message", "m", "go"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(project.run_git(&["show", "HEAD:i.c"]), "/* $Id$ */\nint x = 2;\n");
    assert_eq!(project.run_git(&["show", "HEAD:u.txt"]), "one\nthree\n");
    assert_eq!(project.run_git(&["status", "--porcelain"]), "");
}

#[test]
fn a_signing_program_that_does_not_end_is_ended_with_the_time_of_the_run() {
    let project = Project::new().file("a.txt", "hello\n").git().model([
        call("edit", json!({"file_path": "a.txt", "old_string": "hello", "new_string": "goodbye"})),
        say("done"),
    ]);
    let gpg: PathBuf = project.beside("gpg");
    std::fs::write(&gpg, "#!/bin/sh\nexec sleep 600\n").unwrap();
    std::fs::set_permissions(&gpg, std::fs::Permissions::from_mode(0o755)).unwrap();
    let home = format!(
        "[user]\nname=A\nemail=a@example.com\nsigningKey=A\n[commit]\ngpgSign=true\n[gpg]\nprogram={}\n",
        gpg.display()
    );
    std::fs::write(project.home().join(".gitconfig"), home).unwrap();
    let before = project.tree();
    let outcome = project.run(&["--commit", "--message", "m", "--max-wall-time", "3s", "go"]);
    assert!(matches!(outcome.code, 55 | 63), "{}: {}", outcome.code, outcome.stderr);
    assert_eq!(outcome.result["changes"]["applied"], false);
    assert_eq!(project.tree(), before);
    assert_eq!(project.run_git(&["rev-list", "--count", "HEAD"]), "1\n");
}

#[test]
fn a_file_that_is_replaced_keeps_its_extended_attributes_and_its_access_list_and_undo_keeps_them_too() {
    use rustix::fs::{XattrFlags, getxattr, setxattr};
    let edit = call("edit", json!({"file_path": "a.txt", "old_string": "one", "new_string": "ONE"}));
    let project = Project::new().file("a.txt", "one\n").git().model([edit, say("done")]);
    let file = project.root().join("a.txt");
    // Version 2, and of each entry kind, rights and id: owner rw, user 12345 r, group r, mask r, others none.
    let entries = [(1_u16, 6_u16, u32::MAX), (2, 4, 12345), (4, 4, u32::MAX), (16, 4, u32::MAX), (32, 0, u32::MAX)];
    let bytes = entries.map(|(kind, rights, id)| {
        [kind.to_le_bytes().as_slice(), rights.to_le_bytes().as_slice(), id.to_le_bytes().as_slice()].concat()
    });
    let list = [2_u32.to_le_bytes().to_vec(), bytes.concat()].concat();
    let mut kept = Vec::new();
    for (name, value) in [("user.note", b"kept".to_vec()), ("system.posix_acl_access", list)] {
        // Not every file system has both.
        if setxattr(&file, name, &value, XattrFlags::empty()).is_ok() {
            kept.push((name, value));
        }
    }
    let attributes = || -> Vec<(&str, Vec<u8>)> {
        let one = |(name, _): &(&'static str, Vec<u8>)| {
            let mut value = vec![0; 1000];
            let length = getxattr(&file, *name, &mut value).unwrap_or(0);
            (*name, value[..length].to_vec())
        };
        kept.iter().map(one).collect()
    };
    let outcome = project.run(&["--apply", "go"]);
    assert_eq!((outcome.code, project.read("a.txt").as_str()), (0, "ONE\n"), "{}", outcome.stderr);
    assert_eq!(attributes(), kept);
    let outcome = project.qwen(&["undo"]);
    assert_eq!((outcome.code, project.read("a.txt").as_str()), (0, "one\n"), "{}", outcome.stderr);
    assert_eq!(attributes(), kept);
}
