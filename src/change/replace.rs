//! How an edit finds its place: stages of correction, each tried only if the one before found nothing.
//!
//! A stage never weighs probabilities: it states which differences do not count, and whatever is equal but for
//! these is a place. If their number is not the expected one the edit fails, and [`nearest`] helps the next one.

use std::collections::HashMap;
use std::ops::Range;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Which differences between `old` and the file did not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// None.
    Exact,
    /// Line ends, and a byte order mark.
    LineEnds,
    /// Typographic quotes, dashes and blanks, and how accents are composed.
    LookAlikes,
    /// Blanks at the ends of lines.
    TrailingBlanks,
    /// `\n`, `\"`, `\t` typed out.
    OverEscaped,
    /// Every line is indented by the same shift.
    Indentation,
    /// Blanks anywhere in a line.
    Blanks,
}

impl Stage {
    /// Returns what was overlooked, for the model; `None` if nothing was.
    pub fn overlooked(self) -> Option<&'static str> {
        match self {
            Stage::Exact => None,
            Stage::LineEnds => Some("line ends"),
            Stage::LookAlikes => Some("look-alike characters (quotes, dashes, blanks)"),
            Stage::TrailingBlanks => Some("blanks at the ends of lines"),
            Stage::OverEscaped => Some("escapes that were typed out"),
            Stage::Indentation => Some("indentation; new_string was shifted by the same"),
            Stage::Blanks => Some("blanks; new_string was shifted as its first line"),
        }
    }
}

/// How many places there must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// This many.
    Exactly(usize),
    /// At least one.
    All,
}

/// A text with its replacements made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replaced {
    /// The new text.
    pub text: String,
    /// What was replaced in the old text, in bytes, in order.
    pub places: Vec<Range<usize>>,
    /// What stands there in the new text.
    pub now: Vec<Range<usize>>,
    /// The stage that found them.
    pub stage: Stage,
}

/// Why nothing was replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// No stage found a place.
    NotFound,
    /// The first stage that found any found another number.
    WrongCount {
        /// The stage.
        stage: Stage,
        /// The line of each place, from 1.
        lines: Vec<usize>,
    },
}

/// Replaces `old` by `new` in a text without byte order mark; `old` must not be empty.
///
/// Text outside the places is never changed. What is put in gets the line ends of its place.
///
/// ```
/// use qwen_run::change::replace::{Stage, Wanted, replace};
/// let replaced = replace("\tif x:\n\t\ty()\n", "if x:\n    y()\n", "if x:\n    z()\n", Wanted::Exactly(1)).unwrap();
/// assert_eq!(replaced.text, "\tif x:\n\t\tz()\n");
/// assert_eq!(replaced.stage, Stage::Indentation);
/// ```
pub fn replace(text: &str, old: &str, new: &str, wanted: Wanted) -> Result<Replaced, Failure> {
    const STAGES: [Stage; 7] = [
        Stage::Exact,
        Stage::LineEnds,
        Stage::LookAlikes,
        Stage::TrailingBlanks,
        Stage::OverEscaped,
        Stage::Indentation,
        Stage::Blanks,
    ];
    if old.is_empty() {
        return Err(Failure::NotFound);
    }
    for stage in STAGES {
        let places = find(stage, text, old, new);
        if places.is_empty() {
            continue;
        }
        let right = match wanted {
            Wanted::Exactly(count) => places.len() == count,
            Wanted::All => true,
        };
        if !right {
            let lines = places.iter().map(|place| line_of(text, place.range.start)).collect();
            return Err(Failure::WrongCount { stage, lines });
        }
        return Ok(put(text, places, stage));
    }
    Err(Failure::NotFound)
}

/// Returns the number of the line that holds a byte, from 1.
pub fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// A place and what goes there.
struct Place {
    range: Range<usize>,
    with: String,
}

fn put(text: &str, places: Vec<Place>, stage: Stage) -> Replaced {
    let mut replaced = Replaced { text: String::with_capacity(text.len()), places: Vec::new(), now: Vec::new(), stage };
    let mut done = 0;
    for Place { range, with } in places {
        replaced.text.push_str(&text[done..range.start]);
        let start = replaced.text.len();
        let with = if range.start == 0 { with.trim_start_matches('\u{feff}') } else { &with };
        replaced.text.push_str(&with_line_ends_of(text, &range, with));
        replaced.now.push(start..replaced.text.len());
        done = range.end;
        replaced.places.push(range);
    }
    replaced.text.push_str(&text[done..]);
    replaced
}

/// Gives `new` the line ends of its place: those of the file, or where it mixes them, of the first line there.
fn with_line_ends_of(text: &str, place: &Range<usize>, new: &str) -> String {
    let after = text[place.start..].find('\n').map(|at| place.start + at);
    // The place may be a last line without an end: then the line before it decides.
    let Some(at) = after.or_else(|| text[..place.start].rfind('\n')) else { return new.to_owned() };
    let lf = new.replace("\r\n", "\n");
    if text[..at].ends_with('\r') { lf.replace('\n', "\r\n") } else { lf }
}

fn find(stage: Stage, text: &str, old: &str, new: &str) -> Vec<Place> {
    let place = |range| Place { range, with: new.to_owned() };
    match stage {
        Stage::Exact => {
            let bytes = text.as_bytes();
            // What begins or ends inside a `\r\n` would leave half of it behind.
            let splits = |at: usize| at > 0 && bytes[at - 1] == b'\r' && bytes.get(at) == Some(&b'\n');
            let found = text.match_indices(old).map(|(at, _)| at..at + old.len());
            found.filter(|range| !splits(range.start) && !splits(range.end)).map(place).collect()
        }
        Stage::LineEnds => {
            let old = unmarked(old);
            let mapped = Mapped::new(text, line_end_group);
            let found = mapped.find(&old);
            if found.is_empty() && !text.ends_with('\n') {
                return at_unended_last_line(&mapped, text, &old, new).into_iter().collect();
            }
            found.into_iter().map(place).collect()
        }
        Stage::LookAlikes => {
            let old = Mapped::new(&unmarked(old), look_alike_group).text;
            Mapped::new(text, look_alike_group).find(&old).into_iter().map(place).collect()
        }
        Stage::TrailingBlanks => trailing_blanks(text, &unmarked(old)).into_iter().map(place).collect(),
        Stage::OverEscaped => {
            let old = unmarked(old);
            let escapes = Escapes::of(&old);
            if escapes.0.is_empty() {
                return Vec::new();
            }
            let with = escapes.fitting(new).undo(new);
            let found = Mapped::new(text, line_end_group).find(&escapes.undo(&old));
            found.into_iter().map(|range| Place { range, with: with.clone() }).collect()
        }
        Stage::Indentation => by_lines(text, &unmarked(old), new, |old, text, steps| {
            let rest_equal = |(old, text): (&&str, &&str)| indented(old).1 == indented(text).1;
            if old.iter().zip(text).all(rest_equal) { Shift::of_all(old, text, steps) } else { None }
        }),
        Stage::Blanks => by_lines(text, &unmarked(old), new, |old, text, steps| {
            let without = |line: &str| line.chars().filter(|c| !matches!(c, ' ' | '\t')).collect::<String>();
            let equal = old.iter().zip(text).all(|(old, text)| without(old) == without(text));
            if equal { Shift::of_first(old, text, steps) } else { None }
        }),
    }
}

/// `old` with plain line ends and without a byte order mark.
fn unmarked(old: &str) -> String {
    old.trim_start_matches('\u{feff}').replace("\r\n", "\n")
}

/// `old` ends its last line and the file does not: the one place is the end of the file, which stays without.
fn at_unended_last_line(mapped: &Mapped, text: &str, old: &str, new: &str) -> Option<Place> {
    let old = old.strip_suffix('\n').filter(|old| !old.is_empty())?;
    let start = mapped.original(mapped.text.strip_suffix(old)?.len())?;
    let with = new.strip_suffix("\r\n").or_else(|| new.strip_suffix('\n')).unwrap_or(new);
    Some(Place { range: start..text.len(), with: with.to_owned() })
}

/// A text with some groups of characters rewritten, and where each came from.
struct Mapped {
    text: String,
    /// Only the groups that changed, in order: place here, place in the original.
    groups: Vec<(Range<usize>, Range<usize>)>,
}

impl Mapped {
    /// Rewrites a text group by group: `next` returns the length of the group that a text begins with, and what
    /// becomes of it if it changes.
    fn new(original: &str, next: fn(&str) -> (usize, Option<String>)) -> Mapped {
        let mut mapped = Mapped { text: String::with_capacity(original.len()), groups: Vec::new() };
        let mut at = 0;
        while at < original.len() {
            let rest = &original[at..];
            let (length, rewritten) = next(rest);
            match rewritten {
                None => mapped.text.push_str(&rest[..length]),
                Some(rewritten) => {
                    let start = mapped.text.len();
                    mapped.text.push_str(&rewritten);
                    mapped.groups.push((start..mapped.text.len(), at..at + length));
                }
            }
            at += length;
        }
        mapped
    }

    /// Returns every place of the original whose rewritten text is `old`, from the front, none overlapping.
    fn find(&self, old: &str) -> Vec<Range<usize>> {
        if old.is_empty() {
            return Vec::new();
        }
        let place = |(at, found): (usize, &str)| Some(self.original(at)?..self.original(at + found.len())?);
        self.text.match_indices(old).filter_map(place).collect()
    }

    /// Returns where a place here is in the original; `None` inside a rewritten group.
    fn original(&self, at: usize) -> Option<usize> {
        let after = self.groups.partition_point(|(here, _)| here.start < at);
        match after.checked_sub(1).map(|index| &self.groups[index]) {
            None => Some(at),
            Some((here, there)) if at >= here.end => Some(there.end + (at - here.end)),
            Some(_) => None,
        }
    }
}

fn line_end_group(rest: &str) -> (usize, Option<String>) {
    if rest.starts_with("\r\n") {
        return (2, Some("\n".to_owned()));
    }
    // Up to the next one nothing changes.
    let length = rest.as_bytes().windows(2).position(|pair| pair == b"\r\n").unwrap_or(rest.len());
    (length.max(1), None)
}

fn look_alike_group(rest: &str) -> (usize, Option<String>) {
    if rest.starts_with("\r\n") {
        return (2, Some("\n".to_owned()));
    }
    let mut chars = rest.char_indices();
    let Some((_, first)) = chars.next() else { return (0, None) };
    let joins = |c: char| is_combining_mark(c) || ('\u{1160}'..='\u{11ff}').contains(&c);
    let length = chars.find(|(_, c)| !joins(*c)).map_or(rest.len(), |(at, _)| at);
    if first.is_ascii() && length == 1 {
        return (1, None);
    }
    let group = &rest[..length];
    let rewritten: String = group.nfc().map(look_alike).collect();
    (length, (rewritten != group).then_some(rewritten))
}

/// Returns the plain character that a typographic one looks like.
fn look_alike(c: char) -> char {
    match c {
        '\u{2018}'..='\u{201b}' | '\u{2032}' | '\u{2035}' => '\'',
        '\u{201c}'..='\u{201f}' | '\u{2033}' | '\u{2036}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}' | '\u{ff0d}' => '-',
        '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        c => c,
    }
}

fn trailing_blanks(text: &str, old: &str) -> Vec<Range<usize>> {
    let stripped: String = Mapped::new(old, trailing_blank_group).text;
    // Blanks after the last word of `old` mean that its line ends there.
    let at_line_end = old.ends_with([' ', '\t']);
    let mapped = Mapped::new(text, trailing_blank_group);
    let mut places = mapped.find(&stripped);
    if at_line_end {
        let blanks =
            |range: &Range<usize>| text[range.end..].len() - text[range.end..].trim_start_matches([' ', '\t']).len();
        let ends = |range: &Range<usize>| {
            let rest = &text[range.end + blanks(range)..];
            rest.is_empty() || rest.starts_with('\n') || rest.starts_with("\r\n")
        };
        places.retain(ends);
        let mut end = 0;
        places.retain_mut(|range| {
            range.end += blanks(range);
            // The blanks of an empty line belong to the place before.
            let is_apart = range.start >= end;
            end = if is_apart { range.end } else { end };
            is_apart
        });
    }
    places
}

fn trailing_blank_group(rest: &str) -> (usize, Option<String>) {
    let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
    let after = &rest[blanks..];
    if after.starts_with("\r\n") {
        (blanks + 2, Some("\n".to_owned()))
    } else if blanks > 0 && after.starts_with('\n') {
        (blanks + 1, Some("\n".to_owned()))
    } else if blanks > 0 && after.is_empty() {
        (blanks, Some(String::new()))
    } else if blanks > 0 {
        (blanks, None)
    } else {
        let length = rest.find([' ', '\t', '\r']).unwrap_or(rest.len());
        (length.max(1), None)
    }
}

/// Escapes that a text shows although it should hold the characters: each as its letter.
struct Escapes(Vec<char>);

impl Escapes {
    fn meaning(letter: char) -> Option<char> {
        match letter {
            'n' => Some('\n'),
            't' => Some('\t'),
            'r' => Some('\r'),
            '"' | '\'' | '`' | '\\' => Some(letter),
            _ => None,
        }
    }

    /// Returns those that a text shows.
    fn of(text: &str) -> Escapes {
        let mut shown = Vec::new();
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            if c == '\\'
                && let Some(letter) = chars.next()
                && Escapes::meaning(letter).is_some()
                && !shown.contains(&letter)
            {
                shown.push(letter);
            }
        }
        Escapes(shown)
    }

    /// Keeps those that `new` shows too, and that stand there for every such character: a text that holds a real
    /// line break means its `\n` as it is.
    fn fitting(&self, new: &str) -> Escapes {
        let shown = Escapes::of(new).0;
        let raw = |letter: char| {
            let mut previous = None;
            new.chars().any(|c| {
                let is_raw = Some(c) == Escapes::meaning(letter) && c != '\\' && previous != Some('\\');
                previous = if c == '\\' && previous == Some('\\') { None } else { Some(c) };
                is_raw
            })
        };
        Escapes(self.0.iter().copied().filter(|letter| shown.contains(letter) && !raw(*letter)).collect())
    }

    fn undo(&self, text: &str) -> String {
        let mut undone = String::with_capacity(text.len());
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            if c != '\\' {
                undone.push(c);
                continue;
            }
            match chars.next() {
                Some(letter) => match Escapes::meaning(letter).filter(|_| self.0.contains(&letter)) {
                    Some(meant) => undone.push(meant),
                    None => undone.extend([c, letter]),
                },
                None => undone.push(c),
            }
        }
        undone
    }
}

/// Finds places that are whole lines: `judge` says by which shift the lines of `old` and of the text are the same.
fn by_lines(text: &str, old: &str, new: &str, judge: impl Fn(&[&str], &[&str], &Steps) -> Option<Shift>) -> Vec<Place> {
    let with_end = old.ends_with('\n');
    let old_lines: Vec<&str> = old.strip_suffix('\n').unwrap_or(old).split('\n').collect();
    if old_lines.iter().all(|line| is_blank(line)) {
        return Vec::new();
    }
    let new = new.replace("\r\n", "\n");
    let steps = Steps::of(&old_lines, &new);
    let spans = line_spans(text);
    let lines: Vec<&str> = spans.iter().map(|span| &text[span.start..span.end]).collect();
    let mut places = Vec::new();
    let mut at = 0;
    while at + old_lines.len() <= lines.len() {
        let last = &spans[at + old_lines.len() - 1];
        let shift = if with_end && last.next == last.end {
            None
        } else {
            judge(&old_lines, &lines[at..at + old_lines.len()], &steps)
        };
        let Some(with) = shift.and_then(|shift| shift.apply(&new)) else {
            at += 1;
            continue;
        };
        places.push(Place { range: spans[at].start..if with_end { last.next } else { last.end }, with });
        at += old_lines.len();
    }
    places
}

/// A line of a text: its start, its end without the line end, the start of the next.
struct Span {
    start: usize,
    end: usize,
    next: usize,
}

fn line_spans(text: &str) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let body = line.strip_suffix('\n').map_or(line, |line| line.strip_suffix('\r').unwrap_or(line));
        spans.push(Span { start, end: start + body.len(), next: start + line.len() });
        start += line.len();
    }
    spans
}

fn is_blank(line: &str) -> bool {
    line.trim_matches([' ', '\t']).is_empty()
}

/// Splits a line into its indentation and the rest; a blank line is all rest and empty.
fn indented(line: &str) -> (&str, &str) {
    if is_blank(line) {
        return ("", "");
    }
    line.split_at(line.len() - line.trim_start_matches([' ', '\t']).len())
}

/// How wide a step of indentation is in what the model wrote.
struct Steps {
    spaces: usize,
}

impl Steps {
    fn of(old: &[&str], new: &str) -> Steps {
        let widths = old.iter().copied().chain(new.split('\n')).map(|line| indented(line).0);
        let widths = widths.filter(|indent| !indent.contains('\t')).map(str::len);
        let common = widths.fold(0, greatest_common_divisor);
        Steps { spaces: if common == 0 { 4 } else { common } }
    }
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// How indentation as the model wrote it becomes the file's.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shift {
    unit: Unit,
    change: Change,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Same,
    SpacesToTabs(usize),
    TabsToSpaces(usize),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    Add(String),
    Remove(String),
    /// One indentation stands for another where neither begins with the other.
    Swap(String, String),
}

impl Unit {
    fn convert(self, indent: &str) -> String {
        match self {
            Unit::Same => indent.to_owned(),
            Unit::SpacesToTabs(width) => {
                let spaces = indent.bytes().filter(|byte| *byte == b' ').count();
                let tabs = indent.len() - spaces + spaces / width;
                "\t".repeat(tabs) + &" ".repeat(spaces % width)
            }
            Unit::TabsToSpaces(width) => indent.replace('\t', &" ".repeat(width)),
        }
    }

    fn all(steps: &Steps) -> Vec<Unit> {
        let mut units = vec![Unit::Same, Unit::SpacesToTabs(steps.spaces)];
        units.extend([4, 2, 8, 3].map(Unit::TabsToSpaces));
        units
    }
}

impl Shift {
    /// Returns the shift of one line under a unit.
    fn between(old: &str, text: &str, unit: Unit) -> Option<Shift> {
        let (old, text) = (unit.convert(indented(old).0), indented(text).0);
        let change = if let Some(added) = text.strip_suffix(old.as_str()) {
            Change::Add(added.to_owned())
        } else {
            Change::Remove(old.strip_suffix(text)?.to_owned())
        };
        Some(Shift { unit, change })
    }

    /// Returns the shift that all lines have, one without adding or removing before others.
    fn of_all(old: &[&str], text: &[&str], steps: &Steps) -> Option<Shift> {
        let mut shifts = Unit::all(steps).into_iter().filter_map(|unit| {
            let pairs = || old.iter().zip(text).filter(|(old, _)| !is_blank(old));
            let (first_old, first_text) = pairs().next()?;
            let shift = Shift::between(first_old, first_text, unit)?;
            pairs()
                .all(|(old, text)| shift.indent(indented(old).0).as_deref() == Some(indented(text).0))
                .then_some(shift)
        });
        let first = shifts.next()?;
        let plain = |shift: &Shift| shift.change == Change::Add(String::new());
        if plain(&first) { Some(first) } else { Some(shifts.find(plain).unwrap_or(first)) }
    }

    /// Returns the shift of the first line that is not blank.
    fn of_first(old: &[&str], text: &[&str], steps: &Steps) -> Option<Shift> {
        let (old, text) = old.iter().zip(text).find(|(old, _)| !is_blank(old))?;
        Shift::of_all(&[old], &[text], steps).or_else(|| {
            let change = Change::Swap(indented(old).0.to_owned(), indented(text).0.to_owned());
            Some(Shift { unit: Unit::Same, change })
        })
    }

    fn indent(&self, indent: &str) -> Option<String> {
        let indent = self.unit.convert(indent);
        match &self.change {
            Change::Add(added) => Some(format!("{added}{indent}")),
            Change::Remove(removed) => indent.strip_prefix(removed.as_str()).map(str::to_owned),
            Change::Swap(from, to) => indent.strip_prefix(from.as_str()).map(|rest| format!("{to}{rest}")),
        }
    }

    /// Shifts every line that is not blank; `None` if one stands too far left for it.
    fn apply(&self, new: &str) -> Option<String> {
        let lines = new.split('\n').map(|line| {
            if is_blank(line) {
                return Some(line.to_owned());
            }
            let (indent, rest) = indented(line);
            Some(self.indent(indent)? + rest)
        });
        Some(lines.collect::<Option<Vec<String>>>()?.join("\n"))
    }
}

/// The lines of a text that are most like another text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// The first line, from 1.
    pub first: usize,
    /// The last line.
    pub last: usize,
    /// How like, in percent.
    pub similarity: u8,
}

/// Returns the region most like `old`, the first of equals; `None` if nothing is a third like it.
///
/// It only helps the model to find its way; no edit is ever made where it points.
pub fn nearest(text: &str, old: &str) -> Option<Region> {
    /// Lines and characters that are looked at: bounds the work on huge files.
    const LINES: usize = 20_000;
    const OLD_LINES: usize = 40;
    const CHARS: usize = 200;
    let pairs = |line: &str| -> Vec<(char, char)> {
        let chars: Vec<char> = line.trim().chars().take(CHARS).collect();
        let mut pairs: Vec<(char, char)> = chars.windows(2).map(|pair| (pair[0], pair[1])).collect();
        if let [only] = chars[..] {
            pairs.push((only, '\0'));
        }
        pairs.sort_unstable();
        pairs
    };
    let old: Vec<&str> = old.trim_matches(['\n', '\r']).lines().collect();
    let length = old.len();
    let old: Vec<Vec<(char, char)>> = old.into_iter().take(OLD_LINES).map(pairs).collect();
    let text: Vec<Vec<(char, char)>> = text.lines().take(LINES).map(pairs).collect();
    if text.is_empty() || old.iter().all(Vec::is_empty) {
        return None;
    }
    // Weighing lines by their length keeps closing brackets from deciding.
    let weight: usize = old.iter().map(Vec::len).sum();
    let mut known: HashMap<(usize, usize), usize> = HashMap::new();
    let mut best: Option<(usize, usize)> = None;
    for start in 0..text.len() {
        let mut common = 0;
        let mut there = 0;
        for (index, line) in old.iter().enumerate() {
            let Some(other) = text.get(start + index) else { continue };
            there += other.len();
            if line.len().min(other.len()) > 0 {
                common += *known.entry((index, start + index)).or_insert_with(|| common_items(line, other));
            }
        }
        let similarity = 200 * common / (weight + there).max(1);
        if best.is_none_or(|(_, other)| similarity > other) {
            best = Some((start, similarity));
        }
    }
    let (start, similarity) = best.filter(|(_, similarity)| *similarity >= 33)?;
    let last = (start + length).min(text.len());
    Some(Region { first: start + 1, last, similarity: u8::try_from(similarity.min(100)).unwrap_or(100) })
}

/// Counts what two sorted lists have in common.
fn common_items(a: &[(char, char)], b: &[(char, char)]) -> usize {
    let (mut i, mut j, mut common) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => (i, j, common) = (i + 1, j + 1, common + 1),
        }
    }
    common
}

#[cfg(test)]
mod tests;
