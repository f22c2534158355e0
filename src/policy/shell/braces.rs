//! Expands braces as bash does, including braces that are not balanced or hold no list.

use crate::policy::decision::Denial;

use super::ast::{Part, Word};

/// Maximum words that one word may become.
const WORDS_CAP: usize = 2_000;
/// Maximum characters and parts that these words may have together.
const SIZE_CAP: usize = 200_000;
/// Maximum open braces in one word.
const BRACES_CAP: usize = 64;

#[derive(Debug, Clone)]
enum Unit {
    Char(char),
    Opaque(Part),
}

/// Expands the braces of a word.
pub(super) fn expand(word: &Word) -> Result<Vec<Word>, Denial> {
    let open = word.parts.iter().map(|part| match part {
        Part::Plain(text) => text.matches('{').count(),
        _ => 0,
    });
    let open: usize = open.sum();
    if open == 0 {
        return Ok(vec![word.clone()]);
    }
    if open > BRACES_CAP {
        return Err(Denial::unanalysable(format!("a word has more than {BRACES_CAP} braces")));
    }
    let mut units = Vec::new();
    for part in &word.parts {
        match part {
            Part::Plain(text) => units.extend(text.chars().map(Unit::Char)),
            _ => units.push(Unit::Opaque(part.clone())),
        }
    }
    expand_units(&units)?.iter().map(|units| join(units)).collect()
}

fn join(units: &[Unit]) -> Result<Word, Denial> {
    let mut word = Word::default();
    for unit in units {
        match unit {
            Unit::Char(c) => {
                if let Some(Part::Parameter(parameter)) = word.parts.last()
                    && !parameter.braced
                    && (c.is_ascii_alphanumeric() || *c == '_')
                {
                    let name = &parameter.name;
                    return Err(Denial::unanalysable(format!("braces around `${name}` change its name"))
                        .hint(format!("write ${{{name}}}")));
                }
                word.push_plain(*c);
            }
            Unit::Opaque(Part::Quoted(text)) => word.push_quoted(text),
            Unit::Opaque(part) => word.parts.push(part.clone()),
        }
    }
    Ok(word)
}

fn is_char(unit: Option<&Unit>, c: char) -> bool {
    matches!(unit, Some(Unit::Char(unit)) if *unit == c)
}

/// Returns the next place from `from` on where `wanted` stands outside inner braces; a `}` also needs a list or a
/// sequence before it.
fn find(units: &[Unit], from: usize, wanted: char) -> Option<usize> {
    let mut level = 0_usize;
    let mut lists = wanted != '}';
    let mut at = from;
    while let Some(unit) = units.get(at) {
        if let Unit::Char(c) = *unit {
            if c == wanted && level == 0 && lists {
                // `{}` at the start of a word is left alone.
                if !(c == '{' && at == 0 && (units.len() == 1 || is_char(units.get(1), '}'))) {
                    return Some(at);
                }
            } else if c == '{' {
                level += 1;
            } else if c == '}' && level > 0 {
                level -= 1;
            } else if wanted == '}' && level == 0 {
                lists |= c == ',' || (c == '.' && is_char(units.get(at + 1), '.') && !is_char(units.get(at + 2), '}'));
            }
        }
        at += 1;
    }
    None
}

fn expand_units(units: &[Unit]) -> Result<Vec<Vec<Unit>>, Denial> {
    let mut from = 0;
    let (open, close) = loop {
        let Some(open) = find(units, from, '{') else { return Ok(vec![units.to_vec()]) };
        if let Some(close) = find(units, open + 1, '}') {
            break (open, close);
        }
        from = open + 1;
    };
    let inside = &units[open + 1..close];
    let middle = if inside.iter().any(|unit| matches!(unit, Unit::Char(','))) {
        list(inside)?
    } else {
        if inside.iter().any(|unit| matches!(unit, Unit::Opaque(part) if may_hold_comma(part))) {
            return Err(Denial::unanalysable("braces around quotes with a comma").hint("write the words out"));
        }
        match sequence(inside)? {
            Some(words) => words,
            None => vec![units[open..=close].to_vec()],
        }
    };
    let before = vec![units[..open].to_vec()];
    let after = if close + 1 < units.len() { expand_units(&units[close + 1..])? } else { vec![Vec::new()] };
    product(&product(&before, &middle)?, &after)
}

/// bash looks for the comma in the raw text, quotes or not.
fn may_hold_comma(part: &Part) -> bool {
    match part {
        Part::Quoted(text) | Part::Plain(text) => text.contains(','),
        Part::Double(_) | Part::Substitution(_) | Part::Process(_) | Part::Path(_) | Part::Text(_) => true,
        Part::Parameter(_) => false,
    }
}

fn product(left: &[Vec<Unit>], right: &[Vec<Unit>]) -> Result<Vec<Vec<Unit>>, Denial> {
    let size: usize = left.iter().map(|l| right.iter().map(|r| l.len() + r.len()).sum::<usize>()).sum();
    if left.len() * right.len() > WORDS_CAP || size > SIZE_CAP {
        return Err(Denial::unanalysable(format!("braces make more than {WORDS_CAP} words")));
    }
    Ok(left.iter().flat_map(|l| right.iter().map(|r| [l.as_slice(), r.as_slice()].concat())).collect())
}

fn list(inside: &[Unit]) -> Result<Vec<Vec<Unit>>, Denial> {
    let mut words = Vec::new();
    let mut start = 0;
    loop {
        let end = find(inside, start, ',');
        words.extend(expand_units(&inside[start..end.unwrap_or(inside.len())])?);
        if words.len() > WORDS_CAP {
            return Err(Denial::unanalysable(format!("braces make more than {WORDS_CAP} words")));
        }
        match end {
            Some(end) => start = end + 1,
            None => return Ok(words),
        }
    }
}

/// Expands `a..b` or `a..b..step`; `None` if it is not a sequence.
fn sequence(inside: &[Unit]) -> Result<Option<Vec<Vec<Unit>>>, Denial> {
    let mut text = String::new();
    for unit in inside {
        match unit {
            Unit::Char(c) => text.push(*c),
            Unit::Opaque(_) => return Ok(None),
        }
    }
    let Some((first, rest)) = text.split_once("..") else { return Ok(None) };
    let (last, step) = match rest.split_once("..") {
        Some((last, step)) => (last, Some(step)),
        None => (rest, None),
    };
    let number = |text: &str| -> Result<Option<i64>, Denial> {
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Ok(None);
        }
        if digits.len() > 9 {
            return Err(Denial::unanalysable("a sequence of very large numbers"));
        }
        Ok(text.strip_prefix('+').unwrap_or(text).parse().ok())
    };
    let letter = |text: &str| {
        let mut chars = text.chars();
        chars.next().filter(|c| c.is_ascii_alphabetic() && chars.next().is_none())
    };
    let step = match step {
        None => 1,
        Some(step) => match number(step)? {
            Some(step) => step,
            None => return Ok(None),
        },
    };
    let step = step.unsigned_abs().max(1);
    let words = if let (Some(start), Some(end)) = (number(first)?, number(last)?) {
        let padded = |text: &str| {
            let digits = text.strip_prefix('-').unwrap_or(text);
            digits.len() > 1 && digits.starts_with('0')
        };
        let width = if padded(first) || padded(last) { first.len().max(last.len()) } else { 0 };
        steps(start, end, step)?.map(|n| format!("{n:0width$}")).collect::<Vec<_>>()
    } else if let (Some(start), Some(end)) = (letter(first), letter(last)) {
        if start.is_ascii_lowercase() != end.is_ascii_lowercase() {
            return Err(Denial::unanalysable("a sequence from small to capital letters"));
        }
        let code = |c: char| i64::from(u32::from(c));
        let char = |n: i64| u32::try_from(n).ok().and_then(char::from_u32).map(String::from);
        steps(code(start), code(end), step)?.filter_map(char).collect()
    } else {
        return Ok(None);
    };
    Ok(Some(words.iter().map(|word| word.chars().map(Unit::Char).collect()).collect()))
}

fn steps(start: i64, end: i64, step: u64) -> Result<impl Iterator<Item = i64>, Denial> {
    let count = end.abs_diff(start) / step;
    if count >= WORDS_CAP as u64 {
        return Err(Denial::unanalysable(format!("braces make more than {WORDS_CAP} words")));
    }
    let step = i64::try_from(step).unwrap_or(i64::MAX) * if end < start { -1 } else { 1 };
    Ok((0..=count as i64).map(move |n| if n == 0 { start } else { start + n * step }))
}
