//! Implements `glob`: finds files by a pattern of their names, newest first.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use globset::{GlobBuilder, GlobMatcher};
use serde::Deserialize;
use serde_json::{Value, json};

use super::common::location::respects_git;
use super::common::{names, search};
use super::{Call, CallFuture, Effects, ToolContext, ToolError, ToolOutput, TypedTool, named};
use crate::path::RelPath;
use crate::policy::{Access, Grant};
use crate::tool_name::ToolId;
use crate::workspace::walk::{Filter, Found};

/// The tool.
pub struct Glob;

/// Characters of file names that one answer holds.
const CHARS: usize = 25_000;

impl TypedTool for Glob {
    type Args = GlobCall;
    const ID: ToolId = ToolId::Glob;
    const EFFECTS: Effects = Effects::Reads;
    const DESCRIPTION: &'static str = "Find files by name, newest first.";

    fn parameters(&self) -> Value {
        json!({"type": "object", "properties": {
            "pattern": {"type": "string", "description": "As **/*.rs or src/*.{js,ts}"},
            "path": {"type": "string", "description": "Folder to search"},
            "case_sensitive": {"type": "boolean"},
            "respect_git_ignore": {"type": "boolean"}
        }, "required": ["pattern"]})
    }

    fn call(&self, args: GlobCall) -> Result<Box<dyn Call>, ToolError> {
        if args.pattern.trim().is_empty() {
            return Err(ToolError::arguments("params/pattern must not be empty"));
        }
        // Tried here so that a wrong pattern is a wrong argument; an absolute one is known only in the workspace.
        matcher(&args.pattern, args.case_sensitive == Some(true))?;
        Ok(Box::new(GlobCall { path: named(args.path), ..args }))
    }
}

/// What the model gives.
#[derive(Deserialize)]
pub struct GlobCall {
    pattern: String,
    path: Option<PathBuf>,
    case_sensitive: Option<bool>,
    respect_git_ignore: Option<bool>,
    #[serde(default)]
    file_filtering_options: Value,
}

impl GlobCall {
    fn path(&self) -> &Path {
        self.path.as_deref().unwrap_or(Path::new("."))
    }
}

/// Compiles a pattern; one without a slash speaks of names at any depth, as in `.gitignore`.
pub(crate) fn matcher(pattern: &str, case_sensitive: bool) -> Result<GlobMatcher, ToolError> {
    let pattern = pattern.trim_start_matches("./");
    let anywhere = format!("**/{pattern}");
    let whole = if pattern.contains('/') { pattern } else { &anywhere };
    GlobBuilder::new(whole)
        .literal_separator(true)
        .case_insensitive(!case_sensitive)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| ToolError::arguments(format!("params/pattern: {error}")))
}

impl Call for GlobCall {
    fn accesses(&self) -> Vec<Access> {
        vec![Access::Search { root: self.path().to_path_buf(), patterns: vec![self.pattern.clone()] }]
    }

    fn subject(&self, root: &Path) -> String {
        names::pattern_within(&self.pattern, root, self.path())
    }

    fn run<'a>(self: Box<Self>, grant: &'a Grant, cx: &'a ToolContext<'a>) -> CallFuture<'a> {
        Box::pin(async move {
            let scope = search::Scope::new(self.path(), grant, cx)?;
            let within = names::one_line(self.path());
            let absolute = format!("{}/", names::absolute(cx.workspace.root(), self.path()).display());
            let pattern = self.pattern.strip_prefix(&absolute).unwrap_or(&self.pattern).to_owned();
            let matcher = matcher(&pattern, self.case_sensitive == Some(true))?;
            let modules_named =
                pattern.contains("node_modules") || scope.start.components().any(|part| part == b"node_modules");
            let git = respects_git(&self.file_filtering_options, self.respect_git_ignore);
            let root = scope.source.root().to_path_buf();
            let below_root = root.clone();
            let files = search::in_background(move |cancelled| {
                let start = scope.start.clone();
                let want = |path: &RelPath| matcher.is_match(below(path, &start)) && (scope.may_read)(path);
                let enter = |path: &RelPath| modules_named || path.file_name() != Some("node_modules".as_ref());
                let walk = scope.walk(&Filter { git, enter: &enter, want: &want }, cancelled);
                newest_first(&below_root, walk.files)
            })
            .await?;
            if files.is_empty() {
                let text = format!("No files found matching pattern \"{}\" within {within}", self.pattern);
                return Ok(ToolOutput::text(text, "No files found"));
            }
            let count = files.len();
            let mut text = format!(
                "Found {count} file(s) matching \"{}\" within {within}, sorted by modification time (newest first):",
                self.pattern
            );
            for (index, path) in files.iter().enumerate() {
                let line = names::one_line(&path.under(&root));
                if text.len() + line.len() > CHARS {
                    text.push_str(&format!("\n... and {} more; use a narrower pattern or path", count - index));
                    break;
                }
                text.push('\n');
                text.push_str(&line);
            }
            Ok(ToolOutput::text(text, format!("Found {count} matching file(s)")))
        })
    }
}

/// Returns a path relative to a directory above it.
pub(crate) fn below<'a>(path: &'a RelPath, folder: &RelPath) -> &'a Path {
    path.as_path().strip_prefix(folder.as_path()).unwrap_or(path.as_path())
}

/// Sorts by time of change, then by name. What this run staged is newer than anything on the disk.
fn newest_first(root: &Path, files: Vec<Found>) -> Vec<RelPath> {
    let time = |found: &Found| match found.staged {
        Some(_) => None,
        None => Some(
            std::fs::symlink_metadata(found.path.under(root))
                .and_then(|metadata| metadata.modified())
                .unwrap_or(SystemTime::UNIX_EPOCH),
        ),
    };
    let mut timed: Vec<(bool, Reverse<Option<SystemTime>>, RelPath)> = files
        .into_iter()
        .map(|found| {
            let time = time(&found);
            (time.is_some(), Reverse(time), found.path)
        })
        .collect();
    timed.sort_unstable();
    timed.into_iter().map(|(_, _, path)| path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::tests::Project;
    use std::time::Duration;

    fn glob(project: &Project, arguments: Value) -> String {
        project.says("glob", arguments)
    }

    fn aged(project: &Project, ages: &[(&str, u64)]) {
        for (name, seconds) in ages {
            let file = std::fs::File::options().append(true).open(project.folder.path().join(name)).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 - seconds)).unwrap();
        }
    }

    #[test]
    fn files_come_newest_first_then_by_name() {
        let project = Project::new(&[
            ("src/old.ts", b""),
            ("src/sub/new.ts", b""),
            ("src/b.ts", b""),
            ("src/a.TS", b""),
            ("c.ts", b""),
        ]);
        aged(&project, &[("src/old.ts", 9), ("src/sub/new.ts", 1), ("src/b.ts", 5), ("src/a.TS", 5)]);
        insta::assert_snapshot!(glob(&project, json!({"pattern": "*.ts", "path": "src"})), @r#"
        Found 4 file(s) matching "*.ts" within src, sorted by modification time (newest first):
        /p/src/sub/new.ts
        /p/src/a.TS
        /p/src/b.ts
        /p/src/old.ts
        "#);
        project.call("write_file", json!({"file_path": "src/z.ts", "content": ""})).unwrap();
        let said = glob(&project, json!({"pattern": "src/*.ts", "case_sensitive": true}));
        insta::assert_snapshot!(said, @r#"
        Found 3 file(s) matching "src/*.ts" within ., sorted by modification time (newest first):
        /p/src/z.ts
        /p/src/b.ts
        /p/src/old.ts
        "#);
    }

    #[test]
    fn patterns_know_braces_and_any_depth() {
        let project = Project::new(&[("a/b/c.rs", b""), ("a/c.js", b""), ("d.ts", b"")]);
        let count = |pattern: &str| glob(&project, json!({"pattern": pattern})).lines().count() - 1;
        assert_eq!(count("**/*.{rs,js}"), 2);
        assert_eq!(count("**"), 3);
        assert_eq!(count("a/**/*.rs"), 1);
        assert_eq!(count("./a/*"), 1);
        assert_eq!(count(&format!("{}/a/*", project.workspace.root().display())), 1);
        assert_eq!(
            glob(&project, json!({"pattern": "*.X", "path": "a"})),
            "No files found matching pattern \"*.X\" within a"
        );
        assert!(glob(&project, json!({"pattern": "a{"})).starts_with("params/pattern: "));
    }

    #[test]
    fn what_is_ignored_or_denied_is_left_out() {
        let project = Project::new(&[
            (".git/config", b""),
            (".gitignore", b"*.o\n"),
            (".qwenignore", b"q\n"),
            ("x.o", b""),
            ("q", b""),
            (".env", b""),
            ("node_modules/m/i.js", b""),
        ]);
        let files = |arguments: Value| glob(&project, arguments).lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
        let mut all = files(json!({"pattern": "**"}));
        all.sort();
        assert_eq!(all, ["/p/.gitignore", "/p/.qwenignore"]);
        assert_eq!(files(json!({"pattern": "*.o", "respect_git_ignore": false})), ["/p/x.o"]);
        let options = json!({"respect_git_ignore": false});
        assert_eq!(files(json!({"pattern": "*.o", "file_filtering_options": options})), ["/p/x.o"]);
        assert_eq!(files(json!({"pattern": "node_modules/**"})), ["/p/node_modules/m/i.js"]);
        assert_eq!(files(json!({"pattern": "*.js", "path": "node_modules"})), ["/p/node_modules/m/i.js"]);
    }
}
