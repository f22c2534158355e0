//! Delivers a change set as a patch, applied files, a commit or a branch. No other module writes to the project.
//!
//! All or nothing: after a failure the work tree is as before the delivery.

pub mod apply;
pub mod commit;
pub mod gate;
pub mod journal;
pub mod message;
pub mod outputs;
pub mod propose;
mod repositories;
mod seen;
pub mod undo;

#[cfg(test)]
mod test_support;

use std::path::{Path, PathBuf};

use crate::change::patch::{self, ObjectFormat, sha256};
use crate::change::{Change, ChangeSet, Entry, Kind, diff};
use crate::event::FileReport;
use crate::exit::Exit;
use crate::git::repository::{Repository, RepositoryError, Standing};
use crate::path::RelPath;

pub use crate::workspace::steps::Steps;
pub use commit::{Order, Person};
pub use gate::Gate;
pub use outputs::Outputs;
pub use propose::{Base, Proposal};
pub use undo::{UndoReport, prune, records, recover, undo};

/// What happens to the changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// A patch; nothing is written.
    DryRun,
    /// The files of the work tree.
    Apply,
    /// A commit on the current branch; work tree and index get it too.
    Commit(Order),
    /// A commit on a new branch; work tree and index do not change.
    Branch {
        /// Without `refs/heads/`.
        name: String,
        /// What the commit says.
        order: Order,
    },
}

/// Where changes are delivered to.
pub struct Site<'a> {
    /// The workspace.
    pub root: &'a Path,
    /// The repository that holds it.
    pub repository: Option<&'a Repository>,
    /// The directory of undo records; `None` if the run cannot be undone (`--no-undo`).
    pub undo: Option<&'a Path>,
    /// The run's name: the record's, and part of the names of temporary files. Letters, digits, `-` and `_`.
    pub run_id: &'a str,
    /// When, for the record.
    pub time: &'a str,
    /// What is delivered to the work tree besides the change.
    pub outputs: Option<&'a Outputs<'a>>,
}

/// What was delivered.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Delivered {
    /// What `git apply` takes.
    pub patch: Vec<u8>,
    /// Each changed file for the result object (the policy sets `executes_later`).
    pub files: Vec<FileReport>,
    /// Whether the changes are in the tree or in a commit now.
    pub applied: bool,
    /// The new commit.
    pub commit: Option<String>,
    /// The branch that the commit is on.
    pub branch: Option<String>,
    /// What the operator should know.
    pub warnings: Vec<String>,
    /// The undo record's directory.
    pub record: Option<PathBuf>,
}

/// Why nothing was delivered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeliverError {
    /// The project does not match the change (63).
    #[error("{message}")]
    Conflict {
        /// What, with its name.
        message: String,
        /// What to do.
        hint: String,
    },
    /// The proposal cannot be read (42).
    #[error("{message}")]
    Input {
        /// What, with its line.
        message: String,
        /// What to do.
        hint: String,
    },
    /// The gate refused (60).
    #[error("{message}")]
    Denied {
        /// What, with its name.
        message: String,
        /// What to do.
        hint: String,
    },
    /// The disk failed (63).
    #[error("{message}")]
    Io {
        /// What, with its name.
        message: String,
        /// What to do.
        hint: String,
        /// Whether something had been written, and was rolled back completely.
        rolled_back: bool,
    },
}

impl DeliverError {
    pub(crate) fn conflict(message: impl Into<String>, hint: impl Into<String>) -> DeliverError {
        DeliverError::Conflict { message: message.into(), hint: hint.into() }
    }

    pub(crate) fn denied(message: impl Into<String>, hint: impl Into<String>) -> DeliverError {
        DeliverError::Denied { message: message.into(), hint: hint.into() }
    }

    pub(crate) fn io(what: impl std::fmt::Display, cause: &std::io::Error) -> DeliverError {
        let hint = match cause.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                "free disk space, then apply the patch with `qwen apply`"
            }
            _ => "remove the cause, then deliver the patch of the result with `qwen apply`",
        };
        DeliverError::Io { message: format!("{what}: {cause}"), hint: hint.to_owned(), rolled_back: false }
    }

    /// Returns the exit code of the run.
    pub fn exit(&self) -> Exit {
        match self {
            DeliverError::Conflict { .. } | DeliverError::Io { .. } => Exit::Conflict,
            DeliverError::Input { .. } => Exit::Input,
            DeliverError::Denied { .. } => Exit::Denied,
        }
    }

    /// Returns a hint.
    pub fn hint(&self) -> &str {
        match self {
            DeliverError::Conflict { hint, .. }
            | DeliverError::Input { hint, .. }
            | DeliverError::Denied { hint, .. }
            | DeliverError::Io { hint, .. } => hint,
        }
    }

    /// Tells whether a delivery was begun and rolled back.
    pub fn rolled_back(&self) -> bool {
        matches!(self, DeliverError::Io { rolled_back: true, .. })
    }
}

/// Delivers a change set: the gate first, then all of it or nothing, even after a panic.
pub fn deliver(
    changes: &ChangeSet,
    how: &Delivery,
    site: &Site<'_>,
    gate: &Gate<'_>,
) -> Result<Delivered, DeliverError> {
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
    let standing = match site.repository.map(|repository| repository.standing(changes)) {
        None => Standing::default(),
        Some(Ok(standing)) => standing,
        // A patch changes nothing, and applied files can be rolled back.
        Some(Err(error)) if !needs_git(how, site) => {
            let unknown = "cannot tell which files had uncommitted changes";
            delivered.warnings.push(format!("{unknown}: {error}; {}", error.hint()));
            Standing::default()
        }
        Some(Err(error)) => return Err(from_repository(&error)),
    };
    if let Some((path, submodule)) = standing.in_submodule.first() {
        return Err(DeliverError::denied(
            format!("{}: it is in the submodule {submodule}", gate.named(path)),
            "run in the submodule's own work tree",
        ));
    }
    if *how != Delivery::DryRun
        && let Some(repository) = site.repository
    {
        let now = repository.head_now().map_err(|error| from_repository(&error))?.0;
        if now != repository.head {
            return Err(DeliverError::conflict(
                "HEAD has moved since the run began",
                "run again on the current commit",
            ));
        }
    }
    match how {
        Delivery::DryRun => {
            let warning =
                |path| format!("{path} had uncommitted changes when the run began; commit or stash them first");
            delivered.warnings.extend(standing.dirty.iter().map(warning));
            if let Err(DeliverError::Conflict { message, .. }) = apply::check_base(changes, site.root) {
                delivered.warnings.push(message);
            }
        }
        Delivery::Apply => {
            refuse_dirty(&standing)?;
            delivered.record = apply::apply(changes, site, &Steps::default())?;
            delivered.applied = true;
        }
        Delivery::Commit(order) => {
            refuse_dirty(&standing)?;
            refuse_filtered(changes, site)?;
            commit::on_head(changes, order, site, &Steps::default(), &mut delivered)?;
        }
        Delivery::Branch { name, order } => {
            refuse_dirty(&standing)?;
            refuse_filtered(changes, site)?;
            commit::on_branch(changes, name, order, site, &mut delivered)?;
        }
    }
    Ok(delivered)
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

fn refuse_dirty(standing: &Standing) -> Result<(), DeliverError> {
    match standing.dirty.as_slice() {
        [] => Ok(()),
        [first, rest @ ..] => {
            let more = if rest.is_empty() { String::new() } else { format!(" (and {} more files)", rest.len()) };
            Err(DeliverError::conflict(
                format!("{first} had uncommitted changes when the run began{more}"),
                "commit or stash them, then run again",
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

pub(crate) fn from_repository(error: &RepositoryError) -> DeliverError {
    DeliverError::conflict(format!("the repository cannot be read: {error}"), error.hint())
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
