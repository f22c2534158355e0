//! The files that output flags name, whole or not at all.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Writes a file through a temporary one beside it, so that a reader sees the old contents or the new, never a part.
///
/// A pipe or device (`/dev/stdout`, `/dev/fd/3`) is written directly. A link is replaced, not followed: a checkout must
/// not choose where our output goes. Missing folders are not made.
pub fn write_atomically(path: &Path, contents: &[u8]) -> io::Result<()> {
    if is_special(path) {
        let mut file = File::options().append(true).open(path)?;
        file.write_all(contents)?;
        return file.flush();
    }
    let folder = folder_of(path);
    let mut file = tempfile::Builder::new().prefix(".qwen-").permissions(permissions(path)).tempfile_in(folder)?;
    file.write_all(contents)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// Fails as [`write_atomically`] would, as far as that can be known before; leaves nothing behind.
pub(super) fn can_be_written(path: &Path) -> io::Result<()> {
    if is_special(path) {
        return Ok(());
    }
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    tempfile::Builder::new().prefix(".qwen-").tempfile_in(folder_of(path)).map(drop)
}

/// A pipe or device, or a link to one. `/dev/stdout` may lead to a plain file and must not be replaced by one.
fn is_special(path: &Path) -> bool {
    path.starts_with("/dev")
        || path.starts_with("/proc")
        || path.metadata().is_ok_and(|data| !data.is_file() && !data.is_dir())
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The permissions of the file that is there, else those that any new file gets (less the umask).
fn permissions(path: &Path) -> std::fs::Permissions {
    use std::os::unix::fs::PermissionsExt as _;
    match path.symlink_metadata() {
        Ok(data) if data.is_file() => data.permissions(),
        _ => std::fs::Permissions::from_mode(0o666),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result.json");
        write_atomically(&path, b"one").unwrap();
        write_atomically(&path, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_is_replaced_and_its_target_untouched() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        write_atomically(&target, b"mine").unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&target, &link).unwrap();
        write_atomically(&link, b"new").unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"mine");
        assert_eq!(std::fs::read(&link).unwrap(), b"new");
    }

    #[test]
    fn a_missing_folder_is_an_error_that_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        assert!(write_atomically(&folder.path().join("no/result.json"), b"x").is_err());
    }
}
