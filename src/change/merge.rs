//! Merges two changes of one text if they do not touch the same lines.

use std::ops::Range;

use super::diff::LineDiff;

/// Two changes that touch: the first line of the text before at which they do, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touching {
    /// The line.
    pub line: usize,
}

/// One run of lines that a side replaces.
struct Edit<'a> {
    old: Range<usize>,
    new: Vec<&'a [u8]>,
}

/// Merges two changes of `base`. Changes to the same or to neighbouring lines are refused, unless they are the same.
pub fn merge(base: &[u8], ours: &[u8], theirs: &[u8]) -> Result<Vec<u8>, Touching> {
    let (of_us, of_them) = (LineDiff::new(base, ours), LineDiff::new(base, theirs));
    let (mut our_edits, mut their_edits) = (edits(&of_us).peekable(), edits(&of_them).peekable());
    let lines = super::diff::lines(base);
    let mut merged = Vec::with_capacity(ours.len().max(theirs.len()));
    let mut at = 0;
    loop {
        let edit = match (our_edits.peek(), their_edits.peek()) {
            (None, None) => break,
            (Some(_), None) => our_edits.next(),
            (None, Some(_)) => their_edits.next(),
            (Some(a), Some(b)) if a.old == b.old && a.new == b.new => {
                their_edits.next();
                our_edits.next()
            }
            (Some(a), Some(b)) if a.old.start <= b.old.end && b.old.start <= a.old.end => {
                return Err(Touching { line: a.old.start.min(b.old.start) + 1 });
            }
            (Some(a), Some(b)) if a.old.start < b.old.start => our_edits.next(),
            (Some(_), Some(_)) => their_edits.next(),
        };
        let edit = edit.expect("it was peeked at");
        merged.extend(lines[at..edit.old.start].iter().copied().flatten());
        merged.extend(edit.new.into_iter().flatten());
        at = edit.old.end;
    }
    merged.extend(lines[at..].iter().copied().flatten());
    Ok(merged)
}

/// Returns the runs that a side replaces, those that meet as one.
fn edits<'a>(diff: &'a LineDiff<'a>) -> impl Iterator<Item = Edit<'a>> {
    let mut edits: Vec<Edit<'a>> = Vec::new();
    for (old, new) in diff.edits() {
        match edits.last_mut().filter(|last| last.old.end == old.start) {
            Some(last) => {
                last.old.end = old.end;
                last.new.extend(new);
            }
            None => edits.push(Edit { old, new: new.to_vec() }),
        }
    }
    edits.into_iter()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn merged(base: &str, ours: &str, theirs: &str) -> Result<String, usize> {
        merge(base.as_bytes(), ours.as_bytes(), theirs.as_bytes())
            .map(|text| String::from_utf8(text).unwrap())
            .map_err(|touching| touching.line)
    }

    #[test]
    fn changes_apart_from_each_other_are_put_together() {
        assert_eq!(merged("1\n2\n3\n", "one\n2\n3\n", "1\n2\nthree\n").as_deref(), Ok("one\n2\nthree\n"));
        assert_eq!(merged("1\n2\n3\n", "0\n1\n2\n3\n", "1\n2\n3").as_deref(), Ok("0\n1\n2\n3"));
        assert_eq!(merged("1\r\n2\r\n3\r\n", "1\r\n2\r\n", "one\r\n2\r\n3\r\n").as_deref(), Ok("one\r\n2\r\n"));
    }

    #[test]
    fn changes_that_touch_are_refused_unless_they_are_the_same() {
        assert_eq!(merged("1\n2\n", "one\n2\n", "uno\n2\n"), Err(1));
        assert_eq!(merged("1\n2\n3\n", "1\ntwo\n3\n", "1\n2\nthree\n"), Err(2));
        assert_eq!(merged("1\n", "1\na\n", "1\nb\n"), Err(2));
        assert_eq!(merged("1\n2\n3\n", "one\n2\n3\n", "one\n2\nthree\n").as_deref(), Ok("one\n2\nthree\n"));
    }

    fn text() -> impl Strategy<Value = String> {
        proptest::collection::vec("[ab]?\n", 0..8).prop_map(|lines| lines.concat())
    }

    proptest! {
        #[test]
        fn a_side_without_a_change_leaves_the_other_and_sides_may_be_swapped(
            base in text(), ours in text(), theirs in text()
        ) {
            prop_assert_eq!(merged(&base, &ours, &base), Ok(ours.clone()));
            prop_assert_eq!(merged(&base, &base, &theirs), Ok(theirs.clone()));
            prop_assert_eq!(merged(&base, &ours, &ours), Ok(ours.clone()));
            prop_assert_eq!(merged(&base, &ours, &theirs), merged(&base, &theirs, &ours));
        }
    }
}
