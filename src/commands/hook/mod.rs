//! Runs `qwen hook`: the commands that git calls. A hook shows a recipe what git is about to record, within a time
//! limit, and lets git continue if no answer is available.

mod asked;
pub(super) mod error;
mod install;
mod message;
mod pre_commit;
mod pre_push;

use crate::cli::hook::HookVerb;
use crate::exit::Exit;
use crate::run::Failure;
use crate::run::place::Place;
use crate::settings::Environment;
use asked::{HookRequest, skipped};
use std::io::Write;

pub(super) async fn run(
    verb: &HookVerb,
    environment: &Environment,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    let common = match verb {
        HookVerb::Install { which, workspace } => return install::install(*which, workspace, environment, out),
        HookVerb::Uninstall { which, workspace } => return install::uninstall(*which, workspace, environment, out),
        HookVerb::PreCommit { common, .. }
        | HookVerb::PrepareCommitMsg { common, .. }
        | HookVerb::PrePush { common, .. } => common,
    };
    if environment.value("QWEN_HOOK").as_deref() == Some("0") {
        return Ok(Exit::Ok);
    }
    let what = if matches!(verb, HookVerb::PrePush { .. }) { "push" } else { "commit" };
    let place = Place::open(common.workspace.cd.as_deref(), environment)?;
    if place.repository().is_none() {
        return skipped(common, what, err, "this directory is not in a git repository with a work tree");
    }
    let asked = HookRequest { place: &place, environment, common, what };
    match verb {
        HookVerb::PrepareCommitMsg { file, source, .. } => {
            let drafted = message::draft(&asked, file, source.as_deref(), out, err).await;
            // A message that is not drafted is written by hand: no reason to stop a commit.
            drafted.or_else(|failure| skipped(common, what, err, &failure.error.message))
        }
        HookVerb::PrePush { remote, .. } => pre_push::run(&asked, remote.as_deref(), out, err).await,
        HookVerb::PreCommit { mode, range, .. } => pre_commit::run(&asked, *mode, range.as_deref(), out, err).await,
        HookVerb::Install { .. } | HookVerb::Uninstall { .. } => unreachable!("they have returned above"),
    }
}
