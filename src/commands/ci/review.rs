//! Chooses what is posted of the findings: each once, at lines that GitHub takes, the worst first. Performs no I/O.

use super::wanted::Review;
use crate::emit::comment::{Listed, can_be_suggested, inline};
use crate::emit::{Found, Level, Suggested};
use crate::github::marker::FindingMark;
use crate::github::threads::{Thread, ThreadState, Threads};
use crate::github::{InlineComment, Patch};
use crate::verify::findings::is_named;

/// The comments of a review, and the findings that have no place in it.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) comments: Vec<InlineComment>,
    /// The finding of each comment.
    placed: Vec<Found>,
    /// Findings without a line that GitHub takes, or without room.
    pub(super) unplaced: Vec<Found>,
}

impl Plan {
    /// Chooses. Findings that stand in an open thread of ours are not posted again, nor those that a person settled.
    pub(super) fn new(findings: &[Found], threads: &Threads, patches: &[Patch], wanted: Option<&Review>) -> Plan {
        let mut plan = Plan::default();
        let most = wanted.map_or(0, |review| review.max_inline);
        let suggestions = wanted.is_some_and(|review| review.suggestions);
        let mut all: Vec<&Found> = findings.iter().filter(|found| is_new(found, threads)).collect();
        all.sort_by_key(|found| std::cmp::Reverse((found.severity, sure(found.confidence.as_deref()))));
        for found in all {
            match place(found, patches, suggestions).filter(|_| plan.comments.len() < most) {
                Some(comment) => {
                    plan.comments.push(comment);
                    plan.placed.push(found.clone());
                }
                None => plan.unplaced.push(found.clone()),
            }
        }
        plan
    }

    /// Moves what GitHub refused out of the review.
    pub(super) fn refuse(&mut self) {
        self.comments.clear();
        let mut all = std::mem::take(&mut self.placed);
        all.append(&mut self.unplaced);
        self.unplaced = all;
    }
}

/// What was found without a model nobody can dismiss.
fn is_new(found: &Found, threads: &Threads) -> bool {
    let about = || threads.ours.iter().filter(|thread| is_about(thread, found));
    let is_as_bad = |thread: &Thread| Level::of(&thread.mark.severity).is_some_and(|level| level >= found.severity);
    let is_as_sure = |thread: &Thread| sure(Some(&thread.mark.confidence)) >= sure(found.confidence.as_deref());
    let stands = about().any(|thread| thread.state == ThreadState::Open && is_as_bad(thread) && is_as_sure(thread));
    let is_dismissed = || about().any(|thread| thread.state == ThreadState::Dismissed && is_as_bad(thread));
    !stands && (found.source == "local" || !is_dismissed())
}

/// Ranks the words for how sure a model is; nothing is the highest, as in a mark.
fn sure(word: Option<&str>) -> usize {
    ["low", "medium"].iter().position(|known| Some(*known) == word).unwrap_or(2)
}

/// Tells whether a thread is about a finding: equal lines elsewhere are another one. Where its line is gone, an open one
/// may be, and a dismissed one is not.
fn is_about(thread: &Thread, found: &Found) -> bool {
    let at_line = thread.line.map_or(thread.state != ThreadState::Dismissed, |line| line == found.end_line);
    at_line && is_named(&found.rule_id, &found.path, &found.quote, &thread.mark.fingerprint)
}

/// Puts a finding at the lines that its suggestion replaces, else at its own, if GitHub takes them. Both end in the same line:
/// GitHub follows the line of a comment, and so that of the finding.
fn place(found: &Found, patches: &[Patch], suggestions: bool) -> Option<InlineComment> {
    let patch = patches.iter().find(|patch| patch.path == found.path)?;
    let fits = |suggestion: &&Suggested| {
        suggestions
            && suggestion.end_line == found.end_line
            && patch.takes(suggestion.start_line, suggestion.end_line)
            && can_be_suggested(&suggestion.replacement)
    };
    let suggestion = found.suggestion.as_ref().filter(fits);
    let (start_line, line) = suggestion
        .map_or((found.start_line, found.end_line), |suggestion| (suggestion.start_line, suggestion.end_line));
    let body = inline(found, suggestion.is_some(), &mark(found).write()?);
    patch.takes(start_line, line).then(|| InlineComment { path: found.path.clone(), start_line, line, body })
}

fn mark(found: &Found) -> FindingMark {
    let is_rule = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte))
    };
    let confidence = found.confidence.as_deref().filter(|word| ["low", "medium"].contains(word)).unwrap_or("high");
    FindingMark {
        fingerprint: found.fingerprint.clone(),
        rule_id: Some(found.rule_id.as_str()).filter(|id| is_rule(id)).unwrap_or("other").to_owned(),
        lines: found.quote.lines().count().max(1) as u64,
        severity: found.severity.name().to_owned(),
        confidence: confidence.to_owned(),
    }
}

/// Returns what is open now, the worst first: threads with a link, then findings that have no place at a line.
pub(super) fn listed(findings: &[Found], plan: &Plan, threads: &Threads, gone: &[u64]) -> Vec<Listed> {
    let place = |found: &Found| format!("{}:{}", found.path, found.start_line);
    let open =
        threads.ours.iter().filter(|thread| thread.state == ThreadState::Open && !gone.contains(&thread.comment));
    let open = open.map(|thread| {
        let same = findings.iter().find(|found| is_about(thread, found));
        Listed {
            severity: Level::of(&thread.mark.severity).unwrap_or(Level::Note),
            place: same.map_or_else(|| thread.path.clone(), place),
            rule_id: thread.mark.rule_id.clone(),
            message: None,
            url: Some(thread.url.clone()).filter(|url| !url.is_empty()),
        }
    });
    let unplaced = plan.unplaced.iter().map(|found| Listed {
        severity: found.severity,
        place: place(found),
        rule_id: found.rule_id.clone(),
        message: Some(found.message.clone()),
        url: None,
    });
    let mut all: Vec<Listed> = open.chain(unplaced).collect();
    all.sort_by_key(|listed| std::cmp::Reverse(listed.severity));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::findings::fingerprint;

    fn found(line: u64, severity: Level, quote: &str) -> Found {
        Found {
            rule_id: "bug".into(),
            severity,
            path: "a.rs".into(),
            start_line: line,
            end_line: line,
            quote: quote.into(),
            message: "m".into(),
            confidence: Some("high".into()),
            suggestion: None,
            source: "model".into(),
            fingerprint: fingerprint("bug", "a.rs", quote, 0),
            ..Found::default()
        }
    }

    fn thread(quote: &str, line: Option<u64>, state: ThreadState) -> Thread {
        let mark = mark(&found(1, Level::Error, quote));
        Thread {
            id: "t".into(),
            mark,
            path: "a.rs".into(),
            line,
            comment: 1,
            body: String::new(),
            url: "u".into(),
            state,
            can_resolve: true,
        }
    }

    #[test]
    fn each_finding_is_posted_once_at_lines_that_github_takes_the_worst_first() {
        let patches = [Patch::read("a.rs".into(), "@@ -1,0 +1,9 @@\n+a\n")];
        let mut suggested = found(4, Level::Note, "ee");
        suggested.suggestion = Some(Suggested { start_line: 3, end_line: 4, replacement: "y\n".into() });
        let mut hidden = found(5, Level::Note, "ef");
        hidden.suggestion = Some(Suggested { start_line: 3, end_line: 4, replacement: "y\u{202e}\n".into() });
        let mut local = found(7, Level::Error, "dd");
        local.source = "local".into();
        let mut elsewhere = found(3, Level::Warning, "bb");
        elsewhere.suggestion = Some(Suggested { start_line: 8, end_line: 9, replacement: "y\n".into() });
        let findings = [
            suggested,
            hidden,
            found(40, Level::Error, "aa"),
            elsewhere,
            found(4, Level::Error, "cc"),
            found(5, Level::Error, "0c"),
            local,
        ];
        let threads = Threads {
            login: "us".into(),
            ours: vec![
                thread("cc", Some(4), ThreadState::Open),
                thread("0c", Some(5), ThreadState::Dismissed),
                thread("dd", Some(7), ThreadState::Dismissed),
                thread("bb", Some(3), ThreadState::ResolvedByUs),
            ],
        };
        let wanted = Review { max_inline: 3, suggestions: true };
        let plan = Plan::new(&findings, &threads, &patches, Some(&wanted));
        let lines: Vec<_> = plan.comments.iter().map(|comment| (comment.start_line, comment.line)).collect();
        assert_eq!(lines, [(7, 7), (3, 3), (3, 4)]);
        assert!(plan.comments[2].body.contains("```suggestion\ny\n```"), "{}", plan.comments[2].body);
        assert!(plan.comments[1].body.contains("instead of lines 8 to 9"), "{}", plan.comments[1].body);
        let unplaced: Vec<&str> = plan.unplaced.iter().map(|found| found.quote.as_str()).collect();
        assert_eq!(unplaced, ["aa", "ef"], "one has no line, for the other there is no room");
        let listed = listed(&findings, &plan, &threads, &[]);
        let places: Vec<_> = listed.iter().map(|one| (one.place.as_str(), one.url.is_some())).collect();
        assert_eq!(places, [("a.rs:4", true), ("a.rs:40", false), ("a.rs:5", false)]);
        let none = Plan::new(&findings, &threads, &patches, None);
        assert!(none.comments.is_empty() && none.unplaced.len() == 5);
    }

    #[test]
    fn an_equal_line_elsewhere_is_another_finding() {
        let is_posted = |line, state| {
            let threads = Threads { login: "us".into(), ours: vec![thread("x", line, state)] };
            let (patch, wanted) =
                (Patch::read("a.rs".into(), "@@ -1,0 +1,9 @@\n+a\n"), Review { max_inline: 3, suggestions: true });
            !Plan::new(&[found(5, Level::Error, "x")], &threads, &[patch], Some(&wanted)).comments.is_empty()
        };
        for state in [ThreadState::Open, ThreadState::Dismissed] {
            assert!(!is_posted(Some(5), state) && is_posted(Some(2), state), "{state:?}");
        }
        assert!(is_posted(None, ThreadState::Dismissed) && !is_posted(None, ThreadState::Open));
        // What was a note, or unsure, and is an error now, is said.
        for state in [ThreadState::Open, ThreadState::Dismissed] {
            let mut mild = thread("x", Some(5), state);
            mild.mark.severity = "note".into();
            assert!(
                is_new(&found(5, Level::Error, "x"), &Threads { login: "us".into(), ours: vec![mild] }),
                "{state:?}"
            );
        }
    }
}
