//! Refuses words that a program may hand to a shell, which takes them for more than text.

use super::{Call, Denial, Word};
use crate::policy::names::{base_name, named};

/// Refuses words that a package manager may hand to a shell, behind a script or the name of a program, where they are more
/// than text. Versions differ: some put each word in double quotes, some only those with a space, some none.
pub(in crate::policy::programs) fn refuse_shell_text(call: &Call<'_>, words: &[Word]) -> Result<(), Denial> {
    let program = base_name(&call.words[0].text);
    const STARTERS: &str =
        "npm npx pnpm pnpx yarn yarnpkg bun deno turbo nx lerna pdm run-s run-p npm-run-all npm-run-all2";
    if !named(STARTERS, program) {
        return Ok(());
    }
    if let Some(word) = words.iter().find(|word| program == "pnpm" && word.text.starts_with("--config.")) {
        return Err(call.deny(format!("pnpm takes `{}` for a setting of its own", word.text)));
    }
    let quotes = program == "npx" || ["npm exec", "npm x"].contains(&call.name.as_str());
    let is_code = |word: &&Word| {
        let text = word.text.as_str();
        let is_quoted = quotes || !matches!(program, "bun" | "deno" | "pdm" | "nx" | "lerna") && text.contains(' ');
        expands(text)
            || text.contains("\\\"")
            || text.ends_with('\\')
            || !is_quoted && text.contains([';', '|', '&', '<', '>', '\n'])
    };
    match words.iter().find(is_code) {
        Some(word) => Err(call.code(format!("a shell may take `{}` for more than text", word.text))),
        None => Ok(()),
    }
}

fn expands(text: &str) -> bool {
    ["$(", "`", "${"].iter().any(|mark| text.contains(mark))
}

/// Refuses words that a launcher which is a script of the shell may evaluate once more, as that of Maven 4 does.
/// Source: apache/maven#11978.
pub(super) fn refuse_expansions(call: &Call<'_>) -> Result<(), Denial> {
    // `testOnly *A -- -z "should work"`: ScalaTest takes the name of a test in quotes.
    let is_name = |text: &str| text.chars().all(|c| c.is_alphanumeric() || " _-.,".contains(c));
    let names = |text: &str| {
        let parts: Vec<&str> = text.split('"').collect();
        call.name == "sbt" && parts.len() % 2 == 1 && parts.iter().skip(1).step_by(2).all(|part| is_name(part))
    };
    let is_code = |text: &str| expands(text) || text.contains('"') && !names(text) || text.ends_with('\\');
    match call.words.iter().find(|word| is_code(&word.text)) {
        Some(word) => Err(call.code(format!("a shell may take `{}` for more than text", word.text))),
        None => Ok(()),
    }
}
