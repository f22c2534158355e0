//! Decodes `$'…'` quoting.

use std::iter::Peekable;
use std::str::Chars;

use crate::hidden::is_hidden;
use crate::policy::decision::Denial;

/// Decodes what is between `$'` and `'`, as bash does in a UTF-8 locale.
///
/// Refuses NUL (where bash would cut the word), `\c`, `\x{…}`, bytes that are no UTF-8, and characters that the text of
/// a command may not contain either. Escape and carriage return pass: filters look for them.
pub(super) fn decode(raw: &str) -> Result<String, Denial> {
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '\\' {
            push(&mut bytes, c);
            continue;
        }
        let Some(escape) = rest.next() else {
            return Err(Denial::unanalysable("`$'…'` ends in a backslash"));
        };
        match escape {
            'a' => bytes.push(7),
            'b' => bytes.push(8),
            'e' | 'E' => bytes.push(27),
            'f' => bytes.push(12),
            'n' => bytes.push(b'\n'),
            'r' => bytes.push(b'\r'),
            't' => bytes.push(b'\t'),
            'v' => bytes.push(11),
            '\\' | '\'' | '"' | '?' => push(&mut bytes, escape),
            '0'..='7' => {
                let mut value = escape.to_digit(8).unwrap_or(0);
                for _ in 0..2 {
                    let Some(digit) = rest.peek().and_then(|c| c.to_digit(8)) else { break };
                    value = value * 8 + digit;
                    rest.next();
                }
                bytes.push((value & 0xff) as u8);
            }
            'x' | 'u' | 'U' => hexadecimal(escape, &mut rest, &mut bytes)?,
            'c' => return Err(Denial::unanalysable("`\\c` in `$'…'`")),
            other => {
                bytes.push(b'\\');
                push(&mut bytes, other);
            }
        }
    }
    if bytes.contains(&0) {
        return Err(Denial::unanalysable("a NUL in `$'…'`"));
    }
    let text = String::from_utf8(bytes).map_err(|_| Denial::unanalysable("`$'…'` that is not UTF-8"))?;
    let is_odd = |c: &char| match c {
        '\u{1b}' | '\r' | '\n' | '\t' | ' ' => false,
        c => is_hidden(*c) || c.is_whitespace(),
    };
    match text.chars().find(is_odd) {
        Some(c) => Err(Denial::unanalysable(format!("`$'…'` holds the invisible character U+{:04X}", u32::from(c)))),
        None => Ok(text),
    }
}

fn hexadecimal(escape: char, rest: &mut Peekable<Chars<'_>>, bytes: &mut Vec<u8>) -> Result<(), Denial> {
    let most = match escape {
        'x' => 2,
        'u' => 4,
        _ => 8,
    };
    let mut digits = String::new();
    while digits.len() < most {
        let Some(digit) = rest.next_if(char::is_ascii_hexdigit) else { break };
        digits.push(digit);
    }
    let Ok(value) = u32::from_str_radix(&digits, 16) else {
        return Err(Denial::unanalysable(format!("`\\{escape}` in `$'…'` without hexadecimal digits")));
    };
    match char::from_u32(value) {
        _ if escape == 'x' => bytes.push((value & 0xff) as u8),
        Some(c) => push(bytes, c),
        None => return Err(Denial::unanalysable(format!("`\\{escape}{digits}` is not a character"))),
    }
    Ok(())
}

fn push(bytes: &mut Vec<u8>, c: char) {
    bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

/// Encodes text for `$'…'` so that no control character remains in it.
pub(super) fn encode(text: &str, to: &mut String) {
    to.push_str("$'");
    for c in text.chars() {
        match c {
            '\n' => to.push_str("\\n"),
            '\t' => to.push_str("\\t"),
            '\r' => to.push_str("\\r"),
            '\\' => to.push_str("\\\\"),
            '\'' => to.push_str("\\'"),
            c if is_hidden(c) => match u32::from(c) {
                code @ 0..=0x7f => to.push_str(&format!("\\x{code:02x}")),
                code => to.push_str(&format!("\\U{code:08x}")),
            },
            c => to.push(c),
        }
    }
    to.push('\'');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_as_bash_does() {
        let cases = [
            (r"\x41\u00e9\'", "Aé'"),
            (r"\101\60", "A0"),
            (r"a\qb", r"a\qb"),
            (r"\xc3\xa9", "é"),
            (r"\e[1m", "\u{1b}[1m"),
            (r"\1234", "S4"),
        ];
        for (raw, text) in cases {
            assert_eq!(decode(raw).as_deref(), Ok(text), "{raw}");
        }
        for raw in [
            r"a\0b",
            r"\x00",
            r"\xff",
            r"\ca",
            r"\x{41}",
            r"\ud800",
            r"\v",
            r"\f",
            r"\u200b",
            r"\xc2\xa0",
            r"\x7f",
            "\\",
        ] {
            assert!(decode(raw).is_err(), "{raw}");
        }
    }
}
