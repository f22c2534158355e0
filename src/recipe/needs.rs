//! Defines what a recipe requires of the policy: the run may do what both allow.

use super::file::{NeededCommand, Needs, Text};
use crate::base::{Code, Diagnostic, Span, Spanned};
use crate::policy::Policy;
use crate::policy::additions::{Additions, yaml_word};
use crate::policy::file::{
    CommandRule, DefaultRule, Element, HostRule, Hosts, Mcp, Names, Network, Paths, PolicyFile, ReadPaths, Shell,
    WritePaths,
};
use crate::policy::layers::Layer;
use crate::tool_name::{READING, ToolId, WRITING};

/// Tools that reach the web.
const WEB: [ToolId; 2] = [ToolId::WebFetch, ToolId::WebSearch];
/// Tools that run commands.
const RUNNING: [ToolId; 1] = [ToolId::RunShellCommand];
/// Tools that do what neither reading nor answering is.
const ACTING: [ToolId; 7] = [
    ToolId::Edit,
    ToolId::WriteFile,
    ToolId::RunShellCommand,
    ToolId::WebFetch,
    ToolId::WebSearch,
    ToolId::SaveMemory,
    ToolId::Task,
];

/// Splits a command pattern into its words; `true` with `**` at the end. The error says what is wrong.
pub fn command(pattern: &str) -> Result<(Vec<&str>, bool), String> {
    let mut words: Vec<&str> = pattern.split_whitespace().collect();
    let open = words.last() == Some(&"**");
    if open {
        words.pop();
    }
    if words.is_empty() && !open {
        return Err("a command pattern is the first words of a command, and `**` for whatever follows".to_owned());
    }
    if let Some(word) = words.iter().find(|word| word.contains(['*', '?', '[', '{', '\'', '"', '$', '`', '\\'])) {
        return Err(format!("`{word}`: the words of a command pattern are literal; only `**` may end it"));
    }
    Ok((words, open))
}

/// Returns the parameter whose command a pattern means.
pub fn of_param(pattern: &str) -> Option<&str> {
    pattern.trim().strip_prefix("param:")
}

/// Returns the recipe's needs as a policy layer that narrows. `answer_only` takes away every tool that does more than
/// read and answer: untrusted text is in the prompt.
pub(crate) fn layer(recipe: &str, needs: Option<&Needs>, answer_only: bool) -> Result<Layer, Diagnostic> {
    let none = Needs::default();
    let needs = needs.unwrap_or(&none);
    let denied = denied(needs, answer_only);
    let nothing = (needs.tools.is_some() || answer_only).then(Vec::new);
    let spanned = |tool: ToolId| Spanned { value: tool.to_string(), span: Span::START };
    let file = PolicyFile {
        name: Some(format!("recipe {recipe}")),
        tools: Some(Names {
            allow: needs.tools.as_ref().map(|named| globs([Some(named)])),
            deny: denied.into_iter().map(spanned).collect(),
        }),
        paths: Some(Paths {
            read: Some(ReadPaths { allow: Some(globs([needs.read.as_ref()])), deny: Vec::new() }),
            write: Some(WritePaths {
                allow: Some(globs([
                    needs.write.as_ref(),
                    needs.create.as_ref(),
                    needs.delete.as_ref(),
                    // Guards see to it that only `finish` writes these.
                    Some(&needs.finished),
                ])),
                create: Some(is_needed(&needs.create) || !needs.finished.is_empty()),
                delete: Some(is_needed(&needs.delete)),
                ..WritePaths::default()
            }),
            protected: None,
        }),
        shell: commands(needs.run.as_deref().unwrap_or_default(), &needs.commands),
        network: Some(Network {
            default: Some(DefaultRule::Deny),
            allow: Some(
                needs
                    .net
                    .iter()
                    .flatten()
                    .map(|host| at(host, HostRule { host: host.value.clone(), path: None }))
                    .collect(),
            ),
            ..Network::default()
        }),
        mcp: nothing.is_some().then(|| Mcp { default: Some(DefaultRule::Deny), ..Mcp::default() }),
        discovered_tools: nothing.map(|allow| Names { allow: Some(allow), deny: Vec::new() }),
        ..PolicyFile::default()
    };
    let whole = serde_json::to_string(needs).unwrap_or_default();
    let given = format!("{:?}", (&needs.commands, &needs.finished));
    Layer::made(&format!("recipe:{recipe}"), &format!("{recipe} {answer_only} {whole} {given}"), file)
}

/// Returns what untrusted text in the prompt takes away where the run may still propose: every way out.
pub(crate) fn without_network() -> Result<Layer, Diagnostic> {
    without("untrusted_input: propose", WEB.into_iter().chain([ToolId::SaveMemory]))
}

/// Returns what untrusted text in the prompt takes away where the run may only answer: every tool that acts.
pub(crate) fn answer_only() -> Result<Layer, Diagnostic> {
    without("untrusted_input: answer_only", ACTING.into_iter())
}

/// Returns a layer without these tools, and without network and servers.
fn without(name: &str, tools: impl Iterator<Item = ToolId>) -> Result<Layer, Diagnostic> {
    let spanned = |tool: ToolId| Spanned { value: tool.to_string(), span: Span::START };
    let file = PolicyFile {
        name: Some("untrusted input".to_owned()),
        tools: Some(Names { allow: None, deny: tools.map(spanned).collect() }),
        network: Some(Network {
            default: Some(DefaultRule::Deny),
            allow: Some(Vec::new()),
            shell: Some(Hosts::Only(Vec::new())),
            ..Network::default()
        }),
        mcp: Some(Mcp { default: Some(DefaultRule::Deny), ..Mcp::default() }),
        discovered_tools: Some(Names { allow: Some(Vec::new()), deny: Vec::new() }),
        ..PolicyFile::default()
    };
    Layer::made(name, name, file)
}

fn is_needed(list: &Option<Vec<Text>>) -> bool {
    list.as_ref().is_some_and(|list| !list.is_empty())
}

/// Returns the tools of which nothing is needed.
fn denied(needs: &Needs, answer_only: bool) -> Vec<ToolId> {
    let writes = [&needs.write, &needs.create, &needs.delete].into_iter().any(is_needed);
    let mut denied: Vec<ToolId> = Vec::new();
    for (names, is_needed) in [
        (&READING[..], is_needed(&needs.read)),
        (&WRITING[..], writes),
        (&[ToolId::SaveMemory], writes),
        (&RUNNING[..], is_needed(&needs.run)),
        (&WEB[..], is_needed(&needs.net)),
        (&ACTING[..], !answer_only),
    ] {
        if !is_needed {
            denied.extend(names);
        }
    }
    denied.sort_unstable();
    denied.dedup();
    denied
}

fn at<T>(text: &Text, value: T) -> Spanned<T> {
    Spanned { value, span: text.place.span }
}

fn globs<const N: usize>(lists: [Option<&Vec<Text>>; N]) -> Vec<Spanned<String>> {
    lists.into_iter().flatten().flatten().map(|text| at(text, text.value.clone())).collect()
}

/// Returns the rules for the commands that a recipe names; `None` where it may run everything.
fn commands(patterns: &[Text], given: &[NeededCommand]) -> Option<Shell> {
    let everything = patterns.iter().any(|pattern| pattern.value == "**");
    let rule = |pattern: &Text| {
        if of_param(pattern.as_str()).is_some() {
            return None;
        }
        let (words, open) = command(&pattern.value).ok()?;
        let cmd = words.into_iter().map(|word| Element(vec![word.to_owned()])).collect();
        Some(at(pattern, CommandRule { cmd, args: (!open).then(Vec::new), ..CommandRule::default() }))
    };
    let exactly = |command: &NeededCommand| {
        let cmd = command.words.iter().map(|word| Element(vec![word.clone()])).collect();
        at(&command.needed, CommandRule { cmd, args: Some(Vec::new()), ..CommandRule::default() })
    };
    let allow = patterns.iter().filter_map(rule).chain(given.iter().map(exactly)).collect();
    (!everything).then(|| Shell { default: Some(DefaultRule::Deny), allow: Some(allow), ..Shell::default() })
}

/// Returns every need that nothing could satisfy under this policy. The last one says what would grant them all: lines
/// that can be pasted together.
pub fn missing(needs: Option<&Needs>, policy: &Policy) -> Vec<Diagnostic> {
    let Some(needs) = needs else { return Vec::new() };
    let (mut missing, mut grants) = (Vec::new(), Additions::default());
    let mut lacks = |text: &Text, what: &str, granted: &mut Vec<String>, item: String| {
        let message = format!("the policy {} does not grant {what} `{}`", policy.facts().name, text.value);
        missing.push(Diagnostic::new(Code::N001, text.place.clone(), message));
        if !granted.contains(&item) {
            granted.push(item);
        }
    };
    for text in needs.tools.iter().flatten() {
        let name = text.as_str();
        if name != ToolId::StructuredOutput.name() && policy.denies_tool(name) {
            lacks(text, "the tool", &mut grants.tools, yaml_word(name));
        }
    }
    for text in needs.read.iter().flatten().filter(|text| !policy.could_read(text.as_str())) {
        lacks(text, "reading", &mut grants.read, serde_json::Value::from(text.as_str()).to_string());
    }
    for text in [&needs.write, &needs.create, &needs.delete].into_iter().flatten().flatten() {
        if !policy.could_write(text.as_str()) {
            lacks(text, "writing", &mut grants.write, serde_json::Value::from(text.as_str()).to_string());
        }
    }
    for text in needs.run.iter().flatten().filter(|text| of_param(text.as_str()).is_none()) {
        let words = command(text.as_str()).map(|(words, _)| words).unwrap_or_default();
        if !policy.could_run(&words) {
            let words: Vec<String> = words.into_iter().map(yaml_word).collect();
            lacks(text, "running", &mut grants.run, format!("{{cmd: [{}]}}", words.join(", ")));
        }
    }
    for given in &needs.commands {
        let words: Vec<&str> = given.words.iter().map(String::as_str).collect();
        if !policy.could_run(&words) {
            let shown: Vec<String> = words.iter().map(|word| yaml_word(word)).collect();
            let text = Text { value: words.join(" "), place: given.needed.place.clone() };
            lacks(&text, "running", &mut grants.run, format!("{{cmd: [{}]}}", shown.join(", ")));
        }
    }
    for text in needs.net.iter().flatten().filter(|text| !policy.could_reach(text.as_str())) {
        let host = serde_json::Value::from(text.as_str());
        lacks(text, "fetching from", &mut grants.net, format!("{{host: {host}}}"));
    }
    let lines = grants.lines();
    let help = match &lines[..] {
        [line] if missing.len() == 1 => format!("allow it with this line: {line}"),
        lines => format!("allow all of it with these lines:\n{}", lines.join("\n")),
    };
    if let Some(last) = missing.pop() {
        missing.push(last.help(help));
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::parse::parse;

    fn needs(yaml: &str) -> Needs {
        parse("r.yaml", format!("recipe: 1\nneeds: {yaml}\n").as_bytes()).unwrap().needs.unwrap().unwrap()
    }

    #[test]
    fn what_is_not_asked_for_is_not_there() {
        let open = Policy::builtin("open").unwrap();
        let asked = needs("{read: [src/**], run: ['cargo test **', 'make lint']}");
        let policy = open.and(layer("r", Some(&asked), false).unwrap());
        assert!(!policy.denies_tool("read_file") && !policy.denies_tool("run_shell_command"));
        assert!(policy.denies_tool("edit") && policy.denies_tool("web_fetch"));
        assert!(policy.could_run(&["cargo", "test"]) && !policy.could_run(&["cargo", "build"]));
        let nothing = open.and(layer("r", None, false).unwrap());
        assert!(nothing.denies_tool("read_file") && nothing.denies_tool("edit"));
        let answer = open.and(layer("r", Some(&needs("{read: ['**'], write: ['**']}")), true).unwrap());
        assert!(answer.denies_tool("edit"));
    }

    #[test]
    fn missing_needs_name_the_lines_that_grant_all_of_them_and_can_be_pasted_together() {
        let policy = Policy::builtin("read-only").unwrap();
        let asked = needs(
            "{read: ['**'], write: [src/**], run: ['cargo test **', 'git log **', 'npm run on'], net: [docs.rs], tools: [edit]}",
        );
        let text: Vec<String> = missing(Some(&asked), &policy).iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(text.join("\n"), @r#"
        r.yaml:2:116: N001: the policy read-only does not grant the tool `edit`
        r.yaml:2:31: N001: the policy read-only does not grant writing `src/**`
        r.yaml:2:46: N001: the policy read-only does not grant running `cargo test **`
        r.yaml:2:77: N001: the policy read-only does not grant running `npm run on`
        r.yaml:2:98: N001: the policy read-only does not grant fetching from `docs.rs`
          help: allow all of it with these lines:
        tools: {allow: [edit]}
        paths: {write: {allow: ["src/**"]}}
        shell: {allow: [{cmd: [cargo, test]}, {cmd: [npm, run, "on"]}]}
        network: {allow: [{host: "docs.rs"}]}
        "#);
        let one = missing(Some(&needs("{run: ['make lint']}")), &policy).pop().unwrap().help;
        assert_eq!(one.as_deref(), Some("allow it with this line: shell: {allow: [{cmd: [make, lint]}]}"));
    }
}
