//! Compares the result of a run with what a test case expects.

use serde_json::{Value, json};

use super::cases::TestExpect;
use super::scalar::Text;

/// Returns each way in which a run, by its exit code and result object, is not as expected. Commands of `checks` are for
/// the caller to run.
pub fn problems(expect: &TestExpect, exit_code: u8, result: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    ending(expect.exit.unwrap_or(0), exit_code, result, &mut problems);
    files(expect, result, &mut problems);
    texts(expect, result, &mut problems);
    answer(expect, result, &mut problems);
    amounts(expect, result, &mut problems);
    problems
}

fn ending(wanted: u8, exit_code: u8, result: &Value, problems: &mut Vec<String>) {
    if exit_code == wanted {
        return;
    }
    let error = result["error"]["message"].as_str().unwrap_or_default();
    problems.push(format!("it ends with {exit_code}, not {wanted}: {error}").trim_end_matches(": ").to_owned());
    for check in result["verify"].as_array().into_iter().flatten().filter(|check| check["passed"] == false) {
        let command = check["command"].as_str().unwrap_or_default();
        problems.push(format!("{command}: {}", check["output_tail"].as_str().unwrap_or_default()));
    }
}

fn files(expect: &TestExpect, result: &Value, problems: &mut Vec<String>) {
    let files = result["changes"]["files"].as_array().into_iter().flatten();
    let mut found: Vec<&str> = files.filter_map(|file| file["path"].as_str()).collect();
    found.sort_unstable();
    if let Some(changed) = &expect.changed {
        let mut wanted: Vec<&str> = changed.iter().map(Text::as_str).collect();
        wanted.sort_unstable();
        if wanted != found {
            problems.push(format!("it changes {found:?}, not {wanted:?}"));
        }
    }
    if let Some(globs) = &expect.changed_only {
        let matches = |glob: &Text, path: &str| {
            globset::Glob::new(&glob.value).is_ok_and(|glob| glob.compile_matcher().is_match(path))
        };
        let others: Vec<&&str> = found.iter().filter(|path| !globs.iter().any(|glob| matches(glob, path))).collect();
        if !others.is_empty() {
            problems.push(format!("it changes {others:?}, which `changed_only` does not name"));
        }
    }
}

fn texts(expect: &TestExpect, result: &Value, problems: &mut Vec<String>) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = [
        text(&result["result"]),
        text(&result["changes"]["patch"]),
        text(&result["conclusion"]),
        result["structured_output"].to_string(),
        result["findings"].to_string(),
        text(&result["error"]["message"]),
    ]
    .join("\n");
    let has = |text: &&Text| all.contains(text.as_str());
    for text in expect.contains.iter().flatten().filter(|text| !has(text)) {
        problems.push(format!("`{}` is neither in the result nor in the patch", text.value));
    }
    for text in expect.not_contains.iter().flatten().filter(has) {
        problems.push(format!("`{}` is in the result or in the patch", text.value));
    }
}

fn answer(expect: &TestExpect, result: &Value, problems: &mut Vec<String>) {
    let answer = &result["structured_output"];
    for (pointer, wanted) in expect.equals.iter().flatten() {
        match answer.pointer(pointer) {
            None => problems.push(format!("the answer has no `{pointer}`; {wanted} is expected")),
            // As JSON Schema compares: 1 and 1.0 are equal, in lists and objects, too.
            Some(found) if !jsonschema::is_valid(&json!({"const": wanted}), found) => {
                problems.push(format!("`{pointer}` of the answer is {found}, not {wanted}"));
            }
            Some(_) => {}
        }
    }
    let validator = expect.schema.as_ref().and_then(|schema| jsonschema::validator_for(schema).ok());
    if let Some(error) = validator.as_ref().and_then(|validator| validator.iter_errors(answer).next()) {
        problems.push(format!("the answer does not fit `schema` at `{}`: {error}", error.instance_path()));
    }
}

fn amounts(expect: &TestExpect, result: &Value, problems: &mut Vec<String>) {
    let usage = &result["usage"];
    let counts = [
        ("tokens", expect.max_tokens, usage["total_tokens"].as_u64().or(usage["estimated"].as_u64())),
        ("turns", expect.max_turns, result["num_turns"].as_u64()),
    ];
    for (name, most, found) in counts {
        let Some(most) = most else { continue };
        match found {
            Some(found) if found <= most => {}
            Some(found) => problems.push(format!("it takes {found} {name}; `max_{name}` is {most}")),
            None => problems.push(format!("its {name} are unknown; `max_{name}` is {most}")),
        }
    }
    if let Some(most) = expect.max_cost_usd {
        match result["total_cost_usd"].as_f64() {
            Some(found) if found <= most => {}
            Some(found) => problems.push(format!("it costs ${found}; `max_cost_usd` is {most}")),
            None => problems.push(format!("its cost is unknown; `max_cost_usd` is {most}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(expect: &str, result: &Value) -> Vec<String> {
        let expect: TestExpect = crate::base::document::yaml::parse("expect", expect).unwrap();
        problems(&expect, 0, result)
    }

    fn result() -> Value {
        json!({
            "result": "Done.",
            "structured_output": {"labels": ["bug"], "score": 1, "why": {"line": 2}},
            "changes": {"patch": "+new\n-old\n", "files": [{"path": "src/a.rs"}, {"path": "docs/b.md"}]},
            "usage": {"total_tokens": 120},
            "num_turns": 3,
            "total_cost_usd": null,
        })
    }

    #[test]
    fn what_is_as_expected_gives_no_problem() {
        let expect = "{contains: [Done, '+new'], not_contains: ['+old'], changed: [docs/b.md, src/a.rs], \
                      changed_only: ['src/**', docs/b.md], equals: {/labels: [bug], /score: 1.0, /why/line: 2}, \
                      schema: {required: [labels]}, max_tokens: 120, max_turns: 3}";
        assert_eq!(of(expect, &result()), [] as [&str; 0]);
        assert_eq!(of("{equals: {'': {labels: [bug], score: 1, why: {line: 2}}}}", &result()), [] as [&str; 0]);
    }

    #[test]
    fn each_key_names_what_differs() {
        for (expect, message) in [
            ("{exit: 3}", "it ends with 0, not 3"),
            ("{contains: [gone]}", "`gone` is neither in the result nor in the patch"),
            ("{not_contains: ['-old']}", "`-old` is in the result or in the patch"),
            ("{changed: [src/a.rs]}", r#"it changes ["docs/b.md", "src/a.rs"], not ["src/a.rs"]"#),
            ("{changed_only: ['src/**']}", r#"it changes ["docs/b.md"], which `changed_only` does not name"#),
            ("{equals: {/labels/0: docs}}", r#"`/labels/0` of the answer is "bug", not "docs""#),
            ("{equals: {/label: docs}}", r#"the answer has no `/label`; "docs" is expected"#),
            (
                "{schema: {properties: {score: {type: string}}}}",
                r#"the answer does not fit `schema` at `/score`: 1 is not of type "string""#,
            ),
            ("{max_tokens: 119}", "it takes 120 tokens; `max_tokens` is 119"),
            ("{max_turns: 2}", "it takes 3 turns; `max_turns` is 2"),
            ("{max_cost_usd: 9}", "its cost is unknown; `max_cost_usd` is 9"),
        ] {
            assert_eq!(of(expect, &result()), [message]);
        }
        assert_eq!(
            of("{max_cost_usd: 0.5}", &json!({"total_cost_usd": 0.75})),
            ["it costs $0.75; `max_cost_usd` is 0.5"]
        );
    }
}
