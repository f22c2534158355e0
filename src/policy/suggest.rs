//! Finds the smallest policy that would have allowed given calls, by asking the evaluation itself, rule by rule.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::access::Access;
use super::additions::{Additions, yaml_word};
use super::check::{check_call, tool_accesses};
use super::commands::Answers;
use super::layers::{LayerText, Standing};
use super::programs;
use super::shell::judge_in_steps;
use super::{Facts, Policy};
use crate::tool_name::ToolId;

/// Rules that one command may need.
const MOST_RULES: usize = 50;

/// Words of a command among which its subcommand is looked for.
const MOST_WORDS: usize = 8;

/// What is to be allowed.
#[derive(Debug, Clone, Default)]
pub(super) struct Wanted {
    tools: BTreeSet<String>,
    read: BTreeSet<String>,
    write: BTreeSet<String>,
    hosts: BTreeSet<String>,
    servers: BTreeMap<String, BTreeSet<String>>,
    /// `git` → its subcommands; none: the program as its table lets it.
    programs: BTreeMap<String, BTreeSet<String>>,
    /// Rules with every word, for programs without a table.
    exact: BTreeSet<String>,
    /// What was denied or stays denied, and why.
    denied: Vec<String>,
}

/// A call of a recorded run.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub input: Value,
    /// Why it was denied, if it was.
    pub denied: Option<String>,
}

/// Returns the text of the policy. What was denied and what no policy allows is in it as a comment, with the reason.
pub fn policy(calls: Vec<Recorded>, facts: &Facts) -> String {
    let mut wanted = Wanted::default();
    let open = Policy::builtin("open");
    let (denied, calls): (Vec<Recorded>, Vec<Recorded>) = calls.into_iter().partition(|call| call.denied.is_some());
    for Recorded { tool, input, denied } in denied {
        let reason = denied.unwrap_or_default();
        wanted.denied.push(format!("was denied: {tool} {}: {reason}", main_part(&input)));
    }
    for Recorded { tool, input, .. } in &calls {
        let (name, accesses) = match tool_accesses(tool, input) {
            Ok(found) => found,
            Err(denial) => {
                wanted.denied.push(format!("stays denied: {tool}: {}", denial.reason));
                continue;
            }
        };
        let is_command = name == ToolId::RunShellCommand.name();
        if !is_command && !open.as_ref().is_some_and(|open| check_call(open, facts, tool, input).is_allowed()) {
            // No rule can allow what even the open policy denies; the reason follows below.
            continue;
        }
        wanted.call(name, &accesses, facts);
    }
    let rules = wanted.rules();
    match load(&rules) {
        Err(error) => wanted.denied.push(format!("stays denied: this text does not load ({error})")),
        Ok(policy) => {
            for Recorded { tool, input, .. } in &calls {
                let decision = check_call(&policy, facts, tool, input);
                if !decision.is_allowed() {
                    let shown = main_part(input);
                    wanted.denied.push(format!("stays denied: {tool} {shown}: {}", decision.reason));
                }
            }
        }
    }
    let mut text = String::from(
        "# The smallest policy that would have allowed the recorded run. Read it before you use it:\n\
         # what the model happened to do is not what it should be allowed to do.\n",
    );
    let mut seen = BTreeSet::new();
    for denied in wanted.denied.iter().filter(|denied| seen.insert((*denied).clone())) {
        text.push_str(&format!("# {}\n", denied.replace(|c: char| c.is_control(), " ")));
    }
    text + &rules
}

fn main_part(input: &Value) -> String {
    let keys = ["command", "file_path", "path", "url", "pattern", "tool"];
    let found = keys.iter().find_map(|key| input.get(key).and_then(Value::as_str));
    found.unwrap_or_default().chars().take(120).collect()
}

fn load(text: &str) -> Result<Policy, super::layers::LayerError> {
    let layer = LayerText { name: "suggested".to_owned(), text: text.to_owned(), standing: Standing::Operator };
    Policy::new(&layer, &[], &crate::policy::layers::no_parents)
}

/// Quotes for YAML as JSON does, which YAML reads.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn list(items: impl IntoIterator<Item = String>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| quoted(&item)).collect();
    format!("[{}]", items.join(", "))
}

impl Wanted {
    /// Returns the narrowest rules that one call may need.
    pub(super) fn of(tool: &str, accesses: &[Access], facts: &Facts) -> Wanted {
        let mut wanted = Wanted::default();
        wanted.call(tool.to_owned(), accesses, facts);
        wanted
    }

    fn call(&mut self, tool: String, accesses: &[Access], facts: &Facts) {
        if tool != "mcp" {
            self.tools.insert(tool);
        }
        accesses.iter().for_each(|access| self.add(access, facts));
    }

    /// Returns the rules as they are added to a policy.
    pub(super) fn additions(&self) -> Additions {
        let all = |items: &BTreeSet<String>| items.iter().map(|item| quoted(item)).collect();
        let words = |items: &BTreeSet<String>| items.iter().map(|item| yaml_word(item)).collect::<Vec<_>>().join(", ");
        let programs = self.programs.iter().map(|(program, subcommands)| match subcommands.len() {
            0 => format!("{{cmd: [{}]}}", yaml_word(program)),
            1 => format!("{{cmd: [{}, {}]}}", yaml_word(program), words(subcommands)),
            _ => format!("{{cmd: [{}, [{}]]}}", yaml_word(program), words(subcommands)),
        });
        let servers =
            self.servers.iter().map(|(server, tools)| format!("{}: {{allow: [{}]}}", quoted(server), words(tools)));
        Additions {
            tools: self.tools.iter().map(|tool| yaml_word(tool)).collect(),
            read: all(&self.read),
            write: all(&self.write),
            run: programs.chain(self.exact.iter().cloned()).collect(),
            net: self.hosts.iter().map(|host| format!("{{host: {}}}", quoted(host))).collect(),
            servers: servers.collect(),
        }
    }

    fn add(&mut self, access: &Access, facts: &Facts) {
        match access {
            Access::Read { path } | Access::List { path } => {
                self.read.insert(glob_of(&path.display().to_string(), facts));
            }
            Access::Search { root, .. } => {
                let root = glob_of(&root.display().to_string(), facts);
                self.read.insert(if root == "." { "**".to_owned() } else { format!("{root}/**") });
                self.read.insert(root);
            }
            Access::Write { path } => {
                self.write.insert(glob_of(&path.display().to_string(), facts));
            }
            Access::Run { command, directory } => {
                self.command(command, directory.as_ref().and_then(|path| path.to_str()), facts);
            }
            Access::Fetch { url, .. } => {
                if let Some(host) = url::Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned)) {
                    self.hosts.insert(host);
                }
            }
            Access::Mcp { server, tool, .. } => {
                self.servers.entry(server.clone()).or_default().insert(tool.clone());
            }
            Access::Discovered { .. } | Access::Memory { .. } => {}
        }
    }

    /// Adds rules until the command is allowed, or denied for a reason that no such rule lifts.
    fn command(&mut self, command: &str, directory: Option<&str>, facts: &Facts) {
        for _ in 0..MOST_RULES {
            let Ok(policy) = load(&self.with_every_path().rules()) else { return };
            let (steps, judged) = judge_in_steps(command, directory, &Answers::new(&policy, facts));
            let denial = match judged {
                Ok(approved) => {
                    for effect in &approved.effects {
                        self.effect(effect, facts);
                    }
                    return;
                }
                Err(denial) => denial,
            };
            let missing = denial.rule.as_ref().is_some_and(|rule| rule.rule == "G1" || rule.rule == "G11");
            let Some(step) = steps.last().filter(|step| missing && step.outcome.is_err()) else { return };
            let words = words(&step.command);
            if !self.allow(&words, &step.command, directory, facts) {
                return;
            }
        }
    }

    /// Adds the narrowest rule that lets one program run; `false` if none does.
    fn allow(&mut self, words: &[String], command: &str, directory: Option<&str>, facts: &Facts) -> bool {
        let Some((program, rest)) = words.split_first() else { return false };
        let mut candidates = Vec::new();
        if let Some(table) = programs::find(program) {
            let leading = rest.iter().take_while(|word| !word.starts_with('-')).take(2).map(|word| yaml_word(word));
            let leading: Vec<String> = std::iter::once(yaml_word(program)).chain(leading).collect();
            let mut by_words = self.clone();
            by_words.exact.insert(format!("{{cmd: [{}]}}", leading.join(", ")));
            // What a script does is in its name.
            if leading.len() == 3 && ["run", "run-script"].contains(&leading[1].as_str()) {
                candidates.push(by_words.clone());
            }
            let subcommands = rest.iter().filter(|word| !word.starts_with('-'));
            if !table.subcommands.is_empty() {
                for word in subcommands.take(MOST_WORDS) {
                    let mut wanted = self.clone();
                    wanted.programs.entry(program.clone()).or_default().insert(word.clone());
                    candidates.push(wanted);
                }
            } else {
                let mut wanted = self.clone();
                wanted.programs.entry(program.clone()).or_default();
                candidates.push(wanted);
            }
            if leading.len() > 1 {
                candidates.push(by_words);
            }
        }
        let mut exact = self.clone();
        let places: Vec<String> = rest.iter().map(|word| list([word.clone()])).collect();
        let args = if places.is_empty() { String::new() } else { format!(", args: [{}]", places.join(", ")) };
        exact.exact.insert(format!("{{cmd: {}{args}}}", list([program.clone()])));
        candidates.push(exact);
        for candidate in candidates {
            let Ok(policy) = load(&candidate.with_every_path().rules()) else { continue };
            let (steps, judged) = judge_in_steps(command, directory, &Answers::new(&policy, facts));
            // What it starts in turn may still be missing.
            if judged.is_ok() || steps.first().is_some_and(|step| step.outcome.is_ok()) {
                *self = candidate;
                return true;
            }
        }
        false
    }

    fn effect(&mut self, effect: &str, facts: &Facts) {
        let Some((verb, path)) = effect.split_once(' ') else { return };
        let below = path.strip_prefix("everything below ").or_else(|| path.strip_prefix("anything below "));
        let (path, whole) = match below {
            Some(path) => (glob_of(path, facts), true),
            None => (glob_of(path, facts), verb == "read"),
        };
        let list = match verb {
            "read" => &mut self.read,
            "write" | "delete" | "create" => &mut self.write,
            _ => return,
        };
        if whole {
            list.insert(format!("{path}/**"));
        }
        list.insert(path);
    }

    fn with_every_path(&self) -> Wanted {
        let mut all = self.clone();
        all.read = ["**".to_owned()].into();
        all.write = ["**".to_owned()].into();
        all.tools.insert(ToolId::RunShellCommand.to_string());
        all
    }

    fn rules(&self) -> String {
        let mut text =
            format!("version: 1\nname: suggested\nchanges: dry-run\ntools: {{allow: {}}}\n", list(self.tools.clone()));
        let everything = self.read.contains("**");
        let read: BTreeSet<String> = if everything { ["**".to_owned()].into() } else { self.read.clone() };
        text.push_str("paths:\n");
        text.push_str(&format!("  read: {{allow: {}}}\n", list(read)));
        if !self.write.is_empty() {
            text.push_str(&format!("  write: {{allow: {}}}\n", list(self.write.clone())));
        }
        if !self.programs.is_empty() || !self.exact.is_empty() {
            text.push_str("shell:\n  default: deny\n  allow:\n");
            for (program, subcommands) in &self.programs {
                let words = quoted(program);
                text.push_str(&match subcommands.is_empty() {
                    true => format!("    - {{cmd: [{words}]}}\n"),
                    false => format!("    - {{cmd: [{words}, {}]}}\n", list(subcommands.clone())),
                });
            }
            for rule in &self.exact {
                text.push_str(&format!("    - {rule}\n"));
            }
        }
        if !self.hosts.is_empty() {
            let hosts: Vec<String> = self.hosts.iter().map(|host| format!("{{host: {}}}", quoted(host))).collect();
            text.push_str(&format!("network:\n  allow: [{}]\n", hosts.join(", ")));
        }
        if !self.servers.is_empty() {
            text.push_str("mcp:\n  default: deny\n  servers:\n");
            for (server, tools) in &self.servers {
                text.push_str(&format!("    {}: {{allow: {}}}\n", quoted(server), list(tools.clone())));
            }
        }
        text
    }
}

/// Returns a path relative to the workspace as a glob that means it alone.
fn glob_of(path: &str, facts: &Facts) -> String {
    let root = facts.root.display().to_string();
    let below = path.strip_prefix(&root).map(|rest| rest.trim_start_matches('/')).unwrap_or(path);
    let below = below.trim_start_matches("./").trim_end_matches('/');
    let below = if below.is_empty() { "." } else { below };
    below.replace(['*', '?', '[', ']', '{', '}', '\\', '!'], "?")
}

/// Splits a simple command of our own printing into its words.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = None::<String>;
    let mut quote = None;
    let mut letters = command.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (None, ' ' | '\t' | '\n') => words.extend(word.take()),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (Some(open), close) if open == close => quote = None,
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(letters.next()),
            (_, letter) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::policy::explain::tests::facts_of_nothing;

    fn suggested(calls: &[(&str, Value)]) -> String {
        let call =
            |(tool, input): &(&str, Value)| Recorded { tool: (*tool).to_owned(), input: input.clone(), denied: None };
        policy(calls.iter().map(call).collect(), &facts_of_nothing())
    }

    #[test]
    fn what_was_done_is_allowed_and_its_like_is_not() {
        let shell = |command: &str| ("run_shell_command", json!({"command": command}));
        let calls = [
            ("read_file", json!({"file_path": "src/a.rs"})),
            ("edit", json!({"file_path": "src/a.rs", "old_string": "x", "new_string": "y"})),
            shell("git status && git log -3 | head -5"),
            shell("timeout 60 cargo test > out/log.txt"),
            shell("mytool --json x"),
            ("mcp", json!({"server": "github", "tool": "get_issue", "arguments": {}})),
            ("read_file", json!({"file_path": ".env"})),
            shell("sudo id"),
        ];
        insta::assert_snapshot!(suggested(&calls), @r#"
        # The smallest policy that would have allowed the recorded run. Read it before you use it:
        # what the model happened to do is not what it should be allowed to do.
        # stays denied: read_file .env: `.env` is never read (.env)
        # stays denied: run_shell_command sudo id: sudo is never allowed
        version: 1
        name: suggested
        changes: dry-run
        tools: {allow: ["edit", "read_file", "run_shell_command"]}
        paths:
          read: {allow: ["src/a.rs"]}
          write: {allow: ["out/log.txt", "src/a.rs"]}
        shell:
          default: deny
          allow:
            - {cmd: ["cargo", ["test"]]}
            - {cmd: ["git", ["log", "status"]]}
            - {cmd: ["head"]}
            - {cmd: ["mytool"], args: [["--json"], ["x"]]}
        mcp:
          default: deny
          servers:
            "github": {allow: ["get_issue"]}
        "#);
    }
}
