//! Runs `qwen batch cancel`: the provider's Batch API answers no more of what was handed to it.

use std::io::Write;

use super::error::BatchError;
use super::opened::{Batch, Part};
use crate::batch::plan::files;
use crate::batch::provider::{AllSent, Line};
use crate::cli::RunArgs;
use crate::cli::batch_directory::CancelArgs;
use crate::commands::batch::provider_error::ProviderError;
use crate::commands::console::{appearance, print};
use crate::emit::words::{self, count};
use crate::emit::{Ended, Mark};
use crate::exit::Exit;
use crate::model::batch_api::BatchApi;
use crate::recipe::file::ModelWishes;
use crate::run::Failure;
use crate::run::error::ConnectError;
use crate::run::place::Place;
use crate::run::stages::{Shared, model};
use crate::settings::Environment;
use crate::workspace::batch_folder::append_provider;

/// Cancels what is at the provider, also while another process waits for it.
pub(super) async fn run(
    arguments: &CancelArgs,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let batch = Batch::open(std::slice::from_ref(&arguments.directory), &environment.cwd)?;
    let (mut notes, mut cancelled) = (Vec::new(), 0);
    for part in &batch.parts {
        let sent = sent(part)?;
        let out: Vec<_> = sent.open().filter(|sent| sent.is_out()).collect();
        if out.is_empty() {
            continue;
        }
        let api = api(arguments, environment, &part.description.plan.model)?;
        for sent in out {
            if sent.account != api.account() {
                return Err(ProviderError::Account.into());
            }
            let known = sent.batch.clone();
            let id = match known {
                Some(id) => Some(id),
                None => api
                    .find(sent.file.as_deref().unwrap_or_default())
                    .await
                    .map_err(ProviderError::Answer)?
                    .map(|found| found.id),
            };
            let Some(id) = id else {
                notes.push(format!("{}: the batch that was about to be created does not exist", part.name()));
                continue;
            };
            let status = status_after(&api, &id).await?;
            append_provider(part.reader.path(), &Line::Cancel { n: sent.n })?;
            cancelled += 1;
            notes.push(format!("{id}: {status}, {}", count(sent.items, "request")));
        }
    }
    let directory = words::for_shell(&arguments.directory.display().to_string());
    let headline = match cancelled {
        0 => "nothing is at the provider".to_owned(),
        cancelled => {
            format!("{cancelled} cancelled at the provider; the command of the batch collects what was answered")
        }
    };
    let mark = if cancelled == 0 { Mark::Note } else { Mark::Good };
    let next = directory.map(|directory| ("what is done", format!("qwen batch status {directory}")));
    let ended = Ended { mark, headline, files: Vec::new(), notes, next: next.into_iter().collect() };
    print(out, &ended.text(&appearance(environment)))
}

/// Reads what was handed to the provider.
pub(super) fn sent(part: &Part) -> Result<AllSent, BatchError> {
    let text = part.reader.file(files::PROVIDER).map_err(|cause| part.unreadable(cause))?.unwrap_or_default();
    let invalid = |line| BatchError::Invalid { path: part.path(files::PROVIDER), cause: format!("line {line}") };
    AllSent::read(&text).map_err(invalid)
}

/// Cancels a batch and returns its status. One that has ended cannot be cancelled.
async fn status_after(api: &BatchApi, id: &str) -> Result<String, ProviderError> {
    let error = match api.cancel(id).await {
        Ok(status) => return Ok(status),
        Err(error) => error,
    };
    match api.look(id).await {
        Ok(Some(remote)) if remote.has_ended() => Ok(remote.status),
        Ok(_) | Err(_) => Err(ProviderError::Answer(error)),
    }
}

/// Opens the way to the server of a batch.
fn api(arguments: &CancelArgs, environment: &Environment, model: &str) -> Result<BatchApi, Failure> {
    let mut flags = RunArgs { model: arguments.model(model), ..RunArgs::default() };
    flags.input.workspace = arguments.workspace.clone();
    let place = Place::open(arguments.workspace.cd.as_deref(), environment)?;
    let shared = Shared::open(&flags, environment, place)?;
    let config = model::server(&flags, &shared, &ModelWishes::default())?;
    Ok(BatchApi::new(config).map_err(ConnectError::Options)?)
}
