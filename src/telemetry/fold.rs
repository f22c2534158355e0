//! Makes spans of events: a pure fold, to which the times are given.
//!
//! The names follow the GenAI conventions of OpenTelemetry at the version of [`SCHEMA`]; where these say nothing, names
//! begin with `qwen.`. Paths, commands and messages are contents and are left out unless they are asked for.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use super::metrics::Measurement;
use super::span::{Call, Open, Task, cut, message, millis, number, set_usage};
use crate::base::trace::{Parent, Trace};
use crate::event::{
    AssistantTurn, Event, FileReport, Retry, RunFinished, RunStarted, SideRequest, TokenUsage, ToolResult,
    VerifyOutcome,
};
use crate::exit::Exit;
use opentelemetry::trace::{Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{Array, InstrumentationScope, KeyValue, StringValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

/// The version of the conventions that names are taken from.
pub const SCHEMA: &str = "https://opentelemetry.io/schemas/1.41.0";

/// What an event made: spans that ended, and measurements.
#[derive(Debug, Default)]
pub struct Made {
    /// Spans that ended.
    pub spans: Vec<SpanData>,
    /// What is counted.
    pub measurements: Vec<Measurement>,
    /// The span that the event is a part of.
    pub span: u64,
}

/// The spans of a run as they grow.
#[derive(Debug)]
pub struct Fold {
    pub(super) trace: std::sync::Arc<Trace>,
    pub(super) contents: bool,
    scope: InstrumentationScope,
    pub(super) about: About,
    root: Option<Open>,
    chat: Option<Chat>,
    numbers: Numbers,
    pub(super) calls: BTreeMap<String, Call>,
    pub(super) tasks: Vec<Task>,
    pub(super) command: Option<(Option<i32>, bool)>,
    delivery: Option<Open>,
    pub(super) sums: Sums,
}

/// What the attributes of several spans say.
#[derive(Debug, Default)]
pub(super) struct About {
    pub(super) provider: String,
    model: String,
    recipe: String,
}

/// How many there were so far.
#[derive(Debug, Default)]
struct Numbers {
    chats: u32,
    checks: u32,
}

/// What the whole run used up.
#[derive(Debug, Default)]
pub(super) struct Sums {
    input: u64,
    output: u64,
    cost: Option<f64>,
    pub(super) denials: i64,
}

/// A request that is under way.
#[derive(Debug)]
struct Chat {
    span: Open,
    try_number: u32,
    heard: bool,
}

impl Fold {
    /// Begins a run.
    pub fn new(trace: std::sync::Arc<Trace>, contents: bool, started: SystemTime) -> Fold {
        let root = Open::new(trace.root(), trace.parent(), "invoke_agent qwen".to_owned(), SpanKind::Internal, started);
        Fold {
            trace,
            contents,
            scope: scope(),
            about: About { provider: "openai".to_owned(), ..About::default() },
            root: Some(root),
            chat: None,
            numbers: Numbers::default(),
            calls: BTreeMap::new(),
            tasks: Vec::new(),
            command: None,
            delivery: None,
            sums: Sums::default(),
        }
    }

    /// Adds an event that happened at this time. After the end of the run nothing is made.
    pub fn add(&mut self, event: &Event, at: SystemTime) -> Made {
        let mut made = Made::default();
        if self.root.is_none() {
            return made;
        }
        made.span = self.agent();
        match event {
            Event::RunStarted(started) => self.started(started),
            Event::TurnStarted { turn, parent } => self.turn(*turn, parent.as_deref(), at, &mut made),
            Event::Delta { .. } => self.heard(at),
            Event::Retry(retry) => self.retry(retry, at, &mut made),
            Event::Assistant(turn) => self.answered(turn, at, &mut made),
            Event::Decided(decision) => self.decided(decision, at, &mut made),
            Event::Denied(denial) => self.denied(denial, at, &mut made),
            Event::Command { exit_code, sandboxed, .. } => self.command = Some((*exit_code, *sandboxed)),
            Event::ToolResult(result) => self.result(result, at, &mut made),
            Event::SideRequest(side) => self.side_request(side, at, &mut made),
            Event::Verify(check) => self.check(check, at, &mut made),
            Event::DeliveryStarted { mode } => self.deliver(mode, at, &mut made),
            Event::ModelFallback { from, to } => self.fall_back(from, to, at, &mut made),
            Event::RunFinished(finished) => self.finish(finished, at, &mut made),
            other => self.note(other, at),
        }
        made
    }

    /// Returns the span that requests are sent in, and that programs of no call are started in.
    pub fn open(&self) -> u64 {
        self.chat.as_ref().map_or_else(|| self.agent(), |chat| chat.span.id)
    }

    /// Returns the agent that works now.
    pub(super) fn agent(&self) -> u64 {
        self.tasks.last().map_or_else(|| self.trace.root(), |task| task.span.id)
    }

    fn turn(&mut self, turn: u32, parent: Option<&str>, at: SystemTime, made: &mut Made) {
        self.enter(parent, at, made);
        self.drop_chat(at, made);
        self.open_chat(turn, 1, at);
        made.span = self.open();
    }

    fn retry(&mut self, retry: &Retry, at: SystemTime, made: &mut Made) {
        let tries = self.chat.as_ref().map_or(1, |chat| chat.try_number);
        if let Some(mut chat) = self.chat.take() {
            made.span = chat.span.id;
            chat.span.fail(&retry.class);
            self.end_chat(chat, at, made);
        }
        self.open_chat(retry.turn, tries + 1, at + millis(retry.wait_ms));
    }

    fn fall_back(&mut self, from: &str, to: &str, at: SystemTime, made: &mut Made) {
        if let Some(mut chat) = self.chat.take() {
            chat.span.fail("unavailable");
            self.end_chat(chat, at, made);
            to.clone_into(&mut self.about.model);
            self.open_chat(0, 1, at);
        }
        let names = [("qwen.model.from", from), ("qwen.model.to", to)];
        self.note_in_agent(
            "qwen.model_fallback",
            at,
            names.map(|(key, name)| KeyValue::new(key, name.to_owned())).to_vec(),
        );
    }

    fn deliver(&mut self, mode: &str, at: SystemTime, made: &mut Made) {
        let (id, root) = (self.trace.span("delivery"), self.trace.root());
        let mut span = Open::new(id, Some(root), format!("deliver {mode}"), SpanKind::Internal, at);
        span.set("qwen.changes.mode", mode.to_owned());
        made.span = id;
        if let Some(earlier) = self.delivery.replace(span) {
            self.end(earlier, at, made);
        }
    }

    /// Notes an event that has no span of its own in the agent at work.
    fn note(&mut self, event: &Event, at: SystemTime) {
        let (name, facts) = match event {
            Event::FileChange { path, kind, added, removed } => {
                let mut facts = vec![
                    KeyValue::new("qwen.change.kind", kind.clone()),
                    KeyValue::new("qwen.change.added", number(*added)),
                    KeyValue::new("qwen.change.removed", number(*removed)),
                ];
                facts.extend(self.content("file.path", path));
                ("qwen.file_change", facts)
            }
            Event::Budget(budget) => {
                ("qwen.budget_exceeded", vec![KeyValue::new("qwen.budget.kind", budget.kind.clone())])
            }
            Event::Compaction { before, after } => {
                let tokens = [("qwen.tokens.before", before), ("qwen.tokens.after", after)];
                ("qwen.compaction", tokens.map(|(name, count)| KeyValue::new(name, number(*count))).to_vec())
            }
            Event::Redaction { count } => {
                ("qwen.redaction", vec![KeyValue::new("qwen.redaction.count", number(*count))])
            }
            Event::Warning { message } => ("qwen.warning", self.content("qwen.message", message).into_iter().collect()),
            Event::Todos { todos } => {
                ("qwen.todos", vec![KeyValue::new("qwen.todos.count", number(todos.len() as u64))])
            }
            _ => ("qwen.waiting", Vec::new()),
        };
        self.note_in_agent(name, at, facts);
    }

    fn note_in_agent(&mut self, name: &'static str, at: SystemTime, facts: Vec<KeyValue>) {
        let span = match self.tasks.last_mut() {
            Some(task) => Some(&mut task.span),
            None => self.root.as_mut(),
        };
        if let Some(span) = span {
            span.note(name, at, facts);
        }
    }

    fn content(&self, name: &'static str, text: &str) -> Option<KeyValue> {
        self.contents.then(|| KeyValue::new(name, cut(text)))
    }

    fn started(&mut self, started: &RunStarted) {
        self.about.model.clone_from(&started.model);
        let report = started.report.clone().unwrap_or_default();
        self.about.provider = report.provider.unwrap_or_else(|| "openai".to_owned());
        let Some(root) = &mut self.root else { return };
        match &started.recipe {
            Some(recipe) => {
                root.name = format!("invoke_workflow {}", recipe.name);
                root.set("gen_ai.operation.name", "invoke_workflow");
                root.set("gen_ai.workflow.name", recipe.name.clone());
                root.set_some("qwen.recipe.version", recipe.version.clone());
                root.set("qwen.recipe.sha256", recipe.sha256.clone());
                self.about.recipe.clone_from(&recipe.name);
            }
            None => root.set("gen_ai.operation.name", "invoke_agent"),
        }
        root.set("gen_ai.agent.name", "qwen");
        root.set("gen_ai.provider.name", self.about.provider.clone());
        root.set("gen_ai.request.model", started.model.clone());
        root.set("gen_ai.conversation.id", started.session_id.clone());
        root.set("qwen.run.id", started.run_id.clone());
        root.set("qwen.policy.name", started.policy.name.clone());
        root.set("qwen.policy.sha256", started.policy.sha256.clone());
        root.set("qwen.changes.mode", started.changes_mode.clone());
        root.set("qwen.sandbox.tier", started.sandbox.split_whitespace().next().unwrap_or_default().to_owned());
        root.set_some("vcs.ref.head.revision", started.git_head.clone());
        root.set_some("cicd.pipeline.run.url.full", report.ci_run);
    }

    fn open_chat(&mut self, turn: u32, try_number: u32, at: SystemTime) {
        self.numbers.chats += 1;
        let id = self.trace.span(&format!("chat {}", self.numbers.chats));
        let name = if self.about.model.is_empty() { "chat".to_owned() } else { format!("chat {}", self.about.model) };
        let mut span = Open::new(id, Some(self.agent()), name, SpanKind::Client, at);
        span.set("gen_ai.operation.name", "chat");
        span.set("gen_ai.provider.name", self.about.provider.clone());
        span.set("gen_ai.request.model", self.about.model.clone());
        span.set("gen_ai.request.stream", true);
        if turn > 0 {
            span.set("qwen.turn", i64::from(turn));
        }
        if try_number > 1 {
            span.set("qwen.retry", i64::from(try_number) - 1);
        }
        self.chat = Some(Chat { span, try_number, heard: false });
    }

    /// Ends a request of which nothing more was heard: the next one began without it.
    pub(super) fn drop_chat(&mut self, at: SystemTime, made: &mut Made) {
        if let Some(mut chat) = self.chat.take() {
            chat.span.fail("cancelled");
            self.end_chat(chat, at, made);
        }
    }

    fn heard(&mut self, at: SystemTime) {
        let Some(chat) = self.chat.as_mut().filter(|chat| !chat.heard) else { return };
        chat.heard = true;
        let waited = at.duration_since(chat.span.start).unwrap_or_default();
        chat.span.set("gen_ai.response.time_to_first_chunk", waited.as_secs_f64());
    }

    fn end_chat(&mut self, chat: Chat, at: SystemTime, made: &mut Made) {
        let took = at.duration_since(chat.span.start).unwrap_or_default();
        let mut about = self.about_model("chat");
        about.extend(chat.span.error.clone().map(|class| KeyValue::new("error.type", class)));
        made.measurements.push(Measurement::operation(took, about));
        self.end(chat.span, at.max(self.earliest()), made);
    }

    /// Returns attributes of metrics that belong to a request.
    fn about_model(&self, operation: &'static str) -> Vec<KeyValue> {
        vec![
            KeyValue::new("gen_ai.operation.name", operation),
            KeyValue::new("gen_ai.provider.name", self.about.provider.clone()),
            KeyValue::new("gen_ai.request.model", self.about.model.clone()),
        ]
    }

    pub(super) fn earliest(&self) -> SystemTime {
        self.root.as_ref().map_or(SystemTime::UNIX_EPOCH, |root| root.start)
    }

    fn answered(&mut self, turn: &AssistantTurn, at: SystemTime, made: &mut Made) {
        if self.chat.is_none() {
            self.open_chat(turn.turn, 1, at - millis(turn.api_ms));
        }
        let Some(mut chat) = self.chat.take() else { return };
        made.span = chat.span.id;
        let span = &mut chat.span;
        span.set("gen_ai.response.id", turn.id.clone());
        span.set("gen_ai.response.model", turn.model.clone());
        let reason = match turn.stop_reason.as_str() {
            "tool_use" => "tool_calls",
            "max_tokens" => "length",
            _ => "stop",
        };
        span.set("gen_ai.response.finish_reasons", Value::Array(Array::String(vec![StringValue::from(reason)])));
        span.set("qwen.requests", i64::from(turn.requests));
        set_usage(span, &turn.usage);
        span.set_some("qwen.cost_usd", turn.cost_usd);
        if self.contents {
            span.set("gen_ai.output.messages", cut(&message(turn, reason)));
        }
        self.spent(&turn.usage, turn.cost_usd, "chat", made);
        self.end_chat(chat, at, made);
        let agent = self.agent();
        for call in &turn.calls {
            let subagent = call.input.get("subagent_type").and_then(serde_json::Value::as_str).map(str::to_owned);
            let arguments = if self.contents { cut(&call.input.to_string()) } else { String::new() };
            let known = self.call(&call.id, &call.name, at);
            known.agent = agent;
            known.arguments = arguments;
            known.subagent = subagent;
        }
    }

    /// Adds what a request cost to the run's sums and to the metrics.
    fn spent(&mut self, usage: &TokenUsage, cost: Option<f64>, operation: &'static str, made: &mut Made) {
        let (input, output) = (usage.input_tokens.unwrap_or(0), usage.output_tokens.unwrap_or(0));
        self.sums.input = self.sums.input.saturating_add(input);
        self.sums.output = self.sums.output.saturating_add(output);
        self.sums.cost = cost.map(|cost| self.sums.cost.unwrap_or(0.0) + cost).or(self.sums.cost);
        for (kind, count) in [("input", usage.input_tokens), ("output", usage.output_tokens)] {
            let mut about = self.about_model(operation);
            about.push(KeyValue::new("gen_ai.token.type", kind));
            made.measurements.extend(count.map(|count| Measurement::tokens(count, about)));
        }
    }

    fn side_request(&mut self, side: &SideRequest, at: SystemTime, made: &mut Made) {
        self.numbers.chats += 1;
        let id = self.trace.span(&format!("chat {}", self.numbers.chats));
        let start = at - millis(side.api_ms);
        let start = start.max(self.earliest()).min(at);
        let mut span = Open::new(id, Some(self.agent()), format!("chat {}", self.about.model), SpanKind::Client, start);
        span.set("gen_ai.operation.name", "chat");
        span.set("gen_ai.provider.name", self.about.provider.clone());
        span.set("gen_ai.request.model", self.about.model.clone());
        span.set("qwen.purpose", side.purpose.clone());
        span.set("qwen.requests", i64::from(side.requests));
        set_usage(&mut span, &side.usage);
        made.span = id;
        self.spent(&side.usage, side.cost_usd, "chat", made);
        let took = at.duration_since(start).unwrap_or_default();
        made.measurements.push(Measurement::operation(took, self.about_model("chat")));
        self.end(span, at, made);
    }

    fn check(&mut self, check: &VerifyOutcome, at: SystemTime, made: &mut Made) {
        self.numbers.checks += 1;
        let (id, root) = (self.trace.check(self.numbers.checks), self.trace.root());
        let start = (at - millis(check.duration_ms)).max(self.earliest()).min(at);
        let program = check.command.split_whitespace().next().unwrap_or_default();
        let program = program.rsplit('/').next().unwrap_or_default();
        let mut span = Open::new(id, Some(root), format!("check {program}"), SpanKind::Internal, start);
        span.set("qwen.check.passed", check.passed);
        span.set("qwen.check.attempt", i64::from(check.attempt));
        span.set_some("process.exit.code", check.exit_code.map(i64::from));
        if self.contents {
            span.set("qwen.check.command", cut(&check.command));
            span.set("qwen.check.output", cut(&check.output_tail));
        }
        if !check.passed {
            span.fail("check_failed");
        }
        made.span = id;
        made.measurements.push(Measurement::check(vec![KeyValue::new("qwen.check.passed", check.passed)]));
        self.end(span, at, made);
    }

    fn finish(&mut self, finished: &RunFinished, at: SystemTime, made: &mut Made) {
        let class = finished.error.as_ref().map(|error| error.code.clone());
        if let (Some(chat), Some(class)) = (&mut self.chat, &class) {
            chat.span.fail(class);
        }
        if let Some(chat) = self.chat.take() {
            self.end_chat(chat, at, made);
        }
        let open: Vec<String> = self.calls.keys().cloned().collect();
        for call_id in open {
            let tool = self.calls.get(&call_id).map(|call| call.tool.clone()).unwrap_or_default();
            self.result(&ToolResult { call_id, tool, is_error: true, ..ToolResult::default() }, at, made);
        }
        while !self.tasks.is_empty() {
            self.leave(at, made);
        }
        if let Some(mut delivery) = self.delivery.take() {
            delivery.set("qwen.changes.applied", finished.changes.applied);
            if finished.changes.rolled_back || (!finished.changes.applied && finished.error.is_some()) {
                delivery.fail(class.as_deref().unwrap_or("failed"));
            }
            self.end(delivery, at, made);
        }
        made.span = self.trace.root();
        let Some(mut root) = self.root.take() else { return };
        self.sum_up(&mut root, finished);
        made.measurements.extend(self.of_run(finished));
        root.set("qwen.exit.code", i64::from(finished.exit.code()));
        root.set("qwen.exit.reason", finished.exit.name());
        if finished.exit != Exit::Ok {
            root.fail(class.as_deref().unwrap_or_else(|| finished.exit.name()));
        }
        self.end(root, at, made);
    }

    fn sum_up(&self, root: &mut Open, finished: &RunFinished) {
        let (added, removed) = FileReport::lines(&finished.changes.files);
        root.set("gen_ai.usage.input_tokens", number(self.sums.input));
        root.set("gen_ai.usage.output_tokens", number(self.sums.output));
        root.set_some("qwen.cost_usd", self.sums.cost);
        root.set("qwen.denials", self.sums.denials);
        root.set("qwen.changes.files", number(finished.changes.files.len() as u64));
        root.set("qwen.changes.added", number(added));
        root.set("qwen.changes.removed", number(removed));
        root.set("qwen.changes.applied", finished.changes.applied);
        if self.contents {
            root.set("gen_ai.output.messages", cut(&finished.result));
        }
    }

    /// Returns the measurements of the whole run.
    fn of_run(&self, finished: &RunFinished) -> Vec<Measurement> {
        let mut about = vec![
            KeyValue::new("qwen.exit.reason", finished.exit.name()),
            KeyValue::new("gen_ai.request.model", self.about.model.clone()),
        ];
        if !self.about.recipe.is_empty() {
            about.push(KeyValue::new("qwen.recipe.name", self.about.recipe.clone()));
        }
        let mut all = vec![Measurement::run(Duration::from_millis(finished.duration_ms), about.clone())];
        all.extend(self.sums.cost.map(|cost| Measurement::cost(cost, about)));
        all
    }

    pub(super) fn end(&self, open: Open, at: SystemTime, made: &mut Made) {
        made.spans.push(ended(&self.trace, &self.scope, open, at));
    }
}

/// Describes what makes spans.
pub(super) fn scope() -> InstrumentationScope {
    let scope = InstrumentationScope::builder("qwen").with_version(env!("CARGO_PKG_VERSION")).with_schema_url(SCHEMA);
    scope.build()
}

/// Ends a span of a trace at this time.
pub(super) fn ended(trace: &Trace, scope: &InstrumentationScope, open: Open, at: SystemTime) -> SpanData {
    let is_root = open.id == trace.root();
    let state = trace.state().parse::<TraceState>().unwrap_or_default();
    let of = |id: u128, span: u64, sampled: bool, is_remote: bool, state: TraceState| {
        let flags = if sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
        let (id, span) = (TraceId::from_bytes(id.to_be_bytes()), SpanId::from_bytes(span.to_be_bytes()));
        SpanContext::new(id, span, flags, is_remote, state)
    };
    let mut events = SpanEvents::default();
    events.events = open.events;
    events.dropped_count = open.dropped;
    let mut links = SpanLinks::default();
    if let Some(Parent { trace, span, sampled }) = trace.linked().filter(|_| is_root) {
        links.links.push(Link::new(of(trace, span, sampled, true, TraceState::default()), Vec::new(), 0));
    }
    SpanData {
        span_context: of(trace.id(), open.id, trace.is_sampled(), false, state),
        parent_span_id: open.parent.map_or(SpanId::INVALID, |parent| SpanId::from_bytes(parent.to_be_bytes())),
        parent_span_is_remote: is_root && open.parent.is_some(),
        span_kind: open.kind,
        name: open.name.into(),
        // A try that waits begins later than the run may end.
        start_time: open.start.min(at),
        end_time: at,
        attributes: open.attributes,
        dropped_attributes_count: 0,
        events,
        links,
        status: open.error.map_or(Status::Unset, Status::error),
        instrumentation_scope: scope.clone(),
    }
}
