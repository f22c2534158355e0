//! Executes one run, from flags to exit code; each step has a file of its own.

pub mod answer_cache;
pub mod answers;
pub mod apply;
pub mod bounds;
pub mod checks;
pub mod context;
pub mod emitter;
pub mod error;
pub mod from_hook;
pub mod gather;
mod git_commands;
pub mod hooks;
mod ignored;
pub mod images;
pub mod judge;
pub mod library;
pub mod listing;
pub mod model;
pub mod modes;
pub mod outcome;
pub mod outputs;
pub mod place;
pub mod policy_layers;
pub mod prepare;
pub mod recipe;
pub mod redaction;
pub mod runner;
pub mod servers;
pub mod session;
pub mod setup;
pub mod signals;
pub mod slash_command;
pub mod started;
mod surroundings;
pub mod task;
pub mod tool_lists;
pub mod tools;
pub mod trust;
pub mod typed;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;

use crate::agent::delegate::Delegates;
use crate::agent::invoke::{self, Invoker};
use crate::agent::limits::Account;
use crate::agent::transcript::Transcript;
use crate::agent::{Agent, AgentOptions, Ending, Stopped};
use crate::base::CliError;
use crate::cli::RunArgs;
use crate::emit::{Backlog, Renderer};
use crate::event::{Event, RunError, RunFinished, RunStarted};
use crate::exit::Exit;
use crate::git::Program;
use crate::model::local::{self, LocalServer};
use crate::model::{Message, Part};
use crate::settings::Environment;
use crate::tools::ToolContext;

use crate::recipe::file::Before;
use answers::Taken;
use checks::{Bench, Verification};
use emitter::Emitter;
use error::SetupError;
use gather::Gathered;
use hooks::Hooks;
use outcome::Stage;
use outputs::Streams;
use place::Place;
use session::RunSession;
use setup::Setup;
use signals::Signals;

/// How long a run that is over removes what killed runs have left in the directory for temporary files.
const TIDYING: Duration = Duration::from_secs(2);

/// Silence after which the run reports that it is still running.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// How long a finished run waits for a reader of its output, if `--max-wall-time` does not say.
const UNREAD: Duration = Duration::from_secs(60 * 60);

/// The minimum of that wait.
const LEAST_UNREAD: Duration = Duration::from_secs(5);

/// Why a run ends before or besides the model's work.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// What happened.
    pub error: Box<RunError>,
}

impl Failure {
    /// Returns a failure whose error code is the exit's own name.
    pub fn new(exit: Exit, message: impl Into<String>, hint: impl Into<String>) -> Failure {
        let retryable = exit == Exit::Unavailable;
        Failure {
            exit,
            error: Box::new(RunError {
                code: exit.name().into(),
                message: message.into(),
                hint: Some(hint.into()).filter(|hint: &String| !hint.is_empty()),
                retryable,
                budget: None,
            }),
        }
    }
}

impl Failure {
    /// Reports a panic as an internal error.
    pub fn internal(panic: &(dyn std::any::Any + Send)) -> Failure {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        let mut failure =
            Failure::new(Exit::Failed, format!("a bug in qwen: {text}"), "report this bug with the command line");
        failure.error.code = "internal".into();
        failure
    }
}

impl<E: CliError> From<E> for Failure {
    fn from(error: E) -> Failure {
        let hint = error.hint().unwrap_or_default().into_owned();
        let mut failure = Failure::new(error.exit(), error.to_string(), hint);
        failure.error.code = error.code().to_owned();
        failure
    }
}

impl From<Stopped> for Failure {
    fn from(stopped: Stopped) -> Failure {
        Failure { exit: stopped.exit, error: stopped.error }
    }
}

/// Runs a prompt to its end and returns the final exit code.
///
/// Whatever happens (an invalid flag, a signal, a panic), the stream of events ends in exactly one
/// [`Event::RunFinished`], and a run that did not succeed leaves the tree as it was.
pub async fn run(arguments: &RunArgs, environment: &Environment, streams: Streams) -> Exit {
    let started = Instant::now();
    let id = outputs::new_id();
    let cd = arguments.input.workspace.cd.as_deref();
    let around = place::around(cd, environment);
    let place = Place::of(&around, cd, environment).map_err(Failure::from);
    let session = RunSession::choose(arguments, environment, &place, &id);
    let session_id = session.as_ref().map_or(id.as_str(), |session| session.id.as_str());
    let backlogs = streams.backlogs.clone();
    let renderer = Renderer::new(outputs::outputs(arguments, environment, &around, streams, session_id));
    // A run whose product cannot be written must not cost anything.
    let session = match renderer.problem() {
        Some(problem) => Err(Failure { exit: Exit::Failed, error: Box::new(RunError::output(problem.to_owned())) }),
        None => session,
    };
    let emitter = Emitter::new(renderer);
    let mut signals = Signals::listen().ok();
    signals::end_in_order();
    let stage = OnceLock::new();
    let finished = {
        let work = std::panic::AssertUnwindSafe(work(arguments, environment, &id, place, session, &emitter, &stage))
            .catch_unwind();
        tokio::pin!(work);
        let mut heartbeat = tokio::time::interval(Duration::from_secs(1));
        loop {
            let interrupted = signals::next_of(signals.as_mut());
            tokio::select! {
                // A finished run has delivered: a signal at the same moment comes too late.
                biased;
                done = &mut work => break done.unwrap_or_else(|panic| internal_error(panic.as_ref())),
                exit = interrupted => break outcome::interrupted(exit),
                _ = heartbeat.tick() => emitter.heartbeat(HEARTBEAT),
            }
        }
    };
    let mut finished = match signals::heard() {
        // Processes that ended because of the signal, such as git, did not fail.
        Some(exit) if finished.exit != Exit::Ok && !finished.changes.applied => outcome::interrupted(exit),
        Some(_) | None => finished,
    };
    let whole = signals::Whole::begin();
    if let Some(stage) = stage.get() {
        stage.complete(&mut finished);
        stage.end_commands().await;
        stage.compare(&mut finished);
    }
    drop(whole);
    finished.duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let exit = emitter.finish(finished);
    if let Some(place) = stage.get().and_then(|stage| stage.runner.place()).filter(|_| signals::heard().is_none()) {
        crate::workspace::temporary::remove_abandoned(place, started.elapsed(), TIDYING);
    }
    let most = arguments.limits.max_wall_time.unwrap_or(UNREAD).max(LEAST_UNREAD);
    match backlogs.iter().any(|backlog| backlog.left() > 0) {
        true => read_to_the_end(&backlogs, signals.as_mut(), most, exit).await,
        false => exit,
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
    id: &str,
    place: Result<Place, Failure>,
    session: Result<RunSession, Failure>,
    emitter: &Emitter,
    stage: &OnceLock<Stage>,
) -> RunFinished {
    let (session, place) = match session.and_then(|session| Ok((session, place?))) {
        Ok(found) => found,
        Err(failure) => return RunFinished::failed(failure.exit, *failure.error),
    };
    // Dropped at every end of this function.
    let local = match local_server(arguments, environment, &place, emitter).await {
        Ok(local) => local,
        Err(failure) => return RunFinished::failed(failure.exit, *failure.error),
    };
    let mut arguments = arguments.clone();
    if let Some(server) = &local {
        arguments.model.openai_base_url = Some(server.base_url.clone());
        arguments.model.model = Some(server.model.clone());
    }
    let prepared = match prepare::prepare(&arguments, environment, &place, id).await {
        Ok(prepared) => prepared,
        Err(failure) => return RunFinished::failed(failure.exit, *failure.error),
    };
    let setup = prepared.setup;
    let stage = stage.get_or_init(|| prepared.stage);
    if setup.policy.redacts() {
        emitter.hide(Arc::clone(&setup.secrets));
    }
    for message in setup.warnings.iter().chain(&session.warnings) {
        emitter.emit(Event::Warning { message: message.clone() });
    }
    let mut finished = match converse(&setup, &session, stage, emitter).await {
        Ok(answer) => {
            let tree = stage.tree_of_commands().await;
            let _whole = signals::Whole::begin();
            outcome::deliver(&setup, stage, emitter, answer, tree.as_ref())
        }
        Err(failure) if failure.exit == Exit::Unavailable && setup.skips_offline() => {
            emitter.emit(Event::Warning { message: format!("skipped: {}", failure.error.message) });
            outcome::nothing_to_do("skipped: the provider is unavailable".to_owned())
        }
        Err(failure) => {
            let mut finished = RunFinished::failed(failure.exit, *failure.error);
            if failure.exit == Exit::Verify && setup.discards() {
                // `on_exhausted: discard`: the result does not contain the change.
                finished.changes.mode = stage.mode.name().into();
            }
            finished
        }
    };
    if let Some(error) = setup.client.keep_recording() {
        finished.blame_output(error);
    }
    finished
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

/// The result of the model's work.
pub struct Answer {
    /// The final text.
    pub text: String,
    /// Calls that the policy denied.
    pub denials: u64,
    /// The structured answer.
    pub taken: Taken,
    /// There was nothing to do; the text says why.
    pub nothing_to_do: bool,
}

impl Answer {
    fn nothing_to_do(text: String) -> Answer {
        Answer { text, denials: 0, taken: Taken::default(), nothing_to_do: true }
    }
}

/// Holds the conversation, with the checks in between.
async fn converse(setup: &Setup, session: &RunSession, stage: &Stage, emitter: &Emitter) -> Result<Answer, Failure> {
    let emit = |event: Event| emitter.emit(event);
    let judge = setup.judge(stage);
    let outer = setup.outer_judge(stage);
    let verification = setup.verification(&outer)?;
    let context = ToolContext {
        workspace: &stage.workspace,
        memory: &setup.memory,
        limits: &setup.tool_limits,
        runner: &stage.runner,
        media: setup.client.facts_of_images(),
    };
    emit(Event::RunStarted(Box::new(RunStarted { session_id: session.id.clone(), ..setup.started(stage) })));
    let bench = setup.bench(stage);
    if let Some(nothing) = before(setup, &verification, &bench, &emit).await? {
        return Ok(Answer::nothing_to_do(nothing));
    }
    let mut side = None;
    let prompt = match &setup.recipe {
        None => None,
        Some(active) => match setup.gatherer(active, stage, &outer).gather().await? {
            Gathered::NothingToDo(name) => {
                return Ok(Answer::nothing_to_do(format!("nothing to do: the input `{name}` is empty")));
            }
            Gathered::Inputs(inputs, diff) => {
                side = diff;
                Some(active.prompt(&inputs)?)
            }
        },
    };
    if let Some(text) = setup.shown_instead(prompt.as_deref()) {
        return Ok(Answer::nothing_to_do(text));
    }
    let kept = match &prompt {
        // An answer that continues a conversation depends on more than its prompt.
        Some(prompt) if verification.checks.is_empty() && session.earlier.is_empty() => setup.kept_answer(prompt),
        Some(_) | None => None,
    };
    let from_cache = |text: String, by_tool| {
        let mut taken = setup.wanted.take(by_tool, &text).ok()?;
        setup.wanted.anchor(&mut taken, side.as_ref(), &|path| setup.readable(stage, path));
        Some(Answer { text, denials: 0, taken, nothing_to_do: false })
    };
    if let Some(answer) = kept.as_ref().and_then(|kept| kept.fresh()).and_then(|(text, value)| from_cache(text, value))
    {
        let message = "the cached answer is used: nothing that it depends on has changed".to_owned();
        emit(Event::Status { message, waited: Duration::ZERO });
        return Ok(answer);
    }
    let hooks = setup.hooks(session);
    let (mut message, events) = setup.message(&judge, &context, &stage.servers, prompt).await?;
    events.into_iter().for_each(emit);
    if let Some(hooks) = &hooks {
        let said = hooks.session_start(session.resumed).await?;
        hooks.warnings().into_iter().for_each(emit);
        if !said.is_empty() {
            message.insert(0, Part::Text(format!("{}\n\n", (setup.redact)(said).0)));
        }
    }
    let message = setup.masked(message, &emit);
    let transcript = Transcript::resume(setup.system_prompt(), session.earlier.clone(), message);
    let mask = |text: String| setup.without_secrets(text);
    let keep = |messages: &[Message]| session.keep(messages, &mask).into_iter().for_each(emit);
    let renewing = servers::Renewing { servers: &stage.servers, policy: &setup.policy, facts: setup.facts(stage) };
    let mut invoker = Invoker::new(&setup.registry, setup.offered.clone(), &judge, context, &*setup.redact)
        .with_hooks(hooks.as_ref().map(|hooks| hooks as &dyn invoke::Hooks))
        .with_page_reader(setup.reads_pages.then(|| setup.client.as_model()))
        .with_delegates(Delegates {
            model: setup.client.as_model(),
            agents: &setup.agents,
            max_output_tokens: setup.max_output_tokens,
        });
    if setup.policy.redacts() {
        invoker = invoker.restoring(&setup.secrets);
    }
    invoker = invoker.renewing(&renewing);
    let options = AgentOptions {
        on_deny: setup.on_deny,
        max_output_tokens: setup.max_output_tokens,
        changes_expected: setup.changes_expected,
    };
    let account = Account::open(setup.limits.clone(), setup.started_at);
    if let Some(limit) = setup.limits.wall_time_ms {
        crate::git::set_run_deadline(setup.started_at + Duration::from_millis(limit));
    }
    let mut agent = Agent::new(setup.client.as_model(), invoker, account, transcript, options, &emit)
        .keeping(Some(&keep), session.earlier.len() + 1);

    let mut attempt = 1;
    let mut repairs = setup.wanted.repairs;
    let mut last_failure = None;
    loop {
        let text = match agent.converse().await {
            Ending::Answer(text) => text,
            // A wrong answer counts, whether given by the tool or as text.
            Ending::Misfit(problem) if repairs == 0 => return Err(answers::unfit(&problem)),
            Ending::Misfit(_) => {
                repairs -= 1;
                continue;
            }
            Ending::Stopped(stopped) => {
                hooks.iter().flat_map(Hooks::warnings).for_each(emit);
                let old =
                    kept.as_ref().filter(|_| stopped.exit == Exit::Unavailable).and_then(|kept| kept.of_any_age());
                return match old.and_then(|(text, value)| from_cache(text, value)) {
                    Some(answer) => {
                        let message = "the provider is unavailable: the cached answer is used".to_owned();
                        emit(Event::Warning { message });
                        Ok(answer)
                    }
                    None => Err(stopped.into()),
                };
            }
        };
        if let Some(hooks) = &hooks {
            let more = hooks.stop().await;
            hooks.warnings().into_iter().for_each(emit);
            if let Some(more) = more {
                agent.say(format!("A hook of the user's wants more before the end: {}", mask(more)));
                continue;
            }
        }
        let by_tool = setup.memory.answer.lock().expect("nothing panics while it holds the answer").take();
        let mut taken = match setup.wanted.take(by_tool, &text) {
            Ok(taken) => taken,
            Err(problem) if repairs == 0 => return Err(answers::unfit(&problem)),
            Err(problem) => {
                agent.say(answers::sent_back(&problem, repairs));
                repairs -= 1;
                continue;
            }
        };
        let Some(failed) = verification.judge(&bench, attempt, &emit).await else {
            let denials = agent.account().denials();
            if let Some(kept) = kept.as_ref().filter(|_| denials == 0 && stage.workspace.changes().is_empty()) {
                kept.keep(&mask(text.clone()), taken.structured.as_ref());
            }
            setup.wanted.anchor(&mut taken, side.as_ref(), &|path| setup.readable(stage, path));
            return Ok(Answer { text, denials, taken, nothing_to_do: false });
        };
        let fingerprint = crate::verify::fingerprint(&failed, &stage.workspace.changes());
        let same = verification.stop_if_same && last_failure == Some(fingerprint);
        if attempt >= verification.attempts || same {
            return Err(outcome::verify_failed(&failed, attempt, same));
        }
        last_failure = Some(fingerprint);
        attempt += 1;
        let root = stage.runner.seen_root();
        agent.say(crate::verify::feedback(&failed, &root, verification.attempts - attempt + 1));
    }
}

/// Runs the checks that precede the model: `Some` if there is nothing to do.
async fn before(
    setup: &Setup,
    verification: &Verification,
    bench: &Bench<'_>,
    emit: &(dyn Fn(Event) + Send + Sync),
) -> Result<Option<String>, Failure> {
    let wanted = setup.before();
    if wanted == Before::Ignore || verification.checks.is_empty() {
        return Ok(None);
    }
    let failed = verification.run(bench, 0, emit).await;
    match (wanted, failed) {
        (Before::SkipIfPass, None) => Ok(Some("nothing to do: the checks already pass".to_owned())),
        (Before::MustPass, Some(failed)) => Err(Failure::new(
            Exit::Verify,
            format!("check `{}` already fails on the unchanged tree", failed.name),
            "repair it first; its output is under verify in the result",
        )),
        (Before::MustFail, None) => Err(Failure::new(
            Exit::Verify,
            "the checks already pass on the unchanged tree, and the recipe expects a failure",
            "correct the check, or leave the run out",
        )),
        (Before::Ignore | Before::SkipIfPass | Before::MustPass | Before::MustFail, _) => Ok(None),
    }
}

fn internal_error(panic: &(dyn std::any::Any + Send)) -> RunFinished {
    let failure = Failure::internal(panic);
    RunFinished::failed(failure.exit, *failure.error)
}
