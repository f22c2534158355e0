//! Where the changes of a batch are delivered, and by which rules.

use std::path::PathBuf;

use crate::cli::batch_directory::CombineArgs;
use crate::deliver::Site;
use crate::policy::redact::Secrets;
use crate::policy::{Facts, Policy};
use crate::run::Failure;
use crate::run::finish::apply::Rules;
use crate::run::output::masking::{published, secrets_of};
use crate::run::output::outputs::new_id;
use crate::run::place::Place;
use crate::settings::Environment;

/// Where the changes of a batch are delivered, and by which rules.
pub(in crate::commands) struct Destination<'a> {
    pub(super) place: &'a Place,
    pub(super) policy: &'a Policy,
    pub(super) environment: &'a Environment,
    /// The name of the delivery.
    pub(super) run_id: String,
    facts: Facts,
    secrets: Secrets,
    undo: Option<PathBuf>,
    time: String,
}

impl<'a> Destination<'a> {
    /// Opens the place for a delivery by these flags.
    pub(in crate::commands) fn open(
        place: &'a Place,
        policy: &'a Policy,
        environment: &'a Environment,
        flags: &CombineArgs,
    ) -> Result<Destination<'a>, Failure> {
        let undo = match flags.no_undo || !(flags.apply || flags.commit) {
            true => None,
            false => Some(place.state()?.join("undo")),
        };
        Ok(Destination {
            place,
            policy,
            environment,
            run_id: new_id(),
            facts: place.facts(environment),
            secrets: secrets_of(policy, environment)?,
            undo,
            time: jiff::Timestamp::now().to_string(),
        })
    }

    /// Masks secrets in what is published besides the change.
    pub(super) fn hide(&self, text: &str) -> String {
        published(text, self.policy, &self.secrets)
    }

    /// Returns the place as deliveries take it.
    pub(super) fn site(&self) -> Site<'_> {
        Site {
            root: self.place.root(),
            repository: self.place.repository(),
            undo: self.undo.as_deref(),
            run_id: &self.run_id,
            time: &self.time,
            outputs: None,
        }
    }

    /// Returns the rules that every change must pass.
    pub(super) fn rules(&self) -> Rules<'_> {
        Rules { policy: self.policy, facts: &self.facts, secrets: &self.secrets, also: &|_| Ok(()) }
    }
}
