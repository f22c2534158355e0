//! What the program does as a whole, one file a behaviour.

mod change_modes;
mod endings;
mod extra_tools;
mod layers;
mod sandbox;
mod support;
