//! Tests every statement that the documents make about tools, MCP servers and discovery, and every difference that
//! scripts for Qwen Code met, one row each: what is run, and what must be seen. A row that differs on purpose names the
//! sentence of a page that says so.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{Outcome, Project, Reply, calls, say};

/// One statement. `{root}` and `{home}` in texts are the workspace and the home of the row.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    id: String,
    /// Which test runs it: `files`, `servers`, `discovery`, `verbs`, `drop-in`.
    area: String,
    says: String,
    /// `works` or `differs`, of a row of the drop-in.
    state: Option<String>,
    /// A call by `qwen tools call`: the tool, and its input.
    tool: Option<(String, Value)>,
    /// A command line; with `model`, of a run.
    #[serde(default)]
    args: Vec<String>,
    /// Command lines that come first, and must end with 0.
    #[serde(default)]
    before: Vec<Vec<String>>,
    /// The model's turns: a text, or a list of calls.
    #[serde(default)]
    model: Vec<Turn>,
    /// The user's settings. A server with `plays` offers these tools; `answer` is what it answers each call with.
    settings: Option<Value>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// The workspace is not a repository.
    #[serde(default)]
    no_git: bool,
    #[serde(default)]
    code: i32,
    #[serde(default)]
    sees: Vec<(String, String)>,
    #[serde(default)]
    lacks: Vec<(String, String)>,
    /// The statement does not hold here: the page, and its sentence that says so.
    page: Option<(String, String)>,
    /// The test that holds it, where it needs more than a command line; or the script that does, where it needs a
    /// network.
    held_by: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Turn {
    Says(String),
    Calls(Vec<(String, Value)>),
}

/// What the documents state.
const STATEMENTS: &str = "fixtures/statements/rows.jsonl";
/// What a script without a terminal was found to do otherwise, flag by flag, key by key, field by field.
const DIFFERENCES: &str = "fixtures/qwen-code/differences.jsonl";

fn rows(file: &str) -> Vec<Row> {
    let row = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    std::fs::read_to_string(file).unwrap().lines().filter(|line| !line.is_empty()).map(row).collect()
}

/// Files for every tool: ignored, long, wide, many, binary, old.
fn project(row: &Row) -> Project {
    let lines = |text: &str, count: usize| (1..=count).map(|at| format!("{text} {at}\n")).collect::<String>();
    let mut project = Project::new()
        .file(".gitignore", "*.log\nbuild/\n")
        .file("a.log", "logged\n")
        .file("build/out.ts", "built\n")
        .file("README.md", "# Read me\n")
        .file("docs/guide.md", "guide\n")
        .file("src/App.tsx", "function myFunction() {}\n")
        .file("src/utils.ts", "export function myFunction() {\n  return myFunction;\n}\n")
        .file("src/old.ts", "old\n")
        .file("src/deep/other.ts", "other\n")
        .file("node_modules/pkg/index.ts", "function packaged() {}\n")
        .file("long.txt", lines("line", 2500))
        .file("wide.txt", "w".repeat(3000) + "\n")
        .file("many.txt", lines("needle", 150))
        .file("twice.txt", "foo\nfoo\n")
        .file("indented.txt", "fn a() {\n        let x = 1;\n        let y = 2;\n}\n")
        .file("escaped.txt", "say(\"hello\\n\");\n")
        .file("blob.bin", b"\x7fELF\0\x01\xff\0")
        .file("picture.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde");
    std::fs::create_dir(project.root().join("empty")).unwrap();
    let old = std::fs::File::options().append(true).open(project.root().join("src/old.ts")).unwrap();
    old.set_modified(std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000)).unwrap();
    let (root, home) = (project.root().canonicalize().unwrap(), project.home().canonicalize().unwrap());
    for (name, text) in &row.files {
        let text = filled(text, &root, &home);
        project = match name.strip_prefix("~/") {
            Some(name) => project.file(&format!("../home/{name}"), text),
            None => project.file(name, text),
        };
    }
    for (name, value) in &row.env {
        project = project.env(name, &filled(value, &root, &home));
    }
    if let Some(settings) = &row.settings {
        let settings = filled(&with_servers(settings.clone()).to_string(), &root, &home);
        project = project.file("../home/.qwen/settings.json", settings);
    }
    if !row.no_git {
        project = project.git();
    }
    let filled = |value: &Value| serde_json::from_str(&filled(&value.to_string(), &root, &home)).unwrap();
    let turn = |turn: &Turn| match turn {
        Turn::Says(text) => say(text),
        Turn::Calls(list) => calls(list.iter().map(|(name, input)| (name.as_str(), filled(input)))),
    };
    let turns: Vec<Reply> = row.model.iter().map(turn).collect();
    if turns.is_empty() { project } else { project.model(turns) }
}

fn filled(text: &str, root: &Path, home: &Path) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/mcp/server.sh");
    text.replace("{root}", root.to_str().unwrap()).replace("{home}", home.to_str().unwrap()).replace("{server}", script)
}

/// Puts the scripted program in the place of `plays`.
fn with_servers(mut settings: Value) -> Value {
    for (name, server) in settings["mcpServers"].as_object_mut().into_iter().flatten() {
        let Some(tools) = server.as_object_mut().unwrap().remove("plays") else { continue };
        let answer = server.as_object_mut().unwrap().remove("answer");
        server["command"] = "bash".into();
        server["args"] = json!(["{server}", "plays"]);
        server["env"]["OWN"] = name.as_str().into();
        server["env"]["TOOLS"] = tools.to_string().into();
        if let Some(answer) = answer {
            server["env"]["ANSWER"] = answer.to_string().into();
        }
    }
    settings
}

/// What is seen at a place: a stream, a part of the model's requests, or a file.
fn seen(place: &str, project: &Project, outcome: &Outcome) -> String {
    let request = |last: bool| {
        let requests = project.server().requests();
        let found = if last { requests.last() } else { requests.first() };
        found.cloned().unwrap_or_default()
    };
    let text = |content: &Value| content.as_str().map_or_else(|| content.to_string(), str::to_owned);
    let said = |role: &str, last: bool| {
        let messages = request(last)["messages"].as_array().cloned().unwrap_or_default();
        let of_role = messages.iter().filter(|message| message["role"] == role);
        of_role.map(|message| text(&message["content"]) + "\n").collect::<String>()
    };
    match place {
        "stdout" => outcome.stdout.clone(),
        "stderr" => outcome.stderr.clone(),
        "answers" => said("tool", true),
        "system" => said("system", false),
        "prompt" => said("user", false),
        "user" => said("user", true),
        "tools" => request(false)["tools"].to_string(),
        path => match path.strip_prefix("~/") {
            Some(path) => std::fs::read_to_string(project.home().join(path)).unwrap_or_default(),
            None => std::fs::read_to_string(project.root().join(path)).unwrap_or_default(),
        },
    }
}

/// Runs a row and says what is wrong with it.
fn wrong(row: &Row) -> Vec<String> {
    let project = project(row);
    let (root, home) = (project.root().canonicalize().unwrap(), project.home().canonicalize().unwrap());
    let fill = |text: &String| filled(text, &root, &home);
    for words in &row.before {
        let words: Vec<String> = words.iter().map(fill).collect();
        let outcome = project.qwen(&words.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(outcome.code, 0, "{}: {words:?}: {}", row.id, outcome.stderr);
    }
    let mut words: Vec<String> = row.args.iter().map(fill).collect();
    if let Some((name, input)) = &row.tool {
        let call = ["tools", "call", name, "--input", &fill(&input.to_string())].map(str::to_owned);
        words.splice(0..0, call);
    }
    let outcome = project.qwen(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let mut wrong = Vec::new();
    if outcome.code != row.code {
        wrong
            .push(format!("it ended with {} and not {}: {}{}", outcome.code, row.code, outcome.stdout, outcome.stderr));
    }
    for (wanted, rows) in [(true, &row.sees), (false, &row.lacks)] {
        for (place, text) in rows {
            let (text, seen) = (fill(text), seen(place, &project, &outcome));
            if seen.contains(&text) != wanted {
                let not = if wanted { "not " } else { "" };
                wrong.push(format!(
                    "{place}: {not}seen: {text}\n--- {place}\n{seen}\n--- standard error\n{}",
                    outcome.stderr
                ));
            }
        }
    }
    wrong
}

/// Runs the rows of an area that are run here; `ROW=id` runs one alone.
fn check(area: &str) {
    let only = std::env::var("ROW").ok();
    let rows: Vec<Row> = [STATEMENTS, DIFFERENCES].into_iter().flat_map(rows).collect();
    let wanted = |row: &&Row| row.area == area && only.as_ref().is_none_or(|id| row.id == *id);
    let rows: Vec<&Row> = rows.iter().filter(wanted).filter(|row| row.tool.is_some() || !row.args.is_empty()).collect();
    let named = |row: &Row| wrong(row).into_iter().map(|wrong| format!("{} ({}): {wrong}", row.id, row.says)).collect();
    // A row mostly waits for programs to start.
    let failed: Vec<String> = std::thread::scope(|scope| {
        let of_chunk = |chunk: &[&Row]| chunk.iter().flat_map(|row| -> Vec<String> { named(row) }).collect::<Vec<_>>();
        let threads: Vec<_> =
            rows.chunks(rows.len().div_ceil(4).max(1)).map(|chunk| scope.spawn(move || of_chunk(chunk))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(failed.is_empty(), "{} things are not as stated:\n{}", failed.len(), failed.join("\n\n"));
}

#[test]
fn what_is_stated_of_files_holds() {
    check("files");
}

#[test]
fn what_is_stated_of_servers_holds() {
    check("servers");
}

#[test]
fn what_is_stated_of_discovery_holds() {
    check("discovery");
}

#[test]
fn what_is_stated_of_verbs_holds() {
    check("verbs");
}

/// Returns the sources of the program and of its tests, in one.
fn sources(folder: &Path, into: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|end| end == "rs") {
            into.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
}

/// Tells whether this program does what the row says: it is run, or a test or a script that is there holds it.
fn is_shown(row: &Row, code: &str, root: &Path) -> bool {
    let id = &row.id;
    let is_run = row.tool.is_some() || !row.args.is_empty();
    assert!(!is_run || row.code != 0 || !row.sees.is_empty() || !row.lacks.is_empty(), "{id} looks at nothing");
    if let Some(test) = &row.held_by {
        let is_there = root.join(test).is_file() || code.contains(&format!("fn {test}("));
        assert!(is_there, "{id}: there is no test {test}");
    }
    if let Some((page, sentence)) = &row.page {
        let text = std::fs::read_to_string(root.join(page)).unwrap();
        // A sentence may go over a line's end.
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(sentence.as_str()), "{id}: {page} does not say: {sentence}");
    }
    is_run || row.held_by.is_some()
}

/// Looks at every row of a file and returns how many there are.
fn check_all(file: &str, areas: &[&str], is_explained: impl Fn(&Row, bool) -> bool) -> usize {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut code = String::new();
    sources(&root.join("src"), &mut code);
    sources(&root.join("tests"), &mut code);
    let mut ids = BTreeSet::new();
    for row in rows(file) {
        assert!(ids.insert(row.id.clone()), "two rows are {}", row.id);
        assert!(areas.contains(&row.area.as_str()), "{}: no test runs it", row.id);
        assert!(is_explained(&row, is_shown(&row, &code, root)), "{} is not held by anything", row.id);
    }
    ids.len()
}

#[test]
fn every_statement_is_run_or_held_by_a_test_and_every_difference_stands_on_a_page() {
    let areas = ["files", "servers", "discovery", "verbs"];
    assert_eq!(check_all(STATEMENTS, &areas, |row, is_shown| is_shown || row.page.is_some()), 189);
}

#[test]
fn what_a_script_of_qwen_code_meets_works_or_differs_as_the_page_says() {
    let is_explained = |row: &Row, is_shown: bool| match row.state.as_deref() {
        Some("works") => is_shown,
        Some("differs") => row.page.is_some(),
        _ => false,
    };
    assert_eq!(check_all(DIFFERENCES, &["drop-in"], is_explained), 150);
    check("drop-in");
}
