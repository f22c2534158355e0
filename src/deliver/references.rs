//! Moves references, index entries and objects of the repository forward, and back.

#![expect(clippy::disallowed_methods, reason = "objects are moved into the repository here")]

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::{DeliverError, from_repository};
use super::journal::{SavedCommit, unquoted};
use crate::git::repository::Repository;
use crate::git::{Git, GitError};

/// Refuses to begin if git would fail in the middle: a lock file belongs to another running git, or to one that was
/// killed.
pub(super) fn refuse_locks(repository: &Repository, reference: &str) -> Result<(), DeliverError> {
    match repository.locks(reference, reference == "HEAD").first() {
        None => Ok(()),
        Some(lock) => Err(DeliverError::conflict(
            format!("{} exists: another git is running, or was killed", lock.display()),
            "wait for it to end; if no git runs, remove the file",
        )),
    }
}

/// Returns a warning for each lock file that exists after a commit: git does not say so when it cannot remove its own.
pub(super) fn left_locks(repository: &Repository, reference: &str) -> Vec<String> {
    let locks = repository.locks(reference, reference == "HEAD").into_iter();
    let warning = |lock: PathBuf| {
        format!("{} was left over, or another git is running; if no git runs, remove the file", lock.display())
    };
    locks.map(warning).collect()
}

/// Returns the commit of a reference; `None` if it does not exist.
pub(super) fn reference_now(repository: &Repository, reference: &str) -> io::Result<Option<String>> {
    if reference == "HEAD" {
        return repository.head_now().map(|(commit, _)| commit).map_err(io::Error::other);
    }
    let listed = repository.git().line(&["for-each-ref", "--format=%(objectname) %(refname)", reference], b"");
    let listed = listed.map_err(io::Error::other)?;
    let mut lines = listed.lines().filter_map(|line| line.split_once(' '));
    Ok(lines.find(|(_, name)| *name == reference).map(|(object, _)| object.to_owned()))
}

pub(super) fn update_reference(
    repository: &Repository,
    reference: &str,
    new: &str,
    old: &str,
    reason: &str,
) -> Result<(), DeliverError> {
    let arguments = ["update-ref", "--create-reflog", "-m", reason, reference, new, old];
    let Err(error) = repository.git().run(&arguments, b"") else { return Ok(()) };
    let now = reference_now(repository, reference);
    if now.as_ref().is_ok_and(|now| now.as_deref() == Some(new)) {
        // It was moved before git failed, was ended, or became unreachable.
        return Ok(());
    }
    refuse_locks(repository, reference)?;
    let expected = (old != repository.format.zero()).then_some(old);
    Err(match now {
        Ok(now) if now.as_deref() == expected => {
            DeliverError::conflict(format!("cannot update {reference}: {error}"), error.hint())
        }
        Ok(_) | Err(_) => {
            DeliverError::conflict(format!("{reference} has moved: {error}"), "run again on the current branch")
        }
    })
}

/// Moves a reference back to what it was, if it is still where the run put it. What was nothing before is a branch, and
/// nothing else is ever deleted: without HEAD there is no repository.
pub(super) fn move_reference_back(
    repository: &Repository,
    reference: &str,
    old: Option<&str>,
    new: &str,
) -> Result<(), GitError> {
    let git = repository.git();
    let moved = match old {
        Some(old) => git.run(&["update-ref", "-m", "qwen: taken back", reference, old, new], b""),
        None => match deletable(repository, reference) {
            Some(branch) => git.run(&["update-ref", "-d", &branch, new], b""),
            None => Err(GitError::Failed {
                command: "update-ref".to_owned(),
                message: format!("{reference} is not a branch, and is not deleted"),
            }),
        },
    };
    match moved {
        Err(error) if !reference_now(repository, reference).is_ok_and(|now| now.as_deref() == old) => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Returns the branch that a reference is; `None` if it is none.
fn deletable(repository: &Repository, reference: &str) -> Option<String> {
    let name = match reference {
        "HEAD" => head_reference(repository).ok()?,
        other => other.to_owned(),
    };
    name.starts_with("refs/heads/").then_some(name)
}

/// Sets the index entries of the changed paths to these states; every other entry stays as the user has it.
pub(super) fn update_index(repository: &Repository, index_info: &[u8]) -> Result<(), DeliverError> {
    // Git rereads files with times close to the index's own, and would run filters on them.
    if index_info.is_empty() {
        return Ok(());
    }
    let git = repository.without_filters().map_err(|error| from_repository(&error))?;
    // Without the hash git cannot tell one part of a split index from another.
    let git = git.config("index.skipHash", "false");
    let lines = index_info.split(|byte| *byte == 0).filter(|line| !line.starts_with(b"0 "));
    let names = lines.filter_map(|line| line.splitn(2, |byte| *byte == b'\t').nth(1)).map(<[u8]>::to_vec);
    let flagged = repository.flagged_in_index(&names.collect::<Vec<_>>()).map_err(|error| from_repository(&error))?;
    fill_index(&git, index_info)?;
    for (option, names) in flagged.iter().filter(|(_, names)| !names.is_empty()) {
        // The entries are there: without its flag git shows more of a file, which is no reason to take them back.
        let _shown = git.run(&["update-index", option, "-z", "--stdin"], names);
    }
    Ok(())
}

/// As [`update_index`], for the entries that are still as these other lines say: somebody may have staged another
/// content, or committed it.
pub(super) fn update_index_where_still(
    repository: &Repository,
    index_info: &[u8],
    expected: &[u8],
) -> Result<(), DeliverError> {
    let lines = repository.index_info_where_still(index_info, expected);
    update_index(repository, &lines.map_err(|error| from_repository(&error))?)
}

/// Adds entries to an index. Git takes an error in its input for the end, so the accepted entries are counted.
pub(super) fn fill_index(git: &Git, index_info: &[u8]) -> Result<(), DeliverError> {
    let said = git.run(&["update-index", "--verbose", "-z", "--index-info"], index_info).map_err(failed)?;
    let given = index_info.split(|byte| *byte == 0).filter(|line| !line.is_empty() && !line.starts_with(b"0 ")).count();
    let taken = said.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"add '")).count();
    if taken < given {
        return Err(DeliverError::conflict(
            format!("git update-index took {taken} of {given} entries"),
            "deliver the patch of the result with `qwen apply`",
        ));
    }
    Ok(())
}

pub(super) fn objects_of(repository: &Repository) -> Result<PathBuf, DeliverError> {
    let path = repository.git().run(&["rev-parse", "--git-path", "objects"], b"").map_err(failed)?;
    Ok(repository.top.join(OsStr::from_bytes(path.trim_ascii_end())))
}

/// The beginning of the names of incomplete objects; git's own clean-up recognises the first part of it.
const UNFINISHED: &str = "tmp_obj_qwen-";

/// The age from which an incomplete object counts as left behind: no copy takes so long.
const LEFT_BEHIND: Duration = Duration::from_secs(60 * 60);

/// Removes the incomplete objects of a killed run, and old ones of any run. What cannot be removed stays for the next
/// time; nothing refers to it.
pub(super) fn remove_unfinished(objects: &Path, run_id: &str) {
    let own = format!("{UNFINISHED}{run_id}-");
    let directories = std::fs::read_dir(objects).into_iter().flatten().flatten();
    for directory in directories.filter(|directory| directory.file_name().len() == 2) {
        for object in std::fs::read_dir(directory.path()).into_iter().flatten().flatten() {
            let name = object.file_name();
            let name = name.to_string_lossy();
            let is_old = || {
                let modified = object.metadata().and_then(|metadata| metadata.modified()).ok();
                modified.and_then(|at| at.elapsed().ok()).is_some_and(|age| age > LEFT_BEHIND)
            };
            if name.starts_with(&own) || name.starts_with(UNFINISHED) && is_old() {
                let _stays = std::fs::remove_file(object.path());
            }
        }
    }
}

/// Moves the private objects into the repository; each appears completely or not at all, and nothing refers to it yet.
pub(super) fn publish(private: &Path, repository: &Repository, run_id: &str) -> Result<(), DeliverError> {
    let objects = objects_of(repository)?;
    remove_unfinished(&objects, run_id);
    let unfinished = format!("{UNFINISHED}{run_id}-");
    let move_all = || -> io::Result<()> {
        for folder in std::fs::read_dir(private)? {
            let folder = folder?;
            // Loose objects only: the private directory's `info` and `pack` are ignored.
            if folder.file_name().len() != 2 {
                continue;
            }
            let into = objects.join(folder.file_name());
            std::fs::create_dir_all(&into)?;
            for object in std::fs::read_dir(folder.path())? {
                let object = object?;
                let name = object.file_name();
                let target = into.join(&name);
                // Git may have left a temporary file beside its objects.
                if !name.as_bytes().iter().all(u8::is_ascii_hexdigit) || target.exists() {
                    continue;
                }
                let temporary = tempfile::Builder::new().prefix(&unfinished).tempfile_in(&into)?;
                std::fs::copy(object.path(), temporary.path())?;
                temporary.as_file().sync_data()?;
                temporary.persist(&target)?;
            }
        }
        Ok(())
    };
    move_all().map_err(|error| DeliverError::io(objects.display(), &error))
}

/// Finds what would prevent [`undo`] of a commit, before anything is changed: what a person can end is a busy resource.
pub(super) fn can_undo(commit: &SavedCommit, root: &Path) -> io::Result<()> {
    let Some(repository) = Repository::discover(root).map_err(io::Error::other)? else { return Ok(()) };
    refuse_locks(&repository, "HEAD").map_err(|error| busy(&error))?;
    // Checks that git starts and accepts the repository.
    repository.git().run(&["rev-parse", "--git-dir"], b"").map(drop).map_err(io::Error::other)?;
    let name = match place_of(commit, &repository)? {
        Place::End(reference) if reference != head_reference(&repository)? => reference,
        Place::Elsewhere(reference) => reference,
        Place::End(_) | Place::BuiltOn(_) | Place::First | Place::Nowhere => return Ok(()),
    };
    let used_in = repository.git().line(&["for-each-ref", "--format=%(worktreepath)", &name], b"").unwrap_or_default();
    let name = shown(&name);
    Err(io::Error::new(
        io::ErrorKind::ResourceBusy,
        match used_in.is_empty() {
            true => format!("the run's commit is on {name}, which is not checked out; run `git switch {name}` first"),
            false => format!(
                "the run's commit is on {name}, which is checked out in {used_in}; run `git switch --detach` there, and \
             `git switch {name}` here"
            ),
        },
    ))
}

/// Returns the reference that a commit moves: the branch that HEAD names, or HEAD itself where it names none.
pub(super) fn head_reference(repository: &Repository) -> io::Result<String> {
    let (_, branch) = repository.head_now().map_err(io::Error::other)?;
    Ok(branch.map_or_else(|| "HEAD".to_owned(), |name| format!("refs/heads/{name}")))
}

/// Where the commit of a record is.
enum Place {
    /// It is the last one of this reference, which undoing moves: that of the record, or the one that HEAD names since.
    End(String),
    /// This reference has moved, or has the commit below its last one.
    BuiltOn(String),
    /// The reference of the record is gone, and this branch, which is not checked out, has the commit.
    Elsewhere(String),
    /// HEAD names it and no branch does, and there was no commit before it.
    First,
    Nowhere,
}

fn place_of(commit: &SavedCommit, repository: &Repository) -> io::Result<Place> {
    let is_branch = commit.reference != "HEAD";
    let now = reference_now(repository, &commit.reference)?;
    if is_branch && now.is_some() && now != commit.old {
        let is_end = now.as_deref() == Some(&commit.new);
        return Ok(if is_end { Place::End } else { Place::BuiltOn }(commit.reference.clone()));
    }
    let (head, at) = (reference_now(repository, "HEAD")?, head_reference(repository)?);
    let others = having(repository, &commit.new, &["refs/heads/"], &at);
    if head.as_deref() == Some(&commit.new) {
        let is_gone = is_branch && now.is_none();
        let was_renamed = |branch: &str| is_gone && was_named(repository, branch, &commit.reference);
        return Ok(match others.iter().find(|branch| was_renamed(branch)).or(others.first()) {
            Some(branch) if is_gone && (at == "HEAD" || was_renamed(branch) && !was_renamed(&at)) => {
                Place::Elsewhere(branch.clone())
            }
            _ if at == "HEAD" && commit.old.is_none() => Place::First,
            _ => Place::End(at),
        });
    }
    let git = repository.git();
    if head.is_some_and(|head| git.run(&["merge-base", "--is-ancestor", &commit.new, &head], b"").is_ok()) {
        return Ok(Place::BuiltOn(at));
    }
    Ok(match others.into_iter().next() {
        Some(branch) if now.is_none() || now != commit.old => Place::Elsewhere(branch),
        None if !is_branch && now != commit.old => Place::BuiltOn(commit.reference.clone()),
        Some(_) | None => Place::Nowhere,
    })
}

/// Returns the references below these places that have a commit, without this one. A commit that git no longer has is on
/// none.
fn having(repository: &Repository, commit: &str, places: &[&str], without: &str) -> Vec<String> {
    let contains = format!("--contains={commit}");
    let arguments = [&["for-each-ref", "--format=%(refname)", &contains], places].concat();
    let listed = repository.git().line(&arguments, b"").unwrap_or_default();
    listed.lines().filter(|name| *name != without).map(str::to_owned).collect()
}

/// Tells whether a branch had this name once.
fn was_named(repository: &Repository, branch: &str, name: &str) -> bool {
    let asked = ["log", "-g", "--no-show-signature", "--format=%gs", branch, "--"];
    let renamed = format!("Branch: renamed {name} to ");
    repository.git().line(&asked, b"").is_ok_and(|listed| listed.lines().any(|line| line.starts_with(&renamed)))
}

fn shown(reference: &str) -> &str {
    let kinds = ["refs/heads/", "refs/remotes/", "refs/tags/"];
    kinds.into_iter().find_map(|kind| reference.strip_prefix(kind)).unwrap_or(reference)
}

/// Returns what has a commit: any reference but this one, and a work tree that is on no branch.
fn keepers(repository: &Repository, commit: &str, without: &str) -> Vec<String> {
    let mut found = having(repository, commit, &[], without);
    let git = repository.git();
    let listed = git.line(&["worktree", "list", "--porcelain"], b"").unwrap_or_default();
    for tree in listed.split("\n\n").filter(|tree| tree.lines().any(|line| line == "detached")) {
        let named = |name: &str| tree.lines().find_map(|line| line.strip_prefix(name));
        if let (Some(place), Some(head)) = (named("worktree "), named("HEAD "))
            && git.run(&["merge-base", "--is-ancestor", commit, head], b"").is_ok()
        {
            found.push(format!("the work tree {place}"));
        }
    }
    found
}

/// Says what else keeps a commit that was undone.
fn kept_by(repository: &Repository, commit: &str, without: &str) -> Option<String> {
    let others = keepers(repository, commit, without);
    others.first().map(|other| format!("{} has the commit {commit} as well, and keeps it", shown(other)))
}

/// Tells whether the commit of a record exists, and anything has it.
pub(super) fn is_kept(commit: &SavedCommit, repository: &Repository) -> bool {
    !keepers(repository, &commit.new, "").is_empty()
}

/// Brings the index to the commit of a delivery that was killed between the two, as far as nobody has changed it since.
pub(super) fn finish_index(commit: &SavedCommit, root: &Path) -> io::Result<()> {
    let Some(repository) = Repository::discover(root).map_err(io::Error::other)? else { return Ok(()) };
    // Where somebody has gone on, the index is theirs.
    if repository.head.as_deref() != Some(&commit.new) {
        return Ok(());
    }
    let (before, after) = index_lines(commit)?;
    let lines = repository.index_info_where_still(&after, &before).map_err(io::Error::other)?;
    if !lines.is_empty() {
        refuse_locks(&repository, "HEAD").map_err(|error| busy(&error))?;
    }
    update_index(&repository, &lines).map_err(io::Error::other)
}

/// Returns the index entries before and after the commit of a record.
fn index_lines(commit: &SavedCommit) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let read = |lines| unquoted(lines).ok_or_else(|| io::Error::other("the record of the commit is damaged"));
    Ok((read(&commit.index_before)?, read(&commit.index_after)?))
}

/// What a person can end.
fn busy(error: &DeliverError) -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, format!("{error}; {}", error.hint()))
}

/// What became of a commit that was to be undone.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CommitUndone {
    /// The run's reference no longer has it.
    Gone {
        /// The reference that was moved back, and to which commit, for people; `None` where it was so already.
        moved: Option<String>,
        /// About what else has it, and about a lock that git left.
        warnings: Vec<String>,
    },
    /// It stays, for this reason: somebody has built on it.
    Stays(String),
}

/// Undoes the commit of a record: the index entries that are as the run left them, then the reference if it still
/// points to the commit.
///
/// The reference moves last: until then a repetition starts over, and afterwards nothing is left to do.
pub(super) fn undo(commit: &SavedCommit, root: &Path, run_id: &str) -> io::Result<CommitUndone> {
    let Some(repository) = Repository::discover(root).map_err(io::Error::other)? else {
        let warning = format!("{} is no longer in a git repository", root.display());
        return Ok(CommitUndone::Gone { moved: None, warnings: vec![warning] });
    };
    remove_unfinished(&objects_of(&repository).map_err(io::Error::other)?, run_id);
    let reference = match place_of(commit, &repository)? {
        Place::End(reference) => reference,
        Place::Nowhere => {
            let warnings = kept_by(&repository, &commit.new, "").into_iter().collect();
            return Ok(CommitUndone::Gone { moved: None, warnings });
        }
        Place::First => {
            let why = format!("there is no commit before {}, and no branch has it: HEAD stays there", commit.new);
            return Ok(CommitUndone::Stays(why));
        }
        Place::BuiltOn(name) | Place::Elsewhere(name) => {
            let (name, new) = (shown(&name), &commit.new);
            return Ok(CommitUndone::Stays(format!("{name} has moved since; `git revert {new}` undoes the commit")));
        }
    };
    let (before, after) = index_lines(commit)?;
    let lines = match after.is_empty() {
        // A record of a version that did not store it.
        true => before.clone(),
        false => repository.index_info_where_still(&before, &after).map_err(io::Error::other)?,
    };
    update_index(&repository, &lines).map_err(io::Error::other)?;
    let moved = move_reference_back(&repository, &reference, commit.old.as_deref(), &commit.new);
    moved.map_err(|error| {
        // The restored entries are moved forward again: the whole record stays open.
        let forward = repository.index_info_where_still(&after, &lines).map_err(io::Error::other);
        match forward.and_then(|lines| update_index(&repository, &lines).map_err(io::Error::other)) {
            Ok(()) => io::Error::other(error),
            Err(also) => io::Error::other(format!("{error}; {also}")),
        }
    })?;
    let also = kept_by(&repository, &commit.new, &reference).into_iter();
    let warnings = also.chain(left_locks(&repository, "HEAD").into_iter().take(1)).collect();
    let moved = match &commit.old {
        Some(old) => format!("{} is back at {old}", shown(&reference)),
        None => format!("{} has no commit again", shown(&reference)),
    };
    Ok(CommitUndone::Gone { moved: Some(moved), warnings })
}

pub(super) fn failed(error: GitError) -> DeliverError {
    DeliverError::conflict(error.to_string(), "deliver the patch of the result with `qwen apply`")
}
