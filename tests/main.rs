//! What the program does as a whole, one file a behaviour.

mod change_modes;
mod endings;
mod layers;
mod local_model;
mod replay;
mod request_size;
mod sandbox;
mod support;
