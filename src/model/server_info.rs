//! Reads what a server reports about itself: its models, and the context window that they are served with.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::client::Client;
use super::config::ClientConfig;
use super::transport::Method;
use super::{ErrorClass, ModelError, Usage, catalogue};

/// Asks a server for its models and returns the only one; an error when it has none or several.
pub async fn only_model(config: &ClientConfig) -> Result<ServedModel, ModelError> {
    let client = Client::new(config.clone())?;
    client.only_model().await
}

impl Client {
    /// Tells, once, whether the window is to be asked for: only on this machine, and only where neither the owner nor
    /// the catalogue's price list knows who serves the model.
    pub(super) fn should_probe(&self) -> bool {
        let mut state = self.state();
        let needed = !state.probed
            && state.endpoint.is_loopback()
            && self.config.known.asks_for_window
            && self.config.known.context_window.is_none()
            && self.config.known.served_window.is_none()
            && catalogue::facts_of(&self.config.model).price.is_none();
        state.probed = true;
        needed
    }

    /// Asks which context window the server gives the model; errors are ignored.
    pub(super) async fn probe(&self) {
        let wire = self.wire_request(Method::Get, "models", Vec::new());
        let limit = Some(Instant::now() + PROBE);
        let Ok(body) = self.attempt(limit).fetch(wire).await else { return };
        let served = served_models(&body);
        let window = match served.as_slice() {
            [only] => only.window,
            several => several.iter().find(|model| model.name == self.config.model).and_then(|model| model.window),
        };
        let window = match window {
            None if is_llama_cpp(&body) => self.served_slot().await,
            known => known,
        };
        if let Some(window) = window {
            self.learn_window(window);
        }
    }

    /// Asks llama.cpp for the window of one slot, which older builds do not say with the model.
    async fn served_slot(&self) -> Option<u64> {
        let mut wire = self.wire_request(Method::Get, "props", Vec::new());
        wire.url = self.state().endpoint.url_beside("props").to_string();
        let body = self.attempt(Some(Instant::now() + PROBE)).fetch(wire).await.ok()?;
        let props: Value = serde_json::from_str(&body).ok()?;
        let places = ["/default_generation_settings/n_ctx", "/n_ctx"];
        places.iter().find_map(|place| props.pointer(place)?.as_u64()).filter(|window| *window >= LEAST_WINDOW)
    }

    /// Asks the server for its models and returns the only one; an error when it has none or several.
    pub async fn only_model(&self) -> Result<ServedModel, ModelError> {
        let wire = self.wire_request(Method::Get, "models", Vec::new());
        let body =
            self.attempt(None).fetch(wire).await.map_err(|failure| self.error(*failure, 1, Usage::default(), None))?;
        let models = served_models(&body);
        let names: Vec<&str> = models.iter().map(|model| model.name.as_str()).collect();
        let problem = match models.as_slice() {
            [only] => return Ok(only.clone()),
            [] => "lists no model; load one, or name it with --model".to_owned(),
            _ => format!("has several models; name one with --model: {}", names.join(", ")),
        };
        Err(ModelError {
            class: ErrorClass::ModelNotFound,
            message: format!("{} ({}) {problem}", self.quirks.name, self.state().endpoint.authority()),
            hint: None,
            status: None,
            request_id: None,
            requests: 1,
            usage: Box::default(),
        })
    }
}

/// A model that a server lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedModel {
    /// Its name there.
    pub name: String,
    /// The window that it is served with, where the list says so.
    pub window: Option<u64>,
}

/// How long the question for the window may take, next to the first request.
const PROBE: Duration = Duration::from_secs(5);

/// Less than this is not a window that anybody serves.
const LEAST_WINDOW: u64 = 512;

/// Tells whether a list of models comes from llama.cpp.
fn is_llama_cpp(body: &str) -> bool {
    let listed: Value = serde_json::from_str(body).unwrap_or_default();
    let owner = |item: &Value| item.get("owned_by").and_then(Value::as_str) == Some("llamacpp");
    listed.get("data").and_then(Value::as_array).is_some_and(|items| items.iter().any(owner))
}

fn served_models(body: &str) -> Vec<ServedModel> {
    let listed: Value = serde_json::from_str(body).unwrap_or_default();
    let items = listed.get("data").or_else(|| listed.get("models")).unwrap_or(&listed).as_array();
    // llama.cpp, vLLM and LM Studio each have their own word for the window.
    let window = |item: &Value| {
        ["/meta/n_ctx", "/max_model_len", "/loaded_context_length"]
            .iter()
            .find_map(|place| item.pointer(place)?.as_u64())
            .filter(|window| *window >= LEAST_WINDOW)
    };
    let mut models: Vec<ServedModel> = items
        .into_iter()
        .flatten()
        .filter_map(|item| {
            let name = item.get("id").or_else(|| item.get("name")).unwrap_or(item).as_str()?;
            Some(ServedModel { name: name.to_owned(), window: window(item) })
        })
        .collect();
    models.dedup_by(|one, other| one.name == other.name);
    models
}
