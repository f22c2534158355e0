//! Another stage: what is delivered, and what would prevent it.

use std::path::PathBuf;

use super::item::Item;
use super::modes::preflight;
use super::shared::{Shared, delivers};
use crate::run::error::Failure;
use crate::run::finish::apply::none_cut_off;
use crate::run::finish::mode::Mode;
use crate::run::recipe::Active;

/// What is delivered, and in which form.
pub struct DeliverySpec {
    /// Whether changes were asked for.
    pub expected: bool,
    /// `--require-changes`.
    pub required: bool,
    /// `--max-changed-files`.
    pub max_files: Option<u64>,
    /// `--max-patch-bytes`.
    pub max_patch_bytes: Option<u64>,
    /// `--message`.
    pub message: Option<String>,
    /// `--sign`.
    pub sign: bool,
    /// Where undo records go; `None` under `--no-undo`.
    pub undo: Option<PathBuf>,
}

impl DeliverySpec {
    /// Finds what would prevent the delivery before anything is sent.
    pub fn open(shared: &Shared, item: &Item) -> Result<DeliverySpec, Failure> {
        let (changes, place) = (&item.arguments.changes, &shared.place);
        let undo: Option<PathBuf> = match (&item.delivery, changes.no_undo) {
            (Mode::Apply | Mode::Commit, false) => Some(place.state()?.join("undo")),
            _ => None,
        };
        preflight(&item.delivery, changes.sign, &item.workspace, place.repository(), undo.as_deref())?;
        if let Some(undo) = &undo {
            none_cut_off(undo, place.root())?;
        }
        let expected = item.recipe.as_ref().map_or(delivers(&item.arguments), Active::changes_expected);
        Ok(DeliverySpec {
            // A mode delivers changes if there are any; it does not require any.
            expected: changes.checks.require_changes || expected,
            required: changes.checks.require_changes,
            max_files: changes.max_changed_files,
            max_patch_bytes: changes.max_patch_bytes,
            message: changes.message.clone(),
            sign: changes.sign,
            undo,
        })
    }
}
