//! What several tools need: fitting arguments to a schema, naming paths, bounding output.

pub mod arguments;
pub mod bound;
pub(crate) mod diff;
pub mod memory;
pub mod names;
pub(crate) mod search;
