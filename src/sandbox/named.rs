//! Lists the files that an operator's own settings name explicitly, and which of them a command may see.

use std::path::{Path, PathBuf};

/// Names of files and directories with credentials, anywhere.
const CREDENTIALS: [&str; 15] = [
    ".ssh",
    ".aws",
    ".azure",
    ".config",
    ".gnupg",
    ".docker",
    ".kube",
    ".password-store",
    ".mozilla",
    ".netrc",
    ".git-credentials",
    ".npmrc",
    ".pypirc",
    ".env",
    "credentials.toml",
];

/// Tells whether a directory holds credentials, is inside such a directory, or contains one; `is_there` looks at the
/// disk.
pub(super) fn has_credentials(directory: &Path, is_there: impl Fn(&Path) -> bool) -> bool {
    let is_one = |name: &std::ffi::OsStr| CREDENTIALS.iter().any(|known| name == *known);
    directory.iter().any(is_one) || CREDENTIALS.iter().any(|name| is_there(&directory.join(name)))
}

/// Returns what must be readable of files and directories that are named by absolute paths: the directories of the
/// files, and the directories themselves. A file that belongs to a package comes with the whole package. Of the home
/// directory, of what holds it, and of a directory with credentials the file alone is shown.
pub fn shown<'p>(named: impl Iterator<Item = &'p Path>, home: Option<&Path>) -> Vec<PathBuf> {
    let is_narrow = |directory: &Path| {
        directory.components().count() > 2
            && !home.is_some_and(|home| home.starts_with(directory))
            && !has_credentials(directory, |path| path.symlink_metadata().is_ok())
    };
    let mut read: Vec<PathBuf> = Vec::new();
    for named in named.filter(|path| path.is_absolute()) {
        let Ok(real) = named.canonicalize() else { continue };
        if real.is_dir() {
            read.extend([named.to_path_buf(), real].into_iter().filter(|directory| is_narrow(directory)));
            continue;
        }
        // The link, if it is one, and its target.
        for file in [named, &real] {
            match file.parent().filter(|directory| is_narrow(directory)) {
                Some(directory) => {
                    let above = directory.ancestors().take(5).filter(|above| is_narrow(above));
                    read.push(above.into_iter().find(is_package).unwrap_or(directory).to_path_buf());
                }
                None => read.push(file.to_path_buf()),
            }
        }
    }
    read
}

/// Tells whether a directory is the top of a package, whose parts belong together.
fn is_package(directory: &&Path) -> bool {
    let marks = ["package.json", "pyproject.toml", "node_modules", "pyvenv.cfg"];
    marks.iter().any(|name| directory.join(name).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_program_is_shown_with_its_directory_and_no_credentials() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().canonicalize().unwrap().join(name);
        for name in ["h/bin", "h/.ssh", "h/safe/.aws", "h/pack/src/deep"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        for name in ["h/bin/x", "h/y", "h/.ssh/z", "h/safe/tool", "h/pack/package.json", "h/pack/src/deep/main.js"] {
            std::fs::write(at(name), "").unwrap();
        }
        let of = |name: &str| {
            let mut found = shown([at(name).as_path()].into_iter(), Some(&at("h")));
            found.dedup();
            found
        };
        for (named, expected) in [
            ("h/bin/x", "h/bin"),
            ("h/y", "h/y"),
            ("h/.ssh/z", "h/.ssh/z"),
            ("h/safe/tool", "h/safe/tool"),
            ("h/pack/src/deep/main.js", "h/pack"),
        ] {
            assert_eq!(of(named), [at(expected)], "{named}");
        }
        for named in ["h", "h/.ssh", "h/safe", "not-there"] {
            assert_eq!(of(named), Vec::<PathBuf>::new(), "{named}");
        }
    }
}
