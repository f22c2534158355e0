//! Decides whether and when to retry a failed request, with a budget for each kind of failure.

use std::time::Duration;

use super::{ErrorClass, StreamFault, TimeoutKind};

/// The longest step of the back-off; a wait that the server asks for may be longer.
const LONGEST_STEP: Duration = Duration::from_secs(60);

/// The retries where nothing else is said.
pub const USUAL: u32 = 5;

/// How often each kind of failure may be tried again within one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budgets {
    /// Connections that fail.
    pub network: u32,
    /// Servers that fail.
    pub server: u32,
    /// Rate limits and overload.
    pub rate: u32,
    /// Streams that break their protocol, and timers that run out.
    pub stream: u32,
}

impl Budgets {
    /// Returns the budgets for `--retries`: it sets those of network and server and bounds that of streams. A rate limit is
    /// waited for more often, unless fewer retries than usual are wanted.
    pub fn of(retries: u32) -> Budgets {
        let rate = if retries < USUAL { retries } else { retries.max(8) };
        Budgets { network: retries, server: retries, rate, stream: retries.min(2) }
    }
}

/// What becomes of a failed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is sent again after this wait.
    After(Duration),
    /// It is not; the reason, where it is not simply that its class is final or its budget used up.
    GiveUp(Option<String>),
}

/// The tries of one turn.
#[derive(Debug, Clone)]
pub struct Retry {
    left: Budgets,
    /// Tries so far by kind, in the order of [`Budgets`]: what the back-off doubles with.
    tries: [u32; 4],
    first_wait: Duration,
    max_wait: Duration,
    random: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Network,
    Server,
    Rate,
    Stream,
}

impl Retry {
    /// Starts a turn.
    pub fn new(budgets: Budgets, first_wait: Duration, max_wait: Duration, seed: u64) -> Retry {
        Retry { left: budgets, tries: [0; 4], first_wait, max_wait, random: seed }
    }

    /// Decides about a failure, and spends from its budget if it is tried again.
    ///
    /// `retry_after` is what the server asks for: it is honoured exactly, or not waited for at all. A server that asks
    /// for no wait gets the back-off: it refuses more than that trying again may help.
    pub fn next(&mut self, class: &ErrorClass, retry_after: Option<Duration>, time_left: Option<Duration>) -> Verdict {
        let Some(kind) = kind_of(class) else { return Verdict::GiveUp(None) };
        let left = match kind {
            Kind::Network => &mut self.left.network,
            Kind::Server => &mut self.left.server,
            Kind::Rate => &mut self.left.rate,
            Kind::Stream => &mut self.left.stream,
        };
        if *left == 0 {
            return Verdict::GiveUp(None);
        }
        let tries = &mut self.tries[kind as usize];
        let step = self.first_wait.saturating_mul(1 << (*tries).min(16)).min(LONGEST_STEP).min(self.max_wait);
        let wait = match retry_after.filter(|asked| !asked.is_zero()) {
            Some(asked) if asked > self.max_wait => {
                return Verdict::GiveUp(Some(format!(
                    "the server requests a wait of {}, longer than --max-wait ({})",
                    span(asked),
                    span(self.max_wait)
                )));
            }
            Some(asked) => asked,
            None => step.mul_f64(next_fraction(&mut self.random)),
        };
        if time_left.is_some_and(|left| wait >= left) {
            return Verdict::GiveUp(Some(format!("the remaining time is shorter than the wait of {}", span(wait))));
        }
        *left -= 1;
        *tries += 1;
        Verdict::After(wait)
    }

    /// Returns how often anything was tried again.
    #[cfg(test)]
    pub fn tries(&self) -> u32 {
        self.tries.iter().sum()
    }
}

fn kind_of(class: &ErrorClass) -> Option<Kind> {
    match class {
        ErrorClass::Network | ErrorClass::Timeout(TimeoutKind::Connect) => Some(Kind::Network),
        ErrorClass::Server | ErrorClass::RawGeneration(_) => Some(Kind::Server),
        ErrorClass::RateLimit { .. } | ErrorClass::Overloaded { .. } => Some(Kind::Rate),
        ErrorClass::Timeout(TimeoutKind::FirstByte | TimeoutKind::Idle | TimeoutKind::Lifetime)
        | ErrorClass::Stream(
            StreamFault::NoFinish
            | StreamFault::Empty
            | StreamFault::MalformedCall
            | StreamFault::NotSse
            | StreamFault::TagLeak,
        ) => Some(Kind::Stream),
        ErrorClass::Auth
        | ErrorClass::Permission
        | ErrorClass::Billing
        | ErrorClass::ModelNotFound
        | ErrorClass::BadRequest { .. }
        | ErrorClass::ContextOverflow { .. }
        | ErrorClass::OutputTooLong { .. }
        | ErrorClass::PayloadTooLarge
        | ErrorClass::ContentFilter
        | ErrorClass::Timeout(TimeoutKind::Deadline)
        | ErrorClass::Stream(StreamFault::TooLarge)
        | ErrorClass::Unsupported(_)
        | ErrorClass::Cancelled
        | ErrorClass::ReplayMismatch(_) => None,
    }
}

/// Returns whether another model may take over after this failure.
pub fn may_fall_back(class: &ErrorClass) -> bool {
    match class {
        ErrorClass::Overloaded { .. }
        | ErrorClass::Server
        | ErrorClass::RateLimit { .. }
        | ErrorClass::ModelNotFound
        | ErrorClass::RawGeneration(_) => true,
        ErrorClass::Auth
        | ErrorClass::Permission
        | ErrorClass::Billing
        | ErrorClass::BadRequest { .. }
        | ErrorClass::ContextOverflow { .. }
        | ErrorClass::OutputTooLong { .. }
        | ErrorClass::PayloadTooLarge
        | ErrorClass::ContentFilter
        | ErrorClass::Timeout(_)
        | ErrorClass::Network
        | ErrorClass::Stream(_)
        | ErrorClass::Unsupported(_)
        | ErrorClass::Cancelled
        | ErrorClass::ReplayMismatch(_) => false,
    }
}

/// Returns the next number of a SplitMix64 sequence, as a fraction of one.
fn next_fraction(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^= mixed >> 31;
    // The upper 53 bits are what a fraction of this type can hold exactly.
    (mixed >> 11) as f64 / (1u64 << 53) as f64
}

fn span(duration: Duration) -> String {
    match duration.as_secs() {
        0 => format!("{} ms", duration.as_millis()),
        seconds @ 1..=599 => format!("{seconds} s"),
        seconds => format!("{} min", seconds / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retry(retries: u32) -> Retry {
        Retry::new(Budgets::of(retries), Duration::from_secs(1), Duration::from_secs(600), 7)
    }

    fn rate(retry_after: Option<u64>) -> (ErrorClass, Option<Duration>) {
        let retry_after = retry_after.map(Duration::from_secs);
        (ErrorClass::RateLimit { retry_after }, retry_after)
    }

    #[test]
    fn budgets_are_independent() {
        let mut retry = retry(2);
        for _ in 0..2 {
            assert!(matches!(retry.next(&ErrorClass::Network, None, None), Verdict::After(_)));
        }
        assert_eq!(retry.next(&ErrorClass::Network, None, None), Verdict::GiveUp(None));
        assert!(matches!(retry.next(&ErrorClass::Server, None, None), Verdict::After(_)));
        assert!(matches!(retry.next(&ErrorClass::Stream(StreamFault::NoFinish), None, None), Verdict::After(_)));
        assert_eq!(retry.tries(), 4);
    }

    #[test]
    fn r9_a_broken_stream_is_tried_again_twice() {
        let mut retry = retry(5);
        let class = ErrorClass::Stream(StreamFault::NoFinish);
        let verdicts: Vec<bool> = (0..3).map(|_| matches!(retry.next(&class, None, None), Verdict::After(_))).collect();
        assert_eq!(verdicts, [true, true, false]);
    }

    #[test]
    fn one_retry_is_one_second_request_to_a_server_that_is_silent() {
        for kind in [TimeoutKind::FirstByte, TimeoutKind::Idle, TimeoutKind::Lifetime, TimeoutKind::Connect] {
            let mut retry = retry(1);
            assert!(matches!(retry.next(&ErrorClass::Timeout(kind), None, None), Verdict::After(_)), "{kind:?}");
            assert_eq!(retry.next(&ErrorClass::Timeout(kind), None, None), Verdict::GiveUp(None), "{kind:?}");
        }
    }

    #[test]
    fn waits_grow_to_their_cap_and_never_beyond() {
        let mut retry = retry(20);
        for step in 0..20 {
            let cap = Duration::from_secs(1 << step.min(6)).min(LONGEST_STEP);
            match retry.next(&ErrorClass::Server, None, None) {
                Verdict::After(wait) => assert!(wait <= cap, "step {step}: {wait:?}"),
                Verdict::GiveUp(reason) => panic!("{reason:?}"),
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_waits() {
        let waits = |seed| {
            let mut retry = Retry::new(Budgets::of(5), Duration::from_secs(1), Duration::from_secs(600), seed);
            (0..5).map(|_| retry.next(&ErrorClass::Server, None, None)).collect::<Vec<_>>()
        };
        assert_eq!(waits(1), waits(1));
        assert_ne!(waits(1), waits(2));
    }

    #[test]
    fn r37_a_wait_that_the_server_asks_for_is_kept_or_refused() {
        let (class, asked) = rate(Some(30));
        assert_eq!(retry(5).next(&class, asked, None), Verdict::After(Duration::from_secs(30)));
        assert_eq!(
            retry(5).next(&class, asked, Some(Duration::from_secs(31))),
            Verdict::After(Duration::from_secs(30))
        );
        let Verdict::GiveUp(Some(reason)) = retry(5).next(&class, asked, Some(Duration::from_secs(30))) else {
            panic!("it does not fit")
        };
        insta::assert_snapshot!(reason, @"the remaining time is shorter than the wait of 30 s");
        let (class, asked) = rate(Some(6_000));
        let Verdict::GiveUp(Some(reason)) = retry(5).next(&class, asked, None) else { panic!("it is too long") };
        insta::assert_snapshot!(reason, @"the server requests a wait of 100 min, longer than --max-wait (10 min)");
    }

    #[test]
    fn r37_a_server_that_asks_for_no_wait_gets_the_back_off() {
        let class = rate(Some(0)).0;
        let waits = |asked| {
            let mut retry = retry(5);
            (0..4).map(|_| retry.next(&class, asked, None)).collect::<Vec<_>>()
        };
        assert_eq!(waits(Some(Duration::ZERO)), waits(None));
    }

    #[test]
    fn r38_what_is_final_is_not_tried_again() {
        for class in [
            ErrorClass::Auth,
            ErrorClass::Permission,
            ErrorClass::Billing,
            ErrorClass::ModelNotFound,
            ErrorClass::BadRequest { param: None },
            ErrorClass::ContentFilter,
            ErrorClass::Timeout(TimeoutKind::Deadline),
            ErrorClass::ReplayMismatch(String::new()),
        ] {
            assert_eq!(retry(5).next(&class, Some(Duration::ZERO), None), Verdict::GiveUp(None), "{class:?}");
        }
    }

    #[test]
    fn fewer_retries_than_usual_are_fewer_of_every_kind() {
        for (given, most) in [(1, 1), (4, 4), (5, 8), (9, 9)] {
            assert_eq!(Budgets::of(given).rate, most);
        }
    }

    #[test]
    fn no_retries_means_none_of_any_kind() {
        for class in [ErrorClass::Network, ErrorClass::Server, rate(None).0, ErrorClass::Stream(StreamFault::Empty)] {
            assert_eq!(retry(0).next(&class, None, None), Verdict::GiveUp(None));
        }
    }
}
