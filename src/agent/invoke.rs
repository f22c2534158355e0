//! Handles the calls of one turn: looks up, validates, judges and runs each, and answers each exactly once.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::join_all;
use serde_json::{Map, Value};

use super::delegate::{Delegates, Outcome};
use super::limits::{Account, Exceeded};
use super::loop_guard::LoopGuard;
use super::{Emit, OnDeny, Stopped, exceeded, page_reader, shown, stopped};
use crate::change::{Change, ChangeSet, diff};
use crate::event::{DecisionRecord, Event, PermissionDenial, ToolResult};
use crate::exit::Exit;
use crate::model::{Arguments, BoxFuture, Model, Part, ToolCall, ToolSpec, prompted};
use crate::path::RelPath;
use crate::policy::redact::Secrets;
use crate::policy::{Access, Decision, Denial, Grant};
use crate::tool_name::{ToolId, WRITING};
use crate::tools::{Call, Display, Effects, Entry, ToolContext, ToolError, ToolErrorKind, ToolOutput, Toolbox};

/// Judges calls: the policy with the facts of this run, and whatever narrows it further.
pub trait Judge: Send + Sync {
    /// Decides; a grant comes with every permission.
    fn authorize(&self, tool: &str, accesses: &[Access]) -> (Decision, Option<Grant>);

    /// Returns the effective isolation, for the record.
    fn tier(&self) -> String;

    /// Returns the digest of the policy, for the record.
    fn digest(&self) -> String;
}

/// The user's own hooks before and after a call.
pub trait Hooks: Send + Sync {
    /// Runs before an allowed call; `Some` blocks it with a reason for the model.
    fn before<'a>(&'a self, tool: &'a str, input: &'a Value) -> BoxFuture<'a, Option<String>>;

    /// Runs after a call; `Some` is shown to the model with the answer.
    fn after<'a>(
        &'a self,
        tool: &'a str,
        input: &'a Value,
        output: String,
        is_error: bool,
    ) -> BoxFuture<'a, Option<String>>;
}

/// Tools that change while the run continues.
pub trait Renewal: Sync {
    /// Returns the current tools; `None` if nothing has changed since the last call.
    fn renewed<'a>(&'a self, toolbox: &'a Toolbox) -> BoxFuture<'a, Option<Toolbox>>;
}

/// Runs the calls of a turn.
pub struct Invoker<'a> {
    toolbox: Cow<'a, Toolbox>,
    renewal: Option<&'a dyn Renewal>,
    /// Whether there are tools that the model has not seen yet.
    grown: bool,
    judge: &'a dyn Judge,
    context: ToolContext<'a>,
    offered: Arc<[ToolSpec]>,
    guard: LoopGuard,
    redact: &'a (dyn Fn(String) -> (String, u64) + Send + Sync),
    hooks: Option<&'a dyn Hooks>,
    text_tools: bool,
    secrets: Option<&'a Secrets>,
    delegates: Option<Delegates<'a>>,
    page_reader: Option<&'a dyn Model>,
}

/// The answer to one call.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
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

/// A call in progress.
enum Step {
    /// Not executed: the model reads why.
    Refused(ToolError),
    /// Allowed.
    Ready { call: Box<dyn Call>, arguments: Map<String, Value>, grant: Box<Grant>, only_reads: bool },
}

impl<'a> Invoker<'a> {
    /// Makes an invoker that offers these tools.
    pub fn new(
        toolbox: &'a Toolbox,
        offered: Arc<[ToolSpec]>,
        judge: &'a dyn Judge,
        context: ToolContext<'a>,
        redact: &'a (dyn Fn(String) -> (String, u64) + Send + Sync),
    ) -> Invoker<'a> {
        Invoker {
            toolbox: Cow::Borrowed(toolbox),
            renewal: None,
            grown: false,
            judge,
            context,
            offered,
            guard: LoopGuard::default(),
            redact,
            hooks: None,
            text_tools: false,
            secrets: None,
            delegates: None,
            page_reader: None,
        }
    }

    /// Runs these hooks on every call.
    pub fn with_hooks(mut self, hooks: Option<&'a dyn Hooks>) -> Invoker<'a> {
        self.hooks = hooks;
        self
    }

    /// Restores secrets where a write or an edit contains their placeholders.
    #[must_use]
    pub fn restoring(mut self, secrets: &'a Secrets) -> Invoker<'a> {
        self.secrets = Some(secrets);
        self
    }

    /// Lets calls of `task` be answered by other agents.
    #[must_use]
    pub fn with_delegates(self, delegates: Delegates<'a>) -> Invoker<'a> {
        Invoker { delegates: Some(delegates), ..self }
    }

    /// Lets this model read fetched pages in separate requests, if the call asks a question.
    #[must_use]
    pub fn with_page_reader(self, page_reader: Option<&'a dyn Model>) -> Invoker<'a> {
        Invoker { page_reader, ..self }
    }

    /// Lets tools change: calls see it at once, the model with its next offer of tools.
    #[must_use]
    pub fn renewing(self, renewal: &'a dyn Renewal) -> Invoker<'a> {
        Invoker { renewal: Some(renewal), ..self }
    }

    /// Offers the current tools; `false` if nothing has changed.
    pub(super) async fn offer_anew(&mut self) -> bool {
        self.renew().await;
        let grown = std::mem::take(&mut self.grown);
        if grown {
            self.offered = self.toolbox.specs().into();
        }
        grown
    }

    async fn renew(&mut self) {
        let Some(renewal) = self.renewal else { return };
        if let Some(toolbox) = renewal.renewed(&self.toolbox).await {
            self.toolbox = Cow::Owned(toolbox);
            self.grown = true;
        }
    }

    /// Sets whether the model writes its calls as text, so that errors show the right format.
    pub fn set_text_tools(&mut self, text_tools: bool) {
        self.text_tools = text_tools;
    }

    /// Returns an invoker of fewer tools under the same rules, hooks and secrets, without delegates.
    pub(super) fn narrowed<'b>(&self, toolbox: &'b Toolbox, offered: Arc<[ToolSpec]>) -> Invoker<'b>
    where
        'a: 'b,
    {
        Invoker {
            hooks: self.hooks,
            text_tools: self.text_tools,
            secrets: self.secrets,
            page_reader: self.page_reader,
            ..Invoker::new(toolbox, offered, self.judge, self.context, self.redact)
        }
    }

    /// Returns the available tools.
    pub(super) fn toolbox(&self) -> &Toolbox {
        &self.toolbox
    }

    /// Returns the tools that the model sees.
    pub fn offered(&self) -> Arc<[ToolSpec]> {
        Arc::clone(&self.offered)
    }

    /// Answers every call, in the order of the calls; consecutive calls that only read run in parallel.
    pub async fn answer(
        &mut self,
        turn: u32,
        calls: &[ToolCall],
        account: &mut Account,
        on_deny: OnDeny,
        emit: Emit<'_>,
    ) -> Vec<Answer> {
        self.renew().await;
        let mut answers: Vec<Answer> = Vec::with_capacity(calls.len());
        let mut reads: Vec<(&ToolCall, Prepared)> = Vec::new();
        let mut ended = false;
        for call in calls {
            if ended {
                answers.push(self.finish(turn, call, &call.name, "", not_executed(), Instant::now(), emit));
                continue;
            }
            // Each call is judged when its turn comes, so that it sees what the calls before it staged.
            let prepared = self.prepare(turn, call, account, on_deny, emit);
            let prepared = self.ask_hooks(turn, call, prepared, account, on_deny, emit).await;
            if matches!(&prepared.step, Step::Ready { only_reads: true, .. }) {
                reads.push((call, prepared));
                continue;
            }
            answers.extend(self.run_reads(turn, std::mem::take(&mut reads), account, emit).await);
            let Prepared { name, about, notes, step, mut ends, input, question: _ } = prepared;
            let started = Instant::now();
            let outcome = match (step, self.delegates) {
                (Step::Refused(error), _) => Err(error),
                (Step::Ready { arguments, .. }, Some(delegates)) if name == ToolId::Task.name() => {
                    match delegates.run(self, &arguments, &call.id, account, on_deny, emit).await {
                        Outcome::Done(output) => Ok(output),
                        Outcome::Refused(error) => Err(error),
                        Outcome::Ended(stopped) => {
                            ends = Some(stopped);
                            Err(not_executed())
                        }
                    }
                }
                (Step::Ready { call: ready, grant, arguments, .. }, _) => {
                    let workspace = self.context.workspace;
                    let (before, _of_others) = (workspace.changes(), workspace.take_refusals());
                    let outcome = ready.run(&grant, &self.context).await;
                    let changed = emit_changes(&before, &workspace.changes(), emit);
                    workspace.note_maker(changed, &format!("{name}: {about}"));
                    if let Some(decision) = taken_back(&workspace.take_refusals()) {
                        ends = deny(account, on_deny, &name, &decision);
                        emit(denial(turn, call, name.clone(), Value::Object(arguments), &decision));
                    }
                    tell_hooks(self.hooks, &name, &input, outcome).await
                }
            };
            let mut answer = self.complete(turn, call, &name, &about, with_notes(outcome, &notes), started, emit);
            ended = ends.is_some();
            answer.ends = ends;
            answers.push(answer);
        }
        answers.extend(self.run_reads(turn, reads, account, emit).await);
        answers
    }

    async fn run_reads(
        &mut self,
        turn: u32,
        batch: Vec<(&ToolCall, Prepared)>,
        account: &mut Account,
        emit: Emit<'_>,
    ) -> Vec<Answer> {
        let (context, hooks) = (&self.context, self.hooks);
        let runs = batch.into_iter().map(|(call, prepared)| async move {
            let started = Instant::now();
            let outcome = match prepared.step {
                Step::Ready { call: ready, grant, .. } => {
                    let outcome = ready.run(&grant, context).await;
                    tell_hooks(hooks, &prepared.name, &prepared.input, outcome).await
                }
                Step::Refused(error) => Err(error),
            };
            (call, prepared.name, prepared.about, prepared.question, with_notes(outcome, &prepared.notes), started)
        });
        let outcomes = join_all(runs).await;
        let mut answers = Vec::with_capacity(outcomes.len());
        for (call, name, about, question, mut outcome, started) in outcomes {
            if let (Ok(output), Some(question), Some(model)) = (&mut outcome, question, self.page_reader) {
                let (pages, _) = (self.redact)(shown(&output.llm_content));
                if let Some(answer) = page_reader::answer(model, &question, &pages, account, emit).await {
                    output.llm_content = vec![Part::Text(answer)];
                }
            }
            answers.push(self.complete(turn, call, &name, &about, outcome, started, emit));
        }
        answers
    }

    /// Does everything before the call runs: limits, loop guard, look-up, validation, policy.
    fn prepare(
        &mut self,
        turn: u32,
        call: &ToolCall,
        account: &mut Account,
        on_deny: OnDeny,
        emit: Emit<'_>,
    ) -> Prepared {
        let name = self.toolbox.resolve(&call.name).map_or(call.name.as_str(), Entry::name).to_owned();
        let mut prepared = Prepared {
            name: name.clone(),
            about: String::new(),
            notes: call.notes.clone(),
            step: Step::Refused(not_executed()),
            ends: None,
            input: Value::Null,
            question: None,
        };
        if let Some(why) = call.left_out() {
            // Nothing looked at the call, so it counts for no limit.
            prepared.step = Step::Refused(ToolError::arguments(why));
            return prepared;
        }
        let is_command = name == ToolId::RunShellCommand.name();
        if let Err(limit) = account.take_call(is_command, Instant::now()) {
            prepared.step = Step::Refused(limit_reached(&limit));
            prepared.ends = Some(exceeded(limit));
            return prepared;
        }
        let arguments = match &call.arguments {
            Arguments::Object(map) => map.clone(),
            Arguments::Incomplete { raw } => {
                prepared.step = Step::Refused(ToolError::arguments(format!(
                    "The call was cut off after {} characters (output limit or broken stream) and was not executed. \
                     Send it again with complete arguments; if the content is large, write_file a skeleton first and \
                     add to it with edit.",
                    raw.chars().count()
                )));
                return prepared;
            }
            Arguments::Invalid { problem, .. } => {
                prepared.step = Step::Refused(ToolError::arguments(self.in_shape(problem.clone(), &name)));
                return prepared;
            }
        };
        if self.guard.repeats(&name, &Value::Object(arguments.clone()).to_string()) {
            prepared.step =
                Step::Refused(ToolError::failed("The same call was made again and again; the run ends here."));
            prepared.ends = Some(stopped(
                Exit::Failed,
                "loop",
                format!("the model made the same call of {name} five times in a row"),
                Some("try a larger model, or a prompt that names files and the steps"),
            ));
            return prepared;
        }
        let ready = match self.toolbox.parse(&name, arguments) {
            Ok(ready) => ready,
            Err(error) => {
                let message = self.in_shape(error.message, &name);
                prepared.step = Step::Refused(ToolError { message, ..error });
                return prepared;
            }
        };
        prepared.about = ready.call.describe();
        let accesses = ready.call.accesses();
        let (decision, grant) = self.judge.authorize(&name, &accesses);
        emit(Event::Decided(Box::new(DecisionRecord {
            turn,
            call_id: call.id.clone(),
            tool: name.clone(),
            allowed: decision.is_allowed(),
            rule: decision.rule.as_ref().map(|rule| rule.rule.clone()),
            source: decision.rule.as_ref().map(|rule| rule.source.clone()),
            reason: decision.reason.clone(),
            effects: decision.effects.clone(),
            tier: self.judge.tier(),
            policy_sha256: self.judge.digest(),
        })));
        match grant {
            Some(grant) if decision.is_allowed() => {
                let call = match self.with_secrets(&name, &ready.arguments, &accesses, &grant) {
                    Ok(None) => ready.call,
                    Ok(Some(call)) => call,
                    Err(error) => {
                        prepared.step = Step::Refused(error);
                        return prepared;
                    }
                };
                prepared.notes.extend(ready.notes);
                if name == ToolId::WebFetch.name() && self.page_reader.is_some() {
                    prepared.question = ready.arguments.get("prompt").and_then(Value::as_str).map(str::to_owned);
                }
                if self.hooks.is_some() {
                    prepared.input = Value::Object(ready.arguments.clone());
                }
                let (arguments, only_reads) = (ready.arguments, ready.effects == Effects::Reads);
                prepared.step = Step::Ready { call, arguments, grant: Box::new(grant), only_reads };
            }
            Some(_) | None => {
                let input = Value::Object(ready.arguments);
                prepared.ends = deny(account, on_deny, &name, &decision);
                emit(denial(turn, call, name, input, &decision));
                prepared.step = Step::Refused(denied(&decision));
            }
        }
        prepared
    }

    /// Runs the hooks for a call that the policy allows; a block counts as a denial.
    async fn ask_hooks(
        &mut self,
        turn: u32,
        call: &ToolCall,
        mut prepared: Prepared,
        account: &mut Account,
        on_deny: OnDeny,
        emit: Emit<'_>,
    ) -> Prepared {
        let (Some(hooks), Step::Ready { .. }) = (self.hooks, &prepared.step) else { return prepared };
        let Some(reason) = hooks.before(&prepared.name, &prepared.input).await else { return prepared };
        let denial = Denial::new(format!("a hook blocks this call: {reason}")).by("hooks");
        let decision = Decision::from(denial);
        prepared.ends = deny(account, on_deny, &prepared.name, &decision);
        emit(Event::Denied(Box::new(PermissionDenial {
            tool_name: prepared.name.clone(),
            tool_use_id: call.id.clone(),
            tool_input: prepared.input.clone(),
            rule: Some("hooks.PreToolUse".into()),
            source: Some("settings".into()),
            reason: decision.reason.clone(),
            hint: None,
            turn,
        })));
        let message = format!("Denied: {}", decision.reason);
        prepared.step = Step::Refused(ToolError { message, kind: ToolErrorKind::Denied });
        prepared
    }

    /// Corrects a call in the format in which the model currently writes calls.
    fn in_shape(&self, message: String, name: &str) -> String {
        if self.text_tools {
            prompted::correction(&message, self.offered.iter().find(|tool| tool.name == name))
        } else {
            message
        }
    }

    /// Returns the call with its placeholders replaced by secrets; `None` if it has none. A secret is restored only
    /// into the file that contained it when the run began.
    fn with_secrets(
        &self,
        name: &str,
        arguments: &Map<String, Value>,
        accesses: &[Access],
        grant: &Grant,
    ) -> Result<Option<Box<dyn Call>>, ToolError> {
        let Some(secrets) = self.secrets.filter(|_| WRITING.map(ToolId::name).contains(&name)) else {
            return Ok(None);
        };
        let written = accesses.iter().find_map(|access| match access {
            Access::Write { path } => grant.writable(path),
            _ => None,
        });
        let Some(path) = written else { return Ok(None) };
        let workspace = self.context.workspace;
        let at_start = || {
            let first = workspace.changes().get(path).map(|change| change.before.clone());
            let entry = first.or_else(|| workspace.entry(path).ok());
            entry.map(|entry| String::from_utf8_lossy(diff::text_of(&entry)).into_owned()).unwrap_or_default()
        };
        let mut held = None;
        let mut restored = arguments.clone();
        let mut changed = false;
        for (key, value) in &mut restored {
            let Value::String(text) = value else { continue };
            if key == "file_path" || !text.contains("[redacted:") {
                continue;
            }
            let back = secrets
                .restore(text, held.get_or_insert_with(at_start))
                .map_err(|refused| ToolError::arguments(format!("The call was not executed: {refused}.")))?;
            if *back != **text {
                changed = true;
                *value = Value::String(back.into_owned());
            }
        }
        if !changed {
            return Ok(None);
        }
        self.toolbox.parse(name, restored).map(|ready| Some(ready.call))
    }

    #[expect(clippy::too_many_arguments, reason = "the facts of one call, all of them different things")]
    fn complete(
        &mut self,
        turn: u32,
        call: &ToolCall,
        name: &str,
        about: &str,
        outcome: Result<ToolOutput, ToolError>,
        started: Instant,
        emit: Emit<'_>,
    ) -> Answer {
        let output = match outcome {
            Err(mut error) => {
                if let Some(directive) = self.guard.failed(name, &error.message) {
                    error.message = format!("{}\n{directive}", error.message);
                }
                return self.finish(turn, call, name, about, error, started, emit);
            }
            Ok(output) => output,
        };
        if let Some(command) = &output.command {
            emit(Event::Command {
                argv: command.argv.clone(),
                exit_code: command.exit_code,
                duration_ms: millis(command.duration),
                sandboxed: command.sandboxed,
            });
        }
        if name == ToolId::TodoWrite.name() {
            let todos = self.context.memory.todos.lock().expect("no holder panics");
            let todos = todos.iter().map(|todo| serde_json::to_value(todo).expect("plain strings")).collect();
            emit(Event::Todos { todos });
        }
        let content = self.redacted(output.llm_content, emit);
        let (display, diff) = match output.display {
            Display::Markdown(text) => (text, false),
            Display::Diff(text) => (text, true),
        };
        emit(Event::ToolResult(Box::new(ToolResult {
            parent: None,
            turn,
            call_id: call.id.clone(),
            tool: name.to_owned(),
            description: about.to_owned(),
            is_error: false,
            content: shown(&content),
            display,
            diff,
            duration_ms: millis(started.elapsed()),
        })));
        Answer { content, is_error: false, wrong_arguments: None, name: name.to_owned(), ends: None }
    }

    #[expect(clippy::too_many_arguments, reason = "the facts of one call, all of them different things")]
    fn finish(
        &self,
        turn: u32,
        call: &ToolCall,
        name: &str,
        about: &str,
        error: ToolError,
        started: Instant,
        emit: Emit<'_>,
    ) -> Answer {
        let wrong_arguments = error.kind == ToolErrorKind::Arguments;
        let content = self.redacted(vec![Part::Text(error.message)], emit);
        let wrong_arguments = wrong_arguments.then(|| shown(&content));
        emit(Event::ToolResult(Box::new(ToolResult {
            parent: None,
            turn,
            call_id: call.id.clone(),
            tool: name.to_owned(),
            description: about.to_owned(),
            is_error: true,
            content: shown(&content),
            display: shown(&content),
            diff: false,
            duration_ms: millis(started.elapsed()),
        })));
        Answer { content, is_error: true, wrong_arguments, name: name.to_owned(), ends: None }
    }

    fn redacted(&self, parts: Vec<Part>, emit: Emit<'_>) -> Vec<Part> {
        let mut masked = 0;
        let parts = parts
            .into_iter()
            .map(|part| match part {
                Part::Text(text) => {
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

struct Prepared {
    name: String,
    about: String,
    /// Corrections of the arguments, which the model reads before the answer.
    notes: Vec<String>,
    step: Step,
    ends: Option<Stopped>,
    /// The arguments, for hooks.
    input: Value,
    /// The question to answer from the fetched pages.
    question: Option<String>,
}

/// Tells the hooks the result of a call, and adds their output to its answer.
async fn tell_hooks(
    hooks: Option<&dyn Hooks>,
    name: &str,
    input: &Value,
    outcome: Result<ToolOutput, ToolError>,
) -> Result<ToolOutput, ToolError> {
    let Some(hooks) = hooks else { return outcome };
    let (text, is_error) = match &outcome {
        Ok(output) => (shown(&output.llm_content), false),
        Err(error) => (error.message.clone(), true),
    };
    let Some(said) = hooks.after(name, input, text, is_error).await else { return outcome };
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

fn limit_reached(limit: &Exceeded) -> ToolError {
    let what = match limit {
        Exceeded::Turns { .. } => "turn",
        Exceeded::Denials { .. } => "denial",
        Exceeded::Budget(budget) => &budget.kind.replace('_', " "),
    };
    ToolError::failed(format!("The {what} limit of this run is reached; the call was not executed."))
}

fn denied(decision: &Decision) -> ToolError {
    let mut message = format!("Denied by policy: {}.", decision.reason);
    if let Some(rule) = &decision.rule {
        message.push_str(&format!(" Rule: {} ({}).", rule.rule, rule.source));
    }
    if let Some(hint) = &decision.hint {
        message.push_str(&format!(" Hint: {hint}."));
    }
    ToolError { message, kind: ToolErrorKind::Denied }
}

/// A forbidden change of a command is a denial like any other, although the command itself was allowed.
fn taken_back(refused: &[(RelPath, String)]) -> Option<Decision> {
    let (path, reason) = refused.first()?;
    let more = match refused.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    let denial = Denial::new(format!("the change to {path} was undone{more}: {reason}")).by("gate");
    Some(denial.hint("allow it under `paths.write`, or leave it to files that may be written").into())
}

fn denial(turn: u32, call: &ToolCall, tool_name: String, tool_input: Value, decision: &Decision) -> Event {
    Event::Denied(Box::new(PermissionDenial {
        tool_name,
        tool_use_id: call.id.clone(),
        tool_input,
        rule: decision.rule.as_ref().map(|rule| rule.rule.clone()),
        source: decision.rule.as_ref().map(|rule| rule.source.clone()),
        reason: decision.reason.clone(),
        hint: decision.hint.clone(),
        turn,
    }))
}

fn deny(account: &mut Account, on_deny: OnDeny, tool: &str, decision: &Decision) -> Option<Stopped> {
    let rule = decision.rule.as_ref().map(|rule| rule.rule.as_str()).unwrap_or_default();
    let limit = account.deny(&format!("{tool} {rule} {}", decision.reason));
    match (limit, on_deny) {
        (Err(limit), _) => Some(exceeded(limit)),
        (Ok(()), OnDeny::Stop) => Some(stopped(
            Exit::Denied,
            "denied",
            format!("the policy denied a call of {tool}: {}", decision.reason),
            decision.hint.as_deref(),
        )),
        (Ok(()), OnDeny::Fail | OnDeny::Continue) => None,
    }
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

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
