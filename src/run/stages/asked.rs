//! The fourth stage: the model.

use super::bounds::limits;
use super::item::Item;
use super::shared::Shared;
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
}

impl Asked {
    /// Chooses the model.
    pub async fn choose(shared: &Shared, item: &mut Item) -> Result<Asked, Failure> {
        let arguments = &item.arguments;
        let wishes = item.recipe.as_ref().and_then(|active| active.recipe.file.model.clone()).unwrap_or_default();
        let trace = item.trace();
        let client =
            model::choose(arguments, &shared.settings, &shared.environment, &shared.place, &wishes, trace).await?;
        item.warn(client.warnings.iter().cloned())?;
        let arguments = &item.arguments;
        let mut limits = limits(arguments, &shared.settings, &item.rules.policy);
        if let Some(active) = &item.recipe {
            limits = lowest_of(&limits, &active.limits());
        }
        if arguments.limits.max_cost_usd.is_some() && client.as_model().facts().price.is_none() {
            return Err(SetupError::NoPrice(client.name.clone()).into());
        }
        Ok(Asked { max_output_tokens: arguments.model.max_output_tokens, client, limits })
    }
}
