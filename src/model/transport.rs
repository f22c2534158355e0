//! Transfers the bytes of one exchange with a server, over HTTP or from a cassette.

use std::time::Duration;

use super::{BoxFuture, TimeoutKind};

/// A request as it goes out. It holds no credentials: the transport that speaks to a server adds them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireRequest {
    /// The method.
    pub method: Method,
    /// The whole URL.
    pub url: String,
    /// What is after the base URL, for example `chat/completions`: what a cassette goes by.
    pub operation: &'static str,
    /// Headers next to authorization; the content type is JSON unless one is named.
    pub headers: Vec<(String, String)>,
    /// The body; empty for `GET`.
    pub body: Vec<u8>,
}

/// The methods that are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// `GET`.
    Get,
    /// `POST`.
    Post,
    /// `DELETE`.
    Delete,
}

impl Method {
    /// Returns the method's name.
    pub fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Delete => "DELETE",
        }
    }
}

/// What came back, up to the first byte of the body.
pub struct WireResponse {
    /// The status.
    pub status: u16,
    /// The headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The rest.
    pub body: Box<dyn Body>,
}

impl WireResponse {
    /// Returns a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }
}

/// Returns a header of a list with names in lower case.
pub fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// A body, read as it arrives.
pub trait Body: Send {
    /// Returns the next bytes; `None` at the end.
    fn next<'a>(&'a mut self) -> BoxFuture<'a, Result<Option<Vec<u8>>, TransportError>>;

    /// Tells why the reader stops before the end. The body is dropped afterwards.
    fn abandon(&mut self, end: End);
}

/// How the reading of a body ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// At the end of the bytes.
    Eof,
    /// At `[DONE]`, or with an error in the stream: nothing more was wanted.
    Enough,
    /// The connection broke.
    Reset,
    /// A timer ran out.
    Timeout(TimeoutKind),
    /// The run stopped waiting.
    Cancelled,
}

/// Why no bytes came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransportError {
    /// No connection within the time.
    ConnectTimeout(String),
    /// No connection, or it broke.
    Network(String),
    /// A timer of the reader ran out; only a cassette tells this, of the time when it was recorded.
    Timeout(TimeoutKind),
    /// The certificate, the proxy or the request itself cannot work: trying again does not help.
    Setup {
        /// What is wrong.
        message: String,
        /// What to do.
        hint: Option<String>,
    },
    /// The cassette holds another request; the first difference.
    Mismatch(String),
}

/// Carries requests to something that answers.
pub trait Transport: Send + Sync {
    /// Sends a request and returns the answer's head.
    fn send<'a>(&'a self, request: WireRequest) -> BoxFuture<'a, Result<WireResponse, TransportError>>;

    /// Waits until it is the turn of a request of about so many tokens: at once, but for one of a batch.
    fn turn<'a>(&'a self, _tokens: u64) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Returns how long a wait between two tries really takes: none in a replay. `refused`: the server asks for fewer
    /// requests.
    fn pause(&self, wait: Duration, _refused: bool) -> Duration {
        wait
    }

    /// Returns what the next answer costs as a part of the usual price; `None` if nobody knows.
    fn rate(&self) -> Option<f64> {
        Some(1.0)
    }

    /// Returns why the cassette that is being written is incomplete; `None` where nothing is, or all of it is whole.
    fn failure(&self) -> Option<String> {
        None
    }
}
