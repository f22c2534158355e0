//! Reports runs to OpenTelemetry: one more rendering of the events.
//!
//! [`Fold`] makes spans and measurements of events, with the times given to it; a thread sends them. Nothing here is
//! made, started or looked up unless [`Config::resolve`] finds that somebody asked for it.

mod batch;
mod calls;
mod config;
mod fold;
mod metrics;
mod send;
mod span;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::SystemTime;

pub use batch::{BatchEnd, BatchTelemetry};
pub use config::{Config, Protocol, Target, Targets, TelemetryError, Wishes, headers};
pub use fold::{Fold, Made, SCHEMA};
pub use metrics::Measurement;

use crate::base::trace::Trace;
use crate::event::Event;
use send::Sender;

/// Reports a run while it works.
#[derive(Debug)]
pub struct Telemetry {
    trace: Arc<Trace>,
    fold: Fold,
    sender: Sending,
}

/// What takes reports away.
#[derive(Debug)]
enum Sending {
    /// The run's own.
    Own(Sender),
    /// That of its batch, which ends later.
    OfBatch(Arc<Sender>),
}

impl Telemetry {
    /// Begins to report a run that started at this time. Sends nothing yet.
    pub fn begin(config: Config, trace: Arc<Trace>, started: SystemTime) -> Telemetry {
        let fold = Fold::new(Arc::clone(&trace), config.contents, started);
        Telemetry { trace, fold, sender: Sending::Own(Sender::start(config)) }
    }

    /// Reports an event that happened now, and returns the span that it is a part of, as 16 hexadecimal digits.
    pub fn event(&mut self, event: &Event, at: SystemTime) -> String {
        let made = self.fold.add(event, at);
        self.trace.set_open(self.fold.open());
        let spans = if self.trace.is_sampled() { made.spans } else { Vec::new() };
        match &self.sender {
            Sending::Own(sender) => sender.send(spans, made.measurements),
            Sending::OfBatch(sender) => sender.send(spans, made.measurements),
        }
        format!("{:016x}", made.span)
    }

    /// Sends what is left and waits for it as long as the configuration says; what a batch sends is waited for at its own
    /// end. Returns what could not be reported.
    pub fn finish(self) -> Option<String> {
        match self.sender {
            Sending::Own(sender) => sender.finish(),
            Sending::OfBatch(_) => None,
        }
    }
}
