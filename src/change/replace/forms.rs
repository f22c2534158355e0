//! Undoes what models add when they copy text from a listing, an answer or an escaped string.

use std::collections::BTreeSet;

use super::key::is_blank;

/// `old` and `new` in another form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) old: String,
    pub(super) new: String,
    pub(super) borders: Borders,
}

/// Where a place of a form may begin and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Borders {
    /// Anywhere.
    Any,
    /// Not within a word.
    Words,
    /// With a line.
    Lines,
    /// With a line that is exactly the text.
    ExactLine,
}

/// What is between the number of a line and the line.
const SEPARATORS: [&str; 17] =
    [" | ", " │ ", " → ", " - ", "| ", "│ ", "→ ", ": ", ". ", ") ", "|", "│", "→", "\t", ":", ".", " "];

/// Strips line numbers: every line of `old` begins with consecutive ones and the same separator. One form for each
/// separator that they may have, the longest first.
pub(super) fn without_numbers(old: &str, new: &str) -> Vec<Form> {
    let forms = SEPARATORS.iter().filter_map(|separator| {
        let (plain_old, first, count) = unnumbered(old, separator)?;
        let is_blank_new = new.lines().all(is_blank);
        let plain_new = unnumbered(new, separator);
        let is_sure = count > 1 || is_blank_new || plain_new.as_ref().is_some_and(|(_, number, _)| *number == first);
        let borders = if is_sure { Borders::Lines } else { Borders::ExactLine };
        let new = match plain_new {
            Some((plain, ..)) => plain,
            None => by_equal_lines(old, new, separator)?,
        };
        Some(Form { old: plain_old, new, borders })
    });
    forms.collect()
}

/// Returns a text without its line numbers, the first of them, and how many there are.
fn unnumbered(text: &str, separator: &str) -> Option<(String, usize, usize)> {
    let (body, end) = text.strip_suffix('\n').map_or((text, ""), |body| (body, "\n"));
    let mut lines = Vec::new();
    let mut first = None;
    for (index, line) in body.split('\n').enumerate() {
        let (number, line) = numbered(line, separator)?;
        if *first.get_or_insert(number) + index != number {
            return None;
        }
        lines.push(line);
    }
    Some((lines.join("\n") + end, first?, lines.len()))
}

/// Splits a line into its number and what follows the separator.
fn numbered<'l>(line: &'l str, separator: &str) -> Option<(usize, &'l str)> {
    let line = line.trim_start_matches([' ', '\t']);
    let line = line.strip_prefix('L').unwrap_or(line);
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = line.split_at(digits);
    // An empty line may have lost the space of its separator.
    let content = rest.strip_prefix(separator).or_else(|| (rest == separator.trim_end()).then_some(""))?;
    Some((number.parse().ok().filter(|_| digits < 8)?, content))
}

/// Strips numbers of a text that has them only in lines that it shares with `old`; `None` if others may have them.
fn by_equal_lines(old: &str, new: &str, separator: &str) -> Option<String> {
    let known: BTreeSet<&str> = old.split('\n').filter(|line| !line.is_empty()).collect();
    let lines = new.split('\n').map(|line| match numbered(line, separator) {
        Some((_, content)) => known.contains(line).then_some(content),
        None => Some(line),
    });
    Some(lines.collect::<Option<Vec<_>>>()?.join("\n"))
}

/// Strips the Markdown fence that is all around `old`, and that around `new`.
pub(super) fn without_fence(form: &Form) -> Option<Form> {
    let mut inner = unfenced(&form.old)?.to_owned();
    let fenced = unfenced(&form.new);
    let new = fenced.unwrap_or(&form.new);
    if fenced.is_none() && new.ends_with('\n') && !inner.ends_with('\n') {
        inner.push('\n');
    }
    // It is unknown whether the line belongs to its text.
    let is_unclear = new.is_empty() && !inner.ends_with('\n');
    (!is_unclear).then(|| Form { old: inner, new: new.to_owned(), borders: form.borders })
}

/// Returns what is in a Markdown fence that is all around a text. Small models end it as they began it.
pub(crate) fn unfenced(text: &str) -> Option<&str> {
    let text = text.trim_matches('\n');
    let mark = text.bytes().next().filter(|mark| matches!(mark, b'`' | b'~'))?;
    let length = text.bytes().take_while(|byte| *byte == mark).count();
    let (fence, rest) = text.split_at(length);
    let (info, body) = rest.split_once('\n')?;
    let inner = match body.strip_suffix(fence).or_else(|| body.strip_suffix(&text[..length + info.len()]))? {
        "" => "",
        inner => inner.strip_suffix('\n')?,
    };
    let is_one = length >= 3 && !info.contains(['`', ' ']) && !inner.split('\n').any(|line| line.starts_with(fence));
    is_one.then_some(inner)
}

/// Drops the empty lines at the ends of `old`, and of `new` as many: what they surround says where they are.
pub(super) fn without_blank_ends(form: &Form) -> Option<Form> {
    let (above, core, below) = ends(&form.old);
    let (above_new, core_new, below_new) = ends(&form.new);
    // The end of the last line is not an empty line.
    let has_some = above > 0 || below > 1;
    // If `new` has some of the empty lines, it is unknown whether it leaves out the others on purpose.
    let is_unclear = (1..above).contains(&above_new) || (2..below).contains(&below_new);
    if !has_some || is_unclear || core.is_empty() || core_new.is_empty() {
        return None;
    }
    let (above, below) = (above_new.saturating_sub(above), below_new.saturating_sub(below));
    let new = "\n".repeat(above) + core_new + &"\n".repeat(below);
    Some(Form { old: core.to_owned(), new, borders: form.borders.max(Borders::Lines) })
}

/// Splits a text into the number of empty lines at its beginning, what is between, and those at its end.
fn ends(text: &str) -> (usize, &str, usize) {
    let mut core = text;
    let (mut above, mut below) = (0, 0);
    while let Some((line, rest)) = core.split_once('\n').filter(|(line, _)| is_blank(line)) {
        let _blank = line;
        (core, above) = (rest, above + 1);
    }
    while let Some((rest, _)) = core.rsplit_once('\n').filter(|(_, line)| is_blank(line)) {
        (core, below) = (rest, below + 1);
    }
    if is_blank(core) { (above, "", below) } else { (above, core, below) }
}

/// Undoes what is typed out instead of the character: one form for each set of escapes and entities.
pub(super) fn without_escapes(form: &Form) -> Vec<Form> {
    const SETS: usize = 8;
    let (old, new, borders) = (form.old.as_str(), form.new.as_str(), form.borders);
    let (shown, shown_new) = (escapes(old), escapes(new));
    if shown.is_empty() {
        return Vec::new();
    }
    let all = (1_usize << shown.len().min(SETS)) - 1;
    let first = if shown.len() > SETS { all } else { 1 };
    // A text that has the character, too, means its escapes as they are, unless `old` does so.
    let means_itself = |token: &str| has_raw(new, token) && !has_raw(old, token);
    let form = |set: usize| {
        let is_in = |at: usize| at >= SETS || set >> at & 1 == 1;
        let chosen: BTreeSet<&str> =
            shown.iter().enumerate().filter(|(at, _)| is_in(*at)).map(|(_, token)| *token).collect();
        // One entity typed out means that the others of `new` are, too; `old` does not show whether other escapes are.
        let of_family = |token: &&str| match family(token) {
            Family::Letter => chosen.contains(token),
            family_of => {
                chosen.iter().any(|other| family(other) == family_of) && !shown.contains(token)
                    || chosen.contains(token)
            }
        };
        let in_new: BTreeSet<&str> =
            shown_new.iter().copied().filter(|token| of_family(token) && !means_itself(token)).collect();
        let is_letter = |token: &&str| family(token) == Family::Letter;
        let is_further =
            |token: &&str| is_letter(token) && !shown.contains(token) && !has_raw(old, token) && !has_raw(new, token);
        let is_unclear = in_new.iter().any(is_letter) && shown_new.iter().any(is_further);
        (!is_unclear).then(|| Form { old: undo(old, &chosen), new: undo(new, &in_new), borders })
    };
    (first..=all).filter_map(form).collect()
}

/// Returns the escapes and entities that a text shows.
fn escapes(text: &str) -> BTreeSet<&str> {
    tokens(text).filter(|(_, meant)| meant.is_some()).map(|(token, _)| token).collect()
}

/// What is typed out by one habit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Entity,
    Number,
    Letter,
}

fn family(token: &str) -> Family {
    match token.as_bytes() {
        [b'&', ..] => Family::Entity,
        [_, b'u', ..] => Family::Number,
        _ => Family::Letter,
    }
}

/// Tells whether a text has the character itself that a token stands for.
fn has_raw(text: &str, token: &str) -> bool {
    let meant = tokens(token).next().and_then(|(_, meant)| meant);
    token != "\\\\" && tokens(text).any(|(piece, _)| meant.is_some_and(|meant| piece.chars().eq([meant])))
}

fn undo(text: &str, chosen: &BTreeSet<&str>) -> String {
    let mut undone = String::with_capacity(text.len());
    for (token, meant) in tokens(text) {
        match meant.filter(|_| chosen.contains(token)) {
            Some(meant) => undone.push(meant),
            None => undone.push_str(token),
        }
    }
    undone
}

/// Splits a text into escapes and entities, with what they stand for, and single characters.
fn tokens(text: &str) -> impl Iterator<Item = (&str, Option<char>)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let (length, meant) = match first {
            '\\' => escape(rest),
            '&' => entity(rest),
            _ => None,
        }
        .map_or((first.len_utf8(), None), |(length, meant)| (length, Some(meant)));
        let (token, after) = rest.split_at(length);
        rest = after;
        Some((token, meant))
    })
}

fn escape(text: &str) -> Option<(usize, char)> {
    let letter = *text.as_bytes().get(1)?;
    let meant = match letter {
        b'n' => '\n',
        b't' => '\t',
        b'r' => '\r',
        b'"' | b'\'' | b'`' | b'\\' => char::from(letter),
        b'u' => return Some((6, by_number(text.get(2..6)?, 16)?)),
        _ => return None,
    };
    Some((2, meant))
}

fn entity(text: &str) -> Option<(usize, char)> {
    let end = text.bytes().take(10).position(|byte| byte == b';')?;
    let meant = match &text[1..end] {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => '\u{a0}',
        name => match name.strip_prefix('#')?.strip_prefix(['x', 'X']) {
            Some(digits) => by_number(digits, 16)?,
            None => by_number(&name[1..], 10)?,
        },
    };
    Some((end + 1, meant))
}

fn by_number(digits: &str, radix: u32) -> Option<char> {
    let is_number = digits.chars().all(|c| c.is_digit(radix));
    char::from_u32(u32::from_str_radix(digits, radix).ok().filter(|_| is_number)?).filter(|c| *c != '\0')
}
