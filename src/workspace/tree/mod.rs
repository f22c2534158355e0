//! Maintains the command workspace: the workspace as it is staged, in a private directory, searched for changes after
//! each command.
//!
//! The project's own directory is never used. What a command changes is judged like any write; build output in ignored
//! directories stays here and lives as long as the run.

#![expect(clippy::disallowed_methods, reason = "the command workspace is made and brought up to date here")]

mod changed_since;
mod common;
mod copy;
mod copying;
mod git;
pub(super) mod layer;
mod leftovers;
mod options;
mod outputs;
mod overlay;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::FileType;

use super::disk::Disk;
use super::folder::{Folder, is_missing};
use super::ignore::Source;
use super::snapshot::{Stat, number};
use super::view::{Workspace, WorkspaceError};
use crate::change::{Change, ChangeSet, Entry};
use crate::path::RelPath;
use common::{Common, Found, LONGEST, Place};
use copying::copy_between;
use options::is_closed;
use outputs::{Held, Rules};

pub use copy::CopyTree;
pub use git::Scratch;
pub use layer::Layer;
pub use options::{LeftOut, TreeOptions, WhyLeftOut};
pub use outputs::Output;
pub use overlay::OverlayTree;

/// Maximum bytes of a file that is staged after a command changed it.
const LARGEST: u64 = 256 << 20;

/// A command workspace. It is removed when this is dropped.
pub enum CommandTree {
    /// A copy of the project.
    Copy(CopyTree),
    /// A layer over the project, of which only writes are searched.
    Overlay(OverlayTree),
}

/// What a command changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Collected {
    /// Taken into the staged changes, with the whole change so far.
    pub staged: Vec<(RelPath, Change)>,
    /// Refused and put back in the command workspace, with the reason.
    pub refused: Vec<(RelPath, String)>,
}

impl CommandTree {
    /// Makes a command workspace for the project at `root`, without what is staged: a copy, or where that would be large
    /// and `layers` allows it, a layer over the project, ignored files included.
    pub fn make(root: &Path, options: &TreeOptions<'_>) -> Result<CommandTree, WorkspaceError> {
        let failed = |cause| WorkspaceError::Io { path: root.to_path_buf(), cause };
        if let Some(copy) = CopyTree::make(root, options).map_err(failed)? {
            return Ok(CommandTree::Copy(copy));
        }
        match CommandTree::overlay(root, options)? {
            Some(overlay) => Ok(overlay),
            None => CommandTree::make(root, &TreeOptions { layers: false, ..*options }),
        }
    }

    /// Makes a layer over the project at `root`; `None` if none is possible.
    pub fn overlay(root: &Path, options: &TreeOptions<'_>) -> Result<Option<CommandTree>, WorkspaceError> {
        let made = OverlayTree::make(root, options);
        let made = made.map_err(|cause| WorkspaceError::Io { path: root.to_path_buf(), cause })?;
        Ok(made.map(CommandTree::Overlay))
    }

    fn common(&self) -> &Common {
        match self {
            CommandTree::Copy(tree) => &tree.common,
            CommandTree::Overlay(tree) => &tree.common,
        }
    }

    fn common_mut(&mut self) -> &mut Common {
        match self {
            CommandTree::Copy(tree) => &mut tree.common,
            CommandTree::Overlay(tree) => &mut tree.common,
        }
    }

    /// Returns the directory that replaces the workspace's root.
    pub fn root(&self) -> &Path {
        &self.common().root
    }

    /// Returns directories next to the tree that commands must be able to read (the repository's objects).
    pub fn reads(&self) -> &[PathBuf] {
        &self.common().reads
    }

    /// Returns git's directory of the tree.
    pub fn git(&self) -> Option<&Scratch> {
        self.common().git.as_ref()
    }

    /// Takes git's directory out of the tree for good: no program that works in the tree finds it, and none that
    /// continues working can change it. A git command finds it by its path.
    pub fn keep_git_apart(&mut self) -> io::Result<()> {
        let common = self.common_mut();
        match &mut common.git {
            Some(git) => git.keep_apart(common.directory.path()),
            None => Ok(()),
        }
    }

    /// Returns the layer that commands write, if nothing was copied.
    pub fn layer(&self) -> Option<&Layer> {
        match self {
            CommandTree::Copy(_) => None,
            CommandTree::Overlay(tree) => Some(&tree.layer),
        }
    }

    /// Returns what is not in the tree.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.common().left_out
    }

    /// Returns why commands did not see what the project has at a path, or above it.
    pub fn why_left_out(&self, path: &RelPath) -> Option<WhyLeftOut> {
        self.common().lack(path).map(|left| left.why)
    }

    /// Returns what commands see at a path.
    pub fn entry(&self, path: &RelPath) -> io::Result<Entry> {
        self.place(path)?.map_or(Ok(Entry::Absent), |(folder, name)| folder.entry(name))
    }

    /// Opens the directory in which commands see a path, and returns the path's name in it; `None` if there is none.
    fn place<'p>(&self, path: &'p RelPath) -> io::Result<Place<'p>> {
        match self {
            CommandTree::Copy(tree) => tree.place(path),
            CommandTree::Overlay(tree) => tree.place(path),
        }
    }

    /// Returns what the system says of what commands see at a path, links not followed; `None` if nothing is there.
    fn stat(&self, path: &RelPath) -> io::Result<Option<rustix::fs::Stat>> {
        common::stat(self.place(path))
    }

    /// Tells whether commands see a directory at a path.
    pub fn is_directory(&self, path: &RelPath) -> io::Result<bool> {
        Ok(self.stat(path)?.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir()))
    }

    /// Returns the mode of the directory that commands see at a path.
    pub fn mode_of_directory(&self, path: &RelPath) -> io::Result<Option<u32>> {
        let stat = self.stat(path)?.filter(|stat| FileType::from_raw_mode(stat.st_mode).is_dir());
        Ok(stat.map(|stat| number(stat.st_mode)))
    }

    /// Returns the target of what commands see at a path, if that is a link.
    pub fn link(&self, path: &RelPath) -> io::Result<Option<Vec<u8>>> {
        let Some((folder, name)) = self.place(path)? else { return Ok(None) };
        if !folder.stat(name)?.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode).is_symlink()) {
            return Ok(None);
        }
        Ok(Some(rustix::fs::readlinkat(&folder, name, Vec::new())?.into_bytes()))
    }

    /// Copies a file or link that commands see, with its mode and time, to a free name; no link is followed.
    pub fn copy_out(&self, path: &RelPath, to: &Folder, name: &OsStr) -> io::Result<()> {
        let (folder, from) = self.place(path)?.ok_or(io::ErrorKind::NotFound)?;
        copy_between(&folder, from, to, name)
    }

    /// Tells whether a file of the project was changed after this tree was made.
    pub fn was_changed_since(&self, stat: &rustix::fs::Stat) -> bool {
        let seconds = u64::try_from(stat.st_ctime).unwrap_or(0);
        let nanos = u32::try_from(stat.st_ctime_nsec).unwrap_or(0);
        SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos) >= self.common().since
    }

    /// Returns something below a directory that commands have made or changed, ignored files too. What `leaves_out` names
    /// is not looked at.
    pub fn changed_below(
        &self,
        directory: &RelPath,
        leaves_out: &dyn Fn(&RelPath) -> bool,
    ) -> io::Result<Option<RelPath>> {
        match self {
            CommandTree::Copy(tree) => tree.changed_below(directory, leaves_out),
            CommandTree::Overlay(tree) => tree.changed_below(directory, leaves_out),
        }
    }

    /// Returns the ignored files and links that commands made, changed or removed, by path.
    ///
    /// Ignored is what the project's own rules ignore, as they were before the run, and the rules of the tree as well:
    /// a run does not decide by itself what nobody looks at. Nothing below a name of git's own directory counts.
    pub fn ignored_outputs(&self, changes: &ChangeSet) -> io::Result<Vec<Output>> {
        let common = self.common();
        let before = Source::of_tree(&common.project, &common.project);
        let rules = Held::new(Rules::new(&common.rules, &before));
        let found = match self {
            CommandTree::Copy(tree) => tree.ignored_outputs(rules, changes)?,
            CommandTree::Overlay(tree) => tree.ignored_outputs(&rules, changes)?,
        };
        before.check()?;
        common.rules.check()?;
        Ok(found.into_iter().collect())
    }

    /// Brings what commands left in the ignored directories of another tree into this copy.
    pub fn take_over(&self, other: &CommandTree, changes: &ChangeSet) -> io::Result<()> {
        let CommandTree::Copy(copy) = self else { return Err(io::ErrorKind::Unsupported.into()) };
        for Output { path, is_gone } in other.ignored_outputs(changes)? {
            if self.why_left_out(&path).is_some() {
                continue;
            }
            let (folder, name) = match copy.tree.parent_of(&path) {
                Err(error) if is_missing(&error) && is_gone => continue,
                Err(error) if is_missing(&error) => copy.tree.make_way_to(&path)?,
                found => found?,
            };
            folder.clear(name)?;
            if !is_gone {
                other.copy_out(&path, &folder, name)?;
            }
        }
        Ok(())
    }

    /// Gives back the rights on the top that a command may have taken away.
    fn open_wide(&self) -> Result<(), WorkspaceError> {
        let opened = match self {
            CommandTree::Copy(tree) => tree.tree.open_wide(),
            CommandTree::Overlay(tree) => tree.layer.open_wide(),
        };
        opened.map_err(|cause| self.common().failed(cause))
    }

    /// Brings the tree up to date with what is staged. Call it before each command.
    pub fn sync_in(&mut self, staged: &ChangeSet) -> Result<(), WorkspaceError> {
        self.open_wide()?;
        let wanted: BTreeMap<RelPath, Entry> =
            staged.iter().map(|(path, change)| (path.clone(), change.after.clone())).collect();
        for path in self.common().synced.keys().filter(|path| !wanted.contains_key(*path)).cloned().collect::<Vec<_>>()
        {
            // The path is unchanged again.
            let first = if self.lacks(&path) { Entry::Absent } else { self.of_project(&path)? };
            self.put(&path, &first)?;
        }
        // Deletions make room for new entries.
        for absent in [true, false] {
            for (path, entry) in wanted.iter().filter(|(_, entry)| (**entry == Entry::Absent) == absent) {
                if self.common().synced.get(path) != Some(entry) {
                    self.put(path, entry)?;
                }
            }
        }
        self.common_mut().synced = wanted;
        Ok(())
    }

    /// Stages what has changed in the tree, each path judged like a write; what is refused is restored. Call it after
    /// each command.
    pub fn sync_out(
        &mut self,
        workspace: &Workspace,
        judge: &dyn Fn(&RelPath, &Change) -> Result<(), String>,
    ) -> Result<Collected, WorkspaceError> {
        self.open_wide()?;
        let staged = workspace.changes();
        let now = self.now().map_err(|cause| self.common().failed(cause))?;
        self.common_mut().snapshot.begin();
        let scanned = match self {
            CommandTree::Copy(tree) => tree.scan(&staged),
            CommandTree::Overlay(tree) => tree.scan(&staged),
        };
        let Found { changed: mut candidates, mut gone, too_deep } =
            scanned.map_err(|cause| self.common().failed(cause))?;
        self.common().rules.check().map_err(|cause| self.common().failed(cause))?;
        for path in self.common().snapshot.missed() {
            // It is gone, or is tracked in an ignored directory.
            match self.file_at(&path)? {
                Some(stat) if self.common_mut().snapshot.meet(&path, stat) => candidates.push(path),
                Some(_) => {}
                None => gone.push(path),
            }
        }
        // A removed file counts again when it is back, in an ignored directory too.
        let back = staged.iter().map(|(path, _)| path).filter(|path| !self.common().snapshot.knows(path));
        for path in back.cloned().collect::<Vec<_>>() {
            if self.file_at(&path)?.is_some() {
                candidates.push(path);
            }
        }
        let mut collected = Collected::default();
        for path in too_deep {
            self.put(&path, &Entry::Absent)?;
            collected.refused.push((beginning(&path), "directories are nested too deeply to be staged".to_owned()));
        }
        // Deletions first: where they are undone, nothing may be in the way.
        for path in gone.into_iter().chain(candidates) {
            self.take(&path, workspace, judge, now, &mut collected)?;
        }
        // The tree already holds all of this.
        self.common_mut().synced =
            workspace.changes().iter().map(|(path, change)| (path.clone(), change.after.clone())).collect();
        Ok(collected)
    }

    /// Asks the file system for its time.
    fn now(&self) -> io::Result<Stat> {
        let probe = self.common().directory.path().join("clock");
        std::fs::write(&probe, b"?")?;
        Ok(Stat::of(&probe.symlink_metadata()?))
    }

    /// Returns the metadata of a file or link of the tree; `None` for a directory, and behind a link.
    ///
    /// A directory that a command made unreadable is empty, as for every later command. Any other error is reported:
    /// what cannot be examined is not gone.
    fn file_at(&self, path: &RelPath) -> Result<Option<Stat>, WorkspaceError> {
        let stat = match self.stat(path) {
            Err(error) if is_closed(&error) => None,
            looked => looked.map_err(|cause| self.common().failed_at(path, cause))?,
        };
        Ok(stat.filter(|stat| !FileType::from_raw_mode(stat.st_mode).is_dir()).map(|stat| Stat::of_raw(&stat)))
    }

    fn take(
        &mut self,
        path: &RelPath,
        workspace: &Workspace,
        judge: &dyn Fn(&RelPath, &Change) -> Result<(), String>,
        now: Stat,
        collected: &mut Collected,
    ) -> Result<(), WorkspaceError> {
        if path.as_bytes().len() > LONGEST {
            self.put(path, &Entry::Absent)?;
            let reason = format!("a path of {} bytes below it is too long to be staged", path.as_bytes().len());
            collected.refused.push((beginning(path), reason));
            return Ok(());
        }
        let stat = self.file_at(path)?;
        let size = stat.map_or(0, |stat| stat.size());
        let was = before(workspace, path)?;
        let judged = if size > LARGEST {
            Err(format!("a file of {size} bytes is too large to be staged"))
        } else {
            let found = self.entry(path).map_err(|cause| self.common().failed_at(path, cause))?;
            judged(path, self.common().to_project(found), &was, workspace, judge)?
        };
        match judged {
            Ok(None) => match self.file_at(path)? {
                Some(stat) => self.common_mut().snapshot.remember(path.clone(), stat, now),
                None => self.common_mut().snapshot.forget(path),
            },
            Ok(Some(change)) => {
                workspace.stage_judged(path, change.clone());
                self.note(path)?;
                collected.staged.push((path.clone(), change));
            }
            Err(reason) => {
                let back = if self.lacks(path) { Entry::Absent } else { was };
                self.put(path, &back)?;
                collected.refused.push((path.clone(), reason));
            }
        }
        if let Some(stat) = stat {
            workspace.limit(path, stat.mode());
        }
        Ok(())
    }

    /// Tells whether the tree never had what the project has at a path: then a refusal does not restore it.
    fn lacks(&self, path: &RelPath) -> bool {
        self.common().lack(path).is_some()
    }

    /// Returns what the project has at a path.
    fn of_project(&self, path: &RelPath) -> Result<Entry, WorkspaceError> {
        let found = Disk.entry(&path.under(&self.common().project));
        found.map_err(|cause| WorkspaceError::Io { path: path.as_path().into(), cause })
    }

    fn note(&mut self, path: &RelPath) -> Result<(), WorkspaceError> {
        match self.file_at(path)? {
            Some(stat) => self.common_mut().snapshot.refresh(path.clone(), stat),
            None => self.common_mut().snapshot.forget(path),
        }
        Ok(())
    }

    /// Puts an entry into the tree, replacing whatever is there.
    fn put(&mut self, path: &RelPath, entry: &Entry) -> Result<(), WorkspaceError> {
        let put = match self {
            CommandTree::Copy(tree) => tree.put(path, entry),
            CommandTree::Overlay(tree) => tree.layer.put(path, entry),
        };
        put.map_err(|cause| self.common().failed_at(path, cause))?;
        self.note(path)
    }
}

/// Returns the change to stage; `None` if the contents are as they were.
fn judged(
    path: &RelPath,
    found: Entry,
    was: &Entry,
    workspace: &Workspace,
    judge: &dyn Fn(&RelPath, &Change) -> Result<(), String>,
) -> Result<Result<Option<Change>, String>, WorkspaceError> {
    if found == *was {
        return Ok(Ok(None));
    }
    let change = Change { before: workspace.first_state(path)?, after: found };
    Ok(judge(path, &change).map(|()| Some(change)))
}

/// Returns what was at a path before the command.
fn before(workspace: &Workspace, path: &RelPath) -> Result<Entry, WorkspaceError> {
    match workspace.change(path) {
        Some(change) => Ok(change.after),
        None => workspace.first_state(path),
    }
}

/// Returns the first directories of a path that is too long to be shown.
fn beginning(path: &RelPath) -> RelPath {
    let mut start = path.clone();
    while start.as_bytes().len() > 80 {
        start = start.parent().unwrap_or_default();
    }
    start
}

#[cfg(test)]
mod overlay_tests;
#[cfg(test)]
mod tests;
