//! Records exchanges with a server in a file (a cassette), and plays them back byte for byte.
//!
//! A cassette has one JSON object per line: a header, then one for each exchange. Bytes are kept as they were received,
//! so faults of a stream are replayed as well. It holds neither credentials nor names of directories of this machine.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::canonical::{Masks, canonical, first_difference};
use super::masked_stream;
use super::transport::{Body, End, Transport, TransportError, WireRequest, WireResponse};
use super::{BoxFuture, TimeoutKind};
use crate::base::digest::sha256;

/// The version of the format.
const VERSION: u32 = 1;

/// The secret of fence tags while recording and playing, so that they are the same in both.
pub const FENCE_SECRET: &str = "cassette";

/// The response's headers that are kept.
const KEPT_HEADERS: &[&str] = &[
    "content-type",
    "retry-after",
    "retry-after-ms",
    "date",
    "location",
    "x-request-id",
    "x-generation-id",
    "x-dashscope-request-id",
];

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The version of the format.
    pub v: u32,
    /// Which program wrote it.
    pub created_by: String,
    /// The server that was asked.
    pub base_url: String,
    /// The model that was asked.
    pub model: String,
    /// The window that the server was seen to serve.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub served_window: Option<u64>,
    /// The secret of fence tags.
    pub fence_secret: String,
}

/// One exchange.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exchange {
    n: u32,
    request: RecordedRequest,
    /// Absent where no answer came.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    response: Option<RecordedResponse>,
    /// Why none came.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedRequest {
    method: String,
    path: String,
    body: Value,
    sha256: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedResponse {
    status: u16,
    headers: Vec<(String, String)>,
    chunks: Vec<Chunk>,
    end: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Chunk {
    dt_ms: u64,
    b64: String,
}

/// Why a cassette cannot be played.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CassetteError {
    /// Nothing is in it.
    #[error("the cassette is empty")]
    Empty,
    /// A line is not what it should be.
    #[error("line {line} of the cassette: {problem}")]
    Line {
        /// Which, from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// A request is not the one that was recorded.
    #[error("the request was edited after it was recorded; its `sha256` is that of another body")]
    Edited {
        /// In which line, from 1.
        line: usize,
    },
    /// Another version wrote it.
    #[error("the cassette has version {0} of the format and this program reads {VERSION}")]
    Version(u32),
}

/// Passes requests on and writes down what comes back.
pub struct Recorder {
    inner: Arc<dyn Transport>,
    masks: Arc<Masks>,
    sink: Arc<Mutex<Sink>>,
}

struct Sink {
    out: Box<dyn Write + Send>,
    next: u32,
    /// The first failure to write: a cassette with a hole must not pass for a whole one.
    failed: Option<String>,
}

impl Sink {
    fn line<T: Serialize>(&mut self, value: &T) {
        if self.failed.is_some() {
            return;
        }
        let mut text = serde_json::to_string(value).expect("the cassette's types always serialise");
        text.push('\n');
        if let Err(error) = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()) {
            self.failed = Some(error.to_string());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recorder {
    /// Begins a cassette with its header.
    pub fn new(
        inner: Arc<dyn Transport>,
        out: Box<dyn Write + Send>,
        masks: Masks,
        base_url: &str,
        model: &str,
        served_window: Option<u64>,
    ) -> Recorder {
        let mut sink = Sink { out, next: 1, failed: None };
        sink.line(&Header {
            v: VERSION,
            created_by: concat!("qwen-run ", env!("CARGO_PKG_VERSION")).to_owned(),
            base_url: masks.hide_secrets(base_url),
            model: model.to_owned(),
            served_window,
            fence_secret: FENCE_SECRET.to_owned(),
        });
        Recorder { inner, masks: Arc::new(masks), sink: Arc::new(Mutex::new(sink)) }
    }
}

impl Transport for Recorder {
    fn send<'a>(&'a self, request: WireRequest) -> BoxFuture<'a, Result<WireResponse, TransportError>> {
        Box::pin(async move {
            let body = canonical(&request.body, &self.masks);
            let recorded = RecordedRequest {
                method: request.method.name().to_owned(),
                path: request.operation.to_owned(),
                sha256: sha256(body.to_string().as_bytes()),
                body,
            };
            let n = {
                let mut sink = lock(&self.sink);
                sink.next += 1;
                sink.next - 1
            };
            let mut pending = Pending {
                sink: self.sink.clone(),
                masks: self.masks.clone(),
                exchange: Some(Exchange { n, request: recorded, response: None, error: None }),
                body: Vec::new(),
                chunks: Vec::new(),
            };
            match self.inner.send(request).await {
                Ok(response) => {
                    let has_date = response.header("retry-after").is_some();
                    let headers = response
                        .headers
                        .iter()
                        .filter(|(name, _)| KEPT_HEADERS.contains(&name.as_str()) && (name != "date" || has_date))
                        .map(|(name, value)| (name.clone(), self.masks.hide_secrets(value)))
                        .collect();
                    if let Some(exchange) = &mut pending.exchange {
                        exchange.response = Some(RecordedResponse {
                            status: response.status,
                            headers,
                            chunks: Vec::new(),
                            end: end_name(End::Cancelled).to_owned(),
                        });
                    }
                    let body = RecordedBody { inner: response.body, pending, last: Instant::now() };
                    Ok(WireResponse { body: Box::new(body), ..response })
                }
                Err(error) => {
                    pending.fail(&error);
                    Err(error)
                }
            }
        })
    }

    fn turn<'a>(&'a self, tokens: u64) -> BoxFuture<'a, ()> {
        self.inner.turn(tokens)
    }

    fn pause(&self, wait: Duration, refused: bool) -> Duration {
        self.inner.pause(wait, refused)
    }

    fn failure(&self) -> Option<String> {
        lock(&self.sink).failed.clone()
    }
}

/// An exchange that is not written yet. Dropped, it is written as it is: the run may have been cancelled.
struct Pending {
    sink: Arc<Mutex<Sink>>,
    masks: Arc<Masks>,
    exchange: Option<Exchange>,
    /// The answer's bytes so far.
    body: Vec<u8>,
    /// When each piece of them came, and how long it is.
    chunks: Vec<(u64, usize)>,
}

impl Pending {
    fn fail(&mut self, error: &TransportError) {
        if let Some(exchange) = &mut self.exchange {
            exchange.error = Some(match error {
                TransportError::ConnectTimeout(words) => format!("connect: {}", self.masks.hide_secrets(words)),
                TransportError::Network(words) => format!("network: {}", self.masks.hide_secrets(words)),
                TransportError::Timeout(kind) => end_name(End::Timeout(*kind)).to_owned(),
                TransportError::Setup { message, .. } => format!("setup: {}", self.masks.hide_secrets(message)),
                TransportError::Mismatch(_) => return,
            });
        }
        self.write();
    }

    fn end(&mut self, end: End) {
        if let Some(response) = self.exchange.as_mut().and_then(|exchange| exchange.response.as_mut()) {
            end_name(end).clone_into(&mut response.end);
        }
        self.write();
    }

    fn write(&mut self) {
        let Some(mut exchange) = self.exchange.take() else { return };
        if let Some(response) = &mut exchange.response {
            // Of the whole: a secret may be across two pieces.
            self.masks.overwrite(&mut self.body);
            let (times, mut lengths): (Vec<u64>, Vec<usize>) = self.chunks.drain(..).unzip();
            if !self.masks.secrets.is_empty() {
                masked_stream::mask(&self.masks, &mut self.body, &mut lengths);
            }
            let mut rest = self.body.as_slice();
            for (dt_ms, length) in times.into_iter().zip(lengths) {
                let (piece, behind) = rest.split_at(length);
                rest = behind;
                response.chunks.push(Chunk { dt_ms, b64: STANDARD.encode(piece) });
            }
        }
        lock(&self.sink).line(&exchange);
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(exchange) = &mut self.exchange
            && exchange.response.is_none()
            && exchange.error.is_none()
        {
            // Nobody waited for the answer any more, most likely because a timer ran out.
            exchange.error = Some(end_name(End::Timeout(TimeoutKind::FirstByte)).to_owned());
        }
        self.write();
    }
}

struct RecordedBody {
    inner: Box<dyn Body>,
    pending: Pending,
    last: Instant,
}

impl Body for RecordedBody {
    fn next<'a>(&'a mut self) -> BoxFuture<'a, Result<Option<Vec<u8>>, TransportError>> {
        Box::pin(async move {
            let result = self.inner.next().await;
            match &result {
                Ok(Some(bytes)) => {
                    let dt_ms = u64::try_from(self.last.elapsed().as_millis()).unwrap_or(u64::MAX);
                    self.last = Instant::now();
                    self.pending.chunks.push((dt_ms, bytes.len()));
                    self.pending.body.extend_from_slice(bytes);
                }
                Ok(None) => self.pending.end(End::Eof),
                Err(_) => self.pending.end(End::Reset),
            }
            result
        })
    }

    fn abandon(&mut self, end: End) {
        self.inner.abandon(end);
        self.pending.end(end);
    }
}

fn end_name(end: End) -> &'static str {
    match end {
        End::Eof => "eof",
        End::Enough => "enough",
        End::Reset => "rst",
        End::Timeout(TimeoutKind::Connect) => "timeout:connect",
        End::Timeout(TimeoutKind::FirstByte) => "timeout:first_byte",
        End::Timeout(TimeoutKind::Idle) => "timeout:idle",
        End::Timeout(TimeoutKind::Lifetime) => "timeout:lifetime",
        End::Timeout(TimeoutKind::Deadline) => "timeout:deadline",
        End::Cancelled => "cancelled",
    }
}

fn end_error(name: &str) -> Option<TransportError> {
    let kind = match name {
        "eof" | "enough" => return None,
        "timeout:connect" => TimeoutKind::Connect,
        "timeout:first_byte" => TimeoutKind::FirstByte,
        "timeout:idle" => TimeoutKind::Idle,
        "timeout:lifetime" => TimeoutKind::Lifetime,
        "timeout:deadline" => TimeoutKind::Deadline,
        _ => return Some(TransportError::Network("the connection broke in the recording".to_owned())),
    };
    Some(TransportError::Timeout(kind))
}

/// Answers requests from a cassette. It needs neither a network nor a key.
pub struct Player {
    header: Header,
    masks: Masks,
    exchanges: Vec<Exchange>,
    /// Which of them is next.
    next: Mutex<usize>,
}

/// Tells whether an operation asks what the server serves.
fn is_probe(operation: &str) -> bool {
    matches!(operation, "models" | "props")
}

impl Player {
    /// Reads a cassette.
    pub fn new(text: &str, masks: Masks) -> Result<Player, CassetteError> {
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let (_, first) = lines.next().ok_or(CassetteError::Empty)?;
        let version = serde_json::from_str::<Value>(first).ok().and_then(|header| header.get("v")?.as_u64());
        if let Some(other) = version.filter(|version| *version != u64::from(VERSION)) {
            return Err(CassetteError::Version(u32::try_from(other).unwrap_or(u32::MAX)));
        }
        let header: Header =
            serde_json::from_str(first).map_err(|error| CassetteError::Line { line: 1, problem: error.to_string() })?;
        let mut exchanges: Vec<Exchange> = Vec::new();
        for (index, line) in lines {
            let exchange: Exchange = serde_json::from_str(line)
                .map_err(|error| CassetteError::Line { line: index + 1, problem: error.to_string() })?;
            if let Some(response) = &exchange.response
                && response.chunks.iter().any(|chunk| STANDARD.decode(&chunk.b64).is_err())
            {
                return Err(CassetteError::Line { line: index + 1, problem: "a chunk is not base64".to_owned() });
            }
            // What a reader sees is what is compared.
            if sha256(exchange.request.body.to_string().as_bytes()) != exchange.request.sha256 {
                return Err(CassetteError::Edited { line: index + 1 });
            }
            exchanges.push(exchange);
        }
        // Requests in parallel are written when their answers end.
        exchanges.sort_by_key(|exchange| exchange.n);
        Ok(Player { header, masks, exchanges, next: Mutex::new(0) })
    }

    /// Returns the first line: the server and the model to configure the client for.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns how many exchanges were not asked for.
    #[cfg(test)]
    pub fn left(&self) -> usize {
        self.exchanges.len() - (*lock(&self.next)).min(self.exchanges.len())
    }

    fn find(&self, request: &WireRequest) -> Result<&Exchange, TransportError> {
        let method = request.method.name();
        // A look at what the server serves may happen next to anything else.
        if is_probe(request.operation) {
            return self
                .exchanges
                .iter()
                .find(|exchange| exchange.request.path == request.operation)
                .ok_or_else(|| TransportError::Mismatch(format!("{} was not requested", request.operation)));
        }
        let mut next = lock(&self.next);
        while self.exchanges.get(*next).is_some_and(|exchange| is_probe(&exchange.request.path)) {
            *next += 1;
        }
        let Some(exchange) = self.exchanges.get(*next) else {
            return Err(TransportError::Mismatch(format!(
                "the cassette ends after {} requests and one more is made",
                self.exchanges.len()
            )));
        };
        let recorded = &exchange.request;
        if recorded.method != method || recorded.path != request.operation {
            return Err(TransportError::Mismatch(format!(
                "request {} was {} {} and is {method} {} now",
                exchange.n, recorded.method, recorded.path, request.operation
            )));
        }
        let body = canonical(&request.body, &self.masks);
        if sha256(body.to_string().as_bytes()) != recorded.sha256 {
            let place = first_difference(&recorded.body, &body).unwrap_or_else(|| "it differs".to_owned());
            return Err(TransportError::Mismatch(format!("request {}: {place}", exchange.n)));
        }
        *next += 1;
        Ok(exchange)
    }
}

impl Transport for Player {
    fn send<'a>(&'a self, request: WireRequest) -> BoxFuture<'a, Result<WireResponse, TransportError>> {
        Box::pin(async move {
            let exchange = self.find(&request)?;
            let Some(response) = &exchange.response else {
                let error = exchange.error.as_deref().unwrap_or_default();
                return Err(match error.split_once(": ") {
                    Some(("connect", words)) => TransportError::ConnectTimeout(words.to_owned()),
                    Some(("setup", words)) => TransportError::Setup { message: words.to_owned(), hint: None },
                    Some(("network", words)) => TransportError::Network(words.to_owned()),
                    Some(_) | None => end_error(error).unwrap_or_else(|| TransportError::Network(error.to_owned())),
                });
            };
            let chunks = response
                .chunks
                .iter()
                .map(|chunk| STANDARD.decode(&chunk.b64).expect("Player::new refuses chunks that are not base64"));
            Ok(WireResponse {
                status: response.status,
                headers: response.headers.clone(),
                body: Box::new(PlayedBody {
                    chunks: chunks.collect::<Vec<_>>().into_iter(),
                    end: end_error(&response.end),
                }),
            })
        })
    }

    /// Nobody has to wait twice.
    fn pause(&self, _: Duration, _: bool) -> Duration {
        Duration::ZERO
    }
}

/// Returns a body of these bytes.
pub(super) fn played(bytes: Vec<u8>) -> Box<dyn Body> {
    Box::new(PlayedBody { chunks: vec![bytes].into_iter(), end: None })
}

struct PlayedBody {
    chunks: std::vec::IntoIter<Vec<u8>>,
    end: Option<TransportError>,
}

impl Body for PlayedBody {
    fn next<'a>(&'a mut self) -> BoxFuture<'a, Result<Option<Vec<u8>>, TransportError>> {
        let result = match (self.chunks.next(), &self.end) {
            (Some(bytes), _) => Ok(Some(bytes)),
            (None, None) => Ok(None),
            (None, Some(error)) => Err(error.clone()),
        };
        Box::pin(std::future::ready(result))
    }

    fn abandon(&mut self, _: End) {}
}
