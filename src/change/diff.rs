//! Computes the lines in which two contents differ.
//!
//! Lines end at `\n` only, so a lone CR and every other byte are kept.

use std::collections::HashMap;
use std::fmt::Write as _;

use similar::{Algorithm, DiffOp};

use super::change_set::{Change, Entry};

/// Lines shown around a change in a patch.
pub const CONTEXT: usize = 3;

/// Lines of a call's diff that a person is shown.
const SHOWN_LINES: usize = 400;

/// Splits at `\n`; each line keeps its `\n`, the last one may have none.
pub fn lines(content: &[u8]) -> Vec<&[u8]> {
    content.split_inclusive(|byte| *byte == b'\n').collect()
}

/// Tells whether contents are shown as a binary hunk: they hold a NUL.
pub fn is_binary(content: &[u8]) -> bool {
    content.contains(&0)
}

/// How many lines a change adds and removes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lines added.
    pub added: u64,
    /// Lines removed.
    pub removed: u64,
}

/// Returns how many lines a change adds and removes; none for a binary file.
pub fn counts(change: &Change) -> Counts {
    let (before, after) = (text_of(&change.before), text_of(&change.after));
    if is_binary(before) || is_binary(after) {
        return Counts::default();
    }
    LineDiff::new(before, after).counts()
}

/// Returns what a patch shows of an entry: a file's bytes or a link's target.
pub fn text_of(entry: &Entry) -> &[u8] {
    match entry {
        Entry::Absent => b"",
        Entry::File { content, .. } => content,
        Entry::Link { target } => target,
    }
}

/// Two contents and the runs of lines that turn one into the other.
pub struct LineDiff<'a> {
    old: Vec<&'a [u8]>,
    new: Vec<&'a [u8]>,
    operations: Vec<DiffOp>,
}

impl<'a> LineDiff<'a> {
    /// Compares two contents line by line.
    pub fn new(old: &'a [u8], new: &'a [u8]) -> LineDiff<'a> {
        let (old, new) = (lines(old), lines(new));
        let operations = operations(&old, &new);
        LineDiff { old, new, operations }
    }

    /// Returns each run of old lines that is replaced, with the new lines.
    pub fn edits(&self) -> impl Iterator<Item = (std::ops::Range<usize>, &[&'a [u8]])> {
        let changed = self.operations.iter().filter(|operation| !matches!(operation, DiffOp::Equal { .. }));
        changed.map(|operation| (operation.old_range(), &self.new[operation.new_range()]))
    }

    /// Returns the added and the removed lines, in order.
    pub fn changed(&self) -> (Vec<&'a [u8]>, Vec<&'a [u8]>) {
        let (mut added, mut removed) = (Vec::new(), Vec::new());
        for operation in &self.operations {
            if !matches!(operation, DiffOp::Equal { .. }) {
                removed.extend_from_slice(&self.old[operation.old_range()]);
                added.extend_from_slice(&self.new[operation.new_range()]);
            }
        }
        (added, removed)
    }

    /// Returns how many lines are added and removed.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for operation in &self.operations {
            if !matches!(operation, DiffOp::Equal { .. }) {
                counts.added += operation.new_range().len() as u64;
                counts.removed += operation.old_range().len() as u64;
            }
        }
        counts
    }

    /// Writes the hunks of a unified diff with this many lines of context, as `git apply` reads them.
    pub fn write_hunks(&self, context: usize, out: &mut Vec<u8>) {
        for hunk in similar::group_diff_ops(self.operations.clone(), context) {
            let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { continue };
            let old = first.old_range().start..last.old_range().end;
            let new = first.new_range().start..last.new_range().end;
            out.extend_from_slice(format!("@@ -{} +{} @@\n", Span(&old), Span(&new)).as_bytes());
            for operation in &hunk {
                if matches!(operation, DiffOp::Equal { .. }) {
                    write_lines(b' ', &self.old[operation.old_range()], out);
                } else {
                    write_lines(b'-', &self.old[operation.old_range()], out);
                    write_lines(b'+', &self.new[operation.new_range()], out);
                }
            }
        }
    }
}

/// A range of lines as a hunk's header has it: counted from 1, an empty one by the line before it.
struct Span<'a>(&'a std::ops::Range<usize>);

impl std::fmt::Display for Span<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.len() {
            0 => write!(f, "{},0", self.0.start),
            1 => write!(f, "{}", self.0.start + 1),
            length => write!(f, "{},{length}", self.0.start + 1),
        }
    }
}

fn write_lines(mark: u8, lines: &[&[u8]], out: &mut Vec<u8>) {
    for line in lines {
        out.push(mark);
        out.extend_from_slice(line);
        if line.last() != Some(&b'\n') {
            out.extend_from_slice(b"\n\\ No newline at end of file\n");
        }
    }
}

/// A line of the part in which two contents differ.
#[derive(Default)]
struct Seen {
    number: u32,
    /// How often it is in the old and in the new part.
    times: (u32, u32),
    /// Whether it is also outside of that part.
    is_repeated: bool,
}

/// Compares by number instead of by text, and only between the common head and tail: lines that one side alone has
/// cannot match, so they are taken out first, and a rewritten file costs no more than its length.
///
/// Lines that are unique on both sides are matched first (patience diff), so that no function is torn apart at its blank
/// lines.
pub(super) fn operations(old: &[&[u8]], new: &[&[u8]]) -> Vec<DiffOp> {
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let tail = old[head..].iter().rev().zip(new[head..].iter().rev()).take_while(|(a, b)| a == b).count();
    let (old_middle, new_middle) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);

    let mut lines: HashMap<&[u8], Seen> = HashMap::new();
    for (part, is_old) in [(old_middle, true), (new_middle, false)] {
        for line in part {
            let number = lines.len() as u32;
            let seen = lines.entry(line).or_insert_with(|| Seen { number, ..Seen::default() });
            if is_old { seen.times.0 += 1 } else { seen.times.1 += 1 }
        }
    }
    let is_shared = |seen: &Seen| seen.times.0 > 0 && seen.times.1 > 0;
    if lines.values().any(is_shared) {
        for line in old[..head].iter().chain(&old[old.len() - tail..]) {
            lines.get_mut(line).into_iter().for_each(|seen| seen.is_repeated = true);
        }
    }
    let shared = |part: &[&[u8]]| -> Vec<(usize, u32)> {
        let number = |line: &&[u8]| lines.get(*line).filter(|seen| is_shared(seen)).map(|seen| seen.number);
        part.iter().enumerate().filter_map(|(at, line)| Some((at, number(line)?))).collect()
    };
    let (old_shared, new_shared) = (shared(old_middle), shared(new_middle));
    let mut is_unique = vec![false; lines.len()];
    for seen in lines.values() {
        is_unique[seen.number as usize] = seen.times == (1, 1) && !seen.is_repeated;
    }
    let numbers = |shared: &[(usize, u32)]| -> Vec<u32> { shared.iter().map(|(_, number)| *number).collect() };

    // The pairs of equal lines, in order, in the numbering of the whole contents.
    let mut pairs: Vec<(usize, usize)> = (0..head).map(|at| (at, at)).collect();
    let matched = matched(&numbers(&old_shared), &numbers(&new_shared), &is_unique);
    pairs.extend(matched.into_iter().map(|(o, n)| (head + old_shared[o].0, head + new_shared[n].0)));
    pairs.extend((0..tail).map(|at| (old.len() - tail + at, new.len() - tail + at)));
    from_pairs(&pairs, old.len(), new.len())
}

/// Matches equal numbers in order: first as many unique ones as possible, then the rest between them.
fn matched(old: &[u32], new: &[u32], is_unique: &[bool]) -> Vec<(usize, usize)> {
    let is_unique = |number: u32| is_unique[number as usize];
    let place: HashMap<u32, usize> =
        new.iter().enumerate().filter(|(_, n)| is_unique(**n)).map(|(at, n)| (*n, at)).collect();
    let unique: Vec<(usize, usize)> =
        old.iter().enumerate().filter_map(|(at, number)| Some((at, *place.get(number)?))).collect();
    let anchors = longest_increasing(&unique.iter().map(|(_, at)| *at).collect::<Vec<_>>());
    let (mut pairs, mut from) = (Vec::new(), (0, 0));
    for to in anchors.into_iter().map(|at| unique[at]).chain([(old.len(), new.len())]) {
        let (a, b) = (&old[from.0..to.0], &new[from.1..to.1]);
        if !a.is_empty() && !b.is_empty() {
            for operation in similar::capture_diff_slices(Algorithm::Myers, a, b) {
                if let DiffOp::Equal { old_index, new_index, len } = operation {
                    pairs.extend((0..len).map(|i| (from.0 + old_index + i, from.1 + new_index + i)));
                }
            }
        }
        if to.0 < old.len() && to.1 < new.len() {
            pairs.push(to);
        }
        from = (to.0 + 1, to.1 + 1);
    }
    pairs
}

/// Returns the positions of a longest increasing subsequence of different numbers.
fn longest_increasing(numbers: &[usize]) -> Vec<usize> {
    // Of each length, the subsequence with the smallest end: where it ends, and of each number what comes before it.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(numbers.len());
    for (at, number) in numbers.iter().enumerate() {
        let length = ends.partition_point(|end| numbers[*end] < *number);
        before.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        match ends.get_mut(length) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let mut found: Vec<usize> = std::iter::successors(ends.last().copied(), |at| before[*at]).collect();
    found.reverse();
    found
}

/// Turns the pairs of equal lines into runs that cover both contents.
fn from_pairs(pairs: &[(usize, usize)], old_len: usize, new_len: usize) -> Vec<DiffOp> {
    let mut operations: Vec<DiffOp> = Vec::new();
    let (mut old, mut new) = (0, 0);
    for &(old_at, new_at) in pairs.iter().chain([&(old_len, new_len)]) {
        let (old_gap, new_gap) = (old_at - old, new_at - new);
        match (old_gap, new_gap) {
            (0, 0) => {}
            (0, new_len) => operations.push(DiffOp::Insert { old_index: old, new_index: new, new_len }),
            (old_len, 0) => operations.push(DiffOp::Delete { old_index: old, old_len, new_index: new }),
            (old_len, new_len) => {
                operations.push(DiffOp::Replace { old_index: old, old_len, new_index: new, new_len });
            }
        }
        if old_at == old_len && new_at == new_len {
            break;
        }
        match operations.last_mut() {
            Some(DiffOp::Equal { len, .. }) => *len += 1,
            _ => operations.push(DiffOp::Equal { old_index: old_at, new_index: new_at, len: 1 }),
        }
        (old, new) = (old_at + 1, new_at + 1);
    }
    operations
}

/// Shows two states of a text under its name, for display: a patch is made elsewhere.
pub fn of_text(name: &str, before: &str, after: &str) -> String {
    let hunks = hunks_for_people(before.as_bytes(), after.as_bytes(), SHOWN_LINES);
    format!("--- a/{name}\n+++ b/{name}\n{hunks}")
}

/// Returns hunks with two lines of context, at most `max_lines` lines, then how much is left out.
fn hunks_for_people(before: &[u8], after: &[u8], max_lines: usize) -> String {
    let mut hunks = Vec::new();
    LineDiff::new(before, after).write_hunks(2, &mut hunks);
    let text = String::from_utf8_lossy(&hunks);
    let total = text.split_inclusive('\n').count();
    let mut shown: String = text.split_inclusive('\n').take(max_lines).collect();
    if total > max_lines {
        writeln!(shown, "… {} more lines", total - max_lines).expect("a String takes every write");
    }
    shown
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hunks(old: &str, new: &str) -> String {
        let mut out = Vec::new();
        LineDiff::new(old.as_bytes(), new.as_bytes()).write_hunks(CONTEXT, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_hunk_has_three_lines_of_context_and_says_where_a_newline_is_missing() {
        insta::assert_snapshot!(hunks("1\n2\n3\n4\n5\n6\n7\n8", "1\n2\n3\n4\n5\nsix\n7\n8\n"), @r"
        @@ -3,6 +3,6 @@
         3
         4
         5
        -6
        +six
         7
        -8
        \ No newline at end of file
        +8
        ");
    }

    #[test]
    fn a_lone_cr_ends_no_line() {
        assert_eq!(lines(b"a\rb\r\nc"), [b"a\rb\r\n".as_slice(), b"c"]);
        assert_eq!(hunks("a\rb\n", "a\rc\n"), "@@ -1 +1 @@\n-a\rb\n+a\rc\n");
    }

    #[test]
    fn a_rewritten_file_of_many_lines_is_compared_in_linear_time() {
        let old: String = (0..60_000).map(|n| format!("old {n}\n")).collect();
        let new: String = (0..60_000).map(|n| format!("new {n}\n")).collect();
        assert_eq!(LineDiff::new(old.as_bytes(), new.as_bytes()).counts(), Counts { added: 60_000, removed: 60_000 });
    }

    #[test]
    fn a_function_is_not_torn_apart_at_lines_that_every_function_has() {
        let old = "fn a() {\n    one();\n\n    two();\n}\n\nfn b() {\n    three();\n\n    four();\n}\n";
        let new = "fn c() {\n    five();\n\n    six();\n}\n\nfn a() {\n    one();\n\n    two();\n}\n\n\
                   fn b() {\n    three();\n\n    seven();\n}\n";
        insta::assert_snapshot!(hunks(old, new).replace("\n \n", "\n\n"), @r"
        @@ -1,3 +1,9 @@
        +fn c() {
        +    five();
        +
        +    six();
        +}
        +
         fn a() {
             one();

        @@ -7,5 +13,5 @@
         fn b() {
             three();

        -    four();
        +    seven();
         }
        ");
    }

    #[test]
    fn a_text_is_shown_under_its_name() {
        let diff = of_text("f", "a\rb\nc\n", "a\rb\nd\n");
        assert_eq!(diff, "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\rb\n-c\n+d\n");
    }

    #[test]
    fn a_long_diff_is_cut_for_people() {
        insta::assert_snapshot!(hunks_for_people(b"1\n2\n3\n", b"4\n5\n6\n", 3), @r"
        @@ -1,3 +1,3 @@
        -1
        -2
        … 4 more lines
        ");
    }

    #[test]
    fn lines_that_were_moved_are_removed_in_one_place_and_added_in_another() {
        let line = |n: usize| if n.is_multiple_of(5) { "}\n".to_owned() } else { format!("line {n}\n") };
        let old: Vec<String> = (0..10_000).map(line).collect();
        let new = [&old[..1000], &old[2000..], &old[1000..2000]].concat().concat();
        let counts = LineDiff::new(old.concat().as_bytes(), new.as_bytes()).counts();
        assert_eq!(counts, Counts { added: 1000, removed: 1000 });
    }

    #[test]
    fn the_longest_increasing_numbers_are_found() {
        assert_eq!(longest_increasing(&[]), [0; 0]);
        assert_eq!(longest_increasing(&[3, 4, 0, 5, 1, 2, 6]), [2, 4, 5, 6]);
    }

    proptest! {
        #[test]
        fn the_runs_cover_both_contents_and_equal_runs_are_equal(old in "[abc\n]{0,40}", new in "[abc\n]{0,40}") {
            let diff = LineDiff::new(old.as_bytes(), new.as_bytes());
            let (mut at_old, mut at_new) = (0, 0);
            for operation in &diff.operations {
                prop_assert_eq!((operation.old_range().start, operation.new_range().start), (at_old, at_new));
                if matches!(operation, DiffOp::Equal { .. }) {
                    prop_assert_eq!(&diff.old[operation.old_range()], &diff.new[operation.new_range()]);
                }
                (at_old, at_new) = (operation.old_range().end, operation.new_range().end);
            }
            prop_assert_eq!((at_old, at_new), (diff.old.len(), diff.new.len()));
        }
    }
}
