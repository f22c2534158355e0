//! Replaces small files of the user's own directory atomically: tokens and settings.

use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

/// The mode of a file that holds secrets.
pub const SECRET: u32 = 0o600;

/// Replaces a file atomically. Missing directories are created for the owner alone.
///
/// An existing file keeps its mode, unless `mode` says otherwise; a new one gets `mode`, or is readable by others. A
/// link is followed: the file that it leads to is replaced and the link stays.
pub fn replace(path: &Path, contents: &[u8], mode: Option<u32>) -> io::Result<()> {
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let folder = real.parent().ok_or_else(|| io::Error::other("it is not a file"))?;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let known = std::fs::metadata(&real).map(|data| data.permissions().mode() & 0o7777).ok();
    let mode = mode.or(known).unwrap_or(0o644);
    let mut file = tempfile::Builder::new().prefix(".qwen-").tempfile_in(folder)?;
    file.write_all(contents)?;
    file.as_file().set_permissions(std::fs::Permissions::from_mode(mode))?;
    file.as_file().sync_all()?;
    file.persist(&real).map(|_| ()).map_err(|error| error.error)
}

/// Removes a file.
#[expect(clippy::disallowed_methods, reason = "files of the user's own folders are removed here")]
pub fn remove(path: &Path) -> io::Result<()> {
    std::fs::remove_file(path)
}

/// Makes a directory, with those above it, for the owner alone.
pub fn folder(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Appends to a file that only its owner may read, and makes it if it is missing; no link is followed.
pub fn append(path: &Path, contents: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let flags = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).map_err(io::Error::other)?;
    let file = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags).open(path);
    file?.write_all(contents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_with_its_mode_and_a_link_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("deep/a"), folder.path().join("l"));
        replace(&file, b"1", Some(SECRET)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        replace(&link, b"2", None).unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"2");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, SECRET);
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    }
}
