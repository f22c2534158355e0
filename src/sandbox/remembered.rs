//! Caches what this machine was found to support, from one run to the next.
//!
//! Detection takes longer than everything else before the first request. Only full success is cached, and only for the
//! same boot, the same namespaces, identity and limits of the process, and the same program. The cache lets no command
//! through: each one has its sandbox built anew, and a sandbox that cannot be built ends the command and clears the
//! cache.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::tier::{Probe, Tier};
use crate::base::digest::hex;
use crate::base::private_file;
use crate::bounded;

/// Other facts that decide about namespaces and Landlock: files whose contents, or absence, are part of the key.
const FACTS: &[&str] = &[
    "/proc/sys/kernel/random/boot_id",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/user/max_mnt_namespaces",
    "/proc/sys/user/max_net_namespaces",
    "/proc/sys/user/max_pid_namespaces",
    "/proc/self/attr/current",
];

/// The namespaces that this process lives in.
const NAMESPACES: &[&str] =
    &["/proc/self/ns/user", "/proc/self/ns/mnt", "/proc/self/ns/pid", "/proc/self/ns/net", "/proc/self/ns/cgroup"];

/// Fields of `/proc/self/status` that are part of the key.
const STATUS: &[&str] = &["Uid:", "Gid:", "CapEff:", "CapBnd:", "NoNewPrivs:", "Seccomp:", "Seccomp_filters:"];

/// An entry of the cache.
#[derive(Debug, Clone)]
pub(super) struct Remembered {
    file: PathBuf,
    key: String,
}

#[derive(Serialize, Deserialize)]
struct Note {
    key: String,
    probe: Probe,
}

impl Remembered {
    /// Describes this machine, this process and this program; `None` without `/proc`.
    pub(super) fn of(cache: &Path, helper: &Path) -> Option<Remembered> {
        fs::read(FACTS[0]).ok()?;
        let mut hash = Sha256::new();
        let mut add = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        for file in FACTS {
            add(&fs::read(file).unwrap_or_default());
        }
        for link in NAMESPACES {
            add(fs::read_link(link).unwrap_or_default().as_os_str().as_encoded_bytes());
        }
        let status = fs::read_to_string("/proc/self/status").ok()?;
        status
            .lines()
            .filter(|line| STATUS.iter().any(|name| line.starts_with(name)))
            .for_each(|line| add(line.as_bytes()));
        let program = fs::metadata(helper).ok()?;
        for number in [program.dev(), program.ino(), program.size()] {
            add(&number.to_le_bytes());
        }
        add(&program.mtime().to_le_bytes());
        add(&program.mtime_nsec().to_le_bytes());
        add(env!("CARGO_PKG_VERSION").as_bytes());
        let key = hex(&hash.finalize());
        Some(Remembered { file: cache.join("sandbox.json"), key })
    }

    /// Returns the cached result, if everything was found to work.
    pub(super) fn probe(&self) -> Option<Probe> {
        let note: Note = serde_json::from_slice(&bounded::regular(&self.file, bounded::CONFIG).ok()?).ok()?;
        (note.key == self.key && is_whole(&note.probe)).then_some(note.probe)
    }

    /// Caches a result, if everything works. If it cannot be written the next run tries again.
    pub(super) fn keep(&self, probe: &Probe) {
        if is_whole(probe) {
            let note = Note { key: self.key.clone(), probe: probe.clone() };
            let text = serde_json::to_vec(&note).expect("a note has only text keys");
            let _tried_again_next_time = private_file::replace(&self.file, &text, Some(private_file::SECRET));
        }
    }

    /// Clears the entry, because a sandbox could not be built.
    pub(super) fn forget(&self) {
        let _gone_already = private_file::remove(&self.file);
    }
}

/// Tells whether nothing is missing: missing parts are looked for at each start, as they may have been fixed.
fn is_whole(probe: &Probe) -> bool {
    probe.tier() == Tier::T3 && probe.landlock >= super::tier::LEAST_LANDLOCK && probe.overlay.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Probe {
        Probe { landlock: 7, ..Probe::default() }
    }

    #[test]
    fn only_what_works_is_remembered_and_only_for_the_same_program() {
        let folder = tempfile::tempdir().unwrap();
        let helper = folder.path().join("helper");
        fs::write(&helper, "1").unwrap();
        let here = Remembered::of(folder.path(), &helper).unwrap();
        assert_eq!(here.probe(), None);
        for missing in [
            Probe { namespaces: Some("no".to_owned()), ..found() },
            Probe { overlay: Some("no".to_owned()), ..found() },
            Probe { landlock: 0, ..found() },
        ] {
            here.keep(&missing);
            assert_eq!(here.probe(), None, "{missing:?}");
        }
        here.keep(&found());
        assert_eq!(here.probe(), Some(found()));
        assert_eq!(Remembered::of(folder.path(), &helper).unwrap().probe(), Some(found()));
        fs::write(&helper, "22").unwrap();
        assert_eq!(Remembered::of(folder.path(), &helper).unwrap().probe(), None);
        here.forget();
        assert_eq!(here.probe(), None);
        fs::write(folder.path().join("sandbox.json"), "{").unwrap();
        assert_eq!(here.probe(), None);
    }
}
