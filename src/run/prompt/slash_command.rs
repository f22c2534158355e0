//! Expands `/name args`: finds the command's file, fills its template, and runs and reads what it names under the
//! policy.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;

use crate::agent::invoke::Hooks as _;
use crate::base::cut;
use crate::base::document::yaml;
use crate::base::trace::Context;
use crate::event::Event;
use crate::hidden::without_hidden;
use crate::model::Part;
use crate::path::RelPath;
use crate::policy::{Access, Policy};
use crate::prompt::command::{Command, CommandFileError, Segment, called, name_of, printed_variable};
use crate::prompt::context_files::Library as _;
use crate::settings::Environment;
use crate::tool_name::ToolId;
use crate::tools::skill::{instructions, refusal};
use crate::tools::{CommandReport, CommandRequest};

use crate::run::error::Failure;
use crate::run::error::PromptError;
use crate::run::prompt::included::Reader;
use crate::run::prompt::library::Folder;
use crate::run::rules::trust::{Source, Trusted};

/// The tool under whose rules commands of a prompt run.
const SHELL: &str = ToolId::RunShellCommand.name();

/// Maximum commands that are listed, to suggest the nearest name.
const LISTED: usize = 500;

/// The end of a skill's path.
const SKILL: &str = "/SKILL.md";

/// Maximum characters of one command's output in a prompt.
const OUTPUT: usize = 100_000;

/// Commands of Qwen Code that are not available, with their replacement.
const OTHERS: [(&str, &str); 12] = [
    ("agents", "agents are files: .qwen/agents/NAME.md"),
    ("auth", "set OPENAI_API_KEY, or run `qwen mcp auth NAME` for a server"),
    ("compress", "the conversation is compacted automatically"),
    ("help", "run `qwen --help`"),
    ("init", "write QWEN.md by hand, or ask for it in a prompt"),
    ("mcp", "run `qwen mcp list -v`, and `qwen mcp auth NAME` to sign in"),
    ("memory", "the memory is QWEN.md: edit the file"),
    ("model", "name the model with -m"),
    ("resume", "use --continue or --resume ID"),
    ("skills", "skills are files, and /NAME loads one: .qwen/skills/NAME/SKILL.md"),
    ("stats", "see `usage` and `stats` in the result: -o result"),
    ("tools", "run `qwen tools list`"),
];

/// The directories with commands and skills; the first one that has a name counts, commands before skills.
pub struct Commands {
    places: Vec<Place>,
    environment: Environment,
}

struct Place {
    library: Arc<Folder>,
    folder: RelPath,
    shown: String,
    trusted: bool,
    /// Whether it holds skills: directories with a `SKILL.md`.
    skills: bool,
}

/// Returns the opened library, or opens it.
fn opened(known: &mut Option<Arc<Folder>>, open: impl FnOnce() -> Option<Arc<Folder>>) -> Option<Arc<Folder>> {
    if known.is_none() {
        *known = open();
    }
    known.clone()
}

impl Place {
    fn file_of(&self, name: &str) -> Option<RelPath> {
        let named = |file: String| {
            let path = self.folder.join(file)?;
            (path.is_under(&self.folder) && self.library.has(&path)).then_some(path)
        };
        match self.skills {
            true => named(format!("{name}{SKILL}")).filter(|_| !name.contains(['/', '.'])),
            false => {
                let stem = name.replace(':', "/");
                ["toml", "md"].iter().find_map(|ending| named(format!("{stem}.{ending}")))
            }
        }
    }

    fn names(&self) -> Vec<String> {
        let endings: &[&str] = if self.skills { &["SKILL.md"] } else { &[".toml", ".md"] };
        let name = |file: RelPath| {
            let below = RelPath::below(self.folder.as_path(), file.as_path())?;
            match self.skills {
                true => Some(below.to_string_lossy().strip_suffix(SKILL)?.to_owned()),
                false => name_of(&below),
            }
        };
        self.library.files(&self.folder, endings, LISTED).into_iter().filter_map(name).collect()
    }
}

/// A command that was called, and its result.
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
        let home = environment.home_text();
        let counts = trusted.checkout || trusted.tree.is_some();
        let (mut of_project, mut of_user) = (None, None);
        let mut places = Vec::new();
        for kind in ["commands", "skills"] {
            let project = RelPath::new(format!(".qwen/{kind}")).and_then(|folder| {
                // Opened only if any exist, and once: a prompt is rarely a call.
                let is_there = match trusted.source() {
                    Source::Disk => folder.under(top).is_dir(),
                    Source::Commit(_) => true,
                    Source::Nowhere => false,
                };
                let open = || Folder::of_project(trusted.source(), top, &home, policy).map(Arc::new);
                let library = is_there.then(|| opened(&mut of_project, open)).flatten()?;
                Some(Place {
                    library,
                    folder,
                    shown: format!(".qwen/{kind}"),
                    trusted: counts,
                    skills: kind == "skills",
                })
            });
            let user = environment.home.as_ref().and_then(|home_folder| {
                let root = home_folder.join(".qwen");
                let folder = RelPath::new(kind)?;
                let open = || Folder::open(&root, &home, policy).map(Arc::new);
                let library = folder.under(&root).is_dir().then(|| opened(&mut of_user, open)).flatten()?;
                Some(Place {
                    library,
                    folder,
                    shown: format!("~/.qwen/{kind}"),
                    trusted: true,
                    skills: kind == "skills",
                })
            });
            places.extend(if counts { [project, user] } else { [user, project] }.into_iter().flatten());
        }
        Commands { places, environment: environment.clone() }
    }

    /// Tells whether a prompt calls one of the commands or skills.
    pub fn has(&self, prompt: &str) -> bool {
        called(prompt).is_some_and(|(name, _)| self.places.iter().any(|place| place.file_of(name).is_some()))
    }

    /// Expands a prompt that calls a command; `None` for any other prompt.
    pub async fn expand(&self, prompt: &str, reader: &Reader<'_>) -> Result<Option<Expanded>, Failure> {
        let Some((name, arguments)) = called(prompt) else { return Ok(None) };
        let found = self.places.iter().find_map(|place| Some((place, place.file_of(name)?)));
        let Some((place, path)) = found else { return Err(self.unknown(name).into()) };
        let file = path.to_string_lossy();
        let shown = format!(
            "{}/{}",
            place.shown,
            RelPath::below(place.folder.as_path(), path.as_path()).map_or(file, |below| below.to_string_lossy())
        );
        let unusable = |why| PromptError::CommandFile(CommandFileError::Unusable { file: shown.clone(), why });
        let text = place.library.read(&path).map_err(unusable)?;
        let (text, hidden) = without_hidden(&text);
        let mut expanded = Expanded { text: String::new(), media: Vec::new(), events: Vec::new() };
        if hidden > 0 {
            let message = format!("{shown}: {hidden} invisible characters were removed");
            expanded.events.push(Event::Warning { message });
        }
        if place.skills {
            if let Some(why) = refusal(&text) {
                return Err(unusable(why.to_string()).into());
            }
            expanded.text = format!("{}\n\n{arguments}", instructions(&text).trim()).trim_end().to_owned();
            return Ok(Some(expanded));
        }
        let command = Command::parse(&shown, &text).map_err(PromptError::CommandFile)?;
        for message in &command.warnings {
            expanded.events.push(Event::Warning { message: message.clone() });
        }
        let segments = command.segments(name, arguments).map_err(PromptError::CommandFile)?;
        self.fill(segments, &shown, place.trusted, reader, &mut expanded).await?;
        Ok(Some(expanded))
    }

    /// Writes the segments of a command, with what its files and programs say.
    async fn fill(
        &self,
        segments: Vec<Segment>,
        shown: &str,
        trusted: bool,
        reader: &Reader<'_>,
        expanded: &mut Expanded,
    ) -> Result<(), Failure> {
        for segment in segments {
            match segment {
                Segment::Text(text) => expanded.text.push_str(&text),
                Segment::File(path) => match reader.include(&path).await? {
                    None => {
                        return Err(PromptError::CommandInclude { file: shown.to_owned(), path }.into());
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
                Segment::Shell(command) if !trusted => {
                    let message = format!(
                        "{shown}: !{{{command}}} left out: this checkout is not trusted (`qwen policy trust`, or --trust-checkout)"
                    );
                    expanded.text.push_str("[left out: this checkout is not trusted to run commands]");
                    expanded.events.push(Event::Warning { message });
                }
                Segment::Shell(command) => self.run(&command, shown, reader, expanded).await?,
            }
        }
        Ok(())
    }

    /// Returns the names of all commands and skills, without the slash.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.places.iter().flat_map(Place::names).collect();
        names.sort();
        names.dedup();
        names
    }

    fn unknown(&self, name: &str) -> PromptError {
        let names = self.names();
        if let Some((_, instead)) = OTHERS.iter().find(|(other, _)| *other == name) {
            return PromptError::OtherCommand { name: name.to_owned(), instead };
        }
        let hint = match yaml::nearest(name, names.iter().map(String::as_str)) {
            Some(near) => format!("did you mean /{near}?"),
            None if names.is_empty() => {
                "write the command in .qwen/commands or ~/.qwen/commands; start a prompt that is not a command with \
                 a word or an empty line"
                    .into()
            }
            None => format!(
                "there is {}",
                names.iter().take(20).map(|name| format!("/{name}")).collect::<Vec<_>>().join(", ")
            ),
        };
        PromptError::UnknownCommand { name: name.to_owned(), hint }
    }

    /// Runs `!{command}` like the tool, under the same policy and in the same tree.
    async fn run(
        &self,
        command: &str,
        shown: &str,
        reader: &Reader<'_>,
        expanded: &mut Expanded,
    ) -> Result<(), Failure> {
        let (file, run) = (shown.to_owned(), command.to_owned());
        let variable = printed_variable(command);
        // Printing a variable needs no shell; the policy still decides whether it may be read.
        let judged = if variable.is_some() { "echo x".to_owned() } else { run.clone() };
        let (decision, grant) = reader.judge.authorize(SHELL, &[Access::Run { command: judged, directory: None }]);
        let plan = grant.as_ref().and_then(|grant| grant.command());
        let Some(plan) = plan else {
            let (reason, hint) = (decision.reason, decision.hint);
            return Err(PromptError::CommandDenied { file, command: run, reason, hint }.into());
        };
        let input = json!({ "command": command });
        if let Some(hooks) = &reader.hooks
            && let Some(reason) = hooks.before(SHELL, &input, &Context::NONE).await
        {
            return Err(PromptError::CommandBlocked { file, command: run, reason }.into());
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
            timeout: reader.context.limits.shell_timeout,
            background: false,
            ..CommandRequest::default()
        };
        let report = reader.context.runner.run(plan, request).await;
        let report = report.map_err(|error| PromptError::CommandFailed { file, command: run, why: error.message })?;
        if let Some(hooks) = &reader.hooks
            && let Some(said) = {
                let output = String::from_utf8_lossy(&report.stdout).into_owned();
                hooks.after(SHELL, &input, &Context::NONE, output, report.exit_code != Some(0)).await
            }
        {
            expanded.text.push_str(&format!("[A hook of the user's says: {said}]\n"));
        }
        expanded.add_output(command, shown, &report);
        Ok(())
    }
}

impl Expanded {
    /// Adds the output of a command, and how it ended if it failed.
    fn add_output(&mut self, command: &str, shown: &str, report: &CommandReport) {
        self.events.push(Event::Command {
            argv: report.argv.clone(),
            exit_code: report.exit_code,
            duration_ms: u64::try_from(report.duration.as_millis()).unwrap_or(u64::MAX),
            sandboxed: report.sandboxed,
        });
        let (output, _) = without_hidden(&String::from_utf8_lossy(&report.stdout));
        let end = cut::end(&output, OUTPUT);
        self.text.push_str(output[..end].trim_end_matches('\n'));
        if end < output.len() || report.missing.stdout > 0 {
            self.text.push_str("\n[the output is longer and was cut]");
        }
        if report.exit_code != Some(0) {
            let how = match (report.timed_out, report.exit_code) {
                (true, _) => "it ran out of time".to_owned(),
                (false, Some(code)) => format!("it ended with {code}"),
                (false, None) => "a signal ended it".to_owned(),
            };
            let (error, _) = without_hidden(&String::from_utf8_lossy(&report.stderr));
            let end = cut::end(&error, 4_000);
            self.text.push_str(&format!("\n[`{command}`: {how}]\n{}", error[..end].trim_end()));
            self.events.push(Event::Warning { message: format!("{shown}: `{command}`: {how}") });
        }
    }
}
