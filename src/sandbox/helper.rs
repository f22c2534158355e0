//! Runs this program's own binary as the sandbox helper: the supervisor outside the sandbox, and init inside it.
//!
//! A process can only confine itself, and the safe way to run code between the start of a child and its program is to
//! be that child. So the supervisor is started first; it enforces the time limit and ends everything when its socket
//! closes. It starts init, which builds the sandbox around itself, starts the programs and waits for them.

#![expect(clippy::disallowed_methods, reason = "the helper starts itself again, and what it was told to start")]

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Signal, WaitOptions, WaitStatus};

use super::descendants;
use super::executable::{HELPER, helper_part, own_executable};
use super::tier::Tier;
use super::wire::{self, End, Instructions, Permissions, Program, Report};

/// The time between asking a command to end on timeout, and killing it.
const GRACE: Duration = Duration::from_millis(400);

/// The same after an interruption, when a person is waiting.
const SHORT_GRACE: Duration = Duration::from_millis(60);

/// How long processes that outlive their command may take to end by themselves.
const LEFT_OVER_GRACE: Duration = Duration::from_millis(200);

/// Runs the part that the arguments after [`HELPER`] name. Prints nothing: results go over its socket.
pub fn helper_main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.into_iter();
    let part = arguments.next();
    let outcome = match part.as_deref().and_then(OsStr::to_str) {
        Some("supervise") => supervise(),
        Some("init") => init(),
        Some("probe") => probe(),
        Some("with-us") => become_program(arguments),
        Some("probe-inside") => super::namespaces::probe_inside(),
        Some(_) | None => return ExitCode::from(2),
    };
    if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the command of a program that ends together with this process, even if this process is killed, where the
/// system can do that.
pub(super) fn ending_with_us(program: &Path) -> tokio::process::Command {
    if !cfg!(target_os = "linux") {
        return tokio::process::Command::new(program);
    }
    let mut command = tokio::process::Command::new(own_executable());
    command.args([HELPER, "with-us", &std::process::id().to_string()]).arg(program);
    command
}

/// Executes the program that the arguments name after the id of the process that it must end with.
fn become_program(mut arguments: impl Iterator<Item = OsString>) -> io::Result<()> {
    let starter = arguments.next();
    die_with_parent()?;
    let parent = rustix::process::getppid().map(|parent| parent.as_raw_nonzero().to_string());
    if parent.is_none() || parent.map(OsString::from) != starter {
        // The parent was gone before the system knew of the request.
        return Err(io::ErrorKind::NotConnected.into());
    }
    let program = arguments.next().ok_or(io::ErrorKind::InvalidInput)?;
    Err(Command::new(program).args(arguments).exec())
}

/// Without namespaces the programs could signal the processes that supervise them.
fn guard_this_process(guarded: &mut Vec<i32>) {
    let own = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
    // As a process, and as the group that it leads since it began a new session.
    guarded.extend([own, -own]);
}

/// What the supervisor waits for.
enum Happened {
    /// The init process said something.
    Said(Report),
    /// The init process is gone.
    InitGone,
    /// The parent process asks for the end, or is gone.
    Stop,
    /// The time is up.
    TimeIsUp,
}

fn supervise() -> io::Result<()> {
    let control = wire::inherited()?;
    let (instructions, descriptors) = wire::receive(&control)?;
    let outcome =
        start_init(&control, instructions, descriptors).and_then(|init| Ok((watch(&control, &init)?, init.pid)));
    let left_over = descendants::end_all();
    let last = match outcome {
        Ok((mut end, init)) => {
            // Init has sent its last report and is exiting: it was not left behind.
            end.left_over = end.left_over.max(left_over.into_iter().filter(|pid| *pid != init).count());
            Report::Ended(end)
        }
        Err(why) => Report::Failed(why),
    };
    wire::report(&control, &last)
}

/// Init, as the supervisor started it.
struct Init {
    pid: i32,
    socket: UnixStream,
    timeout: Option<Duration>,
}

/// Makes the namespaces, and starts init in them.
fn start_init(control: &UnixStream, mut what: Instructions, mut descriptors: Vec<OwnedFd>) -> Result<Init, String> {
    let part = |name: &'static str| move |error: io::Error| format!("{name}: {error}");
    close_inherited(control, &descriptors);
    rustix::process::setsid().map_err(|error| part("a new session")(error.into()))?;
    become_parent_of_orphans().map_err(part("ending orphans"))?;
    if what.permissions.tier == Tier::T3 {
        super::namespaces::unshare(what.permissions.network).map_err(part("namespaces"))?;
        if what.permissions.proxied {
            let socket = descriptors.pop().ok_or("the proxy: no socket to send its listener on")?;
            super::namespaces::give_listener(&socket).map_err(part("the proxy"))?;
        }
    }
    guard_this_process(&mut what.permissions.guarded);
    let (socket, theirs) = UnixStream::pair().map_err(part("a socket"))?;
    let init = helper_part(&own_executable(), "init", theirs).spawn().map_err(part("the helper"))?;
    let fds: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    wire::send(&socket, &what, &fds).map_err(part("the helper"))?;
    // After this only the programs hold the outputs, so their end is the end of the output: `descriptors` end here.
    make_undumpable();
    Ok(Init { pid: i32::try_from(init.id()).unwrap_or(i32::MAX), socket, timeout: what.timeout })
}

/// Passes on what init reports, and ends its programs when the time is up or the parent process asks for it.
fn watch(control: &UnixStream, init: &Init) -> Result<End, String> {
    let mut happenings = Happenings { control, control_is_open: true, init: &init.socket, heard: Vec::new() };
    let mut deadline = init.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let (mut started, mut timed_out, mut asked) = (false, false, false);
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let next = happenings.next(left).map_err(|error| format!("waiting: {error}"))?;
        let killed = End { signal: Some(9), timed_out, ..End::default() };
        match next {
            Happened::Said(report @ Report::Started { .. }) => {
                started = true;
                let _we_are_told_by_the_end = wire::report(control, &report);
            }
            Happened::Said(Report::Ended(end)) => return Ok(End { timed_out, ..end }),
            Happened::Said(Report::Failed(why)) => return Err(why),
            Happened::InitGone if !started => return Err("the helper ended while it set up the sandbox".to_owned()),
            Happened::InitGone => return Ok(killed),
            Happened::TimeIsUp if asked => return Ok(killed),
            Happened::Said(Report::Probed(_)) => {}
            Happened::Stop if asked => {}
            Happened::Stop | Happened::TimeIsUp => {
                asked = true;
                timed_out = matches!(next, Happened::TimeIsUp);
                descendants::signal(&descendants::of(init.pid), Signal::TERM);
                deadline = Some(Instant::now() + if timed_out { GRACE } else { SHORT_GRACE });
            }
        }
    }
}

/// The two sockets of the supervisor. Uses no threads: a process that has unshared its process namespace cannot start
/// any.
struct Happenings<'a> {
    control: &'a UnixStream,
    control_is_open: bool,
    init: &'a UnixStream,
    heard: Vec<u8>,
}

impl Happenings<'_> {
    /// Waits for the next event, at most this long.
    fn next(&mut self, most: Option<Duration>) -> io::Result<Happened> {
        use std::io::Read;
        let begin = Instant::now();
        loop {
            if let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.heard.drain(..=end).collect();
                return Ok(Happened::Said(serde_json::from_slice(&line)?));
            }
            let left = most.map(|most| most.saturating_sub(begin.elapsed()));
            let (control, init) = wait_for_either(self.control_is_open.then_some(self.control), self.init, left)?;
            let mut piece = [0; 4096];
            // A report of init takes precedence over a request to end: the command was faster.
            if init {
                match (&*self.init).read(&mut piece) {
                    Ok(0) => return Ok(Happened::InitGone),
                    Ok(length) => self.heard.extend(&piece[..length]),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => return Ok(Happened::InitGone),
                }
            } else if control {
                // Nothing is ever sent after the instructions.
                if !matches!((&*self.control).read(&mut piece), Ok(1..)) {
                    self.control_is_open = false;
                    return Ok(Happened::Stop);
                }
            } else if left.is_some_and(|left| left.is_zero()) {
                return Ok(Happened::TimeIsUp);
            }
        }
    }
}

/// Waits until one of them can be read, or the time is up.
#[cfg(target_os = "linux")]
fn wait_for_either(
    control: Option<&UnixStream>,
    init: &UnixStream,
    most: Option<Duration>,
) -> io::Result<(bool, bool)> {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let mut sockets = vec![PollFd::new(init.as_fd(), PollFlags::POLLIN)];
    sockets.extend(control.map(|control| PollFd::new(control.as_fd(), PollFlags::POLLIN)));
    // Rounded up: less than a millisecond would be no wait at all.
    let most = most.map_or(PollTimeout::NONE, |most| {
        PollTimeout::try_from(most.saturating_add(Duration::from_micros(999))).unwrap_or(PollTimeout::MAX)
    });
    match poll(&mut sockets, most) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => {}
        Err(error) => return Err(error.into()),
    }
    let ready = |place: usize| sockets.get(place).and_then(PollFd::any).unwrap_or(false);
    Ok((ready(1), ready(0)))
}

/// The same by polling.
#[cfg(not(target_os = "linux"))]
fn wait_for_either(
    control: Option<&UnixStream>,
    init: &UnixStream,
    most: Option<Duration>,
) -> io::Result<(bool, bool)> {
    use rustix::net::{RecvFlags, recv};
    let begin = Instant::now();
    let ready = |socket: &UnixStream| {
        let mut byte = [0u8; 1];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        !matches!(recv(socket, &mut byte[..], flags), Err(rustix::io::Errno::AGAIN))
    };
    loop {
        let found = (control.is_some_and(ready), ready(init));
        if found.0 || found.1 || most.is_some_and(|most| begin.elapsed() >= most) {
            return Ok(found);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn init() -> io::Result<()> {
    let control = wire::inherited()?;
    let (mut what, descriptors) = wire::receive(&control)?;
    guard_this_process(&mut what.permissions.guarded);
    match run_programs(&control, &what, descriptors) {
        Ok(end) => wire::report(&control, &Report::Ended(end)),
        Err(why) => wire::report(&control, &Report::Failed(why)),
    }
}

fn run_programs(control: &UnixStream, what: &Instructions, descriptors: Vec<OwnedFd>) -> Result<End, String> {
    die_with_parent().map_err(|error| format!("ending with us: {error}"))?;
    // In a namespace of its own the init process may lead no group that it could leave.
    let _new_session = rustix::process::setsid();
    become_parent_of_orphans().map_err(|error| format!("ending orphans: {error}"))?;
    confine(&what.permissions)?;
    // Without namespaces the programs see this process, and run as the same user.
    make_undumpable();
    let mut given = descriptors.into_iter();
    let (Some(stdout), Some(stderr)) = (given.next(), given.next()) else {
        return Err("no outputs were given".to_owned());
    };
    let pids = start_programs(what, stdout, stderr, given.next()).map_err(|error| format!("a pipe: {error}"))?;
    let group = pids.iter().flatten().next().copied().unwrap_or(0);
    let running: Vec<i32> = pids.iter().flatten().copied().collect();
    wire::report(control, &Report::Started { group, pids: running.clone() }).map_err(|error| error.to_string())?;
    let last = wait_for(&running, pids.last().copied().flatten());
    let status = match (pids.last().copied().flatten(), last) {
        // A program that could not be started gives 127 or 126, as in a shell.
        (None, _) => End { code: Some(not_started_code(what)), ..End::default() },
        (Some(_), Some(status)) => {
            let status = ExitStatus::from_raw(status.as_raw());
            End { code: status.code(), signal: status.signal(), ..End::default() }
        }
        (Some(_), None) => End::default(),
    };
    Ok(End { left_over: wait_for_left_overs(), ..status })
}

/// Starts the programs of a pipeline; an entry is `None` if its program could not be started.
fn start_programs(
    what: &Instructions,
    stdout: OwnedFd,
    stderr: OwnedFd,
    stdin: Option<OwnedFd>,
) -> io::Result<Vec<Option<i32>>> {
    let mut pids: Vec<Option<i32>> = Vec::new();
    let mut group = 0;
    let mut input = stdin.map_or_else(Stdio::null, Stdio::from);
    let count = what.programs.len();
    for (place, program) in what.programs.iter().enumerate() {
        let (output, next) = if place + 1 == count {
            (Stdio::from(stdout.try_clone()?), Stdio::null())
        } else {
            let (reader, writer) = io::pipe()?;
            (Stdio::from(writer), Stdio::from(reader))
        };
        let input = std::mem::replace(&mut input, next);
        match start_program(program, what, input, output, stderr.try_clone()?, group) {
            Ok(pid) => {
                group = if group == 0 { pid } else { group };
                pids.push(Some(pid));
            }
            Err(why) => {
                use std::io::Write;
                let _unread = writeln!(std::fs::File::from(stderr.try_clone()?), "{why}");
                pids.push(None);
            }
        }
    }
    Ok(pids)
}

fn start_program(
    program: &Program,
    what: &Instructions,
    input: Stdio,
    output: Stdio,
    errors: OwnedFd,
    group: i32,
) -> Result<i32, String> {
    let name = program.words.first().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let file = program.file.as_ref().ok_or_else(|| format!("{name}: command not found"))?;
    let mut command = Command::new(file);
    command
        .arg0(program.words.first().map_or(file.as_os_str(), OsString::as_os_str))
        .args(program.words.iter().skip(1));
    command.env_clear().envs(what.environment.iter().map(|(name, value)| (name, value)));
    command.current_dir(&what.directory).stdin(input).stdout(output).stderr(errors).process_group(group);
    let child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound if !Path::new(&what.directory).is_dir() => {
            format!("{}: no such directory", what.directory.to_string_lossy())
        }
        io::ErrorKind::ArgumentListTooLong => format!("{name}: argument list too long"),
        _ => format!("{name}: {error}"),
    })?;
    Ok(i32::try_from(child.id()).unwrap_or(i32::MAX))
}

/// Returns a shell's exit code for a last program that could not be started.
fn not_started_code(what: &Instructions) -> i32 {
    let file = what.programs.last().and_then(|program| program.file.as_ref());
    if file.is_some_and(|file| Path::new(file).exists()) { 126 } else { 127 }
}

/// Waits until all of `pids` have ended, and returns the status of `last`. Reaps orphans meanwhile.
fn wait_for(pids: &[i32], last: Option<i32>) -> Option<WaitStatus> {
    let mut ahead = pids.to_vec();
    let mut found = None;
    while !ahead.is_empty() {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) => {
                let pid = pid.as_raw_nonzero().get();
                ahead.retain(|other| *other != pid);
                if last == Some(pid) {
                    found = Some(status);
                }
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(_no_child_is_left) => break,
        }
    }
    found
}

/// Gives orphans a moment to end by themselves; returns how many are still there.
fn wait_for_left_overs() -> usize {
    let begin = Instant::now();
    let mut pause = Duration::from_micros(200);
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) if begin.elapsed() >= LEFT_OVER_GRACE => {
                let own = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
                return descendants::of(own).len().max(1);
            }
            Ok(None) => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(10));
            }
            Err(_no_child_is_left) => return 0,
        }
    }
}

/// Tries each part of the sandbox and reports what works.
fn probe() -> io::Result<()> {
    let control = wire::inherited()?;
    wire::report(&control, &Report::Probed(super::doctor::try_everything()))
}

/// Builds the sandbox around this process and everything that it will start.
#[cfg(target_os = "linux")]
fn confine(permissions: &Permissions) -> Result<(), String> {
    limit_resources(permissions.tier).map_err(|error| format!("limits: {error}"))?;
    if let Some(view) = &permissions.view {
        super::namespaces::build(view, permissions.network)?;
    }
    if permissions.tier >= Tier::T1 {
        rustix::thread::set_no_new_privs(true).map_err(|error| format!("no new privileges: {error}"))?;
        give_up_capabilities().map_err(|error| format!("capabilities: {error}"))?;
    }
    let is_scoped = permissions.tier.isolates() && super::landlock::confine(permissions)?;
    if permissions.tier >= Tier::T1 {
        super::seccomp::confine(permissions, is_scoped)?;
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn confine(_permissions: &Permissions) -> Result<(), String> {
    // On macOS the sandbox is the program that the first word names: see `macos`.
    Ok(())
}

/// Maximum processes of a command where they are counted separately: in a user namespace.
#[cfg(target_os = "linux")]
const MOST_PROCESSES: u64 = 8192;

/// Disables core dumps, and limits the number of processes.
#[cfg(target_os = "linux")]
fn limit_resources(tier: Tier) -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    if tier == Tier::T3 {
        let most = getrlimit(Resource::Nproc).maximum.map_or(MOST_PROCESSES, |most| most.min(MOST_PROCESSES));
        setrlimit(Resource::Nproc, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}

/// Drops capabilities, so that programs started by root have no more power than any user.
#[cfg(target_os = "linux")]
fn give_up_capabilities() -> io::Result<()> {
    use rustix::thread::{CapabilitySet, CapabilitySets};
    for capability in CapabilitySet::all().iter() {
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            // A kernel older than the capability does not know it. Without the right to remove capabilities none can be
            // gained either, since a program gets no new privileges.
            Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let none = CapabilitySet::empty();
    Ok(rustix::thread::set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?)
}

/// Closes descriptors that the parent left open, so that no program inherits them.
fn close_inherited(control: &UnixStream, descriptors: &[OwnedFd]) {
    use std::os::fd::AsRawFd;
    let mut keep: Vec<i32> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    keep.extend([0, 1, 2, control.as_raw_fd()]);
    let listing = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };
    let open: Vec<i32> = std::fs::read_dir(listing)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for descriptor in open.into_iter().filter(|descriptor| !keep.contains(descriptor)) {
        let _the_listing_itself_is_gone = nix::unistd::close(descriptor);
    }
}

/// Makes orphans below this process its children, so that none of them can escape.
#[cfg(target_os = "linux")]
fn become_parent_of_orphans() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::Pid::INIT))?)
}

#[cfg(not(target_os = "linux"))]
fn become_parent_of_orphans() -> io::Result<()> {
    Ok(())
}

#[cfg(target_os = "linux")]
fn die_with_parent() -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?)
}

#[cfg(not(target_os = "linux"))]
fn die_with_parent() -> io::Result<()> {
    Ok(())
}

/// Keeps processes of the same user from reading the memory of this one; `main` calls it for the run.
///
/// A system without this feature is not an error.
#[cfg(target_os = "linux")]
pub fn make_undumpable() {
    let _unknown = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}

/// Does nothing where the system lacks this feature.
#[cfg(not(target_os = "linux"))]
pub fn make_undumpable() {}
