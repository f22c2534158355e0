//! What the program does as a whole, one file a behaviour.

mod change_modes;
mod endings;
mod hostile;
mod layers;
mod policy_verbs;
mod redaction;
mod sandbox;
mod support;
mod trust;
