//! Defines `qwen doctor`: what a run here would use and where each part of it comes from, without a model.

use std::fmt::Write as _;

use clap::Args;
use serde::Serialize;

use super::workspace::WorkspaceArgs;
use crate::emit::safe::{escape, one_line};
use crate::emit::to_pretty;
use crate::settings::Settings;
use crate::settings::keys::{Endpoint, KeyError, ModelChoice, shown};

/// What stands below the flags.
pub const EXAMPLE: &str = "\
Example:
  qwen doctor --json";

/// Keys of settings whose values are never shown.
const SECRET: [&str; 6] = [
    "security.auth.apiKey",
    "env",
    "model.generationConfig.customHeaders",
    "mcpServers",
    "webSearch",
    "modelProviders",
];

/// The flags of `doctor`.
#[derive(Debug, Clone, Args)]
pub struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Where to work.
    #[command(flatten)]
    pub workspace: WorkspaceArgs,
}

/// What was found out; the caller fills it, this file only shows it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Facts {
    /// Our version.
    pub version: String,
    /// The workspace.
    pub workspace: String,
    /// Settings files that were read, the weakest first.
    pub settings_files: Vec<String>,
    /// Settings that count.
    pub settings: Vec<Fact>,
    /// Server, model and key.
    pub endpoint: Vec<Fact>,
    /// Policy layers, the granting one first.
    pub policy: Vec<Fact>,
    /// Context files and commands.
    pub context: Vec<Fact>,
    /// Repository, head, state.
    pub git: Vec<Fact>,
    /// Tier, and what would improve it.
    pub sandbox: Vec<Fact>,
    /// Tools that are not registered, and why; MCP servers.
    pub tools: Vec<Fact>,
    /// What should be looked at but does not stop a run.
    pub warnings: Vec<String>,
    /// What stops a run; with any of them `doctor` ends with their code.
    pub problems: Vec<String>,
}

/// One thing and where it comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// What.
    pub name: String,
    /// How it is.
    pub value: String,
    /// Where it comes from.
    pub origin: Option<String>,
}

impl Fact {
    /// Returns a fact without an origin.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Fact {
        Fact { name: name.into(), value: value.into(), origin: None }
    }

    /// Returns it with its origin.
    pub fn from(self, origin: impl ToString) -> Fact {
        Fact { origin: Some(origin.to_string()), ..self }
    }
}

impl Facts {
    /// Adds every setting that counts; values that may be secret are masked.
    pub fn add_settings(&mut self, settings: &Settings) {
        for (name, valued) in &settings.entries {
            let value = if SECRET.contains(name) { masked(&valued.value) } else { without_password(&valued.value) };
            self.settings.push(Fact::new(*name, value).from(&valued.origin));
        }
    }

    /// Adds where requests would go, or why nowhere.
    pub fn add_endpoint(&mut self, endpoint: &Result<Endpoint, KeyError>) {
        match endpoint {
            Ok(endpoint) => {
                self.endpoint
                    .push(Fact::new("server", shown(&endpoint.base_url.value)).from(&endpoint.base_url.origin));
                self.endpoint.push(match &endpoint.model {
                    ModelChoice::Named(model) => Fact::new("model", &model.value).from(&model.origin),
                    ModelChoice::TheOnlyOne => Fact::new("model", "the only one that the server lists"),
                });
                self.endpoint.push(match &endpoint.key {
                    Some(key) => Fact::new("key", key.value.masked()).from(&key.origin),
                    None => Fact::new("key", "none needed"),
                });
                self.warnings.extend(endpoint.warnings.iter().cloned());
            }
            Err(error) => self.problems.push(format!("{error}; {} (exit {})", error.hint, error.exit.code())),
        }
    }

    /// Returns the facts for people.
    pub fn text(&self) -> String {
        let mut text = format!("qwen {}\nworkspace {}\n", self.version, one_line(&self.workspace));
        let files: Vec<Fact> = self.settings_files.iter().map(|file| Fact::new("file", file)).collect();
        for (title, facts) in [
            ("model", &self.endpoint),
            ("settings files", &files),
            ("settings", &self.settings),
            ("policy", &self.policy),
            ("context", &self.context),
            ("git", &self.git),
            ("sandbox", &self.sandbox),
            ("tools", &self.tools),
        ] {
            if facts.is_empty() {
                continue;
            }
            let _ = writeln!(text, "\n{title}");
            let width = facts.iter().map(|fact| fact.name.chars().count()).max().unwrap_or(0);
            for fact in facts {
                let origin = fact.origin.as_ref().map(|o| format!("   ({})", one_line(o))).unwrap_or_default();
                let _ = writeln!(text, "  {:width$}  {}{origin}", fact.name, one_line(&fact.value));
            }
        }
        for warning in &self.warnings {
            let _ = write!(text, "\nwarning: {}", one_line(warning));
        }
        for problem in &self.problems {
            let _ = write!(text, "\nproblem: {}", one_line(problem));
        }
        let end = if self.problems.is_empty() { "ok: a run would start" } else { "not ok: a run would not start" };
        let _ = writeln!(text, "\n{end}");
        escape(&text).into_owned()
    }

    /// Returns the facts as JSON.
    pub fn json(&self) -> String {
        to_pretty(self) + "\n"
    }
}

/// Shows a value as JSON; an address without its user and password.
fn without_password(value: &serde_json::Value) -> String {
    match value.as_str().map(url::Url::parse) {
        Some(Ok(url)) if !url.username().is_empty() || url.password().is_some() => format!("\"{}\"", shown(&url)),
        Some(_) | None => value.to_string(),
    }
}

/// Shows which names an object has, and nothing of their values.
fn masked(value: &serde_json::Value) -> String {
    match value.as_object() {
        Some(map) => format!("{{{}}}", map.keys().map(|name| format!("{name}: ***")).collect::<Vec<_>>().join(", ")),
        None => "***".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::environment::Environment;
    use crate::settings::keys::{EndpointOptions, resolve};
    use crate::settings::layers::{Layer, LayerKind, merge};

    fn facts(settings: &str, variables: &[(&str, &str)]) -> Facts {
        let root = crate::base::document::jsonc::parse("f", settings).unwrap();
        let layer = Layer { kind: LayerKind::User, path: "~/.qwen/settings.json".into(), root };
        let (settings, warnings) = merge(&[layer], |_| None).unwrap();
        let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let environment = Environment { variables, ..Environment::default() };
        let mut facts = Facts { version: "0.1.0".into(), workspace: "/w".into(), warnings, ..Facts::default() };
        facts.add_settings(&settings);
        facts.add_endpoint(&resolve(&EndpointOptions::default(), &environment, &settings));
        facts
    }

    #[test]
    fn every_value_stands_with_its_origin() {
        let facts = facts(
            "{\"maxSessionTurns\": 7,\n \"env\": {\"TOKEN\": \"hush\"}, \"oops\": 1}",
            &[("QWEN_API_KEY", "sk-0123456789abcdefgh")],
        );
        insta::assert_snapshot!(facts.text(), @r"
        qwen 0.1.0
        workspace /w

        model
          server  https://dashscope-intl.aliyuncs.com/compatible-mode/v1   (default)
          model   qwen3-coder-plus   (default)
          key     sk-…gh   (QWEN_API_KEY)

        settings
          model.maxSessionTurns  7   (~/.qwen/settings.json:1:21)
          env                    {TOKEN: ***}   (~/.qwen/settings.json:2:9)

        warning: ~/.qwen/settings.json:2:28: unknown key `oops`
        ok: a run would start
        ");
    }

    #[test]
    fn no_secret_is_shown_in_either_form() {
        let facts = facts(
            r#"{"security": {"auth": {"apiKey": "sk-very-secret-key-0123"}}, "mcpServers": {"x": {"env": {"A": "sk-very-secret"}}},
               "proxy": "http://me:secret@proxy:3128"}"#,
            &[],
        );
        assert!(!facts.text().contains("secret") && !facts.json().contains("secret"), "{}", facts.json());
    }

    #[test]
    fn what_stops_a_run_is_a_problem() {
        let facts = facts("{}", &[]);
        assert!(facts.text().ends_with("not ok: a run would not start\n"));
        assert!(facts.problems[0].contains("exit 41"), "{:?}", facts.problems);
    }
}
