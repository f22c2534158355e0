//! Holds everything that a run needs before its first request, from flags, environment and files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::agent::OnDeny;
use crate::cli::prompt::Prompt;
use crate::cli::run::FromHook;
use crate::event::{Event, Limits, PolicyFacts, RunStarted};
use crate::exit::Exit;
use crate::model::{Part, ToolSpec};
use crate::path::RelPath;
use crate::policy::Facts;
use crate::policy::GitFacts;
use crate::policy::Policy;
use crate::policy::redact::Secrets;
use crate::recipe::file::{Before, GitWishes, Offline, OnExhausted};
use crate::tool_name::ToolId;
use crate::tools::mcp::Servers;
use crate::tools::task::AgentFile;
use crate::tools::{RunMemory, ToolContext, ToolLimits, Toolbox};

use super::Failure;
use super::answer_cache::{self, Kept};
use super::answers::Wanted;
use super::checks::{self, Bench, Check, Place, Verification};
use super::error::RecipeError;
use super::gather::Gatherer;
use super::hooks::Hooks;
use super::judge::RunJudge;
use super::model::Chosen;
use super::outcome::{self, Stage};
use super::recipe::Active;
use super::session::RunSession;
use super::slash_command::Commands;
use super::task::Task;
use super::trust::Trusted;

/// Everything that the conversation and the delivery need.
pub struct Setup {
    /// The run's id.
    pub run_id: String,
    /// When it started, for records.
    pub time: String,
    /// When it started, for limits.
    pub started_at: Instant,
    /// The rules.
    pub policy: Policy,
    /// The policy's name and digest.
    pub policy_facts: PolicyFacts,
    /// The mode, as results name it.
    pub permission_mode: &'static str,
    /// What a denial does.
    pub on_deny: OnDeny,
    /// The effective limits.
    pub limits: Limits,
    /// The model.
    pub client: Chosen,
    /// The tools.
    pub registry: Toolbox,
    /// The agents that tasks can be given to.
    pub agents: Vec<AgentFile>,
    /// The tools that the model sees.
    pub offered: Arc<[ToolSpec]>,
    /// Whether a request of its own reads each fetched page (`tools.webFetch.summarize`).
    pub reads_pages: bool,
    /// What tools remember.
    pub memory: RunMemory,
    /// Limits on tools.
    pub tool_limits: ToolLimits,
    /// Secrets, to be masked and kept out of changes.
    pub secrets: Arc<Secrets>,
    /// Masks secrets in what the model reads.
    pub redact: Box<dyn Fn(String) -> (String, u64) + Send + Sync>,
    /// Maximum tokens of one answer.
    pub max_output_tokens: Option<u64>,
    /// Whether changes were asked for.
    pub changes_expected: bool,
    /// `--require-changes`.
    pub require_changes: bool,
    /// `--max-changed-files`.
    pub max_changed_files: Option<u64>,
    /// `--max-patch-bytes`.
    pub max_patch_bytes: Option<u64>,
    /// Attempts of the model under `--verify`.
    pub verify_attempts: u32,
    /// Default timeout of a check.
    pub check_timeout: Duration,
    /// `--message`.
    pub message: Option<String>,
    /// `--sign`.
    pub sign: bool,
    /// Where undo records go; `None` under `--no-undo`.
    pub undo_folder: Option<PathBuf>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// The recipe.
    pub recipe: Option<Active>,
    /// What the answer must look like.
    pub wanted: Wanted,
    /// Where answers of this recipe are kept.
    pub(super) outer: Policy,
    /// Which files of the checkout are trusted.
    pub trusted: Trusted,
    pub(super) prompt: Prompt,
    pub(super) files: Vec<String>,
    pub(super) strict: bool,
    pub(super) verify: Vec<String>,
    pub(super) system: String,
    pub(super) home: String,
    pub(super) included: Vec<PathBuf>,
    pub(super) mcp_servers: Vec<serde_json::Value>,
    pub(super) isolation_off: bool,
    pub(super) cwd: PathBuf,
    pub(super) git: GitFacts,
    pub(super) replay: Option<String>,
    pub(super) commands: Commands,
    pub(super) images: Vec<Part>,
    pub(super) hooks: Hooks,
    pub(super) from_hook: Option<FromHook>,
    pub(super) answers: Option<answer_cache::Folder>,
}

impl Setup {
    /// Returns the facts that decisions rest on.
    pub fn facts(&self, stage: &Stage) -> Facts {
        let (home, included) = (self.home.clone(), self.included.clone());
        outcome::facts(&stage.workspace, home, stage.runner.outputs(), included, self.git.clone())
    }

    /// Returns the judge of the run's calls.
    pub fn judge(&self, stage: &Stage) -> RunJudge<'_> {
        self.judge_of(&self.policy, stage)
    }

    /// Returns the judge of a recipe's commands: the policy without the recipe's needs.
    pub fn outer_judge(&self, stage: &Stage) -> RunJudge<'_> {
        self.judge_of(&self.outer, stage)
    }

    fn judge_of<'a>(&'a self, policy: &'a Policy, stage: &Stage) -> RunJudge<'a> {
        let of_recipe = self.recipe.as_ref().is_some_and(|active| {
            !active.recipe.checks().is_empty() || active.recipe.context().iter().any(|context| context.run.is_some())
        });
        let needs_tier = self.registry.has(ToolId::RunShellCommand) || !self.verify.is_empty() || of_recipe;
        RunJudge {
            policy,
            facts: self.facts(stage),
            tier: if needs_tier { stage.runner.tier() } else { crate::sandbox::Tier::T0 },
            isolation_off: self.isolation_off,
            digest: self.policy_facts.sha256.clone(),
        }
    }

    /// Returns guards and checks: the recipe's, then those of `--verify`.
    pub fn verification(&self, judge: &RunJudge<'_>) -> Result<Verification, Failure> {
        let mut verification = Verification {
            guards: crate::verify::guards::Guards::default(),
            checks: Vec::new(),
            attempts: self.verify_attempts,
            stop_if_same: true,
        };
        if let Some(active) = &self.recipe {
            let file = &active.recipe.file;
            verification.guards = crate::verify::guards::Guards::new(file.guards.as_ref(), active.recipe.needs());
            if let Some(verify) = &file.verify {
                verification.stop_if_same = verify.stop_if_same.unwrap_or(true);
            }
            let renderer = active.renderer(&[]);
            for check in active.recipe.checks() {
                let name = &check.name.value;
                let templates: Vec<&str> = check.run.iter().map(|text| text.as_str()).collect();
                let words = renderer.words(&templates).map_err(|problem| {
                    Failure::new(
                        Exit::Input,
                        format!("verify.checks.{name}: {}", problem.message),
                        problem.help.unwrap_or_else(|| "correct the parameter".to_owned()),
                    )
                })?;
                let cwd = check.cwd.as_ref().map(|cwd| active.text(cwd)).transpose()?;
                let what = format!("verify.checks.{name}");
                let variables = checks::variables(check.env.as_ref(), active, judge.policy, &what)?;
                let made = Check::of_recipe(check, &words, cwd.as_deref(), judge);
                let made = made.map_err(|denial| active.not_run(&check.name.place, &what, &words, denial))?;
                verification.checks.push(made.with(variables));
            }
        }
        verification.checks.extend(self.checks(judge)?);
        Ok(verification)
    }

    /// Returns the environment in which checks run.
    pub fn bench<'a>(&self, stage: &'a Stage) -> Bench<'a> {
        Bench {
            runner: &stage.runner,
            base: stage.base.as_ref(),
            place: Place { workspace: &stage.workspace, repository: stage.repository.as_ref() },
            timeout: self.check_timeout,
        }
    }

    /// Returns what gathers the recipe's inputs.
    pub fn gatherer<'a>(&'a self, active: &'a Active, stage: &'a Stage, judge: &'a RunJudge<'a>) -> Gatherer<'a> {
        Gatherer {
            active,
            workspace: &stage.workspace,
            repository: stage.repository.as_ref(),
            runner: &stage.runner,
            policy: &self.outer,
            judge,
            facts: &judge.facts,
            redact: &*self.redact,
            from_hook: self.from_hook.as_ref(),
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

    /// Returns the cache entry for this prompt; `None` if the recipe keeps none.
    pub fn kept_answer(&self, prompt: &str) -> Option<Kept> {
        let (active, folder) = (self.recipe.as_ref()?, self.answers.as_ref()?);
        let system = self.system_prompt();
        let schema = self.wanted.schema.as_ref().map(ToString::to_string).unwrap_or_default();
        let (recipe, policy) = (&active.recipe.facts().sha256, &self.policy_facts.sha256);
        let of_prompt: &[&str] = &[recipe, policy, &self.client.name, &schema, &system, prompt];
        folder.kept(&active.recipe.file, self.from_hook.is_some(), of_prompt)
    }

    /// Returns what would be sent, if the run is only to show that.
    pub fn shown_instead(&self, prompt: Option<&str>) -> Option<String> {
        self.from_hook.as_ref().filter(|hook| hook.shows_request)?;
        let prompt = self.without_secrets(prompt.unwrap_or_default().to_owned());
        Some(format!("model: {}\n\n[system]\n{}\n\n[user]\n{prompt}", self.client.name, self.system_prompt()))
    }

    /// Tells whether a run without a provider ends with 0. Hooks decide this themselves.
    pub fn skips_offline(&self) -> bool {
        self.from_hook.is_none()
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

    /// Returns the recipe's own trailers.
    pub fn trailers(&self) -> Result<Vec<(String, String)>, Failure> {
        let (Some(active), Some(git)) = (&self.recipe, self.git_wishes()) else { return Ok(Vec::new()) };
        git.trailers.into_iter().flatten().map(|(name, text)| Ok((name, active.text(&text)?))).collect()
    }

    /// Returns a file's staged text, if it may be read; the path is relative to the repository.
    pub fn readable(&self, stage: &Stage, path: &str) -> Option<String> {
        let prefix = stage.repository.as_ref().map(|repository| repository.prefix.clone()).unwrap_or(RelPath::root());
        let path = RelPath::below(prefix.as_path(), Path::new(path)).or_else(|| RelPath::new(path))?;
        self.outer.may_read(&path, &self.facts(stage)).ok()?;
        if let (Some(hook), Some(repository)) = (&self.from_hook, &stage.repository) {
            return super::from_hook::text_of(hook, repository, &path);
        }
        let entry = stage.workspace.entry(&path).ok()?;
        entry.content().map(|content| String::from_utf8_lossy(content).into_owned())
    }

    /// Returns the first message and events to show: the recipe's prompt unchanged, else what was typed and what it
    /// names.
    pub async fn message(
        &self,
        judge: &RunJudge<'_>,
        context: &ToolContext<'_>,
        servers: &Servers,
        prompt: Option<String>,
    ) -> Result<(Vec<Part>, Vec<Event>), Failure> {
        let Some(text) = prompt else { return self.task(judge, context, servers, &self.prompt).message().await };
        // A recipe that does not ask for reading does not see the names of the project's files either.
        if !self.registry.has(ToolId::ReadFile) {
            let mut parts = vec![Part::Text(text)];
            parts.extend(self.images.iter().cloned());
            return Ok((parts, Vec::new()));
        }
        let prompt = Prompt { read: Some(text), typed: Vec::new() };
        self.task(judge, context, servers, &prompt).message().await
    }

    /// Parses the commands of `--verify`.
    pub fn checks(&self, judge: &RunJudge<'_>) -> Result<Vec<Check>, Failure> {
        let parse = |command: &String| {
            Check::parse(command, &self.policy, judge).map_err(|denial| {
                Failure::new(
                    Exit::Usage,
                    format!("--verify '{command}': {}", denial.reason),
                    denial.hint.unwrap_or_else(|| "write a simpler command, or put it into a script".into()),
                )
            })
        };
        self.verify.iter().map(parse).collect()
    }

    /// Returns the first event.
    pub fn started(&self, stage: &Stage) -> RunStarted {
        RunStarted {
            run_id: self.run_id.clone(),
            session_id: self.run_id.clone(),
            cwd: stage.workspace.root().display().to_string(),
            model: self.client.name.clone(),
            tools: self.offered.iter().map(|spec| spec.name.clone()).collect(),
            mcp_servers: self.mcp_servers.clone(),
            permission_mode: self.permission_mode.into(),
            policy: self.policy_facts.clone(),
            changes_mode: stage.mode.name().into(),
            sandbox: match stage.runner.confinement() {
                Ok(confinement) => confinement.describe(),
                Err(error) => format!("not isolated ({error})"),
            },
            limits: self.limits.clone(),
            git_head: stage.repository.as_ref().and_then(|repository| repository.head.clone()),
            git_dirty: false,
            recipe: self.recipe.as_ref().map(|active| active.recipe.facts()),
            replay: self.replay.clone(),
            rules: self.wanted.rules(),
            slash_commands: self.commands.names(),
            agents: self.agents.iter().map(|agent| agent.name.clone()).collect(),
        }
    }

    /// Returns the builder of the first message.
    pub fn task<'a>(
        &'a self,
        judge: &'a RunJudge<'a>,
        context: &'a ToolContext<'a>,
        servers: &'a Servers,
        prompt: &'a Prompt,
    ) -> Task<'a> {
        Task {
            prompt,
            files: &self.files,
            registry: &self.registry,
            judge,
            context,
            servers,
            strict: self.strict,
            commands: &self.commands,
            images: &self.images,
            hooks: self.hooks.begin(&self.run_id, self.permission_mode),
        }
    }

    /// Returns the hooks with the session's facts; `None` if there are none.
    pub fn hooks(&self, session: &RunSession) -> Option<Hooks> {
        self.hooks.begin(&session.id, self.permission_mode)
    }

    /// Returns the system prompt, without secrets.
    pub fn system_prompt(&self) -> String {
        self.without_secrets(self.system.clone())
    }

    /// Masks secrets in a text; existing placeholders are not altered.
    pub fn without_secrets(&self, text: String) -> String {
        if self.policy.redacts() { self.secrets.hide(&text).into_owned() } else { text }
    }

    /// Masks the secrets of the first message, as it may show files. A recipe's inputs were masked when they were
    /// gathered.
    pub fn masked(&self, message: Vec<Part>, emit: &dyn Fn(Event)) -> Vec<Part> {
        let mut places = 0;
        let parts = message.into_iter().map(|part| match part {
            Part::Text(text) => {
                let (text, count) = match &self.recipe {
                    Some(_) if self.policy.redacts() => {
                        let (masked, count) = self.secrets.mask_rest(&text);
                        (masked.into_owned(), count)
                    }
                    Some(_) | None => (self.redact)(text),
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
