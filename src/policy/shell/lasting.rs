//! Judges what changes the shell for the commands that follow.

use super::ast::{Kind, Part, Simple, Word};
use super::fields::Field;
use super::lexer::is_name;
use super::state::{Judge, Outcome, Step, line_of};
use crate::path::RelPath;
use crate::policy::decision::Denial;

/// Tells whether the words after `set` only choose when the shell ends, and whether it shows what it runs: `-e`,
/// `-eux`, `+x`, `-o pipefail`, `-euo pipefail`.
pub(super) fn only_ends_or_shows(arguments: &[Field]) -> bool {
    let mut rest = arguments.iter().map(Field::text);
    while let Some(word) = rest.next() {
        let Some(letters) = word.and_then(|word| word.strip_prefix(['-', '+'])) else { return false };
        let (plain, named) = letters.strip_suffix('o').map_or((letters, false), |plain| (plain, true));
        let is_known = |name: &str| matches!(name, "pipefail" | "errexit" | "nounset" | "xtrace");
        let is_whole = !letters.is_empty() && plain.chars().all(|letter| "eux".contains(letter));
        if !is_whole || named && !rest.next().flatten().is_some_and(is_known) {
            return false;
        }
    }
    !arguments.is_empty()
}

/// Tells whether bash reads the text that follows as it was judged: letters of other encodings can hide a quote.
fn keeps_letters(name: &str, value: &str) -> bool {
    let value = value.to_ascii_lowercase();
    let is_locale = name == "LANG" || name.starts_with("LC_");
    !is_locale || matches!(value.as_str(), "c" | "posix") || value.ends_with(".utf-8") || value.ends_with(".utf8")
}

impl Judge<'_> {
    /// Judges `export NAME=VALUE …`: each is allowed where `NAME=VALUE` is before every command.
    pub(super) fn export(&mut self, words: &[Word], folders: &[RelPath]) -> Result<(Kind, Outcome), Denial> {
        let expands = |part: &Part| matches!(part, Part::Plain(text) if text.contains(['~', '*', '?', '[', '{', '\\']));
        let text = |word: &Word| word.as_text().filter(|_| !word.parts.iter().any(expands));
        let fields: Vec<Field> = words.iter().filter_map(text).map(|text| Field::literal(&text)).collect();
        let given: Vec<_> = fields.iter().map(|field| field.word.clone()).collect();
        self.ask_denied(&fields, &given)?;
        let not_understood = |denial: Option<Denial>| {
            let reason = denial.as_ref().map_or("only literal values are", |denial| denial.reason.as_str());
            let refused = Denial::unanalysable(format!("this use of the builtin `export` is not understood: {reason}"));
            refused.by("G3").hint("write `NAME=value` before the command that needs it")
        };
        if fields.len() < words.len() || words.len() < 2 {
            return Err(self.denied_step(&fields, not_understood(None)));
        }
        for field in &fields[1..] {
            let pair = field.text().and_then(|text| text.split_once('='));
            let Some((name, value)) = pair.filter(|(name, value)| is_name(name) && keeps_letters(name, value)) else {
                return Err(self.denied_step(&fields, not_understood(None)));
            };
            if let Err(denial) = self.assignment(name, &Word::from_text(value)) {
                return Err(self.denied_step(&fields, not_understood(Some(denial))));
            }
            self.exported.push(name.to_owned());
        }
        self.record.print.shell = true;
        self.record.steps.push(Step {
            command: line_of(fields.iter().map(|field| &field.shown)),
            depth: self.depth,
            effects: Vec::new(),
            outcome: Ok(None),
        });
        let words = fields.into_iter().map(|field| field.shown).collect();
        Ok((Kind::Simple(Simple { assignments: Vec::new(), words }), Outcome::stays(folders)))
    }
}
