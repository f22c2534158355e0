//! Decides which lines of a pull request a comment can be at: those of GitHub's own patches.

/// What GitHub shows of a file: the lines of its new side, hunk by hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    /// The file, relative to the repository.
    pub path: String,
    /// First and last line of each hunk on the new side.
    hunks: Vec<(u64, u64)>,
}

impl Patch {
    /// Reads a patch as `GET pulls/N/files` gives it: without a header, empty where the file is large or binary.
    pub fn read(path: String, patch: &str) -> Patch {
        let hunk = |line: &str| {
            let range = line.strip_prefix("@@ -")?.split_once(" +")?.1.split(' ').next()?;
            let (start, count) = range.split_once(',').unwrap_or((range, "1"));
            let (start, count) = (start.parse::<u64>().ok()?, count.parse::<u64>().ok()?);
            (start > 0 && count > 0).then(|| (start, start.saturating_add(count - 1)))
        };
        // Lines of a hunk begin with a mark; a header has none.
        Patch { path, hunks: patch.lines().filter_map(hunk).collect() }
    }

    /// Tells whether GitHub takes a comment at these lines: they are in one hunk.
    pub fn takes(&self, start: u64, end: u64) -> bool {
        start <= end && self.hunks.iter().any(|(first, last)| *first <= start && end <= *last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_is_at_lines_of_one_hunk() {
        let text =
            "@@ -1,3 +1,4 @@ fn a()\n a\n+@@ -1 +900,3 @@\n b\n c\n@@ -20 +30 @@\n-x\n+y\n@@ -40,2 +50,0 @@\n-a\n-b";
        let patch = Patch::read("a".into(), text);
        for (start, end, takes) in [
            (1, 4, true),
            (1, 5, false),
            (4, 4, true),
            (4, 1, false),
            (30, 30, true),
            (4, 30, false),
            (50, 50, false),
            (49, 50, false),
            (900, 901, false),
            (0, 1, false),
        ] {
            assert_eq!(patch.takes(start, end), takes, "{start}-{end}");
        }
        assert!(!Patch::read("large".into(), "").takes(1, 1));
    }
}
