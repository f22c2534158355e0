//! Represents recipes: files that define one use of the program, which a team can review, version, test and run
//! unattended.
//!
//! The YAML is parsed first and templates are rendered after it, field by field: no value can change the structure, and
//! none is rendered twice. Only [`load`] performs I/O.

pub mod builtin;
pub mod cases;
pub mod check;
mod check_cases;
pub mod check_commands;
mod check_inputs;
mod check_templates;
pub mod command_line;
pub mod complete;
mod deliver;
pub mod editor;
pub mod expected;
pub mod extends;
mod fence;
pub mod file;
mod filters;
mod judged;
pub mod load;
pub mod needs;
pub mod params;
pub mod parse;
pub mod places;
pub mod project;
pub mod render;
pub mod results;
pub mod scalar;
pub mod texts;
pub mod version;
mod warnings;

pub use check::Recipe;
