//! Judges one simple command: its variables, wrappers and builtins, and what the rules decide about the program.

use std::path::PathBuf;

use crate::hidden::is_hidden;
use crate::path::RelPath;
use crate::policy::decision::Denial;
use crate::policy::effect::Effect;
use crate::policy::grant::Isolation;
use crate::policy::programs::{Stdin, Word as RuleWord};

use super::ast::{Kind, Part, Piece, Simple, Word};
use super::builtins::{BUILTINS, HARMLESS};
use super::fields::{Field, Place};
use super::parser::is_reserved;
use super::printer::print;
use super::state::{At, By, Judge, Outcome, Step, effect_line, line_of};
use super::wrappers::{ESCALATING, SHELLS, WRAPPERS, is_system, left_of, shell_text, starts_any, wrapped};

/// Maximum layers of wrappers.
const LAYERS_CAP: usize = 24;

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

/// What a program runs that is in its words.
enum Inside {
    /// The command that begins with this word.
    Command(usize),
    /// A text, decided: the words to run.
    Text(Vec<Field>),
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
            self.record.print.shell = true;
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
            if let Some(tag) = left_out_tag(&pair[0], &pair[1]) {
                words.push(Field::literal(tag));
                continue;
            }
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
            || !self.rules.may_set(name, &text)
        {
            return Err(Denial::new(format!("the variable {name} may not be set"))
                .by("G5")
                .hint("leave the assignment out"));
        }
        if text.contains(|c: char| !(c.is_alphanumeric() || " _-.,:/+@%=^*".contains(c))) {
            // make expands `$(…)` in what it has from its environment, and puts it into lines of a shell.
            return Err(Denial::new(format!(
                "the value of `{name}=` may become a command where a makefile or a script uses it"
            ))
            .by("G5")
            .hint("write a plain value"));
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
        if looked_through && let Some(inside) = self.inside(&base, &name, &words, &given, at)? {
            return match inside {
                Inside::Command(inner) => self.unwrap_layer(&base, words, inner, at),
                Inside::Text(words) => Ok((words, Outcome::stays(at.folders))),
            };
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
        let is_control = matches!(name.as_str(), "cd" | "type" | "command" | "exit" | "break" | "continue");
        if is_harmless && (at.by == By::Shell || name != ":") || is_control && at.by == By::Shell {
            self.ask_denied(&words, &given)?;
            self.record.print.shell |= at.by == By::Shell;
            let outcome = self.builtin(&name, words, at)?;
            return Ok(outcome);
        }
        if BUILTINS.contains(&name.as_str()) || name == ":" {
            self.ask_denied(&words, &given)?;
            let mut denial = Denial::unanalysable(format!("the builtin `{name}` is not understood")).by("G3");
            if name == "set" {
                denial = denial.hint("leave it out, and join commands of which each needs the one before with `&&`");
            }
            return Err(self.denied_step(&words, denial));
        }
        self.program(words, &given, at)
    }

    // What a wrapper or a shell runs.
    fn inside(
        &mut self,
        base: &str,
        name: &str,
        words: &[Field],
        given: &[RuleWord],
        at: At<'_>,
    ) -> Result<Option<Inside>, Denial> {
        if let Some(inner) = wrapped(base, words)? {
            self.ask_denied(words, given)?;
            if base != "command" {
                self.needs(Isolation::Waivable);
            }
            return Ok(Some(Inside::Command(inner)));
        }
        let text = if SHELLS.contains(&base) { shell_text(base, words)? } else { None };
        let Some(text) = text else { return Ok(None) };
        self.ask_denied(words, given)?;
        self.needs(Isolation::Waivable);
        if at.by == By::Finder && text.contains("{}") {
            let denial = Denial::unanalysable(format!("`{{}}` in the text of `{name} -c` is not known"));
            return Err(self.denied_step(words, denial));
        }
        self.depth += 1;
        let printed = self.text(&text, at.folders, at.stdin);
        self.depth -= 1;
        let mut words = ["bash", "--noprofile", "--norc", "-c"].map(Field::literal).to_vec();
        words.push(printed?);
        Ok(Some(Inside::Text(words)))
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
        if let Err(denial) = self.effects_of(&judged, at.folders) {
            if let Some(step) = self.record.steps.last_mut() {
                step.outcome = Err(denial.clone());
            }
            return Err(denial);
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
            let at = At { by: By::Finder, certain: false, stdin: left_of(at.stdin, given, started), ..at };
            self.depth += 1;
            let result = self.dispatch(started.iter().map(from_rule).collect(), at);
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

/// `--tag ~slow` of test runners: all but what has the tag, not the home directory of a user of that name. It is printed
/// in quotes.
fn left_out_tag<'w>(before: &Word, word: &'w Word) -> Option<&'w str> {
    let is_tag = |text: &&str| {
        text.strip_prefix('~')
            .is_some_and(|name| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "_-:@".contains(c)))
    };
    word.as_plain().filter(is_tag).filter(|_| matches!(before.as_plain(), Some("-t" | "--tag" | "--tags")))
}

fn from_rule(word: &RuleWord) -> Field {
    Field { word: word.clone(), shown: Word::from_text(&word.text) }
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

/// The command that does nothing, for redirections without one.
fn nothing() -> Simple {
    Simple { assignments: Vec::new(), words: vec![Word::from_text(":")] }
}
