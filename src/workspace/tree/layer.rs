//! Reads and writes, from outside, the layer over the project that commands write where the kernel has overlays.
//!
//! Nothing is copied: the project is the lower directory and is never written; what a command changes is in `upper`. A
//! deleted name is a character device 0/0 there, and a directory with the attribute `user.overlay.opaque` hides the one
//! below (the kernel's `Documentation/filesystems/overlayfs.rst`). While it is mounted nobody else writes here.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::options::{LeftOut, TreeOptions, WhyLeftOut, is_closed};
use crate::change::Entry;
use crate::path::RelPath;
use crate::workspace::folder::{Folder, is_missing};

/// The attribute of a directory that hides the one below.
#[cfg(target_os = "linux")]
const OPAQUE: &str = "user.overlay.opaque";

/// The layer.
#[derive(Debug)]
pub struct Layer {
    lower: Folder,
    upper: Folder,
    upper_at: PathBuf,
    work_at: PathBuf,
    hidden: BTreeSet<RelPath>,
}

/// Where something that commands see is stored: the directory that holds it, its name, and whether the layer has it.
pub(in crate::workspace) struct Place<'p> {
    pub(in crate::workspace) folder: Folder,
    pub(in crate::workspace) name: &'p OsStr,
    pub(super) is_above: bool,
}

impl Layer {
    /// As [`Folder::open_wide`], for its top.
    pub(super) fn open_wide(&self) -> io::Result<()> {
        self.upper.open_wide()
    }

    /// Makes an empty layer over `project` in the directory `scratch`, and hides from commands what they must not see:
    /// denied files, git's own directories except `keeps_git` of the root, and special files.
    ///
    /// An error means that no layer is possible: the file system lacks what it needs.
    pub(super) fn begin(
        project: &Path,
        scratch: &Path,
        keeps_git: bool,
        options: &TreeOptions<'_>,
    ) -> io::Result<(Layer, Vec<LeftOut>)> {
        let (upper_at, work_at) = (scratch.join("upper"), scratch.join("work"));
        for folder in [&upper_at, &work_at] {
            std::fs::create_dir(folder)?;
        }
        let (lower, upper) = (Folder::root(project)?, Folder::root_of_ours(&upper_at)?);
        // A name that cannot be mistaken for a file of the project.
        let trial = scratch.join("trial");
        std::fs::create_dir(&trial)?;
        make_opaque(&Folder::root(&trial)?)?;
        std::fs::remove_dir(&trial)?;
        copy_mode(&lower, &upper)?;
        let mut layer = Layer { lower, upper, upper_at, work_at, hidden: BTreeSet::new() };
        let mut left_out = Vec::new();
        layer.hide_below(&layer.lower.again()?, &RelPath::root(), keeps_git, options, &mut left_out)?;
        left_out.sort_by(|a, b| a.path.cmp(&b.path));
        Ok((layer, left_out))
    }

    fn hide_below(
        &mut self,
        folder: &Folder,
        at: &RelPath,
        keeps_git: bool,
        options: &TreeOptions<'_>,
        left_out: &mut Vec<LeftOut>,
    ) -> io::Result<()> {
        options.in_time()?;
        for (name, kind) in folder.names()? {
            let Some(path) = at.child(&name) else { continue };
            let why = if name == ".git" {
                if at.is_root() && keeps_git {
                    continue;
                }
                None
            } else if kind.is_dir() {
                match folder.enter_name(&name) {
                    Ok(inner) => self.hide_below(&inner, &path, keeps_git, options, left_out)?,
                    // What this process cannot read, commands cannot read either.
                    Err(error) if is_closed(&error) || is_missing(&error) => {}
                    Err(error) => return Err(error),
                }
                continue;
            } else if !kind.is_file() && !kind.is_symlink() {
                Some(WhyLeftOut::Special)
            } else if !(options.may_read)(&path) {
                Some(WhyLeftOut::Denied)
            } else {
                continue;
            };
            self.white_out(&path)?;
            left_out.extend(why.map(|why| LeftOut { path: path.clone(), why }));
            self.hidden.insert(path);
        }
        Ok(())
    }

    /// Returns the directory that holds what was changed.
    pub fn upper(&self) -> &Path {
        &self.upper_at
    }

    /// Returns the kernel's own directory next to it.
    pub fn work(&self) -> &Path {
        &self.work_at
    }

    /// Opens both sides, to be looked through together.
    pub(super) fn sides(&self) -> io::Result<(Folder, Folder)> {
        Ok((self.upper.again()?, self.lower.again()?))
    }

    /// Tells whether a name was hidden before any command ran.
    pub(super) fn hides(&self, path: &RelPath) -> bool {
        self.hidden.contains(path)
    }

    /// Finds what commands see at a path.
    pub(in crate::workspace) fn place<'p>(&self, path: &'p RelPath) -> io::Result<Option<Place<'p>>> {
        let (mut upper, mut lower) = (Some(self.upper.again()?), Some(self.lower.again()?));
        let mut names = path.components().map(OsStr::from_bytes).peekable();
        while let Some(name) = names.next() {
            let is_last = names.peek().is_none();
            let above = match &upper {
                Some(folder) => folder.stat(name)?,
                None => None,
            };
            if let Some(found) = above {
                if is_white_out(&found) {
                    return Ok(None);
                }
                if is_last {
                    return Ok(upper.map(|folder| Place { folder, name, is_above: true }));
                }
                let inner = match upper.as_ref().map(|folder| folder.enter_name(name)) {
                    Some(Ok(inner)) => inner,
                    Some(Err(error)) if !is_missing(&error) => return Err(error),
                    Some(Err(_)) | None => return Ok(None),
                };
                lower = if is_opaque(&inner)? { None } else { below(lower.as_ref(), name)? };
                upper = Some(inner);
            } else {
                let Some(folder) = lower else { return Ok(None) };
                if is_last {
                    let is_there = folder.stat(name)?.is_some();
                    return Ok(is_there.then_some(Place { folder, name, is_above: false }));
                }
                (upper, lower) = (None, below(Some(&folder), name)?);
            }
        }
        Ok(None)
    }

    /// Puts an entry where commands will see it, replacing whatever is there.
    pub(super) fn put(&self, path: &RelPath, entry: &Entry) -> io::Result<()> {
        if *entry != Entry::Absent {
            let (folder, name) = self.make_way_to(path)?;
            folder.clear(name)?;
            return folder.write(name, entry);
        }
        match self.upper.parent_of(path) {
            Ok((folder, name)) => folder.clear(name)?,
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(error),
        }
        if self.place(path)?.is_some() { self.white_out(path) } else { Ok(()) }
    }

    fn white_out(&self, path: &RelPath) -> io::Result<()> {
        let (folder, name) = self.make_way_to(path)?;
        folder.clear(name)?;
        make_white_out(&folder, name)
    }

    /// Opens the layer's parent directory of a path. It shows what the lower one contains, unless that was deleted.
    fn make_way_to<'p>(&self, path: &'p RelPath) -> io::Result<(Folder, &'p OsStr)> {
        let name = path.file_name().ok_or_else(|| io::Error::other("the root cannot be written"))?;
        let (mut upper, mut lower) = (self.upper.again()?, Some(self.lower.again()?));
        let count = path.components().count().saturating_sub(1);
        for part in path.components().take(count).map(OsStr::from_bytes) {
            let beneath = below(lower.as_ref(), part)?;
            let (inner, shows) = match upper.enter_name(part) {
                Ok(inner) => {
                    let shows = !is_opaque(&inner)?;
                    (inner, shows)
                }
                Err(error) if is_missing(&error) => {
                    let shows = upper.stat(part)?.is_none();
                    upper.clear(part)?;
                    let inner = upper.make_folder(part)?;
                    match &beneath {
                        Some(beneath) if shows => copy_mode(beneath, &inner)?,
                        Some(_) => make_opaque(&inner)?,
                        None => {}
                    }
                    (inner, shows)
                }
                Err(error) => return Err(error),
            };
            upper = inner;
            lower = beneath.filter(|_| shows);
        }
        Ok((upper, name))
    }
}

/// Opens a directory of the project by its name. A link does not count as a directory, as for the kernel.
pub(super) fn below(folder: Option<&Folder>, name: &OsStr) -> io::Result<Option<Folder>> {
    match folder.map(|folder| folder.enter_name(name)) {
        Some(Ok(inner)) => Ok(Some(inner)),
        Some(Err(error)) if !is_missing(&error) && !is_closed(&error) => Err(error),
        Some(Err(_)) | None => Ok(None),
    }
}

/// Tells whether a name of the layer marks a deletion.
pub(super) fn is_white_out(stat: &rustix::fs::Stat) -> bool {
    rustix::fs::FileType::from_raw_mode(stat.st_mode).is_char_device() && stat.st_rdev == 0
}

fn copy_mode(from: &Folder, to: &Folder) -> io::Result<()> {
    let mode = rustix::fs::fstat(from)?.st_mode;
    Ok(rustix::fs::fchmod(to, rustix::fs::Mode::from_raw_mode(mode & 0o777))?)
}

#[cfg(target_os = "linux")]
fn make_white_out(folder: &Folder, name: &OsStr) -> io::Result<()> {
    use rustix::fs::{FileType, Mode, makedev, mknodat};
    Ok(mknodat(folder, name, FileType::CharacterDevice, Mode::empty(), makedev(0, 0))?)
}

#[cfg(target_os = "linux")]
fn make_opaque(folder: &Folder) -> io::Result<()> {
    Ok(rustix::fs::fsetxattr(folder, OPAQUE, b"y", rustix::fs::XattrFlags::empty())?)
}

/// Tells whether a directory of the layer hides the one below.
#[cfg(target_os = "linux")]
pub(super) fn is_opaque(folder: &Folder) -> io::Result<bool> {
    let mut value = [0; 8];
    match rustix::fs::fgetxattr(folder, OPAQUE, &mut value[..]) {
        Ok(length) => Ok(value[..length] == *b"y"),
        Err(rustix::io::Errno::NODATA | rustix::io::Errno::NOTSUP) => Ok(false),
        // Longer than what the kernel writes.
        Err(rustix::io::Errno::RANGE) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn make_white_out(_: &Folder, _: &OsStr) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(target_os = "linux"))]
fn make_opaque(_: &Folder) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Tells whether a directory of the layer hides the one below.
#[cfg(not(target_os = "linux"))]
pub(super) fn is_opaque(_: &Folder) -> io::Result<bool> {
    Err(io::ErrorKind::Unsupported.into())
}
