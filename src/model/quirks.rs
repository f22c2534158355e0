//! Lists what each provider's server does differently, as data.

use std::time::Duration;

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
    /// None is understood.
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

/// Everything that differs from server to server.
#[derive(Debug, Clone, PartialEq)]
pub struct Quirks {
    /// Which server.
    pub provider: Provider,
    /// Its name for people.
    pub name: &'static str,
    /// The hosts, matched whole or after a dot.
    pub host_suffixes: &'static [&'static str],
    /// The ports that tell it where the host does not.
    pub ports: &'static [u16],
    /// The path where a base URL has none.
    pub default_path: Option<&'static str>,
    /// The variable to name where a key is missing.
    pub key_variable: &'static str,
    /// Whether it is a server that people run themselves: model-card sampling, no key needed.
    pub local: bool,
    /// Whether `stream_options` is sent.
    pub stream_options: bool,
    /// The field for the output limit.
    pub max_tokens_field: &'static str,
    /// Whether `parallel_tool_calls: true` is sent.
    pub parallel_tool_calls: bool,
    /// How a tool is forced.
    pub forced_tool: ForcedTool,
    /// How reasoning goes back.
    pub reasoning_out: ReasoningOut,
    /// How it is kept.
    pub preserve_thinking: PreserveThinking,
    /// Whether a message of calls alone has `content: null`; else `""`.
    pub null_content: bool,
    /// How thinking is switched.
    pub thinking_switch: ThinkingSwitch,
    /// How the prompt cache is asked for.
    pub cache: Cache,
    /// Whether media may be in a tool's message.
    pub tool_media: bool,
    /// The sampling fields that it takes next to `temperature` and `top_p`.
    pub sampling: &'static [&'static str],
    /// Whether it is known to cut the front of a conversation without a word.
    pub silent_truncation: bool,
    /// What `insufficient_quota` means.
    pub insufficient_quota: InsufficientQuota,
    /// Headers for it alone.
    pub headers: &'static [(&'static str, &'static str)],
    /// Its own wait for the first byte.
    pub first_byte: Option<Duration>,
}

/// What most servers do; other rows differ from this one.
const COMMON: Quirks = Quirks {
    provider: Provider::Unknown,
    name: "the server",
    host_suffixes: &[],
    ports: &[],
    default_path: None,
    key_variable: "OPENAI_API_KEY",
    local: false,
    stream_options: true,
    max_tokens_field: "max_tokens",
    parallel_tool_calls: false,
    forced_tool: ForcedTool::Named,
    reasoning_out: ReasoningOut::Field("reasoning_content"),
    preserve_thinking: PreserveThinking::Never,
    null_content: false,
    thinking_switch: ThinkingSwitch::None,
    cache: Cache::Automatic,
    tool_media: false,
    sampling: &["seed"],
    silent_truncation: false,
    insufficient_quota: InsufficientQuota::Billing,
    headers: &[],
    first_byte: None,
};

/// What servers do that people run themselves.
const LOCAL: Quirks = Quirks {
    provider: Provider::Local,
    name: "the local server",
    local: true,
    thinking_switch: ThinkingSwitch::TemplateKwargs,
    sampling: &["top_k", "repetition_penalty", "min_p", "seed"],
    ..COMMON
};

/// The rows, the more particular host first.
pub const TABLE: &[Quirks] = &[
    Quirks {
        provider: Provider::DashScopeCoding,
        name: "the DashScope Coding Plan",
        host_suffixes: &["coding.dashscope.aliyuncs.com", "coding-intl.dashscope.aliyuncs.com"],
        default_path: Some("/v1"),
        key_variable: "BAILIAN_CODING_PLAN_API_KEY",
        ..DASHSCOPE
    },
    DASHSCOPE,
    Quirks {
        provider: Provider::OpenRouter,
        name: "OpenRouter",
        host_suffixes: &["openrouter.ai"],
        default_path: Some("/api/v1"),
        reasoning_out: ReasoningOut::Details,
        null_content: true,
        sampling: &["top_k", "repetition_penalty", "min_p", "seed"],
        ..COMMON
    },
    Quirks {
        provider: Provider::ModelScope,
        name: "ModelScope",
        host_suffixes: &["modelscope.cn", "modelscope.ai"],
        default_path: Some("/v1"),
        thinking_switch: ThinkingSwitch::EnableThinking,
        ..COMMON
    },
    Quirks {
        provider: Provider::OpenAi,
        name: "OpenAI",
        host_suffixes: &["api.openai.com"],
        default_path: Some("/v1"),
        max_tokens_field: "max_completion_tokens",
        parallel_tool_calls: true,
        reasoning_out: ReasoningOut::Never,
        null_content: true,
        ..COMMON
    },
    Quirks {
        provider: Provider::Ollama,
        name: "Ollama",
        ports: &[11434],
        forced_tool: ForcedTool::None,
        reasoning_out: ReasoningOut::Field("reasoning"),
        thinking_switch: ThinkingSwitch::ReasoningEffort,
        // Its /v1 ignores what else the model card asks for.
        sampling: &["seed"],
        silent_truncation: true,
        ..LOCAL
    },
    Quirks {
        provider: Provider::LmStudio,
        name: "LM Studio",
        ports: &[1234],
        thinking_switch: ThinkingSwitch::None,
        ..LOCAL
    },
    Quirks {
        provider: Provider::LlamaCpp,
        name: "llama.cpp",
        ports: &[8080],
        parallel_tool_calls: true,
        sampling: &["top_k", "repeat_penalty", "min_p", "seed"],
        ..LOCAL
    },
    Quirks { provider: Provider::Sglang, name: "SGLang", ports: &[30000], ..LOCAL },
    // Port 8000 is vLLM's and llama-cpp-python's: what is here holds for both.
    Quirks { provider: Provider::Vllm, name: "vLLM", ports: &[8000], ..LOCAL },
    // Told by no port of its own: chosen by configuration alone.
    Quirks {
        provider: Provider::LlamaCppPython,
        name: "llama-cpp-python",
        stream_options: false,
        thinking_switch: ThinkingSwitch::None,
        sampling: &["top_k", "repeat_penalty", "min_p", "seed"],
        ..LOCAL
    },
];

const DASHSCOPE: Quirks = Quirks {
    provider: Provider::DashScope,
    name: "DashScope",
    host_suffixes: &[
        "dashscope.aliyuncs.com",
        "dashscope-intl.aliyuncs.com",
        "dashscope-us.aliyuncs.com",
        "maas.aliyuncs.com",
    ],
    default_path: Some("/compatible-mode/v1"),
    key_variable: "DASHSCOPE_API_KEY",
    parallel_tool_calls: true,
    preserve_thinking: PreserveThinking::Body,
    null_content: true,
    thinking_switch: ThinkingSwitch::EnableThinking,
    cache: Cache::Marks,
    sampling: &["top_k", "repetition_penalty", "seed"],
    insufficient_quota: InsufficientQuota::RateLimit,
    headers: &[("x-dashscope-cachecontrol", "enable")],
    ..COMMON
};

static LOCAL_ROW: Quirks = Quirks { first_byte: Some(Duration::from_secs(600)), ..LOCAL };
static UNKNOWN_ROW: Quirks = COMMON;

/// Returns the row for a host: by its suffix, else by a port, else by being this machine.
pub fn quirks_of(host: &str, port: Option<u16>, loopback: bool) -> &'static Quirks {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let by_host = TABLE.iter().find(|row| {
        row.host_suffixes
            .iter()
            .any(|suffix| host.strip_suffix(suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
    });
    let by_port = || port.and_then(|port| TABLE.iter().find(|row| row.ports.contains(&port)));
    by_host.or_else(by_port).unwrap_or(if loopback { &LOCAL_ROW } else { &UNKNOWN_ROW })
}

/// Returns the row of a provider, for a configuration that names one.
pub fn quirks_named(provider: Provider) -> &'static Quirks {
    match provider {
        Provider::Local => &LOCAL_ROW,
        Provider::Unknown => &UNKNOWN_ROW,
        Provider::DashScope
        | Provider::DashScopeCoding
        | Provider::OpenRouter
        | Provider::ModelScope
        | Provider::OpenAi
        | Provider::Vllm
        | Provider::Sglang
        | Provider::LlamaCpp
        | Provider::Ollama
        | Provider::LmStudio
        | Provider::LlamaCppPython => {
            TABLE.iter().find(|row| row.provider == provider).expect("a test finds every provider in the table")
        }
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
            assert_eq!(row.cache == Cache::Marks, dashscope, "{}", row.name);
            assert_eq!(!row.headers.is_empty(), dashscope, "{}", row.name);
            assert_eq!(row.preserve_thinking == PreserveThinking::Body, dashscope, "{}", row.name);
        }
    }

    #[test]
    fn r30_openai_never_gets_reasoning() {
        assert_eq!(quirks_named(Provider::OpenAi).reasoning_out, ReasoningOut::Never);
    }
}
