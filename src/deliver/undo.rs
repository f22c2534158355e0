//! Reverts what a run delivered, from its record.

mod plan;
mod recover;

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use rustix::fs::FileType;

use super::directories::{back_name, folders_between, has_below};
use super::journal::{self, Journal, Record, Saved, Shape, State};
use super::left_over::{clear_left_over, is_any_left, kept_aside, remove_left_over};
use super::outputs;
use super::references::{self, CommitUndone};
use crate::change::Entry;
use crate::git::Whole;
use crate::git::repository::Repository;
use crate::path::RelPath;
use crate::workspace::folder::{Folder, is_missing};
use crate::workspace::steps::Steps;
use plan::Plan;

pub(super) use recover::keep_committed;
pub use recover::{Recovered, recover};

/// The result of undoing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UndoReport {
    /// The run.
    pub run_id: String,
    /// Restored.
    pub restored: Vec<RelPath>,
    /// Changed since the run, and not touched.
    pub left_alone: Vec<RelPath>,
    /// Already as before.
    pub unchanged: Vec<RelPath>,
    /// Problems with undoing the commit, if one was made, and what stays.
    pub warnings: Vec<String>,
    /// The reference that was moved back with the commit, and to which one, for people.
    pub moved_back: Option<String>,
    /// The commit was not undone: somebody has built on it.
    pub commit_stays: bool,
    /// Files set aside, or made by the run, that could not be removed; the next attempt begins with them.
    pub untidy: Vec<String>,
    /// What somebody wrote to a file while it was replaced is kept under these names.
    pub set_aside: Vec<RelPath>,
}

impl UndoReport {
    /// Tells whether everything is as before the run, and nothing is left for people to do.
    pub fn is_whole(&self) -> bool {
        self.left_alone.is_empty() && self.untidy.is_empty() && self.set_aside.is_empty() && !self.commit_stays
    }

    /// Says where what somebody wrote meanwhile is kept.
    pub fn kept_aside(&self) -> impl Iterator<Item = String> {
        self.set_aside.iter().map(kept_aside)
    }
}

/// Why a record was not undone.
#[derive(Debug, thiserror::Error)]
#[error("{cause}")]
pub struct UndoError {
    /// What failed.
    #[source]
    pub cause: io::Error,
    /// Whether some files are restored and others not: the failure also prevented the rollback.
    pub half: bool,
}

impl From<io::Error> for UndoError {
    fn from(cause: io::Error) -> UndoError {
        UndoError { cause, half: false }
    }
}

/// Restores every file of a record that is still as the run left it; others are not touched, are named, and stay in the
/// record.
///
/// All or nothing: the old contents are written next to their targets first, then swapped in, and swapped back if one
/// of them fails. It may be killed and repeated at any point.
pub fn undo(folder: &Path, root: &Path, steps: &Steps) -> Result<UndoReport, UndoError> {
    let _whole = Whole::begin();
    let (tree, journal, mut record) = locked(folder, root)?;
    let others = leave_to_others(&mut record, &tree)?;
    if record.state == State::Begun
        && !record.undoing
        && let (Some(commit), Some(repository)) =
            (&record.commit, Repository::discover(root).map_err(io::Error::other)?)
        && !references::is_kept(commit, &repository)
    {
        // It was not made, or nothing has it any more.
        record.commit = None;
    }
    let mut report = undo_locked(root, &tree, &journal, &mut record, steps)?;
    report.left_alone.extend(others);
    Ok(report)
}

/// Finds what a delivery that was killed had not swapped yet, and which is nevertheless as it would have made it: somebody
/// else has written, or removed, that. The record no longer says that the delivery changed it.
fn leave_to_others(record: &mut Record, tree: &Folder) -> io::Result<Vec<RelPath>> {
    let mut others = Vec::new();
    let is_cleaned = record.swapping && !is_any_left(&record.temporary, tree)?;
    if record.state != State::Begun || record.undoing || is_cleaned {
        return Ok(others);
    }
    for (file, temporary) in record.files.iter_mut().zip(&record.temporary) {
        let (path, aside) = (journal::path(&file.path)?, journal::path(temporary)?);
        // What was there before is aside if it was swapped, and what comes as long as it was not.
        let now = |path: &RelPath| Ok::<_, io::Error>(Shape::of(&tree.entry_at(path)?));
        let is_swapped = || Ok::<_, io::Error>(record.swapping && now(&aside)? != file.after);
        if file.before != file.after && now(&path)? == file.after && !is_swapped()? {
            file.before = file.after.clone();
            others.push(path);
        }
    }
    Ok(others)
}

/// Opens a record that no other process delivers or undoes as long as the directory is open.
fn locked(folder: &Path, root: &Path) -> io::Result<(Folder, Journal, Record)> {
    let (_, record) = Journal::open(folder)?;
    let name = journal::quoted(std::os::unix::ffi::OsStrExt::as_bytes(root.as_os_str()));
    if record.root != name {
        return Err(io::Error::other(format!("the run was in {}, not in {name}", record.root)));
    }
    let tree = Folder::root(root)?;
    if !tree.lock() {
        let busy = format!("another run is delivering to {name}");
        return Err(io::Error::new(io::ErrorKind::WouldBlock, busy));
    }
    // Until it was locked, another process may have finished it.
    let (journal, record) = Journal::open(folder)?;
    Ok((tree, journal, record))
}

fn undo_locked(
    root: &Path,
    tree: &Folder,
    journal: &Journal,
    record: &mut Record,
    steps: &Steps,
) -> Result<UndoReport, UndoError> {
    let mut report = UndoReport { run_id: record.run_id.clone(), ..UndoReport::default() };
    if record.state == State::Undone {
        if record.undoing
            || !record.temporary.is_empty()
            || !record.folders_made.is_empty()
            || !record.outputs.is_empty()
        {
            clean_up(tree, journal, record, &mut report, steps);
        }
        return Ok(report);
    }
    if let Some(commit) = &record.commit {
        references::can_undo(commit, root)?;
    }
    restore(root, tree, journal, record, &mut report, steps).map_err(|error| {
        let texts = std::iter::once(error.cause.to_string()).chain(report.kept_aside());
        UndoError { cause: io::Error::new(error.cause.kind(), texts.collect::<Vec<_>>().join("; ")), ..error }
    })?;
    if report.left_alone.is_empty() {
        record.state = State::Undone;
    } else {
        (record.state, record.commit) = (State::Done, None);
    }
    if let Err(cause) = journal.write(record, steps) {
        // The tree is complete; only the record does not say so, and a repetition finds nothing to do.
        return Err(UndoError { cause, half: true });
    }
    clean_up(tree, journal, record, &mut report, steps);
    Ok(report)
}

/// Restores files, commit and ignored outputs, or none of them.
fn restore(
    root: &Path,
    tree: &Folder,
    journal: &Journal,
    record: &mut Record,
    report: &mut UndoReport,
    steps: &Steps,
) -> Result<(), UndoError> {
    outputs::take_out(record, tree, steps)?;
    let to_restore = to_restore(record, tree, report, steps)?;
    let mut plan = Plan::new(tree, record, to_restore, steps)?;
    let narrow = plan.narrow(record)?;
    begin(root, &plan, tree, journal, record, &mut report.set_aside, steps)?;
    record.narrow = narrow;
    let written = journal.write(record, steps).and_then(|()| plan.write_all(journal)).and_then(|()| {
        record.swapping = true;
        journal.write(record, steps)
    });
    if let Err(error) = written {
        return Err(given_up(&plan, journal, record, report, error));
    }
    match plan.swap(record) {
        Ok(left_alone) => report.left_alone.extend(left_alone),
        Err(error) => return Err(given_up(&plan, journal, record, report, error)),
    }
    let left_alone: BTreeSet<&RelPath> = report.left_alone.iter().collect();
    report.restored = plan.paths().filter(|path| !left_alone.contains(path)).cloned().collect();
    if let Some(commit) = &record.commit {
        match references::undo(commit, root, &record.run_id) {
            Ok(CommitUndone::Gone { moved, warnings }) => {
                report.moved_back = moved;
                report.warnings.extend(warnings);
            }
            Ok(CommitUndone::Stays(why)) => {
                report.warnings.push(why);
                // Where every file is as before, what was made on it has taken the change back already.
                report.commit_stays = report.unchanged.len() != record.files.len();
            }
            Err(error) => {
                let cause = io::Error::other(format!("cannot undo the commit {}: {error}", commit.new));
                return Err(given_up(&plan, journal, record, report, cause));
            }
        }
    }
    match outputs::bring_back(record, tree, steps) {
        Ok(warning) => report.warnings.extend(warning),
        Err(error) => return Err(given_up(&plan, journal, record, report, error)),
    }
    record.narrow.clear();
    Ok(())
}

/// Removes what an earlier attempt left, once the record says that undoing has begun.
fn begin(
    root: &Path,
    plan: &Plan<'_>,
    tree: &Folder,
    journal: &Journal,
    record: &mut Record,
    set_aside: &mut Vec<RelPath>,
    steps: &Steps,
) -> io::Result<()> {
    let (earlier, head) = (record.clone(), record.head.take());
    record.head = match std::mem::replace(&mut record.undoing, true) {
        true => head,
        false => Repository::discover(root).map_err(io::Error::other)?.and_then(|repository| repository.head),
    };
    let mut left = std::mem::replace(&mut record.temporary, plan.temporary());
    if !left.is_empty() {
        record.temporary.extend(left.iter().cloned());
        journal.write(record, steps)?;
        if let Some(stuck) = clear_left_over(&mut left, &earlier, tree, set_aside, steps).first() {
            let stuck = io::Error::other(format!("cannot remove {stuck}"));
            // What still is there is as it was.
            let _stays = journal.write(&earlier, steps);
            return Err(stuck);
        }
        record.temporary = plan.temporary();
    }
    record.swapping = false;
    Ok(())
}

fn given_up(
    plan: &Plan<'_>,
    journal: &Journal,
    record: &mut Record,
    report: &mut UndoReport,
    cause: io::Error,
) -> UndoError {
    UndoError { cause, half: !plan.give_up(journal, record, &mut report.set_aside) || plan.is_continued }
}

/// Returns the files that are as the run left them; notes the others in the report.
fn to_restore(
    record: &Record,
    tree: &Folder,
    report: &mut UndoReport,
    steps: &Steps,
) -> io::Result<Vec<(RelPath, Saved)>> {
    let mut found = Vec::new();
    let restorable = record.files.iter().filter(|file| file.before != Shape::Absent);
    let files: BTreeSet<RelPath> = restorable.map(|file| journal::path(&file.path)).collect::<io::Result<_>>()?;
    for saved in &record.files {
        let path = journal::path(&saved.path)?;
        // What a delivery wrote that was killed during its own rollback.
        if let Some(back) = path.parent().and_then(|folder| folder.child(back_name(&record.run_id))) {
            remove_left_over(tree, &back, steps)?;
        }
        let now = Shape::of(&tree.entry_at(&path)?);
        let is_other = match tree.kind_at(&path)? {
            None | Some(FileType::RegularFile | FileType::Symlink) => false,
            // One that the run made, or that was there before.
            Some(FileType::Directory) => saved.before == Shape::Absent && !has_below(&files, &path),
            Some(_) => true,
        };
        // Where a directory replaced a deleted file, it is removed first if the run made it.
        let is_ours =
            || Ok::<_, io::Error>(saved.before == Shape::Absent || now == Shape::Absent || !tree.has_folder(&path)?);
        if is_other {
            report.left_alone.push(path);
        } else if now == saved.before {
            report.unchanged.push(path);
        } else if now == saved.after && is_ours()? {
            found.push((path, saved.clone()));
        } else {
            report.left_alone.push(path);
        }
    }
    // Below a file that stays nothing can come back.
    let goes: BTreeSet<RelPath> =
        found.iter().filter(|(_, saved)| saved.before == Shape::Absent).map(|(path, _)| path.clone()).collect();
    let mut free = Vec::new();
    for (path, saved) in found {
        let mut folders = folders_between(&RelPath::root(), &path).into_iter().filter(|folder| !goes.contains(folder));
        let is_file = |folder: RelPath| Ok::<_, io::Error>(tree.entry_at(&folder)? != Entry::Absent);
        match saved.before != Shape::Absent
            && folders.try_fold(false, |is, folder| Ok::<_, io::Error>(is || is_file(folder)?))?
        {
            true => report.left_alone.push(path),
            false => free.push((path, saved)),
        }
    }
    Ok(free)
}

/// Removes what undoing has set aside, and the directories that the run made, innermost first, if they are empty.
///
/// What cannot be removed stays in the record for the next attempt.
fn clean_up(tree: &Folder, journal: &Journal, record: &mut Record, report: &mut UndoReport, steps: &Steps) {
    let mut temporary = std::mem::take(&mut record.temporary);
    let mut stuck = clear_left_over(&mut temporary, record, tree, &mut report.set_aside, steps);
    record.temporary = temporary;
    record.undoing = !record.temporary.is_empty();
    record.swapping = record.undoing;
    stuck.extend(outputs::tidy(record, tree, steps));
    let mut later = BTreeSet::new();
    if record.state == State::Done {
        // What was kept can be undone later, once it is again as the run left it.
        later = report.left_alone.iter().cloned().collect();
        record.files.retain(|file| journal::path(&file.path).is_ok_and(|path| later.contains(&path)));
    }
    let mut standing: Vec<String> = Vec::new();
    for folder in record.folders_made.iter().rev() {
        // A file that was kept may be undone later, and its directory with it.
        let path = journal::path(folder);
        if path.as_ref().is_ok_and(|path| has_below(&later, path)) {
            standing.insert(0, folder.clone());
            continue;
        }
        let removed = path.as_ref().map_err(|error| io::Error::other(error.to_string())).and_then(|path| {
            match tree.has_folder(path)? {
                true => tree.parent_of(path).and_then(|(parent, name)| parent.remove(name, steps)),
                false => Ok(()),
            }
        });
        let is_below = |inner: &String| match (journal::path(inner), &path) {
            (Ok(inner), Ok(path)) => inner.is_under(path),
            _ => false,
        };
        match removed {
            // Other files keep the directory, and it is no longer the run's.
            Err(error)
                if error.kind() == io::ErrorKind::DirectoryNotEmpty
                    && !standing.iter().chain(&record.temporary).any(is_below) => {}
            Err(error) if !is_missing(&error) => {
                stuck.push(format!("{folder}: {error}"));
                standing.insert(0, folder.clone());
            }
            _ => {}
        }
    }
    record.folders_made = standing;
    if let Err(error) = journal.write(record, steps) {
        stuck.push(format!("the record: {error}"));
    }
    report.untidy = stuck;
}

#[cfg(test)]
mod meanwhile_tests;
#[cfg(test)]
mod tests;
