//! Runs `qwen doctor` and `qwen sandbox doctor`: what applies here and where it comes from. Asks no model.

use std::borrow::Cow;
use std::io::Write;

use super::console::{appearance, print};
use super::error::CommandError;
use crate::base::CliError as _;
use crate::cli::doctor::{DoctorArgs, Fact, Facts, Seen};
use crate::cli::sandbox::SandboxVerb;
use crate::emit::{Mark, to_pretty, words};
use crate::exit::Exit;
use crate::model;
use crate::run::Failure;
use crate::run::place::{self, Place};
use crate::run::prompt::context::{self, ContextSources};
use crate::run::prompt::slash_command::Commands;
use crate::run::rules::trust::Trusted;
use crate::run::runner::servers;
use crate::run::stages::server_memory;
use crate::run::stages::telemetry::of_settings;
use crate::sandbox::doctor::{diagnose, means};
use crate::sandbox::{Tier, own_executable};
use crate::settings::keys::{self, Endpoint, EndpointOptions, ModelChoice};
use crate::settings::{self, Environment, Loaded, Settings, providers};
use crate::telemetry::{self, Config, Wishes};
use crate::tool_name::ToolId;
use crate::workspace::temporary::Temporary;

pub(super) fn run(arguments: &DoctorArgs, environment: &Environment, out: &mut dyn Write) -> Result<Exit, Failure> {
    let place = Place::open(arguments.workspace.cd.as_deref(), environment)?;
    let facts = Facts {
        version: env!("CARGO_PKG_VERSION").into(),
        workspace: place.workspace.root().display().to_string(),
        ..Facts::default()
    };
    let mut seen = Examination { place: &place, environment, facts, exit: Exit::Ok };
    let trusted = seen.trusted();
    let settings = seen.settings(trusted.as_ref())?;
    // Without knowing what is trusted there is no policy; it was said above.
    if let Some(trusted) = &trusted {
        seen.policy(trusted, &settings)?;
    }
    seen.repository();
    seen.sandbox();
    let Examination { facts, exit, .. } = seen;
    let details = if arguments.verbose { facts.details() + "\n" } else { String::new() };
    let text = if arguments.json { facts.json() } else { details + &facts.text(&appearance(environment), exit) };
    print(out, &text)?;
    Ok(exit)
}

/// What was looked at so far, and the exit code that it means.
struct Examination<'a> {
    place: &'a Place,
    environment: &'a Environment,
    facts: Facts,
    exit: Exit,
}

impl Examination<'_> {
    fn problem(&mut self, name: &'static str, message: String, hint: Option<String>, exit: Exit) {
        self.see(Seen { hint: hint.unwrap_or_default(), ..Seen::new(Mark::Bad, name, &message) });
        self.facts.problems.push(message);
        self.exit = self.exit.or_worse(exit);
    }

    fn see(&mut self, seen: Seen) {
        self.facts.seen.push(seen);
    }

    fn trusted(&mut self) -> Option<Trusted> {
        match self.place.trusted(self.environment) {
            Ok(trusted) => {
                self.facts.policy.push(Fact::new("trusted", trusted.describe()));
                Some(trusted)
            }
            Err(failure) => {
                self.problem("trust", failure.error.message, failure.error.hint, failure.exit);
                None
            }
        }
    }

    fn settings(&mut self, trusted: Option<&Trusted>) -> Result<Settings, Failure> {
        let request = match trusted {
            Some(trusted) => self.place.settings_request(trusted)?,
            None => settings::load::Request {
                project_root: self.place.top().to_path_buf(),
                around: self.place.checkout.around.clone(),
                ..settings::load::Request::default()
            },
        };
        let loaded = match settings::load(&request, self.environment) {
            Ok(loaded) => loaded,
            Err(error) => {
                self.problem("settings", error.to_string(), None, Exit::Config);
                return Ok(Settings::default());
            }
        };
        self.facts.settings_files = loaded.files.clone();
        self.facts.warnings.extend(loaded.warnings.iter().cloned());
        self.facts.add_settings(&loaded.settings);
        if let Err(error) = place::included(&[], &loaded.settings, self.environment) {
            let hint = error.hint().map(Cow::into_owned);
            self.problem("settings", error.to_string(), hint, error.exit());
        }
        self.tools(&loaded);
        self.telemetry(&loaded.settings);
        let settings = providers::applied(&loaded.settings, &loaded.environment, &EndpointOptions::default());
        let endpoint = |offline| {
            let options = EndpointOptions { offline, ..EndpointOptions::default() };
            settings.clone().and_then(|settings| keys::resolve(&options, &loaded.environment, &settings))
        };
        let (endpoint, open) = (endpoint(false), endpoint(true));
        if let Err(error) = &endpoint {
            self.exit = self.exit.or_worse(error.exit);
        }
        self.facts.add_endpoint(&endpoint);
        self.facts.see_endpoint(&endpoint, &open);
        if let Ok(open) = &open {
            self.learned(open);
        }
        Ok(loaded.settings)
    }

    /// Shows what earlier runs found out about the server.
    fn learned(&mut self, endpoint: &Endpoint) {
        let Some(cache) = self.place.cache(self.environment) else { return };
        let Ok(server) = model::endpoint::Endpoint::parse(endpoint.base_url.value.as_str()) else { return };
        let (servers, now) = (server_memory::read(&cache), server_memory::now());
        for entry in servers.at(&server.to_string(), now) {
            if matches!(&endpoint.model, ModelChoice::Named(name) if name.value != entry.model) {
                continue;
            }
            let hours = u64::try_from((now - entry.time) / 3600).unwrap_or_default();
            let age = if hours < 48 { words::count(hours, "hour") } else { words::count(hours / 24, "day") };
            let text = format!("{} ({}, {age} ago)", entry.learned.in_words(), entry.model);
            self.facts.endpoint.push(Fact::new("learned", &text).from(cache.join("servers.json").display()));
            self.see(Seen::new(Mark::Note, "learned", text));
        }
    }

    fn tools(&mut self, loaded: &Loaded) {
        match servers::choose(&loaded.settings, Default::default(), &loaded.environment) {
            Ok(chosen) => {
                self.facts.tools.extend(chosen.configs.iter().map(|config| {
                    let about = format!("{} ({})", config.connect.describe(), config.connect.transport());
                    Fact::new(format!("MCP server {}", config.name), about).from(&config.origin)
                }));
                self.facts.warnings.extend(chosen.warnings);
                let broken = chosen.broken.into_iter();
                self.facts.warnings.extend(broken.map(|(name, why)| format!("MCP server {name}: {why}")));
            }
            Err(failure) => {
                self.problem("MCP", failure.error.message, failure.error.hint, Exit::Config);
            }
        }
        let (searched, incomplete) =
            crate::tools::web::providers::providers(&loaded.settings.tools.web_search, &loaded.environment);
        let names: Vec<&str> = searched.iter().map(|provider| provider.name()).collect();
        self.facts.tools.push(Fact::new(
            ToolId::WebSearch.name(),
            match names[..] {
                [] => "not offered: no provider (setting `webSearch`, or TAVILY_API_KEY)".to_owned(),
                _ => format!("by {}", names.join(", ")),
            },
        ));
        if names.is_empty() {
            let text = "web search not offered: set TAVILY_API_KEY, or the setting webSearch";
            self.see(Seen::new(Mark::Note, "", text));
        }
        self.facts.warnings.extend(incomplete);
    }

    fn telemetry(&mut self, settings: &Settings) {
        let (wishes, mut warnings) = (of_settings(&settings.telemetry), Vec::new());
        let variables = &self.environment.variables;
        let resolved = Config::resolve(variables, &Wishes::default(), &wishes, false, &mut warnings);
        self.facts.warnings.extend(warnings);
        let config = match resolved {
            Ok(Some(config)) => config,
            Ok(None) => return,
            Err(error) => {
                let hint = "correct it, or leave runs unreported with OTEL_SDK_DISABLED=true".to_owned();
                return self.problem("telemetry", error.to_string(), Some(hint), Exit::Config);
            }
        };
        let places = config.targets.places();
        let contents =
            if config.contents { "with what is said, read and run" } else { "without what is said, read and run" };
        let named: Vec<String> = places.iter().map(|(signal, place)| format!("{signal} to {place}")).collect();
        let text = format!("{}; {contents}", named.join(", "));
        self.see(Seen::new(Mark::Good, "telemetry", text));
        self.facts.telemetry.extend(places.into_iter().map(|(signal, place)| Fact::new(signal, place)));
        self.facts.telemetry.push(Fact::new("contents", contents));
        for (variable, names) in telemetry::headers(variables) {
            let masked: Vec<String> = names.iter().map(|name| format!("{name}=***")).collect();
            self.facts.telemetry.push(Fact::new("headers", masked.join(",")).from(variable));
        }
    }

    fn policy(&mut self, trusted: &Trusted, settings: &Settings) -> Result<(), Failure> {
        let (place, environment) = (self.place, self.environment);
        let chosen = match place.policy(None, false, environment) {
            Ok(chosen) => chosen,
            Err(failure) => {
                self.problem("policy", failure.error.message, failure.error.hint, failure.exit);
                return Ok(());
            }
        };
        let top = place.top();
        let policy = chosen.policy.facts();
        let from = policy.layers.first().map_or("", String::as_str);
        let from = if from.starts_with("builtin:") { "built in" } else { from };
        let note = match (&trusted.tree, trusted.checkout) {
            (None, false) if trusted.why_not.contains("qwen policy trust") => {
                "this checkout's own files are not trusted yet: qwen policy trust".to_owned()
            }
            _ => format!("it reads {}", trusted.describe()),
        };
        self.see(Seen { note, ..Seen::new(Mark::Good, "policy", format!("{}, {from}", policy.name)) });
        self.facts.policy.push(Fact::new("name", policy.name));
        self.facts.policy.push(Fact::new("sha256", policy.sha256));
        self.facts.policy.extend(policy.layers.into_iter().map(|layer| Fact::new("layer", layer)));
        self.facts.warnings.extend(chosen.warnings);
        let (files, warnings) = context::gather(&ContextSources {
            home: environment.home.as_deref(),
            top,
            workspace: place.workspace.root(),
            project: trusted.source(),
            settings,
            policy: &chosen.policy,
        });
        let sizes = files.into_iter().map(|(name, text)| Fact::new("file", format!("{name} ({} bytes)", text.len())));
        self.facts.context.extend(sizes);
        self.facts.warnings.extend(warnings);
        self.facts.warnings.extend(trusted.left_out(top, place.workspace.root(), &context::names(settings))?);
        let commands = Commands::of(environment, top, trusted, &chosen.policy).names();
        self.facts.context.extend(commands.into_iter().map(|name| Fact::new("command", format!("/{name}"))));
        Ok(())
    }

    fn repository(&mut self) {
        let Some(repository) = self.place.repository() else {
            self.see(Seen::new(Mark::Note, "git", "no repository"));
            self.facts.git.push(Fact::new("repository", "none"));
            return;
        };
        let head = repository.head.as_deref().unwrap_or("unborn");
        let branch = repository.branch.as_deref().unwrap_or("detached");
        let state = match repository.is_dirty() {
            Some(false) => ", clean",
            Some(true) => ", with changes",
            None => "",
        };
        let text = format!("{branch} {}{state}", words::commit(head));
        let facts = [("top", repository.top.display().to_string()), ("head", head.into()), ("branch", branch.into())];
        self.facts.git.extend(facts.map(|(name, value)| Fact::new(name, value)));
        self.see(Seen::new(Mark::Good, "git", text));
    }

    fn sandbox(&mut self) {
        let Ok(diagnosis) = own_places().and_then(|(helper, private)| diagnose(&helper, private.path())) else {
            return;
        };
        let how = match diagnosis.tier {
            Tier::T3 => "full",
            Tier::T2 => "good",
            Tier::T1 | Tier::T0 => "none",
        };
        let text = match diagnosis.tier {
            Tier::T0 => "none: only simple reading commands run".to_owned(),
            tier => format!("{how}: {}", means(tier)),
        };
        let mark = if diagnosis.tier.isolates() { Mark::Good } else { Mark::Partly };
        self.see(Seen { note: diagnosis.advice.clone(), ..Seen::new(mark, "isolation", text) });
        self.facts.sandbox.push(Fact::new("tier", diagnosis.tier.name()));
        if !diagnosis.advice.is_empty() {
            self.facts.sandbox.push(Fact::new("to improve", diagnosis.advice));
        }
    }
}

pub(super) fn sandbox(verb: &SandboxVerb, out: &mut dyn Write) -> Result<Exit, Failure> {
    let SandboxVerb::Doctor { json } = verb;
    let diagnosis = own_places()
        .and_then(|(helper, private)| diagnose(&helper, private.path()))
        .map_err(CommandError::Isolation)?;
    if *json {
        let value = serde_json::json!({
            "tier": diagnosis.tier.name(),
            "isolates": diagnosis.tier.isolates(),
            "advice": diagnosis.advice,
        });
        return print(out, &(to_pretty(&value) + "\n"));
    }
    print(out, &diagnosis.text())
}

fn own_places() -> std::io::Result<(std::path::PathBuf, Temporary)> {
    Ok((own_executable(), Temporary::new("doctor-")?))
}
