//! Makes the first copy of the workspace, with what commands may see; by reference where the file system can.

#![expect(clippy::disallowed_methods, reason = "the command workspace is copied here")]

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{File, FileTimes, Permissions};
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::Arc;

use super::options::{LeftOut, TreeOptions, WhyLeftOut, in_time, is_closed, moved, tracked};
use crate::path::RelPath;
use crate::threads::on_all_cores;
use crate::workspace::folder::Folder;
use crate::workspace::ignore::{Kind, Level, Source};
use crate::workspace::snapshot::{Snapshot, Stat};

/// A copy with more files, or more bytes, is large.
const MANY: usize = 50_000;
const MUCH: u64 = 1 << 30;

/// The result of copying.
pub(super) enum Copied {
    /// What was copied and belongs to the project, what was copied and is ignored (where that is asked for), and what was
    /// left out.
    Done(Snapshot, Snapshot, Vec<LeftOut>),
    /// No file was copied: the copy would be large, and there may be another way.
    Large,
}

/// Copies the workspace at `from` to the empty directory `to`.
pub(super) fn copy(from: &Path, to: &Path, options: &TreeOptions<'_>) -> io::Result<Copied> {
    let tracked = tracked(options.repository)?;
    let budget = options.copy_max;
    let (files, ignored, left_out) = (Vec::new(), Vec::new(), Vec::new());
    let source = Source::of_tree(from, from);
    let folders = Vec::new();
    let mut copy = Copy { from, to, source: &source, options, tracked, folders, files, ignored, left_out, budget };
    copy.plan_folder(&RelPath::root(), &Level::root(&source))?;
    source.check()?;
    let counted = copy.files.len();
    if options.layers && copy.has_many() {
        return Ok(Copied::Large);
    }
    copy.plan_ignored()?;
    if options.layers && copy.is_large() {
        return Ok(Copied::Large);
    }
    let (snapshot, ignored, left_out) = copy.carry_out(counted)?;
    Ok(Copied::Done(snapshot, ignored, left_out))
}

/// Makes the tree: directories one by one, then files in parallel.
struct Copy<'a> {
    from: &'a Path,
    to: &'a Path,
    source: &'a Source,
    options: &'a TreeOptions<'a>,
    tracked: BTreeSet<RelPath>,
    folders: Vec<RelPath>,
    files: Vec<RelPath>,
    ignored: Vec<(RelPath, bool)>,
    left_out: Vec<LeftOut>,
    budget: u64,
}

impl Copy<'_> {
    fn plan_folder(&mut self, folder: &RelPath, rules: &Arc<Level>) -> io::Result<()> {
        self.options.in_time()?;
        if self.options.layers && self.has_many() {
            // No copy will be made.
            return Ok(());
        }
        for entry in self.open(folder)? {
            let entry = entry?;
            let Some(path) = folder.child(entry.file_name()) else { continue };
            if entry.file_name() == ".git" {
                continue;
            }
            let kind = entry.file_type()?;
            let is_ignored = rules.child(&entry.file_name(), Kind::of(kind)).git && !self.tracked.contains(&path);
            if is_ignored {
                if kind.is_dir() {
                    self.plan_tracked_below(&path)?;
                }
                self.ignored.push((path, kind.is_dir()));
            } else if kind.is_dir() {
                self.folders.push(path.clone());
                let inner = rules.enter(self.source, &path);
                self.plan_folder(&path, &inner)?;
            } else {
                self.plan_file(path, kind);
            }
        }
        Ok(())
    }

    /// Tracked files count wherever they are.
    fn plan_tracked_below(&mut self, folder: &RelPath) -> io::Result<()> {
        let below: Vec<RelPath> = self
            .tracked
            .range(folder.clone()..)
            .take_while(|path| path.as_bytes().starts_with(folder.as_bytes()))
            .filter(|path| path.is_under(folder))
            .cloned()
            .collect();
        for path in below {
            let Ok(metadata) = path.under(self.from).symlink_metadata() else { continue };
            self.folders.push(path.parent().unwrap_or_default());
            self.plan_file(path, metadata.file_type());
        }
        Ok(())
    }

    fn plan_file(&mut self, path: RelPath, kind: std::fs::FileType) {
        if !kind.is_file() && !kind.is_symlink() {
            self.left_out.push(LeftOut { path, why: WhyLeftOut::Special });
        } else if !(self.options.may_read)(&path) {
            self.left_out.push(LeftOut { path, why: WhyLeftOut::Denied });
        } else {
            self.files.push(path);
        }
    }

    fn plan_ignored(&mut self) -> io::Result<()> {
        for (path, is_folder) in std::mem::take(&mut self.ignored) {
            let mut size = 0;
            if !self.measure(&path, is_folder, &mut size)? {
                self.left_out.push(LeftOut { path, why: WhyLeftOut::TooLarge });
                continue;
            }
            self.budget -= size;
            self.plan_whole(path, is_folder)?;
        }
        Ok(())
    }

    /// Adds up sizes; `false` as soon as they are too large.
    fn measure(&self, path: &RelPath, is_folder: bool, size: &mut u64) -> io::Result<bool> {
        if !is_folder {
            *size += path.under(self.from).symlink_metadata().map_or(0, |metadata| metadata.len());
            return Ok(*size <= self.budget);
        }
        self.options.in_time()?;
        for entry in self.open(path)? {
            let entry = entry?;
            let Some(inner) = path.child(entry.file_name()) else { continue };
            if !self.measure(&inner, entry.file_type()?.is_dir(), size)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn plan_whole(&mut self, path: RelPath, is_folder: bool) -> io::Result<()> {
        if !is_folder {
            if let Ok(metadata) = path.under(self.from).symlink_metadata()
                && !self.tracked.contains(&path)
            {
                self.plan_file(path, metadata.file_type());
            }
            return Ok(());
        }
        self.folders.push(path.clone());
        for entry in self.open(&path)? {
            let entry = entry?;
            if entry.file_name() == ".git" {
                continue;
            }
            let Some(inner) = path.child(entry.file_name()) else { continue };
            self.plan_whole(inner, entry.file_type()?.is_dir())?;
        }
        Ok(())
    }

    fn has_many(&self) -> bool {
        self.files.len() > MANY
    }

    fn is_large(&self) -> bool {
        let size = |path: &RelPath| path.under(self.from).symlink_metadata().map_or(0, |metadata| metadata.len());
        self.has_many() || self.files.iter().map(size).sum::<u64>() > MUCH
    }

    /// Returns what is in a directory; nothing if it is unreadable, or just vanished.
    fn open(&self, folder: &RelPath) -> io::Result<Vec<io::Result<std::fs::DirEntry>>> {
        match std::fs::read_dir(folder.under(self.from)) {
            Ok(entries) => Ok(entries.collect()),
            Err(error) if !folder.is_root() && is_closed(&error) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Copies the files in parallel; the first `counted` ones are remembered as the project's.
    ///
    /// A file that is unreadable, or that vanished, is left out. Anything else, above all a full disk, is an error:
    /// commands would see an incomplete project.
    fn carry_out(self, counted: usize) -> io::Result<(Snapshot, Snapshot, Vec<LeftOut>)> {
        for folder in &self.folders {
            let at = folder.under(self.to);
            match std::fs::create_dir(&at) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                // Tracked files may be deep in directories that nothing else is taken of.
                Err(error) if error.kind() == io::ErrorKind::NotFound => std::fs::create_dir_all(&at)?,
                made => made?,
            }
        }
        let next = std::sync::atomic::AtomicUsize::new(0);
        let (files, from, to, until) = (&self.files, self.from, self.to, self.options.until);
        let copied = on_all_cores(files.len(), || {
            let mut done: Vec<(usize, io::Result<Stat>)> = Vec::new();
            loop {
                let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let Some(path) = files.get(number) else { return done };
                let copied = in_time(until).and_then(|()| copy_file(&path.under(from), &path.under(to), from, to));
                let continues = copied.as_ref().err().is_none_or(is_gone);
                done.push((number, copied));
                if !continues {
                    next.store(files.len(), std::sync::atomic::Ordering::Relaxed);
                }
            }
        });
        let (mut snapshot, mut ignored, mut left_out) = (Snapshot::default(), Snapshot::default(), self.left_out);
        for (number, result) in copied.into_iter().flatten() {
            match result {
                Ok(stat) if number < counted => snapshot.settle(files[number].clone(), stat),
                Ok(stat) if self.options.ignored_outputs => ignored.settle(files[number].clone(), stat),
                Ok(_) => {}
                Err(error) if is_gone(&error) => {
                    left_out.push(LeftOut { path: files[number].clone(), why: WhyLeftOut::Unreadable });
                }
                Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", files[number]))),
            }
        }
        left_out.sort_by(|a, b| a.path.cmp(&b.path));
        Ok((snapshot, ignored, left_out))
    }
}

/// Tells whether a file is unreadable, or no longer exists as it did a moment ago.
fn is_gone(error: &io::Error) -> bool {
    is_closed(error) || matches!(error.kind(), io::ErrorKind::NotADirectory) || is_loop(error)
}

/// The file must not be followed, so it has become a link.
fn is_loop(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

/// Copies a file with its mode and time, by reference where the file system can, or a link as a link.
fn copy_file(from: &Path, to: &Path, real_root: &Path, copy_root: &Path) -> io::Result<Stat> {
    let metadata = from.symlink_metadata()?;
    if metadata.is_symlink() {
        let target = std::fs::read_link(from)?.into_os_string().into_vec();
        symlink(OsString::from_vec(moved(&target, real_root, copy_root)), to)?;
        return Ok(Stat::of(&to.symlink_metadata()?));
    }
    let no_follow = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).expect("a small flag");
    let mut source = File::options().read(true).custom_flags(no_follow).open(from)?;
    let mode = (metadata.permissions().mode() & 0o777) | 0o600;
    let mut copy = File::options().write(true).create_new(true).mode(mode).open(to)?;
    if !by_reference(&copy, &source) {
        io::copy(&mut source, &mut copy)?;
    }
    copy.set_permissions(Permissions::from_mode(mode))?;
    copy.set_times(FileTimes::new().set_modified(metadata.modified()?))?;
    Ok(Stat::of(&copy.metadata()?))
}

/// Copies a file with its mode and time, or a link, to a free name of another directory; nothing is followed.
pub(super) fn copy_between(from: &Folder, name: &OsStr, to: &Folder, free: &OsStr) -> io::Result<()> {
    use rustix::fs::{FileType, Mode, OFlags};

    let stat = from.stat(name)?.ok_or(io::ErrorKind::NotFound)?;
    if FileType::from_raw_mode(stat.st_mode).is_symlink() {
        let target = rustix::fs::readlinkat(from, name, Vec::new())?;
        return Ok(rustix::fs::symlinkat(target, to, free)?);
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut source = File::from(rustix::fs::openat(from, name, flags, Mode::empty())?);
    let metadata = source.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is no longer a regular file"));
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut copy = File::from(rustix::fs::openat(to, free, flags, Mode::from_raw_mode(0o600))?);
    if !by_reference(&copy, &source) {
        io::copy(&mut source, &mut copy)?;
    }
    copy.set_permissions(Permissions::from_mode(metadata.permissions().mode() & 0o777))?;
    copy.set_times(FileTimes::new().set_modified(metadata.modified()?))
}

#[cfg(target_os = "linux")]
fn by_reference(copy: &File, source: &File) -> bool {
    rustix::fs::ioctl_ficlone(copy, source).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn by_reference(_: &File, _: &File) -> bool {
    false
}
