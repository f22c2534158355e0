//! Checks that files in small formats are parsed or refused with a message: command files, agents, sessions, cassettes,
//! scripts, notebooks, ignore patterns, diffs of findings, changelogs. The first byte selects the format.
#![no_main]

use libfuzzer_sys::fuzz_target;
use qwen_run::agent::session;
use qwen_run::model::canonical::Masks;
use qwen_run::model::cassette::Player;
use qwen_run::model::script::Script;
use qwen_run::policy::redact::Secrets;
use qwen_run::prompt::command::Command;
use qwen_run::secret::mask_credentials;
use qwen_run::tools::common::notebook;
use qwen_run::tools::mcp::pins::Pins;
use qwen_run::tools::task::AgentFile;
use qwen_run::verify::comments::{language, only_comments_differ};
use qwen_run::verify::{new_side, shape};
use qwen_run::workspace::ignore::wildmatch;

fuzz_target!(|input: &str| {
    let Some(kind) = input.chars().next() else { return };
    let text = &input[kind.len_utf8()..];
    let (one, two) = text.split_once('\0').unwrap_or((text, ""));
    match kind {
        'c' => {
            if let Ok(command) = Command::parse("c.toml", one) {
                let _segments = command.segments("c", two);
            }
        }
        'a' => drop(AgentFile::parse("a", text)),
        's' => drop(session::read(text)),
        'p' => drop(Player::new(text, Masks::new("/w", None, None, Vec::new()))),
        'm' => drop(Script::parse(text)),
        'n' => drop(notebook::text(text)),
        'w' => {
            if !one.bytes().any(|byte| br"*?[\".contains(&byte)) {
                assert_eq!(wildmatch(one.as_bytes(), two.as_bytes()), one == two);
            }
            let _found = wildmatch(one.as_bytes(), two.as_bytes());
        }
        'd' => drop(new_side::new_side(text)),
        'h' => {
            assert!(shape::differences(one, one).is_empty());
            let _differences = shape::differences(one, two);
            let _wrong = shape::changelog(one, two, "Unreleased", &["abc".to_owned()]);
        }
        'l' => {
            for name in ["a.rs", "a.py", "a.js", "a.go", "a.c", "a.sh"] {
                let Some(language) = language(name) else { continue };
                assert!(only_comments_differ(language, one, one));
                let _same = only_comments_differ(language, one, two);
            }
        }
        'r' => {
            if let Ok(secrets) = Secrets::new(&[("TOKEN".to_owned(), two.to_owned())].into(), &[]) {
                // What looks like a placeholder is replaced by one, so that what comes back can be told.
                let (masked, _) = secrets.mask(one);
                let _restored = secrets.restore(&masked, "");
            }
            let _masked = mask_credentials(text);
        }
        'i' => drop(Pins::parse(text, "s")),
        _ => {}
    }
});
