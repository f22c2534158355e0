//! Lists the files of a project that say what a launcher starts: by `bin` or `scripts` an installed program's name can be
//! another program's.

use serde_json::Value;

use super::names::{base_name, named};
use super::programs::Word;
use crate::path::RelPath;

/// Launchers, the subcommands that start a program by its name, and the files that they ask first.
const LAUNCHERS: [(&str, &str, &str); 4] = [
    ("npx", "", "package.json"),
    ("npm", "exec x", "package.json"),
    ("uv pdm pipenv poetry rye hatch", "run", "pyproject.toml Pipfile"),
    ("composer", "exec", "composer.json"),
];

/// Where such a file names programs.
const NAMES: [(&str, &[&str]); 4] = [
    ("package.json", &["/bin", "/name", "/workspaces"]),
    (
        "pyproject.toml",
        &["/project/scripts", "/project/gui-scripts", "/tool/pdm/scripts", "/tool/rye/scripts", "/tool/poetry/scripts"],
    ),
    ("Pipfile", &["/scripts"]),
    ("composer.json", &["/bin", "/scripts"]),
];

/// Returns the files that say what a command starts, in its directories and those above; not all of them need be there.
pub(super) fn asked_first(words: &[Word], folders: &[RelPath]) -> Vec<RelPath> {
    let program = words.first().map(|word| base_name(&word.text)).unwrap_or_default();
    let known = LAUNCHERS.iter().find(|(launchers, _, _)| named(launchers, program));
    let Some((_, subcommands, files)) = known else { return Vec::new() };
    if !subcommands.is_empty() && !words[1..].iter().any(|word| named(subcommands, &word.text)) {
        return Vec::new();
    }
    let above = |folder: &RelPath| std::iter::successors(Some(folder.clone()), RelPath::parent).collect::<Vec<_>>();
    let all = folders.iter().flat_map(above);
    all.flat_map(|folder| files.split_whitespace().filter_map(move |file| folder.join(file))).collect()
}

/// Returns what such a file says about programs: `None` if it is no such file. One that cannot be read says itself.
pub(crate) fn names_programs(path: &RelPath, content: Option<&[u8]>) -> Option<Value> {
    let name = path.file_name()?.to_str()?;
    let (_, places) = NAMES.iter().find(|(file, _)| *file == name)?;
    let Some(content) = content else { return Some(Value::Array(vec![Value::Null; places.len()])) };
    let text = String::from_utf8_lossy(content);
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
        assert_eq!(asked(&["pdm", "run", "ruff"], "a").len(), 4);
        assert!(asked(&["npm", "test"], "a").is_empty());
        assert!(asked(&["eslint"], "a").is_empty());
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
        assert_eq!(said("x.json", None), None);
    }
}
