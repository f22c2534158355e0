//! Landlock.
