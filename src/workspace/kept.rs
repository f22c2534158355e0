//! Keeps a snapshot of a project whose own directory is the command workspace (`sandbox.workspace: in-place`), to
//! restore it.
//!
//! A copy of every file is kept in the user's state directory until the run is over, so that `qwen undo` finds it after
//! a kill. Git's own directories are not part of it: commands cannot write them.

#![expect(clippy::disallowed_methods, reason = "the copy is made here, and the project put back")]

use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File, FileTimes, Permissions};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::copy;
use super::disk::Disk;
use super::lend::{LeftOut, LendOptions, moved};
use super::snapshot::{Snapshot, Stat};
use crate::bounded;
use crate::change::{Entry, git_name};
use crate::path::RelPath;

/// The snapshot of a project while a run works in it.
pub struct Kept {
    folder: PathBuf,
    root: PathBuf,
    record: Record,
    /// The metadata of each file; empty if another run made the snapshot.
    stats: HashMap<RelPath, Stat>,
    left_out: BTreeSet<RelPath>,
    git: BTreeSet<RelPath>,
    /// Held while this value is in use.
    _lock: File,
}

/// What is stored with the copy. Names are written as git quotes them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    version: u32,
    run_id: String,
    time: String,
    root: String,
    left_out: Vec<String>,
    git: Vec<String>,
}

/// What a killed run left behind.
pub enum Pending {
    /// Nothing.
    Nothing,
    /// The run is still running.
    AtWork(String),
    /// It was killed; the project can be restored.
    Killed(Box<Kept>),
}

impl Kept {
    /// Copies the project to a new directory below `parent`, named after the run.
    ///
    /// Returns what else belongs to the project, as it is now, and what is not part of the snapshot.
    pub fn begin(
        root: &Path,
        parent: &Path,
        run: (&str, &str),
        options: &LendOptions<'_>,
    ) -> io::Result<(Kept, Snapshot, Vec<LeftOut>)> {
        let folder = parent.join(run.0);
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let lock = lock(&folder)?.ok_or_else(|| io::Error::other("the folder of a run is in use by another"))?;
        let tree = folder.join("tree");
        DirBuilder::new().mode(0o700).create(&tree)?;
        let copy::Copied::Done(copied, left_out) = copy::copy(root, &tree, options)? else {
            return Err(io::Error::other("how the project is can only be kept by a copy"));
        };
        let mut kept = Kept {
            record: Record {
                version: 1,
                run_id: run.0.to_owned(),
                time: run.1.to_owned(),
                root: quoted(root.as_os_str().as_bytes()),
                left_out: left_out.iter().map(|left| quoted(left.path.as_bytes())).collect(),
                git: Vec::new(),
            },
            folder,
            root: root.to_path_buf(),
            stats: HashMap::new(),
            left_out: left_out.iter().map(|left| left.path.clone()).collect(),
            git: BTreeSet::new(),
            _lock: lock,
        };
        let mut snapshot = Snapshot::default();
        kept.remember(&RelPath::root(), &copied, &mut snapshot)?;
        kept.find_git(&RelPath::root())?;
        kept.record.git = kept.git.iter().map(|path| quoted(path.as_bytes())).collect();
        let new = kept.folder.join("record.json.new");
        std::fs::write(&new, serde_json::to_vec(&kept.record)?)?;
        std::fs::rename(new, kept.folder.join("record.json"))?;
        Ok((kept, snapshot, left_out))
    }

    /// Looks for what a killed run left of the project at `root`.
    pub fn pending(parent: &Path, root: &Path) -> io::Result<Pending> {
        let entries = match std::fs::read_dir(parent) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Pending::Nothing),
            entries => entries?,
        };
        let name = quoted(root.as_os_str().as_bytes());
        for entry in entries {
            let folder = entry?.path();
            // Without its record no command has run in the project yet.
            let read = bounded::optional(bounded::regular(&folder.join("record.json"), bounded::PRODUCT))?;
            let Some(text) = read else { continue };
            let record: Record = serde_json::from_slice(&text)
                .map_err(|error| io::Error::other(format!("{}: {error}", folder.join("record.json").display())))?;
            if record.root != name {
                continue;
            }
            let Some(lock) = lock(&folder)? else { return Ok(Pending::AtWork(record.run_id)) };
            let (left_out, git) = (paths(&record.left_out)?, paths(&record.git)?);
            let (root, stats) = (root.to_path_buf(), HashMap::new());
            return Ok(Pending::Killed(Box::new(Kept { folder, root, record, stats, left_out, git, _lock: lock })));
        }
        Ok(Pending::Nothing)
    }

    /// Returns the run that made the snapshot.
    pub fn run_id(&self) -> &str {
        &self.record.run_id
    }

    /// Returns git's own directories and files, which commands must not write.
    pub fn git(&self) -> impl Iterator<Item = &RelPath> {
        self.git.iter()
    }

    /// Tells whether a path is not part of the snapshot: it is never looked at.
    pub fn is_left_out(&self, path: &RelPath) -> bool {
        self.left_out.contains(path)
    }

    /// Returns what was at a path.
    pub fn entry(&self, path: &RelPath) -> io::Result<Entry> {
        Ok(match Disk.entry(&self.copy_of(path))? {
            Entry::Link { target } => Entry::Link { target: moved(&target, &self.tree(), &self.root) },
            entry @ (Entry::Absent | Entry::File { .. }) => entry,
        })
    }

    /// Restores every file and removes new ones; returns the paths that had changed.
    ///
    /// It may be interrupted and repeated at any point.
    pub fn put_back(&self) -> io::Result<Vec<RelPath>> {
        let mut changed = Vec::new();
        self.put_back_folder(&RelPath::root(), &mut changed)?;
        Ok(changed)
    }

    /// Restores the paths of a delivery, so that the delivery finds the project unchanged; build output stays.
    pub fn make_way(&self, paths: &[&RelPath]) -> io::Result<()> {
        self.remove_new_git(&RelPath::root())?;
        for absent in [true, false] {
            for path in paths {
                let is_file = self.copy_of(path).symlink_metadata().is_ok_and(|kept| !kept.is_dir());
                if is_file != absent {
                    self.put_back_one(path)?;
                }
            }
        }
        Ok(())
    }

    /// Removes the snapshot, which is no longer needed.
    pub fn discard(self) -> io::Result<()> {
        // The record first: half a copy must not be taken for the project.
        std::fs::remove_file(self.folder.join("record.json"))?;
        std::fs::remove_dir_all(&self.folder)
    }

    fn tree(&self) -> PathBuf {
        self.folder.join("tree")
    }

    fn copy_of(&self, path: &RelPath) -> PathBuf {
        path.under(&self.tree())
    }

    /// Records modes and the metadata of each file of the project.
    fn remember(&mut self, folder: &RelPath, copied: &Snapshot, snapshot: &mut Snapshot) -> io::Result<()> {
        for name in names(&self.copy_of(folder))? {
            let Some(path) = folder.child(&name) else { continue };
            let copy = self.copy_of(&path);
            if copy.symlink_metadata()?.is_dir() {
                self.remember(&path, copied, snapshot)?;
                continue;
            }
            let metadata = path.under(&self.root).symlink_metadata()?;
            if metadata.is_file() {
                std::fs::set_permissions(&copy, Permissions::from_mode(metadata.permissions().mode() & 0o7777))?;
            }
            let stat = Stat::of(&metadata);
            self.stats.insert(path.clone(), stat);
            if copied.knows(&path) {
                // As if just written: its contents are compared once, whatever its times say.
                snapshot.refresh(path, stat);
            }
        }
        Ok(())
    }

    fn find_git(&mut self, folder: &RelPath) -> io::Result<()> {
        let at = folder.under(&self.root);
        // What this process cannot open, a command cannot either.
        let Ok(entries) = std::fs::read_dir(&at) else { return Ok(()) };
        for entry in entries {
            let entry = entry?;
            let Some(path) = folder.child(entry.file_name()) else { continue };
            if entry.file_name() == ".git" {
                self.git.insert(path);
            } else if entry.file_type()?.is_dir() {
                self.find_git(&path)?;
            }
        }
        Ok(())
    }

    fn put_back_folder(&self, folder: &RelPath, changed: &mut Vec<RelPath>) -> io::Result<()> {
        let (at, copy) = (folder.under(&self.root), self.copy_of(folder));
        open_up(&at)?;
        for name in names(&at)? {
            let Some(path) = folder.child(&name) else { continue };
            let is_kept = copy.join(&name).symlink_metadata().is_ok();
            if !is_kept && !self.left_out.contains(&path) && !self.git.contains(&path) {
                remove_whole(&path.under(&self.root))?;
                changed.push(path);
            }
        }
        for name in names(&copy)? {
            let Some(path) = folder.child(&name) else { continue };
            let there = path.under(&self.root).symlink_metadata().ok();
            if copy.join(&name).symlink_metadata()?.is_dir() {
                if !there.is_some_and(|there| there.is_dir()) {
                    remove_whole(&path.under(&self.root))?;
                    std::fs::create_dir(path.under(&self.root))?;
                }
                self.put_back_folder(&path, changed)?;
            } else if self.put_back_file(&path)? {
                changed.push(path);
            }
        }
        Ok(())
    }

    /// Restores one path: a file of the copy, or nothing.
    fn put_back_one(&self, path: &RelPath) -> io::Result<()> {
        let at = path.under(&self.root);
        let kept = self.copy_of(path).symlink_metadata();
        if kept.as_ref().is_ok_and(std::fs::Metadata::is_dir) {
            // A file took the place of a directory.
            if !at.symlink_metadata().is_ok_and(|there| there.is_dir()) {
                remove_whole(&at)?;
                std::fs::create_dir_all(&at)?;
            }
            return Ok(());
        }
        if kept.is_err() {
            remove_whole(&at)?;
            // Directories that were made for it; one with other contents stays.
            let mut folder = path.parent();
            while let Some(made) = folder.filter(|made| !made.is_root()) {
                if self.copy_of(&made).exists() || std::fs::remove_dir(made.under(&self.root)).is_err() {
                    break;
                }
                folder = made.parent();
            }
            return Ok(());
        }
        let mut folder = RelPath::root();
        for name in path.components().take(path.components().count().saturating_sub(1)) {
            folder = folder.child(OsStr::from_bytes(name)).ok_or(io::ErrorKind::InvalidInput)?;
            let at = folder.under(&self.root);
            if !at.symlink_metadata().is_ok_and(|there| there.is_dir()) {
                remove_whole(&at)?;
                std::fs::create_dir(&at)?;
            }
        }
        self.put_back_file(path).map(drop)
    }

    /// Restores a file of the copy; `false` if it is unchanged.
    fn put_back_file(&self, path: &RelPath) -> io::Result<bool> {
        let (at, copy) = (path.under(&self.root), self.copy_of(path));
        let kept = copy.symlink_metadata()?;
        let there = at.symlink_metadata().ok();
        if let Some(there) = &there {
            if self.stats.get(path) == Some(&Stat::of(there)) {
                return Ok(false);
            }
            let same_mode = there.permissions().mode() == kept.permissions().mode();
            if there.file_type() == kept.file_type()
                && (same_mode || kept.is_symlink())
                && Disk.entry(&at).is_ok_and(|found| self.entry(path).is_ok_and(|was| was == found))
            {
                return Ok(false);
            }
        }
        if there.is_some_and(|there| there.is_dir()) {
            remove_whole(&at)?;
        }
        let mut name = OsString::from(".qwen-kept-");
        name.push(&self.record.run_id);
        let new = at.with_file_name(name);
        remove_anything(&new)?;
        if let Entry::Link { target } = self.entry(path)? {
            symlink(OsString::from_vec(target), &new)?;
        } else {
            let mut file = File::options().write(true).create_new(true).mode(0o600).open(&new)?;
            io::copy(&mut File::open(&copy)?, &mut file)?;
            file.set_permissions(kept.permissions())?;
            file.set_times(FileTimes::new().set_modified(kept.modified()?))?;
        }
        std::fs::rename(&new, &at)?;
        Ok(true)
    }

    /// Removes repositories that commands made: they could bring programs into the project that git runs.
    fn remove_new_git(&self, folder: &RelPath) -> io::Result<()> {
        let Ok(entries) = std::fs::read_dir(folder.under(&self.root)) else { return Ok(()) };
        for entry in entries {
            let entry = entry?;
            let Some(path) = folder.child(entry.file_name()) else { continue };
            if entry.file_name() == ".git" {
                if !self.git.contains(&path) {
                    remove_whole(&entry.path())?;
                }
            } else if entry.file_type()?.is_dir() && !self.left_out.contains(&path) {
                self.remove_new_git(&path)?;
            }
        }
        Ok(())
    }
}

/// Locks a run's directory; `None` if another process holds the lock.
fn lock(folder: &Path) -> io::Result<Option<File>> {
    let file = File::options().create(true).truncate(false).write(true).mode(0o600).open(folder.join("lock"))?;
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn names(folder: &Path) -> io::Result<Vec<OsString>> {
    std::fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect()
}

/// A command can remove its owner's permissions on a directory.
fn open_up(folder: &Path) -> io::Result<()> {
    let mode = folder.symlink_metadata()?.permissions().mode();
    if mode & 0o700 == 0o700 { Ok(()) } else { std::fs::set_permissions(folder, Permissions::from_mode(mode | 0o700)) }
}

/// Removes whatever is at a path, including directories without permissions.
fn remove_whole(at: &Path) -> io::Result<()> {
    if at.symlink_metadata().is_ok_and(|there| there.is_dir()) {
        open_up(at)?;
        for name in names(at)? {
            remove_whole(&at.join(name))?;
        }
    }
    remove_anything(at)
}

fn quoted(name: &[u8]) -> String {
    let mut out = Vec::new();
    git_name::quote(name, &mut out);
    String::from_utf8(out).expect("a quoted name is ASCII")
}

fn paths(quoted: &[String]) -> io::Result<BTreeSet<RelPath>> {
    let read = |name: &String| {
        let bytes = match name.starts_with('"') {
            true => git_name::unquote(name.as_bytes()).map(|(bytes, _)| bytes),
            false => Some(name.clone().into_bytes()),
        };
        bytes
            .and_then(|bytes| RelPath::from_bytes(&bytes))
            .ok_or_else(|| io::Error::other(format!("a damaged name in the record: {name}")))
    };
    quoted.iter().map(read).collect()
}

fn remove_anything(at: &Path) -> io::Result<()> {
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
    use super::*;
    use crate::workspace::test_support::sh;

    const LIST: &str = "find . -printf '%p %y %m %l %s %T@\\n' | grep -v -e '^[.]/[.]git/' | sed 's/ [0-9]* [0-9.]*$//' | sort; \
                        find . -type f -print0 | sort -z | xargs -0 sha256sum";

    fn project() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let (root, state) = (base.join("p"), base.join("state"));
        std::fs::create_dir(&root).unwrap();
        let made = "mkdir -p src/deep out empty .git sub/.git; printf 1 >a; printf 2 >src/deep/b; chmod 755 a; chmod 444 src/deep/b; \
                    ln -s a link; ln -s \"$PWD/a\" absolute; printf 'out/\\n' >.gitignore; printf big >out/o; printf s >.env; \
                    printf g >.git/HEAD; printf x >'we\"ird\n'";
        sh(&root, made);
        (folder, root, state)
    }

    fn begin(root: &Path, state: &Path) -> Kept {
        let options = LendOptions {
            repository: None,
            may_read: &|_| true,
            copy_max: 1 << 20,
            parent: None,
            objects_at: None,
            until: None,
            layers: false,
        };
        Kept::begin(root, state, ("run-1", "now"), &options).unwrap().0
    }

    const MESS: &str = "chmod -R u+w .; printf changed >a; rm -r src; mkdir src; printf f >src/deep; rm link; mkdir link; printf x >link/x; \
                        printf x >out/o; printf n >out/n; printf x >.env; rmdir empty; printf e >empty; mkdir -p new/.git src2; \
                        printf h >new/.git/config; mkdir src2/.git; chmod 000 new; ln -sf /etc/passwd absolute; mkfifo pipe; rm .gitignore";

    #[test]
    fn everything_is_put_back_whatever_was_done() {
        let (_folder, root, state) = project();
        let before = sh(&root, LIST);
        let kept = begin(&root, &state);
        assert_eq!(kept.put_back().unwrap(), []);
        sh(&root, MESS);
        assert_ne!(sh(&root, &format!("chmod 755 new; {LIST}")), before);
        assert!(!kept.put_back().unwrap().is_empty());
        assert_eq!(sh(&root, LIST), before);
        kept.discard().unwrap();
        assert_eq!(std::fs::read_dir(&state).unwrap().count(), 0);
    }

    #[test]
    fn a_killed_run_is_found_by_its_project_and_put_back() {
        let (_folder, root, state) = project();
        let before = sh(&root, LIST);
        let kept = begin(&root, &state);
        sh(&root, MESS);
        assert!(matches!(Kept::pending(&state, &root).unwrap(), Pending::AtWork(run) if run == "run-1"));
        assert!(matches!(Kept::pending(&state, &state).unwrap(), Pending::Nothing));
        drop(kept);
        // A program that another test starts at this moment may hold the lock until it has become itself.
        let kept = loop {
            match Kept::pending(&state, &root).unwrap() {
                Pending::Killed(kept) => break kept,
                Pending::AtWork(_) => std::thread::yield_now(),
                Pending::Nothing => panic!("it is there"),
            }
        };
        kept.put_back().unwrap();
        assert_eq!(sh(&root, LIST), before);
        kept.discard().unwrap();
        assert!(matches!(Kept::pending(&state, &root).unwrap(), Pending::Nothing));
    }

    #[test]
    fn what_is_delivered_finds_the_project_as_it_was_and_build_output_stays() {
        let (_folder, root, state) = project();
        let kept = begin(&root, &state);
        sh(
            &root,
            "printf changed >a; rm -r src; printf f >src; mkdir -p new/deep; printf n >new/deep/f; printf o >out/n; mkdir out/.git",
        );
        let paths = ["a", "src", "src/deep/b", "new/deep/f"].map(|path| RelPath::new(path).unwrap());
        kept.make_way(&paths.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(sh(&root, "cat a src/deep/b out/n; ls -d new out/.git 2>/dev/null || true"), "12o");
    }
}
