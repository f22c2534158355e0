//! Completes the schema of recipe files for editors: what the types alone do not say, such as minimums and keys that belong
//! together.

use serde_json::{Value, json};

/// Counts with their smallest value, by type and key.
const MINIMUMS: [(&str, &str, u64); 20] = [
    ("Limits", "turns", 1),
    ("Limits", "tool_calls", 1),
    ("Limits", "total_tokens", 1),
    ("Limits", "output_tokens", 1),
    ("Limits", "context_bytes", 1),
    ("Guards", "max_files", 1),
    ("Guards", "max_lines", 1),
    ("Verify", "attempts", 1),
    ("CheckFile", "repeat", 1),
    ("Output", "max_findings", 1),
    ("Output", "max_chars", 1),
    ("Output", "repairs", 0),
    ("Context", "max_bytes", 1),
    ("Context", "max_parts", 1),
    ("Param", "max_bytes", 1),
    ("ReviewWish", "max_inline", 1),
    ("LabelWish", "max", 1),
    ("TestExpect", "max_tokens", 0),
    ("TestExpect", "max_cost_usd", 0),
    ("TestExpect", "max_turns", 0),
];

/// Counts with their largest value.
const MAXIMUMS: [(&str, &str, u64); 3] =
    [("CheckFile", "repeat", 100), ("Context", "max_parts", 32), ("ReviewWish", "max_inline", 100)];

/// Lists of globs.
const GLOBS: [(&str, &str); 8] = [
    ("Needs", "read"),
    ("Needs", "write"),
    ("Needs", "create"),
    ("Needs", "delete"),
    ("Guards", "only_paths"),
    ("Guards", "never_paths"),
    ("Finish", "writes"),
    ("TestExpect", "changed_only"),
];

/// A path or glob inside the workspace.
const INSIDE: &str = r"^(?!/)(?!(.*/)?\.\.(/|$)).+$";
const SLUG: &str = "^[a-z0-9]+(-[a-z0-9]+)*$";
const NAME: &str = "^[a-z][a-z0-9_]{0,39}$";
const VERSION: &str = r"^\d+\.\d+\.\d+";
/// Variables that a recipe may set.
const VARIABLE: &str =
    "^(?!(LD_|DYLD_|GIT_|QWEN_|OPENAI_)|(PATH|HOME|SHELL|IFS|ENV|BASH_ENV|SHELLOPTS|PS4|TMPDIR)$)[A-Z][A-Z0-9_]*$";

/// Completes the schema that was made of the types.
pub fn complete(schema: &mut Value) {
    without_null_texts(schema);
    let top = &mut schema["properties"];
    top["recipe"] = json!({"description": "The number of this format.", "const": 1});
    for (key, pattern) in [("name", SLUG), ("version", VERSION), ("description", r"^[^\n]*\S[^\n]*\n?$")] {
        top[key]["pattern"] = pattern.into();
    }
    top["prompt"]["pattern"] = r"\S".into();
    top["params"]["propertyNames"] = json!({"pattern": NAME});
    schema["allOf"] = json!(of_the_file());
    let types = &mut schema["$defs"];
    bounds(types);
    patterns(types);
    rules(types);
}

/// Adds the bounds of counts and lists.
fn bounds(types: &mut Value) {
    for (of, key, least) in MINIMUMS {
        types[of]["properties"][key]["minimum"] = least.into();
    }
    for (of, key, most) in MAXIMUMS {
        types[of]["properties"][key]["maximum"] = most.into();
    }
    types["Limits"]["properties"]["cost_usd"]["exclusiveMinimum"] = 0.into();
    types["Finish"]["properties"]["writes"]["minItems"] = 1.into();
    for of in ["CheckFile", "Finish", "TestCheck", "Context"] {
        types[of]["properties"]["run"]["minItems"] = 1.into();
    }
}

/// Adds what texts look like.
fn patterns(types: &mut Value) {
    for (of, key) in GLOBS {
        types[of]["properties"][key]["items"] = json!({"type": "string", "pattern": INSIDE});
    }
    for of in ["CheckFile", "Context"] {
        types[of]["properties"]["env"]["propertyNames"] = json!({"pattern": VARIABLE});
    }
    types["Context"]["properties"]["name"]["pattern"] = NAME.into();
    types["Rule"]["properties"]["id"]["pattern"] = SLUG.into();
    types["LabelWish"]["properties"]["from"]["pattern"] = "^/".into();
    types["TestExpect"]["properties"]["equals"]["propertyNames"] = json!({"pattern": "^(/.*)?$"});
}

/// Adds what keys ask of one another, and the schemas of schemas.
fn rules(types: &mut Value) {
    types["TestExpect"]["properties"]["schema"] = json!({"$ref": "https://json-schema.org/draft/2020-12/schema"});
    types["Output"]["properties"]["schema"] =
        json!({"$ref": "#/$defs/LocalSchema", "required": ["type"], "properties": {"type": {"const": "object"}}});
    types["LocalSchema"] = json!({
        "description": "A schema that is complete in itself.",
        "type": ["object", "boolean", "array", "string", "number", "null"],
        "properties": {"$ref": {"pattern": "^#"}, "$dynamicRef": {"pattern": "^#"}},
        "additionalProperties": {"$ref": "#/$defs/LocalSchema"},
        "items": {"$ref": "#/$defs/LocalSchema"},
    });
    for (of, rules) in [
        ("Param", of_param()),
        ("Context", of_context()),
        ("Output", of_output()),
        (
            "Verify",
            json!([{"if": {"required": ["before"], "properties": {"before": {"not": {"const": "ignore"}}}},
                           "then": {"required": ["checks"], "properties": {"checks": {"minItems": 1}}}}]),
        ),
        (
            "GitWishes",
            json!([{"if": {"required": ["changes"], "properties": {"changes": {"const": "branch"}}},
                              "then": {"required": ["branch"]}, "else": {"not": {"required": ["branch"]}}}]),
        ),
        ("Cache", json!([{"required": ["key"]}])),
        (
            "TestCase",
            json!([{"if": {"required": ["eval"], "properties": {"eval": {"const": false}}}, "then": {"required": ["transcript"]}}]),
        ),
    ] {
        types[of]["allOf"] = rules;
    }
}

/// A text that is given is a text: the types of the file also allow `null` for one that is not.
fn without_null_texts(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            let is_text = map.get("type").and_then(Value::as_array).is_some_and(|types| {
                types.len() == 2 && types.contains(&json!("string")) && types.contains(&json!("null"))
            });
            if is_text {
                map.insert("type".to_owned(), "string".into());
            }
            map.values_mut().for_each(without_null_texts);
        }
        Value::Array(items) => items.iter_mut().for_each(without_null_texts),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// `output.kind` is one of these.
fn is_kind(kinds: &[&str]) -> Value {
    json!({"required": ["output"], "properties": {"output": {"required": ["kind"], "properties": {"kind": {"enum": kinds}}}}})
}

/// A key is given below another.
fn has(above: &str, key: &str) -> Value {
    json!({"required": [above], "properties": {above: {"required": [key]}}})
}

/// Rules between the keys of the file. What a parent recipe may have is not asked of a child.
fn of_the_file() -> Vec<Value> {
    let inherits = json!({"required": ["extends"]});
    let only_for = |key: Value, kinds: &[&str]| {
        let otherwise = json!({"allOf": [inherits.clone(), {"not": {"required": ["output"]}}]});
        json!({"if": key, "then": {"anyOf": [is_kind(kinds), otherwise]}})
    };
    vec![
        json!({"oneOf": [
            {"required": ["prompt"], "not": {"required": ["prompt_file"]}},
            {"required": ["prompt_file"], "not": {"required": ["prompt"]}},
            {"required": ["extends"], "not": {"anyOf": [{"required": ["prompt"]}, {"required": ["prompt_file"]}]}},
        ]}),
        json!({"if": is_kind(&["findings", "json", "message"]), "then": {"not": {"required": ["guards"]}}}),
        only_for(json!({"required": ["finish"]}), &["changes"]),
        only_for(has("deliver", "review"), &["findings"]),
        only_for(has("deliver", "pull_request"), &["changes"]),
        only_for(has("deliver", "labels"), &["json"]),
        json!({"if": is_kind(&["changes"]), "then": {"properties": {
            "cache": {"properties": {"key": {"const": "none"}}},
            "offline": {"not": {"const": "cached"}},
        }}}),
        only_for(
            json!({"required": ["context"], "properties": {"context": {"contains":
                {"required": ["on_large"], "properties": {"on_large": {"const": "split"}}}}}}),
            &["findings"],
        ),
    ]
}

fn of_param() -> Value {
    let is = |kind: &str| json!({"properties": {"type": {"const": kind}}});
    let not_both =
        |a: &str, b: &str| json!({"not": {"properties": {a: {"const": true}, b: {"const": true}}, "required": [a, b]}});
    let only = |key: &str, kind: &str| json!({"if": {"properties": {key: {"const": true}}, "required": [key]}, "then": is(kind)});
    let default = |kind: &str, fits: Value| json!({"if": is(kind), "then": {"properties": {"default": fits}}});
    json!([
        {"if": is("enum"), "then": {"required": ["enum"]}, "else": {"not": {"required": ["enum"]}}},
        {"if": {"properties": {"type": {"enum": ["integer", "number"]}}}, "else": {"not": {"anyOf": [{"required": ["min"]}, {"required": ["max"]}]}}},
        {"if": {"properties": {"secret": {"const": true}}, "required": ["secret"]}, "then": {"not": {"required": ["default"]}}},
        only("must_exist", "path"),
        only("writes", "path"),
        only("command", "string"),
        json!({"if": is("command"), "then": {"not": {"anyOf": [
            {"properties": {"untrusted": {"const": true}}, "required": ["untrusted"]},
            {"properties": {"secret": {"const": true}}, "required": ["secret"]}]}}}),
        not_both("command", "untrusted"),
        not_both("command", "secret"),
        default("integer", json!({"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^-?[0-9]+$"}]})),
        default("number", json!({"anyOf": [{"type": "number"}, {"type": "string", "pattern": "^[-+0-9.eE]+$"}]})),
        default("boolean", json!({"enum": [true, false, "true", "false"]})),
        default("command", json!({"type": "string", "anyOf": [
            {"enum": ["project.lint", "project.test", "project.build", "project.format"]},
            {"pattern": WORDS, "not": {"pattern": "^project\\."}}]})),
    ])
}

/// Words and quotes on one line, in which a shell neither expands nor connects anything.
const WORDS: &str = r#"^([^'"\\|&;<>()$`*?\[{\n]|'[^'\n]*'|"([^"\\$`\n]|\\.)*"|\\.)*$"#;

fn of_context() -> Value {
    let sources = ["run", "file", "glob", "diff", "param", "github"];
    let one = |source: &str| json!({"required": [source], "not": {"properties": {"stdin": {"const": true}}, "required": ["stdin"]}});
    let mut any: Vec<Value> = sources.iter().map(|source| one(source)).collect();
    any.push(json!({"required": ["stdin"], "properties": {"stdin": {"const": true}},
        "not": {"anyOf": sources.iter().map(|source| json!({"required": [source]})).collect::<Vec<_>>()}}));
    let belongs = |keys: &[&str], source: &str| {
        let keys: Vec<Value> = keys.iter().map(|key| json!({"required": [key]})).collect();
        json!({"if": {"anyOf": keys}, "then": {"required": [source]}})
    };
    json!([
        {"oneOf": any},
        belongs(&["ok_exit", "timeout", "env"], "run"),
        belongs(&["include", "exclude", "generated", "on_large", "max_parts"], "diff"),
        {"if": {"required": ["diff"], "properties": {"diff": {"const": "range"}}}, "then": {"required": ["range"]}, "else": {"not": {"required": ["range"]}}},
    ])
}

fn of_output() -> Value {
    let only = |keys: &[&str], kinds: &[&str]| {
        let keys: Vec<Value> = keys.iter().map(|key| json!({"required": [key]})).collect();
        json!({"if": {"properties": {"kind": {"enum": kinds}}}, "else": {"not": {"anyOf": keys}}})
    };
    json!([
        {"if": {"properties": {"kind": {"const": "json"}}}, "then": {"anyOf": [{"required": ["schema"]}, {"required": ["schema_file"]}]}},
        {"if": {"properties": {"kind": {"const": "findings"}}}, "then": {"required": ["rules"], "properties": {"rules": {"minItems": 1}}}},
        only(&["schema", "schema_file"], &["json"]),
        only(&["rules", "filter", "max_findings", "fail_on", "fail_confidence", "min_confidence"], &["findings"]),
        only(&["max_chars"], &["message"]),
        only(&["repairs"], &["json", "findings"]),
    ])
}
