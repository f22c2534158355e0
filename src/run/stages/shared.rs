//! The first stage: what does not differ between the items of a batch.

use std::path::PathBuf;
use std::sync::Mutex;

use super::modes::{approval_mode, builtin_of, delivery_mode};
use crate::cli::RunArgs;
use crate::cli::run::{ApprovalMode, ChangesMode, SandboxMode};
use crate::policy::Policy;
use crate::policy::lists::{EntryContext, ToolLists};
use crate::run::error::{Failure, ModeError, SetupError};
use crate::run::place::{self, Place};
use crate::run::prompt::context;
use crate::run::rules::approval;
use crate::run::rules::policy_layers::{self, PolicySelection, PolicySources};
use crate::run::rules::tool_lists;
use crate::run::rules::trust::{TrustFlags, Trusted};
use crate::run::runner::servers;
use crate::sandbox::doctor::{Ahead, probe_ahead};
use crate::sandbox::own_executable;
use crate::settings::load::{Loaded, Request};
use crate::settings::{self, Environment, Settings, Valued};
use crate::workspace::ignore::Ignored;

/// What every item of a batch has in common: where it works, whose files count, and the rules.
pub struct Shared {
    /// Where the run works.
    pub place: Place,
    /// Whose files of the checkout count.
    pub trusted: Trusted,
    /// The settings.
    pub settings: Settings,
    /// The environment, with what `.env` and the settings add.
    pub environment: Environment,
    /// The mode.
    pub mode: Option<ApprovalMode>,
    /// The MCP servers to start.
    pub servers: servers::ServerSelection,
    /// Directories outside the workspace that may be read.
    pub included: Vec<PathBuf>,
    /// Lists of tools.
    pub lists: ToolLists,
    /// The policy.
    pub policy: PolicySelection,
    /// The directory of our cache.
    pub cache: Option<PathBuf>,
    /// What the owner should know.
    pub warnings: Vec<String>,
    /// What the first item finds out for the others.
    pub(super) found: Found,
}

/// What the first item finds out for the others.
#[derive(Default)]
pub(super) struct Found {
    /// The context files.
    pub(super) context: Mutex<Option<KnownContext>>,
    /// Isolation is tried out meanwhile.
    _probing: Option<Ahead>,
}

/// Context files that were read, for all items with the same policy.
#[derive(Debug, Clone)]
pub(super) struct KnownContext {
    /// The digest of the policy that let them be read.
    pub(super) policy: String,
    /// Names with texts.
    pub(super) files: Vec<(String, String)>,
    /// Warnings.
    pub(super) problems: Vec<String>,
}

impl Shared {
    /// Reads settings and rules, from the outermost layer inwards. Sends nothing, and writes only, about sandbox support,
    /// to the user's cache.
    pub fn open(arguments: &RunArgs, environment: &Environment, place: Place) -> Result<Shared, Failure> {
        let cache = place.cache(environment);
        let probing = (arguments.policy.sandbox != Some(SandboxMode::Off))
            .then(|| probe_ahead(own_executable(), cache.as_deref()));
        let flags = TrustFlags {
            trusted_ref: arguments.policy.trusted_ref.clone(),
            trust_checkout: arguments.policy.trust_checkout,
        };
        let trusted = place.trusted_by(&flags, environment)?;
        let Loaded { settings, environment, mut warnings, .. } = load(arguments, environment, &place, &trusted)?;
        ignore(&place, &trusted, &settings)?;
        let wishes = servers::ServerOptions {
            configs: &arguments.context.mcp_config,
            allowed: &arguments.context.allowed_mcp_server_names,
            trusted: Some((&trusted, place.top())),
        };
        let mut servers = servers::choose(&settings, wishes, &environment)?;
        warnings.append(&mut servers.warnings);
        let started = approval::commands(&settings, &servers);
        trusted.require_same(place.top(), place.root(), &environment, &started)?;
        let mode = approval_mode(arguments, &settings, &mut warnings)?;
        if mode == Some(ApprovalMode::Plan) && delivers(arguments) {
            return Err(ModeError::Plan.into());
        }
        let included = place::included(&arguments.input.include_directories, &settings, &environment)?;
        let around = EntryContext {
            servers: &servers.names(),
            workspace: place.root(),
            included: &included,
            home: environment.home.as_deref(),
        };
        let mut lists = tool_lists::of(arguments, &settings, around)?;
        lists.allowed.extend(servers.trusted());
        let named = arguments.policy.policy.clone().or_else(|| environment.value("QWEN_POLICY"));
        let delivers = delivers(arguments);
        let rules = Rules { named, mode, delivers, lists: &lists, trusted: &trusted };
        let policy = rules.choose(&place, &environment)?;
        warnings.extend(policy.warnings.iter().cloned());
        Ok(Shared {
            place,
            trusted,
            settings,
            environment,
            mode,
            servers,
            included,
            lists,
            policy,
            cache,
            warnings,
            found: Found { context: Mutex::default(), _probing: probing },
        })
    }

    /// Returns the policy of a delivery that is not that of a run, such as a batch's; refused where it does not allow it.
    pub fn policy_of_delivery(&self, arguments: &RunArgs, asked: ChangesMode) -> Result<Policy, Failure> {
        let named = arguments.policy.policy.clone().or_else(|| self.environment.value("QWEN_POLICY"));
        let (lists, trusted) = (&self.lists, &self.trusted);
        let rules = Rules { named, mode: self.mode, delivers: true, lists, trusted };
        let policy = rules.choose(&self.place, &self.environment)?.policy;
        delivery_mode(Some(asked), self.mode, &policy, None, &mut Vec::new())?;
        Ok(policy)
    }

    /// Returns the same for work in another place, of which nothing is trusted: settings, policy and servers stay those of
    /// this one.
    pub fn elsewhere(&self, place: Place) -> Result<Shared, Failure> {
        let why_not = "it was cloned for a batch".to_owned();
        let trusted = Trusted { checkout: false, tree: None, asks: false, is_change: true, why_not };
        ignore(&place, &trusted, &self.settings)?;
        Ok(Shared {
            place,
            trusted,
            settings: self.settings.clone(),
            environment: self.environment.clone(),
            mode: self.mode,
            servers: self.servers.clone(),
            included: self.included.clone(),
            lists: self.lists.clone(),
            policy: self.policy.clone(),
            cache: self.cache.clone(),
            warnings: self.warnings.clone(),
            found: Found::default(),
        })
    }

    /// Returns the value of `$HOME`.
    pub fn home(&self) -> String {
        self.environment.home_text()
    }
}

/// What the policy is chosen by.
struct Rules<'a> {
    named: Option<String>,
    mode: Option<ApprovalMode>,
    delivers: bool,
    lists: &'a ToolLists,
    trusted: &'a Trusted,
}

impl Rules<'_> {
    fn choose(&self, place: &Place, environment: &Environment) -> Result<PolicySelection, Failure> {
        policy_layers::choose(&PolicySources {
            named: self.named.as_deref(),
            mode: self.mode.map(builtin_of),
            delivers: self.delivers,
            lists: self.lists,
            cwd: &environment.cwd,
            top: place.top(),
            trusted: self.trusted,
            machine: policy_layers::machine(),
        })
    }
}

/// Tells whether a flag asks for a delivery.
pub(super) fn delivers(arguments: &RunArgs) -> bool {
    matches!(arguments.changes.mode(), Some(ChangesMode::Apply | ChangesMode::Commit | ChangesMode::Branch(_)))
}

/// Reads the settings, and lists the files that do not count.
fn load(arguments: &RunArgs, environment: &Environment, place: &Place, trusted: &Trusted) -> Result<Loaded, Failure> {
    let request = Request { bare: arguments.context.bare, ..place.settings_request(trusted)? };
    let mut loaded = settings::load(&request, environment).map_err(SetupError::Settings)?;
    loaded.warnings.extend(place.approval_left_out(trusted, &loaded.environment));
    if !arguments.context.bare {
        let names = context::names(&loaded.settings);
        loaded.warnings.extend(trusted.left_out(place.top(), place.root(), &names)?);
    }
    Ok(loaded)
}

/// Tells the workspace which files are to be ignored.
fn ignore(place: &Place, trusted: &Trusted, settings: &Settings) -> Result<(), Failure> {
    let refuses = |key: &Option<Valued<bool>>| key.as_ref().is_some_and(|yes| !yes.value);
    let workspace = &place.workspace;
    workspace.disregard(Ignored {
        git: refuses(&settings.context.respect_git_ignore),
        qwen: refuses(&settings.context.respect_qwen_ignore),
    });
    if let Some(names) = &settings.context.custom_ignore_files {
        workspace.hold_to(names.value.clone());
    }
    workspace.ignore_also(trusted.ignores(place.top(), &workspace.ignore_files())?);
    Ok(())
}
