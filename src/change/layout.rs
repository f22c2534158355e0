//! Recognises what git treats as one of its own directories.

/// Tells whether git would take a directory for a repository without a work tree, by what is in it: the directory of
/// a linked work tree has `commondir` in place of objects and references.
///
/// Contents do not matter here: git asks little of `HEAD`, and what is written next can change it.
pub fn is_git_directory<E>(has: impl Fn(&str) -> Result<bool, E>) -> Result<bool, E> {
    Ok(has("HEAD")? && (has("commondir")? || has("objects")? && has("refs")?))
}

/// Names of which some make a directory such a one.
pub const PARTS: [&str; 4] = ["HEAD", "commondir", "objects", "refs"];
