//! Places what a model suggests in the place of lines.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::findings::Suggestion;

/// Lines of a suggestion at most.
const MOST: usize = 60;

/// What stands in the text that a model reads for something that it does not see.
const STAND_INS: [&str; 2] = ["[redacted:", " bytes not shown ...]"];

/// Returns the suggestion to write this text in the place of these lines. A text without indentation gets that of the
/// first line.
///
/// There is none if it changes nothing, is too long, does not fit lines that are there, or writes what only stands for
/// a text that the model did not see.
pub fn suggestion(range: RangeInclusive<u64>, replacement: &str, lines: &BTreeMap<u64, String>) -> Option<Suggestion> {
    let (start_line, end_line) = range.clone().into_inner();
    let old: Vec<&str> = range.take(MOST + 1).map_while(|line| lines.get(&line)).map(String::as_str).collect();
    let count = end_line.checked_sub(start_line)?.checked_add(1)?;
    let is_there = u64::try_from(old.len()).is_ok_and(|there| there == count);
    let new: Vec<&str> = replacement.lines().collect();
    if !is_there || old.len() > MOST || new.len() > MOST {
        return None;
    }
    let indentation: &str = old.first().map_or("", |line| &line[..line.len() - line.trim_start().len()]);
    let is_indented = |line: &&str| line.starts_with([' ', '\t']);
    let indentation = if new.iter().any(is_indented) { "" } else { indentation };
    let new = new.iter().map(|line| if line.is_empty() { String::new() } else { format!("{indentation}{line}") });
    let new: Vec<String> = new.collect();
    let invents = |stand_in: &&str| {
        new.iter().any(|line| line.contains(stand_in)) && !old.iter().any(|line| line.contains(stand_in))
    };
    if new == old || STAND_INS.iter().any(invents) {
        return None;
    }
    let replacement = new.iter().map(|line| format!("{line}\n")).collect();
    Some(Suggestion { start_line, end_line, replacement })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(text: &str) -> BTreeMap<u64, String> {
        (1..).zip(text.lines().map(str::to_owned)).collect()
    }

    fn placed(text: &str, range: RangeInclusive<u64>, replacement: &str) -> Option<String> {
        suggestion(range, replacement, &lines(text)).map(|suggestion| suggestion.replacement)
    }

    #[test]
    fn a_text_without_indentation_gets_that_of_the_first_line() {
        let code = "fn a() {\n\tlet x = 1;\n\tx\n}\n";
        for (range, replacement, written) in [
            (2..=2, "let x = 2;", "\tlet x = 2;\n"),
            (2..=3, "if y {\n\tx\n}", "if y {\n\tx\n}\n"),
            (2..=3, "2\n\n3\r\n", "\t2\n\n\t3\n"),
            (1..=1, "fn b() {", "fn b() {\n"),
            (2..=2, "", ""),
            (2..=2, "\n", "\n"),
        ] {
            assert_eq!(placed(code, range, replacement).as_deref(), Some(written), "{replacement:?}");
        }
    }

    #[test]
    fn what_changes_nothing_is_too_long_or_writes_a_placeholder_is_no_suggestion() {
        let code = "\tlet k = \"hunter2\";\n".repeat(70);
        for (range, replacement) in [
            (1..=1, "let k = \"hunter2\";\n".to_owned()),
            (1..=61, "x".to_owned()),
            (1..=1, "x\n".repeat(61)),
            (70..=71, "x".to_owned()),
            (0..=1, "x".to_owned()),
            (1..=1, "let k = load(\"[redacted:PASSWORD]\");".to_owned()),
            (1..=1, "let k = \"hu[... 3 bytes not shown ...]r2\";".to_owned()),
        ] {
            assert_eq!(placed(&code, range.clone(), &replacement), None, "{range:?} {replacement}");
        }
        assert!(placed("a [redacted: b\n", 1..=1, "b [redacted: a").is_some(), "the code itself says so");
    }

    proptest! {
        /// However long the text and wherever the range, nothing panics, and what is placed lies on lines that are there.
        #[test]
        fn a_suggestion_lies_on_lines_that_are_there(
            text in "([a \t]{0,4}\n){0,8}", start in 0_u64..10, more in 0_u64..u64::MAX, replacement in "[a \t\r\n]{0,9}",
        ) {
            let lines = lines(&text);
            if let Some(placed) = suggestion(start..=start.saturating_add(more), &replacement, &lines) {
                prop_assert!((placed.start_line..=placed.end_line).all(|line| lines.contains_key(&line)));
                prop_assert!(placed.replacement.is_empty() || placed.replacement.ends_with('\n'));
            }
        }
    }
}
