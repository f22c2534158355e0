//! Adds up how the items of a batch ended.

use super::journal::{Brief, Ended};
use super::plan::{Batch, SCHEMA_VERSION};
use super::result::{BatchResult, Combined, PatchFacts};
use super::tally::{Counts, Share, Tally};
use crate::exit::Exit;

/// Tells whether a run that ended so proposes its change: it ended well, it found something, or only calls were denied.
pub fn delivers(ended: &Ended) -> bool {
    let is = |exit: Exit| exit.code() == ended.exit_code;
    let denied_calls = || ended.error.as_ref().is_some_and(|error| error.code == "denied");
    is(Exit::Ok) || is(Exit::Gate) || is(Exit::NoChanges) || is(Exit::Denied) && denied_calls()
}

/// Tells whether an item that ended so has failed, one that was denied something included.
pub fn has_failed(exit_code: u8) -> bool {
    ![Exit::Ok, Exit::Gate, Exit::NoChanges].iter().any(|exit| exit.code() == exit_code)
}

/// Adds up how the items of a batch ended.
#[derive(Debug, Clone, Default)]
pub struct Sums {
    tally: Tally,
    patches: Vec<PatchFacts>,
    failed_keys: Vec<String>,
}

impl Sums {
    /// Adds an item of the list; `last` is its last end if it is done.
    pub fn add(&mut self, last: Option<&Brief<'_>>) {
        self.tally.list();
        let Some(last) = last else { return };
        let exit_code = last.exit_code();
        self.tally.skip(exit_code);
        if has_failed(exit_code) && exit_code != Exit::Denied.code() {
            self.failed_keys.push(last.key.clone().into_owned());
        }
        self.patches.extend(last.patch());
    }

    /// Returns the result, as of a batch that ends now.
    pub fn result(self, batch: &Batch, items_sha256: &str, allowed: Share) -> BatchResult {
        let exit = self.tally.exit(None, allowed, Exit::Ok);
        BatchResult {
            schema_version: SCHEMA_VERSION,
            batch_id: batch.batch_id.clone(),
            exit_code: exit.code(),
            exit_reason: exit.name().to_owned(),
            plan_sha256: batch.plan_sha256.clone(),
            items_sha256: items_sha256.to_owned(),
            items: Counts { skipped: 0, ..self.tally.counts() },
            by_exit_code: self.tally.by_code().iter().map(|(code, number)| (code.to_string(), *number)).collect(),
            shard: batch.shard,
            combined: Combined { patches: self.patches, ..Combined::default() },
            failed_keys: self.failed_keys,
            ..BatchResult::default()
        }
    }
}
