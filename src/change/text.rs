//! Decodes text files and encodes them again; encoding, byte order mark and line ends survive a change.

use encoding_rs::WINDOWS_1252;

/// How a file writes its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8.
    Utf8,
    /// UTF-16, low byte first.
    Utf16Le,
    /// UTF-16, high byte first.
    Utf16Be,
    /// Latin-1, as the web has it (windows-1252): every byte is a character, so nothing is lost.
    Latin1,
}

impl Encoding {
    /// Returns its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::Utf8 => "UTF-8",
            Encoding::Utf16Le => "UTF-16LE",
            Encoding::Utf16Be => "UTF-16BE",
            Encoding::Latin1 => "Latin-1",
        }
    }
}

/// How a text ends its lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineEnd {
    /// `\n` only, or no line end at all.
    Lf,
    /// `\r\n` only.
    CrLf,
    /// Both.
    Mixed,
}

impl LineEnd {
    /// Looks at every line of a text.
    pub fn of(text: &str) -> LineEnd {
        let all = text.bytes().filter(|byte| *byte == b'\n').count();
        let crlf = text.matches("\r\n").count();
        match crlf {
            0 => LineEnd::Lf,
            n if n == all => LineEnd::CrLf,
            _ => LineEnd::Mixed,
        }
    }

    /// Rewrites the line ends of `text` as a file of this kind has them; a mixed file takes them as they come.
    pub fn apply(self, text: &str) -> String {
        match self {
            LineEnd::Lf => text.replace("\r\n", "\n"),
            LineEnd::CrLf => text.replace("\r\n", "\n").replace('\n', "\r\n"),
            LineEnd::Mixed => text.to_owned(),
        }
    }
}

/// A file's text, with what is needed to write it back.
///
/// ```
/// use qwen_run::change::text::Decoded;
/// let bytes = b"\xef\xbb\xbfa\r\n";
/// let decoded = Decoded::from_bytes(bytes).unwrap();
/// assert_eq!(decoded.text, "a\r\n");
/// assert_eq!(decoded.encode("b\r\n").unwrap(), b"\xef\xbb\xbfb\r\n");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// The text without its byte order mark, line ends as they are.
    pub text: String,
    /// How it is written.
    pub encoding: Encoding,
    /// Whether a byte order mark is in front.
    pub bom: bool,
}

/// A character that a file's encoding does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the file is {} and cannot hold {character:?}", encoding.name())]
pub struct Unencodable {
    /// The file's encoding.
    pub encoding: Encoding,
    /// The first character that it lacks.
    pub character: char,
}

impl Decoded {
    /// Decodes a file; `None` if it is not text.
    ///
    /// What comes back encodes to the same bytes again.
    pub fn from_bytes(bytes: &[u8]) -> Option<Decoded> {
        let decoded = |text: String, encoding, bom| Some(Decoded { text, encoding, bom });
        if let Some(rest) = bytes.strip_prefix(b"\xef\xbb\xbf") {
            if let Some(text) = text_of_utf8(rest) {
                return decoded(text, Encoding::Utf8, true);
            }
        } else if let Some(rest) = bytes.strip_prefix(b"\xff\xfe") {
            return decoded(text_of_utf16(rest, u16::from_le_bytes)?, Encoding::Utf16Le, true);
        } else if let Some(rest) = bytes.strip_prefix(b"\xfe\xff") {
            return decoded(text_of_utf16(rest, u16::from_be_bytes)?, Encoding::Utf16Be, true);
        }
        if bytes.contains(&0) {
            let (text, encoding) = match nul_columns(bytes)? {
                Encoding::Utf16Le => (text_of_utf16(bytes, u16::from_le_bytes)?, Encoding::Utf16Le),
                Encoding::Utf16Be => (text_of_utf16(bytes, u16::from_be_bytes)?, Encoding::Utf16Be),
                Encoding::Utf8 | Encoding::Latin1 => return None,
            };
            return decoded(text, encoding, false);
        }
        if let Some(text) = text_of_utf8(bytes) {
            return decoded(text, Encoding::Utf8, false);
        }
        if std::str::from_utf8(bytes).is_ok() || bytes.iter().any(|byte| is_control(char::from(*byte))) {
            return None;
        }
        // windows-1252 of the web maps all 256 bytes, one to one.
        let (text, _) = WINDOWS_1252.decode_without_bom_handling(bytes);
        decoded(text.into_owned(), Encoding::Latin1, false)
    }

    /// Describes a new file: UTF-8 without a mark.
    pub fn new_file() -> Decoded {
        Decoded { text: String::new(), encoding: Encoding::Utf8, bom: false }
    }

    /// Writes another text the way this file is written; line ends are the caller's business.
    pub fn encode(&self, text: &str) -> Result<Vec<u8>, Unencodable> {
        let text = if self.bom { text.strip_prefix('\u{feff}').unwrap_or(text) } else { text };
        let mark: &[u8] = match self.encoding {
            _ if !self.bom => b"",
            Encoding::Utf8 => b"\xef\xbb\xbf",
            Encoding::Utf16Le => b"\xff\xfe",
            Encoding::Utf16Be => b"\xfe\xff",
            Encoding::Latin1 => b"",
        };
        let mut bytes = mark.to_vec();
        match self.encoding {
            Encoding::Utf8 => bytes.extend_from_slice(text.as_bytes()),
            Encoding::Utf16Le => bytes.extend(text.encode_utf16().flat_map(u16::to_le_bytes)),
            Encoding::Utf16Be => bytes.extend(text.encode_utf16().flat_map(u16::to_be_bytes)),
            Encoding::Latin1 => {
                let (encoded, _, lossy) = WINDOWS_1252.encode(text);
                if lossy {
                    let lacks = |c: &char| WINDOWS_1252.encode(c.encode_utf8(&mut [0; 4])).2;
                    let character = text.chars().find(lacks).unwrap_or(char::REPLACEMENT_CHARACTER);
                    return Err(Unencodable { encoding: self.encoding, character });
                }
                bytes.extend_from_slice(&encoded);
            }
        }
        Ok(bytes)
    }
}

/// Control characters that no text file has. Backspace, escape and form feed do occur (logs, man pages, licences).
fn is_control(c: char) -> bool {
    matches!(c, '\0'..='\x06' | '\x0e'..='\x1a' | '\x1c'..='\x1f')
}

/// Returns the text unless it looks binary: a NUL, or more than one control character in ten.
fn text_of_utf8(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    // In UTF-8 the byte of a control character never occurs in another character.
    let controls = bytes.iter().filter(|byte| is_control(char::from(**byte))).count();
    (!bytes.contains(&0) && controls * 10 <= bytes.len()).then(|| text.to_owned())
}

fn text_of_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Option<String> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let text = char::decode_utf16(pairs.iter().map(|pair| unit(*pair))).collect::<Result<String, _>>().ok()?;
    (!text.chars().any(is_control)).then_some(text)
}

/// Recognises UTF-16 without a mark: text in Latin letters has its NULs in one of the two columns only.
fn nul_columns(bytes: &[u8]) -> Option<Encoding> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    if !rest.is_empty() || pairs.len() < 2 {
        return None;
    }
    let first = pairs.iter().filter(|pair| pair[0] == 0).count();
    let second = pairs.iter().filter(|pair| pair[1] == 0).count();
    match (first, second) {
        (0, n) if n * 2 >= pairs.len() => Some(Encoding::Utf16Le),
        (n, 0) if n * 2 >= pairs.len() => Some(Encoding::Utf16Be),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn utf16le(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    #[test]
    fn encodings_are_recognised() {
        type Row<'a> = (&'a [u8], Option<(&'a str, Encoding, bool)>);
        let table: &[Row<'_>] = &[
            (b"", Some(("", Encoding::Utf8, false))),
            ("grün\n".as_bytes(), Some(("grün\n", Encoding::Utf8, false))),
            (b"\xef\xbb\xbfa", Some(("a", Encoding::Utf8, true))),
            (b"\xff\xfea\0", Some(("a", Encoding::Utf16Le, true))),
            (b"\xfe\xff\0a", Some(("a", Encoding::Utf16Be, true))),
            (&utf16le("hello\r\n"), Some(("hello\r\n", Encoding::Utf16Le, false))),
            (b"gr\xfcn \x80\n", Some(("grün €\n", Encoding::Latin1, false))),
            (b"\x89PNG\r\n\x1a\n\0\0\0", None),
            (b"\x7fELF\x02\x01\x01\0\0", None),
            (b"\xff\xfea", None),
            (b"\x01\x02\xff", None),
        ];
        for (bytes, expected) in table {
            let decoded = Decoded::from_bytes(bytes);
            let found = decoded.as_ref().map(|d| (d.text.as_str(), d.encoding, d.bom));
            assert_eq!(found, *expected, "{bytes:?}");
        }
    }

    #[test]
    fn a_character_that_the_encoding_lacks_is_an_error_and_no_entity() {
        let decoded = Decoded::from_bytes(b"\xfc").unwrap();
        let error = decoded.encode("a→b").unwrap_err();
        assert_eq!(error.to_string(), "the file is Latin-1 and cannot hold '→'");
    }

    #[test]
    fn line_ends_follow_the_file() {
        assert_eq!(LineEnd::of("a\r\nb\r\n"), LineEnd::CrLf);
        assert_eq!(LineEnd::of("a\r\nb\n"), LineEnd::Mixed);
        assert_eq!(LineEnd::of("a\rb"), LineEnd::Lf);
        assert_eq!(LineEnd::CrLf.apply("a\nb\r\nc"), "a\r\nb\r\nc");
        assert_eq!(LineEnd::Lf.apply("a\r\n"), "a\n");
    }

    proptest! {
        #[test]
        fn what_decodes_encodes_to_the_same_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Some(decoded) = Decoded::from_bytes(&bytes) {
                prop_assert_eq!(decoded.encode(&decoded.text).unwrap(), bytes);
            }
        }

        #[test]
        fn text_in_any_encoding_comes_back(text in "[a-zäöü€\\r\\n ]{0,40}") {
            for encoding in [Encoding::Utf8, Encoding::Utf16Le, Encoding::Utf16Be] {
                let file = Decoded { text: String::new(), encoding, bom: true };
                let bytes = file.encode(&text).unwrap();
                prop_assert_eq!(Decoded::from_bytes(&bytes).unwrap().text, text.clone());
            }
        }
    }
}
