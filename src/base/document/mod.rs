//! Reads documents with the crates for their formats, and refuses more than those do.

pub mod jsonc;
pub mod toml;
pub mod yaml;
