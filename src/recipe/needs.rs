//! Defines what a recipe requires of the policy: the run may do what both allow.

use serde_json::{Value, json};

use super::file::{Needs, Text};
use crate::base::{Code, Diagnostic};
use crate::policy::Policy;
use crate::policy::layers::{LayerText, Standing};

/// Tools that change files.
const WRITING: [&str; 2] = ["edit", "write_file"];
/// Tools that reach the web.
const WEB: [&str; 2] = ["web_fetch", "web_search"];
/// Tools that read files.
const READING: [&str; 5] = ["read_file", "list_directory", "glob", "search_file_content", "read_many_files"];
/// Tools that run commands.
const RUNNING: [&str; 1] = ["run_shell_command"];
/// Tools that do what neither reading nor answering is.
const ACTING: [&str; 7] = ["edit", "write_file", "run_shell_command", "web_fetch", "web_search", "save_memory", "task"];

fn texts(list: Option<&Vec<Text>>) -> Vec<&str> {
    list.into_iter().flatten().map(Text::as_str).collect()
}

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

/// Returns the recipe's needs as a policy layer that narrows. `answer_only` takes away every tool that does more than
/// read and answer: untrusted text is in the prompt.
pub fn layer(recipe: &str, needs: Option<&Needs>, answer_only: bool) -> LayerText {
    let none = Needs::default();
    let needs = needs.unwrap_or(&none);
    let read = texts(needs.read.as_ref());
    let mut write = texts(needs.write.as_ref());
    let create = texts(needs.create.as_ref());
    let delete = texts(needs.delete.as_ref());
    let (may_create, may_delete) = (!create.is_empty(), !delete.is_empty());
    write.extend(create);
    write.extend(delete);
    let run = texts(needs.run.as_ref());
    let net = texts(needs.net.as_ref());
    let mut denied: Vec<&str> = Vec::new();
    for (names, needed) in [(&READING[..], &read), (&WRITING[..], &write), (&RUNNING[..], &run), (&WEB[..], &net)] {
        if needed.is_empty() {
            denied.extend(names);
        }
    }
    if write.is_empty() {
        denied.push("save_memory");
    }
    if answer_only {
        denied.extend(ACTING);
    }
    denied.sort_unstable();
    denied.dedup();
    let everything = run.contains(&"**");
    let commands: Vec<Value> = run
        .iter()
        .filter_map(|pattern| command(pattern).ok())
        .map(|(words, open)| if open { json!({"cmd": words}) } else { json!({"cmd": words, "args": []}) })
        .collect();
    let mut tools = json!({"deny": denied});
    let mut layer = json!({
        "version": 1,
        "name": format!("recipe {recipe}"),
        "paths": {
            "read": {"allow": read},
            "write": {"allow": write, "create": may_create, "delete": may_delete},
        },
        "network": {"default": "deny", "allow": net.iter().map(|host| json!({"host": host})).collect::<Vec<_>>()},
    });
    if !everything {
        layer["shell"] = json!({"default": "deny", "allow": commands});
    }
    if let Some(named) = &needs.tools {
        tools["allow"] = json!(named.iter().map(Text::as_str).collect::<Vec<_>>());
    }
    if needs.tools.is_some() || answer_only {
        layer["mcp"] = json!({"default": "deny"});
        layer["discovered_tools"] = json!({"allow": []});
    }
    layer["tools"] = tools;
    // JSON is YAML.
    LayerText { name: format!("recipe:{recipe}"), text: layer.to_string(), standing: Standing::Operator }
}

/// Returns every need that nothing could satisfy under this policy, each with the line that would grant it.
pub fn missing(needs: Option<&Needs>, policy: &Policy) -> Vec<Diagnostic> {
    let Some(needs) = needs else { return Vec::new() };
    let mut missing = Vec::new();
    let mut lacks = |text: &Text, what: &str, line: String| {
        let message = format!("the policy {} does not grant {what} `{}`", policy.facts().name, text.value);
        missing.push(
            Diagnostic::new(Code::N001, text.place.clone(), message).help(format!("allow it with this line: {line}")),
        );
    };
    for text in needs.tools.iter().flatten() {
        let name = text.as_str();
        if name != "structured_output" && policy.denies_tool(name) {
            lacks(text, "the tool", format!("tools: {{allow: [{name}]}}"));
        }
    }
    for text in needs.read.iter().flatten().filter(|text| !policy.could_read(text.as_str())) {
        lacks(text, "reading", format!("paths: {{read: {{allow: [\"{}\"]}}}}", text.value));
    }
    for text in [&needs.write, &needs.create, &needs.delete].into_iter().flatten().flatten() {
        if !policy.could_write(text.as_str()) {
            lacks(text, "writing", format!("paths: {{write: {{allow: [\"{}\"]}}}}", text.value));
        }
    }
    for text in needs.run.iter().flatten() {
        let words = command(text.as_str()).map(|(words, _)| words).unwrap_or_default();
        if !policy.could_run(&words) {
            lacks(text, "running", format!("shell: {{allow: [{{cmd: [{}]}}]}}", words.join(", ")));
        }
    }
    for text in needs.net.iter().flatten().filter(|text| !policy.could_reach(text.as_str())) {
        lacks(text, "fetching from", format!("network: {{allow: [{{host: \"{}\"}}]}}", text.value));
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
        let policy = open.narrowed(&[layer("r", Some(&asked), false)], &crate::policy::layers::no_parents).unwrap();
        assert!(!policy.denies_tool("read_file") && !policy.denies_tool("run_shell_command"));
        assert!(policy.denies_tool("edit") && policy.denies_tool("web_fetch"));
        assert!(policy.could_run(&["cargo", "test"]) && !policy.could_run(&["cargo", "build"]));
        let nothing = open.narrowed(&[layer("r", None, false)], &crate::policy::layers::no_parents).unwrap();
        assert!(nothing.denies_tool("read_file") && nothing.denies_tool("edit"));
        let answer = open.narrowed(
            &[layer("r", Some(&needs("{read: ['**'], write: ['**']}")), true)],
            &crate::policy::layers::no_parents,
        );
        assert!(answer.unwrap().denies_tool("edit"));
    }

    #[test]
    fn a_missing_need_names_the_line_that_grants_it() {
        let policy = Policy::builtin("read-only").unwrap();
        let asked = needs(
            "{read: ['**'], write: [src/**], run: ['cargo test **', 'git log **'], net: [docs.rs], tools: [edit]}",
        );
        let text: Vec<String> = missing(Some(&asked), &policy).iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(text.join("\n"), @r#"
        r.yaml:2:102: N001: the policy read-only does not grant the tool `edit`
          help: allow it with this line: tools: {allow: [edit]}
        r.yaml:2:31: N001: the policy read-only does not grant writing `src/**`
          help: allow it with this line: paths: {write: {allow: ["src/**"]}}
        r.yaml:2:46: N001: the policy read-only does not grant running `cargo test **`
          help: allow it with this line: shell: {allow: [{cmd: [cargo, test]}]}
        r.yaml:2:84: N001: the policy read-only does not grant fetching from `docs.rs`
          help: allow it with this line: network: {allow: [{host: "docs.rs"}]}
        "#);
    }
}
