//! Collects what `qwen recipe eval` runs: the recipes with their cases, and what tells one case from another.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::error::EvalError;
use crate::base::digest::sha256;
use crate::batch::evaluation::{CaseFacts, Design};
use crate::bounded;
use crate::cli::eval::EvalArgs;
use crate::commands::recipe_fixture::named;
use crate::commands::recipe_test::{file_of, recipe_of};
use crate::event::RecipeFacts;
use crate::recipe::Recipe;
use crate::recipe::cases::TestCase;
use crate::recipe::file::RecipeFile;
use crate::recipe::parse::parse_cases;
use crate::run::Failure;
use crate::settings::Environment;

/// The parts of a fixture that decide about a run and how it is judged.
const LAYERS: [&str; 6] = ["base", "commit", "staged", "worktree", "hidden", "policy.yaml"];

/// A recipe with the cases to run.
pub(super) struct Subject {
    /// Its file.
    pub(super) file: PathBuf,
    /// The recipe.
    pub(super) recipe: Recipe,
    /// Its name, version and digest.
    pub(super) facts: RecipeFacts,
    /// What decides about its runs: its digest without its tests.
    pub(super) behaviour: String,
    /// Whether it asks for a temperature of 0.
    pub(super) is_cold: bool,
    /// The seed that it asks for.
    pub(super) seed: Option<u64>,
    /// The cases.
    pub(super) cases: Vec<Case>,
}

/// A case to run.
pub(super) struct Case {
    /// What it is.
    pub(super) case: TestCase,
    /// Its fixture.
    pub(super) fixture: PathBuf,
    /// Its name, and the digest of what it is and expects.
    pub(super) facts: CaseFacts,
    /// The digest of what decides about its runs.
    pub(super) content: String,
}

/// Reads the recipes and their cases.
pub(super) fn subjects(args: &EvalArgs, environment: &Environment, top: &Path) -> Result<Vec<Subject>, Failure> {
    if args.cases_file.is_some() && args.recipes.len() > 1 {
        return Err(EvalError::CasesOfSeveral.into());
    }
    let mut subjects: Vec<Subject> = Vec::new();
    for word in &args.recipes {
        let file = file_of(word, environment, top);
        let recipe = recipe_of(&file.display().to_string(), environment)?;
        if subjects.iter().any(|subject| subject.facts.name == recipe.name()) {
            return Err(EvalError::Twice(recipe.name().to_owned()).into());
        }
        subjects.push(subject(file, recipe, args, environment)?);
    }
    let named = |name: &&String| subjects.iter().all(|s| s.cases.iter().all(|case| case.facts.name != **name));
    if let Some(unknown) = args.cases.iter().find(named) {
        return Err(EvalError::UnknownCase(unknown.clone()).into());
    }
    match subjects.iter().find(|subject| subject.cases.is_empty()) {
        Some(empty) if args.cases.is_empty() => Err(EvalError::NoCases(empty.facts.name.clone()).into()),
        Some(_) | None => Ok(subjects.into_iter().filter(|subject| !subject.cases.is_empty()).collect()),
    }
}

/// Returns the design of an evaluation.
pub(super) fn design(subjects: &[Subject], models: Vec<String>, runs: u32) -> Design {
    let facts =
        |subject: &Subject| (subject.facts.clone(), subject.cases.iter().map(|case| case.facts.clone()).collect());
    Design { recipes: subjects.iter().map(facts).collect(), models, runs }
}

fn subject(file: PathBuf, recipe: Recipe, args: &EvalArgs, environment: &Environment) -> Result<Subject, Failure> {
    let facts = recipe.facts();
    let plain = RecipeFile { tests: None, ..recipe.file.clone() };
    let behaviour = sha256(json!(plain).to_string().as_bytes());
    let wishes = recipe.file.model.clone().unwrap_or_default();
    let directory = environment.cwd.join(&file).parent().unwrap_or(&environment.cwd).to_path_buf();
    let mut cases = recipe.file.tests.clone().unwrap_or_default();
    let own = cases.len();
    if let Some(path) = &args.cases_file {
        let more = cases_of(path, environment)?;
        cases.extend(more);
        let file = RecipeFile { tests: Some(cases.clone()), ..recipe.file.clone() };
        Recipe::check(file, recipe.name(), &recipe.source, &recipe.texts)
            .map_err(crate::run::error::RecipeError::Wrong)?;
    }
    let wanted = |case: &TestCase| args.cases.is_empty() || args.cases.contains(&case.name.value);
    let cases = cases.into_iter().enumerate().filter(|(_, case)| case.is_evaluated() && wanted(case));
    let cases = cases.map(|(at, case)| {
        // Those of `--cases` are found already.
        let fixture = case.fixture.as_str();
        let fixture = if at < own { named(&directory, fixture, &environment.cwd)? } else { PathBuf::from(fixture) };
        one(case, fixture)
    });
    let cases = cases.collect::<Result<_, EvalError>>()?;
    let (is_cold, seed) = (wishes.temperature == Some(0.0), wishes.seed);
    Ok(Subject { file, recipe, facts, behaviour, is_cold, seed, cases })
}

/// Reads `--cases`; fixtures are relative to that file.
fn cases_of(path: &Path, environment: &Environment) -> Result<Vec<TestCase>, EvalError> {
    let whole = environment.cwd.join(path);
    let shown = path.display().to_string();
    let text = bounded::named_text(&whole, bounded::PRODUCT)
        .map_err(|cause| EvalError::Unreadable { path: shown.clone(), cause })?;
    let mut cases = parse_cases(&shown, &text).map_err(EvalError::Cases)?;
    let directory = whole.parent().unwrap_or(Path::new("."));
    for case in &mut cases {
        case.fixture.value = named(directory, &case.fixture.value, &environment.cwd)?.display().to_string();
    }
    Ok(cases)
}

fn one(case: TestCase, fixture: PathBuf) -> Result<Case, EvalError> {
    if !fixture.is_dir() {
        return Err(EvalError::NoFixture { case: case.name.value, fixture: fixture.display().to_string() });
    }
    let mut files = BTreeMap::new();
    for layer in LAYERS {
        collect(&fixture, &fixture.join(layer), &mut files)
            .map_err(|cause| EvalError::Unreadable { path: fixture.join(layer).display().to_string(), cause })?;
    }
    // What is laid over the change afterwards decides about the verdict alone.
    let seen: BTreeMap<_, _> = files.iter().filter(|(path, _)| !path.starts_with("hidden/")).collect();
    let digest = |value: serde_json::Value| sha256(value.to_string().as_bytes());
    let content = digest(json!([seen, case.params]));
    let facts = CaseFacts { name: case.name.value.clone(), sha256: digest(json!([files, case.params, case.expect])) };
    Ok(Case { case, fixture, facts, content })
}

/// Collects the digests of the files of a layer by their path below the fixture.
fn collect(fixture: &Path, path: &Path, files: &mut BTreeMap<String, String>) -> std::io::Result<()> {
    let Ok(found) = path.symlink_metadata() else { return Ok(()) };
    if found.is_dir() {
        for entry in std::fs::read_dir(path)? {
            collect(fixture, &entry?.path(), files)?;
        }
        return Ok(());
    }
    let content = match found.is_symlink() {
        true => std::fs::read_link(path)?.into_os_string().into_vec(),
        false => bounded::regular(path, bounded::PRODUCT)?,
    };
    files.insert(path.strip_prefix(fixture).unwrap_or(path).display().to_string(), sha256(&content));
    Ok(())
}
