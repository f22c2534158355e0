//! Judges globs that a program expands itself, by the files that they match.

use std::path::Path;

use globset::GlobBuilder;

use super::spelling::could_match;
use super::table::Call;
use super::word::Word;
use crate::path::{Node, RelPath};
use crate::policy::decision::Denial;
use crate::policy::paths::{Place, walk};
use crate::policy::protected::{braces, names_secret};

/// Up to how many files are compared with a glob.
const FILES: usize = 100_000;

/// Directories that no tool takes in for a glob that does not name them.
const PASSED_OVER: [&str; 2] = [".git", "node_modules"];

impl Call<'_> {
    /// Judges a glob that the program expands: it must begin inside, match no file that is never read, and as one of files
    /// that are written not only such as may not be. What else it changes is judged afterwards, as below a directory.
    pub(crate) fn pattern(&mut self, text: &str, list: bool, writes: bool) -> Result<(), Denial> {
        let refused = || self.deny(format!("`{text}` may name a file that is never read")).by("F3");
        let spread = braces(text).filter(|spread| !spread.is_empty()).ok_or_else(refused)?;
        let extended = ["@(", "+(", "?(", "*(", "!("].iter().any(|start| text.contains(start));
        let is_open = extended || text.contains(['|', '\\']);
        if !self.is_open() && is_open {
            return Err(refused());
        }
        let mut paths = Vec::new();
        for path in spread.iter().flat_map(|path| path.split(|c| list && c == ',')) {
            let path = path.trim();
            let shape = path.replace(['(', ')'], "");
            let mut parts = shape.split('/').filter(|part| !matches!(*part, "" | "."));
            // A sequence such as `{a..z}`, or a step up after a wildcard.
            let climbs = shape.split('/').skip_while(|part| *part == "..").any(|part| part.contains(".."));
            let first = parts.next().unwrap_or_default();
            let is_plain = first.chars().all(|c| c == '*');
            // `.*` and `.e*` leave out nothing that is hidden.
            let hidden = |part: &str| {
                part.len() > 1
                    && part.starts_with('.')
                    && part.contains(['*', '?', '['])
                    && [".env", ".netrc"].iter().any(|name| could_match(part, name))
            };
            let aims = !is_plain && could_match(first, "secrets")
                || shape.split('/').any(|part| names_secret(part) || hidden(part));
            if climbs || aims {
                return Err(refused());
            }
            paths.push(path.to_owned());
        }
        for path in paths.iter().filter(|path| !path.is_empty()) {
            let parts: Vec<&str> = path.split('/').collect();
            let plain = parts.iter().take_while(|part| !part.contains(['*', '?', '['])).count();
            let (start, tail) = parts.split_at(plain);
            let start = if start == [""] { "/".to_owned() } else { start.join("/") };
            let start = if start.is_empty() { "." } else { &start };
            self.read(&Word::literal(start));
            if writes {
                self.write(&Word::literal(path.as_str()));
            }
            if !list && !tail.is_empty() {
                let tail = if is_open { "**".to_owned() } else { tail.join("/") };
                self.judge_matches(start, &tail, writes)?;
            }
        }
        Ok(())
    }

    /// Judges the files below a directory that a glob matches; names that begin with a dot count as others.
    fn judge_matches(&self, start: &str, glob: &str, writes: bool) -> Result<(), Denial> {
        let built = GlobBuilder::new(glob.trim_end_matches('/')).literal_separator(true).build();
        let matcher = built.map_err(|_| self.deny(format!("`{glob}` is not a glob")))?.compile_matcher();
        let paths = &self.cx.paths;
        let mut left = FILES;
        let (mut writable, mut refused) = (false, None);
        for folder in self.cx.folders {
            let resolved = paths.resolve(folder, Path::new(start))?;
            let Some(Place::Workspace(below)) = paths.place(&resolved.absolute) else { continue };
            let mut visit = |path: &RelPath, node: &Node| {
                let shown = path.to_string_lossy();
                let is_passed = path.file_name().is_some_and(|name| PASSED_OVER.iter().any(|passed| name == *passed));
                if *path == below || is_passed {
                    return Ok(*path == below);
                }
                let relative = if below.is_root() {
                    &*shown
                } else {
                    shown[below.to_string_lossy().len()..].trim_start_matches('/')
                };
                if !matcher.is_match(relative) {
                    return Ok(true);
                }
                let inner = if *node == Node::Dir { path.child("any") } else { None };
                let path = inner.as_ref().unwrap_or(path);
                if let Some(denial) = paths.read_denied(path, &shown) {
                    return Err(denial);
                }
                match writes.then(|| paths.write_denied(path, &shown)) {
                    Some(Some(denial)) => refused = refused.take().or(Some(denial)),
                    Some(None) => writable = true,
                    None => {}
                }
                Ok(true)
            };
            walk(paths.tree(), self.cx.root, &below, &mut left, &mut visit)?;
        }
        match refused {
            Some(denial) if !writable => Err(denial),
            Some(_) | None => Ok(()),
        }
    }
}
