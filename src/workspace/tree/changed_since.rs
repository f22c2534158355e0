//! Finds what has changed in a directory since it was made, by the clock of its file system: programs cannot set that one.

#![expect(clippy::disallowed_methods, reason = "the mark is a file of its own")]

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use crate::path::RelPath;
use crate::workspace::folder::Folder;
use crate::workspace::snapshot::number;

/// When a file was last changed: seconds and nanoseconds.
type Changed = (i64, i64);

/// Maximum nesting depth of directories.
const DEEPEST: usize = 256;

/// How often the clock of a file system is looked at until it has gone on.
const LOOKS: u32 = 40;

/// The file whose last change is the mark.
const MARK: &str = "made";

/// Marks the time in a directory, and waits until that time is over: whatever changes from now on is later. A clock of
/// whole seconds is not waited for.
pub(super) fn mark(directory: &Path) -> io::Result<()> {
    std::fs::write(directory.join(MARK), "")?;
    let first = marked(directory)?;
    let other = tempfile::NamedTempFile::new_in(directory)?;
    for _ in 0..LOOKS {
        rustix::fs::fchmod(&other, rustix::fs::Mode::RUSR)?;
        if changed(other.as_file())? > first {
            break;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    Ok(())
}

fn marked(directory: &Path) -> io::Result<Changed> {
    let found = directory.join(MARK).symlink_metadata()?;
    Ok((found.ctime(), found.ctime_nsec()))
}

fn changed(file: impl AsFd) -> io::Result<Changed> {
    Ok(changed_of(&rustix::fs::fstat(file)?))
}

fn changed_of(stat: &rustix::fs::Stat) -> Changed {
    (number(stat.st_ctime), number(stat.st_ctime_nsec))
}

/// What counts as changed.
pub(super) struct Since<'a> {
    /// When it was made; `None`: all that is there was made since.
    made: Option<Changed>,
    /// What is not looked at.
    leaves_out: &'a dyn Fn(&RelPath) -> bool,
}

impl<'a> Since<'a> {
    /// Counts what has changed since the mark in a directory.
    pub(super) fn mark(directory: &Path, leaves_out: &'a dyn Fn(&RelPath) -> bool) -> io::Result<Since<'a>> {
        Ok(Since { made: Some(marked(directory)?), leaves_out })
    }

    /// Counts every file and link.
    pub(super) fn always(leaves_out: &'a dyn Fn(&RelPath) -> bool) -> Since<'a> {
        Since { made: None, leaves_out }
    }

    /// Returns something below the directory `at` that counts. When that directory itself changed does not matter: what is
    /// left out may be directly in it.
    pub(super) fn first_below(&self, folder: &Folder, at: &RelPath) -> io::Result<Option<RelPath>> {
        self.first(folder, at, 0)
    }

    fn first(&self, folder: &Folder, at: &RelPath, depth: usize) -> io::Result<Option<RelPath>> {
        if depth > DEEPEST {
            return Ok(Some(at.clone()));
        }
        let mut is_all = depth > 0;
        for (name, kind) in folder.names()? {
            let Some(path) = at.child(&name) else { return Ok(Some(at.clone())) };
            if (self.leaves_out)(&path) {
                is_all = false;
            } else if kind.is_dir() {
                let found = self.first(&folder.enter_name(&name)?, &path, depth + 1)?;
                if found.is_some() {
                    return Ok(found);
                }
            } else if self.is_later(folder, &name)? {
                return Ok(Some(path));
            }
        }
        // A name that is gone is known by its directory alone, and so is one that is left out.
        let is_changed = match self.made {
            Some(made) if is_all => changed(folder)? > made,
            Some(_) | None => false,
        };
        Ok(is_changed.then(|| at.clone()))
    }

    fn is_later(&self, folder: &Folder, name: &OsStr) -> io::Result<bool> {
        let Some(made) = self.made else { return Ok(true) };
        Ok(folder.stat(name)?.is_none_or(|stat| changed_of(&stat) > made))
    }
}
