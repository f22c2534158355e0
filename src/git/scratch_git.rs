//! Creates a git directory for the command workspace: it has the real history, and its own writes are discarded with
//! the run.
//!
//! Objects are read from the real repository; index, references and new objects are private. Of the configuration only
//! the keys that decide how files are read are copied: others can hold tokens or name programs to run.

#![expect(clippy::disallowed_methods, reason = "the command workspace gets its git directory here")]

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::repository::Repository;
use super::{Git, GitError, commits_only};
use crate::bounded;
use crate::change::layout;

/// How long it may take to find out whether a repository has its whole history itself.
const OWN_HISTORY: Duration = Duration::from_secs(5);

/// How long it may take to copy the history of a repository that borrows its objects.
const COPY: Duration = Duration::from_secs(60);

/// How many directories deep git keeps objects and their lists.
const OBJECTS_DEPTH: usize = 4;

/// The name of the directory with links to a repository's own objects.
const OWN: &str = "own";

/// How the name of a reference begins that replaces an object.
const REPLACEMENT: &[u8] = b" refs/replace/";

/// Keys that are taken over as they are.
const KEYS: [&str; 19] = [
    "core.repositoryformatversion",
    "core.filemode",
    "core.ignorecase",
    "core.symlinks",
    "core.precomposeunicode",
    "core.autocrlf",
    "core.eol",
    "core.safecrlf",
    "core.sparsecheckout",
    "core.sparsecheckoutcone",
    "core.abbrev",
    "core.commentchar",
    "core.quotepath",
    "index.sparse",
    "index.version",
    "user.name",
    "user.email",
    "init.defaultbranch",
    "merge.conflictstyle",
];

/// The parts of a repository that a command workspace may read. Paths inside a checkout's git directory are not
/// trusted: they give access only to parts of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    /// The directory of this work tree, and the one that all work trees share.
    own: PathBuf,
    common: PathBuf,
    /// Where the objects are.
    pub objects: PathBuf,
    /// The objects of other repositories that it borrows.
    pub borrowed: Vec<PathBuf>,
    /// Whether git would look for objects elsewhere, too.
    has_alternates: bool,
}

impl Parts {
    /// Finds the parts; `None` if the repository has an unusual layout: its objects or references are behind a link
    /// that leads out of it, or a path in it names another kind of directory.
    pub fn of(repository: &Repository) -> Option<Parts> {
        let own = repository.git_dir.canonicalize().ok()?;
        let common = repository.common_dir.canonicalize().ok()?;
        let has = |directory: &Path, name: &str| directory.join(name).symlink_metadata().is_ok();
        let is_repository = |directory: &Path| layout::is_git_directory(|name| Ok::<_, ()>(has(directory, name)));
        if is_repository(&own) != Ok(true) || is_repository(&common) != Ok(true) {
            return None;
        }
        let objects = common.join("objects").canonicalize().ok()?;
        let mut parts = Parts { own, common, objects: objects.clone(), borrowed: Vec::new(), has_alternates: false };
        let inside = ["objects", "refs", "reftable", "info", "logs"].iter().all(|name| {
            let places = [parts.common.join(name), parts.own.join(name)];
            places.iter().all(|place| place.symlink_metadata().is_err() || parts.holds(place))
        });
        if !inside || !objects.is_dir() || !parts.holds_links_of(&objects, 0) {
            return None;
        }
        let home = std::env::var_os("HOME").and_then(|home| Path::new(&home).canonicalize().ok());
        parts.has_alternates = objects.join("info/alternates").symlink_metadata().is_ok();
        let named = bounded::regular(&objects.join("info/alternates"), bounded::CONFIG).unwrap_or_default();
        let lines = named.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        parts.borrowed = lines
            .filter_map(|line| objects.join(OsStr::from_bytes(line)).canonicalize().ok())
            .filter(|path| is_object_store(path, home.as_deref()))
            .collect();
        Some(parts)
    }

    /// Forgets the stores of other repositories. Tells whether the repository's own lacks something that it needs: not
    /// every commit of its references is there, or not everything of its newest one. `at` is a directory of our own.
    pub fn forget_borrowed(&mut self, repository: &Repository, at: &Path) -> io::Result<bool> {
        self.borrowed.clear();
        if !self.has_alternates {
            return Ok(false);
        }
        // Git follows what a store names in turn, where nothing stops it: this one names no other.
        let own = at.join(OWN);
        std::fs::create_dir(&own)?;
        for entry in std::fs::read_dir(&self.objects)? {
            let name = entry?.file_name();
            if name != "info" {
                std::os::unix::fs::symlink(self.objects.join(&name), own.join(&name))?;
            }
        }
        let git = repository.git().env("GIT_OBJECT_DIRECTORY", own.as_os_str()).within(OWN_HISTORY);
        let lacks = |walk: &[&str]| matches!(git.run(walk, b""), Err(GitError::Failed { .. }));
        let lacks = lacks(&["rev-list", "--quiet", "--all"])
            || repository.head.is_some() && lacks(&["rev-list", "--quiet", "--objects", "-1", "HEAD"]);
        Ok(lacks)
    }

    /// Returns every directory of objects.
    pub fn reads(&self) -> Vec<PathBuf> {
        std::iter::once(&self.objects).chain(&self.borrowed).cloned().collect()
    }

    /// Tells whether every link in a directory of objects, and in those below it, leads into the repository itself.
    fn holds_links_of(&self, directory: &Path, depth: usize) -> bool {
        let Ok(entries) = std::fs::read_dir(directory) else { return false };
        entries.into_iter().all(|entry| {
            let Ok((path, kind)) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?))) else { return false };
            match (kind.is_symlink(), kind.is_dir()) {
                (true, _) => self.holds(&path),
                (false, true) => depth < OBJECTS_DEPTH && self.holds_links_of(&path, depth + 1),
                (false, false) => true,
            }
        })
    }

    /// Tells whether a path leads into the repository itself.
    fn holds(&self, path: &Path) -> bool {
        path.canonicalize().is_ok_and(|real| {
            [&self.own, &self.common].iter().any(|directory| real != **directory && real.starts_with(directory))
        })
    }
}

/// Tells whether a canonical path is the object directory of a repository, and contains no home.
fn is_object_store(path: &Path, home: Option<&Path>) -> bool {
    let is_file = |file: PathBuf| file.symlink_metadata().is_ok_and(|metadata| metadata.is_file());
    let is_directory = |name: &str| path.join(name).symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    path.file_name().is_some_and(|name| name == "objects")
        && !home.is_some_and(|home| home.starts_with(path))
        && is_file(path.with_file_name("HEAD"))
        && (is_directory("pack") || is_directory("info"))
}

/// Creates the directory.
///
/// `objects_at` is where the repository's objects are seen, if not at their own path.
pub fn make(repository: &Repository, parts: &Parts, at: &Path, objects_at: Option<&Path>) -> io::Result<()> {
    let (own, common) = (&parts.own, &parts.common);
    for folder in ["objects/info", "objects/pack", "info", "logs/refs"] {
        std::fs::create_dir_all(at.join(folder))?;
    }
    for (from, name) in [
        (own, "HEAD"),
        (own, "index"),
        (own, "ORIG_HEAD"),
        (own, "MERGE_HEAD"),
        (own, "logs/HEAD"),
        (own, "info/sparse-checkout"),
        (common, "packed-refs"),
        (common, "shallow"),
        (common, "info/exclude"),
        (common, "info/attributes"),
    ] {
        copy_file(&from.join(name), &at.join(name))?;
    }
    for entry in std::fs::read_dir(own)? {
        let name = entry?.file_name();
        if name.as_bytes().starts_with(b"sharedindex.") {
            copy_file(&own.join(&name), &at.join(&name))?;
        }
    }
    without_replacements(&at.join("packed-refs"))?;
    copy_folder(&common.join("refs"), &at.join("refs"), Some(OsStr::new("replace")))?;
    // What is stashed is listed by its log alone.
    copy_file(&common.join("logs/refs/stash"), &at.join("logs/refs/stash"))?;
    copy_folder(&common.join("logs/refs/heads"), &at.join("logs/refs/heads"), None)?;
    copy_folder(&common.join("reftable"), &at.join("reftable"), None)?;
    // With reference tables, a file here says so.
    if !at.join("refs/heads").exists() {
        std::fs::create_dir_all(at.join("refs/heads"))?;
    }

    let mut alternates = Vec::new();
    let links = at.join(OWN);
    let seen = objects_at.unwrap_or(if parts.has_alternates { &links } else { &parts.objects });
    for path in std::iter::once(seen).chain(parts.borrowed.iter().map(PathBuf::as_path)) {
        alternates.extend_from_slice(path.as_os_str().as_bytes());
        alternates.push(b'\n');
    }
    std::fs::write(at.join("objects/info/alternates"), alternates)?;
    std::fs::write(at.join("config"), configuration(common, own))?;
    // The objects may be seen elsewhere by commands, or be copied later.
    let git = repository.git().env("GIT_DIR", at).env("GIT_OBJECT_DIRECTORY", &parts.objects);
    commits_only::keep(&git, at)?;
    hide_outside(repository, at)
}

/// Copies what the repository's own references and index reach to a directory that [`make`] made, wherever the objects
/// are: whoever writes `.git` names the repositories that it borrows from, so what else these hold is not shown. Nothing
/// is copied where not everything is there, or where that takes too long; git then says what it lacks.
pub fn copy_reachable(repository: &Repository, at: &Path) -> io::Result<()> {
    let pack = at.join("objects/pack/pack");
    let options = ["--all", "--indexed-objects", "--missing=allow-any", "--window=0", "--delta-base-offset"];
    let mut arguments: Vec<&OsStr> = vec![OsStr::new("pack-objects"), OsStr::new("-q")];
    arguments.extend(options.map(OsStr::new));
    arguments.push(pack.as_os_str());
    let tip = repository.head.as_ref().map(|head| format!("{head}\n")).unwrap_or_default();
    match repository.git().within(COPY).run(&arguments, tip.as_bytes()) {
        Ok(_) | Err(GitError::Failed { .. } | GitError::TimedOut { .. }) => Ok(()),
        Err(error) => Err(io::Error::other(error)),
    }
}

/// Commands get the workspace only: what the repository holds next to it must not look deleted.
fn hide_outside(repository: &Repository, at: &Path) -> io::Result<()> {
    if repository.prefix.is_root() {
        return Ok(());
    }
    let top = at.parent().unwrap_or(at);
    // Uses the programs found for the project: what the copy contains was written by the project, too.
    let git = Git::with(&repository.programs, top);
    let names = git.run(&["ls-files", "-z"], b"").map_err(io::Error::other)?;
    let outside: Vec<u8> = names
        .split_inclusive(|byte| *byte == 0)
        .filter(|name| {
            let below = name.strip_prefix(repository.prefix.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'/'));
            !below
        })
        .flatten()
        .copied()
        .collect();
    git.run(&["update-index", "-z", "--skip-worktree", "--stdin"], &outside).map_err(io::Error::other)?;
    Ok(())
}

fn configuration(common: &Path, own: &Path) -> String {
    let mut text = String::from("[core]\n\tbare = false\n\tcheckStat = minimal\n\ttrustctime = false\n");
    // A commit here is discarded with the run, and the user's own settings are unavailable: any name will do.
    text.push_str("[user]\n\tname = qwen\n\temail = qwen@localhost\n");
    // A worktree's own settings come second, and the later value wins.
    for file in [common.join("config"), own.join("config.worktree")] {
        let Ok(config) = git2::Config::open(&file) else { continue };
        let Ok(entries) = config.entries(None) else { continue };
        let _ = entries.for_each(|entry| {
            // What the file includes may be any file of the user's.
            if entry.include_depth() > 0 {
                return;
            }
            // One without a value means yes, and asking for its value panics.
            let value = if entry.has_value() { entry.value() } else { Ok("true") };
            let (Ok(name), Ok(value)) = (entry.name(), value) else { return };
            let lower = name.to_ascii_lowercase();
            let is_taken = KEYS.contains(&lower.as_str())
                || lower.starts_with("extensions.") && lower != "extensions.worktreeconfig"
                || lower.starts_with("branch.") && (lower.ends_with(".merge") || lower.ends_with(".remote"))
                || lower.starts_with("remote.") && (lower.ends_with(".fetch") || lower.ends_with(".promisor"));
            if is_taken {
                text.push_str(&setting(name, value));
            } else if lower.starts_with("remote.") && lower.ends_with(".url") {
                text.push_str(&setting(name, &without_credentials(value)));
            }
        });
    }
    text
}

pub(super) fn setting(name: &str, value: &str) -> String {
    let quote = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let (section, key) = name.rsplit_once('.').unwrap_or((name, ""));
    match section.split_once('.') {
        Some((section, sub)) => format!("[{section} \"{}\"]\n\t{key} = \"{}\"\n", quote(sub), quote(value)),
        None => format!("[{section}]\n\t{key} = \"{}\"\n", quote(value)),
    }
}

/// Removes name and password from a URL.
fn without_credentials(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let end = rest.find('/').unwrap_or(rest.len());
            let host = rest[..end].rsplit_once('@').map_or(&rest[..end], |(_, host)| host);
            format!("{scheme}://{host}{}", &rest[end..])
        }
        None => url.to_owned(),
    }
}

/// Removes the references that put one object in the place of another: git of a command ignores them, and another
/// program would show what they name under any path.
fn without_replacements(packed: &Path) -> io::Result<()> {
    let Some(text) = bounded::optional(bounded::regular(packed, bounded::PRODUCT))? else { return Ok(()) };
    let mut is_left_out = false;
    let kept = text.split_inclusive(|byte| *byte == b'\n').filter(|line| {
        if !line.starts_with(b"^") {
            is_left_out = line.windows(REPLACEMENT.len()).any(|part| part == REPLACEMENT);
        }
        !is_left_out
    });
    let kept: Vec<u8> = kept.flatten().copied().collect();
    if kept.len() == text.len() { Ok(()) } else { std::fs::write(packed, kept) }
}

/// Copies the regular files below a directory, without the entry `except` at its top.
fn copy_folder(from: &Path, to: &Path, except: Option<&OsStr>) -> io::Result<()> {
    let entries = match std::fs::read_dir(from) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    std::fs::create_dir_all(to)?;
    for entry in entries {
        let entry = entry?;
        if except == Some(entry.file_name().as_os_str()) {
            continue;
        }
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() { copy_folder(&from, &to, None)? } else { copy_file(&from, &to)? }
    }
    Ok(())
}

/// Copies a regular file with its time, by which git judges its index; anything else is left out.
fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let Ok(metadata) = from.symlink_metadata() else { return Ok(()) };
    if !metadata.is_file() {
        return Ok(());
    }
    std::fs::copy(from, to)?;
    let copy = std::fs::File::options().append(true).open(to)?;
    copy.set_times(std::fs::FileTimes::new().set_modified(metadata.modified()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only a repository's objects: no other directory of that name, and none that contains a home.
    #[test]
    fn objects_are_borrowed_from_repositories_alone() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        crate::workspace::test_support::sh(
            &top,
            "git init -q other; mkdir -p plain/objects/pack linked/objects/info; ln -s ../other/.git/HEAD linked/HEAD; \
             mkdir -p at/objects/info/home; touch at/HEAD; mkdir -p bare; touch bare/HEAD; mkdir bare/objects",
        );
        for (path, is) in [
            ("other/.git/objects", true),
            ("other/.git", false),
            ("other", false),
            ("plain/objects", false),
            ("linked/objects", false),
            ("bare/objects", false),
            ("at/objects", false),
        ] {
            let home = top.join("at/objects/info/home");
            assert_eq!(is_object_store(&top.join(path), Some(&home)), is, "{path}");
        }
        assert!(!is_object_store(Path::new("/"), None));
    }

    #[test]
    fn a_repository_whose_parts_lie_elsewhere_has_none_for_commands() {
        for (script, has) in [
            ("true", true),
            ("ln -s ../../keys .git/refs/heads/keys", true),
            ("mv .git/refs .git/r; ln -s r .git/refs", true),
            ("rm -r .git/objects; ln -s ../../keys .git/objects", false),
            ("rm -r .git/objects; ln -s .. .git/objects", false),
            ("rm -r .git/objects; ln -s . .git/objects", false),
            ("rm -r .git/refs; ln -s ../../keys .git/refs", false),
            ("rm -r .git/info; ln -s ../../keys .git/info", false),
            ("rm -rf .git/logs; ln -s ../../keys .git/logs", false),
            ("rm -rf .git/objects/pack; ln -s ../../../keys .git/objects/pack", false),
            ("ln -s ../../../../keys/HEAD .git/objects/pack/pack-1.pack", false),
            ("ln -s ../../../keys .git/objects/ff", false),
            ("mkdir -p .git/objects/ff; ln -s ../../../../keys/HEAD .git/objects/ff/aa", false),
            ("ln -s pack .git/objects/ff", true),
            ("echo ../../keys > .git/commondir", false),
            ("rm -r .git; echo 'gitdir: ../keys' > .git", false),
            ("git worktree add -q ../v; cd ..; rm -r w; mv v w", false),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let top = folder.path().canonicalize().unwrap();
            crate::workspace::test_support::sh(
                &top,
                &format!(
                    "mkdir keys; echo k > keys/HEAD; git init -q w; cd w; git commit -q --allow-empty -m x; {script}"
                ),
            );
            let Ok(Some(repository)) = Repository::discover(&top.join("w")) else {
                assert!(!has, "{script}");
                continue;
            };
            let parts = Parts::of(&repository);
            assert_eq!(parts.is_some(), has, "{script}: {parts:?}");
        }
    }

    #[test]
    fn neither_included_settings_nor_names_of_files_reach_a_command_workspace() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        crate::workspace::test_support::sh(
            &top,
            "git init -q -b main . && echo x > .env && git add . && git commit -qm x
            printf '[user]\\n\\tname = included\\n' > .git/more; git config include.path more; git tag commit; git tag -m x note
            git tag blob HEAD:.env; git tag tree HEAD^{tree}; git tag -m x annotated HEAD:.env; git pack-refs --all
            git tag loose HEAD:.env; blob=$(git rev-parse HEAD:.env); head=$(git rev-parse HEAD)
            lie=$(printf 'object %s\\ntype commit\\ntag lie\\ntagger a <a@b> 1 +0000\\n\\nx\\n' $blob | git hash-object -t tag -w --literally --stdin)
            echo $lie > .git/refs/tags/lie; echo $blob > .git/ORIG_HEAD; echo $blob > .git/refs/heads/head
            printf '%040d\\n' 1 > .git/refs/heads/lost
            forged=\"$blob $blob a <a@b> 1 +0000\tforged\"; printf '%s\\n' \"$forged\" >> .git/logs/HEAD
            printf '%s\\n' \"$forged\" > .git/logs/refs/stash; printf '%s\\n' \"$forged\" >> .git/logs/refs/heads/main
            printf '%s %s a <a@b> 1 +0000\tlast\\n' $head $head >> .git/logs/HEAD",
        );
        let repository = Repository::discover(&top).unwrap().unwrap();
        let made = tempfile::tempdir().unwrap();
        make(&repository, &Parts::of(&repository).unwrap(), made.path(), None).unwrap();
        let git = repository.git().env("GIT_DIR", made.path());
        assert_eq!(
            git.line(&["for-each-ref", "--format=%(refname)"], b"").unwrap(),
            "refs/heads/main\nrefs/tags/commit\nrefs/tags/note"
        );
        let log = std::fs::read_to_string(made.path().join("logs/HEAD")).unwrap();
        assert!(log.lines().count() == 2 && log.ends_with("last\n") && !log.contains("forged"), "{log}");
        for log in ["stash", "heads/main"] {
            let log = std::fs::read_to_string(made.path().join("logs/refs").join(log)).unwrap();
            assert!(!log.contains("forged"), "{log}");
        }
        assert!(!made.path().join("ORIG_HEAD").exists());
        assert!(!std::fs::read_to_string(made.path().join("config")).unwrap().contains("included"));
    }

    #[test]
    fn no_credentials_stay_in_a_url() {
        assert_eq!(without_credentials("https://x:tok@h.example/a@b"), "https://h.example/a@b");
        assert_eq!(without_credentials("git@h.example:a/b"), "git@h.example:a/b");
    }

    #[test]
    fn a_setting_is_quoted() {
        assert_eq!(setting("branch.a\"b.merge", "x\\y"), "[branch \"a\\\"b\"]\n\tmerge = \"x\\\\y\"\n");
    }
}
