//! `qwen recipe`: recipes listed, shown, checked, begun; their tests are in a file of their own.

use std::io::Write;
use std::path::Path;

use serde_json::json;

use super::{Place, print};
use crate::cli::recipe::RecipeVerb;
use crate::emit::safe::escape;
use crate::emit::to_pretty;
use crate::exit::Exit;
use crate::recipe::params::Sources;
use crate::recipe::{Recipe, RecipeError};
use crate::run::Failure;
use crate::run::recipe::{Active, Surroundings, failure};
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

pub(super) async fn run(verb: &RecipeVerb, environment: &Environment, out: &mut dyn Write) -> Result<Exit, Failure> {
    match verb {
        RecipeVerb::List { json, workspace } => {
            let place = Place::open(workspace, environment)?;
            list(&place, environment, *json, out)
        }
        RecipeVerb::Show { recipe, prompt, commands, merged, json, params, workspace } => {
            let place = Place::open(workspace, environment)?;
            let top = place.top();
            let surroundings = surroundings(&place, &top, environment);
            let recipe = surroundings.find(recipe)?;
            if *merged || (*json && !*prompt && !*commands) {
                let merged = serde_json::to_value(&recipe.file).unwrap_or_default();
                let merged: serde_json::Map<_, _> = merged
                    .as_object()
                    .into_iter()
                    .flatten()
                    .filter(|(_, value)| !value.is_null())
                    .map(|(k, v)| (k.clone(), v.clone()))
                    .collect();
                return print(
                    out,
                    &(to_pretty(&json!({"source": recipe.source, "sha256": recipe.sha256, "recipe": merged})) + "\n"),
                );
            }
            if *prompt || *commands {
                let sources = Sources { flags: params.clone(), ..Sources::default() };
                let active = surroundings.bind(recipe, &sources)?;
                return rendered(&active, *prompt, *commands, *json, out);
            }
            print(out, &description(&recipe))
        }
        RecipeVerb::Validate { recipes, strict, workspace } => {
            let place = Place::open(workspace, environment)?;
            validate(&place, recipes, *strict, environment, out)
        }
        RecipeVerb::New { name, workspace } => {
            let place = Place::open(workspace, environment)?;
            new(&place, name, out)
        }
        RecipeVerb::Test { recipes, workspace } => {
            let place = Place::open(workspace, environment)?;
            let files = match recipes.is_empty() {
                false => recipes.iter().map(|path| environment.cwd.join(path)).collect(),
                true => own_files(&place),
            };
            super::recipe_test::run(&files, environment, out).await
        }
    }
}

fn surroundings<'a>(place: &'a Place, top: &'a Path, environment: &'a Environment) -> Surroundings<'a> {
    Surroundings { environment, top, root: place.workspace.root(), repository: place.repository.as_ref(), tree: None }
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
    let listed = surroundings(place, &top, environment).with_library(|library| library.list());
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

fn description(recipe: &Recipe) -> String {
    let file = &recipe.file;
    let text =
        |text: &Option<crate::recipe::file::Text>| text.as_ref().map(|text| text.value.clone()).unwrap_or_default();
    let mut lines = vec![
        format!("{} {}: {}", recipe.name(), text(&file.version), text(&file.description)),
        format!("from {}, sha256 {}", recipe.source, recipe.sha256),
    ];
    for (name, param) in recipe.params() {
        let default = match &param.default {
            None => "must be given".to_owned(),
            Some(given) => format!("default {}", serde_json::to_string(given).unwrap_or_default()),
        };
        lines.push(format!("param {name} ({}, {default}): {}", param.r#type.name(), param.description.value));
    }
    let json = |value: serde_json::Value| {
        value.as_object().map(|map| {
            map.iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| format!("{key} {value}"))
                .collect::<Vec<_>>()
                .join(", ")
        })
    };
    match recipe.needs() {
        None => lines.push("needs: nothing".to_owned()),
        Some(needs) => lines.push(format!("needs: {}", json(json!(needs)).unwrap_or_default())),
    }
    lines.push(format!("limits: {}", json(json!(recipe.limits())).unwrap_or_default()));
    for check in recipe.checks() {
        let words: Vec<&str> = check.run.iter().map(|word| word.as_str()).collect();
        lines.push(format!("check {}: {}", check.name.value, words.join(" ")));
    }
    lines.push(format!("gives: {}", json!(recipe.output().kind).as_str().unwrap_or_default()));
    lines.iter().map(|line| escape(line).into_owned() + "\n").collect()
}

fn rendered(
    active: &Active,
    prompt: bool,
    commands: bool,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let stand_ins: Vec<(String, String)> = active
        .recipe
        .context()
        .iter()
        .map(|context| (context.name.value.clone(), format!("[context.{}]", context.name.value)))
        .collect();
    let text = active.prompt(&stand_ins)?;
    let mut listed = Vec::new();
    let of_context = active
        .recipe
        .context()
        .iter()
        .filter_map(|context| Some((format!("context.{}", context.name.value), context.run.as_ref()?)));
    let of_checks = active.recipe.checks().iter().map(|check| (format!("check {}", check.name.value), &check.run));
    for (name, templates) in of_context.chain(of_checks) {
        let templates: Vec<&str> = templates.iter().map(|text| text.as_str()).collect();
        let words = active.renderer(&[]).words(&templates).map_err(|problem| {
            Failure::new(Exit::Input, format!("{name}: {}", problem.message), "correct the parameter")
        })?;
        listed.push((name, words));
    }
    if as_json {
        let commands: Vec<_> = listed.iter().map(|(name, words)| json!({"name": name, "argv": words})).collect();
        return print(
            out,
            &(to_pretty(&json!({"prompt": text, "commands": commands, "limits": active.recipe.limits()})) + "\n"),
        );
    }
    if commands {
        for (name, words) in &listed {
            let words: Vec<String> = words.iter().map(|word| crate::run::checks::quoted(word)).collect();
            print(out, &format!("{name}: {}\n", escape(&words.join(" "))))?;
        }
    }
    if prompt {
        print(out, &(text.lines().map(escape).collect::<Vec<_>>().join("\n") + "\n"))?;
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
        true => own_files(place).iter().map(|path| path.display().to_string()).collect(),
    };
    let top = place.top();
    let surroundings = surroundings(place, &top, environment);
    let mut wrong: Vec<RecipeError> = Vec::new();
    for word in &words {
        match surroundings.with_library(|library| library.load(word)) {
            Ok(recipe) => {
                for warning in &recipe.warnings {
                    print(
                        out,
                        &format!(
                            "{}: {}\n",
                            if strict { "error" } else { "warning" },
                            escape_lines(&warning.to_string())
                        ),
                    )?;
                }
                if strict && !recipe.warnings.is_empty() {
                    wrong.extend(recipe.warnings);
                } else {
                    print(out, &format!("ok {} {}\n", escape(word), recipe.sha256))?;
                }
            }
            Err(errors) => {
                for error in &errors {
                    print(out, &format!("error: {}\n", escape_lines(&error.to_string())))?;
                }
                wrong.extend(errors);
            }
        }
    }
    if wrong.is_empty() {
        return Ok(Exit::Ok);
    }
    Err(Failure::new(
        Exit::Input,
        format!("{} error(s) in {} recipe(s)", wrong.len(), words.len()),
        "docs/recipes.md explains each code",
    ))
}

fn escape_lines(text: &str) -> String {
    text.lines().map(escape).collect::<Vec<_>>().join("\n")
}

fn new(place: &Place, name: &str, out: &mut dyn Write) -> Result<Exit, Failure> {
    let text = SKELETON.replace("NAME", name);
    let shown = format!("{name}.yaml");
    crate::recipe::load::from_text(&shown, &text).map_err(|errors| failure(&errors))?;
    let path = place.top().join(".qwen/recipes").join(&shown);
    crate::workspace::outputs::create_new(&path, text.as_bytes()).map_err(|error| {
        Failure::new(Exit::Conflict, format!("{}: {error}", path.display()), "choose another name, or edit that file")
    })?;
    print(out, &format!("wrote .qwen/recipes/{shown}; now: qwen run --recipe {name}\n"))
}

/// Returns a failure of [`failure`] as the text of the first error, for reports.
pub(super) fn first(failure: &Failure) -> String {
    failure.error.message.lines().next().unwrap_or_default().to_owned()
}
