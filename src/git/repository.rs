//! Describes the repository of the workspace: where it is, what HEAD names, which paths a person has changed.
//!
//! The facts that every run needs are read from a few small files without a process; git is asked about unusual ones.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::ownership::{has_shared_index, is_of};
use super::{Git, GitError, Programs, pipes};
use crate::bounded;
use crate::change::layout;
use crate::change::patch::ObjectFormat;
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
    /// The git directory does not say that it belongs to this work tree.
    #[error("{path}: it leads to {git_dir}, which does not name {} as its work tree", path.parent().unwrap_or(path).display())]
    Foreign {
        /// Where.
        path: PathBuf,
        /// Where it leads.
        git_dir: PathBuf,
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
            RepositoryError::Foreign { .. } => {
                "if it belongs to this directory, record that there: `git config core.worktree DIRECTORY` (a linked work tree that was moved: `git worktree repair`)"
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
    /// Finds the repository that holds a canonical directory, to be worked on with these programs; `None` if the
    /// directory is in no work tree.
    ///
    /// A directory on the way that is laid out like a git directory is an error: git would use it and its
    /// configuration.
    pub fn find(root: &Path, programs: &Programs) -> Result<Option<Repository>, RepositoryError> {
        for top in root.ancestors() {
            let dot_git = top.join(".git");
            match dot_git.metadata() {
                Ok(metadata) if metadata.is_dir() => match look(dot_git.join("HEAD"))? {
                    Some(head) if !head.is_dir() => {
                        return Repository::at(top, dot_git, root, programs);
                    }
                    Some(_) | None => {}
                },
                Ok(_) => return Repository::at(top, linked_git_dir(top, &dot_git)?, root, programs),
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
                Err(cause) => return Err(RepositoryError::Io { path: dot_git, cause }),
            }
            if layout::is_git_directory(|name: &str| Ok::<_, RepositoryError>(look(top.join(name))?.is_some()))? {
                return Err(RepositoryError::Bare { path: top.to_path_buf() });
            }
        }
        Ok(None)
    }

    /// Opens it for libgit2, which starts no program; nothing but this git directory is looked for.
    pub(super) fn library(&self) -> Result<git2::Repository, git2::Error> {
        let none: [&OsStr; 0] = [];
        git2::Repository::open_ext(&self.git_dir, git2::RepositoryOpenFlags::NO_SEARCH, none)
    }

    fn at(
        top: &Path,
        git_dir: PathBuf,
        root: &Path,
        programs: &Programs,
    ) -> Result<Option<Repository>, RepositoryError> {
        let common_dir = match bounded::optional(bounded::regular(&git_dir.join("commondir"), SMALL)) {
            Ok(Some(path)) => git_dir.join(OsStr::from_bytes(path.trim_ascii_end())),
            Ok(None) => git_dir.clone(),
            Err(cause) => return Err(RepositoryError::Io { path: git_dir.join("commondir"), cause }),
        };
        let common_dir = common_dir.canonicalize().unwrap_or(common_dir);
        let Some(prefix) = RelPath::below(top, root) else { return Ok(None) };
        if let Some((path, cause)) = pipes::first(&git_dir, &common_dir) {
            return Err(RepositoryError::Io { path, cause });
        }
        let probe = Probe::read(&git_dir, &common_dir)?;
        if !is_of(top, &git_dir, &common_dir, probe.work_tree.as_deref()) {
            return Err(RepositoryError::Foreign { path: top.join(".git"), git_dir });
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
            programs: programs.clone(),
            git_dir,
        };
        (repository.head, repository.branch) = repository.read_head(probe.has_files_for_references)?;
        Ok(Some(repository))
    }

    /// Returns git in the top of the work tree.
    pub fn git(&self) -> Git {
        Git::with(&self.programs, &self.top)
    }

    /// Returns the directory of the objects.
    pub fn objects(&self) -> PathBuf {
        self.common_dir.join("objects")
    }

    /// Reads HEAD again, as it is now: the commit and the branch.
    pub fn head_now(&self) -> Result<(Option<String>, Option<String>), RepositoryError> {
        self.read_head(Probe::read(&self.git_dir, &self.common_dir)?.has_files_for_references)
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

    /// Returns the tracked paths of the workspace, relative to it.
    pub fn tracked(&self) -> Result<Vec<RelPath>, RepositoryError> {
        let mut arguments: Vec<OsString> = ["ls-files", "-z", "--cached", "--"].map(OsString::from).into();
        if !self.prefix.is_root() {
            arguments.push(self.prefix.to_os_string());
        }
        let names = self.git().run(&arguments, b"")?;
        let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        let below = |name| RelPath::below(self.prefix.as_path(), Path::new(OsStr::from_bytes(name)));
        Ok(names.filter_map(below).filter(|path| !path.is_root()).collect())
    }

    /// Tells whether the executable bit of a file counts (`core.fileMode`): some file systems do not store it.
    pub fn minds_mode(&self) -> bool {
        let ask = || self.git().line(&["config", "--type=bool", "core.fileMode"], b"");
        self.file_mode.unwrap_or_else(|| ask().map_or(true, |value| value != "false"))
    }
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
    /// Whether a work tree has settings of its own.
    has_own_settings: bool,
    file_mode: Option<bool>,
    work_tree: Option<String>,
}

impl Probe {
    /// Reads the few keys that change the layout. They count only in these files, not in files that they include.
    fn read(git_dir: &Path, common_dir: &Path) -> Result<Probe, RepositoryError> {
        let mut probe = Probe {
            format: ObjectFormat::Sha1,
            is_plain: true,
            is_bare: false,
            has_files_for_references: true,
            has_own_settings: false,
            file_mode: None,
            work_tree: None,
        };
        probe.take_all(common_dir.join("config"))?;
        if probe.has_own_settings {
            probe.take_all(git_dir.join("config.worktree"))?;
        }
        Ok(probe)
    }

    fn take_all(&mut self, path: PathBuf) -> Result<(), RepositoryError> {
        let damaged =
            |error: git2::Error| RepositoryError::Damaged { path: path.clone(), reason: error.message().to_owned() };
        match bounded::optional(bounded::regular(&path, SMALL)) {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(()),
            Err(cause) => return Err(RepositoryError::Io { path, cause }),
        }
        if let Some((path, cause)) = pipes::included(&path) {
            return Err(RepositoryError::Io { path, cause });
        }
        let config = git2::Config::open(&path).map_err(damaged)?;
        let entries = config.entries(None).map_err(damaged)?;
        entries
            .for_each(|entry| {
                if entry.include_depth() == 0 {
                    let name = String::from_utf8_lossy(entry.name_bytes()).to_ascii_lowercase();
                    let value = entry.has_value().then(|| String::from_utf8_lossy(entry.value_bytes()).into_owned());
                    self.take(&name, value.as_deref());
                }
            })
            .map_err(damaged)
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
            "extensions.worktreeconfig" if is_on => (self.is_plain, self.has_own_settings) = (false, true),
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
            ("[include]\n\tpath = /dev/null\n[core]\n\thooksPath = /dev/null\n", true),
            ("[core]\n\tbare\n", false),
            ("[core]\n\tbare = on ; comment\n", false),
        ] {
            std::fs::write(top.join(".git/config"), text).unwrap();
            assert_eq!(Repository::discover(&top).unwrap().is_some(), is_work_tree, "{text}");
        }
        sh(&top, "mkfifo pipe; printf '[include]\\npath = pipe\\n' > more");
        for text in [
            "[include]\n\tpath = ../pipe\n",
            "[Include] PATH=\"../pi\"pe ; comment\n",
            "[include]\n\tpath = ../pi\\\npe\n",
            "[include]\n\tpath = ../more\n",
            "[includeIf \"gitdir:/\"]\n\tpath = ../pipe # comment\n",
            "[includeIf \"gitdir:/a=b\"] path = ../pipe\n",
        ] {
            std::fs::write(top.join(".git/config"), text).unwrap();
            let found = Repository::discover(&top);
            assert!(matches!(found, Err(RepositoryError::Io { .. })), "{text}: {found:?}");
        }
        std::fs::write(top.join(".git/config"), "[core\n").unwrap();
        assert!(matches!(Repository::discover(&top), Err(RepositoryError::Damaged { .. })));
        std::fs::remove_file(top.join(".git/config")).unwrap();
        sh(&top, "mkfifo .git/config");
        assert!(matches!(Repository::discover(&top), Err(RepositoryError::Io { .. })));
        sh(&top, "rm .git/config; mkdir -p .git/objects/aa; mkfifo .git/objects/aa/1");
        assert!(matches!(Repository::discover(&top), Err(RepositoryError::Io { .. })));
        let borrowed = "rm .git/objects/aa/1; mkdir -p a/objects/info b/objects/bb; mkfifo b/objects/bb/2; \
            echo ../../a/objects > .git/objects/info/alternates; echo ../../b/objects > a/objects/info/alternates";
        sh(&top, borrowed);
        assert!(matches!(Repository::discover(&top), Err(RepositoryError::Io { .. })));
        sh(&top, "rm b/objects/bb/2");
        assert!(Repository::discover(&top).unwrap().is_some());
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
