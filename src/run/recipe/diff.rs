//! Reads a change under review from git.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use crate::cli::run::FromHook;
use crate::git::Git;
use crate::git::contents::Contents;
use crate::git::repository::Repository;
use crate::marked::Marked;
use crate::path::RelPath;
use crate::policy::glob::Glob;
use crate::policy::redact::Secrets;
use crate::policy::{Facts, Policy};
use crate::recipe::file::{Context, DiffKind, Generated, LocalRule, Text};
use crate::run::recipe::from_hook::{git_of, is_generated, says_generated};
use crate::run::recipe::since::{self, Touched};
use crate::verify::findings::Finding;
use crate::verify::local::{self, Changed, Rules};
use crate::verify::new_side::{NewSide, Shown, new_side};
use crate::verify::review::{Class, Listed, NotLookedAt, Review};

/// The tree without files, for a repository without a commit.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/// Options that neither the user's configuration nor the repository's can alter.
const TEXT: [&str; 9] = [
    // An attribute of the change itself could call code binary; what is binary is left out by us.
    "--text",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "--find-renames",
    "--no-indent-heuristic",
    "-U3",
];

/// Paths that one call of git is given at most.
const PATHS: usize = 500;

/// Reads changes under review.
pub struct ChangeReader<'a> {
    /// The repository.
    pub repository: &'a Repository,
    /// Says which files may be read, and what is taken for a secret.
    pub policy: &'a Policy,
    /// The facts for its decisions.
    pub facts: &'a Facts,
    /// The secrets of this run.
    pub secrets: &'a Secrets,
    /// The git hook that started the run, if any.
    pub from_hook: Option<&'a FromHook>,
    /// A commit that was looked at before: hunks of a range that have not changed since are left out.
    pub since: Option<&'a str>,
}

/// What was seen of a change without a model.
pub struct Looked {
    /// Problems.
    pub findings: Vec<Finding>,
    /// Files of the change.
    pub files: usize,
    /// Files that a model would be shown, but for deleted ones.
    pub texts: usize,
}

/// What of a change a model is shown.
#[derive(Default)]
pub struct Choice {
    include: Option<Vec<Glob>>,
    exclude: Vec<Glob>,
    generated: Generated,
}

impl Choice {
    /// Reads the keys of an input, whose globs are valid.
    pub fn new(input: &Context) -> Choice {
        let globs = |texts: &Vec<Text>| texts.iter().filter_map(|text| Glob::new(text.as_str()).ok()).collect();
        Choice {
            include: input.include.as_ref().map(globs),
            exclude: input.exclude.as_ref().map(globs).unwrap_or_default(),
            generated: input.generated.unwrap_or_default(),
        }
    }

    /// Tells whether a file that may be shown is left out.
    fn excludes(&self, path: &str) -> bool {
        let is_any = |globs: &Vec<Glob>| globs.iter().any(|glob| glob.is_match(path));
        is_any(&self.exclude) || self.include.as_ref().is_some_and(|globs| !is_any(globs))
    }
}

/// A change that git was asked for.
struct Asked {
    git: Git,
    /// Shows paths relative to the workspace.
    relative: Option<String>,
    /// Words that name the change.
    change: Vec<OsString>,
    files: Vec<Classed>,
    /// The commit that has the files which are not changed.
    right: String,
    _index: Option<Marked>,
}

impl Asked {
    /// Returns the change of these files as a text; of all if there are none.
    fn diff(&self, options: &[&str], paths: &[OsString]) -> Result<String, String> {
        let words = ["diff"].iter().chain(&TEXT).chain(options).copied().chain(self.relative.as_deref());
        let words: Vec<OsString> = words.map(OsString::from).collect();
        let words = [&words, &self.change[..], paths].concat();
        let text = self.git.run(&words, b"").map_err(|error| error.to_string())?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

impl Asked {
    /// Returns which lines of each file of the change were touched after a commit, as the right side numbers them.
    fn changed_since(&self, since: &str, right: &str) -> Result<Touched, String> {
        let range = format!("{since}..{right}");
        require_commits(&self.git, &range)?;
        let later = Asked {
            git: self.git.clone(),
            relative: self.relative.clone(),
            change: vec!["--end-of-options".into(), range.into(), "--".into()],
            files: Vec::new(),
            _index: None,
            right: String::new(),
        };
        Ok(since::touched(&later.diff(&["--no-renames", "-U0"], &[])?))
    }
}

impl ChangeReader<'_> {
    /// Returns a change as a model is shown it, and what is to be known of it. Files that must not be read, are outside
    /// the workspace or are written by programs are left out; the review names them. Its paths are relative to the
    /// workspace. `rules` are looked for in all files of the workspace.
    ///
    /// Errors with the reason alone.
    pub fn read(
        &self,
        kind: DiffKind,
        range: Option<&str>,
        choice: &Choice,
        rules: &[LocalRule],
    ) -> Result<(String, Review), String> {
        let mut asked = self.ask(kind, range, choice)?;
        let since = match (self.since, range.and_then(right_of)) {
            (Some(since), Some(right)) if kind == DiffKind::Range => Some(asked.changed_since(since, &right)?),
            (Some(_) | None, _) => None,
        };
        if let Some(since) = &since {
            for (_, _, class) in asked.files.iter_mut().filter(|(_, path, _)| !since.contains_key(path)) {
                class.get_or_insert(Class::Reviewed);
            }
        }
        let mut review = Review { right: right(kind, range), ..Review::default() };
        let (mut paths, mut shown) = (vec![OsString::from(":(top)")], Vec::new());
        for (file, path, class) in &asked.files {
            match class {
                Some(_) => paths.push(named(file, "exclude,")),
                None => shown.push(NotLookedAt { path: path.clone(), status: file.status, class: Class::NotReached }),
            }
            review.count(Listed { path: path.clone(), status: file.status, lines: file.lines, class: *class });
        }
        let text = if shown.is_empty() { String::new() } else { asked.diff(&[], &paths)? };
        let text = since.map_or(text.clone(), |since| since::hunks_of(&text, &since));
        review.waiting = vec![shown];
        review.side = new_side(&text);
        review.local = self.problems(&asked, &review.side, rules)?;
        Ok((text, review))
    }

    /// Looks at a change without a model; paths are relative to the workspace.
    ///
    /// Errors with the reason alone.
    pub fn local(&self, kind: DiffKind, range: Option<&str>) -> Result<Looked, String> {
        let asked = self.ask(kind, range, &Choice::default())?;
        let findings = self.problems(&asked, &NewSide::new(), &LocalRule::ALL)?;
        let texts = asked.files.iter().filter(|(file, _, class)| class.is_none() && file.status != 'D').count();
        Ok(Looked { findings, files: asked.files.len(), texts })
    }

    fn ask(&self, kind: DiffKind, range: Option<&str>, choice: &Choice) -> Result<Asked, String> {
        let repository = self.repository;
        let git = repository.without_filters().map_err(|error| error.to_string())?;
        let git = git_of(git, self.from_hook).with_patterns();
        let (git, _index) = match kind {
            DiffKind::Worktree | DiffKind::Range => {
                let with_own = repository.with_private_index(git).map_err(|error| error.to_string())?;
                (with_own.0, Some(with_own.1))
            }
            DiffKind::Staged => (git, None),
        };
        let mut change: Vec<String> = match (kind, range) {
            (DiffKind::Staged, _) => vec!["--cached".into()],
            (DiffKind::Worktree, _) => vec![repository.head.clone().unwrap_or_else(|| EMPTY_TREE.into())],
            (DiffKind::Range, Some(range)) => {
                require_commits(&git, range)?;
                vec!["--end-of-options".into(), range.to_owned()]
            }
            (DiffKind::Range, None) => return Err("`diff: range` without a range".into()),
        };
        change.push("--".into());
        let change: Vec<OsString> = change.into_iter().map(OsString::from).collect();
        let raw = ["diff", "--raw", "--numstat", "-z", "--no-abbrev", "--no-renames", "--no-ext-diff", "--no-textconv"];
        let words: Vec<OsString> = raw.into_iter().map(OsString::from).chain(change.iter().cloned()).collect();
        let files = local::changed(&git.run(&words, b"").map_err(|error| error.to_string())?);
        let (may_read, contents) = (self.policy.reader(self.facts), repository.contents());
        let mut files: Vec<_> =
            files.into_iter().map(|file| self.classed(file, &may_read, &contents, choice)).collect();
        if choice.generated == Generated::Skip {
            let base = self.base(&git, kind, range);
            mark_generated(&mut files, &git, base.as_deref(), &contents);
        }
        let prefix = &repository.prefix;
        let relative = (!prefix.is_root()).then(|| format!("--relative={prefix}/"));
        let right = range.filter(|_| kind == DiffKind::Range).and_then(right_of).unwrap_or_else(|| "HEAD".to_owned());
        Ok(Asked { git, relative, change, files, right, _index })
    }

    /// Returns the commit that a change starts from: what it says of a file, the change cannot say of itself.
    fn base(&self, git: &Git, kind: DiffKind, range: Option<&str>) -> Option<String> {
        let of_both = |left: &str, right: &str| {
            let named = |side: &str| if side.is_empty() { "HEAD".to_owned() } else { side.to_owned() };
            git.line(&["merge-base", "--end-of-options", &named(left), &named(right)], b"").ok()
        };
        let commit = match (kind, range?.split_once("..."), range?.split_once("..")) {
            (DiffKind::Range, Some((left, right)), _) => of_both(left, right),
            (DiffKind::Range, None, Some((left, _))) => Some(left.to_owned()),
            (DiffKind::Range, None, None) => range.map(str::to_owned),
            (DiffKind::Staged | DiffKind::Worktree, ..) => self.repository.head.clone(),
        };
        commit.filter(|commit| !commit.is_empty() && !commit.starts_with('-'))
    }

    /// Looks for these rules in all files of the workspace, also in those that `shown` does not have.
    fn problems(&self, asked: &Asked, shown: &NewSide, rules: &[LocalRule]) -> Result<Vec<Finding>, String> {
        if rules.is_empty() {
            return Ok(Vec::new());
        }
        let inside = asked.files.iter().filter(|(_, _, class)| *class != Some(Class::Outside));
        let inside: Vec<_> = inside.filter(|(file, ..)| file.status != 'D').collect();
        let hidden: Vec<OsString> = inside
            .iter()
            .filter(|(_, path, class)| !shown.contains_key(path) && *class != Some(Class::Binary))
            .map(|(file, ..)| named(file, ""))
            .collect();
        let mut unseen = NewSide::new();
        for paths in hidden.chunks(PATHS) {
            unseen.extend(new_side(&asked.diff(&["--no-renames", "-U0"], paths)?));
        }
        let contents = self.repository.contents();
        for (file, path, class) in &inside {
            if let (Some(Class::Binary), Some(top)) = (class, RelPath::from_bytes(&file.path)) {
                let lines = contents.added_lines(&file.id, &file.base_id, &top);
                unseen.insert(path.clone(), lines.into_iter().map(|(number, line)| (number, (line, true))).collect());
            }
        }
        let is_ignored = |path: &str, digest: &str| self.policy.ignores_secret(path, digest);
        let links = links(&inside, |path| shown.get(path).or_else(|| unseen.get(path)));
        let link_at = |path: &str| match links.get(path) {
            Some(target) => target.clone(),
            None => contents.link_at(&asked.right, path),
        };
        let text_of = |file: &Changed| contents.text(&file.id, &RelPath::from_bytes(&file.path)?);
        let (is_ignored, link_at, text_of) = (&is_ignored, &link_at, &text_of);
        let rules = Rules { wanted: rules, secrets: self.secrets, is_ignored, link_at, text_of };
        let found = inside.iter().flat_map(|(file, path, _)| {
            let lines = shown.get(path).or_else(|| unseen.get(path));
            local::problems(file, path, lines, &rules)
        });
        Ok(found.collect())
    }

    /// Returns the path of a file as findings name it, and why a model is not shown it.
    pub(super) fn classed(
        &self,
        file: Changed,
        may_read: &dyn Fn(&RelPath) -> bool,
        contents: &Contents<'_>,
        choice: &Choice,
    ) -> Classed {
        let top = RelPath::from_bytes(&file.path);
        let inside = top.as_ref().and_then(|path| RelPath::below(self.repository.prefix.as_path(), path.as_path()));
        let (Some(top), Some(inside)) = (top, inside) else {
            let path = String::from_utf8_lossy(&file.path).into_owned();
            return (file, path, Some(Class::Outside));
        };
        let class = match () {
            () if !may_read(&inside) => Some(Class::Denied),
            () if file.is_link() => Some(Class::Link),
            () if file.is_submodule() => Some(Class::Submodule),
            () if contents.is_binary(&file.id, &top) => Some(Class::Binary),
            () if choice.excludes(&inside.to_string_lossy()) => Some(Class::Excluded),
            () => None,
        };
        (file, inside.to_string_lossy(), class)
    }
}

/// Returns what a change makes of paths: the targets of links, `None` of other files.
fn links<'s>(files: &[&Classed], side: impl Fn(&str) -> Option<&'s Shown>) -> BTreeMap<String, Option<String>> {
    let target = |file: &Changed, path: &str| {
        let line = side(path).filter(|_| file.is_link())?.values().next()?;
        Some(line.0.clone())
    };
    let entry = |(file, path, _): &&Classed| (String::from_utf8_lossy(&file.path).into_owned(), target(file, path));
    files.iter().map(entry).collect()
}

/// A file of a change, its path as findings name it, and why a model is not shown it.
pub(super) type Classed = (Changed, String, Option<Class>);

/// Marks the files that programs write: by their names, by the attributes of the base, by what they began with there.
fn mark_generated(files: &mut [Classed], git: &Git, base: Option<&str>, contents: &Contents<'_>) {
    let unmarked = files.iter_mut().filter(|(_, _, class)| class.is_none());
    let unmarked: Vec<_> = unmarked.map(|(file, _, class)| (&*file, class)).collect();
    let paths = unmarked.iter().flat_map(|(file, _)| [file.path.as_slice(), b"\0"].concat()).collect::<Vec<u8>>();
    let by_attribute = base.map(|base| linguist(git, base, &paths)).unwrap_or_default();
    for (file, class) in unmarked {
        let begins = || contents.beginning(&file.base_id).is_some_and(|bytes| says_generated(&bytes));
        if is_generated(&file.path) || by_attribute.contains(&file.path) || begins() {
            *class = Some(Class::Generated);
        }
    }
}

/// Returns those of these paths that GitHub would not show either, by the attributes of a commit. A git before 2.40
/// cannot tell.
fn linguist(git: &Git, commit: &str, paths: &[u8]) -> BTreeSet<Vec<u8>> {
    let source = format!("--source={commit}");
    let words = ["check-attr", &source, "-z", "--stdin", "linguist-generated", "linguist-vendored"];
    let answer = if paths.is_empty() { Vec::new() } else { git.run(&words, paths).unwrap_or_default() };
    let words: Vec<&[u8]> = answer.split(|byte| *byte == 0).collect();
    let is_set = |value: &[u8]| [&b"set"[..], b"true"].contains(&value);
    words.chunks_exact(3).filter(|words| is_set(words[2])).map(|words| words[0].to_vec()).collect()
}

/// Names a file for git, whatever its letters mean elsewhere.
fn named(file: &Changed, magic: &str) -> OsString {
    OsString::from_vec([format!(":(top,{magic}literal)").as_bytes(), file.path.as_slice()].concat())
}

/// Refuses a range of anything but commits and the empty tree: in the tree of a directory, files have other paths than
/// the rules name.
fn require_commits(git: &Git, range: &str) -> Result<(), String> {
    if range.starts_with('-') {
        return Err(format!("`{range}` looks like an option"));
    }
    let named = git.line(&["rev-parse", "--revs-only", range], b"").map_err(|error| error.to_string())?;
    let ids: Vec<&str> = named.lines().map(|id| id.trim_start_matches('^')).filter(|id| *id != EMPTY_TREE).collect();
    let asked: String = ids.iter().map(|id| format!("{id}^{{}}\n")).collect();
    let kinds = git.line(&["cat-file", "--batch-check=%(objecttype)"], asked.as_bytes());
    let kinds = kinds.map_err(|error| error.to_string())?;
    match named.is_empty() || kinds.lines().any(|kind| kind != "commit") {
        true => Err(format!("`{range}` does not name commits")),
        false => Ok(()),
    }
}

/// Returns where git has the files as they are after the change.
fn right(kind: DiffKind, range: Option<&str>) -> Option<String> {
    match kind {
        DiffKind::Staged => Some(String::new()),
        DiffKind::Worktree => None,
        DiffKind::Range => right_of(range?),
    }
}

/// Returns the right side of a range of commits; `None` where only one commit is named.
pub fn right_of(range: &str) -> Option<String> {
    let (_, right) = range.split_once("...").or_else(|| range.split_once(".."))?;
    Some(if right.is_empty() { "HEAD" } else { right }.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_after_a_change_are_those_of_its_right_side() {
        for (range, side) in [("a...b/c", Some("b/c")), ("v1..", Some("HEAD")), ("a..b", Some("b")), ("v1", None)] {
            assert_eq!(right(DiffKind::Range, Some(range)).as_deref(), side, "{range}");
        }
        assert_eq!((right(DiffKind::Worktree, None), right(DiffKind::Staged, None)), (None, Some(String::new())));
    }
}
