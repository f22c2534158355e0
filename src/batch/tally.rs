//! Counts how the items of a batch ended, and decides when it stops and with which exit code it ends.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::exit::Exit;

/// Ended items from which on a percentage counts.
const FEW: u64 = 20;

/// A number of items, or a percentage of those that ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Share {
    /// So many.
    Count(u64),
    /// So many of a hundred.
    Percent(f64),
}

impl Share {
    /// Tells whether `part` of `whole` is more than this.
    fn is_less_than(self, part: u64, whole: u64) -> bool {
        match self {
            Share::Count(most) => part > most,
            Share::Percent(most) => part as f64 * 100.0 > most * whole as f64,
        }
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Share, String> {
        let wrong = || format!("`{text}` is neither a number of items nor a percentage such as 5%");
        match text.strip_suffix('%') {
            None => text.parse().map(Share::Count).map_err(|_| wrong()),
            Some(number) => {
                let number = number.parse().ok().filter(|number: &f64| (0.0..=100.0).contains(number));
                number.map(Share::Percent).ok_or_else(wrong)
            }
        }
    }
}

/// Items by how they ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Counts {
    /// Items of the list, or of this shard of it.
    pub total: u64,
    /// Done, or nothing to do.
    pub ok: u64,
    /// Done, with findings.
    pub findings: u64,
    /// The policy denied something.
    pub denied: u64,
    /// Failed for good, denied ones not included.
    pub failed: u64,
    /// Not done: not started, or worth another try.
    pub not_final: u64,
    /// Done in an earlier call.
    pub skipped: u64,
}

/// What stops a batch: nothing starts any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// An item ended in a way that the next one would, too: 41, 44 or 52.
    Same(Exit),
    /// The provider is unavailable.
    Unavailable,
    /// More items failed than `--max-failures` allows.
    Failures,
    /// A total is used up.
    Total,
    /// A signal: 130 or 143.
    Signal(Exit),
}

/// The counts of a batch.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    total: u64,
    /// Items that this call is not to do (`--limit`).
    left_out: u64,
    by_code: BTreeMap<u8, u64>,
    skipped: u64,
    unavailable_in_a_row: u32,
}

impl Tally {
    /// Begins to count a batch of so many items.
    pub fn new(total: u64) -> Tally {
        Tally { total, ..Tally::default() }
    }

    /// Leaves out items that this call is not to do: that they are not done is no reason to call again.
    pub fn leave_out(&mut self, items: u64) {
        self.left_out = items;
    }

    /// Adds an item to the list.
    pub fn list(&mut self) {
        self.total += 1;
    }

    /// Counts an item that is done in an earlier call.
    pub fn skip(&mut self, exit_code: u8) {
        self.skipped += 1;
        *self.by_code.entry(exit_code).or_default() += 1;
    }

    /// Counts an end, and returns what stops the batch because of it. `jobs` is the number of items at a time.
    pub fn end(&mut self, exit: Exit, is_final: bool, jobs: u32, max_failures: Option<Share>) -> Option<Stop> {
        if is_final {
            *self.by_code.entry(exit.code()).or_default() += 1;
        }
        match exit {
            Exit::Auth | Exit::Sandbox | Exit::Config => return Some(Stop::Same(exit)),
            Exit::Unavailable => {
                self.unavailable_in_a_row += 1;
                if self.unavailable_in_a_row >= jobs.max(3) {
                    return Some(Stop::Unavailable);
                }
            }
            Exit::Ok | Exit::Gate | Exit::NoChanges => self.unavailable_in_a_row = 0,
            Exit::Failed
            | Exit::Usage
            | Exit::Input
            | Exit::Turns
            | Exit::Budget
            | Exit::Denied
            | Exit::Schema
            | Exit::Conflict
            | Exit::Verify
            | Exit::Replay
            | Exit::Interrupted
            | Exit::Terminated => {}
        }
        let ended: u64 = self.by_code.values().sum();
        let stops = |most: Share| match most {
            Share::Percent(_) if ended < FEW => false,
            Share::Count(_) | Share::Percent(_) => most.is_less_than(self.failures(), ended),
        };
        max_failures.filter(|most| stops(*most)).map(|_| Stop::Failures)
    }

    /// Counts an item that had ended in one way as ended in another.
    pub fn change(&mut self, from: u8, to: u8) {
        if let Some(count) = self.by_code.get_mut(&from) {
            *count = count.saturating_sub(1);
        }
        self.by_code.retain(|_, count| *count > 0);
        *self.by_code.entry(to).or_default() += 1;
    }

    /// Counts a good answer of the model, whatever becomes of its item.
    pub fn answered(&mut self) {
        self.unavailable_in_a_row = 0;
    }

    /// Returns items by the exit code of their last end.
    pub fn by_code(&self) -> &BTreeMap<u8, u64> {
        &self.by_code
    }

    /// Returns the counts.
    pub fn counts(&self) -> Counts {
        let of = |exit: Exit| self.by_code.get(&exit.code()).copied().unwrap_or_default();
        let ended: u64 = self.by_code.values().sum();
        let (ok, findings, denied) = (of(Exit::Ok) + of(Exit::NoChanges), of(Exit::Gate), of(Exit::Denied));
        Counts {
            total: self.total,
            ok,
            findings,
            denied,
            failed: ended.saturating_sub(ok + findings + denied),
            not_final: self.total.saturating_sub(ended),
            skipped: self.skipped,
        }
    }

    fn failures(&self) -> u64 {
        self.counts().failed
    }

    /// Returns the exit code of the batch. `delivery` is how its combined delivery ended: 0, 63 or 64. The first that
    /// holds counts, so that a scheduler starts a batch again on 75 alone.
    pub fn exit(&self, stop: Option<Stop>, allow_failures: Share, delivery: Exit) -> Exit {
        let counts = self.counts();
        match stop {
            Some(Stop::Signal(exit) | Stop::Same(exit)) => return exit,
            Some(Stop::Total) => return Exit::Budget,
            Some(Stop::Unavailable) => return Exit::Unavailable,
            Some(Stop::Failures) | None => {}
        }
        let ended = counts.total - counts.not_final;
        let holds = [
            (stop.is_none() && counts.not_final > self.left_out, Exit::Unavailable),
            (delivery != Exit::Ok, delivery),
            (allow_failures.is_less_than(counts.failed, ended), Exit::Failed),
            (stop == Some(Stop::Failures), Exit::Failed),
            (counts.denied > 0, Exit::Denied),
            (counts.findings > 0, Exit::Gate),
        ];
        holds.into_iter().find(|(holds, _)| *holds).map_or(Exit::Ok, |(_, exit)| exit)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ended(codes: &[Exit]) -> Tally {
        let mut tally = Tally::new(codes.len() as u64);
        for exit in codes {
            tally.end(*exit, true, 4, None);
        }
        tally
    }

    #[test]
    fn a_share_is_a_number_or_a_percentage() {
        assert_eq!("3".parse(), Ok(Share::Count(3)));
        assert_eq!("2.5%".parse(), Ok(Share::Percent(2.5)));
        for text in ["", "-1", "101%", "x%", "nan%", "1.5"] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_wrong_key_stops_at_the_first_item() {
        for exit in [Exit::Auth, Exit::Sandbox, Exit::Config] {
            let mut tally = Tally::new(9);
            let stop = tally.end(exit, false, 4, None);
            assert_eq!(stop, Some(Stop::Same(exit)));
            assert_eq!(tally.exit(stop, Share::Count(0), Exit::Ok), exit);
            assert_eq!(tally.counts().not_final, 9);
        }
    }

    #[test]
    fn an_item_whose_change_is_left_out_has_failed() {
        let mut tally = ended(&[Exit::Ok, Exit::Gate]);
        tally.change(Exit::Gate.code(), Exit::Conflict.code());
        assert_eq!(tally.by_code(), &[(0, 1), (Exit::Conflict.code(), 1)].into());
        assert_eq!(tally.exit(None, Share::Count(0), Exit::Ok), Exit::Failed);
        assert_eq!(tally.exit(None, Share::Count(1), Exit::Ok), Exit::Ok);
    }

    #[test]
    fn a_provider_that_stays_unavailable_stops_the_batch_and_one_good_answer_does_not() {
        let mut tally = Tally::new(9);
        let mut end = |exit| tally.end(exit, false, 2, None);
        assert_eq!((end(Exit::Unavailable), end(Exit::Unavailable)), (None, None));
        assert_eq!(end(Exit::Ok), None);
        assert_eq!((end(Exit::Unavailable), end(Exit::Unavailable)), (None, None));
        assert_eq!(end(Exit::Unavailable), Some(Stop::Unavailable));
    }

    #[test]
    fn a_percentage_of_failures_counts_from_twenty_items_on() {
        let mut tally = Tally::new(40);
        for at in 1..=20 {
            let stop = tally.end(if at <= 3 { Exit::Verify } else { Exit::Ok }, true, 4, Some(Share::Percent(10.0)));
            assert_eq!(stop.is_some(), at == 20, "{at}");
        }
        let stop = Tally::new(3).end(Exit::Verify, true, 4, Some(Share::Count(0)));
        assert_eq!(stop, Some(Stop::Failures));
    }

    #[test]
    fn the_exit_code_is_the_first_that_holds() {
        let none = Share::Count(0);
        let all = ended(&[Exit::Ok, Exit::Gate, Exit::Denied, Exit::Verify]);
        assert_eq!(all.exit(Some(Stop::Signal(Exit::Terminated)), none, Exit::Conflict), Exit::Terminated);
        assert_eq!(all.exit(Some(Stop::Total), none, Exit::Conflict), Exit::Budget);
        assert_eq!(all.exit(None, none, Exit::Conflict), Exit::Conflict);
        assert_eq!(all.exit(None, none, Exit::Ok), Exit::Failed);
        assert_eq!(all.exit(None, Share::Percent(25.0), Exit::Ok), Exit::Denied);
        assert_eq!(ended(&[Exit::Ok, Exit::Gate]).exit(None, none, Exit::Ok), Exit::Gate);
        assert_eq!(ended(&[Exit::Ok, Exit::NoChanges]).exit(None, none, Exit::Ok), Exit::Ok);
        assert_eq!(Tally::new(1).exit(None, none, Exit::Ok), Exit::Unavailable);
    }

    proptest! {
        #[test]
        fn every_item_is_counted_once(codes in prop::collection::vec(0_usize..19, 0..60), more in 0_u64..9) {
            let mut tally = Tally::new(codes.len() as u64 + more);
            for code in &codes {
                tally.end(Exit::BY_PRECEDENCE[*code], true, 4, None);
            }
            let counts = tally.counts();
            prop_assert_eq!(counts.ok + counts.findings + counts.denied + counts.failed + counts.not_final, counts.total);
            prop_assert_eq!(counts.not_final, more);
        }
    }
}
