//! Judges what every subcommand must not do that writes the repository, or starts what its configuration names.

use super::content::refuse_ids;
use crate::path::Node;
use crate::policy::decision::Denial;
use crate::policy::programs::Word;
use crate::policy::programs::table::{Call, Table};

// If the repository's configuration names drivers, commands that start one are denied.
pub(super) fn drivers(call: &Call<'_>) -> Result<(), Denial> {
    match call.cx.facts.git.drivers.first() {
        Some(driver) => {
            Err(call.deny(format!("it would start `{driver}` of the repository's configuration")).by("G11"))
        }
        None => Ok(()),
    }
}

// A tree that is not a commit's: what is in it has other paths there than the rules name.
pub(super) fn refuse_tree(call: &Call<'_>, word: &Word) -> Result<(), Denial> {
    if !word.text.contains(':') {
        return Ok(());
    }
    let denial = call.deny(format!("`{}` has other paths than the rules name", word.text));
    Err(denial.hint("name a commit, and the paths after `--`"))
}

pub(super) fn keeps(call: &mut Call<'_>) -> Result<(), Denial> {
    call.out.writes_git = true;
    if call.operands.iter().any(|word| !word.literal) {
        return Err(call.deny("a word of it is not known"));
    }
    if let Some(word) = call.operands.iter().find(|word| word.text.starts_with("ext::")) {
        return Err(call.deny(format!("`{}` runs a program", word.text)).by("G11"));
    }
    on_this_machine(call)?;
    let moved = [call.values("-X"), call.values("-s"), call.values("--strategy")].concat();
    if let Some(word) = moved.iter().find(|word| word.text.starts_with("subtree")) {
        return Err(call.deny(format!("`{}` writes files to other paths", word.text)));
    }
    refuse_ids(call, moved.iter().chain(&call.operands))
}

// A repository by its path holds files under other paths than the rules name, and may be outside.
fn on_this_machine(call: &Call<'_>) -> Result<(), Denial> {
    if !["fetch", "pull", "push", "ls-remote"].iter().any(|name| call.name.ends_with(&format!(" {name}"))) {
        return Ok(());
    }
    // After an option that is not known the repository may be a later word.
    let several = if call.unknown { usize::MAX } else { 1 };
    for word in call.operands.iter().take(several) {
        let text = word.text.as_str();
        let path = !text.contains(':') && (text.contains('/') || text.starts_with(['.', '~']));
        if path || text.starts_with("file:") || text.contains("::") || call.node(text)? == Some(Node::Dir) {
            let denial = call.deny(format!("`{text}` is a repository on this machine, whose files no rule names"));
            return Err(denial.hint("name a remote of this repository"));
        }
    }
    Ok(())
}

/// Tells whether a subcommand speaks to other hosts.
pub(crate) fn reaches_hosts(table: &Table) -> bool {
    table.names.split_whitespace().any(|name| matches!(name, "fetch" | "push"))
}
