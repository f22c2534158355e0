//! Defines why an input of a recipe cannot be gathered.

use std::borrow::Cow;

use crate::base::CliError;
use crate::exit::Exit;

/// Why an input of a recipe cannot be gathered.
#[derive(Debug, thiserror::Error)]
#[error("context.{name}: {problem}")]
pub struct ContextError {
    /// The input.
    pub name: String,
    /// Why.
    pub problem: InputProblem,
}

/// What is wrong with an input.
#[derive(Debug, thiserror::Error)]
pub enum InputProblem {
    /// It is empty, and must not be.
    #[error("it is empty")]
    Empty,
    /// It is too large.
    #[error("{0}")]
    TooLarge(String),
    /// All inputs together are too large.
    #[error("the inputs have more than {0} bytes")]
    TooMuch(usize),
    /// A template cannot be rendered.
    #[error("{problem}")]
    Template {
        /// Why.
        problem: String,
        /// What to do.
        help: String,
    },
    /// The path leads out.
    #[error("`{0}` is not inside the workspace")]
    Outside(String),
    /// A glob is wrong.
    #[error("`{glob}`: {cause}")]
    Glob {
        /// The glob.
        glob: String,
        /// Why.
        cause: globset::Error,
    },
    /// The globs are too many.
    #[error("{0}")]
    Globs(globset::Error),
    /// Its command failed.
    #[error("`{command}` {how}: {tail}")]
    Command {
        /// The command.
        command: String,
        /// How it ended.
        how: String,
        /// The end of its output.
        tail: String,
    },
    /// The file is a link.
    #[error("{0} is a link")]
    Link(String),
    /// The file cannot be read.
    #[error("{0}")]
    Unreadable(crate::workspace::WorkspaceError),
    /// There is no repository.
    #[error("not in a git repository")]
    NoRepository,
    /// GitHub gives no answer.
    #[error("{0}")]
    GitHub(crate::github::GitHubError),
    /// Git shows no change.
    #[error("{0}")]
    Diff(String),
}

impl CliError for ContextError {
    fn exit(&self) -> Exit {
        match &self.problem {
            InputProblem::GitHub(error) if error.lacks_permission() => Exit::Auth,
            InputProblem::GitHub(error) if error.may_pass() => Exit::Unavailable,
            _ => Exit::Input,
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(match &self.problem {
            InputProblem::Empty => "remove `on_empty: fail`, or provide the input",
            InputProblem::TooLarge(_) => "raise `max_bytes`, or narrow the input",
            InputProblem::TooMuch(_) => "raise `limits.context_bytes`",
            InputProblem::Template { help, .. } => help,
            InputProblem::Outside(_) => return None,
            InputProblem::Glob { .. } => "correct the glob",
            InputProblem::Globs(_) => "correct the globs",
            InputProblem::Command { .. } => "`ok_exit` lists the codes that count as success",
            InputProblem::Link(_) => "name the file itself",
            InputProblem::Unreadable(_) => "name a file that can be read",
            InputProblem::NoRepository => "run it inside one",
            InputProblem::GitHub(error) if error.lacks_permission() => {
                "give the job read access: `pull-requests: read`, `issues: read`, for `ci_failure` `actions: read`"
            }
            InputProblem::GitHub(error) if error.may_pass() => "run again later",
            InputProblem::GitHub(_) => "check `number`, GITHUB_REPOSITORY, and that the token may read it",
            InputProblem::Diff(_) => "name a range that exists in this clone; in CI fetch more history",
        }))
    }

    fn code(&self) -> &'static str {
        if matches!(self.problem, InputProblem::TooLarge(_)) { "too_large" } else { self.exit().name() }
    }
}
