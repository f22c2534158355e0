//! Runs the agent's loop: asks the model and answers its calls until the model is done or something ends the run.
//!
//! Knows neither output formats nor delivery: it emits events and leaves staged changes.

pub mod compaction;
pub mod delegate;
mod denials;
mod echo;
mod ending;
mod estimate;
mod events;
pub mod invoke;
pub mod limits;
pub mod loop_guard;
mod page_reader;
pub mod session;
mod side_request;
pub mod transcript;

use std::sync::Arc;
use std::time::Instant;

pub use ending::{Ending, OnDeny, Stopped};
pub use events::Emit;

use crate::change::{alike, loss};
use crate::event::Event;
use crate::exit::Exit;
use crate::model::tool_set::ToolSet;
use crate::model::{
    Arguments, AssistantMessage, Delta, ErrorClass, Message, Model, Part, Request, Stop, StreamFault, ToolCall,
    ToolMessage, Turn,
    prompted::{self, CallsOutcome},
    unread_call,
};
use crate::tool_name::ToolId;
use crate::tools::Assignment;
use ending::{exceeded, model_error, stopped};
use events::{assistant_event, delta_event};
use invoke::{Invoker, ToolResponse, TurnContext};
use limits::Account;
use transcript::Transcript;

/// Characters of the reasoning that a model is shown again after it repeated itself.
const SHOWN_REASONING: usize = 2_000;

/// What a model hears that answers a task for changes without a call.
const NOTHING_DONE: &str = "Nothing has been done yet: no tool was called, so no file has changed. \
     If the task needs a change, make it now with the tools. If it needs none, say why.";

/// What it hears after calls that changed nothing.
const NOTHING_CHANGED: &str = "No file has changed: your last call changed nothing. \
     If the task needs a change, make it now with another call. If it needs none, say why.";

/// What helps a model that does not get along with a task.
const LARGER_MODEL: &str = "use a larger model, or a prompt with a single task";

/// The result of a turn.
enum TurnOutcome {
    /// There is more to do.
    Continue,
    /// The final text.
    Answer(String),
    /// A structured answer that does not fit its schema: why.
    Misfit(String),
}

/// What the loop needs to know besides its parts.
#[derive(Debug, Clone)]
pub struct AgentOptions {
    /// What a denial does.
    pub on_deny: OnDeny,
    /// Maximum tokens of one answer, from a flag or a recipe.
    pub max_output_tokens: Option<u64>,
    /// Whether the user asked for changes: an answer without any call is questioned once.
    pub changes_expected: bool,
    /// What every run is told, so that an answer that repeats it is not taken for one.
    pub instructions: &'static str,
    /// The task, for the questions about the changes.
    pub task: Assignment,
    /// The task once more, if it is short and asks for an answer in words.
    pub question: Option<Arc<str>>,
    /// A search that is made before the model is asked: small ones answer from memory.
    pub first_call: Option<ToolCall>,
}

/// One conversation with a model, its tools and its account.
pub struct Agent<'a> {
    model: &'a dyn Model,
    invoker: Invoker<'a>,
    tools: ToolSet,
    options: AgentOptions,
    emit: Emit<'a>,
    account: Account,
    transcript: Transcript,
    compaction: compaction::Compaction,
    said: Said,
    /// The model has called a tool natively.
    calls_natively: bool,
    keep: Option<Keep<'a>>,
    kept: usize,
}

/// What the model was told once.
#[derive(Debug, Default)]
struct Said {
    /// The answer that was questioned, because nothing had been done for it or something was lost, and the number of
    /// calls before it.
    nudged: Option<(String, u64)>,
    /// The questions about changes that it was asked.
    asked: Vec<Question>,
    /// The one that its next answer is about.
    open: Option<Question>,
    /// The last call that was to change a file changed nothing.
    changed_nothing: bool,
    reprompted: bool,
    /// Its answer did not fit the schema.
    sent_back: bool,
    /// Its answer only repeated itself.
    repetition: bool,
    /// What it said that may be calls in tags which are not read.
    in_tags: Vec<String>,
    /// How many of its turns had calls of which none could be read.
    unread: usize,
}

/// How often a model is told of calls in tags that are not read, and of others of which none can be read.
const MOST_UNREAD: usize = 2;

/// Says what is wrong with a call of a turn that is left out of the conversation: a small model that sees its own malformed
/// calls writes them again.
fn of_unread(correction: &str) -> String {
    format!("Your reply had a call that cannot be read: {correction}")
}

/// A question about the changes, which is asked once and answered in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    /// Whether what rewritten files lost is to come back.
    Loss,
    /// Whether lines like the removed ones are to go, too.
    Rest,
    /// How a file that a call broke is to be mended.
    Fault,
}

/// Where new messages go as they are made, for a session that outlives a kill.
pub type Keep<'a> = &'a (dyn Fn(&[Message]) + Send + Sync);

impl<'a> Agent<'a> {
    /// Begins a conversation. Nothing is sent yet.
    pub fn new(
        model: &'a dyn Model,
        invoker: Invoker<'a>,
        account: Account,
        transcript: Transcript,
        options: AgentOptions,
        emit: Emit<'a>,
    ) -> Agent<'a> {
        invoker.set_task(&options.task);
        Agent {
            tools: ToolSet::new(invoker.offered()),
            model,
            invoker,
            options,
            emit,
            account,
            transcript,
            compaction: compaction::Compaction::default(),
            said: Said::default(),
            calls_natively: false,
            keep: None,
            kept: 0,
        }
    }

    /// Passes every message on as soon as it is complete; the first `kept` of the transcript are kept already.
    pub fn keeping(mut self, keep: Option<Keep<'a>>, kept: usize) -> Agent<'a> {
        (self.keep, self.kept) = (keep, kept);
        self
    }

    /// Passes on new messages.
    fn keep(&mut self) {
        let messages = self.transcript.messages();
        if let Some(keep) = self.keep
            && self.kept < messages.len()
        {
            keep(&messages[self.kept..]);
        }
        self.kept = messages.len();
    }

    /// Returns the account so far.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Warns of the files that the run leaves broken.
    pub fn warn_of_fault(&self) {
        self.invoker.warn_of_fault(self.emit);
    }

    /// Ends the conversation and returns its account.
    pub fn into_account(self) -> Account {
        self.account
    }

    /// Adds a message of the user, without secrets: the next [`Agent::converse`] continues from there.
    pub fn say(&mut self, text: impl Into<String>) {
        self.transcript.say(self.invoker.masked(text.into()));
    }

    /// Sends back an answer that does not fit the schema: from now on only answers are asked for, where the server can.
    pub fn send_back(&mut self, text: String) {
        self.said.sent_back = true;
        self.say(text);
    }

    /// Continues until the model answers without a call, or something ends the run.
    ///
    /// Dropping the future cancels the request or command in progress; only staged changes remain.
    pub async fn converse(&mut self) -> Ending {
        loop {
            let turn = self.turn().await;
            self.keep();
            match turn {
                Ok(TurnOutcome::Continue) => {}
                Ok(TurnOutcome::Answer(answer)) => return Ending::Answer(answer),
                Ok(TurnOutcome::Misfit(problem)) => return Ending::Misfit(problem),
                Err(stopped) => return Ending::Stopped(stopped),
            }
        }
    }

    /// One turn.
    async fn turn(&mut self) -> Result<TurnOutcome, Stopped> {
        let number = self.account.take_turn(Instant::now()).map_err(exceeded)?;
        self.keep();
        let compacted = self
            .compaction
            .before_request(self.model, &mut self.transcript, &mut self.account, &self.invoker.offered(), self.emit)
            .await;
        if compacted {
            self.offer_anew().await;
        }
        // A summary is not recorded: the session has the messages that it replaces.
        self.kept = self.transcript.messages().len();
        (self.emit)(Event::TurnStarted { turn: number, parent: None });
        let first = self.options.first_call.take().filter(|_| self.account.can_search());
        let mut turn = match first {
            Some(call) => Turn::unasked(call),
            None => self.respond(number).await?,
        };
        if turn.stop != Stop::Repetition && turn.stop != Stop::Length {
            self.take_answer(&mut turn.message, number);
        }
        let facts = self.model.facts();
        if turn.requests > 0 {
            self.compaction.learn(&self.transcript, &turn.usage);
        }
        let estimate = self.transcript.estimate() + estimate::estimate_text(&turn.message.text);
        let cost_usd = self.account.spend(&turn.usage, estimate, facts.price.as_ref());
        (self.emit)(Event::Assistant(Box::new(assistant_event(number, &turn, &facts.name, estimate, cost_usd))));

        if turn.stop == Stop::Repetition {
            return self.repetition(turn.message);
        }
        if turn.message.calls.is_empty() {
            return self.without_calls(turn);
        }
        if let Some(correction) = self.correction_of_unread(&turn.message) {
            self.transcript.say(correction);
            return Ok(TurnOutcome::Continue);
        }
        self.calls_natively |= turn.message.calls.iter().any(|call| call.recovered.is_none());
        let text = turn.message.text.trim().to_owned();
        let outcome = self.answer_calls(number, turn.message, text).await?;
        if !matches!(outcome, TurnOutcome::Answer(_)) {
            self.account.check_budgets(Instant::now()).map_err(exceeded)?;
        }
        Ok(outcome)
    }

    async fn respond(&mut self, number: u32) -> Result<Turn, Stopped> {
        loop {
            let request = Request {
                messages: self.transcript.shared(),
                lineage: self.transcript.lineage(),
                tools: self.invoker.offered(),
                max_output_tokens: self.options.max_output_tokens,
                turn: number - 1,
                time_left: self.account.time_left(Instant::now()),
                force_tool: None,
                only_answer: self.said.sent_back,
                question: self.options.question.clone(),
            };
            let emit = self.emit;
            let mut on_delta = |delta: Delta| emit(delta_event(number, delta));
            match self.model.respond(&request, &mut on_delta).await {
                Ok(turn) if turn.message.calls.is_empty() => {
                    return Ok(self.model.read_again(&turn, &request).unwrap_or(turn));
                }
                Ok(turn) => return Ok(turn),
                Err(error) => match error.class {
                    // The same request would bring an empty answer again; another message may help.
                    ErrorClass::Stream(StreamFault::Empty) if !self.said.reprompted => {
                        self.said.reprompted = true;
                        self.transcript
                            .say("Your answer was empty. Make the next call, or say in a sentence what was done.");
                    }
                    ErrorClass::ContextOverflow { .. } | ErrorClass::PayloadTooLarge => {
                        let (model, offered) = (self.model, &self.invoker.offered());
                        let shrunk = self
                            .compaction
                            .after_overflow(model, &mut self.transcript, &mut self.account, offered, self.emit)
                            .await;
                        if !shrunk {
                            return Err(model_error(error, &self.account));
                        }
                        self.kept = self.transcript.messages().len();
                        self.offer_anew().await;
                    }
                    _ => return Err(model_error(error, &self.account)),
                },
            }
        }
    }

    /// Shows the model the current tools: the server's cache of the prefix is invalid anyway.
    async fn offer_anew(&mut self) {
        if self.invoker.offer_anew().await {
            self.tools = ToolSet::new(self.invoker.offered());
        }
    }

    /// Handles an answer that only repeated itself and was cut: the model continues from what it had, once.
    fn repetition(&mut self, message: AssistantMessage) -> Result<TurnOutcome, Stopped> {
        if self.said.repetition {
            return Err(stopped(
                Exit::Failed,
                "loop",
                "the model's answer repeated itself without end, twice",
                Some(LARGER_MODEL),
            ));
        }
        self.said.repetition = true;
        (self.emit)(Event::Warning { message: "the answer repeated itself without end and was cut".into() });
        let mut said = "Your answer repeated itself without end and was cut off where the repetition began. \
             Do not write that again: make the next call, or give the final answer in a few sentences."
            .to_owned();
        if let Some(reasoning) = message.reasoning.as_ref().filter(|_| message.text.trim().is_empty()) {
            // Not every server gives reasoning back to its model.
            let skipped = reasoning.text.chars().count().saturating_sub(SHOWN_REASONING);
            let tail: String = reasoning.text.chars().skip(skipped).collect();
            said.push_str(&format!(" Your last thoughts before it were:\n\n{}", tail.trim()));
        }
        self.transcript.turn(message, Vec::new());
        self.transcript.say(said);
        Ok(TurnOutcome::Continue)
    }

    /// Handles a turn without calls: it is the answer, or a reason to ask once more.
    fn without_calls(&mut self, turn: Turn) -> Result<TurnOutcome, Stopped> {
        let text = turn.message.text.trim().to_owned();
        if let Some(problem) = unread_call::broken_call(&turn.message.text, &self.tools, self.calls_natively)
            .or_else(|| self.in_other_tags(&text))
        {
            return Ok(self.without_readable_calls(turn.message, problem));
        }
        let after =
            prompted::after_responses(CallsOutcome::Succeeded, self.options.question.as_deref(), self.tools.specs());
        let is_echo = echo::is_echo(&text, &[self.options.instructions, prompted::ENDING, &after]);
        // It may have read these lines somewhere: then it says so again.
        let tells_example =
            !self.said.reprompted && self.model.text_tools() && prompted::tells_example(&text, &self.options.task.text);
        let is_echo = is_echo || tells_example;
        let is_task = !self.invoker.has_changes() && echo::repeats_task(&text, &self.options.task.text);
        if text.is_empty() || is_echo || is_task {
            if self.said.reprompted {
                return Err(stopped(
                    Exit::Failed,
                    "no_answer",
                    "the model gave neither an answer nor a call, twice",
                    Some("use another model, or a prompt with a single task"),
                ));
            }
            self.said.reprompted = true;
            self.transcript.turn(turn.message, Vec::new());
            self.transcript.say(match (is_echo, is_task) {
                (true, _) => "You repeated your instructions. Call a tool, or give the final answer in your own words.",
                (false, true) => "You repeated the task. Call a tool, or give the final answer in your own words.",
                (false, false) => "You produced only reasoning; call a tool or give the final answer.",
            });
            return Ok(TurnOutcome::Continue);
        }
        if let Some(question) = self.doubt(&text) {
            // A second question in a row is not about the task either.
            let calls = self.account.tool_calls();
            let earlier = self.said.nudged.take().filter(|(_, before)| *before == calls);
            self.said.nudged = Some(earlier.unwrap_or((text, calls)));
            self.transcript.turn(turn.message, Vec::new());
            // Secrets in it are hidden already.
            self.transcript.say(question);
            return Ok(TurnOutcome::Continue);
        }
        if turn.stop == Stop::Length {
            (self.emit)(Event::Warning { message: "the answer was cut by the output limit".into() });
        }
        self.transcript.turn(turn.message, Vec::new());
        // If nothing is done after the question either, that reply is about the question; the answer to the task came
        // before it.
        match self.said.nudged.take() {
            Some((answer, calls)) if self.account.tool_calls() == calls => Ok(TurnOutcome::Answer(answer)),
            _ => Ok(TurnOutcome::Answer(text)),
        }
    }

    /// Says what is wrong with a turn in which something is like a call; that of a small model is left out of the
    /// conversation, unless it is an answer.
    fn without_readable_calls(&mut self, message: AssistantMessage, problem: String) -> TurnOutcome {
        let named = self.tools.specs().iter().find(|tool| problem.contains(&format!("`{}`", tool.name)));
        let is_answer = named.is_some_and(|tool| tool.name == ToolId::StructuredOutput.name());
        let path = self.options.task.path.as_deref();
        let is_prompted = self.model.text_tools();
        let mut said = if is_prompted { prompted::correction(&problem, named, path) } else { problem.clone() };
        if is_prompted && !is_answer && self.said.unread < MOST_UNREAD {
            self.said.unread += 1;
            said = of_unread(&said);
        } else {
            self.transcript.turn(message, Vec::new());
        }
        self.transcript.say(said);
        self.said.sent_back |= is_answer;
        if is_answer { TurnOutcome::Misfit(problem) } else { TurnOutcome::Continue }
    }

    /// Says what is wrong with a turn of which no call can be read, and which is left out of the conversation.
    fn correction_of_unread(&mut self, message: &AssistantMessage) -> Option<String> {
        let unread = |call: &ToolCall| {
            let is_answer = call.name == ToolId::StructuredOutput.name();
            matches!(call.arguments, Arguments::Invalid { .. }) && call.left_out().is_none() && !is_answer
        };
        if !self.model.text_tools() || self.said.unread == MOST_UNREAD || !message.calls.iter().all(unread) {
            return None;
        }
        // Of several the last one is what the others led up to.
        let call = message.calls.last()?;
        let Arguments::Invalid { problem, .. } = &call.arguments else { return None };
        self.said.unread += 1;
        let tool = self.tools.exact(&call.name);
        let correction = prompted::correction(problem, tool, self.options.task.path.as_deref());
        Some(of_unread(&correction))
    }

    /// Says what is wrong with calls in tags that are not read; an answer that comes again as it was is one.
    fn in_other_tags(&mut self, text: &str) -> Option<String> {
        let is_again = self.said.in_tags.iter().any(|said| said == text) || self.said.in_tags.len() == MOST_UNREAD;
        if self.calls_natively || is_again {
            return None;
        }
        let problem = unread_call::call_in_other_tags(text, &self.tools)?;
        self.said.in_tags.push(text.to_owned());
        Some(problem)
    }

    /// Returns what the model is asked about an answer before it counts: each thing once.
    fn doubt(&mut self, answer: &str) -> Option<String> {
        if self.said.open.take() == Some(Question::Loss) && loss::wants_back(answer) {
            return Some("Other lines are in their place now, so put them back with the tools.".to_owned());
        }
        if self.said.nudged.is_none() && !self.tools.specs().is_empty() {
            if self.options.changes_expected && self.account.tool_calls() == 0 && !self.account.is_last_turn() {
                return Some(NOTHING_DONE.to_owned());
            }
            if self.model.text_tools()
                && self.said.changed_nothing
                && !self.invoker.has_changes()
                && !self.account.is_last_turn()
            {
                return Some(NOTHING_CHANGED.to_owned());
            }
        }
        [Question::Fault, Question::Loss, Question::Rest].into_iter().find_map(|question| self.question(question))
    }

    /// Adds the calls that an answer in one word means to a question of the turn before.
    fn take_answer(&mut self, message: &mut AssistantMessage, turn: u32) {
        if !message.calls.is_empty() {
            self.said.open = None;
            return self.invoker.forget_choice();
        }
        let (answer, task) = (&message.text, &self.options.task.text);
        message.calls.extend(self.invoker.chosen(answer, turn));
        match self.said.open {
            Some(Question::Loss) if loss::wants_back(answer) => {
                message.calls.extend(self.invoker.restoring_calls(task, turn));
            }
            Some(Question::Rest) if alike::wants_removed(answer) => {
                message.calls.extend(self.invoker.removing_calls(task, turn));
            }
            Some(_) | None => {}
        }
        if !message.calls.is_empty() {
            self.said.open = None;
        }
    }

    /// Returns a question about the changes, once, and only while there are turns left for its answer and what follows.
    fn question(&mut self, question: Question) -> Option<String> {
        let task = &self.options.task.text;
        if self.said.asked.contains(&question) || task.is_empty() || !self.account.has_turns(2) {
            return None;
        }
        let text = match question {
            Question::Fault => self.invoker.question_of_fault(&self.options.task),
            Question::Loss => self.invoker.question_of_loss(task),
            Question::Rest if self.model.text_tools() => self.invoker.question_of_rest(task),
            Question::Rest => None,
        }?;
        self.said.asked.push(question);
        self.said.open = Some(question);
        Some(text)
    }

    /// Answers the calls of a turn; `text` is the turn's text.
    async fn answer_calls(
        &mut self,
        number: u32,
        message: AssistantMessage,
        text: String,
    ) -> Result<TurnOutcome, Stopped> {
        let mut answers: Vec<ToolMessage> = Vec::new();
        let mut is_answered = false;
        let mut misfit = None;
        let mut end: Option<Stopped> = None;
        self.invoker.set_text_tools(self.model.text_tools());
        let turn = TurnContext { number, on_deny: self.options.on_deny, emit: self.emit };
        let outcomes = self.invoker.answer(&message.calls, &mut self.account, turn).await;
        for (call, outcome) in message.calls.iter().zip(outcomes) {
            let ToolResponse { content, is_error, wrong_arguments, name, ends } = outcome;
            let may_change = [ToolId::WriteFile, ToolId::Edit, ToolId::RunShellCommand];
            if may_change.iter().any(|tool| tool.name() == name) && self.tools.exact(&name).is_some() {
                let words = Part::text_of(&content);
                let is_task = self.options.changes_expected && self.options.question.is_none();
                self.said.changed_nothing = prompted::changes_nothing(&name, &words, is_error)
                    || is_task && prompted::is_failed_command(&name, &words);
            }
            if name == ToolId::StructuredOutput.name() {
                is_answered |= !is_error;
                misfit = wrong_arguments.or(misfit);
            }
            answers.push(ToolMessage { call_id: call.id.clone(), name, content, is_error });
            end = end.or(ends);
        }
        self.transcript.turn(message, answers);
        match (end, misfit) {
            (Some(stopped), _) => Err(stopped),
            (None, _) if is_answered => Ok(TurnOutcome::Answer(text)),
            (None, Some(problem)) => Ok(TurnOutcome::Misfit(problem)),
            (None, None) => Ok(TurnOutcome::Continue),
        }
    }
}
