//! Checks that text that parses prints to text that parses the same, and that no text makes a decision panic.
#![no_main]

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use qwen_run::path::{Node, Tree};
use qwen_run::policy::check::check_call;
use qwen_run::policy::shell::{parser, printer};
use qwen_run::policy::{Facts, Policy};

/// A small tree that nothing can change.
struct Still;

impl Tree for Still {
    fn look(&self, path: &Path) -> io::Result<Option<Node>> {
        Ok(match path.to_str() {
            Some("/" | "/w" | "/w/src" | "/w/.git") => Some(Node::Dir),
            Some("/w/a" | "/w/b.txt" | "/w/.env" | "/w/src/main.rs") => {
                Some(Node::File { links: 1, id: (1, 1), executable: false, size: 1 })
            }
            Some("/w/link") => Some(Node::Link("/etc/passwd".into())),
            Some("/w/loop") => Some(Node::Link("loop".into())),
            Some(_) | None => None,
        })
    }

    fn names(&self, path: &Path) -> io::Result<Vec<OsString>> {
        Ok(match path.to_str() {
            Some("/w") => ["a", "b.txt", ".env", "src", ".git", "link", "loop"].map(OsString::from).into(),
            Some("/w/src") => vec!["main.rs".into()],
            Some(_) | None => Vec::new(),
        })
    }
}

static POLICIES: LazyLock<Vec<Policy>> =
    LazyLock::new(|| ["open", "ci-dev"].map(|name| Policy::builtin(name).expect("a builtin is valid")).into());

fuzz_target!(|text: String| {
    if let Ok(script) = parser::parse(&text) {
        let printed = printer::print(&script);
        assert_eq!(parser::parse(&printed).as_ref(), Ok(&script), "{printed}");
    }
    let facts = Facts {
        root: "/w".into(),
        included: Vec::new(),
        outputs: None,
        home: "/home/u".to_owned(),
        tree: Arc::new(Still),
        git: qwen_run::policy::GitFacts::default(),
    };
    let call = serde_json::json!({ "command": text });
    for policy in POLICIES.iter() {
        let _decision = check_call(policy, &facts, "run_shell_command", &call);
    }
});
