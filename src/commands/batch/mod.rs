//! Implements `qwen batch`: runs one recipe over many items, or continues a batch.

mod answers;
pub(super) mod clones;
mod delivery;
mod error;
mod folder;
mod items;
mod prepared;
mod provider;
pub(super) mod provider_error;
mod queue;
mod repositories;
mod source;
mod task;

use std::io::{IsTerminal as _, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::base::private_file;
use crate::batch::budget::{Budget, Totals};
use crate::batch::pace::Limits;
use crate::batch::plan::{self, Batch};
use crate::batch::result::{BatchResult, Combined, Concurrency, PatchFacts};
use crate::batch::shard::Shard;
use crate::batch::tally::{Counts, Share, Stop};
use crate::checkouts::refuse_links_out;
use crate::cli::RunArgs;
use crate::cli::batch::BatchArgs;
use crate::commands::batch_directory::opened;
use crate::emit::safe::one_line;
use crate::emit::{BatchFormat, Colours, FailedItem, Known, Progress, Screen, Verbosity, to_line};
use crate::event::RunError;
use crate::exit::Exit;
use crate::model::paced::Gate;
use crate::policy::BatchLimits;
use crate::policy::layers::lowest;
use crate::run::Failure;
use crate::run::error::SetupError;
use crate::run::many::local::Beside;
use crate::run::many::records::{Records, Said};
use crate::run::many::{self, Options, Outcome};
use crate::run::output::outputs;
use crate::run::place::Place;
use crate::run::recipe::{RecipeContext, bind_item};
use crate::run::stages::Shared;
use crate::run::stages::telemetry::Reported;
use crate::settings::Environment;
use crate::telemetry::{BatchEnd, BatchTelemetry};
use crate::workspace::batch_folder::BatchFolder;
use crate::workspace::item_list::ItemList;

use clones::Clones;
use delivery::{AtEnd, Deliverer};
use error::BatchError;
use folder::Opened;
pub(super) use folder::{existing, holder, refuse_committed};
use items::Items;
use provider::Provider;
use queue::Queue;
use task::Task;

/// How often the line that says how far it is changes.
const TICK: Duration = Duration::from_millis(250);

/// Runs a batch, or continues one.
pub(super) async fn run(
    arguments: &BatchArgs,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    delivery::check_flags(arguments)?;
    provider::check_flags(arguments)?;
    let place = Place::open(arguments.task.workspace.cd.as_deref(), environment)?;
    let of_items = arguments.of_items();
    let server = Beside::start(&of_items, environment, &place)?;
    let of_items = server.as_ref().map_or_else(|| of_items.clone(), |server| server.asked(&of_items));
    let mut shared = Shared::open(&of_items, environment, place)?;
    let policy_sha256 = shared.policy.policy.facts().sha256;
    // They are the same for all items.
    let warnings = std::mem::take(&mut shared.warnings);
    if arguments.context.strict && !warnings.is_empty() {
        return Err(SetupError::Strict(warnings).into());
    }
    folder::hide(arguments, &mut shared)?;
    if let Some(record) = &arguments.test.record {
        let record = environment.cwd.join(record);
        let made = refuse_links_out(&record).and_then(|()| private_file::folder(&record));
        made.map_err(|error| Failure::output(format!("cannot make --record {}: {error}", record.display())))?;
    }
    let started = Instant::now();
    let arguments = &lowered(arguments, shared.policy.policy.batch());
    provider::check_flags(arguments)?;
    Call { arguments, of_items: &of_items, shared: &shared, policy_sha256, warnings, started }.run(out).await
}

/// Returns the flags with the policy's limits where these are lower.
fn lowered(arguments: &BatchArgs, limits: BatchLimits) -> BatchArgs {
    let mut lowered = arguments.clone();
    let (course, totals) = (&mut lowered.course, &mut lowered.totals);
    course.jobs = course.jobs.min(limits.jobs.unwrap_or(u32::MAX)).max(1);
    totals.total_cost_usd = lowest([totals.total_cost_usd, limits.total_cost_usd]);
    totals.total_wall_time = lowest([totals.total_wall_time, limits.total_wall_time]);
    lowered
}

/// One call of the command.
struct Call<'a> {
    arguments: &'a BatchArgs,
    of_items: &'a RunArgs,
    shared: &'a Shared,
    /// The digest of the policy that the call was given.
    policy_sha256: String,
    /// What the owner should know.
    warnings: Vec<String>,
    started: Instant,
}

impl Call<'_> {
    async fn run(&self, out: &mut dyn Write) -> Result<Exit, Failure> {
        let context = self.context();
        let task = Task::open(self.arguments, &context)?;
        let shard = self.shard()?;
        let plan = self.plan(&task)?;
        let mut opened = folder::open(self.arguments, self.shared, shard, self.batch(plan, shard))?;
        let deliverer = Deliverer { arguments: self.arguments, of_items: self.of_items, shared: self.shared };
        let delivery_policy = deliverer.check(&opened.batch)?;
        let repos = self.arguments.source.repos.as_ref();
        let clones = repos.map(|_| self.clones(&opened.batch.batch_id)).transpose()?;
        let mut queue = Queue::new(self.arguments, shard, &opened.journal);
        let list = self.list(&mut queue, &task, clones.as_ref(), &mut opened)?;
        let gone = Queue::gone(opened.folder.as_ref(), &opened.journal)?;
        let mut warnings = self.warnings.clone();
        warnings.extend(task.warnings.iter().cloned());
        warnings.extend(opened.warnings);
        warnings.extend(gone);
        warnings.extend(shard.map(|shard| format!("this is shard {shard}: it takes its share of every total")));
        let folder = opened.folder.as_ref();
        let (records, said) = Records::new(folder, self.arguments.course.keep, opened.journal);
        let known = Known {
            total: queue.total(),
            done: queue.skipped(),
            spent_usd: 0.0,
            total_usd: self.arguments.totals.total_cost_usd,
        };
        let mut progress = self.progress(out, known);
        warnings.iter().for_each(|warning| progress.warn(warning));
        let gate = self.gate(shard);
        // Each call is a span of its own, also one that goes on with the same batch.
        let reported = Reported::open(self.shared, self.of_items, &outputs::new_id())?;
        let telemetry = reported.map(|reported| reported.batch(list.len().into()));
        let work = self.work(&task, folder);
        let work = Items { telemetry: telemetry.as_ref(), clones: clones.as_ref(), ..work };
        let mut outcome = self.items(work, &list, (&records, said), &gate, queue, &mut progress).await?;
        let at_end = (&mut outcome, &records);
        let delivered = deliverer.deliver(folder, delivery_policy.as_ref(), at_end, &mut progress).await?;
        let journal = records.into_journal();
        let ended = Ended { batch: &opened.batch, list: &list, outcome, delivered, gate: &gate, shard, folder };
        let (result, failed) = self.result(&ended, &journal)?;
        if let Some(problem) = telemetry.and_then(|telemetry| report(telemetry, &opened.batch, &result)) {
            progress.warn(&format!("the batch was not reported whole: {problem}"));
        }
        if let Some(folder) = folder {
            folder.sync()?;
            folder.replace(plan::files::SUMMARY, (to_line(&result) + "\n").as_bytes())?;
        }
        let exit = Exit::of_code(result.exit_code).unwrap_or(Exit::Failed);
        let printed = progress.finish(&result, &failed, &self.next(&result));
        match printed {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                Err(Failure::output(format!("cannot write standard output: {error}")))
            }
            Ok(()) | Err(_) => Ok(exit),
        }
    }

    /// Returns the items as they are worked at, without clones and telemetry.
    fn work<'a>(&'a self, task: &'a Task, folder: Option<&'a BatchFolder>) -> Items<'a> {
        Items {
            arguments: self.arguments,
            of_items: self.of_items,
            shared: self.shared,
            task,
            telemetry: None,
            clones: None,
            folder,
            answers: None,
        }
    }

    /// Makes room for the clones of repositories.
    fn clones(&self, batch: &str) -> Result<Clones, Failure> {
        let Shared { cache, place, environment, .. } = self.shared;
        Clones::open(cache.clone(), place.checkout.programs.clone(), environment, batch)
    }

    /// Reads the list. What is wrong with the first item is wrong with the call.
    fn list(
        &self,
        queue: &mut Queue,
        task: &Task,
        clones: Option<&Clones>,
        opened: &mut Opened,
    ) -> Result<ItemList, Failure> {
        let context = self.context();
        let kept = (opened.folder.as_ref(), &mut opened.journal);
        let list = queue.read((self.arguments, self.shared, clones), kept, &mut |item| {
            let values = task.check_first(item)?;
            bind_item(task.recipe.clone(), self.of_items, &context, &values, ("", ""))?;
            // A repository is what makes an item different from the others.
            if clones.is_none() {
                Task::check_use(item, &values)?;
            }
            Ok(())
        })?;
        let most = self.shared.policy.policy.batch().items;
        match most.filter(|most| u64::from(list.len()) > *most) {
            Some(most) => Err(BatchError::TooMany { items: list.len().into(), most }.into()),
            None => Ok(list),
        }
    }

    /// Runs what is to be run.
    async fn items(
        &self,
        work: Items<'_>,
        list: &ItemList,
        (records, said): (&Records<'_>, Receiver<Said>),
        gate: &Arc<Gate>,
        queue: Queue,
        progress: &mut Progress<'_>,
    ) -> Result<Outcome, Failure> {
        let (course, totals) = (&self.arguments.course, &self.arguments.totals);
        let options = Options {
            jobs: course.jobs,
            attempts: course.item_attempts,
            retry_on: course.retry_on.clone(),
            // Another try is another request of a file.
            tries_again: !self.arguments.api.is_batch(),
            max_failures: course.max_failures,
            drain: course.drain,
            wall_time: totals.total_wall_time,
            started: self.started,
            needs_price: totals.total_cost_usd.is_some(),
        };
        let limits = &self.of_items.limits;
        let of_item = Totals { cost_usd: limits.max_cost_usd, tokens: limits.max_total_tokens };
        let (spent, dearest) = queue.before();
        let budget = Budget::open(self.totals(queue.shard()), of_item, spent, dearest);
        let mut plan = queue.into_plan(list, records, budget)?;
        let Some(folder) = work.folder.filter(|_| self.arguments.api.is_batch()) else {
            return many::run(&work, list, records, (&options, gate), plan, &mut || listen(&said, progress));
        };
        let mut provider = Provider::open(work, (list, records, folder), self.started)?;
        if let Some(halt) = provider.exchange(&mut plan, progress).await? {
            return Ok(Outcome { tally: plan.tally, stop: Some(halt.stop), error: Some(halt.error) });
        }
        let work = Items { answers: Some(provider.answers()), ..work };
        let outcome = many::run(&work, list, records, (&options, gate), plan, &mut || listen(&said, progress))?;
        provider.settle(progress).await?;
        Ok(outcome)
    }

    /// Returns the totals of this call's share.
    fn totals(&self, shard: Option<Shard>) -> Totals {
        let totals = &self.arguments.totals;
        Totals {
            cost_usd: totals.total_cost_usd.map(|total| shard.map_or(total, |shard| total / f64::from(shard.of()))),
            tokens: totals.total_tokens.map(|total| shard.map_or(total, |shard| shard.share(total))),
        }
    }

    /// Opens the gate for all requests.
    fn gate(&self, shard: Option<Shard>) -> Arc<Gate> {
        let totals = &self.arguments.totals;
        let share = |total: u64| shard.map_or(total, |shard| shard.share(total)).max(1);
        let gate = Gate::new(Limits {
            jobs: self.arguments.course.jobs,
            requests_a_minute: totals.rpm.map(|rpm| u32::try_from(share(rpm.into())).unwrap_or(u32::MAX)),
            tokens_a_minute: totals.tpm.map(share),
        });
        if self.arguments.test.replay.is_some() || self.arguments.api.is_batch() {
            // There is no server whose cache could be warm.
            gate.follow();
        }
        Arc::new(gate)
    }

    fn shard(&self) -> Result<Option<Shard>, BatchError> {
        let Some(text) = &self.arguments.course.shard else { return Ok(None) };
        let variables = &self.shared.environment.variables;
        Ok(Some(Shard::named(text, &|name| variables.get(name).cloned())?))
    }

    fn context(&self) -> RecipeContext<'_> {
        let shared = self.shared;
        RecipeContext {
            environment: &shared.environment,
            top: shared.place.top(),
            root: shared.place.root(),
            repository: shared.place.repository(),
            trusted: &shared.trusted,
            tree: None,
            state: shared.place.state().ok(),
        }
    }

    /// Returns what decides about the answers, besides the items.
    fn plan(&self, task: &Task) -> Result<plan::Plan, Failure> {
        let recipe = task.prompt_sha256.is_none().then(|| task.recipe.facts());
        Ok(plan::Plan {
            recipe,
            prompt_sha256: task.prompt_sha256.clone(),
            policy_sha256: self.policy_sha256.clone(),
            model: folder::model(self.of_items, self.shared, &task.recipe)?,
            map: task.map().clone(),
            flags: folder::flags(self.arguments, self.shared)?,
        })
    }

    fn batch(&self, plan: plan::Plan, shard: Option<Shard>) -> Batch {
        let plan_sha256 = plan.sha256();
        Batch {
            schema_version: plan::SCHEMA_VERSION,
            batch_id: outputs::new_id(),
            created: jiff::Timestamp::now().to_string(),
            plan,
            base: self.shared.place.repository().and_then(|repository| repository.head.clone()),
            source: source::described(self.arguments),
            shard: shard.map(Shard::facts),
            plan_sha256,
        }
    }

    fn progress<'o>(&self, out: &'o mut dyn Write, known: Known) -> Progress<'o> {
        let output = &self.arguments.output;
        let environment = &self.shared.environment;
        let is_terminal = std::io::stderr().is_terminal();
        let screen = if is_terminal { Screen::Live } else { Screen::Plain(Box::new(std::io::stderr())) };
        let colours = Colours::from_environment(output.color, |name| environment.variables.get(name).cloned());
        let colour = colours.on(is_terminal);
        let look = outputs::terminal(environment, &screen, colour);
        let verbosity = match (output.quiet, output.verbose) {
            (true, _) => Verbosity::Quiet,
            (false, 0) => Verbosity::Normal,
            (false, _) => Verbosity::Verbose,
        };
        let usual = if self.arguments.course.out.is_some() { BatchFormat::Text } else { BatchFormat::Jsonl };
        Progress::begin(out, (screen, look, colour), output.output_format.unwrap_or(usual), verbosity, known)
    }

    /// Returns how the batch ended, and the items that failed.
    fn result(
        &self,
        ended: &Ended<'_>,
        journal: &crate::batch::journal::Journal,
    ) -> Result<(BatchResult, Vec<FailedItem>), Failure> {
        let Ended { batch, list, outcome, delivered, gate, shard, .. } = ended;
        let exit = ended.exit(self.arguments.course.allow_failures);
        let counts = outcome.tally.counts();
        let notable = queue::notable(list, *shard, journal)?;
        let failed: Vec<FailedItem> = notable
            .iter()
            .filter_map(|item| Some(FailedItem { key: item.key.clone(), exit_code: item.failed? }))
            .collect();
        let patches = notable.iter().filter_map(|item| {
            let own = delivered.branches.iter().find(|branch| branch.key == item.key && branch.commit.is_some());
            let mut patch = item.patch.clone()?;
            if let Some(own) = own {
                (patch.branch, patch.commit) = (Some(own.name.clone()), own.commit.clone());
            }
            Some(patch)
        });
        let patches: Vec<PatchFacts> = patches.collect();
        let mut changes = delivered.changes.clone();
        changes.applied |= patches.iter().any(|patch| patch.commit.is_some());
        let (limit, least) = gate.limit();
        let result = BatchResult {
            schema_version: plan::SCHEMA_VERSION,
            batch_id: batch.batch_id.clone(),
            exit_code: exit.code(),
            exit_reason: exit.name().to_owned(),
            plan_sha256: batch.plan_sha256.clone(),
            items_sha256: list.sha256().to_owned(),
            ends_sha256: ended.ends_sha256(&self.shared.environment.cwd)?,
            items: counts,
            by_exit_code: outcome.tally.by_code().iter().map(|(code, count)| (code.to_string(), *count)).collect(),
            usage: journal.usage,
            cost_usd: journal.cost_usd,
            duration_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            waited_ms: u64::try_from(gate.waited().as_millis()).unwrap_or(u64::MAX),
            concurrency: Concurrency { limit, least },
            shard: shard.map(Shard::facts),
            combined: Combined { changes, conflicts: delivered.conflicts.clone(), patches },
            failed_keys: failed.iter().map(|item| item.key.clone()).collect(),
            error: ended.error(exit, counts),
            ..BatchResult::default()
        };
        Ok((result, failed))
    }

    /// Returns what to call next.
    fn next(&self, result: &BatchResult) -> Vec<String> {
        let mut next = Vec::new();
        let Some(out) = &self.arguments.course.out else { return next };
        if result.items.not_final > 0 {
            next.push("the same command continues with what is not done".to_owned());
        }
        if result.items.failed > 0 {
            next.push("to run the failed items again, add --rerun failed".to_owned());
        }
        if !result.combined.patches.is_empty() && self.arguments.combine.mode().is_none() {
            let out = one_line(&out.display().to_string());
            next.push(format!("to see what would change, and to deliver it: qwen batch deliver {out}"));
        }
        next
    }
}

/// A batch that has ended.
struct Ended<'a> {
    batch: &'a Batch,
    list: &'a ItemList,
    outcome: Outcome,
    delivered: AtEnd,
    gate: &'a Gate,
    shard: Option<Shard>,
    folder: Option<&'a BatchFolder>,
}

impl Ended<'_> {
    /// Returns the digest by which a delivery knows what is in the directory, as it is read there.
    fn ends_sha256(&self, cwd: &Path) -> Result<Option<String>, Failure> {
        let Some(folder) = self.folder else { return Ok(None) };
        let written = opened::Batch::open(&[folder.path().to_owned()], cwd)?;
        Ok(written.result(false, Share::Count(0))?.ends_sha256)
    }

    /// Returns the exit code of the batch. What was asked for and not delivered is no success.
    fn exit(&self, allow_failures: Share) -> Exit {
        let exit = self.outcome.tally.exit(self.outcome.stop, allow_failures, self.delivered.exit());
        match exit {
            Exit::Ok | Exit::Gate if self.delivered.was_withheld => Exit::Conflict,
            exit => exit,
        }
    }

    /// Returns why the batch did not end well, if one item does not say it.
    fn error(&self, exit: Exit, counts: Counts) -> Option<RunError> {
        let own = error_of(exit, &self.outcome, counts.failed, counts.not_final);
        let of_delivery = || self.delivered.failure.as_ref().map(|failure| (*failure.error).clone());
        own.or_else(of_delivery)
    }
}

/// Prints what is said until nothing more is.
pub(super) fn listen(said: &Receiver<Said>, progress: &mut Progress<'_>) {
    loop {
        match said.recv_timeout(TICK) {
            Ok(Said::Start) => progress.start(),
            Ok(Said::End(ended)) => progress.end(&ended),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        progress.tick();
    }
}

/// Returns why a batch did not end well, if one item does not say it.
fn error_of(exit: Exit, outcome: &Outcome, failed: u64, left: u64) -> Option<RunError> {
    if let Some(error) = &outcome.error {
        return Some(error.clone());
    }
    let count = |number, noun| crate::emit::words_count(number, noun);
    let (code, message, retryable) = match (exit, outcome.stop) {
        (Exit::Failed, Some(Stop::Failures)) => {
            ("items_failed", format!("{} failed: more than --max-failures", count(failed, "item")), false)
        }
        (Exit::Failed, _) => ("items_failed", format!("{} failed", count(failed, "item")), false),
        (Exit::Unavailable, Some(Stop::Unavailable)) => {
            ("unavailable", "the provider is unavailable: no item got an answer".to_owned(), true)
        }
        (Exit::Unavailable, _) => ("unavailable", format!("{} left that may work later", count(left, "item")), true),
        _ => return None,
    };
    Some(RunError { code: code.to_owned(), message, retryable, ..RunError::default() })
}

/// Reports the end of a batch to OpenTelemetry, and returns what could not be reported.
fn report(telemetry: BatchTelemetry, batch: &Batch, result: &BatchResult) -> Option<String> {
    let end = BatchEnd {
        id: &result.batch_id,
        recipe: batch.plan.recipe.as_ref().map(|recipe| recipe.name.as_str()),
        exit: Exit::of_code(result.exit_code).unwrap_or(Exit::Failed),
        items: result.items.total,
        failed: result.items.failed,
        not_final: result.items.not_final,
        cost_usd: result.cost_usd,
    };
    telemetry.finish(end, outputs::now())
}
