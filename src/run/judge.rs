//! The gate of a run: the policy's decision, narrowed by what this run can guarantee.

use crate::agent::invoke::Judge;
use crate::policy::decide::Facts;
use crate::policy::{Access, CommandPlan, Decision, Denial, Grant, Policy};
use crate::sandbox::Tier;

/// The policy with the facts of this run, and the isolation that commands get.
pub struct RunJudge<'a> {
    /// The rules.
    pub policy: &'a Policy,
    /// The files that decisions rest on.
    pub facts: Facts,
    /// The isolation of commands.
    pub tier: Tier,
    /// Whether the operator said `--sandbox off`.
    pub isolation_off: bool,
    /// The policy's digest.
    pub digest: String,
}

impl RunJudge<'_> {
    /// What the policy allowed may still be more than this machine can contain.
    pub fn contained(&self, plan: &CommandPlan) -> Result<(), Denial> {
        self.tier.admits(self.isolation_off, plan)
    }
}

impl Judge for RunJudge<'_> {
    fn authorize(&self, tool: &str, accesses: &[Access]) -> (Decision, Option<Grant>) {
        let (decision, grant) = self.policy.authorize(tool, accesses, &self.facts);
        match grant.as_ref().and_then(Grant::command).map(|plan| self.contained(plan)) {
            Some(Err(denial)) => (Decision { effects: decision.effects, ..denial.into() }, None),
            Some(Ok(())) | None => (decision, grant),
        }
    }

    fn tier(&self) -> String {
        if self.isolation_off { "off".to_owned() } else { self.tier.name().to_owned() }
    }

    fn digest(&self) -> String {
        self.digest.clone()
    }
}
