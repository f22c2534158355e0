//! Folders beside the workspace: included ones, and our own state.

use std::path::PathBuf;

use crate::cli::RunArgs;
use crate::exit::Exit;
use crate::settings::{Environment, Settings};

use super::Failure;

/// Returns the folders that may be read beside the workspace. One that is not there is an error.
pub fn included_folders(
    arguments: &RunArgs,
    settings: &Settings,
    environment: &Environment,
) -> Result<Vec<PathBuf>, Failure> {
    let from_flags = arguments.input.include_directories.iter().cloned();
    let from_settings = settings.include_directories.iter().map(|folder| PathBuf::from(&folder.value));
    from_flags
        .chain(from_settings)
        .map(|folder| {
            let path = environment.cwd.join(&folder);
            path.canonicalize().map_err(|error| {
                Failure::new(
                    Exit::Usage,
                    format!("--include-directories {}: {error}", folder.display()),
                    "name a folder that exists",
                )
            })
        })
        .collect()
}

/// Returns the folder of our own state; it must be writable where something is to be undone.
pub fn state_folder(environment: &Environment) -> Result<PathBuf, Failure> {
    let base = environment
        .value("XDG_STATE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| environment.home.as_ref().map(|home| home.join(".local/state")));
    base.map(|base| base.join("qwen")).ok_or_else(|| {
        Failure::new(
            Exit::Conflict,
            "there is no home folder to keep an undo record in",
            "set HOME or XDG_STATE_HOME, or give --no-undo",
        )
    })
}

/// Returns the folder of what can be found out again; `None` where there is no home.
pub fn cache_folder(environment: &Environment) -> Option<PathBuf> {
    let base = environment
        .value("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| environment.home.as_ref().map(|home| home.join(".cache")));
    base.map(|base| base.join("qwen"))
}
