//! Converts changes to what git records, as git may store other modes and other bytes of a file than the work tree has.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::change::patch::name_in_repository;
use crate::change::{Change, ChangeSet, Entry};
use crate::git::attributes::Conversions;
use crate::git::repository::{Repository, RepositoryError};
use crate::path::RelPath;

/// Returns the changes without those of the executable bit, if the repository says that its file system does not store
/// it (`core.fileMode=false`): a file keeps its bit.
pub(super) fn without_modes<'c>(changes: &'c ChangeSet, repository: Option<&Repository>) -> Cow<'c, ChangeSet> {
    if repository.is_none_or(Repository::minds_mode) {
        return Cow::Borrowed(changes);
    }
    Cow::Owned(mapped(changes, |_, change| {
        let is_executable = matches!(change.before, Entry::File { executable: true, .. });
        let after = with_mode(&change.after, is_executable);
        Change { before: change.before.clone(), after }
    }))
}

/// Returns the changes with the modes that a commit gives them: the index's if the file system stores none, and that of
/// a plain file if the index has none either.
pub(super) fn with_kept_modes<'c>(
    changes: &'c ChangeSet,
    repository: &Repository,
) -> Result<Cow<'c, ChangeSet>, RepositoryError> {
    if repository.minds_mode() {
        return Ok(Cow::Borrowed(changes));
    }
    let names: Vec<Vec<u8>> = changes.iter().map(|(path, _)| name_in_repository(&repository.prefix, path)).collect();
    let executable = repository.executable_in_index(&names)?;
    Ok(Cow::Owned(mapped(changes, |path, change| {
        let is_executable = executable.contains(&name_in_repository(&repository.prefix, path));
        Change { before: with_mode(&change.before, is_executable), after: with_mode(&change.after, is_executable) }
    })))
}

/// Returns the changes with the modes and bytes that git compares a patch with.
pub(super) fn for_patch<'c>(
    changes: &'c ChangeSet,
    repository: &Repository,
) -> Result<Cow<'c, ChangeSet>, RepositoryError> {
    let changes = with_kept_modes(changes, repository)?;
    let names = changes.iter().map(|(path, _)| name_in_repository(&repository.prefix, path)).collect();
    let conversions = Conversions::of(repository, &names)?;
    if conversions.is_empty() {
        return Ok(changes);
    }
    let mut kept = BTreeMap::new();
    for (path, change) in changes.iter() {
        let name = name_in_repository(&repository.prefix, path);
        if conversions.covers(&name) {
            // Contents that do not match their declared encoding are shown as they are.
            if let (Ok(before), Ok(after)) =
                (conversions.kept(&name, &change.before), conversions.kept(&name, &change.after))
            {
                kept.insert(path.clone(), Change { before, after });
            }
        }
    }
    Ok(Cow::Owned(mapped(&changes, |path, change| kept.remove(path).unwrap_or_else(|| change.clone()))))
}

fn mapped(changes: &ChangeSet, mut map: impl FnMut(&RelPath, &Change) -> Change) -> ChangeSet {
    let mut mapped = ChangeSet::default();
    for (path, change) in changes.iter() {
        let Change { before, after } = map(path, change);
        mapped.stage(path.clone(), || before, after);
        if let Some(rights) = changes.limit_of(path) {
            mapped.limit(path, rights);
        }
    }
    mapped
}

fn with_mode(entry: &Entry, executable: bool) -> Entry {
    match entry {
        Entry::File { content, .. } => Entry::File { content: content.clone(), executable },
        Entry::Absent | Entry::Link { .. } => entry.clone(),
    }
}
