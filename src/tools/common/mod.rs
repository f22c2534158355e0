//! Contains what several tools need: naming paths, bounding output.

pub mod bound;
pub mod memory;
pub mod names;
pub mod notebook;
pub mod pdf;
pub(crate) mod place;
pub(crate) mod search;
