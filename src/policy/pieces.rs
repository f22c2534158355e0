//! Recognises pieces of private keys: a range of a file, a match of a search and the context of a diff show lines of a key
//! without what begins and ends it.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

/// How the lines around a private key end, and around one of PGP.
const PRIVATE: [&str; 2] = ["PRIVATE KEY-----", "PRIVATE KEY BLOCK-----"];

/// How line ends are written in strings and addresses.
const LINE_ENDS: [&str; 5] = ["\\n", "%0A", "%0a", "&#10;", "&#xA;"];

/// The shortest piece that is recognised, in bytes.
const SHORTEST_PIECE: usize = 16;

/// The most bytes of keys that are remembered; for more, the earliest ones are forgotten.
const MOST_BYTES: usize = 128 << 10;

/// The same of lines that only look like those of a key.
const MOST_GUESSED: usize = 512 << 10;

/// Bytes of such lines that are remembered together.
const TOGETHER: usize = 16 << 10;

/// Places of the same beginning that are remembered.
const MOST_ALIKE: usize = 8;

/// Lengths of the lines in which keys are written: PEM has 64 characters, OpenSSH 70, MIME 76.
const LINES_OF_KEYS: [usize; 3] = [64, 70, 76];

/// The shortest line of a key but for its last one, in bytes.
const SHORTEST_LINE: usize = 32;

/// The most bytes around the base64 of a line: its number, signs of a diff, quotes; and with the name of its file.
const AROUND: usize = 24;
const AROUND_WITH_NAME: usize = 160;

/// The private keys that were met: those between their marks, and what only looks like lines of one.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    marked: Keys,
    guessed: Keys,
}

/// The letters of private keys, without line ends, by the runs of bytes with which a piece of them can begin.
#[derive(Debug, Default)]
struct Keys {
    keys: VecDeque<String>,
    bytes: usize,
    /// How many were forgotten: the number of the first one that is known.
    forgotten: usize,
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
        is_part || is_private(text)
    }

    /// Remembers the private keys of a text: whole ones, and what is left of one whose beginning or end is missing. In
    /// a part of something (`is_part`) each line counts that looks like one of a key and does not belong to what is public.
    pub(super) fn notice(&mut self, text: &str, is_part: bool) {
        let mut text = text.to_owned();
        for end in LINE_ENDS {
            if text.contains(end) {
                text = text.replace(end, "\n");
            }
        }
        // A key in one line has blanks for its line ends, or none.
        for (mark, alone) in [("KEY-----", "KEY-----\n"), ("BLOCK-----", "BLOCK-----\n"), ("-----END ", "\n-----END ")]
        {
            text = text.replace(mark, alone);
        }
        let (mut key, mut block) = (String::new(), Block::None);
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            if let Some((_, kind)) = line.split_once("-----BEGIN ") {
                self.flush(&mut key, block, is_part);
                block = if is_private(kind) { Block::Private } else { Block::Public };
                continue;
            }
            if let Some((_, kind)) = line.split_once("-----END ") {
                let ended = if is_private(kind) { Block::Private } else { Block::Public };
                self.flush(&mut key, ended, false);
                block = Block::None;
                continue;
            }
            if block == Block::Private && in_words(line) {
                key.extend(line.split_whitespace());
                continue;
            }
            match base64_of(line, is_part).filter(|run| is_line_of_key(run, block, &key)) {
                Some(run) => {
                    key.push_str(run);
                    let ends = match block {
                        Block::Private => run.len() <= SHORTEST_LINE,
                        Block::None => key.len() >= TOGETHER,
                        Block::Public => false,
                    };
                    if ends {
                        self.flush(&mut key, block, is_part);
                    }
                }
                None if block == Block::None => self.flush(&mut key, block, is_part),
                None => {}
            }
        }
        self.flush(&mut key, block, is_part);
    }

    /// Remembers what stood in a block, or looked like a key in a part of something.
    fn flush(&mut self, key: &mut String, block: Block, is_part: bool) {
        match block {
            Block::Private => self.marked.remember(key, MOST_BYTES),
            Block::None if is_part => self.guessed.remember(key, MOST_GUESSED),
            Block::None | Block::Public => {}
        }
        key.clear();
    }

    /// Finds the pieces in a text, in its order.
    pub(super) fn find(&self, text: &str) -> Vec<Range<usize>> {
        pieces_of(&[&self.marked, &self.guessed], text)
    }

    /// Finds the pieces of keys whose marks were seen.
    pub(super) fn find_marked(&self, text: &str) -> Vec<Range<usize>> {
        pieces_of(&[&self.marked], text)
    }
}

fn pieces_of(all: &[&Keys], text: &str) -> Vec<Range<usize>> {
    let (bytes, mut found, mut at) = (text.as_bytes(), Vec::new(), 0);
    let is_empty = all.iter().all(|keys| keys.keys.is_empty());
    while !is_empty && at + SHORTEST_PIECE <= bytes.len() {
        // The last byte of a window that is none rules out all windows with it.
        let window = &bytes[at..at + SHORTEST_PIECE];
        if let Some(last) = window.iter().rposition(|byte| !is_base64(byte)) {
            at += last + 1;
            continue;
        }
        let length = all.iter().map(|keys| keys.longest(&bytes[at..])).max().unwrap_or(0);
        if is_mixed(&bytes[at..at + length]) {
            found.push(at..at + length);
        }
        at += length.max(1);
    }
    found
}

impl Keys {
    fn remember(&mut self, key: &str, most: usize) {
        let is_known = || self.keys.iter().any(|known| known.contains(key));
        if key.len() < SHORTEST_PIECE || key.len() > most || is_known() {
            return;
        }
        while self.bytes + key.len() > most {
            self.forget_the_oldest();
        }
        let number = self.forgotten + self.keys.len();
        for (at, window) in windows(key) {
            let places = self.beginnings.entry(window).or_default();
            if places.len() < MOST_ALIKE {
                places.push((number, at));
            }
        }
        self.bytes += key.len();
        self.keys.push_back(key.to_owned());
    }

    fn forget_the_oldest(&mut self) {
        let Some(key) = self.keys.pop_front() else { return };
        for (_, window) in windows(&key) {
            if let Some(places) = self.beginnings.get_mut(&window) {
                places.retain(|(number, _)| *number != self.forgotten);
                if places.is_empty() {
                    self.beginnings.remove(&window);
                }
            }
        }
        self.forgotten += 1;
        self.bytes -= key.len();
    }

    /// Returns how many of the first bytes are a piece of a key; 0 if too few are.
    fn longest(&self, bytes: &[u8]) -> usize {
        let places = bytes.first_chunk().and_then(|beginning| self.beginnings.get(beginning));
        let alike = |(key, at): &(usize, usize)| {
            self.keys[*key - self.forgotten].as_bytes()[*at..]
                .iter()
                .zip(bytes)
                .take_while(|(known, byte)| known == byte)
                .count()
        };
        places.into_iter().flatten().map(alike).max().unwrap_or(0)
    }
}

/// Returns the beginnings of all pieces of a key, with where they are.
fn windows(key: &str) -> impl Iterator<Item = (usize, [u8; SHORTEST_PIECE])> {
    let windows = key.as_bytes().windows(SHORTEST_PIECE);
    windows.enumerate().map(|(at, window)| (at, window.try_into().expect("a window has this length")))
}

/// Tells whether a text has what stands around a private key.
fn is_private(text: &str) -> bool {
    PRIVATE.iter().any(|mark| text.contains(mark))
}

/// Tells whether a line has the lines of a key as its words.
fn in_words(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.clone().count() > 1
        && words.all(|word| word.bytes().all(|byte| is_base64(&byte)))
        && line.split_whitespace().next().is_some_and(|first| first.len() >= SHORTEST_LINE)
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
        let of_pgp = key("\n")
            .replace("RSA PRIVATE KEY", "PGP PRIVATE KEY BLOCK")
            .replace("BLOCK-----\n", "BLOCK-----\nVersion: 1\n\n");
        let in_line = [" ", "%0A", "&#10;"].map(key);
        for noticed in
            [key("\n"), format!("KEY = \"{}\"", key("\\n")), key(""), key("\n    "), of_pgp].into_iter().chain(in_line)
        {
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
            format!("\"key\": \"{}\\n{}\\n\"", lines[1], lines[2]),
            lines[2].clone(),
        ] {
            assert_eq!(pieces_of(&part, true, &lines[2]), [lines[2].clone()], "{part}");
        }
    }

    #[test]
    fn much_base64_before_a_key_does_not_hide_it() {
        let lines = |count: u32, salt: u32| -> String {
            let line = |number: u32| {
                let bytes: Vec<u8> = (0..57)
                    .map(|at: u32| ((number * 57 + at + salt).wrapping_mul(2_654_435_761) >> 13) as u8)
                    .collect();
                base64::engine::general_purpose::STANDARD.encode(bytes) + "\n"
            };
            (0..count).map(line).collect()
        };
        let mut pieces = Pieces::default();
        pieces.notice(&lines(20_000, 1), true);
        pieces.notice(&key("\n"), false);
        pieces.notice(&lines(20_000, 9_000_000), true);
        assert_eq!(pieces.find(&super::tests::lines(5)[1]).len(), 1);
        let last = lines(20_000, 9_000_000);
        assert_eq!(pieces.find(last.lines().last().unwrap()).len(), 1);
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
