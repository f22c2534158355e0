//! Reads the lines of an ignore file, and matches paths with them as git does.

use super::kinds::Kind;

/// One line of an ignore file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    /// `!`: what matches is not ignored.
    negated: bool,
    /// A trailing slash: only directories match.
    folders_only: bool,
    /// A slash elsewhere: the whole path is matched, not the last name.
    anchored: bool,
    what: What,
}

/// The pattern, with short cuts for what most lines are.
#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    /// No special character.
    Literal(Vec<u8>),
    /// `*` and then no special character, against a name.
    Suffix(Vec<u8>),
    /// What precedes the first special character, and the rest. Git compares the former by itself, so that two stars after
    /// it are at the start of a pattern: `/a**` crosses directories.
    Glob(Vec<u8>, Vec<u8>),
}

pub(super) fn last_match(patterns: &[Pattern], path: &[u8], kind: Kind) -> Option<bool> {
    let name = &path[path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1)..];
    let matches = |pattern: &&Pattern| {
        if pattern.folders_only && kind != Kind::Folder {
            return false;
        }
        let text = if pattern.anchored { path } else { name };
        match &pattern.what {
            What::Literal(literal) => text == literal,
            What::Suffix(suffix) => text.ends_with(suffix),
            What::Glob(start, glob) => text.strip_prefix(&**start).is_some_and(|rest| wildmatch(glob, rest)),
        }
    };
    patterns.iter().rev().find(matches).map(|pattern| !pattern.negated)
}

pub(super) fn parse(text: &[u8]) -> Vec<Pattern> {
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
    let first_special = |text: &[u8]| text.iter().position(|byte| matches!(byte, b'*' | b'?' | b'[' | b'\\'));
    let what = match (first_special(line), line.strip_prefix(b"*")) {
        (None, _) => What::Literal(line.to_vec()),
        (Some(_), Some(rest)) if !anchored && first_special(rest).is_none() => What::Suffix(rest.to_vec()),
        (Some(at), _) => What::Glob(line[..at].to_vec(), line[at..].to_vec()),
    };
    Some(Pattern { negated, folders_only, anchored, what })
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
///
/// Follows all ways through the text at once, so that no pattern takes longer than its length times that of the text.
pub fn wildmatch(pattern: &[u8], text: &[u8]) -> bool {
    // The places of the text up to which the pattern so far matches.
    let mut ends = vec![false; text.len() + 1];
    ends[0] = true;
    let mut p = 0;
    while p < pattern.len() && ends.contains(&true) {
        if pattern[p] == b'*' {
            p = follow_stars(pattern, p, text, &mut ends);
            continue;
        }
        let (length, matches): (usize, &dyn Fn(u8) -> bool) = match (pattern[p], pattern.get(p + 1)) {
            (b'?', _) => (1, &|byte| byte != b'/'),
            (b'[', _) => match class(&pattern[p + 1..], b'/') {
                Some((_, length)) => {
                    (1 + length, &|byte| byte != b'/' && class(&pattern[p + 1..], byte).is_some_and(|(is_in, _)| is_in))
                }
                None => return false,
            },
            (b'\\', Some(quoted)) => (2, &|byte| byte == *quoted),
            (b'\\', None) => return false,
            (plain, _) => (1, &move |byte| byte == plain),
        };
        for at in (0..text.len()).rev() {
            ends[at + 1] = ends[at] && matches(text[at]);
        }
        ends[0] = false;
        p += length;
    }
    ends[text.len()]
}

/// Follows the `*` at a place of the pattern, with those behind it; returns the place after them.
fn follow_stars(pattern: &[u8], p: usize, text: &[u8], ends: &mut [bool]) -> usize {
    let after = p + pattern[p..].iter().take_while(|byte| **byte == b'*').count();
    let rest = &pattern[after..];
    let bounded_before = p == 0 || pattern[p - 1] == b'/';
    let bounded_after = matches!(rest, [] | [b'/', ..] | [b'\\', b'/', ..]);
    let crosses = after - p >= 2 && bounded_before && bounded_after;
    if crosses && rest.first() == Some(&b'/') {
        // `**/` also matches no directory at all.
        let mut reached = false;
        for at in 0..text.len() {
            reached |= ends[at];
            ends[at + 1] |= reached && text[at] == b'/';
        }
        return after + 1;
    }
    for at in 0..text.len() {
        ends[at + 1] |= ends[at] && (crosses || text[at] != b'/');
    }
    after
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
        // Git's own: neither the vertical tab nor the form feed.
        b"space" => matches!(byte, b' ' | b'\t' | b'\n' | b'\r'),
        b"upper" => byte.is_ascii_uppercase(),
        b"xdigit" => byte.is_ascii_hexdigit(),
        _ => return None,
    })
}
