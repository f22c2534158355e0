//! Holds everything that a run needs before its first request, from flags, environment and files.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::asked::Asked;
use super::delivery::DeliverySpec;
use super::input::Input;
use super::item::Rules;
use super::toolbox::RunTools;
use crate::base::trace::Trace;
use crate::bounded;
use crate::cli::RunArgs;
use crate::cli::prompt::{Prompt, PromptPart};
use crate::event::{Event, Named, ReportFacts, RunStarted};
use crate::model::{Part, ToolSpec};
use crate::path::RelPath;
use crate::policy::Facts;
use crate::policy::Policy;
use crate::prompt::first_message::SHORT_TASK_BYTES;
use crate::recipe::file::{Before, GitWishes, Offline, OnExhausted};
use crate::recipe::render::TemplateProblem;
use crate::run::conversation::hooks::Hooks;
use crate::run::conversation::session::RunSession;
use crate::run::error::{Failure, RecipeError, VerifyError};
use crate::run::finish::stage::Stage;
use crate::run::output::masking::Masking;
use crate::run::prompt::included::Reader;
use crate::run::prompt::task::Task;
use crate::run::recipe::Active;
use crate::run::recipe::answer_cache::{self, Kept};
use crate::run::recipe::answers::AnswerSpec;
use crate::run::recipe::checks::{self, Check, CheckEnvironment, Place};
use crate::run::recipe::finishing::{Finishing, Step};
use crate::run::recipe::from_hook;
use crate::run::recipe::gather::{Gatherer, Start};
use crate::run::recipe::verification::Verification;
use crate::run::rules::judge::RunPolicyCheck;
use crate::tool_name::ToolId;
use crate::tools::ToolContext;
use crate::tools::mcp::Servers;

/// Default timeout of a check.
pub const CHECK_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// Maximum characters of a title.
const TITLE: usize = 120;

/// Everything that the conversation and the delivery need: the constant part of a run.
pub struct Setup {
    /// The run itself.
    pub run: RunFacts,
    /// The rules.
    pub rules: Rules,
    /// The model.
    pub asked: Asked,
    /// The tools.
    pub toolbox: RunTools,
    /// The secrets.
    pub masking: Masking,
    /// What is delivered.
    pub delivery: DeliverySpec,
    /// The operator's checks.
    pub checks: CheckSpec,
    /// The recipe.
    pub recipe: Option<Active>,
    /// What the answer must look like.
    pub wanted: AnswerSpec,
    /// What the model is shown.
    pub input: Input,
    /// Where answers of this recipe are kept.
    pub answers: Option<answer_cache::Folder>,
}

/// What identifies this run.
pub struct RunFacts {
    /// Its id.
    pub id: String,
    /// When it started, for records.
    pub time: String,
    /// When it started, for limits.
    pub started_at: Instant,
    /// The cassette that it replays.
    pub replay: Option<String>,
    /// Whether tracked files differ from HEAD; `None` if unknown.
    pub dirty: Option<bool>,
    /// The trace that it is reported in.
    pub trace: Option<Arc<Trace>>,
    /// The address of the CI run that it is a part of.
    pub ci_run: Option<String>,
}

/// The operator's checks.
pub struct CheckSpec {
    /// `--verify`.
    pub commands: Vec<String>,
    /// Attempts of the model.
    pub attempts: u32,
    /// Default timeout of a check.
    pub timeout: Duration,
}

impl CheckSpec {
    /// Combines the flags and the recipe.
    pub fn of(arguments: &RunArgs, recipe: Option<&Active>) -> CheckSpec {
        let of_recipe = recipe.and_then(|active| active.recipe.file.verify.as_ref()?.attempts);
        let attempts = arguments.changes.checks.verify_attempts.or(of_recipe).unwrap_or(crate::verify::ATTEMPTS);
        CheckSpec {
            commands: arguments.changes.checks.verify.clone(),
            attempts: attempts.max(1),
            timeout: CHECK_TIMEOUT,
        }
    }
}

impl Setup {
    /// Returns the facts that the policy decides on.
    pub fn facts(&self, stage: &Stage) -> Facts {
        self.rules.facts(&stage.workspace, stage.runner.outputs())
    }

    /// Returns the policy check of the model's calls.
    pub fn judge(&self, stage: &Stage) -> RunPolicyCheck<'_> {
        self.judge_of(&self.rules.policy, stage)
    }

    /// Returns the policy check of a recipe's own commands: the policy without the recipe's `needs`.
    pub fn outer_judge(&self, stage: &Stage) -> RunPolicyCheck<'_> {
        self.judge_of(&self.rules.outer, stage)
    }

    fn judge_of<'a>(&'a self, policy: &'a Policy, stage: &Stage) -> RunPolicyCheck<'a> {
        let of_recipe = self.recipe.as_ref().is_some_and(|active| !active.recipe.file.commands().is_empty());
        let needs_tier =
            self.toolbox.registry.has(ToolId::RunShellCommand) || !self.checks.commands.is_empty() || of_recipe;
        RunPolicyCheck {
            policy,
            facts: self.facts(stage),
            tier: if needs_tier { stage.runner.tier() } else { crate::sandbox::Tier::T0 },
            only_isolated: self.rules.only_isolated,
            isolation_off: self.rules.isolation_off,
            digest: self.rules.named.sha256.clone(),
        }
    }

    /// Returns guards and checks: the recipe's, then those of `--verify`.
    pub fn verification(&self, judge: &RunPolicyCheck<'_>) -> Result<Verification, Failure> {
        let mut verification = Verification {
            finishing: Finishing::default(),
            guards: crate::verify::guards::Guards::default(),
            checks: Vec::new(),
            attempts: self.checks.attempts,
            stop_if_same: true,
        };
        if let Some(active) = &self.recipe {
            let file = &active.recipe.file;
            verification.guards = crate::verify::guards::Guards::new(file.guards.as_ref(), active.recipe.needs());
            if let Some(verify) = &file.verify {
                verification.stop_if_same = verify.stop_if_same.unwrap_or(true);
            }
            verification.finishing.steps = finishing(active, judge)?;
            verification.checks = recipe_checks(active, judge)?;
        }
        verification.checks.extend(self.operator_checks(judge)?);
        Ok(verification)
    }

    /// Returns the environment in which checks run.
    pub fn check_environment<'a>(&'a self, stage: &'a Stage) -> CheckEnvironment<'a> {
        CheckEnvironment {
            runner: &stage.runner,
            base: stage.base.as_ref(),
            place: Place { workspace: &stage.workspace, repository: stage.repository.as_ref() },
            timeout: self.checks.timeout,
            trace: self.run.trace.as_deref(),
        }
    }

    /// Returns what gathers the recipe's inputs.
    pub fn gatherer<'a>(
        &'a self,
        active: &'a Active,
        stage: &'a Stage,
        judge: &'a RunPolicyCheck<'a>,
        warn: &'a (dyn Fn(String) + Sync),
    ) -> Gatherer<'a> {
        Gatherer {
            active,
            workspace: &stage.workspace,
            repository: stage.repository.as_ref(),
            runner: &stage.runner,
            policy: &self.rules.outer,
            judge,
            facts: &judge.facts,
            secrets: &self.masking.secrets,
            redact: &*self.masking.mask,
            start: Start {
                environment: &self.input.environment,
                from_hook: self.input.from_hook.as_ref(),
                from_job: &self.input.from_job,
            },
            may_split: self.wanted.merges,
            warn,
        }
    }

    /// Returns what the checks must report before the model begins.
    pub fn before(&self) -> Before {
        let verify = self.recipe.as_ref().and_then(|active| active.recipe.file.verify.as_ref());
        verify.and_then(|verify| verify.before).unwrap_or_default()
    }

    /// Tells whether a change that finally fails is dropped.
    pub fn discards(&self) -> bool {
        let verify = self.recipe.as_ref().and_then(|active| active.recipe.file.verify.as_ref());
        verify.is_some_and(|verify| verify.on_exhausted == Some(OnExhausted::Discard))
    }

    /// Returns the cache entry for this prompt; `None` if the recipe keeps none, and if the answer may depend on more
    /// than the prompt: on what tools return, or on pictures. A hook asks once about the same commits: tools that read files
    /// find the same ones.
    pub fn kept_answer(&self, prompt: &str, stage: &Stage) -> Option<Kept> {
        let (active, folder) = (self.recipe.as_ref()?, self.answers.as_ref()?);
        let offered = || self.toolbox.offered.iter().map(|tool| ToolId::named(&tool.name));
        let files = match self.input.from_hook.is_some() {
            _ if offered().all(|id| id.is_some_and(ToolId::adds_nothing)) => String::new(),
            true if offered().all(|id| id.is_some_and(ToolId::only_reads)) => {
                stage.repository.as_ref()?.work_tree_digest()?
            }
            true | false => return None,
        };
        if !self.input.images.is_empty() {
            return None;
        }
        let system = self.system_prompt();
        let schema = self.wanted.schema.as_ref().map(ToString::to_string).unwrap_or_default();
        let (recipe, policy) = (&active.recipe.facts().sha256, &self.rules.named.sha256);
        let model = &self.asked.client;
        let of_prompt: &[&str] = &[recipe, policy, &model.name, &model.server, &schema, &system, &files, prompt];
        folder.kept(&active.recipe.file, self.input.from_hook.is_some(), of_prompt)
    }

    /// Returns what would be sent, if the run is only to show that.
    pub fn shown_instead(&self, prompt: Option<&str>) -> Option<String> {
        self.input.from_hook.as_ref().filter(|hook| hook.shows_request)?;
        let prompt = self.masking.without_secrets(prompt.unwrap_or_default().to_owned());
        Some(format!("model: {}\n\n[system]\n{}\n\n[user]\n{prompt}", self.asked.client.name, self.system_prompt()))
    }

    /// Tells whether a run without a provider ends with 0. Hooks decide this themselves.
    pub fn skips_offline(&self) -> bool {
        self.input.from_hook.is_none()
            && self.recipe.as_ref().is_some_and(|active| active.recipe.file.offline == Some(Offline::Skip))
    }

    /// Returns the recipe's delivery options.
    pub fn git_wishes(&self) -> Option<GitWishes> {
        self.recipe.as_ref().and_then(|active| active.recipe.file.git.clone())
    }

    /// Returns the first line of the commit message from the recipe.
    pub fn subject(&self) -> Result<Option<String>, RecipeError> {
        let (Some(active), Some(git)) = (&self.recipe, self.git_wishes()) else { return Ok(None) };
        git.subject.map(|subject| active.text(&subject)).transpose()
    }

    /// Returns the issue that the change closes.
    pub fn closes(&self) -> Option<u64> {
        let name = self.git_wishes()?.closes?;
        self.recipe.as_ref()?.bound.get(name.as_str())?.as_u64().filter(|number| *number > 0)
    }

    /// Returns the recipe's own trailers.
    pub fn trailers(&self) -> Result<Vec<(String, String)>, Failure> {
        let (Some(active), Some(git)) = (&self.recipe, self.git_wishes()) else { return Ok(Vec::new()) };
        git.trailers.into_iter().flatten().map(|(name, text)| Ok((name, active.text(&text)?))).collect()
    }

    /// Returns a file's staged text, if it may be read; the path is relative to the repository.
    pub fn readable(&self, stage: &Stage, right: Option<&str>, path: &str) -> Option<String> {
        let path = RelPath::new(path)?;
        self.rules.outer.may_read(&path, &self.facts(stage)).ok()?;
        if let (Some(hook), Some(repository)) = (&self.input.from_hook, &stage.repository) {
            return from_hook::text_of(hook, repository, &path);
        }
        if let (Some(right), Some(repository)) = (right, &stage.repository) {
            return from_hook::text_at(&repository.git(), right, repository, &path);
        }
        let entry = stage.workspace.entry_within(&path, bounded::PRODUCT).ok()?;
        entry.content().map(|content| String::from_utf8_lossy(content).into_owned())
    }

    /// Returns the first message and events to show: the recipe's prompt unchanged, else what was typed and what it
    /// names.
    pub async fn message(
        &self,
        judge: &RunPolicyCheck<'_>,
        context: &ToolContext<'_>,
        servers: &Servers,
        prompt: Option<String>,
    ) -> Result<(Vec<Part>, Vec<Event>), Failure> {
        let Some(text) = prompt else { return self.task(judge, context, servers, &self.input.prompt).message().await };
        // A recipe that does not ask for reading does not see the names of the project's files either.
        if !self.toolbox.registry.has(ToolId::ReadFile) {
            let mut parts = vec![Part::Text(text)];
            parts.extend(self.input.images.iter().cloned());
            return Ok((parts, Vec::new()));
        }
        // To a small model the few words of a trusted recipe are explained as if they were typed.
        let is_own = self.recipe.as_ref().is_some_and(|active| !active.has_untrusted_text())
            && text.len() <= SHORT_TASK_BYTES
            && !text.starts_with('/')
            && self.asked.client.as_model().text_tools();
        let prompt = match is_own {
            true => Prompt { read: None, typed: vec![PromptPart::Text(text)] },
            false => Prompt { read: Some(text), typed: Vec::new() },
        };
        self.task(judge, context, servers, &prompt).message().await
    }

    /// Parses the commands of `--verify`.
    fn operator_checks(&self, judge: &RunPolicyCheck<'_>) -> Result<Vec<Check>, VerifyError> {
        let parse = |command: &String| {
            Check::parse(command, &self.rules.policy, judge).map_err(|denial| {
                let (command, reason, hint) = (command.clone(), denial.reason, denial.hint);
                VerifyError::Flag { command, reason, hint }
            })
        };
        self.checks.commands.iter().map(parse).collect()
    }

    /// Returns the first event.
    pub fn started(&self, stage: &Stage) -> RunStarted {
        RunStarted {
            run_id: self.run.id.clone(),
            session_id: self.run.id.clone(),
            cwd: stage.workspace.root().display().to_string(),
            model: self.asked.client.name.clone(),
            tools: self.toolbox.offered.iter().map(|spec| spec.name.clone()).collect(),
            mcp_servers: self.toolbox.listed_servers.clone(),
            permission_mode: self.rules.permission_mode.into(),
            policy: self.rules.named.clone(),
            changes_mode: stage.mode.name().into(),
            sandbox: match stage.runner.confinement() {
                Ok(confinement) => confinement.describe(),
                Err(error) => format!("not isolated ({error})"),
            },
            limits: self.asked.limits.clone(),
            git_head: stage.repository.as_ref().and_then(|repository| repository.head.clone()),
            git_branch: stage.repository.as_ref().and_then(|repository| repository.branch.clone()),
            git_dirty: self.run.dirty,
            recipe: self.recipe.as_ref().map(|active| active.recipe.facts()),
            report: self.run.trace.as_ref().map(|trace| ReportFacts {
                trace_id: trace.id_text(),
                provider: self.asked.client.provider().map(str::to_owned),
                ci_run: self.run.ci_run.clone(),
            }),
            replay: self.run.replay.clone(),
            rules: self.wanted.rules(),
            named: Named {
                slash_commands: self.input.commands.names(),
                agents: self.toolbox.agents.iter().map(|agent| agent.name.clone()).collect(),
            },
            title: self.title(),
        }
    }

    /// Returns what the run is about: the recipe's description, else the first line of the prompt.
    fn title(&self) -> Option<String> {
        let of_recipe =
            self.recipe.as_ref().and_then(|active| Some(active.recipe.file.description.as_ref()?.value.clone()));
        let typed = || self.input.prompt.typed_text();
        let text = of_recipe.unwrap_or_else(typed);
        let text = if text.trim().is_empty() { self.input.prompt.read.clone().unwrap_or_default() } else { text };
        let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
        Some(line.chars().take(TITLE).collect())
    }

    /// Returns the builder of the first message.
    pub fn task<'a>(
        &'a self,
        judge: &'a RunPolicyCheck<'a>,
        context: &'a ToolContext<'a>,
        servers: &'a Servers,
        prompt: &'a Prompt,
    ) -> Task<'a> {
        Task {
            prompt,
            files: &self.input.files,
            strict: self.input.strict,
            commands: &self.input.commands,
            images: &self.input.images,
            text_tools: self.asked.client.as_model().text_tools(),
            reader: Reader {
                registry: &self.toolbox.registry,
                judge,
                context,
                servers,
                hooks: self.input.hooks.begin(&self.run.id, self.rules.permission_mode),
            },
        }
    }

    /// Returns the hooks with the session's facts; `None` if there are none.
    pub fn hooks(&self, session: &RunSession) -> Option<Hooks> {
        let hooks = self.input.hooks.begin(&session.id, self.rules.permission_mode)?;
        Some(hooks.tracing(self.run.trace.as_deref()))
    }

    /// Returns the tools that the model sees, without secrets.
    pub fn offered(&self) -> Arc<[ToolSpec]> {
        let mask = |text: String| self.masking.without_secrets(text);
        self.toolbox.offered.iter().filter_map(|spec| spec.masked(&mask)).collect()
    }

    /// Returns the system prompt, without secrets.
    pub fn system_prompt(&self) -> String {
        self.masking.without_secrets(self.input.system.clone())
    }

    /// Masks the secrets of the first message, as it may show files. A recipe's inputs were masked when they were
    /// gathered.
    pub fn masked(&self, message: Vec<Part>, emit: &dyn Fn(Event)) -> Vec<Part> {
        let mut places = 0;
        let parts = message.into_iter().map(|part| match part {
            Part::Text(text) => {
                let (text, count) = match &self.recipe {
                    Some(_) if self.masking.redacts => {
                        let (masked, count) = self.masking.secrets.mask_rest(&text);
                        (masked.into_owned(), count)
                    }
                    // What is piped in may be a diff.
                    Some(_) | None if self.input.prompt.read.is_some() => self.masking.mask_part(text),
                    Some(_) | None => (self.masking.mask)(text),
                };
                places += count;
                Part::Text(text)
            }
            Part::Media { .. } => part,
        });
        let parts = parts.collect();
        if places > 0 {
            emit(Event::Redaction { count: places });
        }
        parts
    }
}

/// Judges the commands that finish a change. One without words is left out.
fn finishing(active: &Active, judge: &RunPolicyCheck<'_>) -> Result<Vec<Step>, Failure> {
    let renderer = active.renderer(&[]);
    let mut steps = Vec::new();
    for finish in active.recipe.file.finish.iter().flatten() {
        let name = &finish.name.value;
        let words = renderer.command(&finish.run).map_err(|problem| unrendered(name, problem))?;
        if words.is_empty() {
            continue;
        }
        let step = Step::new(finish, &words, judge);
        let what = format!("finish.{name}");
        steps.push(step.map_err(|denial| active.not_run(&finish.name.place, &what, &words, denial))?);
    }
    Ok(steps)
}

/// Judges the checks of a recipe. One without words is left out.
fn recipe_checks(active: &Active, judge: &RunPolicyCheck<'_>) -> Result<Vec<Check>, Failure> {
    let renderer = active.renderer(&[]);
    let mut found = Vec::new();
    for check in active.recipe.checks() {
        let name = &check.name.value;
        let words = renderer.command(&check.run).map_err(|problem| unrendered(name, problem))?;
        if words.is_empty() {
            continue;
        }
        let cwd = check.cwd.as_ref().map(|cwd| active.text(cwd)).transpose()?;
        let what = format!("verify.checks.{name}");
        let variables = checks::variables(check.env.as_ref(), active, judge.policy, &what)?;
        let made = Check::of_recipe(check, &words, cwd.as_deref(), judge);
        let made = made.map_err(|denial| active.not_run(&check.name.place, &what, &words, denial))?;
        found.push(made.with(variables));
    }
    Ok(found)
}

fn unrendered(name: &str, problem: TemplateProblem) -> VerifyError {
    VerifyError::Words { name: name.to_owned(), problem: problem.message, help: problem.help }
}
