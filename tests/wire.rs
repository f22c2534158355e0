//! Tests the HTTP protocol as the whole program sees it, and the list of its requirements.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::json;

use crate::support::server::{Reply, event};
use crate::support::{Project, call, say};

fn numbers_in(folder: &Path, found: &mut BTreeSet<u32>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            numbers_in(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            found.extend(text.split("fn r").skip(1).filter_map(|rest| {
                let (number, _) = rest.split_once('_')?;
                (!number.starts_with('0')).then(|| number.parse::<u32>().ok())?
            }));
        }
    }
}

#[test]
fn every_requirement_of_the_wire_has_a_test_of_its_number() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = BTreeSet::new();
    numbers_in(&root.join("src"), &mut found);
    numbers_in(&root.join("tests"), &mut found);
    let missing: Vec<u32> = (1..=64).filter(|number| !found.contains(number)).collect();
    assert!(missing.is_empty(), "no test is named for {missing:?}");
}

fn arguments(piece: &str) -> String {
    event(&json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "write_file", "arguments": piece}}]}))
}

#[test]
fn r20_half_a_file_is_never_written() {
    let cut = arguments("{\"file_path\":\"a.txt\",\"content\":\"half")
        + "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n";
    let project = Project::new().model([Reply::Bytes(cut.into_bytes()), say("done")]);
    let outcome = project.run(&["--apply", "write a.txt"]);
    assert!(!project.root().join("a.txt").exists(), "{}", outcome.stderr);
    let answer = project.server().requests()[1]["messages"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(answer["role"], "tool");
}

#[test]
fn r21_bad_arguments_come_back_with_their_place() {
    let bad = arguments("{\"file_path\":\"a.txt\",\"content\":\"print(\"hi\")\"}")
        + "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n";
    let project = Project::new().model([Reply::Bytes(bad.into_bytes()), say("done")]);
    let outcome = project.run(&["write a.txt"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let request = project.server().requests()[1].clone();
    let messages = request["messages"].as_array().unwrap();
    let answer = messages.last().unwrap()["content"].as_str().unwrap();
    assert!(answer.contains("line 1 column") && answer.contains("print("), "{answer}");
    let kept = messages[messages.len() - 2]["tool_calls"][0]["function"]["arguments"].as_str().unwrap();
    assert!(serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(kept).is_ok(), "{kept}");
}

#[test]
fn r59_standard_output_is_the_one_json_document() {
    let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}).to_string();
    let project =
        Project::new().model([say("Sure!\n```json\n{\"n\": \"x\"}\n```"), call("structured_output", json!({"n": 2}))]);
    let outcome = project.run(&["--json-schema", &schema, "how many?"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let document: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(document, json!({"n": 2}));
}

#[test]
fn a_server_holds_small_models_to_the_schema_of_an_answer_where_it_can() {
    let recipe = "recipe: 1\nname: count\ndescription: Count.\nprompt: How many?\nneeds: {tools: []}\nrequires: {git: none}\noutput:\n  kind: json\n  schema: {type: object, required: [n], properties: {n: {type: integer}}}\n";
    let refusal = json!({"error": {"code": 400, "message": "JSON schema conversion failed:\nUnrecognized schema", "type": "invalid_request_error"}});
    let project = Project::new()
        .file("count.yaml", recipe)
        .model([Reply::Status(400, vec![], refusal.to_string()), say("{\"n\": 2}")]);
    let outcome = project.run(&["--recipe", "count.yaml", "--text-tools", "force"]);
    assert_eq!((outcome.code, &outcome.result["structured_output"]), (0, &json!({"n": 2})), "{}", outcome.stderr);
    let requests = project.server().requests();
    let format = &requests[0]["response_format"];
    assert_eq!((&format["type"], &format["json_schema"]["schema"]["required"]), (&json!("json_schema"), &json!(["n"])));
    assert!(requests[1].get("response_format").is_none(), "{}", requests[1]);
    let system = requests[1]["messages"][0]["content"].as_str().unwrap();
    assert!(system.contains("{\n  \"n\": integer,\n}"), "{system}");

    // With tools it could call none until its answer was wrong; a model that calls them natively has the schema there.
    let with_tools = recipe.replace("needs: {tools: []}\n", "");
    for (recipe, mode, held) in [(with_tools.as_str(), "force", [false, true]), (recipe, "off", [false, false])] {
        let project = Project::new().file("count.yaml", recipe).model([say("{\"n\": }"), say("{\"n\": 2}")]);
        let outcome = project.run(&["--recipe", "count.yaml", "--text-tools", mode]);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        let requests = project.server().requests();
        let is_held = |request: &serde_json::Value| request.get("response_format").is_some();
        assert_eq!([is_held(&requests[0]), is_held(&requests[1])], held, "{mode}");
    }
}
