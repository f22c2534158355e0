//! Judges globs that a program expands itself, by the files that they match.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use super::spelling::could_match;
use super::table::Call;
use super::word::Word;
use crate::path::{Node, RelPath};
use crate::policy::decision::Denial;
use crate::policy::effect::Effect;
use crate::policy::launchers::says_programs;
use crate::policy::paths::{Place, walk};
use crate::policy::protected::{braces, names_secret};

/// Up to how many files are compared with a glob.
const FILES: usize = 100_000;

/// How many links a glob may go through.
const LINKS: usize = 4;

/// Directories that no tool takes in for a glob that does not name them.
const PASSED_OVER: [&str; 2] = [".git", "node_modules"];

const WILD: [char; 3] = ['*', '?', '['];

impl Call<'_> {
    /// Judges a glob that the program expands: it must begin inside, match no file that is never read, and as one of files
    /// that are written not only such as may not be. What else it changes is judged afterwards, as below a directory.
    pub(crate) fn pattern(&mut self, text: &str, list: bool, writes: bool) -> Result<(), Denial> {
        let refused = self.deny(format!("`{text}` may name a file that is never read")).by("F3");
        let Some(spread) = braces(text).filter(|spread| !spread.is_empty()) else { return Err(refused) };
        let is_open = !is_plain(text);
        if !self.is_open() && is_open {
            return Err(refused);
        }
        let mut paths = Vec::new();
        for path in spread.iter().flat_map(|path| path.split(|c| list && c == ',')) {
            let path = path.trim();
            // Tools differ on what parentheses are: a part of the name, or a group.
            let shape = without_dots(&path.replace(['(', ')'], ""));
            let mut parts = shape.split('/').filter(|part| !part.is_empty());
            // A sequence such as `{a..z}`, or a step up after a wildcard.
            let classes_aside = shape.replace("[...", "[");
            let climbs = classes_aside.split('/').skip_while(|part| *part == "..").any(|part| part.contains(".."));
            let first = parts.next().unwrap_or_default();
            let is_any = first.chars().all(|c| c == '*');
            // `.e*` leaves out nothing that is hidden. `.*` alone is any text to most that are given it, and is judged by
            // the files that are there.
            let hidden = |part: &str| {
                part.len() > 1
                    && (writes || part != ".*")
                    && part.starts_with('.')
                    && part.contains(WILD)
                    && [".env", ".netrc", ".git"].iter().any(|name| could_match(part, name))
            };
            let aims = !is_any && could_match(first, "secrets")
                || shape.split('/').any(|part| names_secret(part) || hidden(part));
            if climbs || aims {
                return Err(refused);
            }
            let literal = without_dots(path);
            if self.node(&literal)?.is_some() {
                self.read(&Word::literal(literal.as_str()));
            }
            paths.extend((literal != shape).then_some(literal));
            paths.push(shape);
        }
        for path in paths.iter().filter(|path| !(path.is_empty() || list && path.starts_with('!'))) {
            let parts: Vec<&str> = path.split('/').collect();
            let plain = parts.iter().take_while(|part| !part.contains(WILD)).count();
            let (start, tail) = parts.split_at(plain);
            let start = if start == [""] { "/".to_owned() } else { start.join("/") };
            let start = if start.is_empty() { "." } else { &start };
            self.read(&Word::literal(start));
            if writes {
                self.write(&Word::literal(path.as_str()));
            }
            if !tail.is_empty() {
                // A name alone is one of files in any directory where a tool takes several.
                let anywhere = if list && parts.len() == 1 { "**/" } else { "" };
                let tail = if is_open { "**".to_owned() } else { format!("{anywhere}{}", tail.join("/")) };
                self.judge_matches(start, &tail, writes, LINKS)?;
            }
        }
        Ok(())
    }

    /// Judges the files below a directory that a glob matches; names that begin with a dot count as others. `links` is how
    /// many links it may go through.
    fn judge_matches(&mut self, start: &str, glob: &str, writes: bool, links: usize) -> Result<(), Denial> {
        let failed = |_| self.deny(format!("`{glob}` is not a glob"));
        let matcher = matcher(glob).map_err(failed)?;
        let begins = Beginnings::of(glob).map_err(failed)?;
        let paths = self.cx.paths;
        let (mut left, mut writable, mut refused, mut followed) = (FILES, false, None, Vec::new());
        let mut manifests = Vec::new();
        let formats = self.lays_out();
        for folder in self.cx.folders {
            let resolved = paths.resolve(folder, Path::new(start))?;
            let Some(Place::Workspace(below)) = paths.place(&resolved.absolute) else {
                // Where the words themselves begin is judged as what is read.
                if links < LINKS {
                    return Err(self.deny(format!("`{start}` leads outside of the workspace")));
                }
                continue;
            };
            let below_len = if below.is_root() { 0 } else { below.to_string_lossy().len() };
            let mut visit = |path: &RelPath, node: &Node| {
                let shown = path.to_string_lossy();
                let is_passed = path.file_name().is_some_and(|name| PASSED_OVER.iter().any(|passed| name == *passed));
                if *path == below || is_passed {
                    return Ok(*path == below);
                }
                let relative = shown[below_len..].trim_start_matches('/');
                let goes_on = glob.contains("**") || relative.split('/').count() < glob.split('/').count();
                let is_match = matcher.is_match(relative);
                if matches!(node, Node::Link(_)) {
                    let target = self.cx.root.join(&*shown);
                    followed.extend(begins.rests(relative).map(|rest| (target.clone(), rest)));
                    followed.extend(is_match.then(|| (target, String::new())));
                }
                if !is_match {
                    return Ok(goes_on);
                }
                let inner = if *node == Node::Dir { path.child("any") } else { None };
                let path = inner.as_ref().unwrap_or(path);
                if let Some(denial) = paths.read_denied(path, &shown) {
                    return Err(denial);
                }
                match writes.then(|| paths.write_denied(path, &shown)) {
                    Some(Some(denial)) => refused = refused.take().or(Some(denial)),
                    Some(None) => {
                        writable = true;
                        // What a launcher starts may be another program afterwards.
                        manifests.extend((!formats && says_programs(path)).then(|| path.under(self.cx.root)));
                    }
                    None => {}
                }
                Ok(goes_on)
            };
            walk(paths.tree(), self.cx.root, &below, &mut left, &mut visit)?;
        }
        let written = manifests.into_iter().map(|path| Effect::Write(path.to_string_lossy().into_owned()));
        self.out.effects.extend(written);
        self.through(glob, followed, writes, links)?;
        match refused {
            Some(denial) if !writable => Err(denial),
            Some(_) | None => Ok(()),
        }
    }

    /// Judges links that a glob matches, each with the rest of the glob behind it.
    fn through(
        &mut self,
        glob: &str,
        followed: Vec<(PathBuf, String)>,
        writes: bool,
        links: usize,
    ) -> Result<(), Denial> {
        for (link, rest) in followed {
            let link = link.to_string_lossy();
            self.cx.paths.effect(&Effect::Read(link.to_string()), &[RelPath::root()])?;
            if !rest.is_empty() {
                let left =
                    links.checked_sub(1).ok_or_else(|| self.deny(format!("`{glob}` goes through too many links")))?;
                self.judge_matches(&link, &rest, writes, left)?;
            }
        }
        Ok(())
    }
}

fn matcher(glob: &str) -> Result<GlobMatcher, globset::Error> {
    Ok(GlobBuilder::new(glob.trim_end_matches('/')).literal_separator(true).build()?.compile_matcher())
}

/// The beginnings of a glob, up to each of its parts but `**`, behind which most tools follow no link.
struct Beginnings(Vec<(GlobMatcher, String)>);

impl Beginnings {
    fn of(glob: &str) -> Result<Beginnings, globset::Error> {
        let parts: Vec<&str> = glob.trim_end_matches('/').split('/').collect();
        let ends = (1..parts.len()).filter(|end| parts[end - 1] != "**");
        ends.map(|end| Ok((matcher(&parts[..end].join("/"))?, parts[end..].join("/"))))
            .collect::<Result<_, _>>()
            .map(Beginnings)
    }

    /// Returns what of the glob is left behind a path, for each beginning that matches it.
    fn rests(&self, path: &str) -> impl Iterator<Item = String> {
        self.0.iter().filter(move |(matcher, _)| matcher.is_match(path)).map(|(_, rest)| rest.clone())
    }
}

/// Returns a path without empty parts and `.`.
fn without_dots(path: &str) -> String {
    let root = if path.starts_with('/') { "/" } else { "" };
    root.to_owned() + &path.split('/').filter(|part| !matches!(*part, "" | ".")).collect::<Vec<_>>().join("/")
}

/// Returns a glob of marks on which tools agree that matches all that one of them could take the text for.
pub(super) fn widened(text: &str) -> String {
    let (mut glob, mut before, mut rest) = (String::new(), '/', text);
    // Two marks take back each other.
    while let Some(behind) = rest.strip_prefix("!!") {
        rest = behind;
    }
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        let part = rest.find('/').unwrap_or(rest.len());
        let plain = rest.split_once(']').filter(|(set, _)| letter == '[' && is_plain_set(set));
        match (letter, plain) {
            ('\\', _) => {}
            (_, Some((set, behind))) => {
                // One letter is itself.
                let is_one = set.chars().count() == 1 && set.chars().all(|c| c.is_alphanumeric() || "._-".contains(c));
                glob += &if is_one { set.to_owned() } else { format!("[{set}]") };
                rest = behind;
            }
            ('[' | '(', None) => {
                let end = if letter == '(' { rest.rfind(')') } else { rest[..part].rfind(']') };
                let Some(end) = end else {
                    glob.push('?');
                    before = letter;
                    continue;
                };
                if rest[..end].contains('/') {
                    return "**".to_owned();
                }
                if "@!+?*".contains(before) {
                    glob.pop();
                }
                glob.push('*');
                rest = &rest[end + 1..];
            }
            ('+', None) if ")]}".contains(before) => glob.push('*'),
            (')' | ']' | '{' | '}', None) => glob.push('?'),
            (letter, None) => glob.push(letter),
        }
        before = match (letter, plain) {
            (_, Some(_)) | ('[', _) => ']',
            ('(', _) => ')',
            (letter, None) => letter,
        };
    }
    glob
}

/// Tells whether tools agree on what a glob means: `*`, `?`, braces, sets of characters and ranges of letters or digits, and
/// parentheses around a name, as directories of routes have them. Some take the rest for regular expressions.
fn is_plain(text: &str) -> bool {
    let mut before = '/';
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        let set = match letter {
            '|' | '\\' | ')' | ']' => return false,
            '+' if ")]}".contains(before) => return false,
            '(' => rest.split_once(')').filter(|(name, behind)| {
                !"@+?*!".contains(before)
                    && name.chars().all(|c| c.is_alphanumeric() || "._-".contains(c))
                    && !behind.starts_with(['+', '*', '?', '{', '('])
            }),
            '[' => rest.split_once(']').filter(|(set, _)| is_plain_set(set)),
            _ => {
                before = letter;
                continue;
            }
        };
        let Some((_, behind)) = set else { return false };
        before = if letter == '(' { ')' } else { ']' };
        rest = behind;
    }
    true
}

fn is_plain_set(set: &str) -> bool {
    let letters: Vec<char> = set.chars().collect();
    let same = |a: char, b: char| {
        [char::is_ascii_lowercase as fn(&char) -> bool, char::is_ascii_uppercase, char::is_ascii_digit]
            .iter()
            .any(|kind| kind(&a) && kind(&b))
    };
    let is_range_plain =
        |at: usize| letters[at] != '-' || at == 0 || at + 1 == letters.len() || same(letters[at - 1], letters[at + 1]);
    !set.is_empty()
        && !set.starts_with(['!', '^'])
        && !set.contains(['[', ':', '/', '='])
        && (0..letters.len()).all(is_range_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_is_plain_if_tools_agree_on_it() {
        for text in [
            "src/**/*.{js,ts}",
            "a?.py",
            "[a-z]*.rb",
            "app/(auth)/[...slug]/+page.tsx",
            "[A-Z0-9_-].js",
            "a+b.js",
            "**/!x",
        ] {
            assert!(is_plain(text), "{text}");
        }
        for text in [
            ".[a-z]+",
            ".(?:env)",
            "(a|b)",
            "!(a)",
            "@(a)",
            "a\\*",
            "(a)+",
            "(a)*",
            "{a,b}+",
            "[!a]",
            "[^a]",
            "[+-9]",
            "[[:alpha:]]",
            "[a",
            "(a",
            "(a+)",
            "[a-Z]",
            "a]",
        ] {
            assert!(!is_plain(text), "{text}");
        }
    }

    #[test]
    fn beginnings_end_before_each_part_but_any() {
        let rests = |glob: &str, path: &str| Beginnings::of(glob).unwrap().rests(path).collect::<Vec<_>>();
        assert_eq!(rests("sl*/token.txt", "slink"), ["token.txt"]);
        assert_eq!(rests("**/a/*.md", "x/a"), ["*.md"]);
        assert!(rests("**/*.md", "x").is_empty());
        assert_eq!(without_dots("/a//./b/."), "/a/b");
    }
}
