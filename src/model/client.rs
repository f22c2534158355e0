//! Implements [`Model`] for an OpenAI-compatible server.

use std::collections::HashSet;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::assemble;
use super::assembled::Assembled;
use super::attempt::{Attempt, Failure, is_cut};
use super::attempts::{Attempts, MAX_CONTINUATIONS, Recovered};
use super::canonical::Masks;
use super::cassette::Recorder;
use super::catalogue;
use super::config::{ClientConfig, TextToolsMode};
use super::endpoint::{Endpoint, EndpointError};
use super::http::Http;
use super::leaked_calls::{self, TextTools};
use super::learned::Learned;
use super::providers::{Provider, Quirks, quirks_named};
use super::request::Stem;
use super::retry::{Budgets, Retry, Verdict, may_fall_back};
use super::streamed::Streamed;
use super::tool_set::ToolSet;
use super::transport::{Method, Transport};
use super::{
    AssistantMessage, BoxFuture, Delta, ErrorClass, Feature, Message, Model, ModelError, ModelFacts, Notice, Request,
    ToolSpec, Turn, Usage,
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
    pub(super) calls_natively: bool,
    /// Whether the server was asked, or need not be asked, which context window it serves.
    pub(super) probed: bool,
    pub(super) learned_window: Option<u64>,
    pub(super) learned_output: Option<u64>,
    pub(super) warned_of_truncation: bool,
    /// What the server counted for each token of our guess.
    pub(super) calibration: f64,
    turns: u64,
    tools: Option<(Arc<[ToolSpec]>, Arc<ToolSet>)>,
}

impl State {
    /// Tells whether a feature is still in use.
    pub(super) fn has(&self, feature: Feature) -> bool {
        !self.given_up.contains(&feature)
    }
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
        let http = Client::http(&config, 1)?;
        Client::with_transport(config, http)
    }

    /// Prepares the way to the server of a configuration, with so many connections that are kept open; refuses what
    /// [`Client::new`] refuses.
    pub fn http(config: &ClientConfig, connections: usize) -> Result<Arc<dyn Transport>, ModelError> {
        Ok(Arc::new(Http::new(checked_endpoint(config)?, config, connections)))
    }

    /// Prepares a client that records a cassette of what goes over a transport.
    pub fn recording(
        config: ClientConfig,
        transport: Arc<dyn Transport>,
        out: Box<dyn Write + Send>,
        masks: Masks,
    ) -> Result<Client, ModelError> {
        let endpoint = checked_endpoint(&config)?;
        let (base_url, model, served) = (endpoint.to_string(), config.model.clone(), config.known.served_window);
        Client::with_transport(config, Arc::new(Recorder::new(transport, out, masks, &base_url, &model, served)))
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
            TextToolsMode::Auto => calls_in_text(quirks, &config) || config.learned.text_calls,
            TextToolsMode::Off => false,
        };
        let state = State {
            endpoint,
            model: 0,
            given_up: config.learned.given_up().collect(),
            prompted,
            calls_natively: false,
            probed: false,
            learned_window: config.known.served_window.or(config.learned.window),
            learned_output: config.learned.output,
            warned_of_truncation: false,
            calibration: 1.0,
            turns: 0,
            tools: None,
        };
        Ok(Client { config, quirks, transport, state: Mutex::new(state), stem: Mutex::default() })
    }

    /// Returns what is known now of the server and the model, for later runs; `None` if another model took over.
    pub fn learned(&self) -> Option<Learned> {
        let state = self.state();
        if state.model > 0 {
            return None;
        }
        let text_calls = match self.config.text_tools {
            TextToolsMode::Auto => state.prompted && !state.calls_natively && !calls_in_text(self.quirks, &self.config),
            // Not tried.
            TextToolsMode::Off | TextToolsMode::Force => self.config.learned.text_calls,
        };
        let given_up = state.given_up.iter().filter(|feature| Learned::keeps(**feature));
        let mut refused: Vec<String> = given_up.map(|feature| feature.name().to_owned()).collect();
        refused.sort();
        Some(Learned { text_calls, window: state.learned_window, output: state.learned_output, refused })
    }

    /// Learns which window the server gives: the smallest that it named. What an earlier run found out is corrected.
    pub(super) fn learn_window(&self, window: u64) {
        let mut state = self.state();
        let known = state.learned_window.filter(|known| self.config.learned.window != Some(*known));
        state.learned_window = Some(known.map_or(window, |known| known.min(window)));
    }

    /// Returns the kind of server, as `gen_ai.provider.name` of OpenTelemetry has it: `openai` for what speaks its API.
    pub fn provider_name(&self) -> &'static str {
        match self.quirks.provider {
            Provider::Local | Provider::Unknown => "openai",
            _ => self.quirks.name,
        }
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
        // Its fields are independent, so the value is valid after any panic.
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

    pub(super) fn tool_set(&self, request: &Request) -> Arc<ToolSet> {
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

    pub(super) fn assembler_options(&self, request: &Request) -> assemble::Options {
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
            now: self.config.retry.now,
        }
    }

    pub(super) fn error(&self, failure: Failure, requests: u32, usage: Usage, reason: Option<String>) -> ModelError {
        let model = self.model_name().to_owned();
        let endpoint = self.state().endpoint.clone();
        let hint = failure.hint.or_else(|| {
            if failure.class == ErrorClass::Auth {
                Some(endpoint.hint_on_refused_key(self.config.key.as_ref(), self.config.connection.key_from.as_deref()))
            } else {
                self.quirks.hint(&failure.class, &model)
            }
        });
        let mut message = match &failure.class {
            ErrorClass::ReplayMismatch(_) => failure.message,
            _ => format!("{} ({}) {}", self.quirks.name, endpoint.authority(), failure.message),
        };
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
        let mut deadline = request.time_left.map(|left| Instant::now() + left);
        let seed = {
            let mut state = self.state();
            state.turns += 1;
            self.config.retry.jitter_seed.wrapping_add(state.turns)
        };
        let mut run = Attempts::new(self.retries(seed));
        let mut streamed = Streamed::new(on_delta);
        loop {
            let (estimate, result) = self.send(request, &mut deadline, &mut run, &mut streamed).await;
            let mut failure = match result {
                Ok(assembled) => match self.accept(assembled, estimate, request, &mut run, &mut streamed) {
                    Some(turn) => return Ok(turn),
                    None => continue,
                },
                Err(failure) => *failure,
            };
            // What was kept of an answer is worth more than an error about its continuation.
            if run.continuations > 0
                && matches!(failure.class, ErrorClass::ContextOverflow { .. })
                && run.finished_once()
            {
                return Ok(run.kept_turn());
            }
            match self.recover(&mut failure, request, &mut run, &mut streamed) {
                Recovered::Turn(turn) => return Ok(*turn),
                Recovered::Again => continue,
                Recovered::No => self.judge(&mut failure, estimate),
            }
            let time_left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let verdict = if failure.last {
                Verdict::GiveUp(None)
            } else {
                run.retry.next(&failure.class, failure.retry_after, time_left)
            };
            match verdict {
                Verdict::After(wait) => {
                    streamed.push(Delta::Notice(self.retry_notice(&failure, wait, run.requests + 1)));
                    run.take_partial(&failure);
                    streamed.begin(&run.kept);
                    let refused = matches!(failure.class, ErrorClass::RateLimit { .. } | ErrorClass::Overloaded { .. });
                    tokio::time::sleep(self.transport.pause(wait, refused)).await;
                }
                Verdict::GiveUp(reason) => match self.fall_back(&failure.class) {
                    Some(notice) => {
                        streamed.push(Delta::Notice(notice));
                        run.retry = self.retries(seed);
                        run.kept.clear();
                        streamed.begin("");
                    }
                    None => {
                        let usage = run.spent(&failure);
                        return Err(self.error(failure, run.requests, usage, reason));
                    }
                },
            }
        }
    }

    fn retry_notice(&self, failure: &Failure, wait: Duration, attempt: u32) -> Notice {
        let class = failure.class.name().to_owned();
        Notice::Retry { attempt, wait, class, message: self.mask(&failure.message) }
    }

    /// Sends a request as things are now; returns the estimate of its tokens, too.
    async fn send(
        &self,
        request: &Request,
        deadline: &mut Option<Instant>,
        run: &mut Attempts,
        streamed: &mut Streamed<'_>,
    ) -> (u64, Result<Assembled, Box<Failure>>) {
        let continued = (!run.kept.is_empty()).then_some(run.kept.as_str());
        let body = self.body(request, continued);
        let wire = self.wire_request(Method::Post, "chat/completions", body.bytes);
        let waits = Instant::now();
        self.transport.turn(body.estimate).await;
        // What was waited for the turn is not the run's time.
        *deadline = deadline.map(|at| at + waits.elapsed());
        run.requests += 1;
        let sent = Instant::now();
        let (tools, options) = (self.tool_set(request), self.assembler_options(request));
        let result = self.attempt(*deadline).turn(wire, tools, options, streamed).await;
        run.api_time += sent.elapsed();
        (body.estimate, result)
    }

    /// Takes an answer; `None` if it was cut and is to be continued.
    fn accept(
        &self,
        assembled: Assembled,
        estimate: u64,
        request: &Request,
        run: &mut Attempts,
        streamed: &mut Streamed<'_>,
    ) -> Option<Turn> {
        self.learn_usage(estimate, &assembled.usage, streamed);
        let is_continued = is_cut(&assembled)
            && request.max_output_tokens.or(self.config.generation.max_output_tokens).is_none()
            && !assembled.text.trim().is_empty()
            && run.continuations < MAX_CONTINUATIONS;
        if is_continued {
            run.keep(assembled);
            streamed.begin(&run.kept);
            return None;
        }
        let turn = run.turn(assembled);
        self.learn_calls(&turn, request, streamed);
        Some(turn)
    }

    /// Lets the next model take over, where that may help.
    fn fall_back(&self, class: &ErrorClass) -> Option<Notice> {
        if !may_fall_back(class) || self.state().model >= self.config.fallback_models.len() {
            return None;
        }
        let from = self.model_name().to_owned();
        {
            let mut state = self.state();
            state.model += 1;
            // What was learned of one model's limits says nothing of another's.
            state.learned_window = self.config.known.served_window;
            state.learned_output = None;
            state.calls_natively = false;
        }
        Some(Notice::Fallback { from, to: self.model_name().to_owned() })
    }

    pub(super) fn retries(&self, seed: u64) -> Retry {
        Retry::new(
            Budgets::of(self.config.retry.retries),
            self.config.retry.first_wait,
            self.config.retry.max_wait,
            seed,
        )
    }

    pub(super) fn mask(&self, text: &str) -> String {
        self.config.key.as_ref().map_or_else(|| text.to_owned(), |key| key.mask_in(text))
    }
}

/// Tells whether the catalogue knows that the model writes its calls as text here.
fn calls_in_text(quirks: &Quirks, config: &ClientConfig) -> bool {
    quirks.local && catalogue::calls_in_text(&config.model)
}

/// Writes text as the completion that a server would have sent it in.
pub(super) fn completion(text: &str) -> String {
    json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]})
        .to_string()
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
        if let Some(window) = self.config.known.context_window {
            facts.context_window = window;
        }
        if let Some(window) = state.learned_window {
            facts.context_window = facts.context_window.min(window);
        }
        if let Some(output) = state.learned_output {
            facts.max_output = facts.max_output.min(output);
        }
        facts.max_output = facts.max_output.min(facts.context_window);
        facts.images = self.config.known.images.unwrap_or(facts.images) && state.has(Feature::Media);
        // What runs on this machine costs nothing.
        facts.price = if state.endpoint.is_loopback() {
            Some(super::Price::default())
        } else {
            let price = self.config.known.price.or(facts.price);
            price.zip(self.transport.rate()).map(|(price, rate)| price.times(rate))
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
    endpoint.check_scheme(config.connection.allow_http).map_err(refused_endpoint)?;
    endpoint.check_key(config.key.as_ref()).map_err(refused_endpoint)?;
    Ok(endpoint)
}

#[cfg(test)]
mod tests;
