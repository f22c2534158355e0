//! Tests existing scripts for Qwen Code: called as its GitHub Action calls it, read as that action reads it.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::{Outcome, Project, Reply, call, calls, say};

/// How the action finds the answer in standard output.
const ANSWER: &str =
    r#"[.[] | select(.type == "assistant")] | last | .message.content[] | select(.type == "text") | .text"#;

/// How the action finds the error in standard error.
const ERROR: &str = ".error // empty";

/// Runs jq as the action does; without jq on this machine the test says so and reads the same by hand.
fn jq(flag: &str, expression: &str, input: &str) -> Option<String> {
    let child = Command::new("jq").args([flag, expression]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        eprintln!("there is no jq here: the action's expression {expression} was not run");
        return None;
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "jq refuses {input}");
    Some(String::from_utf8(output.stdout).unwrap())
}

fn answer(outcome: &Outcome) -> String {
    let messages: Vec<Value> = serde_json::from_str(&outcome.stdout).expect("an array on standard output");
    let last = messages.iter().rfind(|message| message["type"] == "assistant").expect("the model answered");
    let content = last["message"]["content"].as_array().unwrap();
    let by_hand: String = content
        .iter()
        .filter(|part| part["type"] == "text")
        .map(|part| format!("{}\n", part["text"].as_str().unwrap()))
        .collect();
    if let Some(by_jq) = jq("-r", ANSWER, &outcome.stdout) {
        assert_eq!(by_jq, by_hand);
    }
    by_hand
}

fn error(outcome: &Outcome) -> Value {
    let printed: Value = serde_json::from_str(&outcome.stderr).expect("nothing but JSON on standard error");
    if let Some(by_jq) = jq("-c", ERROR, &outcome.stderr) {
        assert_eq!(serde_json::from_str::<Value>(&by_jq).unwrap(), printed["error"]);
    }
    printed["error"].clone()
}

/// A checkout as the action leaves it: its settings and commands are written into `.qwen/`.
fn checkout(settings: &Value, replies: impl IntoIterator<Item = Reply>) -> Project {
    Project::new()
        .file("a.txt", "one\n")
        .git()
        .file(".qwen/settings.json", settings.to_string())
        .file(
            ".qwen/commands/qwen-invoke.toml",
            "description = \"Runs the agent\"\nprompt = \"\"\"\n## Context\n\n- **Title**: !{echo $TITLE}\n- **Event**: !{echo $EVENT_NAME}\n\nDo it.\n\"\"\"\n",
        )
        .env("CI", "true")
        .env("GITHUB_ACTIONS", "true")
        .env("SURFACE", "GitHub")
        .env("OPENAI_API_KEY", "sk-local-0123456789")
        .env("OPENAI_MODEL", "qwen3-coder-plus")
        .model(replies)
}

fn invoke(project: &Project, prompt: &str) -> Outcome {
    project.qwen(&["--yolo", "--prompt", prompt, "--channel=CI", "--output-format", "json"])
}

/// The settings of the action's own example, servers aside.
fn example() -> Value {
    json!({
        "model": {"maxSessionTurns": 25},
        "telemetry": {"enabled": true, "target": "local", "outfile": ".qwen/telemetry.log"},
        "tools": {"core": ["run_shell_command(cat)", "run_shell_command(echo)", "run_shell_command(head)"]}
    })
}

#[test]
fn the_action_finds_the_answer() {
    let cat = call("run_shell_command", json!({"command": "cat a.txt"}));
    let project = checkout(&example(), [cat, say("It says one.\nDone.")])
        .env("QWEN_TRUST_CHECKOUT", "1")
        .env("TITLE", "It's $(broken); `rm -rf /`")
        .env("EVENT_NAME", "issues");
    let outcome = invoke(&project, "/qwen-invoke");
    assert_eq!(outcome.code, 0, "{}\n{}", outcome.stdout, outcome.stderr);
    assert_eq!(answer(&outcome), "It says one.\nDone.\n");
    assert_eq!(outcome.stderr, "");
    let request = project.server().requests()[0].to_string();
    assert!(request.contains("- **Title**: It's $(broken); `rm -rf /`") && request.contains("**Event**: issues"));
}

#[test]
fn without_trust_the_run_goes_on_and_the_result_says_what_was_left_out() {
    let mut settings = example();
    settings["mcpServers"] = json!({"github": {"command": "docker", "args": ["run"]}});
    let project = checkout(&settings, [say("ok")]).env("TITLE", "t");
    let outcome = invoke(&project, "/qwen-invoke");
    assert_eq!(outcome.code, 0, "{}", outcome.stdout);
    assert_eq!(answer(&outcome), "ok\n");
    let messages: Vec<Value> = serde_json::from_str(&outcome.stdout).unwrap();
    let warnings = messages.last().unwrap()["warnings"].to_string();
    assert!(warnings.contains("mcpServers left out") && warnings.contains("!{echo $TITLE} left out"), "{warnings}");
}

#[test]
fn the_action_finds_the_error() {
    let body = r#"{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}"#;
    let project = checkout(&example(), [Reply::Status(401, vec![], body.into())]);
    let outcome = invoke(&project, "hi");
    assert_eq!(outcome.code, 41);
    let error = error(&outcome);
    assert_eq!((&error["type"], &error["code"]), (&json!("FatalAuthenticationError"), &json!(41)));
    assert!(error["message"].as_str().unwrap().contains("401"));
    assert!(serde_json::from_str::<Vec<Value>>(&outcome.stdout).is_ok());
}

#[test]
fn a_wrong_flag_or_setting_is_an_error_that_the_action_finds_too() {
    let project = checkout(&json!({"model": {"maxSessionTurns": "many"}}), [say("ok")]);
    let outcome = invoke(&project, "hi");
    assert_eq!((outcome.code, error(&outcome)["code"].clone()), (52, json!(52)));
    let outcome = project.qwen(&["--yolo", "--prompt", "hi", "--output-format", "json", "--no-such-flag"]);
    assert_eq!((outcome.code, error(&outcome)["code"].clone()), (2, json!(2)));
}

#[test]
fn more_is_said_where_it_is_asked_for() {
    let project = checkout(&example(), [say("ok")]);
    let outcome = project.qwen(&["--yolo", "-v", "--prompt", "hi", "--output-format", "json"]);
    assert!(outcome.stderr.contains("ok 0 files"), "{}", outcome.stderr);
    assert_eq!(answer(&outcome), "ok\n");
}

/// Returns the names of the tools that the model was offered, and what each call was answered with.
fn offered_and_answers(project: &Project) -> (Vec<String>, Vec<String>) {
    let requests = project.server().requests();
    let tools = requests[0]["tools"].as_array().unwrap();
    let names = tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect();
    let messages = requests.last().unwrap()["messages"].as_array().unwrap().clone();
    let answers =
        messages.iter().filter(|message| message["role"] == "tool").map(|message| message["content"].to_string());
    (names, answers.collect())
}

fn shell(command: &str) -> (&'static str, Value) {
    ("run_shell_command", json!({"command": command}))
}

#[test]
fn the_core_list_holds_with_its_specifiers_under_yolo() {
    let settings = json!({"tools": {"core": ["run_shell_command(git status)", "read_file"]}});
    let turn = calls([
        shell("git status --short"),
        ("read_file", json!({"file_path": "a.txt"})),
        shell("git log"),
        shell("git status; ls"),
        ("write_file", json!({"file_path": "b.txt", "content": "b"})),
    ]);
    let project = checkout(&settings, [turn, say("done")]);
    let outcome = invoke(&project, "look");
    let (offered, answers) = offered_and_answers(&project);
    assert_eq!(offered, ["read_file", "run_shell_command"]);
    assert!(answers[0].contains("Exit Code: 0"), "{}", answers[0]);
    assert!(answers[1].contains("one"));
    assert!(answers[2].contains("Denied") && answers[3].contains("Denied"), "{answers:?}");
    assert!(answers[4].contains("not found in registry"), "{}", answers[4]);
    assert_eq!(outcome.code, 60);
    assert_eq!(answer(&outcome), "done\n");
    assert!(!project.root().join("b.txt").exists());
}

#[test]
fn lists_that_take_away_hold_with_their_specifiers_under_yolo() {
    let settings = json!({
        "tools": {"exclude": ["run_shell_command(git log)", "WriteFile"]},
        "permissions": {"deny": ["Bash(cat:*)"], "ask": ["Bash(git diff *)"], "allow": ["Bash(git push)"]}
    });
    let commands = ["git log -1", "git status", "cat a.txt", "git diff --stat", "git push", "head a.txt"];
    let project = checkout(&settings, [calls(commands.map(shell)), say("done")]);
    let outcome = invoke(&project, "look");
    let (offered, answers) = offered_and_answers(&project);
    assert!(!offered.contains(&"write_file".to_owned()) && offered.contains(&"edit".to_owned()));
    let denied: Vec<bool> = answers.iter().map(|answer| answer.contains("Denied")).collect();
    assert_eq!(denied, [true, false, true, true, true, false], "{answers:#?}");
    assert_eq!(outcome.code, 60);
}

#[test]
fn what_the_operator_allows_is_added_and_what_the_project_allows_is_not() {
    let turn = || calls([shell("printf hi"), shell("seq 3")]);
    let settings = json!({"tools": {"allowed": ["run_shell_command(seq)"]}});
    let project = checkout(&settings, [turn(), say("done")]);
    let outcome = project.qwen(&["--prompt", "look", "--output-format", "json"]);
    assert!(offered_and_answers(&project).1[1].contains("Denied"));
    assert_eq!(outcome.code, 60);
    let project = checkout(&settings, [turn(), say("done")]);
    let outcome =
        project.qwen(&["--prompt", "look", "--output-format", "json", "--allowed-tools", "run_shell_command(seq)"]);
    assert_eq!(outcome.code, 0, "{:?}", offered_and_answers(&project).1);
}

#[test]
fn files_that_permissions_deny_are_not_read_by_any_tool() {
    let settings = json!({"permissions": {"deny": ["Read(./private/**)", "Edit(a.txt)"]}});
    let turn = calls([
        ("read_file", json!({"file_path": "private/x"})),
        shell("cat private/x"),
        ("edit", json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"})),
        ("read_file", json!({"file_path": "a.txt"})),
    ]);
    let project = checkout(&settings, [turn, say("done")]).file("private/x", "secret words\n");
    assert_eq!(invoke(&project, "look").code, 60);
    let (_, answers) = offered_and_answers(&project);
    let denied: Vec<bool> = answers.iter().map(|answer| answer.contains("Denied")).collect();
    assert_eq!(denied, [true, true, true, false], "{answers:#?}");
}

#[test]
fn allowing_a_tool_takes_none_away_in_any_mode() {
    let modes: [&[&str]; 5] =
        [&[], &["--approval-mode", "default"], &["--approval-mode", "auto-edit"], &["--apply"], &["--commit"]];
    for mode in modes {
        let turn = calls([
            shell("git status --short"),
            shell("seq 3"),
            shell("make all"),
            ("edit", json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"})),
        ]);
        let project = Project::new().file("a.txt", "one\n").git().model([turn, say("done")]);
        let allowed = ["--allowed-tools", "run_shell_command(seq),save_memory"];
        let arguments = [&["--prompt", "look", "--output-format", "json"], mode, &allowed].concat();
        let outcome = project.qwen(&arguments);
        let (offered, answers) = offered_and_answers(&project);
        for tool in ["edit", "read_file", "run_shell_command", "save_memory", "todo_write", "write_file"] {
            assert!(offered.contains(&tool.to_owned()), "{mode:?}: {tool} is not in {offered:?}");
        }
        let denied: Vec<bool> = answers.iter().map(|answer| answer.contains("Denied")).collect();
        assert_eq!(denied, [false, false, true, false], "{mode:?}: {answers:#?}\n{}", outcome.stderr);
    }
}

#[test]
fn a_list_that_takes_away_does_so_in_every_spelling() {
    for flags in [
        &["--exclude-tools", "write_file,run_shell_command"][..],
        &["--exclude-tools", "WriteFileTool", "ShellTool"],
        &["--exclude-tools=WriteFile", "--exclude-tools", "Bash"],
        &["--core-tools", "ReadFileTool,EditTool"],
    ] {
        let project = Project::new().file("a.txt", "one\n").git().model([say("done")]);
        let outcome = project.qwen(&[flags, &["-y", "--prompt", "look", "--output-format", "json"]].concat());
        assert_eq!(outcome.code, 0, "{flags:?}: {}", outcome.stderr);
        let offered = offered_and_answers(&project).0;
        for tool in ["write_file", "run_shell_command"] {
            assert!(!offered.contains(&tool.to_owned()), "{flags:?}: {tool} is in {offered:?}");
        }
        assert!(offered.contains(&"read_file".to_owned()) && offered.contains(&"edit".to_owned()), "{flags:?}");
    }
}

#[test]
fn a_name_that_no_tool_has_is_a_warning_and_52_with_strict() {
    for flag in ["--allowed-tools", "--core-tools", "--exclude-tools"] {
        let project = Project::new().file("a.txt", "one\n").git().model([say("done")]);
        let flags = [flag, "read_file,shel", "-p", "look", "--output-format", "json"];
        let outcome = project.qwen(&flags);
        assert_eq!(outcome.code, 0, "{flag}: {}", outcome.stderr);
        assert!(outcome.stdout.contains(&format!("{flag}: unknown tool `shel`")), "{}", outcome.stdout);
        let outcome = project.qwen(&[&flags[..], &["--strict"]].concat());
        assert_eq!(outcome.code, 52, "{flag}: {}", outcome.stdout);
    }
}

/// The fields that the script of Qwen Code's headless documentation reads, of the last message: what `json` prints is
/// an array there as here, though the script takes it for one object.
const TOTAL_TOKENS: &str = ".[-1].stats.models // {} | to_entries | map(.value.tokens.total) | add // 0";
const MODELS: &str = r#".[-1].stats.models // {} | keys | join(", ") | if . == "" then "none" else . end"#;
const TOOL_CALLS: &str = ".[-1].stats.tools.totalCalls // 0";
const TOOLS: &str = r#".[-1].stats.tools.byName // {} | keys | join(", ") | if . == "" then "none" else . end"#;

#[test]
fn the_usage_tracking_script_prints_the_right_numbers() {
    let turn = calls([shell("git status"), ("read_file", json!({"file_path": "a.txt"})), shell("make all")]);
    let project = Project::new().file("a.txt", "one\n").git().model([turn, say("done")]);
    let outcome = project.qwen(&["-p", "look", "--output-format", "json"]);
    let messages: Vec<Value> = serde_json::from_str(&outcome.stdout).unwrap();
    let result = messages.last().unwrap();
    let stats = &result["stats"];
    let model = result["model"].as_str().unwrap();
    assert_eq!(stats["models"][model]["tokens"]["total"], result["usage"]["total_tokens"], "{stats}");
    assert_eq!(stats["models"][model]["api"]["totalRequests"], 2);
    let totals = ["totalCalls", "totalSuccess", "totalFail"].map(|key| stats["tools"][key].as_u64().unwrap());
    assert_eq!(totals, [3, 2, 1]);
    let by_name = &stats["tools"]["byName"];
    assert_eq!(
        by_name["run_shell_command"]["decisions"],
        json!({"accept": 0, "reject": 1, "modify": 0, "auto_accept": 1})
    );
    let total = result["usage"]["total_tokens"].to_string();
    for (expression, printed) in
        [(TOTAL_TOKENS, total.as_str()), (MODELS, model), (TOOL_CALLS, "3"), (TOOLS, "read_file, run_shell_command")]
    {
        if let Some(by_jq) = jq("-r", expression, &outcome.stdout) {
            assert_eq!(by_jq.trim(), printed, "{expression}");
        }
    }
}

/// A project whose user has these settings.
fn with_settings(settings: &Value, replies: impl IntoIterator<Item = Reply>) -> Project {
    let project = Project::new().file("a.txt", "one\n").git().model(replies);
    std::fs::create_dir_all(project.home().join(".qwen")).unwrap();
    std::fs::write(project.home().join(".qwen/settings.json"), settings.to_string()).unwrap();
    project
}

#[test]
fn a_setup_of_yesterday_runs_unchanged() {
    let settings = json!({
        "tools": {"approvalMode": "auto", "disabled": ["WriteFileTool"], "executionSandbox": {}},
        "modelFallbacks": "m-2, m-3", "fastModel": "m-4", "memory": {"enableTeamMemory": false},
        "permissions": {"allow": ["Edit(/src/**/*.ts)", "Read(//elsewhere/**)", "Skill(x)"], "deny": ["Read(/private/**)"]},
        "disableAllHooks": true,
        "hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "exit 2"}]}]},
    });
    let turn = calls([("read_file", json!({"file_path": "a.txt"})), ("read_file", json!({"file_path": "hidden.txt"}))]);
    let project = with_settings(&settings, [turn, say("done")])
        .file(".aiignore", "hidden.txt\n")
        .file("hidden.txt", "not to be seen\n")
        .file(".qwen/skills/release/SKILL.md", "---\ndescription: d\n---\nTag it.\n");
    let outcome = project.qwen(&["/release now", "--output-format", "json"]);
    let (offered, answers) = offered_and_answers(&project);
    assert_eq!(outcome.code, 0, "{}\n{answers:#?}", outcome.stdout);
    assert!(!offered.contains(&"write_file".to_owned()) && offered.contains(&"edit".to_owned()), "{offered:?}");
    assert!(answers[0].contains("one"), "no hook blocks: {answers:#?}");
    assert!(answers[1].contains("ignored"), "{answers:#?}");
    let request = project.server().requests()[0]["messages"].to_string();
    assert!(request.contains("Tag it.\\n\\nnow") && !request.contains("description: d"), "{request}");
    let messages: Vec<Value> = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!((&messages[0]["type"], &messages[0]["subtype"]), (&json!("system"), &json!("init")));
    assert_eq!(messages[0]["slash_commands"], json!(["release"]));
    let warnings = messages.last().unwrap()["warnings"].to_string();
    assert!(warnings.contains("`auto` means `default`") && warnings.contains("elsewhere"), "{warnings}");
    assert!(!warnings.contains("unknown key"), "{warnings}");
}

#[test]
fn the_first_message_is_init_whatever_is_warned_about() {
    let project = with_settings(&json!({"nobodys": 1}), [say("done")]);
    for format in ["json", "stream-json"] {
        let outcome = project.qwen(&["-p", "look", "--output-format", format, "--replay", "no-such-file"]);
        assert_ne!(outcome.code, 0);
    }
    let outcome = project.qwen(&["-p", "look", "--output-format", "stream-json"]);
    let messages: Vec<Value> = outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(messages[0]["subtype"], "init");
    assert!(
        messages[1..].iter().any(|message| message["message"].to_string().contains("nobodys")),
        "{}",
        outcome.stdout
    );
}

#[test]
fn a_command_of_qwen_code_is_refused_with_a_pointer() {
    let project = Project::new().git().model([say("done")]);
    for (prompt, pointer) in [("/mcp", "qwen mcp list"), ("/stats", "result"), ("/tools", "qwen tools list")] {
        let outcome = project.run(&["-p", prompt]);
        assert_eq!(outcome.code, 42);
        assert!(outcome.stderr.contains(pointer), "{prompt}: {}", outcome.stderr);
    }
    for words in [&["extensions", "list"][..], &["sessions"], &["-y", "update"], &["--insecure", "-p", "hi"]] {
        let outcome = project.qwen(words);
        assert_eq!(outcome.code, 2, "{words:?}: {}", outcome.stderr);
    }
    assert_eq!(project.server().requests().len(), 0);
}
