//! Gives each item what it shares with the others: connections, pace, budget, and the end of the batch.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::agent::limits::Joint;
use crate::batch::budget::{Amount, Budget};
use crate::event::BudgetExceeded;
use crate::exit::Exit;
use crate::model::ModelError;
use crate::model::client::Client;
use crate::model::config::ClientConfig;
use crate::model::paced::{Gate, Paced, Waits};
use crate::model::transport::Transport;
use crate::secret::Secret;

/// How far the end of a batch has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// Items run.
    No,
    /// Items that have sent nothing yet are ended.
    Waiting(Exit),
    /// All are.
    All(Exit),
}

/// What the items of one thread share: connections, which belong to the thread's event loop.
pub struct ThreadSeat {
    connections: usize,
    opened: RefCell<Vec<Opened>>,
}

/// The way to one server, by one key.
struct Opened {
    base_url: String,
    key: Option<Secret>,
    transport: Arc<dyn Transport>,
}

impl ThreadSeat {
    /// Makes room for so many items at a time.
    pub(super) fn new(connections: usize) -> ThreadSeat {
        ThreadSeat { connections, opened: RefCell::default() }
    }

    fn transport(&self, config: &ClientConfig) -> Result<Arc<dyn Transport>, ModelError> {
        let is_this = |opened: &&Opened| opened.base_url == config.base_url && opened.key == config.key;
        if let Some(opened) = self.opened.borrow().iter().find(is_this) {
            return Ok(Arc::clone(&opened.transport));
        }
        let mut alone = config.clone();
        // Each request brings the headers of its own item's trace.
        alone.connection.trace = None;
        let transport = Client::http(&alone, self.connections)?;
        let (base_url, key) = (alone.base_url, alone.key);
        self.opened.borrow_mut().push(Opened { base_url, key, transport: Arc::clone(&transport) });
        Ok(transport)
    }
}

/// Makes the way of an item to the server from the usual one.
pub type Over<'a> = dyn Fn(&ClientConfig, Arc<dyn Transport>) -> Arc<dyn Transport> + 'a;

/// The place of one item in its batch.
#[derive(Clone)]
pub struct Seat<'a> {
    thread: &'a ThreadSeat,
    /// What its requests go over, if not straight to the server.
    over: Option<&'a Over<'a>>,
    gate: &'a Arc<Gate>,
    share: Arc<ItemShare>,
    needs_price: bool,
    cut: watch::Receiver<Cut>,
}

/// What an item spends and waits together with the others.
#[derive(Debug)]
struct ItemShare {
    budget: Arc<Mutex<Budget>>,
    waits: Arc<Waits>,
}

impl Joint for ItemShare {
    fn check(&self) -> Result<(), BudgetExceeded> {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner).check()
    }

    fn spend(&self, tokens: u64, cost_usd: Option<f64>) {
        let amount = Amount { cost_usd: cost_usd.unwrap_or_default(), tokens };
        self.budget.lock().unwrap_or_else(PoisonError::into_inner).spend(amount);
    }

    fn waited(&self) -> Duration {
        self.waits.waited()
    }
}

impl<'a> Seat<'a> {
    pub(super) fn new(
        thread: &'a ThreadSeat,
        gate: &'a Arc<Gate>,
        budget: &Arc<Mutex<Budget>>,
        needs_price: bool,
        cut: watch::Receiver<Cut>,
    ) -> Seat<'a> {
        let share = Arc::new(ItemShare { budget: Arc::clone(budget), waits: Arc::default() });
        Seat { thread, over: None, gate, share, needs_price, cut }
    }

    /// Returns the same place, whose requests go over something else.
    pub fn over<'b>(&'b self, over: &'b Over<'b>) -> Seat<'b> {
        Seat { over: Some(over), ..self.clone() }
    }

    /// Tells whether its requests go over something else.
    pub(super) fn is_over_another(&self) -> bool {
        self.over.is_some()
    }

    /// Returns how long its requests have waited for their turn.
    pub fn waited(&self) -> Duration {
        self.share.waits.waited()
    }

    /// Returns what it spends together with the others.
    pub(super) fn joint(&self) -> Arc<dyn Joint> {
        Arc::clone(&self.share) as Arc<dyn Joint>
    }

    /// Tells whether the price of the model must be known.
    pub(super) fn needs_price(&self) -> bool {
        self.needs_price
    }

    /// Returns the way to the server that a configuration names, through the gate of the batch.
    pub(super) fn transport(&self, config: &ClientConfig) -> Result<Arc<dyn Transport>, ModelError> {
        let inner = self.thread.transport(config)?;
        let (gate, waits) = (Arc::clone(self.gate), Arc::clone(&self.share.waits));
        let paced: Arc<dyn Transport> = Arc::new(Paced::new(inner, gate, waits, config.connection.trace.clone()));
        Ok(match self.over {
            Some(over) => over(config, paced),
            None => paced,
        })
    }

    /// Waits until this item is to end because the batch does.
    pub(super) async fn cut(&self) -> Exit {
        let mut cut = self.cut.clone();
        loop {
            match *cut.borrow_and_update() {
                Cut::All(exit) => return exit,
                Cut::Waiting(exit) if !self.share.waits.has_begun() => return exit,
                Cut::No | Cut::Waiting(_) => {}
            }
            if cut.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}
