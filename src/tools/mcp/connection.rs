//! Manages one connection to a server: the handshake, requests that always end, the shutdown.

use std::sync::Mutex;
use std::time::Duration;

use rmcp::model::{
    CancelledNotificationParam, ClientRequest, ErrorCode, PaginatedRequestParams, ServerPeerInfo, ServerResult,
};
use rmcp::service::{ClientInitializeError, PeerRequestOptions, RoleClient, RunningService, ServiceError, ServiceExt};
use rmcp::transport::IntoTransport;
use rmcp::transport::auth::WWWAuthenticateParams;
use rmcp::transport::streamable_http_client::{AuthRequiredError, InsufficientScopeError, StreamableHttpError};
use serde_json::Value;

use super::handler::{Handler, News};
use super::launch::Process;
use super::lines::Faults;
use super::tail::Tail;

/// Timeout of closing messages: that a request is cancelled, that the connection ends.
const FAREWELL: Duration = Duration::from_millis(200);

/// How long a program gets to end by itself.
const GRACE: Duration = Duration::from_millis(500);

/// How often its own time a request may take in all, however often the server says that it continues.
const PATIENCE: u32 = 6;

/// Maximum pages of a list.
const PAGES: usize = 100;

/// An open connection.
pub(super) struct Connection {
    service: RunningService<RoleClient, Handler>,
    process: Mutex<Option<Box<dyn Process>>>,
    pub(super) news: News,
    faults: Faults,
    tail: Tail,
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The server refused it.
    Refused { code: i32, message: String },
    /// The server asks for a token, or for one that may do more.
    Unauthorized(Ask),
    /// It timed out and was cancelled; with what it printed meanwhile that is not a message.
    Silent { time: Duration, garbage: String },
    /// The connection is gone.
    Gone(String),
}

/// The program behind a connection, if it is one.
#[derive(Default)]
pub(super) struct Behind {
    pub(super) process: Option<Box<dyn Process>>,
    pub(super) faults: Faults,
    pub(super) tail: Tail,
}

impl Connection {
    /// Shakes hands. The error is a sentence for the user, and whether a token is what is missing.
    pub(super) async fn open<T, E, A>(
        transport: T,
        handler: Handler,
        mut behind: Behind,
    ) -> Result<Connection, Unopened>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let news = handler.news.clone();
        match handler.serve(transport).await {
            Ok(service) => Ok(Connection {
                service,
                process: Mutex::new(behind.process),
                news,
                faults: behind.faults,
                tail: behind.tail,
            }),
            Err(error) => {
                let needs_token = error.auth_challenge().is_some() || error.is_authorization_required();
                let asks = needs_token.then(Ask::default);
                let gone = matches!(error, ClientInitializeError::TransportError { .. }) && behind.process.is_some();
                let gone = gone.then(|| "it ended before the handshake".to_owned());
                let mut why = behind.faults.why().or(gone).unwrap_or_else(|| said_of_handshake(&error));
                if let Some(process) = &mut behind.process {
                    why.push_str(&ending(process.as_mut()).await);
                }
                why.push_str(&behind.faults.garbage());
                why.push_str(&behind.tail.said(3));
                Err(Unopened { why, asks })
            }
        }
    }

    /// Returns what the server said of itself.
    pub(super) fn info(&self) -> Option<std::sync::Arc<ServerPeerInfo>> {
        self.service.peer().peer_info()
    }

    /// Tells whether nothing can be sent any more.
    pub(super) fn is_gone(&self) -> bool {
        self.service.is_closed() || self.service.peer().is_transport_closed()
    }

    /// Sends a request and waits for its answer, at most `idle` since the last report of progress.
    ///
    /// A request that times out, or whose future is dropped, is cancelled at the server.
    pub(super) async fn ask(&self, request: ClientRequest, idle: Duration) -> Result<Value, Trouble> {
        let peer = self.service.peer();
        let sent = tokio::time::timeout(idle, peer.send_cancellable_request(request, PeerRequestOptions::no_options()));
        let mut handle = match sent.await {
            Ok(Ok(handle)) => handle,
            Ok(Err(error)) => return Err(self.trouble(error).await),
            Err(_) => return Err(self.silent(idle)),
        };
        let progress = self.news.listen(handle.progress_token.clone());
        let mut pending = Pending { peer, id: Some(handle.id.clone()) };
        let most = tokio::time::sleep(idle.saturating_mul(PATIENCE));
        let silence = tokio::time::sleep(idle);
        tokio::pin!(most, silence);
        let answer = loop {
            tokio::select! {
                biased;
                answer = &mut handle.rx => break answer,
                () = &mut most => {
                    pending.cancel().await;
                    return Err(self.silent(idle.saturating_mul(PATIENCE)));
                }
                () = &mut silence => {
                    pending.cancel().await;
                    return Err(self.silent(idle));
                }
                () = progress.next() => silence.as_mut().reset(tokio::time::Instant::now() + idle),
            }
        };
        pending.id = None;
        match answer {
            Ok(Ok(result)) => Ok(plain(result)),
            Ok(Err(error)) => Err(self.trouble(error).await),
            Err(_) => Err(Trouble::Gone(self.last_words().await)),
        }
    }

    /// Asks for every page of a list and returns the entries under `key`, with what was wrong with the list.
    pub(super) async fn list(
        &self,
        key: &str,
        idle: Duration,
        request: impl Fn(Option<PaginatedRequestParams>) -> ClientRequest,
    ) -> Result<(Vec<Value>, Option<String>), Trouble> {
        let mut entries = Vec::new();
        let mut cursors: Vec<String> = Vec::new();
        for _ in 0..PAGES {
            let params =
                cursors.last().map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor.clone())));
            let mut page = self.ask(request(params), idle).await?;
            match page.get_mut(key).map(Value::take) {
                Some(Value::Array(items)) => entries.extend(items),
                Some(_) | None => return Ok((entries, Some(format!("its list has no `{key}`")))),
            }
            match page.get("nextCursor").and_then(Value::as_str).filter(|cursor| !cursor.is_empty()) {
                None => return Ok((entries, None)),
                Some(cursor) if cursors.iter().any(|seen| seen == cursor) => {
                    return Ok((
                        entries,
                        Some(format!("its list of {key} does not end: a page names an earlier one as the next")),
                    ));
                }
                Some(cursor) => cursors.push(cursor.to_owned()),
            }
        }
        Ok((entries, Some(format!("its list of {key} has more than {PAGES} pages; the rest is left out"))))
    }

    fn silent(&self, time: Duration) -> Trouble {
        Trouble::Silent { time, garbage: self.faults.garbage() }
    }

    async fn trouble(&self, error: ServiceError) -> Trouble {
        match error {
            ServiceError::McpError(error) => {
                Trouble::Refused { code: error.code.0, message: super::shown(&error.message, 2_000) }
            }
            ServiceError::Timeout { timeout } => self.silent(timeout),
            ServiceError::TransportClosed => Trouble::Gone(self.last_words().await),
            ServiceError::TransportSend(error) => {
                let message = causes(&error);
                if let Some(ask) = asks_for_token(&error) {
                    return Trouble::Unauthorized(ask);
                }
                // Over HTTP a request that fails says nothing about the next one; a pipe that breaks does.
                if self.process.lock().is_ok_and(|process| process.is_none()) {
                    return Trouble::Refused { code: 0, message };
                }
                Trouble::Gone(format!("it does not read its standard input: {message}{}", self.last_words().await))
            }
            other => {
                Trouble::Refused { code: ErrorCode::INTERNAL_ERROR.0, message: super::shown(&other.to_string(), 500) }
            }
        }
    }

    /// Says why the connection is gone.
    async fn last_words(&self) -> String {
        let process = self.process.lock().ok().and_then(|mut process| process.take());
        let mut words = self.faults.why().unwrap_or_else(|| "it has ended".to_owned());
        if let Some(mut process) = process {
            words.push_str(&ending(process.as_mut()).await);
        }
        words.push_str(&self.faults.garbage());
        words.push_str(&self.tail.said(3));
        words
    }

    /// Ends the connection: announces the end to the server, waits half a second, and then ends its process.
    pub(super) async fn close(self) {
        let Connection { mut service, process, .. } = self;
        let _late = service.close_with_timeout(FAREWELL).await;
        if let Ok(Some(mut process)) = process.into_inner() {
            let _late = tokio::time::timeout(GRACE, process.ended()).await;
        }
    }
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unopened {
    /// A sentence for the user.
    pub(super) why: String,
    /// How the server asks for a token, if that is why.
    pub(super) asks: Option<Ask>,
}

/// A pending request. Dropping it sends the server a cancellation.
struct Pending<'a> {
    peer: &'a rmcp::Peer<RoleClient>,
    id: Option<rmcp::model::RequestId>,
}

impl Pending<'_> {
    /// Tells the server, before anything else is sent.
    async fn cancel(&mut self) {
        if let Some(id) = self.id.take() {
            give_up(self.peer.clone(), id).await;
        }
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(give_up(self.peer.clone(), id));
    }
}

async fn give_up(peer: rmcp::Peer<RoleClient>, id: rmcp::model::RequestId) {
    let why = "the call was cancelled".to_owned();
    let params = CancelledNotificationParam::new(Some(id), Some(why));
    let _gone = tokio::time::timeout(FAREWELL, peer.notify_cancelled(params)).await;
}

/// How a server asks for a token.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ask {
    /// The scope that the token must have.
    pub(super) scope: Option<String>,
}

impl Ask {
    fn of_header(header: &str) -> Ask {
        let scope = url::Url::parse("http://localhost")
            .ok()
            .and_then(|base| WWWAuthenticateParams::parse(header, &base).scope)
            .map(|scope| scope.trim().to_owned());
        // What is in a command to copy must not be able to do anything else.
        let is_plain = |scope: &String| {
            (1..=500).contains(&scope.len())
                && scope.chars().all(|c| c.is_ascii_alphanumeric() || " :/._~+@-".contains(c))
        };
        Ask { scope: scope.filter(is_plain) }
    }

    /// Returns the command that helps.
    pub(super) fn command(&self, server: &str) -> String {
        match &self.scope {
            Some(scope) => format!("`qwen mcp auth {server} --scope '{scope}'`"),
            None => format!("`qwen mcp auth {server}`"),
        }
    }
}

/// Returns how the server asks for a token, if that is why a request failed.
fn asks_for_token(error: &(dyn std::error::Error + 'static)) -> Option<Ask> {
    let mut next = Some(error);
    while let Some(cause) = next {
        if let Some(required) = cause.downcast_ref::<AuthRequiredError>() {
            return Some(Ask::of_header(&required.www_authenticate_header));
        }
        if let Some(insufficient) = cause.downcast_ref::<InsufficientScopeError>() {
            return Some(Ask::of_header(&insufficient.www_authenticate_header));
        }
        next = cause.source();
    }
    None
}

/// Says how a program ended, if it has.
async fn ending(process: &mut dyn Process) -> String {
    match tokio::time::timeout(FAREWELL, process.ended()).await {
        Ok(Some(code)) => format!(" with exit code {code}"),
        Ok(None) => " by a signal".to_owned(),
        Err(_) => String::new(),
    }
}

fn plain(result: ServerResult) -> Value {
    serde_json::to_value(result).unwrap_or_default()
}

fn said_of_handshake(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::ConnectionClosed(_) => "it ended before the handshake".to_owned(),
        ClientInitializeError::JsonRpcError(error) => {
            format!("it refused the handshake: {}", super::shown(&error.message, 300))
        }
        ClientInitializeError::TransportError { error, .. } => causes(error),
        other => format!("the handshake failed: {}", super::shown(&other.to_string(), 300)),
    }
}

/// Writes an error with its causes, each once, without the addresses that it names.
pub(super) fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(cause) = next {
        // The library shows what is after this one, and does not hand it on as its cause.
        if let Some(StreamableHttpError::Client(behind)) = cause.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
            next = Some(behind);
            continue;
        }
        let own = cause.to_string();
        let text = own.split(" for url (").next().unwrap_or_default().to_owned();
        // Transport [a type's name] error: …
        let text = match text.split_once("] error: ") {
            Some((head, rest)) if head.starts_with("Transport [") => rest.to_owned(),
            Some(_) | None => text,
        };
        if !words.iter().any(|word| word.contains(&text)) {
            words.push(text);
        }
        next = cause.source();
    }
    super::shown(&words.join(": "), 400)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_that_is_shown_holds_nothing_that_a_shell_would_run() {
        let command = |header: &str| Ask::of_header(header).command("s");
        assert_eq!(command(r#"Bearer scope="mcp:a mcp:b""#), "`qwen mcp auth s --scope 'mcp:a mcp:b'`");
        for header in ["Bearer", r#"Bearer scope="""#, r#"Bearer scope="a'; rm -rf ~'""#, r#"Bearer scope="$(id)""#] {
            assert_eq!(command(header), "`qwen mcp auth s`", "{header}");
        }
    }
}
