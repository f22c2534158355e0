//! The tree that commands work in: the workspace as it is staged, in a private folder, looked through after each one.
//!
//! The project's own folder is never lent. What a command changes is judged like any write; build output in ignored
//! folders stays here and lives as long as the run.

#![expect(clippy::disallowed_methods, reason = "the lent tree is made and brought up to date here")]

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use rustix::fs::FileType;

use super::copy;
use super::disk::Disk;
use super::folder::{Folder, is_missing};
use super::ignore::{Kind, Level, Source};
use super::kept::Kept;
use super::repository::Repository;
use super::scratch_git;
use super::snapshot::{Snapshot, Stat};
use super::{Workspace, WorkspaceError};
use crate::change::{Change, ChangeSet, Entry};
use crate::path::RelPath;

/// What is lent.
pub struct LendOptions<'a> {
    /// The repository that holds the workspace.
    pub repository: Option<&'a Repository>,
    /// Tells whether a file may be read; what may not is never copied.
    pub may_read: &'a dyn Fn(&RelPath) -> bool,
    /// The most bytes of ignored files and folders (`sandbox.copy_max`).
    pub copy_max: u64,
    /// The private folder's parent; `None`: the system's folder for temporary files.
    pub parent: Option<&'a Path>,
    /// Where commands see the repository's objects, if not at their own place: what is lent may be seen there.
    pub objects_at: Option<&'a Path>,
    /// When the making of a copy is given up; `None`: it takes what it takes.
    pub until: Option<Instant>,
}

impl LendOptions<'_> {
    pub(super) fn in_time(&self) -> io::Result<()> {
        in_time(self.until)
    }
}

/// Tells whether there is time left; the error says that the copy is given up.
pub(super) fn in_time(until: Option<Instant>) -> io::Result<()> {
    match until {
        Some(until) if Instant::now() >= until => {
            Err(io::Error::new(io::ErrorKind::TimedOut, "copying it took too long and was given up"))
        }
        Some(_) | None => Ok(()),
    }
}

/// The most bytes of one file that a command may change and have taken back into the changes.
const LARGEST: u64 = 256 << 20;

/// A tree lent to commands. It is removed when this is dropped.
pub struct Lent {
    root: PathBuf,
    /// The root, held open: programs of before may still be writing below it, and no link that they put there may lead
    /// us out of it.
    tree: Folder,
    reads: Vec<PathBuf>,
    left_out: Vec<LeftOut>,
    snapshot: Snapshot,
    /// What the workspace had staged when this tree was last brought up to it.
    flushed: BTreeMap<RelPath, Entry>,
    rules: Source,
    real_root: PathBuf,
    git: Option<Scratch>,
    /// How the project was, where it is itself what is lent.
    kept: Option<Kept>,
    hidden: Vec<RelPath>,
    scratch: tempfile::TempDir,
}

/// Git's folder of the lent tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scratch {
    /// Where it stands.
    pub folder: PathBuf,
    /// The real one that it stands for: a folder, or in a linked work tree a file.
    pub stands_for: PathBuf,
    /// The real repository's objects.
    pub objects: PathBuf,
}

impl Scratch {
    fn of(repository: &Repository, folder: PathBuf) -> Scratch {
        let objects = repository.common_dir.join("objects");
        Scratch { folder, stands_for: repository.top.join(".git"), objects }
    }
}

/// Something that is not in the lent tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The path.
    pub path: RelPath,
    /// Why.
    pub why: WhyLeftOut,
}

/// Why something is not lent.
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
    /// Refused and put back in the lent tree, with the reason.
    pub refused: Vec<(RelPath, String)>,
}

impl Workspace {
    /// Lends the project itself, and keeps how it was below `keep`, named after the run.
    ///
    /// What `options` let nobody read is named by [`Lent::hidden`]: it must be kept from commands.
    pub fn lend_in_place(
        &self,
        options: &LendOptions<'_>,
        keep: &Path,
        run: (&str, &str),
    ) -> Result<Lent, WorkspaceError> {
        let failed = |cause| WorkspaceError::Io { path: self.root.clone(), cause };
        let mut builder = tempfile::Builder::new();
        builder.prefix("qwen-tree-").permissions(Permissions::from_mode(0o700));
        let scratch = match options.parent {
            Some(parent) => builder.tempdir_in(parent),
            None => builder.tempdir(),
        }
        .map_err(failed)?;
        let whole = LendOptions { may_read: &|_| true, ..*options };
        let (kept, snapshot, left_out) = Kept::begin(&self.root, keep, run, &whole).map_err(failed)?;
        let mut hidden = Vec::new();
        denied_below(&self.root, &RelPath::root(), options.may_read, &mut hidden);
        let (mut reads, mut git) = (Vec::new(), None);
        if let Some(repository) = options.repository {
            let folder = scratch.path().canonicalize().map_err(failed)?.join(".git");
            std::fs::create_dir(&folder).map_err(failed)?;
            reads = scratch_git::make(repository, &folder, options.objects_at).map_err(failed)?;
            git = Some(Scratch::of(repository, folder));
        }
        Ok(Lent {
            tree: Folder::root(&self.root).map_err(failed)?,
            root: self.root.clone(),
            reads,
            left_out,
            snapshot,
            flushed: BTreeMap::new(),
            rules: Source::of_tree(&self.root, &self.root),
            real_root: self.root.clone(),
            git,
            kept: Some(kept),
            hidden,
            scratch,
        })
    }

    /// Makes the lent tree: tracked and untracked files, ignored ones up to `copy_max`, denied ones never.
    pub fn lend(&self, options: &LendOptions<'_>) -> Result<Lent, WorkspaceError> {
        let failed = |cause| WorkspaceError::Io { path: self.root.clone(), cause };
        let mut builder = tempfile::Builder::new();
        builder.prefix("qwen-tree-").permissions(Permissions::from_mode(0o700));
        let scratch = match options.parent {
            Some(parent) => builder.tempdir_in(parent),
            None => builder.tempdir(),
        }
        .map_err(failed)?;
        let top = scratch.path().canonicalize().map_err(failed)?.join("tree");
        let root = options.repository.map_or(top.clone(), |repository| repository.prefix.under(&top));
        std::fs::create_dir_all(&root).map_err(failed)?;

        let (snapshot, left_out) = copy::copy(&self.root, &root, options).map_err(failed)?;
        let reads = match options.repository {
            Some(repository) => scratch_git::make(repository, &top.join(".git"), options.objects_at).map_err(failed)?,
            None => Vec::new(),
        };
        let rules = Source::of_tree(&self.root, &root);
        Ok(Lent {
            tree: Folder::root(&root).map_err(failed)?,
            root,
            reads,
            left_out,
            snapshot,
            flushed: BTreeMap::new(),
            rules,
            real_root: self.root.clone(),
            git: options.repository.map(|repository| Scratch::of(repository, top.join(".git"))),
            kept: None,
            hidden: Vec::new(),
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
    /// Returns the folder that stands for the workspace's root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns folders beside the tree that commands must be able to read (the repository's objects).
    pub fn reads(&self) -> &[PathBuf] {
        &self.reads
    }

    /// Returns git's folder of the tree.
    pub fn git(&self) -> Option<&Scratch> {
        self.git.as_ref()
    }

    /// Returns how the project was, if it is itself what is lent.
    pub fn kept(&self) -> Option<&Kept> {
        self.kept.as_ref()
    }

    /// Gives up the tree; what was kept of the project remains.
    pub fn into_kept(self) -> Option<Kept> {
        self.kept
    }

    /// Returns what stands in the tree and may not be read by anybody.
    pub fn hidden(&self) -> &[RelPath] {
        &self.hidden
    }

    /// Returns what is not in the tree.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// Brings the tree up to what is staged. To be called before each command.
    pub fn flush(&mut self, workspace: &Workspace) -> Result<(), WorkspaceError> {
        let changes = workspace.changes();
        let mut wanted: BTreeMap<RelPath, Entry> =
            changes.iter().map(|(path, change)| (path.clone(), change.after.clone())).collect();
        for path in self.flushed.keys().filter(|path| !wanted.contains_key(*path)).cloned().collect::<Vec<_>>() {
            // It is as in the beginning again.
            let first = self.first(workspace, &path)?;
            self.put(&path, &first)?;
        }
        // What goes makes way for what comes.
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

    /// Takes what has changed in the tree into the staged changes, each path judged like a write; what is refused is
    /// put back. To be called after each command.
    pub fn collect(
        &mut self,
        workspace: &Workspace,
        judge: &dyn Fn(&RelPath, &Change) -> Result<(), String>,
    ) -> Result<Collected, WorkspaceError> {
        let staged = workspace.changes();
        let now = self.now().map_err(|cause| WorkspaceError::Io { path: self.root.clone(), cause })?;
        self.snapshot.begin();
        let mut candidates = Vec::new();
        self.tree
            .enter(&RelPath::root())
            .and_then(|root| {
                self.look_through(&root, &RelPath::root(), &Level::root(&self.rules), &staged, &mut candidates)
            })
            .map_err(|cause| WorkspaceError::Io { path: self.root.clone(), cause })?;
        let mut gone = Vec::new();
        for path in self.snapshot.missed() {
            // It is gone, or lies in a folder that is ignored and is tracked all the same.
            match self.file_at(&path) {
                Some(stat) if self.snapshot.meet(&path, stat) => candidates.push(path),
                Some(_) => {}
                None => gone.push(path),
            }
        }
        let mut collected = Collected::default();
        // What is gone comes first: where it is put back, nothing can stand in its place.
        for path in gone.into_iter().chain(candidates) {
            self.take(&path, workspace, judge, now, &mut collected)?;
        }
        // The tree holds all of this already.
        self.flushed = workspace.changes().iter().map(|(path, change)| (path.clone(), change.after.clone())).collect();
        Ok(collected)
    }

    /// Asks the file system for its time.
    fn now(&self) -> io::Result<Stat> {
        let probe = self.scratch.path().join("clock");
        std::fs::write(&probe, b"?")?;
        Ok(Stat::of(&probe.symlink_metadata()?))
    }

    fn look_through(
        &mut self,
        folder: &Folder,
        at: &RelPath,
        rules: &Arc<Level>,
        staged: &ChangeSet,
        candidates: &mut Vec<RelPath>,
    ) -> io::Result<()> {
        for (name, kind) in folder.names()? {
            let Some(path) = at.child(&name) else { continue };
            // Git's own, ours or one that a command made: never part of the changes.
            if name == ".git" {
                continue;
            }
            if kind.is_dir() {
                if !rules.child(&name, Kind::Folder).git {
                    let inner = rules.enter(&self.rules, &path);
                    let looked = folder
                        .enter_name(&name)
                        .and_then(|folder| self.look_through(&folder, &path, &inner, staged, candidates));
                    // A folder that a command closes to itself, or removes meanwhile, holds nothing that could be taken.
                    match looked {
                        Err(error) if !is_closed(&error) && !is_missing(&error) => return Err(error),
                        _ => {}
                    }
                }
                continue;
            }
            if !kind.is_file() && !kind.is_symlink() {
                continue;
            }
            if self.kept.as_ref().is_some_and(|kept| kept.is_left_out(&path)) {
                continue;
            }
            let counts =
                self.snapshot.knows(&path) || staged.get(&path).is_some() || !rules.child(&name, Kind::File).git;
            if counts
                && let Some(stat) = folder.stat(&name)?
                && self.snapshot.meet(&path, Stat::of_raw(&stat))
            {
                candidates.push(path);
            }
        }
        Ok(())
    }

    /// Returns what the system says of a file or link of the tree; `None` for a folder, and behind a link.
    fn file_at(&self, path: &RelPath) -> Option<Stat> {
        let stat = self.tree.stat_at(path).ok()??;
        (!FileType::from_raw_mode(stat.st_mode).is_dir()).then(|| Stat::of_raw(&stat))
    }

    fn take(
        &mut self,
        path: &RelPath,
        workspace: &Workspace,
        judge: &dyn Fn(&RelPath, &Change) -> Result<(), String>,
        now: Stat,
        collected: &mut Collected,
    ) -> Result<(), WorkspaceError> {
        let size = self.file_at(path).map_or(0, |stat| stat.size());
        let was = self.was(workspace, path)?;
        let judged = if size > LARGEST {
            Err(format!("a file of {size} bytes is too large to be staged"))
        } else {
            let failed = |cause| WorkspaceError::Io { path: path.under(&self.root), cause };
            let found = self.tree.entry_at(path).map_err(failed)?;
            self.judged(path, self.to_real(found), &was, workspace, judge)?
        };
        match judged {
            Ok(None) => match self.file_at(path) {
                Some(stat) => self.snapshot.remember(path.clone(), stat, now),
                None => self.snapshot.forget(path),
            },
            Ok(Some(change)) => {
                workspace.stage_judged(path, change.clone());
                self.note(path);
                collected.staged.push((path.clone(), change));
            }
            Err(reason) => {
                self.put(path, &was)?;
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
        let change = Change { before: self.first(workspace, path)?, after: found };
        Ok(judge(path, &change).map(|()| Some(change)))
    }

    /// Returns what stood at a path before the run.
    fn first(&self, workspace: &Workspace, path: &RelPath) -> Result<Entry, WorkspaceError> {
        match (&self.kept, workspace.change(path)) {
            // The disk holds what a command made of it.
            (Some(kept), None) => {
                kept.entry(path).map_err(|cause| WorkspaceError::Io { path: path.as_path().into(), cause })
            }
            (Some(_) | None, _) => workspace.first_state(path),
        }
    }

    /// Returns what stood at a path before the command.
    fn was(&self, workspace: &Workspace, path: &RelPath) -> Result<Entry, WorkspaceError> {
        match workspace.change(path) {
            Some(change) => Ok(change.after),
            None => self.first(workspace, path),
        }
    }

    /// Remembers a file as it is in the tree now.
    fn note(&mut self, path: &RelPath) {
        match self.file_at(path) {
            Some(stat) => self.snapshot.refresh(path.clone(), stat),
            None => self.snapshot.forget(path),
        }
    }

    /// Puts an entry into the tree, whatever stands in its way.
    fn put(&mut self, path: &RelPath, entry: &Entry) -> Result<(), WorkspaceError> {
        let write = || -> io::Result<()> {
            let (folder, name) = match entry {
                // Nothing below what is no folder is nothing to remove.
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
        self.note(path);
        Ok(())
    }

    /// A link to an absolute place in the project leads to the same place in the lent tree, or commands would write to
    /// the project through it.
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

/// Finds the files that nobody may read.
fn denied_below(root: &Path, folder: &RelPath, may_read: &dyn Fn(&RelPath) -> bool, denied: &mut Vec<RelPath>) {
    let Ok(entries) = std::fs::read_dir(folder.under(root)) else { return };
    for entry in entries.flatten() {
        let Some(path) = folder.child(entry.file_name()) else { continue };
        if entry.file_name() == ".git" {
            continue;
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            denied_below(root, &path, may_read, denied);
        } else if !may_read(&path) {
            denied.push(path);
        }
    }
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

pub(super) fn remove_anything(at: &Path) -> io::Result<()> {
    let removed = match at.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => std::fs::remove_dir_all(at),
        Ok(_) => std::fs::remove_file(at),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    struct Fixture {
        _folder: tempfile::TempDir,
        workspace: Workspace,
        repository: Option<Repository>,
        outside: PathBuf,
    }

    fn sh(folder: &Path, script: &str) -> String {
        let mut command = Command::new("bash");
        for (name, _) in std::env::vars_os().filter(|(name, _)| super::super::git::is_inherited(name)) {
            command.env_remove(name);
        }
        let identity = [
            ("GIT_AUTHOR_NAME", "U"),
            ("GIT_AUTHOR_EMAIL", "u@e"),
            ("GIT_COMMITTER_NAME", "U"),
            ("GIT_COMMITTER_EMAIL", "u@e"),
        ];
        let output = command.args(["-euc", script]).current_dir(folder).envs(identity).output().unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// A repository made by a script, and the workspace at one of its folders.
    fn fixture(script: &str, at: &str) -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join("project");
        std::fs::create_dir(&root).unwrap();
        sh(&root, script);
        let workspace = Workspace::open(&root.join(at)).unwrap();
        let repository = Repository::discover(workspace.root()).unwrap();
        let outside = folder.path().canonicalize().unwrap();
        Fixture { _folder: folder, workspace, repository, outside }
    }

    const PLAIN: &str = "git init -q -b main; printf '1\\n' >a; printf x >run; chmod +x run; mkdir -p src/deep out vendor; \
        printf '1\\n' >src/deep/b; ln -s a link; ln -s \"$PWD/a\" absolute; printf 'out/\\n*.log\\nvendor/\\n' >.gitignore; \
        printf big >out/old; printf v >vendor/kept; printf s >.env; git add -f vendor/kept; git add a run src link absolute .gitignore; \
        git commit -qm first; printf u >untracked; mkfifo pipe";

    impl Fixture {
        fn lend(&self, copy_max: u64) -> Lent {
            let may_read = |path: &RelPath| path.file_name().is_none_or(|name| name != ".env");
            let options = LendOptions {
                repository: self.repository.as_ref(),
                may_read: &may_read,
                copy_max,
                parent: None,
                objects_at: None,
                until: None,
            };
            let mut lent = self.workspace.lend(&options).unwrap();
            lent.flush(&self.workspace).unwrap();
            lent
        }

        fn stage(&self, path: &str, after: Entry) {
            let path = RelPath::new(path).unwrap();
            let before = self.workspace.first_state(&path).unwrap();
            self.workspace.stage_judged(&path, Change { before, after });
        }
    }

    fn collect(fixture: &Fixture, lent: &mut Lent) -> Vec<String> {
        let judge = |path: &RelPath, _: &Change| {
            if path.to_string().contains("protected") || path.to_string() == ".env" {
                Err("no".to_owned())
            } else {
                Ok(())
            }
        };
        let collected = lent.collect(&fixture.workspace, &judge).unwrap();
        let staged = collected.staged.iter().map(|(path, change)| format!("{:?} {path}", change.kind().unwrap()));
        let mut all: Vec<String> =
            staged.chain(collected.refused.iter().map(|(path, _)| format!("Refused {path}"))).collect();
        all.sort();
        all
    }

    /// A program in the background may put a link in the way at any moment: here, while a change is judged.
    #[test]
    fn a_link_that_is_put_in_the_way_meanwhile_leads_nowhere() {
        let fixture = fixture(PLAIN, "");
        let outside = fixture.outside.join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("new"), "theirs").unwrap();
        let mut lent = fixture.lend(1 << 30);
        sh(lent.root(), "echo n >src/deep/new");
        let root = lent.root().to_path_buf();
        let judge = |_: &RelPath, _: &Change| {
            sh(&root, &format!("rm -rf src/deep; ln -sfn '{}' src/deep", outside.display()));
            Err("no".to_owned())
        };
        let collected = lent.collect(&fixture.workspace, &judge).unwrap();
        assert!(!collected.refused.is_empty() && collected.staged.is_empty());
        assert_eq!(std::fs::read_to_string(outside.join("new")).unwrap(), "theirs");
    }

    #[test]
    fn a_copy_that_takes_too_long_is_given_up_and_leaves_nothing() {
        let fixture = fixture(PLAIN, "");
        let parent = tempfile::tempdir().unwrap();
        let options = LendOptions {
            repository: fixture.repository.as_ref(),
            may_read: &|_| true,
            copy_max: 0,
            parent: Some(parent.path()),
            objects_at: None,
            until: Some(Instant::now()),
        };
        let error = fixture.workspace.lend(&options).err().unwrap().to_string();
        assert!(error.ends_with("copying it took too long and was given up"), "{error}");
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_lent_tree_holds_what_may_be_read_and_says_what_it_lacks() {
        let fixture = fixture(PLAIN, "");
        let lent = fixture.lend(1 << 20);
        let left_out: Vec<String> =
            lent.left_out().iter().map(|left| format!("{} {:?}", left.path, left.why)).collect();
        assert_eq!(left_out, [".env Denied", "pipe Special"]);
        let list = "find . -name .git -prune -o -printf '%p %y %m %l\\n' | sort";
        assert_eq!(
            sh(lent.root(), &format!("{list} | sed 's#{}#ROOT#'", lent.root().display())),
            sh(
                fixture.workspace.root(),
                &format!("{list} | grep -v -e pipe -e '[.]env' | sed 's#{}#ROOT#'", fixture.workspace.root().display())
            )
        );
        let old = |root: &Path| root.join("src/deep/b").metadata().unwrap().modified().unwrap();
        assert_eq!(old(lent.root()), old(fixture.workspace.root()));

        let lent = fixture.lend(2);
        let left_out: Vec<String> =
            lent.left_out().iter().map(|left| format!("{} {:?}", left.path, left.why)).collect();
        assert_eq!(left_out, [".env Denied", "out TooLarge", "pipe Special"]);
        assert!(lent.root().join("vendor/kept").exists());
    }

    #[test]
    fn what_a_command_changes_is_staged_and_build_output_only_stays() {
        let fixture = fixture(PLAIN, "");
        let mut lent = fixture.lend(1 << 20);
        assert_eq!(collect(&fixture, &mut lent), Vec::<String>::new());
        sh(
            lent.root(),
            "printf 2 >a; rm -r src; chmod -x run; mkdir new; printf n >new/f; printf b >out/new; printf l >x.log; \
             printf w >vendor/kept; printf w >vendor/other; ln -sf run link; touch untracked; printf d >.env; printf p >protected; \
             mkdir nested; cd nested; git init -q; printf i >inner",
        );
        assert_eq!(
            collect(&fixture, &mut lent),
            [
                "Added nested/inner",
                "Added new/f",
                "Deleted src/deep/b",
                "Modified a",
                "Modified link",
                "Modified run",
                "Modified vendor/kept",
                "Refused .env",
                "Refused protected"
            ]
        );
        assert_eq!(collect(&fixture, &mut lent), Vec::<String>::new());
        // Refused: put back. Build output: still there, and not in the changes.
        assert!(!lent.root().join("protected").exists());
        assert_eq!(sh(lent.root(), "cat out/new x.log vendor/other"), "blw");
        // The project itself is as it was.
        assert_eq!(sh(fixture.workspace.root(), "git status --porcelain; cat a .env"), "?? .env\n?? untracked\n1\ns");
        sh(lent.root(), "printf '1\\n' >a");
        assert_eq!(fixture.workspace.changes().len(), 7);
        lent.collect(&fixture.workspace, &|_, _| Ok(())).unwrap();
        assert_eq!(fixture.workspace.changes().len(), 6);
    }

    #[test]
    fn a_change_that_hides_behind_an_old_time_is_found() {
        let fixture = fixture(PLAIN, "");
        let mut lent = fixture.lend(0);
        sh(lent.root(), "touch -r a keep.log; printf '2\\n' >a; touch -r keep.log a");
        assert_eq!(collect(&fixture, &mut lent), ["Modified a"]);
        // In the same tick, by the same size.
        for content in ["3\n", "4\n", "5\n"] {
            std::fs::write(lent.root().join("a"), content).unwrap();
            assert_eq!(collect(&fixture, &mut lent), ["Modified a"]);
        }
    }

    #[test]
    fn commands_see_what_is_staged_and_what_is_staged_back() {
        let fixture = fixture(PLAIN, "");
        let mut lent = fixture.lend(0);
        fixture.stage("a", Entry::file("staged\n"));
        fixture.stage("src/deep/b", Entry::Absent);
        fixture.stage("src/deep", Entry::file("a file now"));
        fixture.stage("new/deep/f", Entry::File { content: b"x".as_slice().into(), executable: true });
        lent.flush(&fixture.workspace).unwrap();
        assert_eq!(sh(lent.root(), "cat a src/deep; test -x new/deep/f"), "staged\na file now");
        assert_eq!(collect(&fixture, &mut lent), Vec::<String>::new());
        fixture.stage("a", Entry::file("1\n"));
        fixture.stage("src/deep", Entry::Absent);
        fixture.stage("src/deep/b", Entry::file("1\n"));
        lent.flush(&fixture.workspace).unwrap();
        assert_eq!(sh(lent.root(), "cat a src/deep/b"), "1\n1\n");
        assert_eq!(collect(&fixture, &mut lent), Vec::<String>::new());
    }

    #[test]
    fn a_link_into_the_project_leads_into_the_lent_tree() {
        let fixture = fixture(PLAIN, "");
        let mut lent = fixture.lend(0);
        sh(lent.root(), "printf through >absolute");
        assert_eq!(collect(&fixture, &mut lent), ["Modified a"]);
        assert_eq!(sh(fixture.workspace.root(), "cat a"), "1\n");
    }

    #[test]
    fn git_sees_the_history_and_writes_nothing_to_the_repository() {
        for init in ["", "--object-format=sha256", "--ref-format=reftable"] {
            let fixture = fixture(&PLAIN.replace("-q -b main", &format!("-q -b main {init}")), "");
            sh(
                fixture.workspace.root(),
                "git config http.extraheader 'AUTHORIZATION: secret'; git config alias.x '!touch x'",
            );
            // Git touches the time of an object that it would write again; below T2 nothing keeps it from that.
            let digest = || {
                sh(
                    fixture.workspace.root(),
                    "find .git -type f -not -path '*/objects/*' -printf '%p %T@\\n' -exec sha256sum {} +; find .git/objects -type f | sort | xargs sha256sum",
                )
            };
            let before = digest();
            let mut lent = fixture.lend(0);
            assert_eq!(
                sh(lent.root(), "git status --porcelain | grep -v absolute; git log --format=%s; git branch"),
                "?? untracked\nfirst\n* main\n"
            );
            sh(
                lent.root(),
                "printf 2 >a; git add -A; git commit -qm second; git branch other; git stash list; git tag t; git gc -q",
            );
            assert_eq!(sh(lent.root(), "git log --format=%s"), "second\nfirst\n");
            assert_eq!(sh(lent.root(), "grep -r -e secret -e alias .git/config || true"), "");
            assert_eq!(digest(), before);
            assert_eq!(collect(&fixture, &mut lent), ["Modified a"]);
        }
    }

    #[test]
    fn only_the_workspace_is_lent_and_the_rest_does_not_look_deleted() {
        let fixture = fixture(&format!("{PLAIN}; printf '*.tmp\\n' >>.gitignore; git commit -qam ignore"), "src");
        let mut lent = fixture.lend(0);
        assert_eq!(sh(lent.root(), "ls; git status --porcelain; git log --format=%s -- deep"), "deep\nfirst\n");
        sh(lent.root(), "printf 2 >deep/b; printf x >x.tmp; printf x >../outside");
        assert_eq!(collect(&fixture, &mut lent), ["Modified deep/b"]);
    }

    #[test]
    fn without_a_repository_there_is_no_git_folder_and_all_else_works() {
        let fixture = fixture("printf 1 >a; mkdir d; printf 'd/\\n' >.gitignore; printf 1 >d/x", "");
        let mut lent = fixture.lend(1 << 20);
        assert!(!lent.root().join(".git").exists());
        sh(lent.root(), "printf 2 >a; printf 2 >d/x; rm .gitignore; printf y >y");
        // The rules are gone with their file, so `d` counts now: what is not ignored is part of the change.
        assert_eq!(collect(&fixture, &mut lent), ["Added y", "Deleted .gitignore", "Modified a", "Modified d/x"]);
        assert!(fixture.outside.exists());
    }

    #[test]
    fn a_folder_in_place_of_a_file_and_a_link_in_place_of_a_folder_are_changes() {
        let fixture = fixture(PLAIN, "");
        let mut lent = fixture.lend(0);
        sh(lent.root(), "rm a; mkdir a; printf x >a/inner; rm -r src; ln -s a src; mkdir deep-protected");
        assert_eq!(collect(&fixture, &mut lent), ["Added a/inner", "Added src", "Deleted a", "Deleted src/deep/b"]);
    }
}
