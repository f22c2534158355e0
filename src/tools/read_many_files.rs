//! Implements `read_many_files`: reads several files at once, by paths and globs; `@path` in a prompt uses it too.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde::Deserialize;
use serde_json::{Value, json};

use super::common::{memory, names, notebook, search};
use super::read_file::{Content, content, document, is_pdf};
use super::{Call, CallFuture, Effects, ToolContext, ToolError, ToolOutput, TypedTool};
use crate::change::Entry;
use crate::model::Part;
use crate::path::{Node, RelPath, Tree};
use crate::policy::{Access, Grant};
use crate::tool_name::ToolId;
use crate::workspace::ignore;
use crate::workspace::walk::Filter;

/// The tool.
pub struct ReadManyFiles;

/// Characters after which no file is added.
const CHARS: usize = 100_000;
/// Lines shown of one file.
const LINES: usize = 2_000;
/// Names listed of what was left out.
const NAMED: usize = 20;

/// What nobody means when asking for many files.
const DEFAULT_EXCLUDES: &[&str] = &[
    "**/node_modules/**",
    "**/.git/**",
    "**/.vscode/**",
    "**/.idea/**",
    "**/dist/**",
    "**/build/**",
    "**/coverage/**",
    "**/target/**",
    "**/__pycache__/**",
    "**/*.{pyc,pyo,class,jar,war,o,a,so,dll,dylib,exe,bin,obj,lib,wasm}",
    "**/*.{zip,tar,gz,bz2,xz,rar,7z,doc,docx,xls,xlsx,ppt,pptx,odt,ods,odp}",
    "**/.DS_Store",
    "**/.env",
];

impl TypedTool for ReadManyFiles {
    type Args = ManyArgs;
    const ID: ToolId = ToolId::ReadManyFiles;
    const EFFECTS: Effects = Effects::Reads;
    const DESCRIPTION: &'static str = "Read several files at once.";

    fn parameters(&self) -> Value {
        let globs = json!({"type": "array", "items": {"type": "string"}});
        let flag = json!({"type": "boolean"});
        let mut paths = globs.clone();
        paths["minItems"] = 1.into();
        paths["description"] = "Files, folders or globs".into();
        json!({"type": "object", "properties": {
            "paths": paths, "include": globs, "exclude": globs, "recursive": flag,
            "useDefaultExcludes": flag, "respect_git_ignore": flag
        }, "required": ["paths"]})
    }

    fn call(&self, args: ManyArgs) -> Result<Box<dyn Call>, ToolError> {
        let given = |list: Option<Vec<String>>| list.into_iter().flatten().filter(|text| !text.is_empty());
        let paths: Vec<String> = given(Some(args.paths)).collect();
        if paths.is_empty() {
            return Err(ToolError::arguments("params/paths must NOT have fewer than 1 items"));
        }
        let exclude: Vec<String> = given(args.exclude).collect();
        let defaults = if args.use_default_excludes.unwrap_or(true) { DEFAULT_EXCLUDES } else { &[] };
        let call = ManyCall {
            patterns: paths.into_iter().chain(given(args.include)).collect(),
            exclude: glob_set("exclude", exclude.iter().map(String::as_str).chain(defaults.iter().copied()))?,
            recursive: args.recursive.unwrap_or(true),
            git: args.respect_git_ignore.unwrap_or(true),
        };
        glob_set("paths", call.patterns.iter().map(String::as_str))?;
        Ok(Box::new(call))
    }
}

/// What the model gives.
#[derive(Deserialize)]
pub struct ManyArgs {
    paths: Vec<String>,
    include: Option<Vec<String>>,
    exclude: Option<Vec<String>>,
    recursive: Option<bool>,
    #[serde(rename = "useDefaultExcludes")]
    use_default_excludes: Option<bool>,
    respect_git_ignore: Option<bool>,
}

fn glob_set<'a>(name: &str, globs: impl Iterator<Item = &'a str>) -> Result<GlobSet, ToolError> {
    let wrong = |error: globset::Error| ToolError::arguments(format!("params/{name}: {error}"));
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        set.add(GlobBuilder::new(glob).literal_separator(true).build().map_err(wrong)?);
    }
    set.build().map_err(wrong)
}

struct ManyCall {
    /// Files, directories and globs, as the model wrote them.
    patterns: Vec<String>,
    exclude: GlobSet,
    recursive: bool,
    git: bool,
}

impl ManyCall {
    /// Sorts the patterns into names of files and globs.
    fn named_and_globs(&self, cx: &ToolContext<'_>) -> (Vec<RelPath>, Vec<String>) {
        let root = cx.workspace.root();
        // Names of files are taken as they are: a `[` in one is not a pattern.
        let mut named: Vec<RelPath> = Vec::new();
        let mut globs: Vec<String> = Vec::new();
        for pattern in &self.patterns {
            let absolute = names::absolute(root, Path::new(pattern));
            let Some(path) = RelPath::below(root, &absolute) else { continue };
            match cx.workspace.look(&absolute) {
                Ok(Some(Node::File { .. })) if named.contains(&path) => {}
                Ok(Some(Node::File { .. })) => named.push(path),
                Ok(Some(Node::Dir)) => {
                    let folder = globset::escape(&path.as_path().to_string_lossy());
                    let below = if self.recursive { "**" } else { "*" };
                    globs.push(if path.is_root() { below.to_owned() } else { format!("{folder}/{below}") });
                }
                Ok(Some(Node::Link(_) | Node::Other) | None) | Err(_) => {
                    globs.push(path.as_path().to_string_lossy().into_owned());
                }
            }
        }
        (named, globs)
    }
}

impl Call for ManyCall {
    fn accesses(&self) -> Vec<Access> {
        vec![Access::Search { root: PathBuf::from("."), patterns: self.patterns.clone() }]
    }

    fn subject(&self, _root: &Path) -> String {
        names::brief(&self.patterns.join(", "))
    }

    fn run<'a>(self: Box<Self>, grant: &'a Grant, cx: &'a ToolContext<'a>) -> CallFuture<'a> {
        Box::pin(async move {
            let scope = search::Scope::new(Path::new("."), grant, cx)?;
            let asked = self.subject(cx.workspace.root());
            let (mut named, globs) = self.named_and_globs(cx);
            let set = glob_set("paths", globs.iter().map(String::as_str))?;
            let ManyCall { exclude, git, .. } = *self;
            let rules = ignore::Rules::of_source(scope.source.clone());
            named.retain(|path| {
                let ignored = rules.of(path, ignore::Kind::File);
                let left_out = ignored.qwen || (git && ignored.git) || exclude.is_match(path.as_path());
                !left_out && (scope.may_read)(path)
            });
            let mut files = named;
            if !globs.is_empty() {
                let found = search::in_background(move |cancelled| -> Vec<RelPath> {
                    let want = |path: &RelPath| {
                        let path_itself = path.as_path();
                        set.is_match(path_itself) && !exclude.is_match(path_itself) && (scope.may_read)(path)
                    };
                    // A directory of which nothing can pass is not entered.
                    let enter = |path: &RelPath| !exclude.is_match(path.as_path().join("_"));
                    let walk = scope.walk(&Filter { git, enter: &enter, want: &want }, cancelled);
                    walk.files.into_iter().map(|found| found.path).collect()
                });
                files.extend(found.await?);
                files.sort_unstable();
                files.dedup();
            }
            Ok(gather(cx, &files, &asked).await)
        })
    }
}

/// Adds files to one answer until it is full, and names the rest.
async fn gather(cx: &ToolContext<'_>, files: &[RelPath], asked: &str) -> ToolOutput {
    if files.is_empty() {
        let text = format!("No files matching the criteria were found or all were skipped: {asked}");
        return ToolOutput::text(text, "No files read");
    }
    let mut parts: Vec<Part> = Vec::new();
    let mut text = String::new();
    let (mut chars, mut read) = (0, 0);
    let mut skipped: Vec<String> = Vec::new();
    let mut left: Vec<String> = Vec::new();
    for path in files {
        let shown = names::one_line(&path.under(cx.workspace.root()));
        if chars >= CHARS {
            left.push(shown);
            continue;
        }
        if let Err(error) = names::check_size(cx, &path.under(cx.workspace.root()), &shown) {
            skipped.push(error.message);
            continue;
        }
        let Ok(Entry::File { content: bytes, .. }) = cx.workspace.entry(path) else {
            skipped.push(shown);
            continue;
        };
        cx.workspace.notice(&bytes, false);
        match seen(path.as_path(), &bytes, &shown, CHARS - chars, cx.media).await {
            Content::Text(body) => {
                let body = excerpt(&body, CHARS - chars);
                chars += body.chars().count();
                text.push_str(&format!("--- {shown} ---\n\n{body}\n\n"));
                memory::saw(cx.memory, path, &bytes);
                read += 1;
            }
            Content::Media(part) => {
                text.push_str(&format!("--- {shown} ---\n\n"));
                parts.push(Part::Text(std::mem::take(&mut text)));
                parts.push(part);
                read += 1;
            }
            Content::Notice(notice) => skipped.push(notice),
        }
    }
    text.push_str(&ending(&left, &skipped));
    parts.push(Part::Text(text));
    ToolOutput { llm_content: parts, display: super::Display::Markdown(format!("Read {read} file(s)")), command: None }
}

/// Names what was not read.
fn ending(left: &[String], skipped: &[String]) -> String {
    let list = |names: &[String]| {
        let more = names.len().saturating_sub(NAMED);
        let shown = names[..names.len() - more].join("\n");
        if more == 0 { shown } else { format!("{shown}\n... and {more} more") }
    };
    let mut text = "--- End of content ---".to_owned();
    if !left.is_empty() {
        text.push_str(&format!("\n{} files did not fit; read them by themselves:\n{}", left.len(), list(left)));
    }
    if !skipped.is_empty() {
        text.push_str(&format!("\nSkipped:\n{}", list(skipped)));
    }
    text
}

/// Returns a file as the model can take it: of a document its text, of a notebook its cells.
async fn seen(path: &Path, bytes: &Arc<[u8]>, shown: &str, chars: usize, media: bool) -> Content {
    if is_pdf(bytes, path) && !media {
        return match document(Arc::clone(bytes), None, shown, chars).await {
            Ok(text) => Content::Text(text),
            Err(error) => Content::Notice(error.message),
        };
    }
    match content(bytes, path, shown, media) {
        Content::Text(text) if path.extension().is_some_and(|extension| extension == "ipynb") => {
            Content::Text(notebook::text(&text).unwrap_or(text))
        }
        other => other,
    }
}

/// Returns the first lines of a file that fit, with a note where that is not all.
fn excerpt(text: &str, chars: usize) -> String {
    let total = text.lines().count();
    let (mut shown, mut count, mut used) = (String::new(), 0, 0);
    for line in text.split_inclusive('\n').take(LINES) {
        used += line.chars().count();
        if used > chars {
            break;
        }
        shown.push_str(line);
        count += 1;
    }
    if count < total {
        shown.push_str(&format!("[File content truncated: showing lines 1-{count} of {total} total lines...]"));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::tests::Project;

    fn many(project: &Project, arguments: Value) -> String {
        project.says("read_many_files", arguments)
    }

    #[test]
    fn files_folders_and_globs_are_read_once_each_in_order() {
        let project = Project::new(&[
            ("a.md", b"A\n"),
            ("src/b.rs", b"B"),
            ("src/sub/c.rs", b"C\n"),
            ("src/[x].rs", b"X\n"),
            ("target/d.rs", b"D\n"),
            (".env", b"KEY\n"),
        ]);
        insta::assert_snapshot!(many(&project, json!({"paths": ["src", "*.md", "src/b.rs"]})), @r"
        --- /p/a.md ---

        A


        --- /p/src/[x].rs ---

        X


        --- /p/src/b.rs ---

        B

        --- /p/src/sub/c.rs ---

        C


        --- End of content ---
        ");
        let names = |arguments: Value| -> Vec<String> {
            let said = many(&project, arguments);
            said.lines()
                .filter_map(|line| line.strip_prefix("--- /p/"))
                .map(|line| line.trim_end_matches(" ---").to_owned())
                .collect()
        };
        assert_eq!(names(json!({"paths": ["src"], "recursive": false})), ["src/[x].rs", "src/b.rs"]);
        assert_eq!(names(json!({"paths": "src/[x].rs"})), ["src/[x].rs"]);
        assert_eq!(
            names(json!({"paths": ["**/*.rs"], "exclude": ["src/**"], "useDefaultExcludes": false})),
            ["target/d.rs"]
        );
        assert_eq!(names(json!({"paths": [project.workspace.root().join("a.md")]})), ["a.md"]);
        assert_eq!(
            many(&project, json!({"paths": ["*.py", ".env"], "useDefaultExcludes": false})),
            "No files matching the criteria were found or all were skipped: *.py, .env"
        );
    }

    #[test]
    fn a_notebook_is_shown_by_its_cells() {
        let text = br#"{"nbformat": 4, "cells": [{"cell_type": "code", "source": "x = 1"}]}"#;
        let project = Project::new(&[("a.ipynb", text)]);
        assert!(many(&project, json!({"paths": ["*.ipynb"]})).contains("--- cell 1 (code) ---\n```python\nx = 1\n"));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let big = "0123456789\n".repeat(8_000);
        let project =
            Project::new(&[("a", big.as_bytes()), ("b", big.as_bytes()), ("c", b"c\n"), ("bin", b"\0\x01\x02")]);
        let said = many(&project, json!({"paths": ["a", "b", "bin", "c"]}));
        assert!(said.contains("[File content truncated: showing lines 1-2000 of 8000 total lines...]"));
        assert!(
            said.ends_with("--- End of content ---\nSkipped:\nCannot display content of binary file: /p/bin"),
            "{}",
            &said[said.len() - 200..]
        );
        let wide = format!("{}\n", "x".repeat(999)).repeat(101);
        let project = Project::new(&[("a", wide.as_bytes()), ("b", b"b\n"), ("c", b"c\n")]);
        let said = many(&project, json!({"paths": ["."]}));
        assert!(said.contains("showing lines 1-100 of 101 total lines...]\n\n--- End of content ---\n2 files did not fit; read them by themselves:\n/p/b\n/p/c"), "{}", &said[said.len() - 200..]);
    }
}
