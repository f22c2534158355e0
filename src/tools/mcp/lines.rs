//! Exchanges JSON-RPC with a program over its standard input and output: one message per line.
//!
//! Any fault of a server must cost one clear message: a line without end, a flood, an answer that is not a message.
//! Faults are noted in [`Faults`] before the connection ends, so that a pending request can report them.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::RoleClient;
use rmcp::model::{ErrorCode, ErrorData, JsonRpcError, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};

/// The largest message: the same as over HTTP.
pub(super) const LARGEST: usize = 16 << 20;

/// Maximum messages between two answers: more is a flood.
const FLOOD: usize = 20_000;

/// Maximum lines that are not messages: some servers print a greeting, none prints this much.
const GARBAGE: usize = 10_000;

/// What a server did wrong, for the message about it.
#[derive(Clone, Default)]
pub(super) struct Faults {
    noted: Arc<Mutex<Noted>>,
}

#[derive(Default)]
struct Noted {
    fault: Option<String>,
    garbage: Option<String>,
}

impl Faults {
    /// Notes why the connection ends; the first reason counts.
    pub(super) fn note(&self, fault: impl Into<String>) {
        self.lock().fault.get_or_insert_with(|| fault.into());
    }

    pub(super) fn note_garbage(&self, line: &[u8]) {
        let head = &line[..line.len().min(1_000)];
        self.lock().garbage.get_or_insert_with(|| super::shown(&String::from_utf8_lossy(head), 120));
    }

    /// Returns why the connection ended, as far as it is known.
    pub(super) fn why(&self) -> Option<String> {
        self.lock().fault.clone()
    }

    /// Returns a part of a message about what was printed besides messages; empty if nothing was.
    pub(super) fn garbage(&self) -> String {
        let noted = self.lock();
        noted
            .garbage
            .as_ref()
            .map(|line| format!("; it printed a line that is not a message: {line}"))
            .unwrap_or_default()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Writer = Arc<tokio::sync::Mutex<Option<Box<dyn AsyncWrite + Send + Unpin>>>>;

/// The two pipes of a program.
pub(super) struct Lines {
    read: BufReader<Box<dyn AsyncRead + Send + Unpin>>,
    /// The line so far: `receive` may be dropped and called again in the middle of one.
    line: Vec<u8>,
    write: Writer,
    waiting: VecDeque<RxJsonRpcMessage<RoleClient>>,
    meter: Meter,
    garbage: usize,
    faults: Faults,
}

/// Counts what nobody asked for.
#[derive(Default)]
pub(super) struct Meter {
    since_answer: usize,
}

impl Meter {
    /// Tells whether a message is one too many.
    pub(super) fn is_flood(&mut self, message: &RxJsonRpcMessage<RoleClient>, faults: &Faults) -> bool {
        let is_answer = matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_));
        self.since_answer = if is_answer { 0 } else { self.since_answer + 1 };
        if self.since_answer > FLOOD {
            faults.note(format!("it sent more than {FLOOD} unrequested messages"));
        }
        self.since_answer > FLOOD
    }
}

impl Lines {
    pub(super) fn new(
        read: Box<dyn AsyncRead + Send + Unpin>,
        write: Box<dyn AsyncWrite + Send + Unpin>,
        faults: Faults,
    ) -> Lines {
        Lines {
            read: BufReader::with_capacity(64 << 10, read),
            line: Vec::new(),
            write: Arc::new(tokio::sync::Mutex::new(Some(write))),
            waiting: VecDeque::new(),
            meter: Meter::default(),
            garbage: 0,
            faults,
        }
    }

    /// Reads to the end of a line; `None` at the end of the stream, or where the line is too long.
    async fn whole_line(&mut self) -> Option<()> {
        loop {
            let available = match self.read.fill_buf().await {
                Ok(available) => available,
                Err(error) => {
                    self.faults.note(format!("its standard output cannot be read: {error}"));
                    return None;
                }
            };
            if available.is_empty() {
                return None;
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(available.len(), |end| end + 1);
            if self.line.len() + taken > LARGEST {
                self.faults.note(format!("it sent a message of more than {} MiB", LARGEST >> 20));
                return None;
            }
            self.line.extend_from_slice(&available[..taken]);
            self.read.consume(taken);
            if end.is_some() {
                return Some(());
            }
        }
    }

    /// Takes one line apart into messages.
    fn take_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let text = line.trim_ascii();
        if text.is_empty() {
            return;
        }
        if text[0] == b'[' {
            // A batch, as one version of the protocol had them.
            match serde_json::from_slice::<Vec<Value>>(text) {
                Ok(items) => items.into_iter().for_each(|item| self.take_value(item)),
                Err(_) => self.note_garbage(text),
            }
            return;
        }
        match serde_json::from_slice::<RxJsonRpcMessage<RoleClient>>(text) {
            Ok(message) => self.waiting.push_back(message),
            Err(_) => match serde_json::from_slice::<Value>(text) {
                Ok(value) => self.take_value(value),
                Err(_) => self.note_garbage(text),
            },
        }
    }

    fn take_value(&mut self, value: Value) {
        match message_of(value) {
            Ok(message) => self.waiting.push_back(message),
            Err(text) => self.note_garbage(text.as_bytes()),
        }
    }

    fn note_garbage(&mut self, text: &[u8]) {
        self.garbage += 1;
        self.faults.note_garbage(text);
    }
}

/// Reads a message; an invalid answer becomes an error for the request that waits for it.
pub(super) fn message_of(value: Value) -> Result<RxJsonRpcMessage<RoleClient>, String> {
    let id = value.get("id").and_then(|id| serde_json::from_value::<RequestId>(id.clone()).ok());
    let is_answer = value.get("result").is_some() || value.get("error").is_some();
    match serde_json::from_value(value.clone()) {
        Ok(message) => Ok(message),
        Err(problem) => match id.filter(|_| is_answer) {
            Some(id) => {
                let said = super::shown(&value.to_string(), 200);
                let message = format!("the answer is not as the protocol says ({problem}): {said}");
                let error = ErrorData::new(ErrorCode::INVALID_REQUEST, message, None);
                Ok(JsonRpcMessage::Error(JsonRpcError::new(Some(id), error)))
            }
            None => Err(value.to_string()),
        },
    }
}

impl Transport<RoleClient> for Lines {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let writer = Arc::clone(&self.write);
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let mut held = writer.lock().await;
            let write = held.as_mut().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))?;
            write.write_all(&line).await?;
            write.flush().await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if let Some(message) = self.waiting.pop_front() {
                return (!self.meter.is_flood(&message, &self.faults)).then_some(message);
            }
            if self.garbage > GARBAGE {
                self.faults.note(format!("it printed more than {GARBAGE} lines that are not messages"));
                return None;
            }
            self.whole_line().await?;
            self.take_line();
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        // A write that hangs holds the lock; the pipe is then closed with its program.
        if let Ok(mut held) = self.write.try_lock() {
            *held = None;
        }
        Ok(())
    }
}
