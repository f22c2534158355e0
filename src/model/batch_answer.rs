//! Stands between a run and a server whose Batch API answers: catches a run's first request, and plays its answer.

use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use regex::Regex;
use serde_json::{Value, json};

use super::BoxFuture;
use super::canonical::{Masks, canonical};
use super::cassette::played;
use super::config::ClientConfig;
use super::endpoint::Endpoint;
use super::providers::quirks_named;
use super::transport::{Transport, TransportError, WireRequest, WireResponse};
use crate::base::digest::sha256;

/// The operation whose requests a Batch API takes.
const OPERATION: &str = "chat/completions";

/// The tag of a fence: another user's is another one.
static FENCE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("untrusted-[0-9a-f]{16}").expect("the pattern is a constant and a test compiles it"));

/// Returns a request as a line of a Batch API's file, with its digest; `None` if it is no JSON object. The answer comes
/// whole, and nothing is cached.
pub fn line(custom_id: &str, body: &[u8]) -> Option<(String, String)> {
    let mut body: Value = serde_json::from_slice(body).ok()?;
    let fields = body.as_object_mut()?;
    fields.insert("stream".to_owned(), Value::Bool(false));
    fields.remove("stream_options");
    for message in fields.get_mut("messages").and_then(Value::as_array_mut).into_iter().flatten() {
        for part in message.get_mut("content").and_then(Value::as_array_mut).into_iter().flatten() {
            part.as_object_mut().map(|part| part.remove("cache_control"));
        }
    }
    let canonical = canonical(body.to_string().as_bytes(), &Masks::default()).to_string();
    let digest = sha256(FENCE.replace_all(&canonical, "untrusted-").as_bytes());
    let url = format!("/v1/{OPERATION}");
    Some((json!({"custom_id": custom_id, "method": "POST", "url": url, "body": body}).to_string(), digest))
}

/// Returns what an answer of the server's Batch API costs as a part of the usual price, where that is known.
fn rate_of(config: &ClientConfig) -> Option<f64> {
    let known = || Endpoint::parse(&config.base_url).ok().map(|endpoint| endpoint.quirks());
    config.provider.map(quirks_named).or_else(known)?.batch_price
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The request that a run was made up to.
pub type Caught = Arc<Mutex<Option<Vec<u8>>>>;

/// Catches the first request of a run and ends the run there. Nothing is sent.
pub struct Catcher {
    caught: Caught,
    rate: Option<f64>,
}

impl Catcher {
    /// Keeps the body of the request in `caught`.
    pub fn new(config: &ClientConfig, caught: Caught) -> Catcher {
        Catcher { caught, rate: rate_of(config) }
    }
}

impl Transport for Catcher {
    fn send<'a>(&'a self, request: WireRequest) -> BoxFuture<'a, Result<WireResponse, TransportError>> {
        if request.operation == OPERATION {
            lock(&self.caught).get_or_insert(request.body);
        }
        let message = "the request waits for the others of its batch".to_owned();
        Box::pin(std::future::ready(Err(TransportError::Setup { message, hint: None })))
    }

    fn rate(&self) -> Option<f64> {
        self.rate
    }
}

/// What a Batch API has for a request.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchAnswer {
    /// The digest of the request.
    pub digest: String,
    /// The status.
    pub status: u16,
    /// The answer, or the error.
    pub body: Value,
}

/// Answers the first request of a run, and sends what follows from a good answer to the server.
pub struct Answered {
    inner: Arc<dyn Transport>,
    answer: Option<BatchAnswer>,
    rate: Option<f64>,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No good answer was given: every request gets what there is.
    New,
    /// The answer was given.
    Given,
    /// Others were asked for since.
    Over,
}

impl Answered {
    /// Answers with what the Batch API had; `None`: this run's request was not in its file.
    pub fn new(inner: Arc<dyn Transport>, config: &ClientConfig, answer: Option<BatchAnswer>) -> Answered {
        Answered { inner, answer, rate: rate_of(config), state: Mutex::new(State::New) }
    }

    fn is_given(&self) -> bool {
        matches!(*lock(&self.state), State::Given | State::Over)
    }

    /// Returns the answer to a request that is, or should be, the first.
    fn play(&self, body: &[u8]) -> Result<WireResponse, TransportError> {
        let mismatch = |words: &str| TransportError::Mismatch(words.to_owned());
        let answer = self.answer.as_ref().ok_or_else(|| mismatch("that of this item was not sent with its batch"))?;
        if (200..300).contains(&answer.status) {
            if line("", body).is_none_or(|(_, digest)| digest != answer.digest) {
                return Err(mismatch("what the recipe reads has changed since this one was sent with its batch"));
            }
            *lock(&self.state) = State::Given;
        }
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        let body = played(answer.body.to_string().into_bytes());
        Ok(WireResponse { status: answer.status, headers, body })
    }
}

impl Transport for Answered {
    fn send<'a>(&'a self, request: WireRequest) -> BoxFuture<'a, Result<WireResponse, TransportError>> {
        if request.operation != OPERATION {
            return self.inner.send(request);
        }
        if self.is_given() {
            *lock(&self.state) = State::Over;
            return self.inner.send(request);
        }
        Box::pin(std::future::ready(self.play(&request.body)))
    }

    fn turn<'a>(&'a self, tokens: u64) -> BoxFuture<'a, ()> {
        if self.is_given() { self.inner.turn(tokens) } else { Box::pin(std::future::ready(())) }
    }

    fn pause(&self, wait: Duration, refused: bool) -> Duration {
        if self.is_given() { self.inner.pause(wait, refused) } else { Duration::ZERO }
    }

    fn rate(&self) -> Option<f64> {
        if *lock(&self.state) == State::Over { self.inner.rate() } else { self.rate }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::client::Client;
    use crate::model::{Message, Model as _, Part, Request};

    fn config(base_url: &str) -> ClientConfig {
        ClientConfig::new(base_url, "qwen-plus")
    }

    fn request(text: &str) -> Request {
        Request { messages: Arc::new(vec![Message::User(vec![Part::Text(text.to_owned())])]), ..Request::default() }
    }

    /// Returns the line of a request, its digest, and the price while it is caught.
    async fn caught(base_url: &str, text: &str) -> (Value, String, Option<f64>) {
        let caught = Caught::default();
        let catcher = Arc::new(Catcher::new(&config(base_url), Arc::clone(&caught)));
        let client = Client::with_transport(config(base_url), catcher).unwrap();
        client.respond(&request(text), &mut |_| {}).await.unwrap_err();
        let body = lock(&caught).take().unwrap();
        let (line, digest) = line("k", &body).unwrap();
        (serde_json::from_str(&line).unwrap(), digest, client.facts().price.map(|price| price.input))
    }

    fn answered(text: &str) -> Value {
        json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
               "usage": {"prompt_tokens": 7, "completion_tokens": 1, "total_tokens": 8}})
    }

    #[tokio::test]
    async fn a_request_is_caught_and_gets_its_answer_at_the_price_of_the_batch() {
        let url = "https://dashscope-intl.aliyuncs.com/compatible-mode/v1";
        let (sent, digest, price) = caught(url, "hello").await;
        assert_eq!(price, Some(0.2));
        assert_eq!((&sent["custom_id"], &sent["body"]["stream"]), (&json!("k"), &json!(false)));
        assert!(!sent.to_string().contains("cache_control") && !sent.to_string().contains("stream_options"), "{sent}");
        // What a server takes is what a digest is of.
        assert_eq!(line("k", sent["body"].to_string().as_bytes()).unwrap().1, digest);
        let server = Arc::new(Catcher { caught: Caught::default(), rate: Some(1.0) });
        let answer = BatchAnswer { digest, status: 200, body: answered("hi") };
        let transport = Arc::new(Answered::new(server, &config(url), Some(answer)));
        let client = Client::with_transport(config(url), transport).unwrap();
        let turn = client.respond(&request("hello"), &mut |_| {}).await.unwrap();
        assert_eq!((turn.message.text.as_str(), turn.usage.input_tokens), ("hi", Some(7)));
        assert_eq!(client.facts().price.map(|price| price.input), Some(0.2));
        // What follows from the answer is an ordinary request.
        client.respond(&request("again"), &mut |_| {}).await.unwrap_err();
        assert_eq!(client.facts().price.map(|price| price.input), Some(0.4));
    }

    #[tokio::test]
    async fn a_refusal_is_final_and_another_request_is_not_answered() {
        let (url, refusal) = ("https://example.com/v1", json!({"error": {"message": "unknown parameter: stream"}}));
        let (_, digest, price) = caught(url, "hello").await;
        assert_eq!(price, None, "nobody knows what it costs there");
        let client = |digest: &str, status: u16| {
            let server = Arc::new(Catcher { caught: Caught::default(), rate: Some(1.0) });
            let answer = BatchAnswer { digest: digest.to_owned(), status, body: refusal.clone() };
            Client::with_transport(config(url), Arc::new(Answered::new(server, &config(url), Some(answer)))).unwrap()
        };
        let error = client(&digest, 400).respond(&request("hello"), &mut |_| {}).await.unwrap_err();
        assert_eq!(error.status, Some(400), "{error:?}");
        let error = client("another", 200).respond(&request("hello"), &mut |_| {}).await.unwrap_err();
        assert_eq!(error.class.name(), "replay_mismatch", "{error:?}");
    }
}
