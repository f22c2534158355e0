//! Prepares `sandbox.workspace: in-place`: decides which runs may use the project itself, and where its snapshot is
//! kept.

use std::path::{Path, PathBuf};

use crate::exit::Exit;
use crate::settings::Environment;
use crate::workspace::kept::{Kept, Pending};

use super::Failure;
use super::folders::state_folder;
use super::outcome::Mode;
use super::runner::InPlace;

/// Returns the directory that holds the snapshots of projects.
pub fn folder(environment: &Environment) -> Result<PathBuf, Failure> {
    Ok(state_folder(environment)?.join("in-place"))
}

/// Returns how the project is used in place: `None` in a dry run, which only reads.
pub fn place(
    mode: &Mode,
    root: &Path,
    environment: &Environment,
    run_id: &str,
    time: &str,
) -> Result<Option<InPlace>, Failure> {
    match mode {
        Mode::DryRun => return Ok(None),
        Mode::Branch(_) => {
            return Err(Failure::new(
                Exit::Config,
                "`sandbox.workspace: in-place` leaves changes in the work tree, and --branch leaves it as it is",
                "use --apply or --commit, or `workspace: staged`",
            ));
        }
        Mode::Apply | Mode::Commit => {}
    }
    let keep = folder(environment)?;
    let failed = |error: std::io::Error| {
        Failure::new(Exit::Conflict, format!("{}: {error}", keep.display()), "the folder must be readable")
    };
    match Kept::pending(&keep, root).map_err(failed)? {
        Pending::Nothing => {}
        Pending::AtWork(run) => {
            return Err(Failure::new(
                Exit::Conflict,
                format!("the run {run} works in this project itself"),
                "wait for its end",
            ));
        }
        Pending::Killed(kept) => {
            return Err(Failure::new(
                Exit::Conflict,
                format!("the run {} was killed while its commands worked in this project", kept.run_id()),
                "`qwen undo` puts the project back as it was",
            ));
        }
    }
    Ok(Some(InPlace { keep, run_id: run_id.to_owned(), time: time.to_owned() }))
}
