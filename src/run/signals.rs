//! SIGINT and SIGTERM: the first one ends the run in order, the second at once.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Exit;

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
        Some(signals) => signals.next().await,
        None => std::future::pending().await,
    }
}
