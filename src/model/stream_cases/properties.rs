//! Tests what holds for every stream.

use proptest::prelude::*;

use super::*;

fn any_json() -> impl Strategy<Value = Value> {
    let key = prop::sample::select(vec![
        "choices",
        "delta",
        "message",
        "content",
        "tool_calls",
        "function",
        "name",
        "arguments",
        "index",
        "id",
        "usage",
        "prompt_tokens",
        "finish_reason",
        "error",
        "code",
        "reasoning",
        "reasoning_details",
        "function_call",
        "text",
        "type",
        "output",
        "prompt_tokens_details",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec!["", "0", "a", "{}", "{\"a\":", "}", "list", "stop", "<think>", "<tool_call>", "```"])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(7, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((key.clone(), inner), 0..6).prop_map(|pairs| Value::Object(
                pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
            )),
        ]
    })
}

proptest! {
    #![proptest_config(crate::properties::tried(64))]

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
    fn r6_arbitrary_json_never_panics(deltas in prop::collection::vec(any_json(), 0..6), raw in any_json()) {
        for (wrapped, is_whole) in [(true, true), (true, false), (false, true), (false, false)] {
            let mut assembler = Assembler::new(tools(), Options::default());
            let mut out = Vec::new();
            for delta in &deltas {
                let chunk = if wrapped { json!({"choices": [{"delta": delta}]}) } else { delta.clone() };
                let _ = assembler.push_event(None, &chunk.to_string(), &mut out);
            }
            let _ = assembler.push_event(None, &raw.to_string(), &mut out);
            if is_whole {
                let _ = assembler.finish(Ending::Done, &mut out);
            } else {
                let _ = assembler.into_partial();
            }
        }
        let _ = from_body(&raw.to_string(), tools(), Options::default(), &mut Vec::new());
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), piece in 1usize..9) {
        let whole = play(&bytes, bytes.len(), false, Options::default());
        prop_assert_eq!(whole, play(&bytes, piece, false, Options::default()));
    }
}

#[test]
fn r63_hostile_text_is_read_in_linear_time() {
    // Each of these takes minutes if anything is examined once for every place.
    let size = 200_000;
    for piece in [
        "<function",
        "<tool_call>{",
        "{",
        "<parameter=a>",
        "</function>",
        "`",
        "</parameter> ",
        "<think>",
        "\n```",
        "\n[",
        "<tool_call>",
    ] {
        let text = format!("a{}", piece.repeat(size / piece.len()));
        for text in [text.clone(), format!("<function=list>\n<parameter=content>{text}")] {
            let data = json!({"choices": [{"delta": {"content": text}, "finish_reason": "stop"}]}).to_string();
            let options = Options { text_tools: TextTools::Prompted, ..Options::default() };
            let mut assembler = Assembler::new(tools(), options);
            assembler.push_event(None, &data, &mut Vec::new()).unwrap();
            let _ = assembler.finish(Ending::Done, &mut Vec::new());
            let _ = crate::model::unread_call::broken_call(&text, &tools(), false);
        }
    }
}
