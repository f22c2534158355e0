//! The judgement of a command: allowed only if every simple command that could run is.

use crate::policy::decision::{Denial, RuleRef};
use crate::policy::grant::CommandPlan;
use crate::policy::programs::CommandRules;

use super::ast::Script;

/// A command that may run.
#[derive(Debug, Clone)]
pub struct Approved {
    /// What runs: our own printing of the decided form.
    pub plan: CommandPlan,
    /// What it would do, one line each, for `Decision.effects`.
    pub effects: Vec<String>,
    /// The allow rules that matched, in the order of the commands.
    pub rules: Vec<RuleRef>,
    /// The command as it was written.
    pub parsed: Script,
}

/// One simple command as it was judged, for `policy explain`.
#[derive(Debug, Clone)]
pub struct Step {
    /// The words as they would run.
    pub command: String,
    /// How many layers (wrappers, `-c` texts, programs that start programs) stand around it.
    pub depth: usize,
    /// Its effects, one line each.
    pub effects: Vec<String>,
    /// The allow rule that matched (`None` for what is harmless or looked through), or why it is denied.
    pub outcome: Result<Option<RuleRef>, Denial>,
}

/// Judges a command that is to run in `directory` (relative to the workspace, or absolute).
pub fn judge(command: &str, directory: Option<&str>, rules: &dyn CommandRules) -> Result<Approved, Denial> {
    judge_in_steps(command, directory, rules).1
}

/// As [`judge`], with each simple command that was looked at, up to the one that is denied.
pub fn judge_in_steps(
    _command: &str,
    _directory: Option<&str>,
    _rules: &dyn CommandRules,
) -> (Vec<Step>, Result<Approved, Denial>) {
    (Vec::new(), Err(Denial::unanalysable("the shell's judge is not there yet")))
}
