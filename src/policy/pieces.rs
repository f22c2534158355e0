//! Recognises long pieces of secrets: a line of a private key, or a token that a bounded display has cut.

use std::collections::HashMap;
use std::ops::Range;

/// The shortest piece that is recognised, in bytes.
const SHORTEST_PIECE: usize = 16;

/// The most bytes of secrets whose pieces are remembered; what comes later is known as a whole only.
const MOST_BYTES: usize = 1 << 17;

/// The most secrets of one beginning: many tokens begin alike.
const MOST_ALIKE: usize = 8;

/// Secrets that were met, by every run of bytes with which a piece of them can begin.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    secrets: Vec<Known>,
    bytes: usize,
    beginnings: HashMap<[u8; SHORTEST_PIECE], Vec<usize>>,
}

#[derive(Debug)]
struct Known {
    text: String,
    /// The shortest piece of it that counts, in bytes.
    least: usize,
}

impl Pieces {
    /// Remembers a secret of a known form: any long piece of it counts.
    pub(super) fn learn(&mut self, secret: &str) {
        self.add(secret, SHORTEST_PIECE);
    }

    /// Remembers the value of a variable: half of it counts, as its parts may be common words; of several lines, each.
    pub(super) fn learn_value(&mut self, value: &str) {
        self.add(
            value,
            if value.contains('\n') { SHORTEST_PIECE } else { value.len().div_ceil(2).max(SHORTEST_PIECE) },
        );
    }

    fn add(&mut self, secret: &str, least: usize) {
        let windows = secret.as_bytes().windows(SHORTEST_PIECE).filter(|window| window.iter().all(is_part));
        let mut windows = windows.filter_map(|window| <[u8; SHORTEST_PIECE]>::try_from(window).ok()).peekable();
        let Some(first) = windows.peek() else { return };
        let is_known = self.owners(first).any(|known| known.text == secret);
        if is_known || self.bytes + secret.len() > MOST_BYTES {
            return;
        }
        let number = self.secrets.len();
        for window in windows {
            let owners = self.beginnings.entry(window).or_default();
            if owners.len() < MOST_ALIKE && owners.last() != Some(&number) {
                owners.push(number);
            }
        }
        self.bytes += secret.len();
        self.secrets.push(Known { text: secret.to_owned(), least });
    }

    fn owners(&self, beginning: &[u8; SHORTEST_PIECE]) -> impl Iterator<Item = &Known> {
        self.beginnings.get(beginning).into_iter().flatten().map(|number| &self.secrets[*number])
    }

    /// Finds the pieces in a text, in its order.
    pub(super) fn find(&self, text: &str) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        if self.secrets.is_empty() {
            return found;
        }
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            let length = bytes[at..].iter().take_while(|byte| is_part(byte)).count();
            if length >= SHORTEST_PIECE {
                // A diff puts its sign directly before a line.
                let sign = usize::from(matches!(bytes[at], b'+' | b'-'));
                let runs = [at..at + length, at + sign..at + length];
                found.extend(runs.into_iter().find(|run| self.is_piece(&text[run.clone()])));
            }
            at += length + 1;
        }
        found
    }

    /// Tells whether a run of characters is a piece of a secret and no common word.
    fn is_piece(&self, run: &str) -> bool {
        let Some(beginning) = run.as_bytes().first_chunk() else { return false };
        let has = |is: fn(&u8) -> bool| run.as_bytes().iter().any(is);
        let is_mixed = has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic);
        let has_both_cases = has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
        self.owners(beginning).any(|known| {
            let of_lines = known.text.contains('\n') || known.text.contains("PRIVATE KEY-----");
            is_mixed && (has_both_cases || !of_lines) && run.len() >= known.least && known.text.contains(run)
        })
    }
}

/// Tells whether keys and tokens are made of this character.
fn is_part(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/_-".contains(byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str =
        "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\nEFAASCBKcwggSjAgEAAoIBAQ\n-----END PRIVATE KEY-----";
    const TOKEN: &str = "ghp_0123456789abcdefghijABCDEFGHIJ";

    fn pieces_of(secrets: &[&str], text: &str) -> Vec<String> {
        let mut pieces = Pieces::default();
        for secret in secrets {
            if secret.starts_with("ghp_") || secret.starts_with("-----") {
                pieces.learn(secret);
            } else {
                pieces.learn_value(secret);
            }
        }
        pieces.find(text).into_iter().map(|found| text[found].to_owned()).collect()
    }

    #[test]
    fn lines_of_a_key_and_cut_tokens_are_pieces() {
        let line = "MIIEvQIBADANBgkqhkiG9w0BAQ";
        for shown in ["{}", "L3: {}\n", "+{}", "    \"{}\\n\"", "…{}…", "95:{}"] {
            let text = shown.replace("{}", line);
            assert_eq!(pieces_of(&[KEY], &text), [line], "{text}");
        }
        assert_eq!(pieces_of(&[KEY], "QIBADANBgkqhkiG9"), ["QIBADANBgkqhkiG9"]);
        assert_eq!(pieces_of(&[KEY, TOKEN], "x = ghp_0123456789abcdef... [cut]"), ["ghp_0123456789abcdef"]);
    }

    #[test]
    fn short_parts_words_and_other_texts_are_none() {
        let several = "first-line-of-words-1\nauth_provider_x509_cert_url";
        let texts =
            ["ghp_0123456789", "MIIEvQIBADANBgk", "auth_provider_x509_cert_url", "MIIEvQIBADANBgkqhkiG9w0BAQother"];
        for text in texts {
            assert!(pieces_of(&[KEY, TOKEN, several], text).is_empty(), "{text}");
        }
        assert!(pieces_of(&[], KEY).is_empty());
        assert!(
            pieces_of(&["https://a.example/production-database-17/and/more/of/it"], "production-database-17")
                .is_empty()
        );
    }
}
