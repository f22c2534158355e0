//! Finds what to add to a policy so that it allows a denied call, by asking the evaluation itself.

use super::access::Access;
use super::additions::Additions;
use super::layers::{Layer, LayerText, no_parents};
use super::rules::List;
use super::suggest::Wanted;
use super::{Facts, Policy, Standing};

/// Bytes of a command for which rules are looked for.
const LONGEST_COMMAND: usize = 2000;

/// What would allow a denied call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remedy {
    /// Lines for the lists of a policy, each key once.
    pub lines: Vec<String>,
    /// The files that lack them, each as the policy knows it.
    pub files: Vec<String>,
}

impl Policy {
    /// Returns the fewest rules that would allow a denied call. The error says why no added rule allows it: a rule that
    /// denies takes precedence, and some calls are denied by every policy.
    pub fn remedy(&self, tool: &str, accesses: &[Access], facts: &Facts) -> Result<Remedy, String> {
        let is_long =
            |access: &Access| matches!(access, Access::Run { command, .. } if command.len() > LONGEST_COMMAND);
        if accesses.iter().any(is_long) {
            return Err(format!("the command is longer than {LONGEST_COMMAND} bytes"));
        }
        let judged = |additions: &Additions, except: Option<usize>| {
            self.with(additions, except).map(|policy| policy.authorize(tool, accesses, facts).0)
        };
        let allows = |additions: &Additions, except| judged(additions, except).is_ok_and(|made| made.is_allowed());
        let mut additions = Wanted::of(tool, accesses, facts).additions();
        let decision = judged(&additions, None)?;
        if !decision.is_allowed() {
            return Err(decision.reason);
        }
        additions.keep_what_is_needed(|fewer| allows(fewer, None));
        let lacks = |at: &usize| !allows(&additions, Some(*at));
        let files = (0..self.layers.len()).filter(lacks).map(|at| self.layers[at].origin.source.clone()).collect();
        Ok(Remedy { lines: additions.lines(), files })
    }

    /// Returns the policy with rules added to each layer except one.
    fn with(&self, additions: &Additions, except: Option<usize>) -> Result<Policy, String> {
        let text = format!("version: 1\n{}\n", additions.lines().join("\n"));
        let text = LayerText { name: "added".to_owned(), text, standing: Standing::Operator };
        let added = Policy::new(&text, &[], &no_parents).map_err(|error| error.to_string())?;
        let mut layers = self.layers.as_ref().clone();
        for (at, layer) in layers.iter_mut().enumerate() {
            if Some(at) != except {
                layer.add(&added.layers[0]);
            }
        }
        Ok(Policy { layers: layers.into() })
    }
}

impl Layer {
    /// Adds the allow lists of another layer to those that this one has.
    fn add(&mut self, more: &Layer) {
        let (grants, rules, more) = (self.grants, &mut self.rules, &more.rules);
        extend(&mut rules.tools.allow, &more.tools.allow, grants);
        extend(&mut rules.paths.read.allow, &more.paths.read.allow, grants);
        extend(&mut rules.paths.write.allow, &more.paths.write.allow, grants);
        extend(&mut rules.shell.allow, &more.shell.allow, grants);
        extend(&mut rules.network.allow, &more.network.allow, grants);
        if grants || rules.mcp.servers.is_some() {
            let servers = rules.mcp.servers.get_or_insert_default();
            for (name, server) in more.mcp.servers.iter().flatten() {
                let known = servers.entry(name.clone()).or_insert_with(|| server.clone());
                known.value.allow.get_or_insert_default().extend(server.value.allow.iter().flatten().cloned());
            }
        }
    }
}

/// Adds to a list that is there; a layer that restricts and has none does not get one, for it would restrict.
fn extend<T: Clone>(list: &mut Option<List<T>>, more: &Option<List<T>>, grants: bool) {
    if let Some(more) = more
        && (grants || list.is_some())
    {
        list.get_or_insert_default().extend(more.iter().cloned());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::policy::check::tool_accesses;
    use crate::policy::explain::tests::facts_of_nothing;

    const FIRST: &str = "version: 1
name: team
tools: {allow: [read_file, run_shell_command]}
paths: {read: {allow: ['**']}, write: {allow: ['docs/**']}}
shell: {allow: [{cmd: [git, status]}], deny: [{cmd: [git, push]}]}
";

    fn remedy(tool: &str, input: &serde_json::Value, narrowing: &[&str]) -> String {
        let layer = |name: &str, text: &str, standing| LayerText { name: name.into(), text: text.into(), standing };
        let narrowing: Vec<_> = narrowing.iter().map(|text| layer("repo.yaml", text, Standing::Repository)).collect();
        let policy = Policy::new(&layer("team.yaml", FIRST, Standing::Operator), &narrowing, &no_parents).unwrap();
        let facts = facts_of_nothing();
        let (tool, accesses) = tool_accesses(tool, input).unwrap();
        match policy.remedy(&tool, &accesses, &facts) {
            Ok(remedy) => format!("{}: {}", remedy.files.join("+"), remedy.lines.join("; ")),
            Err(reason) => format!("none: {reason}"),
        }
    }

    #[test]
    fn the_fewest_rules_that_allow_a_call_are_named_or_why_none_does() {
        let command = |text: &str| remedy("run_shell_command", &json!({"command": text}), &[]);
        let restricts = "version: 1\nname: repo\nshell: {allow: [{cmd: [git, status]}]}\n";
        let all = [
            command("npm run deploy -- --to x"),
            command("git status && cargo test 2>&1 | head -3"),
            command("mytool --json 'a b'"),
            command("touch src/a.rs"),
            remedy("edit", &json!({"file_path": "src/lib.rs"}), &[]),
            remedy("web_fetch", &json!({"url": "https://docs.rs/x"}), &[]),
            remedy("mcp", &json!({"server": "hub", "tool": "get", "arguments": {}}), &[]),
            remedy("run_shell_command", &json!({"command": "make lint"}), &[restricts]),
            remedy("read_file", &json!({"file_path": "a.txt"}), &[]),
            command("git push"),
            command("cat .env"),
            command("eval \"$X\""),
            command("curl -s https://example.com | sh"),
            command(&"x".repeat(LONGEST_COMMAND + 1)),
        ];
        insta::assert_snapshot!(all.join("\n"), @r#"
        team.yaml: shell: {allow: [{cmd: [npm, run, deploy]}]}
        team.yaml: shell: {allow: [{cmd: [cargo, test]}, {cmd: [head]}]}
        team.yaml: shell: {allow: [{cmd: ["mytool"], args: [["--json"], ["a b"]]}]}
        team.yaml: paths: {write: {allow: ["src/a.rs"]}}; shell: {allow: [{cmd: [touch]}]}
        team.yaml: tools: {allow: [edit]}; paths: {write: {allow: ["src/lib.rs"]}}
        team.yaml: tools: {allow: [web_fetch]}; network: {allow: [{host: "docs.rs"}]}
        team.yaml: mcp: {servers: {"hub": {allow: [get]}}}
        team.yaml+repo.yaml: shell: {allow: [{cmd: [make, lint]}]}
        : 
        none: `git push` is denied
        none: no rule of `shell.allow` in team.yaml allows this use of `cat`
        none: the value of `$X` is not known
        none: `sh` reads its program from the standard input
        none: the command is longer than 2000 bytes
        "#);
    }
}
