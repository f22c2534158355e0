//! Finds the run that a command goes on with: a file, or a run that was kept for this workspace.

use std::path::Path;

use serde_json::Value;

use super::console::read;
use super::error::CommandError;
use crate::exit::Exit;
use crate::run::Failure;
use crate::run::place::Place;
use crate::settings::Environment;
use crate::workspace::run_record::{KeptRun, Runs};

/// Reads what `qwen apply` is to apply: a file, standard input (`-`) or a kept run; without a name the newest kept run
/// that proposes something.
pub(super) fn proposal(from: Option<&Path>, place: &Place, environment: &Environment) -> Result<Vec<u8>, Failure> {
    let Some(from) = from else { return newest_proposal(place) };
    match named(from, place, environment)? {
        Some(run) => Ok(run.result().map_err(CommandError::input(from))?),
        None => Ok(read(from, environment)?),
    }
}

/// Returns the kept run that a name or its beginning means; `None` if it means a file.
pub(super) fn named(name: &Path, place: &Place, environment: &Environment) -> Result<Option<KeptRun>, CommandError> {
    if name.as_os_str() == "-" || environment.cwd.join(name).symlink_metadata().is_ok() {
        return Ok(None);
    }
    let Some(beginning) = name.to_str() else { return Ok(None) };
    let mut found = runs(place).map(|runs| runs.named(beginning)).unwrap_or_default();
    if found.len() > 1 {
        let ids = found.into_iter().map(|run| run.id).collect();
        return Err(CommandError::SeveralKept { beginning: beginning.to_owned(), ids });
    }
    Ok(found.pop())
}

/// Returns the kept runs of the workspace; `None` without a directory for them.
pub(super) fn runs(place: &Place) -> Option<Runs> {
    Some(Runs::of(place.state().ok()?, place.root()))
}

/// Returns the newest result that proposes something. That of a run that failed must be named: it may be half a change.
fn newest_proposal(place: &Place) -> Result<Vec<u8>, Failure> {
    let folder = || place.root().display().to_string();
    for run in runs(place).iter().flat_map(Runs::newest_first) {
        let Ok(bytes) = run.result() else { continue };
        let Ok(result) = serde_json::from_slice::<Value>(&bytes) else { continue };
        if result["changes"]["applied"] != false || result["changes"]["patch_sha256"].is_null() {
            continue;
        }
        let code = result["exit_code"].as_u64().and_then(|code| u8::try_from(code).ok()).unwrap_or(Exit::Failed.code());
        return match [Exit::Ok, Exit::Gate, Exit::Denied].iter().any(|exit| exit.code() == code) {
            true => Ok(bytes),
            false => Err(CommandError::RunFailed { folder: folder(), code, id: run.id }.into()),
        };
    }
    Err(CommandError::NothingKept { what: "proposal", folder: folder() }.into())
}
