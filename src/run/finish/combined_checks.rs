//! Runs commands on the combined change of several runs, before it is delivered.

use std::path::PathBuf;
use std::sync::Arc;

use crate::change::ChangeSet;
use crate::policy::{Facts, Policy};
use crate::run::error::{DeliveryError, Failure, SetupError, VerifyError};
use crate::run::place::Place;
use crate::run::recipe::checks::{self, Check, CheckEnvironment};
use crate::run::recipe::verification::Verification;
use crate::run::rules::judge::RunPolicyCheck;
use crate::run::runner::{Runner, RunnerOptions};
use crate::run::stages::setup::CHECK_TIMEOUT;
use crate::sandbox::Demand;
use crate::settings::Environment;
use crate::verify::CheckResult;
use crate::workspace::Workspace;

/// Runs the commands in order, in a tree of their own, and returns the first that fails. What they change there is
/// not delivered.
pub async fn check(
    commands: &[String],
    changes: &ChangeSet,
    place: &Place,
    policy: &Policy,
    environment: &Environment,
    helper: PathBuf,
) -> Result<Option<CheckResult>, Failure> {
    if commands.is_empty() {
        return Ok(None);
    }
    let workspace = Workspace::with_changes(place.root(), changes.clone()).map_err(DeliveryError::Files)?;
    let workspace = Arc::new(workspace);
    let facts = Facts { tree: workspace.clone(), ..place.facts(environment) };
    let options = RunnerOptions {
        workspace: Arc::clone(&workspace),
        checkout: place.checkout.clone(),
        policy: policy.clone(),
        facts: facts.clone(),
        demand: Demand::Auto,
        environment: environment.for_programs(),
        helper,
        ignored_outputs: false,
    };
    let runner = Runner::new(options).map_err(SetupError::TemporaryFolder)?;
    let judge = RunPolicyCheck {
        policy,
        facts,
        tier: runner.tier(),
        only_isolated: false,
        isolation_off: false,
        digest: String::new(),
    };
    let parsed = commands.iter().map(|command| {
        Check::parse(command, policy, &judge).map_err(|denial| VerifyError::Flag {
            command: command.clone(),
            reason: denial.reason,
            hint: denial.hint,
        })
    });
    let verification =
        Verification { checks: parsed.collect::<Result<_, _>>()?, attempts: 1, ..Verification::default() };
    let environment = CheckEnvironment {
        runner: &runner,
        base: None,
        place: checks::Place { workspace: &workspace, repository: place.repository() },
        timeout: CHECK_TIMEOUT,
        trace: None,
    };
    let failed = verification.run(&environment, 1, &|_| {}).await;
    runner.end().await;
    Ok(failed)
}
