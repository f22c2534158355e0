//! Shows findings at a terminal as compilers show theirs: the quoted line, a mark below it, the suggestion.

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level as Shown, Patch, Renderer, Snippet};

use super::appearance::Appearance;
use super::findings::{Findings, Found, Level, replacement_lines};
use super::safe::{escape, one_line};
use super::words::count;

/// Shows every finding; `dropped` says how many are not among them.
pub(super) fn diagnostics(findings: &Findings, dropped: u64, look: &Appearance) -> String {
    let mut text = String::new();
    for found in &findings.all {
        text.push_str(&diagnostic(found, look));
        text.push_str("\n\n");
    }
    if dropped > 0 {
        text.push_str(&format!("left out: {} whose quote the code does not have\n", count(dropped, "finding")));
    }
    text.truncate(text.trim_end().len());
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

/// Shows these findings, values as the findings schema has them, as compilers show theirs.
pub fn findings_for_people(values: &[serde_json::Value], look: &Appearance) -> String {
    let all = values.iter().filter_map(|value| serde::Deserialize::deserialize(value).ok()).collect();
    diagnostics(&Findings { all, ..Findings::default() }, 0, look)
}

/// Shows one finding.
fn diagnostic(found: &Found, look: &Appearance) -> String {
    let level = match found.severity {
        Level::Error => Shown::ERROR,
        Level::Warning => Shown::WARNING,
        Level::Note => Shown::NOTE,
    };
    let (rule, path) = (one_line(&found.rule_id), one_line(&found.path));
    // What stands before the message: the level and the rule.
    let before = found.severity.name().len() + rule.chars().count() + 4;
    let columns = look.width.saturating_sub(before).max(20);
    let message = look.wrap(&one_line(&found.message), columns).join("\n");
    let quote = escape(&found.quote);
    let quote = quote.trim_end();
    let start = usize::try_from(found.start_line).unwrap_or(usize::MAX).max(1);
    let title = level.primary_title(message).id(rule);
    let mut groups = Vec::new();
    if quote.trim().is_empty() {
        groups.push(title.element(annotate_snippets::Origin::path(path.clone()).line(start)));
    } else {
        let marked = quote.len() - quote.trim_start().len()..quote.len();
        let snippet = Snippet::source(quote).line_start(start).path(path.clone());
        groups.push(title.element(snippet.annotation(AnnotationKind::Primary.span(marked))));
    }
    if found.confidence.as_deref() == Some("low") {
        groups = groups.into_iter().map(|group| group.element(Shown::NOTE.message("the model is not sure"))).collect();
    }
    let replacement =
        found.suggestion.as_ref().map(|suggestion| escape(replacement_lines(&suggestion.replacement)).into_owned());
    // The lines that it replaces are those that are quoted; of others nothing is known here.
    let replaces_quote = found
        .suggestion
        .as_ref()
        .is_some_and(|suggestion| suggestion.start_line == found.start_line && suggestion.end_line == found.end_line);
    if let Some(replacement) = replacement {
        let title = Shown::HELP.secondary_title("suggested change");
        groups.push(if replaces_quote && !quote.trim().is_empty() {
            let patch = Patch::new(0..quote.len(), replacement);
            Group::with_title(title).element(Snippet::source(quote).line_start(start).patch(patch))
        } else {
            Group::with_title(title)
                .element(Snippet::<annotate_snippets::Annotation<'_>>::source(replacement).line_numbering(false))
        });
    }
    let renderer = if look.colour { Renderer::styled() } else { Renderer::plain() };
    let decor = if look.ascii { DecorStyle::Ascii } else { DecorStyle::Unicode };
    renderer.term_width(look.width).decor_style(decor).render(&groups)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::emit::findings::example;

    fn shown(ascii: bool) -> String {
        let findings = example(json!([
            {"rule_id": "correctness", "severity": "error", "path": "src/lib.rs", "start_line": 3, "end_line": 3,
             "quote": "    format!(\"Helo, {name}!\")", "message": "The greeting is misspelt, so the test fails.",
             "suggestion": {"start_line": 3, "end_line": 3, "replacement": "    format!(\"Hello, {name}!\")\n"}},
            {"rule_id": "style", "severity": "note", "path": "a\u{1b}b", "start_line": 9, "end_line": 9, "quote": "",
             "message": "Long.", "confidence": "low"},
        ]));
        diagnostics(&findings, 2, &Appearance { width: 80, ascii, colour: false })
    }

    #[test]
    fn a_finding_shows_the_line_and_what_to_write_instead() {
        insta::assert_snapshot!(shown(false));
    }

    #[test]
    fn a_terminal_without_other_characters_gets_ascii() {
        let shown = shown(true);
        assert!(shown.is_ascii(), "{shown}");
    }
}
