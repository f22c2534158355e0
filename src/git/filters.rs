//! Finds the filter drivers that change what git stores, and hashes files with none of them running.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use super::repository::{Repository, RepositoryError};
use super::{Git, GitError};

impl Repository {
    /// Returns the changed files that use a filter driver other than `lfs`, with its name. No run starts one, so it is
    /// unknown what git would store.
    pub fn filtered(&self, names: &[Vec<u8>]) -> Result<BTreeMap<Vec<u8>, String>, RepositoryError> {
        let drivers = self.drivers()?;
        if drivers.is_empty() {
            return Ok(BTreeMap::new());
        }
        let asked: Vec<u8> = names.iter().flat_map(|name| [name.as_slice(), b"\0"].concat()).collect();
        let answer = self.git().run(&["check-attr", "-z", "--stdin", "filter"], &asked)?;
        let words: Vec<&[u8]> = answer.split(|byte| *byte == 0).collect();
        let found = words.chunks_exact(3).map(|line| (line[0].to_vec(), String::from_utf8_lossy(line[2]).into_owned()));
        Ok(found.filter(|(_, driver)| drivers.contains(driver)).collect())
    }

    /// Returns the configured filter drivers that change what git stores, except `lfs`.
    fn drivers(&self) -> Result<BTreeSet<String>, GitError> {
        let keys = self.filter_keys()?.into_iter();
        Ok(keys.filter(|(_, name)| matches!(name.as_str(), "clean" | "process")).map(|(driver, _)| driver).collect())
    }

    /// Returns the configuration of filter drivers other than Git LFS: the driver, and the last part of the key. A
    /// driver that is only named `lfs` and starts something else counts as any other.
    fn filter_keys(&self) -> Result<Vec<(String, String)>, GitError> {
        let listed = match self.git().run(&["config", "-z", "--get-regexp", r"^filter\."], b"") {
            Ok(listed) => listed,
            // Without a message: there is none.
            Err(GitError::Failed { message, .. }) if message == "exit status: 1" => Vec::new(),
            Err(error) => return Err(error),
        };
        let settings: Vec<(String, String, String)> = listed
            .split(|byte| *byte == 0)
            .filter_map(|setting| {
                let setting = String::from_utf8_lossy(setting);
                let (key, value) = setting.split_once('\n').unwrap_or((&setting, ""));
                let (driver, name) = key.strip_prefix("filter.")?.rsplit_once('.')?;
                Some((driver.to_owned(), name.to_owned(), value.to_owned()))
            })
            .collect();
        let starts = |name: &str| matches!(name, "clean" | "smudge" | "process");
        let mut of_lfs = settings.iter().filter(|(driver, name, _)| driver == "lfs" && starts(name));
        let is_lfs = of_lfs.all(|(.., value)| is_lfs(value) && has_lfs(self));
        let keys = settings.into_iter().filter(|(driver, ..)| !(driver == "lfs" && is_lfs));
        Ok(keys.map(|(driver, name, _)| (driver, name)).collect())
    }

    /// Returns the blob that git would store for a file's bytes (line ends converted, LFS pointers made; no other
    /// filter runs), and writes it to `git`'s objects if asked.
    ///
    /// `git` is one that [`Repository::without_filters`] returned.
    pub fn blob_by(&self, git: &Git, name: &[u8], content: &[u8], write: bool) -> Result<String, RepositoryError> {
        let mut path = OsString::from("--path=");
        path.push(OsStr::from_bytes(name));
        let mut arguments = vec![OsString::from("hash-object"), "--stdin".into(), path];
        if write {
            arguments.insert(1, "-w".into());
        }
        Ok(git.line(&arguments, content)?)
    }

    /// Returns git with every configured filter driver except `lfs` switched off.
    pub fn without_filters(&self) -> Result<Git, RepositoryError> {
        // What a conversion would lose is looked at where it is checked, not here.
        let mut git = self.git().config("core.safecrlf", "false");
        for (driver, name) in self.filter_keys()? {
            let key = format!("filter.{driver}.{name}");
            match name.as_str() {
                "clean" | "smudge" | "process" => git = git.config(&key, ""),
                "required" => git = git.config(&key, "false"),
                _ => {}
            }
        }
        Ok(git.with_filters_off())
    }
}

/// Tells whether Git LFS is installed outside of the project, and starts no program of the repository's choosing.
pub(super) fn has_lfs(repository: &Repository) -> bool {
    let chosen = r"^(alias\.lfs|lfs\.(extension|customtransfer)\.)";
    let asked = ["config", "--show-scope", "--includes", "-z", "--get-regexp", chosen];
    let chooses = match repository.git().run(&asked, b"") {
        Ok(listed) => {
            let words: Vec<&[u8]> = listed.split(|byte| *byte == 0).collect();
            words.chunks_exact(2).any(|pair| pair[0] == b"local" || pair[0] == b"worktree")
        }
        Err(GitError::Failed { message, .. }) => !message.starts_with("exit status"),
        Err(_) => true,
    };
    repository.programs.find("git-lfs").is_ok() && !chooses
}

/// Tells whether the program of a filter is Git LFS itself, as `git lfs install` configures it.
pub(super) fn is_lfs(command: &str) -> bool {
    let words: Vec<&str> = command.split_whitespace().collect();
    let rest = match words.as_slice() {
        ["git-lfs", rest @ ..] | ["git", "lfs", rest @ ..] => rest,
        _ => return false,
    };
    let rest: Vec<&str> =
        rest.iter().copied().filter(|word| !matches!(*word, "--skip" | "--" | "%f" | "\"%f\"" | "'%f'")).collect();
    matches!(rest.as_slice(), ["clean" | "smudge" | "filter-process"])
}
