//! Recognises an answer that only repeats what the model was told.

use std::collections::HashSet;

/// Words in a row that count as repeated.
const RUN: usize = 6;

/// Tells whether most of an answer, three words of four, is runs of at least [`RUN`] words from the instructions.
pub(super) fn is_echo(answer: &str, instructions: &[&str]) -> bool {
    let told: Vec<Vec<String>> = instructions.iter().map(|text| words(text)).collect();
    let runs: HashSet<&[String]> = told.iter().flat_map(|words| words.windows(RUN)).collect();
    let said = words(answer);
    let mut repeated = vec![false; said.len()];
    for (at, run) in said.windows(RUN).enumerate() {
        if runs.contains(run) {
            repeated[at..at + RUN].fill(true);
        }
    }
    let count = repeated.iter().filter(|is_repeated| **is_repeated).count();
    count > 0 && count * 4 >= said.len() * 3
}

/// Tells whether an answer is nothing but a part of the task, five words or more.
pub(super) fn repeats_task(answer: &str, task: &str) -> bool {
    let said = words(answer);
    said.len() >= 5 && words(task).windows(said.len()).any(|run| run == said)
}

fn words(text: &str) -> Vec<String> {
    let is_between = |c: char| !c.is_alphanumeric() && c != '_';
    text.split(is_between).filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_the_question_is_none() {
        let task = "Which files call the function parseDate? Do not count its definition.";
        assert!(repeats_task("Which files call the function parseDate?", task));
        assert!(!repeats_task("The function parseDate", task));
        assert!(!repeats_task("a.js and b.js call the function parseDate.", task));
        assert!(!repeats_task("", task));
    }

    #[test]
    fn an_answer_of_instructions_is_an_echo_and_one_that_quotes_a_few_words_is_not() {
        let told =
            ["When the task is done, stop calling tools and answer briefly: what you found or changed.", "Else go on."];
        for echo in [
            "...task is done, stop calling tools and answer briefly",
            "OK: when the task is done, stop calling tools and answer BRIEFLY: what you found, or changed!",
        ] {
            assert!(is_echo(echo, &told), "{echo}");
        }
        for answer in [
            "",
            "Done.",
            "The task is done.",
            "I changed a.py as asked: when the task is done, stop calling tools; the loop now ends there and the test passes.",
        ] {
            assert!(!is_echo(answer, &told), "{answer}");
        }
    }
}
