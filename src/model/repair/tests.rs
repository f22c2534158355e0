//! Tests the repair of JSON.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn object(raw: &str) -> Option<(Value, Vec<&'static str>)> {
    match read(raw) {
        Reading::Fragments { mut pieces, steps } if pieces.len() == 1 => match pieces.remove(0) {
            Fragment::Object(object) => Some((Value::Object(object), steps)),
            Fragment::Incomplete(_) => None,
        },
        Reading::Fragments { .. } | Reading::Invalid { .. } => None,
    }
}

fn problem(raw: &str) -> String {
    match read(raw) {
        Reading::Invalid { problem } => problem,
        Reading::Fragments { pieces, .. } => panic!("{raw} was read as {pieces:?}"),
    }
}

fn is_incomplete(raw: &str) -> bool {
    matches!(read(raw), Reading::Fragments { pieces, .. } if matches!(pieces.last(), Some(Fragment::Incomplete(_))))
}

#[test]
fn r16_arguments_empty_or_encoded_twice_are_read() {
    assert_eq!(object(" \n"), Some((json!({}), vec![])));
    assert_eq!(object(r#""{\"a\":1}""#), Some((json!({"a":1}), vec!["double_encoded"])));
}

#[test]
fn each_step_of_the_ladder_is_recorded() {
    let cases: &[(&str, Value, &[&str])] = &[
        ("\u{feff}{\"a\":1}", json!({"a":1}), &[]),
        ("```json\n{\"a\":1}\n```", json!({"a":1}), &["code_fence"]),
        ("Arguments: {\"a\":1}", json!({"a":1}), &["leading_text"]),
        ("{\"a\":1} as asked", json!({"a":1}), &["trailing_text"]),
        ("{\"a\":1}}", json!({"a":1}), &["trailing_text"]),
        ("{\"a\":\"x\ny\tz\"}", json!({"a":"x\ny\tz"}), &["control_characters"]),
        ("{\"a\":[1,2,],}", json!({"a":[1,2]}), &["trailing_comma"]),
        ("{a_b: 1}", json!({"a_b":1}), &["unquoted_key"]),
        ("{'a': True, 'b': None}", json!({"a":true,"b":null}), &["single_quotes", "python_literals"]),
        ("{\"a\":1 // one\n}", json!({"a":1}), &["comment"]),
        (r#"{"a":"\d+\$"}"#, json!({"a":"\\d+\\$"}), &["invalid_escape"]),
        ("{\"a\":\"x \\\n y\"}", json!({"a":"x \\\n y"}), &["invalid_escape", "control_characters"]),
    ];
    for (raw, value, steps) in cases {
        assert_eq!(object(raw), Some((value.clone(), steps.to_vec())), "{raw}");
    }
}

#[test]
fn r17_glued_objects_are_several() {
    let Reading::Fragments { pieces, steps } = read("{\"a\":1}{\"b\":2}\n{\"c\":") else { panic!() };
    assert_eq!(steps, ["glued_objects"]);
    assert_eq!(pieces.len(), 3);
    assert_eq!(pieces[2], Fragment::Incomplete("{\"c\":".into()));
}

#[test]
fn r20_what_is_cut_is_incomplete_wherever_it_is_cut() {
    let whole = r#"{"file_path":"a\u00e9\n.rs","n":-12.5,"b":[true,null,{"x":"y"}]}"#;
    for end in 1..whole.len() {
        if whole.is_char_boundary(end) {
            assert!(is_incomplete(&whole[..end]), "{}", &whole[..end]);
        }
    }
    assert!(is_incomplete(r#""{\"a\":"#));
}

#[test]
fn r21_what_has_two_readings_is_refused_with_its_place() {
    for raw in [
        r#"{"content":"print("hi")"}"#,
        r#"{"content":"a"}"}"#,
        r#""a": {"b":1}}"#,
        r#"{"a" 1}"#,
        r#"{"a":1 "b":2}"#,
        r#"{'content': 'it's'}"#,
        r#"{"a":1,"a":2,}"#,
        "{\"a\":\"url \"// foo\"\n}",
        r#"{"a":"\ud800",}"#,
        r#"{'a':'\x41'}"#,
        "[1]",
        "null",
        "7",
        "true",
        "hello",
        "{\"a\":undefined}",
    ] {
        problem(raw);
    }
    insta::assert_snapshot!(problem("{\"path\":\"a.py\",\n\"content\":\"print(\"hi\")\"}"), @r#"
    the arguments are not valid JSON: expected `,` or `}` at line 2 column 19, near `hi")"}`. Inside a string write `"` as `\"`, a line break as `\n` and a backslash as `\\`. It began: {"path":"a.py",
    "content":"print("hi")"}
    "#);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::String),
        any::<String>().prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::vec((any::<String>(), inner), 0..5)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn valid_json_is_read_as_serde_reads_it(value in any_json()) {
        let text = value.to_string();
        let mut parser = Tolerant::new(&text, 0);
        prop_assert!(matches!(parser.value(0), Ok(read) if read == value));
        prop_assert!(parser.steps.is_empty());
    }

    #[test]
    fn nothing_panics_and_nothing_bad_becomes_empty(raw in any::<String>()) {
        if let Some((Value::Object(object), _)) = object(&raw) {
            let blank = raw.trim_start_matches('\u{feff}').trim().is_empty();
            let braced = raw.contains('{');
            prop_assert!(!object.is_empty() || blank || braced);
        }
    }

    #[test]
    fn json_like_text_never_panics(raw in "[{}\\[\\]\"',:a1\\\\u0d8\n/é]{0,40}") {
        let _ = read(&raw);
    }
}
