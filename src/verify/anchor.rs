//! Ties findings to the lines that they quote: what is not there does not count.

use std::collections::{BTreeMap, BTreeSet};

use unicode_normalization::UnicodeNormalization as _;

use super::findings::{Finding, Gate, Reported, Source};
use super::new_side::{NewSide, Shown, hunk};
use super::parts::as_shown;
use super::suggestion::suggestion;
use crate::event::FindingPlace;
use crate::recipe::file::{Confidence, Filter, Rule, Severity};

/// What findings are compared with.
pub struct Sources<'a> {
    /// The workspace in the repository; empty where it is the top.
    pub prefix: &'a str,
    /// What the diff shows; without one every place counts, whatever the filter.
    pub diff: Option<&'a NewSide>,
    /// Gives a file's text, by its path in the workspace.
    pub file: &'a dyn Fn(&str) -> Option<String>,
    /// Masks the secrets of a text.
    pub masked: &'a dyn Fn(&str) -> String,
}

/// Which findings are wanted.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// The rules that they may name.
    pub rules: Vec<Rule>,
    /// Which places count.
    pub filter: Filter,
    /// How sure the model must be.
    pub min_confidence: Confidence,
    /// The most of them.
    pub most: usize,
    /// Which fail the run.
    pub gate: Option<Gate>,
}

/// Why findings are dropped that are more than the recipe wants.
pub const OVER_MAX: &str = "over_max";

/// What came of the model's findings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Anchored {
    /// Those that count, the worst first.
    pub findings: Vec<Finding>,
    /// How many did not, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// How each stands to the diff; empty without one.
    pub places: Vec<FindingPlace>,
}

/// Ties each finding to the lines that it quotes, and drops what is not there, was not asked for, or is there twice.
pub fn anchor(reported: Vec<Reported>, wanted: &Wanted, sources: &Sources<'_>) -> Anchored {
    let mut result = Anchored::default();
    let (mut seen, mut said) = (BTreeSet::new(), BTreeSet::new());
    for given in reported {
        let is_unsure = given.confidence < wanted.min_confidence;
        let path = sources.path_of(&given.path);
        let of_diff = sources.diff.and_then(|diff| diff.get(&path));
        let reason = match sources.tie(given, path, of_diff) {
            None => "unanchored",
            Some(finding) if sources.diff.is_some() && !passes(&finding, wanted.filter, of_diff) => "filtered",
            Some(_) if is_unsure => "low_confidence",
            Some(mut finding) => {
                let place = (finding.path.clone(), finding.start_line);
                // The same text under another rule is the same finding, too.
                if seen.insert((finding.rule_id.clone(), place.clone()))
                    && said.insert((finding.message.clone(), place))
                {
                    finding.severity = severity(&finding, &wanted.rules);
                    result.findings.push(finding);
                    continue;
                }
                "duplicate"
            }
        };
        *result.dropped.entry(reason.to_owned()).or_default() += 1;
    }
    let kept = &mut result.findings;
    // What fails the run comes first, and is not left out for what does not.
    let order = |one: &Finding| {
        let fails = wanted.gate.is_some_and(|gate| gate.counts(one.severity, one.confidence));
        (std::cmp::Reverse((fails, one.severity)), one.path.clone(), one.start_line, one.rule_id.clone())
    };
    kept.sort_by_cached_key(order);
    for _ in wanted.most..kept.len() {
        *result.dropped.entry(OVER_MAX.to_owned()).or_default() += 1;
    }
    kept.truncate(wanted.most);
    if sources.diff.is_some() {
        result.places = kept.iter().map(|finding| sources.place(finding)).collect();
    }
    result
}

/// Returns how bad a finding is: what the model says, at most what its rule says.
fn severity(finding: &Finding, rules: &[Rule]) -> Severity {
    let rule = rules.iter().find(|rule| rule.id.as_str() == finding.rule_id);
    rule.and_then(|rule| rule.severity).map_or(finding.severity, |most| most.min(finding.severity))
}

/// Tells whether a finding counts, in a run with a diff.
fn passes(finding: &Finding, filter: Filter, of_diff: Option<&Shown>) -> bool {
    let mut shown = of_diff.into_iter().flat_map(|lines| lines.range(finding.start_line..=finding.end_line));
    match filter {
        Filter::Nofilter => true,
        Filter::File => of_diff.is_some(),
        Filter::DiffContext => shown.next().is_some(),
        Filter::Added => shown.any(|(_, (_, added))| *added),
    }
}

impl Sources<'_> {
    /// Says how a finding stands to the diff.
    pub fn place(&self, finding: &Finding) -> FindingPlace {
        let Some(lines) = self.diff.and_then(|diff| diff.get(&finding.path)) else { return FindingPlace::default() };
        let suggestion_in_hunk = finding.suggestion.as_ref().is_some_and(|suggestion| {
            hunk(lines, suggestion.start_line).is_some_and(|hunk| hunk.contains(&suggestion.end_line))
        });
        FindingPlace { in_diff: lines.contains_key(&finding.start_line), suggestion_in_hunk }
    }

    /// Returns what the model reported as a finding on the lines that it quotes; `None` if they are not there.
    fn tie(&self, given: Reported, path: String, of_diff: Option<&Shown>) -> Option<Finding> {
        let lines: BTreeMap<u64, String> = match ((self.file)(&path), of_diff) {
            (Some(text), _) => (1..).zip(text.lines().map(str::to_owned)).collect(),
            (None, Some(lines)) => lines.iter().map(|(number, (text, _))| (*number, text.clone())).collect(),
            (None, None) => BTreeMap::new(),
        };
        let (start_line, end_line) = self.located(&given.quote, given.start_line, &lines, of_diff)?;
        // The complete lines, whatever part of them was quoted, so that a finding's fingerprint does not depend on how
        // much of the line the model quoted this time.
        let quoted: Vec<&str> = lines.range(start_line..=end_line).map(|(_, line)| line.as_str()).collect();
        let suggestion = given.suggestion.and_then(|wanted| {
            let around = match self.diff {
                Some(_) => hunk(of_diff?, start_line)?,
                None => *lines.first_key_value()?.0..=*lines.last_key_value()?.0,
            };
            let inside: BTreeMap<u64, String> =
                lines.range(around).map(|(number, line)| (*number, line.clone())).collect();
            let (first, last) = match wanted.quote.filter(|quote| !quote.trim().is_empty()) {
                Some(quote) => self.located(&quote, start_line, &inside, None)?,
                None => (start_line, end_line),
            };
            suggestion(first..=last, &wanted.replacement, &inside)
        });
        Some(Finding {
            rule_id: given.rule_id,
            severity: given.severity,
            path,
            start_line,
            end_line,
            quote: as_shown(&(self.masked)(&quoted.join("\n"))),
            message: given.message,
            confidence: given.confidence,
            suggestion,
            fingerprint: String::new(),
            source: Source::Model,
            dismissed: false,
        })
    }

    /// Finds the quoted lines as they are, else as the model saw them: with secrets masked and long lines cut.
    fn located(
        &self,
        quote: &str,
        said: u64,
        lines: &BTreeMap<u64, String>,
        of_diff: Option<&Shown>,
    ) -> Option<(u64, u64)> {
        let as_seen = || {
            let seen = |(number, line): (&u64, &String)| (*number, as_shown(&(self.masked)(line)));
            locate(quote, said, &lines.iter().map(seen).collect(), of_diff)
        };
        let is_of_what_was_seen = quote.contains("[redacted:") || quote.contains(" bytes not shown ...]");
        locate(quote, said, lines, of_diff).or_else(|| is_of_what_was_seen.then(as_seen)?)
    }

    /// Returns the path that a finding means: the first of these that the change has, else that is there: as given,
    /// without `./`, `a/` and `b/`, without the workspace's own path, with letters composed in another way, the only
    /// changed file that ends so.
    fn path_of(&self, path: &str) -> String {
        let bare = path.trim_start_matches("./");
        let inner = bare.strip_prefix("b/").or_else(|| bare.strip_prefix("a/"));
        let mut meant = vec![path, bare];
        meant.extend(inner);
        let below = |path: &'_ &str| -> Option<usize> {
            let rest = path.strip_prefix(self.prefix)?.strip_prefix('/')?;
            (!self.prefix.is_empty() && !rest.is_empty()).then_some(path.len() - rest.len())
        };
        let without_prefix: Vec<&str> = meant.iter().filter_map(|path| Some(&path[below(path)?..])).collect();
        meant.extend(without_prefix);
        if let Some(diff) = self.diff {
            if let Some(found) = meant.iter().find(|path| diff.contains_key(**path)) {
                return (*found).to_owned();
            }
            let is_same = |one: &str, other: &str| one.nfc().eq(other.nfc());
            let composed = diff.keys().find(|key| meant.iter().any(|path| is_same(key, path)));
            let end = format!("/{bare}");
            let mut ending = diff.keys().filter(|key| key.ends_with(&end));
            let only = ending.next().filter(|_| ending.next().is_none());
            if let Some(found) = composed.or(only) {
                return found.clone();
            }
        }
        meant.into_iter().skip(1).find(|path| (self.file)(path).is_some()).unwrap_or(bare).to_owned()
    }
}

/// A part of a line counts as a quote from this many characters on.
const PART: usize = 4;

/// Bytes of a quote that are looked for; nobody quotes more, and looking has to end.
const QUOTE: usize = 8_000;

/// Bytes that are compared at most to find all places of a quote.
const COMPARED: usize = 4_000_000;

/// Finds the quoted lines: one in the diff before any other, whole lines before parts of them, then the nearest to
/// where the model says. A quote with the marks of the diff, as models copy it, counts where it is not there as it is,
/// and at last one in which quotation marks were changed, as they are by who writes JSON by hand.
fn locate(quote: &str, said: u64, lines: &BTreeMap<u64, String>, diff: Option<&Shown>) -> Option<(u64, u64)> {
    let same_marks = |text: &str| text.replace(['"', '`'], "'");
    find(quote, said, lines, diff).or_else(|| find(&without_marks(quote)?, said, lines, diff)).or_else(|| {
        let lines = lines.iter().map(|(number, line)| (*number, same_marks(line))).collect();
        find(&same_marks(&without_marks(quote).unwrap_or_else(|| quote.to_owned())), said, &lines, diff)
    })
}

/// Returns the quote without the `+` and ` ` of a diff, if each of its lines has one.
fn without_marks(quote: &str) -> Option<String> {
    let lines = quote.lines().filter(|line| !line.trim().is_empty());
    let plain: Option<Vec<&str>> = lines.map(|line| line.strip_prefix(['+', ' '])).collect();
    let plain = plain.filter(|_| quote.lines().any(|line| line.starts_with('+'))).map(|lines| lines.join("\n"));
    plain.or_else(|| first_added(quote))
}

/// Returns the first added lines of a quote that is a patch with its head: small models copy it from where it begins.
fn first_added(quote: &str) -> Option<String> {
    let is_added = |line: &&str| line.starts_with('+') && !line.starts_with("+++ ");
    let hunk = quote.lines().skip_while(|line| !line.starts_with("@@ "));
    let added: Vec<&str> =
        hunk.skip_while(|line| !is_added(line)).take_while(is_added).map(|line| &line[1..]).collect();
    (!added.is_empty()).then(|| added.join("\n"))
}

/// Finds a quote, ignoring spaces, line ends and empty lines.
fn find(quote: &str, said: u64, lines: &BTreeMap<u64, String>, diff: Option<&Shown>) -> Option<(u64, u64)> {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let wanted = words(quote);
    if wanted.is_empty() || wanted.len() > QUOTE {
        return None;
    }
    // All lines as one text, and where each begins in it. Lines that do not follow one another are kept apart by what
    // no quote has.
    let mut text = String::new();
    let mut starts: Vec<(usize, u64)> = Vec::new();
    let (mut before, mut is_gap) = (None, false);
    for (number, line) in lines {
        is_gap |= before.is_some() && before != number.checked_sub(1);
        before = Some(*number);
        let line = words(line);
        if line.is_empty() {
            continue;
        }
        if !text.is_empty() {
            text.push(if is_gap { '\n' } else { ' ' });
        }
        is_gap = false;
        starts.push((text.len(), *number));
        text.push_str(&line);
    }
    let line_at = |offset: usize| starts[starts.partition_point(|(start, _)| *start <= offset) - 1];
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let in_diff = |start: u64| diff.is_some_and(|diff| diff.contains_key(&start));
    let most = (COMPARED / wanted.len()).min(100_000);
    let step = wanted.chars().next().map_or(1, char::len_utf8);
    let mut places: Vec<(bool, bool, u64, u64, u64)> = Vec::new();
    let mut from = 0;
    while let Some(at) = text.get(from..).and_then(|rest| rest.find(&wanted)).map(|at| from + at) {
        from = at + step;
        let end = at + wanted.len();
        let ((start, first), (_, last)) = (line_at(at), line_at(end - 1));
        let ends_a_line = end == text.len() || starts.binary_search_by_key(&(end + 1), |(start, _)| *start).is_ok();
        let is_whole = start == at && ends_a_line;
        let cuts_a_word = (is_word(text[..at].chars().next_back()) && is_word(wanted.chars().next()))
            || (is_word(text[end..].chars().next()) && is_word(wanted.chars().next_back()));
        if is_whole || (wanted.chars().count() >= PART && !cuts_a_word) {
            places.push((!in_diff(first), !is_whole, first.abs_diff(said), first, last));
            if places.len() == most {
                break;
            }
        }
    }
    places.into_iter().min().map(|(_, _, _, first, last)| (first, last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::findings::{Proposed, rule};
    use crate::verify::new_side::new_side;

    const DIFF: &str = "diff --git a/src/a.rs b/src/a.rs\n--- a/src/a.rs\n+++ b/src/a.rs\n@@ -1,3 +1,4 @@\n fn a() {\n-    old();\n+    new();\n+    more();\n }\n";
    const FILE: &str = "fn a() {\n    new();\n    more();\n}\n\nfn b() {\n    new();\n}\n";

    fn finding(quote: &str, line: u64) -> Reported {
        Reported {
            rule_id: "bug".into(),
            severity: Severity::Error,
            path: "./src/a.rs".into(),
            start_line: line,
            quote: quote.into(),
            message: "m".into(),
            confidence: Confidence::High,
            suggestion: None,
        }
    }

    fn sources<'a>(diff: Option<&'a NewSide>, file: &'a dyn Fn(&str) -> Option<String>) -> Sources<'a> {
        Sources { prefix: "", diff, file, masked: &|line: &str| line.replace("hunter2", "[redacted:PASSWORD]") }
    }

    fn wanted(filter: Filter, most: usize) -> Wanted {
        Wanted { rules: vec![rule("bug", Severity::Error)], filter, most, ..Wanted::default() }
    }

    fn anchored(findings: Vec<Reported>, filter: Filter) -> Anchored {
        let side = new_side(DIFF);
        let file = |path: &str| (path == "src/a.rs").then(|| FILE.to_owned());
        anchor(findings, &wanted(filter, 2), &sources(Some(&side), &file))
    }

    #[test]
    fn a_wrong_line_is_corrected_by_its_quote_and_an_invented_quote_is_dropped() {
        let result =
            anchored(vec![finding("new();", 40), finding("never written", 2), finding("new();", 2)], Filter::Added);
        assert_eq!(result.findings.len(), 1);
        let found = &result.findings[0];
        assert_eq!((found.start_line, found.severity, found.path.as_str()), (2, Severity::Error, "src/a.rs"));
        assert_eq!(result.dropped, [("duplicate".to_owned(), 1), ("unanchored".to_owned(), 1)].into());
        let again = Reported { rule_id: "other".into(), ..finding("new();", 2) };
        let said_twice = anchored(vec![finding("new();", 2), again], Filter::Added);
        assert_eq!((said_twice.findings.len(), said_twice.findings[0].rule_id.as_str()), (1, "bug"));
    }

    #[test]
    fn the_filter_counts_what_the_diff_shows() {
        for (filter, kept) in [(Filter::Added, 0), (Filter::DiffContext, 1), (Filter::File, 2), (Filter::Nofilter, 2)] {
            let result = anchored(vec![finding("fn a() {", 1), finding("fn b() {", 6)], filter);
            assert_eq!(result.findings.len(), kept, "{filter:?}");
        }
        let many = anchored(vec![finding("new();", 2), finding("more();", 3), finding("fn a() {", 1)], Filter::File);
        assert_eq!((many.findings.len(), many.dropped["over_max"]), (2, 1));
    }

    #[test]
    fn what_fails_the_run_is_not_left_out_for_what_does_not() {
        let gate = Gate { fail_on: Severity::Error, fail_confidence: Confidence::Medium };
        let side = new_side(DIFF);
        let file = |path: &str| (path == "src/a.rs").then(|| FILE.to_owned());
        let unsure = Reported { confidence: Confidence::Low, ..finding("new();", 2) };
        let wanted = Wanted { gate: Some(gate), ..wanted(Filter::File, 1) };
        let result = anchor(vec![unsure, finding("more();", 3)], &wanted, &sources(Some(&side), &file));
        assert_eq!((result.findings.len(), result.findings[0].start_line), (1, 3));
    }

    #[test]
    fn the_smaller_severity_counts_and_a_guess_below_the_least_confidence_does_not() {
        let rules = vec![rule("bug", Severity::Warning), rule("other", Severity::Error)];
        let wanted = Wanted { rules, filter: Filter::File, most: 9, min_confidence: Confidence::Medium, gate: None };
        let side = new_side(DIFF);
        let one = |rule: &str, line, severity, confidence| {
            let quote = ["new();", "more();", "fn b() {"][line];
            Reported { rule_id: rule.into(), severity, confidence, ..finding(quote, 1) }
        };
        let given = vec![
            one("bug", 0, Severity::Error, Confidence::High),
            one("other", 1, Severity::Note, Confidence::Medium),
            one("other", 2, Severity::Error, Confidence::Low),
            one("other", 2, Severity::Error, Confidence::High),
        ];
        let result = anchor(given, &wanted, &sources(Some(&side), &|_| Some(FILE.to_owned())));
        let kept: Vec<_> = result.findings.iter().map(|found| (found.start_line, found.severity)).collect();
        assert_eq!(kept, [(6, Severity::Error), (2, Severity::Warning), (3, Severity::Note)]);
        assert_eq!(result.dropped, [("low_confidence".to_owned(), 1)].into());
    }

    #[test]
    fn a_suggestion_replaces_the_lines_that_it_quotes_else_those_of_the_finding() {
        let placed = |quote: &str, suggested: Option<&str>, replacement: &str| {
            let suggestion =
                Some(Proposed { quote: suggested.map(str::to_owned), replacement: replacement.to_owned() });
            let found = anchored(vec![Reported { suggestion, ..finding(quote, 30) }], Filter::File).findings;
            let placed = found[0].suggestion.clone();
            placed.map(|placed| (placed.start_line, placed.end_line, placed.replacement))
        };
        let text = |replacement: &str| replacement.to_owned();
        assert_eq!(placed("more();", None, "less();"), Some((3, 3, text("    less();\n"))));
        assert_eq!(placed("more();", Some("new();\nmore();"), "less();"), Some((2, 3, text("    less();\n"))));
        assert_eq!(placed("new();\nmore();", Some(" "), "    all();"), Some((2, 3, text("    all();\n"))));
        assert_eq!(placed("more();", None, "more();"), None, "it changes nothing");
        assert_eq!(placed("more();", Some("old();"), "less();"), None, "its quote is not in the hunk");
        assert_eq!(placed("fn b() {", None, "fn c() {"), None, "the diff does not show these lines");
    }

    #[test]
    fn a_finding_has_the_whole_lines_masked_and_cut_as_the_model_saw_them() {
        let quote = |quote: &str| {
            let file = |_: &str| Some(format!("\tlogin(hunter2);\nx = \"{}\";\n", "y".repeat(9_000)));
            let found = anchor(vec![finding(quote, 1)], &wanted(Filter::File, 9), &sources(None, &file)).findings;
            found.first().map(|found| (found.start_line, found.quote.clone()))
        };
        assert_eq!(quote("login(hunter2)"), Some((1, "\tlogin([redacted:PASSWORD]);".to_owned())));
        assert_eq!(quote("login([redacted:PASSWORD])"), Some((1, "\tlogin([redacted:PASSWORD]);".to_owned())));
        let (_, cut) = quote("x = \"").unwrap();
        assert!(cut.len() < 2_100 && cut.contains("yy[... 7008 bytes not shown ...]yy"), "{cut}");
        assert_eq!(quote(&cut), Some((2, cut.clone())), "what the model was shown is found again");
        assert_eq!(quote("[... 7008 bytes not shown ...]"), Some((2, cut.clone())), "and a part of it");
        assert_eq!(quote(&cut.replace("7008", "7009")), None);
    }

    fn place(quote: &str, said: u64, file: &str) -> Option<(u64, u64)> {
        let given = Reported { path: "b/src/a.rs".into(), ..finding(quote, said) };
        let text = |path: &str| (path == "src/a.rs").then(|| file.to_owned());
        let found = anchor(vec![given], &wanted(Filter::Nofilter, 9), &sources(None, &text)).findings;
        found.first().map(|found| (found.start_line, found.end_line))
    }

    #[test]
    fn a_quote_with_other_quotation_marks_is_found_last() {
        let file = "say(\"hi\");\nsay('hi');\nsay(`ho`);\n";
        for (quote, lines) in [("say('hi');", 2), ("say(\"hi\");", 1), ("say('ho');", 3), ("+say(\"ho\");", 3)] {
            assert_eq!(place(quote, 1, file), Some((lines, lines)), "{quote}");
        }
    }

    #[test]
    fn a_quote_is_found_whatever_blanks_line_ends_and_empty_lines_are_in_it() {
        let file = "fn a() {\r\n\tif  x ==  1 {\r\n\r\n        go();\r\n    }\r\n}\r\n";
        for (quote, lines) in [
            ("if x == 1 {", Some((2, 2))),
            ("    if x == 1 {\n        go();", Some((2, 4))),
            ("\tif  x ==  1 {\r\n\r\n        go();\r\n", Some((2, 4))),
            ("if x == 1 { go(); }", Some((2, 5))),
            ("x == 1 {\ngo();", Some((2, 4))),
            ("\n\n  fn a() {  \n\n", Some((1, 1))),
            ("+    if x == 1 {\n+\n+        go();", Some((2, 4))),
            ("+        go();\n     }", Some((4, 5))),
            ("-        go();", None),
            ("if x == 2 {", None),
            ("if x==1 {", None),
            ("  \n ", None),
        ] {
            assert_eq!(place(quote, 1, file), lines, "{quote:?}");
        }
    }

    #[test]
    fn of_a_quoted_patch_the_first_added_lines_count() {
        let patch = "diff --git a/a b/a\n+++ b/a\n@@ -1 +1,3 @@\n fn a() {\n-    old();\n+    new();\n+    more();\n }\n+    new();";
        assert_eq!(place(patch, 1, FILE), Some((2, 3)));
        assert_eq!(place("@@ -1 +1 @@\n fn a() {\n }", 1, FILE), None);
    }

    #[test]
    fn a_part_of_a_line_counts_if_it_is_long_enough_and_cuts_no_word() {
        let file = "let renew = 1;\nreturn renew(a);\n}\n";
        for (quote, lines) in
            [("renew(a)", Some((2, 2))), ("new(a)", None), ("(a)", None), ("}", Some((3, 3))), ("let ren", None)]
        {
            assert_eq!(place(quote, 9, file), lines, "{quote:?}");
        }
    }

    #[test]
    fn of_repeated_lines_the_nearest_counts_the_diff_before_it_and_whole_lines_before_parts() {
        let file = "go();\n}\ngo();\n}\ngo();\n}\nlet x = go();\n";
        for (quote, said, lines) in [
            ("go();", 1, (1, 1)),
            ("go();", 4, (3, 3)),
            ("go();", 7, (5, 5)),
            ("go();\n}", 4, (3, 4)),
            ("}\ngo();\n}", 1, (2, 4)),
            ("= go();", 1, (7, 7)),
        ] {
            assert_eq!(place(quote, said, file), Some(lines), "{quote:?} at {said}");
        }
        let side = new_side(DIFF);
        let twice = "fn b() {\n    new();\n}\n".repeat(9) + FILE;
        let read = |path: &str| (path == "src/a.rs").then(|| twice.clone());
        let found =
            anchor(vec![finding("new();", 20)], &wanted(Filter::Added, 9), &sources(Some(&side), &read)).findings;
        assert_eq!(found[0].start_line, 2, "the change is looked at first");
    }

    #[test]
    fn lines_that_the_diff_does_not_show_are_not_jumped_over() {
        let diff = "+++ b/src/a.rs\n@@ -1,0 +1,2 @@\n+one\n+\n@@ -9,0 +11,2 @@\n+\n+two\n";
        let side = new_side(diff);
        let found = |quote: &str| {
            anchor(vec![finding(quote, 1)], &wanted(Filter::Added, 9), &sources(Some(&side), &|_| None)).findings.len()
        };
        assert_eq!((found("one"), found("two"), found("one\ntwo")), (1, 1, 0));
    }

    #[test]
    fn a_path_is_found_however_the_model_writes_it() {
        let diff =
            "+++ \"b/caf\\303\\251 \\\"x\\\".rs\"\n@@ -0,0 +1 @@\n+one\n+++ b/deep/down/b.rs\n@@ -0,0 +1 @@\n+one\n";
        let side = new_side(diff);
        let sources = Sources { prefix: "web/app", ..sources(Some(&side), &|_| None) };
        for (given, meant) in [
            ("caf\u{e9} \"x\".rs", "caf\u{e9} \"x\".rs"),
            ("b/cafe\u{301} \"x\".rs", "caf\u{e9} \"x\".rs"),
            ("web/app/deep/down/b.rs", "deep/down/b.rs"),
            ("./a/web/app/deep/down/b.rs", "deep/down/b.rs"),
            ("b.rs", "deep/down/b.rs"),
            ("other.rs", "other.rs"),
        ] {
            let found =
                anchor(vec![Reported { path: given.into(), ..finding("one", 1) }], &wanted(Filter::Added, 9), &sources);
            let paths: Vec<&str> = found.findings.iter().map(|found| found.path.as_str()).collect();
            assert_eq!(paths.first().copied().unwrap_or("other.rs"), meant, "{given}");
        }
    }

    #[test]
    fn a_quote_with_a_masked_secret_is_found() {
        assert_eq!(place("login([redacted:PASSWORD])", 1, "x\nlogin(hunter2)\n"), Some((2, 2)));
    }

    #[test]
    fn looking_for_a_quote_ends() {
        let file = "x\n".repeat(300_000);
        assert_eq!(place(&"x\n".repeat(3_000), 1, &file), Some((1, 3_000)));
        assert_eq!(place(&"x\n".repeat(30_000), 1, &file), None);
    }
}
