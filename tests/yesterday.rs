//! Tests an existing setup of Qwen Code, unchanged: a person's directory, a checkout, two servers, the step of an
//! Action.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Outcome, Project, Reply, call, calls, on_the_network, program, say};

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/qwen-code/yesterday");

fn copied(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copied(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// The setup, and the requests that reach the server on the network.
fn setup(replies: impl IntoIterator<Item = Reply>) -> (Project, std::sync::Arc<std::sync::Mutex<Vec<String>>>) {
    let project = Project::new();
    copied(&Path::new(FIXTURE).join("work"), &project.root());
    copied(&Path::new(FIXTURE).join("home"), &project.home());
    let (address, kept) = on_the_network();
    let server = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/mcp/server.sh");
    (project.git().env("SERVER", server).env("ADDRESS", &address).model(replies), kept)
}

fn messages(outcome: &Outcome) -> Vec<Value> {
    serde_json::from_str(&outcome.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", outcome.stdout, outcome.stderr))
}

fn warnings(outcome: &Outcome) -> Vec<String> {
    let messages = messages(outcome);
    let warnings = messages.last().unwrap()["warnings"].as_array().cloned().unwrap_or_default();
    warnings.iter().map(|warning| warning.as_str().unwrap().to_owned()).collect()
}

fn tools(request: &Value) -> Vec<&str> {
    request["tools"].as_array().unwrap().iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect()
}

fn shell(command: &str) -> (&'static str, Value) {
    ("run_shell_command", json!({"command": command}))
}

/// The answers to the model's calls, as they are in a request.
fn answers(request: &Value) -> Vec<String> {
    let messages = request["messages"].as_array().unwrap().iter();
    messages.filter(|message| message["role"] == "tool").map(|message| message["content"].to_string()).collect()
}

#[test]
fn the_setup_runs_as_it_stands() {
    let turn = calls([
        ("read_file", json!({"file_path": "src/calc.py"})),
        ("look", json!({})),
        ("find", json!({})),
        ("mcp__web__find", json!({})),
        shell("wc -l src/calc.py"),
        shell("git log --oneline"),
        ("edit", json!({"file_path": "src/calc.py", "old_string": "a - b", "new_string": "a + b"})),
        ("read_file", json!({"file_path": "secrets.txt"})),
        ("read_file", json!({"file_path": "private/keys.txt"})),
        ("write_file", json!({"file_path": "new.py", "content": "x"})),
        shell("git push origin main"),
    ]);
    let (project, network) = setup([turn, say("done")]);
    let before = project.tree();
    let outcome = project.qwen(&["-p", "/review src/calc.py", "-o", "json"]);
    let requests = project.server().requests();
    let request = &requests[0];
    let context = &request["messages"].to_string();
    // The command is the project's, though a server has a prompt of that name.
    assert!(context.contains("Review this file: src/calc.py") && context.contains("Four blanks"), "{context}");
    assert!(context.contains("Answer in English.") && context.contains("We write Python."), "{context}");
    assert!(!context.contains("not to be seen") && !context.contains("not to be read"), "{context}");
    assert_eq!(request["temperature"], 0.2);
    let offered = tools(request);
    for tool in ["look", "web__find", "skill", "task", "save_memory"] {
        assert!(offered.contains(&tool), "{tool} is not in {offered:?}");
    }
    assert!(!offered.contains(&"web_fetch"), "the project's list takes it away: {offered:?}");
    let answers = answers(&requests[1]);
    let sees = [
        "a - b",
        "root=",
        "params must have",
        "found on the network",
        "Exit Code: 0",
        "Exit Code: 0",
        "Successfully modified",
        "ignored by .qwenignore",
        "Read(/private/**)",
        "a hook blocks",
        "Denied by policy",
    ];
    for (answer, sees) in answers.iter().zip(sees) {
        assert!(answer.contains(sees), "{sees}: {answers:#?}");
    }
    assert!(network.lock().unwrap().iter().all(|head| head.contains("authorization: Bearer t0ken-of-yesterday")));
    let init = &messages(&outcome)[0];
    assert_eq!(init["slash_commands"], json!(["docs:write", "git:log", "pdf", "release", "review"]));
    assert_eq!(init["agents"], json!(["careful", "reviewer"]));
    assert_eq!(outcome.code, 60, "calls were denied");
    assert_eq!(project.tree(), before, "a dry run");
    // What differs is said, each thing once, and nothing of it is a key that nobody knows.
    let said = [
        ".qwen/.env left out: this checkout is not trusted",
        "context.includeDirectories left out: this checkout is not trusted",
        "mcpServers left out: this checkout is not trusted",
        "`Read(//etc/hostname)` allows nothing",
        "import @./docs/gone.md left out",
        "hooks.UserPromptSubmit left out",
    ];
    let mut warnings = warnings(&outcome);
    // The scripted model does not count as a model does.
    warnings.retain(|warning| !warning.contains("the server counted"));
    assert_eq!(warnings.len(), said.len(), "{warnings:#?}");
    for (warning, said) in warnings.iter().zip(said) {
        assert!(warning.contains(said), "{warnings:#?}");
    }
}

#[test]
fn agents_have_the_tools_of_their_files_and_skills_are_for_whom_they_say() {
    let work = |agent: &str| call("task", json!({"description": "d", "prompt": "Do it.", "subagent_type": agent}));
    let turns = [work("careful"), say("was careful"), work("reviewer"), say("is reviewed"), say("done")];
    let (project, _network) = setup(turns);
    let outcome = project.qwen(&["-p", "look", "-o", "json", "--yolo"]);
    let requests = project.server().requests();
    let (of_run, careful, reviewer) = (tools(&requests[0]), tools(&requests[1]), tools(&requests[3]));
    let taken: Vec<&&str> = of_run.iter().filter(|tool| !careful.contains(tool)).collect();
    assert_eq!(taken, [&"run_shell_command", &"task", &"web__find"], "{}", outcome.stdout);
    // It plans: of its tools those that only look.
    assert!(reviewer.contains(&"read_file") && reviewer.contains(&"search_file_content"), "{reviewer:?}");
    assert!(!reviewer.contains(&"run_shell_command") && !reviewer.contains(&"edit"), "{reviewer:?}");
    let skill = requests[0]["tools"].as_array().unwrap().iter().find(|tool| tool["function"]["name"] == "skill");
    let names = &skill.unwrap()["function"]["parameters"]["properties"]["skill"]["enum"];
    assert_eq!(names, &json!(["pdf"]), "release is not for the model");
    project.server().restart([say("done")]);
    project.qwen(&["-p", "/release now"]);
    assert!(project.server().requests()[0]["messages"].to_string().contains("Tag, then publish."));
}

#[test]
fn a_command_with_a_shell_in_it_and_trust_work_as_they_did() {
    let (project, _network) = setup([say("done"), say("done")]);
    let project = project.env("QWEN_TRUST_CHECKOUT", "1");
    let outcome = project.qwen(&["-p", "/git:log the team", "-o", "json"]);
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    let request = project.server().requests()[0]["messages"].to_string();
    assert!(request.contains(" start\\n") && request.contains("For: the team"), "{request}");
    let warnings = warnings(&outcome);
    assert!(!warnings.iter().any(|warning| warning.contains("not trusted")), "{warnings:#?}");
    // `mcp.allowed` of the user leaves the project's server out.
    let servers = &messages(&outcome)[0]["mcp_servers"];
    assert!(!servers.to_string().contains("of-project"), "{servers}");
}

/// The step of the action, as its `action.yml` writes it.
const STEP: &str = r#"set -e
mkdir -p .qwen
echo "$SETTINGS_JSON" > .qwen/settings.json
QWEN_RESPONSE=$(qwen --yolo --prompt "$PROMPT")
echo "qwen_result<<EOF" >> "$GITHUB_OUTPUT"
echo "$QWEN_RESPONSE" >> "$GITHUB_OUTPUT"
echo "EOF" >> "$GITHUB_OUTPUT""#;

#[test]
fn the_step_of_the_action_has_its_answer() {
    let action: Value =
        serde_json::from_slice(&std::fs::read(Path::new(FIXTURE).join("action.json")).unwrap()).unwrap();
    let turn = calls([shell("cat src/calc.py"), shell("head -1 src/calc.py")]);
    let (project, _network) = setup([turn, say("It subtracts.\nDone.")]);
    // A runner has no settings of a person.
    std::fs::remove_dir_all(project.home().join(".qwen")).unwrap();
    let bin = project.beside("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(program(), bin.join("qwen")).unwrap();
    let output = project.beside("output");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let run = Command::new("bash")
        .args(["-c", STEP])
        .current_dir(project.root())
        .env_clear()
        .envs([("PATH", path.as_str()), ("CI", "true"), ("GITHUB_ACTIONS", "true"), ("GITHUB_TOKEN", "ghs_x")])
        .env("HOME", project.home())
        .env("TMPDIR", project.beside(""))
        .env("GITHUB_OUTPUT", &output)
        .env("SETTINGS_JSON", action["settings"].to_string())
        .env("PROMPT", action["prompt"].as_str().unwrap())
        .env("OPENAI_API_KEY", "sk-local-0123456789")
        .env("OPENAI_BASE_URL", project.server().base_url())
        .env("OPENAI_MODEL", "scripted")
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{stderr}");
    assert_eq!(std::fs::read_to_string(output).unwrap(), "qwen_result<<EOF\nIt subtracts.\nDone.\nEOF\n");
    assert!(stderr.contains("mcpServers left out: this checkout is not trusted"), "{stderr}");
    let request = &project.server().requests()[0];
    assert_eq!(tools(request), ["run_shell_command"], "tools.core holds");
    assert!(request["messages"].to_string().contains("Document src/calc.py."));
}

#[test]
fn what_a_prompt_includes_needs_the_tool_that_reads_it_and_says_so() {
    let (project, _network) = setup([say("done")]);
    for prompt in ["/review src/calc.py", "what is in @docs/style.md ?"] {
        let outcome = project.qwen(&["-p", prompt, "--core-tools", "run_shell_command"]);
        assert_eq!(outcome.code, 60, "{prompt}: {}", outcome.stderr);
        assert!(
            outcome.stderr.contains("the tool that reads it, read_many_files, is not available"),
            "{}",
            outcome.stderr
        );
    }
    assert_eq!(project.server().requests().len(), 0);
}
