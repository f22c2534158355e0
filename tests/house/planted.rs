//! Tests that a planted breach of each rule is found, and that what only looks like one is not.

use super::rules::{Breaches, check};
use super::source::Texts;
use super::{compare, table};

/// Returns what breaks a rule in a crate of these files; the root and the parents are made.
fn breaches(files: &[(&str, &str)]) -> Breaches {
    let mut texts: Texts = files.iter().map(|(file, text)| (format!("src/{file}"), (*text).to_owned())).collect();
    for (file, _) in files.iter().filter(|(file, _)| file.contains('/')) {
        let (module, name) = file.trim_end_matches(".rs").split_once('/').unwrap();
        let parent = texts.entry(format!("src/{module}/mod.rs")).or_default();
        if name != "mod" && !parent.contains(&format!("mod {name};")) {
            parent.push_str(&format!("\npub mod {name};"));
        }
    }
    let modules = texts.keys().filter_map(|file| {
        let file = file.strip_prefix("src/")?;
        file.strip_suffix("/mod.rs").or_else(|| file.strip_suffix(".rs").filter(|name| !name.contains('/')))
    });
    let root: String = modules.map(|module| format!("pub mod {module};\n")).collect();
    texts.entry("src/lib.rs".to_owned()).or_insert(root);
    check(&texts).0
}

fn found(files: &[(&str, &str)], rule: &str) -> Vec<(String, u32)> {
    breaches(files).remove(rule).unwrap_or_default().into_iter().collect()
}

#[test]
fn an_import_against_the_direction_is_found_in_every_spelling() {
    let target = ("tools/edit.rs", "pub struct Edit; pub fn run() {}");
    for text in [
        "use crate::tools::edit::Edit;",
        "use crate::{change, tools::{edit::{self as ours}}};",
        "use crate::tools::edit::*;",
        "use crate as all; pub fn f() { all::tools::edit::run() }",
        "pub fn f() { crate::tools::edit::run() }",
        "pub fn f(_: super::super::tools::edit::Edit) {}",
        "use super::super::tools; pub fn f() { tools::edit::run() }",
        "pub fn f(x: u8) { match x { _ => vec![crate::tools::edit::run()], }; }",
        "macro_rules! m { () => { $crate::tools::edit::run() } }",
        "mod inner { use super::super::super::tools::edit::Edit; }",
        "impl From<crate::tools::edit::Edit> for u8 { fn from(_: crate::tools::edit::Edit) -> u8 { 0 } }",
    ] {
        let files = [target, ("change/a.rs", text)];
        assert!(!found(&files, "direction").is_empty(), "{text}");
    }
    for text in [
        "use crate::path::Path;",
        "// use crate::tools::edit::Edit;\n/// [`crate::tools::edit::Edit`]\nconst A: &str = \"crate::tools::edit\";",
        "#[cfg(test)] mod tests { use crate::tools::edit::Edit; }",
        "pub mod tools { pub fn edit() {} } pub fn f() { tools::edit() }",
        "pub(crate) fn f() {} pub(in crate::change) fn g() {}",
    ] {
        let files = [target, ("change/a.rs", text), ("path.rs", "pub struct Path;")];
        assert_eq!(found(&files, "direction"), [], "{text}");
    }
}

#[test]
fn an_import_through_another_module_leads_to_where_the_thing_is() {
    let files = [
        ("tools/mod.rs", "pub mod edit; pub use edit::Edit;"),
        ("tools/edit.rs", "pub struct Edit;"),
        ("run/mod.rs", "pub use crate::tools::Edit as Change; pub use crate::tools::edit::*;"),
        ("change/a.rs", "use crate::run::Change;"),
        ("change/b.rs", "use crate::run::Edit;"),
    ];
    let direction = found(&files, "direction");
    assert_eq!(direction, ["a", "b"].map(|file| (format!("change/{file}.rs uses tools::edit"), 1)));
}

#[test]
fn a_circle_of_files_or_modules_is_found_and_passing_a_name_on_is_none() {
    let two = [("model/a.rs", "use super::b::B; pub struct A;"), ("model/b.rs", "pub struct B(super::a::A);")];
    assert_eq!(found(&two, "circle of files").len(), 2);
    let parent =
        [("model/mod.rs", "mod a; pub struct M; fn f() { a::g() }"), ("model/a.rs", "use super::M; pub fn g() {}")];
    assert_eq!(found(&parent, "circle of files").len(), 2);
    let passed_on = [
        ("model/mod.rs", "mod a; mod b; pub use a::A;"),
        ("model/a.rs", "pub struct A;"),
        ("model/b.rs", "use super::A;"),
    ];
    assert_eq!(found(&passed_on, "circle of files"), []);
    let modules =
        [("run/a.rs", "use crate::cli::b::B; pub struct A;"), ("cli/b.rs", "pub struct B(crate::run::a::A);")];
    assert_eq!(found(&modules, "circle of modules").len(), 2);
    assert_eq!(found(&modules, "circle of files"), []);
}

#[test]
fn what_is_too_long_is_found_and_comments_blanks_and_tests_do_not_count() {
    let lines = |line: &str, times: usize| format!("{line}\n").repeat(times);
    let long = format!("struct S;\nimpl S {{\nfn f() {{\n{}}}\n}}\n", lines("g();", 59));
    assert_eq!(found(&[("path.rs", &long)], "lines of a function"), [("path.rs S::f".to_owned(), 61)]);
    for text in [
        format!("fn f() {{\n{}}}\n", lines("g();", 58)),
        format!("/// Says.\n{}fn f() {{\n{}{}}}\n", lines("#[x]", 9), lines("g();", 58), lines("\n// why", 30)),
        format!("#[test]\nfn f() {{\n{}}}\n", lines("g();", 90)),
    ] {
        assert_eq!(found(&[("path.rs", &text)], "lines of a function"), [], "{text}");
    }
    assert_eq!(found(&[("path.rs", &lines("//", 601))], "lines of a file"), [("path.rs".to_owned(), 601)]);
    assert_eq!(found(&[("path.rs", &lines("//", 600))], "lines of a file"), []);
    let fields = |number: usize| (0..number).map(|at| format!("f{at}: u8,")).collect::<String>();
    for (derive, most) in [("Debug", 12), ("Deserialize", 20), ("clap::Args", 20)] {
        let text = |number| format!("#[derive({derive})] struct S {{ {} }}", fields(number));
        assert_eq!(found(&[("path.rs", &text(most))], "fields of a struct"), []);
        assert_eq!(found(&[("path.rs", &text(most + 1))], "fields of a struct").len(), 1);
    }
}

#[test]
fn a_file_that_no_module_declares_is_found() {
    let mut texts =
        Texts::from([("src/lib.rs".to_owned(), "pub mod path;".to_owned()), ("src/path.rs".to_owned(), String::new())]);
    texts.insert("tests/main.rs".to_owned(), "mod wire; #[cfg(unix)] mod unix { mod links; }".to_owned());
    for file in ["tests/wire.rs", "tests/unix/links.rs"] {
        texts.insert(file.to_owned(), String::new());
    }
    assert!(!check(&texts).0.contains_key("forgotten file"));
    texts.insert("tests/forgotten.rs".to_owned(), String::new());
    texts.insert("src/forgotten.rs".to_owned(), String::new());
    let files: Vec<String> = check(&texts).0.remove("forgotten file").unwrap().into_keys().collect();
    assert_eq!(files, ["forgotten.rs", "tests/forgotten.rs"]);
}

#[test]
fn a_citation_of_a_page_outside_the_repository_is_found_in_comments_alone() {
    let page = |name: &str| format!("{name}.{}", "md");
    let (wire, policy) = (page("wire"), page("policy"));
    for text in [
        format!("//! As {wire} R26 says."),
        format!("fn f() {{ g(); // {policy} 3\n}}"),
        format!("/// See ({policy} G11).\nfn f() {{}}"),
        format!("// {}{}", "issue #", 18),
        format!("// {}/shared/cases", ".."),
    ] {
        assert_eq!(found(&[("path.rs", &text)], "citation").len(), 1, "{text}");
    }
    for text in [
        format!("// docs/{policy} has the table"),
        format!("const A: &str = \"{wire} 3\";"),
        format!("const A: &str = \"\n// {wire} 3\";"),
        "// README.md and QWEN.md".to_owned(),
    ] {
        assert_eq!(found(&[("path.rs", &text)], "citation"), [], "{text}");
    }
}

#[test]
fn a_program_is_started_and_a_file_read_whole_in_few_places_alone() {
    let start = "use std::process::Command; fn f() { Command::new(\"x\"); }";
    for text in [
        start,
        "use tokio::process; fn f() { process::Command::new(\"x\"); }",
        "use std::process::Command as Started; fn f() { Started::new(\"x\"); }",
        "fn f() { let start = std::process::Command::new; }",
    ] {
        assert_eq!(found(&[("run/a.rs", text)], "Command::new").len(), 1, "{text}");
    }
    assert_eq!(found(&[("git/a.rs", start), ("sandbox/a.rs", start)], "Command::new"), []);
    let own = "pub struct Command; impl Command { pub fn new() {} } fn f() { Command::new() }";
    assert_eq!(found(&[("run/a.rs", own)], "Command::new"), []);
    for text in [
        "fn f() { std::fs::read_to_string(\"x\"); }",
        "use std::fs::read as all; fn f() { all(\"x\"); }",
        "use tokio::fs; fn f() { fs::read(\"x\"); }",
        "use std::fs::File; fn f() { File::open(\"x\"); }",
        "fn f(x: X) { x.read_to_end(&mut y); }",
    ] {
        assert!(!found(&[("run/a.rs", text)], "unbounded read").is_empty(), "{text}");
        assert_eq!(found(&[("bounded.rs", text)], "unbounded read"), [], "{text}");
    }
}

#[test]
fn a_tools_name_is_found_outside_of_the_tools() {
    for text in ["const A: &str = \"read_file\";", "fn f(x: &str) -> bool { matches!(x, \"read_file\") }"] {
        assert_eq!(found(&[("agent/a.rs", text)], "tool name"), [("agent/a.rs".to_owned(), 1)], "{text}");
        assert_eq!(found(&[("tools/a.rs", text), ("tool_name.rs", text)], "tool name"), [], "{text}");
    }
    let word = "const A: &str = \"edit\";";
    assert_eq!(found(&[("policy/builtin.rs", word)], "tool name"), []);
    assert_eq!(found(&[("policy/lists.rs", word)], "tool name").len(), 1);
}

#[test]
fn the_list_may_neither_grow_nor_keep_what_is_gone() {
    let list = |number: u32| Breaches::from([("lines".to_owned(), [("a.rs f".to_owned(), number)].into())]);
    assert_eq!(compare(&list(70), &list(70)), (vec![], vec![]));
    assert_eq!(compare(&list(71), &list(70)), (vec!["lines: a.rs f: 71, listed 70".to_owned()], vec![]));
    assert_eq!(compare(&list(69), &list(70)), (vec![], vec!["lines: a.rs f: 69, listed 70".to_owned()]));
    assert_eq!(compare(&Breaches::new(), &list(70)).1, ["lines: a.rs f: 0, listed 70"]);
    assert_eq!(compare(&list(70), &Breaches::new()).0, ["lines: a.rs f: 70, listed 0"]);
}

#[test]
fn the_figures_are_a_table() {
    let texts = Texts::from([
        ("src/lib.rs".to_owned(), "//! Says.\npub mod path;\n".to_owned()),
        (
            "src/path.rs".to_owned(),
            "\n/// A.\npub struct A { b: u8 }\nfn f() -> Result<(), String> {\n    Failure::new()\n}\n".to_owned(),
        ),
    ]);
    let (breaches, measures) = check(&texts);
    let table = table(&breaches, &measures);
    for line in [
        "     5  lines of code (no blanks, comments, tests)",
        "     3    path.rs f",
        "     1    path.rs A",
        "     0  circle of files, as groups",
        "     1  uses of Failure::new",
        "     1  functions whose error is a string",
    ] {
        assert!(table.lines().any(|found| found == line), "{line}\n{table}");
    }
}
