//! The gate of a run: the policy's decision, narrowed by what this run can guarantee.

use crate::agent::invoke::Judge;
use crate::policy::decide::Facts;
use crate::policy::grant::Start;
use crate::policy::{Access, Decision, Denial, Grant, Policy};
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
    /// Whether nothing will be delivered.
    pub dry_run: bool,
    /// The policy's digest.
    pub digest: String,
}

impl RunJudge<'_> {
    /// What the policy allowed may still be more than this machine can contain (policy.md 6).
    fn contained(&self, grant: &Grant) -> Result<(), Denial> {
        let Some(plan) = grant.command() else { return Ok(()) };
        if self.tier.isolates() {
            return Ok(());
        }
        match &plan.start {
            Start::AsWritten(_) => {
                Err(Denial::new("the command could not be understood and this machine cannot contain it")
                    .hint("needs Landlock (Linux 6.2 or newer); write it in simpler words"))
            }
            Start::Pipeline(_) | Start::Script(_) if self.dry_run && !plan.writes_nothing && !self.isolation_off => {
                Err(Denial::new("a dry run on a machine without isolation runs only commands that write nothing")
                    .hint("needs Landlock, or --sandbox off"))
            }
            Start::Pipeline(_) | Start::Script(_) => Ok(()),
        }
    }
}

impl Judge for RunJudge<'_> {
    fn authorize(&self, tool: &str, accesses: &[Access]) -> (Decision, Option<Grant>) {
        let (decision, grant) = self.policy.authorize(tool, accesses, &self.facts);
        match grant.as_ref().map(|grant| self.contained(grant)) {
            Some(Err(denial)) => (Decision { effects: decision.effects, ..denial.by("sandbox").into() }, None),
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
