//! Holds what both jobs of the Action use.

use super::error::CiError;
use super::inputs::Inputs;
use crate::base::digest::hex;
use crate::bounded;
use crate::emit::github::{Guarded, notice, output};
use crate::exit::Exit;
use crate::github::{GitHub, GitHubError};
use crate::recipe::Recipe;
use crate::run::Failure;
use crate::run::error::PlaceError;
use crate::run::place::Place;
use crate::run::recipe::RecipeContext;
use crate::run::rules::trust::{TrustFlags, Trusted};
use crate::settings::Environment;
use crate::workspace::outputs::{append, stay};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The largest event that is read.
const LARGEST_EVENT: u64 = 64 << 20;

/// What both jobs have.
pub(super) struct Job {
    pub(super) inputs: Inputs,
    /// Without the variables of the Action itself.
    pub(super) environment: Environment,
    /// Outputs of the step, by name.
    pub(super) outputs: Vec<(&'static str, String)>,
}

impl Job {
    /// Returns a variable that the runner sets.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        self.environment.value(name)
    }

    pub(super) fn set(&mut self, name: &'static str, value: impl Into<String>) {
        self.outputs.push((name, value.into()));
    }

    /// Writes the outputs of the step; a later value of a name is the one that counts.
    pub(super) fn write_outputs(&self) -> Result<(), CiError> {
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
    pub(super) fn write_summary(&self, text: &str) -> Result<(), CiError> {
        match self.variable("GITHUB_STEP_SUMMARY").filter(|_| self.inputs.shown.step_summary) {
            Some(file) => self.append("GITHUB_STEP_SUMMARY", Path::new(&file), text),
            None => Ok(()),
        }
    }

    fn append(&self, what: &str, file: &Path, text: &str) -> Result<(), CiError> {
        append(&self.environment.cwd.join(file), text.as_bytes()).map_err(|cause| {
            let (what, path) = (what.to_owned(), file.display().to_string());
            CiError::Append { what, path, cause }
        })
    }

    /// Makes the directory for the files of the step: it outlives the step, so that later steps can hand them on.
    pub(super) fn folder(&self) -> Result<PathBuf, CiError> {
        let above =
            self.variable("RUNNER_TEMP").or_else(|| self.variable("TMPDIR")).unwrap_or_else(|| "/tmp".to_owned());
        stay(&self.environment.cwd.join(&above), "qwen-").map_err(|cause| CiError::Results { path: above, cause })
    }

    /// Reads the event; `None` where it cannot be read, which is the same as an event that says nothing.
    pub(super) fn event(&self) -> Option<serde_json::Value> {
        let path = self.environment.cwd.join(self.variable("GITHUB_EVENT_PATH")?);
        serde_json::from_slice(&bounded::regular(&path, LARGEST_EVENT).ok()?).ok()
    }

    /// Returns the recipe that the inputs name, or the comment by them.
    pub(super) fn named_recipe(&self) -> Option<String> {
        let asked = self.inputs.asked(self.event().as_ref()).unwrap_or_default();
        self.inputs.recipe(&asked).map(str::to_owned)
    }

    /// Returns GitHub's interface for this repository.
    pub(super) fn github(&self) -> Result<GitHub, GitHubError> {
        let api = self.variable("GITHUB_API_URL").unwrap_or_else(|| "https://api.github.com".to_owned());
        let repository = self.variable("GITHUB_REPOSITORY").unwrap_or_default();
        GitHub::new(&api, &repository, self.inputs.token.clone())
    }

    /// Returns the page of this workflow run.
    pub(super) fn run_url(&self) -> Option<String> {
        let (server, repository) = (self.variable("GITHUB_SERVER_URL")?, self.variable("GITHUB_REPOSITORY")?);
        let id = self.variable("GITHUB_RUN_ID").filter(|id| id.bytes().all(|byte| byte.is_ascii_digit()))?;
        Some(format!("{server}/{repository}/actions/runs/{id}"))
    }
}

pub(super) fn without_inputs(environment: &Environment) -> Environment {
    let mut environment = environment.clone();
    environment.variables.retain(|name, _| !name.starts_with("QWEN_CI_"));
    environment
}

/// Returns 32 hexadecimal digits that nobody can guess.
pub(super) fn random_hex() -> Result<String, CiError> {
    let mut bytes = [0_u8; 16];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(hex(&bytes)),
        Err(_) => Err(CiError::NoRandom),
    }
}

/// Prints our own commands and lines. A log that is gone is not a reason to stop.
pub(super) fn say(out: &mut dyn Write, text: &str) {
    let _closed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Prints why a job did not do its work, as an annotation of the job.
pub(super) fn say_failure(out: &mut dyn Write, exit: Exit, message: &str, hint: Option<&str>) {
    let hint = hint.map(|hint| format!("\n{hint}")).unwrap_or_default();
    say(out, &notice("error", &format!("qwen: {}", exit.name()), &format!("{message}{hint}")));
}

/// A stream for foreign text on its way to the runner.
#[derive(Clone)]
pub(super) struct GuardedLog {
    guard: Arc<Mutex<Guarded>>,
}

impl GuardedLog {
    pub(super) fn new() -> Result<GuardedLog, CiError> {
        Ok(GuardedLog { guard: Arc::new(Mutex::new(Guarded::new(random_hex()?))) })
    }

    /// Returns what is left of the log and the end of its guard: from here on commands are obeyed again.
    pub(super) fn end(&self) -> String {
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

/// Finds a recipe as a run of this job does.
pub(super) fn recipe(job: &Job, place: &Place, trusted: &Trusted, word: &str) -> Result<Recipe, Failure> {
    let context = RecipeContext {
        environment: &job.environment,
        top: place.top(),
        root: place.root(),
        repository: place.repository(),
        trusted,
        state: None,
        tree: None,
    };
    Ok(context.find(word)?)
}

/// Opens the directory that a job works in.
pub(super) fn open(inputs: &Inputs, environment: &Environment) -> Result<Place, Failure> {
    Place::open(Some(&inputs.directory_to_work_in), environment).map_err(|error| match error {
        PlaceError::Workspace(error) => CiError::Directory(error).into(),
        PlaceError::Repository(error) => CiError::Repository(error).into(),
        other @ (PlaceError::LinkOut { .. }
        | PlaceError::Temporary { .. }
        | PlaceError::NoState
        | PlaceError::Included { .. }
        | PlaceError::IncludedBySettings { .. }) => other.into(),
    })
}

/// Returns whose files of the checkout count.
pub(super) fn trusted(job: &Job, place: &Place) -> Result<Trusted, Failure> {
    let flags = TrustFlags { trusted_ref: job.inputs.trusted_ref.clone(), trust_checkout: false };
    place.trusted_by(&flags, &job.environment)
}
