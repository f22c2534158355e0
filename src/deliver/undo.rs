//! Reverts what a run delivered, from its record.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use rustix::fs::FileType;

use super::directories::{back_name, make_folders};
use super::journal::{self, Journal, Record, Saved, Shape, State, records};
use super::outputs;
use super::references::{self, CommitUndone};
use crate::change::Entry;
use crate::git::Whole;
use crate::path::RelPath;
use crate::workspace::folder::{Folder, Like, is_missing};
use crate::workspace::steps::Steps;

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
}

/// Rolls back what killed deliveries to this root left incomplete, before anything else is delivered there.
pub fn recover(undo: &Path, root: &Path) -> io::Result<Vec<UndoReport>> {
    let name = journal::quoted(std::os::unix::ffi::OsStrExt::as_bytes(root.as_os_str()));
    let mut reports = Vec::new();
    for (folder, record) in records(undo)? {
        if record.state != State::Begun && !record.outputs.is_empty() && record.root == name {
            // What stays now is tried again by the next command.
            let _stays = remove_aside(&folder, root);
        }
        // A delivery that was killed, or an undoing: that has not yet removed what it put aside.
        let is_cut_off = record.state == State::Begun || !record.temporary.is_empty();
        if is_cut_off && record.root == name {
            match undo_if(&folder, root, &Steps::default(), |now| {
                now.state == State::Begun || !now.temporary.is_empty()
            }) {
                Ok(report) => reports.extend(report),
                // A live process is delivering it at this moment.
                Err(error) if error.cause.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.cause),
            }
        }
    }
    Ok(reports)
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
    restore(root, &tree, &journal, &mut record, &mut report, steps)?;
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
    for temporary in &record.temporary {
        remove_left_over(tree, &journal::path(temporary)?, steps)?;
    }
    let made: BTreeSet<RelPath> =
        record.folders_made.iter().map(|folder| journal::path(folder)).collect::<io::Result<_>>()?;
    let (run_id, modes) = (record.run_id.clone(), record.modes.clone());
    let mut plan = Plan { tree, run_id: &run_id, made: &made, modes: &modes, names: 0, steps, done: Vec::new() };
    let (mut restored, mut added) = (Vec::new(), Vec::new());
    for (path, before) in to_restore(record, tree, report, steps)? {
        let temporary = plan.beside(&path)?;
        match before {
            Shape::Absent => added.push((temporary, path)),
            Shape::File { .. } | Shape::Link { .. } => restored.push((temporary, path, before)),
        }
    }
    let temporary =
        restored.iter().map(|(temporary, ..)| temporary).chain(added.iter().map(|(temporary, _)| temporary));
    record.temporary = temporary.map(|path| journal::quoted(path.as_bytes())).collect();
    let written = journal.write(record, steps).and_then(|()| {
        restored.iter().try_for_each(|(temporary, path, before)| plan.write(temporary, path, &journal.entry(before)?))
    });
    if let Err(error) = written {
        return Err(plan.give_up(journal, record, error));
    }
    match plan.swap(&restored, &added) {
        Ok(left_alone) => report.left_alone.extend(left_alone),
        Err(error) => return Err(plan.give_up(journal, record, error)),
    }
    let put_back = restored.into_iter().map(|(_, path, _)| path).chain(added.into_iter().map(|(_, path)| path));
    report.restored = put_back.filter(|path| !report.left_alone.contains(path)).collect();
    if let Some(commit) = &record.commit {
        match references::undo(commit, root, &record.run_id) {
            Ok(CommitUndone::Gone(warning)) => report.warnings.extend(warning),
            Ok(CommitUndone::Stays(why)) => {
                report.warnings.push(why);
                // Where every file is as before, what was made on it has taken the change back already.
                report.commit_stays = report.unchanged.len() != record.files.len();
            }
            Err(error) => {
                let cause = io::Error::other(format!("cannot undo the commit {}: {error}", commit.new));
                return Err(plan.give_up(journal, record, cause));
            }
        }
    }
    match outputs::bring_back(record, tree, steps) {
        Ok(warning) => report.warnings.extend(warning),
        Err(error) => return Err(plan.give_up(journal, record, error)),
    }
    Ok(())
}

/// Returns the files that are as the run left them, with what was there before; notes the others in the report.
fn to_restore(
    record: &Record,
    tree: &Folder,
    report: &mut UndoReport,
    steps: &Steps,
) -> io::Result<Vec<(RelPath, Shape)>> {
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
            || Ok::<_, io::Error>(saved.before == Shape::Absent || now == Shape::Absent || !is_folder(tree, &path)?);
        if now == saved.before {
            report.unchanged.push(path);
        } else if now == saved.after && is_ours()? {
            found.push((path, saved.before.clone()));
        } else {
            report.left_alone.push(path);
        }
    }
    Ok(found)
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
            match is_folder(tree, path)? {
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
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty && !standing.iter().any(is_below) => {}
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

/// Restores a record's files, and remembers what was done so far.
struct Plan<'a> {
    tree: &'a Folder,
    run_id: &'a str,
    /// The directories that the run made.
    made: &'a BTreeSet<RelPath>,
    /// Those of the record.
    modes: &'a BTreeMap<String, u32>,
    names: usize,
    steps: &'a Steps,
    done: Vec<Done>,
}

/// One change to the tree.
enum Done {
    /// Two names were swapped.
    Exchanged(RelPath, RelPath),
    /// A name was moved from the first to the second place.
    Moved(RelPath, RelPath),
    FolderMade(RelPath),
    FolderRemoved(RelPath),
}

impl Plan<'_> {
    /// Returns a free name near a path: in the deepest existing directory on the way that the run did not make.
    fn beside(&mut self, path: &RelPath) -> io::Result<RelPath> {
        let mut folder = path.parent().unwrap_or_default();
        while !folder.is_root() && (self.made.contains(&folder) || !is_folder(self.tree, &folder)?) {
            folder = folder.parent().unwrap_or_default();
        }
        self.names += 1;
        let name = format!("{}-{}", back_name(self.run_id).to_string_lossy(), self.names);
        folder.child(name).ok_or_else(|| io::Error::other("the run's id cannot be part of a file name"))
    }

    fn write(&self, temporary: &RelPath, path: &RelPath, before: &Entry) -> io::Result<()> {
        let like = match self.tree.parent_of(path) {
            Ok((parent, name)) => parent.like(name)?,
            Err(error) if is_missing(&error) => None,
            Err(error) => return Err(error),
        };
        let like = like.or_else(|| self.mode(path).map(Like::with_mode));
        let (parent, name) = self.tree.parent_of(temporary)?;
        parent.create(name, before, like.as_ref(), self.steps)
    }

    fn mode(&self, path: &RelPath) -> Option<u32> {
        self.modes.get(&journal::quoted(path.as_bytes())).copied()
    }

    /// Swaps everything in; returns a directory that is in the way and not the run's.
    fn swap(
        &mut self,
        restored: &[(RelPath, RelPath, Shape)],
        added: &[(RelPath, RelPath)],
    ) -> io::Result<Vec<RelPath>> {
        let in_the_way =
            |path: &RelPath| restored.iter().any(|(_, old, _)| old.is_under(path) || path.is_under(old) || old == path);
        for (temporary, path) in added.iter().filter(|(_, path)| in_the_way(path)) {
            self.move_to(path, temporary)?;
        }
        for folder in self.made.iter().rev().filter(|folder| in_the_way(folder)) {
            if !is_folder(self.tree, folder)? {
                continue;
            }
            let (parent, name) = self.tree.parent_of(folder)?;
            match parent.remove(name, self.steps) {
                Ok(()) => self.done.push(Done::FolderRemoved(folder.clone())),
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                Err(error) => return Err(error),
            }
        }
        let mut left_alone = Vec::new();
        for (temporary, path, _) in restored {
            if is_folder(self.tree, path)? {
                left_alone.push(path.clone());
                continue;
            }
            let mut made = Vec::new();
            let ready = make_folders(self.tree, &RelPath::root(), path, self.steps, &mut made);
            for folder in &made {
                if let Some(mode) = self.mode(folder) {
                    let (parent, name) = self.tree.parent_of(folder)?;
                    // Until everything is in it, its owner may write there.
                    parent.set_mode(name, mode | 0o700)?;
                }
            }
            self.done.extend(made.into_iter().map(Done::FolderMade));
            ready?;
            let (parent, name) = self.tree.parent_of(path)?;
            if parent.stat(name)?.is_some() {
                self.exchange(temporary, path)?;
            } else {
                self.move_to(temporary, path)?;
            }
        }
        for (temporary, path) in added.iter().filter(|(_, path)| !in_the_way(path)) {
            self.move_to(path, temporary)?;
        }
        for done in &self.done {
            if let Done::FolderMade(folder) = done
                && let Some(mode) = self.mode(folder).filter(|mode| mode & 0o700 != 0o700)
            {
                let (parent, name) = self.tree.parent_of(folder)?;
                parent.set_mode(name, mode)?;
            }
        }
        Ok(left_alone)
    }

    fn exchange(&mut self, one: &RelPath, other: &RelPath) -> io::Result<()> {
        let (from, to) = (self.tree.parent_of(one)?, self.tree.parent_of(other)?);
        from.0.exchange(from.1, &to.0, to.1, self.steps)?;
        self.done.push(Done::Exchanged(one.clone(), other.clone()));
        Ok(())
    }

    fn move_to(&mut self, from: &RelPath, to: &RelPath) -> io::Result<()> {
        let (old, new) = (self.tree.parent_of(from)?, self.tree.parent_of(to)?);
        old.0.place(old.1, &new.0, new.1, self.steps)?;
        self.done.push(Done::Moved(from.clone(), to.clone()));
        Ok(())
    }

    /// Rolls back what was done, last first, and removes what was written for it. Then the record names nothing that was
    /// begun: the next delivery would finish that.
    fn give_up(&self, journal: &Journal, record: &mut Record, cause: io::Error) -> UndoError {
        let at = |path: &RelPath| self.tree.parent_of(path).map(|(folder, name)| (folder, name.to_owned()));
        for done in self.done.iter().rev() {
            let taken_back = (|| match done {
                Done::Exchanged(one, other) => {
                    let (from, to) = (at(one)?, at(other)?);
                    from.0.exchange(&from.1, &to.0, &to.1, self.steps)
                }
                Done::Moved(from, to) => {
                    let (old, new) = (at(to)?, at(from)?);
                    old.0.place(&old.1, &new.0, &new.1, self.steps)
                }
                Done::FolderMade(folder) => at(folder).and_then(|(parent, name)| parent.remove(&name, self.steps)),
                Done::FolderRemoved(folder) => at(folder).and_then(|(parent, name)| parent.make(&name, self.steps)),
            })();
            if taken_back.is_err() {
                // Files set aside must stay: the record names them, and the next attempt begins with them.
                return UndoError { cause, half: true };
            }
        }
        for temporary in std::mem::take(&mut record.temporary) {
            let _stays = journal::path(&temporary).and_then(|path| remove_left_over(self.tree, &path, self.steps));
        }
        let half = journal.write(record, self.steps).is_err();
        UndoError { cause, half }
    }
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

/// Removes a temporary file of a delivery or undo, with the second name that it may have.
fn remove_left_over(tree: &Folder, path: &RelPath, steps: &Steps) -> io::Result<()> {
    // If names cannot be swapped, a second name holds the old file for a moment.
    if let Some(second) = RelPath::from_bytes(&[path.as_bytes(), b"-old"].concat()) {
        remove_one(tree, &second, steps)?;
    }
    remove_one(tree, path, steps)
}

fn remove_one(tree: &Folder, path: &RelPath, steps: &Steps) -> io::Result<()> {
    let removed = tree.parent_of(path).and_then(|(parent, name)| match parent.stat(name)? {
        Some(_) => parent.unlink(name, steps),
        None => Ok(()),
    });
    match removed {
        Err(error) if !is_missing(&error) => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
