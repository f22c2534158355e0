//! Finds other repositories in the workspace: git would use their configuration, which can name programs.

use std::path::Path;

use super::decision::Denial;
use crate::change::layout::is_git_directory;
use crate::path::{RelPath, Tree};

/// Returns the first directory, from `folder` up to the workspace's root, that git would take for a repository other
/// than the workspace's own: with a `.git` of any kind in it, or laid out like one itself.
pub(crate) fn other_repository(tree: &dyn Tree, root: &Path, folder: &RelPath) -> Result<Option<RelPath>, Denial> {
    let mut at = Some(folder.clone());
    while let Some(folder) = at {
        let path = folder.under(root);
        let unknown = |_| Denial::new(format!("cannot tell whether {folder} is a repository")).by("G11");
        let has = |name: &str| tree.look(&path.join(name)).map(|node| node.is_some());
        if has(".git").map_err(unknown)? {
            return Ok(Some(folder).filter(|folder| !folder.is_root()));
        }
        if is_git_directory(has).map_err(unknown)? {
            return Ok(Some(folder));
        }
        at = folder.parent();
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::disk::Disk;

    #[test]
    fn every_kind_of_repository_on_the_way_is_found_and_the_own_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for path in [".git/HEAD", "bare/HEAD", "bare/objects/x", "bare/refs/x", "linked/HEAD", "linked/commondir"] {
            std::fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            std::fs::write(root.join(path), "x").unwrap();
        }
        for path in ["nested/.git", "bare/deep", "plain/HEAD", "plain/objects", "module"] {
            std::fs::create_dir_all(root.join(path)).unwrap();
        }
        std::fs::write(root.join("module/.git"), "gitdir: ../x").unwrap();
        std::os::unix::fs::symlink("../.git", root.join("plain/.git")).unwrap();
        for (at, expected) in [
            ("bare", Some("bare")),
            ("bare/deep", Some("bare")),
            ("linked", Some("linked")),
            ("nested", Some("nested")),
            ("nested/not/there", Some("nested")),
            ("module", Some("module")),
            ("plain/HEAD", Some("plain")),
            ("", None),
            ("elsewhere", None),
        ] {
            let found = other_repository(&Disk, root, &RelPath::new(at).unwrap());
            assert_eq!(found.unwrap().map(|found| found.to_string()).as_deref(), expected, "{at}");
        }
    }
}
