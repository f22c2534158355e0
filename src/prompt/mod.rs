//! What the model is told before it begins: the system prompt, and the first message.

pub mod first_message;
pub mod system;
