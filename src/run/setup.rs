//! Everything that a run needs before its first request, from flags, environment and files.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::agent::OnDeny;
use crate::cli::RunArgs;
use crate::cli::input::{CAP, FIRST_BYTE, read_standard_input};
use crate::cli::prompt::{Piece, Prompt, Source};
use crate::cli::run::{ApprovalMode, ChangesMode};
use crate::deliver;
use crate::event::{Limits, PolicyFacts, RunStarted};
use crate::exit::Exit;
use crate::model::{Model, ToolSpec};
use crate::policy::decide::Facts;
use crate::policy::file::{Delivery as PolicyDelivery, OnDeny as PolicyOnDeny};
use crate::policy::layers::lowest_of;
use crate::policy::redact::Secrets;
use crate::policy::{Access, Policy, redact};
use crate::prompt::system;
use crate::sandbox::{Demand, SandboxError};
use crate::settings::{self, Environment, Settings};
use crate::tools::mcp::Servers;
use crate::tools::{Registry, RunMemory, ToolContext, ToolLimits};
use crate::workspace::Workspace;
use crate::workspace::repository::Repository;

use super::Failure;
use super::checks::Check;
use super::judge::RunJudge;
use super::model::Chosen;
use super::outcome::{self, Mode, Stage};
use super::policy_layers::{self, PolicySources};
use super::runner::Runner;
use super::servers;
use super::task::Task;

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
    prompt: Prompt,
    files: Vec<String>,
    strict: bool,
    verify: Vec<String>,
    system: String,
    home: String,
    included: Vec<PathBuf>,
    mcp_servers: Vec<serde_json::Value>,
    isolation_off: bool,
    replay: Option<String>,
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

    let trusted = arguments.later.trust_checkout || environment.is_on("QWEN_TRUST_CHECKOUT");
    let request = settings::load::Request {
        project_root: top.clone(),
        workspace: workspace.root().to_path_buf(),
        trusted,
        trusted_ref: None,
        bare: arguments.context.bare,
    };
    let loaded = settings::load(&request, environment).map_err(|error| {
        Failure::new(Exit::Config, error.to_string(), "correct the file; `qwen doctor` shows what counts")
    })?;
    let (settings, environment, mut warnings) = (loaded.settings, loaded.environment, loaded.warnings);

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
        trusted,
        machine: Path::new("/etc/qwen/policy.yaml"),
    })?;
    warnings.extend(chosen.warnings);
    let policy = chosen.policy;
    let pins = servers::with_pins(chosen_servers.configs.clone(), &policy, &chosen.folder)?;
    let delivery = delivery_mode(asked, mode, &policy, &mut warnings)?;

    let mut prompt = read_prompt(arguments, &environment, &mut warnings).await?;
    let client = super::model::choose(arguments, &settings, &environment, workspace.root()).await?;
    warnings.extend(client.warnings.iter().cloned());
    strictly(arguments, &warnings)?;
    let limits = limits(arguments, &settings, &policy);
    if arguments.limits.max_cost_usd.is_some() && client.as_model().facts().price.is_none() {
        return Err(Failure::new(
            Exit::Config,
            format!("--max-cost-usd needs a price, and none is known for {}", client.name),
            "leave it out and set --max-total-tokens",
        ));
    }

    let included = included_folders(arguments, &settings, &environment)?;
    let home = environment.home.as_ref().map(|home| home.display().to_string()).unwrap_or_default();
    let demand = if policy.sandbox_required() { Demand::Require } else { Demand::Auto };
    let helper = std::env::current_exe()
        .map_err(|error| Failure::new(Exit::Failed, format!("our own program cannot be found: {error}"), ""))?;
    let variables: BTreeMap<OsString, OsString> =
        environment.variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
    // The runner's own facts point at its own folder of outputs, which is made with it.
    let facts = outcome::facts(&workspace, home.clone(), PathBuf::new(), included.clone());
    let runner =
        Runner::new(Arc::clone(&workspace), repository.clone(), policy.clone(), facts, demand, variables, helper)
            .map_err(|error| {
                Failure::new(
                    Exit::Conflict,
                    format!("no temporary folder can be made: {error}"),
                    "set TMPDIR to a folder that can be written",
                )
            })?;
    let mut registry = registry(&policy);
    if demand == Demand::Require {
        runner.sandbox().map_err(sandbox_failure)?;
    }

    let undo_folder = match (&delivery, arguments.changes.no_undo) {
        (Mode::Apply | Mode::Commit, false) => Some(state_folder(&environment)?.join("undo")),
        _ => None,
    };
    preflight(&delivery, &workspace, repository.as_ref(), undo_folder.as_deref())?;
    let secrets = Arc::new(
        Secrets::new(&environment.variables, &policy.secret_patterns())
            .map_err(|error| Failure::new(Exit::Config, error, "correct `secrets.patterns` in the policy"))?,
    );
    // Last, since it may take the longest: whatever else is wrong has been found by now.
    let (mcp, mcp_servers) =
        servers::start(&chosen_servers, pins, &runner, environment.home.as_deref(), &mut warnings).await?;
    let judged = outcome::facts(&workspace, home.clone(), runner.outputs(), included.clone());
    let allows = |access: &Access| policy.authorize("mcp", std::slice::from_ref(access), &judged).1.is_some();
    warnings.extend(mcp.register(&mut registry, &allows));
    strictly(arguments, &warnings)?;
    if let Some(expanded) = mcp.expand(&prompt.typed_text()).await {
        let text =
            expanded.map_err(|problem| Failure::new(Exit::Input, problem, "`qwen mcp list -v` shows the prompts"))?;
        prompt.typed = vec![Piece::Text(text)];
    }
    let masking = Arc::clone(&secrets);
    let redacts = policy.redacts();
    let system = system::system_prompt(
        arguments.context.system_prompt.as_deref(),
        &policy.summary(),
        &[],
        arguments.context.append_system_prompt.as_deref(),
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
        time: jiff::Timestamp::now().to_string(),
        started_at: Instant::now(),
        policy_facts: policy.facts(),
        permission_mode: mode.map_or("default", ApprovalMode::name),
        on_deny: on_deny(arguments, &policy),
        limits,
        registry,
        offered,
        memory: RunMemory::default(),
        tool_limits,
        redact: Box::new(move |text| if redacts { redact::mask(&masking, text) } else { (text, 0) }),
        secrets,
        max_output_tokens: arguments.model.max_output_tokens,
        changes_expected: delivery != Mode::DryRun || arguments.changes.require_changes,
        require_changes: arguments.changes.require_changes,
        max_changed_files: arguments.changes.max_changed_files,
        max_patch_bytes: arguments.changes.max_patch_bytes,
        verify_attempts: arguments.changes.verify_attempts.unwrap_or(crate::verify::ATTEMPTS).max(1),
        check_timeout: CHECK_TIMEOUT,
        message: arguments.changes.message.clone(),
        sign: arguments.changes.sign,
        undo_folder,
        warnings,
        prompt,
        files: arguments.input.files.clone(),
        strict: arguments.context.strict,
        verify: arguments.changes.verify.clone(),
        system,
        home,
        included,
        mcp_servers,
        isolation_off: false,
        replay: arguments.test.replay.as_ref().map(|path| path.display().to_string()),
        client,
        policy,
    };
    let stage = Stage {
        workspace,
        runner,
        repository,
        mode: delivery,
        servers: mcp,
        patch_file: arguments.output.patch_file.clone(),
    };
    Ok(Prepared { setup, stage })
}

impl Setup {
    /// Returns the facts that decisions rest on.
    pub fn facts(&self, stage: &Stage) -> Facts {
        outcome::facts(&stage.workspace, self.home.clone(), stage.runner.outputs(), self.included.clone())
    }

    /// Returns the gate for the calls of the run.
    pub fn judge(&self, stage: &Stage) -> RunJudge<'_> {
        let needs_tier = self.registry.get("run_shell_command").is_some() || !self.verify.is_empty();
        RunJudge {
            policy: &self.policy,
            facts: self.facts(stage),
            tier: if needs_tier { stage.runner.tier() } else { crate::sandbox::Tier::T0 },
            isolation_off: self.isolation_off,
            dry_run: stage.mode == Mode::DryRun,
            digest: self.policy_facts.sha256.clone(),
        }
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
            recipe: None,
            replay: self.replay.clone(),
        }
    }

    /// Returns what makes the first message.
    pub fn task<'a>(&'a self, judge: &'a RunJudge<'a>, context: &'a ToolContext<'a>, servers: &'a Servers) -> Task<'a> {
        Task {
            prompt: &self.prompt,
            files: &self.files,
            registry: &self.registry,
            judge,
            context,
            servers,
            strict: self.strict,
        }
    }

    /// Returns the system prompt.
    pub fn system_prompt(&self) -> String {
        self.system.clone()
    }
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

/// What becomes of the changes: the flag, else what the mode implies, else what the policy says without a flag.
fn delivery_mode(
    asked: Option<ChangesMode>,
    mode: Option<ApprovalMode>,
    policy: &Policy,
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
    let of_policy = match policy.on_deny() {
        PolicyOnDeny::Continue => OnDeny::Continue,
        PolicyOnDeny::Fail => OnDeny::Fail,
        PolicyOnDeny::Stop => OnDeny::Stop,
    };
    let of_flag = match arguments.policy.on_deny {
        None => return of_policy,
        Some(Flag::Continue) => OnDeny::Continue,
        Some(Flag::Fail) => OnDeny::Fail,
        Some(Flag::Stop) => OnDeny::Stop,
    };
    let strictness = |on_deny: OnDeny| match on_deny {
        OnDeny::Continue => 0,
        OnDeny::Fail => 1,
        OnDeny::Stop => 2,
    };
    if strictness(of_flag) >= strictness(of_policy) { of_flag } else { of_policy }
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

/// Returns the tools that the model sees: those that the policy does not deny as a whole.
fn registry(policy: &Policy) -> Registry {
    let mut registry = Registry::of_built_ins();
    registry.retain(|name| !policy.denies_tool(name));
    registry
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
