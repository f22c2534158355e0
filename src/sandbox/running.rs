//! Follows one command from start to end, on this side of the socket.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use super::executable::helper_part;
use super::output::{Capture, Captured, OutputBounds};
use super::proxy::{Names, Proxy};
use super::request::SandboxError;
use super::tier::Tier;
use super::wire::{self, End, Instructions, Report};

/// How long the helper may exceed the command's own time limit before it is abandoned.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

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
    /// Whether the helper that ends it was killed or hangs: what it started may still run.
    pub is_out_of_hand: bool,
}

impl RunOutput {
    /// Returns the output of a command of which nothing is known yet.
    pub(super) fn nothing(argv: Vec<String>, tier: Tier) -> RunOutput {
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
            is_out_of_hand: false,
        }
    }

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
struct Supervisor {
    child: Option<Child>,
    ending: Arc<Mutex<Vec<Child>>>,
}

impl Supervisor {
    async fn wait(&mut self) {
        if let Some(child) = &mut self.child
            && child.wait().await.is_ok()
        {
            self.child = None;
        }
    }
}

impl Drop for Supervisor {
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
    _supervisor: Supervisor,
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
    /// Follows a command that runs in the background.
    pub(super) fn new(
        running: Running,
        known: RunOutput,
        stdout: OutputBounds,
        stderr: OutputBounds,
    ) -> Result<Background, SandboxError> {
        let stop = running.stop.try_clone().map_err(SandboxError::io("the socket to the helper"))?;
        let (argv, tier) = (known.argv.clone(), known.tier);
        Ok(Background { stop, ending: tokio::spawn(finish(running, known, None, stdout, stderr)), argv, tier })
    }

    /// Asks the command to end; the future then waits for that.
    pub(super) fn end(self) -> impl Future<Output = RunOutput> {
        let _ended_already = self.stop.shutdown(std::net::Shutdown::Write);
        async move {
            let ended = tokio::time::timeout(PATIENCE, self.ending).await;
            match ended {
                Ok(Ok(output)) => output,
                Ok(Err(_)) | Err(_) => RunOutput {
                    notes: vec!["it did not end in time; its output is lost".to_owned()],
                    is_out_of_hand: true,
                    ..RunOutput::nothing(self.argv, self.tier)
                },
            }
        }
    }
}

/// A command that was passed to the helper.
pub(super) struct Running {
    begin: Instant,
    reports: Lines<BufReader<UnixStream>>,
    stop: StdUnixStream,
    stdout: pipe::Receiver,
    stderr: pipe::Receiver,
    supervisor: Supervisor,
    proxy: Option<Proxy>,
}

impl Running {
    /// Passes its outputs on.
    pub(super) fn piped(self, stdin: pipe::Sender) -> Piped {
        let lifeline = Lifeline { reports: self.reports, _supervisor: self.supervisor, _proxy: self.proxy };
        Piped { stdin, stdout: self.stdout, stderr: self.stderr, lifeline }
    }
}

/// Starts the helper with instructions, and waits until the command runs; returns its process group and processes.
///
/// A sandbox that could not be built clears the cached result. `ending` takes the supervisor if it is dropped early;
/// `hosts` is what may be reached through a proxy.
pub(super) async fn start(
    helper: &Path,
    ending: &Arc<Mutex<Vec<Child>>>,
    what: &Instructions,
    hosts: Option<(Vec<String>, Names)>,
    stdin: Option<OwnedFd>,
) -> Result<(Running, i32, Vec<i32>), SandboxError> {
    let failed = || SandboxError::io("the socket to the helper");
    let body = serde_json::to_vec(what).map_err(io::Error::from).map_err(failed())?;
    let (ours, theirs) = StdUnixStream::pair().map_err(failed())?;
    let (stdout, stdout_theirs) = io::pipe().map_err(failed())?;
    let (stderr, stderr_theirs) = io::pipe().map_err(failed())?;
    let child = {
        let mut command = Command::from(helper_part(helper, "supervise", theirs));
        let spawned = command.current_dir("/").spawn();
        spawned.map_err(SandboxError::io(format!("the helper {}", helper.display())))?
    };
    let supervisor = Supervisor { child: Some(child), ending: Arc::clone(ending) };
    let mut descriptors: Vec<BorrowedFd<'_>> = vec![stdout_theirs.as_fd(), stderr_theirs.as_fd()];
    descriptors.extend(stdin.as_ref().map(AsFd::as_fd));
    let to_proxy = if hosts.is_some() { Some(StdUnixStream::pair().map_err(failed())?) } else { None };
    descriptors.extend(to_proxy.as_ref().map(|(_, theirs)| theirs.as_fd()));
    wire::send_head(&ours, body.len(), &descriptors).map_err(failed())?;
    let stop = ours.try_clone().map_err(failed())?;
    ours.set_nonblocking(true).map_err(failed())?;
    let mut control = UnixStream::from_std(ours).map_err(failed())?;
    control.write_all(&body).await.map_err(failed())?;
    let proxy = match (to_proxy, hosts) {
        (Some((ours, _)), Some((hosts, names))) => Some(Proxy::start(ours, hosts, names).map_err(failed())?),
        (Some(_) | None, _) => None,
    };
    let mut running = Running {
        begin: Instant::now(),
        reports: BufReader::new(control).lines(),
        stop,
        stdout: pipe::Receiver::from_owned_fd(stdout.into()).map_err(failed())?,
        stderr: pipe::Receiver::from_owned_fd(stderr.into()).map_err(failed())?,
        supervisor,
        proxy,
    };
    let (group, pids) = first_report(&mut running.reports).await.inspect_err(|_| super::doctor::forget())?;
    Ok((running, group, pids))
}

/// Reads the next report; `None` when the helper is gone.
async fn next(reports: &mut Lines<BufReader<UnixStream>>) -> Option<Report> {
    serde_json::from_str(&reports.next_line().await.ok()??).ok()
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

/// Collects the outputs of a command until it has ended, or for at most `most`.
pub(super) async fn finish(
    mut running: Running,
    known: RunOutput,
    most: Option<Duration>,
    stdout: OutputBounds,
    stderr: OutputBounds,
) -> RunOutput {
    let (mut out, mut err) = (Capture::new(stdout), Capture::new(stderr));
    let mut notes = Vec::new();
    let end = follow(&mut running, most, &mut out, &mut err, &mut notes).await;
    let duration = running.begin.elapsed();
    let is_out_of_hand = end.is_err();
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
    let _reaped = tokio::time::timeout(DRAIN, running.supervisor.wait()).await;
    RunOutput {
        stdout: out.finish(),
        stderr: err.finish(),
        exit_code: end.code,
        signal: end.signal,
        timed_out: end.timed_out,
        duration,
        notes,
        is_out_of_hand,
        ..known
    }
}

/// Reads both outputs until the report of the end, and a moment longer.
async fn follow(
    running: &mut Running,
    most: Option<Duration>,
    out: &mut Capture,
    err: &mut Capture,
    notes: &mut Vec<String>,
) -> Result<End, String> {
    let both = async { tokio::join!(drain(&mut running.stdout, out), drain(&mut running.stderr, err)) };
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
}

async fn drain(from: &mut pipe::Receiver, capture: &mut Capture) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        capture.take(&buffer[..length]);
    }
}
