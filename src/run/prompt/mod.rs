//! Reads the prompt and what belongs to it.

pub mod context;
pub mod images;
pub mod included;
pub mod library;
pub mod listing;
pub mod slash_command;
pub mod task;
pub mod typed;
