//! Resolves paths, and says below which root each is.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::path::{Node, RelPath, Tree};
use crate::policy::decision::Denial;
use crate::policy::facts::Facts;
use crate::policy::layers::Layer;

const MAX_LINKS: usize = 40;

/// Where a path leads, all links followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// Absolute, normalised, without links.
    pub(crate) absolute: PathBuf,
    /// The last part, as written, was a link.
    pub(crate) last_is_link: bool,
    /// What is there.
    pub(crate) node: Option<Node>,
}

/// Which root a path is below.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// The workspace.
    Workspace(RelPath),
    /// An included directory; the path is relative to it.
    Included(RelPath),
    /// The run's directory of full outputs.
    Outputs(RelPath),
}

/// The path rules of a policy over the facts of a run. Made for one call: it remembers what it looked up.
pub(crate) struct PathRules<'a> {
    pub(super) layers: &'a [Layer],
    pub(super) facts: &'a Facts,
    pub(super) denied_files: OnceLock<Result<HashSet<(u64, u64)>, String>>,
    pub(super) folders: Option<&'a Folders>,
}

/// What was found out of a tree. Made for one call, as a search asks of each file in it.
#[derive(Debug, Default)]
pub(crate) struct Folders {
    /// Directories that are reached through no link.
    known: Mutex<HashSet<PathBuf>>,
    /// Directories, and the git directory that each is or is in.
    git_directories: Mutex<HashMap<PathBuf, Option<RelPath>>>,
    /// Files with several names of which one may not be read.
    pub(super) denied_files: OnceLock<DeniedFiles>,
}

/// Device and inode of each, or why they could not be found.
type DeniedFiles = Result<HashSet<(u64, u64)>, String>;

impl Folders {
    pub(super) fn git_directories(&self) -> MutexGuard<'_, HashMap<PathBuf, Option<RelPath>>> {
        self.git_directories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn known(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a> PathRules<'a> {
    pub(crate) fn new(layers: &'a [Layer], facts: &'a Facts) -> PathRules<'a> {
        PathRules { layers, facts, denied_files: OnceLock::new(), folders: None }
    }

    /// Remembers directories from one path to the next.
    pub(crate) fn remembering(self, folders: &'a Folders) -> PathRules<'a> {
        PathRules { folders: Some(folders), ..self }
    }

    pub(crate) fn tree(&self) -> &dyn Tree {
        self.facts.tree.as_ref()
    }

    /// Follows a path from a directory of the workspace to where it leads: every link by hand, `..` after links,
    /// dangling targets by their text, parts that do not exist as they are.
    pub(crate) fn resolve(&self, folder: &RelPath, path: &Path) -> Result<Resolved, Denial> {
        let text = plain(path)?;
        let (mut at, mut pending) = self.start(folder, path);
        let mut links = 0;
        let mut seen = None;
        let mut last_is_link = false;
        // Parts that came out of a link are not the last part as written.
        let mut written = pending.len();
        while let Some(part) = pending.pop() {
            let is_last_written = pending.is_empty() && written == 1;
            written = written.min(pending.len());
            seen = None;
            if part == b".." {
                at.pop();
                continue;
            }
            let next = at.join(OsStr::from_bytes(&part));
            match self.look(&next)? {
                Some(Node::Link(target)) => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(Denial::new(format!("`{text}` is a circular link")).by("F1"));
                    }
                    if is_last_written {
                        last_is_link = true;
                    }
                    let target = target.as_os_str().as_bytes();
                    if target.first() == Some(&b'/') {
                        at = PathBuf::from("/");
                    }
                    pending.extend(parts(target).into_iter().rev());
                }
                node => {
                    at = next;
                    seen = Some(node);
                }
            }
        }
        if let (Some(folders), 0, Some(parent)) = (self.folders, links, at.parent())
            && at == path
        {
            folders.known().insert(parent.to_path_buf());
        }
        let node = match seen {
            Some(node) => node,
            None => self.look(&at)?,
        };
        Ok(Resolved { absolute: at, last_is_link, node })
    }

    // Where following begins, and the parts that are left, the last one first.
    fn start(&self, folder: &RelPath, path: &Path) -> (PathBuf, Vec<Vec<u8>>) {
        let bytes = path.as_os_str().as_bytes();
        let mut pending: Vec<Vec<u8>> = parts(bytes);
        pending.reverse();
        if let (Some(folders), Some(parent), Some(_)) = (self.folders, path.parent(), path.file_name())
            && path.is_absolute()
            && folders.known().contains(parent)
        {
            pending.truncate(1);
            return (parent.to_path_buf(), pending);
        }
        (if bytes[0] == b'/' { PathBuf::from("/") } else { folder.under(&self.facts.root) }, pending)
    }

    pub(super) fn look(&self, path: &Path) -> Result<Option<Node>, Denial> {
        self.tree().look(path).map_err(|error| Denial::new(format!("{} cannot be checked: {error}", path.display())))
    }

    // The parent's links are followed, the last part is not: removing a link removes the link.
    pub(crate) fn unfollowed(&self, folder: &RelPath, path: &Path) -> Result<PathBuf, Denial> {
        let trimmed = trim_slashes(path.as_os_str().as_bytes());
        let split = trimmed.iter().rposition(|byte| *byte == b'/');
        let (parent, name) = match split {
            Some(0) => (b"/".as_slice(), &trimmed[1..]),
            Some(at) => (&trimmed[..at], &trimmed[at + 1..]),
            None => (b".".as_slice(), trimmed),
        };
        let whole = self.resolve(folder, path)?;
        if name.is_empty() || name == b"." || name == b".." {
            return Ok(whole.absolute);
        }
        let parent = self.resolve(folder, Path::new(OsStr::from_bytes(parent)))?;
        Ok(parent.absolute.join(OsStr::from_bytes(name)))
    }

    /// Returns the root that an absolute, resolved path is below.
    pub(crate) fn place(&self, absolute: &Path) -> Option<Place> {
        if ["/proc", "/sys", "/dev"].iter().any(|never| absolute.starts_with(never)) {
            return None;
        }
        if let Some(path) = RelPath::below(&self.facts.root, absolute) {
            return Some(Place::Workspace(path));
        }
        if let Some(path) = self.facts.included.iter().find_map(|root| RelPath::below(root, absolute)) {
            return Some(Place::Included(path));
        }
        let outputs = self.facts.outputs.as_ref()?;
        RelPath::below(outputs, absolute).map(Place::Outputs)
    }

    pub(super) fn outside(&self, shown: &str) -> Denial {
        Denial::new(format!("`{shown}` is outside the workspace"))
            .by("F2")
            .hint("only paths of the workspace can be used")
    }

    pub(super) fn inside(&self, folder: &RelPath, path: &Path) -> Result<(Resolved, Place), Denial> {
        let resolved = self.resolve(folder, path)?;
        let place = self.place(&resolved.absolute).ok_or_else(|| self.outside(&path.to_string_lossy()))?;
        Ok((resolved, place))
    }
}

// A path that is not empty and has no control characters.
fn plain(path: &Path) -> Result<Cow<'_, str>, Denial> {
    let text = path.to_string_lossy();
    if text.is_empty() {
        return Err(Denial::new("the path is empty").by("F7"));
    }
    if text.chars().any(char::is_control) {
        return Err(Denial::new(format!("the path {text:?} contains a control character")).by("F7"));
    }
    Ok(text)
}

fn parts(bytes: &[u8]) -> Vec<Vec<u8>> {
    let parts = bytes.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    parts.map(<[u8]>::to_vec).collect()
}

fn trim_slashes(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(usize::from(!bytes.is_empty()), |at| at + 1);
    &bytes[..end]
}
