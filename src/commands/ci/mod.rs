//! Runs `qwen ci`: the two jobs of the GitHub Action. One proposes with a model and a key, the other delivers without
//! either.

mod acknowledge;
mod branch;
mod commands;
mod deliver;
pub(super) mod error;
mod flags;
mod github;
mod guard;
mod inputs;
mod job;
mod posting;
mod proposal;
pub(super) mod push;
mod review;
mod threads;
mod trusted_policy;
mod wanted;

use crate::cli::ci::CiVerb;
use crate::emit::github::add_mask;
use crate::exit::Exit;
use crate::git::KEYS;
use crate::run::Failure;
use crate::settings::Environment;
use inputs::Inputs;
use job::{Job, say, without_inputs};
use std::io::Write;

/// Runs a verb. Everything goes to one stream: a runner reads two without their order.
pub(super) async fn run(verb: CiVerb, environment: &Environment, out: &mut dyn Write) -> Result<Exit, Failure> {
    // Before anything else is said.
    for secret in KEYS.iter().filter_map(|name| environment.variables.get(*name)) {
        say(out, &add_mask(secret));
    }
    let inputs = Inputs::read(environment);
    let mut job = Job { inputs, environment: without_inputs(environment), outputs: Vec::new() };
    match verb {
        CiVerb::Github => github::run(&mut job, out).await,
        CiVerb::Deliver => deliver::run(&mut job, out).await,
        CiVerb::Acknowledge => acknowledge::run(&mut job, out).await,
    }
}
