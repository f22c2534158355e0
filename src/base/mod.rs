//! Holds what every layer uses: documents that are read strictly and what is wrong with one, digests, JSON in pages, usage, the
//! user's own files.

pub mod cut;
pub mod diagnostic;
pub mod digest;
pub mod document;
pub mod embedded;
pub mod error;
pub mod private_file;
pub mod trace;
pub mod usage;

pub use diagnostic::{Code, Diagnostic, Location, Span, Spanned};
pub use error::CliError;
