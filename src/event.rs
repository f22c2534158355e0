//! Defines the events of a run: every output format is a rendering of this one stream.
//!
//! The result object is a fold over the events, so the formats cannot disagree. A run emits exactly one
//! [`Event::RunStarted`] if it got as far as a session, and always exactly one [`Event::RunFinished`], last.

mod changes;

use std::time::Duration;

pub use changes::{ChangesReport, FileReport};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::exit::Exit;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The session has started: settings, policy and tools are known. Nothing was sent yet.
    RunStarted(Box<RunStarted>),
    /// A request goes out.
    TurnStarted {
        /// From 1.
        turn: u32,
        /// The call of `task` that this is part of.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<String>,
    },
    /// A piece of the answer arrived.
    Delta {
        /// The turn, from 1.
        turn: u32,
        /// Visible text, or reasoning.
        kind: DeltaKind,
        /// The piece.
        text: String,
    },
    /// The model's turn is complete.
    Assistant(Box<AssistantTurn>),
    /// A call has its answer, whatever it is.
    ToolResult(Box<ToolResult>),
    /// The policy denied a call; its [`Event::ToolResult`] follows.
    Denied(Box<PermissionDenial>),
    /// The policy decided on a call, whether allowed or not: one record per call.
    Decided(Box<DecisionRecord>),
    /// A request is tried again.
    Retry(Retry),
    /// Another model took over.
    ModelFallback {
        /// From this.
        from: String,
        /// To this.
        to: String,
    },
    /// A path was staged by a call.
    FileChange {
        /// Relative to the workspace.
        path: String,
        /// `added`, `modified` or `deleted`.
        kind: String,
        /// Lines added; 0 for a binary file.
        added: u64,
        /// Lines removed; 0 for a binary file.
        removed: u64,
    },
    /// A command ran.
    Command {
        /// What was started.
        argv: Vec<String>,
        /// Its exit code; `None` when a signal ended it.
        exit_code: Option<i32>,
        /// How long it ran.
        duration_ms: u64,
        /// Whether the kernel contained it.
        sandboxed: bool,
    },
    /// A check ran.
    Verify(VerifyOutcome),
    /// A budget was used up.
    Budget(BudgetExceeded),
    /// The model answered a request outside of the turns.
    SideRequest(Box<SideRequest>),
    /// The conversation was compacted.
    Compaction {
        /// Estimated tokens before.
        before: u64,
        /// Estimated tokens after.
        after: u64,
    },
    /// Secrets were masked.
    Redaction {
        /// How many places.
        count: u64,
    },
    /// Something that the owner should know and that does not end the run.
    Warning {
        /// One sentence.
        message: String,
    },
    /// Nothing happened for a while.
    Status {
        /// What is being waited for.
        message: String,
        /// For how long.
        waited: Duration,
    },
    /// The to-do list is now this.
    Todos {
        /// The items.
        todos: Vec<Value>,
    },
    /// The answer passed its checks, and the changes are delivered now.
    DeliveryStarted {
        /// `dry-run`, `apply`, `commit` or `branch`.
        mode: String,
    },
    /// The run is over.
    RunFinished(Box<RunFinished>),
}

/// Which text a [`Event::Delta`] belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeltaKind {
    /// The answer.
    Text,
    /// Reasoning.
    Reasoning,
}

/// The session as it starts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RunStarted {
    /// Unique, ordered by time.
    pub run_id: String,
    /// The conversation's id.
    pub session_id: String,
    /// The workspace.
    pub cwd: String,
    /// The model asked for.
    pub model: String,
    /// The tools that the model sees.
    pub tools: Vec<String>,
    /// Each MCP server with its state.
    pub mcp_servers: Vec<Value>,
    /// `plan`, `default`, `auto-edit` or `yolo`.
    pub permission_mode: String,
    /// Name, digest and layers of the policy.
    pub policy: PolicyFacts,
    /// `dry-run`, `apply`, `commit` or `branch`.
    pub changes_mode: String,
    /// The isolation of commands, for example `T3`, or `not isolated`.
    pub sandbox: String,
    /// The limits in force.
    pub limits: Limits,
    /// The commit that the run starts from.
    pub git_head: Option<String>,
    /// The branch; `None` where HEAD is detached, and without a repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_branch: Option<String>,
    /// Whether tracked files differ from it; `None` if that is unknown, as in a repository of very many files.
    pub git_dirty: Option<bool>,
    /// What a report to OpenTelemetry says; `None` where the run is not reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<ReportFacts>,
    /// The recipe, if there is one.
    pub recipe: Option<RecipeFacts>,
    /// The file of `--replay`, if there is one.
    pub replay: Option<String>,
    /// The rules that findings may name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleFacts>,
    /// What a prompt and a call may name.
    #[serde(flatten)]
    pub named: Named,
    /// What it is about: the first line of the prompt, or the recipe's description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// What a prompt and a call may name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Named {
    /// Commands and skills that a prompt may call as `/name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slash_commands: Vec<String>,
    /// Agents that `task` may name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
}

/// What a report to OpenTelemetry says of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ReportFacts {
    /// The trace, as 32 hexadecimal digits.
    pub trace_id: String,
    /// The kind of server, as `gen_ai.provider.name` has it.
    pub provider: Option<String>,
    /// The address of the CI run that this is part of.
    pub ci_run: Option<String>,
}

/// A rule of a recipe's findings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RuleFacts {
    /// Its id.
    pub id: String,
    /// What it is about.
    pub description: String,
    /// `error`, `warning` or `note`; `None` where each finding says so.
    pub severity: Option<String>,
}

/// Which policy decides.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PolicyFacts {
    /// The name of the first layer.
    pub name: String,
    /// Digest of all layers.
    pub sha256: String,
    /// Each layer's source, the granting one first.
    pub layers: Vec<String>,
}

/// Which recipe runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RecipeFacts {
    /// Its name.
    pub name: String,
    /// Its version, if it has one.
    pub version: Option<String>,
    /// Digest of the merged recipe.
    pub sha256: String,
}

/// Limits in force; `None` means unlimited.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Limits {
    /// Turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// Tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// Shell calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell_calls: Option<u64>,
    /// Denied calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denials: Option<u64>,
    /// Equal denials in a row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_denial: Option<u64>,
    /// Wall time in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_time_ms: Option<u64>,
    /// Tokens in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
    /// US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// A complete turn of the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct AssistantTurn {
    /// The call of `task` that this is part of.
    #[serde(default)]
    pub parent: Option<String>,
    /// From 1.
    pub turn: u32,
    /// The server's id of the answer, else one of ours.
    pub id: String,
    /// The model that answered.
    pub model: String,
    /// The visible text.
    pub text: String,
    /// The reasoning.
    pub reasoning: String,
    /// The calls.
    pub calls: Vec<CallFacts>,
    /// `end_turn`, `tool_use` or, where the answer was cut, `max_tokens`.
    pub stop_reason: String,
    /// Tokens of this turn.
    pub usage: TokenUsage,
    /// Its estimated cost in US dollars; `None` if the price is unknown.
    pub cost_usd: Option<f64>,
    /// Requests sent for it.
    pub requests: u32,
    /// Time spent waiting for the server.
    pub api_ms: u64,
}

/// A call as the model made it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CallFacts {
    /// Unique in the run.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments; `{"raw": …}` where they did not parse.
    pub input: Value,
    /// The form of text that it was recovered from.
    pub recovered: Option<String>,
}

/// A request outside of the turns; it counts for the cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SideRequest {
    /// What for, for example `compaction`.
    pub purpose: String,
    /// Tokens.
    pub usage: TokenUsage,
    /// US dollars; `None` if unknown.
    pub cost_usd: Option<f64>,
    /// Requests sent for it, retries included.
    pub requests: u32,
    /// Time spent waiting for the server.
    pub api_ms: u64,
}

/// Tokens; `None` where the server did not report them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TokenUsage {
    /// Prompt tokens.
    pub input_tokens: Option<u64>,
    /// Of these, read from a cache.
    pub cache_read_input_tokens: Option<u64>,
    /// Answer tokens.
    pub output_tokens: Option<u64>,
    /// Of these, reasoning.
    pub reasoning_tokens: Option<u64>,
    /// Our estimate of input and output together, where the server reported nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated: Option<u64>,
}

impl TokenUsage {
    /// Returns the tokens of the prompt and the answer; our estimate where the server reported none.
    #[must_use]
    pub fn total(&self) -> u64 {
        match self.input_tokens.unwrap_or(0).saturating_add(self.output_tokens.unwrap_or(0)) {
            0 => self.estimated.unwrap_or(0),
            reported => reported,
        }
    }
}

/// The answer to one call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ToolResult {
    /// The call of `task` that this is part of.
    #[serde(default)]
    pub parent: Option<String>,
    /// The turn, from 1.
    pub turn: u32,
    /// The call.
    pub call_id: String,
    /// The tool's real name.
    pub tool: String,
    /// What this call was about, in one line.
    pub description: String,
    /// Whether it failed.
    pub is_error: bool,
    /// What the model saw.
    pub content: String,
    /// What a person sees; a unified diff where `diff` is set.
    pub display: String,
    /// Whether `display` is a diff.
    pub diff: bool,
    /// How long it took.
    pub duration_ms: u64,
}

/// A denial, as the result shows it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PermissionDenial {
    /// The tool's real name.
    pub tool_name: String,
    /// The call.
    pub tool_use_id: String,
    /// The arguments.
    pub tool_input: Value,
    /// The rule that decided.
    pub rule: Option<String>,
    /// Its file and line.
    pub source: Option<String>,
    /// Why.
    pub reason: String,
    /// What would help.
    pub hint: Option<String>,
    /// The lines that allow the call once they are added to the policy, if any do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_with: Option<String>,
    /// The turn, from 1.
    pub turn: u32,
}

/// How the policy judged a call, for the events file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DecisionRecord {
    /// The turn, from 1.
    pub turn: u32,
    /// The call.
    pub call_id: String,
    /// The tool's real name.
    pub tool: String,
    /// Whether it may run.
    pub allowed: bool,
    /// The rule that decided.
    pub rule: Option<String>,
    /// Its file and line.
    pub source: Option<String>,
    /// Why.
    pub reason: String,
    /// What the call would touch, one line each.
    pub effects: Vec<String>,
    /// The isolation in force, for example `T3`.
    pub tier: String,
    /// Digest of all policy layers.
    pub policy_sha256: String,
}

/// A request that is tried again.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Retry {
    /// The turn, from 1.
    pub turn: u32,
    /// The number of the next attempt, from 2.
    pub attempt: u32,
    /// Milliseconds waited first.
    pub wait_ms: u64,
    /// The class of the error, for example `rate_limit`.
    pub class: String,
    /// The server's words.
    pub message: String,
}

/// How a check ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct VerifyOutcome {
    /// The command.
    pub command: String,
    /// Its exit code; `None` when a signal or the time ended it.
    pub exit_code: Option<i32>,
    /// Which attempt of the model it judged, from 1.
    pub attempt: u32,
    /// How many attempts the model has; 0 if unknown.
    #[serde(default)]
    pub attempts: u32,
    /// How long it ran.
    pub duration_ms: u64,
    /// The end of its output.
    pub output_tail: String,
    /// Whether it counts as passed.
    pub passed: bool,
}

/// A budget that was used up.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct BudgetExceeded {
    /// `wall_time`, `tool_calls`, `shell_calls`, `total_tokens` or `cost_usd`; of a batch `total_wall_time`,
    /// `batch_total_tokens` or `total_cost_usd`.
    pub kind: String,
    /// The limit.
    #[serde(serialize_with = "short_number")]
    #[schemars(with = "f64")]
    pub limit: f64,
    /// What was spent.
    #[serde(serialize_with = "short_number")]
    #[schemars(with = "f64")]
    pub spent: f64,
}

/// Writes a whole number without `.0`: turns and tokens are counts.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for this signature")]
fn short_number<S: serde::Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0 {
        serializer.serialize_i64(*number as i64)
    } else {
        serializer.serialize_f64(*number)
    }
}

/// How the run ended and what it leaves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RunFinished {
    /// The ending.
    pub exit: Exit,
    /// What went wrong, unless nothing did.
    pub error: Option<RunError>,
    /// The final text.
    pub result: String,
    /// The structured answer, if one was asked for.
    pub structured: Option<Value>,
    /// Whether changes were asked for (then none is `nothing_to_do`).
    pub changes_expected: bool,
    /// What changed.
    pub changes: ChangesReport,
    /// The branch that a commit went to.
    pub branch: Option<String>,
    /// The commit.
    pub commit: Option<String>,
    /// Findings, as the findings schema has them.
    pub findings: Vec<Value>,
    /// How each finding relates to the diff under review; as many as findings, or none without a diff.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<FindingPlace>,
    /// Findings that were dropped, by reason.
    pub dropped: std::collections::BTreeMap<String, u64>,
    /// Wall time in milliseconds.
    pub duration_ms: u64,
}

/// How a finding relates to the diff under review.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FindingPlace {
    /// Its first line is one that the diff shows.
    pub in_diff: bool,
    /// The lines that its suggestion replaces are in one hunk of the diff.
    pub suggestion_in_hunk: bool,
}

impl RunFinished {
    /// Ends the run as a failure to write what was asked for, unless it failed already. What was delivered stays so.
    pub fn blame_output(&mut self, error: RunError) {
        self.exit = self.exit.or_worse(Exit::Failed);
        if self.exit == Exit::Failed && self.error.is_none() {
            self.error = Some(error);
        }
    }

    /// Returns the ending of a run that delivers nothing.
    pub fn failed(exit: Exit, error: RunError) -> RunFinished {
        RunFinished {
            exit,
            error: Some(error),
            result: String::new(),
            structured: None,
            changes_expected: false,
            changes: ChangesReport::default(),
            branch: None,
            commit: None,
            findings: Vec::new(),
            places: Vec::new(),
            dropped: std::collections::BTreeMap::new(),
            duration_ms: 0,
        }
    }
}

/// What went wrong.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RunError {
    /// The exit's name, or for exit 1 what exactly: `context_overflow`, `content_filter`, `loop`, `no_answer`,
    /// `internal` …
    pub code: String,
    /// What happened, naming file and value.
    pub message: String,
    /// Whether the same run may work later.
    pub retryable: bool,
    /// What to do.
    pub hint: Option<String>,
    /// Which budget, for exit 55.
    pub budget: Option<BudgetExceeded>,
}

impl RunError {
    /// A product that was asked for and could not be written.
    pub fn output(message: String) -> RunError {
        RunError {
            code: "output".into(),
            message,
            hint: Some("name a file in a directory that exists and can be written".into()),
            ..RunError::default()
        }
    }
}
