//! Runs `qwen tools`: prints the registry as the model sees it, or makes one call by hand under the policy.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::console::{print, read};
use super::error::{CallError, CommandError};
use super::mcp::{Found, find};
use crate::base::trace::Context;
use crate::cli::tools::ToolsVerb;
use crate::deliver::{self, Delivery, Gate, Site};
use crate::emit::to_pretty;
use crate::exit::Exit;
use crate::git::Whole;
use crate::model::Part;
use crate::path::RelPath;
use crate::policy::{Facts, Policy};
use crate::run::Failure;
use crate::run::place::Place;
use crate::run::recipe::fences;
use crate::run::rules::judge::judge_change;
use crate::run::rules::policy_layers::PolicySelection;
use crate::run::runner::Runner;
use crate::run::runner::tools::{ToolOptions, tools};
use crate::settings::Environment;
use crate::tools::{RunMemory, ToolContext, ToolLimits, Toolbox};

pub(super) async fn run(
    verb: &ToolsVerb,
    environment: &Environment,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    match verb {
        ToolsVerb::List { json, workspace } => {
            let place = Place::open(workspace.cd.as_deref(), environment)?;
            let chosen = super::mcp::policy(&place, None, false, environment)?;
            let runner = super::mcp::runner(&place, &chosen.policy, environment)?;
            let mut registry = registry(&place, &chosen, &runner, environment, err).await?;
            let servers = super::mcp::start(&place, &chosen, &runner, environment, err).await?;
            super::mcp::register(&servers, &mut registry, &place, &chosen.policy, environment, err);
            let listed = list(&registry, *json, out);
            servers.close().await;
            runner.end().await;
            listed
        }
        ToolsVerb::Call { name, input, policy, apply, workspace } => {
            let text = match input.as_str() {
                "-" => String::from_utf8_lossy(&read(Path::new("-"), environment)?).into_owned(),
                text => text.to_owned(),
            };
            let place = Place::open(workspace.cd.as_deref(), environment)?;
            call(&place, name, &text, policy.as_deref(), *apply, environment, out, err).await
        }
    }
}

/// Returns the tools that a run here would have, servers' aside.
async fn registry(
    place: &Place,
    chosen: &PolicySelection,
    runner: &Runner,
    environment: &Environment,
    err: &mut dyn Write,
) -> Result<Toolbox, Failure> {
    let Found { settings, environment, trusted, .. } = find(place, environment)?;
    let wanted = ToolOptions {
        settings: &settings,
        environment: &environment,
        policy: &chosen.policy,
        home: &environment.home_text(),
        included: &[],
        top: place.top(),
        project: trusted.source(),
        bare: false,
        fence_secret: fences::secret(None)?,
    };
    let found = tools(&wanted, &place.workspace, runner).await;
    super::mcp::warn(&found.warnings, err);
    Ok(found.registry)
}

fn list(registry: &Toolbox, as_json: bool, out: &mut dyn Write) -> Result<Exit, Failure> {
    let specs = registry.specs();
    let size = |spec: &crate::model::ToolSpec| {
        json!({"type": "function", "function": {"name": spec.name, "description": spec.description, "parameters": spec.parameters}})
            .to_string()
            .len()
    };
    let total: usize = specs.iter().map(size).sum();
    if as_json {
        let tools: Vec<Value> = specs
            .iter()
            .map(|spec| {
                json!({"name": spec.name, "description": spec.description, "parameters": spec.parameters, "bytes": size(spec)})
            })
            .collect();
        return print(out, &(to_pretty(&json!({"tools": tools, "bytes": total})) + "\n"));
    }
    let mut text = String::new();
    for spec in &specs {
        let first = spec.description.split_once(". ").map_or(spec.description.as_str(), |(first, _)| first);
        text.push_str(&format!("{:<22} {:>5} bytes  {first}\n", spec.name, size(spec)));
    }
    text.push_str(&format!("{} tools, {total} bytes in each request\n", specs.len()));
    print(out, &text)
}

#[expect(clippy::too_many_arguments, reason = "the flags of the command, all of them different things")]
async fn call(
    place: &Place,
    name: &str,
    input: &str,
    policy: Option<&str>,
    apply: bool,
    environment: &Environment,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    let arguments = match serde_json::from_str(input) {
        Ok(Value::Object(arguments)) => arguments,
        Ok(_) => return Err(CommandError::NotObject.into()),
        Err(error) => return Err(CommandError::Arguments(error).into()),
    };
    let chosen = super::mcp::policy(place, policy, apply, environment)?;
    let runner = super::mcp::runner(place, &chosen.policy, environment)?;
    let mut registry = registry(place, &chosen, &runner, environment, err).await?;
    // Servers are started if the tool may be theirs.
    let servers = match registry.resolve(name) {
        Some(_) => crate::tools::mcp::Servers::default(),
        None => super::mcp::start(place, &chosen, &runner, environment, err).await?,
    };
    super::mcp::register(&servers, &mut registry, place, &chosen.policy, environment, err);
    let facts = place.facts(environment);
    let prepared = registry.parse(name, arguments).map_err(|error| CallError::Parameters(error.message))?;
    let (decision, grant) = chosen.policy.authorize(&prepared.name, &prepared.call.accesses(), &facts);
    let Some(grant) = grant else {
        return Err(CallError::Denied { reason: decision.reason, hint: decision.hint }.into());
    };
    let limits = ToolLimits {
        shell_timeout: Duration::from_secs(120),
        shell_timeout_max: Duration::from_secs(600),
        output_chars: 25_000,
        output_lines: 2_000,
        outputs: runner.outputs(),
    };
    let memory = RunMemory::default();
    let context = ToolContext {
        workspace: &place.workspace,
        memory: &memory,
        limits: &limits,
        runner: &runner,
        text_tools: false,
        media: false,
        traced: &Context::NONE,
    };
    let output = prepared.call.run(&grant, &context).await;
    servers.close().await;
    runner.end().await;
    let output = output.map_err(|error| CallError::Failed(error.message))?;
    print(out, &(Part::text_of(&output.llm_content) + "\n"))?;
    deliver_staged(place, &chosen.policy, &facts, apply, out)
}

/// Applies what the call staged, or prints it as a patch.
fn deliver_staged(
    place: &Place,
    policy: &Policy,
    facts: &Facts,
    apply: bool,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let changes = place.workspace.changes();
    if changes.is_empty() {
        return Ok(Exit::Ok);
    }
    let undo = place.state()?.join("undo");
    let judge = |path: &RelPath, change: &crate::change::Change| judge_change(policy, facts, path, (change, &changes));
    let gate = Gate {
        judge: &judge,
        secret: &|_, _| None,
        hide: &str::to_owned,
        made_by: &|_| None,
        max_files: None,
        max_patch_bytes: None,
    };
    let run_id = crate::run::output::outputs::new_id();
    let time = jiff::Timestamp::now().to_string();
    let site = Site {
        root: place.workspace.root(),
        repository: place.repository(),
        undo: apply.then_some(undo.as_path()),
        run_id: &run_id,
        time: &time,
        outputs: None,
    };
    if apply {
        Whole::to_the_end();
    }
    let how = if apply { Delivery::Apply } else { Delivery::DryRun };
    let delivered = deliver::deliver(&changes, &how, &site, &gate)?;
    if !apply {
        super::console::print_bytes(out, &delivered.patch)?;
    }
    Ok(Exit::Ok)
}
