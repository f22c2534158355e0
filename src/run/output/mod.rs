//! Shows what happens: events, files, signals, masked secrets.

pub mod emitter;
pub mod masking;
pub mod outputs;
pub mod overdue;
pub mod redaction;
pub mod signals;
