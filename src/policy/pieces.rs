//! Recognises pieces of private keys: a range of a file, a match of a search and the context of a diff show lines of a key
//! without what begins and ends it.

use std::collections::HashMap;
use std::ops::Range;

/// How the lines around a private key end.
const PRIVATE: &str = "PRIVATE KEY-----";

/// The shortest piece that is recognised, in bytes.
const SHORTEST_PIECE: usize = 16;

/// The most bytes of keys that are remembered; what comes later is known as a whole only.
const MOST_BYTES: usize = 128 << 10;

/// Places of the same beginning that are remembered.
const MOST_ALIKE: usize = 8;

/// Lengths of the lines in which keys are written: PEM has 64 characters, OpenSSH 70, MIME 76.
const LINES_OF_KEYS: [usize; 3] = [64, 70, 76];

/// The shortest line of a key but for its last one, in bytes.
const SHORTEST_LINE: usize = 40;

/// The most bytes around the base64 of a line: its number, signs of a diff, quotes; and with the name of its file.
const AROUND: usize = 24;
const AROUND_WITH_NAME: usize = 160;

/// The letters of private keys, without line ends, by the runs of bytes with which a piece of them can begin.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    keys: Vec<String>,
    bytes: usize,
    beginnings: HashMap<[u8; SHORTEST_PIECE], Vec<(usize, usize)>>,
}

/// What a line stands in.
#[derive(Clone, Copy, PartialEq)]
enum Block {
    None,
    Private,
    Public,
}

impl Pieces {
    /// Tells whether a text may have what [`Pieces::notice`] remembers.
    pub(super) fn concerns(text: &str, is_part: bool) -> bool {
        is_part || text.contains(PRIVATE)
    }

    /// Remembers the private keys of a text: whole ones, and what is left of one whose beginning or end is missing. In
    /// a part of something (`is_part`) each line counts that looks like one of a key and does not belong to what is public.
    pub(super) fn notice(&mut self, text: &str, is_part: bool) {
        // A key in a string has its line ends as `\n`; one in a variable may have none.
        let text = text.replace("\\n", "\n").replace("KEY-----", "KEY-----\n").replace("-----END ", "\n-----END ");
        let (mut key, mut block) = (String::new(), Block::None);
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            if let Some((_, kind)) = line.split_once("-----BEGIN ") {
                self.flush(&mut key, block == Block::Private || is_part);
                block = if kind.contains(PRIVATE) { Block::Private } else { Block::Public };
                continue;
            }
            if let Some((_, kind)) = line.split_once("-----END ") {
                self.flush(&mut key, kind.contains(PRIVATE));
                block = Block::None;
                continue;
            }
            match base64_of(line, is_part).filter(|run| is_line_of_key(run, block, &key)) {
                Some(run) => {
                    key.push_str(run);
                    if run.len() < SHORTEST_LINE && block == Block::Private {
                        self.flush(&mut key, true);
                    }
                }
                None if block == Block::None => self.flush(&mut key, is_part),
                None => {}
            }
        }
        self.flush(&mut key, block == Block::Private || is_part);
    }

    fn flush(&mut self, key: &mut String, is_secret: bool) {
        let is_known = || self.keys.iter().any(|known| known.contains(key.as_str()));
        if is_secret && key.len() >= SHORTEST_PIECE && self.bytes + key.len() <= MOST_BYTES && !is_known() {
            for (at, window) in key.as_bytes().windows(SHORTEST_PIECE).enumerate() {
                let places = self.beginnings.entry(window.try_into().expect("a window has this length")).or_default();
                if places.len() < MOST_ALIKE {
                    places.push((self.keys.len(), at));
                }
            }
            self.bytes += key.len();
            self.keys.push(key.clone());
        }
        key.clear();
    }

    /// Finds the pieces in a text, in its order.
    pub(super) fn find(&self, text: &str) -> Vec<Range<usize>> {
        let (bytes, mut found, mut at) = (text.as_bytes(), Vec::new(), 0);
        while !self.keys.is_empty() && at + SHORTEST_PIECE <= bytes.len() {
            // The last byte of a window that is none rules out all windows with it.
            let window = &bytes[at..at + SHORTEST_PIECE];
            if let Some(last) = window.iter().rposition(|byte| !is_base64(byte)) {
                at += last + 1;
                continue;
            }
            let length = self.longest(&bytes[at..]);
            if is_mixed(&bytes[at..at + length]) {
                found.push(at..at + length);
            }
            at += length.max(1);
        }
        found
    }

    /// Returns how many of the first bytes are a piece of a key; 0 if too few are.
    fn longest(&self, bytes: &[u8]) -> usize {
        let places = bytes.first_chunk().and_then(|beginning| self.beginnings.get(beginning));
        let alike = |(key, at): &(usize, usize)| {
            self.keys[*key].as_bytes()[*at..].iter().zip(bytes).take_while(|(known, byte)| known == byte).count()
        };
        places.into_iter().flatten().map(alike).max().unwrap_or(0)
    }
}

/// Tells whether a run of base64 continues a key.
fn is_line_of_key(run: &str, block: Block, key: &str) -> bool {
    match block {
        Block::None => {
            LINES_OF_KEYS.contains(&run.len()) && is_mixed(run.as_bytes()) || !key.is_empty() && run.len() <= 76
        }
        Block::Private => run.len() >= SHORTEST_LINE || !key.is_empty(),
        Block::Public => false,
    }
}

/// Returns the base64 of a line that consists of it but for what stands around it; `is_part`: perhaps the name of a file.
fn base64_of(line: &str, is_part: bool) -> Option<&str> {
    let line = line.trim().trim_start_matches(['+', '-']);
    let run = line.split(|c: char| !c.is_ascii() || !is_base64(&(c as u8))).max_by_key(|run| run.len())?;
    let around = line.len() - run.len();
    let is_named = is_part && around <= AROUND_WITH_NAME && LINES_OF_KEYS.contains(&run.len());
    let is_digest = line.contains("sha384-") || line.contains("sha512-");
    (run.len() >= 4 && (around <= AROUND || is_named) && !is_digest).then_some(run)
}

/// Tells whether bytes have letters of both cases and digits, as no word has.
fn is_mixed(run: &[u8]) -> bool {
    let has = |is: fn(&u8) -> bool| run.iter().any(is);
    has(u8::is_ascii_digit) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase)
}

fn is_base64(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/')
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;

    use super::*;

    /// Lines of a key of this many, each of 64 characters but the last, of 24.
    fn lines(count: u8) -> Vec<String> {
        let line = |number: u8| {
            let length = if number + 1 == count { 18 } else { 48 };
            let bytes: Vec<u8> = (0..length).map(|at: u8| at.wrapping_mul(37) ^ number.wrapping_mul(91)).collect();
            base64::engine::general_purpose::STANDARD.encode(bytes)
        };
        (0..count).map(line).collect()
    }

    fn key(end: &str) -> String {
        format!("-----BEGIN RSA PRIVATE KEY-----{end}{}{end}-----END RSA PRIVATE KEY-----", lines(5).join(end))
    }

    fn pieces_of(noticed: &str, is_part: bool, text: &str) -> Vec<String> {
        let mut pieces = Pieces::default();
        if Pieces::concerns(noticed, is_part) {
            pieces.notice(noticed, is_part);
        }
        pieces.find(text).into_iter().map(|found| text[found].to_owned()).collect()
    }

    #[test]
    fn every_line_of_a_key_is_a_piece_however_it_is_shown() {
        let lines = lines(5);
        for noticed in [key("\n"), format!("KEY = \"{}\"", key("\\n")), key(""), key("\n    ")] {
            for line in &lines {
                for shown in ["{}", "L3: {}\n", "+{}", "-{}", "5-{}", "    \"{}\\n\" +", "src/a.py:95:{}", "x\\n{}\\n"]
                {
                    assert_eq!(
                        pieces_of(&noticed, false, &shown.replace("{}", line)),
                        std::slice::from_ref(line),
                        "{shown} {noticed}"
                    );
                }
                assert_eq!(pieces_of(&noticed, false, &line[3..21]), [line[3..21].to_owned()]);
            }
            assert_eq!(pieces_of(&noticed, false, &lines.concat()), [lines.concat()]);
        }
    }

    #[test]
    fn a_key_without_its_beginning_or_end_is_one() {
        let (text, lines) = (key("\n"), lines(5));
        let (head, tail) = text.split_at(150);
        assert_eq!(pieces_of(head, false, &lines[0]), [lines[0].clone()]);
        assert_eq!(pieces_of(&tail[60..], false, &lines[3]), [lines[3].clone()]);
        for part in [
            format!(" {}\n-{}\n+{}\n", lines[1], lines[2], lines[3]),
            format!("src/a.py:7:{}\nsrc/a.py:8:{}", lines[1], lines[2]),
            lines[2].clone(),
        ] {
            assert_eq!(pieces_of(&part, true, &lines[2]), [lines[2].clone()], "{part}");
        }
    }

    #[test]
    fn what_is_public_and_words_are_none() {
        let public = key("\n").replace("RSA PRIVATE KEY", "CERTIFICATE");
        assert!(pieces_of(&public, true, &lines(5)[1]).is_empty());
        let code =
            "BEGIN = '-----BEGIN PRIVATE KEY-----'\ndecodeBase64UrlSafe2();\nEND = '-----END PRIVATE KEY-----'\n";
        assert!(pieces_of(code, false, "decodeBase64UrlSafe2();").is_empty());
        let digest = format!("integrity=\"sha384-{}\"", lines(5)[1]);
        assert!(pieces_of(&digest, true, &digest).is_empty());
        let hash = "0123456789abcdef".repeat(4);
        assert!(pieces_of(&hash, true, &hash).is_empty());
        assert!(pieces_of("", false, &key("\n")).is_empty());
    }

    /// Not a measurement: a quadratic search would not end.
    #[test]
    fn alike_lines_are_one_pass() {
        let text = format!(
            "-----BEGIN PRIVATE KEY-----\n{}",
            "Aa1Aa1Aa1Aa1Aa1Aa1Aa1Aa1Aa1Aa1Aa1Aa1Aa1Aa1Aa1Aa1\n".repeat(2000)
        );
        let shown = "Aa1Aa1Aa1Aa1Aa1Aa1x\n".repeat(50_000);
        assert_eq!(pieces_of(&text, false, &shown).len(), 50_000);
    }
}
