//! Serves a model on loopback that answers at once, in the three protocols that command-line agents use.
//!
//! The number of assistant turns in a request selects the turn to play, so additional requests (a title, a summary) do
//! not disturb the conversation. They are counted.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

/// What the model does in one turn.
#[derive(Clone, Default)]
pub(crate) struct Turn {
    pub(crate) text: String,
    pub(crate) calls: Vec<(String, Value)>,
}

/// One request as it came.
#[derive(Clone)]
pub(crate) struct Seen {
    /// When its head was read.
    pub(crate) at: SystemTime,
    /// How long its body took to come, the client's sending and the server's reading together.
    pub(crate) coming: Duration,
    /// When the server began to write its answer.
    pub(crate) answered: SystemTime,
    /// Bytes of its body.
    pub(crate) bytes: usize,
}

/// A server that lives as long as the process.
pub(crate) struct Server {
    pub(crate) port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    pub(crate) fn start(script: Vec<Turn>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let port = listener.local_addr().expect("a bound socket has an address").port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (script, shared) = (Arc::new(script), Arc::clone(&seen));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (script, seen) = (Arc::clone(&script), Arc::clone(&shared));
                std::thread::spawn(move || {
                    let _gone = serve(&stream, &script, &seen);
                });
            }
        });
        Server { port, seen }
    }

    /// Returns the requests since the last time this was asked.
    pub(crate) fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut self.seen.lock().expect("no thread panics with the list"))
    }
}

fn serve(stream: &TcpStream, script: &[Turn], seen: &Mutex<Vec<Seen>>) -> std::io::Result<()> {
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
        let at = SystemTime::now();
        let header = |name: &str| {
            head.lines().find_map(|line| {
                let (key, value) = line.split_once(':')?;
                key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
            })
        };
        let length = header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let coming = at.elapsed().unwrap_or_default();
        let target = head.split(' ').nth(1).unwrap_or_default().split('?').next().unwrap_or_default().to_owned();
        if !head.starts_with("POST ") {
            let models = json!({"object": "list", "data": [{"id": "mock", "object": "model"}], "models": []});
            whole(&mut writer, &models)?;
            continue;
        }
        let wire = match &target {
            path if path.ends_with("/chat/completions") => chat as fn(&mut Vec<u8>, usize, &Turn),
            path if path.ends_with("/responses") => responses,
            path if path.ends_with("/messages") => messages,
            _ => {
                whole(&mut writer, &json!({}))?;
                continue;
            }
        };
        let request: Value = serde_json::from_slice(&body).unwrap_or_default();
        let number = assistant_turns(&request);
        let Some(turn) = script.get(number).or(script.last()) else { return Ok(()) };
        let mut stream = Vec::new();
        wire(&mut stream, number, turn);
        let answered = SystemTime::now();
        seen.lock().expect("no thread panics with the list").push(Seen { at, coming, answered, bytes: body.len() });
        write!(
            writer,
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n",
            stream.len()
        )?;
        writer.write_all(&stream)?;
        writer.flush()?;
    }
}

fn whole(writer: &mut impl Write, body: &Value) -> std::io::Result<()> {
    let body = body.to_string();
    write!(
        writer,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    writer.flush()
}

/// Counts the model's turns in a request; items of the responses wire that follow each other are one turn.
fn assistant_turns(request: &Value) -> usize {
    let is_assistant = |item: &Value| {
        item["role"] == "assistant"
            || matches!(item["type"].as_str(), Some("function_call" | "custom_tool_call" | "local_shell_call"))
    };
    if let Some(messages) = request["messages"].as_array() {
        return messages.iter().filter(|message| is_assistant(message)).count();
    }
    let items = request["input"].as_array().map(Vec::as_slice).unwrap_or_default();
    let starts =
        |(index, item): (usize, &Value)| is_assistant(item) && (index == 0 || !is_assistant(&items[index - 1]));
    items.iter().enumerate().filter(|pair| starts(*pair)).count()
}

fn event(out: &mut Vec<u8>, name: Option<&str>, data: &Value) {
    if let Some(name) = name {
        out.extend(format!("event: {name}\n").bytes());
    }
    out.extend(format!("data: {data}\n\n").bytes());
}

fn chat(out: &mut Vec<u8>, number: usize, turn: &Turn) {
    let chunk = |delta: Value, finish: Option<&str>| {
        json!({"id": format!("c{number}"), "object": "chat.completion.chunk", "created": 1, "model": "mock",
               "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    };
    event(out, None, &chunk(json!({"role": "assistant", "content": turn.text}), None));
    for (index, (name, arguments)) in turn.calls.iter().enumerate() {
        let call = json!({"index": index, "id": format!("call_{number}_{index}"), "type": "function",
                          "function": {"name": name, "arguments": arguments.to_string()}});
        event(out, None, &chunk(json!({"tool_calls": [call]}), None));
    }
    event(out, None, &chunk(json!({}), Some(if turn.calls.is_empty() { "stop" } else { "tool_calls" })));
    let usage = json!({"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050});
    let last = json!({"id": format!("c{number}"), "object": "chat.completion.chunk", "created": 1, "model": "mock",
                      "choices": [], "usage": usage});
    event(out, None, &last);
    out.extend(b"data: [DONE]\n\n");
}

fn responses(out: &mut Vec<u8>, number: usize, turn: &Turn) {
    let mut named = |name: &str, mut value: Value| {
        value["type"] = json!(name);
        event(out, Some(name), &value);
    };
    let id = format!("resp_{number}");
    let begun = json!({"id": id, "object": "response", "status": "in_progress", "output": []});
    named("response.created", json!({"response": begun}));
    let mut output = Vec::new();
    if !turn.text.is_empty() {
        let item = json!({"type": "message", "id": format!("m{number}"), "role": "assistant", "status": "completed",
                          "content": [{"type": "output_text", "text": turn.text, "annotations": []}]});
        named("response.output_item.added", json!({"output_index": 0, "item": item}));
        named(
            "response.output_text.delta",
            json!({"item_id": format!("m{number}"), "output_index": 0, "content_index": 0, "delta": turn.text}),
        );
        named("response.output_item.done", json!({"output_index": 0, "item": item}));
        output.push(item);
    }
    for (index, (name, arguments)) in turn.calls.iter().enumerate() {
        let item = json!({"type": "function_call", "id": format!("fc{number}{index}"),
                          "call_id": format!("call_{number}_{index}"), "name": name,
                          "arguments": arguments.to_string(), "status": "completed"});
        named("response.output_item.added", json!({"output_index": output.len(), "item": item}));
        named("response.output_item.done", json!({"output_index": output.len(), "item": item}));
        output.push(item);
    }
    let usage = json!({"input_tokens": 1000, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 50,
                       "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 1050});
    let done = json!({"id": id, "object": "response", "status": "completed", "output": output, "usage": usage});
    named("response.completed", json!({"response": done}));
}

fn messages(out: &mut Vec<u8>, number: usize, turn: &Turn) {
    let mut named = |name: &str, mut value: Value| {
        value["type"] = json!(name);
        event(out, Some(name), &value);
    };
    let message = json!({"id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": "mock",
                         "content": [], "stop_reason": null, "stop_sequence": null,
                         "usage": {"input_tokens": 1000, "output_tokens": 1}});
    named("message_start", json!({"message": message}));
    let mut index = 0;
    if !turn.text.is_empty() {
        named("content_block_start", json!({"index": 0, "content_block": {"type": "text", "text": ""}}));
        named("content_block_delta", json!({"index": 0, "delta": {"type": "text_delta", "text": turn.text}}));
        named("content_block_stop", json!({"index": 0}));
        index = 1;
    }
    for (call, (name, arguments)) in turn.calls.iter().enumerate() {
        let block = json!({"type": "tool_use", "id": format!("toolu_{number}_{call}"), "name": name, "input": {}});
        named("content_block_start", json!({"index": index, "content_block": block}));
        let delta = json!({"type": "input_json_delta", "partial_json": arguments.to_string()});
        named("content_block_delta", json!({"index": index, "delta": delta}));
        named("content_block_stop", json!({"index": index}));
        index += 1;
    }
    let stop = if turn.calls.is_empty() { "end_turn" } else { "tool_use" };
    let delta = json!({"stop_reason": stop, "stop_sequence": null});
    named("message_delta", json!({"delta": delta, "usage": {"output_tokens": 50}}));
    named("message_stop", json!({}));
}
