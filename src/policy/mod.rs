//! Decides what a call may do, by a file and independently of the model, instead of asking a person.
//!
//! Performs no I/O: text, rules and a [`Tree`](crate::path::Tree) of facts in, a [`Decision`] out. Unknown is denied,
//! and a check that fails is a denial. `policy check`, `policy explain`, the run and the sandbox use this one
//! evaluation.

pub mod access;
pub mod additions;
pub mod builtin;
#[cfg(test)]
mod cases;
pub mod check;
pub mod choose;
mod commands;
pub mod decide;
pub mod decision;
mod ecosystems;
pub mod effect;
pub mod explain;
mod facts;
pub mod file;
pub(crate) mod glob;
pub mod grant;
pub mod history;
pub mod later;
pub(crate) mod launchers;
pub mod layers;
#[cfg(test)]
mod list_tests;
pub mod lists;
pub(crate) mod mcp;
pub(crate) mod names;
pub mod needs;
mod operator;
pub mod own_files;
pub mod packages;
mod paths;
mod pieces;
pub mod programs;
pub(crate) mod protected;
#[cfg(test)]
mod reach_tests;
pub mod redact;
#[cfg(test)]
mod redact_tests;
pub mod remedy;
mod repositories;
mod rules;
mod settings;
mod shapes;
pub mod shell;
mod spellings;
pub mod suggest;
mod summary;
pub mod trigger;
pub mod trust;
pub mod warnings;
pub mod web;

pub use access::{Access, Pin};
pub use decision::{Decision, Denial, RuleRef, Verdict};
pub use effect::Effect;
pub use facts::{ChangeFacts, Facts};
pub use grant::{CommandPlan, Grant};
pub use history::{GitFacts, History};
pub use layers::{LayerError, LayerText, Policy, Standing};
pub use settings::BatchLimits;
