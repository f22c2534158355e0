//! Resolves directories outside the workspace: included ones, and the program's own state.

use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::PathBuf;

use crate::cli::RunArgs;
use crate::exit::Exit;
use crate::settings::{Environment, Settings};
use crate::workspace::temporary::is_in_checkout;

use super::Failure;

/// Returns the directories outside the workspace that may be read. A missing one is an error.
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

/// Returns the directory of the program's state; it must be writable if the run can be undone.
///
/// It is never inside the repository of the run, even if `HOME` or `XDG_STATE_HOME` is the checkout: then it is a
/// directory of this user below `/var/tmp`.
pub fn state_folder(environment: &Environment) -> Result<PathBuf, Failure> {
    let none = || {
        Failure::new(
            Exit::Conflict,
            "there is no home directory to keep an undo record in",
            "set HOME or XDG_STATE_HOME, or give --no-undo",
        )
    };
    let base = base(environment, "XDG_STATE_HOME", ".local/state").ok_or_else(none)?;
    if !is_in_checkout(&base, &environment.cwd) {
        return Ok(base.join("qwen"));
    }
    let own = PathBuf::from(format!("/var/tmp/qwen-{}", rustix::process::geteuid().as_raw()));
    let made = std::fs::DirBuilder::new().mode(0o700).create(&own);
    let is_ours = own.symlink_metadata().is_ok_and(|data| {
        data.is_dir() && data.uid() == rustix::process::geteuid().as_raw() && data.mode().trailing_zeros() >= 6
    });
    match made {
        Ok(()) => Ok(own),
        Err(_) if is_ours => Ok(own),
        Err(_) => Err(none()),
    }
}

/// Returns the cache directory; `None` without a home, or if the home is inside the repository of the run.
pub fn cache_folder(environment: &Environment) -> Option<PathBuf> {
    let base = base(environment, "XDG_CACHE_HOME", ".cache")?;
    (!is_in_checkout(&base, &environment.cwd)).then(|| base.join("qwen"))
}

fn base(environment: &Environment, variable: &str, below_home: &str) -> Option<PathBuf> {
    let named = environment.value(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    named.or_else(|| environment.home.as_ref().map(|home| home.join(below_home)))
}
