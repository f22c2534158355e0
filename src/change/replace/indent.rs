//! Chooses the indentation of a written line: that of the nearest line that `old` shows with the same indentation.

use super::key::{indented, is_blank};
use super::spot::Spot;

/// What indents a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Space,
    Tab,
}

/// An indentation as a number; `None` for the unit of no indentation.
type Measure = (Option<Unit>, i64);

fn measure(indent: &str) -> Option<Measure> {
    let length = indent.len() as i64;
    match indent.bytes().next() {
        None => Some((None, 0)),
        Some(b' ') if indent.bytes().all(|byte| byte == b' ') => Some((Some(Unit::Space), length)),
        Some(b'\t') if indent.bytes().all(|byte| byte == b'\t') => Some((Some(Unit::Tab), length)),
        Some(_) => None,
    }
}

/// How a line of `old` is indented, and how the file indents it.
#[derive(Debug, Clone)]
struct Pair<'a> {
    line: usize,
    shown: &'a str,
    there: &'a str,
    has_word: bool,
}

impl Pair<'_> {
    /// Returns by how much of the same unit the file indents the line further.
    fn shift(&self) -> Option<i64> {
        let (shown, there) = (measure(self.shown)?, measure(self.there)?);
        (shown.0 == there.0 || shown.0.is_none() || there.0.is_none()).then_some(there.1 - shown.1)
    }
}

/// How indentation as the model wrote it becomes the file's.
pub(super) struct Indents<'a> {
    pairs: Vec<Pair<'a>>,
    /// The step of indentation by spaces in `old` and `new`.
    shown_step: i64,
    text: &'a str,
    /// The position of the match in the text.
    at: usize,
    /// Whether the first line of `new` is at a line's beginning, so that it gets an indentation.
    pub(super) from_line_start: bool,
}

/// Why a place cannot be indented as `new` shows it.
const UNCLEAR: &str = "new_string cannot be given the file's indentation without a guess";
const ELSEWHERE: &str = "a line of brackets or signs is indented otherwise than the lines around it";

impl<'a> Indents<'a> {
    /// Compares the lines of a place; refuses one where lines without a letter or digit are elsewhere than the
    /// others predict.
    pub(super) fn new(text: &'a str, spot: &Spot, old: &'a [String], new: &[String]) -> Result<Self, &'static str> {
        let lines = old.iter().zip(&spot.lines).enumerate();
        let lines = lines.filter(|(number, (old, _))| !is_blank(old) && (*number > 0 || spot.from_line_start));
        let pairs = lines.map(|(line, (old, range))| {
            let (shown, rest) = indented(old);
            Pair {
                line,
                shown,
                there: indented(&text[range.clone()]).0,
                has_word: rest.chars().any(char::is_alphanumeric),
            }
        });
        let widths = old.iter().chain(new).filter(|line| !is_blank(line)).filter_map(|line| measure(indented(line).0));
        let widths: Vec<i64> = widths.filter(|(unit, _)| *unit != Some(Unit::Tab)).map(|(_, width)| width).collect();
        let shown_step = widths.iter().fold(0, |step, width| greatest_common_divisor(step, (width - widths[0]).abs()));
        let mut indents = Indents {
            pairs: pairs.collect(),
            shown_step,
            text,
            at: spot.range.start,
            from_line_start: spot.from_line_start,
        };
        indents.judge_first(new)?;
        let words = indents.with(|pair| pair.has_word);
        let predicted = |pair: &Pair<'_>| match words.pairs.is_empty() {
            true => Some(pair.shown.to_owned()),
            false => words.of(pair.shown, 2 * pair.line),
        };
        let is_stray = |pair: &&Pair<'_>| match predicted(pair) {
            Some(predicted) => predicted != pair.there,
            // A line that is shifted as far as all others is one prediction.
            None => !words.pairs.iter().all(|word| word.shift().is_some() && word.shift() == pair.shift()),
        };
        let stray = indents.pairs.iter().any(|pair| !pair.has_word && is_stray(&pair));
        if stray { Err(ELSEWHERE) } else { Ok(indents) }
    }

    fn with(&self, filter: impl Fn(&Pair<'_>) -> bool) -> Indents<'a> {
        Indents { pairs: self.pairs.iter().filter(|pair| filter(pair)).cloned().collect(), ..*self }
    }

    /// A first line without its indentation was copied from its first letter on, or all lines are shifted: the others
    /// tell.
    fn judge_first(&mut self, new: &[String]) -> Result<(), &'static str> {
        let Some(first) = self.pairs.first().filter(|pair| pair.line == 0) else { return Ok(()) };
        if !first.shown.is_empty() || first.there.is_empty() {
            return Ok(());
        }
        let others = self.with(|pair| pair.line > 0 && pair.has_word);
        if others.pairs.is_empty() {
            let mut further = new.iter().skip(1).filter(|line| !is_blank(line)).map(|line| indented(line).0).peekable();
            let is_either = further.peek().is_some() && further.all(|indent| indent.len() >= first.there.len());
            return if is_either { Err(UNCLEAR) } else { Ok(()) };
        }
        let is_same = others.pairs.iter().all(|pair| pair.shown == pair.there);
        let are_several = others.pairs.iter().any(|pair| pair.shown != others.pairs[0].shown);
        if (is_same || are_several) && others.of("", 0).is_some_and(|predicted| predicted != first.there) {
            self.pairs.remove(0);
            self.from_line_start = false;
        }
        Ok(())
    }

    /// Returns the file's indentation for a line of `new`, near a place in `old` counted in half lines.
    pub(super) fn written(&self, shown: &str, near: usize, is_first: bool) -> Result<String, &'static str> {
        let there = self.of(shown, near).ok_or(UNCLEAR)?;
        // `new` may be indented as the file is already.
        let is_first_there = is_first && self.pairs.first().is_some_and(|pair| pair.there == shown);
        let is_guess = is_first_there || self.are_mixed() && !self.is_shown_often(shown);
        if there != shown && is_guess { Err(UNCLEAR) } else { Ok(there) }
    }

    /// Tells whether lines of `old` leave no doubt about an indentation: all agree, and they are several, or it is of
    /// another unit there.
    fn is_shown_often(&self, shown: &str) -> bool {
        let mut same = self.pairs.iter().filter(|pair| pair.shown == shown);
        let Some(first) = same.next() else { return false };
        let unit = |indent: &str| measure(indent).and_then(|(unit, _)| unit);
        let is_other_unit =
            unit(first.shown).is_some() && unit(first.there).is_some_and(|there| Some(there) != unit(shown));
        let others: Vec<&Pair<'_>> = same.collect();
        (is_other_unit || !others.is_empty()) && others.iter().all(|pair| pair.there == first.there)
    }

    /// Tells whether `old` shows some lines as the file has them, and others shifted by nothing that holds for all.
    fn are_mixed(&self) -> bool {
        let is_same = |pair: &&Pair<'_>| pair.shown == pair.there;
        let Some(same) = self.pairs.iter().find(is_same) else { return false };
        let deeper = self.pairs.iter().find(|pair| is_same(pair) && !pair.shown.is_empty()).unwrap_or(same);
        let is_other = |pair: &Pair<'_>| pair.shown != pair.there;
        self.pairs.iter().any(|pair| is_other(pair) && (!deeper.shown.is_empty() || pair.shown.is_empty()))
    }

    /// Returns the file's indentation for one as the model wrote it, near a place in `old` counted in half lines.
    pub(super) fn of(&self, shown: &str, near: usize) -> Option<String> {
        let distance = |pair: &&Pair<'_>| (2 * pair.line).abs_diff(near);
        if let Some(pair) = self.pairs.iter().filter(|pair| pair.shown == shown).min_by_key(distance) {
            return Some(pair.there.to_owned());
        }
        let is_same = self.pairs.iter().all(|pair| pair.shown == pair.there);
        let Some((unit, width)) = measure(shown) else { return is_same.then(|| shown.to_owned()) };
        let unit = unit.or_else(|| self.pairs.iter().find_map(|pair| measure(pair.shown)?.0));
        let mut points: Vec<(Measure, Measure, usize)> = Vec::new();
        for pair in &self.pairs {
            let (Some(shown), Some(there)) = (measure(pair.shown), measure(pair.there)) else { continue };
            if unit.is_none() || shown.0.is_none() || shown.0 == unit {
                points.push((shown, there, distance(&pair)));
            }
        }
        if points.is_empty() && is_same {
            return Some(shown.to_owned());
        }
        points.sort_by_key(|(shown, _, distance)| ((shown.1 - width).abs(), shown.1, *distance));
        points.dedup_by_key(|(shown, ..)| shown.1);
        let mut units = points.iter().filter_map(|(_, there, _)| there.0);
        let there = units.next().or_else(|| if is_same { unit } else { self.unit_nearby() }).or(unit);
        if units.any(|unit| Some(unit) != there) {
            return None;
        }
        let width = match points[..] {
            [] => None,
            [(shown, there_one, _)] => self.by_one((unit, width), shown.1, there_one.1, there),
            [(a, to_a, _), (b, to_b, _), ..] => {
                let (across, up) = (b.1 - a.1, to_b.1 - to_a.1);
                let part = (width - a.1) * up;
                let further = (across * up > 0 && part % across == 0).then(|| part / across)?;
                let is_by_tabs = there == Some(Unit::Tab) || unit == Some(Unit::Tab);
                let is_whole = across == up || is_by_tabs || further % self.step() == 0;
                is_whole.then_some(to_a.1 + further)
            }
        }?;
        let character = if there == Some(Unit::Tab) { "\t" } else { " " };
        Some(character.repeat(usize::try_from(width).ok()?))
    }

    /// If only one indentation is known: as many steps further as the model shows, if that is a whole number.
    fn by_one(&self, (unit, width): Measure, shown: i64, there: i64, unit_there: Option<Unit>) -> Option<i64> {
        let further = width - shown;
        let whole = |step: i64| (step > 0 && further % step == 0).then(|| further / step);
        match (unit, unit_there) {
            (Some(Unit::Tab), Some(Unit::Space)) => {
                let step =
                    if shown > 0 && there > 0 { (there % shown == 0).then(|| there / shown)? } else { self.step() };
                Some(there + further * step)
            }
            (Some(Unit::Space), Some(Unit::Tab)) => {
                let step = match (shown, there) {
                    (1.., 1..) if shown % there == 0 && shown > there => shown / there,
                    (1.., 0) => return None,
                    _ => self.shown_step,
                };
                Some(there + whole(step)?)
            }
            (Some(Unit::Tab) | None, _) | (_, None) => Some(there + further),
            (Some(Unit::Space), _) if shown == there => Some(width),
            (Some(Unit::Space), _) => {
                let (step, shown_step) = (self.step(), self.shown_step);
                let by_steps = shown * step == there * shown_step;
                let is_scaled = shown == 2 * there || there == 2 * shown;
                match () {
                    () if by_steps && step != shown_step => Some(there + whole(shown_step)? * step),
                    // Half as deep, or shifted: both fit.
                    () if is_scaled => None,
                    () => whole(step).map(|_| there + further),
                }
            }
        }
    }

    /// Returns what indents the nearest line before the place, or else after it.
    fn unit_nearby(&self) -> Option<Unit> {
        let unit = |line: &str| match line.bytes().next() {
            Some(b'\t') => Some(Unit::Tab),
            Some(b' ') if !is_blank(line) => Some(Unit::Space),
            _ => None,
        };
        let (before, after) = self.text.split_at(self.at);
        before.rsplit('\n').skip(1).find_map(unit).or_else(|| after.split('\n').skip(1).find_map(unit))
    }

    /// Returns the file's usual indentation step in spaces: the most frequent increase from one line to the next.
    fn step(&self) -> i64 {
        const STEPS: usize = 9;
        let mut counts = [0_usize; STEPS];
        let mut previous = 0;
        for line in self.text.split('\n').filter(|line| !is_blank(line)) {
            let indent = indented(line).0;
            if indent.bytes().all(|byte| byte == b' ') {
                if let Some(count) = indent.len().checked_sub(previous).and_then(|further| counts.get_mut(further)) {
                    *count += 1;
                }
                previous = indent.len();
            }
        }
        let most = (2..STEPS).rev().max_by_key(|step| counts[*step]).filter(|step| counts[*step] > 0);
        most.unwrap_or(2) as i64
    }
}

fn greatest_common_divisor(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}
