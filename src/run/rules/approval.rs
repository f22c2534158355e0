//! Decides whose files count: by flags, by the event that started a CI system, and by approvals.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::started::Started;
use super::trust::{TrustFlags, Trusted, below, parts, programs};
use crate::bounded;
use crate::checkouts::{Around, checkouts_around};
use crate::git::trusted::{self, TrustedTree};
use crate::policy::trust::{Approval, Circumstances, Trust};
use crate::run::conversation::hooks;
use crate::run::error::{Failure, TrustError};
use crate::run::runner::servers;
use crate::settings::{self, Environment, Settings};

/// Maximum bytes of an event that is read.
const LARGEST_EVENT: u64 = 64 << 20;

/// Returns every command that a run with these settings may start.
pub fn commands(settings: &Settings, servers: &servers::ServerSelection) -> Vec<Started> {
    let mut started = hooks::commands(&settings.hooks);
    let discovery = [&settings.tools.discovery_command, &settings.tools.call_command].into_iter().flatten();
    started.extend(discovery.map(|command| Started::text("the discovery of tools", &command.value)));
    started.extend(servers.started());
    started
}

/// What an approval of a checkout covers.
#[derive(Debug, Default)]
pub struct Covered {
    /// The files.
    pub approval: Approval,
    /// The commands that may start further files of the checkout, with why these are not known.
    pub undetermined: Vec<(String, String)>,
}

/// Hashes what an approval covers: [the checkout's own settings](trusted::fingerprint), and the files that came with the
/// checkout and that a command of these or of the user's settings names. Settings that cannot be read name none: the
/// run ends with that error.
pub fn covered(top: &Path, around: &Around, environment: &Environment) -> std::io::Result<Covered> {
    let mut covered = Covered { approval: trusted::fingerprint(top, &around.workspace)?, ..Covered::default() };
    if covered.approval.files.is_empty() {
        return Ok(covered);
    }
    let request = settings::load::Request {
        project_root: top.to_path_buf(),
        around: around.clone(),
        trusted: true,
        ..settings::load::Request::default()
    };
    let Ok(loaded) = settings::load(&request, environment) else { return Ok(covered) };
    let chosen = servers::choose(&loaded.settings, servers::ServerOptions::default(), &loaded.environment);
    let path = environment.value("PATH");
    let mut files = BTreeSet::new();
    for command in commands(&loaded.settings, &chosen.unwrap_or_default()) {
        let words = command.words(environment.home.as_deref(), path.as_deref()).unwrap_or_else(|what| {
            covered.undetermined.push((command.name.clone(), what));
            command.as_written()
        });
        let places = command.places(top, &around.workspace);
        let words = words.iter().flat_map(|word| parts(word));
        files.extend(words.flat_map(|word| programs(top, &places, environment, &word)));
    }
    let is_repository = top.join(".git").symlink_metadata().is_ok();
    for file in files {
        // What the user built or keeps there changes without anybody else.
        let came_along = |below: String| trusted::came_with_checkout(top, &below).unwrap_or(true);
        if !is_repository || below(top, &file).is_some_and(came_along) {
            trusted::add_to(&mut covered.approval, top, &file)?;
        }
    }
    Ok(covered)
}

/// Decides whose files count. A trusted commit that the clone lacks is an error: continuing without it would be a
/// guess.
pub fn find(
    flags: &TrustFlags,
    environment: &Environment,
    top: &Path,
    around: &Around,
    is_repository: bool,
    state: Option<&Path>,
) -> Result<Trusted, Failure> {
    let event_name = environment.value("GITHUB_EVENT_NAME");
    let event = match (&event_name, environment.value("GITHUB_EVENT_PATH")) {
        (Some(_), Some(path)) => read_event(&environment.cwd.join(path)),
        _ => None,
    };
    let trust_checkout = flags.trust_checkout || environment.is_on("QWEN_TRUST_CHECKOUT");
    let is_ci = environment.is_ci();
    let by_operator = trust_checkout || flags.trusted_ref.is_some() || is_ci || event_name.is_some();
    let circumstances = Circumstances {
        trust_checkout,
        trusted_ref: flags.trusted_ref.as_deref(),
        is_ci,
        event_name: event_name.as_deref(),
        event: event.as_ref(),
        is_approved: !by_operator && state.is_some_and(|state| is_approved(state, top, around, environment)),
    };
    match circumstances.trust() {
        Trust::Checkout => Ok(Trusted::as_it_lies()),
        Trust::Nothing { why } => {
            let asks = event_name.is_none();
            Ok(Trusted { checkout: false, tree: None, asks, is_change: by_operator, why_not: why })
        }
        Trust::Ref(found) if !is_repository => {
            if flags.trusted_ref.is_some() {
                return Err(TrustError::NoRepository(found.revision.to_string()).into());
            }
            let why_not = "not in a git repository".to_owned();
            Ok(Trusted { checkout: false, tree: None, asks: false, is_change: true, why_not })
        }
        Trust::Ref(_)
            if flags.trusted_ref.is_none() && checkouts_around(top.parent().unwrap_or(top)).next().is_some() =>
        {
            let why_not =
                format!("{} is inside another checkout, whose change may have brought it along", top.display());
            Ok(Trusted { checkout: false, tree: None, asks: false, is_change: true, why_not })
        }
        Trust::Ref(found) => {
            let tree = TrustedTree::find(top, &found.revision, &found.why)?;
            Ok(Trusted { checkout: false, tree: Some(tree), asks: false, is_change: true, why_not: String::new() })
        }
    }
}

fn read_event(path: &Path) -> Option<Value> {
    serde_json::from_slice(&bounded::regular(path, LARGEST_EVENT).ok()?).ok()
}

fn is_approved(state: &Path, top: &Path, around: &Around, environment: &Environment) -> bool {
    let Some(approval) = trusted::read_approval(&trusted::approval_file(state, top)) else { return false };
    covered(top, around, environment).is_ok_and(|now| approval.changed(&now.approval).is_empty())
}
