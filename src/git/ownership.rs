//! Tells whether a git directory belongs to the user, and whether writes to it stay inside: a `.git` that came in an
//! archive was written by whoever packed it.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::bounded;

/// Maximum bytes of a file that holds a path.
const SMALL: u64 = 64 << 10;

/// Tells whether a git directory is one of the work tree `top`, a canonical path: it is there, or it says so itself. A
/// `.git` that leads elsewhere was written by whoever packed the checkout, and could name any repository of the user.
///
/// `work_tree` is `core.worktree` of its own configuration.
pub(super) fn is_of(top: &Path, git_dir: &Path, common_dir: &Path, work_tree: Option<&str>) -> bool {
    let Ok(git_dir) = git_dir.canonicalize() else { return false };
    let leads_here = |path: &Path| path.canonicalize().is_ok_and(|path| path == top);
    if git_dir != common_dir {
        // Of a linked work tree.
        let named = bounded::regular(&git_dir.join("gitdir"), SMALL).unwrap_or_default();
        let named = git_dir.join(OsStr::from_bytes(named.trim_ascii_end()));
        return git_dir.parent() == Some(&common_dir.join("worktrees"))
            && named.file_name() == Some(OsStr::new(".git"))
            && named.parent().is_some_and(leads_here);
    }
    match work_tree {
        Some(path) => leads_here(&git_dir.join(path)),
        None => git_dir == top.join(".git"),
    }
}

/// Returns a link through which git, committing to this branch, would write outside of its directories.
pub fn link_out(git_dir: &Path, common_dir: &Path, reference: Option<&str>) -> io::Result<Option<PathBuf>> {
    let mut paths: Vec<PathBuf> = ["HEAD", "index", "logs", "logs/HEAD"].map(|name| git_dir.join(name)).into();
    let common = ["objects", "refs", "logs", "packed-refs", "reftable"];
    paths.extend(common.map(|name| common_dir.join(name)));
    for base in [common_dir.to_path_buf(), common_dir.join("logs")] {
        let named = reference.into_iter().flat_map(|name| Path::new(name).ancestors());
        paths.extend(named.filter(|part| !part.as_os_str().is_empty()).map(|part| base.join(part)));
    }
    let own = [git_dir.canonicalize()?, common_dir.canonicalize()?];
    let leads_out = |path: &PathBuf| is_link_out(path, &own);
    if let Some(found) = paths.into_iter().find(leads_out) {
        return Ok(Some(found));
    }
    let mut objects: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(common_dir.join("objects"))? {
        let entry = entry?;
        objects.extend(entry.file_type()?.is_symlink().then(|| entry.path()));
    }
    Ok(objects.into_iter().find(leads_out))
}

/// Tells whether a part of the index is in a file of its own.
pub(super) fn has_shared_index(git_dir: &Path) -> io::Result<bool> {
    for entry in std::fs::read_dir(git_dir)? {
        if entry?.file_name().as_bytes().starts_with(b"sharedindex.") {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Tells whether a path is a link that leads out of these canonical directories. One whose target is missing does: a
/// file would be made there.
pub fn is_link_out(path: &Path, own: &[PathBuf]) -> bool {
    path.is_symlink() && !path.canonicalize().is_ok_and(|path| own.iter().any(|own| path.starts_with(own)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::repository::{Repository, RepositoryError};
    use crate::workspace::test_support::sh;

    fn repository_of(work_tree: &Path) -> Result<Option<Repository>, RepositoryError> {
        Repository::discover(&work_tree.canonicalize().unwrap())
    }

    #[test]
    fn a_git_directory_that_does_not_name_this_work_tree_is_not_this_one_s() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        sh(
            folder.path(),
            "git init -q private && git -C private -c user.name=a -c user.email=b commit -q --allow-empty -m x
            git -C private worktree add -q ../linked; git init -q --separate-git-dir=apart.git separate
            git -C separate config core.worktree \"$PWD/separate\"
            git -C private -c protocol.file.allow=always submodule --quiet add ../private sub
            git -C private -c protocol.file.allow=always submodule --quiet add ../private own
            git -C private/own config extensions.worktreeConfig true
            mv private/.git/modules/own/config keep; git config -f keep --get core.worktree > path
            git config -f keep --unset core.worktree; mv keep private/.git/modules/own/config
            git config -f private/.git/modules/own/config.worktree core.worktree \"$(cat path)\"
            git init -q --separate-git-dir=private.git other; git init -q --bare bare.git
            mkdir file link common hidden apart named bare inner
            printf 'gitdir: ../private/.git\n' > file/.git && ln -s ../private/.git link/.git
            printf 'gitdir: ../private.git\n' > apart/.git && ln -s ../private.git named/.git
            printf 'gitdir: ../bare.git\n' > bare/.git; cp -r private.git inner/git; printf 'gitdir: git\n' > inner/.git
            git init -q common && printf '../../private/.git\n' > common/.git/commondir
            printf 'gitdir: ../private/.git/worktrees/linked\n' > hidden/.git
            git -C private worktree add -q ../back; printf '%s/back/other\n' \"$PWD\" > private/.git/worktrees/back/gitdir",
        );
        for own in ["private", "private/sub", "private/own", "linked", "separate"] {
            assert!(repository_of(&at(own)).unwrap().is_some(), "{own}");
        }
        for other in ["file", "link", "common", "hidden", "apart", "named", "bare", "inner", "other", "back"] {
            let error = repository_of(&at(other)).unwrap_err();
            assert!(matches!(error, RepositoryError::Foreign { .. }), "{other}: {error}");
            assert!(error.hint().contains("git config core.worktree"), "{other}: {error}");
        }
    }

    #[test]
    fn a_link_out_of_a_git_directory_is_found_and_one_inside_is_not() {
        for (link, target) in [
            (".git/index", "/x"),
            (".git/logs", "../outside"),
            (".git/logs/refs/heads/q", "../../../../outside"),
            (".git/refs/heads/q", "../../../outside"),
            (".git/objects/aa", "../../outside"),
            (".git/objects", "../outside"),
            (".git/logs/HEAD", "../../outside/new"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let script = format!("git init -q . && mkdir -p ../outside; rm -rf {link}; mkdir -p $(dirname {link})");
            let work = folder.path().join("work");
            std::fs::create_dir(&work).unwrap();
            sh(&work, &script);
            let git_dir = work.join(".git");
            if link != ".git/objects" {
                assert_eq!(link_out(&git_dir, &git_dir, Some("refs/heads/q/x")).unwrap(), None, "{link}");
            }
            std::os::unix::fs::symlink(target, work.join(link)).unwrap();
            let found = link_out(&git_dir, &git_dir, Some("refs/heads/q/x")).unwrap();
            assert_eq!(found, Some(work.join(link)), "{link}");
        }
        let folder = tempfile::tempdir().unwrap();
        sh(folder.path(), "git init -q . && ln -sf refs/heads/main .git/HEAD && touch .git/refs/heads/main");
        let git_dir = folder.path().join(".git");
        assert_eq!(link_out(&git_dir, &git_dir, None).unwrap(), None);
    }
}
