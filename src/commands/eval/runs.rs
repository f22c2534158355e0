//! Runs the cases of an evaluation as items of a batch, each in a project of its own, and keeps how each went.

use std::path::PathBuf;

use futures_util::future::LocalBoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::cases::{Case, Subject};
use super::error::EvalError;
use crate::batch::budget::is_of_batch;
use crate::batch::evaluation::{Outcome, Run, RunVerdict, happened};
use crate::batch::item::{Item, stem_of_key};
use crate::batch::plan::files;
use crate::batch::shard::{self, Shard};
use crate::bounded;
use crate::cli::eval::MOST_RUNS;
use crate::commands::recipe_case::CaseProject;
use crate::commands::recipe_fixture::Surroundings;
use crate::emit::Report;
use crate::exit::Exit;
use crate::run::error::Failure;
use crate::run::many::Work;
use crate::run::many::item::{not_run, run};
use crate::run::many::seat::Seat;
use crate::run::place::Place;
use crate::run::stages::Shared;
use crate::settings::Environment;
use crate::workspace::batch_folder::{BatchFolder, FolderError};
use crate::workspace::batch_reader::BatchReader;

/// A run of a case with a model, and the item that it is in the batch.
pub(super) struct Planned<'a> {
    /// The recipe.
    pub(super) subject: &'a Subject,
    /// The case.
    pub(super) case: &'a Case,
    /// The model; `None`: whatever is configured.
    pub(super) model: Option<&'a str>,
    /// Which run it is, from 1.
    pub(super) run: u32,
    /// The item.
    pub(super) item: Item,
}

/// How a run went: the content of `items/….run.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    /// The digest of what decides about the run.
    sha256: String,
    /// The digest of the case that it was judged by.
    case_sha256: String,
    /// How it went.
    run: Run,
}

/// Lists the runs of an evaluation. Those of several models alternate, so that a slow hour is shared by all.
pub(super) fn planned<'a>(subjects: &'a [Subject], models: &'a [Option<String>], runs: u32) -> Vec<Planned<'a>> {
    let mut planned = Vec::new();
    for subject in subjects {
        for case in &subject.cases {
            for run in 1..=runs {
                for model in models {
                    let model = model.as_deref();
                    let n = u32::try_from(planned.len() + 1).unwrap_or(u32::MAX);
                    let item = item(n, subject, case, model, run);
                    planned.push(Planned { subject, case, model, run, item });
                }
            }
        }
    }
    planned
}

/// Returns how messages and files call a model.
pub(super) fn name(model: Option<&str>) -> &str {
    model.unwrap_or("configured")
}

fn item(n: u32, subject: &Subject, case: &Case, model: Option<&str>, run: u32) -> Item {
    let (recipe, model) = (&subject.facts.name, name(model));
    let key = format!("{recipe}/{}/{model}/{run}", case.facts.name);
    let fields = json!({"recipe": recipe, "case": case.facts.name, "model": model, "run": run});
    let Value::Object(fields) = fields else { unreachable!("it is written as an object") };
    Item::new(n, key, fields, &format!("{}\n{}", subject.behaviour, case.content))
}

/// Reads the record of a run, if it has one.
fn read(folder: &BatchFolder, item: &Item) -> Result<Option<Record>, EvalError> {
    let path = folder.path().join(files::OF_ITEMS).join(record_name(item));
    let shown = || path.display().to_string();
    let bytes = bounded::optional(bounded::regular(&path, bounded::PRODUCT))
        .map_err(|cause| EvalError::Unreadable { path: shown(), cause })?;
    let parse = |bytes: Vec<u8>| serde_json::from_slice(&bytes);
    bytes.map(parse).transpose().map_err(|cause| EvalError::Record { path: shown(), cause })
}

/// Returns the number of runs of which one is recorded.
pub(super) fn recorded(subjects: &[Subject], models: &[Option<String>], folder: &BatchFolder) -> u32 {
    let is_recorded = |run: &u32| {
        subjects.iter().flat_map(|subject| subject.cases.iter().map(move |case| (subject, case))).any(
            |(subject, case)| {
                let of_model = |model: &Option<String>| item(1, subject, case, model.as_deref(), *run);
                models.iter().any(|model| recording(folder, &of_model(model)).is_file())
            },
        )
    };
    (1..=MOST_RUNS).rev().find(is_recorded).unwrap_or_default()
}

fn recording_name(item: &Item) -> String {
    format!("{}.jsonl", stem_of_key(&item.key))
}

fn record_name(item: &Item) -> String {
    format!("{}.run.json", stem_of_key(&item.key))
}

/// Returns where the recording of a run is.
fn recording(folder: &BatchFolder, item: &Item) -> PathBuf {
    folder.path().join(files::OF_ITEMS).join(recording_name(item))
}

/// Takes over the runs that shards of this evaluation have recorded below its directory.
pub(super) fn gather(planned: &[Planned<'_>], folder: &BatchFolder) -> Result<(), Failure> {
    let unreadable = |cause| EvalError::Unreadable { path: folder.path().display().to_string(), cause };
    let shards =
        BatchReader::open(folder.path()).and_then(|reader| reader.below(shard::DIRECTORY)).map_err(unreadable)?;
    for item in planned.iter().map(|planned| &planned.item) {
        for shard in &shards {
            if read(folder, item)?.is_some() {
                break;
            }
            let Some(record) = shard.item_file(&record_name(item)).map_err(unreadable)? else { continue };
            let recording = recording_name(item);
            if let Some(bytes) = shard.item_file(&recording).map_err(unreadable)? {
                folder.keep(&recording, &bytes)?;
            }
            folder.keep(&record_name(item), &record)?;
        }
    }
    Ok(())
}

/// What is left to do for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// Nothing.
    Nothing,
    /// It is judged again, from its recording.
    Judging,
    /// All of it.
    Running,
}

impl Planned<'_> {
    /// Decides what is left to do. A run that did not happen, or of another recipe, is made anew; one whose case expects
    /// something else today is judged again.
    pub(super) fn left(&self, folder: &BatchFolder, replay: bool, shard: Option<Shard>) -> Result<Left, EvalError> {
        if shard.is_some_and(|shard| !shard.has(self.item.n)) {
            return Ok(Left::Nothing);
        }
        let is_recorded = recording(folder, &self.item).is_file();
        if replay {
            return Ok(if is_recorded { Left::Judging } else { Left::Nothing });
        }
        Ok(match read(folder, &self.item)? {
            Some(record) if record.sha256 == self.item.sha256 && record.run.verdict != RunVerdict::DidNotHappen => {
                match record.case_sha256 == self.case.facts.sha256 {
                    true => Left::Nothing,
                    false if is_recorded => Left::Judging,
                    false => Left::Running,
                }
            }
            Some(_) | None => Left::Running,
        })
    }

    /// Returns how the run went, if it is known.
    pub(super) fn outcome(&self, folder: &BatchFolder) -> Result<Option<Outcome>, EvalError> {
        let record = read(folder, &self.item)?.filter(|record| record.sha256 == self.item.sha256);
        Ok(record.map(|record| Outcome {
            recipe: self.subject.facts.name.clone(),
            case: self.case.facts.name.clone(),
            model: name(self.model).to_owned(),
            run: record.run,
        }))
    }
}

/// The runs of an evaluation, as the work of a batch.
pub(super) struct Runs<'a> {
    /// The runs, by the numbers of their items.
    pub(super) planned: &'a [Planned<'a>],
    /// What is left of each.
    pub(super) left: &'a [Left],
    /// Where recordings and records are.
    pub(super) folder: &'a BatchFolder,
    /// The checkout around the recipes.
    pub(super) around: &'a Surroundings,
    /// The environment of this process.
    pub(super) environment: &'a Environment,
}

impl Work for Runs<'_> {
    fn run<'a>(&'a self, item: &'a Item, seat: &'a Seat<'a>) -> LocalBoxFuture<'a, Box<Report>> {
        Box::pin(async move {
            let at = item.n as usize - 1;
            let (planned, left) = (&self.planned[at], self.left[at]);
            match self.one(planned, left, seat).await {
                Ok(report) => report,
                Err(failure) => {
                    let run = did_not_happen(planned.run, &failure);
                    let kept = self.keep(planned, run);
                    not_run(kept.err().map_or(failure, Failure::from))
                }
            }
        })
    }
}

impl Runs<'_> {
    async fn one(&self, planned: &Planned<'_>, left: Left, seat: &Seat<'_>) -> Result<Box<Report>, Failure> {
        let project = CaseProject::make(planned.case.fixture.clone(), self.around).map_err(EvalError::from)?;
        let mut arguments = project.arguments(&planned.subject.file, &planned.case.case);
        arguments.model.model = planned.model.map(str::to_owned);
        arguments.model.seed = planned.subject.seed.is_none().then_some(u64::from(planned.run));
        let recording = recording(self.folder, &planned.item);
        match left {
            Left::Judging => arguments.test.replay = Some(recording),
            Left::Running | Left::Nothing => arguments.test.record = Some(recording),
        }
        let environment = project.environment(self.environment, true);
        let place = Place::open(arguments.input.workspace.cd.as_deref(), &environment)?;
        let shared = Shared::open(&arguments, &environment, place)?;
        let report = run(&shared, &arguments, Some(&planned.subject.recipe), Map::new(), None, seat).await;
        let result = serde_json::to_value(&report).unwrap_or_default();
        let exit_code = report.ending.exit_code;
        let wanted = planned.case.case.expect.as_ref().and_then(|expect| expect.exit).unwrap_or(0);
        let exit = Exit::of_code(exit_code).unwrap_or(Exit::Failed);
        let budget = report.error.as_ref().and_then(|error| error.budget.as_ref());
        let (verdict, problems) = match happened(exit, wanted, budget.is_some_and(is_of_batch)) {
            false => (RunVerdict::DidNotHappen, vec![message(&report)]),
            true => {
                let judged = project.judge(&planned.case.case, exit_code, &result, &environment).await;
                let problems = judged.map_err(EvalError::from)?;
                (if problems.is_empty() { RunVerdict::Passed } else { RunVerdict::Failed }, problems)
            }
        };
        let waited = u64::try_from(seat.waited().as_millis()).unwrap_or(u64::MAX);
        let run = Run {
            run: planned.run,
            verdict,
            exit_code,
            problems,
            tokens: report.usage.total_tokens.or(report.usage.estimated),
            cost_usd: report.total_cost_usd,
            turns: u64::from(report.totals.num_turns),
            duration_ms: report.totals.duration_ms.saturating_sub(waited),
        };
        self.keep(planned, run)?;
        Ok(report)
    }

    fn keep(&self, planned: &Planned<'_>, run: Run) -> Result<(), FolderError> {
        let (sha256, case_sha256) = (planned.item.sha256.clone(), planned.case.facts.sha256.clone());
        let record = serde_json::to_string(&Record { sha256, case_sha256, run }).unwrap_or_default() + "\n";
        self.folder.keep(&record_name(&planned.item), record.as_bytes())
    }
}

fn message(report: &Report) -> String {
    report.error.as_ref().map(|error| error.message.clone()).unwrap_or_default()
}

/// Returns the record of a run that could not be made or judged.
fn did_not_happen(run: u32, failure: &Failure) -> Run {
    Run {
        run,
        verdict: RunVerdict::DidNotHappen,
        exit_code: failure.exit.code(),
        problems: vec![failure.error.message.clone()],
        tokens: None,
        cost_usd: None,
        turns: 0,
        duration_ms: 0,
    }
}
