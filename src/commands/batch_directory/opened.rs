//! Opens the directory of a batch, or of its shards, as one batch.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::error::BatchError;
use crate::base::digest::{hex, sha256};
use crate::base::usage::Usage;
use crate::batch::item::{self, Short};
use crate::batch::journal::{Brief, Ended, Journal, Line, Reader, State};
use crate::batch::plan::{self, SCHEMA_VERSION, files};
use crate::batch::result::BatchResult;
use crate::batch::shard::{self, Shard, ShardError};
use crate::batch::sums::Sums;
use crate::batch::tally::Share;
use crate::workspace::batch_reader::{BatchReader, Pieces};

/// A batch: one directory, or that of each shard.
pub(in crate::commands) struct Batch {
    /// The directories, in the order of their shards.
    pub(super) parts: Vec<Part>,
    /// The digest of the list of items.
    pub(super) items_sha256: String,
}

/// One directory with a journal.
pub(super) struct Part {
    pub(super) reader: BatchReader,
    pub(super) description: plan::Batch,
    pub(super) shard: Option<Shard>,
    journal: Journal,
    pieces: Option<Pieces>,
    ends: Vec<End>,
    /// Whether a kill has cut off the last line.
    pub(super) is_torn: bool,
    /// Whether a process works on it.
    pub(super) is_locked: bool,
}

/// Where an item's end is in the journal.
struct End {
    key: Short,
    offset: u64,
    length: usize,
}

/// An item of the list, without its fields.
#[derive(Debug, Clone, Deserialize)]
pub(in crate::commands) struct Item {
    pub(super) n: u32,
    pub(in crate::commands) key: String,
    sha256: String,
}

impl Item {
    /// Returns the name of one of its files.
    pub(super) fn file(&self, extension: &str) -> String {
        format!("{}.{extension}", item::stem(self.n, &self.key))
    }
}

/// What became of an item.
pub(super) struct Found<'b> {
    /// Its part; `None`: that of no directory.
    pub(super) part: Option<&'b Part>,
    /// What the journal says; `None`: it never started.
    state: Option<&'b State>,
    /// Whether it is done.
    pub(super) is_done: bool,
}

impl Found<'_> {
    /// Tells whether it started and has not ended.
    pub(super) fn is_started(&self) -> bool {
        self.state.is_some_and(|state| state.crashes > 0)
    }

    /// Returns its last end if it is done.
    pub(super) fn end(&self, item: &Item) -> Result<Option<Ended>, BatchError> {
        let Some(part) = self.part else { return Ok(None) };
        let line = self.line(item)?;
        let ended = line.map(|line| match serde_json::from_slice(&line) {
            Ok(Line::End(ended)) => Ok(*ended),
            Ok(Line::Start(_)) => Err(part.invalid_journal("it changes")),
            Err(cause) => Err(part.invalid_journal(cause)),
        });
        ended.transpose()
    }

    /// Returns the line of the journal with which it ended last if it is done.
    fn line(&self, item: &Item) -> Result<Option<Vec<u8>>, BatchError> {
        match self.part.filter(|_| self.is_done) {
            Some(part) => part.ends_of(&item.key).last().map(|end| part.piece(end)).transpose(),
            None => Ok(None),
        }
    }
}

impl Batch {
    /// Opens what is named. All parts must be of one batch; which of them are there is the caller's matter.
    pub(in crate::commands) fn open(directories: &[PathBuf], cwd: &Path) -> Result<Batch, BatchError> {
        let mut parts = Vec::new();
        for directory in directories {
            let reader = BatchReader::open(&cwd.join(directory)).map_err(BatchError::of(directory))?;
            let below = match has_description(&reader)? {
                true => vec![reader],
                false => reader.below(shard::DIRECTORY).map_err(BatchError::of(directory))?,
            };
            if below.is_empty() {
                return Err(BatchError::NoBatch { directory: directory.display().to_string() });
            }
            for reader in below {
                parts.push(Part::open(reader)?);
            }
        }
        parts.sort_by_key(|part| part.shard.map(Shard::number));
        let mut lists = parts.iter().map(|part| Ok((part.name(), items_sha256(&part.reader)?)));
        let (first, items_sha256) = lists.next().ok_or(BatchError::NoDirectory)??;
        for list in lists {
            let (name, other) = list?;
            if other != items_sha256 {
                return Err(BatchError::Differ { what: "lists of items", first, other: name });
            }
        }
        for pair in parts.windows(2) {
            pair[0].belongs_with(&pair[1])?;
        }
        Ok(Batch { parts, items_sha256 })
    }

    /// Returns the directory; `None` if there are several.
    pub(super) fn directory(&self) -> Option<&Path> {
        self.parts.first().filter(|_| self.parts.len() == 1).map(|part| part.reader.path())
    }

    /// Reads the items of these keys with their fields.
    pub(super) fn items_of(&self, keys: &HashSet<&str>) -> Result<HashMap<String, item::Item>, BatchError> {
        let first = self.parts.first().ok_or(BatchError::NoDirectory)?;
        let unreadable = |cause| first.unreadable(cause);
        let mut items = HashMap::new();
        for line in first.reader.lines(files::ITEMS).map_err(unreadable)?.into_iter().flatten() {
            let line = line.map_err(unreadable)?;
            let item: item::Item = serde_json::from_slice(&line.bytes)
                .map_err(|cause| BatchError::Invalid { path: first.path(files::ITEMS), cause: cause.to_string() })?;
            if keys.contains(item.key.as_str()) {
                items.insert(item.key.clone(), item);
            }
        }
        Ok(items)
    }

    /// Calls back for each item of the list with what became of it. Items of a shard that is not open are left out
    /// unless `all`.
    pub(super) fn each<E: From<BatchError>>(
        &self,
        all: bool,
        then: &mut dyn FnMut(&Item, &Found<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(first) = self.parts.first() else { return Ok(()) };
        let unreadable = |cause| first.unreadable(cause);
        for line in first.reader.lines(files::ITEMS).map_err(unreadable)?.into_iter().flatten() {
            let line = line.map_err(unreadable)?;
            let item: Item = serde_json::from_slice(&line.bytes)
                .map_err(|cause| BatchError::Invalid { path: first.path(files::ITEMS), cause: cause.to_string() })?;
            let part = self.parts.iter().find(|part| part.shard.is_none_or(|shard| shard.has(item.n)));
            if part.is_none() && !all {
                continue;
            }
            let state = part.and_then(|part| part.journal.state(&item.key));
            let is_done = state.is_some_and(|state| state.is_done(&item.sha256));
            then(&item, &Found { part, state, is_done })?;
        }
        Ok(())
    }

    /// Returns the result, as of a batch that ends now; of shards that are not open only if `all`. What only the processes
    /// knew is taken from their results.
    pub(in crate::commands) fn result(&self, all: bool, allowed: Share) -> Result<BatchResult, BatchError> {
        let first = self.parts.first().ok_or(BatchError::NoDirectory)?;
        let (mut sums, mut ends) = (Sums::default(), Sha256::new());
        ends.update(first.description.lasting());
        self.each(all, &mut |item, found| -> Result<(), BatchError> {
            let Some((line, part)) = found.line(item)?.zip(found.part) else {
                sums.add(None);
                return Ok(());
            };
            ends.update(&line);
            sums.add(Some(&Brief::read(&line).map_err(|cause| part.invalid_journal(cause))?));
            Ok(())
        })?;
        let mut result = sums.result(&first.description, &self.items_sha256, allowed);
        result.ends_sha256 = Some(hex(&ends.finalize()));
        (result.usage, result.cost_usd) = (Usage::NONE, Some(0.0));
        if all || self.parts.len() > 1 {
            result.shard = None;
        }
        for part in &self.parts {
            result.usage = result.usage.plus(&part.journal.usage);
            result.cost_usd = result.cost_usd.zip(part.journal.cost_usd).map(|(sum, cost)| sum + cost);
            let Some(earlier) = part.result()? else { continue };
            result.waited_ms = result.waited_ms.saturating_add(earlier.waited_ms);
            result.duration_ms = result.duration_ms.max(earlier.duration_ms);
            result.concurrency.limit = result.concurrency.limit.saturating_add(earlier.concurrency.limit);
            result.concurrency.least = result.concurrency.least.saturating_add(earlier.concurrency.least);
        }
        Ok(result)
    }
}

impl Part {
    fn open(reader: BatchReader) -> Result<Part, BatchError> {
        let path = |name: &str| reader.path().join(name).display().to_string();
        let invalid = |name: &str, cause: String| BatchError::Invalid { path: path(name), cause };
        let unreadable = BatchError::of(reader.path());
        let text = reader.file(files::BATCH).map_err(&unreadable)?;
        let text = text.ok_or_else(|| BatchError::NoBatch { directory: reader.path().display().to_string() })?;
        let description: plan::Batch =
            serde_json::from_slice(&text).map_err(|cause| invalid(files::BATCH, cause.to_string()))?;
        if description.schema_version != SCHEMA_VERSION {
            return Err(BatchError::Version { path: path(files::BATCH), version: description.schema_version });
        }
        let shard = description.shard.map(|shard| Shard::new(shard.number.into(), shard.of.into())).transpose();
        let shard = shard.map_err(|cause: ShardError| invalid(files::BATCH, cause.to_string()))?;
        let (mut journal, mut read) = (Journal::default(), Reader::default());
        let mut ends = Vec::new();
        for line in reader.lines(files::JOURNAL).map_err(&unreadable)?.into_iter().flatten() {
            let line = line.map_err(&unreadable)?;
            let brief = read.line(&line.bytes).map_err(|cause| invalid(files::JOURNAL, cause.to_string()))?;
            let Some(brief) = brief else { continue };
            journal.add(&brief);
            if brief.is_end() {
                ends.push(End { key: Short::of(&brief.key), offset: line.offset, length: line.bytes.len() });
            }
        }
        ends.sort_unstable_by_key(|end| (end.key, end.offset));
        let pieces = match ends.is_empty() {
            true => None,
            false => Some(reader.pieces(files::JOURNAL).map_err(&unreadable)?),
        };
        let (is_torn, is_locked) = (read.is_torn(), reader.is_locked(files::BATCH));
        Ok(Part { description, shard, journal, pieces, ends, is_torn, is_locked, reader })
    }

    /// Says that a file of it cannot be read.
    pub(super) fn unreadable(&self, cause: io::Error) -> BatchError {
        BatchError::of(self.reader.path())(cause)
    }

    /// Names it for people.
    pub(super) fn name(&self) -> String {
        self.reader.path().display().to_string()
    }

    /// Names a file of it.
    pub(super) fn path(&self, name: &str) -> String {
        self.reader.path().join(name).display().to_string()
    }

    /// Reads the result that its process has written.
    pub(super) fn result(&self) -> Result<Option<BatchResult>, BatchError> {
        let name = files::SUMMARY;
        let text = self.reader.file(name).map_err(|cause| self.unreadable(cause))?;
        text.map(|text| serde_json::from_slice(&text))
            .transpose()
            .map_err(|cause| BatchError::Invalid { path: self.path(name), cause: cause.to_string() })
    }

    /// Reads the whole result of an item, if it is kept.
    pub(super) fn kept(&self, item: &Item) -> Result<Option<serde_json::Value>, BatchError> {
        let name = item.file("result.json");
        let text = self.reader.item_file(&name).map_err(|cause| self.unreadable(cause))?;
        let invalid = |cause: serde_json::Error| {
            let path = self.path(&format!("{}/{name}", files::OF_ITEMS));
            BatchError::Invalid { path, cause: cause.to_string() }
        };
        text.map(|text| serde_json::from_slice(&text)).transpose().map_err(invalid)
    }

    /// Returns the lines of the journal with which the items of a key ended, as they are.
    pub(super) fn lines_of(&self, key: &str) -> Result<Vec<Vec<u8>>, BatchError> {
        self.ends_of(key).iter().map(|end| self.piece(end)).collect()
    }

    /// Refuses a patch that is not the one whose digest the item's end names.
    pub(super) fn check_patch(&self, item: &Item, named: Option<&str>, patch: Option<&[u8]>) -> Result<(), BatchError> {
        let found = patch.map(sha256);
        if named.is_none_or(|named| found.as_deref().is_some_and(|found| found.eq_ignore_ascii_case(named))) {
            return Ok(());
        }
        Err(BatchError::Patch {
            key: item.key.clone(),
            path: self.path(&format!("{}/{}", files::OF_ITEMS, item.file("patch"))),
        })
    }

    fn ends_of(&self, key: &str) -> &[End] {
        let key = Short::of(key);
        let from = self.ends.partition_point(|end| end.key < key);
        let count = self.ends[from..].partition_point(|end| end.key == key);
        &self.ends[from..from + count]
    }

    fn piece(&self, end: &End) -> Result<Vec<u8>, BatchError> {
        let pieces = self.pieces.as_ref().ok_or(BatchError::NoDirectory)?;
        pieces.read(end.offset, end.length).map_err(|cause| self.unreadable(cause))
    }

    pub(super) fn invalid_journal(&self, cause: impl ToString) -> BatchError {
        BatchError::Invalid { path: self.path(files::JOURNAL), cause: cause.to_string() }
    }

    /// Compares with the next part: two that are open at once must be different shards of one batch.
    fn belongs_with(&self, next: &Part) -> Result<(), BatchError> {
        let differ = |what| BatchError::Differ { what, first: self.name(), other: next.name() };
        if self.description.plan_sha256 != next.description.plan_sha256 {
            return Err(differ("recipes, prompts, models, parameters or policies"));
        }
        match (self.shard, next.shard) {
            (Some(a), Some(b)) if a.of() != b.of() => Err(differ("numbers of shards")),
            (Some(a), Some(b)) if a != b => Ok(()),
            (Some(shard), _) | (None, Some(shard)) => {
                Err(BatchError::Twice { shard: shard.to_string(), first: self.name(), other: next.name() })
            }
            (None, None) => Err(BatchError::Whole { first: self.name(), other: next.name() }),
        }
    }
}

fn has_description(reader: &BatchReader) -> Result<bool, BatchError> {
    reader.file(files::BATCH).map(|text| text.is_some()).map_err(BatchError::of(reader.path()))
}

fn items_sha256(reader: &BatchReader) -> Result<String, BatchError> {
    let unreadable = BatchError::of(reader.path());
    let mut hash = Sha256::new();
    for line in reader.lines(files::ITEMS).map_err(&unreadable)?.into_iter().flatten() {
        hash.update(line.map_err(&unreadable)?.bytes);
    }
    Ok(hex(&hash.finalize()))
}
