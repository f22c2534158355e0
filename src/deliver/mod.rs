//! Delivers a change set as a patch, applied files, a commit or a branch. No other module writes to the project.
//!
//! All or nothing: after a failure the work tree is as before the delivery.

pub mod apply;
mod commit;
mod delivery;
mod directories;
mod error;
pub mod gate;
mod in_the_way;
pub mod inert;
pub mod journal;
mod left_over;
pub mod message;
pub mod outputs;
pub mod propose;
mod references;
mod repositories;
mod seen;
mod swaps;
pub mod undo;

#[cfg(test)]
mod test_support;

use crate::base::digest::sha256;
use crate::change::patch::{self, ObjectFormat};
use crate::change::{Change, ChangeSet, Entry, Kind, diff};
use crate::event::FileReport;
use crate::git::file_status::FileStatus;
use crate::git::repository::Repository;
use crate::git::{Whole, is_interrupted};
use crate::path::RelPath;

pub use crate::workspace::steps::Steps;
pub use delivery::{Delivered, Delivery, DeliveryRequest, Person, Site};
pub use error::DeliverError;
pub use gate::Gate;
pub use journal::records;
pub use outputs::Outputs;
pub use propose::Proposal;
pub use undo::{Recovered, UndoReport, recover, undo};

use error::from_repository;

/// Delivers a change set: the gate first, then all of it or nothing, even after a panic. A signal does not cut it short,
/// and keeps one that has not begun from beginning.
pub fn deliver(
    changes: &ChangeSet,
    how: &Delivery,
    site: &Site<'_>,
    gate: &Gate<'_>,
) -> Result<Delivered, DeliverError> {
    let is_dry = *how == Delivery::DryRun;
    let _whole = (!is_dry).then(Whole::begin);
    if !is_dry && is_interrupted() {
        return Err(DeliverError::conflict("nothing was delivered", "try again"));
    }
    let delivering = std::panic::AssertUnwindSafe(|| {
        let mut delivered = deliver_all(changes, how, site, gate)?;
        delivered.warnings.extend(site.outputs.into_iter().flat_map(Outputs::warnings));
        Ok(delivered)
    });
    std::panic::catch_unwind(delivering).unwrap_or_else(|_| {
        // The panic rolled back what was done; whether that worked is checked, not assumed.
        let rolled_back = apply::check_base(changes, site.root).is_ok();
        let hint = match rolled_back {
            true => "report this bug with the command line; the tree is unchanged, and the patch is in the result",
            false => "report this bug with the command line; run `qwen undo` to roll back",
        };
        let message = "a bug in qwen ended the delivery".to_owned();
        Err(DeliverError::Io { message, hint: hint.to_owned(), rolled_back })
    })
}

fn deliver_all(
    changes: &ChangeSet,
    how: &Delivery,
    site: &Site<'_>,
    gate: &Gate<'_>,
) -> Result<Delivered, DeliverError> {
    let (patch, files) = proposal(changes, site.repository);
    let mut delivered = Delivered { files, patch, ..Delivered::default() };
    let changes = &*seen::without_modes(changes, site.repository);
    gate.check(changes, delivered.patch.len(), site.root)?;
    if changes.is_empty() {
        return Ok(delivered);
    }
    let status = status_of(changes, how, site, gate, &mut delivered.warnings)?;
    if *how != Delivery::DryRun {
        refuse_moved_head(site)?;
    }
    match how {
        Delivery::DryRun => {
            let dirty = |path| format!("{path} has uncommitted changes; commit or stash them before this is applied");
            let mut obstacles: Vec<String> = status.dirty.iter().map(dirty).collect();
            if let Err(DeliverError::Conflict { message, .. }) =
                in_the_way::refuse(changes, site).and_then(|()| apply::check_base(changes, site.root))
            {
                obstacles.push(message);
            }
            delivered.obstacle = obstacles.first().cloned();
            delivered.warnings.append(&mut obstacles);
        }
        Delivery::Apply => {
            refuse_dirty(&status)?;
            in_the_way::refuse(changes, site)?;
            let finished = apply::apply(changes, site, &Steps::default())?;
            delivered.record = finished.record;
            delivered.warnings.extend(finished.warnings);
            delivered.applied = true;
        }
        Delivery::Commit(order) => {
            refuse_dirty(&status)?;
            refuse_filtered(changes, site)?;
            in_the_way::refuse(changes, site)?;
            commit::on_head(changes, order, site, &Steps::default(), &mut delivered)?;
        }
        Delivery::Branch { name, order } => {
            refuse_dirty(&status)?;
            refuse_filtered(changes, site)?;
            commit::on_branch(changes, name, order, site, &mut delivered)?;
        }
    }
    Ok(delivered)
}

/// Returns what git says about the files of the change; one in a submodule is refused.
fn status_of(
    changes: &ChangeSet,
    how: &Delivery,
    site: &Site<'_>,
    gate: &Gate<'_>,
    warnings: &mut Vec<String>,
) -> Result<FileStatus, DeliverError> {
    let status = match site.repository.map(|repository| repository.file_status(changes)) {
        None => FileStatus::default(),
        Some(Ok(status)) => status,
        // A patch changes nothing, and applied files can be rolled back.
        Some(Err(error)) if !needs_git(how, site) => {
            let unknown = "cannot tell which files had uncommitted changes";
            warnings.push(format!("{unknown}: {error}; {}", error.hint()));
            FileStatus::default()
        }
        Some(Err(error)) => return Err(from_repository(&error)),
    };
    if let Some((path, submodule)) = status.in_submodule.first() {
        return Err(DeliverError::denied(
            format!("{}: it is in the submodule {submodule}", gate.named(path)),
            "run in the submodule's own work tree",
        ));
    }
    Ok(status)
}

fn refuse_moved_head(site: &Site<'_>) -> Result<(), DeliverError> {
    let Some(repository) = site.repository else { return Ok(()) };
    let now = repository.head_now().map_err(|error| from_repository(&error))?.0;
    match now == repository.head {
        true => Ok(()),
        false => Err(DeliverError::conflict("HEAD has moved since the run began", "run again on the current commit")),
    }
}

/// Tells whether a delivery is refused if git cannot say what is committed: a commit, and files that nobody could
/// restore.
fn needs_git(how: &Delivery, site: &Site<'_>) -> bool {
    match how {
        Delivery::DryRun => false,
        Delivery::Apply => site.undo.is_none(),
        Delivery::Commit(_) | Delivery::Branch { .. } => true,
    }
}

/// Finds what would make any delivery fail, before the first request.
pub fn preflight(how: &Delivery, site: &Site<'_>) -> Result<(), DeliverError> {
    if needs_git(how, site)
        && let Some(repository) = site.repository
    {
        repository.check().map_err(|error| from_repository(&error))?;
    }
    match how {
        Delivery::DryRun => return Ok(()),
        Delivery::Apply => {}
        Delivery::Commit(order) => commit::preflight(None, order, site)?,
        Delivery::Branch { name, order } => return commit::preflight(Some(name), order, site),
    }
    if let Err(error) = rustix::fs::access(site.root, rustix::fs::Access::WRITE_OK) {
        return Err(DeliverError::conflict(
            format!("{} cannot be written: {}", site.root.display(), std::io::Error::from(error)),
            "deliver a patch (--dry-run), or make the directory writable",
        ));
    }
    match site.undo {
        Some(undo) if !journal::is_writable(undo) => Err(DeliverError::conflict(
            format!("cannot write an undo record in {}", undo.display()),
            "make the directory writable, or give --no-undo",
        )),
        Some(_) | None => Ok(()),
    }
}

fn refuse_dirty(status: &FileStatus) -> Result<(), DeliverError> {
    match status.dirty.as_slice() {
        [] => Ok(()),
        [first, rest @ ..] => {
            let more = if rest.is_empty() { String::new() } else { format!(" (and {} more files)", rest.len()) };
            Err(DeliverError::conflict(
                format!("{first} has uncommitted changes{more}"),
                "commit or stash them, then try again",
            ))
        }
    }
}

/// Refuses to commit files if only their filter could tell what git stores.
fn refuse_filtered(changes: &ChangeSet, site: &Site<'_>) -> Result<(), DeliverError> {
    let Some(repository) = site.repository else { return Ok(()) };
    let names: Vec<Vec<u8>> =
        changes.iter().map(|(path, _)| patch::name_in_repository(&repository.prefix, path)).collect();
    let filtered = repository.filtered(&names).map_err(|error| from_repository(&error))?;
    match filtered.first_key_value() {
        None => Ok(()),
        Some((name, driver)) => Err(DeliverError::conflict(
            format!("{} needs the git filter `{driver}`, which a run never starts", String::from_utf8_lossy(name)),
            "deliver with --apply, and commit with git",
        )),
    }
}

/// Returns the patch of a change set as `git apply` accepts it in this repository, and the result object's entry for
/// each file.
pub fn proposal(changes: &ChangeSet, repository: Option<&Repository>) -> (Vec<u8>, Vec<FileReport>) {
    let changes = seen::without_modes(changes, repository);
    let Some(repository) = repository else {
        let root = RelPath::root();
        return (patch::print(&changes, &root, ObjectFormat::Sha1), reports(&changes, &root));
    };
    // If git cannot be asked, the files are shown as they are.
    let shown = seen::for_patch(&changes, repository).unwrap_or(std::borrow::Cow::Borrowed(&changes));
    (patch::print(&shown, &repository.prefix, repository.format), reports(&changes, &repository.prefix))
}

fn reports(changes: &ChangeSet, prefix: &RelPath) -> Vec<FileReport> {
    changes.iter().map(|(path, change)| report(&patch::name_in_repository(prefix, path), change)).collect()
}

fn report(name: &[u8], change: &Change) -> FileReport {
    let digest = |entry: &Entry| (*entry != Entry::Absent).then(|| sha256(diff::text_of(entry)));
    let counts = diff::counts(change);
    let is_binary = [&change.before, &change.after].into_iter().any(|entry| diff::is_binary(diff::text_of(entry)));
    FileReport {
        path: String::from_utf8_lossy(name).into_owned(),
        kind: match change.kind() {
            Some(Kind::Added) => "added",
            Some(Kind::Deleted) => "deleted",
            Some(Kind::Modified) | None => "modified",
        }
        .to_owned(),
        added: counts.added,
        removed: counts.removed,
        sha256_before: digest(&change.before),
        sha256_after: digest(&change.after),
        binary: is_binary,
        executes_later: false,
    }
}
