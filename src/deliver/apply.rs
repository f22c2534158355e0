//! Writes changes to the files of the work tree: all of them or none.
//!
//! New contents are written next to their targets and swapped in, so no reader ever sees half a file, and rolling back
//! is another swap. The old contents are recorded before the first byte is written.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::delivery::Site;
use super::directories::{folders_between, make_folders, restore};
use super::error::DeliverError;
use super::journal::{Journal, Record, Saved, SavedCommit, Shape, State, next_number, prune, quoted};
use super::outputs::{self, Item as OutputItem, Outputs};
use super::references::{self, CommitUndone};
use crate::change::{Change, ChangeSet, Entry};
use crate::path::RelPath;
use crate::workspace::folder::{Folder, is_missing};
use crate::workspace::snapshot::number;
use crate::workspace::steps::Steps;

/// How many undo records of a user's deliveries are kept.
const RECORDS: usize = 200;

/// Applies a change set to the work tree and returns the undo record's directory.
pub fn apply(changes: &ChangeSet, site: &Site<'_>, steps: &Steps) -> Result<Option<PathBuf>, DeliverError> {
    Applied::begin(changes, site, steps)?.finish()
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
    /// The commit of this delivery, once it is recorded.
    commit: Option<SavedCommit>,
    at: PathBuf,
    steps: &'a Steps,
}

struct Item<'a> {
    path: &'a RelPath,
    change: &'a Change,
    /// The directory of the temporary file: the deepest one on the way that exists before and after.
    folder: RelPath,
    temporary: OsString,
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
    /// With the mode of the file.
    Removed {
        item: usize,
        mode: Option<u32>,
    },
    FolderMade(RelPath),
    /// With its mode.
    FolderRemoved(RelPath, u32),
    OldDropped {
        item: usize,
    },
    /// New contents of this number of the outputs are on their way to a temporary name.
    OutputStaged(usize),
    OutputSwapped(usize),
}

impl<'a> Applied<'a> {
    /// Applies every change, or rolls back what was begun.
    pub fn begin(changes: &'a ChangeSet, site: &Site<'a>, steps: &'a Steps) -> Result<Applied<'a>, DeliverError> {
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
        let mut items = Vec::new();
        for (number, (path, change)) in changes.iter().enumerate() {
            check_unchanged(&root, path, change)?;
            let folder = standing_folder(&root, changes, path)?;
            let temporary = OsString::from(format!(".qwen-{}-{number}", site.run_id));
            items.push(Item { path, change, folder, temporary });
        }
        let mut applied = Applied {
            root,
            run_id: site.run_id.to_owned(),
            items,
            outputs: None,
            done: Vec::new(),
            journal: None,
            commit: None,
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
        let temporary = |item: &Item<'_>| {
            item.folder.child(&item.temporary).map(|path| quoted(path.as_bytes())).unwrap_or_default()
        };
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
            temporary: self.items.iter().filter(|item| item.change.after != Entry::Absent).map(temporary).collect(),
            commit: None,
            outputs: self.swaps().iter().map(OutputItem::saved).collect(),
            outputs_delivered: 0,
            modes: BTreeMap::new(),
        }
    }

    /// Returns what no file will tell: the modes of files that go, and of their directories.
    fn modes(&self) -> io::Result<BTreeMap<String, u32>> {
        let is_file = |entry: &Entry| matches!(entry, Entry::File { .. });
        let mut modes = BTreeMap::new();
        for Item { path, change, .. } in &self.items {
            if !is_file(&change.before) || is_file(&change.after) {
                continue;
            }
            for path in folders_between(&RelPath::root(), path).iter().chain([*path]) {
                let (parent, name) = self.root.parent_of(path)?;
                if let Some(mode) = mode_of(&parent, name)? {
                    modes.insert(quoted(path.as_bytes()), mode);
                }
            }
        }
        Ok(modes)
    }

    fn swaps(&self) -> &[OutputItem] {
        self.outputs.as_ref().map_or(&[], |(_, swaps)| swaps)
    }

    /// Records the commit before any reference moves.
    pub fn note_commit(&mut self, commit: SavedCommit) -> io::Result<()> {
        self.commit = Some(commit.clone());
        match &mut self.journal {
            None => Ok(()),
            Some((journal, record)) => {
                record.commit = Some(commit);
                journal.write(record, self.steps)
            }
        }
    }

    /// Drops the old contents; afterwards only the record can undo the delivery. Returns the record's directory.
    pub fn finish(mut self) -> Result<Option<PathBuf>, DeliverError> {
        for item in 0..self.items.len() {
            if self.items[item].change.before == Entry::Absent || self.items[item].change.after == Entry::Absent {
                continue;
            }
            let Item { path, folder, temporary, .. } = &self.items[item];
            let dropped = self.root.enter(folder).and_then(|folder| folder.unlink(temporary, self.steps));
            if let Err(error) = dropped {
                let cause = DeliverError::io(path, &error);
                return Err(self.roll_back(cause));
            }
            self.done.push(Done::OldDropped { item });
        }
        if let Some((journal, record)) = &mut self.journal {
            record.state = State::Done;
            record.temporary.clear();
            if let Err(error) = journal.write(record, self.steps) {
                let cause = DeliverError::io("the undo record", &error);
                return Err(self.roll_back(cause));
            }
        }
        self.done.clear();
        let swaps = self.swaps().len();
        if let Some((outputs, items)) = &self.outputs
            && outputs::clear_aside(items, outputs, &self.root, self.steps)
            && let Some((journal, record)) = &mut self.journal
        {
            record.outputs.clear();
            record.outputs_delivered = swaps;
            // All is delivered; a record that still names what was put aside makes the next command look for it.
            let _looked_for = journal.write(record, self.steps);
        }
        let record = self.journal.take().map(|(journal, _)| journal.folder().to_path_buf());
        if let Some(undo) = record.as_deref().and_then(Path::parent) {
            // One that cannot be removed is tried again by the next delivery.
            let _all_is_delivered = prune(undo, RECORDS);
        }
        Ok(record)
    }

    fn run(&mut self) -> Result<(), DeliverError> {
        self.stage_outputs()?;
        for item in 0..self.items.len() {
            self.attempt(item, |this| this.write_new(item))?;
        }
        let makes_way = |this: &Self, item: usize| {
            let path = this.items[item].path;
            let other_is_related = |other: &Item<'_>| {
                other.change.after != Entry::Absent && (other.path.is_under(path) || path.is_under(other.path))
            };
            this.items.iter().any(other_is_related)
        };
        let gone: Vec<usize> =
            (0..self.items.len()).filter(|item| self.items[*item].change.after == Entry::Absent).collect();
        let (first, last): (Vec<usize>, Vec<usize>) = gone.into_iter().partition(|item| makes_way(self, *item));
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
        self.swap_outputs(true)
    }

    /// Copies outputs to their temporary names, and notes in the record that all of them are there.
    fn stage_outputs(&mut self) -> Result<(), DeliverError> {
        let Some((outputs, swaps)) = &mut self.outputs else { return Ok(()) };
        for (number, swap) in swaps.iter_mut().enumerate() {
            self.done.push(Done::OutputStaged(number));
            swap.stage(&self.root, outputs, self.steps).map_err(|error| DeliverError::io(&swap.path, &error))?;
        }
        match &mut self.journal {
            Some((journal, record)) if !swaps.is_empty() => {
                record.outputs = swaps.iter().map(OutputItem::saved).collect();
                journal.write(record, self.steps).map_err(|error| DeliverError::io("the undo record", &error))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Swaps outputs: removes old ones before the change is applied, as it may need their names, and adds new ones after it.
    fn swap_outputs(&mut self, coming: bool) -> Result<(), DeliverError> {
        let Some((_, swaps)) = &self.outputs else { return Ok(()) };
        for (number, swap) in swaps.iter().enumerate().filter(|(_, swap)| swap.is_new() == coming) {
            let mut made = Vec::new();
            let swapped = make_folders(&self.root, &RelPath::root(), &swap.path, self.steps, &mut made)
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

    fn attempt(&mut self, item: usize, act: impl FnOnce(&mut Self) -> io::Result<bool>) -> Result<(), DeliverError> {
        match act(self) {
            Ok(true) => Ok(()),
            Ok(false) => Err(moved(self.items[item].path)),
            Err(error) if is_missing(&error) || error.kind() == io::ErrorKind::AlreadyExists => {
                Err(moved(self.items[item].path))
            }
            Err(error) => Err(DeliverError::io(self.items[item].path, &error)),
        }
    }

    fn write_new(&mut self, item: usize) -> io::Result<bool> {
        let Item { path, change, folder, temporary } = &self.items[item];
        if change.after == Entry::Absent {
            return Ok(true);
        }
        let like = match self.root.parent_of(path) {
            Ok((folder, name)) => folder.like(name)?,
            Err(error) if is_missing(&error) => None,
            Err(error) => return Err(error),
        };
        let folder = self.root.enter(folder)?;
        self.done.push(Done::Written { item });
        folder.create(temporary, &change.after, like.as_ref(), self.steps)?;
        Ok(true)
    }

    fn put_in_place(&mut self, item: usize) -> io::Result<bool> {
        let Item { path, change, folder, temporary } = &self.items[item];
        if change.after == Entry::Absent {
            return Ok(true);
        }
        let from = self.root.enter(folder)?;
        if change.before == Entry::Absent {
            let mut made = Vec::new();
            let ready = make_folders(&self.root, folder, path, self.steps, &mut made);
            self.done.extend(made.into_iter().map(Done::FolderMade));
            ready?;
            let (parent, name) = self.root.parent_of(path)?;
            from.place(temporary, &parent, name, self.steps)?;
            self.done.push(Done::Placed { item });
            return Ok(true);
        }
        let (parent, name) = self.root.parent_of(path)?;
        from.exchange(temporary, &parent, name, self.steps)?;
        self.done.push(Done::Exchanged { item });
        // What was swapped out is what was really there, whoever wrote it and when.
        Ok(from.entry(temporary)? == change.before)
    }

    fn remove(&mut self, item: usize) -> io::Result<bool> {
        let Item { path, change, .. } = &self.items[item];
        let (parent, name) = self.root.parent_of(path)?;
        if parent.entry(name)? != change.before {
            return Ok(false);
        }
        let mode = mode_of(&parent, name)?;
        parent.unlink(name, self.steps)?;
        self.done.push(Done::Removed { item, mode });
        let mut folder = path.parent();
        while let Some(empty) = folder.filter(|folder| !folder.is_root()) {
            let (parent, name) = self.root.parent_of(&empty)?;
            let mode = mode_of(&parent, name)?.unwrap_or(0o777);
            match parent.remove(name, self.steps) {
                Ok(()) => self.done.push(Done::FolderRemoved(empty.clone(), mode)),
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => break,
                Err(error) => return Err(error),
            }
            folder = empty.parent();
        }
        Ok(true)
    }

    /// Rolls back everything, in reverse, and returns the cause with a note on how that went.
    pub fn roll_back(mut self, cause: DeliverError) -> DeliverError {
        let stuck = self.take_all_back();
        if stuck.is_empty() {
            if let Some((journal, _)) = self.journal.take() {
                journal.discard();
            }
            return match cause {
                DeliverError::Io { message, hint, .. } => DeliverError::Io { message, hint, rolled_back: true },
                DeliverError::Conflict { .. }
                | DeliverError::Input { .. }
                | DeliverError::Denied { .. }
                | DeliverError::Selection(_) => cause,
            };
        }
        let hint = match &self.journal {
            Some(_) => format!("run `qwen undo {}` to restore the rest", self.run_id),
            None => "check the files named above".to_owned(),
        };
        DeliverError::Io {
            message: format!("{cause}; rolling back failed: {}", stuck.join("; ")),
            hint,
            rolled_back: false,
        }
    }

    /// Rolls back everything that was done, in reverse, and returns what could not be rolled back.
    fn take_all_back(&mut self) -> Vec<String> {
        let done = std::mem::take(&mut self.done);
        let dropped: BTreeSet<usize> = done
            .iter()
            .filter_map(|done| if let Done::OldDropped { item } = done { Some(*item) } else { None })
            .collect();
        let mut stuck = Vec::new();
        for done in done.iter().rev() {
            // The old contents may still be aside.
            if matches!(done, Done::OutputStaged(_)) && !stuck.is_empty() {
                continue;
            }
            if let Err(error) = self.take_back(done, &dropped)
                && (!is_missing(&error) || matches!(done, Done::OutputSwapped(_)))
            {
                stuck.push(error.to_string());
            }
        }
        stuck
    }

    fn take_back(&self, done: &Done, dropped: &BTreeSet<usize>) -> io::Result<()> {
        match done {
            Done::Written { item } | Done::Placed { item } | Done::Exchanged { item } => {
                let Item { path, change, folder, temporary } = &self.items[*item];
                let from = self.root.enter(folder)?;
                match done {
                    Done::Placed { .. } => {
                        let (parent, name) = self.root.parent_of(path)?;
                        parent.place(name, &from, temporary, self.steps)
                    }
                    Done::Exchanged { .. } if dropped.contains(item) => {
                        restore(&self.root, path, (&change.before, None), &self.run_id, self.steps)
                    }
                    Done::Exchanged { .. } => {
                        let (parent, name) = self.root.parent_of(path)?;
                        from.exchange(temporary, &parent, name, self.steps)
                    }
                    _ => from.unlink(temporary, self.steps),
                }
            }
            Done::Removed { item, mode } => {
                let Item { path, change, .. } = &self.items[*item];
                restore(&self.root, path, (&change.before, *mode), &self.run_id, self.steps)
            }
            Done::FolderMade(path) => {
                let (parent, name) = self.root.parent_of(path)?;
                parent.remove(name, self.steps)
            }
            Done::FolderRemoved(path, mode) => {
                let (parent, name) = self.root.parent_of(path)?;
                parent.make(name, self.steps)?;
                parent.set_mode(name, *mode)
            }
            Done::OldDropped { .. } => Ok(()),
            Done::OutputStaged(number) => self.swaps()[*number].clear(&self.root, self.steps),
            Done::OutputSwapped(number) => self.swaps()[*number].swap_back(&self.root, self.steps),
        }
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
        if matches!(committed, None | Some(Ok(CommitUndone::Gone(None))))
            && self.take_all_back().is_empty()
            && let Some((journal, _)) = self.journal.take()
        {
            journal.discard();
        }
    }
}

fn mode_of(parent: &Folder, name: &OsStr) -> io::Result<Option<u32>> {
    let mode = |stat: rustix::fs::Stat| -> u32 { number(stat.st_mode) };
    Ok(parent.stat(name)?.map(|stat| mode(stat) & 0o7777))
}

/// Finds the deepest existing directory on the way to a path.
fn standing_folder(root: &Folder, changes: &ChangeSet, path: &RelPath) -> Result<RelPath, DeliverError> {
    let mut standing = RelPath::root();
    for folder in folders_between(&RelPath::root(), path) {
        let stat = root
            .parent_of(&folder)
            .and_then(|(parent, name)| parent.stat(name))
            .map_err(|error| DeliverError::io(&folder, &error))?;
        match stat.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            Some(FileType::Directory) => standing = folder,
            None => break,
            // It is removed for the directory.
            Some(_) if changes.staged(&folder) == Some(&Entry::Absent) => break,
            Some(_) => {
                return Err(DeliverError::conflict(
                    format!("cannot write {path}: {folder} is no longer a directory"),
                    "run again on the current files",
                ));
            }
        }
    }
    Ok(standing)
}
#[cfg(test)]
mod tests;
