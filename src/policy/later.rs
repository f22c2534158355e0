//! Recognises files that are run later without being asked for: package scripts, build files, test configuration.

/// Names that run at any depth.
const NAMES: &[&str] = &[
    "package.json",
    "Makefile",
    "makefile",
    "GNUmakefile",
    "CMakeLists.txt",
    "build.rs",
    "Cargo.toml",
    "build.gradle",
    "build.gradle.kts",
    "settings.gradle",
    "pom.xml",
    "conftest.py",
    "setup.py",
    "setup.cfg",
    "pyproject.toml",
    "noxfile.py",
    "tox.ini",
    "Rakefile",
    "Gemfile",
    "composer.json",
    "Dockerfile",
    "docker-compose.yml",
    "compose.yaml",
    "Justfile",
    "justfile",
    "Taskfile.yml",
    "sitecustomize.py",
];

/// Endings of configuration that is code.
const ENDINGS: &[&str] =
    &[".config.js", ".config.ts", ".config.mjs", ".config.cjs", ".mk", ".cmake", ".gradle", ".pth"];

/// Tells whether a changed file runs later by itself, so that a reviewer looks twice.
pub fn executes_later(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    NAMES.contains(&name)
        || super::protected::is_hook(name)
        || ENDINGS.iter().any(|ending| name.ends_with(ending))
        || name.starts_with("Dockerfile.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_files_run_later_and_sources_do_not() {
        for path in
            ["Makefile", "a/b/package.json", "vite.config.ts", "tests/conftest.py", "x/build.rs", "ci/pre-commit"]
        {
            assert!(executes_later(path), "{path}");
        }
        for path in ["src/main.rs", "README.md", "a/makefile.md"] {
            assert!(!executes_later(path), "{path}");
        }
    }
}
