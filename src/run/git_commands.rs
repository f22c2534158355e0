//! Recognises the model's git commands, and what their words tell about the repository that they work in.

use crate::policy::CommandPlan;
use crate::policy::grant::Start;
use crate::policy::programs::only_reads;

/// Tells whether a command is git and plain readers alone, which the rules on reading have judged word by word.
pub(super) fn is_git_and_readers(plan: &CommandPlan) -> bool {
    plan.programs.iter().all(|name| name == "git" || only_reads(name))
}

/// Tells whether a command is git and plain readers and makes no second repository.
pub(super) fn is_judged_git(plan: &CommandPlan) -> bool {
    let makes_one = |word: &str| matches!(word, "clone" | "init" | "submodule" | "worktree");
    is_git_and_readers(plan)
        && match &plan.start {
            Start::Pipeline(programs) => !programs.iter().flatten().any(|word| makes_one(word)),
            Start::Script(text) => !text.split_whitespace().any(|word| makes_one(word.trim_matches(['\'', '"']))),
            Start::AsWritten(_) => false,
        }
}

/// Tells whether every git of a command works in the repository of the tree: no program of the command starts one by
/// itself, and none makes a repository.
pub(super) fn works_in_own_repository(plan: &CommandPlan) -> bool {
    let makes_one = |text: &str| ["clone", "init", "submodule", "worktree"].iter().any(|verb| text.contains(verb));
    is_git_and_readers(plan)
        && match &plan.start {
            Start::Pipeline(programs) => !programs.iter().flatten().any(|word| makes_one(word)),
            Start::Script(text) => !makes_one(text),
            Start::AsWritten(_) => false,
        }
}
