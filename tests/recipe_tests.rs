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
        outcome.stdout.ends_with("26 passed, 0 failed\n") && !outcome.stdout.contains("none "),
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

/// A recipe with one test, whose answer names what a file of the project holds.
fn with_a_test(fixture: &str, transcript: &str) -> Project {
    let recipe = format!(
        "recipe: 1\nname: look\ndescription: Look.\nlimits: {{cost_usd: 1}}\ncontext: [{{name: text, file: notes.txt, on_empty: continue}}]\n\
         prompt: 'Look. {{{{ context.text }}}}'\nneeds: {{tools: []}}\ntests:\n  \
         - {{name: one, fixture: {fixture}, transcript: {transcript}, expect: {{contains: [seen]}}}}\n"
    );
    let script = json!({"origin": "written by hand", "turns": [{"text": "seen"}]}).to_string();
    let project = Project::new().file("r/look.yaml", recipe).file("r/script.json", script);
    project.file("r/f/base/notes.txt", "notes\n").git()
}

#[test]
fn a_test_leads_nowhere_outside_of_its_repository() {
    let outside = "r/../../beside/x";
    for (fixture, transcript, named) in [
        ("../../beside/x", "script.json", outside),
        ("/tmp", "script.json", "/tmp"),
        ("away", "script.json", "r/away"),
        ("f", "../../beside/x/new.jsonl", "r/../../beside/x/new.jsonl"),
    ] {
        let project = with_a_test(fixture, transcript);
        std::fs::create_dir_all(project.root().join("../beside/x/base")).unwrap();
        std::os::unix::fs::symlink("../../beside/x", project.root().join("r/away")).unwrap();
        let outcome = project.qwen(&["recipe", "test", "r/look.yaml"]);
        assert_eq!(outcome.code, 64, "{fixture}: {}{}", outcome.stdout, outcome.stderr);
        let expected = format!("{named} leads out of the repository");
        assert!(outcome.stdout.contains(&expected), "{fixture}: {}", outcome.stdout);
    }
}

#[test]
fn a_link_of_a_fixture_is_copied_as_a_link() {
    let project = with_a_test("f", "script.json");
    let secret = project.beside("secret.txt");
    std::fs::write(&secret, "hunter2\n").unwrap();
    let link = project.root().join("r/f/base/notes.txt");
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&secret, &link).unwrap();
    let outcome = project.qwen(&["recipe", "test", "r/look.yaml"]);
    assert_eq!(outcome.code, 64, "{}{}", outcome.stdout, outcome.stderr);
    assert!(!outcome.stdout.contains("hunter2") && outcome.stdout.contains("notes.txt"), "{}", outcome.stdout);
}

#[test]
fn a_program_of_the_checkout_is_not_started_for_a_test() {
    let mark = "#!/bin/sh\nenv > \"$0.ran\"\nexec /usr/bin/git \"$@\"\n";
    let project = with_a_test("f", "script.json").executable("tools/git", mark);
    let path = format!("{}:{}", project.root().join("tools").display(), std::env::var("PATH").unwrap());
    let outcome = project.env("PATH", &path).qwen(&["recipe", "test", "r/look.yaml"]);
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
}

#[test]
fn the_policy_of_a_fixture_gives_a_network_only_in_a_trusted_checkout() {
    let policy = "version: 1\nextends: builtin:read-only\nnetwork: {shell: any}\n";
    let project = with_a_test("f", "script.json").file("r/f/policy.yaml", policy);
    project.run_git(&["add", "-A"]);
    project.run_git(&["commit", "-q", "-m", "policy"]);
    let outcome = project.qwen(&["recipe", "test", "r/look.yaml"]);
    assert_eq!(outcome.code, 64, "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.contains("policy.yaml: `network` needs a trusted checkout"), "{}", outcome.stdout);
    let plain = project.file("r/f/policy.yaml", "version: 1\nextends: builtin:read-only\n");
    assert_eq!(plain.qwen(&["recipe", "test", "r/look.yaml"]).code, 0);
}

#[test]
fn a_problem_names_the_policy_of_the_fixture_and_not_its_copy() {
    let policy = "version: 1\nextends: builtin:read-only\ntests: [{allow: rm x}]\n";
    let project = with_a_test("f", "script.json").file("r/f/policy.yaml", policy);
    let outcome = project.qwen(&["recipe", "test", "r/look.yaml"]);
    assert_eq!(outcome.code, 64, "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.contains("r/f/policy.yaml"), "{}", outcome.stdout);
    assert!(!outcome.stdout.contains("qwen-recipe-"), "{}", outcome.stdout);
}

#[test]
fn a_recipe_under_test_is_named_as_in_a_run_and_a_missing_one_is_no_failed_test() {
    let look = |project: &Project| project.read("r/look.yaml");
    let project = with_a_test("f", "script.json");
    let text = look(&project).replace("fixture: f", "fixture: ../../r/f").replace("script.json", "../../r/script.json");
    let project = project.file(".qwen/recipes/look.yaml", text);
    let outcome = project.qwen(&["recipe", "test", "look"]);
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    let outcome = project.qwen(&["recipe", "test", "gone"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (42, ""), "{}", outcome.stderr);
    assert_eq!(outcome.stderr.matches("gone.yaml").count(), 1, "{}", outcome.stderr);
}
