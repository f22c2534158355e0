//! Reads and writes the marks by which comments of ours are found again. Who wrote a comment is looked at, too: anybody
//! can copy a mark.

/// How a mark of a finding begins.
const FINDING: &str = "<!-- qwen:finding v1 ";

/// How the line begins that says what was reviewed.
const STATE: &str = "<!-- qwen:state ";

/// What a comment says of the finding that it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindingMark {
    /// The finding's fingerprint.
    pub fingerprint: String,
    /// The rule.
    pub rule_id: String,
    /// How many lines are quoted.
    pub lines: u64,
    /// `error`, `warning` or `note`.
    pub severity: String,
    /// `low`, `medium` or `high`.
    pub confidence: String,
}

impl FindingMark {
    /// Returns the last line of a comment; `None` if a part has characters that no mark may have.
    pub fn write(&self) -> Option<String> {
        let FindingMark { fingerprint, rule_id, lines, severity, confidence } = self;
        let values = [fingerprint, rule_id, &lines.to_string(), severity, confidence];
        written("finding v1 {} rule={} lines={} {} {}", &values.map(String::as_str))
    }

    /// Reads the mark of a comment: its last line.
    pub fn read(body: &str) -> Option<FindingMark> {
        let words = body.trim_end().lines().next_back()?.strip_prefix(FINDING)?.strip_suffix(" -->")?;
        let mut words = words.split(' ');
        let mark = FindingMark {
            fingerprint: words.next()?.to_owned(),
            rule_id: words.next()?.strip_prefix("rule=")?.to_owned(),
            lines: words.next()?.strip_prefix("lines=")?.parse().ok()?,
            severity: words.next()?.to_owned(),
            confidence: words.next()?.to_owned(),
        };
        let is_hash = mark.fingerprint.bytes().all(|byte| byte.is_ascii_hexdigit()) && !mark.fingerprint.is_empty();
        let is_known = ["error", "warning", "note"].contains(&mark.severity.as_str())
            && ["low", "medium", "high"].contains(&mark.confidence.as_str());
        (words.next().is_none() && is_hash && is_known).then_some(mark)
    }
}

/// Writes a mark, as nothing else does: each `{}` stands for a value. `None` if a value is empty or has a character that
/// could end the mark or another word of it: then there is no mark, and no comment that needs it.
fn written(template: &str, values: &[&str]) -> Option<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._/=-".contains(&byte);
    let mut text = template.to_owned();
    for value in values {
        if value.is_empty() || !value.bytes().all(is_plain) {
            return None;
        }
        text = text.replacen("{}", value, 1);
    }
    Some(format!("<!-- qwen:{text} -->"))
}

/// Returns the last line of a comment whose finding is gone. It is no finding's mark any more: if the code is back, it
/// is posted again.
pub fn gone(fingerprint: &str) -> Option<String> {
    written("gone v1 {}", &[fingerprint])
}

/// Returns the first line of a comment that is brought up to date by each run of a recipe.
pub fn sticky(recipe: &str) -> Option<String> {
    written("sticky v1 {}", &[recipe])
}

/// Returns the first line of an answer to a comment; a second one for the same run is not written.
pub fn reply(run_id: &str) -> Option<String> {
    written("reply v1 {}", &[run_id])
}

/// Tells whether a comment begins with a mark.
pub fn begins_with(body: &str, mark: &str) -> bool {
    body.lines().next().is_some_and(|line| line.trim_end() == mark)
}

/// What was reviewed as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reviewed {
    /// The last commit.
    pub head: String,
    /// The commit of the branch that it was to be merged into.
    pub base: String,
    /// A digest of what was looked at, and for what.
    pub scope: String,
}

/// Returns the last line of the comment that is brought up to date.
pub fn state(reviewed: &Reviewed) -> Option<String> {
    let Reviewed { head, base, scope } = reviewed;
    written("state {\"reviewed\":\"{}\",\"base\":\"{}\",\"scope\":\"{}\"}", &[head, base, scope])
}

/// Returns what such a comment says was reviewed.
pub fn reviewed(body: &str) -> Option<Reviewed> {
    let state = body.trim_end().lines().next_back()?.strip_prefix(STATE)?.strip_suffix(" -->")?;
    let state = serde_json::from_str::<serde_json::Value>(state).ok()?;
    let commit = |name: &str| {
        let commit = state.get(name)?.as_str()?;
        let is_one = (40..=64).contains(&commit.len()) && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_one.then(|| commit.to_owned())
    };
    let scope = state.get("scope")?.as_str()?.to_owned();
    Some(Reviewed { head: commit("reviewed")?, base: commit("base")?, scope })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_it_was_written_and_nothing_else_is_one() {
        let mark = FindingMark {
            fingerprint: "00ff".into(),
            rule_id: "qwen/secret".into(),
            lines: 2,
            severity: "error".into(),
            confidence: "high".into(),
        };
        let text = mark.write().unwrap();
        assert_eq!(text, "<!-- qwen:finding v1 00ff rule=qwen/secret lines=2 error high -->");
        assert_eq!(FindingMark::read(&format!("x\n\n{text}\n")), Some(mark));
        for wrong in [
            format!("{text}\nmore"),
            text.replace("00ff", "zz"),
            text.replace("00ff", "00ff 1"),
            text.replace("error", "fatal"),
            text.replace("lines=2", "lines=x"),
            text.replace("v1", "v2"),
        ] {
            assert_eq!(FindingMark::read(&wrong), None, "{wrong}");
        }
        let commits = Reviewed { head: "a".repeat(40), base: "b".repeat(40), scope: "c0".into() };
        assert_eq!(reviewed(&format!("x\n{}", state(&commits).unwrap())), Some(commits.clone()));
        assert_eq!(reviewed(&state(&Reviewed { head: "HEAD".into(), ..commits }).unwrap()), None);
    }

    #[test]
    fn nothing_that_could_end_a_mark_is_in_one() {
        let of_finding = |value: &str| {
            let (fingerprint, rule_id) = (value.to_owned(), "bug".to_owned());
            let (severity, confidence) = ("note".to_owned(), "low".to_owned());
            FindingMark { fingerprint, rule_id, lines: 1, severity, confidence }.write()
        };
        let of_state =
            |value: &str| state(&Reviewed { head: value.to_owned(), base: value.to_owned(), scope: value.to_owned() });
        let all = |value: &str| [of_finding(value), gone(value), sticky(value), reply(value), of_state(value)];
        for value in ["", "a b", "a -->", "a\nb", "{}", "a\"", "<b>", "ä", "a\u{200b}"] {
            assert_eq!(all(value), [const { None }; 5], "{value:?}");
        }
        insta::assert_snapshot!(all("A-z/0.9_=").map(Option::unwrap).join("\n"), @r#"
        <!-- qwen:finding v1 A-z/0.9_= rule=bug lines=1 note low -->
        <!-- qwen:gone v1 A-z/0.9_= -->
        <!-- qwen:sticky v1 A-z/0.9_= -->
        <!-- qwen:reply v1 A-z/0.9_= -->
        <!-- qwen:state {"reviewed":"A-z/0.9_=","base":"A-z/0.9_=","scope":"A-z/0.9_="} -->
        "#);
    }
}
