//! Grants a command that an operator typed: exactly its own words.

use std::path::Path;

use super::Facts;
use super::commands::Answers;
use super::decision::{Denial, RuleRef};
use super::effect::Effect;
use super::grant::{CommandPlan, Isolation, Network};
use super::programs::{CommandRules, Judged, Judgement, Stdin, Word};
use super::{Policy, shell};
use crate::path::{RelPath, Tree};

impl Policy {
    /// Parses a command that an operator typed (`--verify`): it needs no allow rule, deny rules still hold, and what
    /// cannot be understood is refused as ever.
    pub fn operator_command(&self, command: &str, facts: &Facts) -> Result<CommandPlan, Denial> {
        let rules = OperatorRules { policy: Answers::new(self, facts) };
        // A program of the home, as in a shell.
        let in_home = command.strip_prefix("~/").map(|rest| format!("{}/{rest}", shell::quoted(&facts.home)));
        shell::judge(in_home.as_deref().unwrap_or(command), None, &rules).map(|approved| approved.plan)
    }
}

/// The policy's deny rules without its allow rules.
struct OperatorRules<'a> {
    policy: Answers<'a>,
}

fn text_of(word: &Word) -> String {
    word.text.clone()
}

impl CommandRules for OperatorRules<'_> {
    fn judge(&self, words: &[Word], stdin: Stdin, folders: &[RelPath]) -> Judgement {
        if let Some(denial) = self.policy.denied(words) {
            return Err(denial);
        }
        // What the rules know to be a plain reader runs as one.
        let known = self.policy.judge(words, stdin, folders);
        let isolation = match known.map(|judged| judged.isolation) {
            Ok(Isolation::None) => Isolation::None,
            Ok(Isolation::Waivable | Isolation::Required) | Err(_) => Isolation::Waivable,
        };
        let is_reader = isolation == Isolation::None;
        Ok(Judged {
            rule: RuleRef { rule: "--verify".into(), source: "flag".into() },
            effects: Vec::new(),
            starts: Vec::new(),
            unchanged: Vec::new(),
            formatted: Vec::new(),
            writes_nothing: is_reader,
            writes_git: false,
            open_ended: !is_reader,
            isolation,
            directories: words.iter().filter(|word| word.literal && word.text.starts_with('/')).map(text_of).collect(),
            printed: None,
        })
    }

    fn check(&self, effect: &Effect, folders: &[RelPath]) -> Result<(), Denial> {
        self.policy.check(effect, folders)
    }

    fn denied(&self, words: &[Word]) -> Option<Denial> {
        self.policy.denied(words)
    }

    fn may_set(&self, variable: &str, _value: &str) -> bool {
        // The operator may set what he likes but what makes a shell or loader run something else.
        !variable.starts_with("LD_") && !matches!(variable, "PATH" | "IFS" | "BASH_ENV" | "ENV" | "SHELLOPTS")
    }

    fn network(&self) -> Network {
        self.policy.network()
    }

    fn default_allows(&self) -> bool {
        true
    }

    fn enter(&self, folder: &RelPath, path: &str) -> Result<RelPath, Denial> {
        self.policy.enter(folder, path)
    }

    fn home(&self) -> &str {
        self.policy.home()
    }

    fn root(&self) -> &Path {
        self.policy.root()
    }

    fn tree(&self) -> &dyn Tree {
        self.policy.tree()
    }
}
