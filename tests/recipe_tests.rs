//! Tests `qwen recipe test`: what a case may expect, and that the built-in recipes keep what they promise.

use serde_json::json;

use crate::support::Project;

#[test]
fn every_built_in_recipe_passes_its_tests() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<String> = std::fs::read_dir(root.join("recipes"))
        .unwrap()
        .map(|entry| entry.unwrap().path().display().to_string())
        .collect();
    files.sort();
    let mut arguments = vec!["recipe", "test"];
    arguments.extend(files.iter().map(String::as_str));
    let mut project = Project::new();
    // The toolchain lives in the tester's home.
    for (name, folder) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
        let home = std::path::PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
        let value = std::env::var(name).unwrap_or_else(|_| home.join(folder).display().to_string());
        project = project.env(name, &value);
    }
    let outcome = project.qwen(&arguments);
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    assert!(
        outcome.stdout.ends_with("15 passed, 0 failed\n") && !outcome.stdout.contains("none "),
        "{}",
        outcome.stdout
    );
}

#[test]
fn a_recipe_test_judges_answer_change_and_amounts_and_runs_commands_beside_hidden_files() {
    let turns = json!([
        {"calls": [{"name": "edit", "arguments": {"file_path": "src/a.txt", "old_string": "bad", "new_string": "good"}}]},
        {"text": "Done."},
    ]);
    let cases = [
        ("passes", "{changed_only: ['src/*'], not_contains: ['+bad'], max_turns: 2, max_tokens: 100000}"),
        ("commands", "{checks: [{run: [grep, -q, good, src/a.txt]}, {run: [grep, -q, bad, src/a.txt], exit: 1}]}"),
        ("hidden", "{checks: [{run: [grep, -q, secret, h.txt]}]}"),
        ("elsewhere", "{changed_only: ['docs/**'], contains: [Done], not_contains: ['-bad'], max_turns: 1}"),
        ("no-answer", "{equals: {/a: 1}, max_cost_usd: 1}"),
        ("command-fails", "{checks: [{run: [cat, gone.txt]}]}"),
        ("command-denied", "{checks: [{run: [curl, 'http://127.0.0.1:9/']}]}"),
    ];
    let case = |(name, expect): &(&str, &str)| {
        format!("  - {{name: {name}, fixture: f, transcript: script.json, expect: {expect}}}\n")
    };
    let cases: String = cases.iter().map(case).collect();
    let recipe = format!(
        "recipe: 1\nname: fix\ndescription: Fix it.\nlimits: {{cost_usd: 1}}\nprompt: Fix it.\nneeds: {{read: ['**'], write: ['src/**']}}\noutput: {{kind: changes}}\ntests:\n{cases}  \
         - {{name: later, fixture: f}}\n"
    );
    let project = Project::new()
        .file("r/fix.yaml", recipe)
        .file("r/script.json", json!({"origin": "written by hand", "turns": turns}).to_string())
        .file("r/f/base/src/a.txt", "bad\n")
        .file("r/f/hidden/h.txt", "secret\n");
    let outcome = project.qwen(&["recipe", "test", "r/fix.yaml"]);
    assert_eq!(outcome.code, 64, "{}{}", outcome.stdout, outcome.stderr);
    insta::assert_snapshot!(outcome.stdout);
}
