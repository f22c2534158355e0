//! Tests values of 100 kB in flags, files and variables: the message shows their beginning and length, and says what is
//! wrong.

use crate::support::Project;

const RECIPE: &str = "recipe: 1\nname: r\ndescription: Says it.\nprompt: \"{{ params.w }}\"\nparams: {w: {type: integer, description: \"What.\"}}\n";

#[test]
fn no_message_repeats_a_long_value() {
    let long = "x".repeat(100_000);
    let words = "x y ".repeat(25_000);
    let project = Project::new()
        .file("r.yaml", RECIPE)
        .file("name.yaml", RECIPE.replace("name: r", &format!("name: {long}")))
        .file(
            "expression.yaml",
            RECIPE.replace("name: r", "name: expression").replace("params.w", &format!("params.{long}")),
        )
        .file("extends.yaml", format!("version: 1\nextends: {long}\n"))
        .file("key.yaml", format!("version: 1\n{long}: 1\n"));
    let project = project.env("QWEN_BASE_URL", "http://127.0.0.1:1/v1").env("QWEN_MODEL", "m");
    let table: &[&[&str]] = &[
        &["run", "--max-wall-time", "LONG", "hi"],
        &["run", "--max-wall-time", "WORDS", "hi"],
        &["run", "-o", "LONG", "hi"],
        &["run", "--LONG", "hi"],
        &["policy", "LONG"],
        &["LONG.yaml"],
        &["run", "-C", "LONG", "hi"],
        &["run", "--policy", "LONG", "hi"],
        &["run", "--policy", "builtin:LONG", "hi"],
        &["run", "--policy", "extends.yaml", "hi"],
        &["run", "--policy", "key.yaml", "hi"],
        &["run", "--prompt-file", "LONG"],
        &["run", "--recipe", "LONG"],
        &["run", "--recipe", "./LONG.yaml"],
        &["run", "--recipe", "./name.yaml"],
        &["run", "--recipe", "./expression.yaml"],
        &["run", "--recipe", "./r.yaml", "--param", "w=LONG"],
        &["run", "--recipe", "./r.yaml", "--param", "LONG=1"],
        &["run", "--base-url", "http://LONG/", "hi"],
        &["run", "--json-schema", "@LONG", "hi"],
        &["run", "--result-file", "/nonexistent/LONG", "hi"],
        &["run", "--image", "LONG", "hi"],
        &["run", "--file", "LONG", "hi"],
        &["run", "--include-directories", "LONG", "hi"],
        &["run", "--branch", "LONG", "hi"],
        &["run", "--resume", "LONG", "hi"],
        &["run", "--replay", "LONG", "hi"],
        &["run", "--record", "/nonexistent/LONG", "hi"],
        &["run", "--mcp-config", "LONG", "hi"],
        &["run", "--ca-file", "LONG", "hi"],
        &["run", "--api-key-file", "LONG", "hi"],
        &["apply", "LONG"],
        &["undo", "LONG"],
        &["policy", "check", "--policy", "LONG", "--", "ls"],
        &["policy", "check", "--policy", "extends.yaml", "--", "ls"],
        &["recipe", "show", "LONG"],
        &["recipe", "validate", "LONG"],
        &["recipe", "validate", "./name.yaml"],
        &["recipe", "test", "LONG"],
        &["mcp", "remove", "LONG"],
        &["schema", "LONG"],
    ];
    let running = table.iter().map(|row| {
        let row: Vec<String> = row.iter().map(|word| word.replace("LONG", &long).replace("WORDS", &words)).collect();
        row
    });
    for (row, shown) in running.zip(table) {
        let arguments: Vec<&str> = row.iter().map(String::as_str).collect();
        let outcome = project.qwen(&arguments);
        let said = format!("{}{}", outcome.stdout, outcome.stderr);
        let begin: String = said.chars().take(3000).collect();
        assert!([1, 2, 41, 42, 52, 63, 64].contains(&outcome.code), "{shown:?}: {} {begin}", outcome.code);
        assert!(said.len() < 8000, "{shown:?}: {} bytes: {begin}", said.len());
        assert!(!said.contains(&long[..1000]), "{shown:?}: {begin}");
    }
}

#[test]
fn a_cut_value_says_how_long_it_is_and_the_reason_stays() {
    let long = "x".repeat(100_000);
    let project = Project::new().env("QWEN_BASE_URL", "http://127.0.0.1:1/v1").env("QWEN_MODEL", "m");
    let outcome = project.qwen(&["run", "-o", "result", "--prompt-file", &long]);
    let cut = format!("error: --prompt-file {}… (100000 bytes): File name too long", "x".repeat(300));
    assert!(outcome.stderr.starts_with(&cut), "{}", outcome.stderr);
    let result: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert!(result["error"]["message"].as_str().unwrap().contains("(100000 bytes)"), "{result}");
}
