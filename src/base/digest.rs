//! Writes bytes and digests in lower-case hexadecimal.

use sha2::{Digest as _, Sha256};

/// Writes bytes in lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the SHA-256 of contents.
pub fn sha256(content: &[u8]) -> String {
    hex(&Sha256::digest(content))
}
