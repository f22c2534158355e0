//! Provides a scripted chat-completions server on loopback: it plays its replies in order and keeps the requests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

/// What the server does with one request.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// Streams a turn: text and calls.
    Turn { text: String, calls: Vec<(String, Value)> },
    /// Answers with a status, extra headers and a body.
    Status(u16, Vec<(&'static str, String)>, String),
    /// Plays the reply if the request has at most so many bytes; else refuses it as too long, and plays it for the next
    /// one. A request for a summary does not use the reply up.
    Within(usize, Box<Reply>),
    /// Streams exactly these bytes, then closes.
    Bytes(Vec<u8>),
    /// Sends the response's head and then nothing until the client goes away.
    Stall,
    /// Closes the connection without a word.
    Hangup,
}

/// The model says something and is done.
pub(crate) fn say(text: &str) -> Reply {
    Reply::Turn { text: text.into(), calls: Vec::new() }
}

/// The model makes one call.
pub(crate) fn call(name: &str, arguments: Value) -> Reply {
    calls([(name, arguments)])
}

/// The model makes several calls in one turn.
pub(crate) fn calls<'a>(calls: impl IntoIterator<Item = (&'a str, Value)>) -> Reply {
    Reply::Turn { text: String::new(), calls: calls.into_iter().map(|(name, args)| (name.into(), args)).collect() }
}

/// Returns a chunk of a streamed answer as a server sends it.
pub(crate) fn event(delta: &Value) -> String {
    format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta}]}))
}

/// A server that lives as long as this value.
pub(crate) struct Server {
    port: u16,
    state: Arc<State>,
}

/// Makes an answer of a request's body.
type Maker = Box<dyn Fn(&Value) -> Reply + Send + Sync>;

/// Answers a request by its head and body; `None` leaves it to the others.
type Router = Box<dyn Fn(&str, &[u8]) -> Option<Reply> + Send + Sync>;

#[derive(Default)]
struct State {
    replies: Mutex<std::collections::VecDeque<Reply>>,
    /// What is played by the prompt instead of in order.
    scripts: Vec<(String, Vec<Reply>)>,
    /// What answers before anything else.
    router: Option<Router>,
    /// What makes each answer of its request, if that is how they are made.
    maker: Option<Maker>,
    /// How many requests at a time are answered; others are refused with 429.
    places: Option<usize>,
    /// How many are being answered.
    inside: AtomicUsize,
    /// How many were refused.
    refused: AtomicUsize,
    requests: Mutex<Vec<Value>>,
    bodies: Mutex<Vec<Vec<u8>>>,
    heads: Mutex<Vec<String>>,
    connections: Mutex<usize>,
    arrived: Condvar,
    is_over: AtomicBool,
}

impl Server {
    /// Starts a server that plays the replies in order; a request beyond the last one gets status 418.
    pub(crate) fn start(replies: impl IntoIterator<Item = Reply>) -> Server {
        Server::with(State { replies: Mutex::new(replies.into_iter().collect()), ..State::default() })
    }

    /// Starts a server that plays to each conversation the script whose prompt it contains: the first reply to the
    /// first request, the second one to the request that has one answer, and so on.
    pub(crate) fn by_prompt(scripts: Vec<(String, Vec<Reply>)>) -> Server {
        Server::with(State { scripts, ..State::default() })
    }

    /// Starts a server that makes each answer of its request.
    pub(crate) fn answering(maker: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Server {
        Server::with(State { maker: Some(Box::new(maker)), ..State::default() })
    }

    /// The same, and `router` answers before it, also what no chat is.
    pub(crate) fn routed(
        router: impl Fn(&str, &[u8]) -> Option<Reply> + Send + Sync + 'static,
        maker: impl Fn(&Value) -> Reply + Send + Sync + 'static,
    ) -> Server {
        Server::with(State { router: Some(Box::new(router)), maker: Some(Box::new(maker)), ..State::default() })
    }

    /// The same, with so many places: a request for which there is none is refused, and an answer takes a moment.
    pub(crate) fn with_places(places: usize, maker: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Server {
        Server::with(State { maker: Some(Box::new(maker)), places: Some(places), ..State::default() })
    }

    /// Returns how many requests were refused.
    pub(crate) fn refused(&self) -> usize {
        self.state.refused.load(Ordering::SeqCst)
    }

    fn with(state: State) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let port = listener.local_addr().expect("a bound socket has an address").port();
        let state = Arc::new(state);
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if shared.is_over.load(Ordering::SeqCst) {
                    break;
                }
                let state = Arc::clone(&shared);
                *state.connections.lock().unwrap() += 1;
                std::thread::spawn(move || {
                    let _gone = serve(&stream, &state);
                });
            }
        });
        Server { port, state }
    }

    /// Plays these replies from now on, and forgets the requests so far.
    pub(crate) fn restart(&self, replies: impl IntoIterator<Item = Reply>) {
        *self.state.replies.lock().unwrap() = replies.into_iter().collect();
        self.state.requests.lock().unwrap().clear();
        self.state.bodies.lock().unwrap().clear();
        self.state.heads.lock().unwrap().clear();
    }

    /// Returns the base URL for `QWEN_BASE_URL`.
    pub(crate) fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    /// Returns the bodies of the requests so far.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.state.requests.lock().unwrap().clone()
    }

    /// Returns the messages of a request as JSON.
    pub(crate) fn messages(&self, request: usize) -> String {
        self.requests()[request]["messages"].to_string()
    }

    /// Returns the raw bodies of the requests so far.
    pub(crate) fn bodies(&self) -> Vec<Vec<u8>> {
        self.state.bodies.lock().unwrap().clone()
    }

    /// Returns the heads (request line and headers) of the requests so far.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.state.heads.lock().unwrap().clone()
    }

    /// Returns how many connections were opened.
    pub(crate) fn connections(&self) -> usize {
        *self.state.connections.lock().unwrap()
    }

    /// Waits until `count` requests have arrived.
    pub(crate) fn wait_for(&self, count: usize) {
        let requests = self.state.requests.lock().unwrap();
        let (_guard, timeout) = self
            .state
            .arrived
            .wait_timeout_while(requests, Duration::from_secs(60), |requests| requests.len() < count)
            .unwrap();
        assert!(!timeout.timed_out(), "request {count} never came");
    }
}

impl Drop for Server {
    /// Ends the thread that waits for connections, and with it the listening socket: all tests can be one process.
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::SeqCst);
        let _woken = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl State {
    /// Tells whether there are more requests than places, the one that asks included.
    fn is_over_full(&self) -> bool {
        self.places.is_some_and(|places| self.inside.load(Ordering::SeqCst) > places)
    }

    /// Returns the reply of the script to this request, if it is one of a script's conversation.
    fn scripted(&self, body: &[u8]) -> Option<Reply> {
        let request: Value = serde_json::from_slice(body).ok()?;
        let messages = request["messages"].as_array()?;
        let has = |prompt: &str| {
            messages.iter().any(|message| message["role"] == "user" && message.to_string().contains(prompt))
        };
        let (_, replies) = self.scripts.iter().find(|(prompt, _)| has(prompt))?;
        replies.get(messages.iter().filter(|message| message["role"] == "assistant").count()).cloned()
    }
}

/// A place of the server, while a request is in it.
struct Place<'s>(&'s State);

impl Place<'_> {
    fn take(state: &State) -> Place<'_> {
        state.inside.fetch_add(1, Ordering::SeqCst);
        Place(state)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

fn serve(stream: &TcpStream, state: &State) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream.try_clone()?;
    loop {
        let mut head = String::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line == "\r\n" {
                break;
            }
            head.push_str(&line);
        }
        let length = head
            .lines()
            .find_map(|line| {
                line.to_ascii_lowercase().strip_prefix("content-length:").map(|v| v.trim().parse().unwrap())
            })
            .unwrap_or(0usize);
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        if let Some(routed) = state.router.as_ref().and_then(|route| route(&head, &body)) {
            match routed {
                Reply::Status(status, headers, body) => whole(&mut writer, status, &headers, &body)?,
                Reply::Stall => {
                    let mut nothing = [0; 1];
                    while reader.read(&mut nothing)? > 0 {}
                    return Ok(());
                }
                Reply::Turn { .. } | Reply::Within(..) | Reply::Bytes(_) | Reply::Hangup => return Ok(()),
            }
            continue;
        }
        if head.starts_with("GET ") {
            let models = json!({"object": "list", "data": [{"id": "scripted", "object": "model"}]}).to_string();
            whole(&mut writer, 200, &[], &models)?;
            continue;
        }
        let place = Place::take(state);
        let made = state.maker.as_ref().map(|make| match state.is_over_full() {
            true => {
                state.refused.fetch_add(1, Ordering::SeqCst);
                Reply::Status(429, vec![("retry-after", "0.05".into())], r#"{"error":{"message":"slow down"}}"#.into())
            }
            false => make(&serde_json::from_slice(&body).unwrap_or(Value::Null)),
        });
        let reply = made.or_else(|| state.scripted(&body)).or_else(|| state.replies.lock().unwrap().pop_front());
        if state.places.is_some() && !matches!(reply, Some(Reply::Status(..))) {
            // Answers overlap, as those of a real server do.
            std::thread::sleep(Duration::from_millis(10));
        }
        // A place is free before the client has read the answer that was made in it.
        drop(place);
        let number = {
            let mut requests = state.requests.lock().unwrap();
            state.heads.lock().unwrap().push(head);
            state.bodies.lock().unwrap().push(body.clone());
            requests.push(serde_json::from_slice(&body).unwrap_or(Value::Null));
            state.arrived.notify_all();
            requests.len()
        };
        let reply = match reply {
            Some(Reply::Within(most, reply)) => {
                let instead = if body.len() > most {
                    let error = r#"{"error":{"message":"the request exceeds the available context size","code":400}}"#;
                    Some(Reply::Status(400, vec![], error.into()))
                } else {
                    String::from_utf8_lossy(&body).contains("Only the summary, no call.").then(|| say("All was read."))
                };
                match instead {
                    Some(instead) => {
                        state.replies.lock().unwrap().push_front(Reply::Within(most, reply));
                        instead
                    }
                    None => *reply,
                }
            }
            Some(reply) => reply,
            None => Reply::Status(418, vec![], r#"{"error":{"message":"the script is over"}}"#.into()),
        };
        match reply {
            Reply::Within(..) => unreachable!("it was opened above"),
            Reply::Turn { text, calls } => stream_turn(&mut writer, number, &text, &calls)?,
            Reply::Status(status, headers, body) => whole(&mut writer, status, &headers, &body)?,
            Reply::Bytes(bytes) => {
                writer.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")?;
                writer.write_all(&bytes)?;
                return Ok(());
            }
            Reply::Stall => {
                writer.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")?;
                let mut nothing = [0; 1];
                while reader.read(&mut nothing)? > 0 {}
                return Ok(());
            }
            Reply::Hangup => return Ok(()),
        }
    }
}

fn whole(writer: &mut TcpStream, status: u16, headers: &[(&str, String)], body: &str) -> std::io::Result<()> {
    let mut head =
        format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    writer.write_all(format!("{head}\r\n{body}").as_bytes())
}

fn stream_turn(writer: &mut TcpStream, number: usize, text: &str, calls: &[(String, Value)]) -> std::io::Result<()> {
    writer.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")?;
    let mut send = |data: String| -> std::io::Result<()> {
        let event = format!("data: {data}\n\n");
        write!(writer, "{:x}\r\n{event}\r\n", event.len())
    };
    let chunk = |delta: Value, finish: Option<&str>| {
        json!({"id": format!("r{number}"), "object": "chat.completion.chunk", "created": 1, "model": "scripted",
               "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
        .to_string()
    };
    send(chunk(json!({"role": "assistant", "content": ""}), None))?;
    if !text.is_empty() {
        send(chunk(json!({"content": text}), None))?;
    }
    for (index, (name, arguments)) in calls.iter().enumerate() {
        let id = format!("call_{number}_{index}");
        send(chunk(
            json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}]}),
            None,
        ))?;
        send(chunk(json!({"tool_calls": [{"index": index, "function": {"arguments": arguments.to_string()}}]}), None))?;
    }
    send(chunk(json!({}), Some(if calls.is_empty() { "stop" } else { "tool_calls" })))?;
    send(
        json!({"id": "u", "choices": [], "usage": {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050,
               "prompt_tokens_details": {"cached_tokens": 800}}})
        .to_string(),
    )?;
    send("[DONE]".into())?;
    writer.write_all(b"0\r\n\r\n")
}
