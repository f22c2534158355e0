//! Distinguishes the user's own directories from those that came in an unpacked archive.

use std::path::{Path, PathBuf};

use crate::checkouts::Around;

/// Tells whether the home directory is likely a part of what was unpacked, where no checkout shows what belongs to the
/// project: it is in the workspace, or in the directory that we were started in, or holds one of them, and is not what
/// the system's list of users says.
pub fn home_came_unpacked(around: &Around) -> bool {
    is_part(around, account_home)
}

fn is_part(around: &Around, account: impl FnOnce() -> Option<PathBuf>) -> bool {
    let Around { workspace, cwd, home: Some(home), .. } = around else { return false };
    let touches = |place: &Path| home.starts_with(place) || place.starts_with(home);
    // The directory that we were started in counts where it is one with the workspace.
    let started_around = cwd != Path::new("/") && workspace.starts_with(cwd);
    around.checkouts.is_empty()
        && (touches(workspace) || started_around && home.starts_with(cwd))
        // Asked last: the answer may come from a server.
        && !account().is_some_and(|account| {
            [account.join(".config"), account].iter().any(|own| own.canonicalize().as_ref().unwrap_or(own) == home)
        })
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
            let around = Around::new(&at(workspace), &at(cwd), Some(&at(directory)));
            let found = is_part(&around, || Some(at("u")));
            assert_eq!(found, is, "{directory} {workspace} {cwd}");
        }
        assert!(is_part(&Around::new(&top.join("u"), &top, Some(&top)), || None));
    }
}
