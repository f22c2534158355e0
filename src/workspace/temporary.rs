//! Private temporary directories that are removed whole, whatever commands left in them.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::folder::Folder;

/// A temporary directory for its owner alone. Dropping it removes everything below it, however deep, directories that a
/// command has closed included; no link is followed.
#[derive(Debug)]
pub struct Temporary(tempfile::TempDir);

impl Temporary {
    /// Makes a directory whose name begins with `prefix`, in `parent` or where the system keeps temporary files.
    pub fn new(prefix: &str, parent: Option<&Path>) -> io::Result<Temporary> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(prefix).permissions(Permissions::from_mode(0o700));
        Ok(Temporary(match parent {
            Some(parent) => builder.tempdir_in(parent)?,
            None => builder.tempdir()?,
        }))
    }

    /// Returns where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let Ok(folder) = Folder::root(self.path()) else { return };
        for (name, _) in folder.names().unwrap_or_default() {
            let _left_over = folder.clear(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::test_support::sh;

    /// Root may do anything: the modes are tried by an ordinary user alone, the depth by everybody.
    #[test]
    fn nothing_is_left_of_directories_that_were_closed_or_lie_deep() {
        let beside = tempfile::tempdir().unwrap();
        std::fs::write(beside.path().join("kept"), "").unwrap();
        let temporary = Temporary::new("t-", Some(beside.path())).unwrap();
        let at = temporary.path().to_path_buf();
        sh(
            &at,
            "mkdir -p a/b/c d/e f/g/h x; touch a/b/c/f d/e/f f/g/h/f; chmod 000 a/b/c d; chmod 555 a a/b f/g/h f/g f; \
             ln -s ../../kept a/link || ln -s ../kept x/link; \
             for i in $(seq 1 1500); do mkdir d$i 2>/dev/null || break; cd d$i; done; chmod 000 .",
        );
        drop(temporary);
        assert!(!at.exists());
        assert!(beside.path().join("kept").exists());
    }
}
