//! Runs commands in the command workspace inside the sandbox, and stages what they changed.

mod git_commands;
mod git_view;
mod held;
pub mod launcher;
pub mod servers;
mod surroundings;
pub mod tools;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use tokio::sync::Mutex;

use crate::change::{Change, ChangeSet, Entry};
use crate::git::Checkout;
use crate::git::repository::Repository;
use crate::model::BoxFuture;
use crate::path::RelPath;
use crate::policy::Facts;
use crate::policy::grant::{GitAccess, TreeAccess};
use crate::policy::{CommandPlan, Policy};
use crate::sandbox::{
    Captured, CommandRoot, Confinement, Demand, EmptyHome, Names, RunOutput, RunRequest, Sandbox, SandboxError,
    SandboxOptions, Tier, named,
};
use crate::tools::mcp::Config;
use crate::tools::{Background, CommandReport, CommandRequest, CommandRunner, MissingOutput, ToolError};
use crate::workspace::Workspace;
use crate::workspace::disk::Disk;
use crate::workspace::temporary::Temporary;
use crate::workspace::tree::{Collected, CommandTree, LeftOut, Scratch, TreeOptions, WhyLeftOut};
use crate::workspace::untouched::Untouched;

use crate::run::rules::judge::judge_change;
use crate::run::runner::launcher::Place;
use crate::run::runner::surroundings::{OBJECTS_AT, TreeMounts};

/// What the commands of a run are started with.
pub struct RunnerOptions {
    /// What is staged.
    pub workspace: Arc<Workspace>,
    /// The workspace's place in its repository.
    pub checkout: Checkout,
    /// The policy that judges what they change.
    pub policy: Policy,
    /// What the policy must know of this run.
    pub facts: Facts,
    /// The required isolation.
    pub demand: Demand,
    /// The environment that this process was started with.
    pub environment: BTreeMap<OsString, OsString>,
    /// This program's executable.
    pub helper: PathBuf,
    /// Whether what they leave in ignored files and directories is delivered (`sandbox.workspace: in-place`).
    pub ignored_outputs: bool,
}

/// Runs the commands of a run.
pub struct Runner {
    options: RunnerOptions,
    private: Temporary,
    confinement: OnceLock<Confinement>,
    sandbox: OnceLock<Sandbox>,
    command_tree: Mutex<Option<CommandTree>>,
    tree_root: OnceLock<PathBuf>,
    happened: Happened,
    /// The project's fingerprint before the first writing command that runs without a private file system.
    attributes: OnceLock<Untouched>,
    /// Whether servers write in the command workspace: after each of their calls changes are then looked for.
    servers_write: OnceLock<bool>,
}

/// What happened so far.
#[derive(Default)]
struct Happened {
    /// A layer could not be mounted, although the probe succeeded.
    mounts_no_layer: AtomicBool,
    /// A copy replaced a layer, without what earlier commands left in ignored directories.
    is_copied_anew: AtomicBool,
    /// The user was told which files commands do not see.
    left_out_said: AtomicBool,
    /// The user was told that programs find no repository.
    no_git_said: AtomicBool,
    /// A command may still run, because the helper that ends it was killed.
    is_out_of_hand: AtomicBool,
}

impl Runner {
    /// Prepares a runner; nothing is started or copied before the first command.
    pub fn new(options: RunnerOptions) -> std::io::Result<Runner> {
        Ok(Runner {
            private: Temporary::outside("run-", options.workspace.root())?,
            options,
            confinement: OnceLock::new(),
            sandbox: OnceLock::new(),
            command_tree: Mutex::default(),
            tree_root: OnceLock::new(),
            happened: Happened::default(),
            attributes: OnceLock::new(),
            servers_write: OnceLock::new(),
        })
    }

    /// Tells whether what commands leave in ignored files and directories is delivered.
    pub fn delivers_ignored(&self) -> bool {
        self.options.ignored_outputs
    }

    /// Gives the tree away in which commands worked; no command is to run any more.
    pub async fn take_tree(&self) -> Option<CommandTree> {
        self.command_tree.lock().await.take()
    }

    /// Returns the directory in which the run's temporary one is.
    pub fn place(&self) -> Option<&Path> {
        self.private.path().parent()
    }

    /// Returns the files that commands see.
    pub fn workspace(&self) -> &Workspace {
        &self.options.workspace
    }

    fn repository(&self) -> Option<&Repository> {
        self.options.checkout.repository.as_ref()
    }

    /// Returns the run's own directory of full outputs.
    pub fn outputs(&self) -> PathBuf {
        self.private.path().join("outputs")
    }

    /// Returns the isolation of commands; the first call detects what the machine supports.
    pub fn confinement(&self) -> Result<&Confinement, SandboxError> {
        if let Some(found) = self.confinement.get() {
            return Ok(found);
        }
        let (network, private) = (self.options.policy.network_shell(), self.private.path());
        let found = Confinement::detect(self.options.demand, network, &self.options.helper, private)?;
        Ok(self.confinement.get_or_init(|| found))
    }

    /// Returns the sandbox of commands; the first call looks for what they may read.
    pub fn sandbox(&self) -> Result<&Sandbox, SandboxError> {
        if let Some(sandbox) = self.sandbox.get() {
            return Ok(sandbox);
        }
        let env = self.options.policy.env();
        let sandbox = Sandbox::new(SandboxOptions {
            confinement: self.confinement()?.clone(),
            helper: self.options.helper.clone(),
            private: self.private.path().to_path_buf(),
            workspace: self.options.workspace.root().to_path_buf(),
            programs: self.options.checkout.programs.clone(),
            environment: self.options.environment.clone(),
            disk: &Disk,
            read_system: self.options.policy.read_system().into_iter().map(PathBuf::from).collect(),
            names: Names::of_the_system(),
            env_pass: env.pass.into_iter().map(|passed| passed.0).collect(),
            env_set: env.set.into_iter().collect(),
        })?;
        Ok(self.sandbox.get_or_init(|| sandbox))
    }

    /// Gives commands an empty home until what it returns is dropped; nothing is to give before the first one.
    pub fn empty_home(&self) -> std::io::Result<Option<EmptyHome>> {
        self.sandbox.get().map(Sandbox::empty_home).transpose()
    }

    /// Lets the next command judge the staged change alone: what other commands have left beside it is removed, and git's
    /// directory is as the repository has it. [`Runner::after_check`] ends that.
    pub async fn before_check(&self) -> Result<(), ToolError> {
        let mut slot = self.command_tree.lock().await;
        let Some(command_tree) = slot.as_mut() else { return Ok(()) };
        let staged = self.options.workspace.changes();
        command_tree.sync_in(&staged).map_err(no_tree)?;
        command_tree.drop_leftovers(&staged).map_err(no_tree)?;
        command_tree
            .lend_git(self.repository(), self.objects_at())
            .map_err(|error| ToolError::failed(format!("cannot make git's directory for the command: {error}")))
    }

    /// Ends what runs in the background, and stages what it has written since.
    pub async fn settle(&self) -> Result<(), ToolError> {
        self.end().await;
        let mut slot = self.command_tree.lock().await;
        let Some(command_tree) = slot.as_mut() else { return Ok(()) };
        // Edits since the last command are not undone.
        command_tree.sync_in(&self.options.workspace.changes()).map_err(no_tree)?;
        self.collect(command_tree).map(drop)
    }

    /// Stages what has changed in the tree; returns what was refused.
    fn collect(&self, command_tree: &mut CommandTree) -> Result<Collected, ToolError> {
        let judge = |path: &RelPath, change: &Change| self.judge(path, change);
        let collected = command_tree.sync_out(&self.options.workspace, &judge).map_err(no_tree)?;
        self.options.workspace.note_refusals(&collected.refused);
        Ok(collected)
    }

    /// Gives the other commands the directory of git back that they had.
    pub async fn after_check(&self) -> Result<(), ToolError> {
        let mut slot = self.command_tree.lock().await;
        let taken = slot.as_mut().map_or(Ok(()), CommandTree::take_git_back);
        taken.map_err(|error| ToolError::failed(format!("cannot put git's directory back: {error}")))
    }

    /// Returns where commands see the repository's objects, if that is another place.
    fn objects_at(&self) -> Option<&'static Path> {
        (self.tier() == Tier::T3).then_some(Path::new(OBJECTS_AT))
    }

    /// Returns the tier of commands; T0 without a sandbox.
    pub fn tier(&self) -> Tier {
        self.confinement().map_or(Tier::T0, Confinement::tier)
    }

    /// Returns where commands see the root of the tree, as text.
    pub fn seen_root(&self) -> String {
        let root = match self.tree_root.get() {
            Some(command_tree) if self.tier() != Tier::T3 => command_tree.as_path(),
            Some(_) | None => self.options.workspace.root(),
        };
        root.display().to_string()
    }

    /// Tells whether a command may still run, because the helper that ends it was killed.
    pub fn is_out_of_hand(&self) -> bool {
        self.happened.is_out_of_hand.load(Ordering::Relaxed)
    }

    /// Returns a path of the project whose mode or time a command has changed: Landlock does not protect these.
    pub fn changed_attribute(&self) -> Option<PathBuf> {
        self.attributes.get().and_then(Untouched::first_attribute)
    }

    /// Remembers the modes and times of the whole repository, where isolation does not hold them.
    fn remember_attributes(&self) {
        if self.tier() == Tier::T2 {
            let repository = self.repository();
            let top = repository.map_or(self.options.workspace.root(), |repository| &repository.top);
            let objects = repository.map(Repository::objects);
            self.attributes.get_or_init(|| Untouched::remember(top, Vec::new(), objects));
        }
    }

    /// Ends what runs in the background.
    pub async fn end(&self) {
        if let Some(sandbox) = self.sandbox.get() {
            let is_lost = sandbox.end().await.iter().any(|output| output.is_out_of_hand);
            self.happened.is_out_of_hand.fetch_or(is_lost, Ordering::Relaxed);
        }
    }

    /// Judges a path that a command changed, like a write of a tool.
    fn judge(&self, path: &RelPath, change: &Change) -> Result<(), String> {
        if change.before != Entry::Absent {
            self.options.policy.may_change(path, &self.options.facts).map_err(|denial| denial.reason)?;
        }
        // The other changes of the command are not known here.
        judge_change(&self.options.policy, &self.options.facts, path, (change, &ChangeSet::default()))
    }

    /// Returns the command workspace as it is staged now; the first call makes it. `alone`: programs in it never overlap.
    fn tree<'s>(
        &self,
        slot: &'s mut Option<CommandTree>,
        until: Option<Instant>,
        alone: bool,
    ) -> Result<&'s mut CommandTree, ToolError> {
        let layers = alone
            && !self.happened.mounts_no_layer.load(Ordering::Relaxed)
            && self.confinement().is_ok_and(Confinement::has_overlay);
        let earlier = if layers { None } else { slot.take_if(|command_tree| command_tree.layer().is_some()) };
        let command_tree = match slot {
            Some(command_tree) => command_tree,
            None => {
                let may_read = self.options.policy.reader(&self.options.facts);
                let options = TreeOptions {
                    repository: self.repository(),
                    may_read: &may_read,
                    copy_max: self.options.policy.copy_max(),
                    parent: Some(self.private.path()),
                    objects_at: self.objects_at(),
                    until,
                    layers,
                    ignored_outputs: self.options.ignored_outputs,
                };
                let made = self.make_tree(&options, earlier.as_ref());
                if made.is_err() {
                    *slot = earlier;
                }
                slot.insert(made?)
            }
        };
        let _first = self.tree_root.set(command_tree.root().to_path_buf());
        command_tree.sync_in(&self.options.workspace.changes()).map_err(no_tree)?;
        command_tree.git().map_or(Ok(()), Scratch::put_settings_back).map_err(|error| {
            ToolError::failed(format!("cannot put back git's settings in the command workspace: {error}"))
        })?;
        Ok(command_tree)
    }

    /// Makes a tree; where it takes the place of another one, what commands left there in ignored directories comes
    /// along if it will be delivered.
    fn make_tree(&self, options: &TreeOptions<'_>, earlier: Option<&CommandTree>) -> Result<CommandTree, ToolError> {
        let mut command_tree = CommandTree::make(self.options.workspace.root(), options).map_err(no_tree)?;
        match earlier {
            Some(earlier) if self.options.ignored_outputs => {
                command_tree.sync_in(&self.options.workspace.changes()).map_err(no_tree)?;
                let taken = command_tree.take_over(earlier, &self.options.workspace.changes());
                taken.map_err(|error| ToolError::failed(format!("cannot create the command workspace: {error}")))?;
            }
            Some(_) => self.happened.is_copied_anew.store(true, Ordering::Relaxed),
            None => {}
        }
        Ok(command_tree)
    }

    /// Makes the command workspace for servers' programs, if there are any, and returns what they are started with.
    ///
    /// If this takes longer than the most patient server waits, it is abandoned and left to the first command.
    pub async fn place_for_servers(&self, programs: &[&Config]) -> Result<Place, ToolError> {
        let mut surroundings = TreeMounts::default();
        let tree = if programs.is_empty() {
            (self.private.path().to_path_buf(), Vec::new())
        } else {
            self.remember_attributes();
            let mut slot = self.command_tree.lock().await;
            let patience = programs.iter().map(|config| config.handshake()).max();
            let command_tree = self.tree(&mut slot, patience.map(|patience| Instant::now() + patience), false)?;
            let found = command_tree.root().to_path_buf();
            let hides_git = self.may_show_unreadable(command_tree);
            let access = if hides_git { GitAccess::None } else { GitAccess::ReadOnly };
            if hides_git {
                command_tree.keep_git_apart().map_err(|error| ToolError::failed(error.to_string()))?;
            }
            surroundings = self.surroundings(command_tree, TreeAccess::ReadOnly, access, hides_git);
            (found, std::mem::take(&mut surroundings.read))
        };
        let writes = programs.iter().any(|config| !self.options.policy.mcp_write(&config.name).is_empty());
        let _first = self.servers_write.set(writes);
        Ok(Place {
            policy: self.options.policy.clone(),
            workspace: self.options.workspace.root().to_path_buf(),
            tree,
            mounts: surroundings.mounts,
            read_only: surroundings.read_only,
            hidden: surroundings.hidden,
            seen_at_home: self.tier() == Tier::T3,
            private: self.private.path().to_path_buf(),
            demand: self.options.demand,
            programs: self.options.checkout.programs.clone(),
            environment: self.options.environment.clone(),
            helper: self.options.helper.clone(),
        })
    }

    async fn show(&self) -> Result<(), ToolError> {
        match self.command_tree.lock().await.as_mut() {
            Some(command_tree) => command_tree.sync_in(&self.options.workspace.changes()).map_err(no_tree),
            None => Ok(()),
        }
    }

    async fn take(&self) -> Result<Vec<String>, ToolError> {
        if self.servers_write.get() != Some(&true) {
            return Ok(Vec::new());
        }
        let mut slot = self.command_tree.lock().await;
        let Some(command_tree) = slot.as_mut() else { return Ok(Vec::new()) };
        let collected = self.collect(command_tree)?;
        Ok(refusals(&collected))
    }

    /// Starts a command in its tree and waits for its end; the outer error says why it must not be started.
    async fn start(
        &self,
        sandbox: &Sandbox,
        command_tree: &mut CommandTree,
        plan: &CommandPlan,
        request: &CommandRequest,
    ) -> Result<Result<RunOutput, SandboxError>, ToolError> {
        if plan.profile.tree == TreeAccess::Writable {
            self.remember_attributes();
        }
        let hides_git = self.hides_git(plan, command_tree);
        if hides_git {
            command_tree.keep_git_apart().map_err(|error| ToolError::failed(error.to_string()))?;
        }
        let command_tree = &*command_tree;
        let mut around = self.surroundings(command_tree, plan.profile.tree, plan.profile.git, hides_git);
        let held = [self.pinned(plan, command_tree)?, self.unchanged(plan, command_tree)?].concat();
        let seen_at_home = sandbox.tier() == Tier::T3;
        if seen_at_home {
            // What was checked is what runs, whatever the rest of the command does.
            around.read_only.extend(held);
        }
        let home = self.options.environment.get(OsStr::new("HOME")).map(Path::new);
        around.read.extend(named::shown(plan.named.iter().map(PathBuf::as_path), home));
        let tree = match command_tree.layer() {
            Some(layer) => CommandRoot::Overlay {
                project: command_tree.root().to_path_buf(),
                upper: layer.upper().to_path_buf(),
                work: layer.work().to_path_buf(),
            },
            None => CommandRoot::Folder(command_tree.root().to_path_buf()),
        };
        let variables = request.variables.0.clone();
        let run = RunRequest {
            tree,
            seen_at: Some(self.options.workspace.root().to_path_buf()),
            read: around.read,
            write: around.write,
            mounts: around.mounts,
            read_only: around.read_only,
            hidden: around.hidden,
            variables: self.git_variables(sandbox, command_tree, plan).into_iter().chain(variables).collect(),
            background: request.background,
            ..RunRequest::in_folder(command_tree.root(), request.timeout)
        };
        // An absolute path must not lead a command into the project if it sees the tree at another path.
        let start = if seen_at_home { plan.start.clone() } else { plan.start_at(command_tree.root()) };
        Ok(sandbox.run(&CommandPlan { start, ..plan.clone() }, run).await)
    }

    async fn run_command(&self, plan: &CommandPlan, request: CommandRequest) -> Result<CommandReport, ToolError> {
        let sandbox = self.sandbox().map_err(|error| ToolError::failed(error.to_string()))?;
        let mut slot = self.command_tree.lock().await;
        let alone = !request.background;
        let mut command_tree = self.tree(&mut slot, None, alone)?;
        let mut output = self.start(sandbox, command_tree, plan, &request).await;
        if command_tree.layer().is_some() && matches!(output, Ok(Err(SandboxError::NotStarted(_)))) {
            // Nothing ran. A trial on another directory succeeded, but this one does not support layers.
            self.happened.mounts_no_layer.store(true, Ordering::Relaxed);
            command_tree = self.tree(&mut slot, None, alone)?;
            output = self.start(sandbox, command_tree, plan, &request).await;
        }
        let output = output?.map_err(|error| ToolError::failed(error.to_string()))?;
        self.happened.is_out_of_hand.fetch_or(output.is_out_of_hand, Ordering::Relaxed);
        let collected = self.collect(command_tree)?;
        let notes = self.notes(plan, command_tree, &output, &collected);
        let bytes = |captured: &Captured| (captured.text(), captured.missing);
        let ((stdout, stdout_missing), (stderr, stderr_missing)) = (bytes(&output.stdout), bytes(&output.stderr));
        Ok(CommandReport {
            sandboxed: output.sandboxed(),
            stdout,
            stderr,
            missing: MissingOutput { stdout: stdout_missing, stderr: stderr_missing },
            exit_code: output.exit_code,
            signal: output.signal,
            timed_out: output.timed_out,
            background: Background::of(output.pgid, &output.background_pids),
            duration: output.duration,
            argv: output.argv,
            notes,
            changed: collected.staged.iter().map(|(path, _)| path.to_string_lossy()).collect(),
        })
    }

    /// Says what the reader of a command's output should know; some of it once a run.
    fn notes(
        &self,
        plan: &CommandPlan,
        command_tree: &CommandTree,
        output: &RunOutput,
        collected: &Collected,
    ) -> Vec<String> {
        let mut notes = output.notes.clone();
        if self.happened.is_copied_anew.swap(false, Ordering::Relaxed) {
            notes.push("commands now run in a fresh copy; ignored build output is not available".to_owned());
        }
        if !self.happened.left_out_said.swap(true, Ordering::Relaxed) {
            notes.extend(not_there(command_tree.left_out()));
            if self.repository().is_some() && command_tree.git().is_none() {
                notes.push(
                    "commands get no git repository: its objects or references are outside its own directory"
                        .to_owned(),
                );
            }
        }
        if self.hides_git(plan, command_tree) && !self.happened.no_git_said.swap(true, Ordering::Relaxed) {
            notes.push(
                "programs get no git repository, since its history may contain files that may not be read; run `git` \
                 in a command of its own"
                    .to_owned(),
            );
        }
        notes.extend(refusals(collected));
        if plan.profile.git == GitAccess::Scratch && plan.programs.iter().any(|name| name == "git") {
            notes.push("git changes made by this command are discarded when the run ends".to_owned());
        }
        notes
    }
}

fn refusals(collected: &Collected) -> Vec<String> {
    let refused = collected.refused.iter();
    refused.map(|(path, reason)| format!("the change to {path} was undone: {reason}")).collect()
}

/// Names some files that commands do not see; `None` if none is of interest.
fn not_there(left_out: &[LeftOut]) -> Option<String> {
    const NAMED: usize = 5;
    let why = |left: &LeftOut| match left.why {
        WhyLeftOut::Denied => Some("may not be read"),
        WhyLeftOut::TooLarge => Some("ignored, and more than sandbox.copy_max"),
        WhyLeftOut::Unreadable => Some("cannot be read"),
        WhyLeftOut::Special => None,
    };
    let all: Vec<String> = left_out.iter().filter_map(|left| Some(format!("{} ({})", left.path, why(left)?))).collect();
    let rest = all.len().saturating_sub(NAMED);
    let more = if rest > 0 { format!(", and {rest} more") } else { String::new() };
    (!all.is_empty()).then(|| format!("commands do not see {}{more}", all[..all.len().min(NAMED)].join(", ")))
}

impl CommandRunner for Runner {
    fn run<'a>(
        &'a self,
        plan: &'a CommandPlan,
        request: CommandRequest,
    ) -> BoxFuture<'a, Result<CommandReport, ToolError>> {
        Box::pin(self.run_command(plan, request))
    }

    fn show_staged<'a>(&'a self) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(self.show())
    }

    fn take_changes<'a>(&'a self) -> BoxFuture<'a, Result<Vec<String>, ToolError>> {
        Box::pin(self.take())
    }
}

fn no_tree(error: crate::workspace::WorkspaceError) -> ToolError {
    ToolError::failed(format!("cannot create the command workspace: {error}"))
}
