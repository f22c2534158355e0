//! Mounts overlays over directories: with a layer that takes the writes, or without one, so that FIFOs and sockets in
//! them do not reach the processes outside.

#![expect(clippy::disallowed_methods, reason = "mount points are made here")]

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::mount::{MountFlags, mount};

/// Mounts a directory below a layer that takes the writes.
pub(super) fn overlay(lower: &Path, upper: &Path, work: &Path, target: &Path) -> io::Result<()> {
    let mut options: Vec<u8> = Vec::new();
    for (name, path) in [("lowerdir=", lower), (",upperdir=", upper), (",workdir=", work)] {
        options.extend(name.as_bytes());
        options.extend(escaped(path));
    }
    options.extend(b",userxattr");
    let options = CString::new(options)?;
    Ok(mount("overlay", target, "overlay", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())?)
}

/// Mounts a directory alone in an overlay, which takes two: the other one is empty.
pub(super) fn alone(root: &Path, from: &Path, target: &Path) -> io::Result<()> {
    let empty = root.join(".empty");
    std::fs::create_dir_all(&empty)?;
    let options = [b"lowerdir=", &*escaped(from), b":", &*escaped(&empty), b",userxattr"].concat();
    let options = CString::new(options)?;
    Ok(mount("overlay", target, "overlay", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())?)
}

/// Quotes a path for the options of an overlay.
fn escaped(path: &Path) -> Vec<u8> {
    let mut quoted = Vec::new();
    for byte in path.as_os_str().as_bytes() {
        if matches!(byte, b'\\' | b',' | b':') {
            quoted.push(b'\\');
        }
        quoted.push(*byte);
    }
    quoted
}
