//! Tests the client against a scripted server.

mod connection;
mod replay;

use std::sync::Mutex as StdMutex;

use serde_json::json;

use super::*;
use crate::model::cassette::Player;
use crate::model::config::{Proxies, Sampling, Timers};
use crate::model::outgoing::{RESUME, output_limit};
use crate::model::server_info::only_model;
use crate::model::test_server::{
    DONE, Script, Step, TestServer, finish, respond, respond_with, says, stream, stream_head, text,
};
use crate::model::{Arguments, Part, Price, Stop, StreamFault, TimeoutKind, ToolMessage};
use crate::secret::Secret;
use serde_json::Value;

/// Has no known form, so that only knowing it can hide it.
const KEY: &str = "very-hidden-0123456789";

fn config(server: &TestServer) -> ClientConfig {
    let mut config = ClientConfig::new(server.url.clone(), "qwen3-coder-plus");
    config.key = Some(Secret::parse(KEY).unwrap());
    config.retry.first_wait = Duration::from_micros(10);
    config
}

fn tools() -> Arc<[ToolSpec]> {
    let spec = |name: &str, required: &str| ToolSpec {
        name: name.into(),
        description: String::new(),
        parameters: json!({"type": "object", "properties": {"file_path": {"type": "string"}, "content": {"type": "string"}},
            "required": if required.is_empty() { vec![] } else { vec![required] }}),
    };
    Arc::new([spec("list", ""), spec("read_file", "file_path"), spec("write_file", "file_path")])
}

fn request() -> Request {
    Request {
        messages: vec![Message::System("be brief".into()), Message::User(vec![Part::Text("do it".into())])].into(),
        tools: tools(),
        ..Request::default()
    }
}

/// What a run gave: the result, the text shown, and the notices.
struct Ran {
    result: Result<Turn, ModelError>,
    shown: String,
    notices: Vec<Notice>,
}

async fn ask(client: &Client, request: &Request) -> Ran {
    let (mut shown, mut notices) = (String::new(), Vec::new());
    let mut sink = |delta| match delta {
        Delta::Text(text) => shown.push_str(&text),
        Delta::Reasoning(_) => {}
        Delta::Notice(notice) => notices.push(notice),
    };
    let result = client.respond(request, &mut sink).await;
    Ran { result, shown, notices }
}

/// Plays scripts to a client with the default configuration.
async fn play(scripts: Vec<Script>) -> (Ran, Vec<Value>) {
    play_with(scripts, |_| ()).await
}

async fn play_with(scripts: Vec<Script>, change: impl FnOnce(&mut ClientConfig)) -> (Ran, Vec<Value>) {
    let server = TestServer::play(scripts).await;
    let mut config = config(&server);
    change(&mut config);
    let client = Client::new(config).unwrap();
    let ran = ask(&client, &request()).await;
    let bodies = server.seen().iter().map(|seen| seen.json()).collect();
    (ran, bodies)
}

fn call_chunk(arguments: &str) -> String {
    let chunk = json!({"choices": [{"index": 0, "delta": {"tool_calls": [
        {"index": 0, "id": "c1", "type": "function", "function": {"name": "write_file", "arguments": arguments}}]}}]});
    format!("data: {chunk}\n\n")
}

fn error_body(message: &str) -> String {
    json!({"error": {"message": message}}).to_string()
}

fn refused(status: u16, message: &str) -> Script {
    respond(status, "application/json", &error_body(message))
}

fn retries(ran: &Ran) -> Vec<&str> {
    ran.notices
        .iter()
        .filter_map(|notice| match notice {
            Notice::Retry { class, .. } => Some(class.as_str()),
            Notice::Downgrade { .. } | Notice::Fallback { .. } | Notice::Warning(_) => None,
        })
        .collect()
}

#[tokio::test]
async fn an_answer_is_one_request() {
    let (ran, bodies) = play(vec![says("Hello")]).await;
    let turn = ran.result.unwrap();
    assert_eq!((turn.message.text.as_str(), turn.stop, turn.requests), ("Hello", Stop::End, 1));
    assert_eq!(ran.shown, "Hello");
    assert_eq!(bodies.len(), 1);
    assert_eq!(bodies[0]["model"], "qwen3-coder-plus");
}

#[tokio::test]
async fn r3_an_open_connection_behind_done_is_not_waited_for() {
    let mut script = stream(&[&text("x"), &finish("stop"), DONE, &text("never")]);
    script.push(Step::Stall);
    let (ran, _) = play(vec![script]).await;
    assert_eq!(ran.result.unwrap().message.text, "x");
    assert_eq!(ran.shown, "x");
}

#[tokio::test]
async fn r5_a_whole_completion_is_read_as_one() {
    let body = json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": "whole"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1}});
    let (ran, _) = play(vec![respond(200, "application/json", &body.to_string())]).await;
    let turn = ran.result.unwrap();
    assert_eq!((turn.message.text.as_str(), turn.usage.input_tokens), ("whole", Some(3)));
    assert_eq!(ran.shown, "whole");
}

#[tokio::test]
async fn r5_a_web_page_is_an_error_at_once() {
    let page = format!("<html><title>Login</title>{}</html>", "x".repeat(5_000));
    for kind in ["text/html; charset=utf-8", "application/octet-stream"] {
        let (ran, bodies) = play(vec![respond(200, kind, &page)]).await;
        let error = ran.result.unwrap_err();
        assert_eq!(error.class, ErrorClass::Stream(StreamFault::NotSse));
        assert!(error.message.len() < 700, "{}", error.message);
        assert_eq!((bodies.len(), error.requests), (1, 1));
    }
}

#[tokio::test]
async fn r9_a_stream_that_never_ends_properly_fails_after_three_tries() {
    let cut = || stream(&["data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n"]);
    let (ran, bodies) = play(vec![cut(), cut(), cut()]).await;
    assert_eq!(ran.result.as_ref().unwrap_err().class, ErrorClass::Stream(StreamFault::NoFinish));
    assert_eq!(retries(&ran), ["stream:no_finish", "stream:no_finish"]);
    assert_eq!(bodies.len(), 3);
    // Reasoning alone is thought anew, not continued.
    assert_eq!(bodies[0], bodies[2]);
}

#[tokio::test]
async fn r10_nothing_at_all_is_an_error_that_is_tried_again() {
    let (ran, _) = play(vec![stream(&[&finish("stop"), DONE]), stream(&[]), says("ok")]).await;
    assert_eq!(retries(&ran), ["stream:empty", "stream:empty"]);
    assert_eq!(ran.result.unwrap().requests, 3);
}

#[tokio::test]
async fn r11_each_timer_ends_its_own_wait() {
    let ms = Duration::from_millis;
    let long = Timers { connect: ms(0), first_byte: Some(ms(0)), idle: ms(0), lifetime: ms(0) };
    let silent = || vec![Step::Stall];
    let half = || vec![stream_head(), Step::Write(text("x").into_bytes()), Step::Stall];
    let table: [(Timers, Script, TimeoutKind); 4] = [
        (Timers { first_byte: Some(ms(40)), ..long }, silent(), TimeoutKind::FirstByte),
        (Timers { idle: ms(40), ..long }, half(), TimeoutKind::Idle),
        (Timers { lifetime: ms(40), ..long }, half(), TimeoutKind::Lifetime),
        (Timers { first_byte: Some(ms(40)), ..long }, vec![stream_head(), Step::Stall], TimeoutKind::FirstByte),
    ];
    for (timers, script, kind) in table {
        let (ran, _) = play_with(vec![script], |config| (config.timers, config.retry.retries) = (timers, 0)).await;
        assert_eq!(ran.result.unwrap_err().class, ErrorClass::Timeout(kind));
    }
}

#[tokio::test]
async fn r11_pings_do_not_keep_a_silent_stream_alive() {
    let mut script = vec![stream_head(), Step::Write(text("x").into_bytes())];
    script.extend((0..3).map(|_| Step::Write(b": ping\n\n".to_vec())));
    script.push(Step::Stall);
    let timers = Timers { idle: Duration::from_millis(30), ..Timers::default() };
    let (ran, _) = play_with(vec![script], |config| (config.timers, config.retry.retries) = (timers, 0)).await;
    assert_eq!(ran.result.unwrap_err().class, ErrorClass::Timeout(TimeoutKind::Idle));
}

#[tokio::test]
async fn r43_the_runs_own_time_bounds_every_wait() {
    let server = TestServer::play(vec![vec![Step::Stall]]).await;
    let client = Client::new(config(&server)).unwrap();
    let hurried = Request { time_left: Some(Duration::from_millis(40)), ..request() };
    let ran = ask(&client, &hurried).await;
    assert_eq!(ran.result.unwrap_err().class, ErrorClass::Timeout(TimeoutKind::Deadline));
    assert_eq!(ran.notices, []);
}

#[tokio::test]
async fn r31_calls_are_read_from_what_llama_cpp_could_not_parse() {
    let raw = "Failed to parse input at pos 5: <tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"file_path\": \"a.rs\"}}\n</tool_call>";
    let (ran, _) = play(vec![refused(500, raw)]).await;
    let turn = ran.result.unwrap();
    assert_eq!(turn.message.calls.len(), 1);
    assert_eq!(turn.message.calls[0].name, "read_file");
    let (ran, _) = play(vec![refused(500, "Failed to parse input at pos 5: <tool_c"), says("ok")]).await;
    assert_eq!(retries(&ran), ["raw_generation"]);
    assert_eq!(ran.result.unwrap().message.text, "ok");
}

#[tokio::test]
async fn r37_the_servers_wait_is_refused_where_it_is_too_long() {
    let limited =
        respond_with(429, "content-type: application/json\r\nretry-after: 900\r\n", error_body("slow").as_bytes());
    let (ran, bodies) = play(vec![limited]).await;
    let error = ran.result.unwrap_err();
    assert_eq!(error.class, ErrorClass::RateLimit { retry_after: Some(Duration::from_secs(900)) });
    let port = regex::Regex::new(r"127\.0\.0\.1:\d+").expect("the pattern is fixed");
    insta::assert_snapshot!(
        port.replace(&error.message, "127.0.0.1:PORT"),
        @"the local server (127.0.0.1:PORT) answered 429: slow; the server requests a wait of 15 min, longer than --max-wait (10 min)"
    );
    assert_eq!(bodies.len(), 1);
}

#[tokio::test]
async fn r38_a_refused_key_is_final_and_says_what_to_do() {
    let (ran, bodies) = play(vec![refused(401, "Incorrect API key provided")]).await;
    let error = ran.result.unwrap_err();
    assert_eq!((error.class, error.status, bodies.len()), (ErrorClass::Auth, Some(401), 1));
    assert!(error.hint.is_some());
}

#[tokio::test]
async fn r40_a_learned_window_is_kept_for_the_run() {
    let server = TestServer::play(vec![refused(400, "This model's maximum context length is 4096 tokens")]).await;
    let client = Client::new(config(&server)).unwrap();
    let ran = ask(&client, &request()).await;
    assert_eq!(ran.result.unwrap_err().class, ErrorClass::ContextOverflow { limit: Some(4096), actual: None });
    assert_eq!(client.facts().context_window, 4096);
    assert_eq!(client.facts().max_output, 4096);
}

#[tokio::test]
async fn r41_each_feature_is_given_up_once() {
    let server = TestServer::play(vec![
        refused(400, "Unknown field: stream_options"),
        refused(400, "tool calling: model does not support tools"),
        says("ok"),
        refused(400, "Unknown field: stream_options"),
    ])
    .await;
    let client = Client::new(config(&server)).unwrap();
    let ran = ask(&client, &request()).await;
    assert_eq!(ran.result.unwrap().requests, 3);
    let features: Vec<&str> = ran
        .notices
        .iter()
        .map(|notice| match notice {
            Notice::Downgrade { feature, .. } => feature.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(features, ["stream_options", "tools"]);
    assert!(client.text_tools());
    let again = ask(&client, &request()).await;
    assert_eq!(again.result.unwrap_err().class, ErrorClass::BadRequest { param: None });
    let bodies: Vec<Value> = server.seen().iter().map(|seen| seen.json()).collect();
    assert!(bodies[0].get("stream_options").is_some() && bodies[0].get("tools").is_some());
    assert!(bodies[1].get("stream_options").is_none() && bodies[1].get("tools").is_some());
    assert!(bodies[2].get("tools").is_none());
    assert!(bodies[2]["messages"][0]["content"].as_str().unwrap().contains("# Tools"));
}

#[tokio::test]
async fn r41_without_text_tools_a_refusal_of_tools_is_final() {
    let (ran, _) = play_with(vec![refused(400, "model does not support tools")], |config| {
        config.text_tools = TextToolsMode::Off;
    })
    .await;
    let error = ran.result.unwrap_err();
    assert_eq!(error.class, ErrorClass::Unsupported(Feature::Tools));
    assert_eq!(error.hint.unwrap(), "use --text-tools force");
}

#[tokio::test]
async fn r42_text_that_was_cut_is_continued_and_shown_once() {
    let (ran, bodies) = play(vec![stream(&[&text("Hello wo")]), says("rld")]).await;
    let turn = ran.result.as_ref().unwrap();
    assert_eq!((turn.message.text.as_str(), ran.shown.as_str(), turn.requests), ("Hello world", "Hello world", 2));
    assert_eq!(retries(&ran), ["stream:no_finish"]);
    let messages = bodies[1]["messages"].as_array().unwrap();
    assert_eq!(messages[2], json!({"role": "assistant", "content": "Hello wo"}));
    assert_eq!(messages[3], json!({"role": "user", "content": RESUME}));
}

#[tokio::test]
async fn r42_a_cut_call_is_asked_for_again_and_the_text_before_it_is_shown_once() {
    let cut = || stream(&[&text("I will write"), &call_chunk("{\"file_path\":\"a")]);
    let whole = stream(&[&text("I will write"), &call_chunk("{\"file_path\":\"a\"}"), &finish("tool_calls"), DONE]);
    for ending in [None, Some(Step::Reset)] {
        let mut first = cut();
        first.extend(ending);
        let (ran, bodies) = play(vec![first, whole.clone()]).await;
        let turn = ran.result.unwrap();
        assert_eq!(ran.shown, "I will write");
        assert_eq!(turn.message.calls.len(), 1);
        assert!(matches!(turn.message.calls[0].arguments, Arguments::Object(_)));
        assert_eq!(bodies[0], bodies[1]);
    }
}

#[tokio::test]
async fn r42_a_continuation_is_tried_three_times() {
    let cut = |word: &str| stream(&[&text(word)]);
    let (ran, bodies) = play(vec![cut("a"), cut("b"), cut("c"), cut("d")]).await;
    assert_eq!(ran.result.unwrap_err().class, ErrorClass::Stream(StreamFault::NoFinish));
    assert_eq!(ran.shown, "abc");
    assert_eq!(bodies.len(), 3);
}

#[tokio::test]
async fn an_answer_cut_by_its_length_is_continued_unless_the_owner_set_the_limit() {
    let cut = || stream(&[&text("one "), &finish("length"), DONE]);
    let (ran, bodies) = play(vec![cut(), says("two")]).await;
    let turn = ran.result.unwrap();
    assert_eq!((turn.message.text.as_str(), turn.stop, bodies.len()), ("one two", Stop::End, 2));
    let (ran, bodies) = play_with(vec![cut()], |config| config.generation.max_output_tokens = Some(9)).await;
    let turn = ran.result.unwrap();
    assert_eq!((turn.message.text.as_str(), turn.stop, bodies.len()), ("one ", Stop::Length, 1));
    assert_eq!(bodies[0]["max_tokens"], 9);
}

#[tokio::test]
async fn r44_every_request_counts() {
    let (ran, _) = play(vec![refused(500, "x"), refused(503, "y"), refused(429, "z"), says("ok")]).await;
    assert_eq!(retries(&ran), ["server", "overloaded", "rate_limit"]);
    assert_eq!(ran.result.unwrap().requests, 4);
}

#[tokio::test]
async fn r45_on_the_wire_each_request_begins_with_the_one_before() {
    let calls = stream(&[&call_chunk("{\"file_path\":\"a\"}"), &finish("tool_calls"), DONE]);
    let server = TestServer::play(vec![calls, says("done")]).await;
    let client = Client::new(config(&server)).unwrap();
    let mut request = request();
    let turn = ask(&client, &request).await.result.unwrap();
    let id = turn.message.calls[0].id.clone();
    Arc::make_mut(&mut request.messages).push(Message::Assistant(turn.message));
    Arc::make_mut(&mut request.messages).push(Message::Tool(ToolMessage {
        call_id: id,
        name: "write_file".into(),
        content: vec![Part::Text("ok".into())],
        is_error: false,
    }));
    ask(&client, &request).await.result.unwrap();
    let seen = server.seen();
    let first = String::from_utf8(seen[0].body.clone()).unwrap();
    let prefix = first.rfind("],\"stream\"").unwrap();
    assert!(seen[1].body.starts_with(&seen[0].body[..prefix]));
}

#[test]
fn r47_prompt_and_answer_always_fit_the_window() {
    for window in [1_000u64, 4_096, 8_192, 32_768, 262_144, 1_000_000] {
        for prompt in [0, 500, window / 2, window - 100, window, window * 2] {
            for asked in [1, 100, 5_000, 1_000_000] {
                let facts = ModelFacts { context_window: window, max_output: 65_536, ..ModelFacts::default() };
                if let Some(limit) = output_limit(asked, &facts, prompt) {
                    assert!(limit >= 1 && limit <= asked && limit <= 65_536, "{window} {prompt} {asked}: {limit}");
                    assert!(prompt + limit <= window, "{window} {prompt} {asked}: {limit}");
                }
            }
        }
    }
    let facts = ModelFacts { context_window: 262_144, max_output: 65_536, ..ModelFacts::default() };
    assert_eq!(output_limit(1_000_000, &facts, 10_000), Some(65_536));
    assert_eq!(output_limit(1_000_000, &facts, 255_000), Some(4_096));
    assert_eq!(output_limit(1_000_000, &facts, 262_144), None);
}

#[tokio::test]
async fn r47_a_limit_that_the_server_names_is_learned() {
    let (ran, bodies) =
        play_with(vec![refused(400, "Range of max_tokens should be [1, 8192]"), says("ok")], |config| {
            config.generation.max_output_tokens = Some(20_000);
        })
        .await;
    assert_eq!(ran.result.unwrap().requests, 2);
    assert_eq!((&bodies[0]["max_tokens"], &bodies[1]["max_tokens"]), (&json!(20_000), &json!(8_192)));
}

#[tokio::test]
async fn r49_what_runs_on_this_machine_costs_nothing() {
    let server = TestServer::play(vec![]).await;
    let client = Client::new(config(&server)).unwrap();
    assert_eq!(client.facts().price, Some(Price::default()));
    let hosted = ClientConfig { key: Some(Secret::parse("sk-x123").unwrap()), ..ClientConfig::default() };
    assert_eq!(Client::new(hosted).unwrap().facts().price.unwrap().output, 5.0);
}

#[tokio::test]
async fn r51_a_conversation_cut_in_silence_is_told_once() {
    let usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":2048,\"completion_tokens\":1}}\n\n";
    let answer = || stream(&[&text("x"), &finish("stop"), usage, DONE]);
    let server = TestServer::play(vec![answer(), answer()]).await;
    let client = Client::new(config(&server)).unwrap();
    let mut request = request();
    Arc::make_mut(&mut request.messages).push(Message::User(vec![Part::Text("long ".repeat(10_000))]));
    let warnings = |ran: &Ran| ran.notices.iter().filter(|notice| matches!(notice, Notice::Warning(_))).count();
    assert_eq!(warnings(&ask(&client, &request).await), 1);
    assert_eq!(warnings(&ask(&client, &request).await), 0);
}

#[tokio::test]
async fn r52_the_key_is_in_no_error_debug_output_or_cassette() {
    let echo = format!("your key {KEY} is wrong, Bearer {KEY}");
    let scripts = vec![refused(500, &echo), stream(&[&text(KEY), ": x\n\n"]), refused(401, &echo)];
    let server = TestServer::play(scripts).await;
    let config = config(&server);
    let cassette = Shared::default();
    let masks = Masks::new("/nowhere", None, None, vec![KEY.to_owned()]);
    let client =
        Client::recording(config.clone(), Client::http(&config, 1).unwrap(), Box::new(cassette.clone()), masks)
            .unwrap();
    let mut asked = request();
    Arc::make_mut(&mut asked.messages).push(Message::User(vec![Part::Text(format!("my key is {KEY}"))]));
    let mut told = String::new();
    let mut sink = |delta: Delta| {
        if let Delta::Notice(notice) = delta {
            told.push_str(&format!("{notice:?}"));
        }
    };
    let error = client.respond(&asked, &mut sink).await.unwrap_err();
    let all = format!("{error:?} {told} {config:?} {client:?} {}", cassette.text());
    assert!(!all.contains(KEY), "{all}");
    use base64::Engine as _;
    for line in cassette.text().lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        for chunk in value.pointer("/response/chunks").and_then(Value::as_array).into_iter().flatten() {
            let bytes = base64::engine::general_purpose::STANDARD.decode(chunk["b64"].as_str().unwrap()).unwrap();
            assert!(!String::from_utf8_lossy(&bytes).contains(KEY));
        }
    }
    // The server itself got it, in its header.
    assert!(server.seen()[0].headers.contains(&format!("Bearer {KEY}")));
}

#[tokio::test]
async fn r55_what_is_for_one_provider_goes_to_no_other() {
    let server = TestServer::play(vec![says("ok"), says("ok")]).await;
    let plain = Client::new(config(&server)).unwrap();
    ask(&plain, &request()).await.result.unwrap();
    let dashscope = ClientConfig { provider: Some(crate::model::providers::Provider::DashScope), ..config(&server) };
    ask(&Client::new(dashscope).unwrap(), &request()).await.result.unwrap();
    let seen = server.seen();
    let marks = |index: usize| {
        let seen: &crate::model::test_server::Seen = &seen[index];
        let body = String::from_utf8(seen.body.clone()).unwrap();
        ["x-dashscope-cachecontrol", "cache_control", "preserve_thinking"]
            .map(|name| seen.headers.contains(name) || body.contains(name))
    };
    assert_eq!(marks(0), [false; 3]);
    assert_eq!(marks(1), [true; 3]);
}

#[tokio::test]
async fn r42_text_that_was_held_back_is_shown_before_its_continuation() {
    // The end might have been the beginning of a tag, so the assembler keeps it until it knows.
    for broken in [
        stream(&[&text("a <tool")]),
        stream(&[&text("a <tool"), "data: {\"error\":{\"message\":\"x\",\"code\":500}}\n\n"]),
    ] {
        let (ran, _) = play(vec![broken, says("box>")]).await;
        let turn = ran.result.unwrap();
        assert_eq!(turn.message.text, "a <toolbox>");
        assert_eq!(ran.shown, turn.message.text);
    }
}

#[tokio::test]
async fn r43_a_dropped_answer_leaves_a_client_that_works() {
    let server = TestServer::play(vec![vec![Step::Stall], says("ok")]).await;
    let client = Client::new(config(&server)).unwrap();
    let request = request();
    let mut sink = |_: Delta| {};
    {
        let answer = client.respond(&request, &mut sink);
        assert!(tokio::time::timeout(Duration::from_millis(30), answer).await.is_err());
    }
    assert_eq!(ask(&client, &request).await.result.unwrap().message.text, "ok");
}

#[tokio::test]
async fn another_model_takes_over_only_where_that_may_help() {
    let fallback = |config: &mut ClientConfig| {
        config.fallback_models = vec!["qwen-plus".into()];
        config.retry.retries = 0;
    };
    let (ran, bodies) = play_with(vec![refused(503, "busy"), says("ok")], fallback).await;
    assert_eq!(ran.result.unwrap().message.text, "ok");
    assert_eq!(ran.notices, [Notice::Fallback { from: "qwen3-coder-plus".into(), to: "qwen-plus".into() }]);
    assert_eq!(bodies[1]["model"], "qwen-plus");
    let (ran, bodies) = play_with(vec![refused(401, "no")], fallback).await;
    assert_eq!((ran.result.unwrap_err().class, bodies.len()), (ErrorClass::Auth, 1));
}

#[tokio::test]
async fn r26_leaked_calls_put_the_tools_into_the_prompt() {
    let leak = "<tool_call>\n<function=list>\n</function>\n</tool_call>";
    let server =
        TestServer::play(vec![says(leak), says("```json\n{\"name\": \"list\", \"arguments\": {}}\n```")]).await;
    let client = Client::new(config(&server)).unwrap();
    let ran = ask(&client, &request()).await;
    assert_eq!(ran.result.unwrap().message.calls.len(), 1);
    assert!(client.text_tools());
    // In that mode a block that ends the message is a call.
    assert_eq!(ask(&client, &request()).await.result.unwrap().message.calls.len(), 1);
}

#[tokio::test]
async fn r26_a_turn_can_be_read_again() {
    let fenced = "I will look.\n```json\n{\"name\": \"list\", \"arguments\": {}}\n```";
    let server = TestServer::play(vec![says(fenced)]).await;
    let client = Client::new(config(&server)).unwrap();
    let turn = ask(&client, &request()).await.result.unwrap();
    assert_eq!((turn.message.calls.len(), client.text_tools()), (0, false));
    let again = client.read_again(&turn, &request()).unwrap();
    assert_eq!((again.message.calls[0].name.as_str(), again.stop), ("list", Stop::Calls));
    assert!(again.message.text.starts_with("I will look."));
    assert!(client.text_tools());
    let prose = Turn { message: AssistantMessage { text: "nothing".into(), ..AssistantMessage::default() }, ..turn };
    assert_eq!(client.read_again(&prose, &request()), None);
}

#[tokio::test]
async fn r61_a_whole_answer_gives_the_same_turn_as_its_stream() {
    let (streamed, _) =
        play(vec![stream(&[&text("a"), &call_chunk("{\"file_path\":\"x\"}"), &finish("tool_calls"), DONE])]).await;
    let body = json!({"choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": "a",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "write_file", "arguments": "{\"file_path\":\"x\"}"}}]}}]});
    let (whole, bodies) =
        play(vec![refused(400, "streaming is not supported"), respond(200, "application/json", &body.to_string())])
            .await;
    assert_eq!(bodies[1]["stream"], false);
    assert_eq!(streamed.result.unwrap().message, whole.result.unwrap().message);
}

#[tokio::test]
async fn sampling_is_the_cards_locally_and_the_users_first() {
    let (_, bodies) = play_with(vec![says("ok")], |config| {
        config.generation.sampling = Sampling { temperature: Some(0.0), top_p: None, seed: Some(3) };
    })
    .await;
    let body = &bodies[0];
    assert_eq!(
        (&body["temperature"], &body["top_p"], &body["top_k"], &body["seed"]),
        (&json!(0.0), &json!(0.8), &json!(20), &json!(3))
    );
}

#[tokio::test]
async fn r44_what_broken_answers_cost_stands_in_the_error() {
    let cut = || {
        let chunk = json!({"choices": [{"delta": {"reasoning": "hm"}}], "usage": {"prompt_tokens": 10, "completion_tokens": 2}});
        stream(&[&format!("data: {chunk}\n\n")])
    };
    let server = TestServer::play(vec![cut(), cut(), cut()]).await;
    let ran = ask(&Client::new(config(&server)).unwrap(), &request()).await;
    let error = ran.result.unwrap_err();
    assert_eq!((error.requests, error.usage.input_tokens, error.usage.output_tokens), (3, Some(30), Some(6)));
}

#[derive(Clone, Default)]
struct Shared(Arc<StdMutex<Vec<u8>>>);

impl Shared {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
