//! Writes bytes and digests in lower-case hexadecimal.

use sha2::{Digest as _, Sha256};

/// Writes bytes in lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

/// Returns the first 16 hexadecimal digits of the HMAC-SHA256 (RFC 2104) of a text: a mark that the text's writer cannot
/// guess.
pub fn mark(secret: &[u8], text: &str) -> String {
    const BLOCK: usize = 64;
    let mut key = [0_u8; BLOCK];
    if secret.len() > BLOCK {
        key[..32].copy_from_slice(&Sha256::digest(secret));
    } else {
        key[..secret.len()].copy_from_slice(secret);
    }
    let inner = Sha256::new().chain_update(key.map(|byte| byte ^ 0x36)).chain_update(text.as_bytes()).finalize();
    let outer = Sha256::new().chain_update(key.map(|byte| byte ^ 0x5c)).chain_update(inner).finalize();
    hex(&outer[..8])
}

/// Returns the SHA-256 of contents.
pub fn sha256(content: &[u8]) -> String {
    hex(&Sha256::digest(content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_the_published_hmac() {
        // RFC 4231, test case 2.
        assert_eq!(mark(b"Jefe", "what do ya want for nothing?"), "5bdcc146bf60754e");
    }
}
