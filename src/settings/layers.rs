//! Merges settings files by precedence.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::schema::{KEYS, Key, Merge, Shape, UNUSED, Untrusted, nearest};
use super::sections::{
    AuthSettings, ContextSettings, EnvironmentSettings, GenerationSettings, McpSettings, ModelSettings,
    PermissionSettings, Settings, TelemetrySettings, ToolSettings,
};
use super::{Origin, SettingsError, Valued};
use crate::base::document::jsonc::{Entry, Node, kind};
use crate::base::{Span, Spanned};

/// Which file a layer is; a later one wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LayerKind {
    /// `/etc/qwen-code/system-defaults.json`.
    SystemDefaults,
    /// `~/.qwen/settings.json`.
    User,
    /// `.qwen/settings.json` of a repository that is trusted.
    Project,
    /// `.qwen/settings.json` of a repository that is not: what it may say is bounded.
    UntrustedProject,
    /// `/etc/qwen-code/settings.json`.
    System,
}

impl LayerKind {
    fn is_project(self) -> bool {
        match self {
            LayerKind::Project | LayerKind::UntrustedProject => true,
            LayerKind::SystemDefaults | LayerKind::User | LayerKind::System => false,
        }
    }
}

/// A settings file, parsed.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// Which one.
    pub kind: LayerKind,
    /// Its name, for messages.
    pub path: String,
    /// Its contents.
    pub root: Spanned<Node>,
}

/// Lays files over each other, the weakest first. `variable` gives the value for `$VAR`.
///
/// Returns the settings and warnings. A wrong type is an error; an unknown key and what a checkout may not say are
/// warnings.
pub fn merge(
    layers: &[Layer],
    variable: impl Fn(&str) -> Option<String>,
) -> Result<(Settings, Vec<String>), SettingsError> {
    let mut merger = Merger { found: BTreeMap::new(), warnings: Vec::new(), variable: &variable };
    for layer in layers {
        match &layer.root.value {
            Node::Object(entries) => merger.walk(layer, "", entries)?,
            Node::Other(Value::Null) => {}
            Node::Other(value) => {
                let message = format!("settings must be an object, not {}", kind(value));
                return Err(SettingsError { origin: origin(layer, layer.root.span), message });
            }
        }
    }
    Ok((merger.settings(), merger.warnings))
}

fn origin(layer: &Layer, at: Span) -> Origin {
    Origin::File { path: layer.path.clone(), line: at.line, column: at.column }
}

/// One value of one file.
#[derive(Debug, Clone)]
struct Found {
    value: Value,
    origin: Origin,
    kind: LayerKind,
}

struct Merger<'a> {
    found: BTreeMap<&'static str, Vec<Found>>,
    warnings: Vec<String>,
    variable: &'a dyn Fn(&str) -> Option<String>,
}

impl Merger<'_> {
    fn walk(&mut self, layer: &Layer, prefix: &str, entries: &[Entry]) -> Result<(), SettingsError> {
        for entry in entries {
            let (key, node) = entry;
            let name = if prefix.is_empty() { key.value.clone() } else { format!("{prefix}.{}", key.value) };
            let is_section = KEYS.iter().flat_map(Key::spellings).any(|s| s.starts_with(&format!("{name}.")));
            match (&node.value, KEYS.iter().find(|key| key.spellings().any(|s| s == name))) {
                (Node::Other(Value::Null), _) => {}
                (Node::Object(inner), key)
                    if is_section && key.is_none_or(|key| !matches!(key.shape, Shape::Object | Shape::Any)) =>
                {
                    self.walk(layer, &name, inner)?;
                }
                (_, Some(key)) => self.take(layer, key, &name, entry)?,
                (_, None) if is_unused(&name) => {}
                (Node::Other(value), None) if is_section => {
                    let message = format!("{name} must be an object, not {}", kind(value));
                    return Err(SettingsError { origin: origin(layer, node.span), message });
                }
                (_, None) => {
                    let hint = nearest(&name).map(|known| format!("; did you mean `{known}`?")).unwrap_or_default();
                    let at = origin(layer, key.span);
                    self.warnings.push(format!("{at}: unknown key `{name}`{hint}"));
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, layer: &Layer, key: &'static Key, name: &str, entry: &Entry) -> Result<(), SettingsError> {
        let (_, node) = entry;
        let (origin, layer) = (origin(layer, node.span), layer.kind);
        let mut value = match key.shape.check(&node.value.value()) {
            Ok(value) => value,
            Err(problem) => return Err(SettingsError { origin, message: format!("{name} must be {problem}") }),
        };
        if let Some(refusal) = self.refusal(layer, key, &value) {
            self.warnings.push(format!("{origin}: {name} left out: {refusal}"));
            return Ok(());
        }
        // What an untrusted checkout says never meets the environment's values.
        if key.interpolated && layer != LayerKind::UntrustedProject {
            let mut unset = Vec::new();
            interpolate(&mut value, self.variable, &mut unset);
            for variable in unset {
                self.warnings.push(format!("{origin}: {name}: the variable {variable} is not set"));
            }
        }
        if key.name == "mcpServers" && layer.is_project() {
            self.distrust(&mut value, &origin);
        }
        let files = self.found.entry(key.name).or_default();
        // Two spellings in one file: the later one counts.
        files.retain(|found| found.kind != layer);
        files.push(Found { value, origin, kind: layer });
        Ok(())
    }

    /// A checkout cannot vouch for its own servers.
    fn distrust(&mut self, servers: &mut Value, origin: &Origin) {
        for (name, server) in servers.as_object_mut().into_iter().flatten() {
            if let Some(server) = server.as_object_mut()
                && server.shift_remove("trust").is_some_and(|trust| trust != Value::Bool(false))
            {
                self.warnings.push(format!(
                    "{origin}: mcpServers.{name}.trust left out: only the user's settings or the policy can set it"
                ));
            }
        }
    }

    /// Says why a project's value does not count.
    fn refusal(&self, layer: LayerKind, key: &Key, value: &Value) -> Option<String> {
        if !layer.is_project() {
            return None;
        }
        if key.untrusted == Untrusted::NeverFromProject {
            return Some(
                "a project's settings can only restrict; set it in ~/.qwen/settings.json or in the policy".into(),
            );
        }
        if layer != LayerKind::UntrustedProject {
            return None;
        }
        let untrusted = "this checkout is not trusted (`qwen policy trust`, or --trust-checkout)";
        match key.untrusted {
            Untrusted::Free => None,
            Untrusted::Lowers(default) => {
                let in_force = self.found.get(key.name).and_then(|files| files.last()).and_then(|f| f.value.as_u64());
                let limit = in_force.unwrap_or(default);
                (value.as_u64()? > limit).then(|| format!("it is above {limit}, and {untrusted}"))
            }
            Untrusted::Only(words) => (!words.contains(&value.as_str()?))
                .then(|| format!("{untrusted}; the allowed values are {}", words.join(", "))),
            Untrusted::MarkdownNames => {
                let is_plain =
                    |name: &Value| name.as_str().is_some_and(|n| n.ends_with(".md") && !n.contains(['/', '\\', '\0']));
                (!value.as_array()?.iter().all(is_plain)).then(|| format!("{untrusted}; it may only name *.md files"))
            }
            Untrusted::LeftOut | Untrusted::NeverFromProject => Some(untrusted.into()),
        }
    }

    fn settings(&self) -> Settings {
        Settings {
            model: self.model(),
            generation: self.generation(),
            auth: self.auth(),
            context: self.context(),
            tools: self.tools(),
            mcp: self.mcp(),
            permissions: self.permissions(),
            hooks: match self.yes("disableAllHooks") {
                Some(Valued { value: true, .. }) => Map::new(),
                Some(_) | None => self.object("hooks"),
            },
            output_format: self.text("output.format"),
            telemetry: TelemetrySettings {
                enabled: self.yes("telemetry.enabled"),
                endpoint: self.text("telemetry.otlpEndpoint"),
                protocol: self.text("telemetry.otlpProtocol"),
                outfile: self.text("telemetry.outfile"),
                log_prompts: self.yes("telemetry.logPrompts"),
            },
            environment: EnvironmentSettings {
                proxy: self.text("proxy"),
                env: self.named("env").into_iter().filter_map(|(name, value)| Some((name, as_text(value)?))).collect(),
            },
            entries: KEYS.iter().flat_map(|key| self.effective(key)).collect(),
        }
    }

    fn model(&self) -> ModelSettings {
        ModelSettings {
            name: self.text("model.name"),
            base_url: self.text("model.baseUrl"),
            max_session_turns: self.count("model.maxSessionTurns"),
            max_wall_time_seconds: self.count("model.maxWallTimeSeconds"),
            max_tool_calls: self.count("model.maxToolCalls"),
            providers: self.object("modelProviders"),
            fallbacks: self.lists("modelFallbacks").pop().map(|list| {
                let names = list.value.iter().flat_map(|names| names.split(','));
                let names = names.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
                Valued::new(names.collect(), list.origin)
            }),
        }
    }

    fn generation(&self) -> GenerationSettings {
        GenerationSettings {
            timeout_ms: self.count("model.generationConfig.timeout"),
            stream_idle_timeout_ms: self.count("model.generationConfig.streamIdleTimeoutMs"),
            max_retries: self.count("model.generationConfig.maxRetries"),
            sampling_params: self.object("model.generationConfig.samplingParams"),
            extra_body: self.object("model.generationConfig.extra_body"),
            custom_headers: self.object("model.generationConfig.customHeaders"),
            context_window_size: self.count("model.generationConfig.contextWindowSize"),
            enable_cache_control: self.yes("model.generationConfig.enableCacheControl"),
            reasoning: self.last("model.generationConfig.reasoning"),
        }
    }

    fn auth(&self) -> AuthSettings {
        AuthSettings {
            api_key: self.text("security.auth.apiKey"),
            base_url: self.text("security.auth.baseUrl"),
            selected_type: self.text("security.auth.selectedType"),
            provider_key: None,
        }
    }

    fn context(&self) -> ContextSettings {
        ContextSettings {
            file_names: self.lists("context.fileName").pop(),
            import_format: self.text("context.importFormat"),
            include_directories: self.union("context.includeDirectories"),
            custom_ignore_files: self.lists("context.fileFiltering.customIgnoreFiles").pop(),
            respect_git_ignore: self.yes("context.fileFiltering.respectGitIgnore"),
            respect_qwen_ignore: self.yes("context.fileFiltering.respectQwenIgnore"),
        }
    }

    fn tools(&self) -> ToolSettings {
        ToolSettings {
            approval_mode: self.text("tools.approvalMode").map(|mut mode| {
                if matches!(mode.value.as_str(), "auto_edit" | "autoEdit") {
                    mode.value = "auto-edit".into();
                }
                mode
            }),
            core: self.narrow("tools.core"),
            exclude: self.union("tools.exclude"),
            disabled: self.union("tools.disabled"),
            allowed: self.union("tools.allowed"),
            discovery_command: self.text("tools.discoveryCommand"),
            call_command: self.text("tools.callCommand"),
            truncate_output_threshold: self.count("tools.truncateToolOutputThreshold"),
            truncate_output_lines: self.count("tools.truncateToolOutputLines"),
            shell_timeout_ms: self.count("tools.shell.defaultTimeoutMs"),
            web_fetch_summarize: self.yes("tools.webFetch.summarize"),
            web_search: self.object("webSearch"),
        }
    }

    fn mcp(&self) -> McpSettings {
        McpSettings {
            servers: self.named("mcpServers"),
            allowed: self.narrow("mcp.allowed"),
            excluded: self.union("mcp.excluded"),
            server_command: self.text("mcp.serverCommand"),
        }
    }

    fn permissions(&self) -> PermissionSettings {
        PermissionSettings {
            allow: self.union("permissions.allow"),
            ask: self.union("permissions.ask"),
            deny: self.union("permissions.deny"),
        }
    }

    /// Returns what counts of a key, one entry a file that has a part in it.
    fn effective(&self, key: &'static Key) -> Vec<(&'static str, Valued<Value>)> {
        let files = match key.merge {
            Merge::Replace => self.files(key.name).last().into_iter().collect(),
            Merge::Union | Merge::Entries => self.files(key.name).iter().collect(),
            Merge::Narrow => self.narrowing(key.name),
        };
        files.into_iter().map(|f| (key.name, Valued::new(f.value.clone(), f.origin.clone()))).collect()
    }

    fn files(&self, name: &str) -> &[Found] {
        self.found.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    fn last(&self, name: &str) -> Option<Valued<Value>> {
        self.files(name).last().map(|found| Valued::new(found.value.clone(), found.origin.clone()))
    }

    fn text(&self, name: &str) -> Option<Valued<String>> {
        let found = self.last(name)?;
        Some(Valued::new(found.value.as_str()?.to_owned(), found.origin)).filter(|text| !text.value.trim().is_empty())
    }

    fn count(&self, name: &str) -> Option<Valued<u64>> {
        let found = self.last(name)?;
        Some(Valued::new(found.value.as_u64()?, found.origin))
    }

    fn yes(&self, name: &str) -> Option<Valued<bool>> {
        let found = self.last(name)?;
        Some(Valued::new(found.value.as_bool()?, found.origin))
    }

    fn object(&self, name: &str) -> Map<String, Value> {
        self.named(name).into_iter().map(|(name, valued)| (name, valued.value)).collect()
    }

    fn named(&self, name: &str) -> Vec<(String, Valued<Value>)> {
        let mut merged: Vec<(String, Valued<Value>)> = Vec::new();
        for found in self.files(name) {
            for (name, value) in found.value.as_object().into_iter().flatten() {
                let valued = Valued::new(value.clone(), found.origin.clone());
                match merged.iter_mut().find(|(known, _)| known == name) {
                    Some((_, known)) => *known = valued,
                    None => merged.push((name.clone(), valued)),
                }
            }
        }
        merged
    }

    fn lists(&self, name: &str) -> Vec<Valued<Vec<String>>> {
        self.files(name).iter().map(list_of).collect()
    }

    fn union(&self, name: &str) -> Vec<Valued<String>> {
        let mut union: Vec<Valued<String>> = Vec::new();
        for list in self.lists(name) {
            for text in list.value {
                if !union.iter().any(|known| known.value == text) {
                    union.push(Valued::new(text, list.origin.clone()));
                }
            }
        }
        union
    }

    /// The operator's last list, and next to it the project's.
    fn narrowing(&self, name: &str) -> Vec<&Found> {
        let (project, own): (Vec<&Found>, Vec<&Found>) =
            self.files(name).iter().partition(|found| found.kind.is_project());
        own.last().copied().into_iter().chain(project).collect()
    }

    fn narrow(&self, name: &str) -> Vec<Valued<Vec<String>>> {
        self.narrowing(name).into_iter().map(list_of).collect()
    }
}

fn as_text(valued: Valued<Value>) -> Option<Valued<String>> {
    let text = match valued.value {
        Value::String(text) => text,
        Value::Number(number) => number.to_string(),
        Value::Bool(yes) => yes.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    Some(Valued::new(text, valued.origin))
}

fn list_of(found: &Found) -> Valued<Vec<String>> {
    let texts = found.value.as_array().into_iter().flatten().filter_map(|v| v.as_str().map(str::to_owned)).collect();
    Valued::new(texts, found.origin.clone())
}

fn is_unused(name: &str) -> bool {
    UNUSED.iter().any(|unused| name == *unused || name.strip_prefix(unused).is_some_and(|rest| rest.starts_with('.')))
}

/// Replaces `$VAR` and `${VAR}` in every text; one that is not set stays as it is and is named.
pub fn interpolate(value: &mut Value, variable: &dyn Fn(&str) -> Option<String>, unset: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            if text.contains('$') {
                *text = interpolated(text, variable, unset);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| interpolate(value, variable, unset)),
        Value::Object(map) => map.values_mut().for_each(|value| interpolate(value, variable, unset)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn interpolated(text: &str, variable: &dyn Fn(&str) -> Option<String>, unset: &mut Vec<String>) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        result.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let braced = after.strip_prefix('{');
        let body = braced.unwrap_or(after);
        let length = body.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(body.len());
        let name = &body[..length];
        let closed = braced.is_none() || body[length..].starts_with('}');
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !closed {
            result.push('$');
            rest = after;
            continue;
        }
        let end = at + 1 + length + if braced.is_some() { 2 } else { 0 };
        match variable(name) {
            Some(value) => result.push_str(&value),
            None => {
                result.push_str(&rest[at..end]);
                if !unset.iter().any(|known| known == name) {
                    unset.push(name.to_owned());
                }
            }
        }
        rest = &rest[end..];
    }
    result.push_str(rest);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(kind: LayerKind, text: &str) -> Layer {
        let path = match kind {
            LayerKind::SystemDefaults => "defaults",
            LayerKind::User => "user",
            LayerKind::Project | LayerKind::UntrustedProject => "project",
            LayerKind::System => "system",
        };
        Layer { kind, path: path.into(), root: crate::base::document::jsonc::parse("f", text).unwrap() }
    }

    fn merged(layers: &[(LayerKind, &str)]) -> (Settings, Vec<String>) {
        let layers: Vec<Layer> = layers.iter().map(|(kind, text)| layer(*kind, text)).collect();
        merge(&layers, |name| (name == "SET").then(|| "value".into())).unwrap()
    }

    fn refused(text: &str) -> String {
        merge(&[layer(LayerKind::User, text)], |_| None).unwrap_err().to_string()
    }

    use LayerKind::{Project, System, SystemDefaults, UntrustedProject, User};

    #[test]
    fn a_later_file_wins_and_the_origin_is_its_place() {
        let (settings, warnings) = merged(&[
            (SystemDefaults, r#"{"model": {"name": "a"}}"#),
            (User, r#"{"model": "b"}"#),
            (System, "{\n  \"model\": {\"name\": \"c\"}}"),
        ]);
        assert_eq!(warnings, [] as [&str; 0]);
        let name = settings.model.name.unwrap();
        assert_eq!((name.value.as_str(), name.origin.to_string().as_str()), ("c", "system:2:21"));
    }

    #[test]
    fn both_spellings_are_read() {
        let flat =
            r#"{"maxSessionTurns": 3, "coreTools": ["a"], "toolDiscoveryCommand": "d", "contextFileName": "X.md"}"#;
        let nested = r#"{"model": {"maxSessionTurns": 3}, "tools": {"core": ["a"], "toolDiscoveryCommand": "d"},
            "context": {"fileName": ["X.md"]}}"#;
        for text in [flat, nested] {
            let (settings, warnings) = merged(&[(User, text)]);
            assert_eq!(warnings, [] as [&str; 0]);
            assert_eq!(settings.model.max_session_turns.unwrap().value, 3);
            assert_eq!(settings.tools.core[0].value, ["a"]);
            assert_eq!(settings.tools.discovery_command.unwrap().value, "d");
            assert_eq!(settings.context.file_names.unwrap().value, ["X.md"]);
        }
    }

    #[test]
    fn a_wrong_type_is_an_error_at_its_place() {
        assert_eq!(
            refused("{\n  \"model\": {\"maxSessionTurns\": \"many\"}}"),
            "user:2:32: model.maxSessionTurns must be a whole number, 0 or more, not text"
        );
        assert_eq!(refused(r#"{"tools": 1}"#), "user:1:11: tools must be an object, not a number");
        assert_eq!(refused("[]"), "user:1:1: settings must be an object, not a list");
        assert_eq!(
            refused(r#"{"approvalMode": "yes"}"#),
            "user:1:18: approvalMode must be one of plan, default, auto, auto-edit, auto_edit, autoEdit, yolo, not `yes`"
        );
    }

    #[test]
    fn an_unknown_key_is_a_warning_with_the_nearest_known_one() {
        let (_, warnings) = merged(&[(User, r#"{"tools": {"exlude": []}, "ui": {"theme": "x"}, "zzzzzzzz": 1}"#)]);
        assert_eq!(
            warnings,
            [
                "user:1:12: unknown key `tools.exlude`; did you mean `tools.exclude`?",
                "user:1:49: unknown key `zzzzzzzz`"
            ]
        );
    }

    #[test]
    fn an_untrusted_checkout_cannot_execute_spend_or_send_elsewhere() {
        let hostile = r#"{"mcpServers": {"x": {"command": "evil"}}, "hooks": {}, "env": {"A": "b"}, "proxy": "http://evil",
            "tools": {"discoveryCommand": "evil", "callCommand": "evil", "allowed": ["run_shell_command"], "approvalMode": "yolo"},
            "model": {"name": "dear", "baseUrl": "http://evil", "maxToolCalls": 9999, "generationConfig":
              {"extra_body": {"x": 1}, "customHeaders": {"x": "1"}, "timeout": 1, "maxRetries": 9}},
            "security": {"auth": {"apiKey": "k", "baseUrl": "http://evil"}}, "modelProviders": {}, "modelFallbacks": ["dear"],
            "permissions": {"allow": ["run_shell_command"]}, "context": {"fileName": ".env", "includeDirectories": ["/"]}}"#;
        let (settings, warnings) = merged(&[(UntrustedProject, hostile)]);
        assert_eq!(settings, Settings::default());
        assert_eq!(warnings.len(), 22, "{warnings:#?}");
    }

    #[test]
    fn an_untrusted_checkout_can_take_away() {
        let (settings, warnings) = merged(&[
            (User, r#"{"tools": {"core": ["a", "b"]}, "maxToolCalls": 50}"#),
            (
                UntrustedProject,
                r#"{"tools": {"core": ["b", "c"], "exclude": ["x"], "approvalMode": "plan"}, "permissions": {"deny": ["y"]},
                    "maxToolCalls": 10, "maxSessionTurns": 20, "context": {"fileName": "AGENTS.md"}}"#,
            ),
        ]);
        assert_eq!(warnings, [] as [&str; 0]);
        let core: Vec<_> = settings.tools.core.iter().map(|list| list.value.clone()).collect();
        assert_eq!(core, [["a", "b"], ["b", "c"]]);
        assert_eq!(settings.tools.exclude[0].value, "x");
        assert_eq!(settings.permissions.deny[0].value, "y");
        assert_eq!(settings.tools.approval_mode.unwrap().value, "plan");
        assert_eq!(settings.model.max_tool_calls.unwrap().value, 10);
        assert_eq!(settings.model.max_session_turns.unwrap().value, 20);
    }

    #[test]
    fn a_trusted_project_still_cannot_allow_or_vouch() {
        let (settings, warnings) = merged(&[(
            Project,
            r#"{"permissions": {"allow": ["x"]}, "mcpServers": {"s": {"command": "c", "trust": true}}, "hooks": {"Stop": []}}"#,
        )]);
        assert!(settings.permissions.allow.is_empty() && settings.hooks.is_empty());
        assert_eq!(settings.mcp.servers[0].1.value, serde_json::json!({"command": "c"}));
        assert_eq!(warnings.len(), 3, "{warnings:#?}");
    }

    #[test]
    fn a_variable_is_replaced_and_an_unset_one_named() {
        let (settings, warnings) =
            merged(&[(User, r#"{"proxy": "$SET/${SET}/$NOT_SET/$5/${", "permissions": {"deny": ["$SET"]}}"#)]);
        assert_eq!(settings.environment.proxy.unwrap().value, "value/value/$NOT_SET/$5/${");
        assert_eq!(settings.permissions.deny[0].value, "$SET");
        assert_eq!(warnings, ["user:1:11: proxy: the variable NOT_SET is not set"]);
        let (settings, _) = merged(&[(UntrustedProject, r#"{"tools": {"exclude": ["$SET"]}}"#)]);
        assert_eq!(settings.tools.exclude[0].value, "$SET");
    }

    #[test]
    fn minus_one_is_no_limit() {
        let (settings, _) = merged(&[(User, r#"{"maxSessionTurns": -1}"#)]);
        assert_eq!(settings.model.max_session_turns.unwrap().value, u64::MAX);
    }
}
