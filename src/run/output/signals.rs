//! Handles the signals that end the process: the first one ends a run in order and waits for a delivery, the second one
//! ends it at once.
//!
//! A separate thread receives them too, so that a signal works while the run waits for git or for a slow disk.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::event::RunError;
use crate::exit::Exit;
use crate::git::Whole;
use crate::run::error::Failure;
use crate::threads::off_the_event_loop;

/// How long a run that does not notice the signal may continue.
pub(super) const UNNOTICED: Duration = Duration::from_secs(1);

/// How long the ending of such a run may take to be written.
pub(super) const WRITTEN: Duration = Duration::from_secs(5);

/// The interval at which a command is asked whether its delivery is complete.
const LOOK: Duration = Duration::from_millis(10);

/// What writes the ending of a run that does not notice the signal. A run ends in order; every other command, which has
/// none, ends at once, or after its delivery.
static ORDERLY: OnceLock<Box<dyn Fn(Exit) + Send + Sync>> = OnceLock::new();

/// The first signal.
static HEARD: OnceLock<Exit> = OnceLock::new();

/// Its name.
static NAME: OnceLock<&str> = OnceLock::new();

/// The run has noticed a signal and is ending.
static NOTICED: AtomicBool = AtomicBool::new(false);

/// The signals that end a run. By default each of them would end the process without a result and without cleaning up.
const ENDING: [(i32, &str, Exit); 7] = [
    (nix::libc::SIGINT, "SIGINT", Exit::Interrupted),
    (nix::libc::SIGTERM, "SIGTERM", Exit::Terminated),
    (nix::libc::SIGHUP, "SIGHUP", Exit::Terminated),
    (nix::libc::SIGQUIT, "SIGQUIT", Exit::Terminated),
    (nix::libc::SIGUSR1, "SIGUSR1", Exit::Terminated),
    (nix::libc::SIGALRM, "SIGALRM", Exit::Terminated),
    (nix::libc::SIGXCPU, "SIGXCPU", Exit::Terminated),
];

/// Listens for the signals that end a run.
pub struct Signals {
    ending: Vec<(Signal, &'static str, Exit)>,
    /// Never waited for: exceeding the limit of a file's size becomes an error of the write, not the end of the
    /// process.
    _file_size: Option<Signal>,
}

impl Signals {
    /// Starts to listen. Must be called inside the runtime. Signals that the parent ignores (`nohup`) stay ignored.
    pub fn listen() -> std::io::Result<Signals> {
        let ignored = ignored();
        let listen = |number: i32| match ignored & (1 << (number - 1)) {
            0 => signal(SignalKind::from_raw(number)).map(Some),
            _ => Ok(None),
        };
        let mut ending = Vec::new();
        for (number, name, exit) in ENDING {
            ending.extend(listen(number)?.map(|signal| (signal, name, exit)));
        }
        Ok(Signals { ending, _file_size: listen(nix::libc::SIGXFSZ)? })
    }

    /// Waits for a signal and returns the exit that it means.
    pub async fn next(&mut self) -> Exit {
        std::future::poll_fn(|context| {
            let mut signals = self.ending.iter_mut();
            match signals.find_map(|(signal, name, exit)| signal.poll_recv(context).is_ready().then_some((name, *exit)))
            {
                Some((name, exit)) => {
                    let _first = NAME.set(name);
                    Poll::Ready(exit)
                }
                None => Poll::Pending,
            }
        })
        .await
    }
}

/// Returns the signals that this process inherited as ignored, as bits; none if the system does not say.
fn ignored() -> u64 {
    let status = crate::bounded::regular_text(std::path::Path::new("/proc/self/status"), crate::bounded::CONFIG);
    let status = status.unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

/// Returns the name of the first signal.
pub fn name() -> Option<&'static str> {
    NAME.get().copied()
}

/// Waits for a signal; for ever if none can be received.
pub async fn next_of(signals: Option<&mut Signals>) -> Exit {
    match signals {
        Some(signals) => {
            let exit = signals.next().await;
            NOTICED.store(true, Ordering::SeqCst);
            exit
        }
        None => std::future::pending().await,
    }
}

/// Tells whether the run has noticed a signal, and is ending.
pub(super) fn is_noticed() -> bool {
    NOTICED.load(Ordering::SeqCst)
}

/// Ends the process, whatever its other threads do.
#[expect(clippy::exit, reason = "the main thread cannot end the process: it is at work")]
pub(super) fn end_process(exit: Exit) {
    std::process::exit(i32::from(exit.code()));
}

/// Returns the exit that a signal asked for, if one was received. Later failures may be its consequence.
pub fn heard() -> Option<Exit> {
    let exit = HEARD.get().copied();
    if exit.is_some() {
        NOTICED.store(true, Ordering::SeqCst);
    }
    exit
}

/// Returns the ending of a command that has received a signal.
pub fn interrupted() -> Option<Failure> {
    let exit = heard()?;
    let message = format!("interrupted by {}", name().unwrap_or("a signal"));
    Some(Failure { exit, error: Box::new(RunError { code: "interrupted".into(), message, ..RunError::default() }) })
}

/// Returns the ending of a command that has failed: after a signal it was interrupted, and the failure says how far it
/// came.
pub fn or_interrupted(mut failure: Failure) -> Failure {
    match interrupted() {
        Some(Failure { exit, error }) if failure.exit != exit => {
            failure.exit = exit;
            failure.error.message = format!("{}: {}", error.message, failure.error.message);
            failure.error.code = error.code;
        }
        Some(_) | None => {}
    }
    failure
}

/// Makes the first signal end the run in order from now on. `write` writes the ending if the run does not notice the
/// signal; it is called in another thread.
pub fn end_in_order(write: impl Fn(Exit) + Send + Sync + 'static) {
    let _first = ORDERLY.set(Box::new(write));
}

/// Waits for a run that notices the signal; writes the ending of one that does not.
async fn end_unnoticed(exit: Exit, write: &'static (dyn Fn(Exit) + Send + Sync)) {
    tokio::time::sleep(UNNOTICED).await;
    while is_noticed() || !Whole::no_more() {
        tokio::time::sleep(UNNOTICED).await;
    }
    let _late = tokio::time::timeout(WRITTEN, off_the_event_loop(move || write(exit))).await;
}

/// Waits until a command that is no run may end: at once, or when its delivery is complete.
async fn end_after_delivery() {
    while !Whole::no_more() {
        tokio::time::sleep(LOOK).await;
    }
}

/// Starts the thread that receives signals whatever the rest of the process does, and waits until it listens: what a
/// command starts from here on is ended with it. Without threads, or if no signal can be listened to, signals act as on
/// any program.
pub fn watch() {
    let (starting, listens) = std::sync::mpsc::channel::<()>();
    let _none = std::thread::Builder::new().name("signals".to_owned()).stack_size(256 << 10).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        runtime
            .block_on(async {
                let mut signals = Signals::listen().ok()?;
                drop(starting);
                let exit = signals.next().await;
                let _first = HEARD.set(exit);
                crate::git::interrupt();
                let ended = async {
                    match ORDERLY.get() {
                        Some(write) => end_unnoticed(exit, write).await,
                        None => end_after_delivery().await,
                    }
                };
                tokio::select! {
                    _again = signals.next() => {}
                    () = ended => {}
                }
                Some(exit)
            })
            .map(end_process)
    });
    // An error: nothing is sent, and the other end is gone once the thread listens or has failed.
    let _listens = listens.recv();
}
