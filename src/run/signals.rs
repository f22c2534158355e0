//! SIGINT and SIGTERM: the first one ends the run in order, the second at once.
//!
//! A thread of its own hears them too, so that a signal counts while the run waits for git or for a slow disk.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Exit;

/// How long a run that does not notice the signal may still take.
const UNNOTICED: Duration = Duration::from_secs(1);

/// A run ends in order when a signal comes; every other command ends at once.
static ORDERLY: AtomicBool = AtomicBool::new(false);

/// The first signal.
static HEARD: OnceLock<Exit> = OnceLock::new();

/// The run has noticed a signal and is ending.
static NOTICED: AtomicBool = AtomicBool::new(false);

/// Pieces of work that are not cut off by the first signal.
static WHOLE: AtomicUsize = AtomicUsize::new(0);

/// Keeps the first signal from cutting off what must be done as a whole, as a delivery, for as long as it lives.
pub struct Whole(());

impl Whole {
    /// Begins such a piece of work.
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

/// Listens for both signals.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Starts to listen. Must be called inside the runtime.
    pub fn listen() -> std::io::Result<Signals> {
        Ok(Signals { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for a signal and returns the ending that it means.
    pub async fn next(&mut self) -> Exit {
        tokio::select! {
            _ = self.interrupt.recv() => Exit::Interrupted,
            _ = self.terminate.recv() => Exit::Terminated,
        }
    }
}

/// Waits for a signal; for ever where none can be heard.
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

/// Returns the ending that a signal asked for, if one was heard. What failed since then may have failed for its sake.
pub fn heard() -> Option<Exit> {
    let exit = HEARD.get().copied();
    if exit.is_some() {
        NOTICED.store(true, Ordering::SeqCst);
    }
    exit
}

/// Says that from now on the first signal ends the run in order.
pub fn end_in_order() {
    ORDERLY.store(true, Ordering::SeqCst);
}

/// Starts the thread that hears signals whatever the rest of the process does. Where none can be made, or no signal be
/// listened to, they act as they do on any program.
pub fn watch() {
    let _none = std::thread::Builder::new().name("signals".to_owned()).stack_size(256 << 10).spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        runtime
            .block_on(async {
                let mut signals = Signals::listen().ok()?;
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
}
