//! Runs `qwen batch deliver`: delivers the changes of the items as one change, or each as a branch of its own.

use std::io::Write;

use super::branches;
use super::chosen::{Chosen, chosen, order, part, trust};
use super::destination::Destination;
use super::error::{BatchError, DeliverBatchError};
use super::opened::Batch;
use super::push;
use crate::base::digest::sha256;
use crate::batch::plan;
use crate::batch::result::Conflict;
use crate::cli::batch_directory::{CombineArgs, DeliverArgs};
use crate::commands::console::{appearance, print, print_bytes};
use crate::deliver::{Delivered, Delivery, Site};
use crate::emit::safe::{escape, one_line};
use crate::emit::words::{self, count};
use crate::emit::{self, Format, Mark, to_line};
use crate::event::FileReport;
use crate::exit::Exit;
use crate::git::Whole;
use crate::run::Failure;
use crate::run::finish::apply::{Most, delivered, prepared};
use crate::run::finish::combined::Merged;
use crate::run::finish::combined_checks;
use crate::run::place::Place;
use crate::sandbox::own_executable;
use crate::settings::Environment;
use crate::verify::tail;

pub(super) async fn run(
    arguments: &DeliverArgs,
    environment: &Environment,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    let flags = &arguments.combine;
    if flags.message.is_some() && !arguments.push && flags.mode().is_none_or(|mode| mode == "apply") {
        return Err(DeliverBatchError::MessageAlone.into());
    }
    let batch = Batch::open(std::slice::from_ref(&arguments.directory), &environment.cwd)?;
    if batch.parts.len() != 1 || batch.parts.iter().any(|part| part.shard.is_some()) {
        return Err(DeliverBatchError::Shards.into());
    }
    let chosen = chosen(&batch, &arguments.only, flags.partial, false)?;
    if let Some(digest) = &arguments.sha256 {
        trust(&batch, digest)?;
    }
    if arguments.push {
        arguments.sha256.as_ref().ok_or(DeliverBatchError::NoDigest)?;
        return push::run(&batch, &chosen, arguments, environment, out).await;
    }
    if batch.parts.iter().any(|part| part.description.source.kind == "repos") {
        return Err(DeliverBatchError::Repositories.into());
    }
    let place = Place::open(arguments.workspace.cd.as_deref(), environment)?;
    let policy = place.policy(arguments.policy.as_deref(), true, environment)?.policy;
    let to = Destination::open(&place, &policy, environment, flags)?;
    if let Some(template) = &flags.branch_each {
        let branches = branches::make(&batch, &chosen, template, flags.message.as_deref(), &to)?;
        return branches::show(&branches, arguments.output_format, out);
    }
    let mut told = Told::default();
    let combined = combine(&batch, chosen, flags, &to, &mut told).await;
    told.lines.iter().for_each(|line| drop(writeln!(err, "{line}")));
    let done = combined?;
    match arguments.output_format {
        Format::Text => print(out, &done.text().text(&appearance(environment))),
        Format::Patch => print_bytes(out, &done.delivered.patch),
        Format::Json | Format::StreamJson | Format::Result => print(out, &(to_line(&done.object(&to.run_id)) + "\n")),
    }
}

/// What is told of a delivery besides how it ended.
#[derive(Default)]
pub(in crate::commands) struct Told {
    /// For people: where changes touch, and the output of a check that fails.
    pub(in crate::commands) lines: Vec<String>,
    /// Where changes touch.
    pub(in crate::commands) conflicts: Vec<Conflict>,
}

/// Delivers the changes of these items as one, or fails and writes nothing.
pub(in crate::commands) async fn combine(
    batch: &Batch,
    chosen: Vec<Chosen>,
    flags: &CombineArgs,
    to: &Destination<'_>,
    told: &mut Told,
) -> Result<Done, Failure> {
    let description = &batch.parts.first().ok_or(BatchError::NoDirectory)?.description;
    let (rules, site) = (to.rules(), to.site());
    let how = how(flags, description, &chosen, to)?;
    let (mut taken_back, again) = prepared(&how, &site)?;
    taken_back.iter_mut().for_each(|told| *told = rules.hide(told));
    let site = Site { repository: again.as_ref().or(site.repository), ..site };
    let combined = combine_prepared(batch, chosen, flags, (to, &site, description), told).await;
    let (delivered, merged, how) = combined.map_err(|failure| failure.after(&taken_back))?;
    Ok(Done { delivered, merged, taken_back, how })
}

async fn combine_prepared(
    batch: &Batch,
    chosen: Vec<Chosen>,
    flags: &CombineArgs,
    (to, site, description): (&Destination<'_>, &Site<'_>, &plan::Batch),
    told: &mut Told,
) -> Result<(Delivered, Merged, Delivery), Failure> {
    let rules = to.rules();
    let mut merged = Merged::default();
    for one in &chosen {
        merged.add(part(batch, one)?, &rules, site)?;
    }
    told.conflicts.clone_from(&merged.conflicts);
    if !flags.skips() {
        told.lines.extend(merged.conflicts.iter().map(conflict_line));
        merged.refuse_conflicts()?;
    }
    let (commands, helper) = (&flags.verify_combined, own_executable());
    let failed = combined_checks::check(commands, &merged.changes, to.place, to.policy, to.environment, helper).await?;
    if let Some(failed) = failed {
        told.lines.extend(escape(tail(&failed.output, "").trim_end()).lines().map(str::to_owned));
        return Err(DeliverBatchError::Check(failed.command).into());
    }
    // The message names the items that are in it.
    let kept: Vec<Chosen> = chosen.into_iter().filter(|one| !merged.left_out.contains(&one.item.key)).collect();
    let how = how(flags, description, &kept, to)?;
    if how != Delivery::DryRun {
        Whole::to_the_end();
    }
    let delivered = delivered(&merged.changes, &how, Most::default(), &rules, site)?;
    Ok((delivered, merged, how))
}

/// Finds what would make a delivery by these flags fail, before anything is paid for.
pub(in crate::commands) fn check_ahead(
    description: &plan::Batch,
    flags: &CombineArgs,
    to: &Destination<'_>,
) -> Result<(), Failure> {
    let site = to.site();
    if flags.branch_each.is_some() && site.repository.is_none() {
        return Err(DeliverBatchError::NoRepository.into());
    }
    Ok(crate::deliver::preflight(&how(flags, description, &[], to)?, &site)?)
}

fn how(
    flags: &CombineArgs,
    batch: &plan::Batch,
    chosen: &[Chosen],
    to: &Destination<'_>,
) -> Result<Delivery, DeliverBatchError> {
    let order = || order(flags.message.as_deref(), batch, chosen, &|text| to.hide(text));
    Ok(match (&flags.branch, flags.commit, flags.apply) {
        (Some(name), _, _) => Delivery::Branch { name: name.clone(), order: order()? },
        (None, true, _) => Delivery::Commit(order()?),
        (None, false, true) => Delivery::Apply,
        (None, false, false) => Delivery::DryRun,
    })
}

/// Says which place touches.
fn conflict_line(conflict: &Conflict) -> String {
    let lines = if conflict.lines.is_empty() { String::new() } else { format!(":{}", conflict.lines.join(",")) };
    format!("conflict {}{lines} {}", one_line(&conflict.path), one_line(&conflict.keys.join(" ")))
}

/// What was delivered.
pub(in crate::commands) struct Done {
    pub(in crate::commands) delivered: Delivered,
    pub(in crate::commands) merged: Merged,
    taken_back: Vec<String>,
    how: Delivery,
}

impl Done {
    fn object(&self, run_id: &str) -> serde_json::Value {
        let Done { delivered, merged, taken_back, .. } = self;
        let paths: Vec<String> = merged.merged.iter().map(|path| path.to_string_lossy()).collect();
        serde_json::json!({
            "files": delivered.files, "applied": delivered.applied, "commit": delivered.commit,
            "branch": delivered.branch, "warnings": delivered.warnings, "merged": paths, "taken_back": taken_back,
            "keys": merged.keys, "conflicts": merged.conflicts, "left_out": merged.left_out, "run_id": run_id,
            "patch_sha256": (!delivered.patch.is_empty()).then(|| sha256(&delivered.patch)),
        })
    }

    fn text(&self) -> emit::Ended {
        let Done { delivered, merged, taken_back, how } = self;
        let of = |number: usize| count(number as u64, "item");
        let mut notes = taken_back.clone();
        notes
            .extend(merged.left_out.iter().map(|key| format!("left out, because it touches an earlier change: {key}")));
        notes.extend(delivered.warnings.iter().map(|warning| format!("warning: {warning}")));
        let headline = match delivered.files.is_empty() {
            true => format!("Nothing to do: {} without changes, or already applied", of(merged.keys.len())),
            false => {
                let is_dry = *how == Delivery::DryRun;
                let (added, removed) = FileReport::lines(&delivered.files);
                let branch = delivered.branch.as_deref();
                let what = words::delivered(delivered.files.len(), branch, delivered.commit.as_deref(), !is_dry);
                format!("{what}, {} ({})", words::lines(added, removed), of(merged.keys.len()))
            }
        };
        let about = |file: &FileReport| (file.path.clone(), words::lines(file.added, file.removed));
        let undo = delivered.record.as_ref().map(|_| ("undo it", "qwen undo".to_owned()));
        emit::Ended {
            mark: if merged.left_out.is_empty() { Mark::Good } else { Mark::Partly },
            headline,
            files: delivered.files.iter().map(about).collect(),
            notes,
            next: undo.into_iter().collect(),
        }
    }
}
