//! Finds the places that an edit names, and writes the replacement there.
//!
//! Exact matches come first; if there are any, nothing else counts. Otherwise a place matches if its text is equal
//! except for whitespace, line ends and look-alike characters. If there is none, additions that models make when they
//! copy text are removed (line numbers, a fence, empty lines, escapes) and the search is repeated. If the number of
//! matches is not the expected one, the edit fails, and [`nearest`] helps the model with the next attempt.
//!
//! Replacements are written line by line: lines that `old` and `new` share keep the file's bytes, and the others get
//! the file's indentation, characters and line ends.

mod forms;
mod glyphs;
mod indent;
mod key;
mod nearest;
mod spot;
mod stage;
mod write;

use std::ops::Range;

use forms::{Borders, Form};
use key::Key;
use spot::{Spot, Window};

pub(crate) use forms::unfenced;
pub use nearest::{Region, nearest};
pub use stage::Stage;

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
    /// What is there in the new text.
    pub now: Vec<Range<usize>>,
    /// What was overlooked to find them.
    pub stage: Stage,
}

/// Why nothing was replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// There is no place.
    NotFound,
    /// There is another number of places, or places overlap.
    WrongCount {
        /// What was overlooked to find them.
        stage: Stage,
        /// The line of each place, from 1.
        lines: Vec<usize>,
    },
    /// The place is known, but not what must be written there.
    Unclear {
        /// The line of the place, from 1.
        line: usize,
        /// Why.
        why: &'static str,
    },
}

/// Replaces `old` by `new` in a text without byte order mark; `old` must not be empty.
///
/// Text outside the places is never changed.
///
/// ```
/// use qwen_run::change::replace::{Stage, Wanted, replace};
/// let replaced = replace("\tif x:\n\t\ty()\n", "if x:\n    y()\n", "if x:\n    z()\n", Wanted::Exactly(1)).unwrap();
/// assert_eq!(replaced.text, "\tif x:\n\t\tz()\n");
/// assert_eq!(replaced.stage, Stage::Indentation);
/// ```
pub fn replace(text: &str, old: &str, new: &str, wanted: Wanted) -> Result<Replaced, Failure> {
    if old.is_empty() {
        return Err(Failure::NotFound);
    }
    let mut search = Search { text, wanted, plain: None, key: None };
    let mut form = Form { old: unmarked(old), new: unmarked(new), borders: Borders::Any };
    if old.starts_with(MARK) {
        // Where `new` adds lines before it, the first line of `old` brings its mark along.
        form.new = form.new.replace(&format!("\n{MARK}"), "\n");
    }
    if let Some(found) = search.as_it_is(old, &form).or_else(|| search.find(&form, Stage::LineEnds)) {
        return found;
    }
    let given = form.clone();
    // A fence may hold a listing, and a listing a fence.
    for _ in 0..2 {
        if let Some(inner) = forms::without_fence(&form) {
            if let Some(found) = search.find(&inner, Stage::Fence) {
                return found;
            }
            form = inner;
        }
        let numbered = forms::without_numbers(&form.old, &form.new);
        let exactly = numbered.iter().find_map(|form| search.exactly(form, Stage::LineNumbers));
        let found = exactly.or_else(|| numbered.iter().find_map(|form| search.alike(form, Stage::LineNumbers)));
        if let Some(found) = found {
            return found;
        }
        form = numbered.into_iter().next().unwrap_or(form);
    }
    // What looks like a number may be the file's own.
    let forms = if form == given { vec![given] } else { vec![given, form] };
    let mut found =
        forms.iter().filter_map(|form| search.without_blank_ends(form).or_else(|| search.without_escapes(form)));
    found.next().unwrap_or(Err(Failure::NotFound))
}

/// Returns the number of the line that holds a byte, from 1.
pub fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// Refuses `old` that is a long part of a repetition: it begins nearly everywhere.
fn too_many(text: &str, old: &str, stage: Stage) -> Found {
    let first = key::occurrences(text, old).take(2);
    Some(Err(Failure::WrongCount { stage, lines: first.map(|at| line_of(text, at)).collect() }))
}

/// The byte order mark.
const MARK: char = '\u{feff}';

/// `old` or `new` with plain line ends and without a byte order mark.
fn unmarked(text: &str) -> String {
    text.trim_start_matches(MARK).replace("\r\n", "\n")
}

/// The result of a search: no match at all, or the result of the matches.
type Found = Option<Result<Replaced, Failure>>;

/// The places of a text, looked for in one form after the other.
struct Search<'a> {
    text: &'a str,
    wanted: Wanted,
    plain: Option<PlainEnds>,
    key: Option<Key>,
}

impl Search<'_> {
    fn as_it_is(&self, old: &str, form: &Form) -> Found {
        let bytes = self.text.as_bytes();
        // What begins or ends inside a `\r\n` would leave half of it behind.
        let splits = |at: usize| at > 0 && bytes[at - 1] == b'\r' && bytes.get(at) == Some(&b'\n');
        let Some(found) = key::few_occurrences(self.text, old) else { return too_many(self.text, old, Stage::Exact) };
        let places = found.into_iter().map(|at| at..at + old.len());
        let places = places.filter(|place| !splits(place.start) && !splits(place.end));
        self.settle(places.map(|place| Spot::given(self.text, place, false, Stage::Exact)).collect(), &[], form, None)
    }

    fn find(&mut self, form: &Form, stage: Stage) -> Found {
        self.exactly(form, stage).or_else(|| self.alike(form, stage))
    }

    /// Finds text that is equal but for line ends.
    fn exactly(&mut self, form: &Form, stage: Stage) -> Found {
        let text = self.text;
        let plain = self.plain.get_or_insert_with(|| PlainEnds::new(text));
        let Some(found) = key::few_occurrences(&plain.text, &form.old) else { return too_many(text, &form.old, stage) };
        let places = found.into_iter().map(|at| plain.original(at)..plain.original(at + form.old.len()));
        let mut spots: Vec<Spot> = places.map(|place| Spot::given(text, place, false, Stage::LineEnds)).collect();
        if spots.is_empty()
            && !text.ends_with('\n')
            && let Some(old) = form.old.strip_suffix('\n').filter(|old| !old.is_empty())
            && let Some(before) = plain.text.strip_suffix(old)
        {
            // `old` ends its last line and the file does not: the file stays without.
            spots.push(Spot::given(text, plain.original(before.len())..text.len(), true, Stage::LineEnds));
        }
        spots.retain(|spot| spot.fits(text, form.borders));
        self.settle(spots, &[], form, Some(stage))
    }

    /// Finds text that is equal except for whitespace and look-alikes.
    fn alike(&mut self, form: &Form, stage: Stage) -> Found {
        let (spots, odd) = self.alikes(form);
        self.settle(spots, &odd, form, Some(stage))
    }

    fn alikes(&mut self, form: &Form) -> (Vec<Spot>, Vec<usize>) {
        let text = self.text;
        let old_key = key::key_of(&form.old);
        if old_key.bytes().all(|byte| byte == b'\n') {
            return (Vec::new(), Vec::new());
        }
        let old: Vec<&str> = form.old.split('\n').collect();
        let key = self.key.get_or_insert_with(|| Key::new(text, true));
        let (mut spots, mut odd) = (Vec::new(), Vec::new());
        let longest = text.split('\n').map(str::len).max().unwrap_or_default();
        let is_few = |places: &Vec<_>| places.len().saturating_mul(form.old.len() + longest) <= key::MOST_COMPARED;
        // Whichever of too many was meant, it is not the only one.
        let Some(places) = key.find(&old_key).filter(is_few) else { return (spots, odd) };
        for place in places {
            match spot::window(text, key, &place, &old) {
                Window::Place(spot) if spot.fits(text, form.borders) => spots.push(spot),
                Window::Odd(at) if form.borders == Borders::Any => odd.push(at),
                Window::None | Window::Place(_) | Window::Odd(_) => {}
            }
        }
        (spots, odd)
    }

    /// Drops empty lines at the ends; the rest must be whole lines, or else whole words.
    fn without_blank_ends(&mut self, form: &Form) -> Found {
        let lines = forms::without_blank_ends(form)?;
        let words = Form { borders: form.borders.max(Borders::Words), ..lines.clone() };
        self.exactly(&lines, Stage::BlankEnds)
            .or_else(|| self.exactly(&words, Stage::BlankEnds))
            .or_else(|| self.alike(&lines, Stage::BlankEnds))
    }

    /// Undoes the one set of escapes that makes `old` fit.
    fn without_escapes(&mut self, form: &Form) -> Found {
        let forms = forms::without_escapes(form);
        let found = forms.iter().filter_map(|form| self.exactly(form, Stage::OverEscaped)).collect();
        only(found).or_else(|| {
            let fitting = forms.iter().filter_map(|form| {
                let (spots, odd) = self.alikes(form);
                // Spaces within a line may be what an escape stands for.
                let is_clear = spots.iter().all(|spot| spot.stage < Stage::Blanks);
                if is_clear { self.settle(spots, &odd, form, Some(Stage::OverEscaped)) } else { None }
            });
            let fitting = fitting.collect();
            only(fitting)
        })
    }

    /// Writes the places, if they are as many as wanted and apart; `odd` are further ones that cannot be written.
    fn settle(&self, mut spots: Vec<Spot>, odd: &[usize], form: &Form, stage: Option<Stage>) -> Found {
        let seen = spots.iter().map(|spot| spot.stage).max()?;
        let stage = stage.filter(|stage| *stage > Stage::LineEnds).unwrap_or(seen);
        let overlap = |a: &Spot, b: &Spot| a.range.end > b.range.start;
        if self.wanted == Wanted::All && seen <= Stage::LineEnds {
            let mut end = 0;
            spots.retain(|spot| {
                let is_apart = spot.range.start >= end;
                end = if is_apart { spot.range.end } else { end };
                is_apart
            });
        }
        let is_right = match self.wanted {
            Wanted::Exactly(count) => spots.len() == count,
            Wanted::All => true,
        };
        if !is_right || !odd.is_empty() || spots.windows(2).any(|pair| overlap(&pair[0], &pair[1])) {
            let mut starts: Vec<usize> = spots.iter().map(|spot| spot.range.start).chain(odd.iter().copied()).collect();
            starts.sort_unstable();
            return Some(Err(Failure::WrongCount { stage, lines: self.lines_of(&starts) }));
        }
        Some(self.put(&spots, form, stage))
    }

    fn put(&self, spots: &[Spot], form: &Form, stage: Stage) -> Result<Replaced, Failure> {
        let text = self.text;
        let mut replaced =
            Replaced { text: String::with_capacity(text.len()), places: Vec::new(), now: Vec::new(), stage };
        let lines = write::Lines::new(&form.old, &form.new, spots.iter().all(|spot| spot.stage <= Stage::LineEnds));
        let mut done = 0;
        for spot in spots {
            let written = lines
                .write(text, spot)
                .map_err(|why| Failure::Unclear { line: line_of(text, spot.lines[0].start), why })?;
            replaced.text.push_str(&text[done..spot.range.start]);
            let start = replaced.text.len();
            replaced.text.push_str(&written);
            replaced.now.push(start..replaced.text.len());
            replaced.places.push(spot.range.clone());
            done = spot.range.end;
        }
        replaced.text.push_str(&text[done..]);
        Ok(replaced)
    }

    fn lines_of(&self, starts: &[usize]) -> Vec<usize> {
        let (mut line, mut at) = (1, 0);
        let lines = starts.iter().map(|&start| {
            line += self.text.as_bytes()[at..start].iter().filter(|byte| **byte == b'\n').count();
            at = start;
            line
        });
        lines.collect()
    }
}

/// Returns what forms found that may not fit together, unless they give different texts.
fn only(found: Vec<Result<Replaced, Failure>>) -> Found {
    let mut found = found.into_iter();
    let first = found.next()?;
    let text = |found: &Result<Replaced, Failure>| found.as_ref().ok().map(|replaced| replaced.text.clone());
    let is_same = found.all(|other| text(&other).is_some() && text(&other) == text(&first));
    Some(if is_same { first } else { Err(Failure::NotFound) })
}

/// A text with its lines ended by `\n`.
struct PlainEnds {
    text: String,
    /// Where it has a `\n` for a `\r\n`.
    shortened: Vec<usize>,
}

impl PlainEnds {
    fn new(original: &str) -> PlainEnds {
        let mut plain = PlainEnds { text: String::with_capacity(original.len()), shortened: Vec::new() };
        for (number, piece) in original.split("\r\n").enumerate() {
            if number > 0 {
                plain.shortened.push(plain.text.len());
                plain.text.push('\n');
            }
            plain.text.push_str(piece);
        }
        plain
    }

    /// Returns where a place is in the original.
    fn original(&self, at: usize) -> usize {
        at + self.shortened.partition_point(|newline| *newline < at)
    }
}

#[cfg(test)]
mod tests;
