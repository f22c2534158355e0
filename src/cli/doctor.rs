//! Defines `qwen doctor`: what a run here would use and where each part of it comes from, without a model.

use std::fmt::Write as _;

use clap::Args;
use serde::Serialize;

use super::workspace::WorkspaceArgs;
use crate::emit::safe::{escape, one_line};
use crate::emit::words::count;
use crate::emit::{Appearance, Mark, to_pretty};
use crate::exit::Exit;
use crate::settings::Settings;
use crate::settings::keys::{Endpoint, KeyError, ModelChoice, shown};

/// Columns of a name in the summary.
const NAME: usize = 9;

/// What stands below the flags.
pub const EXAMPLE: &str = "\
Example:
  qwen doctor -v
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
    /// Also show every setting with its origin, digests and layers
    #[arg(short, long)]
    pub verbose: bool,
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
    /// Where runs are reported; empty if they are not.
    pub telemetry: Vec<Fact>,
    /// What should be looked at but does not stop a run.
    pub warnings: Vec<String>,
    /// What stops a run; with any of them `doctor` ends with their code.
    pub problems: Vec<String>,
    /// The same in few lines, for people.
    #[serde(skip)]
    pub seen: Vec<Seen>,
}

/// One line of the summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// How it is.
    pub mark: Mark,
    /// What; empty where the text says it.
    pub name: &'static str,
    /// In a few words.
    pub text: String,
    /// What to do about it.
    pub hint: String,
    /// What else is to be known of it.
    pub note: String,
}

impl Seen {
    /// Returns a line without more.
    pub fn new(mark: Mark, name: &'static str, text: impl Into<String>) -> Seen {
        Seen { mark, name, text: text.into(), hint: String::new(), note: String::new() }
    }

    fn lines(&self, columns: usize, look: &Appearance) -> Vec<String> {
        let (style, mark) = self.mark.shown(look);
        let name = if self.name.is_empty() { String::new() } else { format!("{:NAME$}  ", self.name) };
        let indent = columns + 1 + name.len();
        let texts = [&self.text, &self.hint].map(|text| one_line(text));
        let wrapped = texts.iter().filter(|text| !text.is_empty());
        let wrapped = wrapped.flat_map(|text| look.wrap(text, look.width.saturating_sub(indent)));
        let gap = columns - mark.chars().count();
        let mut lines: Vec<String> = Vec::new();
        for line in wrapped {
            lines.push(match lines.is_empty() {
                true => format!("{}{:gap$} {name}{line}", look.paint(style, mark), ""),
                false => format!("{:indent$}{line}", ""),
            });
        }
        let note = one_line(&self.note);
        let noted = look.wrap(&note, look.width.saturating_sub(columns + 3)).into_iter().enumerate();
        let noted = noted.filter(|_| !note.is_empty());
        lines.extend(noted.map(|(at, line)| format!("{:columns$} {} {line}", "", if at == 0 { "-" } else { " " })));
        lines
    }
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

    /// Adds server, model and key to the summary; `open` is the same where no key is needed.
    pub fn see_endpoint(&mut self, endpoint: &Result<Endpoint, KeyError>, open: &Result<Endpoint, KeyError>) {
        let host = |endpoint: &Endpoint| {
            let url = &endpoint.base_url.value;
            let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
            format!("{}{port}", url.host_str().unwrap_or_default())
        };
        let model = |endpoint: &Endpoint| match &endpoint.model {
            ModelChoice::Named(model) => model.value.clone(),
            ModelChoice::TheOnlyOne => "the only one".to_owned(),
        };
        match (endpoint, open) {
            (Ok(endpoint), _) => {
                let text = format!("{} at {}", model(endpoint), host(endpoint));
                self.seen.push(Seen::new(Mark::Good, "model", text));
                self.seen.push(match &endpoint.key {
                    Some(key) => Seen::new(Mark::Good, "key", format!("from {}", key.origin)),
                    None => Seen::new(Mark::Good, "key", "none needed"),
                });
            }
            (Err(error), Ok(open)) => {
                let text = format!("none for {}", host(open));
                self.seen.push(Seen { hint: error.hint.clone(), ..Seen::new(Mark::Bad, "key", text) });
                self.seen.push(Seen::new(Mark::Good, "model", model(open)));
            }
            (Err(error), Err(_)) => {
                self.seen.push(Seen { hint: error.hint.clone(), ..Seen::new(Mark::Bad, "model", &error.message) });
            }
        }
    }

    /// Returns the summary for people, what is wrong first.
    pub fn text(&self, look: &Appearance, exit: Exit) -> String {
        let warnings = self.warnings.iter().map(|warning| Seen::new(Mark::Partly, "", warning));
        let mut seen: Vec<Seen> = self.seen.iter().cloned().chain(warnings).collect();
        seen.sort_by_key(|seen| match seen.mark {
            Mark::Bad => 0,
            Mark::Note if seen.name.is_empty() => 2,
            Mark::Partly | Mark::Note | Mark::Good => 1,
        });
        let columns = seen.iter().map(|seen| seen.mark.shown(look).1.chars().count()).max().unwrap_or(1);
        let lines = seen.iter().flat_map(|seen| seen.lines(columns, look));
        let text: String = lines.map(|line| line + "\n").collect();
        let end = match self.problems.len() as u64 {
            0 => "no problem: a run would start".to_owned(),
            number => format!("{}: a run would end with {}", count(number, "problem"), exit.code()),
        };
        format!("{text}\n{end}\n")
    }

    /// Returns every fact with its origin.
    pub fn details(&self) -> String {
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
            ("telemetry", &self.telemetry),
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
        let endpoint = |offline| resolve(&EndpointOptions { offline, ..Default::default() }, &environment, &settings);
        facts.add_endpoint(&endpoint(false));
        facts.see_endpoint(&endpoint(false), &endpoint(true));
        facts
    }

    #[test]
    fn every_value_stands_with_its_origin() {
        let facts = facts(
            "{\"maxSessionTurns\": 7,\n \"env\": {\"TOKEN\": \"hush\"}, \"oops\": 1}",
            &[("QWEN_API_KEY", "sk-0123456789abcdefgh")],
        );
        insta::assert_snapshot!(facts.details(), @r"
        qwen 0.1.0
        workspace /w

        model
          server  https://dashscope-intl.aliyuncs.com/compatible-mode/v1   (default)
          model   qwen3-coder-plus   (default)
          key     sk-…gh   (QWEN_API_KEY)

        settings
          model.maxSessionTurns  7   (~/.qwen/settings.json:1:21)
          env                    {TOKEN: ***}   (~/.qwen/settings.json:2:9)
        ");
    }

    #[test]
    fn no_secret_is_shown_in_either_form() {
        let facts = facts(
            r#"{"security": {"auth": {"apiKey": "sk-very-secret-key-0123"}}, "mcpServers": {"x": {"env": {"A": "sk-very-secret"}}},
               "proxy": "http://me:secret@proxy:3128"}"#,
            &[],
        );
        assert!(!facts.details().contains("secret") && !facts.json().contains("secret"), "{}", facts.json());
    }

    #[test]
    fn what_stops_a_run_is_a_problem() {
        let facts = facts("{}", &[]);
        let look = Appearance { width: 60, ascii: false, colour: false };
        insta::assert_snapshot!(facts.text(&look, Exit::Auth), @r"
        ✗ key        none for dashscope-intl.aliyuncs.com
                     set QWEN_API_KEY or DASHSCOPE_API_KEY, or
                     --api-key-file; a server on this machine needs
                     none: QWEN_BASE_URL=http://127.0.0.1:8080/v1
        ✓ model      qwen3-coder-plus

        1 problem: a run would end with 41
        ");
        assert!(facts.problems[0].contains("exit 41"), "{:?}", facts.problems);
    }
}
