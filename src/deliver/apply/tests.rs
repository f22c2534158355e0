//! Checks that a delivery writes all of a change or none of it, under faults at every step.

use std::os::unix::fs::PermissionsExt as _;

use super::super::test_support::{Project, link, script};
use super::*;
use crate::change::arbitrary::{self, Files, files, read, write};
use crate::deliver::undo;

/// Every kind of change, including a file that becomes a directory and a directory that becomes a file.
fn project() -> (Project, ChangeSet) {
    let project = Project::new()
        .file("kept", "kept\n")
        .file("changed", "old\n")
        .file("gone/only", "1\n")
        .file("deep/gone/x", "1\n")
        .file("deep/kept", "1\n")
        .file("file-to-folder", "1\n")
        .file("folder-to-file/x", "1\n")
        .file("file-to-link", "1\n")
        .file("mode", "1\n");
    let private = std::fs::Permissions::from_mode(0o750);
    std::fs::set_permissions(project.root().join("deep/gone"), private).unwrap();
    let changes = project.changes(&[
        ("changed", Entry::file("new\n")),
        ("gone/only", Entry::Absent),
        ("deep/gone/x", Entry::Absent),
        ("file-to-folder", Entry::Absent),
        ("file-to-folder/a/b", Entry::file("2\n")),
        ("folder-to-file/x", Entry::Absent),
        ("folder-to-file", Entry::file("2\n")),
        ("file-to-link", link("kept")),
        ("mode", script("1\n")),
        ("new/folder/file", Entry::file("")),
        ("new/folder/script", script("x\n")),
    ]);
    (project, changes)
}

#[test]
fn every_change_is_in_the_tree_and_undo_puts_all_of_it_back() {
    let (project, changes) = project();
    let before = project.tree();
    let record = apply(&changes, &project.site(), &Steps::default()).unwrap().record.unwrap();
    for (path, change) in changes.iter() {
        assert_eq!(project.entry(path), change.after, "{path}");
    }
    assert!(!project.root().join("gone").exists());
    assert!(project.leftovers().is_empty(), "{:?}", project.leftovers());
    let report = undo(&record, project.root(), &Steps::default()).unwrap();
    assert_eq!(report.restored.len(), changes.len());
    assert_eq!(project.files(), Project::only_files(before));
}

#[test]
fn whatever_operation_fails_the_tree_is_as_before_and_nothing_is_left_over() {
    let count = {
        let (project, changes) = project();
        let steps = Steps::default();
        apply(&changes, &project.site(), &steps).unwrap();
        steps.taken()
    };
    let mut whole = 0;
    assert!(count > 30);
    // The disk is full, write permission was removed, a directory has vanished.
    for kind in [io::ErrorKind::StorageFull, io::ErrorKind::PermissionDenied, io::ErrorKind::NotFound] {
        for number in 0..count {
            let (project, changes) = project();
            let before = project.tree();
            match apply(&changes, &project.site(), &Steps::failing_with(number, kind)) {
                Err(error) => {
                    assert_eq!(error.exit(), crate::exit::Exit::Conflict);
                    assert_eq!(project.tree(), before, "operation {number}, {kind}: {error}");
                    assert!(project.records().is_empty(), "operation {number}, {kind}");
                }
                // All is there, and what could not be removed is named until it can be.
                Ok(finished) => {
                    let is_gone = kind == io::ErrorKind::NotFound;
                    let is_named = finished.warnings.iter().any(|warning| warning.contains("cannot remove"));
                    assert!(
                        is_named || is_gone || project.leftovers().is_empty(),
                        "operation {number}, {kind}: {finished:?}"
                    );
                    whole += 1;
                    undo::recover(&project.undo(), project.root()).unwrap();
                    assert!(is_gone || project.leftovers().is_empty(), "operation {number}, {kind}");
                    for (path, change) in changes.iter() {
                        assert_eq!(project.entry(path), change.after, "{path}, operation {number}, {kind}");
                    }
                }
            }
        }
    }
    assert!(whole > 20, "{whole}");
}

#[test]
fn a_kill_at_any_operation_is_put_right_by_undo() {
    for number in 0.. {
        let (project, changes) = project();
        let before = project.tree();
        let steps = Steps::killed_at(number);
        if let Err(error) = apply(&changes, &project.site(), &steps) {
            let said = error.to_string();
            let stuck = said.split_once("rolling back failed: ").map_or("", |(_, stuck)| stuck);
            assert!(!stuck.split("; ").any(|stuck| stuck.starts_with("made to fail")), "it names each file: {said}");
        }
        // Undoing may be killed as well, and is then repeated.
        for (folder, _) in project.records() {
            let _ = undo(&folder, project.root(), &Steps::killed_at(number % 7));
        }
        undo::recover(&project.undo(), project.root()).unwrap();
        for (folder, _) in project.records() {
            undo(&folder, project.root(), &Steps::default()).unwrap();
        }
        assert_eq!(project.files(), Project::only_files(before), "operation {number}");
        if steps.taken() <= number {
            break;
        }
    }
}

#[test]
fn a_file_that_has_changed_since_is_a_conflict_and_nothing_is_written() {
    for (path, content) in [("changed", "by another\n"), ("new/folder/file", "there now"), ("new", "a file")] {
        let (project, changes) = project();
        let project = project.file(path, content);
        let before = project.tree();
        let error = apply(&changes, &project.site(), &Steps::default()).unwrap_err();
        assert!(matches!(error, DeliverError::Conflict { .. }), "{error:?}");
        assert!(error.to_string().contains(path), "{error}");
        assert_eq!(project.tree(), before);
    }
}

#[test]
fn a_link_in_the_way_is_never_followed() {
    let (project, changes) = project();
    let outside = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), project.root().join("new")).unwrap();
    assert!(apply(&changes, &project.site(), &Steps::default()).is_err());
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[test]
fn two_deliveries_at_once_are_a_conflict_for_the_second() {
    let (project, changes) = project();
    let (first, second) = (project.site(), Site { run_id: "second", ..project.site() });
    let (steps, other) = (Steps::default(), Steps::default());
    let applied = Applied::begin(&changes, &first, None, &steps).unwrap();
    assert!(matches!(apply(&changes, &second, &other), Err(DeliverError::Conflict { .. })));
    applied.finish().unwrap();
    assert!(matches!(apply(&changes, &second, &other), Err(DeliverError::Conflict { .. })));
}

#[test]
fn the_mode_of_a_file_is_kept_but_for_the_bit_that_changes() {
    let project = Project::new().file("private", "1\n").file("script", "1\n");
    let mode = |name: &str| std::fs::metadata(project.root().join(name)).unwrap().permissions().mode() & 0o7777;
    for name in ["private", "script"] {
        std::fs::set_permissions(project.root().join(name), std::fs::Permissions::from_mode(0o640)).unwrap();
    }
    let changes = project.changes(&[("private", Entry::file("2\n")), ("script", script("2\n"))]);
    apply(&changes, &project.site(), &Steps::default()).unwrap();
    assert_eq!((mode("private"), mode("script")), (0o640, 0o750));
}

#[test]
fn undo_leaves_alone_what_has_changed_since_and_names_it() {
    let (project, changes) = project();
    let record = apply(&changes, &project.site(), &Steps::default()).unwrap().record.unwrap();
    let project = project.file("changed", "by a person\n");
    let report = undo(&record, project.root(), &Steps::default()).unwrap();
    assert_eq!(report.left_alone, [RelPath::new("changed").unwrap()]);
    assert_eq!(report.restored.len(), changes.len() - 1);
    assert_eq!(std::fs::read(project.root().join("changed")).unwrap(), b"by a person\n");
}

#[test]
fn a_root_that_is_gone_is_an_error_and_no_panic() {
    let (project, changes) = project();
    std::fs::remove_dir_all(project.root()).unwrap();
    assert!(matches!(apply(&changes, &project.site(), &Steps::default()), Err(DeliverError::Io { .. })));
}

proptest::proptest! {
    #![proptest_config(crate::properties::tried(48))]
    #[test]
    fn any_tree_becomes_any_other_and_is_put_back(before in files(), after in files()) {
        let project = Project::new();
        write(project.root(), &before);
        let changes = arbitrary::changes(&before, &after);
        let record = apply(&changes, &project.site(), &Steps::default()).unwrap();
        let mut found = Files::new();
        read(project.root(), &RelPath::root(), &mut found);
        proptest::prop_assert_eq!(found, after);
        if let Some(record) = record.record {
            undo(&record, project.root(), &Steps::default()).unwrap();
        }
        let mut found = Files::new();
        read(project.root(), &RelPath::root(), &mut found);
        proptest::prop_assert_eq!(found, before);
    }
}
