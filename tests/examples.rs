//! Tests that every example of README and of the manual holds: commands print what stands there, files load, shell
//! parses; and that the generated pages are what the program says of itself.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};
use serde::Deserialize;
use serde_json::Value;

use qwen_run::cli::mcp::AddArgs;

use crate::support::{Project, Reply, Server, program};

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns README and the pages of the manual, relative to the package.
fn pages() -> Vec<PathBuf> {
    let parts = ["explain", "how-to", "reference", "tutorial"].map(|part| package().join("docs").join(part));
    let entries = parts.iter().flat_map(|part| fs::read_dir(part).unwrap().flatten().map(|entry| entry.path()));
    let pages = entries.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let mut pages: Vec<PathBuf> = pages.map(|page| page.strip_prefix(package()).unwrap().to_path_buf()).collect();
    pages.push("README.md".into());
    pages.sort();
    pages
}

/// Returns the fenced blocks of a page in a language that are not marked `ignore`.
fn blocks(page: &Path, language: &str) -> Vec<String> {
    let text = fs::read_to_string(package().join(page)).unwrap();
    let (mut found, mut current) = (Vec::new(), None);
    for event in Parser::new(&text) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) if *info == *language => {
                current = Some(String::new())
            }
            Event::Text(text) => current.iter_mut().for_each(|block: &mut String| block.push_str(&text)),
            Event::End(TagEnd::CodeBlock) => found.extend(current.take()),
            _ => {}
        }
    }
    found
}

/// A conversation of the scripted model.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Conversation {
    prompt: String,
    turns: Vec<Turn>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Turn {
    #[serde(default)]
    text: String,
    #[serde(default)]
    calls: Vec<Call>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    name: String,
    arguments: Value,
}

fn model() -> Server {
    let text = fs::read_to_string(package().join("fixtures/docs/conversations.yaml")).unwrap();
    let conversations: Vec<Conversation> = serde_yaml::from_str(&text).unwrap();
    let reply = |turn: Turn| {
        let calls = turn.calls.into_iter().map(|call| (call.name, call.arguments)).collect();
        Reply::Turn { text: turn.text, calls }
    };
    let script = |one: Conversation| (one.prompt, one.turns.into_iter().map(reply).collect());
    Server::by_prompt(conversations.into_iter().map(script).collect())
}

/// Writes a program that starts another one with nothing but these variables.
fn wrapper(at: &Path, variables: &[(&str, &str)], program: &Path) {
    let path = std::env::var("PATH").unwrap();
    let set: String = variables.iter().map(|(name, value)| format!(" {name}='{value}'")).collect();
    let text = format!("#!/bin/sh\nexec env -i PATH='{path}'{set} '{}' \"$@\"\n", program.display());
    fs::write(at, text).unwrap();
    fs::set_permissions(at, fs::Permissions::from_mode(0o755)).unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn every_command_of_the_manual_prints_what_the_page_shows() {
    let (server, home) = (model(), tempfile::tempdir().unwrap());
    let place = home.path().canonicalize().unwrap();
    let (user, url) = (place.display().to_string(), server.base_url());
    let fixed = [("HOME", user.as_str()), ("GIT_CONFIG_NOSYSTEM", "1"), ("TMPDIR", &user), ("LC_ALL", "C.UTF-8")];
    let scripted = [("QWEN_BASE_URL", url.as_str()), ("QWEN_MODEL", "qwen3-coder-plus"), ("COLUMNS", "100")];
    wrapper(&place.join("qwen"), &[&fixed[..], &scripted].concat(), program());
    let git = Project::new();
    let dates = [("GIT_AUTHOR_DATE", "2026-01-01T00:00:00Z"), ("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z")];
    wrapper(&place.join("git"), &[&fixed[..], &dates].concat(), Path::new("git"));
    fs::copy(git.home().join(".gitconfig"), place.join(".gitconfig")).unwrap();
    let cases = trycmd::TestCases::new();
    cases.register_bin("qwen", trycmd::schema::Bin::Path(place.join("qwen")));
    cases.register_bin("git", trycmd::schema::Bin::Path(place.join("git")));
    let shown: Vec<PathBuf> = pages().into_iter().filter(|page| !blocks(page, "console").is_empty()).collect();
    assert!(shown.len() >= 4, "{shown:?}");
    for page in &shown {
        let copied = place.join(page);
        let project = copied.with_extension("in");
        fs::create_dir_all(&project).unwrap();
        if package().join(page).with_extension("in").exists() {
            copy(&package().join(page).with_extension("in"), &project);
        }
        fs::copy(package().join(page), &copied).unwrap();
        for words in
            [&["init", "-q", "-b", "main"][..], &["add", "-A"], &["commit", "-q", "--allow-empty", "-m", "start"]]
        {
            let status = std::process::Command::new(place.join("git")).args(words).current_dir(&project).status();
            assert!(status.unwrap().success(), "git {words:?}");
        }
        cases.case(copied);
    }
    let overwrites = std::env::var_os("TRYCMD").is_some_and(|value| value == "overwrite");
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| cases.run()));
    if overwrites {
        for page in &shown {
            fs::copy(place.join(page), package().join(page)).unwrap();
        }
    }
    if let Err(panic) = ended {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn every_yaml_example_loads_as_what_it_is() {
    let mut problems = Vec::new();
    for page in pages() {
        for block in blocks(&page, "yaml") {
            let project = Project::new().file("policy.yaml", &block);
            let arguments: &[&str] = match block.split(':').next().unwrap_or_default() {
                "version" => &["policy", "test", "policy.yaml"],
                "recipe" => {
                    let name = block.lines().find_map(|line| line.strip_prefix("name: ")).unwrap_or("none");
                    fs::rename(project.root().join("policy.yaml"), project.root().join(format!("{name}.yaml")))
                        .unwrap();
                    &["recipe", "validate", "."]
                }
                _ => {
                    let parsed = serde_yaml::from_str::<Value>(&block);
                    problems.extend(parsed.err().map(|error| format!("{}: {error}\n{block}", page.display())));
                    continue;
                }
            };
            let name = format!("{}.yaml", block.lines().find_map(|line| line.strip_prefix("name: ")).unwrap_or("none"));
            let arguments: Vec<&str> =
                arguments.iter().map(|word| if *word == "." { name.as_str() } else { word }).collect();
            let outcome = project.qwen(&arguments);
            if outcome.code != 0 {
                problems.push(format!("{}: {}{}\n{block}", page.display(), outcome.stdout, outcome.stderr));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn every_shell_example_can_be_parsed() {
    let mut problems = Vec::new();
    for page in pages() {
        for block in blocks(&page, "sh") {
            let checked = std::process::Command::new("bash").args(["-n", "-c", &block]).output().unwrap();
            if !checked.status.success() {
                problems.push(format!("{}: {}\n{block}", page.display(), String::from_utf8_lossy(&checked.stderr)));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Compares a generated page with the one that is there; `SNAPSHOTS=overwrite` writes it anew.
fn is_current(page: &str, text: &str) {
    let path = package().join(page);
    if std::env::var_os("SNAPSHOTS").is_some_and(|value| value == "overwrite") {
        fs::write(&path, text).unwrap();
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    assert!(there == text, "{page} is not what the program says; SNAPSHOTS=overwrite on this test writes it anew");
}

/// Adds the help of a command and of those below it.
fn describe(command: &mut clap::Command, name: &str, page: &mut String) {
    // What follows `mcp add` is read by a command of its own.
    let help = match name {
        "qwen mcp add" => <AddArgs as clap::CommandFactory>::command().term_width(100).render_help(),
        _ => command.render_help(),
    };
    let help = help.to_string();
    let help = help.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    page.push_str(&format!("\n## `{name}`\n\n```text\n{}\n```\n", help.trim_end()));
    for inner in command.get_subcommands_mut() {
        let name = format!("{name} {}", inner.get_name());
        describe(inner, &name, page);
    }
}

#[test]
fn the_page_of_the_command_line_is_what_help_prints() {
    let mut command = <qwen_run::cli::Cli as clap::CommandFactory>::command().term_width(100);
    command.build();
    let mut page = "# Command line\n\nWhat `--help` prints, for every command. `qwen FLAGS PROMPT` is the same as \
                    `qwen run FLAGS PROMPT`; `-h` shows only the common flags. A test writes this page.\n"
        .to_owned();
    describe(&mut command, "qwen", &mut page);
    is_current("docs/reference/cli.md", &page);
}

/// Describes the type of a field.
fn type_of(schema: &Value) -> String {
    let named = |reference: &str| format!("`{}`", reference.rsplit('/').next().unwrap_or_default());
    if let Some(reference) = schema["$ref"].as_str() {
        return named(reference);
    }
    if let Some(several) = schema["anyOf"].as_array() {
        return several.iter().map(type_of).collect::<Vec<_>>().join(" or ");
    }
    match &schema["type"] {
        Value::String(name) if name == "array" => format!("list of {}", type_of(&schema["items"])),
        Value::String(name) => name.clone(),
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ => "any".to_owned(),
    }
}

/// Adds the fields of an object as a table.
fn table(schema: &Value, page: &mut String) {
    let Some(fields) = schema["properties"].as_object() else { return };
    page.push_str("| field | type | meaning |\n|---|---|---|\n");
    for (name, field) in fields {
        let about = field["description"].as_str().unwrap_or_default().replace('\n', " ").replace('|', "\\|");
        page.push_str(&format!("| `{name}` | {} | {about} |\n", type_of(field)));
    }
}

#[test]
fn the_page_of_the_result_has_every_field_of_the_schema() {
    let schema: Value = serde_json::from_str(&Project::new().qwen(&["schema", "result"]).stdout).unwrap();
    let mut page =
        "# The result object\n\nWhat `-o result` prints and `--result-file` writes: one JSON object for every \
                    ending. `qwen schema result` prints its JSON Schema. A test writes this page.\n\n"
            .to_owned();
    table(&schema, &mut page);
    for (name, inner) in schema["$defs"].as_object().unwrap() {
        if inner["properties"].is_object() {
            let about = inner["description"].as_str().unwrap_or_default().replace('\n', " ");
            page.push_str(&format!("\n## `{name}`\n\n{about}\n\n"));
            table(inner, &mut page);
        }
    }
    is_current("docs/reference/result.md", &page);
}
