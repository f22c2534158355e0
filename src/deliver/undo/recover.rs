//! Finishes what deliveries and undoings that were killed left incomplete, before anything else is delivered there.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use super::super::directories::remove_empty;
use super::super::journal::{self, Journal, Record, Shape, State, records};
use super::super::left_over::{clear_left_over, is_any_left};
use super::super::{outputs, references};
use super::{UndoError, UndoReport, leave_to_others, locked, undo_locked};
use crate::change::patch::name_in_repository;
use crate::change::{Entry, diff};
use crate::git::Whole;
use crate::git::repository::Repository;
use crate::path::RelPath;
use crate::workspace::folder::Folder;
use crate::workspace::steps::Steps;

/// How many files are named.
const NAMED: usize = 10;

/// What became of a delivery, or an undoing, that was killed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// What was restored, and what somebody has to look at.
    pub report: UndoReport,
    ending: Ending,
    /// The directory of the delivery, to which all names are relative, if the command is in another one.
    elsewhere: Option<PathBuf>,
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Ending {
    /// A delivery: the files are as before it.
    RolledBack,
    /// An undoing: the files are as before the run.
    Undone,
    /// A delivery was cut off when these files were in their places already.
    Delivered(Vec<RelPath>),
    /// The commit of the delivery exists, and is kept; of a delivery or of an undoing.
    Committed(String, &'static str),
    /// Somebody has kept these files since.
    Kept {
        /// A delivery, or an undoing.
        what: &'static str,
        /// How that is known.
        why: &'static str,
        files: Vec<RelPath>,
    },
}

impl Recovered {
    /// Says what was found, and what was done about it.
    pub fn told(&self) -> String {
        let UndoReport { run_id, restored, left_alone, warnings, untidy, .. } = &self.report;
        let elsewhere = self.elsewhere.as_ref().map(|place| format!(" in {}", place.display())).unwrap_or_default();
        let cut_off = |what: &str| format!("the {what} of run {run_id}{elsewhere} was interrupted");
        let there = if elsewhere.is_empty() { "" } else { " there" };
        let back = format!("`qwen undo {run_id}`{there} takes it back");
        let first = match &self.ending {
            Ending::RolledBack => format!("{}, and is rolled back{}", cut_off("delivery"), listed(restored)),
            Ending::Undone => format!("{}, and is finished{}", cut_off("undo"), listed(restored)),
            Ending::Delivered(files) => {
                format!("{} at its end: everything is delivered{}; {back}", cut_off("delivery"), listed(files))
            }
            Ending::Committed(commit, what) => format!("{}; its commit {commit} is kept; {back}", cut_off(what)),
            Ending::Kept { what, why, files } => {
                format!("{}, and left as it is, because {why}{}; {back}", cut_off(what), listed(files))
            }
        };
        let changed = (!left_alone.is_empty()).then(|| format!("changed since, and left alone{}", listed(left_alone)));
        let untidy = untidy.iter().map(|path| format!("cannot remove {path}"));
        let moved = self.report.moved_back.clone();
        let more = changed
            .into_iter()
            .chain(moved)
            .chain(warnings.iter().cloned())
            .chain(self.report.kept_aside())
            .chain(untidy);
        std::iter::once(first).chain(more).collect::<Vec<_>>().join("; ")
    }
}

fn listed(files: &[RelPath]) -> String {
    let mut names: Vec<String> = files.iter().take(NAMED).map(ToString::to_string).collect();
    if files.len() > NAMED {
        names.push(format!("and {} more", files.len() - NAMED));
    }
    if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) }
}

/// Finishes what was killed in this root, or in directories above and below it: it is rolled back, or undone, unless
/// somebody has kept it since.
pub fn recover(undo: &Path, root: &Path) -> io::Result<Vec<Recovered>> {
    let mut all: Vec<Recovered> = Vec::new();
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
        if is_cut_off(&record) && is_related {
            match recover_one(&folder, &place) {
                Ok(recovered) => all.extend(recovered.map(|recovered| {
                    let elsewhere = (place != root).then_some(place);
                    Recovered { elsewhere, ..recovered }
                })),
                // A live process is delivering it at this moment.
                Err(error) if error.cause.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    let told: String = all.iter().map(|recovered| recovered.told() + "; ").collect();
                    return Err(io::Error::new(error.cause.kind(), format!("{told}{}: {error}", place.display())));
                }
            }
        }
    }
    Ok(all)
}

/// Tells whether a process was killed, or is at work: what it has put aside is still to be removed.
fn is_cut_off(record: &Record) -> bool {
    record.state == State::Begun || record.undoing || !record.temporary.is_empty()
}

/// Tells whether no repository begins between two directories: what is in one of its own is not touched with the other.
fn is_in_one(one: &Path, other: &Path) -> bool {
    let top = |path: &Path| Repository::discover(path).ok().map(|found| found.map(|repository| repository.top));
    top(one).is_some_and(|found| Some(found) == top(other))
}

/// Removes what was put aside by a delivery, or an undoing, that was killed at its very end.
fn remove_aside(folder: &Path, root: &Path) -> io::Result<()> {
    let _whole = Whole::begin();
    let (tree, journal, mut record) = locked(folder, root)?;
    if record.state != State::Begun {
        record.outputs_delivered = record.outputs_delivered.max(record.outputs.len());
        outputs::tidy(&mut record, &tree, &Steps::default());
        journal.write(&record, &Steps::default())?;
    }
    Ok(())
}

pub(super) fn recover_one(folder: &Path, root: &Path) -> Result<Option<Recovered>, UndoError> {
    let _whole = Whole::begin();
    let (tree, journal, mut record) = locked(folder, root)?;
    // Until it was locked, another process may have finished it.
    if !is_cut_off(&record) {
        return Ok(None);
    }
    let is_delivery = record.state == State::Begun;
    let others = leave_to_others(&mut record, &tree)?;
    let (mut report, ending) = match kept(&record, root, &tree)? {
        Some(ending) => (close(&mut record, (root, &tree, &journal), &ending)?, ending),
        None => {
            if is_delivery && !record.undoing {
                // It was not made, or nothing has it any more.
                record.commit = None;
            }
            let report = undo_locked(root, &tree, &journal, &mut record, &Steps::default())?;
            (report, if is_delivery { Ending::RolledBack } else { Ending::Undone })
        }
    };
    report.left_alone.extend(others);
    Ok(Some(Recovered { report, ending, elsewhere: None }))
}

/// Closes the record of a delivery that is to be rolled back because HEAD has moved, if its changes were committed.
pub(in crate::deliver) fn keep_committed(
    record: &mut Record,
    (root, tree, journal): (&Path, &Folder, &Journal),
) -> Result<Option<Recovered>, UndoError> {
    let repository = Repository::discover(root).map_err(io::Error::other)?;
    let head = repository.and_then(|repository| repository.head);
    let is_own = record.commit.as_ref().is_some_and(|commit| head.as_ref() == Some(&commit.new));
    if is_own || head == record.head {
        return Ok(None);
    }
    let Some(ending @ Ending::Kept { .. }) = kept(record, root, tree)? else { return Ok(None) };
    let report = close(record, (root, tree, journal), &ending)?;
    Ok(Some(Recovered { report, ending, elsewhere: None }))
}

/// Tells why nothing is taken back: all was delivered, or somebody has kept it since the process was killed.
fn kept(record: &Record, root: &Path, tree: &Folder) -> io::Result<Option<Ending>> {
    let is_being_undone = record.undoing;
    let what = if record.state == State::Begun { "delivery" } else { "undo" };
    let (mut delivered, mut is_mixed) = (Vec::new(), false);
    for file in record.files.iter().filter(|file| file.before != file.after) {
        let path = journal::path(&file.path)?;
        match Shape::of(&tree.entry_at(&path)?) {
            now if now == file.after => delivered.push(path),
            now => is_mixed |= now == file.before,
        }
    }
    match record.state {
        State::Undone => return Ok(None),
        State::Done if !is_being_undone => return Ok(Some(Ending::Delivered(delivered))),
        State::Begun | State::Done => {}
    }
    let repository = Repository::discover(root).map_err(io::Error::other)?;
    let head = repository.as_ref().and_then(|repository| repository.head.as_ref());
    let has_moved = head != record.head.as_ref();
    if let (Some(commit), Some(repository)) = (&record.commit, &repository)
        && (!is_being_undone || has_moved && head != commit.old.as_ref())
        && references::is_kept(commit, repository)
    {
        return Ok(Some(Ending::Committed(commit.new.clone(), what)));
    }
    if delivered.is_empty() {
        return Ok(None);
    }
    let temporary = record.temporary.iter().chain(record.outputs.iter().map(|output| &output.temporary));
    // In the middle of an undoing there is a moment without such files.
    let is_left_so =
        !(is_any_left(temporary, tree)? || is_being_undone && is_mixed || !is_being_undone && record.placed);
    let base = match &record.commit {
        // Undoing has moved HEAD back before.
        Some(commit) if is_being_undone => &commit.old,
        Some(_) | None => &record.head,
    };
    let is_committed = || match &repository {
        Some(repository) if has_moved => is_committed(repository, base.as_deref(), tree, &delivered),
        Some(_) | None => Ok(false),
    };
    let why = match (is_left_so, is_left_so || is_committed()?) {
        (_, false) => return Ok(None),
        (true, true) => "none of its temporary files is there",
        (false, true) => "its changes were committed since",
    };
    Ok(Some(Ending::Kept { what, why, files: delivered }))
}

/// Tells whether somebody has committed what one of these files holds since HEAD was this commit.
fn is_committed(repository: &Repository, base: Option<&str>, tree: &Folder, paths: &[RelPath]) -> io::Result<bool> {
    let (git, Some(head)) = (repository.git(), &repository.head) else { return Ok(false) };
    let compared = |base: &str| git.run(&["diff-tree", "-r", "-z", "--no-renames", "--no-abbrev", base, head], b"");
    // The commit is gone where the repository was cloned again.
    let since = match base.map(compared) {
        Some(Ok(since)) => since,
        Some(Err(_)) | None => git
            .line(&["hash-object", "-t", "tree", "--stdin"], b"")
            .and_then(|empty| compared(&empty))
            .map_err(io::Error::other)?,
    };
    // `:MODE MODE OBJECT OBJECT STATUS`, then the path.
    let mut fields = since.split(|byte| *byte == 0);
    let mut objects: BTreeMap<&[u8], &[u8]> = BTreeMap::new();
    while let (Some(states), Some(path)) = (fields.next(), fields.next()) {
        objects.extend(states.split(|byte| *byte == b' ').nth(3).map(|object| (path, object)));
    }
    let mut committed = Vec::new();
    let names: Vec<Vec<u8>> = paths.iter().map(|path| name_in_repository(&repository.prefix, path)).collect();
    let filtered = repository.filtered(&names).map_err(io::Error::other)?;
    for (path, name) in paths.iter().zip(names) {
        let Some(object) = objects.get(name.as_slice()).and_then(|object| std::str::from_utf8(object).ok()) else {
            continue;
        };
        match tree.entry_at(path)? {
            Entry::Absent if object.bytes().all(|digit| digit == b'0') => return Ok(true),
            Entry::Absent => {}
            entry if repository.format.blob(diff::text_of(&entry)) == *object => return Ok(true),
            Entry::Link { .. } => {}
            // Only its filter, which never runs here, could tell what git would store.
            Entry::File { .. } if filtered.contains_key(&name) => return Ok(true),
            entry @ Entry::File { .. } => committed.push((name, (path, entry, object))),
        }
    }
    let files = committed.iter().map(|(name, (path, entry, object))| (name.clone(), (*path, entry, *object)));
    let files: BTreeMap<_, _> = files.collect();
    Ok(repository.differing(&files).map_err(io::Error::other)?.len() < files.len())
}

/// Closes a record without taking anything back, and removes what the process left.
fn close(
    record: &mut Record,
    (root, tree, journal): (&Path, &Folder, &Journal),
    ending: &Ending,
) -> Result<UndoReport, UndoError> {
    let steps = &Steps::default();
    let mut report = UndoReport { run_id: record.run_id.clone(), ..UndoReport::default() };
    if record.state == State::Begun && matches!(ending, Ending::Kept { .. }) {
        // It was not made, or nothing has it any more.
        record.commit = None;
    }
    match ending {
        Ending::Committed(..) if record.state == State::Begun => {
            if let Some(commit) = &record.commit {
                references::finish_index(commit, root)?;
            }
        }
        // What commands left in ignored directories is not what somebody has committed.
        Ending::Kept { .. } if is_any_left(record.outputs.iter().map(|output| &output.temporary), tree)? => {
            outputs::take_out(record, tree, steps)?;
            report.warnings.extend(outputs::bring_back(record, tree, steps)?);
            record.outputs_delivered = 0;
        }
        _ => record.outputs_delivered = record.outputs_delivered.max(record.outputs.len()),
    }
    report.untidy.extend(outputs::tidy(record, tree, steps));
    let mut temporary = std::mem::take(&mut record.temporary);
    report.untidy.extend(clear_left_over(&mut temporary, record, tree, &mut report.set_aside, steps));
    record.temporary = temporary;
    for file in record.files.iter().filter(|file| file.after == Shape::Absent) {
        let removed = journal::path(&file.path).and_then(|path| remove_empty(tree, &path, steps, &mut Vec::new()));
        report.untidy.extend(removed.err().map(|error| format!("the directory of {}: {error}", file.path)));
    }
    if !record.undoing {
        record.narrow.clear();
    }
    record.undoing = false;
    record.swapping = !record.temporary.is_empty();
    record.state = State::Done;
    journal.write(record, steps)?;
    Ok(report)
}
