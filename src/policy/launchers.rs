//! Lists the files of a project that say what a launcher starts: by `bin` or `scripts` an installed program's name can be
//! another program's.

use serde_json::Value;

use super::names::{base_name, named};
use super::programs::Word;
use crate::path::RelPath;

/// Launchers, the subcommands that start a program by its name, and the files that they ask first.
const LAUNCHERS: [(&str, &str, &str); 5] = [
    ("npx", "", "package.json"),
    ("npm", "exec x", "package.json"),
    ("pnpm pnpx", "exec dlx", "package.json pnpm-workspace.yaml .pnpmfile.cjs"),
    (
        "uv pdm pipenv poetry rye hatch",
        "run",
        "pyproject.toml Pipfile hatch.toml poetry.toml pdm.toml uv.toml .python-version",
    ),
    ("composer", "exec", "composer.json"),
];

/// Where such a file names programs; nothing where all of it counts.
const NAMES: [(&str, &[&str]); 11] = [
    ("package.json", &["/bin", "/directories", "/name", "/workspaces", "/pnpm"]),
    (
        "pyproject.toml",
        &[
            "/project/scripts",
            "/project/gui-scripts",
            "/tool/pdm/scripts",
            "/tool/rye/scripts",
            "/tool/poetry/scripts",
            // These make an environment, and may build the project for it.
            "/tool/hatch",
            "/tool/uv",
            "/build-system",
            "/project/dependencies",
        ],
    ),
    ("Pipfile", &["/scripts"]),
    ("composer.json", &["/bin", "/scripts"]),
    ("hatch.toml", &[]),
    ("poetry.toml", &[]),
    ("pdm.toml", &[]),
    ("uv.toml", &[]),
    (".python-version", &[]),
    ("pnpm-workspace.yaml", &[]),
    (".pnpmfile.cjs", &[]),
];

/// Where the programs of a Python project are.
const ENVIRONMENTS: [&str; 2] = [".venv/bin", "venv/bin"];

/// Returns the files that say what a command starts, in its directories and those above; not all of them need be there.
pub(super) fn asked_first(words: &[Word], folders: &[RelPath]) -> Vec<RelPath> {
    let program = words.first().map(|word| base_name(&word.text)).unwrap_or_default();
    let known = LAUNCHERS.iter().find(|(launchers, _, _)| named(launchers, program));
    let Some((_, subcommands, files)) = known else { return Vec::new() };
    if !subcommands.is_empty() && !words[1..].iter().any(|word| named(subcommands, &word.text)) {
        return Vec::new();
    }
    let above = |folder: &RelPath| std::iter::successors(Some(folder.clone()), RelPath::parent).collect::<Vec<_>>();
    let all: Vec<RelPath> = folders.iter().flat_map(above).collect();
    let mut asked: Vec<RelPath> = Vec::new();
    for folder in &all {
        asked.extend(files.split_whitespace().filter_map(|file| folder.join(file)));
    }
    if *subcommands == "run" {
        let behind = words.iter().skip_while(|word| word.text != "run").skip(1);
        for name in
            behind.filter(|word| word.literal && !word.text.starts_with('-') && !word.text.contains('/')).take(2)
        {
            let places = all.iter().flat_map(|folder| ENVIRONMENTS.iter().filter_map(|place| folder.join(place)));
            asked.extend(places.filter_map(|place| place.join(&name.text)));
        }
    }
    asked
}

/// Tells whether a launcher is asked to take programs from another package: that its files did not change is not known.
pub(super) fn leaves_the_package(words: &[Word]) -> bool {
    let program = words.first().map(|word| base_name(&word.text)).unwrap_or_default();
    let names = |text: &str| {
        let name = text.split('=').next().unwrap_or_default();
        let long =
            ["--workspace", "--workspaces", "--ws", "--prefix", "--recursive", "--workspace-root", "--dir", "--cwd"];
        let short = ["-w", "-r", "-F", "-C"].iter().any(|short| name.starts_with(short));
        short || long.contains(&name) || name.starts_with("--filter")
    };
    let behind = || words.iter().skip(1).map(|word| word.text.as_str());
    match program {
        "npx" | "pnpx" | "bunx" => behind().take_while(|word| word.starts_with('-')).any(names),
        "npm" => behind().any(|word| matches!(word, "exec" | "x")) && behind().any(names),
        // What is behind the program's name is the program's.
        "pnpm" | "yarn" | "bun" => {
            let exec = behind().position(|word| matches!(word, "exec" | "x"));
            exec.is_some_and(|exec| {
                let after = behind().skip(exec + 1).take_while(|word| word.starts_with('-'));
                behind().take(exec).chain(after).any(names)
            })
        }
        _ => false,
    }
}

/// Tells whether such a file names the same programs as when the run began; `None` if it is no such file. A directory of programs
/// (`directories.bin`) may have got another one.
pub(crate) fn names_the_same(path: &RelPath, before: Option<&[u8]>, now: Option<&[u8]>) -> Option<bool> {
    let named = names_programs(path, before)?;
    let is_package = path.file_name().is_some_and(|name| name == "package.json");
    let by_directory = is_package && named.pointer("/1/bin").is_some();
    Some(!by_directory && Some(named) == names_programs(path, now))
}

/// Returns what such a file says about programs: `None` if it is no such file. One that cannot be read says itself.
fn names_programs(path: &RelPath, content: Option<&[u8]>) -> Option<Value> {
    let name = path.file_name()?.to_str()?;
    let places = NAMES.iter().find(|(file, _)| *file == name)?.1;
    let Some(content) = content else { return Some(places.iter().map(|_| Value::Null).collect()) };
    let text = String::from_utf8_lossy(content);
    if places.is_empty() {
        return Some(Value::from(text));
    }
    let read: Option<Value> = match name.ends_with(".json") {
        true => serde_json::from_str(&text).ok(),
        false => toml::from_str(&text).ok(),
    };
    Some(match read {
        Some(read) => places.iter().map(|place| read.pointer(place).cloned().unwrap_or_default()).collect(),
        None => Value::from(text),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launcher_asks_the_files_of_its_directories() {
        let asked = |words: &[&str], folder: &str| {
            let words: Vec<Word> = words.iter().map(|word| Word::literal(*word)).collect();
            let files = asked_first(&words, &[RelPath::new(folder).unwrap()]);
            files.iter().map(RelPath::to_string).collect::<Vec<_>>()
        };
        assert_eq!(asked(&["npx", "eslint"], "a/b"), ["a/b/package.json", "a/package.json", "package.json"]);
        assert_eq!(asked(&["npm", "--silent", "exec", "eslint"], "a"), ["a/package.json", "package.json"]);
        assert_eq!(asked(&["pdm", "run", "ruff"], "a").len(), 18);
        assert!(asked(&["npm", "test"], "a").is_empty());
        assert!(asked(&["eslint"], "a").is_empty());
    }

    #[test]
    fn another_package_is_left_to_its_own_scripts() {
        let leaves = |line: &str| leaves_the_package(&line.split(' ').map(Word::literal).collect::<Vec<_>>());
        for line in [
            "npx -w packages/a eslint",
            "npx --workspace=a eslint",
            "npm exec -w a -- eslint",
            "npm -w a exec eslint",
            "pnpm -r exec eslint",
            "pnpm --filter a exec eslint",
            "pnpm exec -r eslint",
            "yarn --cwd a exec eslint",
        ] {
            assert!(leaves(line), "{line}");
        }
        for line in [
            "npx eslint -w",
            "npm exec eslint",
            "npm test -w a",
            "npx webpack --watch",
            "pnpm exec eslint -r x",
            "pnpm -r test",
            "yarn --cwd a test",
        ] {
            assert!(!leaves(line), "{line}");
        }
    }

    #[test]
    fn only_what_names_programs_counts() {
        let said =
            |name: &str, text: Option<&str>| names_programs(&RelPath::new(name).unwrap(), text.map(str::as_bytes));
        let plain = said("package.json", Some(r#"{"scripts": {"test": "x"}}"#));
        assert_eq!(plain, said("package.json", None));
        assert_ne!(plain, said("package.json", Some(r#"{"bin": {"eslint": "x"}}"#)));
        assert_ne!(plain, said("package.json", Some("{")));
        let scripts = said("a/pyproject.toml", Some("[tool.pdm.scripts]\nruff = \"x\"\n"));
        assert_ne!(scripts, said("a/pyproject.toml", Some("[tool.ruff]\n")));
        let same = |name: &str, text: &str| {
            names_the_same(&RelPath::new(name).unwrap(), Some(text.as_bytes()), Some(text.as_bytes()))
        };
        assert_eq!(same("package.json", r#"{"directories": {"bin": "tools"}}"#), Some(false));
        assert_eq!(same("composer.json", r#"{"scripts": {"bin": "x"}}"#), Some(true));
        assert_eq!(same("a.json", "{}"), None);
        assert_eq!(said("x.json", None), None);
    }
}
