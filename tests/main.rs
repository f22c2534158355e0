//! What the program does as a whole, one file a behaviour.

#![expect(clippy::disallowed_methods, reason = "tests make projects and start the program")]

mod change_modes;
mod endings;
mod layers;
mod policy_cases;
mod sandbox;
mod support;
