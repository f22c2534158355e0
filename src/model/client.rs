//! Implements [`Model`] for an OpenAI-compatible server.

use std::collections::HashSet;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::advice::{class_name, feature_name, hint};
use super::assemble::{self, BodyError};
use super::attempt::{Attempt, Failure, is_cut};
use super::canonical::Masks;
use super::cassette::Recorder;
use super::catalogue;
use super::coerce::ToolSet;
use super::config::{ClientConfig, TextToolsMode};
use super::endpoint::{Endpoint, EndpointError};
use super::http::Http;
use super::leaked_calls::{self, TextTools};
use super::printed::Printed;
use super::quirks::{Quirks, quirks_named};
use super::request::Stem;
use super::retry::{Budgets, Retry, Verdict, may_fall_back};
use super::transport::{Method, Transport};
use super::tries::{MAX_CONTINUATIONS, Tries};
use super::{
    Arguments, AssistantMessage, BoxFuture, Delta, ErrorClass, Feature, Message, Model, ModelError, ModelFacts, Notice,
    Part, Request, ToolSpec, Turn, Usage,
};

/// The wait for a first byte from a server that is not this machine.
const FIRST_BYTE: Duration = Duration::from_secs(120);
/// The same on this machine, where a processor may read the prompt.
const FIRST_BYTE_LOCAL: Duration = Duration::from_secs(600);

/// Answers requests by asking a server.
pub struct Client {
    pub(super) config: ClientConfig,
    pub(super) quirks: &'static Quirks,
    transport: Arc<dyn Transport>,
    state: Mutex<State>,
    stem: Mutex<Stem>,
}

/// What the run has learned so far.
pub(super) struct State {
    pub(super) endpoint: Endpoint,
    /// 0 is the model of the configuration, then its fall-backs.
    model: usize,
    pub(super) given_up: HashSet<Feature>,
    pub(super) prompted: bool,
    /// A valid call came as one: the server knows how the model calls, and what is in the text is not a reason to
    /// put the tools there.
    calls_natively: bool,
    /// Whether the server was asked, or need not be asked, which context window it serves.
    pub(super) probed: bool,
    pub(super) learned_window: Option<u64>,
    pub(super) learned_output: Option<u64>,
    warned_of_truncation: bool,
    /// What the server counted for each token of our guess.
    pub(super) calibration: f64,
    turns: u64,
    tools: Option<(Arc<[ToolSpec]>, Arc<ToolSet>)>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("endpoint", &self.state().endpoint).field("model", &self.config.model).finish()
    }
}

impl Client {
    /// Prepares a client; nothing is sent, no connection opened, no certificate read.
    ///
    /// Refuses an invalid base URL, plain http to another machine, and a key that is missing or another provider's.
    pub fn new(config: ClientConfig) -> Result<Client, ModelError> {
        let endpoint = checked_endpoint(&config)?;
        let http = Arc::new(Http::new(endpoint, &config));
        Client::with_transport(config, http)
    }

    /// Prepares a client that records a cassette while it works.
    pub fn recording(config: ClientConfig, out: Box<dyn Write + Send>, masks: Masks) -> Result<Client, ModelError> {
        let endpoint = checked_endpoint(&config)?;
        let (base_url, model, served) = (endpoint.to_string(), config.model.clone(), config.served_window);
        let http = Arc::new(Http::new(endpoint, &config));
        Client::with_transport(config, Arc::new(Recorder::new(http, out, masks, &base_url, &model, served)))
    }

    /// Returns why the cassette could not be written, if so.
    pub fn recording_failure(&self) -> Option<String> {
        self.transport.failure()
    }

    /// Prepares a client over another transport, such as a cassette's player: no key is asked for.
    pub fn with_transport(config: ClientConfig, transport: Arc<dyn Transport>) -> Result<Client, ModelError> {
        let endpoint = Endpoint::parse(&config.base_url).map_err(refused_endpoint)?;
        let quirks = config.provider.map_or_else(|| endpoint.quirks(), quirks_named);
        let prompted = match config.text_tools {
            TextToolsMode::Force => true,
            TextToolsMode::Auto => quirks.local && catalogue::calls_in_text(&config.model),
            TextToolsMode::Off => false,
        };
        let state = State {
            endpoint,
            model: 0,
            given_up: HashSet::new(),
            prompted,
            calls_natively: false,
            probed: false,
            learned_window: config.served_window,
            learned_output: None,
            warned_of_truncation: false,
            calibration: 1.0,
            turns: 0,
            tools: None,
        };
        Ok(Client { config, quirks, transport, state: Mutex::new(state), stem: Mutex::default() })
    }

    /// Puts the tools into the prompt from now on, unless the configuration forbids it; tells whether they are there
    /// now.
    pub fn switch_to_text_tools(&self) -> bool {
        if self.config.text_tools == TextToolsMode::Off {
            return false;
        }
        self.state().prompted = true;
        true
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // What it holds is valid after any panic: each field stands for itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the last body began with.
    pub(super) fn stem(&self) -> MutexGuard<'_, Stem> {
        self.stem.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn model_name(&self) -> &str {
        let index = self.state().model;
        if index == 0 { &self.config.model } else { &self.config.fallback_models[index - 1] }
    }

    fn tool_set(&self, request: &Request) -> Arc<ToolSet> {
        let mut state = self.state();
        match &state.tools {
            Some((specs, set)) if Arc::ptr_eq(specs, &request.tools) => set.clone(),
            Some(_) | None => {
                let set = Arc::new(ToolSet::new(request.tools.clone()));
                state.tools = Some((request.tools.clone(), set.clone()));
                set
            }
        }
    }

    fn assembler_options(&self, request: &Request) -> assemble::Options {
        let used_ids = request
            .messages
            .iter()
            .flat_map(|message| match message {
                Message::Assistant(turn) => turn.calls.as_slice(),
                Message::System(_) | Message::User(_) | Message::Tool(_) => &[],
            })
            .map(|call| call.id.clone())
            .collect();
        let text_tools = match self.config.text_tools {
            TextToolsMode::Off => TextTools::Off,
            TextToolsMode::Auto | TextToolsMode::Force => {
                if self.text_tools() {
                    TextTools::Prompted
                } else {
                    TextTools::Auto
                }
            }
        };
        let model = self.model_name().to_owned();
        assemble::Options { turn: request.turn, text_tools, used_ids, model }
    }

    pub(super) fn attempt(&self, deadline: Option<Instant>) -> Attempt<'_> {
        let loopback = self.state().endpoint.is_loopback();
        let timers = &self.config.timers;
        let usual = if loopback { FIRST_BYTE_LOCAL } else { FIRST_BYTE };
        let first_byte = timers.first_byte.or(self.quirks.first_byte).unwrap_or(usual);
        Attempt {
            transport: self.transport.as_ref(),
            quirks: self.quirks,
            first_byte,
            idle: timers.idle,
            // A first byte that may take that long leaves the answer its own time.
            lifetime: if timers.lifetime.is_zero() { Duration::ZERO } else { timers.lifetime.max(first_byte) },
            deadline,
            now: self.config.now,
        }
    }

    /// Gives a feature up for the run; `None` if that was done before, so that it cannot be the cause.
    fn give_up(&self, feature: Feature, request: &Request) -> Option<String> {
        let mut state = self.state();
        if feature == Feature::Tools {
            if self.config.text_tools == TextToolsMode::Off || state.prompted || request.tools.is_empty() {
                return None;
            }
            state.prompted = true;
        }
        if feature == Feature::Media && !has_media(request) {
            return None;
        }
        state.given_up.insert(feature).then(|| feature_name(feature).to_owned())
    }

    pub(super) fn error(&self, failure: Failure, requests: u32, usage: Usage, reason: Option<String>) -> ModelError {
        let model = self.model_name().to_owned();
        let endpoint = self.state().endpoint.clone();
        let hint = failure.hint.or_else(|| {
            if failure.class == ErrorClass::Auth {
                Some(endpoint.hint_on_refused_key(self.config.key.as_ref()))
            } else {
                hint(&failure.class, self.quirks, &model)
            }
        });
        let mut message = format!("{} ({}) {}", self.quirks.name, endpoint.authority(), failure.message);
        if let Some(reason) = reason {
            message.push_str("; ");
            message.push_str(&reason);
        }
        if let Some(key) = &self.config.key {
            message = key.mask_in(&message);
        }
        ModelError {
            class: failure.class,
            message,
            hint,
            status: failure.status,
            request_id: failure.request_id,
            requests,
            usage: Box::new(usage),
        }
    }

    async fn answer(&self, request: &Request, on_delta: &mut (dyn FnMut(Delta) + Send)) -> Result<Turn, ModelError> {
        let began = Instant::now();
        let deadline = request.time_left.map(|left| began + left);
        let seed = {
            let mut state = self.state();
            state.turns += 1;
            self.config.jitter_seed.wrapping_add(state.turns)
        };
        let mut run = Tries::new(self.retries(seed));
        let mut printed = Printed::new(on_delta);
        loop {
            let continued = (!run.kept.is_empty()).then_some(run.kept.as_str());
            let body = self.body(request, continued);
            let estimate = body.estimate;
            let wire = self.wire_request(Method::Post, "chat/completions", body.bytes);
            run.requests += 1;
            let sent = Instant::now();
            let tools = self.tool_set(request);
            let options = self.assembler_options(request);
            let result = self.attempt(deadline).turn(wire, tools, options, &mut printed).await;
            run.api_time += sent.elapsed();
            let failure = match result {
                Ok(assembled) => {
                    self.learn_usage(estimate, &assembled.usage, &mut printed);
                    let cut = is_cut(&assembled)
                        && request.max_output_tokens.or(self.config.max_output_tokens).is_none()
                        && !assembled.text.trim().is_empty()
                        && run.continuations < MAX_CONTINUATIONS;
                    if !cut {
                        let turn = run.turn(assembled);
                        self.learn_calls(&turn, request, &mut printed);
                        return Ok(turn);
                    }
                    run.keep(assembled);
                    printed.begin(&run.kept);
                    continue;
                }
                Err(failure) => *failure,
            };
            // What was kept of an answer is worth more than an error about its continuation.
            if run.continuations > 0
                && matches!(failure.class, ErrorClass::ContextOverflow { .. })
                && run.finished_once()
            {
                return Ok(run.kept_turn());
            }
            let failure = match self.recover(failure, request, &mut run, &mut printed) {
                Recovered::Turn(turn) => return Ok(*turn),
                Recovered::Again => continue,
                Recovered::No(failure) => *failure,
            };
            let failure = self.judged(failure, estimate);
            let time_left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let verdict = if failure.last {
                Verdict::GiveUp(None)
            } else {
                run.retry.next(&failure.class, failure.retry_after, time_left)
            };
            match verdict {
                Verdict::After(wait) => {
                    printed.push(Delta::Notice(Notice::Retry {
                        attempt: run.requests + 1,
                        wait,
                        class: class_name(&failure.class).to_owned(),
                        message: self.mask(&failure.message),
                    }));
                    run.take_partial(&failure);
                    printed.begin(&run.kept);
                    tokio::time::sleep(self.transport.pause(wait)).await;
                }
                Verdict::GiveUp(reason) => {
                    let next = self.state().model;
                    if !may_fall_back(&failure.class) || next >= self.config.fallback_models.len() {
                        let usage = run.spent(&failure);
                        return Err(self.error(failure, run.requests, usage, reason));
                    }
                    let from = self.model_name().to_owned();
                    {
                        let mut state = self.state();
                        state.model += 1;
                        // What was learned of one model's limits says nothing of another's.
                        state.learned_window = self.config.served_window;
                        state.learned_output = None;
                        state.calls_natively = false;
                    }
                    let to = self.model_name().to_owned();
                    printed.push(Delta::Notice(Notice::Fallback { from, to }));
                    run.retry = self.retries(seed);
                    run.kept.clear();
                    printed.begin("");
                }
            }
        }
    }

    fn retries(&self, seed: u64) -> Retry {
        Retry::new(Budgets::of(self.config.retries), self.config.first_wait, self.config.max_wait, seed)
    }

    fn mask(&self, text: &str) -> String {
        self.config.key.as_ref().map_or_else(|| text.to_owned(), |key| key.mask_in(text))
    }

    /// Tries what needs no wait: a feature given up, a limit learned, text read from an error.
    fn recover(&self, failure: Failure, request: &Request, run: &mut Tries, printed: &mut Printed<'_>) -> Recovered {
        match &failure.class {
            ErrorClass::Unsupported(feature) => {
                let feature = *feature;
                match self.give_up(feature, request) {
                    Some(feature) => {
                        let message = self.mask(&failure.message);
                        printed.push(Delta::Notice(Notice::Downgrade { feature, message }));
                        printed.begin(&run.kept);
                        Recovered::Again
                    }
                    None if feature == Feature::Tools => Recovered::No(Box::new(failure)),
                    None => {
                        Recovered::No(Box::new(Failure { class: ErrorClass::BadRequest { param: None }, ..failure }))
                    }
                }
            }
            ErrorClass::OutputTooLong { limit } => {
                let mut state = self.state();
                let known = state.learned_output;
                let lower = match (limit, known) {
                    (Some(limit), Some(known)) if *limit >= known => None,
                    (Some(limit), _) if *limit > 0 => Some(*limit),
                    (_, None) => Some(OUTPUT_WITHOUT_A_LIMIT),
                    (_, Some(_)) => None,
                };
                match lower {
                    Some(limit) => {
                        state.learned_output = Some(limit);
                        drop(state);
                        let message = format!("the server gives at most {limit} output tokens");
                        let feature = "max_tokens".to_owned();
                        printed.push(Delta::Notice(Notice::Downgrade { feature, message }));
                        printed.begin(&run.kept);
                        Recovered::Again
                    }
                    None => {
                        drop(state);
                        Recovered::No(Box::new(failure))
                    }
                }
            }
            ErrorClass::ContextOverflow { limit: Some(limit), .. } if *limit > 0 => {
                let mut state = self.state();
                state.learned_window = Some(state.learned_window.map_or(*limit, |known| known.min(*limit)));
                drop(state);
                Recovered::No(Box::new(failure))
            }
            ErrorClass::RawGeneration(raw) => {
                let options = self.assembler_options(request);
                let tools = self.tool_set(request);
                let mut deltas = Vec::new();
                match assemble::from_body(&completion(raw), tools, options, &mut deltas) {
                    Ok(assembled) if !assembled.calls.is_empty() => {
                        for delta in deltas {
                            printed.push(delta);
                        }
                        Recovered::Turn(Box::new(run.turn(assembled)))
                    }
                    Ok(_) | Err(BodyError::Frame(_) | BodyError::Failed(_) | BodyError::NotJson(_)) => {
                        Recovered::No(Box::new(failure))
                    }
                }
            }
            ErrorClass::ModelNotFound if failure.status == Some(404) => {
                let mut state = self.state();
                if state.endpoint.lacks_version() && run.requests == 1 {
                    state.endpoint = state.endpoint.with_version();
                    let message =
                        format!("the server knows nothing at the base URL; trying {} instead", state.endpoint);
                    drop(state);
                    printed.push(Delta::Notice(Notice::Warning(message)));
                    return Recovered::Again;
                }
                drop(state);
                Recovered::No(Box::new(failure))
            }
            ErrorClass::ModelNotFound
            | ErrorClass::ContextOverflow { .. }
            | ErrorClass::Auth
            | ErrorClass::Permission
            | ErrorClass::Billing
            | ErrorClass::BadRequest { .. }
            | ErrorClass::PayloadTooLarge
            | ErrorClass::ContentFilter
            | ErrorClass::RateLimit { .. }
            | ErrorClass::Overloaded { .. }
            | ErrorClass::Server
            | ErrorClass::Timeout(_)
            | ErrorClass::Network
            | ErrorClass::Stream(_)
            | ErrorClass::Cancelled
            | ErrorClass::ReplayMismatch(_) => Recovered::No(Box::new(failure)),
        }
    }

    /// Corrects what the class alone cannot know: a bare refusal of a short conversation is not an overflow.
    fn judged(&self, failure: Failure, estimate: u64) -> Failure {
        let bare = failure.class == ErrorClass::ContextOverflow { limit: None, actual: None };
        let said_nothing = failure.message == format!("answered {}", failure.status.unwrap_or(0));
        if bare && said_nothing && estimate < self.facts().context_window / 4 {
            Failure { class: ErrorClass::BadRequest { param: None }, ..failure }
        } else {
            failure
        }
    }

    /// Puts the tools into the prompt if a turn's calls all came as text and none ever came natively.
    fn learn_calls(&self, turn: &Turn, request: &Request, printed: &mut Printed<'_>) {
        let calls = &turn.message.calls;
        let leaked = !calls.is_empty() && calls.iter().all(|call| call.recovered.is_some());
        if !leaked {
            let tools = self.tool_set(request);
            let is_valid = calls.iter().any(|call| match &call.arguments {
                Arguments::Object(arguments) => {
                    call.recovered.is_none() && tools.check(&call.name, arguments.clone()).is_ok()
                }
                Arguments::Incomplete { .. } | Arguments::Invalid { .. } => false,
            });
            self.state().calls_natively |= is_valid;
        } else if !self.state().calls_natively && !self.text_tools() && self.switch_to_text_tools() {
            printed.push(Delta::Notice(Notice::Warning(
                "the model writes calls as text: they are read from it, and from now on the prompt describes the tools"
                    .to_owned(),
            )));
        }
    }

    /// Compares the server's token count with the estimate: this calibrates the next estimate, and reveals a server
    /// that cut the conversation without saying so.
    fn learn_usage(&self, estimate: u64, usage: &Usage, printed: &mut Printed<'_>) {
        const WORTH_COMPARING: u64 = 2_000;
        let Some(counted) = usage.input_tokens.filter(|counted| *counted > 0 && estimate >= WORTH_COMPARING) else {
            return;
        };
        let mut state = self.state();
        if counted * 10 < estimate * 6 {
            if !state.warned_of_truncation {
                state.warned_of_truncation = true;
                drop(state);
                let remedy = hint(&ErrorClass::PayloadTooLarge, self.quirks, self.model_name()).unwrap_or_default();
                printed.push(Delta::Notice(Notice::Warning(format!(
                    "the server counted {counted} prompt tokens where about {estimate} were sent: it seems to cut the conversation; {remedy}"
                ))));
            }
            return;
        }
        let ratio = counted as f64 / estimate as f64;
        state.calibration = (state.calibration * 0.5 + ratio * 0.5).clamp(0.5, 3.0);
    }
}

/// What is asked for where a server refuses the output limit and does not say which it takes.
const OUTPUT_WITHOUT_A_LIMIT: u64 = 4_096;

fn has_media(request: &Request) -> bool {
    let is_media = |part: &Part| matches!(part, Part::Media { .. });
    request.messages.iter().any(|message| match message {
        Message::User(parts) => parts.iter().any(is_media),
        Message::Tool(answer) => answer.content.iter().any(is_media),
        Message::System(_) | Message::Assistant(_) => false,
    })
}

/// Writes text as the completion that a server would have sent it in.
fn completion(text: &str) -> String {
    json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]})
        .to_string()
}

enum Recovered {
    Turn(Box<Turn>),
    Again,
    No(Box<Failure>),
}

impl Model for Client {
    fn respond<'a>(
        &'a self,
        request: &'a Request,
        on_delta: &'a mut (dyn FnMut(Delta) + Send),
    ) -> BoxFuture<'a, Result<Turn, ModelError>> {
        Box::pin(async move {
            let answer = self.answer(request, on_delta);
            if !self.should_probe() {
                return answer.await;
            }
            let probe = self.probe();
            tokio::pin!(answer, probe);
            match futures_util::future::select(answer, probe).await {
                futures_util::future::Either::Left((turn, _)) => turn,
                futures_util::future::Either::Right(((), answer)) => answer.await,
            }
        })
    }

    fn text_tools(&self) -> bool {
        self.state().prompted
    }

    fn read_again(&self, turn: &Turn, request: &Request) -> Option<Turn> {
        let is_answer = self.config.text_tools == TextToolsMode::Off
            || self.state().calls_natively
            || !leaked_calls::has_call(&turn.message.text, &self.tool_set(request));
        if is_answer {
            return None;
        }
        let mut options = self.assembler_options(request);
        options.text_tools = TextTools::Prompted;
        let read =
            assemble::from_body(&completion(&turn.message.text), self.tool_set(request), options, &mut Vec::new());
        let assembled = read.ok().filter(|assembled| !assembled.calls.is_empty())?;
        self.switch_to_text_tools();
        Some(Turn {
            stop: assembled.stop(),
            message: AssistantMessage {
                text: assembled.text,
                reasoning: turn.message.reasoning.clone(),
                calls: assembled.calls,
            },
            ..turn.clone()
        })
    }

    fn facts(&self) -> ModelFacts {
        let model = self.model_name().to_owned();
        let state = self.state();
        let mut facts = catalogue::facts_of(&model);
        if let Some(window) = self.config.context_window {
            facts.context_window = window;
        }
        if let Some(window) = state.learned_window {
            facts.context_window = facts.context_window.min(window);
        }
        if let Some(output) = state.learned_output {
            facts.max_output = facts.max_output.min(output);
        }
        facts.max_output = facts.max_output.min(facts.context_window);
        facts.images = self.config.images.unwrap_or(facts.images) && !state.given_up.contains(&Feature::Media);
        // What runs on this machine costs nothing.
        facts.price = if state.endpoint.is_loopback() {
            Some(super::Price::default())
        } else {
            self.config.price.or(facts.price)
        };
        facts
    }
}

fn refused_endpoint(error: EndpointError) -> ModelError {
    let class = match &error {
        EndpointError::NoKey { .. } | EndpointError::ForeignKey { .. } => ErrorClass::Auth,
        EndpointError::Url { .. } | EndpointError::PlainHttp(_) => {
            ErrorClass::BadRequest { param: Some("base_url".to_owned()) }
        }
    };
    ModelError {
        class,
        message: error.to_string(),
        hint: None,
        status: None,
        request_id: None,
        requests: 0,
        usage: Box::default(),
    }
}

fn checked_endpoint(config: &ClientConfig) -> Result<Endpoint, ModelError> {
    let endpoint = Endpoint::parse(&config.base_url).map_err(refused_endpoint)?;
    endpoint.check_scheme(config.allow_http).map_err(refused_endpoint)?;
    endpoint.check_key(config.key.as_ref()).map_err(refused_endpoint)?;
    Ok(endpoint)
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
