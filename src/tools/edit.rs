//! Implements `edit`: replaces text in a file, or creates one.

mod comments;
mod text_calls;

use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

use super::common::{copied, memory, names};
use super::{
    Assignment, Call, CallFuture, Choice, Effects, ToolContext, ToolError, ToolOutput, TypedTool, check_names_file,
    whole,
};
use crate::base::cut;
use crate::change::Entry;
use crate::change::diff;
use crate::change::replace::{Failure, Replaced, Wanted, nearest, replace};
use crate::change::text::Decoded;
use crate::model::prompted::IDENTICAL;
use crate::path::RelPath;
use crate::policy::{Access, Grant};
use crate::tool_name::ToolId;
use crate::workspace::{FileView, WorkspaceError};

/// The tool.
pub struct Edit;

/// Lines shown around a change, or around the region nearest to what was not found.
const AROUND: usize = 4;
/// Lines and characters of a file that a failed edit shows whole, and of a region otherwise.
const SHOWN_LINES: usize = 80;
const SHOWN_CHARS: usize = 4_000;

impl TypedTool for Edit {
    type Args = EditCall;
    const ID: ToolId = ToolId::Edit;
    const EFFECTS: Effects = Effects::Edits;
    const DESCRIPTION: &'static str = "Replace old_string by new_string in a file. Copy old_string exactly from the \
         file, with enough lines around it to be the only such place.";

    fn parameters(&self) -> Value {
        json!({"type": "object", "properties": {
            "file_path": {"type": "string"},
            "old_string": {"type": "string", "description": "Empty to create a file"},
            "new_string": {"type": "string"},
            "expected_replacements": {"type": "integer", "minimum": 1, "description": "1 if not given"},
            "replace_all": {"type": "boolean"}
        }, "required": ["file_path", "old_string", "new_string"]})
    }

    fn call(&self, args: EditCall) -> Result<Box<dyn Call>, ToolError> {
        check_names_file(&args.path)?;
        Ok(Box::new(args))
    }
}

/// What the model gives.
#[derive(Deserialize)]
pub struct EditCall {
    #[serde(rename = "file_path")]
    path: PathBuf,
    #[serde(rename = "old_string")]
    old: String,
    #[serde(rename = "new_string")]
    new: String,
    #[serde(default, deserialize_with = "whole")]
    expected_replacements: Option<usize>,
    replace_all: Option<bool>,
}

impl Call for EditCall {
    fn accesses(&self) -> Vec<Access> {
        vec![Access::Read { path: self.path.clone() }, Access::Write { path: self.path.clone() }]
    }

    fn subject(&self, root: &Path) -> String {
        names::within(root, &self.path)
    }

    fn run<'a>(self: Box<Self>, grant: &'a Grant, cx: &'a ToolContext<'a>) -> CallFuture<'a> {
        Box::pin(async move {
            let shown = names::shown(cx, &self.path);
            let failed = |error: WorkspaceError| names::file_error(&error, &shown);
            if let Some(path) = grant.readable(&self.path) {
                names::check_not_hidden(cx, path, &shown)?;
                names::check_size(cx, &path.under(cx.workspace.root()), &shown)?;
            }
            let Some(view) = self.view(grant, cx, &shown)? else { return self.create(grant, cx, &shown) };
            let Some(before) = Decoded::from_bytes(&view.content) else {
                return Err(ToolError::failed(format!("Cannot edit binary file: {shown}")));
            };
            let replaced =
                self.replaced(&before.text, cx).map_err(|failure| match self.choice(&failure, &before.text, cx) {
                    Some(question) => ToolError::failed(question),
                    None => self.explain(&failure, &before.text, &shown),
                })?;
            if replaced.text == before.text {
                return Err(ToolError::failed(format!(
                    "No changes to apply. The new content is identical to the current content of file: {shown}"
                )));
            }
            if cx.text_tools
                && let Some(problem) = copied::copied(task(cx), &before.text, &replaced.text)
            {
                return Err(ToolError::failed(problem));
            }
            if cx.text_tools && comments::says_nothing_new(&before.text, &replaced.text, task(cx)) {
                return Err(ToolError::failed(format!(
                    "No edits made: {shown} has these words already. The task asks for a new comment: {}\nWrite it in your own words.",
                    task(cx)
                )));
            }
            if cx.text_tools && memory::must_confirm(cx.memory, &view.path, &before.text, &replaced.text) {
                return Err(ToolError::failed(format!(
                    "This edit would replace all lines of {shown}. Make an edit of the lines that the task is about: \
                     old_string is those lines only. If no line of the file is to stay, make the same call again."
                )));
            }
            let content =
                before.encode(&replaced.text).map_err(|error| ToolError::failed(format!("{shown}: {error}")))?;
            let hash = memory::hash(&content);
            let entry = Entry::File { content: content.into(), executable: view.executable };
            cx.workspace.write(grant, &self.path, entry).map_err(failed)?;
            memory::saw_hash(cx.memory, &view.path, hash);
            let diff = diff::of_text(&names::relative(&view.path), &before.text, &replaced.text);
            let fault = memory::fault(cx.memory, &view.path, Some(&before.text), &replaced.text);
            Ok(ToolOutput::diff(success(&replaced, &shown) + &fault, diff))
        })
    }
}

impl EditCall {
    fn wanted(&self) -> Wanted {
        match self.replace_all {
            Some(true) => Wanted::All,
            Some(false) | None => Wanted::Exactly(self.expected_replacements.unwrap_or(1)),
        }
    }

    fn replaced(&self, text: &str, cx: &ToolContext<'_>) -> Result<Replaced, Failure> {
        if !cx.text_tools {
            return replace(text, &self.old, &self.new, self.wanted());
        }
        if (self.wanted() == Wanted::All || text_calls::is_renaming(task(cx), &self.old, &self.new))
            && let Some(renamed) = text_calls::renamed(text, &self.old, &self.new)
        {
            return Ok(renamed);
        }
        let keeps = text_calls::keeps_what_goes(&self.path, (&self.old, &self.new), task(cx));
        let new = if keeps { "" } else { self.new.as_str() };
        if self.wanted() == Wanted::Exactly(1)
            && let Some(replaced) = text_calls::lines_of_a_kind(text, (&self.old, new), task(cx))
        {
            return Ok(replaced);
        }
        if let Some(lines) = text_calls::whole_lines(text, &self.old, new) {
            return replace(text, lines, "", Wanted::Exactly(1));
        }
        if let Some((old, new)) = comments::commented(&self.path, text, (&self.old, &self.new), task(cx)) {
            return replace(text, old, &new, self.wanted());
        }
        replace(text, &self.old, &self.new, self.wanted())
    }

    /// Returns the question which of several places is meant, for a model that would point at the wrong one, and notes the
    /// places for its answer.
    fn choice(&self, failure: &Failure, text: &str, cx: &ToolContext<'_>) -> Option<String> {
        let Failure::WrongCount { lines, .. } = failure else { return None };
        if !cx.text_tools || task(cx).is_empty() || names::has_private_key(text) {
            return None;
        }
        let places = text_calls::places(text, (&self.old, &self.new), lines);
        if places.is_empty() {
            return None;
        }
        let line = |number: usize| text.lines().nth(number - 1).unwrap_or_default().trim();
        let listed: String =
            places.iter().map(|(number, _, _)| format!("\nLine {number}: {}", line(*number))).collect();
        let numbers: Vec<String> = places.iter().map(|(number, _, _)| number.to_string()).collect();
        let question = format!(
            "\"{}\" is at {} places of {}.{listed}\nThe task: {}\nWhich line does it mean? Answer with its number only: \
             {} or all.",
            self.old.trim(),
            places.len(),
            names::one_line(&self.path),
            task(cx),
            numbers.join(", "),
        );
        *cx.memory.choice.lock().expect("nothing panics while it holds the choice") =
            Some(Choice { path: self.path.clone(), places, given: (self.old.clone(), self.new.clone()) });
        Some(question)
    }

    /// Reads the file; `None` if it is to be created.
    fn view(&self, grant: &Grant, cx: &ToolContext<'_>, shown: &str) -> Result<Option<FileView>, ToolError> {
        let failed = |message: String| Err(ToolError::failed(message));
        let view = match (cx.workspace.read(grant, &self.path), self.old.is_empty()) {
            (Err(WorkspaceError::NotFound(_)), true) => return Ok(None),
            (Ok(_), true) => {
                return failed(format!(
                    "File already exists, cannot create: {shown}. Give the text to replace as old_string, or use \
                     write_file to replace the whole file."
                ));
            }
            (Err(WorkspaceError::NotFound(_)), false) => {
                return failed(format!(
                    "File not found: {shown}. Cannot apply edit. Use an empty old_string to create a new file."
                ));
            }
            (Err(error), _) => return Err(names::file_error(&error, shown)),
            (Ok(view), false) => view,
        };
        if self.old == self.new {
            return failed(format!("{IDENTICAL} in file: {shown}"));
        }
        if memory::changed_on_disk(cx, &view.path) {
            return failed(format!(
                "File changed on disk since this run read it: {shown}. Read it again before you edit it."
            ));
        }
        Ok(Some(view))
    }

    fn create(&self, grant: &Grant, cx: &ToolContext<'_>, shown: &str) -> Result<ToolOutput, ToolError> {
        let failed = |error: WorkspaceError| names::file_error(&error, shown);
        let path: RelPath =
            grant.writable(&self.path).ok_or_else(|| failed(WorkspaceError::NotGranted(self.path.clone())))?.clone();
        if cx.text_tools
            && let Some(problem) = copied::copied(task(cx), "", &self.new)
        {
            return Err(ToolError::failed(problem));
        }
        cx.workspace.write(grant, &self.path, Entry::file(self.new.as_bytes())).map_err(failed)?;
        memory::saw(cx.memory, &path, self.new.as_bytes());
        let diff = diff::of_text(&names::relative(&path), "", &self.new);
        let fault = memory::fault(cx.memory, &path, None, &self.new);
        Ok(ToolOutput::diff(format!("Created new file: {shown} with provided content.{fault}"), diff))
    }

    /// Says why nothing was replaced, and shows the text that the next call can copy from.
    fn explain(&self, failure: &Failure, text: &str, shown: &str) -> ToolError {
        let message = match failure {
            Failure::WrongCount { stage, lines } => {
                const NAMED: usize = 20;
                let mut numbers: Vec<String> = lines.iter().take(NAMED).map(usize::to_string).collect();
                if lines.len() > NAMED {
                    numbers.push("...".to_owned());
                }
                let expected = match self.wanted() {
                    Wanted::Exactly(count) => count,
                    Wanted::All => 1,
                };
                let overlooking =
                    stage.overlooked().map(|what| format!(" The text differs in {what}.")).unwrap_or_default();
                format!(
                    "Failed to edit, expected {expected} occurrences but found {} (lines {}) for old_string in file: \
                     {shown}. No edits made.{overlooking} Include more of the lines around it in old_string, or set \
                     expected_replacements or replace_all.{}",
                    lines.len(),
                    numbers.join(", "),
                    self.places(lines, text)
                )
            }
            Failure::Unclear { line, why } => format!(
                "Failed to edit, old_string is like the text from line {line} of {shown}, but {why}. No edits made. {}",
                self.what_there_is(text)
            ),
            Failure::NotFound => format!(
                "Failed to edit, 0 occurrences found for old_string in {shown}. No edits made. {}",
                self.what_there_is(text)
            ),
        };
        ToolError::failed(message)
    }

    /// Shows the lines of a few places, those first that have nothing but the text: what the next call can copy.
    fn places(&self, lines: &[usize], text: &str) -> String {
        const SHOWN: usize = 5;
        if lines.len() > SHOWN || self.old.contains('\n') {
            return String::new();
        }
        let of_file: Vec<&str> = text.lines().collect();
        let mut shown: Vec<(usize, &str)> =
            lines.iter().filter_map(|number| Some((*number, *of_file.get(number.checked_sub(1)?)?))).collect();
        if shown.iter().all(|(_, line)| line.trim() == self.old.trim()) {
            return String::new();
        }
        let bare = |line: &str| line.trim_matches(|c: char| !c.is_alphanumeric()).len();
        shown.sort_by_key(|(number, line)| (bare(line), *number));
        let shown =
            shown.into_iter().map(|(number, line)| format!("\nline {number}: {}", &line[..cut::end(line, 200)]));
        shown.collect()
    }

    fn what_there_is(&self, text: &str) -> String {
        if text.is_empty() {
            return "The file is empty. Use write_file to give it a content.".to_owned();
        }
        let region = nearest(text, &self.old);
        let place = match region {
            Some(region) => format!(
                "The nearest text is in lines {}-{} ({}% similar).",
                region.first, region.last, region.similarity
            ),
            None => "Nothing in the file is like it.".to_owned(),
        };
        let lines = text.lines().count();
        if lines <= SHOWN_LINES && text.len() <= SHOWN_CHARS {
            return format!("{place} This is the whole file, copy old_string from it:\n{text}");
        }
        match region {
            Some(region) => {
                let first = region.first.saturating_sub(AROUND).max(1);
                let last = (region.last + AROUND).min(lines);
                let excerpt = excerpt(text, first, last);
                format!("{place} These are lines {first}-{last}, copy old_string from them:\n{excerpt}")
            }
            None => format!("{place} Use read_file to see it ({lines} lines)."),
        }
    }
}

/// Returns the task, if it is short enough to be said again.
fn task<'a>(cx: &ToolContext<'a>) -> &'a str {
    cx.memory.task.get().map(Assignment::short).unwrap_or_default()
}

/// Returns lines of a text, from 1, bounded.
fn excerpt(text: &str, first: usize, last: usize) -> String {
    let mut shown = String::new();
    for line in text.split_inclusive('\n').skip(first - 1).take((last + 1).saturating_sub(first).min(SHOWN_LINES)) {
        let left = SHOWN_CHARS.saturating_sub(shown.chars().count());
        match line.char_indices().nth(left) {
            Some((end, _)) => {
                shown.push_str(&line[..cut::end(line, end)]);
                shown.push_str("... [truncated]\n");
                break;
            }
            None => shown.push_str(line),
        }
    }
    shown
}

/// Says what was done and shows the changed regions as they are now.
fn success(replaced: &Replaced, shown: &str) -> String {
    let mut text = format!("Successfully modified file: {shown} ({} replacements).", replaced.places.len());
    if let Some(overlooked) = replaced.stage.overlooked() {
        text.push_str(&format!(" old_string differed from the file in {overlooked}."));
    }
    const REGIONS: usize = 5;
    let regions = regions(&replaced.text, &replaced.now);
    for (first, last) in regions.iter().take(REGIONS) {
        let excerpt = excerpt(&replaced.text, *first, *last);
        text.push_str(&format!("\nLines {first}-{last} are now:\n{}", excerpt.trim_end_matches(['\n', '\r'])));
    }
    if regions.len() > REGIONS {
        text.push_str(&format!("\n... and {} more places", regions.len() - REGIONS));
    }
    text
}

/// Returns first and last line around each place; regions that touch are one.
fn regions(text: &str, places: &[Range<usize>]) -> Vec<(usize, usize)> {
    let total = text.lines().count();
    let mut regions: Vec<(usize, usize)> = Vec::new();
    let (mut line, mut at) = (1, 0);
    for place in places {
        // Places are in order, so that each byte is counted once.
        line += text.as_bytes()[at..place.start].iter().filter(|byte| **byte == b'\n').count();
        at = place.start;
        let inside = text[place.clone()].trim_end_matches('\n').matches('\n').count();
        let (first, last) = (line.saturating_sub(AROUND).max(1), (line + inside + AROUND).min(total));
        match regions.last_mut() {
            Some((_, end)) if first <= *end + 1 => *end = last.max(*end),
            _ if last >= first => regions.push((first, last)),
            _ => {}
        }
    }
    regions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::tests::Project;

    fn edit(project: &Project, old: &str, new: &str) -> String {
        project.says("edit", json!({"file_path": "a.rs", "old_string": old, "new_string": new}))
    }

    fn numbered(count: usize) -> String {
        (1..=count).map(|n| format!("line {n}\n")).collect()
    }

    #[test]
    fn an_edit_is_staged_and_shows_its_region() {
        let project = Project::new(&[("a.rs", numbered(20).as_bytes())]);
        insta::assert_snapshot!(edit(&project, "line 10\n", "ten\nzehn\n"), @r"
        Successfully modified file: /p/a.rs (1 replacements).
        Lines 6-15 are now:
        line 6
        line 7
        line 8
        line 9
        ten
        zehn
        line 11
        line 12
        line 13
        line 14
        ");
        assert_eq!(std::fs::read_to_string(project.folder.path().join("a.rs")).unwrap(), numbered(20));
        assert!(
            edit(&project, "zehn\n", "")
                .starts_with("Successfully modified file: /p/a.rs (1 replacements).\nLines 7-15 are now:\n")
        );
    }

    #[test]
    fn an_edit_that_broke_the_file_says_where() {
        let project = Project::new(&[("a.rs", b"fn a() {\n    b();\n}\n")]);
        insta::assert_snapshot!(edit(&project, "b();\n}\n", "b();\n"), @r"
        Successfully modified file: /p/a.rs (1 replacements).
        Lines 1-2 are now:
        fn a() {
            b();
        This change broke the file, which parsed before: line 1: `{` is never closed. Correct it.
        ");
        assert!(!edit(&project, "b();\n", "c();\n").contains("parse"), "what is broken already is not told again");
    }

    #[test]
    fn an_empty_old_string_creates_and_never_overwrites() {
        let project = Project::new(&[]);
        assert_eq!(edit(&project, "", "x"), "Created new file: /p/a.rs with provided content.");
        assert_eq!(project.staged("a.rs").unwrap(), b"x");
        assert!(edit(&project, "", "y").starts_with("File already exists, cannot create: /p/a.rs. "));
    }

    #[test]
    fn what_cannot_be_edited_says_why() {
        let project = Project::new(&[("sub/", b""), ("bin", b"\0\x01\x02"), ("a.rs", b"a\n"), ("latin", b"gr\xfcn")]);
        let on = |path: &str, old: &str, new: &str| {
            project.says("edit", json!({"file_path": path, "old_string": old, "new_string": new}))
        };
        assert_eq!(
            on("none", "a", "b"),
            "File not found: /p/none. Cannot apply edit. Use an empty old_string to create a new file."
        );
        assert_eq!(on("sub", "a", "b"), "Path is a directory, not a file: /p/sub");
        assert_eq!(on("bin", "a", "b"), "Cannot edit binary file: /p/bin");
        assert_eq!(
            on("a.rs", "a", "a"),
            "No changes to apply. The old_string and new_string are identical in file: /p/a.rs"
        );
        assert_eq!(
            on("a.rs", "a\r\n", "a\n"),
            "No changes to apply. The new content is identical to the current content of file: /p/a.rs"
        );
        assert_eq!(on("latin", "gr", "→"), "/p/latin: the file is Latin-1 and cannot hold '→'");
        assert!(project.workspace.changes().is_empty());
    }

    #[test]
    fn a_wrong_count_names_the_lines() {
        let project = Project::new(&[("a.rs", b"a\nb\na\n")]);
        assert_eq!(
            edit(&project, "a", "x"),
            "Failed to edit, expected 1 occurrences but found 2 (lines 1, 3) for old_string in file: /p/a.rs. \
             No edits made. Include more of the lines around it in old_string, or set expected_replacements or replace_all."
        );
        let all = json!({"file_path": "a.rs", "old_string": "a", "new_string": "x", "replace_all": true});
        assert!(project.says("edit", all).starts_with("Successfully modified file: /p/a.rs (2 replacements)."));
        assert_eq!(project.staged("a.rs").unwrap(), b"x\nb\nx\n");
    }

    #[test]
    fn what_is_not_found_shows_the_text_to_copy_from() {
        let project = Project::new(&[("a.rs", b"fn a() {\n    one(x);\n}\n")]);
        insta::assert_snapshot!(edit(&project, "    two(x);", "    three(x);"), @r"
        Failed to edit, 0 occurrences found for old_string in /p/a.rs. No edits made. The nearest text is in lines 2-2 (50% similar). This is the whole file, copy old_string from it:
        fn a() {
            one(x);
        }
        ");
        project.on_disk("a.rs", numbered(200).as_bytes());
        insta::assert_snapshot!(edit(&project, "lime 150\nlime 151", "x"), @r"
        Failed to edit, 0 occurrences found for old_string in /p/a.rs. No edits made. The nearest text is in lines 150-151 (71% similar). These are lines 146-155, copy old_string from them:
        line 146
        line 147
        line 148
        line 149
        line 150
        line 151
        line 152
        line 153
        line 154
        line 155
        ");
        assert!(
            edit(&project, "@@@@@@@@", "x")
                .ends_with("Nothing in the file is like it. Use read_file to see it (200 lines).")
        );
    }

    #[test]
    fn a_correction_is_reported() {
        let project = Project::new(&[("a.rs", b"\xef\xbb\xbfa\r\nb\r\n")]);
        let said = edit(&project, "a\nb", "c\nd");
        assert!(said.starts_with("Successfully modified file: /p/a.rs (1 replacements). old_string differed from the file in line ends.\n"), "{said}");
        assert_eq!(project.staged("a.rs").unwrap(), b"\xef\xbb\xbfc\r\nd\r\n");
    }

    #[test]
    fn a_change_on_disk_since_it_was_read_is_an_error() {
        let project = Project::new(&[("a.rs", b"a\n")]);
        project.says("read_file", json!({"file_path": "a.rs"}));
        project.on_disk("a.rs", b"a\nother\n");
        let stale = "File changed on disk since this run read it: /p/a.rs. Read it again before you edit it.";
        assert_eq!(edit(&project, "a", "b"), stale);
        project.says("read_file", json!({"file_path": "a.rs"}));
        assert!(edit(&project, "a", "b").starts_with("Successfully"));
        assert!(edit(&project, "b", "c").starts_with("Successfully"), "our own change is none on the disk");
        project.on_disk("a.rs", b"a\nthird\n");
        assert_eq!(edit(&project, "c", "d"), stale);
    }

    #[test]
    fn places_that_touch_are_shown_as_one_region() {
        let text = numbered(40);
        let at = |n: usize| {
            let start = text.find(&format!("line {n}\n")).unwrap();
            start..start + 4
        };
        assert_eq!(regions(&text, &[at(1), at(8), at(30), at(39)]), [(1, 12), (26, 40)]);
        assert_eq!(regions("", std::slice::from_ref(&(0..0))), []);
    }
}
