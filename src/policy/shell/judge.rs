//! Judges a command: it is allowed only if every simple command that could run is.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::path::RelPath;
use crate::policy::decision::{Denial, RuleRef};
use crate::policy::effect::Effect;
use crate::policy::grant::{CommandPlan, GitAccess, Isolation, Network, SandboxProfile, TreeAccess};
use crate::policy::packages::{is_cache, packages_of};
use crate::policy::programs::{CommandRules, Stdin, Word as RuleWord};

use super::ast::{AndOr, Arm, Command, Join, Kind, Parameter, Part, Piece, Pipe, Pipeline, Script, Simple, Word};
use super::parser::parse;
use super::placed::Form;
use super::printer::{print_at, print_word};
use super::words::{Field, Place};

/// Maximum directories that a command may be in after a `cd`.
const FOLDERS_CAP: usize = 8;
/// Maximum simple commands that are judged, loops counted once for each value.
const COMMANDS_CAP: usize = 5_000;

/// A command that may run.
#[derive(Debug, Clone)]
pub struct Approved {
    /// What runs: the decided tree, printed again.
    pub plan: CommandPlan,
    /// What it would do, one line each, for `Decision.effects`.
    pub effects: Vec<String>,
    /// The allow rules that matched, in the order of the commands.
    pub rules: Vec<RuleRef>,
    /// The command as it was written.
    pub parsed: Script,
    /// The command as it was decided: what the plan prints.
    pub decided: Script,
}

/// One simple command as it was judged, for `policy explain`.
#[derive(Debug, Clone)]
pub struct Step {
    /// The words as they would run.
    pub command: String,
    /// How many layers (wrappers, `-c` texts, programs that start programs) are around it.
    pub depth: usize,
    /// Its effects, one line each.
    pub effects: Vec<String>,
    /// The allow rule that matched (`None` for harmless commands and wrappers), or why it is denied.
    pub outcome: Result<Option<RuleRef>, Denial>,
}

/// Judges a command that is to run in `directory` (relative to the workspace, or absolute).
pub fn judge(command: &str, directory: Option<&str>, rules: &dyn CommandRules) -> Result<Approved, Denial> {
    judge_in_steps(command, directory, rules).1
}

/// As [`judge`], with each simple command that was judged, up to the one that is denied.
pub fn judge_in_steps(
    command: &str,
    directory: Option<&str>,
    rules: &dyn CommandRules,
) -> (Vec<Step>, Result<Approved, Denial>) {
    let mut judge = Judge {
        rules,
        record: Record {
            steps: Vec::new(),
            effects: Vec::new(),
            rules: Vec::new(),
            programs: Vec::new(),
            named: Vec::new(),
            unchanged: Vec::new(),
            written: Vec::new(),
            writes: false,
            writes_git: false,
            open_ended: false,
            isolation: Isolation::None,
            placed: false,
            shell: false,
        },
        variables: Vec::new(),
        reached: Vec::new(),
        loops: 0,
        depth: 0,
        commands: 0,
        words: 0,
    };
    let result = judge.whole(command, directory);
    (judge.record.steps, result)
}

/// The directories that a command may be in, sorted, each once. None: it cannot run.
pub(super) type Folders = Vec<RelPath>;

/// Where the shell may be after a command, by how it ended.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    pub(super) success: Folders,
    pub(super) failure: Folders,
}

impl Outcome {
    pub(super) fn stays(folders: &[RelPath]) -> Outcome {
        Outcome { success: folders.to_vec(), failure: folders.to_vec() }
    }

    fn either(&self) -> Folders {
        union(&self.success, &self.failure)
    }
}

pub(super) fn union(left: &[RelPath], right: &[RelPath]) -> Folders {
    let mut folders: Folders = left.iter().chain(right).cloned().collect();
    folders.sort();
    folders.dedup();
    folders
}

/// What was found so far.
#[derive(Clone)]
pub(super) struct Record {
    pub(super) steps: Vec<Step>,
    pub(super) effects: Vec<String>,
    pub(super) rules: Vec<RuleRef>,
    pub(super) programs: Vec<String>,
    /// Directories and files outside the workspace that rules accepted by name.
    pub(super) named: Vec<PathBuf>,
    pub(super) unchanged: Vec<RelPath>,
    // By the command's own words.
    written: Vec<RelPath>,
    pub(super) writes: bool,
    pub(super) writes_git: bool,
    pub(super) open_ended: bool,
    pub(super) isolation: Isolation,
    /// A word names a path inside the workspace.
    pub(super) placed: bool,
    /// A builtin is used, so a shell has to run it.
    pub(super) shell: bool,
}

pub(super) struct Judge<'a> {
    pub(super) rules: &'a dyn CommandRules,
    pub(super) record: Record,
    /// The variables of the loops around, with the value they have now.
    pub(super) variables: Vec<(String, String)>,
    /// The directories that a `cd` of this shell process may have entered.
    pub(super) reached: Vec<RelPath>,
    /// How many loops of this shell process are around.
    pub(super) loops: usize,
    pub(super) depth: usize,
    commands: usize,
    pub(super) words: usize,
}

impl Judge<'_> {
    fn whole(&mut self, command: &str, directory: Option<&str>) -> Result<Approved, Denial> {
        let parsed = parse(command)?;
        if parsed.statements.is_empty() {
            return Err(Denial::new("the command is empty").by("G1"));
        }
        let root = RelPath::root();
        let start = match directory {
            None => root,
            Some(directory) => {
                self.rules.check(&Effect::Enter(directory.to_owned()), std::slice::from_ref(&root))?;
                self.rules.enter(&root, directory)?
            }
        };
        let (decided, _) = self.script(&parsed, std::slice::from_ref(&start), Stdin::Empty)?;
        let changes = |program: &&RelPath| {
            let packages = packages_of(program);
            let belongs = |path: &RelPath| packages.iter().any(|all| path.is_under(all) && !is_cache(all, path));
            self.record.written.iter().any(|path| program.is_under(path) || belongs(path))
        };
        if let Some(program) = self.record.unchanged.iter().find(changes) {
            let reason = format!(
                "{program} or what it loads is changed by the same command, and it runs only as it was when the run began"
            );
            return Err(Denial::new(reason).by("G7"));
        }
        let form = Form { decided: decided.clone(), shell: self.record.shell };
        let start_as = form.start(self.rules.root());
        let record = &self.record;
        Ok(Approved {
            plan: CommandPlan {
                directory: start,
                start: start_as,
                form: self.record.placed.then(|| Arc::new(form)),
                profile: self.profile(),
                named: record.named.clone(),
                isolation: if record.writes { record.isolation.max(Isolation::Waivable) } else { record.isolation },
                programs: record.programs.clone(),
                unchanged: record.unchanged.clone(),
            },
            effects: record.effects.clone(),
            rules: record.rules.clone(),
            parsed,
            decided,
        })
    }

    /// Returns what the kernel is to allow: what the decision names, and no more.
    fn profile(&self) -> SandboxProfile {
        let record = &self.record;
        let uses_git = record.programs.iter().any(|name| name.rsplit('/').next() == Some("git"));
        let builds = record.open_ended && record.writes;
        SandboxProfile {
            tree: if record.writes { TreeAccess::Writable } else { TreeAccess::ReadOnly },
            network: if record.open_ended { self.rules.network() } else { Network::None },
            git: match (record.writes_git || builds, record.open_ended || uses_git) {
                (true, _) => GitAccess::Scratch,
                (false, true) => GitAccess::ReadOnly,
                (false, false) => GitAccess::None,
            },
        }
    }

    pub(super) fn effect(&mut self, line: String) {
        if !self.record.effects.contains(&line) {
            self.record.effects.push(line);
        }
    }

    pub(super) fn count(&mut self) -> Result<(), Denial> {
        self.commands += 1;
        if self.commands > COMMANDS_CAP {
            return Err(Denial::unanalysable(format!("it runs more than {COMMANDS_CAP} commands")));
        }
        Ok(())
    }

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
        for (pipe, command) in &pipeline.rest {
            let (command, _) = self.isolated(|judge| judge.command(command, start, Stdin::Pipe))?;
            rest.push((*pipe, command));
        }
        Ok((Pipeline { time: pipeline.time, negated: pipeline.negated, first, rest }, Outcome::stays(start)))
    }

    /// Judges what runs in a shell process of its own: neither its `cd` nor its loops reach out of it.
    fn isolated<T>(&mut self, judge: impl FnOnce(&mut Self) -> Result<T, Denial>) -> Result<T, Denial> {
        let loops = std::mem::take(&mut self.loops);
        let reached = self.reached.len();
        let result = judge(self);
        self.loops = loops;
        self.reached.truncate(reached);
        result
    }

    /// Judges the inside of a substitution.
    pub(super) fn nested(&mut self, script: &Script, folders: &[RelPath], stdin: Stdin) -> Result<Script, Denial> {
        self.record.shell = true;
        Ok(self.isolated(|judge| judge.script(script, folders, stdin))?.0)
    }

    /// Judges the text of `sh -c` and returns it as a word.
    pub(super) fn text(&mut self, text: &str, folders: &[RelPath], stdin: Stdin) -> Result<Field, Denial> {
        let script = parse(text)?;
        if script.statements.is_empty() {
            return Err(Denial::new("the command is empty").by("G1"));
        }
        let variables = std::mem::take(&mut self.variables);
        let (shell, placed) = (self.record.shell, std::mem::take(&mut self.record.placed));
        let result = self.isolated(|judge| judge.script(&script, folders, stdin));
        self.variables = variables;
        self.record.shell = shell;
        let (script, is_placed) = (result?.0, self.record.placed);
        self.record.placed |= placed;
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
            Kind::Case { subject, arms } => {
                let place = Place { folders: start, stdin: inner, output: false, process: false };
                let subject = self.unsplit(subject, place)?.shown;
                let mut outcome = Outcome::stays(start);
                let mut decided = Vec::new();
                for arm in arms {
                    let mut patterns = Vec::new();
                    for pattern in &arm.patterns {
                        patterns.push(self.pattern(pattern, place)?);
                    }
                    let (body, after) = self.script(&arm.body, start, inner)?;
                    outcome = Outcome {
                        success: union(&outcome.success, &after.success),
                        failure: union(&outcome.failure, &after.failure),
                    };
                    decided.push(Arm { patterns, body });
                }
                (Kind::Case { subject, arms: decided }, outcome)
            }
            Kind::Test(test) => {
                self.count()?;
                self.record.shell = true;
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
            outcome = Outcome {
                success: union(&outcome.success, &end.success),
                failure: union(&outcome.failure, &end.failure),
            };
            folders = after.failure;
            decided.push((condition, body));
        }
        let otherwise = match otherwise {
            Some(body) => {
                let (body, end) = self.script(body, &folders, stdin)?;
                outcome = Outcome {
                    success: union(&outcome.success, &end.success),
                    failure: union(&outcome.failure, &end.failure),
                };
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

    pub(super) fn checked(&mut self, effect: &Effect, folders: &[RelPath]) -> Result<(), Denial> {
        self.rules.check(effect, folders)?;
        if let Effect::Write(path) | Effect::WriteTree(path) | Effect::Delete(path) | Effect::DeleteTree(path) = effect
        {
            let root = self.rules.root();
            let below = |folder: &RelPath| RelPath::below(root, Path::new(path)).or_else(|| folder.join(path));
            self.record.written.extend(folders.iter().filter_map(below));
        }
        self.effect(effect_line(effect));
        Ok(())
    }

    /// Judges a look at whether a file is there.
    pub(super) fn probed(&mut self, path: &str, folders: &[RelPath]) -> Result<(), Denial> {
        if path.is_empty() || path == "/dev/null" {
            return Ok(());
        }
        self.rules.check(&Effect::List(path.to_owned()), folders)
    }
}

/// Returns the words of a command that needs no shell, for a workspace that is seen at `root`.
pub(super) fn literal_pipeline(script: &Script, shell: bool, root: &str) -> Option<Vec<Vec<String>>> {
    let [AndOr { first: pipeline, rest }] = script.statements.as_slice() else { return None };
    if shell || !rest.is_empty() || pipeline.negated || pipeline.time.is_some() {
        return None;
    }
    let words_of = |command: &Command| match &command.kind {
        Kind::Simple(simple) if simple.assignments.is_empty() && command.redirections.is_empty() => {
            simple.words.iter().map(|word| word.text_at(root)).collect::<Option<Vec<_>>>()
        }
        _ => None,
    };
    let mut words = vec![words_of(&pipeline.first)?];
    for (pipe, command) in &pipeline.rest {
        match pipe {
            Pipe::Output => words.push(words_of(command)?),
            Pipe::OutputAndErrors => return None,
        }
    }
    Some(words)
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

/// Writes an effect as a line for people.
pub(super) fn effect_line(effect: &Effect) -> String {
    match effect {
        Effect::Read(path) => format!("read {path}"),
        Effect::ReadTree { path, .. } => format!("read everything below {path}"),
        Effect::List(path) => format!("list {path}"),
        Effect::Write(path) => format!("write {path}"),
        Effect::WriteTree(path) => format!("write anything below {path}"),
        Effect::Delete(path) => format!("delete {path}"),
        Effect::DeleteTree(path) => format!("delete everything below {path}"),
        Effect::Enter(path) => format!("enter {path}"),
    }
}

pub(super) fn line_of<'w>(words: impl Iterator<Item = &'w Word>) -> String {
    words.map(print_word).collect::<Vec<_>>().join(" ")
}

/// The command that does nothing, for redirections without one.
pub(super) fn nothing() -> Simple {
    Simple { assignments: Vec::new(), words: vec![Word::from_text(":")] }
}
