//! Runs `qwen recipe test`: each example of a recipe on its small project, with a recorded or scripted conversation and
//! no network.
//!
//! A fixture is a directory: `base/` is committed, `commit/` on top of it as a second commit, `staged/` is added to the
//! index, `worktree/` is only written; `policy.yaml` is the policy, else `builtin:ci-dev`. Everything happens in a
//! temporary copy with fixed names and dates.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::console::print;
use crate::cli::RunArgs;
use crate::emit::safe::{brief, escape};
use crate::emit::{Format, Screen};
use crate::exit::Exit;
use crate::git::Git;
use crate::recipe::Recipe;
use crate::recipe::file::{Given, TestCase};
use crate::run::Failure;
use crate::run::error::RecipeError;
use crate::run::output::outputs::Streams;
use crate::run::recipe::RecipeContext;
use crate::run::rules::trust::Trusted;
use crate::settings::Environment;
use crate::workspace::temporary::Temporary;

/// Variables that a test may see: what toolchains need.
const KEPT: [&str; 5] = ["PATH", "TMPDIR", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"];

pub(super) async fn run(
    files: &[PathBuf],
    record: bool,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let (mut passed, mut failed) = (0, 0);
    for file in files {
        let shown = file.display().to_string();
        let recipe = match recipe_of(&shown, environment) {
            Ok(recipe) => recipe,
            Err(failure) => {
                failed += 1;
                let why = brief(failure.to_string().lines().next().unwrap_or_default()).into_owned();
                print(out, &format!("FAIL {}: {}\n", escape(&brief(&shown)), escape(&why)))?;
                continue;
            }
        };
        let tests = recipe.file.tests.clone().unwrap_or_default();
        if tests.is_empty() {
            print(out, &format!("none {}: it has no tests\n", escape(&shown)))?;
        }
        for test in &tests {
            let name = format!("{} {}", recipe.name(), test.name.value);
            match one(file, test, record, environment).await {
                Ok(()) => {
                    passed += 1;
                    print(out, &format!("ok   {}\n", escape(&name)))?;
                }
                Err(problem) => {
                    failed += 1;
                    let problem = brief(&problem).lines().map(escape).collect::<Vec<_>>().join("\n     ");
                    print(out, &format!("FAIL {}: {problem}\n", escape(&name)))?;
                }
            }
        }
    }
    print(out, &format!("{passed} passed, {failed} failed\n"))?;
    Ok(if failed == 0 { Exit::Ok } else { Exit::Verify })
}

fn recipe_of(file: &str, environment: &Environment) -> Result<Recipe, RecipeError> {
    // Whoever tests a recipe means the file as it is there.
    let trusted = Trusted::as_it_lies();
    let surroundings = RecipeContext {
        environment,
        top: &environment.cwd,
        root: &environment.cwd,
        repository: None,
        trusted: &trusted,
        state: None,
        tree: None,
    };
    surroundings.find(file)
}

async fn one(file: &Path, test: &TestCase, record: bool, environment: &Environment) -> Result<(), String> {
    let fixture = file.parent().unwrap_or(Path::new(".")).join(test.fixture.as_str());
    if !fixture.is_dir() {
        return Err(format!(
            "the fixture {} does not exist: make that directory, with the project's files under base/",
            fixture.display()
        ));
    }
    let temporary = Temporary::new("recipe-").map_err(|error| error.to_string())?;
    let project = temporary.path().join("project");
    std::fs::create_dir(&project).map_err(|error| error.to_string())?;
    prepare(&fixture, &project)?;

    let arguments = arguments(file, test, project, record, temporary.path())?;
    let quiet = quiet(environment, temporary.path(), record);
    let output = Collected::default();
    let streams = Streams {
        backlogs: Vec::new(),
        stdout: Box::new(output.clone()),
        stdout_is_terminal: false,
        stderr: Screen::Plain(Box::new(std::io::sink())),
        stderr_is_terminal: false,
    };
    let exit = Box::pin(crate::run::run(&arguments, &quiet, streams)).await;
    let text = output.0.lock().expect("nothing panics while it holds the output").clone();
    let result: Value = serde_json::from_slice(&text).map_err(|error| format!("the result is not JSON: {error}"))?;
    compare(test, exit, &result)
}

/// Returns the arguments of a test's run.
fn arguments(
    file: &Path,
    test: &TestCase,
    project: PathBuf,
    record: bool,
    temporary: &Path,
) -> Result<RunArgs, String> {
    let mut arguments = RunArgs::default();
    arguments.input.recipe = Some(file.display().to_string());
    arguments.input.workspace.cd = Some(project);
    arguments.input.no_stdin = true;
    arguments.context.bare = true;
    arguments.changes.dry_run = true;
    arguments.output.output_format = Some(Format::Result);
    let folder = file.parent().unwrap_or(Path::new("."));
    let policy = folder.join(test.fixture.as_str()).join("policy.yaml");
    arguments.policy.policy =
        Some(if policy.is_file() { policy.display().to_string() } else { "builtin:ci-dev".to_owned() });
    for (name, given) in test.params.iter().flatten() {
        let texts = match given {
            Given::One(text) => std::slice::from_ref(text),
            Given::Many(texts) => texts,
        };
        // A value is used unchanged, whatever it begins with.
        let flag =
            |text: &str| if text.starts_with('@') { format!("{name}=@{text}") } else { format!("{name}={text}") };
        arguments.input.params.extend(texts.iter().map(|text| flag(text.as_str())));
    }
    match &test.transcript {
        Some(transcript) => {
            let path = folder.join(transcript.as_str());
            if transcript.value.ends_with(".jsonl") && record {
                arguments.test.record = Some(path);
            } else if transcript.value.ends_with(".jsonl") {
                arguments.test.replay = Some(path);
            } else {
                arguments.test.script = Some(path);
            }
        }
        None => {
            let path = temporary.join("empty.json");
            let empty = br#"{"origin": "no request is expected", "turns": []}"#;
            crate::workspace::outputs::create_new(&path, empty).map_err(|error| error.to_string())?;
            arguments.test.script = Some(path);
        }
    }
    Ok(arguments)
}

/// Returns an environment in which a test says the same on every machine: no settings of the user's, but his
/// toolchains.
fn quiet(environment: &Environment, folder: &Path, record: bool) -> Environment {
    let mut quiet = environment.clone();
    for (name, below) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
        if let Some(home) = &environment.home
            && !quiet.variables.contains_key(name)
        {
            quiet.variables.insert(name.to_owned(), home.join(below).display().to_string());
        }
    }
    let of_model = |name: &str| record && (name.starts_with("QWEN_") || name.starts_with("OPENAI_"));
    quiet.variables.retain(|name, _| KEPT.contains(&name.as_str()) || of_model(name));
    let home = folder.join("home");
    quiet.variables.insert("HOME".to_owned(), home.display().to_string());
    quiet.home = Some(home);
    quiet
}

fn compare(test: &TestCase, exit: Exit, result: &Value) -> Result<(), String> {
    let expect = test.expect.clone().unwrap_or_default();
    let mut problems = Vec::new();
    let code = expect.exit.unwrap_or(0);
    if exit.code() != code {
        let error = result["error"]["message"].as_str().unwrap_or_default();
        problems.push(format!("it ends with {}, not {code}: {error}", exit.code()));
        for check in result["verify"].as_array().into_iter().flatten().filter(|check| check["passed"] == false) {
            problems.push(format!("{}: {}", check["command"], check["output_tail"].as_str().unwrap_or_default()));
        }
    }
    if let Some(changed) = &expect.changed {
        let mut wanted: Vec<&str> = changed.iter().map(|text| text.as_str()).collect();
        let files = result["changes"]["files"].as_array().cloned().unwrap_or_default();
        let mut found: Vec<&str> = files.iter().filter_map(|file| file["path"].as_str()).collect();
        wanted.sort_unstable();
        found.sort_unstable();
        if wanted != found {
            problems.push(format!("it changes {found:?}, not {wanted:?}"));
        }
    }
    let all = [
        result["result"].as_str().unwrap_or_default().to_owned(),
        result["changes"]["patch"].as_str().unwrap_or_default().to_owned(),
        result["conclusion"].as_str().unwrap_or_default().to_owned(),
        result["structured_output"].to_string(),
        result["findings"].to_string(),
        result["error"]["message"].as_str().unwrap_or_default().to_owned(),
    ]
    .join("\n");
    for text in expect.contains.iter().flatten() {
        if !all.contains(text.as_str()) {
            problems.push(format!("`{}` is neither in the result nor in the patch", text.value));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

/// Makes the project: the fixture's layers, committed, staged or written.
fn prepare(fixture: &Path, project: &Path) -> Result<(), String> {
    let git = |arguments: &[&str]| -> Result<(), String> {
        let git = Git::new(project)
            .with_filters_off()
            .config("user.name", "Fixture")
            .config("user.email", "fixture@example.com")
            .config("commit.gpgsign", "false")
            .config("init.defaultBranch", "main")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_AUTHOR_DATE", "2026-01-01T00:00:00Z")
            .env("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z");
        git.run(arguments, b"").map(drop).map_err(|error| error.to_string())
    };
    let layer = |name: &str| -> Result<bool, String> {
        let folder = fixture.join(name);
        if !folder.is_dir() {
            return Ok(false);
        }
        copy(&folder, project).map_err(|error| format!("{}: {error}", folder.display())).map(|()| true)
    };
    git(&["init", "-q"])?;
    layer("base")?;
    git(&["add", "-A"])?;
    git(&["commit", "-q", "--allow-empty", "-m", "Start"])?;
    git(&["tag", "v0"])?;
    if layer("commit")? {
        git(&["add", "-A"])?;
        git(&["commit", "-q", "-m", "Change what the fixture changes"])?;
    }
    if layer("staged")? {
        git(&["add", "-A"])?;
    }
    layer("worktree").map(drop)
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            if !target.is_dir() {
                std::fs::create_dir(&target)?;
            }
            copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

/// Standard output of a run, kept.
#[derive(Clone, Default)]
struct Collected(Arc<Mutex<Vec<u8>>>);

impl Write for Collected {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("nothing panics while it holds the output").extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
