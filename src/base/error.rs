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

/// What the tests of errors share.
#[cfg(test)]
pub(crate) mod samples {
    use std::io::{Error, ErrorKind};

    use super::CliError;

    /// Writes each error as people and scripts see it: exit code, code of the result, message, hint.
    pub(crate) fn listed(errors: &[&dyn CliError]) -> String {
        let line = |error: &&dyn CliError| {
            let hint = error.hint().unwrap_or_default();
            format!("{} {}: {error}\n  {hint}", error.exit().code(), error.code()).trim_end().to_owned()
        };
        errors.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// Returns a text.
    pub(crate) fn text(text: &str) -> String {
        text.to_owned()
    }

    /// Returns an error of the system.
    pub(crate) fn io() -> Error {
        Error::new(ErrorKind::NotFound, "not found")
    }
}
