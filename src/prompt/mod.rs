//! Builds what the model is told at the start: the system prompt, context files, commands, and the first message.

pub mod command;
pub mod context_files;
pub mod first_message;
pub mod first_search;
pub mod named_check;
pub mod system;
