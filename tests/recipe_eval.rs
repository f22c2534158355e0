//! Tests `qwen recipe eval`: known rates get the known verdicts, what is recorded is judged again without a network, and
//! a recipe that was made worse fails its gate.

use serde_json::{Value, json};

use crate::support::{Outcome, Project, Reply, Server, call};

/// A recipe that labels a text, with cases of which each names in its text how often its model is right: `A5 B3` is
/// five times with model A and three times with model B.
fn recipe(prompt: &str, cases: &[(&str, &str)]) -> String {
    let case = |(name, text): &(&str, &str)| {
        format!(
            "  - {{name: {name}, fixture: f, params: {{text: '{text}'}}, expect: {{equals: {{/label: bug}}, max_turns: 1}}}}\n"
        )
    };
    format!(
        "recipe: 1\nname: label\ndescription: Label a text.\nversion: 1.0.0\nlimits: {{cost_usd: 1}}\n\
         params:\n  text: {{type: string, description: The text.}}\n\
         prompt: '{prompt} {{{{ params.text }}}}'\nneeds: {{tools: []}}\n\
         output:\n  kind: json\n  schema: {{type: object, required: [label], properties: {{label: {{type: string}}}}}}\n\
         tests:\n{}",
        cases.iter().map(case).collect::<String>()
    )
}

/// A model that is right in the first runs of a case, as often as its text says; the seed is the number of the run.
fn model() -> Server {
    Server::answering(|request: &Value| {
        let text = request["messages"].to_string();
        let (model, run) = (request["model"].as_str().unwrap(), request["seed"].as_u64().unwrap());
        let right = text.split(|c: char| !c.is_ascii_alphanumeric()).find_map(|word| word.strip_prefix(model));
        let right: u64 = right.and_then(|right| right.parse().ok()).unwrap();
        let is_right = run <= right && !text.contains("Guess");
        call("structured_output", json!({"label": if is_right { "bug" } else { "docs" }}))
    })
}

const CASES: [(&str, &str); 4] = [("one", "A5 B3"), ("two", "A5 B5"), ("three", "A4 B1"), ("four", "A2 B0")];

fn project(server: &Server, cases: &[(&str, &str)]) -> Project {
    Project::new()
        .file("label.yaml", recipe("Label", cases))
        .file("f/base/README.md", "# A project\n")
        .env("QWEN_BASE_URL", &server.base_url())
}

fn eval(project: &Project, more: &[&str]) -> Outcome {
    project.qwen(&[&["recipe", "eval", "label.yaml", "-m", "A,B"], more].concat())
}

/// Reads the evaluation in a directory, without times.
fn evaluation(project: &Project, directory: &str) -> Value {
    let text = std::fs::read_to_string(project.root().join(directory).join("eval.json")).unwrap();
    without_times(serde_json::from_str(&text).unwrap())
}

fn without_times(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            map.into_iter().filter(|(key, _)| key != "duration_ms").map(|(key, v)| (key, without_times(v))).collect()
        }
        Value::Array(items) => items.into_iter().map(without_times).collect(),
        other => other,
    }
}

#[test]
fn two_models_with_known_rates_get_the_known_verdict() {
    let server = model();
    let project = project(&server, &CASES);
    let outcome = eval(&project, &["--out", "e"]);
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    for line in
        ["B beside A: worse by 35 points [5, 58], p 0.02", "all 5 of 5 / at least 1               2 / 4", "four   "]
    {
        assert!(outcome.stdout.contains(line), "{line}: {}", outcome.stdout);
    }
    let found = evaluation(&project, "e");
    let models = &found["recipes"][0]["models"];
    assert_eq!((&models[0]["passed"], &models[0]["every"], &models[0]["any"]), (&json!(16), &json!(2), &json!(4)));
    assert_eq!((&models[1]["passed"], &models[1]["every"], &models[1]["any"]), (&json!(9), &json!(1), &json!(3)));
    assert_eq!(server.requests().len(), 40);
    let schema: Value = serde_json::from_str(&project.qwen(&["schema", "eval"]).stdout).unwrap();
    let whole = std::fs::read_to_string(project.root().join("e/eval.json")).unwrap();
    assert!(jsonschema::is_valid(&schema, &serde_json::from_str(&whole).unwrap()));
}

#[test]
fn what_is_done_is_not_asked_again_and_can_be_judged_again_without_a_network() {
    let server = model();
    let project = project(&server, &CASES[..2]);
    assert_eq!(eval(&project, &["--out", "e", "-n", "3"]).code, 0);
    let (first, asked) = (evaluation(&project, "e"), server.requests().len());
    assert_eq!(asked, 12);
    // One more run of each: the others are there.
    assert_eq!(eval(&project, &["--out", "e", "-n", "3"]).code, 0);
    assert_eq!((evaluation(&project, "e"), server.requests().len()), (first.clone(), asked));
    let alone = project.env("QWEN_BASE_URL", "http://127.0.0.1:9/v1");
    assert_eq!(eval(&alone, &["--out", "e", "-n", "3", "--replay"]).code, 0);
    assert_eq!(evaluation(&alone, "e"), first);
    // Other expectations are judged by what was recorded.
    let text = recipe("Label", &CASES[..2]).replace("/label: bug", "/label: docs");
    let other = alone.file("label.yaml", text);
    assert_eq!(eval(&other, &["--out", "e", "-n", "3", "--replay"]).code, 0);
    assert_eq!(evaluation(&other, "e")["recipes"][0]["models"][0]["passed"], 0);
}

#[test]
fn runs_that_are_recorded_are_not_paid_for_again_whatever_number_of_runs_is_asked_for() {
    let server = model();
    let project = project(&server, &CASES[..2]);
    assert_eq!(eval(&project, &["--out", "e", "-n", "2"]).code, 0);
    assert_eq!(eval(&project, &["--out", "e", "-n", "3"]).code, 0);
    let (all, asked) = (evaluation(&project, "e"), server.requests().len());
    assert_eq!(asked, 12);
    let alone = project.env("QWEN_BASE_URL", "http://127.0.0.1:9/v1");
    let replayed = eval(&alone, &["--out", "e", "--replay"]);
    assert_eq!((replayed.code, evaluation(&alone, "e")), (0, all.clone()), "{}{}", replayed.stdout, replayed.stderr);
    // What is missing gives no verdict, and takes none away.
    assert_eq!(eval(&alone, &["--out", "e", "--replay", "-n", "5"]).code, 75);
    assert_eq!(evaluation(&alone, "e"), all);
    let fewer = eval(&alone, &["--out", "e", "--replay", "-n", "2"]);
    assert_eq!((fewer.code, evaluation(&alone, "e")["runs"].clone()), (0, json!(2)), "{}", fewer.stderr);
}

#[test]
fn a_recipe_that_was_made_worse_fails_the_gate_and_the_same_one_does_not() {
    let server = model();
    let cases = [("one", "A5 B5"), ("two", "A5 B5")];
    let project = project(&server, &cases);
    assert_eq!(eval(&project, &["--out", "before"]).code, 0);
    let gate = ["--baseline", "before", "--no-regression"];
    let same = eval(&project, &[&["--out", "same"], &gate[..]].concat());
    assert_eq!(same.code, 0, "{}{}", same.stdout, same.stderr);
    let worse = project.file("label.yaml", recipe("Guess", &cases));
    let outcome = eval(&worse, &[&["--out", "after"], &gate[..]].concat());
    assert_eq!(outcome.code, 3, "{}{}", outcome.stdout, outcome.stderr);
    let line = "gate --no-regression FAILED: label with A: passed every time before and never now: one, two";
    assert!(outcome.stdout.contains(line), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("A beside the baseline: worse by 100 points"), "{}", outcome.stdout);
}

#[test]
fn a_wrong_key_ends_it_at_once_and_a_provider_that_is_away_gives_no_verdict() {
    let refused = || Reply::Status(401, vec![], r#"{"error":{"message":"wrong key"}}"#.into());
    let server = Server::answering(move |_| refused());
    let project = project(&server, &CASES);
    let outcome = eval(&project, &["--out", "e", "-j", "1"]);
    assert_eq!((outcome.code, server.requests().len()), (41, 1), "{}{}", outcome.stdout, outcome.stderr);
    assert_eq!(evaluation(&project, "e")["missing"], 40);
}

#[test]
fn more_cases_come_from_a_file_and_some_are_chosen() {
    let server = model();
    let line = |name: &str, text: &str| {
        json!({"name": name, "fixture": "../f", "params": {"text": text}, "expect": {"equals": {"/label": "bug"}}})
            .to_string()
    };
    let project = project(&server, &CASES[..1])
        .file("more/cases.jsonl", line("five", "A1 B1") + "\n\n" + &line("six", "A1 B0") + "\n");
    let outcome =
        eval(&project, &["--out", "e", "-n", "1", "--cases", "more/cases.jsonl", "--case", "six", "-o", "markdown"]);
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    assert!(
        outcome.stdout.contains("| `six` | `1/1` | `0/1` |") && !outcome.stdout.contains("five"),
        "{}",
        outcome.stdout
    );
    assert_eq!(server.requests().len(), 2);
    for (more, code, message) in [
        (&["--case", "seven"][..], 42, "--case seven: no recipe has a case of this name"),
        (&["--cases", "gone.jsonl"], 42, "gone.jsonl: "),
        (&["--no-regression"], 2, "--baseline"),
        (&["--replay", "--out", "none"], 42, "none has no recorded run of these cases"),
        (&["--baseline", "label.yaml"], 42, "label.yaml is not an evaluation"),
    ] {
        let mut arguments = more.to_vec();
        if !arguments.contains(&"--out") {
            arguments.extend(["--out", "e2"]);
        }
        let outcome = eval(&project, &arguments);
        assert_eq!(outcome.code, code, "{more:?}: {}{}", outcome.stdout, outcome.stderr);
        assert!(outcome.stderr.contains(message), "{more:?}: {}", outcome.stderr);
    }
}

#[test]
fn shards_make_the_same_evaluation_as_one_process() {
    let server = model();
    let project = project(&server, &CASES);
    assert_eq!(eval(&project, &["--out", "whole", "-n", "2"]).code, 0);
    let asked = server.requests().len();
    for shard in ["1/3", "2/3"] {
        let run = eval(&project, &["--out", "e", "-n", "2", "--shard", shard]);
        assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
        assert!(run.stdout.contains(&format!("shard {shard}: ")), "{}", run.stdout);
    }
    let third = project.env("QWEN_SHARD_INDEX", "2").env("QWEN_SHARD_TOTAL", "3");
    assert_eq!(eval(&third, &["--out", "e", "-n", "2", "--shard", "auto"]).code, 0);
    assert_eq!(server.requests().len(), 2 * asked);
    let merged = eval(&third, &["--out", "e", "-n", "2"]);
    assert_eq!((merged.code, server.requests().len()), (0, 2 * asked), "{}", merged.stderr);
    assert_eq!(evaluation(&third, "e"), evaluation(&third, "whole"));
    assert_eq!(eval(&third, &["--out", "e", "--shard", "4/3"]).code, 42);
}

#[test]
fn runs_that_a_commit_holds_do_not_count_as_done() {
    let server = model();
    let project = project(&server, &CASES[..1]).git();
    assert_eq!(eval(&project, &["--out", "e", "-n", "1", "--shard", "1/1"]).code, 0);
    project.run_git(&["add", "-f", "e"]);
    project.run_git(&["commit", "-q", "-m", "results"]);
    let asked = server.requests().len();
    let outcome = eval(&project, &["--out", "e", "-n", "1"]);
    assert_eq!((outcome.code, server.requests().len()), (63, asked), "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stderr.contains("git tracks results in this directory"), "{}", outcome.stderr);
}
