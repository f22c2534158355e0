//! Holds directories by descriptor: a decision about a name applies to exactly that name, and no link leads elsewhere.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, FlockOperation, Gid, Mode, OFlags, RenameFlags, Stat, Uid};

use super::steps::Steps;
use crate::change::Entry;
use crate::path::RelPath;

/// How often, and how long apart, to try a lock that another process holds.
const LOCK_TRIES: u32 = 40;
const LOCK_PAUSE: std::time::Duration = std::time::Duration::from_millis(5);

/// An open directory.
#[derive(Debug)]
pub struct Folder {
    descriptor: OwnedFd,
    /// Whether what closes a directory or file in it to its owner is undone where it is entered or read.
    is_ours: bool,
}

impl std::os::fd::AsFd for Folder {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// What a new file takes over from the one that it replaces, besides its name.
#[derive(Debug)]
pub struct Like {
    mode: u32,
    /// Whether the mode is the most that any new file of this process gets, and not its mode.
    at_most: bool,
    owner: Option<(Uid, Gid)>,
    /// Names and values.
    attributes: Vec<(OsString, Vec<u8>)>,
}

impl Like {
    /// Has a mode, and nothing else.
    pub fn with_mode(mode: u32) -> Like {
        Like { mode, at_most: false, owner: None, attributes: Vec::new() }
    }

    /// Has the mode of any new file, without the rights that are not in this one.
    pub fn at_most(mode: u32) -> Like {
        Like { at_most: true, ..Like::with_mode(mode & 0o666 | 0o600) }
    }

    /// Takes `mode` instead, if the file still has the one that a delivery gives it which makes it executable or not.
    pub fn back_to(self, mode: u32, executable: bool) -> Like {
        let is_delivered = self.mode & 0o7777 == executing(mode, executable);
        Like { mode: if is_delivered { mode } else { self.mode }, ..self }
    }
}

/// Returns a mode with the executable bits that belong to it: everybody who may read may execute.
fn executing(mode: u32, executable: bool) -> u32 {
    match ((mode & 0o100 != 0) == executable, executable) {
        (true, _) => mode,
        (false, true) => mode | (mode & 0o444) >> 2,
        (false, false) => mode & !0o111,
    }
}

/// The access list of a file, as Linux keeps it.
const ACCESS_LIST: &[u8] = b"system.posix_acl_access";

/// Returns a file's extended attributes of users, and its access list; what cannot be read is left out.
fn attributes(file: BorrowedFd<'_>) -> Vec<(OsString, Vec<u8>)> {
    let read = |get: &dyn Fn(&mut [u8]) -> rustix::io::Result<usize>| {
        // The system keeps none that are longer.
        let mut value = vec![0; 64 << 10];
        let length = get(&mut value).ok()?;
        value.truncate(length);
        Some(value)
    };
    let names = read(&|buffer| rustix::fs::flistxattr(file, buffer)).unwrap_or_default();
    let names = names.split(|byte| *byte == 0).filter(|name| name.starts_with(b"user.") || *name == ACCESS_LIST);
    names
        .filter_map(|name| {
            let name = OsStr::from_bytes(name);
            Some((name.to_os_string(), read(&|buffer| rustix::fs::fgetxattr(file, name, buffer))?))
        })
        .collect()
}

impl Folder {
    /// Opens the root of a tree.
    pub fn root(path: &Path) -> io::Result<Folder> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Folder { descriptor: rustix::fs::open(path, flags, Mode::empty())?, is_ours: false })
    }

    /// Opens the root of a tree that is discarded with the run: commands that take rights away in it stop nobody.
    pub fn root_of_ours(path: &Path) -> io::Result<Folder> {
        let folder = match Folder::root(path) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                rustix::fs::chmod(path, Mode::RWXU)?;
                Folder::root(path)?
            }
            opened => opened?,
        };
        folder.open_wide()?;
        Ok(Folder { is_ours: true, ..folder })
    }

    /// Locks this directory, until this process ends at the latest; `false` if another process holds the lock.
    pub fn lock(&self) -> bool {
        // A process that is being started briefly holds a copy of every descriptor, including locks of directories that
        // were closed meanwhile: such a lock goes away by itself.
        for _ in 0..LOCK_TRIES {
            // A file system without locks is not a reason to refuse: the comparison with the base still guards every
            // file.
            if rustix::fs::flock(&self.descriptor, FlockOperation::NonBlockingLockExclusive)
                != Err(rustix::io::Errno::WOULDBLOCK)
            {
                return true;
            }
            std::thread::sleep(LOCK_PAUSE);
        }
        false
    }

    /// Opens a directory below this one; no part of the path may be a link.
    pub fn enter(&self, path: &RelPath) -> io::Result<Folder> {
        let mut folder = self.again()?;
        for name in path.components() {
            folder = folder.enter_name(OsStr::from_bytes(name))?;
        }
        Ok(folder)
    }

    /// Opens the same directory once more.
    pub fn again(&self) -> io::Result<Folder> {
        Ok(Folder { descriptor: self.descriptor.try_clone()?, ..*self })
    }

    /// Makes a directory and opens it.
    pub fn make_folder(&self, name: &OsStr) -> io::Result<Folder> {
        rustix::fs::mkdirat(&self.descriptor, name, Mode::from_raw_mode(0o777))?;
        self.enter_name(name)
    }

    /// Opens a directory in this one; a link is an error.
    pub fn enter_name(&self, name: &OsStr) -> io::Result<Folder> {
        if self.is_ours { self.enter_opened(name) } else { self.enter_as_it_is(name) }
    }

    fn enter_as_it_is(&self, name: &OsStr) -> io::Result<Folder> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let descriptor = rustix::fs::openat(&self.descriptor, name, flags, Mode::empty())?;
        Ok(Folder { descriptor, is_ours: self.is_ours })
    }

    /// Opens the directory that holds a path, and returns the path's name in it.
    pub fn parent_of<'p>(&self, path: &'p RelPath) -> io::Result<(Folder, &'p OsStr)> {
        let name = path.file_name().ok_or_else(|| io::Error::other("the root cannot be written"))?;
        Ok((self.enter(&path.parent().unwrap_or_default())?, name))
    }

    /// Returns what is at a path below; [`Entry::Absent`] also where a part of the path is not a directory.
    pub fn entry_at(&self, path: &RelPath) -> io::Result<Entry> {
        match self.parent_of(path) {
            Ok((folder, name)) => folder.entry(name),
            Err(error) if is_missing(&error) => Ok(Entry::Absent),
            Err(error) => Err(error),
        }
    }

    /// Returns the names in this directory, and of what kind they are.
    pub fn names(&self) -> io::Result<Vec<(OsString, FileType)>> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.descriptor)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                // Some file systems report the type only in the file's own record.
                FileType::Unknown => match self.stat(name)? {
                    Some(stat) => FileType::from_raw_mode(stat.st_mode),
                    None => continue,
                },
                kind => kind,
            };
            names.push((name.to_owned(), kind));
        }
        Ok(names)
    }

    /// Removes what is at a name, with everything below it; a missing name is not an error.
    ///
    /// Directories are moved up before they are emptied: two descriptors are enough for any depth. A directory without
    /// permissions for its owner gets them first.
    pub fn clear(&self, name: &OsStr) -> io::Result<()> {
        let mut ahead = vec![name.to_owned()];
        let mut moved = 0_u64;
        while let Some(name) = ahead.pop() {
            let removed = match rustix::fs::unlinkat(&self.descriptor, &name, AtFlags::empty()) {
                Err(rustix::io::Errno::ISDIR | rustix::io::Errno::PERM) => {
                    let folder = self.enter_opened(&name)?;
                    for (inner, kind) in folder.names()? {
                        if !kind.is_dir() {
                            rustix::fs::unlinkat(&folder.descriptor, &inner, AtFlags::empty())?;
                        } else if rustix::fs::unlinkat(&folder.descriptor, &inner, AtFlags::REMOVEDIR).is_err() {
                            // A directory that its owner may not write cannot be moved.
                            folder.enter_opened(&inner)?;
                            ahead.push(self.take_from(&folder, &inner, &mut moved)?);
                        }
                    }
                    rustix::fs::unlinkat(&self.descriptor, &name, AtFlags::REMOVEDIR)
                }
                removed => removed,
            };
            match removed.map_err(io::Error::from) {
                Err(error) if !is_missing(&error) => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Opens a directory in this one with all rights for its owner.
    fn enter_opened(&self, name: &OsStr) -> io::Result<Folder> {
        let folder = match self.enter_as_it_is(name) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.change_mode(name, Mode::RWXU)?;
                self.enter_as_it_is(name)?
            }
            entered => entered?,
        };
        folder.open_wide()?;
        Ok(folder)
    }

    /// Gives the owner all rights in this directory.
    pub fn open_wide(&self) -> io::Result<()> {
        let mode = rustix::fs::fstat(self)?.st_mode;
        if mode & 0o700 != 0o700 {
            rustix::fs::fchmod(self, as_mode(mode & 0o777 | 0o700))?;
        }
        Ok(())
    }

    /// Gives what is at a name a mode, also if it is closed to us; no link is followed.
    #[cfg(target_os = "linux")]
    fn change_mode(&self, name: &OsStr, mode: Mode) -> io::Result<()> {
        use std::os::fd::AsRawFd as _;

        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let closed = rustix::fs::openat(&self.descriptor, name, flags, Mode::empty())?;
        // A descriptor of this kind takes no mode itself.
        Ok(rustix::fs::chmod(format!("/proc/self/fd/{}", closed.as_raw_fd()), mode)?)
    }

    /// Gives what is at a name a mode, also if it is closed to us; no link is followed.
    #[cfg(not(target_os = "linux"))]
    fn change_mode(&self, name: &OsStr, mode: Mode) -> io::Result<()> {
        Ok(rustix::fs::chmodat(&self.descriptor, name, mode, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Gives what is at a name a mode, also if it is closed to us; no link is followed. For trees of our own.
    pub fn open_to(&self, name: &OsStr, mode: u32) -> io::Result<()> {
        self.change_mode(name, as_mode(mode))
    }

    /// Gives a file the time of now.
    pub fn touch(&self, name: &OsStr) -> io::Result<()> {
        let now = rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
        let times = rustix::fs::Timestamps { last_access: now, last_modification: now };
        Ok(rustix::fs::utimensat(&self.descriptor, name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Moves a directory out of another one into this one, under a free name, which is returned.
    fn take_from(&self, folder: &Folder, name: &OsStr, number: &mut u64) -> io::Result<OsString> {
        loop {
            *number += 1;
            let free = OsString::from(format!(".qwen-cleared-{number}"));
            match rustix::fs::renameat_with(&folder.descriptor, name, &self.descriptor, &free, RenameFlags::NOREPLACE) {
                Err(rustix::io::Errno::EXIST) => {}
                Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::OPNOTSUPP)
                    if self.stat(&free)?.is_none() =>
                {
                    rustix::fs::renameat(&folder.descriptor, name, &self.descriptor, &free)?;
                    return Ok(free);
                }
                moved => return Ok(moved.map(|()| free)?),
            }
        }
    }

    /// Opens the parent directory of a path, and returns the path's name in it. Missing directories on the way are
    /// created, and anything else in their place is removed.
    pub fn make_way_to<'p>(&self, path: &'p RelPath) -> io::Result<(Folder, &'p OsStr)> {
        let name = path.file_name().ok_or_else(|| io::Error::other("the root cannot be written"))?;
        let mut folder = self.again()?;
        let count = path.components().count().saturating_sub(1);
        for part in path.components().take(count).map(OsStr::from_bytes) {
            folder = match folder.enter_name(part) {
                Err(error) if is_missing(&error) => {
                    folder.clear(part)?;
                    folder.make_folder(part)?
                }
                entered => entered?,
            };
        }
        Ok((folder, name))
    }

    /// Looks at a name without following it.
    pub fn stat(&self, name: &OsStr) -> io::Result<Option<Stat>> {
        match rustix::fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(error) if is_missing(&error.into()) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns what is at a name, contents included; a directory or a device is [`Entry::Absent`].
    pub fn entry(&self, name: &OsStr) -> io::Result<Entry> {
        let Some(stat) = self.stat(name)? else { return Ok(Entry::Absent) };
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let file = match rustix::fs::openat(&self.descriptor, name, flags, Mode::empty()) {
                    Err(rustix::io::Errno::ACCESS) if self.is_ours => {
                        self.change_mode(name, as_mode(stat.st_mode & 0o777 | 0o600))?;
                        rustix::fs::openat(&self.descriptor, name, flags, Mode::empty())?
                    }
                    opened => opened?,
                };
                // It may be another file by now.
                let stat = rustix::fs::fstat(&file)?;
                if !FileType::from_raw_mode(stat.st_mode).is_file() {
                    return Ok(Entry::Absent);
                }
                let size = u64::try_from(stat.st_size).unwrap_or(0);
                let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
                // A file that is still being written is read up to its current size.
                File::from(file).take(size).read_to_end(&mut content)?;
                Entry::File { content: content.into(), executable: stat.st_mode & 0o100 != 0 }
            }
            FileType::Symlink => {
                Entry::Link { target: rustix::fs::readlinkat(&self.descriptor, name, Vec::new())?.into_bytes() }
            }
            _ => Entry::Absent,
        })
    }

    /// Opens a regular file in this directory; a link is an error, and nothing else is waited for.
    pub fn open_file(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.descriptor, name, flags, Mode::empty()) {
            Err(rustix::io::Errno::LOOP) => return Err(io::Error::other("it is a link")),
            opened => opened?,
        };
        match FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode).is_file() {
            true => Ok(File::from(file)),
            false => Err(io::Error::other("it is not a regular file")),
        }
    }

    /// Looks at what else than contents a new file takes over from the one at a name; `None` where there is no file.
    pub fn like(&self, name: &OsStr) -> io::Result<Option<Like>> {
        let Some(stat) = self.stat(name)?.filter(|stat| FileType::from_raw_mode(stat.st_mode).is_file()) else {
            return Ok(None);
        };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        // Attributes of a file that is closed to us are closed, too.
        let file = rustix::fs::openat(&self.descriptor, name, flags, Mode::empty());
        let attributes = file.map_or_else(|_| Vec::new(), |file| attributes(file.as_fd()));
        let owner = Some((Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid)));
        Ok(Some(Like { mode: super::snapshot::number(stat.st_mode), at_most: false, owner, attributes }))
    }

    /// Makes a new file or link. A file gets the mode, owner, access list and extended attributes of `like`, as far as
    /// allowed, and is on the disk before this returns.
    pub fn create(&self, name: &OsStr, entry: &Entry, like: Option<&Like>, steps: &Steps) -> io::Result<()> {
        match entry {
            Entry::Absent => Ok(()),
            Entry::Link { target } => {
                steps.step()?;
                Ok(rustix::fs::symlinkat(OsStr::from_bytes(target), &self.descriptor, name)?)
            }
            Entry::File { content, executable } => {
                steps.step()?;
                // Until it has its mode, nobody else may read it.
                let mut file = match like {
                    Some(like) if like.at_most => self.create_with(name, executing(like.mode, *executable))?,
                    Some(_) => self.create_private(name)?,
                    None => self.create_file(name, *executable)?,
                };
                steps.step()?;
                file.write_all(content)?;
                if let Some(Like { mode, owner, attributes, .. }) = like.filter(|like| !like.at_most) {
                    if let Some((owner, group)) = owner {
                        // Only root can give a file away; for all others the owner is the same or stays ours.
                        let _ = rustix::fs::fchown(file.as_fd(), Some(*owner), Some(*group));
                    }
                    for (name, value) in attributes {
                        // Not every file system has them.
                        let _ = rustix::fs::fsetxattr(file.as_fd(), &**name, value, rustix::fs::XattrFlags::empty());
                    }
                    // Behind the access list, whose rights the mode limits.
                    rustix::fs::fchmod(file.as_fd(), as_mode(executing(*mode, *executable)))?;
                }
                file.sync_data()
            }
        }
    }

    /// As [`Folder::create`], for a tree that is discarded with the run: does not sync.
    pub fn write(&self, name: &OsStr, entry: &Entry) -> io::Result<()> {
        match entry {
            Entry::Absent => Ok(()),
            Entry::Link { target } => Ok(rustix::fs::symlinkat(OsStr::from_bytes(target), &self.descriptor, name)?),
            Entry::File { content, executable } => self.create_file(name, *executable)?.write_all(content),
        }
    }

    fn create_file(&self, name: &OsStr, executable: bool) -> io::Result<File> {
        self.create_with(name, if executable { 0o777 } else { 0o666 })
    }

    /// Makes a new file for its owner alone.
    pub fn create_private(&self, name: &OsStr) -> io::Result<File> {
        self.create_with(name, 0o600)
    }

    fn create_with(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(&self.descriptor, name, flags, as_mode(mode))?))
    }

    /// Swaps two names at once. If the file system cannot do this, `target`'s file also gets the name `name`.
    pub fn exchange(&self, name: &OsStr, other: &Folder, target: &OsStr, steps: &Steps) -> io::Result<()> {
        steps.step()?;
        match rustix::fs::renameat_with(&self.descriptor, name, &other.descriptor, target, RenameFlags::EXCHANGE) {
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::OPNOTSUPP) => {
                let mut kept = OsString::from(name);
                kept.push("-old");
                rustix::fs::linkat(&other.descriptor, target, &self.descriptor, &*kept, AtFlags::empty())?;
                rustix::fs::renameat(&self.descriptor, name, &other.descriptor, target)?;
                Ok(rustix::fs::renameat(&self.descriptor, &*kept, &self.descriptor, name)?)
            }
            result => Ok(result?),
        }
    }

    /// Moves a name to one that is free.
    pub fn place(&self, name: &OsStr, other: &Folder, target: &OsStr, steps: &Steps) -> io::Result<()> {
        steps.step()?;
        match rustix::fs::renameat_with(&self.descriptor, name, &other.descriptor, target, RenameFlags::NOREPLACE) {
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::OPNOTSUPP) => {
                if other.stat(target)?.is_some() {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                Ok(rustix::fs::renameat(&self.descriptor, name, &other.descriptor, target)?)
            }
            result => Ok(result?),
        }
    }

    /// Removes a file or link.
    pub fn unlink(&self, name: &OsStr, steps: &Steps) -> io::Result<()> {
        steps.step()?;
        Ok(rustix::fs::unlinkat(&self.descriptor, name, AtFlags::empty())?)
    }

    /// Makes a directory, with exactly this mode if there is one; it never has more rights.
    pub fn make(&self, name: &OsStr, mode: Option<u32>, steps: &Steps) -> io::Result<()> {
        steps.step()?;
        rustix::fs::mkdirat(&self.descriptor, name, as_mode(mode.unwrap_or(0o777) & 0o777))?;
        mode.map_or(Ok(()), |mode| self.set_mode(name, mode))
    }

    /// Tells whether a directory is at a path below; no link is followed.
    pub fn has_folder(&self, path: &RelPath) -> io::Result<bool> {
        Ok(self.kind_at(path)? == Some(FileType::Directory))
    }

    /// Returns what is at a path below, not followed; `None` if nothing is there.
    pub fn kind_at(&self, path: &RelPath) -> io::Result<Option<FileType>> {
        match self.parent_of(path).and_then(|(parent, name)| parent.stat(name)) {
            Ok(stat) => Ok(stat.map(|stat| FileType::from_raw_mode(stat.st_mode))),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the mode of a file or directory; `None` if nothing is there.
    pub fn mode_of(&self, name: &OsStr) -> io::Result<Option<u32>> {
        let mode = |stat: Stat| -> u32 { super::snapshot::number(stat.st_mode) };
        Ok(self.stat(name)?.map(|stat| mode(stat) & 0o7777))
    }

    /// Gives a directory a mode; a link is an error.
    pub fn set_mode(&self, name: &OsStr, mode: u32) -> io::Result<()> {
        Ok(rustix::fs::fchmod(self.enter_name(name)?, as_mode(mode))?)
    }

    /// Gives a regular file a mode; a link, or a file that has other names as well, is an error.
    pub fn set_mode_of_file(&self, name: &OsStr, mode: u32) -> io::Result<()> {
        let file = self.open_file(name)?;
        match rustix::fs::fstat(&file)?.st_nlink {
            1 => Ok(rustix::fs::fchmod(file, as_mode(mode))?),
            _ => Err(io::Error::other("it has other names as well")),
        }
    }

    /// Removes an empty directory.
    pub fn remove(&self, name: &OsStr, steps: &Steps) -> io::Result<()> {
        steps.step()?;
        Ok(rustix::fs::unlinkat(&self.descriptor, name, AtFlags::REMOVEDIR)?)
    }
}

fn as_mode(mode: u32) -> Mode {
    Mode::from_raw_mode(super::snapshot::number(mode & 0o7777))
}

/// Tells whether an error means that nothing exists there. A link as a part of the path counts: it is not a directory.
pub fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
