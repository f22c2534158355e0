//! Detects which ecosystems a workspace uses by the files that their tools look for; `builtin:ci-dev` allows their
//! tools.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Policy;
use super::names::named;
use crate::path::{Node, Tree};

/// The rules that are cut to what the workspace uses.
pub(crate) const CUT: &str = "builtin:ci-dev";

/// Maximum depth of the search below the workspace, and maximum names that are examined.
const DEEPEST: usize = 3;
const MOST_NAMES: usize = 5_000;

/// Directories with other people's projects, or with what a build makes.
const PASSED_OVER: [&str; 6] = ["node_modules", "target", "vendor", "build", "dist", "third_party"];

/// An ecosystem: the programs of [`CUT`] that belong to it, and the files that show it; `*` stands for a beginning.
struct Ecosystem {
    programs: &'static str,
    shown_by: &'static str,
}

const ECOSYSTEMS: [Ecosystem; 36] = [
    Ecosystem { programs: "cargo rustc rustfmt rustup", shown_by: "Cargo.toml *.rs" },
    Ecosystem {
        programs: "go gofmt goimports gofumpt staticcheck errcheck gosec revive govulncheck ineffassign golangci-lint gotestsum",
        shown_by: "go.mod go.work",
    },
    Ecosystem {
        programs: "npm pnpm yarn npx pnpx tsc vue-tsc eslint prettier jest vitest mocha stylelint standard xo biome node ava   svelte-check \
            oxlint knip depcheck tsd     playwright cypress vite next astro ng turbo nx lerna webpack     commitlint \
            graphql-codegen typedoc size-limit madge publint attw   storybook nest parcel prisma karma react-scripts nuxt nuxi \
            vue-cli-service c8 nyc run-s run-p npm-run-all npm-run-all2",
        shown_by: "package.json",
    },
    Ecosystem {
        programs: "pytest py.test python python3 pip pip3 uv poetry pipenv pdm rye hatch tox nox coverage mypy ruff black isort flake8 \
            pylint pyright basedpyright ty vulture bandit pydocstyle autopep8 yapf pyupgrade autoflake interrogate radon pyflakes pycodestyle unittest \
            compileall py_compile json.tool doctest ./manage.py sphinx-build deptry lint-imports djlint mkdocs twine",
        shown_by: "pyproject.toml setup.py setup.cfg tox.ini noxfile.py pytest.ini requirements.txt Pipfile *.py",
    },
    Ecosystem {
        programs: "rspec rubocop standardrb erblint reek rake bundle rails ruby gem brakeman cucumber minitest bundle-audit bundler-audit srb steep",
        shown_by: "Gemfile Rakefile .rspec *.gemspec",
    },
    Ecosystem { programs: "make gmake", shown_by: "Makefile makefile GNUmakefile CMakeLists.txt" },
    Ecosystem { programs: "cmake ctest", shown_by: "CMakeLists.txt" },
    Ecosystem { programs: "ninja ninja-build samu", shown_by: "build.ninja CMakeLists.txt meson.build" },
    Ecosystem { programs: "meson", shown_by: "meson.build" },
    Ecosystem {
        programs: "clang-format clang-tidy cppcheck gcovr gcc g++ cc c++ clang clang++",
        shown_by: "CMakeLists.txt Makefile meson.build .clang-format *.c *.cc *.cpp *.h *.hpp",
    },
    Ecosystem { programs: "bazel bazelisk buildifier", shown_by: "MODULE.bazel WORKSPACE WORKSPACE.bazel" },
    Ecosystem { programs: "deno", shown_by: "deno.json deno.jsonc" },
    Ecosystem { programs: "bun bunx", shown_by: "package.json bunfig.toml" },
    Ecosystem { programs: "dotnet", shown_by: "*.csproj *.fsproj *.vbproj *.sln *.slnx" },
    Ecosystem { programs: "mvn mvnd ./mvnw", shown_by: "pom.xml" },
    Ecosystem {
        programs: "gradle ./gradlew ktlint detekt",
        shown_by: "build.gradle build.gradle.kts settings.gradle settings.gradle.kts",
    },
    Ecosystem { programs: "sbt scalafmt scalafix scala", shown_by: "build.sbt .scalafmt.conf" },
    Ecosystem {
        programs: "java javac kotlinc",
        shown_by: "pom.xml build.gradle build.gradle.kts settings.gradle settings.gradle.kts build.sbt *.java *.kt",
    },
    Ecosystem {
        programs: "composer phpunit pest paratest phpstan psalm phpcs phpcbf php-cs-fixer pint rector infection phan php",
        shown_by: "composer.json phpunit.xml phpunit.xml.dist",
    },
    Ecosystem { programs: "mix elixir", shown_by: "mix.exs" },
    Ecosystem { programs: "swift swiftlint swiftformat", shown_by: "Package.swift *.xcodeproj *.xcworkspace" },
    Ecosystem { programs: "zig", shown_by: "build.zig *.zig" },
    Ecosystem { programs: "dart flutter", shown_by: "pubspec.yaml" },
    Ecosystem {
        programs: "stack cabal ghc hlint ormolu fourmolu",
        shown_by: "stack.yaml cabal.project *.cabal package.yaml",
    },
    Ecosystem { programs: "dune opam", shown_by: "dune-project" },
    Ecosystem { programs: "terraform tofu tflint", shown_by: "*.tf *.tofu" },
    Ecosystem { programs: "luacheck stylua", shown_by: "*.lua *.rockspec" },
    Ecosystem { programs: "prove", shown_by: "cpanfile Makefile.PL Build.PL dist.ini *.pm *.t" },
    Ecosystem { programs: "gleam", shown_by: "gleam.toml" },
    Ecosystem { programs: "elm-test", shown_by: "elm.json" },
    Ecosystem { programs: "rebar3", shown_by: "rebar.config" },
    Ecosystem { programs: "lein", shown_by: "project.clj" },
    Ecosystem { programs: "forge", shown_by: "foundry.toml" },
    Ecosystem { programs: "just task", shown_by: "justfile Justfile .justfile Taskfile.yml Taskfile.yaml" },
    Ecosystem { programs: "helm", shown_by: "Chart.yaml" },
    Ecosystem { programs: "buf", shown_by: "buf.yaml buf.work.yaml buf.gen.yaml *.proto" },
];

/// Tells whether a program of [`CUT`] belongs to an ecosystem.
pub(crate) fn is_tool(program: &str) -> bool {
    ECOSYSTEMS.iter().any(|ecosystem| named(ecosystem.programs, program))
}

impl Policy {
    /// Returns the policy without the rules of `builtin:ci-dev` for ecosystems that the workspace does not use. Looks
    /// at files only where such rules are in effect.
    #[must_use]
    pub fn for_workspace(self, tree: &dyn Tree, root: &Path) -> Policy {
        let is_cut = |source: &str| source == CUT;
        let rules = self.layers.iter().flat_map(|layer| layer.rules.shell.allow.iter().flatten());
        if !rules.into_iter().any(|rule| is_cut(&rule.at.source)) {
            return self;
        }
        let foreign = foreign(tree, root);
        let mut layers = self.layers.as_ref().clone();
        for shell in layers.iter_mut().map(|layer| &mut layer.rules.shell) {
            let Some(allow) = &mut shell.allow else { continue };
            shell.of_all_ecosystems = allow.iter().filter(|rule| is_cut(&rule.at.source)).cloned().collect();
            for rule in allow.iter_mut().filter(|rule| is_cut(&rule.at.source)) {
                if let Some(programs) = rule.value.cmd.first_mut() {
                    programs.0.retain(|program| !foreign.contains(program.as_str()));
                }
            }
            allow.retain(|rule| rule.value.cmd.first().is_some_and(|programs| !programs.0.is_empty()));
        }
        Policy { layers: Arc::new(layers) }
    }
}

/// Returns the programs of every ecosystem that nothing shows.
fn foreign(tree: &dyn Tree, root: &Path) -> BTreeSet<&'static str> {
    let mut missing: Vec<&Ecosystem> = ECOSYSTEMS.iter().collect();
    let mut left = MOST_NAMES;
    let mut folders = VecDeque::from([(root.to_path_buf(), 0)]);
    while let Some((folder, depth)) = folders.pop_front() {
        for name in tree.names(&folder).unwrap_or_default() {
            let Some(name) = name.to_str() else { continue };
            if missing.is_empty() || left == 0 {
                break;
            }
            left -= 1;
            missing.retain(|ecosystem| !ecosystem.shown_by.split(' ').any(|pattern| matches(pattern, name)));
            let is_looked_into = depth < DEEPEST && !name.starts_with('.') && !PASSED_OVER.contains(&name);
            let path: PathBuf = folder.join(name);
            if is_looked_into && matches!(tree.look(&path), Ok(Some(Node::Dir))) {
                folders.push_back((path, depth + 1));
            }
        }
    }
    missing.into_iter().flat_map(|ecosystem| ecosystem.programs.split_whitespace()).collect()
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some(end) => name.len() > end.len() && name.ends_with(end),
        None => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::shell::stand_in::Memory;

    fn allows(policy: &Policy, program: &str) -> bool {
        let mut rules = policy.layers.iter().flat_map(|layer| layer.rules.shell.allow.iter().flatten());
        rules.any(|rule| rule.value.cmd[0].0.iter().any(|known| known == program))
    }

    fn allowed(files: &[&str]) -> Vec<&'static str> {
        let policy = Policy::builtin("ci-dev").unwrap().for_workspace(&Memory::new(files), Path::new("/ws"));
        let programs = ["cargo", "go", "npm", "eslint", "pytest", "rspec", "make", "deno", "bun", "mvn", "ls", "git"];
        programs.into_iter().filter(|program| allows(&policy, program)).collect()
    }

    #[test]
    fn the_tools_of_the_ecosystems_that_are_there_are_allowed_and_no_others() {
        assert_eq!(allowed(&[]), ["ls", "git"]);
        assert_eq!(allowed(&["Cargo.toml"]), ["cargo", "ls", "git"]);
        assert_eq!(allowed(&["web/app/package.json", "Makefile"]), ["npm", "eslint", "make", "bun", "ls", "git"]);
        assert_eq!(allowed(&["a/b/c/d/go.mod", "node_modules/x/Cargo.toml", ".x/pom.xml"]), ["ls", "git"]);
        assert_eq!(allowed(&["src/tool.py"]), ["pytest", "ls", "git"]);
    }

    #[test]
    fn every_program_of_the_list_belongs_to_an_ecosystem_or_to_all() {
        let everywhere = "ls cat head tail wc grep rg find sort uniq cut tr diff stat file tree jq sed awk git mkdir touch cp mv rm tee nproc basename dirname realpath readlink which seq sleep date uname hostname whoami env printenv du df nl tac rev column paste join comm cmp \
                          fold fmt od xxd hexdump strings base64 expand egrep fgrep rmdir sha256sum sha1sum md5sum cksum shellcheck shfmt hadolint actionlint \
                          markdownlint markdownlint-cli2 cspell typos taplo dprint yamllint codespell editorconfig-checker pre-commit \
                          ansible-lint kubeconform sqlfluff bats xmllint protolint kube-linter protoc id uptime free lscpu tar unzip xargs gzip zip xz zstd sh bash dash perl curl wget";
        let policy = Policy::builtin("ci-dev").unwrap();
        for rule in policy.layers[0].rules.shell.allow.iter().flatten() {
            for program in &rule.value.cmd[0].0 {
                let known = is_tool(program);
                assert!(known || everywhere.split(' ').any(|name| name == program), "{program}");
            }
        }
    }

    #[test]
    fn rules_of_a_file_are_the_files_own() {
        let text = "version: 1\nextends: builtin:ci-dev\nshell: {allow: [{cmd: [cargo, test]}]}\n";
        let layer = crate::policy::LayerText {
            name: "p.yaml".to_owned(),
            text: text.to_owned(),
            standing: crate::policy::Standing::Operator,
        };
        let policy = Policy::new(&layer, &[], &crate::policy::layers::no_parents)
            .unwrap()
            .for_workspace(&Memory::default(), Path::new("/ws"));
        assert!(allows(&policy, "cargo"));
    }

    #[test]
    fn a_recipe_of_many_ecosystems_may_begin_where_one_of_them_is() {
        let policy = Policy::builtin("ci-dev").unwrap().for_workspace(&Memory::default(), Path::new("/ws"));
        assert!(policy.could_run(&["cargo", "test"]) && !policy.could_run(&["cargo", "publish"]));
    }
}
