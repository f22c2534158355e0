//! What the model is told before it begins: the system prompt, context files, commands, and the first message.

pub mod command;
pub mod context_files;
pub mod first_message;
pub mod system;
pub mod toml;
