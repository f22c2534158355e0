//! Builds the result object, which scripts read when the run is over.
//!
//! It is a fold over the events and nothing else, so the output formats cannot disagree. Field names and their order
//! are the contract; a new field goes where the documentation lists it, and none changes its meaning.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::findings::Findings;
use super::stats::Stats;
pub use crate::base::usage::Usage;
use crate::event::{
    AssistantTurn, BudgetExceeded, ChangesReport, Event, Limits, PermissionDenial, RecipeFacts, Retry, RunError,
    RunFinished, RunStarted, TokenUsage, ToolResult, VerifyOutcome,
};
use crate::exit::Exit;
use crate::tool_name::ToolId;

/// The version of the result object and of the messages; it changes when a field changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// The result object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// How the run ended.
    #[serde(flatten)]
    pub ending: Ending,
    /// What ran.
    #[serde(flatten)]
    pub ran: Ran,
    /// How much was done.
    #[serde(flatten)]
    pub totals: Totals,
    /// What the model said last.
    #[serde(flatten)]
    pub answer: Answer,
    /// Tokens of the whole run.
    pub usage: Usage,
    /// Estimated cost in US dollars; `null` where a price is unknown.
    pub total_cost_usd: Option<f64>,
    /// Limits, what was spent of them, and which one was used up.
    pub budget: Budget,
    /// Each call that the policy denied.
    pub permission_denials: Vec<PermissionDenial>,
    /// What changed.
    pub changes: ChangesReport,
    /// What was committed.
    pub git: GitReport,
    /// Each check that ran.
    pub verify: Vec<VerifyOutcome>,
    /// Findings, as the findings schema has them.
    pub findings: Vec<Value>,
    /// Findings that were dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// The to-do list as it was left.
    pub todos: Vec<Value>,
    /// Each request that was tried again.
    pub retries: Vec<Retry>,
    /// How many places were masked.
    pub redactions: u64,
    /// The file of `--replay`, if there is one.
    pub replay: Option<String>,
    /// What the owner should know.
    pub warnings: Vec<String>,
    /// What went wrong, unless nothing did.
    pub error: Option<RunError>,
    /// Counts by model, tool and file.
    pub stats: Stats,
}

/// How a run ended: a part of the result object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ending {
    /// Always `result`.
    pub r#type: ResultTag,
    /// `success`, `error_max_turns` or `error_during_execution`.
    pub subtype: String,
    /// Of this object.
    pub schema_version: u32,
    /// Whether `subtype` is anything but `success`.
    pub is_error: bool,
    /// The process's exit code.
    pub exit_code: u8,
    /// The exit code's name.
    pub exit_reason: String,
    /// `success`, `nothing_to_do`, `findings`, `denied`, `refused_trigger`, `verify_failed`, `limit` or `error`.
    pub conclusion: String,
}

/// What ran: a part of the result object.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ran {
    /// The run; `null` where it did not get as far as a session.
    pub run_id: Option<String>,
    /// The conversation; `null` where the run did not get as far as a session.
    pub session_id: Option<String>,
    /// The model that answered last, else the one asked for.
    pub model: Option<String>,
    /// The recipe, if there is one.
    pub recipe: Option<RecipeFacts>,
    /// The trace that the run is reported in; `null` where it is not reported.
    #[serde(default)]
    pub trace_id: Option<String>,
}

/// How much was done: a part of the result object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    /// Answers of the model.
    pub num_turns: u32,
    /// Calls that were answered, denied ones included.
    pub num_tool_calls: u32,
    /// Wall time.
    pub duration_ms: u64,
    /// Time spent waiting for the server.
    pub duration_api_ms: u64,
}

/// What the model said last: a part of the result object.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// The final text.
    pub result: String,
    /// The structured answer, under Qwen Code's name.
    pub structured_result: Option<Value>,
    /// The same value.
    pub structured_output: Option<Value>,
}

/// The word `result`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ResultTag {
    /// The only value.
    #[default]
    #[serde(rename = "result")]
    Result,
}

/// Limits against what was spent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Budget {
    /// The limits in force.
    pub limits: Limits,
    /// What was spent.
    pub spent: Limits,
    /// The one that was used up.
    pub exceeded: Option<BudgetExceeded>,
}

/// What git got.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GitReport {
    /// The branch of the commit.
    pub branch: Option<String>,
    /// The commit.
    pub commit: Option<String>,
}

/// Returns the result object of a run.
///
/// Events after the first [`Event::RunFinished`] are ignored. Without one the run broke off: the result says so with
/// exit 1 and `internal`, never success.
pub fn report<'a>(events: impl IntoIterator<Item = &'a Event>) -> Report {
    let mut fold = Fold::default();
    for event in events {
        fold.add(event);
    }
    fold.report()
}

/// The report as it grows, for a caller that sees one event at a time.
#[derive(Debug, Clone, Default)]
pub struct Fold {
    started: Option<Box<RunStarted>>,
    finished: Option<Box<RunFinished>>,
    model: Option<String>,
    counts: Counts,
    sums: Sums,
    denials: Vec<PermissionDenial>,
    verify: Vec<VerifyOutcome>,
    retries: Vec<Retry>,
    warnings: Vec<String>,
    todos: Vec<Value>,
    exceeded: Option<BudgetExceeded>,
    stats: Stats,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    turns: u32,
    tool_calls: u32,
    shell_calls: u64,
    redactions: u64,
}

/// What requests came to.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    api_ms: u64,
    tokens: TokenSum,
    cost: CostSum,
}

impl Sums {
    fn add(&mut self, api_ms: u64, usage: &TokenUsage, requests: u32, cost: Option<f64>) {
        self.api_ms = self.api_ms.saturating_add(api_ms);
        self.tokens.add(usage, requests);
        self.cost.add(cost);
    }
}

impl Fold {
    /// Takes one event into account.
    pub fn add(&mut self, event: &Event) {
        if self.finished.is_some() {
            return;
        }
        match event {
            Event::RunStarted(started) => {
                self.model = Some(started.model.clone());
                self.started = Some(started.clone());
            }
            Event::Assistant(turn) => self.add_turn(turn),
            Event::SideRequest(request) => {
                self.sums.add(request.api_ms, &request.usage, request.requests, request.cost_usd);
                self.stats.add_side(request, self.model.as_deref());
            }
            Event::Decided(record) => self.stats.add_decision(record),
            Event::ToolResult(result) => self.add_result(result),
            Event::Denied(denial) => self.denials.push((**denial).clone()),
            Event::Retry(retry) => self.retries.push(retry.clone()),
            Event::ModelFallback { from: _, to } => self.model = Some(to.clone()),
            Event::Verify(outcome) => self.verify.push(outcome.clone()),
            Event::Budget(exceeded) => self.exceeded = Some(exceeded.clone()),
            Event::Redaction { count } => self.counts.redactions = self.counts.redactions.saturating_add(*count),
            Event::Warning { message } => self.warnings.push(message.clone()),
            Event::Todos { todos } => self.todos.clone_from(todos),
            Event::RunFinished(finished) => self.finished = Some(finished.clone()),
            Event::TurnStarted { .. }
            | Event::Delta { .. }
            | Event::FileChange { .. }
            | Event::Command { .. }
            | Event::Compaction { .. }
            | Event::DeliveryStarted { .. }
            | Event::Status { .. } => {}
        }
    }

    fn add_turn(&mut self, turn: &AssistantTurn) {
        self.counts.turns += 1;
        self.sums.add(turn.api_ms, &turn.usage, turn.requests, turn.cost_usd);
        if !turn.model.is_empty() {
            self.model = Some(turn.model.clone());
        }
        self.stats.add_turn(turn, self.model.as_deref());
    }

    fn add_result(&mut self, result: &ToolResult) {
        self.counts.tool_calls += 1;
        if result.tool == ToolId::RunShellCommand.name() {
            self.counts.shell_calls += 1;
        }
        self.stats.add_result(result);
    }

    /// Returns what the run found, for the writers of findings.
    pub(super) fn findings(&self) -> Findings {
        match &self.finished {
            Some(end) => Findings::read(self.started.as_deref(), end),
            None => Findings::default(),
        }
    }

    /// Puts another ending in the place of the one that was seen: the outputs found out more.
    pub(super) fn replace_end(&mut self, end: RunFinished) {
        self.finished = Some(Box::new(end));
    }

    /// Returns the report of everything seen so far.
    pub fn report(&self) -> Report {
        let broken_off;
        let end = match &self.finished {
            Some(finished) => finished,
            None => {
                broken_off = RunFinished::failed(
                    Exit::Failed,
                    RunError {
                        code: "internal".into(),
                        message: "the run ended without a result".into(),
                        ..RunError::default()
                    },
                );
                &broken_off
            }
        };
        let usage = self.sums.tokens.usage();
        Report {
            ending: ending(end),
            ran: self.ran(),
            totals: Totals {
                num_turns: self.counts.turns,
                num_tool_calls: self.counts.tool_calls,
                duration_ms: end.duration_ms,
                duration_api_ms: self.sums.api_ms,
            },
            answer: Answer {
                result: end.result.clone(),
                structured_result: end.structured.clone(),
                structured_output: end.structured.clone(),
            },
            usage,
            total_cost_usd: self.sums.cost.total(),
            budget: self.budget(end, &usage),
            permission_denials: self.denials.clone(),
            changes: self.changes(end),
            git: GitReport { branch: end.branch.clone(), commit: end.commit.clone() },
            verify: self.verify.clone(),
            findings: end.findings.clone(),
            dropped: end.dropped.clone(),
            todos: self.todos.clone(),
            retries: self.retries.clone(),
            redactions: self.counts.redactions,
            replay: self.started.as_ref().and_then(|started| started.replay.clone()),
            warnings: self.warnings.clone(),
            error: end.error.clone(),
            stats: self.stats.clone().with_changes(&end.changes),
        }
    }

    fn ran(&self) -> Ran {
        let started = self.started.as_deref();
        let id = |get: fn(&RunStarted) -> &String| started.map(get).filter(|id| !id.is_empty()).cloned();
        Ran {
            run_id: id(|started| &started.run_id),
            session_id: id(|started| &started.session_id),
            model: self.model.clone(),
            recipe: started.and_then(|started| started.recipe.clone()),
            trace_id: started.and_then(|started| Some(started.report.as_ref()?.trace_id.clone())),
        }
    }

    /// Returns the changes with the mode that was asked for, where the end does not say it.
    fn changes(&self, end: &RunFinished) -> ChangesReport {
        let mut changes = end.changes.clone();
        if changes.mode.is_empty() {
            let mode = self.started.as_ref().map(|started| started.changes_mode.clone());
            changes.mode = mode.filter(|mode| !mode.is_empty()).unwrap_or("dry-run".into());
        }
        changes
    }

    fn budget(&self, end: &RunFinished, usage: &Usage) -> Budget {
        Budget {
            limits: self.started.as_ref().map(|started| started.limits.clone()).unwrap_or_default(),
            spent: if self.started.is_some() { self.spent(end, usage) } else { Limits::default() },
            exceeded: self.exceeded.clone().or_else(|| end.error.as_ref().and_then(|error| error.budget.clone())),
        }
    }

    fn spent(&self, end: &RunFinished, usage: &Usage) -> Limits {
        Limits {
            turns: Some(self.counts.turns.into()),
            tool_calls: Some(self.counts.tool_calls.into()),
            shell_calls: Some(self.counts.shell_calls),
            denials: Some(self.denials.len() as u64),
            same_denial: None,
            wall_time_ms: Some(end.duration_ms),
            total_tokens: usage.total_tokens.or(usage.estimated),
            cost_usd: self.sums.cost.total(),
        }
    }
}

fn ending(end: &RunFinished) -> Ending {
    Ending {
        r#type: ResultTag::Result,
        subtype: end.exit.subtype().into(),
        schema_version: SCHEMA_VERSION,
        is_error: is_error(end.exit),
        exit_code: end.exit.code(),
        exit_reason: end.exit.name().into(),
        conclusion: conclusion(end).into(),
    }
}

/// Tells whether today's parsers should take this ending for an error.
pub fn is_error(exit: Exit) -> bool {
    exit.subtype() != "success"
}

fn conclusion(end: &RunFinished) -> &'static str {
    match end.exit {
        Exit::Ok if end.changes_expected && end.changes.files.is_empty() => "nothing_to_do",
        Exit::Ok => "success",
        Exit::NoChanges => "nothing_to_do",
        Exit::Gate => "findings",
        Exit::Denied if end.error.as_ref().is_some_and(|error| error.code == "refused_trigger") => "refused_trigger",
        Exit::Denied => "denied",
        Exit::Verify => "verify_failed",
        Exit::Turns | Exit::Budget => "limit",
        Exit::Failed
        | Exit::Usage
        | Exit::Auth
        | Exit::Input
        | Exit::Sandbox
        | Exit::Config
        | Exit::Schema
        | Exit::Conflict
        | Exit::Replay
        | Exit::Unavailable
        | Exit::Interrupted
        | Exit::Terminated => "error",
    }
}

/// Token counts as they add up. A count that one answer lacks is unknown for the run; details that servers report only
/// where there are any (cache, reasoning) count as far as they were reported.
#[derive(Debug, Clone, Copy, Default)]
struct TokenSum {
    answers: u64,
    requests: u64,
    input: u64,
    output: u64,
    unreported: bool,
    cached: Option<u64>,
    reasoning: Option<u64>,
    estimated: u64,
}

impl TokenSum {
    fn add(&mut self, usage: &TokenUsage, requests: u32) {
        self.answers += 1;
        self.requests = self.requests.saturating_add(requests.into());
        self.unreported |= usage.input_tokens.is_none() || usage.output_tokens.is_none();
        self.input = self.input.saturating_add(usage.input_tokens.unwrap_or(0));
        self.output = self.output.saturating_add(usage.output_tokens.unwrap_or(0));
        self.cached = add_known(self.cached, usage.cache_read_input_tokens);
        self.reasoning = add_known(self.reasoning, usage.reasoning_tokens);
        self.estimated = self.estimated.saturating_add(match (usage.input_tokens, usage.output_tokens) {
            (Some(input), Some(output)) => input.saturating_add(output),
            (input, output) => {
                usage.estimated.unwrap_or_else(|| input.unwrap_or(0).saturating_add(output.unwrap_or(0)))
            }
        });
    }

    fn usage(&self) -> Usage {
        let none_yet = self.answers == 0;
        let known = |count| (!self.unreported).then_some(count);
        Usage {
            input_tokens: known(self.input),
            cache_read_input_tokens: self.cached.or(none_yet.then_some(0)),
            output_tokens: known(self.output),
            reasoning_tokens: self.reasoning.or(none_yet.then_some(0)),
            total_tokens: known(self.input.saturating_add(self.output)),
            requests: self.requests,
            estimated: self.unreported.then_some(self.estimated),
        }
    }
}

fn add_known(sum: Option<u64>, more: Option<u64>) -> Option<u64> {
    match (sum, more) {
        (Some(sum), Some(more)) => Some(sum.saturating_add(more)),
        (sum, more) => sum.or(more),
    }
}

/// Costs as they add up; unknown as soon as one is.
#[derive(Debug, Clone, Copy, Default)]
struct CostSum {
    answers: u64,
    unknown: bool,
    total: f64,
}

impl CostSum {
    fn add(&mut self, cost: Option<f64>) {
        self.answers += 1;
        match cost {
            Some(cost) => self.total += cost,
            None => self.unknown = true,
        }
    }

    fn total(&self) -> Option<f64> {
        (self.answers > 0 && !self.unknown).then_some(self.total)
    }
}
