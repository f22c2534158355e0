//! Defines how a run can end: one exit code and one name each.
//!
//! Scripts depend on these numbers; they are listed in the README and in `qwen --help`.

use serde::{Deserialize, Serialize};

/// One way to end. The discriminant is the process's exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Exit {
    /// Done, or nothing to do.
    Ok = 0,
    /// Failed in a way that no other code names; `error.code` in the result says how.
    Failed = 1,
    /// A bad flag or argument.
    Usage = 2,
    /// Findings, or a verdict, at or above `--fail-on`.
    Gate = 3,
    /// No credentials, refused ones, or no credit.
    Auth = 41,
    /// The prompt, recipe, parameter, file or image is wrong.
    Input = 42,
    /// Required isolation is unavailable.
    Sandbox = 44,
    /// Settings or policy are invalid, or the endpoint does not know the model.
    Config = 52,
    /// The turn limit was reached.
    Turns = 53,
    /// Wall time, tool calls, tokens or cost ran out.
    Budget = 55,
    /// The policy denied something.
    Denied = 60,
    /// The answer does not fit the schema after the repairs.
    Schema = 62,
    /// The change could not be delivered.
    Conflict = 63,
    /// A check or a guard still fails after all attempts.
    Verify = 64,
    /// `--require-changes` was given and there are none.
    NoChanges = 65,
    /// The request is not the recorded one.
    Replay = 66,
    /// The provider stayed unavailable after the retries.
    Unavailable = 75,
    /// Interrupted by SIGINT.
    Interrupted = 130,
    /// Ended by SIGTERM, or by SIGHUP, SIGQUIT, SIGUSR1, SIGALRM or SIGXCPU.
    Terminated = 143,
}

impl Exit {
    /// Every way to end, in the order in which one wins over a later one when several hold.
    pub const BY_PRECEDENCE: [Exit; 19] = [
        Exit::Interrupted,
        Exit::Terminated,
        Exit::Usage,
        Exit::Config,
        Exit::Input,
        Exit::Auth,
        Exit::Sandbox,
        Exit::Replay,
        Exit::Unavailable,
        Exit::Budget,
        Exit::Turns,
        Exit::Conflict,
        Exit::Verify,
        Exit::Schema,
        Exit::Failed,
        Exit::Denied,
        Exit::NoChanges,
        Exit::Gate,
        Exit::Ok,
    ];

    /// Returns the process's exit code.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Returns the ending of a process's exit code; `None` for one that this program never gives.
    pub fn of_code(code: u8) -> Option<Exit> {
        Exit::BY_PRECEDENCE.into_iter().find(|exit| exit.code() == code)
    }

    /// Returns the name that is `exit_reason` in the result.
    pub fn name(self) -> &'static str {
        match self {
            Exit::Ok => "ok",
            Exit::Failed => "failed",
            Exit::Usage => "usage",
            Exit::Gate => "gate",
            Exit::Auth => "auth",
            Exit::Input => "input",
            Exit::Sandbox => "sandbox",
            Exit::Config => "config",
            Exit::Turns => "turns",
            Exit::Budget => "budget",
            Exit::Denied => "denied",
            Exit::Schema => "schema",
            Exit::Conflict => "conflict",
            Exit::Verify => "verify",
            Exit::NoChanges => "no_changes",
            Exit::Replay => "replay",
            Exit::Unavailable => "unavailable",
            Exit::Interrupted | Exit::Terminated => "interrupted",
        }
    }

    /// Returns the ending that wins when both hold.
    pub fn or_worse(self, other: Exit) -> Exit {
        let rank = |exit| Exit::BY_PRECEDENCE.iter().position(|e| *e == exit);
        if rank(other) < rank(self) { other } else { self }
    }

    /// Returns the `subtype` of the result message: what today's parsers of Qwen Code look at.
    pub fn subtype(self) -> &'static str {
        match self {
            Exit::Ok | Exit::Gate | Exit::Denied | Exit::NoChanges => "success",
            Exit::Turns => "error_max_turns",
            Exit::Failed
            | Exit::Usage
            | Exit::Auth
            | Exit::Input
            | Exit::Sandbox
            | Exit::Config
            | Exit::Budget
            | Exit::Schema
            | Exit::Conflict
            | Exit::Verify
            | Exit::Replay
            | Exit::Unavailable
            | Exit::Interrupted
            | Exit::Terminated => "error_during_execution",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precedence_names_every_ending_once() {
        let mut codes: Vec<u8> = Exit::BY_PRECEDENCE.iter().map(|e| e.code()).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), Exit::BY_PRECEDENCE.len());
    }

    #[test]
    fn the_worse_ending_wins_in_either_order() {
        assert_eq!(Exit::Denied.or_worse(Exit::Budget), Exit::Budget);
        assert_eq!(Exit::Budget.or_worse(Exit::Denied), Exit::Budget);
        assert_eq!(Exit::Ok.or_worse(Exit::Gate), Exit::Gate);
        assert_eq!(Exit::Usage.or_worse(Exit::Interrupted), Exit::Interrupted);
    }
}
