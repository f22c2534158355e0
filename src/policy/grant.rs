//! Defines the permission that every access requires: only the policy creates it; it has neither `Clone` nor `Default`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::file::Hosts;
use super::shell::form::Form;
pub use super::shell::form::Start;
use crate::path::RelPath;

/// Permission to do exactly what one call declared.
///
/// The workspace and the process runner take it by reference and refuse everything that it does not name.
pub struct Grant {
    pub(in crate::policy) reads: Vec<(PathBuf, RelPath)>,
    pub(in crate::policy) outside: Vec<(PathBuf, PathBuf)>,
    pub(in crate::policy) writes: Vec<(PathBuf, RelPath)>,
    pub(in crate::policy) command: Option<CommandPlan>,
    pub(in crate::policy) may_read: Arc<dyn Fn(&Path) -> bool + Send + Sync>,
}

impl CommandPlan {
    /// Tells whether it is git and plain readers alone, which the rules on reading have judged word by word.
    pub fn is_git_and_readers(&self) -> bool {
        self.programs.iter().all(|name| name == "git" || super::programs::only_reads(name))
    }

    /// Returns how it is started in a tree that is seen at `root`. Text that could not be read is left as it is.
    pub fn start_at(&self, root: &Path) -> Start {
        self.form.as_ref().map_or_else(|| self.start.clone(), |form: &Arc<Form>| form.start(root))
    }
}

impl Grant {
    /// Returns the resolved path (links followed) of a path that the call declared to read, list or search.
    pub fn readable(&self, given: &Path) -> Option<&RelPath> {
        self.reads.iter().find(|(path, _)| path == given).map(|(_, resolved)| resolved)
    }

    /// Returns the absolute path of what the call declared to read in an included directory or among the full outputs.
    pub fn readable_outside(&self, given: &Path) -> Option<&Path> {
        self.outside.iter().find(|(path, _)| path == given).map(|(_, resolved)| resolved.as_path())
    }

    /// Returns the resolved path of a path that the call declared to write.
    pub fn writable(&self, given: &Path) -> Option<&RelPath> {
        self.writes.iter().find(|(path, _)| path == given).map(|(_, resolved)| resolved)
    }

    /// Returns a filter that tells whether a search may show a file's contents: secret files and paths outside
    /// `paths.read` are left out. It can be used from other threads. Paths are relative to `root`: the workspace, or an
    /// included directory that the call declared.
    pub fn read_filter(&self, root: PathBuf) -> Arc<dyn Fn(&RelPath) -> bool + Send + Sync> {
        let may_read = Arc::clone(&self.may_read);
        Arc::new(move |path| may_read(&path.under(&root)))
    }

    /// Builds a grant without a policy, for tests of what demands one.
    #[cfg(test)]
    pub(crate) fn for_tests(
        reads: &[(&str, &str)],
        writes: &[(&str, &str)],
        may_read: impl Fn(&RelPath) -> bool + Send + Sync + 'static,
    ) -> Grant {
        let pairs = |list: &[(&str, &str)]| {
            let pair = |(given, path): &(&str, &str)| {
                (PathBuf::from(given), RelPath::new(path).expect("a path below the root"))
            };
            list.iter().map(pair).collect()
        };
        Grant {
            reads: pairs(reads),
            writes: pairs(writes),
            outside: Vec::new(),
            command: None,
            // The name is all that a test looks at.
            may_read: Arc::new(move |path| path.file_name().and_then(RelPath::new).is_some_and(|name| may_read(&name))),
        }
    }

    /// Adds a command to a grant of a test.
    #[cfg(test)]
    pub(crate) fn with_command(mut self, plan: CommandPlan) -> Grant {
        self.command = Some(plan);
        self
    }

    /// Returns what may run, if the call declared a command.
    pub fn command(&self) -> Option<&CommandPlan> {
        self.command.as_ref()
    }
}

/// A command as it was understood and as it will run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandPlan {
    /// The directory it starts in.
    pub directory: RelPath,
    /// How it is started in a tree that is seen at the workspace's own place.
    pub start: Start,
    /// The decided form, where it names absolute paths inside the workspace: see [`CommandPlan::start_at`].
    pub form: Option<Arc<Form>>,
    /// What the kernel lets the command do, even if the analysis of its words was wrong.
    pub profile: SandboxProfile,
    /// What it needs of the machine before it may start.
    pub isolation: Isolation,
    /// Absolute paths outside the workspace that the operator's own command names: programs and files that it must see.
    pub named: Vec<PathBuf>,
    /// The names of the programs in it, for the log.
    pub programs: Vec<String>,
    /// Programs of the workspace that it runs, and what belongs to them: they must be as they were when the run began.
    pub unchanged: Vec<RelPath>,
}

/// What the kernel lets a command do, made from the decision: a wrong table costs nothing where it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxProfile {
    /// The command workspace. Home and temporary directory are private and always writable.
    pub tree: TreeAccess,
    /// The hosts.
    pub network: Network,
    /// The repository.
    pub git: GitAccess,
}

/// What a command needs of the machine before it may start, least first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isolation {
    /// Nothing: it consists of plain readers.
    #[default]
    None,
    /// T2 or better, or the operator's `--sandbox off`.
    Waivable,
    /// T2 or better: it cannot be read, or its arguments are a program, and no rule of the operator's own file allows
    /// it.
    Required,
}

/// What a command may do with the files of its command workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TreeAccess {
    /// Read them.
    ReadOnly,
    /// Change them; each change is judged afterwards.
    Writable,
}

/// What a command may do with the repository. The real one is never written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum GitAccess {
    /// Nothing: its objects are not there.
    None,
    /// Read it.
    ReadOnly,
    /// Write a scratch git directory that is dropped with the run.
    Scratch,
}

/// What a process may reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Network {
    /// Nothing; in T3 a loopback of its own.
    None,
    /// These hosts, through this program's proxy: in T3 only; below it no such command runs, except with `--sandbox
    /// off`.
    Hosts(Vec<String>),
    /// Everything.
    Any,
}

impl Network {
    /// Returns what both allow.
    #[must_use]
    pub fn within(self, other: &Network) -> Network {
        match (self, other) {
            (Network::None, _) | (_, Network::None) => Network::None,
            (mine, Network::Any) => mine,
            (Network::Any, Network::Hosts(hosts)) => Network::hosts(hosts.clone()),
            (Network::Hosts(mut mine), Network::Hosts(hosts)) => {
                mine.retain(|host| hosts.contains(host));
                Network::hosts(mine)
            }
        }
    }

    /// Returns the network of a list of hosts; an empty list means no network.
    pub fn hosts(hosts: Vec<String>) -> Network {
        if hosts.is_empty() { Network::None } else { Network::Hosts(hosts) }
    }
}

impl From<Hosts> for Network {
    fn from(hosts: Hosts) -> Network {
        match hosts {
            Hosts::Any => Network::Any,
            Hosts::Only(hosts) => Network::hosts(hosts),
        }
    }
}
