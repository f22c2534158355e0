//! Expands pathnames against the files that the policy sees.

use std::path::{Path, PathBuf};

use crate::path::{Node, Tree};
use crate::policy::decision::Denial;

/// Maximum names that one command's globs may look at.
const NAMES_CAP: usize = 100_000;
const LINKS_CAP: usize = 40;

/// A character of a word and whether it was quoted.
pub(super) type Bit = (char, bool);

enum Item {
    Char(char),
    Any,
    Many,
    Class { negated: bool, ranges: Vec<(char, char)>, classes: Vec<String> },
}

/// What a glob asks besides the tree: which directory texts may be listed.
pub(super) struct Globber<'a> {
    pub(super) tree: &'a dyn Tree,
    /// The directory that relative patterns start from.
    pub(super) folder: PathBuf,
    /// Tells whether names in a directory (as written) may be listed.
    pub(super) may_list: &'a dyn Fn(&str) -> Result<(), Denial>,
}

/// Tells whether a word has a character that could make it a pattern.
pub(super) fn is_active(bits: &[Bit]) -> bool {
    bits.iter().any(|(c, quoted)| !quoted && matches!(c, '*' | '?' | '['))
}

impl Globber<'_> {
    /// Returns the files that a pattern matches, sorted by bytes; nothing if it is not a pattern or nothing matches.
    pub(super) fn expand(&self, bits: &[Bit]) -> Result<Vec<String>, Denial> {
        let mut parts = Vec::new();
        for part in bits.split(|(c, _)| *c == '/') {
            parts.push((part.iter().map(|(c, _)| *c).collect::<String>(), compile(part)?));
        }
        if parts.iter().all(|(_, items)| items.is_none()) {
            return Ok(Vec::new());
        }
        let last = parts.len() - 1;
        if parts.iter().enumerate().any(|(at, (text, _))| text.is_empty() && at > 0 && at < last) {
            return Err(Denial::unanalysable("`//` in a glob").hint("write one slash"));
        }
        let mut found = vec![String::new()];
        let mut by_pattern = false;
        let mut seen = 0_usize;
        for (at, (text, items)) in parts.iter().enumerate() {
            let mut next = Vec::new();
            for prefix in &found {
                let names = match items {
                    None => vec![text.clone()],
                    Some(items) => self.names(prefix, items, by_pattern)?,
                };
                seen += names.len();
                if seen > NAMES_CAP {
                    return Err(Denial::unanalysable("a glob matches too many names").hint("use the glob tool"));
                }
                let slash = if at < last { "/" } else { "" };
                next.extend(names.into_iter().map(|name| format!("{prefix}{name}{slash}")));
            }
            by_pattern |= items.is_some();
            found = next;
        }
        let mut files = Vec::new();
        for path in found {
            if self.exists(&path)? {
                files.push(path);
            }
        }
        files.sort_unstable();
        Ok(files)
    }

    /// Returns the names below a directory that match; a directory that the pattern itself chose and that may not be
    /// listed counts as empty, as it is in the sandbox.
    fn names(&self, prefix: &str, items: &[Item], by_pattern: bool) -> Result<Vec<String>, Denial> {
        let shown = if prefix.is_empty() { "." } else { prefix };
        match (self.may_list)(shown) {
            Ok(()) => {}
            Err(_) if by_pattern => return Ok(Vec::new()),
            Err(denial) => return Err(denial),
        }
        let Some((folder, Node::Dir)) = self.resolve(Path::new(shown), true)? else { return Ok(Vec::new()) };
        let names = self.tree.names(&folder).map_err(|error| unreadable(&folder, &error))?;
        let mut matching = Vec::new();
        for name in names {
            match name.to_str() {
                Some(name) if matches_name(items, name) => matching.push(name.to_owned()),
                None if matches_name(items, &name.to_string_lossy()) => {
                    return Err(Denial::unanalysable("a glob matches a name that is not UTF-8"));
                }
                Some(_) | None => {}
            }
        }
        Ok(matching)
    }

    fn exists(&self, path: &str) -> Result<bool, Denial> {
        if path.is_empty() {
            return Ok(false);
        }
        // Both ask for a directory, and `Path` forgets the dot.
        let follow = path.ends_with('/') || path.ends_with("/.");
        Ok(match self.resolve(Path::new(path), follow)? {
            Some((_, Node::Dir)) => true,
            Some(_) => !follow,
            None => false,
        })
    }

    /// Follows a path to what is there, and the last link too if `follow`.
    fn resolve(&self, path: &Path, follow: bool) -> Result<Option<(PathBuf, Node)>, Denial> {
        let mut waiting: Vec<std::ffi::OsString> =
            self.folder.join(path).components().map(|c| c.as_os_str().to_owned()).rev().collect();
        let mut at = PathBuf::new();
        let mut node = Node::Dir;
        let mut links = 0;
        while let Some(part) = waiting.pop() {
            if part == ".." {
                at.pop();
                node = Node::Dir;
                continue;
            }
            at.push(&part);
            if part == "/" || part == "." {
                continue;
            }
            node = match self.tree.look(&at) {
                Ok(Some(node)) => node,
                Ok(None) => return Ok(None),
                Err(error) => return Err(unreadable(&at, &error)),
            };
            match &node {
                Node::Link(target) if follow || !waiting.is_empty() => {
                    links += 1;
                    if links > LINKS_CAP {
                        return Ok(None);
                    }
                    at.pop();
                    waiting.extend(target.components().rev().map(|c| c.as_os_str().to_owned()));
                    node = Node::Dir;
                }
                Node::Dir | Node::Link(_) => {}
                Node::File { .. } | Node::Other if !waiting.is_empty() => return Ok(None),
                Node::File { .. } | Node::Other => {}
            }
        }
        Ok(Some((at, node)))
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Denial {
    Denial::new(format!("a glob cannot look at {}: {error}", path.display()))
}

/// Makes a pattern of one path component; `None` if nothing in it is special.
fn compile(bits: &[Bit]) -> Result<Option<Vec<Item>>, Denial> {
    let mut items = Vec::new();
    let mut at = 0;
    let mut close_searches = true;
    while let Some((c, quoted)) = bits.get(at).copied() {
        at += 1;
        items.push(match c {
            '*' if !quoted => Item::Many,
            '?' if !quoted => Item::Any,
            '[' if !quoted && close_searches => match class(&bits[at..])? {
                Some((item, length)) => {
                    at += length;
                    item
                }
                None => {
                    // Nothing closes this one, so nothing closes a later one either.
                    close_searches = false;
                    Item::Char(c)
                }
            },
            c => Item::Char(c),
        });
    }
    Ok(items.iter().any(|item| !matches!(item, Item::Char(_))).then_some(items))
}

/// Reads a bracket expression after its `[`; `None` if it does not end.
fn class(bits: &[Bit]) -> Result<Option<(Item, usize)>, Denial> {
    let is = |at: usize, c: char| bits.get(at) == Some(&(c, false));
    let negated = is(0, '!') || is(0, '^');
    let first = usize::from(negated);
    let mut at = first;
    let (mut ranges, mut classes) = (Vec::new(), Vec::new());
    loop {
        let Some((c, quoted)) = bits.get(at).copied() else { return Ok(None) };
        if c == ']' && !quoted && at > first {
            return Ok(Some((Item::Class { negated, ranges, classes }, at + 1)));
        }
        if c == '[' && !quoted {
            if is(at + 1, '=') || is(at + 1, '.') {
                return Err(Denial::unanalysable("`[=` and `[.` in a glob"));
            }
            if is(at + 1, ':') {
                let name: String =
                    bits[at + 2..].iter().map(|(c, _)| *c).take_while(char::is_ascii_lowercase).collect();
                let end = at + 2 + name.len();
                if !CLASSES.contains(&name.as_str()) || !is(end, ':') || !is(end + 1, ']') {
                    return Err(Denial::unanalysable("a class in a glob that is not known"));
                }
                classes.push(name);
                at = end + 2;
                continue;
            }
        }
        if is(at + 1, '-') && bits.get(at + 2).is_some_and(|bit| *bit != (']', false)) {
            let Some((end, _)) = bits.get(at + 2).copied() else { return Ok(None) };
            if end == '[' {
                return Err(Denial::unanalysable("a range to `[` in a glob"));
            }
            ranges.push((c, end));
            at += 3;
        } else {
            ranges.push((c, c));
            at += 1;
        }
    }
}

const CLASSES: [&str; 12] =
    ["alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "xdigit"];

fn in_class(name: &str, c: char) -> bool {
    match name {
        "alnum" => c.is_alphanumeric(),
        "alpha" => c.is_alphabetic(),
        "blank" => c == ' ' || c == '\t',
        "cntrl" => c.is_control(),
        "digit" => c.is_ascii_digit(),
        "graph" => !c.is_control() && !c.is_whitespace(),
        "lower" => c.is_lowercase(),
        "print" => !c.is_control(),
        "punct" => c.is_ascii_punctuation(),
        "space" => c.is_whitespace(),
        "upper" => c.is_uppercase(),
        _ => c.is_ascii_hexdigit(),
    }
}

fn matches_item(item: &Item, c: char) -> bool {
    match item {
        Item::Char(expected) => *expected == c,
        Item::Any | Item::Many => true,
        Item::Class { negated, ranges, classes } => {
            let inside = ranges.iter().any(|(from, to)| (*from..=*to).contains(&c))
                || classes.iter().any(|name| in_class(name, c));
            inside != *negated
        }
    }
}

fn matches_name(items: &[Item], name: &str) -> bool {
    if name.starts_with('.') && !matches!(items.first(), Some(Item::Char('.'))) {
        return false;
    }
    let name: Vec<char> = name.chars().collect();
    let (mut item, mut at) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        match items.get(item) {
            Some(Item::Many) => {
                star = Some((item + 1, at));
                item += 1;
                continue;
            }
            Some(single) if at < name.len() && matches_item(single, name[at]) => {
                item += 1;
                at += 1;
                continue;
            }
            None if at == name.len() => return true,
            Some(_) | None => {}
        }
        let Some((after, from)) = star.filter(|(_, from)| *from < name.len()) else { return false };
        star = Some((after, from + 1));
        (item, at) = (after, from + 1);
    }
}
