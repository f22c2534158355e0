//! Runs `qwen recipe`: lists, shows, checks, creates, tests and evaluates recipes.

use std::io::Write;
use std::path::Path;

use serde_json::json;

use super::console::print;
use super::error::RecipesError;
use crate::base::{Code, Diagnostic};
use crate::checkouts::place_in;
use crate::cli::recipe::RecipeVerb;
use crate::emit::safe::{brief, escape};
use crate::emit::to_pretty;
use crate::exit::Exit;
use crate::recipe::Recipe;
use crate::recipe::load::is_path;
use crate::run::Failure;
use crate::run::error::RecipeError;
use crate::run::place::Place;
use crate::run::recipe::RecipeContext;
use crate::run::rules::trust::Trusted;
use crate::settings::Environment;

/// A recipe to begin with.
const SKELETON: &str = "recipe: 1
name: NAME
description: Say in one line what it does.
prompt: |
  Say what is to be done, and where.
needs: {read: [\"**\"]}
limits: {turns: 20, wall_time: 5m, cost_usd: 0.50}
output: {kind: text}
";

/// A recipe that builds on another one.
const CHILD: &str = "recipe: 1
name: NAME
description: Say in one line what is different from PARENT.
extends: PARENT
# Write only what is different; `qwen recipe show PARENT` prints the rest.
";

pub(super) async fn run(verb: &RecipeVerb, environment: &Environment, out: &mut dyn Write) -> Result<Exit, Failure> {
    match verb {
        RecipeVerb::List { json, workspace } => {
            let place = Place::open(workspace.cd.as_deref(), environment)?;
            list(&place, environment, *json, out)
        }
        RecipeVerb::Show { recipe, prompt, commands, merged, json, params, policy, workspace } => {
            let place = Place::open(workspace.cd.as_deref(), environment)?;
            let top = place.top();
            let trusted = place.trusted(environment)?;
            let surroundings = surroundings(&place, top, environment, &trusted);
            let what = super::recipe_show::Shown {
                prompt: *prompt,
                commands: *commands,
                merged: *merged,
                json: *json,
                word: recipe.clone(),
                policy: policy.clone(),
                directory: workspace.cd.clone(),
            };
            let recipe = surroundings.find(recipe)?;
            let policy = place.policy(policy.as_deref(), false, environment)?.policy;
            super::recipe_show::run(what, recipe, &surroundings, params, &policy, out).await
        }
        RecipeVerb::Validate { recipes, strict, workspace } => {
            let place = Place::open(workspace.cd.as_deref(), environment)?;
            validate(&place, recipes, *strict, environment, out)
        }
        RecipeVerb::New { name, from, workspace } => {
            let place = Place::open(workspace.cd.as_deref(), environment)?;
            new(&place, name, from.as_deref(), out)
        }
        RecipeVerb::Test { recipes, record, workspace } => {
            let place = Place::open(workspace.cd.as_deref(), environment)?;
            let files = match recipes.is_empty() {
                false => {
                    recipes.iter().map(|word| super::recipe_test::file_of(word, environment, place.top())).collect()
                }
                true => own_files(&place),
            };
            super::recipe_test::run(&files, *record, environment, out).await
        }
        RecipeVerb::Eval(args) => super::eval::run(args, environment, out),
    }
}

fn surroundings<'a>(
    place: &'a Place,
    top: &'a Path,
    environment: &'a Environment,
    trusted: &'a Trusted,
) -> RecipeContext<'a> {
    RecipeContext {
        environment,
        top,
        root: place.workspace.root(),
        repository: place.repository(),
        trusted,
        state: None,
        tree: None,
    }
}

fn own_files(place: &Place) -> Vec<std::path::PathBuf> {
    let folder = place.top().join(".qwen/recipes");
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml")).collect();
    files.sort();
    files
}

fn list(place: &Place, environment: &Environment, as_json: bool, out: &mut dyn Write) -> Result<Exit, Failure> {
    let top = place.top();
    let trusted = place.trusted(environment)?;
    let listed = surroundings(place, top, environment, &trusted).with_library(|library| library.list());
    if as_json {
        let rows: Vec<_> = listed
            .iter()
            .map(|row| match &row.description {
                Ok(text) => json!({"name": row.name, "source": row.source, "description": text}),
                Err(error) => json!({"name": row.name, "error": error}),
            })
            .collect();
        return print(out, &(to_pretty(&json!(rows)) + "\n"));
    }
    for row in listed {
        let text = match &row.description {
            Ok(text) => format!("{:<24} {}  ({})\n", row.name, escape(text), escape(&row.source)),
            Err(error) => format!("{:<24} broken: {}\n", row.name, escape(error.lines().next().unwrap_or_default())),
        };
        print(out, &text)?;
    }
    Ok(Exit::Ok)
}

fn validate(
    place: &Place,
    recipes: &[String],
    strict: bool,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let words: Vec<String> = match recipes.is_empty() {
        false => recipes.to_vec(),
        true => own_files(place)
            .iter()
            .map(|path| path.strip_prefix(&environment.cwd).unwrap_or(path).display().to_string())
            .collect(),
    };
    // Whoever validates a recipe means the file as it is there.
    let trusted = Trusted::as_it_lies();
    let surroundings = surroundings(place, place.top(), environment, &trusted);
    let mut wrong: Vec<Diagnostic> = Vec::new();
    for word in &words {
        match surroundings.with_library(|library| library.load(word)) {
            Ok(recipe) => {
                let missing = missing_files(&recipe, word, place, environment);
                for error in &missing {
                    print(out, &format!("error: {}\n", escape_lines(&error.to_string())))?;
                }
                let kind = if strict { "error" } else { "warning" };
                for warning in &recipe.warnings {
                    print(out, &format!("{kind}: {}\n", escape_lines(&warning.to_string())))?;
                }
                let is_fine = missing.is_empty() && (!strict || recipe.warnings.is_empty());
                wrong.extend(missing);
                if strict {
                    wrong.extend(recipe.warnings);
                }
                if is_fine {
                    print(out, &format!("ok {} {}\n", escape(word), recipe.sha256))?;
                }
            }
            Err(errors) => {
                for error in &errors {
                    print(out, &format!("error: {}\n", escape_lines(&brief(&error.to_string()))))?;
                }
                wrong.extend(errors);
            }
        }
    }
    if wrong.is_empty() {
        return Ok(Exit::Ok);
    }
    Err(RecipesError::Wrong { errors: wrong.len(), recipes: words.len() }.into())
}

/// Returns the folders and conversations of test cases that are not there. Those of built-in recipes do not come with the
/// program.
fn missing_files(recipe: &Recipe, word: &str, place: &Place, environment: &Environment) -> Vec<Diagnostic> {
    let source = recipe.source.as_str();
    if source.starts_with("builtin:") || source.starts_with("~/") {
        return Vec::new();
    }
    let file = if is_path(word) { environment.cwd.join(word) } else { place.top().join(source) };
    let folder = file.parent().unwrap_or(place.top()).to_path_buf();
    let mut missing = Vec::new();
    for case in recipe.file.tests.iter().flatten() {
        let named = [("fixture", Some(&case.fixture)), ("transcript", case.transcript.as_ref())];
        for (key, text) in named.into_iter().filter_map(|(key, text)| Some((key, text?))) {
            if !folder.join(text.as_str()).exists() {
                let message = format!("`tests`: the {key} `{}` of `{}` does not exist", text.value, case.name.value);
                let help = match key {
                    "fixture" => "create that directory, with the project in `base/`",
                    _ => "write it, or record it with `qwen recipe test --record`",
                };
                missing.push(recipe.with_line(Diagnostic::new(Code::R005, text.place.clone(), message).help(help)));
            }
        }
    }
    missing
}

fn escape_lines(text: &str) -> String {
    text.lines().map(escape).collect::<Vec<_>>().join("\n")
}

fn new(place: &Place, name: &str, from: Option<&str>, out: &mut dyn Write) -> Result<Exit, Failure> {
    let text = match from {
        Some(from) if !from.starts_with("builtin:") => return Err(RecipesError::From(from.to_owned()).into()),
        Some(from) => CHILD.replace("NAME", name).replace("PARENT", from),
        None => SKELETON.replace("NAME", name),
    };
    let shown = format!("{name}.yaml");
    crate::recipe::load::from_text(&shown, &text).map_err(RecipeError::Wrong)?;
    let path = place.top().join(".qwen/recipes").join(&shown);
    place_in(place.top(), &path)
        .and_then(|file| crate::workspace::outputs::create_new(&file, text.as_bytes()))
        .map_err(|cause| RecipesError::New { path: path.display().to_string(), cause })?;
    print(
        out,
        &format!(
            "wrote .qwen/recipes/{shown}; describe the task in it, then: qwen recipe validate, qwen run --recipe \
             {name}\n"
        ),
    )
}
