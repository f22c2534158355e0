//! Rolls back a delivery: what somebody wrote meanwhile stays where it is, and is named.

use std::collections::BTreeSet;
use std::io;

use super::super::directories::restore;
use super::super::error::DeliverError;
use super::super::journal::Shape;
use super::super::left_over::{clear, kept_aside};
use super::super::undo::keep_committed;
use super::{Applied, Done, Item};
use crate::change::Entry;
use crate::path::RelPath;
use crate::workspace::folder::is_missing;

impl Applied<'_> {
    /// Rolls back everything, in reverse, and returns the cause with a note on how that went. What somebody has committed
    /// meanwhile stays.
    pub fn roll_back(mut self, cause: DeliverError) -> DeliverError {
        if let (Some((journal, record)), Some(_)) = (&mut self.journal, &self.commit)
            && let Ok(Some(kept)) = keep_committed(record, (&self.at, &self.root, journal))
        {
            (self.done, self.commit) = (Vec::new(), None);
            return cause.with(&kept.told());
        }
        let (stuck, set_aside) = self.take_all_back();
        let cause = set_aside.iter().fold(cause, |cause, path| cause.with(&kept_aside(path)));
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

    /// Rolls back everything that was done, in reverse. Returns what could not be rolled back, and where is kept what
    /// somebody wrote to a file that was in its place for a moment.
    pub(super) fn take_all_back(&mut self) -> (Vec<String>, Vec<RelPath>) {
        let done = std::mem::take(&mut self.done);
        let (mut stuck, mut set_aside) = (Vec::new(), Vec::new());
        let (mut kept, mut was_in_place) = (BTreeSet::new(), BTreeSet::new());
        for done in done.iter().rev() {
            // What was there, or what somebody wrote meanwhile, may still be aside.
            let is_aside = match done {
                Done::OutputStaged(_) => !stuck.is_empty(),
                Done::Written { item } => kept.contains(item),
                _ => false,
            };
            if is_aside {
                continue;
            }
            let taken_back = match done {
                Done::Written { item } if was_in_place.contains(item) => {
                    let Item { change, aside, .. } = &self.items[*item];
                    let after = Shape::of(&change.after);
                    clear(&self.root, aside, &|shape| *shape == after, self.steps).map(|kept| set_aside.extend(kept))
                }
                _ => self.take_back(done),
            };
            if let Done::Exchanged { item } | Done::Placed { item } = done {
                was_in_place.insert(*item);
            }
            let Err(error) = taken_back else { continue };
            match done {
                Done::Exchanged { item } | Done::Placed { item } | Done::Removed { item, .. } => {
                    kept.insert(*item);
                    let aside = &self.items[*item].aside;
                    stuck.push(format!("{}: {error}; what was there before is in {aside}", self.items[*item].path));
                }
                _ if is_missing(&error) && !matches!(done, Done::OutputSwapped(_)) => {}
                _ => stuck.push(format!("{}: {error}", self.path_of(done))),
            }
        }
        (stuck, set_aside)
    }

    fn path_of<'s>(&'s self, done: &'s Done) -> &'s RelPath {
        match done {
            Done::Written { item } => &self.items[*item].aside,
            Done::Exchanged { item }
            | Done::Placed { item }
            | Done::Removed { item, .. }
            | Done::Narrowed { item, .. } => self.items[*item].path,
            Done::FolderMade(path) | Done::FolderRemoved(path, _) => path,
            Done::OutputStaged(number) | Done::OutputSwapped(number) => &self.swaps()[*number].path,
        }
    }

    fn take_back(&self, done: &Done) -> io::Result<()> {
        match done {
            Done::Written { item } => {
                let (folder, name) = self.root.parent_of(&self.items[*item].aside)?;
                folder.unlink(name, self.steps)
            }
            Done::Placed { item } => {
                let Item { change, .. } = &self.items[*item];
                match self.swap(*item).put_back(&|entry| *entry == change.after) {
                    // Somebody has removed it.
                    Err(error) if is_missing(&error) => Ok(()),
                    taken_back => taken_back,
                }
            }
            Done::Exchanged { item } => {
                let Item { change, .. } = &self.items[*item];
                self.bring_back(*item, None, || self.swap(*item).exchange_back(&|entry| *entry == change.after))
            }
            Done::Removed { item, mode } => self.bring_back(*item, *mode, || self.swap(*item).put()),
            Done::Narrowed { item, mode } => {
                let Item { path, change, .. } = &self.items[*item];
                let (parent, name) = self.root.parent_of(path)?;
                // Another file keeps its own.
                if parent.entry(name)? == change.before { parent.set_mode_of_file(name, *mode) } else { Ok(()) }
            }
            Done::FolderMade(path) => {
                let (parent, name) = self.root.parent_of(path)?;
                parent.remove(name, self.steps)
            }
            Done::FolderRemoved(path, mode) => {
                let (parent, name) = self.root.parent_of(path)?;
                parent.make(name, Some(*mode), self.steps)
            }
            Done::OutputStaged(number) => self.swaps()[*number].clear(&self.root, self.steps),
            Done::OutputSwapped(number) => self.swaps()[*number].swap_back(&self.root, self.steps),
        }
    }

    /// Brings back what was there before: the file itself, as long as it is aside, else its contents.
    fn bring_back(&self, item: usize, mode: Option<u32>, file: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let Item { path, change, aside, .. } = &self.items[item];
        let (folder, name) = self.root.parent_of(aside)?;
        if folder.stat(name)?.is_some() {
            return file();
        }
        let is_ours = |entry: &Entry| *entry == change.after;
        restore(&self.root, path, (&change.before, mode), &is_ours, (&self.run_id, self.steps))
    }
}
