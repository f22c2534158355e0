//! Tests the example streams over a real connection: what the client makes of them, and how it handles a broken one.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::client::Client;
use super::config::ClientConfig;
use super::test_server::{Script, Step, TestServer, says, stream_head};
use super::{Arguments, Delta, Message, Model, Notice, Part, Request, ToolSpec};

fn tools(cases: &Value) -> Arc<[ToolSpec]> {
    let mut tools: Vec<ToolSpec> = cases["tools"]
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
            let parameters = json!({"type": "object", "properties": properties, "required": cases["required"][name]});
            ToolSpec { name: name.clone(), description: String::new(), parameters }
        })
        .collect();
    tools.sort_by(|one, other| one.name.cmp(&other.name));
    tools.into()
}

fn script(case: &Value) -> Script {
    let mut script = vec![stream_head()];
    for step in case["steps"].as_array().unwrap() {
        let argument = step[1].as_str().unwrap_or_default();
        match step[0].as_str().unwrap() {
            "w" => script.push(Step::Write(argument.as_bytes().to_vec())),
            "b" => script.push(Step::Write(
                (0..argument.len())
                    .step_by(2)
                    .map(|at| u8::from_str_radix(&argument[at..at + 2], 16).unwrap())
                    .collect(),
            )),
            "rst" => script.push(Step::Reset),
            "sleep" | "close" => {}
            other => panic!("{other}"),
        }
    }
    script
}

#[tokio::test]
async fn r42_every_example_stream_ends_as_it_should() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/streams/streams.json");
    let cases: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    for case in cases["cases"].as_array().unwrap() {
        let title = format!("{} {}", case["n"], case["title"]);
        let expect = &case["expect"];
        let server = TestServer::play(vec![script(case), says("NEXT")]).await;
        let mut config = ClientConfig::new(&server.url, "m");
        config.retry.first_wait = Duration::from_micros(10);
        config.known.asks_for_window = false;
        let client = Client::new(config).unwrap();
        let request = Request {
            messages: vec![Message::User(vec![Part::Text("go".into())])].into(),
            tools: tools(&cases),
            ..Request::default()
        };
        let (mut shown, mut notices) = (String::new(), Vec::new());
        let mut sink = |delta| match delta {
            Delta::Text(text) => shown.push_str(&text),
            Delta::Reasoning(_) => {}
            Delta::Notice(notice) => notices.push(notice),
        };
        let turn = client.respond(&request, &mut sink).await.unwrap();
        let bodies: Vec<Value> = server.seen().iter().map(|seen| seen.json()).collect();
        if expect["outcome"] == "error" {
            let Some(Notice::Retry { class, .. }) = notices.first() else { panic!("{title}: {notices:?}") };
            assert_eq!(class, expect["class"].as_str().unwrap(), "{title}");
            let partial = expect["text"].as_str().unwrap();
            match expect["action"].as_str().unwrap() {
                "continue" => {
                    assert_eq!(turn.message.text, format!("{partial}NEXT"), "{title}");
                    assert_eq!(bodies[1]["messages"][1], json!({"role": "assistant", "content": partial}), "{title}");
                }
                "replay" => {
                    assert_eq!(turn.message.text, "NEXT", "{title}");
                    assert_eq!(bodies[0], bodies[1], "{title}");
                }
                other => panic!("{title}: {other}"),
            }
            assert_eq!(shown.matches("NEXT").count(), 1, "{title}");
            continue;
        }
        assert_eq!(bodies.len(), 1, "{title}: {notices:?}");
        assert_eq!(turn.message.text, expect["text"].as_str().unwrap_or_default(), "{title}");
        assert_eq!(shown, turn.message.text, "{title}");
        let calls: Vec<(String, Value)> = turn
            .message
            .calls
            .iter()
            .map(|call| match &call.arguments {
                Arguments::Object(map) => (call.name.clone(), Value::Object(map.clone())),
                Arguments::Incomplete { .. } | Arguments::Invalid { .. } => (call.name.clone(), Value::Null),
            })
            .collect();
        let expected: Vec<(String, Value)> = expect["calls"]
            .as_array()
            .unwrap()
            .iter()
            .map(|call| (call["name"].as_str().unwrap().to_owned(), call["args"].clone()))
            .collect();
        assert_eq!(calls, expected, "{title}");
    }
}
