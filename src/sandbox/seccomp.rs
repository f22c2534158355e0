//! Seccomp.
