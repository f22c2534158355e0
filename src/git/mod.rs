//! Starts git and the other programs that this program uses itself: which ones, where they are found, and what git may
//! run.
//!
//! [`Programs`] is the only resolver, [`Git`] the only way to start git, [`Checkout`] the only way to find a repository.

pub mod attributes;
pub mod checkout;
mod children;
pub mod clone;
mod command;
mod commits_only;
pub mod contents;
pub mod dirty;
pub mod drivers;
pub mod file_status;
mod filters;
pub mod history;
pub mod line_ends;
pub mod ownership;
mod pipes;
mod private_index;
mod programs;
pub mod repository;
pub mod scratch_git;
pub mod server;
pub mod signing;
pub mod trusted;
mod work_tree;

pub use checkout::Checkout;
pub use children::{Whole, interrupt, is_interrupted, set_run_deadline};
pub use command::{Git, GitError, KEYS, git_environment, is_inherited, more_configuration, private_git_configuration};
pub use programs::{NotFound, Program, Programs};
