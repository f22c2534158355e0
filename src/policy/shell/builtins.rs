//! Judges the builtins of the shell.

use super::ast::{Part, Piece};
use super::fields::Field;
use super::state::{At, Judge, Outcome, Step, line_of, union};
use super::wrappers::ESCALATING;
use crate::path::RelPath;
use crate::policy::decision::Denial;
use crate::policy::effect::Effect;

/// The builtins that are judged here; every other one is not understood.
pub(super) const HARMLESS: [&str; 7] = ["true", "false", ":", "echo", "printf", "pwd", "test"];

pub(super) const BUILTINS: [&str; 57] = [
    ".",
    "alias",
    "bg",
    "bind",
    "builtin",
    "caller",
    "compgen",
    "complete",
    "compopt",
    "declare",
    "dirs",
    "disown",
    "enable",
    "eval",
    "exec",
    "export",
    "fc",
    "fg",
    "getopts",
    "hash",
    "help",
    "history",
    "jobs",
    "kill",
    "let",
    "local",
    "logout",
    "mapfile",
    "popd",
    "pushd",
    "read",
    "readarray",
    "readonly",
    "return",
    "set",
    "shift",
    "shopt",
    "source",
    "suspend",
    "times",
    "trap",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "wait",
    "coproc",
    "function",
    "select",
    "cd",
    "type",
    "exit",
    "break",
    "continue",
    "[[",
    "]]",
];

/// Tells whether no rule is ever asked about a program of this name: it is the shell's own, or changes who we are.
pub(in crate::policy) fn no_rule_allows(program: &str) -> bool {
    BUILTINS.contains(&program) || ESCALATING.contains(&program)
}

impl Judge<'_> {
    pub(super) fn builtin(
        &mut self,
        name: &str,
        mut words: Vec<Field>,
        at: At<'_>,
    ) -> Result<(Vec<Field>, Outcome), Denial> {
        let arguments = &words[1..];
        let mut outcome = Outcome::stays(at.folders);
        let mut shown = None;
        if name != "echo"
            && let Some(place) = arguments.iter().position(|field| field.text().is_none())
            && !matches!(arguments[place].shown.parts.as_slice(), [Part::Double(pieces)] if is_status(pieces))
        {
            return Err(Denial::unanalysable(format!("an argument of `{name}` that is not known")));
        }
        match name {
            "cd" => {
                let (target, after) = self.change_folder(arguments, at)?;
                shown = Some(target);
                outcome = after;
            }
            "pwd" if arguments.iter().any(|field| !matches!(field.text(), Some("-P" | "-L"))) => {
                return Err(Denial::unanalysable("arguments of `pwd`"));
            }
            "printf" => check_printf(arguments)?,
            "test" | "[" => {
                self.check_test(name, arguments, at.folders)?;
                words[1..].iter_mut().for_each(|field| self.place_one(field));
            }
            "type" => self.named(name, arguments, at.folders)?,
            // `command -v NAME`; with a program in its words it is a wrapper.
            "command" => self.named("command -v", arguments.get(1..).unwrap_or_default(), at.folders)?,
            "exit" | "break" | "continue" => {
                if !self.leaves(name, arguments, at.certain) {
                    return Err(Denial::unanalysable(format!("`{name}` that may not leave")).by("G3"));
                }
                outcome = Outcome { success: Vec::new(), failure: Vec::new() };
            }
            _ => {}
        }
        let words = shown.unwrap_or(words);
        self.record.steps.push(Step {
            command: line_of(words.iter().map(|field| &field.shown)),
            depth: self.depth,
            effects: Vec::new(),
            outcome: Ok(None),
        });
        Ok((words, outcome))
    }

    // `type NAME …`: what it names may be a file.
    fn named(&mut self, name: &str, arguments: &[Field], folders: &[RelPath]) -> Result<(), Denial> {
        if arguments.is_empty() {
            return Err(Denial::unanalysable(format!("`{name}` without a name")));
        }
        for field in arguments {
            match field.text() {
                Some(text) if text.contains('/') => self.probed(text, folders)?,
                Some(_) => {}
                None => return Err(Denial::unanalysable(format!("an argument of `{name}` that is not known"))),
            }
        }
        Ok(())
    }

    // Whether `exit`, `break` or `continue` leaves for certain.
    fn leaves(&self, name: &str, arguments: &[Field], certain: bool) -> bool {
        let number = |text: &str| {
            text.bytes().all(|b| b.is_ascii_digit())
                && text.parse::<u8>().is_ok_and(|number| name == "exit" || (1..=9).contains(&number))
        };
        let plain = match arguments {
            [] => true,
            [one] => one.text().is_none_or(number),
            [_, _, ..] => false,
        };
        plain && certain && (name == "exit" || self.loops > 0 && arguments.iter().all(|field| field.text().is_some()))
    }

    /// Judges `cd`, which is printed as `cd -P`: links are followed as they are judged.
    fn change_folder(&mut self, arguments: &[Field], at: At<'_>) -> Result<(Vec<Field>, Outcome), Denial> {
        let mut rest = arguments;
        while let [option, others @ ..] = rest
            && matches!(option.text(), Some("-P" | "-L"))
        {
            rest = others;
        }
        if let [option, others @ ..] = rest
            && option.text() == Some("--")
        {
            rest = others;
        }
        let target = match rest {
            [target] => target,
            [] => {
                return Err(Denial::new("a bare `cd` leaves the workspace").by("G9").hint("name the directory"));
            }
            [_, _, ..] => return Err(Denial::unanalysable("`cd` with more than one directory").by("G9")),
        };
        let mut target = target.clone();
        self.place_one(&mut target);
        let Some(path) = target.text().filter(|path| !path.is_empty() && !path.starts_with('-')) else {
            return Err(Denial::unanalysable("`cd` to an unknown directory").by("G9").hint("name the directory"));
        };
        let path = path.to_owned();
        let mut entered = Vec::new();
        self.rules.check(&Effect::Enter(path.clone()), at.folders)?;
        for folder in at.folders {
            entered.push(self.rules.enter(folder, &path)?);
        }
        self.reached.extend(entered.iter().cloned());
        let words = vec![Field::literal("cd"), Field::literal("-P"), Field::literal("--"), target];
        Ok((words, Outcome { success: union(&entered, &[]), failure: at.folders.to_vec() }))
    }

    fn check_test(&mut self, name: &str, arguments: &[Field], folders: &[RelPath]) -> Result<(), Denial> {
        let mut operands = arguments;
        if name == "[" {
            match arguments {
                [inside @ .., last] if last.text() == Some("]") => operands = inside,
                _ => return Err(Denial::unanalysable("`[` without `]`")),
            }
        }
        for (place, field) in operands.iter().enumerate() {
            let Some(text) = field.text() else { continue };
            let path = |at: Option<usize>| at.and_then(|at| operands.get(at)).and_then(Field::text);
            match text {
                "-v" | "-R" | "-o" if operands.len() == 2 || text != "-o" => {
                    return Err(Denial::unanalysable(format!("`{text}` tests variables or options")).by("G3"));
                }
                "-nt" | "-ot" | "-ef" => {
                    for path in [path(place.checked_sub(1)), path(Some(place + 1))].into_iter().flatten() {
                        self.probed(path, folders)?;
                    }
                }
                "-b" | "-c" | "-d" | "-e" | "-f" | "-g" | "-h" | "-k" | "-p" | "-r" | "-s" | "-u" | "-w" | "-x"
                | "-G" | "-L" | "-N" | "-O" | "-S" | "-a" => {
                    let is_left_side = matches!(path(Some(place + 1)), Some("=" | "==" | "!=" | "<" | ">"));
                    if let Some(path) = path(Some(place + 1)).filter(|_| !is_left_side && (text != "-a" || place == 0))
                    {
                        self.probed(path, folders)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Whether a word is `$?`: a number that is not known.
fn is_status(pieces: &[Piece]) -> bool {
    matches!(pieces, [Piece::Parameter(parameter)] if parameter.name == "?")
}

/// `-v` sets a variable, and so does `%n`.
fn check_printf(arguments: &[Field]) -> Result<(), Denial> {
    let mut at = 0;
    if arguments.first().and_then(Field::text) == Some("--") {
        at = 1;
    } else if arguments.first().and_then(Field::text).is_some_and(|text| text.starts_with('-') && text.len() > 1) {
        return Err(Denial::unanalysable("`printf` with an option")
            .by("G3")
            .hint("begin the format with `--` before it"));
    }
    let Some(format) = arguments.get(at).and_then(Field::text) else {
        return Err(Denial::unanalysable("`printf` with a format that is not known"));
    };
    let mut rest = format.chars();
    while let Some(c) = rest.next() {
        if c == '%' {
            let directive = rest.find(|c| {
                !matches!(c, '-' | '+' | ' ' | '#' | '\'' | '*' | '.' | '0'..='9' | 'h' | 'l' | 'L' | 'j' | 'z' | 't')
            });
            if directive == Some('n') {
                return Err(Denial::unanalysable("`%n` of `printf` sets a variable").by("G3"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_that_sets_a_variable_is_refused() {
        for format in ["%n", "a%5n", "%hhn", "%-*.*ln", "%% %n"] {
            assert!(check_printf(&[Field::literal(format)]).is_err(), "{format}");
        }
        for format in ["%d\\n", "100%%n", "%qname", "%s", "%(%F)T", "%"] {
            assert!(check_printf(&[Field::literal(format)]).is_ok(), "{format}");
        }
    }
}
