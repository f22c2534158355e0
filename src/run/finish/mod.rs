//! Ends a run: what it changed, and how that is delivered.

pub mod apply;
pub mod combined;
pub mod combined_checks;
mod ignored;
pub mod mode;
pub mod outcome;
pub mod stage;
