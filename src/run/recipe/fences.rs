//! Keeps the user's secret for the tags of fences.

use std::path::Path;

use crate::bounded;
use crate::cli::RunArgs;
use crate::run::error::RecipeError;

/// The secret of runs that are recorded or replayed: their texts must be the same each time.
pub(super) const CONSTANT: &[u8] = b"recorded";

/// Returns the secret of a run: that of the user, or without `state` one for this run alone.
pub fn of_run(arguments: &RunArgs, state: Option<&Path>) -> Result<Vec<u8>, RecipeError> {
    match arguments.test.record.is_some() || arguments.test.replay.is_some() {
        true => Ok(CONSTANT.to_vec()),
        false => secret(state),
    }
}

/// Returns the user's secret for the tags of fences, created on first use. If it cannot be stored, one for this run.
pub fn secret(state: Option<&Path>) -> Result<Vec<u8>, RecipeError> {
    let fresh = || {
        let mut bytes = vec![0; 32];
        getrandom::fill(&mut bytes).map(|()| bytes).map_err(RecipeError::Random)
    };
    let Some(folder) = state else { return fresh() };
    let file = folder.join("fence-secret");
    if let Ok(known) = bounded::regular(&file, bounded::CONFIG)
        && known.len() == 32
    {
        return Ok(known);
    }
    let secret = fresh()?;
    let _kept = crate::workspace::outputs::keep_secret(&file, &secret);
    Ok(secret)
}
