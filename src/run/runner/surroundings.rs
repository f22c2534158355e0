//! Lists what a command of the model finds besides its tree.

use std::path::PathBuf;

use crate::sandbox::Mounted;

/// What commands find beside and inside of their tree.
#[derive(Default)]
pub(super) struct Surroundings {
    pub(super) read: Vec<PathBuf>,
    pub(super) write: Vec<PathBuf>,
    pub(super) mounts: Vec<Mounted>,
    pub(super) read_only: Vec<PathBuf>,
    pub(super) hidden: Vec<PathBuf>,
}
