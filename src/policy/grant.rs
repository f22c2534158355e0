//! The permission that the edges demand: built by the policy alone, neither cloned nor defaulted.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::path::RelPath;

/// Leave to do exactly what one call declared.
///
/// The workspace and the process runner take it by reference and refuse whatever it does not name.
pub struct Grant {
    pub(in crate::policy) reads: Vec<(PathBuf, RelPath)>,
    pub(in crate::policy) outside: Vec<(PathBuf, PathBuf)>,
    pub(in crate::policy) writes: Vec<(PathBuf, RelPath)>,
    pub(in crate::policy) command: Option<CommandPlan>,
    pub(in crate::policy) may_read: Arc<dyn Fn(&Path) -> bool + Send + Sync>,
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

    /// Tells whether the workspace may stage a write at this resolved path.
    pub fn covers_write(&self, path: &RelPath) -> bool {
        self.writes.iter().any(|(_, resolved)| resolved == path)
    }

    /// Returns what tells whether the contents of a file met while searching may be shown (policy.md F3, F8 and
    /// `paths.read`), as a value for other threads than the call's. Paths are relative to `root`: the workspace, or a
    /// folder beside it that the call declared.
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
    /// The folder it starts in.
    pub directory: RelPath,
    /// How it is started.
    pub start: Start,
    /// Whether the tables say of every program in it that it writes nothing (what a dry run allows without isolation).
    pub writes_nothing: bool,
    /// Whether a git subcommand in it writes `.git`: it gets a scratch git directory.
    pub writes_git: bool,
    /// The names of the programs in it, for the log.
    pub programs: Vec<String>,
}

/// How an allowed command is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// One pipeline of literal words, without a shell: each program's words, the first one looked up in PATH by us.
    Pipeline(Vec<Vec<String>>),
    /// Our own printing of the parsed form, for `bash --noprofile --norc -c`.
    Script(String),
    /// The model's own text, only under `unanalysable: sandboxed`, isolated and without network.
    AsWritten(String),
}
