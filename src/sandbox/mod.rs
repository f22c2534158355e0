//! Starts, confines and ends processes.
//!
//! A command is never a direct child of this process. This program's own binary is executed again as a helper with two
//! parts: the *supervisor*, outside the sandbox, enforces the time limit and ends everything; *init*, inside it, starts
//! the programs and waits for them. Both end with this process: when the socket to it closes, the supervisor ends the
//! command. Whatever a command leaves running becomes the supervisor's child, however it detached itself.
//!
//! [`Confinement::detect`] finds what the machine supports ([`Tier`]), [`Sandbox::run`] runs one command, [`Sandbox::end`]
//! ends those in the background. `main` passes `__sandbox-exec` to [`helper_main`] before anything else.

mod descendants;
pub mod doctor;
mod environment;
mod helper;
#[cfg(target_os = "linux")]
mod landlock;
pub mod macos;
pub mod named;
mod namespaces;
mod output;
#[cfg(target_os = "linux")]
mod overlay;
pub mod own_command;
pub mod proxy;
mod remembered;
mod run;
#[cfg(target_os = "linux")]
mod seccomp;
mod system;
mod tier;
pub mod toolchains;
mod wire;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub use doctor::Confinement;
pub use helper::{HELPER, ending_with_us, helper_main, make_undumpable, own_executable};
pub use output::{Captured, OutputBounds};
pub use proxy::Names;
pub use run::{Lifeline, Piped, RunOutput};
pub use tier::{Probe, Tier};

pub use crate::policy::grant::Network;

use crate::git::Programs;
use crate::path::Tree;
use crate::policy::CommandPlan;

/// The isolation that the operator requires (`--sandbox`, `sandbox.require`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    /// The strongest available tier.
    Auto,
    /// T2 or better, else an error.
    Require,
    /// None, on the operator's request.
    Off,
    /// At most this tier: for tests, and for an operator whose machine breaks a stronger one.
    AtMost(Tier),
}

/// The parameters of a [`Sandbox`].
pub struct SandboxOptions<'a> {
    /// The isolation of commands.
    pub confinement: Confinement,
    /// This program's executable (`/proc/self/exe` resolved, or `std::env::current_exe`).
    pub helper: PathBuf,
    /// A directory that belongs to this run alone, mode 0700; `home`, `tmp` and mount points are made in it.
    pub private: PathBuf,
    /// The project's root.
    pub workspace: PathBuf,
    /// The programs of the machine.
    pub programs: Programs,
    /// The environment that this process was started with.
    pub environment: BTreeMap<OsString, OsString>,
    /// The facts about the disk by which toolchains are found.
    pub disk: &'a dyn Tree,
    /// `sandbox.read_system`: more directories that may be read.
    pub read_system: Vec<PathBuf>,
    /// How the names of [`Network::Hosts`] are resolved.
    pub names: Names,
    /// `shell.env.pass`: names of variables that are passed on.
    pub env_pass: Vec<String>,
    /// `shell.env.set`: variables that are set, and override others.
    pub env_set: Vec<(String, String)>,
}

/// Why the sandbox refused or failed.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// Isolation was required and is unavailable: exit 44.
    #[error("required isolation is unavailable; this machine provides only {tier}: {reason}")]
    Unmet {
        /// The tier that is available.
        tier: &'static str,
        /// The one thing that would improve it.
        reason: String,
    },
    /// The request cannot be done safely here.
    #[error("{0}")]
    Refused(String),
    /// The sandbox could not be built, so nothing ran.
    #[error("the command was not started: {0}")]
    NotStarted(String),
    /// A file or process is unavailable.
    #[error("{what}: {cause}")]
    Io {
        /// What was tried.
        what: String,
        /// The cause.
        #[source]
        cause: std::io::Error,
    },
}

impl SandboxError {
    pub(super) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> SandboxError {
        let what = what.into();
        move |cause| SandboxError::Io { what, cause }
    }
}

/// The tree that a command works in. The workspace makes it; it is the project's own directory only with `in-place`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LentTree {
    /// A plain directory: a copy of the project.
    Folder(PathBuf),
    /// An overlay that is mounted for the command and seen at `project`: requires T3.
    ///
    /// Staged files and removals are written to `upper` before, and changes are found there afterwards.
    Overlay {
        /// The project's root, never written.
        project: PathBuf,
        /// The changes.
        upper: PathBuf,
        /// The kernel's scratch directory, empty, on the same file system as `upper`.
        work: PathBuf,
    },
}

/// A directory that commands see at another path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounted {
    /// The path that commands see.
    pub at: PathBuf,
    /// The real path.
    pub from: PathBuf,
    /// Whether it may be written.
    pub write: bool,
}

/// What one run of a command needs in addition to its plan.
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// The tree that the command works in.
    pub tree: LentTree,
    /// The path in T3 of a directory of the command workspace; `None` keeps its real path.
    pub seen_at: Option<PathBuf>,
    /// What else may be read, at its real path: the real `.git`, included directories.
    pub read: Vec<PathBuf>,
    /// What else may be written, at its real path: the scratch git directory.
    pub write: Vec<PathBuf>,
    /// What is seen at another path: requires T3.
    pub mounts: Vec<Mounted>,
    /// Paths inside the tree that must stay read-only: requires T3.
    pub read_only: Vec<PathBuf>,
    /// Paths inside the tree that look empty and cannot be written, such as files that must not be read: requires T3.
    ///
    /// A copy does not contain them in the first place.
    pub hidden: Vec<PathBuf>,
    /// Variables that keep git from running configured programs, and others that this one command needs.
    pub variables: Vec<(String, String)>,
    /// The time limit.
    pub timeout: Duration,
    /// Whether it stays in the background until the run ends.
    pub background: bool,
    /// How much of its standard output is kept.
    pub stdout: OutputBounds,
    /// How much of its standard error is kept.
    pub stderr: OutputBounds,
}

impl RunRequest {
    /// Returns a request without options, for a command in a directory.
    pub fn in_folder(folder: impl Into<PathBuf>, timeout: Duration) -> RunRequest {
        RunRequest {
            tree: LentTree::Folder(folder.into()),
            seen_at: None,
            read: Vec::new(),
            write: Vec::new(),
            mounts: Vec::new(),
            read_only: Vec::new(),
            hidden: Vec::new(),
            variables: Vec::new(),
            timeout,
            background: false,
            stdout: OutputBounds::default(),
            stderr: OutputBounds::default(),
        }
    }
}

/// The sandbox of a run: what all of its commands share.
pub struct Sandbox {
    confinement: Confinement,
    names: Names,
    helper: PathBuf,
    private: PathBuf,
    environment: BTreeMap<OsString, OsString>,
    programs: Programs,
    /// Directories of the system and of toolchains that may be read.
    read: Vec<PathBuf>,
    toolchains: toolchains::Toolchains,
    background: Mutex<Vec<run::Background>>,
    /// Supervisors of commands that were cancelled.
    ending: Arc<Mutex<Vec<tokio::process::Child>>>,
}

impl Sandbox {
    /// Prepares what all commands share.
    pub fn new(options: SandboxOptions<'_>) -> Result<Sandbox, SandboxError> {
        let SandboxOptions { confinement, programs, disk, .. } = options;
        let failed = |path: &Path| SandboxError::io(path.display().to_string());
        let private = options.private.canonicalize().map_err(failed(&options.private))?;
        let workspace = options.workspace.canonicalize().map_err(failed(&options.workspace))?;
        let home = options.environment.get(OsStr::new("HOME")).map(PathBuf::from);
        let toolchains = toolchains::find(
            &options.environment,
            disk,
            toolchains::Where {
                workspace: &workspace,
                layers: confinement.tier == Tier::T3,
                network: match confinement.network {
                    Network::Any => true,
                    Network::Hosts(_) => confinement.tier == Tier::T3,
                    Network::None => false,
                },
            },
        );
        let environment = environment::build(&environment::Parts {
            inherited: &options.environment,
            path: programs.path(),
            home: &private.join("home"),
            temporary: &private.join("tmp"),
            toolchains: &toolchains.variables,
            pass: &options.env_pass,
            set: &options.env_set,
            is_root: rustix::process::geteuid().is_root(),
        });
        let mut read = system::readable(disk, &options.read_system);
        read.extend(toolchains.read.iter().cloned());
        if let Ok(helper) = options.helper.canonicalize() {
            // `qwen check repeat` runs inside, too.
            read.push(helper);
        }
        let around = system::Around {
            home: home.as_deref(),
            workspace: &workspace,
            private: &private,
            toolchains: &toolchains::directories(&options.environment),
        };
        read.extend(system::of_path(programs.path(), around, disk));
        read.sort();
        read.dedup();
        Ok(Sandbox {
            confinement,
            names: options.names,
            helper: options.helper,
            private,
            environment,
            programs,
            read,
            toolchains,
            background: Mutex::default(),
            ending: Arc::default(),
        })
    }

    /// Returns the isolation of commands.
    pub fn confinement(&self) -> &Confinement {
        &self.confinement
    }

    /// Returns the tier that commands run in.
    pub fn tier(&self) -> Tier {
        self.confinement.tier
    }

    /// Returns where a command sees the root of its tree.
    pub fn seen_root<'a>(&self, request: &'a RunRequest) -> &'a Path {
        match (&request.tree, &request.seen_at) {
            (LentTree::Folder(_), Some(seen)) if self.tier() == Tier::T3 => seen,
            (LentTree::Folder(folder), _) => folder,
            (LentTree::Overlay { project, .. }, _) => project,
        }
    }

    /// Runs a command to its end, or starts it in the background.
    ///
    /// Dropping the future ends the command and everything that it started.
    pub async fn run(&self, plan: &CommandPlan, request: RunRequest) -> Result<RunOutput, SandboxError> {
        run::run(self, plan, request).await
    }

    /// Starts a program that communicates over its standard input and output, such as an MCP server.
    pub async fn pipe(&self, plan: &CommandPlan, request: RunRequest) -> Result<Piped, SandboxError> {
        run::pipe(self, plan, request).await
    }

    /// Ends the commands in the background, waits for the end of cancelled ones, and returns what each of them printed,
    /// in the order of their start.
    pub async fn end(&self) -> Vec<RunOutput> {
        let background: Vec<_> = {
            let mut held = self.background.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            held.drain(..).collect()
        };
        // All are told first, so that they end in parallel.
        let ending: Vec<_> = background.into_iter().map(run::Background::end).collect();
        let ended = futures_util::future::join_all(ending).await;
        run::settle(&self.ending).await;
        ended
    }
}
