//! Writes counts, tokens, money, times and commits as people read them, in the same way everywhere.

/// Writes a number with its noun: `1 file`, `2 files`.
pub fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Writes a number of tokens: `950`, `2.3k`, `1.25M`.
pub fn tokens(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        // From here on one decimal would be written as 1000.0k.
        1_000..999_950 => format!("{:.1}k", number as f64 / 1e3),
        _ => format!("{:.2}M", number as f64 / 1e6),
    }
}

/// Writes a cost in US dollars with two to three digits that count: `<$0.0001`, `$0.0083`, `$0.012`, `$1.24`.
pub fn cost(dollars: f64) -> String {
    match dollars {
        ..0.0001 => "<$0.0001".to_owned(),
        ..0.00995 => format!("${dollars:.4}"),
        ..0.9995 => format!("${dollars:.3}"),
        _ => format!("${dollars:.2}"),
    }
}

/// Marks an amount of money as an estimate; `<$0.0001` says enough.
pub fn about(amount: &str) -> String {
    if amount.starts_with('<') { amount.to_owned() } else { format!("~{amount}") }
}

/// Writes a duration: `0.4 s`, `2 min 3 s`, `1 h 4 min`.
pub fn time(milliseconds: u64) -> String {
    let parts = |first: u64, unit: &str, second: u64, smaller: &str| match second {
        0 => format!("{first} {unit}"),
        second => format!("{first} {unit} {second} {smaller}"),
    };
    let seconds = milliseconds.saturating_add(500) / 1000;
    let minutes = seconds.saturating_add(30) / 60;
    match milliseconds {
        0..59_950 => tenths(milliseconds),
        // From here on the minutes would be written as 60.
        59_950..3_599_500 => parts(seconds / 60, "min", seconds % 60, "s"),
        _ => parts(minutes / 60, "h", minutes % 60, "min"),
    }
}

/// Writes a duration in seconds however long it is, as logs have it: `7.9 s`, `123.4 s`.
pub fn tenths(milliseconds: u64) -> String {
    let tenths = milliseconds.saturating_add(50) / 100;
    format!("{}.{} s", tenths / 10, tenths % 10)
}

/// Writes a commit with nine digits.
pub fn commit(id: &str) -> &str {
    id.get(..9).unwrap_or(id)
}

/// Writes the lines that a change adds and removes: `+3 -1`; what is none is left out.
pub fn lines(added: u64, removed: u64) -> String {
    match (added, removed) {
        (0, 0) => String::new(),
        (added, 0) => format!("+{added}"),
        (0, removed) => format!("-{removed}"),
        (added, removed) => format!("+{added} -{removed}"),
    }
}

/// Says what became of changed files: `1 file would change`, `2 files committed to main as 1a2b3c4d5`.
pub fn delivered(files: usize, branch: Option<&str>, commit: Option<&str>, is_applied: bool) -> String {
    let files = count(files as u64, "file");
    match (branch, commit.map(self::commit)) {
        (Some(branch), Some(commit)) => format!("{files} committed to {branch} as {commit}"),
        (None, Some(commit)) => format!("{files} committed as {commit}"),
        _ if is_applied => format!("{files} changed"),
        _ => format!("{files} would change"),
    }
}

/// Writes a word of a command line for a shell; `None` if it cannot be quoted simply.
pub fn for_shell(word: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./,:=@%+-".contains(c);
    match word {
        "" => None,
        word if word.chars().all(is_plain) && !word.starts_with('-') => Some(word.to_owned()),
        word if word.starts_with('-') || word.contains(['\'', '\n', '\t']) => None,
        word if word.contains(super::safe::is_active) => None,
        word => Some(format!("'{word}'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_a_command_is_quoted_or_left_out() {
        assert_eq!(for_shell("a/b-1.json").as_deref(), Some("a/b-1.json"));
        assert_eq!(for_shell("my file$").as_deref(), Some("'my file$'"));
        assert_eq!(["", "-x", "it's", "a\nb", "a\u{1b}b"].map(for_shell), [None, None, None, None, None]);
    }

    #[test]
    fn one_is_one_and_none_and_many_are_many() {
        assert_eq!([0, 1, 2].map(|n| count(n, "file")), ["0 files", "1 file", "2 files"]);
    }

    #[test]
    fn tokens_have_at_most_three_digits_before_their_unit() {
        let all = [0, 1, 2, 950, 999, 1000, 2_349, 22_150, 999_949, 999_950, 1_250_000].map(tokens);
        assert_eq!(all, ["0", "1", "2", "950", "999", "1.0k", "2.3k", "22.1k", "999.9k", "1.00M", "1.25M"]);
    }

    #[test]
    fn a_cost_never_reads_as_nothing() {
        let all = [0.000_01, 0.0001, 0.0083, 0.00994, 0.00996, 0.0123, 0.9994, 0.9996, 1.239].map(cost);
        assert_eq!(all, ["<$0.0001", "$0.0001", "$0.0083", "$0.0099", "$0.010", "$0.012", "$0.999", "$1.00", "$1.24"]);
    }

    #[test]
    fn a_time_never_has_sixty_of_a_unit() {
        let all = [0, 1, 400, 7_949, 59_949, 59_950, 60_000, 123_000, 3_599_499, 3_599_500, 3_840_000].map(time);
        assert_eq!(
            all,
            [
                "0.0 s",
                "0.0 s",
                "0.4 s",
                "7.9 s",
                "59.9 s",
                "1 min",
                "1 min",
                "2 min 3 s",
                "59 min 59 s",
                "1 h",
                "1 h 4 min"
            ]
        );
        assert_eq!([999, 60_000].map(tenths), ["1.0 s", "60.0 s"]);
    }

    #[test]
    fn a_commit_has_nine_digits_and_lines_that_are_none_are_left_out() {
        assert_eq!((commit("4fa867405cba99"), commit("4fa")), ("4fa867405", "4fa"));
        assert_eq!([(0, 0), (3, 0), (0, 2), (3, 2)].map(|(a, r)| lines(a, r)), ["", "+3", "-2", "+3 -2"]);
    }
}
