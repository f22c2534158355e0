//! Parses TOML, with the position of each key.

use std::collections::BTreeMap;

use ::toml::{Spanned as Ranged, Value};

use crate::base::{Diagnostic, Span, Spanned};

/// Reads the keys of a file, in its order. `file` is the name that errors carry.
pub fn parse(file: &str, text: &str) -> Result<Vec<(Spanned<String>, Value)>, Diagnostic> {
    let text = text.replace("\r\n", "\n");
    let read = ::toml::from_str::<BTreeMap<Ranged<String>, Value>>(&text).map_err(|error| {
        let range = error.span().unwrap_or_default();
        let mut message = error.message().replace('\n', ", ");
        if message == "duplicate key" {
            message = format!("duplicate key `{}`", &text[range.clone()]);
        }
        let diagnostic = Diagnostic::at(file, Span::of(&text, range.start), message);
        match diagnostic.message.contains("escape") {
            true => diagnostic.help("write `\\\\` for a backslash, or the text in '''…'''"),
            false => diagnostic,
        }
    })?;
    let mut entries: Vec<_> = read.into_iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    let spanned = |key: Ranged<String>| Spanned { span: Span::of(&text, key.span().start), value: key.into_inner() };
    Ok(entries.into_iter().map(|(key, value)| (spanned(key), value)).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn faults_name_their_place() {
        let texts = ["a = \"x", "\na = \"\"\"\nx", "a", "a = ", "a = \"x\" y", "a = 1\na = 2", "a = \"\\d\""];
        let messages: Vec<String> = texts.iter().map(|text| parse("c", text).unwrap_err().to_string()).collect();
        insta::assert_snapshot!(messages.join("\n"), @r#"
        c:1:7: invalid basic string, expected `"`
        c:3:2: invalid multi-line basic string, expected `"`
        c:1:2: key with no value, expected `=`
        c:1:5: string values must be quoted, expected literal string
        c:1:9: unexpected key or value, expected newline, `#`
        c:2:1: duplicate key `a`
        c:1:7: missing escaped value, expected `b`, `e`, `f`, `n`, `r`, `\`, `"`, `x`, `u`, `U`
          help: write `\\` for a backslash, or the text in '''…'''
        "#);
    }

    #[test]
    fn keys_come_in_the_order_of_the_file_and_windows_line_ends_are_read() {
        let entries = parse("c", "# c\r\n\"z b\" = 'x' # y\r\nb = '''\r\nz\r\n'''\r\n").unwrap();
        let read: Vec<_> =
            entries.iter().map(|(key, value)| (&*key.value, value.as_str().unwrap(), key.span)).collect();
        let at = |line| Span { line, column: 1 };
        assert_eq!(read, [("z b", "x", at(2)), ("b", "z\n", at(3))]);
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "[ab='\"\\\\#\n\u{e4}uxU0\\[]{0,40}") {
            let _either = parse("c", &text);
        }
    }
}
