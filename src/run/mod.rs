//! Executes one run, from flags to exit code: prepares it in [stages], runs the [conversation], and
//! [finishes](finish) it.
//!
//! What this file connects is decided elsewhere:
//!
//! - where programs are looked up (`PATH` is cleaned): [`Programs::new`](crate::git::Programs::new)
//! - what a command may write: [`SandboxProfile`](crate::policy::grant::SandboxProfile); which of its changes are staged:
//!   [`judge_change`](rules::judge::judge_change)
//! - what an MCP server's tool is called: [`names::assign`](crate::tools::mcp::names::assign)
//! - which exit code an error has: [`CliError::exit`](crate::base::CliError::exit) of the enums in [error]

pub mod conversation;
pub mod error;
pub mod finish;
pub mod output;
pub mod place;
pub mod prompt;
pub mod recipe;
pub mod rules;
pub mod runner;
pub mod stages;

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use futures_util::FutureExt as _;

use crate::agent::Stopped;
use crate::agent::limits::Account;
use crate::cli::RunArgs;
use crate::emit::{Backlog, Renderer};
use crate::event::{Event, RunFinished};
use crate::exit::Exit;
use crate::git::{Program, Whole};
use crate::model::local::{self, LocalServer};
use crate::settings::Environment;
use crate::telemetry::Telemetry;

use conversation::Conversation;
use conversation::session::RunSession;
pub use error::Failure;
use error::SetupError;
use finish::outcome;
use finish::stage::Stage;
use output::emitter::Emitter;
use output::outputs::{self, Streams};
use output::overdue;
use output::signals::{self, Signals};
use place::Place;
use recipe::answers::Answer;
use stages::telemetry::Reported;
use stages::{Prepared, Setup, Shared, prepare};

/// How long a finished run may spend on removing temporary directories of killed runs.
const TIDYING: Duration = Duration::from_secs(2);

/// How long after the time limit of a run its conversation is cut off, whatever it waits for: what watches the limit
/// itself ends earlier and with a better message.
const GRACE: Duration = Duration::from_millis(500);

/// Silence after which the run reports that it is still running.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// How long a finished run waits for a reader of its output, if `--max-wall-time` does not say.
const UNREAD: Duration = Duration::from_secs(60 * 60);

/// The minimum of that wait.
const LEAST_UNREAD: Duration = Duration::from_secs(5);

/// Runs a prompt to its end and returns the final exit code.
///
/// Whatever happens (an invalid flag, a signal, a panic), the stream of events ends in exactly one
/// [`Event::RunFinished`], and a run that did not succeed leaves the tree as it was.
pub async fn run(arguments: &RunArgs, environment: &Environment, streams: Streams) -> Exit {
    let (started, at, id) = (Instant::now(), outputs::now(), outputs::new_id());
    let cd = arguments.input.workspace.cd.as_deref();
    let around = place::around(cd, environment);
    let place = Place::of(&around, cd, environment).map_err(Failure::from);
    let session = RunSession::choose(arguments, environment, &place, &id);
    let session_id = session.as_ref().map_or(&id, |session| &session.id);
    let backlogs = streams.backlogs.clone();
    let goes_on = outputs::goes_on(arguments, environment, place.as_ref().ok());
    let renderer =
        Renderer::new(outputs::outputs(arguments, environment, &around, streams, session_id)).goes_on(goes_on);
    // A run whose product cannot be written must not cost anything.
    let begun = match renderer.problem() {
        Some(problem) => Err(Failure::output(problem.to_owned())),
        None => session.and_then(|session| Ok((session, place?))),
    };
    let emitter = Arc::new(Emitter::new(renderer));
    let mut signals = Signals::listen().ok();
    let written_to = Arc::clone(&emitter);
    signals::end_in_order(move |exit| {
        written_to.finish(RunFinished { duration_ms: milliseconds_since(started), ..outcome::interrupted(exit) });
    });
    let stage = OnceLock::new();
    let work = async {
        let (session, place) = begun?;
        work(arguments, environment, place, &Begun { id: &id, started: at, session, emitter: &emitter, stage: &stage })
            .await
    };
    let finished = until_signal(work, signals.as_mut(), &emitter).await;
    let exit = finish(finished, stage.get(), &emitter, started).await;
    let most = arguments.limits.max_wall_time.unwrap_or(UNREAD).max(LEAST_UNREAD);
    match backlogs.iter().any(|backlog| backlog.left() > 0) {
        true => read_to_the_end(&backlogs, signals.as_mut(), most, exit).await,
        false => exit,
    }
}

/// Works until the end, or until a signal; also turns a panic into an ending.
async fn until_signal(
    work: impl Future<Output = Result<RunFinished, Failure>>,
    mut signals: Option<&mut Signals>,
    emitter: &Emitter,
) -> RunFinished {
    let work = AssertUnwindSafe(work).catch_unwind();
    tokio::pin!(work);
    let mut heartbeat = tokio::time::interval(Duration::from_secs(1));
    let finished = loop {
        let interrupted = signals::next_of(signals.as_deref_mut());
        tokio::select! {
            // A finished run has delivered: a signal at the same moment comes too late.
            biased;
            done = &mut work => {
                let done = done.unwrap_or_else(|panic| Err(Failure::internal(panic.as_ref())));
                break done.unwrap_or_else(RunFinished::from);
            }
            exit = interrupted => break outcome::interrupted(exit),
            _ = heartbeat.tick() => emitter.heartbeat(HEARTBEAT),
        }
    };
    match signals::heard() {
        // Processes that ended because of the signal, such as git, did not fail.
        Some(exit) if finished.exit != Exit::Ok && !finished.changes.applied => outcome::interrupted(exit),
        Some(_) | None => finished,
    }
}

/// Ends what the run has started, and the stream of events.
async fn finish(mut finished: RunFinished, stage: Option<&Stage>, emitter: &Emitter, started: Instant) -> Exit {
    let whole = Whole::begin();
    if let Some(stage) = stage {
        stage.complete(&mut finished);
        stage.end_commands().await;
        stage.compare(&mut finished);
    }
    drop(whole);
    finished.duration_ms = milliseconds_since(started);
    let exit = emitter.finish(finished);
    if let Some(place) = stage.and_then(|stage| stage.runner.place()).filter(|_| signals::heard().is_none()) {
        crate::workspace::temporary::remove_abandoned(place, started.elapsed(), TIDYING);
    }
    exit
}

fn milliseconds_since(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Waits for a slow reader of the standard streams; a signal ends the wait.
async fn read_to_the_end(backlogs: &[Backlog], signals: Option<&mut Signals>, most: Duration, exit: Exit) -> Exit {
    let interrupted = signals::next_of(signals);
    let written = futures_util::future::join_all(backlogs.iter().map(Backlog::written));
    tokio::select! {
        biased;
        _ = written => exit,
        signal = interrupted => signal,
        () = tokio::time::sleep(most) => exit,
    }
}

/// A run whose stream of events has begun.
struct Begun<'a> {
    id: &'a str,
    started: SystemTime,
    session: RunSession,
    emitter: &'a Arc<Emitter>,
    /// What must be ended, whatever happens.
    stage: &'a OnceLock<Stage>,
}

/// Does everything between the first event and the ending.
async fn work(
    arguments: &RunArgs,
    environment: &Environment,
    place: Place,
    begun: &Begun<'_>,
) -> Result<RunFinished, Failure> {
    let Some(server) = local_server(arguments, environment, &place, begun.emitter).await? else {
        return work_with_model(arguments, environment, place, begun).await;
    };
    let mut arguments = arguments.clone();
    arguments.model.openai_base_url = Some(server.base_url.clone());
    arguments.model.model = Some(server.model.clone());
    let worked = work_with_model(&arguments, environment, place, begun).await;
    server.end().await;
    worked
}

/// Does everything between the start of a local server and the ending.
async fn work_with_model(
    arguments: &RunArgs,
    environment: &Environment,
    place: Place,
    begun: &Begun<'_>,
) -> Result<RunFinished, Failure> {
    let Begun { session, emitter, .. } = begun;
    let shared = Shared::open(arguments, environment, place)?;
    let reported = Reported::open(&shared, arguments, begun.id)?;
    if let Some(Reported { config, trace, .. }) = &reported {
        emitter.report(Telemetry::begin(config.clone(), Arc::clone(trace), begun.started));
    }
    let Prepared { setup, stage, warnings } = prepare(&shared, arguments, begun.id, reported).await?;
    drop(shared);
    let stage = begun.stage.get_or_init(|| stage);
    if setup.masking.redacts {
        emitter.hide(Arc::clone(&setup.masking.secrets));
    }
    for message in warnings.iter().chain(&session.warnings) {
        emitter.emit(Event::Warning { message: message.clone() });
    }
    let conversation = Conversation { setup: &setup, session, stage, emitter };
    let account = Account::open(setup.asked.limits.clone(), setup.run.started_at + GRACE);
    let watch = account.time_left(Instant::now()).map(|left| {
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

/// Delivers what the conversation has staged, or says why not.
async fn ended(setup: &Setup, stage: &Stage, emitter: &Emitter, held: Result<Answer, Failure>) -> RunFinished {
    match held {
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

/// Starts the server of `--local`.
async fn local_server(
    arguments: &RunArgs,
    environment: &Environment,
    place: &Place,
    emitter: &Emitter,
) -> Result<Option<LocalServer>, Failure> {
    let Some(model) = &arguments.model.local else { return Ok(None) };
    let tell = |waited: Duration| {
        emitter.emit(Event::Status { message: "waiting for llama-server to load the model".into(), waited });
    };
    let program = place.checkout.programs.find(local::PROGRAM).ok();
    let program = program.as_ref().map(Program::path);
    let started = local::start(&environment.cwd.join(model), program, crate::sandbox::ending_with_us, &tell).await;
    Ok(started.map(Some).map_err(SetupError::Local)?)
}
