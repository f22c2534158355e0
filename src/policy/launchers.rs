//! Lists the files of a project that say what a launcher starts: by `bin` or `scripts` an installed program's name can be
//! another program's.

use serde_json::Value;

use super::names::{base_name, named};
use super::programs::Word;
use crate::path::RelPath;

/// Programs that start others by their names.
struct Launcher {
    names: &'static str,
    /// The subcommands that do; none where all of it does.
    subcommands: &'static str,
    /// The files that say what a name means.
    files: &'static str,
    /// Where the programs are.
    places: &'static str,
}

const LAUNCHERS: [Launcher; 8] = [
    Launcher { names: "npx bunx", subcommands: "", files: "package.json", places: NODE },
    Launcher { names: "npm", subcommands: "exec x", files: "package.json", places: NODE },
    Launcher {
        names: "pnpm pnpx yarn yarnpkg bun",
        subcommands: "exec x dlx",
        files: "package.json pnpm-workspace.yaml .pnpmfile.cjs",
        places: NODE,
    },
    // A word that is no script of theirs is a program.
    Launcher { names: "pnpm yarn yarnpkg bun", subcommands: "", files: "", places: NODE },
    Launcher {
        names: "uv",
        subcommands: "run tree version export list show freeze check",
        files: "pyproject.toml uv.toml .python-version",
        places: PYTHON,
    },
    Launcher {
        names: "hatch",
        subcommands: "run fmt test build version env status dep",
        files: "pyproject.toml hatch.toml",
        places: PYTHON,
    },
    Launcher {
        names: "pdm pipenv poetry rye",
        subcommands: "run list show graph check info env version",
        files: "pyproject.toml Pipfile poetry.toml pdm.toml",
        places: PYTHON,
    },
    Launcher { names: "composer", subcommands: "exec", files: "composer.json", places: "vendor/bin" },
];

const NODE: &str = "node_modules/.bin";
const PYTHON: &str = ".venv/bin venv/bin";

/// Words of a launcher's line that may be the program's name.
const NAMES_OF_PROGRAMS: usize = 8;

/// Where such a file names programs; nothing where all of it counts.
const NAMES: [(&str, &[&str]); 11] = [
    ("package.json", &["/bin", "/directories", "/name", "/workspaces", "/pnpm"]),
    (
        "pyproject.toml",
        &[
            "/project/scripts",
            "/project/gui-scripts",
            "/tool/pdm",
            "/tool/rye/scripts",
            "/tool/poetry/scripts",
            // These make an environment, and may build the project for it.
            "/tool/hatch",
            "/tool/uv",
            "/build-system",
            "/dependency-groups",
            "/project/dependencies",
            "/project/optional-dependencies",
            "/project/dynamic",
        ],
    ),
    ("Pipfile", &["/scripts"]),
    ("composer.json", &["/bin", "/scripts", "/config"]),
    ("hatch.toml", &[]),
    ("poetry.toml", &[]),
    ("pdm.toml", &[]),
    ("uv.toml", &[]),
    (".python-version", &[]),
    ("pnpm-workspace.yaml", &[]),
    (".pnpmfile.cjs", &[]),
];

/// Returns the files that say what a command starts, and the programs that it may start, in its directories and those above;
/// not all of them need be there.
pub(super) fn asked_first(words: &[Word], folders: &[RelPath]) -> Vec<RelPath> {
    let program = words.first().map(|word| base_name(&word.text)).unwrap_or_default();
    let behind = |launcher: &Launcher| {
        let first = words.iter().skip(1).position(|word| named(launcher.subcommands, &word.text));
        first.map(|first| first + 2).or(launcher.subcommands.is_empty().then_some(1))
    };
    let mut known = LAUNCHERS.iter().filter(|launcher| named(launcher.names, program));
    let Some((launcher, behind)) = known.find_map(|launcher| Some((launcher, behind(launcher)?))) else {
        return Vec::new();
    };
    let is_name = |word: &&Word| word.literal && !word.text.starts_with('-') && !word.text.contains('/');
    let names: Vec<&Word> = words[behind..].iter().filter(is_name).take(NAMES_OF_PROGRAMS).collect();
    let above = |folder: &RelPath| std::iter::successors(Some(folder.clone()), RelPath::parent).collect::<Vec<_>>();
    let mut asked: Vec<RelPath> = Vec::new();
    for folder in folders.iter().flat_map(|folder| moved(words, folder)).flat_map(|folder| above(&folder)) {
        asked.extend(launcher.files.split_whitespace().filter_map(|file| folder.join(file)));
        let places = places_of(launcher.places).filter_map(|place| folder.join(place));
        asked.extend(
            places.flat_map(|place| names.iter().filter_map(|name| place.join(&name.text)).collect::<Vec<_>>()),
        );
        // The environment's own interpreter is asked as well.
        let interpreters = places_of(PYTHON).filter(|_| launcher.places == PYTHON);
        asked.extend(interpreters.filter_map(|place| folder.join(place)?.join("python")));
        // A package may be named in the place of its program, with a version or a scope: all packages count.
        let is_package = launcher.places == NODE && !launcher.files.is_empty();
        asked.extend(folder.join(NODE).filter(|_| is_package));
    }
    asked
}

fn places_of(places: &'static str) -> impl Iterator<Item = &'static str> {
    places.split_whitespace()
}

/// Returns the directory that a command works in, and those that its options name.
fn moved(words: &[Word], folder: &RelPath) -> Vec<RelPath> {
    const MOVES: [&str; 4] = ["-C", "--dir", "--cwd", "--prefix"];
    let attached = |word: &Word| {
        let (name, value) = word.text.split_once('=')?;
        MOVES.contains(&name).then(|| value.to_owned())
    };
    let apart = words.windows(2).filter(|pair| MOVES.contains(&pair[0].text.as_str())).map(|pair| pair[1].text.clone());
    let named = words.iter().filter_map(attached).chain(apart).filter_map(|value| folder.join(value));
    std::iter::once(folder.clone()).chain(named).collect()
}

/// Tells whether an option of pnpm, yarn or bun chooses other packages than the one in its directory.
pub(super) fn chooses_packages(option: &str) -> bool {
    let name = option.split('=').next().unwrap_or_default();
    let short = ["-w", "-r", "-F"].iter().any(|short| name.starts_with(short));
    short || named("--workspace --workspaces --ws --recursive --workspace-root", name) || name.starts_with("--filter")
}

/// Tells whether a launcher is asked to take programs from another package: that its files did not change is not known.
pub(super) fn leaves_the_package(words: &[Word]) -> bool {
    let program = words.first().map(|word| base_name(&word.text)).unwrap_or_default();
    let names = |text: &str| {
        let name = text.split('=').next().unwrap_or_default();
        chooses_packages(text) || name.starts_with("-C") || named("--prefix --dir --cwd", name)
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

/// Tells whether a file is one of those that say what a launcher starts.
pub(super) fn says_programs(path: &RelPath) -> bool {
    names_programs(path, None).is_some()
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
        assert_eq!(
            asked(&["npx", "--no", "eslint", "src/a.js"], "a"),
            [
                "a/package.json",
                "a/node_modules/.bin/eslint",
                "a/node_modules/.bin",
                "package.json",
                "node_modules/.bin/eslint",
                "node_modules/.bin"
            ]
        );
        assert_eq!(asked(&["npm", "--silent", "exec", "eslint"], "").len(), 3);
        assert_eq!(asked(&["pnpm", "test"], ""), ["node_modules/.bin/test"]);
        assert!(asked(&["pnpm", "--dir=a", "eslint"], "").contains(&"a/node_modules/.bin/eslint".to_owned()));
        assert_eq!(asked(&["pdm", "run", "ruff"], "a").len(), 16);
        assert!(asked(&["pdm", "list"], "").contains(&".venv/bin/python".to_owned()));
        let fmt = ["pyproject.toml", "hatch.toml", ".venv/bin/python", "venv/bin/python"];
        assert_eq!(asked(&["hatch", "fmt", "--check"], ""), fmt);
        assert!(asked(&["yarn", "eslint", "."], "").contains(&"node_modules/.bin/eslint".to_owned()));
        assert!(asked(&["uv", "lock"], "").is_empty());
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
