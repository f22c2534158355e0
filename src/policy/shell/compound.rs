//! Judges scripts, pipelines, branches and loops.

use super::ast::{AndOr, Arm, Command, Join, Kind, Parameter, Part, Piece, Pipeline, Script, Word};
use super::fields::{Field, Place};
use super::parser::parse;
use super::printer::print_at;
use super::state::{Folders, Judge, Outcome, union};
use crate::path::RelPath;
use crate::policy::decision::Denial;
use crate::policy::programs::{Stdin, Word as RuleWord};

/// Maximum directories that a command may be in after a `cd`.
const FOLDERS_CAP: usize = 8;

impl Judge<'_> {
    pub(super) fn script(
        &mut self,
        script: &Script,
        start: &[RelPath],
        stdin: Stdin,
    ) -> Result<(Script, Outcome), Denial> {
        let mut decided = Script::default();
        let mut outcome = Outcome::stays(start);
        let mut folders = start.to_vec();
        for statement in &script.statements {
            let (statement, after) = self.and_or(statement, &folders, stdin)?;
            decided.statements.push(statement);
            folders = after.either();
            outcome = after;
        }
        Ok((decided, outcome))
    }

    fn and_or(&mut self, and_or: &AndOr, start: &[RelPath], stdin: Stdin) -> Result<(AndOr, Outcome), Denial> {
        let (first, mut outcome) = self.pipeline(&and_or.first, start, stdin)?;
        let mut rest = Vec::new();
        for (join, pipeline) in &and_or.rest {
            let from = match join {
                Join::And => &outcome.success,
                Join::Or => &outcome.failure,
            };
            let (pipeline, after) = self.pipeline(pipeline, &from.clone(), stdin)?;
            outcome = match join {
                Join::And => Outcome { success: after.success, failure: union(&outcome.failure, &after.failure) },
                Join::Or => Outcome { success: union(&outcome.success, &after.success), failure: after.failure },
            };
            rest.push((*join, pipeline));
        }
        Ok((AndOr { first, rest }, outcome))
    }

    fn pipeline(
        &mut self,
        pipeline: &Pipeline,
        start: &[RelPath],
        stdin: Stdin,
    ) -> Result<(Pipeline, Outcome), Denial> {
        if start.is_empty() {
            return Err(Denial::unanalysable("a command after `exit`, `break` or `continue` can never run")
                .hint("leave it out"));
        }
        if start.len() > FOLDERS_CAP {
            return Err(Denial::unanalysable("the directory is unknown after so many `cd`").hint("join them with `&&`"));
        }
        if pipeline.time.is_some()
            && let Some(denial) = self.rules.denied(&[RuleWord::literal("time")])
        {
            return Err(denial);
        }
        if pipeline.rest.is_empty() {
            let (first, outcome) = self.command(&pipeline.first, start, stdin)?;
            let outcome =
                if pipeline.negated { Outcome { success: outcome.failure, failure: outcome.success } } else { outcome };
            return Ok((Pipeline { first, rest: Vec::new(), ..*pipeline }, outcome));
        }
        let first = self.isolated(|judge| judge.command(&pipeline.first, start, stdin))?.0;
        let mut rest = Vec::new();
        let mut before = &pipeline.first;
        for (pipe, command) in &pipeline.rest {
            let input = said(before).map_or(Stdin::Pipe, |text| Stdin::of_text(&text));
            before = command;
            let (command, _) = self.isolated(|judge| judge.command(command, start, input))?;
            rest.push((*pipe, command));
        }
        Ok((Pipeline { time: pipeline.time, negated: pipeline.negated, first, rest }, Outcome::stays(start)))
    }

    /// Judges the inside of a substitution.
    pub(super) fn nested(&mut self, script: &Script, folders: &[RelPath], stdin: Stdin) -> Result<Script, Denial> {
        self.record.print.shell = true;
        Ok(self.isolated(|judge| judge.script(script, folders, stdin))?.0)
    }

    /// Judges the text of `sh -c` and returns it as a word.
    pub(super) fn text(&mut self, text: &str, folders: &[RelPath], stdin: Stdin) -> Result<Field, Denial> {
        let script = parse(text)?;
        if script.statements.is_empty() {
            return Err(Denial::new("the command is empty").by("G1"));
        }
        let variables = std::mem::take(&mut self.variables);
        let (shell, placed) = (self.record.print.shell, std::mem::take(&mut self.record.print.placed));
        let result = self.isolated(|judge| judge.script(&script, folders, stdin));
        self.variables = variables;
        self.record.print.shell = shell;
        let (script, is_placed) = (result?.0, self.record.print.placed);
        self.record.print.placed |= placed;
        let mut field = Field::literal(&print_at(&script, &self.rules.root().to_string_lossy()));
        if is_placed {
            field.shown = Word { parts: vec![Part::Text(script)] };
        }
        Ok(field)
    }

    fn command(&mut self, command: &Command, start: &[RelPath], stdin: Stdin) -> Result<(Command, Outcome), Denial> {
        let mut redirections = Vec::new();
        let mut inner = stdin;
        for redirection in &command.redirections {
            redirections.push(self.redirection(redirection, start, stdin, &mut inner)?);
        }
        let (kind, mut outcome) = match &command.kind {
            Kind::Simple(simple) => self.simple(simple, start, inner, command.redirections.is_empty())?,
            Kind::Subshell(script) => {
                let (script, _) = self.isolated(|judge| judge.script(script, start, inner))?;
                (Kind::Subshell(script), Outcome::stays(start))
            }
            Kind::Group(script) => {
                let (script, outcome) = self.script(script, start, inner)?;
                (Kind::Group(script), outcome)
            }
            Kind::If { branches, otherwise } => self.branches(branches, otherwise.as_ref(), start, inner)?,
            Kind::For { variable, words, body } => self.for_loop(variable, words, body, start, inner)?,
            Kind::While { until, condition, body } => {
                let ((condition, body), outcome) = self.repeated(start, |judge, folders| {
                    let (condition, after) = judge.script(condition, folders, inner)?;
                    let begin = if *until { &after.failure } else { &after.success };
                    let (body, end) = judge.script(body, begin, inner)?;
                    Ok(((condition, body), union(&after.either(), &end.either())))
                })?;
                (Kind::While { until: *until, condition, body }, outcome)
            }
            Kind::Case { subject, arms } => self.case(subject, arms, start, inner)?,
            Kind::Test(test) => {
                self.count()?;
                self.record.print.shell = true;
                let place = Place { folders: start, stdin: inner, output: false, process: false };
                (Kind::Test(self.test(test, place)?), Outcome::stays(start))
            }
        };
        // A redirection that fails keeps the command from running.
        if !redirections.is_empty() {
            outcome.failure = union(&outcome.failure, start);
        }
        Ok((Command { kind, redirections }, outcome))
    }

    fn case(
        &mut self,
        subject: &Word,
        arms: &[Arm],
        start: &[RelPath],
        stdin: Stdin,
    ) -> Result<(Kind, Outcome), Denial> {
        let place = Place { folders: start, stdin, output: false, process: false };
        let subject = self.unsplit(subject, place)?.shown;
        let mut outcome = Outcome::stays(start);
        let mut decided = Vec::new();
        for arm in arms {
            let patterns = arm.patterns.iter().map(|pattern| self.pattern(pattern, place)).collect::<Result<_, _>>()?;
            let (body, after) = self.script(&arm.body, start, stdin)?;
            outcome = outcome.or(&after);
            decided.push(Arm { patterns, body });
        }
        Ok((Kind::Case { subject, arms: decided }, outcome))
    }

    fn branches(
        &mut self,
        branches: &[(Script, Script)],
        otherwise: Option<&Script>,
        start: &[RelPath],
        stdin: Stdin,
    ) -> Result<(Kind, Outcome), Denial> {
        let mut decided = Vec::new();
        let mut outcome = Outcome { success: Vec::new(), failure: Vec::new() };
        let mut folders = start.to_vec();
        for (condition, body) in branches {
            let (condition, after) = self.script(condition, &folders, stdin)?;
            let (body, end) = self.script(body, &after.success, stdin)?;
            outcome = outcome.or(&end);
            folders = after.failure;
            decided.push((condition, body));
        }
        let otherwise = match otherwise {
            Some(body) => {
                let (body, end) = self.script(body, &folders, stdin)?;
                outcome = outcome.or(&end);
                Some(body)
            }
            None => {
                outcome.success = union(&outcome.success, &folders);
                None
            }
        };
        Ok((Kind::If { branches: decided, otherwise }, outcome))
    }

    /// Judges a loop until no new directory is reached: the body may run from wherever it left the shell.
    fn repeated<T>(
        &mut self,
        start: &[RelPath],
        mut body: impl FnMut(&mut Self, &[RelPath]) -> Result<(T, Folders), Denial>,
    ) -> Result<(T, Outcome), Denial> {
        let mut folders = start.to_vec();
        loop {
            let before = self.record.clone();
            let reached = self.reached.len();
            self.loops += 1;
            let result = body(self, &folders);
            self.loops -= 1;
            let (value, after) = result?;
            let all = union(&union(&folders, &after), &self.reached[reached..]);
            if all == folders {
                return Ok((value, Outcome::stays(&folders)));
            }
            if all.len() > FOLDERS_CAP {
                return Err(Denial::unanalysable("a `cd` in a loop").hint("put it in a subshell: ( cd DIR && … )"));
            }
            self.record = before;
            folders = all;
        }
    }

    fn for_loop(
        &mut self,
        variable: &str,
        words: &[Word],
        body: &Script,
        start: &[RelPath],
        stdin: Stdin,
    ) -> Result<(Kind, Outcome), Denial> {
        if !is_harmless_variable(variable) || self.variables.iter().any(|(name, _)| name == variable) {
            return Err(Denial::unanalysable(format!("`{variable}` as the variable of a loop"))
                .hint("use a name of small letters, for example `f`, that no loop around uses"));
        }
        let place = Place { folders: start, stdin, output: false, process: false };
        let (mut values, mut shown) = (Vec::new(), Vec::new());
        for word in words {
            for field in self.fields(word, place)? {
                let Some(text) = field.text() else {
                    return Err(Denial::unanalysable("a loop over a value that is not known"));
                };
                if !values.iter().any(|value| value == text) {
                    values.push(text.to_owned());
                }
                shown.push(field.shown);
            }
        }
        if values.is_empty() {
            return Err(Denial::unanalysable("a loop over nothing never runs"));
        }
        let (mut bodies, outcome) = self.repeated(start, |judge, folders| {
            let mut bodies = Vec::new();
            let mut after = Vec::new();
            for value in &values {
                judge.variables.push((variable.to_owned(), value.clone()));
                let result = judge.script(body, folders, stdin);
                judge.variables.pop();
                let (body, end) = result?;
                bodies.push(body);
                after = union(&after, &end.either());
            }
            Ok((bodies, after))
        })?;
        let body = if bodies.windows(2).all(|pair| pair[0] == pair[1]) {
            bodies.swap_remove(0)
        } else {
            self.by_value(variable, &values, bodies)
        };
        Ok((Kind::For { variable: variable.to_owned(), words: shown, body }, outcome))
    }

    /// Builds a body that does for each value what was decided for it.
    fn by_value(&mut self, variable: &str, values: &[String], bodies: Vec<Script>) -> Script {
        let parameter = Parameter { name: variable.to_owned(), braced: true };
        let subject = Word { parts: vec![Part::Double(vec![Piece::Parameter(parameter)])] };
        let arms = values.iter().zip(bodies).map(|(value, body)| {
            let mut pattern = Word::default();
            pattern.push_quoted(value);
            Arm { patterns: vec![pattern], body }
        });
        let kind = Kind::Case { subject, arms: arms.collect() };
        let first = Command { kind, redirections: Vec::new() };
        let first = Pipeline { time: None, negated: false, first, rest: Vec::new() };
        Script { statements: vec![AndOr { first, rest: Vec::new() }] }
    }
}

/// Names of capital letters that are common for loops and that nothing reads from its environment.
const CAPITALS: [&str; 24] = [
    "FILE", "DIR", "NAME", "ITEM", "FOLDER", "FILES", "DIRS", "PKG", "PACKAGE", "CRATE", "MODULE", "MOD", "BRANCH",
    "COMMIT", "TAG", "REV", "SHA", "SRC", "EXT", "LINE", "WORD", "KEY", "NUM", "IDX",
];

/// Tells whether a loop may use this variable: it must mean nothing to bash and to no program that it starts.
fn is_harmless_variable(name: &str) -> bool {
    if name.chars().any(|c| c.is_ascii_lowercase()) {
        return !name.to_ascii_lowercase().contains("proxy")
            && !name.starts_with("npm_")
            && !name.starts_with("BASH")
            && !matches!(name, "auto_resume" | "histchars");
    }
    name.len() == 1 && name != "_" || CAPITALS.contains(&name)
}

/// What `echo` or `printf` writes, as far as its words tell.
fn said(command: &Command) -> Option<String> {
    let Kind::Simple(simple) = &command.kind else { return None };
    let expands = |part: &Part| matches!(part, Part::Plain(text) if text.contains(['*', '?', '[', '{', '~']));
    let literal = |word: &Word| word.as_text().filter(|_| !word.parts.iter().any(expands));
    let words = simple.words.iter().map(literal).collect::<Option<Vec<_>>>()?;
    let prints = command.redirections.is_empty() && matches!(words.first()?.as_str(), "echo" | "printf");
    prints.then(|| words[1..].join(" "))
}
