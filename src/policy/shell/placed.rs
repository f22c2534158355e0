//! Rewrites words that name a path inside the workspace for the tree that the command runs in, wherever it is mounted.

use std::path::Path;

use super::ast::{Part, Piece, Word};
use super::fields::Field;
use super::state::Judge;

impl Judge<'_> {
    /// Marks the words of a program that named these paths; `all`: each word that is a path inside the workspace.
    ///
    /// A path that was made of a word, as a name below a directory, stands for that word. What equals a path by chance,
    /// as a pattern may, comes before the operands.
    pub(super) fn place(&mut self, words: &mut [Field], paths: &[&str], all: bool) {
        let Some(root) = root_of(self.rules.root()) else { return };
        for (at, path) in paths.iter().enumerate() {
            if !is_below(path, root) || paths[..at].contains(path) {
                continue;
            }
            let find = |fits: &dyn Fn(&str) -> bool| {
                words.iter().rposition(|field| path_in(field, root).is_some_and(|(_, found)| fits(found)))
            };
            let exact = find(&|found| found == *path);
            if let Some(found) = exact.or_else(|| find(&|found| is_below(path, found.trim_end_matches('/')))) {
                self.place_one(&mut words[found]);
            }
        }
        if all {
            words.iter_mut().for_each(|field| self.place_one(field));
        }
    }

    /// Marks a word that is, or ends in, a path inside the workspace.
    pub(super) fn place_one(&mut self, field: &mut Field) {
        let Some(root) = root_of(self.rules.root()) else { return };
        let Some((before, path)) = path_in(field, root) else { return };
        let mut shown = Word::default();
        if !before.is_empty() {
            shown.push_text(before);
        }
        shown.parts.push(Part::Path(path[root.len()..].to_owned()));
        field.shown = shown;
        self.record.print.placed = true;
    }
}

/// Returns the root as text; a root of `/` is seen at the same place everywhere.
fn root_of(root: &Path) -> Option<&str> {
    root.to_str().filter(|root| *root != "/")
}

/// Tells whether a path is `root` or is below it, by whole names.
fn is_below(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Splits a word that is a path inside the workspace, alone or after an option's name, `=`, `:`, `,` or `@`.
///
/// What is printed by `$PWD` is right in every tree, and what is placed already stays.
fn path_in<'f>(field: &'f Field, root: &str) -> Option<(&'f str, &'f str)> {
    let names_pwd = |piece: &Piece| matches!(piece, Piece::Parameter(parameter) if parameter.name == "PWD");
    let stays = field.shown.parts.iter().any(|part| match part {
        Part::Double(pieces) => pieces.iter().any(names_pwd),
        Part::Path(_) | Part::Text(_) => true,
        Part::Plain(_) | Part::Quoted(_) | Part::Parameter(_) | Part::Substitution(_) | Part::Process(_) => false,
    });
    let text = field.text().filter(|_| !stays)?;
    let begins = |before: &str| {
        before.is_empty()
            || before.ends_with(['=', ':', ',', '@'])
            || before.ends_with("://")
            || before.starts_with('-') && !before.contains(['/', '='])
    };
    let at = text.match_indices(root).map(|(at, _)| at).find(|at| begins(&text[..*at]) && is_below(&text[*at..], root));
    at.map(|at| text.split_at(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_a_word_begins_where_a_path_can_and_ends_at_a_whole_name() {
        let of = |text: &str| {
            path_in(&Field::literal(text), "/app").map(|(before, path)| (before.to_owned(), path.to_owned()))
        };
        for (text, before) in [
            ("/app", ""),
            ("/app/x", ""),
            ("--file=/app/x", "--file="),
            ("-I/app/x", "-I"),
            ("a:/app/x", "a:"),
            ("@/app/x", "@"),
            ("file:///app/x", "file://"),
        ] {
            assert_eq!(of(text), Some((before.to_owned(), text[before.len()..].to_owned())), "{text}");
        }
        for text in ["sub/app/x", "/apple", "/x/app/y", "./app", "-o=a/app/x", "x"] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
