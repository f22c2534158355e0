//! Renders what several parts of the page use: paths, numbers of lines, durations.

use maud::{Markup, html};

use crate::emit::safe::one_line;
use crate::emit::words;

/// Shows a path, its directory less prominently.
pub(super) fn path(path: &str) -> Markup {
    let path = one_line(path);
    let (folder, name) = path.split_at(path.rfind('/').map_or(0, |slash| slash + 1));
    html! { span class="path mono" { span { (folder) } (name) } }
}

/// Shows how many lines are added and removed.
pub(super) fn counts(added: u64, removed: u64) -> Markup {
    html! {
        span.cnt {
            @if added > 0 { span.plus { "+" (added) } }
            @if added > 0 && removed > 0 { " " }
            @if removed > 0 { span.minus { "−" (removed) } }
        }
    }
}

/// Writes a duration that may be less than a tenth of a second.
pub(super) fn short(ms: u64) -> String {
    match ms {
        0 => "< 1 ms".to_owned(),
        1..1000 => format!("{ms} ms"),
        _ => words::time(ms),
    }
}
