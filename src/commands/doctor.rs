//! Runs `qwen doctor` and `qwen sandbox doctor`: what applies here and where it comes from. Asks no model.

use std::io::Write;

use super::console::print;
use super::error::CommandError;
use crate::cli::doctor::{DoctorArgs, Fact, Facts};
use crate::cli::sandbox::SandboxVerb;
use crate::emit::to_pretty;
use crate::exit::Exit;
use crate::run::Failure;
use crate::run::place::Place;
use crate::run::prompt::context::{self, ContextSources};
use crate::run::prompt::slash_command::Commands;
use crate::sandbox::doctor::diagnose;
use crate::sandbox::own_executable;
use crate::settings::keys::{self, Wishes};
use crate::settings::{self, Environment, providers};
use crate::tool_name::ToolId;
use crate::workspace::temporary::Temporary;

pub(super) fn run(arguments: &DoctorArgs, environment: &Environment, out: &mut dyn Write) -> Result<Exit, Failure> {
    let place = Place::open(arguments.workspace.cd.as_deref(), environment)?;
    let mut facts = Facts {
        version: env!("CARGO_PKG_VERSION").into(),
        workspace: place.workspace.root().display().to_string(),
        ..Facts::default()
    };
    let mut exit = Exit::Ok;
    let mut request = settings::load::Request {
        project_root: place.top().to_path_buf(),
        around: place.checkout.around.clone(),
        ..settings::load::Request::default()
    };
    let mut context_settings = settings::Settings::default();
    let mut whose = None;
    match place.trusted(environment) {
        Ok(trusted) => {
            facts.policy.push(Fact::new("trusted", trusted.describe()));
            request = place.settings_request(&trusted)?;
            whose = Some(trusted);
        }
        Err(failure) => {
            facts.problems.push(failure.error.message);
            exit = exit.or_worse(failure.exit);
        }
    }
    match settings::load(&request, environment) {
        Ok(loaded) => {
            facts.settings_files = loaded.files.clone();
            facts.warnings.extend(loaded.warnings.iter().cloned());
            facts.add_settings(&loaded.settings);
            match crate::run::runner::servers::choose(&loaded.settings, Default::default(), &loaded.environment) {
                Ok(chosen) => {
                    facts.tools.extend(chosen.configs.iter().map(|config| {
                        let about = format!("{} ({})", config.connect.describe(), config.connect.transport());
                        Fact::new(format!("MCP server {}", config.name), about).from(&config.origin)
                    }));
                    facts.warnings.extend(chosen.warnings);
                    let broken = chosen.broken.into_iter();
                    facts.warnings.extend(broken.map(|(name, why)| format!("MCP server {name}: {why}")));
                }
                Err(failure) => {
                    facts.problems.push(failure.error.message);
                    exit = Exit::Config;
                }
            }
            let (searched, incomplete) =
                crate::tools::web::providers::providers(&loaded.settings.tools.web_search, &loaded.environment);
            let names: Vec<&str> = searched.iter().map(|provider| provider.name()).collect();
            facts.tools.push(Fact::new(
                ToolId::WebSearch.name(),
                match names[..] {
                    [] => "not offered: no provider (setting `webSearch`, or TAVILY_API_KEY)".to_owned(),
                    _ => format!("by {}", names.join(", ")),
                },
            ));
            facts.warnings.extend(incomplete);
            let settings = providers::applied(&loaded.settings, &loaded.environment, None, false);
            let endpoint =
                settings.and_then(|settings| keys::resolve(&Wishes::default(), &loaded.environment, &settings));
            if let Err(error) = &endpoint {
                exit = exit.or_worse(error.exit);
            }
            facts.add_endpoint(&endpoint);
            context_settings = loaded.settings;
        }
        Err(error) => {
            facts.problems.push(error.to_string());
            exit = exit.or_worse(Exit::Config);
        }
    }
    let top = place.top();
    match (place.policy(None, false, environment), &whose) {
        // What the trusted commit is was asked above, and it was said there that nobody knows.
        (_, None) => {}
        (Ok(chosen), Some(trusted)) => {
            let policy = chosen.policy.facts();
            facts.policy.push(Fact::new("name", policy.name));
            facts.policy.push(Fact::new("sha256", policy.sha256));
            facts.policy.extend(policy.layers.into_iter().map(|layer| Fact::new("layer", layer)));
            facts.warnings.extend(chosen.warnings);
            let (files, warnings) = context::gather(&ContextSources {
                home: environment.home.as_deref(),
                top,
                workspace: place.workspace.root(),
                project: trusted.source(),
                settings: &context_settings,
                policy: &chosen.policy,
            });
            let sizes =
                files.into_iter().map(|(name, text)| Fact::new("file", format!("{name} ({} bytes)", text.len())));
            facts.context.extend(sizes);
            facts.warnings.extend(warnings);
            facts.warnings.extend(trusted.left_out(top, place.workspace.root(), &context::names(&context_settings))?);
            let commands = Commands::of(environment, top, trusted, &chosen.policy).names();
            facts.context.extend(commands.into_iter().map(|name| Fact::new("command", format!("/{name}"))));
        }
        (Err(failure), Some(_)) => {
            facts.problems.push(failure.error.message);
            exit = exit.or_worse(failure.exit);
        }
    }
    match place.repository() {
        Some(repository) => {
            facts.git.push(Fact::new("top", repository.top.display().to_string()));
            facts.git.push(Fact::new("head", repository.head.clone().unwrap_or_else(|| "unborn".into())));
            facts.git.push(Fact::new("branch", repository.branch.clone().unwrap_or_else(|| "detached".into())));
        }
        None => facts.git.push(Fact::new("repository", "none")),
    }
    if let Ok(diagnosis) = own_places().and_then(|(helper, private)| diagnose(&helper, private.path())) {
        facts.sandbox.push(Fact::new("tier", diagnosis.tier.name()));
        if !diagnosis.advice.is_empty() {
            facts.sandbox.push(Fact::new("to improve", diagnosis.advice));
        }
    }
    print(out, &if arguments.json { facts.json() } else { facts.text() })?;
    Ok(exit)
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
