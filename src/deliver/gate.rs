//! Judges the whole change as one diff just before delivery, however it was made.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use super::error::DeliverError;
use super::repositories::Repositories;
use crate::change::patch_reader::PathAccess;
use crate::change::{Change, ChangeSet, Entry, diff};
use crate::path::{RelPath, one_line};
use crate::policy::protected::names_git;

const GIT_IS_NEVER_WRITTEN: &str = "git's own directory is never written";

/// The policy's rules on paths, and the limits.
pub struct Gate<'a> {
    /// Judges one path's change: the write rules, kinds and modes. The error names the rule and the call that made it.
    pub judge: &'a dyn Fn(&RelPath, &Change) -> Result<(), String>,
    /// Names a secret that a change adds.
    pub secret: &'a dyn Fn(&RelPath, &Change) -> Option<String>,
    /// Masks secrets in what is said of a path.
    pub hide: &'a dyn Fn(&str) -> String,
    /// Names the call that made a path's change.
    pub made_by: &'a dyn Fn(&RelPath) -> Option<String>,
    /// Maximum files.
    pub max_files: Option<Cap>,
    /// Maximum bytes of the patch.
    pub max_patch_bytes: Option<Cap>,
}

/// A limit of a whole change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cap {
    /// So many at most.
    pub most: usize,
    /// The key or option to raise.
    pub by: &'static str,
}

impl Cap {
    /// Takes the lower one of an option's and the policy's value, each given with its name.
    pub fn lower(option: (Option<u64>, &'static str), policy: (u64, &'static str)) -> Cap {
        let (most, by) = match option {
            (Some(most), name) if most < policy.0 => (most, name),
            _ => policy,
        };
        Cap { most: usize::try_from(most).unwrap_or(usize::MAX), by }
    }

    /// Returns the limits of files and of bytes of the patch: those of the options, or of the policy.
    pub fn both(options: [Option<u64>; 2], (files, bytes): (u64, u64)) -> [Option<Cap>; 2] {
        let files = Cap::lower((options[0], "--max-changed-files"), (files, "`paths.write.max_files` of the policy"));
        let bytes = Cap::lower((options[1], "--max-patch-bytes"), (bytes, "`paths.write.max_bytes` of the policy"));
        [Some(files), Some(bytes)]
    }
}

impl Gate<'_> {
    fn check_size(&self, changes: &ChangeSet, patch_bytes: usize) -> Result<(), DeliverError> {
        if let Some(Cap { most, by }) = self.max_files.filter(|cap| changes.len() > cap.most) {
            let first = changes.iter().nth(most).map(|(path, _)| format!("; {} is one too many", self.named(path)));
            return Err(DeliverError::denied(
                format!("{} files changed; at most {most} may be{}", changes.len(), first.unwrap_or_default()),
                format!("make a smaller change, or raise {by}"),
            ));
        }
        let Some(Cap { most, by }) = self.max_patch_bytes else { return Ok(()) };
        let length = |entry: &Entry| diff::text_of(entry).len();
        // Binary parts of a patch are compressed.
        let grown: usize = changes.iter().map(|(_, c)| length(&c.after).saturating_sub(length(&c.before))).sum();
        let largest = || {
            let size = |change: &Change| length(&change.before) + length(&change.after);
            let largest = changes.iter().max_by_key(|(_, change)| size(change)).map(|(path, _)| self.named(path));
            largest.map(|largest| format!("; the largest change is {largest}")).unwrap_or_default()
        };
        let problem = if patch_bytes > most {
            format!("the patch has {patch_bytes} bytes; at most {most} are allowed{}", largest())
        } else if grown > most {
            format!("the change makes files {grown} bytes larger; at most {most} are allowed")
        } else {
            return Ok(());
        };
        Err(DeliverError::denied(problem, format!("make a smaller change, or raise {by}")))
    }

    /// Refuses the whole change set at the first thing that must not be delivered.
    pub fn check(&self, changes: &ChangeSet, patch_bytes: usize, root: &Path) -> Result<(), DeliverError> {
        self.check_size(changes, patch_bytes)?;
        let repositories = Repositories::new(changes, root);
        for (path, change) in changes.iter() {
            let refused = |reason: String, hint: &str| {
                let by = (self.made_by)(path).map(|call| format!(" (changed by {call})")).unwrap_or_default();
                let refusal = format!("{}: {reason}{by}", shown(path));
                Err(DeliverError::denied((self.hide)(&refusal), hint))
            };
            if let Err(reason) = check_shape(path, change, root) {
                return refused(reason.to_owned(), "leave it out of the change");
            }
            if change.after != Entry::Absent {
                match repositories.around(path) {
                    Ok(None) => {}
                    Ok(Some(directory)) => {
                        let reason = format!("git would treat the directory {directory} as a repository");
                        return refused(reason, "leave it out of the change, or rename its `HEAD`");
                    }
                    Err(error) => {
                        return refused(format!("cannot read a directory above it: {error}"), "make it readable");
                    }
                }
            }
            if let Err(reason) = (self.judge)(path, change) {
                return refused(reason, "allow it in the policy, or leave it out of the change");
            }
            if let Some(secret) = (self.secret)(path, change) {
                return refused(
                    format!("the change adds a secret ({secret})"),
                    "remove it; the policy's `secrets.on_write` decides",
                );
            }
        }
        Ok(())
    }

    /// Names a path with the call that changed it.
    pub(super) fn named(&self, path: &RelPath) -> String {
        let path_in_a_line = shown(path);
        match (self.made_by)(path) {
            Some(call) => (self.hide)(&format!("{path_in_a_line} (changed by {call})")),
            None => (self.hide)(&path_in_a_line),
        }
    }
}

/// What no policy can allow, for files whose contents nobody looks at.
pub struct Shapes<'a> {
    root: &'a Path,
    repositories: BTreeSet<RelPath>,
}

impl<'a> Shapes<'a> {
    /// Looks for the directories that git would take for a repository with all of `changes` in place.
    pub fn of(changes: &ChangeSet, root: &'a Path) -> io::Result<Shapes<'a>> {
        Ok(Shapes { root, repositories: Repositories::new(changes, root).all()? })
    }

    /// Refuses a path: git's own directory, other repositories, links that lead out.
    pub fn check(&self, path: &RelPath, change: &Change) -> Result<(), String> {
        check_shape(path, change, self.root)?;
        match self.repositories.iter().find(|directory| path.is_under(directory)) {
            Some(directory) => Err(format!("git would treat the directory {directory} as a repository")),
            None => Ok(()),
        }
    }
}

/// Refuses a patch at the first path that it must not read from or write to, before any file is looked at.
///
/// `may_read` judges the source of a copy or a rename; [`Gate::check`] judges again what is written.
pub fn check_accesses(
    accesses: &[PathAccess],
    may_read: &dyn Fn(&RelPath) -> Result<(), String>,
) -> Result<(), DeliverError> {
    for access in accesses {
        let judged = match access {
            PathAccess::Read(path) if names_git(&path.to_string_lossy()) => {
                Err((path, "nothing is ever copied out of git's own directory".to_owned()))
            }
            PathAccess::Read(path) => {
                may_read(path).map_err(|reason| (path, format!("the patch copies its contents: {reason}")))
            }
            PathAccess::Write(path) if names_git(&path.to_string_lossy()) => {
                Err((path, GIT_IS_NEVER_WRITTEN.to_owned()))
            }
            PathAccess::Write(_) => Ok(()),
        };
        judged.map_err(|(path, reason)| {
            DeliverError::denied(format!("{}: {reason}", shown(path)), "leave it out of the change")
        })?;
    }
    Ok(())
}

/// Refuses what no policy can allow: git's own directory, other repositories, links that lead out.
fn check_shape(path: &RelPath, change: &Change, root: &Path) -> Result<(), &'static str> {
    if path.is_root() {
        return Err("the workspace itself is not a file");
    }
    if names_git(&path.to_string_lossy()) {
        return Err(GIT_IS_NEVER_WRITTEN);
    }
    let mut folder = path.parent();
    while let Some(inner) = folder.filter(|folder| !folder.is_root()) {
        if inner.under(root).join(".git").symlink_metadata().is_ok() {
            return Err("it is in a submodule or another repository");
        }
        folder = inner.parent();
    }
    if let Entry::Link { target } = &change.after {
        let folder = path.parent().unwrap_or_default();
        if names_git(&String::from_utf8_lossy(target)) {
            return Err("the link points into git's own directory");
        }
        if !stays_below(&folder, target) {
            return Err("the link points outside the workspace");
        }
    }
    Ok(())
}

/// Names a path in one line.
fn shown(path: &RelPath) -> String {
    one_line(Path::new(&path.to_string()))
}

/// Tells whether a link's target, read from its directory, never climbs above the root on its way.
fn stays_below(folder: &RelPath, target: &[u8]) -> bool {
    if target.first() == Some(&b'/') {
        return false;
    }
    let mut depth = folder.components().count();
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => match depth.checked_sub(1) {
                Some(up) => depth = up,
                None => return false,
            },
            _ => depth += 1,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, after: Entry, root: &Path) -> Result<(), String> {
        let mut changes = ChangeSet::default();
        changes.stage(RelPath::new(path).unwrap(), || Entry::Absent, after);
        let gate = Gate {
            judge: &|path, _| if path.to_string() == "no" { Err("denied by paths.write".to_owned()) } else { Ok(()) },
            made_by: &|_| Some("write_file: write it".to_owned()),
            hide: &str::to_owned,
            secret: &|_, change| change.after.content().filter(|c| *c == b"key").map(|_| "a key".to_owned()),
            max_files: Some(Cap { most: 1, by: "" }),
            max_patch_bytes: Some(Cap { most: 100, by: "" }),
        };
        gate.check(&changes, 10, root).map_err(|error| {
            assert_eq!(error.exit(), crate::exit::Exit::Denied);
            error.to_string()
        })
    }

    #[test]
    fn what_no_policy_can_allow_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::create_dir_all(root.join("sub/deep")).unwrap();
        std::fs::write(root.join("sub/.git"), "gitdir: elsewhere").unwrap();
        let link = |target: &str| Entry::Link { target: target.into() };
        assert_eq!(check("a", Entry::file("1"), root), Ok(()));
        assert_eq!(check("d/l", link("../a/./b"), root), Ok(()));
        for (path, entry) in [
            (".git/config", Entry::file("1")),
            ("x/.GIT/hooks/pre-commit", Entry::file("1")),
            ("sub/deep/a", Entry::file("1")),
            ("l", link("/etc/passwd")),
            ("d/l", link("../../x")),
            ("d/l", link("a/../../../d/x")),
            ("l", link(".git")),
            ("l", link("./.Git/hooks")),
            ("d/l", link("../GIT~1")),
            ("l", link("x/../.g\u{200c}it/config")),
            ("l", link(".git. /config")),
            ("no", Entry::file("1")),
            (".git\\config", Entry::file("1")),
            ("a", Entry::file("key")),
        ] {
            let refusal = check(path, entry, root).unwrap_err();
            assert!(
                refusal.starts_with(&one_line(Path::new(path)))
                    && refusal.ends_with(" (changed by write_file: write it)"),
                "{refusal}"
            );
        }
    }

    #[test]
    fn caps_hold_for_the_whole_change() {
        let mut changes = ChangeSet::default();
        for name in ["a", "b"] {
            changes.stage(RelPath::new(name).unwrap(), || Entry::Absent, Entry::file("1"));
        }
        let gate = |files: Option<usize>, bytes: Option<usize>| {
            let [max_files, max_patch_bytes] = [files, bytes].map(|most| most.map(|most| Cap { most, by: "" }));
            let gate = Gate { made_by: &|_| None, max_files, max_patch_bytes, ..crate::deliver::test_support::OPEN };
            gate.check(&changes, 50, Path::new("/nonexistent")).is_ok()
        };
        assert!(gate(Some(2), Some(50)));
        assert!(!gate(Some(1), None));
        assert!(!gate(None, Some(49)));
        assert!(!gate(None, Some(1)), "what a compressed patch unfolds to counts");
    }

    #[test]
    fn the_limit_to_raise_is_the_lower_one() {
        let by = |options: [Option<u64>; 2]| Cap::both(options, (5, 50)).map(|cap| cap.map(|cap| (cap.most, cap.by)));
        let policy = ["files", "bytes"].map(|key| format!("`paths.write.max_{key}` of the policy"));
        assert_eq!(by([None, Some(50)]), [Some((5, &*policy[0])), Some((50, &*policy[1]))]);
        assert_eq!(by([Some(4), Some(7)]), [Some((4, "--max-changed-files")), Some((7, "--max-patch-bytes"))]);
    }
}
