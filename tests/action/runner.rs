//! Simulates a runner: reads action.yml, fills in expressions in `env`, starts each step with bash, and obeys its
//! output.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// The directory of the action: this repository.
pub(crate) fn action_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// What caused the job.
pub(crate) struct Event {
    pub(crate) name: &'static str,
    pub(crate) content: Value,
    pub(crate) actor: &'static str,
}

impl Event {
    /// A start by hand.
    pub(crate) fn by_hand() -> Event {
        Event { name: "workflow_dispatch", content: json!({"repository": {"default_branch": "main"}}), actor: "ann" }
    }
}

/// A job that uses the action.
pub(crate) struct Job<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) home: &'a Path,
    pub(crate) event: Event,
    pub(crate) inputs: Vec<(&'static str, String)>,
    pub(crate) environment: Vec<(&'static str, String)>,
}

/// What the runner saw.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) code: i32,
    pub(crate) log: String,
    /// Commands that it obeyed: name, properties and text.
    pub(crate) commands: Vec<(String, String, String)>,
    /// The outputs of the action.
    pub(crate) outputs: BTreeMap<String, String>,
    /// The outputs of the step that runs qwen, whatever the action declares.
    pub(crate) step_outputs: BTreeMap<String, String>,
    pub(crate) summary: String,
    /// The directory of temporary files, kept for the next job.
    pub(crate) temp: Option<tempfile::TempDir>,
}

impl Seen {
    /// The names of the commands that were obeyed.
    pub(crate) fn command_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.commands.iter().map(|(name, _, _)| name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// Reads action.yml.
pub(crate) fn action() -> Value {
    let text = std::fs::read_to_string(action_folder().join("action.yml")).unwrap();
    serde_yaml::from_str(&text).unwrap()
}

/// Replaces `${{ … }}` by what `lookup` says; an expression that it does not know is an error of the action.
fn filled(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("${{") {
        let end = rest[at..].find("}}").expect("an expression ends") + at;
        let expression = rest[at + 3..end].trim();
        out.push_str(&rest[..at]);
        out.push_str(&lookup(expression).unwrap_or_else(|| panic!("the action uses `{expression}`")));
        rest = &rest[end + 2..];
    }
    out + rest
}

impl Job<'_> {
    /// Runs the action's steps in order; the first that fails is the last.
    pub(crate) fn run(self) -> Seen {
        let action = action();
        let temp = tempfile::tempdir().unwrap();
        let event = temp.path().join("event.json");
        std::fs::write(&event, self.event.content.to_string()).unwrap();
        let mut inputs: BTreeMap<String, String> = BTreeMap::new();
        for (name, input) in action["inputs"].as_object().unwrap() {
            let default = input["default"].as_str().unwrap_or_default();
            inputs.insert(name.clone(), filled(default, &|name| (name == "github.token").then(String::new)));
        }
        for (name, value) in &self.inputs {
            assert!(inputs.insert((*name).to_owned(), value.clone()).is_some(), "the action has no input {name}");
        }
        let mut seen = Seen::default();
        let mut steps: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        for (number, step) in action["runs"]["steps"].as_array().unwrap().iter().enumerate() {
            let run = step["run"].as_str().unwrap();
            assert!(!run.contains("${{"), "no expression in a script: {run}");
            assert_eq!(step["shell"], "/bin/bash --noprofile --norc -peo pipefail {0}");
            let lookup = |name: &str| match name.split('.').collect::<Vec<_>>()[..] {
                ["inputs", input] => inputs.get(input).cloned(),
                ["steps", step, "outputs", output] => Some(steps.get(step)?.get(output).cloned().unwrap_or_default()),
                ["github", "action_path"] => Some(action_folder().display().to_string()),
                ["github", "action_repository"] => Some(String::new()),
                ["github", "server_url"] => Some("https://github.example".to_owned()),
                ["github", "event_name"] => Some(self.event.name.to_owned()),
                ["github", "repository"] => Some("o/r".to_owned()),
                ["github", "event", ref names @ ..] => {
                    let value = self.event.content.pointer(&format!("/{}", names.join("/")));
                    Some(value.and_then(Value::as_str).unwrap_or_default().to_owned())
                }
                _ => None,
            };
            let script = temp.path().join(format!("step-{number}.sh"));
            std::fs::write(&script, run).unwrap();
            let (output, summary) = (temp.path().join(format!("output-{number}")), temp.path().join("summary"));
            std::fs::write(&output, "").unwrap();
            std::fs::write(&summary, "").unwrap();
            let mut command = Command::new("/bin/bash");
            command
                .args(["-c", "exec /bin/bash --noprofile --norc -peo pipefail \"$0\" 2>&1"])
                .arg(&script)
                .current_dir(self.folder)
                .env_clear()
                .env("PATH", std::env::var_os("PATH").unwrap())
                .env("HOME", self.home)
                .env("GIT_CONFIG_NOSYSTEM", "1")
                .env("CI", "true")
                .env("GITHUB_ACTIONS", "true")
                .env("GITHUB_EVENT_NAME", self.event.name)
                .env("GITHUB_EVENT_PATH", &event)
                .env("GITHUB_ACTOR", self.event.actor)
                .env("GITHUB_TRIGGERING_ACTOR", self.event.actor)
                .env("GITHUB_ACTOR_ID", "583231")
                .env("GITHUB_REPOSITORY", "o/r")
                .env("GITHUB_REF", "refs/heads/main")
                .env("GITHUB_REF_NAME", "main")
                .env("GITHUB_RUN_ID", "42")
                .env("GITHUB_SERVER_URL", "https://github.example")
                .env("GITHUB_API_URL", "http://127.0.0.1:9")
                .env("GITHUB_OUTPUT", &output)
                .env("GITHUB_STEP_SUMMARY", &summary)
                .env("RUNNER_TEMP", temp.path())
                .env("TMPDIR", temp.path())
                .stdin(Stdio::null());
            for (name, value) in step["env"].as_object().unwrap() {
                command.env(name, filled(value.as_str().unwrap(), &lookup));
            }
            command.envs(self.environment.iter().map(|(name, value)| (*name, value)));
            let done = command.output().unwrap();
            seen.code = done.status.code().unwrap_or(-1);
            let log = String::from_utf8_lossy(&done.stdout).into_owned();
            seen.commands.extend(obeyed(&log));
            seen.log.push_str(&log);
            seen.step_outputs = output_file(&std::fs::read_to_string(&output).unwrap());
            seen.summary = std::fs::read_to_string(&summary).unwrap();
            steps.insert(step["id"].as_str().unwrap().to_owned(), seen.step_outputs.clone());
            if seen.code != 0 {
                break;
            }
        }
        for (name, output) in action["outputs"].as_object().unwrap() {
            let lookup = |name: &str| match name.split('.').collect::<Vec<_>>()[..] {
                ["steps", step, "outputs", output] => {
                    Some(steps.get(step).and_then(|step| step.get(output)).cloned().unwrap_or_default())
                }
                _ => None,
            };
            let first = |names: &str| {
                let values = names.split("||").map(|name| lookup(name.trim())).collect::<Option<Vec<_>>>()?;
                Some(values.into_iter().find(|value| !value.is_empty()).unwrap_or_default())
            };
            seen.outputs.insert(name.clone(), filled(output["value"].as_str().unwrap(), &first));
        }
        seen.temp = Some(temp);
        seen
    }
}

/// Reads a log as the runner does: which commands it obeys. Lines end at LF and at CR; commands begin with `::` after
/// any spaces, or with `##[` anywhere.
pub(crate) fn obeyed(log: &str) -> Vec<(String, String, String)> {
    let mut commands = Vec::new();
    let mut stopped: Option<String> = None;
    for line in log.split(['\n', '\r']) {
        let command = match (line.trim_start().strip_prefix("::"), line.find("##[")) {
            (Some(rest), _) => rest.split_once("::").map(|(head, text)| {
                let (name, properties) = head.split_once(' ').unwrap_or((head, ""));
                (name.to_owned(), properties.to_owned(), text.to_owned())
            }),
            (None, Some(at)) => line[at + 3..].split_once(']').map(|(head, text)| {
                let (name, properties) = head.split_once(' ').unwrap_or((head, ""));
                (format!("##{name}"), properties.to_owned(), text.to_owned())
            }),
            (None, None) => None,
        };
        let Some((name, properties, text)) = command else { continue };
        match &stopped {
            Some(token) if *token == name => stopped = None,
            Some(_) => {}
            None if name == "stop-commands" => stopped = Some(text),
            None => commands.push((name, properties, text)),
        }
    }
    assert_eq!(stopped, None, "commands are obeyed again at the end");
    commands
}

/// Reads a file of outputs as the runner does.
pub(crate) fn output_file(text: &str) -> BTreeMap<String, String> {
    let mut outputs = BTreeMap::new();
    let mut lines = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
    while let Some(line) = lines.next() {
        if line.is_empty() {
            continue;
        }
        match (line.find('='), line.find("<<")) {
            (Some(equals), heredoc) if heredoc.is_none_or(|heredoc| equals < heredoc) => {
                outputs.insert(line[..equals].to_owned(), line[equals + 1..].to_owned());
            }
            (_, Some(heredoc)) => {
                let (name, delimiter) = (&line[..heredoc], &line[heredoc + 2..]);
                let mut value = Vec::new();
                loop {
                    let line = lines.next().expect("a heredoc ends");
                    if line == delimiter {
                        break;
                    }
                    value.push(line);
                }
                outputs.insert(name.to_owned(), value.join("\n"));
            }
            (_, None) => panic!("the runner fails on `{line}`"),
        }
    }
    outputs
}
