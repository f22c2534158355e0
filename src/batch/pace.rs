//! Decides how many requests of a batch are in flight, by how the server answers. Times are durations since the batch
//! began.

use std::collections::VecDeque;
use std::time::Duration;

/// Requests in flight at the start.
const FIRST: u32 = 4;

/// Rounds of good answers after which the ceiling is tried again.
const PATIENCE: u32 = 20;

/// The time in which requests and tokens are counted.
const MINUTE: Duration = Duration::from_secs(60);

/// How long the first request goes alone, so that the others find the shared beginning in the server's cache.
const ALONE: Duration = Duration::from_secs(30);

/// Upper limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Items at a time.
    pub jobs: u32,
    /// Requests in any minute.
    pub requests_a_minute: Option<u32>,
    /// Tokens in any minute.
    pub tokens_a_minute: Option<u64>,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// With an answer.
    Good,
    /// With a rate limit or overload; how long to wait.
    Refused(Duration),
    /// In another way, which says nothing about the pace.
    Other,
}

/// Whether a request may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// Now; it counts as in flight until the pass is handed back.
    Open(Pass),
    /// Not before this time.
    Until(Duration),
    /// Not before another request has ended.
    Full,
}

/// The pace of a batch.
#[derive(Debug, Clone)]
pub struct Pace {
    limits: Limits,
    limit: u32,
    least: u32,
    in_flight: u32,
    closed_until: Duration,
    /// Good answers since the limit changed last.
    good: u32,
    /// What the server last refused, less one; `None` if it never did, or has answered above it since.
    ceiling: Option<u32>,
    /// Whether the server has ever refused a request: until then the limit grows with every answer.
    was_refused: bool,
    /// The number of closings: a refused request that was sent before the last one says nothing new.
    closings: u32,
    alone: Alone,
    /// Requests of the last minute: when, and how many tokens.
    recent: VecDeque<(Duration, u64)>,
}

/// Whether the first request goes alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Alone {
    Before,
    Since(Duration),
    Over,
}

/// A request that was let through: to be handed back when it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pass {
    closings: u32,
    /// Requests in flight with it, itself included.
    together: u32,
}

impl Pace {
    /// Begins a batch.
    pub fn new(limits: Limits) -> Pace {
        let limit = FIRST.min(limits.jobs);
        Pace {
            limits,
            limit,
            least: limit,
            in_flight: 0,
            closed_until: Duration::ZERO,
            good: 0,
            ceiling: None,
            was_refused: false,
            closings: 0,
            alone: Alone::Before,
            recent: VecDeque::new(),
        }
    }

    /// Returns how many requests may be in flight, and the least that it was.
    pub fn limit(&self) -> (u32, u32) {
        (self.limit, self.least)
    }

    /// Asks to send a request of about so many tokens.
    pub fn enter(&mut self, now: Duration, tokens: u64) -> Gate {
        if now < self.closed_until {
            return Gate::Until(self.closed_until);
        }
        if let Alone::Since(began) = self.alone
            && self.in_flight > 0
        {
            if now < began + ALONE {
                return Gate::Until(began + ALONE);
            }
            self.alone = Alone::Over;
        }
        if self.in_flight >= self.limit {
            return Gate::Full;
        }
        if let Some(at) = self.room(now, tokens) {
            return Gate::Until(at);
        }
        self.recent.push_back((now, tokens));
        self.in_flight += 1;
        if self.alone == Alone::Before {
            self.alone = Alone::Since(now);
        }
        Gate::Open(Pass { closings: self.closings, together: self.in_flight })
    }

    /// Returns when the limits of a minute leave room for a request; `None`: now. A request that is larger than the limit
    /// goes alone.
    fn room(&mut self, now: Duration, tokens: u64) -> Option<Duration> {
        while self.recent.front().is_some_and(|(at, _)| *at + MINUTE <= now) {
            self.recent.pop_front();
        }
        let first = self.recent.front()?.0 + MINUTE;
        let used = self.recent.iter().fold(tokens, |sum, (_, tokens)| sum.saturating_add(*tokens));
        let requests = self.limits.requests_a_minute.is_some_and(|most| self.recent.len() >= most.max(1) as usize);
        (requests || self.limits.tokens_a_minute.is_some_and(|most| used > most)).then_some(first)
    }

    /// Tells whether other items may follow the first one.
    pub fn lets_others_start(&self, now: Duration) -> bool {
        match self.alone {
            Alone::Before => false,
            Alone::Since(began) => now >= began + ALONE,
            Alone::Over => true,
        }
    }

    /// Lets nothing through before this time.
    pub fn close_until(&mut self, at: Duration) {
        self.closed_until = self.closed_until.max(at);
    }

    /// Notes the first byte of a good answer: from here on others may follow the first request.
    pub fn first_byte(&mut self) {
        self.alone = Alone::Over;
    }

    /// Ends a request.
    pub fn leave(&mut self, now: Duration, pass: Pass, answer: Answer) {
        // Others may have come since it was sent, or ended before it.
        let together = self.in_flight.max(pass.together);
        self.in_flight = self.in_flight.saturating_sub(1);
        match answer {
            Answer::Good => {
                self.alone = Alone::Over;
                self.grow();
            }
            Answer::Refused(wait) => {
                self.closed_until = self.closed_until.max(now + wait);
                let below = together.saturating_sub(1).max(1);
                // Those that were sent together are refused together.
                if pass.closings == self.closings {
                    self.closings += 1;
                    self.was_refused = true;
                    self.ceiling = Some(below);
                    self.limit = (self.limit / 2).min(below).max(1);
                    self.least = self.least.min(self.limit);
                    self.good = 0;
                }
            }
            Answer::Other => {}
        }
    }

    /// Raises the limit after a good answer: by one each until the first refusal, then by one a round below the ceiling,
    /// and above it only after many rounds.
    fn grow(&mut self) {
        self.good += 1;
        let rounds = match self.ceiling {
            _ if !self.was_refused => 0,
            Some(ceiling) if self.limit == ceiling => PATIENCE,
            // A round above the ceiling has been answered.
            Some(ceiling) if self.limit > ceiling && self.good >= self.limit => {
                self.ceiling = None;
                1
            }
            Some(_) | None => 1,
        };
        if self.good >= rounds * self.limit && self.limit < self.limits.jobs {
            self.limit += 1;
            self.good = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn jobs(jobs: u32) -> Limits {
        Limits { jobs, requests_a_minute: None, tokens_a_minute: None }
    }

    fn pass(gate: Gate) -> Pass {
        match gate {
            Gate::Open(pass) => pass,
            Gate::Until(_) | Gate::Full => panic!("{gate:?}"),
        }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_first_request_goes_alone_until_its_first_byte() {
        let mut pace = Pace::new(jobs(8));
        pass(pace.enter(seconds(0), 0));
        assert_eq!(pace.enter(seconds(1), 0), Gate::Until(ALONE));
        let mut late = pace.clone();
        pass(late.enter(ALONE, 0));
        pace.first_byte();
        for _ in 0..3 {
            pass(pace.enter(seconds(1), 0));
        }
        assert_eq!(pace.enter(seconds(1), 0), Gate::Full);
    }

    #[test]
    fn a_refusal_closes_the_gate_and_halves_the_limit_once() {
        let mut pace = Pace::new(jobs(4));
        pace.first_byte();
        let passes: Vec<Pass> = (0..4).map(|_| pass(pace.enter(seconds(0), 0))).collect();
        pace.leave(seconds(1), passes[0], Answer::Refused(seconds(5)));
        pace.leave(seconds(1), passes[1], Answer::Refused(seconds(3)));
        assert_eq!(pace.limit(), (2, 2));
        assert_eq!(pace.enter(seconds(5), 0), Gate::Until(seconds(6)));
        assert_eq!(pace.enter(seconds(6), 0), Gate::Full);
    }

    #[test]
    fn limits_of_a_minute_hold_in_every_minute() {
        let limits = Limits { requests_a_minute: Some(2), tokens_a_minute: Some(100), ..jobs(4) };
        let mut pace = Pace::new(limits);
        pace.first_byte();
        let mut send = |at, tokens| {
            let gate = pace.enter(seconds(at), tokens);
            if let Gate::Open(pass) = gate {
                pace.leave(seconds(at), pass, Answer::Good);
            }
            matches!(gate, Gate::Open(_))
        };
        assert!(send(0, 60) && !send(1, 60) && send(2, 40));
        assert!(!send(59, 1) && send(60, 1) && !send(61, 1));
        // Larger than the limit: it goes when nothing else counts.
        assert!(send(121, 500) && !send(121, 1));
    }

    /// Plays a server that has so many places and refuses what is above; returns how many of the requests it refused.
    fn refused(places: u32, jobs_at_a_time: u32, requests: u32) -> u32 {
        let mut pace = Pace::new(jobs(jobs_at_a_time));
        let (mut now, mut done, mut refused) = (seconds(0), 0, 0);
        while done < requests {
            now += seconds(1);
            let passes: Vec<Pass> = std::iter::from_fn(|| match pace.enter(now, 0) {
                Gate::Open(pass) => Some(pass),
                Gate::Until(_) | Gate::Full => None,
            })
            .collect();
            for (at, pass) in passes.into_iter().enumerate() {
                let is_refused = at >= places as usize;
                pace.leave(now, pass, if is_refused { Answer::Refused(seconds(1)) } else { Answer::Good });
                if is_refused { refused += 1 } else { done += 1 }
            }
        }
        refused
    }

    #[test]
    fn few_requests_are_refused_by_a_server_with_three_places() {
        let refused = refused(3, 32, 500);
        assert!(refused <= 20, "{refused} of 500");
    }

    proptest! {
        #[test]
        fn never_more_than_the_limit_and_nothing_while_closed(
            most in 1_u32..40, steps in prop::collection::vec((0_u8..5, 0_u64..4), 1..300),
        ) {
            let mut pace = Pace::new(jobs(most));
            let (mut now, mut passes, mut closed) = (seconds(0), Vec::new(), seconds(0));
            for (step, time) in steps {
                now += seconds(time);
                let ending = match step {
                    0 => Answer::Good,
                    1 => Answer::Refused(seconds(time)),
                    2 => Answer::Other,
                    _ => {
                        if let Gate::Open(pass) = pace.enter(now, 0) {
                            prop_assert!(now >= closed);
                            passes.push(pass);
                        }
                        prop_assert!(passes.len() <= most as usize);
                        continue;
                    }
                };
                let Some(pass) = passes.pop() else { continue };
                if let Answer::Refused(wait) = ending {
                    closed = closed.max(now + wait);
                }
                pace.leave(now, pass, ending);
                let (limit, least) = pace.limit();
                prop_assert!((1..=most).contains(&limit) && least <= limit);
            }
            // It recovers, whatever happened.
            for pass in passes.drain(..) {
                pace.leave(now, pass, Answer::Other);
            }
            now += seconds(10);
            prop_assert!(matches!(pace.enter(now, 0), Gate::Open(_)));
        }
    }
}
