//! Judges one simple command: its variables, wrappers and builtins, and what the rules decide about the program.

use std::path::PathBuf;

use crate::hidden::is_hidden;
use crate::path::RelPath;
use crate::policy::decision::Denial;
use crate::policy::effect::Effect;
use crate::policy::grant::Isolation;
use crate::policy::programs::{Stdin, Word as RuleWord};

use super::ast::{Kind, Part, Piece, Simple, Word};
use super::judge::{Judge, Outcome, Step, effect_line, line_of, nothing, union};
use super::parser::is_reserved;
use super::printer::print;
use super::words::{Field, Place};
use super::wrappers::{ESCALATING, SHELLS, WRAPPERS, is_system, shell_text, starts_any, wrapped};

/// Maximum layers of wrappers.
const LAYERS_CAP: usize = 24;

/// The builtins that are judged here; every other one is not understood.
const HARMLESS: [&str; 7] = ["true", "false", ":", "echo", "printf", "pwd", "test"];

const BUILTINS: [&str; 57] = [
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

/// Variables that would change what has been judged here.
const OURS: [&str; 14] = [
    "IFS",
    "PWD",
    "OLDPWD",
    "HOME",
    "CDPATH",
    "PATH",
    "ENV",
    "BASH_ENV",
    "GLOBIGNORE",
    "POSIXLY_CORRECT",
    "SHELLOPTS",
    "BASHOPTS",
    "EXECIGNORE",
    "BASH_COMPAT",
];

/// Who starts a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// bash: its builtins are there.
    Shell,
    /// Another program: only programs are there.
    Program,
    /// A program such as `find` or `xargs`, which may put names for a part of the words.
    Finder,
}

/// The surroundings of a command.
#[derive(Clone, Copy)]
struct At<'a> {
    folders: &'a [RelPath],
    stdin: Stdin,
    by: By,
    /// Neither redirection nor assignment could keep it from running.
    certain: bool,
}

impl Judge<'_> {
    pub(super) fn simple(
        &mut self,
        simple: &Simple,
        folders: &[RelPath],
        stdin: Stdin,
        certain: bool,
    ) -> Result<(Kind, Outcome), Denial> {
        self.count()?;
        let mut assignments = Vec::new();
        for (name, value) in &simple.assignments {
            assignments.push((name.clone(), self.assignment(name, value)?));
            self.record.shell = true;
        }
        let Some(first) = simple.words.first() else {
            if !assignments.is_empty() {
                return Err(Denial::unanalysable("a statement that only sets a variable")
                    .hint("write the value where it is needed"));
            }
            return Ok((Kind::Simple(nothing()), Outcome::stays(folders)));
        };
        refuse_unknown_name(first)?;
        let name_only = Place { folders, stdin, output: false, process: false };
        let mut words = self.fields(first, name_only)?;
        let name = words.first().and_then(Field::text).unwrap_or_default().to_owned();
        let is_builtin = name == "[" || HARMLESS.contains(&name.as_str());
        let place = Place { folders, stdin, output: name == "echo", process: !is_builtin };
        for pair in simple.words.windows(2) {
            match self.count_of_processors(&pair[0], &pair[1])? {
                Some(number) => words.push(Field::literal(&number)),
                None => words.extend(self.fields(&pair[1], place)?),
            }
        }
        let at = At { folders, stdin, by: By::Shell, certain: certain && assignments.is_empty() };
        let (words, outcome) = self.dispatch(words, at)?;
        let mut shown: Vec<Word> = words.into_iter().map(|field| field.shown).collect();
        if let Some(name) = shown.first_mut() {
            *name = as_name(name);
        }
        Ok((Kind::Simple(Simple { assignments, words: shown }), outcome))
    }

    // `-j$(nproc)`: the one substitution whose output is known, as the value of an option that takes a number of jobs.
    fn count_of_processors(&mut self, before: &Word, word: &Word) -> Result<Option<String>, Denial> {
        let (option, last) = match word.parts.as_slice() {
            [Part::Plain(option), last] if matches!(option.as_str(), "-j" | "--jobs=" | "--parallel=") => {
                (option.as_str(), last)
            }
            [last] if matches!(before.as_plain(), Some("-j" | "--jobs" | "--parallel")) => ("", last),
            _ => return Ok(None),
        };
        let script = match last {
            Part::Substitution(script) => script,
            Part::Double(pieces) => match pieces.as_slice() {
                [Piece::Substitution(script)] => script,
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        if print(script).trim() != "nproc" {
            return Ok(None);
        }
        if let Some(denial) = self.rules.denied(&[RuleWord::literal("nproc")]) {
            return Err(denial);
        }
        let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Ok(Some(format!("{option}{count}")))
    }

    fn assignment(&mut self, name: &str, value: &Word) -> Result<Word, Denial> {
        let literal = value
            .as_text()
            .filter(|_| value.parts.iter().all(|part| !matches!(part, Part::Plain(text) if text.contains('~'))));
        let Some(text) = literal else {
            return Err(Denial::unanalysable(format!("the value of `{name}=` is not literal")).by("G5"));
        };
        if OURS.contains(&name)
            || self.variables.iter().any(|(variable, _)| variable == name)
            || !self.rules.may_set(name)
        {
            return Err(Denial::new(format!("the variable {name} may not be set"))
                .by("G5")
                .hint("leave the assignment out"));
        }
        let leads_out =
            |path: &str| path.is_empty() || path.starts_with('/') || path.split('/').any(|part| part == "..");
        if name == "PYTHONPATH" && text.split(':').any(leads_out) {
            return Err(Denial::new(format!("PYTHONPATH may not name `{text}`"))
                .by("G5")
                .hint("name directories of the workspace"));
        }
        Ok(if text.is_empty() { Word::default() } else { Word::from_text(&text) })
    }

    /// Judges words whose first one is the command, and returns the words to run.
    fn dispatch(&mut self, words: Vec<Field>, at: At<'_>) -> Result<(Vec<Field>, Outcome), Denial> {
        if self.depth >= LAYERS_CAP {
            return Err(Denial::unanalysable("too many programs that start programs"));
        }
        let Some(name) = words.first().and_then(Field::text).filter(|name| !name.is_empty()) else {
            return Err(Denial::unanalysable("the name of a command is not known"));
        };
        let name = name.to_owned();
        // `time -- ls`: what looks like an option may be one to the shell.
        if name.contains('=') || name.starts_with('-') {
            return Err(Denial::unanalysable(format!("`{name}` as the name of a command")));
        }
        if name.chars().any(|c| is_hidden(c) || c.is_whitespace()) {
            return Err(Denial::unanalysable("a command name with spaces"));
        }
        let given: Vec<RuleWord> = words.iter().map(|field| field.word.clone()).collect();
        let base = name.rsplit('/').next().unwrap_or(&name).to_owned();
        if ESCALATING.contains(&base.as_str()) {
            return Err(self.denied_step(&words, Denial::new(format!("{base} is never allowed")).by("G4")));
        }
        let looked_through = if name == base { true } else { self.rules.default_allows() && is_system(&name) };
        if looked_through {
            if let Some(inner) = wrapped(&base, &words)? {
                self.ask_denied(&words, &given)?;
                if base != "command" {
                    self.needs(Isolation::Waivable);
                }
                return self.unwrap_layer(&base, words, inner, at);
            }
            if SHELLS.contains(&base.as_str())
                && let Some(text) = shell_text(&base, &words)?
            {
                self.ask_denied(&words, &given)?;
                self.needs(Isolation::Waivable);
                if at.by == By::Finder && text.contains("{}") {
                    let denial = Denial::unanalysable(format!("`{{}}` in the text of `{name} -c` is not known"));
                    return Err(self.denied_step(&words, denial));
                }
                self.depth += 1;
                let printed = self.text(&text, at.folders, at.stdin);
                self.depth -= 1;
                let mut words = ["bash", "--noprofile", "--norc", "-c"].map(Field::literal).to_vec();
                words.push(printed?);
                return Ok((words, Outcome::stays(at.folders)));
            }
        }
        if self.rules.default_allows()
            && name != base
            && (WRAPPERS.contains(&base.as_str()) || SHELLS.contains(&base.as_str()))
            && !is_system(&name)
        {
            return Err(Denial::unanalysable(format!("`{name}` may start any program")).hint(format!("write `{base}`")));
        }
        if self.rules.default_allows() && starts_any(&base) {
            self.ask_denied(&words, &given)?;
            let denial = Denial::new(format!("{base} starts other programs, which deny rules could not see")).by("G4");
            return Err(self.denied_step(&words, denial.hint("run the program itself")));
        }
        let is_harmless = HARMLESS.contains(&name.as_str()) || name == "[";
        let is_control = matches!(name.as_str(), "cd" | "type" | "exit" | "break" | "continue");
        if is_harmless && (at.by == By::Shell || name != ":") || is_control && at.by == By::Shell {
            self.ask_denied(&words, &given)?;
            self.record.shell |= at.by == By::Shell;
            let outcome = self.builtin(&name, words, at)?;
            return Ok(outcome);
        }
        if BUILTINS.contains(&name.as_str()) || name == ":" {
            self.ask_denied(&words, &given)?;
            let denial = Denial::unanalysable(format!("the builtin `{name}` is not understood")).by("G3");
            return Err(self.denied_step(&words, denial));
        }
        self.program(words, &given, at)
    }

    fn needs(&mut self, isolation: Isolation) {
        self.record.isolation = self.record.isolation.max(isolation);
    }

    fn ask_denied(&mut self, words: &[Field], given: &[RuleWord]) -> Result<(), Denial> {
        match self.rules.denied(given) {
            Some(denial) => Err(self.denied_step(words, denial)),
            None => Ok(()),
        }
    }

    fn denied_step(&mut self, words: &[Field], denial: Denial) -> Denial {
        self.record.steps.push(Step {
            command: line_of(words.iter().map(|field| &field.shown)),
            depth: self.depth,
            effects: Vec::new(),
            outcome: Err(denial.clone()),
        });
        denial
    }

    /// Judges the command inside a wrapper.
    fn unwrap_layer(
        &mut self,
        name: &str,
        mut words: Vec<Field>,
        inner: usize,
        at: At<'_>,
    ) -> Result<(Vec<Field>, Outcome), Denial> {
        let rest = words.split_off(inner);
        let by = match at.by {
            By::Shell if name == "command" => By::Shell,
            By::Shell | By::Program => By::Program,
            By::Finder => By::Finder,
        };
        let certain = at.certain && name == "command";
        // `command exit` and its like would end more than they seem to.
        let leaves = matches!(rest.first().and_then(Field::text), Some("exit" | "break" | "continue"));
        if leaves {
            return Err(Denial::unanalysable(format!("`{name}` before a builtin that leaves")));
        }
        self.depth += 1;
        let result = self.dispatch(rest, At { by, certain, ..at });
        self.depth -= 1;
        let (rest, outcome) = result?;
        if name == "command" {
            // It is a builtin; what it hides (functions) does not exist here.
            return Ok((rest, outcome));
        }
        words.extend(rest);
        Ok((words, outcome))
    }

    fn builtin(&mut self, name: &str, mut words: Vec<Field>, at: At<'_>) -> Result<(Vec<Field>, Outcome), Denial> {
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
            "type" => {
                if arguments.is_empty() {
                    return Err(Denial::unanalysable("`type` without a name"));
                }
                for field in arguments {
                    match field.text() {
                        Some(text) if text.contains('/') => self.probed(text, at.folders)?,
                        Some(_) => {}
                        None => return Err(Denial::unanalysable("an argument of `type` that is not known")),
                    }
                }
            }
            "exit" | "break" | "continue" => {
                let plain = match arguments {
                    [] => true,
                    [one] => one.text().is_none_or(|text| {
                        text.parse::<u8>().is_ok_and(|number| name == "exit" || (1..=9).contains(&number))
                            && text.bytes().all(|b| b.is_ascii_digit())
                    }),
                    [_, _, ..] => false,
                };
                if !plain
                    || !at.certain
                    || (name != "exit" && (self.loops == 0 || arguments.iter().any(|f| f.text().is_none())))
                {
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

    /// Asks the rules about a program, about each of its effects, and about everything that it starts.
    fn program(&mut self, words: Vec<Field>, given: &[RuleWord], at: At<'_>) -> Result<(Vec<Field>, Outcome), Denial> {
        let judged = match self.rules.judge(given, at.stdin, at.folders) {
            Ok(judged) => judged,
            Err(denial) => return Err(self.denied_step(&words, denial)),
        };
        let command = line_of(words.iter().map(|field| &field.shown));
        self.record.steps.push(Step {
            command: command.clone(),
            depth: self.depth,
            effects: judged.effects.iter().map(effect_line).collect(),
            outcome: Ok(Some(judged.rule.clone())),
        });
        self.effect(format!("run {command}"));
        for effect in &judged.effects {
            if let Err(denial) = self.checked(effect, at.folders) {
                if let Some(step) = self.record.steps.last_mut() {
                    step.outcome = Err(denial.clone());
                }
                return Err(denial);
            }
        }
        self.record.writes |= !judged.writes_nothing;
        self.record.writes_git |= judged.writes_git;
        self.record.open_ended |= judged.open_ended;
        self.needs(judged.isolation);
        let root = self.rules.root();
        let outside =
            judged.directories.iter().map(PathBuf::from).filter(|path| path.is_absolute() && !path.starts_with(root));
        self.record.named.extend(outside);
        if !self.record.rules.contains(&judged.rule) {
            self.record.rules.push(judged.rule.clone());
        }
        self.record.unchanged.extend(judged.unchanged.iter().cloned());
        let name = given.first().map(|word| word.text.clone()).unwrap_or_default();
        if !self.record.programs.contains(&name) {
            self.record.programs.push(name);
        }
        let mut words = match &judged.printed {
            Some(printed) => reprinted(&words, printed)?,
            None => words,
        };
        let mut started_paths = Vec::new();
        for started in &judged.starts {
            let inner: Vec<Field> = started.iter().map(from_rule).collect();
            self.depth += 1;
            let result = self.dispatch(inner, At { by: By::Finder, certain: false, ..at });
            self.depth -= 1;
            let inner = result?.0;
            splice(&mut words, started, &inner)?;
            let placed = inner.into_iter().filter(|field| field.shown.parts.iter().any(|p| matches!(p, Part::Path(_))));
            started_paths.extend(placed.map(|field| field.word.text));
        }
        let paths = judged.effects.iter().map(Effect::path).chain(judged.directories.iter().map(String::as_str));
        let paths: Vec<&str> = paths.chain(started_paths.iter().map(String::as_str)).collect();
        self.place(&mut words, &paths, judged.open_ended);
        Ok((words, Outcome::stays(at.folders)))
    }
}

fn from_rule(word: &RuleWord) -> Field {
    Field { word: word.clone(), shown: Word::from_text(&word.text) }
}

/// Whether a word is `$?`: a number that is not known.
fn is_status(pieces: &[super::ast::Piece]) -> bool {
    matches!(pieces, [super::ast::Piece::Parameter(parameter)] if parameter.name == "?")
}

/// Takes the rules' words for the given ones, and keeps how known ones were printed.
fn reprinted(words: &[Field], printed: &[RuleWord]) -> Result<Vec<Field>, Denial> {
    let mut old = words.iter();
    let mut fields = Vec::new();
    for word in printed {
        match old.clone().position(|field| field.word == *word).and_then(|place| old.nth(place)) {
            Some(field) => fields.push(field.clone()),
            None if word.literal => fields.push(from_rule(word)),
            None => return Err(Denial::new("a word that is not known cannot be moved")),
        }
    }
    let unknown = |words: &[Field]| words.iter().filter(|field| !field.word.literal).count();
    if unknown(words) != unknown(&fields) {
        return Err(Denial::new("a word that is not known cannot be left out"));
    }
    Ok(fields)
}

/// Replaces the words of a command that a program starts by the decided ones.
fn splice(words: &mut Vec<Field>, started: &[RuleWord], decided: &[Field]) -> Result<(), Denial> {
    let same = started.len() == decided.len() && started.iter().zip(decided).all(|(old, new)| *old == new.word);
    if same {
        return Ok(());
    }
    let known = started.iter().take_while(|word| word.literal).count();
    let places: Vec<usize> = (0..words.len().saturating_sub(known.saturating_sub(1)))
        .filter(|at| words[*at..].iter().zip(&started[..known]).all(|(field, word)| field.word == *word))
        .collect();
    match places.as_slice() {
        [at] if known > 0 && decided.len() >= started.len() - known => {
            let new = decided[..decided.len() - (started.len() - known)].to_vec();
            words.splice(*at..*at + known, new);
            Ok(())
        }
        _ => Err(Denial::unanalysable("a command inside a command cannot be printed again")),
    }
}

/// A command's name must be there before anything runs: quotes and braces are fine, values and files are not.
fn refuse_unknown_name(word: &Word) -> Result<(), Denial> {
    if word.as_plain() == Some("[") {
        return Ok(());
    }
    for (at, part) in word.parts.iter().enumerate() {
        let known = match part {
            Part::Plain(text) => !(text.contains(['*', '?', '[']) || at == 0 && text.starts_with('~')),
            Part::Quoted(_) => true,
            _ => false,
        };
        if !known {
            return Err(Denial::unanalysable("the name of a command comes from an expansion")
                .by("G3")
                .hint("write the name"));
        }
    }
    Ok(())
}

/// Quotes a name that the grammar would take for something else.
fn as_name(word: &Word) -> Word {
    match word.as_plain() {
        Some(text) if is_reserved(text) || text.starts_with('-') || text.contains('=') => {
            let mut quoted = Word::default();
            quoted.push_quoted(text);
            quoted
        }
        Some(_) | None => word.clone(),
    }
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
