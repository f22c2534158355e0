//! Holds what every layer uses: documents that are read strictly, and what is wrong with one, with its place.

pub mod diagnostic;
pub mod document;

pub use diagnostic::{Code, Diagnostic, Location, Span, Spanned};
