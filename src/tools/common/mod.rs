//! Contains what several tools need: naming paths, bounding output.

pub mod bound;
pub(crate) mod copied;
pub(crate) mod location;
pub mod memory;
pub mod names;
pub mod notebook;
pub mod pdf;
pub(crate) mod search;
