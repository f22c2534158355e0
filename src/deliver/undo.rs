//! Taking back what a run delivered, from its record.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::apply::{back_name, restore};
use super::commit;
use super::folder::{Folder, is_missing};
use super::journal::{self, Journal, Record, Shape, State};
use super::steps::Steps;
use crate::path::RelPath;

/// What undoing did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UndoReport {
    /// The run.
    pub run_id: String,
    /// Put back.
    pub restored: Vec<RelPath>,
    /// Changed since the run, and left alone.
    pub left_alone: Vec<RelPath>,
    /// It was as before already.
    pub unchanged: Vec<RelPath>,
    /// What could not be done with the commit, if one was made.
    pub warnings: Vec<String>,
}

/// Returns the records in a folder, newest first by name. Names of runs are ordered by time (UUID version 7).
pub fn records(undo: &Path) -> io::Result<Vec<(PathBuf, Record)>> {
    let entries = match std::fs::read_dir(undo) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut records = Vec::new();
    for entry in entries {
        let folder = entry?.path();
        // Without its record nothing was begun: the record is there before the first write.
        if let Ok((_, record)) = Journal::open(&folder) {
            records.push((folder, record));
        }
    }
    records.sort_by(|(a, _), (b, _)| b.cmp(a));
    Ok(records)
}

/// Removes the oldest records but for this many; one that is half done stays.
pub fn prune(undo: &Path, keep: usize) -> io::Result<()> {
    for (folder, record) in records(undo)?.into_iter().skip(keep) {
        if record.state != State::Begun {
            std::fs::remove_dir_all(folder)?;
        }
    }
    Ok(())
}

/// Puts back what killed deliveries to this root left half done, before anything else is delivered there.
pub fn recover(undo: &Path, root: &Path) -> io::Result<Vec<UndoReport>> {
    let name = journal::quoted(std::os::unix::ffi::OsStrExt::as_bytes(root.as_os_str()));
    let mut reports = Vec::new();
    for (folder, record) in records(undo)? {
        if record.state == State::Begun && record.root == name {
            match self::undo(&folder, root, &Steps::default()) {
                Ok(report) => reports.push(report),
                // It is being delivered at this moment, by a live process.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(reports)
}

/// Puts back every file of a record that is still as the run left it; others are left alone and named.
///
/// It may be interrupted and repeated at any point.
pub fn undo(folder: &Path, root: &Path, steps: &Steps) -> io::Result<UndoReport> {
    let (journal, mut record) = Journal::open(folder)?;
    let name = journal::quoted(std::os::unix::ffi::OsStrExt::as_bytes(root.as_os_str()));
    if record.root != name {
        return Err(io::Error::other(format!("the run was in {}, not in {name}", record.root)));
    }
    let tree = Folder::root(root)?;
    if !tree.lock() {
        return Err(io::Error::new(io::ErrorKind::WouldBlock, format!("another run is delivering to {name}")));
    }
    let mut report = UndoReport { run_id: record.run_id.clone(), ..UndoReport::default() };
    if record.state == State::Undone {
        return Ok(report);
    }
    for temporary in &record.temporary {
        let path = journal::path(temporary)?;
        remove_left_over(&tree, &path, steps)?;
        // Where names cannot be swapped, a second name holds the old file for a moment.
        if let Some(second) = RelPath::from_bytes(&[path.as_bytes(), b"-old"].concat()) {
            remove_left_over(&tree, &second, steps)?;
        }
    }
    let mut files = Vec::new();
    for saved in &record.files {
        let path = journal::path(&saved.path)?;
        if let Some(back) = path.parent().and_then(|folder| folder.child(back_name(&record.run_id))) {
            remove_left_over(&tree, &back, steps)?;
        }
        let found = Shape::of(&tree.entry_at(&path)?);
        if found == saved.before {
            report.unchanged.push(path);
        } else if found == saved.after && !is_folder(&tree, &path)? {
            files.push((path, saved));
        } else if found == Shape::Absent && saved.after == Shape::Absent {
            // A folder took the deleted file's place; it goes first if it is ours.
            files.push((path, saved));
        } else {
            report.left_alone.push(path);
        }
    }
    // What was added goes first: it may stand where a folder was.
    files.sort_by_key(|(_, saved)| saved.before != Shape::Absent);
    let mut folders: Vec<&String> = record.folders_made.iter().collect();
    folders.reverse();
    let added = files.iter().take_while(|(_, saved)| saved.before == Shape::Absent).count();
    for (number, (path, saved)) in files.iter().enumerate() {
        if number == added {
            remove_empty(&tree, &folders, steps)?;
        }
        if is_folder(&tree, path)? {
            report.left_alone.push(path.clone());
            continue;
        }
        restore(&tree, path, &journal.entry(&saved.before)?, &record.run_id, steps)?;
        report.restored.push(path.clone());
    }
    remove_empty(&tree, &folders, steps)?;
    report.warnings.extend(record.commit.as_ref().and_then(|commit| commit::undo(commit, root)));
    record.state = State::Undone;
    record.temporary.clear();
    journal.write(&record, steps)?;
    Ok(report)
}

fn is_folder(tree: &Folder, path: &RelPath) -> io::Result<bool> {
    match tree.parent_of(path) {
        Ok((parent, name)) => {
            Ok(parent.stat(name)?.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory))
        }
        Err(error) if is_missing(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

fn remove_left_over(tree: &Folder, path: &RelPath, steps: &Steps) -> io::Result<()> {
    let removed = tree.parent_of(path).and_then(|(parent, name)| match parent.stat(name)? {
        Some(_) => parent.unlink(name, steps),
        None => Ok(()),
    });
    match removed {
        Err(error) if !is_missing(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Removes the folders that the run made, innermost first, as far as they are empty.
fn remove_empty(tree: &Folder, folders: &[&String], steps: &Steps) -> io::Result<()> {
    for folder in folders {
        let path = journal::path(folder)?;
        let removed = match is_folder(tree, &path)? {
            true => tree.parent_of(&path).and_then(|(parent, name)| parent.remove(name, steps)),
            false => Ok(()),
        };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty && !is_missing(&error) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{Project, script};
    use super::*;
    use crate::change::Entry;
    use crate::deliver::Site;
    use crate::deliver::apply::apply;

    fn applied() -> (Project, PathBuf) {
        let project = Project::new().file("z", "1\n").file("gone/b", "1\n").file("c", "1\n");
        let changes = project.changes(&[
            ("z", script("2\n")),
            ("gone/b", Entry::Absent),
            ("c", Entry::Absent),
            ("c/d", Entry::file("2\n")),
            ("new/e", Entry::file("2\n")),
        ]);
        let record = apply(&changes, &project.site(), &Steps::default()).unwrap().unwrap();
        (project, record)
    }

    #[test]
    fn an_undo_killed_at_any_operation_is_finished_by_the_next() {
        let before = Project::new().file("z", "1\n").file("gone/b", "1\n").file("c", "1\n");
        let names = |project: &Project| -> Vec<_> {
            let relative = |path: PathBuf| path.strip_prefix(project.root()).unwrap().to_owned();
            project.files().into_iter().map(|(path, state)| (relative(path), state)).collect()
        };
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
    fn old_records_go_and_the_newest_stay() {
        let project = Project::new().file("a", "0");
        for (number, run_id) in ["r1", "r2", "r3"].into_iter().enumerate() {
            let changes = project.changes(&[("a", Entry::file(number.to_string() + "x"))]);
            apply(&changes, &Site { run_id, ..project.site() }, &Steps::default()).unwrap();
        }
        prune(&project.undo(), 1).unwrap();
        let left: Vec<String> = project.records().into_iter().map(|(_, record)| record.run_id).collect();
        assert_eq!(left, ["r3"]);
    }
}
