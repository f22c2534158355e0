//! Runs one task as an item of a batch: its events are folded into a result, and the batch can end it.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use futures_util::FutureExt as _;
use serde_json::{Map, Value};

use super::seat::Seat;
use crate::cli::RunArgs;
use crate::emit::{Fold, Report, report};
use crate::event::{Event, RunError, RunFinished};
use crate::exit::Exit;
use crate::model::config::ClientConfig;
use crate::recipe::Recipe;
use crate::run::conversation::session::RunSession;
use crate::run::error::Failure;
use crate::run::finish::outcome;
use crate::run::one::{self, Begun};
use crate::run::output::emitter::{Emitter, Outlet};
use crate::run::output::{outputs, signals};
use crate::run::stages::{Lent, Shared};
use crate::telemetry::BatchTelemetry;

/// Runs a task to its end and returns its result. `values` are those of the recipe's parameters that come from the item;
/// `reported` is how its batch is reported to OpenTelemetry.
pub async fn run(
    shared: &Shared,
    arguments: &RunArgs,
    recipe: Option<&Recipe>,
    values: Map<String, Value>,
    reported: Option<&BatchTelemetry>,
    seat: &Seat<'_>,
) -> Box<Report> {
    let (started, at, id) = (Instant::now(), outputs::now(), outputs::new_id());
    let slot = Slot::default();
    let emitter = Arc::new(Emitter::new(Box::new(Collector { fold: Fold::default(), slot: Arc::clone(&slot) })));
    let stage = OnceLock::new();
    let transport = |config: &ClientConfig| seat.transport(config);
    let (joint, needs_price) = (seat.joint(), seat.needs_price());
    let repeats = seat.is_over_another();
    let lent = Lent { recipe, values, transport: &transport, repeats, joint, needs_price, reported };
    let session = RunSession::unkept(&id);
    let begun = Begun { id: &id, started: at, session, emitter: &emitter, stage: &stage, lent: Some(&lent) };
    let work = AssertUnwindSafe(one::work(shared, arguments, &begun)).catch_unwind();
    let finished = tokio::select! {
        // An item that has ended is not cut off at the same moment.
        biased;
        done = work => {
            done.unwrap_or_else(|panic| Err(Failure::internal(panic.as_ref()))).unwrap_or_else(RunFinished::from)
        }
        exit = seat.cut() => cut_off(exit),
    };
    let finished = match signals::heard() {
        // Processes that ended because of the signal, such as git, did not fail.
        Some(exit) if finished.exit != Exit::Ok => outcome::interrupted(exit),
        Some(_) | None => finished,
    };
    one::finish(finished, stage.get(), &emitter, started).await;
    let found = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
    found.unwrap_or_else(|| Box::new(report([])))
}

/// Returns the result of an item that has nothing to do for now.
pub fn nothing_yet() -> Box<Report> {
    Box::new(report([&Event::RunFinished(Box::new(outcome::nothing_to_do(String::new())))]))
}

/// Returns the result of an item that does not run.
pub fn not_run(failure: Failure) -> Box<Report> {
    Box::new(report([&Event::RunFinished(Box::new(failure.into()))]))
}

/// The ending of an item that the batch ends.
fn cut_off(exit: Exit) -> RunFinished {
    if signals::heard().is_some() {
        return outcome::interrupted(exit);
    }
    let message = "ended with its batch; the tree is unchanged".to_owned();
    let error = RunError { code: "interrupted".into(), message, retryable: true, ..RunError::default() };
    RunFinished::failed(exit, error)
}

/// Where the result of an item is put.
type Slot = Arc<Mutex<Option<Box<Report>>>>;

/// Folds the events of an item into its result.
struct Collector {
    fold: Fold,
    slot: Slot,
}

impl Outlet for Collector {
    fn event(&mut self, event: &Event, _: Option<&str>) {
        self.fold.add(event);
    }

    fn close(self: Box<Self>) -> Exit {
        let report = self.fold.report();
        let exit = Exit::of_code(report.ending.exit_code).unwrap_or(Exit::Failed);
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(report));
        exit
    }
}
