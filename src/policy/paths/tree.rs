//! Judges reading everything below a directory.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::resolve::{PathRules, Place, Resolved};
use super::walk::{MAX_WALK, strip_tail, walk};
use crate::path::{Node, RelPath};
use crate::policy::decision::Denial;
use crate::policy::effect::Pattern;

/// A recursive read, as [`Effect::ReadTree`] has it.
pub(crate) struct TreeRead<'a> {
    pub(crate) path: &'a str,
    pub(crate) follow_links: bool,
    pub(crate) left_out: &'a [Pattern],
    pub(crate) only: &'a [Pattern],
    pub(crate) skips_hidden: bool,
}

impl PathRules<'_> {
    /// Judges reading everything below a path that is not left out.
    pub(crate) fn read_tree(&self, folder: &RelPath, tree: &TreeRead<'_>) -> Result<(), Denial> {
        let (resolved, place) = self.inside(folder, Path::new(tree.path))?;
        if resolved.node != Some(Node::Dir) {
            return self.read_resolved(&resolved, &place, tree.path);
        }
        let start = match &place {
            Place::Workspace(path) | Place::Included(path) => path.clone(),
            Place::Outputs(_) => return Ok(()),
        };
        // A directory that is denied as a whole is denied whether or not anything is in it.
        if let Some(denial) = self.read_denied(&start, tree.path).or_else(|| self.contents_denied(&start, tree.path)) {
            return Err(denial);
        }
        let root = &self.facts.root;
        let reading = Reading {
            rules: self,
            tree,
            left_out: tree.left_out.iter().map(|out| Sieve::new(out, false)).collect::<Result<Vec<_>, _>>()?,
            only: tree.only.iter().map(|only| Sieve::new(only, true)).collect::<Result<Vec<_>, _>>()?,
            base: match &place {
                Place::Workspace(_) => root.clone(),
                _ => strip_tail(&resolved.absolute, &start),
            },
            here: format!("{}/", folder.under(root).display()),
        };
        let mut left = MAX_WALK;
        let mut seen = HashSet::new();
        let mut starts = vec![(start, false)];
        while let Some((start, through_link)) = starts.pop() {
            if !seen.insert((start.clone(), through_link)) {
                continue;
            }
            for link in reading.below(&start, through_link, &mut left)? {
                starts.extend(reading.follow(&link)?.map(|path| (path, true)));
            }
        }
        Ok(())
    }
}

// A recursive read of a directory.
struct Reading<'a> {
    rules: &'a PathRules<'a>,
    tree: &'a TreeRead<'a>,
    left_out: Vec<Sieve>,
    only: Vec<Sieve>,
    /// The root that paths are below.
    base: PathBuf,
    /// The directory from which the program starts, with a slash.
    here: String,
}

impl Reading<'_> {
    // Judges what is below a directory, and returns the links there that are followed.
    fn below(&self, start: &RelPath, through_link: bool, left: &mut usize) -> Result<Vec<RelPath>, Denial> {
        let mut linked = Vec::new();
        let mut visit = |path: &RelPath, node: &Node| {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let whole = path.to_string_lossy();
            let below = whole.strip_prefix(&start.to_string_lossy()).unwrap_or(&whole).trim_start_matches('/');
            let shown = format!("{}/{below}", self.tree.path.trim_end_matches('/'));
            // What is found through a link has the link's path there.
            let shown = (!through_link).then(|| shown.strip_prefix(&self.here).unwrap_or(&shown));
            let matches = |sieve: &Sieve, unknown| sieve.is_match(shown, &name, *node == Node::Dir, unknown);
            if path != start
                && (self.tree.skips_hidden && name.starts_with('.')
                    || self.left_out.iter().any(|sieve| matches(sieve, false)))
            {
                return Ok(false);
            }
            match node {
                Node::Dir => {}
                Node::Link(_) if !self.tree.follow_links => {}
                Node::Link(_) => linked.push(path.clone()),
                Node::File { .. } | Node::Other => {
                    if self.only.is_empty() || self.only.iter().any(|sieve| matches(sieve, true)) {
                        let absolute = path.under(&self.base);
                        let found = Resolved { absolute, last_is_link: false, node: Some(node.clone()) };
                        let read = self.rules.read_resolved(&found, &Place::Workspace(path.clone()), &path.to_string());
                        read.map_err(|denial| if is_git(path) { leave_out_git(denial) } else { denial })?;
                    }
                }
            }
            Ok(true)
        };
        walk(self.rules.tree(), &self.base, start, left, &mut visit)?;
        Ok(linked)
    }

    // Judges what a link leads to; a directory is returned, to be judged like the first one.
    fn follow(&self, link: &RelPath) -> Result<Option<RelPath>, Denial> {
        // A circle or a dangling link has no contents; where it would lead is still judged.
        let (resolved, place) = match self.rules.inside(&RelPath::root(), &link.under(&self.base)) {
            Err(denial) if denial.rule.as_ref().is_some_and(|rule| rule.rule == "F1") => return Ok(None),
            other => other?,
        };
        match (&resolved.node, place) {
            (Some(Node::Dir), Place::Workspace(path)) => {
                self.rules.read_denied(&path, &link.to_string()).map_or(Ok(Some(path)), Err)
            }
            (_, place) => self.rules.read_resolved(&resolved, &place, &link.to_string()).map(|()| None),
        }
    }
}

fn is_git(path: &RelPath) -> bool {
    path.to_string_lossy().split('/').any(|part| part == ".git")
}

fn leave_out_git(denial: Denial) -> Denial {
    match denial.hint {
        Some(_) => denial,
        None => denial.hint("search with `git grep -n`, or leave the directory out: `grep -r --exclude-dir=.git`"),
    }
}

// A pattern of a program, compiled.
struct Sieve {
    glob: globset::GlobMatcher,
    pattern: Pattern,
    by_path: bool,
}

impl Sieve {
    /// `keeps`: it says what is read, and not what is left out.
    fn new(pattern: &Pattern, keeps: bool) -> Result<Sieve, Denial> {
        let (Pattern::File(text)
        | Pattern::Directory(text)
        | Pattern::Name(text)
        | Pattern::PathEnd(text)
        | Pattern::Ignore(text)) = pattern;
        let unclear = || Denial::new(format!("the pattern `{text}` cannot be analysed"));
        // Classes of letters have names there, and not here.
        if ["[:", "[.", "[="].iter().any(|class| text.contains(class)) {
            return Err(unclear());
        }
        let ignore = matches!(pattern, Pattern::Ignore(_));
        let plain = match pattern {
            Pattern::Directory(_) | Pattern::Ignore(_) => text.trim_end_matches('/'),
            Pattern::File(_) | Pattern::Name(_) | Pattern::PathEnd(_) => text,
        };
        let by_path = ignore && plain.contains('/');
        let glob = if ignore {
            plain.trim_start_matches('/').to_owned()
        } else if plain.contains(['{', '}']) {
            if plain.contains('[') {
                return Err(unclear());
            }
            plain.replace('{', "[{]").replace('}', "[}]")
        } else {
            plain.to_owned()
        };
        let slashes = !matches!(pattern, Pattern::PathEnd(_));
        // Such a pattern may be one that knows no case (`--iglob`): what it may read counts.
        let mut builder = globset::GlobBuilder::new(&glob);
        let builder = builder.literal_separator(slashes).case_insensitive(ignore && keeps);
        let glob = builder.build().map_err(|_| unclear())?;
        Ok(Sieve { glob: glob.compile_matcher(), pattern: pattern.clone(), by_path })
    }

    /// `shown` is the path as the program sees it: its operand first, or relative to the directory that it works in. If
    /// that is unknown, `unknown` is the answer for a pattern on paths.
    fn is_match(&self, shown: Option<&str>, name: &str, is_folder: bool, unknown: bool) -> bool {
        match &self.pattern {
            Pattern::File(_) => !is_folder && self.glob.is_match(name),
            Pattern::Directory(_) => is_folder && self.glob.is_match(name),
            Pattern::Name(_) => self.glob.is_match(name),
            Pattern::PathEnd(_) => shown.map_or(unknown, |shown| {
                let ends = shown.match_indices('/').map(|(at, _)| &shown[at + 1..]);
                std::iter::once(shown).chain(ends).any(|end| self.glob.is_match(end))
            }),
            Pattern::Ignore(text) if text.ends_with('/') && !is_folder => false,
            Pattern::Ignore(_) if self.by_path => {
                shown.map_or(unknown, |shown| self.glob.is_match(shown.strip_prefix("./").unwrap_or(shown)))
            }
            Pattern::Ignore(_) => self.glob.is_match(name),
        }
    }
}
