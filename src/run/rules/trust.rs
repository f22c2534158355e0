//! Decides whether this checkout's own files count in a run, and from which commit they are read if not from the tree.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use crate::bounded;
use crate::checkouts::checkouts_around;
use crate::git::trusted::{self, TrustedTree};
use crate::policy::glob::{Glob, fold};
use crate::policy::own_files;
use crate::policy::protected::never_read;
use crate::settings::Environment;
use crate::workspace::ignore::TrustedIgnores;

use crate::run::error::{Failure, TrustError};
use crate::run::rules::started::Started;

/// Maximum number of ignored files that are named.
const NAMED: usize = 20;

/// Maximum number of files of `.qwen` that are examined.
const LOOKED_AT: usize = 500;

/// Refuses a link to a file that is never read, wherever it is.
pub fn refuse_linked_secret(path: &Path) -> Result<(), String> {
    let Ok(whole) = path.canonicalize() else { return Ok(()) };
    let is_named = path.file_name() == whole.file_name();
    let target = fold(whole.to_string_lossy().trim_start_matches('/'));
    let is_secret = || never_read().any(|glob| Glob::new(glob).is_ok_and(|glob| glob.covers_folded(&target)));
    match !is_named && is_secret() {
        true => Err("it is a link to a file for secrets, which may not be read".to_owned()),
        false => Ok(()),
    }
}

/// What the flags say about trust.
#[derive(Debug, Clone, Default)]
pub struct TrustFlags {
    /// `--trusted-ref`.
    pub trusted_ref: Option<String>,
    /// `--trust-checkout`.
    pub trust_checkout: bool,
}

/// Which files of a checkout are trusted.
#[derive(Debug, Clone)]
pub struct Trusted {
    /// The checkout's own files are trusted.
    pub checkout: bool,
    /// Files are read from this commit; those of the tree can only narrow.
    pub tree: Option<TrustedTree>,
    /// Texts of the tree that can only ask (context, commands, recipes, agents, skills) are read all the same, unless
    /// an event says that the tree is somebody's change. Then its texts count as little as its settings.
    pub asks: bool,
    /// The tree may be somebody's change: a CI system, an event or a flag says so.
    pub is_change: bool,
    /// Why nothing is trusted; empty where something is.
    pub why_not: String,
}

/// Where a project's own texts are read from.
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    /// From the tree.
    Disk,
    /// From the trusted commit.
    Commit(&'a TrustedTree),
    /// From nowhere: their author is unknown.
    Nowhere,
}

/// A file that the command line names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamedFile {
    /// It is read from the disk: it is outside the checkout, or the checkout is trusted.
    OnDisk,
    /// It is read from the trusted commit: its path below the top directory.
    InCommit(String),
}

impl Trusted {
    /// Trusts the checkout unchanged, for commands that look at its files without acting on them.
    pub fn as_it_lies() -> Trusted {
        Trusted { checkout: true, tree: None, asks: true, is_change: false, why_not: String::new() }
    }

    /// Reads a text by its path below the repository's top directory, from the trusted commit or the trusted checkout.
    /// `None` if there is none, or if nothing is trusted. The name is for messages.
    pub fn read_text(&self, top: &Path, path: &str) -> Result<Option<(String, String)>, Failure> {
        if let Some(tree) = &self.tree {
            let text = tree.read_text(path)?;
            return Ok(text.map(|text| (tree.name_of(path), text)));
        }
        if !self.checkout {
            return Ok(None);
        }
        match bounded::optional(bounded::regular_text(&top.join(path), bounded::CONFIG)) {
            Ok(text) => Ok(text.map(|text| (path.to_owned(), text))),
            Err(cause) => Err(TrustError::Unreadable { path: path.to_owned(), cause }.into()),
        }
    }

    /// Returns the `.qwenignore` files of the trusted commit, and those of the names `beside`; they apply in addition
    /// to the tree's own.
    pub fn ignores(&self, top: &Path, beside: &[String]) -> Result<TrustedIgnores, Failure> {
        let Some(tree) = &self.tree else { return Ok(TrustedIgnores::default()) };
        let mut all: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
        for name in std::iter::once(".qwenignore").chain(beside.iter().map(String::as_str)) {
            for (folder, text) in tree.every(name)? {
                let folder = if folder.is_empty() { top.to_path_buf() } else { top.join(folder) };
                let known = all.entry(folder).or_default();
                known.extend(text);
                known.push(b'\n');
            }
        }
        Ok(all.into())
    }

    /// Returns one line for `doctor` that says whose files count.
    pub fn describe(&self) -> String {
        match (&self.tree, self.checkout) {
            (Some(tree), _) => format!("files of commit {} ({})", tree.commit, tree.why),
            (None, true) => "this checkout's files".to_owned(),
            (None, false) => format!("no files of this checkout: {}", self.why_not),
        }
    }

    /// Returns where the project's texts that can only ask are read from.
    pub fn source(&self) -> Source<'_> {
        match (&self.tree, self.asks) {
            (Some(tree), _) => Source::Commit(tree),
            (None, true) => Source::Disk,
            (None, false) => Source::Nowhere,
        }
    }

    /// Returns where a file that the command line names is read from. A file of a checkout under review is read from
    /// the trusted commit; a file that the job itself created is the operator's, like a file outside.
    pub fn named(&self, top: &Path, path: &Path) -> Result<NamedFile, String> {
        if matches!(self.source(), Source::Disk) {
            return Ok(NamedFile::OnDisk);
        }
        let Some(below) = below(top, path) else { return Ok(NamedFile::OnDisk) };
        if let Some(tree) = &self.tree
            && tree.has(&below).map_err(|error| error.to_string())?
        {
            return Ok(NamedFile::InCommit(below));
        }
        // Without a repository nothing was checked out.
        let came_with_checkout = match top.join(".git").symlink_metadata() {
            Ok(_) => trusted::came_with_checkout(top, &below).map_err(|error| error.to_string())?,
            Err(_) => false,
        };
        match came_with_checkout {
            false => Ok(NamedFile::OnDisk),
            true => Err(match &self.tree {
                Some(tree) => format!("{below} is not in the trusted commit {} ({})", short(&tree.commit), tree.why),
                None => format!("{below} came with this checkout, which is not trusted: {}", self.why_not),
            }),
        }
    }

    /// Reads a file that the command line names, or that such a file names; `None` where there is none.
    pub fn read_named(&self, top: &Path, path: &Path) -> Result<Option<Vec<u8>>, String> {
        match (self.named(top, path)?, &self.tree) {
            (NamedFile::InCommit(below), Some(tree)) => tree.read(&below).map_err(|error| error.to_string()),
            (NamedFile::InCommit(_), None) => Ok(None),
            (NamedFile::OnDisk, _) => {
                bounded::optional(bounded::named(path, bounded::PROMPT)).map_err(|error| error.to_string())
            }
        }
    }

    /// Reads a recipe that the command line names by its path, or a file that such a recipe names. In a checkout, whoever
    /// wrote it chose the name.
    pub fn read_for_recipe(&self, top: &Path, path: &Path) -> Result<Option<Vec<u8>>, String> {
        let folder = path.parent().and_then(|folder| folder.canonicalize().ok()).unwrap_or_default();
        let checkout = below(top, path).map(|_| top).or_else(|| checkouts_around(&folder).next());
        match (self.named(top, path)?, checkout) {
            (NamedFile::OnDisk, Some(checkout)) => {
                bounded::optional(own_files::read(checkout, path, bounded::PROMPT)).map_err(|error| error.to_string())
            }
            (NamedFile::OnDisk | NamedFile::InCommit(_), _) => self.read_named(top, path),
        }
    }

    /// Reads the text of a file that a flag names, from where it is trusted. The error says why it does not count.
    pub fn named_text(&self, top: &Path, path: &Path) -> Result<String, String> {
        let bytes = self.read_named(top, path)?.ok_or("it does not exist")?;
        String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())
    }

    /// Reads a text for the model that a flag names. A link to a file for secrets is refused: who wrote the link chose it,
    /// not the user.
    pub fn text_for_model(&self, top: &Path, path: &Path) -> Result<String, String> {
        refuse_linked_secret(path)?;
        self.named_text(top, path)
    }

    /// Lists files of the checkout that do not count and that nothing else reports: the loaders of settings and
    /// policies report their own. `contexts` are the names of context files.
    pub fn left_out(&self, top: &Path, workspace: &Path, contexts: &[String]) -> Result<Vec<String>, Failure> {
        if self.checkout {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        if top.join(".mcp.json").is_file() {
            found.push(".mcp.json".to_owned());
        }
        if !matches!(self.source(), Source::Disk) {
            for folder in workspace.ancestors().take_while(|folder| folder.starts_with(top)) {
                let names = contexts.iter().filter(|name| !name.contains(".."));
                let files = names.map(|name| folder.join(name)).filter(|path| path.symlink_metadata().is_ok());
                found.extend(files.filter_map(|path| below(top, &path)));
            }
            files_of(&top.join(".qwen"), top, &mut found, |_| true);
            let by_others = [".qwen/settings.json", ".qwen/policy.yaml", ".qwen/.env"];
            found.retain(|path| !by_others.contains(&path.as_str()));
        }
        found.sort();
        found.dedup();
        let (same, why) = match &self.tree {
            Some(tree) => (
                tree.same_as(top, &found)?,
                format!("it differs from the trusted commit {} ({})", short(&tree.commit), tree.why),
            ),
            None if self.asks => {
                (BTreeSet::new(), "this checkout is not trusted (`qwen policy trust`, or --trust-checkout)".to_owned())
            }
            None => (BTreeSet::new(), format!("this checkout is not trusted: {}", self.why_not)),
        };
        found.retain(|path| !same.contains(path));
        let more = found.len().saturating_sub(NAMED);
        let mut said: Vec<String> = found.iter().take(NAMED).map(|path| format!("{path} left out: {why}")).collect();
        if more > 0 {
            said.push(format!("{more} more files of .qwen left out: {why}"));
        }
        Ok(said)
    }

    /// Refuses commands of trusted settings that start or read a file of a tree that may be somebody's change, if it is not
    /// the trusted commit's: the settings would be trusted, and the program nobody's. So is a command of which that cannot
    /// be told.
    pub fn require_same(
        &self,
        top: &Path,
        workspace: &Path,
        environment: &Environment,
        commands: &[Started],
    ) -> Result<(), Failure> {
        if self.checkout || !self.is_change {
            return Ok(());
        }
        for command in commands {
            let name = &command.name;
            let path = environment.value("PATH");
            let words = command.words(environment.home.as_deref(), path.as_deref()).map_err(|what| {
                let (name, not_trusted) = (name.clone(), self.not_trusted());
                TrustError::Undetermined { name, what, not_trusted }
            })?;
            let places = command.places(top, workspace);
            let mut files: Vec<String> = Vec::new();
            for word in words.iter().flat_map(|word| parts(word)) {
                let found = in_path(environment, &word);
                let named = meant(top, &places, &word).ok_or_else(|| {
                    let (name, word) = (name.clone(), word.clone());
                    TrustError::TooMany { name, word, most: LOOKED_AT }
                })?;
                files.extend(named.iter().chain(&found).filter_map(|path| below(top, path)));
            }
            files.sort();
            files.dedup();
            if let Some((file, why)) = self.first_untrusted(top, &files)? {
                return Err(TrustError::Changed { name: name.clone(), file, why }.into());
            }
        }
        Ok(())
    }

    /// Names the first of these files that is not the trusted one, with why. What the job itself made is its own.
    fn first_untrusted(&self, top: &Path, files: &[String]) -> Result<Option<(String, String)>, Failure> {
        if let Some(tree) = &self.tree {
            let same = tree.same_as(top, files)?;
            let changed = files.iter().find(|path| !same.contains(*path));
            let why = || format!("which differs from the trusted commit {} ({})", short(&tree.commit), tree.why);
            return Ok(changed.map(|path| (path.clone(), why())));
        }
        for path in files {
            if top.join(".git").symlink_metadata().is_err() || trusted::came_with_checkout(top, path)? {
                return Ok(Some((path.clone(), self.not_trusted())));
            }
        }
        Ok(None)
    }

    fn not_trusted(&self) -> String {
        match &self.tree {
            Some(tree) => format!("of which only commit {} is trusted ({})", short(&tree.commit), tree.why),
            None => format!("which is not trusted: {}", self.why_not),
        }
    }
}

/// Returns the files of the checkout that a word of a command can name: a file by the names that [`spelled`] lists, or
/// what an interpreter starts in a directory.
pub(super) fn programs(top: &Path, places: &[PathBuf], environment: &Environment, word: &str) -> Vec<PathBuf> {
    const ENTRIES: [&str; 3] = ["__main__.py", "index.js", "package.json"];
    let named = named(places, word).flat_map(|path| ENTRIES.map(|entry| path.join(entry)).into_iter().chain([path]));
    let named = named.chain(in_path(environment, word));
    let real = named.filter_map(|place| place.canonicalize().ok());
    real.filter(|file| file.is_file() && file.starts_with(top) && !file.starts_with(top.join(".git"))).collect()
}

/// Splits a word where a program may take a part of it for a path; the last is the whole word.
pub(super) fn parts(word: &str) -> Vec<String> {
    let parts = word.split(|c: char| c.is_whitespace() || "'\"=;|&()<>`$,:".contains(c));
    parts.chain([word]).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// Returns the paths that a word may name from these directories, as it may be [`spelled`].
fn named(places: &[PathBuf], word: &str) -> impl Iterator<Item = PathBuf> {
    spelled(word).into_iter().flat_map(|word| places.iter().map(move |place| place.join(&word)))
}

/// Returns a word as an interpreter may complete it: with the suffixes that Node.js and Python add, and as a dotted module
/// name (`-m a.b`).
fn spelled(word: &str) -> Vec<String> {
    const ENDINGS: [&str; 11] = ["", ".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".json", ".node", ".py", ".rb"];
    let dotted = if word.contains('/') { String::new() } else { word.replace('.', "/") };
    let spelled = [word.to_owned(), dotted].into_iter().filter(|word| !word.is_empty());
    spelled.flat_map(|word| ENDINGS.map(|ending| format!("{word}{ending}"))).collect()
}

/// Returns what a bare word can name in PATH, as far as it is there.
fn in_path(environment: &Environment, word: &str) -> Vec<PathBuf> {
    let path = environment.value("PATH").filter(|_| !word.contains('/')).unwrap_or_default();
    let files = std::env::split_paths(&path).filter(|entry| entry.is_absolute()).map(|entry| entry.join(word));
    files.filter(|file| file.symlink_metadata().is_ok_and(|data| !data.is_dir())).collect()
}

/// Returns the files of the checkout that a word of a command can mean to an interpreter: the path itself, as it may be
/// [`spelled`], with the files beside and below it, which it may load; and all files of a directory. Beside a file of the
/// top directory these are only what interpreters [load](is_loaded). `None` if they are too many to compare.
fn meant(top: &Path, places: &[PathBuf], word: &str) -> Option<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in named(places, word) {
        let Ok(data) = path.symlink_metadata() else { continue };
        let Some(file) =
            below(top, &path).map(|path| top.join(path)).or_else(|| data.is_dir().then(|| top.to_path_buf()))
        else {
            continue;
        };
        if !file.starts_with(top) || file == top && !path.starts_with(top) {
            continue;
        }
        let directory = if data.is_dir() { Some(file.as_path()) } else { file.parent() };
        if let Some(directory) = directory {
            let mut files = Vec::new();
            let all = data.is_dir() || directory != top;
            files_of(directory, top, &mut files, |path| all || is_loaded(path));
            if files.len() >= LOOKED_AT {
                return None;
            }
            found.extend(files.into_iter().map(|file| top.join(file)));
        }
        if !data.is_dir() {
            found.push(file);
        }
    }
    Some(found)
}

/// Tells whether an interpreter may load a file for a program of the top directory: code anywhere, and there any file
/// without an ending.
fn is_loaded(path: &str) -> bool {
    const CODE: &str = "bash class cjs cts jar js lua mjs mts node php pl pm pth py pyc rb sh so ts tsx jsx wasm zsh";
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.rsplit_once('.') {
        Some(("package" | "tsconfig", "json")) => true,
        Some((_, "json")) | None => name == path,
        Some((_, ending)) => CODE.split_whitespace().any(|known| known == ending),
    }
}

fn short(commit: &str) -> &str {
    &commit[..commit.len().min(12)]
}

/// Returns a path below the top directory as git writes it; `None` outside. Links in the checkout are not followed, as
/// it controls them; a link outside that leads into it names what it leads to.
pub(super) fn below(top: &Path, path: &Path) -> Option<String> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            Component::Normal(_) | Component::RootDir | Component::Prefix(_) => plain.push(part),
        }
    }
    let real = || Some(plain.parent()?.canonicalize().ok()?.join(plain.file_name()?));
    let inside = |path: PathBuf| Some(path.strip_prefix(top).ok()?.to_str()?.to_owned());
    let by_link = || inside(plain.canonicalize().ok()?);
    inside(plain.clone()).or_else(|| inside(real()?)).or_else(by_link).filter(|below| !below.is_empty())
}

/// Collects the files below a directory by their paths below the top, as far as they are wanted; links count as files.
/// Git's own are left out.
fn files_of(folder: &Path, top: &Path, found: &mut Vec<String>, is_wanted: impl Fn(&str) -> bool) {
    if folder.symlink_metadata().is_ok_and(|data| !data.is_dir()) {
        found.extend(below(top, folder));
        return;
    }
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if found.len() >= LOOKED_AT {
                return;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && entry.path() == top.join(".git") => {}
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(_) | Err(_) => found.extend(below(top, &entry.path()).filter(|path| is_wanted(path))),
            }
        }
    }
}
