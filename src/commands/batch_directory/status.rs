//! Runs `qwen batch status`: what is done, running, left and spent.

use std::io::Write;
use std::path::Path;

use super::error::BatchError;
use super::opened::Batch;
use crate::batch::provider::Step;
use crate::batch::result::BatchResult;
use crate::batch::shard::Shard;
use crate::batch::tally::{Counts, Share};
use crate::cli::batch_directory::{BatchFormat, StatusArgs};
use crate::commands::console::{appearance, print};
use crate::emit::words::{self, count};
use crate::emit::{Ended, Mark, to_line};
use crate::exit::Exit;
use crate::run::Failure;
use crate::settings::Environment;

pub(super) fn run(arguments: &StatusArgs, environment: &Environment, out: &mut dyn Write) -> Result<Exit, Failure> {
    let batch = Batch::open(std::slice::from_ref(&arguments.directory), &environment.cwd)?;
    let summary = batch.result(false, Share::Count(0))?;
    match arguments.output_format {
        BatchFormat::Result => print(out, &(to_line(&summary) + "\n")),
        BatchFormat::Text => {
            let ended = Ended { notes: notes(&batch, &summary)?, ..shown(&summary, &arguments.directory) };
            print(out, &ended.text(&appearance(environment)))
        }
    }
}

/// Says how the items of a batch ended.
pub(super) fn shown(summary: &BatchResult, directory: &Path) -> Ended {
    let Counts { total, ok, findings, denied, failed, not_final, .. } = summary.items;
    let kinds = [(ok, "ok"), (findings, "findings"), (denied, "denied"), (failed, "failed"), (not_final, "left")];
    let kinds = kinds.iter().filter(|(number, _)| *number > 0).map(|(number, kind)| format!(" · {kind} {number}"));
    let headline = format!("batch {}/{total}{}", total - not_final, kinds.collect::<String>());
    let bad = denied + failed;
    let mark = match (bad, not_final) {
        (0, 0) => Mark::Good,
        (0, _) => Mark::Note,
        _ => Mark::Partly,
    };
    let failed = words::for_shell(&directory.display().to_string())
        .filter(|_| bad > 0)
        .map(|directory| ("keys of failed items", format!("qwen batch report {directory} --failed")));
    Ended { mark, headline, files: Vec::new(), notes: Vec::new(), next: failed.into_iter().collect() }
}

/// Says what was spent, what is running and which shards are there.
fn notes(batch: &Batch, summary: &BatchResult) -> Result<Vec<String>, BatchError> {
    let mut notes = Vec::new();
    let codes = summary.by_exit_code.iter().map(|(code, number)| format!("{code} × {number}"));
    let codes = codes.collect::<Vec<_>>().join(", ");
    if !codes.is_empty() {
        notes.push(format!("exit codes: {codes}"));
    }
    notes.extend(spent(summary));
    let (mut started, mut stopped) = (0, 0);
    batch.each::<BatchError>(false, &mut |_, found| {
        if found.is_started() {
            let is_running = found.part.is_some_and(|part| part.is_locked);
            *(if is_running { &mut started } else { &mut stopped }) += 1;
        }
        Ok(())
    })?;
    let processes = batch.parts.iter().filter(|part| part.is_locked).count() as u64;
    if processes > 0 {
        let plural = if processes == 1 { "" } else { "es" };
        notes.push(format!("running: {} in {processes} process{plural}", count(started, "item")));
    }
    if stopped > 0 {
        notes.push(format!("{} started and not ended: the process was killed", count(stopped, "item")));
    }
    for part in &batch.parts {
        let sent = super::cancel::sent(part)?;
        notes.extend(sent.open().map(|sent| {
            let name = sent.batch.as_deref().unwrap_or("not handed over yet");
            let state = if sent.step == Step::Ended { "answered" } else { "at the provider" };
            format!("{state}: {name}, {}", count(sent.items, "request"))
        }));
    }
    let missing = missing(batch);
    if !missing.is_empty() {
        notes.push(format!("shards that are not here: {}", missing.join(", ")));
    }
    let torn = batch.parts.iter().filter(|part| part.is_torn && !part.is_locked);
    notes.extend(
        torn.map(|part| format!("the last line of {} is cut off and does not count", part.path("journal.jsonl"))),
    );
    Ok(notes)
}

/// Says what all runs have used.
fn spent(summary: &BatchResult) -> Option<String> {
    let usage = &summary.usage;
    let cost = match summary.cost_usd {
        Some(cost) => words::about(&words::cost(cost)),
        None => "a cost that is not known".to_owned(),
    };
    let (Some(input), Some(output)) = (usage.input_tokens, usage.output_tokens) else {
        return Some(format!("spent: ~{} tokens, {cost}", words::tokens(usage.tokens())));
    };
    if input.saturating_add(output) == 0 {
        return None;
    }
    let cached = usage.cache_read_input_tokens.unwrap_or_default();
    let percent = cached.min(input).saturating_mul(100) / input.max(1);
    let (input, output) = (words::tokens(input), words::tokens(output));
    Some(format!("spent: {input} tokens in ({percent}% from the cache), {output} out, {cost}"))
}

/// Names the shards whose directory is not there.
pub(super) fn missing(batch: &Batch) -> Vec<String> {
    let Some(of) = batch.parts.first().and_then(|part| part.shard).map(Shard::of) else { return Vec::new() };
    let is_missing = |shard: &Shard| !batch.parts.iter().any(|part| part.shard == Some(*shard));
    let all = (1..=u64::from(of)).filter_map(|number| Shard::new(number, of.into()).ok());
    all.filter(is_missing).map(|shard| shard.to_string()).collect()
}
