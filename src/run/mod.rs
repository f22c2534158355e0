//! One run, from flags to exit code.
pub mod emitter;
pub mod policy_layers;
pub mod signals;

use crate::event::RunError;
use crate::exit::Exit;

/// Why a run ends before or beside the model's work.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// The way to end.
    pub exit: Exit,
    /// What happened.
    pub error: RunError,
}
