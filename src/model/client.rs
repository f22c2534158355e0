//! The client: a [`Model`] behind an OpenAI-compatible server.

use std::sync::Arc;

use super::config::ClientConfig;
use super::transport::Transport;
use super::{BoxFuture, Delta, Model, ModelError, ModelFacts, Request, Turn};

/// Answers requests by asking a server.
pub struct Client {
    config: ClientConfig,
    transport: Arc<dyn Transport>,
}

impl Client {
    /// Prepares a client; nothing is sent and no connection opened.
    pub fn new(config: ClientConfig) -> Result<Client, ModelError> {
        let endpoint = super::endpoint::Endpoint::parse(&config.base_url).expect("stub");
        let http = Arc::new(super::http::Http::new(endpoint, &config));
        Client::with_transport(config, http)
    }

    /// Prepares a client over another transport: a cassette's recorder or player.
    pub fn with_transport(config: ClientConfig, transport: Arc<dyn Transport>) -> Result<Client, ModelError> {
        Ok(Client { config, transport })
    }

    /// Tells whether the tools stand in the prompt now.
    pub fn text_tools(&self) -> bool {
        false
    }

    /// Puts the tools into the prompt from now on.
    pub fn switch_to_text_tools(&self) {
        let _ = &self.transport;
    }
}

impl Model for Client {
    fn respond<'a>(
        &'a self,
        _request: &'a Request,
        _on_delta: &'a mut (dyn FnMut(Delta) + Send),
    ) -> BoxFuture<'a, Result<Turn, ModelError>> {
        Box::pin(std::future::pending())
    }

    fn facts(&self) -> ModelFacts {
        super::catalogue::facts_of(&self.config.model)
    }
}

/// Returns the name of the only model of a server; an error when it has none or several.
pub async fn only_model(_config: &ClientConfig) -> Result<String, ModelError> {
    std::future::pending().await
}
