//! Creates private temporary directories that are removed completely, whatever commands left in them.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::folder::Folder;

/// A temporary directory for its owner alone. Dropping it removes everything below it at any depth, including
/// directories without permissions; no link is followed.
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

    /// Creates a directory where the system keeps temporary files. If `TMPDIR` puts that in `root` or the repository
    /// around it, uses `/var/tmp` or `/tmp` instead. If these are in it, too, there is no better place.
    pub fn outside(prefix: &str, root: &Path) -> io::Result<Temporary> {
        let system = std::env::temp_dir();
        let is_inside = |place: &Path| is_below(place, root) || is_in_checkout(place, root);
        if is_inside(&system) {
            let mut others = ["/var/tmp", "/tmp"].map(Path::new).into_iter().filter(|place| !is_inside(place));
            if let Some(made) = others.find_map(|place| Temporary::new(prefix, Some(place)).ok()) {
                return Ok(made);
            }
        }
        Temporary::new(prefix, Some(&system))
    }

    /// Returns where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Tells whether a directory is, or would be, in the repository that holds `root`.
pub fn is_in_checkout(directory: &Path, root: &Path) -> bool {
    let top = root.canonicalize().ok().and_then(|root| {
        root.ancestors().find(|directory| directory.join(".git").symlink_metadata().is_ok()).map(Path::to_path_buf)
    });
    top.is_some_and(|top| is_below(directory, &top))
}

fn is_below(directory: &Path, top: &Path) -> bool {
    let real = |path: &Path| path.ancestors().find_map(|path| path.canonicalize().ok());
    real(directory).zip(real(top)).is_some_and(|(directory, top)| directory.starts_with(top))
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

    #[test]
    fn a_directory_in_a_checkout_is_known_by_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("top/sub");
        std::fs::create_dir_all(&root).unwrap();
        std::fs::create_dir_all(folder.path().join("top/.git")).unwrap();
        std::os::unix::fs::symlink("top/new", folder.path().join("link")).unwrap();
        for (place, expected) in [("top/tmp", true), ("top/sub/not/there", true), ("other", false), (".", false)] {
            assert_eq!(is_in_checkout(&folder.path().join(place), &root), expected, "{place}");
        }
        std::fs::create_dir(folder.path().join("top/new")).unwrap();
        assert!(is_in_checkout(&folder.path().join("link"), &root));
    }

    /// Root may do anything: modes are tested only as an ordinary user, the depth always.
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
