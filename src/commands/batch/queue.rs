//! Decides which items of the list a call runs: those that are not done, of its shard, as many as `--limit` says.

use std::collections::{HashSet, VecDeque};

use super::clones::Clones;
use super::error::BatchError;
use super::{folder, source};
use crate::batch::budget::{Amount, Budget};
use crate::batch::item::{Item, Short};
use crate::batch::journal::{Journal, Notable, SUSPECT, State, is_failure};
use crate::batch::shard::Shard;
use crate::batch::tally::Tally;
use crate::cli::batch::BatchArgs;
use crate::exit::Exit;
use crate::run::error::Failure;
use crate::run::many::records::{Records, crashed};
use crate::run::many::{Plan, Turn};
use crate::run::stages::Shared;
use crate::workspace::batch_folder::BatchFolder;
use crate::workspace::item_list::{ItemList, ListWriter};

/// Keys that a warning names.
const NAMED: usize = 20;

/// What a call runs.
pub(super) struct Queue {
    shard: Option<Shard>,
    limit: Option<u32>,
    rerun: Rerun,
    /// What was spent before, and the most that one item has cost.
    before: (Amount, Amount),
    items: VecDeque<Turn>,
    /// Items that may be what ended the process: they run last, and each alone.
    suspects: Vec<Turn>,
    /// Items that ended the process, each with how often.
    crashed: Vec<(Turn, u32)>,
    /// How items ended that are done.
    done: Vec<u8>,
    total: u64,
    left_out: u64,
}

/// What `--rerun` names.
struct Rerun {
    failed: bool,
    all: bool,
    /// Keys that were not found yet.
    keys: HashSet<String>,
}

/// What becomes of an item.
enum Decision {
    Run { tries: u32, alone: bool },
    Skip { exit_code: u8 },
    GiveUp { tries: u32, crashes: u32 },
}

impl Queue {
    /// Begins.
    pub(super) fn new(arguments: &BatchArgs, shard: Option<Shard>, journal: &Journal) -> Queue {
        let words = &arguments.course.rerun;
        let has = |word: &str| words.iter().any(|given| given == word);
        let keys = words.iter().filter(|word| !["failed", "all"].contains(&word.as_str())).cloned().collect();
        Queue {
            shard,
            limit: arguments.course.limit,
            rerun: Rerun { failed: has("failed"), all: has("all"), keys },
            before: (journal.spent, journal.dearest),
            items: VecDeque::new(),
            suspects: Vec::new(),
            crashed: Vec::new(),
            done: Vec::new(),
            total: 0,
            left_out: 0,
        }
    }

    /// Reads the list. `check` looks at the first item: what is wrong with it is wrong with the call.
    pub(super) fn read(
        &mut self,
        (arguments, shared, clones): (&BatchArgs, &Shared, Option<&Clones>),
        (kept, journal): (Option<&BatchFolder>, &mut Journal),
        check: &mut dyn FnMut(&Item) -> Result<(), Failure>,
    ) -> Result<ItemList, Failure> {
        let mut writer = ListWriter::begin(kept)?;
        let mut refused = None;
        let out = folder::path_of(arguments, shared, None);
        let read = source::items(arguments, (shared, clones), out.as_deref(), &mut |item| {
            if item.n == 1
                && let Err(failure) = check(&item)
            {
                refused = Some(failure);
                return Err(std::io::Error::other("the first item is refused").into());
            }
            writer.add(&item)?;
            self.add(&item, journal);
            Ok(())
        });
        if let Some(failure) = refused {
            return Err(failure);
        }
        read?;
        if let Some(key) = self.rerun.keys.iter().min() {
            return Err(BatchError::Rerun(crate::emit::safe::one_line(key)).into());
        }
        Ok(writer.end(kept)?)
    }

    fn add(&mut self, item: &Item, journal: &mut Journal) {
        let state = journal.list(&item.key);
        let is_named = self.rerun.keys.remove(&item.key);
        if self.shard.is_some_and(|shard| !shard.has(item.n)) {
            return;
        }
        self.total += 1;
        let is_full = self.limit.is_some_and(|limit| self.items.len() + self.suspects.len() >= limit as usize);
        match self.decide(item, state, is_named) {
            Decision::Skip { exit_code } => self.done.push(exit_code),
            Decision::GiveUp { tries, crashes } => {
                self.crashed.push((Turn { n: item.n, tries, alone: true }, crashes));
            }
            Decision::Run { .. } if is_full => self.left_out += 1,
            Decision::Run { tries, alone: false } => self.items.push_back(Turn { n: item.n, tries, alone: false }),
            Decision::Run { tries, alone: true } => self.suspects.push(Turn { n: item.n, tries, alone: true }),
        }
    }

    fn decide(&self, item: &Item, state: Option<State>, is_named: bool) -> Decision {
        let anew = Decision::Run { tries: 0, alone: false };
        let Some(state) = state else { return anew };
        let done = state.exit_code.filter(|_| state.is_done(&item.sha256));
        let again = |exit_code: u8| {
            let failed = is_failure(exit_code) || exit_code == Exit::Denied.code();
            self.rerun.all || is_named || self.rerun.failed && failed
        };
        match done {
            Some(exit_code) if !again(exit_code) => Decision::Skip { exit_code },
            Some(_) => anew,
            None if is_named || self.rerun.all => anew,
            None if state.died_alone => Decision::GiveUp { tries: tries_of(&state, item), crashes: state.crashes },
            None => Decision::Run { tries: tries_of(&state, item), alone: state.crashes >= SUSPECT },
        }
    }

    /// Says which items of the journal are no longer in the list.
    pub(super) fn gone(kept: Option<&BatchFolder>, journal: &Journal) -> Result<Option<String>, Failure> {
        let mut gone: HashSet<Short> = journal.unlisted().collect();
        let Some(kept) = kept.filter(|_| !gone.is_empty()) else { return Ok(None) };
        let (all, mut names) = (gone.len(), Vec::new());
        kept.read_journal(&mut |line| {
            if gone.remove(&Short::of(&line.key)) && names.len() < NAMED {
                names.push(crate::emit::safe::one_line(&line.key));
            }
        })?;
        let more = if all > names.len() { " …" } else { "" };
        let count = crate::emit::words_count(all as u64, "item");
        Ok(Some(format!("{count} of the journal not in the list any more: {}{more}", names.join(", "))))
    }

    /// Returns the number of items of this call's list or shard.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Returns how many are done.
    pub(super) fn skipped(&self) -> u64 {
        self.done.len() as u64
    }

    /// Returns the shard.
    pub(super) fn shard(&self) -> Option<Shard> {
        self.shard
    }

    /// Returns what was spent before this call, and the most that one item has cost.
    pub(super) fn before(&self) -> (Amount, Amount) {
        self.before
    }

    /// Returns what the engine is to do, and records what is given up.
    pub(super) fn into_plan(self, list: &ItemList, records: &Records<'_>, budget: Budget) -> Result<Plan, Failure> {
        let mut tally = Tally::new(self.total);
        tally.leave_out(self.left_out);
        self.done.iter().for_each(|exit_code| tally.skip(*exit_code));
        for (turn, crashes) in &self.crashed {
            let item = list.item(turn.n).map_err(|error| Failure::output(format!("cannot read the list: {error}")))?;
            records.give_up(crashed(&item, turn.tries + 1, *crashes))?;
            tally.end(Exit::Failed, true, 1, None);
        }
        let mut queue = self.items;
        queue.extend(self.suspects);
        Ok(Plan { queue, tally, budget })
    }
}

/// Returns the tries that an item has behind it: of another item of this key, none.
fn tries_of(state: &State, item: &Item) -> u32 {
    if state.sha256 == Some(Short::of_hex(&item.sha256)) { state.tries } else { 0 }
}

/// Returns what is to be said of the items at the end, in the order of their numbers.
pub(super) fn notable(list: &ItemList, shard: Option<Shard>, journal: &Journal) -> Result<Vec<Notable>, Failure> {
    if !journal.has_notable() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for n in (1..=list.len()).filter(|n| shard.is_none_or(|shard| shard.has(*n))) {
        let item = list.item(n).map_err(|error| Failure::output(format!("cannot read the list: {error}")))?;
        let of_item = journal.notable(Short::of(&item.key));
        found.extend(of_item.filter(|notable| notable.sha256 == Short::of_hex(&item.sha256)).cloned());
    }
    Ok(found)
}
