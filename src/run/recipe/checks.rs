//! Runs the commands of recipes and of `--verify`: each is judged once and runs on what is staged; built-in checks need
//! no process.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::agent::invoke::PolicyCheck;
use crate::base::trace::Trace;
use crate::bounded;
use crate::change::diff::text_of;
use crate::change::{Change, Entry};
use crate::event::{Event, VerifyOutcome};
use crate::git::repository::Repository;
use crate::path::RelPath;
use crate::policy::{Access, CommandPlan, Denial, Policy};
use crate::recipe::file::{CheckFile, Expect, Text};
use crate::recipe::params::normalised;
use crate::tool_name::ToolId;
use crate::tools::{CommandReport, CommandRequest, CommandRunner, Variables};
use crate::verify::{self, CheckResult, FEEDBACK_BYTES, shape};
use crate::workspace::Workspace;

use crate::run::error::RecipeError;
use crate::run::recipe::{Active, quoted};
use crate::run::rules::judge::RunPolicyCheck;
use crate::run::runner::Runner;

/// What a recipe's command runs.
#[derive(Debug, Clone)]
pub enum Action {
    /// A process.
    Command(CommandPlan),
    /// `qwen check repeat`: a process, several times.
    Repeat {
        /// How often.
        times: u32,
        /// The process.
        plan: CommandPlan,
    },
    /// `qwen check changelog`.
    Changelog {
        /// The changelog.
        file: RelPath,
        /// The heading of its new section.
        heading: String,
        /// The commit before the first one that it may name.
        since: String,
    },
    /// `qwen check markdown-shape`.
    Shape {
        /// The source page.
        source: RelPath,
        /// Its translation.
        target: RelPath,
    },
}

/// The result of an action.
#[derive(Debug, Clone, Default)]
pub struct Done {
    /// The exit code; `None` when a signal or the time ended it.
    pub exit_code: Option<i32>,
    /// Standard output and error.
    pub output: String,
    /// Whether the time ran out.
    pub timed_out: bool,
}

/// The files that built-in checks read.
pub struct Place<'a> {
    /// The staged view.
    pub workspace: &'a Workspace,
    /// The repository.
    pub repository: Option<&'a Repository>,
}

/// Returns what the words of a recipe's command run. The policy alone decides; built-in checks of documents are always
/// allowed, and for `qwen check repeat … -- COMMAND` the command is judged.
pub fn action(words: &[String], folder: Option<&str>, judge: &dyn PolicyCheck) -> Result<Action, Denial> {
    let texts: Vec<&str> = words.iter().map(String::as_str).collect();
    let ["qwen", "check", name @ ("changelog" | "markdown-shape" | "repeat"), rest @ ..] = texts.as_slice() else {
        return Ok(Action::Command(plan(&texts, folder, judge)?));
    };
    let end = if *name == "repeat" { rest.iter().position(|word| *word == "--") } else { None };
    let (own, command) = rest.split_at(end.unwrap_or(rest.len()));
    let (options, files) = options(name, own)?;
    let value = |option: &str| {
        let found = options.get(option).copied();
        found.ok_or_else(|| Denial::new(format!("`qwen check {name}` needs {option}=…")))
    };
    match *name {
        "changelog" => {
            let since = value("--since")?;
            if since.starts_with('-') {
                return Err(Denial::new(format!("`{since}` is not a revision")));
            }
            let file = readable(in_workspace(value("--file")?)?, judge)?;
            Ok(Action::Changelog { file, heading: value("--heading")?.to_owned(), since: since.to_owned() })
        }
        "markdown-shape" => {
            let [source, target] = <[RelPath; 2]>::try_from(files)
                .map_err(|_| Denial::new("`qwen check markdown-shape` takes a SOURCE and a TARGET"))?;
            Ok(Action::Shape { source: readable(source, judge)?, target: readable(target, judge)? })
        }
        _ => {
            let times = options.get("--times").copied().unwrap_or("10");
            let number = times.parse().ok().filter(|times| (1..=1000).contains(times));
            let times = number.ok_or_else(|| Denial::new(format!("--times={times} is not 1 to 1000")))?;
            let [_, command @ ..] = command else {
                return Err(Denial::new("`qwen check repeat` without `-- COMMAND`").by("G4"));
            };
            Ok(Action::Repeat { times, plan: plan(command, folder, judge)? })
        }
    }
}

/// Reads the words of a built-in check: its options, and the files of `markdown-shape`.
fn options<'a>(name: &str, words: &[&'a str]) -> Result<(BTreeMap<&'a str, &'a str>, Vec<RelPath>), Denial> {
    let unknown = |word: &str| Denial::new(format!("`qwen check {name}` has no option `{word}`"));
    let known: &[&str] = match name {
        "changelog" => &["--file", "--heading", "--since"],
        "repeat" => &["--times"],
        _ => &[],
    };
    let (mut options, mut files) = (BTreeMap::new(), Vec::new());
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        match word.split_once('=').unwrap_or((word, "")) {
            ("--summary", "") if name == "repeat" => {}
            (option, _) if option.starts_with("--") && !known.contains(&option) => return Err(unknown(word)),
            (option, value) if option.starts_with("--") => {
                let value = if word.contains('=') { Some(value) } else { words.next() };
                let value = value.filter(|value| !value.is_empty());
                options.insert(option, value.ok_or_else(|| Denial::new(format!("{option} needs a value")))?);
            }
            _ if name == "markdown-shape" => files.push(in_workspace(word)?),
            _ => return Err(unknown(word)),
        }
    }
    Ok((options, files))
}

fn in_workspace(text: &str) -> Result<RelPath, Denial> {
    normalised(text).ok_or_else(|| Denial::new(format!("`{text}` is not a path in the workspace")))
}

/// Built-in checks read files under the policy's rules.
fn readable(path: RelPath, judge: &dyn PolicyCheck) -> Result<RelPath, Denial> {
    let access = Access::Read { path: path.as_path().to_path_buf() };
    match judge.authorize(ToolId::ReadFile.name(), &[access]) {
        (_, Some(_)) => Ok(path),
        (decision, None) => Err(Denial { rule: decision.rule, hint: decision.hint, ..Denial::new(decision.reason) }),
    }
}

fn plan(words: &[&str], folder: Option<&str>, judge: &dyn PolicyCheck) -> Result<CommandPlan, Denial> {
    let command = words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    let access = Access::Run { command, directory: folder.map(Into::into) };
    let (decision, grant) = judge.authorize(ToolId::RunShellCommand.name(), &[access]);
    match grant.as_ref().and_then(|grant| grant.command()) {
        Some(plan) => Ok(plan.clone()),
        None => Err(Denial { rule: decision.rule, hint: decision.hint, ..Denial::new(decision.reason) }),
    }
}

impl Action {
    /// Runs the action on the staged state.
    pub async fn perform(
        &self,
        runner: &dyn CommandRunner,
        place: &Place<'_>,
        timeout: Duration,
        variables: &Variables,
    ) -> Done {
        match self {
            Action::Command(plan) => command(plan, runner, timeout, variables).await,
            Action::Repeat { times, plan } => repeat(*times, plan, runner, timeout, variables).await,
            Action::Shape { source, target } => match (text(place.workspace, source), text(place.workspace, target)) {
                (Ok(source), Ok(target)) => verdict(shape::differences(&source, &target)),
                (Err(problem), _) | (_, Err(problem)) => verdict(vec![problem]),
            },
            Action::Changelog { file, heading, since } => {
                let after = match text(place.workspace, file) {
                    Ok(after) => after,
                    Err(problem) => return verdict(vec![problem]),
                };
                let before = match place.workspace.changes().get(file) {
                    Some(change) => String::from_utf8_lossy(text_of(&change.before)).into_owned(),
                    None => after.clone(),
                };
                match commits(place.repository, since) {
                    Ok(commits) => verdict(shape::changelog(&before, &after, heading, &commits)),
                    Err(problem) => Done { exit_code: Some(2), output: problem, timed_out: false },
                }
            }
        }
    }
}

/// Returns the commits from a revision to HEAD.
pub fn commits(repository: Option<&Repository>, since: &str) -> Result<Vec<String>, String> {
    let repository = repository.ok_or("not in a git repository")?;
    let range = format!("{since}..HEAD");
    let listed =
        repository.git().run(&["rev-list", "--end-of-options", &range], b"").map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&listed).lines().map(str::to_owned).collect())
}

fn verdict(problems: Vec<String>) -> Done {
    let exit_code = Some(i32::from(!problems.is_empty()));
    Done { exit_code, output: problems.into_iter().map(|problem| problem + "\n").collect(), timed_out: false }
}

/// Returns the text of a file, or a message if there is none.
fn text(workspace: &Workspace, path: &RelPath) -> Result<String, String> {
    match workspace.entry_within(path, bounded::PRODUCT) {
        Ok(Entry::File { content, .. }) => Ok(String::from_utf8_lossy(&content).into_owned()),
        Ok(Entry::Absent) => Err(format!("{path} does not exist")),
        Ok(Entry::Link { .. }) => Err(format!("{path} is a link")),
        Err(error) => Err(error.to_string()),
    }
}

/// Renders the variables of a command. Those that the policy does not pass to commands end the run.
pub fn variables(
    env: Option<&BTreeMap<String, Text>>,
    active: &Active,
    policy: &Policy,
    what: &str,
) -> Result<Variables, RecipeError> {
    let mut variables = Variables::default();
    for (name, text) in env.into_iter().flatten() {
        if !policy.passes_variable(name) {
            return Err(active.not_granted(
                &text.place,
                format!("the policy does not allow `{what}` to set the variable {name}"),
                format!("allow it with this line: shell: {{env: {{pass: [{name}]}}}}"),
            ));
        }
        variables.0.insert(name.clone(), active.text(text)?);
    }
    Ok(variables)
}

/// Runs a command several times; one failure is a failure.
async fn repeat(
    times: u32,
    plan: &CommandPlan,
    runner: &dyn CommandRunner,
    timeout: Duration,
    variables: &Variables,
) -> Done {
    let deadline = Instant::now() + timeout;
    let (mut codes, mut failures, mut output) = (String::new(), 0, String::new());
    for number in 1..=times {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Done { exit_code: None, output, timed_out: true };
        }
        let done = command(plan, runner, left, variables).await;
        let passed = done.exit_code == Some(0);
        codes.push(if passed { '.' } else { 'F' });
        if !passed {
            failures += 1;
            if failures <= 3 {
                let tail = verify::middle_cut(&done.output, 4_000);
                let how = match done.exit_code {
                    Some(code) => format!("exit code {code}"),
                    None => "no exit code".to_owned(),
                };
                output.push_str(&format!("--- run {number}, {how} ---\n{tail}\n"));
            }
        }
    }
    let summary = format!("{times} runs, {failures} failed: {codes}\n{output}");
    Done { exit_code: Some(i32::from(failures > 0)), output: summary, timed_out: false }
}

async fn command(plan: &CommandPlan, runner: &dyn CommandRunner, timeout: Duration, variables: &Variables) -> Done {
    let request = CommandRequest { timeout, background: false, variables: variables.clone() };
    match runner.run(plan, request).await {
        Ok(report) => Done { exit_code: report.exit_code, output: output(&report), timed_out: report.timed_out },
        // A check that cannot be run has not passed.
        Err(error) => Done {
            exit_code: None,
            output: format!("the command could not be run: {}", error.message),
            timed_out: false,
        },
    }
}

fn output(report: &CommandReport) -> String {
    let mut output = String::from_utf8_lossy(&report.stdout).into_owned();
    if !output.is_empty() && !output.ends_with('\n') {
        output.push('\n');
    }
    output.push_str(&String::from_utf8_lossy(&report.stderr));
    output
}

/// A check that was parsed and may run.
pub struct Check {
    pub(super) name: String,
    pub(super) command: String,
    pub(super) action: Action,
    pub(super) expect_failure: bool,
    pub(super) repeat: u32,
    pub(super) timeout: Option<Duration>,
    pub(super) feedback_bytes: usize,
    pub(super) on_base: bool,
    pub(super) variables: Variables,
}

impl Check {
    /// Parses a command of the operator: it grants exactly its own words; deny rules of the policy still apply. What
    /// this machine cannot isolate is refused here, before any request.
    pub fn parse(command: &str, policy: &Policy, judge: &RunPolicyCheck<'_>) -> Result<Check, Denial> {
        let plan = policy.operator_command(command, &judge.facts)?;
        judge.contained(&plan)?;
        Ok(Check {
            name: command.to_owned(),
            command: command.to_owned(),
            action: Action::Command(plan),
            expect_failure: false,
            repeat: 1,
            timeout: None,
            feedback_bytes: FEEDBACK_BYTES,
            on_base: false,
            variables: Variables::default(),
        })
    }

    /// Judges a recipe's check after rendering its words.
    pub fn of_recipe(
        check: &CheckFile,
        words: &[String],
        cwd: Option<&str>,
        judge: &dyn PolicyCheck,
    ) -> Result<Check, Denial> {
        Ok(Check {
            name: check.name.value.clone(),
            command: words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
            action: action(words, cwd, judge)?,
            expect_failure: check.expect == Some(Expect::Fail),
            repeat: check.repeat.unwrap_or(1),
            timeout: check.timeout.map(|time| time.0),
            feedback_bytes: check.feedback_bytes.unwrap_or(FEEDBACK_BYTES),
            on_base: check.tree.is_some(),
            variables: Variables::default(),
        })
    }

    /// Gives its command variables.
    #[must_use]
    pub fn with(self, variables: Variables) -> Check {
        Check { variables, ..self }
    }
}

/// The environment in which checks run.
pub struct CheckEnvironment<'a> {
    /// Runs commands on the staged state.
    pub runner: &'a Runner,
    /// Runs commands on the unchanged tree.
    pub base: Option<&'a Runner>,
    /// The files.
    pub place: Place<'a>,
    /// The default timeout of a check.
    pub timeout: Duration,
    /// The trace that checks are a part of.
    pub trace: Option<&'a Trace>,
}

impl CheckEnvironment<'_> {
    /// Begins a command, and returns the variables that name its span. Every command that begins is [reported](Self::report),
    /// in the same order.
    pub fn begin(&self) -> Variables {
        let context = self.trace.map(|trace| trace.context(trace.begin_check()));
        context.as_ref().map(Variables::traced).unwrap_or_default()
    }

    /// Performs an action on the staged change: what the model's commands, or others of the operator, have left beside it
    /// or in the home counts for none. What it printed is masked as a whole, before a part of it is shown.
    pub async fn perform(&self, action: &Action, runner: &Runner, timeout: Duration, variables: &Variables) -> Done {
        let not_run = |output: String| Done { exit_code: None, output, timed_out: false };
        let _home = match runner.empty_home() {
            Ok(home) => home,
            Err(error) => return not_run(format!("cannot make an empty home directory for the command: {error}")),
        };
        if let Err(error) = runner.before_check().await {
            return not_run(error.message);
        }
        let done = action.perform(runner, &self.place, timeout, variables).await;
        if let Err(error) = runner.after_check().await {
            return not_run(error.message);
        }
        Done { output: self.place.workspace.masked(done.output), ..done }
    }

    /// Performs an action that judges the staged change, and keeps nothing of what it writes. Returns also which files it
    /// changed or removed that were there.
    pub async fn perform_check(
        &self,
        action: &Action,
        runner: &Runner,
        timeout: Duration,
        variables: &Variables,
    ) -> (Done, Vec<RelPath>) {
        let workspace = runner.workspace();
        let staged = workspace.changes();
        let done = self.perform(action, runner, timeout, variables).await;
        let after = workspace.changes();
        workspace.take_back(staged.clone());
        let _of_the_check = workspace.take_refusals();
        if let Err(error) = runner.show_staged().await {
            return (Done { exit_code: None, output: error.message, timed_out: false }, Vec::new());
        }
        let was_there = |path: &RelPath, change: &Change| match staged.get(path) {
            Some(earlier) => earlier.after != Entry::Absent && earlier.after != change.after,
            None => change.before != Entry::Absent,
        };
        let changed = after.iter().filter(|(path, change)| was_there(path, change)).map(|(path, _)| path.clone());
        let unchanged_again = staged.iter().filter(|(path, _)| after.get(path).is_none()).map(|(path, _)| path.clone());
        (done, changed.chain(unchanged_again).collect())
    }

    /// Reports how a command ended that began at this time.
    pub fn report(
        &self,
        result: &CheckResult,
        started: Instant,
        (attempt, attempts): (u32, u32),
        emit: &(dyn Fn(Event) + Send + Sync),
    ) {
        emit(Event::Verify(VerifyOutcome {
            command: result.command.clone(),
            exit_code: result.exit_code,
            attempt,
            attempts,
            duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            output_tail: verify::tail(&result.output, &self.runner.seen_root()),
            passed: result.passed(),
        }));
    }
}
