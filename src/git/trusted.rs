//! Reads files of a checkout that are trusted: from a commit, by git's plumbing, or approved by their hashes.

#![expect(clippy::disallowed_methods, reason = "approvals are kept and taken back here")]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{Git, GitError};
use crate::base::digest::{hex, sha256};
use crate::bounded;
use crate::checkouts::Around;
use crate::policy::trust::Approval;

/// The largest file that is read from a commit.
const LARGEST: usize = 1 << 20;

/// Maximum files and bytes that an approval covers, so that a checkout cannot keep this process busy.
const MOST_FILES: usize = 2_000;
const MOST_BYTES: u64 = 64 << 20;

/// The tree of a trusted commit.
#[derive(Debug, Clone)]
pub struct TrustedTree {
    git: Git,
    /// The commit's full name.
    pub commit: String,
    /// Why this commit is trusted, for people.
    pub why: String,
}

/// Why a trusted file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TrustedError {
    /// The clone does not hold the commit.
    #[error("the trusted ref {revision} is not in this clone")]
    Missing {
        /// What was asked for.
        revision: String,
    },
    /// The file cannot be used.
    #[error("{path} in the trusted commit {reason}")]
    Unfit {
        /// The path below the top directory.
        path: String,
        /// Why.
        reason: String,
    },
    /// Git failed.
    #[error(transparent)]
    Git(#[from] GitError),
}

impl TrustedTree {
    /// Finds the commit in the repository with this top directory.
    pub fn find(top: &Path, revision: &str, why: &str) -> Result<TrustedTree, TrustedError> {
        let git = Git::new(top);
        let asked = [OsString::from("rev-parse"), "-q".into(), "--verify".into(), "--end-of-options".into()];
        let asked = [&asked[..], &[format!("{revision}^{{commit}}").into()]].concat();
        match git.line(&asked, b"") {
            Ok(commit) => Ok(TrustedTree { git, commit, why: why.to_owned() }),
            Err(GitError::Failed { .. }) => Err(TrustedError::Missing { revision: revision.to_owned() }),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the name that messages give to a file of this tree.
    pub fn name_of(&self, path: &str) -> String {
        format!("{path}@{}", &self.commit[..self.commit.len().min(12)])
    }

    /// Reads a file by its path below the top directory; `None` where there is none. A link is refused, not followed.
    pub fn read(&self, path: &str) -> Result<Option<Vec<u8>>, TrustedError> {
        let entries = self.entries(path, false)?;
        let Some(entry) = entries.into_iter().find(|entry| entry.path == path) else { return Ok(None) };
        let unfit = |reason: &str| TrustedError::Unfit { path: path.to_owned(), reason: reason.to_owned() };
        match entry.mode.as_str() {
            "100644" | "100755" => {}
            "040000" => return Ok(None),
            _ => return Err(unfit("is a link or a submodule, not a file")),
        }
        if entry.size.is_none_or(|size| size > LARGEST) {
            return Err(unfit("is larger than 1 MiB"));
        }
        Ok(Some(self.git.run(&["cat-file", "blob", &entry.object], b"")?))
    }

    /// Reads a text; `None` where there is none.
    pub fn read_text(&self, path: &str) -> Result<Option<String>, TrustedError> {
        let unfit = |_| TrustedError::Unfit { path: path.to_owned(), reason: "is not UTF-8".to_owned() };
        self.read(path)?.map(|bytes| String::from_utf8(bytes).map_err(unfit)).transpose()
    }

    /// Returns the paths of the files below a directory, sorted; links and submodules are left out.
    pub fn files_below(&self, folder: &str) -> Result<Vec<String>, TrustedError> {
        let files = self.entries(folder, true)?.into_iter().filter(|entry| entry.mode.starts_with("100"));
        let below = |path: &str| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
        let mut paths: Vec<String> = files.map(|entry| entry.path).filter(|path| below(path)).collect();
        paths.sort();
        Ok(paths)
    }

    /// Returns the names of the files in a directory, the top one if it is empty; links and submodules are left out.
    pub fn names_in(&self, folder: &str) -> Result<Vec<String>, TrustedError> {
        let inside = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let path = if inside.is_empty() { "." } else { inside.as_str() };
        let files = self.entries(path, false)?.into_iter().filter(|entry| entry.mode.starts_with("100"));
        Ok(files.filter_map(|entry| entry.path.strip_prefix(&inside).map(str::to_owned)).collect())
    }

    /// Reads every file of this name, anywhere, by its directory below the top one.
    pub fn every(&self, name: &str) -> Result<BTreeMap<String, Vec<u8>>, TrustedError> {
        let listed = self.git.run(&["ls-tree", "-z", "--full-tree", "-l", "-r", self.commit.as_str()], b"")?;
        let entries =
            listed.split(|byte| *byte == 0).filter(|line| line.ends_with(name.as_bytes())).filter_map(Entry::read);
        let mut found = BTreeMap::new();
        for entry in entries {
            let folder = match entry.path.rsplit_once('/') {
                Some((folder, last)) if last == name => folder,
                None if entry.path == name => "",
                Some(_) | None => continue,
            };
            if let Some(bytes) = self.read(&entry.path)? {
                found.insert(folder.to_owned(), bytes);
            }
        }
        Ok(found)
    }

    /// Tells whether something other than a directory is at a path.
    pub fn has(&self, path: &str) -> Result<bool, TrustedError> {
        Ok(self.entries(path, false)?.iter().any(|entry| entry.path == path && entry.mode != "040000"))
    }

    /// Returns the object names of the files at these paths and below them, by path. Links and submodules are included
    /// without a name.
    fn objects(&self, paths: &[&str]) -> Result<BTreeMap<String, String>, TrustedError> {
        let mut arguments = vec!["ls-tree", "-z", "--full-tree", "-l", "-r", self.commit.as_str(), "--"];
        arguments.extend(paths);
        let listed = self.git.run(&arguments, b"")?;
        let entries = listed.split(|byte| *byte == 0).filter_map(Entry::read);
        Ok(entries
            .map(|entry| match entry.mode.starts_with("100") {
                true => (entry.path, entry.object),
                false => (entry.path, String::new()),
            })
            .collect())
    }

    /// Tells which of these files on disk are identical to those of the commit; filters are not applied.
    pub fn same_as(&self, top: &Path, paths: &[String]) -> Result<BTreeSet<String>, TrustedError> {
        let wanted: Vec<&str> = paths.iter().map(String::as_str).collect();
        if wanted.is_empty() {
            return Ok(BTreeSet::new());
        }
        let objects = self.objects(&wanted)?;
        let mut same = BTreeSet::new();
        for path in paths {
            let is_same = match (objects.get(path), std::fs::symlink_metadata(top.join(path))) {
                (Some(object), Ok(data)) if data.is_file() && data.len() <= MOST_BYTES => {
                    let bytes = bounded::regular(&top.join(path), MOST_BYTES).unwrap_or_default();
                    let arguments = ["hash-object", "-t", "blob", "--no-filters", "--stdin"];
                    self.git.line(&arguments, &bytes)? == *object
                }
                (Some(_) | None, _) => false,
            };
            if is_same {
                same.insert(path.clone());
            }
        }
        Ok(same)
    }

    fn entries(&self, path: &str, recursive: bool) -> Result<Vec<Entry>, TrustedError> {
        let mut arguments = vec!["ls-tree", "-z", "--full-tree", "-l"];
        if recursive {
            arguments.push("-r");
        }
        arguments.extend([self.commit.as_str(), "--", path]);
        let listed = self.git.run(&arguments, b"")?;
        Ok(listed.split(|byte| *byte == 0).filter_map(Entry::read).collect())
    }
}

/// Tells whether a commit or the index of the repository contains this path, or a submodule on the way to it: then it
/// came with the checkout. The job itself created anything else.
pub fn came_with_checkout(top: &Path, path: &str) -> Result<bool, TrustedError> {
    let git = Git::new(top);
    let parts: Vec<&str> = path.split('/').collect();
    let on_the_way: Vec<String> = (1..=parts.len()).map(|count| parts[..count].join("/")).collect();
    let mut indexed = vec!["ls-files", "-z", "--stage", "--"];
    indexed.extend(on_the_way.last().map(String::as_str));
    if !git.run(&indexed, b"")?.is_empty() {
        return Ok(true);
    }
    match git.line(&["rev-parse", "-q", "--verify", "HEAD^{commit}"], b"") {
        Ok(_) => {}
        Err(GitError::Failed { .. }) => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    let mut arguments = vec!["ls-tree", "-z", "--full-tree", "-l", "HEAD", "--"];
    arguments.extend(on_the_way.iter().map(String::as_str));
    let listed = git.run(&arguments, b"")?;
    let mut entries = listed.split(|byte| *byte == 0).filter_map(Entry::read);
    Ok(entries.any(|entry| entry.mode != "040000"))
}

/// Tells whether a canonical directory is in a checkout that holds the workspace, and one of these names came with that
/// checkout. What cannot be found out counts as a yes.
pub fn committed_in_checkout(around: &Around, directory: &Path, names: &[&str]) -> bool {
    let mut tops = around.checkouts.iter().filter_map(|top| Some((top, directory.strip_prefix(top).ok()?)));
    tops.any(|(top, below)| {
        names.iter().any(|name| match below.join(name).to_str() {
            Some(path) => came_with_checkout(top, path).unwrap_or(true),
            None => true,
        })
    })
}

/// Tells whether the git configuration in the home, or in `configuration` (`XDG_CONFIG_HOME`), came with a checkout that
/// holds the workspace: then it is not the user's.
pub fn configuration_came_along(around: &Around, configuration: Option<&Path>) -> bool {
    let came_along = |directory: Option<&Path>, names: &[&str]| {
        directory.is_some_and(|directory| committed_in_checkout(around, directory, names))
    };
    let configuration = configuration.map(|path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf()));
    came_along(around.home.as_deref(), &[".gitconfig", ".config/git"]) || came_along(configuration.as_deref(), &["git"])
}

struct Entry {
    mode: String,
    object: String,
    size: Option<usize>,
    path: String,
}

impl Entry {
    fn read(line: &[u8]) -> Option<Entry> {
        let (meta, path) = std::str::from_utf8(line).ok()?.split_once('\t')?;
        let words: Vec<&str> = meta.split_whitespace().collect();
        let [mode, _, object, size] = words[..] else { return None };
        Some(Entry { mode: mode.into(), object: object.into(), size: size.parse().ok(), path: path.into() })
    }
}

/// Hashes what an approval covers: `.qwen/**`, `.mcp.json` and `.env` of the top directory, and of each directory down
/// to the workspace. A link, or too much, is an error.
pub fn fingerprint(top: &Path, workspace: &Path) -> io::Result<Approval> {
    let mut found = Approval { checkout: top.display().to_string(), ..Approval::default() };
    let mut bytes_left = MOST_BYTES;
    let folders = workspace.ancestors().take_while(|folder| folder.starts_with(top));
    for folder in folders {
        for name in [".qwen", ".mcp.json", ".env"] {
            add(top, &folder.join(name), &mut found, &mut bytes_left)?;
        }
    }
    Ok(found)
}

/// Adds a file or directory to an approval.
pub fn add_to(approval: &mut Approval, top: &Path, path: &Path) -> io::Result<()> {
    add(top, path, approval, &mut { MOST_BYTES })
}

fn add(top: &Path, path: &Path, found: &mut Approval, bytes_left: &mut u64) -> io::Result<()> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let metadata = match path.symlink_metadata() {
        Ok(metadata) => metadata,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(()),
        Err(error) => return Err(named(error)),
    };
    let refused = |why: &str| Err(io::Error::other(format!("{} {why}", path.display())));
    if metadata.is_dir() {
        for entry in std::fs::read_dir(path).map_err(named)? {
            add(top, &entry.map_err(named)?.path(), found, bytes_left)?;
        }
        return Ok(());
    }
    if !metadata.is_file() {
        return refused("is not a regular file: only regular files can be approved");
    }
    if found.files.len() >= MOST_FILES || metadata.len() > *bytes_left {
        return refused("is over the limit of files or bytes");
    }
    *bytes_left -= metadata.len();
    let mut hash = Sha256::new();
    let mut file = std::fs::File::open(path).map_err(named)?.take(metadata.len());
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer).map_err(named)? {
            0 => break,
            count => hash.update(&buffer[..count]),
        }
    }
    let digest = hex(&hash.finalize());
    let name = path.strip_prefix(top).unwrap_or(path).display().to_string();
    found.files.insert(name, digest);
    Ok(())
}

/// Returns the file of a checkout's approval below the state directory.
pub fn approval_file(state: &Path, top: &Path) -> PathBuf {
    state.join("trust").join(format!("{}.json", sha256(top.as_os_str().as_bytes())))
}

/// Reads an approval; `None` if there is none, or the file is not an approval.
pub fn read_approval(file: &Path) -> Option<Approval> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = file.symlink_metadata().ok()?;
    let is_ours = metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & 0o022 == 0;
    if !metadata.is_file() || !is_ours {
        return None;
    }
    serde_json::from_slice(&bounded::regular(file, bounded::PRODUCT).ok()?).ok()
}

/// Stores an approval, readable by its owner alone.
pub fn write_approval(file: &Path, approval: &Approval) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // A temporary file of this crate is made with mode 0600.
    let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
    temporary.write_all(&serde_json::to_vec_pretty(approval).map_err(io::Error::other)?)?;
    temporary.as_file().sync_all()?;
    temporary.persist(file).map_err(|error| error.error)?;
    Ok(())
}

/// Removes an approval; tells whether there was one.
pub fn remove_approval(file: &Path) -> io::Result<bool> {
    match std::fs::remove_file(file) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        (folder, top)
    }

    fn write(top: &Path, path: &str, text: &str) {
        std::fs::create_dir_all(top.join(path).parent().unwrap()).unwrap();
        std::fs::write(top.join(path), text).unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_looked_at_is_named() {
        let (_folder, top) = folder();
        let long = top.join("x".repeat(300));
        let error = fingerprint(&top, &long).unwrap_err();
        assert!(error.to_string().starts_with(&format!("{}: ", long.join(".qwen").display())), "{error}");
    }

    fn commit(top: &Path) {
        let git = Git::new(top)
            .with_filters_off()
            .env("GIT_AUTHOR_NAME", "A")
            .env("GIT_AUTHOR_EMAIL", "a@e")
            .env("GIT_COMMITTER_NAME", "A")
            .env("GIT_COMMITTER_EMAIL", "a@e");
        git.run(&["init", "-q", "-b", "main"], b"").unwrap();
        git.run(&["add", "-A"], b"").unwrap();
        git.run(&["commit", "-qm", "x"], b"").unwrap();
    }

    #[test]
    fn a_file_comes_from_the_commit_and_not_from_the_tree() {
        let (_folder, top) = folder();
        write(&top, ".qwen/policy.yaml", "trusted");
        write(&top, ".qwen/recipes/a.yaml", "a");
        std::os::unix::fs::symlink("/etc/passwd", top.join(".qwen/link")).unwrap();
        commit(&top);
        write(&top, ".qwen/policy.yaml", "hostile");
        write(&top, ".qwen/new", "hostile");
        let tree = TrustedTree::find(&top, "HEAD", "a test").unwrap();
        assert_eq!(tree.read_text(".qwen/policy.yaml").unwrap().as_deref(), Some("trusted"));
        assert_eq!(tree.read(".qwen/new").unwrap(), None);
        assert_eq!(tree.read(".qwen").unwrap(), None);
        assert!(tree.read(".qwen/link").is_err());
        assert_eq!(tree.files_below(".qwen").unwrap(), [".qwen/policy.yaml", ".qwen/recipes/a.yaml"]);
        assert_eq!(tree.files_below(".qwen/rec").unwrap(), [] as [&str; 0]);
    }

    #[test]
    fn what_is_not_there_or_no_revision_is_missing() {
        let (_folder, top) = folder();
        write(&top, "a", "a");
        commit(&top);
        for revision in ["refs/remotes/origin/main", "0123456789012345678901234567890123456789", "--all", "HEAD:a", ""]
        {
            let found = TrustedTree::find(&top, revision, "");
            assert!(matches!(found, Err(TrustedError::Missing { .. })), "{revision}: {found:?}");
        }
    }

    #[test]
    fn an_approval_is_kept_for_its_owner_alone_and_read_again() {
        use std::os::unix::fs::PermissionsExt as _;
        let (_folder, top) = folder();
        write(&top, ".qwen/a/b", "1");
        write(&top, "sub/.env", "X=1");
        write(&top, "other/.env", "X=1");
        let approval = fingerprint(&top, &top.join("sub")).unwrap();
        let names: Vec<&String> = approval.files.keys().collect();
        assert_eq!(names, [".qwen/a/b", "sub/.env"]);
        let file = approval_file(&top.join("state"), &top);
        write_approval(&file, &approval).unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(read_approval(&file), Some(approval.clone()));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(read_approval(&file), None);
        assert!(remove_approval(&file).unwrap());
        write(&top, ".qwen/a/b", "2");
        assert_eq!(approval.changed(&fingerprint(&top, &top.join("sub")).unwrap()), [".qwen/a/b"]);
    }

    #[test]
    fn a_link_cannot_be_approved() {
        let (_folder, top) = folder();
        std::fs::create_dir(top.join(".qwen")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", top.join(".qwen/settings.json")).unwrap();
        assert!(fingerprint(&top, &top).unwrap_err().to_string().contains("regular file"));
    }
}
