//! Tracks what a whole batch has spent and reserved against its totals.

use crate::event::BudgetExceeded;

/// Tells whether a budget is one of a whole batch.
pub fn is_of_batch(budget: &BudgetExceeded) -> bool {
    ["total_cost_usd", "batch_total_tokens", "total_wall_time"].contains(&budget.kind.as_str())
}

/// What something costs, or may cost.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Amount {
    /// US dollars.
    pub cost_usd: f64,
    /// Tokens.
    pub tokens: u64,
}

impl Amount {
    fn plus(self, other: Amount) -> Amount {
        Amount { cost_usd: self.cost_usd + other.cost_usd, tokens: self.tokens.saturating_add(other.tokens) }
    }

    fn minus(self, other: Amount) -> Amount {
        let cost_usd = (self.cost_usd - other.cost_usd).max(0.0);
        Amount { cost_usd, tokens: self.tokens.saturating_sub(other.tokens) }
    }

    /// Returns the larger of each.
    #[must_use]
    pub fn most(self, other: Amount) -> Amount {
        Amount { cost_usd: self.cost_usd.max(other.cost_usd), tokens: self.tokens.max(other.tokens) }
    }
}

/// The limits of something; `None` is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Totals {
    /// US dollars.
    pub cost_usd: Option<f64>,
    /// Tokens.
    pub tokens: Option<u64>,
}

/// Whether another item may start.
#[derive(Debug, Clone, PartialEq)]
pub enum Start {
    /// It may; the amount is reserved for it until its end.
    Now(Amount),
    /// Not before one that is running has ended.
    Later,
    /// Not at all: a total is used up.
    Never(BudgetExceeded),
}

/// The account of a batch.
#[derive(Debug, Clone, Default)]
pub struct Budget {
    totals: Totals,
    item: Totals,
    spent: Amount,
    reserved: Amount,
    running: u32,
    dearest: Amount,
}

impl Budget {
    /// Opens an account with the totals of the batch and the limits of one item. `spent` is what earlier calls of the same
    /// batch have spent, `dearest` the most that one of their items has cost.
    pub fn open(totals: Totals, item: Totals, spent: Amount, dearest: Amount) -> Budget {
        Budget { totals, item, spent, dearest, ..Budget::default() }
    }

    /// Returns what was spent so far.
    pub fn spent(&self) -> Amount {
        self.spent
    }

    /// Decides whether another item may start: what is spent, reserved for running items and reserved for this one must
    /// fit the totals. An item without a limit reserves what the dearest one so far has cost.
    pub fn start(&mut self) -> Start {
        let reserve = Amount {
            cost_usd: self.item.cost_usd.unwrap_or(self.dearest.cost_usd),
            tokens: self.item.tokens.unwrap_or(self.dearest.tokens),
        };
        let with = self.spent.plus(self.reserved).plus(reserve);
        let exceeded = self.check().err().or_else(|| self.over(with, &|used, total| used > total));
        match exceeded {
            None => {
                self.reserved = self.reserved.plus(reserve);
                self.running += 1;
                Start::Now(reserve)
            }
            Some(_) if self.running > 0 => Start::Later,
            Some(exceeded) => Start::Never(exceeded),
        }
    }

    /// Counts what an answer has cost.
    pub fn spend(&mut self, amount: Amount) {
        self.spent = self.spent.plus(amount);
    }

    /// Ends an item: releases what was reserved for it. `cost` is what all of it has cost; it is already counted.
    pub fn end(&mut self, reserve: Amount, cost: Amount) {
        self.reserved = self.reserved.minus(reserve);
        self.running = self.running.saturating_sub(1);
        self.dearest = self.dearest.most(cost);
    }

    /// Decides whether another request may be sent.
    pub fn check(&self) -> Result<(), BudgetExceeded> {
        self.over(self.spent, &|used, total| used >= total).map_or(Ok(()), Err)
    }

    /// Returns the total that an amount breaks. `breaks` compares what would be used with the total.
    fn over(&self, used: Amount, breaks: &dyn Fn(f64, f64) -> bool) -> Option<BudgetExceeded> {
        let kinds = [
            ("total_cost_usd", self.totals.cost_usd, used.cost_usd, self.spent.cost_usd),
            (
                "batch_total_tokens",
                self.totals.tokens.map(|total| total as f64),
                used.tokens as f64,
                self.spent.tokens as f64,
            ),
        ];
        kinds.into_iter().find_map(|(kind, limit, used, spent)| {
            let limit = limit.filter(|limit| breaks(used, *limit))?;
            Some(BudgetExceeded { kind: kind.into(), limit, spent })
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tokens(tokens: u64) -> Amount {
        Amount { cost_usd: 0.0, tokens }
    }

    fn total(tokens: u64) -> Totals {
        Totals { cost_usd: None, tokens: Some(tokens) }
    }

    #[test]
    fn an_item_whose_limit_does_not_fit_waits_for_those_that_run() {
        let mut budget = Budget::open(total(100), total(60), Amount::default(), Amount::default());
        let Start::Now(reserve) = budget.start() else { panic!("all of it is left") };
        assert_eq!(budget.start(), Start::Later);
        budget.spend(tokens(30));
        budget.end(reserve, tokens(30));
        let Start::Now(reserve) = budget.start() else { panic!("70 are left") };
        budget.spend(tokens(20));
        budget.end(reserve, tokens(20));
        let Start::Never(exceeded) = budget.start() else { panic!("50 are left, and one may take 60") };
        assert_eq!((exceeded.kind.as_str(), exceeded.limit, exceeded.spent), ("batch_total_tokens", 100.0, 50.0));
    }

    #[test]
    fn an_item_without_a_limit_reserves_what_the_dearest_has_cost() {
        let totals = Totals { cost_usd: Some(1.0), tokens: None };
        let mut budget =
            Budget::open(totals, Totals::default(), Amount { cost_usd: 0.5, tokens: 9 }, Amount::default());
        let Start::Now(reserve) = budget.start() else { panic!("half of it is left") };
        assert_eq!(reserve, Amount::default());
        let cost = Amount { cost_usd: 0.375, tokens: 9 };
        budget.spend(cost);
        budget.end(reserve, cost);
        assert_eq!(budget.check(), Ok(()));
        assert!(matches!(budget.start(), Start::Never(exceeded) if exceeded.kind == "total_cost_usd"));
    }

    #[test]
    fn no_request_is_sent_once_a_total_is_used_up() {
        let mut budget = Budget::open(total(10), Totals::default(), tokens(9), Amount::default());
        assert_eq!(budget.check(), Ok(()));
        budget.spend(tokens(1));
        assert_eq!(budget.check().map_err(|exceeded| exceeded.spent), Err(10.0));
    }

    proptest! {
        #[test]
        fn items_that_keep_to_their_limit_never_exceed_the_total(
            limit in 1_u64..50, total_tokens in 0_u64..500, costs in prop::collection::vec(0_u64..50, 0..60), jobs in 1_usize..8,
        ) {
            let mut budget = Budget::open(total(total_tokens), total(limit), Amount::default(), Amount::default());
            let mut running = std::collections::VecDeque::new();
            for cost in costs {
                if running.len() < jobs && let Start::Now(reserve) = budget.start() {
                    running.push_back((reserve, cost.min(limit)));
                } else if let Some((reserve, cost)) = running.pop_front() {
                    budget.spend(tokens(cost));
                    budget.end(reserve, tokens(cost));
                }
                prop_assert!(budget.spent().tokens <= total_tokens);
            }
        }
    }
}
