//! What the program does as a whole, one file a behaviour.

mod layers;
mod support;
