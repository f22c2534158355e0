//! Prepares a run in stages, each made from the one before: what all items share, the item, what runs its commands, the
//! model, the tools, what the model is shown.

pub mod asked;
pub mod bounds;
pub mod commands;
pub mod delivery;
pub mod input;
pub mod item;
pub mod lent;
pub mod model;
pub mod modes;
pub mod server_memory;
pub mod setup;
pub mod shared;
pub mod telemetry;
pub mod toolbox;

use std::sync::Arc;
use std::time::Instant;

use crate::agent::Stopped;
use crate::cli::RunArgs;
use crate::git::dirty::DirtyCheck;
use crate::git::repository::Repository;
use crate::run::error::Failure;
use crate::run::finish::mode::Mode;
use crate::run::finish::stage::Stage;
use crate::run::output::masking::{Masking, secret_variables};
use crate::run::recipe::answer_cache;
use crate::sandbox::Demand;
use crate::workspace::untouched::Untouched;
use asked::Asked;
use commands::Commands;
use delivery::DeliverySpec;
use input::Input;
use item::Item;
use setup::{CheckSpec, RunFacts};
use telemetry::Reported;
use toolbox::RunTools;

pub use lent::Lent;
pub use setup::Setup;
pub use shared::Shared;

/// A run that is ready to begin.
pub struct Prepared {
    /// The constant part.
    pub setup: Setup,
    /// The part that the run changes.
    pub stage: Stage,
    /// What the owner should know.
    pub warnings: Vec<String>,
}

/// Reads and checks everything that an item needs before its first request. Sends nothing, and writes only to the
/// item's own temporary directory.
pub async fn prepare(
    shared: &Shared,
    arguments: &RunArgs,
    id: &str,
    reported: Option<Reported>,
    lent: Option<&Lent<'_>>,
) -> Result<Prepared, Failure> {
    let started_at = Instant::now();
    // The items of a batch would ask git the same, each anew.
    let dirty = DirtyCheck::begin(shared.place.repository().filter(|_| lent.is_none()));
    let mut item = Item::open(shared, arguments, id, reported, lent).await?;
    let commands = Commands::open(shared, &item)?;
    let prompt = Input::prompt(shared, &mut item).await?;
    let asked = Asked::choose(shared, &mut item, lent).await?;
    let account = asked.account(started_at);
    let opened = account.within_time(RunTools::open(shared, &mut item, &commands.runner)).await;
    let mut toolbox = opened.map_err(Stopped::from)??;
    let delivery = DeliverySpec::open(shared, &item)?;
    let variables = secret_variables(&shared.environment, asked.client.key.as_ref(), item.recipe.as_ref());
    let masking = Masking::new(&item.rules.policy, &variables)?;
    masking.watch().into_iter().for_each(|watch| item.workspace.show_to(watch));
    let connected = account.within_time(toolbox.connect(shared, &mut item, &commands.runner)).await;
    let servers = connected.map_err(Stopped::from)??;
    let input =
        account.within_time(Input::open(shared, &mut item, prompt, &servers, &asked.client, &toolbox.offered)).await;
    let input = input.map_err(Stopped::from)??;
    let stage = Stage {
        workspace: Arc::clone(&item.workspace),
        untouched: untouched(shared, &item),
        runner: commands.runner,
        base: commands.base,
        repository: shared.place.checkout.repository.clone(),
        mode: item.delivery,
        servers,
        patch_file: item.arguments.output.patch_file.clone(),
    };
    let replay = item.arguments.test.replay.as_ref().map(|path| path.display().to_string());
    let dirty = dirty.end().await;
    let setup = Setup {
        run: RunFacts {
            id: item.id,
            time: item.time,
            started_at,
            replay,
            dirty,
            trace: item.reported.map(|reported| reported.trace),
            ci_run: telemetry::ci_run(&shared.environment),
        },
        checks: CheckSpec::of(&item.arguments, item.recipe.as_ref()),
        answers: answer_cache::Folder::of(&item.arguments, shared.cache.clone()),
        rules: item.rules,
        recipe: item.recipe,
        wanted: item.wanted,
        asked,
        toolbox,
        masking,
        delivery,
        input,
    };
    Ok(Prepared { setup, stage, warnings: item.warnings })
}

/// Takes a fingerprint of the tree, if no isolation keeps commands from writing to it in a dry run.
fn untouched(shared: &Shared, item: &Item) -> Option<Untouched> {
    if item.demand != Demand::Off || item.delivery != Mode::DryRun {
        return None;
    }
    let (output, test) = (&item.arguments.output, &item.arguments.test);
    let own_files = [
        &output.result_file,
        &output.events_file,
        &output.patch_file,
        &output.summary_file,
        &output.report_file,
        &output.sarif_file,
        &output.rdjson_file,
        &test.record,
    ];
    let reports = item.reported.as_ref().and_then(Reported::file);
    let own_files = own_files.into_iter().flatten().chain(reports);
    let own_files = own_files.map(|path| shared.environment.cwd.join(path)).collect();
    let objects = shared.place.repository().map(Repository::objects);
    Some(Untouched::remember(shared.place.root(), own_files, objects))
}
