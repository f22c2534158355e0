//! Tests the errors of recipes: a code, a position, the line itself, and what to do; one fixture per code.

use std::collections::BTreeSet;
use std::path::Path;

use crate::support::Project;

const CODES: [&str; 26] = [
    "R001", "R002", "R003", "R004", "R005", "R006", "R007", "R008", "R009", "R010", "R011", "R012", "P001", "P002",
    "P003", "P004", "N001", "N002", "W101", "W102", "W103", "W104", "W105", "W106", "W107", "W108",
];

/// The words of a line such as `x-params: [a=b, c=d]`.
fn words(text: &str, key: &str) -> Vec<String> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    let words = line.trim().trim_matches(['[', ']']).split(", ");
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

#[test]
fn every_code_has_a_fixture_whose_text_names_the_place_and_the_remedy() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/recipe-errors");
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.strip_suffix(".yaml").map(str::to_owned))
        .collect();
    names.sort();
    // One project for all: nothing is ever written. It is not a repository, so that what needs one is missing.
    let mut project = Project::new().model([]);
    for name in &names {
        let bytes = std::fs::read(folder.join(format!("{name}.yaml"))).unwrap();
        project = project.file(&format!("errors/{name}.yaml"), bytes);
    }
    let mut seen = BTreeSet::new();
    for name in &names {
        let file = format!("errors/{name}.yaml");
        let text = String::from_utf8_lossy(&std::fs::read(folder.join(format!("{name}.yaml"))).unwrap()).into_owned();
        let code = name.split('-').next().unwrap().to_uppercase();
        let shown = if code.starts_with(['R', 'W']) {
            let outcome = project.qwen(&["recipe", "validate", "--strict", &file]);
            assert_eq!(outcome.code, 42, "{name}: {}{}", outcome.stdout, outcome.stderr);
            outcome.stdout
        } else {
            let mut arguments = vec!["--recipe".to_owned(), file];
            arguments.extend(words(&text, "x-params:").into_iter().flat_map(|word| ["--param".to_owned(), word]));
            arguments.extend(words(&text, "x-policy:").into_iter().flat_map(|word| ["--policy".to_owned(), word]));
            let outcome = project.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(outcome.code, if code == "N001" { 60 } else { 42 }, "{name}: {}", outcome.stderr);
            outcome.result["error"]["message"].as_str().unwrap().to_owned()
                + "\n  hint: "
                + outcome.result["error"]["hint"].as_str().unwrap_or_default()
        };
        assert!(shown.contains(&code), "{name} gave {shown}");
        seen.insert(code);
        insta::with_settings!({
            snapshot_path => folder.join("snapshots"), prepend_module_to_snapshot => false, omit_expression => true,
        }, {
            insta::assert_snapshot!(name.as_str(), shown);
        });
    }
    assert_eq!(seen, CODES.iter().map(|code| (*code).to_owned()).collect());
    assert_eq!(project.server().requests().len(), 0);
}

#[test]
fn a_file_of_parameters_that_is_none_is_named_without_what_is_in_it() {
    let text = "recipe: 1\nname: fix\ndescription: D\nlimits: {cost_usd: 1}\n\
        params: {v: {type: string, description: V}}\nprompt: 'v{{ params.v }}'\n";
    let project = Project::new().file(".qwen/recipes/fix.yaml", text).git().model([]);
    let secret = "hunter2-hunter2";
    for (name, text, place) in [
        ("p.yaml", format!("{secret}\n"), "p.yaml:1:1: this is not a file of parameters"),
        ("p.yaml", format!("v: {{{secret}: {secret}}}\n"), "p.yaml:1:4: this is not a file of parameters"),
        ("p.yaml", format!("{secret}: a\n{secret}: b\n"), "p.yaml:2:1: this is not a file of parameters"),
        ("p.json", format!("\"{secret}\"\n"), "p.json:1:17: this is not a file of parameters"),
        ("p.json", format!("{secret}\n"), "p.json:1:1: this is not a file of parameters"),
    ] {
        std::fs::write(project.root().join(name), &text).unwrap();
        let outcome = project.run(&["--recipe", "fix", "--params-file", name]);
        assert!(outcome.code == 42 && outcome.stderr.contains(place), "{text}: {}", outcome.stderr);
        assert!(!format!("{}{}", outcome.stdout, outcome.stderr).contains("hunter2"), "{}", outcome.stderr);
    }
}
