//! Qwen Code for machines.

pub mod change;
pub mod cli;
pub mod emit;
pub mod event;
pub mod exit;
pub mod model;
pub mod path;
pub mod policy;
pub mod settings;
pub mod tools;
pub mod workspace;
