//! Tests the bytes of requests.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::model::{Reasoning, ToolCall, ToolMessage};

fn shape() -> Shape {
    Shape {
        prompted: false,
        parts: false,
        images: true,
        reasoning: ReasoningOut::Field("reasoning_content"),
        null_content: true,
        tool_media: false,
        question: None,
    }
}

fn options() -> Options {
    Options {
        stream: true,
        stream_options: true,
        max_tokens: Some(("max_tokens", 100)),
        sampling: vec![("temperature", json!(0.5))],
        force_tool: None,
        response_format: None,
        parallel_tool_calls: true,
        thinking: None,
        preserve_thinking: false,
        marks: false,
        extra: Map::new(),
    }
}

fn tools() -> Vec<ToolSpec> {
    vec![ToolSpec { name: "list".into(), description: "Lists.".into(), parameters: Value::Null }]
}

fn call(id: &str) -> ToolCall {
    ToolCall {
        id: id.into(),
        name: "list".into(),
        arguments: Arguments::Object(Map::new()),
        recovered: None,
        notes: Vec::new(),
    }
}

fn answer(id: &str, content: Vec<Part>) -> Message {
    Message::Tool(ToolMessage { call_id: id.into(), name: "list".into(), content, is_error: false })
}

fn said(text: &str) -> Part {
    Part::Text(text.into())
}

fn turn(text: &str, calls: Vec<ToolCall>, reasoning: Option<&str>) -> Message {
    Message::Assistant(AssistantMessage {
        text: text.into(),
        reasoning: reasoning.map(|text| Reasoning { text: text.into(), details: None }),
        calls,
    })
}

fn image() -> Part {
    Part::Media { mime_type: "image/png".into(), data: "AAAA".into(), name: "x.png".into() }
}

fn body_of(tools: &[ToolSpec], messages: &[&Message], shape: Shape, options: &Options) -> Body {
    let (mut stem, tools) = (Stem::default(), Arc::from(tools));
    begin(&mut stem, &Lineage::default(), "m", &tools, messages, shape, options).finish(options)
}

fn written(messages: &[Message], shape: Shape, options: &Options) -> Body {
    let messages: Vec<&Message> = messages.iter().collect();
    body_of(&tools(), &messages, shape, options)
}

fn json_of(messages: &[Message], shape: Shape) -> Value {
    serde_json::from_slice(&written(messages, shape, &options()).bytes).unwrap()
}

fn conversation() -> Vec<Message> {
    vec![
        Message::System("be brief".into()),
        Message::User(vec![said("do it")]),
        turn("", vec![call("a"), call("b")], None),
        answer("a", vec![said("one")]),
        answer("b", vec![said("look"), image()]),
        turn("more", vec![call("c")], Some("hm")),
        answer("c", vec![said("three")]),
        turn("done", vec![], None),
        Message::User(vec![said("and now")]),
    ]
}

#[test]
fn the_body_reads_as_servers_want_it() {
    let body = written(&conversation()[..4], shape(), &options());
    insta::assert_snapshot!(
        String::from_utf8(body.bytes).unwrap(),
        @r#"{"model":"m","tools":[{"type":"function","function":{"name":"list","description":"Lists.","parameters":{"type":"object","properties":{},"required":[]}}}],"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"do it"},{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"list","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"list","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"one"},{"role":"tool","tool_call_id":"b","content":"[no result: this call was not run]"}],"stream":true,"stream_options":{"include_usage":true},"max_tokens":100,"temperature":0.5,"parallel_tool_calls":true}"#
    );
}

#[test]
fn r45_each_request_begins_with_the_one_before() {
    let conversation = conversation();
    // Where a request is made: after a user's message, and after all answers of a turn.
    let requests = [2, 5, 7, 9];
    for parts in [false, true] {
        for prompted in [false, true] {
            for tool_media in [false, true] {
                let shape = Shape { parts, prompted, tool_media, ..shape() };
                let options = Options { marks: parts, ..options() };
                let bodies: Vec<String> = requests
                    .iter()
                    .map(|end| {
                        let body = written(&conversation[..*end], shape.clone(), &options);
                        String::from_utf8(body.bytes[..body.prefix].to_vec()).unwrap().replace(CACHE_MARK, "")
                    })
                    .collect();
                for pair in bodies.windows(2) {
                    assert!(pair[1].starts_with(&pair[0]), "{shape:?}\n{}\n{}", pair[0], pair[1]);
                }
            }
        }
    }
}

#[test]
fn r60_what_has_nothing_to_say_is_left_out() {
    let body = body_of(&[], &[], shape(), &Options { max_tokens: None, sampling: vec![], ..options() });
    insta::assert_snapshot!(
        String::from_utf8(body.bytes).unwrap(),
        @r#"{"model":"m","messages":[{"role":"user","content":"Begin."}],"stream":true,"stream_options":{"include_usage":true}}"#
    );
    let several = [
        Message::System("a".into()),
        Message::System("b".into()),
        Message::User(vec![said("x")]),
        Message::System("c".into()),
        answer("nobody asked", vec![]),
        turn("", vec![], None),
    ];
    assert_eq!(
        json_of(&several, shape())["messages"],
        json!([
            {"role": "system", "content": "a\n\nb"},
            {"role": "user", "content": "x"},
            {"role": "user", "content": "c"},
        ])
    );
}

#[test]
fn r60_the_owners_field_stands_once() {
    let mut extra = Map::new();
    for (name, value) in
        [("temperature", json!(0)), ("max_tokens", json!(7)), ("model", json!("x")), ("stream_options", json!({}))]
    {
        extra.insert(name.into(), value);
    }
    let body = written(&conversation()[..2], shape(), &Options { extra, ..options() });
    let text = String::from_utf8(body.bytes).unwrap();
    for name in ["\"temperature\"", "\"max_tokens\"", "\"model\"", "\"stream_options\""] {
        assert_eq!(text.matches(name).count(), 1, "{name} in {text}");
    }
}

#[test]
fn r23_each_call_has_exactly_one_answer_in_order() {
    let messages = [
        Message::User(vec![said("x")]),
        turn("", vec![call("a"), call("b")], None),
        answer("b", vec![said("2")]),
        answer("a", vec![said("1")]),
        answer("a", vec![said("again")]),
        answer("z", vec![said("whose")]),
    ];
    let value = json_of(&messages, shape());
    let answers: Vec<(&str, &str)> = value["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| (message["tool_call_id"].as_str().unwrap(), message["content"].as_str().unwrap()))
        .collect();
    assert_eq!(answers, [("a", "1"), ("b", "2")]);
}

#[test]
fn r24_broken_arguments_never_reach_the_history() {
    for arguments in
        [Arguments::Incomplete { raw: "{\"a".into() }, Arguments::Invalid { raw: "[".into(), problem: "x".into() }]
    {
        let broken = ToolCall { arguments, ..call("a") };
        let value = json_of(&[Message::User(vec![]), turn("", vec![broken], None)], shape());
        assert_eq!(value["messages"][1]["tool_calls"][0]["function"]["arguments"], "{}");
    }
}

#[test]
fn r30_reasoning_goes_back_as_the_provider_wants_it() {
    let with = |reasoning, details: Option<Value>, text: &str| {
        let message = Message::Assistant(AssistantMessage {
            text: String::new(),
            reasoning: Some(Reasoning { text: text.into(), details }),
            calls: vec![call("a")],
        });
        let value = json_of(&[Message::User(vec![said("x")]), message], Shape { reasoning, ..shape() });
        let mut message = value["messages"][1].clone();
        message.as_object_mut().unwrap().remove("tool_calls");
        message
    };
    let details = json!([{"type": "reasoning.text", "text": "t"}]);
    assert_eq!(with(ReasoningOut::Never, None, "t"), json!({"role": "assistant", "content": null}));
    assert_eq!(
        with(ReasoningOut::Field("reasoning"), None, "t"),
        json!({"role": "assistant", "content": "", "reasoning": "t"})
    );
    assert_eq!(
        with(ReasoningOut::Field("reasoning_content"), None, " "),
        json!({"role": "assistant", "content": null})
    );
    assert_eq!(
        with(ReasoningOut::Details, Some(details.clone()), "t"),
        json!({"role": "assistant", "content": "", "reasoning_details": details})
    );
    assert_eq!(with(ReasoningOut::Details, None, "t"), json!({"role": "assistant", "content": "", "reasoning": "t"}));
}

#[test]
fn r50_marks_stand_on_the_system_message_and_the_last_and_are_few() {
    let mut messages = conversation();
    messages.truncate(7);
    let shape = Shape { parts: true, ..shape() };
    let options = Options { marks: true, ..options() };
    let marks = |messages: &[Message]| {
        let value: Value = serde_json::from_slice(&written(messages, shape.clone(), &options).bytes).unwrap();
        let messages = value["messages"].as_array().unwrap().clone();
        (0..messages.len())
            .filter(|index| messages[*index].to_string().contains("cache_control"))
            .map(|index| (index, messages.len()))
            .collect::<Vec<_>>()
    };
    assert_eq!(marks(&messages), [(0, 8), (7, 8)]);
    // With more answers than the cache looks back, the end of the request before is marked as well.
    let many: Vec<ToolCall> = (0..30).map(|number| call(&format!("n{number}"))).collect();
    messages.push(turn("", many.clone(), None));
    messages.extend(many.iter().map(|call| answer(&call.id, vec![said("x")])));
    assert_eq!(marks(&messages), [(0, 39), (7, 39), (38, 39)]);
    let plain = written(&messages, Shape { parts: false, ..shape.clone() }, &options);
    assert!(!String::from_utf8(plain.bytes).unwrap().contains("cache_control"));
}

#[test]
fn r58_images_of_tools_follow_all_answers() {
    let value = json_of(&conversation()[..5], shape());
    assert_eq!(
        value["messages"].as_array().unwrap()[3..],
        [
            json!({"role": "tool", "tool_call_id": "a", "content": "one"}),
            json!({"role": "tool", "tool_call_id": "b", "content": "look\n[media attached in following user message]"}),
            json!({"role": "user", "content": [
                {"type": "text", "text": "(attached media from previous tool call)"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}),
        ]
    );
}

#[test]
fn r58_what_the_model_does_not_take_becomes_words() {
    let value = json_of(&conversation()[..5], Shape { images: false, ..shape() });
    assert_eq!(
        value["messages"][4]["content"],
        "look\n[Unsupported image file: \"x.png\" (image/png) is not shown to this model]"
    );
    assert_eq!(value["messages"].as_array().unwrap().len(), 5);
}

#[test]
fn in_prompted_mode_there_are_no_tool_messages() {
    let value = json_of(&conversation()[..5], Shape { prompted: true, images: false, ..shape() });
    assert!(value.get("tools").is_none());
    assert!(value.get("parallel_tool_calls").is_none());
    let messages = value["messages"].as_array().unwrap();
    let roles: Vec<&str> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user"]);
    assert!(messages[0]["content"].as_str().unwrap().starts_with("be brief\n\n# Tools"));
    assert_eq!(
        messages[2]["content"],
        "<tool_call>\n<function=list>\n</function>\n</tool_call>\n<tool_call>\n<function=list>\n</function>\n</tool_call>\n"
    );
    insta::assert_snapshot!(messages[3]["content"].as_str().unwrap(), @r#"
    <tool_response>
    one
    </tool_response>
    <tool_response>
    look
    [Unsupported image file: "x.png" (image/png) is not shown to this model]
    </tool_response>

    If the task is done, answer the user in words, without a call. Else make the next call.
    "#);
}

#[test]
fn prompted_tools_are_described_even_without_a_system_message() {
    let value = json_of(&conversation()[1..2], Shape { prompted: true, ..shape() });
    assert!(value["messages"][0]["content"].as_str().unwrap().starts_with("# Tools"));
}

/// Any message, in any place: what a server would refuse is what the writer has to put in order.
fn any_message() -> impl Strategy<Value = Message> {
    let id = || prop_oneof![Just("a"), Just("b"), Just("c")];
    let content = prop_oneof![Just(vec![said("wörter")]), Just(vec![said("look"), image()]), Just(Vec::new())];
    prop_oneof![
        1 => Just(Message::System("more rules".into())),
        2 => content.clone().prop_map(Message::User),
        4 => (any::<bool>(), proptest::collection::vec(id(), 0..3), any::<bool>()).prop_map(|(speaks, ids, thinks)| {
            turn(if speaks { "ja" } else { "" }, ids.into_iter().map(call).collect(), thinks.then_some("hm"))
        }),
        5 => (id(), content).prop_map(|(id, content)| answer(id, content)),
    ]
}

fn any_manner() -> impl Strategy<Value = (Shape, Options)> {
    any::<[bool; 7]>().prop_map(|[prompted, parts, images, tool_media, marks, stream, null_content]| {
        let shape = Shape { prompted, parts, images, tool_media, null_content, ..shape() };
        (shape, Options { marks, stream, ..options() })
    })
}

proptest! {
    /// Requests of one conversation, made anywhere in it, in manners that change now and then.
    #[test]
    fn a_stem_changes_no_byte(
        messages in proptest::collection::vec(any_message(), 0..14),
        manners in proptest::collection::vec(any_manner(), 2),
        steps in proptest::collection::vec((0..4_usize, 0..8_usize), 1..8),
    ) {
        let (mut stem, lineage, tools) = (Stem::default(), Lineage::default(), Arc::from(tools()));
        let messages: Vec<&Message> = messages.iter().collect();
        let mut end = 0;
        for (step, manner) in steps {
            end = (end + step).min(messages.len());
            let (shape, options) = &manners[usize::from(manner == 0)];
            let mut begun = begin(&mut stem, &lineage, "m", &tools, &messages[..end], shape.clone(), options);
            let estimate = begun.estimate(options);
            let body = begun.finish(options);
            prop_assert_eq!(estimate, body.estimate);
            let anew = body_of(&tools, &messages[..end], shape.clone(), options);
            prop_assert_eq!(String::from_utf8_lossy(&body.bytes), String::from_utf8_lossy(&anew.bytes));
            prop_assert_eq!(body, anew);
        }
    }
}

#[test]
fn a_turn_costs_what_it_adds() {
    let (mut stem, lineage, tools) = (Stem::default(), Lineage::default(), Arc::from(tools()));
    let (shape, options) = (Shape { parts: true, ..shape() }, Options { marks: true, ..options() });
    let mut messages = vec![Message::System("be brief".into()), Message::User(vec![said("do it")])];
    for number in 0..5 {
        let given: Vec<&Message> = messages.iter().collect();
        let body = begin(&mut stem, &lineage, "m", &tools, &given, shape.clone(), &options).finish(&options);
        let last = given.iter().rposition(|message| matches!(message, Message::Assistant(_)));
        // All but the last turn is kept; before there is one, the system message is not a reason to keep anything.
        assert_eq!(stem.units, if last.is_some() { number + 1 } else { 0 });
        assert!(body.bytes.starts_with(&stem.bytes));
        let id = number.to_string();
        messages.extend([turn("", vec![call(&id)], None), answer(&id, vec![said("result")])]);
    }
    // Another conversation shares nothing.
    let given: Vec<&Message> = messages.iter().collect();
    begin(&mut stem, &Lineage::default(), "m", &tools, &given[..2], shape, &options);
    assert_eq!(stem.units, 0);
}
