//! Tells whether commands have changed anything in a directory, including ignored files.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::time::Duration;

use super::{Lent, is_missing};
use crate::path::RelPath;
use crate::workspace::folder::Folder;
use crate::workspace::snapshot::number;

/// The time of a file's last change, by the file system's clock, which programs cannot set: seconds and nanoseconds.
pub(super) type Changed = (i64, i64);

/// Maximum nesting of directories.
const DEEPEST: usize = 256;

/// Maximum attempts to see the file system's clock advance.
const LOOKS: u32 = 40;

/// Returns the current time of the file system that holds a directory, after its clock has advanced: every later change
/// gets a later time. Does not wait for a clock of whole seconds.
pub(super) fn now_over(directory: &Path) -> io::Result<Changed> {
    let file = tempfile::NamedTempFile::new_in(directory)?;
    let now = || {
        rustix::fs::futimens(
            &file,
            &rustix::fs::Timestamps {
                last_access: rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW },
                last_modification: rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW },
            },
        )?;
        Ok::<_, io::Error>(changed(&rustix::fs::fstat(&file)?))
    };
    let first = now()?;
    for _ in 0..LOOKS {
        if now()? > first {
            break;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    Ok(first)
}

fn changed(stat: &rustix::fs::Stat) -> Changed {
    (number(stat.st_ctime), number(stat.st_ctime_nsec))
}

impl Lent {
    /// Returns a path below a directory that has changed since this tree was made; `leaves_out` is not looked at. In a
    /// layer, what was made in it counts; in a copy, what has changed since.
    pub fn changed_below(
        &self,
        directory: &RelPath,
        leaves_out: &dyn Fn(&RelPath) -> bool,
    ) -> io::Result<Option<RelPath>> {
        let above = match &self.layer {
            Some(layer) => layer.sides()?.0,
            None => self.tree.again()?,
        };
        let folder = match above.enter(directory) {
            Ok(folder) => folder,
            // The layer has a file or nothing there; a copy has nothing to run.
            Err(error) if is_missing(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        self.changed_in(&folder, directory, leaves_out, 0)
    }

    fn changed_in(
        &self,
        folder: &Folder,
        at: &RelPath,
        leaves_out: &dyn Fn(&RelPath) -> bool,
        depth: usize,
    ) -> io::Result<Option<RelPath>> {
        if depth > DEEPEST {
            return Ok(Some(at.clone()));
        }
        let mut is_all = depth > 0;
        for (name, kind) in folder.names()? {
            let Some(path) = at.child(&name) else { return Ok(Some(at.clone())) };
            if leaves_out(&path) {
                is_all = false;
            } else if kind.is_dir() {
                let found = self.changed_in(&folder.enter_name(&name)?, &path, leaves_out, depth + 1)?;
                if found.is_some() {
                    return Ok(found);
                }
            } else if self.is_new(folder, &name, &path)? {
                return Ok(Some(path));
            }
        }
        // A deleted or left-out name shows only in its directory.
        let is_changed = self.layer.is_none() && is_all && changed(&rustix::fs::fstat(folder)?) > self.made;
        Ok(is_changed.then(|| at.clone()))
    }

    fn is_new(&self, folder: &Folder, name: &OsStr, path: &RelPath) -> io::Result<bool> {
        match &self.layer {
            Some(layer) => Ok(!layer.hides(path)),
            None => {
                let stat = folder.stat(name)?;
                Ok(stat.is_none_or(|stat| changed(&stat) > self.made))
            }
        }
    }
}
