//! Assigns fragments of calls to the calls that they belong to.
//!
//! Neither the id nor the index can be trusted alone: ids come late, empty, or on every chunk; indexes are missing, or
//! the same for every call.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::chunk::CallPiece;
use super::cumulative::Joined;
use super::repair::{self, Fragment, Reading};
use super::tool_set::ToolSet;
use super::{Arguments, NOT_RUN, ToolCall};
use crate::tool_name;

/// Calls of one turn that are run.
const MAX_CALLS: usize = 128;

/// Calls of one turn that are read at all: each gets its answer.
pub(super) const MOST_CALLS: usize = 1024;

/// Bytes of arguments of one turn.
const MAX_ARGUMENTS: usize = 16 << 20;

/// Follows the nesting of arguments as they arrive.
#[derive(Debug, Default)]
struct Nesting {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// Where the last object at the top begins.
    start: usize,
    /// Objects at the top that are complete.
    objects: usize,
    /// Something else is at the top level.
    other: bool,
    /// Anything but whitespace arrived.
    has_begun: bool,
    length: usize,
}

impl Nesting {
    fn push(&mut self, text: &str) {
        self.has_begun = self.has_begun || !text.trim_start().is_empty();
        for byte in text.bytes() {
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
            } else {
                match byte {
                    b'{' | b'[' => {
                        if self.depth == 0 {
                            self.start = self.length;
                            self.other |= byte == b'[';
                        }
                        self.depth += 1;
                    }
                    b'}' | b']' => {
                        self.other |= self.depth == 0;
                        self.depth = self.depth.saturating_sub(1);
                        self.objects += usize::from(self.depth == 0);
                    }
                    b'"' => {
                        self.other |= self.depth == 0;
                        self.in_string = true;
                    }
                    b' ' | b'\t' | b'\r' | b'\n' => {}
                    _ => self.other |= self.depth == 0,
                }
            }
            self.length += 1;
        }
    }

    fn is_complete(&self) -> bool {
        self.objects > 0 && self.depth == 0 && !self.in_string && !self.other
    }

    fn is_open(&self) -> bool {
        self.depth > 0 || self.in_string
    }
}

/// One call as far as it arrived.
#[derive(Debug, Default)]
struct Slot {
    index: Option<u64>,
    id: Option<String>,
    name: String,
    arguments: Joined,
    nesting: Nesting,
    /// The last object at the top level, parsed when a replay had to be told from a new call.
    last: Option<Value>,
}

impl Slot {
    fn is_complete(&self) -> bool {
        self.nesting.is_complete() && self.arguments.pending_whole().is_none()
    }

    fn has_arguments(&self) -> bool {
        self.nesting.has_begun
    }

    fn has_other_name(&self, piece: &CallPiece) -> bool {
        piece.name.as_ref().is_some_and(|name| !self.name.is_empty() && self.name != *name)
    }

    /// Tells whether a piece that has neither id nor index belongs to this call, the last one.
    fn is_continued(&self, piece: &CallPiece, tools: &ToolSet) -> bool {
        let Some(name) = piece.name.as_ref().filter(|_| !self.name.is_empty()) else { return true };
        let (is_same, is_blank) = (self.name == *name, piece.is_blank());
        let is_fragment = !self.has_arguments() && !is_same && tools.exact(&format!("{}{name}", self.name)).is_some();
        let continues = is_same && self.has_arguments() && !self.is_complete() && !piece.starts_object() && !is_blank;
        !self.has_arguments() && is_same || is_fragment || continues || is_same && is_blank
    }

    /// Tells whether a piece repeats the last complete object.
    fn is_replay(&mut self, arguments: &str) -> bool {
        let Ok(new @ Value::Object(_)) = serde_json::from_str::<Value>(arguments) else { return false };
        let text = self.arguments.text();
        let last = &text[self.nesting.start.min(text.len())..];
        let old = self.last.get_or_insert_with(|| serde_json::from_str(last).unwrap_or(Value::Null));
        *old == new
    }
}

/// The calls of a turn as far as they arrived.
#[derive(Debug, Default)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    by_index: HashMap<u64, usize>,
    /// The index of the last fragment and its slot: most fragments belong to the same call as the previous one.
    last_index: Option<(u64, usize)>,
    by_id: HashMap<String, usize>,
    bytes: usize,
    /// Bytes that were examined.
    pub(super) scanned: u64,
    /// A cap was broken.
    pub(super) too_large: bool,
    /// What was repaired.
    pub(super) flags: Vec<&'static str>,
}

/// What the slots came to.
#[derive(Debug, Default)]
pub(super) struct Finished {
    pub(super) calls: Vec<Unnumbered>,
    /// Arguments came for a call whose name never did.
    pub(super) has_nameless: bool,
}

/// A call whose id is not final.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Unnumbered {
    pub(super) id: Option<String>,
    pub(super) name: String,
    pub(super) arguments: Arguments,
    pub(super) recovered: Option<&'static str>,
    /// What was repaired in the arguments.
    pub(super) notes: Vec<String>,
    /// Whether arguments came at all; without a finish, an empty call may have been cut.
    pub(super) has_arguments: bool,
}

impl Slots {
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Counts complete and other calls so far.
    pub(super) fn counts(&self) -> (usize, usize) {
        let complete = self.slots.iter().filter(|slot| slot.is_complete() && !slot.name.is_empty()).count();
        (complete, self.slots.len() - complete)
    }

    /// Tells whether a piece of a closing `message` repeats a call that is here.
    pub(super) fn knows(&mut self, piece: &CallPiece, tools: &ToolSet) -> bool {
        if let Some(id) = &piece.id
            && self.by_id.contains_key(id)
        {
            return true;
        }
        let has_name = |slot: &Slot| piece.name.as_ref().is_some_and(|name| slot.name == *name);
        let arguments = if piece.arguments.trim().is_empty() { "{}" } else { piece.arguments.as_str() };
        self.slots.iter_mut().any(|slot| {
            has_name(slot)
                && (slot.is_complete() && slot.is_replay(arguments)
                    || !slot.has_arguments() && arguments.trim() == "{}")
        }) && tools.exact(piece.name.as_deref().unwrap_or_default()).is_some()
    }

    /// Takes a call's name, whole or in parts.
    fn name(&mut self, at: usize, name: &str, tools: &ToolSet) {
        let slot = &mut self.slots[at];
        if slot.name.is_empty() {
            slot.name = name.to_owned();
        } else if slot.name != name {
            let whole = format!("{}{name}", slot.name);
            if !slot.has_arguments() && tools.exact(&whole).is_some() {
                slot.name = whole;
            } else {
                flag(&mut self.flags, "conflicting_identity");
            }
        }
    }

    /// Sorts a piece in.
    pub(super) fn push(&mut self, piece: &CallPiece, tools: &ToolSet) {
        let Some(at) = self.pick(piece, tools) else { return };
        let slot = &mut self.slots[at];
        if let Some(id) = &piece.id
            && slot.id.is_none()
        {
            slot.id = Some(id.clone());
            self.by_id.insert(id.clone(), at);
        }
        if let Some(index) = piece.index {
            slot.index.get_or_insert(index);
            if self.last_index != Some((index, at)) {
                self.last_index = Some((index, at));
                self.by_index.insert(index, at);
            }
        }
        if let Some(name) = &piece.name {
            self.name(at, name, tools);
        }
        if piece.arguments.is_empty() {
            return;
        }
        self.bytes += piece.arguments.len();
        if self.bytes > MAX_ARGUMENTS {
            self.too_large = true;
            return;
        }
        let slot = &mut self.slots[at];
        if slot.is_complete()
            && piece.arguments.trim_start().starts_with('{')
            && slot.arguments.text().trim() == "{}"
            && tools.has_required(&slot.name)
        {
            // Some proxies open with an empty object before the arguments come.
            slot.arguments.clear();
            slot.nesting = Nesting::default();
        }
        slot.last = None;
        let added = slot.arguments.push(&piece.arguments);
        slot.nesting.push(added);
        self.scanned += added.len() as u64;
    }

    /// Finds the slot of a piece; `None` if the piece only repeats what is there.
    fn pick(&mut self, piece: &CallPiece, tools: &ToolSet) -> Option<usize> {
        if let Some(id) = &piece.id {
            return match self.by_id.get(id) {
                Some(&at) => self.pick_known_id(piece, at),
                None => self.pick_new_id(piece),
            };
        }
        let last = self.slots.len().checked_sub(1);
        let meant = piece.index.map_or(last, |index| self.at_index(index));
        if piece.name.is_none()
            && piece.starts_object()
            && let Some(slot) = meant.map(|at| &mut self.slots[at]).filter(|slot| slot.is_complete())
            && slot.is_replay(&piece.arguments)
        {
            // Some servers end a call by its whole arguments; what calls anew has a name or an id.
            return self.repeated(piece);
        }
        match (meant, piece.index.is_some()) {
            (None, _) => self.open(piece),
            (Some(at), true) => self.pick_index(piece, at, tools),
            (Some(at), false) if self.slots[at].is_continued(piece, tools) => Some(at),
            (Some(_), false) => self.open(piece),
        }
    }

    /// Notes a piece that only repeats what is there.
    fn repeated(&mut self, piece: &CallPiece) -> Option<usize> {
        self.scanned += piece.arguments.len() as u64;
        flag(&mut self.flags, "replayed_call");
        None
    }

    /// Finds the slot of a piece whose id the slot at `at` has.
    fn pick_known_id(&mut self, piece: &CallPiece, at: usize) -> Option<usize> {
        let slot = &mut self.slots[at];
        if !slot.is_complete() || !piece.starts_object() {
            return Some(at);
        }
        if slot.is_replay(&piece.arguments) {
            return self.repeated(piece);
        }
        if (piece.index.is_some() && piece.index != slot.index) || slot.has_other_name(piece) {
            flag(&mut self.flags, "duplicate_id");
            return self.open(piece);
        }
        Some(at)
    }

    /// Finds the slot of a piece with an id that is new.
    fn pick_new_id(&mut self, piece: &CallPiece) -> Option<usize> {
        let at = match piece.index {
            Some(index) => self.at_index(index),
            None => self.slots.len().checked_sub(1).filter(|&at| {
                // Without an index only a call that just began can be meant.
                !self.slots[at].has_arguments() || piece.name.is_none()
            }),
        };
        let Some(at) = at else { return self.open(piece) };
        let (slot, is_blank) = (&self.slots[at], piece.is_blank());
        if slot.has_other_name(piece) {
            return self.open(piece);
        }
        if slot.id.is_none() && !slot.is_complete() {
            return Some(at);
        }
        // Some servers make an id of its own for every piece: what is in the middle of an object, or has arguments
        // and no name, continues with the call that is open.
        let continues = slot.nesting.is_open() && !is_blank && !piece.starts_object()
            || piece.name.is_none() && !is_blank && !slot.name.is_empty() && !slot.has_arguments();
        if piece.index.is_none() || !continues {
            return self.open(piece);
        }
        flag(&mut self.flags, "changing_id");
        Some(at)
    }

    /// Finds the slot of a piece without an id whose index the slot at `at` has.
    fn pick_index(&mut self, piece: &CallPiece, at: usize, tools: &ToolSet) -> Option<usize> {
        let slot = &self.slots[at];
        if slot.is_complete() && piece.starts_object() {
            let is_placeholder = slot.arguments.text().trim() == "{}" && tools.has_required(&slot.name);
            if is_placeholder && !slot.has_other_name(piece) {
                return Some(at);
            }
            let name = slot.name.clone();
            let new = self.open(piece)?;
            if piece.name.is_none() {
                self.slots[new].name = name;
            }
            flag(&mut self.flags, "glued_calls");
            return Some(new);
        }
        // Calls without arguments, all at the same index and without ids: only the name tells them apart.
        if slot.id.is_none() && slot.has_other_name(piece) {
            let name = piece.name.as_deref().unwrap_or_default();
            let is_fragment = tools.exact(&format!("{}{name}", slot.name)).is_some();
            let both_known = tools.exact(name).is_some() && tools.exact(&slot.name).is_some();
            if slot.is_complete() || (!slot.has_arguments() && both_known && !is_fragment) {
                return self.open(piece);
            }
        }
        Some(at)
    }

    fn at_index(&self, index: u64) -> Option<usize> {
        match self.last_index {
            Some((last, at)) if last == index => Some(at),
            Some(_) | None => self.by_index.get(&index).copied(),
        }
    }

    fn open(&mut self, piece: &CallPiece) -> Option<usize> {
        if self.slots.len() >= MOST_CALLS {
            self.too_large = true;
            return None;
        }
        // An id that is taken stays with its first call; numbering gives this one its own.
        let id = piece.id.clone();
        self.slots.push(Slot { index: piece.index, id: id.clone(), ..Slot::default() });
        let at = self.slots.len() - 1;
        if let Some(id) = id {
            self.by_id.insert(id, at);
        }
        Some(at)
    }

    /// Ends every call. `was_cut` says that the server hit the output limit.
    pub(super) fn finish(&mut self, tools: &ToolSet, was_cut: bool) -> Finished {
        let mut finished = Finished::default();
        let mut slots = std::mem::take(&mut self.slots);
        if slots.iter().all(|slot| slot.index.is_some()) {
            slots.sort_by_key(|slot| slot.index);
        }
        let count = slots.len();
        for (at, mut slot) in slots.into_iter().enumerate() {
            let whole = slot.arguments.pending_whole().map(str::to_owned);
            slot.nesting.push(slot.arguments.flush());
            let mut raw = slot.arguments.text();
            if let Some(whole) = &whole
                && serde_json::from_str::<Value>(raw).is_err()
                && matches!(serde_json::from_str(whole), Ok(Value::Object(_)))
            {
                // Every chunk repeated the beginning; the last one is the whole.
                raw = whole;
            }
            let is_blank = raw.trim().is_empty();
            if slot.name.is_empty() {
                finished.has_nameless |= !is_blank;
                continue;
            }
            let name = tool_name::bare(&slot.name).to_owned();
            self.scanned += raw.len() as u64;
            let cut_before_arguments = is_blank && was_cut && at + 1 == count;
            let read = if cut_before_arguments {
                vec![Arguments::Incomplete { raw: String::new() }]
            } else {
                self.read(raw, &name, slot.nesting.is_open() && was_cut, tools)
            };
            for (place, arguments) in read.into_iter().enumerate() {
                finished.calls.push(Unnumbered {
                    id: if place == 0 { slot.id.clone() } else { None },
                    name: name.clone(),
                    arguments,
                    recovered: None,
                    notes: Vec::new(),
                    has_arguments: !is_blank,
                });
            }
        }
        self.too_large |= finished.calls.len() > MOST_CALLS;
        finished
    }

    fn read(&mut self, raw: &str, name: &str, was_cut: bool, tools: &ToolSet) -> Vec<Arguments> {
        match repair::read(raw) {
            Reading::Fragments { mut pieces, steps } => {
                for step in steps {
                    flag(&mut self.flags, step);
                }
                if pieces.len() > 1 && tools.has_required(name) {
                    pieces.retain(|piece| !matches!(piece, Fragment::Object(object) if object.is_empty()));
                }
                if pieces.is_empty() {
                    pieces.push(Fragment::Object(serde_json::Map::new()));
                }
                pieces.into_iter().map(arguments_of).collect()
            }
            Reading::Invalid { .. } if was_cut => vec![Arguments::Incomplete { raw: raw.to_owned() }],
            Reading::Invalid { problem } => vec![match tools.with_brace(name, raw) {
                Some(object) => {
                    flag(&mut self.flags, "missing_brace");
                    Arguments::Object(object)
                }
                None => Arguments::Invalid { raw: raw.to_owned(), problem },
            }],
        }
    }
}

fn arguments_of(piece: Fragment) -> Arguments {
    match piece {
        Fragment::Object(object) => Arguments::Object(object),
        Fragment::Incomplete(raw) => Arguments::Incomplete { raw },
    }
}

/// Gives every call an id of its own: the server's where it can be, else one made of turn and place. Calls beyond
/// [`MAX_CALLS`] are answered and not run.
pub(super) fn number(calls: Vec<Unnumbered>, turn: u32, used: &HashSet<String>) -> Vec<ToolCall> {
    let mut taken: HashSet<String> = HashSet::new();
    let number = |(ordinal, call): (usize, Unnumbered)| {
        let wanted = call.id.as_deref().map(safe_id).unwrap_or_else(|| format!("call_{turn}_{ordinal}"));
        let mut id = wanted.clone();
        let mut copy = 1;
        while used.contains(&id) || taken.contains(&id) {
            copy += 1;
            let suffix = format!("_{copy}");
            let room = MAX_ID - suffix.len();
            id = format!("{}{suffix}", &wanted[..wanted.len().min(room)]);
        }
        taken.insert(id.clone());
        let arguments = if ordinal < MAX_CALLS {
            call.arguments
        } else {
            Arguments::Invalid { raw: String::new(), problem: NOT_RUN.into() }
        };
        ToolCall { id, name: call.name, arguments, recovered: call.recovered, notes: call.notes }
    };
    calls.into_iter().enumerate().map(number).collect()
}

/// The longest id that every server takes back.
const MAX_ID: usize = 40;

fn safe_id(id: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    id.chars().take(MAX_ID).map(safe).collect()
}

pub(super) fn flag(flags: &mut Vec<&'static str>, name: &'static str) {
    if !flags.contains(&name) {
        flags.push(name);
    }
}
