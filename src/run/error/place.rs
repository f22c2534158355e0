//! Defines why a directory that is named from outside cannot be used.

use std::borrow::Cow;

use crate::base::CliError;
use crate::exit::Exit;
use crate::git::repository::RepositoryError;
use crate::settings::Origin;
use crate::workspace::WorkspaceError;

/// Why there is no place to work in.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// A link in a checkout leads out of it.
    #[error("the workspace {path}: {cause}")]
    LinkOut {
        /// The path that was named.
        path: String,
        /// Which link.
        cause: std::io::Error,
    },
    /// The directory for temporary files is behind such a link.
    #[error("the temporary directory {path}: {cause}")]
    Temporary {
        /// The path that was named.
        path: String,
        /// Which link.
        cause: std::io::Error,
    },
    /// The workspace cannot be opened.
    #[error("the workspace {0}")]
    Workspace(#[from] WorkspaceError),
    /// A repository is there and cannot be used.
    #[error("the repository cannot be read: {0}")]
    Repository(#[from] RepositoryError),
    /// There is no directory for our own state.
    #[error("no home directory for the undo record")]
    NoState,
    /// An included directory cannot be used.
    #[error("--include-directories {path}: {cause}")]
    Included {
        /// The path that was named.
        path: String,
        /// Why not.
        cause: std::io::Error,
    },
    /// A directory of the settings cannot be used.
    #[error("{origin}: context.includeDirectories: {path}: {cause}")]
    IncludedBySettings {
        /// Where it is set.
        origin: Origin,
        /// The directory.
        path: String,
        /// Why not.
        cause: std::io::Error,
    },
}

impl CliError for PlaceError {
    fn exit(&self) -> Exit {
        match self {
            PlaceError::LinkOut { .. } | PlaceError::Temporary { .. } | PlaceError::IncludedBySettings { .. } => {
                Exit::Config
            }
            PlaceError::Workspace(_) | PlaceError::Included { .. } => Exit::Usage,
            PlaceError::Repository(_) | PlaceError::NoState => Exit::Conflict,
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(match self {
            PlaceError::LinkOut { .. } => "change to that directory, or give it with -C",
            PlaceError::Temporary { .. } => "set TMPDIR to a directory outside the checkout",
            PlaceError::Workspace(_) => "give a directory with -C",
            PlaceError::Repository(error) => error.hint(),
            PlaceError::NoState => "set HOME or XDG_STATE_HOME, or give --no-undo",
            PlaceError::Included { .. } | PlaceError::IncludedBySettings { .. } => "name a directory that exists",
        }))
    }
}
