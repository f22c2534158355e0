//! Decides which files are ignored, by `.gitignore`, `.qwenignore` and the files next to the latter ([`BESIDE`]) only.
//!
//! Follows git's rules, byte for byte: the ignore files of every directory from the repository's root down, the last
//! matching line of the nearest file wins, nothing below an ignored directory is included again, `.git/info/exclude`
//! comes last. `.ignore`, `.rgignore` and the user's global ignores are not read: a run is the same on every machine.
//!
//! The matcher of the `ignore` crate is not used: in its globs `{a,b}` is a choice and `[[:alpha:]]` is not a class;
//! git reads both the other way. A property test compares this file with `git check-ignore`.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::Workspace;
use super::folder::is_missing;
use super::layer::Layer;
use crate::bounded;
use crate::change::{ChangeSet, Entry};
use crate::path::RelPath;

/// The kind of a path, as far as patterns distinguish it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Folder,
    /// Anything else, including a link to a directory.
    File,
}

/// Files that apply like `.qwenignore`, unless the settings name others.
pub const BESIDE: [&str; 2] = [".agentignore", ".aiignore"];

impl Kind {
    /// Returns the kind of what a directory lists.
    pub fn of(listed: std::fs::FileType) -> Kind {
        if listed.is_dir() { Kind::Folder } else { Kind::File }
    }
}

/// Which rules ignore a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ignored {
    /// `.gitignore` and `.git/info/exclude`.
    pub git: bool,
    /// `.qwenignore` and the files that apply like it.
    pub qwen: bool,
}

/// Where ignore files are read from: the staged view, as values that other threads can hold.
#[derive(Debug, Clone)]
pub struct Source {
    root: PathBuf,
    /// Where the files of the tree are: the root itself, or the command workspace in its place.
    files: PathBuf,
    /// What commands have written over those files, if they have a layer of their own.
    layer: Option<Arc<Layer>>,
    changes: Arc<ChangeSet>,
    /// `.qwenignore` of the trusted commit, by directory: these apply in addition to the tree's, which cannot lift
    /// them.
    trusted: TrustedIgnores,
    without: Ignored,
    /// The names of the files that apply like `.qwenignore`.
    beside: Arc<[String]>,
    /// The first ignore file that could not be read: without its rules nothing may be concluded.
    fault: Arc<OnceLock<(PathBuf, std::io::ErrorKind)>>,
}

/// The texts of `.qwenignore` files of the trusted commit, by their absolute directories.
pub type TrustedIgnores = Arc<BTreeMap<PathBuf, Vec<u8>>>;

impl Source {
    /// Takes the staged view as it is now.
    pub fn new(workspace: &Workspace) -> Source {
        let root = workspace.root().to_path_buf();
        Source {
            files: root.clone(),
            layer: None,
            root,
            changes: Arc::new(workspace.changes()),
            trusted: workspace.trusted_ignores(),
            without: workspace.without_ignore_rules(),
            beside: workspace.ignore_files(),
            fault: Arc::default(),
        }
    }

    /// Takes the files of another tree for those at `root`, nothing staged; directories above and repositories stay.
    pub fn of_tree(root: &Path, files: &Path) -> Source {
        Source {
            root: root.to_path_buf(),
            files: files.to_path_buf(),
            layer: None,
            changes: Arc::default(),
            trusted: Arc::default(),
            without: Ignored::default(),
            beside: BESIDE.map(str::to_owned).into(),
            fault: Arc::default(),
        }
    }

    /// Takes the workspace at `root` as it is seen through a layer, with nothing staged.
    pub fn of_layer(root: &Path, layer: Arc<Layer>) -> Source {
        Source { layer: Some(layer), ..Source::of_tree(root, root) }
    }

    /// Takes the workspace at `root` as it is with these changes staged.
    pub fn of_changes(root: &Path, changes: ChangeSet) -> Source {
        Source { changes: Arc::new(changes), ..Source::of_tree(root, root) }
    }

    /// Takes a directory outside the workspace, with nothing staged.
    pub fn beside(workspace: &Workspace, folder: &Path) -> Source {
        let (without, beside) = (workspace.without_ignore_rules(), workspace.ignore_files());
        Source { without, beside, ..Source::of_tree(folder, folder) }
    }

    /// Returns the root of the workspace.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the changes that the view shows.
    pub fn changes(&self) -> &ChangeSet {
        &self.changes
    }

    /// Tells whether every ignore file that was asked for so far could be read, or does not exist.
    pub fn check(&self) -> std::io::Result<()> {
        match self.fault.get() {
            None => Ok(()),
            Some((path, kind)) => Err(std::io::Error::new(*kind, format!("{}: {kind}", path.display()))),
        }
    }

    /// Reads the ignore file of a directory of the workspace.
    fn read(&self, folder: &RelPath, name: &str) -> Option<Vec<u8>> {
        let path = folder.child(name)?;
        match self.changes.staged(&path) {
            Some(Entry::File { content, .. }) => Some(content.to_vec()),
            Some(Entry::Absent | Entry::Link { .. }) => None,
            None => {
                let read = match &self.layer {
                    Some(layer) => of_layer(layer, &path),
                    None => regular(&path.under(&self.files)),
                };
                read.unwrap_or_else(|error| {
                    let _first = self.fault.set((path.as_path().into(), error.kind()));
                    None
                })
            }
        }
    }
}

/// Reads a small regular file as commands see it.
fn of_layer(layer: &Layer, path: &RelPath) -> std::io::Result<Option<Vec<u8>>> {
    let Some(place) = layer.place(path)? else { return Ok(None) };
    let Some(stat) = place.folder.stat(place.name)? else { return Ok(None) };
    if u64::try_from(stat.st_size).is_ok_and(|size| size > LARGEST) {
        return Ok(None);
    }
    Ok(match place.folder.entry(place.name)? {
        Entry::File { content, .. } => Some(content.to_vec()),
        Entry::Absent | Entry::Link { .. } => None,
    })
}

/// Maximum bytes of an ignore file that is read.
const LARGEST: u64 = 4 * 1024 * 1024;

/// Reads a small regular file; links are not followed, as git does not follow them here.
///
/// A missing or unreadable file has no rules, as in git; every other error is reported.
fn regular(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    let read = || {
        let metadata = std::fs::symlink_metadata(path)?;
        match metadata.is_file() && metadata.len() <= LARGEST {
            true => bounded::regular(path, LARGEST).map(Some),
            false => Ok(None),
        }
    };
    match read() {
        Err(error) if is_missing(&error) || error.kind() == std::io::ErrorKind::PermissionDenied => Ok(None),
        read => read,
    }
}

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

/// One line of an ignore file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pattern {
    /// `!`: what matches is not ignored.
    negated: bool,
    /// A trailing slash: only directories match.
    folders_only: bool,
    /// A slash elsewhere: the whole path is matched, not the last name.
    anchored: bool,
    shape: Shape,
}

/// The pattern, with short cuts for what most lines are.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Shape {
    /// No special character.
    Literal(Vec<u8>),
    /// `*` and then no special character, against a name.
    Suffix(Vec<u8>),
    /// Anything else.
    Glob(Vec<u8>),
}

fn last_match(patterns: &[Pattern], path: &[u8], kind: Kind) -> Option<bool> {
    let name = &path[path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1)..];
    let matches = |pattern: &&Pattern| {
        if pattern.folders_only && kind != Kind::Folder {
            return false;
        }
        let text = if pattern.anchored { path } else { name };
        match &pattern.shape {
            Shape::Literal(literal) => text == literal,
            Shape::Suffix(suffix) => text.ends_with(suffix),
            Shape::Glob(glob) => wildmatch(glob, text),
        }
    };
    patterns.iter().rev().find(matches).map(|pattern| !pattern.negated)
}

fn parse(text: &[u8]) -> Vec<Pattern> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    text.split(|byte| *byte == b'\n').filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<Pattern> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.first() == Some(&b'#') {
        return None;
    }
    let mut line = without_trailing_blanks(line);
    let negated = line.first() == Some(&b'!');
    line = &line[usize::from(negated)..];
    let folders_only = line.ends_with(b"/");
    line = &line[..line.len() - usize::from(folders_only)];
    // `/` alone, and nothing, match nothing.
    if line.is_empty() {
        return None;
    }
    let anchored = line.contains(&b'/');
    let line = line.strip_prefix(b"/").unwrap_or(line);
    let special = |text: &[u8]| text.iter().any(|byte| matches!(byte, b'*' | b'?' | b'[' | b'\\'));
    let shape = match line.strip_prefix(b"*") {
        _ if !special(line) => Shape::Literal(line.to_vec()),
        Some(rest) if !anchored && !special(rest) => Shape::Suffix(rest.to_vec()),
        _ => Shape::Glob(line.to_vec()),
    };
    Some(Pattern { negated, folders_only, anchored, shape })
}

/// Spaces at the end do not count, unless a backslash precedes them.
fn without_trailing_blanks(line: &[u8]) -> &[u8] {
    let mut end = 0;
    let mut at = 0;
    while at < line.len() {
        match line[at] {
            b' ' => at += 1,
            b'\\' => {
                at = (at + 2).min(line.len());
                end = at;
            }
            _ => {
                at += 1;
                end = at;
            }
        }
    }
    &line[..end]
}

/// Matches a whole path the way git does: `*` and `?` stop at `/`, `**` between slashes does not, `[...]` with
/// ranges, negation and POSIX classes, a backslash quotes.
pub fn wildmatch(pattern: &[u8], text: &[u8]) -> bool {
    // Each `*` backtracks by itself, so a budget limits the work on a hostile pattern.
    let mut budget = 200_000_u32;
    matches_from(pattern, 0, text, 0, &mut budget)
}

fn matches_from(pattern: &[u8], mut p: usize, text: &[u8], mut t: usize, budget: &mut u32) -> bool {
    while p < pattern.len() {
        if *budget == 0 {
            return false;
        }
        *budget -= 1;
        match pattern[p] {
            b'*' => {
                let stars = pattern[p..].iter().take_while(|byte| **byte == b'*').count();
                let after = p + stars;
                let bounded_before = p == 0 || pattern[p - 1] == b'/';
                let next = pattern.get(after);
                let bounded_after = matches!(next, None | Some(b'/'))
                    || (next == Some(&b'\\') && pattern.get(after + 1) == Some(&b'/'));
                let crosses = stars >= 2 && bounded_before && bounded_after;
                if crosses && next == Some(&b'/') && matches_from(pattern, after + 1, text, t, budget) {
                    // `**/` also matches no directory at all.
                    return true;
                }
                if after == pattern.len() {
                    return crosses || !text[t..].contains(&b'/');
                }
                loop {
                    if matches_from(pattern, after, text, t, budget) {
                        return true;
                    }
                    if t >= text.len() || (!crosses && text[t] == b'/') || *budget == 0 {
                        return false;
                    }
                    t += 1;
                }
            }
            b'?' => {
                if text.get(t).is_none_or(|byte| *byte == b'/') {
                    return false;
                }
                (p, t) = (p + 1, t + 1);
            }
            b'[' => {
                let Some(byte) = text.get(t) else { return false };
                match class(&pattern[p + 1..], *byte) {
                    Some((true, length)) if *byte != b'/' => (p, t) = (p + 1 + length, t + 1),
                    _ => return false,
                }
            }
            b'\\' => {
                if pattern.get(p + 1).is_none() || text.get(t) != pattern.get(p + 1) {
                    return false;
                }
                (p, t) = (p + 2, t + 1);
            }
            byte => {
                if text.get(t) != Some(&byte) {
                    return false;
                }
                (p, t) = (p + 1, t + 1);
            }
        }
    }
    t == text.len()
}

/// Matches one byte against what follows a `[`; returns the answer and the length up to and with the `]`, or
/// `None` if there is no end (such a pattern matches nothing).
fn class(pattern: &[u8], byte: u8) -> Option<(bool, usize)> {
    let negated = matches!(pattern.first(), Some(b'!' | b'^'));
    let mut at = usize::from(negated);
    let mut found = false;
    let mut first = true;
    let mut previous: Option<u8> = None;
    loop {
        let mut here = *pattern.get(at)?;
        match here {
            b']' if !first => return Some((found != negated, at + 1)),
            b'[' if pattern.get(at + 1) == Some(&b':') => {
                let rest = &pattern[at + 2..];
                let end = rest.iter().position(|byte| *byte == b']')?;
                match rest[..end].strip_suffix(b":") {
                    Some(name) => {
                        found |= posix(name, byte)?;
                        at += 2 + end + 1;
                        previous = None;
                    }
                    None => {
                        found |= byte == b'[';
                        previous = Some(b'[');
                        at += 1;
                    }
                }
            }
            b'-' if previous.is_some() && pattern.get(at + 1).is_some_and(|byte| *byte != b']') => {
                at += 1;
                let mut end = *pattern.get(at)?;
                if end == b'\\' {
                    at += 1;
                    end = *pattern.get(at)?;
                }
                found |= previous.is_some_and(|start| (start..=end).contains(&byte));
                previous = None;
                at += 1;
            }
            _ => {
                if here == b'\\' {
                    at += 1;
                    here = *pattern.get(at)?;
                }
                found |= here == byte;
                previous = Some(here);
                at += 1;
            }
        }
        first = false;
    }
}

fn posix(name: &[u8], byte: u8) -> Option<bool> {
    Some(match name {
        b"alnum" => byte.is_ascii_alphanumeric(),
        b"alpha" => byte.is_ascii_alphabetic(),
        b"blank" => matches!(byte, b' ' | b'\t'),
        b"cntrl" => byte.is_ascii_control(),
        b"digit" => byte.is_ascii_digit(),
        b"graph" => byte.is_ascii_graphic(),
        b"lower" => byte.is_ascii_lowercase(),
        b"print" => byte.is_ascii_graphic() || byte == b' ',
        b"punct" => byte.is_ascii_punctuation(),
        b"space" => byte.is_ascii_whitespace() || byte == 0x0b,
        b"upper" => byte.is_ascii_uppercase(),
        b"xdigit" => byte.is_ascii_hexdigit(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
