//! Finds programs that deny rules name in the values of options: an option may start its value.

use super::deny::why;
use crate::policy::decision::Denial;
use crate::policy::file::CommandRule;
use crate::policy::glob::fold_name;
use crate::policy::layers::Layer;
use crate::policy::names::{base_name, named};
use crate::policy::programs::specs::{Meaning, meaning};
use crate::policy::programs::table::{Operands, Style, Table};
use crate::policy::programs::{self, Word};
use crate::policy::rules::Rule;

/// Refuses an option that its table does not know, or marks because it loads code or starts something, where a word of its
/// value is a program that a deny rule names: what that program would get is not known.
pub(super) fn started_by_option(layer: &Layer, name: &str, words: &[Word]) -> Option<Denial> {
    let table = programs::find(name).filter(|_| !layer.rules.shell.deny.is_empty())?;
    options(name, table, &words[1..]).into_iter().find_map(|(option, value)| {
        let (rule, program) = denied_in(layer, value)?;
        let reason = format!("{name}: `{option}` may start `{program}`; {}", why(&rule.value));
        Some(Denial::new(reason).by_rule(rule.at.clone()).hint("leave the option out"))
    })
}

/// Returns the options that may start something, with their values.
fn options<'w>(name: &str, table: &'static Table, words: &'w [Word]) -> Vec<(&'w str, &'w str)> {
    let mut found = Vec::new();
    let compiles = name == "cargo" && words.iter().any(|word| named("rustc rustdoc clippy", &word.text));
    let mut tables = vec![table];
    let mut words = words.iter().map(|word| word.text.as_str()).peekable();
    while let Some(word) = words.next() {
        if word == "--" {
            // What cargo is given there is the compiler's.
            match programs::find("rustc").filter(|_| compiles) {
                Some(rustc) => tables = vec![rustc],
                None => break,
            }
            continue;
        }
        if word.len() < 2 || !word.starts_with('-') {
            let last = tables.last().copied().unwrap_or(table);
            match last.subcommands.iter().find(|sub| named(sub.names, word)) {
                Some(sub) => tables.push(sub),
                // What follows is another program's.
                None if name != "cargo" && (last.style == Style::First || last.operands == Operands::Starts) => break,
                None => {}
            }
            continue;
        }
        let (option, meaning) = meaning(tables.iter().map(|table| table.options), word);
        let mut next = || words.peek().copied().filter(|next| !next.starts_with('-'));
        match meaning {
            Meaning::Plain { takes_next } => {
                if takes_next {
                    words.next();
                }
            }
            Meaning::Rest => break,
            Meaning::Starts(Some(value)) => found.push((option, value)),
            Meaning::Starts(None) => found.extend(next().map(|value| (option, value))),
        }
    }
    found
}

/// Returns the deny rule that names a word of a value as its program, and the word.
fn denied_in<'l>(layer: &'l Layer, value: &str) -> Option<(&'l Rule<CommandRule>, String)> {
    // `NAME=PROGRAM`: the name is none.
    let plain = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    let value = value.split_once('=').filter(|(name, _)| plain(name)).map_or(value, |(_, value)| value);
    // A shell takes quotes out of a word, TOML writes letters as numbers.
    if let Some(rule) =
        layer.rules.shell.deny.first().filter(|_| ["\\u", "\\U", "\\x"].iter().any(|escape| value.contains(escape)))
    {
        return Some((rule, value.to_owned()));
    }
    let unquoted = value.replace(['\'', '"', '\\'], "");
    let marks = |c: char| c.is_whitespace() || ";&|()<>'\"`${}=,:!\\".contains(c);
    let parts = value.split(marks).chain(unquoted.split(marks));
    // After `https:` is the name of a host.
    let is_address = value.contains("://");
    let mut programs = parts.filter(|part| !(part.is_empty() || is_address && part.starts_with("//")));
    programs.find_map(|part| {
        let name = fold_name(base_name(part));
        let is = |known: &String| {
            let rest = name.strip_prefix(fold_name(base_name(known)).as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.') && !rest[1..].contains('.'))
        };
        let rule = layer.rules.shell.deny.iter().find(|rule| rule.value.cmd[0].0.iter().any(is))?;
        Some((rule, part.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;
    use crate::policy::layers::{LayerText, Standing, no_parents};

    #[test]
    fn a_denied_program_is_found_in_what_an_option_may_start_and_not_in_data() {
        let text = "version: 1\nshell: {default: allow, deny: [{cmd: [evil]}, {cmd: [git, push]}]}\n".to_owned();
        let layer = LayerText { name: "p.yaml".into(), text, standing: Standing::Operator };
        let policy = Policy::new(&layer, &[], &no_parents).unwrap();
        let denied = |command: &str| {
            let words: Vec<Word> = command.split(' ').map(|word| Word::literal(word.replace('_', " "))).collect();
            started_by_option(&policy.layers[0], &words[0].text, &words).is_some()
        };
        for command in [
            "npm --script-shell=evil run x",
            "npm run x --script-shell evil",
            "npm run --script-shell=/opt/evil x",
            "npm --scripts-sh=evil run x",
            "npm --script-shell=git_push run x",
            "pnpm --config.script-shell=evil run x",
            "yarn run --script-shell=evil x",
            "rustc -C linker=evil src/main.rs",
            "rustc -Clinker=evil src/main.rs",
            "rustc -C link-arg=-fuse-ld=evil src/main.rs",
            "cargo rustc -- -C linker=evil",
            "cargo clippy -- -Clinker=evil",
            "cargo --config target.x.linker='evil' build",
            "cargo --config target.x.linker='ev\\u0069l' build",
            "npm --script-shell=ev\"\"il run x",
            "mvn -Dtool.program=evil test",
            "gradle -Pcmd=evil run",
            "gradle --args=evil run",
            "cmake -DCMAKE_CXX_COMPILER=evil .",
            "cabal build -w evil",
            "pytest -p evil",
            "mypy --python-executable=evil src",
        ] {
            assert!(denied(command), "{command}");
        }
        for command in [
            "grep -e evil README.md",
            "git commit -m evil",
            "git log --grep=evil --author=evil",
            "npm test evil",
            "npm test -- -t evil",
            "pytest -k evil",
            "cargo test --features evil",
            "cargo test -- --skip evil",
            "cargo test evil",
            "go test -run evil ./...",
            "mvn -Dtest=evil test",
            "mvn -Devil.skip=true test",
            "gradle test --tests evil",
            "find . -name evil",
            "npm install --registry=https://evil.example/x",
            "tar --exclude=evil -cf x.tar src",
            "npx jest -t evil",
        ] {
            assert!(!denied(command), "{command}");
        }
    }
}
