//! Qwen Code for machines.

pub mod change;
pub mod deliver;
pub mod event;
pub mod exit;
pub mod model;
pub mod path;
pub mod policy;
pub mod tools;
pub mod workspace;
