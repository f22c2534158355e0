//! Provides a scripted Batch API on loopback: files, batches, and what may go wrong with them.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};

use super::server::{Reply, Server};

/// What becomes of the request that creates a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Creation {
    /// It is answered.
    #[default]
    Answered,
    /// The batch is there, and the connection breaks.
    Lost,
    /// The batch is there, and no answer comes.
    Silent,
    /// It never came to be, and the connection breaks.
    Dropped,
}

/// What the provider does from now on.
pub(crate) struct Behaviour {
    /// What becomes of the request that creates a batch.
    pub(crate) creation: Creation,
    /// Whether the next upload is kept and the connection breaks.
    pub(crate) loses_upload: bool,
    /// Whether batches stay in progress.
    pub(crate) works: bool,
    /// How batches end.
    pub(crate) status: &'static str,
    /// What each request gets: status and body; `None` is no line at all.
    pub(crate) answer: fn(&str) -> Option<(u16, Value)>,
    /// What every request is refused with.
    pub(crate) refuses: Option<u16>,
}

struct Batch {
    id: String,
    input: String,
    status: &'static str,
    files: [Option<String>; 2],
}

struct State {
    does: Behaviour,
    files: BTreeMap<String, String>,
    /// The names of uploaded files.
    names: BTreeMap<String, String>,
    batches: Vec<Batch>,
    /// Request lines, as they came.
    log: Vec<String>,
    /// How often each item was answered with 200.
    paid: BTreeMap<String, usize>,
}

/// A scripted Batch API.
#[derive(Clone)]
pub(crate) struct BatchApi(Arc<(Mutex<State>, Condvar)>);

/// Returns the completion that says a text.
pub(crate) fn completion(text: &str) -> Value {
    json!({"id": "c", "object": "chat.completion", "model": "scripted",
           "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
           "usage": {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105}})
}

impl BatchApi {
    /// Starts with a provider that answers everything at once with `kind`.
    pub(crate) fn new() -> BatchApi {
        let does = Behaviour {
            creation: Creation::Answered,
            loses_upload: false,
            works: false,
            status: "completed",
            answer: |_| Some((200, completion("kind"))),
            refuses: None,
        };
        let (files, names, batches, log, paid) = Default::default();
        BatchApi(Arc::new((Mutex::new(State { does, files, names, batches, log, paid }), Condvar::new())))
    }

    /// Starts its server; requests of a chat are answered by `chat`.
    pub(crate) fn server(&self, chat: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Server {
        let api = self.clone();
        Server::routed(move |head, body| api.route(head, body), chat)
    }

    /// Changes what it does.
    pub(crate) fn now(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut self.state().does);
    }

    /// Returns how often each item was answered.
    pub(crate) fn paid(&self) -> BTreeMap<String, usize> {
        self.state().paid.clone()
    }

    /// Returns how many batches there are.
    pub(crate) fn batches(&self) -> usize {
        self.state().batches.len()
    }

    /// Returns how many files there are.
    pub(crate) fn files(&self) -> usize {
        self.state().files.len()
    }

    /// Returns how many requests began so, for example with `POST /v1/files`.
    pub(crate) fn asked(&self, line: &str) -> usize {
        self.state().log.iter().filter(|known| known.starts_with(line)).count()
    }

    /// Waits until a request has come that begins so.
    pub(crate) fn wait_for(&self, line: &str) {
        let came = |state: &mut State| !state.log.iter().any(|known| known.starts_with(line));
        let (state, timeout) = self.0.1.wait_timeout_while(self.state(), Duration::from_secs(60), came).unwrap();
        drop(state);
        assert!(!timeout.timed_out(), "{line} never came");
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap()
    }

    fn route(&self, head: &str, body: &[u8]) -> Option<Reply> {
        let line = head.lines().next().unwrap_or_default().to_owned();
        let mut words = line.split(' ');
        let (method, path) = (words.next()?, words.next()?.strip_prefix("/v1/")?);
        let path: Vec<&str> = path.split(['/', '?']).collect();
        if !["files", "batches"].contains(&path[0]) {
            return None;
        }
        let mut state = self.state();
        let reply = match state.does.refuses {
            Some(status) => Reply::Status(status, vec![], json!({"error": {"message": "refused"}}).to_string()),
            None => state.answer(method, &path, head, body),
        };
        state.log.push(line);
        self.0.1.notify_all();
        Some(reply)
    }
}

impl State {
    fn answer(&mut self, method: &str, path: &[&str], head: &str, body: &[u8]) -> Reply {
        let ok = |value: Value| Reply::Status(200, vec![], value.to_string());
        match (method, path) {
            ("POST", ["files"]) => {
                let id = self.upload(head, body);
                match std::mem::take(&mut self.does.loses_upload) {
                    true => Reply::Hangup,
                    false => ok(json!({"id": id, "purpose": "batch"})),
                }
            }
            ("GET", ["files", list]) if list.starts_with("limit=") => {
                let listed = self.names.iter().filter(|(id, _)| self.files.contains_key(*id));
                let listed: Vec<Value> = listed.map(|(id, name)| json!({"id": id, "filename": name})).collect();
                ok(json!({"object": "list", "data": listed, "has_more": false}))
            }
            ("DELETE", ["files", id]) => {
                self.files.remove(*id);
                ok(json!({"id": id, "deleted": true}))
            }
            ("GET", ["files", id, "content"]) => match self.files.get(*id) {
                Some(content) => Reply::Status(200, vec![], content.clone()),
                None => Reply::Status(404, vec![], "{}".into()),
            },
            ("POST", ["batches"]) => self.create(&serde_json::from_slice(body).unwrap()),
            ("GET", ["batches", ..]) if path.len() == 1 || path[1].starts_with("limit=") => {
                let listed: Vec<Value> = self.batches.iter().map(Batch::shown).collect();
                ok(json!({"object": "list", "data": listed, "has_more": false}))
            }
            ("POST", ["batches", id, "cancel"]) => {
                let at = self.batches.iter().position(|batch| batch.id == *id).unwrap();
                self.end(at, "cancelled");
                ok(self.batches[at].shown())
            }
            ("GET", ["batches", id]) => match self.batches.iter().position(|batch| batch.id == *id) {
                Some(at) => {
                    if !self.does.works && self.batches[at].status == "in_progress" {
                        self.end(at, self.does.status);
                    }
                    ok(self.batches[at].shown())
                }
                None => Reply::Status(404, vec![], "{}".into()),
            },
            other => panic!("no such operation: {other:?}"),
        }
    }

    /// Keeps the file of a form, and checks its form.
    fn upload(&mut self, head: &str, body: &[u8]) -> String {
        let kind = head.lines().find_map(|line| line.split_once("boundary=")).expect("a form").1;
        let text = String::from_utf8(body.to_vec()).unwrap();
        let parts: Vec<&str> = text.split(&format!("--{kind}")).collect();
        assert_eq!((parts.len(), parts[3]), (4, "--\r\n"), "{text}");
        assert!(parts[1].contains("name=\"purpose\"\r\n\r\nbatch\r\n"), "{}", parts[1]);
        let name = parts[2].split_once("name=\"file\"; filename=\"").expect("a file").1.split('"').next().unwrap();
        assert!(name.starts_with("qwen-batch-") && name.ends_with(".jsonl"), "{name}");
        let content = parts[2].split_once("\r\n\r\n").unwrap().1.strip_suffix("\r\n").unwrap();
        let id = format!("file-{}", self.log.len());
        self.files.insert(id.clone(), content.to_owned());
        self.names.insert(id.clone(), name.to_owned());
        id
    }

    fn create(&mut self, asked: &Value) -> Reply {
        assert_eq!((&asked["endpoint"], &asked["completion_window"]), (&json!("/v1/chat/completions"), &json!("24h")));
        if self.does.creation == Creation::Dropped {
            return Reply::Hangup;
        }
        let (id, input) = (format!("batch-{}", self.log.len()), asked["input_file_id"].as_str().unwrap().to_owned());
        assert!(self.files.contains_key(&input), "the file is there");
        self.batches.push(Batch { id, input, status: "in_progress", files: [None, None] });
        match self.does.creation {
            Creation::Answered => {
                let made = self.batches.last().unwrap().shown().to_string();
                Reply::Status(200, vec![], made)
            }
            Creation::Lost | Creation::Dropped => Reply::Hangup,
            Creation::Silent => Reply::Stall,
        }
    }

    /// Ends a batch: answers what is asked for, unless all of it failed.
    fn end(&mut self, at: usize, status: &'static str) {
        let (mut output, mut errors) = (String::new(), String::new());
        let input = self.files[&self.batches[at].input].clone();
        for line in input.lines().filter(|_| status != "failed") {
            let request: Value = serde_json::from_str(line).unwrap();
            assert_eq!((&request["method"], &request["body"]["stream"]), (&json!("POST"), &json!(false)), "{line}");
            let Some((code, body)) = (self.does.answer)(&request["body"]["messages"].to_string()) else { continue };
            let id = request["custom_id"].as_str().unwrap();
            let line =
                json!({"id": "l", "custom_id": id, "response": {"status_code": code, "body": body}, "error": null});
            if code == 200 {
                *self.paid.entry(id.to_owned()).or_default() += 1;
                output += &format!("{line}\n");
            } else {
                errors += &format!("{line}\n");
            }
        }
        let mut keep = |kind: &str, text: String| {
            let id = format!("{kind}-{at}");
            (!text.is_empty()).then(|| {
                self.files.insert(id.clone(), text);
                id
            })
        };
        let files = [keep("output", output), keep("errors", errors)];
        let batch = &mut self.batches[at];
        (batch.status, batch.files) = (status, files);
    }
}

impl Batch {
    fn shown(&self) -> Value {
        let errors = (self.status == "failed").then(|| json!({"data": [{"message": "line 1: unknown model"}]}));
        json!({"id": self.id, "object": "batch", "input_file_id": self.input, "status": self.status, "errors": errors,
               "output_file_id": self.files[0], "error_file_id": self.files[1],
               "request_counts": {"total": 2, "completed": 0, "failed": 0}})
    }
}
