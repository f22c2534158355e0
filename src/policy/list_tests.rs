//! Tests lists of tools: allowing adds, selecting and excluding restrict, in either program's names.

use std::path::Path;

use serde_json::{Value, json};

use super::cases::{Fixture, calls_of, facts, fixture};
use super::lists::{EntryContext, ToolEntry, ToolEntryError};
use super::{Access, Pin, Policy, builtin};
use crate::policy::check::check_call;

fn entry_in(text: &str, fixture: Option<&Fixture>) -> Result<ToolEntry, ToolEntryError> {
    let servers = ["s".to_owned(), "t".to_owned(), "a__b".to_owned()];
    let workspace = fixture.map_or(Path::new("/ws/project"), |fixture| fixture.root.as_path());
    let included = [Path::new("/data").to_path_buf()];
    let context = EntryContext { servers: &servers, workspace, included: &included, home: Some(Path::new("/ws")) };
    ToolEntry::parse(text, "here", context)
}

fn entries(texts: &[&str]) -> Vec<ToolEntry> {
    texts.iter().map(|text| entry_in(text, None).unwrap()).collect()
}

fn of(name: &str) -> Policy {
    Policy::builtin(name).unwrap()
}

/// Whether a call is allowed: a command, `{tool: input}` otherwise.
fn allows(policy: &Policy, fixture: &Fixture, tool: &str, input: Value) -> bool {
    check_call(policy, &facts(fixture), tool, &input).is_allowed()
}

fn runs(policy: &Policy, fixture: &Fixture, command: &str) -> bool {
    allows(policy, fixture, "run_shell_command", json!({ "command": command }))
}

fn reaches(policy: &Policy, fixture: &Fixture, server: &str, tool: &str) -> bool {
    let access = Access::Mcp { server: server.into(), tool: tool.into(), arguments: json!({}), pin: Pin::Unpinned };
    policy.authorize("mcp", &[access], &facts(fixture)).1.is_some()
}

fn discovers(policy: &Policy, fixture: &Fixture, tool: &str) -> bool {
    let access = Access::Discovered { tool: tool.into() };
    policy.authorize(tool, &[access], &facts(fixture)).1.is_some()
}

const ALLOWED: [&str; 16] = [
    "run_shell_command(npm test)",
    "run_shell_command",
    "ShellTool(git log:*)",
    "Bash(find *)",
    "edit",
    "Read",
    "Edit(/src/**)",
    "Read(//elsewhere/**)",
    "save_memory",
    "web_fetch",
    "WebFetch(domain:docs.rs)",
    "mcp__s",
    "mcp__s__get",
    "my_tool",
    "Agent(x)",
    "todo_write",
];

#[test]
fn allowing_keeps_every_call_that_the_builtin_in_force_allows() {
    let fixture = fixture();
    let calls = calls_of(&fixture, "cases.jsonl");
    for (name, _) in builtin::BUILTINS {
        let before = of(name);
        let allowed: Vec<_> =
            calls.iter().filter(|(tool, input)| allows(&before, &fixture, tool, input.clone())).collect();
        assert!(allowed.len() > 20, "{name} allows {} of the calls", allowed.len());
        for text in ALLOWED {
            let after = before.allowing(&entries(&[text]));
            for (tool, input) in &allowed {
                assert!(allows(&after, &fixture, tool, input.clone()), "{name} with {text}: {tool} {input}");
            }
        }
    }
}

#[test]
fn allowing_adds_what_it_names() {
    let fixture = fixture();
    let default = of("default");
    let with = |text: &str| default.allowing(&entries(&[text]));
    assert!(!runs(&default, &fixture, "npm test") && runs(&with("Bash(npm test)"), &fixture, "npm test"));
    let shell = with("run_shell_command");
    assert!(runs(&shell, &fixture, "make all") && !runs(&shell, &fixture, "git push"));
    assert!(with("SaveMemory").denies_tool("web_search") && !with("SaveMemory").denies_tool("save_memory"));
    let fetch = json!({"url": "https://docs.rs/x", "prompt": "p"});
    for (text, fits) in [("web_fetch", true), ("WebFetch(domain:docs.rs)", true), ("web_fetch(rust-lang.org)", false)] {
        assert_eq!(allows(&with(text), &fixture, "web_fetch", fetch.clone()), fits, "{text}");
    }
    assert!(
        reaches(&with("mcp__s__get"), &fixture, "s", "get") && !reaches(&with("mcp__s__get"), &fixture, "s", "put")
    );
    assert!(reaches(&with("mcp__t"), &fixture, "t", "x") && !reaches(&with("mcp__t"), &fixture, "u", "x"));
    assert!(reaches(&with("mcp__a__b"), &fixture, "a__b", "x") && !reaches(&with("mcp__a__b"), &fixture, "a", "b"));
    assert!(discovers(&with("my_tool"), &fixture, "my_tool") && !discovers(&default, &fixture, "my_tool"));
}

#[test]
fn plan_stays_read_only_whatever_is_allowed() {
    let fixture = fixture();
    let plan = of("read-only").allowing(&entries(&ALLOWED));
    assert!(!allows(&plan, &fixture, "write_file", json!({"file_path": "src/a.rs", "content": "x"})));
    assert!(!runs(&plan, &fixture, "touch src/new") && !runs(&plan, &fixture, "eval x"));
}

#[test]
fn a_file_that_grants_is_not_widened() {
    let file = super::LayerText {
        name: "p.yaml".to_owned(),
        text: "version: 1\ntools: {allow: [read_file]}\n".to_owned(),
        standing: super::Standing::Operator,
    };
    let policy =
        Policy::new(&file, &[super::LayerText::builtin("edit").unwrap()], &crate::policy::layers::no_parents).unwrap();
    assert!(policy.allowing(&entries(&ALLOWED)).denies_tool("edit"));
}

#[test]
fn a_mode_beside_a_named_builtin_gets_what_is_allowed_too() {
    let fixture = fixture();
    let [edit, plan] = ["edit", "read-only"].map(|name| super::LayerText::builtin(name).unwrap());
    let policy = Policy::new(&edit, &[plan], &crate::policy::layers::no_parents).unwrap();
    assert!(!runs(&policy, &fixture, "npm test"));
    assert!(runs(&policy.allowing(&entries(&["run_shell_command(npm test)"])), &fixture, "npm test"));
}

#[test]
fn both_vocabularies_take_away() {
    for (text, gone) in [
        ("ShellTool", "run_shell_command"),
        ("Bash", "run_shell_command"),
        ("WriteFileTool", "write_file"),
        ("EditTool", "edit"),
        ("Edit", "write_file"),
        ("ReadFileTool", "read_file"),
        ("Read", "search_file_content"),
        ("LSTool", "list_directory"),
        ("GrepTool", "search_file_content"),
        ("grep_search", "search_file_content"),
        ("GlobTool", "glob"),
        ("WebFetchTool", "web_fetch"),
        ("TodoList", "todo_write"),
        ("Agent(x)", "task"),
        ("Bash(*)", "run_shell_command"),
        ("Bash(*.sh)", "run_shell_command"),
    ] {
        let policy = of("open").without(&entries(&[text]));
        assert!(policy.denies_tool(gone), "{text}");
        assert!(!policy.denies_tool("save_memory"), "{text}");
    }
    assert!(!of("open").without(&entries(&["WriteFile"])).denies_tool("edit"));
}

#[test]
fn a_command_that_is_taken_away_is_so_in_every_spelling() {
    let fixture = fixture();
    for (text, command, runs_still) in [
        ("ShellTool(ls -l)", "ls -l src", false),
        ("ShellTool(ls -l)", "ls -la src", false),
        ("ShellTool(ls -l)", "ls src", true),
        ("Bash(rm -rf:*)", "rm -f src/a.rs", false),
        ("Bash(git log *)", "git -C . log", false),
        ("Bash(git log *)", "git status", true),
        ("Bash(echo 'a b')", "echo x", false),
        ("Bash(git * main)", "git status", false),
    ] {
        let policy = of("open").without(&entries(&[text]));
        assert_eq!(runs(&policy, &fixture, command), runs_still, "{text}: {command}");
    }
}

#[test]
fn a_server_a_host_and_a_file_are_taken_away_alone() {
    let fixture = fixture();
    let without = |text: &str| of("open").without(&[entry_in(text, Some(&fixture)).unwrap()]);
    let policy = without("mcp__s__put");
    assert!(reaches(&policy, &fixture, "s", "get") && !reaches(&policy, &fixture, "s", "put"));
    assert!(
        !reaches(&without("mcp__s(put)"), &fixture, "s", "put") && !reaches(&without("mcp__s"), &fixture, "s", "x")
    );
    // A bare name is every server's, and a discovered tool's.
    let policy = without("put");
    assert!(!reaches(&policy, &fixture, "s", "put") && !reaches(&policy, &fixture, "t", "put"));
    assert!(!discovers(&policy, &fixture, "put") && discovers(&policy, &fixture, "get"));
    assert!(!reaches(&without("s__put"), &fixture, "s", "put") && reaches(&without("s__put"), &fixture, "t", "put"));
    let policy = without("WebFetch(domain:example.com)");
    let fetch = |host: &str| json!({"url": format!("https://{host}/"), "prompt": "p"});
    assert!(allows(&policy, &fixture, "web_fetch", fetch("docs.rs")));
    assert!(!allows(&policy, &fixture, "web_fetch", fetch("www.example.com")));
    let absolute = format!("Read(/{}/src/**)", fixture.root.display());
    let above = format!("Read(/{}/**)", fixture.root.parent().unwrap().display());
    for text in ["Read(./src/**)", "Read(/src/**)", "ReadFile(src/**)", &absolute, &above] {
        let policy = without(text);
        assert!(!allows(&policy, &fixture, "read_file", json!({"file_path": "src/a.rs"})), "{text}");
        assert!(!runs(&policy, &fixture, "cat src/a.rs"), "{text}");
    }
    let policy = without("Edit(src/**)");
    assert!(!allows(&policy, &fixture, "write_file", json!({"file_path": "src/a.rs", "content": "x"})));
    assert!(allows(&policy, &fixture, "read_file", json!({"file_path": "src/a.rs"})));
}

#[test]
fn only_what_a_core_list_names_is_kept() {
    let fixture = fixture();
    let only = |texts: &[&str]| of("open").only(&entries(texts));
    let policy = only(&["ShellTool(git status)", "ReadFileTool"]);
    assert!(!policy.denies_tool("read_file") && policy.denies_tool("edit") && policy.denies_tool("glob"));
    assert!(runs(&policy, &fixture, "git status -s") && !runs(&policy, &fixture, "git log"));
    assert!(runs(&only(&["run_shell_command(git status)", "Bash"]), &fixture, "git log"));
    assert!(!runs(&only(&["Bash(git * main)"]), &fixture, "git log main"));
    let policy = only(&["read_file", "mcp__s__get"]);
    assert!(reaches(&policy, &fixture, "s", "get") && !reaches(&policy, &fixture, "s", "put"));
    assert!(!reaches(&policy, &fixture, "u", "x"));
    let read = |policy: &Policy, path: &str| allows(policy, &fixture, "read_file", json!({ "file_path": path }));
    let policy = only(&["Read(docs/**)"]);
    assert!(read(&policy, "docs/guide.md") && !read(&policy, "README.md"));
    assert!(!read(&only(&["Read(//elsewhere/**)"]), "README.md"));
    let fetch = |host: &str| json!({"url": format!("https://{host}/"), "prompt": "p"});
    let policy = only(&["web_fetch(docs.rs)"]);
    assert!(allows(&policy, &fixture, "web_fetch", fetch("docs.rs")));
    assert!(!allows(&policy, &fixture, "web_fetch", fetch("example.com")));
}

#[test]
fn what_an_entry_cannot_do_is_said() {
    let said = |text: &str| entry_in(text, None).unwrap();
    for text in ["Read(//elsewhere/**)", "Read(~/.zshrc)", "Bash(git * main)", "Bash(a && b)"] {
        assert!(said(text).allows_nothing().is_some(), "{text}");
    }
    assert_eq!(said("Read(~/project/x)").allows_nothing(), None, "the home holds the workspace");
    assert_eq!(
        said("Bash(git * main)").takes_more().unwrap(),
        "here: `Bash(git * main)` also denies every command that begins with `git`"
    );
    assert!(said("Skill(x)").takes_more().is_some() && said("Bash(git log)").takes_more().is_none());
    for (text, problem) in [
        ("glob_x(x)", "takes brackets"),
        ("todo_write(x)", "takes no brackets"),
        ("run_shell_command(x", "not closed"),
        ("(x)", "the name is missing"),
        ("WebFetch(domain:)", "host name"),
        ("WebFetch(https://docs.rs/)", "host name"),
        ("Read(//data/x)", "included directory"),
        ("Read(../x)", "globs are relative"),
    ] {
        let error = entry_in(text, None).unwrap_err().to_string();
        assert!(error.contains(problem), "{text}: {error}");
    }
}

#[test]
fn a_name_that_no_tool_has_is_named() {
    let foreign = ["found".to_owned()];
    let servers = [("s".to_owned(), Some(vec!["get".to_owned()])), ("t".to_owned(), None)];
    let unknown = |text: &str| entry_in(text, None).unwrap().unknown(&foreign, &servers);
    for text in ["ShellTool", "found", "get", "mcp__s", "mcp__s__get", "mcp__s(g*)", "mcp__t__any"] {
        assert_eq!(unknown(text), None, "{text}");
    }
    assert_eq!(unknown("shel").as_deref(), Some("here: unknown tool `shel`; did you mean `run_shell_command`?"));
    for text in ["mcp__u", "mcp__s__put", "NotebookEdit", "structured_output"] {
        assert_eq!(unknown(text), Some(format!("here: unknown tool `{text}`")));
    }
}
