//! Recognises the model's git commands, and what their words tell about the repository that they work in.

use crate::policy::CommandPlan;
use crate::policy::grant::Start;
use crate::policy::programs::{git_verb, starts_another};

/// Tells whether a command is git and plain readers and makes no second repository: every git of it works in the
/// repository of the tree.
pub(super) fn is_judged_git(plan: &CommandPlan) -> bool {
    plan.is_git_and_readers()
        && match &plan.start {
            Start::Pipeline(programs) => !programs.iter().any(|words| makes_repository(words)),
            Start::Script(text) => !script_makes_repository(text),
            Start::AsWritten(_) => false,
        }
}

fn makes_repository(words: &[impl AsRef<str>]) -> bool {
    let Some((verb, next)) = git_verb(words) else { return false };
    matches!(verb, "clone" | "init" | "submodule" | "worktree")
        && !matches!((verb, next), ("worktree", "list") | ("submodule", "status"))
}

/// Looks at the words of our own printing: a word is the name of a program where a command begins, or behind a program
/// that starts another.
fn script_makes_repository(text: &str) -> bool {
    const BEFORE: [&str; 8] = ["!", "if", "then", "elif", "else", "while", "until", "do"];
    const OPENS: [char; 7] = ['\'', '"', '(', '$', '`', '<', '>'];
    let words: Vec<&str> = text.split_whitespace().map(|word| word.trim_start_matches(OPENS)).collect();
    let has_wrapper = words.iter().any(|word| starts_another(word));
    let begins = |at: usize| {
        let before = at.checked_sub(1).map(|at| words[at]);
        let opens = text.split_whitespace().nth(at).is_some_and(|word| word.contains(['(', '`']));
        has_wrapper
            || opens
            || before.is_none_or(|before| BEFORE.contains(&before) || before.ends_with(['|', '&', ';', '{', '(']))
    };
    let plain = |word: &&str| word.trim_end_matches(['\'', '"', ')', '`', ';']).to_owned();
    (0..words.len()).filter(|at| begins(*at)).any(|at| {
        let command: Vec<String> = words[at..].iter().map(plain).collect();
        makes_repository(&command)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_makes_a_repository_is_known_by_its_verb_alone() {
        for (text, makes) in [
            ("git log -p -- f.txt init", false),
            ("git log --grep init", false),
            ("git -C init status; git log --author=clone", false),
            ("git --no-pager -C sub log -- worktree | grep init", false),
            ("grep git init | head", false),
            ("git init sub", true),
            ("git -C sub init .; git log", true),
            ("git status && git -c a=b clone x y", true),
            ("cat $(git init x)", true),
            ("timeout 5 git init x", true),
            ("if true; then git submodule add x; fi", true),
            ("(git worktree add x)", true),
            ("git worktree list; git submodule status", false),
            ("git worktree add worktree list", true),
            ("git worktree -f list add x", true),
        ] {
            assert_eq!(script_makes_repository(text), makes, "{text}");
            if !text.contains([';', '|', '&', '(']) {
                let words: Vec<&str> = text.split(' ').collect();
                assert_eq!(makes_repository(&words), makes, "{text}");
            }
        }
    }
}
