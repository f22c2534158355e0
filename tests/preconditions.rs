//! Tests that faults of a repository that prevent delivery are reported before the first request, in every mode.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::json;

use crate::support::{Project, call, say};

/// How a run ends that meets a fault.
enum Expect {
    /// As without the fault.
    Runs,
    /// It runs, and a warning says this.
    Warns(&'static str),
    /// It ends with 63 before the first request; message and hint say this.
    Refused(&'static str, &'static str),
}
use Expect::{Refused, Runs, Warns};

const MODES: [&[&str]; 5] =
    [&["--dry-run"], &["--apply"], &["--apply", "--no-undo"], &["--commit"], &["--branch", "qb/a"]];

struct Fault {
    name: &'static str,
    make: fn(Project) -> Project,
    /// In the order of [`MODES`].
    ends: [Expect; 5],
}

const UNKNOWN: &str = "cannot tell which files had uncommitted changes";
const SEE: &str = "run `git status` there";
const INSTALL: &str = "install git";
const SAFE: &str = "--add safe.directory";

const FAULTS: &[Fault] = &[
    Fault { name: "none", make: |project| project, ends: [Runs, Runs, Runs, Runs, Runs] },
    Fault {
        name: "dubious ownership",
        make: |project| git_with(project, "GIT_TEST_ASSUME_DIFFERENT_OWNER=1"),
        ends: [
            Warns(UNKNOWN),
            Warns(UNKNOWN),
            Refused("dubious", SAFE),
            Refused("dubious", SAFE),
            Refused("dubious", SAFE),
        ],
    },
    Fault {
        name: "no git",
        make: |project| {
            let none = project.beside("none");
            std::fs::create_dir(&none).unwrap();
            project.env("PATH", &none.display().to_string())
        },
        ends: [
            Warns(UNKNOWN),
            Warns(UNKNOWN),
            Refused("cannot find `git`", INSTALL),
            Refused("cannot find `git`", INSTALL),
            Refused("cannot find `git`", INSTALL),
        ],
    },
    Fault {
        name: "a damaged index",
        make: |project| project.file(".git/index", "garbage"),
        ends: [
            Warns(UNKNOWN),
            Warns(UNKNOWN),
            Refused("index file", SEE),
            Refused("index file", SEE),
            Refused("index file", SEE),
        ],
    },
    Fault {
        name: "no commit",
        make: |project| without_object(project, "HEAD"),
        ends: [
            Warns(UNKNOWN),
            Warns(UNKNOWN),
            Refused("ls-tree", SEE),
            Refused("ls-tree", SEE),
            Refused("ls-tree", SEE),
        ],
    },
    Fault {
        name: "a directory of the commit is missing",
        make: |project| without_object(project, "HEAD:dir"),
        ends: [Runs, Runs, Refused("ls-tree", SEE), Refused("ls-tree", SEE), Refused("ls-tree", SEE)],
    },
    Fault {
        name: "no identity",
        make: nobody,
        ends: [Runs, Runs, Runs, Refused("no author", "user.name"), Refused("no author", "user.name")],
    },
    Fault {
        name: "an author and no committer",
        make: |project| nobody(project).env("GIT_AUTHOR_NAME", "B").env("GIT_AUTHOR_EMAIL", "b@example.com"),
        ends: [Runs, Runs, Runs, Refused("no committer", "user.name"), Refused("no committer", "user.name")],
    },
    Fault {
        name: "an identity by variables",
        make: |project| {
            let project = nobody(project).env("GIT_AUTHOR_NAME", "B").env("GIT_AUTHOR_EMAIL", "b@example.com");
            project.env("GIT_COMMITTER_NAME", "C").env("GIT_COMMITTER_EMAIL", "c@example.com")
        },
        ends: [Runs, Runs, Runs, Runs, Runs],
    },
    Fault {
        name: "a key that the repository alone names",
        make: |project| {
            let home = "[user]\nname=A\nemail=a@example.com\n[commit]\ngpgSign=true\n[gpg]\nformat=ssh\n";
            std::fs::write(project.home().join(".gitconfig"), home).unwrap();
            project.run_git(&["config", "user.signingKey", "key"]);
            project
        },
        ends: [Runs, Runs, Runs, Refused("no signing key", "signingKey"), Refused("no signing key", "signingKey")],
    },
    Fault {
        name: "the index locked",
        make: |project| project.file(".git/index.lock", ""),
        ends: [Runs, Runs, Runs, Refused("index.lock exists", "remove the file"), Runs],
    },
    Fault {
        name: "HEAD locked",
        make: |project| project.file(".git/HEAD.lock", ""),
        ends: [Runs, Runs, Runs, Refused("HEAD.lock exists", "remove the file"), Runs],
    },
    Fault {
        name: "the branch locked",
        make: |project| project.file(".git/refs/heads/main.lock", ""),
        ends: [Runs, Runs, Runs, Refused("refs/heads/main.lock exists", "remove the file"), Runs],
    },
    Fault {
        name: "the new branch locked",
        make: |project| project.file(".git/refs/heads/qb/a.lock", ""),
        ends: [Runs, Runs, Runs, Runs, Refused("refs/heads/qb/a.lock exists", "remove the file")],
    },
    Fault {
        name: "the branch is there",
        make: |project| branch(project, "qb/a"),
        ends: [Runs, Runs, Runs, Runs, Refused("the branch qb/a already exists", "another --branch")],
    },
    Fault {
        name: "the branch is there, and damaged",
        make: |project| project.file(".git/refs/heads/qb/a", "garbage"),
        ends: [Runs, Runs, Runs, Runs, Refused("the branch qb/a already exists", "another --branch")],
    },
    Fault {
        name: "a branch above it",
        make: |project| branch(project, "qb"),
        ends: [Runs, Runs, Runs, Runs, Refused("the branch qb exists", "another --branch")],
    },
    Fault {
        name: "a packed branch below it",
        make: |project| {
            let project = branch(project, "qb/a/x");
            project.run_git(&["pack-refs", "--all"]);
            project
        },
        ends: [Runs, Runs, Runs, Runs, Refused("the branch qb/a/x exists", "another --branch")],
    },
    Fault {
        name: "branches beside it",
        make: |project| branch(branch(project, "qb/ab"), "qc"),
        ends: [Runs, Runs, Runs, Runs, Runs],
    },
];

fn branch(project: Project, name: &str) -> Project {
    project.run_git(&["branch", name]);
    project
}

fn nobody(project: Project) -> Project {
    std::fs::write(project.home().join(".gitconfig"), "[user]\n\tuseConfigOnly = true\n").unwrap();
    project
}

fn without_object(project: Project, name: &str) -> Project {
    let object = project.run_git(&["rev-parse", name]);
    let (folder, rest) = object.trim().split_at(2);
    std::fs::remove_file(project.root().join(".git/objects").join(folder).join(rest)).unwrap();
    project
}

/// The real git, found in PATH after a program that sets a variable for it: none of ours reaches it from outside.
fn git_with(project: Project, variable: &str) -> Project {
    let path = std::env::var("PATH").unwrap();
    let real = std::env::split_paths(&path).map(|folder| folder.join("git")).find(|file| file.is_file()).unwrap();
    let folder = project.beside("bin");
    std::fs::create_dir(&folder).unwrap();
    let script = format!("#!/bin/sh\n{variable} exec {} \"$@\"\n", real.display());
    std::fs::write(folder.join("git"), script).unwrap();
    std::fs::set_permissions(folder.join("git"), std::fs::Permissions::from_mode(0o755)).unwrap();
    project.env("PATH", &format!("{}:{path}", folder.display()))
}

fn project() -> Project {
    Project::new().file("a.txt", "hello\n").file("dir/b.txt", "x\n").git().model([
        call("edit", json!({"file_path": "a.txt", "old_string": "hello", "new_string": "goodbye"})),
        say("done"),
    ])
}

/// Tries every fault in one mode.
fn assert_mode(number: usize) {
    let mode = MODES[number];
    for Fault { name, make, ends } in FAULTS {
        let end = &ends[number];
        let project = make(project());
        let before = project.snapshot();
        let outcome = project.run(&[mode, &["--message", "m", "go"][..]].concat());
        let what = format!("{name}, {mode:?}: {}: {}", outcome.code, outcome.stderr);
        match end {
            Refused(message, hint) => {
                assert_eq!(outcome.code, 63, "{what}");
                let error = &outcome.result["error"];
                assert!(error["message"].as_str().unwrap().contains(message), "{what}");
                assert!(error["hint"].as_str().unwrap().contains(hint), "{what}");
                assert_eq!(project.server().requests().len(), 0, "{what}");
                assert!(project.snapshot() == before, "{what}");
            }
            Runs | Warns(_) => {
                assert_eq!(outcome.code, 0, "{what}");
                let warnings = outcome.result["warnings"].to_string();
                match end {
                    Warns(warning) => assert!(warnings.contains(warning), "{what}"),
                    _ => assert!(!warnings.contains(UNKNOWN), "{what}"),
                }
                let is_applied = ["--apply", "--commit"].contains(&mode[0]);
                assert_eq!(project.read("a.txt"), if is_applied { "goodbye\n" } else { "hello\n" }, "{what}");
            }
        }
    }
}

#[test]
fn a_dry_run_goes_on_without_git_and_says_so() {
    assert_mode(0);
}

#[test]
fn what_is_applied_and_can_be_undone_goes_on_without_git() {
    assert_mode(1);
}

#[test]
fn what_is_applied_for_good_needs_git_before_the_first_request() {
    assert_mode(2);
}

#[test]
fn what_a_commit_needs_is_missed_before_the_first_request() {
    assert_mode(3);
}

#[test]
fn what_a_branch_needs_is_missed_before_the_first_request() {
    assert_mode(4);
}

#[test]
fn a_commit_is_made_by_whom_the_variables_name() {
    let project = project().env("GIT_AUTHOR_NAME", "B").env("GIT_AUTHOR_EMAIL", "b@example.com");
    let project = project.env("GIT_AUTHOR_DATE", "2026-02-03T04:05:06Z").env("GIT_INDEX_FILE", "/nowhere");
    let outcome = project.run(&["--commit", "--message", "m", "go"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let shown = project.run_git(&["log", "-1", "--format=%an <%ae> %aI, %cn <%ce>"]);
    assert_eq!(shown, "B <b@example.com> 2026-02-03T04:05:06Z, A <a@example.com>\n");
}

#[test]
fn a_name_that_no_branch_can_have_is_63_before_the_first_request() {
    for name in ["-x", "a..b", "x.lock", "a b", "HEAD", "@{-1}", "a/", "/a", "a//b", "a~1", "main"] {
        let project = project();
        let outcome = project.run(&[&format!("--branch={name}"), "--message", "m", "go"]);
        assert_eq!(outcome.code, 63, "{name}: {}", outcome.stderr);
        assert_eq!(project.server().requests().len(), 0, "{name}");
    }
}

#[test]
fn a_branch_that_head_names_and_that_has_no_commit_is_not_made_behind_the_back_of_the_tree() {
    let project = Project::new().file("a.txt", "hello\n").model([say("done")]);
    project.run_git(&["init", "-q", "-b", "trunk", "."]);
    let outcome = project.run(&["--branch", "trunk", "--message", "m", "go"]);
    assert_eq!(outcome.code, 63, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("the branch trunk already exists"), "{}", outcome.stderr);
    assert!(!Path::new(&project.root().join(".git/refs/heads/trunk")).exists());
}
