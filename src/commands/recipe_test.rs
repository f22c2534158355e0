//! Runs `qwen recipe test`: each example of a recipe on its small project, with a recorded or scripted conversation and
//! no network.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::console::print;
use super::recipe_case::CaseProject;
use super::recipe_fixture::{CaseError, Surroundings, named};
use crate::emit::safe::{brief, escape};
use crate::exit::Exit;
use crate::recipe::Recipe;
use crate::recipe::cases::TestCase;
use crate::recipe::file::Text;
use crate::run::Failure;
use crate::run::error::RecipeError;
use crate::run::recipe::RecipeContext;
use crate::run::rules::trust::Trusted;
use crate::settings::Environment;

pub(super) async fn run(
    files: &[PathBuf],
    record: bool,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let (mut passed, mut failed) = (0, 0);
    let around = Surroundings::open(environment)?;
    let recipes = files.iter().map(|file| Ok((file, recipe_of(&file.display().to_string(), environment)?)));
    for (file, recipe) in recipes.collect::<Result<Vec<_>, RecipeError>>()? {
        let shown = file.display().to_string();
        let tests = recipe.file.tests.clone().unwrap_or_default();
        if tests.is_empty() {
            print(out, &format!("none {}: it has no tests\n", escape(&shown)))?;
        }
        for test in &tests {
            let name = format!("{} {}", recipe.name(), test.name.value);
            let Some(transcript) = &test.transcript else {
                print(out, &format!("skip {}: no `transcript`, so only `qwen recipe eval` runs it\n", escape(&name)))?;
                continue;
            };
            let problems = match one((file, test), transcript, record, &around, environment).await {
                Ok(problems) => problems,
                Err(error) => vec![error.to_string()],
            };
            if problems.is_empty() {
                passed += 1;
                print(out, &format!("ok   {}\n", escape(&name)))?;
            } else {
                failed += 1;
                let problems = brief(&problems.join("\n")).lines().map(escape).collect::<Vec<_>>().join("\n     ");
                print(out, &format!("FAIL {}: {problems}\n", escape(&name)))?;
            }
        }
    }
    print(out, &format!("{passed} passed, {failed} failed\n"))?;
    Ok(if failed == 0 { Exit::Ok } else { Exit::Verify })
}

/// Returns the file of a recipe: a name is one of the repository's.
pub(super) fn file_of(word: &str, environment: &Environment, top: &Path) -> PathBuf {
    if crate::recipe::load::is_path(word) {
        return environment.cwd.join(word);
    }
    let directory = top.join(".qwen/recipes");
    let yml = directory.join(format!("{word}.yml"));
    if yml.is_file() { yml } else { directory.join(format!("{word}.yaml")) }
}

/// Reads a recipe file.
pub(super) fn recipe_of(file: &str, environment: &Environment) -> Result<Recipe, RecipeError> {
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

async fn one(
    (file, test): (&Path, &TestCase),
    transcript: &Text,
    record: bool,
    around: &Surroundings,
    environment: &Environment,
) -> Result<Vec<String>, CaseError> {
    let whole = environment.cwd.join(file);
    let directory = whole.parent().unwrap_or(&environment.cwd);
    let project = CaseProject::make(named(directory, test.fixture.as_str(), &environment.cwd)?, around)?;
    let mut arguments = project.arguments(file, test);
    let path = named(directory, transcript.as_str(), &environment.cwd)?;
    match transcript.value.ends_with(".jsonl") {
        true if record => arguments.test.record = Some(path),
        true => arguments.test.replay = Some(path),
        false => arguments.test.script = Some(path),
    }
    let environment = project.environment(environment, record);
    let (exit, result) = project.run(&arguments, &environment).await?;
    project.judge(test, exit.code(), &result, &environment).await
}
