//! Puts the old contents of a record in their places: all of them or none.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::super::directories::{back_name, folders_between, has_above, has_below, make_folders};
use super::super::journal::{self, Journal, Record, Saved, Shape, State};
use super::super::left_over::clear_left_over;
use super::super::swaps::{Swap, changed, is_changed};
use crate::change::Entry;
use crate::path::RelPath;
use crate::workspace::folder::{Folder, Like, is_missing};
use crate::workspace::steps::Steps;

/// Restores a record's files, and remembers what was done so far.
pub(super) struct Plan<'a> {
    tree: &'a Folder,
    /// The directories that the run made, outermost first.
    made: Vec<RelPath>,
    /// Those of the record.
    modes: BTreeMap<RelPath, u32>,
    items: Vec<Item>,
    steps: &'a Steps,
    done: Vec<Done>,
    /// What the record had already as narrowed.
    narrow_before: Vec<String>,
    /// Whether an earlier attempt was killed: what it did is not known here.
    pub(super) is_continued: bool,
}

/// A file that is as the run left it.
struct Item {
    path: RelPath,
    aside: RelPath,
    before: Shape,
    after: Shape,
}

/// One change to the tree, with the number of its item.
enum Done {
    Exchanged(usize),
    Put(usize),
    Taken(usize),
    FolderMade(RelPath),
    /// With its mode.
    FolderRemoved(RelPath, u32),
}

impl Item {
    /// Tells whether the run made the file: it is taken away.
    fn is_added(&self) -> bool {
        self.before == Shape::Absent
    }
}

impl<'a> Plan<'a> {
    pub(super) fn new(
        tree: &'a Folder,
        record: &Record,
        files: Vec<(RelPath, Saved)>,
        steps: &'a Steps,
    ) -> io::Result<Plan<'a>> {
        let made = record.folders_made.iter().map(|folder| journal::path(folder)).collect::<io::Result<_>>()?;
        let mode = |(path, mode): (&String, &u32)| Ok((journal::path(path)?, *mode));
        let modes = record.modes.iter().map(mode).collect::<io::Result<_>>()?;
        let come_back: BTreeSet<RelPath> =
            files.iter().filter(|(_, file)| file.before != Shape::Absent).map(|(path, _)| path.clone()).collect();
        let mut items = Vec::new();
        for (number, (path, Saved { before, after, .. })) in files.into_iter().enumerate() {
            // A directory that becomes a file again is not there at the end.
            let goes = |folder: &RelPath| has_above(&come_back, folder);
            let mut folder = path.parent().unwrap_or_default();
            while !folder.is_root() && (goes(&folder) || !tree.has_folder(&folder)?) {
                folder = folder.parent().unwrap_or_default();
            }
            let name = format!("{}-{}", back_name(&record.run_id).to_string_lossy(), number + 1);
            let aside = folder.child(name).ok_or(io::ErrorKind::InvalidFilename)?;
            items.push(Item { path, aside, before, after });
        }
        let (narrow_before, is_continued) = (record.narrow.clone(), record.undoing);
        Ok(Plan { tree, made, modes, items, steps, done: Vec::new(), narrow_before, is_continued })
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &RelPath> {
        self.items.iter().map(|item| &item.path)
    }

    /// Returns the temporary names, as the record has them.
    pub(super) fn temporary(&self) -> Vec<String> {
        self.items.iter().map(|item| journal::quoted(item.aside.as_bytes())).collect()
    }

    /// Returns what is made anew and has a mode, with what an undoing that was killed has made, as the record has it.
    pub(super) fn narrow(&self, record: &Record) -> io::Result<Vec<String>> {
        let mut narrow: BTreeSet<String> = record.narrow.iter().cloned().collect();
        for Item { path, .. } in self.items.iter().filter(|item| !matches!(item.after, Shape::File { .. })) {
            for folder in folders_between(&RelPath::root(), path) {
                if self.modes.contains_key(&folder) && !self.tree.has_folder(&folder)? {
                    narrow.insert(journal::quoted(folder.as_bytes()));
                }
            }
            narrow.insert(journal::quoted(path.as_bytes()));
        }
        Ok(narrow.into_iter().collect())
    }

    /// Writes the old contents to their temporary names.
    pub(super) fn write_all(&self, journal: &Journal) -> io::Result<()> {
        let restored = self.items.iter().filter(|item| !item.is_added());
        restored.into_iter().try_for_each(|item| {
            let written = journal.entry(&item.before).and_then(|before| self.write(item, &before));
            written.map_err(|error| named(&item.path, error))
        })
    }

    fn write(&self, item: &Item, before: &Entry) -> io::Result<()> {
        let like = match self.tree.parent_of(&item.path) {
            Ok((parent, name)) => parent.like(name)?,
            Err(error) if is_missing(&error) => None,
            Err(error) => return Err(error),
        };
        let like = match (like, self.modes.get(&item.path)) {
            (Some(like), Some(mode)) => {
                Some(like.back_to(*mode, matches!(item.after, Shape::File { executable: true, .. })))
            }
            // It may wait in a directory that others can read.
            (None, Some(mode)) => Some(Like::with_mode(owners(*mode))),
            (like, None) => like,
        };
        let (parent, name) = self.tree.parent_of(&item.aside)?;
        parent.create(name, before, like.as_ref(), self.steps)
    }

    fn swap_of(&self, number: usize) -> Swap<'_> {
        let Item { path, aside, .. } = &self.items[number];
        Swap { tree: self.tree, path, aside, steps: self.steps }
    }

    /// Swaps everything in; returns what a directory is in the way of that is not the run's.
    pub(super) fn swap(&mut self, record: &Record) -> io::Result<Vec<RelPath>> {
        let restored: BTreeSet<RelPath> =
            self.items.iter().filter(|item| !item.is_added()).map(|item| item.path.clone()).collect();
        let in_the_way = |path: &RelPath| has_below(&restored, path) || has_above(&restored, path);
        let (added, back): (Vec<usize>, Vec<usize>) =
            (0..self.items.len()).partition(|number| self.items[*number].is_added());
        let (first, last): (Vec<usize>, Vec<usize>) =
            added.into_iter().partition(|number| in_the_way(&self.items[*number].path));
        for number in first {
            self.attempt(number, Plan::take)?;
        }
        let folders: Vec<RelPath> = self.made.iter().rev().filter(|folder| in_the_way(folder)).cloned().collect();
        for folder in folders {
            self.remove(&folder).map_err(|error| named(&folder, error))?;
        }
        let mut left_alone = Vec::new();
        for number in back {
            match self.tree.has_folder(&self.items[number].path)? {
                true => left_alone.push(self.items[number].path.clone()),
                false => self.attempt(number, Plan::bring_back)?,
            }
        }
        for number in last {
            self.attempt(number, Plan::take)?;
        }
        // Children first: a directory may be closed to its owner as well.
        let narrow: BTreeSet<RelPath> =
            record.narrow.iter().map(|path| journal::path(path)).collect::<io::Result<_>>()?;
        let befores: BTreeMap<&str, &Shape> =
            record.files.iter().map(|file| (file.path.as_str(), &file.before)).collect();
        narrow.iter().rev().try_for_each(|path| {
            let before = befores.get(journal::quoted(path.as_bytes()).as_str()).copied();
            self.widen(path, before).map_err(|error| named(path, error))
        })?;
        Ok(left_alone)
    }

    fn attempt(&mut self, number: usize, act: impl FnOnce(&mut Self, usize) -> io::Result<()>) -> io::Result<()> {
        act(self, number).map_err(|error| {
            let path = &self.items[number].path;
            let is_moved = error.kind() == io::ErrorKind::AlreadyExists || is_missing(&error);
            if is_moved { changed(path) } else { named(path, error) }
        })
    }

    fn take(&mut self, number: usize) -> io::Result<()> {
        self.swap_of(number).take()?;
        self.done.push(Done::Taken(number));
        self.swap_of(number).check(&|entry| Shape::of(entry) == self.items[number].after)
    }

    fn remove(&mut self, folder: &RelPath) -> io::Result<()> {
        if !self.tree.has_folder(folder)? {
            return Ok(());
        }
        let (parent, name) = self.tree.parent_of(folder)?;
        let mode = parent.mode_of(name)?.unwrap_or(0o777);
        match parent.remove(name, self.steps) {
            Ok(()) => self.done.push(Done::FolderRemoved(folder.clone(), mode)),
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn bring_back(&mut self, number: usize) -> io::Result<()> {
        let Item { path, after, .. } = &self.items[number];
        let mut made = Vec::new();
        // Until everything is in it, its owner may write there.
        let mode = |folder: &RelPath| self.modes.get(folder).map(|mode| mode | 0o700);
        let ready = make_folders(self.tree, (&RelPath::root(), path), &mode, self.steps, &mut made);
        self.done.extend(made.into_iter().map(Done::FolderMade));
        ready?;
        if *after == Shape::Absent {
            self.swap_of(number).put()?;
            self.done.push(Done::Put(number));
            return Ok(());
        }
        self.swap_of(number).exchange()?;
        self.done.push(Done::Exchanged(number));
        self.swap_of(number).check(&|entry| Shape::of(entry) == self.items[number].after)
    }

    /// Gives what was made anew the mode that it had.
    fn widen(&self, path: &RelPath, before: Option<&Shape>) -> io::Result<()> {
        let Some(mode) = self.modes.get(path) else { return Ok(()) };
        match before {
            Some(before @ Shape::File { .. }) if Shape::of(&self.tree.entry_at(path)?) == *before => {
                let (parent, name) = self.tree.parent_of(path)?;
                // One with another mode was never narrowed, or somebody has changed it since.
                let is_narrow = parent.mode_of(name)?.is_some_and(|now| now != *mode && now & 0o077 == 0);
                if is_narrow { parent.set_mode_of_file(name, *mode) } else { Ok(()) }
            }
            None if self.tree.has_folder(path)? => {
                let (parent, name) = self.tree.parent_of(path)?;
                parent.set_mode(name, *mode)
            }
            _ => Ok(()),
        }
    }

    /// Rolls back what was done, last first, and removes what was written for it; what somebody wrote meanwhile is kept,
    /// and named. Then the record no longer says that undoing has begun: the next delivery would finish that. Tells whether
    /// all of that succeeded.
    pub(super) fn give_up(&self, journal: &Journal, record: &mut Record, set_aside: &mut Vec<RelPath>) -> bool {
        let stuck = self.done.iter().rev().filter(|done| self.take_back(done).is_err()).count();
        if stuck > 0 {
            // Files set aside must stay: the record names them, and the next attempt begins with them.
            return false;
        }
        let mut temporary = std::mem::take(&mut record.temporary);
        let _stays = clear_left_over(&mut temporary, record, self.tree, set_aside, self.steps);
        record.swapping &= !temporary.is_empty();
        record.temporary = temporary;
        record.narrow.clone_from(&self.narrow_before);
        // A delivery that was killed is rolled back to its end.
        record.undoing = self.is_continued || record.state == State::Begun;
        let is_closed = || Journal::open(journal.folder()).is_ok_and(|(_, saved)| saved.undoing == record.undoing);
        journal.write(record, self.steps).is_ok() || is_closed()
    }

    fn take_back(&self, done: &Done) -> io::Result<()> {
        match done {
            Done::Exchanged(number) => {
                self.swap_of(*number).exchange_back(&|entry| Shape::of(entry) == self.items[*number].before)
            }
            Done::Put(number) => {
                let Item { path, before, .. } = &self.items[*number];
                let (parent, name) = self.tree.parent_of(path)?;
                if let Some(mode) = self.modes.get(path) {
                    // Where it waits for its removal others may read.
                    let _stays = parent.set_mode_of_file(name, owners(*mode));
                }
                self.swap_of(*number).put_back(&|entry| Shape::of(entry) == *before)
            }
            Done::Taken(number) => self.swap_of(*number).put(),
            Done::FolderMade(folder) => {
                let (parent, name) = self.tree.parent_of(folder)?;
                match parent.remove(name, self.steps) {
                    // Somebody has used it meanwhile.
                    Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
                    removed => removed,
                }
            }
            Done::FolderRemoved(folder, mode) => {
                let (parent, name) = self.tree.parent_of(folder)?;
                parent.make(name, Some(*mode), self.steps)
            }
        }
    }
}

/// Returns a mode without the rights of others; the owner can read and write.
fn owners(mode: u32) -> u32 {
    mode & 0o700 | 0o600
}

/// Names the path of an error, except of one that has it.
fn named(path: &RelPath, error: io::Error) -> io::Error {
    match is_changed(&error) {
        true => error,
        false => io::Error::new(error.kind(), format!("{path}: {error}")),
    }
}
