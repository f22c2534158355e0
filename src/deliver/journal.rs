//! Records what a delivery replaces before anything is written, so that a killed delivery can be rolled back.

#![expect(clippy::disallowed_methods, reason = "undo records are written here")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::digest::sha256;
use crate::bounded;
use crate::change::{Entry, diff, git_name};
use crate::path::RelPath;
use crate::workspace::folder::is_missing;
use crate::workspace::steps::Steps;

/// The progress of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It may have stopped anywhere in between.
    Begun,
    /// Everything is delivered. With temporary files, old contents may still be there, or it is being undone.
    Done,
    /// Everything is as before.
    Undone,
}

/// One delivery. Names are written as git quotes them, so that any byte survives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The format of this file.
    pub version: u32,
    /// The run.
    pub run_id: String,
    /// When it began.
    pub time: String,
    /// Its number among this user's deliveries, from 1: unlike a clock it never goes back.
    #[serde(default)]
    pub number: u64,
    /// The workspace.
    pub root: String,
    /// Its progress.
    pub state: State,
    /// Each changed file.
    pub files: Vec<Saved>,
    /// Directories that were made, outermost first.
    pub folders_made: Vec<String>,
    /// Temporary files that may remain.
    pub temporary: Vec<String>,
    /// The commit that was ordered, from the start: until all files are in their places nothing has it.
    pub commit: Option<SavedCommit>,
    /// What was swapped in ignored places, as long as the old contents are kept aside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<SavedOutput>,
    /// How many such files and directories were delivered: they stay when the change is undone.
    #[serde(default)]
    pub outputs_delivered: usize,
    /// Modes of files that go, of the directories that they were in, and of files that become executable or no longer are.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub modes: BTreeMap<String, u32>,
    /// Whether names are being swapped: a temporary file may be what somebody wrote at its target meanwhile.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub swapping: bool,
    /// Whether new files alone, of which nothing is aside, are in their places, and only the commit is to come.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub placed: bool,
    /// Files and directories that undoing makes anew: until all is in place they have too few rights.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub narrow: Vec<String>,
    /// The commit of HEAD when the delivery, or its undoing, began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// Whether undoing has begun and not ended: from then on only its end is sought.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undoing: bool,
}

impl Record {
    /// Tells whether every file is new.
    pub fn makes_all(&self) -> bool {
        self.files.iter().all(|file| file.before == Shape::Absent)
    }
}

/// A changed file before and after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saved {
    /// Relative to the workspace.
    pub path: String,
    /// Its contents are in `blobs/`.
    pub before: Shape,
    /// Only its digest is kept.
    pub after: Shape,
}

/// An entry by its digest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind", deny_unknown_fields)]
pub enum Shape {
    /// Nothing.
    Absent,
    /// A file.
    File {
        /// Digest of its bytes.
        sha256: String,
        /// Whether it may be executed.
        executable: bool,
    },
    /// A link.
    Link {
        /// Digest of its target.
        sha256: String,
    },
}

/// A commit that a delivery made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedCommit {
    /// The reference that was moved; `HEAD` or `refs/heads/NAME`.
    pub reference: String,
    /// Its old value; `None` if it did not exist.
    pub old: Option<String>,
    /// Its new value.
    pub new: String,
    /// Input of `update-index --index-info` that restores the changed paths.
    pub index_before: String,
    /// The same for the way forward: only entries that still say this are restored.
    #[serde(default)]
    pub index_after: String,
}

/// An ignored file, link or directory that is swapped in, or put aside, as the record has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedOutput {
    /// Relative to the workspace.
    pub path: String,
    /// Where new contents wait, and old ones are put aside.
    pub temporary: String,
    /// Whether something new comes to the path; else what is there goes.
    pub is_new: bool,
    /// The inode of the new contents, once all of them are there: whoever finds it at the path knows that they were
    /// swapped in.
    pub inode: Option<u64>,
}

impl Shape {
    /// Describes an entry.
    pub fn of(entry: &Entry) -> Shape {
        let digest = || sha256(diff::text_of(entry));
        match entry {
            Entry::Absent => Shape::Absent,
            Entry::File { executable, .. } => Shape::File { sha256: digest(), executable: *executable },
            Entry::Link { .. } => Shape::Link { sha256: digest() },
        }
    }
}

/// Returns the number of the next delivery.
pub(super) fn next_number(undo: &Path) -> io::Result<u64> {
    Ok(records(undo)?.first().map_or(1, |(_, record)| record.number.saturating_add(1)))
}

/// Returns the records in a directory, newest first; of two with the same number, the one whose run began later (run
/// ids are UUIDs of version 7, ordered by time).
pub fn records(undo: &Path) -> io::Result<Vec<(PathBuf, Record)>> {
    let entries = match std::fs::read_dir(undo) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut records = Vec::new();
    for entry in entries {
        let folder = entry?.path();
        match Journal::open(&folder) {
            Ok((_, record)) => records.push((folder, record)),
            // An unreadable one may belong to the requested run, or be incomplete.
            Err(error) if error.raw_os_error().is_some() && !is_missing(&error) => {
                return Err(io::Error::new(error.kind(), format!("{}: {error}", folder.display())));
            }
            // Without its record nothing was begun: the record exists before the first write.
            Err(_) => {}
        }
    }
    records.sort_by(|(a, of_a), (b, of_b)| (of_b.number, b).cmp(&(of_a.number, a)));
    Ok(records)
}

/// The age from which a directory without a record counts as left behind by a kill: nothing takes so long to write.
const LEFT_BEHIND: Duration = Duration::from_hours(24);

/// Removes the oldest records except this many, and what was killed before it was a record. One whose delivery is
/// incomplete, or which still names something to clean up, stays.
pub(super) fn prune(undo: &Path, keep: usize) -> io::Result<()> {
    for entry in std::fs::read_dir(undo)? {
        let folder = entry?.path();
        let is_old = |data: std::fs::Metadata| {
            data.is_dir() && data.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age > LEFT_BEHIND))
        };
        let has_none = folder.join("record.json").symlink_metadata().is_err_and(|error| is_missing(&error));
        if has_none && folder.symlink_metadata().is_ok_and(is_old) {
            std::fs::remove_dir_all(folder)?;
        }
    }
    for (folder, record) in records(undo)?.into_iter().skip(keep) {
        if record.state != State::Begun && record.outputs.is_empty() && record.temporary.is_empty() {
            std::fs::remove_dir_all(folder)?;
        }
    }
    Ok(())
}

/// Writes a name so that every byte survives.
pub fn quoted(name: &[u8]) -> String {
    let mut out = Vec::new();
    git_name::quote(name, &mut out);
    String::from_utf8(out).expect("a quoted name is ASCII")
}

/// Reads a name of a record; `None` if it is invalid.
pub fn unquoted(name: &str) -> Option<Vec<u8>> {
    if name.starts_with('"') { git_name::unquote(name.as_bytes()).map(|(name, _)| name) } else { Some(name.into()) }
}

/// Reads a path of a record.
pub fn path(name: &str) -> io::Result<RelPath> {
    unquoted(name)
        .and_then(|bytes| RelPath::from_bytes(&bytes))
        .ok_or_else(|| io::Error::other(format!("a damaged name in the record: {name}")))
}

/// A record's directory on the disk.
pub struct Journal {
    folder: PathBuf,
}

impl Journal {
    /// Writes a new record with the old contents, synced to the disk before this returns.
    pub fn begin<'e>(
        undo: &Path,
        record: &Record,
        befores: impl Iterator<Item = &'e Entry>,
        steps: &Steps,
    ) -> io::Result<Journal> {
        let journal = Journal { folder: undo.join(&record.run_id) };
        steps.step()?;
        private_folder(undo)?;
        std::fs::DirBuilder::new().create(&journal.folder)?;
        match journal.fill(record, befores, steps) {
            Ok(()) => Ok(journal),
            Err(error) => {
                journal.discard();
                Err(error)
            }
        }
    }

    fn fill<'e>(&self, record: &Record, befores: impl Iterator<Item = &'e Entry>, steps: &Steps) -> io::Result<()> {
        private_folder(&self.folder.join("blobs"))?;
        let mut known = BTreeSet::new();
        for before in befores.filter(|before| **before != Entry::Absent) {
            let content = diff::text_of(before);
            let name = sha256(content);
            if known.insert(name.clone()) {
                steps.step()?;
                write_private(&self.folder.join("blobs").join(name), content)?;
            }
        }
        self.write(record, steps)
    }

    /// Replaces the record atomically.
    pub fn write(&self, record: &Record, steps: &Steps) -> io::Result<()> {
        steps.step()?;
        let text = serde_json::to_vec_pretty(record).expect("a record has only text keys");
        let new = self.folder.join("record.json.new");
        let _ = std::fs::remove_file(&new);
        write_private(&new, &text)?;
        std::fs::rename(&new, self.folder.join("record.json"))?;
        File::open(&self.folder)?.sync_all()
    }

    /// Opens a record's directory.
    pub fn open(folder: &Path) -> io::Result<(Journal, Record)> {
        let text = bounded::regular(&folder.join("record.json"), bounded::PRODUCT)?;
        let record: Record = serde_json::from_slice(&text)?;
        if record.version != 1 {
            return Err(io::Error::other(format!("unknown record format {}", record.version)));
        }
        Ok((Journal { folder: folder.to_path_buf() }, record))
    }

    /// Returns the entry that a shape describes, from the stored contents.
    pub fn entry(&self, shape: &Shape) -> io::Result<Entry> {
        let read = |digest: &String| -> io::Result<Vec<u8>> {
            let is_digest = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
            if !is_digest {
                return Err(io::Error::other("a damaged digest in the record"));
            }
            let content = bounded::regular(&self.folder.join("blobs").join(digest), u64::MAX)?;
            if sha256(&content) == *digest {
                Ok(content)
            } else {
                Err(io::Error::other("the saved contents are damaged"))
            }
        };
        Ok(match shape {
            Shape::Absent => Entry::Absent,
            Shape::File { sha256, executable } => {
                Entry::File { content: read(sha256)?.into(), executable: *executable }
            }
            Shape::Link { sha256 } => Entry::Link { target: read(sha256)? },
        })
    }

    /// Returns where the record is kept.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Removes the record: nothing was changed, so there is nothing to undo.
    pub fn discard(self) {
        // A record that cannot be removed says `begun`, and undoing it finds everything as before.
        let _ = std::fs::remove_dir_all(self.folder);
    }
}

/// Tells whether records can be written in a directory that may not exist yet, without writing anything.
pub fn is_writable(undo: &Path) -> bool {
    let standing = undo.ancestors().find(|folder| folder.symlink_metadata().is_ok());
    standing.is_some_and(|folder| folder.is_dir() && rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok())
}

fn private_folder(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content)?;
    file.sync_data()
}
