//! The diff of one file for a person.

use similar::TextDiff;

/// Returns the unified diff of a file's text under its name, for display only: a patch is made elsewhere.
pub(crate) fn unified(name: &str, before: &str, after: &str) -> String {
    let before: Vec<&str> = before.split_inclusive('\n').collect();
    let after: Vec<&str> = after.split_inclusive('\n').collect();
    TextDiff::configure()
        .newline_terminated(true)
        .diff_slices(&before, &after)
        .unified_diff()
        .context_radius(3)
        .header(&format!("a/{name}"), &format!("b/{name}"))
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_carriage_return_ends_no_line() {
        let diff = unified("f", "a\rb\nc\n", "a\rb\nd\n");
        assert_eq!(diff, "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\rb\n-c\n+d\n");
    }
}
