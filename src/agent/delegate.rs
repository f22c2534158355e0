//! Runs a task for another agent: a separate conversation under the same policy, counted against the same limits.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::invoke::{Delegate, Invoker, TaskOutcome, TurnContext};
use super::limits::Account;
use super::transcript::Transcript;
use super::{Agent, AgentOptions, Ending};
use crate::event::{Event, Limits};
use crate::model::{BoxFuture, Model, Part, ToolSpec};
use crate::tools::task::{AgentFile, TaskArgs};
use crate::tools::{Assignment, ToolError, ToolOutput, Toolbox};

/// What answers tasks.
#[derive(Clone, Copy)]
pub struct Delegates<'a> {
    /// The model of the run.
    pub model: &'a dyn Model,
    /// The available agents.
    pub agents: &'a [AgentFile],
    /// Maximum tokens of one answer.
    pub max_output_tokens: Option<u64>,
}

impl Delegate for Delegates<'_> {
    /// Holds the conversation. Its turns, calls, tokens and denials count against the run's limits.
    fn run<'s>(
        &'s self,
        parent: &'s Invoker<'s>,
        arguments: &'s Map<String, Value>,
        call_id: &'s str,
        account: &'s mut Account,
        turn: TurnContext<'s>,
    ) -> BoxFuture<'s, TaskOutcome> {
        Box::pin(async move {
            let args: TaskArgs = match serde_json::from_value(Value::Object(arguments.clone())) {
                Ok(args) => args,
                Err(error) => return TaskOutcome::Refused(ToolError::arguments(format!("params: {error}"))),
            };
            let Some(agent) = self.agents.iter().find(|agent| agent.name == args.subagent_type) else {
                return TaskOutcome::Refused(ToolError::arguments(format!("unknown agent {:?}", args.subagent_type)));
            };
            let toolbox = subset(parent.toolbox(), agent);
            let offered: Arc<[ToolSpec]> =
                parent.offered().iter().filter(|spec| toolbox.get(&spec.name).is_some()).cloned().collect();
            let emit = |event: Event| (turn.emit)(of_task(event, call_id));
            let system = format!(
                "{}\n\nYou work for another agent. It sees only your last message: end with everything it needs to \
                 know. Nobody can be asked.",
                agent.prompt
            );
            let transcript = Transcript::begin(system, vec![Part::Text(args.prompt)]);
            let options = AgentOptions {
                on_deny: turn.on_deny,
                max_output_tokens: self.max_output_tokens,
                changes_expected: false,
                instructions: "",
                // What was lost is asked for once, where the whole ends.
                task: Assignment::default(),
                question: None,
                first_call: None,
            };
            let borrowed = std::mem::replace(account, Account::open(Limits::default(), std::time::Instant::now()));
            let invoker = parent.narrowed(&toolbox, offered);
            let mut delegate = Agent::new(self.model, invoker, borrowed, transcript, options, &emit);
            let ending = delegate.converse().await;
            *account = delegate.into_account();
            match ending {
                Ending::Answer(answer) => {
                    TaskOutcome::Done(ToolOutput::text(answer, format!("{} is done", agent.name)))
                }
                // The answer of the run is not an agent's to give, so the agent does not get the tool for it.
                Ending::Misfit(problem) => TaskOutcome::Refused(ToolError::failed(problem)),
                Ending::Stopped(stopped) => TaskOutcome::Ended(stopped),
            }
        })
    }
}

/// Tasks are not passed on: an agent has no `task`.
fn subset(toolbox: &Toolbox, agent: &AgentFile) -> Toolbox {
    let mut subset = toolbox.clone();
    subset.retain(|name| agent.may_use(name, toolbox));
    subset
}

/// Marks an event with the call that it belongs to.
fn of_task(mut event: Event, call_id: &str) -> Event {
    match &mut event {
        Event::TurnStarted { parent, .. } => *parent = Some(call_id.to_owned()),
        Event::Assistant(turn) => turn.parent = Some(call_id.to_owned()),
        Event::ToolResult(result) => result.parent = Some(call_id.to_owned()),
        _ => {}
    }
    event
}
