//! Defines what an error that ends a command says about itself.

use std::borrow::Cow;

use crate::exit::Exit;

/// An error that ends a command. Its display is the message: what happened, where and why.
pub trait CliError: std::error::Error {
    /// Returns the exit code.
    fn exit(&self) -> Exit;

    /// Returns what to do, as an order; `None` where the message says it all.
    fn hint(&self) -> Option<Cow<'_, str>>;

    /// Returns `error.code` of the result: the exit's name where nothing says it more exactly.
    fn code(&self) -> &'static str {
        self.exit().name()
    }
}
