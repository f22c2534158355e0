//! Tests ignore rules against git itself.

use super::*;
use proptest::prelude::*;
use std::io::Write;
use std::process::{Command, Stdio};

#[test]
fn globs_match_as_gits_do() {
    for (pattern, text, expected) in [
        ("*.o", "a.o", true),
        ("*.o", "a/b.o", false),
        ("a/**/b", "a/b", true),
        ("a/**/b", "a/x/y/b", true),
        ("a/**", "a/x/y", true),
        ("a/**", "a", false),
        ("**/a", "a", true),
        ("**/a", "x/y/a", true),
        ("a**b", "axxb", true),
        ("a**b", "a/b", false),
        ("?", "/", false),
        ("[a-c]x", "bx", true),
        ("[!a-c]x", "bx", false),
        ("[^a-c]x", "dx", true),
        ("[]]", "]", true),
        ("[[:digit:]]", "5", true),
        ("[[:digit:]-]", "-", true),
        ("[a", "[a", false),
        ("{a,b}", "a", false),
        ("{a,b}", "{a,b}", true),
        (r"\*", "*", true),
        (r"\*", "a", false),
        ("a\\", "a", false),
    ] {
        assert_eq!(wildmatch(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
    }
}

#[test]
fn a_hostile_pattern_ends() {
    assert!(!wildmatch(
        "*a".repeat(30).as_bytes(),
        "a".repeat(200).as_bytes().strip_suffix(b"a").map(|_| "b".repeat(200)).unwrap().as_bytes()
    ));
    let _ = wildmatch(&b"*a".repeat(30), &[&b"a".repeat(500)[..], b"b"].concat());
}

#[test]
fn lines_are_read_as_git_reads_them() {
    let patterns = parse(b"\xef\xbb\xbf# no\n\n/\n  \nkeep \\ \nlast  \r\n!/a/\n");
    let shapes: Vec<(bool, bool, bool, &Shape)> =
        patterns.iter().map(|p| (p.negated, p.folders_only, p.anchored, &p.shape)).collect();
    assert_eq!(
        shapes,
        [
            (false, false, false, &Shape::Glob(b"keep \\ ".to_vec())),
            (false, false, false, &Shape::Literal(b"last".to_vec())),
            (true, true, true, &Shape::Literal(b"a".to_vec())),
        ]
    );
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

const FOLDERS: &[&str] = &["", "a", "a/b", "a/b/c", "b", "b a"];
const NAMES: &[&str] = &["a", "b", "c.o", "d.txt", "[x]", "b a", "é", ".h"];

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
    prop_oneof![
        "!?/?(\\*\\*/)?[abc](/|/\\*\\*|/[abc])?",
        "!?/?[ab.*?\\[\\]c^!o-]{1,5}/?",
        Just("*.o".to_owned()),
        Just("!*.o".to_owned()),
        Just("b a ".to_owned()),
        Just("\\[x\\]".to_owned()),
        Just("[[:alpha:]]".to_owned()),
        Just(".*".to_owned()),
        Just("*".to_owned()),
        Just("!*/".to_owned()),
        Just("# a".to_owned()),
        Just("{a,b}".to_owned()),
        Just("é".to_owned()),
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
