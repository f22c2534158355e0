//! Merges the changes of several runs into one, in their order: as `qwen apply` of one after the other would.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::batch::result::Conflict;
use crate::change::ChangeSet;
use crate::change::patch_reader::{Body, FilePatch, Patch};
use crate::deliver::propose::Proposal;
use crate::deliver::{self, DeliverError, Site};
use crate::path::RelPath;
use crate::run::error::Failure;
use crate::run::finish::apply::Rules;

/// The change of one run.
#[derive(Debug, Clone)]
pub struct Part {
    /// The key of its item.
    pub key: String,
    /// The patch.
    pub patch: Vec<u8>,
    /// The digest that it must have.
    pub sha256: Option<String>,
}

/// The changes of several runs as one.
#[derive(Debug, Clone, Default)]
pub struct Merged {
    /// The change.
    pub changes: ChangeSet,
    /// The keys of the items whose change is in it.
    pub keys: Vec<String>,
    /// Files that had changed since and were merged.
    pub merged: Vec<RelPath>,
    /// Where the change of an item touches an earlier one; the later item is left out.
    pub conflicts: Vec<Conflict>,
    /// The keys of the items that are left out.
    pub left_out: Vec<String>,
    touched: BTreeMap<RelPath, Vec<(String, Lines)>>,
}

/// The lines of a file that a change replaces, in the file as all items found it; `None`: it is not about lines.
type Lines = Option<Vec<RangeInclusive<usize>>>;

impl Merged {
    /// Adds the change of the next run. One that touches an earlier one is left out, and the places are noted.
    pub fn add(&mut self, part: Part, rules: &Rules<'_>, site: &Site<'_>) -> Result<(), Failure> {
        let proposal = Proposal::read(&part.patch, part.sha256.as_deref())?;
        let may_read = |path: &RelPath| rules.policy.may_read(path, rules.facts).map_err(|denial| denial.reason);
        deliver::gate::check_accesses(&proposal.accesses(site)?, &may_read)?;
        let patch = proposal.parsed()?;
        match proposal.merged_over(&self.changes, site) {
            Ok((changes, merged)) => {
                for (path, change) in changes.iter() {
                    self.changes.stage(path.clone(), || change.before.clone(), change.after.clone());
                }
                self.merged.extend(merged);
                for (path, lines) in lines_of(&patch) {
                    self.touched.entry(path).or_default().push((part.key.clone(), lines));
                }
                self.keys.push(part.key);
                Ok(())
            }
            Err(DeliverError::Conflict { message, .. }) => {
                self.conflicts.extend(self.places(&part.key, &patch, &message));
                self.left_out.push(part.key);
                Ok(())
            }
            Err(other) => Err(other.into()),
        }
    }

    /// Says where a change touches earlier ones; if none does, the file itself has changed.
    fn places(&self, key: &str, patch: &Patch, message: &str) -> Vec<Conflict> {
        let mut places = Vec::new();
        for (path, lines) in lines_of(patch) {
            for (first, theirs) in self.touched.get(&path).into_iter().flatten() {
                let Some(lines) = common(theirs, &lines) else { continue };
                let keys = vec![first.clone(), key.to_owned()];
                places.push(Conflict { path: path.to_string_lossy(), keys, lines });
                break;
            }
        }
        if places.is_empty() {
            // Which file it is, is the beginning of what is said of it.
            let named = lines_of(patch).into_keys().map(|path| path.to_string_lossy());
            let path = named.into_iter().find(|path| message.contains(path.as_str())).unwrap_or_default();
            places.push(Conflict { path, keys: vec![key.to_owned()], lines: Vec::new() });
        }
        places
    }

    /// Fails if something is left out.
    pub fn refuse_conflicts(&self) -> Result<(), DeliverError> {
        let Some(first) = self.conflicts.first() else { return Ok(()) };
        let lines = if first.lines.is_empty() { String::new() } else { format!(":{}", first.lines.join(",")) };
        let what = match first.keys.as_slice() {
            [first, later] => format!("`{first}` and `{later}` both change it"),
            keys => format!("it has changed since `{}` was done", keys.join("`, `")),
        };
        let more = match self.conflicts.len() - 1 {
            0 => String::new(),
            1 => " (and 1 more conflict)".to_owned(),
            more => format!(" (and {more} more conflicts)"),
        };
        Err(DeliverError::conflict(
            format!("{}{lines}: {what}{more}", first.path),
            "leave the later item out with --on-conflict skip, or deliver one of them with --only KEY",
        ))
    }
}

/// Returns the files of a patch, each with the lines that it replaces.
fn lines_of(patch: &Patch) -> BTreeMap<RelPath, Lines> {
    let mut all: BTreeMap<RelPath, Lines> = BTreeMap::new();
    for file in &patch.files {
        for path in [&file.old, &file.new].into_iter().flatten() {
            all.insert(path.clone(), replaced(file));
        }
    }
    all
}

fn replaced(file: &FilePatch) -> Lines {
    let Body::Text(hunks) = &file.body else { return None };
    if file.old != file.new || file.changes_mode() {
        return None;
    }
    let of_hunk = |hunk: &crate::change::patch_reader::Hunk| {
        let start = hunk.start;
        hunk.runs.iter().map(move |run| start + run.old.start..=start + run.old.end).collect::<Vec<_>>()
    };
    Some(hunks.iter().flat_map(of_hunk).collect())
}

/// Returns the lines at which two changes touch, from 1; `None` if they do not.
fn common(first: &Lines, later: &Lines) -> Option<Vec<String>> {
    let (Some(first), Some(later)) = (first, later) else { return Some(Vec::new()) };
    let touches = |one: &RangeInclusive<usize>| {
        first.iter().any(|other| one.start() <= other.end() && other.start() <= one.end())
    };
    let shown = |range: &RangeInclusive<usize>| match (range.start() + 1, *range.end().max(&(range.start() + 1))) {
        (from, to) if from == to => from.to_string(),
        (from, to) => format!("{from}-{to}"),
    };
    let lines: Vec<String> = later.iter().filter(|range| touches(range)).map(shown).collect();
    (!lines.is_empty()).then_some(lines)
}
