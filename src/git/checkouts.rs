//! Finds the checkouts that hold a directory.

use std::path::Path;

/// Returns the directories that are checkouts, from `directory` upwards: those with a `.git`, whatever it is.
pub fn checkouts_around(directory: &Path) -> impl Iterator<Item = &Path> {
    directory.ancestors().filter(|top| top.join(".git").symlink_metadata().is_ok())
}
