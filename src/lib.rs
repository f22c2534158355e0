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
//! # The layers and what they use
//!
//! | layer | modules | may use |
//! |---|---|---|
//! | root | [`cli`], [`commands`], [`github`], [`run`](mod@run) | every layer |
//! | emit | [`emit`] | base, change, batch |
//! | batch | [`batch`] | base |
//! | telemetry | [`telemetry`] | base, model |
//! | deliver | [`deliver`], [`verify`] | base, change, policy, git, workspace, sandbox, config |
//! | agent | [`agent`] | base, batch, change, policy, tools, model |
//! | tools | [`tools`] | base, change, policy, workspace, model, config |
//! | config | [`prompt`], [`recipe`], [`settings`] | base, policy, git, model |
//! | model | [`model`] | base, batch |
//! | sandbox | [`sandbox`] | base, policy, git |
//! | workspace | [`workspace`] | base, batch, change, policy, git |
//! | git | [`git`] | base, change, policy |
//! | policy | [`policy`] | base, change |
//! | change | [`change`] | base |
//! | base | [`base`], [`bounded`], [`checkouts`], [`event`], [`exit`], [`hidden`], [`marked`], [`path`], [`secret`], [`threads`], [`tool_name`] | |
//!
//! The root connects everything and decides nothing. [`batch`], [`policy`], [`change`], [`prompt`], [`verify`], and
//! [`recipe`] and [`settings`] outside of their `load`, perform no I/O: no files, environment, clock or network.
//! `tests/house/rules.rs` enforces the table.
//!
//! # Where a thing is decided
//!
//! - what a flag, a setting and a recipe together mean for a run: [`run::stages`]
//! - which files of a checkout count: [`run::rules::trust`]; which policies apply: [`run::rules::policy_layers`]
//! - whether a call is allowed: [`policy::decide`](mod@policy::decide); what a program does with its words: [`policy::programs`]
//! - what a command may touch: [`policy::grant::SandboxProfile`], which [`sandbox`] enforces; what it finds: [`workspace::tree`],
//!   as a copy or, if that is large, as a layer over the project ([`workspace::tree::Layer`]); which of its changes are
//!   staged: [`run::rules::judge::judge_change`]
//! - in which directories of `PATH` this program looks for programs: [`git::Programs::new`]
//! - which tool a name means: [`tools::Toolbox::resolve`]; what the tools of MCP servers are called:
//!   [`tools::mcp::names::assign`]
//! - how a server differs from others: [`model::providers`]
//! - how the model is asked, and what happens with its answer: [`run::conversation`], [`run::recipe::answers`]
//! - how a change is applied, committed, reverted: [`deliver`]; `qwen apply`, for every command that uses it:
//!   [`run::finish::apply`]
//! - what a command asks of GitHub: [`github`]; who may start a run there: [`policy::trigger`]
//! - how much a run may spend: [`run::stages::bounds`]; what it has spent: [`agent::limits::Account`]
//! - how a run can end: [`exit::Exit`]; which exit code an error has: its [`base::CliError::exit`]
//!
//! `.github/CONTRIBUTING.md` lists, for each usual change, the files to edit.

#![cfg_attr(
    test,
    expect(clippy::disallowed_methods, reason = "tests make files of their own and start programs to compare with")
)]

#[cfg(not(unix))]
compile_error!("qwen runs on Linux and macOS; on Windows run it inside WSL 2");

pub mod agent;
pub mod base;
pub mod batch;
pub mod bounded;
pub mod change;
pub mod checkouts;
pub mod cli;
pub mod commands;
pub mod deliver;
pub mod emit;
pub mod event;
pub mod exit;
pub mod git;
pub mod github;
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
pub mod telemetry;
pub mod threads;
pub mod tool_name;
pub mod tools;
pub mod verify;
pub mod workspace;
