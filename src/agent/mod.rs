//! Runs the agent's loop: asks the model and answers its calls until the model is done or something ends the run.
//!
//! Knows neither output formats nor delivery: it emits events and leaves staged changes.

pub mod compaction;
pub mod delegate;
mod estimate;
pub mod invoke;
pub mod limits;
pub mod loop_guard;
mod page_reader;
pub mod session;
pub mod transcript;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::event::{AssistantTurn, CallFacts, DeltaKind, Event, Retry, RunError, TokenUsage};
use crate::exit::Exit;
use crate::model::coerce::ToolSet;
use crate::model::{
    Arguments, AssistantMessage, Delta, ErrorClass, Message, Model, ModelError, Notice, Part, Request, Stop,
    StreamFault, ToolMessage, ToolSpec, Turn, Usage, leaked_calls, prompted,
};
use crate::tool_name::ToolId;
use invoke::{Answer, Invoker};
use limits::{Account, Exceeded};
use transcript::Transcript;

/// Where events go.
pub type Emit<'a> = &'a (dyn Fn(Event) + Send + Sync);

/// What to do when a call is denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDeny {
    /// Continue, and end with exit 60.
    Fail,
    /// Continue, and end as if nothing had been denied.
    Continue,
    /// End at the first denial.
    Stop,
}

/// How a conversation ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// The model gave its answer.
    Answer(String),
    /// The model gave its answer by the tool for it, and it does not fit the schema. The model knows why: another
    /// [`Agent::converse`] lets it correct the answer.
    Misfit(String),
    /// Something ended the run.
    Stopped(Stopped),
}

/// Characters of the reasoning that a model is shown again after it repeated itself.
const SHOWN_REASONING: usize = 2_000;

/// The result of a turn.
enum Outcome {
    /// There is more to do.
    GoOn,
    /// The final text.
    Answer(String),
    /// A structured answer that does not fit its schema: why.
    Misfit(String),
}

/// Why the run ended without an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Stopped {
    /// The exit code.
    pub exit: Exit,
    /// What happened.
    pub error: Box<RunError>,
}

/// What the loop needs to know besides its parts.
#[derive(Debug, Clone)]
pub struct AgentOptions {
    /// What a denial does.
    pub on_deny: OnDeny,
    /// Maximum tokens of one answer, from a flag or a recipe.
    pub max_output_tokens: Option<u64>,
    /// Whether the user asked for changes: an answer without any call is questioned once.
    pub changes_expected: bool,
}

/// One conversation with a model, its tools and its account.
pub struct Agent<'a> {
    model: &'a dyn Model,
    invoker: Invoker<'a>,
    offered: Arc<[ToolSpec]>,
    tools: ToolSet,
    options: AgentOptions,
    emit: Emit<'a>,
    account: Account,
    transcript: Transcript,
    compaction: compaction::Compaction,
    /// The answer that was questioned, because nothing had been done for it.
    nudged: Option<String>,
    reprompted: bool,
    /// The model was told that its answer only repeated itself.
    told_of_repetition: bool,
    /// The model has called a tool natively.
    calls_natively: bool,
    keep: Option<Keep<'a>>,
    kept: usize,
}

/// Where new messages go as they are made, for a session that outlives a kill.
pub type Keep<'a> = &'a (dyn Fn(&[Message]) + Send + Sync);

impl<'a> Agent<'a> {
    /// Begins a conversation. Nothing is sent yet.
    pub fn new(
        model: &'a dyn Model,
        invoker: Invoker<'a>,
        account: Account,
        transcript: Transcript,
        options: AgentOptions,
        emit: Emit<'a>,
    ) -> Agent<'a> {
        Agent {
            tools: ToolSet::new(invoker.offered()),
            offered: invoker.offered(),
            model,
            invoker,
            options,
            emit,
            account,
            transcript,
            compaction: compaction::Compaction::default(),
            nudged: None,
            reprompted: false,
            told_of_repetition: false,
            calls_natively: false,
            keep: None,
            kept: 0,
        }
    }

    /// Passes every message on as soon as it is complete; the first `kept` of the transcript are kept already.
    pub fn keeping(mut self, keep: Option<Keep<'a>>, kept: usize) -> Agent<'a> {
        (self.keep, self.kept) = (keep, kept);
        self
    }

    /// Passes on new messages.
    fn keep(&mut self) {
        let messages = self.transcript.messages();
        if let Some(keep) = self.keep
            && self.kept < messages.len()
        {
            keep(&messages[self.kept..]);
        }
        self.kept = messages.len();
    }

    /// Returns the conversation so far.
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// Returns the account so far.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Ends the conversation and returns its account.
    pub fn into_account(self) -> Account {
        self.account
    }

    /// Adds a message of the user: the next [`Agent::converse`] continues from there.
    pub fn say(&mut self, text: impl Into<String>) {
        self.transcript.say(text);
    }

    /// Continues until the model answers without a call, or something ends the run.
    ///
    /// Dropping the future cancels the request or command in progress; only staged changes remain.
    pub async fn converse(&mut self) -> Ending {
        loop {
            let turn = self.turn().await;
            self.keep();
            match turn {
                Ok(Outcome::GoOn) => {}
                Ok(Outcome::Answer(answer)) => return Ending::Answer(answer),
                Ok(Outcome::Misfit(problem)) => return Ending::Misfit(problem),
                Err(stopped) => return Ending::Stopped(stopped),
            }
        }
    }

    /// One turn.
    async fn turn(&mut self) -> Result<Outcome, Stopped> {
        let number = self.account.take_turn(Instant::now()).map_err(exceeded)?;
        self.keep();
        let compacted = self
            .compaction
            .before_request(self.model, &mut self.transcript, &mut self.account, &self.offered, self.emit)
            .await;
        if compacted {
            self.offer_anew().await;
        }
        // A summary is not recorded: the session has the messages that it replaces.
        self.kept = self.transcript.messages().len();
        (self.emit)(Event::TurnStarted { turn: number });
        let turn = self.respond(number).await?;
        let facts = self.model.facts();
        self.compaction.learn(&self.transcript, &turn.usage);
        let estimate = self.transcript.estimate() + estimate::estimate_text(&turn.message.text);
        let cost_usd = self.account.spend(&turn.usage, estimate, facts.price.as_ref());
        (self.emit)(Event::Assistant(Box::new(assistant_event(number, &turn, &facts.name, estimate, cost_usd))));

        if turn.stop == Stop::Repetition {
            return self.repetition(turn.message);
        }
        if turn.message.calls.is_empty() {
            return self.without_calls(turn);
        }
        self.calls_natively |= turn.message.calls.iter().any(|call| call.recovered.is_none());
        let text = turn.message.text.trim().to_owned();
        let outcome = self.answer_calls(number, turn.message, text).await?;
        if !matches!(outcome, Outcome::Answer(_)) {
            self.account.check_budgets(Instant::now()).map_err(exceeded)?;
        }
        Ok(outcome)
    }

    async fn respond(&mut self, number: u32) -> Result<Turn, Stopped> {
        loop {
            let request = Request {
                messages: self.transcript.shared(),
                lineage: self.transcript.lineage(),
                tools: Arc::clone(&self.offered),
                max_output_tokens: self.options.max_output_tokens,
                turn: number - 1,
                time_left: self.account.time_left(Instant::now()),
                force_tool: None,
            };
            let emit = self.emit;
            let mut on_delta = |delta: Delta| emit(delta_event(number, delta));
            match self.model.respond(&request, &mut on_delta).await {
                Ok(turn) if turn.message.calls.is_empty() => {
                    return Ok(self.model.read_again(&turn, &request).unwrap_or(turn));
                }
                Ok(turn) => return Ok(turn),
                Err(error) => match error.class {
                    // The same request would bring an empty answer again; another message may help.
                    ErrorClass::Stream(StreamFault::Empty) if !self.reprompted => {
                        self.reprompted = true;
                        self.transcript
                            .say("Your answer was empty. Make the next call, or say in a sentence what was done.");
                    }
                    ErrorClass::ContextOverflow { .. } | ErrorClass::PayloadTooLarge => {
                        let (model, offered) = (self.model, &self.offered);
                        let shrunk = self
                            .compaction
                            .after_overflow(model, &mut self.transcript, &mut self.account, offered, self.emit)
                            .await;
                        if !shrunk {
                            return Err(model_error(error, &self.account));
                        }
                        self.kept = self.transcript.messages().len();
                        self.offer_anew().await;
                    }
                    _ => return Err(model_error(error, &self.account)),
                },
            }
        }
    }

    /// Shows the model the current tools: the server's cache of the prefix is invalid anyway.
    async fn offer_anew(&mut self) {
        if self.invoker.offer_anew().await {
            self.offered = self.invoker.offered();
            self.tools = ToolSet::new(self.invoker.offered());
        }
    }

    /// Handles an answer that only repeated itself and was cut: the model continues from what it had, once.
    fn repetition(&mut self, message: AssistantMessage) -> Result<Outcome, Stopped> {
        if self.told_of_repetition {
            return Err(stopped(
                Exit::Failed,
                "loop",
                "the model's answer repeated itself without end, twice",
                Some("use a larger model, or a prompt with a single task"),
            ));
        }
        self.told_of_repetition = true;
        (self.emit)(Event::Warning { message: "the answer repeated itself without end and was cut".into() });
        let mut said = "Your answer repeated itself without end and was cut off where the repetition began. \
             Do not write that again: make the next call, or give the final answer in a few sentences."
            .to_owned();
        if let Some(reasoning) = message.reasoning.as_ref().filter(|_| message.text.trim().is_empty()) {
            // Not every server gives reasoning back to its model.
            let skipped = reasoning.text.chars().count().saturating_sub(SHOWN_REASONING);
            let tail: String = reasoning.text.chars().skip(skipped).collect();
            said.push_str(&format!(" Your last thoughts before it were:\n\n{}", tail.trim()));
        }
        self.transcript.turn(message, Vec::new());
        self.transcript.say(said);
        Ok(Outcome::GoOn)
    }

    /// Handles a turn without calls: it is the answer, or a reason to ask once more.
    fn without_calls(&mut self, turn: Turn) -> Result<Outcome, Stopped> {
        let text = turn.message.text.trim().to_owned();
        if let Some(problem) = leaked_calls::broken_call(&turn.message.text, &self.tools, self.calls_natively) {
            self.transcript.turn(turn.message, Vec::new());
            let named = self.offered.iter().find(|tool| problem.contains(&format!("`{}`", tool.name)));
            let is_answer = named.is_some_and(|tool| tool.name == ToolId::StructuredOutput.name());
            let said = if self.model.text_tools() { prompted::correction(&problem, named) } else { problem.clone() };
            self.transcript.say(said);
            return Ok(if is_answer { Outcome::Misfit(problem) } else { Outcome::GoOn });
        }
        if text.is_empty() {
            if self.reprompted {
                return Err(stopped(
                    Exit::Failed,
                    "no_answer",
                    "the model gave neither an answer nor a call, twice",
                    Some("use another model, or a prompt with a single task"),
                ));
            }
            self.reprompted = true;
            self.transcript.turn(turn.message, Vec::new());
            self.transcript.say("You produced only reasoning; call a tool or give the final answer.");
            return Ok(Outcome::GoOn);
        }
        if self.options.changes_expected
            && self.account.tool_calls() == 0
            && self.nudged.is_none()
            && !self.offered.is_empty()
        {
            self.nudged = Some(text);
            self.transcript.turn(turn.message, Vec::new());
            self.transcript.say(
                "Nothing has been done yet: no tool was called, so no file has changed. \
                 If the task needs a change, make it now with the tools. If it needs none, say why.",
            );
            return Ok(Outcome::GoOn);
        }
        if turn.stop == Stop::Length {
            (self.emit)(Event::Warning { message: "the answer was cut by the output limit".into() });
        }
        self.transcript.turn(turn.message, Vec::new());
        // If nothing is done after the question either, that reply is about the question; the answer to the task came
        // before it.
        match self.nudged.take() {
            Some(answer) if self.account.tool_calls() == 0 => Ok(Outcome::Answer(answer)),
            _ => Ok(Outcome::Answer(text)),
        }
    }

    /// Answers the calls of a turn; `text` is the turn's text.
    async fn answer_calls(&mut self, number: u32, message: AssistantMessage, text: String) -> Result<Outcome, Stopped> {
        let mut answers: Vec<ToolMessage> = Vec::new();
        let mut is_answered = false;
        let mut misfit = None;
        let mut end: Option<Stopped> = None;
        self.invoker.set_text_tools(self.model.text_tools());
        let outcomes =
            self.invoker.answer(number, &message.calls, &mut self.account, self.options.on_deny, self.emit).await;
        for (call, outcome) in message.calls.iter().zip(outcomes) {
            let Answer { content, is_error, wrong_arguments, name, ends } = outcome;
            if name == ToolId::StructuredOutput.name() {
                is_answered |= !is_error;
                misfit = wrong_arguments.or(misfit);
            }
            answers.push(ToolMessage { call_id: call.id.clone(), name, content, is_error });
            end = end.or(ends);
        }
        self.transcript.turn(message, answers);
        match (end, misfit) {
            (Some(stopped), _) => Err(stopped),
            (None, _) if is_answered => Ok(Outcome::Answer(text)),
            (None, Some(problem)) => Ok(Outcome::Misfit(problem)),
            (None, None) => Ok(Outcome::GoOn),
        }
    }
}

/// Makes an ending without a budget.
pub(crate) fn stopped(exit: Exit, code: &str, message: impl Into<String>, hint: Option<&str>) -> Stopped {
    Stopped {
        exit,
        error: Box::new(RunError {
            code: code.into(),
            message: message.into(),
            retryable: exit == Exit::Unavailable,
            hint: hint.map(str::to_owned),
            budget: None,
        }),
    }
}

/// Converts an exceeded limit to the ending of the run.
pub(crate) fn exceeded(exceeded: Exceeded) -> Stopped {
    match exceeded {
        Exceeded::Turns { limit } => stopped(
            Exit::Turns,
            "turns",
            format!("the turn limit of {limit} was reached before the model was done"),
            Some("raise --max-session-turns, or give a smaller task"),
        ),
        Exceeded::Denials { limit, same } => stopped(
            Exit::Denied,
            if same { "same_denial" } else { "denials" },
            if same {
                format!("the model repeated the same denied call {limit} times in a row")
            } else {
                format!("the policy denied {limit} calls")
            },
            Some("look at permission_denials in the result: allow what is needed, or say in the prompt what not to do"),
        ),
        Exceeded::Budget(budget) => {
            let flag = match budget.kind.as_str() {
                "wall_time" => "--max-wall-time",
                "tool_calls" => "--max-tool-calls",
                "total_tokens" => "--max-total-tokens",
                "cost_usd" => "--max-cost-usd",
                _ => "the policy's limits",
            };
            let (limit, spent) = match budget.kind.as_str() {
                "wall_time" => (format!("{} s", budget.limit / 1000.0), format!("{:.1} s", budget.spent / 1000.0)),
                "cost_usd" => (format!("${}", budget.limit), format!("${:.4}", budget.spent)),
                _ => (budget.limit.to_string(), budget.spent.to_string()),
            };
            let mut ending = stopped(
                Exit::Budget,
                "budget",
                format!("the {} budget of {limit} is used up ({spent} spent)", budget.kind),
                Some(&format!("raise {flag}, or give a smaller task")),
            );
            ending.error.budget = Some(budget);
            ending
        }
    }
}

fn model_error(error: ModelError, account: &Account) -> Stopped {
    let (exit, code) = match &error.class {
        ErrorClass::Auth | ErrorClass::Permission | ErrorClass::Billing => (Exit::Auth, "auth"),
        ErrorClass::ModelNotFound => (Exit::Config, "config"),
        ErrorClass::BadRequest { .. } | ErrorClass::OutputTooLong { .. } | ErrorClass::Unsupported(_) => {
            (Exit::Failed, "bad_request")
        }
        ErrorClass::ContextOverflow { .. } | ErrorClass::PayloadTooLarge => (Exit::Failed, "context_overflow"),
        ErrorClass::ContentFilter => (Exit::Failed, "content_filter"),
        ErrorClass::Timeout(crate::model::TimeoutKind::Deadline) => match account.check_budgets(Instant::now()) {
            Err(reached) => return exceeded(reached),
            Ok(()) => (Exit::Unavailable, "unavailable"),
        },
        ErrorClass::RateLimit { .. }
        | ErrorClass::Overloaded { .. }
        | ErrorClass::Server
        | ErrorClass::Timeout(_)
        | ErrorClass::Network
        | ErrorClass::Stream(_)
        | ErrorClass::RawGeneration(_) => (Exit::Unavailable, "unavailable"),
        ErrorClass::Cancelled => (Exit::Interrupted, "interrupted"),
        ErrorClass::ReplayMismatch(_) => (Exit::Replay, "replay"),
    };
    let message = match &error.request_id {
        Some(id) => format!("{} (request {id})", error.message),
        None => error.message.clone(),
    };
    stopped(exit, code, message, error.hint.as_deref())
}

fn delta_event(turn: u32, delta: Delta) -> Event {
    match delta {
        Delta::Text(text) => Event::Delta { turn, kind: DeltaKind::Text, text },
        Delta::Reasoning(text) => Event::Delta { turn, kind: DeltaKind::Reasoning, text },
        Delta::Notice(Notice::Retry { attempt, wait, class, message }) => {
            let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            Event::Retry(Retry { turn, attempt, wait_ms, class, message })
        }
        Delta::Notice(Notice::Downgrade { feature, message }) => {
            Event::Warning { message: format!("the server refuses {feature}; going on without it ({message})") }
        }
        Delta::Notice(Notice::Fallback { from, to }) => Event::ModelFallback { from, to },
        Delta::Notice(Notice::Warning(message)) => Event::Warning { message },
    }
}

/// Returns the tokens for events; the estimate replaces what the server did not report.
fn token_usage(usage: &Usage, estimate: u64) -> TokenUsage {
    let reported = usage.input_tokens.is_some() || usage.output_tokens.is_some();
    TokenUsage {
        input_tokens: usage.input_tokens,
        cache_read_input_tokens: usage.cache_read_input_tokens,
        output_tokens: usage.output_tokens,
        reasoning_tokens: usage.reasoning_tokens,
        estimated: (!reported).then_some(estimate),
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn assistant_event(number: u32, turn: &Turn, model: &str, estimate: u64, cost_usd: Option<f64>) -> AssistantTurn {
    AssistantTurn {
        parent: None,
        turn: number,
        id: turn.response_id.clone().unwrap_or_else(|| format!("turn_{number}")),
        model: turn.model.clone().unwrap_or_else(|| model.to_owned()),
        text: turn.message.text.clone(),
        reasoning: turn.message.reasoning.as_ref().map(|reasoning| reasoning.text.clone()).unwrap_or_default(),
        calls: turn
            .message
            .calls
            .iter()
            .map(|call| CallFacts {
                id: call.id.clone(),
                name: call.name.clone(),
                input: match &call.arguments {
                    Arguments::Object(map) => serde_json::Value::Object(map.clone()),
                    Arguments::Incomplete { raw } | Arguments::Invalid { raw, .. } => serde_json::json!({ "raw": raw }),
                },
                recovered: call.recovered.map(str::to_owned),
            })
            .collect(),
        stop_reason: match turn.stop {
            Stop::End => "end_turn",
            Stop::Calls => "tool_use",
            Stop::Length | Stop::Repetition => "max_tokens",
        }
        .into(),
        usage: token_usage(&turn.usage, estimate),
        cost_usd,
        requests: turn.requests,
        api_ms: millis(turn.api_time),
    }
}

/// Returns the parts of a message as the text for events.
pub(crate) fn shown(parts: &[Part]) -> String {
    parts
        .iter()
        .map(|part| match part {
            Part::Text(text) => text.clone(),
            Part::Media { mime_type, name, data } => format!("[{mime_type} {name}, {} bytes of base64]", data.len()),
        })
        .collect()
}
