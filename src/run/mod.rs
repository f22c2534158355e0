//! One run, from flags to exit code: the story, each step in a file of its own.

pub mod checks;
pub mod emitter;
pub mod judge;
pub mod listing;
pub mod model;
pub mod outcome;
pub mod outputs;
pub mod policy_layers;
pub mod runner;
pub mod servers;
pub mod setup;
pub mod signals;
pub mod task;
pub mod tool_lists;

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;

use crate::agent::invoke::Invoker;
use crate::agent::limits::Account;
use crate::agent::transcript::Transcript;
use crate::agent::{Agent, AgentOptions, Ending, Stopped};
use crate::cli::RunArgs;
use crate::emit::Renderer;
use crate::event::{Event, RunError, RunFinished};
use crate::exit::Exit;
use crate::settings::Environment;
use crate::tools::ToolContext;

use emitter::Emitter;
use outcome::Stage;
use outputs::Streams;
use setup::Setup;
use signals::Signals;

/// Silence after which the run says that it is still there.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Why a run ends before or beside the model's work.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// The way to end.
    pub exit: Exit,
    /// What happened.
    pub error: RunError,
}

impl Failure {
    /// A failure whose code is the exit's own name.
    pub fn new(exit: Exit, message: impl Into<String>, hint: impl Into<String>) -> Failure {
        let retryable = exit == Exit::Unavailable;
        Failure {
            exit,
            error: RunError {
                code: exit.name().into(),
                message: message.into(),
                hint: Some(hint.into()).filter(|hint: &String| !hint.is_empty()),
                retryable,
                budget: None,
            },
        }
    }
}

impl From<Stopped> for Failure {
    fn from(stopped: Stopped) -> Failure {
        Failure { exit: stopped.exit, error: stopped.error }
    }
}

/// Runs a prompt to its end and returns the exit code that counts.
///
/// Whatever happens (a fault in the flags' values, a signal, a panic), the stream of events ends in exactly one
/// [`Event::RunFinished`], and a run that did not succeed leaves the tree as it was.
pub async fn run(arguments: &RunArgs, environment: &Environment, streams: Streams) -> Exit {
    let started = Instant::now();
    let id = outputs::new_id();
    let emitter = Emitter::new(Renderer::new(outputs::outputs(arguments, environment, streams, &id)));
    let stage = OnceLock::new();
    let finished = {
        let work = std::panic::AssertUnwindSafe(work(arguments, environment, &id, &emitter, &stage)).catch_unwind();
        tokio::pin!(work);
        let mut signals = Signals::listen().ok();
        let mut heartbeat = tokio::time::interval(Duration::from_secs(1));
        loop {
            let interrupted = async {
                match &mut signals {
                    Some(signals) => signals.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // A run that is done has delivered: a signal at the same moment comes too late.
                biased;
                done = &mut work => break done.unwrap_or_else(|panic| internal_error(panic.as_ref())),
                exit = interrupted => break outcome::interrupted(exit),
                _ = heartbeat.tick() => emitter.heartbeat(HEARTBEAT),
            }
        }
    };
    let mut finished = finished;
    if let Some(stage) = stage.get() {
        stage.complete(&mut finished);
        stage.end_commands().await;
    }
    finished.duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    emitter.finish(finished)
}

/// Everything between the first event and the ending.
async fn work(
    arguments: &RunArgs,
    environment: &Environment,
    id: &str,
    emitter: &Emitter,
    stage: &OnceLock<Stage>,
) -> RunFinished {
    let prepared = match setup::prepare(arguments, environment, id).await {
        Ok(prepared) => prepared,
        Err(failure) => return RunFinished::failed(failure.exit, failure.error),
    };
    let setup = prepared.setup;
    let stage = stage.get_or_init(|| prepared.stage);
    for message in &setup.warnings {
        emitter.emit(Event::Warning { message: message.clone() });
    }
    match converse(&setup, stage, emitter).await {
        Ok(answer) => outcome::deliver(&setup, stage, emitter, answer),
        Err(failure) => RunFinished::failed(failure.exit, failure.error),
    }
}

/// What the model's work came to.
pub struct Answer {
    /// The final text.
    pub text: String,
    /// Calls that the policy denied.
    pub denials: u64,
}

/// The conversation, with the checks in between.
async fn converse(setup: &Setup, stage: &Stage, emitter: &Emitter) -> Result<Answer, Failure> {
    let emit = |event: Event| emitter.emit(event);
    let judge = setup.judge(stage);
    let checks = setup.checks(&judge.facts)?;
    let context = ToolContext {
        workspace: &stage.workspace,
        memory: &setup.memory,
        limits: &setup.tool_limits,
        runner: &stage.runner,
        media: setup.client.facts_of_images(),
    };
    emit(Event::RunStarted(Box::new(setup.started(stage))));
    let (message, warnings) = setup.task(&judge, &context, &stage.servers).message().await?;
    for message in warnings {
        emit(Event::Warning { message });
    }
    let transcript = Transcript::begin(setup.system_prompt(), message);
    let invoker = Invoker::new(&setup.registry, setup.offered.clone(), &judge, context, &*setup.redact);
    let options = AgentOptions {
        on_deny: setup.on_deny,
        max_output_tokens: setup.max_output_tokens,
        changes_expected: setup.changes_expected,
    };
    let account = Account::open(setup.limits.clone(), setup.started_at);
    let mut agent = Agent::new(setup.client.as_model(), invoker, account, transcript, options, &emit);

    let mut attempt = 1;
    let mut last_failure = None;
    loop {
        let text = match agent.converse().await {
            Ending::Answer(text) => text,
            Ending::Stopped(stopped) => return Err(stopped.into()),
        };
        let root = stage.runner.seen_root();
        let failed = checks::run(&checks, &stage.runner, attempt, setup.check_timeout, &root, &emit).await;
        let Some(failed) = failed else {
            return Ok(Answer { text, denials: agent.account().denials() });
        };
        let fingerprint = crate::verify::fingerprint(&failed, &stage.workspace.changes());
        if attempt >= setup.verify_attempts || last_failure == Some(fingerprint) {
            return Err(outcome::verify_failed(&failed, attempt, last_failure == Some(fingerprint)));
        }
        last_failure = Some(fingerprint);
        attempt += 1;
        agent.say(crate::verify::feedback(&failed, &root, setup.verify_attempts - attempt + 1));
    }
}

fn internal_error(panic: &(dyn std::any::Any + Send)) -> RunFinished {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    RunFinished::failed(
        Exit::Failed,
        RunError {
            code: "internal".into(),
            message: format!("a fault in qwen itself: {text}"),
            hint: Some("please report it with the command line; the tree is as it was".into()),
            ..RunError::default()
        },
    )
}
