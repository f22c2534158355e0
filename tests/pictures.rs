//! Draws the pictures of the manual: what the real program shows at a terminal. `SNAPSHOTS=overwrite cargo test pictures`
//! draws them anew.

use serde_json::json;

use crate::support::terminal::{assert_picture, painted};
use crate::support::{Project, Reply, calls, raw, say};

/// Columns of the terminal.
const WIDTH: u16 = 84;

const RETRY: &str = "import time


def delay(attempt):
    return 2 ** attempt


def send(message, transport):
    for attempt in range(5):
        try:
            return transport(message)
        except OSError:
            time.sleep(delay(attempt))
    raise OSError(\"nobody answers\")
";

const TEST: &str = "from courier.retry import delay


def test_the_delay_grows():
    assert delay(2) > delay(1)
";

fn edit(path: &str, old: &str, new: &str) -> (&'static str, serde_json::Value) {
    ("edit", json!({"file_path": path, "old_string": old, "new_string": new}))
}

/// A run that looks, changes three files and is checked.
fn conversation() -> Vec<Reply> {
    let longest = "def delay(attempt, longest=60):\n    return min(2 ** attempt, longest)\n";
    let test = "delay(1)\n\n\ndef test_the_delay_has_an_end():\n    assert delay(99) == 60\n";
    vec![
        calls([
            ("search_file_content", json!({"pattern": "delay"})),
            ("read_file", json!({"file_path": "courier/retry.py"})),
        ]),
        calls([
            edit("courier/retry.py", "def delay(attempt):\n    return 2 ** attempt\n", longest),
            edit("tests/test_retry.py", "delay(1)\n", test),
            edit("README.md", "waits longer.", "waits longer, at most a minute."),
        ]),
        say("`delay` never exceeds **60 seconds** now; a test holds that."),
    ]
}

#[test]
fn the_picture_of_a_dry_run_is_what_the_program_shows() {
    let project = Project::new()
        .file("courier/retry.py", RETRY)
        .file("tests/test_retry.py", TEST)
        .file("README.md", "# courier\n\nSends messages. Each time it waits longer.\n")
        .git()
        .model(conversation())
        .env("QWEN_MODEL", "qwen3-coder-plus")
        .env("TERM", "xterm-256color")
        .env("LANG", "C.UTF-8");
    let arguments = ["--verify", "git diff --check", "Retries wait for hours; give the delay an end"];
    let (code, bytes) = raw(&project, WIDTH, &arguments);
    let text = painted(&bytes, WIDTH);
    assert_eq!(code, 0, "{text}");
    assert_picture(
        "docs/pictures/dry-run.svg",
        &format!("$ qwen \"Retries wait for hours; give the delay an end\"\n{text}\n"),
    );
}
