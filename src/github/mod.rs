//! Talks to GitHub: who may write, pull requests, reviews and their threads, comments, labels, checks.
//!
//! A request that only reads is repeated where the server may recover. One that writes is not: whoever makes it looks
//! first whether its effect is there already.

mod actions;
mod checks;
mod client;
mod error;
mod issues;
pub mod marker;
pub mod place;
mod pulls;
pub mod threads;

pub use checks::CheckRun;
pub use client::GitHub;
pub use error::GitHubError;
pub use issues::{Comment, Said, is_same_login};
pub use place::Patch;
pub use pulls::{InlineComment, Opened, Proposed, Pull};
