//! Defines why a recipe does not run.

use std::borrow::Cow;

use crate::base::{CliError, Code, Diagnostic};
use crate::exit::Exit;
use crate::git::trusted::TrustedError;
use crate::policy::layers::LayerError;

/// Why a recipe does not run.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// It is wrong, or its parameters are.
    #[error("{}", lines(.0))]
    Wrong(Vec<Diagnostic>),
    /// It needs what the policy does not grant.
    #[error("{}", lines(.0))]
    NotGranted(Vec<Diagnostic>),
    /// Parameters of no recipe.
    #[error("--param without --recipe")]
    ParamsAlone,
    /// Several want standard input.
    #[error("only one parameter can read standard input")]
    StandardInputTwice,
    /// Standard input cannot be read.
    #[error("standard input: {0}")]
    StandardInput(std::io::Error),
    /// The file of parameters cannot be read.
    #[error("--params-file {path}: {why}")]
    ParamsFile {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
    /// The file of parameters is wrong.
    #[error("{0}")]
    Params(String),
    /// Its needs make no layer of a policy.
    #[error("R005: {file}: `needs`: {cause}")]
    Needs {
        /// The recipe.
        file: String,
        /// The cause.
        cause: Box<LayerError>,
    },
    /// The commit that a hook reads recipes from cannot be read.
    #[error("{0}")]
    Head(TrustedError),
    /// It delivers to a branch and names none.
    #[error("R005: `git.changes: branch` needs `git.branch`")]
    NoBranch,
    /// The system gives no random bytes for the tags of fences.
    #[error("cannot get random numbers from the system: {0}")]
    Random(getrandom::Error),
}

fn lines(errors: &[Diagnostic]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

impl CliError for RecipeError {
    fn exit(&self) -> Exit {
        match self {
            RecipeError::ParamsAlone | RecipeError::StandardInputTwice => Exit::Usage,
            RecipeError::NotGranted(_) => Exit::Denied,
            RecipeError::Random(_) => Exit::Failed,
            RecipeError::Head(_) => Exit::Config,
            RecipeError::Wrong(_)
            | RecipeError::StandardInput(_)
            | RecipeError::ParamsFile { .. }
            | RecipeError::Params(_)
            | RecipeError::Needs { .. }
            | RecipeError::NoBranch => Exit::Input,
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        let of_parameters =
            |error: &Diagnostic| matches!(error.code, Some(Code::P001 | Code::P002 | Code::P003 | Code::P004));
        Some(Cow::Borrowed(match self {
            RecipeError::Wrong(errors) if errors.iter().all(of_parameters) => {
                "run `qwen recipe show NAME` to see the parameters"
            }
            RecipeError::Wrong(_) | RecipeError::NotGranted(_) => "see `qwen help recipes` for each code",
            RecipeError::ParamsAlone => "name the recipe with --recipe",
            RecipeError::StandardInputTwice => "give a file to the others",
            RecipeError::StandardInput(_) | RecipeError::Random(_) => return None,
            RecipeError::ParamsFile { .. } => "name a file of JSON or YAML",
            RecipeError::Params(_) => "write one key for each parameter",
            RecipeError::Needs { .. } => "correct the globs",
            RecipeError::Head(_) => "run `git status` there and correct what it reports",
            RecipeError::NoBranch => "name the branch in the recipe, or with --branch",
        }))
    }

    fn code(&self) -> &'static str {
        // A need that is not granted ends as a denial, and its code is that of every fault of a recipe.
        if matches!(self, RecipeError::NotGranted(_)) { Exit::Input.name() } else { self.exit().name() }
    }
}
