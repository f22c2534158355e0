//! Judges names of packages that a package manager looks up in its registry.

use super::{Call, Denial, Word};
use crate::policy::names::named;

// `npm view react@18 version`: what stands for a directory, an archive, a repository or an address is not of the registry.
pub(super) fn packages(call: &mut Call<'_>, words: &[Word]) -> Result<(), Denial> {
    let verb = call.name.rsplit(' ').next().unwrap_or_default();
    // What follows the package of `view` are fields of what is shown.
    let shows = named("view v info show", verb);
    let fields = if shows { 1 } else { words.len() };
    let is_installed = |text: &str| text.starts_with("node_modules/") && !text.contains("..");
    let is_path = |text: &str| text.starts_with(['.', '/']) || !shows && is_installed(text);
    let named_otherwise = |word: &&Word| {
        let text = word.text.as_str();
        !is_path(text) && !is_of_registry(text)
    };
    let checked = if verb == "query" { &[] } else { &words[..fields.min(words.len())] };
    if call.is_open() {
        let behind = |word: &Word| {
            let (_, path) = word.text.rsplit_once("file:").or_else(|| word.text.rsplit_once('@'))?;
            path.starts_with(['.', '/', '~']).then(|| path.to_owned())
        };
        words.iter().filter_map(behind).for_each(|path| call.looks_at(&path));
        return Ok(());
    }
    match checked.iter().find(named_otherwise) {
        Some(word) => {
            let denial = call.deny(format!("`{}` is not the name of a package of the registry", word.text));
            Err(denial.hint("write `NAME` or `NAME@VERSION`"))
        }
        None => Ok(()),
    }
}

// `name`, `@scope/name`, and a range or a tag behind `@`. A version that begins with a dot is a directory.
fn is_of_registry(text: &str) -> bool {
    let (scope, rest) = text.strip_prefix('@').and_then(|text| text.split_once('/')).unwrap_or(("", text));
    let (name, version) = rest.split_once('@').unwrap_or((rest, ""));
    let plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "._-~*!".contains(c));
    let in_range = |c: char| c.is_ascii_alphanumeric() || "._-+*^~<>=| ".contains(c);
    let is_archive = [".tgz", ".tar", ".gz"].iter().any(|end| text.to_ascii_lowercase().ends_with(end));
    plain(scope) && plain(name) && !is_archive && !version.starts_with('.') && version.chars().all(in_range)
}
