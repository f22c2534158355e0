use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;

fn told(name: &str, before: &str, after: &str) -> String {
    broken(name, Some(before), after).map_or_else(|| "nothing".to_owned(), |fault| fault.to_string())
}

#[test]
fn a_change_that_broke_a_file_names_the_place() {
    let cases = [
        told("a.json", "{\"a\": 1}", "{\n\"a\": 1,\n}"),
        told("a.jsonc", "{} // c", "{\n\"a\" 1} // c"),
        told("a.toml", "a = 1\n", "a = 1\nb = \n"),
        told("a.yaml", "a: 1\n", "a: 1\n  b: [\n"),
        told("a.md", "# a\n", "# a\n\n```sh\nls\n"),
        told("a.rs", "fn a() {}\n", "fn a() {\n    b(\"a\");\n"),
        told("a.py", "print('a')\n", "print('a')\nprint('b\n"),
        told("a.py", "print(1)\n", "print((1)\n"),
        told("a.js", "f(`a${b}`)\n", "f(`a${b}`))\n"),
        told("a.go", "func a() { b[0] }\n", "func a() { b[0 }\n"),
        told("a.css", "a { b: c }\n", "a { b: c }\n/* d\n"),
    ];
    insta::assert_snapshot!(cases.join("\n"));
}

#[test]
fn nothing_is_said_of_what_could_not_be_read_before_nor_of_what_is_no_such_file() {
    let cases = [
        ("a.json", "{\"a\": }", "{\"a\": ,}"),
        ("a.json", "{} // c", "{\"a\": 1,} // c"),
        ("tsconfig.json", "{}", "{} // c"),
        ("a.toml", "a =", "a = ["),
        ("a.yaml", "a: [", "b: ["),
        ("chart/a.yaml", "a: 1\n", "a: {{ .Values.a }}\n{{- if b }}\n"),
        ("a.md", "```\nx", "```\ny"),
        ("a.rs", "fn a() {", "fn b() {{"),
        ("a.rs", "fn a() {}", ""),
        ("a.txt", "()", "(("),
        ("README", "()", "(("),
        ("a.c", "int a;\n", "#if A\nint a() {\n#else\nint b() {\n#endif\n}\n"),
    ];
    for (name, before, after) in cases {
        assert_eq!(told(name, before, after), "nothing", "{name}: {after}");
    }
}

#[test]
fn code_that_looks_odd_is_read_as_it_is_meant() {
    let cases = [
        (
            "a.rs",
            "fn a<'a>(x: &'a str) -> char { '{' }\nconst B: &str = r#\"\"{\"#; /* { /* ( */ */\nlet c = b'\\''; '\u{e4}'",
        ),
        ("a.py", "a = '''it's {'''\nb = \"\\\"(\" # it's (\nc = 'a\\\n('\n"),
        ("a.js", "a.replace(/[(/]\\{/g, `(${b({c: `}`})}`); // (\nconst d = e / f; return /\\(/.test(g)"),
        ("a.jsx", "return <p>Don't (really)</p>;\n"),
        ("a.go", "a := '{'; b := `\\`; c := \"(\"\n"),
        ("a.java", "String a = \"\"\"\n it's {\n\"\"\"; char b = '\\'';\n"),
        ("a.cpp", "int a = 1'000'000; char b = '(';\n"),
        ("a.css", "a::after { content: \"}\" } /* { */\n"),
        ("a.md", "> ```\n> a\n> ```\n\n- ```\n  b\n  ```\n"),
        ("a.yaml", "a: &b 1\nc: *b\n---\nd: !e f\n"),
    ];
    for (name, text) in cases {
        assert_eq!(broken(name, None, text), None, "{name}: {text}");
    }
}

/// Files of this repository that a reader here reads.
fn corpus() -> Vec<(String, String)> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        let mut entries: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        for path in entries {
            match path.is_dir() {
                true => walk(&path, found),
                false => found.push(path),
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = vec![root.join("README.md"), root.join("Cargo.toml")];
    for folder in ["src", "tests", "docs", "benches", "recipes", "fixtures/projects", "fixtures/recipes"] {
        walk(&root.join(folder), &mut found);
    }
    let name = |path: &Path| path.strip_prefix(root).unwrap().display().to_string();
    found.into_iter().filter_map(|path| Some((name(&path), std::fs::read_to_string(&path).ok()?))).collect()
}

#[test]
fn no_file_of_this_repository_is_called_broken() {
    let wrong: Vec<String> = corpus()
        .iter()
        .filter_map(|(name, text)| broken(name, None, text).map(|fault| format!("{name}: {fault}")))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

proptest! {
    #[test]
    fn nothing_panics(text in "[a'\"`/*\\\\(){}\\[\\]$#r\n\u{e4}<!-]{0,60}", before in "[a(){}'\"\n]{0,10}") {
        for name in ["a.rs", "a.py", "a.js", "a.go", "a.java", "a.c", "a.css", "a.md", "a.json", "a.toml", "a.yaml"] {
            let _either = broken(name, Some(&before), &text);
        }
    }

    #[test]
    fn a_comment_with_an_apostrophe_anywhere_between_two_lines_of_code_is_never_called_broken(word in "[a-z]{1,8}", file in 0..400usize, line in 0..400usize) {
        use std::sync::LazyLock;
        static FILES: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
            let mut files = corpus();
            files.retain(|(name, text)| name.ends_with(".rs") && text.len() < 20_000);
            files
        });
        let (name, before) = &FILES[file % FILES.len()];
        let mut lines: Vec<String> = before.lines().map(str::to_owned).collect();
        let at = line % lines.len();
        lines.insert(at, format!("// {word} it's"));
        let after = lines.join("\n");
        prop_assert_eq!(broken(name, Some(before), &after), None);
    }
}
