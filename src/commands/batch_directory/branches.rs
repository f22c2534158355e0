//! Delivers the change of each item as a commit on a branch of its own.

use std::collections::BTreeMap;
use std::io::Write;

use super::chosen::{Chosen, order, part};
use super::error::{BatchError, DeliverBatchError};
use super::opened::Batch;
use crate::cli::batch_directory::DeliverArgs;
use crate::commands::console::print;
use crate::deliver::{Delivery, Site};
use crate::emit::safe::one_line;
use crate::emit::words::commit;
use crate::emit::{Format, to_line};
use crate::exit::Exit;
use crate::run::Failure;
use crate::run::finish::apply::{Fit, Request, Rules, apply};

/// Makes the branches, and says which. One that cannot be made does not keep the others from it.
pub(super) fn run(
    batch: &Batch,
    chosen: &[Chosen],
    template: &str,
    arguments: &DeliverArgs,
    rules: &Rules<'_>,
    site: &Site<'_>,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    if site.repository.is_none() {
        return Err(DeliverBatchError::NoRepository.into());
    }
    let names = names(batch, chosen, template, site)?;
    let mut exit = Exit::Ok;
    for (one, name) in chosen.iter().zip(names) {
        let made = branch(batch, one, &name, arguments, rules, site);
        let (made, failure) = match made {
            Ok(commit) => (commit, None),
            Err(failure) => (None, Some(failure)),
        };
        exit = failure.as_ref().map_or(exit, |failure| exit.or_worse(failure.exit));
        let error = failure.map(|failure| failure.error.message);
        let key = &one.item.key;
        let line = match arguments.output_format {
            Format::Text | Format::Patch => match (&made, &error) {
                (Some(id), _) => format!("ok {} {} {}", one_line(key), one_line(&name), commit(id)),
                (None, Some(why)) => format!("fail {} {}: {}", one_line(key), one_line(&name), one_line(why)),
                (None, None) => format!("ok {} nothing to do: already applied", one_line(key)),
            },
            Format::Json | Format::StreamJson | Format::Result => {
                to_line(&serde_json::json!({"key": key, "branch": name, "commit": made, "error": error}))
            }
        };
        print(out, &(line + "\n"))?;
    }
    Ok(exit)
}

/// Returns the name of each branch, before the first is made: valid names, and no two of them the same.
fn names(batch: &Batch, chosen: &[Chosen], template: &str, site: &Site<'_>) -> Result<Vec<String>, Failure> {
    let recipe = batch.parts.first().and_then(|part| part.description.plan.recipe.as_ref());
    let recipe = recipe.map_or("prompt", |recipe| recipe.name.as_str());
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    let mut names = Vec::new();
    for one in chosen {
        let key = &one.item.key;
        let name = filled(template, key, one.item.n, recipe);
        let reference = format!("refs/heads/{name}");
        let is_odd = name.starts_with('-') || name.starts_with("refs/");
        let is_valid = site
            .repository
            .is_some_and(|repository| repository.git().run(&["check-ref-format", &reference], b"").is_ok());
        if is_odd || !is_valid {
            return Err(DeliverBatchError::Branch { name, key: key.clone() }.into());
        }
        if let Some(first) = seen.insert(name.to_lowercase(), key) {
            return Err(DeliverBatchError::OneBranch { name, first: first.to_owned(), other: key.clone() }.into());
        }
        names.push(name);
    }
    Ok(names)
}

/// Replaces the words in braces, each once: a key with braces stays as it is.
fn filled(template: &str, key: &str, n: u32, recipe: &str) -> String {
    let mut name = String::new();
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        let (before, from) = rest.split_at(at);
        name.push_str(before);
        let words = [("{key}", key.to_owned()), ("{n}", n.to_string()), ("{name}", recipe.to_owned())];
        match words.iter().find(|(word, _)| from.starts_with(word)) {
            Some((word, value)) => {
                name.push_str(value);
                rest = &from[word.len()..];
            }
            None => {
                name.push('{');
                rest = &from[1..];
            }
        }
    }
    name + rest
}

fn branch(
    batch: &Batch,
    one: &Chosen,
    name: &str,
    arguments: &DeliverArgs,
    rules: &Rules<'_>,
    site: &Site<'_>,
) -> Result<Option<String>, Failure> {
    let first = batch.parts.first().map(|part| &part.description);
    let description = first.ok_or(BatchError::NoDirectory)?;
    let patch = part(batch, one)?;
    let order = order(arguments.how.message.as_deref(), description, std::slice::from_ref(one))?;
    let request = Request {
        input: &patch.patch,
        wanted: None,
        digest: patch.sha256.as_deref(),
        fit: Fit::Merge,
        how: Delivery::Branch { name: name.to_owned(), order },
        max_files: None,
        max_patch_bytes: None,
    };
    Ok(apply(&request, rules, site)?.delivered.commit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_braces_are_replaced_once() {
        assert_eq!(filled("qwen/{name}/{n}-{key}", "{n}{key}", 7, "docs"), "qwen/docs/7-{n}{key}");
        assert_eq!(filled("{other}/{", "k", 1, "r"), "{other}/{");
    }
}
