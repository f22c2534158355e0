//! Lets a language's own program check the syntax of a file that a call has just written, where the policy allows it.

use std::time::Duration;

use super::{Invoker, TurnContext};
use crate::agent::Emit;
use crate::agent::events::millis;
use crate::change::{ChangeSet, Entry};
use crate::event::Event;
use crate::model::Part;
use crate::path::RelPath;
use crate::policy::Access;
use crate::policy::grant::{CommandPlan, SandboxProfile, TreeAccess};
use crate::tool_name::ToolId;
use crate::tools::command::{CommandReport, CommandRequest};
use crate::tools::common::memory;
use crate::tools::{Assignment, ToolError, ToolOutput};

/// How long a check may take; one that takes longer says nothing.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The largest file that is checked, in bytes.
const MOST_BYTES: usize = 256 << 10;

/// Bytes of what the check says.
const SHOWN: usize = 600;

/// Endings, the command that checks such a file, and what it says of text that is none of its language.
const CHECKS: [(&str, &str, &[&str]); 6] = [
    ("py", "python3 -I -m py_compile", &["SyntaxError", "IndentationError", "TabError"]),
    ("js mjs cjs", "node --check", &["SyntaxError"]),
    ("sh bash", "bash -n", &["syntax error", "unexpected"]),
    ("rb", "ruby -c", &["syntax error", "SyntaxError"]),
    ("php", "php -l", &["Parse error", "syntax error"]),
    ("go", "gofmt -e -l", &["expected", "not terminated", "illegal"]),
];

/// What `node --check` says of a module that it takes for a script.
const NOT_A_SCRIPT: [&str; 3] = ["outside a module", "Unexpected token 'export'", "await is only valid"];

impl Invoker<'_> {
    /// Adds to the answer of a call that wrote a file what its language's own check says of it.
    pub(super) async fn with_language_check(
        &self,
        name: &str,
        outcome: Result<ToolOutput, ToolError>,
        (changed, before): (&[RelPath], &ChangeSet),
        turn: TurnContext<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let mut output = outcome?;
        let [path] = changed else { return Ok(output) };
        let memory = self.context.memory;
        // Our own readers have found what is wrong with a file that they know. A hook is asked about the model's commands only.
        if [ToolId::Edit, ToolId::WriteFile].iter().any(|tool| tool.name() == name)
            && !memory::is_broken(memory, path)
            && self.hooks.is_none()
            && let Some(fault) = self.language_fault(path, before, turn).await
        {
            output.llm_content.push(Part::Text(format!("\n{fault}\nCorrect it.")));
            memory::note_fault(memory, path, Some(fault));
        }
        Ok(output)
    }

    /// Returns the changed files that a call broke and no later one has mended, each with what was said of that.
    fn broken_files(&self) -> Vec<(RelPath, String)> {
        let changes = self.context.workspace.changes();
        let broken = self.context.memory.broken.lock().expect("nothing panics while it holds the map");
        let seen = self.context.memory.seen.lock().expect("nothing panics while it holds the map");
        // A command may have mended it since.
        let is_as_left = |path: &RelPath| {
            let after = changes.get(path).and_then(|change| change.after.content());
            after.is_some_and(|content| seen.get(path) == Some(&memory::hash(content)))
        };
        let left = broken.iter().filter(|(path, _)| is_as_left(path));
        left.map(|(path, fault)| (path.clone(), fault.clone())).collect()
    }

    /// Returns the question about files that are still broken when the model gives its answer.
    pub(crate) fn question_of_fault(&self, task: &Assignment) -> Option<String> {
        let broken = self.broken_files();
        let faults: Vec<String> =
            broken.iter().map(|(path, fault)| format!("{path} is still broken. {fault}")).collect();
        let task = Some(task.short().trim()).filter(|task| !task.is_empty());
        let task = task.map(|task| format!(" The task: {task}")).unwrap_or_default();
        (!faults.is_empty()).then(|| {
            self.masked(format!(
                "{}\nYour answer changed nothing. Make the call that corrects it.{task}",
                faults.join("\n")
            ))
        })
    }

    /// Says which files the run leaves broken.
    pub(crate) fn warn_of_fault(&self, emit: Emit<'_>) {
        for (path, fault) in self.broken_files() {
            emit(Event::Warning { message: self.masked(format!("{path} is left so: {fault}")) });
        }
    }

    /// Returns what the model reads of a file that its language's own check refuses now and did not before this call.
    async fn language_fault(&self, path: &RelPath, before: &ChangeSet, turn: TurnContext<'_>) -> Option<String> {
        let (command, marks) = command_of(path)?;
        let workspace = self.context.workspace;
        let now = workspace.changes();
        let change = now.get(path)?;
        let after = change.after.content()?;
        if after.is_empty() || after.len() > MOST_BYTES {
            return None;
        }
        let report = self.check_with(&command).await?;
        let said = refusal(&report, marks)?;
        // A part of a secret would not be known for one.
        let (end, _) = workspace.cut_at(&said, said.floor_char_boundary(SHOWN));
        let said = &said[..end];
        let was_there = *before.staged(path).unwrap_or(&change.before) != Entry::Absent;
        if was_there {
            workspace.take_back(before.clone());
            let earlier = self.check_with(&command).await;
            workspace.take_back(now);
            if earlier.is_none_or(|report| refusal(&report, marks).is_some()) {
                return None;
            }
        }
        (turn.emit)(Event::Command {
            argv: report.argv.clone(),
            exit_code: report.exit_code,
            duration_ms: millis(report.duration),
            sandboxed: report.sandboxed,
        });
        let since = if was_there { ", which passed before this change," } else { "" };
        Some(format!("`{command}`{since} says:\n{said}"))
    }

    /// Runs a check; `None` if the policy does not allow it, or it did not end.
    async fn check_with(&self, command: &str) -> Option<CommandReport> {
        let access = Access::Run { command: command.to_owned(), directory: None };
        let (_, grant) = self.judge.authorize(ToolId::RunShellCommand.name(), &[access]);
        let request = CommandRequest { timeout: TIMEOUT, ..CommandRequest::default() };
        // It looks: a cache that it would write is no part of the change.
        let plan = grant?.command()?.clone();
        let profile = SandboxProfile { tree: TreeAccess::ReadOnly, ..plan.profile };
        let report = self.context.runner.run(&CommandPlan { profile, ..plan }, request).await.ok();
        let _its_own = self.context.workspace.take_refusals();
        report.filter(|report| !report.timed_out)
    }
}

/// Returns the command that checks a file, and the marks of its refusals; `None` where there is none, or the name would need
/// quotes.
fn command_of(path: &RelPath) -> Option<(String, &'static [&'static str])> {
    let ending = path.as_path().extension()?.to_str()?;
    let name = path.as_path().to_str()?;
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._/-".contains(&byte));
    let (_, command, marks) = CHECKS.iter().find(|(endings, ..)| endings.split(' ').any(|known| known == ending))?;
    (is_plain && !name.starts_with('-')).then(|| (format!("{command} {name}"), *marks))
}

/// Returns what a check says of a syntax error; `None` if it passed, or failed for another reason.
fn refusal(report: &CommandReport, marks: &[&str]) -> Option<String> {
    if report.exit_code.is_none_or(|code| code == 0 || code >= 126) {
        return None;
    }
    let said = [&report.stdout, &report.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat();
    if !marks.iter().any(|mark| said.contains(mark)) || NOT_A_SCRIPT.iter().any(|words| said.contains(words)) {
        return None;
    }
    let lines = said
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with("    at ") && !line.starts_with("Node.js"));
    Some(lines.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_name_has_its_command() {
        let command = |path: &str| command_of(&RelPath::new(path).unwrap()).map(|(command, _)| command);
        assert_eq!(command("src/a.py").as_deref(), Some("python3 -I -m py_compile src/a.py"));
        assert_eq!(command("a.mjs").as_deref(), Some("node --check a.mjs"));
        for path in ["a.rs", "a", "a b.py", "-c.py", "a$(x).sh"] {
            assert_eq!(command(path), None, "{path}");
        }
    }

    #[test]
    fn only_a_syntax_error_is_a_refusal() {
        let report = |code: i32, text: &str| CommandReport {
            exit_code: Some(code),
            stderr: text.as_bytes().to_vec(),
            ..CommandReport::default()
        };
        let said = "/w/a.js:1\nx = ;\n    ^\n\nSyntaxError: Unexpected token ';'\n    at wrapSafe (x)\n\nNode.js v20\n";
        let shown = "/w/a.js:1\nx = ;\n    ^\nSyntaxError: Unexpected token ';'";
        assert_eq!(refusal(&report(1, said), &["SyntaxError"]).as_deref(), Some(shown));
        assert_eq!(refusal(&report(0, said), &["SyntaxError"]), None);
        assert_eq!(refusal(&report(127, said), &["SyntaxError"]), None);
        assert_eq!(refusal(&report(1, "out of memory"), &["SyntaxError"]), None);
        let module = "SyntaxError: Cannot use import statement outside a module";
        assert_eq!(refusal(&report(1, module), &["SyntaxError"]), None);
    }
}
