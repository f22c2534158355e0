//! Judges again what a dry run proposed and delivers it: the implementation of `qwen apply` for every command that uses
//! it.

use std::path::Path;
use std::sync::Arc;

use crate::change::{Change, ChangeSet};
use crate::deliver::gate::Cap;
use crate::deliver::propose::{Chosen, Proposal, Wanted};
use crate::deliver::{self, Delivered, Delivery, Gate, Site};
use crate::git::repository::Repository;
use crate::path::RelPath;
use crate::policy::Facts;
use crate::policy::Policy;
use crate::policy::redact::Secrets;
use crate::workspace::Workspace;

use crate::run::error::{DeliveryError, Failure};
use crate::run::output::masking::published;
use crate::run::rules::judge::judge_change;

/// How closely the files must match those that the dry run found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// Exactly; HEAD must match, too.
    Exact,
    /// Later changes are merged if both do not touch the same lines.
    Merge,
}

/// What to apply.
pub struct Request<'a> {
    /// A result object, the output of `json` or `stream-json`, or a patch.
    pub input: &'a [u8],
    /// The hunks to apply; `None`: all of them.
    pub wanted: Option<&'a Wanted>,
    /// The patch's digest, if it arrived by another way; any other patch is refused.
    pub digest: Option<&'a str>,
    /// How closely the files must match.
    pub fit: Fit,
    /// How to deliver; [`Delivery::DryRun`] only tells whether it could be applied.
    pub how: Delivery,
    /// Maximum files, if lower than the policy's.
    pub max_files: Option<u64>,
    /// Maximum bytes of the patch, if lower than the policy's.
    pub max_patch_bytes: Option<u64>,
}

/// The rules for applying.
pub struct Rules<'a> {
    /// The policy; the `changes` key of a file does not restrict the person who applies.
    pub policy: &'a Policy,
    /// The facts for decisions.
    pub facts: &'a Facts,
    /// What no change may add.
    pub secrets: &'a Secrets,
    /// A further rule of the caller that each change must pass before the policy.
    pub also: &'a dyn Fn(&RelPath) -> Result<(), String>,
}

impl Rules<'_> {
    /// Masks secrets in what is said of a change, and in what is published with it.
    pub fn hide(&self, text: &str) -> String {
        published(text, self.policy, self.secrets)
    }
}

/// What was applied.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Applied {
    /// The result of the delivery.
    pub delivered: Delivered,
    /// Files that had changed since and were merged.
    pub merged: Vec<RelPath>,
    /// Whether the patch is empty: the run changed nothing.
    pub is_empty: bool,
    /// What became of interrupted deliveries and undoings, which was dealt with first.
    pub taken_back: Vec<String>,
    /// The hunks that were applied; `None`: all of them.
    pub chosen: Option<Chosen>,
    /// The commands of the checks that the run made on the whole change.
    pub checks: Vec<String>,
}

/// Applies all of a proposal or nothing, after checking its digest, its base, every path by the policy, protected
/// paths, secrets and sizes. Deliveries of runs use the same check, so that neither can do what the other may not.
pub fn apply(request: &Request<'_>, rules: &Rules<'_>, site: &Site<'_>) -> Result<Applied, Failure> {
    let mut proposal = Proposal::read(request.input, request.digest)?;
    let chosen = request.wanted.map(|wanted| proposal.choose(wanted, site)).transpose()?;
    let may_read = |path: &RelPath| rules.policy.may_read(path, rules.facts).map_err(|denial| denial.reason);
    deliver::gate::check_accesses(&proposal.accesses(site)?, &may_read)?;
    let (mut taken_back, again) = prepared(&request.how, site)?;
    taken_back.iter_mut().for_each(|told| *told = rules.hide(told));
    let site = &Site { repository: again.as_ref().or(site.repository), ..*site };
    let merge = || -> Result<(Delivered, Vec<RelPath>), Failure> {
        let (changes, merged): (ChangeSet, Vec<RelPath>) = match request.fit {
            Fit::Exact => (proposal.changes(site)?, Vec::new()),
            Fit::Merge => proposal.merged(site)?,
        };
        let most = Most { files: request.max_files, patch_bytes: request.max_patch_bytes };
        Ok((delivered(&changes, &request.how, most, rules, site)?, merged))
    };
    let (delivered, merged) = merge().map_err(|failure| failure.after(&taken_back))?;
    let is_empty = proposal.patch.is_empty();
    Ok(Applied { delivered, merged, is_empty, taken_back, chosen, checks: proposal.checks })
}

/// Finds what would make the delivery fail, and deals with interrupted ones. Returns what became of them, and the
/// repository as it is then.
pub fn prepared(how: &Delivery, site: &Site<'_>) -> Result<(Vec<String>, Option<Repository>), Failure> {
    deliver::preflight(how, site)?;
    let taken_back = match (how, site.undo) {
        (Delivery::Apply | Delivery::Commit(_), Some(undo)) => recover(undo, site.root)?,
        _ => Vec::new(),
    };
    // The rollback may have moved HEAD back.
    let again = match taken_back.is_empty() {
        true => None,
        false => Repository::discover(site.root)
            .map_err(|error| Failure::from(DeliveryError::Repository(error)).after(&taken_back))?,
    };
    Ok((taken_back, again))
}

/// Limits of a change that are lower than the policy's.
#[derive(Debug, Clone, Copy, Default)]
pub struct Most {
    /// Files.
    pub files: Option<u64>,
    /// Bytes of the patch.
    pub patch_bytes: Option<u64>,
}

/// Judges a change, and delivers all of it or nothing.
pub fn delivered(
    changes: &ChangeSet,
    how: &Delivery,
    most: Most,
    rules: &Rules<'_>,
    site: &Site<'_>,
) -> Result<Delivered, Failure> {
    // A link is judged by the files that will exist.
    let after = Workspace::with_changes(site.root, changes.clone()).map_err(DeliveryError::Files)?;
    let facts = Facts { tree: Arc::new(after), ..rules.facts.clone() };
    let judge = |path: &RelPath, change: &Change| {
        (rules.also)(path)?;
        judge_change(rules.policy, &facts, path, (change, changes))
    };
    let secret = |path: &RelPath, change: &Change| rules.secrets.added(path, change, rules.policy.refuses_secrets());
    let [max_files, max_patch_bytes] = Cap::both([most.files, most.patch_bytes], rules.policy.change_limits());
    let gate = Gate {
        judge: &judge,
        secret: &secret,
        hide: &|text| rules.hide(text),
        made_by: &|_| None,
        max_files,
        max_patch_bytes,
    };
    let mut delivered = deliver::deliver(changes, how, site, &gate)?;
    if let Some(obstacle) = delivered.obstacle.take() {
        return Err(deliver::DeliverError::conflict(obstacle, "correct that, then try again").into());
    }
    for file in &mut delivered.files {
        file.executes_later = crate::policy::later::executes_later(&file.path);
        file.path = rules.hide(&file.path);
    }
    Ok(delivered)
}

/// Ends a run that finds an interrupted delivery before its first request: the files that it read were half delivered.
pub fn none_cut_off(undo: &Path, root: &Path) -> Result<(), DeliveryError> {
    let told = recover(undo, root)?;
    if told.is_empty() { Ok(()) } else { Err(DeliveryError::CutOff(told.join("; "))) }
}

/// Rolls back or finishes what was interrupted, and says so.
fn recover(undo: &Path, root: &Path) -> Result<Vec<String>, DeliveryError> {
    let recovered = deliver::recover(undo, root).map_err(DeliveryError::NotRolledBack)?;
    Ok(recovered.iter().map(deliver::Recovered::told).collect())
}
