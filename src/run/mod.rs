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
pub mod many;
pub mod one;
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
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;

use crate::cli::RunArgs;
use crate::emit::{Backlog, Renderer};
use crate::event::{Event, RunFinished};
use crate::exit::Exit;
use crate::model::local::{self, LocalServer};
use crate::sandbox::beside;
use crate::settings::Environment;

use conversation::session::RunSession;
pub use error::Failure;
use error::SetupError;
use finish::outcome;
use one::{Begun, milliseconds_since};
use output::emitter::Emitter;
use output::masking;
use output::outputs::{self, Streams};
use output::signals::{self, Signals};
use place::Place;
use stages::Shared;

/// How long a finished run may spend on removing temporary directories of killed runs.
const TIDYING: Duration = Duration::from_secs(2);

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
    let emitter = Arc::new(Emitter::new(Box::new(renderer)));
    let mut signals = Signals::listen().ok();
    let written_to = Arc::clone(&emitter);
    signals::end_in_order(move |exit| {
        written_to.finish(RunFinished { duration_ms: milliseconds_since(started), ..outcome::interrupted(exit) });
    });
    let stage = OnceLock::new();
    let work = async {
        let (session, place) = begun?;
        let mut arguments = arguments.clone();
        arguments.session.is_untrusted = session.is_untrusted;
        let begun = Begun { id: &id, started: at, session, emitter: &emitter, stage: &stage, lent: None };
        let done = work(&arguments, environment, place, &begun).await;
        done.map_err(|failure| masking::in_failure(failure, environment))
    };
    let finished = until_signal(work, signals.as_mut(), &emitter).await;
    let exit = one::finish(finished, stage.get(), &emitter, started).await;
    if let Some(place) = stage.get().and_then(|stage| stage.runner.place()).filter(|_| signals::heard().is_none()) {
        crate::workspace::temporary::remove_abandoned(place, started.elapsed(), TIDYING);
    }
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

/// Does everything between the first event and the ending.
async fn work(
    arguments: &RunArgs,
    environment: &Environment,
    place: Place,
    begun: &Begun<'_>,
) -> Result<RunFinished, Failure> {
    let tell = |event| begun.emitter.emit(event);
    let Some(server) = local_server(arguments, environment, &place, &tell).await? else {
        return one::work(&Shared::open(arguments, environment, place)?, arguments, begun).await;
    };
    let arguments = with_server(arguments, &server);
    let worked = match Shared::open(&arguments, environment, place) {
        Ok(shared) => one::work(&shared, &arguments, begun).await,
        Err(failure) => Err(failure),
    };
    server.end().await;
    worked
}

/// Returns the flags with a local server in the place of the one that they name.
fn with_server(arguments: &RunArgs, server: &LocalServer) -> RunArgs {
    let mut arguments = arguments.clone();
    arguments.model.openai_base_url = Some(server.base_url.clone());
    arguments.model.model = Some(server.model.clone());
    arguments
}

/// Starts the server of `--local`.
async fn local_server(
    arguments: &RunArgs,
    environment: &Environment,
    place: &Place,
    tell: &(dyn Fn(Event) + Sync),
) -> Result<Option<LocalServer>, Failure> {
    let Some(model) = &arguments.model.local else { return Ok(None) };
    let tell = |waited: Duration| {
        tell(Event::Status { message: "waiting for llama-server to load the model".into(), waited });
    };
    let program = beside::server(local::PROGRAM, &place.checkout.programs, &environment.variables);
    let started = local::start(&environment.cwd.join(model), program, &tell).await;
    Ok(started.map(Some).map_err(SetupError::Local)?)
}
