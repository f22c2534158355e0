//! Tests ignore rules against git itself.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::pattern::{last_match, parse};
use super::*;
use crate::change::Entry;
use crate::path::RelPath;
use crate::workspace::Workspace;

fn matches(line: &str, path: &str) -> bool {
    last_match(&parse(line.as_bytes()), path.as_bytes(), Kind::File) == Some(true)
}

#[test]
fn globs_match_as_gits_do() {
    for (pattern, text, expected) in [
        ("/*.o", "a.o", true),
        ("/*.o", "a/b.o", false),
        ("a/**/b", "a/b", true),
        ("a/**/b", "a/x/y/b", true),
        ("a/**\\/b", "a/b", false),
        ("a/**\\/b", "a/x/y/b", true),
        ("a/**", "a/x/y", true),
        ("a/**", "a", false),
        ("**/a", "a", true),
        ("**/a", "x/y/a", true),
        ("**//", "a", false),
        ("/a**b", "axxb", true),
        ("/a**b", "a/b", false),
        ("/a**", "a/x/y", true),
        ("/a**/b", "ab", true),
        ("/a**/b", "ax/y/b", true),
        ("/a?**", "ax/y", false),
        ("a**", "ax/y", false),
        ("a?b/", "a/b", false),
        ("/[a-c]x", "bx", true),
        ("/[!a-c]x", "bx", false),
        ("/a[!b]c", "a/c", false),
        ("/a[+-9]c", "a/c", false),
        ("/[^a-c]x", "dx", true),
        ("[]]", "]", true),
        ("[]-]", "-", true),
        ("[a^]", "^", true),
        ("[!]", "!", false),
        ("[\\!]", "!", true),
        ("[c-a]", "c", true),
        ("[c-a]", "b", false),
        ("[[:digit:]]", "5", true),
        ("[[:digit:]-]", "-", true),
        ("[[:space:]]", "\u{b}", false),
        ("[a", "[a", false),
        ("{a,b}", "a", false),
        ("{a,b}", "{a,b}", true),
        ("\\*", "*", true),
        ("\\*", "a", false),
        ("a\\", "a", false),
        ("a\\\\/b", "a\\/b", true),
        ("a\t", "a\t", true),
        ("a\t", "a", false),
        ("a\u{a0}", "a\u{a0}", true),
        ("a?", "\u{e9}", false),
        ("?", "\u{e9}", false),
        ("??", "\u{e9}", true),
        ("[\u{e9}]*", "\u{e9}", true),
        ("[!\u{e9}]*", "\u{e9}", false),
        ("[a-\u{e9}]*", "\u{e8}", true),
    ] {
        assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
    }
}

#[test]
fn bytes_that_are_not_text_match_themselves() {
    let of = |line: &[u8], path: &[u8]| last_match(&parse(line), path, Kind::File);
    assert_eq!(of(b"caf\xe9", b"caf\xe9"), Some(true));
    assert_eq!(of(b"caf\xe9", b"cafe"), None);
    assert_eq!(of(b"*[\xe9]", b"caf\xe9"), Some(true));
    assert_eq!(of(b"*\n!caf\xe9", b"caf\xe9"), Some(false));
}

#[test]
fn a_hostile_pattern_ends() {
    assert!(!matches(&"*a".repeat(30), &"b".repeat(200)));
    assert!(!matches(&"*a".repeat(30), &format!("{}b", "a".repeat(500))));
}

#[test]
fn lines_are_read_as_git_reads_them() {
    let text = "\u{feff}# no\n\n/\n  \nkeep \\ \nlast  \r\n!/a/\n";
    for (path, expected) in [("# no", false), ("keep  ", true), ("keep", false), ("last", true), ("x/last", true)] {
        assert_eq!(matches(text, path), expected, "{path}");
    }
    assert_eq!(last_match(&parse(text.as_bytes()), b"a", Kind::Folder), Some(false));
    assert_eq!(last_match(&parse(text.as_bytes()), b"a", Kind::File), None);
}

fn git(folder: &Path, arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = Command::new("git")
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .env("PATH", env!("PATH"))
        .env("HOME", folder)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap().stdout
}

const FOLDERS: &[&str] = &["", "a", "a/b", "a/b/c", "b", "b a", "{a,b}", "a/é "];
const NAMES: &[&str] = &[
    "a", "b", "c.o", "d.txt", "[x]", "b a", "é", "è", ".h", "a\\b", "\\", "!a", "#a", "{a,b}", "a ", " ", "a\t",
    "a\u{a0}", "a-b", "^", "*", "a.", "c]", "a\u{b}",
];

fn paths() -> Vec<String> {
    let mut paths = Vec::new();
    for folder in FOLDERS {
        paths.extend(NAMES.iter().map(|name| format!("{folder}/{name}").trim_start_matches('/').to_owned()));
    }
    paths
}

/// Makes a repository with these ignore files; files whose path is a directory are left out.
fn repository(ignores: &[(usize, String)], exclude: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    git(folder.path(), &["init", "-q"], b"");
    for path in FOLDERS {
        std::fs::create_dir_all(folder.path().join(path)).unwrap();
    }
    for path in paths().iter().filter(|path| !FOLDERS.contains(&path.as_str())) {
        std::fs::write(folder.path().join(path), b"").unwrap();
    }
    for (at, text) in ignores {
        std::fs::write(folder.path().join(FOLDERS[*at]).join(".gitignore"), text).unwrap();
    }
    std::fs::create_dir_all(folder.path().join(".git/info")).unwrap();
    std::fs::write(folder.path().join(".git/info/exclude"), exclude).unwrap();
    folder
}

fn ours(root: &Path, below: &str) -> Vec<String> {
    let workspace = Workspace::open(&root.join(below)).unwrap();
    let rules = Rules::new(&workspace);
    let prefix = if below.is_empty() { String::new() } else { format!("{below}/") };
    paths()
        .into_iter()
        .filter(|path| path.starts_with(&prefix))
        .filter(|path| {
            let kind = if FOLDERS.contains(&path.as_str()) { Kind::Folder } else { Kind::File };
            rules.of(&RelPath::new(&path[prefix.len()..]).unwrap(), kind).git
        })
        .collect()
}

fn gits(root: &Path, below: &str) -> Vec<String> {
    let prefix = if below.is_empty() { String::new() } else { format!("{below}/") };
    let asked: Vec<String> = paths().into_iter().filter(|path| path.starts_with(&prefix)).collect();
    let answer = git(root, &["check-ignore", "-z", "--stdin"], asked.join("\0").as_bytes());
    answer
        .split(|byte| *byte == 0)
        .filter(|path| !path.is_empty())
        .map(|path| String::from_utf8(path.to_vec()).unwrap())
        .collect()
}

fn line() -> impl Strategy<Value = String> {
    let class = "\\[[!^]?\\]?([ab!^\\]é \\\\{,./\\[-]|[a#é!+]-[cèê\\]a9]|\\[:(alpha|punct|space|print|x):\\]){0,3}\\]";
    let glob = proptest::string::string_regex(&format!("!?/?({class}|[ab*?]|\\*\\*/|é){{1,4}}/?")).unwrap();
    prop_oneof![
        3 => glob,
        2 => "!?/?(\\*\\*/)?[abc](/|/\\*\\*|/[abc])?",
        2 => "!?/?[ab.*?\\[\\]c^!o\\\\/{},é# \t-]{1,6}/? {0,2}",
        1 => "!?/?(\\\\[ab!#/*?{\\[\\\\ ]|[a*]|\\*\\*|/){1,5}\r?",
        2 => proptest::sample::select(&[
            "*.o", "!*.o", "b a ", "\\[x\\]", "[[:alpha:]]", ".*", "*", "!*/", "# a", "{a,b}", "é", "a\\ ", "a \\ ", "[[:", "a/**",
            "**/b/**/a", "!a/b/", "\\!a", "\\#a", "a\u{a0}", "a\t",
        ][..]).prop_map(str::to_owned),
    ]
}

fn text() -> impl Strategy<Value = String> {
    proptest::collection::vec(line(), 0..4).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #![proptest_config(crate::properties::tried(60))]
    #[test]
    fn the_same_paths_are_ignored_as_by_git(
        ignores in proptest::collection::vec((0..FOLDERS.len(), text()), 0..4),
        exclude in text(),
    ) {
        let folder = repository(&ignores, &exclude);
        prop_assert_eq!(ours(folder.path(), ""), gits(folder.path(), ""));
        // The workspace may be a directory of the repository; if that is ignored as a whole, it was named all the same.
        if !git(folder.path(), &["check-ignore", "a/b"], b"").is_empty() {
            return Ok(());
        }
        prop_assert_eq!(ours(folder.path(), "a/b"), gits(folder.path(), "a/b"));
    }
}

#[test]
fn staged_ignore_files_hold_and_other_tools_files_do_not() {
    let folder = tempfile::tempdir().unwrap();
    for name in [".ignore", ".rgignore", ".gitignore"] {
        std::fs::write(folder.path().join(name), "a\n").unwrap();
    }
    let workspace = Workspace::open(folder.path()).unwrap();
    let of = |name: &str| Rules::new(&workspace).of(&RelPath::new(name).unwrap(), Kind::File);
    let stage = |name: &str, text: &str| {
        let grant = crate::policy::Grant::for_tests(&[], &[(name, name)], |_| true);
        workspace.write(&grant, Path::new(name), Entry::file(text)).unwrap();
    };
    assert!(of("a").git);
    stage(".gitignore", "b\n");
    assert!(!of("a").git);
    assert!(of("b").git);
    stage("d/.qwenignore", "c\n");
    assert_eq!(of("d/c"), Ignored { git: false, qwen: true });
}

#[test]
fn a_linked_work_tree_reads_the_exclude_file_of_its_repository() {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path);
    for path in ["main/.git/info", "main/.git/worktrees/w", "w"] {
        std::fs::create_dir_all(at(path)).unwrap();
    }
    std::fs::write(at("main/.git/info/exclude"), b"x\n").unwrap();
    std::fs::write(at("main/.git/worktrees/w/commondir"), b"../..\n").unwrap();
    std::fs::write(at("w/.git"), format!("gitdir: {}\n", at("main/.git/worktrees/w").display())).unwrap();
    let workspace = Workspace::open(&at("w")).unwrap();
    assert!(Rules::new(&workspace).of(&RelPath::new("x").unwrap(), Kind::File).git);
}

#[test]
fn a_workspace_inside_an_ignored_folder_is_not_empty() {
    let folder = repository(&[(0, "a/\n*.o\n".to_owned())], "");
    let workspace = Workspace::open(&folder.path().join("a/b")).unwrap();
    let of = |name: &str| Rules::new(&workspace).of(&RelPath::new(name).unwrap(), Kind::File).git;
    assert_eq!((of("d.txt"), of("c.o")), (false, true));
}

#[test]
fn rules_that_the_user_does_not_want_do_not_count() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(".gitignore"), "a\n").unwrap();
    std::fs::write(folder.path().join(".qwenignore"), "b\n").unwrap();
    let workspace = Workspace::open(folder.path()).unwrap();
    workspace.disregard(Ignored { git: true, qwen: false });
    let rules = Rules::new(&workspace);
    let of = |path: &str| rules.of(&RelPath::new(path).unwrap(), Kind::File);
    assert_eq!((of("a"), of("b")), (Ignored::default(), Ignored { git: false, qwen: true }));
}

#[test]
fn a_pattern_of_many_stars_has_its_answer_however_many_ways_there_are() {
    let text = [&[b'a'; 60][..], b"b"].concat();
    let pattern = [&b"*a".repeat(20)[..], b"b"].concat();
    assert!(wildmatch(&pattern, &text));
    assert!(!wildmatch(&pattern, &text[..60]));
    assert!(wildmatch(&[&b"**/a*/".repeat(20)[..], b"b"].concat(), &[&b"aa/".repeat(40)[..], b"b"].concat()));
}
