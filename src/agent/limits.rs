//! Tracks what a run has spent against what it may spend.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::event::{BudgetExceeded, Limits};
use crate::model::{Price, Usage};

/// What a run spends together with others.
pub trait Joint: std::fmt::Debug + Send + Sync {
    /// Checks whether what all of them may spend is used up.
    fn check(&self) -> Result<(), BudgetExceeded>;

    /// Counts what an answer has cost; `None` if its price is unknown.
    fn spend(&self, tokens: u64, cost_usd: Option<f64>);

    /// Returns how long this run has waited for others: it is not the run's own time.
    fn waited(&self) -> Duration;
}

/// The calls that were denied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Denials {
    /// How many.
    pub number: u64,
    /// The tool of the first one, and the reason.
    pub first: String,
}

/// Counts everything that a run spends against its limits.
#[derive(Debug)]
pub struct Account {
    joint: Option<Arc<dyn Joint>>,
    limits: Limits,
    started: Instant,
    turns: u64,
    /// Turns of earlier conversations: each conversation has the whole limit.
    earlier_turns: u64,
    tool_calls: u64,
    shell_calls: u64,
    denials: Denials,
    same_denials: (String, u64),
    tokens: u64,
    cost_usd: Option<f64>,
}

/// A limit that was reached: the run ends and delivers nothing.
#[derive(Debug, Clone, PartialEq)]
pub enum Exceeded {
    /// The turn limit (exit 53).
    Turns {
        /// The limit.
        limit: u64,
    },
    /// Too many denied calls (exit 60).
    Denials {
        /// The limit.
        limit: u64,
        /// Whether all of them were the same denial.
        same: bool,
    },
    /// Wall time, calls, tokens or cost (exit 55).
    Budget(BudgetExceeded),
}

impl Account {
    /// Opens an account at `started`.
    pub fn open(limits: Limits, started: Instant) -> Account {
        Account {
            joint: None,
            limits,
            started,
            turns: 0,
            earlier_turns: 0,
            tool_calls: 0,
            shell_calls: 0,
            denials: Denials::default(),
            same_denials: (String::new(), 0),
            tokens: 0,
            cost_usd: Some(0.0),
        }
    }

    /// Counts for others, too, where the run is one of many.
    pub fn joining(mut self, joint: Option<Arc<dyn Joint>>) -> Account {
        self.joint = joint;
        self
    }

    /// Returns the time that is left at `now`; `None` without a limit.
    pub fn time_left(&self, now: Instant) -> Option<Duration> {
        let limit = Duration::from_millis(self.limits.wall_time_ms?);
        Some(limit.saturating_sub(self.time_spent(now)))
    }

    fn time_spent(&self, now: Instant) -> Duration {
        let waited = self.joint.as_ref().map(|joint| joint.waited()).unwrap_or_default();
        now.saturating_duration_since(self.started).saturating_sub(waited)
    }

    /// Awaits a part of the run, at most until its time is used up.
    pub async fn within_time<T>(&self, work: impl Future<Output = T>) -> Result<T, Exceeded> {
        tokio::pin!(work);
        // What it waits for others meanwhile gives it more time.
        while let Some(left) = self.time_left(Instant::now()) {
            if let Ok(done) = tokio::time::timeout(left, &mut work).await {
                return Ok(done);
            }
            if self.time_left(Instant::now()).is_some_and(|left| left.is_zero()) {
                return Err(self.time_is_up());
            }
        }
        Ok(work.await)
    }

    /// Returns what ends a run whose time is used up.
    pub fn time_is_up(&self) -> Exceeded {
        let limit = self.limits.wall_time_ms.unwrap_or_default() as f64;
        Exceeded::Budget(BudgetExceeded { kind: "wall_time".into(), limit, spent: limit })
    }

    /// Begins another conversation, which may have as many turns. All else is counted for the run.
    pub fn next_conversation(&mut self) {
        self.earlier_turns = self.turns;
    }

    /// Counts one turn, or returns the limit that forbids it.
    pub fn take_turn(&mut self, now: Instant) -> Result<u32, Exceeded> {
        self.check_budgets(now)?;
        if let Some(limit) = self.limits.turns
            && self.turns - self.earlier_turns >= limit
        {
            return Err(Exceeded::Turns { limit });
        }
        self.turns += 1;
        Ok(u32::try_from(self.turns).unwrap_or(u32::MAX))
    }

    /// Tells whether no turn is left after this one.
    pub fn is_last_turn(&self) -> bool {
        !self.has_turns(1)
    }

    /// Tells whether as many turns are left after this one.
    pub fn has_turns(&self, count: u64) -> bool {
        self.limits.turns.is_none_or(|limit| self.turns - self.earlier_turns + count <= limit)
    }

    /// Tells whether a call can be made that the model did not ask for: it needs a turn after this one, and a call.
    pub fn can_search(&self) -> bool {
        self.has_turns(1) && self.limits.tool_calls.is_none_or(|limit| self.tool_calls + 1 < limit)
    }

    /// Counts one tool call, or returns the limit that forbids it.
    pub fn take_call(&mut self, is_command: bool, now: Instant) -> Result<(), Exceeded> {
        self.check_wall_time(now)?;
        over("tool_calls", self.limits.tool_calls, self.tool_calls + 1)?;
        if is_command {
            over("shell_calls", self.limits.shell_calls, self.shell_calls + 1)?;
            self.shell_calls += 1;
        }
        self.tool_calls += 1;
        Ok(())
    }

    /// Counts a denial; `what` identifies equal ones.
    pub fn deny(&mut self, what: &str) -> Result<(), Exceeded> {
        self.denials.number += 1;
        if self.same_denials.0 == what {
            self.same_denials.1 += 1;
        } else {
            self.same_denials = (what.to_owned(), 1);
        }
        if let Some(limit) = self.limits.denials
            && self.denials.number >= limit
        {
            return Err(Exceeded::Denials { limit, same: false });
        }
        match self.limits.same_denial {
            Some(limit) if self.same_denials.1 >= limit => Err(Exceeded::Denials { limit, same: true }),
            Some(_) | None => Ok(()),
        }
    }

    /// Adds the cost of a turn and returns it in US dollars; `None` if the price or the counts are unknown.
    pub fn spend(&mut self, usage: &Usage, estimate: u64, price: Option<&Price>) -> Option<f64> {
        let reported = match (usage.input_tokens, usage.output_tokens) {
            (None, None) => None,
            (input, output) => Some(input.unwrap_or(0) + output.unwrap_or(0)),
        };
        let tokens = reported.unwrap_or(estimate);
        self.tokens += tokens;
        let cost = price.and_then(|price| cost_usd(usage, price));
        self.joint.iter().for_each(|joint| joint.spend(tokens, cost));
        self.cost_usd = self.cost_usd.zip(cost).map(|(so_far, now)| so_far + now);
        cost
    }

    /// Checks whether wall time, tokens or cost are used up.
    pub fn check_budgets(&self, now: Instant) -> Result<(), Exceeded> {
        self.check_wall_time(now)?;
        reached("total_tokens", self.limits.total_tokens.map(|limit| limit as f64), self.tokens as f64)?;
        reached("cost_usd", self.limits.cost_usd, self.cost_usd.unwrap_or(0.0))?;
        self.joint.as_ref().map_or(Ok(()), |joint| joint.check()).map_err(Exceeded::Budget)
    }

    fn check_wall_time(&self, now: Instant) -> Result<(), Exceeded> {
        let spent = self.time_spent(now).as_millis() as f64;
        reached("wall_time", self.limits.wall_time_ms.map(|limit| limit as f64), spent)
    }

    /// Returns the number of tool calls so far.
    pub fn tool_calls(&self) -> u64 {
        self.tool_calls
    }

    /// Keeps what the first denial was, in words.
    pub(super) fn describe_denial(&mut self, words: &dyn Fn() -> String) {
        if self.denials.first.is_empty() {
            self.denials.first = words();
        }
    }

    /// Returns the calls that were denied so far.
    pub fn denials(&self) -> &Denials {
        &self.denials
    }
}

fn over(kind: &str, limit: Option<u64>, spent: u64) -> Result<(), Exceeded> {
    match limit {
        Some(limit) if spent > limit => {
            Err(Exceeded::Budget(BudgetExceeded { kind: kind.into(), limit: limit as f64, spent: (spent - 1) as f64 }))
        }
        Some(_) | None => Ok(()),
    }
}

fn reached(kind: &str, limit: Option<f64>, spent: f64) -> Result<(), Exceeded> {
    match limit {
        Some(limit) if spent >= limit => Err(Exceeded::Budget(BudgetExceeded { kind: kind.into(), limit, spent })),
        Some(_) | None => Ok(()),
    }
}

/// Returns the cost of one answer in US dollars; cached tokens are part of the input and priced apart.
pub fn cost_usd(usage: &Usage, price: &Price) -> Option<f64> {
    let input = usage.input_tokens?;
    let output = usage.output_tokens?;
    let read = usage.cache_read_input_tokens.unwrap_or(0).min(input);
    let created = usage.cache_creation_input_tokens.unwrap_or(0).min(input - read);
    let plain = input - read - created;
    let dollars = plain as f64 * price.input
        + read as f64 * price.cache_read
        + created as f64 * price.cache_write
        + output as f64 * price.output;
    Some(dollars / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_beyond_the_limit_is_refused() {
        let now = Instant::now();
        let mut account = Account::open(Limits { turns: Some(1), ..Limits::default() }, now);
        assert_eq!(account.take_turn(now), Ok(1));
        assert_eq!(account.take_turn(now), Err(Exceeded::Turns { limit: 1 }));
        account.next_conversation();
        assert_eq!((account.take_turn(now), account.is_last_turn()), (Ok(2), true));
        assert_eq!(account.take_turn(now), Err(Exceeded::Turns { limit: 1 }));
    }

    #[test]
    fn wall_time_is_counted_from_the_start() {
        let start = Instant::now();
        let account = Account::open(Limits { wall_time_ms: Some(1000), ..Limits::default() }, start);
        assert_eq!(account.time_left(start + Duration::from_millis(400)), Some(Duration::from_millis(600)));
        assert!(account.check_budgets(start + Duration::from_millis(999)).is_ok());
        let Err(Exceeded::Budget(budget)) = account.check_budgets(start + Duration::from_secs(1)) else {
            panic!("the time is up");
        };
        assert_eq!(budget.kind, "wall_time");
    }

    #[test]
    fn the_same_denial_again_and_again_ends_the_run() {
        let limits = Limits { denials: Some(20), same_denial: Some(3), ..Limits::default() };
        let mut account = Account::open(limits, Instant::now());
        assert!(account.deny("a").is_ok());
        assert!(account.deny("a").is_ok());
        assert!(account.deny("b").is_ok());
        assert!(account.deny("b").is_ok());
        assert_eq!(account.deny("b"), Err(Exceeded::Denials { limit: 3, same: true }));
    }

    #[test]
    fn an_unknown_price_makes_the_cost_unknown_and_not_zero() {
        let usage = Usage { input_tokens: Some(1_000_000), output_tokens: Some(0), ..Usage::default() };
        let mut account = Account::open(Limits { cost_usd: Some(0.5), ..Limits::default() }, Instant::now());
        assert_eq!(account.spend(&usage, 0, None), None);
        let price = Price { input: 1.0, output: 1.0, cache_read: 0.1, cache_write: 1.25 };
        assert_eq!(account.spend(&usage, 0, Some(&price)), Some(1.0));
        assert!(account.check_budgets(Instant::now()).is_ok(), "an unknown sum is not compared");
    }

    #[test]
    fn cached_tokens_are_priced_apart() {
        let usage = Usage {
            input_tokens: Some(1_000_000),
            cache_read_input_tokens: Some(800_000),
            output_tokens: Some(100_000),
            ..Usage::default()
        };
        let price = Price { input: 1.0, output: 5.0, cache_read: 0.1, cache_write: 0.0 };
        let dollars = cost_usd(&usage, &price).expect("all counts are known");
        assert!((dollars - (0.2 + 0.08 + 0.5)).abs() < 1e-9);
    }
}
