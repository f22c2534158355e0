//! Describes the repository of the workspace: where it is, what HEAD names, which paths a person has changed.
//!
//! The facts that every run needs are read from a few small files without a process; git is asked about unusual ones.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use super::ownership::{has_shared_index, is_of, not_of};
use super::{Git, GitError, Programs, drivers, trusted};
use crate::bounded;
use crate::change::layout;
use crate::change::patch::{ObjectFormat, mode, name_in_repository};
use crate::change::{ChangeSet, Entry, diff};
use crate::path::RelPath;

/// A repository with a work tree that holds the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// This work tree's own git directory.
    pub git_dir: PathBuf,
    /// The git directory that all work trees share.
    pub common_dir: PathBuf,
    /// The top of the work tree.
    pub top: PathBuf,
    /// The workspace's directory, relative to the top.
    pub prefix: RelPath,
    /// The commit of HEAD; `None` on an unborn branch.
    pub head: Option<String>,
    /// The branch; `None` where HEAD is detached.
    pub branch: Option<String>,
    /// The hash of object names.
    pub format: ObjectFormat,
    /// The programs to work on it with.
    pub programs: Programs,
    /// Whether simple readers can read it: loose and packed references, SHA-1, no sparse or split index, a complete
    /// clone.
    pub is_plain: bool,
    /// `core.fileMode` of the repository's own configuration; git sets it when it creates a repository.
    file_mode: Option<bool>,
}

/// Why the repository cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    /// A file of git's cannot be read.
    #[error("{path}: {cause}")]
    Io {
        /// Where.
        path: PathBuf,
        /// What.
        #[source]
        cause: io::Error,
    },
    /// Git would treat a directory on the way as a repository.
    #[error("{path} looks like a git directory itself (it has `HEAD`, `objects` and `refs`, or `commondir`)")]
    Bare {
        /// Where.
        path: PathBuf,
    },
    /// A file of git's is damaged.
    #[error("{path}: {reason}")]
    Damaged {
        /// Where.
        path: PathBuf,
        /// What.
        reason: String,
    },
    /// Git failed.
    #[error(transparent)]
    Git(#[from] GitError),
}

impl RepositoryError {
    /// Returns what to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            RepositoryError::Bare { .. } => {
                "name a work tree with -C; git could run programs that such a directory names"
            }
            RepositoryError::Io { .. } | RepositoryError::Damaged { .. } => {
                "run `git status` there and correct what it reports"
            }
            RepositoryError::Git(error) => error.hint(),
        }
    }

    /// Tells whether the reason is that no git is installed.
    pub fn has_no_git(&self) -> bool {
        matches!(self, RepositoryError::Git(GitError::Missing(_)))
    }
}

impl Repository {
    /// Finds the repository that holds a canonical directory; `None` if it is in no work tree.
    ///
    /// A directory on the way that is laid out like a git directory is an error: git would use it and its
    /// configuration.
    pub fn discover(root: &Path) -> Result<Option<Repository>, RepositoryError> {
        for top in root.ancestors() {
            let dot_git = top.join(".git");
            match dot_git.metadata() {
                Ok(metadata) if metadata.is_dir() => match look(dot_git.join("HEAD"))? {
                    Some(head) if !head.is_dir() => {
                        return Repository::at(top, dot_git, root);
                    }
                    Some(_) | None => {}
                },
                Ok(_) => return Repository::at(top, linked_git_dir(top, &dot_git)?, root),
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
                Err(cause) => return Err(RepositoryError::Io { path: dot_git, cause }),
            }
            if layout::is_git_directory(|name: &str| Ok::<_, RepositoryError>(look(top.join(name))?.is_some()))? {
                return Err(RepositoryError::Bare { path: top.to_path_buf() });
            }
        }
        Ok(None)
    }

    fn at(top: &Path, git_dir: PathBuf, root: &Path) -> Result<Option<Repository>, RepositoryError> {
        let common_dir = match bounded::optional(bounded::regular(&git_dir.join("commondir"), SMALL)) {
            Ok(Some(path)) => git_dir.join(OsStr::from_bytes(path.trim_ascii_end())),
            Ok(None) => git_dir.clone(),
            Err(cause) => return Err(RepositoryError::Io { path: git_dir.join("commondir"), cause }),
        };
        let common_dir = common_dir.canonicalize().unwrap_or(common_dir);
        let Some(prefix) = RelPath::below(top, root) else { return Ok(None) };
        can_be_read(&git_dir, &common_dir)?;
        let probe = Probe::read(&common_dir)?;
        if !is_of(top, &git_dir, &common_dir, probe.work_tree.as_deref()) {
            return Err(RepositoryError::Damaged { path: top.join(".git"), reason: not_of(&common_dir) });
        }
        if probe.is_bare && git_dir == common_dir {
            return Ok(None);
        }
        let is_split = has_shared_index(&git_dir).unwrap_or(true);
        let mut repository = Repository {
            common_dir,
            top: top.to_path_buf(),
            prefix,
            head: None,
            branch: None,
            format: probe.format,
            is_plain: probe.is_plain && !is_split,
            file_mode: probe.file_mode,
            programs: Programs::of_process(root).with_user_configuration(trusted::configuration_is_own(root)),
            git_dir,
        };
        (repository.head, repository.branch) = repository.read_head(probe.has_files_for_references)?;
        Ok(Some(repository))
    }

    /// Returns git in the top of the work tree.
    pub fn git(&self) -> Git {
        Git::with(&self.programs, &self.top)
    }

    /// Reads HEAD again, as it is now: the commit and the branch.
    pub fn head_now(&self) -> Result<(Option<String>, Option<String>), RepositoryError> {
        self.read_head(Probe::read(&self.common_dir)?.has_files_for_references)
    }

    fn read_head(&self, by_file: bool) -> Result<(Option<String>, Option<String>), RepositoryError> {
        if by_file && let Some(head) = self.head_by_file() {
            return Ok(head);
        }
        // Git fails silently if HEAD is not a branch and if there is no commit; anything that it prints is a fault.
        let is_silent = |message: &str| message.starts_with("exit status");
        let branch = match self.git().line(&["symbolic-ref", "-q", "HEAD"], b"") {
            Ok(branch) => Some(branch),
            Err(GitError::Failed { message, .. }) if is_silent(&message) => None,
            Err(error) => return Err(error.into()),
        };
        let head = match self.git().line(&["rev-parse", "-q", "--verify", "HEAD^{commit}"], b"") {
            Ok(head) => Some(head),
            Err(GitError::Failed { message, .. }) if is_silent(&message) && branch.is_some() => None,
            Err(error) => return Err(error.into()),
        };
        Ok((head, branch.and_then(|name| name.strip_prefix("refs/heads/").map(str::to_owned))))
    }

    /// Reads HEAD without git; `None` if the plain files are not enough.
    fn head_by_file(&self) -> Option<(Option<String>, Option<String>)> {
        let read = |path: PathBuf, most| bounded::optional(bounded::regular(&path, most));
        let head = String::from_utf8(read(self.git_dir.join("HEAD"), SMALL).ok()??).ok()?;
        let head = head.trim_end();
        let Some(reference) = head.strip_prefix("ref: ") else {
            return is_object(head).then(|| (Some(head.to_owned()), None));
        };
        let branch = reference.strip_prefix("refs/heads/")?;
        let is_safe = branch.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
        if !is_safe {
            return None;
        }
        let commit = match read(self.common_dir.join(reference), SMALL) {
            Ok(Some(text)) => {
                let text = String::from_utf8(text).ok()?;
                // Else a symbolic branch, or a damaged one.
                Some(is_object(text.trim_end()).then(|| text.trim_end().to_owned())?)
            }
            Err(error) if error.kind() != io::ErrorKind::IsADirectory => return None,
            Ok(None) | Err(_) => {
                let packed = read(self.common_dir.join("packed-refs"), LARGE).ok()?.unwrap_or_default();
                packed.split(|byte| *byte == b'\n').find_map(|line| {
                    let (object, name) = line.split_at_checked(line.iter().position(|byte| *byte == b' ')?)?;
                    (&name[1..] == reference.as_bytes()).then(|| String::from_utf8_lossy(object).into_owned())
                })
            }
        };
        Some((commit, Some(branch.to_owned())))
    }

    /// Checks that git starts, accepts the repository, and can read the index and every directory of the commit of
    /// HEAD. File contents are not examined.
    pub fn check(&self) -> Result<(), RepositoryError> {
        let git = self.git();
        // No index contains this path; to find that out git reads all of it.
        git.run(&["ls-files", "-z", "--", ".git"], b"")?;
        if let Some(head) = &self.head {
            git.run(&["ls-tree", "-r", "-d", "-z", "--full-tree", "--name-only", head], b"")?;
        }
        Ok(())
    }

    /// Returns a reference that prevents this one: itself, one below it, or one that it would be below.
    pub fn reference_in_the_way(&self, reference: &str) -> Result<Option<String>, RepositoryError> {
        if self.branch.as_ref().is_some_and(|branch| reference.strip_prefix("refs/heads/") == Some(branch)) {
            // HEAD names it, also where it has no commit yet.
            return Ok(Some(reference.to_owned()));
        }
        let above = reference.match_indices('/').map(|(at, _)| &reference[..at]).skip(2);
        let asked: Vec<&str> = ["for-each-ref", "--format=%(refname)", reference].into_iter().chain(above).collect();
        let listed = self.git().line(&asked, b"")?;
        let is_in_the_way = |name: &&str| {
            let (longer, shorter) = if name.len() > reference.len() { (*name, reference) } else { (reference, *name) };
            longer.strip_prefix(shorter).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if let Some(name) = listed.lines().find(is_in_the_way) {
            return Ok(Some(name.to_owned()));
        }
        // Git does not list a damaged one.
        let is_file = self.common_dir.join(reference).symlink_metadata().is_ok_and(|data| !data.is_dir());
        Ok(is_file.then(|| reference.to_owned()))
    }

    /// Returns the lock files that keep git from moving `HEAD` and its branch (or another reference) and, if asked,
    /// from writing the index. They belong to another git at work, or to one that was killed.
    pub fn locks(&self, reference: &str, with_index: bool) -> Vec<PathBuf> {
        let branch = match (reference, &self.branch) {
            ("HEAD", Some(branch)) => Some(format!("refs/heads/{branch}")),
            ("HEAD", None) => None,
            (other, _) => Some(other.to_owned()),
        };
        let mut locks = Vec::new();
        if with_index {
            locks.push(self.git_dir.join("index.lock"));
        }
        if reference == "HEAD" {
            locks.push(self.git_dir.join("HEAD.lock"));
        }
        locks.extend(branch.map(|name| self.common_dir.join(name + ".lock")));
        locks.push(self.common_dir.join("reftable/tables.list.lock"));
        locks.retain(|lock| lock.symlink_metadata().is_ok());
        locks
    }

    /// Returns those lines of `update-index --index-info` whose path has in the index what the other lines say.
    ///
    /// Only complete lines count, so an entry that somebody has changed since is left out.
    pub fn index_info_where_still(&self, lines: &[u8], expected: &[u8]) -> Result<Vec<u8>, RepositoryError> {
        let parsed = |text: &[u8]| -> BTreeMap<Vec<u8>, TreeEntry> {
            let lines = text.split(|byte| *byte == 0).filter_map(split_at_tab);
            let entries = lines.filter_map(|(meta, name)| {
                let (mode, object) = meta.split_once(' ')?;
                Some((name.to_vec(), TreeEntry { mode: mode.to_owned(), object: object.to_owned() }))
            });
            entries.collect()
        };
        let expected = parsed(expected);
        let now = self.in_index(&expected.keys().cloned().collect::<Vec<_>>())?.files;
        let is_still = |name: &[u8]| match (expected.get(name), now.get(name)) {
            (Some(expected), None) => expected.mode == "0",
            (Some(expected), Some(now)) => expected == now,
            (None, _) => false,
        };
        let kept = lines.split_inclusive(|byte| *byte == 0).filter(|line| {
            split_at_tab(line.strip_suffix(b"\0").unwrap_or(line)).is_some_and(|(_, name)| is_still(name))
        });
        Ok(kept.collect::<Vec<_>>().concat())
    }

    /// Returns the tracked paths of the workspace, relative to it.
    pub fn tracked(&self) -> Result<Vec<RelPath>, RepositoryError> {
        let mut arguments: Vec<OsString> = ["ls-files", "-z", "--cached", "--"].map(OsString::from).into();
        if !self.prefix.is_root() {
            arguments.push(self.prefix.to_os_string());
        }
        let names = self.git().env("GIT_LITERAL_PATHSPECS", "1").run(&arguments, b"")?;
        let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        let below = |name| RelPath::below(self.prefix.as_path(), Path::new(OsStr::from_bytes(name)));
        Ok(names.filter_map(below).filter(|path| !path.is_root()).collect())
    }

    /// Compares what the run found with HEAD and the index, for the changed paths only.
    pub fn standing(&self, changes: &ChangeSet) -> Result<Standing, RepositoryError> {
        let mut standing = Standing::default();
        if changes.is_empty() {
            return Ok(standing);
        }
        let names: Vec<Vec<u8>> = changes.iter().map(|(path, _)| name_in_repository(&self.prefix, path)).collect();
        let (head, index) = (self.in_head(&names)?, self.in_index(&names)?);
        for ((path, change), name) in changes.iter().zip(&names) {
            if let Some(folder) = ancestors(name).find(|folder| {
                head.get(*folder).is_some_and(|at| at.mode == "160000") || index.submodules.contains(&folder.to_vec())
            }) {
                standing.in_submodule.push((path.clone(), String::from_utf8_lossy(folder).into_owned()));
                continue;
            }
            let (in_head, in_index) = (head.get(name), index.files.get(name));
            if in_head.is_none() && in_index.is_none() {
                continue;
            }
            let is_clean = in_head == in_index && in_head.is_some_and(|at| at.mode != "160000") && {
                let at = in_head.expect("one of two equal options is some");
                match mode(&change.before) {
                    None => false,
                    Some(mode) if mode != at.mode && (mode == "120000") != (at.mode == "120000") => false,
                    Some(mode) if mode != at.mode && self.minds_mode() => false,
                    Some(_) => {
                        let content = diff::text_of(&change.before);
                        self.format.blob(content) == at.object
                            || matches!(change.before, Entry::File { .. })
                                && self.blob(name, content, false)? == at.object
                    }
                }
            };
            if !is_clean {
                standing.dirty.push(path.clone());
            }
        }
        if !standing.dirty.is_empty() {
            self.forgive_filtered(&mut standing)?;
        }
        Ok(standing)
    }

    /// Removes paths that seem changed only because their filter did not run, if git recorded the file as unchanged.
    fn forgive_filtered(&self, standing: &mut Standing) -> Result<(), RepositoryError> {
        let names: Vec<Vec<u8>> = standing.dirty.iter().map(|path| name_in_repository(&self.prefix, path)).collect();
        let filtered = self.filtered(&names)?;
        if filtered.is_empty() {
            return Ok(());
        }
        let mut arguments: Vec<OsString> = ["diff-index", "-z", "--name-only", "HEAD", "--"].map(OsString::from).into();
        arguments.extend(filtered.keys().map(|name| OsString::from_vec(name.clone())));
        let changed = self.without_filters()?.env("GIT_LITERAL_PATHSPECS", "1").run(&arguments, b"")?;
        let changed: Vec<&[u8]> = changed.split(|byte| *byte == 0).collect();
        standing.dirty.retain(|path| {
            let name = name_in_repository(&self.prefix, path);
            !filtered.contains_key(&name) || changed.contains(&name.as_slice())
        });
        Ok(())
    }

    /// Returns the changed files that use a filter driver other than `lfs`, with its name. No run starts one, so it is
    /// unknown what git would store.
    pub fn filtered(&self, names: &[Vec<u8>]) -> Result<BTreeMap<Vec<u8>, String>, RepositoryError> {
        let drivers = self.drivers()?;
        if drivers.is_empty() {
            return Ok(BTreeMap::new());
        }
        let asked: Vec<u8> = names.iter().flat_map(|name| [name.as_slice(), b"\0"].concat()).collect();
        let answer = self.git().run(&["check-attr", "-z", "--stdin", "filter"], &asked)?;
        let words: Vec<&[u8]> = answer.split(|byte| *byte == 0).collect();
        let found = words.chunks_exact(3).map(|line| (line[0].to_vec(), String::from_utf8_lossy(line[2]).into_owned()));
        Ok(found.filter(|(_, driver)| drivers.contains(driver)).collect())
    }

    /// Returns the configured filter drivers that change what git stores, except `lfs`.
    fn drivers(&self) -> Result<BTreeSet<String>, GitError> {
        let keys = self.filter_keys()?.into_iter();
        Ok(keys.filter(|(_, name)| matches!(name.as_str(), "clean" | "process")).map(|(driver, _)| driver).collect())
    }

    /// Returns the configuration of filter drivers other than Git LFS: the driver, and the last part of the key. A
    /// driver that is only named `lfs` and starts something else counts as any other.
    fn filter_keys(&self) -> Result<Vec<(String, String)>, GitError> {
        let listed = match self.git().run(&["config", "-z", "--get-regexp", r"^filter\."], b"") {
            Ok(listed) => listed,
            // Without a message: there is none.
            Err(GitError::Failed { message, .. }) if message == "exit status: 1" => Vec::new(),
            Err(error) => return Err(error),
        };
        let settings: Vec<(String, String, String)> = listed
            .split(|byte| *byte == 0)
            .filter_map(|setting| {
                let setting = String::from_utf8_lossy(setting);
                let (key, value) = setting.split_once('\n').unwrap_or((&setting, ""));
                let (driver, name) = key.strip_prefix("filter.")?.rsplit_once('.')?;
                Some((driver.to_owned(), name.to_owned(), value.to_owned()))
            })
            .collect();
        let starts = |name: &str| matches!(name, "clean" | "smudge" | "process");
        let mut of_lfs = settings.iter().filter(|(driver, name, _)| driver == "lfs" && starts(name));
        let is_lfs = of_lfs.all(|(.., value)| drivers::is_lfs(value) && drivers::has_lfs(self));
        let keys = settings.into_iter().filter(|(driver, ..)| !(driver == "lfs" && is_lfs));
        Ok(keys.map(|(driver, name, _)| (driver, name)).collect())
    }

    /// Returns the blob that git would store for a file's bytes (line ends converted, LFS pointers made; no other
    /// filter runs), and writes it to `git`'s objects if asked.
    pub fn blob(&self, name: &[u8], content: &[u8], write: bool) -> Result<String, RepositoryError> {
        self.blob_by(&self.without_filters()?, name, content, write)
    }

    /// As [`Repository::blob`], by a git that [`Repository::without_filters`] returned.
    pub fn blob_by(&self, git: &Git, name: &[u8], content: &[u8], write: bool) -> Result<String, RepositoryError> {
        let mut path = OsString::from("--path=");
        path.push(OsStr::from_bytes(name));
        let mut arguments = vec![OsString::from("hash-object"), "--stdin".into(), path];
        if write {
            arguments.insert(1, "-w".into());
        }
        Ok(git.line(&arguments, content)?)
    }

    /// Returns git with every configured filter driver except `lfs` switched off.
    pub fn without_filters(&self) -> Result<Git, RepositoryError> {
        let mut git = self.git();
        for (driver, name) in self.filter_keys()? {
            let key = format!("filter.{driver}.{name}");
            match name.as_str() {
                "clean" | "smudge" | "process" => git = git.config(&key, ""),
                "required" => git = git.config(&key, "false"),
                _ => {}
            }
        }
        Ok(git)
    }

    /// Tells whether the executable bit of a file counts (`core.fileMode`): some file systems do not store it.
    pub fn minds_mode(&self) -> bool {
        let ask = || self.git().line(&["config", "--type=bool", "core.fileMode"], b"");
        self.file_mode.unwrap_or_else(|| ask().map_or(true, |value| value != "false"))
    }

    /// Returns those of these names that the index holds as executable files.
    pub fn executable_in_index(&self, names: &[Vec<u8>]) -> Result<BTreeSet<Vec<u8>>, RepositoryError> {
        let files = self.in_index(names)?.files.into_iter();
        Ok(files.filter(|(_, at)| at.mode == "100755").map(|(name, _)| name).collect())
    }

    fn in_head(&self, names: &[Vec<u8>]) -> Result<BTreeMap<Vec<u8>, TreeEntry>, RepositoryError> {
        let mut found = BTreeMap::new();
        let Some(head) = self.head_now()?.0 else { return Ok(found) };
        for chunk in with_ancestors(names).chunks(1000) {
            let mut arguments: Vec<OsString> = ["ls-tree", "-z", "--full-tree", &head, "--"].map(OsString::from).into();
            arguments.extend(chunk.iter().map(|name| OsString::from_vec(name.clone())));
            for line in self.git().run(&arguments, b"")?.split(|byte| *byte == 0) {
                let Some((meta, name)) = split_at_tab(line) else { continue };
                let mut words = meta.split(' ');
                let (Some(mode), _, Some(object)) = (words.next(), words.next(), words.next()) else { continue };
                if mode != "040000" {
                    found.insert(name.to_vec(), TreeEntry { mode: mode.to_owned(), object: object.to_owned() });
                }
            }
        }
        Ok(found)
    }

    fn in_index(&self, names: &[Vec<u8>]) -> Result<Index, RepositoryError> {
        let mut index = Index::default();
        let git = self.git().env("GIT_LITERAL_PATHSPECS", "1");
        for chunk in names.chunks(1000) {
            let mut arguments: Vec<OsString> =
                ["ls-files", "-z", "--stage", "--full-name", "--"].map(OsString::from).into();
            arguments.extend(chunk.iter().map(|name| OsString::from_vec(name.clone())));
            for line in git.run(&arguments, b"")?.split(|byte| *byte == 0) {
                let Some((meta, name)) = split_at_tab(line) else { continue };
                let words: Vec<&str> = meta.split(' ').collect();
                let [mode, object, stage] = words[..] else { continue };
                if mode == "160000" {
                    index.submodules.push(name.to_vec());
                }
                // An unmerged path equals nothing in HEAD.
                let mode = if stage == "0" { mode } else { "unmerged" };
                index.files.insert(name.to_vec(), TreeEntry { mode: mode.to_owned(), object: object.to_owned() });
            }
        }
        Ok(index)
    }
}

/// How the changed paths differ from HEAD and the index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// Tracked, and different from HEAD in the work tree or the index when the run found it. Untracked files are not
    /// dirty.
    pub dirty: Vec<RelPath>,
    /// In a submodule, with the submodule's name.
    pub in_submodule: Vec<(RelPath, String)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct TreeEntry {
    mode: String,
    object: String,
}

#[derive(Debug, Default)]
struct Index {
    files: BTreeMap<Vec<u8>, TreeEntry>,
    submodules: Vec<Vec<u8>>,
}

fn ancestors(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    name.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &name[..at])
}

fn with_ancestors(names: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = names.to_vec();
    all.extend(names.iter().flat_map(|name| ancestors(name).map(<[u8]>::to_vec)));
    all.sort();
    all.dedup();
    all
}

fn split_at_tab(line: &[u8]) -> Option<(&str, &[u8])> {
    let tab = line.iter().position(|byte| *byte == b'\t')?;
    Some((std::str::from_utf8(&line[..tab]).ok()?, &line[tab + 1..]))
}

fn is_object(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn linked_git_dir(top: &Path, dot_git: &Path) -> Result<PathBuf, RepositoryError> {
    let text = bounded::optional(bounded::regular(dot_git, SMALL))
        .map_err(|cause| RepositoryError::Io { path: dot_git.into(), cause })?;
    let text = text.unwrap_or_default();
    let path = text.strip_prefix(b"gitdir: ").ok_or_else(|| RepositoryError::Damaged {
        path: dot_git.into(),
        reason: "it does not contain `gitdir: PATH`".to_owned(),
    })?;
    let git_dir = top.join(OsStr::from_bytes(path.trim_ascii_end()));
    git_dir.canonicalize().map_err(|cause| RepositoryError::Io { path: git_dir, cause })
}

/// Fails where git itself would wait for a pipe, or read from a device without an end.
fn can_be_read(git_dir: &Path, common_dir: &Path) -> Result<(), RepositoryError> {
    let own = ["HEAD", "index"].map(|name| git_dir.join(name));
    let common = ["packed-refs", "info/exclude", "info/attributes"].map(|name| common_dir.join(name));
    for path in own.into_iter().chain(common) {
        match bounded::optional(bounded::require_regular(&path)) {
            Err(cause) if cause.kind() == io::ErrorKind::Other => return Err(RepositoryError::Io { path, cause }),
            // Whatever else is wrong with it, git says so.
            Ok(_) | Err(_) => {}
        }
    }
    Ok(())
}

/// Looks at a path without following its last part; `None` if nothing is there. A failure is an error, not `None`.
fn look(path: PathBuf) -> Result<Option<std::fs::Metadata>, RepositoryError> {
    match path.symlink_metadata() {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(cause) => Err(RepositoryError::Io { path, cause }),
    }
}

/// Maximum bytes of a small file of git's that are read.
pub(super) const SMALL: u64 = 16 << 20;

/// Maximum bytes of the packed references.
const LARGE: u64 = 512 << 20;

/// The configuration of the repository's layout.
struct Probe {
    format: ObjectFormat,
    is_plain: bool,
    is_bare: bool,
    has_files_for_references: bool,
    file_mode: Option<bool>,
    work_tree: Option<String>,
}

impl Probe {
    /// Reads the few keys that change the layout. They count only in this file, not in files that it includes.
    fn read(common_dir: &Path) -> Result<Probe, RepositoryError> {
        let path = common_dir.join("config");
        let mut probe = Probe {
            format: ObjectFormat::Sha1,
            is_plain: true,
            is_bare: false,
            has_files_for_references: true,
            file_mode: None,
            work_tree: None,
        };
        let damaged =
            |error: git2::Error| RepositoryError::Damaged { path: path.clone(), reason: error.message().to_owned() };
        match bounded::optional(bounded::regular(&path, SMALL)) {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(probe),
            Err(cause) => return Err(RepositoryError::Io { path, cause }),
        }
        let config = git2::Config::open(&path).map_err(damaged)?;
        let entries = config.entries(None).map_err(damaged)?;
        entries
            .for_each(|entry| {
                if entry.include_depth() == 0 {
                    let name = String::from_utf8_lossy(entry.name_bytes()).to_ascii_lowercase();
                    let value = entry.has_value().then(|| String::from_utf8_lossy(entry.value_bytes()).into_owned());
                    probe.take(&name, value.as_deref());
                }
            })
            .map_err(damaged)?;
        Ok(probe)
    }

    /// Reads one setting; one without a value means yes.
    fn take(&mut self, name: &str, value: Option<&str>) {
        let is_on = value.is_none_or(|value| git2::Config::parse_bool(value).unwrap_or(true));
        let path = value.map(str::to_owned);
        let value = value.unwrap_or("true").to_ascii_lowercase();
        match name {
            "extensions.objectformat" if value == "sha256" => {
                (self.format, self.is_plain) = (ObjectFormat::Sha256, false);
            }
            "extensions.refstorage" if value != "files" => {
                (self.has_files_for_references, self.is_plain) = (false, false);
            }
            "extensions.noop" | "extensions.noop-v1" | "extensions.preciousobjects" => {}
            "extensions.objectformat" | "extensions.refstorage" => {}
            "core.bare" => self.is_bare = is_on,
            "core.filemode" => self.file_mode = Some(is_on),
            "core.worktree" => (self.is_plain, self.work_tree) = (false, path),
            "core.sparsecheckout" | "index.sparse" | "core.splitindex" if is_on => self.is_plain = false,
            other if other.starts_with("extensions.") => self.is_plain = false,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(folder: &Path, script: &str) -> String {
        crate::workspace::test_support::sh(folder, script).trim_end().to_owned()
    }

    /// This reader must agree with git in every state of the repository.
    #[test]
    fn the_facts_are_those_that_git_tells() {
        const COMMIT: &str = "printf x >a; git add a; git commit -qm x";
        let states = [
            ("git init -q -b main", ".", true),
            (&format!("git init -q -b main; {COMMIT}"), ".", true),
            (&format!("git init -q -b main; {COMMIT}; git checkout -qb feature/x; git pack-refs --all"), ".", true),
            (&format!("git init -q -b main; {COMMIT}; git checkout -q --detach; mkdir -p d/e"), "d/e", true),
            (&format!("git init -q -b main; {COMMIT}; git worktree add -q -b other w"), "w", true),
            (&format!("git init -q -b main; {COMMIT}; git init -q -b s sub; cd sub; {COMMIT}"), "sub", true),
            (&format!("git init -q -b main --object-format=sha256; {COMMIT}"), ".", false),
            (&format!("git init -q -b main --ref-format=reftable; {COMMIT}"), ".", false),
            ("git init -q -b main --ref-format=reftable", ".", false),
            (&format!("git init -q -b main; {COMMIT}; git sparse-checkout set x"), ".", false),
            (&format!("git init -q -b main; {COMMIT}; git update-index --split-index"), ".", false),
            (
                &format!(
                    "git init -q -b main; {COMMIT}; git symbolic-ref refs/heads/alias refs/heads/main; git checkout -q alias"
                ),
                ".",
                true,
            ),
        ];
        for (script, at, is_plain) in states {
            let folder = tempfile::tempdir().unwrap();
            let top = folder.path().canonicalize().unwrap();
            sh(&top, script);
            let root = top.join(at).canonicalize().unwrap();
            let found = Repository::discover(&root).unwrap().unwrap();
            let asked = |command: &str| sh(&root, &format!("{command} 2>/dev/null || true"));
            assert_eq!(found.head.clone().unwrap_or_default(), asked("git rev-parse -q --verify HEAD"), "{script}");
            assert_eq!(found.branch.clone().unwrap_or_default(), asked("git symbolic-ref -q --short HEAD"), "{script}");
            assert_eq!(found.git_dir, Path::new(&asked("git rev-parse --absolute-git-dir")), "{script}");
            assert_eq!(found.top, Path::new(&asked("git rev-parse --show-toplevel")), "{script}");
            let prefix = if found.prefix.is_root() { String::new() } else { format!("{}/", found.prefix) };
            assert_eq!(prefix, asked("git rev-parse --show-prefix"), "{script}");
            assert_eq!(found.is_plain, is_plain, "{script}");
        }
    }

    #[test]
    fn where_no_work_tree_is_there_is_no_repository() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        assert_eq!(Repository::discover(&top).unwrap(), None);
        sh(&top, "git init -q --bare bare.git; mkdir -p fake/.git inner");
        assert_eq!(Repository::discover(&top.join("fake")).unwrap(), None);
        std::fs::write(top.join("inner/.git"), "gitdir: ../nowhere\n").unwrap();
        assert!(Repository::discover(&top.join("inner")).is_err());
        std::fs::write(top.join("inner/.git"), "nonsense").unwrap();
        assert!(Repository::discover(&top.join("inner")).is_err());
    }

    /// A comment after a value, and settings that only an included file makes.
    #[test]
    fn the_configuration_is_read_as_git_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        sh(&top, "git init -q -b main; printf '[core]\\n\\tbare = true\\n' > more");
        for (text, is_work_tree) in [
            ("[core]\n\tbare = false ; comment\n", true),
            ("[core] bare = false # comment\n", true),
            ("[CORE]\n\tBare = \"fal\"se\n", true),
            ("[core]\n\tbare = fal\\\nse\n", true),
            ("[include]\n\tpath = ../more\n", true),
            ("[core \"x\"]\n\tbare = true\n", true),
            ("[core]\n\tbare\n", false),
            ("[core]\n\tbare = on ; comment\n", false),
        ] {
            std::fs::write(top.join(".git/config"), text).unwrap();
            assert_eq!(Repository::discover(&top).unwrap().is_some(), is_work_tree, "{text}");
        }
        std::fs::write(top.join(".git/config"), "[core\n").unwrap();
        assert!(matches!(Repository::discover(&top), Err(RepositoryError::Damaged { .. })));
        std::fs::remove_file(top.join(".git/config")).unwrap();
        sh(&top, "mkfifo .git/config");
        assert!(matches!(Repository::discover(&top), Err(RepositoryError::Io { .. })));
    }

    #[test]
    fn a_git_directory_on_the_way_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        sh(
            &top,
            "git init -q -b main; git init -q --bare docs/ex; mkdir -p docs/ex/a docs/plain; git init -q w; cd w; git commit -q --allow-empty -m x; git worktree add -q ../v; mkdir -p ../docs/linked; cp ../w/.git/worktrees/v/HEAD ../w/.git/worktrees/v/commondir ../docs/linked",
        );
        for at in ["docs/ex", "docs/ex/a", "docs/linked", ".git", ".git/refs"] {
            let found = Repository::discover(&top.join(at));
            assert!(matches!(found, Err(RepositoryError::Bare { .. })), "{at}: {found:?}");
        }
        assert!(Repository::discover(&top.join("docs/plain")).unwrap().is_some());
        std::fs::remove_dir_all(top.join("docs/ex/objects")).unwrap();
        assert!(Repository::discover(&top.join("docs/ex")).unwrap().is_some(), "git passes it over, too");
    }
}
