//! What the program does as a whole, one file a behaviour.

mod change_modes;
mod context;
mod drop_in;
mod endings;
mod layers;
mod sandbox;
mod sessions;
mod support;
