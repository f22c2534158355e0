//! Trying again.
