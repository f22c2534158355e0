//! Implements `read_file`: shows one file to the model: text by lines, images and documents as media.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use serde::Deserialize;
use serde_json::{Value, json};

use super::common::location::Location;
use super::common::pdf::{self, Wanted};
use super::common::{bound, memory, names, notebook, search};
use super::{Call, CallFuture, Effects, ToolContext, ToolError, ToolOutput, TypedTool, whole};
use crate::base::cut;
use crate::change::text::Decoded;
use crate::model::Part;
use crate::policy::{Access, Grant};
use crate::tool_name::ToolId;
use crate::workspace::{Workspace, outputs};

/// The tool.
pub struct ReadFile;

/// Lines shown if the call does not say.
const LINES: usize = 2_000;
/// Characters shown of a file.
const CHARS: usize = 25_000;
/// Bytes of an image or document that are handed to the model.
const MEDIA_BYTES: usize = 10 * 1024 * 1024;

impl TypedTool for ReadFile {
    type Args = ReadArgs;
    const ID: ToolId = ToolId::ReadFile;
    const EFFECTS: Effects = Effects::Reads;
    const DESCRIPTION: &'static str = "Read a file. Read before you edit.";

    fn parameters(&self) -> Value {
        json!({"type": "object", "properties": {
            "file_path": {"type": "string"},
            "offset": {"type": "integer", "minimum": 0, "description": "First line, from 0"},
            "limit": {"type": "integer", "minimum": 1, "description": "Number of lines"}
        }, "required": ["file_path"]})
    }

    fn call(&self, args: ReadArgs) -> Result<Box<dyn Call>, ToolError> {
        let ReadArgs { file_path, offset, limit, pages } = args;
        if file_path.trim().is_empty() {
            return Err(ToolError::arguments("params/file_path must not be empty"));
        }
        let pages = match pages {
            Value::Null => None,
            Value::String(text) => Some(pages_of(&text)?),
            other => Some(pages_of(&other.to_string())?),
        };
        Ok(Box::new(ReadCall { path: file_path.into(), offset, limit, pages }))
    }
}

/// What the model gives.
#[derive(Deserialize)]
pub struct ReadArgs {
    file_path: String,
    #[serde(default, deserialize_with = "whole")]
    offset: Option<usize>,
    #[serde(default, deserialize_with = "whole")]
    limit: Option<usize>,
    #[serde(default)]
    pages: Value,
}

fn pages_of(text: &str) -> Result<Wanted, ToolError> {
    Wanted::parse(text).ok_or_else(|| {
        ToolError::arguments(format!("params/pages must be pages such as \"3\" or \"1-5,9\", not {text:?}"))
    })
}

struct ReadCall {
    path: PathBuf,
    offset: Option<usize>,
    limit: Option<usize>,
    pages: Option<Wanted>,
}

impl Call for ReadCall {
    fn accesses(&self) -> Vec<Access> {
        vec![Access::Read { path: self.path.clone() }]
    }

    fn subject(&self, root: &Path) -> String {
        names::within(root, &self.path)
    }

    fn run<'a>(self: Box<Self>, grant: &'a Grant, cx: &'a ToolContext<'a>) -> CallFuture<'a> {
        Box::pin(async move {
            let shown = names::shown(cx, &self.path);
            let absolute = names::absolute(cx.workspace.root(), &self.path);
            // A full output of this run is outside the workspace, in a directory that only this program writes.
            if let Some(output) = outputs::read(&cx.limits.outputs, &absolute) {
                let output = output.map_err(|error| ToolError::failed(format!("Cannot access {shown}: {error}")))?;
                cx.workspace.notice(&output, true);
                let text = String::from_utf8_lossy(&output);
                return Ok(ToolOutput::text(range(&text, (self.offset, self.limit), cx.workspace)?, shown));
            }
            let location = Location::of(&self.path, grant, cx)?;
            location.check_not_hidden(cx.workspace)?;
            names::check_size(cx, &location.absolute(), &shown)?;
            let view = cx.workspace.read(grant, &self.path).map_err(|error| names::file_error(&error, &shown))?;
            memory::saw(cx.memory, &view.path, &view.content);
            let is_pdf = is_pdf(&view.content, &self.path);
            if self.pages.is_some() && !is_pdf {
                return Err(ToolError::arguments(format!("pages is for PDF files; use offset and limit for {shown}")));
            }
            if is_pdf && (self.pages.is_some() || !cx.media) {
                let text = document(view.content, self.pages, &shown, CHARS).await?;
                // Line numbers in the call mean lines of this text.
                let text = if self.offset.or(self.limit).is_some() {
                    range(&text, (self.offset, self.limit), cx.workspace)?
                } else {
                    text
                };
                return Ok(ToolOutput::text(text, format!("{}: PDF", names::relative(&view.path))));
            }
            match content(&view.content, &self.path, &shown, cx.media) {
                Content::Text(text) => {
                    // Line numbers in the call mean lines of the file.
                    let whole = self.offset.is_none() && self.limit.is_none();
                    let is_notebook = whole && self.path.extension().is_some_and(|extension| extension == "ipynb");
                    let cells = if is_notebook { notebook::text(&text) } else { None };
                    let text = cells.unwrap_or(text);
                    let llm = range(&text, (self.offset, self.limit), cx.workspace)?;
                    let lines = llm.lines().count();
                    Ok(ToolOutput::text(llm, format!("{}: {lines} lines", names::relative(&view.path))))
                }
                Content::Media(part) => Ok(ToolOutput {
                    llm_content: vec![part],
                    display: super::Display::Markdown(format!("{}: media", names::relative(&view.path))),
                    command: None,
                }),
                Content::Notice(notice) => Ok(ToolOutput::text(notice.clone(), notice)),
            }
        })
    }
}

/// A file as a model can take it.
pub(crate) enum Content {
    /// Text.
    Text(String),
    /// An image or document.
    Media(Part),
    /// One line in its place.
    Notice(String),
}

/// Tells whether a file is a PDF, by its bytes.
pub(crate) fn is_pdf(bytes: &[u8], path: &Path) -> bool {
    mime_type(bytes, path) == Some("application/pdf")
}

/// Returns the text of a PDF's pages, as many as there is room for, under a line that says which they are.
pub(crate) async fn document(
    bytes: Arc<[u8]>,
    wanted: Option<Wanted>,
    shown: &str,
    room: usize,
) -> Result<String, ToolError> {
    let size = bytes.len();
    let about = format!("[PDF file: {shown}, {size} bytes");
    let asked = wanted.clone();
    let read = search::in_background(move |_| pdf::text(&bytes, asked.as_ref(), room)).await?;
    let found = match read {
        Ok(found) => found,
        Err(problem) => return Ok(format!("{about}; its text cannot be read: {problem}]")),
    };
    let total = found.total;
    let Some((first, _)) = found.pages.first() else {
        return Err(ToolError::failed(format!("No such page: {shown} has {total} pages")));
    };
    let (mut text, mut used, mut last) = (String::new(), 0, *first);
    for (page, body) in &found.pages {
        let chars = body.chars().count();
        if used > 0 && used + chars > room {
            break;
        }
        let cut =
            body.char_indices().nth(room).map(|(end, _)| format!("{}... [truncated]", &body[..cut::end(body, end)]));
        text.push_str(&format!("--- page {page} ---\n{}\n", cut.as_ref().unwrap_or(body)));
        used += chars;
        last = *page;
    }
    if found.pages.iter().all(|(_, body)| body.is_empty()) {
        let scan = "it has no text that can be read: its pages may be images";
        return Ok(format!("{about}, {total} pages; {scan}]"));
    }
    let next = (last + 1..=total).find(|page| wanted.as_ref().is_none_or(|wanted| wanted.has(*page)));
    let mut notes = match next {
        Some(next) => format!(". To read on, use pages: \"{next}-\""),
        None => String::new(),
    };
    if found.unknown > 0 {
        notes.push_str(&format!("; {} characters are unknown", found.unknown));
    }
    if found.gave_up {
        notes.push_str("; it takes too much work to read the rest");
    }
    let which = if *first == last { format!("page {first}") } else { format!("pages {first}-{last}") };
    Ok(format!("{about}, text of {which} of {total}{notes}]\n{text}"))
}

/// Decides what a file is, by its bytes and then by its name.
pub(crate) fn content(bytes: &[u8], path: &Path, shown: &str, media: bool) -> Content {
    let Some(mime_type) = mime_type(bytes, path) else {
        return match Decoded::from_bytes(bytes) {
            Some(decoded) => Content::Text(decoded.text),
            None => Content::Notice(format!("Cannot display content of binary file: {shown}")),
        };
    };
    let kind = if mime_type == "application/pdf" { "PDF" } else { "image" };
    if !media {
        return Content::Notice(format!("[{kind} file: {shown}, {} bytes; the model does not take it]", bytes.len()));
    }
    if bytes.len() > MEDIA_BYTES {
        return Content::Notice(format!("[{kind} file: {shown}, {} bytes; too large to show]", bytes.len()));
    }
    Content::Media(Part::Media {
        mime_type: mime_type.to_owned(),
        data: base64::engine::general_purpose::STANDARD.encode(bytes),
        name: names::one_line(path),
    })
}

/// Returns the type of an image or PDF; `None` for everything else, SVG included.
fn mime_type(bytes: &[u8], path: &Path) -> Option<&'static str> {
    const TYPES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp", "application/pdf"];
    let found = infer::get(bytes)?.mime_type();
    // Two letters begin a BMP, and many a text: the name must say so too.
    let named_bmp = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("bmp"));
    TYPES.iter().find(|known| **known == found).copied().filter(|known| *known != "image/bmp" || named_bmp)
}

/// Returns lines of a text, bounded, with a message if that is not all of it.
fn range(
    text: &str,
    (offset, limit): (Option<usize>, Option<usize>),
    workspace: &Workspace,
) -> Result<String, ToolError> {
    let total = text.lines().count();
    let first = offset.unwrap_or(0);
    if first > 0 && first >= total {
        return Err(ToolError::failed(format!("offset {first} is past the end: the file has {total} lines")));
    }
    let wanted = limit.unwrap_or(LINES);
    let mut shown = String::new();
    let (mut count, mut chars, mut cut) = (0, 0, false);
    for line in text.split_inclusive('\n').skip(first).take(wanted) {
        let body = line.trim_end_matches(['\n', '\r']);
        let (line, whole) = match bound::line(body, workspace) {
            Some(shown) => (format!("{shown}... [truncated]{}", &line[body.len()..]), false),
            None => (line.to_owned(), true),
        };
        chars += line.chars().count();
        // At least one line, or no call could ever get past it.
        if chars > CHARS && count > 0 {
            break;
        }
        cut |= !whole;
        shown.push_str(&line);
        count += 1;
    }
    let last = first + count;
    if first == 0 && last >= total && !cut {
        return Ok(shown);
    }
    let next = if last < total { format!(" To read on, use offset: {last}.") } else { String::new() };
    let lines = format!("showing lines {}-{last} of {total} total lines", first + 1);
    Ok(format!("[File content truncated: {lines}...{next}]\n{shown}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::tests::Project;

    fn read(project: &Project, path: &str) -> String {
        project.says("read_file", json!({"file_path": path}))
    }

    #[test]
    fn text_is_shown_as_it_stands() {
        let project =
            Project::new(&[("a b", b"x\r\n\ty\n"), ("bom", b"\xef\xbb\xbfx"), ("latin", b"gr\xfcn"), ("e", b"")]);
        assert_eq!(read(&project, "a b"), "x\r\n\ty\n");
        assert_eq!(read(&project, "bom"), "x");
        assert_eq!(read(&project, "latin"), "grün");
        assert_eq!(read(&project, "e"), "");
        let absolute = project.workspace.root().join("a b");
        assert_eq!(read(&project, absolute.to_str().unwrap()), "x\r\n\ty\n");
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        let project = Project::new(&[
            ("sub/", b""),
            ("bin", b"\x7fELF\0\0\0\0"),
            (".qwenignore", b"*.secret\n"),
            ("a.secret", b""),
        ]);
        assert_eq!(read(&project, "none"), "File not found: /p/none");
        assert_eq!(read(&project, "sub"), "Path is a directory, not a file: /p/sub");
        assert_eq!(read(&project, "bin"), "Cannot display content of binary file: /p/bin");
        let hidden = "File path '/p/a.secret' is ignored by .qwenignore pattern(s).";
        assert_eq!(read(&project, "a.secret"), hidden);
        assert_eq!(
            project.says("edit", json!({"file_path": "a.secret", "old_string": "a", "new_string": "b"})),
            hidden
        );
        assert_eq!(project.says("write_file", json!({"file_path": "a.secret", "content": "b"})), hidden);
        assert_eq!(project.says("grep", json!({"path": "a.secret", "pattern": "a"})), hidden);
        std::fs::File::create(project.folder.path().join("huge")).unwrap().set_len(1 << 40).unwrap();
        let huge =
            "File is too large to read: /p/huge (1099511627776 bytes). Use search_file_content for the lines you need.";
        assert_eq!(read(&project, "huge"), huge);
        assert_eq!(project.says("edit", json!({"file_path": "huge", "old_string": "a", "new_string": "b"})), huge);
    }

    #[test]
    fn a_notebook_is_shown_by_its_cells_and_its_lines_are_the_files() {
        let text = br#"{"nbformat": 4, "cells": [{"cell_type": "code", "source": "x = 1"}]}"#;
        let project = Project::new(&[("a.ipynb", text), ("bad.ipynb", b"{}")]);
        assert!(read(&project, "a.ipynb").ends_with("--- cell 1 (code) ---\n```python\nx = 1\n```\n"));
        assert_eq!(project.says("read_file", json!({"file_path": "a.ipynb", "offset": 0})).as_bytes(), text.as_slice());
        assert_eq!(read(&project, "bad.ipynb"), "{}");
    }

    #[test]
    fn a_part_says_which_part_it_is() {
        let text: String = (1..=500).map(|n| format!("{n}\n")).collect();
        let project = Project::new(&[("a", text.as_bytes())]);
        let part = |offset: u64, limit: u64| {
            project.says("read_file", json!({"file_path": "a", "offset": offset, "limit": limit}))
        };
        assert!(part(0, 100).starts_with(
            "[File content truncated: showing lines 1-100 of 500 total lines... To read on, use offset: 100.]\n1\n2\n"
        ));
        assert_eq!(part(498, 9), "[File content truncated: showing lines 499-500 of 500 total lines...]\n499\n500\n");
        assert_eq!(part(500, 1), "offset 500 is past the end: the file has 500 lines");
    }

    #[test]
    fn long_lines_and_long_files_are_cut_at_known_places() {
        let long = format!("{}\nend\n", "ä".repeat(3000));
        let project = Project::new(&[("long", long.as_bytes()), ("many", b"x")]);
        let said = read(&project, "long");
        assert!(said.starts_with("[File content truncated: showing lines 1-2 of 2 total lines...]\n"), "{said}");
        assert!(said.ends_with(&format!("{}... [truncated]\nend\n", "ä".repeat(10))));
        let many: String = (0..1000).map(|_| format!("{}\n", "x".repeat(99))).collect();
        project.on_disk("many", many.as_bytes());
        assert!(read(&project, "many").starts_with(
            "[File content truncated: showing lines 1-250 of 1000 total lines... To read on, use offset: 250.]\n"
        ));
    }

    #[test]
    fn images_are_media_for_a_model_that_takes_them() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
        let mut project = Project::new(&[("a.png", png), ("a.svg", b"<svg/>"), ("BM.txt", b"BMX is a bike\n")]);
        let output = project.call("read_file", json!({"file_path": "a.png"})).unwrap();
        assert!(matches!(&output.llm_content[..], [Part::Media { mime_type, .. }] if mime_type == "image/png"));
        assert_eq!(read(&project, "a.svg"), "<svg/>");
        assert_eq!(read(&project, "BM.txt"), "BMX is a bike\n");
        project.media = false;
        assert_eq!(read(&project, "a.png"), "[image file: /p/a.png, 16 bytes; the model does not take it]");
    }

    #[test]
    fn a_pdf_is_media_or_the_text_of_its_pages() {
        let pages: Vec<String> = (1..=40).map(|n| format!("{n} {}", "word ".repeat(200))).collect();
        let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
        let bytes = pdf::tests::of_lines(&pages);
        let mut project = Project::new(&[
            ("a.pdf", &bytes),
            ("bad.pdf", b"%PDF-1.4 nothing"),
            ("scan.pdf", &pdf::tests::of_lines(&[""])),
        ]);
        let output = project.call("read_file", json!({"file_path": "a.pdf"})).unwrap();
        assert!(matches!(&output.llm_content[..], [Part::Media { mime_type, .. }] if mime_type == "application/pdf"));
        let of =
            |project: &Project, pages: Value| project.says("read_file", json!({"file_path": "a.pdf", "pages": pages}));
        let head = format!("[PDF file: /p/a.pdf, {} bytes, text of ", bytes.len());
        let third = of(&project, json!(3));
        assert!(third.starts_with(&format!("{head}page 3 of 40]\n--- page 3 ---\n3 word ")), "{third}");
        assert!(of(&project, json!("39-")).starts_with(&format!("{head}pages 39-40 of 40]\n--- page 39 ---")));
        assert_eq!(of(&project, json!("41")), "No such page: /p/a.pdf has 40 pages");
        assert_eq!(of(&project, json!("x")), "params/pages must be pages such as \"3\" or \"1-5,9\", not \"x\"");
        project.media = false;
        let said = read(&project, "a.pdf");
        assert!(
            said.starts_with(&format!("{head}pages 1-24 of 40. To read on, use pages: \"25-\"]\n")),
            "{}",
            &said[..150]
        );
        assert!(said.chars().count() < CHARS + 1_000);
        assert_eq!(
            read(&project, "bad.pdf"),
            "[PDF file: /p/bad.pdf, 16 bytes; its text cannot be read: no page was found in it; the file may be damaged]"
        );
        assert!(
            read(&project, "scan.pdf")
                .ends_with(", 1 pages; it has no text that can be read: its pages may be images]")
        );
        let many = project.says("read_many_files", json!({"paths": ["bad.pdf", "scan.pdf"]}));
        assert!(many.starts_with("--- /p/bad.pdf ---\n\n[PDF file: /p/bad.pdf"), "{many}");
        project.on_disk("t.txt", b"x");
        assert_eq!(
            project.says("read_file", json!({"file_path": "t.txt", "pages": "1"})),
            "pages is for PDF files; use offset and limit for /p/t.txt"
        );
    }

    #[test]
    fn a_pipe_is_no_file_and_does_not_hang() {
        let project = Project::new(&[]);
        nix::unistd::mkfifo(&project.folder.path().join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(read(&project, "fifo"), "Path is not a regular file: /p/fifo");
    }
}
