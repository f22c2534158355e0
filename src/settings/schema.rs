//! Lists the keys of settings files: one row per key.

use serde_json::Value;

use crate::base::document::jsonc::kind;

/// What a value must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// `true` or `false`.
    Bool,
    /// A whole number, 0 or more; -1 is "no limit", as in Qwen Code.
    Count,
    /// Text.
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A list of texts.
    Texts,
    /// A text or a list of texts; read as a list.
    TextOrTexts,
    /// An object.
    Object,
    /// `true`, `false`, text or an object.
    Any,
}

/// What counts when two files set a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merge {
    /// The later file's.
    Replace,
    /// Both lists together.
    Union,
    /// Both objects together; of equal names the later file's.
    Entries,
    /// The later file's, and the project's list next to it: what passes must be in both.
    Narrow,
}

/// What an untrusted checkout may say with a key: nothing that executes, spends or sends elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Untrusted {
    /// Anything: it can do no harm.
    Free,
    /// Only a number lower than the current one, or than this default.
    Lowers(u64),
    /// Only these words.
    Only(&'static [&'static str]),
    /// Only names of markdown files, without a directory.
    MarkdownNames,
    /// Nothing.
    LeftOut,
    /// Nothing, even from a trusted checkout: only the user's own files count.
    NeverFromProject,
}

/// A key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Its name, nested spelling.
    pub name: &'static str,
    /// Other spellings.
    pub aliases: &'static [&'static str],
    /// What its value must be.
    pub shape: Shape,
    /// What counts when two files set it.
    pub merge: Merge,
    /// What an untrusted checkout may say with it.
    pub untrusted: Untrusted,
    /// Whether `$VAR` in it is replaced; rules and shell commands keep their own dollars.
    pub interpolated: bool,
}

const fn key(name: &'static str, aliases: &'static [&'static str], shape: Shape) -> Key {
    Key { name, aliases, shape, merge: Merge::Replace, untrusted: Untrusted::LeftOut, interpolated: true }
}

impl Key {
    const fn merged(self, merge: Merge) -> Key {
        Key { merge, ..self }
    }

    const fn untrusted(self, untrusted: Untrusted) -> Key {
        Key { untrusted, ..self }
    }

    const fn literal(self) -> Key {
        Key { interpolated: false, ..self }
    }

    /// Returns all spellings.
    pub fn spellings(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }
}

/// Every key that is used.
pub const KEYS: &[Key] = &[
    key("model.name", &["model"], Shape::Text),
    key("model.baseUrl", &[], Shape::Text),
    key("model.maxSessionTurns", &["maxSessionTurns"], Shape::Count).untrusted(Untrusted::Lowers(100)),
    key("model.maxWallTimeSeconds", &["maxWallTimeSeconds"], Shape::Count).untrusted(Untrusted::Lowers(3600)),
    key("model.maxToolCalls", &["maxToolCalls"], Shape::Count).untrusted(Untrusted::Lowers(500)),
    key("model.generationConfig.timeout", &["contentGenerator.timeout"], Shape::Count),
    key("model.generationConfig.streamIdleTimeoutMs", &[], Shape::Count),
    key("model.generationConfig.maxRetries", &["contentGenerator.maxRetries"], Shape::Count),
    key("model.generationConfig.samplingParams", &["sampling_params"], Shape::Object).merged(Merge::Entries),
    key("model.generationConfig.extra_body", &[], Shape::Object).merged(Merge::Entries),
    key("model.generationConfig.customHeaders", &[], Shape::Object).merged(Merge::Entries),
    key("model.generationConfig.contextWindowSize", &[], Shape::Count),
    key("model.generationConfig.enableCacheControl", &[], Shape::Bool).untrusted(Untrusted::Free),
    key("model.generationConfig.reasoning", &[], Shape::Any),
    key("modelProviders", &[], Shape::Object).merged(Merge::Entries),
    key("modelFallbacks", &[], Shape::TextOrTexts),
    key("security.auth.apiKey", &[], Shape::Text),
    key("security.auth.baseUrl", &[], Shape::Text),
    key("security.auth.selectedType", &["selectedAuthType"], Shape::Text).untrusted(Untrusted::Free),
    key("context.fileName", &["contextFileName"], Shape::TextOrTexts).untrusted(Untrusted::MarkdownNames),
    key("context.importFormat", &["memoryImportFormat"], Shape::Word(&["tree", "flat"])).untrusted(Untrusted::Free),
    key("context.includeDirectories", &["includeDirectories"], Shape::Texts).merged(Merge::Union),
    key("context.fileFiltering.respectGitIgnore", &["fileFiltering.respectGitIgnore"], Shape::Bool),
    key("context.fileFiltering.customIgnoreFiles", &[], Shape::Texts),
    key("context.fileFiltering.respectQwenIgnore", &["fileFiltering.respectQwenIgnore"], Shape::Bool),
    key(
        "tools.approvalMode",
        &["approvalMode"],
        Shape::Word(&["plan", "default", "auto", "auto-edit", "auto_edit", "autoEdit", "yolo"]),
    )
    .untrusted(Untrusted::Only(&["plan"])),
    key("tools.core", &["coreTools"], Shape::Texts).merged(Merge::Narrow).untrusted(Untrusted::Free).literal(),
    key("tools.exclude", &["excludeTools"], Shape::Texts).merged(Merge::Union).untrusted(Untrusted::Free).literal(),
    key("tools.disabled", &[], Shape::Texts).merged(Merge::Union).untrusted(Untrusted::Free).literal(),
    key("tools.allowed", &["allowedTools"], Shape::Texts)
        .merged(Merge::Union)
        .untrusted(Untrusted::NeverFromProject)
        .literal(),
    key("tools.discoveryCommand", &["tools.toolDiscoveryCommand", "toolDiscoveryCommand"], Shape::Text),
    key("tools.callCommand", &["tools.toolCallCommand", "toolCallCommand"], Shape::Text),
    key("tools.truncateToolOutputThreshold", &["truncateToolOutputThreshold"], Shape::Count)
        .untrusted(Untrusted::Lowers(25_000)),
    key("tools.truncateToolOutputLines", &["truncateToolOutputLines"], Shape::Count)
        .untrusted(Untrusted::Lowers(2_000)),
    key("tools.shell.defaultTimeoutMs", &[], Shape::Count).untrusted(Untrusted::Lowers(120_000)),
    key("tools.webFetch.summarize", &[], Shape::Bool),
    key("webSearch", &["tools.webSearch"], Shape::Object).merged(Merge::Entries),
    key("mcpServers", &[], Shape::Object).merged(Merge::Entries),
    key("mcp.allowed", &["allowMCPServers"], Shape::Texts).merged(Merge::Narrow).untrusted(Untrusted::Free),
    key("mcp.excluded", &["excludeMCPServers"], Shape::Texts).merged(Merge::Union).untrusted(Untrusted::Free),
    key("mcp.serverCommand", &["mcp.mcpServerCommand", "mcpServerCommand"], Shape::Text),
    key("permissions.allow", &[], Shape::Texts).merged(Merge::Union).untrusted(Untrusted::NeverFromProject).literal(),
    key("permissions.ask", &[], Shape::Texts).merged(Merge::Union).untrusted(Untrusted::Free).literal(),
    key("permissions.deny", &[], Shape::Texts).merged(Merge::Union).untrusted(Untrusted::Free).literal(),
    key("hooks", &[], Shape::Object).merged(Merge::Entries).untrusted(Untrusted::NeverFromProject).literal(),
    key("disableAllHooks", &[], Shape::Bool).untrusted(Untrusted::NeverFromProject),
    key("output.format", &["outputFormat"], Shape::Word(&["text", "json", "stream-json", "result", "patch"]))
        .untrusted(Untrusted::Free),
    key("telemetry.enabled", &[], Shape::Bool),
    key("telemetry.otlpEndpoint", &[], Shape::Text),
    key("telemetry.otlpProtocol", &[], Shape::Text),
    key("telemetry.outfile", &[], Shape::Text),
    key("telemetry.logPrompts", &[], Shape::Bool),
    key("proxy", &[], Shape::Text),
    key("env", &[], Shape::Object).merged(Merge::Entries),
];

/// Keys of Qwen Code for its terminal interface or for services that are not supported; a file may contain them.
pub const UNUSED: &[&str] = &[
    "$schema",
    "$version",
    "general",
    "ui",
    "ide",
    "privacy",
    "telemetry.target",
    "telemetry.useCollector",
    "advanced",
    "experimental",
    "extensions",
    "theme",
    "vimMode",
    "preferredEditor",
    "usageStatisticsEnabled",
    "checkpointing",
    "disableAutoUpdate",
    "autoAccept",
    "tools.autoAccept",
    "tools.sandbox",
    "tools.useRipgrep",
    "tools.useBuiltinRipgrep",
    "tools.sandboxImage",
    "tools.enableToolOutputTruncation",
    "tools.shell.enableInteractiveShell",
    "tools.shell.pager",
    "tools.shell.showColor",
    "model.chatCompression",
    "model.summarizeToolOutput",
    "model.sessionTokenLimit",
    "model.skipNextSpeakerCheck",
    "model.skipLoopDetection",
    "model.skipStartupContext",
    "model.enableOpenAILogging",
    "model.openAILoggingDir",
    "model.generationConfig.disableCacheControl",
    "model.generationConfig.schemaCompliance",
    "contentGenerator.disableCacheControl",
    "context.fileFiltering.enableRecursiveFileSearch",
    "context.fileFiltering.disableFuzzySearch",
    "context.fileFiltering.enableFuzzySearch",
    "context.discoveryMaxDirs",
    "context.loadMemoryFromIncludeDirectories",
    "fileFiltering.enableRecursiveFileSearch",
    "fileFiltering.disableFuzzySearch",
    "security.folderTrust",
    "security.auth.enforcedType",
    "security.auth.useExternal",
    "sandbox",
    "slashCommands",
    "plansDirectory",
    "advisorModel",
    "agents",
    "artifact",
    "channels",
    "compactionModel",
    "context.autoCompactThreshold",
    "context.clearContextOnIdle",
    "context.loadFromIncludeDirectories",
    "dualOutput",
    "fastModel",
    "goals",
    "imageModel",
    "mcp.toolIdleTimeoutMs",
    "memory",
    "model.generationConfig.cacheRetention",
    "model.generationConfig.cacheRetentionByBlock",
    "model.generationConfig.forceGlobalCacheScope",
    "model.generationConfig.retryInitialDelayMs",
    "model.generationConfig.retryMaxDelayMs",
    "model.generationConfig.splitToolMedia",
    "model.generationConfig.toolResultContentFormat",
    "model.goalCheckpointTimeoutSeconds",
    "model.goalMaxActiveMinutes",
    "model.goalMaxTurns",
    "model.goalTokenBudget",
    "model.maxSubagentDepth",
    "model.maxToolCallsPerTurn",
    "model.openAILogRetentionDays",
    "model.reasoningEffort",
    "model.skipWorkflowUsageWarning",
    "modelPricing",
    "omni",
    "outboundCorrelation",
    "output.showTimestamps",
    "permissions.autoMode",
    "policy",
    "providerProtocol",
    "review",
    "security.allowPrivateNetworkHooks",
    "security.allowedHttpHookUrls",
    "security.allowedInsecureVoiceBaseUrls",
    "serve",
    "skills",
    "stopHookBlockingCap",
    "tools.codeModeOnly",
    "tools.eager",
    "tools.executionSandbox",
    "tools.listDirectory",
    "tools.shell.heartbeatIntervalMs",
    "tools.todoWrite",
    "tools.toolOutputBatchBudget",
    "tools.toolSearch",
    "tools.visible",
    "tools.workflowNameOnly",
    "tools.workflowSizeGuideline",
    "tools.workflowsEnabled",
    "visionBridgeTimeoutMs",
    "visionModel",
    "voiceModel",
    "worktree",
];

impl Shape {
    /// Returns the value where it fits, else what it should be.
    pub fn check(self, value: &Value) -> Result<Value, String> {
        match (self, value) {
            (Shape::Bool, Value::Bool(_))
            | (Shape::Text, Value::String(_))
            | (Shape::Object, Value::Object(_))
            | (Shape::Any, Value::Bool(_) | Value::String(_) | Value::Object(_) | Value::Number(_)) => {
                Ok(value.clone())
            }
            (Shape::Texts | Shape::TextOrTexts, Value::Array(list)) if list.iter().all(Value::is_string) => {
                Ok(value.clone())
            }
            (Shape::TextOrTexts, Value::String(_)) => Ok(Value::Array(vec![value.clone()])),
            (Shape::Count, Value::Number(number)) if number.as_u64().is_some() => Ok(value.clone()),
            (Shape::Count, Value::Number(number)) if number.as_i64() == Some(-1) => Ok(u64::MAX.into()),
            (Shape::Word(words), Value::String(text)) if words.contains(&text.as_str()) => Ok(value.clone()),
            (Shape::Word(_), Value::String(text)) => Err(format!("{}, not `{text}`", self.what())),
            _ => Err(format!("{}, not {}", self.what(), kind(value))),
        }
    }

    fn what(self) -> String {
        match self {
            Shape::Bool => "true or false".into(),
            Shape::Count => "a whole number, 0 or more".into(),
            Shape::Text => "text".into(),
            Shape::Word(words) => format!("one of {}", words.join(", ")),
            Shape::Texts => "a list of texts".into(),
            Shape::TextOrTexts => "text or a list of texts".into(),
            Shape::Object => "an object".into(),
            Shape::Any => "true, false, a number, text or an object".into(),
        }
    }
}

/// Returns the known spelling that is nearest to an unknown key, if any is near.
pub fn nearest(unknown: &str) -> Option<&'static str> {
    let known = KEYS.iter().flat_map(Key::spellings).chain(UNUSED.iter().copied());
    let wanted: String = unknown.chars().take(64).collect::<String>().to_lowercase();
    let near = known.map(|name| (strsim::osa_distance(&wanted, &name.to_lowercase()), name)).min()?;
    (near.0 <= 1.max(unknown.chars().count() / 4)).then_some(near.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_spelling_stands_twice() {
        let mut spellings: Vec<&str> = KEYS.iter().flat_map(Key::spellings).collect();
        spellings.sort_unstable();
        let all = spellings.len();
        spellings.dedup();
        assert_eq!(spellings.len(), all);
    }

    #[test]
    fn a_typing_error_has_a_nearest_key() {
        assert_eq!(nearest("maxSesionTurns"), Some("maxSessionTurns"));
        assert_eq!(nearest("tools.exlude"), Some("tools.exclude"));
        assert_eq!(nearest("completelyDifferentThing"), None);
    }
}
