//! Computes the limits of a run: the lowest of flag, setting and policy.

use std::time::Duration;

use crate::cli::RunArgs;
use crate::event::Limits;
use crate::policy::Policy;
use crate::policy::layers::lowest_of;
use crate::settings::{self, Settings};

/// Default limits.
const TURNS: u64 = 100;
const TOOL_CALLS: u64 = 500;
const WALL_TIME: Duration = Duration::from_secs(60 * 60);
const DENIALS: u64 = 20;

/// Returns the effective limits: the lower of the flag or setting (else the documented default) and the policy.
pub fn limits(arguments: &RunArgs, settings: &Settings, policy: &Policy) -> Limits {
    let flags = &arguments.limits;
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let setting = |value: &Option<settings::Valued<u64>>| value.as_ref().map(|value| value.value);
    let own = Limits {
        turns: Some(flags.max_session_turns.or(setting(&settings.model.max_session_turns)).unwrap_or(TURNS)),
        tool_calls: Some(flags.max_tool_calls.or(setting(&settings.model.max_tool_calls)).unwrap_or(TOOL_CALLS)),
        shell_calls: None,
        denials: Some(flags.max_denials.unwrap_or(DENIALS)),
        same_denial: None,
        wall_time_ms: Some(
            flags
                .max_wall_time
                .map(millis)
                .or(setting(&settings.model.max_wall_time_seconds).map(|seconds| seconds.saturating_mul(1000)))
                .unwrap_or(millis(WALL_TIME)),
        ),
        total_tokens: flags.max_total_tokens,
        cost_usd: flags.max_cost_usd,
    };
    lowest_of(&own, &policy.limits())
}
