//! The floors of the house: an import may only point down (see the crate documentation).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Module → floor; the longest matching prefix counts.
const FLOORS: &[(&str, u32)] = &[
    ("main", 6),
    ("cli", 6),
    ("commands", 6),
    ("run", 6),
    ("agent", 4),
    ("verify", 4),
    ("deliver", 4),
    ("emit", 4),
    ("tools", 3),
    ("workspace", 2),
    ("git", 2),
    ("model", 2),
    ("sandbox", 2),
    ("forge", 2),
    ("settings::load", 2),
    ("recipe::load", 2),
    ("policy", 1),
    ("recipe", 1),
    ("change", 1),
    ("prompt", 1),
    ("settings", 1),
    ("bounded", 0),
    ("path", 0),
    ("event", 0),
    ("exit", 0),
    ("hidden", 0),
    ("secret", 0),
    ("threads", 0),
    ("tool_name", 0),
    ("yaml", 0),
];

/// Floors whose modules may know each other: the edges below tools share types.
const ONE_FLOOR: &[u32] = &[0, 1, 2, 6];

fn floor(module: &str) -> Option<(&'static str, u32)> {
    FLOORS
        .iter()
        .filter(|(prefix, _)| module == *prefix || module.starts_with(&format!("{prefix}::")))
        .max_by_key(|(prefix, _)| prefix.len())
        .copied()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the source folder is there").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Reads `use crate::a::b` and `crate::a::b` outside tests and comments.
fn imports(text: &str) -> Vec<String> {
    let code: Vec<&str> = text
        .split("#[cfg(test)]\nmod tests")
        .next()
        .unwrap_or_default()
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect();
    let code = code.join("\n");
    code.match_indices("crate::")
        .filter(|(at, _)| !code[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':' || c == '$'))
        .map(|(at, name)| {
            let rest = &code[at + name.len()..];
            let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(rest.len());
            rest[..end].trim_end_matches(':').to_owned()
        })
        .collect()
}

/// Tells whether a file's parent declares it under `#[cfg(test)]`.
fn is_for_tests(file: &Path) -> bool {
    if std::fs::read_to_string(file).unwrap_or_default().contains("#![cfg(test)]") {
        return true;
    }
    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let parent = file.parent().expect("a source file lies in a folder");
    let beside = parent.with_extension("rs");
    [parent.join("mod.rs"), parent.join("lib.rs"), beside].iter().any(|parent| {
        let text = std::fs::read_to_string(parent).unwrap_or_default();
        [format!("#[cfg(test)]\nmod {name};"), format!("#[cfg(test)]\npub(crate) mod {name};")]
            .iter()
            .any(|line| text.contains(line))
    })
}

#[test]
fn an_import_points_down() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut wrong: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files {
        let relative = file.strip_prefix(&root).unwrap().with_extension("");
        let module = relative.to_string_lossy().replace('/', "::");
        let module = module.trim_end_matches("::mod");
        if module == "lib" || is_for_tests(&file) {
            continue;
        }
        let (home, from) = floor(module).unwrap_or_else(|| panic!("{module} has no floor: add it to FLOORS"));
        for import in imports(&std::fs::read_to_string(&file).unwrap()) {
            let Some((target, to)) = floor(&import) else { continue };
            let same_wing = target.split("::").next() == home.split("::").next();
            if !same_wing && (to > from || (to == from && !ONE_FLOOR.contains(&from))) {
                wrong.entry(module.to_owned()).or_default().push(import);
            }
        }
    }
    assert!(wrong.is_empty(), "imports that point up or sideways: {wrong:#?}");
}

/// Files that read for themselves, and why they may.
const READERS: &[(&str, &str)] = &[
    ("bounded", "it is the reader"),
    ("change/binary", "inflates at most as much as the patch says"),
    ("deliver/journal", "opens a directory, to bring it to the disk"),
    ("model/errors_tests", "a test"),
    ("git/trusted", "hashes a regular file piece by piece"),
    ("sandbox/descendants", "/proc"),
    ("sandbox/own_command", "keeps the beginning of a program's output"),
    ("sandbox/remembered", "/proc and /sys"),
    ("tools/common/pdf", "what is in memory already"),
    ("tools/search_file_content", "searches piece by piece what the walk found to be a regular file"),
    ("workspace/folder", "as much as the descriptor says, of a regular file"),
    ("workspace/kept", "copies piece by piece what it kept itself"),
    ("workspace/session_file", "a locked file of its own, of a size that was looked at"),
];

#[test]
fn a_file_is_read_whole_by_the_reader_with_a_bound_alone() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let reads = [
        "fs::read(",
        "fs::read_to_string(",
        ".read_to_end(",
        ".read_to_string(",
        " File::open(",
        "(File::open(",
        "&File::open(",
        "fs::File::open(",
        "io::read_to_string(",
    ];
    let mut wrong = Vec::new();
    for file in files {
        let module = file.strip_prefix(&root).unwrap().with_extension("").to_string_lossy().into_owned();
        if is_for_tests(&file) || READERS.iter().any(|(known, _)| module.starts_with(known)) {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        let found = code.lines().filter(|line| reads.iter().any(|read| line.contains(read)));
        wrong.extend(found.map(|line| format!("{module}: {}", line.trim())));
    }
    assert!(wrong.is_empty(), "use crate::bounded, or add a reason to READERS: {wrong:#?}");
}
