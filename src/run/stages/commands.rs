//! The third stage: what runs commands. Nothing is started or copied before the first one.

use std::path::PathBuf;
use std::sync::Arc;

use super::item::Item;
use super::shared::Shared;
use crate::policy::Policy;
use crate::run::error::{Failure, PlaceError, SetupError};
use crate::run::runner::{Runner, RunnerOptions};
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
        let workspace = &item.workspace;
        shared.policy.require_tests(&item.rules.facts(workspace, PathBuf::new()))?;
        let on_staged = runner(shared, item, Arc::clone(workspace), &item.rules.policy, outputs)?;
        if item.demand == Demand::Require {
            on_staged.confinement().map_err(SetupError::Sandbox)?;
        }
        let mut checks = item.recipe.iter().flat_map(|active| active.recipe.checks());
        let base = match checks.any(|check| check.tree.is_some()) {
            true => {
                let pristine = Workspace::open(shared.place.root()).map_err(PlaceError::Workspace)?;
                Some(runner(shared, item, Arc::new(pristine), &item.rules.outer, false)?)
            }
            false => None,
        };
        Ok(Commands { runner: on_staged, base })
    }
}

fn runner(
    shared: &Shared,
    item: &Item,
    workspace: Arc<Workspace>,
    policy: &Policy,
    ignored_outputs: bool,
) -> Result<Runner, SetupError> {
    let options = RunnerOptions {
        checkout: shared.place.checkout.clone(),
        policy: policy.clone(),
        // The runner's own facts name its own directory of outputs, which is created with it.
        facts: item.rules.facts(&workspace, PathBuf::new()),
        demand: item.demand,
        environment: shared.environment.for_programs(),
        helper: own_executable(),
        ignored_outputs,
        workspace,
    };
    Runner::new(options).map_err(SetupError::TemporaryFolder)
}
