//! Implements `run_shell_command`: what it asks of the command runner, and how its report reads.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::command::Variables;
use super::command::{CommandReport, CommandRequest};
use super::common::{bound, names};
use super::{
    Call, CallFuture, CommandOutcome, Display, Effects, ToolContext, ToolError, ToolOutput, TypedTool, named, whole,
};
use crate::model::Part;
use crate::policy::grant::Start;
use crate::policy::{Access, Grant};
use crate::tool_name::ToolId;

/// The tool.
pub struct RunShellCommand;

impl TypedTool for RunShellCommand {
    type Args = ShellCall;
    const ID: ToolId = ToolId::RunShellCommand;
    const EFFECTS: Effects = Effects::Runs;
    const DESCRIPTION: &'static str = "Run a bash command in the workspace. No terminal, no input.";

    fn parameters(&self) -> Value {
        json!({"type": "object", "properties": {
            "command": {"type": "string"},
            "description": {"type": "string"},
            "directory": {"type": "string", "description": "Folder to run in"},
            "timeout": {"type": "integer", "minimum": 1, "description": "Milliseconds, at most 600000"},
            "is_background": {"type": "boolean", "description": "For servers; ends with the run"}
        }, "required": ["command"]})
    }

    fn call(&self, args: ShellCall) -> Result<Box<dyn Call>, ToolError> {
        if args.command.trim().is_empty() {
            return Err(ToolError::arguments("params/command must not be empty"));
        }
        Ok(Box::new(ShellCall { directory: named(args.directory), ..args }))
    }
}

/// What the model gives.
#[derive(Deserialize)]
pub struct ShellCall {
    command: String,
    directory: Option<PathBuf>,
    /// Milliseconds.
    #[serde(default, deserialize_with = "whole")]
    timeout: Option<u64>,
    is_background: Option<bool>,
}

impl Call for ShellCall {
    fn accesses(&self) -> Vec<Access> {
        vec![Access::Run { command: self.command.clone(), directory: self.directory.clone() }]
    }

    fn subject(&self, _root: &Path) -> String {
        names::brief(&self.command)
    }

    fn run<'a>(self: Box<Self>, grant: &'a Grant, cx: &'a ToolContext<'a>) -> CallFuture<'a> {
        Box::pin(async move {
            let plan =
                grant.command().ok_or_else(|| ToolError::failed("the policy granted no command to this call"))?;
            let timeout = self
                .timeout
                .map(Duration::from_millis)
                .unwrap_or(cx.limits.shell_timeout)
                .min(cx.limits.shell_timeout_max);
            let report = cx
                .runner
                .run(
                    plan,
                    CommandRequest {
                        timeout,
                        background: self.is_background.unwrap_or(false),
                        variables: Variables::traced(cx.traced),
                    },
                )
                .await?;
            let shown = shown_command(&plan.start, &self.command);
            let directory = self.directory.as_deref().map_or("(root)".to_owned(), names::one_line);
            let text = render(&shown, &directory, &report, timeout);
            cx.workspace.notice(text.as_bytes(), true);
            let llm = bound::bound(&text, cx);
            // What is shown is remembered last: much more may have been printed than is remembered.
            cx.workspace.notice(llm.as_bytes(), true);
            let display = match (report.stdout.is_empty(), report.stderr.is_empty()) {
                (true, true) => ending(&report),
                (true, false) => plain(&report.stderr),
                (false, true) => plain(&report.stdout),
                (false, false) => format!("{}\n{}", plain(&report.stdout).trim_end(), plain(&report.stderr)),
            };
            let within = (cx.limits.output_chars, cx.limits.output_lines);
            let display = bound::cut(&display, within, &|at| cx.workspace.cut_at(&display, at))
                .map_or_else(|| display.clone(), |cut| format!("{}\n…\n{}", cut.head.trim_end(), cut.tail));
            Ok(ToolOutput {
                llm_content: vec![Part::Text(llm)],
                display: Display::Markdown(display),
                command: Some(CommandOutcome {
                    argv: report.argv,
                    exit_code: report.exit_code,
                    duration: report.duration,
                    sandboxed: report.sandboxed,
                }),
            })
        })
    }
}

/// The printed form of the command ran; if that is a list of words, the model's text says the same in fewer characters.
fn shown_command<'a>(start: &'a Start, command: &'a str) -> std::borrow::Cow<'a, str> {
    match start {
        Start::Pipeline(_) | Start::AsWritten(_) => command.into(),
        Start::Script(script) => script.as_str().into(),
    }
}

/// Writes a report in the documented form.
fn render(command: &str, directory: &str, report: &CommandReport, timeout: Duration) -> String {
    let error = if report.timed_out {
        format!(
            "Command timed out after {} ms and was killed with everything it started. A command that waits for input \
             or serves does not end here: give the input in the command, raise timeout, or set is_background",
            timeout.as_millis()
        )
    } else {
        "(none)".to_owned()
    };
    let number = |number: Option<i32>| number.map_or_else(|| "(none)".to_owned(), |number| number.to_string());
    let mut text = format!(
        "Command: {command}\nDirectory: {directory}\nStdout: {}\nStderr: {}\nError: {error}\nExit Code: {}\nSignal: {}",
        stream(&report.stdout, report.missing.stdout),
        stream(&report.stderr, report.missing.stderr),
        number(report.exit_code),
        number(report.signal),
    );
    if !report.background.pids.is_empty() {
        let pids: Vec<String> = report.background.pids.iter().map(u32::to_string).collect();
        text.push_str(&format!("\nBackground PIDs: {}", pids.join(", ")));
        if let Some(pgid) = report.background.pgid {
            text.push_str(&format!("\nProcess Group PGID: {pgid}"));
        }
    }
    if !report.changed.is_empty() {
        const SHOWN: usize = 50;
        let mut changed: Vec<String> =
            report.changed.iter().take(SHOWN).map(|name| names::one_line(name.as_ref())).collect();
        if report.changed.len() > SHOWN {
            changed.push(format!("and {} more", report.changed.len() - SHOWN));
        }
        text.push_str(&format!("\nChanged files: {}", changed.join(", ")));
    }
    for note in &report.notes {
        text.push_str(&format!("\nNote: {note}"));
    }
    text
}

fn stream(bytes: &[u8], missing: u64) -> String {
    let text = plain(bytes);
    let text = text.strip_suffix('\n').unwrap_or(&text);
    match (text.is_empty(), missing) {
        (true, 0) => "(empty)".to_owned(),
        (_, 0) => text.to_owned(),
        (_, missing) => format!("{text}\n[{missing} bytes more were not kept]"),
    }
}

fn ending(report: &CommandReport) -> String {
    match (report.timed_out, report.exit_code, report.signal) {
        (true, _, _) => "timed out".to_owned(),
        (_, Some(code), _) => format!("exit code {code}, no output"),
        (_, None, Some(signal)) => format!("ended by signal {signal}"),
        (_, None, None) => "runs in the background".to_owned(),
    }
}

/// Returns output as text: no escape sequences of terminals, no NUL; a progress line that overwrites itself keeps
/// its last state.
fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut plain = String::with_capacity(text.len());
    let mut line = 0;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\x1b' => match chars.next() {
                Some('[') => while chars.next().is_some_and(|c| !('@'..='~').contains(&c)) {},
                Some(']') => while chars.next().is_some_and(|c| c != '\x07' && c != '\x1b') {},
                Some(_) | None => {}
            },
            '\r' if chars.peek() == Some(&'\n') => {}
            '\r' if chars.peek().is_some() => plain.truncate(line),
            '\n' => {
                plain.push('\n');
                line = plain.len();
            }
            '\t' => plain.push('\t'),
            c if c.is_control() => {}
            c => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::BoxFuture;
    use crate::path::RelPath;
    use crate::policy::CommandPlan;
    use crate::policy::grant::{GitAccess, Isolation, Network, SandboxProfile, TreeAccess};
    use crate::tools::tests::Project;
    use crate::tools::{Background, CommandRunner, MissingOutput, Tool};

    fn report() -> CommandReport {
        CommandReport { stdout: b"a\nb\n".to_vec(), exit_code: Some(0), ..CommandReport::default() }
    }

    #[test]
    fn the_report_reads_as_documented() {
        insta::assert_snapshot!(render("ls", "(root)", &report(), Duration::ZERO), @r"
        Command: ls
        Directory: (root)
        Stdout: a
        b
        Stderr: (empty)
        Error: (none)
        Exit Code: 0
        Signal: (none)
        ");
    }

    #[test]
    fn background_processes_and_changes_are_named_where_there_are_any() {
        let report = CommandReport {
            stdout: vec![],
            exit_code: None,
            background: Background { pgid: Some(7), pids: vec![7, 8] },
            changed: vec!["a\nb".into()],
            notes: vec!["target/ was left out of the command workspace".into()],
            stderr: b"x".to_vec(),
            missing: MissingOutput { stdout: 0, stderr: 9 },
            ..report()
        };
        insta::assert_snapshot!(render("serve &", "sub", &report, Duration::ZERO), @r"
        Command: serve &
        Directory: sub
        Stdout: (empty)
        Stderr: x
        [9 bytes more were not kept]
        Error: (none)
        Exit Code: (none)
        Signal: (none)
        Background PIDs: 7, 8
        Process Group PGID: 7
        Changed files: a\nb
        Note: target/ was left out of the command workspace
        ");
    }

    #[test]
    fn a_timeout_says_how_to_run_it_instead() {
        let report = CommandReport { timed_out: true, exit_code: None, signal: Some(9), ..report() };
        let text = render("cat", "(root)", &report, Duration::from_secs(2));
        assert!(text.contains("Error: Command timed out after 2000 ms"), "{text}");
        assert!(text.contains("set is_background") && text.contains("Signal: 9"), "{text}");
    }

    #[test]
    fn output_is_text_without_terminal_codes() {
        assert_eq!(plain(b"\x1b[31mred\x1b[0m \x1b]0;t\x07x\r\n10%\r100%\n\0\xff"), "red x\n100%\n\u{fffd}");
    }

    struct Echo;
    impl CommandRunner for Echo {
        fn run<'a>(
            &'a self,
            _plan: &'a CommandPlan,
            request: CommandRequest,
        ) -> BoxFuture<'a, Result<CommandReport, ToolError>> {
            let stdout = format!("{} {}", request.timeout.as_millis(), request.background).into_bytes();
            Box::pin(async { Ok(CommandReport { stdout, exit_code: Some(3), ..CommandReport::default() }) })
        }
    }

    #[test]
    fn a_failing_command_is_an_answer_and_its_time_is_bounded() {
        let project = Project::new(&[]);
        let plan = CommandPlan {
            directory: RelPath::root(),
            start: Start::Pipeline(vec![vec!["x".into()]]),
            form: None,
            named: Vec::new(),
            profile: SandboxProfile { tree: TreeAccess::ReadOnly, network: Network::None, git: GitAccess::None },
            isolation: Isolation::None,
            programs: vec!["x".into()],
            unchanged: Vec::new(),
        };
        let Value::Object(arguments) = json!({"command": "x", "timeout": 900_000}) else { unreachable!() };
        let call = Tool::parse(&RunShellCommand, arguments).unwrap();
        let grant = project.grant(call.as_ref()).with_command(plan);
        let limits = crate::tools::tests::limits(project.folder.path());
        let cx = ToolContext {
            workspace: &project.workspace,
            memory: &project.memory,
            limits: &limits,
            runner: &Echo,
            text_tools: false,
            media: false,
            traced: &crate::base::trace::Context::NONE,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let output = runtime.block_on(call.run(&grant, &cx)).unwrap();
        assert!(Part::text_of(&output.llm_content).contains("Stdout: 600000 false\n"));
        assert_eq!(output.command.unwrap().exit_code, Some(3));
    }
}
