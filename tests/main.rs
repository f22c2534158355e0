//! What the program does as a whole, one file a behaviour.

mod change_modes;
mod endings;
mod layers;
mod mcp;
mod sandbox;
mod support;
