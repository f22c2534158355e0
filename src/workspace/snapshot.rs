//! Records the last known state of each file of the command workspace, to find a changed one without reading the
//! others.

use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

use crate::path::RelPath;

/// A file's metadata. Equal values mean equal contents, except for a file that was just written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat {
    modified: (i64, i64),
    /// A program can set the other time back, never this one.
    changed: (i64, i64),
    size: u64,
    inode: u64,
    mode: u32,
}

impl Stat {
    /// Returns the relevant part of raw metadata.
    pub(super) fn of_raw(stat: &rustix::fs::Stat) -> Stat {
        Stat {
            modified: (number(stat.st_mtime), number(stat.st_mtime_nsec)),
            changed: (number(stat.st_ctime), number(stat.st_ctime_nsec)),
            size: number(stat.st_size),
            inode: number(stat.st_ino),
            mode: number(stat.st_mode),
        }
    }

    /// Returns the file's mode.
    pub(super) fn mode(&self) -> u32 {
        self.mode
    }

    /// Tells whether both describe the same file with the same size.
    pub(super) fn is_same_file(&self, other: &Stat) -> bool {
        (self.inode, self.size) == (other.inode, other.size)
    }

    /// Tells whether a file differs from its earlier state in a later time alone.
    pub(super) fn is_only_later(&self, before: &Stat) -> bool {
        let same_times = Stat { modified: before.modified, changed: before.changed, ..*self };
        same_times == *before && self.modified > before.modified
    }

    /// Returns the length in bytes.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Returns the relevant part of metadata.
    pub(super) fn of(metadata: &Metadata) -> Stat {
        Stat {
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            size: metadata.size(),
            inode: metadata.ino(),
            mode: metadata.mode(),
        }
    }
}

/// A number whose type differs by system; none of them is out of range.
pub(crate) fn number<T: TryInto<N>, N: Default>(number: T) -> N {
    number.try_into().unwrap_or_default()
}

/// Every file that counts, as last seen.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    seen: HashMap<RelPath, Seen>,
    round: u64,
}

#[derive(Debug)]
struct Seen {
    stat: Stat,
    /// It was written so recently that a later write could have the same time.
    is_fresh: bool,
    round: u64,
}

impl Snapshot {
    /// Records a file that has not changed for a while.
    pub(super) fn settle(&mut self, path: RelPath, stat: Stat) {
        self.seen.insert(path, Seen { stat, is_fresh: false, round: self.round });
    }

    /// Records a file that was examined when the file system's clock said `now`.
    pub(super) fn remember(&mut self, path: RelPath, stat: Stat, now: Stat) {
        // Clocks of file systems tick every few milliseconds; two writes in one tick have the same time.
        let age = (now.modified.0 - stat.changed.0) * 1_000_000_000 + (now.modified.1 - stat.changed.1);
        if age > 50_000_000 { self.settle(path, stat) } else { self.refresh(path, stat) }
    }

    /// Records a file that was written just now: its contents are compared next time, whatever its times say.
    pub(super) fn refresh(&mut self, path: RelPath, stat: Stat) {
        self.seen.insert(path, Seen { stat, is_fresh: true, round: self.round });
    }

    /// Forgets a file.
    pub(super) fn forget(&mut self, path: &RelPath) {
        self.seen.remove(path);
    }

    /// Tells whether a file is remembered just so.
    pub(super) fn is_same(&self, path: &RelPath, stat: Stat) -> bool {
        self.seen.get(path).is_some_and(|seen| seen.stat == stat)
    }

    /// Returns what is remembered, in no order.
    pub(super) fn paths(&self) -> impl Iterator<Item = &RelPath> {
        self.seen.keys()
    }

    /// Tells whether a file is remembered.
    pub(super) fn knows(&self, path: &RelPath) -> bool {
        self.seen.contains_key(path)
    }

    /// Begins a new scan of the tree.
    pub(super) fn begin(&mut self) {
        self.round += 1;
    }

    /// Records that a file exists; `true` if its contents must be compared.
    pub(super) fn meet(&mut self, path: &RelPath, stat: Stat) -> bool {
        match self.seen.get_mut(path) {
            None => true,
            Some(seen) => {
                seen.round = self.round;
                let was_fresh = std::mem::take(&mut seen.is_fresh);
                was_fresh || seen.stat != stat
            }
        }
    }

    /// Returns the files that this scan has not met.
    pub(super) fn missed(&self) -> Vec<RelPath> {
        let mut missed: Vec<RelPath> =
            self.seen.iter().filter(|(_, seen)| seen.round != self.round).map(|(path, _)| path.clone()).collect();
        missed.sort();
        missed
    }
}
