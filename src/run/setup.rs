//! Everything that a run needs before its first request, from flags, environment and files.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::agent::OnDeny;
use crate::cli::RunArgs;
use crate::cli::input::{CAP, FIRST_BYTE, read_standard_input};
use crate::cli::prompt::{Prompt, Source};
use crate::cli::run::{ApprovalMode, ChangesMode, FailOn, SandboxMode};
use crate::deliver;
use crate::event::{Event, Limits, PolicyFacts, RunStarted};
use crate::exit::Exit;
use crate::model::{Part, ToolSpec};
use crate::path::RelPath;
use crate::policy::decide::Facts;
use crate::policy::file::{Delivery as PolicyDelivery, LentTree, OnDeny as PolicyOnDeny};
use crate::policy::layers::lowest_of;
use crate::policy::redact::Secrets;
use crate::policy::{Access, Policy, redact};
use crate::prompt::system;
use crate::recipe::file::{Before, GitWishes, Offline, OnExhausted, Severity};
use crate::sandbox::{self, Demand, SandboxError};
use crate::secret::Secret;
use crate::settings::{self, Environment, Settings};
use crate::tools::mcp::Servers;
use crate::tools::structured_output::StructuredOutput;
use crate::tools::task::AgentFile;
use crate::tools::{Registry, RunMemory, ToolContext, ToolLimits};
use crate::workspace::Workspace;
use crate::workspace::drivers::drivers;
use crate::workspace::ignore::Ignored;
use crate::workspace::repository::Repository;
use crate::workspace::untouched::Untouched;

use super::Failure;
use super::answers::{self, Wanted};
use super::checks::{Bench, Check, Place, Verification};
use super::context::{self, ContextSources};
use super::gather::Gatherer;
use super::hooks::Hooks;
use super::images;
use super::judge::RunJudge;
use super::model::Chosen;
use super::outcome::{self, Mode, Stage};
use super::policy_layers::{self, PolicySources};
use super::recipe::{Active, Surroundings};
use super::runner::Runner;
use super::servers;
use super::session::RunSession;
use super::slash_command::Commands;
use super::task::Task;
use super::trust::{self, TrustFlags, Trusted};

/// Limits where nothing else says so (cli.md 2).
const TURNS: u64 = 100;
const TOOL_CALLS: u64 = 500;
const WALL_TIME: Duration = Duration::from_secs(60 * 60);
const DENIALS: u64 = 20;

/// What a check may take.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30 * 60);

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
    /// The mode as results have it.
    pub permission_mode: &'static str,
    /// What a denial does.
    pub on_deny: OnDeny,
    /// Limits in force.
    pub limits: Limits,
    /// The model.
    pub client: Chosen,
    /// The tools.
    pub registry: Registry,
    /// Who tasks can be given to.
    pub agents: Vec<AgentFile>,
    /// The tools that the model sees.
    pub offered: Arc<[ToolSpec]>,
    /// What tools remember.
    pub memory: RunMemory,
    /// Limits on tools.
    pub tool_limits: ToolLimits,
    /// Secrets, to be masked and kept out of changes.
    pub secrets: Arc<Secrets>,
    /// Masks secrets in what the model reads.
    pub redact: Box<dyn Fn(String) -> (String, u64) + Send + Sync>,
    /// The most tokens of one answer.
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
    /// What a check may take.
    pub check_timeout: Duration,
    /// `--message`.
    pub message: Option<String>,
    /// `--sign`.
    pub sign: bool,
    /// Where undo records go; `None` under `--no-undo`.
    pub undo_folder: Option<PathBuf>,
    /// What the owner should know.
    pub warnings: Vec<String>,
    /// The recipe.
    pub recipe: Option<Active>,
    /// What the answer must be.
    pub wanted: Wanted,
    outer: Policy,
    /// Whose files of the checkout count.
    pub trusted: Trusted,
    prompt: Prompt,
    files: Vec<String>,
    strict: bool,
    verify: Vec<String>,
    system: String,
    home: String,
    included: Vec<PathBuf>,
    mcp_servers: Vec<serde_json::Value>,
    isolation_off: bool,
    cwd: PathBuf,
    git_drivers: Vec<String>,
    replay: Option<String>,
    commands: Commands,
    images: Vec<Part>,
    hooks: Hooks,
}

/// A run that may begin.
pub struct Prepared {
    /// What stays as it is.
    pub setup: Setup,
    /// What the run changes.
    pub stage: Stage,
}

/// Reads and checks everything. Nothing is sent, and nothing is written but in the run's own temporary folder.
pub async fn prepare(arguments: &RunArgs, environment: &Environment, id: &str) -> Result<Prepared, Failure> {
    if let [flag, ..] = arguments.unsupported()[..] {
        return Err(Failure::new(
            Exit::Usage,
            format!("{flag} is not built yet, and is not ignored"),
            "leave it out; see `qwen run --help` for what there is",
        ));
    }
    let root = environment.cwd.join(arguments.input.workspace.cd.as_deref().unwrap_or(Path::new(".")));
    let workspace = Workspace::open(&root)
        .map_err(|error| Failure::new(Exit::Usage, format!("the workspace {error}"), "give a folder with -C"))?;
    let workspace = Arc::new(workspace);
    let repository = Repository::discover(workspace.root()).map_err(|error| {
        Failure::new(
            Exit::Conflict,
            format!("the repository cannot be read: {error}"),
            "run `git status` there; it says what is wrong",
        )
    })?;
    let top = repository.as_ref().map_or_else(|| workspace.root().to_path_buf(), |repository| repository.top.clone());

    let flags = TrustFlags {
        trusted_ref: arguments.policy.trusted_ref.clone(),
        trust_checkout: arguments.policy.trust_checkout,
    };
    let state = state_folder(environment).ok();
    let trusted = trust::find(&flags, environment, &top, workspace.root(), repository.is_some(), state.as_deref())?;
    let request = settings::load::Request {
        project_root: top.clone(),
        workspace: workspace.root().to_path_buf(),
        trusted: trusted.checkout,
        trusted_ref: match &trusted.tree {
            Some(_) => trusted.read_text(&top, ".qwen/settings.json")?,
            None => None,
        },
        bare: arguments.context.bare,
    };
    let loaded = settings::load(&request, environment).map_err(|error| {
        Failure::new(Exit::Config, error.to_string(), "correct the file; `qwen doctor` shows what counts")
    })?;
    let (settings, environment, mut warnings) = (loaded.settings, loaded.environment, loaded.warnings);
    if !arguments.context.bare {
        warnings.extend(trusted.left_out(&top));
    }
    let says_no = |key: &Option<settings::Valued<bool>>| key.as_ref().is_some_and(|yes| !yes.value);
    workspace.disregard(Ignored {
        git: says_no(&settings.respect_git_ignore),
        qwen: says_no(&settings.respect_qwen_ignore),
    });

    let time = jiff::Timestamp::now().to_string();
    let surroundings =
        Surroundings { environment: &environment, top: &top, root: workspace.root(), repository: repository.as_ref() };
    let recipe = super::recipe::load(arguments, &surroundings, id, &time).await?;
    let with_wishes = recipe.as_ref().map(|active| with_wishes(arguments, active));
    let arguments = with_wishes.as_ref().unwrap_or(arguments);
    let wishes = servers::Wishes {
        configs: &arguments.context.mcp_config,
        allowed: &arguments.context.allowed_mcp_server_names,
    };
    let mut chosen_servers = servers::choose(&settings, wishes, &environment)?;
    warnings.append(&mut chosen_servers.warnings);

    let mode = approval_mode(arguments, &settings)?;
    let asked = arguments.changes.mode();
    let delivers = matches!(asked, Some(ChangesMode::Apply | ChangesMode::Commit | ChangesMode::Branch(_)));
    if mode == Some(ApprovalMode::Plan) && delivers {
        return Err(Failure::new(
            Exit::Config,
            "the mode `plan` is read-only and a delivery was asked for",
            "leave out --approval-mode plan, or the delivery flag",
        ));
    }
    let named = arguments.policy.policy.clone().or_else(|| environment.value("QWEN_POLICY"));
    let mut lists = ToolLists::of(arguments, &settings);
    lists.allowed.extend(chosen_servers.trusted());
    let chosen = policy_layers::choose(&PolicySources {
        named: named.as_deref(),
        mode: mode.map(builtin_of),
        delivers,
        allowed: &lists.allowed,
        core: &lists.core,
        excluded: &lists.excluded,
        cwd: &environment.cwd,
        top: &top,
        trusted: trusted.checkout,
        trusted_text: match &trusted.tree {
            Some(_) => trusted.read_text(&top, ".qwen/policy.yaml")?,
            None => None,
        },
        machine: Path::new("/etc/qwen/policy.yaml"),
    })?;
    warnings.extend(chosen.warnings.iter().cloned());
    let policy = chosen.policy.clone();
    let delivery = delivery_mode(asked, mode, &policy, recipe.as_ref(), &mut warnings)?;
    let outer = policy.clone();
    let mut policy = policy;
    if let Some(active) = &recipe {
        active.requires(&environment, repository.as_ref())?;
        policy = active.narrow(&policy)?;
        warnings.extend(active.recipe.warnings.iter().map(|warning| format!("{}: {}", warning.code, warning.message)));
    }
    if recipe.as_ref().and_then(|active| active.recipe.needs()).is_some_and(|needs| needs.tools.is_some()) {
        // A recipe that names its tools gets no server's.
        chosen_servers.configs.clear();
    }
    let pins = servers::with_pins(chosen_servers.configs.clone(), &policy, &chosen.folder)?;
    let output = recipe.as_ref().map(|active| active.recipe.output()).unwrap_or_default();
    let json_schema = arguments
        .output
        .json_schema
        .as_deref()
        .map(|given| answers::schema_flag(given, &environment.cwd))
        .transpose()?;
    let wanted = Wanted::new(&output, json_schema, arguments.output.fail_on.map(severity))?;

    if policy.lent_tree() == LentTree::InPlace {
        if let Mode::Branch(_) = delivery {
            return Err(Failure::new(
                Exit::Config,
                "`sandbox.workspace: in-place` leaves changes in the work tree, and --branch leaves it as it is",
                "use --apply or --commit, or `workspace: staged`",
            ));
        }
        warnings.push("`sandbox.workspace: in-place` is not built yet: commands get a staged copy".to_owned());
    }
    let included = included_folders(arguments, &settings, &environment)?;
    let home = environment.home.as_ref().map(|home| home.display().to_string()).unwrap_or_default();
    let demand = demand(arguments, &policy)?;
    let variables: BTreeMap<OsString, OsString> =
        environment.variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
    // The runner's own facts point at its own folder of outputs, which is made with it.
    let git_drivers = repository.as_ref().map(drivers).unwrap_or_default();
    let facts = outcome::facts(&workspace, home.clone(), PathBuf::new(), included.clone(), git_drivers.clone());
    chosen.require_tests(&facts)?;
    let runner = Runner::new(
        Arc::clone(&workspace),
        repository.clone(),
        policy.clone(),
        facts,
        demand,
        variables.clone(),
        sandbox::own_executable(),
    )
    .map_err(no_temporary_folder)?;
    if demand == Demand::Require {
        runner.sandbox().map_err(sandbox_failure)?;
    }
    let on_base = recipe.as_ref().is_some_and(|active| active.recipe.checks().iter().any(|check| check.tree.is_some()));
    let base = if on_base {
        let pristine = Workspace::open(workspace.root())
            .map_err(|error| Failure::new(Exit::Usage, format!("the workspace {error}"), "give a folder with -C"))?;
        let pristine = Arc::new(pristine);
        let facts = outcome::facts(&pristine, home.clone(), PathBuf::new(), included.clone(), git_drivers.clone());
        let runner = Runner::new(
            pristine,
            repository.clone(),
            outer.clone(),
            facts,
            demand,
            variables,
            sandbox::own_executable(),
        );
        Some(runner.map_err(no_temporary_folder)?)
    } else {
        None
    };

    let mut prompt = match &recipe {
        Some(_) => Prompt::default(),
        None => read_prompt(arguments, &environment, &mut warnings).await?,
    };
    let recipe_model = recipe.as_ref().and_then(|active| active.recipe.file.model.as_ref()?.name.as_ref());
    let recipe_model = recipe_model.map(|name| name.value.clone());
    let client =
        super::model::choose(arguments, &settings, &environment, workspace.root(), recipe_model.as_deref()).await?;
    warnings.extend(client.warnings.iter().cloned());
    strictly(arguments, &warnings)?;
    let mut limits = limits(arguments, &settings, &policy);
    if let Some(active) = &recipe {
        limits = lowest_of(&limits, &active.limits());
    }
    if arguments.limits.max_cost_usd.is_some() && client.as_model().facts().price.is_none() {
        return Err(Failure::new(
            Exit::Config,
            format!("--max-cost-usd needs a price, and none is known for {}", client.name),
            "leave it out and set --max-total-tokens",
        ));
    }

    let extra = super::tools::Wanted {
        settings: &settings,
        environment: &environment,
        policy: &policy,
        home: &home,
        included: &included,
    };
    let super::tools::Tools { mut registry, agents, warnings: of_tools } =
        super::tools::tools(&extra, &workspace, &runner).await;
    warnings.extend(of_tools);
    strictly(arguments, &warnings)?;
    if let Some(schema) = &wanted.schema {
        registry.add_own(Arc::new(StructuredOutput::new(schema.clone())));
    }
    let undo_folder = match (&delivery, arguments.changes.no_undo) {
        (Mode::Apply | Mode::Commit, false) => Some(state_folder(&environment)?.join("undo")),
        _ => None,
    };
    preflight(&delivery, &workspace, repository.as_ref(), undo_folder.as_deref())?;
    let secrets = Arc::new(
        Secrets::new(&secret_variables(&environment, client.key.as_ref()), &policy.secret_patterns())
            .map_err(|error| Failure::new(Exit::Config, error, "correct `secrets.patterns` in the policy"))?,
    );
    // Last, since it may take the longest: whatever else is wrong has been found by now.
    let (mcp, mcp_servers) =
        servers::start(&chosen_servers, pins, &runner, environment.home.as_deref(), &mut warnings).await?;
    let judged = outcome::facts(&workspace, home.clone(), runner.outputs(), included.clone(), git_drivers.clone());
    let allows = |access: &Access| policy.authorize("mcp", std::slice::from_ref(access), &judged).1.is_some();
    warnings.extend(mcp.register(&mut registry, &allows));
    strictly(arguments, &warnings)?;
    if let Some(expanded) = mcp.expand(&prompt.typed_text()).await {
        let text =
            expanded.map_err(|problem| Failure::new(Exit::Input, problem, "`qwen mcp list -v` shows the prompts"))?;
        // As what was read: the text is the server's, and calls no command here.
        prompt.read =
            Some(prompt.read.map_or(text.clone(), |read| format!("{}\n\n{text}", read.trim_end_matches('\n'))));
        prompt.typed = Vec::new();
    }
    let masking = Arc::clone(&secrets);
    let redacts = policy.redacts();
    let (context, commands) = if arguments.context.bare {
        (Vec::new(), Commands::none())
    } else {
        let (context, problems) = context::gather(&ContextSources {
            home: environment.home.as_deref(),
            top: &top,
            workspace: workspace.root(),
            settings: &settings,
            policy: &policy,
        });
        skipped(problems, arguments.context.strict, &mut warnings)?;
        (context, Commands::of(&environment, &top, trusted.checkout, &policy))
    };
    let mut problems = Vec::new();
    let hooks = Hooks::of(&settings, &environment, workspace.root().to_path_buf(), &mut problems)?;
    let images = images::read(&arguments.input.images, &environment.cwd, client.facts_of_images(), &mut problems)?;
    skipped(problems, arguments.context.strict, &mut warnings)?;
    let mut appended: Vec<String> = Vec::new();
    if let Some(active) = &recipe {
        appended.extend(active.instructions()?);
    }
    appended.extend(wanted.instruction());
    appended.extend(arguments.context.append_system_prompt.clone());
    let system = system::system_prompt(
        arguments.context.system_prompt.as_deref(),
        &policy.summary(),
        &context,
        Some(&appended.join("\n\n")),
    );
    let offered: Arc<[ToolSpec]> = registry.specs().into();
    let tool_limits = ToolLimits {
        shell_timeout: settings
            .shell_timeout_ms
            .as_ref()
            .map_or(Duration::from_secs(120), |ms| Duration::from_millis(ms.value)),
        shell_timeout_max: policy.shell_timeout().unwrap_or(Duration::from_secs(600)),
        output_chars: settings
            .truncate_output_threshold
            .as_ref()
            .map_or(25_000, |n| usize::try_from(n.value).unwrap_or(usize::MAX)),
        output_lines: settings
            .truncate_output_lines
            .as_ref()
            .map_or(2_000, |n| usize::try_from(n.value).unwrap_or(usize::MAX)),
        outputs: runner.outputs(),
    };
    let setup = Setup {
        run_id: id.to_owned(),
        time,
        started_at: Instant::now(),
        policy_facts: policy.facts(),
        permission_mode: mode.map_or("default", ApprovalMode::name),
        on_deny: on_deny(arguments, &policy),
        limits,
        registry,
        agents,
        offered,
        memory: RunMemory::default(),
        tool_limits,
        redact: Box::new(move |text| if redacts { redact::mask(&masking, text) } else { (text, 0) }),
        secrets,
        max_output_tokens: arguments.model.max_output_tokens,
        // A mode delivers changes if there are any; it does not say that there must be some.
        changes_expected: arguments.changes.require_changes
            || recipe.as_ref().map_or(delivers, Active::changes_expected),
        require_changes: arguments.changes.require_changes,
        max_changed_files: arguments.changes.max_changed_files,
        max_patch_bytes: arguments.changes.max_patch_bytes,
        verify_attempts: arguments
            .changes
            .verify_attempts
            .or(recipe.as_ref().and_then(|active| active.recipe.file.verify.as_ref()?.attempts))
            .unwrap_or(crate::verify::ATTEMPTS)
            .max(1),
        check_timeout: CHECK_TIMEOUT,
        message: arguments.changes.message.clone(),
        sign: arguments.changes.sign,
        undo_folder,
        warnings,
        recipe,
        wanted,
        outer,
        trusted,
        prompt,
        files: arguments.input.files.clone(),
        strict: arguments.context.strict,
        verify: arguments.changes.verify.clone(),
        system,
        home,
        included,
        mcp_servers,
        isolation_off: demand == Demand::Off,
        cwd: environment.cwd.clone(),
        git_drivers,
        replay: arguments.test.replay.as_ref().map(|path| path.display().to_string()),
        commands,
        images,
        hooks,
        client,
        policy,
    };
    let own_files = [
        &arguments.output.result_file,
        &arguments.output.events_file,
        &arguments.output.patch_file,
        &arguments.output.summary_file,
        &arguments.test.record,
    ];
    let untouched = (demand == Demand::Off && delivery == Mode::DryRun).then(|| {
        let own_files = own_files.iter().filter_map(|path| path.as_ref()).map(|path| setup.cwd.join(path)).collect();
        Untouched::remember(workspace.root(), own_files)
    });
    let patch_file = arguments.output.patch_file.clone();
    let stage = Stage { workspace, runner, base, repository, mode: delivery, servers: mcp, patch_file, untouched };
    Ok(Prepared { setup, stage })
}

impl Setup {
    /// Returns the facts that decisions rest on.
    pub fn facts(&self, stage: &Stage) -> Facts {
        let (home, included) = (self.home.clone(), self.included.clone());
        outcome::facts(&stage.workspace, home, stage.runner.outputs(), included, self.git_drivers.clone())
    }

    /// Returns the gate for the calls of the run.
    pub fn judge(&self, stage: &Stage) -> RunJudge<'_> {
        self.judge_of(&self.policy, stage)
    }

    /// Returns the gate for the commands of a recipe: the policy without the recipe's needs.
    pub fn outer_judge(&self, stage: &Stage) -> RunJudge<'_> {
        self.judge_of(&self.outer, stage)
    }

    fn judge_of<'a>(&'a self, policy: &'a Policy, stage: &Stage) -> RunJudge<'a> {
        let of_recipe = self.recipe.as_ref().is_some_and(|active| {
            !active.recipe.checks().is_empty() || active.recipe.context().iter().any(|context| context.run.is_some())
        });
        let needs_tier = self.registry.get("run_shell_command").is_some() || !self.verify.is_empty() || of_recipe;
        RunJudge {
            policy,
            facts: self.facts(stage),
            tier: if needs_tier { stage.runner.tier() } else { crate::sandbox::Tier::T0 },
            isolation_off: self.isolation_off,
            dry_run: stage.mode == Mode::DryRun,
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
                        "correct the parameter",
                    )
                })?;
                let cwd = check.cwd.as_ref().map(|cwd| active.text(cwd)).transpose()?;
                verification.checks.push(Check::of_recipe(check, &words, cwd.as_deref(), judge).map_err(|denial| {
                    Failure::new(
                        Exit::Denied,
                        format!(
                            "N001: the policy does not let verify.checks.{name} run `{}`: {}",
                            words.join(" "),
                            denial.reason
                        ),
                        denial.hint.unwrap_or_else(|| "allow it in the policy".to_owned()),
                    )
                })?);
            }
        }
        verification.checks.extend(self.checks(&judge.facts)?);
        Ok(verification)
    }

    /// Returns where checks run.
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
        }
    }

    /// Returns what the checks must say before the model begins.
    pub fn before(&self) -> Before {
        let verify = self.recipe.as_ref().and_then(|active| active.recipe.file.verify.as_ref());
        verify.and_then(|verify| verify.before).unwrap_or_default()
    }

    /// Tells whether a change that fails at last is dropped.
    pub fn discards(&self) -> bool {
        let verify = self.recipe.as_ref().and_then(|active| active.recipe.file.verify.as_ref());
        verify.is_some_and(|verify| verify.on_exhausted == Some(OnExhausted::Discard))
    }

    /// Tells whether a run without a provider ends with 0.
    pub fn skips_offline(&self) -> bool {
        self.recipe.as_ref().is_some_and(|active| active.recipe.file.offline == Some(Offline::Skip))
    }

    /// Returns the recipe's wishes for the delivery.
    pub fn git_wishes(&self) -> Option<GitWishes> {
        self.recipe.as_ref().and_then(|active| active.recipe.file.git.clone())
    }

    /// Returns the recipe's first line of a commit's message.
    pub fn subject(&self) -> Result<Option<String>, Failure> {
        let (Some(active), Some(git)) = (&self.recipe, self.git_wishes()) else { return Ok(None) };
        git.subject.map(|subject| active.text(&subject)).transpose()
    }

    /// Returns the recipe's own trailers.
    pub fn trailers(&self) -> Result<Vec<(String, String)>, Failure> {
        let (Some(active), Some(git)) = (&self.recipe, self.git_wishes()) else { return Ok(Vec::new()) };
        git.trailers.into_iter().flatten().map(|(name, text)| Ok((name, active.text(&text)?))).collect()
    }

    /// Returns a file's text in the staged view, if it may be read; the path is relative to the repository.
    pub fn readable(&self, stage: &Stage, path: &str) -> Option<String> {
        let prefix = stage.repository.as_ref().map(|repository| repository.prefix.clone()).unwrap_or(RelPath::root());
        let path = RelPath::below(prefix.as_path(), Path::new(path)).or_else(|| RelPath::new(path))?;
        self.outer.may_read(&path, &self.facts(stage)).ok()?;
        let entry = stage.workspace.entry(&path).ok()?;
        entry.content().map(|content| String::from_utf8_lossy(content).into_owned())
    }

    /// Returns the first message and what there is to tell: the recipe's prompt as it is, else what was typed and what it
    /// names.
    pub async fn message(
        &self,
        judge: &RunJudge<'_>,
        context: &ToolContext<'_>,
        servers: &Servers,
        prompt: Option<String>,
    ) -> Result<(Vec<Part>, Vec<Event>), Failure> {
        let Some(text) = prompt else { return self.task(judge, context, servers, &self.prompt).message().await };
        // A recipe that asks for no reading is not shown the names of the project either.
        if self.registry.get("read_file").is_none() {
            let mut parts = vec![Part::Text(text)];
            parts.extend(self.images.iter().cloned());
            return Ok((parts, Vec::new()));
        }
        let prompt = Prompt { read: Some(text), typed: Vec::new() };
        self.task(judge, context, servers, &prompt).message().await
    }

    /// Parses the commands of `--verify`.
    pub fn checks(&self, facts: &Facts) -> Result<Vec<Check>, Failure> {
        let parse = |command: &String| {
            Check::parse(command, &self.policy, facts).map_err(|denial| {
                Failure::new(
                    Exit::Usage,
                    format!("--verify '{command}': {}", denial.reason),
                    denial.hint.unwrap_or_else(|| "write it in simpler words, or put it into a script".into()),
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
            sandbox: match stage.runner.sandbox() {
                Ok(sandbox) => sandbox.describe(),
                Err(error) => format!("not isolated ({error})"),
            },
            limits: self.limits.clone(),
            git_head: stage.repository.as_ref().and_then(|repository| repository.head.clone()),
            git_dirty: false,
            recipe: self.recipe.as_ref().map(|active| active.recipe.facts()),
            replay: self.replay.clone(),
        }
    }

    /// Returns what makes the first message.
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
        }
    }

    /// Returns the hooks, told of the session; `None` if there are none.
    pub fn hooks(&self, session: &RunSession) -> Option<Hooks> {
        self.hooks.begin(&session.id, self.permission_mode)
    }

    /// Returns the system prompt, without secrets.
    pub fn system_prompt(&self) -> String {
        self.without_secrets(self.system.clone())
    }

    /// Hides secrets in a text; placeholders that stand in it already stay as they are.
    pub fn without_secrets(&self, text: String) -> String {
        if self.policy.redacts() { self.secrets.hide(&text).into_owned() } else { text }
    }

    /// Masks the secrets of the first message: it may show files.
    pub fn masked(&self, message: Vec<Part>, emit: &dyn Fn(Event)) -> Vec<Part> {
        let mut places = 0;
        let parts = message.into_iter().map(|part| match part {
            Part::Text(text) => {
                let (text, count) = (self.redact)(text);
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

/// Passes on what was skipped; `--strict` makes an error of it.
fn skipped(problems: Vec<String>, strict: bool, warnings: &mut Vec<String>) -> Result<(), Failure> {
    if strict && !problems.is_empty() {
        let hint = "--strict makes an error of what is otherwise a warning";
        return Err(Failure::new(Exit::Config, problems.join("; "), hint));
    }
    warnings.extend(problems);
    Ok(())
}

/// Returns the flags with the recipe's wishes about the model where they leave room.
fn with_wishes(arguments: &RunArgs, active: &Active) -> RunArgs {
    let mut arguments = arguments.clone();
    let wishes = active.recipe.file.model.clone().unwrap_or_default();
    let model = &mut arguments.model;
    model.temperature = model.temperature.or(wishes.temperature);
    model.top_p = model.top_p.or(wishes.top_p);
    model.seed = model.seed.or(wishes.seed);
    let output_tokens = [model.max_output_tokens, active.recipe.limits().output_tokens];
    model.max_output_tokens = output_tokens.into_iter().flatten().min();
    arguments
}

fn severity(level: FailOn) -> Severity {
    match level {
        FailOn::Never => Severity::Never,
        FailOn::Error => Severity::Error,
        FailOn::Warning => Severity::Warning,
        FailOn::Note => Severity::Note,
    }
}

fn no_temporary_folder(error: std::io::Error) -> Failure {
    Failure::new(
        Exit::Conflict,
        format!("no temporary folder can be made: {error}"),
        "set TMPDIR to a folder that can be written",
    )
}

/// Under `--strict` a warning is an error.
fn strictly(arguments: &RunArgs, warnings: &[String]) -> Result<(), Failure> {
    if !arguments.context.strict || warnings.is_empty() {
        return Ok(());
    }
    let hint = "--strict makes an error of what is otherwise a warning";
    Err(Failure::new(Exit::Config, warnings.join("; "), hint))
}

fn approval_mode(arguments: &RunArgs, settings: &Settings) -> Result<Option<ApprovalMode>, Failure> {
    if let Some(mode) = arguments.policy.mode() {
        return Ok(Some(mode));
    }
    let Some(named) = &settings.approval_mode else { return Ok(None) };
    ApprovalMode::from_name(&named.value).map(Some).ok_or_else(|| {
        Failure::new(
            Exit::Config,
            format!("{}: there is no approval mode `{}`", named.origin, named.value),
            "write plan, default, auto-edit or yolo",
        )
    })
}

fn builtin_of(mode: ApprovalMode) -> &'static str {
    match mode {
        ApprovalMode::Plan => "read-only",
        ApprovalMode::Default => "default",
        ApprovalMode::AutoEdit => "edit",
        ApprovalMode::Yolo => "open",
    }
}

/// How strong a wall is asked for: the flag, else the policy. Isolation that a policy requires cannot be switched off.
fn demand(arguments: &RunArgs, policy: &Policy) -> Result<Demand, Failure> {
    match (arguments.policy.sandbox, policy.sandbox_required()) {
        (Some(SandboxMode::Off), true) => Err(Failure::new(
            Exit::Config,
            format!("--sandbox off was given and the policy {} requires isolation", policy.facts().name),
            "leave the flag out; `qwen sandbox doctor` says what this machine gives",
        )),
        (Some(SandboxMode::Off), false) => Ok(Demand::Off),
        (Some(SandboxMode::Require), _) | (_, true) => Ok(Demand::Require),
        (Some(SandboxMode::Auto) | None, false) => Ok(Demand::Auto),
    }
}

/// What becomes of the changes: the flag, else what the mode implies, else what the policy says without a flag.
fn delivery_mode(
    asked: Option<ChangesMode>,
    mode: Option<ApprovalMode>,
    policy: &Policy,
    recipe: Option<&Active>,
    warnings: &mut Vec<String>,
) -> Result<Mode, Failure> {
    let changes = policy.changes();
    let wanted = |mode: &Mode| match mode {
        Mode::DryRun => PolicyDelivery::DryRun,
        Mode::Apply => PolicyDelivery::Apply,
        Mode::Commit => PolicyDelivery::Commit,
        Mode::Branch(_) => PolicyDelivery::Branch,
    };
    let explicit = match asked {
        Some(ChangesMode::DryRun) => Some(Mode::DryRun),
        Some(ChangesMode::Apply) => Some(Mode::Apply),
        Some(ChangesMode::Commit) => Some(Mode::Commit),
        Some(ChangesMode::Branch(name)) => Some(Mode::Branch(name)),
        None => None,
    };
    if let Some(mode) = explicit {
        if mode != Mode::DryRun && !changes.allow.contains(&wanted(&mode)) {
            return Err(Failure::new(
                Exit::Config,
                format!("--{} was asked for and the policy {} does not give it", mode.name(), policy.facts().name),
                format!("write `changes: {}` in the policy, or leave the flag out", mode.name()),
            ));
        }
        return Ok(mode);
    }
    if matches!(mode, Some(ApprovalMode::AutoEdit | ApprovalMode::Yolo)) {
        if changes.allow.contains(&PolicyDelivery::Apply) {
            return Ok(Mode::Apply);
        }
        warnings
            .push(format!("the mode implies --apply and the policy {} does not give it: dry run", policy.facts().name));
        return Ok(Mode::DryRun);
    }
    if let Some(active) = recipe {
        return active.delivery(policy, warnings);
    }
    Ok(match changes.default {
        PolicyDelivery::DryRun => Mode::DryRun,
        PolicyDelivery::Apply => Mode::Apply,
        PolicyDelivery::Commit => Mode::Commit,
        PolicyDelivery::Branch => {
            return Err(Failure::new(
                Exit::Config,
                "the policy delivers to a branch and none is named",
                "name one with --branch",
            ));
        }
    })
}

async fn read_prompt(
    arguments: &RunArgs,
    environment: &Environment,
    warnings: &mut Vec<String>,
) -> Result<Prompt, Failure> {
    let input = &arguments.input;
    let readers = input.readers_of_standard_input(&[], None);
    if readers.len() > 1 {
        return Err(Failure::new(
            Exit::Usage,
            format!("standard input can be read once, and {} want it", readers.join(" and ")),
            "give one of them a file",
        ));
    }
    let source = input.source();
    let wants_stdin =
        !input.no_stdin && (source == Source::StandardInput || !std::io::IsTerminal::is_terminal(&std::io::stdin()));
    let standard_input = if wants_stdin {
        let read = read_standard_input(tokio::io::stdin(), CAP, FIRST_BYTE).await.map_err(|error| {
            Failure::new(Exit::Input, format!("standard input: {error}"), "--no-stdin leaves it out")
        })?;
        warnings.extend(read.warnings);
        Some(read.text)
    } else {
        None
    };
    let (typed, file) = match source {
        Source::Typed(text) => (Some(text), None),
        Source::File(path) => {
            let text = std::fs::read_to_string(environment.cwd.join(path)).map_err(|error| {
                Failure::new(Exit::Input, format!("--prompt-file {}: {error}", path.display()), "name a text file")
            })?;
            (None, Some(text))
        }
        Source::StandardInput | Source::None => (None, None),
    };
    Prompt::new(standard_input, file, typed.as_deref()).ok_or_else(|| {
        Failure::new(
            Exit::Input,
            "there is no prompt: nothing was typed and standard input is empty",
            "qwen run \"what to do\", or -p, --prompt-file or a pipe",
        )
    })
}

fn limits(arguments: &RunArgs, settings: &Settings, policy: &Policy) -> Limits {
    let flags = &arguments.limits;
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let setting = |value: &Option<settings::Valued<u64>>| value.as_ref().map(|value| value.value);
    let own = Limits {
        turns: Some(flags.max_session_turns.or(setting(&settings.max_session_turns)).unwrap_or(TURNS)),
        tool_calls: Some(flags.max_tool_calls.or(setting(&settings.max_tool_calls)).unwrap_or(TOOL_CALLS)),
        shell_calls: None,
        denials: Some(flags.max_denials.unwrap_or(DENIALS)),
        same_denial: None,
        wall_time_ms: Some(
            flags
                .max_wall_time
                .map(millis)
                .or(setting(&settings.max_wall_time_seconds).map(|seconds| seconds.saturating_mul(1000)))
                .unwrap_or(millis(WALL_TIME)),
        ),
        total_tokens: flags.max_total_tokens,
        cost_usd: flags.max_cost_usd,
    };
    lowest_of(&own, &policy.limits())
}

fn on_deny(arguments: &RunArgs, policy: &Policy) -> OnDeny {
    use crate::cli::run::OnDeny as Flag;
    let of_policy = policy.on_deny().map(|on_deny| match on_deny {
        PolicyOnDeny::Continue => OnDeny::Continue,
        PolicyOnDeny::Fail => OnDeny::Fail,
        PolicyOnDeny::Stop => OnDeny::Stop,
    });
    let of_flag = arguments.policy.on_deny.map(|on_deny| match on_deny {
        Flag::Continue => OnDeny::Continue,
        Flag::Fail => OnDeny::Fail,
        Flag::Stop => OnDeny::Stop,
    });
    let strictness = |on_deny: OnDeny| match on_deny {
        OnDeny::Continue => 0,
        OnDeny::Fail => 1,
        OnDeny::Stop => 2,
    };
    // A policy that says nothing binds no flag.
    of_policy.into_iter().chain(of_flag).max_by_key(|on_deny| strictness(*on_deny)).unwrap_or(OnDeny::Fail)
}

/// Lists of tools from flags and settings, with their specifiers.
struct ToolLists {
    allowed: Vec<String>,
    core: Vec<Vec<String>>,
    excluded: Vec<String>,
}

impl ToolLists {
    fn of(arguments: &RunArgs, settings: &Settings) -> ToolLists {
        let texts =
            |list: &[settings::Valued<String>]| list.iter().map(|entry| entry.value.clone()).collect::<Vec<_>>();
        let flags = &arguments.policy;
        let mut allowed = flags.allowed_tools.clone();
        allowed.extend(texts(&settings.tools_allowed));
        allowed.extend(texts(&settings.permissions_allow));
        let mut core: Vec<Vec<String>> = settings.tools_core.iter().map(|list| list.value.clone()).collect();
        if !flags.core_tools.is_empty() {
            core.push(flags.core_tools.clone());
        }
        let mut excluded = flags.exclude_tools.clone();
        excluded.extend(texts(&settings.tools_exclude));
        excluded.extend(texts(&settings.permissions_deny));
        excluded.extend(texts(&settings.permissions_ask));
        ToolLists { allowed, core, excluded }
    }
}

/// Returns the variables among which secrets are looked for: the process's, those of `.env` files, and the key in use.
pub fn secret_variables(environment: &Environment, key: Option<&Secret>) -> BTreeMap<String, String> {
    let mut variables = environment.variables.clone();
    for (name, (value, _)) in &environment.additional {
        variables.entry(name.clone()).or_insert_with(|| value.clone());
    }
    if let Some(key) = key.filter(|key| !variables.values().any(|value| value.trim() == key.expose())) {
        variables.insert("API_KEY".to_owned(), key.expose().to_owned());
    }
    variables
}

fn included_folders(
    arguments: &RunArgs,
    settings: &Settings,
    environment: &Environment,
) -> Result<Vec<PathBuf>, Failure> {
    let from_flags = arguments.input.include_directories.iter().cloned();
    let from_settings = settings.include_directories.iter().map(|folder| PathBuf::from(&folder.value));
    from_flags
        .chain(from_settings)
        .map(|folder| {
            let path = environment.cwd.join(&folder);
            path.canonicalize().map_err(|error| {
                Failure::new(
                    Exit::Usage,
                    format!("--include-directories {}: {error}", folder.display()),
                    "name a folder that exists",
                )
            })
        })
        .collect()
}

fn sandbox_failure(error: SandboxError) -> Failure {
    let exit = match &error {
        SandboxError::Unmet { .. } => Exit::Sandbox,
        SandboxError::Refused(_) => Exit::Config,
        SandboxError::NotStarted(_) | SandboxError::Io { .. } => Exit::Sandbox,
    };
    Failure::new(exit, error.to_string(), "`qwen sandbox doctor` says what this machine gives")
}

/// Returns the folder of our own state; it must be writable where something is to be undone.
pub fn state_folder(environment: &Environment) -> Result<PathBuf, Failure> {
    let base = environment
        .value("XDG_STATE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| environment.home.as_ref().map(|home| home.join(".local/state")));
    base.map(|base| base.join("qwen")).ok_or_else(|| {
        Failure::new(
            Exit::Conflict,
            "there is no home folder to keep an undo record in",
            "set HOME or XDG_STATE_HOME, or give --no-undo",
        )
    })
}

/// Finds out what would keep the delivery from working before anything is sent.
fn preflight(
    mode: &Mode,
    workspace: &Workspace,
    repository: Option<&Repository>,
    undo: Option<&Path>,
) -> Result<(), Failure> {
    let how = match mode {
        Mode::DryRun => return Ok(()),
        Mode::Apply => deliver::Delivery::Apply,
        Mode::Commit => deliver::Delivery::Commit(deliver::Order::default()),
        Mode::Branch(name) => deliver::Delivery::Branch { name: name.clone(), order: deliver::Order::default() },
    };
    let site = deliver::Site { root: workspace.root(), repository, undo, run_id: "preflight", time: "" };
    deliver::preflight(&how, &site).map_err(|error| outcome::from_delivery(&error))
}
