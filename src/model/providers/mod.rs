//! Lists what each provider's server does differently, as data: the one table of providers.

#[cfg(test)]
mod known;

use std::time::Duration;

use super::{ErrorClass, Feature, StreamFault, TimeoutKind};

/// A provider, or a kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Provider {
    /// Alibaba Cloud Model Studio, all regions.
    DashScope,
    /// Its Coding Plan, on hosts and with keys of its own.
    DashScopeCoding,
    /// OpenRouter.
    OpenRouter,
    /// ModelScope's inference API.
    ModelScope,
    /// OpenAI.
    OpenAi,
    /// vLLM.
    Vllm,
    /// SGLang.
    Sglang,
    /// llama.cpp's `llama-server`.
    LlamaCpp,
    /// Ollama.
    Ollama,
    /// LM Studio.
    LmStudio,
    /// `llama_cpp.server` of llama-cpp-python.
    LlamaCppPython,
    /// Some server on this machine.
    Local,
    /// Some server elsewhere.
    Unknown,
}

impl Provider {
    /// Returns whether it is a named service on the internet.
    pub fn is_hosted(self) -> bool {
        match self {
            Provider::DashScope
            | Provider::DashScopeCoding
            | Provider::OpenRouter
            | Provider::ModelScope
            | Provider::OpenAi => true,
            Provider::Vllm
            | Provider::Sglang
            | Provider::LlamaCpp
            | Provider::Ollama
            | Provider::LmStudio
            | Provider::LlamaCppPython
            | Provider::Local
            | Provider::Unknown => false,
        }
    }
}

/// How reasoning goes back to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReasoningOut {
    /// Never.
    Never,
    /// In this field of the assistant's message.
    Field(&'static str),
    /// `reasoning_details` verbatim where there are some, else `reasoning`.
    Details,
}

/// How to ask the server to keep the reasoning of older turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreserveThinking {
    /// Not at all.
    Never,
    /// `preserve_thinking: true` in the body, for Qwen models.
    Body,
}

/// How thinking is switched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkingSwitch {
    /// It cannot be.
    None,
    /// `enable_thinking` in the body.
    EnableThinking,
    /// `chat_template_kwargs: {enable_thinking}`.
    TemplateKwargs,
    /// `reasoning_effort: "none"`.
    ReasoningEffort,
}

/// How a prompt cache is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    /// It works by itself, or not at all.
    Automatic,
    /// By `cache_control` marks on content parts.
    Marks,
}

/// Which `tool_choice` forces a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForcedTool {
    /// The tool by name.
    Named,
    /// The server understands no form of it.
    None,
}

/// What a provider means by `insufficient_quota`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InsufficientQuota {
    /// Out of credit.
    Billing,
    /// Too many tokens in this minute.
    RateLimit,
}

/// Everything that differs from server to server: one row of the table.
#[derive(Debug, Clone, PartialEq)]
pub struct Quirks {
    /// Which server.
    pub provider: Provider,
    /// Its name for people.
    pub name: &'static str,
    /// Where it is found.
    pub location: Location,
    /// Whether it is a server that people run themselves: model-card sampling, no key needed.
    pub local: bool,
    /// What it takes in a body.
    pub body: BodyForm,
    /// What it does with reasoning.
    pub reasoning: ReasoningForm,
    /// Headers for it alone.
    pub headers: &'static [(&'static str, &'static str)],
    /// Its own wait for the first byte.
    pub first_byte: Option<Duration>,
    /// What `insufficient_quota` means.
    pub insufficient_quota: InsufficientQuota,
    /// What its Batch API costs as a part of the usual price, where that is known.
    pub batch_price: Option<f64>,
    /// What to do about its errors.
    pub hints: Hints,
}

/// Where a server is found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Location {
    /// The hosts, matched whole or after a dot.
    pub host_suffixes: &'static [&'static str],
    /// The ports that tell it where the host does not.
    pub ports: &'static [u16],
    /// The path where a base URL has none.
    pub default_path: Option<&'static str>,
    /// The variable to name where a key is missing.
    pub key_variable: &'static str,
}

/// What a server takes in a body.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BodyForm {
    /// Whether `stream_options` is sent.
    pub stream_options: bool,
    /// The field for the output limit.
    pub max_tokens_field: &'static str,
    /// Whether `parallel_tool_calls: true` is sent.
    pub parallel_tool_calls: bool,
    /// How a tool is forced.
    pub forced_tool: ForcedTool,
    /// Whether a message of calls alone has `content: null`; else `""`.
    pub null_content: bool,
    /// How the prompt cache is asked for.
    pub cache: Cache,
    /// Whether media may be in a tool's message.
    pub tool_media: bool,
    /// The sampling fields that it takes next to `temperature` and `top_p`.
    pub sampling: &'static [&'static str],
}

/// What a server does with reasoning.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReasoningForm {
    /// How it goes back.
    pub out: ReasoningOut,
    /// How it is kept.
    pub preserve: PreserveThinking,
    /// How thinking is switched.
    pub switch: ThinkingSwitch,
}

/// What a person can do about errors of a server; `MODEL` in them is the model's name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hints {
    /// Out of credit.
    pub billing: &'static str,
    /// The model is unknown.
    pub model: &'static str,
    /// The conversation is too long.
    pub context: &'static str,
}

/// What most servers do; other rows differ from this one.
const COMMON: Quirks = Quirks {
    provider: Provider::Unknown,
    name: "the server",
    location: Location { host_suffixes: &[], ports: &[], default_path: None, key_variable: "OPENAI_API_KEY" },
    local: false,
    body: BodyForm {
        stream_options: true,
        max_tokens_field: "max_tokens",
        parallel_tool_calls: false,
        forced_tool: ForcedTool::Named,
        null_content: false,
        cache: Cache::Automatic,
        tool_media: false,
        sampling: &["seed"],
    },
    reasoning: ReasoningForm {
        out: ReasoningOut::Field("reasoning_content"),
        preserve: PreserveThinking::Never,
        switch: ThinkingSwitch::None,
    },
    headers: &[],
    first_byte: None,
    insufficient_quota: InsufficientQuota::Billing,
    batch_price: None,
    hints: Hints {
        billing: "check the account's plan and credit",
        model: "name a model that the server has with --model, and check that the base URL ends as the provider says \
                (mostly in /v1)",
        context: "send less, or use a model with a longer context",
    },
};

/// What servers do that people run themselves.
const LOCAL: Quirks = Quirks {
    provider: Provider::Local,
    name: "the local server",
    local: true,
    body: BodyForm { sampling: MODEL_CARD, ..COMMON.body },
    reasoning: ReasoningForm { switch: ThinkingSwitch::TemplateKwargs, ..COMMON.reasoning },
    hints: Hints { context: "serve a longer context, for example llama-server -c 65536", ..COMMON.hints },
    ..COMMON
};

/// What a model card may say of sampling.
const MODEL_CARD: &[&str] = &["top_k", "repetition_penalty", "min_p", "seed"];

/// The same in the words of llama.cpp.
const LLAMA_CARD: &[&str] = &["top_k", "repeat_penalty", "min_p", "seed"];

/// The rows, the more particular host first.
pub const TABLE: &[Quirks] = &[
    Quirks {
        provider: Provider::DashScopeCoding,
        name: "the DashScope Coding Plan",
        location: Location {
            host_suffixes: &["coding.dashscope.aliyuncs.com", "coding-intl.dashscope.aliyuncs.com"],
            default_path: Some("/v1"),
            key_variable: "BAILIAN_CODING_PLAN_API_KEY",
            ..DASHSCOPE.location
        },
        batch_price: None,
        ..DASHSCOPE
    },
    DASHSCOPE,
    Quirks {
        provider: Provider::OpenRouter,
        name: "OpenRouter",
        location: Location { host_suffixes: &["openrouter.ai"], default_path: Some("/api/v1"), ..COMMON.location },
        body: BodyForm { null_content: true, sampling: MODEL_CARD, ..COMMON.body },
        reasoning: ReasoningForm { out: ReasoningOut::Details, ..COMMON.reasoning },
        hints: Hints { billing: "add credits at openrouter.ai/credits", ..COMMON.hints },
        ..COMMON
    },
    Quirks {
        provider: Provider::ModelScope,
        name: "ModelScope",
        location: Location {
            host_suffixes: &["modelscope.cn", "modelscope.ai"],
            default_path: Some("/v1"),
            ..COMMON.location
        },
        reasoning: ReasoningForm { switch: ThinkingSwitch::EnableThinking, ..COMMON.reasoning },
        hints: Hints { billing: "wait for tomorrow's quota, or use another model or provider", ..COMMON.hints },
        ..COMMON
    },
    Quirks {
        provider: Provider::OpenAi,
        name: "OpenAI",
        location: Location { host_suffixes: &["api.openai.com"], default_path: Some("/v1"), ..COMMON.location },
        body: BodyForm {
            max_tokens_field: "max_completion_tokens",
            parallel_tool_calls: true,
            null_content: true,
            ..COMMON.body
        },
        reasoning: ReasoningForm { out: ReasoningOut::Never, ..COMMON.reasoning },
        batch_price: Some(0.5),
        ..COMMON
    },
    Quirks {
        provider: Provider::Ollama,
        name: "Ollama",
        location: Location { ports: &[11434], ..LOCAL.location },
        // Its /v1 ignores what else the model card asks for.
        body: BodyForm { forced_tool: ForcedTool::None, sampling: &["seed"], ..LOCAL.body },
        reasoning: ReasoningForm {
            out: ReasoningOut::Field("reasoning"),
            switch: ThinkingSwitch::ReasoningEffort,
            ..LOCAL.reasoning
        },
        hints: Hints {
            model: "run `ollama pull MODEL`, or name another model with --model",
            context: "serve a longer context: OLLAMA_CONTEXT_LENGTH=65536 ollama serve",
            ..LOCAL.hints
        },
        ..LOCAL
    },
    Quirks {
        provider: Provider::LmStudio,
        name: "LM Studio",
        location: Location { ports: &[1234], ..LOCAL.location },
        reasoning: ReasoningForm { switch: ThinkingSwitch::None, ..LOCAL.reasoning },
        hints: Hints { model: "load a model in LM Studio, or name a loaded one with --model", ..COMMON.hints },
        ..LOCAL
    },
    Quirks {
        provider: Provider::LlamaCpp,
        name: "llama.cpp",
        location: Location { ports: &[8080], ..LOCAL.location },
        body: BodyForm { parallel_tool_calls: true, sampling: LLAMA_CARD, ..LOCAL.body },
        ..LOCAL
    },
    Quirks {
        provider: Provider::Sglang,
        name: "SGLang",
        location: Location { ports: &[30000], ..LOCAL.location },
        hints: COMMON.hints,
        ..LOCAL
    },
    // Port 8000 is vLLM's and llama-cpp-python's: what is here holds for both.
    Quirks {
        provider: Provider::Vllm,
        name: "vLLM",
        location: Location { ports: &[8000], ..LOCAL.location },
        hints: COMMON.hints,
        ..LOCAL
    },
    // Told by no port of its own: chosen by configuration alone.
    Quirks {
        provider: Provider::LlamaCppPython,
        name: "llama-cpp-python",
        body: BodyForm { stream_options: false, sampling: LLAMA_CARD, ..LOCAL.body },
        reasoning: ReasoningForm { switch: ThinkingSwitch::None, ..LOCAL.reasoning },
        ..LOCAL
    },
];

const DASHSCOPE: Quirks = Quirks {
    provider: Provider::DashScope,
    name: "DashScope",
    location: Location {
        host_suffixes: &[
            "dashscope.aliyuncs.com",
            "dashscope-intl.aliyuncs.com",
            "dashscope-us.aliyuncs.com",
            "maas.aliyuncs.com",
        ],
        default_path: Some("/compatible-mode/v1"),
        key_variable: "DASHSCOPE_API_KEY",
        ..COMMON.location
    },
    body: BodyForm {
        parallel_tool_calls: true,
        null_content: true,
        cache: Cache::Marks,
        sampling: &["top_k", "repetition_penalty", "seed"],
        ..COMMON.body
    },
    reasoning: ReasoningForm {
        preserve: PreserveThinking::Body,
        switch: ThinkingSwitch::EnableThinking,
        ..COMMON.reasoning
    },
    insufficient_quota: InsufficientQuota::RateLimit,
    batch_price: Some(0.5),
    headers: &[("x-dashscope-cachecontrol", "enable")],
    hints: Hints {
        billing: "top up or switch off the free-tier-only mode in the Model Studio console",
        ..COMMON.hints
    },
    ..COMMON
};

static LOCAL_ROW: Quirks = Quirks { first_byte: Some(Duration::from_secs(600)), ..LOCAL };
static UNKNOWN_ROW: Quirks = COMMON;

impl Quirks {
    /// Returns what a person can do about an error of this class, beyond what the endpoint knows of keys.
    pub fn hint(&self, class: &ErrorClass, model: &str) -> Option<String> {
        let words = match class {
            ErrorClass::Permission => {
                return Some(format!("check that the key may use {model}, and from this address"));
            }
            ErrorClass::Billing => self.hints.billing,
            ErrorClass::ModelNotFound => return Some(self.hints.model.replace("MODEL", model)),
            ErrorClass::ContextOverflow { .. } | ErrorClass::PayloadTooLarge => self.hints.context,
            ErrorClass::ContentFilter => {
                "the provider's filter refused; reword the prompt, leave the file out, or use another model"
            }
            ErrorClass::RateLimit { .. } | ErrorClass::Overloaded { .. } => {
                "try again later, or name a --fallback-model"
            }
            ErrorClass::Unsupported(Feature::Tools) => "use --text-tools force",
            ErrorClass::Timeout(TimeoutKind::FirstByte | TimeoutKind::Lifetime) => {
                "raise --request-timeout, or shorten what the model has to read"
            }
            ErrorClass::Timeout(TimeoutKind::Idle) => "raise --stream-idle-timeout",
            ErrorClass::Stream(StreamFault::NotSse) => "check that the base URL is the API's and not a web page's",
            ErrorClass::Timeout(TimeoutKind::Connect) | ErrorClass::Network => {
                "check that the server runs and the base URL and proxy are right"
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
        Some(words.to_owned())
    }
}

/// Returns the row for a host: by its suffix, else by a port, else by being this machine.
pub fn quirks_of(host: &str, port: Option<u16>, loopback: bool) -> &'static Quirks {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let by_host = TABLE.iter().find(|row| {
        row.location
            .host_suffixes
            .iter()
            .any(|suffix| host.strip_suffix(suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
    });
    let by_port = || port.and_then(|port| TABLE.iter().find(|row| row.location.ports.contains(&port)));
    by_host.or_else(by_port).unwrap_or(if loopback { &LOCAL_ROW } else { &UNKNOWN_ROW })
}

/// Returns the row of a provider, for a configuration that names one.
pub fn quirks_named(provider: Provider) -> &'static Quirks {
    match provider {
        Provider::Local => &LOCAL_ROW,
        Provider::Unknown => &UNKNOWN_ROW,
        known => TABLE.iter().find(|row| row.provider == known).expect("a test finds every provider in the table"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_provider_has_a_row() {
        for provider in [
            Provider::DashScope,
            Provider::DashScopeCoding,
            Provider::OpenRouter,
            Provider::ModelScope,
            Provider::OpenAi,
            Provider::Vllm,
            Provider::Sglang,
            Provider::LlamaCpp,
            Provider::Ollama,
            Provider::LmStudio,
            Provider::LlamaCppPython,
            Provider::Local,
            Provider::Unknown,
        ] {
            assert_eq!(quirks_named(provider).provider, provider);
        }
    }

    #[test]
    fn r55_fields_of_one_host_are_in_no_other_row() {
        for row in TABLE.iter().chain([&LOCAL_ROW, &UNKNOWN_ROW]) {
            let dashscope = matches!(row.provider, Provider::DashScope | Provider::DashScopeCoding);
            assert_eq!(row.body.cache == Cache::Marks, dashscope, "{}", row.name);
            assert_eq!(!row.headers.is_empty(), dashscope, "{}", row.name);
            assert_eq!(row.reasoning.preserve == PreserveThinking::Body, dashscope, "{}", row.name);
        }
    }

    #[test]
    fn r30_openai_never_gets_reasoning() {
        assert_eq!(quirks_named(Provider::OpenAi).reasoning.out, ReasoningOut::Never);
    }
}
