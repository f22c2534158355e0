//! Serves tests: plays a script byte by byte on 127.0.0.1 and keeps the requests.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// One thing that the server does on a connection.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// Writes bytes.
    Write(Vec<u8>),
    /// Waits for ever.
    Stall,
    /// Resets the connection.
    Reset,
}

/// What the server does with one request; afterwards it closes.
pub(super) type Script = Vec<Step>;

/// A request as it arrived.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    pub(super) line: String,
    pub(super) headers: String,
    pub(super) body: Vec<u8>,
}

impl Seen {
    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

pub(super) struct TestServer {
    pub(super) url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: tokio::task::JoinHandle<()>,
}

impl TestServer {
    /// Plays one script a request, in order; a request too many gets a 418.
    pub(super) async fn play(scripts: Vec<Script>) -> TestServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = seen.clone();
        let task = tokio::spawn(async move {
            let mut scripts = scripts.into_iter();
            while let Ok((stream, _)) = listener.accept().await {
                let kept = kept.clone();
                let script = scripts.next().unwrap_or_else(|| respond(418, "text/plain", "one request too many"));
                tokio::spawn(async move {
                    let mut stream = stream;
                    let request = read_request(&mut stream).await;
                    kept.lock().unwrap().push(request);
                    run(stream, script).await;
                });
            }
        });
        TestServer { url, seen, task }
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn read_request(stream: &mut TcpStream) -> Seen {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let length = head
                .to_ascii_lowercase()
                .lines()
                .find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok())
                .unwrap_or(0);
            if bytes.len() >= end + 4 + length {
                let (line, headers) = head.split_once("\r\n").unwrap_or((&head, ""));
                return Seen {
                    line: line.to_owned(),
                    headers: headers.to_owned(),
                    body: bytes[end + 4..end + 4 + length].to_vec(),
                };
            }
        }
        match stream.read(&mut buffer).await {
            Ok(read) if read > 0 => bytes.extend_from_slice(&buffer[..read]),
            _ => return Seen::default(),
        }
    }
}

async fn run(mut stream: TcpStream, script: Script) {
    stream.set_nodelay(true).unwrap();
    for step in script {
        match step {
            Step::Write(bytes) => {
                if stream.write_all(&bytes).await.is_err() {
                    return;
                }
                // So that the reader gets each write on its own.
                tokio::task::yield_now().await;
            }
            Step::Stall => std::future::pending().await,
            Step::Reset => {
                // What was written must arrive first: a reset overtakes it.
                tokio::time::sleep(std::time::Duration::from_millis(30)).await;
                stream.set_zero_linger().unwrap();
                return;
            }
        }
    }
    let _ = stream.shutdown().await;
}

/// A whole response.
pub(super) fn respond(status: u16, kind: &str, body: &str) -> Script {
    respond_with(status, &format!("content-type: {kind}\r\n"), body.as_bytes())
}

/// A whole response with these header lines.
pub(super) fn respond_with(status: u16, headers: &str, body: &[u8]) -> Script {
    let head = format!("HTTP/1.1 {status} X\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n", body.len());
    vec![Step::Write([head.as_bytes(), body].concat())]
}

/// The head of a stream that ends with the connection.
pub(super) fn stream_head() -> Step {
    Step::Write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n".to_vec())
}

/// A stream of these pieces.
pub(super) fn stream(pieces: &[&str]) -> Script {
    let mut script = vec![stream_head()];
    script.extend(pieces.iter().map(|piece| Step::Write(piece.as_bytes().to_vec())));
    script
}

/// A chunk of text.
pub(super) fn text(words: &str) -> String {
    let chunk = serde_json::json!({"choices": [{"index": 0, "delta": {"content": words}, "finish_reason": null}]});
    format!("data: {chunk}\n\n")
}

/// A chunk that ends the answer.
pub(super) fn finish(reason: &str) -> String {
    let chunk = serde_json::json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]});
    format!("data: {chunk}\n\n")
}

/// The last line.
pub(super) const DONE: &str = "data: [DONE]\n\n";

/// A complete answer of text.
pub(super) fn says(words: &str) -> Script {
    stream(&[&text(words), &finish("stop"), DONE])
}
