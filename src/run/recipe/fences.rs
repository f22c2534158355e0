//! Keeps the user's secret for the tags of fences.

use std::path::Path;

use crate::bounded;
use crate::run::error::RecipeError;

/// Returns the user's secret for the tags of fences, created on first use. If it cannot be stored, one for this run.
pub(super) fn secret(state: Option<&Path>) -> Result<Vec<u8>, RecipeError> {
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
