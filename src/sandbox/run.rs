//! Runs one command from start to end, on this side of the socket.

#![expect(clippy::disallowed_methods, reason = "commands are started here")]

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use super::environment::is_valid;
use super::namespaces::View;
use super::output::{Capture, Captured, OutputBounds};
use super::proxy::{self, Proxy};
use super::tier::Tier;
use super::wire::{self, End, Instructions, Program, Report, Wall};
use super::{Demand, HELPER, LentTree, Network, RunRequest, Sandbox, SandboxError};
use super::{macos, system};
use crate::policy::CommandPlan;
use crate::policy::grant::{GitAccess, Start, TreeAccess};

/// How long the helper may exceed the command's own time limit before it is abandoned.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long an output may stay open after everything that could write to it has ended.
const DRAIN: Duration = Duration::from_secs(1);

/// How a command ended and what it printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOutput {
    /// What was started: the first program's words, or the shell's.
    pub argv: Vec<String>,
    /// Its standard output.
    pub stdout: Captured,
    /// Its standard error.
    pub stderr: Captured,
    /// Its exit code; `None` if a signal or the timeout ended it, or while it runs in the background.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Whether it timed out.
    pub timed_out: bool,
    /// Its process group, as numbered inside.
    pub pgid: i32,
    /// Its processes if it stays in the background, as numbered inside.
    pub background_pids: Vec<i32>,
    /// How long it ran.
    pub duration: Duration,
    /// The tier that it ran in.
    pub tier: Tier,
    /// Notes for the reader: processes that were left over, an output that stayed open.
    pub notes: Vec<String>,
}

impl RunOutput {
    /// Tells whether the kernel isolated it.
    pub fn sandboxed(&self) -> bool {
        self.tier.isolates()
    }
}

/// A program that communicates over its standard input and output. Dropping it ends the program and all it started.
pub struct Piped {
    /// Its standard input.
    pub stdin: pipe::Sender,
    /// Its standard output.
    pub stdout: pipe::Receiver,
    /// Its standard error.
    pub stderr: pipe::Receiver,
    /// Keeps it alive.
    pub lifeline: Lifeline,
}

/// The supervisor's process. If dropped before its end, it is passed to the sandbox, which waits for it: until then its
/// programs may still be running.
struct Keeper {
    child: Option<Child>,
    ending: Arc<Mutex<Vec<Child>>>,
}

impl Keeper {
    async fn wait(&mut self) {
        if let Some(child) = &mut self.child
            && child.wait().await.is_ok()
        {
            self.child = None;
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            self.ending.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(child);
        }
    }
}

/// Waits until cancelled commands have ended.
pub(super) async fn settle(ending: &Mutex<Vec<Child>>) {
    let children = std::mem::take(&mut *ending.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    let all = children.into_iter().map(|mut child| async move { child.wait().await });
    let _too_late = tokio::time::timeout(PATIENCE, futures_util::future::join_all(all)).await;
}

/// The socket to the supervisor: dropping it ends the program.
pub struct Lifeline {
    reports: Lines<BufReader<UnixStream>>,
    _keeper: Keeper,
    _proxy: Option<Proxy>,
}

impl Lifeline {
    /// Waits until the program has ended by itself; returns its exit code, if it has one.
    pub async fn ended(&mut self) -> Option<i32> {
        end_of(&mut self.reports).await.ok()?.code
    }
}

/// A command in the background.
pub(super) struct Background {
    stop: StdUnixStream,
    ending: JoinHandle<RunOutput>,
    argv: Vec<String>,
    tier: Tier,
}

impl Background {
    /// Asks the command to end; the future then waits for that.
    pub(super) fn end(self) -> impl Future<Output = RunOutput> {
        let _ended_already = self.stop.shutdown(std::net::Shutdown::Write);
        async move {
            let ended = tokio::time::timeout(PATIENCE, self.ending).await;
            match ended {
                Ok(Ok(output)) => output,
                Ok(Err(_)) | Err(_) => RunOutput {
                    notes: vec!["it did not end in time; its output is lost".to_owned()],
                    ..nothing(self.argv, self.tier)
                },
            }
        }
    }
}

fn nothing(argv: Vec<String>, tier: Tier) -> RunOutput {
    RunOutput {
        argv,
        stdout: Captured::default(),
        stderr: Captured::default(),
        exit_code: None,
        signal: None,
        timed_out: false,
        pgid: 0,
        background_pids: Vec::new(),
        duration: Duration::ZERO,
        tier,
        notes: Vec::new(),
    }
}

pub(super) async fn run(sandbox: &Sandbox, plan: &CommandPlan, request: RunRequest) -> Result<RunOutput, SandboxError> {
    let instructions = prepare(sandbox, plan, &request)?;
    let argv = argv_of(plan);
    let mut running = start(sandbox, plan, &instructions, None).await?;
    let begin = Instant::now();
    let (group, pids) = started(&mut running.reports).await?;
    let known = RunOutput { pgid: group, ..nothing(argv.clone(), sandbox.tier()) };
    if !request.background {
        let most = request.timeout.saturating_add(PATIENCE);
        return Ok(finish(running, known, begin, Some(most), request.stdout, request.stderr).await);
    }
    let stop = running.stop.try_clone().map_err(SandboxError::io("the socket to the helper"))?;
    let tier = sandbox.tier();
    let ending = tokio::spawn(finish(running, known.clone(), begin, None, request.stdout, request.stderr));
    let mut held = sandbox.background.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    held.push(Background { stop, ending, argv, tier });
    Ok(RunOutput { background_pids: pids, ..known })
}

pub(super) async fn pipe(sandbox: &Sandbox, plan: &CommandPlan, request: RunRequest) -> Result<Piped, SandboxError> {
    let mut instructions = prepare(sandbox, plan, &request)?;
    instructions.timeout = None;
    let failed = || SandboxError::io("a pipe");
    let (theirs, ours) = io::pipe().map_err(failed())?;
    let mut running = start(sandbox, plan, &instructions, Some(theirs.into())).await?;
    started(&mut running.reports).await?;
    let stdin = pipe::Sender::from_owned_fd(ours.into()).map_err(failed())?;
    let lifeline = Lifeline { reports: running.reports, _keeper: running.keeper, _proxy: running.proxy };
    Ok(Piped { stdin, stdout: running.stdout, stderr: running.stderr, lifeline })
}

/// A command that was passed to the helper.
struct Running {
    reports: Lines<BufReader<UnixStream>>,
    stop: StdUnixStream,
    stdout: pipe::Receiver,
    stderr: pipe::Receiver,
    keeper: Keeper,
    proxy: Option<Proxy>,
}

async fn start(
    sandbox: &Sandbox,
    plan: &CommandPlan,
    what: &Instructions,
    stdin: Option<OwnedFd>,
) -> Result<Running, SandboxError> {
    let failed = || SandboxError::io("the socket to the helper");
    let body = serde_json::to_vec(what).map_err(io::Error::from).map_err(failed())?;
    let (ours, theirs) = StdUnixStream::pair().map_err(failed())?;
    let (stdout, stdout_theirs) = io::pipe().map_err(failed())?;
    let (stderr, stderr_theirs) = io::pipe().map_err(failed())?;
    let mut command = Command::new(&sandbox.helper);
    command.arg(HELPER).arg("keep").env_clear().current_dir("/");
    command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().map_err(SandboxError::io(format!("the helper {}", sandbox.helper.display())))?;
    let keeper = Keeper { child: Some(child), ending: Arc::clone(&sandbox.ending) };
    // The command holds a copy of the helper's end: without this the end of the helper would never be seen.
    drop(command);
    let mut descriptors: Vec<BorrowedFd<'_>> = vec![stdout_theirs.as_fd(), stderr_theirs.as_fd()];
    descriptors.extend(stdin.as_ref().map(AsFd::as_fd));
    let to_proxy = if what.wall.proxied { Some(StdUnixStream::pair().map_err(failed())?) } else { None };
    descriptors.extend(to_proxy.as_ref().map(|(_, theirs)| theirs.as_fd()));
    wire::send_head(&ours, body.len(), &descriptors).map_err(failed())?;
    let stop = ours.try_clone().map_err(failed())?;
    ours.set_nonblocking(true).map_err(failed())?;
    let mut control = UnixStream::from_std(ours).map_err(failed())?;
    control.write_all(&body).await.map_err(failed())?;
    let proxy = match (to_proxy, sandbox.confinement.network_of(plan)) {
        (Some((ours, _)), Network::Hosts(hosts)) => {
            Some(Proxy::start(ours, hosts, sandbox.names.clone()).map_err(failed())?)
        }
        (Some(_) | None, _) => None,
    };
    Ok(Running {
        reports: BufReader::new(control).lines(),
        stop,
        stdout: pipe::Receiver::from_owned_fd(stdout.into()).map_err(failed())?,
        stderr: pipe::Receiver::from_owned_fd(stderr.into()).map_err(failed())?,
        keeper,
        proxy,
    })
}

/// Reads the next report; `None` when the helper is gone.
async fn next(reports: &mut Lines<BufReader<UnixStream>>) -> Option<Report> {
    serde_json::from_str(&reports.next_line().await.ok()??).ok()
}

/// Waits until the command runs. A sandbox that could not be built clears the cached result.
async fn started(reports: &mut Lines<BufReader<UnixStream>>) -> Result<(i32, Vec<i32>), SandboxError> {
    let started = first_report(reports).await;
    if started.is_err() {
        super::doctor::forget();
    }
    started
}

async fn first_report(reports: &mut Lines<BufReader<UnixStream>>) -> Result<(i32, Vec<i32>), SandboxError> {
    let Ok(first) = tokio::time::timeout(PATIENCE, next(reports)).await else {
        return Err(SandboxError::NotStarted("the helper hangs while it sets up the sandbox".to_owned()));
    };
    match first {
        Some(Report::Started { group, pids }) => Ok((group, pids)),
        Some(Report::Failed(why)) => Err(SandboxError::NotStarted(why)),
        Some(Report::Ended(_) | Report::Probed(_)) | None => {
            Err(SandboxError::NotStarted("the helper ended without a report".to_owned()))
        }
    }
}

/// Waits for the report of the end; the error is a message to show instead.
async fn end_of(reports: &mut Lines<BufReader<UnixStream>>) -> Result<End, String> {
    loop {
        match next(reports).await {
            Some(Report::Ended(end)) => return Ok(end),
            Some(Report::Failed(why)) => return Err(why),
            Some(Report::Started { .. } | Report::Probed(_)) => {}
            None => return Err("the helper was killed; what the command started may still run".to_owned()),
        }
    }
}

async fn finish(
    mut running: Running,
    known: RunOutput,
    begin: Instant,
    most: Option<Duration>,
    stdout: OutputBounds,
    stderr: OutputBounds,
) -> RunOutput {
    let (mut out, mut err) = (Capture::new(stdout), Capture::new(stderr));
    let mut notes = Vec::new();
    let end = {
        let both = async { tokio::join!(drain(&mut running.stdout, &mut out), drain(&mut running.stderr, &mut err)) };
        tokio::pin!(both);
        let end = async {
            let end = end_of(&mut running.reports);
            match most {
                Some(most) => tokio::time::timeout(most, end).await.unwrap_or(Err("the helper hangs".to_owned())),
                None => end.await,
            }
        };
        tokio::pin!(end);
        let mut drained = false;
        let end = loop {
            tokio::select! {
                end = &mut end => break end,
                _ = &mut both, if !drained => drained = true,
            }
        };
        if !drained && tokio::time::timeout(DRAIN, both).await.is_err() {
            notes.push("the output was still open after the end, and was cut there".to_owned());
        }
        end
    };
    let duration = begin.elapsed();
    let end = end.unwrap_or_else(|why| {
        notes.push(why);
        End { signal: Some(9), ..End::default() }
    });
    match end.left_over {
        0 => {}
        1 => notes.push("1 process was left over and was ended".to_owned()),
        many => notes.push(format!("{many} processes were left over and were ended")),
    }
    notes.extend(running.proxy.iter().flat_map(Proxy::refused));
    // Reaps the helper, which has nothing left to do.
    let _reaped = tokio::time::timeout(DRAIN, running.keeper.wait()).await;
    RunOutput {
        stdout: out.finish(),
        stderr: err.finish(),
        exit_code: end.code,
        signal: end.signal,
        timed_out: end.timed_out,
        duration,
        notes,
        ..known
    }
}

async fn drain(from: &mut pipe::Receiver, capture: &mut Capture) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        capture.take(&buffer[..length]);
    }
}

fn argv_of(plan: &CommandPlan) -> Vec<String> {
    match &plan.start {
        Start::Pipeline(programs) => programs.join(&"|".to_owned()),
        Start::Script(text) | Start::AsWritten(text) => {
            ["bash", "--noprofile", "--norc", "-c", text].map(str::to_owned).into()
        }
    }
}

/// Converts a plan to the helper's instructions.
fn prepare(sandbox: &Sandbox, plan: &CommandPlan, request: &RunRequest) -> Result<Instructions, SandboxError> {
    let refused = |why: &str| Err(SandboxError::Refused(why.to_owned()));
    let as_written = matches!(plan.start, Start::AsWritten(_));
    sandbox.confinement.may_run(plan)?;
    // With `--sandbox off` the operator accepts that nothing is hidden; a weak machine must not decide that.
    if !request.mounts.is_empty() && sandbox.tier() != Tier::T3 {
        return refused("a directory can be mounted elsewhere only in T3");
    }
    let held_back = !request.read_only.is_empty() || !request.hidden.is_empty();
    if held_back && sandbox.tier() != Tier::T3 && sandbox.confinement.demand != Demand::Off {
        return refused("parts of a command workspace can be hidden only in T3; use a copy without them");
    }
    if matches!(request.tree, LentTree::Overlay { .. }) && !sandbox.confinement.has_overlay() {
        return refused("an overlay can be used only in T3; use a copy");
    }
    let root = sandbox.seen_root(request);
    let directory = plan.directory.under(root);
    let (home, temporary) = (sandbox.private.join("home"), sandbox.private.join("tmp"));
    let mut write: Vec<PathBuf> = vec![home, temporary];
    let read_only = plan.profile.tree == TreeAccess::ReadOnly;
    if !read_only {
        write.push(root.into());
    }
    write.extend(request.write.iter().cloned());
    let mut read = sandbox.read.clone();
    read.extend(request.read.iter().cloned());
    let view = match sandbox.tier() {
        Tier::T3 => Some(View::new(sandbox, request, plan.profile.tree, &read, &write)),
        Tier::T0 | Tier::T1 | Tier::T2 => None,
    };
    // With scratch layers, caches can be written: the layers take the writes.
    let caches = if view.is_some() { &mut write } else { &mut read };
    caches.extend(sandbox.toolchains.layered.iter().cloned());
    if view.is_some() {
        write.extend(sandbox.toolchains.scratch.iter().cloned());
    }
    for mounted in &request.mounts {
        if mounted.write { &mut write } else { &mut read }.push(mounted.at.clone());
    }
    if read_only {
        // Only here: in namespaces the tree is mounted separately.
        read.push(root.into());
    }
    let mut environment = sandbox.environment.clone();
    environment.extend(request.variables.iter().map(|(name, value)| (name.into(), value.into())));
    environment.insert("PWD".into(), directory.clone().into());
    environment.retain(|name, value| is_valid(name, value));
    let own = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
    let reached = if as_written { Network::None } else { sandbox.confinement.network_of(plan) };
    let network = reached == Network::Any;
    // Below T3 either nothing is started or nothing is restricted.
    let proxied = matches!(reached, Network::Hosts(_)) && sandbox.tier() == Tier::T3;
    if proxied {
        environment.extend(proxy::variables().into_iter().map(|(name, value)| (name.into(), value.into())));
    }
    let mut programs = programs(sandbox, plan, &directory, request);
    let read: Vec<_> = read.into_iter().map(OsString::from).collect();
    let write: Vec<_> = write.into_iter().map(OsString::from).collect();
    if cfg!(target_os = "macos") && sandbox.tier().isolates() {
        let options = macos::options(&read, &write, network);
        programs.iter_mut().for_each(|program| macos::wrap(program, &options));
    }
    Ok(Instructions {
        programs,
        directory: directory.into(),
        environment: environment.into_iter().collect(),
        timeout: (!request.background).then_some(request.timeout),
        wall: Wall {
            tier: sandbox.tier(),
            read,
            write,
            devices: system::DEVICES.iter().map(OsString::from).collect(),
            network,
            proxied,
            // Git sets modes of its own files.
            keeps_attributes: read_only && plan.profile.git != GitAccess::Scratch,
            view,
            guarded: vec![own, -rustix::process::getpgrp().as_raw_nonzero().get()],
        },
    })
}

fn programs(sandbox: &Sandbox, plan: &CommandPlan, directory: &Path, request: &RunRequest) -> Vec<Program> {
    let bash = |text: &String| {
        let file = sandbox.programs.find("bash").ok().map(|program| program.path().into());
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
                    Some(sandbox.helper.clone())
                } else {
                    let found = sandbox.programs.find(name).ok().map(|program| program.path().to_path_buf());
                    found.filter(|file| !file.starts_with(sandbox.seen_root(request)))
                };
                Program { file: file.map(OsString::from), words: words.iter().map(OsString::from).collect() }
            })
            .collect(),
    }
}
