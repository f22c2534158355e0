//! Words errors: the names of classes and features, and what a person can do.

use super::quirks::{Provider, Quirks};
use super::{ErrorClass, Feature, StreamFault, TimeoutKind};

/// Returns the class's name, as events and summaries have it.
pub fn class_name(class: &ErrorClass) -> &'static str {
    match class {
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

/// Returns the feature's name, as servers have it.
pub fn feature_name(feature: Feature) -> &'static str {
    match feature {
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

/// Returns what a person can do about an error of this class, beyond what the endpoint knows of keys.
pub fn hint(class: &ErrorClass, quirks: &Quirks, model: &str) -> Option<String> {
    let words = match class {
        ErrorClass::Permission => format!("check that the key may use {model}, and from this address"),
        ErrorClass::Billing => match quirks.provider {
            Provider::DashScope | Provider::DashScopeCoding => {
                "top up or switch off the free-tier-only mode in the Model Studio console".to_owned()
            }
            Provider::OpenRouter => "add credits at openrouter.ai/credits".to_owned(),
            Provider::ModelScope => "wait for tomorrow's quota, or use another model or provider".to_owned(),
            Provider::OpenAi
            | Provider::Vllm
            | Provider::Sglang
            | Provider::LlamaCpp
            | Provider::Ollama
            | Provider::LmStudio
            | Provider::LlamaCppPython
            | Provider::Local
            | Provider::Unknown => "check the account's plan and credit".to_owned(),
        },
        ErrorClass::ModelNotFound => match quirks.provider {
            Provider::Ollama => format!("run `ollama pull {model}`, or name another model with --model"),
            Provider::LmStudio => "load a model in LM Studio, or name a loaded one with --model".to_owned(),
            Provider::DashScope
            | Provider::DashScopeCoding
            | Provider::OpenRouter
            | Provider::ModelScope
            | Provider::OpenAi
            | Provider::Vllm
            | Provider::Sglang
            | Provider::LlamaCpp
            | Provider::LlamaCppPython
            | Provider::Local
            | Provider::Unknown => {
                "name a model that the server has with --model, and check that the base URL ends as the provider says (mostly in /v1)".to_owned()
            }
        },
        ErrorClass::ContextOverflow { .. } | ErrorClass::PayloadTooLarge => match quirks.provider {
            Provider::Ollama => "serve a longer context: OLLAMA_CONTEXT_LENGTH=65536 ollama serve".to_owned(),
            Provider::LlamaCpp | Provider::LlamaCppPython | Provider::Local => {
                "serve a longer context, for example llama-server -c 65536".to_owned()
            }
            Provider::DashScope
            | Provider::DashScopeCoding
            | Provider::OpenRouter
            | Provider::ModelScope
            | Provider::OpenAi
            | Provider::Vllm
            | Provider::Sglang
            | Provider::LmStudio
            | Provider::Unknown => "give it less to read, or a model with a longer context".to_owned(),
        },
        ErrorClass::ContentFilter => {
            "the provider's filter refused; reword the prompt, leave the file out, or use another model".to_owned()
        }
        ErrorClass::RateLimit { .. } | ErrorClass::Overloaded { .. } => {
            "try again later, or name a --fallback-model".to_owned()
        }
        ErrorClass::Unsupported(Feature::Tools) => "use --text-tools force".to_owned(),
        ErrorClass::Timeout(TimeoutKind::FirstByte | TimeoutKind::Lifetime) => {
            "raise --request-timeout, or shorten what the model has to read".to_owned()
        }
        ErrorClass::Timeout(TimeoutKind::Idle) => "raise --stream-idle-timeout".to_owned(),
        ErrorClass::Stream(StreamFault::NotSse) => "check that the base URL is the API's and not a web page's".to_owned(),
        ErrorClass::Timeout(TimeoutKind::Connect) | ErrorClass::Network => {
            "check that the server runs and the base URL and proxy are right".to_owned()
        }
        ErrorClass::Auth
        | ErrorClass::BadRequest { .. }
        | ErrorClass::OutputTooLong { .. }
        | ErrorClass::Server
        | ErrorClass::Timeout(TimeoutKind::Deadline)
        | ErrorClass::Stream(_)
        | ErrorClass::Unsupported(_)
        | ErrorClass::RawGeneration(_)
        | ErrorClass::Cancelled
        | ErrorClass::ReplayMismatch(_) => return None,
    };
    Some(words)
}
