//! Implements `write_file`: writes a whole file, new or overwritten.

mod doubt;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

use super::common::{copied, memory, names};
use super::{Call, CallFuture, Display, Effects, ToolContext, ToolError, ToolOutput, TypedTool, check_names_file};
use crate::base::cut;
use crate::change::Entry;
use crate::change::diff;
use crate::change::loss::lost_marks;
use crate::change::replace::unfenced;
use crate::change::text::{Decoded, LineEnd};
use crate::model::{Part, prompted::UNCHANGED};
use crate::path::RelPath;
use crate::policy::{Access, Grant};
use crate::tool_name::ToolId;
use crate::workspace::WorkspaceError;

/// Characters of a refused content that its message quotes.
const QUOTED: usize = 40;

/// The tool.
pub struct WriteFile;

impl TypedTool for WriteFile {
    type Args = WriteCall;
    const ID: ToolId = ToolId::WriteFile;
    const EFFECTS: Effects = Effects::Edits;
    const DESCRIPTION: &'static str = "Create a file, or replace all of it. Use edit to change a part.";

    fn parameters(&self) -> Value {
        json!({"type": "object", "properties": {
            "file_path": {"type": "string"},
            "content": {"type": "string", "description": "The whole new text"}
        }, "required": ["file_path", "content"]})
    }

    fn call(&self, args: WriteCall) -> Result<Box<dyn Call>, ToolError> {
        check_names_file(&args.path)?;
        Ok(Box::new(args))
    }
}

/// What the model gives.
#[derive(Deserialize)]
pub struct WriteCall {
    #[serde(rename = "file_path")]
    path: PathBuf,
    content: String,
}

impl Call for WriteCall {
    fn accesses(&self) -> Vec<Access> {
        vec![Access::Write { path: self.path.clone() }]
    }

    fn subject(&self, root: &Path) -> String {
        names::within(root, &self.path)
    }

    fn run<'a>(self: Box<Self>, grant: &'a Grant, cx: &'a ToolContext<'a>) -> CallFuture<'a> {
        Box::pin(async move {
            let shown = names::shown(cx, &self.path);
            let failed = |error: WorkspaceError| names::file_error(&error, &shown);
            let not_granted = || failed(WorkspaceError::NotGranted(self.path.clone()));
            let path = grant.writable(&self.path).ok_or_else(not_granted)?.clone();
            names::check_not_hidden(cx, &path, &shown)?;
            names::check_size(cx, &path.under(cx.workspace.root()), &shown)?;
            let before = cx.workspace.entry(&path).map_err(failed)?;
            let (existing, executable) = match &before {
                Entry::File { content, executable } => (Some(content), *executable),
                Entry::Absent => (None, false),
                Entry::Link { .. } => return Err(failed(WorkspaceError::NotAFile(self.path.clone()))),
            };
            if let Some(content) = existing {
                cx.workspace.notice(content, false);
            }
            let old = existing.and_then(|content| Decoded::from_bytes(content));
            let file = old.clone().unwrap_or_else(Decoded::new_file);
            let given = given(cx.text_tools, &self, old.as_ref());
            // A file without a line end says nothing about how it would end its lines.
            let text = match old.as_ref().filter(|old| old.text.contains('\n')) {
                Some(old) => as_before(&old.text, &given),
                None => given.into_owned(),
            };
            let content = file.encode(&text).map_err(|error| ToolError::failed(format!("{shown}: {error}")))?;
            if let Some(question) = self.question(cx, &path, (existing.is_some(), old.as_ref(), &text)) {
                return Err(ToolError::failed(question));
            }
            // Lines are shown only of what the model could have read.
            let unseen = !memory::has_seen(cx.memory, &path) && grant.read_filter(cx.workspace.root().into())(&path);
            let hash = memory::hash(&content);
            let content = Entry::File { content: content.into(), executable };
            cx.workspace.write(grant, &self.path, content).map_err(failed)?;
            memory::saw_hash(cx.memory, &path, hash);
            if old.is_some() {
                memory::rewrote(cx.memory, &path);
            }
            let fault = memory::fault(cx.memory, &path, old.as_ref().map(|old| old.text.as_str()), &text);
            let llm = match (&old, existing) {
                (_, Some(before)) if memory::hash(before) == hash => {
                    format!("Successfully overwrote file: {shown}\n{UNCHANGED}")
                }
                (_, None) => format!("Successfully created and wrote to new file: {shown}"),
                (Some(old), Some(_)) => {
                    format!("Successfully overwrote file: {shown}{}", gone(&shown, (&old.text, &text), unseen))
                }
                (None, Some(_)) => format!("Successfully overwrote file: {shown}"),
            };
            let display = match (existing, &old) {
                (Some(_), None) => Display::Markdown(format!("Overwrote the binary file {shown}")),
                _ => Display::Diff(diff::of_text(&names::relative(&path), &file.text, &text)),
            };
            Ok(ToolOutput { llm_content: vec![Part::Text(llm + &fault)], display, command: None })
        })
    }
}

impl WriteCall {
    /// Returns what a model that writes its calls as text is asked, once for a file, before this is written.
    fn question(
        &self,
        cx: &ToolContext<'_>,
        path: &RelPath,
        (exists, old, text): (bool, Option<&Decoded>, &str),
    ) -> Option<String> {
        if !cx.text_tools {
            return None;
        }
        if old.is_some_and(|old| memory::must_confirm(cx.memory, path, &old.text, text)) {
            let given: String = self.content.trim().chars().take(QUOTED).collect();
            let shown = names::shown(cx, &self.path);
            return Some(format!(
                "\"{given}\" alone is not the whole new content of {shown}. write_file takes all lines of the file, \
                 those that stay as well. If none of them stays, make the same call again."
            ));
        }
        let task = cx.memory.task.get()?;
        let before = old.map(|old| old.text.as_str()).unwrap_or_default();
        if let Some(problem) = copied::copied(task.short(), before, text) {
            return Some(problem);
        }
        if exists {
            return None;
        }
        let is_there = |named: &Path| RelPath::new(named).is_some_and(|named| !cx.workspace.is_free(&named));
        let doubt = doubt::doubt(task, path.as_path(), text, &is_there)?;
        memory::is_first_question(cx.memory, path).then_some(doubt)
    }
}

/// Returns the content of a call, without what a small model copies around it: the Markdown fence around a whole file,
/// unless the file is one that may begin so, and the lines between which the file was shown.
fn given<'t>(text_tools: bool, call: &'t WriteCall, before: Option<&Decoded>) -> Cow<'t, str> {
    let WriteCall { path, content } = call;
    if !text_tools {
        return Cow::Borrowed(content);
    }
    let is_fenced = |text: &str| text.trim_start().starts_with(['`', '~']);
    let is_markdown = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("md"));
    let info = content.trim_start().trim_start_matches(['`', '~']).lines().next().unwrap_or_default();
    let may_begin_so = before.is_some_and(|before| is_fenced(&before.text))
        || (is_markdown && !["", "md", "markdown"].contains(&info));
    match unfenced(content).filter(|_| !may_begin_so) {
        Some(inner) => Cow::Owned(format!("{inner}\n")),
        None => Cow::Borrowed(before.map_or(content, |before| without_marks(content, &before.text, path))),
    }
}

/// Returns a text without the lines between which the prompt shows this file.
fn without_marks<'t>(text: &'t str, before: &str, path: &Path) -> &'t str {
    let (begin, end) = (format!("--- {} ---", path.display()), format!("--- End of {} ---", path.display()));
    if before.contains(&begin) || before.contains(&end) {
        return text;
    }
    let text = text.strip_prefix(&begin).and_then(|rest| rest.strip_prefix('\n')).unwrap_or(text);
    let inner = text.trim_end().strip_suffix(&end).filter(|inner| inner.ends_with('\n'));
    inner.unwrap_or(text)
}

/// Writes a text with the line ends of the text before it, and with a line end at its end if that had one.
fn as_before(before: &str, content: &str) -> String {
    let mut text = LineEnd::of(before).apply(content);
    if before.ends_with('\n') && !text.is_empty() && !text.ends_with('\n') {
        text.push_str(if before.ends_with("\r\n") { "\r\n" } else { "\n" });
    }
    text
}

/// Lists the lines of a file that its new text does not have: all of a file that the model never read; otherwise only
/// where more went than came, so that a plain rewrite says nothing, or what is worth more than others.
fn gone(name: &str, (before, after): (&str, &str), unseen: bool) -> String {
    const SHOWN: usize = 40;
    let mut left: std::collections::HashMap<&str, usize> = std::collections::HashMap::new();
    for line in after.lines().filter(|line| !line.trim().is_empty()) {
        *left.entry(line.trim()).or_default() += 1;
    }
    let mut lost: Vec<&str> = before
        .lines()
        .filter(|line| !line.trim().is_empty())
        .filter(|line| match left.get_mut(line.trim()) {
            Some(count) if *count > 0 => {
                *count -= 1;
                false
            }
            _ => true,
        })
        .collect();
    let came: usize = left.values().sum();
    if !unseen && lost.len() <= came {
        lost = lost_marks(name, before, after);
    }
    if lost.is_empty() {
        return String::new();
    }
    if names::has_private_key(before) {
        return format!("\n{} of its lines are gone; if they are still needed, put them back.\n", lost.len());
    }
    let mut text = format!(
        "\n{}{} of its lines are gone; if they are still needed, put them back:\n",
        if unseen { "You had not read this file. " } else { "" },
        lost.len()
    );
    for line in lost.iter().take(SHOWN) {
        text.push_str(&line[..cut::end(line, 200)]);
        text.push('\n');
    }
    if lost.len() > SHOWN {
        text.push_str(&format!("... and {} more lines\n", lost.len() - SHOWN));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::tests::Project;

    fn write(project: &Project, path: &str, content: &str) -> String {
        project.says("write_file", json!({"file_path": path, "content": content}))
    }

    #[test]
    fn a_small_model_confirms_once_that_nothing_of_a_file_stays() {
        let mut project = Project::new(&[("a.md", b"# A\n\nOne.\n")]);
        project.text_tools = true;
        let refused = write(&project, "a.md", "MIT");
        assert!(refused.starts_with("\"MIT\" alone is not the whole new content of /p/a.md."), "{refused}");
        assert_eq!(project.staged("a.md").unwrap(), b"# A\n\nOne.\n");
        assert!(write(&project, "a.md", "MIT").starts_with("Successfully overwrote file"));
        assert!(write(&project, "a.md", "Apache").starts_with("Successfully overwrote file"));
    }

    #[test]
    fn the_fence_of_a_small_model_around_a_whole_file_is_no_part_of_it() {
        let mut project = Project::new(&[("a.md", b"# A\n"), ("b.md", b"```sh\nls\n```\n")]);
        project.text_tools = true;
        for (path, given, kept) in [
            ("x.py", "```python\na = 1\n```", "a = 1\n"),
            ("a.md", "```markdown\n# A\n\nB\n```markdown\n", "# A\n\nB\n"),
            ("c.md", "```sh\nls\n```\n", "```sh\nls\n```\n"),
            ("a.md", "--- a.md ---\n# A\n\nD\n--- End of a.md ---\n", "# A\n\nD\n"),
            ("d.md", "--- 1.0 ---\nfirst\n--- End of 1.0 ---\n", "--- 1.0 ---\nfirst\n--- End of 1.0 ---\n"),
            ("a.md", "# A\n\nC\n--- End of a.md ---", "# A\n\nC\n"),
            ("e.md", "---\ntitle: E\n---\n", "---\ntitle: E\n---\n"),
            ("b.md", "```\nls\n```\n", "```\nls\n```\n"),
        ] {
            write(&project, path, given);
            assert_eq!(project.staged(path).unwrap(), kept.as_bytes(), "{path}");
        }
        project.text_tools = false;
        write(&project, "y.py", "```python\na = 1\n```\n");
        assert_eq!(project.staged("y.py").unwrap(), b"```python\na = 1\n```\n");
    }

    #[test]
    fn a_new_file_is_staged_with_its_parents_and_the_disk_untouched() {
        let project = Project::new(&[]);
        assert_eq!(write(&project, "a/b c/d", "x"), "Successfully created and wrote to new file: /p/a/b c/d");
        assert_eq!(project.staged("a/b c/d").unwrap(), b"x");
        assert!(!project.folder.path().join("a").exists());
        assert_eq!(write(&project, "a/b c/d", "y"), "Successfully overwrote file: /p/a/b c/d");
    }

    #[test]
    fn overwriting_what_was_never_read_lists_the_lines_that_are_gone() {
        let project = Project::new(&[("a", b"one\ntwo\ntwo\nthree\n")]);
        insta::assert_snapshot!(write(&project, "a", "one\ntwo\nfour\n"), @r"
        Successfully overwrote file: /p/a
        You had not read this file. 2 of its lines are gone; if they are still needed, put them back:
        two
        three
        ");
        let project = Project::new(&[("a", b"one\n")]);
        project.says("read_file", json!({"file_path": "a"}));
        assert_eq!(write(&project, "a", "two\n"), "Successfully overwrote file: /p/a");
    }

    #[test]
    fn mark_encoding_line_ends_and_mode_are_kept() {
        use std::os::unix::fs::PermissionsExt;
        let project = Project::new(&[
            ("crlf", b"\xef\xbb\xbfa\r\nb\r\n"),
            ("latin", b"gr\xfcn\n"),
            ("utf16", b"\xff\xfea\0\r\0\n\0"),
            ("run", b"#!/bin/sh\n"),
        ]);
        let run = project.folder.path().join("run");
        std::fs::set_permissions(&run, std::fs::Permissions::from_mode(0o755)).unwrap();
        write(&project, "crlf", "c\nd\n");
        write(&project, "latin", "rötlich\n");
        write(&project, "utf16", "b\n");
        write(&project, "run", "#!/bin/bash\n");
        assert_eq!(project.staged("crlf").unwrap(), b"\xef\xbb\xbfc\r\nd\r\n");
        assert_eq!(project.staged("latin").unwrap(), b"r\xf6tlich\n");
        assert_eq!(project.staged("utf16").unwrap(), b"\xff\xfeb\0\r\0\n\0");
        let path = crate::path::RelPath::new("run").unwrap();
        assert!(matches!(project.workspace.entry(&path).unwrap(), Entry::File { executable: true, .. }));
        assert_eq!(write(&project, "latin", "→"), "/p/latin: the file is Latin-1 and cannot hold '→'");
    }

    #[test]
    fn the_last_line_end_is_kept_and_a_new_file_is_as_it_is_given() {
        let project = Project::new(&[("lf", b"a\n"), ("crlf", b"a\r\nb\r\n"), ("none", b"a\nb")]);
        for (name, expected) in [("lf", &b"c"[..]), ("crlf", b"c"), ("none", b"c"), ("new", b"c")] {
            write(&project, name, "c");
            let end: &[u8] = match name {
                "lf" => b"\n",
                "crlf" => b"\r\n",
                _ => b"",
            };
            assert_eq!(project.staged(name).unwrap(), [expected, end].concat(), "{name}");
        }
        write(&project, "lf", "");
        assert_eq!(project.staged("lf").unwrap(), b"");
    }

    #[test]
    fn a_heading_that_went_is_named_even_where_more_came() {
        let project = Project::new(&[("a.md", b"# A\n\nb\n")]);
        project.says("read_file", json!({"file_path": "a.md"}));
        insta::assert_snapshot!(write(&project, "a.md", "c\nd\ne\n"), @r"
        Successfully overwrote file: /p/a.md
        1 of its lines are gone; if they are still needed, put them back:
        # A
        ");
    }

    #[test]
    fn a_text_that_broke_the_file_says_where() {
        let project = Project::new(&[("a.json", b"{\n\"a\": 1\n}\n"), ("b.json", b"{\n")]);
        project.says("read_file", json!({"file_path": "a.json"}));
        insta::assert_snapshot!(write(&project, "a.json", "{\n\"a\": 1,\n}\n"), @r"
        Successfully overwrote file: /p/a.json
        This change broke the file, which parsed before: line 3: key must be a string. Correct it.
        ");
        assert!(write(&project, "new.json", "{\n").contains("new.json\nIt does not parse: line "));
        project.says("read_file", json!({"file_path": "b.json"}));
        assert_eq!(write(&project, "b.json", "{{\n"), "Successfully overwrote file: /p/b.json");
    }

    #[test]
    fn a_folder_or_a_link_is_not_overwritten() {
        let project = Project::new(&[("sub/", b""), ("a", b"")]);
        assert_eq!(write(&project, "sub", "x"), "Path is a directory, not a file: /p/sub");
        assert!(write(&project, "sub/", "x").starts_with("params/file_path must name a file"));
    }
}
