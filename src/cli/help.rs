//! Defines the end of `--help`: examples, and the exit codes as a table.

/// What stands below the flags of `run`.
pub const AFTER: &str = "\
Examples:
  qwen 'explain src/lib.rs'                      answer; nothing is changed
  qwen -o patch 'fix the typo in README' > p     propose a patch; nothing is changed
  qwen run --apply --verify 'cargo test' -p 'make the test pass'
  git diff | qwen -o result 'review this diff'   standard input comes before the prompt
  qwen --branch fix/typo --message 'fix typo' 'fix the typo in README'

Exit codes (the same number stands in the result object):
    0 ok           done, or nothing to do
    1 failed       no other row names it; error.code says what
    2 usage        a bad flag or argument
    3 gate         findings or a verdict at or above --fail-on
   41 auth         no credentials, refused, or no credit
   42 input        prompt, recipe, parameter, file or image wrong
   44 sandbox      isolation was required and is not to be had here
   52 config       settings or policy invalid, or an unknown model
   53 turns        turn limit
   55 budget       wall time, tool calls, tokens or cost used up
   60 denied       the policy denied a call, or the delivery
   62 schema       the answer does not fit the schema
   63 conflict     could not deliver: base moved, dirty file, patch does not apply
   64 verify       a check or a guard still fails after all attempts
   65 no_changes   --require-changes and there are none
   66 replay       the request is not the recorded one
   75 unavailable  the provider stayed unavailable; try again later
  130 interrupted  SIGINT; 143 for SIGTERM
Changes are delivered with 0, 3, and 60 from denied calls alone.";

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
