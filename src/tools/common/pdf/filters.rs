//! Decodes the filters of a stream that no library is needed for.

pub(super) fn ascii85(bytes: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::new();
    let mut group: Vec<u8> = Vec::new();
    for byte in bytes {
        match byte {
            b'z' if group.is_empty() => decoded.extend([0; 4]),
            b'!'..=b'u' => group.push(byte - b'!'),
            b'~' => break,
            _ => continue,
        }
        if group.len() == 5 {
            decoded.extend(group85(&group));
            group.clear();
        }
    }
    if group.len() > 1 {
        let count = group.len() - 1;
        group.resize(5, 84);
        decoded.extend(&group85(&group)[..count]);
    }
    decoded
}

fn group85(group: &[u8]) -> [u8; 4] {
    group.iter().fold(0_u32, |value, digit| value.wrapping_mul(85).wrapping_add(u32::from(*digit))).to_be_bytes()
}

/// Undoes PNG's prediction of lines of bytes: packed objects may be stored so.
pub(super) fn unpredicted(bytes: &[u8], columns: usize) -> Option<Vec<u8>> {
    if columns == 0 || columns > 1 << 16 {
        return None;
    }
    let mut before = vec![0_u8; columns];
    let mut whole = Vec::with_capacity(bytes.len());
    for line in bytes.chunks(columns + 1) {
        let (kind, line) = line.split_first()?;
        let mut left = 0_u8;
        let mut corner = 0_u8;
        for (column, byte) in line.iter().enumerate() {
            let above = before[column];
            let guess = match kind {
                1 => left,
                2 => above,
                3 => u8::midpoint(left, above),
                4 => paeth(left, above, corner),
                _ => 0,
            };
            left = byte.wrapping_add(guess);
            corner = above;
            before[column] = left;
            whole.push(left);
        }
    }
    Some(whole)
}

fn paeth(left: u8, above: u8, corner: u8) -> u8 {
    let guess = i16::from(left) + i16::from(above) - i16::from(corner);
    let distance = |byte: u8| (guess - i16::from(byte)).abs();
    if distance(left) <= distance(above) && distance(left) <= distance(corner) {
        left
    } else if distance(above) <= distance(corner) {
        above
    } else {
        corner
    }
}
