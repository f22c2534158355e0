//! Handles the signals that end a run: the first one ends it in order, the second at once.
//!
//! A separate thread receives them too, so that a signal works while the run waits for git or for a slow disk.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Exit;

/// How long a run that does not notice the signal may continue.
const UNNOTICED: Duration = Duration::from_secs(1);

/// A run ends in order on a signal; every other command ends at once.
static ORDERLY: AtomicBool = AtomicBool::new(false);

/// The first signal.
static HEARD: OnceLock<Exit> = OnceLock::new();

/// Its name.
static NAME: OnceLock<&str> = OnceLock::new();

/// The run has noticed a signal and is ending.
static NOTICED: AtomicBool = AtomicBool::new(false);

/// Number of operations that the first signal must not interrupt.
static WHOLE: AtomicUsize = AtomicUsize::new(0);

/// Keeps the first signal from interrupting an operation that must be complete, such as a delivery, until it is
/// dropped.
pub struct Whole(());

impl Whole {
    /// Begins such an operation.
    pub fn begin() -> Whole {
        WHOLE.fetch_add(1, Ordering::SeqCst);
        Whole(())
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        WHOLE.fetch_sub(1, Ordering::SeqCst);
    }
}

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

#[expect(clippy::exit, reason = "the main thread cannot end the process: it is at work")]
fn end_process(exit: Exit) {
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

/// Makes the first signal end the run in order from now on.
pub fn end_in_order() {
    ORDERLY.store(true, Ordering::SeqCst);
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
                if ORDERLY.load(Ordering::SeqCst) {
                    let unnoticed = async {
                        tokio::time::sleep(UNNOTICED).await;
                        while NOTICED.load(Ordering::SeqCst) || WHOLE.load(Ordering::SeqCst) > 0 {
                            tokio::time::sleep(UNNOTICED).await;
                        }
                    };
                    tokio::select! {
                        _again = signals.next() => {}
                        () = unnoticed => {}
                    }
                }
                Some(exit)
            })
            .map(end_process)
    });
    // An error: nothing is sent, and the other end is gone once the thread listens or has failed.
    let _listens = listens.recv();
}
