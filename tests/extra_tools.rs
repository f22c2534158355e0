//! Tests tools that the project and the settings add: agents, skills, discovered tools.

use serde_json::{Value, json};

use crate::support::{Project, call, say};

const POLICY: &str = "version: 1\nname: t\ntools: {allow: [task, skill, read_file, list_directory]}\npaths: {read: {allow: ['**']}}\ndiscovered_tools: {allow: [echo]}\n";

fn names(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().into_iter().flatten();
    tools.filter_map(|tool| tool["function"]["name"].as_str()).collect()
}

#[test]
fn a_task_is_a_conversation_of_its_own_on_the_same_account() {
    let project = Project::new()
        .file("a.txt", "the text\n")
        .file(".qwen/agents/reader.md", "---\nname: reader\ndescription: Reads\ntools: [read_file]\n---\nYou read.\n")
        .file(".qwen/skills/s/SKILL.md", "---\ndescription: d\n---\nDo it.\n")
        .policy(POLICY)
        .model([
            call("task", json!({"description": "d", "prompt": "What is in a.txt?", "subagent_type": "reader"})),
            call("read_file", json!({"file_path": "a.txt"})),
            say("It says: the text"),
            say("done"),
        ]);
    let outcome = project.run(&["-o", "stream-json", "go"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(outcome.result["result"], "done");
    assert_eq!((&outcome.result["num_turns"], &outcome.result["num_tool_calls"]), (&json!(4), &json!(2)));
    let requests = project.server().requests();
    assert_eq!(names(&requests[0]), ["list_directory", "read_file", "skill", "task"]);
    assert_eq!(names(&requests[1]), ["read_file"]);
    assert!(requests[1]["messages"][0]["content"].as_str().unwrap().starts_with("You read."));
    assert!(requests[1]["messages"].to_string().contains("What is in a.txt?"));
    assert!(!requests[1]["messages"].to_string().contains("\"go\""));
    let last = requests[3]["messages"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&last["role"], last["content"].as_str()), (&json!("tool"), Some("It says: the text")));
    let messages: Vec<Value> = outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let parents: Vec<(&str, bool)> = messages
        .iter()
        .filter(|message| message["type"] == "assistant" || message["type"] == "user")
        .map(|message| (message["type"].as_str().unwrap(), message["parent_tool_use_id"].is_string()))
        .collect();
    assert_eq!(
        parents,
        [
            ("assistant", false),
            ("assistant", true),
            ("user", true),
            ("assistant", true),
            ("user", false),
            ("assistant", false)
        ]
    );
}

fn with_discovery(settings: Value) -> Project {
    let project = Project::new()
        .file("tools.json", r#"[{"function_declarations":[{"name":"echo","parameters":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}},{"name":"hidden"}]}]"#)
        .file("call.sh", "echo \"called $1\"\ncat\n")
        .policy(POLICY)
        .model([call("echo", json!({"text": "it's é"})), say("done")]);
    std::fs::create_dir_all(project.home().join(".qwen")).unwrap();
    std::fs::write(project.home().join(".qwen/settings.json"), settings.to_string()).unwrap();
    project
}

#[test]
fn a_discovered_tool_is_called_with_json_on_standard_input() {
    let project =
        with_discovery(json!({"tools": {"toolDiscoveryCommand": "cat tools.json", "callCommand": "sh call.sh"}}));
    let outcome = project.run(&["go"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let requests = project.server().requests();
    assert_eq!(names(&requests[0]), ["echo", "list_directory", "read_file"]);
    let last = requests[1]["messages"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["content"], "called echo\n{\"text\":\"it's \\u00e9\"}\n");
    assert!(outcome.stderr.contains("hidden is left out"), "{}", outcome.stderr);
}

/// In every tier: a program below the home is in no directory of the system's.
#[test]
fn a_discovery_program_of_the_home_runs_with_what_lies_beside_it_and_sees_no_credentials() {
    use std::os::unix::fs::PermissionsExt as _;
    let commands = json!({"toolDiscoveryCommand": "~/bin/tools list", "callCommand": "~/bin/tools call"});
    let project = with_discovery(json!({"tools": commands}));
    let home = project.home();
    for directory in ["bin", ".ssh"] {
        std::fs::create_dir_all(home.join(directory)).unwrap();
    }
    std::fs::write(home.join(".ssh/id"), "PRIVATE\n").unwrap();
    std::fs::write(home.join("bin/beside"), "beside\n").unwrap();
    let script = format!(
        "#!/bin/sh\ncase $1 in list) cat tools.json;; call) cat {0}/bin/beside; cat {0}/.ssh/id || echo hidden;; esac\n",
        home.display()
    );
    std::fs::write(home.join("bin/tools"), script).unwrap();
    std::fs::set_permissions(home.join("bin/tools"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let outcome = project.run(&["go"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let requests = project.server().requests();
    assert_eq!(names(&requests[0]), ["echo", "list_directory", "read_file"], "{}", outcome.stderr);
    let last = requests[1]["messages"].as_array().unwrap().last().unwrap()["content"].to_string();
    assert!(last.contains("beside") && last.contains("hidden") && !last.contains("PRIVATE"), "{last}");
}

#[test]
fn a_discovery_that_fails_is_named_and_the_run_goes_on_unless_strict() {
    let broken = json!({"toolDiscoveryCommand": "cat call.sh", "toolCallCommand": "sh call.sh"});
    let outcome = with_discovery(broken.clone()).model([say("done")]).run(&["go"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("tools.discoveryCommand `cat call.sh`: it did not print JSON"),
        "{}",
        outcome.stderr
    );
    let project = with_discovery(broken);
    assert_eq!(project.run(&["--strict", "go"]).code, 52);
    assert_eq!(project.server().requests().len(), 0);
}

#[test]
fn the_time_of_a_run_includes_what_precedes_the_first_request() {
    let endless = json!({"toolDiscoveryCommand": "sleep 600", "toolCallCommand": "cat"});
    let project = with_discovery(endless);
    let outcome = project.run(&["--max-wall-time", "2s", "go"]);
    assert_eq!(outcome.code, 55, "{}", outcome.stderr);
    assert_eq!(outcome.result["error"]["budget"]["kind"], "wall_time");
    assert_eq!(project.server().requests().len(), 0);
}

#[test]
fn no_link_of_the_checkout_brings_in_what_is_outside_of_it() {
    let agent = "---\ndescription: OUTSIDE\n---\nOUTSIDE\n";
    let project = Project::new()
        .file("../outside/s/SKILL.md", agent)
        .file("../outside/reader.md", agent)
        .file("../outside/go.md", "OUTSIDE\n")
        .file(".qwen/skills/own/SKILL.md", "---\ndescription: own\n---\nx\n")
        .file("tools/skills/shared/SKILL.md", "---\ndescription: inner\n---\nx\n")
        .policy(POLICY)
        .model([say("one"), say("two")]);
    let link = |target: &str, at: &str| std::os::unix::fs::symlink(target, project.root().join(at)).unwrap();
    link("../../../outside/s", ".qwen/skills/s");
    link("../../tools/skills/shared", ".qwen/skills/shared");
    link("../../outside", ".qwen/agents");
    link("../../outside", ".qwen/commands");
    link("../outside/go.md", "QWEN.md");
    let outcome = project.run(&["look"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let sent = project.server().requests()[0].to_string();
    assert!(!sent.contains("OUTSIDE") && sent.contains("own: own") && sent.contains("shared: inner"), "{sent}");
    let warnings: Vec<&str> = outcome.result["warnings"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    for path in [".qwen/skills/s/SKILL.md left out", ".qwen/agents left out", "QWEN.md left out"] {
        assert_eq!(warnings.iter().filter(|warning| warning.contains(path)).count(), 1, "{path}: {warnings:#?}");
    }
    let called = project.run(&["/go"]);
    assert_eq!(called.code, 42, "{}", called.stderr);
    assert_eq!(project.server().requests().len(), 1, "what a command outside says is not sent");
}

/// A project whose user discovers the tools `echo` and `search`, and has an agent and a skill.
fn discovering() -> Project {
    let tools =
        r#"[{"name":"echo","parameters":{"type":"object","properties":{"text":{"type":"string"}}}},{"name":"search"}]"#;
    let project = Project::new()
        .file("tools.json", tools)
        .file("call.sh", "echo \"called $1\"\n")
        .file(".qwen/agents/reader.md", "---\nname: reader\ndescription: Reads\n---\nYou read.\n")
        .file(".qwen/skills/s/SKILL.md", "---\ndescription: d\n---\nDo it.\n")
        .git();
    let settings = json!({"tools": {"discoveryCommand": "cat tools.json", "callCommand": "sh call.sh", "allowed": ["discovered__search"]}});
    std::fs::create_dir_all(project.home().join(".qwen")).unwrap();
    std::fs::write(project.home().join(".qwen/settings.json"), settings.to_string()).unwrap();
    project
}

#[test]
fn a_list_allows_a_discovered_tool_and_one_that_has_a_name_of_ours_gets_a_longer_one() {
    let turn = [call("discovered__search", json!({})), call("search", json!({"pattern": "zzzz"})), say("done")];
    let project = discovering().model(turn);
    let outcome = project.run(&["go"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("echo is left out: allow it with --allowed-tools echo"), "{}", outcome.stderr);
    let requests = project.server().requests();
    assert!(names(&requests[0]).contains(&"discovered__search") && !names(&requests[0]).contains(&"echo"));
    let messages = requests[2]["messages"].to_string();
    assert!(messages.contains("called search") && messages.contains("No matches found"), "{messages}");
    let project = discovering().model([call("echo", json!({})), say("done")]);
    let outcome = project.run(&["--allowed-tools", "echo", "go"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(project.server().requests()[1].to_string().contains("called echo"));
}

#[test]
fn the_verbs_for_tools_have_the_registry_of_a_run() {
    let project = discovering();
    let listed = project.qwen(&["tools", "list", "--json"]);
    let tools: Value = serde_json::from_str(&listed.stdout).unwrap();
    let names: Vec<&str> =
        tools["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    for name in ["discovered__search", "task", "skill", "read_file"] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    let called = project.qwen(&["tools", "call", "discovered__search", "--input", "{}"]);
    assert_eq!((called.code, called.stdout.trim()), (0, "called search"), "{}", called.stderr);
    let called = project.qwen(&["tools", "call", "skill", "--input", r#"{"skill": "s"}"#]);
    assert_eq!((called.code, called.stdout.trim()), (0, "Do it."), "{}", called.stderr);
}
