//! Defines the end of `--help`: examples, and the exit codes as a table.

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
