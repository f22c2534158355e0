//! Git's plumbing as a child process that runs nothing of the repository's or the user's choosing.

#![expect(clippy::disallowed_methods, reason = "git is started here")]

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What every git process is told, ours and the model's: no hooks, no monitor, no pager, no foreign diff, no
/// credentials, no prompt, no fetching behind our back (policy.md G11).
///
/// Signing is ours alone ([`signing`](super::signing)), and who asks for a check of a signature (`%G?`) gets it from the
/// system's program, not from one that the repository names.
const CONFIGURATION: [(&str, &str); 23] = [
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.pager", "cat"),
    ("core.askPass", ""),
    ("core.alternateRefsCommand", ""),
    ("credential.helper", ""),
    ("diff.noprefix", "false"),
    ("diff.mnemonicPrefix", "false"),
    ("gc.auto", "0"),
    ("interactive.diffFilter", ""),
    ("log.showSignature", "false"),
    ("maintenance.auto", "false"),
    ("protocol.ext.allow", "never"),
    ("submodule.recurse", "false"),
    ("color.ui", "false"),
    ("core.quotePath", "true"),
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("push.gpgSign", "false"),
    ("gpg.openpgp.program", "gpg"),
    ("gpg.x509.program", "gpgsm"),
    ("gpg.ssh.program", "ssh-keygen"),
    ("gpg.ssh.defaultKeyCommand", "false"),
];

/// Returns the environment of every git process. Inherited variables for which [`is_inherited`] holds must be dropped.
pub fn git_environment() -> Vec<(String, String)> {
    let mut environment: Vec<(String, String)> = [
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_PAGER", "cat"),
        ("GIT_EDITOR", ":"),
        ("GIT_ASKPASS", ""),
        ("GIT_OPTIONAL_LOCKS", "0"),
        ("GIT_NO_LAZY_FETCH", "1"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    environment.push(("GIT_CONFIG_COUNT".to_owned(), CONFIGURATION.len().to_string()));
    for (number, (key, value)) in CONFIGURATION.iter().enumerate() {
        environment.push((format!("GIT_CONFIG_KEY_{number}"), (*key).to_owned()));
        environment.push((format!("GIT_CONFIG_VALUE_{number}"), (*value).to_owned()));
    }
    environment
}

/// Keys and tokens that no git needs: what it starts (a transport, a filter of LFS) could read them in its environment.
pub const KEYS: [&str; 6] = [
    "QWEN_API_KEY",
    "OPENAI_API_KEY",
    "DASHSCOPE_API_KEY",
    "BAILIAN_CODING_PLAN_API_KEY",
    "QWEN_CI_TOKEN",
    "GITHUB_TOKEN",
];

/// Tells whether a variable of our own environment must not reach git: a hook sets `GIT_INDEX_FILE` and others, and keys
/// are nobody else's.
pub fn is_inherited(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"GIT_") || KEYS.iter().any(|key| name == *key)
}

/// Git in one folder.
#[derive(Debug, Clone)]
pub struct Git {
    folder: PathBuf,
    options: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
}

/// Why git failed.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// It cannot be started.
    #[error("git cannot be started: {0}; is it installed and in PATH?")]
    Start(#[source] std::io::Error),
    /// It says no.
    #[error("git {command}: {message}")]
    Failed {
        /// The subcommand.
        command: String,
        /// What it wrote to standard error.
        message: String,
    },
}

impl Git {
    /// Returns git in a folder.
    pub fn new(folder: &Path) -> Git {
        Git { folder: folder.to_path_buf(), options: Vec::new(), environment: Vec::new() }
    }

    /// Adds a variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Git {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Sets a configuration value.
    #[must_use]
    pub fn config(mut self, key: &str, value: &str) -> Git {
        self.options.push("-c".into());
        self.options.push(format!("{key}={value}").into());
        self
    }

    /// Runs a subcommand and returns its standard output.
    pub fn run<A: AsRef<OsStr>>(&self, arguments: &[A], input: &[u8]) -> Result<Vec<u8>, GitError> {
        let mut command = Command::new("git");
        command.args(&self.options).args(arguments).current_dir(&self.folder);
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_inherited(name)) {
            command.env_remove(name);
        }
        command.envs(git_environment()).env("LC_ALL", "C").envs(self.environment.iter().map(|(n, v)| (n, v)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(GitError::Start)?;
        let stdin = child.stdin.take();
        let output = std::thread::scope(|scope| {
            // Beside reading, so that neither side waits for the other; a git that does not read to the end is fine.
            scope.spawn(|| stdin.map(|mut stdin| stdin.write_all(input)));
            child.wait_with_output()
        });
        let output = output.map_err(GitError::Start)?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let name = arguments.first().map(|name| name.as_ref().to_string_lossy().into_owned()).unwrap_or_default();
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        let message = if message.is_empty() { output.status.to_string() } else { message };
        Err(GitError::Failed { command: name, message })
    }

    /// Runs a subcommand that prints one line of text; without its end.
    pub fn line<A: AsRef<OsStr>>(&self, arguments: &[A], input: &[u8]) -> Result<String, GitError> {
        Ok(String::from_utf8_lossy(&self.run(arguments, input)?).trim_end_matches('\n').to_owned())
    }
}
