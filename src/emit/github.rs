//! Writes GitHub's workflow commands and files, and keeps untrusted text from being obeyed as commands.

use super::findings::{Findings, Found, Level};
use super::safe::{ci_line, escape};

/// Maximum annotations of one level that GitHub shows per step; it drops the rest silently.
const PER_LEVEL: usize = 10;

/// Longest text of an annotation, in characters.
const LONGEST: usize = 4_000;

/// Returns the annotations of a run, one command a line, the worst and those in the diff first, and after them how many
/// more there are.
pub(super) fn annotations(findings: &Findings) -> String {
    let mut sorted: Vec<&Found> = findings.all.iter().collect();
    sorted.sort_by_key(|found| (std::cmp::Reverse(found.severity), !found.place.in_diff));
    let mut text = String::new();
    let mut left_out = 0;
    for level in [Level::Error, Level::Warning, Level::Note] {
        let of_level: Vec<&&Found> = sorted.iter().filter(|found| found.severity == level).collect();
        for found in of_level.iter().take(PER_LEVEL) {
            let name = match level {
                Level::Error => "error",
                Level::Warning => "warning",
                Level::Note => "notice",
            };
            text.push_str(&format!(
                "::{name} file={},line={},endLine={},title={}::{}\n",
                property(&found.path),
                found.start_line,
                found.end_line,
                property(&found.rule_id),
                message(&found.message)
            ));
        }
        left_out += of_level.len().saturating_sub(PER_LEVEL);
    }
    if left_out > 0 {
        text.push_str(&format!("{left_out} more in the summary\n"));
    }
    text
}

/// Returns a command that hides a value in the log from now on; of a value with several lines, each.
pub fn add_mask(secret: &str) -> String {
    let lines = secret.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| format!("::add-mask::{}\n", data(line))).collect()
}

/// Returns an annotation without a place.
pub fn notice(level: &str, title: &str, text: &str) -> String {
    format!("::{level} title={}::{}\n", property(title), message(text))
}

/// Escapes a command's text.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes a command's text, shown as what it is and cut.
fn message(text: &str) -> String {
    let head: String = text.chars().take(LONGEST).collect();
    data(&escape(&head))
}

/// Escapes a command's property.
fn property(text: &str) -> String {
    data(&escape(text)).replace(':', "%3A").replace(',', "%2C")
}

/// Returns an output or variable for the file of `GITHUB_OUTPUT`, ended by a delimiter that is not in the value.
///
/// `random` gives 32 hexadecimal digits; another is asked for where the value should hold the first.
pub fn output(name: &str, value: &str, random: &mut dyn FnMut() -> String) -> String {
    loop {
        let delimiter = format!("qwen_{}", random());
        if !value.contains(&delimiter) {
            return format!("{name}<<{delimiter}\n{value}\n{delimiter}\n");
        }
    }
}

/// Lines of a log on their way to a runner: our own groups are commands, nothing else is.
///
/// Everything but a group is between `::stop-commands::` and its token, which nobody can guess; and a line that looks
/// like a command is set after a mark besides.
#[derive(Debug)]
pub struct Guarded {
    token: String,
    stopped: bool,
    partial: Vec<u8>,
}

impl Guarded {
    /// Begins with a token that nobody can guess.
    pub fn new(token: String) -> Guarded {
        Guarded { token, stopped: false, partial: Vec::new() }
    }

    /// Takes bytes of the log and returns what goes to the runner: whole lines.
    pub fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.partial.extend_from_slice(bytes);
        let Some(end) = self.partial.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
        let lines: Vec<u8> = self.partial.drain(..=end).collect();
        let mut out = Vec::with_capacity(lines.len() + 64);
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            self.line(line, &mut out);
        }
        out
    }

    /// Returns what is left, and the end of the guard.
    pub fn end(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        let rest = std::mem::take(&mut self.partial);
        if !rest.is_empty() {
            self.line(&rest, &mut out);
        }
        self.resume(&mut out);
        out
    }

    fn resume(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.stopped) {
            out.extend_from_slice(format!("::{}::\n", self.token).as_bytes());
        }
    }

    fn line(&mut self, line: &[u8], out: &mut Vec<u8>) {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end_matches('\n');
        if is_group(text) {
            self.resume(out);
            out.extend_from_slice(format!("{text}\n").as_bytes());
            return;
        }
        if !std::mem::replace(&mut self.stopped, true) {
            out.extend_from_slice(format!("::stop-commands::{}\n", self.token).as_bytes());
        }
        // A CR would end a line for the runner: it is shown as what it is, like all that could act.
        let shown = escape(text);
        out.extend_from_slice(ci_line(&shown).as_bytes());
        out.push(b'\n');
    }
}

/// The commands that the log itself makes: groups of turns.
fn is_group(line: &str) -> bool {
    line == "::endgroup::"
        || line
            .strip_prefix("::group::turn ")
            .is_some_and(|turn| !turn.is_empty() && turn.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::findings::example;
    use super::*;

    #[test]
    fn annotations_are_sorted_cut_and_escaped() {
        let finding = |number: u64, severity: &str| {
            json!({"rule_id": "a,b:c", "severity": severity, "path": "x:y,z", "start_line": number, "end_line": number,
                   "quote": "q", "message": "100%\r\n::error::no\u{1b}[31m", "confidence": "high"})
        };
        let mut all: Vec<_> = (1..=12).map(|number| finding(number, "warning")).collect();
        all.push(finding(13, "error"));
        let text = annotations(&example(all.into()));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 12);
        assert_eq!(
            lines[0],
            "::error file=x%3Ay%2Cz,line=13,endLine=13,title=a%2Cb%3Ac::100%25%0A::error::no\\u{1b}[31m"
        );
        assert_eq!(lines[11], "2 more in the summary");
    }

    #[test]
    fn a_delimiter_that_the_value_holds_is_not_taken() {
        let mut randoms = ["1", "2"].into_iter();
        let text = output("n", "x\nqwen_1\ny=z", &mut || randoms.next().unwrap().to_owned());
        assert_eq!(text, "n<<qwen_2\nx\nqwen_1\ny=z\nqwen_2\n");
    }

    #[test]
    fn each_line_of_a_secret_is_masked() {
        assert_eq!(add_mask(" a%\r\n\nb"), "::add-mask::a%25\n::add-mask::b\n");
    }

    #[test]
    fn groups_are_commands_and_nothing_else_is() {
        let mut guarded = Guarded::new("T".into());
        let mut out = guarded.take(b"run x\n::group::turn 1\nhello\n::group::turn 1::x\n::set-out");
        out.extend(guarded.take(b"put name=a::b\n::endgroup::\nrest"));
        out.extend(guarded.end());
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "::stop-commands::T\nrun x\n::T::\n::group::turn 1\n::stop-commands::T\nhello\n| ::group::turn 1::x\n\
             | ::set-output name=a::b\n::T::\n::endgroup::\n::stop-commands::T\nrest\n::T::\n"
        );
    }

    proptest! {
        #[test]
        fn no_foreign_line_is_a_command(text in "([ \t]*::(set-output|add-mask|stop-commands|T|endgroup)?( a=b)?::x?|\r|\n|##\\[error\\]|.)*") {
            let mut guarded = Guarded::new("TOKEN".into());
            let mut out = guarded.take(text.as_bytes());
            out.extend(guarded.end());
            let out = String::from_utf8(out).unwrap();
            for line in out.split(['\n', '\r']) {
                let own = ["::stop-commands::TOKEN", "::TOKEN::"].contains(&line) || is_group(line);
                prop_assert!(own || !line.trim_start().starts_with("::"), "{line:?}");
                prop_assert!(!line.contains("##["), "{line:?}");
            }
        }
    }
}
