//! Prepares a run before its first request: reads and checks everything, from the outermost layer inwards.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::base::Diagnostic;
use crate::cli::RunArgs;
use crate::cli::prompt::Prompt;
use crate::cli::run::{ApprovalMode, ChangesMode, FailOn, SandboxMode};
use crate::exit::Exit;
use crate::model::ToolSpec;
use crate::policy::file::WorkspaceMode;
use crate::policy::layers::lowest_of;
use crate::policy::lists::{EntryContext, ToolEntry};
use crate::policy::redact::Secrets;
use crate::policy::{Access, Policy, redact};
use crate::prompt::system;
use crate::recipe::file::Severity;
use crate::sandbox::{self, Demand};
use crate::secret::Secret;
use crate::settings::{self, Environment};
use crate::tools::mcp::Servers;
use crate::tools::structured_output::StructuredOutput;
use crate::tools::{RunMemory, ToolLimits};
use crate::workspace::Workspace;
use crate::workspace::ignore::Ignored;
use crate::workspace::untouched::Untouched;

use super::Failure;
use super::answers::{self, Wanted};
use super::bounds::limits;
use super::context::{self, ContextSources};
use super::error::{ModeError, PlaceError, ServerError, SetupError};
use super::hooks::Hooks;
use super::images;
use super::modes::{approval_mode, builtin_of, delivery_mode, demand, on_deny, preflight};
use super::outcome::{self, Mode, Stage};
use super::place::{self, Place};
use super::policy_layers::{self, PolicySources};
use super::recipe::{Active, Surroundings};
use super::runner::Runner;
use super::servers;
use super::setup::Setup;
use super::slash_command::Commands;
use super::tool_lists;
use super::trust::TrustFlags;
use super::typed::read_prompt;

/// Default timeout of a check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// A run that is ready to begin.
pub struct Prepared {
    /// The constant part.
    pub setup: Setup,
    /// The part that the run changes.
    pub stage: Stage,
}

/// Reads and checks everything. Sends nothing, and writes only to the run's own temporary directory and, about sandbox
/// support, to the user's cache.
pub async fn prepare(
    arguments: &RunArgs,
    environment: &Environment,
    place: &Place,
    id: &str,
) -> Result<Prepared, Failure> {
    let workspace = Arc::clone(&place.workspace);
    let cache = place.cache(environment);
    let _probing = (arguments.policy.sandbox != Some(SandboxMode::Off))
        .then(|| sandbox::doctor::probe_ahead(sandbox::own_executable(), cache.as_deref()));
    let repository = place.checkout.repository.clone();
    let top = place.top().to_path_buf();

    let flags = TrustFlags {
        trusted_ref: arguments.policy.trusted_ref.clone(),
        trust_checkout: arguments.policy.trust_checkout,
    };
    let trusted = place.trusted_by(&flags, environment)?;
    let request = settings::load::Request {
        project_root: top.clone(),
        around: place.checkout.around.clone(),
        trusted: trusted.checkout,
        trusted_ref: match &trusted.tree {
            Some(_) => trusted.read_text(&top, ".qwen/settings.json")?,
            None => None,
        },
        bare: arguments.context.bare,
    };
    let loaded = settings::load(&request, environment).map_err(SetupError::Settings)?;
    let (settings, environment, mut warnings) = (loaded.settings, loaded.environment, loaded.warnings);
    warnings.extend(place.approval_left_out(&trusted, &environment));
    if !arguments.context.bare {
        warnings.extend(trusted.left_out(&top, workspace.root(), &context::names(&settings))?);
    }
    let says_no = |key: &Option<settings::Valued<bool>>| key.as_ref().is_some_and(|yes| !yes.value);
    workspace.disregard(Ignored {
        git: says_no(&settings.respect_git_ignore),
        qwen: says_no(&settings.respect_qwen_ignore),
    });
    if let Some(names) = &settings.custom_ignore_files {
        workspace.hold_to(names.value.clone());
    }
    workspace.ignore_also(trusted.ignores(&top, &workspace.ignore_files())?);

    let time = jiff::Timestamp::now().to_string();
    let recipes_of = super::from_hook::recipes_of(arguments, repository.as_ref())?;
    let surroundings = Surroundings {
        environment: &environment,
        top: &top,
        root: workspace.root(),
        repository: repository.as_ref(),
        trusted: &trusted,
        tree: recipes_of.as_ref(),
        state: place.state().ok(),
    };
    let recipe = super::recipe::load(arguments, &surroundings, id, &time).await?;
    let with_wishes = recipe.as_ref().map(|active| with_wishes(arguments, active));
    let arguments = with_wishes.as_ref().unwrap_or(arguments);
    let wishes = servers::Wishes {
        configs: &arguments.context.mcp_config,
        allowed: &arguments.context.allowed_mcp_server_names,
        trusted: Some((&trusted, &top)),
    };
    let mut chosen_servers = servers::choose(&settings, wishes, &environment)?;
    warnings.append(&mut chosen_servers.warnings);

    let started = super::trust::commands(&settings, &chosen_servers);
    trusted.require_same(&top, workspace.root(), &environment, &started)?;

    let mode = approval_mode(arguments, &settings, &mut warnings)?;
    let asked = arguments.changes.mode();
    let delivers = matches!(asked, Some(ChangesMode::Apply | ChangesMode::Commit | ChangesMode::Branch(_)));
    if mode == Some(ApprovalMode::Plan) && delivers {
        return Err(ModeError::Plan.into());
    }
    let named = arguments.policy.policy.clone().or_else(|| environment.value("QWEN_POLICY"));
    let included = place::included(arguments, &settings, &environment)?;
    let server_names = chosen_servers.names();
    let around = EntryContext {
        servers: &server_names,
        workspace: workspace.root(),
        included: &included,
        home: environment.home.as_deref(),
    };
    let mut lists = tool_lists::of(arguments, &settings, around)?;
    lists.allowed.extend(chosen_servers.trusted());
    let chosen = policy_layers::choose(&PolicySources {
        named: named.as_deref(),
        mode: mode.map(builtin_of),
        delivers,
        lists: &lists,
        cwd: &environment.cwd,
        top: &top,
        trusted: &trusted,
        machine: Path::new("/etc/qwen/policy.yaml"),
    })?;
    warnings.extend(chosen.warnings.iter().cloned());
    let policy = chosen.policy.clone();
    let delivery = delivery_mode(asked, mode, &policy, recipe.as_ref(), &mut warnings)?;
    let outer = policy.clone();
    let mut policy = policy;
    if let Some(active) = &recipe {
        active.requires(&place.checkout.programs, repository.as_ref())?;
        policy = active.narrow(&policy)?;
        warnings.extend(active.recipe.warnings.iter().map(Diagnostic::brief));
    }
    if recipe.as_ref().and_then(|active| active.recipe.needs()).is_some_and(|needs| needs.tools.is_some()) {
        // A recipe that lists its tools gets no server's.
        chosen_servers.configs.clear();
    }
    let pins = servers::with_pins(chosen_servers.configs.clone(), &policy, &chosen.folder, (&trusted, &top))?;
    let output = recipe.as_ref().map(|active| active.recipe.output()).unwrap_or_default();
    let json_schema = arguments
        .output
        .json_schema
        .as_deref()
        .map(|given| answers::schema_flag(given, &|path| trusted.named_text(&top, &environment.cwd.join(path))))
        .transpose()?;
    let wanted = Wanted::new(&output, json_schema, arguments.output.fail_on.map(severity))?;

    let ignored_outputs = delivers_ignored(&policy, &delivery)?;
    let home = environment.home.as_ref().map(|home| home.display().to_string()).unwrap_or_default();
    let demand = demand(arguments, &policy)?;
    let variables: BTreeMap<OsString, OsString> =
        environment.variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
    // The runner's own facts name its own directory of outputs, which is created with it.
    let git = repository.as_ref().map(outcome::git_facts).unwrap_or_default();
    let facts = outcome::facts(&workspace, home.clone(), PathBuf::new(), included.clone(), git.clone());
    chosen.require_tests(&facts)?;
    let runner = Runner::new(
        Arc::clone(&workspace),
        place.checkout.clone(),
        policy.clone(),
        facts,
        demand,
        variables.clone(),
        sandbox::own_executable(),
    )
    .map_err(SetupError::TemporaryFolder)?
    .with_ignored_outputs(ignored_outputs);
    if demand == Demand::Require {
        runner.confinement().map_err(SetupError::Sandbox)?;
    }
    let on_base = recipe.as_ref().is_some_and(|active| active.recipe.checks().iter().any(|check| check.tree.is_some()));
    let base = if on_base {
        let pristine = Arc::new(Workspace::open(workspace.root()).map_err(PlaceError::Workspace)?);
        let facts = outcome::facts(&pristine, home.clone(), PathBuf::new(), included.clone(), git.clone());
        let runner = Runner::new(
            pristine,
            place.checkout.clone(),
            outer.clone(),
            facts,
            demand,
            variables,
            sandbox::own_executable(),
        );
        Some(runner.map_err(SetupError::TemporaryFolder)?)
    } else {
        None
    };

    let mut prompt = match &recipe {
        Some(_) => Prompt::default(),
        None => read_prompt(arguments, (&trusted, &top), &environment, &mut warnings).await?,
    };
    let wishes = recipe.as_ref().and_then(|active| active.recipe.file.model.clone()).unwrap_or_default();
    let client = super::model::choose(arguments, &settings, &environment, place, &wishes).await?;
    warnings.extend(client.warnings.iter().cloned());
    strictly(arguments, &warnings)?;
    let mut limits = limits(arguments, &settings, &policy);
    if let Some(active) = &recipe {
        limits = lowest_of(&limits, &active.limits());
    }
    if arguments.limits.max_cost_usd.is_some() && client.as_model().facts().price.is_none() {
        return Err(Failure::new(
            Exit::Config,
            format!("--max-cost-usd needs a price, and the price of {} is unknown", client.name),
            "use --max-total-tokens instead",
        ));
    }

    let extra = super::tools::Wanted {
        settings: &settings,
        environment: &environment,
        policy: &policy,
        home: &home,
        included: &included,
        top: &top,
        project: trusted.source(),
        bare: arguments.context.bare,
    };
    let super::tools::Tools { mut registry, agents, discovered, warnings: of_tools } =
        super::tools::tools(&extra, &workspace, &runner).await;
    warnings.extend(of_tools);
    strictly(arguments, &warnings)?;
    if let Some(schema) = &wanted.schema {
        registry.add(StructuredOutput::new(schema.clone()));
    }
    let undo_folder = match (&delivery, arguments.changes.no_undo) {
        (Mode::Apply | Mode::Commit, false) => Some(place.state()?.join("undo")),
        _ => None,
    };
    preflight(&delivery, arguments.changes.sign, &workspace, repository.as_ref(), undo_folder.as_deref())?;
    if let Some(undo) = &undo_folder {
        super::apply::none_cut_off(undo, workspace.root())?;
    }
    let secrets = Arc::new(
        Secrets::new(&secret_variables(&environment, client.key.as_ref(), recipe.as_ref()), &policy.secret_patterns())
            .map_err(SetupError::SecretPatterns)?,
    );
    // Last, as it may take longest: every other error has been found by now.
    let (mcp, mcp_servers) =
        servers::start(&chosen_servers, pins, &runner, environment.home.as_deref(), &mut warnings).await?;
    let judged = outcome::facts(&workspace, home.clone(), runner.outputs(), included.clone(), git.clone());
    // A tool that only lacks the user's approval is shown: its calls are denied, and the denial says what would allow
    // it.
    let allowable =
        policy.allowing(&server_names.iter().map(|name| ToolEntry::server(name, "mcp")).collect::<Vec<_>>());
    let allows = |access: &Access| allowable.authorize("mcp", std::slice::from_ref(access), &judged).1.is_some();
    warnings.extend(mcp.register(&mut registry, &allows));
    warnings.extend(lists.unknown(&discovered, &named_servers(server_names, &mcp)));
    strictly(arguments, &warnings)?;
    warnings.extend(servers::waiting(&mcp, &policy, &allowable, &judged));
    let commands = match arguments.context.bare {
        true => Commands::none(),
        false => Commands::of(&environment, &top, &trusted, &policy),
    };
    // A server cannot take a name that a file has: its prompt can be called as `server__prompt`.
    let of_server = match commands.has(&prompt.typed_text()) {
        true => None,
        false => mcp.expand(&prompt.typed_text()).await,
    };
    if let Some(expanded) = of_server {
        let text = expanded.map_err(ServerError::Prompt)?;
        // Treated as text that was read: it is the server's, and calls no command here.
        prompt.read =
            Some(prompt.read.map_or(text.clone(), |read| format!("{}\n\n{text}", read.trim_end_matches('\n'))));
        prompt.typed = Vec::new();
    }
    let masking = Arc::clone(&secrets);
    let redacts = policy.redacts();
    let context = if arguments.context.bare {
        Vec::new()
    } else {
        let (context, problems) = context::gather(&ContextSources {
            home: environment.home.as_deref(),
            top: &top,
            workspace: workspace.root(),
            project: trusted.source(),
            settings: &settings,
            policy: &policy,
        });
        skipped(problems, arguments.context.strict, &mut warnings)?;
        context
    };
    let mut problems = Vec::new();
    let hooks =
        Hooks::of(&settings, &environment, place.root().to_path_buf(), &place.checkout.programs, &mut problems)?;
    let images = images::read(&arguments.input.images, &environment.cwd, client.facts_of_images(), &mut problems)?;
    skipped(problems, arguments.context.strict, &mut warnings)?;
    let mut appended: Vec<String> = Vec::new();
    if let Some(active) = &recipe {
        appended.extend(active.instructions()?);
    }
    appended.extend(wanted.instruction());
    appended.extend(mcp.instructions());
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
        reads_pages: settings.web_fetch_summarize.as_ref().is_some_and(|summarize| summarize.value),
        memory: RunMemory::default(),
        tool_limits,
        redact: Box::new(move |text| if redacts { redact::mask(&masking, text) } else { (text, 0) }),
        secrets,
        max_output_tokens: arguments.model.max_output_tokens,
        // A mode delivers changes if there are any; it does not require any.
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
        git,
        replay: arguments.test.replay.as_ref().map(|path| path.display().to_string()),
        commands,
        images,
        hooks,
        from_hook: arguments.from_hook.clone(),
        answers: super::answer_cache::Folder::of(arguments, cache),
        client,
        policy,
    };
    let own_files = [
        &arguments.output.result_file,
        &arguments.output.events_file,
        &arguments.output.patch_file,
        &arguments.output.summary_file,
        &arguments.output.sarif_file,
        &arguments.output.rdjson_file,
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

/// Tells whether what commands leave in ignored files and directories is delivered (`sandbox.workspace: in-place`).
fn delivers_ignored(policy: &Policy, delivery: &Mode) -> Result<bool, ModeError> {
    match (policy.workspace_mode(), delivery) {
        (WorkspaceMode::Staged, _) | (WorkspaceMode::InPlace, Mode::DryRun) => Ok(false),
        (WorkspaceMode::InPlace, Mode::Apply | Mode::Commit) => Ok(true),
        (WorkspaceMode::InPlace, Mode::Branch(_)) => Err(ModeError::InPlace),
    }
}

/// Returns the servers with the tools of the connected ones.
fn named_servers(names: Vec<String>, connected: &Servers) -> Vec<(String, Option<Vec<String>>)> {
    let mut tools: BTreeMap<String, Vec<String>> = connected.tools().into_iter().collect();
    names.into_iter().map(|name| (name.clone(), tools.remove(&name))).collect()
}

/// Reports what was skipped; `--strict` makes it an error.
fn skipped(problems: Vec<String>, strict: bool, warnings: &mut Vec<String>) -> Result<(), Failure> {
    if strict && !problems.is_empty() {
        return Err(SetupError::Strict(problems).into());
    }
    warnings.extend(problems);
    Ok(())
}

/// Returns the flags, with the recipe's options for the model where they are not set.
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

/// Under `--strict` a warning is an error.
fn strictly(arguments: &RunArgs, warnings: &[String]) -> Result<(), Failure> {
    if !arguments.context.strict || warnings.is_empty() {
        return Ok(());
    }
    Err(SetupError::Strict(warnings.to_vec()).into())
}

/// Returns the variables in which secrets are looked for: the process's, those of `.env` files, the key in use, and the
/// recipe's secret parameters.
pub fn secret_variables(
    environment: &Environment,
    key: Option<&Secret>,
    recipe: Option<&Active>,
) -> BTreeMap<String, String> {
    let mut variables = environment.variables.clone();
    for (name, (value, _)) in &environment.additional {
        variables.entry(name.clone()).or_insert_with(|| value.clone());
    }
    if let Some(key) = key.filter(|key| !variables.values().any(|value| value.trim() == key.expose())) {
        variables.insert("API_KEY".to_owned(), key.expose().to_owned());
    }
    variables.extend(recipe.into_iter().flat_map(Active::secrets));
    variables
}
