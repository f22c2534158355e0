//! Maintains the command workspace: the workspace as it is staged, in a private directory, searched for changes after
//! each command.
//!
//! The project's own directory is never used. What a command changes is judged like any write; build output in ignored
//! directories stays here and lives as long as the run.

#![expect(clippy::disallowed_methods, reason = "the lent tree is made and brought up to date here")]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime};

use rustix::fs::FileType;

use super::changed_since;
use super::copy;
use super::disk::Disk;
use super::folder::{Folder, is_missing};
use super::ignore::{Kind, Level, Source};
use super::layer::Layer;
use super::snapshot::{Snapshot, Stat};
use super::temporary::Temporary;
use super::{Workspace, WorkspaceError};
use crate::change::{Change, ChangeSet, Entry};
use crate::git::repository::Repository;
use crate::path::RelPath;

mod ignored;
mod layered;
mod scratch;

pub use ignored::Output;
use layered::Found;
pub use scratch::Scratch;
use scratch::{APART, scratch_git_of};

/// How to make a command workspace.
pub struct LendOptions<'a> {
    /// The repository that holds the workspace.
    pub repository: Option<&'a Repository>,
    /// Tells whether a file may be read; what may not is never copied.
    pub may_read: &'a dyn Fn(&RelPath) -> bool,
    /// Maximum bytes of ignored files and directories (`sandbox.copy_max`).
    pub copy_max: u64,
    /// The private directory's parent; `None`: the system's directory for temporary files.
    pub parent: Option<&'a Path>,
    /// Where commands see the repository's objects, if not at their own path.
    pub objects_at: Option<&'a Path>,
    /// The deadline for making a copy; `None`: no limit.
    pub until: Option<Instant>,
    /// Whether a layer over the project may take the place of a large copy: the kernel mounts overlays, and no program
    /// will be at work in the tree while another begins.
    pub layers: bool,
    /// Whether [`Lent::ignored_outputs`] will be asked for.
    pub ignored_outputs: bool,
}

impl LendOptions<'_> {
    pub(super) fn in_time(&self) -> io::Result<()> {
        in_time(self.until)
    }
}

/// Fails once the deadline has passed.
pub(super) fn in_time(until: Option<Instant>) -> io::Result<()> {
    match until {
        Some(until) if Instant::now() >= until => {
            Err(io::Error::new(io::ErrorKind::TimedOut, "copying it took too long and was given up"))
        }
        Some(_) | None => Ok(()),
    }
}

/// Maximum bytes of a file that is staged after a command changed it.
const LARGEST: u64 = 256 << 20;

/// Maximum bytes of a path that a command may make: with the root before it, systems allow 4,096.
const LONGEST: usize = 3_500;

/// A command workspace. It is removed when this is dropped.
pub struct Lent {
    root: PathBuf,
    /// The root, held open: earlier programs may still write below it, and links that they make must not lead out.
    tree: Folder,
    /// What commands write over the project, if it is not copied.
    layer: Option<Arc<Layer>>,
    /// The repository whose tracked files count even if they are ignored.
    repository: Option<Repository>,
    tracked: OnceLock<io::Result<BTreeSet<RelPath>>>,
    /// Paths where the layer is known to hide what the project has.
    covered: BTreeSet<RelPath>,
    reads: Vec<PathBuf>,
    left_out: Vec<LeftOut>,
    snapshot: Snapshot,
    /// The ignored files of a copy as they were copied, where they are asked for later.
    ignored: Snapshot,
    /// When the tree was made.
    since: SystemTime,
    /// What the workspace had staged when this tree was last synchronised.
    flushed: BTreeMap<RelPath, Entry>,
    rules: Source,
    real_root: PathBuf,
    git: Option<Scratch>,
    scratch: Temporary,
}

/// Something that is not in the command workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The path.
    pub path: RelPath,
    /// Why.
    pub why: WhyLeftOut,
}

/// Why something is not in the command workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhyLeftOut {
    /// It may not be read.
    Denied,
    /// It is ignored by git and larger than what is left of `copy_max`.
    TooLarge,
    /// It is a socket, pipe or device.
    Special,
    /// The system does not let us read it.
    Unreadable,
}

/// What a command changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Collected {
    /// Taken into the staged changes, with the whole change so far.
    pub staged: Vec<(RelPath, Change)>,
    /// Refused and put back in the command workspace, with the reason.
    pub refused: Vec<(RelPath, String)>,
}

impl Workspace {
    /// Makes the command workspace: tracked and untracked files, ignored ones up to `copy_max`, denied ones never. If
    /// the copy would be large and `layers` allows it, a layer over the project, ignored files included, replaces it.
    pub fn lend(&self, options: &LendOptions<'_>) -> Result<Lent, WorkspaceError> {
        let failed = |cause| WorkspaceError::Io { path: self.root.clone(), cause };
        let since = SystemTime::now();
        let scratch = scratch(options).map_err(failed)?;
        let top = scratch.path().canonicalize().map_err(failed)?.join("tree");
        let root = options.repository.map_or(top.clone(), |repository| repository.prefix.under(&top));
        std::fs::create_dir_all(&root).map_err(failed)?;

        let (snapshot, ignored, left_out) = match copy::copy(&self.root, &root, options).map_err(failed)? {
            copy::Copied::Done(snapshot, ignored, left_out) => (snapshot, ignored, left_out),
            copy::Copied::Large => {
                return match self.lend_layered(options)? {
                    Some(lent) => Ok(lent),
                    None => self.lend(&LendOptions { layers: false, ..*options }),
                };
            }
        };
        let (git, reads) =
            scratch_git_of(options.repository, options.objects_at, top.join(".git"), Some(&top)).map_err(failed)?;
        changed_since::mark(scratch.path()).map_err(failed)?;
        let rules = Source::of_tree(&self.root, &root);
        Ok(Lent {
            tree: Folder::root(&root).map_err(failed)?,
            layer: None,
            repository: None,
            tracked: OnceLock::new(),
            covered: BTreeSet::new(),
            root,
            reads,
            left_out,
            snapshot,
            ignored,
            since,
            flushed: BTreeMap::new(),
            rules,
            real_root: self.root.clone(),
            git,
            scratch,
        })
    }

    fn change(&self, path: &RelPath) -> Option<Change> {
        self.changes.read().expect("no writer panics while it holds the lock").get(path).cloned()
    }

    fn first_state(&self, path: &RelPath) -> Result<Entry, WorkspaceError> {
        let disk = || Disk.entry(&path.under(&self.root));
        let known = self.changes.read().expect("no writer panics while it holds the lock").get(path).cloned();
        match known {
            Some(change) => Ok(change.before),
            None => disk().map_err(|cause| WorkspaceError::Io { path: path.as_path().into(), cause }),
        }
    }

    fn stage_judged(&self, path: &RelPath, change: Change) {
        let mut changes = self.changes.write().expect("no writer panics while it holds the lock");
        changes.stage(path.clone(), || change.before, change.after);
    }
}

impl Lent {
    /// Returns the directory that replaces the workspace's root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns directories next to the tree that commands must be able to read (the repository's objects).
    pub fn reads(&self) -> &[PathBuf] {
        &self.reads
    }

    /// Returns git's directory of the tree.
    pub fn git(&self) -> Option<&Scratch> {
        self.git.as_ref()
    }

    /// Takes git's directory out of the tree for good: no program that works in the tree finds it, and none that
    /// continues working can change it. A git command finds it by its path.
    pub fn keep_git_apart(&mut self) -> io::Result<()> {
        let Some(git) = self.git.as_mut().filter(|git| git.folder == git.work_tree.join(".git")) else {
            return Ok(());
        };
        let apart = self.scratch.path().canonicalize()?.join(APART);
        std::fs::rename(&git.folder, &apart)?;
        git.folder = apart;
        Ok(())
    }

    /// Returns the layer that commands write, if nothing was copied.
    pub fn layer(&self) -> Option<&Layer> {
        self.layer.as_deref()
    }

    /// Returns what commands see at a path.
    pub fn entry(&self, path: &RelPath) -> io::Result<Entry> {
        self.place(path)?.map_or(Ok(Entry::Absent), |(folder, name)| folder.entry(name))
    }

    /// Opens the directory in which commands see a path, and returns the path's name in it; `None` if there is none.
    fn place<'p>(&self, path: &'p RelPath) -> io::Result<Option<(Folder, &'p OsStr)>> {
        match &self.layer {
            None => match self.tree.parent_of(path) {
                Err(error) if is_missing(&error) => Ok(None),
                found => found.map(Some),
            },
            Some(layer) => Ok(layer.place(path)?.map(|place| (place.folder, place.name))),
        }
    }

    /// Returns what the system says of what commands see at a path, links not followed; `None` if nothing is there.
    fn stat(&self, path: &RelPath) -> io::Result<Option<rustix::fs::Stat>> {
        match self.place(path) {
            Ok(Some((folder, name))) => folder.stat(name),
            Ok(None) => Ok(None),
            Err(error) if is_link_in_the_way(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns what is not in the tree.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// Brings the tree up to date with what is staged. Call it before each command.
    pub fn flush(&mut self, workspace: &Workspace) -> Result<(), WorkspaceError> {
        let changes = workspace.changes();
        let mut wanted: BTreeMap<RelPath, Entry> =
            changes.iter().map(|(path, change)| (path.clone(), change.after.clone())).collect();
        for path in self.flushed.keys().filter(|path| !wanted.contains_key(*path)).cloned().collect::<Vec<_>>() {
            // The path is unchanged again.
            let first = if self.lacks(&path) { Entry::Absent } else { workspace.first_state(&path)? };
            self.put(&path, &first)?;
        }
        // Deletions make room for new entries.
        for absent in [true, false] {
            for (path, entry) in wanted.iter().filter(|(_, entry)| (**entry == Entry::Absent) == absent) {
                if self.flushed.get(path) != Some(entry) {
                    self.put(path, entry)?;
                }
            }
        }
        self.flushed = std::mem::take(&mut wanted);
        Ok(())
    }

    /// Stages what has changed in the tree, each path judged like a write; what is refused is restored. Call it after
    /// each command.
    pub fn collect(
        &mut self,
        workspace: &Workspace,
        judge: &dyn Fn(&RelPath, &Change) -> Result<(), String>,
    ) -> Result<Collected, WorkspaceError> {
        let staged = workspace.changes();
        let now = self.now().map_err(|cause| WorkspaceError::Io { path: self.root.clone(), cause })?;
        self.snapshot.begin();
        let looked = if self.layer.is_some() { self.look_over(&staged) } else { self.look_through(&staged) };
        let Found { changed: mut candidates, mut gone, too_deep } =
            looked.map_err(|cause| WorkspaceError::Io { path: self.root.clone(), cause })?;
        self.rules.check().map_err(|cause| WorkspaceError::Io { path: self.root.clone(), cause })?;
        for path in self.snapshot.missed() {
            // It is gone, or is tracked in an ignored directory.
            match self.file_at(&path)? {
                Some(stat) if self.snapshot.meet(&path, stat) => candidates.push(path),
                Some(_) => {}
                None => gone.push(path),
            }
        }
        // A removed file counts again when it is back, in an ignored directory too.
        let back = staged.iter().map(|(path, _)| path).filter(|path| !self.snapshot.knows(path));
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
        self.flushed = workspace.changes().iter().map(|(path, change)| (path.clone(), change.after.clone())).collect();
        Ok(collected)
    }

    /// Asks the file system for its time.
    fn now(&self) -> io::Result<Stat> {
        let probe = self.scratch.path().join("clock");
        std::fs::write(&probe, b"?")?;
        Ok(Stat::of(&probe.symlink_metadata()?))
    }

    /// Looks at every file that counts. However deep the tree is, one directory is open at a time.
    fn look_through(&mut self, staged: &ChangeSet) -> io::Result<Found> {
        let mut found = Found::default();
        let mut ahead = vec![(RelPath::root(), Level::root(&self.rules))];
        while let Some((at, rules)) = ahead.pop() {
            let folder = match self.tree.enter(&at) {
                // A directory that a command makes unreadable or removes meanwhile contains nothing to stage.
                Err(error) if !at.is_root() && (is_closed(&error) || is_missing(&error)) => continue,
                entered => entered?,
            };
            for (name, kind) in folder.names()? {
                let Some(path) = at.child(&name) else { continue };
                // Git's own directory, or one that a command made: never part of the changes.
                if name == ".git" {
                    continue;
                }
                if kind.is_dir() {
                    if !rules.child(&name, Kind::Folder).git {
                        let inner = rules.enter(&self.rules, &path);
                        ahead.push((path, inner));
                    }
                    continue;
                }
                if !kind.is_file() && !kind.is_symlink() {
                    continue;
                }
                let counts =
                    self.snapshot.knows(&path) || staged.get(&path).is_some() || !rules.child(&name, Kind::File).git;
                if counts
                    && let Some(stat) = folder.stat(&name)?
                    && self.snapshot.meet(&path, Stat::of_raw(&stat))
                {
                    found.changed.push(path);
                }
            }
        }
        Ok(found)
    }

    /// Returns the metadata of a file or link of the tree; `None` for a directory, and behind a link.
    ///
    /// A directory that a command made unreadable is empty, as for every later command. Any other error is reported:
    /// what cannot be examined is not gone.
    fn file_at(&self, path: &RelPath) -> Result<Option<Stat>, WorkspaceError> {
        let stat = match self.stat(path) {
            Err(error) if is_closed(&error) => None,
            looked => looked.map_err(|cause| WorkspaceError::Io { path: path.under(&self.root), cause })?,
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
        let size = self.file_at(path)?.map_or(0, |stat| stat.size());
        let was = self.was(workspace, path)?;
        let judged = if size > LARGEST {
            Err(format!("a file of {size} bytes is too large to be staged"))
        } else {
            let failed = |cause| WorkspaceError::Io { path: path.under(&self.root), cause };
            let found = self.entry(path).map_err(failed)?;
            self.judged(path, self.to_real(found), &was, workspace, judge)?
        };
        match judged {
            Ok(None) => match self.file_at(path)? {
                Some(stat) => self.snapshot.remember(path.clone(), stat, now),
                None => self.snapshot.forget(path),
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
        Ok(())
    }

    /// Returns the change to stage; `None` if the contents are as they were.
    fn judged(
        &self,
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

    /// Tells whether the tree never had what the project has at a path: then a refusal does not restore it.
    fn lacks(&self, path: &RelPath) -> bool {
        self.left_out.iter().any(|left| *path == left.path || path.is_under(&left.path))
    }

    /// Returns what was at a path before the command.
    fn was(&self, workspace: &Workspace, path: &RelPath) -> Result<Entry, WorkspaceError> {
        match workspace.change(path) {
            Some(change) => Ok(change.after),
            None => workspace.first_state(path),
        }
    }

    fn note(&mut self, path: &RelPath) -> Result<(), WorkspaceError> {
        match self.file_at(path)? {
            Some(stat) => self.snapshot.refresh(path.clone(), stat),
            None => self.snapshot.forget(path),
        }
        Ok(())
    }

    /// Puts an entry into the tree, replacing whatever is there.
    fn put(&mut self, path: &RelPath, entry: &Entry) -> Result<(), WorkspaceError> {
        let write = || -> io::Result<()> {
            if let Some(layer) = &self.layer {
                return layer.put(path, entry);
            }
            let (folder, name) = match entry {
                // There is nothing to remove below something that is not a directory.
                Entry::Absent => match self.tree.parent_of(path) {
                    Err(error) if is_missing(&error) => return Ok(()),
                    found => found?,
                },
                Entry::Link { .. } | Entry::File { .. } => self.tree.make_way_to(path)?,
            };
            folder.clear(name)?;
            match entry {
                Entry::Absent => Ok(()),
                Entry::Link { target } => folder.write(name, &Entry::Link { target: self.to_lent(target) }),
                Entry::File { .. } => folder.write(name, entry),
            }
        };
        write().map_err(|cause| WorkspaceError::Io { path: path.under(&self.root), cause })?;
        self.note(path)
    }

    /// A link to an absolute place in the project leads to the same place in the command workspace, or commands would
    /// write to the project through it.
    fn to_lent(&self, target: &[u8]) -> Vec<u8> {
        moved(target, &self.real_root, &self.root)
    }

    fn to_real(&self, entry: Entry) -> Entry {
        match entry {
            Entry::Link { target } => Entry::Link { target: moved(&target, &self.root, &self.real_root) },
            Entry::Absent | Entry::File { .. } => entry,
        }
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

/// Makes the private directory of a command workspace.
fn scratch(options: &LendOptions<'_>) -> io::Result<Temporary> {
    match options.parent {
        Some(parent) => Temporary::inside(parent, "tree-"),
        None => Temporary::new("tree-"),
    }
}

/// Returns the tracked files, which count in an ignored directory, too. Without git there is no list.
pub(super) fn tracked(repository: Option<&Repository>) -> io::Result<BTreeSet<RelPath>> {
    match repository.map(Repository::tracked) {
        None => Ok(BTreeSet::new()),
        Some(Ok(list)) => Ok(list.into_iter().collect()),
        Some(Err(error)) if error.has_no_git() => Ok(BTreeSet::new()),
        Some(Err(error)) => Err(io::Error::other(error)),
    }
}

/// A link replaced a directory: nothing behind it is looked at.
fn is_link_in_the_way(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

pub(super) fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound)
}

pub(super) fn moved(target: &[u8], from: &Path, to: &Path) -> Vec<u8> {
    match target.strip_prefix(from.as_os_str().as_bytes()) {
        Some(rest) if rest.is_empty() || rest[0] == b'/' => [to.as_os_str().as_bytes(), rest].concat(),
        Some(_) | None => target.to_vec(),
    }
}

#[cfg(test)]
mod tests;
