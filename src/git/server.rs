//! Runs git commands that contact the repository's server.
//!
//! Whoever can write a checkout's configuration could name programs there (`core.sshCommand`, `core.gitProxy`,
//! `credential.*`) and other servers (`url.*.insteadOf`, `http.proxy`). Only the address of `origin` and the key that a
//! checkout action leaves are taken from it; the user's own configuration applies as always.

#![expect(clippy::disallowed_methods, reason = "the git directory for servers is made here")]

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::repository::Repository;
use super::scratch_git::{Parts, setting};
use super::{Git, GitError};
use crate::bounded;
use crate::change::patch::ObjectFormat;

/// Returns git with the repository's objects and `origin`, and a private git directory in `directory`, which must be
/// empty. What is fetched stays there.
pub fn git(repository: &Repository, directory: &Path) -> io::Result<Git> {
    let parts = Parts::of(repository).ok_or_else(|| io::Error::other("its objects or references are outside it"))?;
    for name in ["objects/info", "objects/pack", "refs"] {
        std::fs::create_dir_all(directory.join(name))?;
    }
    let stores = parts.reads();
    let alternates: Vec<&[u8]> = stores.iter().map(|path| path.as_os_str().as_bytes()).collect();
    std::fs::write(directory.join("objects/info/alternates"), [alternates.join(&b'\n'), b"\n".to_vec()].concat())?;
    if let Some(shallow) =
        bounded::optional(bounded::regular(&repository.common_dir.join("shallow"), bounded::PRODUCT))?
    {
        std::fs::write(directory.join("shallow"), shallow)?;
    }
    std::fs::write(directory.join("HEAD"), "ref: refs/heads/none\n")?;
    std::fs::write(directory.join("config"), configuration(repository).map_err(io::Error::other)?)?;
    Ok(repository.git().env("GIT_DIR", directory))
}

fn configuration(repository: &Repository) -> Result<String, GitError> {
    let mut text = match repository.format {
        ObjectFormat::Sha1 => "[core]\n\trepositoryformatversion = 0\n\tbare = true\n".to_owned(),
        ObjectFormat::Sha256 => {
            "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectFormat = sha256\n".to_owned()
        }
    };
    let listed = repository.git().run(&["config", "--show-scope", "--includes", "-z", "--list"], b"")?;
    let words: Vec<&[u8]> = listed.split(|byte| *byte == 0).collect();
    let mut has_address = false;
    for pair in words.chunks_exact(2) {
        let (scope, entry) = (pair[0], String::from_utf8_lossy(pair[1]));
        let Some((key, value)) = entry.split_once('\n') else { continue };
        if scope != b"local" && scope != b"worktree" {
            continue;
        }
        let is_address = key == "remote.origin.url" && !has_address;
        has_address |= is_address;
        if is_address || is_key(key, value) {
            text.push_str(&setting(key, value));
        }
    }
    Ok(text)
}

// As actions/checkout leaves it: `http.https://HOST/.extraheader`.
fn is_key(key: &str, value: &str) -> bool {
    let is_header = key.starts_with("http.") && key.ends_with(".extraheader");
    is_header && value.to_ascii_lowercase().starts_with("authorization:") && !value.contains(['\r', '\n'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::test_support::sh;

    const SETUP: &str = "git init -q --bare origin.git; git init -q --bare evil.git; git init -q -b main project; cd project
        git config user.email a@b; git config user.name a; touch a; git add a; git commit -qm one
        git remote add origin \"$PWD/../origin.git\"; git push -q origin main; git push -q origin main:old
        git commit -q --allow-empty -m two
        git config core.sshCommand 'touch ran'; git config core.gitProxy 'touch ran'; git config http.proxy http://evil
        git config --add remote.origin.url \"$PWD/../evil.git\"; git config remote.origin.pushurl \"$PWD/../evil.git\"
        git config remote.origin.uploadpack 'touch ran;'; git config remote.origin.receivepack 'touch ran;'
        git config remote.origin.vcs evil; git config \"url.$PWD/../evil.git.insteadOf\" \"$PWD/../origin.git\"
        git config http.https://x.test/.extraheader 'AUTHORIZATION: basic eA=='; git config http.extraheader 'X: y'
        git config credential.https://x.test.helper '!touch ran'; git config http.sslVerify false
        git config include.path ../more; printf '[core]\\n\\tsshCommand = touch ran\\n[push]\\n\\tdefault = matching\\n' > more";

    #[test]
    fn of_the_repositorys_configuration_only_the_server_and_the_key_for_it_count() {
        let folder = tempfile::tempdir().unwrap();
        sh(folder.path(), SETUP);
        let root = folder.path().join("project").canonicalize().unwrap();
        let repository = Repository::discover(&root).unwrap().unwrap();
        let own = tempfile::tempdir().unwrap();
        let git = git(&repository, own.path()).unwrap();
        let listed = git.run(&["config", "--list", "--show-scope"], b"").unwrap();
        let listed = String::from_utf8(listed).unwrap();
        let found: Vec<&str> = listed.lines().filter_map(|line| line.strip_prefix("local\t")).collect();
        assert_eq!(
            found,
            [
                "core.repositoryformatversion=0".to_owned(),
                "core.bare=true".to_owned(),
                format!("remote.origin.url={}/../origin.git", root.display()),
                "http.https://x.test/.extraheader=AUTHORIZATION: basic eA==".to_owned(),
            ]
        );

        let head = repository.head.clone().unwrap();
        git.run(&["push", "-q", "origin", &format!("{head}:refs/heads/new")], b"").unwrap();
        git.run(&["fetch", "-q", "--depth=1", "origin", "old"], b"").unwrap();
        assert_eq!(sh(folder.path(), "git -C origin.git rev-parse new").trim(), head);
        assert_eq!(
            sh(folder.path(), "git -C evil.git for-each-ref; find . -name ran; cat project/.git/shallow 2>&1 || :"),
            "cat: project/.git/shallow: No such file or directory\n"
        );
    }

    #[test]
    fn a_commit_of_a_shallow_clone_can_be_pushed() {
        let folder = tempfile::tempdir().unwrap();
        sh(
            folder.path(),
            "git init -q --bare origin.git; git init -q -b main first; cd first; git config user.email a@b; git config user.name a
            touch a; git add a; git commit -qm one; git commit -q --allow-empty -m two; git push -q ../origin.git main; cd ..
            git clone -q --depth=1 -b main \"file://$PWD/origin.git\" project; cd project
            git config user.email a@b; git config user.name a; git commit -q --allow-empty -m three",
        );
        let repository = Repository::discover(&folder.path().join("project").canonicalize().unwrap()).unwrap().unwrap();
        let own = tempfile::tempdir().unwrap();
        let head = repository.head.clone().unwrap();
        let git = git(&repository, own.path()).unwrap();
        git.run(&["push", "-q", "origin", &format!("{head}:refs/heads/new")], b"").unwrap();
        assert_eq!(sh(folder.path(), "git -C origin.git log --format=%s new"), "three\ntwo\none\n");
    }
}
