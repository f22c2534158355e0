//! Tests undoing of a commit wherever it is by then.

use super::*;

/// Commits the changes, and returns the record.
fn committed(project: Project) -> (Project, PathBuf) {
    let record = run(&project, &changes(&project), &Delivery::Commit(order())).unwrap().record.unwrap();
    (project, record)
}

/// Makes the first commit of a repository.
fn first_commit() -> (Project, PathBuf) {
    let project = Project::new();
    git(project.root(), &["init", "-q"]);
    let changes = project.changes(&[("n", Entry::file("1\n"))]);
    let record = run(&project, &changes, &Delivery::Commit(order())).unwrap().record.unwrap();
    (project, record)
}

#[test]
fn a_commit_of_a_branch_that_was_renamed_since_is_undone() {
    let (project, record) = committed(project(&[]));
    git(project.root(), &["branch", "-m", "main", "trunk"]);
    let report = undo::undo(&record, project.root(), &Steps::default()).unwrap();
    assert!(!report.commit_stays, "{:?}", report.warnings);
    assert_eq!(git(project.root(), &["rev-list", "--count", "trunk"]), "1");
}

#[test]
fn a_commit_on_no_branch_is_undone_on_the_one_that_was_made_for_it() {
    let project = project(&[]);
    git(project.root(), &["checkout", "-q", "--detach"]);
    let (project, record) = committed(project);
    git(project.root(), &["switch", "-q", "-c", "feat"]);
    let report = undo::undo(&record, project.root(), &Steps::default()).unwrap();
    assert!(report.is_whole(), "{:?}", report.warnings);
    assert_eq!(git(project.root(), &["rev-list", "--count", "feat"]), "1");
    assert_eq!(git(project.root(), &["status", "--porcelain"]), "");
}

#[test]
fn the_first_commit_is_undone_on_whatever_branch_it_is() {
    let ways = [&["branch -m trunk"][..], &["switch -q -c feat", "branch -D main"]];
    for (steps, is_elsewhere) in ways.into_iter().flat_map(|steps| [(steps, false), (steps, true)]) {
        let (project, record) = first_commit();
        let act = |step: &str| git(project.root(), &step.split(' ').collect::<Vec<_>>());
        steps.iter().for_each(|step| drop(act(step)));
        let branch = act("branch --show-current");
        if is_elsewhere {
            act("switch -q --orphan other");
            let error = undo::undo(&record, project.root(), &Steps::default()).unwrap_err();
            assert!(error.to_string().contains(&format!("git switch {branch}")), "{error}");
            act(&format!("switch -q {branch}"));
        }
        let report = undo::undo(&record, project.root(), &Steps::default()).unwrap();
        assert!(report.is_whole(), "{:?}", report.warnings);
        assert_eq!((act("for-each-ref"), act("status --porcelain")), (String::new(), String::new()));
    }
}

#[test]
fn a_commit_that_another_branch_has_is_never_said_to_be_undone() {
    let (project, record) = committed(project(&[]));
    git(project.root(), &["branch", "-m", "main", "trunk"]);
    git(project.root(), &["switch", "-q", "-c", "other", "HEAD~1"]);
    let error = undo::undo(&record, project.root(), &Steps::default()).unwrap_err();
    assert!(error.to_string().contains("on trunk, which is not checked out"), "{error}");
    // Its branch was moved back, and the commit is below another one's end.
    git(project.root(), &["switch", "-q", "trunk"]);
    git(project.root(), &["branch", "main", "HEAD~1"]);
    git(project.root(), &["commit", "-q", "--allow-empty", "-m", "by a person"]);
    let report = undo::undo(&record, project.root(), &Steps::default()).unwrap();
    assert!(report.commit_stays && report.warnings[0].contains("trunk has moved since"), "{:?}", report.warnings);
}

#[test]
fn a_commit_is_undone_on_its_branch_only() {
    let (project, record) = committed(project(&[]));
    for elsewhere in [&["checkout", "-q", "-b", "other"][..], &["checkout", "-q", "HEAD~1"]] {
        git(project.root(), elsewhere);
        let all = || git(project.root(), &["for-each-ref"]) + &git(project.root(), &["status", "--porcelain"]);
        let before = all();
        let error = undo::undo(&record, project.root(), &Steps::default()).unwrap_err().to_string();
        assert!(error.contains("`git switch main`"), "{error}");
        assert_eq!(all(), before);
    }
    git(project.root(), &["checkout", "-q", "main"]);
    undo::undo(&record, project.root(), &Steps::default()).unwrap();
    assert_eq!(git(project.root(), &["rev-list", "--count", "main"]), "1");
}

#[test]
fn undoing_the_first_commit_never_deletes_head() {
    let ways = [&["branch -m trunk", "switch -q --detach"][..], &["switch -q --detach", "branch -D main"]];
    for (steps, stays) in ways.into_iter().zip([false, true]) {
        let (project, record) = first_commit();
        let act = |step: &str| git(project.root(), &step.split(' ').collect::<Vec<_>>());
        steps.iter().for_each(|step| drop(act(step)));
        let head = act("rev-parse HEAD");
        match undo::undo(&record, project.root(), &Steps::default()) {
            Err(error) => assert!(!stays && error.to_string().contains("`git switch trunk` first"), "{error}"),
            Ok(report) => assert!(stays && report.commit_stays, "{:?}", report.warnings),
        }
        assert_eq!(act("rev-parse HEAD"), head);
        let repository = Repository::discover(project.root()).unwrap().unwrap();
        let error = move_reference_back(&repository, "HEAD", None, &head).unwrap_err();
        assert!(error.to_string().contains("is not deleted"), "{error}");
        assert_eq!(act("rev-parse HEAD"), head);
    }
}

#[test]
fn a_commit_that_a_renamed_branch_keeps_is_not_undone_where_another_is_checked_out() {
    for elsewhere in [&["switch", "-q", "-c", "another"][..], &["switch", "-q", "--detach"]] {
        let (project, record) = committed(project(&[]));
        git(project.root(), &["branch", "-m", "main", "trunk"]);
        git(project.root(), elsewhere);
        let error = undo::undo(&record, project.root(), &Steps::default()).unwrap_err();
        assert!(error.to_string().contains("`git switch trunk` first"), "{error}");
        git(project.root(), &["switch", "-q", "trunk"]);
        let report = undo::undo(&record, project.root(), &Steps::default()).unwrap();
        assert_eq!(git(project.root(), &["rev-list", "--count", "trunk"]), "1");
        let is_kept = report.warnings.iter().any(|warning| warning.starts_with("another has the commit"));
        assert_eq!(is_kept, elsewhere.contains(&"another"), "{:?}", report.warnings);
    }
}

#[test]
fn a_branch_in_another_work_tree_is_named_with_it() {
    let (project, record) = committed(project(&[]));
    git(project.root(), &["switch", "-q", "-c", "other", "HEAD~1"]);
    let beside = project.folder().join("beside");
    git(project.root(), &["worktree", "add", "-q", &beside.display().to_string(), "main"]);
    let error = undo::undo(&record, project.root(), &Steps::default()).unwrap_err();
    assert!(error.to_string().contains("main, which is checked out in /"), "{error}");
}

#[test]
fn whatever_keeps_a_commit_that_was_undone_is_named() {
    for keep in [&["branch", "keep"][..], &["tag", "keep"], &["update-ref", "refs/remotes/keep", "HEAD"]] {
        let (project, record) = committed(project(&[]));
        git(project.root(), keep);
        let report = undo::undo(&record, project.root(), &Steps::default()).unwrap();
        assert!(report.warnings[0].starts_with("keep has the commit"), "{:?}", report.warnings);
        let (project, record) = committed(self::project(&[]));
        git(project.root(), keep);
        git(project.root(), &["reset", "-q", "--hard", "HEAD~1"]);
        let report = undo::undo(&record, project.root(), &Steps::default()).unwrap();
        assert!(report.warnings[0].starts_with("keep has the commit"), "{:?}", report.warnings);
    }
    for (keep, name) in [
        (&["update-ref", "refs/custom/keep", "HEAD"][..], "refs/custom/keep"),
        (&["stash", "-q"], "refs/stash"),
        (&["worktree", "add", "-q", "--detach", "../beside"], "the work tree /"),
    ] {
        let (project, record) = committed(project(&[]));
        let project = project.file("staged", "2\n");
        git(project.root(), keep);
        let report = undo::undo(&record, project.root(), &Steps::default()).unwrap();
        let is_named = report.warnings[0].starts_with(name) && report.warnings[0].contains(" has the commit ");
        assert!(is_named, "{:?}", report.warnings);
    }
}

#[test]
fn a_branch_that_is_moved_back_is_named_even_where_every_file_is_kept() {
    let project = project(&[]);
    let base = git(project.root(), &["rev-parse", "HEAD"]);
    let changes = project.changes(&[("a", Entry::file("2\n"))]);
    let record = run(&project, &changes, &Delivery::Commit(order())).unwrap().record.unwrap();
    let project = project.file("a", "by a person\n");
    let report = undo::undo(&record, project.root(), &Steps::default()).unwrap();
    assert_eq!((report.restored.len(), report.moved_back), (0, Some(format!("main is back at {base}"))));
    let (project, record) = first_commit();
    let report = undo::undo(&record, project.root(), &Steps::default()).unwrap();
    assert_eq!(report.moved_back.as_deref(), Some("main has no commit again"));
}

#[test]
fn a_killed_delivery_is_not_rolled_back_for_one_to_a_repository_within_it() {
    let attempt = |steps: &Steps| {
        let project = project(&[]).file(".git/info/exclude", "nested/\n").file("nested/a", "1\n");
        let repository = Repository::discover(project.root()).unwrap().unwrap();
        let site = Site { repository: Some(&repository), ..project.site() };
        let changes = project.changes(&[("a", Entry::file("2\n"))]);
        let _killed = on_head(&changes, &order(), &site, steps, &mut Delivered::default());
        project
    };
    let steps = Steps::default();
    attempt(&steps);
    let project = attempt(&Steps::killed_at(steps.taken() / 2));
    let nested = project.root().join("nested");
    git(&nested, &["init", "-q"]);
    assert_eq!(undo::recover(&project.undo(), &nested).unwrap(), []);
    assert_eq!(undo::recover(&project.undo(), &project.root().join("sub")).unwrap().len(), 1);
}
