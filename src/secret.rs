//! Holds a secret: a string that never appears in debug output, logs or errors.

use std::fmt;

/// An API key. It has no `Display`, and its `Debug` says only that it is there.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// Why a text cannot be a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Nothing is left after trimming.
    #[error("the API key is empty")]
    Empty,
    /// It cannot be in a header.
    #[error("the API key contains whitespace or non-ASCII characters; paste it again without them")]
    Unprintable,
}

impl Secret {
    /// Reads a key as people paste it: surrounding whitespace, quotes and a byte order mark are dropped.
    pub fn parse(text: &str) -> Result<Secret, SecretError> {
        let trimmed =
            text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '\u{feff}' | '\u{200b}'));
        if trimmed.is_empty() {
            return Err(SecretError::Empty);
        }
        if !trimmed.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(SecretError::Unprintable);
        }
        Ok(Secret(trimmed.to_owned()))
    }

    /// Returns the secret itself: for the header that carries it, and for nothing else.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns what a person may see of it: enough to tell two keys apart.
    pub fn masked(&self) -> String {
        // Graphic ASCII: every byte is a character.
        match self.0.len() {
            0..16 => "***".into(),
            length => format!("{}…{}", &self.0[..3], &self.0[length - 2..]),
        }
    }

    /// Returns `text` with every occurrence of the secret masked.
    pub fn mask_in(&self, text: &str) -> String {
        // A very short key would mask half of the text.
        if self.0.len() < 4 { text.to_owned() } else { text.replace(&self.0, "[key]") }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret([key])")
    }
}

/// Masks what looks like a credential: `sk-…`, `Bearer …`, GitHub and Google tokens, and a URL's user part.
pub fn mask_credentials(text: &str) -> String {
    use std::sync::LazyLock;
    static SHAPES: LazyLock<[(regex::Regex, &str); 3]> = LazyLock::new(|| {
        let regex =
            |pattern: &str| regex::Regex::new(pattern).expect("the pattern is a constant and a test compiles it");
        [
            (regex(r"(?i)\b(bearer\s+)[A-Za-z0-9._~+/=-]{6,}"), "${1}[key]"),
            (regex(r"\b(sk-|ms-|ghp_|gho_|ghs_|github_pat_|glpat-|AIza|xox[bap]-|AKIA)[A-Za-z0-9_-]{8,}"), "${1}[key]"),
            (regex(r"(://)[^/\s@:]+(?::[^/\s@]*)?@"), "${1}[key]@"),
        ]
    });
    let mut masked = std::borrow::Cow::Borrowed(text);
    for (shape, replacement) in SHAPES.iter() {
        if shape.is_match(&masked) {
            masked = std::borrow::Cow::Owned(shape.replace_all(&masked, *replacement).into_owned());
        }
    }
    masked.into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pasted_key_is_trimmed() {
        for text in ["sk-1234", " sk-1234\n", "\u{feff}sk-1234", "\"sk-1234\"\r\n"] {
            assert_eq!(Secret::parse(text).unwrap().expose(), "sk-1234");
        }
    }

    #[test]
    fn a_key_that_cannot_stand_in_a_header_is_refused() {
        assert_eq!(Secret::parse("  "), Err(SecretError::Empty));
        for text in ["sk-12\n34", "sk 1234", "sk-12é4"] {
            assert_eq!(Secret::parse(text), Err(SecretError::Unprintable));
        }
    }

    #[test]
    fn r52_debug_output_hides_the_key() {
        assert_eq!(format!("{:?}", Secret::parse("sk-hidden").unwrap()), "Secret([key])");
    }

    #[test]
    fn a_key_is_never_shown_whole() {
        let masked = |text| Secret::parse(text).unwrap().masked();
        assert_eq!(masked("sk-0123456789abcdefgh"), "sk-…gh");
        assert_eq!(masked("short"), "***");
    }

    #[test]
    fn credentials_are_masked_by_their_shape() {
        assert_eq!(mask_credentials("Bearer abcdef123 and sk-abcdefgh1234"), "Bearer [key] and sk-[key]");
        assert_eq!(mask_credentials("http://user:pass@host/x"), "http://[key]@host/x");
        assert_eq!(mask_credentials("plain text, task-list"), "plain text, task-list");
    }
}
