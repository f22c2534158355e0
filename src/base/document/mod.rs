//! Reads documents with the crates that know their formats, more strictly than these would by themselves.

pub mod jsonc;
pub mod toml;
pub mod yaml;
