//! Runs what `qwen batch` does with the directory of a batch: no model, and, but to cancel, no key.

pub(super) mod branches;
mod cancel;
pub(super) mod chosen;
pub(super) mod deliver;
pub(super) mod destination;
pub(super) mod error;
mod merge;
pub(super) mod opened;
mod push;
mod report;
mod status;

use std::io::Write;

use crate::cli::batch_directory::BatchVerb;
use crate::exit::Exit;
use crate::run::Failure;
use crate::settings::Environment;

pub(super) async fn run(
    verb: &BatchVerb,
    environment: &Environment,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    match verb {
        BatchVerb::Status(arguments) => status::run(arguments, environment, out),
        BatchVerb::Deliver(arguments) => deliver::run(arguments, environment, out, err).await,
        BatchVerb::Report(arguments) => report::run(arguments, environment, out),
        BatchVerb::Merge(arguments) => merge::run(arguments, environment, out),
        BatchVerb::Cancel(arguments) => cancel::run(arguments, environment, out).await,
    }
}
