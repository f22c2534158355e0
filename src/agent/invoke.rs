//! Handles the calls of one turn: looks up, validates, judges and runs each, and answers each exactly once.

mod language_check;
mod prepare;
mod questions;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::join_all;
use serde_json::{Map, Value};

use super::denials::{denial, deny, taken_back, while_running};
use super::ending::{OnDeny, Stopped};
use super::events::{Emit, millis, shown};
use super::limits::Account;
use super::loop_guard::LoopGuard;
use super::page_reader;
use crate::base::trace::{Context, Trace};
use crate::change::{Change, ChangeSet, diff};
use crate::event::{Event, ToolResult};
use crate::model::{BoxFuture, Model, Part, ToolCall, ToolSpec};
use crate::path::RelPath;
use crate::policy::redact::Secrets;
use crate::policy::{Access, Decision, Grant};
use crate::tool_name::ToolId;
use crate::tools::{Call, Display, Effects, ToolContext, ToolError, ToolErrorKind, ToolOutput, Toolbox};

/// Tools whose answers show what they know of whole files: what else there is shown is a part of something.
const WHOLE_FILES: [ToolId; 4] = [ToolId::ReadFile, ToolId::ReadManyFiles, ToolId::Edit, ToolId::WriteFile];

/// Judges calls: the policy with the facts of this run, and whatever narrows it further.
pub trait PolicyCheck: Send + Sync {
    /// Decides; a grant comes with every permission.
    fn authorize(&self, tool: &str, accesses: &[Access]) -> (Decision, Option<Grant>);

    /// Returns the lines that allow a denied call once they are added to the policy, if any do.
    fn remedy(&self, tool: &str, accesses: &[Access]) -> Option<String>;

    /// Returns the effective isolation, for the record.
    fn tier(&self) -> String;

    /// Returns the digest of the policy, for the record.
    fn digest(&self) -> String;
}

/// The user's own hooks before and after a call.
pub trait Hooks: Send + Sync {
    /// Runs before an allowed call; `Some` blocks it with a reason for the model.
    fn before<'a>(&'a self, tool: &'a str, input: &'a Value, traced: &'a Context) -> BoxFuture<'a, Option<String>>;

    /// Runs after a call; `Some` is shown to the model with the answer.
    fn after<'a>(
        &'a self,
        tool: &'a str,
        input: &'a Value,
        traced: &'a Context,
        output: String,
        is_error: bool,
    ) -> BoxFuture<'a, Option<String>>;
}

/// Tools that change while the run continues.
pub trait Renewal: Sync {
    /// Returns the current tools; `None` if nothing has changed since the last call.
    fn renewed<'a>(&'a self, toolbox: &'a Toolbox) -> BoxFuture<'a, Option<Toolbox>>;
}

/// What answers tasks.
pub trait Delegate: Send + Sync {
    /// Lets another agent do a task with the tools and rules of `parent`.
    fn run<'s>(
        &'s self,
        parent: &'s Invoker<'s>,
        arguments: &'s Map<String, Value>,
        call_id: &'s str,
        account: &'s mut Account,
        turn: TurnContext<'s>,
    ) -> BoxFuture<'s, TaskOutcome>;
}

/// The result of a task.
pub enum TaskOutcome {
    /// The agent's last message.
    Done(ToolOutput),
    /// It was not begun, or came to nothing.
    Refused(ToolError),
    /// What ended it ends the whole run.
    Ended(Stopped),
}

/// The turn whose calls are answered.
#[derive(Clone, Copy)]
pub struct TurnContext<'t> {
    /// Its number, from 1.
    pub number: u32,
    /// What a denial does.
    pub on_deny: OnDeny,
    /// Where events go.
    pub emit: Emit<'t>,
}

/// Runs the calls of a turn.
pub struct Invoker<'a> {
    offer: Offer<'a>,
    judge: &'a dyn PolicyCheck,
    context: ToolContext<'a>,
    guard: LoopGuard,
    redact: &'a (dyn Fn(String) -> (String, u64) + Send + Sync),
    hooks: Option<&'a dyn Hooks>,
    secrets: Option<&'a Secrets>,
    delegates: Option<Box<dyn Delegate + 'a>>,
    page_reader: Option<&'a dyn Model>,
    trace: Option<&'a Trace>,
}

/// The tools, and what the model sees of them.
struct Offer<'a> {
    toolbox: Cow<'a, Toolbox>,
    specs: Arc<[ToolSpec]>,
    renewal: Option<&'a dyn Renewal>,
    /// Whether there are tools that the model has not seen yet.
    grown: bool,
}

/// The answer to one call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResponse {
    /// What the model sees.
    pub content: Vec<Part>,
    /// Whether it is an error.
    pub is_error: bool,
    /// What is wrong with the arguments, if that is the error.
    pub wrong_arguments: Option<String>,
    /// The tool's real name.
    pub name: String,
    /// How the call ends the run, if it does.
    pub ends: Option<Stopped>,
}

impl<'a> Invoker<'a> {
    /// Makes an invoker that offers these tools.
    pub fn new(
        toolbox: &'a Toolbox,
        offered: Arc<[ToolSpec]>,
        judge: &'a dyn PolicyCheck,
        context: ToolContext<'a>,
        redact: &'a (dyn Fn(String) -> (String, u64) + Send + Sync),
    ) -> Invoker<'a> {
        Invoker {
            offer: Offer { toolbox: Cow::Borrowed(toolbox), specs: offered, renewal: None, grown: false },
            judge,
            context,
            guard: LoopGuard::default(),
            redact,
            hooks: None,
            secrets: None,
            delegates: None,
            page_reader: None,
            trace: None,
        }
    }

    /// Tells what calls start of this trace.
    #[must_use]
    pub fn tracing(self, trace: Option<&'a Trace>) -> Invoker<'a> {
        Invoker { trace, ..self }
    }

    /// Returns what the programs and servers of a call are told of the trace.
    fn traced(&self, call: &ToolCall) -> Context {
        self.trace.map(|trace| trace.context(trace.call(&call.id))).unwrap_or_default()
    }

    /// Runs these hooks on every call.
    pub fn with_hooks(mut self, hooks: Option<&'a dyn Hooks>) -> Invoker<'a> {
        self.hooks = hooks;
        self
    }

    /// Replaces placeholders of secrets in a write or an edit by the secrets.
    #[must_use]
    pub fn restoring(mut self, secrets: &'a Secrets) -> Invoker<'a> {
        self.secrets = Some(secrets);
        self
    }

    /// Lets calls of `task` be answered by other agents.
    #[must_use]
    pub fn with_delegates(self, delegates: impl Delegate + 'a) -> Invoker<'a> {
        Invoker { delegates: Some(Box::new(delegates)), ..self }
    }

    /// Lets this model read fetched pages in separate requests, if the call asks a question.
    #[must_use]
    pub fn with_page_reader(self, page_reader: Option<&'a dyn Model>) -> Invoker<'a> {
        Invoker { page_reader, ..self }
    }

    /// Lets tools change during the run: calls see a change at once, the model in the next request.
    #[must_use]
    pub fn renewing(mut self, renewal: &'a dyn Renewal) -> Invoker<'a> {
        self.offer.renewal = Some(renewal);
        self
    }

    /// Offers the current tools; `false` if nothing has changed.
    pub(super) async fn offer_anew(&mut self) -> bool {
        self.renew().await;
        let grown = std::mem::take(&mut self.offer.grown);
        if grown {
            let mask = |text: String| self.masked(text);
            self.offer.specs = self.offer.toolbox.specs().iter().filter_map(|spec| spec.masked(&mask)).collect();
        }
        grown
    }

    async fn renew(&mut self) {
        let Some(renewal) = self.offer.renewal else { return };
        if let Some(toolbox) = renewal.renewed(&self.offer.toolbox).await {
            self.offer.toolbox = Cow::Owned(toolbox);
            self.offer.grown = true;
        }
    }

    /// Sets whether the model writes its calls as text, so that errors show the right format.
    pub fn set_text_tools(&mut self, text_tools: bool) {
        self.context.text_tools = text_tools;
    }

    /// Returns an invoker of fewer tools under the same rules, hooks and secrets, without delegates.
    pub(super) fn narrowed<'b>(&self, toolbox: &'b Toolbox, offered: Arc<[ToolSpec]>) -> Invoker<'b>
    where
        'a: 'b,
    {
        Invoker {
            hooks: self.hooks,
            secrets: self.secrets,
            page_reader: self.page_reader,
            trace: self.trace,
            ..Invoker::new(toolbox, offered, self.judge, self.context, self.redact)
        }
    }

    /// Returns the available tools.
    pub(super) fn toolbox(&self) -> &Toolbox {
        &self.offer.toolbox
    }

    /// Returns a text without secrets, as the model may read it.
    pub(super) fn masked(&self, text: String) -> String {
        (self.redact)(text).0
    }

    /// Tells whether anything is staged.
    pub(super) fn has_changes(&self) -> bool {
        !self.context.workspace.changes().is_empty()
    }

    /// Returns the tools that the model sees.
    pub fn offered(&self) -> Arc<[ToolSpec]> {
        Arc::clone(&self.offer.specs)
    }

    /// Answers every call, in the order of the calls; consecutive calls that only read run in parallel.
    pub async fn answer(
        &mut self,
        calls: &[ToolCall],
        account: &mut Account,
        turn: TurnContext<'_>,
    ) -> Vec<ToolResponse> {
        self.renew().await;
        let mut answers: Vec<ToolResponse> = Vec::with_capacity(calls.len());
        let mut reads: Vec<Prepared<'_>> = Vec::new();
        let mut ended = false;
        for call in calls {
            if ended {
                let rest = Prepared::new(call, call.name.clone());
                answers.push(self.finish(&rest, not_executed(), Instant::now(), turn));
                continue;
            }
            // Each call is judged when its turn comes, so that it sees what the calls before it staged.
            let prepared = self.prepare(call, account, turn).await;
            if matches!(&prepared.state, CallState::Ready { effects: Effects::Reads, .. }) {
                reads.push(prepared);
                continue;
            }
            answers.extend(self.run_reads(std::mem::take(&mut reads), account, turn).await);
            if answers.iter().any(|answer| answer.ends.is_some()) {
                ended = true;
                answers.push(self.finish(&prepared, not_executed(), Instant::now(), turn));
                continue;
            }
            let answer = self.run_alone(prepared, account, turn).await;
            ended = answer.ends.is_some();
            answers.push(answer);
        }
        answers.extend(self.run_reads(reads, account, turn).await);
        answers
    }

    async fn run_alone(
        &mut self,
        mut prepared: Prepared<'_>,
        account: &mut Account,
        turn: TurnContext<'_>,
    ) -> ToolResponse {
        let started = Instant::now();
        let outcome = match (prepared.take(), &self.delegates) {
            (CallState::Refused(error), _) => Err(error),
            (CallState::Ready { effects: Effects::Delegates, arguments, .. }, Some(delegates)) => {
                match delegates.run(self, &arguments, &prepared.call.id, account, turn).await {
                    TaskOutcome::Done(output) => Ok(output),
                    TaskOutcome::Refused(error) => Err(error),
                    TaskOutcome::Ended(stopped) => {
                        prepared.ends = Some(stopped);
                        Err(not_executed())
                    }
                }
            }
            (CallState::Ready { call: ready, grant, arguments, .. }, _) => {
                let workspace = self.context.workspace;
                let (before, _of_others) = (workspace.changes(), workspace.take_refusals());
                let traced = self.traced(prepared.call);
                let outcome = ready.run(&grant, &ToolContext { traced: &traced, ..self.context }).await;
                let changed = emit_changes(&before, &workspace.changes(), turn.emit);
                workspace.note_maker(changed.iter().cloned(), &format!("{}: {}", prepared.name, prepared.about));
                let refused = taken_back(&workspace.take_refusals()).or_else(|| while_running(&outcome));
                if let Some(decision) = refused {
                    prepared.deny(&decision, Value::Object(arguments), account, turn);
                }
                let outcome = self.with_language_check(&prepared.name, outcome, (&changed, &before), turn).await;
                tell_hooks(self.hooks, &prepared.name, &prepared.input, &traced, outcome).await
            }
        };
        let answer = self.complete(&prepared, with_notes(outcome, &prepared.notes), started, turn);
        ToolResponse { ends: prepared.ends, ..answer }
    }

    async fn run_reads(
        &mut self,
        batch: Vec<Prepared<'_>>,
        account: &mut Account,
        turn: TurnContext<'_>,
    ) -> Vec<ToolResponse> {
        let (context, hooks) = (self.context, self.hooks);
        let runs = batch.into_iter().map(|prepared| (self.traced(prepared.call), prepared));
        let runs = runs.map(|(traced, mut prepared)| async move {
            let started = Instant::now();
            let (outcome, refused) = match prepared.take() {
                CallState::Ready { call: ready, grant, arguments, .. } => {
                    let outcome = ready.run(&grant, &ToolContext { traced: &traced, ..context }).await;
                    let refused = while_running(&outcome).map(|decision| (decision, Value::Object(arguments)));
                    (tell_hooks(hooks, &prepared.name, &prepared.input, &traced, outcome).await, refused)
                }
                CallState::Refused(error) => (Err(error), None),
            };
            let outcome = with_notes(outcome, &prepared.notes);
            (prepared, outcome, refused, started)
        });
        let outcomes = join_all(runs).await;
        let mut answers = Vec::with_capacity(outcomes.len());
        for (mut prepared, mut outcome, refused, started) in outcomes {
            if let Some((decision, input)) = refused {
                prepared.deny(&decision, input, account, turn);
            }
            if let (Ok(output), Some(question), Some(model)) = (&mut outcome, &prepared.question, self.page_reader) {
                let (pages, _) = (self.redact)(shown(&output.llm_content));
                if let Some(answer) = page_reader::answer(model, question, &pages, account, turn.emit).await {
                    output.llm_content = vec![Part::Text(answer)];
                }
            }
            let answer = self.complete(&prepared, outcome, started, turn);
            answers.push(ToolResponse { ends: prepared.ends, ..answer });
        }
        answers
    }

    /// Reports the result of a call.
    fn complete(
        &mut self,
        prepared: &Prepared<'_>,
        outcome: Result<ToolOutput, ToolError>,
        started: Instant,
        turn: TurnContext<'_>,
    ) -> ToolResponse {
        let output = match outcome {
            Err(mut error) => {
                if let Some(directive) = self.guard.failed(&prepared.name, &error.message) {
                    error.message = format!("{}\n{directive}", error.message);
                }
                return self.finish(prepared, error, started, turn);
            }
            Ok(output) => output,
        };
        if let Some(command) = &output.command {
            (turn.emit)(Event::Command {
                argv: command.argv.clone(),
                exit_code: command.exit_code,
                duration_ms: millis(command.duration),
                sandboxed: command.sandboxed,
            });
        }
        if prepared.name == ToolId::TodoWrite.name() {
            let todos = self.context.memory.todos.lock().expect("no holder panics");
            let todos = todos.iter().map(|todo| serde_json::to_value(todo).expect("plain strings")).collect();
            (turn.emit)(Event::Todos { todos });
        }
        let content = self.redacted(&prepared.name, output.llm_content, turn.emit);
        let (display, diff) = match output.display {
            Display::Markdown(text) => (text, false),
            Display::Diff(text) => (text, true),
        };
        let result = ToolResult { display, diff, ..prepared.result(shown(&content), false, started, turn) };
        (turn.emit)(Event::ToolResult(Box::new(result)));
        ToolResponse { content, is_error: false, wrong_arguments: None, name: prepared.name.clone(), ends: None }
    }

    /// Reports the error of a call.
    fn finish(
        &self,
        prepared: &Prepared<'_>,
        error: ToolError,
        started: Instant,
        turn: TurnContext<'_>,
    ) -> ToolResponse {
        let content = self.redacted(&prepared.name, vec![Part::Text(error.message)], turn.emit);
        let wrong_arguments = (error.kind == ToolErrorKind::Arguments).then(|| shown(&content));
        (turn.emit)(Event::ToolResult(Box::new(prepared.result(shown(&content), true, started, turn))));
        ToolResponse { content, is_error: true, wrong_arguments, name: prepared.name.clone(), ends: None }
    }

    /// Masks what a tool answers: a part of something, but for the tools that show or write whole files.
    fn redacted(&self, tool: &str, parts: Vec<Part>, emit: Emit<'_>) -> Vec<Part> {
        let is_whole = WHOLE_FILES.iter().any(|whole| whole.name() == tool);
        let mut masked = 0;
        let parts = parts
            .into_iter()
            .map(|part| match part {
                Part::Text(text) => {
                    if !is_whole {
                        self.context.workspace.notice(text.as_bytes(), true);
                    }
                    let (text, count) = (self.redact)(text);
                    masked += count;
                    Part::Text(text)
                }
                Part::Media { .. } => part,
            })
            .collect();
        if masked > 0 {
            emit(Event::Redaction { count: masked });
        }
        parts
    }
}

/// A call on its way.
struct Prepared<'c> {
    call: &'c ToolCall,
    /// The tool's real name.
    name: String,
    about: String,
    /// Corrections of the arguments, which the model reads before the answer.
    notes: Vec<String>,
    state: CallState,
    ends: Option<Stopped>,
    /// The arguments, for hooks.
    input: Value,
    /// The question to answer from the fetched pages.
    question: Option<String>,
}

/// Whether a call runs.
enum CallState {
    /// Not executed: the model reads why.
    Refused(ToolError),
    /// Allowed.
    Ready { call: Box<dyn Call>, arguments: Map<String, Value>, grant: Box<Grant>, effects: Effects },
}

impl<'c> Prepared<'c> {
    fn new(call: &'c ToolCall, name: String) -> Prepared<'c> {
        Prepared {
            call,
            name,
            about: String::new(),
            notes: call.notes.clone(),
            state: CallState::Refused(not_executed()),
            ends: None,
            input: Value::Null,
            question: None,
        }
    }

    // Records what the policy denied of a call that ran.
    fn deny(&mut self, decision: &Decision, input: Value, account: &mut Account, turn: TurnContext<'_>) {
        self.ends = deny(account, turn.on_deny, &self.name, decision);
        (turn.emit)(Event::Denied(Box::new(denial(turn.number, self.call, &self.name, input, decision))));
    }

    /// Takes what is to be done out of it.
    fn take(&mut self) -> CallState {
        std::mem::replace(&mut self.state, CallState::Refused(not_executed()))
    }

    fn result(&self, content: String, is_error: bool, started: Instant, turn: TurnContext<'_>) -> ToolResult {
        ToolResult {
            parent: None,
            turn: turn.number,
            call_id: self.call.id.clone(),
            tool: self.name.clone(),
            description: self.about.clone(),
            is_error,
            display: content.clone(),
            content,
            diff: false,
            duration_ms: millis(started.elapsed()),
        }
    }
}

/// Tells the hooks the result of a call, and adds their output to its answer.
async fn tell_hooks(
    hooks: Option<&dyn Hooks>,
    name: &str,
    input: &Value,
    traced: &Context,
    outcome: Result<ToolOutput, ToolError>,
) -> Result<ToolOutput, ToolError> {
    let Some(hooks) = hooks else { return outcome };
    let (text, is_error) = match &outcome {
        Ok(output) => (shown(&output.llm_content), false),
        Err(error) => (error.message.clone(), true),
    };
    let Some(said) = hooks.after(name, input, traced, text, is_error).await else { return outcome };
    let said = format!("\n[A hook of the user's says: {said}]");
    match outcome {
        Ok(mut output) => {
            output.llm_content.push(Part::Text(said));
            Ok(output)
        }
        Err(error) => Err(ToolError { message: error.message + &said, ..error }),
    }
}

fn with_notes(outcome: Result<ToolOutput, ToolError>, notes: &[String]) -> Result<ToolOutput, ToolError> {
    let mut output = outcome?;
    if !notes.is_empty() {
        output.llm_content.insert(0, Part::Text(format!("({})\n", notes.join("; "))));
    }
    Ok(output)
}

fn not_executed() -> ToolError {
    ToolError::failed("This call was not executed: the run is ending.")
}

/// Reports which paths a call staged, compared with what was staged before it.
fn emit_changes(before: &ChangeSet, after: &ChangeSet, emit: Emit<'_>) -> Vec<RelPath> {
    let changed = after.iter().map(|(path, change)| {
        let from = before.staged(path).unwrap_or(&change.before).clone();
        (path, Change { before: from, after: change.after.clone() })
    });
    let taken_back = before
        .iter()
        .filter(|(path, _)| after.get(path).is_none())
        .map(|(path, change)| (path, Change { before: change.after.clone(), after: change.before.clone() }));
    let mut paths = Vec::new();
    for (path, change) in changed.chain(taken_back) {
        let Some(kind) = change.kind() else { continue };
        paths.push(path.clone());
        let counts = diff::counts(&change);
        emit(Event::FileChange {
            path: path.to_string_lossy(),
            kind: kind.name().into(),
            added: counts.added,
            removed: counts.removed,
        });
    }
    paths
}
