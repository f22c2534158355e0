//! The fourth stage: the model.

use std::sync::Arc;
use std::time::Instant;

use super::bounds::limits;
use super::item::Item;
use super::lent::Lent;
use super::shared::Shared;
use crate::agent::limits::{Account, Joint};
use crate::event::Limits;
use crate::policy::layers::lowest_of;
use crate::run::error::{Failure, SetupError};
use crate::run::stages::model::{self, ModelSelection};

/// The model, and what it may cost.
pub struct Asked {
    /// The model.
    pub client: ModelSelection,
    /// Maximum tokens of one answer.
    pub max_output_tokens: Option<u64>,
    /// The effective limits.
    pub limits: Limits,
    /// What it spends together with the other items of a batch.
    pub joint: Option<Arc<dyn Joint>>,
}

impl Asked {
    /// Chooses the model.
    pub async fn choose(shared: &Shared, item: &mut Item, lent: Option<&Lent<'_>>) -> Result<Asked, Failure> {
        let arguments = &item.arguments;
        let wishes = item.recipe.as_ref().and_then(|active| active.recipe.file.model.clone()).unwrap_or_default();
        let trace = item.trace();
        let client = model::choose(arguments, shared, &wishes, trace, lent).await?;
        item.warn(client.warnings.iter().cloned())?;
        let arguments = &item.arguments;
        let mut limits = limits(arguments, &shared.settings, &item.rules.policy);
        if let Some(active) = &item.recipe {
            limits = lowest_of(&limits, &active.limits());
        }
        let needs_price = arguments.limits.max_cost_usd.is_some() || lent.is_some_and(|lent| lent.needs_price);
        if needs_price && client.as_model().facts().price.is_none() {
            return Err(SetupError::NoPrice(client.name.clone()).into());
        }
        let joint = lent.map(|lent| Arc::clone(&lent.joint));
        Ok(Asked { max_output_tokens: arguments.model.max_output_tokens, client, limits, joint })
    }

    /// Opens the account of the run.
    pub fn account(&self, started: Instant) -> Account {
        Account::open(self.limits.clone(), started).joining(self.joint.clone())
    }
}
