//! Finds the commands by which a project is linted, tested, built and formatted, in the names and texts of its files.

use std::collections::BTreeMap;

use serde_json::Value;

/// What a command is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// It finds problems.
    Lint,
    /// It runs the tests.
    Test,
    /// It builds, or checks that it could be built.
    Build,
    /// It formats.
    Format,
}

impl Purpose {
    /// All of them.
    pub const ALL: [Purpose; 4] = [Purpose::Lint, Purpose::Test, Purpose::Build, Purpose::Format];

    /// Returns its word, as in `project.lint`.
    pub fn name(self) -> &'static str {
        match self {
            Purpose::Lint => "lint",
            Purpose::Test => "test",
            Purpose::Build => "build",
            Purpose::Format => "format",
        }
    }

    /// Returns the purpose that `project.NAME` means.
    pub fn of(text: &str) -> Option<Purpose> {
        let name = text.strip_prefix("project.")?;
        Purpose::ALL.into_iter().find(|purpose| purpose.name() == name)
    }
}

/// The files that are looked for, as messages list them.
pub const LOOKED_FOR: &str = "Cargo.toml, go.mod, package.json (its scripts), pyproject.toml (ruff, pytest), Gemfile, \
                              pom.xml, build.gradle, *.sln, *.csproj and Makefile (its targets)";

/// Why there is no command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unclear {
    /// No file gives one.
    None,
    /// Several do: their commands.
    Several(Vec<Vec<String>>),
}

/// The commands of a project.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Project {
    commands: BTreeMap<Purpose, Vec<Vec<String>>>,
}

/// Reads a file of the project's folder by its name; `None` where there is none.
pub type Read<'a> = dyn Fn(&str) -> Option<String> + 'a;

impl Project {
    /// Finds the commands. `names` are the files of the folder.
    pub fn of(names: &[String], read: &Read<'_>) -> Project {
        let mut project = Project::default();
        let has = |name: &str| names.iter().any(|known| known == name);
        let text = |name: &str| if has(name) { read(name) } else { None };
        if has("Cargo.toml") {
            project.add("cargo clippy --all-targets -- -D warnings", Purpose::Lint);
            project.add("cargo test --quiet", Purpose::Test);
            project.add("cargo check --all-targets", Purpose::Build);
            project.add("cargo fmt", Purpose::Format);
        }
        if has("go.mod") {
            project.add("go vet ./...", Purpose::Lint);
            project.add("go test ./...", Purpose::Test);
            project.add("go build ./...", Purpose::Build);
            project.add("go fmt ./...", Purpose::Format);
        }
        if let Some(text) = text("package.json") {
            project.scripts(&text, &has);
        }
        project.python(&has, &text);
        if let Some(text) = text("Gemfile") {
            project.ruby(&text, has("Rakefile"));
        }
        if let Some(text) = text("pom.xml") {
            project.maven(&text, has("mvnw"));
        }
        if let Some(text) = text("build.gradle").or_else(|| text("build.gradle.kts")) {
            project.gradle(&text, has("gradlew"));
        }
        let is_dotnet =
            |name: &String| [".sln", ".slnx", ".csproj", ".fsproj"].iter().any(|ending| name.ends_with(ending));
        if names.iter().any(is_dotnet) {
            project.add("dotnet format --verify-no-changes", Purpose::Lint);
            project.add("dotnet test", Purpose::Test);
            project.add("dotnet build", Purpose::Build);
            project.add("dotnet format", Purpose::Format);
        }
        if let Some(text) = ["GNUmakefile", "makefile", "Makefile"].into_iter().find_map(text) {
            project.targets(&text);
        }
        project
    }

    /// Tells whether no file gives a command.
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Returns the words of the command for a purpose.
    pub fn command(&self, purpose: Purpose) -> Result<&[String], Unclear> {
        match self.commands.get(&purpose).map(Vec::as_slice) {
            None | Some([]) => Err(Unclear::None),
            Some([words]) => Ok(words),
            Some(several) => Err(Unclear::Several(several.to_vec())),
        }
    }

    fn add(&mut self, command: &str, purpose: Purpose) {
        let words = command.split(' ').map(str::to_owned).collect();
        self.commands.entry(purpose).or_default().push(words);
    }

    /// Takes the scripts of a `package.json`, run by the manager that it names or whose lock file is there.
    fn scripts(&mut self, text: &str, has: &dyn Fn(&str) -> bool) {
        const MANAGERS: [(&str, &str); 6] = [
            ("package-lock.json", "npm"),
            ("pnpm-lock.yaml", "pnpm"),
            ("yarn.lock", "yarn"),
            ("bun.lock", "bun"),
            ("bun.lockb", "bun"),
            ("npm-shrinkwrap.json", "npm"),
        ];
        // What `npm init` writes is no test.
        const PLACEHOLDER: &str = "no test specified";
        let package: Value = serde_json::from_str(text).unwrap_or_default();
        let named = package["packageManager"].as_str().and_then(|named| named.split('@').next());
        let named = named.and_then(|named| MANAGERS.iter().map(|(_, known)| *known).find(|known| *known == named));
        let locked = MANAGERS.iter().find(|(file, _)| has(file)).map(|(_, manager)| *manager);
        let manager = named.or(locked).unwrap_or("npm");
        for (purpose, names) in [
            (Purpose::Lint, &["lint"][..]),
            (Purpose::Test, &["test"]),
            (Purpose::Build, &["build"]),
            (Purpose::Format, &["format", "fmt"]),
        ] {
            let is_there =
                |name: &&&str| package["scripts"][**name].as_str().is_some_and(|script| !script.contains(PLACEHOLDER));
            if let Some(name) = names.iter().find(is_there) {
                self.add(&format!("{manager} run {name}"), purpose);
            }
        }
    }

    /// Takes ruff and pytest where they are configured.
    fn python(&mut self, has: &dyn Fn(&str) -> bool, text: &dyn Fn(&str) -> Option<String>) {
        let pyproject = text("pyproject.toml").unwrap_or_default();
        let has_table = |name: &str| {
            let start = format!("[tool.{name}");
            let is_table =
                |line: &str| line.trim_start().strip_prefix(&start).is_some_and(|rest| rest.starts_with([']', '.']));
            pyproject.lines().any(is_table)
        };
        if has_table("ruff") || has("ruff.toml") || has(".ruff.toml") {
            self.add("ruff check .", Purpose::Lint);
            self.add("ruff format .", Purpose::Format);
        }
        let elsewhere = |name: &str, section: &str| text(name).is_some_and(|text| text.contains(section));
        let is_configured =
            has("pytest.ini") || elsewhere("setup.cfg", "[tool:pytest]") || elsewhere("tox.ini", "[pytest]");
        if has_table("pytest") || is_configured {
            self.add("pytest -q", Purpose::Test);
        }
    }

    fn ruby(&mut self, gemfile: &str, has_rakefile: bool) {
        if gemfile.contains("rubocop") {
            self.add("bundle exec rubocop", Purpose::Lint);
            self.add("bundle exec rubocop --fix-layout", Purpose::Format);
        }
        if gemfile.contains("rspec") {
            self.add("bundle exec rspec", Purpose::Test);
        } else if has_rakefile {
            self.add("bundle exec rake test", Purpose::Test);
        }
    }

    fn maven(&mut self, pom: &str, has_wrapper: bool) {
        let maven = if has_wrapper { "./mvnw" } else { "mvn" };
        self.add(&format!("{maven} -q test"), Purpose::Test);
        self.add(&format!("{maven} -q compile"), Purpose::Build);
        if pom.contains("spotless-maven-plugin") {
            self.add(&format!("{maven} -q spotless:check"), Purpose::Lint);
            self.add(&format!("{maven} -q spotless:apply"), Purpose::Format);
        } else if pom.contains("maven-checkstyle-plugin") {
            self.add(&format!("{maven} -q checkstyle:check"), Purpose::Lint);
        }
    }

    fn gradle(&mut self, build: &str, has_wrapper: bool) {
        let gradle = if has_wrapper { "./gradlew" } else { "gradle" };
        self.add(&format!("{gradle} test"), Purpose::Test);
        self.add(&format!("{gradle} classes"), Purpose::Build);
        if build.contains("spotless") {
            self.add(&format!("{gradle} spotlessCheck"), Purpose::Lint);
            self.add(&format!("{gradle} spotlessApply"), Purpose::Format);
        } else if build.contains("ktlint") {
            self.add(&format!("{gradle} ktlintCheck"), Purpose::Lint);
            self.add(&format!("{gradle} ktlintFormat"), Purpose::Format);
        }
    }

    /// Takes the targets of a Makefile.
    fn targets(&mut self, makefile: &str) {
        let is_target = |name: &str| {
            makefile.lines().any(|line| {
                let Some((targets, rest)) = line.split_once(':') else { return false };
                !rest.starts_with('=')
                    && !line.starts_with(['\t', '#'])
                    && targets.split_whitespace().any(|t| t == name)
            })
        };
        for (purpose, names) in [
            (Purpose::Lint, &["lint"][..]),
            (Purpose::Test, &["test"]),
            (Purpose::Build, &["build"]),
            (Purpose::Format, &["format", "fmt"]),
        ] {
            if let Some(name) = names.iter().find(|name| is_target(name)) {
                self.add(&format!("make {name}"), purpose);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns lint, test, build and format; `-` where there is none, and all with `|` where there are several.
    fn found(files: &[(&str, &str)]) -> [String; 4] {
        let names: Vec<String> = files.iter().map(|(name, _)| (*name).to_owned()).collect();
        let read = |name: &str| files.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned());
        let project = Project::of(&names, &read);
        Purpose::ALL.map(|purpose| match project.command(purpose) {
            Ok(words) => words.join(" "),
            Err(Unclear::None) => "-".to_owned(),
            Err(Unclear::Several(all)) => all.iter().map(|words| words.join(" ")).collect::<Vec<_>>().join("|"),
        })
    }

    #[test]
    fn each_kind_of_project_gives_the_commands_that_its_files_show() {
        let scripts = r#"{"scripts": {"lint": "eslint .", "test": "echo \"Error: no test specified\"", "fmt": "x"}}"#;
        let managed = r#"{"packageManager": "pnpm@9.1.0", "scripts": {"test": "vitest"}}"#;
        let pyproject = "[project]\nname = 'a'\n[tool.ruff.lint]\n[tool.pytest.ini_options]\n";
        for (files, expected) in [
            (
                &[("Cargo.toml", "")][..],
                [
                    "cargo clippy --all-targets -- -D warnings",
                    "cargo test --quiet",
                    "cargo check --all-targets",
                    "cargo fmt",
                ],
            ),
            (&[("go.mod", "")], ["go vet ./...", "go test ./...", "go build ./...", "go fmt ./..."]),
            (&[("package.json", scripts), ("yarn.lock", "")], ["yarn run lint", "-", "-", "yarn run fmt"]),
            (&[("package.json", managed), ("yarn.lock", "")], ["-", "pnpm run test", "-", "-"]),
            (&[("package.json", "no JSON")], ["-", "-", "-", "-"]),
            (&[("pyproject.toml", pyproject)], ["ruff check .", "pytest -q", "-", "ruff format ."]),
            (&[("pyproject.toml", "[tool.ruffian]\n"), ("pytest.ini", "")], ["-", "pytest -q", "-", "-"]),
            (
                &[("Gemfile", "gem 'rubocop'\n"), ("Rakefile", "")],
                ["bundle exec rubocop", "bundle exec rake test", "-", "bundle exec rubocop --fix-layout"],
            ),
            (&[("pom.xml", ""), ("mvnw", "")], ["-", "./mvnw -q test", "./mvnw -q compile", "-"]),
            (
                &[("build.gradle.kts", "id(\"com.diffplug.spotless\")")],
                ["gradle spotlessCheck", "gradle test", "gradle classes", "gradle spotlessApply"],
            ),
            (&[("App.sln", "")], ["dotnet format --verify-no-changes", "dotnet test", "dotnet build", "dotnet format"]),
            (
                &[("Makefile", "test := x\n.PHONY: lint\nlint fmt: a\n\tbuild: no\n")],
                ["make lint", "-", "-", "make fmt"],
            ),
            (&[("README.md", "")], ["-", "-", "-", "-"]),
        ] {
            assert_eq!(found(files), expected, "{files:?}");
        }
    }

    #[test]
    fn several_files_that_give_a_command_are_not_chosen_from() {
        let found = found(&[("go.mod", ""), ("Makefile", "test: x\n")]);
        assert_eq!(found[1], "go test ./...|make test");
    }
}
