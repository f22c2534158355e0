//! Holds what goes into the page as it is: our style, our script, and the result as JSON.

use base64::Engine as _;
use maud::PreEscaped;
use sha2::{Digest as _, Sha256};

use crate::base::embedded;
use crate::emit::json::to_line;
use crate::emit::report::Report;

/// The style of every page.
pub(super) const STYLE: &str = include_str!("page.css");

/// The script of a page with hunks.
pub(super) const SCRIPT: &str = include_str!("page.js");

/// What is not escaped.
pub(super) enum Raw<'a> {
    /// Our style.
    Style,
    /// Our script.
    Script,
    /// The data block: an element that holds the result object.
    Result(&'a Report),
}

/// Returns it for the page. Nothing else in a page is left unescaped.
pub(super) fn raw(what: &Raw<'_>) -> PreEscaped<String> {
    PreEscaped(match what {
        Raw::Style => STYLE.to_owned(),
        Raw::Script => SCRIPT.to_owned(),
        Raw::Result(report) => {
            format!("{}{}{}", embedded::START, embedded::escape(&to_line(report)), embedded::END)
        }
    })
}

/// Returns the rules for what the page may load and run: our style, and our script where it has one.
pub(super) fn security_policy(has_script: bool) -> String {
    let hash = |text: &str| base64::engine::general_purpose::STANDARD.encode(Sha256::digest(text));
    let script = if has_script { format!("script-src 'sha256-{}'; ", hash(SCRIPT)) } else { String::new() };
    format!("default-src 'none'; style-src 'sha256-{}'; {script}base-uri 'none'; form-action 'none'", hash(STYLE))
}
