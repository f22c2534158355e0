//! Contains the policies that come with the program, as files to start from.

/// The policy that lets changes be delivered.
pub const EDIT: &str = "edit";

/// Name and text of each built-in policy.
pub const BUILTINS: [(&str, &str); 5] = [
    ("read-only", include_str!("builtin/read-only.yaml")),
    ("default", include_str!("builtin/default.yaml")),
    (EDIT, include_str!("builtin/edit.yaml")),
    ("ci-dev", include_str!("builtin/ci-dev.yaml")),
    ("open", include_str!("builtin/open.yaml")),
];

/// Returns the text of a built-in policy.
pub fn text(name: &str) -> Option<&'static str> {
    BUILTINS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}
