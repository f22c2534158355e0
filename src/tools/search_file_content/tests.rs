//! Tests of the search.

use super::*;
use crate::tools::Assignment;
use crate::tools::tests::Project;
use proptest::prelude::*;

fn search(project: &Project, arguments: Value) -> String {
    project.says("search_file_content", arguments)
}

#[test]
fn matches_are_grouped_by_file() {
    let project = Project::new(&[
        ("src/utils.ts", b"one\n  function f() {}\r\nF\n"),
        ("src/a\nb.ts", b"fx\n"),
        ("src/x.rs", b"f\n"),
    ]);
    insta::assert_snapshot!(search(&project, json!({"pattern": "f", "include": "*.ts"})), @r#"
    Found 3 matches for pattern "f" in path "." (filter: "*.ts"):
    ---
    File: src/a\nb.ts
    L1: fx
    ---
    File: src/utils.ts
    L2:   function f() {}
    L3: F
    ---
    "#);
    insta::assert_snapshot!(search(&project, json!({"pattern": "^f$", "path": "src/utils.ts"})), @r#"
    Found 1 match for pattern "^f$" in path "src/utils.ts":
    ---
    File: src/utils.ts
    L3: F
    ---
    "#);
    assert_eq!(
        search(&project, json!({"pattern": "f", "path": "src", "include": "*.md"})),
        "No matches found for pattern \"f\" in path \"src\" (filter: \"*.md\")."
    );
    assert_eq!(
        search(&project, json!({"pattern": "F()", "case_sensitive": true, "dir_path": "src"})).lines().next(),
        Some("Found 1 match for pattern \"F()\" in path \"src\":")
    );
    assert_eq!(search(&project, json!({"pattern": "f", "path": "none"})), "Path does not exist: /p/none");
}

#[test]
fn a_cut_answer_says_how_to_see_more_and_is_always_the_same() {
    let files: Vec<(String, Vec<u8>)> =
        (0..200).map(|n| (format!("d{}/f{n:03}", n % 7), format!("hit {n}\n").repeat(n % 4).into_bytes())).collect();
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, content)| (name.as_str(), content.as_slice())).collect();
    let project = Project::new(&files);
    let said = search(&project, json!({"pattern": "hit", "maxResults": 2}));
    insta::assert_snapshot!(said, @r#"
    Found 2 matches for pattern "hit" in path ".":
    ---
    File: d0/f007
    L1: hit 7
    L2: hit 7
    ---
    WARNING: Results truncated to prevent context overflow. To see more results:
    - Use a more specific pattern to reduce matches
    - Add file filters with the 'include' parameter (e.g., "*.js", "src/**")
    - Specify a narrower 'path' to search in a subdirectory
    - Increase 'maxResults' parameter if you need more matches (current: 2)
    "#);
    let first = search(&project, json!({"pattern": "hit"}));
    for _ in 0..20 {
        assert_eq!(search(&project, json!({"pattern": "hit"})), first);
    }
    let most = search(&project, json!({"pattern": "hit", "limit": 5000}));
    assert!(most.starts_with("Found 100 matches"), "{most}");
}

#[test]
fn a_pattern_that_finds_nothing_is_searched_as_text_and_capitals_are_counted() {
    let mut project =
        Project::new(&[("a.rs", b"#[test]\nfn a() {}\n#[test]\nfn b(x: [u8; 2]) { x[0] }\n// Test test\n")]);
    let head = |pattern: &str| search(&project, json!({"pattern": pattern})).lines().next().unwrap().to_owned();
    assert_eq!(head("#[test]"), "Found 2 matches for plain text \"#[test]\" in path \".\":");
    assert_eq!(head("x[0]"), "Found 1 match for plain text \"x[0]\" in path \".\":");
    let said = search(&project, json!({"pattern": "a.rs", "path": "fn a"}));
    assert!(said.ends_with("To search for \"fn a\" in a.rs, give a.rs as path and fn a as pattern."), "{said}");
    assert_eq!(head("x[7]"), "No matches found for pattern \"x[7]\" in path \".\".");
    assert_eq!(head("Test"), "Found 3 matches for pattern \"Test\" in path \".\":");
    project.text_tools = true;
    let head = |pattern: &str| search(&project, json!({"pattern": pattern})).lines().next().unwrap().to_owned();
    assert_eq!(head("Test"), "Found 3 matches for pattern \"Test\" in path \".\"; 1 of them in exactly these letters:");
    let cut = search(&project, json!({"pattern": "test", "maxResults": 1}));
    assert!(cut.starts_with("Found 1 match for pattern \"test\" in path \".\"; there are 3 in all:\n"), "{cut}");
    assert_eq!(head(r"\S+test"), r#"Found 2 matches for pattern "\S+test" in path ".":"#);
}

#[test]
fn matches_are_counted_by_folder_for_models_that_write_calls_as_text() {
    let mut project = Project::new(&[("a", b"x\n"), ("src/a", b"x\nx\n"), ("src/b/c", b"x\n")]);
    let head = |project: &Project| search(project, json!({"pattern": "x"})).lines().next().unwrap().to_owned();
    assert_eq!(head(&project), "Found 4 matches for pattern \"x\" in path \".\":");
    project.text_tools = true;
    // A task that names no folder gets no other number that could be taken for the answer.
    assert_eq!(head(&project), "Found 4 matches for pattern \"x\" in path \".\":");
    let text = "How many lines in src have x?".to_owned();
    project.memory.task.set(Assignment { text, path: None }).unwrap();
    assert_eq!(head(&project), "Found 4 matches in all, 3 in src, 1 in the root for pattern \"x\" in path \".\":");
}

#[test]
fn look_around_works_and_a_wrong_pattern_is_named() {
    let project = Project::new(&[("a", b"foo bar\nfoo baz\nabab\n")]);
    let lines = |pattern: &str| search(&project, json!({"pattern": pattern})).matches("\nL").count();
    assert_eq!(lines("foo (?!bar)"), 1);
    assert_eq!(lines(r"(ab)\1"), 1);
    let said = search(&project, json!({"pattern": "a("}));
    assert!(said.starts_with("Invalid regular expression pattern: a(. "), "{said}");
    for (pattern, count) in [(r"foo ba.\n", 2), ("bar\n", 1), (r"\nfoo", 2), (r"a\\n", 0), (r"\n", 0)] {
        assert_eq!(lines(pattern), count, "{pattern}");
    }
    assert!(search(&project, json!({"pattern": "a\nb"})).starts_with("Invalid regular expression pattern: "));
    let costly = Project::new(&[("a", format!("{}!", "a".repeat(60)).as_bytes())]);
    assert!(search(&costly, json!({"pattern": "^(?:a|a(?=.))+b"})).contains("too costly for a line 1"));
}

#[test]
fn a_file_that_may_not_be_read_neither_shows_a_line_nor_counts_nor_fails() {
    let project = Project::new(&[(".env", b"KEY=abc\nKEY=def\n"), ("z.txt", b"KEY\n")]);
    let answer = search(&project, json!({"pattern": "KEY", "maxResults": 1}));
    assert!(answer.starts_with("Found 1 match ") && answer.contains("File: z.txt"), "{answer}");
    assert!(!answer.contains("truncated") && !answer.contains(".env"), "{answer}");
    let answer = search(&project, json!({"pattern": "KEY(?==)"}));
    assert!(answer.starts_with("No matches found"), "{answer}");
}

#[test]
fn the_staged_view_is_searched() {
    let project =
        Project::new(&[("gone", b"hit\n"), ("changed", b"hit\n"), ("kept", b"hit\n"), (".gitignore", b"ig\n")]);
    let stage = |path: &str, after: crate::change::Entry| {
        let grant = Grant::for_tests(&[], &[(path, path)], |_| true);
        project.workspace.write(&grant, Path::new(path), after).unwrap();
    };
    stage("gone", crate::change::Entry::Absent);
    stage("changed", crate::change::Entry::file("no\nhit 2\n"));
    stage("new/file", crate::change::Entry::file("hit 3\n"));
    stage("ig/file", crate::change::Entry::file("hit 4\n"));
    insta::assert_snapshot!(search(&project, json!({"pattern": "hit"})), @r#"
    Found 3 matches for pattern "hit" in path ".":
    ---
    File: changed
    L2: hit 2
    ---
    File: kept
    L1: hit
    ---
    File: new/file
    L1: hit 3
    ---
    "#);
}

#[test]
fn odd_files_neither_hang_nor_show() {
    let project = Project::new(&[
        ("bin", b"\0hit\n"),
        (".git/config", b"hit\n"),
        (".env", b"hit\n"),
        (".hidden", b"hit\n"),
        ("q", b"hit\n"),
        (".qwenignore", b"q\n"),
        ("latin", b"hit gr\xfcn\n"),
        ("utf16", b"\xff\xfeh\0i\0t\0\n\0"),
        ("d/", b""),
    ]);
    let at = |name: &str| project.folder.path().join(name);
    std::fs::write(at("long"), [b"x".repeat(3_000_000), b" hit".to_vec()].concat()).unwrap();
    std::os::unix::fs::symlink("..", at("d/loop")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", at("link")).unwrap();
    nix::unistd::mkfifo(&at("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let said = search(&project, json!({"pattern": "hit|root"}));
    let files: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("File: ")).collect();
    assert_eq!(files, [".hidden", "latin", "long", "utf16"]);
    assert!(said.contains("L1: hit grün\n") && said.contains("x... [truncated]\n"), "line ends and lengths");
    assert!(said.len() < 4_000);
}

/// Runs ripgrep over a tree with the same rules, and returns what it prints.
fn ripgrep(tree: &Path, arguments: &[&str]) -> Vec<u8> {
    let rules = ["--hidden", "--no-config", "--no-ignore-dot", "--no-ignore-global", "--no-require-git", "--null"];
    let mut command = std::process::Command::new("rg");
    command.args(rules).args(["--glob", "!.git"]).args(arguments).current_dir(tree);
    command.stdin(std::process::Stdio::null()).output().expect("rg is installed").stdout
}

/// The whole of a large tree, file by file and line by line:
/// `QWEN_TREE=/usr/src/linux cargo test --lib -- --ignored as_ripgrep`.
#[test]
#[ignore = "needs rg and a large tree in QWEN_TREE"]
fn a_large_tree_has_the_files_and_lines_as_ripgrep_finds_them() {
    let tree = PathBuf::from(std::env::var("QWEN_TREE").expect("QWEN_TREE names a tree")).canonicalize().unwrap();
    let workspace = crate::workspace::Workspace::open(&tree).unwrap();
    let source = crate::workspace::ignore::Source::new(&workspace);
    let cancelled = AtomicBool::new(false);
    let filter = Filter { git: true, enter: &|_| true, want: &|_| true };
    let walk = crate::workspace::walk::walk(&source, &RelPath::root(), &filter, &cancelled);
    let ours: Vec<&[u8]> = walk.files.iter().map(|found| found.path.as_bytes()).collect();
    let listed = ripgrep(&tree, &["--files"]);
    let mut theirs: Vec<&[u8]> = listed.split(|byte| *byte == 0).filter(|path| !path.is_empty()).collect();
    theirs.sort_unstable();
    assert_eq!(ours.len(), theirs.len());
    assert_eq!(ours, theirs);
    for (pattern, case_sensitive) in [
        ("EXPORT_SYMBOL_GPL", true),
        ("export_symbol_gpl", false),
        ("[[:upper:]]{12,}_[0-9]+\\b", true),
        ("^#define\\s+PCI_", true),
        ("return -E(NOMEM|INVAL);$", true),
        ("größe|naïve|Müller", false),
        ("\\p{Greek}", true),
        ("schedule_timeout_uninterruptible", true),
        ("no_such_word_anywhere_at_all", false),
        ("^$", true),
    ] {
        let regex = Regex::new(pattern, case_sensitive).unwrap();
        let found = search_all((&tree, &|_| true), &walk.files, &regex, usize::MAX, &cancelled).unwrap();
        let again = search_all((&tree, &|_| true), &walk.files, &regex, usize::MAX, &cancelled).unwrap();
        assert!(found == again, "{pattern} differs from one run to the next");
        let ours: Vec<(Vec<u8>, u64)> = found
            .iter()
            .flat_map(|(path, lines)| lines.iter().map(|line| (path.as_bytes().to_vec(), line.number)))
            .collect();
        let case = if case_sensitive { "--case-sensitive" } else { "--ignore-case" };
        let printed = ripgrep(&tree, &["--crlf", "--line-number", "--no-heading", case, "--regexp", pattern]);
        let mut theirs: Vec<(Vec<u8>, u64)> = printed
            .split(|byte| *byte == b'\n')
            .filter_map(|line| {
                let at = line.iter().position(|byte| *byte == 0)?;
                let number = line[at + 1..].split(|byte| *byte == b':').next()?;
                Some((line[..at].to_vec(), std::str::from_utf8(number).ok()?.parse().ok()?))
            })
            .collect();
        theirs.sort_unstable();
        let differs = ours.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs);
        assert!(differs.is_none(), "{pattern}: {differs:?}");
        assert_eq!(ours.len(), theirs.len(), "{pattern}");
    }
}

fn name() -> impl Strategy<Value = String> {
    "[abc]{1,2}(\\.o)?"
}

proptest! {
    #![proptest_config(crate::properties::tried(40))]
    #[test]
    fn the_answer_is_that_of_a_naive_search(
        files in proptest::collection::btree_map((name(), name()), "[xy\\n]{0,6}", 0..12),
        staged in proptest::collection::btree_map((name(), name()), proptest::option::of("[xy\\n]{0,6}"), 0..4),
        ignores in proptest::collection::vec("!?/?[abc*]{1,2}(\\.o)?/?", 0..3),
    ) {
        let folder_of = |(folder, file): &(String, String)| format!("{folder}_d/{file}");
        let project = Project::new(&[(".gitignore", ignores.join("\n").as_bytes())]);
        let mut view: BTreeMap<String, String> = BTreeMap::new();
        for (path, text) in &files {
            let path = folder_of(path);
            std::fs::create_dir_all(project.folder.path().join(&path).parent().unwrap()).unwrap();
            project.on_disk(&path, text.as_bytes());
            view.insert(path, text.clone());
        }
        for (path, text) in &staged {
            let path = folder_of(path);
            let after = match text {
                Some(text) => crate::change::Entry::file(text.as_bytes()),
                None => crate::change::Entry::Absent,
            };
            let grant = Grant::for_tests(&[], &[(&path, &path)], |_| true);
            project.workspace.write(&grant, Path::new(&path), after).unwrap();
            match text {
                Some(text) => view.insert(path, text.clone()),
                None => view.remove(&path),
            };
        }
        let rules = crate::workspace::ignore::Rules::new(&project.workspace);
        let mut expected = Vec::new();
        for (path, text) in &view {
            if rules.of(&RelPath::new(path).unwrap(), crate::workspace::ignore::Kind::File).git {
                continue;
            }
            for (number, line) in (1..).zip(text.lines()) {
                if line.contains('x') {
                    expected.push(format!("{path} L{number}: {line}"));
                }
            }
        }
        let said = search(&project, json!({"pattern": "x", "maxResults": 100}));
        let mut file = "";
        let mut found = Vec::new();
        for line in said.lines() {
            match line.strip_prefix("File: ") {
                Some(name) => file = name,
                None if line.starts_with('L') => found.push(format!("{file} {line}")),
                None => {}
            }
        }
        prop_assert_eq!(found, expected);
    }
}
