//! Creates namespaces for users, mounts, network and processes, and the file system that is seen inside.
//!
//! The supervisor makes the namespaces and is root in them, and in nothing else. Init, their first process, builds a
//! file system from an empty one, makes it its root, and enters one more user namespace, in which it has its old id and
//! no power over the mounts.

#![cfg_attr(target_os = "linux", expect(clippy::disallowed_methods, reason = "mount points are made here"))]

#[cfg(target_os = "linux")]
pub(super) use linux::{build, give_listener, probe_inside, unshare};

#[cfg(not(target_os = "linux"))]
pub(super) fn give_listener(_to: &std::os::fd::OwnedFd) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn unshare(_network: bool) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn probe_inside() -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::OsString;
    use std::fs;
    use std::io::{self, ErrorKind};
    use std::net::{Ipv4Addr, TcpListener};
    use std::os::fd::{AsFd, OwnedFd};
    use std::os::unix::ffi::OsStringExt;
    use std::os::unix::fs::{FileTypeExt, symlink};
    use std::path::{Path, PathBuf};

    use nix::sched::CloneFlags;
    use rustix::fs::StatVfsMountFlags;
    use rustix::mount::{
        MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind_recursive, mount_change, mount_remount,
    };

    use super::super::tier::Probe;
    use super::super::view::{Source, View};
    use super::super::{overlay, system, wire};
    use crate::bounded;

    /// Maps a path of the inside to its path while the file system is being built below `root`.
    fn below(root: &Path, path: &Path) -> PathBuf {
        root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The largest table of mounts that is read.
    const MOUNT_TABLE: u64 = 64 << 20;

    /// Parts of `/proc` through which root could change or read the machine.
    const PROC_READ_ONLY: &[&str] = &["/proc/sys", "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sysrq-trigger"];
    const PROC_HIDDEN: &[&str] = &["/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/kmsg", "/proc/kallsyms"];

    /// Makes the namespaces. This process is in all of them except the process namespace, which its children enter.
    pub(in super::super) fn unshare(network: bool) -> io::Result<()> {
        let ids = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let mut flags = CloneFlags::CLONE_NEWUSER
            | CloneFlags::CLONE_NEWNS
            | CloneFlags::CLONE_NEWPID
            | CloneFlags::CLONE_NEWIPC
            | CloneFlags::CLONE_NEWUTS;
        if !network {
            flags |= CloneFlags::CLONE_NEWNET;
        }
        nix::sched::unshare(flags)?;
        map_ids((0, 0), ids)
    }

    /// Opens the proxy's listener inside the new network, and passes it over a socket.
    pub(in super::super) fn give_listener(to: &OwnedFd) -> io::Result<()> {
        // The loopback is not up yet, and gets its address only then; nothing else will ever be in this network.
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, super::super::proxy::PORT))?;
        wire::send_descriptor(to, listener.as_fd())
    }

    /// Maps the user and group of this process into its new namespace.
    fn map_ids(inside: (u32, u32), outside: (u32, u32)) -> io::Result<()> {
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{} {} 1", inside.0, outside.0))?;
        fs::write("/proc/self/gid_map", format!("{} {} 1", inside.1, outside.1))
    }

    /// Builds the file system and makes it the root; then gives up every power over it.
    pub(in super::super) fn build(view: &View, network: bool) -> Result<(), String> {
        let root = Path::new(&view.root);
        let said = |what: &str, path: &Path, error: io::Error| format!("{what} {}: {error}", path.display());
        nix::sched::unshare(CloneFlags::CLONE_NEWNS).map_err(|error| format!("mount namespace: {error}"))?;
        let private = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
        mount_change("/", private).map_err(|error| format!("mount propagation: {error}"))?;
        new_tmpfs(root, c"mode=0755,size=16m").map_err(|error| said("mount", root, error))?;
        let mut places = Places { mounts: mounts().map_err(|error| format!("mounts: {error}"))?, covered: Vec::new() };
        for each in &view.mounts {
            let at = Path::new(&each.at);
            attach(root, at, &each.what, &mut places).map_err(|error| said("mount", at, error))?;
        }
        for path in &view.read_only {
            let path = Path::new(path);
            keep_read_only(root, path).map_err(|error| said("keep read-only", path, error))?;
        }
        hide(root, &view.hidden).map_err(|error| format!("hidden files: {error}"))?;
        make_devices(root).map_err(|error| format!("devices: {error}"))?;
        make_proc(root).map_err(|error| format!("/proc: {error}"))?;
        if !root.join("var/tmp").exists() {
            let _not_needed = fs::create_dir_all(root.join("var")).and_then(|()| symlink("/tmp", root.join("var/tmp")));
        }
        mount_remount(root, MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV, c"")
            .map_err(|error| said("keep read-only", root, error.into()))?;
        enter(root).map_err(|error| said("new root", root, error))?;
        if !network {
            raise_loopback().map_err(|error| format!("own loopback: {error}"))?;
        }
        nix::sched::unshare(CloneFlags::CLONE_NEWUSER).map_err(|error| format!("second user namespace: {error}"))?;
        map_ids(view.ids, (0, 0)).map_err(|error| format!("second user namespace: {error}"))
    }

    fn new_tmpfs(at: &Path, options: &std::ffi::CStr) -> io::Result<()> {
        Ok(mount("tmpfs", at, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options)?)
    }

    /// What is known of paths while the file system is built.
    struct Places {
        /// Where something was mounted before the first mount of ours.
        mounts: Vec<PathBuf>,
        /// What is visible already.
        covered: Vec<PathBuf>,
    }

    /// Makes one mount. Paths below a read-only mount exist already.
    fn attach(root: &Path, at: &Path, what: &Source, places: &mut Places) -> io::Result<()> {
        if leads_away(root, at) {
            return match what {
                // The path is then not visible inside: the command misses it, and nothing is lost.
                Source::Read(_) | Source::Made(_) | Source::Layered(_) | Source::Scratch => Ok(()),
                Source::Write(_) | Source::Overlay { .. } => Err(io::Error::other("a link is in the way")),
            };
        }
        match what {
            Source::Read(from) => show(root, at, Path::new(from), places),
            Source::Made(from) => {
                let from = Path::new(from);
                if places.covered.iter().any(|folder| at.starts_with(folder)) || !from.exists() {
                    return Ok(());
                }
                bind(from, &below(root, at), from.is_dir(), true, &places.mounts)?;
                places.covered.push(at.to_path_buf());
                Ok(())
            }
            Source::Write(from) => {
                places.covered.retain(|folder| !folder.starts_with(at));
                bind(Path::new(from), &below(root, at), true, false, &places.mounts)
            }
            Source::Scratch => {
                places.covered.retain(|folder| !at.starts_with(folder));
                let target = below(root, at);
                fs::create_dir_all(&target)?;
                new_tmpfs(&target, c"mode=0700,size=512m")
            }
            Source::Layered(from) => layer(root, at, Path::new(from), places),
            Source::Overlay { lower, upper, work, read_only } => {
                places.covered.retain(|folder| !folder.starts_with(at));
                let target = below(root, at);
                fs::create_dir_all(&target)?;
                overlay::overlay(Path::new(lower), Path::new(upper), Path::new(work), &target)?;
                if *read_only { restrict(&target, true) } else { Ok(()) }
            }
        }
    }

    /// Shows a file, directory or link outside.
    fn show(root: &Path, at: &Path, from: &Path, places: &mut Places) -> io::Result<()> {
        if places.covered.iter().any(|folder| at.starts_with(folder)) {
            return Ok(());
        }
        let Ok(found) = fs::symlink_metadata(from) else { return Ok(()) };
        if found.is_symlink() {
            let target = fs::read_link(from)?;
            if let Some(parent) = below(root, at).parent() {
                fs::create_dir_all(parent)?;
            }
            match symlink(&target, below(root, at)) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                Ok(()) | Err(_) => {}
            }
            let Ok(real) = from.canonicalize() else { return Ok(()) };
            return attach(root, &real, &Source::Read(real.clone().into()), places);
        }
        let target = below(root, at);
        if !found.is_dir() && !found.is_file() {
            // Who can open a FIFO or connect to a socket reaches the process behind it.
            return Ok(());
        }
        if found.is_dir() && !system::is_of_system(at) {
            detached(root, from, &target, &places.mounts)?;
        } else {
            bind(from, &target, found.is_dir(), true, &places.mounts)?;
        }
        places.covered.push(at.to_path_buf());
        Ok(())
    }

    /// Shows a directory outside below a layer of its own.
    fn layer(root: &Path, at: &Path, from: &Path, places: &Places) -> io::Result<()> {
        let Ok(from) = from.canonicalize() else { return Ok(()) };
        let target = below(root, at);
        fs::create_dir_all(&target)?;
        // The layer is on a file system of its own, below the path that it covers.
        new_tmpfs(&target, c"mode=0700,size=1g")?;
        let (upper, work) = (target.join("upper"), target.join("work"));
        fs::create_dir(&upper)?;
        fs::create_dir(&work)?;
        match overlay::overlay(&from, &upper, &work, &target) {
            Ok(()) => Ok(()),
            Err(_) => detached(root, &from, &target, &places.mounts),
        }
    }

    /// Shows a directory of the user's, read-only and so that FIFOs and sockets in it lead to no process outside: in an
    /// overlay they are others. Where an overlay cannot show it, those that exist are covered.
    fn detached(root: &Path, from: &Path, target: &Path, mounts: &[PathBuf]) -> io::Result<()> {
        let from = from.canonicalize()?;
        let has_inner = mounts.iter().any(|mount| *mount != from && mount.starts_with(&from));
        fs::create_dir_all(target)?;
        // Of mounts below it an overlay shows the directories alone.
        if !has_inner && overlay::alone(root, &from, target).is_ok() {
            return restrict(target, true);
        }
        bind(&from, target, true, true, mounts)?;
        cover_special_files(root, target)
    }

    /// Covers every FIFO and socket below a directory with an empty file.
    fn cover_special_files(root: &Path, directory: &Path) -> io::Result<()> {
        let mut pending = vec![directory.to_path_buf()];
        let mut found = Vec::new();
        while let Some(directory) = pending.pop() {
            let inside = |path: &Path| Path::new("/").join(path.strip_prefix(root).unwrap_or(path)).into_os_string();
            let Ok(entries) = fs::read_dir(&directory) else {
                // The command could still open what it knows the name of.
                found.push(inside(&directory));
                continue;
            };
            for entry in entries {
                let entry = entry?;
                let kind = entry.file_type()?;
                if kind.is_dir() {
                    pending.push(entry.path());
                } else if kind.is_fifo() || kind.is_socket() {
                    found.push(inside(&entry.path()));
                }
            }
        }
        hide(root, &found)
    }

    /// Tells whether a link is on the way to a path, once it is below `root`.
    ///
    /// It would be followed from the old root: an earlier command could have a file created anywhere.
    fn leads_away(root: &Path, at: &Path) -> bool {
        let mut place = root.to_path_buf();
        let relative = at.strip_prefix("/").unwrap_or(at);
        relative.components().any(|part| {
            place.push(part);
            fs::symlink_metadata(&place).is_ok_and(|found| found.is_symlink())
        })
    }

    /// Shows a directory or a file, and restricts each mount that a recursive bind brings along with all of its rights;
    /// `mounts` are those of the time before.
    fn bind(from: &Path, target: &Path, is_folder: bool, read_only: bool, mounts: &[PathBuf]) -> io::Result<()> {
        let from = from.canonicalize()?;
        let inner = mounts.iter().filter_map(|mount| mount.strip_prefix(&from).ok());
        let inner: Vec<PathBuf> =
            inner.filter(|below| !below.as_os_str().is_empty()).map(|below| target.join(below)).collect();
        if is_folder {
            fs::create_dir_all(target)?;
        } else if !target.exists() {
            if let Some(parent) = target.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::File::create(target)?;
        }
        mount_bind_recursive(&from, target)?;
        restrict(target, read_only)?;
        for inner in inner {
            match restrict(&inner, read_only) {
                // What we cannot reach, the command cannot reach either; and some are covered by what was mounted later.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::PermissionDenied | ErrorKind::InvalidInput | ErrorKind::NotFound
                    ) => {}
                restricted => restricted?,
            }
        }
        Ok(())
    }

    /// Returns where something is mounted. The kernel takes its time to write its table.
    fn mounts() -> io::Result<Vec<PathBuf>> {
        let table = bounded::regular(Path::new("/proc/self/mountinfo"), MOUNT_TABLE)?;
        let places = table.split(|byte| *byte == b'\n').filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
        let places = places.map(|place| PathBuf::from(OsString::from_vec(without_escapes(place))));
        Ok(places.collect())
    }

    /// Reads a path of the kernel's table: spaces, line ends and backslashes are octal numbers there.
    fn without_escapes(text: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        let mut rest = text;
        while let Some((first, after)) = rest.split_first() {
            let number = after.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
            match number.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
                Some(byte) => {
                    plain.push(byte);
                    rest = &after[3..];
                }
                None => {
                    plain.push(*first);
                    rest = after;
                }
            }
        }
        plain
    }

    /// Shows a device or a part of one: it can be read and written, and its mode, owner and times belong to the machine.
    fn bind_device(from: &str, target: &Path) -> io::Result<()> {
        mount_bind_recursive(from, target)?;
        remount(target, MountFlags::BIND | MountFlags::NOSUID | MountFlags::NOEXEC, true)
    }

    /// Takes rights from a mount.
    fn restrict(target: &Path, read_only: bool) -> io::Result<()> {
        remount(target, MountFlags::BIND | MountFlags::NOSUID | MountFlags::NODEV, read_only)
    }

    /// Changes the rights of a mount; the ones that it lacks already cannot be left out.
    fn remount(target: &Path, mut flags: MountFlags, read_only: bool) -> io::Result<()> {
        let has = rustix::fs::statvfs(target)?.f_flag;
        flags.set(MountFlags::RDONLY, read_only || has.contains(StatVfsMountFlags::RDONLY));
        flags.set(MountFlags::NOEXEC, flags.contains(MountFlags::NOEXEC) || has.contains(StatVfsMountFlags::NOEXEC));
        flags.set(MountFlags::NOATIME, has.contains(StatVfsMountFlags::NOATIME));
        flags.set(MountFlags::NODIRATIME, has.contains(StatVfsMountFlags::NODIRATIME));
        flags.set(MountFlags::RELATIME, has.contains(StatVfsMountFlags::RELATIME));
        Ok(mount_remount(target, flags, c"")?)
    }

    fn keep_read_only(root: &Path, path: &Path) -> io::Result<()> {
        if leads_away(root, path) {
            return Err(io::Error::other("a link is in the way"));
        }
        let target = below(root, path);
        if !target.exists() {
            return Ok(());
        }
        let target = target.canonicalize()?;
        bind(&target, &target, target.is_dir(), true, &mounts()?)
    }

    /// Covers each path with an empty file or directory.
    fn hide(root: &Path, paths: &[std::ffi::OsString]) -> io::Result<()> {
        if paths.is_empty() {
            return Ok(());
        }
        let (file, folder) = (root.join(".hidden-file"), root.join(".hidden-folder"));
        fs::File::create(&file)?;
        fs::create_dir_all(&folder)?;
        for path in paths {
            // A link is only a name; its target is judged by its own path.
            if leads_away(root, Path::new(path)) {
                continue;
            }
            let target = below(root, Path::new(path));
            let Ok(found) = fs::symlink_metadata(&target) else { continue };
            mount_bind_recursive(if found.is_dir() { &folder } else { &file }, &target)?;
            restrict(&target, true)?;
        }
        Ok(())
    }

    fn make_devices(root: &Path) -> io::Result<()> {
        let dev = root.join("dev");
        fs::create_dir_all(&dev)?;
        new_tmpfs(&dev, c"mode=0755,size=1m")?;
        for device in system::DEVICES {
            let target = below(root, Path::new(device));
            fs::File::create(&target)?;
            bind_device(device, &target)?;
        }
        for (name, target) in [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")] {
            symlink(format!("/proc/self/fd{target}"), dev.join(name))?;
        }
        fs::create_dir(dev.join("shm"))?;
        new_tmpfs(&dev.join("shm"), c"mode=1777")?;
        // Private terminals, if the kernel supports them: some tests need one.
        fs::create_dir(dev.join("pts"))?;
        let options = c"newinstance,ptmxmode=0666,mode=0620";
        let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
        if mount("devpts", dev.join("pts"), "devpts", flags, options).is_ok() {
            symlink("pts/ptmx", dev.join("ptmx"))?;
        }
        Ok(mount_remount(&dev, MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV, c"")?)
    }

    fn make_proc(root: &Path) -> io::Result<()> {
        let proc = root.join("proc");
        fs::create_dir_all(&proc)?;
        mount("proc", &proc, "proc", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, None)?;
        for path in PROC_READ_ONLY {
            let path = below(root, Path::new(path));
            if path.exists() {
                mount_bind_recursive(&path, &path)?;
                restrict(&path, true)?;
            }
        }
        for path in PROC_HIDDEN {
            let path = below(root, Path::new(path));
            if path.exists() {
                bind_device("/dev/null", &path)?;
            }
        }
        Ok(())
    }

    /// Makes a directory the root and detaches the old one.
    fn enter(root: &Path) -> io::Result<()> {
        std::env::set_current_dir(root)?;
        rustix::process::pivot_root(".", ".")?;
        rustix::mount::unmount(".", UnmountFlags::DETACH)?;
        std::env::set_current_dir("/")
    }

    /// Switches the loopback interface of a new network on, by the one message that this takes.
    fn raise_loopback() -> io::Result<()> {
        use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
        const NEW_LINK: u16 = 16;
        const REQUEST_AND_ACKNOWLEDGE: u16 = 1 | 4;
        const UP: u32 = 1;
        let mut message = Vec::new();
        message.extend(32u32.to_ne_bytes());
        message.extend(NEW_LINK.to_ne_bytes());
        message.extend(REQUEST_AND_ACKNOWLEDGE.to_ne_bytes());
        // Number, sender, family: none of them matters.
        message.extend([0; 4 + 4 + 4]);
        // The loopback is the first interface of every network.
        message.extend(1i32.to_ne_bytes());
        message.extend(UP.to_ne_bytes());
        message.extend(UP.to_ne_bytes());
        let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        rustix::net::send(&socket, &message, SendFlags::empty())?;
        let mut answer = [0u8; 128];
        rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty())?;
        match i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]) {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(-error)),
        }
    }

    /// Tries what init does, in the namespaces that the probe made, and reports what works.
    pub(in super::super) fn probe_inside() -> io::Result<()> {
        let control = wire::inherited()?;
        let folder = std::env::current_dir()?;
        let report = |probe| wire::report(&control, &wire::Report::Probed(probe));
        match try_mounts(&folder) {
            Err(why) => report(Probe { namespaces: Some(why), ..Probe::default() }),
            Ok(overlay) => report(Probe { overlay, ..Probe::default() }),
        }
    }

    /// The error says why a private file system is unavailable; the value why an overlay in it is.
    fn try_mounts(private: &Path) -> Result<Option<String>, String> {
        let try_overlay = || {
            let folder = |name: &str| {
                let folder = private.join("tmp").join(name);
                fs::create_dir_all(&folder).map(|()| folder)
            };
            let (upper, work, at) = (folder("probe-upper")?, folder("probe-work")?, folder("probe-at")?);
            let outcome = overlay::overlay(Path::new("/usr"), &upper, &work, &at);
            let _detached = rustix::mount::unmount(&at, UnmountFlags::DETACH);
            for folder in [at, upper, work.join("work"), work] {
                let _left_for_the_end_of_the_run = fs::remove_dir(folder);
            }
            outcome
        };
        let overlay = try_overlay().err().map(|error: io::Error| error.to_string());
        build(&View::empty(private), false)?;
        Ok(overlay)
    }
}
