//! The second stage: what one item of a batch, or the one of a run, is to do, and by which rules.

use std::path::PathBuf;
use std::sync::Arc;

use super::lent::Lent;
use super::modes::{delivery_mode, demand, on_deny};
use super::shared::Shared;
use super::telemetry::Reported;
use crate::agent::OnDeny;
use crate::base::Diagnostic;
use crate::base::trace::Trace;
use crate::cli::RunArgs;
use crate::cli::run::{ApprovalMode, FailOn};
use crate::event::PolicyFacts;
use crate::policy::file::{UntrustedInput, WorkspaceMode};
use crate::policy::{Facts, GitFacts, Policy};
use crate::recipe::file::{Confidence, Severity};
use crate::recipe::{Recipe, needs};
use crate::run::error::{Failure, ModeError, RecipeError, SetupError};
use crate::run::finish::mode::Mode;
use crate::run::recipe::answers::{self, AnswerSpec};
use crate::run::recipe::from_hook;
use crate::run::recipe::{self, Active, RecipeContext};
use crate::run::rules::facts;
use crate::run::runner::servers;
use crate::sandbox::Demand;
use crate::tools::mcp::Config;
use crate::tools::mcp::pins::Pins;
use crate::verify::findings::Gate;
use crate::workspace::Workspace;

/// What an item is to do.
pub struct Item {
    /// The run's id.
    pub id: String,
    /// The workspace, in which its changes are staged.
    pub workspace: Arc<Workspace>,
    /// When it started, for records.
    pub time: String,
    /// The flags, with the recipe's options for the model where they are not set.
    pub arguments: RunArgs,
    /// The recipe.
    pub recipe: Option<Active>,
    /// The rules.
    pub rules: Rules,
    /// How changes are delivered.
    pub delivery: Mode,
    /// The required isolation.
    pub demand: Demand,
    /// What the answer must look like.
    pub wanted: AnswerSpec,
    /// The servers to start, with their pins.
    pub servers: Vec<(Config, Pins)>,
    /// How it is reported to OpenTelemetry.
    pub reported: Option<Reported>,
    /// What the owner should know.
    pub warnings: Vec<String>,
}

/// The rules of an item, and the facts that decisions rest on.
pub struct Rules {
    /// The policy.
    pub policy: Policy,
    /// The policy without the recipe's needs: for the recipe's own commands.
    pub outer: Policy,
    /// The policy's name and digest.
    pub named: PolicyFacts,
    /// The mode, as results name it.
    pub permission_mode: &'static str,
    /// What a denial does.
    pub on_deny: OnDeny,
    /// Untrusted text is in the prompt: commands run only isolated.
    pub only_isolated: bool,
    /// Whether `--sandbox off` was given.
    pub isolation_off: bool,
    /// The value of `$HOME`.
    pub home: String,
    /// Included directories.
    pub included: Vec<PathBuf>,
    /// The facts about git.
    pub git: GitFacts,
}

impl Rules {
    /// Returns the facts for decisions about a workspace, whose full outputs are in this directory.
    pub fn facts(&self, workspace: &Arc<Workspace>, outputs: PathBuf) -> Facts {
        facts::facts(workspace, self.home.clone(), outputs, self.included.clone(), self.git.clone())
    }
}

impl Item {
    /// Finds the recipe and everything that follows from it. May read standard input.
    pub async fn open(
        shared: &Shared,
        arguments: &RunArgs,
        id: &str,
        reported: Option<Reported>,
        lent: Option<&Lent<'_>>,
    ) -> Result<Item, Failure> {
        let time = jiff::Timestamp::now().to_string();
        let recipe = load(shared, arguments, (id, &time), lent).await?;
        let arguments = recipe.as_ref().map_or_else(|| arguments.clone(), |active| with_wishes(arguments, active));
        let mut warnings = shared.warnings.clone();
        warnings.extend(reported.iter().flat_map(|reported| reported.warnings.clone()));
        let (mut outer, asked) = (shared.policy.policy.clone(), arguments.changes.mode());
        let mut delivery = delivery_mode(asked, shared.mode, &outer, recipe.as_ref(), &mut warnings)?;
        let (mut policy, mut proposes, mut configs) = (outer.clone(), false, shared.servers.configs.clone());
        if let Some(active) = &recipe {
            active.requires(&shared.place.checkout.programs, shared.place.repository())?;
            (policy, proposes) = narrowed(shared, &arguments, active, &mut outer)?;
            warnings.extend(active.recipe.warnings.iter().map(Diagnostic::brief));
            // A recipe that lists its tools gets no server's.
            if active.recipe.needs().is_some_and(|needs| needs.tools.is_some()) {
                configs.clear();
            }
        }
        if proposes {
            only_propose(&mut delivery, &mut warnings);
            configs.clear();
        }
        let held = (&mut delivery, &mut configs, &mut warnings);
        proposes |= narrowed_by_session(shared, &arguments, (&mut policy, &mut outer), held)?;
        let top = shared.place.top();
        let servers = servers::with_pins(configs, &policy, &shared.policy.folder, (&shared.trusted, top))?;
        let wanted = wanted(shared, &arguments, recipe.as_ref())?;
        let demand = demand(&arguments, &policy)?;
        let rules = Rules {
            named: policy.facts(),
            permission_mode: shared.mode.map_or("default", ApprovalMode::name),
            on_deny: on_deny(&arguments, &policy, recipe.as_ref().map(|active| active.recipe.output().kind)),
            only_isolated: proposes,
            isolation_off: demand == Demand::Off,
            home: shared.home(),
            included: shared.included.clone(),
            git: shared.place.repository().map(facts::git_facts).unwrap_or_default(),
            policy,
            outer,
        };
        Ok(Item {
            id: id.to_owned(),
            workspace: workspace(shared, lent.is_some()),
            time,
            arguments,
            recipe,
            rules,
            delivery,
            demand,
            wanted,
            servers,
            reported,
            warnings,
        })
    }

    /// Returns the trace that it is reported in.
    pub fn trace(&self) -> Option<Arc<Trace>> {
        self.reported.as_ref().map(|reported| Arc::clone(&reported.trace))
    }

    /// Tells whether what commands leave in ignored files and directories is delivered
    /// (`sandbox.workspace: in-place`).
    pub fn delivers_ignored(&self) -> Result<bool, ModeError> {
        match (self.rules.policy.workspace_mode(), &self.delivery) {
            (WorkspaceMode::Staged, _) | (WorkspaceMode::InPlace, Mode::DryRun) => Ok(false),
            (WorkspaceMode::InPlace, Mode::Apply | Mode::Commit) => Ok(true),
            (WorkspaceMode::InPlace, Mode::Branch(_)) => Err(ModeError::InPlace),
        }
    }

    /// Adds warnings; under `--strict` one is an error.
    pub fn warn(&mut self, warnings: impl IntoIterator<Item = String>) -> Result<(), SetupError> {
        self.warnings.extend(warnings);
        match self.arguments.context.strict && !self.warnings.is_empty() {
            true => Err(SetupError::Strict(self.warnings.clone())),
            false => Ok(()),
        }
    }

    /// Adds warnings about what was skipped; under `--strict` these alone are the error.
    pub fn skipped(&mut self, problems: Vec<String>) -> Result<(), SetupError> {
        if self.arguments.context.strict && !problems.is_empty() {
            return Err(SetupError::Strict(problems));
        }
        self.warnings.extend(problems);
        Ok(())
    }
}

/// Returns the policy of a run with a recipe, and whether untrusted text leaves it only to propose; then `outer`, which
/// the recipe's own commands run under, has no network either.
fn narrowed(
    shared: &Shared,
    arguments: &RunArgs,
    active: &Active,
    outer: &mut Policy,
) -> Result<(Policy, bool), Failure> {
    let by_writer = arguments.from_job.by_writer || !shared.environment.is_ci();
    let untrusted = active.untrusted_input(outer, by_writer);
    let policy = active.narrow(outer, untrusted)?;
    let proposes = untrusted == UntrustedInput::Propose;
    if proposes {
        *outer = active.without_network(outer)?;
    }
    Ok((policy, proposes))
}

/// Takes away from a run that continues a session with text of strangers what was taken away from the run that was given it;
/// tells whether it may still propose.
fn narrowed_by_session(
    shared: &Shared,
    arguments: &RunArgs,
    (policy, outer): (&mut Policy, &mut Policy),
    (delivery, configs, warnings): (&mut Mode, &mut Vec<Config>, &mut Vec<String>),
) -> Result<bool, Failure> {
    let by_writer = arguments.from_job.by_writer || !shared.environment.is_ci();
    let untrusted = outer.untrusted_input();
    if !arguments.session.is_untrusted || untrusted == UntrustedInput::Allow {
        return Ok(false);
    }
    let wrong = |cause| RecipeError::Wrong(vec![cause]);
    let proposes = untrusted == UntrustedInput::Propose && by_writer;
    let layer = if proposes { needs::without_network() } else { needs::answer_only() };
    let layer = layer.map_err(wrong)?;
    *policy = policy.clone().and(layer.clone());
    if proposes {
        *outer = outer.clone().and(layer);
    }
    *delivery = Mode::DryRun;
    configs.clear();
    let text =
        "this session has text of strangers; only with `untrusted_input: allow` in the policy may the run act on it";
    warnings.push(text.to_owned());
    Ok(proposes)
}

/// Returns the files to work on: those of the run, or a view of its own for an item of a batch.
fn workspace(shared: &Shared, is_lent: bool) -> Arc<Workspace> {
    match is_lent {
        true => Arc::new(shared.place.workspace.anew()),
        false => Arc::clone(&shared.place.workspace),
    }
}

/// Leaves the tree as it is: untrusted text is in the prompt.
fn only_propose(delivery: &mut Mode, warnings: &mut Vec<String>) {
    if *delivery != Mode::DryRun {
        warnings.push("untrusted text is in the prompt, so the change is only proposed: dry run".to_owned());
        *delivery = Mode::DryRun;
    }
}

/// Finds the recipe and binds its parameters.
async fn load(
    shared: &Shared,
    arguments: &RunArgs,
    (id, time): (&str, &str),
    lent: Option<&Lent<'_>>,
) -> Result<Option<Active>, Failure> {
    let repository = shared.place.repository();
    let tree = from_hook::recipes_of(arguments, repository)?;
    let surroundings = RecipeContext {
        environment: &shared.environment,
        top: shared.place.top(),
        root: shared.place.root(),
        repository,
        trusted: &shared.trusted,
        tree: tree.as_ref(),
        state: shared.place.state().ok(),
    };
    match lent {
        Some(Lent { recipe, values, .. }) => {
            let bind =
                |recipe: &Recipe| recipe::bind_item(recipe.clone(), arguments, &surroundings, values, (id, time));
            Ok(recipe.map(bind).transpose()?)
        }
        None => {
            let active = recipe::load(arguments, &surroundings, id, time).await?;
            if let Some(active) = &active {
                let git = repository.map(facts::git_facts).unwrap_or_default();
                let included = shared.included.clone();
                let facts = facts::facts(&shared.place.workspace, shared.home(), PathBuf::new(), included, git);
                surroundings.require_readable(&active.recipe, &shared.policy.policy, &facts)?;
            }
            Ok(active)
        }
    }
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

/// Returns what the answer must look like.
fn wanted(shared: &Shared, arguments: &RunArgs, recipe: Option<&Active>) -> Result<AnswerSpec, Failure> {
    let output = recipe.map(|active| active.recipe.output()).unwrap_or_default();
    let read = |path: &str| shared.trusted.named_text(shared.place.top(), &shared.environment.cwd.join(path));
    let schema = arguments.output.json_schema.as_deref().map(|given| answers::schema_flag(given, &read)).transpose()?;
    let fail_on = arguments.output.fail_on.map(|level| match level {
        FailOn::Never => Severity::Never,
        FailOn::Error => Severity::Error,
        FailOn::Warning => Severity::Warning,
        FailOn::Note => Severity::Note,
    });
    let gate = Gate {
        fail_on: fail_on.or(output.fail_on).unwrap_or(Severity::Error),
        fail_confidence: arguments.output.fail_confidence.or(output.fail_confidence).unwrap_or(Confidence::Medium),
    };
    Ok(AnswerSpec::new(&output, schema, gate)?.after(arguments.from_job.earlier.clone()))
}
