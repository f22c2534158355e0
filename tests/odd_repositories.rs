//! Tests repositories in odd states: the same small change in each, in every mode; nothing crashes, hangs, or is
//! touched that should not be.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;

use crate::support::{Project, Reply, call, calls, say};

/// Look around, read, change one file, make another, run a command that reads.
fn conversation() -> Vec<Reply> {
    vec![
        calls([
            ("list_directory", json!({"path": "."})),
            ("search_file_content", json!({"pattern": "hello"})),
            ("glob", json!({"pattern": "**/*.txt"})),
            ("read_file", json!({"file_path": "a.txt"})),
        ]),
        calls([
            ("edit", json!({"file_path": "a.txt", "old_string": "hello", "new_string": "goodbye"})),
            ("write_file", json!({"file_path": "new/n.txt", "content": "new\n"})),
        ]),
        call("run_shell_command", json!({"command": "git status --short && cat a.txt"})),
        say("done"),
    ]
}

/// A repository of two commits whose work tree is clean.
fn plain() -> Project {
    plain_made(&["init", "-q", "-b", "main", "."])
}

fn plain_made(init: &[&str]) -> Project {
    let project = Project::new().file("a.txt", "hello\n").file("dir/b.txt", "x hello\n").file("dir/deep/c.txt", "y\n");
    project.run_git(init);
    project.run_git(&["add", "-A"]);
    project.run_git(&["commit", "-qm", "one"]);
    let project = project.file("dir/b.txt", "x hello\n2\n");
    project.run_git(&["commit", "-qam", "two"]);
    project
}

/// Moves the repository aside and returns the path it has then; `make` puts another one in its place.
fn beside(project: &Project) -> String {
    let origin = project.beside("origin");
    fs::rename(project.root(), &origin).unwrap();
    fs::create_dir(project.root()).unwrap();
    origin.display().to_string()
}

type Make = fn() -> Project;

const KINDS: &[(&str, Make)] = &[
    ("unborn", || {
        let project = Project::new().file("a.txt", "hello\n").file("dir/b.txt", "x\n");
        project.run_git(&["init", "-q", "-b", "main", "."]);
        project
    }),
    ("detached", || {
        let project = plain();
        project.run_git(&["checkout", "-q", "--detach"]);
        project
    }),
    ("linked to a bare one", || {
        let project = plain();
        let origin = beside(&project);
        let bare = project.beside("bare.git").display().to_string();
        project.run_git(&["clone", "-q", "--bare", &origin, &bare]);
        fs::remove_dir(project.root()).unwrap();
        fs::create_dir(project.root()).unwrap();
        project.run_git(&["-C", &bare, "worktree", "add", "-q", &project.root().display().to_string(), "main"]);
        project
    }),
    ("linked", || {
        let project = plain();
        let origin = beside(&project);
        let root = project.root().display().to_string();
        project.run_git(&["-C", &origin, "worktree", "add", "-q", "-b", "other", &root]);
        project
    }),
    ("with a submodule", || {
        let project = plain();
        let other = project.beside("other").display().to_string();
        project.run_git(&["clone", "-q", ".", &other]);
        project.run_git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &other, "sub"]);
        project.run_git(&["commit", "-qm", "sub"]);
        project
    }),
    ("with a submodule that does not exist", || {
        let project = plain();
        let other = project.beside("other").display().to_string();
        project.run_git(&["clone", "-q", ".", &other]);
        project.run_git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &other, "sub"]);
        project.run_git(&["commit", "-qm", "sub"]);
        project.run_git(&["submodule", "--quiet", "deinit", "-f", "sub"]);
        project
    }),
    ("sparse, by cones", || {
        let project = plain();
        project.run_git(&["sparse-checkout", "set", "--cone", "dir/deep"]);
        project
    }),
    ("sparse, by patterns", || {
        let project = plain();
        project.run_git(&["sparse-checkout", "set", "--no-cone", "/*", "!/dir/deep"]);
        project
    }),
    ("with a split index", || {
        let project = plain();
        project.run_git(&["update-index", "--split-index"]);
        project
    }),
    ("with a sparse index", || {
        let project = plain();
        project.run_git(&["sparse-checkout", "set", "--cone", "--sparse-index", "dir/deep"]);
        project
    }),
    ("of sha256", || plain_made(&["init", "-q", "-b", "main", "--object-format=sha256", "."])),
    ("shallow", || {
        let project = plain();
        let origin = format!("file://{}", beside(&project));
        project.run_git(&["clone", "-q", "--depth", "1", &origin, "."]);
        project
    }),
    ("a partial clone", || {
        let project = plain();
        project.run_git(&["config", "uploadpack.allowFilter", "true"]);
        let origin = format!("file://{}", beside(&project));
        project.run_git(&["clone", "-q", "--filter=blob:none", &origin, "."]);
        project
    }),
    ("with a shared object store", || {
        let project = plain();
        let origin = beside(&project);
        project.run_git(&["clone", "-q", "-s", &origin, "."]);
        project
    }),
    ("with pointers of LFS", || {
        let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
        let project = plain().file("big.bin", pointer);
        project.run_git(&["add", "-A"]);
        project.run_git(&["commit", "-qm", "pointer"]);
        let project = project.file(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n");
        project.run_git(&["-c", "filter.lfs.clean=cat", "add", "-A"]);
        project.run_git(&["commit", "-qm", "attributes"]);
        project
    }),
    ("with line ends converted", || {
        let project = plain();
        project.run_git(&["config", "core.autocrlf", "true"]);
        fs::remove_file(project.root().join("a.txt")).unwrap();
        project.run_git(&["checkout", "--", "a.txt"]);
        assert_eq!(project.read("a.txt"), "hello\r\n");
        project
    }),
    ("with names that differ by case", || {
        let project = plain().file("File", "1\n").file("file", "2\n");
        project.run_git(&["add", "-A"]);
        project.run_git(&["commit", "-qm", "case"]);
        project
    }),
    ("with names of every byte", || {
        let project = plain();
        for byte in (1..=255).filter(|byte| *byte != b'/') {
            let name = [b'n', byte, b'e'];
            fs::write(project.root().join(std::ffi::OsStr::from_bytes(&name)), "x\n").unwrap();
        }
        let project = project.file(":(top)x", "x\n").file(":!x", "x\n").file("[x]", "x\n");
        project.run_git(&["add", "-A"]);
        project.run_git(&["commit", "-qm", "names"]);
        project
    }),
    ("with loops, a pipe, a socket and a device", || {
        let project = plain();
        let at = |name: &str| project.root().join(name);
        symlink("loop2", at("loop1")).unwrap();
        symlink("loop1", at("loop2")).unwrap();
        symlink(".", at("self")).unwrap();
        symlink("/nowhere/at/all", at("dangling")).unwrap();
        let made = std::process::Command::new("mkfifo").arg(at("fifo")).status().unwrap();
        assert!(made.success());
        drop(std::os::unix::net::UnixListener::bind(at("socket")).unwrap());
        let device = std::process::Command::new("mknod").arg(at("device")).args(["c", "1", "5"]).output().unwrap();
        if !device.status.success() {
            eprintln!("SKIPPED: no device can be made here");
        }
        project
    }),
    ("with a file of 2 GB", || {
        let project = plain();
        let file = fs::File::create(project.root().join("huge.bin")).unwrap();
        file.set_len(2 << 30).unwrap();
        project
    }),
    ("with replaced objects", || {
        let project = plain();
        project.run_git(&["replace", "--graft", "HEAD"]);
        project
    }),
];

fn made(name: &str) -> Project {
    let (_, make) = KINDS.iter().find(|(kind, _)| *kind == name).unwrap();
    make()
}

/// Everything of the repository but files too large to compare.
fn snapshot(project: &Project) -> Vec<(std::path::PathBuf, String)> {
    let mut found = Vec::new();
    let folders = [project.root(), project.beside("origin"), project.beside("bare.git"), project.beside("other")];
    for folder in folders.iter().filter(|folder| folder.exists()) {
        walk(folder, &mut found);
    }
    found.sort();
    found
}

fn walk(folder: &Path, found: &mut Vec<(std::path::PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let (path, metadata) = (entry.path(), entry.metadata().unwrap());
        if metadata.is_dir() {
            walk(&path, found);
        } else {
            let content =
                if metadata.is_file() && metadata.len() < 1 << 20 { fs::read(&path).unwrap() } else { Vec::new() };
            // Git itself marks objects and the shared part of an index as used when it reads a sparse or split index.
            let is_marked = path.components().any(|part| part.as_os_str() == "objects")
                || entry.file_name().as_bytes().starts_with(b"sharedindex.");
            let times = (!is_marked).then(|| metadata.modified().unwrap());
            let times = (times, metadata.len());
            found.push((path, format!("{times:?} {content:?}")));
        }
    }
}

#[test]
fn a_dry_run_touches_nothing_and_its_patch_fits() {
    for (name, make) in KINDS {
        let project = make().model(conversation());
        let before = snapshot(&project);
        let outcome = project.run(&["--dry-run", "-o", "patch", "go"]);
        assert_eq!(outcome.code, 0, "{name}: {}\n{}", outcome.stderr, outcome.result);
        let touched: Vec<_> = snapshot(&project).into_iter().filter(|file| !before.contains(file)).collect();
        assert!(touched.is_empty(), "{name}: the dry run touched {touched:?}");
        fs::write(project.beside("x.patch"), &outcome.stdout_bytes).unwrap();
        project.run_git(&["apply", "--check", &project.beside("x.patch").display().to_string()]);
    }
}

#[test]
fn a_commit_holds_the_change_and_leaves_the_rest() {
    for (name, make) in KINDS {
        let project = make().model(conversation());
        let status = project.run_git(&["status", "--porcelain"]);
        let outcome = project.run(&["--commit", "--message", "change", "go"]);
        assert_eq!(outcome.code, 0, "{name}: {}", outcome.stderr);
        let changed = project.run_git(&["show", "--format=", "--name-only", "HEAD"]);
        assert_eq!(changed, "a.txt\nnew/n.txt\n", "{name}");
        let left: Vec<&str> = status.lines().filter(|line| !line.ends_with(" a.txt")).collect();
        assert_eq!(project.run_git(&["status", "--porcelain"]).lines().collect::<Vec<_>>(), left, "{name}");
        project.run_git(&["fsck", "--no-dangling"]);
        assert!(project.read("a.txt").starts_with("goodbye"), "{name}");
    }
}

#[test]
fn a_branch_holds_the_change_and_the_tree_stays() {
    for (name, make) in KINDS {
        let project = make().model(conversation());
        let status = project.run_git(&["status", "--porcelain"]);
        let outcome = project.run(&["--branch", "qwen/x", "--message", "change", "go"]);
        assert_eq!(outcome.code, 0, "{name}: {}", outcome.stderr);
        assert_eq!(project.run_git(&["status", "--porcelain"]), status, "{name}");
        let changed = project.run_git(&["show", "--format=", "--name-only", "qwen/x"]);
        assert_eq!(changed, "a.txt\nnew/n.txt\n", "{name}");
    }
}

#[test]
fn what_is_applied_is_undone() {
    for (name, make) in KINDS {
        let project = make().model(conversation());
        let before = project.run_git(&["status", "--porcelain"]);
        let outcome = project.run(&["--apply", "go"]);
        assert_eq!(outcome.code, 0, "{name}: {}", outcome.stderr);
        assert!(project.read("a.txt").starts_with("goodbye"), "{name}");
        let undone = project.qwen(&["undo"]);
        assert_eq!(undone.code, 0, "{name}: {}", undone.stderr);
        assert_eq!(project.run_git(&["status", "--porcelain"]), before, "{name}");
        assert!(project.read("a.txt").starts_with("hello"), "{name}");
    }
}

#[test]
#[ignore = "takes a minute: cargo test --release --test it odd_repositories:: -- --ignored"]
fn a_hundred_thousand_files_are_worked_on() {
    let project = plain();
    for folder in 0..400 {
        let folder = project.root().join(format!("many/{folder}"));
        fs::create_dir_all(&folder).unwrap();
        for file in 0..250 {
            fs::write(folder.join(file.to_string()), "x\n").unwrap();
        }
    }
    project.run_git(&["add", "-A"]);
    project.run_git(&["commit", "-qm", "many"]);
    let project = project.model(conversation().into_iter().chain(conversation()));
    let before = project.run_git(&["status", "--porcelain"]);
    let outcome = project.run(&["--dry-run", "-o", "patch", "go"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(project.run_git(&["status", "--porcelain"]), before);
    let outcome = project.run(&["--apply", "go"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let status = project.run_git(&["status", "--porcelain"]);
    assert!(status.contains("new/") && status.lines().count() <= before.lines().count() + 2, "{status}");
    eprintln!("dry run and delivery of 100,000 files: {} ms for the latter", outcome.result["duration_ms"]);
}

#[test]
fn reftable_works_where_git_knows_it() {
    let probe = Project::new();
    let known = std::process::Command::new("git")
        .args(["init", "-q", "--ref-format=reftable"])
        .arg(probe.beside("probe"))
        .output()
        .unwrap();
    if !known.status.success() {
        eprintln!("not tried: this git has no reftable");
        return;
    }
    let project = plain_made(&["init", "-q", "-b", "main", "--ref-format=reftable", "."]).model(conversation());
    let outcome = project.run(&["--commit", "--message", "change", "go"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(project.run_git(&["log", "-1", "--format=%s"]), "change\n");
}

#[test]
fn a_repository_that_git_cannot_read_ends_with_63_and_is_left_alone() {
    for (what, path, content) in [("the index", ".git/index", "garbage"), ("HEAD", ".git/HEAD", "")] {
        let project = plain().file(path, content).model(conversation());
        let before = snapshot(&project);
        let outcome = project.run(&["--commit", "go"]);
        assert_eq!(outcome.code, 63, "{what}: {}", outcome.stderr);
        assert!(snapshot(&project) == before, "{what}");
    }
}

#[test]
fn a_lock_of_another_git_stops_a_commit_and_stays() {
    let project = made("detached").file(".git/index.lock", "").model(conversation());
    let outcome = project.run(&["--commit", "go"]);
    assert_eq!(outcome.code, 63, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("index.lock"), "{}", outcome.stderr);
    assert!(project.root().join(".git/index.lock").exists());
}

#[test]
fn a_merge_that_has_begun_is_not_committed_over() {
    let make = || {
        let project = plain();
        project.run_git(&["checkout", "-qb", "other", "HEAD~1"]);
        let project = project.file("c.txt", "c\n");
        project.run_git(&["add", "-A"]);
        project.run_git(&["commit", "-qm", "other"]);
        project.run_git(&["merge", "-q", "--no-commit", "--no-ff", "main"]);
        project.model(conversation())
    };
    let project = make();
    let before = snapshot(&project);
    let outcome = project.run(&["--commit", "go"]);
    assert_eq!(outcome.code, 63, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("a merge is in progress"), "{}", outcome.stderr);
    assert!(snapshot(&project) == before && project.server().requests().is_empty());
    assert_eq!(make().run(&["--branch", "qwen/x", "--message", "m", "go"]).code, 0);
}

#[test]
fn a_filtered_file_is_applied_and_not_committed() {
    let make = || {
        let project = plain().file(".gitattributes", "*.txt filter=up\n");
        project.run_git(&["config", "filter.up.clean", "tr a-z A-Z"]);
        project.run_git(&["config", "filter.up.smudge", "tr A-Z a-z"]);
        project.run_git(&["add", "-A"]);
        // Whether git looks again at a file that it knows depends on the clock; here it shall.
        project.run_git(&["add", "--renormalize", "."]);
        project.run_git(&["commit", "-qm", "filter"]);
        // Git trusts what it has noted of a file only if the file is older than the note.
        let old = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
        fs::File::options().write(true).open(project.root().join("a.txt")).unwrap().set_modified(old).unwrap();
        project.run_git(&["update-index", "--refresh"]);
        project.model(conversation())
    };
    for flags in [&["--commit"][..], &["--branch", "qwen/x"]] {
        let project = make();
        let outcome = project.run(&[flags, &["--message", "m", "go"]].concat());
        assert_eq!(outcome.code, 63, "{}", outcome.stderr);
        assert!(outcome.stderr.contains("a.txt needs the git filter `up`"), "{}", outcome.stderr);
        assert_eq!(project.read("a.txt"), "hello\n");
    }
    let project = make();
    let outcome = project.run(&["--apply", "go"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(project.read("a.txt"), "goodbye\n");
}

#[test]
fn a_name_that_git_could_take_for_a_pattern_is_delivered() {
    let names = [":(top)x", ":!x", "[x]", "*"];
    for how in ["--apply", "--commit"] {
        let edit = |name: &&str| call("write_file", serde_json::json!({"file_path": name, "content": "changed\n"}));
        let project = names.iter().fold(plain(), |project, name| project.file(name, "x\n"));
        project.run_git(&["add", "-A"]);
        project.run_git(&["commit", "-qm", "names"]);
        let project = project.model(names.iter().map(edit).chain([say("done")]));
        let outcome = project.run(&[how, "go"]);
        assert_eq!(outcome.code, 0, "{how}: {}", outcome.stderr);
        assert!(names.iter().all(|name| project.read(name) == "changed\n"), "{how}");
        assert_eq!(project.run_git(&["diff", "--name-only", "HEAD"]).is_empty(), how == "--commit");
    }
}
