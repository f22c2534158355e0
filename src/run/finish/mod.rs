//! Ends a run: what it changed, and how that is delivered.

pub mod apply;
mod ignored;
pub mod mode;
pub mod outcome;
pub mod stage;
