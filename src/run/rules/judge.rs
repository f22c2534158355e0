//! Applies the policy's decision to calls, narrowed by what this run can guarantee.

use crate::agent::invoke::PolicyCheck;
use crate::change::{Change, ChangeSet, Entry};
use crate::path::RelPath;
use crate::policy::{Access, ChangeFacts, CommandPlan, Decision, Denial, Facts, Grant, Policy};
use crate::sandbox::Tier;

/// The policy with the facts of this run, and the isolation that commands get.
pub struct RunPolicyCheck<'a> {
    /// The rules.
    pub policy: &'a Policy,
    /// The facts for decisions.
    pub facts: Facts,
    /// The isolation of commands.
    pub tier: Tier,
    /// Untrusted text is in the prompt: commands run only isolated.
    pub only_isolated: bool,
    /// Whether `--sandbox off` was given.
    pub isolation_off: bool,
    /// The policy's digest.
    pub digest: String,
}

impl RunPolicyCheck<'_> {
    /// The policy may allow more than this machine can isolate.
    pub fn contained(&self, plan: &CommandPlan) -> Result<(), Denial> {
        if self.only_isolated && !self.tier.isolates() {
            let reason = "untrusted text is in the prompt, and commands are not isolated here";
            let hint = "use Landlock (Linux 6.2 or newer), without `--sandbox off`";
            return Err(Denial::new(reason).hint(hint).by("sandbox"));
        }
        self.tier.admits(self.isolation_off, plan)
    }
}

impl PolicyCheck for RunPolicyCheck<'_> {
    fn authorize(&self, tool: &str, accesses: &[Access]) -> (Decision, Option<Grant>) {
        let (decision, grant) = self.policy.authorize(tool, accesses, &self.facts);
        match grant.as_ref().and_then(Grant::command).map(|plan| self.contained(plan)) {
            Some(Err(denial)) => (Decision { effects: decision.effects, ..denial.into() }, None),
            Some(Ok(())) | None => (decision, grant),
        }
    }

    fn remedy(&self, tool: &str, accesses: &[Access]) -> Option<String> {
        // What the policy allows and this machine cannot isolate lacks no rule.
        let remedy = self.policy.remedy(tool, accesses, &self.facts).ok();
        remedy.map(|remedy| remedy.lines.join("\n")).filter(|lines| !lines.is_empty())
    }

    fn tier(&self) -> String {
        if self.isolation_off { "off".to_owned() } else { self.tier.name().to_owned() }
    }

    fn digest(&self) -> String {
        self.digest.clone()
    }
}

/// Judges one of these changes by the policy's rules for the gate.
pub fn judge_change(
    policy: &Policy,
    facts: &Facts,
    path: &RelPath,
    (change, changes): (&Change, &ChangeSet),
) -> Result<(), String> {
    let Some(kind) = change.kind() else { return Ok(()) };
    let executable = |entry: &Entry| matches!(entry, Entry::File { executable: true, .. });
    let link = |entry: &Entry| matches!(entry, Entry::Link { .. });
    let facts_of_change = ChangeFacts {
        kind,
        becomes_executable: executable(&change.after)
            && !executable(&change.before)
            && !changes.moves_executable(&change.after),
        is_link: link(&change.after) || link(&change.before),
    };
    policy.judge_change(path, facts_of_change, facts).map_err(|denial| denial.reason)?;
    match &change.after {
        Entry::Link { target } => policy.judge_link(path, target, facts).map_err(|denial| denial.reason),
        Entry::Absent | Entry::File { .. } => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use super::*;
    use crate::policy::programs::{self, PLAIN_READERS};
    use crate::workspace::disk::Disk;

    #[test]
    fn without_isolation_no_program_runs_but_plain_readers_whatever_its_table_says() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.txt"), "a\n").unwrap();
        let policy = Policy::builtin("open").unwrap();
        let facts = Facts {
            root: folder.path().canonicalize().unwrap(),
            included: Vec::new(),
            outputs: None,
            home: "/h".to_owned(),
            tree: Arc::new(Disk),
            git: crate::policy::GitFacts::default(),
        };
        let judge = |tier, isolation_off| RunPolicyCheck {
            policy: &policy,
            facts: facts.clone(),
            tier,
            only_isolated: false,
            isolation_off,
            digest: String::new(),
        };
        let runs = |tier, off, command: &str| {
            let access = Access::Run { command: command.to_owned(), directory: None::<PathBuf> };
            judge(tier, off).authorize("run_shell_command", &[access]).1.is_some()
        };
        let untrusted = RunPolicyCheck { only_isolated: true, ..judge(Tier::T1, true) };
        let access = || [Access::Run { command: "cat a.txt".to_owned(), directory: None::<PathBuf> }];
        assert!(untrusted.authorize("run_shell_command", &access()).1.is_none(), "untrusted text is in the prompt");
        let isolated = RunPolicyCheck { tier: Tier::T2, ..untrusted };
        assert!(isolated.authorize("run_shell_command", &access()).1.is_some());
        let names = programs::all().flat_map(|table| table.names.split_whitespace());
        let others = "python3 node perl bash timeout env find mytool ./a.txt curl".split(' ');
        let builtins = "true false : [ type cd exit break continue";
        let mut seen = 0;
        for name in names.chain(others) {
            for command in
                [name.to_owned(), format!("{name} a.txt"), format!("{name} x a.txt"), format!("{name} --version")]
            {
                let is_reader = PLAIN_READERS.split(' ').chain(builtins.split(' ')).any(|known| known == name);
                if is_reader || !runs(Tier::T2, false, &command) {
                    continue;
                }
                seen += 1;
                assert!(!runs(Tier::T1, false, &command) && !runs(Tier::T0, false, &command), "{command}");
            }
        }
        assert!(seen > 200, "{seen}");
        for command in ["cat a.txt | sort | uniq -c", "git status && git log -1", "cd . && ls; echo x", "test -f a.txt"]
        {
            assert!(runs(Tier::T1, false, command), "{command}");
        }
        for command in
            ["cat a.txt > b", "sort -o b a.txt", "uniq a.txt b", "git add a.txt", "command env", "nice cat a.txt"]
        {
            assert!(runs(Tier::T2, false, command) && !runs(Tier::T1, false, command), "{command}");
            assert!(runs(Tier::T0, true, command), "{command}");
        }
        for command in
            ["awk '{print}' a.txt", "sed -n 1p a.txt", "jq . a.txt", "find . -exec cat {} +", "python3 a.txt"]
        {
            assert!(runs(Tier::T2, false, command) && !runs(Tier::T0, true, command), "{command}");
        }
    }
}
