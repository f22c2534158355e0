//! Runs `qwen batch merge`: makes one directory of the shards of a batch, as one process would have written it.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::Path;

use super::error::{BatchError, MergeError};
use super::opened::{Batch, Item, Part};
use super::status::{missing, shown};
use crate::base::digest::sha256;
use crate::batch::journal::Brief;
use crate::batch::plan::{self, files};
use crate::batch::tally::Share;
use crate::cli::batch_directory::{BatchFormat, MergeArgs};
use crate::commands::console::{appearance, print};
use crate::emit::{to_line, to_pretty};
use crate::exit::Exit;
use crate::run::Failure;
use crate::settings::Environment;
use crate::workspace::batch_writer::NewBatch;

/// Keys that a message names.
const NAMED: usize = 10;

pub(super) fn run(arguments: &MergeArgs, environment: &Environment, out: &mut dyn Write) -> Result<Exit, Failure> {
    let outputs = match arguments.github {
        true => Some(environment.value("GITHUB_OUTPUT").ok_or(MergeError::NoOutputs)?),
        false => None,
    };
    let batch = Batch::open(&arguments.directories, &environment.cwd)?;
    if !arguments.partial {
        refuse_incomplete(&batch)?;
    }
    let to = environment.cwd.join(&arguments.out);
    let unwritten = |cause| MergeError::Unwritten { path: arguments.out.display().to_string(), cause };
    let new = NewBatch::make(&to).map_err(unwritten)?;
    let summary = batch.result(true, arguments.allow_failures.unwrap_or(Share::Count(0)))?;
    let text = to_pretty(&summary) + "\n";
    write(&batch, &new).map_err(|error| error.or(unwritten))?;
    new.write(files::SUMMARY, text.as_bytes()).and_then(|()| new.keep()).map_err(unwritten)?;
    if let Some(outputs) = outputs {
        let lines = format!("sha256={}\nexit-code={}\n", sha256(text.as_bytes()), summary.exit_code);
        append(&environment.cwd.join(&outputs), &lines)
            .map_err(|cause| MergeError::Unwritten { path: outputs, cause })?;
    }
    match arguments.output_format {
        BatchFormat::Result => print(out, &(to_line(&summary) + "\n")),
        BatchFormat::Text => {
            let mut ended = shown(&summary, &arguments.out);
            ended.notes.push(format!("{} has the digest {}", files::SUMMARY, sha256(text.as_bytes())));
            print(out, &ended.text(&appearance(environment)))
        }
    }
}

/// Refuses to merge what is not whole, and names what is missing.
fn refuse_incomplete(batch: &Batch) -> Result<(), Failure> {
    let shards = missing(batch);
    let (mut keys, mut count) = (Vec::new(), 0_u64);
    batch.each(true, &mut |item, found| -> Result<(), BatchError> {
        if found.part.is_some() && !found.is_done {
            count += 1;
            if keys.len() < NAMED {
                keys.push(item.key.clone());
            }
        }
        Ok(())
    })?;
    match shards.is_empty() && count == 0 {
        true => Ok(()),
        false => Err(MergeError::Incomplete { shards, keys, count }.into()),
    }
}

/// Why a file of the merged directory is not there.
enum Unmerged {
    Batch(BatchError),
    Write(std::io::Error),
}

impl From<BatchError> for Unmerged {
    fn from(error: BatchError) -> Unmerged {
        Unmerged::Batch(error)
    }
}

impl From<std::io::Error> for Unmerged {
    fn from(error: std::io::Error) -> Unmerged {
        Unmerged::Write(error)
    }
}

impl Unmerged {
    fn or(self, unwritten: impl Fn(std::io::Error) -> MergeError) -> Failure {
        match self {
            Unmerged::Batch(error) => error.into(),
            Unmerged::Write(cause) => unwritten(cause).into(),
        }
    }
}

/// Writes everything but the summary.
fn write(batch: &Batch, new: &NewBatch) -> Result<(), Unmerged> {
    let Some(first) = batch.parts.first() else { return Ok(()) };
    let created = batch.parts.iter().map(|part| part.description.created.as_str()).min().unwrap_or_default();
    let merged = plan::Batch { shard: None, created: created.to_owned(), ..first.description.clone() };
    new.write(files::BATCH, (to_pretty(&merged) + "\n").as_bytes())?;
    let mut list = new.create(files::ITEMS)?;
    for line in first.reader.lines(files::ITEMS).map_err(|cause| first.unreadable(cause))?.into_iter().flatten() {
        list.write_all(&line.map_err(|cause| first.unreadable(cause))?.bytes)?;
    }
    list.flush()?;
    let mut kept = HashSet::new();
    for part in &batch.parts {
        kept.extend(part.reader.item_names().map_err(|cause| part.unreadable(cause))?);
    }
    let mut journal = new.create(files::JOURNAL)?;
    batch.each(true, &mut |item, found| -> Result<(), Unmerged> {
        let Some(part) = found.part else { return Ok(()) };
        let lines = part.lines_of(&item.key)?;
        lines.iter().try_for_each(|line| journal.write_all(line))?;
        match lines.last().filter(|_| found.is_done) {
            Some(last) => copy((item, last), part, &kept, new),
            None => Ok(()),
        }
    })?;
    Ok(journal.flush()?)
}

/// Copies the files of an item that is done. Its patch must be the one that its last end names.
fn copy((item, end): (&Item, &[u8]), part: &Part, kept: &HashSet<OsString>, new: &NewBatch) -> Result<(), Unmerged> {
    let end = Brief::read(end).map_err(|cause| part.invalid_journal(cause))?;
    for extension in ["patch", "result.json", "jsonl", "bundle"] {
        let name = item.file(extension);
        let bytes = match kept.contains(OsStr::new(&name)) {
            true => part.reader.item_file(&name).map_err(|cause| part.unreadable(cause))?,
            false => None,
        };
        if extension == "patch" {
            part.check_patch(item, end.patch_sha256.as_deref(), bytes.as_deref())?;
        }
        bytes.map(|bytes| new.write_item(&name, &bytes)).transpose()?;
    }
    Ok(())
}

fn append(path: &Path, text: &str) -> std::io::Result<()> {
    std::fs::OpenOptions::new().append(true).create(true).open(path)?.write_all(text.as_bytes())
}
