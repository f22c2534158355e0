//! Decides whose files count, and which rules apply.

pub mod approval;
pub mod facts;
pub mod judge;
pub mod policy_layers;
pub mod started;
pub mod tool_lists;
pub mod trust;
