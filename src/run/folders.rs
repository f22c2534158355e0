//! Resolves directories that are named from outside: the one to work in, included ones, and the program's own state.

use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use crate::checkouts::{passes_through, refuse_links_out};
use crate::cli::RunArgs;
use crate::exit::Exit;
use crate::git::trusted;
use crate::settings::{Environment, Settings, came_unpacked};
use crate::workspace::Workspace;
use crate::workspace::temporary::is_in_checkout;

use super::Failure;
use super::error::SetupError;
use super::trust::Trusted;

/// Returns the directory that `-C` names, else the working directory. Fails where a link in a checkout leads out of it
/// on the way, also on the way that the shell went (`PWD`): whoever wrote the checkout would choose which of the user's
/// directories is worked in. The same is true of the directory for temporary files.
pub fn directory_to_work_in(cd: Option<&Path>, environment: &Environment) -> Result<PathBuf, Failure> {
    let cwd = &environment.cwd;
    let shown = |path: &Path| path.canonicalize().ok();
    let by_shell = environment.variables.get("PWD").map(Path::new);
    let by_shell = by_shell.filter(|pwd| pwd.is_absolute() && shown(pwd).is_some() && shown(pwd) == shown(cwd));
    let named = cwd.join(cd.unwrap_or(Path::new(".")));
    for path in by_shell.into_iter().chain([named.as_path()]) {
        refuse_links_out(path).map_err(|error| {
            let hint = "change to that directory, or give it with -C";
            Failure::new(Exit::Config, format!("the workspace {}: {error}", path.display()), hint)
        })?;
    }
    let temporary = environment.variables.get("TMPDIR").filter(|directory| !directory.is_empty());
    if let Some(directory) = temporary {
        refuse_links_out(&cwd.join(directory)).map_err(|error| {
            let hint = "set TMPDIR to a directory outside the checkout";
            Failure::new(Exit::Config, format!("the temporary directory {directory}: {error}"), hint)
        })?;
    }
    Ok(named)
}

/// Opens the workspace that `-C` names, else the working directory.
pub fn open_workspace(cd: Option<&Path>, environment: &Environment) -> Result<Workspace, Failure> {
    Ok(Workspace::open(&directory_to_work_in(cd, environment)?).map_err(SetupError::Workspace)?)
}

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
            refuse_links_out(&path).and_then(|()| path.canonicalize()).map_err(|error| {
                Failure::new(
                    Exit::Usage,
                    format!("--include-directories {}: {error}", folder.display()),
                    "name a directory that exists",
                )
            })
        })
        .collect()
}

/// Returns the directory of the program's state; it must be writable if the run can be undone.
///
/// It is never inside a checkout around the workspace, nor reached through a link in one, even if `HOME` or
/// `XDG_STATE_HOME` is the checkout: then it is a directory of this user below `/var/tmp`. What a checkout brings along
/// as our state, such as an approval, is nobody's.
pub fn state_folder(environment: &Environment, workspace: &Path) -> Result<PathBuf, Failure> {
    let none = || {
        Failure::new(
            Exit::Conflict,
            "no home directory for the undo record",
            "set HOME or XDG_STATE_HOME, or give --no-undo",
        )
    };
    let base = base(environment, "XDG_STATE_HOME", ".local/state").ok_or_else(none)?;
    if is_outside(&base, environment, workspace) {
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

/// Returns the cache directory; `None` without a home, or if it is inside a checkout around the workspace.
pub fn cache_folder(environment: &Environment, workspace: &Path) -> Option<PathBuf> {
    let base = base(environment, "XDG_CACHE_HOME", ".cache")?;
    is_outside(&base, environment, workspace).then(|| base.join("qwen"))
}

/// Tells whether our own files can be kept below a directory: nobody but the user has written there.
fn is_outside(base: &Path, environment: &Environment, workspace: &Path) -> bool {
    let cwd = environment.cwd.as_path();
    let places = [Some(workspace), (cwd != workspace).then_some(cwd)].into_iter().flatten();
    if places.clone().any(|place| is_in_checkout(base, place)) {
        return false;
    }
    let home = environment.home.as_deref();
    let came_along = home.is_some_and(|home| came_unpacked(home, workspace, cwd));
    if came_along && home.is_some_and(|home| base.starts_with(home)) {
        return false;
    }
    // The user may work in the home itself.
    let is_project = |place: &&Path| came_along || !home.is_some_and(|home| home.starts_with(place));
    let mut around = places.filter(|place| workspace.starts_with(place)).filter(is_project);
    !around.any(|place| passes_through(base, place))
}

/// Names an approval of this checkout that does not count, because it is kept in a checkout around the workspace.
pub fn approval_left_out(trusted: &Trusted, environment: &Environment, top: &Path, workspace: &Path) -> Option<String> {
    let base = base(environment, "XDG_STATE_HOME", ".local/state")?;
    let file = trusted::approval_file(&base.join("qwen"), top);
    let left_out = !trusted.checkout && !is_outside(&base, environment, workspace) && file.symlink_metadata().is_ok();
    left_out.then(|| {
        format!(
            "the approval {} left out: it is inside a checkout that contains the workspace and may have come with it",
            file.display()
        )
    })
}

fn base(environment: &Environment, variable: &str, below_home: &str) -> Option<PathBuf> {
    let named = environment.value(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    named.or_else(|| environment.home.as_ref().map(|home| home.join(below_home)))
}
