//! Implements the older HTTP transport: one stream of events from the server, one POST for each message to it.
//!
//! The library has dropped it, but existing servers still use it.

use std::collections::VecDeque;
use std::sync::Arc;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

use super::connection::{Ask, Unopened, causes};
use super::lines::{Faults, LARGEST, Meter, message_of};
use crate::model::BoxFuture;
use crate::model::sse::{Decoder, Frame};

/// Maximum bytes of a whole stream.
const STREAM: u64 = 4 << 30;

/// Gives the token for a request, if there is one.
pub(super) type Source = Arc<dyn Fn() -> BoxFuture<'static, Option<String>> + Send + Sync>;

/// The token of requests, and where it is in them.
#[derive(Clone)]
pub(super) struct Token {
    /// Where it comes from.
    pub(super) source: Source,
    /// The part of the query that carries it; a header without.
    pub(super) parameter: Option<String>,
}

impl Token {
    /// Makes a request to an address with the token in its place.
    async fn on(&self, mut url: Url, request: impl FnOnce(Url) -> RequestBuilder) -> RequestBuilder {
        match ((self.source)().await, &self.parameter) {
            (None, _) => request(url),
            (Some(token), None) => request(url).bearer_auth(token),
            (Some(token), Some(parameter)) => {
                url.query_pairs_mut().append_pair(parameter, &token);
                request(url)
            }
        }
    }
}

/// An open stream of events.
pub(super) struct Events {
    client: Client,
    headers: HeaderMap,
    token: Token,
    stream: Response,
    decoder: Decoder,
    endpoint: Url,
    frames: VecDeque<Frame>,
    meter: Meter,
    faults: Faults,
}

/// A message that could not be posted.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct NotPosted(String);

impl Events {
    /// Opens the stream and waits until the server has named the address for messages.
    pub(super) async fn open(
        client: Client,
        url: &str,
        headers: HeaderMap,
        token: Token,
        faults: Faults,
    ) -> Result<Events, Unopened> {
        let unopened = |why: String| Unopened { why, asks: None };
        let url = Url::parse(url).map_err(|error| unopened(format!("its address is not valid: {error}")))?;
        let request = token.on(url.clone(), |url| client.get(url)).await;
        let request = request.headers(headers.clone()).header(ACCEPT, "text/event-stream");
        let stream = request.send().await.map_err(|error| unopened(causes(&error)))?;
        if matches!(stream.status(), StatusCode::UNAUTHORIZED) {
            return Err(Unopened { why: "it requires a token (401)".to_owned(), asks: Some(Ask::default()) });
        }
        let kind = stream.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !stream.status().is_success() || !kind.starts_with("text/event-stream") {
            let status = stream.status();
            return Err(unopened(format!(
                "it responded {status} with {:?} instead of an event stream",
                super::shown(kind, 60)
            )));
        }
        let mut events = Events {
            client,
            headers,
            token,
            stream,
            decoder: Decoder::with_caps(LARGEST, STREAM),
            endpoint: url.clone(),
            frames: VecDeque::new(),
            meter: Meter::default(),
            faults,
        };
        loop {
            let Some((name, data)) = events.event().await else {
                let why =
                    events.faults.why().unwrap_or_else(|| "its stream ended before it named an endpoint".to_owned());
                return Err(unopened(why));
            };
            if name == "endpoint" {
                let endpoint = url.join(data.trim()).ok().filter(|endpoint| endpoint.origin() == url.origin());
                events.endpoint =
                    endpoint.ok_or_else(|| unopened("the endpoint that it named is on another server".to_owned()))?;
                return Ok(events);
            }
        }
    }

    /// Returns the next event with its name; may be dropped and called again at any time.
    async fn event(&mut self) -> Option<(String, String)> {
        loop {
            while let Some(frame) = self.frames.pop_front() {
                match frame {
                    Frame::Event { event, data } => return Some((event.unwrap_or_else(|| "message".into()), data)),
                    Frame::TooLarge => {
                        self.faults.note(format!("it sent a message of more than {} MiB", LARGEST >> 20));
                        return None;
                    }
                    Frame::Comment(_) | Frame::HttpStatus(_) => {}
                    Frame::Body(_) => {
                        self.faults.note("its response is not an event stream");
                        return None;
                    }
                }
            }
            match self.stream.chunk().await {
                Ok(Some(bytes)) => self.frames.extend(self.decoder.push(&bytes)),
                Ok(None) => return None,
                Err(error) => {
                    self.faults.note(format!("its stream broke: {}", causes(&error)));
                    return None;
                }
            }
        }
    }
}

impl Transport<RoleClient> for Events {
    type Error = NotPosted;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), NotPosted>> + Send + 'static {
        let (client, endpoint, headers) = (self.client.clone(), self.endpoint.clone(), self.headers.clone());
        let token = self.token.clone();
        async move {
            let body = serde_json::to_vec(&message).map_err(|error| NotPosted(error.to_string()))?;
            let request = token.on(endpoint, |url| client.post(url)).await.headers(headers);
            let answer = request
                .header(CONTENT_TYPE, "application/json")
                .body(body)
                .send()
                .await
                .map_err(|error| NotPosted(causes(&error)))?;
            match answer.status() {
                status if status.is_success() => Ok(()),
                status => Err(NotPosted(format!("it answered a message with {status}"))),
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let (name, data) = self.event().await?;
            if name != "message" {
                continue;
            }
            let message = serde_json::from_str(&data).map_err(|error| error.to_string()).and_then(message_of);
            match message {
                Ok(message) => return (!self.meter.is_flood(&message, &self.faults)).then_some(message),
                Err(_) => self.faults.note_garbage(data.as_bytes()),
            }
        }
    }

    async fn close(&mut self) -> Result<(), NotPosted> {
        Ok(())
    }
}
