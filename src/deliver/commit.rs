//! Commits changes with git's plumbing, a private index and private objects: no hook runs, and nothing that the user
//! has staged or checked out becomes part of the commit.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use super::apply::{self, Applied};
use super::delivery::{Delivered, DeliveryRequest, Site};
use super::error::{DeliverError, from_repository};
use super::journal::{SavedCommit, quoted};
use super::references::{
    failed, fill_index, head_reference, left_locks, move_reference_back, objects_of, publish, refuse_locks,
    update_index_where_still, update_reference,
};
use super::seen;
use crate::change::patch::{mode, name_in_repository};
use crate::change::{ChangeSet, Entry, diff};
use crate::git::attributes::Conversions;
use crate::git::ownership::link_out;
use crate::git::repository::Repository;
use crate::git::signing::Signing;
use crate::git::{Git, GitError};
use crate::workspace::steps::Steps;
use crate::workspace::temporary::Temporary;
use objects::{Object, Objects};

/// Checks the requirements of a commit: a repository with a work tree, an identity, a free name.
pub(super) fn preflight(branch: Option<&String>, order: &DeliveryRequest, site: &Site<'_>) -> Result<(), DeliverError> {
    let repository = repository(site)?;
    let git = identified(repository.git(), order);
    if let Some(name) = branch {
        check_name(repository, name, order)?;
    }
    for (who, variable) in [("author", "GIT_AUTHOR_IDENT"), ("committer", "GIT_COMMITTER_IDENT")] {
        git.run(&["var", variable], b"").map_err(|error| match error {
            GitError::Failed { message, .. } => DeliverError::conflict(
                format!("git has no {who} for the commit: {}", message.lines().last().unwrap_or_default()),
                "set one with `git config --global user.name NAME` and `git config --global user.email ADDRESS`",
            ),
            other => unfit(&other),
        })?;
    }
    signing(git.clone(), order).map(drop)?;
    let name = branch.or(repository.branch.as_ref()).map(|name| format!("refs/heads/{name}"));
    let link = link_out(&repository.git_dir, &repository.common_dir, name.as_deref());
    if let Some(link) = link.map_err(|error| DeliverError::io(repository.common_dir.display(), &error))? {
        return Err(DeliverError::conflict(
            format!("{} is a link that leads out of the repository", link.display()),
            "remove the link, or deliver with --apply",
        ));
    }
    refuse_locks(repository, branch.map(|name| format!("refs/heads/{name}")).as_deref().unwrap_or("HEAD"))?;
    if branch.is_none() {
        // A commit now would end the operation in progress, and lose a parent or the note of what was picked.
        for (head, what) in [("MERGE_HEAD", "merge"), ("CHERRY_PICK_HEAD", "cherry-pick"), ("REVERT_HEAD", "revert")] {
            if resolves(&git, head).map_err(|error| unfit(&error))? {
                return Err(DeliverError::conflict(
                    format!("a {what} is in progress"),
                    format!("finish it, or abort it with `git {what} --abort`; or deliver to a --branch"),
                ));
            }
        }
    }
    let mut written = vec![objects_of(repository)?, repository.common_dir.join("refs")];
    // The index and HEAD's own history.
    written.extend(branch.is_none().then(|| repository.git_dir.clone()));
    for directory in written {
        if let Err(error) = rustix::fs::access(&directory, rustix::fs::Access::WRITE_OK) {
            return Err(DeliverError::conflict(
                format!("{} cannot be written: {}", directory.display(), io::Error::from(error)),
                "deliver a patch (--dry-run), or make the repository writable",
            ));
        }
    }
    Ok(())
}

fn unfit(error: &GitError) -> DeliverError {
    DeliverError::conflict(error.to_string(), error.hint())
}

/// Tells whether a name resolves to an object. Git exits silently if it does not; any message is an error.
fn resolves(git: &Git, name: &str) -> Result<bool, GitError> {
    match git.run(&["rev-parse", "-q", "--verify", name], b"") {
        Ok(_) => Ok(true),
        Err(GitError::Failed { message, .. }) if message.starts_with("exit status") => Ok(false),
        Err(error) => Err(error),
    }
}

/// Refuses a name that no branch can have. Returns the commit of the branch if it is there from an earlier delivery.
fn check_name(repository: &Repository, name: &str, order: &DeliveryRequest) -> Result<Option<String>, DeliverError> {
    // It refuses `HEAD`, which as a reference would do, and would print the branch that `@{-1}` stands for.
    match repository.git().line(&["check-ref-format", "--branch", name], b"") {
        Ok(printed) if printed == name => {}
        Ok(_) | Err(GitError::Failed { .. }) => {
            return Err(DeliverError::conflict(
                format!("`{name}` is not a valid branch name"),
                "give another --branch",
            ));
        }
        Err(error) => return Err(unfit(&error)),
    }
    let reference = format!("refs/heads/{name}");
    let there = repository.reference_in_the_way(&reference).map_err(|error| from_repository(&error))?;
    match there.as_deref().map(|there| there.strip_prefix("refs/heads/").unwrap_or(there)) {
        None => Ok(None),
        Some(there) if there == name => match own_commit(repository, &reference, order)? {
            Some(commit) => Ok(Some(commit)),
            None => Err(is_there(name)),
        },
        Some(there) => Err(DeliverError::conflict(
            format!("the branch {there} exists, and git cannot have both it and {name}"),
            "give another --branch, or rename the other one",
        )),
    }
}

fn is_there(name: &str) -> DeliverError {
    DeliverError::conflict(format!("the branch {name} already exists"), "give another --branch, or delete it first")
}

/// Returns the commit of a branch if an earlier try of this delivery made it.
fn own_commit(
    repository: &Repository,
    reference: &str,
    order: &DeliveryRequest,
) -> Result<Option<String>, DeliverError> {
    let Some(own) = &order.own_line else { return Ok(None) };
    let shown = ["log", "-1", "--no-show-signature", "--format=%H%n%B", reference, "--"];
    let shown = repository.git().line(&shown, b"").map_err(failed)?;
    let mut lines = shown.lines();
    let commit = lines.next().map(str::to_owned);
    Ok(commit.filter(|_| lines.any(|line| line == own)))
}

fn repository<'s>(site: &Site<'s>) -> Result<&'s Repository, DeliverError> {
    site.repository.ok_or_else(|| {
        DeliverError::conflict(
            format!("{} is not in a git repository with a work tree", site.root.display()),
            "run `git init`, or deliver with --apply",
        )
    })
}

/// A commit that is written to private objects, but not yet in the repository.
struct Prepared {
    scratch: Temporary,
    base: Option<String>,
    tree: String,
    commit: String,
    /// Input of `update-index --index-info` that brings the changed paths to the commit.
    index_info: Vec<u8>,
    /// The same for the way back.
    index_info_before: Vec<u8>,
    /// What the repository says about signing, which is ignored.
    left_out: Option<String>,
}

/// Makes a commit on a new branch.
pub(super) fn on_branch(
    changes: &ChangeSet,
    name: &str,
    order: &DeliveryRequest,
    site: &Site<'_>,
    delivered: &mut Delivered,
) -> Result<(), DeliverError> {
    let repository = repository(site)?;
    let earlier = check_name(repository, name, order)?;
    apply::check_base(changes, site.root)?;
    let prepared = prepare(changes, order, repository)?;
    delivered.branch = Some(name.to_owned());
    delivered.applied = true;
    if let Some(commit) = earlier {
        let tree = repository.git().line(&["rev-parse", "--verify", &format!("{commit}^{{tree}}")], b"");
        return match tree.map_err(failed)? == prepared.tree {
            true => {
                delivered.commit = Some(commit);
                Ok(())
            }
            false => Err(is_there(name)),
        };
    }
    publish(&prepared.scratch.path().join("objects"), repository, site.run_id)?;
    let reference = format!("refs/heads/{name}");
    update_reference(repository, &reference, &prepared.commit, &repository.format.zero(), &reason(order))?;
    delivered.warnings.extend(prepared.left_out);
    delivered.warnings.extend(left_locks(repository, &reference));
    delivered.commit = Some(prepared.commit);
    Ok(())
}

/// Makes a commit on HEAD, and updates the files and the index entries of the changed paths, nothing else.
pub(super) fn on_head(
    changes: &ChangeSet,
    order: &DeliveryRequest,
    site: &Site<'_>,
    steps: &Steps,
    delivered: &mut Delivered,
) -> Result<(), DeliverError> {
    let repository = repository(site)?;
    let prepared = prepare(changes, order, repository)?;
    refuse_locks(repository, "HEAD")?;
    let reference = head_reference(repository).map_err(|error| DeliverError::io("HEAD", &error))?;
    let saved = SavedCommit {
        reference,
        old: prepared.base.clone(),
        new: prepared.commit.clone(),
        index_before: quoted(&prepared.index_info_before),
        index_after: quoted(&prepared.index_info),
    };
    let applied = Applied::begin(changes, site, Some(saved), steps)?;
    let zero = repository.format.zero();
    let old = prepared.base.as_deref().unwrap_or(&zero);
    let moved = step(steps)
        .and_then(|()| publish(&prepared.scratch.path().join("objects"), repository, site.run_id))
        .and_then(|()| step(steps))
        .and_then(|()| update_reference(repository, "HEAD", &prepared.commit, old, &reason(order)));
    if let Err(cause) = moved {
        return Err(applied.roll_back(cause));
    }
    let (before, after) = (&prepared.index_info_before, &prepared.index_info);
    let indexed = step(steps).and_then(|()| update_index_where_still(repository, after, before));
    if let Err(cause) = indexed {
        return Err(applied.roll_back(move_back(repository, &prepared, steps, cause)));
    }
    match applied.finish() {
        Ok(finished) => {
            delivered.record = finished.record;
            delivered.warnings.extend(finished.warnings);
        }
        Err(cause) => {
            let cause = match update_index_where_still(repository, before, after) {
                Ok(()) => cause,
                Err(also) => DeliverError::conflict(format!("{cause}; {also}"), "run `git reset` to repair the index"),
            };
            return Err(move_back(repository, &prepared, steps, cause));
        }
    }
    delivered.branch = repository.head_now().map_err(|error| from_repository(&error))?.1;
    delivered.warnings.extend(prepared.left_out);
    delivered.warnings.extend(left_locks(repository, "HEAD"));
    delivered.commit = Some(prepared.commit);
    delivered.applied = true;
    Ok(())
}

fn step(steps: &Steps) -> Result<(), DeliverError> {
    steps.step().map_err(|error| DeliverError::io("the commit", &error))
}

/// Moves the reference back after an error, and returns the error with a note on how that went.
fn move_back(repository: &Repository, prepared: &Prepared, steps: &Steps, cause: DeliverError) -> DeliverError {
    let back = steps.step().map_err(|error| error.to_string()).and_then(|()| {
        move_reference_back(repository, "HEAD", prepared.base.as_deref(), &prepared.commit)
            .map_err(|error| error.to_string())
    });
    match back {
        Ok(()) => cause,
        Err(error) => DeliverError::conflict(
            format!("{cause}; the commit {} was made and cannot be rolled back: {error}", prepared.commit),
            "run `git reset` to the commit that you want",
        ),
    }
}

fn reason(order: &DeliveryRequest) -> String {
    format!("qwen: {}", order.message.lines().next().unwrap_or_default())
}

/// Variables with which a user sets who makes a commit, and when. Git inherits no other variable of its own.
const IDENTITY: [&str; 6] = [
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_AUTHOR_DATE",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
    "GIT_COMMITTER_DATE",
];

fn identified(mut git: Git, order: &DeliveryRequest) -> Git {
    for name in IDENTITY {
        if let Some(value) = std::env::var_os(name) {
            git = git.env(name, value);
        }
    }
    for (role, person) in [("AUTHOR", &order.author), ("COMMITTER", &order.committer)] {
        if let Some(person) = person {
            git = git.env(format!("GIT_{role}_NAME"), &person.name).env(format!("GIT_{role}_EMAIL"), &person.email);
        }
    }
    git
}

fn prepare(changes: &ChangeSet, order: &DeliveryRequest, repository: &Repository) -> Result<Prepared, DeliverError> {
    let temporary = |error: io::Error| DeliverError::io("a temporary directory", &error);
    let scratch = Temporary::new("commit-").map_err(temporary)?;
    let private_objects = scratch.path().join("objects");
    std::fs::create_dir(&private_objects).map_err(temporary)?;
    let objects = objects_of(repository)?;
    let private = |git: Git| {
        written::with_whole_index(git)
            .env("GIT_INDEX_FILE", scratch.path().join("index"))
            .env("GIT_OBJECT_DIRECTORY", &private_objects)
            .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", quoted_list_entry(&objects))
    };
    let git = identified(private(repository.git()), order);
    // The repository's filters never run here; line ends are converted as git does it.
    let unfiltered = private(repository.without_filters().map_err(|error| from_repository(&error))?);

    let base = repository.head_now().map_err(|error| from_repository(&error))?.0;
    if base != repository.head {
        return Err(DeliverError::conflict("HEAD has moved since the run began", "run again on the current branch"));
    }
    git.run(&["read-tree", base.as_deref().unwrap_or("--empty")], b"").map_err(failed)?;
    let changes = seen::with_kept_modes(changes, repository).map_err(|error| from_repository(&error))?;
    let (index_info_before, index_info) =
        index_lines(&changes, base.as_deref(), repository, &unfiltered, scratch.path())?;
    fill_index(&git, &index_info)?;
    let tree = git.line(&["write-tree"], b"").map_err(failed)?;
    written::require_change(&git, base.as_deref(), &tree, &index_info)?;
    let (git, option, left_out) = signing(git, order)?;
    let mut arguments = vec!["commit-tree".to_owned()];
    arguments.extend(option);
    arguments.push(tree.clone());
    if let Some(base) = &base {
        arguments.extend(["-p".to_owned(), base.clone()]);
    }
    let trailer = order.tree_trailer.map(|name| format!("{name}: {tree}\n")).unwrap_or_default();
    let commit = git.line(&arguments, format!("{}{trailer}", order.message).as_bytes()).map_err(failed)?;
    Ok(Prepared { scratch, base, tree, commit, index_info, index_info_before, left_out })
}

/// Writes the contents, and returns the lines of the index before and after the change: what the base has, and what git
/// stores of the new files.
fn index_lines(
    changes: &ChangeSet,
    base: Option<&str>,
    repository: &Repository,
    git: &Git,
    scratch: &Path,
) -> Result<(Vec<u8>, Vec<u8>), DeliverError> {
    let names: Vec<Vec<u8>> = changes.iter().map(|(path, _)| name_in_repository(&repository.prefix, path)).collect();
    let stored = repository.in_commit(base, &names).map_err(|error| from_repository(&error))?;
    let conversions = Conversions::with_line_ends(repository, &names.iter().cloned().collect());
    let conversions = conversions.map_err(|error| from_repository(&error))?;
    let mut objects = Objects::new(git, scratch).map_err(|error| DeliverError::io("a temporary directory", &error))?;
    let mut after = Vec::new();
    for ((_, change), name) in changes.iter().zip(&names) {
        let Some(mode) = mode(&change.after) else {
            after.push((name, "0", Object::Known(repository.format.zero())));
            continue;
        };
        let object = if conversions.is_in_lfs(name) && matches!(change.after, Entry::File { .. }) {
            let object = repository.blob_by(git, name, diff::text_of(&change.after), true);
            Object::Known(object.map_err(|error| from_repository(&error))?)
        } else {
            // A file that git stores with other bytes has no `\r\n` there.
            let was = diff::text_of(&change.before);
            let is_as_stored = stored.get(name).is_some_and(|at| at.object == repository.format.blob(was));
            let kept = conversions.kept_over(name, if is_as_stored { was } else { b"" }, &change.after);
            let kept = kept.map_err(|error| from_repository(&error))?;
            objects.add(diff::text_of(&kept)).map_err(|error| DeliverError::io("a temporary file", &error))?
        };
        after.push((name, mode, object));
    }
    let written = objects.write().map_err(failed)?;
    let after = after.iter().map(|(name, mode, object)| match object {
        Object::Known(object) => (*name, *mode, object.as_str()),
        Object::Written(number) => (*name, *mode, written[*number].as_str()),
    });
    let zero = repository.format.zero();
    let before = names.iter().map(|name| match stored.get(name) {
        Some(at) => (name, at.mode.as_str(), at.object.as_str()),
        None => (name, "0", zero.as_str()),
    });
    Ok((index_info(before), index_info(after)))
}

/// Returns the input of `update-index --index-info`. Deletions come first: they may make room for new entries.
fn index_info<'e>(entries: impl Iterator<Item = (&'e Vec<u8>, &'e str, &'e str)>) -> Vec<u8> {
    let (gone, there): (Vec<_>, Vec<_>) = entries.partition(|(_, mode, _)| *mode == "0");
    let line =
        |(name, mode, object): (&Vec<u8>, &str, &str)| [format!("{mode} {object}\t").as_bytes(), name, b"\0"].concat();
    gone.into_iter().chain(there).flat_map(line).collect()
}

/// Returns git configured for this commit, the option of `commit-tree` if it is signed, and what the repository says
/// about signing, which is ignored.
fn signing(git: Git, order: &DeliveryRequest) -> Result<(Git, Option<String>, Option<String>), DeliverError> {
    let signing = Signing::read(&git).map_err(failed)?;
    let left_out = signing.left_out();
    if !order.sign && !signing.is_wanted {
        return Ok((git, None, left_out));
    }
    let committer = committer(&git)?;
    let (git, option) =
        signing.apply(git, &committer).map_err(|error| DeliverError::conflict(error.to_string(), error.hint()))?;
    Ok((git.with_long_patience(), Some(option), left_out))
}

/// Returns the committer as `NAME <ADDRESS>`.
fn committer(git: &Git) -> Result<String, DeliverError> {
    let mut identity = git.line(&["var", "GIT_COMMITTER_IDENT"], b"").map_err(failed)?;
    // The time follows the address.
    if let Some(end) = identity.rfind('>') {
        identity.truncate(end + 1);
    }
    Ok(identity)
}

/// Quotes a path for a list that is separated by colons.
fn quoted_list_entry(path: &Path) -> OsString {
    let bytes = path.as_os_str().as_bytes();
    if !bytes.contains(&b':') && bytes.first() != Some(&b'"') {
        return path.into();
    }
    let mut quoted = vec![b'"'];
    for &byte in bytes {
        if matches!(byte, b'"' | b'\\') {
            quoted.push(b'\\');
        }
        quoted.push(byte);
    }
    quoted.push(b'"');
    OsString::from_vec(quoted)
}

mod objects;
mod written;

#[cfg(test)]
mod tests;
