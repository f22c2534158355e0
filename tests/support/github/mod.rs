//! Provides a server on loopback that stands for GitHub, over a real bare repository and with state.
//!
//! Each request and each answer is compared with GitHub's own description (`fixtures/github/openapi.json`); a
//! difference fails the test that the server belongs to.

mod description;
mod graphql;
mod http;
mod patches;
mod rest;
mod state;

use std::collections::VecDeque;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};

use description::DESCRIPTION;
use http::{Answer, Request};
use state::State;
pub(crate) use state::{Issue, TOKEN, Thread};

/// What the server does to a request instead of answering it, or besides.
#[derive(Debug, Clone)]
pub(crate) enum Trouble {
    /// It answers with a status, headers and a message, and does nothing.
    Status(u16, Vec<(&'static str, String)>, &'static str),
    /// It does what was asked and closes the connection without an answer.
    LostAnswer,
}

/// A server that lives as long as this value.
pub(crate) struct GitHub {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
    is_over: Arc<AtomicBool>,
}

impl GitHub {
    /// Starts a server for the repository `o/r` at `origin`, which is bare. `ann` may write to it.
    pub(crate) fn start(origin: &Path) -> GitHub {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let url = format!("http://{}", listener.local_addr().expect("a bound socket has an address"));
        let state = Arc::new(Mutex::new(State::new(origin, &url)));
        let shared = Arc::clone(&state);
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_over);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                if seen.load(Ordering::SeqCst) {
                    break;
                }
                let Some(request) = http::read(&mut stream) else { continue };
                let mut state = shared.lock().expect("no request panics");
                if let Some(answer) = answer(&mut state, &request) {
                    http::write(&mut stream, &answer);
                }
            }
        });
        GitHub { url, state, is_over }
    }

    /// Returns what GitHub knows.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no request panics")
    }

    /// Lets the next request that begins like this meet trouble: `POST /repos/o/r/pulls`.
    pub(crate) fn trouble(&self, request: &str, trouble: Trouble) {
        self.state().troubles.push_back((request.to_owned(), trouble));
    }

    /// Returns each request so far, `METHOD PATH`, with its body.
    pub(crate) fn asked(&self) -> Vec<(String, Value)> {
        self.state().asked.clone()
    }

    /// Returns the requests that write, since the nth one.
    pub(crate) fn writes_since(&self, number: usize) -> Vec<String> {
        let writes = |(line, body): &(String, Value)| {
            let is_query = body["query"].as_str().is_some_and(|query| query.starts_with("query"));
            (!line.starts_with("GET ") && !is_query).then(|| line.clone())
        };
        self.asked().iter().skip(number).filter_map(writes).collect()
    }
}

impl Drop for GitHub {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        let _woken = TcpStream::connect(self.url.trim_start_matches("http://"));
        if !std::thread::panicking() {
            let differences = std::mem::take(&mut self.state().differences);
            assert!(differences.is_empty(), "not as GitHub describes it:\n{}", differences.join("\n"));
        }
    }
}

/// Answers a request; `None`: the connection ends without an answer.
fn answer(state: &mut State, request: &Request) -> Option<Answer> {
    let line = format!("{} {}", request.method, request.target);
    state.asked.push((line.clone(), request.body.clone()));
    let troubles: &mut VecDeque<_> = &mut state.troubles;
    let met = troubles.iter().position(|(start, _)| line.starts_with(start.as_str()));
    let trouble = met.and_then(|at| troubles.remove(at)).map(|(_, trouble)| trouble);
    if let Some(Trouble::Status(status, headers, message)) = trouble {
        let body = json!({"message": message, "documentation_url": "https://docs.github.com/rest"});
        return Some(Answer { status, headers, body });
    }
    let answer = match request.path() {
        "/graphql" => graphql::answer(state, request),
        // Where the logs of jobs are: another server, which gets no token.
        path if path.starts_with("/elsewhere/logs/") => {
            if !request.token.is_empty() {
                state.differences.push(format!("{line}: the token was sent elsewhere"));
            }
            rest::log(state, path)
        }
        path => match DESCRIPTION.operation(&request.method, path) {
            None => {
                state.differences.push(format!("{line}: GitHub has no such operation, or it is not in the fixture"));
                Answer::error(404, "Not Found")
            }
            Some(operation) => {
                state.differences.extend(operation.differences_of_request(request).map(|it| format!("{line}: {it}")));
                let answer = rest::answer(state, &operation, request);
                state.differences.extend(operation.differences_of_answer(&answer).map(|it| format!("{line}: {it}")));
                answer
            }
        },
    };
    (!matches!(trouble, Some(Trouble::LostAnswer))).then_some(answer)
}
