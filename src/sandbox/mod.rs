//! Starts, confines and ends processes.
//!
//! A command is never a direct child of this process. This program's own binary is executed again as a helper with two
//! parts: the *supervisor*, outside the sandbox, enforces the time limit and ends everything; *init*, inside it, starts
//! the programs and waits for them. Both end with this process: when the socket to it closes, the supervisor ends the
//! command. Whatever a command leaves running becomes the supervisor's child, however it detached itself.
//!
//! [`Confinement::detect`] finds what the machine supports ([`Tier`]), [`Sandbox::run`] runs one command, [`Sandbox::end`]
//! ends those in the background. `main` passes `__sandbox-exec` to [`helper_main`] before anything else.

pub mod beside;
mod descendants;
pub mod doctor;
mod empty_home;
mod environment;
mod executable;
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
mod request;
mod run;
mod running;
#[cfg(target_os = "linux")]
mod seccomp;
mod system;
mod tier;
pub mod toolchains;
mod view;
mod wire;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

pub use doctor::Confinement;
pub use empty_home::EmptyHome;
pub use executable::{HELPER, own_executable};
pub use helper::{helper_main, make_undumpable};
pub use output::{Captured, OutputBounds};
pub use proxy::Names;
pub use request::{BindMount, CommandRoot, Demand, RunRequest, SandboxError};
pub use running::{Lifeline, Piped, RunOutput};
pub use tier::{Probe, Tier};

pub use crate::policy::grant::Network;

use crate::git::Programs;
use crate::path::Tree;

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
    background: Mutex<Vec<running::Background>>,
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
        let around = system::Around {
            home: options.environment.get(OsStr::new("HOME")).map(Path::new),
            workspace: &workspace,
            private: &private,
            toolchains: &toolchains::directories(&options.environment),
        };
        let mut read = system::readable(disk, &options.read_system);
        read.extend(toolchains.read.iter().cloned());
        // `qwen check repeat` runs inside, too.
        read.extend(options.helper.canonicalize());
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

    /// Gives commands an empty home and temporary directory until what it returns is dropped.
    pub fn empty_home(&self) -> std::io::Result<EmptyHome> {
        EmptyHome::make(&self.private)
    }

    /// Returns where a command sees the root of its tree.
    pub fn seen_root<'a>(&self, request: &'a RunRequest) -> &'a Path {
        match (&request.tree, &request.seen_at) {
            (CommandRoot::Folder(_), Some(seen)) if self.tier() == Tier::T3 => seen,
            (CommandRoot::Folder(folder), _) => folder,
            (CommandRoot::Overlay { project, .. }, _) => project,
        }
    }
}
