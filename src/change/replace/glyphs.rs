//! Chooses the characters of a written line: the file's own, where `old` shows others in their place.

use std::collections::BTreeMap;
use std::ops::Range;

use super::key::{group, is_blank_char, is_invisible, is_typographic_blank, look_alike};
use super::spot::Spot;

/// Characters of `old`, by their index among its characters other than whitespace, and the file's characters for them.
type Kept<'a> = (Range<usize>, &'a str);

/// What `old` shows for what is in the file.
pub(super) struct Glyphs<'a> {
    /// Characters beyond ASCII, and what the file has for them; `None` if that is not always the same.
    known: BTreeMap<&'a str, Option<&'a str>>,
    /// For each line of `old`, what the file must keep.
    kept: Vec<Vec<Kept<'a>>>,
    /// Spaces that look like a space, and invisible characters, that `old` has and the file has not.
    strays: Vec<char>,
    /// Those of which `old` has more than the file.
    mixed: Vec<char>,
    /// Whether `old` shows spaces at the ends of lines that have none.
    pub(super) trailing: bool,
}

/// Why a place cannot be given the file's characters.
pub(super) const MIXED: &str =
    "typographic and plain characters stand there side by side, and new_string does not show which is which";

/// Characters that are typed by one habit: single and double quotes, dashes, ellipses.
fn habit(c: char) -> Option<char> {
    look_alike(c).map(|plain| if plain == '"' { '\'' } else { plain })
}

fn is_odd(c: char) -> bool {
    is_typographic_blank(c) || is_invisible(c)
}

impl<'a> Glyphs<'a> {
    /// Compares the lines of a place.
    pub(super) fn new(text: &'a str, spot: &Spot, old: &[&'a str]) -> Glyphs<'a> {
        let place = &text[spot.range.clone()];
        let odd = old.iter().flat_map(|line| line.chars()).filter(|c| is_odd(*c));
        let (mixed, strays): (Vec<char>, Vec<char>) = odd.partition(|c| place.contains(*c));
        let is_more = |c: &char| mixed.iter().filter(|other| *other == c).count() > place.matches(*c).count();
        let mixed = mixed.iter().copied().filter(is_more).collect();
        let mut glyphs = Glyphs { known: BTreeMap::new(), kept: Vec::new(), strays, mixed, trailing: false };
        for (number, (old_line, line)) in old.iter().zip(&spot.lines).enumerate() {
            let line = &text[line.clone()];
            let is_ended = number + 1 < old.len() || !line.is_empty();
            glyphs.trailing |= old_line.ends_with(is_blank_char) && !line.ends_with(is_blank_char) && is_ended;
            let kept = if old_line.is_ascii() && line.is_ascii() { Vec::new() } else { glyphs.compare(old_line, line) };
            glyphs.kept.push(kept);
        }
        glyphs
    }

    fn compare(&mut self, old: &'a str, line: &'a str) -> Vec<Kept<'a>> {
        let (shown, there) = (groups(old), groups(line));
        let (mut a, mut b, mut from_a, mut from_b, mut at) = (0, 0, 0, 0, 0);
        let mut kept = Vec::new();
        while let (Some(one), Some(other)) = (shown.get(a), there.get(b)) {
            a += usize::from(one.key_end <= other.key_end);
            b += usize::from(other.key_end <= one.key_end);
            if one.key_end != other.key_end {
                // One group may stand for several: an ellipsis for three dots.
                continue;
            }
            let start = at;
            at += shown[from_a..a].iter().map(|group| group.source.len()).sum::<usize>();
            let (one, other) =
                (&old[shown[from_a].source.start..one.source.end], &line[there[from_b].source.start..other.source.end]);
            (from_a, from_b) = (a, b);
            if !one.is_ascii() {
                let known = self.known.entry(one).or_insert(Some(other));
                *known = known.filter(|known| *known == other);
            }
            if one != other || !one.is_ascii() {
                kept.push((start..at, other));
            }
        }
        kept
    }

    /// Removes from a line the spaces and invisible characters that only `old` has.
    pub(super) fn without_strays(&self, line: &str) -> String {
        let mut clean: String = line
            .chars()
            .filter_map(|c| match c {
                c if !self.is_stray(c) => Some(c),
                c if is_invisible(c) => None,
                _ => Some(' '),
            })
            .collect();
        if self.trailing {
            clean.truncate(clean.trim_end_matches(is_blank_char).len());
        }
        clean
    }

    /// Tells whether a line has spaces or invisible characters that `old` shows both as themselves and where the file
    /// has none.
    pub(super) fn is_mixed(&self, line: &str) -> bool {
        line.contains(&self.mixed[..])
    }

    fn is_stray(&self, c: char) -> bool {
        // Joiners combine several characters into one, and only `old` itself tells that they do not here.
        let is_joiner = matches!(c, '\u{200c}' | '\u{200d}');
        self.strays.contains(&c)
            || is_odd(c) && !is_joiner && self.strays.iter().any(|stray| is_invisible(*stray) == is_invisible(c))
    }

    /// Gives a line the file's characters: those that it keeps of the line of `old` that it replaces, and those for
    /// which `old` shows others.
    pub(super) fn restored(&self, line: &str, replaced: Option<(usize, &str)>) -> Result<String, &'static str> {
        if self.known.is_empty() && self.kept.iter().all(Vec::is_empty) {
            return Ok(line.to_owned());
        }
        let kept = replaced.map(|(number, old)| self.kept_in(line, number, old)).unwrap_or_default();
        let mut restored = String::with_capacity(line.len());
        let (mut at, mut solid) = (0, 0);
        while at < line.len() {
            let (length, key) = group(&line[at..]);
            if key.is_empty() {
                restored.push_str(&line[at..at + length]);
            } else if let Some((range, there)) = kept.iter().find(|(range, _)| range.contains(&solid)) {
                if range.start == solid {
                    restored.push_str(there);
                }
                solid += length;
            } else {
                restored.push_str(&self.instead(&line[at..at + length])?);
                solid += length;
            }
            at += length;
        }
        Ok(restored)
    }

    /// Returns what a line keeps of one of `old`: in what both begin and end with.
    fn kept_in(&self, line: &str, number: usize, old: &str) -> Vec<Kept<'a>> {
        let solid = |line: &str| groups(line).iter().map(|group| &line[group.source.clone()]).collect::<String>();
        let (old, line) = (solid(old), solid(line));
        let head = old.bytes().zip(line.bytes()).take_while(|(a, b)| a == b).count();
        let most = old.len().min(line.len()) - head;
        let tail = old.bytes().rev().zip(line.bytes().rev()).take(most).take_while(|(a, b)| a == b).count();
        let kept = self.kept[number].iter().filter_map(|(range, there)| {
            if range.end <= head {
                Some((range.clone(), *there))
            } else if range.start >= old.len() - tail {
                Some((range.start + line.len() - old.len()..range.end + line.len() - old.len(), *there))
            } else {
                None
            }
        });
        kept.collect()
    }

    /// Returns what is written for a group of characters.
    fn instead<'g>(&self, shown: &'g str) -> Result<std::borrow::Cow<'g, str>, &'static str>
    where
        'a: 'g,
    {
        let c = shown.chars().next().unwrap_or_default();
        let Some(habit_of) = habit(c) else {
            return Ok(self.known.get(shown).copied().flatten().unwrap_or(shown).into());
        };
        let plain = group(shown).1;
        let by_habit = |exactly: bool| {
            let known = self.known.iter().filter(|(known, _)| {
                let first = known.chars().next().unwrap_or_default();
                if exactly { look_alike(first) == look_alike(c) } else { habit(first) == Some(habit_of) }
            });
            known.fold((false, false), |(mapped, same), (known, there)| match there {
                Some(there) => (mapped || there != known, same || there == known),
                None => (true, true),
            })
        };
        match by_habit(true) {
            (true, true) => Err(MIXED),
            (true, false) => Ok(plain),
            (false, true) => Ok(shown.into()),
            (false, false) if by_habit(false) == (true, false) => Ok(plain),
            (false, false) => Ok(shown.into()),
        }
    }
}

struct Group {
    source: Range<usize>,
    /// Where it ends in the line's key.
    key_end: usize,
}

/// Splits a line into groups of characters other than whitespace.
fn groups(line: &str) -> Vec<Group> {
    let (mut at, mut key_end) = (0, 0);
    let mut groups = Vec::new();
    while at < line.len() {
        let (length, key) = group(&line[at..]);
        if !key.is_empty() {
            key_end += key.len();
            groups.push(Group { source: at..at + length, key_end });
        }
        at += length;
    }
    groups
}
