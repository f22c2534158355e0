//! Decides calls without a run, for `policy check`, `policy explain` and `policy test`.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::access::{Access, Pin};
use super::decision::{Decision, Denial, Verdict};
use super::file::{TestCall, TestCase};
use super::layers::LayerError;
use super::rules::Rule;
use super::{Facts, Policy};
use crate::tool_name::{ToolId, tool_named};

/// The answer to one call of `policy check`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// The call's id, as it was given.
    pub id: Value,
    /// `allow` or `deny`.
    pub decision: Verdict,
    /// The rule that decided.
    pub rule: Option<String>,
    /// Its source, if it has one.
    pub source: Option<String>,
    /// Why.
    pub reason: String,
    /// What would help.
    pub hint: Option<String>,
    /// The lines that allow a denied call once they are added to the policy, if any do.
    pub allow_with: Option<String>,
    /// What the call would do.
    pub effects: Vec<String>,
}

impl Answer {
    fn new(id: Value, decision: Decision) -> Answer {
        Answer {
            id,
            decision: decision.verdict,
            rule: decision.rule.as_ref().map(|rule| rule.rule.clone()),
            source: decision.rule.map(|rule| rule.source),
            reason: decision.reason,
            hint: decision.hint,
            allow_with: None,
            effects: decision.effects,
        }
    }
}

/// Decides each line `{"id","tool","input":{…}}` separately; an invalid line is denied. Empty lines are skipped.
pub fn run_calls<'a>(
    policy: &'a Policy,
    facts: &'a Facts,
    lines: impl Iterator<Item = &'a str> + 'a,
) -> impl Iterator<Item = Answer> + 'a {
    let numbered = lines.enumerate().filter(|(_, line)| !line.trim().is_empty());
    numbered.map(move |(index, line)| check_line(policy, facts, index + 1, line))
}

fn check_line(policy: &Policy, facts: &Facts, number: usize, line: &str) -> Answer {
    const SHAPE: &str =
        "write {\"id\": \"1\", \"tool\": \"run_shell_command\", \"input\": {\"command\": \"git status\"}}";
    let refused = |id: Value, what: String| Answer::new(id, Denial::new(what).hint(SHAPE).into());
    let call: Value = match serde_json::from_str(line) {
        Ok(call) => call,
        // The parser's own line is always the first.
        Err(error) => {
            let what = error.to_string().replace(" at line 1 column ", ", at column ");
            return refused(Value::Null, format!("line {number} is not JSON: {what}"));
        }
    };
    let id = call.get("id").cloned().unwrap_or(Value::Null);
    let Some(tool) = call.get("tool").and_then(Value::as_str) else {
        return refused(id, format!("line {number} does not name a tool"));
    };
    let input = call.get("input").cloned().unwrap_or_else(|| json!({}));
    let call = tool_accesses(tool, &input);
    let decision = match &call {
        Ok((tool, accesses)) => policy.authorize(tool, accesses, facts).0,
        Err(denial) => denial.clone().into(),
    };
    let denied = call.ok().filter(|_| !decision.is_allowed());
    let remedy = denied.and_then(|(tool, accesses)| policy.remedy(&tool, &accesses, facts).ok());
    Answer { allow_with: remedy.map(|remedy| remedy.lines.join("\n")), ..Answer::new(id, decision) }
}

/// Decides one call of a tool, by its name or an alias.
pub fn check_call(policy: &Policy, facts: &Facts, tool: &str, input: &Value) -> Decision {
    match tool_accesses(tool, input) {
        Ok((tool, accesses)) => policy.authorize(&tool, &accesses, facts).0,
        Err(denial) => denial.into(),
    }
}

// One value under its real name or an alias; an alias counts only where the real name is missing.
fn text(input: &Map<String, Value>, names: &[&str]) -> Result<Option<String>, Denial> {
    for name in names {
        match input.get(*name) {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => return Ok(Some(text.clone())),
            Some(other) => return Err(Denial::new(format!("`{name}` is not text: {other}"))),
        }
    }
    Ok(None)
}

fn texts(input: &Map<String, Value>, names: &[&str]) -> Result<Vec<String>, Denial> {
    let mut found = Vec::new();
    for name in names {
        match input.get(*name) {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => found.push(text.clone()),
            Some(Value::Array(items)) => {
                for item in items {
                    match item {
                        Value::String(text) => found.push(text.clone()),
                        other => {
                            return Err(Denial::new(format!("`{name}` contains non-text: {other}")));
                        }
                    }
                }
            }
            Some(other) => return Err(Denial::new(format!("`{name}` is not text: {other}"))),
        }
    }
    Ok(found)
}

const FILE: [&str; 8] = ["file_path", "path", "absolute_path", "file", "filename", "filePath", "target_file", "uri"];
const FOLDER: [&str; 8] =
    ["path", "dir", "directory", "folder", "file_path", "dir_path", "absolute_path", "directory_path"];

/// Returns a tool's real name and what a call with this input would touch.
pub fn tool_accesses(tool: &str, input: &Value) -> Result<(String, Vec<Access>), Denial> {
    let empty = Map::new();
    let input = match input {
        Value::Object(input) => input,
        Value::Null => &empty,
        other => return Err(Denial::new(format!("the input of {tool} is not an object: {other}"))),
    };
    if tool == "mcp" {
        return mcp_accesses(input);
    }
    let name = tool_named(tool).ok_or_else(|| Denial::new(format!("unknown tool {tool:?}")).by("tools"))?;
    let missing = |what: &str| Denial::new(format!("{name} needs `{what}`"));
    let file = || -> Result<PathBuf, Denial> { Ok(text(input, &FILE)?.ok_or_else(|| missing("file_path"))?.into()) };
    let folder = || -> Result<PathBuf, Denial> { Ok(text(input, &FOLDER)?.unwrap_or_else(|| ".".to_owned()).into()) };
    let accesses = match name {
        ToolId::ReadFile => vec![Access::Read { path: file()? }],
        ToolId::WriteFile => vec![Access::Write { path: file()? }],
        // An edit shows what it replaced.
        ToolId::Edit => vec![Access::Read { path: file()? }, Access::Write { path: file()? }],
        ToolId::ListDirectory => vec![Access::List { path: folder()? }],
        ToolId::Glob => {
            let patterns = texts(input, &["pattern"])?;
            if patterns.is_empty() {
                return Err(missing("pattern"));
            }
            vec![Access::Search { root: folder()?, patterns }]
        }
        ToolId::SearchFileContent => {
            vec![Access::Search { root: folder()?, patterns: texts(input, &["include", "glob"])? }]
        }
        ToolId::ReadManyFiles => {
            let patterns = texts(input, &["paths", "path", "include", "file_paths"])?;
            if patterns.is_empty() {
                return Err(missing("paths"));
            }
            vec![Access::Search { root: ".".into(), patterns }]
        }
        ToolId::RunShellCommand => {
            let command = text(input, &["command", "cmd", "script", "bash"])?.ok_or_else(|| missing("command"))?;
            let directory = text(input, &["directory", "dir", "folder", "cwd", "working_directory"])?;
            vec![Access::Run { command, directory: directory.map(PathBuf::from) }]
        }
        ToolId::WebFetch => fetches(input)?,
        ToolId::SaveMemory => match text(input, &["scope"])?.as_deref() {
            Some("global") => Vec::new(),
            _ => vec![Access::Memory { path: "QWEN.md".into() }],
        },
        // Nothing of the workspace is touched: `tools` alone decides.
        _ => Vec::new(),
    };
    Ok((name.to_string(), accesses))
}

fn fetches(input: &Map<String, Value>) -> Result<Vec<Access>, Denial> {
    let resolves_to = match input.get("resolves_to") {
        None | Some(Value::Null) => None,
        Some(_) => Some(texts(input, &["resolves_to"])?),
    };
    let redirects = texts(input, &["redirects"])?;
    let urls = match text(input, &["url"])? {
        Some(url) => vec![url],
        None => urls_in(&text(input, &["prompt"])?.unwrap_or_default()),
    };
    if urls.is_empty() {
        return Err(Denial::new("web_fetch needs a `url`, or a `prompt` with one").by("web"));
    }
    let fetch = |url| Access::Fetch { url, resolves_to: resolves_to.clone(), redirects: redirects.clone() };
    Ok(urls.into_iter().map(fetch).collect())
}

/// Returns the URLs in a text: from each scheme to the next space, quote or bracket.
pub fn urls_in(text: &str) -> Vec<String> {
    let words = text.split(|c: char| c.is_whitespace() || "<>\"'`".contains(c));
    let urls = words.filter_map(|word| {
        let mark = word.find("://")?;
        let is_of_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
        let before = word[..mark].trim_end_matches(is_of_scheme);
        let start = before.len();
        Some(word[start..].trim_end_matches(['.', ',', ';', '!', '?', ')', ']', '}']).to_owned())
    });
    urls.collect()
}

fn mcp_accesses(input: &Map<String, Value>) -> Result<(String, Vec<Access>), Denial> {
    let missing = |what: &str| Denial::new(format!("mcp needs `{what}`")).by("mcp");
    let pin = match text(input, &["pin"])?.as_deref() {
        None => Pin::Unpinned,
        Some("match") => Pin::Match,
        Some("changed") => Pin::Changed,
        Some("new") => Pin::New,
        Some(other) => return Err(Denial::new(format!("`pin` is match, changed or new, not {other}"))),
    };
    let access = Access::Mcp {
        server: text(input, &["server"])?.ok_or_else(|| missing("server"))?,
        tool: text(input, &["tool"])?.ok_or_else(|| missing("tool"))?,
        arguments: input.get("arguments").cloned().unwrap_or(Value::Null),
        pin,
    };
    Ok(("mcp".to_owned(), vec![access]))
}

/// The outcome of one inline test.
#[derive(Debug, Clone, PartialEq)]
pub struct TestResult {
    /// Its place: `.qwen/policy.yaml:58`.
    pub source: String,
    /// The call, as one line.
    pub call: String,
    /// What it should be.
    pub expected: Verdict,
    /// What the policy says.
    pub decision: Decision,
}

impl TestResult {
    /// Tells whether the policy says what the test wants.
    pub fn passed(&self) -> bool {
        self.decision.verdict == self.expected
    }
}

/// Runs the inline tests of every layer that comes from a file; where none does, those of the granting builtin.
///
/// A builtin's tests speak of the builtin as it is: a file that extends it may allow more or less and does not inherit
/// them.
pub fn run_tests(policy: &Policy, facts: &Facts) -> Vec<TestResult> {
    let is_builtin = |source: &str| source.starts_with("builtin:");
    let from_files: Vec<_> = policy.layers.iter().filter(|layer| !is_builtin(&layer.origin.source)).collect();
    let layers = if from_files.is_empty() { policy.layers.iter().take(1).collect() } else { from_files };
    let tests = layers.into_iter().flat_map(|layer| {
        let own = |source: &str| source == layer.origin.source || !is_builtin(source);
        layer.tests.iter().filter(move |test| own(&test.at.source))
    });
    let one = |test: &Rule<TestCase>| {
        let (expected, call) = match (&test.value.allow, &test.value.deny) {
            (Some(call), _) => (Verdict::Allow, call),
            (None, Some(call)) => (Verdict::Deny, call),
            (None, None) => return None,
        };
        let (shown, decision) = match call {
            TestCall::Command(command) => {
                let input = json!({ "command": command });
                (command.clone(), check_call(policy, facts, ToolId::RunShellCommand.name(), &input))
            }
            TestCall::Tool(tool, value) => {
                let input = match value {
                    Value::Object(_) => value.clone(),
                    other => main_argument(tool, other),
                };
                (format!("{tool} {value}"), check_call(policy, facts, tool, &input))
            }
        };
        Some(TestResult { source: test.at.source.clone(), call: shown, expected, decision })
    };
    tests.filter_map(one).collect()
}

fn main_argument(tool: &str, value: &Value) -> Value {
    let name = match tool_named(tool) {
        Some(ToolId::RunShellCommand) => "command",
        Some(ToolId::WebFetch) => "url",
        Some(ToolId::Glob) => "pattern",
        Some(ToolId::ReadManyFiles) => "paths",
        Some(ToolId::ListDirectory | ToolId::SearchFileContent) => "path",
        _ => "file_path",
    };
    json!({ name: value })
}

/// Runs the inline tests as every load does: one that fails is a load error.
pub fn require_tests(policy: &Policy, facts: &Facts) -> Result<(), LayerError> {
    let failed = run_tests(policy, facts).into_iter().filter(|test| !test.passed());
    let lines: Vec<String> = failed
        .map(|test| {
            let (wanted, got) = match test.expected {
                Verdict::Allow => ("allowed", "denied"),
                Verdict::Deny => ("denied", "allowed"),
            };
            format!(
                "{}: the test `{}` should be {wanted} and is {got}: {}",
                test.source, test.call, test.decision.reason
            )
        })
        .collect();
    if lines.is_empty() { Ok(()) } else { Err(LayerError::Tests(lines)) }
}
