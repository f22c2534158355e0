//! Talks to a model: takes requests and returns one [`Turn`] for each, whatever the server does in between.

pub mod assemble;
pub mod assembled;
pub mod attempt;
mod attempts;
pub mod batch_answer;
pub mod batch_api;
mod blocks;
pub mod canonical;
pub mod cassette;
pub mod catalogue;
pub mod chunk;
pub mod client;
pub mod coerce;
pub mod config;
mod cumulative;
pub mod endpoint;
pub mod errors;
mod event_cache;
pub mod http;
pub mod leaked_calls;
pub mod learned;
pub mod local;
pub mod masked_spec;
mod masked_stream;
mod outgoing;
pub mod paced;
pub mod prompted;
pub mod providers;
mod recovery;
pub mod repair;
mod repetition;
pub mod request;
pub mod retry;
pub mod retry_after;
pub mod script;
pub mod server_info;
mod slots;
pub mod sse;
#[cfg(test)]
mod stream_cases;
pub mod streamed;
#[cfg(test)]
mod streams_tests;
mod surrogates;
#[cfg(test)]
mod test_server;
pub mod thinking;
pub mod tool_set;
pub mod transport;
pub mod trust;
mod units;
pub mod unread_call;
mod violation;
mod visible;
mod xml_call;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use serde_json::Value;

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One message of a conversation, as the agent keeps it. The client decides how to send it.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// The system prompt: exactly one, first.
    System(String),
    /// A message of the user, or on the user's behalf.
    User(Vec<Part>),
    /// What the model said.
    Assistant(AssistantMessage),
    /// The answer to one call; all answers of a turn follow it at once, in the order of the calls.
    Tool(ToolMessage),
}

/// A model's turn as it is in the history.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AssistantMessage {
    /// The visible text.
    pub text: String,
    /// The reasoning, sent back only to providers that ask for it.
    pub reasoning: Option<Reasoning>,
    /// The calls; each has exactly one [`Message::Tool`] after this message.
    pub calls: Vec<ToolCall>,
}

/// The answer to one call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolMessage {
    /// The id of the call.
    pub call_id: String,
    /// The tool's name.
    pub name: String,
    /// What the model sees.
    pub content: Vec<Part>,
    /// Whether it is an error.
    pub is_error: bool,
}

/// A piece of content.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Text.
    Text(String),
    /// An image, sound or document.
    Media {
        /// For example `image/png`.
        mime_type: String,
        /// The raw bytes, base64.
        data: String,
        /// The name to show where the model cannot take it.
        name: String,
    },
}

impl Part {
    /// Returns the text of the parts, joined.
    pub fn text_of(parts: &[Part]) -> String {
        parts
            .iter()
            .filter_map(|part| match part {
                Part::Text(text) => Some(text.as_str()),
                Part::Media { .. } => None,
            })
            .collect()
    }
}

/// Reasoning kept apart from the answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reasoning {
    /// The text.
    pub text: String,
    /// OpenRouter's opaque `reasoning_details`, passed back unmodified.
    pub details: Option<Value>,
}

/// A call that the model made, complete and parsed.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// Unique in the run, `[A-Za-z0-9_-]{1,40}`.
    pub id: String,
    /// The name as the model wrote it, prefixes stripped.
    pub name: String,
    /// The arguments.
    pub arguments: Arguments,
    /// The text shape that it was recovered from, if it did not come natively: `hermes`, `qwen_xml` or `json`;
    /// `choice` where an answer to a question of ours stands for it, `question` where the task's own question does.
    pub recovered: Option<&'static str>,
    /// Corrections in the arguments of a recovered call, for the model to read before the answer.
    pub notes: Vec<String>,
}

impl ToolCall {
    /// Returns what the model is told about a call that was left out because the turn has too many.
    pub fn left_out(&self) -> Option<&str> {
        match &self.arguments {
            Arguments::Invalid { problem, .. } => (problem == NOT_RUN).then_some(NOT_RUN),
            Arguments::Object(_) | Arguments::Incomplete { .. } => None,
        }
    }
}

/// What is said of calls beyond those of one turn that are run.
const NOT_RUN: &str = "not run: at most 128 calls a turn";

/// The arguments of a call. Only [`Arguments::Object`] ever runs.
#[derive(Debug, Clone, PartialEq)]
pub enum Arguments {
    /// A JSON object.
    Object(serde_json::Map<String, Value>),
    /// Cut off: never executed, whatever the finish reason.
    Incomplete {
        /// What arrived.
        raw: String,
    },
    /// Not a JSON object and not repairable.
    Invalid {
        /// What arrived.
        raw: String,
        /// What is wrong and where, for the model.
        problem: String,
    },
}

/// A tool as the model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// The name to call.
    pub name: String,
    /// What it does, short: every character is paid on every request.
    pub description: String,
    /// JSON Schema of the parameters, an object schema.
    pub parameters: Value,
}

/// Tells a conversation to which messages are only added from every other one; each `default()` is another.
#[derive(Debug, Clone, Default)]
pub struct Lineage(std::sync::Arc<()>);

impl PartialEq for Lineage {
    fn eq(&self, other: &Lineage) -> bool {
        std::sync::Arc::ptr_eq(&self.0, &other.0)
    }
}

/// One request: everything that the model sees.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The conversation, system message first; shared, so that a long one costs no more to send than a short one.
    pub messages: std::sync::Arc<Vec<Message>>,
    /// Which conversation it is: as long as it is the same one, messages are only added.
    pub lineage: Lineage,
    /// The tools, sorted by name, the same for the whole run.
    pub tools: std::sync::Arc<[ToolSpec]>,
    /// Maximum tokens of the answer; `None` leaves it to the server.
    pub max_output_tokens: Option<u64>,
    /// The turn's number, from 0: part of generated call ids.
    pub turn: u32,
    /// No wait of the call may end later than this from now.
    pub time_left: Option<Duration>,
    /// A tool whose call is forced, where the server can.
    pub force_tool: Option<String>,
    /// Only the answer is asked for, because one did not fit its schema.
    pub only_answer: bool,
    /// A short task that asks for an answer in words: small models are told it again behind what a call returned.
    pub question: Option<std::sync::Arc<str>>,
}

/// A piece of a response as it arrives, to be shown.
#[derive(Debug, Clone, PartialEq)]
pub enum Delta {
    /// Visible text. Never a partial tag, never repeated after a retry.
    Text(String),
    /// Reasoning.
    Reasoning(String),
    /// Something worth telling on the way.
    Notice(Notice),
}

/// What happened between request and answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Notice {
    /// A request is tried again.
    Retry {
        /// Which try comes now, from 2.
        attempt: u32,
        /// How long it waits first.
        wait: Duration,
        /// The class of the error, for example `rate_limit`.
        class: String,
        /// The server's message.
        message: String,
    },
    /// A feature was switched off for the run because the server refused it.
    Downgrade {
        /// For example `stream_options`.
        feature: String,
        /// The server's message.
        message: String,
    },
    /// Another model took over.
    Fallback {
        /// From this.
        from: String,
        /// To this.
        to: String,
    },
    /// Something to warn of, for example that the server seems to cut the conversation.
    Warning(String),
}

/// Tokens as the server reported them; `None` where it did not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Usage {
    /// Prompt tokens, cached ones included.
    pub input_tokens: Option<u64>,
    /// Of these, read from the server's cache.
    pub cache_read_input_tokens: Option<u64>,
    /// Of these, written to the server's cache.
    pub cache_creation_input_tokens: Option<u64>,
    /// Tokens of the answer, reasoning included.
    pub output_tokens: Option<u64>,
    /// Of these, reasoning.
    pub reasoning_tokens: Option<u64>,
}

/// Why a turn ended, derived from what arrived and not from the label alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The model is done.
    End,
    /// It waits for the answers to its calls.
    Calls,
    /// The output limit cut it.
    Length,
    /// It only repeated itself, and was cut before the repetition.
    Repetition,
}

/// The model's answer to one request.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// Text, reasoning and calls, as they go into the history.
    pub message: AssistantMessage,
    /// Why it ended.
    pub stop: Stop,
    /// What it cost in tokens.
    pub usage: Usage,
    /// The model that the server says answered.
    pub model: Option<String>,
    /// Requests sent for it, retries included.
    pub requests: u32,
    /// Time spent waiting for the server, in all.
    pub api_time: Duration,
    /// The server's id of the answer.
    pub response_id: Option<String>,
}

impl Turn {
    /// Returns a turn that no model was asked for: a call that is made in its place.
    pub fn unasked(call: ToolCall) -> Turn {
        Turn {
            message: AssistantMessage { calls: vec![call], ..AssistantMessage::default() },
            stop: Stop::Calls,
            usage: Usage { input_tokens: Some(0), output_tokens: Some(0), ..Usage::default() },
            model: None,
            requests: 0,
            api_time: Duration::ZERO,
            response_id: None,
        }
    }
}

/// What went wrong with a request, after every retry that made sense.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelError {
    /// The class.
    pub class: ErrorClass,
    /// What happened, in a sentence for the user that names server and status.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// The HTTP status, if there was one.
    pub status: Option<u16>,
    /// The server's id of the request.
    pub request_id: Option<String>,
    /// Requests sent.
    pub requests: u32,
    /// Tokens that the server counted for them before they failed.
    pub usage: Box<Usage>,
}

/// The classes of errors. They decide about retries, fallback models and the exit code.
#[derive(Debug, Clone, PartialEq)]
pub enum ErrorClass {
    /// No or wrong credentials.
    Auth,
    /// The credentials do not reach this.
    Permission,
    /// Out of credit: terminal.
    Billing,
    /// The endpoint does not know the model.
    ModelNotFound,
    /// The request is wrong; the parameter, where the server names it.
    BadRequest {
        /// The parameter.
        param: Option<String>,
    },
    /// The conversation is longer than the window.
    ContextOverflow {
        /// Tokens that fit, where the server says so.
        limit: Option<u64>,
        /// Tokens that were sent, where the server says so.
        actual: Option<u64>,
    },
    /// `max_tokens` is more than the model gives.
    OutputTooLong {
        /// The server's maximum.
        limit: Option<u64>,
    },
    /// The body is too large.
    PayloadTooLarge,
    /// A filter of the provider refused.
    ContentFilter,
    /// Too many requests or tokens.
    RateLimit {
        /// The wait that the server asks for.
        retry_after: Option<Duration>,
    },
    /// The server is overloaded.
    Overloaded {
        /// The wait that the server asks for.
        retry_after: Option<Duration>,
    },
    /// The server failed.
    Server,
    /// A timer ran out.
    Timeout(TimeoutKind),
    /// The connection failed.
    Network,
    /// The stream broke its protocol.
    Stream(StreamFault),
    /// The server does not support a feature that was used.
    Unsupported(Feature),
    /// llama.cpp could not parse what its model wrote; holds the raw text, from which calls can be read.
    RawGeneration(String),
    /// The run was cancelled.
    Cancelled,
    /// In a replay: the request is not the recorded one; the first difference.
    ReplayMismatch(String),
}

impl ErrorClass {
    /// Returns the name that events and summaries have.
    pub fn name(&self) -> &'static str {
        match self {
            ErrorClass::Auth => "auth",
            ErrorClass::Permission => "permission",
            ErrorClass::Billing => "billing",
            ErrorClass::ModelNotFound => "model_not_found",
            ErrorClass::BadRequest { .. } => "bad_request",
            ErrorClass::ContextOverflow { .. } => "context_overflow",
            ErrorClass::OutputTooLong { .. } => "output_too_long",
            ErrorClass::PayloadTooLarge => "payload_too_large",
            ErrorClass::ContentFilter => "content_filter",
            ErrorClass::RateLimit { .. } => "rate_limit",
            ErrorClass::Overloaded { .. } => "overloaded",
            ErrorClass::Server => "server",
            ErrorClass::Timeout(TimeoutKind::Connect) => "timeout:connect",
            ErrorClass::Timeout(TimeoutKind::FirstByte) => "timeout:first_byte",
            ErrorClass::Timeout(TimeoutKind::Idle) => "timeout:idle",
            ErrorClass::Timeout(TimeoutKind::Lifetime) => "timeout:lifetime",
            ErrorClass::Timeout(TimeoutKind::Deadline) => "timeout:deadline",
            ErrorClass::Network => "network",
            ErrorClass::Stream(StreamFault::NoFinish) => "stream:no_finish",
            ErrorClass::Stream(StreamFault::Empty) => "stream:empty",
            ErrorClass::Stream(StreamFault::MalformedCall) => "stream:malformed_call",
            ErrorClass::Stream(StreamFault::NotSse) => "stream:not_sse",
            ErrorClass::Stream(StreamFault::TagLeak) => "stream:tag_leak",
            ErrorClass::Stream(StreamFault::TooLarge) => "stream:too_large",
            ErrorClass::Unsupported(_) => "unsupported",
            ErrorClass::RawGeneration(_) => "raw_generation",
            ErrorClass::Cancelled => "cancelled",
            ErrorClass::ReplayMismatch(_) => "replay_mismatch",
        }
    }
}

/// Which timer ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeoutKind {
    /// Connecting.
    Connect,
    /// Waiting for the first byte.
    FirstByte,
    /// Silence between data events.
    Idle,
    /// The answer as a whole.
    Lifetime,
    /// The run's own deadline.
    Deadline,
}

/// How a stream broke its protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamFault {
    /// It ended without saying why and without a complete call.
    NoFinish,
    /// It said nothing at all.
    Empty,
    /// It announced calls and sent none, or one without a name.
    MalformedCall,
    /// Not a stream of events.
    NotSse,
    /// A protocol tag of the model is in the text.
    TagLeak,
    /// It broke a cap on size or number.
    TooLarge,
}

/// Features that a server may refuse. Each is given up for the rest of the run, so one refusal costs one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Feature {
    /// `stream_options`.
    StreamOptions,
    /// `parallel_tool_calls`.
    ParallelToolCalls,
    /// `tools`: prompted-tools mode takes over.
    Tools,
    /// `tool_choice`.
    ToolChoice,
    /// `max_tokens` (`max_completion_tokens` takes over).
    MaxTokens,
    /// `enable_thinking` and its kin.
    Thinking,
    /// Images and other media.
    Media,
    /// Streaming.
    Stream,
    /// Sampling parameters beyond the standard ones.
    Sampling,
    /// `cache_control`.
    CacheControl,
    /// `response_format`.
    ResponseFormat,
}

impl Feature {
    /// Returns the name that servers have.
    pub fn name(self) -> &'static str {
        match self {
            Feature::StreamOptions => "stream_options",
            Feature::ParallelToolCalls => "parallel_tool_calls",
            Feature::Tools => "tools",
            Feature::ToolChoice => "tool_choice",
            Feature::MaxTokens => "max_tokens",
            Feature::Thinking => "thinking",
            Feature::Media => "media",
            Feature::Stream => "stream",
            Feature::Sampling => "sampling",
            Feature::CacheControl => "cache_control",
            Feature::ResponseFormat => "response_format",
        }
    }
}

/// Something that answers requests: a server, a cassette, or a test's script.
pub trait Model: Send + Sync {
    /// Sends one request and returns the turn, after sensible retries.
    ///
    /// Dropping the future cancels the request.
    fn respond<'a>(
        &'a self,
        request: &'a Request,
        on_delta: &'a mut (dyn FnMut(Delta) + Send),
    ) -> BoxFuture<'a, Result<Turn, ModelError>>;

    /// Returns what is known of the model that answers now.
    fn facts(&self) -> ModelFacts;

    /// Tells whether the tools are in the prompt now instead of in `tools`.
    fn text_tools(&self) -> bool {
        false
    }

    /// Reads a turn without calls once more, as if the tools were in the prompt.
    ///
    /// `None` if no tool on offer is called in it even so, or if the model has called one natively before; otherwise
    /// the tools are in the prompt from now on.
    fn read_again(&self, _turn: &Turn, _request: &Request) -> Option<Turn> {
        None
    }
}

/// What is known of a model: window, output limit, price.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelFacts {
    /// Its name.
    pub name: String,
    /// Tokens of the window; learned limits included.
    pub context_window: u64,
    /// Maximum tokens of one answer.
    pub max_output: u64,
    /// US dollars per million tokens; `None` if unknown.
    pub price: Option<Price>,
    /// Whether it takes images.
    pub images: bool,
}

/// US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Price {
    /// Uncached input.
    pub input: f64,
    /// Output.
    pub output: f64,
    /// Input read from the cache.
    pub cache_read: f64,
    /// Input written to the cache.
    pub cache_write: f64,
}

impl Price {
    /// Returns a part of the price.
    #[must_use]
    pub fn times(self, rate: f64) -> Price {
        Price {
            input: self.input * rate,
            output: self.output * rate,
            cache_read: self.cache_read * rate,
            cache_write: self.cache_write * rate,
        }
    }
}
