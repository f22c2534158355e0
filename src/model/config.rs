//! Defines a client's configuration, so that the client never reads the environment.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};

use super::Price;
use super::endpoint::DEFAULT_BASE_URL;
use super::learned::Learned;
use super::providers::Provider;
use super::retry::USUAL;
use crate::base::trace::Trace;
use crate::secret::Secret;

/// The settings of a [`super::client::Client`].
///
/// ```
/// use qwen_run::model::config::ClientConfig;
///
/// let mut config = ClientConfig::new("http://127.0.0.1:8080/v1", "qwen");
/// config.generation.max_output_tokens = Some(1_000);
/// assert_eq!(config.retry.retries, 5);
/// ```
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// The server, in any form that [`super::endpoint::Endpoint::parse`] reads.
    pub base_url: String,
    /// Which kind of server it is, where the host does not tell.
    pub provider: Option<Provider>,
    /// The key, if there is one.
    pub key: Option<Secret>,
    /// The model.
    pub model: String,
    /// Models that take over, in this order, when the one before stays unavailable.
    pub fallback_models: Vec<String>,
    /// What is asked of the model.
    pub generation: Generation,
    /// Whether the tools are in the prompt instead of in `tools`.
    pub text_tools: TextToolsMode,
    /// What the owner knows better than the catalogue.
    pub known: KnownFacts,
    /// What an earlier run found out about the server and the model.
    pub learned: Learned,
    /// How the server is reached.
    pub connection: Connection,
    /// How long to wait for what.
    pub timers: Timers,
    /// When and how often to try again.
    pub retry: RetryConfig,
}

/// What is asked of the model in every request.
#[derive(Debug, Clone)]
pub struct Generation {
    /// Sampling that the user chose.
    pub sampling: Sampling,
    /// The output limit of every request that names none.
    pub max_output_tokens: Option<u64>,
    /// Whether the model shall think; `None` leaves it to the server.
    pub thinking: Option<bool>,
    /// Whether a server that wants `cache_control` marks gets them.
    pub cache_marks: bool,
    /// Additional fields for the body.
    pub extra_body: Map<String, Value>,
}

/// What the owner knows better than the catalogue.
#[derive(Debug, Clone, Copy)]
pub struct KnownFacts {
    /// The window in tokens.
    pub context_window: Option<u64>,
    /// The window in tokens that the server was seen to serve: the catalogue's counts only as far as this.
    pub served_window: Option<u64>,
    /// Whether the server may be asked which window it serves, next to the first request; only on this machine.
    pub asks_for_window: bool,
    /// The price.
    pub price: Option<Price>,
    /// Whether the model takes images.
    pub images: Option<bool>,
}

/// How the server is reached.
#[derive(Debug, Clone, Default)]
pub struct Connection {
    /// Headers for every request.
    pub headers: Vec<(String, String)>,
    /// Where the key is from: a variable, a flag or a place in a file.
    pub key_from: Option<String>,
    /// The proxies; none is taken from the environment.
    pub proxy: Proxies,
    /// Files of certificates to trust next to the system's, as PEM.
    pub ca_files: Vec<PathBuf>,
    /// Whether plain http may leave this machine.
    pub allow_http: bool,
    /// The trace that requests are a part of.
    pub trace: Option<Arc<Trace>>,
}

/// When and how often to try again.
#[derive(Debug, Clone, Copy)]
pub struct RetryConfig {
    /// How often a failed connection, and a failed server, is tried again: each has this budget.
    pub retries: u32,
    /// The longest single wait before another try.
    pub max_wait: Duration,
    /// The first wait of the exponential back-off.
    pub first_wait: Duration,
    /// The seed of the back-off's jitter.
    pub jitter_seed: u64,
    /// Tells the time, for a `Retry-After` that is a date.
    pub now: Option<fn() -> SystemTime>,
}

impl ClientConfig {
    /// Starts from the defaults.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> ClientConfig {
        ClientConfig {
            base_url: base_url.into(),
            provider: None,
            key: None,
            model: model.into(),
            fallback_models: Vec::new(),
            generation: Generation {
                sampling: Sampling::default(),
                max_output_tokens: None,
                thinking: None,
                cache_marks: true,
                extra_body: Map::new(),
            },
            text_tools: TextToolsMode::Auto,
            known: KnownFacts {
                context_window: None,
                served_window: None,
                asks_for_window: true,
                price: None,
                images: None,
            },
            learned: Learned::default(),
            connection: Connection::default(),
            timers: Timers::default(),
            retry: RetryConfig {
                retries: USUAL,
                max_wait: Duration::from_secs(600),
                first_wait: Duration::from_secs(1),
                jitter_seed: 0,
                now: None,
            },
        }
    }
}

impl Default for ClientConfig {
    fn default() -> ClientConfig {
        ClientConfig::new(DEFAULT_BASE_URL, "qwen3-coder-plus")
    }
}

/// Timeouts; zero means no limit. The run's own deadline bounds all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timers {
    /// For a connection.
    pub connect: Duration,
    /// For the first byte; `None` is 120 s, on this machine 600 s.
    pub first_byte: Option<Duration>,
    /// Between two data events. Comments do not count, but show that the connection lives: with them it is twice this.
    pub idle: Duration,
    /// For an answer as a whole.
    pub lifetime: Duration,
}

impl Default for Timers {
    fn default() -> Timers {
        Timers {
            connect: Duration::from_secs(15),
            first_byte: None,
            idle: Duration::from_secs(240),
            lifetime: Duration::from_secs(900),
        }
    }
}

/// Sampling that the user chose. What stays `None` is not sent to hosted servers, and is the model card's locally.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sampling {
    /// `temperature`.
    pub temperature: Option<f64>,
    /// `top_p`.
    pub top_p: Option<f64>,
    /// `seed`.
    pub seed: Option<i64>,
}

/// Where the tools are (`--text-tools`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TextToolsMode {
    /// In `tools`; in the prompt once the server refuses that or the model shows that it does not know it.
    #[default]
    Auto,
    /// In `tools`, and calls are never looked for in the text.
    Off,
    /// In the prompt.
    Force,
}

/// Proxies as the settings give them. This machine is never reached through one.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Proxies {
    /// For https.
    pub https: Option<String>,
    /// For http.
    pub http: Option<String>,
    /// For both, where there is no other.
    pub all: Option<String>,
    /// Hosts that are reached without, in the form of `NO_PROXY`.
    pub no_proxy: Option<String>,
}

impl std::fmt::Debug for Proxies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let masked = |url: &Option<String>| url.as_deref().map(crate::secret::mask_credentials);
        f.debug_struct("Proxies")
            .field("https", &masked(&self.https))
            .field("http", &masked(&self.http))
            .field("all", &masked(&self.all))
            .field("no_proxy", &self.no_proxy)
            .finish()
    }
}
