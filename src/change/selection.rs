//! Chooses hunks of a patch by their numbers.
//!
//! Hunks are counted from 1 over the whole patch. A file that is new, deleted, renamed, binary, a link or changes its
//! mode is one hunk; in any other hunk `2.1` is the first run of changed lines, as `s` of `git add -p` splits it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::patch_reader::{Body, FilePatch, Hunk, Patch};
use crate::path::RelPath;

/// Why hunks cannot be chosen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// The list names nothing.
    #[error("the list of hunks is empty; the patch has {of}", of = range(*of))]
    Empty {
        /// Hunks in the patch.
        of: usize,
    },
    /// It is not a list of numbers.
    #[error("`{text}` names no hunk; write numbers and ranges, for example 1,3-5,7.2")]
    Syntax {
        /// The part of the list.
        text: String,
    },
    /// The patch has no such hunk.
    #[error("there is no hunk {number}; the patch has {of}", of = range(*of))]
    Unknown {
        /// The number, or one run of it: `2.3`.
        number: String,
        /// Hunks in the patch.
        of: usize,
    },
    /// A hunk has no such run of changed lines.
    #[error("there is no hunk {hunk}.{run}; hunk {hunk} has {of}", of = runs(*hunk, *of))]
    UnknownRun {
        /// The hunk.
        hunk: usize,
        /// The run.
        run: usize,
        /// Runs of the hunk.
        of: usize,
    },
    /// The hunk is taken as a whole or not at all.
    #[error("hunk {hunk} cannot be divided: {why}")]
    Undivided {
        /// The hunk.
        hunk: usize,
        /// The reason.
        why: String,
    },
    /// A hunk makes no sense without another one.
    #[error("hunk {hunk} needs hunk {needs} ({why})")]
    Bound {
        /// The hunk that is chosen.
        hunk: usize,
        /// The hunk that is not.
        needs: usize,
        /// The reason.
        why: String,
    },
    /// No file of the patch matches a glob.
    #[error("no file of {of} matches `{glob}`", of = range(*of))]
    NoFile {
        /// The glob.
        glob: String,
        /// Hunks in the patch.
        of: usize,
    },
}

fn range(of: usize) -> String {
    match of {
        0 => "no hunks".to_owned(),
        1 => "hunk 1 alone".to_owned(),
        of => format!("hunks 1 to {of}"),
    }
}

fn runs(hunk: usize, of: usize) -> String {
    if of == 1 { format!("{hunk}.1 alone") } else { format!("{hunk}.1 to {hunk}.{of}") }
}

/// A hunk that can be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbered {
    /// Counted from 1 over the whole patch.
    pub number: usize,
    /// Which of the patch's files.
    pub file: usize,
    /// Which of the file's hunks; `None` if the file is undivided.
    pub hunk: Option<usize>,
}

impl Numbered {
    /// Returns the hunks of the file that have this number: one, or all of an undivided file.
    pub fn hunks<'p>(&self, patch: &'p Patch) -> &'p [Hunk] {
        match (&patch.files[self.file].body, self.hunk) {
            (Body::Text(hunks), Some(at)) => std::slice::from_ref(&hunks[at]),
            (Body::Text(hunks), None) => hunks,
            (Body::Same | Body::Literal(_) | Body::Delta(_), _) => &[],
        }
    }

    /// Returns the name of the file: the one after the change, or of a deleted file the one before.
    pub fn path<'p>(&self, patch: &'p Patch) -> Option<&'p RelPath> {
        let file = &patch.files[self.file];
        file.new.as_ref().or(file.old.as_ref())
    }
}

/// Returns the hunks of a patch in the order of their numbers.
pub fn numbered(patch: &Patch) -> Vec<Numbered> {
    let mut all = Vec::new();
    for (file, of) in patch.files.iter().enumerate() {
        let parts = match &of.body {
            Body::Text(hunks) if is_divided(of) => (0..hunks.len()).map(Some).collect(),
            _ => vec![None],
        };
        for hunk in parts {
            all.push(Numbered { number: all.len() + 1, file, hunk });
        }
    }
    all
}

/// Tells whether each hunk of a file has its own number.
pub fn is_divided(file: &FilePatch) -> bool {
    let is_link = |mode: &Option<String>| mode.as_deref() == Some("120000");
    let is_kept = file.old.is_some() && file.old == file.new;
    is_kept && !file.changes_mode() && !is_link(&file.old_mode) && !is_link(&file.new_mode)
}

/// The runs of a hunk that are chosen; `None`: all of it.
type Runs = Option<BTreeSet<usize>>;

/// Which hunks are chosen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice(BTreeMap<usize, Runs>);

impl Choice {
    /// Reads a list: `1,3-5,7.2`. `of` is how many hunks the patch has.
    pub fn parse(list: &str, of: usize) -> Result<Choice, SelectionError> {
        let mut choice = Choice::default();
        for text in list.split(',').map(str::trim).filter(|text| !text.is_empty()) {
            let syntax = || SelectionError::Syntax { text: text.to_owned() };
            let number = |text: &str| text.parse::<usize>().map_err(|_| syntax());
            if let Some((hunk, run)) = text.split_once('.') {
                choice.add_run(number(hunk)?, number(run)?);
            } else {
                let (first, last) = text.split_once('-').unwrap_or((text, text));
                let (first, last) = (number(first)?, number(last)?);
                if first > last {
                    return Err(syntax());
                }
                // A range is cut before it is counted up: its end may be any number.
                (first..=last.min(of.saturating_add(1)).max(first)).for_each(|number| choice.add(number));
            }
        }
        match choice.0.keys().find(|number| !(1..=of).contains(*number)) {
            Some(number) => Err(SelectionError::Unknown { number: number.to_string(), of }),
            None if choice.0.is_empty() => Err(SelectionError::Empty { of }),
            None => Ok(choice),
        }
    }

    /// Chooses a whole hunk.
    pub fn add(&mut self, number: usize) {
        self.0.insert(number, None);
    }

    fn add_run(&mut self, number: usize, run: usize) {
        if let Some(runs) = self.0.entry(number).or_insert_with(|| Some(BTreeSet::new())) {
            runs.insert(run);
        }
    }

    /// Returns how many hunks are chosen, as a whole or in part.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Tells whether nothing is chosen.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the numbers: `["1", "2.1"]`.
    pub fn names(&self) -> Vec<String> {
        let names = |(number, runs): (&usize, &Runs)| match runs {
            None => vec![number.to_string()],
            Some(runs) => runs.iter().map(|run| format!("{number}.{run}")).collect(),
        };
        self.0.iter().flat_map(names).collect()
    }

    /// Takes a hunk whose runs are all chosen as a whole, and checks every run.
    fn settled(&self, patch: &Patch, all: &[Numbered]) -> Result<Choice, SelectionError> {
        let mut settled = Choice::default();
        for (number, runs) in &self.0 {
            let unknown = || SelectionError::Unknown { number: number.to_string(), of: all.len() };
            let listed = number.checked_sub(1).and_then(|at| all.get(at)).ok_or_else(unknown)?;
            let Some(runs) = runs else {
                settled.add(*number);
                continue;
            };
            let [hunk] = listed.hunks(patch) else {
                return Err(undivided(*number));
            };
            if listed.hunk.is_none() {
                return Err(undivided(*number));
            }
            if let Some(run) = runs.iter().find(|run| !(1..=hunk.runs.len()).contains(*run)) {
                return Err(SelectionError::UnknownRun { hunk: *number, run: *run, of: hunk.runs.len() });
            }
            let is_whole = runs.len() == hunk.runs.len();
            settled.0.insert(*number, (!is_whole).then(|| runs.clone()));
        }
        Ok(settled)
    }
}

fn undivided(hunk: usize) -> SelectionError {
    let why = "its file is new, deleted, renamed, binary or a link, or changes its mode".to_owned();
    SelectionError::Undivided { hunk, why }
}

/// Returns the patch of the chosen hunks alone.
///
/// It applies to the files that the whole patch applies to, at the lines that its hunks name.
pub fn select(patch: &Patch, choice: &Choice) -> Result<Patch, SelectionError> {
    let all = numbered(patch);
    if choice.is_empty() {
        return Err(SelectionError::Empty { of: all.len() });
    }
    let choice = choice.settled(patch, &all)?;
    check_bound(patch, &all, &choice)?;
    let mut files: Vec<FilePatch> = Vec::new();
    let mut of_file = all.iter().peekable();
    for (at, file) in patch.files.iter().enumerate() {
        let mut taken = Vec::new();
        let (mut parts, mut is_whole) = (0, true);
        while let Some(listed) = of_file.next_if(|listed| listed.file == at) {
            let runs = choice.0.get(&listed.number);
            is_whole &= runs == Some(&None);
            parts += usize::from(runs.is_some());
            taken.extend(
                runs.into_iter().flat_map(|runs| listed.hunks(patch).iter().flat_map(|hunk| parted(hunk, runs))),
            );
        }
        if is_whole {
            files.push(file.clone());
        } else if parts > 0 {
            files.push(FilePatch { body: Body::Text(renumbered(taken)), ..file.clone() });
        }
    }
    Ok(Patch { files })
}

/// Returns what of a hunk is chosen: a hunk for each sequence of chosen runs, with the context between it and the runs
/// that are left out.
fn parted(hunk: &Hunk, runs: &Runs) -> Vec<Hunk> {
    let Some(runs) = runs else { return vec![hunk.clone()] };
    let mut parts: Vec<Range<usize>> = Vec::new();
    for run in runs.iter().map(|run| run - 1) {
        match parts.last_mut() {
            Some(part) if part.end == run => part.end = run + 1,
            _ => parts.push(run..run + 1),
        }
    }
    parts.into_iter().map(|part| part_of(hunk, part)).collect()
}

fn part_of(hunk: &Hunk, part: Range<usize>) -> Hunk {
    let is_last = part.end == hunk.runs.len();
    let (old_start, new_start) = match part.start.checked_sub(1).map(|before| &hunk.runs[before]) {
        Some(before) => (before.old.end, before.new.end),
        None => (0, 0),
    };
    let (old_end, new_end) = match hunk.runs.get(part.end) {
        Some(after) => (after.old.start, after.new.start),
        None => (hunk.old.len(), hunk.new.len()),
    };
    let mut runs = hunk.runs[part.clone()].to_vec();
    for run in &mut runs {
        run.old = run.old.start - old_start..run.old.end - old_start;
        run.new = run.new.start - new_start..run.new.end - new_start;
    }
    Hunk {
        start: hunk.start + old_start,
        new_start: hunk.new_start + new_start,
        from_beginning: hunk.from_beginning && part.start == 0,
        to_end: hunk.to_end && is_last,
        old: hunk.old[old_start..old_end].to_vec(),
        new: hunk.new[new_start..new_end].to_vec(),
        runs,
    }
}

/// Counts the new lines again: what is left out no longer moves what follows.
fn renumbered(mut hunks: Vec<Hunk>) -> Vec<Hunk> {
    let (mut added, mut removed) = (0, 0);
    for hunk in &mut hunks {
        hunk.new_start = (hunk.start + added).saturating_sub(removed);
        added += hunk.new.len();
        removed += hunk.old.len();
    }
    hunks
}

/// Refuses a choice that takes one of two files apart that make sense together only.
fn check_bound(patch: &Patch, all: &[Numbered], choice: &Choice) -> Result<(), SelectionError> {
    let mut of_file: Vec<Vec<usize>> = vec![Vec::new(); patch.files.len()];
    for listed in all {
        of_file[listed.file].push(listed.number);
    }
    let is_whole = |number: &usize| choice.0.get(number) == Some(&None);
    for (one, other, why) in bound(patch) {
        let both = || of_file[one].iter().chain(&of_file[other]);
        let chosen = both().find(|number| choice.0.contains_key(*number));
        let missing = both().find(|number| !is_whole(number));
        match (chosen, missing) {
            (Some(hunk), Some(needs)) if hunk == needs => {
                return Err(SelectionError::Undivided { hunk: *hunk, why });
            }
            (Some(hunk), Some(needs)) => return Err(SelectionError::Bound { hunk: *hunk, needs: *needs, why }),
            _ => {}
        }
    }
    Ok(())
}

/// Returns the pairs of files that come together, and why.
fn bound(patch: &Patch) -> Vec<(usize, usize, String)> {
    let mut pairs = Vec::new();
    let mut named: BTreeMap<RelPath, usize> = BTreeMap::new();
    for (at, file) in patch.files.iter().enumerate() {
        let names: BTreeSet<&RelPath> = [&file.old, &file.new].into_iter().flatten().collect();
        for path in names {
            match named.get(path) {
                Some(other) => pairs.push((*other, at, format!("both change {path}"))),
                None => drop(named.insert(path.clone(), at)),
            }
        }
    }
    for (path, at) in &named {
        let mut folder = path.parent();
        while let Some(above) = folder.filter(|folder| !folder.is_root()) {
            if let Some(other) = named.get(&above).filter(|other| *other != at) {
                let becomes = if patch.files[*other].new.is_none() { "directory" } else { "file" };
                pairs.push((*at, *other, format!("{above} becomes a {becomes}")));
            }
            folder = above.parent();
        }
    }
    pairs.extend(moved(patch));
    pairs
}

/// Finds files that are deleted under one name and made again under another.
fn moved(patch: &Patch) -> Vec<(usize, usize, String)> {
    let mut gone: BTreeMap<Vec<u8>, (usize, &RelPath)> = BTreeMap::new();
    for (at, file) in patch.files.iter().enumerate() {
        if let (Some(old), None, Body::Text(hunks)) = (&file.old, &file.new, &file.body) {
            gone.insert(hunks.iter().flat_map(|hunk| hunk.old.concat()).collect(), (at, old));
        }
    }
    let made = |(at, file): (usize, &FilePatch)| {
        let (None, Some(new), Body::Text(hunks)) = (&file.old, &file.new, &file.body) else { return None };
        let content: Vec<u8> = hunks.iter().flat_map(|hunk| hunk.new.concat()).collect();
        let (from, old) = gone.get(&content)?;
        (*old != new).then(|| (*from, at, format!("{old} becomes {new}")))
    };
    patch.files.iter().enumerate().filter_map(made).collect()
}

#[cfg(test)]
mod tests;
