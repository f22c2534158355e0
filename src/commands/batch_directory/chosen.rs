//! Chooses the items of a batch whose changes are delivered, and says in a commit which they are.

use super::error::{BatchError, DeliverBatchError};
use super::opened::{Batch, Found, Item};
use crate::base::digest::sha256;
use crate::batch::journal::{CONFLICT, Ended};
use crate::batch::plan::{self, files};
use crate::batch::result::BatchResult;
use crate::batch::sums::delivers;
use crate::batch::tally::Share;
use crate::deliver::DeliveryRequest;
use crate::deliver::inert::{inert, inert_value, inert_within};
use crate::deliver::message::{SUBJECT, message};
use crate::emit::words::count;
use crate::run::Failure;
use crate::run::finish::combined::Part;

/// The trailer that names the batch.
const BATCH_ID: &str = "Qwen-Batch-Id";

/// Keys that a commit's message lists.
const LISTED: usize = 20;

/// Keys that a message names.
const NAMED: usize = 5;

/// An item whose change is delivered.
#[derive(Clone)]
pub(in crate::commands) struct Chosen {
    pub(in crate::commands) item: Item,
    pub(in crate::commands) ended: Ended,
}

/// Returns the items that are delivered, in the order of the list: those of `only`, if there are any. All others must have
/// ended well, too, unless `partial`; `skips` leaves out those that an earlier delivery left out.
pub(in crate::commands) fn chosen(
    batch: &Batch,
    only: &[String],
    partial: bool,
    skips: bool,
) -> Result<Vec<Chosen>, Failure> {
    let is_all = only.is_empty();
    let mut only: Vec<&String> = only.iter().collect();
    let (mut chosen, mut bad, mut number) = (Vec::new(), Vec::new(), 0_u64);
    batch.each(true, &mut |item: &Item, found: &Found<'_>| -> Result<(), BatchError> {
        if !is_all {
            if !only.contains(&&item.key) {
                return Ok(());
            }
            only.retain(|key| **key != item.key);
        }
        let end = found.end(item)?;
        if skips && end.as_ref().is_some_and(|ended| ended.conclusion == CONFLICT) {
            return Ok(());
        }
        match end.filter(delivers) {
            Some(ended) if ended.product.patch_sha256.is_some() => chosen.push(Chosen { item: item.clone(), ended }),
            Some(_) => {}
            None => {
                number += 1;
                if bad.len() < NAMED {
                    bad.push(item.key.clone());
                }
            }
        }
        Ok(())
    })?;
    if let Some(unknown) = only.first() {
        return Err(DeliverBatchError::Unknown((*unknown).clone()).into());
    }
    if number > 0 && !partial {
        return Err(DeliverBatchError::NotWell { number, keys: bad }.into());
    }
    Ok(chosen)
}

/// Refuses everything that the digest of the result does not vouch for: the list, what the batch is, and how the items
/// ended, which names every patch by its digest.
pub(super) fn trust(batch: &Batch, digest: &str) -> Result<(), Failure> {
    let part = batch.parts.first().ok_or(BatchError::NoDirectory)?;
    let text = part.reader.file(files::SUMMARY).map_err(|cause| part.unreadable(cause))?.unwrap_or_default();
    if !sha256(&text).eq_ignore_ascii_case(digest) {
        return Err(DeliverBatchError::OtherDigest(part.path(files::SUMMARY)).into());
    }
    let named: BatchResult = serde_json::from_slice(&text)
        .map_err(|cause| BatchError::Invalid { path: part.path(files::SUMMARY), cause: cause.to_string() })?;
    let now = batch.result(true, Share::Count(0))?;
    let is_same =
        named.items_sha256 == now.items_sha256 && named.ends_sha256.is_some() && named.ends_sha256 == now.ends_sha256;
    if is_same { Ok(()) } else { Err(DeliverBatchError::Changed(part.name()).into()) }
}

/// Reads the change of an item; it must be the one that the item ended with.
pub(super) fn part(batch: &Batch, chosen: &Chosen) -> Result<Part, BatchError> {
    let part = batch.parts.first().ok_or(BatchError::NoDirectory)?;
    let patch = part.reader.item_file(&chosen.item.file("patch")).map_err(|cause| part.unreadable(cause))?;
    let sha256 = chosen.ended.product.patch_sha256.clone();
    part.check_patch(&chosen.item, sha256.as_deref(), patch.as_deref())?;
    Ok(Part { key: chosen.item.key.clone(), patch: patch.unwrap_or_default(), sha256 })
}

/// Returns the commit: its message lists the items. `hide` masks secrets.
pub(super) fn order(
    given: Option<&str>,
    batch: &plan::Batch,
    chosen: &[Chosen],
    hide: &dyn Fn(&str) -> String,
) -> Result<DeliveryRequest, DeliverBatchError> {
    let plain = |text: &str| -> String { hide(text).chars().filter(|c| !c.is_control()).take(200).collect() };
    let masked = given.map(hide);
    let is_masked = masked.as_deref() != given;
    let recipe = batch.plan.recipe.as_ref();
    let (subject, body) = match masked.as_deref() {
        Some(text) => text.split_once('\n').unwrap_or((text, "")),
        None => ("", ""),
    };
    let usual = || match (chosen, recipe) {
        ([one], Some(recipe)) => format!("{}: {}", plain(&recipe.name), inert(&plain(&one.item.key))),
        (_, Some(recipe)) => format!("{}: {}", plain(&recipe.name), count(chosen.len() as u64, "item")),
        (_, None) => format!("Apply the changes of {}", count(chosen.len() as u64, "item")),
    };
    let subject = match subject.trim() {
        "" => cut(&usual()),
        // A placeholder may be longer than what it stands for.
        subject if is_masked => cut(subject),
        subject => subject.to_owned(),
    };
    let mut lines: Vec<String> =
        chosen.iter().take(LISTED).map(|one| format!("- {}", inert(&plain(&one.item.key)))).collect();
    if chosen.len() > LISTED {
        lines.push(format!("and {} more", chosen.len() - LISTED));
    }
    let body = [body.trim(), &lines.join("\n")].join("\n\n");
    let assisted = format!("qwen-run:{}", inert_value(&batch.plan.model, 200));
    let of_recipe = recipe.map(|recipe| {
        let version = recipe.version.as_deref().map(|version| format!("@{version}")).unwrap_or_default();
        plain(&format!("{}{version} sha256:{}", recipe.name, recipe.sha256))
    });
    let id = plain(&batch.batch_id);
    let mut trailers = vec![("Assisted-by", assisted.as_str())];
    trailers.extend(of_recipe.as_deref().map(|recipe| ("Qwen-Recipe", recipe)));
    trailers.push((BATCH_ID, id.as_str()));
    let message = message(&subject, body.trim(), &trailers)?;
    let own_line = Some(format!("{BATCH_ID}: {id}"));
    Ok(DeliveryRequest { message, own_line, ..DeliveryRequest::default() })
}

fn cut(subject: &str) -> String {
    match subject.chars().count() <= SUBJECT {
        true => subject.to_owned(),
        false => format!("{}…", inert_within(subject, SUBJECT - 1)),
    }
}
