//! The third stage: what runs commands. Nothing is started or copied before the first one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use super::item::Item;
use super::shared::Shared;
use crate::policy::Policy;
use crate::run::error::{Failure, PlaceError, SetupError};
use crate::run::runner::Runner;
use crate::sandbox::{Demand, own_executable};
use crate::workspace::Workspace;

/// What runs the commands of an item.
pub struct Commands {
    /// On what is staged.
    pub runner: Runner,
    /// On the unchanged tree, if a check asks for it.
    pub base: Option<Runner>,
}

impl Commands {
    /// Prepares them; required isolation that is unavailable is an error.
    pub fn open(shared: &Shared, item: &Item) -> Result<Commands, Failure> {
        let outputs = item.delivers_ignored()?;
        let workspace = &shared.place.workspace;
        shared.policy.require_tests(&item.rules.facts(workspace, PathBuf::new()))?;
        let on_staged = runner(shared, item, Arc::clone(workspace), &item.rules.policy)?.with_ignored_outputs(outputs);
        if item.demand == Demand::Require {
            on_staged.confinement().map_err(SetupError::Sandbox)?;
        }
        let mut checks = item.recipe.iter().flat_map(|active| active.recipe.checks());
        let base = match checks.any(|check| check.tree.is_some()) {
            true => {
                let pristine = Workspace::open(shared.place.root()).map_err(PlaceError::Workspace)?;
                Some(runner(shared, item, Arc::new(pristine), &item.rules.outer)?)
            }
            false => None,
        };
        Ok(Commands { runner: on_staged, base })
    }
}

fn runner(shared: &Shared, item: &Item, workspace: Arc<Workspace>, policy: &Policy) -> Result<Runner, SetupError> {
    let variables: BTreeMap<OsString, OsString> =
        shared.environment.variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
    // The runner's own facts name its own directory of outputs, which is created with it.
    let facts = item.rules.facts(&workspace, PathBuf::new());
    let checkout = shared.place.checkout.clone();
    Runner::new(workspace, checkout, policy.clone(), facts, item.demand, variables, own_executable())
        .map_err(SetupError::TemporaryFolder)
}
