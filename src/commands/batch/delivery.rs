//! Delivers the changes of a batch at its end, if a flag asks for it.

use super::error::BatchError;
use crate::base::digest::sha256;
use crate::base::usage::Usage;
use crate::batch::journal::{CONFLICT, Ended};
use crate::batch::plan::{self, files};
use crate::batch::result::{CombinedChanges, Conflict};
use crate::batch::tally::Stop;
use crate::cli::RunArgs;
use crate::cli::batch::BatchArgs;
use crate::cli::batch_directory::CombineArgs;
use crate::cli::run::ChangesMode;
use crate::commands::batch_directory::branches::{self, Branch};
use crate::commands::batch_directory::chosen::{Chosen, chosen};
use crate::commands::batch_directory::deliver::{Told, check_ahead, combine};
use crate::commands::batch_directory::destination::Destination;
use crate::commands::batch_directory::opened;
use crate::deliver::Delivered;
use crate::emit::Progress;
use crate::event::RunError;
use crate::exit::Exit;
use crate::policy::Policy;
use crate::run::error::Failure;
use crate::run::many::Outcome;
use crate::run::many::records::Records;
use crate::run::output::signals;
use crate::run::place::Place;
use crate::run::stages::Shared;
use crate::workspace::batch_folder::BatchFolder;

/// What was delivered at the end of a batch.
#[derive(Default)]
pub(super) struct AtEnd {
    pub(super) changes: CombinedChanges,
    pub(super) conflicts: Vec<Conflict>,
    pub(super) branches: Vec<Branch>,
    /// Why nothing was delivered, or not all.
    pub(super) failure: Option<Failure>,
    /// Whether nothing was tried, as the items had not ended well.
    pub(super) was_withheld: bool,
}

impl AtEnd {
    /// Returns the exit code of the delivery alone.
    pub(super) fn exit(&self) -> Exit {
        let failed = self.failure.as_ref().filter(|_| !self.was_withheld).map(|failure| failure.exit);
        let branches = self.branches.iter().filter_map(|branch| Some(branch.failure.as_ref()?.exit));
        branches.fold(failed.unwrap_or(Exit::Ok), Exit::or_worse)
    }
}

/// Refuses flags about a delivery that cannot be, or that has no effect.
pub(super) fn check_flags(arguments: &BatchArgs) -> Result<(), BatchError> {
    let flags = &arguments.combine;
    if let Some(flag) = flags.idle() {
        return Err(BatchError::Idle(flag));
    }
    let Some(mode) = flags.mode() else { return Ok(()) };
    let wrong = |why| Err(BatchError::Delivery { mode, why });
    if flags.message.is_some() && flags.apply {
        return wrong("makes no commit that could have a --message");
    }
    // Repositories have their own branches each.
    let shared = flags.branch_each.as_ref().filter(|_| arguments.source.repos.is_none());
    if let Some(template) = shared.filter(|text| !text.contains("{key}") && !text.contains("{n}")) {
        return Err(BatchError::Template(template.clone()));
    }
    match (&arguments.course.out, &arguments.course.shard) {
        _ if arguments.source.repos.is_some() && mode != "branch-each" => {
            wrong("cannot be combined with --repos: each repository has its own changes; use --branch-each")
        }
        (Some(_), Some(_)) if arguments.source.repos.is_some() => Ok(()),
        (None, _) => wrong("needs --out: the changes are kept there until all items have ended"),
        (Some(_), Some(_)) => wrong("cannot be combined with --shard: deliver once the shards are merged"),
        (Some(_), None) => Ok(()),
    }
}

/// What a delivery at the end needs to know of the call.
pub(super) struct Deliverer<'a> {
    pub(super) arguments: &'a BatchArgs,
    pub(super) of_items: &'a RunArgs,
    pub(super) shared: &'a Shared,
}

impl Deliverer<'_> {
    /// Finds what would make the delivery fail, before anything is paid for. Returns the policy by which it is judged;
    /// `None` if no flag asks for one.
    pub(super) fn check(&self, batch: &plan::Batch) -> Result<Option<Policy>, Failure> {
        let flags = &self.arguments.combine;
        let asked = match flags {
            CombineArgs { branch: Some(name), .. } | CombineArgs { branch_each: Some(name), .. } => {
                ChangesMode::Branch(name.clone())
            }
            CombineArgs { commit: true, .. } => ChangesMode::Commit,
            CombineArgs { apply: true, .. } => ChangesMode::Apply,
            _ => return Ok(None),
        };
        if self.arguments.source.repos.is_some() {
            // Each item delivers to its own repository, as a run does.
            return Ok(None);
        }
        let policy = self.shared.policy_of_delivery(self.of_items, asked)?;
        let to = Destination::open(&self.shared.place, &policy, &self.shared.environment, flags)?;
        check_ahead(batch, flags, &to)?;
        Ok(Some(policy))
    }

    /// Delivers what the flags ask for, and records which items are left out.
    pub(super) async fn deliver(
        &self,
        folder: Option<&BatchFolder>,
        policy: Option<&Policy>,
        (outcome, records): (&mut Outcome, &Records<'_>),
        progress: &mut Progress<'_>,
    ) -> Result<AtEnd, Failure> {
        let flags = &self.arguments.combine;
        let mode = flags.mode().unwrap_or("dry-run").to_owned();
        let mut end = AtEnd { changes: CombinedChanges { mode, ..CombinedChanges::default() }, ..AtEnd::default() };
        let (Some(folder), Some(policy)) = (folder, policy) else { return Ok(end) };
        if !matches!(outcome.stop, None | Some(Stop::Failures)) {
            progress.warn("nothing is delivered, as the batch stopped before its end");
            end.was_withheld = true;
            return Ok(end);
        }
        let environment = &self.shared.environment;
        let batch = opened::Batch::open(&[folder.path().to_owned()], &environment.cwd)?;
        // A branch of its own does not depend on the others.
        let partial = flags.partial || flags.branch_each.is_some();
        let chosen = match chosen(&batch, &[], partial, flags.skips()) {
            Ok(chosen) => chosen,
            Err(failure) => {
                progress.warn(&format!("nothing is delivered: {}", failure.error.message));
                (end.was_withheld, end.failure) = (true, Some(failure));
                return Ok(end);
            }
        };
        // As it is now: HEAD may have moved while the items ran.
        let place = Place::open(self.arguments.task.workspace.cd.as_deref(), environment)?;
        let to = Destination::open(&place, policy, environment, flags)?;
        if let Some(template) = &flags.branch_each {
            end.branch_each(branches::make(&batch, &chosen, template, flags.message.as_deref(), &to), progress);
            return Ok(end);
        }
        let mut told = Told::default();
        let combined = combine(&batch, chosen.clone(), flags, &to, &mut told).await;
        told.lines.iter().for_each(|line| progress.note(line));
        end.conflicts = told.conflicts;
        match combined {
            Err(failure) => end.failure = Some(signals::or_interrupted(failure)),
            Ok(done) => {
                leave_out(&done.merged.left_out, &chosen, outcome, records)?;
                end.combined(done.delivered, folder, progress)?;
            }
        }
        Ok(end)
    }
}

impl AtEnd {
    fn branch_each(&mut self, made: Result<Vec<Branch>, Failure>, progress: &mut Progress<'_>) {
        match made {
            Ok(made) => self.branches = made,
            Err(failure) => self.failure = Some(failure),
        }
        self.branches.iter().for_each(|branch| progress.note(&branch.line()));
        self.changes.applied = self.branches.iter().any(|branch| branch.commit.is_some());
    }

    fn combined(
        &mut self,
        delivered: Delivered,
        folder: &BatchFolder,
        progress: &mut Progress<'_>,
    ) -> Result<(), Failure> {
        delivered.warnings.iter().for_each(|warning| progress.warn(warning));
        if !delivered.patch.is_empty() {
            folder.replace(files::COMBINED, &delivered.patch)?;
            self.changes.patch_sha256 = Some(sha256(&delivered.patch));
        }
        self.changes.applied = delivered.applied;
        self.changes.files = delivered.files.into_iter().map(|file| file.path).collect();
        self.changes.branch = delivered.branch;
        self.changes.commit = delivered.commit;
        Ok(())
    }
}

/// Records that the changes of these items are not in the combined change: they have failed.
fn leave_out(keys: &[String], chosen: &[Chosen], outcome: &mut Outcome, records: &Records<'_>) -> Result<(), Failure> {
    for one in chosen.iter().filter(|one| keys.contains(&one.item.key)) {
        let message = "its change touches that of an earlier item, and is not in the combined change".to_owned();
        let hint = Some("run it again on the new state with --rerun KEY".to_owned());
        outcome.tally.change(one.ended.exit_code, Exit::Conflict.code());
        records.give_up(Ended {
            exit_code: Exit::Conflict.code(),
            exit_reason: Exit::Conflict.name().to_owned(),
            conclusion: CONFLICT.to_owned(),
            // What it cost is in the line before.
            usage: Usage::NONE,
            cost_usd: Some(0.0),
            duration_ms: 0,
            waited_ms: 0,
            error: Some(RunError { code: CONFLICT.into(), message, hint, ..RunError::default() }),
            ..one.ended.clone()
        })?;
    }
    Ok(())
}
