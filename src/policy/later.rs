//! Recognises files that are run later without being asked for: package scripts, build files, test configuration.

/// Names that run at any depth.
const NAMES: &str = "package.json Makefile GNUmakefile CMakeLists.txt build.rs Cargo.toml settings.gradle gradle.properties \
    gradle-wrapper.properties gradle-wrapper.jar gradlew gradlew.bat mvnw mvnw.cmd pom.xml conftest.py setup.py \
    setup.cfg pyproject.toml noxfile.py tox.ini sitecustomize.py usercustomize.py Rakefile Gemfile Guardfile Podfile \
    Fastfile Vagrantfile Brewfile .rspec .irbrc .pryrc composer.json Dockerfile docker-compose.yml \
    docker-compose.yaml compose.yml compose.yaml Justfile .justfile Taskfile.yml Taskfile.yaml action.yml \
    action.yaml gulpfile.js gulpfile.mjs gulpfile.ts Gruntfile.js .pnpmfile.cjs deno.json deno.jsonc turbo.json \
    nx.json build.sbt mix.exs Package.swift build.zig dune meson.build SConstruct SConscript wscript BUILD \
    BUILD.bazel WORKSPACE WORKSPACE.bazel MODULE.bazel .bazelrc flake.nix shell.nix default.nix";

/// Endings of configuration that is code.
const ENDINGS: &[&str] = &[
    ".config.js",
    ".config.ts",
    ".config.mjs",
    ".config.cjs",
    ".config.mts",
    ".config.cts",
    ".mk",
    ".cmake",
    ".gradle",
    ".gradle.kts",
    ".pth",
    ".gemspec",
    ".sbt",
    ".bzl",
    ".csproj",
    ".fsproj",
    ".vbproj",
    ".props",
    ".targets",
];

/// Tells whether a changed file runs later by itself, so that a reviewer looks twice.
pub fn executes_later(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    named(NAMES, &name)
        || super::protected::is_hook(&name)
        || ENDINGS.iter().any(|ending| name.ends_with(ending))
        || name.starts_with('.') && ["rc.js", "rc.cjs", "rc.mjs", "rc.ts"].iter().any(|ending| name.ends_with(ending))
        || name.starts_with("dockerfile.")
        || path.split('/').any(|folder| folder == ".mvn")
}

fn named(names: &str, name: &str) -> bool {
    names.split_whitespace().any(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_files_run_later_and_sources_do_not() {
        for path in [
            "Makefile",
            "a/b/package.json",
            "vite.config.ts",
            "tests/conftest.py",
            "x/build.rs",
            "ci/pre-commit",
            ".eslintrc.cjs",
            "gradlew",
            "ci/x/action.yml",
            "App.csproj",
            ".mvn/extensions.xml",
            "makeFile",
            "compose.yml",
            "app/build.gradle.kts",
        ] {
            assert!(executes_later(path), "{path}");
        }
        for path in ["src/main.rs", "README.md", "a/makefile.md", "src/arc.js", "docs/action.md", "src/build.go"] {
            assert!(!executes_later(path), "{path}");
        }
    }
}
