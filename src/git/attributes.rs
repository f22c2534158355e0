//! Finds files of which git stores other bytes than the work tree has, by the attributes `ident` and
//! `working-tree-encoding`, and those of which it stores other line ends.
//!
//! `git apply` compares a patch with the bytes that git stores; with line ends as they are in the work tree only if the
//! patch has `\r\n` as well.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use super::Git;
use super::line_ends::{LineEnds, Settings};
use super::repository::{Repository, RepositoryError};
use crate::change::Entry;
use crate::marked::Marked;

/// The files of one change that are converted, and a git that converts them.
pub struct Conversions<'r> {
    repository: &'r Repository,
    names: BTreeSet<Vec<u8>>,
    /// Those with other line ends, which are converted here.
    ends: BTreeMap<Vec<u8>, LineEnds>,
    /// With a private object store, removed with the directory.
    git: Option<(Git, Marked)>,
}

impl<'r> Conversions<'r> {
    /// Asks git which of these files it converts, and of which of `ends` it stores other line ends. Contents that no
    /// conversion would change are not asked about.
    pub fn of<'c>(
        repository: &'r Repository,
        contents: impl Iterator<Item = (Vec<u8>, &'c [u8])>,
        ends: &BTreeSet<Vec<u8>>,
    ) -> Result<Conversions<'r>, RepositoryError> {
        let mut conversions = Conversions { repository, names: BTreeSet::new(), ends: BTreeMap::new(), git: None };
        let bytes: BTreeSet<Vec<u8>> =
            contents.filter(|(_, content)| may_differ(content)).map(|(name, _)| name).collect();
        let asked: Vec<u8> = bytes.union(ends).flat_map(|name| [name.as_slice(), b"\0"].concat()).collect();
        if asked.is_empty() {
            return Ok(conversions);
        }
        let git = repository.git();
        let arguments = ["check-attr", "-z", "--stdin", "ident", "working-tree-encoding", "text", "crlf", "eol"];
        let answer = git.run(&arguments, &asked)?;
        let settings = if ends.is_empty() { Settings::default() } else { settings(&git) };
        // Name, attribute and value, for each attribute in turn.
        let words: Vec<&[u8]> = answer.split(|byte| *byte == 0).collect();
        for file in words.chunks_exact(15) {
            let is_encoded = ![&b"unspecified"[..], b"unset", b"set"].contains(&file[5]);
            if bytes.contains(file[0]) && (file[2] == b"set" || is_encoded) {
                conversions.names.insert(file[0].to_vec());
            }
            if let Some(how) = LineEnds::of(file[8], file[11], file[14], &settings).filter(|_| ends.contains(file[0])) {
                conversions.ends.insert(file[0].to_vec(), how);
            }
        }
        if !conversions.names.is_empty() {
            let unable = |cause| RepositoryError::Io { path: std::env::temp_dir(), cause };
            let folder = Marked::new("objects-").map_err(unable)?;
            let git = repository.without_filters()?.env("GIT_OBJECT_DIRECTORY", folder.path());
            conversions.git = Some((git, folder));
        }
        Ok(conversions)
    }

    /// Tells whether no file is converted.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Tells whether a file is converted, by its name in the repository.
    pub fn covers(&self, name: &[u8]) -> bool {
        self.names.contains(name)
    }

    /// Tells whether git stores a file with other line ends, by its name in the repository.
    pub fn covers_ends(&self, name: &[u8]) -> bool {
        self.ends.contains_key(name)
    }

    /// Returns a file of the work tree as git stores it.
    pub fn kept(&self, name: &[u8], entry: &Entry) -> Result<Entry, RepositoryError> {
        self.converted(name, entry, LineEnds::kept, |git, content| {
            let object = self.repository.blob_by(git, name, content, true)?;
            Ok(git.run(&["cat-file", "blob", &object], b"")?)
        })
    }

    /// Returns a file that git stores as it is in the work tree.
    pub fn checked_out(&self, name: &[u8], entry: &Entry) -> Result<Entry, RepositoryError> {
        self.converted(name, entry, LineEnds::checked_out, |git, content| {
            let object = git.line(&["hash-object", "-w", "--stdin", "--no-filters"], content)?;
            let mut path = OsString::from("--path=");
            path.push(OsStr::from_bytes(name));
            Ok(git.run(&["cat-file".into(), "--filters".into(), path, object.into()], b"")?)
        })
    }

    fn converted(
        &self,
        name: &[u8],
        entry: &Entry,
        ends: impl Fn(LineEnds, &[u8]) -> Vec<u8>,
        convert: impl Fn(&Git, &[u8]) -> Result<Vec<u8>, RepositoryError>,
    ) -> Result<Entry, RepositoryError> {
        let Entry::File { content, executable } = entry else { return Ok(entry.clone()) };
        let content = match (&self.git, self.ends.get(name)) {
            (Some((git, _)), _) if self.covers(name) => convert(git, content)?,
            (_, Some(how)) => ends(*how, content),
            _ => return Ok(entry.clone()),
        };
        Ok(Entry::File { content: content.into(), executable: *executable })
    }
}

/// Reads the settings for files without attributes; of several values the last one counts.
fn settings(git: &Git) -> Settings {
    let mut settings = Settings::default();
    let listed = git.line(&["config", "--get-regexp", r"^core\.(autocrlf|eol)$"], b"").unwrap_or_default();
    for line in listed.lines() {
        let (key, value) = line.split_once(' ').unwrap_or((line, ""));
        let setting = if key == "core.eol" { &mut settings.eol } else { &mut settings.auto };
        *setting = value.to_ascii_lowercase();
    }
    settings
}

/// Tells whether a conversion could change a content: it has an `$Id`, or is not plain UTF-8.
fn may_differ(content: &[u8]) -> bool {
    let is_plain = |byte: &u8| *byte != 0 && *byte != 0x1b;
    content.windows(3).any(|part| part == b"$Id")
        || !content.iter().all(is_plain)
        || std::str::from_utf8(content).is_err()
}
