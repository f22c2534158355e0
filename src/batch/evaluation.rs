//! Folds the runs of test cases into how well a recipe works: rates with intervals, and comparisons between models and
//! with an earlier evaluation. The content of `eval.json`.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::statistics::{self, Comparison, Interval, Passes, Spread, compare};
use crate::event::RecipeFacts;
use crate::exit::Exit;

/// The version of `eval.json`.
pub const SCHEMA_VERSION: u32 = 1;

/// The percentage of runs that may not have happened.
const MISSING: usize = 5;

/// What is evaluated.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Design {
    /// The recipes with their cases.
    pub recipes: Vec<(RecipeFacts, Vec<CaseFacts>)>,
    /// The models.
    pub models: Vec<String>,
    /// Runs of each case with each model.
    pub runs: u32,
}

/// Which case it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CaseFacts {
    /// Its name.
    pub name: String,
    /// The digest of its fixture, parameters and expectations: a case with another one is another case.
    pub sha256: String,
}

/// A run that ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The recipe's name.
    pub recipe: String,
    /// The case's name.
    pub case: String,
    /// The model.
    pub model: String,
    /// How it ended.
    pub run: Run,
}

/// How a run of a case ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Run {
    /// Which run it is, from 1.
    pub run: u32,
    /// What it counts as.
    pub verdict: RunVerdict,
    /// The exit code.
    pub exit_code: u8,
    /// What is not as expected.
    pub problems: Vec<String>,
    /// Tokens, or an estimate.
    pub tokens: Option<u64>,
    /// US dollars; `null` where a price is unknown.
    pub cost_usd: Option<f64>,
    /// Answers of the model.
    pub turns: u64,
    /// Wall time in milliseconds.
    pub duration_ms: u64,
}

/// What a run counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunVerdict {
    /// All is as expected.
    Passed,
    /// Something is not.
    Failed,
    /// It ended for a reason that says nothing about the recipe or the model, so it counts for nothing.
    DidNotHappen,
}

/// An evaluation: the content of `eval.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Evaluation {
    /// Always `eval`.
    pub r#type: EvaluationTag,
    /// Of this object.
    pub schema_version: u32,
    /// The process's exit code.
    pub exit_code: u8,
    /// The exit code's name.
    pub exit_reason: String,
    /// What the intervals are about: always `these cases`.
    pub scope: String,
    /// Runs of each case with each model.
    pub runs: u32,
    /// Runs that were to happen and did not.
    pub missing: u64,
    /// The recipes.
    pub recipes: Vec<RecipeEvaluation>,
    /// The gates that were asked for.
    pub gates: Vec<GateOutcome>,
    /// What the owner should know.
    pub warnings: Vec<String>,
}

/// The word `eval`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub enum EvaluationTag {
    /// The only value.
    #[default]
    #[serde(rename = "eval")]
    Eval,
}

/// How well a recipe works.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RecipeEvaluation {
    /// The recipe.
    pub recipe: RecipeFacts,
    /// How well it works with each model.
    pub models: Vec<ModelEvaluation>,
    /// Each further model beside the first, and each model beside the baseline.
    pub comparisons: Vec<Compared>,
}

/// How well a recipe works with a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ModelEvaluation {
    /// The model.
    pub model: String,
    /// All runs.
    #[serde(flatten)]
    pub rate: Rate,
    /// Cases of which every run passed.
    pub every: u32,
    /// Cases of which a run passed.
    pub any: u32,
    /// Tokens of a run.
    pub tokens: Option<Spread>,
    /// US dollars of a run; `null` where a price is unknown.
    pub cost_usd: Option<Spread>,
    /// Answers of a run.
    pub turns: Option<Spread>,
    /// Milliseconds of a run.
    pub duration_ms: Option<Spread>,
    /// Each case.
    pub cases: Vec<CaseEvaluation>,
}

/// How many runs passed, and how certain that is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Rate {
    /// The counts.
    #[serde(flatten)]
    pub passes: Passes,
    /// The share.
    pub rate: f64,
    /// Wilson's interval of 95 %.
    pub interval: Interval,
}

/// How well a case goes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CaseEvaluation {
    /// The case.
    #[serde(flatten)]
    pub case: CaseFacts,
    /// Its runs, counted.
    #[serde(flatten)]
    pub rate: Rate,
    /// Its runs.
    pub outcomes: Vec<Run>,
}

/// A comparison of a model's runs with others of the same cases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Compared {
    /// The model.
    pub model: String,
    /// What it is compared with.
    pub with: Other,
    /// How many cases both have.
    pub cases: u32,
    /// Cases that only one of them has, or that have changed.
    pub left_out: Vec<String>,
    /// Cases that the other passed every time and this one never.
    pub lost: Vec<String>,
    /// What the runs show.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// The rise of the median of tokens, in percent.
    pub tokens_rise: Option<f64>,
    /// The rise of the median of the cost, in percent.
    pub cost_rise: Option<f64>,
}

/// What a model is compared with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Other {
    /// The model.
    pub model: String,
    /// Whether it is that of the baseline.
    pub baseline: bool,
}

/// What a gate says about a recipe with a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct GateOutcome {
    /// The gate's flag.
    pub gate: String,
    /// The recipe.
    pub recipe: String,
    /// The model.
    pub model: String,
    /// Whether it holds.
    pub passed: bool,
    /// What was found.
    pub found: String,
}

impl From<Passes> for Rate {
    fn from(passes: Passes) -> Rate {
        Rate { passes, rate: passes.rate(), interval: passes.wilson() }
    }
}

impl Evaluation {
    /// Folds the runs of a design. The gates, and the exit code that follows from them, are for
    /// [`Evaluation::gated`].
    pub fn of(design: &Design, outcomes: Vec<Outcome>, baseline: Option<&Evaluation>) -> Evaluation {
        let mut found: BTreeMap<(String, String, String), Vec<Run>> = BTreeMap::new();
        for Outcome { recipe, case, model, run } in outcomes {
            found.entry((recipe, case, model)).or_default().push(run);
        }
        let mut take = |recipe: &str, case: &str, model: &str| {
            let mut runs = found.remove(&(recipe.to_owned(), case.to_owned(), model.to_owned())).unwrap_or_default();
            runs.sort_by_key(|run| run.run);
            runs
        };
        let mut recipes = Vec::new();
        for (recipe, cases) in &design.recipes {
            let models = design.models.iter().map(|model| {
                let cases =
                    cases.iter().map(|case| CaseEvaluation::of(case.clone(), take(&recipe.name, &case.name, model)));
                ModelEvaluation::of(model.clone(), cases.collect())
            });
            let (recipe, models) = (recipe.clone(), models.collect());
            recipes.push(RecipeEvaluation { recipe, models, comparisons: Vec::new() });
        }
        let cases: usize = design.recipes.iter().map(|(_, cases)| cases.len()).sum();
        let wanted = cases as u64 * design.models.len() as u64 * u64::from(design.runs);
        let happened: u64 = recipes.iter().flat_map(|r| &r.models).map(|m| u64::from(m.rate.passes.runs)).sum();
        let mut evaluation = Evaluation {
            r#type: EvaluationTag::Eval,
            schema_version: SCHEMA_VERSION,
            exit_code: Exit::Ok.code(),
            exit_reason: Exit::Ok.name().to_owned(),
            scope: "these cases".to_owned(),
            runs: design.runs,
            missing: wanted.saturating_sub(happened),
            recipes,
            gates: Vec::new(),
            warnings: Vec::new(),
        };
        if evaluation.is_incomplete() {
            evaluation.ends_with(Exit::Unavailable);
        } else {
            evaluation.recipes.iter_mut().for_each(|recipe| recipe.compare(baseline));
        }
        evaluation
    }

    /// Tells whether so many runs did not happen that nothing is to be concluded.
    pub fn is_incomplete(&self) -> bool {
        let happened: u64 = self.models().map(|(_, model)| u64::from(model.rate.passes.runs)).sum();
        happened == 0 || self.missing * 100 > (happened + self.missing) * MISSING as u64
    }

    /// Returns each recipe with each model.
    pub fn models(&self) -> impl Iterator<Item = (&RecipeFacts, &ModelEvaluation)> {
        self.recipes.iter().flat_map(|recipe| recipe.models.iter().map(|model| (&recipe.recipe, model)))
    }

    /// Sets the exit code.
    pub fn ends_with(&mut self, exit: Exit) {
        (self.exit_code, self.exit_reason) = (exit.code(), exit.name().to_owned());
    }
}

impl RecipeEvaluation {
    /// Compares each further model with the first, and each with the baseline.
    fn compare(&mut self, baseline: Option<&Evaluation>) {
        let others = self.models.iter().skip(1).filter_map(|model| {
            let first = self.models.first()?;
            Some(Compared::of(model, first, false))
        });
        let earlier =
            baseline.and_then(|baseline| baseline.recipes.iter().find(|recipe| recipe.recipe.name == self.recipe.name));
        let of_baseline = self.models.iter().filter_map(|model| {
            let earlier = &earlier?.models;
            // One model with another name is its successor.
            let only = || earlier.first().filter(|_| earlier.len() == 1 && self.models.len() == 1);
            let found = earlier.iter().find(|other| other.model == model.model).or_else(only)?;
            Some(Compared::of(model, found, true))
        });
        self.comparisons = others.chain(of_baseline).collect();
    }
}

impl ModelEvaluation {
    fn of(model: String, cases: Vec<CaseEvaluation>) -> ModelEvaluation {
        let all = cases.iter().fold(Passes::default(), |sum, case| sum.plus(case.rate.passes));
        let count = |of: fn(&Passes) -> bool| {
            u32::try_from(cases.iter().filter(|case| of(&case.rate.passes)).count()).unwrap_or(u32::MAX)
        };
        let runs: Vec<&Run> = cases.iter().flat_map(CaseEvaluation::happened).collect();
        ModelEvaluation {
            model,
            rate: all.into(),
            every: count(|passes| passes.runs > 0 && passes.passed == passes.runs),
            any: count(|passes| passes.passed > 0),
            tokens: spread_of(&runs, &|run| run.tokens.map(|tokens| tokens as f64)),
            cost_usd: spread_of(&runs, &|run| run.cost_usd),
            turns: spread_of(&runs, &|run| Some(run.turns as f64)),
            duration_ms: spread_of(&runs, &|run| Some(run.duration_ms as f64)),
            cases,
        }
    }
}

impl CaseEvaluation {
    fn of(case: CaseFacts, outcomes: Vec<Run>) -> CaseEvaluation {
        let count = |wanted: &[RunVerdict]| {
            let found = outcomes.iter().filter(|run| wanted.contains(&run.verdict)).count();
            u32::try_from(found).unwrap_or(u32::MAX)
        };
        let passes =
            Passes { passed: count(&[RunVerdict::Passed]), runs: count(&[RunVerdict::Passed, RunVerdict::Failed]) };
        CaseEvaluation { case, rate: passes.into(), outcomes }
    }

    fn happened(&self) -> impl Iterator<Item = &Run> {
        self.outcomes.iter().filter(|run| run.verdict != RunVerdict::DidNotHappen)
    }

    /// Tells whether another series passed every time and this one never, and whether that is more than chance.
    fn has_lost(&self, other: &CaseEvaluation) -> bool {
        let (ours, theirs) = (self.rate.passes, other.rate.passes);
        let never = ours.passed == 0 && theirs.passed == theirs.runs;
        never && compare(&[(ours, theirs)]).verdict == statistics::Verdict::Worse
    }
}

impl Compared {
    fn of(model: &ModelEvaluation, other: &ModelEvaluation, baseline: bool) -> Compared {
        let same: Vec<(&CaseEvaluation, &CaseEvaluation)> = model
            .cases
            .iter()
            .filter_map(|case| Some((case, other.cases.iter().find(|other| other.case == case.case)?)))
            .collect();
        let shared: BTreeSet<&CaseFacts> = same.iter().map(|(case, _)| &case.case).collect();
        let all = model.cases.iter().chain(&other.cases).map(|case| &case.case);
        let left_out: BTreeSet<String> =
            all.filter(|case| !shared.contains(case)).map(|case| case.name.clone()).collect();
        let passes: Vec<(Passes, Passes)> =
            same.iter().map(|(case, other)| (case.rate.passes, other.rate.passes)).collect();
        let lost = same.iter().filter(|(case, other)| case.has_lost(other)).map(|(case, _)| case.case.name.clone());
        let rise = |of: &dyn Fn(&Run) -> Option<f64>| {
            let ours: Vec<&Run> = same.iter().flat_map(|(case, _)| case.happened()).collect();
            let theirs: Vec<&Run> = same.iter().flat_map(|(_, other)| other.happened()).collect();
            let (ours, theirs) = (spread_of(&ours, of)?.median, spread_of(&theirs, of)?.median);
            match theirs {
                _ if ours <= theirs && theirs <= 0.0 => Some(0.0),
                theirs => (theirs > 0.0).then(|| (ours - theirs) / theirs * 100.0),
            }
        };
        Compared {
            model: model.model.clone(),
            with: Other { model: other.model.clone(), baseline },
            cases: u32::try_from(same.len()).unwrap_or(u32::MAX),
            left_out: left_out.into_iter().collect(),
            lost: lost.collect(),
            comparison: compare(&passes),
            tokens_rise: rise(&|run| run.tokens.map(|tokens| tokens as f64)),
            cost_rise: rise(&|run| run.cost_usd),
        }
    }
}

/// Returns the spread of a quantity; `None` where a run does not know it.
fn spread_of(runs: &[&Run], of: &dyn Fn(&Run) -> Option<f64>) -> Option<Spread> {
    let values: Option<Vec<f64>> = runs.iter().map(|run| of(run)).collect();
    statistics::spread(values?)
}

/// Tells whether a run says anything about the recipe or the model: what stopped the batch, a provider that is
/// unavailable, a signal and a recording that does not fit do not. `of_batch`: a total of the batch ended it.
pub fn happened(exit: Exit, wanted: u8, of_batch: bool) -> bool {
    let says_nothing =
        [Exit::Replay, Exit::Unavailable, Exit::Interrupted, Exit::Terminated, Exit::Auth, Exit::Sandbox, Exit::Config];
    !of_batch && (exit.code() == wanted || !says_nothing.contains(&exit))
}
