//! Defines the ending that every error becomes.

use crate::agent::Stopped;
use crate::base::CliError;
use crate::event::{RunError, RunFinished};
use crate::exit::Exit;

/// Why a run ends before or besides the model's work.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// What happened.
    pub error: Box<RunError>,
}

impl Failure {
    /// Reports a panic as an internal error.
    pub fn internal(panic: &(dyn std::any::Any + Send)) -> Failure {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        super::setup::SetupError::Bug(text).into()
    }

    /// Says what became of interrupted deliveries and undoings before it.
    pub fn after(mut self, taken_back: &[String]) -> Failure {
        for told in taken_back {
            self.error.message.push_str(&format!("; before that, {told}"));
        }
        self
    }

    /// Masks secrets in what it says.
    pub fn masked(mut self, hide: &dyn Fn(&str) -> String) -> Failure {
        self.error.message = hide(&self.error.message);
        self.error.hint = self.error.hint.as_deref().map(hide);
        self
    }

    /// Reports a product of the run that cannot be written.
    pub fn output(problem: String) -> Failure {
        Failure { exit: Exit::Failed, error: Box::new(RunError::output(problem)) }
    }
}

impl<E: CliError> From<E> for Failure {
    fn from(error: E) -> Failure {
        let exit = error.exit();
        let error = RunError {
            code: error.code().to_owned(),
            message: error.to_string(),
            hint: error.hint().map(|hint| hint.into_owned()).filter(|hint| !hint.is_empty()),
            retryable: exit == Exit::Unavailable,
            budget: None,
        };
        Failure { exit, error: Box::new(error) }
    }
}

impl From<Stopped> for Failure {
    fn from(stopped: Stopped) -> Failure {
        Failure { exit: stopped.exit, error: stopped.error }
    }
}

impl From<Failure> for RunFinished {
    fn from(failure: Failure) -> RunFinished {
        RunFinished::failed(failure.exit, *failure.error)
    }
}
