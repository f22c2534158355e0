//! Quotes and unquotes file names as git does in patches.

/// Writes a name, in double quotes with octal escapes where git would quote it.
pub fn quote(name: &[u8], out: &mut Vec<u8>) {
    if !name.iter().any(|byte| needs_quoting(*byte)) {
        out.extend_from_slice(name);
        return;
    }
    out.push(b'"');
    for &byte in name {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0x07 => out.extend_from_slice(b"\\a"),
            0x08 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            0x0b => out.extend_from_slice(b"\\v"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            byte if needs_quoting(byte) => out.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
            byte => out.push(byte),
        }
    }
    out.push(b'"');
}

fn needs_quoting(byte: u8) -> bool {
    !(0x20..0x7f).contains(&byte) || byte == b'"' || byte == b'\\'
}

/// Returns the name behind `--- `, `+++ ` or `rename to ` of a diff, quoted or not.
pub fn of_header(name: &str) -> String {
    let name = name.trim_end_matches('\t');
    unquote(name.as_bytes()).map_or_else(|| name.to_owned(), |(name, _)| String::from_utf8_lossy(&name).into_owned())
}

/// Reads a quoted name at the start of `text`; returns it and what follows the closing quote.
pub fn unquote(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut rest = text.strip_prefix(b"\"")?;
    let mut name = Vec::new();
    loop {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        match byte {
            b'"' => return Some((name, rest)),
            b'\\' => {
                let (&escape, after) = rest.split_first()?;
                rest = after;
                name.push(match escape {
                    b'a' => 0x07,
                    b'b' => 0x08,
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'v' => 0x0b,
                    b'f' => 0x0c,
                    b'r' => b'\r',
                    b'"' | b'\\' => escape,
                    b'0'..=b'3' => {
                        let (digits, after) = rest.split_at_checked(2)?;
                        rest = after;
                        let value = |digit: u8| (b'0'..=b'7').contains(&digit).then(|| digit - b'0');
                        (escape - b'0') << 6 | value(digits[0])? << 3 | value(digits[1])?
                    }
                    _ => return None,
                });
            }
            byte => name.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_bytes_that_could_be_misread_are_quoted() {
        let quoted = |name: &[u8]| {
            let mut out = Vec::new();
            quote(name, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(quoted(b"a b'c"), "a b'c");
        assert_eq!(quoted("\u{e9}\n".as_bytes()), r#""\303\251\n""#);
        assert_eq!(quoted(b"a\"\\\x01\x7f"), r#""a\"\\\001\177""#);
    }

    proptest! {
        #[test]
        fn unquoting_gives_back_every_quoted_name(name in proptest::collection::vec(1u8.., 1..20)) {
            let mut out = Vec::new();
            quote(&name, &mut out);
            if out[0] == b'"' && name[0] != b'"' || out.len() != name.len() {
                out.extend_from_slice(b" rest");
                prop_assert_eq!(unquote(&out), Some((name, b" rest".as_slice())));
            } else {
                prop_assert_eq!(out, name);
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in proptest::collection::vec(any::<u8>(), 0..20)) {
            let _ = unquote(&[b"\"", text.as_slice()].concat());
        }
    }
}
