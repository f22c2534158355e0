//! Non-interactive Qwen Code: turns one prompt or recipe into an answer, a patch, a commit or applied changes.
//!
//! # The flow
//!
//! ```text
//! argv ─► Cli ─► Settings ─► Recipe ─► Prompt ─► agent loop ─► ChangeSet ─► verify ─► gate ─► deliver ─► exit code
//!                                        │
//!              Model.respond → Turn      │   every arrow also emits an Event;
//!              Tool.parse    → Call      │   the output formats and the result object
//!              Policy        → Grant     │   are renderings of that one stream
//!              Call.run(grant) → staged  │
//! ```
//!
//! Nothing flows back. Cancelling means dropping the agent's future and ending its process group.
//!
//! - **Tools never ask.** A call says what it would touch ([`tools::Call::accesses`]), the [`policy`] decides, and the
//!   decision is a [`policy::Grant`], which every access to files, programs or the network requires.
//! - **All writes are staged** in one [`change::ChangeSet`]. Dry run, apply, commit and branch differ only in the last
//!   function ([`deliver`]), and no tool can find out which one runs.
//! - **Commands see what was staged**: the [`workspace`] gives them a command workspace, finds what changed there, and
//!   stages it in the same change set. The project's own directory is never one; with
//!   an operator's `workspace: in-place`, [`deliver`] takes what commands left in ignored directories along with the change.
//! - **Unknown is denied, and a check that fails to run is a denial.**
//!
//! # The layers: a module uses lower layers only
//!
//! | layer | modules | what they are |
//! |---|---|---|
//! | 6 | `main`, [`cli`], [`commands`], [`run`](mod@run) | connect everything, decide nothing |
//! | 4 | [`agent`], [`verify`], [`deliver`], [`emit`] | do not use each other |
//! | 3 | [`tools`] | one file per tool |
//! | 2 | [`workspace`], [`git`], [`model`], [`sandbox`], [`forge`], [`settings::load`](mod@settings::load), [`recipe::load`](mod@recipe::load) | the only modules with I/O |
//! | 1 | [`policy`], [`change`], [`recipe`], [`prompt`], [`settings`] | no I/O: no files, environment, clock, network |
//! | 0 | [`bounded`], [`path`], [`event`], [`exit`], [`threads`], [`tool_name`], [`secret`], [`hidden`], [`marked`], [`base`], [`checkouts`] | basic types |
//!
//! `tests/house/rules.rs` enforces this and other rules.
//!
//! # Where a change belongs
//!
//! - a new tool: a file in [`tools`] and a line in its toolbox
//! - what a program's options mean to the policy: its table in [`policy::programs`]
//! - a server's quirk: the table in [`model::providers`]
//! - a new output format: a renderer in [`emit`]
//! - a new key of recipes: its type in [`recipe::file`], what it must be in [`recipe::check`]
//! - what a run reads, and in which order: [`run::stages`]; how the model is asked: [`run::conversation`]
//! - another command: [`commands`] (`hook` for git's hooks, `ci` for the Action's two jobs); what they ask of GitHub:
//!   [`forge`]; who may start a run there: [`policy::trigger`]
//! - how a change is applied, committed, reverted: [`deliver`]; `qwen apply`, for every command that uses it:
//!   [`run::finish::apply`]
//! - what a command finds in its sandbox: [`sandbox`]; the command workspace: [`workspace::tree`], as a copy or, if that
//!   is large, as a layer over the project ([`workspace::tree::Layer`])
//! - a new way to end: [`exit::Exit`], with its row in the README

#![cfg_attr(
    test,
    expect(clippy::disallowed_methods, reason = "tests make files of their own and start programs to compare with")
)]

#[cfg(not(unix))]
compile_error!("qwen runs on Linux and macOS; on Windows run it inside WSL 2");

pub mod agent;
pub mod base;
pub mod bounded;
pub mod change;
pub mod checkouts;
pub mod cli;
pub mod commands;
pub mod deliver;
pub mod emit;
pub mod event;
pub mod exit;
pub mod forge;
pub mod git;
pub mod hidden;
pub mod marked;
pub mod model;
pub mod path;
pub mod policy;
pub mod prompt;
#[cfg(test)]
mod properties;
pub mod recipe;
pub mod run;
pub mod sandbox;
pub mod secret;
pub mod settings;
pub mod threads;
pub mod tool_name;
pub mod tools;
pub mod verify;
pub mod workspace;
