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
    /// Those that git converts.
    names: BTreeMap<Vec<u8>, How>,
    /// Those with other line ends, which are converted here.
    ends: BTreeMap<Vec<u8>, LineEnds>,
    /// Those of which Git LFS keeps the bytes.
    in_lfs: BTreeSet<Vec<u8>>,
    /// With a private object store, removed with the directory.
    git: Option<(Git, Marked)>,
}

/// How git converts a file.
#[derive(Clone, Copy)]
struct How {
    /// It has another encoding in the work tree.
    is_encoded: bool,
    /// An `$Id` in it is expanded.
    has_id: bool,
}

impl<'r> Conversions<'r> {
    /// Asks git which of these files it stores with other bytes; line ends are left as they are.
    pub fn of(repository: &'r Repository, names: &BTreeSet<Vec<u8>>) -> Result<Conversions<'r>, RepositoryError> {
        Conversions::by(repository, names, None)
    }

    /// As [`Conversions::of`], with those of which it stores other line ends.
    pub fn with_line_ends(
        repository: &'r Repository,
        names: &BTreeSet<Vec<u8>>,
    ) -> Result<Conversions<'r>, RepositoryError> {
        Conversions::by(repository, names, Some(settings(&repository.git())))
    }

    fn by(
        repository: &'r Repository,
        names: &BTreeSet<Vec<u8>>,
        settings: Option<Settings>,
    ) -> Result<Conversions<'r>, RepositoryError> {
        let (ends, in_lfs) = (BTreeMap::new(), BTreeSet::new());
        let mut conversions = Conversions { repository, names: BTreeMap::new(), ends, in_lfs, git: None };
        if names.is_empty() {
            return Ok(conversions);
        }
        let asked: Vec<u8> = names.iter().flat_map(|name| [name.as_slice(), b"\0"].concat()).collect();
        let attributes = ["ident", "working-tree-encoding", "text", "crlf", "eol", "filter"];
        let answer = repository.git().run(&[&["check-attr", "-z", "--stdin"], &attributes[..]].concat(), &asked)?;
        // Name, attribute and value, for each attribute in turn.
        let words: Vec<&[u8]> = answer.split(|byte| *byte == 0).collect();
        for file in words.chunks_exact(3 * attributes.len()) {
            let name = file[0].to_vec();
            let is_encoded = ![&b"unspecified"[..], b"unset", b"set"].contains(&file[5]);
            let has_id = file[2] == b"set";
            if is_encoded || has_id {
                conversions.names.insert(name.clone(), How { is_encoded, has_id });
            }
            let how = settings.as_ref().and_then(|settings| LineEnds::of(file[8], file[11], file[14], settings));
            conversions.ends.extend(how.map(|how| (name.clone(), how)));
            conversions.in_lfs.extend((file[17] == b"lfs").then_some(name));
        }
        if !conversions.names.is_empty() {
            let unable = |cause| RepositoryError::Io { path: std::env::temp_dir(), cause };
            let folder = Marked::new("objects-").map_err(unable)?;
            let git = repository.without_filters()?.env("GIT_OBJECT_DIRECTORY", folder.path());
            conversions.git = Some((git, folder));
        }
        Ok(conversions)
    }

    /// Leaves the line ends of all other files as they are.
    pub fn only_line_ends_of(&mut self, names: &BTreeSet<Vec<u8>>) {
        self.ends.retain(|name, _| names.contains(name));
    }

    /// Tells whether no file is converted.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Tells whether a file is converted, by its name in the repository.
    pub fn covers(&self, name: &[u8]) -> bool {
        self.names.contains_key(name)
    }

    /// Tells whether git stores a file with other line ends, by its name in the repository.
    pub fn covers_ends(&self, name: &[u8]) -> bool {
        self.ends.contains_key(name)
    }

    /// Tells whether git expands an `$Id` of a file, by its name in the repository.
    pub fn expands_id(&self, name: &[u8], entry: &Entry) -> bool {
        self.names.get(name).is_some_and(|how| how.has_id) && entry.content().is_some_and(has_id)
    }

    /// Tells whether Git LFS keeps the bytes of a file, by its name in the repository: then git stores a pointer.
    pub fn is_in_lfs(&self, name: &[u8]) -> bool {
        self.in_lfs.contains(name)
    }

    /// Returns a file of the work tree as git stores it.
    pub fn kept(&self, name: &[u8], entry: &Entry) -> Result<Entry, RepositoryError> {
        self.kept_over(name, b"", entry)
    }

    /// As [`Conversions::kept`], for a file of which git stores this content now.
    pub fn kept_over(&self, name: &[u8], stored: &[u8], entry: &Entry) -> Result<Entry, RepositoryError> {
        let ends = |ends: LineEnds, content: &[u8]| ends.kept(stored, content);
        self.converted(name, entry, ends, |git, content| {
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
        let by_git = self.names.get(name).is_some_and(|how| how.is_encoded || has_id(content));
        let content = match (&self.git, self.ends.get(name)) {
            (Some((git, _)), _) if by_git => convert(git, content)?,
            (_, Some(how)) => ends(*how, content),
            _ => return Ok(entry.clone()),
        };
        Ok(Entry::File { content: content.into(), executable: *executable })
    }
}

fn has_id(content: &[u8]) -> bool {
    content.windows(3).any(|part| part == b"$Id")
}

/// Reads the settings for files without attributes; of several values the last one counts.
fn settings(git: &Git) -> Settings {
    let mut settings = Settings::default();
    let listed = git.run(&["config", "-z", "--get-regexp", r"^core\.(autocrlf|eol)$"], b"").unwrap_or_default();
    for setting in String::from_utf8_lossy(&listed).split_terminator('\0') {
        // A key alone is true.
        let (key, value) = setting.split_once('\n').unwrap_or((setting, "true"));
        let setting = if key == "core.eol" { &mut settings.eol } else { &mut settings.auto };
        *setting = value.to_ascii_lowercase();
    }
    settings
}
