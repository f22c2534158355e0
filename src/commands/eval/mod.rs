//! Implements `qwen recipe eval`: runs the cases of recipes several times with one or more models, and says how often they
//! pass.

mod cases;
pub(in crate::commands) mod error;
mod runs;

use std::collections::VecDeque;
use std::io::{IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::batch::{existing, holder, listen, refuse_committed};
use super::console::print;
use crate::batch::budget::{Amount, Budget, Totals};
use crate::batch::evaluation::Evaluation;
use crate::batch::gates::Gates;
use crate::batch::journal::{Journal, Keep};
use crate::batch::pace::Limits;
use crate::batch::plan::{self, Batch, Source};
use crate::batch::shard::Shard;
use crate::batch::tally::{Stop, Tally};
use crate::bounded;
use crate::checkouts::refuse_links;
use crate::cli::eval::{EvalArgs, EvalFormat, GateArgs};
use crate::commands::recipe_fixture::Surroundings;
use crate::emit::{BatchFormat, Known, Progress, Screen, Verbosity, evaluation as shown, to_pretty};
use crate::event::RunError;
use crate::exit::Exit;
use crate::model::paced::Gate;
use crate::run::Failure;
use crate::run::many::records::Records;
use crate::run::many::{self, Options, Plan, Turn};
use crate::run::output::outputs::{self, checkouts};
use crate::run::place::Place;
use crate::settings::Environment;
use crate::workspace::batch_folder::BatchFolder;
use crate::workspace::item_list::ListWriter;
use cases::Subject;
use error::EvalError;
use runs::{Left, Runs};

/// The kind of source that `batch.json` names.
const SOURCE: &str = "cases";

/// Runs of each case with each model if none is said.
const RUNS: u32 = 5;

/// Tries of a run whose provider is unavailable.
const ATTEMPTS: u32 = 3;

/// What running items may still take when the evaluation is stopped.
const DRAIN: Duration = Duration::from_secs(10);

pub(super) fn run(args: &EvalArgs, environment: &Environment, out: &mut dyn Write) -> Result<Exit, Failure> {
    let place = Place::open(args.workspace.cd.as_deref(), environment)?;
    let subjects = cases::subjects(args, environment, place.top())?;
    let baseline = args.gates.baseline.as_ref().map(|path| baseline(path, environment)).transpose()?;
    let models = models(args, environment);
    let shard = args.shard.as_deref().map(|text| Shard::named(text, &|name| environment.value(name))).transpose();
    let shard = shard.map_err(EvalError::Shard)?;
    let folder = open((args, shard), &subjects, &models, environment, &place)?;
    let recorded = || runs::recorded(&subjects, &models, &folder);
    let runs_of_each = args.runs.unwrap_or_else(|| if args.replay { recorded() } else { RUNS });
    let planned = runs::planned(&subjects, &models, runs_of_each);
    if shard.is_none() {
        runs::gather(&planned, &folder)?;
    }
    let left = planned.iter().map(|planned| planned.left(&folder, args.replay, shard));
    let left: Vec<Left> = left.collect::<Result<_, _>>()?;
    if args.replay && left.iter().all(|left| *left == Left::Nothing) {
        return Err(EvalError::NothingRecorded(args.out.display().to_string()).into());
    }
    let around = Surroundings::open(environment)?;
    let runs = Runs { planned: &planned, left: &left, folder: &folder, around: &around, environment };
    let stopped = work(args, shard, &runs, out)?;
    if let Some(shard) = shard {
        return of_shard(shard, &runs, stopped, out);
    }
    let outcomes = planned.iter().map(|planned| planned.outcome(&folder)).collect::<Result<Vec<_>, _>>()?;
    let names = models.iter().map(|model| runs::name(model.as_deref()).to_owned()).collect();
    let design = cases::design(&subjects, names, runs_of_each);
    let outcomes = outcomes.into_iter().flatten().collect();
    let mut evaluation = Evaluation::of(&design, outcomes, baseline.as_ref()).gated(&gates(&args.gates));
    if runs_of_each > 1 && subjects.iter().any(|subject| subject.is_cold) {
        evaluation.warnings.push(format!("at temperature 0 the {runs_of_each} runs of a case may all be the same"));
    }
    if let Some(Failure { exit, .. }) = &stopped {
        evaluation.ends_with(*exit);
    }
    written(args, &folder, &evaluation, out)?;
    match stopped {
        Some(failure) => Err(failure),
        None => Ok(Exit::of_code(evaluation.exit_code).unwrap_or(Exit::Failed)),
    }
}

/// Says how far a shard is. What the runs come to is said of all shards together.
fn of_shard(shard: Shard, runs: &Runs<'_>, stopped: Option<Failure>, out: &mut dyn Write) -> Result<Exit, Failure> {
    if let Some(failure) = stopped {
        return Err(failure);
    }
    let own = || runs.planned.iter().filter(|planned| shard.has(planned.item.n));
    let left = own().map(|planned| planned.left(runs.folder, false, Some(shard)));
    let left = left.collect::<Result<Vec<_>, _>>()?.into_iter().filter(|left| *left != Left::Nothing).count();
    let all = own().count();
    print(
        out,
        &format!("shard {shard}: {} of {all} runs done; the same command without --shard evaluates them\n", all - left),
    )?;
    Ok(if left == 0 { Exit::Ok } else { Exit::Unavailable })
}

/// Writes the evaluation to its directory, and prints it.
fn written(
    args: &EvalArgs,
    folder: &BatchFolder,
    evaluation: &Evaluation,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let (object, markdown) = (to_pretty(evaluation) + "\n", shown::markdown(evaluation));
    // What was concluded from all recordings is worth more than that some are missing.
    if !(args.replay && evaluation.is_incomplete()) {
        folder.replace("eval.json", object.as_bytes())?;
        folder.replace("eval.md", markdown.as_bytes())?;
    }
    let text = match args.output_format {
        EvalFormat::Text => shown::text(evaluation),
        EvalFormat::Result => object,
        EvalFormat::Markdown => markdown,
    };
    print(out, &text)
}

/// Opens the directory of an evaluation: a new one, or one that goes on.
fn open(
    (args, shard): (&EvalArgs, Option<Shard>),
    subjects: &[Subject],
    models: &[Option<String>],
    environment: &Environment,
    place: &Place,
) -> Result<BatchFolder, Failure> {
    let out = environment.cwd.join(&args.out);
    let path = shard.map_or_else(|| out.clone(), |shard| out.join(shard.directory()));
    let shown = || args.out.display().to_string();
    refuse_links(&existing(&path).0.join(plan::files::BATCH), &checkouts(&place.checkout.around))
        .and_then(|()| refuse_committed(&path, &place.checkout.around))
        .map_err(|cause| EvalError::Link { path: shown(), cause })?;
    let folder = BatchFolder::open(&path, &holder())?;
    if folder.batch()?.is_some_and(|batch| batch.source.kind != SOURCE) {
        return Err(EvalError::OtherBatch(shown()).into());
    }
    let names: Vec<&str> = models.iter().map(|model| runs::name(model.as_deref())).collect();
    let plan = plan::Plan {
        recipe: subjects.first().map(|subject| subject.facts.clone()),
        model: names.join(","),
        ..plan::Plan::default()
    };
    folder.begin(&Batch {
        schema_version: plan::SCHEMA_VERSION,
        batch_id: outputs::new_id(),
        created: jiff::Timestamp::now().to_string(),
        plan_sha256: plan.sha256(),
        plan,
        source: Source { kind: SOURCE.to_owned(), of: args.recipes.clone(), key: None },
        shard: shard.map(Shard::facts),
        ..Batch::default()
    })?;
    Ok(folder)
}

/// Makes the runs that are left, several at a time. Returns what stopped them before their end.
fn work(
    args: &EvalArgs,
    shard: Option<Shard>,
    runs: &Runs<'_>,
    out: &mut dyn Write,
) -> Result<Option<Failure>, Failure> {
    // What is only judged again is no part of the journal.
    let folder = (!args.replay).then_some(runs.folder);
    let mut list = ListWriter::begin(folder)?;
    for planned in runs.planned {
        list.add(&planned.item).map_err(|error| Failure::output(format!("cannot write the list of runs: {error}")))?;
    }
    let list = list.end(folder)?;
    let mut journal = Journal::default();
    if let Some(folder) = folder {
        folder.read_journal(&mut |line| journal.add(line))?;
    }
    let left = runs.planned.iter().zip(runs.left).filter(|(_, left)| **left != Left::Nothing);
    let queue: VecDeque<Turn> = left.map(|(planned, _)| Turn { n: planned.item.n, tries: 0, alone: false }).collect();
    let total = queue.len() as u64;
    let share = |total: f64| shard.map_or(total, |shard| total / f64::from(shard.of()));
    let totals = Totals { cost_usd: args.total_cost_usd.map(share), tokens: None };
    let budget = Budget::open(totals, Totals::default(), journal.spent, Amount::default());
    let options = Options {
        jobs: args.jobs,
        attempts: ATTEMPTS,
        retry_on: vec![Exit::Unavailable.code()],
        tries_again: true,
        max_failures: None,
        drain: DRAIN,
        wall_time: None,
        started: Instant::now(),
        needs_price: args.total_cost_usd.is_some(),
    };
    let gate = Gate::new(Limits { jobs: args.jobs, requests_a_minute: None, tokens_a_minute: None });
    // Cases differ in their prompts: none waits for the cache that another one warms.
    gate.follow();
    let known = Known { total, done: 0, spent_usd: journal.spent.cost_usd, total_usd: args.total_cost_usd };
    let mut progress = progress(runs.environment, out, known);
    let (records, said) = Records::new(folder, Keep::None, journal);
    let plan = Plan { queue, tally: Tally::new(total), budget };
    let ended = many::run(runs, &list, &records, (&options, &Arc::new(gate)), plan, &mut || {
        listen(&said, &mut progress);
    })?;
    Ok(match ended.stop {
        Some(Stop::Signal(exit) | Stop::Same(exit)) => Some(stopped(exit, ended.error)),
        Some(Stop::Total) => Some(stopped(Exit::Budget, ended.error)),
        Some(Stop::Unavailable | Stop::Failures) | None => None,
    })
}

fn stopped(exit: Exit, error: Option<RunError>) -> Failure {
    Failure { exit, error: Box::new(error.unwrap_or_default()) }
}

/// Returns what says on standard error how far the runs are.
fn progress<'o>(environment: &Environment, out: &'o mut dyn Write, known: Known) -> Progress<'o> {
    let is_terminal = std::io::stderr().is_terminal();
    let screen = if is_terminal { Screen::Live } else { Screen::Plain(Box::new(std::io::stderr())) };
    let look = outputs::terminal(environment, &screen, false);
    Progress::begin(out, (screen, look, false), BatchFormat::Text, Verbosity::Normal, known)
}

/// Returns the models: those of the flag, else the one that the environment names.
fn models(args: &EvalArgs, environment: &Environment) -> Vec<Option<String>> {
    match args.model.is_empty() {
        false => args.model.iter().cloned().map(Some).collect(),
        true => vec![environment.value("QWEN_MODEL").or_else(|| environment.value("OPENAI_MODEL"))],
    }
}

fn gates(args: &GateArgs) -> Gates {
    Gates {
        min_rate: args.min_rate,
        min_case_rate: args.min_case_rate,
        min_rate_lower: args.min_rate_lower,
        no_regression: args.no_regression,
        max_cost_rise: args.max_cost_rise,
        max_tokens_rise: args.max_tokens_rise,
    }
}

/// Reads an earlier evaluation: a directory has it as `eval.json`.
fn baseline(path: &Path, environment: &Environment) -> Result<Evaluation, EvalError> {
    let whole = environment.cwd.join(path);
    let file: PathBuf = if whole.is_dir() { whole.join("eval.json") } else { whole };
    let shown = path.display().to_string();
    let bytes = bounded::named(&file, bounded::PRODUCT)
        .map_err(|cause| EvalError::Unreadable { path: shown.clone(), cause })?;
    serde_json::from_slice(&bytes).map_err(|cause| EvalError::Baseline { path: shown, cause })
}
