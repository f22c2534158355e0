//! Makes the runs of items up to their first requests, and writes these to files for the provider's Batch API.

use std::collections::{HashMap, VecDeque};
use std::io::{self, BufWriter, Write as _};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use tempfile::NamedTempFile;

use super::items::Items;
use crate::batch::budget::Budget;
use crate::batch::item::{Item, Short};
use crate::batch::journal::{Journal, Keep};
use crate::batch::pace::Limits;
use crate::batch::provider::{Common, LONGEST_LINE, has_room};
use crate::batch::tally::{Stop, Tally};
use crate::emit::{Progress, Report};
use crate::event::RunError;
use crate::model::batch_answer::{Catcher, Caught, line};
use crate::model::config::ClientConfig;
use crate::model::paced::Gate;
use crate::model::transport::Transport;
use crate::run::error::Failure;
use crate::run::many::records::{Records, Said};
use crate::run::many::seat::Seat;
use crate::run::many::{self, Options, Plan, Turn, item};
use crate::workspace::batch_folder::BatchFolder;
use crate::workspace::item_list::ItemList;

/// How often the line that says how far it is changes.
const TICK: Duration = Duration::from_millis(250);

/// What ended a batch before its items ran.
pub(super) struct Halt {
    /// What.
    pub(super) stop: Stop,
    /// Why.
    pub(super) error: RunError,
}

/// The first requests of items, in files without a name.
#[derive(Default)]
pub(super) struct Prepared {
    /// The files, each with the number of its requests.
    pub(super) files: Vec<(NamedTempFile, u64)>,
    /// Items whose request is too large for a line, with its bytes.
    pub(super) too_large: HashMap<Short, usize>,
    /// How much the requests have in common.
    pub(super) common: Common,
}

/// Prepares the items of these turns. Nothing is sent.
pub(super) fn prepare(
    items: Items<'_>,
    (list, folder): (&ItemList, &BatchFolder),
    queue: VecDeque<Turn>,
    started: Instant,
    progress: &mut Progress<'_>,
) -> Result<Result<Prepared, Halt>, Failure> {
    let work = Preparing { items: Items { telemetry: None, ..items }, folder, state: Mutex::default() };
    let course = &items.arguments.course;
    let options = Options {
        jobs: course.jobs,
        attempts: 1,
        retry_on: Vec::new(),
        tries_again: false,
        max_failures: None,
        drain: course.drain,
        wall_time: items.arguments.totals.total_wall_time,
        started,
        needs_price: false,
    };
    let gate = Arc::new(Gate::new(Limits { jobs: course.jobs, requests_a_minute: None, tokens_a_minute: None }));
    gate.follow();
    // What became of them is said when they run.
    let (records, said) = Records::new(None, Keep::None, Journal::default());
    let plan = Plan { tally: Tally::new(queue.len() as u64), queue, budget: Budget::default() };
    let outcome = many::run(&work, list, &records, (&options, &gate), plan, &mut || wait(&said, progress))?;
    if let Some(stop) = outcome.stop {
        return Ok(Err(Halt { stop, error: outcome.error.unwrap_or_default() }));
    }
    let mut state = work.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(failure) = state.failed {
        return Err(failure);
    }
    state.close().map_err(unwritten)?;
    Ok(Ok(state.done))
}

/// Says how far it is until nothing more is told.
fn wait(said: &Receiver<Said>, progress: &mut Progress<'_>) {
    while !matches!(said.recv_timeout(TICK), Err(RecvTimeoutError::Disconnected)) {
        progress.tick();
    }
}

fn unwritten(error: io::Error) -> Failure {
    Failure::output(format!("cannot write the requests to --out: {error}"))
}

/// Items whose runs are made up to their first requests.
struct Preparing<'a> {
    items: Items<'a>,
    folder: &'a BatchFolder,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The file that is being written, with its requests and bytes.
    open: Option<(BufWriter<NamedTempFile>, u64, u64)>,
    done: Prepared,
    /// Why a request is in no file.
    failed: Option<Failure>,
}

impl State {
    fn close(&mut self) -> io::Result<()> {
        if let Some((out, lines, _)) = self.open.take() {
            let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.as_file().sync_all()?;
            self.done.files.push((file, lines));
        }
        Ok(())
    }
}

impl many::Work for Preparing<'_> {
    fn run<'a>(&'a self, item: &'a Item, seat: &'a Seat<'a>) -> LocalBoxFuture<'a, Box<Report>> {
        async move {
            let caught = Caught::default();
            let over = |config: &ClientConfig, _: Arc<dyn Transport>| {
                Arc::new(Catcher::new(config, Arc::clone(&caught))) as Arc<dyn Transport>
            };
            let report = self.items.one(item, &seat.over(&over)).await;
            let body = caught.lock().unwrap_or_else(PoisonError::into_inner).take();
            // A run without a request ends in the same way once more.
            let Some(body) = body else { return report };
            if let Err(failure) = self.add(item, &body) {
                self.state().failed = Some(failure);
            }
            item::nothing_yet()
        }
        .boxed_local()
    }
}

impl Preparing<'_> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, item: &Item, body: &[u8]) -> Result<(), Failure> {
        let Some((line, _)) = line(&item.sha256, body) else { return Ok(()) };
        let mut state = self.state();
        if line.len() >= LONGEST_LINE {
            state.done.too_large.insert(Short::of_hex(&item.sha256), line.len());
            return Ok(());
        }
        state.done.common.add(body);
        if state.open.as_ref().is_some_and(|(_, lines, bytes)| !has_room(*lines, *bytes, line.len() + 1)) {
            state.close().map_err(unwritten)?;
        }
        if state.open.is_none() {
            state.open = Some((BufWriter::new(self.folder.temporary()?), 0, 0));
        }
        if let Some((out, lines, bytes)) = &mut state.open {
            out.write_all(line.as_bytes()).and_then(|()| out.write_all(b"\n")).map_err(unwritten)?;
            (*lines, *bytes) = (*lines + 1, *bytes + line.len() as u64 + 1);
        }
        Ok(())
    }
}
