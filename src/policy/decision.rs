//! Represents a decision: a verdict, the rule that gave it, the reason, and the smallest change that would allow the
//! call.

use serde::Serialize;

/// Allowed or denied; nobody is there to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Every condition holds.
    Allow,
    /// At least one does not.
    Deny,
}

/// The place of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RuleRef {
    /// The rule's place in its file, for example `shell.deny[0]`, or the name of a built-in rule, for example `F4`.
    pub rule: String,
    /// File and line, for example `.qwen/policy.yaml:31`, or `builtin:default`.
    pub source: String,
}

/// The policy's answer for one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// Allow or deny.
    pub verdict: Verdict,
    /// The rule that decided.
    pub rule: Option<RuleRef>,
    /// Why, for the model and the log: one sentence without a final stop.
    pub reason: String,
    /// The smallest thing that would help.
    pub hint: Option<String>,
    /// What the call would do, one line each, for example `run git status`, `read src/a.rs`, `write build/x`.
    pub effects: Vec<String>,
}

impl Decision {
    /// Tells whether the call may continue.
    pub fn is_allowed(&self) -> bool {
        self.verdict == Verdict::Allow
    }
}

/// Why something is denied; becomes a [`Decision`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// The rule, where one can be named.
    pub rule: Option<RuleRef>,
    /// Why: one sentence without a final stop.
    pub reason: String,
    /// The smallest thing that would help.
    pub hint: Option<String>,
    /// The command's text could not be analysed, so `unanalysable: sandboxed` may apply.
    pub unanalysable: bool,
}

impl Denial {
    /// Denies for a reason, with no rule to name.
    pub fn new(reason: impl Into<String>) -> Denial {
        Denial { rule: None, reason: reason.into(), hint: None, unanalysable: false }
    }

    /// Denies because the text cannot be known.
    pub fn unanalysable(reason: impl Into<String>) -> Denial {
        Denial { unanalysable: true, ..Denial::new(reason) }
    }

    /// Names the built-in rule, for example `F4` (protected files are never written).
    #[must_use]
    pub fn by(mut self, rule: &str) -> Denial {
        self.rule = Some(RuleRef { rule: rule.to_owned(), source: "builtin".to_owned() });
        self
    }

    /// Names the rule of a file.
    #[must_use]
    pub fn by_rule(mut self, rule: RuleRef) -> Denial {
        self.rule = Some(rule);
        self
    }

    /// Adds what would help.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Denial {
        self.hint = Some(hint.into());
        self
    }
}

impl From<Denial> for Decision {
    fn from(denial: Denial) -> Decision {
        Decision {
            verdict: Verdict::Deny,
            rule: denial.rule,
            reason: denial.reason,
            hint: denial.hint,
            effects: Vec::new(),
        }
    }
}
