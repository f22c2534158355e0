//! Counts a run by model, tool and file, in its own format and under Qwen Code's names for scripts that read those.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::{AssistantTurn, ChangesReport, DecisionRecord, FileReport, SideRequest, TokenUsage, ToolResult};

/// Counts of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stats {
    /// By the name of the model that answered.
    #[serde(default)]
    pub models: BTreeMap<String, ModelStats>,
    /// Calls of tools.
    #[serde(default)]
    pub tools: ToolTotals,
    /// Lines of the changes.
    #[serde(default)]
    pub files: FileTotals,
}

/// What one model did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelStats {
    /// Requests.
    pub api: ApiStats,
    /// Tokens.
    pub tokens: ModelTokens,
}

/// Requests to a model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiStats {
    /// Requests sent, those that were tried again included.
    pub total_requests: u64,
    /// Of these, failed.
    pub total_errors: u64,
    /// Milliseconds waited for answers.
    pub total_latency_ms: u64,
}

/// Tokens of a model; our estimate where the server reported nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelTokens {
    /// Of prompts.
    pub prompt: u64,
    /// Of answers.
    pub candidates: u64,
    /// Both.
    pub total: u64,
    /// Of prompts, read from a cache.
    pub cached: u64,
    /// Of answers, reasoning.
    pub thoughts: u64,
}

/// Calls of tools, in all and by the tool's real name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolTotals {
    /// Calls answered.
    pub total_calls: u64,
    /// Of these, without an error.
    pub total_success: u64,
    /// Of these, with an error.
    pub total_fail: u64,
    /// Milliseconds in tools.
    pub total_duration_ms: u64,
    /// What was decided about them.
    pub total_decisions: Decisions,
    /// By name.
    pub by_name: BTreeMap<String, ToolStats>,
}

/// Counts of one tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolStats {
    /// Calls answered.
    pub count: u64,
    /// Of these, without an error.
    pub success: u64,
    /// Of these, with an error.
    pub fail: u64,
    /// Milliseconds in the tool.
    pub duration_ms: u64,
    /// What was decided about them.
    pub decisions: Decisions,
}

/// Decisions about calls. Nobody is asked: the policy accepts or rejects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Decisions {
    /// Accepted by a person: none.
    pub accept: u64,
    /// Denied by the policy.
    pub reject: u64,
    /// Changed by a person: none.
    pub modify: u64,
    /// Allowed by the policy.
    pub auto_accept: u64,
}

/// Lines of the changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileTotals {
    /// Added.
    pub total_lines_added: u64,
    /// Removed.
    pub total_lines_removed: u64,
}

impl Stats {
    /// Counts a turn.
    pub(super) fn add_turn(&mut self, turn: &AssistantTurn, asked: Option<&str>) {
        let model = if turn.model.is_empty() { asked.unwrap_or_default() } else { &turn.model };
        self.add_requests(model, &turn.usage, turn.requests, turn.api_ms);
    }

    /// Counts a request beside the turns, which the model of the run answers.
    pub(super) fn add_side(&mut self, request: &SideRequest, model: Option<&str>) {
        self.add_requests(model.unwrap_or_default(), &request.usage, request.requests, request.api_ms);
    }

    fn add_requests(&mut self, model: &str, usage: &TokenUsage, requests: u32, api_ms: u64) {
        let ModelStats { api, tokens } = self.models.entry(model.to_owned()).or_default();
        api.total_requests = api.total_requests.saturating_add(requests.into());
        api.total_errors = api.total_errors.saturating_add(u64::from(requests.saturating_sub(1)));
        api.total_latency_ms = api.total_latency_ms.saturating_add(api_ms);
        let (prompt, candidates) = (usage.input_tokens.unwrap_or(0), usage.output_tokens.unwrap_or(0));
        tokens.prompt = tokens.prompt.saturating_add(prompt);
        tokens.candidates = tokens.candidates.saturating_add(candidates);
        tokens.total = tokens.total.saturating_add(usage.total());
        tokens.cached = tokens.cached.saturating_add(usage.cache_read_input_tokens.unwrap_or(0));
        tokens.thoughts = tokens.thoughts.saturating_add(usage.reasoning_tokens.unwrap_or(0));
    }

    /// Counts a call.
    pub(super) fn add_result(&mut self, result: &ToolResult) {
        let failed = u64::from(result.is_error);
        let totals = &mut self.tools;
        totals.total_calls += 1;
        totals.total_fail += failed;
        totals.total_success += 1 - failed;
        totals.total_duration_ms = totals.total_duration_ms.saturating_add(result.duration_ms);
        let tool = totals.by_name.entry(result.tool.clone()).or_default();
        tool.count += 1;
        tool.fail += failed;
        tool.success += 1 - failed;
        tool.duration_ms = tool.duration_ms.saturating_add(result.duration_ms);
    }

    /// Counts what the policy said of a call.
    pub(super) fn add_decision(&mut self, record: &DecisionRecord) {
        let tool = self.tools.by_name.entry(record.tool.clone()).or_default();
        for decisions in [&mut self.tools.total_decisions, &mut tool.decisions] {
            match record.allowed {
                true => decisions.auto_accept += 1,
                false => decisions.reject += 1,
            }
        }
    }

    /// Counts the lines of the changes, in the place of what was counted before.
    pub(super) fn with_changes(self, changes: &ChangesReport) -> Stats {
        let (total_lines_added, total_lines_removed) = FileReport::lines(&changes.files);
        Stats { files: FileTotals { total_lines_added, total_lines_removed }, ..self }
    }
}
