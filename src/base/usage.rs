//! Defines the tokens of a run, as results report them.

use serde::{Deserialize, Serialize};

/// Tokens of a run; `null` where the server did not report them for every answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Usage {
    /// Prompt tokens.
    pub input_tokens: Option<u64>,
    /// Of these, read from a cache.
    pub cache_read_input_tokens: Option<u64>,
    /// Answer tokens.
    pub output_tokens: Option<u64>,
    /// Of these, reasoning.
    pub reasoning_tokens: Option<u64>,
    /// Input and output.
    pub total_tokens: Option<u64>,
    /// Requests sent.
    pub requests: u64,
    /// Our estimate of input and output, where the server did not report all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated: Option<u64>,
}

impl Usage {
    /// What nothing has used.
    pub const NONE: Usage = Usage {
        input_tokens: Some(0),
        cache_read_input_tokens: Some(0),
        output_tokens: Some(0),
        reasoning_tokens: Some(0),
        total_tokens: Some(0),
        requests: 0,
        estimated: None,
    };

    /// Returns input and output, estimated where they were not reported.
    pub fn tokens(&self) -> u64 {
        self.total_tokens.or(self.estimated).unwrap_or_default()
    }

    /// Returns the usage of two runs. What one of them does not know is unknown, but for the details that servers report
    /// only where there are any.
    #[must_use]
    pub fn plus(&self, other: &Usage) -> Usage {
        let both = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        let any = |a: Option<u64>, b: Option<u64>| both(a, b).or(a).or(b);
        let total_tokens = both(self.total_tokens, other.total_tokens);
        Usage {
            input_tokens: both(self.input_tokens, other.input_tokens),
            cache_read_input_tokens: any(self.cache_read_input_tokens, other.cache_read_input_tokens),
            output_tokens: both(self.output_tokens, other.output_tokens),
            reasoning_tokens: any(self.reasoning_tokens, other.reasoning_tokens),
            total_tokens,
            requests: self.requests.saturating_add(other.requests),
            estimated: total_tokens.is_none().then(|| self.tokens().saturating_add(other.tokens())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_with_an_unknown_part_is_an_estimate() {
        let known = Usage { input_tokens: Some(5), output_tokens: Some(2), total_tokens: Some(7), ..Usage::default() };
        let unknown = Usage { requests: 1, estimated: Some(10), ..Usage::default() };
        assert_eq!(Usage::NONE.plus(&known).total_tokens, Some(7));
        let sum = known.plus(&unknown);
        assert_eq!((sum.total_tokens, sum.estimated, sum.tokens(), sum.requests), (None, Some(17), 17, 1));
    }
}
