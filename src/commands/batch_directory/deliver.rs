//! Runs `qwen batch deliver`: delivers the changes of the items as one change, or each as a branch of its own.

use std::io::Write;

use super::branches;
use super::chosen::{Chosen, chosen, order, part, trust};
use super::error::DeliverBatchError;
use super::opened::Batch;
use crate::base::digest::sha256;
use crate::batch::plan;
use crate::cli::batch_directory::{DeliverArgs, OnConflict};
use crate::commands::console::{appearance, print, print_bytes};
use crate::deliver::{Delivered, Delivery, Site};
use crate::emit::safe::{escape, one_line};
use crate::emit::words::{self, count};
use crate::emit::{self, Format, Mark, to_line};
use crate::event::FileReport;
use crate::exit::Exit;
use crate::run::Failure;
use crate::run::finish::apply::{Most, Rules, delivered, prepared};
use crate::run::finish::combined::Merged;
use crate::run::finish::combined_checks;
use crate::run::output::masking::secrets_of;
use crate::run::output::outputs::new_id;
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
    if arguments.how.message.is_some() && !arguments.how.commit && arguments.how.branch.is_none() {
        return Err(DeliverBatchError::MessageAlone.into());
    }
    let batch = Batch::open(std::slice::from_ref(&arguments.directory), &environment.cwd)?;
    let whole = batch.parts.first().filter(|part| part.shard.is_none() && batch.parts.len() == 1);
    let description = &whole.ok_or(DeliverBatchError::Shards)?.description;
    let chosen = chosen(&batch, arguments)?;
    if let Some(digest) = &arguments.sha256 {
        trust(&batch, &chosen, digest)?;
    }
    let place = Place::open(arguments.workspace.cd.as_deref(), environment)?;
    let policy = place.policy(arguments.policy.as_deref(), true, environment)?.policy;
    let undo = match arguments.how.no_undo || !(arguments.how.apply || arguments.how.commit) {
        true => None,
        false => Some(place.state()?.join("undo")),
    };
    let (run_id, time) = (new_id(), jiff::Timestamp::now().to_string());
    let site = Site {
        root: place.root(),
        repository: place.repository(),
        undo: undo.as_deref(),
        run_id: &run_id,
        time: &time,
        outputs: None,
    };
    let secrets = secrets_of(&policy, environment)?;
    let facts = place.facts(environment);
    let rules = Rules { policy: &policy, facts: &facts, secrets: &secrets, also: &|_| Ok(()) };
    if let Some(template) = &arguments.how.branch_each {
        return branches::run(&batch, &chosen, template, arguments, &rules, &site, out);
    }
    let how = how(arguments, description, &chosen)?;
    let (taken_back, again) = prepared(&how, &site)?;
    let site = Site { repository: again.as_ref().or(site.repository), ..site };
    let merged = merged(&batch, &chosen, arguments, (&rules, &site), err)?;
    let commands = &arguments.verify_combined;
    let failed =
        combined_checks::check(commands, &merged.changes, &place, &policy, environment, own_executable()).await?;
    if let Some(failed) = failed {
        let _closed = writeln!(err, "{}", escape(tail(&failed.output, "").trim_end()));
        return Err(DeliverBatchError::Check(failed.command).into());
    }
    // The message names the items that are in it.
    let kept: Vec<Chosen> = chosen.into_iter().filter(|one| !merged.left_out.contains(&one.item.key)).collect();
    let how = self::how(arguments, description, &kept)?;
    let delivered = delivered(&merged.changes, &how, Most::default(), &rules, &site)?;
    let done = Done { delivered, merged, taken_back, how };
    match arguments.output_format {
        Format::Text => print(out, &done.text().text(&appearance(environment))),
        Format::Patch => print_bytes(out, &done.delivered.patch),
        Format::Json | Format::StreamJson | Format::Result => print(out, &(to_line(&done.object(&run_id)) + "\n")),
    }
}

/// Merges the changes in the order of the list.
fn merged(
    batch: &Batch,
    chosen: &[Chosen],
    arguments: &DeliverArgs,
    (rules, site): (&Rules<'_>, &Site<'_>),
    err: &mut dyn Write,
) -> Result<Merged, Failure> {
    let mut merged = Merged::default();
    for one in chosen {
        merged.add(part(batch, one)?, rules, site)?;
    }
    match (arguments.on_conflict, merged.refuse_conflicts()) {
        (OnConflict::Fail, Err(conflict)) => {
            show_conflicts(&merged, err);
            Err(conflict.into())
        }
        (OnConflict::Fail | OnConflict::Skip, _) => Ok(merged),
    }
}

fn how(arguments: &DeliverArgs, batch: &plan::Batch, chosen: &[Chosen]) -> Result<Delivery, DeliverBatchError> {
    let flags = &arguments.how;
    Ok(match (&flags.branch, flags.commit, flags.apply) {
        (Some(name), _, _) => {
            Delivery::Branch { name: name.clone(), order: order(flags.message.as_deref(), batch, chosen)? }
        }
        (None, true, _) => Delivery::Commit(order(flags.message.as_deref(), batch, chosen)?),
        (None, false, true) => Delivery::Apply,
        (None, false, false) => Delivery::DryRun,
    })
}

/// Says which places touch, a line each.
fn show_conflicts(merged: &Merged, err: &mut dyn Write) {
    for conflict in &merged.conflicts {
        let lines = if conflict.lines.is_empty() { String::new() } else { format!(":{}", conflict.lines.join(",")) };
        let _closed =
            writeln!(err, "conflict {}{lines} {}", one_line(&conflict.path), one_line(&conflict.keys.join(" ")));
    }
}

/// What was delivered.
struct Done {
    delivered: Delivered,
    merged: Merged,
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
        let mut notes: Vec<String> =
            taken_back.iter().map(|run| format!("rolled back the interrupted delivery of run {run}")).collect();
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
