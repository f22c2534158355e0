//! Runs commands: decides what each may touch, and tells the helper.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use tokio::net::unix::pipe;

use super::environment::is_valid;
use super::request::{CommandRoot, Demand, RunRequest, SandboxError};
use super::running::{Background, PATIENCE, Piped, RunOutput, finish, settle, start};
use super::tier::Tier;
use super::view::{Mount, Source, View};
use super::wire::{Instructions, Kept, Permissions, Program};
use super::{Names, Sandbox, macos, proxy, system};
use crate::policy::CommandPlan;
use crate::policy::grant::{GitAccess, Network, Start, TreeAccess};

impl Sandbox {
    /// Runs a command to its end, or starts it in the background.
    ///
    /// Dropping the future ends the command and everything that it started.
    pub async fn run(&self, plan: &CommandPlan, request: RunRequest) -> Result<RunOutput, SandboxError> {
        let instructions = self.instructions(plan, &request)?;
        let (running, group, pids) = start(&self.helper, &self.ending, &instructions, self.proxied(plan), None).await?;
        let known = RunOutput { pgid: group, ..RunOutput::nothing(argv_of(plan), self.tier()) };
        if !request.background {
            let most = request.timeout.saturating_add(PATIENCE);
            return Ok(finish(running, known, Some(most), request.stdout, request.stderr).await);
        }
        let background = Background::new(running, known.clone(), request.stdout, request.stderr)?;
        self.background.lock().unwrap_or_else(PoisonError::into_inner).push(background);
        Ok(RunOutput { background_pids: pids, ..known })
    }

    /// Starts a program that communicates over its standard input and output, such as an MCP server.
    pub async fn pipe(&self, plan: &CommandPlan, request: RunRequest) -> Result<Piped, SandboxError> {
        let instructions = Instructions { timeout: None, ..self.instructions(plan, &request)? };
        let failed = || SandboxError::io("a pipe");
        let (theirs, ours) = io::pipe().map_err(failed())?;
        let (running, ..) =
            start(&self.helper, &self.ending, &instructions, self.proxied(plan), Some(theirs.into())).await?;
        Ok(running.piped(pipe::Sender::from_owned_fd(ours.into()).map_err(failed())?))
    }

    /// Ends the commands in the background, waits for the end of cancelled ones, and returns what each of them printed,
    /// in the order of their start.
    pub async fn end(&self) -> Vec<RunOutput> {
        let background: Vec<_> = self.background.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect();
        // All are told first, so that they end in parallel.
        let ending: Vec<_> = background.into_iter().map(Background::end).collect();
        let ended = futures_util::future::join_all(ending).await;
        settle(&self.ending).await;
        ended
    }

    /// Returns what a command may reach.
    fn network(&self, plan: &CommandPlan) -> Network {
        match plan.start {
            Start::AsWritten(_) => Network::None,
            Start::Pipeline(_) | Start::Script(_) => self.confinement.network_of(plan),
        }
    }

    /// Returns the hosts that a command reaches through a proxy. Below T3 either nothing is started or nothing is
    /// restricted.
    fn proxied(&self, plan: &CommandPlan) -> Option<(Vec<String>, Names)> {
        match self.network(plan) {
            Network::Hosts(hosts) if self.tier() == Tier::T3 => Some((hosts, self.names.clone())),
            Network::Hosts(_) | Network::Any | Network::None => None,
        }
    }

    /// Refuses what this machine cannot do safely.
    fn check(&self, plan: &CommandPlan, request: &RunRequest) -> Result<(), SandboxError> {
        let refused = |why: &str| Err(SandboxError::Refused(why.to_owned()));
        self.confinement.may_run(plan)?;
        // With `--sandbox off` the operator accepts that nothing is hidden; a weak machine must not decide that.
        if !request.mounts.is_empty() && self.tier() != Tier::T3 {
            return refused("a directory can be mounted elsewhere only in T3");
        }
        let held_back = !request.read_only.is_empty() || !request.hidden.is_empty();
        if held_back && self.tier() != Tier::T3 && self.confinement.demand != Demand::Off {
            return refused("parts of a command workspace can be hidden only in T3; use a copy without them");
        }
        if matches!(request.tree, CommandRoot::Overlay { .. }) && !self.confinement.has_overlay() {
            return refused("an overlay can be used only in T3; use a copy");
        }
        Ok(())
    }

    /// Converts a plan to the helper's instructions.
    fn instructions(&self, plan: &CommandPlan, request: &RunRequest) -> Result<Instructions, SandboxError> {
        self.check(plan, request)?;
        let directory = plan.directory.under(self.seen_root(request));
        let permissions = self.permissions(plan, request);
        let mut environment = self.environment.clone();
        environment.extend(request.variables.iter().map(|(name, value)| (name.into(), value.into())));
        environment.insert("PWD".into(), directory.clone().into());
        environment.retain(|name, value| is_valid(name, value));
        if permissions.proxied {
            environment.extend(proxy::variables().into_iter().map(|(name, value)| (name.into(), value.into())));
        }
        let mut programs = self.programs(plan, &directory, request);
        if cfg!(target_os = "macos") && self.tier().isolates() {
            let options = macos::options(&permissions.read, &permissions.write, permissions.network);
            programs.iter_mut().for_each(|program| macos::wrap(program, &options));
        }
        Ok(Instructions {
            programs,
            directory: directory.into(),
            environment: environment.into_iter().collect(),
            timeout: (!request.background).then_some(request.timeout),
            permissions,
        })
    }

    fn permissions(&self, plan: &CommandPlan, request: &RunRequest) -> Permissions {
        let root = self.seen_root(request);
        let read_only = plan.profile.tree == TreeAccess::ReadOnly;
        let mut write: Vec<PathBuf> = super::doctor::HOME_AND_TMP.map(|name| self.private.join(name)).into();
        if !read_only {
            write.push(root.into());
        }
        write.extend(request.write.iter().cloned());
        let mut read = [self.read.as_slice(), &request.read].concat();
        let view = (self.tier() == Tier::T3).then(|| self.view(request, plan.profile.tree, &read, &write));
        // With scratch layers, caches can be written: the layers take the writes.
        let caches = if view.is_some() { &mut write } else { &mut read };
        caches.extend(self.toolchains.layered.iter().cloned());
        if view.is_some() {
            write.extend(self.toolchains.scratch.iter().cloned());
        }
        for mounted in &request.mounts {
            if mounted.write { &mut write } else { &mut read }.push(mounted.at.clone());
        }
        if read_only {
            // Only here: in namespaces the tree is mounted separately.
            read.push(root.into());
        }
        let own = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
        Permissions {
            tier: self.tier(),
            read: read.into_iter().map(OsString::from).collect(),
            write: write.into_iter().map(OsString::from).collect(),
            devices: system::DEVICES.iter().map(OsString::from).collect(),
            network: self.network(plan) == Network::Any,
            proxied: self.proxied(plan).is_some(),
            kept: match plan.profile.git {
                // Git sets modes of its own files, and a new time on an object that it needs again: also on one of the
                // real repository. Where it cannot, it makes its own copy.
                GitAccess::Scratch if plan.is_git_and_readers() => Kept::Times,
                GitAccess::None | GitAccess::ReadOnly if read_only => Kept::Attributes,
                GitAccess::None | GitAccess::ReadOnly | GitAccess::Scratch => Kept::Nothing,
            },
            view,
            guarded: vec![own, -rustix::process::getpgrp().as_raw_nonzero().get()],
            threads: own_threads(),
        }
    }

    /// Builds the view of a command: what it may read and write, and its tree, each at its path.
    fn view(&self, request: &RunRequest, tree: TreeAccess, read: &[PathBuf], write: &[PathBuf]) -> View {
        let read_only = tree == TreeAccess::ReadOnly;
        let tree_at = self.seen_root(request);
        let temporary = self.private.join("tmp");
        let mut mounts: Vec<(PathBuf, Source)> = vec![("/tmp".into(), Source::Write(temporary.into()))];
        mounts.extend(read.iter().map(|path| (path.clone(), Source::Read(path.into()))));
        mounts.extend(
            write.iter().filter(|path| *path != tree_at).map(|path| (path.clone(), Source::Write(path.into()))),
        );
        mounts.extend(self.toolchains.scratch.iter().map(|path| (path.clone(), Source::Scratch)));
        mounts.extend(self.toolchains.layered.iter().map(|path| (path.clone(), Source::Layered(path.into()))));
        mounts.extend(request.mounts.iter().map(|mounted| {
            let from = OsString::from(&mounted.from);
            (mounted.at.clone(), if mounted.write { Source::Write(from) } else { Source::Made(from) })
        }));
        mounts.push((
            tree_at.to_path_buf(),
            match &request.tree {
                CommandRoot::Folder(folder) if read_only => Source::Made(folder.into()),
                CommandRoot::Folder(folder) => Source::Write(folder.into()),
                CommandRoot::Overlay { project, upper, work } => {
                    Source::Overlay { lower: project.into(), upper: upper.into(), work: work.into(), read_only }
                }
            },
        ));
        // Parents first; a stable sort, so that writable paths win over readable ones at the same place.
        mounts.sort_by(|(one, _), (other, _)| one.components().cmp(other.components()));
        View {
            mounts: mounts.into_iter().map(|(at, what)| Mount { at: at.into(), what }).collect(),
            read_only: request.read_only.iter().map(|path| tree_at.join(path).into()).collect(),
            hidden: request.hidden.iter().map(|path| tree_at.join(path).into()).collect(),
            ..View::empty(&self.private)
        }
    }

    fn programs(&self, plan: &CommandPlan, directory: &Path, request: &RunRequest) -> Vec<Program> {
        let bash = |text: &String| {
            let file = self.programs.find("bash").ok().map(|program| program.path().into());
            let words = ["bash", "--noprofile", "--norc", "-c", text].map(OsString::from).into();
            vec![Program { file, words }]
        };
        match &plan.start {
            Start::Script(text) | Start::AsWritten(text) => bash(text),
            Start::Pipeline(pipeline) => pipeline
                .iter()
                .map(|words| {
                    let name = words.first().map_or("", String::as_str);
                    let file = if name.contains('/') {
                        // A program of the workspace, as the command workspace has it; the system's programs are named by
                        // their own path.
                        Some(directory.join(name))
                    } else if name == "qwen" {
                        Some(self.helper.clone())
                    } else {
                        let found = self.programs.find(name).ok().map(|program| program.path().to_path_buf());
                        found.filter(|file| !file.starts_with(self.seen_root(request)))
                    };
                    Program { file: file.map(OsString::from), words: words.iter().map(OsString::from).collect() }
                })
                .collect(),
        }
    }
}

/// Returns the lowest and the highest number of this process's threads.
fn own_threads() -> Option<(i32, i32)> {
    let listed = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let numbers: Vec<i32> = listed.filter_map(|thread| thread.file_name().to_str()?.parse().ok()).collect();
    Some((*numbers.iter().min()?, *numbers.iter().max()?))
}

fn argv_of(plan: &CommandPlan) -> Vec<String> {
    match &plan.start {
        Start::Pipeline(programs) => programs.join(&"|".to_owned()),
        Start::Script(text) | Start::AsWritten(text) => {
            ["bash", "--noprofile", "--norc", "-c", text].map(str::to_owned).into()
        }
    }
}
