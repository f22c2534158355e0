//! The streams of `fixtures/streams/`, played through decoder and assembler in every split.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::assemble::{Assembled, Assembler, BodyError, Ending, ErrorFrame, Failed, Fault, Options, from_body};
use super::coerce::ToolSet;
use super::leaked_calls::TextTools;
use super::sse::{Decoder, Frame};
use super::{Arguments, Delta, StreamFault, ToolSpec};

const SAMPLE: &str = include_str!("../../fixtures/streams/streams.json");
const OWN: &str = include_str!("../../fixtures/streams/own.json");

fn file(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

pub(super) fn tools() -> Arc<ToolSet> {
    let file = file(SAMPLE);
    let specs: Vec<ToolSpec> = file["tools"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, parameters)| {
            let properties: serde_json::Map<String, Value> = parameters
                .as_object()
                .unwrap()
                .iter()
                .map(|(name, kind)| (name.clone(), json!({"type": kind})))
                .collect();
            let required = &file["required"][name];
            ToolSpec {
                name: name.clone(),
                description: String::new(),
                parameters: json!({"type": "object", "properties": properties, "required": required}),
            }
        })
        .collect();
    Arc::new(ToolSet::new(specs.into()))
}

/// How a played stream came out.
#[derive(Debug, Clone, PartialEq)]
enum Played {
    Turn(Assembled),
    Failed(Failed),
    Error(ErrorFrame, String),
    NotJson,
}

fn play(bytes: &[u8], piece: usize, is_reset: bool, options: Options) -> (Played, Vec<Delta>) {
    let mut decoder = Decoder::new();
    let mut out = Vec::new();
    let mut assembler = Assembler::new(tools(), options.clone());
    let mut frames = Vec::new();
    for piece in bytes.chunks(piece.max(1)) {
        frames.extend(decoder.push(piece));
    }
    frames.extend(decoder.finish());
    for frame in frames {
        match frame {
            Frame::Event { event, data } => {
                if let Err(error) = assembler.push_event(event.as_deref(), &data, &mut out) {
                    return (Played::Error(error, assembler.partial().text), out);
                }
            }
            Frame::Body(body) => {
                let played = match from_body(&body, tools(), options, &mut out) {
                    Ok(assembled) => Played::Turn(assembled),
                    Err(BodyError::Frame(error)) => Played::Error(error, String::new()),
                    Err(BodyError::Failed(failed)) => Played::Failed(failed),
                    Err(BodyError::NotJson(_)) => Played::NotJson,
                };
                return (played, out);
            }
            Frame::Comment(_) | Frame::HttpStatus(_) => {}
            Frame::TooLarge => panic!("too large"),
        }
    }
    let ending = if assembler.done() {
        Ending::Done
    } else if is_reset {
        Ending::Broken
    } else {
        Ending::Eof
    };
    let played = match assembler.finish(ending, &mut out) {
        Ok(assembled) => Played::Turn(assembled),
        Err(failed) => Played::Failed(failed),
    };
    (played, out)
}

fn class(fault: &Fault) -> &'static str {
    match fault {
        Fault::Stream(StreamFault::NoFinish) => "stream:no_finish",
        Fault::Stream(StreamFault::Empty) => "stream:empty",
        Fault::Stream(StreamFault::MalformedCall) => "stream:malformed_tool",
        Fault::Stream(StreamFault::NotSse) => "stream:non_sse",
        Fault::Stream(StreamFault::TagLeak) => "stream:tag_leak",
        Fault::Stream(StreamFault::TooLarge) => "stream:too_large",
        Fault::Overloaded => "overloaded",
        Fault::ContentFilter => "content_filter",
        Fault::Error(_) => "server",
        Fault::Broken => "network",
    }
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn bytes_of(case: &Value) -> (Vec<u8>, bool) {
    let mut bytes = Vec::new();
    let mut is_reset = false;
    for step in case["steps"].as_array().unwrap() {
        match step[0].as_str().unwrap() {
            "w" => bytes.extend(step[1].as_str().unwrap().bytes()),
            "b" => bytes.extend(hex(step[1].as_str().unwrap())),
            "rst" => is_reset = true,
            _ => {}
        }
    }
    (bytes, is_reset)
}

fn options_of(case: &Value) -> Options {
    let text_tools = match case["mode"].as_str() {
        Some("prompted") => TextTools::Prompted,
        Some("off") => TextTools::Off,
        Some(_) | None => TextTools::Auto,
    };
    Options { text_tools, model: case["model"].as_str().unwrap_or("").to_owned(), ..Options::default() }
}

fn check(case: &Value) -> Result<(), String> {
    let (bytes, is_reset) = bytes_of(case);
    let expect = &case["expect"];
    let (whole, deltas) = play(&bytes, bytes.len(), is_reset, options_of(case));
    for piece in [1, 3] {
        let (split, split_deltas) = play(&bytes, piece, is_reset, options_of(case));
        if split != whole || split_deltas != deltas {
            return Err(format!("pieces of {piece}: {split:?} and not {whole:?}"));
        }
    }
    let outcome = expect["outcome"].as_str().unwrap();
    let text = expect["text"].as_str().unwrap_or("");
    let same = |what: &str, got: Value, want: Value| {
        if got == want { Ok(()) } else { Err(format!("{what}: {got} and not {want}")) }
    };
    match whole {
        Played::Turn(turn) => {
            let got = if turn.calls.is_empty() { "text" } else { "calls" };
            same("outcome", json!(got), json!(outcome))?;
            same("text", json!(turn.text), json!(text))?;
            let said: String = deltas
                .iter()
                .map(|delta| match delta {
                    Delta::Text(text) => text.as_str(),
                    Delta::Reasoning(_) | Delta::Notice(_) => "",
                })
                .collect();
            if case["model"].is_null() && turn.flags.contains(&"orphan_think_tag") {
                // The text went out before anybody could know.
            } else {
                same("said", json!(said), json!(turn.text))?;
            }
            let want = expect["calls"].as_array().cloned().unwrap_or_default();
            same("calls", json!(turn.calls.len()), json!(want.len()))?;
            for (call, want) in turn.calls.iter().zip(&want) {
                same("name", json!(call.name), want["name"].clone())?;
                if want["id"] != "*" {
                    same("id", json!(call.id), want["id"].clone())?;
                }
                match &call.arguments {
                    Arguments::Object(object) => same("args", Value::Object(object.clone()), want["args"].clone())?,
                    Arguments::Incomplete { raw } => same(raw, json!(true), want["incomplete"].clone())?,
                    Arguments::Invalid { problem, .. } => same(problem, json!(true), want["invalid"].clone())?,
                }
                if let Some(recovered) = expect["recovered"].as_str() {
                    same("recovered", json!(call.recovered), json!(recovered))?;
                }
            }
            let ids: std::collections::HashSet<&str> = turn.calls.iter().map(|call| call.id.as_str()).collect();
            same("ids", json!(ids.len()), json!(turn.calls.len()))?;
            if let Some(usage) = expect["usage"].as_array() {
                let got = json!([turn.usage.input_tokens, turn.usage.output_tokens]);
                same("usage", got, json!(usage))?;
            }
            if let Some(cached) = expect["cached"].as_u64() {
                same("cached", json!(turn.usage.cache_read_input_tokens), json!(cached))?;
            }
            if let Some(reasoning) = expect["reasoning"].as_str() {
                same("reasoning", json!(turn.reasoning.map(|r| r.text)), json!(reasoning))?;
            }
            Ok(())
        }
        Played::Failed(failed) => {
            same("outcome", json!(class(&failed.fault)), json!(outcome.replace("error", class(&failed.fault))))?;
            same("class", json!(class(&failed.fault)), expect["class"].clone())?;
            same("text", json!(failed.partial.text), json!(text))
        }
        Played::Error(_, partial) => {
            same("outcome", json!("error"), json!(outcome))?;
            let is_stream = expect["class"].as_str().unwrap_or("").starts_with("stream:");
            same("an error frame", json!(false), json!(is_stream))?;
            same("text", json!(partial), json!(text))
        }
        Played::NotJson => same("class", json!("stream:non_sse"), expect["class"].clone()),
    }
}

fn check_all(text: &str) {
    let file = file(text);
    let wrong: Vec<String> = file["cases"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|case| check(case).err().map(|error| format!("{} {}: {error}", case["n"], case["title"])))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_sample_streams_give_their_turns_whole_and_in_pieces() {
    check_all(SAMPLE);
}

#[test]
fn our_own_streams_give_their_turns_whole_and_in_pieces() {
    check_all(OWN);
}

fn every_case() -> Vec<Value> {
    [SAMPLE, OWN].iter().flat_map(|text| file(text)["cases"].as_array().unwrap().clone()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn r1_any_split_of_a_stream_gives_the_same_turn(pick in any::<prop::sample::Index>(), cuts in prop::collection::vec(1usize..40, 1..30)) {
        let cases = every_case();
        let case = pick.get(&cases);
        let (bytes, is_reset) = bytes_of(case);
        let whole = play(&bytes, bytes.len(), is_reset, options_of(case));
        let mut one = Decoder::new();
        let mut frames = one.push(&bytes);
        frames.extend(one.finish());
        let mut cut = Decoder::new();
        let mut cut_frames = Vec::new();
        let mut at = 0;
        for length in cuts.iter().cycle() {
            let end = (at + length).min(bytes.len());
            cut_frames.extend(cut.push(&bytes[at..end]));
            at = end;
            if at == bytes.len() { break; }
        }
        cut_frames.extend(cut.finish());
        prop_assert_eq!(frames, cut_frames);
        prop_assert_eq!(whole, play(&bytes, 2, is_reset, options_of(case)));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), piece in 1usize..9) {
        let whole = play(&bytes, bytes.len(), false, Options::default());
        prop_assert_eq!(whole, play(&bytes, piece, false, Options::default()));
    }
}
