//! Holds the conversation with the model, with the checks in between.

pub mod failing_check;
pub mod hooks;
pub mod session;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use crate::agent::delegate::Delegates;
use crate::agent::invoke::{self, Invoker, PolicyCheck};
use crate::agent::limits::{Account, Denials};
use crate::agent::session::masked_messages;
use crate::agent::transcript::Transcript;
use crate::agent::{Agent, AgentOptions, Ending, Stopped};
use crate::base::trace::Context;
use crate::event::{Event, Limits, RunStarted};
use crate::exit::Exit;
use crate::model::{Arguments, Message, Part, ToolCall};
use crate::policy::Access;
use crate::prompt::first_message::{LISTING_CHARS, asks, named_paths, note};
use crate::prompt::first_search::first_search;
use crate::recipe::file::Before;
use crate::run::conversation::failing_check::FailingCheck;
use crate::run::conversation::hooks::Hooks;
use crate::run::conversation::session::RunSession;
use crate::run::error::{Failure, VerifyError};
use crate::run::finish::outcome;
use crate::run::finish::stage::Stage;
use crate::run::output::emitter::Emitter;
use crate::run::prompt::listing::listing;
use crate::run::recipe::answer_cache::Kept;
use crate::run::recipe::answers::{self, Answer, ParsedAnswer};
use crate::run::recipe::checks::CheckEnvironment;
use crate::run::recipe::gather::Gathered;
use crate::run::recipe::verification::Verification;
use crate::run::rules::judge::RunPolicyCheck;
use crate::run::runner::servers::Renewing;
use crate::run::stages::Setup;
use crate::tool_name::ToolId;
use crate::tools::{Assignment, ToolContext};
use crate::verify::anchor::Sources;
use crate::verify::review::Review;

/// What a conversation is held with.
pub struct Conversation<'a> {
    /// The constant part of the run.
    pub setup: &'a Setup,
    /// Where it is kept.
    pub session: &'a RunSession,
    /// What the run changes.
    pub stage: &'a Stage,
    /// Where events go.
    pub emitter: &'a Emitter,
}

/// What the model is asked, and how its answer is judged.
struct Question<'a> {
    /// The recipe's prompt.
    prompt: Option<String>,
    /// Where the answer is cached.
    kept: Option<Kept>,
    verification: &'a Verification,
    check_environment: &'a CheckEnvironment<'a>,
}

impl Conversation<'_> {
    fn emit(&self, event: Event) {
        self.emitter.emit(event);
    }

    /// Asks the model until its answer passes the checks.
    pub async fn hold(&self) -> Result<Answer, Failure> {
        let Conversation { setup, session, stage, .. } = self;
        let outer = setup.outer_judge(stage);
        let verification = setup.verification(&outer)?;
        let started = RunStarted { session_id: session.id.clone(), ..setup.started(stage) };
        self.emit(Event::RunStarted(Box::new(started)));
        let check_environment = setup.check_environment(stage);
        if !setup.input.shows_prompt
            && let Some(nothing) = self.before(&verification, &check_environment).await?
        {
            return Ok(Answer::nothing_to_do(nothing));
        }
        let (prompts, mut review) = match self.gathered(&outer).await? {
            Ok(gathered) => gathered,
            Err(answer) => return Ok(answer),
        };
        if setup.input.shows_prompt {
            return self.shown(prompts.into_iter().next()).await.map(Answer::nothing_to_do);
        }
        if let Some(text) = setup.shown_instead(prompts.first().map(String::as_str)) {
            return Ok(Answer::nothing_to_do(text));
        }
        let mut account = setup.asked.account(setup.run.started_at);
        let mut whole: Option<Answer> = None;
        // Without a recipe the prompt was typed.
        let prompts = if prompts.is_empty() { vec![None] } else { prompts.into_iter().map(Some).collect() };
        for prompt in prompts {
            let kept = match &prompt {
                // An answer that continues a conversation depends on more than its prompt.
                Some(prompt) if verification.checks.is_empty() && session.earlier.is_empty() => {
                    setup.kept_answer(prompt, stage)
                }
                Some(_) | None => None,
            };
            let question =
                Question { prompt, kept, verification: &verification, check_environment: &check_environment };
            match (self.part(question, &mut account).await, &mut whole) {
                (Ok(answer), Some(whole)) => whole.add(answer),
                (Ok(answer), None) => whole = Some(answer),
                (Err(failure), Some(whole)) => {
                    whole.cut_short = Some(failure);
                    break;
                }
                (Err(failure), None) => return Err(failure),
            }
            review.iter_mut().for_each(Review::part_is_done);
            account.next_conversation();
        }
        review.iter_mut().for_each(Review::end);
        Ok(self.anchored(whole.unwrap_or_else(|| Answer::nothing_to_do(String::new())), review.as_ref()))
    }

    /// Answers one prompt, from the cache or by the model.
    async fn part(&self, question: Question<'_>, account: &mut Account) -> Result<Answer, Failure> {
        let fresh = question.kept.as_ref().and_then(Kept::fresh);
        if let Some(answer) = fresh.and_then(|kept| self.cached(kept)) {
            let message = "the cached answer is used: nothing that it depends on has changed".to_owned();
            self.emit(Event::Status { message, waited: Duration::ZERO });
            return Ok(answer);
        }
        self.ask(question, account).await
    }

    /// Runs the checks that precede the model: `Some` if there is nothing to do.
    async fn before(
        &self,
        verification: &Verification,
        check_environment: &CheckEnvironment<'_>,
    ) -> Result<Option<String>, VerifyError> {
        let wanted = self.setup.before();
        if wanted == Before::Ignore || verification.checks.is_empty() {
            return Ok(None);
        }
        let failed = verification.run(check_environment, 0, &|event| self.emit(event)).await;
        match (wanted, failed) {
            (Before::SkipIfPass, None) => Ok(Some("nothing to do: the checks already pass".to_owned())),
            (Before::MustPass, Some(failed)) => Err(VerifyError::BrokenBase(failed.name)),
            (Before::MustFail, None) => Err(VerifyError::NothingFails),
            (Before::Ignore | Before::SkipIfPass | Before::MustPass | Before::MustFail, _) => Ok(None),
        }
    }

    /// Gathers the recipe's inputs, and renders its prompts with them, one for each conversation. The inner error is
    /// the answer where there is nothing to ask.
    async fn gathered(
        &self,
        outer: &RunPolicyCheck<'_>,
    ) -> Result<Result<(Vec<String>, Option<Review>), Answer>, Failure> {
        let Some(active) = &self.setup.recipe else { return Ok(Ok((Vec::new(), None))) };
        let warn = |message: String| self.emit(Event::Warning { message });
        Ok(match self.setup.gatherer(active, self.stage, outer, &warn).gather().await? {
            Gathered::NothingToDo(name) => {
                Err(Answer::nothing_to_do(format!("nothing to do: the input `{name}` is empty")))
            }
            Gathered::NothingToShow(review) => {
                let text = format!("nothing to do: {}", review.coverage.sentence());
                Err(self.anchored(Answer { text, ..Answer::default() }, Some(&review)))
            }
            Gathered::Inputs(parts, review) => {
                let prompts = parts.iter().map(|inputs| active.prompt(inputs)).collect::<Result<_, _>>()?;
                Ok((prompts, review))
            }
        })
    }

    /// Returns an answer from the cache, if it still fits the schema.
    fn cached(&self, (text, value): (String, Option<Value>)) -> Option<Answer> {
        let taken = self.setup.wanted.take(value, &text).ok()?;
        Some(Answer { text, taken, ..Answer::default() })
    }

    /// Completes an answer: its findings get their lines.
    fn anchored(&self, mut answer: Answer, review: Option<&Review>) -> Answer {
        if answer.nothing_to_do {
            return answer;
        }
        let right = review.and_then(|review| review.right.as_deref());
        let prefix = self.stage.repository.as_ref().map(|repository| repository.prefix.to_string_lossy());
        let sources = Sources {
            prefix: prefix.as_deref().unwrap_or_default(),
            diff: review.map(|review| &review.side),
            file: &|path: &str| self.setup.readable(self.stage, right, path),
            masked: &|text: &str| (self.setup.masking.mask)(text.to_owned()).0,
        };
        self.setup.wanted.anchor(&mut answer.taken, review, &sources);
        answer
    }

    /// Begins the conversation.
    async fn ask(&self, mut question: Question<'_>, account: &mut Account) -> Result<Answer, Failure> {
        let Conversation { setup, session, stage, .. } = self;
        let (judge, hooks) = (setup.judge(stage), setup.hooks(session));
        let context = self.tool_context();
        let prompt = &setup.input.prompt;
        let typed = || [prompt.typed_text(), prompt.read.clone().unwrap_or_default()].join("\n").trim().to_owned();
        let (is_typed, task) = (question.prompt.is_none(), question.prompt.clone().unwrap_or_else(typed));
        let mut message = self.first_message(&judge, &context, hooks.as_ref(), question.prompt.take()).await?;
        let named = match is_typed {
            true => self.failing_check(&task, &judge, question.check_environment, &mut message).await,
            false => None,
        };
        // What is piped in is what the typed words are about, and may be a stranger's.
        let own = Some(prompt.typed_text()).filter(|own| is_typed && !own.trim().is_empty());
        let task = own.map_or(task, |own| own.trim().to_owned());
        let emit = |event: Event| self.emit(event);
        let mask = |text: String| setup.masking.without_secrets(text);
        // Parts of it are said again.
        let (plain, task) = (task.clone(), mask(task));
        // What an earlier run did not know for a secret may be one now.
        if !session.earlier.is_empty() {
            let _as_it_is = masked_messages(&session.earlier, &|text: String| {
                setup.masking.secrets.resume(&text);
                text
            });
        }
        let earlier = masked_messages(&session.earlier, &mask);
        let transcript = Transcript::resume(setup.system_prompt(), earlier, message);
        let keep = |messages: &[Message]| session.keep(messages, &mask).into_iter().for_each(emit);
        let (rules, model) = (&setup.rules, setup.asked.client.as_model());
        let renewing = Renewing { servers: &stage.servers, policy: &rules.policy, facts: setup.facts(stage) };
        let mut invoker = Invoker::new(&setup.toolbox.registry, setup.offered(), &judge, context, &*setup.masking.mask)
            .with_hooks(hooks.as_ref().map(|hooks| hooks as &dyn invoke::Hooks))
            .with_page_reader(setup.toolbox.reads_pages.then_some(model))
            .with_delegates(Delegates {
                model,
                agents: &setup.toolbox.agents,
                max_output_tokens: setup.asked.max_output_tokens,
            })
            .renewing(&renewing)
            .tracing(setup.run.trace.as_deref());
        if setup.masking.redacts {
            invoker = invoker.restoring(&setup.masking.secrets);
        }
        let searches = is_typed && hooks.is_none() && model.text_tools() && plain == task;
        let options = AgentOptions {
            on_deny: rules.on_deny,
            max_output_tokens: setup.asked.max_output_tokens,
            changes_expected: setup.delivery.expected || model.text_tools() && self.is_for_an_edit(&task),
            instructions: crate::prompt::system::CORE,
            question: question_of(&task, setup),
            first_call: if searches { self.first_call(&task, &judge) } else { None },
            task: Assignment { path: named_paths(&task).first().map(|path| (*path).to_owned()), text: task },
        };
        let borrowed = std::mem::replace(account, Account::open(Limits::default(), Instant::now()));
        let agent = Agent::new(model, invoker, borrowed, transcript, options, &emit);
        let mut agent = agent.keeping(Some(&keep), session.earlier.len() + 1);
        let answered = self.rounds(&mut agent, hooks.as_ref(), &question, named).await;
        *account = agent.into_account();
        answered
    }

    /// Tells whether the task is of a kind that is done by an edit: an answer without a call is none.
    fn is_for_an_edit(&self, task: &str) -> bool {
        let is_edit = |tool: ToolId| [ToolId::Edit, ToolId::WriteFile].contains(&tool);
        note(task).is_some_and(|note| is_edit(note.tool) && self.setup.toolbox.registry.has(note.tool))
    }

    /// Returns the search that the task asks for, if it is allowed: nobody asked for this call.
    fn first_call(&self, task: &str, judge: &RunPolicyCheck<'_>) -> Option<ToolCall> {
        let names = listing(&self.stage.workspace, LISTING_CHARS);
        let files: Vec<&str> = names.lines().collect();
        let search =
            first_search(task, &files).filter(|_| self.setup.toolbox.registry.has(ToolId::SearchFileContent))?;
        let root = search.place.as_deref().unwrap_or(".").into();
        let access = Access::Search { root, patterns: search.include.iter().cloned().collect() };
        judge.authorize(ToolId::SearchFileContent.name(), &[access]).1?;
        let values = [("pattern", Some(search.pattern)), ("path", search.place), ("include", search.include)];
        let mut arguments: Map<String, Value> =
            values.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.into()))).collect();
        arguments.insert("case_sensitive".into(), true.into());
        Some(ToolCall {
            id: format!("search_{}", &self.setup.run.id[self.setup.run.id.len().saturating_sub(12)..]),
            name: ToolId::SearchFileContent.name().to_owned(),
            arguments: Arguments::Object(arguments),
            recovered: Some("question"),
            notes: Vec::new(),
        })
    }

    fn tool_context(&self) -> ToolContext<'_> {
        let Conversation { setup, stage, .. } = self;
        ToolContext {
            workspace: &stage.workspace,
            memory: &setup.toolbox.memory,
            limits: &setup.toolbox.limits,
            runner: &stage.runner,
            text_tools: false,
            media: setup.asked.client.facts_of_images(),
            traced: &Context::NONE,
        }
    }

    /// Returns the text of the first message, which is not sent.
    async fn shown(&self, prompt: Option<String>) -> Result<String, Failure> {
        let judge = self.setup.judge(self.stage);
        let message = self.first_message(&judge, &self.tool_context(), None, prompt).await?;
        let texts = message.into_iter().filter_map(|part| match part {
            Part::Text(text) => Some(text),
            Part::Media { .. } => None,
        });
        Ok(texts.collect())
    }

    /// Runs the failing command that the task names; the message then begins with its output.
    async fn failing_check(
        &self,
        task: &str,
        judge: &RunPolicyCheck<'_>,
        environment: &CheckEnvironment<'_>,
        message: &mut Vec<Part>,
    ) -> Option<FailingCheck> {
        if !self.setup.toolbox.registry.has(ToolId::RunShellCommand) {
            return None;
        }
        let (check, text) = FailingCheck::find(task, judge, environment).await?;
        let text = self.setup.masking.without_secrets(text);
        match message.first_mut() {
            Some(Part::Text(first)) => first.insert_str(0, &text),
            Some(Part::Media { .. }) | None => message.insert(0, Part::Text(text)),
        }
        Some(check)
    }

    /// Returns the first message, without secrets.
    async fn first_message(
        &self,
        judge: &RunPolicyCheck<'_>,
        context: &ToolContext<'_>,
        hooks: Option<&Hooks>,
        prompt: Option<String>,
    ) -> Result<Vec<Part>, Failure> {
        let (mut message, events) = self.setup.message(judge, context, &self.stage.servers, prompt).await?;
        events.into_iter().for_each(|event| self.emit(event));
        if let Some(hooks) = hooks {
            let said = hooks.session_start(self.session.resumed).await?;
            hooks.warnings().into_iter().for_each(|event| self.emit(event));
            if !said.is_empty() {
                message.insert(0, Part::Text(format!("{said}\n\n")));
            }
        }
        Ok(self.setup.masked(message, &|event| self.emit(event)))
    }

    /// Lets the model answer until the answer has its form, the hooks are content, and the checks pass.
    async fn rounds(
        &self,
        agent: &mut Agent<'_>,
        hooks: Option<&Hooks>,
        question: &Question<'_>,
        mut named: Option<FailingCheck>,
    ) -> Result<Answer, Failure> {
        let Conversation { setup, stage, .. } = self;
        let Question { verification, check_environment, .. } = question;
        let (mut attempt, mut repairs, mut last_failure) = (1, setup.wanted.repairs, None);
        loop {
            let text = match agent.converse().await {
                Ending::Answer(text) => text,
                // A wrong answer counts, whether given by the tool or as text.
                Ending::Misfit(problem) if repairs == 0 => return Err(answers::unfit(&problem).into()),
                Ending::Misfit(_) => {
                    repairs -= 1;
                    continue;
                }
                Ending::Stopped(stopped) => return self.stopped(stopped, hooks, question),
            };
            if let Some(more) = self.more(hooks).await {
                agent.say(format!("A hook of the user's wants more before the end: {more}"));
                continue;
            }
            if let Some(check) = &mut named
                && let Some(text) = check.remind(check_environment).await
            {
                agent.say(text);
                continue;
            }
            let by_tool = setup.toolbox.memory.answer.lock().expect("nothing panics while it holds the answer").take();
            let taken = match setup.wanted.take(by_tool, &text) {
                Ok(taken) => taken,
                Err(problem) if repairs == 0 => return Err(answers::unfit(&problem).into()),
                Err(problem) => {
                    agent.send_back(answers::sent_back(&problem, repairs));
                    repairs -= 1;
                    continue;
                }
            };
            let Some(failed) = verification.judge(check_environment, attempt, &|event| self.emit(event)).await else {
                agent.warn_of_fault();
                return Ok(self.passed(text, taken, agent.account().denials().clone(), question));
            };
            let fingerprint = crate::verify::fingerprint(&failed, &stage.workspace.changes());
            let same = verification.stop_if_same && last_failure == Some(fingerprint);
            if attempt >= verification.attempts || same {
                return Err(outcome::verify_failed(&failed, (attempt, verification.attempts), same).into());
            }
            last_failure = Some(fingerprint);
            attempt += 1;
            let root = stage.runner.seen_root();
            agent.say(crate::verify::feedback(&failed, &root, verification.attempts - attempt + 1));
        }
    }

    /// Returns what the hooks want before the end.
    async fn more(&self, hooks: Option<&Hooks>) -> Option<String> {
        let more = hooks?.stop().await;
        hooks?.warnings().into_iter().for_each(|event| self.emit(event));
        more.map(|more| self.setup.masking.without_secrets(more))
    }

    /// Keeps an answer that passed.
    fn passed(&self, text: String, taken: ParsedAnswer, denials: Denials, question: &Question<'_>) -> Answer {
        let changed_nothing = || denials.number == 0 && self.stage.workspace.changes().is_empty();
        if let Some(kept) = question.kept.as_ref().filter(|_| changed_nothing()) {
            kept.keep(&self.setup.masking.without_secrets(text.clone()), taken.structured.as_ref());
        }
        Answer { text, taken, denials, ..Answer::default() }
    }

    /// Ends a conversation that was stopped: without a provider, an old answer is better than none.
    fn stopped(&self, stopped: Stopped, hooks: Option<&Hooks>, question: &Question<'_>) -> Result<Answer, Failure> {
        hooks.iter().flat_map(|hooks| hooks.warnings()).for_each(|event| self.emit(event));
        let kept = question.kept.as_ref().filter(|_| stopped.exit == Exit::Unavailable);
        match kept.and_then(Kept::of_any_age).and_then(|kept| self.cached(kept)) {
            Some(answer) => {
                let message = "the provider is unavailable: the cached answer is used".to_owned();
                self.emit(Event::Warning { message });
                Ok(answer)
            }
            None => Err(stopped.into()),
        }
    }
}

/// Returns the task if it asks for an answer in words.
fn question_of(task: &str, setup: &Setup) -> Option<Arc<str>> {
    let in_words = !setup.toolbox.registry.has(ToolId::StructuredOutput);
    (in_words && asks(task)).then(|| Arc::from(task.trim()))
}
