//! Holds what every layer uses: documents that are read strictly, and what is wrong with one, with its place.

pub mod diagnostic;
pub mod document;
pub mod error;

pub use diagnostic::{Code, Diagnostic, Location, Span, Spanned};
pub use error::CliError;
