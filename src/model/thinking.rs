//! Thinking tags in the text.
