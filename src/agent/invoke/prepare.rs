//! Does everything before a call runs: limits, loop guard, look-up, validation, policy, hooks.

use std::time::Instant;

use serde_json::{Map, Value};

use super::{CallState, Invoker, Prepared, TurnContext};
use crate::agent::denials::{denial, denied, deny};
use crate::agent::ending::{Stopped, exceeded, stopped};
use crate::agent::limits::{Account, Exceeded};
use crate::agent::loop_guard::SEEN;
use crate::change::diff;
use crate::event::{DecisionRecord, Event, PermissionDenial};
use crate::exit::Exit;
use crate::model::{Arguments, ToolCall, prompted};
use crate::policy::{Access, Decision, Denial, Grant};
use crate::tool_name::ToolId;
use crate::tools::{Call, Effects, Entry, ParsedCall, ToolError, ToolErrorKind};

/// Why a call does not run, and how that ends the run, if it does.
struct Refused {
    error: ToolError,
    ends: Option<Stopped>,
}

impl From<ToolError> for Refused {
    fn from(error: ToolError) -> Refused {
        Refused { error, ends: None }
    }
}

impl Invoker<'_> {
    /// Prepares a call, and decides whether it runs.
    pub(super) async fn prepare<'c>(
        &mut self,
        call: &'c ToolCall,
        account: &mut Account,
        turn: TurnContext<'_>,
    ) -> Prepared<'c> {
        let entry = self.offer.toolbox.resolve(&call.name);
        let is_command = entry.is_some_and(|entry| entry.effects() == Effects::Runs);
        let name = entry.map_or(call.name.as_str(), Entry::name).to_owned();
        let mut prepared = Prepared::new(call, name);
        let state = match self.checked(call, &prepared.name, is_command, account) {
            Ok(parsed) => self.decided(parsed, &mut prepared, account, turn),
            Err(refused) => Err(refused),
        };
        match state {
            Ok(state) => prepared.state = state,
            Err(Refused { error, ends }) => (prepared.state, prepared.ends) = (CallState::Refused(error), ends),
        }
        self.ask_hooks(&mut prepared, account, turn).await;
        prepared
    }

    /// Checks limits and arguments.
    fn checked(
        &mut self,
        call: &ToolCall,
        name: &str,
        is_command: bool,
        account: &mut Account,
    ) -> Result<ParsedCall, Refused> {
        if let Some(why) = call.left_out() {
            // Nothing looked at the call, so it counts for no limit.
            return Err(ToolError::arguments(why).into());
        }
        if let Err(limit) = account.take_call(is_command, Instant::now()) {
            return Err(Refused { error: limit_reached(&limit), ends: Some(exceeded(limit)) });
        }
        let text = match &call.arguments {
            Arguments::Object(map) => Value::Object(map.clone()).to_string(),
            Arguments::Incomplete { raw } | Arguments::Invalid { raw, .. } => raw.clone(),
        };
        if self.guard.repeats(name, &text) {
            return Err(repeated(name));
        }
        let arguments = match &call.arguments {
            Arguments::Object(map) => map.clone(),
            Arguments::Incomplete { raw } => {
                return Err(ToolError::arguments(format!(
                    "The call was cut off after {} characters (output limit or broken stream) and was not executed. \
                     Send it again with complete arguments; if the content is large, write_file a skeleton first and \
                     add to it with edit.",
                    raw.chars().count()
                ))
                .into());
            }
            Arguments::Invalid { problem, .. } => {
                return Err(ToolError::arguments(self.in_shape(problem.clone(), call, name)).into());
            }
        };
        let task = self.context.memory.task.get().map_or("", |task| task.text.as_str());
        if self.context.text_tools && prompted::is_example(&arguments, task) {
            return Err(ToolError::arguments(prompted::EXAMPLE_CALLED).into());
        }
        if self.context.text_tools && self.guard.was_seen() && ToolId::named(name).is_some_and(ToolId::only_reads) {
            return Err(ToolError::failed(SEEN).into());
        }
        self.offer.toolbox.parse(name, arguments).map_err(|error| {
            let message = self.in_shape(error.message, call, name);
            ToolError { message, ..error }.into()
        })
    }

    /// Asks the policy, and restores secrets where it allows the call.
    fn decided(
        &mut self,
        parsed: ParsedCall,
        prepared: &mut Prepared<'_>,
        account: &mut Account,
        turn: TurnContext<'_>,
    ) -> Result<CallState, Refused> {
        let ParsedCall { name, effects, arguments, notes, call } = parsed;
        prepared.about = call.subject(self.context.workspace.root());
        let accesses = call.accesses();
        let (decision, grant) = self.judge.authorize(&name, &accesses);
        (turn.emit)(Event::Decided(Box::new(DecisionRecord {
            turn: turn.number,
            call_id: prepared.call.id.clone(),
            tool: name.clone(),
            allowed: decision.is_allowed(),
            rule: decision.rule.as_ref().map(|rule| rule.rule.clone()),
            source: decision.rule.as_ref().map(|rule| rule.source.clone()),
            reason: decision.reason.clone(),
            effects: decision.effects.clone(),
            tier: self.judge.tier(),
            policy_sha256: self.judge.digest(),
        })));
        let Some(grant) = grant.filter(|_| decision.is_allowed()) else {
            let ends = deny(account, turn.on_deny, &name, &decision);
            let denial = denial(turn.number, prepared.call, &name, Value::Object(arguments), &decision);
            let allow_with = self.judge.remedy(&name, &accesses);
            (turn.emit)(Event::Denied(Box::new(PermissionDenial { allow_with, ..denial })));
            return Err(Refused { error: denied(&decision), ends });
        };
        let call = self.with_secrets(&name, effects, &arguments, &accesses, &grant)?.unwrap_or(call);
        prepared.notes.extend(notes);
        if name == ToolId::WebFetch.name() && self.page_reader.is_some() {
            prepared.question = arguments.get("prompt").and_then(Value::as_str).map(str::to_owned);
        }
        if self.hooks.is_some() {
            prepared.input = Value::Object(arguments.clone());
        }
        Ok(CallState::Ready { call, arguments, grant: Box::new(grant), effects })
    }

    /// Runs the hooks for a call that the policy allows; a block counts as a denial.
    async fn ask_hooks(&self, prepared: &mut Prepared<'_>, account: &mut Account, turn: TurnContext<'_>) {
        let (Some(hooks), CallState::Ready { .. }) = (self.hooks, &prepared.state) else { return };
        let Some(reason) = hooks.before(&prepared.name, &prepared.input, &self.traced(prepared.call)).await else {
            return;
        };
        let decision = Decision::from(Denial::new(format!("a hook blocks this call: {reason}")).by("hooks"));
        prepared.ends = deny(account, turn.on_deny, &prepared.name, &decision);
        (turn.emit)(Event::Denied(Box::new(PermissionDenial {
            tool_name: prepared.name.clone(),
            tool_use_id: prepared.call.id.clone(),
            tool_input: prepared.input.clone(),
            rule: Some("hooks.PreToolUse".into()),
            source: Some("settings".into()),
            reason: decision.reason.clone(),
            hint: None,
            allow_with: None,
            turn: turn.number,
        })));
        let message = format!("Denied: {}", decision.reason);
        prepared.state = CallState::Refused(ToolError { message, kind: ToolErrorKind::Denied, denial: None });
    }

    /// Corrects a call in the format in which the model currently writes calls.
    fn in_shape(&self, message: String, call: &ToolCall, name: &str) -> String {
        if self.context.text_tools {
            match self.offer.specs.iter().find(|tool| tool.name == name) {
                None if message.starts_with("Tool ") => {
                    let names: Vec<&str> = self.offer.specs.iter().map(|tool| tool.name.as_str()).collect();
                    format!("There is no tool {name:?}. Use one of these: {}.", names.join(", "))
                }
                tool => {
                    let of_task = || self.context.memory.task.get().and_then(|task| task.path.clone());
                    prompted::correction(&message, tool, prompted::path_in(call).or_else(of_task).as_deref())
                }
            }
        } else {
            message
        }
    }

    /// Returns the call with its placeholders replaced by secrets; `None` if it has none. A secret is restored only
    /// into the file that contained it when the run began.
    fn with_secrets(
        &self,
        name: &str,
        effects: Effects,
        arguments: &Map<String, Value>,
        accesses: &[Access],
        grant: &Grant,
    ) -> Result<Option<Box<dyn Call>>, ToolError> {
        let Some(secrets) = self.secrets.filter(|_| effects == Effects::Edits) else { return Ok(None) };
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
        self.offer.toolbox.parse(name, restored).map(|ready| Some(ready.call))
    }
}

fn limit_reached(limit: &Exceeded) -> ToolError {
    let what = match limit {
        Exceeded::Turns { .. } => "turn",
        Exceeded::Denials { .. } => "denial",
        Exceeded::Budget(budget) => &budget.kind.replace('_', " "),
    };
    ToolError::failed(format!("The {what} limit of this run is reached; the call was not executed."))
}

/// Ends the run: the model makes the same call again and again.
fn repeated(name: &str) -> Refused {
    let ends = stopped(
        Exit::Failed,
        "loop",
        format!("the model made the same call of {name} five times in a row"),
        Some("try a larger model, or a prompt that names files and the steps"),
    );
    let error = ToolError::failed("The same call was made again and again; the run ends here.");
    Refused { error, ends: Some(ends) }
}
