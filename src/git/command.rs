//! Runs git's plumbing as a child process that starts no program of the repository's or the user's choosing.

#![expect(clippy::disallowed_methods, reason = "git is started here")]

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::children::{self, Unfinished, run_deadline};
use super::programs::{NotFound, Programs};

/// The configuration of every git process, this program's and the model's: no hooks, no monitor, no pager, no foreign
/// diff, no credentials, no prompt, no automatic fetching, and no bare repository found by chance.
///
/// Signing is ours alone ([`signing`](super::signing)), and signatures are not checked: `git log --format=%G?` would start a
/// program that nobody decided about.
const CONFIGURATION: [(&str, &str); 28] = [
    // Where Git LFS is not installed, an alias of its name would run in its place.
    ("alias.lfs", ""),
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
    ("safe.bareRepository", "explicit"),
    // Git would start one in each submodule, which the configuration there could have start programs.
    ("diff.ignoreSubmodules", "dirty"),
    ("submodule.recurse", "false"),
    ("diff.submodule", "short"),
    ("status.submoduleSummary", "false"),
    ("color.ui", "false"),
    ("core.quotePath", "true"),
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("push.gpgSign", "false"),
    ("gpg.openpgp.program", "false"),
    ("gpg.x509.program", "false"),
    ("gpg.ssh.program", "false"),
    ("gpg.ssh.defaultKeyCommand", "false"),
];

/// Returns the environment of every git process. Inherited variables for which [`is_inherited`] holds must be dropped.
pub fn git_environment() -> Vec<(String, String)> {
    let mut environment: Vec<(String, String)> = [
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_PAGER", "cat"),
        ("GIT_EDITOR", ":"),
        ("GIT_SEQUENCE_EDITOR", ":"),
        ("GIT_ASKPASS", ""),
        ("GIT_OPTIONAL_LOCKS", "0"),
        ("GIT_NO_LAZY_FETCH", "1"),
        // A replaced object would be shown, or taken to be trusted, under another one's name.
        ("GIT_NO_REPLACE_OBJECTS", "1"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    environment.extend(numbered(0, &CONFIGURATION));
    environment
}

/// Returns the variables that give git configuration values besides those of [`git_environment`]; both must be set.
pub fn more_configuration(values: &[(&str, &str)]) -> Vec<(String, String)> {
    numbered(CONFIGURATION.len(), values)
}

/// Returns the variables of configuration values after the first `count`.
fn numbered(count: usize, values: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut variables = vec![("GIT_CONFIG_COUNT".to_owned(), (count + values.len()).to_string())];
    for (number, (key, value)) in (count..).zip(values) {
        variables.push((format!("GIT_CONFIG_KEY_{number}"), (*key).to_owned()));
        variables.push((format!("GIT_CONFIG_VALUE_{number}"), (*value).to_owned()));
    }
    variables
}

/// Returns what git of the model is told besides: nothing is read from the home that builds write to, nor from the
/// system. A configuration or attributes there would have git start programs and show what the command did not name.
pub fn private_git_configuration() -> Vec<(String, String)> {
    let mut variables: Vec<(String, String)> =
        [("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_ATTR_NOSYSTEM", "1")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
    variables.extend(more_configuration(&[("core.attributesFile", "/dev/null"), ("core.excludesFile", "/dev/null")]));
    variables
}

/// Keys and tokens that no git needs: what it starts (a transport, a filter of LFS) could read them in its environment.
pub const KEYS: [&str; 7] = [
    "QWEN_API_KEY",
    "OPENAI_API_KEY",
    "DASHSCOPE_API_KEY",
    "BAILIAN_CODING_PLAN_API_KEY",
    "QWEN_CI_TOKEN",
    "QWEN_GIT_TOKEN",
    "GITHUB_TOKEN",
];

/// Tells whether a variable of this process must not reach git: a hook sets `GIT_INDEX_FILE` and others, and keys
/// concern nobody else.
pub fn is_inherited(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"GIT_") || KEYS.iter().any(|key| name == *key)
}

/// Subcommands that read files of the work tree as git would store them, and start the filters that the repository's
/// configuration names for that.
const READS_FILES: [&str; 9] =
    ["add", "apply", "checkout", "commit", "diff", "diff-files", "diff-index", "stash", "status"];

/// How long git may take where it asks nobody and computes little.
const PATIENCE: Duration = Duration::from_secs(60);

/// Timeout outside a run, and in a run without a limit, where a person or a server may have to answer.
const LONG_PATIENCE: Duration = Duration::from_secs(600);

/// Git in the top directory of one work tree.
#[derive(Debug, Clone)]
pub struct Git {
    programs: Programs,
    directory: PathBuf,
    options: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    asks: bool,
    limit: Option<Duration>,
    has_filters: bool,
}

/// Why git failed.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// Git is not installed, or only inside the workspace.
    #[error("git cannot be started: {0}")]
    Missing(#[from] NotFound),
    /// It cannot be started.
    #[error("git cannot be started: {0}")]
    Start(#[source] std::io::Error),
    /// It timed out.
    #[error("git {command} did not end within {} s and was ended", patience.as_secs_f32())]
    TimedOut {
        /// The subcommand.
        command: String,
        /// The timeout.
        patience: Duration,
    },
    /// A signal ended git and this process.
    #[error("git {command} was ended: a signal interrupted the run")]
    Interrupted {
        /// The subcommand.
        command: String,
    },
    /// It fails.
    #[error("git {command}: {message}")]
    Failed {
        /// The subcommand.
        command: String,
        /// What it wrote to standard error.
        message: String,
    },
}

/// What git prints if the repository belongs to another user.
const DUBIOUS: &str = "dubious ownership";

impl GitError {
    /// Returns what to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            GitError::Missing(_) | GitError::Start(_) => "install git, or add its directory to PATH",
            GitError::Failed { message, .. } if message.contains(DUBIOUS) => {
                "run as the owner of the repository, or trust it: `git config --global --add safe.directory PATH`"
            }
            GitError::Failed { .. } | GitError::TimedOut { .. } | GitError::Interrupted { .. } => {
                "run `git status` there and correct what it reports"
            }
        }
    }
}

impl Git {
    /// Returns the programs of the machine that it is one of.
    pub(super) fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Returns git in the top directory of a work tree, by the programs of this process's PATH.
    pub fn new(top: &Path) -> Git {
        Git::with(&Programs::of_process(top), top)
    }

    /// Returns git in the top directory of a work tree. It uses the repository there, not one above it, and no bare
    /// one.
    pub fn with(programs: &Programs, top: &Path) -> Git {
        Git {
            programs: programs.clone(),
            directory: top.to_path_buf(),
            options: Vec::new(),
            environment: Vec::new(),
            asks: false,
            limit: None,
            has_filters: true,
        }
    }

    /// Adds a variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Git {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Lets paths begin with `:(top,glob)` and the like, and contain patterns. Otherwise each names itself.
    #[must_use]
    pub fn with_patterns(self) -> Git {
        self.env("GIT_LITERAL_PATHSPECS", "0")
    }

    /// Sets a configuration value.
    #[must_use]
    pub fn config(mut self, key: &str, value: &str) -> Git {
        self.options.push("-c".into());
        self.options.push(format!("{key}={value}").into());
        self
    }

    /// Marks a git that starts no filter: every one is switched off, or it works in a repository that we made.
    #[must_use]
    pub fn with_filters_off(mut self) -> Git {
        self.has_filters = false;
        self
    }

    /// Refuses a subcommand that would start filters. Index and commits alone are compared without them.
    fn refuse_filters<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<(), GitError> {
        let Some((command, options)) = arguments.split_first() else { return Ok(()) };
        let command = command.as_ref().to_string_lossy().into_owned();
        let compares_index = || options.iter().any(|option| option.as_ref() == "--cached");
        match self.has_filters && READS_FILES.contains(&command.as_str()) && !compares_index() {
            true => Err(GitError::Failed { command, message: "it could start filters of the repository".to_owned() }),
            false => Ok(()),
        }
    }

    /// Sets the timeout to the rest of the run's time (ten minutes without a limit), for signing and for servers.
    #[must_use]
    pub fn with_long_patience(mut self) -> Git {
        self.asks = true;
        self
    }

    /// Gives it this time and no more.
    #[must_use]
    pub fn within(mut self, limit: Duration) -> Git {
        self.limit = Some(limit);
        self
    }

    fn patience(&self) -> Duration {
        if let Some(limit) = self.limit {
            return limit;
        }
        match run_deadline() {
            _ if !self.asks => PATIENCE,
            // Others end an overdue run; a rollback by git needs a moment.
            Some(end) => end.saturating_duration_since(Instant::now()).max(Duration::from_secs(1)),
            None => LONG_PATIENCE,
        }
    }

    /// Runs a subcommand and returns its standard output.
    pub fn run<A: AsRef<OsStr>>(&self, arguments: &[A], input: &[u8]) -> Result<Vec<u8>, GitError> {
        self.refuse_filters(arguments)?;
        let mut command = Command::new(self.programs.find("git")?.path());
        command.args(&self.options).args(arguments).current_dir(&self.directory);
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_inherited(name)) {
            command.env_remove(name);
        }
        for (name, value) in self.programs.loader_variables() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.envs(git_environment()).env("LC_ALL", "C").env("PATH", self.programs.path_variable());
        if !self.programs.reads_user_configuration {
            command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("XDG_CONFIG_HOME", "/dev/null");
        }
        command.env("GIT_LITERAL_PATHSPECS", "1");
        command.env("GIT_CEILING_DIRECTORIES", self.directory.parent().unwrap_or(&self.directory));
        command.envs(self.environment.iter().map(|(n, v)| (n, v)));
        let name = || arguments.first().map_or_else(String::new, |name| name.as_ref().to_string_lossy().into_owned());
        let output = children::output(command, input, self.patience()).map_err(|why| match why {
            Unfinished::Io(error) => GitError::Start(error),
            Unfinished::TimedOut(patience) => GitError::TimedOut { command: name(), patience },
            Unfinished::Interrupted => GitError::Interrupted { command: name() },
        })?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let message = said.trim();
        let message = if message.is_empty() { output.status.to_string() } else { without_advice(message) };
        Err(GitError::Failed { command: name(), message })
    }

    /// Runs a subcommand that prints one line of text, and returns it without its line end.
    pub fn line<A: AsRef<OsStr>>(&self, arguments: &[A], input: &[u8]) -> Result<String, GitError> {
        Ok(String::from_utf8_lossy(&self.run(arguments, input)?).trim_end_matches('\n').to_owned())
    }
}

/// Removes advice that follows git's error, the line that begins with `fatal:`.
fn without_advice(said: &str) -> String {
    let lines: Vec<&str> = said.lines().collect();
    let end = lines.iter().position(|line| line.starts_with("fatal: ")).map_or(lines.len(), |fatal| fatal + 1);
    lines[..end].join("\n")
}
