//! Measures large responses: streams of ten million chunks, and one chunk of ten megabytes.
//!
//! `cargo bench --bench wire` prints one line per case: bytes received, elapsed and CPU seconds (on Linux; on a busy
//! machine only CPU time is meaningful), and nanoseconds per event.

#![expect(clippy::print_stdout, reason = "a program that prints a table")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use qwen_run::model::assemble::{Assembler, Options};
use qwen_run::model::assembled::Ending;
use qwen_run::model::sse::{Decoder, Frame};
use qwen_run::model::tool_set::ToolSet;
use qwen_run::model::{Arguments, Delta, ToolSpec};
use serde_json::json;

/// Bytes of arguments, text or reasoning in each case.
const SIZE: usize = 10_000_000;

/// Pieces after which the text begins again: so far apart that it does not count as repetition.
const PIECES: usize = 8191;

/// What a read of a connection brings.
const READ: usize = 16 << 10;

/// A clock, and the processor's time where the system tells it.
struct Watch {
    clock: Instant,
    processor: Option<Duration>,
}

impl Watch {
    fn start() -> Watch {
        Watch { clock: Instant::now(), processor: processor_time() }
    }

    fn read(&self) -> (f64, Option<f64>) {
        let processor = processor_time().zip(self.processor).map(|(now, then)| (now - then).as_secs_f64());
        (self.clock.elapsed().as_secs_f64(), processor)
    }
}

fn processor_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(text.split(' ').next()?.parse().ok()?))
}

struct Played {
    decoder: Decoder,
    assembler: Assembler,
    deltas: Vec<Delta>,
    bytes: usize,
    events: usize,
}

impl Played {
    fn new() -> Played {
        let spec = ToolSpec {
            name: "write_file".into(),
            description: String::new(),
            parameters: json!({"type": "object", "properties": {
                "file_path": {"type": "string"}, "content": {"type": "string"}}, "required": ["content"]}),
        };
        let tools = Arc::new(ToolSet::new(Arc::from([spec])));
        Played {
            decoder: Decoder::new(),
            assembler: Assembler::new(tools, Options::default()).cutting_repetition(),
            deltas: Vec::new(),
            bytes: 0,
            events: 0,
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        for frame in self.decoder.push(bytes) {
            if let Frame::Event { event, data } = frame {
                self.events += 1;
                self.assembler.push_event(event.as_deref(), &data, &mut self.deltas).expect("no event is an error");
            }
        }
        self.deltas.clear();
    }
}

fn event(delta: &serde_json::Value) -> String {
    let chunk = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
    format!("data: {chunk}\n\n")
}

/// Returns a letter of a text that is like no other part of it.
fn letter(at: usize) -> &'static str {
    const LETTERS: [&str; 13] = ["e", "t", "a", "o", "i", "n", "s", "h", "r", "d", "l", "u", " "];
    LETTERS[(at * at * 31 + at * 7) % 8209 % LETTERS.len()]
}

fn arguments(piece: &str) -> serde_json::Value {
    json!({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
}

/// Plays a beginning, as many pieces as there are bytes, and an end.
fn play(
    name: &str,
    begin: &str,
    piece: impl Fn(usize) -> String,
    end: &str,
    check: impl Fn(&[Arguments], &str) -> bool,
) {
    let pieces: Vec<String> = (0..PIECES).map(piece).collect();
    let watch = Watch::start();
    let mut played = Played::new();
    let mut read = begin.as_bytes().to_vec();
    for at in 0..SIZE {
        read.extend_from_slice(pieces[at % pieces.len()].as_bytes());
        if read.len() >= READ {
            played.push(&read);
            read.clear();
        }
    }
    read.extend_from_slice(end.as_bytes());
    played.push(&read);
    report(name, played, &watch, check);
}

fn report(name: &str, played: Played, watch: &Watch, check: impl Fn(&[Arguments], &str) -> bool) {
    let (bytes, events) = (played.bytes, played.events);
    let turn = played.assembler.finish(Ending::Done, &mut Vec::new()).expect("the stream is a turn");
    let (seconds, processor) = watch.read();
    let calls: Vec<Arguments> = turn.calls.into_iter().map(|call| call.arguments).collect();
    let is_right = check(&calls, &turn.text);
    println!(
        "{name:<42} {:>7.1} MB {seconds:>7.2} s {:>7.2} s processor {:>7.0} ns/event{}",
        bytes as f64 / 1e6,
        processor.unwrap_or(seconds),
        processor.unwrap_or(seconds) * 1e9 / events as f64,
        if is_right { "" } else { "  WRONG" }
    );
}

fn main() {
    let begin = event(&json!({"role": "assistant", "content": null, "tool_calls": [
        {"index": 0, "id": "call_1", "type": "function", "function": {"name": "write_file", "arguments": "{\"content\":\""}}]}));
    let end = event(&arguments("\"}")) + "data: [DONE]\n\n";
    let is_whole = |calls: &[Arguments], _: &str| matches!(calls, [Arguments::Object(object)] if object["content"].as_str().is_some_and(|text| text.len() == SIZE));
    play("arguments, 1-byte deltas, an event each", &begin, |_| event(&arguments("x")), &end, is_whole);
    let short = |piece: &str| format!("data: {}\n\n", json!({"choices": [{"delta": arguments(piece)}]}));
    play("the same, shortest events", &begin, |_| short("x"), &end, is_whole);
    let named = |_: usize| {
        event(
            &json!({"tool_calls": [{"index": 0, "id": "call_1", "function": {"name": "write_file", "arguments": "x"}}]}),
        )
    };
    play("the same, id and name on each", &begin, named, &end, is_whole);
    let stop = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    play(
        "text, 1-byte deltas, an event each",
        "",
        |at| event(&json!({"content": letter(at)})),
        stop,
        |_, text| text.len() >= SIZE - 2,
    );
    play(
        "the same, a clock in each event",
        "",
        |at| format!("data: {}\n\n", json!({"created": at, "choices": [{"delta": {"content": letter(at)}}]})),
        stop,
        |_, text| text.len() >= SIZE - 2,
    );

    let whole = event(&json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "write_file",
        "arguments": format!("{{\"content\":\"{}\"}}", "x".repeat(SIZE))}}]}));
    let watch = Watch::start();
    let mut played = Played::new();
    for byte in (whole + "data: [DONE]\n\n").as_bytes().chunks(1) {
        played.push(byte);
    }
    report("one event, read byte by byte", played, &watch, is_whole);
}
