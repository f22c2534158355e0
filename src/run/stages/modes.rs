//! Combines what the operator asked for by mode and flag with what the policy allows: delivery, isolation, denials.

use std::path::Path;

use crate::agent::OnDeny;
use crate::cli::RunArgs;
use crate::cli::run::{ApprovalMode, ChangesMode, SandboxMode};
use crate::deliver;
use crate::git::repository::Repository;
use crate::policy::Policy;
use crate::policy::builtin;
use crate::policy::file::{Delivery as PolicyDelivery, OnDeny as PolicyOnDeny};
use crate::recipe::file::OutputKind;
use crate::sandbox::Demand;
use crate::settings::Settings;
use crate::workspace::Workspace;

use crate::run::error::{Failure, ModeError};
use crate::run::finish::mode::{Mode, refusal};
use crate::run::recipe::Active;

/// Returns the mode: the flag's, else the setting's. An unknown name in the settings is an error; `auto`, in which a
/// model approves, is `default` with a warning: nothing is approved that `default` would not.
pub fn approval_mode(
    arguments: &RunArgs,
    settings: &Settings,
    warnings: &mut Vec<String>,
) -> Result<Option<ApprovalMode>, ModeError> {
    if let Some(mode) = arguments.policy.mode() {
        return Ok(Some(mode));
    }
    let Some(named) = &settings.tools.approval_mode else { return Ok(None) };
    if named.value == "auto" {
        let place = &named.origin;
        warnings.push(format!(
            "{place}: `auto` means `default` here, since no model approves calls; use `auto-edit` to apply changes"
        ));
        return Ok(Some(ApprovalMode::Default));
    }
    ApprovalMode::from_name(&named.value)
        .map(Some)
        .ok_or_else(|| ModeError::Unknown { origin: named.origin.clone(), name: named.value.clone() })
}

/// Returns the built-in policy of a mode.
pub fn builtin_of(mode: ApprovalMode) -> &'static str {
    match mode {
        ApprovalMode::Plan => "read-only",
        ApprovalMode::Default => "default",
        ApprovalMode::AutoEdit => builtin::EDIT,
        ApprovalMode::Yolo => "open",
    }
}

/// Returns the required isolation: the flag's, else the policy's. Isolation that a policy requires cannot be switched
/// off.
pub fn demand(arguments: &RunArgs, policy: &Policy) -> Result<Demand, ModeError> {
    match (arguments.policy.sandbox, policy.sandbox_required()) {
        (Some(SandboxMode::Off), true) => Err(ModeError::Isolation(policy.facts().name)),
        (Some(SandboxMode::Off), false) => Ok(Demand::Off),
        (Some(SandboxMode::Require), _) | (_, true) => Ok(Demand::Require),
        (Some(SandboxMode::Auto) | None, false) => Ok(Demand::Auto),
    }
}

/// Returns the delivery: the flag's, else the mode's, else the policy's default.
pub fn delivery_mode(
    asked: Option<ChangesMode>,
    mode: Option<ApprovalMode>,
    policy: &Policy,
    recipe: Option<&Active>,
    warnings: &mut Vec<String>,
) -> Result<Mode, Failure> {
    let changes = policy.changes();
    let wanted = |mode: &Mode| match mode {
        Mode::DryRun => PolicyDelivery::DryRun,
        Mode::Apply => PolicyDelivery::Apply,
        Mode::Commit => PolicyDelivery::Commit,
        Mode::Branch(_) => PolicyDelivery::Branch,
    };
    let explicit = match asked {
        Some(ChangesMode::DryRun) => Some(Mode::DryRun),
        Some(ChangesMode::Apply) => Some(Mode::Apply),
        Some(ChangesMode::Commit) => Some(Mode::Commit),
        Some(ChangesMode::Branch(name)) => Some(Mode::Branch(name)),
        None => None,
    };
    if let Some(mode) = explicit {
        if mode != Mode::DryRun && !changes.allow.contains(&wanted(&mode)) {
            let refusal = refusal(policy, wanted(&mode));
            return Err(ModeError::Delivery { mode: mode.name(), refusal }.into());
        }
        return Ok(mode);
    }
    if matches!(mode, Some(ApprovalMode::AutoEdit | ApprovalMode::Yolo)) {
        if changes.allow.contains(&PolicyDelivery::Apply) {
            return Ok(Mode::Apply);
        }
        let refusal = refusal(policy, PolicyDelivery::Apply);
        warnings.push(format!("the mode implies --apply and {refusal}: dry run"));
        return Ok(Mode::DryRun);
    }
    if let Some(active) = recipe {
        return Ok(active.delivery(policy, warnings)?);
    }
    Ok(match changes.default {
        PolicyDelivery::DryRun => Mode::DryRun,
        PolicyDelivery::Apply => Mode::Apply,
        PolicyDelivery::Commit => Mode::Commit,
        PolicyDelivery::Branch => {
            return Err(ModeError::NoBranch.into());
        }
    })
}

/// Returns what a denial does: the strictest of flag and policy. Without either, runs that change something fail, and those
/// that only answer continue. `kind` is the recipe's.
pub fn on_deny(arguments: &RunArgs, policy: &Policy, kind: Option<OutputKind>) -> OnDeny {
    use crate::cli::run::OnDeny as Flag;
    let of_flag = arguments.policy.on_deny.map(|on_deny| match on_deny {
        Flag::Continue => PolicyOnDeny::Continue,
        Flag::Fail => PolicyOnDeny::Fail,
        Flag::Stop => PolicyOnDeny::Stop,
    });
    let default = match kind {
        None | Some(OutputKind::Changes) => PolicyOnDeny::Fail,
        Some(OutputKind::Findings | OutputKind::Json | OutputKind::Text | OutputKind::Message) => {
            PolicyOnDeny::Continue
        }
    };
    match policy.on_deny(of_flag, default) {
        PolicyOnDeny::Continue => OnDeny::Continue,
        PolicyOnDeny::Fail => OnDeny::Fail,
        PolicyOnDeny::Stop => OnDeny::Stop,
    }
}

/// Finds what would prevent the delivery before anything is sent.
pub fn preflight(
    mode: &Mode,
    sign: bool,
    workspace: &Workspace,
    repository: Option<&Repository>,
    undo: Option<&Path>,
) -> Result<(), Failure> {
    let order = deliver::DeliveryRequest { sign, ..deliver::DeliveryRequest::default() };
    let how = match mode {
        Mode::DryRun => return Ok(()),
        Mode::Apply => deliver::Delivery::Apply,
        Mode::Commit => deliver::Delivery::Commit(order),
        Mode::Branch(name) => deliver::Delivery::Branch { name: name.clone(), order },
    };
    let site = deliver::Site { root: workspace.root(), repository, undo, run_id: "preflight", time: "", outputs: None };
    Ok(deliver::preflight(&how, &site)?)
}
