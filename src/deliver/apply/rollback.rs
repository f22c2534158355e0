//! Rolls back a delivery: what somebody wrote meanwhile stays where it is, and is named.

use std::collections::BTreeSet;
use std::io;

use super::super::directories::restore;
use super::super::error::DeliverError;
use super::{Applied, Done, Item};
use crate::change::Entry;
use crate::workspace::folder::is_missing;

impl Applied<'_> {
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
    pub(super) fn take_all_back(&mut self) -> Vec<String> {
        let done = std::mem::take(&mut self.done);
        let mut stuck = Vec::new();
        let mut kept = BTreeSet::new();
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
            let Err(error) = self.take_back(done) else { continue };
            match done {
                Done::Exchanged { item } | Done::Placed { item } | Done::Removed { item, .. } => {
                    kept.insert(*item);
                    let aside = &self.items[*item].aside;
                    stuck.push(format!("{}: {error}; what was there before is in {aside}", self.items[*item].path));
                }
                _ if is_missing(&error) && !matches!(done, Done::OutputSwapped(_)) => {}
                _ => stuck.push(error.to_string()),
            }
        }
        stuck
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
