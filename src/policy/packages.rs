//! Recognises packages that are installed in the workspace, and the files that belong to an installed program.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use crate::path::RelPath;

/// Directories of installed packages.
const PACKAGES: [&[u8]; 4] = [b"node_modules", b"vendor", b".venv", b"venv"];

/// What programs write next to the packages as they run.
const CACHES: [&[u8]; 10] = [
    b".cache",
    b".vite",
    b".vite-temp",
    b".vitest",
    b".tmp",
    b".astro",
    b".prisma",
    b".lock",
    b".gitignore",
    b"CACHEDIR.TAG",
];

/// Returns the directories with the packages that a program is one of, or finds.
pub fn packages_of(program: &RelPath) -> Vec<RelPath> {
    let mut above = RelPath::root();
    let mut found = Vec::new();
    for part in program.components() {
        if PACKAGES.contains(&part) {
            found.extend(above.child(OsStr::from_bytes(part)));
            break;
        }
        // Node looks for packages in each directory above, too.
        found.extend(above.child("node_modules"));
        let Some(next) = above.child(OsStr::from_bytes(part)) else { break };
        above = next;
    }
    match found.last() {
        Some(own) if !own.as_bytes().ends_with(b"node_modules") => vec![own.clone()],
        Some(own) if program.is_under(own) => found,
        _ => Vec::new(),
    }
}

/// Tells whether a path below a directory of packages is not a package, but something that programs leave there.
pub fn is_cache(packages: &RelPath, path: &RelPath) -> bool {
    let first = path.components().nth(packages.components().count());
    first.is_some_and(|first| CACHES.contains(&first)) || path.components().any(|part| part == b"__pycache__")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        RelPath::new(text).unwrap()
    }

    #[test]
    fn a_program_s_packages_are_those_around_it_and_for_node_those_above() {
        for (program, expected) in [
            ("node_modules/.bin/jest", vec!["node_modules"]),
            ("node_modules/a/node_modules/b/x.js", vec!["node_modules"]),
            ("app/web/node_modules/.bin/jest", vec!["node_modules", "app/node_modules", "app/web/node_modules"]),
            ("app/vendor/bin/phpunit", vec!["app/vendor"]),
            (".venv/bin/pytest", vec![".venv"]),
            ("gradlew", vec![]),
            ("bin/rails", vec![]),
        ] {
            let found: Vec<String> = packages_of(&path(program)).iter().map(RelPath::to_string_lossy).collect();
            assert_eq!(found, expected, "{program}");
        }
    }

    #[test]
    fn caches_are_no_packages_and_stores_are() {
        let of = |text: &str| is_cache(&path("a/node_modules"), &path(text));
        assert!(
            of("a/node_modules/.cache/x") && of("a/node_modules/.vite") && of("a/node_modules/x/__pycache__/y.pyc")
        );
        for package in ["a/node_modules", "a/node_modules/x/.cache", "a/node_modules/.pnpm/x", "a/node_modules/.bin/x"]
        {
            assert!(!of(package), "{package}");
        }
    }
}
