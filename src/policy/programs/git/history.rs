//! Finds what commits and the index hold that may not be read.

use std::path::Path;
use std::sync::Arc;

use crate::path::RelPath;
use crate::policy::decision::Denial;
use crate::policy::history::Unreadable;
use crate::policy::programs::table::Call;

/// Refuses a subcommand that shows `what` of every file where one of them may not be read.
pub(super) fn refuse_held(call: &Call<'_>, what: &str, hint: &str) -> Result<(), Denial> {
    match unreadable(call)?.any() {
        None => Ok(()),
        Some(path) => {
            Err(call.deny(format!("a commit has `{path}`, which may not be read: it shows {what}")).hint(hint))
        }
    }
}

/// Tells whether some commit has a file at a path, or below it, that may not be read.
pub(super) fn may_hold(call: &Call<'_>, path: &str) -> Result<bool, Denial> {
    let found = unreadable(call)?;
    Ok(match named(call, &[path.to_owned()]) {
        None => found.any().is_some(),
        Some(named) => named.iter().any(|name| found.under(name).is_some()),
    })
}

/// Returns the paths that words name from each directory; `None` where a pattern may name any.
pub(super) fn named(call: &Call<'_>, words: &[String]) -> Option<Vec<RelPath>> {
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
        let denial = call.deny(format!("the files of its commits cannot be checked: {what}"));
        denial.hint("change the files that you mean with the file tools")
    })
}
