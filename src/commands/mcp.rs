//! Runs `qwen mcp`: adds servers to the settings, connects to them, removes them, signs in to them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::console::print;
use super::error::{CommandError, McpError};
use crate::base::document::jsonc;
use crate::base::private_file;
use crate::bounded;
use crate::checkouts::place_in;
use crate::cli::mcp::{AddArgs, ListArgs, McpVerb, Scope, time};
use crate::cli::{RunArgs, WorkspaceArgs};
use crate::emit::safe::{brief, one_line, one_line_of};
use crate::emit::to_pretty;
use crate::exit::Exit;
use crate::policy::Access;
use crate::policy::lists::{EntryContext, ToolEntry};
use crate::run::Failure;
use crate::run::error::ServerError;
use crate::run::output::masking::secrets_of;
use crate::run::output::redaction::hidden;
use crate::run::place::Place;
use crate::run::rules::policy_layers;
use crate::run::rules::tool_lists;
use crate::run::rules::trust::Trusted;
use crate::run::runner::servers::{self, ServerOptions, ServerSelection};
use crate::run::runner::{Runner, RunnerOptions};
use crate::sandbox::{Demand, own_executable};
use crate::settings::{self, Environment, Settings};
use crate::tools::Toolbox;
use crate::tools::mcp::oauth::{Tokens, WAIT};
use crate::tools::mcp::pins::Pins;
use crate::tools::mcp::{Config, Connect, Servers};

/// The section of the settings.
const SECTION: &str = "mcpServers";

pub(super) async fn run(
    verb: &McpVerb,
    environment: &Environment,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    match verb {
        McpVerb::Add { words } => match AddArgs::read(words) {
            Ok(add) => self::add(&add, environment, out),
            Err(help) if !help.use_stderr() => print(out, &help.to_string()),
            Err(wrong) => {
                let text = wrong.to_string();
                Err(McpError::Flags(text.trim().trim_start_matches("error: ").to_owned()).into())
            }
        },
        McpVerb::List(arguments) => list(arguments, environment, out, err).await,
        McpVerb::Remove { name, scope, workspace } => remove(name, *scope, workspace, environment, out),
        McpVerb::Auth { name, scope, workspace } => {
            let scopes: Vec<String> = scope.iter().filter(|scope| !scope.is_empty()).cloned().collect();
            auth(name.as_deref(), &scopes, workspace, environment, out, err).await
        }
    }
}

fn add(add: &AddArgs, environment: &Environment, out: &mut dyn Write) -> Result<Exit, Failure> {
    let (file, shown) = settings_file(add.scope, &add.workspace, environment)?;
    let text = read(&file, &shown)?;
    let known = text.contains(&add.name)
        && jsonc::parse(&shown, &text)
            .is_ok_and(|node| node.value.value().get(SECTION).is_some_and(|servers| servers.get(&add.name).is_some()));
    let edited = jsonc::set(&shown, &text, SECTION, &add.name, &add.server()).map_err(McpError::Broken)?;
    write(&file, &shown, &edited)?;
    let what = if known { "updated in" } else { "added to" };
    let kind = match add.transport() {
        crate::cli::mcp::Transport::Stdio => "stdio",
        crate::cli::mcp::Transport::Sse => "sse",
        crate::cli::mcp::Transport::Http => "http",
    };
    let mut text = format!("MCP server \"{}\" {what} {} settings. ({kind})\n", one_line(&add.name), add.scope.name());
    if add.scope == Scope::Project {
        text.push_str(
            "It starts once the checkout is trusted: run `qwen policy trust`, or set QWEN_TRUST_CHECKOUT=1. `-s \
             user` adds a server to your own settings, which need no trust.\n",
        );
    }
    if add.trust && add.scope == Scope::Project {
        text.push_str(
            "Note: `trust` has no effect in a project's settings; set it in your own settings or in the policy.\n",
        );
    }
    print(out, &text)
}

fn remove(
    name: &str,
    scope: Scope,
    workspace: &WorkspaceArgs,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let (file, shown) = settings_file(scope, workspace, environment)?;
    let text = read(&file, &shown)?;
    match jsonc::remove(&shown, &text, SECTION, name).map_err(McpError::Broken)? {
        Some(edited) => {
            write(&file, &shown, &edited)?;
            print(out, &format!("Server \"{}\" removed from {} settings.\n", one_line(name), scope.name()))
        }
        None => {
            print(out, &format!("Server \"{}\" not found in {} settings.\n", one_line(&brief(name)), scope.name()))?;
            Ok(Exit::Failed)
        }
    }
}

/// Returns the file of a scope, and its name for messages.
fn settings_file(
    scope: Scope,
    workspace: &WorkspaceArgs,
    environment: &Environment,
) -> Result<(PathBuf, String), Failure> {
    match scope {
        Scope::User => match &environment.home {
            Some(home) => Ok((home.join(".qwen/settings.json"), "~/.qwen/settings.json".to_owned())),
            None => Err(McpError::NoHome.into()),
        },
        Scope::Project => {
            let place = Place::open(workspace.cd.as_deref(), environment)?;
            let shown = ".qwen/settings.json".to_owned();
            match place_in(place.top(), &place.top().join(&shown)) {
                Ok(file) => Ok((file, shown)),
                Err(cause) => Err(McpError::Unwritable { path: shown, cause }.into()),
            }
        }
    }
}

fn read(file: &Path, shown: &str) -> Result<String, McpError> {
    match bounded::optional(bounded::regular_text(file, bounded::CONFIG)) {
        Ok(text) => Ok(text.unwrap_or_default()),
        Err(cause) => Err(McpError::Unreadable { path: shown.to_owned(), cause }),
    }
}

fn write(file: &Path, shown: &str, text: &str) -> Result<(), McpError> {
    private_file::replace(file, text.as_bytes(), None)
        .map_err(|cause| McpError::Unwritable { path: shown.to_owned(), cause })
}

/// The settings that count here, and the servers in them.
pub(super) struct Found {
    chosen: ServerSelection,
    pub(super) settings: Settings,
    pub(super) environment: Environment,
    pub(super) trusted: Trusted,
}

/// Reads the settings.
pub(super) fn find(place: &Place, environment: &Environment) -> Result<Found, Failure> {
    let trusted = place.trusted(environment)?;
    let request = place.settings_request(&trusted)?;
    let loaded = settings::load(&request, environment).map_err(McpError::Settings)?;
    let mut chosen = servers::choose(&loaded.settings, ServerOptions::default(), &loaded.environment)?;
    trusted.require_same(place.top(), place.workspace.root(), &loaded.environment, &chosen.started())?;
    let about = loaded.warnings.into_iter().filter(|warning| warning.to_lowercase().contains("mcp"));
    chosen.warnings.splice(0..0, about);
    Ok(Found { chosen, settings: loaded.settings, environment: loaded.environment, trusted })
}

async fn list(
    arguments: &ListArgs,
    environment: &Environment,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    let place = Place::open(arguments.workspace.cd.as_deref(), environment)?;
    let Found { mut chosen, environment, .. } = find(&place, environment)?;
    for config in &mut chosen.configs {
        // What is required is for a run to decide; here all of them are listed.
        config.required = false;
    }
    let policy = policy(&place, None, false, &environment)?;
    let runner = runner(&place, &policy.policy, &environment)?;
    let pins = pinned(&place, &policy, &chosen, &environment)?;
    if arguments.verbose {
        let names: Vec<String> = chosen.configs.iter().map(|config| one_line(&config.name)).collect();
        let _closed = writeln!(err, "connecting: {}", names.join(", "));
    }
    let started = servers::start(&chosen, pins, &runner, None, environment.home.as_deref(), &mut Vec::new()).await;
    let (servers, _) = started?;
    let trust: Vec<ToolEntry> = chosen.names().iter().map(|name| ToolEntry::server(name, "mcp")).collect();
    let waiting =
        servers::waiting(&servers, &policy.policy, &policy.policy.allowing(&trust), &place.facts(&environment));
    let secrets = secrets_of(&policy.policy, &environment)?;
    let rows: Vec<Value> = rows(&chosen, &servers).iter().map(|row| hidden(row, &secrets)).collect();
    servers.close().await;
    runner.end().await;
    warn(&chosen.warnings, err);
    warn(&waiting, err);
    if arguments.pins {
        return print(out, &(to_pretty(&pins_of(&servers)) + "\n"));
    }
    if arguments.json {
        return print(out, &(to_pretty(&Value::Array(rows)) + "\n"));
    }
    if rows.is_empty() {
        return print(out, "No MCP servers configured.\n");
    }
    let text: String = rows.iter().map(|row| shown(row, arguments.verbose)).collect();
    print(out, &text)
}

/// Returns everything that is known of each server, in the order of the settings.
fn rows(chosen: &ServerSelection, servers: &Servers) -> Vec<Value> {
    let broken = chosen
        .broken
        .iter()
        .map(|(name, why)| json!({"name": name, "status": "failed", "transport": null, "target": "", "error": why}));
    let live = servers.servers().iter().zip(servers.states()).map(|(server, state)| {
        let (config, listing) = (server.config(), server.listing());
        let folder = match &config.connect {
            Connect::Stdio(program) => program.cwd.as_ref().map(|cwd| cwd.display().to_string()),
            Connect::Http(_) | Connect::Sse(_) => None,
        };
        json!({
            "name": config.name,
            "status": state.status(),
            "transport": state.transport,
            "target": config.connect.describe(),
            "description": config.description,
            "origin": config.origin.to_string(),
            "cwd": folder,
            "timeout": time(config.timeout),
            "trust": config.trust,
            "tools": listing.tools.iter().map(|tool| json!({
                "name": tool.name, "description": tool.description, "sha256": tool.hash,
            })).collect::<Vec<_>>(),
            "prompts": listing.prompts.iter().map(|prompt| json!({
                "name": prompt.name, "description": prompt.description,
                "arguments": prompt.arguments.iter().map(|(name, _)| name).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
            "resources": listing.resources.iter().map(|(uri, name)| json!({"uri": uri, "name": name})).collect::<Vec<_>>(),
            "notes": state.notes,
            "error": state.error,
            "stderr": state.stderr,
        })
    });
    broken.chain(live).collect()
}

fn shown(row: &Value, verbose: bool) -> String {
    let text = |key: &str| one_line(row[key].as_str().unwrap_or_default());
    let (mark, state) = if row["status"] == "connected" { ("✓", "Connected") } else { ("✗", "Disconnected") };
    let how = match row["transport"].as_str() {
        Some(transport) => format!("{} ({transport})", text("target")),
        None => "its settings cannot be used".to_owned(),
    };
    let mut lines = format!("{mark} {}: {how} - {state}\n", text("name"));
    if row["status"] != "connected" {
        lines.push_str(&format!("    {}: {}\n", text("status"), text("error")));
        for line in row["stderr"].as_array().into_iter().flatten() {
            lines.push_str(&format!("    standard error: {}\n", one_line(line.as_str().unwrap_or_default())));
        }
    }
    if !verbose {
        return lines;
    }
    let mut line = |name: &str, value: String| {
        if !value.is_empty() {
            lines.push_str(&format!("    {name}: {value}\n"));
        }
    };
    line("description", text("description"));
    line("from", text("origin"));
    line("folder", text("cwd"));
    line("time-out", text("timeout"));
    for note in row["notes"].as_array().into_iter().flatten() {
        line("note", one_line(note.as_str().unwrap_or_default()));
    }
    for (key, name) in [("tools", "tool"), ("prompts", "prompt"), ("resources", "resource")] {
        for entry in row[key].as_array().into_iter().flatten() {
            let about = entry["description"].as_str().or(entry["name"].as_str()).unwrap_or_default();
            let first = entry["uri"].as_str().or(entry["name"].as_str()).unwrap_or_default();
            let about = about.lines().next().unwrap_or_default();
            line(name, format!("{}  {}", one_line_of(first, 80), one_line_of(about, 100)));
        }
    }
    lines
}

fn pins_of(servers: &Servers) -> Value {
    let pins = servers.servers().iter().map(|server| {
        let tools: Map<String, Value> =
            server.listing().tools.into_iter().map(|tool| (tool.name, tool.hash.into())).collect();
        (server.config().name.clone(), Value::Object(tools))
    });
    Value::Object(pins.filter(|(_, tools)| tools.as_object().is_some_and(|tools| !tools.is_empty())).collect())
}

/// Prepares what starts programs.
pub(super) fn runner(
    place: &Place,
    policy: &crate::policy::Policy,
    environment: &Environment,
) -> Result<Runner, CommandError> {
    Runner::new(RunnerOptions {
        workspace: Arc::clone(&place.workspace),
        checkout: place.checkout.clone(),
        policy: policy.clone(),
        facts: place.facts(environment),
        demand: Demand::Auto,
        environment: environment.for_programs(),
        helper: own_executable(),
        ignored_outputs: false,
    })
    .map_err(CommandError::Temporary)
}

/// Returns the policy that a run here would have, with the lists of the settings and the servers that the user trusts.
pub(super) fn policy(
    place: &Place,
    named: Option<&str>,
    delivers: bool,
    environment: &Environment,
) -> Result<policy_layers::PolicySelection, Failure> {
    let found = find(place, environment)?;
    let servers = found.chosen.names();
    let context = EntryContext {
        servers: &servers,
        workspace: place.workspace.root(),
        included: &[],
        home: environment.home.as_deref(),
    };
    let mut lists = tool_lists::of(&RunArgs::default(), &found.settings, context)?;
    lists.allowed.extend(found.chosen.trusted());
    place.policy_with(&lists, named, delivers, environment)
}

/// Returns the servers with the tools that the policy pins.
fn pinned(
    place: &Place,
    policy: &policy_layers::PolicySelection,
    chosen: &ServerSelection,
    environment: &Environment,
) -> Result<Vec<(Config, Pins)>, Failure> {
    let trusted = (&place.trusted(environment)?, place.top());
    Ok(servers::with_pins(chosen.configs.clone(), &policy.policy, &policy.folder, trusted)?)
}

/// Starts the servers of the settings; what is wrong with one of them is a warning.
pub(super) async fn start(
    place: &Place,
    policy: &policy_layers::PolicySelection,
    runner: &Runner,
    environment: &Environment,
    err: &mut dyn Write,
) -> Result<Servers, Failure> {
    let Found { chosen, environment, .. } = find(place, environment)?;
    let pins = pinned(place, policy, &chosen, &environment)?;
    let mut warnings = chosen.warnings.clone();
    let (servers, _) = servers::start(&chosen, pins, runner, None, environment.home.as_deref(), &mut warnings).await?;
    warn(&warnings, err);
    Ok(servers)
}

/// Adds the tools of servers that the policy does not deny.
pub(super) fn register(
    servers: &Servers,
    registry: &mut Toolbox,
    place: &Place,
    policy: &crate::policy::Policy,
    environment: &Environment,
    err: &mut dyn Write,
) {
    let facts = place.facts(environment);
    let allows = |access: &Access| policy.authorize("mcp", std::slice::from_ref(access), &facts).1.is_some();
    warn(&servers.register(registry, &allows), err);
}

/// Prints warnings.
pub(super) fn warn(warnings: &[String], err: &mut dyn Write) {
    for warning in warnings {
        let _closed = writeln!(err, "warning: {}", one_line(warning));
    }
}

async fn auth(
    name: Option<&str>,
    scopes: &[String],
    workspace: &WorkspaceArgs,
    environment: &Environment,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    let place = Place::open(workspace.cd.as_deref(), environment)?;
    let Found { chosen, environment, .. } = find(&place, environment)?;
    let tokens = Tokens::of_home(environment.home.as_deref());
    let web = |config: &crate::tools::mcp::Config| match &config.connect {
        Connect::Http(web) | Connect::Sse(web) => Some(web.clone()),
        Connect::Stdio(_) => None,
    };
    let Some(name) = name else {
        let mut text = String::new();
        for (config, web) in chosen.configs.iter().filter_map(|config| Some((config, web(config)?))) {
            let state = if tokens.has(&config.name, &web.url) { "has a token" } else { "has no token" };
            text.push_str(&format!("{}: {} - {state}\n", one_line(&config.name), config.connect.describe()));
        }
        if text.is_empty() {
            text.push_str("No MCP server on the network is configured.\n");
        }
        return print(out, &text);
    };
    warn(&chosen.warnings, err);
    let found = chosen.configs.iter().find(|config| config.name == name);
    let config = found.ok_or_else(|| ServerError::Unknown(name.to_owned()))?;
    let web = web(config).ok_or_else(|| ServerError::NoToken(name.to_owned()))?;
    let waiting = tokens.begin(name, &web, scopes).await.map_err(ServerError::SignIn)?;
    print(
        out,
        &format!("Open this address in a browser:\n\n  {}\n\nWaiting for it to come back …\n", waiting.address()),
    )?;
    waiting.finish(WAIT).await.map_err(ServerError::SignIn)?;
    print(out, &format!("Signed in to {}.\n", one_line(name)))
}
