//! Runs child processes to their end: with a deadline, in their own process group, and ended by a signal to this
//! process.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// How long a child may take after a signal asked this process to end: it may be part of a rollback.
const HURRY: Duration = Duration::from_secs(1);

/// How long an output may stay open after the child has ended: a process that it started holds it.
const DRAIN: Duration = Duration::from_secs(1);

/// Maximum interval between two checks of a silent child.
const LOOK: Duration = Duration::from_millis(20);

/// Number of operations that a signal must not cut short; `None` once no more may begin.
static WHOLE: Mutex<Option<usize>> = Mutex::new(Some(0));

/// Groups of running children.
static RUNNING: Mutex<Vec<Pid>> = Mutex::new(Vec::new());
static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static RUN_ENDS: OnceLock<Instant> = OnceLock::new();

/// Keeps a signal from cutting an operation short that must be complete, such as a delivery with its rollback, until it
/// is dropped.
pub struct Whole(());

impl Whole {
    /// Begins such an operation. Never returns once [`Whole::no_more`] has succeeded: the process is about to end.
    pub fn begin() -> Whole {
        if let Some(count) = WHOLE.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            *count += 1;
            return Whole(());
        }
        loop {
            std::thread::park();
        }
    }

    /// Begins one that lasts until the process ends: what it does is whole, and is told as well.
    pub fn to_the_end() {
        std::mem::forget(Whole::begin());
    }

    /// Keeps further operations from beginning; `false` while one is at work.
    pub fn no_more() -> bool {
        let mut count = WHOLE.lock().unwrap_or_else(PoisonError::into_inner);
        if *count == Some(0) {
            *count = None;
        }
        count.is_none()
    }

    fn is_at_work() -> bool {
        WHOLE.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|count| count > 0)
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        if let Some(count) = WHOLE.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            *count -= 1;
        }
    }
}

/// Ends every running child. Later ones start only in a [`Whole`] operation, and are limited to a second.
pub fn interrupt() {
    INTERRUPTED.store(true, Ordering::SeqCst);
    for group in RUNNING.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        let _gone = kill_process_group(*group, Signal::KILL);
    }
}

/// Tells whether a signal asked this process to end.
pub fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// Sets the run's deadline, until which signing and asking for credentials may take.
pub fn set_run_deadline(at: Instant) {
    let _first = RUN_ENDS.set(at);
}

/// Returns the run's deadline, if it has one.
pub(super) fn run_deadline() -> Option<Instant> {
    RUN_ENDS.get().copied()
}

/// What a child printed, and how it ended.
pub(super) struct Output {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

/// Why there is no output.
pub(super) enum Unfinished {
    /// It cannot be started, or not be waited for.
    Io(io::Error),
    /// It timed out and was ended.
    TimedOut(Duration),
    /// A signal asked this process to end; the child was ended, or not started.
    Interrupted,
}

impl From<io::Error> for Unfinished {
    fn from(error: io::Error) -> Unfinished {
        Unfinished::Io(error)
    }
}

/// A child in a process group of its own, which is ended when this is dropped.
struct Group {
    child: Child,
    id: Option<Pid>,
}

impl Group {
    fn start(mut command: Command) -> io::Result<Group> {
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Locked during the start, so that a signal cannot fall between the start and its registration.
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let child = command.spawn()?;
        let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        running.extend(id);
        Ok(Group { child, id })
    }

    /// Tells whether the child has ended. Does not reap it, so that its id stays reserved.
    fn has_ended(&self) -> io::Result<bool> {
        let Some(id) = self.id else { return Ok(true) };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(id), options)?.is_some())
    }

    /// Ends the group and reaps the child.
    fn end(&mut self) -> io::Result<ExitStatus> {
        if let Some(id) = self.id.take() {
            RUNNING.lock().unwrap_or_else(PoisonError::into_inner).retain(|other| *other != id);
            let _gone = kill_process_group(id, Signal::KILL);
        }
        self.child.wait()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _reaped = self.end();
    }
}

/// Runs a child to its end, at most for `patience`, with `input` on its standard input. The child and its group are
/// ended when this returns. Uses no thread.
pub(super) fn output(command: Command, input: &[u8], patience: Duration) -> Result<Output, Unfinished> {
    let was_interrupted = is_interrupted();
    if was_interrupted && !Whole::is_at_work() {
        return Err(Unfinished::Interrupted);
    }
    let patience = if was_interrupted { patience.min(HURRY) } else { patience };
    let until = Instant::now() + patience;
    let may_go_on = || match () {
        () if is_interrupted() && !was_interrupted => Err(Unfinished::Interrupted),
        () if Instant::now() >= until => Err(Unfinished::TimedOut(patience)),
        () => Ok(()),
    };
    let mut group = Group::start(command)?;
    let mut pipes = Pipes::of(&mut group.child, input)?;
    let mut ended = None;
    while pipes.are_open() {
        may_go_on()?;
        pipes.move_some(LOOK.min(until.saturating_duration_since(Instant::now())))?;
        if ended.is_none() && group.has_ended()? {
            ended = Some(Instant::now());
        }
        if ended.is_some_and(|ended: Instant| ended.elapsed() > DRAIN) {
            break;
        }
    }
    pipes.stdin = None;
    while !group.has_ended()? {
        may_go_on()?;
        std::thread::sleep(Duration::from_micros(200));
    }
    let status = group.end()?;
    if !status.success() && is_interrupted() && !was_interrupted {
        return Err(Unfinished::Interrupted);
    }
    Ok(Output { status, stdout: pipes.out, stderr: pipes.err })
}

/// The three pipes of a child; none is waited for alone.
struct Pipes<'a> {
    stdin: Option<ChildStdin>,
    rest: &'a [u8],
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    out: Vec<u8>,
    err: Vec<u8>,
}

impl Pipes<'_> {
    fn of<'a>(child: &mut Child, input: &'a [u8]) -> io::Result<Pipes<'a>> {
        let stdin = child.stdin.take().filter(|_| !input.is_empty());
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        for end in [stdin.as_ref().map(AsFd::as_fd), stdout.as_ref().map(AsFd::as_fd), stderr.as_ref().map(AsFd::as_fd)]
        {
            end.map_or(Ok(()), do_not_wait)?;
        }
        Ok(Pipes { stdin, rest: input, stdout, stderr, out: Vec::new(), err: Vec::new() })
    }

    fn are_open(&self) -> bool {
        self.stdout.is_some() || self.stderr.is_some()
    }

    /// Waits until something can be read or written, at most for `most`, and does it.
    fn move_some(&mut self, most: Duration) -> io::Result<()> {
        let reads = [self.stdout.as_ref().map(AsFd::as_fd), self.stderr.as_ref().map(AsFd::as_fd)];
        let mut waited: Vec<PollFd<'_>> =
            reads.into_iter().flatten().map(|end| PollFd::new(end, PollFlags::POLLIN)).collect();
        waited.extend(self.stdin.as_ref().map(|end| PollFd::new(end.as_fd(), PollFlags::POLLOUT)));
        let most = PollTimeout::try_from(most.max(Duration::from_millis(1))).unwrap_or(PollTimeout::ZERO);
        match poll(&mut waited, most) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        if let Some(stdin) = &mut self.stdin
            && !feed(stdin, &mut self.rest)?
        {
            self.stdin = None;
        }
        if let Some(stdout) = &mut self.stdout
            && !take(stdout, &mut self.out)?
        {
            self.stdout = None;
        }
        if let Some(stderr) = &mut self.stderr
            && !take(stderr, &mut self.err)?
        {
            self.stderr = None;
        }
        Ok(())
    }
}

/// Writes what fits; `false` if all is written or nobody reads. A child that stops reading is fine; one that cannot get
/// all of its input would take a part for the whole.
fn feed(to: &mut impl io::Write, rest: &mut &[u8]) -> io::Result<bool> {
    while !rest.is_empty() {
        match to.write(rest) {
            Ok(length) => *rest = &rest[length..],
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::WouldBlock => return Ok(true),
                io::ErrorKind::BrokenPipe => return Ok(false),
                _ => return Err(error),
            },
        }
    }
    Ok(false)
}

/// Reads what is available, up to a megabyte; `false` at the end.
fn take(from: &mut impl io::Read, to: &mut Vec<u8>) -> io::Result<bool> {
    let mut buffer = [0; 32 << 10];
    for _ in 0..32 {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(false),
            Ok(length) => to.extend_from_slice(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

fn do_not_wait(end: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(end, true)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, input: &[u8], patience: Duration) -> Result<Output, Unfinished> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        output(command, input, patience)
    }

    #[test]
    fn much_input_and_much_output_pass_each_other() {
        let input = vec![b'x'; 3 << 20];
        let output = run("cat; cat /dev/null >&2; echo end >&2; exit 3", &input, Duration::from_secs(60)).ok().unwrap();
        assert_eq!((output.stdout.len(), output.stderr.as_slice()), (input.len(), &b"end\n"[..]));
        assert_eq!(output.status.code(), Some(3));
    }

    #[test]
    fn input_that_cannot_be_written_is_an_error_and_not_the_end_of_the_input() {
        struct Fails(io::ErrorKind);
        impl io::Write for Fails {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(self.0.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let fed = |kind| feed(&mut Fails(kind), &mut &b"input"[..]).map_err(|error| error.kind());
        assert_eq!(fed(io::ErrorKind::StorageFull), Err(io::ErrorKind::StorageFull));
        assert_eq!(fed(io::ErrorKind::WouldBlock), Ok(true));
        assert_eq!(fed(io::ErrorKind::BrokenPipe), Ok(false));
    }

    #[test]
    fn one_that_does_not_read_its_input_is_no_error() {
        assert!(run("exit 0", &vec![b'x'; 1 << 20], Duration::from_secs(60)).ok().unwrap().status.success());
    }

    #[test]
    fn one_that_does_not_end_is_ended_with_all_of_its_group() {
        let directory = tempfile::tempdir().unwrap();
        let note = directory.path().join("pid");
        let script = format!("sleep 600 & echo $! > {}; wait", note.display());
        assert!(matches!(run(&script, b"", Duration::from_millis(500)), Err(Unfinished::TimedOut(_))));
        let pid = Pid::from_raw(std::fs::read_to_string(note).unwrap().trim().parse().unwrap()).unwrap();
        let is_gone = || match std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())) {
            Ok(stat) => stat.contains(") Z "),
            Err(_) => rustix::process::test_kill_process(pid).is_err(),
        };
        while !is_gone() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn one_that_leaves_its_output_open_to_another_is_not_waited_for() {
        let begin = run("(sleep 600; true) & echo said", b"", Duration::from_secs(60)).ok().unwrap();
        assert_eq!(begin.stdout, b"said\n");
    }
}
