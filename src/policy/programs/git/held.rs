//! Files in commits and in the index that may not be read: they are left out of the tree that commands get, and no
//! subcommand may bring them back.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use git2::{Index, ObjectType, Odb, Oid};

use super::content;
use super::objects::{directories, top};
use crate::bounded;
use crate::path::RelPath;
use crate::policy::decision::Denial;
use crate::policy::programs::table::Call;

/// The most entries of directories that are looked at in all commits together.
const MAX_ENTRIES: usize = 2_000_000;

/// The mode bits that tell directories, links and submodules from files.
const KIND: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
const LINK: u32 = 0o120_000;
const SUBMODULE: u32 = 0o160_000;

/// What of commits a subcommand brings into the work tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kept {
    /// Nothing.
    Nothing,
    /// What these words name.
    Paths(Vec<String>),
    /// Whatever is in a commit.
    All,
}

/// Refuses a subcommand that may bring a file into the work tree that may not be read.
pub(super) fn refuse_restored(call: &Call<'_>, kept: &Kept) -> Result<(), Denial> {
    let named = match kept {
        Kept::Nothing => return Ok(()),
        Kept::All => None,
        Kept::Paths(words) => named(call, words),
    };
    let within = |path: &RelPath| named.as_ref().is_none_or(|named| named.iter().any(|name| path.is_under(name)));
    match held(call, &within)? {
        None => Ok(()),
        Some(path) => Err(call
            .deny(format!("it may bring `{path}` of a commit into the work tree, which may not be read"))
            .hint("change the files that you mean with the file tools, or restore them by their names")),
    }
}

/// Refuses a subcommand that shows `what` of every file where one of them may not be read.
pub(super) fn refuse_held(call: &Call<'_>, what: &str, hint: &str) -> Result<(), Denial> {
    match held(call, &|_| true)? {
        None => Ok(()),
        Some(path) => {
            Err(call.deny(format!("a commit has `{path}`, which may not be read: it shows {what}")).hint(hint))
        }
    }
}

// The paths that words name from each directory; `None` where a pattern may name any.
fn named(call: &Call<'_>, words: &[String]) -> Option<Vec<RelPath>> {
    let mut named = Vec::new();
    for word in words {
        if word.starts_with(':') || word.contains(['*', '?', '[']) {
            return None;
        }
        for folder in call.cx.folders {
            named.push(match Path::new(word).is_absolute() {
                true => RelPath::below(call.cx.root, Path::new(word))?,
                false => folder.join(word)?,
            });
        }
    }
    Some(named)
}

/// Returns a file of a commit or of the index that may not be read, of those that are meant.
pub(super) fn held(call: &Call<'_>, meant: &dyn Fn(&RelPath) -> bool) -> Result<Option<RelPath>, Denial> {
    let tree = call.cx.paths.facts_tree();
    let Some((own, common)) = directories(tree, call.cx.root) else { return Ok(None) };
    // What git does not take for a repository holds nothing.
    if !is_head(&own.join("HEAD")) {
        return Ok(None);
    }
    let prefix = content::prefix(call)?;
    let top = top(tree, call.cx.root).unwrap_or(call.cx.root);
    let below = RelPath::below(top, call.cx.root).unwrap_or_default();
    let denied = |path: &RelPath| {
        let text = path.to_string();
        let inside = RelPath::new(text.strip_prefix(prefix.as_str())?)?;
        (call.cx.paths.read_named(&inside, "").is_err() && meant(&inside)).then_some(inside)
    };
    let mut search = Search { below, denied: &denied, known: HashMap::new(), seen: HashSet::new(), left: MAX_ENTRIES };
    let failed = |what: String| {
        let denial = call.deny(format!("what its commits hold cannot be looked through: {what}"));
        denial.hint("change the files that you mean with the file tools")
    };
    let found = search.index(&own.join("index")).map_err(failed)?;
    if found.is_some() {
        return Ok(found);
    }
    let mut starts = Vec::new();
    names_in(&own, &mut starts, false).map_err(failed)?;
    names_in(&common, &mut starts, true).map_err(failed)?;
    search.commits(&common.join("objects"), starts).map_err(failed)
}

// Whether git takes this for the head of a repository: a reference, or an id.
fn is_head(path: &Path) -> bool {
    if path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink()) {
        return true;
    }
    let text = bounded::regular(path, bounded::CONFIG).unwrap_or_default();
    text.starts_with(b"ref:") || text.get(..40).is_some_and(|id| id.iter().all(u8::is_ascii_hexdigit))
}

// Every id in git's own text files: heads, references and their logs.
fn names_in(directory: &Path, ids: &mut Vec<Oid>, shared: bool) -> Result<(), String> {
    if shared && directory.join("reftable").exists() {
        return Err("references are kept in tables".to_owned());
    }
    let mut pending = vec![directory.to_path_buf()];
    while let Some(at) = pending.pop() {
        let entries = match std::fs::read_dir(&at) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(format!("{}: {error}", at.display())),
        };
        for entry in entries {
            let entry = entry.map_err(|error| format!("{}: {error}", at.display()))?;
            let (name, path) = (entry.file_name(), entry.path());
            let name = name.to_string_lossy();
            if path.is_dir() {
                let holds =
                    matches!(&*name, "refs" | "logs" | "rebase-merge" | "rebase-apply" | "sequencer" | "worktrees");
                if at != directory || holds {
                    if path.is_symlink() {
                        return Err(format!("{} is a link to a directory", path.display()));
                    }
                    pending.push(path);
                }
            } else if at != directory || name.ends_with("HEAD") || matches!(&*name, "packed-refs" | "AUTO_MERGE") {
                let text = bounded::regular(&path, bounded::PRODUCT)
                    .map_err(|error| format!("{}: {error}", path.display()))?;
                for word in text.split(|byte| !byte.is_ascii_hexdigit()) {
                    match word.len() {
                        40 => ids.extend(std::str::from_utf8(word).ok().and_then(|id| Oid::from_str(id).ok())),
                        64 => return Err("its ids are of a kind that is not known".to_owned()),
                        _ => {}
                    }
                }
            }
        }
    }
    Ok(())
}

struct Search<'s> {
    /// The workspace in its repository.
    below: RelPath,
    denied: &'s dyn Fn(&RelPath) -> Option<RelPath>,
    /// Files that were looked at, each once for all commits.
    known: HashMap<RelPath, bool>,
    /// Directories that were looked at, each by its path and its id.
    seen: HashSet<(Oid, RelPath)>,
    left: usize,
}

impl Search<'_> {
    fn file(&mut self, path: RelPath) -> Option<RelPath> {
        if self.known.contains_key(&path) {
            return None;
        }
        let found = (self.denied)(&path);
        self.known.insert(path, found.is_some());
        found
    }

    fn index(&mut self, path: &Path) -> Result<Option<RelPath>, String> {
        if !path.exists() {
            return Ok(None);
        }
        let index = Index::open(path).map_err(|error| error.message().to_owned())?;
        for entry in index.iter() {
            if matches!(entry.mode & KIND, LINK | SUBMODULE) {
                continue;
            }
            // The directory of a sparse index stands for files that are not named.
            if entry.mode & KIND == DIRECTORY {
                return Err("its index is sparse".to_owned());
            }
            if let Some(found) = RelPath::from_bytes(&entry.path).and_then(|path| self.file(path)) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn commits(&mut self, objects: &Path, starts: Vec<Oid>) -> Result<Option<RelPath>, String> {
        let message = |error: git2::Error| error.message().to_owned();
        let database = Odb::new().map_err(message)?;
        let path = objects.to_str().ok_or("the path of its objects is not text")?;
        database.add_disk_alternate(path).map_err(message)?;
        let mut pending = starts;
        let mut seen = HashSet::new();
        while let Some(id) = pending.pop() {
            if !seen.insert(id) || id.is_zero() {
                continue;
            }
            // A shallow repository lacks parents, and logs name what is gone.
            if !database.exists(id) {
                continue;
            }
            let object = database.read(id).map_err(message)?;
            match object.kind() {
                ObjectType::Commit | ObjectType::Tag => {
                    let header = object.data().split(|byte| *byte == b'\n').take_while(|line| !line.is_empty());
                    pending.extend(header.filter_map(|line| {
                        let names = [b"tree ".as_slice(), b"parent ", b"object "];
                        let id = names.iter().find_map(|name| line.strip_prefix(*name))?;
                        Oid::from_str(std::str::from_utf8(id).ok()?).ok()
                    }));
                }
                ObjectType::Tree => {
                    if let Some(found) = self.tree(&database, id)? {
                        return Ok(Some(found));
                    }
                }
                _ => {}
            }
        }
        Ok(None)
    }

    // Everything below a directory that is the top of a commit.
    fn tree(&mut self, database: &Odb<'_>, top: Oid) -> Result<Option<RelPath>, String> {
        let mut pending = vec![(top, RelPath::root())];
        while let Some((id, path)) = pending.pop() {
            if !self.seen.insert((id, path.clone())) || !database.exists(id) {
                continue;
            }
            let object = database.read(id).map_err(|error| error.message().to_owned())?;
            for (mode, name, id) in entries(object.data()) {
                self.left = self.left.checked_sub(1).ok_or("there are too many files in its commits")?;
                let Some(path) = path.join(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name)) else {
                    continue;
                };
                match mode & KIND {
                    LINK | SUBMODULE => {}
                    DIRECTORY if path.is_under(&self.below) || self.below.is_under(&path) => pending.push((id, path)),
                    DIRECTORY => {}
                    _ => {
                        if let Some(found) = self.file(path) {
                            return Ok(Some(found));
                        }
                    }
                }
            }
        }
        Ok(None)
    }
}

// `MODE NAME\0` and the twenty bytes of an id, one behind the other.
fn entries(mut data: &[u8]) -> impl Iterator<Item = (u32, &[u8], Oid)> {
    std::iter::from_fn(move || {
        let space = data.iter().position(|byte| *byte == b' ')?;
        let end = space + data[space..].iter().position(|byte| *byte == 0)?;
        let mode = u32::from_str_radix(std::str::from_utf8(&data[..space]).ok()?, 8).ok()?;
        let name = &data[space + 1..end];
        let id = Oid::from_bytes(data.get(end + 1..end + 21)?).ok()?;
        data = &data[end + 21..];
        Some((mode, name, id))
    })
}
