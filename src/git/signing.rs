//! Decides how a commit is signed: by the user's and the system's git configuration, never the repository's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::{Git, GitError};

/// Every setting that decides whether, with which key and by which program something is signed.
const SETTINGS: &str = r"^(commit\.gpgsign|user\.signingkey|gpg\..*)$";

/// Replacements for programs that the user's own configuration does not name: git's defaults.
const PROGRAMS: [(&str, &str); 3] =
    [("gpg.openpgp.program", "gpg"), ("gpg.x509.program", "gpgsm"), ("gpg.ssh.program", "ssh-keygen")];

/// The setting with the program that names an SSH key, and its words.
const KEY_COMMAND: &str = "gpg.ssh.defaultkeycommand";

/// The configuration of signing, by its origin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Signing {
    /// `commit.gpgSign` of the user or the system.
    pub is_wanted: bool,
    /// The last value of each setting of the user or the system, in git's spelling of the keys.
    own: BTreeMap<String, String>,
    /// Settings of the repository, its work tree, and what these include.
    foreign: BTreeSet<String>,
}

/// Nothing can be signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unsigned {
    /// No key is available.
    #[error("the user's git configuration has no signing key, and user.signingKey of the repository is ignored")]
    NoKey,
    /// The program is missing, or it is part of the checkout.
    #[error("cannot sign with {program} ({key}): it is missing, or it is in the checkout or a link into it")]
    NoProgram {
        /// The setting.
        key: &'static str,
        /// Its value.
        program: String,
    },
}

impl Unsigned {
    /// Says what to do.
    pub fn hint(&self) -> &'static str {
        match self {
            Unsigned::NoKey => "set it with `git config --global user.signingKey KEY`",
            Unsigned::NoProgram { .. } => "install it, or name one outside the checkout with `git config --global`",
        }
    }
}

impl Signing {
    /// Reads the configuration as git sees it in a directory.
    pub fn read(git: &Git) -> Result<Signing, GitError> {
        let list = ["config", "--show-scope", "--includes", "-z", "--get-regexp", SETTINGS];
        match git.run(&list, b"") {
            Ok(listed) => Ok(Signing::parse(&listed)),
            // Without a setting git fails silently; anything that it prints is an error.
            Err(GitError::Failed { message, .. }) if message == "exit status: 1" => Ok(Signing::default()),
            Err(error) => Err(error),
        }
    }

    /// Parses the output of `git config --show-scope -z`: a scope, then a key with its value, each ended by a NUL.
    fn parse(listed: &[u8]) -> Signing {
        let listed = String::from_utf8_lossy(listed);
        let mut fields = listed.split('\0');
        let mut signing = Signing::default();
        while let (Some(scope), Some(setting)) = (fields.next(), fields.next()) {
            let (key, value) = match setting.split_once('\n') {
                Some((key, value)) => (key, Some(value)),
                None => (setting, None),
            };
            match scope {
                "system" | "global" => {
                    // Two names of one setting: the later one counts.
                    let key = if key == "gpg.program" { "gpg.openpgp.program" } else { key };
                    // A key without a value means yes.
                    signing.own.insert(key.to_owned(), value.unwrap_or("true").to_owned());
                }
                // What this program passes to every git.
                "command" => {}
                _ => {
                    signing.foreign.insert(key.to_owned());
                }
            }
        }
        let wanted = signing.own.get("commit.gpgsign").map(|value| value.to_lowercase());
        signing.is_wanted = wanted.is_some_and(|value| !matches!(value.as_str(), "false" | "no" | "off" | "0" | ""));
        signing
    }

    /// Lists what the repository's configuration says about signing, which is ignored.
    pub fn left_out(&self) -> Option<String> {
        if self.foreign.is_empty() {
            return None;
        }
        let names: Vec<&str> =
            self.foreign.iter().map(|key| if key == "commit.gpgsign" { "commit.gpgSign" } else { key }).collect();
        Some(format!(
            "{} of the repository's git configuration is ignored: set it for the user (`git config --global`)",
            names.join(", ")
        ))
    }

    /// Returns git that signs only as the user configured, with the option for `commit-tree`. `committer` signs if no
    /// key is named.
    pub fn apply(&self, mut git: Git, committer: &str) -> Result<(Git, String), Unsigned> {
        let format = self.own.get("gpg.format").map_or("openpgp", String::as_str);
        git = git.config("gpg.format", format);
        for (key, default) in PROGRAMS {
            let program = self.own.get(key).map_or(default, String::as_str);
            git = match key.split('.').nth(1) == Some(format) {
                true => {
                    let found = found(&git, program);
                    let found = found.ok_or_else(|| Unsigned::NoProgram { key, program: program.to_owned() })?;
                    git.config(key, &found)
                }
                false => git.config(key, program),
            };
        }
        // Git has no way to say "none"; `false` is the program that gives no key.
        let mut key_command = "false".to_owned();
        if let Some(command) = self.own.get(KEY_COMMAND)
            && format == "ssh"
            && !self.own.contains_key("user.signingkey")
        {
            let found = found_with_words(&git, command);
            key_command = found.ok_or_else(|| Unsigned::NoProgram { key: KEY_COMMAND, program: command.clone() })?;
        }
        git = git.config(KEY_COMMAND, &key_command);
        let key = match self.own.get("user.signingkey") {
            Some(key) => key.as_str(),
            // Git finds a key by itself, unless the repository names another.
            None if !self.foreign.contains("user.signingkey") => "",
            None if format == "ssh" => return Err(Unsigned::NoKey),
            None => committer,
        };
        Ok((git, format!("-S{key}")))
    }
}

/// Returns the absolute path of a program that is not the checkout's: git itself would look for it in the directories of
/// PATH without asking where a link there leads.
fn found(git: &Git, program: &str) -> Option<String> {
    let programs = git.programs();
    if !program.contains('/') {
        return Some(programs.find(program).ok()?.path().to_str()?.to_owned());
    }
    let home = || std::env::var_os("HOME").map(PathBuf::from);
    let path = match program.strip_prefix("~/") {
        Some(rest) => home()?.join(rest),
        None => PathBuf::from(program),
    };
    (path.is_absolute() && programs.is_outside(&path)).then(|| path.to_str().map(str::to_owned)).flatten()
}

/// Returns a command with the absolute path of its program, as [`found`] finds it. Git splits it at spaces that are not
/// quoted: a program whose path would need quotes does not count.
fn found_with_words(git: &Git, command: &str) -> Option<String> {
    let (program, words) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
    let path = found(git, program)?;
    (!path.contains([' ', '\t', '"', '\'', '\\'])).then(|| format!("{path} {words}").trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(settings: &[(&str, &str)]) -> Signing {
        let text: String = settings.iter().map(|(scope, setting)| format!("{scope}\0{setting}\0")).collect();
        Signing::parse(text.as_bytes())
    }

    #[test]
    fn only_the_users_and_the_systems_word_counts() {
        for (settings, wanted) in [
            (&[][..], false),
            (&[("global", "commit.gpgsign\ntrue")][..], true),
            (&[("system", "commit.gpgsign")], true),
            (&[("system", "commit.gpgsign\nyes"), ("global", "commit.gpgsign\nOff")], false),
            (&[("local", "commit.gpgsign\ntrue")], false),
            (&[("worktree", "commit.gpgsign\ntrue")], false),
            (&[("command", "commit.gpgsign\ntrue")], false),
            (&[("global", "commit.gpgsign\ntrue"), ("local", "commit.gpgsign\nfalse")], true),
        ] {
            assert_eq!(listed(settings).is_wanted, wanted, "{settings:?}");
        }
    }

    #[test]
    fn what_the_repository_says_is_named_and_overridden() {
        let directory = tempfile::tempdir().unwrap();
        let mine = directory.path().join("mine").display().to_string();
        std::fs::write(&mine, "").unwrap();
        let signing = listed(&[
            ("global", "gpg.openpgp.program\n/usr/bin/first"),
            ("global", &format!("gpg.program\n{mine}")),
            ("local", "gpg.program\n./evil"),
            ("worktree", "gpg.ssh.program\n./evil"),
            ("local", "commit.gpgsign\ntrue"),
            ("local", "user.signingkey\nEVIL"),
        ]);
        let said = signing.left_out().unwrap();
        assert!(said.starts_with("commit.gpgSign, gpg.program, gpg.ssh.program, user.signingkey of the"), "{said}");
        let (git, option) = signing.apply(Git::new("/nonexistent".as_ref()), "A <a@example.org>").unwrap();
        assert_eq!(option, "-SA <a@example.org>");
        let told = format!("{git:?}");
        assert!(
            told.contains(&format!("gpg.openpgp.program={mine}")) && told.contains("gpg.ssh.program=ssh-keygen"),
            "{told}"
        );
        assert!(!told.contains("evil"), "{told}");
        let ssh = listed(&[("global", "gpg.format\nssh"), ("local", "user.signingkey\nEVIL")]);
        assert_eq!(ssh.apply(Git::new("/nonexistent".as_ref()), "A").unwrap_err(), Unsigned::NoKey);
    }

    #[test]
    fn no_program_of_the_checkout_signs() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        let at = |name: &str| top.join(name).display().to_string();
        crate::workspace::test_support::sh(
            &top,
            "mkdir -p work/tools bin own; git init -q work; for at in work/tools/gpg own/gpg; do
            echo '#!/bin/sh' > $at; chmod +x $at; done; ln -s ../work/tools/gpg bin/gpg; ln -s ../own/gpg bin/mine",
        );
        let path = at("bin");
        let around = crate::checkouts::Around::new(&top.join("work"), ".".as_ref(), None);
        let programs = crate::git::Programs::new(Some(path.as_ref()), &around);
        for (program, is_taken) in [
            ("gpg", false),
            ("mine", true),
            ("missing", false),
            ("tools/gpg", false),
            ("./own/gpg", false),
            (&at("bin/gpg"), false),
            (&at("work/tools/gpg"), false),
            (&at("bin/mine"), true),
            (&at("own/none"), false),
        ] {
            let signing = listed(&[("global", &format!("gpg.program\n{program}")), ("global", "user.signingkey\nK")]);
            let applied = signing.apply(Git::with(&programs, &top.join("work")), "A");
            assert_eq!(applied.is_ok(), is_taken, "{program}: {applied:?}");
            let command = format!("gpg.ssh.defaultkeycommand\n{program} -L x");
            let signing =
                listed(&[("global", "gpg.format\nssh"), ("global", "gpg.ssh.program\nmine"), ("global", &command)]);
            let applied = signing.apply(Git::with(&programs, &top.join("work")), "A");
            assert_eq!(applied.is_ok(), is_taken, "{program}: {applied:?}");
            let of_key =
                listed(&[("global", "gpg.ssh.program\nmine"), ("global", &command), ("global", "user.signingkey\nK")]);
            let told = format!("{:?}", of_key.apply(Git::with(&programs, &top.join("work")), "A"));
            assert!(!told.contains("-L x"), "{program}: {told}");
        }
    }
}
