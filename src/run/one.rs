//! Runs one task from its recipe to its delivery: the only one of a process, or one item of a batch.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use crate::agent::Stopped;
use crate::cli::RunArgs;
use crate::event::{Event, RunError, RunFinished};
use crate::exit::Exit;
use crate::git::Whole;
use crate::telemetry::Telemetry;

use super::conversation::Conversation;
use super::conversation::session::RunSession;
use super::error::Failure;
use super::finish::outcome;
use super::finish::stage::{Stage, out_of_hand};
use super::output::emitter::Emitter;
use super::output::overdue;
use super::recipe::Active;
use super::recipe::answers::Answer;
use super::stages::telemetry::Reported;
use super::stages::{Lent, Prepared, Setup, Shared, prepare};

/// How long after the time limit of a run its conversation is cut off, whatever it waits for: what watches the limit
/// itself ends earlier and with a better message.
const GRACE: Duration = Duration::from_millis(500);

/// A run whose stream of events has begun.
pub struct Begun<'a> {
    /// Its id.
    pub id: &'a str,
    /// When it started, for records.
    pub started: SystemTime,
    /// Where its conversation is kept.
    pub session: RunSession,
    /// Where events go.
    pub emitter: &'a Arc<Emitter>,
    /// What must be ended, whatever happens.
    pub stage: &'a OnceLock<Stage>,
    /// What a batch shares with it, if it is one of its items.
    pub lent: Option<&'a Lent<'a>>,
}

/// Does everything from the recipe to the delivery.
pub async fn work(shared: &Shared, arguments: &RunArgs, begun: &Begun<'_>) -> Result<RunFinished, Failure> {
    let Begun { session, emitter, lent, .. } = begun;
    let reported = reported(shared, arguments, begun)?;
    let Prepared { setup, stage, warnings } = prepare(shared, arguments, begun.id, reported, *lent).await?;
    let stage = begun.stage.get_or_init(|| stage);
    if setup.masking.redacts {
        emitter.hide(Arc::clone(&setup.masking.secrets));
    }
    if setup.recipe.as_ref().is_some_and(Active::has_untrusted_text) {
        session.holds_untrusted();
    }
    for message in warnings.iter().chain(&session.warnings) {
        emitter.emit(Event::Warning { message: message.clone() });
    }
    let conversation = Conversation { setup: &setup, session, stage, emitter };
    let account = setup.asked.account(setup.run.started_at + GRACE);
    // The process is that of a run of its own.
    let own_time = account.time_left(Instant::now()).filter(|_| lent.is_none());
    let watch = own_time.map(|left| {
        crate::git::set_run_deadline(Instant::now() + left - GRACE);
        let (emitter, ending) =
            (Arc::clone(emitter), RunFinished::from(Failure::from(Stopped::from(account.time_is_up()))));
        overdue::watch(left, move || emitter.finish(ending))
    });
    let held = account.within_time(conversation.hold()).await;
    drop(watch);
    let held = held.unwrap_or_else(|limit| Err(Stopped::from(limit).into()));
    let mut finished = ended(&setup, stage, emitter, held).await;
    if let Some(error) = setup.asked.client.keep_recording() {
        finished.blame_output(error);
    }
    Ok(finished)
}

/// Begins to report the run to OpenTelemetry, if somebody asked for it: as an item of its batch, or by itself.
fn reported(shared: &Shared, arguments: &RunArgs, begun: &Begun<'_>) -> Result<Option<Reported>, Failure> {
    let Some(lent) = begun.lent else {
        let reported = Reported::open(shared, arguments, begun.id)?;
        if let Some(Reported { config, trace, .. }) = &reported {
            begun.emitter.report(Telemetry::begin(config.clone(), Arc::clone(trace), begun.started));
        }
        return Ok(reported);
    };
    Ok(lent.reported.map(|batch| {
        let reported = Reported::of_item(batch, begun.id);
        begun.emitter.report(batch.item(Arc::clone(&reported.trace), begun.started));
        reported
    }))
}

/// Says that a warning of the run counts as an error.
fn strict(warning: &str) -> RunError {
    RunError {
        code: "strict".into(),
        message: format!("a warning counts as an error: {warning}"),
        hint: Some("correct its cause, or leave out --strict".into()),
        ..RunError::default()
    }
}

/// Delivers what the conversation has staged, or says why not.
async fn ended(setup: &Setup, stage: &Stage, emitter: &Emitter, held: Result<Answer, Failure>) -> RunFinished {
    // What is delivered is what the last check saw.
    stage.end_background().await;
    if let (true, Ok(_), Some(warning)) = (setup.input.strict, &held, emitter.first_warning()) {
        return RunFinished::failed(Exit::Failed, strict(&warning));
    }
    match held {
        Ok(_) if stage.is_out_of_hand() => RunFinished::failed(Exit::Failed, out_of_hand()),
        Ok(answer) => {
            let tree = stage.tree_of_commands().await;
            let _whole = Whole::begin();
            outcome::deliver(setup, stage, emitter, answer, tree.as_ref())
        }
        Err(failure) if failure.exit == Exit::Unavailable && setup.skips_offline() => {
            emitter.emit(Event::Warning { message: format!("skipped: {}", failure.error.message) });
            outcome::nothing_to_do("skipped: the provider is unavailable".to_owned())
        }
        Err(failure) => {
            let mut finished = RunFinished::from(failure);
            if finished.exit == Exit::Verify && setup.discards() {
                // `on_exhausted: discard`: the result does not contain the change.
                finished.changes.mode = stage.mode.name().into();
            }
            finished
        }
    }
}

/// Ends what the run has started, and the stream of events.
pub async fn finish(mut finished: RunFinished, stage: Option<&Stage>, emitter: &Emitter, started: Instant) -> Exit {
    let whole = Whole::begin();
    if let Some(stage) = stage {
        stage.complete(&mut finished);
        stage.end_commands().await;
        stage.compare(&mut finished);
    }
    drop(whole);
    finished.duration_ms = milliseconds_since(started);
    emitter.finish(finished)
}

/// Returns the milliseconds since a moment.
pub fn milliseconds_since(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX)
}
