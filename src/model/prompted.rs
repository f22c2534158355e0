//! Tools that stand in the prompt.
