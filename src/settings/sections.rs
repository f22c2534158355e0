//! Defines the settings in effect, by section of `settings.json`.

use serde_json::{Map, Value};

use super::Valued;

/// Resolved settings. A field is `None` or empty where no file says anything.
#[derive(Debug, Clone, Default, PartialEq)]
#[expect(missing_docs, reason = "each field is the key or section of the same name")]
pub struct Settings {
    pub model: ModelSettings,
    /// `model.generationConfig`.
    pub generation: GenerationSettings,
    /// `security.auth`.
    pub auth: AuthSettings,
    pub context: ContextSettings,
    pub tools: ToolSettings,
    pub mcp: McpSettings,
    pub permissions: PermissionSettings,
    pub hooks: Map<String, Value>,
    pub output_format: Option<Valued<String>>,
    pub telemetry: TelemetrySettings,
    pub environment: EnvironmentSettings,
    /// Everything that counts, by key, for `doctor`. Values of secret keys are not masked here.
    pub entries: Vec<(&'static str, Valued<Value>)>,
}

/// `model`, and the keys beside it that choose the model.
#[derive(Debug, Clone, Default, PartialEq)]
#[expect(
    missing_docs,
    reason = "each field is the key of the same name; docs/reference/settings.md says what it means"
)]
pub struct ModelSettings {
    pub name: Option<Valued<String>>,
    pub base_url: Option<Valued<String>>,
    pub max_session_turns: Option<Valued<u64>>,
    pub max_wall_time_seconds: Option<Valued<u64>>,
    pub max_tool_calls: Option<Valued<u64>>,
    /// `modelProviders`.
    pub providers: Map<String, Value>,
    /// `modelFallbacks`.
    pub fallbacks: Option<Valued<Vec<String>>>,
}

/// `model.generationConfig`: how requests are sent.
#[derive(Debug, Clone, Default, PartialEq)]
#[expect(
    missing_docs,
    reason = "each field is the key of the same name; docs/reference/settings.md says what it means"
)]
pub struct GenerationSettings {
    pub timeout_ms: Option<Valued<u64>>,
    pub stream_idle_timeout_ms: Option<Valued<u64>>,
    pub max_retries: Option<Valued<u64>>,
    pub sampling_params: Map<String, Value>,
    pub extra_body: Map<String, Value>,
    pub custom_headers: Map<String, Value>,
    pub context_window_size: Option<Valued<u64>>,
    pub enable_cache_control: Option<Valued<bool>>,
    pub reasoning: Option<Valued<Value>>,
}

/// `security.auth`.
#[derive(Debug, Clone, Default, PartialEq)]
#[expect(
    missing_docs,
    reason = "each field is the key of the same name; docs/reference/settings.md says what it means"
)]
pub struct AuthSettings {
    pub api_key: Option<Valued<String>>,
    pub base_url: Option<Valued<String>>,
    pub selected_type: Option<Valued<String>>,
    /// The key of the server that `modelProviders` gives for the model in use (see [`super::providers`]); empty where
    /// that server has none.
    pub provider_key: Option<Valued<String>>,
}

/// `context`: what the model is told about the project, and which files it is not shown.
#[derive(Debug, Clone, Default, PartialEq)]
#[expect(
    missing_docs,
    reason = "each field is the key of the same name; docs/reference/settings.md says what it means"
)]
pub struct ContextSettings {
    pub file_names: Option<Valued<Vec<String>>>,
    pub import_format: Option<Valued<String>>,
    pub include_directories: Vec<Valued<String>>,
    pub custom_ignore_files: Option<Valued<Vec<String>>>,
    pub respect_git_ignore: Option<Valued<bool>>,
    pub respect_qwen_ignore: Option<Valued<bool>>,
}

/// `tools`, and `webSearch`.
#[derive(Debug, Clone, Default, PartialEq)]
#[expect(
    missing_docs,
    reason = "each field is the key of the same name; docs/reference/settings.md says what it means"
)]
pub struct ToolSettings {
    pub approval_mode: Option<Valued<String>>,
    /// A tool must be in each of these lists.
    pub core: Vec<Valued<Vec<String>>>,
    pub exclude: Vec<Valued<String>>,
    pub disabled: Vec<Valued<String>>,
    pub allowed: Vec<Valued<String>>,
    pub discovery_command: Option<Valued<String>>,
    pub call_command: Option<Valued<String>>,
    pub truncate_output_threshold: Option<Valued<u64>>,
    pub truncate_output_lines: Option<Valued<u64>>,
    pub shell_timeout_ms: Option<Valued<u64>>,
    pub web_fetch_summarize: Option<Valued<bool>>,
    pub web_search: Map<String, Value>,
}

/// `proxy` and `env`: what the environment lacks.
#[derive(Debug, Clone, Default, PartialEq)]
#[expect(missing_docs, reason = "each field is the key of the same name")]
pub struct EnvironmentSettings {
    pub proxy: Option<Valued<String>>,
    pub env: Vec<(String, Valued<String>)>,
}

/// `telemetry`.
#[derive(Debug, Clone, Default, PartialEq)]
#[expect(
    missing_docs,
    reason = "each field is the key of the same name; docs/reference/settings.md says what it means"
)]
pub struct TelemetrySettings {
    pub enabled: Option<Valued<bool>>,
    pub endpoint: Option<Valued<String>>,
    pub protocol: Option<Valued<String>>,
    pub outfile: Option<Valued<String>>,
    pub log_prompts: Option<Valued<bool>>,
}

/// `mcp`, and `mcpServers`.
#[derive(Debug, Clone, Default, PartialEq)]
#[expect(
    missing_docs,
    reason = "each field is the key of the same name; docs/reference/settings.md says what it means"
)]
pub struct McpSettings {
    /// By name, in the order of the files. `trust` of a checkout's server is removed.
    pub servers: Vec<(String, Valued<Value>)>,
    /// A server must be in each of these lists.
    pub allowed: Vec<Valued<Vec<String>>>,
    pub excluded: Vec<Valued<String>>,
    pub server_command: Option<Valued<String>>,
}

/// `permissions`.
#[derive(Debug, Clone, Default, PartialEq)]
#[expect(
    missing_docs,
    reason = "each field is the key of the same name; docs/reference/settings.md says what it means"
)]
pub struct PermissionSettings {
    pub allow: Vec<Valued<String>>,
    pub ask: Vec<Valued<String>>,
    pub deny: Vec<Valued<String>>,
}
