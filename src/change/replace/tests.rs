//! Tests that each stage finds exactly what it promises.

use super::*;
use proptest::prelude::*;

fn once(text: &str, old: &str, new: &str) -> Result<(String, Stage), Failure> {
    replace(text, old, new, Wanted::Exactly(1)).map(|replaced| (replaced.text, replaced.stage))
}

#[track_caller]
fn gives(text: &str, old: &str, new: &str, expected: &str, stage: Stage) {
    assert_eq!(once(text, old, new), Ok((expected.to_owned(), stage)), "{old:?} in {text:?}");
}

#[track_caller]
fn is_unclear(text: &str, old: &str, new: &str) {
    let found = once(text, old, new);
    assert!(matches!(found, Err(Failure::Unclear { .. })), "{old:?} in {text:?}: {found:?}");
}

#[track_caller]
fn counts(text: &str, old: &str, expected: usize) {
    match once(text, old, "new") {
        Err(Failure::WrongCount { lines, .. }) => assert_eq!(lines.len(), expected, "{old:?} in {text:?}"),
        other => panic!("{old:?} in {text:?}: {other:?}"),
    }
}

#[track_caller]
fn finds_nothing(text: &str, old: &str) {
    assert_eq!(once(text, old, "new"), Err(Failure::NotFound), "{old:?} in {text:?}");
}

#[test]
fn exact_text_is_replaced_as_it_is() {
    gives("a b c", "b", "x", "a x c", Stage::Exact);
    gives("a\n", "a\n", "", "", Stage::Exact);
    // Whatever the new text looks like, it is put in as it is.
    gives("a", "a", "\\n \u{201c}", "\\n \u{201c}", Stage::Exact);
}

#[test]
fn line_ends_and_mark_are_the_files() {
    gives("a\r\nb\r\nc\r\n", "a\nb", "x\ny", "x\r\ny\r\nc\r\n", Stage::LineEnds);
    gives("a\nb\n", "a\r\nb", "x\r\ny", "x\ny\n", Stage::LineEnds);
    gives("a\r\nb\r\n", "a", "x\ny", "x\r\ny\r\nb\r\n", Stage::Exact);
    gives("a\r\nb", "b", "x\ny", "a\r\nx\r\ny", Stage::Exact);
    gives("a\nb\r\nc\r\n", "b\nc", "x\ny", "a\nx\r\ny\r\n", Stage::LineEnds);
    gives("a\n", "\u{feff}a", "\u{feff}b", "b\n", Stage::LineEnds);
    gives("a\n", "\u{feff}a", "b\n\u{feff}a", "b\na\n", Stage::LineEnds);
    gives("a\nb", "a\nb\n", "c\nd\n", "c\nd", Stage::LineEnds);
    gives("a\nb", "b\r\n", "c\r\n", "a\nc", Stage::LineEnds);
    gives("a\r\nb", "b\n", "c\nd", "a\r\nc\r\nd", Stage::LineEnds);
    // A match never splits the two halves of a line end.
    gives("a\r\nb\r\n", "a\n", "", "b\r\n", Stage::LineEnds);
    gives("a\r\nb\r\n", "\nb", "\nc", "a\r\nc\r\n", Stage::LineEnds);
}

#[test]
fn look_alikes_count_as_what_they_look_like_and_never_reach_the_file() {
    gives(
        "say(\"it's - ok\")",
        "say(\u{201c}it\u{2019}s \u{2013} ok\u{201d})",
        "say(\"x\")",
        "say(\"x\")",
        Stage::LookAlikes,
    );
    gives("x = \u{201c}q\u{201d};", "x = \"q\";", "x = 'r';", "x = 'r';", Stage::LookAlikes);
    gives("a\u{a0}b", "a b", "c", "c", Stage::LookAlikes);
    gives("cafe\u{301} au", "caf\u{e9}", "tea", "tea au", Stage::LookAlikes);
    gives("caf\u{e9}", "cafe\u{301}", "tea", "tea", Stage::LookAlikes);
    // Half a composed character is not a place.
    finds_nothing("cafe\u{301}x", "cafe\u{300}");
    finds_nothing("\u{2014}", "_");
}

#[test]
fn blanks_at_line_ends_do_not_count() {
    gives("a  \nb\nc\n", "a\nb", "x", "x\nc\n", Stage::TrailingBlanks);
    gives("a\nb\n", "a \nb\t\n", "x\n", "x\n", Stage::TrailingBlanks);
    gives("a\t\r\nb\r\n", "a\nb", "x", "x\r\n", Stage::TrailingBlanks);
    gives("foo\nfoobar", "foo ", "x", "x\nfoobar", Stage::TrailingBlanks);
    gives("a  ", "a ", "x", "x ", Stage::Exact);
    gives("z\na\t", "z\na ", "x", "x", Stage::TrailingBlanks);
    // Spaces inside a line and in front of it do count here.
    finds_nothing("foobar", "foo ");
}

#[test]
fn typed_out_escapes_are_undone_in_both_or_in_old_alone() {
    gives("a\nb", r"a\nb", r"x\ny", "x\ny", Stage::OverEscaped);
    gives("say(\"a\")", r#"say(\"a\")"#, r#"say(\"b\")"#, "say(\"b\")", Stage::OverEscaped);
    gives("\ta", r"\ta", "\tb", "\tb", Stage::OverEscaped);
    // New text that shows other escapes, or the real characters too, means what it says.
    gives("say(\"a\")", r#"say(\"a\")"#, r#"say("b\n")"#, r#"say("b\n")"#, Stage::OverEscaped);
    gives("a\nb", r"a\nb", "p(\"\\n\")\nq", "p(\"\\n\")\nq", Stage::OverEscaped);
    gives("a\r\nb\r\n", r"a\nb", r"x\ny", "x\r\ny\r\n", Stage::OverEscaped);
    gives(r"p('\n')", r"p('\\n')", r"p('\\t')", r"p('\t')", Stage::OverEscaped);
    finds_nothing("anb", r"a\nb");
    // A number at the beginning is the file's own, or it numbers a whole line.
    gives("  3 => 'x',\n  4 => 'y',\n", r"  3 => 'x',\n", "", "  4 => 'y',\n", Stage::OverEscaped);
    gives("a \"b\"\nc\n", r#"7: a \"b\""#, r#"7: d \"b\""#, "d \"b\"\nc\n", Stage::OverEscaped);
    finds_nothing("f(a \"b\")\n", r#"7: a \"b\""#);
}

#[test]
fn a_uniform_shift_of_indentation_shifts_the_new_text() {
    gives("    if x:\n        y\n", "if x:\n    y\n", "if x:\n    z\n", "    if x:\n        z\n", Stage::Indentation);
    gives("if x:\n  y\n", "    if x:\n      y\n", "    if x:\n      z\n", "if x:\n  z\n", Stage::Indentation);
    gives("\tif x:\n\t\ty\n", "    if x:\n        y", "    if x:\n        z", "\tif x:\n\t\tz\n", Stage::Indentation);
    gives("\tif x:\n\t\ty\n", "if x:\n  y", "if x:\n  z\n    w", "\tif x:\n\t\tz\n\t\t\tw\n", Stage::Indentation);
    gives("  a\n    b\n", "\ta\n\t\tb", "\ta\n\t\tc", "  a\n    c\n", Stage::Indentation);
    gives("  a\r\n\r\n  b\r\n", "a\n\nb\n", "c\n\nd\n", "  c\r\n\r\n  d\r\n", Stage::Indentation);
    gives("  a\n    b\n", "    a\n      b", "    a\n\n  c", "  a\n\nc\n", Stage::Indentation);
    // A new line that is too far left for the shift cannot be placed without a guess.
    is_unclear("a\n  b\n", "    a\n      b", "c");
}

#[test]
fn at_last_only_blanks_may_differ_by_whole_lines() {
    gives("  f( a,b )\n  g()\n", "f(a, b)\ng()", "h(a)\n  i()", "  h(a)\n    i()\n", Stage::Blanks);
    gives("  f(a )\n    g()\n", "f(a)\ng()", "h(a)\ni()", "  h(a)\n    i()\n", Stage::Blanks);
    finds_nothing("f(a,b) + 1\n", "f(a, b)");
    finds_nothing("a\n\nb\n", "a\nb");
    finds_nothing("x\n", "   ");
}

#[test]
fn every_stage_needs_exactly_the_expected_number() {
    for (text, old, stage) in [
        ("a b a", "a", Stage::Exact),
        ("a\r\nb\r\na\r\nb\r\n", "a\nb", Stage::LineEnds),
        ("\u{201c} \u{201d}", "\"", Stage::LookAlikes),
        ("a \nb\na \nb\n", "a\nb", Stage::TrailingBlanks),
        ("a\nb\na\nb", r"a\nb", Stage::OverEscaped),
        (" a\n  b\n a\n  b\n", "a\n b", Stage::Indentation),
        (" f(a,b)\n  f(a,b)\n", "f(a, b)", Stage::Blanks),
    ] {
        let failure = replace(text, old, "x", Wanted::Exactly(1)).unwrap_err();
        assert!(
            matches!(&failure, Failure::WrongCount { stage: found, lines } if *found == stage && lines.len() == 2),
            "{failure:?}"
        );
        assert_eq!(replace(text, old, "x", Wanted::Exactly(2)).unwrap().stage, stage);
        assert_eq!(replace(text, old, "x", Wanted::All).unwrap().places.len(), 2);
        assert!(replace(text, old, "x", Wanted::Exactly(3)).is_err());
    }
    let lines = |text, old| match replace(text, old, "x", Wanted::Exactly(1)) {
        Err(Failure::WrongCount { lines, .. }) => lines,
        other => panic!("{other:?}"),
    };
    assert_eq!(lines("a\nb\na\n", "a"), [1, 3]);
}

#[test]
fn an_earlier_stage_decides_even_if_a_later_one_would_fit() {
    // Exact finds two, trailing spaces would find three.
    let failure = replace("a\nb\na\nb\na \nb\n", "a\nb", "x", Wanted::Exactly(3)).unwrap_err();
    assert_eq!(failure, Failure::WrongCount { stage: Stage::Exact, lines: vec![1, 3] });
}

#[test]
fn lines_that_old_and_new_share_keep_the_files_bytes() {
    // Quotes, spaces and indentation of a line that nobody meant to change.
    gives(
        "  print( \"a\" )\n  b = 1\n",
        "print(\u{201c}a\u{201d})\nb = 1",
        "print(\u{201c}a\u{201d})\nb = 2",
        "  print( \"a\" )\n  b = 2\n",
        Stage::Blanks,
    );
    gives("a  \r\nb\nc\r\n", "a\nb\nc", "a\nx\nc", "a  \r\nx\nc\r\n", Stage::TrailingBlanks);
    // A line that is said again is the file's line, too.
    gives("  f( a )\n  g()\n", "f(a)\ng()", "f(a)\nf(a)\ng()", "  f( a )\n  f( a )\n  g()\n", Stage::Blanks);
}

#[test]
fn written_lines_get_the_files_characters_for_those_that_old_shows() {
    gives(
        "say(\"a\", \"b\")",
        "say(\u{201c}a\u{201d}, \"b\")",
        "say(\u{201c}c\u{201d}, \u{2018}d\u{2019})",
        "say(\"c\", 'd')",
        Stage::LookAlikes,
    );
    gives("a - b...", "a \u{2013} b\u{2026}", "c \u{2013} d\u{2026}", "c - d...", Stage::LookAlikes);
    gives("a b(c)", "a\u{a0}b(c)", "a\u{a0}d(c)", "a d(c)", Stage::LookAlikes);
    gives("abc def", "ab\u{200b}c def", "ab\u{200b}c xyz", "abc xyz", Stage::LookAlikes);
    // What a written line keeps stays typographic where the file is so.
    gives("x(\u{201c}q\u{201d}, 1);", "x(\"q\", 1);", "x(\"q\", 2);", "x(\u{201c}q\u{201d}, 2);", Stage::LookAlikes);
    // The file has both, and nobody can tell which one a further quote is.
    let text = "a(\"x\")\nb(\u{201c}y\u{201d})\n";
    is_unclear(text, "a(\u{201c}x\u{201d})\nb(\u{201c}y\u{201d})", "c(\u{201c}z\u{201d})");
}

#[test]
fn a_written_line_is_indented_as_the_nearest_line_that_old_shows_indented_as_it() {
    gives("\ta\n\t\tb\n", "a\n  b", "a\n  b\n    c\n  d", "\ta\n\t\tb\n\t\t\tc\n\t\td\n", Stage::Indentation);
    gives("    a\n        b\n", "a\n  b\n", "a\n  b\n    c\n", "    a\n        b\n            c\n", Stage::Indentation);
    // Copied from its first letter on, and otherwise as it is.
    gives("    f( a)\n      b\n", "f(a)\n      b", "g(a)\n      c", "    g(a)\n      c\n", Stage::Blanks);
    // Half a step is a guess.
    is_unclear("\ta\n\t\tb\n", "a\n    b", "a\n    b\n      c");
    // `new` may be indented as the file is, or one step further.
    is_unclear("    f( a)\n", "f(a)\n", "    g(a)\n");
}

#[test]
fn lines_without_a_letter_or_digit_stand_where_the_others_predict() {
    gives(
        "  if a {\n    b;\n  }\n",
        "if a {\n  b;\n}",
        "if a {\n  c;\n}",
        "  if a {\n    c;\n  }\n",
        Stage::Indentation,
    );
    is_unclear("  if a {\n    b;\n    }\n", "if a {\n  b;\n}", "if a {\n  c;\n}");
    is_unclear("  }\n\t}\n", "}\n  }", "}");
}

#[test]
fn every_place_counts_those_that_overlap_and_those_at_another_indentation_too() {
    counts("a\na\na\n", "a\na\n", 2);
    counts("  f(a, b)\n\tf(a, b)\n", "f(a,b)", 2);
    counts("if x:\n  f(a, b)\nx = f( a, b )\n", "f(a,  b)", 2);
    counts("f(\"a\")\n  g( \"a\" );f( \"a\" )\n", "f(\u{201c}a\u{201d})", 2);
    // Where the text itself occurs, only it counts.
    gives("  f(a)\nf( a )\n", "f(a)", "g(a)", "  g(a)\nf( a )\n", Stage::Exact);
    assert!(replace("aaa", "aa", "b", Wanted::Exactly(2)).is_err(), "places that overlap cannot all be replaced");
    assert_eq!(replace("aaa", "aa", "b", Wanted::All).unwrap().text, "ba");
}

/// Each of so many places would be compared over its whole length.
#[test]
fn a_long_part_of_a_repetition_is_refused_before_hours_have_gone() {
    let text = "ab ".repeat(2_000_000);
    for old in ["ab ".repeat(200_000), "ab  ".repeat(200_000)] {
        let refused = replace(&text, &old, "x", Wanted::Exactly(1));
        assert!(matches!(refused, Err(Failure::NotFound | Failure::WrongCount { .. })));
    }
}

#[test]
fn copied_line_numbers_are_taken_off() {
    let text = "fn a() {\n    b();\n\n}\n";
    for (old, new) in [
        ("1: fn a() {\n2:     b();", "1: fn a() {\n2:     c();"),
        ("  9\tfn a() {\n 10\t    b();\n", "  9\tfn a() {\n 10\t    c();\n"),
        ("L1:fn a() {\nL2:    b();", "fn a() {\n    c();"),
        ("2 | fn a() {\n3 |     b();\n4 |", "2 | fn a() {\n    c();\n4 |"),
        ("7.     b();\n8. \n9. }", "7.     c();\n8. \n9. }"),
        ("12:     b();", "12:     c();"),
    ] {
        gives(text, old, new, "fn a() {\n    c();\n\n}\n", Stage::LineNumbers);
    }
    for old in ["1: fn a() {\n3:     b();", "1: fn a() {\n2|     b();", "1: fn a()", "1: fn a() {\n    b();"] {
        finds_nothing(text, old);
    }
    // A line of `new` whose number `old` does not have may mean it.
    assert!(once(text, "1: fn a() {\n2:     b();", "fn a() {\n7: x").is_err());
}

#[test]
fn a_fence_around_all_is_taken_off() {
    gives("a\nb\nc\n", "```rust\nb\n```", "```rust\nx\ny\n```\n", "a\nx\ny\nc\n", Stage::Fence);
    gives("a\nb\nc\n", "```\nb\n```\n", "x\n", "a\nx\nc\n", Stage::Fence);
    gives("a\n  b\nc\n", "```\n1: a\n2:   b\n```", "```\n1: a\n2:   x\n```", "a\n  x\nc\n", Stage::LineNumbers);
    gives("```\nb\n```\n", "```\nb\n```", "x", "x\n", Stage::Exact);
    finds_nothing("a\n", "```\na\n```\n```\na\n```");
    // Whether the line goes with its text cannot be told.
    assert!(once("a\nb\n", "```\nb\n```", "").is_err());
}

#[test]
fn empty_lines_at_the_ends_are_dropped() {
    gives("a\nb\nc\n", "\n\nb\n\n", "\n\nx\n\n", "a\nx\nc\n", Stage::BlankEnds);
    gives("a\nb\nc\n", "\n\nb\n\n", "x", "a\nx\nc\n", Stage::BlankEnds);
    gives("a\n\nb\nc\n", "\n\n\nb\n", "\n\n\nx\n", "a\n\nx\nc\n", Stage::BlankEnds);
    finds_nothing("ab\n", "\n\nb\n");
    finds_nothing("bc\n", "b\n");
    counts("a\nb\nb\n", "\n\nb\n\n", 2);
}

#[test]
fn entities_are_undone_like_escapes() {
    gives("if a < b && c {", "if a &lt; b &amp;&amp; c {", "if a &gt; b {", "if a > b {", Stage::OverEscaped);
    gives("x < \"&amp;\"", "x &lt; \"&amp;\"", "y &lt; \"&amp;\"", "y < \"&amp;\"", Stage::OverEscaped);
    gives("a -> b", r"a -\u003e b", r"a -\u003e c", "a -> c", Stage::OverEscaped);
    gives("it's", "it&#39;s", "it&#x27;s so", "it's so", Stage::OverEscaped);
    // `old` does not show whether `\\n` is typed out, too.
    assert!(once("say(\"a\")", r#"say(\"a\")"#, r#"say(\"b\n\")"#).is_err());
}

#[test]
fn the_nearest_region_is_where_a_reader_would_point() {
    let text = "fn a() {\n    one();\n}\n\nfn b() {\n    two(x, y);\n}\n";
    assert_eq!(nearest(text, "fn b() {\n    two(x, z);\n}").map(|r| (r.first, r.last)), Some((5, 7)));
    assert_eq!(nearest(text, "one();").unwrap(), Region { first: 2, last: 2, similarity: 100 });
    assert_eq!(nearest(text, "zzzzzzzzzzzzz"), None);
    assert_eq!(nearest("", "a"), None);
    assert_eq!(nearest("a", "\n"), None);
}

proptest! {
    #[test]
    fn nothing_outside_the_places_changes(
        text in "[ab\"\u{201c} \t\r\n\\\\\u{e9}]{0,40}",
        old in "[ab\" \t\n\\\\\u{e9}n]{1,6}",
        new in "[xy\" \t\n\\\\n]{0,6}",
    ) {
        if let Ok(replaced) = replace(&text, &old, &new, Wanted::All) {
            prop_assert_eq!(replaced.places.len(), replaced.now.len());
            let (mut before, mut after) = (0, 0);
            for (place, now) in replaced.places.iter().zip(&replaced.now) {
                prop_assert_eq!(&text[before..place.start], &replaced.text[after..now.start]);
                (before, after) = (place.end, now.end);
            }
            prop_assert_eq!(&text[before..], &replaced.text[after..]);
        }
    }

    #[test]
    fn no_text_is_too_odd(text in ".{0,30}", old in ".{0,6}", new in ".{0,6}", start in 0..30usize) {
        let _ = replace(&text, &old, &new, Wanted::All);
        let _ = nearest(&text, &old);
        let part: String = text.chars().skip(start).take(4).collect();
        prop_assert!(part.is_empty() || replace(&text, &part, &new, Wanted::All).is_ok());
    }

    #[test]
    fn every_place_is_found_that_comparing_at_each_finds(text in "[aab\nä]{0,300}", needle in "[aab\nä]{1,6}", run in 0..40usize) {
        let needle = "a".repeat(run) + &needle;
        let places = text.char_indices().map(|(at, _)| at).filter(|&at| text[at..].starts_with(&needle));
        prop_assert_eq!(super::key::occurrences(&text, &needle).collect::<Vec<_>>(), places.collect::<Vec<_>>());
    }

    #[test]
    fn what_occurs_is_found_exactly(text in "[abc\n ]{1,40}", start in 0..40usize, length in 1..10usize) {
        let start = start.min(text.len() - 1);
        let old = &text[start..(start + length).min(text.len())];
        prop_assert_eq!(replace(&text, old, "x", Wanted::All).unwrap().stage, Stage::Exact);
    }

    #[test]
    fn the_same_file_with_other_line_ends_is_edited_the_same(text in "[abc\n]{0,30}", old in "[abc\n]{1,4}", new in "[xy\n]{0,4}") {
        let crlf = text.replace('\n', "\r\n");
        let plain = replace(&text, &old, &new, Wanted::All).map(|replaced| replaced.text.replace('\n', "\r\n"));
        let other = replace(&crlf, &old, &new, Wanted::All).map(|replaced| replaced.text);
        if text.contains('\n') {
            prop_assert_eq!(plain.ok(), other.ok());
        }
    }
}

#[test]
fn text_without_a_sign_is_found_only_as_it_is() {
    assert_eq!(replace("a:\n\t\n\nb\n", "\n ", "\n", Wanted::All), Err(Failure::NotFound));
    gives("a\n  b\n", "\n  ", "\n", "a\nb\n", Stage::Exact);
}

/// Files of few different lines, so that places are alike, overlap and repeat.
fn file() -> impl Strategy<Value = Vec<String>> {
    let line =
        (0..3_usize, prop::sample::select(vec!["f(a, \"b\")", "g('x' - 1)", "if c {", "}", "d = e;", "", "h(i);"]));
    prop::collection::vec(
        line.prop_map(|(depth, text)| "    ".repeat(if text.is_empty() { 0 } else { depth }) + text),
        3..14,
    )
}

fn damaged(text: &str, damage: usize) -> String {
    let each = |change: &dyn Fn(usize, &str) -> String| {
        let lines = text.split('\n').enumerate().map(|(number, line)| change(number, line));
        lines.collect::<Vec<_>>().join("\n")
    };
    match damage {
        0 => text.replace('"', "\u{201d}").replace('\'', "\u{2019}"),
        1 => text.replace('-', "\u{2013}"),
        2 => text.replace(", ", ",\u{a0}"),
        3 => each(&|_, line| format!("{line}  ")),
        4 => each(&|_, line| line.replace("    ", "\t")),
        5 => each(&|_, line| line.replace("    ", "  ")),
        6 => each(&|_, line| line.replace(", ", ",").replace(" = ", "=")),
        7 => each(&|number, line| format!("{}: {line}", number + 5)),
        8 => format!("```rust\n{text}\n```"),
        9 => format!("\n\n{text}\n\n"),
        10 => text.replace('"', "\\\"").replace('\'', "\\'"),
        11 => text.replace('"', "&quot;").replace('\'', "&#39;"),
        12 => text.replace('(', "(\u{200b}"),
        _ => text.replace('"', "\\u0022"),
    }
}

proptest! {
    #![proptest_config(crate::properties::tried(2_000))]
    #[test]
    fn a_damaged_edit_is_made_as_it_was_meant_or_not_at_all(
        lines in file(), start in 0..14_usize, length in 1..5_usize, at in 0..5_usize, damage in 0..14_usize, is_crlf: bool,
    ) {
        let end_of_line = if is_crlf { "\r\n" } else { "\n" };
        let start = start % lines.len();
        let end = (start + length).min(lines.len());
        let at = (start + at).min(end - 1);
        let text = lines.join(end_of_line) + end_of_line;
        let mut changed = lines.clone();
        changed[at] = changed[at].replace(['a', 'g', 'c', 'd', 'h'], "zz") + "k(0);";
        let (old, new) = (lines[start..end].join("\n"), changed[start..end].join("\n"));
        let meant = changed.join(end_of_line) + end_of_line;
        if let Ok(replaced) = replace(&text, &damaged(&old, damage), &damaged(&new, damage), Wanted::Exactly(1)) {
            let (place, now) = (&replaced.places[0], &replaced.now[0]);
            prop_assert_eq!(&text[..place.start], &replaced.text[..now.start]);
            prop_assert_eq!(&text[place.end..], &replaced.text[now.end..]);
            let plain = text.replace('\r', "");
            let solid = |text: &str| text.replace([' ', '\t', '\r'], "");
            // The damage may be none, or make another text of the file: then that is what is meant.
            let shown = damaged(&old, damage);
            if !(plain.contains(&shown) || damage == 9 && solid(&plain).contains(&solid(&shown))) {
                // A written line has the spaces that `new` shows.
                let seen = |text: &str| if damage == 6 { text.replace([' ', '\t'], "") } else { text.to_owned() };
                prop_assert_eq!(seen(&replaced.text), seen(&meant), "{:?}", (shown, damaged(&new, damage)));
                let count = |text: &str, old: &str| key::occurrences(text, old).count();
                let exact = count(&plain, &old);
                // A listing and empty lines show where lines begin, so that text within others is not a place of
                // theirs.
                let are_lines = matches!(damage, 7 | 9);
                prop_assert!(are_lines || exact == 1 || count(&solid(&text), &solid(&old)) == 1, "{exact} places");
            }
        }
    }
}
