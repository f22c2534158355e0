//! Tests that nothing is taken back that somebody has kept since a delivery, or an undoing, was killed.

use std::collections::BTreeSet;

use super::*;
use crate::deliver::journal::State;

/// What is killed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Killed {
    Apply,
    Commit,
    UndoOfApply,
    UndoOfCommit,
}

const ALL: [Killed; 4] = [Killed::Apply, Killed::Commit, Killed::UndoOfApply, Killed::UndoOfCommit];

fn small() -> Project {
    let project = Project::new().file("a", "1\n").file("b", "1\n").file("gone", "1\n");
    git(project.root(), &["init", "-q"]);
    commit_all(project.root(), "by a person");
    project
}

fn small_changes(project: &Project) -> ChangeSet {
    let after = |content: &str| Entry::file(content);
    project.changes(&[("a", after("2\n")), ("b", after("2\n")), ("gone", Entry::Absent), ("new", after("2\n"))])
}

fn act(project: &Project, killed: Killed, steps: &Steps) {
    let repository = Repository::discover(project.root()).unwrap().unwrap();
    let site = Site { repository: Some(&repository), ..project.site() };
    let changes = small_changes(project);
    let deliver = |is_commit: bool, steps: &Steps| match is_commit {
        true => on_head(&changes, &order(), &site, steps, &mut Delivered::default()).is_ok(),
        false => apply::apply(&changes, &site, steps).is_ok(),
    };
    match killed {
        Killed::Apply | Killed::Commit => drop(deliver(killed == Killed::Commit, steps)),
        Killed::UndoOfApply | Killed::UndoOfCommit => {
            assert!(deliver(killed == Killed::UndoOfCommit, &Steps::default()));
            let _killed = undo::undo(&project.records()[0].0, project.root(), steps);
        }
    }
}

/// Projects in each of which it was killed at another operation, with its number.
fn killed_at_each(killed: Killed) -> impl Iterator<Item = (usize, Project)> {
    let all = Steps::default();
    act(&small(), killed, &all);
    (0..all.taken()).map(move |number| {
        let project = small();
        act(&project, killed, &Steps::killed_at(number));
        (number, project)
    })
}

fn remove_temporary(project: &Project) {
    project.leftovers().iter().for_each(|path| std::fs::remove_file(project.root().join(path)).unwrap());
}

fn by_hand(root: &Path) {
    ["a", "b", "new"].iter().for_each(|name| std::fs::write(root.join(name), "2\n").unwrap());
    let _gone = std::fs::remove_file(root.join("gone"));
}

type Person = (&'static str, fn(&Project));

/// What somebody does before the next command.
const PEOPLE: [Person; 5] = [
    ("cleans, makes the change and commits it", |project| {
        git(project.root(), &["reset", "-q", "--hard"]);
        git(project.root(), &["clean", "-qfd"]);
        by_hand(project.root());
        commit_all(project.root(), "by a person");
    }),
    ("cleans and makes the change", |project| {
        git(project.root(), &["reset", "-q", "--hard"]);
        git(project.root(), &["clean", "-qfd"]);
        by_hand(project.root());
    }),
    ("commits what is there", |project| {
        remove_temporary(project);
        commit_all(project.root(), "by a person");
    }),
    ("commits what is tracked, beside what the process left", |project| {
        by_hand(project.root());
        git(project.root(), &["add", "a", "b", "new"]);
        git(project.root(), &["commit", "-q", "--allow-empty", "-a", "-m", "by a person"]);
    }),
    ("clones a repository that has the change", |project| {
        let (root, fresh) = (project.root(), project.folder().join("fresh"));
        std::fs::create_dir(&fresh).unwrap();
        git(&fresh, &["init", "-q"]);
        by_hand(&fresh);
        commit_all(&fresh, "by a person");
        std::fs::remove_dir_all(root).unwrap();
        std::fs::rename(&fresh, root).unwrap();
    }),
];

/// Everything that a person has: files, index and commits.
fn kept(project: &Project) -> impl PartialEq + std::fmt::Debug {
    let ours = project.leftovers();
    let files = project.files().into_iter().filter(|(path, _)| !path.starts_with(project.root().join(".git")));
    let files: Vec<_> =
        files.filter(|(path, _)| !ours.contains(path)).map(|(path, (_, entry))| (path, entry)).collect();
    (files, git(project.root(), &["rev-parse", "HEAD"]), git(project.root(), &["ls-files", "-s"]))
}

#[test]
fn what_somebody_has_kept_since_a_kill_is_never_taken_back() {
    let all = ALL.into_iter().flat_map(|killed| PEOPLE.map(|person| (killed, person)));
    for (first, (killed, (what, person))) in all.enumerate() {
        let steps = Steps::default();
        act(&small(), killed, &steps);
        // Each of them comes at other moments.
        for number in (first % 4..steps.taken() + 2).step_by(4) {
            let project = small();
            act(&project, killed, &Steps::killed_at(number));
            person(&project);
            let before = kept(&project);
            let said: Vec<String> = recovered(&project);
            assert_eq!(kept(&project), before, "{killed:?} at {number}, then somebody {what}: {said:?}");
            assert_eq!(recovered(&project), Vec::<String>::new(), "{killed:?} at {number}, then somebody {what}");
            assert!(project.leftovers().is_empty(), "{killed:?} at {number}, then somebody {what}");
            assert!(project.records().iter().all(|(_, record)| record.state != State::Begun));
        }
    }
}

#[test]
fn a_delivery_killed_after_its_commit_is_finished_and_the_commit_is_named() {
    let mut said = Vec::new();
    for (number, project) in killed_at_each(Killed::Commit) {
        let head = git(project.root(), &["rev-parse", "HEAD"]);
        for told in recovered(&project).into_iter().filter(|told| told.contains(&head)) {
            assert_eq!(git(project.root(), &["status", "--porcelain"]), "", "operation {number}");
            assert_eq!(
                told,
                format!(
                    "the delivery of run run-1 was interrupted; its commit {head} is kept; `qwen undo run-1` takes it back"
                )
            );
            said.push(number);
            undo::undo(&project.records()[0].0, project.root(), &Steps::default()).unwrap();
            assert_eq!(git(project.root(), &["rev-list", "--count", "HEAD"]), "1");
            assert_eq!(git(project.root(), &["status", "--porcelain"]), "");
        }
    }
    assert!(!said.is_empty());
}

#[test]
fn files_that_were_kept_since_a_kill_are_named() {
    let mut said = Vec::new();
    for (_, project) in killed_at_each(Killed::Apply) {
        remove_temporary(&project);
        commit_all(project.root(), "by a person");
        said.extend(recovered(&project));
    }
    let wanted = "the delivery of run run-1 was interrupted, and left as it is, because none of its temporary files is \
        there: a, b; `qwen undo run-1` takes it back";
    assert!(said.iter().any(|told| told == wanted), "{said:#?}");
}

#[test]
fn what_a_killed_delivery_had_not_swapped_and_somebody_has_made_since_stays_and_is_named() {
    let mut named = BTreeSet::new();
    for killed in [Killed::Apply, Killed::Commit] {
        for (number, project) in killed_at_each(killed) {
            let state = |name: &str| std::fs::read(project.root().join(name)).ok();
            let before = ["a", "b", "gone", "new"].map(state);
            let was = small();
            let was = ["a", "b", "gone", "new"].map(|name| std::fs::read(was.root().join(name)).ok());
            by_hand(project.root());
            let made = ["a", "b", "gone", "new"].map(state);
            let said = recovered(&project);
            for (file, name) in ["a", "b", "gone", "new"].into_iter().enumerate() {
                if before[file] == was[file] {
                    assert_eq!(state(name), made[file], "{name}, {killed:?} at {number}: {said:?}");
                    named.extend(said.iter().filter(|told| told.contains(name)).map(|_| name));
                }
            }
            assert!(project.leftovers().is_empty(), "{killed:?} at {number}: {said:?}");
            assert_eq!(recovered(&project), Vec::<String>::new(), "{killed:?} at {number}");
            // It is not the run's later, either.
            let now = kept(&project);
            if before == was && !project.records().is_empty() {
                undo::undo(&project.records()[0].0, project.root(), &Steps::default()).unwrap();
                assert_eq!(kept(&project), now, "{killed:?} at {number}");
            }
        }
    }
    assert_eq!(named.into_iter().collect::<Vec<_>>(), ["a", "b", "gone", "new"]);
}

/// Commits two new files, up to a kill.
fn two_new_files(project: &Project, steps: &Steps) -> bool {
    let repository = Repository::discover(project.root()).unwrap().unwrap();
    let site = Site { repository: Some(&repository), ..project.site() };
    let changes = project.changes(&[("new", Entry::file("2\n")), ("in/new", Entry::file("2\n"))]);
    on_head(&changes, &order(), &site, steps, &mut Delivered::default()).is_ok()
}

#[test]
fn a_commit_of_new_files_that_was_killed_before_it_is_rolled_back() {
    let mut left = 0;
    for number in 0.. {
        let project = small();
        let done = two_new_files(&project, &Steps::killed_at(number));
        let said = recovered(&project);
        let is_there = project.root().join("new").exists() || project.root().join("in").exists();
        let commits = git(project.root(), &["rev-list", "--count", "HEAD"]);
        if said.iter().any(|told| told.contains("none of its temporary files is there")) {
            // Between the last rename and its record somebody may have put the files there.
            left += 1;
            continue;
        }
        assert_eq!(
            (is_there, git(project.root(), &["status", "--porcelain"])),
            (commits == "2", String::new()),
            "{said:?}"
        );
        if done {
            break;
        }
    }
    assert!(left < 6, "{left}");
}

#[test]
fn new_files_that_somebody_has_put_there_by_hand_since_a_kill_stay() {
    for number in 0.. {
        let project = small();
        let done = two_new_files(&project, &Steps::killed_at(number));
        let at = |name: &str| project.root().join(name);
        if !(at("new").exists() && at("in/new").exists()) {
            project.leftovers().iter().for_each(|path| std::fs::remove_file(project.root().join(path)).unwrap());
            std::fs::create_dir_all(at("in")).unwrap();
            ["new", "in/new"].iter().for_each(|name| std::fs::write(at(name), "2\n").unwrap());
            let said = recovered(&project);
            assert!(at("new").exists() && at("in/new").exists(), "operation {number}: {said:?}");
        }
        if done {
            break;
        }
    }
}

#[test]
fn what_was_committed_through_a_filter_since_a_kill_stays() {
    let prepared = || {
        let project = Project::new().file("a", "1\n").file("b", "1\n").file(".gitattributes", "[ab] filter=u\n");
        git(project.root(), &["init", "-q"]);
        git(project.root(), &["config", "filter.u.clean", "sed s/2/two/"]);
        commit_all(project.root(), "by a person");
        project
    };
    for number in 0.. {
        let project = prepared();
        let repository = Repository::discover(project.root()).unwrap().unwrap();
        let site = Site { repository: Some(&repository), ..project.site() };
        let changes = project.changes(&[("a", Entry::file("2\n")), ("b", Entry::file("2\n"))]);
        let done = apply::apply(&changes, &site, &Steps::killed_at(number)).is_ok();
        git(project.root(), &["commit", "-q", "--allow-empty", "-a", "-m", "by a person"]);
        let before = kept(&project);
        let said = recovered(&project);
        assert_eq!(kept(&project), before, "operation {number}: {said:?}");
        if done {
            break;
        }
    }
}

#[test]
fn what_somebody_commits_while_a_delivery_is_at_work_is_not_rolled_back() {
    let all = Steps::default();
    act(&small(), Killed::Commit, &all);
    let mut kept = 0;
    for number in all.taken() - 8..all.taken() {
        let project = small();
        let repository = Repository::discover(project.root()).unwrap().unwrap();
        let site = Site { repository: Some(&repository), ..project.site() };
        let root = project.root().to_path_buf();
        let steps = Steps::default().meanwhile(number, move || {
            git(&root, &["commit", "-q", "--allow-empty", "-a", "-m", "by a person"]);
        });
        let delivered = on_head(&small_changes(&project), &order(), &site, &steps, &mut Delivered::default());
        let Err(error) = delivered else { continue };
        let said = error.to_string();
        assert_eq!(git(project.root(), &["diff", "HEAD"]), "", "operation {number}: {said}");
        kept += usize::from(said.contains("HEAD has moved") && said.contains("committed since"));
        assert!(project.leftovers().is_empty() && recovered(&project).is_empty(), "operation {number}: {said}");
    }
    assert!(kept > 0);
}

fn recovered(project: &Project) -> Vec<String> {
    undo::recover(&project.undo(), project.root()).unwrap().iter().map(undo::Recovered::told).collect()
}
