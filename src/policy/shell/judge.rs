//! Judges a command: it is allowed only if every simple command that could run is.

use std::sync::Arc;

use crate::path::RelPath;
use crate::policy::decision::{Denial, RuleRef};
use crate::policy::effect::Effect;
use crate::policy::grant::{CommandPlan, GitAccess, Isolation, Network, SandboxProfile, TreeAccess};
use crate::policy::packages::{is_cache, packages_of};
use crate::policy::programs::{CommandRules, Stdin};

#[cfg(test)]
use super::ast::Script;
use super::form::Form;
use super::parser::parse;
use super::state::{Judge, Step};

/// A command that may run.
#[derive(Debug, Clone)]
pub struct Approved {
    /// What runs: the decided tree, printed again.
    pub plan: CommandPlan,
    /// What it would do, one line each, for `Decision.effects`.
    pub effects: Vec<String>,
    /// The allow rules that matched, in the order of the commands.
    pub rules: Vec<RuleRef>,
    /// The command as it was decided: what the plan prints.
    #[cfg(test)]
    pub(super) decided: Script,
}

/// Judges a command that is to run in `directory` (relative to the workspace, or absolute).
pub fn judge(command: &str, directory: Option<&str>, rules: &dyn CommandRules) -> Result<Approved, Denial> {
    judge_in_steps(command, directory, rules).1
}

/// As [`judge`], with each simple command that was judged, up to the one that is denied.
pub fn judge_in_steps(
    command: &str,
    directory: Option<&str>,
    rules: &dyn CommandRules,
) -> (Vec<Step>, Result<Approved, Denial>) {
    let mut judge = Judge::new(rules);
    let result = judge.whole(command, directory);
    (judge.record.steps, result)
}

impl Judge<'_> {
    fn whole(&mut self, command: &str, directory: Option<&str>) -> Result<Approved, Denial> {
        let parsed = parse(command)?;
        if parsed.statements.is_empty() {
            return Err(Denial::new("the command is empty").by("G1"));
        }
        let root = RelPath::root();
        let start = match directory {
            None => root,
            Some(directory) => {
                self.rules.check(&Effect::Enter(directory.to_owned()), std::slice::from_ref(&root))?;
                self.rules.enter(&root, directory)?
            }
        };
        let (decided, _) = self.script(&parsed, std::slice::from_ref(&start), Stdin::Empty)?;
        let changes = |program: &&RelPath| {
            let packages = packages_of(program);
            let belongs = |path: &RelPath| packages.iter().any(|all| path.is_under(all) && !is_cache(all, path));
            self.record.written.iter().any(|path| program.is_under(path) || belongs(path))
        };
        if let Some(program) = self.record.unchanged.iter().find(changes) {
            let reason = format!(
                "{program} or what it loads is changed by the same command, and it runs only as it was when the run began"
            );
            return Err(Denial::new(reason).by("G7"));
        }
        let form = Form { decided: decided.clone(), shell: self.record.print.shell };
        let start_as = form.start(self.rules.root());
        let record = &self.record;
        Ok(Approved {
            plan: CommandPlan {
                directory: start,
                start: start_as,
                form: self.record.print.placed.then(|| Arc::new(form)),
                profile: self.profile(),
                named: record.named.clone(),
                isolation: if record.writes { record.isolation.max(Isolation::Waivable) } else { record.isolation },
                programs: record.programs.clone(),
                unchanged: record.unchanged.clone(),
            },
            effects: record.effects.clone(),
            rules: record.rules.clone(),
            #[cfg(test)]
            decided,
        })
    }

    /// Returns what the kernel is to allow: what the decision names, and no more.
    fn profile(&self) -> SandboxProfile {
        let record = &self.record;
        let uses_git = record.programs.iter().any(|name| name.rsplit('/').next() == Some("git"));
        let builds = record.open_ended && record.writes;
        SandboxProfile {
            tree: if record.writes { TreeAccess::Writable } else { TreeAccess::ReadOnly },
            network: if record.open_ended { self.rules.network() } else { Network::None },
            git: match (record.writes_git || builds, record.open_ended || uses_git) {
                (true, _) => GitAccess::Scratch,
                (false, true) => GitAccess::ReadOnly,
                (false, false) => GitAccess::None,
            },
        }
    }
}
