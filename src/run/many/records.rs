//! Records what happens to the items of a batch: in its journal, in files of their own, and to whoever listens.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

use crate::base::cut;
use crate::base::usage::Usage;
use crate::batch::item::Item;
use crate::batch::journal::{self, Brief, Ended, Journal, Keep, Line, Product, Started, is_failure};
use crate::batch::plan::files;
use crate::emit::{Report, patch_of, to_line};
use crate::exit::Exit;
use crate::run::error::Failure;
use crate::workspace::batch_folder::BatchFolder;

/// Maximum bytes of an answer in the journal.
const OUTPUT: usize = 64 << 10;

/// What is told while a batch runs.
#[derive(Debug)]
pub enum Said {
    /// An item started.
    Start,
    /// An item ended.
    End(Box<Ended>),
}

/// The records of a batch.
pub struct Records<'a> {
    folder: Option<&'a BatchFolder>,
    keep: Keep,
    journal: Mutex<Journal>,
    say: Mutex<Option<Sender<Said>>>,
}

impl<'a> Records<'a> {
    /// Continues a journal. What is told can be received until the batch has ended.
    pub fn new(folder: Option<&'a BatchFolder>, keep: Keep, journal: Journal) -> (Records<'a>, Receiver<Said>) {
        let (say, said) = channel();
        let records = Records { folder, keep, journal: Mutex::new(journal), say: Mutex::new(Some(say)) };
        (records, said)
    }

    /// Records the start of an item.
    pub(super) fn start(&self, started: Started) -> Result<(), Failure> {
        self.append(&Line::Start(started))?;
        self.tell(Said::Start);
        Ok(())
    }

    /// Records the end of an item: first its files, then the line that names them.
    pub(super) fn end(&self, item: &Item, ended: &mut Ended, report: &Report) -> Result<(), Failure> {
        if let Some(folder) = self.folder {
            keep_files(folder, self.keep, item, ended, report)?;
        }
        let line = Line::End(Box::new(ended.clone()));
        self.append(&line)?;
        self.tell(Said::End(Box::new(ended.clone())));
        Ok(())
    }

    /// Records the end of an item that is not run any more.
    pub fn give_up(&self, ended: Ended) -> Result<(), Failure> {
        self.append(&Line::End(Box::new(ended.clone())))?;
        self.tell(Said::End(Box::new(ended)));
        Ok(())
    }

    /// Tells whether an item is done.
    pub fn is_done(&self, item: &Item) -> bool {
        let journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        journal.state(&item.key).is_some_and(|state| state.is_done(&item.sha256))
    }

    /// Brings the journal to the disk. What fails here fails again when the next line is written.
    pub(super) fn sync(&self) {
        self.folder.iter().for_each(|folder| drop(folder.sync()));
    }

    /// Ends what is told.
    pub(super) fn close(&self) {
        self.sync();
        *self.say.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Returns the sums of the journal in the end, and what is to be said.
    pub fn into_journal(self) -> Journal {
        let mut journal = self.journal.into_inner().unwrap_or_else(PoisonError::into_inner);
        journal.forget_states();
        journal
    }

    fn append(&self, line: &Line) -> Result<(), Failure> {
        let mut journal: MutexGuard<'_, Journal> = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = self.folder {
            folder.append(&journal::line(line))?;
        }
        journal.add(&Brief::of(line));
        Ok(())
    }

    fn tell(&self, said: Said) {
        if let Some(say) = &*self.say.lock().unwrap_or_else(PoisonError::into_inner) {
            let _nobody_listens = say.send(said);
        }
    }
}

/// Writes the files of an item that its line names.
fn keep_files(
    folder: &BatchFolder,
    keep: Keep,
    item: &Item,
    ended: &mut Ended,
    report: &Report,
) -> Result<(), Failure> {
    let stem = item.stem();
    let delivers = [Exit::Ok, Exit::Gate, Exit::Denied].iter().any(|exit| exit.code() == ended.exit_code);
    if delivers && ended.product.patch_sha256.is_some() {
        let name = format!("{stem}.patch");
        folder.keep(&name, &patch_of(&report.changes))?;
        ended.product.patch = Some(format!("{}/{name}", files::OF_ITEMS));
    }
    let name = format!("{stem}.result.json");
    let wanted = match keep {
        Keep::All => true,
        Keep::Failed => is_failure(ended.exit_code) || ended.exit_code == Exit::Denied.code(),
        Keep::None => false,
    };
    if wanted || ended.product.output_cut {
        folder.keep(&name, (to_line(report) + "\n").as_bytes())?;
    } else if ended.r#try > 1 {
        folder.drop_kept(&name);
    }
    Ok(())
}

/// Returns the end of an item that ran, as far as its result says it.
pub(super) fn ended(item: &Item, report: &Report, attempt: u32, waited: Duration) -> Ended {
    let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
    let (output, output_cut) = output(report);
    Ended {
        n: item.n,
        key: item.key.clone(),
        sha256: item.sha256.clone(),
        r#try: attempt,
        r#final: false,
        exit_code: report.ending.exit_code,
        exit_reason: report.ending.exit_reason.clone(),
        conclusion: report.ending.conclusion.clone(),
        product: Product {
            output,
            output_cut,
            findings: report.findings.len() as u64,
            files: report.changes.files.iter().map(|file| file.path.clone()).collect(),
            patch: None,
            patch_sha256: report.changes.patch_sha256.clone(),
            commit: report.git.commit.clone(),
            branch: report.git.branch.clone(),
        },
        usage: report.usage,
        cost_usd: report.total_cost_usd.or((report.usage.requests == 0).then_some(0.0)),
        duration_ms: report.totals.duration_ms.saturating_sub(waited_ms),
        waited_ms,
        run_id: report.ran.run_id.clone(),
        model: report.ran.model.clone(),
        warnings: report.warnings.clone(),
        error: report.error.clone(),
    }
}

/// Returns the structured answer, else the text; what is too long is cut, and no structure any more.
fn output(report: &Report) -> (Value, bool) {
    let whole = match &report.answer.structured_output {
        Some(value) if value.to_string().len() <= OUTPUT => return (value.clone(), false),
        Some(value) => value.to_string(),
        None => report.answer.result.clone(),
    };
    match whole.len() <= OUTPUT {
        true => (Value::from(whole), false),
        false => (Value::from(whole[..cut::end(&whole, OUTPUT)].to_owned()), true),
    }
}

/// Returns the end of an item that has ended its process so many times, at last when nothing else ran.
pub fn crashed(item: &Item, attempt: u32, times: u32) -> Ended {
    let message = format!("the process ended {times} times while it ran, the last time with nothing else running");
    let hint = Some("look at this item, or run it again with --rerun KEY".to_owned());
    let error = crate::event::RunError { code: "crashed".into(), message, hint, ..Default::default() };
    Ended { r#final: true, ..without_run(item, attempt, (Exit::Failed, error)) }
}

/// Returns the end of an item that no run came to.
pub fn without_run(item: &Item, attempt: u32, (exit, error): (Exit, crate::event::RunError)) -> Ended {
    Ended {
        n: item.n,
        key: item.key.clone(),
        sha256: item.sha256.clone(),
        r#try: attempt,
        exit_code: exit.code(),
        exit_reason: exit.name().to_owned(),
        conclusion: "error".to_owned(),
        usage: Usage::NONE,
        cost_usd: Some(0.0),
        error: Some(error),
        ..Ended::default()
    }
}
