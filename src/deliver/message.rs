//! Builds commit messages: a subject, a body, and trailers of one line each.

/// Longest subject.
pub const SUBJECT: usize = 72;

/// Which part of a message is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The subject is empty, or more than a line.
    #[error("the subject must be one line of text")]
    Subject,
    /// The subject has this many characters.
    #[error("the subject has {0} characters; at most {SUBJECT} are allowed")]
    LongSubject(usize),
    /// A trailer is not a name and a line.
    #[error("the trailer `{0}` must have a name and one line of text")]
    Trailer(String),
    /// Only a person can sign off.
    #[error("`Signed-off-by` is for people only")]
    SignedOff,
}

/// Assembles a message.
///
/// The subject is one line of at most [`SUBJECT`] characters; each trailer is one line, `Name: value`.
pub fn message(subject: &str, body: &str, trailers: &[(&str, &str)]) -> Result<String, MessageError> {
    let is_line = |text: &str| !text.chars().any(char::is_control);
    if subject.trim().is_empty() || !is_line(subject) {
        return Err(MessageError::Subject);
    }
    let length = subject.chars().count();
    if length > SUBJECT {
        return Err(MessageError::LongSubject(length));
    }
    let mut message = format!("{}\n", subject.trim());
    // Control characters that a terminal obeys do not belong in a message.
    let body: String = body.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
    if !body.trim().is_empty() {
        message.push_str(&format!("\n{}\n", body.trim()));
    }
    for (number, (name, value)) in trailers.iter().enumerate() {
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if !is_name || !is_line(value) || value.trim().is_empty() {
            return Err(MessageError::Trailer((*name).to_owned()));
        }
        if name.eq_ignore_ascii_case("Signed-off-by") {
            return Err(MessageError::SignedOff);
        }
        message.push_str(&format!("{}{name}: {value}\n", if number == 0 { "\n" } else { "" }));
    }
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_lines_and_trailers_and_nothing_else() {
        assert_eq!(message("s", "b\u{1b}[31m\r\n", &[("A-B", "c")]).unwrap(), "s\n\nb[31m\n\nA-B: c\n");
        for (subject, trailers) in [
            ("", vec![]),
            ("a\nb", vec![]),
            ("s", vec![("A", "b\nSigned-off-by: x")]),
            ("s", vec![("Signed-off-by", "x")]),
            ("s", vec![("A b", "x")]),
        ] {
            assert!(message(subject, "", &trailers).is_err(), "{subject:?} {trailers:?}");
        }
        assert!(message(&"x".repeat(73), "", &[]).is_err());
    }
}
