//! `--verify`: the operator's commands, run on what is staged.

use std::time::{Duration, Instant};

use crate::event::{Event, VerifyOutcome};
use crate::policy::decide::Facts;
use crate::policy::{CommandPlan, Denial, Policy};
use crate::tools::{CommandReport, CommandRequest, CommandRunner};
use crate::verify::{self, CheckResult};

/// A check that is understood and may run.
pub struct Check {
    /// The command as typed.
    pub command: String,
    plan: CommandPlan,
}

impl Check {
    /// Parses a command of the operator's: it grants exactly its own words; deny rules of the policy still hold.
    pub fn parse(command: &str, policy: &Policy, facts: &Facts) -> Result<Check, Denial> {
        Ok(Check { command: command.to_owned(), plan: policy.operator_command(command, facts)? })
    }
}

/// Runs the checks in order up to the first that fails, and returns that one.
pub async fn run(
    checks: &[Check],
    runner: &dyn CommandRunner,
    attempt: u32,
    timeout: Duration,
    seen_root: &str,
    emit: &(dyn Fn(Event) + Send + Sync),
) -> Option<CheckResult> {
    for check in checks {
        let started = Instant::now();
        let result = match runner.run(&check.plan, CommandRequest { timeout, background: false }).await {
            Ok(report) => result_of(check, &report),
            // A check that cannot be run has not passed.
            Err(error) => CheckResult {
                command: check.command.clone(),
                exit_code: None,
                output: format!("the check could not be run: {}", error.message),
                timed_out: false,
            },
        };
        emit(Event::Verify(VerifyOutcome {
            command: check.command.clone(),
            exit_code: result.exit_code,
            attempt,
            duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            output_tail: verify::tail(&result.output, seen_root),
            passed: result.passed(),
        }));
        if !result.passed() {
            return Some(result);
        }
    }
    None
}

fn result_of(check: &Check, report: &CommandReport) -> CheckResult {
    let mut output = String::from_utf8_lossy(&report.stdout).into_owned();
    if !output.is_empty() && !output.ends_with('\n') {
        output.push('\n');
    }
    output.push_str(&String::from_utf8_lossy(&report.stderr));
    CheckResult { command: check.command.clone(), exit_code: report.exit_code, output, timed_out: report.timed_out }
}
