//! Parses argument lists, and reports errors in the output format that the arguments ask for.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, FromArgMatches as _};

use super::batch::OTHER_VERBS;
use super::run::RunArgs;
use super::{Cli, Command, help, yargs};
use crate::emit::Format;
use crate::emit::safe::escape;
use crate::event::{RunError, RunFinished};
use crate::exit::Exit;

/// Why there is nothing to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UsageError {
    /// Help or the version was asked for: print it to standard output and end with 0.
    Help(String),
    /// A flag or argument is wrong: a result object, and 2.
    Wrong {
        /// What is wrong, for people; several lines.
        message: String,
        /// What to do.
        hint: Option<String>,
        /// What standard output should carry, as far as the arguments say.
        format: Format,
        /// The file of `--result-file`, as far as the arguments say.
        result_file: Option<PathBuf>,
    },
}

impl UsageError {
    /// Returns the ending of a run with wrong arguments; `None` for help.
    pub fn ending(&self) -> Option<RunFinished> {
        match self {
            UsageError::Help(_) => None,
            UsageError::Wrong { message, hint, .. } => Some(RunFinished::failed(
                Exit::Usage,
                RunError {
                    code: Exit::Usage.name().into(),
                    message: message.clone(),
                    retryable: false,
                    hint: hint.clone(),
                    budget: None,
                },
            )),
        }
    }
}

/// Parses the arguments, the program's name first.
pub fn parse(arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Result<Cli, UsageError> {
    let arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
    let is_short = arguments.iter().any(|word| word == "-h");
    let mut definition = if is_short { help::short(Cli::command()) } else { Cli::command() };
    let arguments = as_read_here(arguments, &definition);
    let wrong = |message: String, hint: Option<String>| UsageError::Wrong {
        message,
        hint,
        format: last_value(&arguments, "-o", "--output-format")
            .and_then(|name| Format::from_name(&name))
            .unwrap_or_default(),
        result_file: last_value(&arguments, "", "--result-file").map(PathBuf::from),
    };
    let parsed = definition.try_get_matches_from_mut(&arguments).and_then(|matches| Cli::from_arg_matches(&matches));
    let mut cli = parsed.map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => UsageError::Help(error.render().to_string()),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            wrong("a command is missing".into(), Some(format!("see {}", help_for(&arguments))))
        }
        _ => {
            let (message, tip) = message_of(&error);
            let unknown = matches!(error.kind(), ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand);
            let tip = unknown.then(|| instead_of(&arguments)).flatten().map(str::to_owned).or(tip);
            let see = format!("see {}", help_for(&arguments));
            wrong(message, Some(tip.map_or(see.clone(), |tip| format!("{tip}; {see}"))))
        }
    })?;
    if cli.command.is_none() {
        no_command_of_qwen_code(&cli.run, &arguments).map_err(|(message, hint)| wrong(message, Some(hint)))?;
        command_behind_flags(&mut cli.run, &arguments).map_err(|(message, hint)| wrong(message, Some(hint)))?;
    }
    let run = match &cli.command {
        None => Some(&cli.run),
        Some(Command::Run(run)) => Some(&**run),
        Some(
            Command::Apply(_)
            | Command::Batch(_)
            | Command::Report(_)
            | Command::Undo(_)
            | Command::Policy { .. }
            | Command::Recipe { .. }
            | Command::Check { .. }
            | Command::Ci { .. }
            | Command::Tools { .. }
            | Command::Hook { .. }
            | Command::Sandbox { .. }
            | Command::Schema(_)
            | Command::Doctor(_)
            | Command::Mcp { .. }
            | Command::Help(_)
            | Command::Completions(_)
            | Command::Man(_),
        ) => None,
    };
    if let Some(run) = run {
        no_recipe_as_prompt(run, |word| crate::recipe::builtin::text(word).is_some())
            .map_err(|(message, hint)| wrong(message, Some(hint)))?;
    }
    Ok(cli)
}

/// Commands of Qwen Code that do not exist here, with their replacement.
const OTHERS: [(&str, &str); 10] = [
    ("auth", "set OPENAI_API_KEY, or `qwen mcp auth NAME` for a server"),
    ("board", "it is not available here"),
    ("channel", "it is not available here"),
    ("extensions", "put its commands into .qwen/commands and its servers into settings (`qwen mcp add`)"),
    ("hooks", "set `hooks` in the settings for hooks of a run; use `qwen hook` for git hooks"),
    ("review", "use a recipe: qwen run --recipe review-diff"),
    ("serve", "it is not available here: each run is its own process"),
    ("sessions", "use --continue or --resume ID"),
    ("skills", "write skills to .qwen/skills/NAME/SKILL.md"),
    ("update", "install the new version the way you installed this one"),
];

/// Flags of Qwen Code that do not exist here, with their replacement.
const OTHER_FLAGS: [(&str, &str); 24] = [
    ("--acp", "it is not available here"),
    ("--all-files", "name files with @ or --file"),
    ("--checkpointing", "undo applied changes with `qwen undo`"),
    ("--disabled-slash-commands", "it is not available here"),
    ("--experimental-lsp", "it is not available here"),
    ("--extensions", "put commands into .qwen/commands and servers into the settings"),
    ("--input-file", "start one run for each prompt"),
    ("--insecure", "trust a certificate with --ca-file FILE"),
    ("--json-fd", "write events with --events-file /dev/fd/N"),
    ("--json-file", "write events with --events-file FILE"),
    ("--list-extensions", "extensions are not available here"),
    ("--max-subagent-depth", "agents cannot start agents here"),
    ("--openai-logging", "record requests and responses with --record FILE"),
    ("--openai-logging-dir", "record requests and responses with --record FILE"),
    ("--output-style", "use --append-system-prompt TEXT"),
    ("--prompt-interactive", "use -p: runs are never interactive"),
    ("--proxy", "set `proxy` in the settings, or HTTPS_PROXY"),
    ("--restore-ask-user-question", "runs are never interactive"),
    ("--safe-mode", "use --bare"),
    ("--sandbox-image", "use -s: the kernel isolates commands, without images"),
    ("--screen-reader", "output is plain text already"),
    ("--tavily-api-key", "set TAVILY_API_KEY"),
    ("--google-api-key", "set GOOGLE_API_KEY"),
    ("--worktree", "commit to a branch with --branch NAME"),
];

/// Returns the replacement of what Qwen Code has and is unknown here.
fn instead_of(arguments: &[OsString]) -> Option<&'static str> {
    instead_of_flag(arguments).or_else(|| instead_of_verb(arguments))
}

/// Returns the replacement of the first flag of Qwen Code that does not exist here.
fn instead_of_flag(arguments: &[OsString]) -> Option<&'static str> {
    let names = arguments.iter().take_while(|word| *word != "--").filter_map(|word| word.to_str()?.split('=').next());
    let mut found = names.filter_map(|name| OTHER_FLAGS.iter().find(|(flag, _)| *flag == name));
    found.next().map(|(_, instead)| *instead)
}

/// Returns the replacement of a word that Qwen Code has after `batch`.
fn instead_of_verb(arguments: &[OsString]) -> Option<&'static str> {
    let is_batch = arguments.get(1).is_some_and(|command| command == "batch");
    let verb = arguments.get(2)?.to_str().filter(|_| is_batch)?;
    OTHER_VERBS.contains(&verb).then_some("write `qwen batch --items FILE --recipe NAME --api batch --out DIR`")
}

/// Refuses a command of Qwen Code as the prompt: it would be sent to the model as text.
fn no_command_of_qwen_code(run: &RunArgs, arguments: &[OsString]) -> Result<(), (String, String)> {
    let Some(first) = run.input.words.first().filter(|first| !is_literal(arguments, first)) else { return Ok(()) };
    let Some((name, instead)) = OTHERS.iter().find(|(name, _)| name == first) else {
        return misspelt_command(run);
    };
    Err((
        format!("`qwen {name}` is a command of Qwen Code that does not exist here"),
        format!("{instead}; for a prompt that begins with this word: -p '{name} …'"),
    ))
}

/// Tells whether a word is the first one after `--`.
fn is_literal(arguments: &[OsString], word: &str) -> bool {
    arguments.iter().skip_while(|a| *a != "--").nth(1).is_some_and(|a| a == word)
}

/// Returns the arguments of a run as they are read here; those of other commands stay as they are.
fn as_read_here(arguments: Vec<OsString>, definition: &clap::Command) -> Vec<OsString> {
    let first = arguments.get(1).and_then(|first| definition.find_subcommand(first));
    let (head, definition) = match first {
        Some(run) if run.get_name() == "run" => (2, run),
        // The command itself reads what follows `mcp add`: `--help` may be the server's.
        Some(mcp) if mcp.get_name() == "mcp" && arguments.get(2).is_some_and(|verb| verb == "add") => {
            let (head, words) = arguments.split_at(3);
            return [head, &["--".into()], words].concat();
        }
        Some(_) => return arguments,
        None => (1, definition),
    };
    let words: Option<Vec<String>> = arguments.iter().skip(head).map(|word| word.to_str().map(str::to_owned)).collect();
    let Some(words) = words else { return arguments };
    let read = yargs::normalized(&words, definition).into_iter().map(OsString::from);
    arguments.iter().take(head).cloned().chain(read).collect()
}

/// Returns what clap says in one line, and its tip if it has one; usage and the pointer to help are left out.
fn message_of(error: &clap::Error) -> (String, Option<String>) {
    let text = error.render().to_string();
    let one_line = |text: &str| escape(text).split_whitespace().collect::<Vec<_>>().join(" ");
    let mut parts = text.split("\n\n");
    let message = parts.next().unwrap_or_default();
    let message = one_line(message.strip_prefix("error: ").unwrap_or(message));
    let tip = parts.find_map(|part| part.trim().strip_prefix("tip: ").map(one_line));
    (message, tip)
}

/// Returns the call that explains the command that was meant.
fn help_for(arguments: &[OsString]) -> String {
    let mut command = Cli::command();
    let mut words = vec!["qwen".to_owned()];
    for argument in arguments.iter().skip(1) {
        let Some(inner) = argument.to_str().and_then(|name| command.find_subcommand(name)).cloned() else { break };
        words.push(inner.get_name().to_owned());
        command = inner;
    }
    format!("`{} --help`", words.join(" "))
}

/// Refuses one word that names a recipe or ends in `.yaml` as the prompt: it would be sent to the model as text.
pub fn no_recipe_as_prompt(run: &RunArgs, is_recipe: impl Fn(&str) -> bool) -> Result<(), (String, String)> {
    let [word] = run.input.words.as_slice() else { return Ok(()) };
    if word.ends_with(".yaml") || word.ends_with(".yml") || is_recipe(word) {
        let name = escape(word);
        return Err((
            format!("the prompt `{name}` is the name of a recipe"),
            format!("run the recipe with `qwen run --recipe {name}`, or send the word with `qwen -p {name}`"),
        ));
    }
    Ok(())
}

/// `qwen FLAGS run PROMPT` is a run; any other command behind flags would pass for a prompt, and cost money.
fn command_behind_flags(run: &mut RunArgs, arguments: &[OsString]) -> Result<(), (String, String)> {
    let Some(first) = run.input.words.first() else { return Ok(()) };
    let is_command = Cli::command().get_subcommands().any(|command| command.get_name() == first);
    // clap takes a command where it stands first, so that flags stood before this one.
    if is_literal(arguments, first) || !is_command {
        return Ok(());
    }
    if first == "run" {
        run.input.words.remove(0);
        return Ok(());
    }
    Err((
        format!("the command `{first}` must come before flags"),
        format!("write `qwen {first} …`; for a prompt that begins with this word: -p '{first} …'"),
    ))
}

/// Refuses a word that is nearly a command, alone or before a verb of that command: as a prompt it would cost money.
fn misspelt_command(run: &RunArgs) -> Result<(), (String, String)> {
    let (first, second) = match run.input.words.as_slice() {
        [first] => (first, None),
        [first, second, ..] => (first, Some(second)),
        [] => return Ok(()),
    };
    let written: String = first.chars().take(20).collect();
    let cli = Cli::command();
    let is_meant = |command: &&clap::Command| {
        let name = command.get_name();
        // With another first letter it is another word: `patch` is no misspelt `batch`.
        let is_near = name.len() > 3 && name.get(..1) == written.get(..1) && strsim::osa_distance(name, &written) == 1;
        is_near && second.is_none_or(|verb| command.find_subcommand(verb).is_some())
    };
    match cli.get_subcommands().find(is_meant) {
        None => Ok(()),
        Some(command) => Err((
            format!("unknown command `{}`", escape(first)),
            format!("a similar command is `{}`; as a prompt: qwen -p '{} …'", command.get_name(), escape(first)),
        )),
    }
}

/// Returns the last value of a flag in arguments that may not parse.
fn last_value(arguments: &[OsString], short: &str, long: &str) -> Option<String> {
    let mut found = None;
    let mut words = arguments.iter().skip(1).map(|word| word.to_string_lossy());
    while let Some(word) = words.next() {
        if word == "--" {
            break;
        }
        if word == long || (!short.is_empty() && word == short) {
            found = words.next().map(|value| value.into_owned()).or(found);
        } else if let Some(value) = word.strip_prefix(long).and_then(|rest| rest.strip_prefix('=')) {
            found = Some(value.to_owned());
        } else if !short.is_empty()
            && let Some(value) = word.strip_prefix(short)
        {
            found = Some(value.strip_prefix('=').unwrap_or(value).to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ok(arguments: &str) -> Cli {
        parse(std::iter::once("qwen").chain(arguments.split_whitespace()))
            .unwrap_or_else(|e| panic!("{arguments}: {e:?}"))
    }

    fn wrong(arguments: &str) -> (String, String, Format) {
        match parse(std::iter::once("qwen").chain(arguments.split_whitespace())) {
            Err(UsageError::Wrong { message, hint, format, .. }) => (message, hint.unwrap_or_default(), format),
            other => panic!("{arguments}: {other:?}"),
        }
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_call_without_a_command_is_a_run() {
        assert_eq!(ok("-m x fix the run command").run.input.words, ["fix", "the", "run", "command"]);
        assert_eq!(ok("-m x run fix it").run.input.words, ["fix", "it"]);
        let Some(Command::Run(run)) = ok("run -m x fix it").command else { panic!("a run") };
        assert_eq!(run.input.words, ["fix", "it"]);
    }

    #[test]
    fn a_command_behind_flags_is_no_prompt() {
        assert!(wrong("--yolo policy check").1.contains("qwen policy"));
        assert_eq!(ok("--yolo -- policy check").run.input.words, ["policy", "check"]);
    }

    #[test]
    fn a_command_of_qwen_code_is_no_prompt() {
        for arguments in ["extensions list", "sessions", "-y update", "review", "serve --port 1", "auth"] {
            assert!(
                wrong(arguments).0.contains(if arguments.starts_with("serve") {
                    "--port"
                } else {
                    "a command of Qwen Code"
                }),
                "{arguments}"
            );
        }
        assert_eq!(ok("-p update").run.input.prompt.as_deref(), Some("update"));
        assert_eq!(ok("-- update it").run.input.words, ["update", "it"]);
        assert_eq!(ok("please update").run.input.words, ["please", "update"]);
    }

    #[test]
    fn a_misspelt_command_is_no_prompt() {
        for (arguments, meant) in
            [("undoo", "undo"), ("policyy check", "policy"), ("aply", "apply"), ("-y doctr", "doctor")]
        {
            assert!(wrong(arguments).1.contains(&format!("`{meant}`")), "{arguments}");
        }
        assert_eq!(ok("-p undoo").run.input.prompt.as_deref(), Some("undoo"));
        for fine in ["-- undoo", "look at a.rs", "patch it", "patch", "catch", "fix"] {
            assert!(!ok(fine).run.input.words.is_empty(), "{fine}");
        }
    }

    #[test]
    fn a_verb_of_qwen_codes_batch_is_refused_with_what_replaces_it() {
        assert!(wrong("batch submit x.jsonl").1.contains("qwen batch --items FILE"));
        assert!(!wrong("batch anything").1.contains("--items"));
    }

    #[test]
    fn the_words_behind_mcp_add_are_its_own() {
        for words in [&["--help"][..], &["s", "npx", "--help"], &["-s", "user", "s", "--", "x"]] {
            let Some(Command::Mcp { verb: super::super::mcp::McpVerb::Add { words: read } }) =
                parse(["qwen", "mcp", "add"].iter().chain(words)).unwrap().command
            else {
                panic!("mcp add")
            };
            assert_eq!(read, words);
        }
    }

    #[test]
    fn minus_one_is_no_limit() {
        let cli = ok("--max-session-turns -1 --max-tool-calls=-1 hi");
        assert_eq!((cli.run.limits.max_session_turns, cli.run.limits.max_tool_calls), (Some(u64::MAX), Some(u64::MAX)));
        for arguments in ["--max-session-turns 0 hi", "--max-session-turns -2 hi", "--max-tool-calls x hi"] {
            assert!(wrong(arguments).0.contains("whole number"), "{arguments}");
        }
    }

    #[test]
    fn a_recipe_as_prompt_is_refused() {
        assert!(wrong("fix.yaml").1.contains("--recipe fix.yaml"));
        assert_eq!(ok("-p fix.yaml").run.input.prompt.as_deref(), Some("fix.yaml"));
        assert!(wrong("fix-lint").1.contains("--recipe fix-lint"));
        assert!(no_recipe_as_prompt(&ok("tidy").run, |name| name == "tidy").is_err());
    }

    #[test]
    fn a_bad_flag_keeps_the_format_that_was_asked_for() {
        for (arguments, format) in [
            ("-o json --nonsense", Format::Json),
            ("-ostream-json --nonsense", Format::StreamJson),
            ("--output-format=result run --nonsense", Format::Result),
            ("run --nonsense --output-format json", Format::Json),
            ("--nonsense", Format::Text),
            ("-o nonsense", Format::Text),
        ] {
            assert_eq!(wrong(arguments).2, format, "{arguments}");
        }
    }

    #[test]
    fn what_todays_scripts_pass_is_taken() {
        let cli = ok(
            "--yolo --prompt P --channel=CI --output-format json --auth-type openai --chat-recording --telemetry=false",
        );
        assert_eq!(cli.run.policy.mode(), Some(super::super::run::ApprovalMode::Yolo));
        assert!(wrong("--auth-type qwen-oauth hi").0.contains("auth-type"));
    }

    #[test]
    fn ways_to_deliver_exclude_each_other() {
        for arguments in
            ["--apply --commit x", "--dry-run --apply x", "--branch b --commit x", "--yolo --approval-mode plan x"]
        {
            assert!(wrong(arguments).0.contains("cannot be used"), "{arguments}");
        }
    }

    #[test]
    fn hostile_arguments_are_named_without_their_control_characters() {
        let error = parse(["qwen", "--\u{1b}[31mred"]).unwrap_err();
        let UsageError::Wrong { message, .. } = error else { panic!("wrong") };
        assert!(!message.contains('\u{1b}'), "{message:?}");
    }

    #[test]
    fn a_mistake_is_said_with_what_would_help() {
        for (arguments, message, hint) in [
            (
                "--aply x",
                "unexpected argument '--aply' found",
                "a similar argument exists: '--apply'; see `qwen --help`",
            ),
            ("policy", "a command is missing", "see `qwen policy --help`"),
            (
                "run --max-wall-time 1d",
                "invalid value '1d' for '--max-wall-time <D>': `1d` is not a duration; write for example 90, 90s, 1.5h or 500ms",
                "see `qwen run --help`",
            ),
        ] {
            let (said, helps, _) = wrong(arguments);
            assert_eq!((said.as_str(), helps.as_str()), (message, hint));
        }
    }

    #[test]
    fn help_goes_to_standard_output() {
        for arguments in [["qwen", "--help"], ["qwen", "--version"], ["qwen", "-h"]] {
            assert!(matches!(parse(arguments), Err(UsageError::Help(_))), "{arguments:?}");
        }
    }
}
