//! Decides whether an evaluation is good enough: the gates of `qwen recipe eval`.

use super::evaluation::{Compared, Evaluation, GateOutcome};
use super::statistics::Verdict;
use crate::exit::Exit;

/// What an evaluation must come to; rates are shares from 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Gates {
    /// The share of all runs that must pass.
    pub min_rate: Option<f64>,
    /// The share of each case's runs that must pass.
    pub min_case_rate: Option<f64>,
    /// The lower end of the interval of all runs.
    pub min_rate_lower: Option<f64>,
    /// Nothing is worse than in the baseline.
    pub no_regression: bool,
    /// The rise of the median cost over the baseline, in percent.
    pub max_cost_rise: Option<f64>,
    /// The rise of the median of tokens over the baseline, in percent.
    pub max_tokens_rise: Option<f64>,
}

impl Gates {
    /// Tells whether a gate compares with a baseline.
    pub fn need_baseline(&self) -> bool {
        self.no_regression || self.max_cost_rise.is_some() || self.max_tokens_rise.is_some()
    }
}

impl Evaluation {
    /// Applies the gates, and returns the evaluation with the exit code that follows: 3 if one does not hold.
    #[must_use]
    pub fn gated(mut self, gates: &Gates) -> Evaluation {
        if self.is_incomplete() {
            return self;
        }
        let mut outcomes = Vec::new();
        for recipe in &self.recipes {
            for model in &recipe.models {
                let mut add = |gate: &str, passed: bool, found: String| {
                    let (recipe, model) = (recipe.recipe.name.clone(), model.model.clone());
                    outcomes.push(GateOutcome { gate: gate.to_owned(), recipe, model, passed, found });
                };
                if let Some(least) = gates.min_rate {
                    let found = format!("{} passed, {} wanted", percent(model.rate.rate), percent(least));
                    add("--min-rate", model.rate.rate >= least, found);
                }
                if let Some(least) = gates.min_case_rate {
                    let below: Vec<&str> = model
                        .cases
                        .iter()
                        .filter(|case| case.rate.rate < least)
                        .map(|case| case.case.name.as_str())
                        .collect();
                    let found = match below.is_empty() {
                        true => format!("every case passed in {} of its runs", percent(least)),
                        false => format!("below {}: {}", percent(least), below.join(", ")),
                    };
                    add("--min-case-rate", below.is_empty(), found);
                }
                if let Some(least) = gates.min_rate_lower {
                    let low = model.rate.interval.low;
                    let found = format!("the lower end is {}, {} wanted", percent(low), percent(least));
                    add("--min-rate-lower", low >= least, found);
                }
                let beside = recipe
                    .comparisons
                    .iter()
                    .find(|compared| compared.with.baseline && compared.model == model.model && compared.cases > 0);
                if gates.need_baseline() {
                    gates.against(beside, &mut add);
                }
            }
        }
        if outcomes.iter().any(|outcome| !outcome.passed) {
            self.ends_with(Exit::Gate);
        }
        self.gates = outcomes;
        self
    }
}

impl Gates {
    /// Applies the gates that compare with the baseline. What cannot be compared does not pass.
    fn against(&self, beside: Option<&Compared>, add: &mut dyn FnMut(&str, bool, String)) {
        if self.no_regression {
            let (passed, found) = match beside {
                None => (false, NOTHING_SHARED.to_owned()),
                Some(compared) if !compared.lost.is_empty() => {
                    (false, format!("passed every time before and never now: {}", compared.lost.join(", ")))
                }
                Some(compared) => {
                    let verdict = compared.comparison.verdict;
                    let found = format!("{}, p {:.2}", verdict.words(), compared.comparison.p);
                    (verdict != Verdict::Worse, found)
                }
            };
            add("--no-regression", passed, found);
        }
        for (gate, most, rise, what) in [
            ("--max-cost-rise", self.max_cost_rise, beside.map(|compared| compared.cost_rise), "cost"),
            ("--max-tokens-rise", self.max_tokens_rise, beside.map(|compared| compared.tokens_rise), "tokens"),
        ] {
            let Some(most) = most else { continue };
            let (passed, found) = match rise {
                None => (false, NOTHING_SHARED.to_owned()),
                Some(None) => (false, format!("the {what} of a run is unknown")),
                Some(Some(rise)) => (rise <= most, format!("{what}, median: {rise:+.0} %, at most {most:+} %")),
            };
            add(gate, passed, found);
        }
    }
}

const NOTHING_SHARED: &str = "the baseline has none of these cases";

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::evaluation::{CaseFacts, Design, Outcome, Run, RunVerdict};
    use crate::event::RecipeFacts;

    fn design(models: &[&str], cases: usize, runs: u32) -> Design {
        let cases = (0..cases).map(|case| CaseFacts { name: format!("case-{case}"), sha256: format!("{case:02}") });
        let recipe = RecipeFacts { name: "fix".into(), version: None, sha256: "00".into() };
        let models = models.iter().map(|model| (*model).to_owned()).collect();
        Design { recipes: vec![(recipe, cases.collect())], models, runs }
    }

    /// Runs of each case: so many pass, the others fail.
    fn runs(model: &str, of: u32, passed: &[u32]) -> Vec<Outcome> {
        let one = |case: usize, run: u32, verdict: RunVerdict| Outcome {
            recipe: "fix".into(),
            case: format!("case-{case}"),
            model: model.into(),
            run: Run {
                run,
                verdict,
                exit_code: 0,
                problems: Vec::new(),
                tokens: Some(1_000 + u64::from(run)),
                cost_usd: Some(0.01),
                turns: 2,
                duration_ms: 10,
            },
        };
        let verdict = |run: u32, passed: u32| if run <= passed { RunVerdict::Passed } else { RunVerdict::Failed };
        let of_case = |(case, passed): (usize, &u32)| {
            let passed = *passed;
            (1..=of).map(move |run| one(case, run, verdict(run, passed)))
        };
        passed.iter().enumerate().flat_map(of_case).collect()
    }

    #[test]
    fn two_models_with_known_rates_get_the_known_verdict() {
        let mut outcomes = runs("A", 5, &[5, 5, 4, 2]);
        outcomes.extend(runs("B", 5, &[3, 5, 1, 0]));
        let found = Evaluation::of(&design(&["A", "B"], 4, 5), outcomes, None);
        let [a, b] = found.recipes[0].models.as_slice() else { panic!("two models") };
        assert_eq!((a.rate.passes.passed, a.every, a.any), (16, 2, 4));
        assert_eq!((b.rate.passes.passed, b.every, b.any), (9, 1, 3));
        let compared = &found.recipes[0].comparisons[0];
        assert_eq!((compared.model.as_str(), compared.comparison.verdict), ("B", Verdict::Worse));
        assert!((compared.comparison.p - 0.0171).abs() < 0.000_05, "{compared:?}");
        assert_eq!(found.exit_code, 0);
    }

    #[test]
    fn each_gate_that_does_not_hold_is_a_line_and_the_code_is_3() {
        let design = design(&["A"], 4, 5);
        let before = Evaluation::of(&design, runs("A", 5, &[5, 5, 5, 5]), None);
        let now = || Evaluation::of(&design, runs("A", 5, &[5, 5, 4, 0]), Some(&before));
        let gated = |gates: Gates| {
            let gated = now().gated(&gates);
            let outcome = gated.gates.first().cloned().expect("a gate was asked for");
            assert_eq!(gated.exit_code, if outcome.passed { 0 } else { 3 });
            (outcome.passed, outcome.found)
        };
        let gates = Gates::default();
        assert!(gated(Gates { min_rate: Some(0.7), ..gates }).0);
        assert_eq!(gated(Gates { min_rate: Some(0.8), ..gates }), (false, "70 % passed, 80 % wanted".into()));
        let case_rate = gated(Gates { min_case_rate: Some(0.9), ..gates });
        assert_eq!(case_rate, (false, "below 90 %: case-2, case-3".into()));
        let lower = gated(Gates { min_rate_lower: Some(0.5), ..gates });
        assert_eq!(lower, (false, "the lower end is 48 %, 50 % wanted".into()));
        let lost = gated(Gates { no_regression: true, ..gates });
        assert_eq!(lost, (false, "passed every time before and never now: case-3".into()));
        assert!(gated(Gates { max_tokens_rise: Some(0.0), ..gates }).0);
        assert!(!gated(Gates { max_cost_rise: Some(-1.0), ..gates }).0);
    }

    #[test]
    fn what_cannot_be_compared_does_not_pass() {
        let (one, mut other) = (design(&["A"], 1, 5), design(&["A"], 1, 5));
        other.recipes[0].1[0].sha256 = "another".into();
        let before = Evaluation::of(&other, runs("A", 5, &[5]), None);
        let now = Evaluation::of(&one, runs("A", 5, &[5]), Some(&before));
        assert_eq!(now.recipes[0].comparisons[0].left_out, ["case-0"]);
        let gated = now.gated(&Gates { no_regression: true, ..Gates::default() });
        assert_eq!((gated.exit_code, gated.gates[0].found.as_str()), (3, NOTHING_SHARED));
    }

    #[test]
    fn runs_that_did_not_happen_count_for_nothing_and_many_of_them_end_without_a_verdict() {
        let design = design(&["A"], 4, 10);
        let mut outcomes = runs("A", 10, &[10, 10, 10, 10]);
        let lose = |outcomes: &mut Vec<Outcome>, at: usize| outcomes[at].run.verdict = RunVerdict::DidNotHappen;
        lose(&mut outcomes, 3);
        outcomes.pop();
        let found = Evaluation::of(&design, outcomes.clone(), None);
        assert_eq!((found.missing, found.recipes[0].models[0].rate.passes.runs, found.exit_code), (2, 38, 0));
        lose(&mut outcomes, 4);
        let found = Evaluation::of(&design, outcomes, None).gated(&Gates { min_rate: Some(0.1), ..Gates::default() });
        assert_eq!((found.missing, found.exit_code, found.gates.len()), (3, 75, 0));
    }

    #[test]
    fn the_same_recipe_seldom_fails_for_a_regression() {
        let mut state = 1_u64;
        let mut roll = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / f64::from(1_u32 << 31)
        };
        let rates = [0.05, 0.3, 0.5, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0, 1.0];
        let design = design(&["A"], rates.len(), 5);
        let mut evaluate = |baseline: Option<&Evaluation>| {
            let passed: Vec<u32> = rates.iter().map(|rate| (0..5).map(|_| u32::from(roll() < *rate)).sum()).collect();
            Evaluation::of(&design, runs("A", 5, &passed), baseline)
        };
        let gates = Gates { no_regression: true, ..Gates::default() };
        let mut failed = 0;
        for _ in 0..1_000 {
            let before = evaluate(None);
            failed += u32::from(evaluate(Some(&before)).gated(&gates).exit_code == 3);
        }
        assert!(failed <= 50, "{failed} of 1,000");
    }
}
