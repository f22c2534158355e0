//! Resolves settings: which files, variables and flags set what, and which of them applies.
//!
//! Every value knows its origin, so that `qwen doctor` and each error can name the place. Only `load` reads files and
//! the environment; everything else is a function of its arguments.

mod account;
pub mod environment;
pub mod keys;
pub mod layers;
pub mod load;
pub mod providers;
pub mod schema;
pub mod sections;

use std::fmt;

pub use account::home_came_unpacked;
pub use environment::Environment;
pub use keys::{Endpoint, ModelChoice};
pub use layers::{Layer, LayerKind};
pub use load::{Loaded, load};
pub use sections::{Settings, TelemetrySettings};

/// Where a value comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Origin {
    /// Built in.
    #[default]
    Default,
    /// A settings file, at a line and column.
    File {
        /// The file.
        path: String,
        /// From 1.
        line: u32,
        /// From 1, in characters.
        column: u32,
    },
    /// An environment variable.
    Variable(String),
    /// A variable of a `.env` file.
    DotEnv {
        /// The variable.
        name: String,
        /// The file.
        path: String,
    },
    /// A flag.
    Flag(String),
    /// The recipe.
    Recipe,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { path, line, column } => write!(f, "{path}:{line}:{column}"),
            Origin::Variable(name) => f.write_str(name),
            Origin::DotEnv { name, path } => write!(f, "{name} in {path}"),
            Origin::Flag(name) => f.write_str(name),
            Origin::Recipe => f.write_str("recipe"),
        }
    }
}

/// A value with its origin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Valued<T> {
    /// The value.
    pub value: T,
    /// Where it comes from.
    pub origin: Origin,
}

impl<T> Valued<T> {
    /// Returns a value with its origin.
    pub fn new(value: T, origin: Origin) -> Valued<T> {
        Valued { value, origin }
    }
}

/// What is wrong with the settings: exit 52.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {message}")]
pub struct SettingsError {
    /// The place.
    pub origin: Origin,
    /// What is wrong and what would be right.
    pub message: String,
}
