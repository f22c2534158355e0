//! Implements `save_memory`: appends a fact to the project's context file, staged like any write.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

use super::common::names;
use super::{Call, CallFuture, Effects, ToolContext, ToolError, ToolOutput, TypedTool};
use crate::bounded;
use crate::change::Entry;
use crate::change::diff;
use crate::change::text::{Decoded, LineEnd};
use crate::policy::{Access, Grant};
use crate::tool_name::ToolId;
use crate::workspace::WorkspaceError;

/// The tool.
pub struct SaveMemory;

const FILE: &str = "QWEN.md";
const SECTION: &str = "## Qwen Added Memories";

impl TypedTool for SaveMemory {
    type Args = MemoryArgs;
    const ID: ToolId = ToolId::SaveMemory;
    const EFFECTS: Effects = Effects::Other;
    const DESCRIPTION: &'static str = "Remember a fact for later runs, in QWEN.md. Only when asked to.";

    fn parameters(&self) -> Value {
        json!({"type": "object", "properties": {
            "fact": {"type": "string"},
            "scope": {"type": "string", "enum": ["project", "global"]}
        }, "required": ["fact"]})
    }

    fn call(&self, args: MemoryArgs) -> Result<Box<dyn Call>, ToolError> {
        // One fact is one list item: a line break would let it write headings and sections of its own.
        let fact = args.fact.split_whitespace().collect::<Vec<_>>().join(" ");
        let fact = fact.trim_start_matches(['-', ' ']).to_owned();
        if fact.is_empty() {
            return Err(ToolError::arguments("params/fact must be a non-empty string"));
        }
        match args.scope {
            // A run writes nothing outside its workspace, so there is no way to the user's own file.
            Some(Scope::Global) => Err(ToolError::arguments(
                "params/scope must be project: a run writes only inside its workspace, and ~/.qwen/QWEN.md is not",
            )),
            Some(Scope::Project) | None => Ok(Box::new(MemoryCall { fact })),
        }
    }
}

/// What the model gives.
#[derive(Deserialize)]
pub struct MemoryArgs {
    fact: String,
    scope: Option<Scope>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Scope {
    Project,
    Global,
}

struct MemoryCall {
    fact: String,
}

impl Call for MemoryCall {
    fn accesses(&self) -> Vec<Access> {
        vec![Access::Memory { path: PathBuf::from(FILE) }]
    }

    fn subject(&self, _root: &Path) -> String {
        names::brief(&self.fact)
    }

    fn run<'a>(self: Box<Self>, grant: &'a Grant, cx: &'a ToolContext<'a>) -> CallFuture<'a> {
        Box::pin(async move {
            let given = Path::new(FILE);
            let shown = names::shown(cx, given);
            let failed = |error: WorkspaceError| names::file_error(&error, &shown);
            let path = grant.writable(given).ok_or_else(|| failed(WorkspaceError::NotGranted(given.into())))?;
            let (before, executable) = match cx.workspace.entry_within(path, bounded::PROMPT).map_err(failed)? {
                Entry::File { content, executable } => match Decoded::from_bytes(&content) {
                    Some(decoded) => (decoded, executable),
                    None => return Err(ToolError::failed(format!("{shown} is not a text file"))),
                },
                Entry::Absent => (Decoded::new_file(), false),
                Entry::Link { .. } => return Err(failed(WorkspaceError::NotAFile(given.into()))),
            };
            let after = LineEnd::of(&before.text).apply(&remembered(&before.text, &self.fact));
            let content = before.encode(&after).map_err(|error| ToolError::failed(format!("{shown}: {error}")))?;
            let diff = diff::of_text(FILE, &before.text, &after);
            cx.workspace.write(grant, given, Entry::File { content: content.into(), executable }).map_err(failed)?;
            Ok(ToolOutput::diff(format!("Okay, I've remembered that in project memory: \"{}\"", self.fact), diff))
        })
    }
}

/// Appends `- fact` at the end of the section, which is made at the end of the text where it is missing.
fn remembered(text: &str, fact: &str) -> String {
    let heading = text.lines().position(|line| line.trim_end() == SECTION);
    let Some(heading) = heading else {
        let gap = match text {
            "" => "",
            text if text.ends_with("\n\n") => "",
            text if text.ends_with('\n') => "\n",
            _ => "\n\n",
        };
        return format!("{text}{gap}{SECTION}\n- {fact}\n");
    };
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let is_heading = |line: &&str| line.starts_with("# ") || line.starts_with("## ");
    let end = lines[heading + 1..].iter().position(is_heading).map_or(lines.len(), |at| heading + 1 + at);
    let last = lines[..end].iter().rposition(|line| !line.trim().is_empty()).unwrap_or(heading);
    let mut head = lines[..=last].concat();
    if !head.ends_with('\n') {
        head.push('\n');
    }
    format!("{head}- {fact}\n{}", lines[last + 1..].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::tests::Project;

    #[test]
    fn a_fact_goes_to_the_end_of_its_section() {
        assert_eq!(remembered("", "a"), "## Qwen Added Memories\n- a\n");
        assert_eq!(remembered("# P", "a"), "# P\n\n## Qwen Added Memories\n- a\n");
        let text = "## Qwen Added Memories\n- a\n\n## Other\nx\n";
        assert_eq!(remembered(text, "b"), "## Qwen Added Memories\n- a\n- b\n\n## Other\nx\n");
        assert_eq!(remembered("## Qwen Added Memories", "b"), "## Qwen Added Memories\n- b\n");
    }

    #[test]
    fn a_fact_is_staged_and_confirmed() {
        let project = Project::new(&[]);
        let said = project.says("save_memory", json!({"fact": " - tests run\nwith nextest "}));
        assert_eq!(said, "Okay, I've remembered that in project memory: \"tests run with nextest\"");
        assert_eq!(project.staged("QWEN.md").unwrap(), b"## Qwen Added Memories\n- tests run with nextest\n");
        assert!(!project.folder.path().join("QWEN.md").exists());
    }

    #[test]
    fn nothing_is_written_outside_the_workspace() {
        let said = Project::new(&[]).says("save_memory", json!({"fact": "a", "scope": "global"}));
        assert!(said.starts_with("params/scope must be project"), "{said}");
    }
}
