//! Delivers the change of each item as a commit on a branch of its own.

use std::collections::BTreeMap;
use std::io::Write;

use super::chosen::{Chosen, order, part};
use super::destination::Destination;
use super::error::{BatchError, DeliverBatchError};
use super::opened::Batch;
use crate::commands::console::print;
use crate::deliver::{Delivery, Site};
use crate::emit::safe::one_line;
use crate::emit::words::commit;
use crate::emit::{Format, to_line};
use crate::exit::Exit;
use crate::git::Whole;
use crate::run::Failure;
use crate::run::finish::apply::{Fit, Request, Rules, apply};
use crate::run::output::signals;

/// What became of the change of an item.
pub(in crate::commands) struct Branch {
    pub(in crate::commands) key: String,
    pub(in crate::commands) name: String,
    /// The commit; `None`: there was nothing to do, or it failed.
    pub(in crate::commands) commit: Option<String>,
    pub(in crate::commands) failure: Option<Failure>,
}

/// Makes the branches. One that cannot be made does not keep the others from it.
pub(in crate::commands) fn make(
    batch: &Batch,
    chosen: &[Chosen],
    template: &str,
    message: Option<&str>,
    to: &Destination<'_>,
) -> Result<Vec<Branch>, Failure> {
    let (rules, site) = (to.rules(), to.site());
    if site.repository.is_none() {
        return Err(DeliverBatchError::NoRepository.into());
    }
    let names = names(batch, chosen, template, &site)?;
    Whole::to_the_end();
    let branches = chosen.iter().zip(names).map(|(one, name)| {
        let made = match signals::interrupted() {
            None => branch(batch, one, &name, message, &rules, &site).map_err(signals::or_interrupted),
            Some(interrupted) => Err(interrupted),
        };
        let (commit, failure) = match made {
            Ok(commit) => (commit, None),
            Err(failure) => (None, Some(failure)),
        };
        Branch { key: one.item.key.clone(), name, commit, failure }
    });
    Ok(branches.collect())
}

/// Says what became of the branches, a line each.
pub(super) fn show(branches: &[Branch], format: Format, out: &mut dyn Write) -> Result<Exit, Failure> {
    let mut exit = Exit::Ok;
    for branch in branches {
        exit = branch.failure.as_ref().map_or(exit, |failure| exit.or_worse(failure.exit));
        let error = branch.failure.as_ref().map(|failure| &failure.error.message);
        let line = match format {
            Format::Text | Format::Patch => branch.line(),
            Format::Json | Format::StreamJson | Format::Result => to_line(&serde_json::json!({
                "key": branch.key, "branch": branch.name, "commit": branch.commit, "error": error,
            })),
        };
        print(out, &(line + "\n"))?;
    }
    Ok(exit)
}

impl Branch {
    /// Returns what became of it for people.
    pub(in crate::commands) fn line(&self) -> String {
        let (key, name) = (one_line(&self.key), one_line(&self.name));
        match (&self.commit, &self.failure) {
            (Some(id), _) => format!("ok {key} {name} {}", commit(id)),
            (None, Some(failure)) => format!("fail {key} {name}: {}", one_line(&failure.error.message)),
            (None, None) => format!("ok {key} nothing to do: already applied"),
        }
    }
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

/// Returns the name of the branch that each item is pushed to; without a template the one that its run made.
pub(super) fn template_names(batch: &Batch, chosen: &[Chosen], template: Option<&str>) -> Result<Vec<String>, Failure> {
    let description = batch.parts.first().map(|part| &part.description).ok_or(BatchError::NoDirectory)?;
    let recipe = description.plan.recipe.as_ref().map_or("prompt", |recipe| recipe.name.as_str());
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    let mut names = Vec::new();
    for one in chosen {
        let key = &one.item.key;
        let made = || one.ended.product.branch.clone().ok_or(DeliverBatchError::PushWhat);
        let name = template.map_or_else(made, |template| Ok(filled(template, key, one.item.n, recipe)))?;
        // Repositories have their own branches each.
        let first = seen.insert(name.to_lowercase(), key).filter(|_| description.source.kind != "repos");
        if let Some(first) = first {
            return Err(DeliverBatchError::OneBranch { name, first: first.to_owned(), other: key.clone() }.into());
        }
        names.push(name);
    }
    Ok(names)
}

/// Replaces the words in braces, each once: a key with braces stays as it is.
pub(in crate::commands) fn filled(template: &str, key: &str, n: u32, recipe: &str) -> String {
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
    message: Option<&str>,
    rules: &Rules<'_>,
    site: &Site<'_>,
) -> Result<Option<String>, Failure> {
    let first = batch.parts.first().map(|part| &part.description);
    let description = first.ok_or(BatchError::NoDirectory)?;
    let patch = part(batch, one)?;
    let order = order(message, description, std::slice::from_ref(one), &|text| rules.hide(text))?;
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
