//! Defines why an answer, or a check of the change, is not what was asked for.

use std::borrow::Cow;

use crate::base::CliError;
use crate::exit::Exit;

/// Why there is no answer in the requested form.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// The schema cannot be used.
    #[error("the schema of the answer: {0}")]
    Schema(String),
    /// The flag cannot be used.
    #[error("--json-schema: {0}")]
    Flag(String),
    /// The answer still does not fit.
    #[error("the answer does not fit the schema: {0}")]
    Unfit(String),
}

impl CliError for AnswerError {
    fn exit(&self) -> Exit {
        match self {
            AnswerError::Schema(_) | AnswerError::Flag(_) => Exit::Input,
            AnswerError::Unfit(_) => Exit::Schema,
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(match self {
            AnswerError::Schema(_) => "correct the schema",
            AnswerError::Flag(_) => "give a JSON Schema of an object, or @FILE",
            AnswerError::Unfit(_) => "use a stronger model or a simpler schema",
        }))
    }
}

/// Why the checks of a run end it.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// A recipe's check cannot be rendered.
    #[error("verify.checks.{name}: {problem}")]
    Words {
        /// The check.
        name: String,
        /// Why.
        problem: String,
        /// What to do.
        help: Option<String>,
    },
    /// A command of `--verify` cannot be run.
    #[error("--verify '{command}': {reason}")]
    Flag {
        /// The command.
        command: String,
        /// Why not.
        reason: String,
        /// What to do.
        hint: Option<String>,
    },
    /// A check must pass before the run, and fails.
    #[error("check `{0}` already fails on the unchanged tree")]
    BrokenBase(String),
    /// A check must fail before the run, and none does.
    #[error("the checks already pass on the unchanged tree, and the recipe expects a failure")]
    NothingFails,
    /// They still fail.
    #[error(
        "{name} {} after attempt {attempt} of {attempts}{}",
        if *same { "failed in the same way again" } else { "still fails" },
        violation.as_ref().map(|first| format!(": {first}")).unwrap_or_default()
    )]
    StillFails {
        /// What fails.
        name: String,
        /// Whether it failed in the same way before.
        same: bool,
        /// After this attempt.
        attempt: u32,
        /// How many there are.
        attempts: u32,
        /// The first broken rule.
        violation: Option<String>,
    },
}

impl CliError for VerifyError {
    fn exit(&self) -> Exit {
        match self {
            VerifyError::Words { .. } => Exit::Input,
            VerifyError::Flag { .. } => Exit::Usage,
            VerifyError::BrokenBase(_) | VerifyError::NothingFails | VerifyError::StillFails { .. } => Exit::Verify,
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(match self {
            VerifyError::Words { help, .. } => help.as_deref().unwrap_or("correct the parameter"),
            VerifyError::Flag { hint, .. } => {
                hint.as_deref().unwrap_or("write a simpler command, or put it into a script")
            }
            VerifyError::BrokenBase(_) => "repair it first; its output is under verify in the result",
            VerifyError::NothingFails => "correct the check, or leave the run out",
            VerifyError::StillFails { .. } => {
                "see verify in the result for the checks; nothing was delivered, and the result has the patch unless it was discarded"
            }
        }))
    }
}
