//! Plays the streams of `fixtures/streams/` through decoder and assembler in every split.

mod properties;

use std::sync::Arc;

use serde_json::{Value, json};

use super::assemble::{Assembler, Options, from_body};
use super::assembled::{Assembled, BodyError, Ending, Failed, Fault};
use super::chunk::ErrorFrame;
use super::errors::classify;
use super::leaked_calls::TextTools;
use super::providers::{Provider, quirks_named};
use super::sse::{Decoder, Frame};
use super::tool_set::ToolSet;
use super::{Arguments, Delta, StreamFault, ToolSpec};

const SAMPLE: &str = include_str!("../../fixtures/streams/streams.json");

/// Our own cases, read when the tests run: a new one needs no new build.
fn own() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/streams/own.json")).unwrap()
}

/// Cases after what people reported of servers.
fn reports() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/streams/reports.json")).unwrap()
}

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
    Turn(Box<Assembled>),
    Failed(Failed),
    Error(ErrorFrame, String),
    NotJson,
}

fn play(bytes: &[u8], piece: usize, is_reset: bool, options: Options) -> (Played, Vec<Delta>) {
    let mut decoder = Decoder::new();
    let mut out = Vec::new();
    let mut assembler = Assembler::new(tools(), options.clone()).cutting_repetition();
    let mut frames = Vec::new();
    for piece in bytes.chunks(piece.max(1)) {
        frames.extend(decoder.push(piece));
    }
    frames.extend(decoder.finish());
    let mut status = None;
    for frame in frames {
        match frame {
            Frame::HttpStatus(named) => status = Some(named),
            Frame::Event { event, data } => {
                if let Some(refused) = status.take().filter(|status| *status >= 400) {
                    let error = ErrorFrame { status: Some(refused), body: data };
                    return (Played::Error(error, assembler.into_partial().text), out);
                }
                if let Err(error) = assembler.push_event(event.as_deref(), &data, &mut out) {
                    return (Played::Error(error, assembler.into_partial().text), out);
                }
            }
            Frame::Body(body) => {
                let played = match from_body(&body, tools(), options, &mut out) {
                    Ok(assembled) => Played::Turn(Box::new(assembled)),
                    Err(BodyError::Frame(error)) => Played::Error(error, String::new()),
                    Err(BodyError::Failed(failed)) => Played::Failed(failed),
                    Err(BodyError::NotJson(_)) => Played::NotJson,
                };
                return (played, out);
            }
            Frame::Comment(_) => {}
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
        Ok(assembled) => Played::Turn(Box::new(assembled)),
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
    let model = case["model"].as_str().unwrap_or("").to_owned();
    Options { text_tools, model, ..Options::default() }
}

fn check(case: &Value) -> Result<(), String> {
    let (bytes, is_reset) = bytes_of(case);
    let expect = &case["expect"];
    let (whole, deltas) = play(&bytes, bytes.len(), is_reset, options_of(case));
    for piece in [1, 3, 7] {
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
            let is_taken_back = turn.flags.contains(&"orphan_think_tag") || turn.is_repetition;
            if case["model"].is_null() && is_taken_back {
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
        Played::Error(error, partial) => {
            same("outcome", json!("error"), json!(outcome))?;
            let title = case["title"].as_str().unwrap();
            let of = |row: &&super::providers::Quirks| title.starts_with(row.name);
            let quirks = super::providers::TABLE.iter().find(of).unwrap_or(quirks_named(Provider::Unknown));
            let class = classify(quirks, error.status, &[], &error.body, None).class;
            same("class", json!(class.name()), expect["class"].clone())?;
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
    check_all(&own());
}

#[test]
fn streams_after_reports_about_servers_give_their_turns_whole_and_in_pieces() {
    check_all(&reports());
}

fn every_case() -> Vec<Value> {
    [SAMPLE, &own(), &reports()].iter().flat_map(|text| file(text)["cases"].as_array().unwrap().clone()).collect()
}

fn check_some(numbers: &[u64]) {
    for number in numbers {
        let cases = every_case();
        let case = cases.iter().find(|case| case["n"] == *number).unwrap();
        assert_eq!(check(case), Ok(()), "{number}");
    }
}

#[test]
fn r2_line_ends_marks_comments_and_missing_blank_lines_are_read() {
    check_some(&[1, 2, 3, 5, 101]);
}

#[test]
fn r3_done_is_optional_and_bytes_after_it_are_ignored() {
    check_some(&[5, 52, 102]);
}

#[test]
fn r4_lines_that_are_no_json_are_skipped_and_alone_are_an_error() {
    check_some(&[103, 104]);
}

#[test]
fn r5_a_body_of_json_is_a_completion_and_html_is_none() {
    check_some(&[166, 167, 168]);
}

#[test]
fn r6_fields_may_be_absent_null_or_of_other_types() {
    check_some(&[22, 47, 170, 184]);
}

#[test]
fn r7_an_error_in_any_event_fails_the_turn() {
    check_some(&[28, 31, 164, 165, 185]);
}

#[test]
fn r8_error_finish_is_an_error_and_not_text() {
    check_some(&[163]);
}

#[test]
fn r9_no_finish_and_no_complete_call_is_a_fault() {
    check_some(&[7, 107, 177]);
}

#[test]
fn r10_an_empty_answer_is_a_fault() {
    check_some(&[105, 106]);
}

#[test]
fn r13_the_last_usage_counts_and_absent_is_unknown() {
    check_some(&[9, 132, 133]);
}

#[test]
fn r14_only_choice_0_counts() {
    check_some(&[131]);
}

#[test]
fn r15_pieces_find_their_calls() {
    check_some(&[10, 11, 13, 16, 25, 52, 110, 111, 112, 113, 114, 115, 116, 119, 171, 173, 182]);
}

#[test]
fn r16_arguments_of_every_form_are_read() {
    check_some(&[19, 22, 122, 123]);
}

#[test]
fn r17_glued_calls_are_separated_with_ids_of_their_own() {
    check_some(&[117, 118]);
}

#[test]
fn r18_replays_and_mirrors_add_no_call() {
    check_some(&[11, 120, 121, 172, 176]);
}

#[test]
fn r19_calls_count_whatever_the_label_says() {
    check_some(&[22, 52, 108, 172]);
}

#[test]
fn r20_cut_arguments_never_become_a_call_that_runs() {
    check_some(&[124, 125, 157, 178]);
}

#[test]
fn r21_bad_arguments_stay_bad() {
    check_some(&[126, 128, 156]);
}

#[test]
fn r22_ids_are_unique_and_plain() {
    check_some(&[25, 174, 175]);
}

#[test]
fn r25_what_follows_the_end_is_never_a_call() {
    check_some(&[102, 196]);
}

#[test]
fn r26_calls_in_text_are_taken_only_where_they_are_meant() {
    check_some(&[42, 140, 141, 142, 144, 145, 146, 147, 148, 149, 150, 151, 152, 153, 154, 155, 187, 188]);
}

#[test]
fn r27_values_in_xml_are_raw() {
    check_some(&[38, 143, 180, 181]);
}

#[test]
fn r28_no_partial_tag_is_text() {
    check_some(&[38, 134, 158, 159, 186]);
}

#[test]
fn r29_reasoning_is_no_answer() {
    check_some(&[47, 134, 135, 136, 137, 138, 139, 169, 183]);
}

#[test]
fn r64_every_finish_is_mapped() {
    check_some(&[160, 161, 162, 163]);
}

#[test]
fn r22_ids_of_earlier_turns_are_not_given_again() {
    let event = r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"call_0","function":{"name":"list","arguments":"{}"}},{"index":1,"function":{"name":"list"}}]},"finish_reason":"stop"}]}"#;
    let used_ids = ["call_0", "call_7_1"].map(str::to_owned).into();
    let mut assembler = Assembler::new(tools(), Options { turn: 7, used_ids, ..Options::default() });
    assembler.push_event(None, event, &mut Vec::new()).unwrap();
    let turn = assembler.finish(Ending::Eof, &mut Vec::new()).unwrap();
    let ids: Vec<&str> = turn.calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["call_0_2", "call_7_1_2"]);
}

#[test]
fn r61_a_whole_completion_gives_the_turn_of_its_stream() {
    let messages = [
        json!({"content": "hi"}),
        json!({"content": "<think>a</think>b"}),
        json!({"content": null, "reasoning_content": "r", "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "list", "arguments": ""}},
            {"id": "b", "type": "function", "function": {"name": "read_file", "arguments": "{\"file_path\":\"a\"}"}}]}),
        json!({"content": "<tool_call>{\"name\":\"list\",\"arguments\":{}}</tool_call>"}),
        json!({"content": "", "tool_calls": [{"function": {"name": "read_file", "arguments": "{\"a"}}]}),
        json!({"content": "x", "function_call": {"name": "list", "arguments": "{}"}}),
    ];
    for message in messages {
        let usage = json!({"prompt_tokens": 1, "completion_tokens": 2});
        let whole =
            json!({"id": "1", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage});
        let mut delta = message.clone();
        for (at, call) in delta["tool_calls"].as_array_mut().into_iter().flatten().enumerate() {
            call["index"] = json!(at);
        }
        let stream = format!(
            "data: {}\n\ndata: {}\n\ndata: {}\n\ndata: [DONE]\n\n",
            json!({"id": "1", "choices": [{"index": 0, "delta": delta}]}),
            json!({"id": "1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
            json!({"choices": [], "usage": usage}),
        );
        let body = whole.to_string();
        let a = play(stream.as_bytes(), 7, false, Options::default());
        let b = play(body.as_bytes(), 7, false, Options::default());
        assert_eq!(a, b, "{message}");
        assert!(matches!(a.0, Played::Turn(_)));
    }
}

#[test]
fn r63_arguments_are_looked_at_a_fixed_number_of_times() {
    let count = 100_000;
    let mut assembler = Assembler::new(tools(), Options::default());
    let mut out = Vec::new();
    let mut push = |arguments: &str| {
        let data =
            json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]}}]});
        assembler.push_event(None, &data.to_string(), &mut out).unwrap();
    };
    push("{\"file_path\":\"");
    for _ in 0..count {
        push("x");
    }
    push("\"}");
    let named = r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"read_file"}}]},"finish_reason":"stop"}]}"#;
    assembler.push_event(None, named, &mut out).unwrap();
    let turn = assembler.finish(Ending::Eof, &mut out).unwrap();
    assert!(
        matches!(&turn.calls[0].arguments, Arguments::Object(arguments) if arguments["file_path"].as_str().unwrap().len() == count)
    );
    assert!(turn.scanned <= 3 * (count as u64 + 32), "{}", turn.scanned);
}

#[test]
fn r63_caps_hold() {
    let mut decoder = Decoder::with_caps(10, 1000);
    assert_eq!(decoder.push(b"data: 0123456789012\n\ndata: 1\n\n"), [Frame::TooLarge]);
    assert_eq!(decoder.finish(), []);
    let mut assembler = Assembler::new(tools(), Options::default());
    for index in 0..2000 {
        let data = json!({"choices": [{"delta": {"tool_calls": [{"index": index, "function": {"name": "list"}}]}}]});
        assembler.push_event(None, &data.to_string(), &mut Vec::new()).unwrap();
    }
    assert!(assembler.done());
    let failed = assembler.finish(Ending::Done, &mut Vec::new()).unwrap_err();
    assert_eq!(failed.fault, Fault::Stream(StreamFault::TooLarge));
}

#[test]
fn what_arrived_before_a_break_is_told() {
    let mut assembler = Assembler::new(tools(), Options::default());
    let calls = r#"{"choices":[{"delta":{"content":"a","reasoning":"r","tool_calls":[{"index":0,"id":"a","function":{"name":"list","arguments":"{}"}},{"index":1,"id":"b","function":{"name":"list","arguments":"{"}}]}}]}"#;
    assembler.push_event(None, calls, &mut Vec::new()).unwrap();
    let failed = assembler.finish(Ending::Broken, &mut Vec::new()).unwrap_err();
    assert_eq!(failed.fault, Fault::Broken);
    let partial = failed.partial;
    assert_eq!((partial.text.as_str(), partial.reasoning.as_str()), ("a", "r"));
    assert_eq!((partial.complete_calls, partial.incomplete_calls), (1, 1));
}
