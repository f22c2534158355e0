//! Runs the items of a batch: several at a time in one process, at one pace, within one budget.
//!
//! What an item is, is the business of [`Work`]; everything here knows items by their numbers alone.

pub mod item;
pub mod local;
pub mod records;
pub mod seat;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::watch;

use crate::batch::budget::{Amount, Budget, Start, is_of_batch};
use crate::batch::item::Item;
use crate::batch::journal::{Ended, Started, is_final};
use crate::batch::tally::{Share, Stop, Tally};
use crate::emit::Report;
use crate::event::{BudgetExceeded, RunError};
use crate::exit::Exit;
use crate::model::paced::Gate;
use crate::run::error::Failure;
use crate::run::output::signals::{self, Signals};
use crate::workspace::item_list::ItemList;

use records::{Records, ended};
use seat::{Cut, Seat, ThreadSeat};

/// Threads at most.
const THREADS: usize = 8;

/// The stack of each: what the main thread has.
const STACK: usize = 8 << 20;

/// How often the journal is brought to the disk, and the time is looked at.
const TICK: Duration = Duration::from_secs(1);

/// What an item of a batch is.
pub trait Work: Sync {
    /// Runs an item to its end, and returns its result.
    fn run<'a>(&'a self, item: &'a Item, seat: &'a Seat<'a>) -> LocalBoxFuture<'a, Box<Report>>;
}

/// How items run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Items at a time.
    pub jobs: u32,
    /// Tries of one item in all.
    pub attempts: u32,
    /// Exit codes that deserve another try.
    pub retry_on: Vec<u8>,
    /// Whether this call tries again; else the next one.
    pub tries_again: bool,
    /// Failed items after which no more start.
    pub max_failures: Option<Share>,
    /// What running items may still take when the batch stops.
    pub drain: Duration,
    /// The time of this call.
    pub wall_time: Option<Duration>,
    /// When it began.
    pub started: Instant,
    /// Whether the price of the model must be known.
    pub needs_price: bool,
}

/// An item that is to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// Its number.
    pub n: u32,
    /// The tries that it has behind it.
    pub tries: u32,
    /// Whether nothing else may run beside it.
    pub alone: bool,
}

/// What is to be done, and what is counted already.
pub struct Plan {
    /// The items to run, in order.
    pub queue: VecDeque<Turn>,
    /// The counts.
    pub tally: Tally,
    /// The account.
    pub budget: Budget,
}

/// What came of it.
pub struct Outcome {
    /// The counts.
    pub tally: Tally,
    /// What stopped it.
    pub stop: Option<Stop>,
    /// The error that did.
    pub error: Option<RunError>,
}

/// The items of a batch as they run.
struct Engine<'a> {
    work: &'a dyn Work,
    list: &'a ItemList,
    records: &'a Records<'a>,
    options: &'a Options,
    gate: Arc<Gate>,
    state: Mutex<State>,
    budget: Arc<Mutex<Budget>>,
    cut: watch::Sender<Cut>,
}

struct State {
    queue: VecDeque<Turn>,
    running: u32,
    /// Whether what runs is to be alone.
    alone: bool,
    tally: Tally,
    stop: Option<Stop>,
    error: Option<RunError>,
}

/// What a thread does next.
enum Next {
    Item(Turn, Amount),
    Wait,
    Over,
}

/// Runs the items of a plan. Returns when none is running any more; calls `listen` in this thread meanwhile, which
/// returns when the records have nothing more to say.
pub fn run(
    work: &dyn Work,
    list: &ItemList,
    records: &Records<'_>,
    (options, gate): (&Options, &Arc<Gate>),
    plan: Plan,
    listen: &mut dyn FnMut(),
) -> Result<Outcome, Failure> {
    let Plan { queue, tally, budget } = plan;
    let state = State { queue, running: 0, alone: false, tally, stop: None, error: None };
    let engine = Engine {
        work,
        list,
        records,
        options,
        gate: Arc::clone(gate),
        state: Mutex::new(state),
        budget: Arc::new(Mutex::new(budget)),
        cut: watch::Sender::new(Cut::No),
    };
    signals::end_in_order(|_| {});
    let jobs = options.jobs.max(1) as usize;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = jobs.min(cores).min(THREADS);
    std::thread::scope(|scope| {
        let engine = &engine;
        let mut started = Vec::new();
        for at in 0..threads {
            let seats = jobs / threads + usize::from(at < jobs % threads);
            let thread = std::thread::Builder::new().name(format!("items {at}")).stack_size(STACK);
            started.push(thread.spawn_scoped(scope, move || on_a_runtime(engine.serve(seats)))?);
        }
        let watching = std::thread::Builder::new().name("watch".to_owned());
        started.push(watching.spawn_scoped(scope, move || on_a_runtime(engine.watch()))?);
        listen();
        started.into_iter().try_for_each(|thread| match thread.join() {
            Ok(ended) => ended,
            Err(panic) => Err(std::io::Error::other(Failure::internal(panic.as_ref()).error.message)),
        })
    })
    .map_err(|error: std::io::Error| Failure::output(format!("the batch cannot run: {error}")))?;
    let State { tally, stop, error, .. } = engine.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Outcome { tally, stop, error })
}

/// Works in a runtime of this thread.
fn on_a_runtime(work: impl Future<Output = ()>) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(work);
    Ok(())
}

impl Engine<'_> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn budget(&self) -> MutexGuard<'_, Budget> {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs items in this thread, so many at a time, until none is left.
    async fn serve(&self, seats: usize) {
        let thread = ThreadSeat::new(seats);
        let mut running = FuturesUnordered::new();
        loop {
            let change = self.gate.change();
            tokio::pin!(change);
            // From here on no change is missed.
            change.as_mut().enable();
            let over = loop {
                if running.len() >= seats {
                    break false;
                }
                match self.next() {
                    Next::Item(turn, reserve) => running.push(self.one(turn, reserve, &thread)),
                    Next::Wait => break false,
                    Next::Over => break true,
                }
            };
            if running.is_empty() && over {
                return;
            }
            tokio::select! {
                Some(()) = running.next(), if !running.is_empty() => {}
                () = &mut change => {}
                () = tokio::time::sleep(TICK) => {}
            }
        }
    }

    fn next(&self) -> Next {
        let mut state = self.state();
        if state.stop.is_some() {
            return Next::Over;
        }
        let Some(turn) = state.queue.front().copied() else {
            // One that runs may have to be tried again.
            return if state.running == 0 { Next::Over } else { Next::Wait };
        };
        if state.running > 0 && (state.alone || turn.alone || !self.gate.lets_others_start()) {
            return Next::Wait;
        }
        match self.budget().start() {
            Start::Now(reserve) => {
                state.queue.pop_front();
                state.running += 1;
                state.alone = turn.alone;
                Next::Item(turn, reserve)
            }
            Start::Later => Next::Wait,
            Start::Never(exceeded) => {
                self.stop(&mut state, Stop::Total, Some(of_total(exceeded)));
                Next::Over
            }
        }
    }

    /// Runs one item and records its end.
    async fn one(&self, turn: Turn, reserve: Amount, thread: &ThreadSeat) {
        let outcome = self.recorded(turn, reserve, thread).await;
        let mut state = self.state();
        state.running -= 1;
        if let Err(failure) = outcome {
            self.budget().end(reserve, Amount::default());
            // What is not recorded would be paid for again: no more starts.
            self.stop(&mut state, Stop::Same(failure.exit), Some(*failure.error));
        }
        drop(state);
        self.gate.changed();
    }

    async fn recorded(&self, turn: Turn, reserve: Amount, thread: &ThreadSeat) -> Result<(), Failure> {
        let Turn { n, tries, alone } = turn;
        let attempt = tries + 1;
        let item = self.list.item(n).map_err(|error| Failure::output(format!("cannot read the list: {error}")))?;
        let time = jiff::Timestamp::now().to_string();
        self.records.start(Started { n, key: item.key.clone(), r#try: attempt, time, alone })?;
        let seat = Seat::new(thread, &self.gate, &self.budget, self.options.needs_price, self.cut.subscribe());
        let report = self.work.run(&item, &seat).await;
        let waited = seat.waited();
        let mut line = ended(&item, &report, attempt, waited);
        let of_batch = is_total(line.error.as_ref());
        let may_retry = self.options.retry_on.contains(&line.exit_code) && attempt < self.options.attempts;
        line.r#final = is_final(line.exit_code, may_retry, of_batch);
        self.records.end(&item, &mut line, &report)?;
        let again = may_retry && !of_batch && self.options.tries_again;
        self.account(&line, reserve, again, report.totals.num_turns > 0);
        Ok(())
    }

    /// Counts an end, and decides what follows from it.
    fn account(&self, line: &Ended, reserve: Amount, again: bool, was_answered: bool) {
        let cost = Amount { cost_usd: line.cost_usd.unwrap_or_default(), tokens: line.usage.tokens() };
        self.budget().end(reserve, cost);
        let exit = Exit::of_code(line.exit_code).unwrap_or(Exit::Failed);
        let mut state = self.state();
        if was_answered {
            state.tally.answered();
        }
        if matches!(exit, Exit::Ok | Exit::Gate | Exit::NoChanges) {
            self.gate.follow();
        }
        let stop = state.tally.end(exit, line.r#final, self.options.jobs, self.options.max_failures);
        match stop {
            Some(stop) => self.stop(&mut state, stop, line.error.clone()),
            None if is_total(line.error.as_ref()) => self.stop(&mut state, Stop::Total, line.error.clone()),
            None if again => state.queue.push_back(Turn { n: line.n, tries: line.r#try, alone: false }),
            None => {}
        }
    }

    /// Lets nothing start any more; the first reason counts, but for a signal.
    fn stop(&self, state: &mut State, stop: Stop, error: Option<RunError>) {
        let exit = match stop {
            Stop::Signal(exit) => exit,
            Stop::Same(_) | Stop::Unavailable | Stop::Failures | Stop::Total => Exit::Interrupted,
        };
        if state.stop.is_none() || matches!(stop, Stop::Signal(_)) {
            (state.stop, state.error) = (Some(stop), error);
            self.cut.send_if_modified(|cut| {
                let first = *cut == Cut::No;
                if first {
                    *cut = Cut::Waiting(exit);
                }
                first
            });
            self.gate.close();
        }
    }

    /// Watches signals and times until nothing is running any more.
    async fn watch(&self) {
        let began = self.options.started;
        let mut signals = Signals::listen().ok();
        let mut stopped: Option<Instant> = None;
        loop {
            let change = self.gate.change();
            tokio::pin!(change);
            change.as_mut().enable();
            {
                let mut state = self.state();
                let is_late = self.options.wall_time.is_some_and(|most| began.elapsed() >= most);
                if is_late && state.stop.is_none() {
                    let error = out_of_time(self.options.wall_time.unwrap_or_default());
                    self.stop(&mut state, Stop::Total, Some(error));
                }
                if state.running == 0 && (state.stop.is_some() || state.queue.is_empty()) {
                    break;
                }
                if state.stop.is_some() && stopped.is_none() {
                    stopped = Some(Instant::now());
                }
            }
            if stopped.is_some_and(|stopped| stopped.elapsed() >= self.options.drain) {
                self.cut.send_modify(|cut| {
                    if let Cut::Waiting(exit) = *cut {
                        *cut = Cut::All(exit);
                    }
                });
            }
            let left = [
                self.options.wall_time.map(|most| most.saturating_sub(began.elapsed())),
                stopped.map(|stopped| self.options.drain.saturating_sub(stopped.elapsed())),
            ];
            let nap = left.into_iter().flatten().filter(|left| !left.is_zero()).fold(TICK, Duration::min);
            tokio::select! {
                exit = signals::next_of(signals.as_mut()) => {
                    self.stop(&mut self.state(), Stop::Signal(exit), Some(interrupted()));
                }
                () = &mut change => {}
                () = tokio::time::sleep(nap) => {}
            }
            self.records.sync();
        }
        self.records.close();
    }
}

/// Returns the error of a batch that a signal ends.
pub fn interrupted() -> RunError {
    let message = format!("interrupted by {}", signals::name().unwrap_or("a signal"));
    RunError { code: "interrupted".into(), message, ..RunError::default() }
}

/// Returns the error of a batch whose time is used up.
pub fn out_of_time(limit: Duration) -> RunError {
    let limit = limit.as_millis() as f64;
    of_total(BudgetExceeded { kind: "total_wall_time".into(), limit, spent: limit })
}

/// Returns the error of a total of the batch that is used up.
fn of_total(exceeded: BudgetExceeded) -> RunError {
    let failure = Failure::from(crate::agent::Stopped::from(crate::agent::limits::Exceeded::Budget(exceeded)));
    *failure.error
}

/// Tells whether a total of the batch ended a run.
fn is_total(error: Option<&RunError>) -> bool {
    let budget = error.and_then(|error| error.budget.as_ref());
    budget.is_some_and(is_of_batch)
}
