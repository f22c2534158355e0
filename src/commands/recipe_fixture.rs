//! Finds the fixtures and transcripts of a recipe's tests and copies fixtures. Whoever wrote the checkout wrote them: they
//! lead nowhere else, and their policies give nothing that takes trust.

use std::io;
use std::path::{Path, PathBuf};

use crate::checkouts::checkouts_around;
use crate::git::{GitError, Programs};
use crate::policy::file::{Extends, PolicyFile, Unanalysable};
use crate::run::Failure;
use crate::run::place::Place;
use crate::run::rules::trust::Trusted;
use crate::settings::Environment;
use crate::workspace::temporary_files;

/// Why a test case cannot be run or judged.
#[derive(Debug, thiserror::Error)]
pub(super) enum CaseError {
    /// There is no such directory.
    #[error("the fixture {0} does not exist: make that directory, with the project's files under base/")]
    NoFixture(String),
    /// A path leads out of the repository.
    #[error("{0} leads out of the repository: the fixture and the transcript of a test are part of it")]
    Outside(String),
    /// A fixture brings a repository of its own.
    #[error("{}: a fixture has no repository of its own: remove it, one is made of its files", .0.display())]
    Repository(PathBuf),
    /// The policy of a fixture does not count.
    #[error("{path}: {why}")]
    Policy { path: String, why: String },
    /// A file cannot be copied or made.
    #[error("{path}: {cause}")]
    File { path: String, cause: std::io::Error },
    /// git fails.
    #[error(transparent)]
    Git(#[from] GitError),
    /// What the run printed is not a result.
    #[error("the result is not JSON: {0}")]
    Result(serde_json::Error),
    /// The commands of `checks` cannot be started.
    #[error("{}", .0.error.message)]
    Checks(Failure),
}

pub(super) fn at(path: &Path) -> impl Fn(std::io::Error) -> CaseError + '_ {
    |cause| CaseError::File { path: path.display().to_string(), cause }
}

/// Where the recipes under test are, and whose files count there.
pub(super) struct Surroundings {
    top: PathBuf,
    trusted: Trusted,
    /// Programs outside the checkout.
    pub(super) programs: Programs,
}

impl Surroundings {
    /// Looks at the checkout around the current directory.
    pub(super) fn open(environment: &Environment) -> Result<Surroundings, Failure> {
        let place = Place::open(None, environment)?;
        let trusted = place.trusted(environment)?;
        Ok(Surroundings { top: place.top().to_path_buf(), trusted, programs: place.checkout.programs.clone() })
    }

    /// Returns the policy of a fixture: its own, else a built-in one. A change under review gets it from the trusted commit,
    /// copied to `copy`; that of a checkout which is not trusted gives no network, no variables and no server.
    pub(super) fn policy(&self, fixture: &Path, copy: &Path) -> Result<String, CaseError> {
        if fixture.join("policy.yaml").symlink_metadata().is_err() {
            return Ok("builtin:ci-dev".to_owned());
        }
        let path = named(fixture, "policy.yaml", fixture)?;
        let shown = path.display().to_string();
        if self.trusted.checkout {
            return Ok(shown);
        }
        let failed = |why: String| CaseError::Policy { path: shown.clone(), why };
        let text = self.trusted.named_text(&self.top, &path.canonicalize().map_err(at(&path))?).map_err(failed)?;
        if self.trusted.tree.is_none() {
            let file = PolicyFile::parse(&shown, &text).map_err(|error| failed(error.to_string()))?;
            if let Some(key) = gives(&file) {
                return Err(failed(format!("`{key}` needs a trusted checkout: run `qwen policy trust`")));
            }
        }
        temporary_files::write(copy, text.as_bytes()).map_err(at(copy))?;
        Ok(copy.display().to_string())
    }
}

/// Names the key by which a policy gives more than files and commands in a sandbox.
fn gives(policy: &PolicyFile) -> Option<&'static str> {
    let shell = policy.shell.as_ref();
    let extends_file = matches!(policy.extends, Some(Extends::File { .. }));
    let is_sandboxed = |unanalysable: &Unanalysable| *unanalysable != Unanalysable::Deny;
    [
        (extends_file, "extends"),
        (policy.network.is_some(), "network"),
        (policy.mcp.is_some(), "mcp"),
        (policy.sandbox.is_some(), "sandbox"),
        (shell.is_some_and(|shell| shell.env.is_some()), "shell.env"),
        (shell.is_some_and(|shell| shell.unanalysable.as_ref().is_some_and(is_sandboxed)), "shell.unanalysable"),
    ]
    .into_iter()
    .find_map(|(is_there, key)| is_there.then_some(key))
}

/// Returns a path that a file in this directory names: in the checkout around it, else below the current directory or
/// the file's own. Links count as what they lead to.
pub(super) fn named(directory: &Path, name: &str, cwd: &Path) -> Result<PathBuf, CaseError> {
    let path = directory.join(name);
    // Of a file that is to be made, its directory decides.
    let existing = path.ancestors().find(|path| path.symlink_metadata().is_ok()).unwrap_or(directory);
    let is_inside = || -> io::Result<bool> {
        let (directory, cwd, existing) = (directory.canonicalize()?, cwd.canonicalize()?, existing.canonicalize()?);
        let of_checkout = checkouts_around(&directory).next();
        let top = of_checkout.unwrap_or(if directory.starts_with(&cwd) { &cwd } else { &directory });
        Ok(existing.starts_with(top))
    };
    match Path::new(name).is_absolute() || !is_inside().unwrap_or(false) {
        true => Err(CaseError::Outside(path.display().to_string())),
        false => Ok(path),
    }
}
