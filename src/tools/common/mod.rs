//! What several tools need: naming paths, bounding output.

pub mod bound;
pub mod memory;
pub mod names;
pub(crate) mod notebook;
pub(crate) mod pdf;
pub(crate) mod place;
pub(crate) mod search;
