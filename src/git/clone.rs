//! Clones repositories of others: no hook, filter or submodule of theirs counts, and no program is started for them.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;

use super::{Git, GitError, Programs, more_configuration};
use crate::secret::Secret;

/// How long a clone may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// How often it is tried.
const TRIES: usize = 3;

/// A repository to clone.
#[derive(Debug, Clone)]
pub struct Origin<'a> {
    /// An address that was checked before: HTTPS, SSH, or an absolute path.
    pub url: &'a str,
    /// Its branch or tag; `None`: its default branch.
    pub reference: Option<&'a str>,
    /// Its host; `None`: it is a path of this machine.
    pub host: Option<&'a str>,
    /// The token for its host.
    pub token: Option<&'a Secret>,
    /// The file of certificates that are trusted instead of the system's.
    pub certificates: Option<&'a str>,
}

impl Origin<'_> {
    /// Returns git for this address, which works in `directory`. The user's configuration could name filters, and does not
    /// count.
    fn git(&self, programs: &Programs, directory: &Path) -> Git {
        let protocols = if self.host.is_some() { "https:ssh" } else { "file" };
        let git = Git::with(&programs.clone().with_user_configuration(false), directory)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_ALLOW_PROTOCOL", protocols)
            .env("GIT_SSH_COMMAND", "ssh -o BatchMode=yes")
            .within(PATIENCE);
        let git = self.certificates.into_iter().fold(git, |git, file| git.env("GIT_SSL_CAINFO", file));
        let (Some(host), Some(token)) = (self.host.filter(|_| self.url.starts_with("https://")), self.token) else {
            return git;
        };
        let basic = base64::engine::general_purpose::STANDARD.encode(format!("x-access-token:{}", token.expose()));
        let header = format!("Authorization: Basic {basic}");
        // In the environment of this git alone: never in an address, a file, or on a command line.
        let variables = more_configuration(&[(&format!("http.https://{host}/.extraHeader"), &header)]);
        variables.into_iter().fold(git, |git, (name, value)| git.env(name, value))
    }

    /// Returns the commit that would be cloned; `None` if there is none, or it cannot be asked for.
    pub fn commit(&self, programs: &Programs, directory: &Path) -> Option<String> {
        let git = self.git(programs, directory);
        let name = self.reference.unwrap_or("HEAD");
        let listed = git.run(&["ls-remote", "--upload-pack=git-upload-pack", "--", self.url, name], b"").ok()?;
        let listed = String::from_utf8(listed).ok()?;
        let lines: Vec<(&str, &str)> = listed.lines().filter_map(|line| line.split_once('\t')).collect();
        let wanted = [format!("refs/heads/{name}"), format!("refs/tags/{name}"), name.to_owned()];
        let found = wanted.iter().find_map(|wanted| lines.iter().find(|(_, name)| name == wanted));
        found.map(|(commit, _)| (*commit).to_owned())
    }

    /// Clones the last commit into `to`, which must not exist yet, below the directory `within`.
    pub fn clone_to(&self, programs: &Programs, within: &Path, to: &Path) -> Result<(), GitError> {
        let git = self.git(programs, within);
        let target = to.to_string_lossy();
        let mut arguments = vec![
            "clone",
            "--quiet",
            "--depth=1",
            "--no-tags",
            "--single-branch",
            "--no-local",
            "--template=",
            "--upload-pack=git-upload-pack",
            "-c",
            "core.hooksPath=/dev/null",
        ];
        if let Some(reference) = self.reference {
            arguments.extend(["--branch", reference]);
        }
        arguments.extend(["--", self.url, &target]);
        let mut tries = 1;
        loop {
            match git.run(&arguments, b"") {
                Ok(_) => return Ok(()),
                Err(GitError::Failed { .. } | GitError::TimedOut { .. }) if tries < TRIES => {
                    tries += 1;
                    let _nothing_there = std::fs::remove_dir_all(to);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Removes the clones of a directory, and the directory.
pub fn remove(directory: &Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
