//! Runs `qwen recipe show`: what a recipe is, requires, may use and may cost, before a run. Sends no request.

use std::io::Write;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::console::print;
use super::error::RecipesError;
use super::recipe_case::Collected;
use crate::cli::usage;
use crate::cli::{Cli, Command, RunArgs};
use crate::emit::safe::escape;
use crate::emit::{Screen, to_pretty};
use crate::event::Limits;
use crate::exit::Exit;
use crate::policy::Policy;
use crate::policy::layers::lowest_of;
use crate::recipe::file::Argument;
use crate::recipe::params::Sources;
use crate::recipe::{Recipe, needs};
use crate::run::Failure;
use crate::run::output::outputs::Streams;
use crate::run::recipe::{Active, RecipeContext};
use crate::run::stages::bounds::limits;
use crate::settings::{Environment, Settings};

/// What is to be shown.
pub(super) struct Shown {
    /// The rendered prompt.
    pub(super) prompt: bool,
    /// The rendered commands.
    pub(super) commands: bool,
    /// The merged file.
    pub(super) merged: bool,
    /// As JSON.
    pub(super) json: bool,
    /// The recipe, as the command line names it.
    pub(super) word: String,
    /// The policy that the command line names.
    pub(super) policy: Option<String>,
    /// Where to work, if not here.
    pub(super) directory: Option<PathBuf>,
}

/// Gathers the inputs as a run does, and returns its first message; the inner error is how the run ended, which has
/// said why.
async fn first_message(
    shown: &Shown,
    params: &[String],
    environment: &Environment,
) -> Result<Result<String, Exit>, Failure> {
    let mut words: Vec<String> =
        ["qwen", "run", "--no-stdin", "--no-session", "--dry-run", "-q", "-o", "result"].map(str::to_owned).into();
    words.push(format!("--recipe={}", shown.word));
    words.extend(shown.policy.iter().map(|policy| format!("--policy={policy}")));
    words.extend(shown.directory.iter().map(|directory| format!("--cd={}", directory.display())));
    words.extend(params.iter().map(|param| format!("--param={param}")));
    let Ok(Cli { command: Some(Command::Run(mut arguments)), .. }) = usage::parse(words) else {
        unreachable!("the words are a run's");
    };
    arguments.shows_prompt = true;
    let output = Collected::default();
    let streams = Streams {
        backlogs: Vec::new(),
        stdout: Box::new(output.clone()),
        stdout_is_terminal: false,
        stderr: Screen::Plain(Box::new(std::io::stderr())),
        stderr_is_terminal: false,
    };
    let exit = Box::pin(crate::run::run(&arguments, environment, streams)).await;
    let result: Value = serde_json::from_slice(&output.text()).unwrap_or_default();
    Ok(match exit {
        Exit::Ok => Ok(result["result"].as_str().unwrap_or_default().to_owned()),
        other => Err(other),
    })
}

pub(super) async fn run(
    shown: Shown,
    recipe: Recipe,
    surroundings: &RecipeContext<'_>,
    params: &[String],
    policy: &Policy,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let bound = bound(&recipe, policy);
    if shown.prompt || shown.commands {
        let sources = Sources { flags: params.to_vec(), ..Sources::default() };
        let active = surroundings.bind(recipe, &sources)?;
        // As a run would end: a need that is not granted, 60.
        let narrowed = active.narrow(policy, active.untrusted_input(policy, true))?;
        let prompt = match shown.prompt {
            true => match first_message(&shown, params, surroundings.environment).await? {
                Ok(prompt) => Some(prompt),
                Err(exit) => return Ok(exit),
            },
            false => None,
        };
        return rendered(&active, &narrowed, &bound, (prompt, &shown), out);
    }
    if shown.merged || shown.json {
        let merged = serde_json::to_value(&recipe.file).unwrap_or_default();
        let merged = without_nulls(&merged);
        return print(
            out,
            &(to_pretty(&json!({
                "source": recipe.source,
                "sha256": recipe.sha256,
                "recipe": merged,
                "policy": effective(&recipe, policy),
                "limits": bound,
            })) + "\n"),
        );
    }
    print(out, &description(&recipe, policy, &bound))
}

fn without_nulls(value: &Value) -> Value {
    let entries = value.as_object().into_iter().flatten();
    entries.filter(|(_, value)| !value.is_null()).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Returns the lowest of what recipe, policy and defaults let a run spend.
fn bound(recipe: &Recipe, policy: &Policy) -> Limits {
    let asked = recipe.limits();
    let own = Limits {
        turns: asked.turns,
        tool_calls: asked.tool_calls,
        wall_time_ms: asked.wall_time.and_then(|time| u64::try_from(time.0.as_millis()).ok()),
        total_tokens: asked.total_tokens,
        cost_usd: asked.cost_usd,
        ..Limits::default()
    };
    lowest_of(&limits(&RunArgs::default(), &Settings::default(), policy), &own)
}

/// Returns the maximum cost of a run.
fn bound_in_words(bound: &Limits) -> String {
    let cost = match (bound.cost_usd, bound.total_tokens) {
        (Some(cost), _) => format!("at most ${cost:.2}, if the model's price is known"),
        (None, Some(tokens)) => format!("at most {tokens} tokens"),
        (None, None) => "limited by turns and time only (set `limits.cost_usd`)".to_owned(),
    };
    let turns = bound.turns.map(|turns| format!("; {turns} turns")).unwrap_or_default();
    let calls = bound.tool_calls.map(|calls| format!(", {calls} tool calls")).unwrap_or_default();
    let time = bound.wall_time_ms.map(|time| format!(", {} s", time / 1000)).unwrap_or_default();
    format!("cost: {cost}{turns}{calls}{time}")
}

/// Returns what the recipe gets of the policy; the needs that are not granted.
fn effective(recipe: &Recipe, policy: &Policy) -> Value {
    let missing: Vec<String> =
        needs::missing(recipe.needs(), policy).iter().map(|error| error.message.clone()).collect();
    let layer = needs::layer(recipe.name(), recipe.needs(), !recipe.untrusted().is_empty());
    let rules = layer.map(|layer| policy.and(layer).summary());
    json!({"name": policy.facts().name, "sha256": policy.facts().sha256, "rules": rules.unwrap_or_default(), "not_granted": missing})
}

fn description(recipe: &Recipe, policy: &Policy, bound: &Limits) -> String {
    let file = &recipe.file;
    let text =
        |text: &Option<crate::recipe::file::Text>| text.as_ref().map(|text| text.value.clone()).unwrap_or_default();
    let mut lines = vec![
        format!("{}: {}", [recipe.name(), &text(&file.version)].join(" ").trim_end(), text(&file.description)),
        format!("from {}, sha256 {}", recipe.source, recipe.sha256),
    ];
    for (name, param) in recipe.params() {
        let default = match (&param.default, &param.env) {
            (Some(given), _) => format!("default {}", serde_json::to_string(given).unwrap_or_default()),
            (None, Some(variable)) => format!("from {}", variable.value),
            (None, None) => "must be given".to_owned(),
        };
        lines.push(format!("param {name} ({}, {default}): {}", param.r#type.name(), param.description.value));
    }
    let json = |value: Value| {
        without_nulls(&value)
            .as_object()
            .map(|map| map.iter().map(|(key, value)| format!("{key} {value}")).collect::<Vec<_>>().join(", "))
    };
    match recipe.needs() {
        None => lines.push("needs: nothing".to_owned()),
        Some(needs) => lines.push(format!("needs: {}", json(json!(needs)).unwrap_or_default())),
    }
    for finish in recipe.file.finish.iter().flatten() {
        lines.push(format!("finish {}: {}", finish.name.value, in_words(&finish.run)));
    }
    for check in recipe.checks() {
        lines.push(format!("check {}: {}", check.name.value, in_words(&check.run)));
    }
    lines.push(format!("gives: {}", json!(recipe.output().kind).as_str().unwrap_or_default()));
    lines.push(format!("under the policy {} the run gets what all of these allow:", policy.facts().name));
    let effective = effective(recipe, policy);
    lines.extend(effective["rules"].as_str().unwrap_or_default().lines().map(|line| format!("  {line}")));
    lines.extend(
        effective["not_granted"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(|m| format!("  not granted: {m}")),
    );
    lines.push(bound_in_words(bound));
    lines.iter().map(|line| escape(line).into_owned() + "\n").collect()
}

fn in_words(arguments: &[Argument]) -> String {
    arguments.iter().map(Argument::shown).collect::<Vec<_>>().join(" ")
}

fn rendered(
    active: &Active,
    narrowed: &Policy,
    bound: &Limits,
    (prompt, shown): (Option<String>, &Shown),
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let listed = commands(active)?;
    if shown.json {
        let commands: Vec<_> = listed.iter().map(|(name, words)| json!({"name": name, "argv": words})).collect();
        return print(
            out,
            &(to_pretty(&json!({
                "prompt": prompt,
                "instructions": active.instructions()?,
                "commands": commands,
                "policy": {"name": narrowed.facts().name, "sha256": narrowed.facts().sha256, "rules": narrowed.summary()},
                "limits": bound,
            })) + "\n"),
        );
    }
    if shown.commands {
        for (name, words) in &listed {
            let words: Vec<String> = words.iter().map(|word| crate::run::recipe::quoted(word)).collect();
            print(out, &format!("{name}: {}\n", escape(&words.join(" "))))?;
        }
    }
    if let Some(prompt) = prompt {
        let end = if prompt.ends_with('\n') { "" } else { "\n" };
        print(out, &format!("{}{end}", escape(&prompt)))?;
    }
    let mut lines = vec![format!("under the policy {} the run gets what all of these allow:", narrowed.facts().name)];
    lines.extend(narrowed.summary().lines().map(|line| format!("  {line}")));
    lines.push(bound_in_words(bound));
    print(out, &(lines.iter().map(|line| escape(line)).collect::<Vec<_>>().join("\n") + "\n"))
}

/// Returns the words of each command, with its name.
fn commands(active: &Active) -> Result<Vec<(String, Vec<String>)>, RecipesError> {
    let mut listed = Vec::new();
    for (path, arguments) in active.recipe.file.commands() {
        let name = path.strip_suffix(".run").unwrap_or(&path).replace("verify.checks.", "check ");
        let words = active.renderer(&[]).command(arguments).map_err(|problem| RecipesError::Words {
            name: name.clone(),
            problem: problem.message,
            help: problem.help,
        })?;
        listed.push((name, words));
    }
    Ok(listed)
}
