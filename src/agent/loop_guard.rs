//! Detects a model that repeats the same calls without progress.

use std::collections::HashMap;

/// Equal failures of one tool before the model is told to do something else.
const SAME_FAILURES: u32 = 3;

/// Equal calls before the run ends.
const SAME_CALLS: u32 = 5;

/// Equal calls after which a small model is told that it has their result.
const SEEN_CALLS: u32 = 2;

/// What a small model reads for a call that would return what it has just seen twice.
pub const SEEN: &str = "You have made this call already, and its result is above: do not make it again.";

/// What the model reads after it has failed in the same way repeatedly.
const DIRECTIVE: &str = "RETRY LOOP DETECTED: this call has failed in the same way several times. \
     Do not repeat it. Read the file or folder concerned and use a fundamentally different approach.";

/// Counts equal calls and equal failures.
#[derive(Debug, Default)]
pub struct LoopGuard {
    last_call: (String, u32),
    failures: HashMap<(String, String), u32>,
}

impl LoopGuard {
    /// Counts a call by its tool and canonical arguments; `true` if the same one was made too often in a row.
    pub fn repeats(&mut self, tool: &str, arguments: &str) -> bool {
        let call = format!("{tool} {arguments}");
        if self.last_call.0 == call {
            self.last_call.1 += 1;
        } else {
            self.last_call = (call, 1);
        }
        self.last_call.1 >= SAME_CALLS
    }

    /// Tells whether the call that was counted last has been made more often than a small model needs to see a result.
    pub fn was_seen(&self) -> bool {
        self.last_call.1 > SEEN_CALLS
    }

    /// Counts a failure; returns what to add to the answer if the same failure occurred too often.
    pub fn failed(&mut self, tool: &str, message: &str) -> Option<&'static str> {
        let count = self.failures.entry((tool.to_owned(), message.to_owned())).or_default();
        *count += 1;
        (*count >= SAME_FAILURES).then_some(DIRECTIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r35_three_equal_failures_bring_the_directive() {
        let mut guard = LoopGuard::default();
        assert_eq!(guard.failed("edit", "0 occurrences"), None);
        assert_eq!(guard.failed("edit", "other"), None);
        assert_eq!(guard.failed("edit", "0 occurrences"), None);
        assert!(guard.failed("edit", "0 occurrences").is_some());
    }

    #[test]
    fn r35_five_equal_calls_in_a_row_are_a_loop() {
        let mut guard = LoopGuard::default();
        for count in 1..5 {
            assert!(!guard.repeats("glob", "{}"));
            assert_eq!(guard.was_seen(), count > 2);
        }
        assert!(guard.repeats("glob", "{}"));
        assert!(!guard.repeats("glob", "{\"pattern\":\"*\"}"));
        assert!(!guard.repeats("glob", "{}"));
    }
}
