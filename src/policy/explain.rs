//! Explains a decision to a person: what the call would do, part by part, which rule applies, and what would help.

use serde_json::Value;

use super::access::Access;
use super::check::tool_accesses;
use super::choose::REPOSITORY;
use super::commands::Answers;
use super::decision::{Decision, Denial, RuleRef, Verdict};
use super::glob::Glob;
use super::grant::{CommandPlan, Grant, Network, TreeAccess};
use super::layers::Layer;
use super::remedy::Remedy;
use super::rules::Rule;
use super::shell::{Step, judge_in_steps};
use super::{Facts, Policy};
use crate::tool_name::tool_named;

/// The rules that no file states, by the names that denials carry.
pub(crate) const BUILT_IN: &[(&str, &str)] = &[
    ("G1", "what no rule allows is denied"),
    ("G2", "every program in a command must be allowed by itself"),
    ("G3", "a command must be understood before it may run"),
    ("G4", "programs that start other programs are checked with them, or denied"),
    ("G5", "only harmless variables may be set for a command"),
    ("G6", "redirections are file accesses"),
    ("G7", "rules name programs by their bare names, found through PATH"),
    ("G8", "some options of known programs are always denied, in every spelling"),
    ("G9", "only harmless shell builtins run"),
    ("G10", "file rules apply to commands, too"),
    ("G11", "git starts none of the programs that a repository or user configures"),
    ("G12", "hosts are decided by `network.shell`"),
    ("F1", "a path is judged by the file that it resolves to"),
    ("F2", "files outside the workspace are neither read nor written"),
    ("F3", "files that contain secrets are never read"),
    ("F4", "files that change what runs later are never written"),
    ("F5", "denied names are denied in every spelling"),
    ("F6", "links are judged by their targets, and never written through"),
    ("F7", "a path is plain text without control characters"),
    ("F8", "a search stays inside the workspace and away from denied files"),
    ("tools", "a tool must be named by `tools.allow`"),
    ("mcp", "an MCP tool must be named by `mcp.servers`"),
    ("web", "web addresses are judged by `network`"),
];

/// Explains a decision.
pub fn explain(policy: &Policy, facts: &Facts, tool: &str, input: &Value) -> String {
    let call = tool_accesses(tool, input);
    let (decision, grant) = match &call {
        Ok((tool, accesses)) => policy.authorize(tool, accesses, facts),
        Err(denial) => (denial.clone().into(), None),
    };
    let name = tool_named(tool).map_or(tool, |tool| tool.name());
    let verdict = match decision.verdict {
        Verdict::Allow => "ALLOWED",
        Verdict::Deny => "DENIED",
    };
    let accesses = call.map(|(_, accesses)| accesses).unwrap_or_default();
    let command = accesses.iter().find_map(|access| match access {
        Access::Run { command, directory } => Some((command.as_str(), directory)),
        _ => None,
    });
    let mut text = Text::default();
    match command {
        Some((command, _)) => text.line(0, &format!("{verdict}: {}", one_line(command))),
        None => text.line(0, format!("{verdict}: {name} {}", subject(input)).trim_end()),
    }
    text.line(0, "");
    text.why(policy, &decision, command.is_some());
    if let Some((command, directory)) = command {
        let folder = directory.as_ref().and_then(|path| path.to_str());
        text.steps(policy, command, judge_in_steps(command, folder, &Answers::new(policy, facts)));
    } else if !decision.effects.is_empty() {
        text.line(0, "");
        text.line(0, "what it would do:");
        decision.effects.iter().for_each(|effect| text.line(1, effect));
    }
    if let Some(plan) = grant.as_ref().and_then(Grant::command) {
        text.isolation(policy, plan);
    } else if decision.verdict == Verdict::Deny {
        text.remedy(policy, &decision, policy.remedy(name, &accesses, facts));
    }
    text.line(0, "");
    text.line(0, "policies checked; all of them must allow it:");
    for layer in policy.layers.iter() {
        let role = match layer.grants {
            true => "anything it does not allow is denied",
            false => "it can only restrict",
        };
        text.line(1, &format!("{}: {role}", layer.origin.source));
    }
    text.0.trim_end().to_owned()
}

/// Lines, each indented.
#[derive(Default)]
struct Text(String);

impl Text {
    fn line(&mut self, indent: usize, content: &str) {
        self.0.push_str(&"  ".repeat(indent));
        self.0.push_str(&crate::path::one_line(content.as_ref()));
        self.0.push('\n');
    }

    fn why(&mut self, policy: &Policy, decision: &Decision, of_command: bool) {
        match (decision.verdict, &decision.rule) {
            (Verdict::Allow, Some(rule)) if !of_command => {
                self.line(0, &format!("why: {} allows it, and no rule denies it", shown(policy, rule)));
            }
            (Verdict::Allow, _) => self.line(0, "why: every part is allowed, and no rule denies any"),
            (Verdict::Deny, rule) => {
                self.line(0, &format!("why: {}", decision.reason));
                if let Some(rule) = rule {
                    self.line(0, &format!("rule: {}", shown(policy, rule)));
                }
            }
        }
        if let Some(hint) = &decision.hint {
            self.line(0, &format!("hint: {hint}"));
        }
    }

    fn steps<T>(&mut self, policy: &Policy, command: &str, (steps, judged): (Vec<Step>, Result<T, Denial>)) {
        self.line(0, "");
        self.line(0, "what it would do, program by program:");
        if steps.is_empty() {
            self.line(1, "nothing: no program is started");
        }
        for step in &steps {
            self.line(1 + step.depth, &one_line(&step.command));
            self.line(3 + step.depth, &outcome(policy, step));
            for effect in &step.effects {
                self.line(3 + step.depth, &format!("would {effect}"));
            }
        }
        let stopped = steps.last().is_some_and(|step| step.outcome.is_err());
        let is_whole = |step: &Step| one_line(&step.command) == one_line(command);
        if stopped && !steps.last().is_some_and(is_whole) {
            self.line(1, "the rest was not checked: one denied part denies the whole command");
        } else if !stopped && judged.is_err() && !steps.is_empty() {
            self.line(1, "each of these is allowed; another part of the command is not:");
        }
    }

    /// Says what the command would have: a command that needs a network fails without one, although it is allowed.
    fn isolation(&mut self, policy: &Policy, plan: &CommandPlan) {
        let network = match &plan.profile.network {
            Network::Any => "any host".to_owned(),
            Network::Hosts(hosts) => hosts.join(", "),
            Network::None if policy.network_shell() == Network::None => {
                "none; a command that needs one fails (`network.shell` names hosts for builds and tests)".to_owned()
            }
            Network::None => "none".to_owned(),
        };
        let files = match plan.profile.tree {
            TreeAccess::ReadOnly => "it can only read",
            TreeAccess::Writable => "it can write to a private copy; each change is checked",
        };
        self.line(0, "");
        self.line(0, "how it would run:");
        self.line(1, &format!("network: {network}"));
        self.line(1, &format!("files: {files}"));
    }

    /// Says what to write so that a denied call is allowed, or that nothing does.
    fn remedy(&mut self, policy: &Policy, decision: &Decision, remedy: Result<Remedy, String>) {
        self.line(0, "");
        match (remedy, &decision.rule) {
            (Ok(remedy), _) => {
                self.line(0, &format!("to allow it, add to the lists of {}:", remedy.files.join(", and to those of ")));
                remedy.lines.iter().for_each(|line| self.line(1, line));
                let is_builtin = remedy.files.iter().any(|file| file.starts_with("builtin:"));
                if is_builtin && policy.layers.iter().any(|layer| layer.origin.source == REPOSITORY) {
                    self.line(0, &format!("{REPOSITORY} only restricts until you approve it: qwen policy trust"));
                } else if is_builtin {
                    self.line(0, "a built-in policy is fixed; to write your own: qwen help policy-for-my-project");
                }
            }
            (Err(_), Some(rule)) if rule.rule.contains(".deny") => {
                let (rule, file) = (&rule.rule, &rule.source);
                self.line(0, &format!("no added rule allows it: {rule} in {file} takes precedence"));
            }
            (Err(reason), _) if reason == decision.reason => self.line(0, "no added rule allows it"),
            (Err(reason), _) => self.line(0, &format!("no added rule allows it: {reason}")),
        }
    }
}

/// Returns what a call of a tool other than the shell is about.
fn subject(input: &Value) -> String {
    let text = |key: &&str| input.get(*key).and_then(Value::as_str);
    let found = ["file_path", "path", "url", "pattern", "tool"].iter().find_map(text).unwrap_or_default();
    one_line(found)
}

fn one_line(command: &str) -> String {
    command.trim().replace('\n', "; ")
}

fn outcome(policy: &Policy, step: &Step) -> String {
    match &step.outcome {
        Ok(Some(rule)) => format!("allowed by {}", shown(policy, rule)),
        Ok(None) => "harmless, or only starts the program below it".to_owned(),
        Err(_) => "denied".to_owned(),
    }
}

/// Shows a rule: its text and place in a file, or what the built-in one says.
fn shown(policy: &Policy, rule: &RuleRef) -> String {
    if let Some((_, meaning)) = BUILT_IN.iter().find(|(name, _)| *name == rule.rule && rule.source == "builtin") {
        return format!("{meaning} [{}, built in]", rule.rule);
    }
    match policy.layers.iter().find_map(|layer| text_of(layer, rule)) {
        Some(text) => format!("`{text}` [{}, {}]", rule.rule, rule.source),
        None => format!("{} [{}]", rule.rule, rule.source),
    }
}

fn text_of(layer: &Layer, rule: &RuleRef) -> Option<String> {
    let is_it = |found: &RuleRef| found == rule;
    let mut commands = layer.rules.shell.allow.iter().flatten().chain(&layer.rules.shell.deny);
    if let Some(found) = commands.find(|found| is_it(&found.at)) {
        let words: Vec<String> = found.value.cmd.iter().map(|element| element.0.join("|")).collect();
        return Some(words.join(" "));
    }
    let names = layer.rules.tools.allow.iter().flatten().chain(&layer.rules.tools.deny);
    let globs = [&layer.rules.paths.read.deny, &layer.rules.paths.write.deny, &layer.rules.paths.protected];
    let globs = globs.into_iter().flatten().chain(layer.rules.paths.read.allow.iter().flatten());
    let globs = globs.chain(layer.rules.paths.write.allow.iter().flatten());
    let name = |found: &Rule<String>| is_it(&found.at).then(|| found.value.clone());
    let glob = |found: &Rule<Glob>| is_it(&found.at).then(|| found.value.text().to_owned());
    names.into_iter().find_map(name).or_else(|| globs.into_iter().find_map(glob))
}

#[cfg(test)]
pub(in crate::policy) mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::policy::layers::{LayerText, Standing};

    const POLICY: &str = "\
version: 1
name: team
tools: {allow: [read_file, edit, run_shell_command]}
paths:
  read: {allow: ['**']}
  write: {allow: ['src/**']}
shell:
  allow:
    - {cmd: [git, [status, diff, log]]}
    - {cmd: [cargo, [check, test]]}
    - {cmd: [[cat, tail, rm]]}
  deny:
    - {cmd: [git, push], reason: 'CI pushes'}
";

    fn told(tool: &str, input: &Value) -> String {
        let first = LayerText { name: "team.yaml".to_owned(), text: POLICY.to_owned(), standing: Standing::Operator };
        let narrowing = LayerText {
            name: ".qwen/policy.yaml".to_owned(),
            text: "version: 1\nname: repo\npaths: {write: {deny: ['src/generated/**']}}\n".to_owned(),
            standing: Standing::Repository,
        };
        let policy = Policy::new(&first, &[narrowing], &crate::policy::layers::no_parents).unwrap();
        let facts = facts_of_nothing();
        explain(&policy, &facts, tool, input)
    }

    fn command(text: &str) -> String {
        told("run_shell_command", &json!({"command": text}))
    }

    /// A disk with the workspace and nothing in it.
    struct Nothing;

    impl crate::path::Tree for Nothing {
        fn look(&self, path: &std::path::Path) -> std::io::Result<Option<crate::path::Node>> {
            let folders: BTreeMap<&str, ()> = [("/", ()), ("/project", ()), ("/project/src", ())].into();
            Ok(folders.contains_key(path.to_str().unwrap_or_default()).then_some(crate::path::Node::Dir))
        }
        fn names(&self, _path: &std::path::Path) -> std::io::Result<Vec<std::ffi::OsString>> {
            Ok(Vec::new())
        }
    }

    /// The facts of a workspace `/project` on this disk.
    pub(in crate::policy) fn facts_of_nothing() -> Facts {
        Facts {
            root: "/project".into(),
            included: Vec::new(),
            outputs: None,
            home: "/home/u".to_owned(),
            tree: Arc::new(Nothing),
            git: crate::policy::GitFacts::default(),
        }
    }

    #[test]
    fn ten_cases_read_well() {
        let cases = [
            command("git status && cargo test 2>&1 | tail -5"),
            command("git push origin main"),
            command("cat .env"),
            command("echo hi > .github/workflows/x.yml"),
            command("git status; rm -rf src; cargo check"),
            command("eval \"$X\""),
            command("timeout 10 cargo test"),
            told("edit", &json!({"file_path": "src/lib.rs"})),
            told("edit", &json!({"file_path": "src/generated/a.rs"})),
            told("web_fetch", &json!({"url": "https://docs.rs/"})),
        ];
        let all = cases.join("\n----\n");
        insta::assert_snapshot!(all, @r#"
        ALLOWED: git status && cargo test 2>&1 | tail -5

        why: every part is allowed, and no rule denies any

        what it would do, program by program:
          git status
              allowed by `git status|diff|log` [shell.allow[0], team.yaml:9]
          cargo test
              allowed by `cargo check|test` [shell.allow[1], team.yaml:10]
          tail -5
              allowed by `cat|tail|rm` [shell.allow[2], team.yaml:11]

        how it would run:
          network: none; a command that needs one fails (`network.shell` names hosts for builds and tests)
          files: it can write to a private copy; each change is checked

        policies checked; all of them must allow it:
          team.yaml: anything it does not allow is denied
          .qwen/policy.yaml: it can only restrict
        ----
        DENIED: git push origin main

        why: `git push` is denied: CI pushes
        rule: `git push` [shell.deny[0], team.yaml:13]

        what it would do, program by program:
          git push origin main
              denied

        no added rule allows it: shell.deny[0] in team.yaml:13 takes precedence

        policies checked; all of them must allow it:
          team.yaml: anything it does not allow is denied
          .qwen/policy.yaml: it can only restrict
        ----
        DENIED: cat .env

        why: `.env` is never read (.env)
        rule: files that contain secrets are never read [F3, built in]

        what it would do, program by program:
          cat .env
              denied
              would read .env

        no added rule allows it

        policies checked; all of them must allow it:
          team.yaml: anything it does not allow is denied
          .qwen/policy.yaml: it can only restrict
        ----
        DENIED: echo hi > .github/workflows/x.yml

        why: `.github/workflows/x.yml` is protected (.github)
        rule: files that change what runs later are never written [F4, built in]

        what it would do, program by program:
          nothing: no program is started

        no added rule allows it

        policies checked; all of them must allow it:
          team.yaml: anything it does not allow is denied
          .qwen/policy.yaml: it can only restrict
        ----
        DENIED: git status; rm -rf src; cargo check

        why: rm: the option `-r` is denied
        rule: some options of known programs are always denied, in every spelling [G8, built in]

        what it would do, program by program:
          git status
              allowed by `git status|diff|log` [shell.allow[0], team.yaml:9]
          rm -rf src
              denied
          the rest was not checked: one denied part denies the whole command

        no added rule allows it

        policies checked; all of them must allow it:
          team.yaml: anything it does not allow is denied
          .qwen/policy.yaml: it can only restrict
        ----
        DENIED: eval "$X"

        why: the value of `$X` is not known
        hint: write the value itself; only $HOME, $PWD, $? and variables of `for` are known

        what it would do, program by program:
          nothing: no program is started

        no added rule allows it

        policies checked; all of them must allow it:
          team.yaml: anything it does not allow is denied
          .qwen/policy.yaml: it can only restrict
        ----
        ALLOWED: timeout 10 cargo test

        why: every part is allowed, and no rule denies any

        what it would do, program by program:
            cargo test
                allowed by `cargo check|test` [shell.allow[1], team.yaml:10]

        how it would run:
          network: none; a command that needs one fails (`network.shell` names hosts for builds and tests)
          files: it can write to a private copy; each change is checked

        policies checked; all of them must allow it:
          team.yaml: anything it does not allow is denied
          .qwen/policy.yaml: it can only restrict
        ----
        ALLOWED: edit src/lib.rs

        why: `edit` [tools.allow[1], team.yaml:3] allows it, and no rule denies it

        what it would do:
          read src/lib.rs
          write src/lib.rs

        policies checked; all of them must allow it:
          team.yaml: anything it does not allow is denied
          .qwen/policy.yaml: it can only restrict
        ----
        DENIED: edit src/generated/a.rs

        why: `src/generated/a.rs` matches `src/generated/**`, which may not be written
        rule: `src/generated/**` [paths.write.deny[0], .qwen/policy.yaml:3]

        what it would do:
          read src/generated/a.rs
          write src/generated/a.rs

        no added rule allows it: paths.write.deny[0] in .qwen/policy.yaml:3 takes precedence

        policies checked; all of them must allow it:
          team.yaml: anything it does not allow is denied
          .qwen/policy.yaml: it can only restrict
        ----
        DENIED: web_fetch https://docs.rs/

        why: `tools.allow` in team.yaml does not name web_fetch
        rule: a tool must be named by `tools.allow` [tools, built in]

        to allow it, add to the lists of team.yaml:
          tools: {allow: [web_fetch]}
          network: {allow: [{host: "docs.rs"}]}

        policies checked; all of them must allow it:
          team.yaml: anything it does not allow is denied
          .qwen/policy.yaml: it can only restrict
        "#);
    }
}
