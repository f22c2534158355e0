//! Implements `list_directory`: lists the names in one directory.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde::Deserialize;
use serde_json::{Value, json};

use super::common::location::{Location, respects_git};
use super::common::names;
use super::{Call, CallFuture, Effects, ToolContext, ToolError, ToolOutput, TypedTool, named};
use crate::path::{Node, Tree};
use crate::policy::{Access, Grant};
use crate::tool_name::ToolId;
use crate::workspace::ignore;

/// The tool.
pub struct ListDirectory;

/// Names shown of one directory.
const SHOWN: usize = 2_000;

impl TypedTool for ListDirectory {
    type Args = ListArgs;
    const ID: ToolId = ToolId::ListDirectory;
    const EFFECTS: Effects = Effects::Reads;
    const DESCRIPTION: &'static str = "List the names in a folder.";

    fn parameters(&self) -> Value {
        json!({"type": "object", "properties": {
            "path": {"type": "string", "description": "Folder; . is the workspace"},
            "ignore": {"type": "array", "items": {"type": "string"}, "description": "Globs of names to leave out"},
            "respect_git_ignore": {"type": "boolean"},
            "file_filtering_options": {"type": "object"}
        }, "required": ["path"]})
    }

    fn call(&self, args: ListArgs) -> Result<Box<dyn Call>, ToolError> {
        let mut globs = GlobSetBuilder::new();
        for glob in args.ignore.iter().flatten() {
            let built = GlobBuilder::new(glob.trim_end_matches('/')).literal_separator(true).build();
            globs.add(built.map_err(|error| ToolError::arguments(format!("params/ignore: {error}")))?);
        }
        let globs = globs.build().map_err(|error| ToolError::arguments(format!("params/ignore: {error}")))?;
        let git = respects_git(&args.file_filtering_options, args.respect_git_ignore);
        Ok(Box::new(ListCall { path: named(Some(args.path)).unwrap_or_else(|| ".".into()), globs, git }))
    }
}

/// What the model gives.
#[derive(Deserialize)]
pub struct ListArgs {
    path: PathBuf,
    ignore: Option<Vec<String>>,
    respect_git_ignore: Option<bool>,
    #[serde(default)]
    file_filtering_options: Value,
}

struct ListCall {
    path: PathBuf,
    globs: GlobSet,
    git: bool,
}

/// Shows the names, at most so many, and how many were left out by whose rules.
fn listing(shown: &str, mut lines: Vec<String>, ignored: [(usize, &str); 2]) -> ToolOutput {
    let count = lines.len();
    lines.truncate(SHOWN);
    if count > SHOWN {
        lines.push(format!("... and {} more; use glob with a pattern", count - SHOWN));
    }
    let mut text = match count {
        0 => format!("Directory {shown} is empty."),
        _ => format!("Directory listing for {shown}:\n{}", lines.join("\n")),
    };
    let counts: Vec<String> =
        ignored.iter().filter(|(count, _)| *count > 0).map(|(count, by)| format!("{count} {by}-ignored")).collect();
    if !counts.is_empty() {
        text.push_str(&format!("\n\n({})", counts.join(", ")));
    }
    ToolOutput::text(text, format!("Listed {count} item(s)."))
}

impl Call for ListCall {
    fn accesses(&self) -> Vec<Access> {
        vec![Access::List { path: self.path.clone() }]
    }

    fn subject(&self, root: &Path) -> String {
        names::within(root, &self.path)
    }

    fn run<'a>(self: Box<Self>, grant: &'a Grant, cx: &'a ToolContext<'a>) -> CallFuture<'a> {
        Box::pin(async move {
            let location = Location::of(&self.path, grant, cx)?;
            let (shown, absolute) = (&location.shown, location.absolute());
            let failed = |cause: std::io::Error| ToolError::failed(format!("Cannot list {shown}: {cause}"));
            match location.look(cx.workspace)? {
                Some(Node::Dir) => {}
                Some(Node::File { .. } | Node::Link(_) | Node::Other) => {
                    return Err(ToolError::failed(format!("Path is not a directory: {shown}")));
                }
                None => return Err(ToolError::failed(format!("Directory not found: {shown}"))),
            }
            let rules = ignore::Rules::of_source(location.source(cx.workspace)).level(&location.path).named();
            let (mut folders, mut files) = (Vec::new(), Vec::new());
            let (mut git_ignored, mut qwen_ignored) = (0, 0);
            for name in cx.workspace.names(&absolute).map_err(failed)? {
                let is_folder = matches!(cx.workspace.look(&absolute.join(&name)), Ok(Some(Node::Dir)));
                if self.globs.is_match(&name) || (self.git && name == ".git") {
                    continue;
                }
                let kind = if is_folder { ignore::Kind::Folder } else { ignore::Kind::File };
                let ignored = rules.child(&name, kind);
                match (ignored.git && self.git, ignored.qwen) {
                    (true, _) => git_ignored += 1,
                    (false, true) => qwen_ignored += 1,
                    (false, false) if is_folder => folders.push(format!("[DIR] {}", names::one_line(name.as_ref()))),
                    (false, false) => files.push(names::one_line(name.as_ref())),
                }
            }
            let ignored = [(git_ignored, "git"), (qwen_ignored, "qwen")];
            Ok(listing(shown, folders.into_iter().chain(files).collect(), ignored))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::tests::Project;

    fn list(project: &Project, arguments: Value) -> String {
        project.says("list_directory", arguments)
    }

    #[test]
    fn folders_come_first_and_what_is_ignored_is_counted() {
        let project = Project::new(&[
            ("sub/x", b""),
            ("file1.txt", b""),
            ("B.txt", b""),
            (".hidden", b""),
            ("a.o", b""),
            ("b.o", b""),
            ("s.key2", b""),
            (".gitignore", b"*.o\n.gitignore\n"),
            (".qwenignore", b"*.key2\n.qwenignore\n"),
            (".git/HEAD", b""),
        ]);
        insta::assert_snapshot!(list(&project, json!({"path": "."})), @r"
        Directory listing for /p:
        [DIR] sub
        .hidden
        B.txt
        file1.txt

        (3 git-ignored, 2 qwen-ignored)
        ");
        insta::assert_snapshot!(list(&project, json!({"path": ".", "ignore": ["*.txt"], "file_filtering_options": {"respect_git_ignore": false}})), @r"
        Directory listing for /p:
        [DIR] .git
        [DIR] sub
        .gitignore
        .hidden
        a.o
        b.o

        (2 qwen-ignored)
        ");
    }

    #[test]
    fn an_empty_folder_a_file_and_nothing_are_told_apart() {
        let project = Project::new(&[("empty/", b""), ("a", b""), ("ig/x.o", b""), (".gitignore", b"*.o")]);
        assert_eq!(list(&project, json!({"path": "empty"})), "Directory /p/empty is empty.");
        assert_eq!(list(&project, json!({"path": "ig"})), "Directory /p/ig is empty.\n\n(1 git-ignored)");
        assert_eq!(list(&project, json!({"path": "a"})), "Path is not a directory: /p/a");
        assert_eq!(list(&project, json!({"dir_path": "none"})), "Directory not found: /p/none");
    }

    #[test]
    fn a_folder_that_was_named_is_listed_even_if_git_ignores_it() {
        let project = Project::new(&[(".gitignore", b"target/\n"), ("target/a", b"")]);
        assert_eq!(list(&project, json!({"path": "target"})), "Directory listing for /p/target:\na");
        assert_eq!(project.says("glob", json!({"pattern": "*", "path": "target"})).lines().count(), 2);
    }

    #[test]
    fn staged_files_are_listed_and_names_stay_on_their_line() {
        let project = Project::new(&[("d/a\n[DIR] b", b"")]);
        project.call("write_file", json!({"file_path": "d/new/x", "content": ""})).unwrap();
        assert_eq!(list(&project, json!({"path": "d"})), "Directory listing for /p/d:\n[DIR] new\na\\n[DIR] b");
    }
}
