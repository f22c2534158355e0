//! Draws the pictures of the manual: what the real program shows at a terminal. `SNAPSHOTS=overwrite cargo test pictures`
//! draws them anew.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::json;

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

/// Returns what a screen shows, as text with the sequences of its colours.
fn painted(bytes: &[u8]) -> String {
    let mut parser = vt100::Parser::new(500.try_into().unwrap(), WIDTH.try_into().unwrap(), 0);
    parser.process(bytes);
    let screen = parser.screen();
    let time = regex::Regex::new(r"\b\d+\.\d s\b").unwrap();
    let mut text = String::new();
    for row in 0..500 {
        let (mut line, mut current) = (String::new(), anstyle::Style::new());
        for column in 0..WIDTH {
            let Some(cell) = screen.cell(row, column) else { continue };
            let contents = if cell.has_contents() { cell.contents() } else { " " };
            let mut style = anstyle::Style::new();
            if let vt100::Color::Idx(number @ 0..16) = cell.fgcolor() {
                style = style.fg_color(Some(anstyle::Ansi256Color(number).into_ansi().expect("one of 16").into()));
            }
            let effects = [
                (cell.bold(), anstyle::Effects::BOLD),
                (cell.dim(), anstyle::Effects::DIMMED),
                (cell.inverse(), anstyle::Effects::INVERT),
            ];
            let effects = effects.into_iter().filter(|(is_on, _)| *is_on);
            style = effects.fold(style, |style, (_, effect)| style | effect);
            if style != current {
                write!(line, "{current:#}{style}").unwrap();
                current = style;
            }
            line.push_str(contents);
        }
        // How long it took is not the same again.
        let line = time.replace_all(line.trim_end(), "4.2 s").into_owned();
        text.push_str(&format!("{}{current:#}", line));
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text
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
    let text = painted(&bytes);
    assert_eq!(code, 0, "{text}");
    // Paler colours than a terminal's: they are read on black.
    let paler = [("AAAAAA", "D6DEE6"), ("AA0000", "FF7B72"), ("00AA00", "3FB950"), ("00AAAA", "76E3EA")];
    let picture = anstyle_svg::Term::new()
        .render_svg(&format!("$ qwen \"Retries wait for hours; give the delay an end\"\n{text}\n"));
    let picture =
        paler.iter().fold(picture, |picture, (from, to)| picture.replace(&format!("#{from}"), &format!("#{to}")));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/pictures/dry-run.svg");
    if std::env::var_os("SNAPSHOTS").is_some_and(|value| value == "overwrite") {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &picture).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == picture,
        "docs/pictures/dry-run.svg differs; SNAPSHOTS=overwrite cargo test pictures draws it anew"
    );
}
