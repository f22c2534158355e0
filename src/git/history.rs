//! Lists the files in the index and the commits of a repository.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use git2::{Index, ObjectType, Odb, Oid};

use super::GitError;
use super::repository::Repository;
use crate::bounded;
use crate::path::RelPath;

/// The mode bits that tell directories, links and submodules from files.
const KIND: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
const LINK: u32 = 0o120_000;
const SUBMODULE: u32 = 0o160_000;

/// The extension of an index that holds the sides of resolved conflicts.
const RESOLVED: &[u8] = b"REUC";

/// Why the files of a repository's history are not known.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// References are in a format that is not read.
    #[error("it keeps references in the reftable format")]
    Reftable,
    /// A file of git's own cannot be read.
    #[error("{}: {cause}", .path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// A directory of git's own is a link.
    #[error("{} is a link to a directory", .0.display())]
    Link(PathBuf),
    /// Ids are not SHA-1.
    #[error("its object format is unknown")]
    ObjectFormat,
    /// An index cannot be read.
    #[error("its index: {0}")]
    Index(io::Error),
    /// Files are missing in the index.
    #[error("its index is sparse")]
    SparseIndex,
    /// The objects' path cannot be given to libgit2.
    #[error("the path of its objects is not UTF-8")]
    NotUtf8,
    /// A file has no name.
    #[error("a reference names a file without its path")]
    NoPath,
    /// Time is up.
    #[error("it is too large to check")]
    TooLarge,
    /// git cannot list what an index holds.
    #[error(transparent)]
    Command(#[from] GitError),
    /// libgit2 cannot read it.
    #[error("{}", .0.message())]
    Git(#[from] git2::Error),
}

/// Returns every file in an index of its work trees, or in a commit that a head, a reference or a reflog reaches, relative to the
/// repository's top. It is an error if this is not known by `end`, or if the storage format is unknown.
pub fn files(repository: &Repository, end: Instant) -> Result<Vec<RelPath>, HistoryError> {
    let mut ids = Vec::new();
    ids_in(&repository.git_dir, &mut ids, false)?;
    ids_in(&repository.common_dir, &mut ids, true)?;
    let mut search = Search { directories: vec![Directory::default()], seen: HashSet::new(), files: Vec::new(), end };
    for index in indexes(repository) {
        search.index(repository, &index)?;
    }
    search.commits(&repository.common_dir.join("objects"), ids)?;
    Ok(search.files)
}

// The index of every work tree: what is staged in another one is among the same objects.
fn indexes(repository: &Repository) -> BTreeSet<PathBuf> {
    let linked = std::fs::read_dir(repository.common_dir.join("worktrees")).into_iter().flatten().flatten();
    let directories = linked.map(|entry| entry.path());
    let own = [repository.git_dir.clone(), repository.common_dir.clone()];
    directories.chain(own).map(|directory| directory.join("index")).collect()
}

// Git's own names outside of `refs` look like `MERGE_AUTOSTASH`.
fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte == b'_'
}

// Every id in git's own text files: heads, references and their logs.
fn ids_in(directory: &Path, ids: &mut Vec<Oid>, shared: bool) -> Result<(), HistoryError> {
    if shared && directory.join("reftable").exists() {
        return Err(HistoryError::Reftable);
    }
    let mut pending = vec![directory.to_path_buf()];
    while let Some(at) = pending.pop() {
        let entries = match std::fs::read_dir(&at) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(cause) => return Err(HistoryError::Io { path: at, cause }),
        };
        for entry in entries {
            let entry = entry.map_err(|cause| HistoryError::Io { path: at.clone(), cause })?;
            let (name, path) = (entry.file_name(), entry.path());
            let name = name.to_string_lossy();
            if path.is_dir() {
                let holds =
                    matches!(&*name, "refs" | "logs" | "rebase-merge" | "rebase-apply" | "sequencer" | "worktrees");
                if at != directory || holds {
                    if path.is_symlink() {
                        return Err(HistoryError::Link(path));
                    }
                    pending.push(path);
                }
            } else if at != directory || name == "packed-refs" || name.bytes().all(is_of_name) {
                let text =
                    bounded::regular(&path, bounded::PRODUCT).map_err(|cause| HistoryError::Io { path, cause })?;
                for word in text.split(|byte| !byte.is_ascii_hexdigit()) {
                    match word.len() {
                        40 => ids.extend(std::str::from_utf8(word).ok().and_then(|id| Oid::from_str(id).ok())),
                        64 => return Err(HistoryError::ObjectFormat),
                        _ => {}
                    }
                }
            }
        }
    }
    Ok(())
}

/// Everything that was found at one path, in any commit.
#[derive(Default)]
struct Directory {
    path: RelPath,
    /// Names of files that were met.
    files: HashSet<Vec<u8>>,
    /// Names of directories, with their index in the search's list.
    directories: HashMap<Vec<u8>, usize>,
}

struct Search {
    /// Every directory that was found; the first is the top.
    directories: Vec<Directory>,
    /// Trees that were looked at, each at its path.
    seen: HashSet<(usize, Oid)>,
    files: Vec<RelPath>,
    end: Instant,
}

impl Search {
    fn index(&mut self, repository: &Repository, path: &Path) -> Result<(), HistoryError> {
        let Some(bytes) = bounded::optional(bounded::regular(path, bounded::PRODUCT)).map_err(HistoryError::Index)?
        else {
            return Ok(());
        };
        let index = Index::open(path)?;
        for entry in index.iter() {
            match entry.mode & KIND {
                LINK | SUBMODULE => {}
                // A directory in a sparse index replaces files that are not listed.
                DIRECTORY => return Err(HistoryError::SparseIndex),
                _ => self.files.extend(RelPath::from_bytes(&entry.path)),
            }
        }
        if bytes.windows(RESOLVED.len()).any(|word| word == RESOLVED) {
            // The sides of conflicts that were resolved.
            let git = repository.git().env("GIT_INDEX_FILE", path);
            let listed = git.run(&["ls-files", "-z", "--full-name", "--resolve-undo"], b"")?;
            let names = listed.split(|byte| *byte == 0).filter_map(|line| line.split(|byte| *byte == b'\t').nth(1));
            self.files.extend(names.filter_map(RelPath::from_bytes));
        }
        Ok(())
    }

    fn commits(&mut self, objects: &Path, mut pending: Vec<Oid>) -> Result<(), HistoryError> {
        let database = Odb::new()?;
        let path = objects.to_str().ok_or(HistoryError::NotUtf8)?;
        database.add_disk_alternate(path)?;
        let mut seen = HashSet::new();
        while let Some(id) = pending.pop() {
            // A shallow repository lacks parents, and reflogs name deleted commits.
            if !seen.insert(id) || id.is_zero() || !database.exists(id) {
                continue;
            }
            self.in_time()?;
            let object = database.read(id)?;
            match object.kind() {
                ObjectType::Commit | ObjectType::Tag => {
                    let header = object.data().split(|byte| *byte == b'\n').take_while(|line| !line.is_empty());
                    pending.extend(header.filter_map(|line| {
                        let names = [b"tree ".as_slice(), b"parent ", b"object "];
                        let id = names.iter().find_map(|name| line.strip_prefix(*name))?;
                        Oid::from_str(std::str::from_utf8(id).ok()?).ok()
                    }));
                }
                ObjectType::Tree => self.tree(&database, id)?,
                ObjectType::Blob => return Err(HistoryError::NoPath),
                _ => {}
            }
        }
        Ok(())
    }

    fn in_time(&self) -> Result<(), HistoryError> {
        if Instant::now() < self.end { Ok(()) } else { Err(HistoryError::TooLarge) }
    }

    // Everything below a tree that is the top of a commit.
    fn tree(&mut self, database: &Odb<'_>, top: Oid) -> Result<(), git2::Error> {
        let mut pending = vec![(0, top)];
        while let Some((at, id)) = pending.pop() {
            if !self.seen.insert((at, id)) || !database.exists(id) {
                continue;
            }
            for (mode, name, id) in entries(database.read(id)?.data()) {
                match mode & KIND {
                    LINK | SUBMODULE => {}
                    DIRECTORY => pending.extend(self.directory(at, name).map(|below| (below, id))),
                    _ => self.file(at, name),
                }
            }
        }
        Ok(())
    }

    fn directory(&mut self, at: usize, name: &[u8]) -> Option<usize> {
        if let Some(known) = self.directories[at].directories.get(name) {
            return Some(*known);
        }
        let path = self.directories[at].path.join(std::ffi::OsStr::from_bytes(name))?;
        let new = self.directories.len();
        self.directories.push(Directory { path, ..Directory::default() });
        self.directories[at].directories.insert(name.to_vec(), new);
        Some(new)
    }

    fn file(&mut self, at: usize, name: &[u8]) {
        let directory = &mut self.directories[at];
        if !directory.files.contains(name) {
            directory.files.insert(name.to_vec());
            self.files.extend(directory.path.join(std::ffi::OsStr::from_bytes(name)));
        }
    }
}

// `MODE NAME\0` and the twenty bytes of an id, repeated.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::workspace::test_support::sh;

    fn repository(script: &str) -> (tempfile::TempDir, Repository) {
        let folder = tempfile::tempdir().unwrap();
        sh(folder.path(), script);
        let found = Repository::discover(&folder.path().canonicalize().unwrap()).unwrap().unwrap();
        (folder, found)
    }

    fn names(repository: &Repository) -> Vec<String> {
        let files = files(repository, Instant::now() + Duration::from_secs(600)).unwrap();
        let mut names: Vec<String> = files.iter().map(RelPath::to_string_lossy).collect();
        names.sort();
        names.dedup();
        names
    }

    const INIT: &str = "git init -q -b main .; git config user.email a@b; git config user.name a;";

    #[test]
    fn whatever_a_head_a_reference_or_a_log_reaches_is_found() {
        let (_folder, found) = repository(&format!(
            "{INIT} mkdir -p a/b; touch a/b/first; ln -s first a/link; git add .; git commit -qm one
            git mv a/b/first second; git commit -qm two; git tag -am t v1
            touch reset; git add .; git commit -qm three; git reset -q --hard HEAD~1
            touch stashed; git add .; git stash -q
            touch fetched; git add .; git commit -qm four; git rev-parse HEAD > id; git reset -q --hard HEAD~1
            git reflog expire --expire=now --all; cat id > .git/FETCH_HEAD; rm -f .git/ORIG_HEAD; git gc -q
            touch auto; git add auto; git stash create > .git/MERGE_AUTOSTASH; git reset -q --hard
            touch indexed; git add indexed"
        ));
        assert_eq!(names(&found), ["a/b/first", "auto", "fetched", "indexed", "second", "stashed"]);
    }

    #[test]
    fn a_linked_work_tree_has_the_commits_of_the_first_one() {
        let (folder, _) = repository(&format!(
            "{INIT} mkdir first; cd first; git init -q -b main .; git config user.email a@b; git config user.name a
            touch shared; git add .; git commit -qm one; git worktree add -q --detach ../second; cd ../second
            touch own; git add own"
        ));
        let at = |name: &str| folder.path().canonicalize().unwrap().join(name);
        for tree in ["first", "second"] {
            let found = Repository::discover(&at(tree)).unwrap().unwrap();
            assert_eq!(names(&found), ["own", "shared"], "{tree}");
        }
        sh(&at("second"), "git worktree add -q --detach ../third; touch ../third/third; git -C ../third add third");
        let found = Repository::discover(&at("second")).unwrap().unwrap();
        assert_eq!(names(&found), ["own", "shared", "third"]);
    }

    #[test]
    fn the_sides_of_a_resolved_conflict_are_found() {
        let (_folder, found) = repository(&format!(
            "{INIT} touch a; git add .; git commit -qm one; blob=$(echo secret | git hash-object -w --stdin)
            printf '0 %040d\\tsub/.env\\n100644 %s 2\\tsub/.env\\n' 0 $blob | git update-index --index-info
            mkdir sub; touch sub/.env; git add -f sub/.env; git rm -q --cached sub/.env"
        ));
        assert_eq!(names(&found), ["a", "sub/.env"]);
    }

    #[test]
    fn a_history_that_takes_too_long_is_not_known() {
        let (_folder, found) = repository(&format!("{INIT} touch a; git add .; git commit -qm one"));
        assert!(files(&found, Instant::now()).unwrap_err().to_string().contains("too large"));
    }

    #[test]
    fn a_repository_without_a_commit_holds_what_its_index_does() {
        let (_folder, found) = repository(&format!("{INIT} touch a; git add a"));
        assert_eq!(names(&found), ["a"]);
    }
}
