//! Defines why the provider's Batch API does not do what it should.

use std::borrow::Cow;

use crate::base::CliError;
use crate::exit::Exit;
use crate::model::{ErrorClass, ModelError};

/// Why the provider's Batch API does not do what it should.
#[derive(Debug, thiserror::Error)]
pub(in crate::commands) enum ProviderError {
    /// There is none.
    #[error("{0} has no Batch API: it knows no `files` or no `batches` below its base URL")]
    None(String),
    /// Somebody else's batch is not touched.
    #[error("the requests were handed to the provider with another key, or at another base URL")]
    Account,
    /// It refuses, or cannot be reached.
    #[error("{}", .0.message)]
    Answer(ModelError),
    /// Nobody knows whether there is a batch.
    #[error("{0} did not say whether it has created the batch, and does not list it")]
    Unknown(String),
}

impl ProviderError {
    /// Words an error of a host. What it does not know at all is no Batch API.
    pub(super) fn of(host: &str, error: ModelError) -> ProviderError {
        match error.status {
            Some(404 | 405 | 501) => ProviderError::None(host.to_owned()),
            Some(_) | None => ProviderError::Answer(error),
        }
    }
}

impl CliError for ProviderError {
    fn exit(&self) -> Exit {
        match self {
            ProviderError::None(_) => Exit::Config,
            ProviderError::Account => Exit::Auth,
            ProviderError::Unknown(_) => Exit::Unavailable,
            ProviderError::Answer(error) => match &error.class {
                ErrorClass::Auth | ErrorClass::Permission | ErrorClass::Billing => Exit::Auth,
                ErrorClass::RateLimit { .. }
                | ErrorClass::Overloaded { .. }
                | ErrorClass::Server
                | ErrorClass::Timeout(_)
                | ErrorClass::Network
                | ErrorClass::Stream(_) => Exit::Unavailable,
                _ => Exit::Failed,
            },
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        match self {
            ProviderError::None(_) => Some("leave out --api batch, or correct the base URL"),
            ProviderError::Account => Some("use the key and the base URL of the first call"),
            ProviderError::Unknown(_) => {
                Some("the same command looks again, and creates it if it is not listed by then")
            }
            ProviderError::Answer(error) => error.hint.as_deref(),
        }
        .map(Cow::Borrowed)
    }
}
