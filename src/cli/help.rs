//! Defines the end of `--help`: examples, and the exit codes as a table; and which options `-h` shows.

use clap::{Command, Id};

/// The text below the flags of `run`.
pub const AFTER: &str = "\
Examples:
  qwen 'explain src/lib.rs'                      answer a question; changes nothing
  qwen -o patch 'fix the typo in README' > p     propose a patch; changes nothing
  qwen run --apply --verify 'cargo test' -p 'make the test pass'
  git diff | qwen -o result 'review this diff'   standard input comes before the prompt
  qwen --branch fix/typo --message 'fix typo' 'fix the typo in README'

Exit codes (also in the result object):
    0 ok           done, or nothing to do
    1 failed       any other error; see error.code
    2 usage        invalid flag or argument
    3 gate         findings or a verdict at or above --fail-on
   41 auth         credentials missing or refused, or no credit
   42 input        invalid prompt, recipe, parameter, file or image
   44 sandbox      required isolation is unavailable
   52 config       invalid settings or policy, or unknown model
   53 turns        turn limit reached
   55 budget       wall time, tool calls, tokens or cost used up
   60 denied       the policy denied a call, or the delivery
   62 schema       the answer does not match the schema
   63 conflict     cannot deliver: base moved, file changed, or patch does not apply
   64 verify       a check or a guard still fails after all attempts
   65 no_changes   no changes, and --require-changes was given
   66 replay       the request differs from the recorded one
   75 unavailable  the provider is unavailable; try again later
  130 interrupted  SIGINT; 143 for SIGTERM
Changes are delivered with exit codes 0 and 3, and with 60 if only calls were denied.";

/// The text below the options that `-h` shows.
const AFTER_SHORT: &str = "\
Examples:
  qwen 'explain src/lib.rs'
  qwen run --apply --verify 'cargo test' -p 'make the test pass'
  git diff | qwen -o result 'review this diff'

More: qwen --help";

/// The options of a run that `-h` shows.
const SHORT: [&str; 22] = [
    "words",
    "prompt",
    "recipe",
    "params",
    "files",
    "cd",
    "model",
    "openai_base_url",
    "local",
    "policy",
    "sandbox",
    "apply",
    "commit",
    "branch",
    "verify",
    "output_format",
    "json_schema",
    "result_file",
    "report_file",
    "max_cost_usd",
    "quiet",
    "verbose",
];

/// Hides the less used options of a run.
pub fn short(command: Command) -> Command {
    fn hide(command: Command) -> Command {
        let others: Vec<Id> = command.get_arguments().map(|argument| argument.get_id().clone()).collect();
        let others = others.into_iter().filter(|id| !SHORT.contains(&id.as_str()));
        let command = others.fold(command, |command, id| command.mut_arg(id, |argument| argument.hide(true)));
        // Defaults and variables are in the long help.
        let command = command.mut_args(|argument| {
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            argument.help(help.split(" [").next().unwrap_or_default().to_owned())
        });
        command.after_help(AFTER_SHORT)
    }
    hide(command).mut_subcommand("run", hide)
}

#[cfg(test)]
mod tests {
    use crate::exit::Exit;

    #[test]
    fn every_exit_code_stands_in_the_help_with_its_name() {
        for exit in Exit::BY_PRECEDENCE {
            assert!(super::AFTER.contains(&exit.code().to_string()), "{exit:?}");
            assert!(super::AFTER.contains(exit.name()), "{exit:?}");
        }
    }
}
