//! Runs `qwen ci`: the two jobs of the GitHub Action. One proposes with a model and a key, the other delivers without
//! either.

mod apply;
mod github;
mod inputs;
mod push;
mod trusted_policy;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::bounded;
use crate::cli::ci::CiVerb;
use crate::emit::github::{Guarded, add_mask, notice, output};
use crate::exit::Exit;
use crate::forge::{ForgeError, GitHub};
use crate::git::KEYS;
use crate::run::Failure;
use crate::run::error::PlaceError;
use crate::run::place::Place;
use crate::run::trust::{TrustFlags, Trusted};
use crate::settings::Environment;
use crate::workspace::outputs::{append, stay};
use inputs::Inputs;

/// The largest event that is read.
const LARGEST_EVENT: u64 = 64 << 20;

/// Runs a verb. Everything goes to one stream: a runner reads two without their order.
pub(super) async fn run(verb: CiVerb, environment: &Environment, out: &mut dyn Write) -> Result<Exit, Failure> {
    // Before anything else is said.
    for secret in KEYS.iter().filter_map(|name| environment.variables.get(*name)) {
        say(out, &add_mask(secret));
    }
    let inputs = Inputs::read(environment);
    let mut job = Job { inputs, environment: without_inputs(environment), outputs: Vec::new() };
    match verb {
        CiVerb::Github => github::run(&mut job, out).await,
        CiVerb::Apply => apply::run(&mut job, out).await,
    }
}

/// What both jobs have.
struct Job {
    inputs: Inputs,
    /// Without the variables of the Action itself.
    environment: Environment,
    /// Outputs of the step, by name.
    outputs: Vec<(&'static str, String)>,
}

impl Job {
    /// Returns a variable that the runner sets.
    fn variable(&self, name: &str) -> Option<String> {
        self.environment.value(name)
    }

    fn set(&mut self, name: &'static str, value: impl Into<String>) {
        self.outputs.push((name, value.into()));
    }

    /// Writes the outputs of the step; a later value of a name is the one that counts.
    fn write_outputs(&self) -> Result<(), Failure> {
        let Some(file) = self.variable("GITHUB_OUTPUT") else { return Ok(()) };
        let mut text = String::new();
        for (name, value) in &self.outputs {
            let mut problem = None;
            let mut random = || match random_hex() {
                Ok(random) => random,
                Err(failure) => {
                    problem = Some(failure);
                    String::new()
                }
            };
            let line = output(name, value, &mut random);
            if let Some(problem) = problem {
                return Err(problem);
            }
            text.push_str(&line);
        }
        self.append("GITHUB_OUTPUT", Path::new(&file), &text)
    }

    /// Adds to the summary of the job, unless the input refuses.
    fn write_summary(&self, text: &str) -> Result<(), Failure> {
        match self.variable("GITHUB_STEP_SUMMARY").filter(|_| self.inputs.step_summary) {
            Some(file) => self.append("GITHUB_STEP_SUMMARY", Path::new(&file), text),
            None => Ok(()),
        }
    }

    fn append(&self, what: &str, file: &Path, text: &str) -> Result<(), Failure> {
        append(&self.environment.cwd.join(file), text.as_bytes()).map_err(|error| {
            Failure::new(Exit::Failed, format!("{what} {}: {error}", file.display()), "the runner makes this file")
        })
    }

    /// Makes the directory for the files of the step: it outlives the step, so that later steps can hand them on.
    fn folder(&self) -> Result<PathBuf, Failure> {
        let above =
            self.variable("RUNNER_TEMP").or_else(|| self.variable("TMPDIR")).unwrap_or_else(|| "/tmp".to_owned());
        stay(&self.environment.cwd.join(&above), "qwen-").map_err(|error| {
            Failure::new(
                Exit::Failed,
                format!("cannot make a directory for results in {above}: {error}"),
                "make RUNNER_TEMP writable",
            )
        })
    }

    /// Reads the event; `None` where it cannot be read, which is the same as an event that says nothing.
    fn event(&self) -> Option<serde_json::Value> {
        let path = self.environment.cwd.join(self.variable("GITHUB_EVENT_PATH")?);
        serde_json::from_slice(&bounded::regular(&path, LARGEST_EVENT).ok()?).ok()
    }

    /// Returns GitHub's interface for this repository.
    fn forge(&self) -> Result<GitHub, ForgeError> {
        let api = self.variable("GITHUB_API_URL").unwrap_or_else(|| "https://api.github.com".to_owned());
        let repository = self.variable("GITHUB_REPOSITORY").unwrap_or_default();
        GitHub::new(&api, &repository, self.inputs.token.clone())
    }

    /// Returns the page of this workflow run.
    fn run_url(&self) -> Option<String> {
        let (server, repository) = (self.variable("GITHUB_SERVER_URL")?, self.variable("GITHUB_REPOSITORY")?);
        let id = self.variable("GITHUB_RUN_ID").filter(|id| id.bytes().all(|byte| byte.is_ascii_digit()))?;
        Some(format!("{server}/{repository}/actions/runs/{id}"))
    }
}

fn without_inputs(environment: &Environment) -> Environment {
    let mut environment = environment.clone();
    environment.variables.retain(|name, _| !name.starts_with("QWEN_CI_"));
    environment
}

/// Returns 32 hexadecimal digits that nobody can guess.
fn random_hex() -> Result<String, Failure> {
    let mut bytes = [0_u8; 16];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        Err(_) => Err(Failure::new(Exit::Failed, "random numbers are unavailable", "")),
    }
}

/// Prints our own commands and lines. A log that is gone is not a reason to stop.
fn say(out: &mut dyn Write, text: &str) {
    let _closed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Prints why a job did not do its work, as an annotation of the job.
fn say_failure(out: &mut dyn Write, exit: Exit, message: &str, hint: Option<&str>) {
    let hint = hint.map(|hint| format!("\n{hint}")).unwrap_or_default();
    say(out, &notice("error", &format!("qwen: {}", exit.name()), &format!("{message}{hint}")));
}

/// A stream for foreign text on its way to the runner.
#[derive(Clone)]
struct GuardedLog {
    guard: Arc<Mutex<Guarded>>,
}

impl GuardedLog {
    fn new() -> Result<GuardedLog, Failure> {
        Ok(GuardedLog { guard: Arc::new(Mutex::new(Guarded::new(random_hex()?))) })
    }

    /// Returns what is left of the log and the end of its guard: from here on commands are obeyed again.
    fn end(&self) -> String {
        let mut guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&guard.end()).into_owned()
    }
}

impl Write for GuardedLog {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let safe = self.guard.lock().unwrap_or_else(PoisonError::into_inner).take(bytes);
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(&safe)?;
        stdout.flush()?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Opens the directory that a job works in.
fn open(inputs: &Inputs, environment: &Environment) -> Result<Place, Failure> {
    Place::open(Some(&inputs.directory_to_work_in), environment).map_err(|error| match error {
        PlaceError::Workspace(error) => {
            Failure::new(Exit::Usage, format!("the working directory {error}"), "check out first")
        }
        PlaceError::Repository(error) => {
            let message = format!("the repository cannot be read: {error}");
            Failure::new(Exit::Conflict, message, "check out with actions/checkout")
        }
        other @ (PlaceError::LinkOut { .. }
        | PlaceError::Temporary { .. }
        | PlaceError::NoState
        | PlaceError::Included { .. }) => other.into(),
    })
}

/// Returns whose files of the checkout count.
fn trusted(job: &Job, place: &Place) -> Result<Trusted, Failure> {
    let flags = TrustFlags { trusted_ref: job.inputs.trusted_ref.clone(), trust_checkout: false };
    place.trusted_by(&flags, &job.environment)
}
