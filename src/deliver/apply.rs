//! Writes changes to the files of the work tree: all of them or none.
//!
//! New contents are written next to their targets and swapped in, so no reader ever sees half a file, and rolling back
//! is another swap. The old contents are recorded before the first byte is written.

mod rollback;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::delivery::Site;
use super::directories::{folders_between, has_above, has_below, make_folders, remove_empty};
use super::error::DeliverError;
use super::journal::{Journal, Record, Saved, SavedCommit, Shape, State, next_number, prune, quoted};
use super::left_over::clear;
use super::outputs::{self, Item as OutputItem, Outputs};
use super::references::{self, CommitUndone};
use super::swaps::{Swap, changed, is_changed};
use crate::change::{Change, ChangeSet, Entry};
use crate::path::RelPath;
use crate::workspace::folder::{Folder, Like, is_missing};
use crate::workspace::steps::Steps;

/// How many undo records of a user's deliveries are kept.
const RECORDS: usize = 200;

/// What a delivery left.
#[derive(Debug)]
pub struct Finished {
    /// The undo record's directory.
    pub record: Option<PathBuf>,
    /// What the operator should know.
    pub warnings: Vec<String>,
}

/// Applies a change set to the work tree.
pub fn apply(changes: &ChangeSet, site: &Site<'_>, steps: &Steps) -> Result<Finished, DeliverError> {
    Applied::begin(changes, site, None, steps)?.finish()
}

/// Checks that everything the run changed is still as the run found it.
pub fn check_base(changes: &ChangeSet, root: &Path) -> Result<(), DeliverError> {
    let folder = open_root(root)?;
    changes.iter().try_for_each(|(path, change)| check_unchanged(&folder, path, change))
}

fn open_root(root: &Path) -> Result<Folder, DeliverError> {
    Folder::root(root).map_err(|error| DeliverError::io(root.display(), &error))
}

fn check_unchanged(root: &Folder, path: &RelPath, change: &Change) -> Result<(), DeliverError> {
    match root.entry_at(path) {
        Ok(found) if found == change.before => Ok(()),
        Ok(_) => Err(moved(path)),
        Err(error) => Err(DeliverError::io(path, &error)),
    }
}

fn moved(path: &RelPath) -> DeliverError {
    DeliverError::conflict(format!("{path} has changed since the run read it"), "run again on the current files")
}

/// Changes that were applied and can still be rolled back.
pub struct Applied<'a> {
    root: Folder,
    run_id: String,
    items: Vec<Item<'a>>,
    /// What is delivered besides the changes, and the swaps that it takes.
    outputs: Option<(&'a Outputs<'a>, Vec<OutputItem>)>,
    done: Vec<Done>,
    journal: Option<(Journal, Record)>,
    /// The commit of this delivery.
    commit: Option<SavedCommit>,
    at: PathBuf,
    steps: &'a Steps,
}

struct Item<'a> {
    path: &'a RelPath,
    change: &'a Change,
    /// The directory of the temporary file: the deepest one on the way that exists before and after.
    folder: RelPath,
    aside: RelPath,
    /// The rights that a new file has at most.
    rights: Option<u32>,
}

impl Item<'_> {
    /// Tells whether its directory goes before it is dropped: a file takes that name.
    fn leaves(&self) -> bool {
        self.change.after == Entry::Absent && self.path.parent().is_some_and(|parent| parent != self.folder)
    }
}

/// One completed operation, in order.
enum Done {
    Written {
        item: usize,
    },
    Exchanged {
        item: usize,
    },
    Placed {
        item: usize,
    },
    /// Others may no longer read a file, which had this mode.
    Narrowed {
        item: usize,
        mode: u32,
    },
    /// It was moved aside; with the mode that the file had.
    Removed {
        item: usize,
        mode: Option<u32>,
    },
    FolderMade(RelPath),
    /// With its mode.
    FolderRemoved(RelPath, u32),
    /// New contents of this number of the outputs are on their way to a temporary name.
    OutputStaged(usize),
    OutputSwapped(usize),
}

impl<'a> Applied<'a> {
    /// Applies every change, or rolls back what was begun. The record has the commit that is to follow, before any file
    /// or reference changes.
    pub fn begin(
        changes: &'a ChangeSet,
        site: &Site<'a>,
        commit: Option<SavedCommit>,
        steps: &'a Steps,
    ) -> Result<Applied<'a>, DeliverError> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if site.run_id.is_empty() || !site.run_id.bytes().all(is_name) {
            return Err(DeliverError::conflict(
                format!("`{}` is not a valid run id", site.run_id),
                "use letters, digits, `-` and `_`",
            ));
        }
        let root = open_root(site.root)?;
        if !root.lock() {
            return Err(DeliverError::conflict(
                format!("another run is delivering to {}", site.root.display()),
                "wait for it, then run `qwen apply` with the result",
            ));
        }
        let mode_of = |path: &RelPath| root.parent_of(path).and_then(|(parent, name)| parent.mode_of(name)).ok()?;
        let rights = changes.rights(mode_of);
        let mut items = Vec::new();
        for (number, (path, change)) in changes.iter().enumerate() {
            check_unchanged(&root, path, change)?;
            let folder = standing_folder(&root, changes, path)?;
            let aside = folder.child(format!(".qwen-{}-{number}", site.run_id));
            let aside = aside.ok_or_else(|| DeliverError::io(path, &io::ErrorKind::InvalidFilename.into()))?;
            items.push(Item { path, change, folder, aside, rights: rights.get(path).copied() });
        }
        let mut applied = Applied {
            root,
            run_id: site.run_id.to_owned(),
            items,
            outputs: None,
            done: Vec::new(),
            journal: None,
            commit,
            at: site.root.to_path_buf(),
            steps,
        };
        if let Some(outputs) = site.outputs {
            let swaps = outputs::plan(&applied.root, changes, outputs, site.run_id)?;
            applied.outputs = Some((outputs, swaps));
        }
        if let Some(undo) = site.undo {
            applied.journal = Some(applied.begin_journal(undo, site)?);
        }
        match applied.run() {
            Ok(()) => Ok(applied),
            Err(cause) => Err(applied.roll_back(cause)),
        }
    }

    /// Writes what is there before anything changes.
    fn begin_journal(&self, undo: &Path, site: &Site<'_>) -> Result<(Journal, Record), DeliverError> {
        let mut record = self.record(site);
        record.modes = self.modes().map_err(|error| DeliverError::io(site.root.display(), &error))?;
        let befores = self.items.iter().map(|item| &item.change.before);
        let begun = next_number(undo).and_then(|number| {
            record.number = number;
            Journal::begin(undo, &record, befores, self.steps)
        });
        let journal = begun.map_err(|error| {
            let mut failed = DeliverError::io(format!("cannot write undo record {}", undo.display()), &error);
            if let DeliverError::Io { hint, .. } = &mut failed {
                "make the directory writable, or give --no-undo".clone_into(hint);
            }
            failed
        })?;
        Ok((journal, record))
    }

    fn record(&self, site: &Site<'_>) -> Record {
        let missing: BTreeSet<RelPath> = self
            .items
            .iter()
            .filter(|item| item.change.after != Entry::Absent)
            .flat_map(|item| folders_between(&item.folder, item.path))
            .chain(self.swaps().iter().flat_map(OutputItem::folders_made))
            .collect();
        Record {
            version: 1,
            run_id: site.run_id.to_owned(),
            time: site.time.to_owned(),
            number: 0,
            root: quoted(std::os::unix::ffi::OsStrExt::as_bytes(site.root.as_os_str())),
            state: State::Begun,
            files: self
                .items
                .iter()
                .map(|item| Saved {
                    path: quoted(item.path.as_bytes()),
                    before: Shape::of(&item.change.before),
                    after: Shape::of(&item.change.after),
                })
                .collect(),
            folders_made: missing.iter().map(|folder| quoted(folder.as_bytes())).collect(),
            temporary: self.items.iter().map(|item| quoted(item.aside.as_bytes())).collect(),
            commit: self.commit.clone(),
            outputs: self.swaps().iter().map(OutputItem::saved).collect(),
            outputs_delivered: 0,
            modes: BTreeMap::new(),
            swapping: false,
            placed: false,
            head: site.repository.and_then(|repository| repository.head.clone()),
            narrow: self.items.iter().filter(|item| item.leaves()).map(|item| quoted(item.path.as_bytes())).collect(),
            undoing: false,
        }
    }

    /// Returns what no file will tell: the modes of files that go, with those of their directories, and of files that
    /// become executable or no longer are.
    fn modes(&self) -> io::Result<BTreeMap<String, u32>> {
        let mut modes = BTreeMap::new();
        for Item { path, change, .. } in &self.items {
            let folders = match (change.before.is_executable(), change.after.is_executable()) {
                (None, _) => continue,
                (Some(_), None) => folders_between(&RelPath::root(), path),
                (before, after) if before == after => continue,
                (Some(_), Some(_)) => Vec::new(),
            };
            for path in folders.iter().chain([*path]) {
                let (parent, name) = self.root.parent_of(path)?;
                if let Some(mode) = parent.mode_of(name)? {
                    modes.insert(quoted(path.as_bytes()), mode);
                }
            }
        }
        Ok(modes)
    }

    fn swaps(&self) -> &[OutputItem] {
        self.outputs.as_ref().map_or(&[], |(_, swaps)| swaps)
    }

    /// Records that everything is delivered, which only its record can undo from then on, and drops the old contents.
    pub fn finish(mut self) -> Result<Finished, DeliverError> {
        if let Some((journal, record)) = &mut self.journal {
            record.state = State::Done;
            record.narrow.clear();
            if let Err(error) = journal.write(record, self.steps) {
                let cause = DeliverError::io("the undo record", &error);
                return Err(self.roll_back(cause));
            }
        }
        (self.done, self.commit) = (Vec::new(), None);
        let (stuck, warnings) = self.drop_all_old();
        let is_clear = match &self.outputs {
            Some((outputs, items)) => outputs::clear_aside(items, outputs, &self.root, self.steps),
            None => true,
        };
        let swaps = self.swaps().len();
        if let Some((journal, record)) = &mut self.journal {
            record.swapping = !stuck.is_empty();
            record.temporary = stuck;
            if is_clear {
                record.outputs.clear();
                record.outputs_delivered = swaps;
            }
            // All is delivered; a record that still names what was put aside makes the next command look for it.
            let _looked_for = journal.write(record, self.steps);
        }
        let record = self.journal.take().map(|(journal, _)| journal.folder().to_path_buf());
        if let Some(undo) = record.as_deref().and_then(Path::parent) {
            // One that cannot be removed is tried again by the next delivery.
            let _all_is_delivered = prune(undo, RECORDS);
        }
        Ok(Finished { record, warnings })
    }

    /// Removes what was put aside, and the directories that are empty without it. Returns the temporary names of what
    /// could not be removed, and what the operator should know.
    fn drop_all_old(&self) -> (Vec<String>, Vec<String>) {
        let (mut stuck, mut warnings) = (Vec::new(), Vec::new());
        for item in self.items.iter().filter(|item| item.change.before != Entry::Absent) {
            let Item { path, change, aside, .. } = item;
            let before = Shape::of(&change.before);
            match clear(&self.root, aside, &|shape| *shape == before, self.steps) {
                Ok(None) => {}
                Ok(Some(kept)) => {
                    warnings.push(format!("what was written to {path} while it was replaced is kept in {kept}"));
                }
                Err(error) => {
                    warnings.push(format!("cannot remove {aside}, the old contents of {path}: {error}"));
                    stuck.push(quoted(aside.as_bytes()));
                }
            }
            if change.after == Entry::Absent
                && !item.leaves()
                && let Err(error) = remove_empty(&self.root, path, self.steps, &mut Vec::new())
            {
                warnings.push(format!("cannot remove the empty directory of {path}: {error}"));
            }
        }
        (stuck, warnings)
    }

    fn run(&mut self) -> Result<(), DeliverError> {
        self.stage()?;
        let is_gone = |this: &Self, item: &usize| this.items[*item].change.after == Entry::Absent;
        let gone: Vec<usize> = (0..self.items.len()).filter(|item| is_gone(self, item)).collect();
        let coming: BTreeSet<RelPath> =
            self.items.iter().filter(|item| item.change.after != Entry::Absent).map(|item| item.path.clone()).collect();
        // A directory that becomes a file, or the reverse.
        let makes_way = |item: &usize| {
            let path = self.items[*item].path;
            has_below(&coming, path) || has_above(&coming, path)
        };
        let (first, last): (Vec<usize>, Vec<usize>) = gone.into_iter().partition(makes_way);
        self.swap_outputs(false)?;
        for item in first {
            self.attempt(item, |this| this.remove(item))?;
        }
        for item in 0..self.items.len() {
            self.attempt(item, |this| this.put_in_place(item))?;
        }
        for item in last {
            self.attempt(item, |this| this.remove(item))?;
        }
        self.swap_outputs(true)?;
        match &mut self.journal {
            // Otherwise the old contents tell, which are aside.
            Some((journal, record)) if record.commit.is_some() && record.makes_all() => {
                record.placed = true;
                journal.write(record, self.steps).map_err(|error| DeliverError::io("the undo record", &error))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Writes everything new to temporary names, and notes in the record that all of it is there.
    fn stage(&mut self) -> Result<(), DeliverError> {
        if let Some((outputs, swaps)) = &mut self.outputs {
            for (number, swap) in swaps.iter_mut().enumerate() {
                self.done.push(Done::OutputStaged(number));
                swap.stage(&self.root, outputs, self.steps).map_err(|error| DeliverError::io(&swap.path, &error))?;
            }
        }
        for item in 0..self.items.len() {
            self.attempt(item, |this| this.write_new(item))?;
        }
        let outputs = self.swaps().iter().map(OutputItem::saved).collect();
        let Some((journal, record)) = &mut self.journal else { return Ok(()) };
        record.outputs = outputs;
        record.swapping = true;
        journal.write(record, self.steps).map_err(|error| DeliverError::io("the undo record", &error))
    }

    /// Swaps outputs: removes old ones before the change is applied, as it may need their names, and adds new ones after it.
    fn swap_outputs(&mut self, coming: bool) -> Result<(), DeliverError> {
        let Some((_, swaps)) = &self.outputs else { return Ok(()) };
        for (number, swap) in swaps.iter().enumerate().filter(|(_, swap)| swap.is_new() == coming) {
            let mut made = Vec::new();
            let swapped = make_folders(&self.root, (&RelPath::root(), &swap.path), &|_| None, self.steps, &mut made)
                .and_then(|()| swap.swap(&self.root, self.steps));
            self.done.extend(made.into_iter().map(Done::FolderMade));
            match swapped {
                Ok(()) => self.done.push(Done::OutputSwapped(number)),
                Err(error) if is_missing(&error) || error.kind() == io::ErrorKind::AlreadyExists => {
                    return Err(moved(&swap.path));
                }
                Err(error) => return Err(DeliverError::io(&swap.path, &error)),
            }
        }
        Ok(())
    }

    fn attempt(&mut self, item: usize, act: impl FnOnce(&mut Self) -> io::Result<()>) -> Result<(), DeliverError> {
        let path = self.items[item].path;
        let is_moved =
            |error: &io::Error| error.kind() == io::ErrorKind::AlreadyExists || is_changed(error) || is_missing(error);
        act(self).map_err(|error| if is_moved(&error) { moved(path) } else { DeliverError::io(path, &error) })
    }

    fn swap(&self, item: usize) -> Swap<'_> {
        Swap { tree: &self.root, path: self.items[item].path, aside: &self.items[item].aside, steps: self.steps }
    }

    fn write_new(&mut self, item: usize) -> io::Result<()> {
        let Item { path, change, aside, rights, .. } = &self.items[item];
        if change.after == Entry::Absent {
            return Ok(());
        }
        let like = match self.root.parent_of(path) {
            Ok((folder, name)) => folder.like(name)?,
            Err(error) if is_missing(&error) => None,
            Err(error) => return Err(error),
        };
        let like = like.or_else(|| rights.map(Like::at_most));
        let (folder, name) = self.root.parent_of(aside)?;
        self.done.push(Done::Written { item });
        folder.create(name, &change.after, like.as_ref(), self.steps)
    }

    fn put_in_place(&mut self, item: usize) -> io::Result<()> {
        let Item { path, change, folder, .. } = &self.items[item];
        if change.after == Entry::Absent {
            return Ok(());
        }
        if change.before == Entry::Absent {
            let mut made = Vec::new();
            let ready = make_folders(&self.root, (folder, path), &|_| None, self.steps, &mut made);
            self.done.extend(made.into_iter().map(Done::FolderMade));
            ready.and_then(|()| self.swap(item).put())?;
            self.done.push(Done::Placed { item });
            return Ok(());
        }
        self.swap(item).exchange()?;
        self.done.push(Done::Exchanged { item });
        self.swap(item).check(&|entry| *entry == change.before)
    }

    /// Moves aside what goes.
    fn remove(&mut self, item: usize) -> io::Result<()> {
        let Item { path, change, .. } = &self.items[item];
        let leaves = self.items[item].leaves();
        let (parent, name) = self.root.parent_of(path)?;
        if parent.entry(name)? != change.before {
            return Err(changed(path));
        }
        let mode = parent.mode_of(name)?;
        if let Some(mode) = mode.filter(|mode| leaves && mode & 0o077 != 0)
            // Its directory may have kept others out; a file that is not ours alone stays as it is.
            && parent.set_mode_of_file(name, mode & 0o700).is_ok()
        {
            self.done.push(Done::Narrowed { item, mode });
        }
        self.swap(item).take()?;
        self.done.push(Done::Removed { item, mode });
        self.swap(item).check(&|entry| *entry == change.before)?;
        if !leaves {
            return Ok(());
        }
        let mut removed = Vec::new();
        let all = remove_empty(&self.root, path, self.steps, &mut removed);
        self.done.extend(removed.into_iter().map(|(folder, mode)| Done::FolderRemoved(folder, mode)));
        all
    }
}

impl Drop for Applied<'_> {
    /// Only a panic gets here with something done: the commit and the files are rolled back.
    fn drop(&mut self) {
        if self.done.is_empty() {
            return;
        }
        let committed = self.commit.take().map(|commit| references::undo(&commit, &self.at, &self.run_id));
        // What remains is in the record, which says that the delivery began; the next command rolls it back.
        if committed
            .is_none_or(|undone| matches!(undone, Ok(CommitUndone::Gone { warnings, .. }) if warnings.is_empty()))
            && self.take_all_back().0.is_empty()
            && let Some((journal, _)) = self.journal.take()
        {
            journal.discard();
        }
    }
}

/// Finds the deepest existing directory on the way to a path that is there to the end, or until the path is dropped.
pub(super) fn standing_folder(root: &Folder, changes: &ChangeSet, path: &RelPath) -> Result<RelPath, DeliverError> {
    let mut standing = RelPath::root();
    for folder in folders_between(&RelPath::root(), path) {
        let stat = root
            .parent_of(&folder)
            .and_then(|(parent, name)| parent.stat(name))
            .map_err(|error| DeliverError::io(&folder, &error))?;
        match (stat.map(|stat| FileType::from_raw_mode(stat.st_mode)), changes.staged(&folder)) {
            // It becomes a file.
            (Some(FileType::Directory), Some(after)) if *after != Entry::Absent => break,
            (Some(FileType::Directory), _) => standing = folder,
            // It is removed for the directory.
            (None, _) | (Some(_), Some(Entry::Absent)) => break,
            (Some(_), _) => {
                return Err(DeliverError::conflict(
                    format!("cannot write {path}: {folder} is not a directory"),
                    "move that out of the way, or leave the file out of the change",
                ));
            }
        }
    }
    Ok(standing)
}
#[cfg(test)]
mod tests;
