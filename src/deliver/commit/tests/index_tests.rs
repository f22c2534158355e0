//! Tests that a commit and its undo leave the index as git and people would have it.

use super::*;

fn index_of(project: &Project) -> [String; 3] {
    let asked = [&["status", "--porcelain", "--ignored"][..], &["ls-files", "--stage"], &["ls-files", "-v"]];
    asked.map(|arguments| git(project.root(), arguments))
}

fn undone(project: &Project) {
    let (record, _) = project.records().remove(0);
    let report = undo::undo(&record, project.root(), &Steps::default()).unwrap();
    assert!(report.is_whole() && !report.commit_stays, "{report:?}");
}

/// Files whose line ends git stores as they are, and then attributes and settings by which it would not.
fn with_stored_line_ends(attributes: &str, settings: &[[&str; 2]]) -> Project {
    let project = Project::new()
        .file("crlf", "1\r\n2\r\n3\r\n")
        .file("mixed", "1\r\n2\n")
        .file("lf", "1\n2\n")
        .file("binary", "1\r\n\0")
        .file("script", "1\r\n2\r\n");
    git(project.root(), &["init", "-q"]);
    commit_all(project.root(), "first");
    for setting in settings {
        git(project.root(), &["config", setting[0], setting[1]]);
    }
    project.file(".git/info/attributes", attributes)
}

#[test]
fn a_commit_stores_the_line_ends_that_git_would_store() {
    let after = [
        ("crlf", Entry::file("1\r\nTWO\r\n3\r\n")),
        ("mixed", Entry::file("1\r\n2\r\n3\n")),
        ("lf", Entry::file("1\r\n2\r\n3\r\n")),
        ("binary", Entry::file("1\r\n2\r\n")),
        ("script", script("1\r\n2\r\n")),
        ("new", Entry::file("1\r\n")),
    ];
    for (attributes, settings) in [
        ("* text=auto\n", &[][..]),
        ("* text=auto eol=crlf\n", &[]),
        ("* text=auto eol=lf\n", &[]),
        ("* text\n", &[]),
        ("", &[["core.autocrlf", "true"]]),
        ("", &[["core.autocrlf", "input"]]),
        ("* -text\n", &[["core.autocrlf", "true"]]),
    ] {
        let project = with_stored_line_ends(attributes, settings);
        let (before, changes) = (index_of(&project), project.changes(&after));
        for how in [Delivery::Branch { name: "b".to_owned(), order: order() }, Delivery::Commit(order())] {
            run(&project, &changes, &how).unwrap();
        }
        let stored = git(project.root(), &["ls-tree", "-r", "HEAD"]);
        assert_eq!(stored, git(project.root(), &["ls-tree", "-r", "b"]));
        undone(&project);
        assert_eq!(index_of(&project)[1..], before[1..], "{attributes}{settings:?}");
        apply::apply(&changes, &Site { undo: None, ..project.site() }, &Steps::default()).unwrap();
        git(project.root(), &["-c", "core.safecrlf=false", "add", "-A"]);
        git(project.root(), &["commit", "-q", "-m", "by git"]);
        assert_eq!(stored, git(project.root(), &["ls-tree", "-r", "HEAD"]), "{attributes}{settings:?}");
    }
}

/// A project with a file that git does not have, and a change of it.
fn untracked(how: &str, after: &[(&str, Entry)]) -> (Project, ChangeSet) {
    let project = Project::new().file("o", "1\n");
    git(project.root(), &["init", "-q"]);
    let project = if how == "ignored" { project.file(".gitignore", "u\n") } else { project };
    if how != "unborn" {
        commit_all(project.root(), "first");
    }
    let project = project.file("u", "1\n");
    let changes = project.changes(after);
    (project, changes)
}

#[test]
fn an_undo_of_a_commit_leaves_a_file_out_of_the_index_that_was_not_in_it() {
    let new = || Entry::file("2\n");
    for how in ["unborn", "untracked", "ignored"] {
        for after in [
            vec![("u", new())],
            vec![("u", Entry::Absent), ("new", new())],
            vec![("u", Entry::Absent), ("u2", Entry::file("1\n"))],
        ] {
            let (project, changes) = untracked(how, &after);
            let before = index_of(&project);
            run(&project, &changes, &Delivery::Commit(order())).unwrap();
            assert_eq!(git(project.root(), &["diff", "HEAD", "--", "u", "u2", "new"]), "");
            undone(&project);
            assert_eq!(index_of(&project), before, "{how} {after:?}");
        }
    }
}

#[test]
fn a_commit_that_was_killed_before_the_index_is_finished_for_a_file_that_was_not_in_it() {
    let deliver = |number: usize| {
        let (project, changes) = untracked("untracked", &[("u", Entry::file("2\n")), ("o", Entry::file("2\n"))]);
        let repository = Repository::discover(project.root()).unwrap().unwrap();
        let site = Site { repository: Some(&repository), ..project.site() };
        let steps = Steps::killed_at(number);
        drop(on_head(&changes, &order(), &site, &steps, &mut Delivered::default()));
        (steps.taken(), project)
    };
    let (all, mut finished) = (deliver(usize::MAX).0, 0);
    for number in all - 10..all {
        let (_, project) = deliver(number);
        let is_committed = git(project.root(), &["rev-list", "--count", "HEAD"]) == "2";
        let is_open = git(project.root(), &["ls-files", "u"]).is_empty();
        undo::recover(&project.undo(), project.root()).unwrap();
        if is_committed {
            finished += usize::from(is_open);
            assert_eq!(git(project.root(), &["status", "--porcelain"]), "", "operation {number}");
        }
    }
    assert!(finished > 0);
}

#[test]
fn what_a_person_commits_before_the_index_is_updated_stays_in_it() {
    let deliver = |project: &Project, steps: &Steps| {
        let repository = Repository::discover(project.root()).unwrap().unwrap();
        let site = Site { repository: Some(&repository), ..project.site() };
        let changes = project.changes(&[("a", Entry::file("2\n")), ("staged", Entry::file("2\n"))]);
        on_head(&changes, &order(), &site, steps, &mut Delivered::default()).is_ok()
    };
    let (all, mut kept) = (Steps::default(), 0);
    assert!(deliver(&project(&[]), &all));
    for number in all.taken() - 10..all.taken() {
        let project = project(&[]);
        let root = project.root().to_owned();
        let steps = Steps::default().meanwhile(number, move || {
            // Only between the reference and the index.
            if git(&root, &["rev-list", "--count", "HEAD"]) == "2" && git(&root, &["show", ":a"]) == "1" {
                std::fs::write(root.join("a"), "by a person\n").unwrap();
                git(&root, &["commit", "-q", "-m", "by a person", "a"]);
            }
        });
        deliver(&project, &steps);
        if git(project.root(), &["show", "HEAD:a"]) == "by a person" {
            kept += 1;
            assert_eq!(git(project.root(), &["status", "--porcelain"]), "", "operation {number}");
        }
    }
    assert!(kept > 0);
}

#[test]
fn a_commit_and_its_undo_keep_the_flags_that_people_set_in_the_index() {
    let project = project(&[]);
    git(project.root(), &["update-index", "--assume-unchanged", "a", "sub/dir/x"]);
    git(project.root(), &["update-index", "--skip-worktree", "staged", "sub/dir/x"]);
    let before = index_of(&project);
    assert!(before[2].contains("h a\n") && before[2].contains("S staged\ns sub/dir/x"), "{}", before[2]);
    let new = || Entry::file("2\n");
    let changes = project.changes(&[("a", new()), ("staged", new()), ("sub/dir/x", new()), ("gone", new())]);
    run(&project, &changes, &Delivery::Commit(order())).unwrap();
    assert_eq!(index_of(&project)[2], before[2]);
    undone(&project);
    assert_eq!(index_of(&project), before);
}

#[test]
fn a_commit_is_made_whatever_the_name_of_the_temporary_directory() {
    let project = project(&[]);
    let repository = Repository::discover(project.root()).unwrap().unwrap();
    for name in ["new\nline", "\"quoted", "back\\slash", "\u{e9} "] {
        let scratch = project.folder().join(name);
        std::fs::create_dir(&scratch).unwrap();
        let git = repository.git();
        let mut objects = Objects::new(&git, &scratch).unwrap();
        for content in [b"1\n", b"2\n"] {
            objects.add(content).unwrap();
        }
        let expected = [b"1\n", b"2\n"].map(|content| repository.format.blob(content));
        assert_eq!(objects.write().unwrap(), expected, "{name:?}");
    }
}
