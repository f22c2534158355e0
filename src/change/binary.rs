//! Reads and writes git's binary hunks: deflated bytes in lines of base 85.

use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

const ALPHABET: &[u8; 85] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

/// Deflated bytes on one line.
const LINE: usize = 52;

/// Writes a whole content as a `literal` hunk, its empty last line included.
pub fn write_literal(content: &[u8], out: &mut Vec<u8>) {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    let deflated = encoder.write_all(content).and_then(|()| encoder.finish()).expect("a Vec takes every write");
    out.extend_from_slice(format!("literal {}\n", content.len()).as_bytes());
    for line in deflated.chunks(LINE) {
        out.push(length_mark(line.len()));
        for group in line.chunks(4) {
            let mut bytes = [0; 4];
            bytes[..group.len()].copy_from_slice(group);
            let mut number = u32::from_be_bytes(bytes);
            let mut digits = [0; 5];
            for digit in digits.iter_mut().rev() {
                *digit = ALPHABET[(number % 85) as usize];
                number /= 85;
            }
            out.extend_from_slice(&digits);
        }
        out.push(b'\n');
    }
    out.push(b'\n');
}

fn length_mark(length: usize) -> u8 {
    let length = length as u8;
    if length <= 26 { b'A' + length - 1 } else { b'a' + length - 27 }
}

/// Decodes one line of a binary hunk, without its `\n`.
pub fn read_line(line: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (&mark, digits) = line.split_first()?;
    let length = match mark {
        b'A'..=b'Z' => usize::from(mark - b'A') + 1,
        b'a'..=b'z' => usize::from(mark - b'a') + 27,
        _ => return None,
    };
    if digits.len() != length.div_ceil(4) * 5 {
        return None;
    }
    let mut bytes = Vec::with_capacity(length + 3);
    for group in digits.chunks(5) {
        let mut number = 0u32;
        for digit in group {
            let value = ALPHABET.iter().position(|known| known == digit)? as u32;
            number = number.checked_mul(85)?.checked_add(value)?;
        }
        bytes.extend_from_slice(&number.to_be_bytes());
    }
    bytes.truncate(length);
    out.extend_from_slice(&bytes);
    Some(())
}

/// Inflates to exactly this many bytes; `None` if it is more, less or damaged.
pub fn inflate(deflated: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    // One byte more than promised is enough to know that the promise is broken.
    ZlibDecoder::new(deflated).take(size as u64 + 1).read_to_end(&mut content).ok()?;
    (content.len() == size).then_some(content)
}

/// Applies a `delta` hunk (git's copy and insert instructions) to the old content.
pub fn apply_delta(old: &[u8], delta: &[u8]) -> Option<Vec<u8>> {
    let mut rest = delta;
    if read_size(&mut rest)? != old.len() {
        return None;
    }
    let size = read_size(&mut rest)?;
    let mut content = Vec::new();
    while let Some((&instruction, after)) = rest.split_first() {
        rest = after;
        if instruction & 0x80 != 0 {
            let mut field = |bits: std::ops::Range<u8>| -> Option<usize> {
                let mut value = 0;
                for (at, bit) in bits.enumerate() {
                    if instruction & (1 << bit) != 0 {
                        let (&byte, after) = rest.split_first()?;
                        rest = after;
                        value |= usize::from(byte) << (8 * at);
                    }
                }
                Some(value)
            };
            let start = field(0..4)?;
            let length = match field(4..7)? {
                0 => 0x10000,
                length => length,
            };
            content.extend_from_slice(old.get(start..start.checked_add(length)?)?);
        } else if instruction != 0 {
            let (inserted, after) = rest.split_at_checked(usize::from(instruction))?;
            rest = after;
            content.extend_from_slice(inserted);
        } else {
            return None;
        }
        if content.len() > size {
            return None;
        }
    }
    (content.len() == size).then_some(content)
}

fn read_size(rest: &mut &[u8]) -> Option<usize> {
    let (mut size, mut shift) = (0usize, 0u32);
    loop {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        if shift > 56 {
            return None;
        }
        size |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            return Some(size);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_again(content in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut text = Vec::new();
            write_literal(&content, &mut text);
            let mut deflated = Vec::new();
            for line in text.split(|byte| *byte == b'\n').skip(1).filter(|line| !line.is_empty()) {
                read_line(line, &mut deflated).unwrap();
            }
            prop_assert_eq!(inflate(&deflated, content.len()), Some(content));
        }

        #[test]
        fn damaged_input_is_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = read_line(&bytes, &mut Vec::new());
            let _ = inflate(&bytes, 10);
            let _ = apply_delta(b"some old content", &bytes);
        }
    }

    #[test]
    fn a_delta_copies_and_inserts() {
        // 11 bytes old, 8 new: copy 6 from 0, insert "me".
        assert_eq!(apply_delta(b"hello world", &[11, 8, 0x90, 6, 2, b'm', b'e']).unwrap(), b"hello me");
        assert_eq!(apply_delta(b"hello", &[11, 8, 0x90, 6]), None);
    }
}
