//! Changes as a commit, by git's plumbing with a private index and private objects: no hook runs, and whatever the
//! user has staged or checked out is not part of it.

#![expect(clippy::disallowed_methods, reason = "objects are moved into the repository here")]

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use super::apply::Applied;
use super::journal::{SavedCommit, quoted, unquoted};
use super::steps::Steps;
use super::{DeliverError, Delivered, Site, from_repository};
use crate::change::patch::{mode, name_in_repository};
use crate::change::{ChangeSet, Entry, diff};
use crate::workspace::git::{Git, GitError};
use crate::workspace::repository::Repository;

/// What a commit says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Order {
    /// The whole message, trailers included; see [`message`].
    pub message: String,
    /// The author; `None`: the user's identity.
    pub author: Option<Person>,
    /// The committer; `None`: the user's identity.
    pub committer: Option<Person>,
    /// Whether it is signed although `commit.gpgsign` does not say so.
    pub sign: bool,
}

/// A name and an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// The name.
    pub name: String,
    /// The address.
    pub email: String,
}

/// Longest subject.
pub const SUBJECT: usize = 72;

/// Puts a message together; the error says which part is wrong.
///
/// The subject is one line of at most [`SUBJECT`] characters; a trailer is one line each, `Name: value`.
pub fn message(subject: &str, body: &str, trailers: &[(&str, &str)]) -> Result<String, String> {
    let is_line = |text: &str| !text.chars().any(char::is_control);
    if subject.trim().is_empty() || !is_line(subject) {
        return Err("the subject must be one line of text".to_owned());
    }
    let length = subject.chars().count();
    if length > SUBJECT {
        return Err(format!("the subject has {length} characters, at most {SUBJECT} fit"));
    }
    let mut message = format!("{}\n", subject.trim());
    // What a terminal would obey has no place in a message.
    let body: String = body.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
    if !body.trim().is_empty() {
        message.push_str(&format!("\n{}\n", body.trim()));
    }
    for (number, (name, value)) in trailers.iter().enumerate() {
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if !is_name || !is_line(value) || value.trim().is_empty() {
            return Err(format!("the trailer `{name}` must have a name and one line of text"));
        }
        if name.eq_ignore_ascii_case("Signed-off-by") {
            return Err("a machine signs off nothing".to_owned());
        }
        message.push_str(&format!("{}{name}: {value}\n", if number == 0 { "\n" } else { "" }));
    }
    Ok(message)
}

/// Checks what a commit needs: a repository with a work tree, an identity, a free name.
pub(super) fn preflight(branch: Option<&String>, order: &Order, site: &Site<'_>) -> Result<(), DeliverError> {
    let repository = repository(site)?;
    let git = identified(repository.git(), order);
    if let Some(name) = branch {
        check_name(&git, name)?;
    }
    for who in ["GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"] {
        git.run(&["var", who], b"").map_err(|_| {
            DeliverError::conflict(
                "git knows no name and address for the commit",
                "set them with `git config user.name NAME` and `git config user.email ADDRESS`",
            )
        })?;
    }
    let objects = objects_of(repository)?;
    if let Err(error) = rustix::fs::access(&objects, rustix::fs::Access::WRITE_OK) {
        return Err(DeliverError::conflict(
            format!("{} cannot be written: {}", objects.display(), io::Error::from(error)),
            "deliver a patch (--dry-run), or make the repository writable",
        ));
    }
    Ok(())
}

fn check_name(git: &Git, name: &str) -> Result<(), DeliverError> {
    let reference = format!("refs/heads/{name}");
    if name.starts_with('-') || git.run(&["check-ref-format", &reference], b"").is_err() {
        return Err(DeliverError::conflict(format!("`{name}` is no name for a branch"), "give another --branch"));
    }
    if git.run(&["rev-parse", "-q", "--verify", &reference], b"").is_ok() {
        return Err(DeliverError::conflict(
            format!("the branch {name} is there already"),
            "give another --branch, or delete it first",
        ));
    }
    Ok(())
}

fn repository<'s>(site: &Site<'s>) -> Result<&'s Repository, DeliverError> {
    site.repository.ok_or_else(|| {
        DeliverError::conflict(
            format!("{} is in no git repository with a work tree", site.root.display()),
            "run `git init`, or deliver with --apply",
        )
    })
}

/// A commit that is written to private objects and not yet in the repository.
struct Prepared {
    scratch: tempfile::TempDir,
    base: Option<String>,
    commit: String,
    /// What `update-index --index-info` takes to bring the changed paths to the commit.
    index_info: Vec<u8>,
    /// The same for the way back.
    index_info_before: Vec<u8>,
}

/// Makes a commit on a new branch.
pub(super) fn on_branch(
    changes: &ChangeSet,
    name: &str,
    order: &Order,
    site: &Site<'_>,
    delivered: &mut Delivered,
) -> Result<(), DeliverError> {
    let repository = repository(site)?;
    check_name(&repository.git(), name)?;
    super::apply::check_base(changes, site.root)?;
    let prepared = prepare(changes, order, repository)?;
    publish(&prepared, repository)?;
    let reference = format!("refs/heads/{name}");
    update_reference(repository, &reference, &prepared.commit, &repository.format.zero(), &reason(order))?;
    delivered.commit = Some(prepared.commit);
    delivered.branch = Some(name.to_owned());
    delivered.applied = true;
    Ok(())
}

/// Makes a commit on HEAD; the files and the index entries of the changed paths follow, and nothing else.
pub(super) fn on_head(
    changes: &ChangeSet,
    order: &Order,
    site: &Site<'_>,
    steps: &Steps,
    delivered: &mut Delivered,
) -> Result<(), DeliverError> {
    let repository = repository(site)?;
    let prepared = prepare(changes, order, repository)?;
    let lock = index_path(repository).with_extension("lock");
    if lock.symlink_metadata().is_ok() {
        return Err(DeliverError::conflict(
            format!("{} is there: another git is at work", lock.display()),
            "wait for it; if none runs, remove the file",
        ));
    }
    let mut applied = Applied::begin(changes, site, steps)?;
    let saved = SavedCommit {
        reference: "HEAD".to_owned(),
        old: prepared.base.clone(),
        new: prepared.commit.clone(),
        index_before: quoted(&prepared.index_info_before),
    };
    if let Err(error) = applied.note_commit(saved) {
        return Err(applied.roll_back(DeliverError::io("the undo record", &error)));
    }
    let zero = repository.format.zero();
    let old = prepared.base.as_deref().unwrap_or(&zero);
    let moved = step(steps)
        .and_then(|()| publish(&prepared, repository))
        .and_then(|()| step(steps))
        .and_then(|()| update_reference(repository, "HEAD", &prepared.commit, old, &reason(order)));
    if let Err(cause) = moved {
        return Err(applied.roll_back(cause));
    }
    let indexed = step(steps).and_then(|()| update_index(repository, &prepared.index_info));
    if let Err(cause) = indexed {
        return Err(applied.roll_back(move_back(repository, &prepared, cause)));
    }
    match applied.finish() {
        Ok(record) => delivered.record = record,
        Err(cause) => {
            let cause = match update_index(repository, &prepared.index_info_before) {
                Ok(()) => cause,
                Err(also) => DeliverError::conflict(format!("{cause}; {also}"), "`git reset` puts the index right"),
            };
            return Err(move_back(repository, &prepared, cause));
        }
    }
    delivered.branch = repository.head_now().map_err(|error| from_repository(&error))?.1;
    delivered.commit = Some(prepared.commit);
    delivered.applied = true;
    Ok(())
}

fn step(steps: &Steps) -> Result<(), DeliverError> {
    steps.step().map_err(|error| DeliverError::io("the commit", &error))
}

/// Takes the reference back after a fault, and returns the fault with a word on how that went.
fn move_back(repository: &Repository, prepared: &Prepared, cause: DeliverError) -> DeliverError {
    let back = move_reference_back(repository, "HEAD", prepared.base.as_deref(), &prepared.commit);
    match back {
        Ok(()) => cause,
        Err(error) => DeliverError::conflict(
            format!("{cause}; the commit {} is made and could not be taken back: {error}", prepared.commit),
            "`git reset` to the commit that you want",
        ),
    }
}

/// Moves a reference back to what it was, if it is still where the run put it.
pub(super) fn move_reference_back(
    repository: &Repository,
    reference: &str,
    old: Option<&str>,
    new: &str,
) -> Result<(), GitError> {
    let git = repository.git();
    match old {
        Some(old) => git.run(&["update-ref", "-m", "qwen: taken back", reference, old, new], b"").map(drop),
        None => git.run(&["update-ref", "-d", reference, new], b"").map(drop),
    }
}

/// Takes back the commit of a record: the reference and the index entries, if the reference is still where the run put
/// it. Returns what could not be done.
pub(super) fn undo(commit: &SavedCommit, root: &Path) -> Option<String> {
    let attempt = || -> Result<Option<String>, String> {
        let repository =
            Repository::discover(root).map_err(|error| error.to_string())?.ok_or("no repository any more")?;
        let now = repository.git().line(&["rev-parse", "-q", "--verify", &commit.reference], b"").ok();
        if now == commit.old {
            return Ok(None);
        }
        if now.as_deref() != Some(&commit.new) {
            return Ok(Some(format!(
                "{} has moved since; `git revert {}` undoes the commit",
                commit.reference, commit.new
            )));
        }
        let index_before = unquoted(&commit.index_before).ok_or("a damaged index entry in the record")?;
        move_reference_back(&repository, &commit.reference, commit.old.as_deref(), &commit.new)
            .map_err(|error| error.to_string())?;
        update_index(&repository, &index_before).map_err(|error| error.to_string())?;
        Ok(None)
    };
    attempt().unwrap_or_else(|reason| Some(format!("the commit {} could not be taken back: {reason}", commit.new)))
}

fn reason(order: &Order) -> String {
    format!("qwen: {}", order.message.lines().next().unwrap_or_default())
}

fn update_reference(
    repository: &Repository,
    reference: &str,
    new: &str,
    old: &str,
    reason: &str,
) -> Result<(), DeliverError> {
    repository.git().run(&["update-ref", "--create-reflog", "-m", reason, reference, new, old], b"").map(drop).map_err(
        |error| {
            DeliverError::conflict(format!("{reference} has moved: {error}"), "run again on the branch as it is now")
        },
    )
}

/// Brings the index's entries of the changed paths to these states; every other entry stays as the user has it.
pub(super) fn update_index(repository: &Repository, index_info: &[u8]) -> Result<(), DeliverError> {
    // Git reads files again whose times are too close to the index's own, and would run filters on them.
    let git = repository.without_filters().map_err(|error| from_repository(&error))?;
    git.run(&["update-index", "-z", "--index-info"], index_info).map(drop).map_err(failed)
}

fn failed(error: GitError) -> DeliverError {
    DeliverError::conflict(error.to_string(), "the patch is in the result; deliver it with `qwen apply`")
}

fn index_path(repository: &Repository) -> PathBuf {
    repository.git_dir.join("index")
}

fn objects_of(repository: &Repository) -> Result<PathBuf, DeliverError> {
    let path = repository.git().run(&["rev-parse", "--git-path", "objects"], b"").map_err(failed)?;
    Ok(repository.top.join(OsStr::from_bytes(path.trim_ascii_end())))
}

fn identified(mut git: Git, order: &Order) -> Git {
    for (role, person) in [("AUTHOR", &order.author), ("COMMITTER", &order.committer)] {
        if let Some(person) = person {
            git = git.env(format!("GIT_{role}_NAME"), &person.name).env(format!("GIT_{role}_EMAIL"), &person.email);
        }
    }
    git
}

fn prepare(changes: &ChangeSet, order: &Order, repository: &Repository) -> Result<Prepared, DeliverError> {
    let temporary = |error: io::Error| DeliverError::io("a temporary folder", &error);
    let scratch = tempfile::Builder::new().prefix("qwen-commit-").tempdir().map_err(temporary)?;
    let private_objects = scratch.path().join("objects");
    std::fs::create_dir(&private_objects).map_err(temporary)?;
    let objects = objects_of(repository)?;
    let private = |git: Git| {
        git.env("GIT_INDEX_FILE", scratch.path().join("index"))
            .env("GIT_OBJECT_DIRECTORY", &private_objects)
            .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", quoted_list_entry(&objects))
    };
    let git = identified(private(repository.git()), order);
    // A filter of the repository's never runs here; line ends are converted as git does it.
    let unfiltered = private(repository.without_filters().map_err(|error| from_repository(&error))?);

    let base = repository.head_now().map_err(|error| from_repository(&error))?.0;
    if base != repository.head {
        return Err(DeliverError::conflict(
            "HEAD has moved since the run began",
            "run again on the branch as it is now",
        ));
    }
    match &base {
        Some(base) => git.run(&["read-tree", base], b"").map_err(failed)?,
        None => git.run(&["read-tree", "--empty"], b"").map_err(failed)?,
    };
    let (mut index_info, mut index_info_before) = (Vec::new(), Vec::new());
    let zero = repository.format.zero();
    for (path, change) in changes.iter() {
        let name = name_in_repository(&repository.prefix, path);
        for (entry, info) in [(&change.before, &mut index_info_before), (&change.after, &mut index_info)] {
            let content = diff::text_of(entry);
            let object = match entry {
                Entry::Absent => zero.clone(),
                Entry::File { .. } => {
                    repository.blob_by(&unfiltered, &name, content, true).map_err(|error| from_repository(&error))?
                }
                Entry::Link { .. } => {
                    git.line(&["hash-object", "-w", "--stdin", "--no-filters"], content).map_err(failed)?
                }
            };
            let line = [format!("{} {object}\t", mode(entry).unwrap_or("0")).as_bytes(), &name, b"\0"].concat();
            // What goes is named first: it may make way for what comes.
            if *entry == Entry::Absent {
                info.splice(0..0, line);
            } else {
                info.extend(line);
            }
        }
    }
    git.run(&["update-index", "-z", "--index-info"], &index_info).map_err(failed)?;
    let tree = git.line(&["write-tree"], b"").map_err(failed)?;
    let mut arguments = vec!["commit-tree".to_owned()];
    let signs =
        order.sign || git.line(&["config", "--type=bool", "commit.gpgSign"], b"").is_ok_and(|value| value == "true");
    if signs {
        arguments.push("-S".to_owned());
    }
    arguments.push(tree);
    if let Some(base) = &base {
        arguments.extend(["-p".to_owned(), base.clone()]);
    }
    let commit = git.line(&arguments, order.message.as_bytes()).map_err(failed)?;
    Ok(Prepared { scratch, base, commit, index_info, index_info_before })
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

/// Moves the private objects into the repository; each is there whole or not at all, and nothing refers to it yet.
fn publish(prepared: &Prepared, repository: &Repository) -> Result<(), DeliverError> {
    let objects = objects_of(repository)?;
    let move_all = || -> io::Result<()> {
        for folder in std::fs::read_dir(prepared.scratch.path().join("objects"))? {
            let folder = folder?;
            // Loose objects only: the private folder's `info` and `pack` have no say.
            if folder.file_name().len() != 2 {
                continue;
            }
            let into = objects.join(folder.file_name());
            std::fs::create_dir_all(&into)?;
            for object in std::fs::read_dir(folder.path())? {
                let object = object?;
                let target = into.join(object.file_name());
                if target.exists() {
                    continue;
                }
                let temporary = tempfile::Builder::new().prefix("tmp_obj_").tempfile_in(&into)?;
                std::fs::copy(object.path(), temporary.path())?;
                temporary.as_file().sync_data()?;
                temporary.persist(&target)?;
            }
        }
        Ok(())
    };
    move_all().map_err(|error| DeliverError::io(objects.display(), &error))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::super::test_support::{OPEN, Project, script};
    use super::*;
    use crate::deliver::{Delivery, deliver, preflight, undo};

    fn git(folder: &Path, arguments: &[&str]) -> String {
        let mut command = Command::new("git");
        for (name, _) in std::env::vars_os().filter(|(name, _)| crate::workspace::git::is_inherited(name)) {
            command.env_remove(name);
        }
        let identity = ["-c", "user.name=U", "-c", "user.email=u@example.org", "-c", "init.defaultBranch=main"];
        command.env("GIT_OPTIONAL_LOCKS", "0");
        let output = command.args(identity).args(arguments).current_dir(folder).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    fn order() -> Order {
        let person = Person { name: "U".to_owned(), email: "u@example.org".to_owned() };
        let message = message("fix: it", "Why.", &[("Qwen-Run-Id", "1")]).unwrap();
        Order { message, author: Some(person.clone()), committer: Some(person), sign: false }
    }

    fn project(init: &[&str]) -> Project {
        let project = Project::new()
            .file("a", "1\n")
            .file("gone", "1\n")
            .file("staged", "1\n")
            .file("sub/dir/x", "1\n")
            .file("file-to-folder", "1\n");
        git(project.root(), &[&["init", "-q"], init].concat());
        git(project.root(), &["add", "-A"]);
        git(project.root(), &["commit", "-q", "-m", "first"]);
        project
    }

    fn changes(project: &Project) -> ChangeSet {
        project.changes(&[
            ("a", Entry::file("2\n")),
            ("gone", Entry::Absent),
            ("file-to-folder", Entry::Absent),
            ("file-to-folder/b", Entry::file("2\n")),
            ("new dir/\u{e9}\n", script("x\n")),
        ])
    }

    fn run(project: &Project, changes: &ChangeSet, how: &Delivery) -> Result<Delivered, DeliverError> {
        let repository = Repository::discover(project.root()).unwrap();
        let site = Site { repository: repository.as_ref(), ..project.site() };
        preflight(how, &site)?;
        deliver(changes, how, &site, &OPEN)
    }

    /// The whole repository as git has it, with everything that a dry run must not touch.
    fn every_byte(project: &Project) -> Vec<(PathBuf, std::time::SystemTime, Entry)> {
        let modified = |path: &Path| path.symlink_metadata().unwrap().modified().unwrap();
        project.tree().into_iter().map(|(path, (_, entry))| (path.clone(), modified(&path), entry)).collect()
    }

    #[test]
    fn a_commit_changes_its_paths_and_leaves_what_the_user_staged() {
        for init in [[].as_slice(), &["--object-format=sha256"], &["--ref-format=reftable"]] {
            let project = project(init).file("staged", "2\n").file("untracked", "x");
            git(project.root(), &["add", "staged"]);
            let base = git(project.root(), &["rev-parse", "HEAD"]);
            let delivered = run(&project, &changes(&project), &Delivery::Commit(order())).unwrap();
            let head = git(project.root(), &["rev-parse", "HEAD"]);
            assert_eq!(delivered.commit, Some(head));
            assert_eq!(delivered.branch.as_deref(), Some("main"));
            assert_eq!(git(project.root(), &["rev-parse", "HEAD^"]), base);
            assert_eq!(git(project.root(), &["status", "--porcelain"]), "M  staged\n?? untracked");
            assert_eq!(git(project.root(), &["log", "-1", "--format=%B"]), "fix: it\n\nWhy.\n\nQwen-Run-Id: 1");
            assert_eq!(
                git(
                    project.root(),
                    &["-c", "core.quotePath=true", "show", "--name-status", "--format=", "--no-renames"]
                ),
                "M\ta\nD\tfile-to-folder\nA\tfile-to-folder/b\nD\tgone\nA\t\"new dir/\\303\\251\\n\""
            );
            git(project.root(), &["fsck", "--strict"]);
        }
    }

    #[test]
    fn a_branch_is_a_new_reference_and_nothing_else() {
        for init in [[].as_slice(), &["--object-format=sha256"], &["--ref-format=reftable"]] {
            let project = project(init);
            let (tree, index) = (git(project.root(), &["status", "--porcelain"]), project.root().join(".git/index"));
            let before = (std::fs::read(&index).unwrap(), index.metadata().unwrap().modified().unwrap());
            let changes = changes(&project);
            let how = Delivery::Branch { name: "qwen/x".to_owned(), order: order() };
            let delivered = run(&project, &changes, &how).unwrap();
            assert_eq!(git(project.root(), &["rev-parse", "qwen/x"]), delivered.commit.unwrap());
            assert_eq!(git(project.root(), &["status", "--porcelain"]), tree);
            assert_eq!((std::fs::read(&index).unwrap(), index.metadata().unwrap().modified().unwrap()), before);
            assert_eq!(git(project.root(), &["symbolic-ref", "HEAD"]), "refs/heads/main");
            // The branch holds what the patch says.
            git(project.root(), &["checkout", "-q", "qwen/x"]);
            for (path, change) in changes.iter() {
                assert_eq!(project.entry(path), change.after);
            }
            let again = run(&project, &changes, &how).unwrap_err();
            assert!(again.to_string().contains("qwen/x is there already"), "{again}");
        }
    }

    #[test]
    fn the_patch_of_a_dry_run_gives_the_tree_of_the_commit() {
        for init in [[].as_slice(), &["--object-format=sha256"]] {
            let project = project(init).file("crlf", "1\r\n2\r");
            git(project.root(), &["add", "-A"]);
            git(project.root(), &["commit", "-q", "-m", "crlf"]);
            let changes = project.changes(&[
                ("a", Entry::file("2\0binary")),
                ("gone", Entry::Absent),
                ("file-to-folder", Entry::Absent),
                ("file-to-folder/b\t\"", script("")),
                ("crlf", Entry::file("1\r\n2\r3\r\n4")),
                ("staged", super::super::test_support::link("a")),
            ]);
            let patch = run(&project, &changes, &Delivery::DryRun).unwrap().patch;
            run(&project, &changes, &Delivery::Branch { name: "b".to_owned(), order: order() }).unwrap();
            let file = project.folder().join("patch");
            std::fs::write(&file, patch).unwrap();
            git(project.root(), &["apply", "--index", "--whitespace=nowarn", file.to_str().unwrap()]);
            assert_eq!(git(project.root(), &["write-tree"]), git(project.root(), &["rev-parse", "b^{tree}"]));
        }
    }

    #[test]
    fn a_head_that_has_moved_is_a_conflict_for_every_delivery() {
        for how in [Delivery::Apply, Delivery::Commit(order()), Delivery::Branch { name: "b".into(), order: order() }] {
            let project = project(&[]);
            let changes = project.changes(&[("a", Entry::file("2"))]);
            let repository = Repository::discover(project.root()).unwrap();
            git(project.root(), &["commit", "-q", "--allow-empty", "-m", "by a person"]);
            let site = Site { repository: repository.as_ref(), ..project.site() };
            let error = deliver(&changes, &how, &site, &OPEN).unwrap_err();
            assert_eq!(error.to_string(), "HEAD has moved since the run began");
            assert_eq!(git(project.root(), &["status", "--porcelain"]), "");
        }
    }

    #[test]
    fn a_dry_run_changes_not_one_byte() {
        let project = project(&[]).file("a", "dirty\n");
        let changes = changes(&project);
        let before = every_byte(&project);
        let delivered = run(&project, &changes, &Delivery::DryRun).unwrap();
        assert!(!delivered.applied && !delivered.patch.is_empty());
        assert!(delivered.warnings[0].starts_with("a had uncommitted changes"), "{:?}", delivered.warnings);
        assert_eq!(every_byte(&project), before);
    }

    #[test]
    fn a_dirty_file_is_a_conflict_an_untracked_one_is_not() {
        let whole = |project: &Project, path: &str| project.changes(&[(path, Entry::file("new"))]);
        let commands =
            [Delivery::Apply, Delivery::Commit(order()), Delivery::Branch { name: "b".into(), order: order() }];
        for how in commands {
            let project = project(&[]).file("a", "dirty\n").file("untracked", "x").file("staged", "2\n");
            git(project.root(), &["add", "staged"]);
            for path in ["a", "staged"] {
                let before = every_byte(&project);
                let error = run(&project, &whole(&project, path), &how).unwrap_err();
                assert!(error.to_string().contains("uncommitted changes"), "{error}");
                assert_eq!(every_byte(&project), before);
            }
            run(&project, &whole(&project, "untracked"), &how).unwrap();
        }
    }

    #[test]
    fn an_unborn_branch_and_a_subfolder_and_a_detached_head_are_fine() {
        let project = Project::new().file("x", "1\n");
        git(project.root(), &["init", "-q"]);
        let changes = project.changes(&[("y", Entry::file("1\n"))]);
        run(&project, &changes, &Delivery::Commit(order())).unwrap();
        assert_eq!(git(project.root(), &["ls-tree", "--name-only", "HEAD"]), "y");
        assert_eq!(git(project.root(), &["status", "--porcelain"]), "?? x");

        git(project.root(), &["checkout", "-q", "--detach"]);
        std::fs::create_dir(project.root().join("sub")).unwrap();
        let root = project.root().join("sub");
        let repository = Repository::discover(&root).unwrap().unwrap();
        assert_eq!((repository.branch.clone(), repository.prefix.to_string()), (None, "sub".to_owned()));
        let site = Site { root: &root, repository: Some(&repository), run_id: "run-2", ..project.site() };
        let changes = project.changes(&[("z", Entry::file("1\n"))]);
        let delivered = deliver(&changes, &Delivery::Commit(order()), &site, &OPEN).unwrap();
        assert_eq!(delivered.branch, None);
        assert_eq!(git(project.root(), &["show", "HEAD:sub/z"]), "1");
    }

    #[test]
    fn a_linked_work_tree_of_a_bare_repository_is_fine() {
        let project = project(&[]);
        let folder = project.folder().canonicalize().unwrap();
        git(&folder, &["clone", "-q", "--bare", "project", "bare.git"]);
        git(&folder.join("bare.git"), &["worktree", "add", "-q", "-b", "other", "../linked"]);
        let root = folder.join("linked");
        let repository = Repository::discover(&root).unwrap().unwrap();
        assert_eq!(repository.branch.as_deref(), Some("other"));
        let site = Site { root: &root, repository: Some(&repository), ..project.site() };
        deliver(&changes(&project), &Delivery::Commit(order()), &site, &OPEN).unwrap();
        assert_eq!(git(&root, &["status", "--porcelain"]), "");
        assert_eq!(git(&root, &["show", "other:a"]), "2");
    }

    #[test]
    fn no_hook_and_no_filter_runs_and_a_hostile_configuration_changes_nothing() {
        let project = project(&[]).file(".git/info/attributes", "* filter=evil diff=evil\n");
        let witness = project.folder().join("witness");
        let touch = format!("echo \"$0 $*\" >> '{}'; : ", witness.display());
        for hook in [
            "pre-commit",
            "post-commit",
            "commit-msg",
            "reference-transaction",
            "post-index-change",
            "prepare-commit-msg",
        ] {
            let path = project.root().join(".git/hooks").join(hook);
            std::fs::write(&path, format!("#!/bin/sh\n{touch}\n")).unwrap();
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        }
        for (key, value) in [
            ("filter.evil.clean", touch.as_str()),
            ("filter.evil.required", "true"),
            ("diff.evil.textconv", &touch),
            ("diff.external", &touch),
            ("core.fsmonitor", &touch),
            ("diff.noprefix", "true"),
        ] {
            git(project.root(), &["config", key, value]);
        }
        let changes = changes(&project);
        run(&project, &changes, &Delivery::Branch { name: "b".to_owned(), order: order() }).unwrap();
        run(&project, &changes, &Delivery::Commit(order())).unwrap();
        assert_eq!(std::fs::read_to_string(&witness).ok(), None);
    }

    #[test]
    fn line_ends_are_converted_as_git_does_it() {
        let project = project(&[]).file(".gitattributes", "*.txt text eol=crlf\n").file("t.txt", "1\r\n2\r\n");
        git(project.root(), &["add", "-A"]);
        git(project.root(), &["commit", "-q", "-m", "crlf"]);
        let changes = project.changes(&[("t.txt", Entry::file("1\r\ntwo\r\n"))]);
        run(&project, &changes, &Delivery::Commit(order())).unwrap();
        assert_eq!(git(project.root(), &["show", "HEAD:t.txt"]), "1\ntwo");
        assert_eq!(git(project.root(), &["status", "--porcelain"]), "");
    }

    #[test]
    fn a_path_in_a_submodule_is_refused_and_a_sparse_one_is_a_conflict() {
        let project = project(&[]);
        let object = git(project.root(), &["rev-parse", "HEAD"]);
        git(project.root(), &["update-index", "--add", "--cacheinfo", &format!("160000,{object},module")]);
        git(project.root(), &["commit", "-q", "-m", "module"]);
        let changes = project.changes(&[("module/x", Entry::file("1"))]);
        let error = run(&project, &changes, &Delivery::Commit(order())).unwrap_err();
        assert_eq!(error.to_string(), "module/x: it lies in the submodule module");

        git(project.root(), &["sparse-checkout", "set", "--no-cone", "/a"]);
        let changes = project.changes(&[("gone", Entry::file("1"))]);
        let error = run(&project, &changes, &Delivery::Commit(order())).unwrap_err();
        assert!(error.to_string().starts_with("gone had uncommitted changes"), "{error}");
        let changes = project.changes(&[("a", Entry::file("2\n"))]);
        run(&project, &changes, &Delivery::Commit(order())).unwrap();
        assert_eq!(git(project.root(), &["status", "--porcelain"]), "");
    }

    #[test]
    fn whatever_operation_of_a_commit_fails_repository_and_tree_are_as_before() {
        let tree = |project: &Project| {
            let status = git(project.root(), &["status", "--porcelain"]);
            (git(project.root(), &["rev-parse", "HEAD"]), status, git(project.root(), &["diff", "--cached"]))
        };
        let attempt = |project: &Project, steps: &Steps| {
            let repository = Repository::discover(project.root()).unwrap().unwrap();
            let site = Site { repository: Some(&repository), ..project.site() };
            on_head(&changes(project), &order(), &site, steps, &mut Delivered::default()).is_ok()
        };
        let steps = Steps::default();
        assert!(attempt(&project(&[]), &steps));
        // Those before are the files' alone, and have their own test.
        for number in steps.taken() - 10..steps.taken() {
            let project = project(&[]);
            let before = tree(&project);
            assert!(!attempt(&project, &Steps::failing_at(number)), "operation {number}");
            assert_eq!(tree(&project), before, "operation {number}");
            let project = self::project(&[]);
            let before = tree(&project);
            assert!(!attempt(&project, &Steps::killed_at(number)), "operation {number}");
            undo::recover(&project.undo(), project.root()).unwrap();
            assert_eq!(tree(&project), before, "killed at {number}");
        }
    }

    #[test]
    fn undo_takes_the_commit_back_too() {
        let project = project(&[]);
        let before = git(project.root(), &["rev-parse", "HEAD"]);
        let delivered = run(&project, &changes(&project), &Delivery::Commit(order())).unwrap();
        let report = crate::deliver::undo(&delivered.record.unwrap(), project.root(), &Steps::default()).unwrap();
        assert_eq!(report.warnings, Vec::<String>::new());
        assert_eq!(git(project.root(), &["rev-parse", "HEAD"]), before);
        assert_eq!(git(project.root(), &["status", "--porcelain"]), "");
    }

    #[test]
    fn what_cannot_be_delivered_is_known_before_the_first_request() {
        let project = Project::new();
        let site = project.site();
        for how in [Delivery::Commit(order()), Delivery::Branch { name: "b".to_owned(), order: order() }] {
            assert!(matches!(preflight(&how, &site), Err(DeliverError::Conflict { .. })));
        }
        assert_eq!(preflight(&Delivery::Apply, &site), Ok(()));
        let blocked = project.folder().join("file");
        std::fs::write(&blocked, "").unwrap();
        assert!(preflight(&Delivery::Apply, &Site { undo: Some(&blocked.join("undo")), ..project.site() }).is_err());
        git(project.root(), &["init", "-q"]);
        let repository = Repository::discover(project.root()).unwrap();
        let site = Site { repository: repository.as_ref(), ..project.site() };
        for name in ["-x", "a..b", "x.lock", "", "a b"] {
            let how = Delivery::Branch { name: name.to_owned(), order: order() };
            assert!(preflight(&how, &site).is_err(), "{name}");
        }
    }

    #[test]
    fn a_message_is_lines_and_trailers_and_nothing_else() {
        assert_eq!(message("s", "b\u{1b}[31m\r\n", &[("A-B", "c")]).unwrap(), "s\n\nb[31m\n\nA-B: c\n");
        for (subject, trailers) in [
            ("", vec![]),
            ("a\nb", vec![]),
            ("s", vec![("A", "b\nSigned-off-by: x")]),
            ("s", vec![("Signed-off-by", "x")]),
            ("s", vec![("A b", "x")]),
        ] {
            assert!(message(subject, "", &trailers).is_err(), "{subject:?} {trailers:?}");
        }
        assert!(message(&"x".repeat(73), "", &[]).is_err());
    }
}
