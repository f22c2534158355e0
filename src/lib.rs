//! Qwen Code for machines: one prompt or recipe in, one judged patch, commit or answer out.
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
//!   decision is a [`policy::Grant`] that the edges demand.
//! - **All writes are staged** in one [`change::ChangeSet`]. Dry run, apply, commit and branch differ in the last
//!   function alone ([`deliver`]), and no tool can find out which it is.
//! - **Commands see what was staged**: the [`workspace`] lends them a tree, looks at what changed there, and takes it
//!   into the same change set. The project's own directory is lent only by an operator's
//!   `workspace: in-place`, with a snapshot that goes back on every ending that delivers nothing.
//! - **Unknown is denied, and a check that fails to run is a denial.**
//!
//! # The floors: an arrow may only point down
//!
//! | floor | modules | what they are |
//! |---|---|---|
//! | 6 | `main`, [`cli`], [`commands`], [`run`](mod@run) | wire everything, decide nothing |
//! | 4 | [`agent`], [`verify`], [`deliver`], [`emit`] | wings that do not know each other |
//! | 3 | [`tools`] | one file a tool |
//! | 2 | [`workspace`], [`git`], [`model`], [`sandbox`], [`forge`], [`settings::load`](mod@settings::load), [`recipe::load`](mod@recipe::load) | the edges: the only I/O |
//! | 1 | [`policy`], [`change`], [`recipe`], [`prompt`], [`settings`] | pure: no files, environment, clock, network |
//! | 0 | [`bounded`], [`path`], [`event`], [`exit`], [`threads`], [`tool_name`], [`secret`], [`hidden`], [`yaml`] | words |
//!
//! `tests/house/rules.rs` holds the imports to it, and to more.
//!
//! # Where a change belongs
//!
//! - a new tool: a file in [`tools`] and a line in its registry
//! - what a program's options mean to the policy: its table in [`policy::programs`]
//! - a server's quirk: the table in [`model::quirks`]
//! - a new output format: a renderer in [`emit`]
//! - a new key of recipes: its type in [`recipe::file`], what it must be in [`recipe::check`]
//! - what a run takes from where, and in which order: [`run::prepare`]; what it holds then: [`run::setup`]
//! - another front door: [`commands`] (`hook` for git's hooks, `ci` for the Action's two jobs); what they ask of GitHub:
//!   [`forge`]; who may start a run there: [`policy::trigger`]
//! - how a change is applied, committed, taken back: [`deliver`]; the whole of `qwen apply`, for every front door that
//!   has it: [`run::apply`]
//! - what a command finds in its sandbox: [`sandbox`]; the tree that it is lent: [`workspace::lend`], as a copy or, where
//!   that is large, beneath a layer ([`workspace::layer`])
//! - a new way to end: [`exit::Exit`], with its row in the README

#![cfg_attr(
    test,
    expect(clippy::disallowed_methods, reason = "tests make files of their own and start programs to compare with")
)]

pub mod agent;
pub mod bounded;
pub mod change;
pub mod cli;
pub mod commands;
pub mod deliver;
pub mod emit;
pub mod event;
pub mod exit;
pub mod forge;
pub mod git;
pub mod hidden;
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
pub mod yaml;
