//! Renders an evaluation: a table for people, and one in markdown for a pull request.

use super::markdown::{cell, prose};
use super::safe::{escape, one_line_of};
use super::words;
use crate::batch::evaluation::{CaseEvaluation, Compared, Evaluation, ModelEvaluation, RecipeEvaluation, RunVerdict};
use crate::batch::statistics::{Interval, Verdict};

/// Cases with failed runs that are listed.
const FAILURES: usize = 10;

/// Characters of a problem that are shown.
const PROBLEM: usize = 160;

/// Returns an evaluation as text for people.
pub fn text(evaluation: &Evaluation) -> String {
    let mut out = String::new();
    for recipe in &evaluation.recipes {
        let rows = rows(evaluation, recipe);
        let columns = rows.first().map_or(0, Vec::len);
        let width = |column: usize| rows.iter().map(|row| escape(&row[column]).chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &rows {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{:<width$}", escape(cell)));
            out.push_str(cells.collect::<Vec<_>>().join("   ").trim_end());
            out.push('\n');
        }
        for line in notes(recipe) {
            out.push_str(&escape(&line));
            out.push('\n');
        }
        out.push('\n');
    }
    for line in closing(evaluation) {
        out.push_str(&escape(&line));
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out + "\n"
}

/// Returns an evaluation as markdown.
pub fn markdown(evaluation: &Evaluation) -> String {
    let mut out = String::new();
    for recipe in &evaluation.recipes {
        let mut rows = rows(evaluation, recipe).into_iter();
        let head = rows.next().unwrap_or_default();
        let line =
            |row: &[String]| format!("| {} |\n", row.iter().map(|text| cell(text)).collect::<Vec<_>>().join(" | "));
        out.push_str(&line(&head));
        out.push_str(&format!("|{}\n", "---|".repeat(head.len())));
        rows.for_each(|row| out.push_str(&line(&row)));
        let notes: Vec<String> = notes(recipe).iter().map(|note| format!("- {}\n", prose(note, 400))).collect();
        out.push_str(&format!("\n{}\n", notes.concat()));
    }
    let closing: Vec<String> = closing(evaluation).iter().map(|line| format!("- {}\n", prose(line, 400))).collect();
    out.push_str(&closing.concat());
    out.truncate(out.trim_end().len());
    out + "\n"
}

/// Returns the table of a recipe: the head, what holds for all cases, and each case.
fn rows(evaluation: &Evaluation, recipe: &RecipeEvaluation) -> Vec<Vec<String>> {
    let version = recipe.recipe.version.as_ref().map(|version| format!("@{version}")).unwrap_or_default();
    let cases = recipe.models.first().map_or(0, |model| model.cases.len());
    let head = format!("recipe {}{version}  cases {cases}  runs {}", recipe.recipe.name, evaluation.runs);
    let row = |label: String, of: &dyn Fn(&ModelEvaluation) -> String| -> Vec<String> {
        std::iter::once(label).chain(recipe.models.iter().map(of)).collect()
    };
    let mut rows = vec![
        row(head, &|model| format!("model {}", model.model)),
        row("pass rate".into(), &rate),
        row(format!("all {0} of {0} / at least 1", evaluation.runs), &|model| {
            format!("{} / {}", model.every, model.any)
        }),
        row("tokens / cost / time, median".into(), &medians),
    ];
    for at in 0..cases {
        let name = recipe.models.first().map(|model| model.cases[at].case.name.clone()).unwrap_or_default();
        rows.push(row(name, &|model| of_case(recipe, model, &model.cases[at])));
    }
    rows
}

fn rate(model: &ModelEvaluation) -> String {
    let rate = &model.rate;
    let (low, high) = (percent(rate.interval.low), percent(rate.interval.high));
    format!("{}/{}  {}% [{low}, {high}]", rate.passes.passed, rate.passes.runs, percent(rate.rate))
}

fn medians(model: &ModelEvaluation) -> String {
    let unknown = || "?".to_owned();
    let tokens = model.tokens.map_or_else(unknown, |spread| words::tokens(spread.median.round() as u64));
    let cost = model.cost_usd.map_or_else(unknown, |spread| match spread.median {
        0.0 => "$0".to_owned(),
        median => words::cost(median),
    });
    let time = model.duration_ms.map_or_else(unknown, |spread| words::time(spread.median.round() as u64));
    format!("{tokens} / {cost} / {time}")
}

/// Returns passed and all runs of a case, with a mark where they were lost.
fn of_case(recipe: &RecipeEvaluation, model: &ModelEvaluation, case: &CaseEvaluation) -> String {
    let is_lost = |compared: &Compared| compared.model == model.model && compared.lost.contains(&case.case.name);
    let mark = if recipe.comparisons.iter().any(is_lost) { "  <" } else { "" };
    format!("{}/{}{mark}", case.rate.passes.passed, case.rate.passes.runs)
}

/// Returns the comparisons, and why runs failed.
fn notes(recipe: &RecipeEvaluation) -> Vec<String> {
    let mut notes: Vec<String> = recipe.comparisons.iter().flat_map(comparison).collect();
    let failed: Vec<String> = recipe
        .models
        .iter()
        .flat_map(|model| {
            let of = if recipe.models.len() > 1 { format!(" with {}", model.model) } else { String::new() };
            model.cases.iter().filter_map(move |case| Some(format!("{}{of} {}", case.case.name, failures(case)?)))
        })
        .collect();
    notes.extend(failed.iter().take(FAILURES).cloned());
    if let Some(more) = failed.len().checked_sub(FAILURES).filter(|more| *more > 0) {
        notes.push(format!("{more} more have failed runs; eval.json says why"));
    }
    notes
}

/// Returns how many runs of a case did not pass, and why the first of them did not.
fn failures(case: &CaseEvaluation) -> Option<String> {
    let failed: Vec<_> = case.outcomes.iter().filter(|run| run.verdict != RunVerdict::Passed).collect();
    let first = failed.first()?;
    let what = match first.verdict {
        RunVerdict::DidNotHappen => "did not happen",
        RunVerdict::Passed | RunVerdict::Failed => "failed",
    };
    let problem = one_line_of(first.problems.first().map_or("", String::as_str), PROBLEM);
    let all = case.outcomes.len();
    Some(format!("{what} in {} of {all} runs, first in run {}: {problem}", failed.len(), first.run))
}

/// Returns what a comparison shows, and what it leaves out.
fn comparison(compared: &Compared) -> Vec<String> {
    let other = match (compared.with.baseline, compared.with.model == compared.model) {
        (false, _) => compared.with.model.clone(),
        (true, true) => "the baseline".to_owned(),
        (true, false) => format!("the baseline's {}", compared.with.model),
    };
    let shown = &compared.comparison;
    let points = |share: f64| format!("{:.0}", share * 100.0);
    let Interval { low, high } = shown.interval;
    let what = match shown.verdict {
        Verdict::Better => format!("better by {} points [{}, {}]", points(shown.difference), points(low), points(high)),
        Verdict::Worse => {
            format!("worse by {} points [{}, {}]", points(-shown.difference), points(-high), points(-low))
        }
        Verdict::NoDifferenceShown => {
            format!("no difference shown: {:+.0} points [{}, {}]", shown.difference * 100.0, points(low), points(high))
        }
    };
    let mut lines = vec![match compared.cases {
        0 => format!("{} beside {other}: no case is the same", compared.model),
        _ => format!("{} beside {other}: {what}, p {}", compared.model, probability(shown.p)),
    }];
    if !compared.left_out.is_empty() {
        lines.push(format!("not compared, because they are new, gone or changed: {}", compared.left_out.join(", ")));
    }
    lines
}

/// Returns what holds for the whole evaluation: warnings, gates, and runs that did not happen.
fn closing(evaluation: &Evaluation) -> Vec<String> {
    let mut lines: Vec<String> = evaluation.warnings.iter().map(|warning| format!("warning: {warning}")).collect();
    for gate in &evaluation.gates {
        let verdict = if gate.passed { "passed" } else { "FAILED" };
        lines.push(format!("gate {} {verdict}: {} with {}: {}", gate.gate, gate.recipe, gate.model, gate.found));
    }
    match evaluation.missing {
        0 => {}
        missing if evaluation.is_incomplete() => {
            lines.push(format!(
                "no verdict: {} did not happen; run the same command again",
                words::count(missing, "run")
            ));
        }
        missing => lines.push(format!("{} did not happen and count for nothing", words::count(missing, "run"))),
    }
    lines
}

fn probability(p: f64) -> String {
    if p < 0.005 { "below 0.01".to_owned() } else { format!("{p:.2}") }
}

fn percent(share: f64) -> String {
    format!("{:.0}", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::evaluation::{CaseFacts, Design, Outcome, Run};
    use crate::batch::gates::Gates;
    use crate::event::RecipeFacts;

    /// Ten cases, of which model B loses one whole and another in part.
    fn evaluation(missing: bool) -> Evaluation {
        let cases = (0..10).map(|case| CaseFacts { name: format!("case-{case}"), sha256: format!("{case}") }).collect();
        let recipe = RecipeFacts { name: "fix-lint".into(), version: Some("1.0.0".into()), sha256: "00".into() };
        let design = Design { recipes: vec![(recipe, cases)], models: vec!["A".into(), "B".into()], runs: 5 };
        let passes = |model: &str, case: u32, run: u32| match (model, case) {
            ("A", 0) => false,
            ("B", 0 | 1) => false,
            ("B", 2 | 3) => run < 3,
            _ => true,
        };
        let mut outcomes = Vec::new();
        for (model, cost) in [("A", Some(0.012)), ("B", None)] {
            for (case, run) in (0..10).flat_map(|case| (1..=5).map(move |run| (case, run))) {
                let verdict = match passes(model, case, run) {
                    _ if missing && case > 4 => RunVerdict::DidNotHappen,
                    true => RunVerdict::Passed,
                    false => RunVerdict::Failed,
                };
                let problems = match verdict {
                    RunVerdict::Passed => Vec::new(),
                    RunVerdict::Failed | RunVerdict::DidNotHappen => vec!["it ends with 64, not 0\nmore".into()],
                };
                outcomes.push(Outcome {
                    recipe: "fix-lint".into(),
                    case: format!("case-{case}"),
                    model: model.into(),
                    run: Run {
                        run,
                        verdict,
                        exit_code: 0,
                        problems,
                        tokens: Some(18_204),
                        cost_usd: cost,
                        turns: 3,
                        duration_ms: 9_000,
                    },
                });
            }
        }
        Evaluation::of(&design, outcomes, None).gated(&Gates { min_rate: Some(0.85), ..Gates::default() })
    }

    #[test]
    fn people_see_rates_with_intervals_verdicts_and_why_runs_failed() {
        insta::assert_snapshot!(text(&evaluation(false)));
    }

    #[test]
    fn a_pull_request_gets_a_table() {
        insta::assert_snapshot!(markdown(&evaluation(false)));
    }

    #[test]
    fn without_enough_runs_there_is_no_verdict() {
        let text = text(&evaluation(true));
        assert!(text.ends_with("no verdict: 50 runs did not happen; run the same command again\n"), "{text}");
        assert!(!text.contains("beside") && !text.contains("gate "), "{text}");
    }
}
