//! Lists of tools from flags and settings (`tools.core`, `exclude`, `allowed`, `permissions`) as layers of the policy.
//!
//! An entry is a tool's name, `run_shell_command(git status)` (the command's first words), `mcp__server__tool`
//! (`mcp__server`: all its tools; also `mcp__server(tool)`), `WebFetch(domain:docs.rs)`, or, where it takes away,
//! `Read(glob)` and `Edit(glob)`. Every list is enforced with
//! its specifiers in every mode; only the operator's `allowed` adds anything, and only to a built-in policy.

use serde_json::{Map, Value, json};

use crate::cli::RunArgs;
use crate::exit::Exit;
use crate::policy::layers::{LayerText, Standing};
use crate::settings::{self, Settings};
use crate::tool_name::real_name;

use super::Failure;

/// The tool that takes specifiers.
const SHELL: &str = "run_shell_command";

/// The tool that takes hosts.
const FETCH: &str = "web_fetch";

/// What the names of servers' tools begin with.
const MCP: &str = "mcp__";

/// Lists of tools from flags and settings, with their specifiers.
pub struct ToolLists {
    /// What is allowed beside a built-in policy.
    pub allowed: Vec<String>,
    /// Lists that keep only what they name.
    pub core: Vec<Vec<String>>,
    /// What is taken away.
    pub excluded: Vec<String>,
}

impl ToolLists {
    /// Reads the flags and the settings.
    pub fn of(arguments: &RunArgs, settings: &Settings) -> ToolLists {
        let texts =
            |list: &[settings::Valued<String>]| list.iter().map(|entry| entry.value.clone()).collect::<Vec<_>>();
        let flags = &arguments.policy;
        let mut allowed = flags.allowed_tools.clone();
        allowed.extend(texts(&settings.tools_allowed));
        allowed.extend(texts(&settings.permissions_allow));
        let mut core: Vec<Vec<String>> = settings.tools_core.iter().map(|list| list.value.clone()).collect();
        if !flags.core_tools.is_empty() {
            core.push(flags.core_tools.clone());
        }
        let mut excluded = flags.exclude_tools.clone();
        excluded.extend(texts(&settings.tools_exclude));
        excluded.extend(texts(&settings.permissions_deny));
        excluded.extend(texts(&settings.permissions_ask));
        ToolLists { allowed, core, excluded }
    }
}

/// An entry of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    tool: String,
    words: Vec<String>,
    path: Option<(&'static str, String)>,
    host: Option<String>,
}

impl Entry {
    fn of(tool: impl Into<String>) -> Entry {
        Entry { tool: tool.into(), words: Vec::new(), path: None, host: None }
    }
}

/// Returns the layer that keeps only the named tools.
pub fn core_layer(list: &[String]) -> Result<LayerText, Failure> {
    let entries = parse(list, Paths::Refused)?;
    let mut policy = json!({"version": 1, "name": "tools.core", "tools": {"allow": names(&entries)}});
    let commands = commands(&entries);
    let servers = servers(&entries, "allow");
    if !servers.is_empty() {
        policy["mcp"] = json!({"default": "deny", "servers": servers});
    }
    if !commands.is_empty() && !entries.iter().any(|entry| entry.tool == SHELL && entry.words.is_empty()) {
        policy["shell"] = json!({"default": "deny", "allow": commands});
    }
    let hosts = hosts(&entries);
    if !hosts.is_empty() && !entries.iter().any(|entry| entry.tool == FETCH && entry.host.is_none()) {
        policy["network"] = json!({"default": "deny", "allow": hosts});
    }
    layer("tools.core", &policy)
}

/// Returns the layer that takes the named tools and commands away.
pub fn excluded_layer(list: &[String]) -> Result<LayerText, Failure> {
    let entries = parse(list, Paths::Taken)?;
    let takes_whole =
        |entry: &&Entry| entry.words.is_empty() && entry.path.is_none() && entry.host.is_none() && !is_mcp(entry);
    let whole: Vec<&Entry> = entries.iter().filter(takes_whole).collect();
    let mut policy = json!({"version": 1, "name": "tools.exclude"});
    if !whole.is_empty() {
        policy["tools"] = json!({"deny": whole.iter().map(|entry| entry.tool.clone()).collect::<Vec<_>>()});
    }
    let commands = commands(&entries);
    if !commands.is_empty() {
        policy["shell"] = json!({"deny": commands});
    }
    for kind in ["read", "write"] {
        let paths = entries.iter().filter_map(|entry| entry.path.as_ref());
        let globs: Vec<&String> = paths.filter(|(of, _)| *of == kind).map(|(_, glob)| glob).collect();
        if !globs.is_empty() {
            policy["paths"][kind] = json!({"deny": globs});
        }
    }
    let hosts = hosts(&entries);
    if !hosts.is_empty() {
        // A layer that only denies would else deny what it does not name.
        policy["network"] = json!({"default": "allow", "deny": hosts});
    }
    let servers = servers(&entries, "deny");
    if !servers.is_empty() {
        policy["mcp"] = json!({"default": "allow", "servers": servers});
    }
    layer("tools.exclude", &policy)
}

/// Returns a built-in policy with the named tools and commands added.
pub fn allowed_layer(builtin: &LayerText, list: &[String]) -> Result<LayerText, Failure> {
    let entries = parse(list, Paths::Refused)?;
    let mut policy: Value = serde_yaml::from_str(&builtin.text).expect("a test reads every built-in policy");
    add(&mut policy, ["tools", "allow"], names(&entries).into_iter().map(Value::from));
    add(&mut policy, ["shell", "allow"], commands(&entries));
    if policy["network"]["default"] != "allow" {
        add(&mut policy, ["network", "allow"], hosts(&entries));
    }
    // Where every server is allowed, a rule of its own could only take away.
    if policy["mcp"]["default"] != "allow" {
        for (server, rules) in servers(&entries, "allow") {
            policy["mcp"]["servers"][server] = rules;
        }
    }
    layer(&format!("{} with allowed tools", builtin.name), &policy)
}

fn add(policy: &mut Value, [section, key]: [&str; 2], entries: impl IntoIterator<Item = Value>) {
    let list = &mut policy[section][key];
    if list.is_null() {
        *list = json!([]);
    }
    if let Value::Array(list) = list {
        list.extend(entries);
    }
}

fn is_mcp(entry: &Entry) -> bool {
    entry.tool.starts_with(MCP)
}

/// Returns the rules on servers: for each the tools that the entries name.
fn servers(entries: &[Entry], verdict: &str) -> Map<String, Value> {
    let mut servers = Map::new();
    for entry in entries.iter().filter(|entry| is_mcp(entry)) {
        let pair = &entry.tool[MCP.len()..];
        let (server, tool) = pair.split_once("__").unwrap_or((pair, "*"));
        let rules = servers.entry(server).or_insert_with(|| json!({ verdict: [] }));
        if let Some(list) = rules[verdict].as_array_mut() {
            list.push(tool.into());
        }
    }
    servers
}

fn names(entries: &[Entry]) -> Vec<String> {
    let mut names: Vec<String> =
        entries.iter().filter(|entry| !is_mcp(entry)).map(|entry| entry.tool.clone()).collect();
    names.sort();
    names.dedup();
    names
}

fn commands(entries: &[Entry]) -> Vec<Value> {
    let with_words = entries.iter().filter(|entry| entry.tool == SHELL && !entry.words.is_empty());
    with_words.map(|entry| json!({"cmd": entry.words})).collect()
}

/// Returns the rules on hosts: a domain stands for itself and all that is below it.
fn hosts(entries: &[Entry]) -> Vec<Value> {
    let hosts = entries.iter().filter_map(|entry| entry.host.as_deref());
    hosts
        .flat_map(|host| match host.strip_prefix("*.") {
            Some(_) => vec![json!({ "host": host })],
            None => vec![json!({ "host": host }), json!({ "host": format!("*.{host}") })],
        })
        .collect()
}

/// Whether an entry may name files.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Paths {
    Taken,
    Refused,
}

fn parse(list: &[String], paths: Paths) -> Result<Vec<Entry>, Failure> {
    let entry = |text: &String| {
        let text = text.trim();
        let (name, inner) = match text.split_once('(') {
            None => (text, ""),
            Some((name, rest)) => {
                (name, rest.strip_suffix(')').ok_or_else(|| wrong(text, "the bracket is not closed"))?.trim())
            }
        };
        let tool = real_name(name.trim()).unwrap_or(name.trim()).to_owned();
        if tool.is_empty() {
            return Err(wrong(text, "there is no name"));
        }
        let kind = match tool.as_str() {
            "read_file" => Some("read"),
            "edit" | "write_file" => Some("write"),
            _ => None,
        };
        match kind {
            _ if inner.is_empty() || inner == "*" => Ok(Entry::of(tool)),
            _ if tool == FETCH => {
                let host = inner.strip_prefix("domain:").unwrap_or(inner).trim().to_ascii_lowercase();
                let is_host = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
                if !host.strip_prefix("*.").unwrap_or(&host).chars().all(is_host) || host.is_empty() {
                    return Err(wrong(text, "write a host name, as in WebFetch(domain:docs.rs)"));
                }
                Ok(Entry { host: Some(host), ..Entry::of(tool) })
            }
            // `mcp__server(tool)` and `mcp__server__tool` are one.
            _ if tool.starts_with(MCP) && !tool[MCP.len()..].contains("__") => {
                Ok(Entry::of(format!("{tool}__{inner}")))
            }
            _ if tool == SHELL => {
                // Claude's and Qwen Code's spelling `npm test:*` means: with whatever follows, as here always.
                let words = inner.trim_end_matches(":*").trim_end_matches(" *");
                Ok(Entry { words: words.split_whitespace().map(str::to_owned).collect(), ..Entry::of(tool) })
            }
            Some(kind) if paths == Paths::Taken => {
                let glob = inner.trim_start_matches("./").trim_start_matches('/');
                Ok(Entry { path: Some((kind, glob.to_owned())), ..Entry::of(tool) })
            }
            Some(_) | None => Err(wrong(
                text,
                "only run_shell_command takes a command in brackets, web_fetch a domain, mcp__server a tool",
            )),
        }
    };
    list.iter().filter(|text| !text.trim().is_empty()).map(entry).collect()
}

fn wrong(entry: &str, problem: &str) -> Failure {
    Failure::new(
        Exit::Config,
        format!("`{entry}` in a list of tools: {problem}"),
        "write a tool's name, or run_shell_command(COMMAND), WebFetch(domain:HOST), mcp__SERVER(TOOL)",
    )
}

fn layer(name: &str, policy: &Value) -> Result<LayerText, Failure> {
    // JSON is YAML.
    Ok(LayerText { name: name.to_owned(), text: policy.to_string(), standing: Standing::Operator })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn the_core_list_keeps_named_tools_and_commands_alone() {
        let open = LayerText::builtin("open").unwrap();
        let core = core_layer(&texts(&["run_shell_command(git status)", "ReadFile"])).unwrap();
        let policy = Policy::new(&open, &[core], &|_| None).unwrap();
        assert!(!policy.denies_tool("read_file") && !policy.denies_tool("run_shell_command"));
        assert!(policy.denies_tool("edit") && policy.denies_tool("glob"));
    }

    #[test]
    fn what_is_allowed_adds_to_a_built_in_policy() {
        let default = LayerText::builtin("default").unwrap();
        let more = allowed_layer(&default, &texts(&["save_memory", "run_shell_command(npm test)"])).unwrap();
        let policy = Policy::new(&more, &[], &|_| None).unwrap();
        assert!(!policy.denies_tool("save_memory") && !policy.denies_tool("edit"));
    }

    #[test]
    fn files_can_be_taken_away() {
        let open = LayerText::builtin("open").unwrap();
        let list = texts(&["Read(./private/**)", "Edit(src/*.lock)", "Write(*)"]);
        let policy = Policy::new(&open, &[excluded_layer(&list).unwrap()], &|_| None).unwrap();
        assert!(policy.denies_tool("write_file") && !policy.denies_tool("edit") && !policy.denies_tool("read_file"));
        let layer = excluded_layer(&list).unwrap().text;
        assert!(
            layer.contains(r#""paths":{"read":{"deny":["private/**"]},"write":{"deny":["src/*.lock"]}}"#),
            "{layer}"
        );
        assert!(core_layer(&texts(&["Read(src/**)"])).is_err());
    }

    #[test]
    fn a_tool_of_a_server_is_a_pair_in_every_list() {
        let allows = |policy: &Policy, server: &str, tool: &str| {
            let access = crate::policy::Access::Mcp {
                server: server.into(),
                tool: tool.into(),
                arguments: json!({}),
                pin: crate::policy::Pin::Unpinned,
            };
            policy.authorize("mcp", &[access], &crate::run::tool_lists::tests::facts()).1.is_some()
        };
        let default = LayerText::builtin("default").unwrap();
        let more = allowed_layer(&default, &texts(&["mcp__s__get", "mcp__t"])).unwrap();
        let policy = Policy::new(&more, &[], &|_| None).unwrap();
        assert!(allows(&policy, "s", "get") && allows(&policy, "t", "x"));
        assert!(!allows(&policy, "s", "put") && !allows(&policy, "u", "get"));
        let open = LayerText::builtin("open").unwrap();
        let more = allowed_layer(&open, &texts(&["mcp__s__get"])).unwrap();
        let fewer = excluded_layer(&texts(&["mcp__s__put"])).unwrap();
        let policy = Policy::new(&more, &[fewer], &|_| None).unwrap();
        assert!(allows(&policy, "s", "get") && allows(&policy, "s", "x") && allows(&policy, "u", "x"));
        assert!(!allows(&policy, "s", "put"));
        let core = core_layer(&texts(&["read_file", "mcp__s__get"])).unwrap();
        let policy = Policy::new(&open, &[core], &|_| None).unwrap();
        assert!(allows(&policy, "s", "get") && !allows(&policy, "s", "put") && !allows(&policy, "u", "x"));
    }

    #[test]
    fn hosts_are_named_in_every_list() {
        let allows = |policy: &Policy, url: &str| {
            let access = crate::policy::Access::Fetch { url: url.into(), resolves_to: None, redirects: Vec::new() };
            policy.authorize("web_fetch", &[access], &facts()).1.is_some()
        };
        let default = LayerText::builtin("default").unwrap();
        let open = LayerText::builtin("open").unwrap();
        let more = allowed_layer(&default, &texts(&["WebFetch(domain:Docs.rs)"])).unwrap();
        let policy = Policy::new(&more, &[], &|_| None).unwrap();
        assert!(allows(&policy, "https://docs.rs/x") && allows(&policy, "https://a.docs.rs/"));
        assert!(!allows(&policy, "https://evildocs.rs/") && !allows(&policy, "https://example.com/"));
        let fewer = excluded_layer(&texts(&["WebFetch(domain:example.com)"])).unwrap();
        let policy = Policy::new(&open, &[fewer], &|_| None).unwrap();
        assert!(allows(&policy, "https://docs.rs/") && !policy.denies_tool("web_fetch"));
        assert!(!allows(&policy, "https://example.com/") && !allows(&policy, "https://www.example.com/"));
        let core = core_layer(&texts(&["web_fetch(docs.rs)"])).unwrap();
        let policy = Policy::new(&open, &[core], &|_| None).unwrap();
        assert!(allows(&policy, "https://docs.rs/") && !allows(&policy, "https://example.com/"));
        for wrong in ["WebFetch(domain:)", "WebFetch(https://docs.rs/)", "WebFetch(a b)"] {
            assert!(excluded_layer(&texts(&[wrong])).is_err(), "{wrong}");
        }
        let pair = excluded_layer(&texts(&["mcp__s(put)"])).unwrap().text;
        assert!(pair.contains(r#""servers":{"s":{"deny":["put"]}}"#), "{pair}");
    }

    fn facts() -> crate::policy::decide::Facts {
        let workspace = std::sync::Arc::new(crate::workspace::Workspace::open(&std::env::temp_dir()).unwrap());
        crate::run::outcome::facts(&workspace, String::new(), std::path::PathBuf::new(), Vec::new(), Vec::new())
    }

    #[test]
    fn an_entry_that_is_none_is_named() {
        for (entry, problem) in [("glob(x)", "only run_shell_command"), ("run_shell_command(x", "not closed")] {
            assert!(core_layer(&texts(&[entry])).unwrap_err().error.message.contains(problem));
        }
    }
}
