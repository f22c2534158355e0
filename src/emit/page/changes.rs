//! Shows the changes: one foldable section per file, with hunks that can be chosen and their removed and added lines.

use std::collections::BTreeMap;
use std::ops::Range;

use maud::{Markup, html};

use super::code::{Lines, Side, mark_words};
use super::colour::Colours;
use super::findings::{Placed, here};
use super::parts::{counts, path};
use crate::change::patch_parser::Places;
use crate::change::patch_reader::{Body, ChangedLines, FilePatch, Hunk, Patch};
use crate::change::selection::is_divided;
use crate::emit::safe::{escape, one_line};
use crate::emit::words::count;
use crate::event::FileReport;

/// Lines and bytes of a patch that get markup; each further file is plain text, and closed.
const MOST_LINES: usize = 20_000;
const MOST_BYTES: usize = 4 << 20;

/// Characters of the text after the numbers of a hunk.
const CONTEXT: usize = 120;

/// The changes that a page shows.
pub(super) struct Changes {
    /// The patch as it is in the result.
    text: Vec<u8>,
    /// What it does.
    patch: Patch,
    places: Vec<Places>,
}

/// A file of the changes, for the list at the side and for the file's own head.
pub(super) struct Head<'a> {
    pub(super) path: String,
    pub(super) added: u64,
    pub(super) removed: u64,
    report: Option<&'a FileReport>,
}

impl Changes {
    /// Reads a patch; `None` if it cannot be read, or is empty.
    pub(super) fn read(text: Vec<u8>) -> Option<Changes> {
        let (patch, places) = Patch::parse_with_places(&text).ok()?;
        (!patch.files.is_empty()).then_some(Changes { text, patch, places })
    }

    /// Returns the files.
    pub(super) fn heads<'a>(&self, reports: &'a [FileReport]) -> Vec<Head<'a>> {
        let by_path: BTreeMap<&str, &FileReport> = reports.iter().map(|file| (file.path.as_str(), file)).collect();
        let head = |file: &FilePatch| {
            let path = file.new.as_ref().or(file.old.as_ref()).map(|path| path.to_string_lossy()).unwrap_or_default();
            let runs = || hunks(file).iter().flat_map(|hunk| &hunk.runs);
            let report = by_path.get(path.as_str()).copied();
            Head {
                added: runs().map(|run| run.new.len() as u64).sum(),
                removed: runs().map(|run| run.old.len() as u64).sum(),
                path,
                report,
            }
        };
        self.patch.files.iter().map(head).collect()
    }

    /// Shows the files.
    pub(super) fn shown(&self, heads: &[Head<'_>], findings: &[Placed], colours: &mut Colours) -> Markup {
        let mut shown = Shown { changes: self, findings, colours, hunk: 0, lines: 0, bytes: 0 };
        let files: Vec<Markup> = heads.iter().enumerate().map(|(at, head)| shown.file(at, head)).collect();
        html! { @for file in &files { (file) } }
    }
}

fn hunks(file: &FilePatch) -> &[Hunk] {
    match &file.body {
        Body::Text(hunks) => hunks,
        Body::Same | Body::Literal(_) | Body::Delta(_) => &[],
    }
}

struct Shown<'a> {
    changes: &'a Changes,
    findings: &'a [Placed],
    colours: &'a mut Colours,
    /// The number of the last hunk: the one that `qwen apply --hunks` takes.
    hunk: usize,
    lines: usize,
    bytes: usize,
}

impl Shown<'_> {
    fn file(&mut self, at: usize, head: &Head<'_>) -> Markup {
        let (file, place) = (&self.changes.patch.files[at], &self.changes.places[at]);
        self.lines += hunks(file).iter().map(|hunk| hunk.old.len().max(hunk.new.len())).sum::<usize>();
        self.bytes += place.whole.len();
        let is_plain = self.lines > MOST_LINES || self.bytes > MOST_BYTES;
        let divided = is_divided(file) && !place.hunks.is_empty();
        let end = if divided { place.hunks[0].start } else { place.whole.start };
        let parts: Vec<Markup> = match divided {
            true => hunks(file)
                .iter()
                .zip(&place.hunks)
                .map(|(hunk, place)| self.hunk(&head.path, std::slice::from_ref(hunk), place.clone(), is_plain, true))
                .collect(),
            false => vec![self.hunk(&head.path, hunks(file), place.whole.clone(), is_plain, false)],
        };
        let widest = hunks(file).iter().map(|hunk| (hunk.start + hunk.old.len()).max(hunk.new_start + hunk.new.len()));
        let is_wide = widest.max().unwrap_or(0) >= 10_000;
        html! {
            details.file id=(format!("f{}", at + 1)) open[!is_plain] data-head=(format!("{} {end}", place.whole.start)) {
                summary {
                    (path(&head.path))
                    @for (class, fact) in facts(file, head.report) { span class=(class) { (fact) } }
                    (counts(head.added, head.removed))
                }
                div class=(if is_wide { "diff wide" } else { "diff" }) { @for part in &parts { (part) } }
            }
        }
    }

    /// Shows what has one number: a hunk, or all of a file that is not divided.
    fn hunk(&mut self, path: &str, hunks: &[Hunk], place: Range<usize>, is_plain: bool, divided: bool) -> Markup {
        self.hunk += 1;
        let number = self.hunk;
        let text = &self.changes.text[place.clone()];
        let body = match hunks {
            [] => {
                html! { div.still { (if text.windows(16).any(|part| part == b"GIT binary patch") { "binary: its bytes are not shown" } else { "no line changes" }) } }
            }
            _ if is_plain => html! { pre.plain { (escape(&String::from_utf8_lossy(after_header(text)))) } },
            hunks => {
                let parts: Vec<Markup> =
                    hunks.iter().map(|hunk| self.blocks(path, hunk, divided.then_some(number))).collect();
                html! { @for part in &parts { (part) } }
            }
        };
        html! {
            div.hunk id=(format!("h{number}")) data-at=(format!("{} {}", place.start, place.end)) {
                div.hh {
                    label.js-only { input type="checkbox" checked value=(number) aria-label=(format!("Take hunk {number}")); }
                    b { "Hunk " (number) }
                    @if let Some(range) = range(hunks) { span { (range) } }
                    @if divided { span.ctx { (context(text)) } }
                }
                (body)
            }
        }
    }

    /// Shows the lines of a hunk, each run of changed lines and each run of context as a block.
    fn blocks(&mut self, path: &str, hunk: &Hunk, number: Option<usize>) -> Markup {
        let (mut old, mut new) = (Lines::new(path, &hunk.old, self.colours), Lines::new(path, &hunk.new, self.colours));
        for run in &hunk.runs {
            mark_words(&mut old, run.old.clone(), &mut new, run.new.clone());
        }
        let findings: Vec<&Placed> = self.findings.iter().filter(|found| found.path == path).collect();
        let block = Block { hunk, old: &old, new: &new, findings: &findings };
        let mut blocks = Vec::new();
        let (mut old_at, mut new_at) = (0, 0);
        let is_parted = hunk.runs.len() > 1;
        for (at, run) in hunk.runs.iter().enumerate() {
            blocks.extend(block.context(old_at..run.old.start, new_at));
            blocks.push(block.changed(run, number.filter(|_| is_parted).map(|number| format!("{number}.{}", at + 1))));
            (old_at, new_at) = (run.old.end, run.new.end);
        }
        blocks.extend(block.context(old_at..hunk.old.len(), new_at));
        html! { @for block in &blocks { (block) } }
    }
}

/// A hunk whose lines are ready.
struct Block<'a> {
    hunk: &'a Hunk,
    old: &'a Lines,
    new: &'a Lines,
    findings: &'a [&'a Placed],
}

impl Block<'_> {
    /// Shows lines that stay, once for each side; a block ends where a finding stands below a line.
    fn context(&self, old: Range<usize>, new: usize) -> Vec<Markup> {
        let mut blocks = Vec::new();
        let mut from = old.start;
        for at in old.clone() {
            let number = self.hunk.new_start + new + (at - old.start) + 1;
            let found = self.at(number);
            if at + 1 < old.end && found.is_empty() {
                continue;
            }
            let lines: Vec<Markup> = (from..=at)
                .map(|at| {
                    let new = new + (at - old.start);
                    self.new.line(new, Side::Both, Some(self.hunk.start + at + 1), Some(self.hunk.new_start + new + 1))
                })
                .collect();
            blocks.push(html! {
                div.b {
                    div.l { @for line in &lines { (line) } }
                    div.r aria-hidden="true" { @for line in &lines { (line) } }
                }
                @for found in found { (here(found)) }
            });
            from = at + 1;
        }
        blocks
    }

    /// Shows lines that change together; `part` is the name under which they can be chosen alone.
    fn changed(&self, run: &ChangedLines, part: Option<String>) -> Markup {
        html! {
            div.b {
                @if let Some(part) = part {
                    label.part.js-only { input type="checkbox" checked value=(part) aria-label=(format!("Take part {part}")); }
                }
                @if !run.old.is_empty() {
                    div.d { @for at in run.old.clone() { (self.old.line(at, Side::Old, Some(self.hunk.start + at + 1), None)) } }
                }
                @if !run.new.is_empty() {
                    div.a {
                        @for at in run.new.clone() {
                            (self.new.line(at, Side::New, None, Some(self.hunk.new_start + at + 1)))
                            @for found in self.at(self.hunk.new_start + at + 1) { (here(found)) }
                        }
                    }
                }
            }
        }
    }

    fn at(&self, line: usize) -> Vec<&Placed> {
        self.findings.iter().copied().filter(|found| found.line == line).collect()
    }
}

/// Returns what follows the first line, if that is the header of a hunk.
fn after_header(text: &[u8]) -> &[u8] {
    match text.iter().position(|byte| *byte == b'\n') {
        Some(end) if text.starts_with(b"@@ ") => &text[end + 1..],
        _ => text,
    }
}

/// Returns what git says after the numbers of a hunk: where in the file it is.
fn context(text: &[u8]) -> String {
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(&line[..line.len().min(4 * CONTEXT)]);
    let after = line.get(2..).and_then(|rest| rest.split_once("@@")).map(|(_, after)| after.trim().to_owned());
    crate::emit::safe::one_line_of(&after.unwrap_or_default(), CONTEXT)
}

/// Says which lines these are: after the change, or where nothing is left, before it.
fn range(hunks: &[Hunk]) -> Option<String> {
    let span = |hunk: &Hunk| match hunk.new.len() {
        0 => (hunk.start + 1, hunk.start + hunk.old.len()),
        length => (hunk.new_start + 1, hunk.new_start + length),
    };
    let (first, last) = (span(hunks.first()?).0, span(hunks.last()?).1);
    Some(if first == last { format!("line {first}") } else { format!("lines {first}–{last}") })
}

/// Returns what a file's head says beside its path, with the class of each.
fn facts(file: &FilePatch, report: Option<&FileReport>) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    match (&file.old, &file.new) {
        (None, Some(_)) => facts.push(("pill ok", "new".to_owned())),
        (Some(_), None) => facts.push(("pill no", "deleted".to_owned())),
        (Some(old), Some(new)) if old != new => {
            let word = if file.keeps_old { "copied" } else { "renamed" };
            facts.push(("pill note", format!("{word} from {}", one_line(&old.to_string_lossy()))));
        }
        _ => {}
    }
    if matches!(file.body, Body::Literal(_) | Body::Delta(_)) {
        facts.push(("pill note", "binary".to_owned()));
    }
    let modes = [&file.old_mode, &file.new_mode];
    if modes.iter().any(|mode| mode.as_deref() == Some("120000")) {
        facts.push(("pill note", "link".to_owned()));
    }
    let short = |mode: &str| mode.get(3..).unwrap_or(mode).to_owned();
    match modes {
        [Some(old), Some(new)] if old != new => {
            facts.push(("pill warn", format!("mode {} → {}", one_line(&short(old)), one_line(&short(new)))));
        }
        [None, Some(new)] if new == "100755" => facts.push(("pill warn", "executable".to_owned())),
        _ => {}
    }
    if report.is_some_and(|report| report.executes_later) {
        facts.push(("pill warn", "runs by itself".to_owned()));
    }
    facts
}

/// Says how many hunks the changes have.
pub(super) fn hunk_count(changes: &Changes) -> String {
    count(crate::change::selection::numbered(&changes.patch).len() as u64, "hunk")
}
