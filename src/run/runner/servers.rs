//! Selects the MCP servers of a run, and starts their programs inside the sandbox.

use std::path::Path;
use std::sync::Arc;

use crate::base::document::jsonc;
use crate::base::trace::Trace;

use serde_json::Value;

use crate::agent::invoke::Renewal;
use crate::bounded;
use crate::model::BoxFuture;
use crate::policy::lists::ToolEntry;
use crate::policy::mcp::matches;
use crate::policy::{Access, Facts, Policy};
use crate::settings::layers::interpolate;
use crate::settings::{Environment, Origin, Settings, Valued};
use crate::tools::Toolbox;
use crate::tools::mcp::command_line::split_command;
use crate::tools::mcp::oauth::Tokens;
use crate::tools::mcp::pins::Pins;
use crate::tools::mcp::{Config, Connect, Options, Servers};

use crate::run::error::Failure;
use crate::run::error::ServerError;
use crate::run::rules::started::{Started, What};
use crate::run::rules::trust::Trusted;
use crate::run::runner::Runner;
use crate::run::runner::launcher::SandboxLauncher;

/// The name of the server of `mcp.serverCommand`.
const COMMAND_NAME: &str = "mcp";

/// The flags about servers.
#[derive(Debug, Clone, Copy, Default)]
pub struct ServerOptions<'a> {
    /// `--mcp-config`.
    pub configs: &'a [String],
    /// `--allowed-mcp-server-names`.
    pub allowed: &'a [String],
    /// Whose files are trusted, and below which directory: a file of a checkout under review is read from the trusted
    /// commit. `None` reads every file from the disk.
    pub trusted: Option<(&'a Trusted, &'a Path)>,
}

/// The servers to start, and messages about the others.
#[derive(Debug, Clone, Default)]
pub struct ServerSelection {
    /// The servers to start, in the order of the settings.
    pub configs: Vec<Config>,
    /// Invalid descriptions: the name, and what to correct. A required server with one is an error already.
    pub broken: Vec<(String, String)>,
    /// Warnings.
    pub warnings: Vec<String>,
}

impl ServerSelection {
    /// Returns what the user adds to a built-in policy: the trusted servers.
    pub fn trusted(&self) -> impl Iterator<Item = ToolEntry> {
        let trusted = self.configs.iter().filter(|config| config.trust);
        trusted.map(|config| ToolEntry::server(&config.name, &format!("mcpServers.{}.trust", config.name)))
    }

    /// Returns the names of all servers, including those that cannot be started.
    pub fn names(&self) -> Vec<String> {
        let broken = self.broken.iter().map(|(name, _)| name);
        self.configs.iter().map(|config| &config.name).chain(broken).cloned().collect()
    }

    /// Returns what starts the programs of servers.
    pub fn started(&self) -> Vec<Started> {
        let mut found = Vec::new();
        for config in &self.configs {
            let Connect::Stdio(program) = &config.connect else { continue };
            let words: Vec<String> = std::iter::once(&program.command).chain(&program.args).cloned().collect();
            let variables = program.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
            let name = format!("the MCP server {}", config.name);
            found.push(Started { name, what: What::Words { words, variables, directory: program.cwd.clone() } });
        }
        found
    }
}

/// Selects the servers of the settings and flags. Nothing is started.
pub fn choose(
    settings: &Settings,
    wishes: ServerOptions<'_>,
    environment: &Environment,
) -> Result<ServerSelection, Failure> {
    let mut chosen = ServerSelection::default();
    let mut named: Vec<(String, Valued<Value>)> = settings.mcp.servers.clone();
    if let Some(command) = &settings.mcp.server_command {
        let words = split_command(&command.value)
            .map_err(|why| ServerError::Command { origin: command.origin.clone(), why })?;
        let server = serde_json::json!({"command": words[0], "args": words[1..]});
        named.push((COMMAND_NAME.to_owned(), Valued::new(server, command.origin.clone())));
    }
    for text in wishes.configs {
        for (name, server) in of_flag(text, wishes.trusted, environment, &mut chosen.warnings)? {
            match named.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) => *known = server,
                None => named.push((name, server)),
            }
        }
    }
    for wanted in wishes.allowed {
        if !named.iter().any(|(name, _)| name == wanted) {
            chosen.warnings.push(format!("--allowed-mcp-server-names: unknown server `{wanted}`"));
        }
    }
    // `*` in the settings' lists matches any letters; excluding ignores case.
    let passes = |name: &String| {
        (wishes.allowed.is_empty() || wishes.allowed.contains(name))
            && settings.mcp.allowed.iter().all(|list| list.value.iter().any(|pattern| matches(pattern, name)))
            && !settings
                .mcp
                .excluded
                .iter()
                .any(|excluded| matches(&excluded.value.to_lowercase(), &name.to_lowercase()))
    };
    for (name, value) in named.into_iter().filter(|(name, _)| passes(name)) {
        let required = value.value.get("required") == Some(&Value::Bool(true));
        match Config::parse(&name, &value) {
            Ok((config, warnings)) => {
                chosen.warnings.extend(warnings);
                chosen.configs.push(config);
            }
            Err(problem) if required => {
                let why = format!("{}: {problem}", value.origin);
                return Err(ServerError::Required { name, why }.into());
            }
            Err(problem) => chosen.broken.push((name, format!("{}: {problem}", value.origin))),
        }
    }
    Ok(chosen)
}

/// Reads one `--mcp-config`: JSON, or a file of it; with `mcpServers` around the servers or without.
fn of_flag(
    text: &str,
    trusted: Option<(&Trusted, &Path)>,
    environment: &Environment,
    warnings: &mut Vec<String>,
) -> Result<Vec<(String, Valued<Value>)>, ServerError> {
    let (body, shown) = if text.trim_start().starts_with('{') {
        (text.to_owned(), None)
    } else {
        let path = environment.cwd.join(text);
        let body = match trusted {
            Some((trusted, top)) => trusted.named_text(top, &path),
            None => bounded::named_text(&path, bounded::CONFIG).map_err(|error| error.to_string()),
        };
        let body = body.map_err(|error| ServerError::Flag(format!("{text}: {error}")))?;
        (body, Some(text))
    };
    let node = jsonc::parse(shown.unwrap_or_default(), &body).map_err(|error| ServerError::Flag(error.to_string()))?;
    let mut value = node.value.value();
    if let Some(servers) = value.get_mut("mcpServers").map(Value::take) {
        value = servers;
    }
    let Value::Object(servers) = &mut value else {
        return Err(ServerError::Flag(format!("the servers must be an object, not {}", jsonc::kind(&value))));
    };
    let origin = Origin::Flag("--mcp-config".to_owned());
    let mut named = Vec::new();
    for (name, server) in servers.iter_mut() {
        let mut unset = Vec::new();
        let mut server = server.take();
        interpolate(&mut server, &|variable| environment.value(variable), &mut unset);
        warnings.extend(
            unset.into_iter().map(|variable| format!("--mcp-config: {name}: the variable {variable} is not set")),
        );
        named.push((name.clone(), Valued::new(server, origin.clone())));
    }
    Ok(named)
}

/// Reads the pins of each server. A file of pins that cannot be read is an error: without it nothing can be compared.
pub fn with_pins(
    configs: Vec<Config>,
    policy: &Policy,
    folder: &Path,
    (trusted, top): (&Trusted, &Path),
) -> Result<Vec<(Config, Pins)>, ServerError> {
    configs
        .into_iter()
        .map(|config| {
            let Some(file) = policy.mcp_pins(&config.name) else { return Ok((config, Pins::default())) };
            let path = folder.join(&file);
            let pins = trusted
                .read_named(top, &path)
                .and_then(|bytes| bytes.ok_or_else(|| "it does not exist".to_owned()))
                .and_then(|bytes| String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned()))
                .and_then(|text| Pins::parse(&text, &config.name));
            match pins {
                Ok(pins) => Ok((config, pins)),
                Err(why) => Err(ServerError::Pins { path: path.display().to_string(), name: config.name, why }),
            }
        })
        .collect()
}

/// Applies changes of servers' tools to a running conversation.
pub struct Renewing<'a> {
    /// The servers.
    pub servers: &'a Servers,
    /// Decides about their tools.
    pub policy: &'a Policy,
    /// What it needs to know.
    pub facts: Facts,
}

impl Renewal for Renewing<'_> {
    fn renewed<'a>(&'a self, registry: &'a Toolbox) -> BoxFuture<'a, Option<Toolbox>> {
        Box::pin(async move {
            let allows =
                |access: &Access| self.policy.authorize("mcp", std::slice::from_ref(access), &self.facts).1.is_some();
            self.servers.renew(registry, &allows).await
        })
    }
}

/// Returns a warning for each server whose tools lack the user's approval: `allowable` is the policy with it.
pub fn waiting(servers: &Servers, policy: &Policy, allowable: &Policy, facts: &Facts) -> Vec<String> {
    let is_waiting = |access: &Access| {
        let allows = |policy: &Policy| policy.authorize("mcp", std::slice::from_ref(access), facts).1.is_some();
        !allows(policy) && allows(allowable)
    };
    let warning = |(name, accesses): (String, Vec<Access>)| {
        let waiting = accesses.iter().filter(|access| is_waiting(access)).count();
        let of = accesses.len();
        (waiting > 0).then(|| {
            format!(
                "MCP server {name}: {waiting} of its {of} tools are denied: allow them with --allowed-tools \
                 'mcp__{name}', or `\"trust\": true` for it in your own settings"
            )
        })
    };
    servers.accesses().into_iter().filter_map(warning).collect()
}

/// Tells a server on the network of the run's own span; a call names its own.
fn tell(config: &mut Config, trace: &Trace) {
    if let Connect::Http(web) | Connect::Sse(web) = &mut config.connect {
        let context = trace.context_of_run();
        web.headers.extend(context.headers().map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}

/// Prepares a launcher for the servers of a run. The error says why their programs get no command workspace.
async fn launcher(configs: &[(Config, Pins)], runner: &Runner) -> Result<SandboxLauncher, String> {
    let programs: Vec<&Config> = configs.iter().map(|(config, _)| config).filter(|c| c.is_program()).collect();
    match runner.place_for_servers(&programs).await {
        Ok(place) => Ok(SandboxLauncher::new(place)),
        Err(error) => Err(error.message),
    }
}

/// Starts the servers and reports the result; a required one that is unavailable ends the run.
pub async fn start(
    chosen: &ServerSelection,
    mut pins: Vec<(Config, Pins)>,
    runner: &Runner,
    trace: Option<&Trace>,
    home: Option<&Path>,
    warnings: &mut Vec<String>,
) -> Result<(Servers, Vec<Value>), Failure> {
    let mut listed: Vec<Value> = Vec::new();
    for (name, problem) in &chosen.broken {
        warnings.push(format!("MCP server {name}: not started: {problem}"));
        listed.push(serde_json::json!({"name": name, "status": "failed", "error": problem}));
    }
    if pins.is_empty() {
        return Ok((Servers::default(), listed));
    }
    if let Some(trace) = trace {
        pins.iter_mut().for_each(|(config, _)| tell(config, trace));
    }
    let (launcher, pins) = match launcher(&pins, runner).await {
        Ok(launcher) => (launcher, pins),
        Err(problem) => {
            // Servers on the network need no tree.
            let (programs, others): (Vec<_>, Vec<_>) = pins.into_iter().partition(|(config, _)| config.is_program());
            for (config, _) in programs {
                if config.required {
                    return Err(ServerError::Required { name: config.name, why: problem }.into());
                }
                warnings.push(format!("MCP server {}: not started: {problem}", config.name));
                listed.push(serde_json::json!({"name": config.name, "status": "failed", "error": problem}));
            }
            let found = launcher(&others, runner).await;
            (found.map_err(ServerError::NoTree)?, others)
        }
    };
    let root = launcher.root();
    let options =
        Options { configs: pins, launcher: Arc::new(launcher.tracing(trace)), tokens: Tokens::of_home(home), root };
    let servers = Servers::start(options).await;
    let mut missing = None;
    for state in servers.states() {
        listed.push(state.value());
        warnings.extend(state.notes.iter().map(|note| format!("MCP server {}: {note}", state.name)));
        if let Some(error) = &state.error {
            if state.required {
                missing
                    .get_or_insert_with(|| ServerError::Required { name: state.name.clone(), why: error.to_string() });
            } else {
                warnings.push(format!("MCP server {}: {error}", state.name));
            }
        }
    }
    match missing {
        Some(failure) => {
            servers.close().await;
            Err(failure.into())
        }
        None => Ok((servers, listed)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::exit::Exit;
    use crate::settings::sections::McpSettings;

    fn settings(servers: Value) -> Settings {
        let origin = Origin::File { path: "~/.qwen/settings.json".into(), line: 1, column: 1 };
        let entries = servers.as_object().unwrap().iter();
        let servers = entries.map(|(name, value)| (name.clone(), Valued::new(value.clone(), origin.clone()))).collect();
        Settings { mcp: McpSettings { servers, ..Default::default() }, ..Default::default() }
    }

    fn names(chosen: &ServerSelection) -> Vec<&str> {
        chosen.configs.iter().map(|config| config.name.as_str()).collect()
    }

    #[test]
    fn lists_only_take_away_and_a_flag_adds_or_replaces() {
        let mut settings = settings(json!({"a": {"command": "a"}, "b": {"command": "b"}, "c": {"command": "c"}}));
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        settings.mcp.allowed = vec![Valued::new(list(&["a", "b", "d"]), Origin::Default)];
        settings.mcp.excluded = vec![Valued::new("b".into(), Origin::Default)];
        let flags = [r#"{"mcpServers": {"d": {"command": "d"}, "a": {"httpUrl": "http://a/"}}}"#.to_owned()];
        let wishes = ServerOptions { configs: &flags, allowed: &[], ..ServerOptions::default() };
        let chosen = choose(&settings, wishes, &Environment::default()).unwrap();
        assert_eq!(names(&chosen), ["a", "d"]);
        assert_eq!(chosen.configs[0].connect.transport(), "http");
        let wishes = ServerOptions { configs: &flags, allowed: &list(&["d", "x"]), ..ServerOptions::default() };
        let chosen = choose(&settings, wishes, &Environment::default()).unwrap();
        assert_eq!(names(&chosen), ["d"]);
        assert_eq!(chosen.warnings, ["--allowed-mcp-server-names: unknown server `x`"]);
    }

    #[test]
    fn a_star_in_the_lists_of_servers_stands_for_any_letters() {
        let mut settings =
            settings(json!({"git-a": {"command": "a"}, "git-b": {"command": "b"}, "c": {"command": "c"}}));
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let chosen = |settings: &Settings| {
            names(&choose(settings, ServerOptions::default(), &Environment::default()).unwrap()).join(" ")
        };
        settings.mcp.allowed = vec![Valued::new(list(&["*"]), Origin::Default)];
        assert_eq!(chosen(&settings), "git-a git-b c");
        settings.mcp.allowed = vec![Valued::new(list(&["git-*"]), Origin::Default)];
        assert_eq!(chosen(&settings), "git-a git-b");
        settings.mcp.excluded = vec![Valued::new("*-B".into(), Origin::Default)];
        assert_eq!(chosen(&settings), "git-a");
    }

    #[test]
    fn one_command_is_one_server() {
        let server_command = Some(Valued::new("node 'my server.js' -v".into(), Origin::Default));
        let settings = Settings { mcp: McpSettings { server_command, ..Default::default() }, ..Default::default() };
        let chosen = choose(&settings, ServerOptions::default(), &Environment::default()).unwrap();
        let Connect::Stdio(program) = &chosen.configs[0].connect else { panic!("a program") };
        assert_eq!((program.command.as_str(), program.args.join("|").as_str()), ("node", "my server.js|-v"));
    }

    #[test]
    fn a_description_that_is_no_good_is_named_and_fatal_only_where_it_is_required() {
        let chosen = choose(&settings(json!({"a": {}})), ServerOptions::default(), &Environment::default()).unwrap();
        assert_eq!(chosen.broken[0].1, "~/.qwen/settings.json:1:1: mcpServers.a has none of httpUrl, url and command");
        let required = settings(json!({"a": {"required": true}}));
        let failure = choose(&required, ServerOptions::default(), &Environment::default()).unwrap_err();
        assert_eq!(failure.exit, Exit::Config);
        for flag in ["{", "[]", "/no/such/file"] {
            let wishes = ServerOptions { configs: &[flag.to_owned()], allowed: &[], ..ServerOptions::default() };
            assert_eq!(choose(&Settings::default(), wishes, &Environment::default()).unwrap_err().exit, Exit::Config);
        }
    }

    #[test]
    fn a_variable_in_a_flag_is_put_in_and_an_unset_one_named() {
        let environment =
            Environment { variables: [("KEY".to_owned(), "k".to_owned())].into(), ..Environment::default() };
        let flag = [r#"{"a": {"command": "x", "args": ["$KEY", "$gone"], "env": {"A": "${KEY}"}}}"#.to_owned()];
        let chosen = choose(
            &Settings::default(),
            ServerOptions { configs: &flag, allowed: &[], ..ServerOptions::default() },
            &environment,
        )
        .unwrap();
        let Connect::Stdio(program) = &chosen.configs[0].connect else { panic!("a program") };
        assert_eq!((program.args[0].as_str(), program.env["A"].as_str()), ("k", "k"));
        assert_eq!(chosen.warnings, ["--mcp-config: a: the variable gone is not set"]);
    }
}
