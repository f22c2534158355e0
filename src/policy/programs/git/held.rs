//! Handles files in commits and the index that must not be read: the command workspace does not contain them, and no
//! subcommand may restore them.

use std::path::Path;
use std::sync::Arc;

use crate::path::RelPath;
use crate::policy::decision::Denial;
use crate::policy::history::Unreadable;
use crate::policy::programs::table::Call;

/// What of commits a subcommand brings into the work tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kept {
    /// Nothing.
    Nothing,
    /// What these words name.
    Paths(Vec<String>),
    /// Whatever is in a commit.
    All,
}

/// Refuses a subcommand that may bring a file into the work tree that may not be read.
pub(super) fn refuse_restored(call: &Call<'_>, kept: &Kept) -> Result<(), Denial> {
    let named = match kept {
        Kept::Nothing => return Ok(()),
        Kept::All => None,
        Kept::Paths(words) => named(call, words),
    };
    let found = unreadable(call)?;
    let path = match &named {
        None => found.any(),
        Some(named) => named.iter().find_map(|name| found.under(name)),
    };
    match path {
        None => Ok(()),
        Some(path) => Err(call
            .deny(format!("it may bring `{path}` of a commit into the work tree, which may not be read"))
            .hint("change the files that you mean with the file tools, or restore them by their names")),
    }
}

/// Refuses a subcommand that shows `what` of every file where one of them may not be read.
pub(super) fn refuse_held(call: &Call<'_>, what: &str, hint: &str) -> Result<(), Denial> {
    match unreadable(call)?.any() {
        None => Ok(()),
        Some(path) => {
            Err(call.deny(format!("a commit has `{path}`, which may not be read: it shows {what}")).hint(hint))
        }
    }
}

// The paths that words name from each directory; `None` where a pattern may name any.
fn named(call: &Call<'_>, words: &[String]) -> Option<Vec<RelPath>> {
    let mut named = Vec::new();
    for word in words {
        if word.starts_with(':') || word.contains(['*', '?', '[']) {
            return None;
        }
        for folder in call.cx.folders {
            named.push(match Path::new(word).is_absolute() {
                true => RelPath::below(call.cx.root, Path::new(word))?,
                false => folder.join(word)?,
            });
        }
    }
    Some(named)
}

/// Returns the files of commits and of the index that may not be read.
pub(super) fn unreadable(call: &Call<'_>) -> Result<Arc<Unreadable>, Denial> {
    call.cx.policy.unreadable_of_history(call.cx.facts).map_err(|what| {
        let denial = call.deny(format!("what its commits hold cannot be looked through: {what}"));
        denial.hint("change the files that you mean with the file tools")
    })
}
