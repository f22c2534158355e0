//! `/name args` as a prompt: the command's file found, its template filled, what it wants run and read under the policy.

use std::path::Path;

use serde_json::json;

use crate::agent::invoke::Hooks as _;
use crate::event::Event;
use crate::exit::Exit;
use crate::hidden::without_hidden;
use crate::model::Part;
use crate::path::RelPath;
use crate::policy::{Access, Policy};
use crate::prompt::command::{Command, Segment, called, name_of, printed_variable};
use crate::prompt::context_files::Library as _;
use crate::settings::Environment;
use crate::tools::CommandRequest;
use crate::yaml;

use super::Failure;
use super::library::Folder;
use super::task::Task;
use super::trust::{Source, Trusted};

/// Commands that are listed at most, for the nearest name.
const LISTED: usize = 500;

/// Characters of one command's output in a prompt.
const OUTPUT: usize = 100_000;

/// The folders that hold commands; the first one that has a name counts.
pub struct Commands {
    places: Vec<Place>,
    environment: Environment,
}

struct Place {
    library: Folder,
    folder: RelPath,
    shown: &'static str,
    trusted: bool,
}

/// A command that was called, and what it came to.
pub struct Expanded {
    /// The prompt.
    pub text: String,
    /// Images and documents that it includes.
    pub media: Vec<Part>,
    /// What happened on the way.
    pub events: Vec<Event>,
}

impl Commands {
    /// No commands at all (`--bare`).
    pub fn none() -> Commands {
        Commands { places: Vec::new(), environment: Environment::default() }
    }

    /// The user's and the project's commands. The project's come first, unless they are not trusted.
    pub fn of(environment: &Environment, top: &Path, trusted: &Trusted, policy: &Policy) -> Commands {
        let home = environment.home.as_ref().map(|home| home.display().to_string()).unwrap_or_default();
        let folder = RelPath::new(".qwen/commands").expect("it is a path below the root");
        // Opened only where there are any: a prompt is rarely a call.
        let is_there = match trusted.source() {
            Source::Disk => folder.under(top).is_dir(),
            Source::Commit(_) => true,
            Source::Nowhere => false,
        };
        let library = is_there.then(|| Folder::of_project(trusted.source(), top, &home, policy)).flatten();
        let counts = trusted.checkout || trusted.tree.is_some();
        let project = library.map(|library| Place { library, folder, shown: ".qwen/commands", trusted: counts });
        let user = environment.home.as_ref().and_then(|home_folder| {
            let folder = RelPath::new("commands")?;
            let root = home_folder.join(".qwen");
            let is_there = folder.under(&root).is_dir();
            let library = is_there.then(|| Folder::open(&root, &home, policy)).flatten()?;
            Some(Place { library, folder, shown: "~/.qwen/commands", trusted: true })
        });
        let places = if counts { [project, user] } else { [user, project] };
        Commands { places: places.into_iter().flatten().collect(), environment: environment.clone() }
    }

    /// Expands a prompt that calls a command; `None` for any other prompt.
    pub async fn expand(&self, prompt: &str, task: &Task<'_>) -> Result<Option<Expanded>, Failure> {
        let Some((name, arguments)) = called(prompt) else { return Ok(None) };
        let Some((place, path)) = self.find(name) else { return Err(self.unknown(name)) };
        let file = path.to_string_lossy();
        let shown = format!(
            "{}/{}",
            place.shown,
            RelPath::below(place.folder.as_path(), path.as_path()).map_or(file, |below| below.to_string_lossy())
        );
        let wrong = |problem: String| {
            Failure::new(Exit::Input, problem, "correct the file; docs/from-qwen-code.md shows what a command may say")
        };
        let text = place.library.read(&path).map_err(|why| wrong(format!("{shown}: {why}")))?;
        let (text, hidden) = without_hidden(&text);
        let command = Command::parse(&shown, &text).map_err(wrong)?;
        let mut expanded = Expanded { text: String::new(), media: Vec::new(), events: Vec::new() };
        for message in &command.warnings {
            expanded.events.push(Event::Warning { message: message.clone() });
        }
        if hidden > 0 {
            let message = format!("{shown}: {hidden} characters that nobody sees were taken out");
            expanded.events.push(Event::Warning { message });
        }
        for segment in command.segments(name, arguments).map_err(wrong)? {
            match segment {
                Segment::Text(text) => expanded.text.push_str(&text),
                Segment::File(path) => match task.include(&path).await? {
                    None => {
                        return Err(Failure::new(
                            Exit::Input,
                            format!(
                                "{shown} includes @{{{path}}}, which is no file, folder or pattern of the workspace"
                            ),
                            "correct the command",
                        ));
                    }
                    Some(parts) => {
                        for part in parts {
                            match part {
                                Part::Text(text) => expanded.text.push_str(&text),
                                Part::Media { .. } => expanded.media.push(part),
                            }
                        }
                    }
                },
                Segment::Shell(command) if !place.trusted => {
                    let message = format!(
                        "{shown}: !{{{command}}} left out: this checkout is not trusted (`qwen policy trust`, or --trust-checkout)"
                    );
                    expanded.text.push_str("[left out: this checkout is not trusted to run commands]");
                    expanded.events.push(Event::Warning { message });
                }
                Segment::Shell(command) => self.run(&command, &shown, task, &mut expanded).await?,
            }
        }
        Ok(Some(expanded))
    }

    fn find(&self, name: &str) -> Option<(&Place, RelPath)> {
        self.places.iter().find_map(|place| {
            let stem = name.replace(':', "/");
            let mut files = ["toml", "md"].iter().filter_map(|ending| place.folder.join(format!("{stem}.{ending}")));
            let path = files.find(|path| path.is_under(&place.folder) && place.library.has(path))?;
            Some((place, path))
        })
    }

    /// Returns the names of all commands, without the slash.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .places
            .iter()
            .flat_map(|place| {
                let files = place.library.files(&place.folder, &[".toml", ".md"], LISTED);
                files.into_iter().filter_map(|file| name_of(&RelPath::below(place.folder.as_path(), file.as_path())?))
            })
            .collect();
        names.sort();
        names.dedup();
        names
    }

    fn unknown(&self, name: &str) -> Failure {
        let names = self.names();
        let hint = match yaml::nearest(name, names.iter().map(String::as_str)) {
            Some(near) => format!("did you mean /{near}?"),
            None if names.is_empty() => {
                "commands stand in .qwen/commands or ~/.qwen/commands; a prompt that begins with a slash and is none begins with a blank line or a word".into()
            }
            None => format!("there is {}", names.iter().take(20).map(|name| format!("/{name}")).collect::<Vec<_>>().join(", ")),
        };
        Failure::new(Exit::Input, format!("there is no command /{name}"), hint)
    }

    /// Runs `!{command}` as the tool would, under the same policy and in the same tree.
    async fn run(&self, command: &str, shown: &str, task: &Task<'_>, expanded: &mut Expanded) -> Result<(), Failure> {
        let variable = printed_variable(command);
        // What prints a variable needs no shell; whether it may be asked for is still the policy's to say.
        let judged = if variable.is_some() { "echo x".to_owned() } else { command.to_owned() };
        let (decision, grant) =
            task.judge.authorize("run_shell_command", &[Access::Run { command: judged, directory: None }]);
        let plan = grant.as_ref().and_then(|grant| grant.command());
        let Some(plan) = plan else {
            let mut failure = Failure::new(
                Exit::Denied,
                format!("{shown} wants to run `{command}`: {}", decision.reason),
                decision
                    .hint
                    .unwrap_or_else(|| "allow it in the policy, or with --allowed-tools 'run_shell_command(…)'".into()),
            );
            failure.error.code = "denied".into();
            return Err(failure);
        };
        let input = json!({ "command": command });
        if let Some(hooks) = &task.hooks
            && let Some(reason) = hooks.before("run_shell_command", &input).await
        {
            let message = format!("{shown} wants to run `{command}`: a hook blocks it: {reason}");
            let mut failure = Failure::new(Exit::Denied, message, "see `hooks` in the settings");
            failure.error.code = "hook".into();
            return Err(failure);
        }
        if let Some(name) = variable {
            let value = self.environment.value(name);
            if value.is_none() {
                let message = format!("{shown}: the variable {name} is not set");
                expanded.events.push(Event::Warning { message });
            }
            let (value, _) = without_hidden(&value.unwrap_or_default());
            expanded.text.push_str(value.trim_end_matches('\n'));
            return Ok(());
        }
        let request = CommandRequest {
            timeout: task.context.limits.shell_timeout,
            background: false,
            ..CommandRequest::default()
        };
        let report = task.context.runner.run(plan, request).await.map_err(|error| {
            Failure::new(Exit::Input, format!("{shown}: `{command}`: {}", error.message), "correct the command")
        })?;
        expanded.events.push(Event::Command {
            argv: report.argv.clone(),
            exit_code: report.exit_code,
            duration_ms: u64::try_from(report.duration.as_millis()).unwrap_or(u64::MAX),
            sandboxed: report.sandboxed,
        });
        let output = String::from_utf8_lossy(&report.stdout);
        if let Some(hooks) = &task.hooks
            && let Some(said) =
                hooks.after("run_shell_command", &input, output.to_string(), report.exit_code != Some(0)).await
        {
            expanded.text.push_str(&format!("[A hook of the user's says: {said}]\n"));
        }
        let (output, _) = without_hidden(&output);
        let end = output.floor_char_boundary(OUTPUT);
        expanded.text.push_str(output[..end].trim_end_matches('\n'));
        if end < output.len() || report.stdout_missing > 0 {
            expanded.text.push_str("\n[the output is longer and was cut]");
        }
        if report.exit_code != Some(0) {
            let how = match (report.timed_out, report.exit_code) {
                (true, _) => "its time ran out".to_owned(),
                (false, Some(code)) => format!("it ended with {code}"),
                (false, None) => "a signal ended it".to_owned(),
            };
            let (error, _) = without_hidden(&String::from_utf8_lossy(&report.stderr));
            let end = error.floor_char_boundary(4_000);
            expanded.text.push_str(&format!("\n[`{command}`: {how}]\n{}", error[..end].trim_end()));
            expanded.events.push(Event::Warning { message: format!("{shown}: `{command}`: {how}") });
        }
        Ok(())
    }
}
