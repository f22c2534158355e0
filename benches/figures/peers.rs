//! Starts other agents as their documentation says for use without a terminal.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::json;

use crate::conversation::{OWN, Words};

/// How one program is started on a prompt.
pub(crate) struct Start {
    pub(crate) arguments: Vec<String>,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) words: &'static Words,
}

fn base(home: &Path) -> BTreeMap<String, String> {
    let path = std::env::var("PATH").unwrap_or_default();
    [("HOME", home.display().to_string()), ("PATH", path), ("TERM", "dumb".into()), ("CI", "1".into())]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
}

/// Returns how this program is started; it delivers nothing or into the work tree.
pub(crate) fn own(home: &Path, port: u16, prompt: &str, more: &[&str]) -> Start {
    let mut environment = base(home);
    environment.insert("QWEN_BASE_URL".into(), format!("http://127.0.0.1:{port}/v1"));
    environment.insert("QWEN_MODEL".into(), "mock".into());
    let mut arguments = vec!["run".to_owned(), "--no-stdin".to_owned()];
    arguments.extend(more.iter().map(|word| (*word).to_owned()));
    arguments.extend(["-p".to_owned(), prompt.to_owned()]);
    Start { arguments, environment, words: &OWN }
}

/// Returns how a peer is started; `None` for a name that is not known.
pub(crate) fn start(name: &str, home: &Path, port: u16, prompt: &str) -> Option<std::io::Result<Start>> {
    let words: fn(&str) -> Vec<String> = |text| text.split(' ').map(str::to_owned).collect();
    let mut environment = base(home);
    let url = format!("http://127.0.0.1:{port}/v1");
    let mut set = |name: &str, value: &str| environment.insert(name.to_owned(), value.to_owned());
    let (mut arguments, vocabulary) = match name {
        "qwen-code" => {
            set("OPENAI_API_KEY", "none");
            set("OPENAI_BASE_URL", &url);
            set("OPENAI_MODEL", "mock");
            let settings =
                json!({"security": {"auth": {"selectedType": "openai"}}, "privacy": {"usageStatisticsEnabled": false}});
            if let Err(error) = put(&home.join(".qwen/settings.json"), &settings.to_string()) {
                return Some(Err(error));
            }
            (words("--yolo -p"), &QWEN_CODE)
        }
        "codex" => {
            set("OPENAI_API_KEY", "none");
            set("CODEX_HOME", &home.display().to_string());
            let provider = format!(
                "model_providers.mock={{name=\"mock\",base_url=\"{url}\",wire_api=\"responses\",env_key=\"OPENAI_API_KEY\"}}"
            );
            let mut arguments = words("exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox");
            arguments.extend(words("-c model_provider=mock -m mock -c"));
            arguments.push(provider);
            (arguments, &CODEX)
        }
        "claude" => {
            set("ANTHROPIC_API_KEY", "none");
            set("ANTHROPIC_BASE_URL", url.trim_end_matches("/v1"));
            set("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
            set("DISABLE_AUTOUPDATER", "1");
            set("IS_SANDBOX", "1");
            (words("--dangerously-skip-permissions --model claude-sonnet-4-5 -p"), &CLAUDE)
        }
        "opencode" => {
            let config = json!({"$schema": "https://opencode.ai/config.json", "autoupdate": false, "share": "disabled", "model": "mock/mock",
                "permission": {"edit": "allow", "bash": "allow"},
                "provider": {"mock": {"npm": "@ai-sdk/openai-compatible", "name": "mock",
                    "options": {"baseURL": url, "apiKey": "none"}, "models": {"mock": {"name": "mock"}}}}});
            set("OPENCODE_CONFIG_CONTENT", &config.to_string());
            set("OPENCODE_DISABLE_AUTOUPDATE", "1");
            set("OPENCODE_DISABLE_MODELS_FETCH", "1");
            (words("run"), &OPENCODE)
        }
        _ => return None,
    };
    arguments.push(prompt.to_owned());
    Some(Ok(Start { arguments, environment, words: vocabulary }))
}

fn put(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, text)
}

static QWEN_CODE: Words = Words {
    list: |root| ("list_directory".into(), json!({"path": root})),
    search: |_, pattern| ("grep_search".into(), json!({"pattern": pattern})),
    read: |root, path| ("read_file".into(), json!({"file_path": format!("{root}/{path}")})),
    edit: |root, path, old, new| {
        ("edit".into(), json!({"file_path": format!("{root}/{path}"), "old_string": old, "new_string": new}))
    },
    command: |_, command| {
        ("run_shell_command".into(), json!({"command": command, "description": "List", "is_background": false}))
    },
};

/// It has a shell and nothing else.
static CODEX: Words = Words {
    list: |root| codex(root, "ls -la"),
    search: |root, pattern| codex(root, &format!("grep -rn {pattern} .")),
    read: |root, path| codex(root, &format!("cat {path}")),
    edit: |root, path, old, new| {
        let text = |s: &str| s.replace('(', "\\(");
        codex(root, &format!("perl -pi -e 's/{}/{}/' {path}", text(old), new))
    },
    command: codex,
};

fn codex(root: &str, command: &str) -> (String, serde_json::Value) {
    ("exec_command".into(), json!({"cmd": command, "workdir": root}))
}

static CLAUDE: Words = Words {
    list: |root| ("Bash".into(), json!({"command": format!("ls -la {root}"), "description": "List"})),
    search: |root, pattern| {
        ("Bash".into(), json!({"command": format!("grep -rn {pattern} {root}"), "description": "Search"}))
    },
    read: |root, path| ("Read".into(), json!({"file_path": format!("{root}/{path}")})),
    edit: |root, path, old, new| {
        ("Edit".into(), json!({"file_path": format!("{root}/{path}"), "old_string": old, "new_string": new}))
    },
    command: |_, command| ("Bash".into(), json!({"command": command, "description": "List"})),
};

static OPENCODE: Words = Words {
    list: |root| ("bash".into(), json!({"command": format!("ls -la {root}"), "description": "List"})),
    search: |root, pattern| ("grep".into(), json!({"pattern": pattern, "path": root})),
    read: |root, path| ("read".into(), json!({"filePath": format!("{root}/{path}")})),
    edit: |root, path, old, new| {
        ("edit".into(), json!({"filePath": format!("{root}/{path}"), "oldString": old, "newString": new}))
    },
    command: |_, command| ("bash".into(), json!({"command": command, "description": "List"})),
};
