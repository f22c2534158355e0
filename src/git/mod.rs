//! Starts git and the other programs that this program uses itself: which ones, where they are found, and what git may
//! run.
//!
//! [`Programs`] is the only resolver, [`Git`] the only way to start git.

pub mod attributes;
mod children;
mod command;
pub mod drivers;
pub mod file_status;
mod filters;
pub mod history;
pub mod ownership;
mod programs;
pub mod repository;
pub mod scratch_git;
pub mod server;
pub mod signing;
pub mod trusted;

pub use children::{interrupt, is_interrupted, set_run_deadline};
pub use command::{Git, GitError, KEYS, git_environment, is_inherited, more_configuration, private_git_configuration};
pub use programs::{NotFound, Program, Programs};
