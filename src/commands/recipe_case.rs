//! Prepares the project of a recipe's test case, and judges what a run made of it.
//!
//! A fixture is a directory: `base/` is committed, `commit/` on top of it as a second commit, `staged/` is added to the
//! index, `worktree/` is only written; `policy.yaml` is the policy, else `builtin:ci-dev`; `hidden/` is laid over the
//! changed tree after the run, for the checks of `expect`. Everything happens in a temporary copy with fixed names and
//! dates.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

use super::recipe_fixture::{CaseError, Surroundings, at};
use crate::cli::RunArgs;
use crate::emit::{Format, Screen};
use crate::exit::Exit;
use crate::git::{Git, Programs};
use crate::recipe::cases::{TestCase, TestCheck};
use crate::recipe::expected;
use crate::recipe::file::{Given, Text};
use crate::run::Failure;
use crate::run::output::outputs::Streams;
use crate::run::place::Place;
use crate::run::recipe::checks::{self, Action};
use crate::run::recipe::quoted;
use crate::run::rules::judge::RunPolicyCheck;
use crate::run::runner::{Runner, RunnerOptions};
use crate::run::stages::modes::demand;
use crate::sandbox::Demand;
use crate::settings::Environment;
use crate::tools::Variables;
use crate::verify::middle_cut;
use crate::workspace::temporary::Temporary;
use crate::workspace::temporary_files;

/// Variables that a test may see: what toolchains need.
const KEPT: [&str; 5] = ["PATH", "TMPDIR", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"];

/// What names a model, its server and the key: nothing else of ours, such as the tokens of CI, is for a test.
const OF_MODEL: [&str; 8] = [
    "QWEN_MODEL",
    "QWEN_BASE_URL",
    "QWEN_API_KEY",
    "OPENAI_MODEL",
    "OPENAI_BASE_URL",
    "OPENAI_API_KEY",
    "DASHSCOPE_API_KEY",
    "BAILIAN_CODING_PLAN_API_KEY",
];

/// Tells whether a variable is for a test with a model.
fn is_of_model(name: &str) -> bool {
    OF_MODEL.contains(&name) || name.to_ascii_uppercase().ends_with("_PROXY")
}

/// What a command of `checks` may take.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Bytes of a failed command's output that a message shows.
const SHOWN: usize = 2_000;

/// The project of one run of a test case.
pub(super) struct CaseProject {
    temporary: Temporary,
    fixture: PathBuf,
    policy: String,
    /// Programs outside the checkout that the recipe is in.
    programs: Programs,
}

impl CaseProject {
    /// Makes the project of a case from its fixture, a directory.
    pub(super) fn make(fixture: PathBuf, around: &Surroundings) -> Result<CaseProject, CaseError> {
        if !fixture.is_dir() {
            return Err(CaseError::NoFixture(fixture.display().to_string()));
        }
        let temporary = Temporary::new("recipe-").map_err(at(&std::env::temp_dir()))?;
        let policy = around.policy(&fixture, &temporary.path().join("policy.yaml"))?;
        let project = CaseProject { temporary, fixture, policy, programs: around.programs.clone() };
        let directory = project.directory();
        std::fs::create_dir(&directory).map_err(at(&directory))?;
        project.fill()?;
        Ok(project)
    }

    fn directory(&self) -> PathBuf {
        self.temporary.path().join("project")
    }

    fn git(&self) -> Git {
        Git::with(&self.programs, &self.directory())
            .with_filters_off()
            .config("user.name", "Fixture")
            .config("user.email", "fixture@example.com")
            .config("commit.gpgsign", "false")
            .config("init.defaultBranch", "main")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_AUTHOR_DATE", "2026-01-01T00:00:00Z")
            .env("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z")
    }

    /// Fills the project: the fixture's layers, committed, staged or written.
    fn fill(&self) -> Result<(), CaseError> {
        let git = |arguments: &[&str]| self.git().run(arguments, b"").map(drop);
        git(&["init", "-q"])?;
        self.layer("base")?;
        git(&["add", "-A"])?;
        git(&["commit", "-q", "--allow-empty", "-m", "Start"])?;
        git(&["tag", "v0"])?;
        if self.layer("commit")? {
            git(&["add", "-A"])?;
            git(&["commit", "-q", "-m", "Change what the fixture changes"])?;
        }
        if self.layer("staged")? {
            git(&["add", "-A"])?;
        }
        self.layer("worktree").map(drop)
    }

    /// Copies a part of the fixture over the project, if there is one.
    fn layer(&self, name: &str) -> Result<bool, CaseError> {
        let directory = self.fixture.join(name);
        if !directory.is_dir() {
            return Ok(false);
        }
        // A repository in it would configure the git that is called here.
        let names = std::fs::read_dir(&directory).map_err(at(&directory))?;
        let repository = names.flatten().find(|entry| entry.file_name().eq_ignore_ascii_case(".git"));
        if let Some(repository) = repository {
            return Err(CaseError::Repository(repository.path()));
        }
        temporary_files::copy(&directory, &self.directory()).map_err(at(&directory)).map(|()| true)
    }

    /// Returns the arguments of a run of a recipe on this project; which model answers is for the caller to say.
    pub(super) fn arguments(&self, recipe: &Path, case: &TestCase) -> RunArgs {
        let mut arguments = RunArgs::default();
        arguments.input.recipe = Some(recipe.display().to_string());
        arguments.input.workspace.cd = Some(self.directory());
        arguments.input.no_stdin = true;
        arguments.context.bare = true;
        arguments.changes.dry_run = true;
        arguments.output.output_format = Some(Format::Result);
        arguments.policy.policy = Some(self.policy.clone());
        for (name, given) in case.params.iter().flatten() {
            let texts = match given {
                Given::One(text) => std::slice::from_ref(text),
                Given::Many(texts) => texts,
            };
            // A value is used unchanged, whatever it begins with.
            let flag =
                |text: &str| if text.starts_with('@') { format!("{name}=@{text}") } else { format!("{name}={text}") };
            arguments.input.params.extend(texts.iter().map(|text| flag(text.as_str())));
        }
        arguments
    }

    /// Returns an environment in which a test says the same on every machine: no settings of the user's, but his
    /// toolchains. With a model, what names it and its key, too.
    pub(super) fn environment(&self, environment: &Environment, with_model: bool) -> Environment {
        let mut quiet = environment.clone();
        for (name, below) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            if let Some(home) = &environment.home
                && !quiet.variables.contains_key(name)
            {
                quiet.variables.insert(name.to_owned(), home.join(below).display().to_string());
            }
        }
        quiet.variables.retain(|name, _| KEPT.contains(&name.as_str()) || with_model && is_of_model(name));
        quiet.additional.retain(|name, _| with_model && is_of_model(name));
        let path = self.programs.path_variable().to_string_lossy().into_owned();
        quiet.variables.insert("PATH".to_owned(), path);
        let home = self.temporary.path().join("home");
        quiet.variables.insert("HOME".to_owned(), home.display().to_string());
        quiet.home = Some(home);
        quiet
    }

    /// Runs a recipe on this project, and returns the exit code with the result object.
    pub(super) async fn run(&self, arguments: &RunArgs, environment: &Environment) -> Result<(Exit, Value), CaseError> {
        let output = Collected::default();
        let streams = Streams {
            backlogs: Vec::new(),
            stdout: Box::new(output.clone()),
            stdout_is_terminal: false,
            stderr: Screen::Plain(Box::new(std::io::sink())),
            stderr_is_terminal: false,
        };
        let exit = Box::pin(crate::run::run(arguments, environment, streams)).await;
        Ok((exit, serde_json::from_slice(&output.text()).map_err(CaseError::Result)?))
    }

    /// Returns each way in which a run is not as expected. Its change is made here, if commands are to look at it.
    pub(super) async fn judge(
        &self,
        case: &TestCase,
        exit_code: u8,
        result: &Value,
        environment: &Environment,
    ) -> Result<Vec<String>, CaseError> {
        let expect = case.expect.clone().unwrap_or_default();
        let mut problems = expected::problems(&expect, exit_code, result);
        let checks = expect.checks.unwrap_or_default();
        if !checks.is_empty() {
            let patch = result["changes"]["patch"].as_str().unwrap_or_default();
            if !patch.is_empty() {
                self.git().run(&["apply", "--whitespace=nowarn", "-"], patch.as_bytes())?;
            }
            self.layer("hidden")?;
            problems.extend(self.check(&checks, environment).await.map_err(CaseError::Checks)?);
        }
        // The policy was copied, and the copy is gone when this is read.
        let path = |directory: &Path| directory.join("policy.yaml").display().to_string();
        let (copy, own) = (path(self.temporary.path()), path(&self.fixture));
        Ok(problems.iter().map(|problem| problem.replace(&copy, &own)).collect())
    }

    /// Runs commands on the project by the test's policy, and returns what is not as expected.
    async fn check(&self, checks: &[TestCheck], environment: &Environment) -> Result<Vec<String>, Failure> {
        let place = Place::open(Some(&self.directory()), environment)?;
        let policy = place.policy(Some(&self.policy), false, environment)?.policy;
        let facts = place.facts(environment);
        let demand = demand(&RunArgs::default(), &policy)?;
        let runner = Runner::new(RunnerOptions {
            workspace: Arc::clone(&place.workspace),
            checkout: place.checkout.clone(),
            policy: policy.clone(),
            facts: facts.clone(),
            demand,
            environment: environment.for_programs(),
            helper: std::env::current_exe().map_err(super::error::CheckError::NoProgram)?,
            ignored_outputs: false,
        })
        .map_err(super::error::CommandError::Temporary)?;
        let judge = RunPolicyCheck {
            policy: &policy,
            facts,
            tier: runner.tier(),
            only_isolated: false,
            isolation_off: demand == Demand::Off,
            digest: String::new(),
        };
        let site = checks::Place { workspace: &place.workspace, repository: place.repository() };
        let mut problems = Vec::new();
        for check in checks {
            let words: Vec<String> = check.run.iter().map(|word| word.value.clone()).collect();
            problems.extend(match checks::action(&words, None, &judge) {
                Ok(action) => outcome(check, &action, &runner, &site).await,
                Err(denial) => Some(format!("the test's policy denies `{}`: {}", command(&check.run), denial.reason)),
            });
        }
        runner.end().await;
        Ok(problems)
    }
}

/// Runs a command, and says how it ends if that is not as expected.
async fn outcome(check: &TestCheck, action: &Action, runner: &Runner, site: &checks::Place<'_>) -> Option<String> {
    let wanted = i32::from(check.exit.unwrap_or(0));
    let done = action.perform(runner, site, CHECK_TIMEOUT, &Variables::default()).await;
    if done.exit_code == Some(wanted) {
        return None;
    }
    let how = match done.exit_code {
        Some(code) => format!("ends with {code}, not {wanted}"),
        None if done.timed_out => format!("takes more than {} s", CHECK_TIMEOUT.as_secs()),
        None => "does not end by itself".to_owned(),
    };
    Some(format!("`{}` {how}\n{}", command(&check.run), middle_cut(&done.output, SHOWN)).trim_end().to_owned())
}

fn command(words: &[Text]) -> String {
    words.iter().map(|word| quoted(word.as_str())).collect::<Vec<_>>().join(" ")
}

/// Standard output of a run, kept.
#[derive(Clone, Default)]
pub(super) struct Collected(Arc<Mutex<Vec<u8>>>);

impl Collected {
    /// Returns what was written so far.
    pub(super) fn text(&self) -> Vec<u8> {
        self.0.lock().expect("nothing panics while it holds the output").clone()
    }
}

impl Write for Collected {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("nothing panics while it holds the output").extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_gets_what_names_the_model_and_no_other_variable_of_ours() {
        let passed = |name: &str| KEPT.contains(&name) || is_of_model(name);
        assert!(["QWEN_MODEL", "QWEN_API_KEY", "OPENAI_BASE_URL", "https_proxy", "PATH"].into_iter().all(passed));
        for name in ["QWEN_CI_TOKEN", "QWEN_GIT_TOKEN", "QWEN_POLICY", "QWEN_TRUST_CHECKOUT", "OPENAI_ORGANIZATION"] {
            assert!(!passed(name), "{name}");
        }
    }
}
