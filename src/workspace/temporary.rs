//! Creates private temporary directories that are removed completely, whatever commands left in them; those of killed
//! runs by a later run.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, Mode, OFlags};

use super::folder::Folder;
use super::steps::Steps;
use crate::checkouts::{Trail, checkouts_around};
use crate::marked::{MARKER, MARKER_TEXT, Marked, PREFIX};

/// The most names that are looked at for directories of killed runs.
const MOST: usize = 10_000;

/// A temporary directory for its owner alone. Dropping it removes everything below it at any depth, including
/// directories without permissions; no link is followed.
#[derive(Debug)]
pub struct Temporary(Place);

#[derive(Debug)]
enum Place {
    /// Where others look for what killed runs have left.
    Marked(Marked),
    /// In another directory, with which it goes.
    Inside(tempfile::TempDir),
}

impl Temporary {
    /// Makes a directory whose name begins with `qwen-` and `name`, where the system keeps temporary files. If this
    /// process is killed, [`remove_abandoned`] removes it later.
    pub fn new(name: &str) -> io::Result<Temporary> {
        Ok(Temporary(Place::Marked(Marked::new(name)?)))
    }

    /// Makes a directory whose name begins with `prefix` in another one, with which it goes.
    pub fn inside(parent: &Path, prefix: &str) -> io::Result<Temporary> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(prefix).permissions(Permissions::from_mode(0o700));
        Ok(Temporary(Place::Inside(builder.tempdir_in(parent)?)))
    }

    /// As [`Temporary::new`]. If `TMPDIR` puts that in `root` or the repository around it, uses `/var/tmp` or `/tmp`
    /// instead. If these are in it, too, there is no better place.
    pub fn outside(name: &str, root: &Path) -> io::Result<Temporary> {
        let system = std::env::temp_dir();
        let is_inside = |place: &Path| is_below(place, root) || is_in_checkout(place, root);
        if is_inside(&system) {
            let mut others = ["/var/tmp", "/tmp"].map(Path::new).into_iter().filter(|place| !is_inside(place));
            if let Some(made) = others.find_map(|place| Marked::inside(place, name).ok()) {
                return Ok(Temporary(Place::Marked(made)));
            }
        }
        Temporary::new(name)
    }

    /// Returns where it is.
    pub fn path(&self) -> &Path {
        match &self.0 {
            Place::Marked(marked) => marked.path(),
            Place::Inside(directory) => directory.path(),
        }
    }
}

/// Tells whether a directory is, or would be, in a checkout that holds `root`, or is reached through a link in one.
fn is_in_checkout(directory: &Path, root: &Path) -> bool {
    let root = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
    let trail = Trail::of(directory);
    checkouts_around(&root).any(|top| trail.passes(top))
}

fn is_below(directory: &Path, top: &Path) -> bool {
    let real = |path: &Path| path.ancestors().find_map(|path| path.canonicalize().ok());
    real(directory).zip(real(top)).is_some_and(|(directory, top)| directory.starts_with(top))
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let Ok(folder) = Folder::root(self.path()) else { return };
        let _left_over = empty(&folder);
    }
}

/// Removes everything in a directory; the marker goes last, so that what was interrupted is found again.
fn empty(folder: &Folder) -> io::Result<()> {
    let mut done = Ok(());
    for (name, _) in folder.names()? {
        if name != MARKER {
            done = folder.clear(&name).and(done);
        }
    }
    done?;
    folder.clear(OsStr::new(MARKER))
}

/// A directory of a killed run, and the lock that says so.
struct Abandoned {
    name: OsString,
    folder: Folder,
    _lock: File,
}

/// Removes the temporary directories of this user's killed runs in `directory` that are older than `age`.
///
/// Stops after `patience`; the next run continues. What cannot be removed stays.
#[expect(clippy::disallowed_methods, reason = "ages of files are told by the clock")]
pub fn remove_abandoned(directory: &Path, age: Duration, patience: Duration) {
    let Some(made_before) = SystemTime::now().checked_sub(age) else { return };
    let Ok(parent) = Folder::root(directory) else { return };
    let Ok(names) = parent.names() else { return };
    let ours = names
        .into_iter()
        .take(MOST)
        .filter(|(name, kind)| kind.is_dir() && name.as_encoded_bytes().starts_with(PREFIX.as_bytes()));
    let abandoned: Vec<Abandoned> = ours.filter_map(|(name, _)| claim(&parent, name, made_before)).collect();
    if abandoned.is_empty() {
        return;
    }
    let (done, over) = mpsc::channel();
    let work = move || {
        for Abandoned { name, folder, _lock } in abandoned {
            let _stays = empty(&folder).and_then(|()| parent.remove(&name, &Steps::default()));
        }
        let _nobody_waits = done.send(());
    };
    if std::thread::Builder::new().name("tidy".to_owned()).spawn(work).is_ok() {
        let _given_up = over.recv_timeout(patience);
    }
}

/// Takes the lock of a directory that this user's run left; `None` if it is in use, or not one of ours.
fn claim(parent: &Folder, name: OsString, made_before: SystemTime) -> Option<Abandoned> {
    let folder = parent.enter_name(&name).ok()?;
    let user = rustix::process::geteuid().as_raw();
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let open = |name: &str| rustix::fs::openat(&folder, name, flags, Mode::empty()).map(File::from);
    // A run that was killed while it made its directory has left the marker alone, without its name or its text.
    let unnamed = format!("{MARKER}.new");
    let is_alone = || folder.names().is_ok_and(|names| names.iter().all(|(name, _)| *name == *unnamed));
    let (mut marker, is_begun) = match open(MARKER) {
        Ok(marker) => (marker, false),
        Err(_) => (open(&unnamed).ok().filter(|_| is_alone())?, true),
    };
    let about = marker.metadata().ok()?;
    let is_ours = rustix::fs::fstat(&folder).ok()?.st_uid == user && about.uid() == user;
    let is_long = about.len() == MARKER_TEXT.len() as u64 || is_begun && about.len() == 0;
    if !is_ours || !about.is_file() || !is_long || about.modified().ok()? >= made_before {
        return None;
    }
    let mut text = vec![0; about.len() as usize];
    marker.read_exact(&mut text).ok()?;
    rustix::fs::flock(&marker, FlockOperation::NonBlockingLockExclusive).ok()?;
    (text.is_empty() || text == MARKER_TEXT).then_some(Abandoned { name, folder, _lock: marker })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::marked::mark;
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
        let temporary = Temporary::inside(beside.path(), "t-").unwrap();
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

    #[test]
    fn only_a_marked_directory_of_ours_that_nobody_holds_and_that_is_old_enough_is_claimed() {
        let beside = tempfile::tempdir().unwrap();
        let parent = Folder::root(beside.path()).unwrap();
        let at = beside.path().join("qwen-x");
        std::fs::create_dir(&at).unwrap();
        let later = SystemTime::now() + Duration::from_secs(3_600);
        let claimed = |before: SystemTime| claim(&parent, "qwen-x".into(), before).is_some();
        assert!(!claimed(later), "without a marker");
        let lock = mark(&at).unwrap();
        assert!(!claimed(later), "in use");
        drop(lock);
        assert!(!claimed(SystemTime::UNIX_EPOCH), "too young");
        assert!(claimed(later));
        std::fs::rename(&at, beside.path().join("real")).unwrap();
        std::os::unix::fs::symlink("real", &at).unwrap();
        assert!(!claimed(later), "behind a link");
        std::fs::remove_file(&at).unwrap();
        std::fs::create_dir(&at).unwrap();
        std::os::unix::fs::symlink("../real/.qwen-temporary", at.join(MARKER)).unwrap();
        assert!(!claimed(later), "a marker that is a link");
        std::fs::remove_file(at.join(MARKER)).unwrap();
        std::fs::write(at.join(MARKER), "another text").unwrap();
        assert!(!claimed(later), "another marker");
        std::fs::remove_file(at.join(MARKER)).unwrap();
        let begun = at.join(format!("{MARKER}.new"));
        std::fs::write(&begun, "").unwrap();
        assert!(claimed(later), "a run that was killed before its marker had a name");
        std::fs::write(&begun, MARKER_TEXT).unwrap();
        assert!(claimed(later) && !claimed(SystemTime::UNIX_EPOCH), "with its text, and old enough");
        std::fs::write(at.join("a"), "").unwrap();
        assert!(!claimed(later), "with other files");
    }
}
