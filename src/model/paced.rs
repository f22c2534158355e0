//! Sends the requests of a whole batch at one pace: all wait at one gate until it is their turn.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::Instant;

use super::BoxFuture;
use super::retry_after::retry_after;
use super::transport::{Body, End, Transport, TransportError, WireRequest, WireResponse};
use crate::base::trace::Trace;
use crate::batch::pace::{Answer, Gate as Decision, Limits, Pace, Pass};

/// How long a server that refuses a request and names no time is left alone until the retry engine names one.
const A_MOMENT: Duration = Duration::from_millis(100);

/// The gate of a batch, for the requests of all its items.
pub struct Gate {
    state: Mutex<State>,
    notify: Notify,
    began: Instant,
}

struct State {
    pace: Pace,
    /// Who waits, in order: items that have begun first.
    waiting: BTreeSet<(bool, u64)>,
    tickets: u64,
    waited: Duration,
    closed_for_good: bool,
}

impl Gate {
    /// Opens a gate.
    pub fn new(limits: Limits) -> Gate {
        let pace = Pace::new(limits);
        let state =
            State { pace, waiting: BTreeSet::new(), tickets: 0, waited: Duration::ZERO, closed_for_good: false };
        Gate { state: Mutex::new(state), notify: Notify::new(), began: Instant::now() }
    }

    /// Returns how many requests may be in flight, and the least that it was.
    pub fn limit(&self) -> (u32, u32) {
        self.state().pace.limit()
    }

    /// Returns how long requests have waited here, added up.
    pub fn waited(&self) -> Duration {
        self.state().waited
    }

    /// Tells whether more than the first item may be at work.
    pub fn lets_others_start(&self) -> bool {
        self.state().pace.lets_others_start(self.began.elapsed())
    }

    /// Lets others follow the first item.
    pub fn follow(&self) {
        self.state().pace.first_byte();
        self.changed();
    }

    /// Lets no item begin any more.
    pub fn close(&self) {
        self.state().closed_for_good = true;
        self.changed();
    }

    /// Tells everybody who waits that something has changed.
    pub fn changed(&self) {
        self.notify.notify_waiters();
    }

    /// Returns what waits for the next change, from the moment when it is enabled or polled.
    pub fn change(&self) -> Notified<'_> {
        self.notify.notified()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leave(&self, pass: Pass, answer: Answer) {
        self.state().pace.leave(self.began.elapsed(), pass, answer);
        self.changed();
    }

    fn close_for(&self, wait: Duration) {
        self.state().pace.close_until(self.began.elapsed() + wait);
    }

    /// Waits for its turn. Only the first of those who wait asks.
    async fn enter(&self, is_new: bool, tokens: u64) -> Pass {
        let place = {
            let mut state = self.state();
            state.tickets += 1;
            let place = Place { gate: self, key: (is_new, state.tickets), since: Instant::now() };
            state.waiting.insert(place.key);
            place
        };
        loop {
            let notified = self.change();
            tokio::pin!(notified);
            // From here on no change is missed.
            notified.as_mut().enable();
            let wait = {
                let mut state = self.state();
                let may_try = state.waiting.first() == Some(&place.key) && !(is_new && state.closed_for_good);
                match may_try.then(|| state.pace.enter(self.began.elapsed(), tokens)) {
                    Some(Decision::Open(pass)) => return pass,
                    Some(Decision::Until(at)) => Some(at.saturating_sub(self.began.elapsed())),
                    Some(Decision::Full) | None => None,
                }
            };
            match wait {
                Some(wait) => {
                    let _changed = tokio::time::timeout(wait.max(Duration::from_millis(1)), notified).await;
                }
                None => notified.await,
            }
        }
    }
}

/// A place in the queue, which is left even where the request is given up.
struct Place<'g> {
    gate: &'g Gate,
    key: (bool, u64),
    since: Instant,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.gate.state();
        state.waiting.remove(&self.key);
        state.waited += self.since.elapsed();
        drop(state);
        self.gate.changed();
    }
}

/// The transport of one item.
pub struct Paced {
    inner: Arc<dyn Transport>,
    gate: Arc<Gate>,
    waits: Arc<Waits>,
    trace: Option<Arc<Trace>>,
    /// Passes of requests that are about to be sent.
    passes: Mutex<Vec<Held>>,
}

/// What an item has waited, and whether it has sent anything.
#[derive(Debug, Default)]
pub struct Waits {
    state: Mutex<Waiting>,
    has_begun: AtomicBool,
}

#[derive(Debug, Default)]
struct Waiting {
    over: Duration,
    now: u32,
    since: Option<Instant>,
}

impl Waits {
    /// Returns how long the item has waited for its turn so far.
    pub fn waited(&self) -> Duration {
        let state = self.state();
        state.over + state.since.map(|since| since.elapsed()).unwrap_or_default()
    }

    /// Tells whether the item has sent a request.
    pub fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    fn state(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self) -> Wait<'_> {
        let mut state = self.state();
        state.now += 1;
        state.since.get_or_insert_with(Instant::now);
        Wait(self)
    }
}

/// A wait that is not over.
struct Wait<'w>(&'w Waits);

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.now -= 1;
        if state.now == 0
            && let Some(since) = state.since.take()
        {
            state.over += since.elapsed();
        }
    }
}

impl Paced {
    /// Sends what one item asks for through the gate. `inner` knows nothing of the item's trace.
    pub fn new(inner: Arc<dyn Transport>, gate: Arc<Gate>, waits: Arc<Waits>, trace: Option<Arc<Trace>>) -> Paced {
        Paced { inner, gate, waits, trace, passes: Mutex::default() }
    }

    fn passes(&self) -> MutexGuard<'_, Vec<Held>> {
        self.passes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A pass, which is handed back at the latest when it is dropped.
struct Held {
    gate: Arc<Gate>,
    pass: Option<Pass>,
    answer: Answer,
}

impl Held {
    fn leave(&mut self, answer: Answer) {
        if let Some(pass) = self.pass.take() {
            self.gate.leave(pass, answer);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.leave(self.answer);
    }
}

impl Transport for Paced {
    fn turn<'a>(&'a self, tokens: u64) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let waits = self.waits.wait();
            let pass = self.gate.enter(!self.waits.has_begun(), tokens).await;
            drop(waits);
            self.waits.has_begun.store(true, Ordering::Relaxed);
            self.passes().push(Held { gate: Arc::clone(&self.gate), pass: Some(pass), answer: Answer::Other });
        })
    }

    fn send<'a>(&'a self, mut request: WireRequest) -> BoxFuture<'a, Result<WireResponse, TransportError>> {
        Box::pin(async move {
            // What asks a server about itself has no turn.
            let held = if request.operation == "chat/completions" { self.passes().pop() } else { None };
            if let Some(trace) = &self.trace {
                let context = trace.context_of_open();
                request.headers.extend(context.headers().map(|(name, value)| (name.to_owned(), value.to_owned())));
            }
            let mut response = self.inner.send(request).await?;
            if let Some(mut held) = held {
                match response.status {
                    200..300 => {
                        response.body = Box::new(PacedBody { inner: response.body, held });
                    }
                    429 | 503 | 529 => {
                        let asked = retry_after(&response.headers, None).unwrap_or(A_MOMENT);
                        held.leave(Answer::Refused(asked));
                    }
                    _ => {}
                }
            }
            Ok(response)
        })
    }

    fn pause(&self, wait: Duration, refused: bool) -> Duration {
        let wait = self.inner.pause(wait, refused);
        if !refused {
            return wait;
        }
        // The whole batch waits, at the gate.
        self.gate.close_for(wait);
        Duration::ZERO
    }
}

/// An answer that is being read.
struct PacedBody {
    inner: Box<dyn Body>,
    held: Held,
}

impl Body for PacedBody {
    fn next<'a>(&'a mut self) -> BoxFuture<'a, Result<Option<Vec<u8>>, TransportError>> {
        Box::pin(async move {
            let read = self.inner.next().await;
            match &read {
                Ok(Some(_)) if self.held.answer == Answer::Other => {
                    self.held.answer = Answer::Good;
                    self.held.gate.follow();
                }
                Ok(Some(_)) => {}
                Ok(None) => self.held.leave(Answer::Good),
                Err(_) => self.held.leave(Answer::Other),
            }
            read
        })
    }

    fn abandon(&mut self, end: End) {
        if matches!(end, End::Reset | End::Timeout(_) | End::Cancelled) {
            self.held.answer = Answer::Other;
        }
        self.inner.abandon(end);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn gate(jobs: u32) -> Gate {
        let gate = Gate::new(Limits { jobs, requests_a_minute: None, tokens_a_minute: None });
        gate.follow();
        gate
    }

    #[tokio::test]
    async fn a_request_of_an_item_that_has_begun_goes_before_the_first_of_a_new_one() {
        let (gate, order) = (gate(1), Mutex::new(Vec::new()));
        let first = gate.enter(true, 0).await;
        let one = |is_new: bool| {
            let (gate, order) = (&gate, &order);
            async move {
                let pass = gate.enter(is_new, 0).await;
                order.lock().unwrap().push(is_new);
                gate.leave(pass, Answer::Good);
            }
        };
        tokio::join!(one(true), one(false), async { gate.leave(first, Answer::Good) });
        assert_eq!(*order.lock().unwrap(), [false, true]);
    }

    #[tokio::test]
    async fn a_gate_that_is_closed_lets_no_item_begin_and_those_that_have_begun_end() {
        let gate = gate(4);
        gate.close();
        assert!(gate.enter(true, 0).now_or_never().is_none());
        assert!(gate.enter(false, 0).now_or_never().is_some());
        assert!(gate.state().waiting.is_empty(), "who gives up leaves the queue");
    }

    #[tokio::test]
    async fn what_an_item_waits_for_its_turn_is_counted_once() {
        let waits = Waits::default();
        let (first, second) = (waits.wait(), waits.wait());
        drop(first);
        assert!(waits.state().since.is_some());
        drop(second);
        assert!(waits.state().since.is_none() && !waits.has_begun());
    }
}
