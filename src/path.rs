//! Represents paths relative to the workspace: normalised, any bytes.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::hidden::is_hidden;

/// A path below the workspace root: components joined by one `/`, none of them empty, `.` or `..`, no NUL.
///
/// The root itself is the empty path. It says nothing about links: see `policy::paths` for resolution.
///
/// ```
/// use qwen_run::path::RelPath;
/// let path = RelPath::new("src/./main.rs").unwrap();
/// assert_eq!(path.to_string(), "src/main.rs");
/// assert!(RelPath::new("../etc").is_none());
/// assert!(RelPath::new("/etc").is_none());
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RelPath(Vec<u8>);

impl RelPath {
    /// Returns the workspace root.
    pub fn root() -> RelPath {
        RelPath(Vec::new())
    }

    /// Normalises a relative path by its text alone; `None` if it is absolute, climbs out, or holds a NUL.
    pub fn new(path: impl AsRef<OsStr>) -> Option<RelPath> {
        RelPath::from_bytes(path.as_ref().as_bytes())
    }

    /// As [`RelPath::new`], from bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<RelPath> {
        if bytes.first() == Some(&b'/') || bytes.contains(&0) {
            return None;
        }
        let mut parts: Vec<&[u8]> = Vec::new();
        for part in bytes.split(|b| *b == b'/') {
            match part {
                b"" | b"." => {}
                b".." => {
                    parts.pop()?;
                }
                _ => parts.push(part),
            }
        }
        Some(RelPath(parts.join(&b'/')))
    }

    /// Returns the path relative to `root`, if it is below it (by text; both absolute and normalised).
    pub fn below(root: &Path, path: &Path) -> Option<RelPath> {
        RelPath::new(path.strip_prefix(root).ok()?)
    }

    /// Returns the bytes of the path.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the path for joining to a root; empty for the root itself.
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// Returns the absolute path below `root`.
    pub fn under(&self, root: &Path) -> PathBuf {
        if self.is_root() { root.to_path_buf() } else { root.join(self.as_path()) }
    }

    /// Tells whether this is the workspace root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the components, from the root down.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.0.split(|b| *b == b'/').filter(|part| !part.is_empty())
    }

    /// Returns the last component; `None` for the root.
    pub fn file_name(&self) -> Option<&OsStr> {
        self.components().next_back().map(OsStr::from_bytes)
    }

    /// Returns the directory that holds this path; `None` for the root.
    pub fn parent(&self) -> Option<RelPath> {
        if self.is_root() {
            return None;
        }
        let end = self.0.iter().rposition(|b| *b == b'/').unwrap_or(0);
        Some(RelPath(self.0[..end].to_vec()))
    }

    /// Returns the path of an entry of this directory; `None` if `name` is not one plain component.
    pub fn child(&self, name: impl AsRef<OsStr>) -> Option<RelPath> {
        let name = name.as_ref().as_bytes();
        if name.is_empty() || name == b"." || name == b".." || name.contains(&b'/') || name.contains(&0) {
            return None;
        }
        let mut bytes = self.0.clone();
        if !bytes.is_empty() {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(name);
        Some(RelPath(bytes))
    }

    /// Joins and normalises; `None` if the result climbs out of the root or `path` is absolute.
    pub fn join(&self, path: impl AsRef<OsStr>) -> Option<RelPath> {
        let path = path.as_ref().as_bytes();
        if path.first() == Some(&b'/') {
            return None;
        }
        RelPath::from_bytes(&[&self.0, b"/".as_slice(), path].concat()[usize::from(self.is_root())..])
    }

    /// Tells whether this path is `folder` or is below it.
    pub fn is_under(&self, folder: &RelPath) -> bool {
        folder.is_root()
            || self.0 == folder.0
            || (self.0.starts_with(&folder.0) && self.0.get(folder.0.len()) == Some(&b'/'))
    }

    /// Returns the path as text, with invalid bytes replaced.
    pub fn to_string_lossy(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }

    /// Returns the path as an `OsString`.
    pub fn to_os_string(&self) -> OsString {
        OsString::from_vec(self.0.clone())
    }
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_root() { "." } else { "" })?;
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

/// What is at a path, without following a link in its last part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// A regular file.
    File {
        /// How many names it has (hard links).
        links: u64,
        /// Device and inode: equal for two names of one file.
        id: (u64, u64),
        /// Whether its owner may execute it.
        executable: bool,
        /// Bytes.
        size: u64,
    },
    /// A directory.
    Dir,
    /// A symbolic link and the text of its target.
    Link(PathBuf),
    /// A socket, pipe or device.
    Other,
}

/// The facts about files that decisions rest on; the disk, or the memory of a test.
pub trait Tree: Send + Sync {
    /// Looks at an absolute path without following its last part; `None` if nothing is there.
    ///
    /// An error other than "not there" must be reported as one: a check that fails is a denial.
    fn look(&self, path: &Path) -> std::io::Result<Option<Node>>;

    /// Returns the names in a directory, sorted by bytes.
    fn names(&self, path: &Path) -> std::io::Result<Vec<OsString>>;
}

/// Returns a path as one line: what breaks a line or hides what it says, and bytes that are not UTF-8 are written as escapes.
pub fn one_line(path: &Path) -> String {
    let text = path.to_string_lossy();
    let breaks = |c: char| matches!(c, '\t' | '\n') || is_hidden(c);
    if !text.chars().any(breaks) {
        return text.into_owned();
    }
    let mut line = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if breaks(c) { line.extend(c.escape_default()) } else { line.push(c) }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rel(text: &str) -> RelPath {
        RelPath::new(text).expect("a path below the root")
    }

    #[test]
    fn a_path_is_normalised_and_cannot_climb_out() {
        assert_eq!(rel("a//b/./../c/").to_string(), "a/c");
        assert_eq!(RelPath::new("a/../.."), None);
        assert_eq!(RelPath::new("a\0b"), None);
        assert_eq!(rel("").to_string(), ".");
    }

    #[test]
    fn joining_keeps_below_the_root() {
        assert_eq!(rel("a").join("b"), Some(rel("a/b")));
        assert_eq!(RelPath::root().join("b"), Some(rel("b")));
        assert_eq!(rel("a").join("../../b"), None);
        assert_eq!(rel("a").join("/b"), None);
    }

    #[test]
    fn under_compares_whole_components() {
        assert!(rel("src/a").is_under(&rel("src")));
        assert!(!rel("src2/a").is_under(&rel("src")));
        assert!(rel("src").is_under(&RelPath::root()));
        assert_eq!(rel("a/b").parent(), Some(rel("a")));
        assert_eq!(rel("a").parent(), Some(RelPath::root()));
    }
}
