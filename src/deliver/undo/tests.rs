use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use super::super::test_support::{Project, script};
use super::*;
use crate::change::{ChangeSet, Entry};
use crate::deliver::apply::apply;
use crate::deliver::{Site, records};

fn project() -> Project {
    Project::new().file("z", "1\n").file("gone/b", "1\n").file("c", "1\n")
}

fn changes(project: &Project) -> ChangeSet {
    project.changes(&[
        ("z", script("2\n")),
        ("gone/b", Entry::Absent),
        ("c", Entry::Absent),
        ("c/d", Entry::file("2\n")),
        ("new/e", Entry::file("2\n")),
        ("new/deep/er/f", Entry::file("2\n")),
    ])
}

#[test]
fn a_record_that_cannot_be_read_is_an_error_and_not_a_record_that_is_not_there() {
    let (project, record) = applied();
    let undo = record.parent().unwrap();
    assert_eq!(records(undo).unwrap().len(), 1);
    std::fs::remove_file(record.join("record.json")).unwrap();
    assert_eq!(records(undo).unwrap().len(), 0);
    // It leads to itself.
    std::os::unix::fs::symlink("record.json", record.join("record.json")).unwrap();
    let said = records(undo).unwrap_err().to_string();
    assert!(said.contains(&record.display().to_string()), "{said}");
    assert!(recover(undo, project.root()).is_err());
}

fn applied() -> (Project, PathBuf) {
    let project = project();
    let record = apply(&changes(&project), &project.site(), &Steps::default()).unwrap().record.unwrap();
    (project, record)
}

/// What is in the project, by relative paths.
fn names(project: &Project) -> Vec<(PathBuf, (u32, Entry))> {
    let relative = |path: PathBuf| path.strip_prefix(project.root()).unwrap().to_owned();
    project.files().into_iter().map(|(path, state)| (relative(path), state)).collect()
}

#[test]
fn a_rollback_killed_at_any_operation_is_finished_by_undoing() {
    let before = names(&project());
    let (mut failing, mut killed) = (0, 1);
    loop {
        let project = project();
        let steps = Steps::failing_then_killed_at(failing, killed);
        if apply(&changes(&project), &project.site(), &steps).is_ok() {
            break;
        }
        recover(&project.undo(), project.root()).unwrap();
        assert_eq!(names(&project), before, "failing at {failing}, killed at {killed}");
        let ended = steps.taken() <= killed;
        (failing, killed) = if ended { (failing + 1, failing + 2) } else { (failing, killed + 1) };
    }
    assert!(failing > 8, "{failing}");
}

#[test]
fn an_undo_killed_at_any_operation_is_finished_by_the_next() {
    let before = project();
    for number in 0.. {
        let (project, record) = applied();
        let killed = undo(&record, project.root(), &Steps::killed_at(number)).is_err();
        undo(&record, project.root(), &Steps::default()).unwrap();
        assert_eq!(names(&project), names(&before), "operation {number}");
        if !killed {
            assert!(number > 8);
            break;
        }
    }
}

#[test]
fn an_undo_killed_at_any_operation_is_finished_by_the_next_delivery() {
    let before = names(&project());
    for number in 0.. {
        let mut is_killed = false;
        for again in std::iter::once(None).chain((number % 2..20).step_by(2).map(Some)) {
            let (project, record) = applied();
            let after = names(&project);
            let killed = undo(&record, project.root(), &Steps::killed_at(number)).is_err();
            is_killed |= killed;
            if let Some(again) = again {
                let steps = if again % 2 == 0 { Steps::killed_at(again / 2) } else { Steps::failing_at(again / 2) };
                let ended = undo(&record, project.root(), &steps);
                if ended.is_ok_and(|report| !report.untidy.is_empty()) {
                    // It has said so, and the next one begins with that.
                    undo(&record, project.root(), &Steps::default()).unwrap();
                }
            }
            recover(&project.undo(), project.root()).unwrap();
            let now = names(&project);
            let what = format!("operation {number}, then {again:?}: {now:?}");
            assert!(now == before || killed && now == after, "{what}");
            let (_, saved) = Journal::open(&record).unwrap();
            assert_eq!(saved.state == State::Undone, now == before, "{what}");
        }
        if !is_killed {
            assert!(number > 8);
            break;
        }
    }
}

#[test]
fn an_undo_that_failed_and_changed_nothing_is_not_made_by_the_next_delivery() {
    for number in 0.. {
        let (project, record) = applied();
        let after = names(&project);
        let steps = Steps::failing_at(number);
        let failed = undo(&record, project.root(), &steps).is_err_and(|error| !error.half);
        if failed {
            assert_eq!(recover(&project.undo(), project.root()).unwrap(), [], "operation {number}");
            assert_eq!(names(&project), after, "operation {number}");
        }
        if steps.taken() <= number {
            break;
        }
    }
}

#[test]
fn what_was_deleted_comes_back_with_its_mode_and_that_of_its_directory() {
    let project = Project::new().file("private/deep/key", "1\n").file("locked/a", "1\n");
    let set = |path: &str, mode: u32| {
        std::fs::set_permissions(project.root().join(path), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let modes = || {
        let mode = |path: &str| project.root().join(path).metadata().unwrap().permissions().mode() & 0o7777;
        ["private", "private/deep", "private/deep/key", "locked", "locked/a"].map(mode)
    };
    for (path, mode) in [("private", 0o700), ("private/deep", 0o750), ("private/deep/key", 0o600), ("locked/a", 0o640)]
    {
        set(path, mode);
    }
    set("locked", 0o2770);
    let before = modes();
    let changes = project.changes(&[("private/deep/key", Entry::Absent), ("locked/a", Entry::Absent)]);
    let record = apply(&changes, &project.site(), &Steps::default()).unwrap().record.unwrap();
    undo(&record, project.root(), &Steps::default()).unwrap();
    assert_eq!(modes(), before);
    for number in 0.. {
        let run_id = format!("failing-{number}");
        let steps = Steps::failing_at(number);
        if apply(&changes, &Site { run_id: &run_id, ..project.site() }, &steps).is_ok() {
            assert!(number > 4);
            break;
        }
        assert_eq!(modes(), before, "operation {number}");
    }
}

#[test]
fn an_undo_of_which_any_operation_fails_changes_nothing_or_all() {
    let before = project();
    for number in 0.. {
        let (project, record) = applied();
        let after = names(&project);
        let steps = Steps::failing_at(number);
        match undo(&record, project.root(), &steps) {
            Err(error) if error.half => {
                // The record could not be closed: the tree is restored, and what was set aside is removed the next
                // time.
                undo(&record, project.root(), &Steps::default()).unwrap();
                assert_eq!(names(&project), names(&before), "operation {number}");
            }
            Err(_) => assert_eq!(names(&project), after, "operation {number}"),
            Ok(report) => {
                let again = undo(&record, project.root(), &Steps::default()).unwrap();
                assert!(again.untidy.is_empty(), "{:?}", again.untidy);
                assert_eq!(names(&project), names(&before), "operation {number}");
                if steps.taken() <= number {
                    assert!(number > 12 && report.untidy.is_empty());
                    break;
                }
            }
        }
    }
}

#[test]
fn a_record_of_another_folder_or_a_damaged_one_restores_nothing() {
    let (project, record) = applied();
    let elsewhere = tempfile::tempdir().unwrap();
    assert!(undo(&record, elsewhere.path(), &Steps::default()).is_err());
    for blob in std::fs::read_dir(record.join("blobs")).unwrap() {
        std::fs::write(blob.unwrap().path(), "damaged").unwrap();
    }
    assert!(undo(&record, project.root(), &Steps::default()).is_err());
    assert_eq!(std::fs::read(project.root().join("z")).unwrap(), b"2\n");
    std::fs::write(record.join("record.json"), "{\"version\": 9}").unwrap();
    assert!(undo(&record, project.root(), &Steps::default()).is_err());
}

#[test]
fn a_clock_that_goes_back_does_not_change_which_delivery_is_the_last() {
    let project = Project::new().file("a", "0");
    for (number, run_id) in ["r9", "r8", "r1"].into_iter().enumerate() {
        let changes = project.changes(&[("a", Entry::file(number.to_string() + "x"))]);
        apply(&changes, &Site { run_id, ..project.site() }, &Steps::default()).unwrap();
    }
    let order: Vec<String> = project.records().into_iter().map(|(_, record)| record.run_id).collect();
    assert_eq!(order, ["r1", "r8", "r9"]);
    journal::prune(&project.undo(), 2).unwrap();
    let left: Vec<String> = project.records().into_iter().map(|(_, record)| record.run_id).collect();
    assert_eq!(left, ["r1", "r8"]);
}

#[test]
fn a_delivery_that_ended_meanwhile_is_not_taken_back() {
    let (project, record) = applied();
    let after = names(&project);
    // Before it was locked, the record was a delivery in progress.
    let recovered = recover::recover_one(&record, project.root());
    assert_eq!((recovered.unwrap(), names(&project)), (None, after));
}

#[test]
fn old_records_go_and_the_newest_stay() {
    let project = Project::new().file("a", "0");
    for (number, run_id) in ["r1", "r2", "r3"].into_iter().enumerate() {
        let changes = project.changes(&[("a", Entry::file(number.to_string() + "x"))]);
        apply(&changes, &Site { run_id, ..project.site() }, &Steps::default()).unwrap();
    }
    journal::prune(&project.undo(), 1).unwrap();
    let left: Vec<String> = project.records().into_iter().map(|(_, record)| record.run_id).collect();
    assert_eq!(left, ["r3"]);
}

#[test]
fn whatever_is_in_the_place_of_a_file_that_the_run_made_or_removed_is_named_and_stays() {
    for (path, is_fifo) in ["new/e", "gone/b", "z"].into_iter().flat_map(|path| [(path, false), (path, true)]) {
        let (project, record) = applied();
        let at = project.root().join(path);
        let _gone = std::fs::remove_file(&at);
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        match is_fifo {
            true => assert!(std::process::Command::new("mkfifo").arg(&at).status().unwrap().success()),
            false => std::fs::create_dir(&at).unwrap(),
        }
        let report = undo(&record, project.root(), &Steps::default()).unwrap();
        assert_eq!(report.left_alone, [RelPath::new(path).unwrap()], "{report:?}");
        assert!(at.symlink_metadata().is_ok_and(|data| !data.is_file()), "{path}");
    }
}

#[test]
fn what_was_interrupted_is_named_with_its_files() {
    let mut said = BTreeSet::new();
    for (undoing, number) in (0..60).flat_map(|number| [(false, number), (true, number)]) {
        let project = Project::new().file("a", "1\n").file("b", "1\n");
        let changes = project.changes(&[("a", Entry::file("2\n")), ("b", Entry::Absent)]);
        let steps = Steps::killed_at(number);
        if undoing {
            let record = apply(&changes, &project.site(), &Steps::default()).unwrap().record.unwrap();
            let _killed = undo(&record, project.root(), &steps);
        } else {
            let _killed = apply(&changes, &project.site(), &steps);
        }
        said.extend(recover(&project.undo(), project.root()).unwrap().iter().map(Recovered::told));
    }
    let back = "`qwen undo run-1` takes it back";
    let (delivery, undo) = ("the delivery of run run-1 was interrupted", "the undo of run run-1 was interrupted");
    let wanted = [
        format!("{delivery} at its end: everything is delivered: a, b; {back}"),
        format!("{delivery}, and is rolled back"),
        format!("{delivery}, and is rolled back: a"),
        format!("{delivery}, and is rolled back: a, b"),
        format!("{undo}, and is finished"),
        format!("{undo}, and is finished: a, b"),
        format!("{undo}, and is finished: b"),
        format!("{undo}, and left as it is, because none of its temporary files is there: a, b; {back}"),
    ];
    assert_eq!(said.into_iter().collect::<Vec<_>>(), wanted);
}
