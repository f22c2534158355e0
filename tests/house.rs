//! Tests the source itself: which module may use which, no circles, limits of length. `house-debt.toml` lists today's
//! exceptions, and that list only gets shorter.

mod planted;
mod rules;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rules::{Breaches, LAYER_OF, MAY_USE, Measures, READERS, check};
use source::Texts;

const DEBT: &str = "tests/house-debt.toml";

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Reads every file of Rust below the package's own directories.
fn texts() -> Texts {
    let mut texts = Texts::new();
    let mut todo: Vec<_> = ["src", "tests", "benches", "fuzz/fuzz_targets"].map(|name| package().join(name)).into();
    while let Some(directory) = todo.pop() {
        for entry in std::fs::read_dir(&directory).expect("a directory of the package").flatten() {
            let path = entry.path();
            if path.is_dir() {
                todo.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(package()).unwrap().to_string_lossy().into_owned();
                texts.insert(name, std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    texts
}

/// Names what is new or worse, and what the list still has although it is gone or better.
fn compare(found: &Breaches, debt: &Breaches) -> (Vec<String>, Vec<String>) {
    let (mut new, mut gone) = (Vec::new(), Vec::new());
    let none = BTreeMap::new();
    let rules: BTreeSet<&String> = found.keys().chain(debt.keys()).collect();
    for rule in rules {
        let (found, debt) = (found.get(rule).unwrap_or(&none), debt.get(rule).unwrap_or(&none));
        for (key, number) in found.iter().filter(|(key, number)| debt.get(*key).is_none_or(|listed| listed < number)) {
            new.push(format!("{rule}: {key}: {number}, listed {}", debt.get(key).unwrap_or(&0)));
        }
        for (key, listed) in debt.iter().filter(|(key, listed)| found.get(*key).is_none_or(|number| number < listed)) {
            gone.push(format!("{rule}: {key}: {}, listed {listed}", found.get(key).unwrap_or(&0)));
        }
    }
    (new, gone)
}

#[test]
fn the_source_keeps_its_rules_but_for_a_list_that_only_gets_shorter() {
    let (found, _) = check(&texts());
    let file = package().join(DEBT);
    let debt: Breaches = toml::from_str(&std::fs::read_to_string(&file).unwrap_or_default()).unwrap();
    let (new, gone) = compare(&found, &debt);
    if std::env::var_os("HOUSE_DEBT").is_some_and(|value| value == "write") {
        for (rule, items) in &found {
            let listed: u32 = debt.get(rule).map_or(0, |items| items.values().sum());
            let number = items.values().sum::<u32>();
            assert!(debt.is_empty() || number <= listed, "`{rule}` is {number} in all, listed {listed}; {new:#?}");
        }
        std::fs::write(&file, toml::to_string(&found).unwrap()).unwrap();
        return;
    }
    assert!(new.is_empty(), "these break a rule of tests/house/rules.rs: {new:#?}");
    assert!(gone.is_empty(), "shorten {DEBT} (HOUSE_DEBT=write on this test does it): {gone:#?}");
}

/// Returns the texts for contributors: those of `.github` and the READMEs of the fixtures.
fn guides() -> impl Iterator<Item = (String, String)> {
    let fixtures = package().join("fixtures").read_dir().unwrap().map(|entry| entry.unwrap().path().join("README.md"));
    let own = ["CONTRIBUTING.md", "RELEASING.md"].map(|name| package().join(".github").join(name));
    let texts = own.into_iter().chain(fixtures.filter(|path| path.exists()));
    texts.map(|path| (path.display().to_string(), std::fs::read_to_string(&path).unwrap()))
}

/// Returns the paths in one of the package's own directories that a text names, and bare names of source files.
fn paths_named(text: &str) -> Vec<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let words = text.split(|c| !is_part(c)).map(|word| word.trim_end_matches('.'));
    let own =
        ["src/", "tests/", "fixtures/", "docs/", "recipes/", "benches/", "fuzz/", "packaging/", ".ci/", ".cargo/"];
    let is_ours =
        |word: &&str| own.iter().any(|own| word.starts_with(own)) || word.ends_with(".rs") && !word.contains('/');
    words.filter(is_ours).filter(|word| !word.contains("NAME")).collect()
}

#[test]
fn every_path_that_a_guide_names_exists() {
    assert_eq!(
        paths_named("See `src/lib.rs`, wire.rs, .ci/run. Not recipes/NAME.yaml."),
        ["src/lib.rs", "wire.rs", ".ci/run"]
    );
    let files: Vec<String> = texts().into_keys().collect();
    let exists =
        |path: &&str| package().join(path).exists() || files.iter().any(|file| file.ends_with(&format!("/{path}")));
    let mut missing = Vec::new();
    for (guide, text) in guides() {
        missing
            .extend(paths_named(&text).into_iter().filter(|path| !exists(path)).map(|path| format!("{guide}: {path}")));
    }
    assert!(missing.is_empty(), "{missing:#?}");
    for (reader, _) in READERS {
        let path = format!("src/{reader}");
        assert!(files.iter().any(|file| file.starts_with(&path)), "READERS of tests/house/rules.rs: no {path}");
    }
}

/// Takes the modules and the layers of a row of the table in `src/lib.rs`.
fn row(line: &str) -> Option<(&str, BTreeSet<&str>, BTreeSet<&str>)> {
    let cells: Vec<&str> = line.strip_prefix("//! | ")?.trim_end_matches('|').split('|').map(str::trim).collect();
    let [layer, modules, uses] = cells[..] else { return None };
    let modules = modules.split(", ").filter_map(|name| name.split('`').nth(1)).collect();
    Some((layer, modules, uses.split(", ").filter(|name| !name.is_empty()).collect()))
}

#[test]
fn the_crate_documentation_has_the_layers_that_are_enforced() {
    let text = std::fs::read_to_string(package().join("src/lib.rs")).unwrap();
    let rows: Vec<_> = text.lines().filter_map(row).filter(|(layer, ..)| *layer != "layer").collect();
    let layers: BTreeSet<&str> = LAYER_OF.iter().map(|(_, layer)| *layer).collect();
    assert_eq!(rows.iter().map(|(layer, ..)| *layer).collect::<BTreeSet<_>>(), layers);
    for (layer, modules, uses) in rows {
        // `properties` exists in tests only, and the empty name is the root's own files.
        let enforced = LAYER_OF.iter().filter(|(name, of)| *of == layer && !["", "properties"].contains(name));
        assert_eq!(modules, enforced.map(|(name, _)| *name).collect(), "modules of {layer}");
        let enforced = MAY_USE.iter().find(|(name, _)| *name == layer);
        let enforced = enforced.map_or(BTreeSet::from(["every layer"]), |(_, uses)| uses.iter().copied().collect());
        assert_eq!(uses, enforced, "what {layer} may use");
    }
}

#[test]
#[ignore = "prints figures and holds nothing; .ci/size calls it"]
fn figures() {
    let (breaches, measures) = check(&texts());
    eprintln!("{}", table(&breaches, &measures));
}

/// Returns the figures as a table.
fn table(breaches: &Breaches, measures: &Measures) -> String {
    let mut lines = Vec::new();
    let mut modules: BTreeMap<&str, u32> = BTreeMap::new();
    for (file, code) in &measures.code {
        *modules.entry(file.split('/').next().unwrap_or(file)).or_default() += code;
    }
    lines.push(format!("{:>6}  lines of code (no blanks, comments, tests)", measures.code.values().sum::<u32>()));
    lines.extend(modules.iter().map(|(module, code)| format!("{code:>6}    {module}")));
    let mut longest: Vec<(&String, &u32)> = measures.functions.iter().collect();
    longest.sort_by_key(|(name, length)| (std::cmp::Reverse(**length), (*name).clone()));
    lines.push(format!("{:>6}  functions", longest.len()));
    for limit in [40, 60] {
        let over = longest.iter().filter(|(_, length)| **length > limit).count();
        lines.push(format!("{over:>6}  functions over {limit} lines of code"));
    }
    lines.extend(longest.iter().take(10).map(|(name, length)| format!("{length:>6}    {name}")));
    let mut structs: Vec<(&String, &u32)> = measures.structs.iter().collect();
    structs.sort_by_key(|(name, fields)| (std::cmp::Reverse(**fields), (*name).clone()));
    lines.push(format!("{:>6}  structs over 12 fields", structs.iter().filter(|(_, fields)| **fields > 12).count()));
    lines.extend(structs.iter().take(5).map(|(name, fields)| format!("{fields:>6}    {name}")));
    lines.extend(measures.circles.iter().map(|(rule, number)| format!("{number:>6}  {rule}, as groups")));
    for (rule, items) in breaches {
        lines.push(format!("{:>6}  {rule}: {} in all", items.len(), items.values().sum::<u32>()));
    }
    lines.push(format!("{:>6}  uses of Failure::new", measures.failures));
    lines.push(format!("{:>6}  functions whose error is a string", measures.string_errors));
    lines.join("\n")
}
