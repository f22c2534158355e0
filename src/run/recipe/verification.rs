//! Judges what the model left after an attempt: commands finish it, then guards and checks say what they think of it.

use std::collections::BTreeSet;
use std::time::Instant;

use crate::event::Event;
use crate::path::RelPath;
use crate::run::recipe::checks::{Check, CheckEnvironment};
use crate::run::recipe::finishing::Finishing;
use crate::verify::guards::Guards;
use crate::verify::{CheckResult, FEEDBACK_BYTES, Failed};

/// The files that are named which a check has changed.
const NAMED: usize = 3;

/// Says that a check changed files, in vain.
fn not_kept(check: &str, changed: &[RelPath]) -> String {
    let mut names: Vec<String> = changed.iter().take(NAMED).map(ToString::to_string).collect();
    names.extend((changed.len() > NAMED).then(|| format!("{} more", changed.len() - NAMED)));
    format!("the check `{check}` changed {}: this is not kept; a finishing command may change files", names.join(", "))
}

/// The guards and checks of a run, and how many attempts the model has.
#[derive(Default)]
pub struct Verification {
    /// Commands that finish a change before it is judged.
    pub finishing: Finishing,
    /// Rules on the change.
    pub guards: Guards,
    /// The checks, in order.
    pub checks: Vec<Check>,
    /// Maximum attempts of the model.
    pub attempts: u32,
    /// Whether the same failure on the same tree ends the run.
    pub stop_if_same: bool,
}

impl Verification {
    /// Judges the staged state after an attempt: the guards, then the checks in order up to the first that fails. Nothing
    /// that the model has started runs meanwhile.
    pub async fn judge(
        &self,
        check_environment: &CheckEnvironment<'_>,
        attempt: u32,
        emit: &(dyn Fn(Event) + Send + Sync),
    ) -> Option<Failed> {
        if let Err(error) = check_environment.runner.settle().await {
            let output = error.message;
            return Some(Failed::Check(CheckResult {
                output,
                feedback_bytes: FEEDBACK_BYTES,
                ..CheckResult::default()
            }));
        }
        if let Some(failed) = self.finishing.run(check_environment, (attempt, self.attempts), emit).await {
            return Some(failed);
        }
        let changes = check_environment.place.workspace.changes();
        let violations = self.guards.judge(&changes, &|path| self.finishing.is_finished(&changes, path));
        if !violations.is_empty() {
            return Some(Failed::Guards(violations));
        }
        self.run(check_environment, attempt, emit).await.map(Failed::Check)
    }

    /// Runs the checks in order up to the first that fails, and returns that one.
    pub async fn run(
        &self,
        check_environment: &CheckEnvironment<'_>,
        attempt: u32,
        emit: &(dyn Fn(Event) + Send + Sync),
    ) -> Option<CheckResult> {
        let mut told = BTreeSet::new();
        for check in &self.checks {
            let started = Instant::now();
            let runner = if check.on_base {
                check_environment.base.unwrap_or(check_environment.runner)
            } else {
                check_environment.runner
            };
            let mut variables = check.variables.clone();
            variables.0.extend(check_environment.begin().0);
            let mut result = CheckResult::default();
            for _ in 0..check.repeat {
                let timeout = check.timeout.unwrap_or(check_environment.timeout);
                let (done, changed) = check_environment.perform_check(&check.action, runner, timeout, &variables).await;
                if !changed.is_empty() && told.insert(&check.name) {
                    emit(Event::Warning { message: not_kept(&check.name, &changed) });
                }
                result = CheckResult {
                    name: check.name.clone(),
                    command: check.command.clone(),
                    expect_failure: check.expect_failure,
                    feedback_bytes: check.feedback_bytes,
                    exit_code: done.exit_code,
                    output: done.output,
                    timed_out: done.timed_out,
                };
                if !result.passed() {
                    break;
                }
            }
            check_environment.report(&result, started, (attempt, self.attempts), emit);
            if !result.passed() {
                return Some(result);
            }
        }
        None
    }
}
