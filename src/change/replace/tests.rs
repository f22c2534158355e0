//! Each stage finds what it states and nothing else.

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
    // Half a composed character is no place.
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
    // Blanks inside a line and in front of it do count here.
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
    // A new line that stands too far left for the shift cannot be placed without a guess.
    assert_eq!(once("a\n  b\n", "    a\n      b", "c"), Err(Failure::NotFound));
}

#[test]
fn at_last_only_blanks_may_differ_by_whole_lines() {
    gives("  f( a,b )\n  g()\n", "f(a, b)\ng()", "h(a)\n  i()", "  h(a)\n    i()\n", Stage::Blanks);
    gives("  a\n    b\n", "a\nb", "c\nd", "  c\n  d\n", Stage::Blanks);
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
    // Exact finds two, trailing blanks would find three.
    let failure = replace("a\nb\na\nb\na \nb\n", "a\nb", "x", Wanted::Exactly(3)).unwrap_err();
    assert_eq!(failure, Failure::WrongCount { stage: Stage::Exact, lines: vec![1, 3] });
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
fn places_that_reach_over_blanks_do_not_overlap() {
    let replaced = replace("a:\n\t\n\nb\n", "\n ", "\n", Wanted::All).unwrap();
    assert_eq!((replaced.stage, replaced.text.as_str()), (Stage::TrailingBlanks, "a:\n\n\nb\n"));
    assert!(replaced.places.windows(2).all(|pair| pair[0].end <= pair[1].start), "{:?}", replaced.places);
}
