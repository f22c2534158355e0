//! Judges commands under `shell.default: allow`: what no rule denies may run.

use super::deny::denied_by;
use super::place::{self, seen_from, subcommand};
use crate::policy::decision::Denial;
use crate::policy::file::CommandRule;
use crate::policy::glob::fold_name;
use crate::policy::layers::Layer;
use crate::policy::names::{base_name, named};
use crate::policy::programs::table::{Call, Context, Out};
use crate::policy::programs::unknown::words_as_paths;
use crate::policy::programs::{self, Word};
use crate::policy::rules::Rule;

/// Judges a command under `shell.default: allow`, by the table of the program where there is one.
pub(super) fn judge(cx: Context<'_>, name: &str, words: &[Word]) -> Result<Out, Denial> {
    let moved;
    let mut call = Call::new(cx, words, &[]);
    call.name = name.to_owned();
    let of_git = |name: &&str| {
        let known = programs::find("git").is_some_and(|git| git.subcommands.iter().any(|sub| named(sub.names, name)));
        known || words[0].text.contains("/git-core/")
    };
    if let Some(name) = name.strip_prefix("git-").filter(of_git) {
        return Err(call.deny("git starts its programs itself").hint(format!("write `git {name}`")));
    }
    let mut table = programs::find(name);
    programs::refuse_always(&call, table)?;
    if words[0].text.contains('/') {
        let place = place::program_path(cx, &words[0].text)?;
        if place {
            if let Some(denial) = table.and_then(|table| programs::code_among(cx, name, table, words)) {
                return Err(denial);
            }
            // A file of the workspace is not the program that a table describes.
            table = None;
            call.read(&words[0]);
        }
    }
    if programs::interpreters::reads_code(name) {
        return programs::interpreters::judge(&mut call).map(|()| call.out);
    }
    let Some(table) = table else {
        words_as_paths(&mut call, &words[1..])?;
        return Ok(call.out);
    };
    if table.subcommands.is_empty() {
        call.apply(table, &words[1..])?;
        return Ok(call.out);
    }
    call.parse(table, &words[1..])?;
    call.out.writes |= !table.writes_nothing;
    let rest = std::mem::take(&mut call.operands);
    if let Some(folders) = place::moved(&call)? {
        moved = folders;
        call.cx.folders = &moved;
    }
    let Some(first) = rest.first() else { return call.refuse_input().map(|()| call.out) };
    if !first.literal {
        return Err(call.deny("its subcommand is not known"));
    }
    match subcommand(table, &first.text) {
        Some(sub) => place::apply_below(&mut call, sub, name, &rest)?,
        None if name == "git" => {
            call.name = format!("{name} {}", first.text);
            return Err(call.deny("an unknown subcommand may be an alias for anything").by("G11"));
        }
        None => {
            call.name = format!("{name} {}", first.text);
            words_as_paths(&mut call, &rest[1..])?;
        }
    }
    seen_from(&mut call, cx);
    Ok(call.out)
}

/// Refuses tools that run the program after a word of theirs, which a deny rule must find there too. What they fetch and run
// under a name of their own is theirs.
pub(super) fn launched(layer: &Layer, name: &str, words: &[Word]) -> Option<Denial> {
    // Other names for subcommands would hide them.
    let renames = |word: &Word| word.text.trim_start_matches("--config=").starts_with("alias.");
    if name == "cargo" && words.iter().any(renames) {
        return Some(Denial::unanalysable("cargo: a setting that gives subcommands other names").by("G3"));
    }
    if let Some(denial) = as_own_subcommand(layer, name, words).or_else(|| assigned(layer, name, words)) {
        return Some(denial);
    }
    let gate: &[&str] = match name {
        "npx" | "bunx" | "pnpx" | "uvx" | "cross-env" | "cross-env-shell" | "env-cmd" | "dotenv" | "dotenvx"
        | "direnv" | "nix-shell" | "concurrently" | "nodemon" | "corepack" | "xcrun" => &[],
        "npm" | "pnpm" | "yarn" | "bun" => &["exec", "exe", "x", "dlx"],
        "uv" | "poetry" | "pipenv" | "pdm" | "hatch" | "rye" | "pixi" | "conda" | "mamba" | "micromamba" | "rustup"
        | "doppler" | "op" | "nix" => &["run", "exec", "shell", "develop"],
        "bundle" => &["exec", "exe", "ex", "e"],
        "tox" | "rbenv" | "pyenv" | "nodenv" | "asdf" | "mise" | "volta" | "opam" | "stack" | "cabal" | "dune" => {
            &["exec", "x", "run"]
        }
        _ => return None,
    };
    let start = match gate {
        [] => 1,
        gate => 1 + words.iter().position(|word| gate.contains(&word.text.as_str()))?,
    };
    let behind = words.get(start..).unwrap_or_default();
    if let Some(word) = behind.iter().find(|word| !word.literal || word.text.contains(char::is_whitespace)) {
        let reason = format!("`{name}` may run `{}` as a command", word.text);
        return Some(Denial::unanalysable(reason).by("G3"));
    }
    (0..behind.len()).find_map(|at| denied_by(layer, &behind[at..]))
}

// What comes first for these may be the name of any program.
fn as_own_subcommand(layer: &Layer, name: &str, words: &[Word]) -> Option<Denial> {
    if !matches!(name, "yarn" | "yarnpkg" | "pnpm" | "bun") {
        return None;
    }
    let first = 1 + words.iter().skip(1).position(|word| !word.text.starts_with('-'))?;
    let start = first + usize::from(words[first].text == "run");
    denied_by(layer, words.get(start..).unwrap_or_default())
}

// A variable of make may name a program: none that a deny rule names, whatever is after it there.
fn assigned(layer: &Layer, name: &str, words: &[Word]) -> Option<Denial> {
    if !matches!(name, "make" | "gmake") {
        return None;
    }
    let names = |program: &str| {
        let known = |rule: &Rule<CommandRule>| rule.value.cmd[0].0.iter().any(|name| fold_name(name) == program);
        layer.rules.shell.deny.iter().any(known)
    };
    let values = words.iter().skip(1).filter_map(|word| word.text.split_once('='));
    let found = values.map(|(_, value)| value).find(|value| names(&fold_name(base_name(value))))?;
    Some(Denial::unanalysable(format!("{name} may run `{found}` as a command")).by("G3"))
}

// Without a table, each word may name a program that is started, alone or in a line of a shell, and the words after it
// may be that program's: deny rules are asked about all of them.
pub(super) fn hidden_start(layer: &Layer, name: &str, words: &[Word]) -> Option<Denial> {
    let table = programs::find(name).filter(|_| !words[0].text.contains('/'));
    let known = table.is_some_and(|table| {
        let named = |word: &&Word| subcommand(table, &word.text).is_some();
        table.subcommands.is_empty()
            || words[1..].iter().find(|word| !word.text.starts_with(['-', '+'])).is_none_or(|word| named(&word))
    });
    // Subcommands of cargo that start others of its own.
    let again = ["auditable", "careful", "component", "hack", "llvm-cov", "minimal-versions", "miri", "xwin"];
    let starts_again = name == "cargo" && words.iter().any(|word| again.contains(&word.text.as_str()));
    if known && !starts_again || programs::interpreters::reads_code(name) {
        return None;
    }
    for (at, word) in words.iter().enumerate().skip(1) {
        let rest = &words[at + 1..];
        let glued = word.text.strip_prefix('-').filter(|rest| !rest.starts_with('-')).and_then(|rest| rest.get(1..));
        // A shell would take the quotes away, and the backslashes.
        let unquoted: String = word.text.chars().filter(|c| !matches!(c, '"' | '\'' | '\\')).collect();
        let quoted = (unquoted.len() < word.text.len()).then_some(unquoted.as_str());
        for text in std::iter::once(word.text.as_str()).chain(glued).chain(quoted) {
            let parts = text.split(|c: char| c.is_whitespace() || ";&|()<>'\"`${}=,:!".contains(c));
            let parts: Vec<Word> = parts.filter(|part| !part.is_empty()).map(Word::literal).collect();
            for start in 0..parts.len() {
                let tail: Vec<Word> = parts[start..].iter().chain(rest).cloned().collect();
                // `cargo hack publish`: it may start its own kin.
                let again: Vec<Word> = std::iter::once(Word::literal(name)).chain(tail.iter().cloned()).collect();
                let own = table.and_then(|_| denied_by(layer, &again));
                let found = own.or_else(|| denied_by(layer, &tail));
                if found.is_some() {
                    return found;
                }
                if programs::interpreters::gives_code(&tail) || no_rule_starts(&tail[0].text) {
                    let reason = format!("{name}: it may start `{}`", tail[0].text);
                    return Some(Denial::unanalysable(reason).by("G4").hint("run the program itself"));
                }
            }
        }
    }
    None
}

fn no_rule_starts(word: &str) -> bool {
    ["sudo", "doas", "pkexec", "run0", "runuser", "busybox", "toybox"].contains(&base_name(word))
}
