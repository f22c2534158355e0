//! Tells the user's own directories from those that an unpacked archive brings along.

use std::path::{Path, PathBuf};

use crate::checkouts::checkouts_around;

/// Tells whether a directory that should be the user's own (`HOME`, `XDG_CONFIG_HOME`) is likely a part of what was
/// unpacked, where no checkout shows what belongs to the project: it is in the workspace, or in the directory that we were
/// started in, or holds one of them, and is not what the system's list of users says.
pub fn came_unpacked(directory: &Path, workspace: &Path, cwd: &Path) -> bool {
    is_part(directory, workspace, cwd, account_home)
}

fn is_part(directory: &Path, workspace: &Path, cwd: &Path, account: impl FnOnce() -> Option<PathBuf>) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let (directory, workspace, cwd) = (real(directory), real(workspace), real(cwd));
    let touches = |place: &Path| directory.starts_with(place) || place.starts_with(&directory);
    // The directory that we were started in counts where it is one with the workspace.
    let started_around = cwd != Path::new("/") && workspace.starts_with(&cwd);
    checkouts_around(&workspace).next().is_none()
        && (touches(&workspace) || started_around && directory.starts_with(&cwd))
        // Asked last: the answer may come from a server.
        && !account().is_some_and(|home| [real(&home), real(&home.join(".config"))].contains(&directory))
}

/// Returns the home directory of this user by the system's list of users.
fn account_home() -> Option<PathBuf> {
    nix::unistd::User::from_uid(nix::unistd::Uid::effective()).ok().flatten().map(|user| user.dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_in_or_around_what_was_unpacked_is_the_users_only_if_the_system_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        for directory in ["u/archive/pkg", "u/archive/home", "u/.config", "other", "u/clone/.git", "u/clone/home"] {
            std::fs::create_dir_all(top.join(directory)).unwrap();
        }
        for (directory, workspace, cwd, is) in [
            ("u/archive", "u/archive", "u/archive", true),
            ("u/archive", "u/archive/pkg", "u/archive/pkg", true),
            ("u/archive/home", "u/archive", "u/archive", true),
            ("u/archive/home", "u/archive/pkg", "u/archive", true),
            ("u/archive/home", "u/archive/pkg", "other", false),
            ("u", "u/archive/pkg", "u/archive", false),
            ("u", "u", "u", false),
            ("u/.config", "u", "u", false),
            ("other", "u/archive", "u/archive", false),
            // What belongs to a checkout, its index says.
            ("u/clone/home", "u/clone", "u/clone", false),
        ] {
            let at = |path: &str| top.join(path);
            let found = is_part(&at(directory), &at(workspace), &at(cwd), || Some(at("u")));
            assert_eq!(found, is, "{directory} {workspace} {cwd}");
        }
        assert!(is_part(&top, &top.join("u"), &top, || None));
    }
}
