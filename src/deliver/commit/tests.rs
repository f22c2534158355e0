//! Tests commits in real repositories: what they contain, and what they do not touch.

#![cfg(test)]

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::*;
use crate::deliver::journal::unquoted;
use crate::deliver::message::message;
use crate::deliver::references::update_index;
use crate::deliver::test_support::{OPEN, Project, script};
use crate::deliver::{Delivery, Person, deliver, preflight, undo};

fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    for (name, _) in std::env::vars_os().filter(|(name, _)| crate::git::is_inherited(name)) {
        command.env_remove(name);
    }
    let identity = ["-c", "user.name=U", "-c", "user.email=u@example.org", "-c", "init.defaultBranch=main"];
    command.env("GIT_OPTIONAL_LOCKS", "0");
    let output = command.args(identity).args(arguments).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

fn order() -> DeliveryRequest {
    let person = Person { name: "U".to_owned(), email: "u@example.org".to_owned() };
    let message = message("fix: it", "Why.", &[("Qwen-Run-Id", "1")]).unwrap();
    DeliveryRequest { message, author: Some(person.clone()), committer: Some(person), ..DeliveryRequest::default() }
}

fn project(init: &[&str]) -> Project {
    let project = Project::new()
        .file("a", "1\n")
        .file("gone", "1\n")
        .file("staged", "1\n")
        .file("sub/dir/x", "1\n")
        .file("file-to-folder", "1\n");
    git(project.root(), &[&["init", "-q"], init].concat());
    commit_all(project.root(), "first");
    project
}

fn commit_all(root: &Path, message: &str) {
    git(root, &["add", "-A"]);
    git(root, &["commit", "-q", "--allow-empty", "-m", message]);
}

fn changes(project: &Project) -> ChangeSet {
    project.changes(&[
        ("a", Entry::file("2\n")),
        ("gone", Entry::Absent),
        ("file-to-folder", Entry::Absent),
        ("file-to-folder/b", Entry::file("2\n")),
        ("new dir/\u{e9}\n", script("x\n")),
    ])
}

fn run(project: &Project, changes: &ChangeSet, how: &Delivery) -> Result<Delivered, DeliverError> {
    let repository = Repository::discover(project.root()).unwrap();
    let site = Site { repository: repository.as_ref(), ..project.site() };
    preflight(how, &site)?;
    deliver(changes, how, &site, &OPEN)
}

/// The whole repository as git has it, with everything that a dry run must not touch.
fn every_byte(project: &Project) -> Vec<(PathBuf, std::time::SystemTime, Entry)> {
    let modified = |path: &Path| path.symlink_metadata().unwrap().modified().unwrap();
    project.tree().into_iter().map(|(path, (_, entry))| (path.clone(), modified(&path), entry)).collect()
}

#[test]
fn a_commit_changes_its_paths_and_leaves_what_the_user_staged() {
    for init in [[].as_slice(), &["--object-format=sha256"], &["--ref-format=reftable"]] {
        let project = project(init).file("staged", "2\n").file("untracked", "x");
        git(project.root(), &["add", "staged"]);
        let base = git(project.root(), &["rev-parse", "HEAD"]);
        let delivered = run(&project, &changes(&project), &Delivery::Commit(order())).unwrap();
        let head = git(project.root(), &["rev-parse", "HEAD"]);
        assert_eq!(delivered.commit, Some(head));
        assert_eq!(delivered.branch.as_deref(), Some("main"));
        assert_eq!(git(project.root(), &["rev-parse", "HEAD^"]), base);
        assert_eq!(git(project.root(), &["status", "--porcelain"]), "M  staged\n?? untracked");
        assert_eq!(git(project.root(), &["log", "-1", "--format=%B"]), "fix: it\n\nWhy.\n\nQwen-Run-Id: 1");
        assert_eq!(
            git(project.root(), &["-c", "core.quotePath=true", "show", "--name-status", "--format=", "--no-renames"]),
            "M\ta\nD\tfile-to-folder\nA\tfile-to-folder/b\nD\tgone\nA\t\"new dir/\\303\\251\\n\""
        );
        git(project.root(), &["fsck", "--strict"]);
    }
}

#[test]
fn a_branch_is_a_new_reference_and_nothing_else() {
    for init in [[].as_slice(), &["--object-format=sha256"], &["--ref-format=reftable"]] {
        let project = project(init);
        let (tree, index) = (git(project.root(), &["status", "--porcelain"]), project.root().join(".git/index"));
        let before = (std::fs::read(&index).unwrap(), index.metadata().unwrap().modified().unwrap());
        let changes = changes(&project);
        let how = Delivery::Branch { name: "qwen/x".to_owned(), order: order() };
        let delivered = run(&project, &changes, &how).unwrap();
        assert_eq!(git(project.root(), &["rev-parse", "qwen/x"]), delivered.commit.unwrap());
        assert_eq!(git(project.root(), &["status", "--porcelain"]), tree);
        assert_eq!((std::fs::read(&index).unwrap(), index.metadata().unwrap().modified().unwrap()), before);
        assert_eq!(git(project.root(), &["symbolic-ref", "HEAD"]), "refs/heads/main");
        // The branch holds what the patch says.
        git(project.root(), &["checkout", "-q", "qwen/x"]);
        for (path, change) in changes.iter() {
            assert_eq!(project.entry(path), change.after);
        }
        let again = run(&project, &changes, &how).unwrap_err();
        assert!(again.to_string().contains("qwen/x already exists"), "{again}");
    }
}

#[test]
fn the_patch_of_a_dry_run_gives_the_tree_of_the_commit() {
    for init in [[].as_slice(), &["--object-format=sha256"]] {
        let project = project(init).file("crlf", "1\r\n2\r");
        git(project.root(), &["add", "-A"]);
        git(project.root(), &["commit", "-q", "-m", "crlf"]);
        let changes = project.changes(&[
            ("a", Entry::file("2\0binary")),
            ("gone", Entry::Absent),
            ("file-to-folder", Entry::Absent),
            ("file-to-folder/b\t\"", script("")),
            ("crlf", Entry::file("1\r\n2\r3\r\n4")),
            ("staged", crate::deliver::test_support::link("a")),
        ]);
        let patch = run(&project, &changes, &Delivery::DryRun).unwrap().patch;
        run(&project, &changes, &Delivery::Branch { name: "b".to_owned(), order: order() }).unwrap();
        let file = project.folder().join("patch");
        std::fs::write(&file, patch).unwrap();
        git(project.root(), &["apply", "--index", "--whitespace=nowarn", file.to_str().unwrap()]);
        assert_eq!(git(project.root(), &["write-tree"]), git(project.root(), &["rev-parse", "b^{tree}"]));
    }
}

#[test]
fn a_head_that_has_moved_is_a_conflict_for_every_delivery() {
    for how in [Delivery::Apply, Delivery::Commit(order()), Delivery::Branch { name: "b".into(), order: order() }] {
        let project = project(&[]);
        let changes = project.changes(&[("a", Entry::file("2"))]);
        let repository = Repository::discover(project.root()).unwrap();
        git(project.root(), &["commit", "-q", "--allow-empty", "-m", "by a person"]);
        let site = Site { repository: repository.as_ref(), ..project.site() };
        let error = deliver(&changes, &how, &site, &OPEN).unwrap_err();
        assert_eq!(error.to_string(), "HEAD has moved since the run began");
        assert_eq!(git(project.root(), &["status", "--porcelain"]), "");
    }
}

#[test]
fn a_dry_run_changes_not_one_byte() {
    let project = project(&[]).file("a", "dirty\n");
    let changes = changes(&project);
    let before = every_byte(&project);
    let delivered = run(&project, &changes, &Delivery::DryRun).unwrap();
    assert!(!delivered.applied && !delivered.patch.is_empty());
    assert!(delivered.warnings[0].starts_with("a has uncommitted changes"), "{:?}", delivered.warnings);
    assert_eq!(every_byte(&project), before);
}

#[test]
fn a_dirty_file_is_a_conflict_an_untracked_one_is_not() {
    let whole = |project: &Project, path: &str| project.changes(&[(path, Entry::file("new"))]);
    let commands = [Delivery::Apply, Delivery::Commit(order()), Delivery::Branch { name: "b".into(), order: order() }];
    for how in commands {
        let project = project(&[]).file("a", "dirty\n").file("untracked", "x").file("staged", "2\n");
        git(project.root(), &["add", "staged"]);
        for path in ["a", "staged"] {
            let before = every_byte(&project);
            let error = run(&project, &whole(&project, path), &how).unwrap_err();
            assert!(error.to_string().contains("uncommitted changes"), "{error}");
            assert_eq!(every_byte(&project), before);
        }
        run(&project, &whole(&project, "untracked"), &how).unwrap();
    }
}

#[test]
fn an_unborn_branch_and_a_subfolder_and_a_detached_head_are_fine() {
    let project = Project::new().file("x", "1\n");
    git(project.root(), &["init", "-q"]);
    let changes = project.changes(&[("y", Entry::file("1\n"))]);
    run(&project, &changes, &Delivery::Commit(order())).unwrap();
    assert_eq!(git(project.root(), &["ls-tree", "--name-only", "HEAD"]), "y");
    assert_eq!(git(project.root(), &["status", "--porcelain"]), "?? x");

    git(project.root(), &["checkout", "-q", "--detach"]);
    std::fs::create_dir(project.root().join("sub")).unwrap();
    let root = project.root().join("sub");
    let repository = Repository::discover(&root).unwrap().unwrap();
    assert_eq!((repository.branch.clone(), repository.prefix.to_string()), (None, "sub".to_owned()));
    let site = Site { root: &root, repository: Some(&repository), run_id: "run-2", ..project.site() };
    let changes = project.changes(&[("z", Entry::file("1\n"))]);
    let delivered = deliver(&changes, &Delivery::Commit(order()), &site, &OPEN).unwrap();
    assert_eq!(delivered.branch, None);
    assert_eq!(git(project.root(), &["show", "HEAD:sub/z"]), "1");
}

#[test]
fn a_linked_work_tree_of_a_bare_repository_is_fine() {
    let project = project(&[]);
    let folder = project.folder().canonicalize().unwrap();
    git(&folder, &["clone", "-q", "--bare", "project", "bare.git"]);
    git(&folder.join("bare.git"), &["worktree", "add", "-q", "-b", "other", "../linked"]);
    let root = folder.join("linked");
    let repository = Repository::discover(&root).unwrap().unwrap();
    assert_eq!(repository.branch.as_deref(), Some("other"));
    let site = Site { root: &root, repository: Some(&repository), ..project.site() };
    deliver(&changes(&project), &Delivery::Commit(order()), &site, &OPEN).unwrap();
    assert_eq!(git(&root, &["status", "--porcelain"]), "");
    assert_eq!(git(&root, &["show", "other:a"]), "2");
}

#[test]
fn no_hook_and_no_filter_runs_and_a_hostile_configuration_changes_nothing() {
    let project = project(&[]).file(".git/info/attributes", "* diff=evil\n");
    let witness = project.folder().join("witness");
    let touch = format!("echo \"$0 $*\" >> '{}'; : ", witness.display());
    for hook in
        ["pre-commit", "post-commit", "commit-msg", "reference-transaction", "post-index-change", "prepare-commit-msg"]
    {
        let path = project.root().join(".git/hooks").join(hook);
        std::fs::write(&path, format!("#!/bin/sh\n{touch}\n")).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    for (key, value) in [
        ("filter.evil.clean", touch.as_str()),
        ("filter.evil.required", "true"),
        ("diff.evil.textconv", &touch),
        ("diff.external", &touch),
        ("core.fsmonitor", &touch),
        ("diff.noprefix", "true"),
    ] {
        git(project.root(), &["config", key, value]);
    }
    let changes = changes(&project);
    run(&project, &changes, &Delivery::Branch { name: "b".to_owned(), order: order() }).unwrap();
    run(&project, &changes, &Delivery::Commit(order())).unwrap();
    assert_eq!(std::fs::read_to_string(&witness).ok(), None);
    // What git would keep of a file is not known where a filter is not run.
    let project = project.file(".git/info/attributes", "* filter=evil diff=evil\n");
    let changes = project.changes(&[("a", Entry::file("3"))]);
    for how in [Delivery::Commit(order()), Delivery::Branch { name: "c".to_owned(), order: order() }] {
        let error = run(&project, &changes, &how).unwrap_err();
        assert!(error.to_string().contains("needs the git filter `evil`"), "{error}");
    }
    assert_eq!(std::fs::read_to_string(&witness).ok(), None);
}

#[test]
fn a_commit_holds_the_change_alone_whatever_index_the_repository_keeps() {
    for settings in [
        &["core.splitIndex"][..],
        &["feature.manyFiles"],
        &["core.splitIndex", "feature.manyFiles"],
        &["core.splitIndex", "index.sparse", "index.skipHash", "core.untrackedCache"],
    ] {
        let project = project(&[]);
        for setting in settings {
            git(project.root(), &["config", setting, "true"]);
        }
        let changes = changes(&project);
        for how in [Delivery::Branch { name: "b".to_owned(), order: order() }, Delivery::Commit(order())] {
            run(&project, &changes, &how).unwrap();
        }
        for reference in ["b", "HEAD"] {
            for file in ["a", "staged", "sub/dir/x", "file-to-folder/b"] {
                git(project.root(), &["cat-file", "-e", &format!("{reference}:{file}")]);
            }
        }
        assert_eq!(git(project.root(), &["status", "--porcelain", "-uno"]), "", "{settings:?}");
    }
}

#[test]
fn a_tree_that_is_not_the_checked_change_is_not_committed() {
    let project = project(&[]);
    let repository = Repository::discover(project.root()).unwrap().unwrap();
    let git = repository.git();
    let base = git.line(&["rev-parse", "HEAD"], b"").unwrap();
    let tree = git.line(&["rev-parse", "HEAD^{tree}"], b"").unwrap();
    let empty = git.line(&["mktree"], b"").unwrap();
    let listed = git.run(&["ls-tree", "-r", "HEAD"], b"").unwrap();
    let line = listed.split(|byte| *byte == b'\n').next().unwrap();
    let same = [line, b"\0"].concat();
    let same = String::from_utf8(same).unwrap().replacen(" blob ", " ", 1).into_bytes();
    let other = [b"100644 ", &[b'1'; 40][..], b"\tother\0"].concat();
    written::require_change(&git, Some(&base), &tree, &same).unwrap();
    written::require_change(&git, Some(&base), &tree, b"").unwrap();
    for (tree, info) in [(&empty, &b""[..]), (&empty, &same), (&tree, &other)] {
        let error = written::require_change(&git, Some(&base), tree, info).unwrap_err();
        assert!(error.to_string().contains("differs from the checked change"), "{error}");
    }
    assert!(written::require_change(&git, None, &tree, &same).is_err());
}

#[test]
fn line_ends_are_converted_as_git_does_it() {
    let project = project(&[]).file(".gitattributes", "*.txt text eol=crlf\n").file("t.txt", "1\r\n2\r\n");
    git(project.root(), &["add", "-A"]);
    git(project.root(), &["commit", "-q", "-m", "crlf"]);
    let changes = project.changes(&[("t.txt", Entry::file("1\r\ntwo\r\n"))]);
    run(&project, &changes, &Delivery::Commit(order())).unwrap();
    assert_eq!(git(project.root(), &["show", "HEAD:t.txt"]), "1\ntwo");
    assert_eq!(git(project.root(), &["status", "--porcelain"]), "");
}

#[test]
fn a_path_in_a_submodule_is_refused_and_a_sparse_one_is_a_conflict() {
    let project = project(&[]);
    let object = git(project.root(), &["rev-parse", "HEAD"]);
    git(project.root(), &["update-index", "--add", "--cacheinfo", &format!("160000,{object},module")]);
    git(project.root(), &["commit", "-q", "-m", "module"]);
    let changes = project.changes(&[("module/x", Entry::file("1"))]);
    let error = run(&project, &changes, &Delivery::Commit(order())).unwrap_err();
    assert_eq!(error.to_string(), "module/x: it is in the submodule module");

    git(project.root(), &["sparse-checkout", "set", "--no-cone", "/a"]);
    let changes = project.changes(&[("gone", Entry::file("1"))]);
    let error = run(&project, &changes, &Delivery::Commit(order())).unwrap_err();
    assert!(error.to_string().starts_with("gone has uncommitted changes"), "{error}");
    let changes = project.changes(&[("a", Entry::file("2\n"))]);
    run(&project, &changes, &Delivery::Commit(order())).unwrap();
    assert_eq!(git(project.root(), &["status", "--porcelain"]), "");
}

#[test]
fn whatever_operation_of_a_commit_fails_repository_and_tree_are_as_before() {
    let tree = |project: &Project| {
        let status = git(project.root(), &["status", "--porcelain"]);
        (git(project.root(), &["rev-parse", "HEAD"]), status, git(project.root(), &["diff", "--cached"]))
    };
    let attempt = |project: &Project, steps: &Steps| {
        let repository = Repository::discover(project.root()).unwrap().unwrap();
        let site = Site { repository: Some(&repository), ..project.site() };
        on_head(&changes(project), &order(), &site, steps, &mut Delivered::default()).is_ok()
    };
    let steps = Steps::default();
    assert!(attempt(&project(&[]), &steps));
    let mut ended = std::collections::BTreeSet::new();
    // Those before are the files' alone, and have their own test.
    for number in steps.taken() - 10..steps.taken() {
        for (steps, is_kill) in [(Steps::failing_at(number), false), (Steps::killed_at(number), true)] {
            let project = project(&[]);
            let (before, base) = (tree(&project), git(project.root(), &["rev-parse", "HEAD"]));
            let is_done = attempt(&project, &steps);
            undo::recover(&project.undo(), project.root()).unwrap();
            let head = git(project.root(), &["rev-parse", "HEAD"]);
            // Once there is the commit, a delivery that is killed is finished.
            match is_done || is_kill && head != base {
                true => assert_eq!(tree(&project), (head, String::new(), String::new()), "operation {number}"),
                false => assert_eq!(tree(&project), before, "operation {number}"),
            }
            assert!(project.leftovers().is_empty(), "operation {number}");
            ended.insert((is_kill, is_done, git(project.root(), &["rev-parse", "HEAD"]) == base));
        }
    }
    let (failed, killed) = ([(false, false, true), (false, true, false)], [(true, false, false), (true, false, true)]);
    let all = [&failed[..], &killed, &[(true, true, false)]].concat();
    assert_eq!(ended.into_iter().collect::<Vec<_>>(), all);
}

#[test]
fn a_panic_in_the_middle_of_a_delivery_leaves_repository_and_tree_as_before() {
    let state = |project: &Project| {
        let asked = [&["rev-parse", "HEAD"][..], &["status", "--porcelain"], &["diff", "--cached"]];
        (asked.map(|arguments| git(project.root(), arguments)), project.leftovers(), project.records())
    };
    for number in 0.. {
        let project = project(&[]);
        let before = state(&project);
        let steps = Steps::panicking_at(number);
        let delivery = std::panic::AssertUnwindSafe(|| {
            let repository = Repository::discover(project.root()).unwrap().unwrap();
            let site = Site { repository: Some(&repository), ..project.site() };
            on_head(&changes(&project), &order(), &site, &steps, &mut Delivered::default()).unwrap();
        });
        if std::panic::catch_unwind(delivery).is_ok() {
            assert!(number > 20);
            break;
        }
        if state(&project) != before {
            // All of it was in its place; what was there before is removed by the next command.
            assert_eq!(git(project.root(), &["diff", "HEAD"]), "", "operation {number}");
            let recovered = undo::recover(&project.undo(), project.root()).unwrap();
            assert!(recovered[0].told().contains("everything is delivered"), "{recovered:?}");
            assert!(project.leftovers().is_empty(), "operation {number}");
        }
    }
}

#[test]
fn undo_takes_the_commit_back_too() {
    let project = project(&[]);
    let before = git(project.root(), &["rev-parse", "HEAD"]);
    let delivered = run(&project, &changes(&project), &Delivery::Commit(order())).unwrap();
    let report = crate::deliver::undo(&delivered.record.unwrap(), project.root(), &Steps::default()).unwrap();
    assert_eq!(report.warnings, Vec::<String>::new());
    assert_eq!(git(project.root(), &["rev-parse", "HEAD"]), before);
    assert_eq!(git(project.root(), &["status", "--porcelain"]), "");
}

#[test]
fn an_undo_that_a_lock_stops_changes_nothing_and_is_finished_by_the_next() {
    for lock in ["index.lock", "HEAD.lock", "refs/heads/main.lock"] {
        let project = project(&[]);
        let base = git(project.root(), &["rev-parse", "HEAD"]);
        let record = run(&project, &changes(&project), &Delivery::Commit(order())).unwrap().record.unwrap();
        let (delivered, lock) = (project.tree(), project.root().join(".git").join(lock));
        std::fs::write(&lock, "").unwrap();
        let error = undo::undo(&record, project.root(), &Steps::default()).unwrap_err();
        assert!(error.to_string().contains("another git is running") && !error.half, "{error}");
        std::fs::remove_file(&lock).unwrap();
        assert_eq!(project.tree(), delivered, "{lock:?}");
        undo::undo(&record, project.root(), &Steps::default()).unwrap();
        assert_eq!(git(project.root(), &["rev-parse", "HEAD"]), base, "{lock:?}");
        assert_eq!(git(project.root(), &["status", "--porcelain"]), "");
    }
}

#[test]
fn a_lock_is_named_before_anything_is_delivered() {
    for lock in ["index.lock", "HEAD.lock", "refs/heads/main.lock"] {
        let project = project(&[]);
        let lock = project.root().join(".git").join(lock);
        std::fs::write(&lock, "").unwrap();
        let repository = Repository::discover(project.root()).unwrap();
        let site = Site { repository: repository.as_ref(), ..project.site() };
        let error = preflight(&Delivery::Commit(order()), &site).unwrap_err();
        assert!(error.to_string().starts_with(&format!("{} exists", lock.display())), "{error}");
    }
}

#[test]
fn an_undo_killed_between_index_and_reference_is_finished_by_the_next() {
    let project = project(&[]);
    let base = git(project.root(), &["rev-parse", "HEAD"]);
    let record = run(&project, &changes(&project), &Delivery::Commit(order())).unwrap().record.unwrap();
    let saved = project.records().remove(0).1.commit.unwrap();
    let repository = Repository::discover(project.root()).unwrap().unwrap();
    update_index(&repository, &unquoted(&saved.index_before).unwrap()).unwrap();
    undo::undo(&record, project.root(), &Steps::default()).unwrap();
    assert_eq!(git(project.root(), &["rev-parse", "HEAD"]), base);
    assert_eq!(git(project.root(), &["status", "--porcelain"]), "");
}

#[test]
fn undo_keeps_what_a_person_has_staged_since() {
    let project = project(&[]);
    let record = run(&project, &changes(&project), &Delivery::Commit(order())).unwrap().record.unwrap();
    let project = project.file("a", "by a person\n");
    git(project.root(), &["add", "a"]);
    let report = undo::undo(&record, project.root(), &Steps::default()).unwrap();
    assert_eq!(report.left_alone, [crate::path::RelPath::new("a").unwrap()]);
    assert_eq!(git(project.root(), &["status", "--porcelain"]), "M  a");
}

#[test]
fn a_commit_that_others_build_on_stays_and_is_named() {
    let project = project(&[]);
    let record = run(&project, &changes(&project), &Delivery::Commit(order())).unwrap().record.unwrap();
    git(project.root(), &["commit", "-q", "--allow-empty", "-m", "by a person"]);
    let report = undo::undo(&record, project.root(), &Steps::default()).unwrap();
    assert!(report.commit_stays && report.warnings[0].contains("main has moved since"), "{:?}", report.warnings);
    // That is said once: the next undo is about the run before.
    let again = undo::undo(&record, project.root(), &Steps::default()).unwrap();
    assert!(!again.commit_stays && again.warnings.is_empty(), "{:?}", again.warnings);
}

#[test]
fn what_cannot_be_delivered_is_known_before_the_first_request() {
    let project = Project::new();
    let site = project.site();
    for how in [Delivery::Commit(order()), Delivery::Branch { name: "b".to_owned(), order: order() }] {
        assert!(matches!(preflight(&how, &site), Err(DeliverError::Conflict { .. })));
    }
    assert_eq!(preflight(&Delivery::Apply, &site), Ok(()));
    let blocked = project.folder().join("file");
    std::fs::write(&blocked, "").unwrap();
    assert!(preflight(&Delivery::Apply, &Site { undo: Some(&blocked.join("undo")), ..project.site() }).is_err());
    git(project.root(), &["init", "-q"]);
    let repository = Repository::discover(project.root()).unwrap();
    let site = Site { repository: repository.as_ref(), ..project.site() };
    for name in ["-x", "a..b", "x.lock", "", "a b"] {
        let how = Delivery::Branch { name: name.to_owned(), order: order() };
        assert!(preflight(&how, &site).is_err(), "{name}");
    }
}

#[test]
fn unfinished_objects_of_killed_runs_go_with_the_next_delivery_or_the_undo_and_those_of_others_stay() {
    let project = project(&[]);
    let objects = project.root().join(".git/objects");
    let left = |name: &str, hours: u64| {
        let folder = objects.join("ab");
        std::fs::create_dir_all(&folder).unwrap();
        let file = std::fs::File::create(folder.join(name)).unwrap();
        file.set_modified(std::time::SystemTime::now() - Duration::from_secs(hours * 3600)).unwrap();
        folder.join(name)
    };
    let own = || left("tmp_obj_qwen-run-1-x", 0);
    let (old, fresh, of_git) = (left("tmp_obj_qwen-r0-x", 2), left("tmp_obj_qwen-r2-x", 0), left("tmp_obj_x", 2));
    let first = own();
    let record = run(&project, &changes(&project), &Delivery::Commit(order())).unwrap().record.unwrap();
    assert!(!first.exists() && !old.exists() && fresh.exists() && of_git.exists());
    let again = own();
    undo::undo(&record, project.root(), &Steps::default()).unwrap();
    assert!(!again.exists() && fresh.exists() && of_git.exists());
}

mod index_tests;
mod killed_tests;
mod place_tests;
