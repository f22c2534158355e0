//! Defines what a batch shares with the run of one of its items.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::agent::limits::Joint;
use crate::model::ModelError;
use crate::model::config::ClientConfig;
use crate::model::transport::Transport;
use crate::recipe::Recipe;
use crate::telemetry::BatchTelemetry;

/// Makes the way to the server that a configuration names.
pub type Connect<'a> = dyn Fn(&ClientConfig) -> Result<Arc<dyn Transport>, ModelError> + 'a;

/// What a batch shares with the run of one of its items. A run that is nobody's item has none.
pub struct Lent<'a> {
    /// The recipe: all items have the same, read once.
    pub recipe: Option<&'a Recipe>,
    /// Values of the recipe's parameters that come from the item.
    pub values: Map<String, Value>,
    /// Makes the way to the server that a configuration names.
    pub transport: &'a Connect<'a>,
    /// Whether its first request must be the same whenever it is made: what others found out about the server, or it asks
    /// the server itself, does not count.
    pub repeats: bool,
    /// What the items spend together.
    pub joint: Arc<dyn Joint>,
    /// Whether the price of the model must be known.
    pub needs_price: bool,
    /// How the batch is reported to OpenTelemetry, if somebody asked for it.
    pub reported: Option<&'a BatchTelemetry>,
}
