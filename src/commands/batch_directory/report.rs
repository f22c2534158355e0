//! Runs `qwen batch report`: writes what became of the items in the formats of others.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::error::{BatchError, ReportError};
use super::opened::{Batch, Found, Item};
use crate::batch::journal::Ended;
use crate::batch::sums::has_failed;
use crate::batch::tally::Share;
use crate::cli::batch_directory::ReportArgs;
use crate::commands::console::print;
use crate::emit::safe::one_line;
use crate::emit::{
    AnswerFields, Junit, ShownItems, Spooled, Table, batch_page, findings_as_sarif, to_pretty, write_whole,
};
use crate::exit::Exit;
use crate::run::Failure;
use crate::run::output::outputs::checkouts;
use crate::run::place::Place;
use crate::settings::Environment;

/// Findings of one batch that are read: more than GitHub keeps.
const MOST_FINDINGS: usize = 10_000;

pub(super) fn run(arguments: &ReportArgs, environment: &Environment, out: &mut dyn Write) -> Result<Exit, Failure> {
    let place = Place::open(None, environment)?;
    let checkouts = checkouts(&place.checkout.around);
    let batch = Batch::open(std::slice::from_ref(&arguments.directory), &environment.cwd)?;
    let to = |path: &Path| match path.as_os_str() == "-" {
        true => PathBuf::from("/dev/stdout"),
        false => environment.cwd.join(path),
    };
    let write = |path: &Path, text: &str| write_whole(&to(path), &checkouts, text.as_bytes()).map_err(unwritten(path));
    if let Some(path) = &arguments.csv {
        table(&batch, path, &to(path), &checkouts)?;
    }
    if let Some(path) = &arguments.junit {
        let mut report = Junit::new(name(&batch));
        each(&batch, &mut |item, ended| report.add(&item.key, ended))?;
        write(path, &report.text().map_err(|cause| unwritten(path)(io::Error::other(cause)))?)?;
    }
    if let Some(path) = &arguments.html {
        let mut items = ShownItems::default();
        each(&batch, &mut |item, ended| items.add(&item.key, ended))?;
        let mut result = batch.result(false, Share::Count(0))?;
        let earlier = batch.parts.iter().filter_map(|part| part.result().transpose());
        for earlier in earlier {
            result.combined.conflicts.extend(earlier?.combined.conflicts);
        }
        write(path, &batch_page(&result, &items, name(&batch)))?;
    }
    if let Some(path) = &arguments.sarif {
        let findings = findings(&batch)?;
        write(path, &(to_pretty(&findings_as_sarif(name(&batch), &findings)) + "\n"))?;
    }
    if arguments.failed {
        let mut keys = String::new();
        each(&batch, &mut |item, ended| {
            if ended.is_some_and(|ended| has_failed(ended.exit_code)) {
                keys.push_str(&(one_line(&item.key) + "\n"));
            }
        })?;
        print(out, &keys)?;
    }
    Ok(Exit::Ok)
}

/// Calls back for each item with its end, if it is done.
fn each(batch: &Batch, then: &mut dyn FnMut(&Item, Option<&Ended>)) -> Result<(), BatchError> {
    batch.each(false, &mut |item: &Item, found: &Found<'_>| {
        then(item, found.end(item)?.as_ref());
        Ok(())
    })
}

/// Returns what the items were done with.
fn name(batch: &Batch) -> &str {
    let recipe = batch.parts.first().and_then(|part| part.description.plan.recipe.as_ref());
    recipe.map_or("prompt", |recipe| recipe.name.as_str())
}

fn unwritten(path: &Path) -> impl Fn(io::Error) -> ReportError + use<> {
    let path = path.display().to_string();
    move |cause| ReportError::Unwritten { path: path.clone(), cause }
}

fn table(batch: &Batch, named: &Path, to: &Path, checkouts: &[PathBuf]) -> Result<(), Failure> {
    let mut fields = AnswerFields::default();
    each(batch, &mut |_, ended| ended.into_iter().for_each(|ended| fields.see(ended)))?;
    let begun = Spooled::open(to, checkouts).and_then(|file| Table::new(file, fields));
    let mut table = begun.map_err(unwritten(named))?;
    let mut written = Ok(());
    each(batch, &mut |item, ended| {
        if written.is_ok() {
            written = table.add(item.n, &item.key, ended);
        }
    })?;
    Ok(written.and_then(|()| table.end()?.keep()).map_err(unwritten(named))?)
}

/// Returns the findings of all items, each as its answer has them; of an answer that is cut, as its result has them.
fn findings(batch: &Batch) -> Result<Vec<Value>, BatchError> {
    let mut all = Vec::new();
    batch.each(false, &mut |item: &Item, found: &Found<'_>| -> Result<(), BatchError> {
        let Some(ended) = found.end(item)?.filter(|ended| ended.product.findings > 0) else { return Ok(()) };
        if all.len() >= MOST_FINDINGS {
            return Ok(());
        }
        let own = ended.product.output.get("findings").and_then(Value::as_array).cloned();
        let kept = match (own, found.part) {
            (Some(own), _) => Some(own),
            (None, Some(part)) => part.kept(item)?.and_then(|result| result.get("findings")?.as_array().cloned()),
            (None, None) => None,
        };
        all.extend(kept.into_iter().flatten());
        Ok(())
    })?;
    Ok(all)
}
