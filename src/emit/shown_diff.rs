//! Shows a patch at a terminal: one bold line a file, numbered hunks, line numbers, changed words inside changed lines.

use std::collections::BTreeMap;

use similar::{Algorithm, ChangeTag, DiffTag, TextDiff};

use super::appearance::{Appearance, BOLD, DIM, GREEN, RED, YELLOW};
use super::safe::{escape, one_line};
use super::words::{self, count};
use crate::change::diff::LineDiff;
use crate::change::patch_reader::{Body, FilePatch, Hunk, Patch};
use crate::change::selection::is_divided;
use crate::event::FileReport;

/// Lines and files after which the rest is only counted.
const MOST_LINES: usize = 400;
const MOST_FILES: usize = 40;

/// Lines of a block, and characters of a line, up to which changed words are looked for.
const WORDS_LINES: usize = 64;
const WORDS_CHARACTERS: usize = 1000;

/// Shows a patch; `files` says more about its files, `whole` is the command that shows all of a long one. Text that is
/// not a patch is shown as it is.
pub(super) fn shown_diff(patch: &[u8], files: &[FileReport], whole: Option<&str>, look: &Appearance) -> String {
    let Ok(patch) = Patch::parse(patch) else { return escape(&String::from_utf8_lossy(patch)).into_owned() };
    let reports: BTreeMap<&str, &FileReport> = files.iter().map(|file| (file.path.as_str(), file)).collect();
    let mut shown = Shown { out: String::new(), lines: 0, hunk: 0, look };
    let (mut left_hunks, mut left_files) = (0, 0);
    for (at, file) in patch.files.iter().enumerate() {
        let hunks = hunks(file);
        if at >= MOST_FILES || shown.lines >= MOST_LINES {
            left_hunks += hunks.len().max(1) as u64;
            left_files += 1;
            continue;
        }
        left_hunks += shown.file(file, hunks, &reports);
        left_files += u64::from(shown.lines >= MOST_LINES && left_hunks > 0);
    }
    if left_hunks > 0 {
        let more = count(left_hunks, "more hunk");
        let text = format!("{} {more} in {}", look.ellipsis(), count(left_files.max(1), "file"));
        let command = whole.map(|command| format!(": {}", look.paint(BOLD, command)));
        shown.out.push_str(&format!("{text}{}\n", command.unwrap_or_default()));
    }
    shown.out
}

fn hunks(file: &FilePatch) -> &[Hunk] {
    match &file.body {
        Body::Text(hunks) => hunks,
        Body::Same | Body::Literal(_) | Body::Delta(_) => &[],
    }
}

struct Shown<'a> {
    out: String,
    lines: usize,
    /// Hunks so far, over the whole patch: the numbers that `qwen apply --hunks` takes.
    hunk: u64,
    look: &'a Appearance,
}

impl Shown<'_> {
    /// Shows a file; returns how many of its hunks are left out.
    fn file(&mut self, file: &FilePatch, hunks: &[Hunk], reports: &BTreeMap<&str, &FileReport>) -> u64 {
        if !self.out.is_empty() {
            self.out.push('\n');
        }
        let Some(path) = file.new.as_ref().or(file.old.as_ref()).map(|path| path.to_string_lossy()) else { return 0 };
        let report = reports.get(path.as_str()).copied();
        let mut head = self.look.paint(BOLD, &one_line(&path));
        for fact in facts(file, report, self.look) {
            head.push_str(&format!("  {fact}"));
        }
        self.line(&head);
        if hunks.is_empty() {
            self.hunk += 1;
            let number = format!("[{}]", self.hunk);
            let what = if matches!(file.body, Body::Same) { "no line changes" } else { "binary" };
            self.line(&format!("{} {what}", self.look.paint(DIM, &number)));
        }
        for (at, hunk) in hunks.iter().enumerate() {
            if self.lines >= MOST_LINES {
                return (hunks.len() - at) as u64;
            }
            // An undivided file has one number, whatever hunks it has.
            self.hunk += u64::from(at == 0 || is_divided(file));
            self.hunk(hunk);
        }
        0
    }

    fn hunk(&mut self, hunk: &Hunk) {
        let (start, length) = match hunk.new.len() {
            0 => (hunk.start, hunk.old.len()),
            length => (hunk.new_start, length),
        };
        let range =
            if length == 1 { format!("line {}", start + 1) } else { format!("lines {}-{}", start + 1, start + length) };
        let number = format!("[{}]", self.hunk);
        self.line(&format!("{} {range}", self.look.paint(DIM, &number)));
        let texts = |lines: &[Vec<u8>]| -> Vec<String> {
            lines.iter().map(|line| escape(&String::from_utf8_lossy(line)).into_owned()).collect()
        };
        let (old, new) = (texts(&hunk.old), texts(&hunk.new));
        let (old, new): (Vec<&str>, Vec<&str>) =
            (old.iter().map(String::as_str).collect(), new.iter().map(String::as_str).collect());
        let diff = TextDiff::configure().algorithm(Algorithm::Patience).diff_slices(&old, &new);
        for operation in diff.ops() {
            let (was, is) = (&old[operation.old_range()], &new[operation.new_range()]);
            if operation.tag() == DiffTag::Replace && are_small(was) && are_small(is) && !only_indented(was, is) {
                for change in diff.iter_inline_changes_deadline(operation, None) {
                    let pieces: Vec<(bool, String)> =
                        change.iter_strings_lossy().map(|(marked, text)| (marked, text.into_owned())).collect();
                    let at = change.old_index().map(|at| hunk.start + at).filter(|_| change.tag() == ChangeTag::Delete);
                    let at = at.or(change.new_index().map(|at| hunk.new_start + at)).unwrap_or_default();
                    self.pieces(change.tag(), at + 1, &pieces);
                }
                continue;
            }
            for change in diff.iter_changes(operation) {
                let at = match (change.tag(), change.old_index(), change.new_index()) {
                    (ChangeTag::Delete, Some(at), _) => hunk.start + at,
                    (_, _, at) => hunk.new_start + at.unwrap_or_default(),
                };
                self.pieces(change.tag(), at + 1, &[(false, change.value().to_owned())]);
            }
        }
    }

    /// Writes a line of a hunk: its number, its sign, and its text with the changed words inverse.
    fn pieces(&mut self, tag: ChangeTag, number: usize, pieces: &[(bool, String)]) {
        let (sign, style) = match tag {
            ChangeTag::Equal => (" ", anstyle::Style::new()),
            ChangeTag::Delete => ("-", RED),
            ChangeTag::Insert => ("+", GREEN),
        };
        let ends = pieces.last().is_some_and(|(_, text)| text.ends_with('\n'));
        let mut line = format!("{} {}", self.look.paint(DIM, &format!("{number:>4}")), self.look.paint(style, sign));
        for (marked, text) in pieces {
            let style = if *marked { style.invert() } else { style };
            line.push_str(&self.look.paint(style, text.trim_end_matches('\n')));
        }
        self.line(&line);
        if !ends {
            let note = self.look.paint(DIM, "\\ no newline at the end of the file");
            self.line(&format!("     {note}"));
        }
    }

    fn line(&mut self, line: &str) {
        self.out.push_str(line);
        self.out.push('\n');
        self.lines += 1;
    }
}

/// Tells whether changed words are looked for in these lines.
pub(super) fn are_small(lines: &[&str]) -> bool {
    lines.len() <= WORDS_LINES && lines.iter().all(|line| line.chars().nth(WORDS_CHARACTERS).is_none())
}

/// Tells whether lines differ only in the blanks that they begin with.
pub(super) fn only_indented(old: &[&str], new: &[&str]) -> bool {
    old.len() == new.len() && old.iter().zip(new).all(|(old, new)| old.trim_start() == new.trim_start())
}

/// Says what a file's line names beside its path.
fn facts(file: &FilePatch, report: Option<&FileReport>, look: &Appearance) -> Vec<String> {
    let mut facts = Vec::new();
    let changed = |hunk: &Hunk| LineDiff::new(&hunk.old.concat(), &hunk.new.concat()).counts();
    let (added, removed) = match report {
        Some(report) => (report.added, report.removed),
        None => hunks(file).iter().map(changed).fold((0, 0), |(a, r), of| (a + of.added, r + of.removed)),
    };
    if added > 0 || removed > 0 {
        facts.push(look.counted(&words::lines(added, removed)));
    }
    match (&file.old, &file.new) {
        (None, Some(_)) => facts.push("new".to_owned()),
        (Some(_), None) => facts.push("deleted".to_owned()),
        (Some(old), Some(new)) if old != new => {
            let word = if file.keeps_old { "copied" } else { "renamed" };
            facts.push(format!("{word} from {}", one_line(&old.to_string_lossy())));
        }
        _ => {}
    }
    if matches!(file.body, Body::Literal(_) | Body::Delta(_)) {
        facts.push("binary".to_owned());
    }
    let short = |mode: &str| mode.get(3..).unwrap_or(mode).to_owned();
    if let (Some(old), Some(new)) = (&file.old_mode, &file.new_mode)
        && old != new
    {
        facts.push(format!("mode {} -> {}", short(old), short(new)));
    }
    if report.is_some_and(|report| report.executes_later) {
        facts.push(look.paint(YELLOW, "runs by itself"));
    }
    facts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::emit::safe::is_active;

    const PLAIN: Appearance = Appearance { width: 80, ascii: false, colour: false };
    const COLOUR: Appearance = Appearance { width: 80, ascii: false, colour: true };

    fn patch(old: &str, new: &str) -> Vec<u8> {
        let mut text = b"diff --git a/f b/f\n--- a/f\n+++ b/f\n".to_vec();
        LineDiff::new(old.as_bytes(), new.as_bytes()).write_hunks(3, &mut text);
        text
    }

    #[test]
    fn a_change_reads_without_colours() {
        let old = "1\n2\n3\n4\nfn delay(attempt)\n6\n";
        insta::assert_snapshot!(shown_diff(&patch(old, &old.replace("(attempt)", "(attempt, longest)")), &[], None, &PLAIN), @r"
        f  +1 -1
        [1] lines 2-6
           2  2
           3  3
           4  4
           5 -fn delay(attempt)
           5 +fn delay(attempt, longest)
           6  6
        ");
    }

    #[test]
    fn changed_words_are_inverse_and_blanks_alone_are_not() {
        let shown = shown_diff(&patch("let delay = 1;\n", "let delay = 2;\n"), &[], None, &COLOUR);
        assert!(shown.contains("\u{1b}[7m"), "{shown:?}");
        let shown = shown_diff(&patch("a();\n", "  a();\n"), &[], None, &COLOUR);
        assert!(!shown.contains("\u{1b}[7m"), "{shown:?}");
    }

    #[test]
    fn a_long_patch_is_cut_and_the_rest_is_counted() {
        let old: String = (0..9000).map(|n| format!("{n}\n")).collect();
        let new: String = (0..9000).map(|n| if n % 20 == 0 { format!("{n}!\n") } else { format!("{n}\n") }).collect();
        let shown = shown_diff(&patch(&old, &new), &[], None, &PLAIN);
        assert!(shown.lines().count() < 420);
        assert!(shown.ends_with("more hunks in 1 file\n"), "{}", shown.lines().last().unwrap());
        let shown = shown_diff(&patch(&old, &new), &[], Some("qwen report"), &PLAIN);
        assert!(shown.ends_with("more hunks in 1 file: qwen report\n"), "{}", shown.lines().last().unwrap());
    }

    fn without_styles(text: &str) -> String {
        regex::Regex::new("\u{1b}\\[[0-9;]*m").unwrap().replace_all(text, "").into_owned()
    }

    proptest! {
        #[test]
        fn each_changed_line_is_shown_once_and_nothing_acts(
            old in proptest::collection::vec("[abc\u{1b}\r ]{0,4}", 0..30),
            new in proptest::collection::vec("[abc\u{1b}\r ]{0,4}", 0..30),
        ) {
            let text = |lines: &[String]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
            let (old, new) = (text(&old), text(&new));
            prop_assume!(old != new);
            let (added, removed) = {
                let counts = LineDiff::new(old.as_bytes(), new.as_bytes()).counts();
                (counts.added as usize, counts.removed as usize)
            };
            let shown = without_styles(&shown_diff(&patch(&old, &new), &[], None, &COLOUR));
            prop_assert!(!shown.contains(is_active), "{shown:?}");
            let of = |sign: char| shown.lines().filter(|line| line.chars().nth(5) == Some(sign)).count();
            // Within a hunk the same lines may be paired in another way, never more of one sign than of the other.
            prop_assert_eq!(of('+') as i64 - of('-') as i64, added as i64 - removed as i64);
        }
    }
}
