//! Takes the words of a command that is written on one line, by the shell's quotes.

use crate::policy::shell::ast::{AndOr, Kind, Part, Pipeline, Script, Simple, Word};
use crate::policy::shell::parser::parse;

/// Returns the words. The error says what else than words is in the line.
pub fn words(line: &str) -> Result<Vec<String>, String> {
    if line.contains(['\n', '\r']) {
        return Err("a command is one line".to_owned());
    }
    let script = parse(line).map_err(|denial| denial.reason)?;
    let simple = simple(&script)
        .ok_or("a command is one program with its words; put `;`, `|`, `&&` and redirections into a script")?;
    if let Some((name, _)) = simple.assignments.first() {
        return Err(format!("the variable {name} cannot be set here; write `env {name}=…` before the program"));
    }
    let words: Option<Vec<String>> = simple.words.iter().map(literal).collect();
    match words {
        None => Err("nothing is expanded in a command; put quotes around `*`, `?`, `[`, `{`, `~` and `$`".to_owned()),
        Some(words) if words.first().is_some_and(|program| !program.is_empty()) => Ok(words),
        Some(_) => Err("it does not name a program".to_owned()),
    }
}

/// Returns the text of a word in which a shell expands nothing.
fn literal(word: &Word) -> Option<String> {
    let expands =
        |part: &Part| matches!(part, Part::Plain(text) if text.starts_with('~') || text.contains(['*', '?', '[', '{']));
    if word.parts.iter().any(expands) { None } else { word.as_text() }
}

/// Returns the only command of a script, if it is a simple one without redirections.
fn simple(script: &Script) -> Option<&Simple> {
    let [AndOr { first, rest }] = script.statements.as_slice() else { return None };
    let Pipeline { time: None, negated: false, first, rest: pipes } = first else { return None };
    let Kind::Simple(simple) = &first.kind else { return None };
    (rest.is_empty() && pipes.is_empty() && first.redirections.is_empty()).then_some(simple)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_words_and_quotes_and_nothing_else() {
        for (line, expected) in [
            ("cargo test --quiet", Ok(&["cargo", "test", "--quiet"][..])),
            ("grep -q 'a b' \"c d\" e\\ f '*'", Ok(&["grep", "-q", "a b", "c d", "e f", "*"])),
            ("npm run lint -- --max-warnings=0", Ok(&["npm", "run", "lint", "--", "--max-warnings=0"])),
            ("a ''", Ok(&["a", ""])),
            ("a | b", Err("one program")),
            ("a && b", Err("one program")),
            ("a; b", Err("one program")),
            ("a > b", Err("one program")),
            ("! a", Err("one program")),
            ("(a)", Err("one program")),
            ("A=1 b", Err("`env A=…`")),
            ("a *.rs", Err("quotes")),
            ("a $HOME", Err("quotes")),
            ("~/a", Err("quotes")),
            ("a\nb", Err("one line")),
            ("''", Err("a program")),
            ("", Err("")),
            ("a 'b", Err("")),
        ] {
            match (words(line), expected) {
                (Ok(words), Ok(expected)) => assert_eq!(words, expected, "{line}"),
                (Err(problem), Err(part)) => assert!(problem.contains(part), "{line}: {problem}"),
                (found, _) => panic!("{line}: {found:?}"),
            }
        }
    }
}
