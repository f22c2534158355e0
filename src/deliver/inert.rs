//! Makes text of others harmless in the messages of commits and the titles of pull requests, where nothing can be
//! escaped: GitHub finds nobody to notify in it, no issue to close, no word about checks and no trailer.

use std::sync::LazyLock;

use regex::Regex;

use super::message::SUBJECT;

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a valid pattern")
}

/// Lines that git or GitHub reads as trailers: the words that end in `-by`, those about checks, and ours.
static TRAILER: LazyLock<Regex> = LazyLock::new(|| {
    let others = "skip-checks?|request-checks?|change-id|reviewed-on|on-behalf-of|bug|cc|qwen-[a-z-]+";
    pattern(&format!(r"(?i)^\s*(?:[a-z][a-z-]*-by|{others})\s*[:=]"))
});

/// The address of an issue, a pull request or a discussion; of a commit it is a link and nothing more.
static ADDRESS: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?i)https?://[^\s/]+/[^\s/]+/[^\s/]+/(?:issues|pull|discussions)/(\d+)[^\s)\]>]*"));

/// `o/r#1`, `#1`, `GH-1`.
static REFERENCE: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?i)(^|[^\w/&])(?:(?:[\w.-]+/)?[\w.-]*#|gh-)(\d+)\b"));

static MENTION: LazyLock<Regex> = LazyLock::new(|| pattern(r"@(\w)"));

/// What keeps checks from running.
static SKIP: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?i)\[\s*(skip ci|ci skip|no ci|skip actions|actions skip)\s*\]"));

/// Returns the text without what would act.
pub fn inert(text: &str) -> String {
    let plain = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
    let text: String = text.chars().filter(plain).filter(|c| !crate::hidden::is_foreign(*c) || *c == '\n').collect();
    let lines = text.lines().filter(|line| !TRAILER.is_match(line));
    let lines = lines.map(|line| {
        let line = ADDRESS.replace_all(line, "issue $1");
        // Twice: two references that share the space between them are found one at a time.
        let line = REFERENCE.replace_all(&line, "${1}issue $2").into_owned();
        let line = REFERENCE.replace_all(&line, "${1}issue $2").into_owned();
        let line = SKIP.replace_all(&line, "($1)").into_owned();
        MENTION.replace_all(&line, "@ $1").into_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns at most so many characters of it: a cut may leave something that acts, such as the `#7` of `#7z`.
pub fn inert_within(text: &str, most: usize) -> String {
    let within = |text: &str| inert(text).chars().take(most).collect::<String>();
    let mut kept = within(text);
    loop {
        let again = within(&kept);
        if again == kept {
            return kept;
        }
        kept = again;
    }
}

/// Returns a line as the subject of a message: one that is too long is cut between words and ends with `…`.
pub fn inert_subject(line: &str) -> String {
    let line = inert(line);
    if line.chars().count() <= SUBJECT {
        return line;
    }
    let cut = inert_within(&line, SUBJECT - 1);
    let words = cut.rfind(' ').unwrap_or(cut.len());
    format!("{}…", inert_within(&cut[..words], SUBJECT - 1))
}

/// Returns at most so many characters of a text as the value of a trailer: one line, which may look like a trailer itself.
pub fn inert_value(text: &str, most: usize) -> String {
    let line: String = text.chars().filter(|c| !c.is_control()).take(most).collect();
    let inert = inert(&format!("- {line}"));
    inert.strip_prefix("- ").unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nobody_is_notified_nothing_is_closed_and_no_check_is_skipped() {
        for (text, expected) in [
            ("thanks @octocat, fixes #7", "thanks @ octocat, fixes issue 7"),
            ("fixes GH-7, closes gh-8 #9", "fixes issue 7, closes issue 8 issue 9"),
            ("fixes o/r#7, a-b/c.d#8", "fixes issue 7, issue 8"),
            ("fixes https://github.com/o/r/issues/7#issuecomment-1.", "fixes issue 7"),
            ("see https://github.com/o/r/pull/7/files)", "see issue 7)"),
            ("see https://example.org/a", "see https://example.org/a"),
            ("docs [skip ci] [CI Skip] [no ci]", "docs (skip ci) (CI Skip) (no ci)"),
            ("a[0], utf-8, high-5, x: y, # title, [skip it]", "a[0], utf-8, high-5, x: y, # title, [skip it]"),
            ("[\u{7}skip ci] [skip\u{200b} ci]", "(skip ci) (skip ci)"),
            ("a\nSigned-off-by: x <x@y>\nco-authored-by : z\nskip-checks: true\nb", "a\nb"),
            ("Qwen-Tree: 1\nAssisted-by: me\n", ""),
            ("#1 #2 #3", "issue 1 issue 2 issue 3"),
        ] {
            assert_eq!(inert(text), expected);
        }
    }

    #[test]
    fn a_cut_leaves_nothing_that_acts() {
        assert_eq!(inert_within("fixes #7z", 8), "fixes is");
        assert_eq!(inert_within("fixes #7z", 9), "fixes #7z");
        let long = format!("{},Fixes\u{a0}#7zzz and more", "x".repeat(62));
        let subject = inert_subject(&long);
        assert!(subject.ends_with('…') && subject.chars().count() <= SUBJECT && !subject.contains("#7"), "{subject}");
        assert_eq!(inert_subject("plain"), "plain");
        assert_eq!(inert_value("qwen-plus:free", 200), "qwen-plus:free");
        assert_eq!(
            inert_value("m [skip ci] #7 @a\nCo-authored-by: x", 200),
            "m (skip ci) issue 7 @ aCo-authored-by: x"
        );
    }

    proptest! {
        #[test]
        fn no_cut_brings_anything_back(text in "(@a|#1|GH-2|o/r#34|\\[skip ci\\]|https://g.io/o/r/issues/4| |[a-z]|.)*", most in 0_usize..60) {
            for cut in [inert_within(&text, most), inert_subject(&text.replace(['\n', '\r'], " "))] {
                prop_assert_eq!(inert(&cut), cut.clone());
            }
            prop_assert!(inert_within(&text, most).chars().count() <= most);
        }

        #[test]
        fn nothing_that_acts_is_left(text in "(@a|#1|GH-2|o/r#3|\\[skip ci\\]|https://g.io/o/r/issues/4|X-by: y|\n| |[a-z]|.)*") {
            let text = inert(&text);
            prop_assert!(!MENTION.is_match(&text), "{text:?}");
            prop_assert!(!ADDRESS.is_match(&text) && !REFERENCE.is_match(&text) && !SKIP.is_match(&text), "{text:?}");
            prop_assert!(text.lines().all(|line| !TRAILER.is_match(line)), "{text:?}");
        }
    }
}
