//! Finds the repository and the programs of a workspace: once for each command.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::repository::{Repository, RepositoryError};
use super::{Programs, trusted};
use crate::checkouts::Around;

/// Where a command works.
#[derive(Debug, Clone)]
pub struct Checkout {
    /// The workspace and what is around it.
    pub around: Around,
    /// The programs that this program starts itself there.
    pub programs: Programs,
    /// The repository that holds the workspace.
    pub repository: Option<Repository>,
}

impl Checkout {
    /// Finds the repository and the programs, by the user's `PATH` and `XDG_CONFIG_HOME`.
    pub fn open(
        around: Around,
        path: Option<&OsStr>,
        configuration: Option<&Path>,
    ) -> Result<Checkout, RepositoryError> {
        let is_own = !trusted::configuration_came_along(&around, configuration);
        let programs = Programs::new(path, &around).with_user_configuration(is_own);
        let repository = Repository::find(&around.workspace, &programs)?;
        Ok(Checkout { around, programs, repository })
    }

    /// Returns the top directory of the repository, else the workspace.
    pub fn top(&self) -> &Path {
        self.repository.as_ref().map_or(&self.around.workspace, |repository| &repository.top)
    }
}

impl Repository {
    /// Finds the repository that holds a canonical directory, by the variables of this process.
    pub fn discover(root: &Path) -> Result<Option<Repository>, RepositoryError> {
        let configuration = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
        let path = std::env::var_os("PATH");
        Ok(Checkout::open(Around::of_process(root), path.as_deref(), configuration.as_deref())?.repository)
    }
}
