//! Leaves out of a diff what was there in an earlier run: hunks that nobody has touched since.

use std::collections::BTreeMap;

use crate::change::git_name::of_header;
use crate::verify::new_side::Hunk;

/// The lines of each file that were touched, by the numbers of the new side; a deletion touches the lines around it.
pub(super) type Touched = BTreeMap<String, Vec<(u64, u64)>>;

/// Reads a diff without context.
pub(super) fn touched(diff: &str) -> Touched {
    let mut touched = Touched::new();
    for file in files(diff) {
        let name = file.name.map(unquoted).unwrap_or_default();
        let places = file.hunks.iter().filter_map(|hunk| {
            let (start, count) = new_side(hunk)?;
            Some(if count == 0 { (start, start + 1) } else { (start, start + count - 1) })
        });
        touched.insert(name, places.collect());
    }
    touched
}

/// Returns the hunks of a diff that overlap what was touched, with the heads of their files.
pub(super) fn hunks_of(diff: &str, touched: &Touched) -> String {
    let mut out = String::new();
    for file in files(diff) {
        let Some(places) = file.name.map(unquoted).and_then(|name| touched.get(&name)) else { continue };
        let overlaps = |hunk: &&&str| {
            let Some((start, count)) = new_side(hunk) else { return true };
            places.iter().any(|(from, to)| *from < start + count.max(1) && *to >= start)
        };
        let kept: Vec<&&str> = file.hunks.iter().filter(overlaps).collect();
        if !kept.is_empty() || file.hunks.is_empty() {
            out.push_str(file.head);
            kept.into_iter().for_each(|hunk| out.push_str(hunk));
        }
    }
    out
}

/// A file of a diff.
struct File<'a> {
    head: &'a str,
    hunks: Vec<&'a str>,
    name: Option<&'a str>,
}

/// Splits a diff by files and hunks. Only inside a head can a line of a file not look like another head: each line of a
/// hunk begins with its mark.
fn files(diff: &str) -> Vec<File<'_>> {
    let starts = |mark: &str, text: &str| -> Vec<usize> {
        let inner = text.match_indices(&format!("\n{mark}")).map(|(at, _)| at + 1).collect::<Vec<_>>();
        text.starts_with(mark).then_some(0).into_iter().chain(inner).collect()
    };
    let parts = |mark: &str, text: &'_ str| -> Vec<(usize, usize)> {
        let starts = starts(mark, text);
        let ends = starts.iter().skip(1).copied().chain([text.len()]);
        starts.iter().copied().zip(ends).collect()
    };
    let file = |text: &'_ str| -> (usize, Vec<(usize, usize)>) {
        let hunks = parts("@@ ", text);
        (hunks.first().map_or(text.len(), |(start, _)| *start), hunks)
    };
    let mut found = Vec::new();
    for (start, end) in parts("diff --git ", diff) {
        let text = &diff[start..end];
        let (head_end, hunks) = file(text);
        let head = &text[..head_end];
        let named = |mark: &str| head.lines().find_map(|line| line.strip_prefix(mark));
        let name = named("+++ ").filter(|name| *name != "/dev/null").or_else(|| named("--- "));
        // A file without hunks has one name, twice in the first line.
        let twice = || {
            let both = head.lines().next()?.strip_prefix("diff --git ")?;
            both.get(both.len() / 2 + 1..)
        };
        let name = name.or_else(|| named("rename to ")).or_else(twice);
        found.push(File { head, hunks: hunks.into_iter().map(|(from, to)| &text[from..to]).collect(), name });
    }
    found
}

/// Returns a path without its quotes and its `a/` or `b/`.
fn unquoted(name: &str) -> String {
    let name = of_header(name);
    name.strip_prefix("a/").or_else(|| name.strip_prefix("b/")).unwrap_or(&name).to_owned()
}

/// Returns the first line and the number of lines that the head of a hunk names for the new side.
fn new_side(hunk: &str) -> Option<(u64, u64)> {
    Hunk::at(hunk).map(|hunk| (hunk.start, hunk.lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATER: &str = "diff --git a/a.rs b/a.rs\n--- a/a.rs\n+++ b/a.rs\n@@ -20,0 +21,2 @@\n+x\n+y\n\
        diff --git a/gone.rs b/gone.rs\n--- a/gone.rs\n+++ /dev/null\n@@ -1 +0,0 @@\n-z\n\
        diff --git \"a/\\303\\244.rs\" \"b/\\303\\244.rs\"\n--- \"a/\\303\\244.rs\"\n+++ \"b/\\303\\244.rs\"\n\
        @@ -4 +3,0 @@\n-q\n";

    #[test]
    fn hunks_that_were_touched_stay_and_others_go() {
        let touched = touched(LATER);
        assert_eq!(touched["a.rs"], [(21, 22)]);
        assert_eq!((&touched["gone.rs"][..], &touched["ä.rs"][..]), (&[(0, 1)][..], &[(3, 4)][..]));
        let head = "diff --git a/a.rs b/a.rs\n--- a/a.rs\n+++ b/a.rs\n";
        let (first, second) =
            ("@@ -1,3 +1,4 @@\n a\n+diff --git a/x b/x\n b\n c\n", "@@ -15,6 +16,8 @@ fn f()\n d\n+x\n");
        let other = "diff --git a/b.rs b/b.rs\n--- a/b.rs\n+++ b/b.rs\n@@ -1 +1 @@\n-a\n+b\n";
        let whole = format!("{head}{first}{second}{other}");
        assert_eq!(hunks_of(&whole, &touched), format!("{head}{second}"));
    }
}
