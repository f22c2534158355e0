//! `qwen doctor` and `qwen sandbox doctor`: what counts here, and where it comes from. No model is asked.

use std::io::Write;

use super::{Place, print};
use crate::cli::doctor::{DoctorArgs, Fact, Facts};
use crate::cli::sandbox::SandboxVerb;
use crate::emit::to_pretty;
use crate::exit::Exit;
use crate::run::Failure;
use crate::sandbox::doctor::diagnose;
use crate::settings::keys::{self, Wishes};
use crate::settings::{self, Environment};

pub(super) fn run(arguments: &DoctorArgs, environment: &Environment, out: &mut dyn Write) -> Result<Exit, Failure> {
    let place = Place::open(&arguments.workspace, environment)?;
    let mut facts = Facts {
        version: env!("CARGO_PKG_VERSION").into(),
        workspace: place.workspace.root().display().to_string(),
        ..Facts::default()
    };
    let request = settings::load::Request {
        project_root: place.top(),
        workspace: place.workspace.root().to_path_buf(),
        trusted: environment.is_on("QWEN_TRUST_CHECKOUT"),
        ..settings::load::Request::default()
    };
    let mut exit = Exit::Ok;
    match settings::load(&request, environment) {
        Ok(loaded) => {
            facts.settings_files = loaded.files.clone();
            facts.warnings.extend(loaded.warnings.iter().cloned());
            facts.add_settings(&loaded.settings);
            match crate::run::servers::choose(&loaded.settings, Default::default(), &loaded.environment) {
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
            facts.add_endpoint(&keys::resolve(&Wishes::default(), &loaded.environment, &loaded.settings));
        }
        Err(error) => {
            facts.problems.push(error.to_string());
            exit = Exit::Config;
        }
    }
    match place.policy(None, false, environment) {
        Ok(chosen) => {
            let policy = chosen.policy.facts();
            facts.policy.push(Fact::new("name", policy.name));
            facts.policy.push(Fact::new("sha256", policy.sha256));
            facts.policy.extend(policy.layers.into_iter().map(|layer| Fact::new("layer", layer)));
            facts.warnings.extend(chosen.warnings);
        }
        Err(failure) => {
            facts.problems.push(failure.error.message);
            exit = exit.or_worse(failure.exit);
        }
    }
    match &place.repository {
        Some(repository) => {
            facts.git.push(Fact::new("top", repository.top.display().to_string()));
            facts.git.push(Fact::new("head", repository.head.clone().unwrap_or_else(|| "unborn".into())));
            facts.git.push(Fact::new("branch", repository.branch.clone().unwrap_or_else(|| "detached".into())));
        }
        None => facts.git.push(Fact::new("repository", "none")),
    }
    if let Ok((helper, private)) = own_places() {
        let diagnosis = diagnose(&helper, private.path());
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
    let (helper, private) = own_places()
        .map_err(|error| Failure::new(Exit::Failed, format!("our own program cannot be found: {error}"), ""))?;
    let diagnosis = diagnose(&helper, private.path());
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

fn own_places() -> std::io::Result<(std::path::PathBuf, tempfile::TempDir)> {
    Ok((std::env::current_exe()?, tempfile::tempdir()?))
}
