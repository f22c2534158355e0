//! Contains the recipes that come with the program, as texts.

macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../recipes/", $name, ".yaml")))),*]
    };
}

/// Name and text of each.
pub const BUILTINS: [(&str, &str); 16] = built_in![
    "answer",
    "bump-deprecated-api",
    "commit-message",
    "dependency-upgrade-fix",
    "do",
    "doc-comments",
    "fix-ci",
    "fix-lint",
    "flaky-test-diagnosis",
    "review-diff",
    "security-review",
    "staged-check",
    "test-writer",
    "translate-docs",
    "triage-issue",
    "write-changelog",
];

/// Returns the text of a built-in recipe.
pub fn text(name: &str) -> Option<&'static str> {
    BUILTINS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}
