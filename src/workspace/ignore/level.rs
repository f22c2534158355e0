//! Combines the ignore files from the repository's root down to one directory.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::kinds::{Ignored, Kind};
use super::pattern::{Pattern, last_match, parse};
use super::source::{Source, regular};
use crate::path::RelPath;
use crate::workspace::view::Workspace;

/// The rules that apply in one directory: its own files, and its parent's rules.
#[derive(Debug, Clone)]
pub struct Level {
    /// The absolute path of the directory that the patterns are relative to, with a trailing slash.
    base: Vec<u8>,
    git: Vec<Pattern>,
    qwen: Vec<Pattern>,
    /// The same of each file like `.qwenignore`; empty if there is none up to here.
    beside: Vec<Vec<Pattern>>,
    /// The same of the trusted commit.
    trusted: Vec<Pattern>,
    /// The patterns of `.git/info/exclude`: after all others.
    exclude: Vec<Pattern>,
    /// Whether a repository begins here: git's rules of directories above do not apply inside.
    repository: bool,
    /// Rules that the user's settings switch off.
    without: Ignored,
    ignored: Ignored,
    parent: Option<Arc<Level>>,
}

impl Level {
    /// Returns the rules of the workspace's root, including those of the directories above up to the repository's root.
    ///
    /// A workspace that its own repository ignores is not empty: the user named it.
    pub fn root(source: &Source) -> Arc<Level> {
        let above: Vec<&Path> = source.root.ancestors().collect();
        let outermost = above.iter().position(|folder| is_repository(folder)).unwrap_or(0);
        let mut level: Option<Arc<Level>> = None;
        for folder in above[1..=outermost].iter().rev() {
            let read = |name: &str| regular(&folder.join(name)).ok().flatten();
            level = Some(Arc::new(Level::new(folder, level, source, read)));
        }
        // The outermost of a workspace that is not a repository is the workspace itself.
        Arc::new(Level::new(&source.root, level, source, |name| source.read(&RelPath::root(), name))).named()
    }

    /// Returns the rules of a directory below.
    pub fn enter(self: &Arc<Level>, source: &Source, folder: &RelPath) -> Arc<Level> {
        let read = |name: &str| source.read(folder, name);
        Arc::new(Level::new(&folder.under(&source.root), Some(Arc::clone(self)), source, read))
    }

    /// As [`Level::enter`] for a directory whose names are known: without ignore files of its own it needs no level.
    ///
    /// Only for directories that are not ignored; query the result with [`Level::path`].
    pub fn enter_listed(
        self: &Arc<Level>,
        source: &Source,
        folder: &RelPath,
        has: impl Fn(&str) -> bool,
    ) -> Arc<Level> {
        let staged = |name: &str| {
            !source.changes.is_empty() && folder.child(name).is_some_and(|path| source.changes.staged(&path).is_some())
        };
        let beside = source.beside.iter().map(String::as_str);
        let own = [".gitignore", ".qwenignore", ".git"].into_iter().chain(beside).any(|name| has(name) || staged(name))
            || (!source.trusted.is_empty() && source.trusted.contains_key(&folder.under(&source.root)));
        if own { self.enter(source, folder) } else { Arc::clone(self) }
    }

    /// Judges an absolute path below this directory.
    pub fn path(&self, path: &[u8], kind: Kind) -> Ignored {
        self.judge(path, kind)
    }

    /// Returns the same rules for a directory that the caller named: git's rules do not ignore it.
    pub fn named(self: &Arc<Level>) -> Arc<Level> {
        if !self.ignored.git {
            return Arc::clone(self);
        }
        Arc::new(Level { ignored: Ignored { git: false, ..self.ignored }, ..self.as_ref().clone() })
    }

    /// Tells whether git ignores this directory as a whole.
    pub fn is_git_ignored(&self) -> bool {
        self.ignored.git
    }

    fn new(
        folder: &Path,
        parent: Option<Arc<Level>>,
        source: &Source,
        read: impl Fn(&str) -> Option<Vec<u8>>,
    ) -> Level {
        let mut base = folder.as_os_str().as_bytes().to_vec();
        if !base.ends_with(b"/") {
            base.push(b'/');
        }
        let repository = is_repository(folder);
        let exclude =
            if repository { exclude_file(folder).and_then(|path| regular(&path).ok().flatten()) } else { None };
        let ignored = match &parent {
            Some(parent) => parent.judge(&base[..base.len() - 1], Kind::Folder),
            None => Ignored::default(),
        };
        // Git reads a nested repository's rules separately.
        let ignored = Ignored { git: ignored.git && !repository, ..ignored };
        let patterns = |text: Option<Vec<u8>>| text.map(|text| parse(&text)).unwrap_or_default();
        let mut beside: Vec<Vec<Pattern>> = source.beside.iter().map(|name| patterns(read(name))).collect();
        if beside.iter().all(Vec::is_empty) && parent.as_ref().is_none_or(|parent| parent.beside.is_empty()) {
            beside.clear();
        }
        Level {
            git: patterns(read(".gitignore")),
            qwen: patterns(read(".qwenignore")),
            beside,
            trusted: patterns(source.trusted.get(folder).cloned()),
            exclude: patterns(exclude),
            base,
            repository,
            without: source.without,
            ignored,
            parent,
        }
    }

    /// Judges a child of this directory by its name.
    pub fn child(&self, name: &OsStr, kind: Kind) -> Ignored {
        self.judge(&[&self.base, name.as_bytes()].concat(), kind)
    }

    fn judge(&self, path: &[u8], kind: Kind) -> Ignored {
        let (mut git, mut qwen, mut trusted, mut exclude) = (None, None, None, None);
        let mut git_holds = true;
        let mut level = Some(self);
        while let Some(here) = level {
            let relative = &path[here.base.len()..];
            if git_holds {
                git = git.or_else(|| last_match(&here.git, relative, kind));
                exclude = exclude.or_else(|| last_match(&here.exclude, relative, kind));
                git_holds = !here.repository;
            }
            qwen = qwen.or_else(|| last_match(&here.qwen, relative, kind));
            trusted = trusted.or_else(|| last_match(&here.trusted, relative, kind));
            level = here.parent.as_deref();
        }
        Ignored {
            git: !self.without.git && (self.ignored.git || git.or(exclude).unwrap_or(false)),
            qwen: !self.without.qwen
                && (self.ignored.qwen
                    || qwen.unwrap_or(false)
                    || trusted.unwrap_or(false)
                    || (0..self.beside.len()).any(|file| self.is_hidden_by(file, path, kind))),
        }
    }

    /// Tells whether a file like `.qwenignore` hides a path; none of them lifts what another hides.
    fn is_hidden_by(&self, file: usize, path: &[u8], kind: Kind) -> bool {
        let mut levels = std::iter::successors(Some(self), |level| level.parent.as_deref());
        let matched = |here: &Level| last_match(here.beside.get(file)?, &path[here.base.len()..], kind);
        levels.find_map(matched).unwrap_or(false)
    }
}

/// The rules for single paths, each directory's files read once.
pub struct Rules {
    source: Source,
    levels: std::sync::Mutex<HashMap<RelPath, Arc<Level>>>,
}

impl Rules {
    /// Takes the staged view as it is now.
    pub fn new(workspace: &Workspace) -> Rules {
        Rules::of_source(Source::new(workspace))
    }

    /// As [`Rules::new`], from a view at hand.
    pub fn of_source(source: Source) -> Rules {
        Rules { source, levels: std::sync::Mutex::default() }
    }

    /// Returns the rules that hold in a directory.
    pub fn level(&self, folder: &RelPath) -> Arc<Level> {
        if let Some(level) = self.levels.lock().expect("nothing panics while it holds the map").get(folder) {
            return Arc::clone(level);
        }
        let level = match folder.parent() {
            None => Level::root(&self.source),
            Some(parent) => self.level(&parent).enter(&self.source, folder),
        };
        self.levels.lock().expect("nothing panics while it holds the map").insert(folder.clone(), Arc::clone(&level));
        level
    }

    /// Returns which rules ignore a path. The workspace itself is never ignored.
    pub fn of(&self, path: &RelPath, kind: Kind) -> Ignored {
        match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => self.level(&parent).child(name, kind),
            _ => Ignored::default(),
        }
    }
}

fn is_repository(folder: &Path) -> bool {
    std::fs::symlink_metadata(folder.join(".git")).is_ok()
}

/// Returns the path of `info/exclude`; in a linked work tree or submodule `.git` is a file that names the directory.
fn exclude_file(folder: &Path) -> Option<PathBuf> {
    let git = folder.join(".git");
    if git.is_dir() {
        return Some(git.join("info/exclude"));
    }
    let text = |path: &Path| {
        regular(path).ok().flatten().map(|text| PathBuf::from(std::ffi::OsString::from_vec(text.trim_ascii().to_vec())))
    };
    let named = regular(&git).ok().flatten()?;
    let named = OsStr::from_bytes(named.strip_prefix(b"gitdir:")?.trim_ascii());
    let directory = folder.join(named);
    let common = text(&directory.join("commondir")).map_or_else(|| directory.clone(), |common| directory.join(common));
    Some(common.join("info/exclude"))
}
