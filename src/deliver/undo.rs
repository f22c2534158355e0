//! Reverts what a run delivered, from its record.

mod plan;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use super::directories::{back_name, folders_between};
use super::journal::{self, Journal, Record, Saved, Shape, State, records};
use super::left_over::{clear_left_over, remove_left_over};
use super::outputs;
use super::references::{self, CommitUndone};
use crate::change::Entry;
use crate::git::Whole;
use crate::git::repository::Repository;
use crate::path::RelPath;
use crate::workspace::folder::{Folder, is_missing};
use crate::workspace::steps::Steps;
use plan::Plan;

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
    /// The commit was not undone: somebody has built on it.
    pub commit_stays: bool,
    /// Files set aside, or made by the run, that could not be removed; the next attempt begins with them.
    pub untidy: Vec<String>,
    /// What somebody wrote in the middle of a delivery or undoing that was killed is kept under these names.
    pub set_aside: Vec<RelPath>,
}

impl UndoReport {
    /// Tells whether everything is as before the run, and nothing is left for people to do.
    pub fn is_whole(&self) -> bool {
        self.left_alone.is_empty() && self.untidy.is_empty() && self.set_aside.is_empty() && !self.commit_stays
    }

    /// Says where what somebody wrote meanwhile is kept.
    pub fn kept_aside(&self) -> impl Iterator<Item = String> {
        self.set_aside.iter().map(|path| format!("what was written while it was cut off is kept in {path}"))
    }
}

/// Rolls back what killed deliveries to this root left incomplete, or to directories above and below it, before anything
/// else is delivered there.
pub fn recover(undo: &Path, root: &Path) -> io::Result<Vec<UndoReport>> {
    let mut reports = Vec::new();
    for (folder, record) in records(undo)? {
        let Some(place) = journal::unquoted(&record.root).map(|place| PathBuf::from(OsString::from_vec(place))) else {
            continue;
        };
        let is_related = place == root
            || (place.starts_with(root) || root.starts_with(&place)) && place.is_dir() && is_in_one(&place, root);
        if record.state != State::Begun && !record.outputs.is_empty() && is_related {
            // What stays now is tried again by the next command.
            let _stays = remove_aside(&folder, &place);
        }
        // A delivery that was killed, or an undoing: that has not yet removed what it put aside.
        let is_cut_off = record.state == State::Begun || !record.temporary.is_empty();
        if is_cut_off && is_related {
            match undo_if(&folder, &place, &Steps::default(), |now| {
                now.state == State::Begun || !now.temporary.is_empty()
            }) {
                Ok(report) => reports.extend(report),
                // A live process is delivering it at this moment.
                Err(error) if error.cause.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    return Err(io::Error::new(error.cause.kind(), format!("{}: {error}", place.display())));
                }
            }
        }
    }
    Ok(reports)
}

/// Tells whether no repository begins between two directories: what is in one of its own is not touched with the other.
fn is_in_one(one: &Path, other: &Path) -> bool {
    let top = |path: &Path| Repository::discover(path).ok().map(|found| found.map(|repository| repository.top));
    top(one).is_some_and(|found| Some(found) == top(other))
}

/// Removes what was put aside by a delivery, or an undoing, that was killed at its very end.
fn remove_aside(folder: &Path, root: &Path) -> io::Result<()> {
    let _whole = Whole::begin();
    let tree = Folder::root(root)?;
    if !tree.lock() {
        return Ok(());
    }
    let (journal, mut record) = Journal::open(folder)?;
    if record.state != State::Begun {
        record.outputs_delivered = record.outputs_delivered.max(record.outputs.len());
        outputs::tidy(&mut record, &tree, &Steps::default());
        journal.write(&record, &Steps::default())?;
    }
    Ok(())
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
    Ok(undo_if(folder, root, steps, |_| true)?.unwrap_or_default())
}

/// As [`undo`], if the record is in this state once it is locked; `None` if it is not.
fn undo_if(
    folder: &Path,
    root: &Path,
    steps: &Steps,
    wanted: impl Fn(&Record) -> bool,
) -> Result<Option<UndoReport>, UndoError> {
    let _whole = Whole::begin();
    let (_, record) = Journal::open(folder)?;
    let name = journal::quoted(std::os::unix::ffi::OsStrExt::as_bytes(root.as_os_str()));
    if record.root != name {
        return Err(io::Error::other(format!("the run was in {}, not in {name}", record.root)).into());
    }
    let tree = Folder::root(root)?;
    if !tree.lock() {
        let busy = format!("another run is delivering to {name}");
        return Err(io::Error::new(io::ErrorKind::WouldBlock, busy).into());
    }
    // Until it was locked, another process may have finished it.
    let (journal, mut record) = Journal::open(folder)?;
    if !wanted(&record) {
        return Ok(None);
    }
    let mut report = UndoReport { run_id: record.run_id.clone(), ..UndoReport::default() };
    if record.state == State::Undone {
        if !record.temporary.is_empty() || !record.folders_made.is_empty() || !record.outputs.is_empty() {
            clean_up(&tree, &journal, &mut record, &mut report, steps);
        }
        return Ok(Some(report));
    }
    if let Some(commit) = &record.commit {
        references::can_undo(commit, root)?;
    }
    restore(root, &tree, &journal, &mut record, &mut report, steps).map_err(|error| {
        let texts = std::iter::once(error.cause.to_string()).chain(report.kept_aside());
        UndoError { cause: io::Error::new(error.cause.kind(), texts.collect::<Vec<_>>().join("; ")), ..error }
    })?;
    if report.left_alone.is_empty() {
        record.state = State::Undone;
    } else {
        // What was kept can be undone later, once it is again as the run left it.
        let is_kept = |path: &RelPath| report.left_alone.contains(path);
        record.files.retain(|file| journal::path(&file.path).is_ok_and(|path| is_kept(&path)));
        (record.state, record.commit) = (State::Done, None);
    }
    if let Err(cause) = journal.write(&record, steps) {
        // The tree is complete; only the record does not say so, and a repetition finds nothing to do.
        return Err(UndoError { cause, half: true });
    }
    clean_up(&tree, &journal, &mut record, &mut report, steps);
    Ok(Some(report))
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
    clear_left_over(record, tree, &mut report.set_aside, steps)?;
    let to_restore = to_restore(record, tree, report, steps)?;
    let mut plan = Plan::new(tree, record, to_restore, steps)?;
    record.temporary = plan.temporary();
    record.narrow = plan.narrow(record)?;
    record.swapping = false;
    let written = journal.write(record, steps).and_then(|()| plan.write_all(journal)).and_then(|()| {
        record.swapping = true;
        journal.write(record, steps)
    });
    if let Err(error) = written {
        return Err(given_up(&plan, journal, record, error));
    }
    match plan.swap(record) {
        Ok(left_alone) => report.left_alone.extend(left_alone),
        Err(error) => return Err(given_up(&plan, journal, record, error)),
    }
    report.restored = plan.paths().filter(|path| !report.left_alone.contains(path)).cloned().collect();
    if let Some(commit) = &record.commit {
        match references::undo(commit, root, &record.run_id) {
            Ok(CommitUndone::Gone(warnings)) => report.warnings.extend(warnings),
            Ok(CommitUndone::Stays(why)) => {
                report.warnings.push(why);
                // Where every file is as before, what was made on it has taken the change back already.
                report.commit_stays = report.unchanged.len() != record.files.len();
            }
            Err(error) => {
                let cause = io::Error::other(format!("cannot undo the commit {}: {error}", commit.new));
                return Err(given_up(&plan, journal, record, cause));
            }
        }
    }
    match outputs::bring_back(record, tree, steps) {
        Ok(warning) => report.warnings.extend(warning),
        Err(error) => return Err(given_up(&plan, journal, record, error)),
    }
    record.swapping = false;
    record.narrow.clear();
    Ok(())
}

fn given_up(plan: &Plan<'_>, journal: &Journal, record: &mut Record, cause: io::Error) -> UndoError {
    UndoError { cause, half: !plan.give_up(journal, record) }
}

/// Returns the files that are as the run left them; notes the others in the report.
fn to_restore(
    record: &Record,
    tree: &Folder,
    report: &mut UndoReport,
    steps: &Steps,
) -> io::Result<Vec<(RelPath, Saved)>> {
    let mut found = Vec::new();
    for saved in &record.files {
        let path = journal::path(&saved.path)?;
        // What a delivery wrote that was killed during its own rollback.
        if let Some(back) = path.parent().and_then(|folder| folder.child(back_name(&record.run_id))) {
            remove_left_over(tree, &back, steps)?;
        }
        let now = Shape::of(&tree.entry_at(&path)?);
        // Where a directory replaced a deleted file, it is removed first if the run made it.
        let is_ours =
            || Ok::<_, io::Error>(saved.before == Shape::Absent || now == Shape::Absent || !tree.has_folder(&path)?);
        if now == saved.before {
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
    let mut stuck: Vec<String> = Vec::new();
    record.temporary.retain(|temporary| {
        let removed = journal::path(temporary).and_then(|path| remove_left_over(tree, &path, steps));
        removed.inspect_err(|error| stuck.push(format!("{temporary}: {error}"))).is_err()
    });
    stuck.extend(outputs::tidy(record, tree, steps));
    let mut standing: Vec<String> = Vec::new();
    for folder in record.folders_made.iter().rev() {
        // A file that was kept may be undone later, and its directory with it.
        let path = journal::path(folder);
        let is_below = |file: &Saved| match (journal::path(&file.path), &path) {
            (Ok(file), Ok(folder)) => file.is_under(folder),
            _ => false,
        };
        if record.state == State::Done && record.files.iter().any(is_below) {
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
