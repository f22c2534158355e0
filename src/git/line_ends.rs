//! Converts line ends as git does by the attributes `text`, `crlf` and `eol`, and by the settings for files without them.

/// How git converts the line ends of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineEnds {
    /// Only what looks like text is converted.
    is_guessed: bool,
    /// Lines end with `\r\n` in the work tree.
    has_cr: bool,
}

/// The settings `core.autocrlf` and `core.eol`.
#[derive(Debug, Default)]
pub struct Settings {
    /// `core.autocrlf`: `input`, or what git reads as true or false.
    pub auto: String,
    /// `core.eol`.
    pub eol: String,
}

impl LineEnds {
    /// Returns how a file with these attributes is converted; `None` if it is not.
    pub fn of(text: &[u8], crlf: &[u8], eol: &[u8], settings: &Settings) -> Option<LineEnds> {
        let known = |value: &&[u8]| [&b"set"[..], b"unset", b"input", b"auto"].contains(value);
        let is_number = settings.auto.parse::<i64>().is_ok_and(|number| number != 0);
        let is_auto_set = is_number || ["true", "yes", "on"].contains(&&*settings.auto);
        let by_setting = is_auto_set || settings.auto != "input" && settings.eol == "crlf";
        let text = [text, crlf].into_iter().find(known);
        let (is_guessed, has_cr) = match (text, eol) {
            (Some(b"unset"), _) => return None,
            (text, b"lf" | b"crlf") => (text == Some(b"auto"), eol == b"crlf"),
            (Some(b"input"), _) => (false, false),
            (Some(text), _) => (text == b"auto", by_setting),
            (None, _) if is_auto_set || settings.auto == "input" => (true, is_auto_set),
            (None, _) => return None,
        };
        Some(LineEnds { is_guessed, has_cr })
    }

    /// Returns a content of the work tree as git stores it, over this content that it stores now: a text that is only
    /// guessed to be one stays as it is where that has `\r\n`.
    pub fn kept(self, stored: &[u8], content: &[u8]) -> Vec<u8> {
        let has_cr = || stored.windows(2).any(|pair| pair == b"\r\n") && !is_binary(stored);
        if self.is_guessed && (is_binary(content) || has_cr()) {
            return content.to_vec();
        }
        let is_kept = |at: &usize| content[*at] != b'\r' || content.get(at + 1) != Some(&b'\n');
        (0..content.len()).filter(is_kept).map(|at| content[at]).collect()
    }

    /// Returns a content that git stores as it is in the work tree.
    pub fn checked_out(self, content: &[u8]) -> Vec<u8> {
        if !self.has_cr || self.is_guessed && (content.contains(&b'\r') || is_binary(content)) {
            return content.to_vec();
        }
        let mut converted = Vec::with_capacity(content.len() + content.len() / 16);
        for (at, byte) in content.iter().enumerate() {
            if *byte == b'\n' && (at == 0 || content[at - 1] != b'\r') {
                converted.push(b'\r');
            }
            converted.push(*byte);
        }
        converted
    }
}

/// Tells whether git takes a content for binary where it looks at its line ends.
fn is_binary(content: &[u8]) -> bool {
    let has_lone = (0..content.len()).any(|at| content[at] == b'\r' && content.get(at + 1) != Some(&b'\n'));
    // The mark of the end of a file of old systems.
    let content = content.strip_suffix(b"\x1a").unwrap_or(content);
    let is_odd = |byte: &u8| matches!(byte, 0x7f | 0..=0x1f) && !matches!(byte, 8..=10 | 12 | 13 | 0x1b);
    let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let (odd, ends) = (content.iter().filter(|b| is_odd(b)).count(), content.iter().filter(|b| is_end(b)).count());
    has_lone || content.contains(&0) || (content.len() - odd - ends) >> 7 < odd
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_are_converted_where_attributes_or_settings_ask_for_it() {
        let out = |text: &str, eol: &str, auto: &str, core: &str| {
            let settings = Settings { auto: auto.to_owned(), eol: core.to_owned() };
            let ends = LineEnds::of(text.as_bytes(), b"unspecified", eol.as_bytes(), &settings);
            ends.map(|ends| ends.checked_out(b"1\n2\n") == b"1\r\n2\r\n")
        };
        let none = "unspecified";
        assert_eq!(out("auto", none, "", ""), Some(false));
        assert_eq!(out("auto", "crlf", "", ""), Some(true));
        assert_eq!(out("set", none, "", "crlf"), Some(true));
        assert_eq!(out("set", none, "input", "crlf"), Some(false));
        assert_eq!(out("set", "lf", "true", ""), Some(false));
        assert_eq!(out("unset", "crlf", "true", ""), None);
        assert_eq!(out(none, "crlf", "", ""), Some(true));
        assert_eq!(out("input", "crlf", "", ""), Some(true));
        assert_eq!(out("input", none, "true", ""), Some(false));
        assert_eq!(out(none, none, "2", ""), Some(true));
        assert_eq!(out(none, none, "0", ""), None);
        assert_eq!(out(none, none, "true", ""), Some(true));
        assert_eq!(out(none, none, "input", ""), Some(false));
        assert_eq!(out(none, none, "", "crlf"), None);
    }

    #[test]
    fn what_looks_binary_is_converted_only_where_it_is_said_to_be_text() {
        let guessed = LineEnds { is_guessed: true, has_cr: true };
        let said = LineEnds { is_guessed: false, has_cr: true };
        assert_eq!(guessed.kept(b"", b"1\0\r\n"), b"1\0\r\n");
        assert_eq!(said.kept(b"1\r\n", b"1\0\r\n\r"), b"1\0\n\r");
        assert_eq!(guessed.kept(b"1\n", b"1\r\n2\n"), b"1\n2\n");
        assert_eq!(guessed.kept(b"1\0\r\n", b"1\r\n2\n"), b"1\n2\n");
        assert_eq!(guessed.kept(b"1\n3\r\n", b"1\r\n2\n"), b"1\r\n2\n");
        assert_eq!(guessed.checked_out(b"1\r\n2\n"), b"1\r\n2\n");
        assert_eq!(said.checked_out(b"1\r\n2\n"), b"1\r\n2\r\n");
    }
}
